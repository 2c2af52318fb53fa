r"""For teachers: what chapters need, what tracks cost in hours, and what each exercise is worth.

All of it is read: needs and minutes from the chapters' opening boxes, points from the labs' exercises, what an exercise
asks for from the student's notebook.
"""

import functools
import json
import re
from typing import NamedTuple

import yaml
from IPython.display import SVG, Markdown

from posenc.lab import exercises
from posenc.lab.pages import ROOT, say_all
from posenc.lab.write import table

MARGIN = 45  # minutes on paper and in discussion that each chapter with a lab asks for, beside reading and lab
NOT_CHAPTERS = ("Labs", "Reference")  # parts of the table of contents
#: What a learner reads first, in this order.
FIRST = (
    "ten_lines",
    "why_position",
    "four_places",
    "extrapolates",
    "sinusoidal",
    "rope",
    "alibi",
    "stickbreaking",
    "measure",
    "compare",
)
#: track -> its chapters and those whose labs belong to it; a full course has all.
TRACKS = {
    "90 minutes": {"chapters": ["ten_lines", "why_position", "rope"], "labs": ["rope"]},
    "two weeks": {
        "chapters": [name for name in FIRST if name not in ("stickbreaking", "measure")],
        "labs": ["rope", "alibi"],
    },
    "half a semester": {
        "chapters": [*FIRST, "kernels"],
        "labs": ["sinusoidal", "rope", "alibi", "stickbreaking", "kernels"],
    },
}
BOX_WIDTH, BOX_HEIGHT, GAP, STEP = 170, 34, 12, 74  # of the diagram, in pixels


class Chapter(NamedTuple):
    r"""What a chapter's opening box says: its title, the chapters that it needs, and minutes (0: it has no lab)."""

    title: str
    needs: list
    reading: int
    lab: int


def numbers():
    """Give the prose its hours and counts."""
    known = [exercise for lab in labs() for exercise in exercises.of(lab).values()]
    hours_of = {name.split()[-1]: hours(sum(minutes(**track))) for name, track in tracks().items()}
    counts = {"mistakes": f"{sum(len(exercise.mistakes) for exercise in known)}", "exercises": f"{len(known)}"}
    say_all("teachers", hours_of | counts | {"margin": f"{MARGIN}"})


# --- what is read ----------------------------------------------------------------------------------------------------


@functools.cache
def parts() -> dict:
    """{part of the book: its chapters}."""
    listed = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))["parts"]
    files = {
        part["caption"]: [chapter["file"].removeprefix("book/") for chapter in part["chapters"]] for part in listed
    }
    return {
        part: [name for name in names if "/" not in name] for part, names in files.items() if part not in NOT_CHAPTERS
    }


def names() -> list:
    """The chapters in the book's order."""
    return [name for chapters in parts().values() for name in chapters]


@functools.cache
def labs() -> list:
    """The chapters that have a lab, in the book's order."""
    return sorted((lab for lab in exercises.labs() if (ROOT / "course" / f"{lab}.py").exists()), key=names().index)


def minutes_in(box: str, what: str) -> int:
    """How long a box says that reading or the lab takes; 0 where it says nothing."""
    match = re.search(rf"\b{what}\b\W+(?:about )?(\d+)\b", box, re.I)
    return int(match[1]) if match else 0


def read(name: str, text: str) -> Chapter:
    """What a chapter's text says of it. Errors: ValueError where its box is missing or lacks minutes."""
    box = re.search(r"^`{3,}\{admonition\} In this chapter\n(.*?)^`{3,}$", text, re.M | re.S)
    if not box:
        raise ValueError(f"{name}.md has no box 'In this chapter'; write one with what it needs and how long it takes")
    linked = {a or b for a, b in re.findall(r"\{doc\}`(\w+)`|\]\((\w+)\.md\)", box[1])}
    reading, lab = (minutes_in(box[1], what) for what in ("reading", "lab"))
    if not reading or bool(lab) != (name in labs()):
        raise ValueError(
            f"{name}.md: its box says reading={reading} and lab={lab} minutes; a chapter says how long it takes to "
            "read, and one with a lab, and no other, how long the lab takes"
        )
    title = re.search(r"^# (.+)$", text, re.M)[1]
    return Chapter(title, [need for need in names() if need in linked], reading, lab)


@functools.cache
def book() -> dict:
    """{name: `Chapter`} in the book's order."""
    return {name: read(name, (ROOT / "book" / f"{name}.md").read_text("utf-8")) for name in names()}


def points(lab: str) -> tuple[int, int]:
    """What a lab is worth: by check, and on paper."""
    return sum(exercise.points for exercise in exercises.of(lab).values()), exercises.on_paper(lab)


def worth(chapters) -> str:
    """The points of some labs, as a cell says them."""
    by_check, on_paper = (sum(values) for values in zip(*map(points, chapters)))
    return f"{by_check} + {on_paper}"


def link(name: str) -> str:
    """A chapter's title, linked."""
    return f"[{book()[name].title}]({name}.md)"


def hours(minutes: float) -> str:
    """Minutes as hours."""
    return f"{minutes / 60:.1f}"


# --- what depends on what --------------------------------------------------------------------------------------------


def behind(name: str) -> set:
    """All that a chapter needs, and what these need."""
    return {far for need in book()[name].needs for far in {need} | behind(need)}


def direct(name: str) -> list:
    """What a chapter needs, without what these need already."""
    indirect = {far for need in book()[name].needs for far in behind(need)}
    return [need for need in book()[name].needs if need not in indirect]


def row_of(name: str) -> int:
    """The row of a chapter in the diagram: below all that it needs."""
    return 1 + max((row_of(need) for need in book()[name].needs), default=-1)


def diagram() -> SVG:
    """The chapters: a row for each step of need, arrows from what is needed."""
    rows = {}
    for name in names():
        rows.setdefault(row_of(name), []).append(name)
    width = max(map(len, rows.values())) * (BOX_WIDTH + GAP) + GAP
    at = {}
    for row, members in rows.items():
        left = (width - len(members) * (BOX_WIDTH + GAP) + GAP) / 2
        at |= {name: (left + i * (BOX_WIDTH + GAP), 12 + row * STEP) for i, name in enumerate(members)}
    arrows = [arrow(at[need], at[name]) for name in names() for need in direct(name)]
    boxes = [box(book()[name].title, x, y) for name, (x, y) in at.items()]
    height = len(rows) * STEP
    return SVG(
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}">'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
        '<marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z" fill="#555555"/></marker>' + "".join(arrows + boxes) + "</svg>"
    )


def arrow(start: tuple, end: tuple) -> str:
    """A line from below one box to above another, by their corners."""
    (x1, y1), (x2, y2), middle = start, end, BOX_WIDTH / 2
    line = f'x1="{x1 + middle:.0f}" y1="{y1 + BOX_HEIGHT}" x2="{x2 + middle:.0f}" y2="{y2 - 1}"'
    return f'<line {line} stroke="#555555" stroke-width="1.3" marker-end="url(#tip)"/>'


def box(title: str, x: float, y: float) -> str:
    """A chapter's box, its title as large as fits."""
    size = min(13, 1.75 * BOX_WIDTH / len(title))
    return (
        f'<rect x="{x:.0f}" y="{y}" width="{BOX_WIDTH}" height="{BOX_HEIGHT}" rx="6" fill="#eef3fb" stroke="#1158c7"/>'
        f'<text x="{x + BOX_WIDTH / 2:.0f}" y="{y + 22}" text-anchor="middle" font-size="{size:.1f}" '
        f'font-family="sans-serif" fill="#111111">{title}</text>'
    )


def chapters_table() -> Markdown:
    """Needs, minutes and points of each chapter."""
    rows = []
    for name, chapter in book().items():
        lab = f"[{chapter.lab} min](../notebooks/{name}.ipynb)" if name in labs() else "–"
        needs = ", ".join(book()[need].title for need in chapter.needs) or "linear algebra, one trained network"
        rows.append([link(name), needs, f"{chapter.reading} min", lab, worth([name]) if name in labs() else "–"])
    return table(["chapter", "needs", "reading", "lab", "points: by check + on paper"], rows)


# --- tracks and exercises --------------------------------------------------------------------------------------------


def tracks() -> dict:
    """{track: {"chapters", "labs"}}, the full course too."""
    return TRACKS | {"a full course": {"chapters": names(), "labs": labs()}}


def minutes(chapters: list, labs: list) -> tuple[int, int, int]:
    """What a track asks for: reading, labs, on paper."""
    reading, lab = sum(book()[name].reading for name in chapters), sum(book()[name].lab for name in labs)
    return reading, lab, MARGIN * len(labs)


def tracks_table() -> Markdown:
    """Chapters, labs, hours and points of each track."""
    rows = []
    for name, track in tracks().items():
        reading, lab, paper = map(hours, minutes(**track))
        chapters, with_lab = track["chapters"], track["labs"]
        rows.append(
            [
                f"**{name}**",
                ", ".join(map(link, chapters)),
                ", ".join(book()[chapter].title for chapter in with_lab),
                f"{reading} reading, {lab} labs, {paper} on paper",
                worth(with_lab),
            ]
        )
    return table(["track", "chapters", "labs", "hours of a student", "points: by check + on paper"], rows)


def stubs(lab: str) -> dict:
    """{exercise: what the stub's docstring asks for} from the student's notebook."""
    cells = json.loads((ROOT / "notebooks" / f"{lab}.ipynb").read_text("utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    docstrings = re.findall(r'^def (\w+)\([^\n]*\):\n    r?"""(.*?)"""', code, re.M | re.S)
    return {name: " ".join(words.split()) for name, words in docstrings}


def exercises_table() -> Markdown:
    """Points, question and named mistakes of each exercise."""
    rows = []
    for lab in labs():
        questions, title = stubs(lab), book()[lab].title
        for name, exercise in exercises.of(lab).items():
            question = questions[name].split(". ")[0].rstrip(".").replace("|", "\\|")
            rows.append([title, f"`{name}`", str(exercise.points), question, str(len(exercise.mistakes))])
        rows.append([title, "on paper", str(exercises.on_paper(lab)), "see the solutions", "–"])
    return table(["lab", "exercise", "points", "asks for", "mistakes told by name"], rows)
