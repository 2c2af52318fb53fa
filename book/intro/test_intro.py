r"""The landing page: a card for every method, chapters in an order that serves."""

import re

import numpy as np
import pytest
import torch

import posenc
from posenc.chapters.intro import clock
from posenc.chapters.intro import facts as intro
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
    assert sorted(named) == sorted(teachers.names()) and tuple(named[: len(intro.FIRST)]) == intro.FIRST
    for place, name in enumerate(intro.FIRST):
        assert set(teachers.book()[name].needs) <= set(intro.FIRST[:place]), name


SCORES = """(state) => { if (state) posencExplorables.get('clock').set(state);
    return JSON.parse(document.querySelector('.live-place').dataset.scores); }"""


@pytest.mark.browser
def test_the_clock_takes_the_first_drag_and_its_sum_is_attention_s(base, open_page):
    page = open_page(base + "index.html")  # where nothing stirs
    assert page.locator(".live-on .live-place").inner_html() == clock.STILL.read_text("utf-8"), "run `make screenshot`"
    bracket, before = page.locator(".clock-wide [role=slider]").first, page.evaluate(SCORES)
    bracket.locator("> rect").hover()
    page.mouse.down()
    page.mouse.move(2000, 100)
    assert bracket.get_attribute("aria-valuenow") == "19" and page.evaluate(SCORES) == pytest.approx(before)
    sizes = zip(clock.LENGTHS, clock.PHASES)
    q, k = (size * torch.stack((p.cos(), p.sin()), -1).view(1, 1, 1, -1).expand(-1, -1, 3, -1) for size, p in sizes)
    encoding = posenc.make("rope", head_dim=2 * clock.PAIRS, base=clock.BASE)
    for m, places in [(5, [1, 4, 23]), (0, [23, 11, 1]), (23, [0, 12, 22])]:
        at = dict(pos_q=torch.tensor([m]), pos_k=torch.tensor(places))
        _, weights = posenc.attention(q[:, :, :1], k, k, encoding, **at, scale=1.0, return_weights=True)
        sums = [sum(page.evaluate(SCORES, dict(m=m, n=n))) for n in places]
        np.testing.assert_allclose(np.diff(sums), weights.flatten().log().diff(), atol=1e-6)
