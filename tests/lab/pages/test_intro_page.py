r"""The landing page: a card for every method, a button for every place, maps that are attention's own."""

import re

import pytest
import torch

import posenc
from posenc.encoding import PLACES
from posenc.lab.live.sentence import PRESETS, weights
from posenc.lab.pages import ROOT, intro, teachers

HTML = intro.methods().data


@pytest.mark.parametrize("name", posenc.METHODS)
def test_a_card_leads_to_the_chapter_and_its_lab(name):
    method, card = posenc.METHODS[name], intro.card(name)
    assert card in HTML and 10 < len(method.idea) <= 60
    pages = re.findall(r'href="(?:\.\./notebooks/)?(\w+)\.html"', card)
    assert pages == [method.page, *[method.lab] * bool(method.lab)]
    assert (ROOT / f"book/{method.page}.md").exists()
    assert card.count("colab.research.google.com") == bool(method.lab)
    assert f'data-places="{" ".join(method.places)}"' in card


def test_each_place_has_a_button_and_the_style_sheet_knows_it():
    css = (ROOT / "book/_static/posenc.css").read_text("utf-8")
    assert re.findall(r'type="radio" name="place" value="(\w+)"', HTML) == [*PLACES, "all"]
    assert re.findall(r'value="(\w+)"[^>]*checked', HTML) == ["all"]
    for place in PLACES:
        assert f'.methods:has([value="{place}"]:checked) .method:not([data-places~="{place}"])' in css


def shades(name):
    r"""The cells of a map, darkest first: {(row, column): opacity}."""
    return {
        (int(y), int(x)): float(opacity)
        for d, opacity in re.findall(r'<path d="([^"]+)" opacity="([^"]+)"', intro.thumbnail(name))
        for x, y in re.findall(r"M(\d+) (\d+)h1", d)
    }


@pytest.mark.parametrize("name", ["nope", "rope", "stickbreaking"])
def test_a_map_is_darker_where_a_word_looks_more(name):
    shares, drawn = weights(name, PRESETS[0].split()), shades(name)
    assert all(j <= i for i, j in drawn)
    order = sorted(drawn, key=lambda cell: shares[cell])
    assert [drawn[cell] for cell in order] == sorted(drawn.values())
    assert len(set(drawn.values())) >= 4


def test_on_a_picture_the_middle_looks_around():
    for name in ("rope2d", "mrope", "liere", "comrope"):
        shares = intro.around(name)
        torch.testing.assert_close(shares.sum(), torch.tensor(1.0, dtype=torch.float64))
        assert shares.argmax() == intro.SIDE**2 // 2 and shares.max() < 0.6
        if name != "liere":  # whose turns do not commute
            torch.testing.assert_close(shares, shares.flip(0, 1))
    assert intro.thumbnail("rope2d") != intro.thumbnail("comrope")


def test_what_is_cited_is_what_the_repository_says(capsys):
    intro.cite()
    intro.run()
    told = capsys.readouterr().out
    assert f"url = {{https://github.com/{intro.project()['repository']}}}" in told and told.count("@software") == 1
    assert told.rstrip().endswith("make book")


def test_the_map_names_each_chapter_once_and_first_what_others_need():
    text = intro.way().data
    named = re.findall(r"\]\((\w+)\.md\) \(\d+\smin\)", text)
    assert sorted(named) == sorted(teachers.names()) and tuple(named[: len(teachers.FIRST)]) == teachers.FIRST
    for place, name in enumerate(teachers.FIRST):
        assert set(teachers.book()[name].needs) <= set(teachers.FIRST[:place]), name
