r"""What an exercise of a lab is, and the seed that draws its random cases."""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import torch


@dataclass(frozen=True)
class Exercise:
    r"""One function that a student writes.

    title: how the lab calls it, "Exercise 1, rotate".
    reference: what is right. Whatever it returns (a tensor, a number, a string, or a tuple of those) is expected.
    cases: tuples of arguments, or a function without arguments that returns them (seeded, so that each call returns
        the same). Make them tell the mistakes apart: odd shapes, no symmetric values, no zeros.
    tolerance: greatest error allowed, relative to max(1, |expected|).
    points: what it is worth; the graded cell in course/ says the same.
    mistakes: what is wrong in words ("the sign of the sine is flipped") -> a function that goes wrong in that way.
    run: where calling the function is not all that a case takes: run(function, *case) returns what is compared, and
        may raise `Problem`.
    asks: what a student's seed changes, in words; "" where nothing is (see `variants`).
    plain: the exercise as the book has it, where this is a variant.
    """

    title: str
    reference: Callable
    cases: Sequence[tuple] | Callable[[], Sequence[tuple]]
    tolerance: float = 1e-6
    points: int = 1
    mistakes: dict[str, Callable] = field(default_factory=dict)
    run: Callable | None = None
    asks: str = ""
    plain: "Exercise | None" = None

    def arguments(self):
        """The cases as a list of tuples."""
        return list(self.cases() if callable(self.cases) else self.cases)

    def call(self, function, *case):
        """What a function returns for a case."""
        return self.run(function, *case) if self.run else function(*case)


class Problem(Exception):
    r"""Raised by an exercise's `run` that saw what is wrong: the words, and what the function returned, if it did."""

    def __init__(self, words, values=None):
        super().__init__(words)
        self.words, self.values = words, values


def student_seed():
    r"""The seed of one student: the environment variable POSENC_SEED, 0 where it isn't set.

    The labs train with it, the random cases of their checks are drawn with it, and from 1 on it picks a variant of some
    exercises (`variants`) and the questions on paper (`bank`): another seed has other answers.
    Errors: ValueError where it is no whole number. Chapter: For teachers.
    """
    text = os.environ.get("POSENC_SEED", "").strip() or "0"
    if not (text.isascii() and text.isdecimal()) or int(text) >= 2**31:
        raise ValueError(f"POSENC_SEED={text!r} must be a whole number below 2^31, such as 17")
    return int(text)


def generator(number=0):
    """A generator for the random cases of an exercise: another for each `number`, and for each `student_seed`."""
    return torch.Generator().manual_seed(number + 1000 * student_seed())
