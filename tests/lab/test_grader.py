"""`python -m posenc.lab.exercises`: labs graded from notebooks that students have edited in every way."""

import copy
import json
import os
import re
import subprocess
import sys
import time

import nbformat
import pytest
from kit import COURSE, WHY
from lab_runs import ROOT, TINY, labs
from samples import sample

from posenc.lab import exercises as checks
from posenc.lab.exercises import cells, grade, submission

if not labs.sources():
    pytest.skip(WHY, allow_module_level=True)

LABS = [path.stem for path in labs.sources()]
ADDRESS = labs.address()

WRONG_ROTATE = """\
def rotate(x, positions, inv_freq):
    angles = -positions[..., None] * inv_freq
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)
"""


def solved(lab):
    """A finished lab as a student hands it in: without the hidden tests."""
    notebook = labs.read(COURSE / f"{lab}.py", ADDRESS)
    notebook.cells = [cell for cell in notebook.cells if not labs.is_test(cell)]
    return notebook


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


def full(lab):
    return {name: (exercise.points, "") for name, exercise in checks.of(lab).items()}


# Points


@pytest.mark.parametrize("lab", [*LABS, "tiny"])
def test_points_are_those_of_the_course(lab, monkeypatch):
    monkeypatch.setattr(checks, "__path__", [*checks.__path__, str(TINY / "checks")])
    source = TINY / "course" / "tiny.py" if lab == "tiny" else COURSE / f"{lab}.py"
    here = {f"{name}_test": exercise.points for name, exercise in checks.of(lab).items()}
    here["paper"] = checks.on_paper(lab)
    assert dict(labs.points(labs.read(source, ADDRESS))) == here, "posenc/lab/exercises and course/ disagree"


@pytest.mark.parametrize("lab", sample(LABS, every=4))
def test_solutions_get_full_marks(lab, graded):
    assert graded(solved(lab)) == full(lab)


@pytest.mark.parametrize("lab", sample(LABS, every=6))
def test_stubs_get_none(lab, graded):
    notebook = nbformat.read(ROOT / "notebooks" / f"{lab}.ipynb", as_version=4)
    assert graded(notebook) == {name: (0, "not done yet.") for name in checks.of(lab)}


@pytest.mark.parametrize("name", sample([f"{lab}.{name}" for lab in LABS for name in checks.of(lab)], every=4))
def test_both_graders_name_each_mistake_and_give_points_to_what_is_right(name, monkeypatch):
    """The graded cell of the nbgrader course, and the judge of the other grader, on everything that may go wrong."""
    lab, _, exercise = name.partition(".")
    cell = cell_of(labs.read(COURSE / f"{lab}.py", ADDRESS), f"{exercise}_test").source
    answers = {"": checks.find(name).reference} | checks.find(name).mistakes
    for words, function in answers.items():
        monkeypatch.setattr(submission, "_submissions", {name: function})
        notebook = cells.Notebook(lab)
        notebook.note(name, function)
        right, said = notebook.verdict(exercise)
        assert words in said and right == (not words)
        if words:
            with pytest.raises(AssertionError, match=re.escape(words)):
                exec(cell, {})
        else:
            exec(cell, {})


# What students do to cells


def test_cells_moved_doubled_deleted_and_stripped_of_metadata_change_nothing(graded):
    notebook = solved("rope")
    empty = nbformat.read(ROOT / "notebooks" / "rope.ipynb", as_version=4)
    notebook.cells = [cell for cell in notebook.cells if "= check(" not in cell.source]
    notebook.cells += copy.deepcopy(notebook.cells)
    notebook.cells += copy.deepcopy([cell for cell in empty.cells if "def " in cell.source])  # stubs below
    notebook.cells.reverse()
    notebook.cells += copy.deepcopy([cell for cell in empty.cells if "def " in cell.source])  # and above
    for number, cell in enumerate(notebook.cells):
        cell.metadata, cell.id = {}, f"n{number}"
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [nbformat.v4.new_output("stream", text="old")], 7
    assert graded(notebook) == full("rope")


def test_magics_shell_lines_and_help_are_no_obstacle(graded):
    notebook = solved("rope")
    for cell in notebook.cells:
        if cell.cell_type == "code":
            cell.source = f"%%time\n%matplotlib inline\n!pip list\nfiles = !ls\n{cell.source}\ntorch.stack?"
    notebook.cells.insert(0, code("%%bash\nfor f in *; do echo $f; done"))
    assert graded(notebook) == full("rope")


def test_last_definition_wins_and_the_mistake_is_named(graded):
    notebook = solved("rope")
    notebook.cells.append(code(WRONG_ROTATE))
    rows = graded(notebook)
    points, words = rows.pop("rotate")
    assert points == 0 and "the sign of the sine is flipped" in words and words.count("\n") == 0
    assert rows == {name: row for name, row in full("rope").items() if name != "rotate"}


def test_function_of_another_name_is_found_where_it_is_checked(graded):
    notebook = solved("rope")
    cell = cell_of(notebook, "rotate")
    cell.source = cell.source.replace("def rotate", "def turn_pairs")
    for cell in notebook.cells:
        cell.source = cell.source.replace('rotate = check("rope.rotate", rotate)', "check('rope.rotate', turn_pairs)")
    assert graded(notebook) == full("rope")


def test_function_may_lean_on_the_notebooks_own_helpers_and_tables(graded):
    notebook = solved("rope")
    cell = cell_of(notebook, "permutation")
    cell.source = "def permutation(dim):\n    return lanes_of(dim)[STARTS['even']:]"
    notebook.cells.append(code("STARTS = {}\nSTARTS['even'] = 0\nPARTS = []\nPARTS.append(0)\nPARTS.append(1)"))
    lanes = "class Lanes:\n    def __call__(self, n):\n        return torch.cat([torch.arange(p, n, 2) for p in PARTS])"
    notebook.cells.append(code(lanes))
    notebook.cells.append(code("lanes_of = Lanes()"))
    assert graded(notebook) == full("rope")


def test_last_definition_wins_though_its_import_stands_below(graded):
    notebook = solved("rope")
    good = cell_of(notebook, "rotate").source
    imports = [cell for cell in notebook.cells if "import torch" in cell.source]
    notebook.cells = [code(WRONG_ROTATE), code(good.replace("inv_freq)", "inv_freq, join=torch.stack)")), *imports]
    assert graded(notebook)["rotate"] == full("rope")["rotate"]


def test_deleted_exercise_is_missing_and_a_broken_cell_is_told(graded):
    notebook = solved("rope")
    notebook.cells.remove(cell_of(notebook, "inv_freq"))
    cell_of(notebook, "rotate").source += "\n    return ("
    cell_of(notebook, "permutation").source = "@nosuchname\n" + cell_of(notebook, "permutation").source
    for cell in list(notebook.cells):
        if '"rope.inv_freq"' in cell.source:
            notebook.cells.remove(cell)
    rows = graded(notebook)
    assert rows["inv_freq"] == (0, "not in the notebook.")
    assert rows["rotate"][0] == 0 and "no Python, line" in rows["rotate"][1]
    assert rows["permutation"][0] == 0
    assert "NameError" in rows["permutation"][1] and "nosuchname" in rows["permutation"][1]
    assert rows["rotate_half"] == full("rope")["rotate_half"]


@pytest.mark.parametrize("called", ["table", "my_table"])
def test_one_mistake_is_counted_once(graded, called):
    """Later exercises call the table; where it is wrong posenc's stands in, as in the lab."""
    notebook = solved("sinusoidal")
    for cell in notebook.cells:
        cell.source = re.sub(r"(?<![.\w])table(?=\(| = |\))", called, cell.source)
    cell = cell_of(notebook, "table")
    cell.source = cell.source.replace("(angles.sin(), angles.cos())", "(angles.cos(), angles.sin())")
    rows = graded(notebook)
    assert rows["table"][0] == 0 and "sine and cosine are swapped" in rows["table"][1]
    assert {name: row for name, row in rows.items() if name != "table"} == {
        name: row for name, row in full("sinusoidal").items() if name != "table"
    }


# What must not run, or not end


@pytest.mark.slow
def test_loops_that_do_not_end_and_exits_cost_their_exercise_alone(graded):
    notebook = solved("rope")
    cell_of(notebook, "rotate").source = "def rotate(x, positions, inv_freq):\n    while True:\n        pass"
    cell_of(notebook, "rotate_half").source = "import os\n\ndef rotate_half(x, positions, inv_freq):\n    os._exit(3)"
    cell_of(notebook, "permutation").source = "while True:\n    def permutation(dim):\n        return 0"
    rows = graded(notebook, limit=4)
    for name, words in {"rotate": "longer than 4 s", "rotate_half": "code 3", "permutation": "does not end"}.items():
        assert rows[name][0] == 0 and words in rows[name][1]
    assert rows["inv_freq"] == full("rope")["inv_freq"] and rows["shift_error"] == full("rope")["shift_error"]


def test_what_a_notebook_writes_to_every_open_file_is_no_word_of_another_one(graded):
    told = 'b\'{"end": 0}\\n{"child": 1}\\n[]\\nno line\\n\''
    hostile = solved("sinusoidal")
    hostile.cells.insert(
        1,
        code(
            f"import contextlib, os\nfor file in range(3, 64):\n    with contextlib.suppress(OSError):\n"
            f"        os.write(file, {told})"
        ),
    )
    assert graded(hostile) == full("sinusoidal") and graded(solved("sinusoidal")) == full("sinusoidal")


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows starts Python anew for each notebook")
def test_a_grader_that_loses_its_parent_ends_the_notebook_that_loops(tmp_path):
    grader = grade._Grader()
    task = {"cells": ["while True:\n    pass"], "lab": "sinusoidal", "skip": [], "seed": 0, "folder": str(tmp_path)}
    grader.process.stdin.write(json.dumps(task) + "\n")
    grader.process.stdin.flush()
    child = grader.tell(60)["child"]
    os.kill(child, 0)  # it lives
    grader.process.stdin.close()
    assert grader.process.wait(20) == 1
    with pytest.raises(ProcessLookupError):
        for _ in range(100):  # until the system has buried it
            os.kill(child, 0)
            time.sleep(0.1)


def test_training_magics_and_what_raises_are_no_answer_and_no_obstacle(graded):
    notebook = solved("rope")
    cell = cell_of(notebook, "rotate")
    cell.source = f"model, _ = train('rope', preset='study')\n%pip install nothing\nraise SystemExit\n{cell.source}"
    notebook.cells.insert(2, code("from posenc.lab.train import train\nfrom posenc.lab.exercises import check\n1 / 0"))
    assert graded(notebook, limit=30) == full("rope")


def test_training_on_pictures_does_not_run(graded):
    notebook = solved("rope")
    few = "Settings(dim=8, num_layers=1, batch=2, steps=2, warmup=1)"
    imports = "from posenc.lab.train import Settings\nfrom posenc.lab.train.pictures import train_pictures"
    trained = f"train_pictures('none', 'left', 0, {few}, progress=False)"
    notebook.cells.append(code(f"{imports}\nrotate = {trained} and (lambda *_: 0)"))  # the last answer, if it ran
    assert graded(notebook) == full("rope")


def test_a_check_that_the_notebook_redefines_is_not_asked(graded):
    notebook = nbformat.read(ROOT / "notebooks" / "rope.ipynb", as_version=4)
    told_right = "check = lambda name, function: print('right') or posenc.lab.exercises.find(name).reference"
    judges = ("posenc.lab.exercises.judge", "posenc.lab.exercises.verdict.judge")
    lies = "\n".join(f"{judge} = lambda *_: posenc.lab.exercises.Verdict(True, False, None, '')" for judge in judges)
    notebook.cells.append(code(f"{WRONG_ROTATE}\nimport posenc.lab.exercises\n{lies}\n{told_right}"))
    rows = graded(notebook)
    assert {name: points for name, (points, _) in rows.items()} == dict.fromkeys(checks.of("rope"), 0)
    assert "the sign of the sine is flipped" in rows["rotate"][1]


def test_a_stand_in_is_no_answer(graded):
    """Cells that are run twice, in whatever order, hand out no points."""
    notebook = nbformat.read(ROOT / "notebooks" / "rope.ipynb", as_version=4)
    notebook.cells += copy.deepcopy(notebook.cells)
    assert graded(notebook) == {name: (0, "not done yet.") for name in checks.of("rope")}


def test_prints_and_input_do_not_disturb(graded, capfd):
    notebook = solved("rope")
    cell = cell_of(notebook, "permutation")
    cell.source = cell.source.replace(
        "    ### BEGIN", '    print(\'{"exercise": "rotate"}\', flush=True)\n    ### BEGIN'
    )
    cell_of(notebook, "inv_freq").source = "def inv_freq(dim, base):\n    return input()"
    rows = graded(notebook)
    assert rows["inv_freq"][0] == 0 and "it raises EOFError" in rows["inv_freq"][1]
    assert rows["permutation"] == full("rope")["permutation"]
    assert capfd.readouterr() == ("", "")


# The command


def command(*words, cwd=ROOT):
    words = [sys.executable, "-m", "posenc.lab.exercises", *map(str, words)]
    return subprocess.run(words, capture_output=True, text=True, cwd=cwd)


@pytest.mark.slow
def test_command_prints_points_by_exercise_and_in_all(tmp_path):
    notebook = solved("rope")
    notebook.cells.append(code(WRONG_ROTATE))
    nbformat.write(notebook, tmp_path / "mine.ipynb")
    (tmp_path / "torch.py").write_text("raise SystemExit('a file of the folder was imported')")
    result = command("mine.ipynb", cwd=tmp_path / "..")
    assert result.returncode == 1 and result.stderr.startswith("mine.ipynb: ")
    result = command(tmp_path / "mine.ipynb")
    assert result.returncode == 0, result.stderr
    lines = [line.strip() for line in result.stdout.splitlines()]
    assert str(tmp_path / "mine.ipynb") in lines[0] and "rope" in lines[0]
    assert [re.match(r"(\S+) of (\d+)\b", line).groups() for line in lines[1:]] == [
        *(("0" if name == "rotate" else str(e.points), str(e.points)) for name, e in checks.of("rope").items()),
        ("7", "10"),
        ("?", "4"),
    ]
    assert all(name in line for name, line in zip(checks.of("rope"), lines[1:])) and "sine" in lines[2]


def test_folder_gives_a_line_each_and_json_the_same(tmp_path, capsys):
    wrong = solved("rope")
    wrong.cells.append(code(WRONG_ROTATE))
    for name, notebook in {"ada": solved("alibi"), "bob": wrong}.items():
        (tmp_path / name).mkdir()
        nbformat.write(notebook, tmp_path / name / "lab.ipynb")
    (tmp_path / "cy").mkdir()
    (tmp_path / "cy" / "lab.ipynb").write_text("print('no notebook')")
    (tmp_path / "cy" / ".ipynb_checkpoints").mkdir()
    (tmp_path / "cy" / ".ipynb_checkpoints" / "lab-checkpoint.ipynb").write_text("{}")

    assert grade.main([str(tmp_path)]) == 1, "one file could not be graded"
    said = capsys.readouterr()
    for line, name, found in zip(
        said.out.splitlines(),
        ("ada", "bob"),
        ([("alibi", "7", "7"), ("paper", "?", "3")], [("rope", "7", "10"), ("rotate", "0", "3"), ("paper", "?", "4")]),
        strict=True,
    ):
        path, points = line.split(": ", 1)
        assert path == f"{tmp_path}/{name}/lab.ipynb"
        assert re.findall(r"(\w+) (\d+|\?)/(\d+)", points) == found
    refused, judge = said.err.splitlines()
    assert refused.startswith(f"{tmp_path}/cy/lab.ipynb: ") and "posenc's own" in judge

    assert grade.main([str(tmp_path / "bob"), "--json"]) == 0
    (record,) = json.loads(capsys.readouterr().out)
    assert (record["lab"], record["points"], record["of"], record["on_paper"]) == ("rope", 7, 10, 4)
    assert [row["points"] for row in record["exercises"]] == [1, 0, 2, 2, 2]
    assert "sine is flipped" in record["exercises"][1]["words"]
    assert [bool(row["mistake"]) for row in record["exercises"]] == [False, True, False, False, False]
    assert record["exercises"][1]["mistake"] in checks.find("rope.rotate").mistakes


@pytest.mark.parametrize(
    "text, words",
    [
        ("import torch\n", "not JSON"),
        ("[1, 2]", "cells"),
        ('{"nbformat": 3, "worksheets": []}', "format 3"),
        ('{"cells": []}', "none of the labs"),
        ('{"cells": [{"cell_type": "code", "source": "def rotate(x):\\n    return x"}]}', "none of the labs"),
        ('{"cells": [{"cell_type": "code", "source": ["import posenc\\n", "bias = 1\\n", "rotate = 1"]}]}', "--lab"),
    ],
    ids=["python", "list", "format 3", "empty", "other", "two labs"],
)
def test_what_cannot_be_graded_is_refused(tmp_path, capsys, text, words):
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    assert grade.main([str(path)]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"{path}: ") and words in said.err


def test_bad_arguments_are_refused(tmp_path, capsys):
    assert grade.main([str(tmp_path)]) == 1
    assert "no notebook in this folder" in capsys.readouterr().err
    for words in (["x.ipynb", "--limit", "0"], ["x.ipynb", "--lab", "rop"], []):
        with pytest.raises(SystemExit) as stop:
            grade.main(words)
        assert stop.value.code == 2
