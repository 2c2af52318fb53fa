r"""The RSE chapter: the worked example, and what its prose concludes from the frozen results."""

import json
import math
from pathlib import Path

import pytest
import torch

from posenc.lab.pages import ablation
from posenc.lab.pages import rse as page

RESULTS = Path(__file__).resolve().parents[3] / "results"


@pytest.mark.parametrize("order", ["first", "recent"])
def test_the_pieces_of_the_worked_example(order):
    weights, left = page.pieces(order)
    rest, keys = 1.0, range(5)
    for j in keys if order == "first" else reversed(keys):
        assert weights[j] == pytest.approx(page.BITES[j] * rest)
        rest *= 1 - page.BITES[j]
    assert left == pytest.approx(rest)


def test_the_figure_has_a_bar_for_each_piece_and_rest():
    (axes,) = page.stick_figure().axes
    assert len(axes.patches) == 2 * (len(page.BITES) + 1)
    assert max(bar.get_x() + bar.get_width() for bar in axes.patches) == pytest.approx(1.0)


def test_a_stick_sees_no_distance_and_a_penalty_does():
    assert max(page.found(back) for back in (3, 30, 300)) - min(page.found(back) for back in (3, 30, 300)) < 0.002
    assert page.found(300, 0.05) < 0.01 < 0.9 < page.found(3, 0.05)


def test_the_example_by_hand():
    page.check_hand()


def test_the_page_s_own_lines_are_held_against_posenc():
    def by_pieces(q, k, rate):  # the rest loses the piece, as the report prints it
        at, w = torch.arange(len(q)), page.posenc.rope.inv_freq(q.shape[-1])
        turned, keys = (page.posenc.rope.rotate(x, at, w) for x in (q, k))
        beta = torch.sigmoid(turned @ keys.T / q.shape[-1] ** 0.5 - rate * (at[:, None] - at).abs()).tril()
        rest, weights = torch.ones(len(q)), torch.empty_like(beta)
        for j in range(len(q)):
            weights[:, j] = beta[:, j] * rest
            rest = rest * (1 - weights[:, j])
        return weights, rest

    with pytest.raises(AssertionError):
        page.check_short(by_pieces)


def test_the_card_places_a_hill():
    heights = [panel.collections[0].get_paths()[0].vertices for panel in page.card_figure().axes]
    tops = [points[points[:, 1].argmax(), 0] for points in heights]
    assert tops[0] < 1 < 50 < tops[1] < 80 < 126 < tops[2]


def test_tables_have_a_row_for_each_arm():
    assert len(page.predictions().data.splitlines()) == 2 + len(page.ARMS)
    assert len(page.rates_table().data.splitlines()) == 2 + len(page.TRAINED_RATES)


def test_rates_come_from_the_frozen_seeds():
    runs = json.loads((RESULTS / "rse_rates.json").read_text())["arms"]["rse"]
    fall = [b["content"][0] - a["content"][0] for b, a in zip(runs["before"], runs["after"])]
    assert page.rates_numbers()["fell_top"] == f"{min(fall):.0f} to {max(fall):.0f}"


def test_what_the_prose_concludes_of_the_parts():
    first, last = ablation.ends()
    mean, spread = ablation.beside("rse", first, "rse_recent")
    assert mean > 5 * spread  # the order decides
    scores = {arm: ablation.text()["methods"][arm]["scores"] for arm in ("stickbreaking", "rse_recent")}
    assert all(stick < both for stick, both in zip(*(scores[arm][first] for arm in scores)))
    assert all(abs(a - b) < 1e-3 for arm in scores for a, b in zip(scores[arm][first], scores[arm][last]))
    assert ablation.beside("rse_stick", first)[0] > ablation.beside("nope", first)[0] > 0.5
    assert ablation.beside("rse_penalty", first)[0] > 0.5
    mean, spread = ablation.beside("rse_softmax", last)
    assert mean + 5 * spread < 0  # the penalty helps rotation far out
    for column in (first, last):
        assert min(("rope", *page.ARMS), key=lambda arm: ablation.loss(arm, column)) == "stickbreaking"


def test_what_the_prose_concludes_of_the_needle():
    arms = ("rope", *page.ARMS)
    scores = {arm: ablation.needle()["methods"][arm]["scores"] for arm in arms}
    missed = {arm: {test: sum(row[test]) / len(row[test]) for test in row} for arm, row in scores.items()}
    assert all(missed[arm]["far"] < 0.1 for arm in ("nope", "rse_stick", "stickbreaking"))
    assert all(missed[arm]["far"] > 0.5 for arm in ("rope", "rse", "rse_softmax", "rse_recent"))
    assert missed["rse_recent"]["in"] > 0.2 > 0.05 > max(missed[arm]["in"] for arm in page.ARMS if arm != "rse_recent")
    assert 0.1 < missed["rse_penalty"]["far"] < missed["rope"]["far"]
    assert missed["rse"]["near"] > 0.2 > 0.05 > missed["rope"]["near"]
    tolerance = ablation.needle()["tolerance"]
    for test in ("in", "near", "far"):
        assert missed["stickbreaking"][test] <= min(missed[arm][test] for arm in arms) + tolerance


def test_what_the_prose_concludes_of_the_rates():
    rate = {arm: page.flat(page.trained(arm, "after", "rate")) for arm in page.TRAINED_RATES}
    content = {arm: page.flat(page.trained(arm, "after", "content")) for arm in page.TRAINED_RATES}
    assert min(rate["rse"]) > max(rate["rse_recent"]) and max(rate["rse_recent"]) < 0.01 < min(rate["rse"])
    assert (
        max(content["rse"]) < -1 and max(map(abs, content["rse_recent"])) < 0.5 and max(content["rse_softmax"]) < -0.5
    )
    assert min(rate["rse_softmax"]) > max(rate["rse"])
    assert min(page.flat(page.falls())) > 5 * page.penalty_rise()  # contents fell by more than the penalty rose
    for contents, rates in zip(page.trained("rse", "after", "content"), page.trained("rse", "after", "rate")):
        local = [r >= math.log1p(math.exp(c)) for c, r in zip(contents, rates)]
        assert local == [False, True, True]  # were all contents equal to the mean
        hill = (contents[0] - math.log(math.expm1(rates[0]))) / rates[0]
        assert hill > page.rates()["settings"]["length"]  # layer 1: weights rise up to key 0
