"""A private kit: what --kit writes, a public copy without it, and exercises of a teacher's own."""

import json
import os
import shutil
import subprocess
import sys
import zipfile

import nbformat
import pytest
from kit import needs_sources
from lab_runs import ROOT, TINY, labs

pytestmark = pytest.mark.filterwarnings("ignore::nbformat.warnings.MissingIDFieldWarning")


@pytest.fixture
def project(tmp_path):
    """A project with the tiny lab and written solutions; `labs.main` has written its notebook."""
    root = tmp_path / "public"
    shutil.copytree(TINY / "course", root / "course")
    (root / "course" / "tiny_solutions.md").write_text("# Solutions\nNone.\n")
    shutil.copy(ROOT / "pyproject.toml", root)
    assert labs.main([], root=root) == 0
    return root


def files(folder):
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_kit_holds_sources_solutions_and_the_course_with_hidden_tests(project, tmp_path):
    assert labs.main(["--kit", str(tmp_path / "kit")], root=project) == 0
    kit = files(tmp_path / "kit")
    notebook = "source/tiny/tiny.ipynb"
    made = {"README.md", ".gitignore", "tiny.py", "tiny_solutions.md", notebook, "nbgrader_config.py"}
    assert kit.keys() == made | {".written.json"}
    for name in ("tiny.py", "tiny_solutions.md"):
        assert kit[name] == (project / "course" / name).read_bytes()
    assert b"BEGIN HIDDEN TESTS" in kit[notebook] and b"return positions * w" in kit[notebook]
    assert labs.address()["repository"] in kit["README.md"].decode() and b"gradebook.db" in kit[".gitignore"]


@pytest.mark.parametrize("option", ["--kit", "--course"])
def test_what_a_teacher_edited_is_kept_and_named(option, project, tmp_path, capsys):
    made, edited = tmp_path / "made", tmp_path / "made" / "source" / "tiny" / "tiny.ipynb"
    assert labs.main([option, str(made)], root=project) == 0
    assert labs.main([option, str(made)], root=project) == 0, "what is as written is written again"
    notebook = nbformat.read(edited, as_version=4)
    notebook.cells[0].source += "\nHand in by Friday."
    nbformat.write(notebook, edited)
    before = files(made)
    (made / "nbgrader_config.py").unlink()
    capsys.readouterr()
    assert labs.main([option, str(made)], root=project) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1 and str(edited) in said and "delete" in said
    assert files(made) == before, "the rest is written"


def test_a_notebook_that_nobody_edited_follows_its_source(project, tmp_path, capsys):
    made = tmp_path / "made"
    assert labs.main(["--course", str(made)], root=project) == 0
    source = project / "course" / "tiny.py"
    source.write_text(source.read_text("utf-8").replace("return positions * w", "return w * positions"), "utf-8")
    assert labs.main(["--course", str(made)], root=project) == 0 and capsys.readouterr().err == ""
    assert "return w * positions" in (made / "source" / "tiny" / "tiny.ipynb").read_text("utf-8")


def test_a_public_copy_without_sources_is_looked_after_and_says_where_they_are(project, capsys):
    for path in (project / "course").glob("tiny*"):
        path.unlink()
    before = files(project)
    for arguments in ([], ["--check"]):
        assert labs.main(arguments, root=project) == 0
        assert "POSENC_COURSE" in capsys.readouterr().err
    assert files(project) == before
    for arguments in (["tiny"], ["--points"], ["--kit", "x"], ["--course", "x"]):
        with pytest.raises(SystemExit) as stop:
            labs.main(arguments, root=project)
        assert stop.value.code == 2 and "POSENC_COURSE" in capsys.readouterr().err


def test_sources_come_from_the_kit_that_is_named(project, tmp_path, monkeypatch):
    assert labs.main(["--kit", str(tmp_path / "kit")], root=project) == 0
    monkeypatch.setenv("POSENC_COURSE", str(tmp_path / "kit"))
    assert [path.stem for path in labs.sources(ROOT)] == ["tiny"]
    assert [path.parent for path in labs.sources(project)] == [project / "course"], "only of this repository"
    monkeypatch.setenv("POSENC_COURSE", str(tmp_path / "nowhere"))
    with pytest.raises(SystemExit, match="POSENC_COURSE.*nowhere.*--kit"):
        labs.sources(ROOT)


OWN = """
from posenc.lab.exercises.exercise import Exercise

ON_PAPER = 0
EXERCISES = {"slopes": Exercise("Exercise 1, ours", lambda n: 7 * n, [(2,), (3,)], points=9)}
"""


@pytest.mark.slow
def test_exercises_of_the_kit_are_taken_in_place_of_the_public_ones(tmp_path):
    """Also by the process that grades, which starts in a folder of its own."""
    (tmp_path / "kit" / "exercises").mkdir(parents=True)
    (tmp_path / "kit" / "exercises" / "alibi.py").write_text(OWN)
    notebook = nbformat.v4.new_notebook()
    notebook.cells = [nbformat.v4.new_code_cell("import posenc\n\ndef slopes(n):\n    return 7 * n")]
    nbformat.write(notebook, tmp_path / "x.ipynb")
    result = subprocess.run(
        [sys.executable, "-m", "posenc.lab.exercises", "x.ipynb", "--lab", "alibi"],
        cwd=tmp_path,
        env=os.environ | {"POSENC_COURSE": "kit"},
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
    assert "9 of 9  Exercise 1, ours" in result.stdout
    assert f"alibi by {tmp_path / 'kit' / 'exercises' / 'alibi.py'}" in result.stderr, "whose exercises they were"


@pytest.mark.slow
@needs_sources
def test_gradescopes_zip_grades_what_is_handed_in(tmp_path):
    """Its script, with this Python and this folder in place of Gradescope's."""
    assert labs.main(["alibi", "--gradescope", str(tmp_path)], root=ROOT) == 0
    with zipfile.ZipFile(tmp_path / "alibi.zip") as archive:
        scripts = {info.filename: archive.read(info).decode() for info in archive.infolist()}
        assert all(info.external_attr >> 16 & 0o111 for info in archive.infolist()), "they can be started"
    assert {"setup.sh", "run_autograder"} <= scripts.keys()
    assert "github.com/{repository}@{ref}".format(**labs.address()) in scripts["setup.sh"]

    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    (tmp_path / "venv" / "bin" / "python").chmod(0o755)
    for name in ("submission", "results"):
        (tmp_path / name).mkdir()
    script = scripts["run_autograder"].replace("/autograder/", f"{tmp_path}/")

    def results():
        subprocess.run(["bash", "-c", script], cwd=ROOT, check=True, capture_output=True)
        return json.loads((tmp_path / "results" / "results.json").read_text())

    assert results()["score"] == 0 and "no notebook" in results()["output"]
    nbformat.write(labs.read(labs.folder() / "alibi.py", labs.address()), tmp_path / "submission" / "x.ipynb")
    tests = results()["tests"]
    assert [test["score"] for test in tests] == [test["max_score"] for test in tests] == [3, 2, 2]


@pytest.mark.weekly
@pytest.mark.slow
def test_a_copy_without_sources_passes_its_tests_of_them(tmp_path):
    """The tests that read them skip with the reason; those of the pages run."""
    copy = tmp_path / "copy"
    words = ["git", "ls-files", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout.splitlines()
    for name in (name for name in names if (ROOT / name).is_file()):
        if not name.startswith("course/") or name in ("course/labs.py", "course/README.md"):
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, copy / name)
    wanted = ["tests/notebooks/test_labs.py", "tests/lab/test_grader.py", "tests/lab/test_kernel_lab.py"]
    wanted += ["tests/book/test_practice.py", "tests/book/test_book.py", "tests/lab/pages/test_teachers_page.py"]
    wanted += ["tests/book/test_errata.py", "tests/book/test_rope_closely.py", "tests/test_package.py"]
    chosen = "solution or course or lab or step or orphan or same_name or teachers or grader or exercise or chapter"
    words = [sys.executable, "-m", "pytest", "-q", "-rs", "-m", "not slow and not browser", "-k", chosen, *wanted]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("POSENC_", "PYTEST_"))}
    result = subprocess.run(words, cwd=copy, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout[-4000:]
    assert result.stdout.count("POSENC_COURSE=DIR") >= 3
