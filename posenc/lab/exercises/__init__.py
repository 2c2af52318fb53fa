"""The labs' exercises, a module a lab, with instant checks, graded tests, and a grader for notebooks from anywhere.

`python -m posenc.lab.exercises submission.ipynb` is the grader; see `grade`. `exam` and `key` after it: see `bank`.
"""

import os
from pathlib import Path

from posenc.lab.exercises.exercise import Exercise, Problem, student_seed
from posenc.lab.exercises.registry import find, labs, of, on_paper
from posenc.lab.exercises.seeds import ask, use_seed
from posenc.lab.exercises.submission import check, require, submitted
from posenc.lab.exercises.verdict import Verdict, judge

__all__ = [
    "Exercise",
    "Problem",
    "Verdict",
    "ask",
    "check",
    "find",
    "judge",
    "labs",
    "of",
    "on_paper",
    "require",
    "student_seed",
    "submitted",
    "use_seed",
]

if os.environ.get("POSENC_COURSE"):  # a teacher's private exercises stand before those that everybody can read
    os.environ["POSENC_COURSE"] = str(Path(os.environ["POSENC_COURSE"]).resolve())  # other folders start processes
    __path__.insert(0, os.path.join(os.environ["POSENC_COURSE"], "exercises"))
