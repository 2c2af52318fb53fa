r"""Two hands on a clock: its numbers are those of `posenc.attention`, and turning both hands moves no bar."""

import numpy as np
import pytest
import torch

import posenc
from posenc.lab.figures.clock import BASE, LARGE, PAIRS, hands, two_hands


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


BARS = ("score of each pair", "levels", "score")
HANDS = ("query", "key", "angle", "projection", "query hands", "key hands", "query word", "key word", "bracket")


@pytest.mark.parametrize("shift", range(1, 12))  # twelve words turn the large dial once around
def test_the_bracket_turns_every_hand_and_moves_no_bar(shift):
    before, after = drawn(3, 1), drawn(3, 1, shift)
    for name in BARS:
        assert before[name].keys() == after[name].keys()
        assert all(np.array_equal(before[name][path], after[name][path], equal_nan=True) for path in ("x", "y"))
    assert before["readout"] == after["readout"]
    for name in HANDS:
        assert not np.allclose(before[name]["x"], after[name]["x"], equal_nan=True), name
    turned = [before[name]["x"].reshape(PAIRS, 3) != after[name]["x"].reshape(PAIRS, 3) for name in HANDS[4:6]]
    assert all(part[:, 1].all() for part in turned), "a small hand that stays"


@pytest.mark.parametrize("m, n", [(3, 1), (1, 3), (11, 0), (7, 7)])
def test_the_projection_is_as_long_as_the_score(m, n):
    figure = drawn(m, n, 4)
    query, foot, key = (np.array([figure[name][axis][-1] for axis in "xy"]) for name in ("query", "projection", "key"))
    assert foot @ query == pytest.approx(figure["score of each pair"]["y"][LARGE])
    assert (key - foot) @ query == pytest.approx(0, abs=1e-12)  # it is dropped at a right angle
    assert foot[0] * query[1] == pytest.approx(foot[1] * query[0], abs=1e-12)  # and lies along the query
    angle = np.arctan2(figure["angle"]["x"][[0, -1]], figure["angle"]["y"][[0, -1]])
    ends = np.arctan2(*np.stack((key, query)).T)
    np.testing.assert_allclose(np.cos(angle - ends), 1, atol=1e-12)
