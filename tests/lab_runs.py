"""What the tests of the labs share: course/labs.py as a module, and notebooks run, here or in a kernel of their own."""

import contextlib
import copy
import importlib.util
import io
import linecache
import os
import re
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
from IPython.core.inputtransformer2 import TransformerManager
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from nbclient import NotebookClient
from nbclient.exceptions import CellTimeoutError, DeadKernelError

ROOT = Path(__file__).resolve().parent.parent
TINY = ROOT / "tests" / "tiny"
# Seconds a cell may take, first and second time; it takes a few. Now and then a kernel and its client lose a message,
# and each waits for the other: then the notebook is run once more. A cell that hangs by itself hangs twice.
LIMITS = (120, 600)

_spec = importlib.util.spec_from_file_location("labs", ROOT / "course" / "labs.py")
labs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(labs)


def run_here(notebook):
    """Run a copy of a notebook top to bottom, past errors, in this process, and return it with what it printed.

    It takes a second where a kernel takes ten; widgets and pictures are made, and shown nowhere.
    """
    ran, space = copy.deepcopy(notebook), {"__name__": "__main__"}
    plt.switch_backend("agg")
    for cell in ran.cells:
        if cell.cell_type != "code":
            continue
        source, said = TransformerManager().transform_cell(cell.source), io.StringIO()
        linecache.cache[cell.id] = (len(source), None, source.splitlines(keepends=True), cell.id)  # Triton reads it
        cell.outputs = []
        try:
            with contextlib.redirect_stdout(said), contextlib.redirect_stderr(io.StringIO()), warnings.catch_warnings():
                warnings.filterwarnings("ignore", message=".*non-interactive.*")
                exec(compile(source, cell.id, "exec"), space)
        except Exception as error:
            name, words = type(error).__name__, str(error)
            cell.outputs.append(nbformat.v4.new_output("error", ename=name, evalue=words, traceback=[]))
        cell.outputs.append(nbformat.v4.new_output("stream", name="stdout", text=said.getvalue()))
        plt.close("all")
    return ran


def run(notebook, folder, kernel_dir=None, **environment):
    """Run a copy of a notebook top to bottom, past errors, at preset nano, and return it."""
    settings = {"POSENC_PRESET": "nano", "OMP_NUM_THREADS": "1", "TINY_CHECKS": str(TINY / "checks")}
    for limit in LIMITS:
        ran, manager = copy.deepcopy(notebook), None
        if kernel_dir is not None:  # a kernel spec called python3 in this folder, instead of this Python's
            specs = KernelSpecManager(kernel_dirs=[str(kernel_dir)], ensure_native_kernel=False)
            manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=specs)
        client = NotebookClient(
            ran,
            km=manager,
            timeout=limit,
            startup_timeout=limit,
            kernel_name="python3",
            allow_errors=True,
            resources={"metadata": {"path": str(folder)}},
        )
        try:
            client.execute(env={**os.environ, **settings, **environment})
            return ran
        except (CellTimeoutError, DeadKernelError):
            if limit == LIMITS[-1]:
                raise


def errors(notebook):
    """The cells that raised: {cell id: "ValueError: ..."}."""
    return {
        cell.id: f"{output.ename}: {output.evalue}"
        for cell in notebook.cells
        for output in cell.get("outputs", [])
        if output.output_type == "error"
    }


def printed(notebook):
    """All that the notebook printed, as one string."""
    outputs = [output for cell in notebook.cells for output in cell.get("outputs", [])]
    return "".join(output.text for output in outputs if output.output_type == "stream" and output.name == "stdout")


def checked(notebook):
    """The exercises that the notebook checks: ["rope.rotate", ...]."""
    source = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    return re.findall(r"\bcheck\(\s*[\"']([\w.]+)[\"']", source)


def graded(notebook):
    """The ids of the cells that hold tests for nbgrader."""
    return [cell.id for cell in notebook.cells if labs.is_test(cell)]
