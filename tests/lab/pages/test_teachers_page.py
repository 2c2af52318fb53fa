"""For teachers: opening boxes are read or refused, needs lead downward, and points are those of the exercises."""

import json
import re

import pytest

from posenc.lab import exercises
from posenc.lab.exercises import marks
from posenc.lab.pages import ROOT, teachers

BOX = "# Title\n\n```{{admonition}} In this chapter\nYou need {{doc}}`rope`, [places](four_places.md).\n\n{}\n```\n"


def test_a_box_is_read():
    chapter = teachers.read("alibi", BOX.format("Reading: about 15 minutes. Lab: 30 minutes."))
    assert chapter == ("Title", [name for name in teachers.names() if name in ("four_places", "rope")], 15, 30)


@pytest.mark.parametrize(
    "name, words",
    [("alibi", "Reading: 15 minutes."), ("alibi", "Lab: 20 minutes."), ("compare", "Reading: 9. Lab: 9.")],
)
def test_a_box_that_lacks_minutes_or_has_too_many_is_refused(name, words):
    with pytest.raises(ValueError, match=name):
        teachers.read(name, BOX.format(words))


def test_a_chapter_without_a_box_is_refused():
    with pytest.raises(ValueError, match="rope.*box"):
        teachers.read("rope", "# RoPE\n")


def test_every_chapter_stands_below_what_it_needs():
    for name, chapter in teachers.book().items():
        assert all(teachers.row_of(need) < teachers.row_of(name) for need in chapter.needs)
        assert set(chapter.needs) <= teachers.behind(name)
        assert {far for need in teachers.direct(name) for far in teachers.behind(need) | {need}} == teachers.behind(
            name
        )


def test_the_diagram_has_each_chapter_and_each_arrow():
    picture = teachers.diagram().data
    assert picture.count("<text") == len(teachers.names())
    assert picture.count("<line") == sum(len(teachers.direct(name)) for name in teachers.names())


@pytest.mark.parametrize("track", teachers.TRACKS)
def test_a_track_contains_what_its_chapters_and_labs_need(track):
    chapters, with_lab = teachers.TRACKS[track].values()
    assert set(chapters) <= set(teachers.names()) and set(with_lab) <= set(teachers.labs()) & set(chapters)
    assert len(chapters) == len(set(chapters)) and len(with_lab) == len(set(with_lab))
    for name in chapters:
        assert teachers.behind(name) <= set(chapters), f"{name} needs {teachers.behind(name) - set(chapters)}"


@pytest.mark.parametrize("track", teachers.SYLLABUS)
def test_a_syllabus_asks_for_nothing_before_what_it_needs(track):
    seen, last = set(), 0
    for week, chapters, with_lab, in_class in teachers.SYLLABUS[track]:
        seen |= set(chapters)
        assert last <= week <= last + 1 and in_class
        for name in chapters:
            assert teachers.behind(name) <= seen, f"week {week}: {name} needs {teachers.behind(name) - seen}"
        assert set(with_lab) <= seen
        last = week
    assert teachers.syllabus_table(track).data.count("\n") == len(teachers.SYLLABUS[track]) + 1


def test_a_full_course_has_every_chapter_and_every_lab():
    course = teachers.TRACKS["a full course"]
    assert sorted(course["chapters"]) == sorted(teachers.names()) and sorted(course["labs"]) == sorted(teachers.labs())


def test_credits_are_those_hours():
    """Its minutes and sessions anew: 25 to 30 hours a credit, and what three credits leave for a project."""
    told = teachers.credits()
    whole = float(told["whole"])
    credits = [float(number) for number in told["credits"].split(" to ")]
    assert [whole / 30, whole / 25] == pytest.approx(credits, abs=0.071)  # half an hour, then half a tenth, rounded
    assert [float(hours) + whole for hours in told["project"].split(" to ")] == pytest.approx([75, 90], abs=1.1)
    read = sum(chapter.reading + chapter.lab for chapter in teachers.book().values())
    around = teachers.MARGIN * len(teachers.labs()) + sum(teachers.rests().values()) + 14 * 90
    assert whole == pytest.approx((read + around) / 60, abs=0.5)
    rows = teachers.syllabus_table("a full course").data.splitlines()[2:]
    assert sum(float(row.split("|")[-2]) for row in rows) == pytest.approx(whole - 14 * 1.5, abs=1.2)


@pytest.mark.parametrize("lab", teachers.labs())
def test_each_exercise_has_difficulty_and_minutes_that_fit_into_the_lab(lab):
    assert list(marks.EFFORT[lab]) == [*exercises.of(lab), "paper"]
    efforts = {name: marks.effort(lab, name) for name in marks.EFFORT[lab]}
    assert {effort.difficulty for effort in efforts.values()} <= {"easy", "medium", "hard"}
    assert 1 <= efforts["paper"].minutes <= teachers.MARGIN
    lab_minutes = sum(effort.minutes for name, effort in efforts.items() if name != "paper")
    assert lab_minutes <= teachers.book()[lab].lab, "the lab's box promises less"
    cells = json.loads((ROOT / "notebooks" / f"{lab}.ipynb").read_text("utf-8"))["cells"]
    text = "\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    said = re.findall(r"^\*(Easy|Medium|Hard), about (\d+) min, (\d+) points?\.\*$", text, re.M)
    worth = [exercise.points for exercise in exercises.of(lab).values()] + [exercises.on_paper(lab)]
    assert [(a.lower(), int(b)) for a, b, _ in said] == list(efforts.values())
    assert [int(points) for *_, points in said] == worth


def test_minutes_and_points_add_up():
    book = teachers.book()
    assert teachers.minutes(["rope", "alibi"], ["rope"]) == (
        book["rope"].reading + book["alibi"].reading,
        book["rope"].lab,
        teachers.MARGIN,
    )
    by_check = sum(exercise.points for lab in ("rope", "alibi") for exercise in exercises.of(lab).values())
    assert teachers.worth(["rope", "alibi"]).startswith(f"{by_check} + ")


def test_every_exercise_is_asked_for_in_its_notebook():
    rows = teachers.exercises_table().data.split("\n")[2:]
    assert len(rows) == sum(len(exercises.of(lab)) + 1 for lab in teachers.labs())
    for lab in teachers.labs():
        assert exercises.of(lab).keys() <= teachers.stubs(lab).keys(), lab


def test_every_number_of_the_prose_is_said_once(monkeypatch):
    names = []
    monkeypatch.setattr(teachers, "say_all", lambda page, texts: names.extend(f"{page}_{name}" for name in texts))
    teachers.numbers()
    text = (ROOT / "book" / "teachers.md").read_text("utf-8")
    assert len(names) == len(set(names)) and set(names) == set(re.findall(r"\{glue:text\}`(\w+)`", text))
