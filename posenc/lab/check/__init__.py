"""How a lab's exercises are checked: at once, by graded tests, and by a grader for notebooks from anywhere.

`python -m posenc.lab.check submission.ipynb` is the grader; see `grade`.
"""

from posenc.lab.check.bank import ask
from posenc.lab.check.exercise import Exercise, Problem, student_seed, text
from posenc.lab.check.judging import Verdict, judge
from posenc.lab.check.registry import effort, find, labs, of, on_paper
from posenc.lab.check.submission import check, require

__all__ = ["Exercise", "Problem", "Verdict", "check", "effort", "find", "judge", "labs", "of", "on_paper", "require"]
__all__ += ["ask", "student_seed", "text"]
