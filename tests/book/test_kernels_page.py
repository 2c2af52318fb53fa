"""The two pages on kernels: their frozen outputs, and their run on a system without Triton."""

import os

import jupytext
import nbformat
import pytest
from conftest import ROOT
from nbclient import NotebookClient

from posenc.lab.experiments import load_results
from posenc.lab.pages.kernels import MARK, PAGES


def read(page):
    return jupytext.read(ROOT / "book" / f"{page}.md")


def marked(notebook):
    """Cells that need Triton, by name."""
    cells = [cell for cell in notebook.cells if cell.cell_type == "code" and cell.source.startswith(MARK)]
    return {cell.source.partition("\n")[0].removeprefix(MARK): cell for cell in cells}


def test_every_cell_that_needs_triton_is_frozen():
    names = [name for page in PAGES for name in marked(read(page))]
    assert names == list(load_results("kernels_page")["outputs"]), "run python book/freeze.py"


@pytest.mark.weekly
@pytest.mark.parametrize("page", PAGES)
def test_a_page_runs_without_triton(page):
    """With Triton hidden, the marked cells print what is frozen and everything else passes its assertions."""
    notebook = read(page)
    notebook.cells.insert(0, nbformat.v4.new_code_cell("import sys\nsys.modules['triton'] = None"))
    environment = {**os.environ, "POSENC_PRESET": "nano", "OMP_NUM_THREADS": "1"}
    client = NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(ROOT / "book")}})
    client.execute(env=environment)
    frozen = load_results("kernels_page")["outputs"]
    shown = {name: "".join(out.text for out in cell.outputs) for name, cell in marked(notebook).items()}
    assert shown and shown == {name: frozen[name] for name in shown}
