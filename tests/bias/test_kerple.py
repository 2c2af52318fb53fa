"""KERPLE against Chi et al. 2022 (arXiv 2205.09921), section 4, in loops; ALiBi, of which it holds a learned form."""

import math

import pytest
import torch
from loops import attend, close, dot, inputs

import posenc

FORMS = ("log", "power")


def made(form, r1=(0.7, 0.2), r2=(0.5, 1.3)):
    """An encoding in float64 with these r1 and r2."""
    encoding = posenc.make("kerple", num_heads=len(r1), form=form).double()
    encoding.bias.log_r1.data = torch.tensor(r1, dtype=torch.float64).log()
    encoding.bias.log_r2.data = torch.tensor(r2, dtype=torch.float64).log()
    return encoding


def kernel(form, r1, r2, distance):
    if form == "log":
        return -r1 * math.log(1 + r2 * distance)
    return -r1 * distance**r2


def penalty(form, r1, r2):
    def logit(h, i, j, q_i, k_j):
        return dot(q_i, k_j) / math.sqrt(len(q_i)) + kernel(form, r1[h], r2[h], abs(i - j))

    return logit


def added(encoding, positions):
    """The bias between all pairs of positions, [H, T, T]."""
    at = torch.as_tensor(positions)[None]
    q = torch.zeros(1, len(encoding.bias.log_r1), 1, 2, dtype=torch.float64)
    return encoding.bias(q, q, posenc.At(at, at, None))[0]


# The construction


@pytest.mark.parametrize("queries, keys, causal", [(6, 6, False), (2, 7, True)], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_equals_the_construction(form, queries, keys, causal):
    r1, r2 = (0.7, 0.2, 1.9), (0.5, 1.3, 2.0)
    q, k, v = inputs(heads=3, queries=queries, keys=keys)
    out, weights = posenc.attention(q, k, v, made(form, r1, r2), causal=causal, return_weights=True)
    expected_out, expected_weights = attend(q, k, v, penalty(form, r1, r2), causal=causal)
    close(weights, expected_weights)
    close(out, expected_out)


def test_power_of_a_tiny_distance_is_its_power():
    found = added(made("power", [1.0], [0.05]), [0.0, 1e-30, 1e-9])[0]
    close(found[0], torch.tensor([0.0, -(1e-30**0.05), -(1e-9**0.05)], dtype=torch.float64), 1e-8)


def test_power_with_exponent_one_is_alibi_of_that_slope():
    slopes = posenc.make("alibi", num_heads=4).bias.slopes.tolist()
    q, k, v = inputs(heads=4, queries=9)
    close(
        posenc.attention(q, k, v, made("power", slopes, [1.0] * 4)),
        posenc.attention(q, k, v, posenc.make("alibi", num_heads=4)),
    )


def test_where_training_starts():
    kernel = posenc.make("kerple", num_heads=4).bias
    assert kernel.log_r1.tolist() == [0.0, -1.0, -2.0, -3.0]
    assert kernel.log_r2.tolist() == pytest.approx([-0.7] * 4)


def test_power_is_capped_where_the_kernel_ends():
    """Beyond exponent 2 the power of distance is no conditionally positive definite kernel."""
    close(added(made("power", [0.3], [3.0]), range(9)), added(made("power", [0.3], [2.0]), range(9)))


# What must hold


@pytest.mark.parametrize("form", FORMS)
def test_distance_zero_keeps_gradients_finite(form):
    """The power of 0 has no logarithm: its gradient must be 0, not NaN."""
    encoding = made(form)
    added(encoding, [4, 4, 4]).sum().backward()
    assert all((parameter.grad == 0).all() for parameter in encoding.parameters())
