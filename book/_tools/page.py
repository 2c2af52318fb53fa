r"""Run the cells of a chapter as the build does, and print what they print: `make page PAGE=rope`."""

import sys
from pathlib import Path

from myst_nb.core.read import read_myst_markdown_notebook

BOOK = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(BOOK / "_ext"))
from execution import run_cells  # noqa: E402


def main(chapter: str = "") -> None:
    page = BOOK / chapter / "index.md"
    if not page.is_file():
        raise SystemExit(f"PAGE={chapter} is no chapter: {sorted(p.parent.name for p in BOOK.glob('*/index.md'))}")
    notebook = read_myst_markdown_notebook(page.read_text("utf-8"))
    run_cells(notebook, page.parent)
    for output in sum((cell.get("outputs", []) for cell in notebook.cells), []):
        print(output.get("text") or output.get("data", {}).get("text/markdown", ""), end="")


if __name__ == "__main__":
    main(*sys.argv[1:])
