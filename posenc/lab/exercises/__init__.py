"""The exercises of the labs: one module a lab, each with a table `EXERCISES` (name -> `check.Exercise`).

An exercise is named as the function that the student writes. `ON_PAPER` is what the answers in prose are worth, which
a person grades.
"""

import importlib
import os
import pkgutil

import torch

from posenc.errors import nearest

MACHINERY = {"__main__", "check", "grade", "trial"}


def methods():
    """The names of the methods that have exercises, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if module.name not in MACHINERY)


def of(method):
    """The exercises of a method's lab, {name: `Exercise`}, in the lab's order."""
    return importlib.import_module(f"{__name__}.{method}").EXERCISES


def on_paper(method):
    """The points of a method's lab that a person gives."""
    return importlib.import_module(f"{__name__}.{method}").ON_PAPER


def find(name):
    r"""Return the `Exercise` called "method.exercise", such as "rope.rotate".

    Errors: TypeError where the name is no string; ValueError for an unknown method or exercise, naming the nearest.
    """
    if not isinstance(name, str):
        raise TypeError(f"name={name!r} must be a string such as 'rope.rotate', got {type(name).__name__}")
    method, _, exercise = name.partition(".")
    if method not in methods():
        raise ValueError(f"name={name!r}: no method {method!r} has exercises.{nearest(method, methods())}")
    exercises = of(method)
    if exercise not in exercises:
        known = ", ".join(exercises)
        raise ValueError(
            f"name={name!r}: {method} has no exercise {exercise!r}; it has {known}.{nearest(exercise, exercises)}"
        )
    return exercises[exercise]


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
