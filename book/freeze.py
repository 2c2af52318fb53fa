"""Write results/kernels_page.json: what cells of the kernels chapter print that need Triton, for systems without it.

python book/freeze.py
"""

from dataclasses import dataclass
from pathlib import Path

import jupytext
from nbclient import NotebookClient

from posenc.lab.experiments import provenance, write_json

ROOT = Path(__file__).parents[1]
MARK = "# needs Triton: "
FACTS = ("name", "command", "commit", "versions", "machine", "settings")


@dataclass
class Settings:
    """Of a run."""

    page: str
    interpreted: bool = True


if __name__ == "__main__":
    page = ROOT / "book" / "kernels.md"
    notebook = jupytext.read(page)
    NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(page.parent)}}).execute()
    outputs = {}
    for cell in notebook.cells:
        if cell.cell_type == "code" and cell.source.startswith(MARK):
            name = cell.source.partition("\n")[0].removeprefix(MARK)
            outputs[name] = "".join(
                out.text for out in cell.outputs if out.output_type == "stream" and out.name == "stdout"
            )
    if not all(outputs.values()):
        raise SystemExit(f"a cell printed nothing: {outputs}")
    facts = provenance("kernels_page", "nano", Settings("book/kernels.md"), "python book/freeze.py")
    question = {"question": "What do the cells of the kernels chapter print that need Triton?"}
    results = {key: facts[key] for key in FACTS} | question | {"outputs": outputs}
    write_json(ROOT / "results" / "kernels_page.json", results)
