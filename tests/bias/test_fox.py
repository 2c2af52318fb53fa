"""FoX: the paper's equations in plain loops, and flash-linear-attention's own."""

import math

import pytest
import torch
from cases import equals_loops
from loops import attend, dot, gradients_agree, normal

from posenc import attention, fox


def log_gates(*shape):
    return torch.nn.functional.logsigmoid(normal(*shape, seed=7) + 1)


def paper(gates):
    """(h, i, j, q_i, k_j) -> logit by equation 5: the sum of log f over l = j+1 .. i; for one sequence."""

    def logit(h, i, j, q_i, k_j):
        return dot(q_i, k_j) / math.sqrt(len(q_i)) + sum(gates[0, h, n].item() for n in range(j + 1, i + 1))

    return logit


@pytest.mark.parametrize("queries, keys", [(7, 7), (3, 7), (7, 3), (1, 1)], ids=str)
def test_equals_the_papers_equations_in_loops(queries, keys):
    tensors = normal(1, 2, queries, 8), normal(1, 2, keys, 8, seed=1), normal(1, 2, keys, 5, seed=2)
    gates = log_gates(1, 2, keys)
    equals_loops(fox.fox(), tensors, paper(gates), gates=gates)


def test_equals_flash_linear_attention():
    naive = pytest.importorskip("fla.ops.forgetting_attn.naive").naive_forgetting_attn
    q, k, v = (normal(2, h, 9, 8, seed=s).float().requires_grad_() for s, h in enumerate((4, 2, 2)))
    gates = log_gates(2, 4, 9).float().requires_grad_()
    theirs = naive(*(x.transpose(1, 2) for x in (q, k, v, gates))).transpose(1, 2)
    gradients_agree(attention(q, k, v, fox.fox(), gates=gates), theirs, (q, k, v, gates), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("impl", ["torch", "sdpa"])
def test_a_gate_of_zero_forgets_exactly(impl):
    """log f = -inf, twice in a row too: output by the equation, gradients as of a gate so small that exp is 0."""
    q, k, v = (normal(1, 2, 7, 8, seed=seed).requires_grad_() for seed in range(3))
    gates, small = log_gates(1, 2, 7), log_gates(1, 2, 7)
    gates[..., [2, 3, 5]], small[..., [2, 3, 5]] = -math.inf, -1000.0
    out = attention(q, k, v, fox.fox(), gates=gates.requires_grad_(), impl=impl)
    torch.testing.assert_close(out, attend(q, k, v, paper(gates))[0], rtol=0, atol=1e-12)
    almost = attention(q, k, v, fox.fox(), gates=small.requires_grad_())
    gradients_agree(out, almost, (q, k, v, gates), (q, k, v, small), rtol=0, atol=1e-12)
    unseen = attention(q, k, v, fox.fox(), gates=gates, impl=impl, mask=~torch.eye(7, dtype=torch.bool))
    assert (unseen[:, :, [0, 2, 3, 5]] == 0).all() and unseen.isfinite().all()  # without its own key nothing is left


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_the_sum_is_kept_in_float32(dtype):
    """Kept in half precision, the sum of 4,096 gates of log f = -5/8 would be off by whole units."""
    gates = torch.full((4096,), -0.625, dtype=dtype)
    exact = -0.625 * torch.arange(4095, -1, -1)
    for autocast in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            assert fox.decay(gates, 1).dtype == torch.float32 and torch.equal(fox.decay(gates, 1)[0], exact)


def test_far_into_a_text_near_gates_keep_their_digits():
    """c is near -160,000 at the end of 200,000 tokens, where float32 numbers lie 1/64 apart."""
    gates = log_gates(200_000).float()
    c = gates.double().cumsum(0)
    torch.testing.assert_close(fox.decay(gates, 1)[0].double(), c[-1] - c, rtol=1e-6, atol=1e-6)
