r"""What the book's own extensions hand on: the vendored files, the cache of executed pages, the links to Colab."""

import hashlib
import json
import multiprocessing
import os
from pathlib import Path
from types import SimpleNamespace

import pytest

from posenc.lab.experiments import load_results
from posenc.lab.write import pm

ROOT = Path(__file__).resolve().parents[2]


def test_vendored_files_are_what_was_vendored():
    for entry in json.loads((ROOT / "book/vendor/vendor.json").read_text("utf-8")):
        for name, digest in entry["files"].items():
            assert hashlib.sha256((ROOT / name).read_bytes()).hexdigest() == digest, (
                f"{name} differs: run `make vendor`"
            )


@pytest.fixture
def site_parts(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    for name in ("POSENC_BOOK", "IPYTHONDIR"):
        monkeypatch.setenv(name, "")  # which the extension sets; put back afterwards
    return pytest.importorskip("site_parts", reason="Sphinx is missing: run `make test` once")


@pytest.fixture
def execution(site_parts):
    import execution

    yield execution
    execution.now.cache_clear()


def test_outputs_are_of_the_files_that_a_page_has_read(execution, tmp_path, monkeypatch):
    monkeypatch.setattr(execution, "ROOT", tmp_path)
    (tmp_path / "posenc").mkdir()
    source, other = tmp_path / "posenc" / "rope.py", tmp_path / "posenc" / "alibi.py"
    for path in (source, other):
        path.write_text("sign = 1")
        os.utime(path, (0, 0))
    os.utime(tmp_path / "posenc", (0, 0))
    record = execution.Record(tmp_path)
    record.keep("book/rope", {"posenc/rope.py": True, "posenc": False}, 1.0, cells="c")
    record.write()

    def fresh(name="book/rope", cells="c"):
        execution.now.cache_clear()
        return execution.Record(tmp_path).fresh(name, cells=cells)

    assert fresh() and not fresh(cells="other cells") and not fresh("book/alibi")
    other.write_text("sign = 2")
    assert fresh(), "a file that it has not read"
    source.write_text("sign = -1")
    assert not fresh()
    source.write_text("# a comment\nsign = 1")
    assert fresh()
    (tmp_path / "posenc" / "fox.py").write_text("")
    assert not fresh(), "a file in a folder that it has listed"
    monkeypatch.setenv("POSENC_PRESET", "lab")
    execution.settings.cache_clear()
    (tmp_path / "posenc" / "fox.py").unlink()
    assert not fresh()
    execution.settings.cache_clear()


CELLS = """import matplotlib.pyplot as plt
from posenc.lab.experiments import load_results
print(len(load_results("needle")) > 0)
plt.plot([1, 2]);
---
1 / 0
"""


@pytest.mark.weekly  # another Python, seven seconds; the gate builds all pages so
def test_a_page_runs_in_a_process_of_its_own_and_says_what_it_has_read(execution, tmp_path, monkeypatch):
    nbformat = pytest.importorskip("nbformat")
    monkeypatch.setenv("MPLBACKEND", execution.INLINE)
    good, bad = map(nbformat.v4.new_code_cell, CELLS.split("---\n"))
    books = [nbformat.v4.new_notebook(cells=cells) for cells in ([good], [good, bad])]
    jobs = [{name: (str(tmp_path), nbformat.writes(book))} for name, book in zip(("good", "bad"), books)]
    with multiprocessing.get_context("spawn").Pool(1, maxtasksperchild=1) as pool:
        [(_, made, reads, _, wrong)], [(*_, error)] = pool.map(execution.work, jobs, chunksize=1)
    assert wrong == "" and "ZeroDivisionError" in error
    assert not reads["results/needle.json"] and reads["posenc/rotate/rope.py"], "read, and imported"
    assert "posenc/lab/figures/rope.py" not in reads
    said, drawing = nbformat.reads(made, as_version=4).cells[0].outputs
    assert said.text == "True\n" and "image/png" not in drawing.data
    drawn = drawing.data["image/svg+xml"]
    assert "#0072b2" in drawn and "#ffffff" not in drawn and "<dc:date>" not in drawn


def test_a_picture_keeps_its_place(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    pictures = pytest.importorskip("pictures", reason="Sphinx is missing: run `make test` once")
    (tmp_path / "plot.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" width="300pt" height="150pt"/>', "utf-8"
    )
    app = SimpleNamespace(srcdir=tmp_path, builder=SimpleNamespace(images={"plot.svg": "plot.svg"}))
    context = {"body": '<img alt="a" src="../_images/plot.svg" />'}
    pictures.place_images(app, "book/page", "page.html", context, None)
    image = pytest.importorskip("bs4").BeautifulSoup(context["body"], "html.parser").img
    assert (image["alt"], image["src"], image["loading"]) == ("a", "../_images/plot.svg", "lazy")
    assert (image["width"], image["height"]) == ("400", "200")


def test_colab_links_come_from_pyproject(site_parts, tmp_path, monkeypatch):
    (tmp_path / "pyproject.toml").write_text('[tool.posenc]\nrepository = "someone/fork"\nref = "v1.2"\n')
    monkeypatch.setattr(site_parts, "ROOT", tmp_path)
    wanted = "https://colab.research.google.com/github/someone/fork/blob/v1.2/notebooks/rope.ipynb"
    assert site_parts.colab_url("rope") == wanted


def test_a_long_docstring_stands_folded_behind_its_code(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    build = pytest.importorskip("sphinx.cmd.build").build_main
    (tmp_path / "code.py").write_text(
        'def long(x):\n    r"""What it is.\n\n    Arguments:\n        x: a < b.\n    """\n    check(x)\n\n\n'
        'def short(x):\n    """All there is."""\n    return x\n'
    )
    includes = (
        f".. literalinclude:: code.py\n   :pyobject: {name}\n   :language: python\n\n" for name in ("long", "short")
    )
    inside = ".. dropdown:: The code\n\n   .. literalinclude:: code.py\n      :language: python\n"
    (tmp_path / "index.rst").write_text("Title\n=====\n\n" + "".join(includes) + inside)
    (tmp_path / "conf.py").write_text('extensions = ["paperwork", "sphinx_design"]\n')
    assert build(["-q", "-W", str(tmp_path), str(tmp_path / "out")]) == 0
    page = (tmp_path / "out/index.html").read_text("utf-8")
    code, rest, folded = page.split("<details")
    assert "What it is." in code and "Arguments" not in code and '"""</span>' in code and "check" in code
    assert "<summary>More on <code>long</code></summary><pre>Arguments:\n    x: a &lt; b.</pre></details>" in rest
    assert "All there is." in rest and "Arguments" in folded


def test_the_first_use_of_a_glossary_s_word_leads_there(site_parts):
    import glossary
    from docutils import nodes
    from sphinx import addnodes

    page = nodes.section()
    page += nodes.title("", "Lanes")
    page += nodes.paragraph("", "", nodes.literal("", "lane"), nodes.Text(" is code, “lanes” quoted, and many lanes"))
    page += nodes.paragraph("", "A lane, under a causal\nmask.")
    env = SimpleNamespace(docname="book/rope", doc2path=lambda _: ROOT / "book/notation.md", note_dependency=str)
    glossary.link_first_uses(SimpleNamespace(env=env), page)
    links = [(link["reftarget"], link.astext()) for link in page.findall(addnodes.pending_xref)]
    assert links == [("lane", "lanes"), ("causal mask", "causal\nmask")]
    assert page[1].astext() == "lane is code, “lanes” quoted, and many lanes"


def test_a_number_is_read_from_the_file_that_it_names(site_parts):
    import sources

    runs = load_results("scaling")["schemes"]["yarn"]["text"]["before"]["whole"]
    assert sources.value_of("pm(scaling.schemes.yarn.text.before.whole[:, -1])") == (
        pm([run[-1] for run in runs]),
        ("scaling",),
    )
    assert sources.value_of("dec(mean(text.methods.rope.whole) - 100, 1)")[0].startswith("−9")
    for text, named in {
        "scaling.schems": "'schems'",
        "nothing.x": "nothing",
        "1 + 1": "2",
        "scaling.name +": "",
    }.items():
        with pytest.raises(ValueError, match=named):
            sources.value_of(text)
