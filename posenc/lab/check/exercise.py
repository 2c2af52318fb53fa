r"""What an exercise of a lab is, and the seed that draws its random cases."""

import ast
import inspect
import os
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class Exercise:
    r"""One function that a student writes.

    title: how the lab calls it, "Exercise 1, rotate".
    reference: what is right, as a student could write it. Whatever it returns (a tensor, a number, a string, or a tuple
        of those) is expected.
    cases: tuples of arguments, or a function without arguments that returns them (seeded, so that each call returns
        the same). Make them tell the mistakes apart: odd shapes, no symmetric values, no zeros.
    tolerance: greatest error allowed, relative to max(1, |expected|).
    points: what it is worth; the graded cell of the lab says the same.
    mistakes: what is wrong in words ("the sign of the sine is flipped") -> how the reference's body goes wrong in that
        way: "old -> new", where `old` stands in it once; several such in a tuple; "-> rotate(-x)", what is returned
        instead of all of it (with the right functions of the module); or a function.
    run: where calling the function is not all that a case takes: run(function, *case) returns what is compared, and
        may raise `Problem`.
    Errors: ValueError where a mistake's `old` does not stand in the reference once. Chapter: For teachers.
    """

    title: str
    reference: Callable
    cases: Sequence[tuple] | Callable[[], Sequence[tuple]]
    tolerance: float = 1e-6
    points: int = 1
    mistakes: dict[str, str | tuple | Callable] = field(default_factory=dict)
    run: Callable | None = None

    def __post_init__(self):
        made = {words: wrong if callable(wrong) else self._edited(wrong) for words, wrong in self.mistakes.items()}
        object.__setattr__(self, "mistakes", made)

    def _edited(self, edits):
        """The reference gone wrong, as a function."""
        stub, body = text(self.reference)
        for edit in [edits] if isinstance(edits, str) else edits:
            old, arrow, new = edit.partition("-> ")
            old = old.removesuffix(" ")
            if not arrow or old and body.count(old) != 1:
                raise ValueError(
                    f"{self.title}: mistake {edit!r} must be 'old -> new', with old once in the reference, "
                    f"where it stands {body.count(old)} times"
                )
            body = body.replace(old, new) if old else f"    return {new}"
        made = {}
        exec(f"{stub}\n{body}", self.reference.__globals__, made)
        return made[self.reference.__name__]

    def arguments(self):
        """The cases as a list of tuples."""
        return list(self.cases() if callable(self.cases) else self.cases)

    def call(self, function, *case):
        """What a function returns for a case."""
        return self.run(function, *case) if self.run else function(*case)


def text(function):
    """A function's source in two parts: what the student is given, down to the docstring, and the body below it."""
    lines = textwrap.dedent(inspect.getsource(function)).splitlines()
    first, *others = ast.parse("\n".join(lines)).body[0].body
    docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    end = first.end_lineno if docstring and others else first.lineno - 1
    return "\n".join(lines[:end]), "\n".join(lines[end:])


class Problem(Exception):
    r"""Raised by an exercise's `run` that saw what is wrong: the words, and what the function returned, if it did."""

    def __init__(self, words, values=None):
        super().__init__(words)
        self.words, self.values = words, values


def student_seed():
    r"""The seed of one student: the environment variable POSENC_SEED, 0 where it isn't set.

    The labs train with it, and the random cases of their checks are drawn with it, so that students whose seeds differ
    read different numbers. What is right does not depend on it.
    Errors: ValueError where it is no whole number. Chapter: For teachers.
    """
    text = os.environ.get("POSENC_SEED", "").strip() or "0"
    if not (text.isascii() and text.isdecimal()) or int(text) >= 2**31:
        raise ValueError(f"POSENC_SEED={text!r} must be a whole number below 2^31, such as 17")
    return int(text)


def generator(number=0):
    """A generator for the random cases of an exercise: another for each `number`, and for each `student_seed`."""
    return torch.Generator().manual_seed(number + 1000 * student_seed())
