r"""The chapter on stick-breaking: its picture, and words that follow the frozen numbers."""

import json
import statistics
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from posenc.lab.pages import stickbreaking as page

RESULTS = Path(__file__).resolve().parents[3] / "results"


def test_losses_are_means_over_the_frozen_seeds():
    runs = json.loads((RESULTS / "train_short_test_long.json").read_text())["methods"]["stickbreaking"]["whole"]
    assert page.results_numbers()["stick_long"] == f"{statistics.mean(run[-1] for run in runs):.3f}"


def test_the_pieces_fill_the_stick():
    (axes,) = page.stick_figure().axes
    assert len(axes.patches) == len(page.PIECES)
    last = axes.patches[-1]
    assert last.get_x() + last.get_width() == pytest.approx(1.0)


def test_the_best_slope_is_found():
    r"""Two equal keys: the steepest slope gives all to the nearer one, the mildest hardly tells them apart."""
    logits = torch.tensor([-50.0, 3.0, -50.0, 3.0], dtype=torch.float64)
    assert page.best_slope_weight(logits, -1) == pytest.approx(1.0)
    assert page.best_slope_weight(logits, -3) == pytest.approx(0.5, abs=1e-3)  # the mildest


@pytest.mark.parametrize("gap, spread, word", [(-0.1, 0.01, "better"), (0.001, 0.01, "same"), (0.1, 0.01, "worse")])
def test_the_words_on_the_far_context_follow_the_gap(gap, spread, word):
    assert word in page.use_words(SimpleNamespace(gap=gap, gap_spread=spread))


@pytest.mark.parametrize("change, improves", [(-0.1, True), (-0.004, False), (0.1, False)])
def test_the_words_on_the_length_follow_the_change(change, improves):
    assert ("does not" in page.improvement_words(SimpleNamespace(change=change, spread=0.001))) != improves


def test_the_later_match_is_served_by_a_steep_slope_near_by_and_by_none_far_away():
    near, far = page.two_matches(1), page.two_matches(40)
    assert page.with_slope(near, 4.0)[-1] > 0.99 and page.with_slope(far, 4.0)[-40] < 0.01
    assert float(page.failure_numbers()["best_slope"]) < 0.7 < 0.9 < float(page.failure_numbers()["stick_match"])


def test_the_page_s_own_lines_are_held_against_posenc():
    def right(z, visible):
        left = -torch.nn.functional.softplus(z.masked_fill(~visible, float("-inf")))
        return (z + left.flip(-1).cumsum(-1).flip(-1)).exp() * visible, left.sum(-1).exp()

    def not_turned(z, visible):
        left = -torch.nn.functional.softplus(z.masked_fill(~visible, float("-inf")))
        return (z + left.cumsum(-1)).exp() * visible, left.sum(-1).exp()

    page.check_short(right)
    with pytest.raises(AssertionError):
        page.check_short(not_turned)
