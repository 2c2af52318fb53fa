"""Write results/kernels_page.json: what the cells print that need Triton, for systems without it.

python book/_tools/freeze.py
"""

from dataclasses import dataclass
from pathlib import Path

import jupytext
from nbclient import NotebookClient

from posenc.chapters.kernels.facts import MARK, PAGES
from posenc.lab.experiments import provenance, write_json

BOOK = Path(__file__).parent
FACTS = ("name", "command", "commit", "versions", "machine", "settings")


@dataclass
class Settings:
    """Of a run."""

    pages: tuple[str, ...]
    interpreted: bool = True


if __name__ == "__main__":
    outputs = {}
    for page in PAGES:
        notebook = jupytext.read(BOOK / page / "index.md")
        NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(BOOK)}}).execute()
        for cell in notebook.cells:
            if cell.cell_type == "code" and cell.source.startswith(MARK):
                name = cell.source.partition("\n")[0].removeprefix(MARK)
                outputs[name] = "".join(
                    out.text for out in cell.outputs if out.output_type == "stream" and out.name == "stdout"
                )
    if not all(outputs.values()):
        raise SystemExit(f"a cell printed nothing: {outputs}")
    settings = Settings(tuple(f"book/{page}/index.md" for page in PAGES))
    facts = provenance("kernels_page", "nano", settings, "python book/_tools/freeze.py")
    question = {"question": "What do the cells of the pages on kernels print that need Triton?"}
    results = {key: facts[key] for key in FACTS} | question | {"outputs": outputs}
    write_json(BOOK.parent / "results" / "kernels_page.json", results)
