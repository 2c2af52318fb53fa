"""The chapters that have exercises: in a file exercises.py a table `EXERCISES` (name -> `Exercise`) and `ON_PAPER`.

An exercise is named as the function that the student writes. `ON_PAPER` is what the answers in prose are worth, which
a person grades, without a question of exam.md. Chapters are found by their folders: nothing here knows one.
"""

import importlib
from dataclasses import replace
from pathlib import Path

from posenc.errors import nearest

CHAPTERS = "posenc.chapters"


def labs() -> list[str]:
    """What has exercises, sorted: the labs, named as their chapters, and a chapter that checks some on its page."""
    folders = importlib.import_module(CHAPTERS).__path__
    return sorted(path.parent.name for folder in folders for path in Path(folder).glob("*/exercises.py"))


def of(lab: str) -> dict:
    """The exercises of a lab, {name: `Exercise`}, in the lab's order."""
    table = importlib.import_module(f"{CHAPTERS}.{lab}.exercises").EXERCISES
    numbered = enumerate(table.items(), 1)
    return {name: e if e.title else replace(e, title=f"Exercise {n}, {name}") for n, (name, e) in numbered}


def on_paper(lab: str) -> int:
    """The points of a lab that a person gives."""
    return importlib.import_module(f"{CHAPTERS}.{lab}.exercises").ON_PAPER


def effort(points: int) -> str:
    """How hard an exercise of so many points is and how long it takes, in words: an estimate, nobody was timed."""
    return f"{('easy', 'medium', 'hard')[min(points, 3) - 1]}, about {3 * points} minutes"


def find(name: str):
    r"""Return the `Exercise` called "lab.exercise", such as "rope.rotate".

    Errors: TypeError where the name is no string; ValueError for an unknown lab or exercise, naming the nearest.
    """
    if not isinstance(name, str):
        raise TypeError(f"name={name!r} must be a string such as 'rope.rotate', got {type(name).__name__}")
    lab, _, exercise = name.partition(".")
    if lab not in labs():
        raise ValueError(f"name={name!r}: no lab {lab!r} has exercises.{nearest(lab, labs())}")
    exercises = of(lab)
    if exercise not in exercises:
        known = ", ".join(exercises)
        raise ValueError(f"name={name!r}: {lab} has no exercise {exercise!r}: {known}.{nearest(exercise, exercises)}")
    return exercises[exercise]
