r"""The question bank: questions on paper and aloud, a module a chapter, each with a key that posenc computes.

    python -m posenc.lab.exercises exam --chapters rope alibi --points 30 --seed 3     a sheet and its key
    python -m posenc.lab.exercises key --seed 17                                       what a lab asks this seed, with steps

A module has `PAPER` and `ORAL`: tuples of functions that take a `random.Random` and return a `Question`.
"""

from posenc.lab.exercises.bank.question import Question
from posenc.lab.exercises.bank.sheet import CHAPTERS, choose, for_lab, key_text, question_text, questions, sheet

__all__ = ["CHAPTERS", "Question", "choose", "for_lab", "key_text", "question_text", "questions", "sheet"]
