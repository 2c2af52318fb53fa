"""`python -m posenc.lab.check`: labs graded from notebooks that students have edited in every way."""

import copy
import json
import re

import nbformat
import pytest
from lab_runs import ROOT, TINY, labs

import posenc.chapters
from posenc.lab import check as checks
from posenc.lab.check import grade

LABS = [path.parent.name for path in labs.sources()]
WRONG = checks.text(checks.find("rope.rotate").reference)
WRONG_ROTATE = f"{WRONG[0]}\n{WRONG[1].replace('positions', '-positions')}"


def solved(lab):
    """A finished lab as a student hands it in: without the hidden tests."""
    notebook = labs.read(ROOT / "book" / lab / "lab.py", labs.address())
    notebook.cells = [cell for cell in notebook.cells if not labs.is_test(cell)]
    return notebook


def untouched(lab):
    return nbformat.read(ROOT / "notebooks" / f"{lab}.ipynb", as_version=4)


def code(source):
    return nbformat.v4.new_code_cell(source)


def cell_of(notebook, exercise):
    return next(cell for cell in notebook.cells if cell.id == exercise)


@pytest.fixture
def graded(tmp_path):
    """graded(notebook) -> {exercise: (points, words)}."""

    def grade_it(notebook, **options):
        path = tmp_path / "submission.ipynb"
        nbformat.write(notebook, path)
        return {row["exercise"]: (row["points"], row["words"]) for row in grade.grade(path, **options).exercises}

    return grade_it


@pytest.mark.parametrize("lab", [*LABS, "tiny"])
def test_points_are_those_of_the_course(lab, monkeypatch):
    monkeypatch.setattr(posenc.chapters, "__path__", [*posenc.chapters.__path__, str(TINY / "book")])
    source = (TINY if lab == "tiny" else ROOT) / "book" / lab / "lab.py"
    here = {f"{name}_test": exercise.points for name, exercise in checks.of(lab).items()}
    here["paper"] = checks.on_paper(lab)
    assert dict(labs.points(labs.read(source, labs.address()))) == here, "exercises.py and lab.py disagree"


@pytest.mark.weekly
@pytest.mark.parametrize("lab", LABS)
def test_solutions_get_full_marks_and_stubs_none(lab, graded):
    assert graded(solved(lab)) == {name: (exercise.points, "") for name, exercise in checks.of(lab).items()}
    assert graded(untouched(lab)) == {name: (0, "not done yet.") for name in checks.of(lab)}


def test_last_finished_definition_counts_wherever_it_stands_and_the_mistake_is_named(graded):
    notebook, empty = solved("rope"), untouched("rope")
    stubs = [cell for cell in empty.cells if "def " in cell.source]
    cell_of(notebook, "rotate_half").source += "\n    return )"  # a stub below, and this is no Python
    notebook.cells.remove(cell_of(notebook, "permutation"))
    cell_of(notebook, "inv_freq").source = "raise SystemExit\n@nosuchname\n" + cell_of(notebook, "inv_freq").source
    notebook.cells += [code(WRONG_ROTATE), *copy.deepcopy(stubs[2:3]), code("rotate = None\n1 / 0")]
    notebook.cells = [cell for cell in notebook.cells if "permutation" not in cell.source]
    for number, cell in enumerate(notebook.cells):
        cell.metadata, cell.id = {}, f"n{number}"
        if cell.cell_type == "code":
            cell.source = f"%%time\n%matplotlib inline\n!pip list\n{cell.source}\ntorch.stack?"
    rows = graded(notebook)
    assert [points for points, _ in rows.values()] == [0, 1, 0, 0, 2] and rows["shift_error"] == (2, "")
    words = {"inv_freq": "nosuchname", "rotate": "sign of the sine is flipped", "permutation": "not in the notebook"}
    assert all(said in rows[name][1] for name, said in words.items())


@pytest.mark.weekly
def test_what_hangs_or_ends_python_is_named(graded):
    for body, words in (("while True: pass", "rotate ran longer than 4 s"), ("os._exit(3)", "rotate ended Python .*3")):
        notebook = solved("rope")
        notebook.cells.append(code(f"import os\n\ndef rotate(x, positions, inv_freq):\n    {body}"))
        with pytest.raises(grade.GradeError, match=words):
            graded(notebook, limit=4)


@pytest.mark.weekly
def test_command_prints_points_and_json(tmp_path, capsys):
    wrong = solved("rope")
    wrong.cells.append(code(WRONG_ROTATE))
    for name, notebook in {"ada": solved("alibi"), "bob": wrong}.items():
        nbformat.write(notebook, tmp_path / f"{name}.ipynb")
    (tmp_path / "cy.ipynb").write_text("print('no notebook')")
    (tmp_path / "torch.py").write_text("raise SystemExit('a file of the folder was imported')")

    assert grade.main([str(tmp_path)]) == 1, "one file could not be graded"
    said = capsys.readouterr()
    assert [re.findall(r"(\w+) (\d+|\?)/(\d+)", line) for line in said.out.splitlines()] == [
        [("alibi", "7", "7"), ("paper", "?", "3")],
        [("rope", "8", "10"), ("rotate", "1", "3"), ("paper", "?", "4")],
    ]
    assert said.err.count("\n") == 1 and said.err.startswith(f"{tmp_path}/cy.ipynb: ")
    assert grade.main([str(tmp_path / "bob.ipynb"), "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert (record["lab"], record["points"], record["of"], record["on_paper"]) == ("rope", 8, 10, 4)


@pytest.mark.parametrize(
    "text, words",
    [
        ("import torch\n", "not JSON"),
        ('{"nbformat": 3, "worksheets": []}', "format 3"),
        ('{"cells": [{"cell_type": "code", "source": "def rotate(x):\\n    return x"}]}', "--lab"),
    ],
)
def test_what_cannot_be_graded_is_refused(tmp_path, capsys, text, words):
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    assert grade.main([str(path)]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"{path}: ") and words in said.err
