"""The labs' checks: what they say of right, undone, wrong and broken functions, and the tables of exercises."""

import importlib
import re
import subprocess
import sys

import numpy as np
import pytest
import torch

from posenc.lab import exercises
from posenc.lab.exercises import find, methods
from posenc.lab.exercises.check import Exercise, Verdict, check, judge, submitted

ALL = [
    f"{method}.{name}"
    for method in methods()
    for name in importlib.import_module(f"{exercises.__name__}.{method}").EXERCISES
]


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
        "the sign is flipped": lambda x, positions: -turn(x, positions),
        "positions are off by one": off_by_one,
        "rows and lanes are swapped": lambda x, positions: turn(x, positions).T,
    },
)


@pytest.fixture
def named(monkeypatch):
    """EXERCISE under the name "test.turn"."""
    monkeypatch.setattr(exercises, "find", lambda name: EXERCISE)


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


def test_right_answer_is_returned_and_named_right(named, capsys):
    mine = lambda x, positions: torch.einsum("td,t->td", x, positions)  # noqa: E731
    assert check("test.turn", mine) is mine
    assert capsys.readouterr().out == "Exercise 1, turn: right, in 2 cases.\n"


@pytest.mark.parametrize(
    "answer",
    [
        None,
        ...,
        lambda x, positions: None,
        lambda x, positions: ...,
        lambda x, positions: exec("raise NotImplementedError"),
    ],
    ids=["None", "dots", "returns None", "returns dots", "raises NotImplementedError"],
)
def test_undone_stub_prints_one_line_and_the_reference_stands_in(named, capsys, answer):
    assert check("test.turn", answer) is turn
    assert capsys.readouterr().out == "Exercise 1, turn: not done yet. Below, posenc's version stands in.\n"


@pytest.mark.parametrize(
    "answer, words",
    [
        (lambda x, positions: -turn(x, positions), "the sign is flipped"),
        (off_by_one, "positions are off by one"),
        (lambda x, positions: turn(x, positions).T, "rows and lanes are swapped"),
        (lambda x, positions: turn(x, positions)[0], r"case 1 of 2.*returns shape \[2\], not \[3, 2\]"),
        (lambda x, positions: turn(x, positions).double(), "returns float64, not float32"),
        (lambda x, positions: (x, positions), "returns 2 values, not 1"),
        (lambda x, positions: "twelve", r"returns 'twelve', not a tensor of shape \[3, 2\]"),
        (one_number_off, r"returns 42\.5 at \[2, 1\], not 42 \(off by 0\.5; 1 of 6 numbers differ\)"),
        (lambda x, positions: turn(x, positions) * float("nan"), "returns nan at"),
        (breaks, "raises IndexError in its line 3: index 17 is out of bounds"),
        (lambda x: x, "raises TypeError.*positional argument"),
        (changes_input, "changes its argument x in place"),
        (half_done, r"x of shape \[2, 3\].*case 2 of 2.*raises NotImplementedError"),
        (torch.zeros(2), "a function is expected, this is of type Tensor"),
    ],
    ids=[
        "sign",
        "off by one",
        "swapped",
        "shape",
        "dtype",
        "count",
        "kind",
        "value",
        "nan",
        "exception",
        "arguments",
        "in place",
        "half done",
        "no function",
    ],
)
def test_wrong_answer_is_told_in_one_line(named, capsys, answer, words):
    assert check("test.turn", answer) is turn
    line = capsys.readouterr().out
    assert line.count("\n") == 1 and line.startswith("Exercise 1, turn: not right yet: ")
    assert line.endswith("Below, posenc's version stands in.\n")
    assert re.search(words, line), line


def test_inputs_survive_a_function_that_spoils_them():
    before = [[x.clone() for x in case] for case in EXERCISE.cases]
    judge(EXERCISE, changes_input)
    assert all(torch.equal(a, b) for old, case in zip(before, EXERCISE.cases) for a, b in zip(old, case))
    assert judge(EXERCISE, turn).right


def test_interrupting_is_not_swallowed():
    def interrupted(x, positions):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        judge(EXERCISE, interrupted)


def test_tolerance_is_relative_to_the_greater_of_one_and_the_expected():
    exercise = Exercise("t", lambda x: x, [(torch.tensor([1e-3, 1e4]),)], tolerance=1e-3)
    assert judge(exercise, lambda x: x + torch.tensor([9e-4, 9.0])).right
    assert not judge(exercise, lambda x: x + torch.tensor([2e-3, 0.0])).right
    assert not judge(exercise, lambda x: x + torch.tensor([0.0, 11.0])).right


@pytest.mark.parametrize(
    "reference, same, other",
    [
        (lambda: 0.5, lambda: torch.tensor(0.5), lambda: 0.6),
        (lambda: 3, lambda: np.int64(3), lambda: 4),
        (lambda: "half", lambda: "half", lambda: "interleaved"),
        (lambda: (torch.ones(2), 1), lambda: [torch.ones(2), 1], lambda: (torch.ones(2), 2)),
        (lambda: torch.ones(2), lambda: np.ones(2, dtype=np.float32), lambda: np.zeros(2, dtype=np.float32)),
        (lambda: torch.tensor([-torch.inf]), lambda: torch.tensor([-torch.inf]), lambda: torch.tensor([torch.inf])),
    ],
    ids=["number", "integer", "string", "tuple", "array", "infinity"],
)
def test_values_of_each_kind_are_compared(reference, same, other):
    exercise = Exercise("t", reference, [()])
    assert judge(exercise, same).right
    assert not judge(exercise, other).right


def test_submitted_returns_what_the_student_wrote(named):
    with pytest.raises(LookupError, match="has not been run"):
        submitted("test.never")
    check("test.turn", off_by_one)
    assert submitted("test.turn") is off_by_one


@pytest.mark.parametrize(
    "name, error, words",
    [
        ("sinusodial.table", ValueError, "no method 'sinusodial'.*Did you mean 'sinusoidal'"),
        ("rope.rotat", ValueError, "no exercise 'rotat'.*Did you mean 'rotate'"),
        ("rope", ValueError, "no exercise ''"),
        (7, TypeError, "name=7 must be a string"),
    ],
)
def test_unknown_names_are_refused_with_the_nearest(name, error, words):
    with pytest.raises(error, match=words):
        check(name, turn)


def test_importing_posenc_does_not_import_it():
    code = "import sys, posenc; sys.exit('posenc.lab.exercises.check' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


@pytest.mark.parametrize("name", ALL)
def test_exercise_accepts_its_reference_and_its_cases_repeat(name):
    exercise = find(name)
    assert judge(exercise, exercise.reference) == Verdict(
        True, False, None, judge(exercise, exercise.reference).message
    )
    assert exercise.title.startswith("Exercise ") or name.startswith("gradients."), exercise.title  # these have no lab


@pytest.mark.parametrize("name", ALL)
def test_exercise_names_each_of_its_mistakes(name):
    exercise = find(name)
    assert len(exercise.mistakes) >= 3, f"{name} knows {len(exercise.mistakes)} typical mistakes, three are wanted"
    for words, wrong in exercise.mistakes.items():
        verdict = judge(exercise, wrong)
        assert not verdict.right and not verdict.undone and verdict.mistake == words, (words, verdict)
        assert words in verdict.message
