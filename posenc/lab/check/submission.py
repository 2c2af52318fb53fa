"""What a student hands to the checks of a lab: each function is judged at once, and kept for the graded tests."""

import functools
import sys
from collections.abc import Callable

from posenc.lab.check.judging import judge
from posenc.lab.check.registry import find

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
    Returns: `function` where it is right and the lab's text, else posenc's as a `StandIn`, so that the lab goes on.
    Errors: ValueError for an unknown name. Nothing that the student's function raises.
    """
    exercise = find(name)
    if isinstance(function, StandIn):
        function = _submissions.get(name)
    _submissions[name] = function
    verdict, own = judge(exercise, function), exercise.seeded()
    goes_on = verdict.right and own is exercise
    tail = "" if goes_on else " Below, posenc's version stands in."
    print(f"{own.title}: {verdict.message}{tail}")
    return function if goes_on else StandIn(exercise.reference)


def require(name: str) -> int | None:
    r"""The graded test of an exercise: AssertionError unless what the student last gave to `check(name, ...)` is right.

    Where the cell of the check is gone, or stands below, the notebook's function of that name counts.
    Returns: None where it is right; for a mistake that leaves some points, after a line that names it, those points,
        which nbgrader takes for the grade where they are the value of the cell.
    Errors: ValueError for an unknown name; LookupError where there is neither.
    """
    exercise, own = find(name), getattr(sys.modules["__main__"], name.rpartition(".")[2], None)
    if own is None and name not in _submissions:
        raise LookupError(f"check({name!r}, ...) has not been run")
    verdict = judge(exercise, _submissions.get(name, own))
    assert verdict.right or verdict.points, verdict.message
    if not verdict.right:
        print(verdict.message)
        return verdict.points
