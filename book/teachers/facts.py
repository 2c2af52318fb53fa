r"""For teachers: what chapters need, what tracks cost in hours, and what each exercise is worth.

All of it is read: needs and a lab's minutes from the chapters' opening boxes, points from the labs' exercises, what an
exercise asks for from the student's notebook. Times of reading are left to the roles of book/_ext/minutes.py.
"""

import functools
import json
import re
from typing import NamedTuple

import yaml

from posenc.lab import check
from posenc.lab.write import ROOT, say_all, table

MARGIN = 45  # minutes on paper and in discussion that each chapter with a lab asks for, beside reading and lab
NOT_CHAPTERS = ("Labs", "Reference")  # parts of the table of contents
#: track -> its weeks, the chapters of each. A chapter stands where what it needs was read.
WEEKS = {
    "90 minutes": ["ten_lines why_position four_places sinusoidal rope"],
    "two weeks": ["ten_lines why_position four_places sinusoidal rope", "extrapolates alibi measure compare"],
    "half a semester": [
        "ten_lines why_position four_places extrapolates",
        *("sinusoidal", "rope", "alibi", "stickbreaking", "measure compare", "kernels"),
    ],
    "a full course": [
        "ten_lines why_position four_places extrapolates",
        *("sinusoidal learned", "relative", "rope rope_closely", "alibi stickbreaking", "cope fox moving_ruler"),
        *("measure compare sentence", "scaling shipped", "rope2d comrope", "practice pretrained"),
        *("in_your_own_model symptoms", "exposb rse", "one_model audit gradients errata", "kernels kernels_closely"),
    ],
}
#: The labs of the short tracks; the long ones have those of all their chapters.
LABS = {"90 minutes": ["rope"], "two weeks": ["rope", "alibi"]}


class Chapter(NamedTuple):
    r"""What a chapter's opening box says: its title, the chapters that it needs, and its lab's minutes (0: none)."""

    title: str
    needs: list
    lab: int


def numbers():
    """Give the prose its hours, as Markdown, and counts."""
    from IPython.display import Markdown
    from myst_nb import glue

    for name, track in tracks().items():
        more = minutes(track["labs"]) + MARGIN * len(track["labs"])
        glue(f"teachers_{name.split()[-1]}", Markdown(reading(track["chapters"], more)), display=False)
    known = [exercise for lab in labs() for exercise in check.of(lab).values()]
    counts = {"mistakes": f"{sum(len(exercise.mistakes) for exercise in known)}", "exercises": f"{len(known)}"}
    say_all("teachers", counts | {"margin": f"{MARGIN}"})


@functools.cache
def parts() -> dict:
    """{part of the book: its chapters}."""
    files = {}
    for part in yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))["parts"]:
        names = [chapter["file"].removeprefix("book/").removesuffix("/index") for chapter in part["chapters"]]
        files[part["caption"]] = [name for name in names if "/" not in name]
    return {part: files[part] for part in files if part not in NOT_CHAPTERS}


def names() -> list:
    """The chapters in the book's order."""
    return [name for chapters in parts().values() for name in chapters]


@functools.cache
def labs() -> list:
    """The chapters that have a lab, in the book's order."""
    return sorted((lab for lab in check.labs() if (ROOT / "notebooks" / f"{lab}.ipynb").exists()), key=names().index)


def read(name: str, text: str) -> Chapter:
    """What a chapter's text says of it. Errors: ValueError where its box is missing or lacks minutes."""
    box = re.search(r"^`{3,}\{admonition\} In this chapter\n(.*?)^`{3,}$", text, re.M | re.S)
    if not box:
        raise ValueError(
            f"{name}: there is no box 'In this chapter'; write one with what it needs and how long it takes"
        )
    linked = {a or b for a, b in re.findall(r"\{doc\}`\.\./(\w+)/index`|\]\(\.\./(\w+)/index\.md\)", box[1])}
    found = re.search(r"\blab\b\W+(?:about )?(\d+)\b", box[1], re.I)
    lab = int(found[1]) if found else 0
    if f"{{minutes}}`{name}`" not in box[1] or bool(lab) != (name in labs()):
        raise ValueError(
            f"{name}: its box says lab={lab} minutes; a chapter says {{minutes}}`{name}` of how long it takes to "
            "read, and one with a lab, and no other, how long the lab takes"
        )
    title = re.search(r"^# (.+)$", text, re.M)[1]
    return Chapter(title, [need for need in names() if need in linked], lab)


@functools.cache
def book() -> dict:
    """{name: `Chapter`} in the book's order."""
    return {name: read(name, (ROOT / "book" / name / "index.md").read_text("utf-8")) for name in names()}


def points(lab: str) -> tuple[int, int]:
    """What a lab is worth: by check, and on paper."""
    return sum(exercise.points for exercise in check.of(lab).values()), check.on_paper(lab)


def worth(chapters) -> str:
    """The points of some labs, as a cell says them."""
    by_check, on_paper = (sum(values) for values in zip(*map(points, chapters)))
    return f"{by_check} + {on_paper}"


def link(name: str) -> str:
    """A chapter's title, linked."""
    return f"[{book()[name].title}](../{name}/index.md)"


def hours(minutes: float) -> str:
    """Minutes as hours."""
    return f"{minutes / 60:.1f}"


def chapters_table():
    """Needs, minutes and points of each chapter."""
    rows = []
    for name, chapter in book().items():
        lab = f"[{chapter.lab} min](../../notebooks/{name}.ipynb)" if name in labs() else "–"
        needs = ", ".join(book()[need].title for need in chapter.needs) or "linear algebra, one trained network"
        rows.append([link(name), needs, f"{{minutes}}`{name}` min", lab, worth([name]) if name in labs() else "–"])
    return table(["chapter", "needs", "reading", "lab", "points: by check + on paper"], rows)


@functools.cache
def tracks() -> dict:
    """{track: {"weeks": the chapters of each, "chapters", "labs"}}."""
    known = {}
    for name, weeks in WEEKS.items():
        weeks = [week.split() for week in weeks]
        chapters = [chapter for week in weeks for chapter in week]
        own = [lab for lab in chapters if lab in LABS.get(name, labs())]
        known[name] = {"weeks": weeks, "chapters": chapters, "labs": own}
    return known


def minutes(labs: list) -> int:
    """What some labs ask for, without what is on paper."""
    return sum(book()[name].lab for name in labs)


def reading(chapters, more: int = 0) -> str:
    """The hours that reading some chapters takes, and `more` minutes besides, as the build writes them."""
    return f"{{hours}}`{' '.join(chapters)} + {more}`"


def tracks_table():
    """Chapters, labs, hours and points of each track."""
    rows = []
    for name, track in tracks().items():
        lab, paper = hours(minutes(track["labs"])), hours(MARGIN * len(track["labs"]))
        titles = ", ".join(book()[chapter].title for chapter in track["labs"])
        asked = f"{reading(track['chapters'])} reading, {lab} labs, {paper} on paper"
        rows.append([f"**{name}**", ", ".join(map(link, track["chapters"])), titles, asked, worth(track["labs"])])
    return table(["track", "chapters", "labs", "hours of a student", "points: by check + on paper"], rows)


def weeks_table(name: str):
    """Chapters, labs and hours of each week of a track; the hours and credits of all."""
    track, rows = tracks()[name], []
    for number, chapters in enumerate([*track["weeks"], track["chapters"]], start=1):
        own = [lab for lab in chapters if lab in track["labs"]]
        asked = reading(chapters, minutes(own) + MARGIN * len(own))
        titles = ", ".join(book()[lab].title for lab in own) or "–"
        if number <= len(track["weeks"]):
            rows.append([number, ", ".join(map(link, chapters)), titles, asked])
    rows.append(["all", f"{{credits}}`{asked.split('`')[1]}` ECTS credits", f"{len(track['labs'])} labs", asked])
    return table([f"{name}: week", "chapters", "labs", "hours of a student"], rows)


def stubs(lab: str) -> dict:
    """{exercise: what the stub's docstring asks for} from the student's notebook."""
    cells = json.loads((ROOT / "notebooks" / f"{lab}.ipynb").read_text("utf-8"))["cells"]
    code = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "code")
    docstrings = re.findall(r'^def (\w+)\([^\n]*\):\n    r?"""(.*?)"""', code, re.M | re.S)
    return {name: " ".join(words.split()) for name, words in docstrings}


def exercises_table():
    """Points, question and named mistakes of each exercise."""
    rows = []
    for lab in labs():
        questions, title = stubs(lab), book()[lab].title
        for name, exercise in check.of(lab).items():
            question = questions[name].split(". ")[0].rstrip(".").replace("|", "\\|")
            effort = check.effort(exercise.points)
            rows.append([title, f"`{name}`", exercise.points, effort, question, len(exercise.mistakes)])
        rows.append([title, "on paper", check.on_paper(lab), "–", "see the solutions", "–"])
    return table(["lab", "exercise", "points", "effort", "asks for", "mistakes told by name"], rows)
