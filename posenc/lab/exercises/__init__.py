"""The labs' exercises, a module a lab, with instant checks, graded tests, and a grader for notebooks from anywhere.

`python -m posenc.lab.exercises submission.ipynb` is the grader; see `grade`.
"""

from posenc.lab.exercises.exercise import Exercise, Problem, student_seed, text
from posenc.lab.exercises.registry import find, labs, of, on_paper
from posenc.lab.exercises.submission import check, require, submitted
from posenc.lab.exercises.verdict import Verdict, judge

__all__ = [
    "Exercise",
    "Problem",
    "Verdict",
    "check",
    "find",
    "judge",
    "labs",
    "of",
    "on_paper",
    "require",
    "student_seed",
    "submitted",
    "text",
]
