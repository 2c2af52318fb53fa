"""FIRE against Li et al. 2024 (arXiv 2310.04418), section 3, in loops."""

import math

import pytest
import torch
from cases import equals_loops
from loops import dot, inputs, network

import posenc


def made(heads=2, threshold=4.0, c=0.1):
    """An encoding in float64 with this L and c."""
    torch.manual_seed(0)
    encoding = posenc.make("fire", num_heads=heads, threshold=threshold, hidden=5).double()
    assert encoding.bias.c.item() == pytest.approx(0.1), "as the authors start it"
    encoding.bias.c.data.fill_(c)
    return encoding


@pytest.mark.parametrize(
    "threshold, c, queries, keys", [(4.0, 0.1, 7, 7), (100.0, 2.0, 2, 9), (0.5, 1.0, 1, 1)], ids=str
)
def test_equals_the_construction(queries, keys, threshold, c):
    """f of psi(i - j) / psi(max(L, i)), psi(x) = log(c x + 1)."""
    encoding = made(3, threshold, c)

    def logit(h, i, j, q_i, k_j):
        share = math.log(c * (i - j) + 1) / math.log(c * max(threshold, i) + 1)
        return dot(q_i, k_j) / math.sqrt(len(q_i)) + network(encoding.bias, h, share)

    tolerance = 1e-5  # what the 1e-6 in the denominator, for L near 0, moves
    equals_loops(encoding, inputs(heads=3, queries=queries, keys=keys), logit, tolerance=tolerance)


def test_an_optimizer_moves_the_threshold_by_a_share_of_itself():
    """As the authors' multiplier does. A step of 1% of a number of tokens would leave it where it was."""
    for threshold in (4.0, 4000.0):
        encoding = made(threshold=threshold)
        optimizer = torch.optim.Adam(encoding.parameters(), lr=0.01)
        at = posenc.At(torch.tensor([[3]]), torch.tensor([[1]]), None)
        encoding.bias.share(at, torch.float64).sum().backward()
        optimizer.step()
        assert encoding.bias.threshold.item() == pytest.approx(1.01 * threshold, rel=1e-3)
