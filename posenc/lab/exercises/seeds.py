r"""A student's seed: filled into the lab's form field, and read from a notebook."""

import os
import re

from IPython.display import Markdown, display

from posenc.lab.exercises.bank import for_lab, question_text
from posenc.lab.exercises.exercise import student_seed
from posenc.lab.exercises.registry import of, on_paper


def use_seed(seed: int = 0, lab: str | None = None) -> int:
    r"""Take the seed of a lab's form field, where one is filled in, and say what it changes.

    Arguments: seed: of the field; 0 leaves POSENC_SEED as it is. lab: whose variants are listed.
    Returns: `student_seed`.
    Errors: ValueError where it is no whole number below 2^31, or where POSENC_SEED is set to another one.
    """
    text = str(seed).strip()
    if isinstance(seed, bool) or not (text.isascii() and text.isdecimal()) or int(text) >= 2**31:
        raise ValueError(f"STUDENT_SEED={seed!r} must be a whole number below 2^31, such as 17")
    already = student_seed()
    if int(text) and already not in (0, int(text)):
        raise ValueError(f"STUDENT_SEED={int(text)}, but POSENC_SEED is {already}: restart, and set one of the two")
    if int(text):
        os.environ["POSENC_SEED"] = str(int(text))
    if not student_seed():
        print("seed: none is set. These are the book's own exercises; if your teacher gave you a seed, fill it in.")
        return 0
    print(f"seed: {student_seed()}. Random numbers are your own, and what follows differs from the text below:")
    for exercise in of(lab).values() if lab else ():
        if exercise.asks:
            print(f"  {exercise.title}: {exercise.asks}")
    return student_seed()


def ask(lab: str) -> None:
    r"""Show the questions on paper of a student's seed, which stand in for the lab's; without a seed, say so."""
    seed = student_seed()
    rows = for_lab(lab, on_paper(lab), seed) if seed else []
    if not rows:
        print("No seed is set: answer the questions above." if not seed else "Answer the questions above.")
        return
    head = f"**Seed {seed}: answer these in place of the questions above.** A calculator is allowed; give each step."
    display(Markdown("\n\n".join([head, *(question_text(i, row[2]) for i, row in enumerate(rows, start=1))])))


def seed_in(cells: list[str]) -> int:
    r"""The seed that a notebook's code cells set, 0 where they set none: the last one that is not 0 counts."""
    names = (r"STUDENT_SEED\s*=", r"%(?:set_)?env\s+POSENC_SEED[ =]", r"""os\.environ\[["']POSENC_SEED["']\]\s*=""")
    pattern = rf"""^\s*(?:{"|".join(names)})\s*["']?(\d+)"""
    numbers = [int(n) for n in re.findall(pattern, "\n".join(cells), re.MULTILINE) if 0 < int(n) < 2**31]
    return numbers[-1] if numbers else 0
