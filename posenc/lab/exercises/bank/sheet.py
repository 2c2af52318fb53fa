r"""Sheets made of the bank: the questions of a seed, chosen to a sum of points, with their key."""

import importlib
import random

from posenc.errors import nearest
from posenc.lab.exercises.bank.question import Question

#: Chapters that have questions, in the book's order.
CHAPTERS = (
    "sinusoidal",
    "learned",
    "relative",
    "rope",
    "alibi",
    "stickbreaking",
    "cope",
    "fox",
    "moving_ruler",
    "scaling",
    "rope2d",
    "comrope",
    "practice",
    "exposb",
    "rse",
    "kernels",
)


def questions(chapter: str, seed: int, oral: bool = False) -> dict[str, Question]:
    r"""All questions of a chapter as a seed draws them, {name: `Question`}.

    Arguments: chapter: one of `CHAPTERS`. seed: a whole number from 0 on. oral: those to be answered aloud.
    Errors: ValueError for an unknown chapter, naming the nearest, or a seed that is none.
    """
    if chapter not in CHAPTERS:
        raise ValueError(
            f"chapter={chapter!r} has no questions; {', '.join(CHAPTERS)} have.{nearest(str(chapter), CHAPTERS)}"
        )
    if isinstance(seed, bool) or not isinstance(seed, int) or seed < 0:
        raise ValueError(f"seed={seed!r} must be a whole number from 0 on, such as 17")
    module = importlib.import_module(f"posenc.lab.exercises.bank.{chapter}")
    makers = module.ORAL if oral else module.PAPER
    return {make.__name__: make(random.Random(f"{chapter}.{make.__name__}.{seed}")) for make in makers}


def choose(chapters, points: int, seed: int) -> list[tuple[str, str, Question]]:
    r"""Questions on paper whose points sum to `points`, the chapters in turn: [(chapter, name, `Question`), ...].

    Errors: ValueError where no set of them has that sum, naming the sum of all.
    """
    draw, rows = random.Random(f"choose.{seed}"), []
    for chapter in chapters:
        names = list(questions(chapter, seed).items())
        draw.shuffle(names)
        rows.append([(chapter, name, question) for name, question in names])
    longest = max(map(len, rows), default=0)
    turn = [row[i] for i in range(longest) for row in rows if i < len(row)]
    chosen = _with_sum(turn, points)
    if points < 1 or chosen is None:
        whole = sum(question.points for _, _, question in turn)
        raise ValueError(
            f"points={points}: no set of the questions of {', '.join(chapters)} has this sum; all have {whole} points"
        )
    return chosen


def _with_sum(rows, points):
    """The first rows that sum to `points`, or None: best[p] is a set with the sum p, of rows as early as can be."""
    best = {0: ()}
    for index, (_, _, question) in enumerate(rows):
        for total in sorted(best, reverse=True):
            best.setdefault(total + question.points, (*best[total], index))
    return None if points not in best else [rows[index] for index in best[points]]


def for_lab(lab: str, points: int, seed: int) -> list[tuple[str, str, Question]]:
    r"""What a student of this seed answers on paper in a lab: questions worth `points`; none where the lab has no bank."""
    return choose([lab], points, seed) if lab in CHAPTERS else []


def question_text(number: int, question: Question) -> str:
    """One question in Markdown, as the student reads it."""
    return f"**{number}.** ({question.points} points, {question.minutes} minutes) {question.text}"


def key_text(number: int, question: Question) -> str:
    """Its key in Markdown: the answer, the points step by step, and what wrong answers tell."""
    rows = [f"**{number}.** {question.key}", ""]
    rows += [f"- {points} p: {words}" for points, words in question.steps]
    rows += [f"- *wrong:* {answer}: {tells}" for answer, tells in question.wrong.items()]
    rows += [f"- difficulty {question.difficulty} of 3, {question.minutes} minutes"]
    return "\n".join(rows)


def sheet(chapters, points: int, seed: int) -> tuple[str, str]:
    r"""An exam and its key as two texts in Markdown; the key ends with questions to ask aloud.

    Errors: ValueError as `questions` and `choose` have it.
    """
    chosen = choose(chapters, points, seed)
    minutes = sum(question.minutes for _, _, question in chosen)
    head = f"# Exam: {', '.join(chapters)}\n\n{points} points, about {minutes} minutes.\n\n"  # no seed: it is the key
    help_line = "A pocket calculator is allowed; angles are in radians. Give each step: steps earn the points.\n\n"
    asked = "\n\n".join(question_text(i, question) for i, (_, _, question) in enumerate(chosen, start=1))
    keys = "\n\n".join(
        f"{key_text(i, question)}\n- from {chapter}.{name}"
        for i, (chapter, name, question) in enumerate(chosen, start=1)
    )
    aloud = []
    for chapter in chapters:
        for name, question in questions(chapter, seed, oral=True).items():
            aloud.append(
                f"**{chapter}.{name}.** {question.text}\n\n{key_text(len(aloud) + 1, question).partition(' ')[2]}"
            )
    key_head = f"# Key: {', '.join(chapters)}, sheet {seed}\n\nNumbers are computed by posenc.\n\n"
    return head + help_line + asked + "\n", key_head + keys + "\n\n## To ask aloud\n\n" + "\n\n".join(aloud) + "\n"
