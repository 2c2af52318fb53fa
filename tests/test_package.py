"""The package as a whole: what importing costs, where names lead, what the files promise."""

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import posenc

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/").stdout


def test_import_is_quick():
    code = "import torch, time; start = time.perf_counter(); import posenc; print(time.perf_counter() - start)"
    seconds = min(float(python(code)) for _ in range(3))
    assert seconds <= 0.3, f"import posenc takes {seconds:.2f} s beyond import torch"


def test_import_brings_neither_triton_nor_plotly():
    """Torch may import Triton itself, so what counts is what posenc adds."""
    code = "import torch, sys; before = set(sys.modules); import posenc; print(*sorted(set(sys.modules) - before))"
    added = python(code).split()
    assert "posenc.attention" in added
    assert not [name for name in added if re.match(r"(triton|plotly|matplotlib|IPython|ipywidgets)\b", name)]
    trainer = {f"posenc.{name}" for name in ("train", "tasks", "measure", "experiments", "plots", "tiny")}
    assert not trainer & set(added), "the methods come without the trainer"


@pytest.mark.parametrize("name", posenc.METHODS)
def test_same_name_same_method(name):
    """A method is one name in the package and its tests; page and figures share a name, and so do lab and checks."""
    method = posenc.METHODS[name]
    assert (ROOT / f"book/{method.page}.md").is_file()
    if method.lab is None:
        return
    for path in ("posenc/{}.py", "tests/test_{}.py"):
        assert (ROOT / path.format(name)).is_file(), path.format(name)
    assert (ROOT / f"posenc/lab/figures/{method.page}.py").is_file()
    for path in ("posenc/lab/exercises/{}.py", "notebooks/{}.ipynb", "course/{}.py"):
        assert (ROOT / path.format(method.lab)).is_file(), path.format(method.lab)
    module = importlib.import_module(f"posenc.{name}")
    assert getattr(module, name) is method.factory


def test_no_orphans():
    """Nothing is left behind that no method, no page and no lab owns."""
    methods, labs = set(posenc.METHODS), {m.lab for m in posenc.METHODS.values() if m.lab} | {"kernels", "scaling"}
    toc = set(re.findall(r"(?:file|root): (\S+)", (ROOT / "_toc.yml").read_text()))
    assert {f"book/{p.stem}" for p in (ROOT / "book").glob("*.md")} == {p for p in toc if p.startswith("book/")}
    assert {f"notebooks/{p.stem}" for p in (ROOT / "notebooks").glob("*.ipynb")} == {f"notebooks/{n}" for n in labs}
    assert {f"notebooks/{n}" for n in labs} == {p for p in toc if p.startswith("notebooks/")}
    pages = {p.stem for p in (ROOT / "book").glob("*.md")}
    assert {p.stem for p in (ROOT / "posenc/lab/exercises").glob("[a-z]*.py")} <= labs | pages
    assert {p.stem for p in (ROOT / "posenc/figures").glob("[a-z]*.py")} <= methods | pages


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


def test_requirements_pin_what_they_must():
    lines = (ROOT / "requirements.txt").read_text()
    pinned = dict(re.findall(r"^([\w-]+)==([\w.]+)", lines, flags=re.M))
    assert pinned["jupyter-book"].startswith("1.")
    wanted = {re.split(r"[<>=;\[ ]", d)[0] for d in PROJECT["project"]["dependencies"]}
    assert wanted <= set(pinned), wanted - set(pinned)
    assert "jupyter-book stays below 2" in lines and "whl/cpu" in lines
