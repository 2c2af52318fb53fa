"""The labs' checks: what they say of right, undone, wrong and broken functions, and what both graders say of all."""

import re
import sys
import types

import nbformat.v4
import numpy as np
import pytest
import torch
from nbgrader.utils import determine_grade

from posenc.lab import check as checks
from posenc.lab.check import Exercise, cells, check, judge, require, submission

ALL = [f"{lab}.{name}" for lab in checks.labs() for name in checks.of(lab)]


def turn(x, positions):
    """The reference of these tests: each row times its position."""
    return x * positions[:, None]


def off_by_one(x, positions):
    return x * (positions + 1)[:, None]


EXERCISE = Exercise(
    title="Exercise 1, turn",
    reference=turn,
    cases=[
        (torch.arange(1.0, 7.0).reshape(3, 2), torch.tensor([2.0, 5.0, 7.0])),
        (torch.ones(2, 3), torch.tensor([3.0, 4.0])),
    ],
    mistakes={
        "the sign is flipped": "x * -> -x *",
        "positions are off by one": off_by_one,
        "rows and lanes are swapped": "-> turn(x, positions).T",
    },
)


@pytest.fixture
def named(monkeypatch):
    """EXERCISE under the name "test.turn", and nothing handed in yet."""
    monkeypatch.setattr(submission, "find", lambda name: EXERCISE)
    monkeypatch.setattr(submission, "_submissions", {})


def changes_input(x, positions):
    x *= positions[:, None]
    return x


def breaks(x, positions):
    y = x + 1
    return y[17]


def half_done(x, positions):
    if len(x) == 2:
        raise NotImplementedError
    return turn(x, positions)


def one_number_off(x, positions):
    out = turn(x, positions)
    out[-1, -1] += 0.5
    return out


def stands_in(function):
    """Whether a function is posenc's in the place of the student's."""
    x, positions = EXERCISE.cases[0]
    same = torch.equal(function(x, positions=positions), turn(x, positions))
    return isinstance(function, submission.StandIn) and same


def test_right_answer_is_returned_and_named_right(named, capsys):
    mine = lambda x, positions: torch.einsum("td,t->td", x, positions)  # noqa: E731
    assert check("test.turn", mine) is mine
    said = capsys.readouterr().out
    assert said.startswith("Exercise 1, turn: right") and said.count("\n") == 1
    require("test.turn")


UNDONE = [None, ..., lambda *_: None, lambda *_: ..., lambda *_: exec("raise NotImplementedError")]


@pytest.mark.parametrize("answer", UNDONE)
def test_undone_stub_prints_one_line_and_the_reference_stands_in(named, capsys, answer):
    assert stands_in(check("test.turn", answer))
    said = capsys.readouterr().out
    assert "Exercise 1, turn: not done" in said and "posenc's version" in said and said.count("\n") == 1
    with pytest.raises(AssertionError, match="not done"):
        require("test.turn")


@pytest.mark.parametrize(
    "answer, words",
    [
        (off_by_one, "positions are off by one"),
        (lambda x, positions: turn(x, positions)[0], r"case 1 of 2.*\[2\].*\[3, 2\]"),
        (lambda x, positions: turn(x, positions).double(), "float64.*float32"),
        (lambda x, positions: (x, positions), "2 values.*1"),
        (lambda x, positions: "twelve", r"'twelve'.*tensor.*\[3, 2\]"),
        (one_number_off, r"42\.5 at \[2, 1\].*42.*0\.5; 1 of 6"),
        (lambda x, positions: turn(x, positions) * float("nan"), "nan at"),
        (breaks, "IndexError.*line 3.*17"),
        (lambda x: x, "TypeError.*positional"),
        (changes_input, "argument x in place"),
        (half_done, r"x of shape \[2, 3\].*case 2 of 2.*NotImplementedError"),
        (torch.zeros(2), "function.*Tensor"),
    ],
)
def test_wrong_answer_is_told_in_one_line(named, capsys, answer, words):
    assert stands_in(check("test.turn", answer))
    line = capsys.readouterr().out
    assert line.count("\n") == 1 and line.startswith("Exercise 1, turn: not right") and "posenc's version" in line
    assert re.search(words, line), line
    with pytest.raises(AssertionError, match=words):
        require("test.turn")


@pytest.mark.parametrize("answer", [None, off_by_one], ids=["undone", "wrong"])
def test_a_check_that_is_run_again_says_the_same_of_what_the_student_wrote(named, capsys, answer):
    mine = check("test.turn", answer)
    once = capsys.readouterr().out
    for _ in range(2):
        mine = check("test.turn", mine)
        assert stands_in(mine) and capsys.readouterr().out == once
    assert submission._submissions["test.turn"] is answer
    with pytest.raises(AssertionError):
        require("test.turn")
    assert check("test.turn", turn) is turn, "a stand-in does not stay where the student goes on"
    require("test.turn")


def test_tolerance_is_relative_to_the_greater_of_one_and_the_expected():
    exercise = Exercise(lambda x: x, [(torch.tensor([1e-3, 1e4]),)], tolerance=1e-3)
    assert judge(exercise, lambda x: x + torch.tensor([9e-4, 9.0])).right
    assert not judge(exercise, lambda x: x + torch.tensor([2e-3, 0.0])).right
    assert not judge(exercise, lambda x: x + torch.tensor([0.0, 11.0])).right


@pytest.mark.parametrize(
    "reference, same, other",
    [
        (lambda: 0.5, lambda: torch.tensor(0.5), lambda: 0.6),
        (lambda: "half", lambda: "half", lambda: "interleaved"),
        (lambda: (torch.ones(2), 1), lambda: [torch.ones(2), 1], lambda: (torch.ones(2), 2)),
        (lambda: torch.ones(2), lambda: np.ones(2, dtype=np.float32), lambda: np.zeros(2, dtype=np.float32)),
    ],
)
def test_values_of_each_kind_are_compared(reference, same, other):
    exercise = Exercise(reference, [()])
    assert judge(exercise, same).right
    assert not judge(exercise, other).right


def test_an_exercise_that_was_never_checked_earns_nothing(named):
    with pytest.raises(LookupError, match="test.never"):
        require("test.never")


def test_where_no_check_was_run_the_notebooks_function_of_that_name_is_required(named, monkeypatch):
    notebook = types.ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", notebook)
    notebook.turn = off_by_one
    with pytest.raises(AssertionError, match="off by one"):
        require("test.turn")
    notebook.turn = turn
    require("test.turn")
    check("test.turn", off_by_one)
    with pytest.raises(AssertionError, match="off by one"):
        require("test.turn")


def test_an_exercise_is_called_by_its_place_and_name():
    assert [checks.find(name).title for name in ("rope.rotate", "symptoms.mask")] == [
        "Exercise 2, rotate",
        "Case 6, mask",
    ]


@pytest.mark.parametrize(
    "name, error, words",
    [
        ("sinusodial.table", ValueError, "'sinusodial'.*'sinusoidal'"),
        ("rope.rotat", ValueError, "'rotat'.*'rotate'"),
        ("rope", ValueError, "no exercise ''.*rotate_half"),
        (7, TypeError, "name=7.*string"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name, error, words):
    with pytest.raises(error, match=words):
        check(name, turn)


def test_mistake_is_the_solution_with_replacements_and_one_that_does_not_fit_is_refused():
    def made(mistake):
        return Exercise(turn, EXERCISE.cases, mistakes={"wrong": mistake}).mistakes["wrong"](*EXERCISE.cases[0])

    right = turn(*EXERCISE.cases[0])
    assert torch.equal(made("x * -> -x *"), -right) and torch.equal(made("-> turn(x, positions) + 1"), right + 1)
    assert torch.equal(made(("x -> 2 * x", "[:, None] -> [:, None] * 3")), 6 * right)
    for misfit in ("y -> x", "s -> t", "x * positions"):
        with pytest.raises(ValueError, match=re.escape(repr(misfit))):
            made(misfit)
    with pytest.raises(ValueError, match="shares.*'nothing'"):
        Exercise(turn, EXERCISE.cases, shares={"nothing": 1.0})


KERNELS = [name for name in ALL if name.startswith("kernels.")]  # run one number at a time: three mistakes are enough
JUDGED = [(name, 3 if name in KERNELS else None) for name in ALL]
JUDGED += [pytest.param(name, None, marks=pytest.mark.weekly) for name in KERNELS]


def check_both_graders(name, exercise, answers, monkeypatch):
    """The graded test of the nbgrader course, and the grader of notebooks from anywhere: {words: answer}."""
    about = {"grade": True, "solution": False, "points": exercise.points}
    for words, answer in {"": exercise.reference, "not done yet": None, **answers}.items():
        monkeypatch.setattr(submission, "_submissions", {name: answer})
        notebook = cells.Notebook(name.partition(".")[0])
        notebook.note(name, answer)
        share = exercise.shares.get(words, 0.5) if answer else 0
        points = int(share * exercise.points) if words else exercise.points
        said = f"not right yet: {words}." if answer and words else words and f"{words}."
        assert notebook.verdict(name.partition(".")[2]) == (points, said)
        try:
            value = require(name)
            shown = [] if value is None else [nbformat.v4.new_output("execute_result", {"text/plain": repr(value)})]
        except AssertionError as error:
            assert words in str(error)
            shown = [nbformat.v4.new_output("error")]
        assert determine_grade(nbformat.v4.new_code_cell(metadata={"nbgrader": about}, outputs=shown))[0] == points


@pytest.mark.parametrize("name, most", JUDGED)
def test_both_graders_give_all_points_to_the_solution_alone_and_name_each_mistake(name, most, monkeypatch):
    mistakes = checks.find(name).mistakes
    assert len(mistakes) >= 3, f"{name} knows {len(mistakes)} typical mistakes, three are wanted"
    check_both_graders(name, checks.find(name), dict(list(mistakes.items())[:most]), monkeypatch)


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", [name for name in ALL if checks.find(name).variants])
def test_ten_students_answers_differ_and_both_graders_agree_on_them(name, monkeypatch, capsys):
    base, titles = checks.find(name), set()
    for seed in range(61, 71):  # among them they draw each variant of each exercise
        monkeypatch.setenv("POSENC_SEED", str(seed))
        exercise = base.seeded()
        check_both_graders(name, exercise, exercise.mistakes, monkeypatch)
        assert judge(base, base.reference).points == 0, "the lab's text is no answer"
        titles.add(exercise.title)
        goes_on = check(name, exercise.reference)
        assert goes_on.__wrapped__ is base.reference and f"{exercise.title}: right" in capsys.readouterr().out
    assert len(titles) == len(base.variants)
