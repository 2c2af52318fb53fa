"""What the chapter on CoPE computes beside its text: a head made by hand, checks that can fail, and comparisons."""

import math

import pytest
import torch

from posenc.bias.cope import positions
from posenc.lab.pages import cope as page


def test_the_head_made_by_hand_finds_the_previous_sentence_in_both():
    for name, words in page.TEXTS.items():
        starts = [0, *(j + 1 for j, word in enumerate(words) if word == ".")]  # the last is the query's own
        p, weights = page.count_sentences(name)
        assert weights.argmax() == starts[-2] and weights.max() > 0.99
        assert p[starts[-2]] == pytest.approx(2, abs=0.05)


def test_the_checks_see_positions_that_are_off(monkeypatch):
    q, k, e = (torch.randn(n, 8, dtype=torch.float64) for n in (9, 9, 5))
    monkeypatch.setattr(page, "positions", lambda s, visible: positions(s, visible) + 0.5)
    assert page.check_errors(q, k, e)["interpolated rows = interpolated products"] > 1e-3


@pytest.mark.parametrize(
    "ours, words",
    [
        ([0.0, 0.01, 0.0, 0.01, 0.0], "fewer"),
        ([0.5, 0.5, 0.51, 0.5, 0.5], "more"),
        ([0.0, 0.3, 0.0, 0.2, 0.1], "not told"),
    ],
)
def test_a_comparison_needs_more_than_the_spread_of_its_seeds(ours, words):
    assert page.compared(ours, [0.1, 0.11, 0.12, 0.1, 0.11]).startswith(words)


def test_the_interval_is_students():
    mean, half = page.paired([1.0, 2.0, 3.0, 4.0, 5.0], [0.0] * 5)
    assert mean == 3 and half == pytest.approx(2.776 * math.sqrt(2.5) / math.sqrt(5))


def test_what_the_page_says_of_the_frozen_gates_is_so():
    """Sentences that carry no number of their own: they stand on these."""
    numbers, frozen = page.gate_numbers(), page.trained_gates()
    assert all(0.1 < gate < 0.9 for head in frozen["heads"] for gate in head["by_kind"].values())
    assert float(numbers["loss_mean"]) < 0.25 * float(numbers["loss_zero"])
    flipflop, counting = (frozen["puzzles"][task]["heads"] for task in ("flipflop", "counting"))
    for head in flipflop:
        gap = head["by_kind"]["after w"] - head["by_kind"]["after i"]
        assert gap > 0.95 if head["layer"] else gap < 0.05
    for kinds in (head["by_kind"] for head in counting if head["layer"] == 0):
        assert min(kinds["+"], kinds["reset"]) > 0.95 and kinds["."] < 0.05
