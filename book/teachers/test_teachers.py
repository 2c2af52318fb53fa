"""For teachers: opening boxes are read or refused, and tracks have what their chapters need."""

import pytest

from posenc.chapters.teachers import facts as teachers

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
