"""The labs on Colab's versions, in a virtual environment of their own. Packages only: Colab's front end is not here."""

import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys

import nbformat
import pytest
from lab_runs import ROOT, checked, labs
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from posenc.lab.check import find

pytestmark = pytest.mark.weekly

CONSTRAINTS = ROOT / "tests" / "colab-constraints.txt"
PACKAGES = ("ipykernel", "ipython", "ipywidgets", "matplotlib", "numpy", "plotly", "tqdm", "transformers")
KEPT = ROOT / ".venv-colab"
PYTHON = KEPT / "bin" / "python"
# Without a kernel: what is printed is at hand, and no message can be lost.
RUNNER = """
import contextlib, io, json, pathlib, sys
import matplotlib
matplotlib.use("agg")
from IPython.core.interactiveshell import InteractiveShell
shell, said, wrong = InteractiveShell.instance(), io.StringIO(), []
for source in json.loads(pathlib.Path(sys.argv[1]).read_text()):
    with contextlib.redirect_stdout(said):
        result = shell.run_cell(source)
    error = result.error_before_exec or result.error_in_exec
    wrong += [f"{type(error).__name__}: {error}"] if error else []
pathlib.Path(sys.argv[2]).write_text(json.dumps({"said": said.getvalue(), "errors": wrong}))
"""
FAKE_COLAB = 'import sys, types\nsys.modules["google.colab"] = types.ModuleType("google.colab")'
ADDRESS = labs.address()
LABS = [path.parent.name for path in labs.sources()]


def command(*words, **options):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{words}:\n{result.stdout}\n{result.stderr}"
    return result.stdout


def installed():
    rows = json.loads(command(PYTHON, "-m", "pip", "list", "--format=json"))
    return {canonicalize_name(row["name"]): row["version"] for row in rows}


def link(names, site, held):
    """Lend packages of this Python, with what they require and is not held, to another: torch is too big for twice."""
    seen, waiting = set(), [Requirement(name) for name in names]
    while waiting:
        wanted = waiting.pop()
        if canonicalize_name(wanted.name) in held or str(wanted) in seen:
            continue
        seen.add(str(wanted))
        package, extras = importlib.metadata.distribution(wanted.name), ("", *wanted.extras)
        requirements = map(Requirement, package.requires or [])
        waiting += [r for r in requirements if not r.marker or any(r.marker.evaluate({"extra": e}) for e in extras)]
        for top in {file.parts[0] for file in package.files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(package.locate_file(top))


def run(notebook, folder, **environment):
    """(what the cells of a notebook print, their errors) on Colab's versions, past errors, at preset nano."""
    cells, outcome = folder / "cells.json", folder / "outcome.json"
    cells.write_text(json.dumps([cell.source for cell in notebook.cells if cell.cell_type == "code"]))
    environment = {**os.environ, "POSENC_PRESET": "nano", "OMP_NUM_THREADS": "1", **environment}
    command(PYTHON, "-c", RUNNER, cells, outcome, cwd=folder, env=environment)
    found = json.loads(outcome.read_text())
    return found["said"], found["errors"]


@pytest.fixture(scope="module")
def colab():
    """A virtual environment with Colab's versions; built once, kept in .venv-colab."""
    recipe = CONSTRAINTS.read_text() + repr(PACKAGES) + sys.version + importlib.metadata.version("torch")
    stamp = KEPT / f"made-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    if not stamp.exists():
        shutil.rmtree(KEPT, ignore_errors=True)
        command(sys.executable, "-m", "venv", KEPT)
        command(PYTHON, "-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS, *PACKAGES)
        command(PYTHON, "-m", "pip", "uninstall", "--yes", "--quiet", "setuptools")  # torch brings the one it needs
        site = command(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        link(["torch", "triton"] if sys.platform == "linux" else ["torch"], KEPT / site, installed())
        stamp.touch()


@pytest.fixture(scope="module")
def install(colab, tmp_path_factory):
    """The install cell, run as if in Colab, with the project's address leading to this working tree: (what it printed,
    its errors, what was installed before, and after)."""
    origin = tmp_path_factory.mktemp("origin")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, origin)
    for name in ("posenc", "book", "results"):
        shutil.copytree(ROOT / name, origin / name, ignore=shutil.ignore_patterns("__pycache__"))
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    command(*git, "init", "--quiet", "--initial-branch=trunk", cwd=origin)
    command(*git, "add", "--all", cwd=origin)
    command(*git, "commit", "--quiet", "--message=As it is", cwd=origin)
    command(*git, "tag", ADDRESS["ref"], cwd=origin)

    command(PYTHON, "-m", "pip", "uninstall", "--yes", "--quiet", "posenc")
    before, notebook = installed(), nbformat.v4.new_notebook()
    cells = (FAKE_COLAB, labs.INSTALL.format(**ADDRESS, extras="book,kernels"), "import posenc\nprint(posenc.__file__)")
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    redirected = {
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_VALUE_0": f"https://github.com/{ADDRESS['repository']}",
        "GIT_CONFIG_KEY_0": f"url.{origin.as_uri()}.insteadOf",
    }
    return *run(notebook, tmp_path_factory.mktemp("colab"), **redirected), before, installed()


def test_install_cell_adds_posenc_to_colabs_versions_and_changes_nothing(install):
    said, errors, before, after = install
    assert not errors, said
    assert os.path.join("site-packages", "posenc") in said
    assert after.pop("posenc") and after == before
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", CONSTRAINTS.read_text("utf-8"), re.MULTILINE))
    assert {name: version for name, version in before.items() if pinned.get(name, version) != version} == {}


@pytest.mark.parametrize("lab", LABS)
def test_lab_runs_undone_and_solved(lab, install, tmp_path):
    notebook = nbformat.read(ROOT / "notebooks" / f"{lab}.ipynb", as_version=4)
    said, errors = run(notebook, tmp_path)
    assert not errors and all(f"{find(name).title}: not done yet." in said for name in checked(notebook))
    assert run(labs.read(ROOT / "book" / lab / "lab.py", ADDRESS), tmp_path)[1] == []
