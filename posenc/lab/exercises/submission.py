"""What a student hands to the checks of a lab: each function is judged at once, and kept for the graded tests."""

import functools
import os
import sys
from collections.abc import Callable

from posenc.lab.exercises.marks import partial
from posenc.lab.exercises.registry import find
from posenc.lab.exercises.verdict import judge

_submissions = {}  # exercise name -> what the student wrote


class StandIn:
    """posenc's function in the place of a wrong one, so that a lab goes on. It can be called, and is no submission."""

    def __init__(self, reference: Callable):
        functools.update_wrapper(self, reference)

    def __call__(self, *arguments, **options):
        return self.__wrapped__(*arguments, **options)


def check(name: str, function: Callable) -> Callable:
    r"""Check a student's function, print one line, and return the function to go on with.

    Arguments:
        name: "lab.exercise", as in "rope.rotate".
        function: what the student wrote. A `StandIn`, as in a check cell that is run twice, is not: what the student
            wrote last is checked again.
    Returns: `function` where it is right, else posenc's as a `StandIn`, so that the cells below work all the same; the
        book's own function where the student's seed asks for a variant.
    Errors: ValueError for an unknown name. Nothing that the student's function raises.
    """
    exercise = find(name)
    if isinstance(function, StandIn):
        function = _submissions.get(name)
    _submissions[name] = function
    verdict = judge(exercise, function)
    if exercise.asks:  # the lab is written for the book's own version, so that one goes on
        tail = " Below, the lab goes on with the book's own version."
        print(f"{exercise.title}, for your seed: {exercise.asks}")
    else:
        tail = "" if verdict.right else " Below, posenc's version stands in."
    print(f"{exercise.title}: {verdict.message}{tail}")
    return function if verdict.right and not exercise.asks else StandIn((exercise.plain or exercise).reference)


def submitted(name: str):
    r"""Return what the student last gave to `check(name, ...)`, right or wrong.

    Errors: ValueError for an unknown name; LookupError where `check` was not run.
    """
    find(name)
    if name not in _submissions:
        raise LookupError(f"check({name!r}, ...) has not been run")
    return _submissions[name]


def require(name: str) -> float | None:
    r"""The graded test of an exercise: AssertionError unless what the student last gave to `check(name, ...)` is right.

    Where the cell of the check is gone, or stands below, the notebook's function of that name counts.
    Returns: None; but with POSENC_PARTIAL=1 in the environment the points that a named mistake leaves, as the cell's
    last value is to nbgrader.
    Errors: ValueError for an unknown name; LookupError where there is neither.
    """
    exercise, own = find(name), getattr(sys.modules["__main__"], name.rpartition(".")[2], None)
    verdict = judge(exercise, own if own is not None and name not in _submissions else submitted(name))
    points = partial(name, exercise, verdict.mistake) if os.environ.get("POSENC_PARTIAL", "0") not in ("", "0") else 0
    if points and not verdict.right:
        print(verdict.message)
        return points
    assert verdict.right, verdict.message
