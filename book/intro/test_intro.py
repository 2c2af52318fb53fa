r"""The landing page: a card for every method, chapters in an order that serves."""

import re

import numpy as np
import pytest
import torch

import posenc
from posenc.chapters.intro import facts as intro
from posenc.chapters.intro.figures import BASE, PAIRS, hands, two_hands
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


def test_the_map_names_each_chapter_once_and_first_what_others_need():
    named = re.findall(r"\]\(\.\./(\w+)/index\.md\) \(\{minutes\}`\1`\smin\)", intro.way().data)
    assert sorted(named) == sorted(teachers.names()) and tuple(named[: len(teachers.FIRST)]) == teachers.FIRST
    for place, name in enumerate(teachers.FIRST):
        assert set(teachers.book()[name].needs) <= set(teachers.FIRST[:place]), name


def drawn(m, n, shift=0):
    return two_hands.evaluate(dict(m=m, n=n, shift=shift))


def scores_of_attention(m, places):
    r"""q . k for a query at m and keys at these places, as `posenc.attention` weighs them, up to a common number."""
    q, k = (hands(which, 0).reshape(1, 1, 1, -1) for which in (0, 1))
    k = k.expand(1, 1, len(places), -1)
    encoding = posenc.make("rope", head_dim=2 * PAIRS, base=BASE)
    at = dict(pos_q=torch.tensor([m]), pos_k=torch.tensor(places))
    _, weights = posenc.attention(q, k, k, encoding, **at, scale=1.0, return_weights=True)
    return weights.flatten().log()


@pytest.mark.parametrize("m, shift", [(3, 0), (11, 0), (0, 7), (3, 12)])
def test_the_bars_add_up_to_the_score_of_attention(m, shift):
    places = list(range(12))
    sums = []
    for n in places:
        figure = drawn(m, n, shift)
        bars = figure["score of each pair"]["y"]
        assert len(bars) == PAIRS and bars.sum() == pytest.approx(figure["score"]["y"][0])
        np.testing.assert_allclose(figure["score of each pair"]["base"][1:], bars.cumsum()[:-1], atol=1e-12)
        sums.append(figure["score"]["y"][0])
    expected = scores_of_attention(m + shift, [n + shift for n in places])
    np.testing.assert_allclose(np.diff(sums), expected.diff(), atol=1e-6)
