r"""Two hands on a clock: its numbers are those of `posenc.attention`."""

import numpy as np
import pytest
import torch

import posenc
from posenc.chapters.intro.figures import BASE, PAIRS, hands, two_hands


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
