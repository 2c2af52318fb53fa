"""FoX: the paper's equations in plain loops, and flash-linear-attention's own."""

import math

import pytest
import torch
from loops import attend, dot

import posenc
from posenc import SelfAttention, attention, fox


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def log_gates(*shape, seed=7):
    return torch.nn.functional.logsigmoid(random(*shape, seed=seed) + 1)


def paper(gates):
    """(h, i, j, q_i, k_j) -> logit by equation 5: the sum of log f over l = j+1 .. i; for one sequence."""

    def logit(h, i, j, q_i, k_j):
        return dot(q_i, k_j) / math.sqrt(len(q_i)) + sum(gates[0, h, n].item() for n in range(j + 1, i + 1))

    return logit


@pytest.mark.parametrize("queries, keys", [(7, 7), (3, 7), (7, 3), (1, 1)], ids=str)
def test_equals_the_papers_equations_in_loops(queries, keys):
    q, k, v = random(1, 2, queries, 8), random(1, 2, keys, 8, seed=1), random(1, 2, keys, 5, seed=2)
    gates = log_gates(1, 2, keys)
    expected, weights = attend(q, k, v, paper(gates))
    out, mine = attention(q, k, v, fox.fox(), gates=gates, return_weights=True)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(mine, weights, rtol=0, atol=1e-12)


def test_equals_flash_linear_attention():
    naive = pytest.importorskip("fla.ops.forgetting_attn.naive").naive_forgetting_attn
    q, k, v = (random(2, h, 9, 8, seed=s).float().requires_grad_() for s, h in enumerate((4, 2, 2)))
    gates = log_gates(2, 4, 9).float().requires_grad_()
    theirs = naive(*(x.transpose(1, 2) for x in (q, k, v, gates))).transpose(1, 2)
    mine = attention(q, k, v, fox.fox(), gates=gates)
    torch.testing.assert_close(mine, theirs)
    direction = random(*mine.shape, seed=9).float()
    expected = torch.autograd.grad(theirs, (q, k, v, gates), direction)
    for got, want in zip(torch.autograd.grad(mine, (q, k, v, gates), direction), expected):
        torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("impl", ["torch", "sdpa"])
def test_a_gate_of_zero_forgets_exactly(impl):
    """log f = -inf, twice in a row too: output by the equation, gradients as of a gate so small that exp is 0."""
    q, k, v = (random(1, 2, 7, 8, seed=seed).requires_grad_() for seed in range(3))
    gates, small = log_gates(1, 2, 7), log_gates(1, 2, 7)
    gates[..., [2, 3, 5]], small[..., [2, 3, 5]] = -math.inf, -1000.0
    out = attention(q, k, v, fox.fox(), gates=gates.requires_grad_(), impl=impl)
    torch.testing.assert_close(out, attend(q, k, v, paper(gates))[0], rtol=0, atol=1e-12)
    almost = attention(q, k, v, fox.fox(), gates=small.requires_grad_())
    mine = torch.autograd.grad(out.sin().sum(), (q, k, v, gates))
    for got, want in zip(mine, torch.autograd.grad(almost.sin().sum(), (q, k, v, small))):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
    unseen = attention(q, k, v, fox.fox(), gates=gates, impl=impl, mask=~torch.eye(7, dtype=torch.bool))
    assert (unseen[:, :, [0, 2, 3, 5]] == 0).all() and unseen.isfinite().all()  # without its own key nothing is left


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_the_sum_is_kept_in_float32(dtype):
    """Kept in half precision, the sum of 4,096 gates of log f = -5/8 would be off by whole units."""
    gates = torch.full((4096,), -0.625, dtype=dtype)
    exact = -0.625 * torch.arange(4095, -1, -1)
    assert fox.decay(gates, 1).dtype == torch.float32 and torch.equal(fox.decay(gates, 1)[0], exact)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(fox.decay(gates, 1)[0], exact)
    assert (exact.to(dtype) - exact).abs().max() >= 1


def test_far_into_a_text_near_gates_keep_their_digits():
    """c is near -160,000 at the end of 200,000 tokens, where float32 numbers lie 1/64 apart."""
    gates = log_gates(200_000).float()
    c = gates.double().cumsum(0)
    torch.testing.assert_close(fox.decay(gates, 1)[0].double(), c[-1] - c, rtol=1e-6, atol=1e-6)


def test_the_block_makes_its_gates_and_the_cache_keeps_them():
    torch.manual_seed(0)
    block, x, cache = SelfAttention(16, 4, fox.fox(), num_kv_heads=2).double(), random(2, 7, 16), posenc.KVCache()
    block(x, cache=cache)
    wanted = torch.nn.functional.logsigmoid(x @ block.to_gates.weight.T + block.to_gates.bias).transpose(1, 2)
    torch.testing.assert_close(cache.gates, wanted)
    assert (block.to_gates.bias == 0).all()


def test_padding_closes_no_gate():
    """Prompts of different lengths, padded on the right, then decoded together: what is padded is not forgotten by."""
    torch.manual_seed(0)
    block, x, more = SelfAttention(16, 4, fox.fox()).double(), random(1, 5, 16), random(1, 2, 16, seed=1)
    padded = torch.cat((x[:, :3], random(1, 2, 16, seed=2) * 9, more), dim=1)
    valid = torch.tensor([[True, True, True, False, False, True, True]])
    positions = torch.tensor([[0, 1, 2, 0, 0, 3, 4]])
    alone = block(torch.cat((x[:, :3], more), dim=1))
    torch.testing.assert_close(block(padded, positions=positions, valid=valid)[:, 5:], alone[:, 3:])


def call(gates, **options):
    q = random(1, 2, 3, 4)
    return attention(q, q, q, fox.fox(), gates=gates, **options)


BAD = {
    "no gates": (lambda: call(None), ValueError, ["gates=None", "[1, 2, 3]"]),
    "gates that open": (lambda: call(-log_gates(1, 2, 3)), ValueError, ["gates", "at most 0"]),
    "gates that are no numbers": (lambda: call(log_gates(1, 2, 3) * math.nan), ValueError, ["gates", "nan"]),
    "both ways": (lambda: call(log_gates(1, 2, 3), causal=False), ValueError, ["causal=False"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    call, error, words = BAD[case]
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), str(caught.value)
