r"""The chapter on stick-breaking: its example, and words that follow the frozen numbers."""

from types import SimpleNamespace

import pytest
import torch

from posenc.lab.pages import stickbreaking as page


def test_the_best_slope_is_found():
    r"""Two equal keys: the steepest slope gives all to the nearer one, the mildest hardly tells them apart."""
    logits = torch.tensor([-50.0, 3.0, -50.0, 3.0], dtype=torch.float64)
    assert page.best_slope_weight(logits, -1) == pytest.approx(1.0)
    assert page.best_slope_weight(logits, -3) == pytest.approx(0.5, abs=1e-3)  # the mildest


@pytest.mark.parametrize("gap, word", [(-0.1, "better"), (0.001, "same"), (0.1, "worse")])
def test_the_words_on_the_far_context_follow_the_gap(gap, word):
    assert word in page.use_words(SimpleNamespace(gap=gap, gap_spread=0.01))


@pytest.mark.parametrize("change, improves", [(-0.1, True), (-0.004, False), (0.1, False)])
def test_the_words_on_the_length_follow_the_change(change, improves):
    assert ("does not" in page.improvement_words(SimpleNamespace(change=change, spread=0.001))) != improves
