r"""What an exercise of a lab is, and the seed that draws its random cases."""

import ast
import functools
import hashlib
import inspect
import os
import re
import textwrap
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

import torch


@dataclass(frozen=True)
class Exercise:
    r"""One function that a student writes.

    reference: what is right, as a student could write it. Whatever it returns (a tensor, a number, a string, or a tuple
        of those) is expected.
    cases: tuples of arguments, or a function without arguments that returns them (seeded, so that each call returns
        the same). Make them tell the mistakes apart: odd shapes, no symmetric values, no zeros.
    tolerance: greatest error allowed, relative to max(1, |expected|).
    points: what it is worth, here and in the graded cell that `labs.py` writes.
    mistakes: what is wrong in words ("the sign of the sine is flipped") -> how the reference's body goes wrong in that
        way: "old -> new", where `old` stands in it once; several such in a tuple; "-> rotate(-x)", what is returned
        instead of all of it (with the right functions of the module); or a function.
    run: where calling the function is not all that a case takes: run(function, *case) returns what is compared, and
        may raise `Problem`.
    shares: mistake -> the share of the points that it leaves, rounded down. Half by default, since who makes a typical
        mistake wrote a function that runs and differs in one place; one point is all or none.
    variants: what another seed than 0 asks for instead, one drawn for each seed: (words, change), where
        change(function, *case) makes of what `reference` returns what is right, and of a mistake the same mistake.
    title: how the lab calls it; default its number and name, "Exercise 1, rotate".
    Errors: ValueError where a mistake's `old` does not stand in the reference once, or where `shares` names no mistake.
    Chapter: For teachers.
    """

    reference: Callable
    cases: Sequence[tuple] | Callable[[], Sequence[tuple]]
    tolerance: float = 1e-6
    points: int = 1
    mistakes: dict[str, str | tuple | Callable] = field(default_factory=dict)
    run: Callable | None = None
    shares: dict[str, float] = field(default_factory=dict)
    variants: Sequence[tuple[str, Callable]] = ()
    title: str = ""

    def __post_init__(self):
        for words in self.shares.keys() - self.mistakes.keys():
            raise ValueError(f"{self.reference.__name__}: shares names {words!r}, which must be one of its mistakes")
        made = {words: wrong if callable(wrong) else self._edited(wrong) for words, wrong in self.mistakes.items()}
        object.__setattr__(self, "mistakes", made)

    def _edited(self, edits):
        """The reference gone wrong, as a function that keeps its `source`."""
        stub, body = text(self.reference)
        for edit in [edits] if isinstance(edits, str) else edits:
            old, arrow, new = edit.partition("-> ")
            old = old.removesuffix(" ")
            if not arrow or old and body.count(old) != 1:
                raise ValueError(
                    f"{self.reference.__name__}: mistake {edit!r} must be 'old -> new', with old once in the "
                    f"reference, where it stands {body.count(old)} times"
                )
            body = body.replace(old, new) if old else f"    return {new}"
        made, source = {}, f"{stub}\n{body}"
        exec(source, self.reference.__globals__, made)
        wrong = made[self.reference.__name__]
        wrong.source = source
        return wrong

    def seeded(self):
        """The exercise for `student_seed`: itself for seed 0, else a variant; an answer to another is worth nothing."""
        seed = student_seed()
        if not seed or not self.variants:
            return self
        number = _number(f"{seed} {self.title}") % len(self.variants)
        words, change = self.variants[number]
        others = {"this answers the text of the lab, without what is asked of you": self.reference}
        for other, changed in (*self.variants[:number], *self.variants[number + 1 :]):
            others[f"this is what another student is asked for: {other}"] = _vary(changed, self.reference)
        return replace(
            self,
            title=f"{self.title} (yours: {words})",
            reference=_vary(change, self.reference),
            mistakes=others | {mistake: _vary(change, wrong) for mistake, wrong in self.mistakes.items()},
            shares=dict.fromkeys(others, 0.0) | self.shares,
            variants=(),
        )

    def arguments(self):
        """The cases as a list of tuples."""
        return list(self.cases() if callable(self.cases) else self.cases)

    def call(self, function, *case):
        """What a function returns for a case."""
        return self.run(function, *case) if self.run else function(*case)


def text(function):
    """A function's source in two parts: what the student is given, down to the docstring, and the body below it."""
    lines = textwrap.dedent(getattr(function, "source", None) or inspect.getsource(function)).splitlines()
    first, *others = ast.parse("\n".join(lines)).body[0].body
    docstring = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant)
    end = first.end_lineno if docstring and others else first.lineno - 1
    return "\n".join(lines[:end]), "\n".join(lines[end:])


class Problem(Exception):
    r"""Raised by an exercise's `run` that saw what is wrong: the words, and what the function returned, if it did."""

    def __init__(self, words, values=None):
        super().__init__(words)
        self.words, self.values = words, values


def _vary(change, function):
    return functools.update_wrapper(functools.partial(change, function), function)


def _number(text):
    """A number that depends on a text alone, today and on any machine."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest())


def student_seed(text=None):
    r"""The seed of one student: the environment variable POSENC_SEED, 0 where it isn't set.

    Labs train with it, their checks draw random cases with it, and it says which of an exercise's variants is right. A
    student's id serves too: what is no whole number below 2^31 is hashed to one, the same today and on any machine.

    Arguments: text: read this instead of the variable, such as "17" or "s4711".
    Errors: ValueError where it is neither a whole number nor a word with a letter in it. Chapter: For teachers.
    """
    text = (os.environ.get("POSENC_SEED", "") if text is None else text).strip() or "0"
    if not re.fullmatch(r"[0-9]+|(?=.*[A-Za-z])[\w.@+-]+", text, re.ASCII):
        raise ValueError(f"POSENC_SEED={text!r} must be a whole number, such as 17, or a student's id, such as s4711")
    number = int(text) if text.isdecimal() else 2**31
    return number if number < 2**31 else 1 + _number(text.lower()) % (2**31 - 1)


def generator(number=0):
    """A generator for the random cases of an exercise: another for each `number`, and for each `student_seed`."""
    return torch.Generator().manual_seed(number + 1000 * student_seed())
