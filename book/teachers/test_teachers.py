"""For teachers: opening boxes are read or refused, and points are those of the exercises."""

import pytest

from posenc.chapters.teachers import facts as teachers
from posenc.lab import check

BOX = "# Title\n\n```{{admonition}} In this chapter\n{}\n```\n".replace(
    "{}", "You need {{doc}}`../rope/index`, [places](../four_places/index.md).\n\n{}"
)


def test_a_box_is_read():
    chapter = teachers.read("alibi", BOX.format("Reading: about {minutes}`alibi` minutes. Lab: 30 minutes."))
    assert chapter == ("Title", [name for name in teachers.names() if name in ("four_places", "rope")], 30)


@pytest.mark.parametrize(
    "name, words",
    [("alibi", "{minutes}`alibi`."), ("alibi", "Lab: 20 minutes."), ("compare", "{minutes}`compare`. Lab: 9.")],
)
def test_a_box_that_lacks_minutes_or_has_too_many_is_refused(name, words):
    with pytest.raises(ValueError, match=name):
        teachers.read(name, BOX.format(words))
    with pytest.raises(ValueError, match="rope.*box"):
        teachers.read("rope", "# RoPE\n")


@pytest.mark.parametrize("name", teachers.WEEKS)
def test_a_track_has_what_its_chapters_need_before_them(name):
    track = teachers.tracks()[name]
    for number, chapter in enumerate(track["chapters"]):
        assert set(teachers.book()[chapter].needs) <= set(track["chapters"][:number]), chapter
    assert set(track["labs"]) <= set(track["chapters"]) and track["labs"]
    assert name != "a full course" or sorted(track["chapters"]) == sorted(teachers.names())
    table, total = teachers.weeks_table(name).data, teachers.minutes(track["labs"]) + 45 * len(track["labs"])
    assert (
        table.count("\n") == len(track["weeks"]) + 2
        and f"{{credits}}`{' '.join(track['chapters'])} + {total}`" in table
    )


def test_every_exercise_is_asked_for_in_its_notebook_and_gives_its_points():
    for lab in teachers.labs():
        assert check.of(lab).keys() <= teachers.stubs(lab).keys(), lab
    by_check = sum(exercise.points for lab in ("rope", "alibi") for exercise in check.of(lab).values())
    assert teachers.worth(["rope", "alibi"]).startswith(f"{by_check} + ")
