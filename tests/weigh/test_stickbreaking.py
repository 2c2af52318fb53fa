"""Stick-breaking against Tan et al. 2025 (arXiv 2410.17980), equations 2 to 4, in loops, and against fla-core."""

import importlib.util
import math
import sys

import pytest
import torch
from cases import equals_loops
from loops import close, dot, gradients_agree, inputs, softplus, stick

import posenc
from posenc.weigh.stickbreaking import weigh


def paper(logits):
    r"""log A_j = z_j - sum_{k=j}^{last} softplus(z_k): each nearer key, and j itself, in the sum. Logits of j < i.

    The last visible key is the query's own, which takes nothing.
    """
    seen = [z for z in logits if z is not None][:-1]
    pieces = [math.exp(z - sum(softplus(row) for row in seen[j:])) for j, z in enumerate(seen)]
    return pieces + [0.0] * (len(logits) - len(seen))


def everywhere(scores):
    return torch.ones_like(scores, dtype=torch.bool)


@pytest.mark.parametrize("queries, keys", [(6, 6), (2, 7), (1, 1)], ids=str)
def test_attention_equals_the_equation(queries, keys):
    def logit(h, i, j, q_i, k_j):
        return dot(q_i, k_j) / math.sqrt(len(q_i))

    equals_loops(posenc.make("stickbreaking"), inputs(queries=queries, keys=keys), logit, paper)


def test_first_query_gets_exactly_nothing_or_its_own_value():
    q, k, v = inputs(queries=4)
    assert (posenc.attention(q, k, v, posenc.make("stickbreaking"))[:, :, 0] == 0).all()
    own = posenc.attention(q, k, v, posenc.make("stickbreaking", remainder="current"))
    assert torch.equal(own[:, :, 0], v[:, :, 0])


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_extreme_logits_stay_finite_with_their_gradients(dtype):
    scores = torch.tensor([[1e4, -1e4, 80.0, -80.0, 0.0], [-1e4] * 5, [1e4] * 5], dtype=dtype, requires_grad=True)
    for order in ("recent", "first"):
        weights, rest = weigh(scores, everywhere(scores), order, return_remainder=True)
        assert weights.isfinite().all() and rest.isfinite().all()
        close(weights[1].double(), torch.zeros(5, dtype=torch.float64))
        assert rest[1] == 1 and weights[2, -1 if order == "recent" else 0] == 1
        (grad,) = torch.autograd.grad(weights.square().sum() + rest.square().sum(), scores)
        assert grad.isfinite().all()


def test_long_rows_keep_their_precision():
    scores = torch.randn(2, 4096, generator=torch.Generator().manual_seed(0)) - 6
    single, exact = weigh(scores, everywhere(scores)), weigh(scores.double(), everywhere(scores))
    assert (single.double() - exact).abs().max() < 1e-6
    total = sum(stick(scores[0].tolist())[0])
    assert abs(exact[0].sum().item() - total) < 1e-12 and abs(single[0].double().sum().item() - total) < 1e-4


@pytest.fixture(scope="module")
def fla():
    """fla-core's naive_stickbreaking_attn, from its own file: the package around it looks for a GPU first."""
    if sys.platform != "linux":
        pytest.skip("fla-core is installed on Linux only (tests/requirements.txt)")
    package = importlib.util.find_spec("fla").submodule_search_locations[0]
    spec = importlib.util.spec_from_file_location("naive", f"{package}/ops/stickbreaking_attn/naive.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.naive_stickbreaking_attn


@pytest.mark.parametrize("attend_current", [False, True])
@pytest.mark.parametrize("queries, kv_heads", [(1, 4), (17, 4), (33, 2)], ids=str)
def test_equals_fla(fla, attend_current, queries, kv_heads):
    q, k, v = inputs(heads=4, queries=queries, dim=8)
    q, k, v = (x.requires_grad_() for x in (q, k[:, :kv_heads].clone(), v[:, :kv_heads].clone()))
    encoding = posenc.make("stickbreaking", attend_current=attend_current)
    ours, weights = posenc.attention(q, k, v, encoding, return_weights=True)
    theirs, rest = fla(*(x.transpose(1, 2) for x in (q, k, v)), attend_current=attend_current)  # theirs is [B, T, H, D]
    gradients_agree(ours, theirs.transpose(1, 2), (q, k, v), rtol=0, atol=1e-12)
    close(1 - weights.sum(-1), rest.transpose(1, 2))
