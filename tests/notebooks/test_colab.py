"""The labs on Colab's versions, in a virtual environment of their own. Packages only: Colab's front end is not here."""

import base64
import copy
import hashlib
import importlib.metadata
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest
from filelock import FileLock
from lab_runs import ROOT, checked, errors, labs, printed, run
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from posenc.lab.exercises import find

pytestmark = pytest.mark.weekly

CONSTRAINTS = ROOT / "tests" / "colab-constraints.txt"
PACKAGES = ("ipykernel", "ipython", "ipywidgets", "matplotlib", "numpy", "plotly", "tqdm")
FAKE_COLAB = 'import sys, types\nsys.modules["google.colab"] = types.ModuleType("google.colab")'
ADDRESS = labs.address()
LABS = [path.stem for path in labs.sources()]


def pinned():
    return dict(re.findall(r"^([\w.-]+)==(\S+)", CONSTRAINTS.read_text(encoding="utf-8"), re.MULTILINE))


def command(*words, **options):
    result = subprocess.run([str(word) for word in words], capture_output=True, text=True, **options)
    assert result.returncode == 0, f"{words}:\n{result.stdout}\n{result.stderr}"
    return result.stdout


def installed(python):
    rows = json.loads(command(python, "-m", "pip", "list", "--format=json"))
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


@pytest.fixture(scope="session")
def alone():
    """A lock that pytest's workers share: they have one environment between them."""
    name = hashlib.sha256(str(ROOT).encode()).hexdigest()[:16]
    return FileLock(Path(tempfile.gettempdir()) / f"posenc-colab-{name}.lock")


@pytest.fixture(scope="session")
def colab(alone):
    """A virtual environment with Colab's versions; built once, kept in .venv-colab."""
    folder = ROOT / ".venv-colab"
    python = folder / "bin" / "python"
    recipe = CONSTRAINTS.read_text() + repr(PACKAGES) + sys.version + importlib.metadata.version("torch")
    stamp = folder / f"made-{hashlib.sha256(recipe.encode()).hexdigest()[:16]}"
    with alone:
        if not stamp.exists():
            shutil.rmtree(folder, ignore_errors=True)
            command(sys.executable, "-m", "venv", folder)
            command(python, "-m", "pip", "uninstall", "--yes", "--quiet", "setuptools")  # torch brings the one it needs
            command(python, "-m", "pip", "install", "--quiet", "--constraint", CONSTRAINTS, *PACKAGES)
            site = command(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
            link(["torch", "triton"] if sys.platform == "linux" else ["torch"], folder / site, installed(python))
            kernel = folder / "kernels" / "python3"
            kernel.mkdir(parents=True)
            argv = [str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"]
            about = {"argv": argv, "display_name": "Colab", "language": "python"}
            (kernel / "kernel.json").write_text(json.dumps(about))
            stamp.touch()
    return SimpleNamespace(python=python, kernel_dir=folder / "kernels")


@pytest.fixture(scope="session")
def installed_by_cell(colab, alone, tmp_path_factory, worker_id):
    """Run the install cell as it stands, as if in Colab, with the project's address leading to this working tree.

    The first worker does it, the others read what came of it.
    """
    own = tmp_path_factory.getbasetemp()
    done = (own if worker_id == "master" else own.parent) / "installed_by_cell.json"
    with alone:
        if not done.exists():
            command(colab.python, "-m", "pip", "uninstall", "--yes", "--quiet", "posenc")
            before = installed(colab.python)
            ran = run_install_cell(colab, tmp_path_factory)
            done.write_text(json.dumps([nbformat.writes(ran), before, installed(colab.python)]))
    ran, before, after = json.loads(done.read_text())
    return SimpleNamespace(ran=nbformat.reads(ran, as_version=4), before=before, after=after)


def run_install_cell(colab, tmp_path_factory):
    origin = tmp_path_factory.mktemp("origin")
    for name in ("pyproject.toml", "README.md"):
        shutil.copy(ROOT / name, origin)
    for name in ("posenc", "results"):
        shutil.copytree(ROOT / name, origin / name, ignore=shutil.ignore_patterns("__pycache__"))
    git = ["git", "-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
    command(*git, "init", "--quiet", "--initial-branch=trunk", cwd=origin)
    command(*git, "add", "--all", cwd=origin)
    command(*git, "commit", "--quiet", "--message=As it is", cwd=origin)
    command(*git, "tag", ADDRESS["ref"], cwd=origin)

    notebook = nbformat.v4.new_notebook()
    install = labs.INSTALL.format(**ADDRESS, extras="book,kernels")
    cells = (FAKE_COLAB, install, "import posenc\nprint(posenc.__file__)")
    notebook.cells = [nbformat.v4.new_code_cell(source) for source in cells]
    return run(
        notebook,
        tmp_path_factory.mktemp("colab"),
        colab.kernel_dir,
        GIT_CONFIG_COUNT="1",
        GIT_CONFIG_VALUE_0=f"https://github.com/{ADDRESS['repository']}",
        GIT_CONFIG_KEY_0=f"url.{origin.as_uri()}.insteadOf",
    )


def test_environment_holds_colabs_versions(colab, alone):
    with alone:  # pip must not look while another worker installs
        held, wanted = installed(colab.python), pinned()
    assert {name: held.get(name) for name in PACKAGES} == {name: wanted[name] for name in PACKAGES}
    assert {name: version for name, version in held.items() if name in wanted and wanted[name] != version} == {}


def test_install_cell_adds_posenc_and_changes_nothing(installed_by_cell):
    assert not errors(installed_by_cell.ran), printed(installed_by_cell.ran)
    assert os.path.join("site-packages", "posenc") in printed(installed_by_cell.ran)
    added = dict(installed_by_cell.after)
    added.pop("posenc")
    assert added == installed_by_cell.before


def test_pip_would_change_nothing(colab, alone):
    with alone:
        report = command(
            colab.python, "-m", "pip", "install", "--quiet", "--dry-run", "--report", "-", f"{ROOT}[book,kernels]"
        )
    assert [entry["metadata"]["name"] for entry in json.loads(report)["install"]] == ["posenc"]


PIXEL = b"\x89PNG\r\n"


def look_for_pictures(cells):
    """GitHub and nbviewer strip scripts and know no kernel; a widget alone would leave nothing to see."""
    kept = {"widget": 0, "explorable": 0, "picture": 0}
    for cell in cells:
        for data in (output.data for output in cell.get("outputs", []) if "data" in output):
            if "application/vnd.jupyter.widget-view+json" in data:
                kept["widget"] += 1
                draws = "plt.show()" in cell.source
                assert ("image/png" in data) == draws, f"{cell.id}: {data['text/plain']}"
                assert draws or re.search(r"\d", data["text/plain"]) and "children=" not in data["text/plain"]
            elif "text/html" in data:
                kept["explorable"] += 1
                plain = re.sub(r"<(script|style)\b.*?</\1>", "", data["text/html"], flags=re.DOTALL)
                assert re.search('class="explorable-picture', plain)
                assert len(plain) < 150_000 and "<figcaption>" in plain
            if "image/png" in data:
                kept["picture"] += 1
                assert base64.b64decode(data["image/png"]).startswith(PIXEL)
    assert kept["widget"] >= 1 and kept["explorable"] >= 1 and kept["picture"] >= 3, kept


def shown(cells, notebook):
    """What cells show, kind by kind: prints and pictures may arrive in another order from run to run.

    Left out, since they may differ: progress bars, seconds in prints, ids of widgets and explorables. No picture of a
    lab draws a time, so pictures must agree to the byte, also those of the sliders.
    """
    of_widgets = notebook.metadata["widgets"]["application/vnd.jupyter.widget-state+json"]["state"]
    found = {}
    for number, cell in enumerate(cells):
        outputs = list(cell.get("outputs", []))
        for output in cell.get("outputs", []):  # what a function shows under its sliders is kept apart
            view = output.get("data", {}).get("application/vnd.jupyter.widget-view+json")
            boxes = [view["model_id"]] if view else []
            while boxes:
                state = of_widgets[boxes.pop()]["state"]
                outputs += map(nbformat.from_dict, state.get("outputs", []))
                boxes += [child.removeprefix("IPY_MODEL_") for child in state.get("children", [])]
        prints = "".join(o.text for o in outputs if o.output_type == "stream" and o.name == "stdout")
        kinds = {"prints": re.sub(r"\d+(\.\d+)? ?(s|ms|min|seconds|minutes)\b", "TIME", prints)}
        for kind in ("text/plain", "text/html", "image/png"):
            values = [o.data[kind] for o in outputs if kind in o.get("data", {})]
            kinds[kind] = [re.sub(r"explorable-[0-9a-f]{8}", "ID", value) for value in values]
        found[number] = kinds
    return found


@pytest.mark.parametrize("lab", LABS)
def test_lab_runs_unmodified_and_shows_the_same_when_run_twice_or_after_a_restart(
    lab, colab, installed_by_cell, tmp_path
):
    notebook = nbformat.read(ROOT / "notebooks" / f"{lab}.ipynb", as_version=4)
    twice = copy.deepcopy(notebook)
    twice.cells += copy.deepcopy(notebook.cells)
    for number, cell in enumerate(twice.cells):
        cell.id = f"n{number}"
    twice = run(twice, tmp_path, colab.kernel_dir)
    assert not errors(twice)
    for name in checked(notebook):
        assert printed(twice).count(f"{find(name).title}: not done yet.") == 2
    count = len(notebook.cells)
    first = shown(twice.cells[:count], twice)
    assert shown(twice.cells[count:], twice) == first, "again in the same kernel"
    look_for_pictures(twice.cells[:count])
    if lab == "kernels":  # the others are seeded by the same lines
        once = run(notebook, tmp_path, colab.kernel_dir)
        assert shown(once.cells, once) == first, "after a restart"


@pytest.mark.parametrize("lab", LABS)
def test_lab_solved_passes(lab, colab, installed_by_cell, tmp_path):
    ran = run(labs.read(ROOT / "course" / f"{lab}.py", ADDRESS), tmp_path, colab.kernel_dir)
    assert not errors(ran)
