"""KERPLE against Chi et al. 2022 (arXiv 2205.09921), section 4, in loops."""

import math

import pytest
import torch
from cases import equals_loops
from loops import close, dot, inputs

import posenc

FORMS = ("log", "power")


def made(form, r1=(0.7, 0.2), r2=(0.5, 1.3)):
    """An encoding in float64 with these r1 and r2."""
    encoding = posenc.make("kerple", num_heads=len(r1), form=form).double()
    encoding.bias.log_r1.data = torch.tensor(r1, dtype=torch.float64).log()
    encoding.bias.log_r2.data = torch.tensor(r2, dtype=torch.float64).log()
    return encoding


def added(encoding, positions):
    """The bias between all pairs of positions, [H, T, T]."""
    at = torch.as_tensor(positions)[None]
    q = torch.zeros(1, len(encoding.bias.log_r1), 1, 2, dtype=torch.float64)
    return encoding.bias(q, q, posenc.At(at, at, None))[0]


@pytest.mark.parametrize("queries, keys, causal", [(6, 6, False), (2, 7, True)], ids=str)
@pytest.mark.parametrize("form", FORMS)
def test_equals_the_construction(form, queries, keys, causal):
    r1, r2 = (0.7, 0.2, 1.9), (0.5, 1.3, 2.0)

    def logit(h, i, j, q_i, k_j):
        far = math.log(1 + r2[h] * abs(i - j)) if form == "log" else abs(i - j) ** r2[h]
        return dot(q_i, k_j) / math.sqrt(len(q_i)) - r1[h] * far

    equals_loops(made(form, r1, r2), inputs(heads=3, queries=queries, keys=keys), logit, causal=causal)


def test_power_of_a_tiny_distance_is_its_power():
    found = added(made("power", [1.0], [0.05]), [0.0, 1e-30, 1e-9])[0]
    close(found[0], torch.tensor([0.0, -(1e-30**0.05), -(1e-9**0.05)], dtype=torch.float64), 1e-8)


def test_where_training_starts():
    kernel = posenc.make("kerple", num_heads=4).bias
    assert kernel.log_r1.tolist() == [0.0, -1.0, -2.0, -3.0]
    assert kernel.log_r2.tolist() == pytest.approx([-0.7] * 4)


def test_power_is_capped_where_the_kernel_ends():
    """Beyond exponent 2 the power of distance is no conditionally positive definite kernel."""
    close(added(made("power", [0.3], [3.0]), range(9)), added(made("power", [0.3], [2.0]), range(9)))


@pytest.mark.parametrize("form", FORMS)
def test_distance_zero_keeps_gradients_finite(form):
    """The power of 0 has no logarithm: its gradient must be 0, not NaN."""
    encoding = made(form)
    added(encoding, [4, 4, 4]).sum().backward()
    assert all((parameter.grad == 0).all() for parameter in encoding.parameters())
