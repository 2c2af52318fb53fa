"""FIRE against Li et al. 2024 (arXiv 2310.04418), section 3, in loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import attend, close, dot, inputs, network
from torch.utils._python_dispatch import TorchDispatchMode

import posenc

quick = settings(max_examples=20, derandomize=True, deadline=None)


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


@quick
@given(i=st.integers(0, 10**6), back=st.floats(0, 1), threshold=st.floats(0.01, 1000), c=st.floats(-5, 5, width=32))
def test_the_input_of_the_network_stays_between_0_and_1(i, back, threshold, c):
    encoding = made(threshold=threshold, c=c)
    x = encoding.bias.share(place([i], [i - int(back * i)]), torch.float64).item()
    assert 0 <= x <= 1


def test_at_the_query_the_share_is_0_and_beyond_the_threshold_it_is_1_at_the_start():
    encoding = made(threshold=8.0)
    at = torch.arange(50)
    x = encoding.bias.share(posenc.At(at[None], at[None], None), torch.float64)[0]
    assert (x.diagonal() == 0).all()
    assert (x[:8, 0] < 0.999).all()
    close(x[8:, 0], torch.ones(42, dtype=torch.float64), 1e-5)


@quick
@given(shift=st.integers(1, 20), length=st.integers(2, 8))
def test_relative_up_to_the_threshold_and_not_beyond(shift, length):
    q, k, v = inputs(queries=length)
    at = torch.arange(length)
    near, far = made(threshold=30.0), made(threshold=1.0)
    still, moved = (posenc.attention(q, k, v, near, pos_q=at + s) for s in (0, shift))
    close(moved, still)
    still, moved = (far.bias.share(posenc.At((at + s)[None], (at + s)[None], None), torch.float64) for s in (0, shift))
    assert (still - moved)[0, 1:, 0].min() > 1e-4, "the same distance is a smaller share of a longer past"


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


class Sizes(TorchDispatchMode):
    """How many numbers each new tensor of a forward pass has; views and what is written in place are not new."""

    def __init__(self):
        super().__init__()
        self.met, self.sizes = [], []  # `met` keeps the tensors, so that no address is used twice

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        held = {t.untyped_storage().data_ptr() for t in self.met}
        if isinstance(out, torch.Tensor) and out.untyped_storage().data_ptr() not in held:
            self.met.append(out)
            self.sizes.append(out.numel())
        return out


def test_the_hidden_layer_is_held_once():
    """It is [Tq, Tk, hidden], far more than all the rest: a second copy of it would double what FIRE takes."""
    length, hidden = 24, 8
    encoding = made(hidden=hidden)
    q, _, _ = inputs(queries=length)
    at = posenc.At(torch.arange(length)[None], torch.arange(length)[None], None)
    with Sizes() as found:
        encoding.bias(q, q, at)
    assert found.sizes.count(length * length * hidden) == 1
