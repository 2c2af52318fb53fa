"""What the tests of the labs share: book/_tools/labs.py, and notebooks run here."""

import contextlib
import copy
import io
import linecache
import os
import re
import warnings
from pathlib import Path

import matplotlib.pyplot as plt
import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager

from posenc.chapters._tools import labs

ROOT = Path(__file__).resolve().parent.parent
TINY = ROOT / "tests" / "tiny"


def private(name):
    """A file of book/, or of POSENC_KIT's; what asks for one that `labs.py --kit` has moved elsewhere is skipped."""
    path = Path(os.environ.get("POSENC_KIT", ROOT)) / "book" / name
    if not path.exists():
        pytest.skip(f"book/{name} is not here: it is in a teacher's kit", allow_module_level=True)
    return path


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
