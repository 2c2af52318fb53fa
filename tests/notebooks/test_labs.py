"""The labs: notebooks in step with their source, nothing given away, run undone and solved, graded by nbgrader."""

import copy
import itertools
import os
import re
import shutil
import sys
import types
from importlib.metadata import requires
from pathlib import Path

import nbformat
import pytest
from IPython.core.inputtransformer2 import TransformerManager
from lab_runs import ROOT, TINY, checked, errors, graded, labs, printed, private, run_here
from nbgrader.preprocessors import ClearSolutions
from packaging.requirements import Requirement

import posenc.chapters
from posenc.lab import check as checks
from posenc.lab.check import find, submission
from posenc.lab.check import labs as exercised
from posenc.lab.titles import TITLES

SOURCES = {path.parent.name: path for path in labs.sources()}
ALL = [*SOURCES, "tiny"]
ADDRESS = labs.address()


def source(lab):
    return TINY / "book" / "tiny" / "lab.py" if lab == "tiny" else SOURCES[lab]


def solved(lab):
    return labs.read(source(lab), ADDRESS)


def student(lab):
    return labs.strip(solved(lab))


def written(lab):
    """All that a teacher writes: the cells of the solved lab as one text."""
    return "\n".join(cell.source for cell in solved(lab).cells)


def regions(lab, kind):
    """The lines that stand between BEGIN and END of "SOLUTION" or "HIDDEN TESTS", as one list for each region."""
    found = re.findall(rf"### BEGIN {kind}\n(.*?)### END {kind}", written(lab), re.DOTALL)
    return [[line.strip() for line in region.splitlines() if line.strip()] for region in found]


# In step


def test_every_method_with_a_lab_has_its_source_and_its_exercises():
    private("rope/lab.py")
    of_no_method = {"kernels", "pretrained", "scaling", "symptoms"}
    wanted = {row.lab for row in TITLES.values() if row.lab} | of_no_method
    assert wanted == set(SOURCES) <= set(exercised())
    of_pages = set(exercised()) - set(SOURCES)  # exercises that a chapter without a lab checks on its page
    assert all(f'check("{name}.' in (ROOT / "book" / name / "index.md").read_text("utf-8") for name in of_pages)


def test_notebooks_are_in_step_with_their_sources(capsys):
    assert labs.main(["--check"]) == 0, capsys.readouterr().err


@pytest.fixture
def copy_of_tiny(tmp_path):
    """A project with the tiny lab alone: its folder, where `labs.main` has written the notebook."""
    shutil.copytree(TINY / "book", tmp_path / "book")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    assert labs.main([], root=tmp_path) == 0
    assert labs.main(["--check"], root=tmp_path) == 0
    return tmp_path


@pytest.mark.parametrize(
    "name, old, new",
    [
        ("book/tiny/lab.py", "On paper", "With a pencil"),
        ("notebooks/tiny.ipynb", "On paper", "With a pencil"),
        ("pyproject.toml", f'ref = "{ADDRESS["ref"]}"', 'ref = "v1"'),
    ],
)
def test_check_names_the_lab_that_is_out_of_step(copy_of_tiny, capsys, name, old, new):
    changed = copy_of_tiny / name
    changed.write_text(changed.read_text().replace(old, new))
    before = {path: path.read_bytes() for path in copy_of_tiny.rglob("*.ipynb")}
    capsys.readouterr()
    assert labs.main(["--check"], root=copy_of_tiny) == 1
    assert "notebooks/tiny.ipynb" in capsys.readouterr().err
    assert before == {path: path.read_bytes() for path in copy_of_tiny.rglob("*.ipynb")}, "--check must write nothing"


def test_kit_takes_what_is_private_out_of_a_fork_and_the_course_is_made_with_it(copy_of_tiny, tmp_path_factory, capsys):
    fork, kit = copy_of_tiny / "book" / "tiny", tmp_path_factory.mktemp("teacher")
    (fork / "solutions.md").write_text("on paper")
    source, notebook = (fork / "lab.py").read_text(), (copy_of_tiny / "notebooks" / "tiny.ipynb").read_bytes()
    with_kit = ["--kit", str(kit / "kit")]
    assert labs.main(with_kit, root=copy_of_tiny) == 0
    assert [path.name for path in sorted(fork.glob("[!_]*"))] == ["exercises.py"]
    kept = kit / "kit" / "book" / "tiny"
    assert (kept / "solutions.md").read_text() == "on paper" and (kept / "lab.py").read_text() == source

    assert labs.main([], root=copy_of_tiny) == 1 and "--kit" in capsys.readouterr().err
    assert labs.main(["--check"], root=copy_of_tiny) == labs.main([*with_kit, "--check"], root=copy_of_tiny) == 0
    assert notebook == (copy_of_tiny / "notebooks" / "tiny.ipynb").read_bytes()
    assert labs.main([*with_kit, "--course", str(kit / "course")], root=copy_of_tiny) == 0
    assert "BEGIN SOLUTION" in (kit / "course" / "source" / "tiny" / "tiny.ipynb").read_text()

    (fork / "lab.py").write_text(f"{source}\n# a later version of the book")
    assert labs.main(with_kit, root=copy_of_tiny) == 1 and "--force" in capsys.readouterr().err
    assert (fork / "lab.py").exists() and (kept / "lab.py").read_text() == source
    assert labs.main([*with_kit, "--force"], root=copy_of_tiny) == 0 and "later" in (kept / "lab.py").read_text()
    with pytest.raises(SystemExit):
        labs.main(["--kit", str(copy_of_tiny / "kit")], root=copy_of_tiny)


def test_a_course_is_made_again_but_for_what_a_teacher_changed(copy_of_tiny, capsys):
    course = ["--course", str(copy_of_tiny / "grading")]
    assert labs.main(course, root=copy_of_tiny) == labs.main(course, root=copy_of_tiny) == 0
    target = copy_of_tiny / "grading" / "source" / "tiny" / "tiny.ipynb"
    ours, theirs = target.read_text(), target.read_text().replace("On paper", "With a pencil")
    target.write_text(theirs)
    assert labs.main(course, root=copy_of_tiny) == 1 and target.read_text() == theirs != ours
    said = capsys.readouterr().err
    assert str(target) in said and "--force" in said
    assert labs.main([*course, "--force"], root=copy_of_tiny) == 0 and target.read_text() == ours


def test_readme_and_citation_follow_the_address_and_no_page_types_it(copy_of_tiny, capsys):
    old, new = "git+https://github.com/posenc/posenc@main", "git+https://github.com/a.b/c-d@v1.2"
    (copy_of_tiny / "_toc.yml").write_text("file: notebooks/tiny")
    (copy_of_tiny / "README.md").write_text(f'pip install {old}\n"posenc[book] @ {old}"\n| lab | |\n|---|---|\n| x |\n')
    (copy_of_tiny / "CITATION.cff").write_text("repository-code: https://github.com/posenc/posenc\n")
    table = '[tool.posenc]\nrepository = "a.b/c-d"\nref = "v1.2"\n'
    (copy_of_tiny / "pyproject.toml").write_text(table)
    assert labs.main(["--check"], root=copy_of_tiny) == 1 and "CITATION.cff" in capsys.readouterr().err
    assert labs.main([], root=copy_of_tiny) == labs.main(["--check"], root=copy_of_tiny) == 0
    text = (copy_of_tiny / "README.md").read_text()
    assert f'pip install {new}\n"posenc[book] @ {new}"\n' in text and "github/a.b/c-d/blob/v1.2/notebooks/tiny" in text
    assert (copy_of_tiny / "CITATION.cff").read_text() == "repository-code: https://github.com/a.b/c-d\n"
    assert [
        p for p in (ROOT / "book").glob("*/index.md") if f"github.com/{ADDRESS['repository']}" in p.read_text()
    ] == []


@pytest.mark.parametrize("lab", SOURCES)
def test_every_lab_has_badge_and_install_cell_and_no_address_of_its_own(lab):
    assert ADDRESS["repository"] not in source(lab).read_text(encoding="utf-8")
    cells = student(lab).cells
    assert {labs.BADGE.format(**ADDRESS, lab=lab), labs.SAVE} <= set(cells[0].source.splitlines())
    install = [cell.source for cell in cells if "install" in cell.metadata.get("tags", [])]
    extras = "book,kernels" if lab == "kernels" else "book"  # Triton is large, and one lab writes kernels
    assert install == [labs.INSTALL.format(**ADDRESS, extras=extras)]


def test_a_failed_install_says_what_to_do_and_the_next_cell_stops(monkeypatch):
    ran, shell = [], types.SimpleNamespace(run_line_magic=lambda name, line: ran.append(f"%{name} {line}"))
    cells = [cell.source for cell in student("tiny").cells if cell.cell_type == "code"]
    monkeypatch.setitem(sys.modules, "google.colab", types.ModuleType("google.colab"))
    monkeypatch.setitem(sys.modules, "posenc", None)  # as if not installed
    for source, words in zip(cells[:2], (f"%pip install .*{ADDRESS['repository']}/archive/", "the cell above")):
        with pytest.raises(RuntimeError, match=words):
            exec(TransformerManager().transform_cell(source), {"get_ipython": lambda: shell})
    assert [line.startswith("%pip install") for line in ran] == [True]


def test_colab_holds_everything_that_posenc_needs():
    text = (ROOT / "tests" / "colab-constraints.txt").read_text("utf-8")
    held = {"torch": "2.11.0", "triton": "3.6.0"} | dict(re.findall(r"^([\w-]+)==(\S+)", text, re.M))
    needed = [Requirement(r) for r in requires("posenc")]
    assert {r.name for r in needed} <= set(held), "what is not in Colab would have to be fetched"
    assert [r for r in needed if held[r.name] not in r.specifier] == [], "pip would replace these there"


# Nothing given away


def given_away(lab, notebook):
    """The lines of solutions, hidden tests and answers on paper that a notebook shows, wherever it shows them."""
    shown = {line.strip() for cell in notebook.cells for line in cell.source.splitlines()}
    secret = list(itertools.chain(*regions(lab, "SOLUTION"), *regions(lab, "HIDDEN TESTS")))
    assert secret, "a lab has exercises"
    lines = [line.strip().removeprefix("# ") for line in written(lab).splitlines()]
    secret = [line for line in secret if lines.count(line.removeprefix("# ")) == secret.count(line)]  # not outside too
    paper = [cell.source for cell in solved(lab).cells if cell.cell_type == "markdown" and "nbgrader" in cell.metadata]
    answers = [line.strip() for answer in paper for line in answer.splitlines() if line.strip()]
    assert answers, "a lab has answers on paper"
    marks = [line for line in shown if re.search("(BEGIN|END) (SOLUTION|HIDDEN TESTS|MARK SCHEME)", line)]
    return [line for line in [*secret, *answers] if line in shown] + marks


@pytest.mark.parametrize("lab", ALL)
def test_student_copy_holds_no_solution_no_hidden_test_and_no_output(lab):
    path = ROOT / "notebooks" / f"{lab}.ipynb"
    notebook = student(lab) if lab == "tiny" else nbformat.read(path, as_version=4)
    assert given_away(lab, notebook) == []
    assert given_away(lab, solved(lab)), "this test would find a solution"
    for cell in notebook.cells:
        assert not cell.get("outputs") and cell.get("execution_count") is None
        if cell.cell_type == "code" and cell.metadata.get("nbgrader", {}).get("solution"):
            assert "raise NotImplementedError()" in cell.source
    assert not graded(notebook), "a graded cell in the student's copy shows its tests"


@pytest.mark.parametrize("lab", SOURCES)
def test_each_exercise_of_the_lab_is_checked_in_it(lab):
    names = [f"{lab}.{name}" for name in checks.of(lab)]
    assert sorted(checked(solved(lab))) == sorted(names) and len(names) >= 2


# Run


def keep_hidden_tests(lab):
    """The lab undone, but with its hidden tests: what grading sees of a student who did nothing."""
    return ClearSolutions().preprocess(solved(lab), {})[0]


@pytest.fixture
def quick(monkeypatch):
    """Labs that run here train as little as for a grader, and leave nothing behind; in the book they train all."""
    monkeypatch.setattr(submission, "_submissions", {})
    monkeypatch.setattr(posenc.chapters, "__path__", [*posenc.chapters.__path__, str(TINY / "book")])
    monkeypatch.setenv("TINY", str(TINY / "book"))
    monkeypatch.setenv("POSENC_PRESET", "nano")
    monkeypatch.setenv("POSENC_STEPS", "0")


@pytest.mark.parametrize("lab", ALL)
def test_lab_undone_runs_through_names_each_stub_and_earns_nothing(lab, quick):
    ran = run_here(keep_hidden_tests(lab))
    assert sorted(errors(ran)) == sorted(graded(ran)), f"only graded cells raise, and each of them: {errors(ran)}"
    for name in checked(ran):
        assert f"{find(name).title}: not done yet." in printed(ran)


@pytest.mark.parametrize("lab", ALL)
def test_lab_solved_passes_its_checks_and_its_hidden_tests(lab, quick):
    ran = run_here(solved(lab))
    assert not errors(ran)
    for name in checked(ran):
        assert f"{find(name).title}: right" in printed(ran)


# nbgrader


@pytest.fixture
def grader(tmp_path_factory, monkeypatch):
    """Makes nbgrader's API over a folder that `--course` has filled, under the configuration that it wrote."""
    from nbgrader.apps import NbGraderAPI
    from traitlets.config import PyFileConfigLoader

    def open_course(folder):
        config = PyFileConfigLoader("nbgrader_config.py", path=str(folder)).load_config()
        config.CourseDirectory.root = str(folder)
        config.Exchange.root = str(tmp_path_factory.mktemp("exchange"))
        monkeypatch.chdir(folder)
        return NbGraderAPI(config=config)

    monkeypatch.setenv("PATH", str(Path(sys.executable).parent), prepend=os.pathsep)  # nbgrader calls alembic
    monkeypatch.setenv("TINY", str(TINY / "book"))
    monkeypatch.setenv("POSENC_PRESET", "lab")  # as a teacher may have it; the configuration says nano
    monkeypatch.setenv("POSENC_STEPS", "0")  # which the configuration sets: here it is taken back
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    return open_course


@pytest.mark.parametrize("lab", ALL)
def test_notebook_of_a_course_opens_no_other_notebook(lab, copy_of_tiny, tmp_path):
    """The public copy has no graded cells: who works in it, and hands it in, must not be led there by the course."""
    root = copy_of_tiny if lab == "tiny" else ROOT
    assert labs.main([lab, "--course", str(tmp_path / "grading")], root=root) == 0
    cells = nbformat.read(tmp_path / "grading" / "source" / lab / f"{lab}.ipynb", as_version=4).cells
    assert labs.HAND_IN in cells[0].source and "{{badge}}" not in cells[0].source
    assert not any("colab.research.google.com" in cell.source for cell in cells)


def filled_in(lab, notebook):
    """A notebook with the solutions written into it; the hidden tests come back when it is graded."""
    solutions = {cell.id: cell.source for cell in solved(lab).cells if not labs.is_test(cell)}
    notebook = copy.deepcopy(notebook)
    for cell in notebook.cells:
        cell.source = solutions.get(cell.metadata.get("nbgrader", {}).get("grade_id"), cell.source)
    return notebook


def hand_in(folder, name, lab, notebook):
    target = folder / "submitted" / name / lab / f"{lab}.ipynb"
    target.parent.mkdir(parents=True)
    nbformat.write(notebook, target)


@pytest.mark.grading
@pytest.mark.filterwarnings("ignore::sqlalchemy.exc.SAWarning")  # of nbgrader's own
def test_nbgrader_releases_no_solution_and_gives_full_marks_to_solutions_and_none_to_stubs(
    copy_of_tiny, tmp_path, grader
):
    """Of the smallest lab: of the others the tests above run the same cells, and test_course grades RoPE's."""
    from nbgrader.api import Gradebook

    lab, folder = "tiny", tmp_path / "grading"
    assert labs.main([lab, "--course", str(folder)], root=copy_of_tiny) == 0
    api = grader(folder)
    result = api.generate_assignment(lab)
    assert result["success"], result["log"]
    assert [path.name for path in folder.glob("release/**/*") if path.is_file()] == [f"{lab}.ipynb"]
    released = nbformat.read(folder / "release" / lab / f"{lab}.ipynb", as_version=4)
    assert given_away(lab, released) == []
    assert not [cell.id for cell in released.cells if cell.get("outputs")]

    by_code = sum(points for grade_id, points in labs.points(solved(lab)) if grade_id != "paper")
    students = {"solver": (filled_in(lab, released), by_code), "idler": (released, 0)}
    students["elsewhere"] = filled_in(lab, student(lab)), by_code  # in the public copy, which has no graded cells
    for name, (notebook, _) in students.items():
        hand_in(folder, name, lab, notebook)
        result = api.autograde(lab, name)
        assert result["success"], result["log"]
    with Gradebook(f"sqlite:///{folder / 'gradebook.db'}", "posenc") as book:
        submissions = {name: book.find_submission(lab, name) for name in students}
        scores = {name: one.code_score for name, one in submissions.items()}
        assert scores == {name: points for name, (_, points) in students.items()}
        assert {one.max_code_score for one in submissions.values()} == {by_code}
        assert submissions["solver"].needs_manual_grade, "answers on paper are graded by hand"
