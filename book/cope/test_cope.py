"""What the chapter on CoPE computes beside its text: a head made by hand, checks that can fail, and comparisons."""

import pytest
import torch

from posenc.bias.cope import positions
from posenc.chapters.cope import facts as page


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
