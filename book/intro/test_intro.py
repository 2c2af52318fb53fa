r"""The landing page: a card for every method, maps that are attention's own, chapters in an order that serves."""

import re

import pytest

import posenc
from posenc.chapters.intro import facts as intro
from posenc.chapters.sentence.sentence import PRESETS, weights
from posenc.chapters.teachers import facts as teachers
from posenc.lab.titles import TITLES
from posenc.lab.write import ROOT


def test_a_card_leads_to_the_chapter_and_its_lab():
    html = intro.methods().data
    for name, method in posenc.METHODS.items():
        card, row = intro.card(name), TITLES[name]
        assert card in html and 10 < len(row.idea) <= 60
        pages = re.findall(r'href="(?:\.\./\.\./notebooks/|\.\./)(\w+)(?:/index)?\.html"', card)
        assert pages == [row.page, *[row.lab] * bool(row.lab)]
        assert (ROOT / f"book/{row.page}/index.md").exists()
        assert f'data-places="{" ".join(method.places)}"' in card


@pytest.mark.parametrize("name", ["nope", "rope", "stickbreaking"])
def test_a_map_is_darker_where_a_word_looks_more(name):
    drawn = {
        (int(y), int(x)): float(opacity)
        for d, opacity in re.findall(r'<path d="([^"]+)" opacity="([^"]+)"', intro.thumbnail(name))
        for x, y in re.findall(r"M(\d+) (\d+)h1", d)
    }
    shares = weights(name, PRESETS[0].split())
    assert all(j <= i for i, j in drawn) and len(set(drawn.values())) >= 4
    assert [drawn[cell] for cell in sorted(drawn, key=lambda cell: shares[cell])] == sorted(drawn.values())


def test_the_map_names_each_chapter_once_and_first_what_others_need():
    named = re.findall(r"\]\(\.\./(\w+)/index\.md\) \(\{minutes\}`\1`\smin\)", intro.way().data)
    assert sorted(named) == sorted(teachers.names()) and tuple(named[: len(teachers.FIRST)]) == teachers.FIRST
    for place, name in enumerate(teachers.FIRST):
        assert set(teachers.book()[name].needs) <= set(teachers.FIRST[:place]), name
