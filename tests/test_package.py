"""The package as a whole: what importing costs, where names lead, what the files promise."""

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from places import FOLDERS

import posenc

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NO_ROW = {"scaling"}  # it changes RoPE's frequencies, and is no method by itself
TOC = set(re.findall(r"(?:file|root): (\S+)", (ROOT / "_toc.yml").read_text()))


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/").stdout


def test_import_is_light():
    """Torch may import Triton itself, so what counts is what posenc adds, and how long that takes."""
    code = "import torch, sys, time; before = set(sys.modules); start = time.process_time(); import posenc; "
    code += "print(time.process_time() - start, *sorted(set(sys.modules) - before))"
    runs = [python(code).split() for _ in range(3)]
    added = runs[0][1:]
    assert "posenc.attention" in added
    heavy = [name for name in added if re.match(r"(triton|plotly|matplotlib|IPython|ipywidgets|posenc\.lab)\b", name)]
    assert not heavy
    assert min(float(run[0]) for run in runs) <= 0.3, "seconds of the processor beyond import torch"


@pytest.mark.parametrize("name", posenc.METHODS)
def test_same_name_same_method(name):
    """A method has one name in its place's folder and in the tests; page and figures share one, lab and checks too."""
    method = posenc.METHODS[name]
    assert f"book/{method.page}" in TOC and (ROOT / f"posenc/lab/figures/{method.page}.py").is_file()
    if name == "nope":
        return  # no module: the empty encoding
    place = method.places[0] if len(method.places) == 1 else "several"
    module = importlib.import_module(f"posenc.{place}.{name}")
    assert getattr(module, name) is method.factory and getattr(posenc, name) is module
    assert (ROOT / f"tests/{place}/test_{name}.py").is_file()
    if method.lab:
        assert f"notebooks/{method.lab}" in TOC and (ROOT / f"course/{method.lab}.py").is_file()
        importlib.import_module(f"posenc.lab.exercises.{method.lab}")


def test_the_folders_of_methods_are_those_that_make_knows():
    (known,) = re.findall(r"^PLACES := (.+)$", (ROOT / "Makefile").read_text(), flags=re.M)
    assert tuple(known.split()) == FOLDERS
    homes = {method.factory.__module__.split(".")[1] for name, method in posenc.METHODS.items() if name != "nope"}
    assert homes == set(FOLDERS) == {*posenc.encoding.PLACES, "several"}
    assert all((ROOT / "tests" / place).is_dir() for place in FOLDERS)


def test_no_orphans():
    """Nothing is left behind that no method, no page and no lab owns."""
    notebooks = {p.stem for p in (ROOT / "notebooks").glob("*.ipynb")}
    pages = {p.stem for p in (ROOT / "book").glob("*.md")}
    assert {f"book/{page}" for page in pages} == {page for page in TOC if page.startswith("book/")}
    assert {f"notebooks/{lab}" for lab in notebooks} == {page for page in TOC if page.startswith("notebooks/")}
    sources = {p.stem for p in (ROOT / "course").glob("*.py")} - {"labs"}
    assert sources == notebooks and sources <= pages
    assert {p.stem for p in (ROOT / "posenc/lab/figures").glob("[a-z]*.py")} <= pages | {"pictures"}
    for place in FOLDERS:
        rows = {
            name for name, method in posenc.METHODS.items() if method.factory.__module__ == f"posenc.{place}.{name}"
        }
        assert {p.stem for p in (ROOT / "posenc" / place).glob("[a-z]*.py")} - NO_ROW == rows


def test_readme_names_the_commands_and_every_folder():
    readme, makefile = (ROOT / "README.md").read_text(), (ROOT / "Makefile").read_text()
    targets = set(re.findall(r"^([a-z-]+):", makefile, flags=re.M))
    named = set(re.findall(r"\bmake ([a-z-]+)", readme))
    assert {"book", "test"} <= named <= targets
    for folder in ("book", "notebooks", "course", "posenc", "results", "tests"):
        assert f"{folder}/" in readme


def test_repository_address_has_one_source():
    """Code, course and config derive the address; only prose for people may spell it, and then rightly."""
    address = PROJECT["tool"]["posenc"]["repository"]
    for path in [*ROOT.glob("posenc/**/*.py"), *ROOT.glob("course/*.py"), *ROOT.glob("book/**/*.py")]:
        assert f"github.com/{address}" not in path.read_text(), path
    for path in [*ROOT.glob("*.md"), *ROOT.glob("book/*.md"), *ROOT.glob("notebooks/*.ipynb"), ROOT / "CITATION.cff"]:
        links = re.findall(r"(?:github\.com|colab\.research\.google\.com/github)/([\w.-]+/posenc)\b", path.read_text())
        assert set(links) <= {address}, path


def test_what_is_installed_is_what_is_there():
    """The wheel holds every package of the tree, and requirements.txt pins what it depends on."""
    packages = set(PROJECT["tool"]["setuptools"]["packages"])
    folders = {path.parent.relative_to(ROOT) for path in ROOT.glob("posenc/**/__init__.py")}
    assert packages == {".".join(folder.parts) for folder in folders} | {"posenc.results"}
    pinned = dict(re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / "requirements.txt").read_text(), flags=re.M))
    assert pinned["jupyter-book"].startswith("1.")
    assert {re.split(r"[<>=;\[ ]", need)[0] for need in PROJECT["project"]["dependencies"]} <= set(pinned)
