r"""Break the stick by hand: the page's closed forms against posenc, and what a move may change."""

import json
import math
import re

import pytest
import torch

from posenc.chapters import live_scripts, load_live
from posenc.chapters.stickbreaking import figures, sticks
from posenc.lab.explore import STATIC
from posenc.lab.explore.page import script_json


def test_the_still_and_the_data_come_from_posenc():
    stick, softmax = sticks.weights(sticks.LOGITS)
    left = 1.0
    for logit, piece in zip(sticks.LOGITS, stick):
        share = 1 / (1 + math.exp(-logit))
        assert piece == pytest.approx(share * left)
        left -= piece
    assert stick[-1] == pytest.approx(left) and sum(softmax) == pytest.approx(1)
    widths = [float(width) for width in re.findall(r'<rect[^>]* width="([\d.]+)"', sticks.picture())]
    assert widths == pytest.approx([680 * share for share in [*stick, *softmax]], abs=0.06)
    with pytest.raises(ValueError, match="sticks"):
        load_live("nothing")


@pytest.fixture(scope="module")
def page(browser, tmp_path_factory):
    folder = tmp_path_factory.mktemp("live")
    for source in (STATIC / "player.js", STATIC / "player.css", live_scripts()["sticks"]):
        target = folder / ("live" if source.parent != STATIC else "") / source.name
        target.parent.mkdir(exist_ok=True)
        target.write_text(source.read_text("utf-8"), "utf-8")
    data = {**sticks.data(), "logits": [0.0, 0.0, 0.0, 0.0, 0.0, 0.0]}
    (folder / "page.html").write_text(
        '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="player.css">'
        '<script defer src="player.js"></script><figure class="live"><div data-live="sticks">'
        f'<div class="live-still">{sticks.picture()}</div><div class="live-place"></div>'
        f'<script type="application/json" class="live-data">{script_json(data)}</script></div></figure>',
        "utf-8",
    )
    page = browser.new_page(viewport={"width": 900, "height": 700})
    page.goto((folder / "page.html").as_uri())
    assert page.locator(".live-still").is_visible() and not page.locator(".live-place").is_visible()
    page.mouse.move(5, 5)
    page.wait_for_selector(".live-on")
    assert not page.locator(".live-still").is_visible()
    yield page
    page.close()


def bars(page):
    place = page.locator(".live-place")
    return [json.loads(place.get_attribute(f"data-{name}")) for name in ("stick", "softmax")]


@pytest.mark.browser
def test_sets_of_cuts_equal_posenc(page):
    draw = torch.Generator().manual_seed(3)
    for shares in torch.rand(5, 6, generator=draw, dtype=torch.float64).mul(0.8).add(0.1).tolist():
        box = page.locator(".sticks-bar").first.bounding_box()
        left = 1.0
        for i, share in enumerate(shares):  # from the first cut on: each moves those after it
            cut = page.locator(".sticks-cut").nth(i)
            own = cut.bounding_box()
            page.mouse.move(own["x"] + own["width"] / 2, own["y"] + own["height"] / 2)
            page.mouse.down()
            page.mouse.move(box["x"] + box["width"] * (1 - left + left * share), own["y"] + own["height"] / 2)
            page.mouse.up()
            left *= 1 - float(cut.get_attribute("aria-valuenow"))
        logits = page.locator(".sticks-cut").evaluate_all("(all) => all.length") * [0.0]
        stick, softmax = bars(page)
        rest = 1.0
        for i, piece in enumerate(stick[:-1]):
            logits[i] = math.log(piece / (rest - piece))
            rest -= piece
        for got, wanted in zip((stick, softmax), sticks.weights(logits)):
            assert got == pytest.approx(wanted, abs=1e-6)
        assert stick[0] == pytest.approx(shares[0], abs=0.02)


@pytest.mark.browser
def test_a_cut_moves_no_piece_before_it_and_every_piece_of_the_softmax(page):
    page.get_by_role("button", name="Reset").click()
    stick, softmax = bars(page)
    page.locator(".sticks-cut").nth(2).focus()
    page.keyboard.press("PageUp")
    now, soft = bars(page)
    assert now[:2] == stick[:2] and now[2] > stick[2]
    assert all(a < b for a, b in zip(now[3:], stick[3:]))
    assert all(abs(a - b) > 1e-3 for a, b in zip(soft, softmax))
    page.locator(".sticks-cut").nth(2).press("End")  # moves nothing, and measures nothing anew
    assert page.locator(".sticks-name b").all_inner_texts() == ["4 of 6 changed", "6 of 6 changed"]
    assert page.locator(".sticks-bar").first.get_by_text("same").count() == 2


@pytest.mark.browser
def test_the_address_brings_order_and_cuts_back(page):
    page.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="swap “it” and “sleeps”").click()
    page.locator(".sticks-cut").nth(2).press("PageDown")
    left = bars(page)
    assert page.url.endswith("#sticks=sleeps:0.50,it:0.50,cat:0.40,the:0.50,dog:0.50,a:0.50")
    page.reload()
    page.wait_for_selector(".live-on")
    assert bars(page) == [pytest.approx(each, abs=0.01) for each in left]


@pytest.mark.parametrize("between", [0, 16])
def test_far_keys_take_from_the_softmax_s_match_and_from_the_stick_s_rest(between):
    shares = {}
    for far in (0, 4096):
        lines = figures.dilution.evaluate(dict(far=far, rest=-4, between=between))
        ways = ("softmax", "stick")
        parts = torch.tensor([[lines[f"{part}, {way}"]["x"].item() for way in ways] for part in figures.PARTS])
        torch.testing.assert_close(parts.sum(0), torch.ones(2))
        assert [lines["readout"]["soft"], lines["readout"]["stick"]] == pytest.approx(parts[1].tolist())
        shares[far] = parts
    few, many = shares.values()
    assert many[1, 0] < few[1, 0] / 2 and many[1, 1] == pytest.approx(few[1, 1].item())
    assert many[2:, 1].sum() == pytest.approx(few[3, 1].item())
