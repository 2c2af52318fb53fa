"""The chapter on kernels: its frozen outputs, and its run on a system without Triton."""

import os
import re

import jupytext
import nbformat
import pytest
from conftest import ROOT
from nbclient import NotebookClient

from posenc.lab.experiments import load_results
from posenc.lab.pages.kernels import MARK

PAGE = ROOT / "book" / "kernels.md"


@pytest.fixture
def notebook():
    return jupytext.read(PAGE)


def marked(notebook):
    """Cells that need Triton, by name."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.startswith(MARK)]
    return {cell.source.partition("\n")[0].removeprefix(MARK): cell for cell in cells}


def test_every_cell_that_needs_triton_is_frozen(notebook):
    assert list(marked(notebook)) == list(load_results("kernels_page")["outputs"]), "run python book/freeze.py"


def test_no_other_cell_touches_triton(notebook):
    """Where there is no Triton the others run as they stand."""
    others = [cell for cell in notebook.cells if cell.cell_type == "code" and not cell.source.startswith(MARK)]
    words = re.compile(r"triton\.|\btl\.|posenc\.kernels|import triton|impl=\"triton\"")
    for cell in others[1:]:  # the first is the page's setup
        assert not words.search(re.sub(r'"[^"\n]*"', '""', cell.source)), cell.source[:200]


def test_the_page_runs_without_triton(notebook):
    """With Triton hidden, the marked cells print what is frozen and everything else passes its assertions."""
    notebook.cells.insert(0, nbformat.v4.new_code_cell("import sys\nsys.modules['triton'] = None"))
    environment = {**os.environ, "POSENC_PRESET": "nano", "OMP_NUM_THREADS": "1"}
    client = NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(PAGE.parent)}})
    client.execute(env=environment)
    frozen = load_results("kernels_page")["outputs"]
    shown = {name: "".join(out.text for out in cell.outputs) for name, cell in marked(notebook).items()}
    assert shown == frozen
