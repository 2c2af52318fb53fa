"""For teachers: opening boxes are read or refused, needs lead downward, and points are those of the exercises."""

import re

import pytest

from posenc.lab import exercises
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


def test_tracks_name_chapters_and_labs_that_exist():
    for track in teachers.tracks().values():
        assert set(track["chapters"]) <= set(teachers.names()) and set(track["labs"]) <= set(teachers.labs())
    course = teachers.tracks()["a full course"]
    assert len(course["chapters"]) == len(teachers.names()) and len(course["labs"]) == len(teachers.labs())


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
