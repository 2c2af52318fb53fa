"""ExpoSB: its switches, its learned rates, and the hazards of its name; test_properties has its formulas in loops."""

import math

import pytest
import torch
from cases import equals_loops
from loops import close, dot, inputs

import posenc
from posenc.several.exposb import exposb, fade, gain, hazard

OFF = dict.fromkeys(("gain", "band", "decay"), False)


def test_all_off_is_rope_bit_for_bit():
    off = exposb(8, 2, **OFF)
    assert off.places == ("rotate",) and not list(off.parameters())
    for dtype in (torch.float64, torch.float32, torch.float16, torch.bfloat16):
        q, k, v = inputs(queries=9, dim=8, dtype=dtype)
        ours = posenc.attention(q, k, v, off, impl="torch")
        assert torch.equal(ours, posenc.attention(q, k, v, posenc.make("rope", head_dim=8), impl="torch"))


def test_a_rate_that_training_took_below_zero_still_decays():
    """Without this a step of Adam across 0 makes the gain grow with the position, without bound."""
    q, k, v = inputs(queries=6)
    outputs = []
    for sign in (1, -1):
        encoding = exposb(4, 2, band=False, decay=False).double()
        encoding.rotate.decay_rates.data = sign * torch.tensor([0.001, 0.02], dtype=torch.float64)
        outputs.append(posenc.attention(q, k, v, encoding, pos_q=torch.arange(6) * 1000))
    close(*outputs)
    assert outputs[0].isfinite().all()


def test_parameters_are_those_of_the_switches():
    for switches, count in ((OFF, 0), (OFF | {"gain": True}, 6), (OFF | {"band": True}, 6), ({}, 12)):
        assert sum(p.numel() for p in exposb(64, 6, **switches).parameters()) == count


def walk(row, rate):
    """Walk back from the last key: stop at a key with probability 1 - e^-(softplus(z) + rate)."""
    pieces, alive = [0.0] * len(row), 1.0
    for j in reversed(range(len(row))):
        if row[j] is not None:
            stay = math.exp(-rate) / (1 + math.exp(row[j]))
            pieces[j], alive = alive * (1 - stay), alive * stay
    return pieces


@pytest.mark.parametrize("rate", [0.0, 0.01, 2.0])
def test_attention_with_hazards_equals_the_walk(rate):
    encoding = posenc.Encoding(weigh=lambda scores, at: hazard(scores, at.visible, rate))

    def logit(h, i, j, q_i, k_j):
        return dot(q_i, k_j) / 2

    equals_loops(encoding, inputs(queries=6), logit, lambda row: walk(row, rate))


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
@pytest.mark.parametrize("rate", [0.0, 1e-30, 0.1, 100.0])
def test_extreme_logits_stay_finite_with_their_gradients(dtype, rate):
    z = torch.tensor([[1e4, -1e4, 80.0, -80.0, 0.0], [-1e4] * 5, [1e4] * 5], dtype=dtype, requires_grad=True)
    weights = hazard(z, torch.ones_like(z, dtype=torch.bool), rate)
    assert weights.isfinite().all() and (weights >= 0).all() and (weights.sum(-1) <= 1 + 1e-6).all()
    assert weights[2, -1] == 1 and (weights[2, :-1] == 0).all()
    (grad,) = torch.autograd.grad(weights.square().sum(), z)
    assert grad.isfinite().all()


def test_a_rate_for_each_head():
    at, rates = torch.arange(5.0), torch.tensor([0.1, 1.0])
    assert gain(at, rates[:, None]).shape == (2, 5) and fade(at, rates[:, None]).shape == (2, 5)
    assert gain(at, rates[:, None])[1].tolist() == gain(at, 1.0).tolist()
