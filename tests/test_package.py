"""The package as a whole: what importing costs, where names lead, what the files promise."""

import importlib
import inspect
import re
import shutil
import subprocess
import sys
import tomllib
import typing
from pathlib import Path

import pytest
from places import FOLDERS

import posenc
from posenc.lab.titles import TITLES

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
NO_ROW = {"scaling"}  # it changes RoPE's frequencies, and is no method by itself
TOC = set(re.findall(r"(?:file|root): (\S+)", (ROOT / "_toc.yml").read_text()))


def python(code):
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd="/").stdout


def test_import_is_light():
    """Torch may import Triton itself, so what counts is what posenc adds."""
    code = "import torch, sys; before = set(sys.modules); import posenc; print(*sorted(set(sys.modules) - before))"
    added = python(code).split()
    assert "posenc.attention" in added
    heavy = [name for name in added if re.match(r"(triton|plotly|matplotlib|IPython|ipywidgets|posenc\.lab)\b", name)]
    assert not heavy and len(added) < 200


@pytest.mark.parametrize("name", posenc.METHODS)
def test_same_name_same_method(name):
    """A method has one name in its place's folder and in the tests; its chapter has one of its own, and so the lab."""
    method, row = posenc.METHODS[name], TITLES[name]
    assert f"book/{row.page}/index" in TOC and (ROOT / f"book/{row.page}/figures.py").is_file()
    if name == "nope":
        return  # no module: the empty encoding
    place = method.places[0] if len(method.places) == 1 else "several"
    module = importlib.import_module(f"posenc.{place}.{name}")
    assert getattr(module, name) is method.factory and getattr(posenc, name) is module
    assert (ROOT / f"tests/{place}/test_{name}.py").is_file()
    if row.lab:
        assert f"notebooks/{row.lab}" in TOC
        importlib.import_module(f"posenc.chapters.{row.lab}.exercises")


def test_the_folders_of_methods_are_those_that_make_knows():
    (known,) = re.findall(r"^PLACES := (.+)$", (ROOT / "Makefile").read_text(), flags=re.M)
    assert tuple(known.split()) == FOLDERS
    homes = {method.factory.__module__.split(".")[1] for name, method in posenc.METHODS.items() if name != "nope"}
    assert homes == set(FOLDERS) == {*posenc.encoding.PLACES, "several"} - {"gather"}  # only an option
    assert all((ROOT / "tests" / place).is_dir() for place in FOLDERS)


def test_no_orphans():
    """Nothing is left behind that no method, no page and no lab owns."""
    notebooks = {p.stem for p in (ROOT / "notebooks").glob("*.ipynb")}
    pages = [*(ROOT / "book").glob("*.md"), *(ROOT / "book").glob("*/index.md")]
    wanted = {page.relative_to(ROOT).with_suffix("").as_posix() for page in pages}
    assert wanted == {page for page in TOC if page.startswith("book/")}
    assert {p.parent.name for p in (ROOT / "book").glob("[a-z]*/*.py")} <= {p.parent.name for p in pages}
    assert {f"notebooks/{lab}" for lab in notebooks} == {page for page in TOC if page.startswith("notebooks/")}
    for place in FOLDERS:
        rows = {
            name for name, method in posenc.METHODS.items() if method.factory.__module__ == f"posenc.{place}.{name}"
        }
        assert {p.stem for p in (ROOT / "posenc" / place).glob("[a-z]*.py")} - NO_ROW == rows


def test_what_is_installed_is_what_is_there():
    """The wheel holds every package of the tree, and requirements.txt pins what it depends on."""
    packages = set(PROJECT["tool"]["setuptools"]["packages"])
    folders = {path.parent.relative_to(ROOT) for path in ROOT.glob("posenc/**/__init__.py")}
    assert packages == {".".join(folder.parts) for folder in folders} | {"posenc.chapters", "posenc.results"}
    pinned = dict(re.findall(r"^([\w-]+)==([\w.]+)", (ROOT / "requirements.txt").read_text(), flags=re.M))
    assert pinned["jupyter-book"].startswith("1.")
    assert needs() <= set(pinned)


def needs(extras=("book", "kernels")):
    """The names of what is installed with `posenc[...]`."""
    lines = [*PROJECT["project"]["dependencies"]]
    for extra in extras:
        lines += PROJECT["project"]["optional-dependencies"][extra]
    return {re.split(r"[<>=;\[ ]", line)[0] for line in lines}


def public():
    """What users call: {where it stands: the function}, classes by what makes them."""
    found = {name: getattr(posenc, name) for name in posenc.__all__}
    found |= {f"the factory of {name}": method.factory for name, method in posenc.METHODS.items()}
    found |= {"audit.audit": posenc.audit.audit, "forward": posenc.SelfAttention.forward}
    return {
        name: thing.__init__ if inspect.isclass(thing) else thing
        for name, thing in found.items()
        if inspect.isfunction(thing) or inspect.isclass(thing) and not issubclass(thing, (Exception, tuple))
    }


def test_what_users_call_says_its_types():
    for name, thing in public().items():
        signature = inspect.signature(thing)
        bare = [p.name for p in signature.parameters.values() if p.annotation is p.empty and p.name != "self"]
        assert not bare and signature.return_annotation is not signature.empty, name
        typing.get_type_hints(thing)  # they resolve


BARE = """
import os, sys
os.environ["TRITON_INTERPRET"] = "1"
sys.modules |= dict.fromkeys(("triton", "matplotlib", "PIL", "plotly", "ipywidgets", "tqdm", "IPython", "yaml"))
import torch, posenc
from posenc.methods import on_text, sizes
q, k, v = torch.randn(3, 1, 2, 16, 8)
for name in on_text():
    encoding = posenc.make(name, **sizes(name, num_heads=2, head_dim=8, length=16))
    if encoding.gates is None:
        assert posenc.attention(q, k, v, encoding).isfinite().all()
    if encoding.embed is None:
        posenc.SelfAttention(16, 2, encoding)(torch.randn(1, 16, 16)).sum().backward()
posenc.explain_impl(posenc.make("alibi", num_heads=2))
posenc.audit.audit(posenc.make("rope", head_dim=8), num_heads=2, head_dim=8)
for module in ("posenc.lab", "posenc.kernels.rotary"):
    try:
        __import__(module)
    except ModuleNotFoundError as error:
        print(error.name, error, sep="|")
try:
    posenc.attention(q, k, v, posenc.make("alibi", num_heads=2), impl="triton")
except posenc.UnsupportedError as error:
    print(error)
"""


@pytest.mark.weekly
def test_torch_and_numpy_are_enough_and_errors_name_what_brings_the_rest():
    assert needs(()) == {"torch", "numpy"}
    bare = python(BARE)
    lab, rotary, attention = bare.strip().split("\n")[-3:]
    assert lab.startswith("matplotlib|posenc.lab needs ") and lab.endswith("pip install 'posenc[book]'")
    assert rotary.startswith("triton|") and rotary.endswith("pip install 'posenc[kernels]'")
    assert attention.startswith("impl='triton': ") and "pip install 'posenc[kernels]'" in attention


@pytest.mark.weekly
def test_a_wheel_made_from_the_sdist_holds_everything_and_works(tmp_path):
    tree, unpacked, wheel = tmp_path / "tree", tmp_path / "unpacked", tmp_path / "wheel"
    for name in ("posenc", "book", "results"):
        shutil.copytree(ROOT / name, tree / name, ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, tree)

    def build(kind, folder):
        code = f"from setuptools import build_meta; print(build_meta.build_{kind}({str(tmp_path)!r}))"
        words = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=folder)
        return tmp_path / words.stdout.split()[-1]

    shutil.unpack_archive(build("sdist", tree), unpacked, filter="data")
    shutil.unpack_archive(build("wheel", *unpacked.iterdir()), wheel, "zip")
    wanted = {path.relative_to(tree) for path in (tree / "posenc").rglob("*") if path.is_file()}
    wanted |= {Path("posenc", path.relative_to(tree)) for path in (tree / "results").glob("*.*")}
    chapters = [tree / "book" / "__init__.py", *(tree / "book").glob("[a-z]*/*.[pj]*")]
    chapters = [path for path in chapters if path.name != "lab.py" and not path.name.startswith("test_")]
    wanted |= {Path("posenc/chapters", path.relative_to(tree / "book")) for path in chapters}
    held = {path.relative_to(wheel) for path in wheel.rglob("*") if path.parts[len(wheel.parts)] == "posenc"}
    assert {path for path in held if (wheel / path).is_file()} == wanted and Path("posenc/py.typed") in wanted
    code = f"import sys; sys.path.insert(0, {str(wheel)!r}); import posenc; "
    code += "from posenc.lab.explore import STATIC; from posenc.lab.experiments import load_results; "
    code += "from posenc.chapters import load_live; load_live('sticks').data(); "
    code += "import posenc.chapters.practice.facts, posenc.chapters.errata.later, posenc.chapters.rope.figures; "
    code += "print(posenc.__file__, len(load_results('flipflop')['methods']), *STATIC.iterdir())"
    assert python(code).startswith(str(wheel))
