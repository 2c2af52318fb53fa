"""Write results/kernels_page.json: what the cells print that need Triton, for systems without it.

python book/_tools/freeze.py
"""

import jupytext
from nbclient import NotebookClient

from posenc.chapters.kernels.facts import MARK, PAGES
from posenc.lab.experiments import provenance, write_json
from posenc.lab.experiments.results import ORIGIN
from posenc.lab.train import settings_for
from posenc.lab.write import ROOT

if __name__ == "__main__":
    outputs = {}
    for page in PAGES:
        folder = ROOT / "book" / page
        notebook = jupytext.read(folder / "index.md")
        NotebookClient(notebook, kernel_name="python3", resources={"metadata": {"path": str(folder)}}).execute()
        for cell in notebook.cells:
            if cell.cell_type == "code" and cell.source.startswith(MARK):
                name = cell.source.partition("\n")[0].removeprefix(MARK)
                streams = (out for out in cell.outputs if out.output_type == "stream" and out.name == "stdout")
                outputs[name] = "".join(out.text for out in streams)
    if not all(outputs.values()):
        raise SystemExit(f"a cell printed nothing: {outputs}")
    facts = provenance("kernels_page", "nano", settings_for("nano"), "python book/_tools/freeze.py")
    facts["settings"] = {"pages": [f"book/{page}/index.md" for page in PAGES], "interpreted": True}
    facts["question"] = "What do the cells of the pages on kernels print that need Triton?"
    results = {key: facts[key] for key in (*ORIGIN, "question")} | {"outputs": outputs}
    write_json(ROOT / "results" / "kernels_page.json", results)
