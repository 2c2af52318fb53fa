"""FIRE against Li et al. 2024 (arXiv 2310.04418), section 3, in loops."""

import math

import pytest
import torch
from loops import attend, close, dot, inputs, network

import posenc


def made(heads=2, threshold=4.0, hidden=5, c=0.1, seed=0):
    """An encoding in float64 with this L and c."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        encoding = posenc.make("fire", num_heads=heads, threshold=threshold, hidden=hidden).double()
    encoding.bias.c.data.fill_(c)
    return encoding


def share(i, j, c, threshold):
    """psi(i - j) / psi(max(L, i)), psi(x) = log(c x + 1)."""
    return math.log(c * (i - j) + 1) / math.log(c * max(threshold, i) + 1)


def place(pos_q, pos_k):
    return posenc.At(torch.tensor([pos_q]), torch.tensor([pos_k]), None)


# The construction


@pytest.mark.parametrize(
    "threshold, c, queries, keys", [(4.0, 0.1, 7, 7), (100.0, 2.0, 2, 9), (0.5, 1.0, 1, 1)], ids=str
)
def test_equals_the_construction(queries, keys, threshold, c):
    q, k, v = inputs(heads=3, queries=queries, keys=keys)
    encoding = made(3, threshold, c=c)

    def logit(h, i, j, q_i, k_j):
        return dot(q_i, k_j) / math.sqrt(len(q_i)) + network(encoding.bias, h, share(i, j, c, threshold))

    out, weights = posenc.attention(q, k, v, encoding, return_weights=True)
    expected_out, expected_weights = attend(q, k, v, logit)
    tolerance = 1e-5  # what the 1e-6 in the denominator, for L near 0, moves
    close(weights, expected_weights, tolerance)
    close(out, expected_out, tolerance)


def test_share_equals_the_construction():
    encoding = made(threshold=6.0, c=0.3)
    pos_q, pos_k = [0, 3, 6, 7, 40], [0, 2, 3, 5]
    actual = encoding.bias.share(place(pos_q, pos_k), torch.float64)
    for a, i in enumerate(pos_q):
        for b, j in enumerate(pos_k):
            if j <= i:
                assert math.isclose(actual[0, a, b].item(), share(i, j, 0.3, 6.0), abs_tol=1e-5)


# What must hold


def test_defaults_are_the_authors():
    bias = posenc.make("fire", num_heads=3).bias
    assert bias.c.item() == pytest.approx(0.1) and bias.threshold.item() == 512
    assert bias.widen.weight.shape == (32, 1) and bias.narrow.weight.shape == (3, 32)


def test_an_optimizer_moves_the_threshold_by_a_share_of_itself():
    """As the authors' multiplier does. A step of 1% of a number of tokens would leave it where it was."""
    for threshold in (4.0, 4000.0):
        encoding = made(threshold=threshold)
        optimizer = torch.optim.Adam(encoding.parameters(), lr=0.01)
        at = posenc.At(torch.tensor([[3]]), torch.tensor([[1]]), None)
        encoding.bias.share(at, torch.float64).sum().backward()
        optimizer.step()
        assert encoding.bias.threshold.item() == pytest.approx(1.01 * threshold, rel=1e-3)
