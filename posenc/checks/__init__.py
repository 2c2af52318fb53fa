"""The exercises of the labs: one module a method, each with a table `EXERCISES` (name -> `posenc.check.Exercise`).

An exercise is named as the function that the student writes. `ON_PAPER` is what the answers in prose are worth, which
a person grades.
"""

import importlib
import pkgutil

from ..errors import nearest


def methods():
    """The names of the methods that have exercises, sorted."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__))


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
