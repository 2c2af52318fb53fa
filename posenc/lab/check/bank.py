r"""A bank of questions with numbers drawn by a seed: in a chapter's exam.md, a heading each.

    ## Turned back
    paper · 2 points · 3 minutes · easy
    - Draw: m in 3..9; base in 100, 10000
    - Let: w = rope.inv_freq(4, base, torch.float64)[1]

    The question, with {{m}} and $b = {{base}}$ filled in.
    - Key: The frequency is $b^{-1/2}$ (1 p), so the angle is **{{m * w:.3f}}** (1 p).
    - Wrong: {{-m * w:.3f}}: turned the other way.

`Draw` has whole numbers from..to or lists. `Let` is Python, and so is what stands in double braces, with a format. Both
see what is drawn, posenc's names, math, torch, `row` and `tensor`, in float64. Bold in a key is the answer, `(1 p)` a
step's points. `Wrong` is a wrong answer and what it tells; an oral question has `Follow-up` instead. What ends its
second line with ` · lab` is asked in the chapter's lab, and in no exam.
"""

import ast
import functools
import importlib
import math
import os
import random
import re
from pathlib import Path
from typing import NamedTuple

import torch

import posenc
from posenc.errors import check_choice
from posenc.lab.check.exercise import student_seed

BOOK = Path(importlib.import_module("posenc.chapters").__path__[0])
FACTS = re.compile(r"(paper|oral) · (\d+) points? · (\d+) minutes? · (easy|medium|hard)( · lab)?")


class Question(NamedTuple):
    """A question as its file holds it, or with its numbers. notes: wrong answers; follow-ups of an oral question."""

    source: str  # file and title, for errors
    chapter: str
    title: str
    kind: str
    points: int
    minutes: int
    difficulty: str
    lab: bool  # whether the chapter's lab asks it
    draws: dict  # parameter: its values
    let: str
    text: str
    posed: str  # its block of exam.md without `Let` and what stands below the text, as a lab holds it
    key: str = ""
    notes: list = []

    @property
    def answers(self) -> list[str]:
        """What is bold in the key."""
        return [bold.strip("$") for bold in re.findall(r"\*\*(.+?)\*\*", self.key)]


def row(logits: list, encoding: posenc.Encoding | None = None, **options) -> torch.Tensor:
    """The weights [Tk] that the last query gives keys of these logits of content; options as of `attention`."""
    k = torch.tensor(logits, dtype=torch.float64)[None, None, :, None]
    q = torch.ones_like(k[:, :, -1:])
    return posenc.attention(q, k, k, encoding, scale=1.0, return_weights=True, **options)[1][0, 0, -1]


NAMES = {name: getattr(posenc, name) for name in posenc.__all__} | {"posenc": posenc, "torch": torch, "math": math}
NAMES |= {"row": row, "tensor": functools.partial(torch.tensor, dtype=torch.float64)}


def banks(kit: str | Path | None = None) -> Path:
    """The folder of the chapters' exam.md: that of a teacher's kit, default POSENC_KIT, or of this copy."""
    kit = kit or os.environ.get("POSENC_KIT")
    return Path(kit, "book") if kit else BOOK


def chapters(book: Path | None = None) -> list[str]:
    """The chapters that have questions, sorted: in a copy of the repository, for the package ships none.

    Errors: FileNotFoundError where there is none, as where they were moved to a teacher's kit.
    """
    book = book or banks()
    if not (found := sorted(path.parent.name for path in book.glob("*/exam.md"))):
        raise FileNotFoundError(f"{book} holds no exam.md: name a teacher's kit, --kit DIR or POSENC_KIT=DIR")
    return found


def read(chapter: str, book: Path | None = None) -> list[Question]:
    """The questions of a chapter. Errors: ValueError for an unknown one, naming the nearest, and those of `parse`."""
    book = book or banks()
    check_choice("chapters", chapter, chapters(book))
    return parse((book / chapter / "exam.md").read_text("utf-8"), chapter)


def of_lab(chapter: str, book: Path | None = None) -> Question | None:
    """The question that a chapter's lab asks, or None. Errors: those of `read`, but for a chapter without questions."""
    book = book or banks()
    return next((asked for asked in read(chapter, book) if asked.lab), None) if chapter in chapters(book) else None


def ask(chapter: str, text: str):
    """A lab's question on paper, with the numbers of `student_seed`: Markdown. text: `Question.posed`."""
    from IPython.display import Markdown

    return Markdown(told(fill(keyless(text, chapter)[0], student_seed())))


def parse(text: str, chapter: str) -> list[Question]:
    """The questions of a file. Errors: ValueError naming file and question, what is wrong, and what would be right."""
    return [question(block, chapter) for block in re.split(r"(?m)^## ", text)[1:]]


def keyless(block, chapter):
    """The question of one block without its key, and what stands below its text: "Key", the key, "Wrong", ..."""
    head, _, body = block.removeprefix("## ").partition("\n\n")
    title, facts, *settings = [*head.split("\n"), ""]
    source = f"book/{chapter}/exam.md, {title!r}"
    if not (found := FACTS.fullmatch(facts)):
        raise ValueError(f"{source}: {facts!r} must be like 'paper · 3 points · 4 minutes · easy' (oral; medium, hard)")
    kind, points, minutes, difficulty, lab = found[1], int(found[2]), int(found[3]), found[4], bool(found[5])
    draw, _, let = "\n".join(settings).partition("- Let: ")
    text, *parts = (part.strip() for part in re.split(r"(?m)^- (Key|Wrong|Follow-up): ", body))
    posed = "## " + head.partition("\n- Let: ")[0] + f"\n\n{text}"
    own = (kind, points, minutes, difficulty, lab, drawable(draw, source), let, text, posed)
    return Question(source, chapter, title, *own), parts


def question(block, chapter):
    """The question of one block."""
    asked, parts = keyless(block, chapter)
    note = "Wrong" if asked.kind == "paper" else "Follow-up"
    if not asked.text or len(parts) < 4 or parts[::2] != ["Key"] + [note] * (len(parts) // 2 - 1):
        must = f"it must have a text, then '- Key: ', then '- {note}: ', or more"
        raise ValueError(f"{asked.source} has {parts[::2]}; {must}")
    asked = asked._replace(key=parts[1], notes=parts[3::2])
    marked = sum(map(int, re.findall(r"\((\d+) p\)", asked.key)))
    if marked != asked.points or not asked.answers and asked.kind == "paper":
        must = f"it must mark {asked.points}, and an answer in **bold**"
        raise ValueError(f"{asked.source}: its key marks {marked} points; {must}")
    return asked


def drawable(line, source):
    """{parameter: its values} of a line such as '- Draw: m in 3..9; base in 100, 10000'."""
    values = {}
    for part in filter(str.strip, line.removeprefix("- Draw: ").split(";")):
        name, _, choices = part.strip().partition(" in ")
        try:
            first, dots, last = choices.partition("..")
            values[name] = range(int(first), int(last) + 1) if dots else ast.literal_eval(f"({choices},)")
        except (ValueError, SyntaxError):
            values[name] = ()
        if not name.isidentifier() or not values[name]:
            raise ValueError(f"{source}: Draw has {part.strip()!r}; it must be like 'm in 3..9' or 'base in 10, 100'")
    return values


def fill(asked: Question, seed: int) -> Question:
    """The question with its numbers, drawn by seed and title: drawn again while two of its answers print the same, but
    not in a lab, whose notebook has no answers.

    Errors: ValueError naming the question where code fails, a number is not finite, or no draw tells answers apart.
    """
    generator = random.Random(f"{seed} {asked.source}")
    for _ in range(100):
        filled = with_numbers(asked, {name: generator.choice(values) for name, values in asked.draws.items()})
        right = {*filled.answers, " and ".join(filled.answers)}
        wrong = [note.partition(": ")[0].strip("$") for note in filled.notes if asked.kind == "paper"]
        if asked.lab or len({*right, *wrong}) == len(right) + len(wrong):
            return filled
    raise ValueError(f"{asked.source}: wrong answers {wrong} must differ from {filled.answers} and from each other")


def with_numbers(asked, parameters):
    """The question with these parameters."""
    names = NAMES | parameters

    def run(function, code):  # a question's Python: eval or exec
        try:
            return function(code, names)
        except Exception as error:
            raise ValueError(f"{asked.source}: {code!r} must be Python; at {parameters} it raises {error!r}") from error

    def number(found):
        value = run(eval, f"f'''{{{found[1]}}}'''")
        if re.search(r"\b(nan|inf)\b", value):
            raise ValueError(f"{asked.source}: {found[0]} is {value} at {parameters}; it must be finite")
        return value

    run(exec, asked.let)
    text, key, *notes = (re.sub(r"\{\{(?!\{)(.+?)\}\}", number, part) for part in (asked.text, asked.key, *asked.notes))
    return asked._replace(text=text, key=key, notes=notes)


def told(filled: Question) -> str:
    """A question as a paragraph of Markdown."""
    return f"**{filled.title}** ({filled.points} points, {filled.minutes} minutes). {filled.text}"


def keyed(filled: Question) -> str:
    """The key of a question as Markdown: the answer by steps, and what wrong ones tell."""
    label = "Wrong" if filled.kind == "paper" else "Follow-up"
    return "\n\n".join([f"**Key.** {filled.key}", "\n".join(f"- {label}: {note}" for note in filled.notes)])
