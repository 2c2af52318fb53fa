r"""What the book's own extensions hand on: the vendored files, the cache of executed pages, the links to Colab."""

import hashlib
import json
import re
from pathlib import Path
from types import SimpleNamespace

import pytest

from posenc.lab.pages import phone

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


def test_the_execution_cache_follows_the_code(site_parts, tmp_path, monkeypatch):
    monkeypatch.setattr(site_parts, "ROOT", tmp_path)
    monkeypatch.setattr(site_parts, "sources", lambda: sorted(tmp_path.glob("posenc/*.py")))
    for name in ("pyproject.toml", "CITATION.cff"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / "posenc").mkdir()
    source = tmp_path / "posenc" / "rope.py"
    source.write_text("sign = 1")

    class App:
        doctreedir = tmp_path / "_build" / ".doctrees"

    class Config:
        pass

    folders = []
    for text in ("sign = 1", "sign = -1", "sign = 1"):
        source.write_text(text)
        site_parts.key_cache(App, Config)
        folders.append(Path(Config.nb_execution_cache_path))
        assert folders[-1].is_dir() and len(list(folders[-1].parent.iterdir())) == 1  # the stale one is gone
    assert folders[0] == folders[2] != folders[1]


@pytest.mark.slow
def test_a_plot_of_a_page_is_an_svg_without_ground_in_the_book_s_colors(site_parts, tmp_path, monkeypatch):
    nbclient, nbformat = pytest.importorskip("nbclient"), pytest.importorskip("nbformat")
    monkeypatch.setattr(site_parts, "sources", lambda: [])

    class App:
        doctreedir = tmp_path / "_build" / ".doctrees"

    class Config:
        pass

    site_parts.key_cache(App, Config)
    monkeypatch.delenv("MPLBACKEND", raising=False)
    cell = nbformat.v4.new_code_cell("import matplotlib.pyplot as plt\nplt.plot([1, 2]);")
    notebook = nbformat.v4.new_notebook(cells=[cell])
    nbclient.NotebookClient(notebook, timeout=120).execute()
    [output] = notebook.cells[0].outputs
    assert "image/png" not in output.data
    wide, narrow = output.data["image/svg+xml"].split(phone.MARK)
    for drawn in (wide, narrow):
        assert "#0072b2" in drawn and "#ffffff" not in drawn and "<dc:date>" not in drawn
    widths = [float(re.search(r'width="([\d.]+)pt"', drawn)[1]) * 4 / 3 for drawn in (wide, narrow)]
    assert widths[1] <= 358 < widths[0]


def test_a_plot_in_two_layouts_becomes_two_files(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "book" / "_ext"))
    pictures = pytest.importorskip("pictures", reason="Sphinx is missing: run `make test` once")
    drawn = ['<svg width="600pt" height="300pt"><text>wide</text></svg>', '<svg width="267pt" height="240pt"></svg>']
    for folder in ("source", "out/_images"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "plot.svg").write_text(phone.MARK.join(drawn), "utf-8")
        (tmp_path / folder / "sign.svg").write_text('<svg xmlns="http://www.w3.org/2000/svg" width="40" height="30"/>')
    app = SimpleNamespace(srcdir=tmp_path / "source", outdir=tmp_path / "out")
    app.builder = SimpleNamespace(images={"plot.svg": "plot.svg", "sign.svg": "sign.svg"})
    context = {"body": '<img alt="a" src="../_images/plot.svg" /><img alt="b" src="../_images/sign.svg" />'}
    pictures.place_images(app, "book/page", "page.html", context, None)
    both, one = pytest.importorskip("bs4").BeautifulSoup(context["body"], "html.parser").find_all("img")
    assert (both["alt"], both["width"], both["height"], both["src"]) == ("a", "800", "400", "../_images/plot.svg")
    narrow = both.parent.source
    assert (narrow["srcset"], narrow["width"], narrow["height"]) == ("../_images/plot.phone.svg", "356", "320")
    assert one.parent.name != "picture" and one["width"] == "40"
    for _ in range(2):  # a second build finds the parts
        pictures.part(app, None)
        found = [(tmp_path / "out" / "_images" / name).read_text("utf-8") for name in ("plot.svg", "plot.phone.svg")]
        assert found == drawn
    assert not (tmp_path / "out" / "_images" / "sign.phone.svg").exists()


def test_the_cache_depends_on_package_and_results(site_parts):
    names = {path.relative_to(ROOT).as_posix() for path in site_parts.sources()}
    assert {"posenc/rotate/rope.py", "posenc/lab/figures/rope.py", "posenc/lab/explore/states.py"} <= names
    assert {f"results/{path.name}" for path in (ROOT / "results").glob("*.json")} <= names


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
