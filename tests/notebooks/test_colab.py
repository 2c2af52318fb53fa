"""The labs on Colab's versions, in a virtual environment of their own. Packages only: Colab's front end is not here."""

import copy
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
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpecManager
from lab_runs import ROOT, checked, errors, labs, printed
from nbclient import NotebookClient
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from posenc.lab.check import find

pytestmark = pytest.mark.weekly

CONSTRAINTS = ROOT / "tests" / "colab-constraints.txt"
PACKAGES = ("ipykernel", "ipython", "ipywidgets", "matplotlib", "numpy", "plotly", "tqdm")
KEPT = ROOT / ".venv-colab"
PYTHON = KEPT / "bin" / "python"
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
    seen, waiting = set(held), list(names)
    while waiting:
        name = canonicalize_name(waiting.pop())
        if name in seen:
            continue
        seen.add(name)
        package = importlib.metadata.distribution(name)
        requirements = [Requirement(line) for line in package.requires or []]
        waiting += [r.name for r in requirements if r.marker is None or r.marker.evaluate({"extra": ""})]
        for top in {file.parts[0] for file in package.files} - {"..", "__pycache__"}:
            if not (site / top).exists():
                (site / top).symlink_to(package.locate_file(top))


def run(notebook, folder, kernels, **environment):
    """Run a copy of a notebook in a kernel of its own, past errors, at preset nano, and return it."""
    ran, specs = copy.deepcopy(notebook), KernelSpecManager(kernel_dirs=[str(kernels)], ensure_native_kernel=False)
    manager = AsyncKernelManager(kernel_name="python3", kernel_spec_manager=specs)
    limits = {"timeout": 600, "startup_timeout": 600, "allow_errors": True}
    client = NotebookClient(ran, km=manager, resources={"metadata": {"path": str(folder)}}, **limits)
    client.execute(env={**os.environ, "POSENC_PRESET": "nano", "OMP_NUM_THREADS": "1", **environment})
    return ran


@pytest.fixture(scope="module")
def colab():
    """The folder of kernels of a virtual environment with Colab's versions; built once, kept in .venv-colab."""
    recipe = CONSTRAINTS.read_text() + repr(PACKAGES) + sys.version + importlib.metadata.version("torch")
    stamp = KEPT / f"made-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    if not stamp.exists():
        shutil.rmtree(KEPT, ignore_errors=True)
        command(sys.executable, "-m", "venv", KEPT)
        command(PYTHON, "-m", "pip", "uninstall", "--yes", "--quiet", "setuptools")  # torch brings the one it needs
        command(PYTHON, "-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS, *PACKAGES)
        site = command(PYTHON, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
        link(["torch", "triton"] if sys.platform == "linux" else ["torch"], KEPT / site, installed())
        kernel = KEPT / "kernels" / "python3"
        kernel.mkdir(parents=True)
        argv = [str(PYTHON), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
        (kernel / "kernel.json").write_text(json.dumps({"argv": argv, "display_name": "Colab", "language": "python"}))
        stamp.touch()
    return KEPT / "kernels"


@pytest.fixture(scope="module")
def install(colab, tmp_path_factory):
    """The install cell, run as if in Colab, with the project's address leading to this working tree: (the notebook that
    ran, what was installed before, and after)."""
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
    ran = run(notebook, tmp_path_factory.mktemp("colab"), colab, **redirected)
    return ran, before, installed()


def test_install_cell_adds_posenc_to_colabs_versions_and_changes_nothing(install):
    ran, before, after = install
    assert not errors(ran), printed(ran)
    assert os.path.join("site-packages", "posenc") in printed(ran)
    assert after.pop("posenc") and after == before
    pinned = dict(re.findall(r"^([\w.-]+)==(\S+)", CONSTRAINTS.read_text("utf-8"), re.MULTILINE))
    assert {name: version for name, version in before.items() if pinned.get(name, version) != version} == {}


@pytest.mark.parametrize("lab", LABS)
def test_lab_runs_undone_and_solved(lab, colab, install, tmp_path):
    notebook = nbformat.read(ROOT / "notebooks" / f"{lab}.ipynb", as_version=4)
    undone = run(notebook, tmp_path, colab)
    assert not errors(undone)
    assert all(f"{find(name).title}: not done yet." in printed(undone) for name in checked(notebook))
    assert not errors(run(labs.read(ROOT / "book" / lab / "lab.py", ADDRESS), tmp_path, colab))
