"""FoX: the paper's equations in plain loops, its special cases, and flash-linear-attention's own."""

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


def test_a_constant_gate_is_alibi():
    """A gate of e^-m a head, all along: the decay is -m (i - j), ALiBi's penalty; outputs and gradients."""
    alibi = posenc.make("alibi", num_heads=4)
    q, k, v = (random(2, 4, 9, 8, seed=s).requires_grad_() for s in range(3))
    gates = -alibi.bias.slopes.double()[None, :, None].expand(2, 4, 9)
    one, other = attention(q, k, v, fox.fox(), gates=gates), attention(q, k, v, alibi)
    torch.testing.assert_close(one, other, rtol=0, atol=1e-12)
    direction = random(*one.shape, seed=9)
    for got, want in zip(*(torch.autograd.grad(out, (q, k, v), direction) for out in (one, other))):
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12)


def test_open_gates_are_nope():
    q, k, v = random(2, 4, 6, 8), random(2, 2, 6, 8, seed=1), random(2, 2, 6, 8, seed=2)
    out = attention(q, k, v, fox.fox(), gates=torch.zeros(2, 4, 6, dtype=torch.float64), impl="torch")
    assert torch.equal(out, attention(q, k, v, impl="torch"))


def test_a_shut_gate_forgets_all_that_was_before():
    q, k, v, gates = random(1, 2, 6, 8), random(1, 2, 6, 8, seed=1), random(1, 2, 6, 8, seed=2), log_gates(1, 2, 6)
    gates[:, :, 3] = -1000.0
    after = attention(q[:, :, 3:], k[:, :, 3:], v[:, :, 3:], fox.fox(), gates=gates[:, :, 3:])
    torch.testing.assert_close(attention(q, k, v, fox.fox(), gates=gates)[:, :, 3:], after)


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


def test_the_first_gate_gets_no_gradient():
    """It would close on what is before the first token; the last gate, and all between, get one."""
    gates = log_gates(1, 2, 5).requires_grad_()
    out = attention(random(1, 2, 5, 4), random(1, 2, 5, 4, seed=1), random(1, 2, 5, 4, seed=2), fox.fox(), gates=gates)
    (gradient,) = torch.autograd.grad(out.square().sum(), gates)
    assert (gradient[..., 0].abs() < 1e-15).all() and (gradient[..., 1:].abs() > 1e-6).all()


def test_gradients():
    q, k, v = (random(1, 2, 4, 4, seed=seed).requires_grad_() for seed in range(3))
    gates = log_gates(1, 2, 4).requires_grad_()
    assert torch.autograd.gradcheck(lambda q, k, v, g: attention(q, k, v, fox.fox(), gates=g), (q, k, v, gates))


def test_packed_rows_restart():
    """What one sequence closes is nothing to the next: only the gates between two tokens count."""
    q, k, v, gates = random(1, 2, 7, 8), random(1, 2, 7, 8, seed=1), random(1, 2, 7, 8, seed=2), log_gates(1, 2, 7)
    segment = torch.tensor([[0, 0, 0, 1, 1, 1, 1]])
    mask = segment[:, None, :, None] == segment[:, None, None, :]
    packed = attention(q, k, v, fox.fox(), gates=gates, mask=mask)
    for part in (slice(0, 3), slice(3, 7)):
        alone = attention(q[:, :, part], k[:, :, part], v[:, :, part], fox.fox(), gates=gates[:, :, part])
        torch.testing.assert_close(packed[:, :, part], alone, rtol=0, atol=1e-12)


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


@pytest.mark.parametrize("chunks", [[1] * 7, [3, 1, 3], [6, 1]], ids=str)
def test_the_block_makes_its_gates_and_the_cache_keeps_them(chunks):
    torch.manual_seed(0)
    block, x, cache = SelfAttention(16, 4, fox.fox(), num_kv_heads=2).double(), random(2, 7, 16), posenc.KVCache()
    steps = [block(part, cache=cache) for part in x.split(chunks, dim=1)]
    torch.testing.assert_close(torch.cat(steps, dim=1), block(x), rtol=0, atol=1e-12)
    assert cache.gates.shape == (2, 4, 7) and (cache.gates < 0).all()
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


def call(gates, encoding=None, **options):
    q = random(1, 2, 3, 4)
    return attention(q, q, q, fox.fox() if encoding is None else encoding, gates=gates, **options)


BAD = {
    "no gates": (lambda: call(None), ValueError, ["gates=None", "[1, 2, 3]"]),
    "gates for other heads": (lambda: call(log_gates(1, 4, 3)), ValueError, ["gates", "[1, 2, 3]", "[1, 4, 3]"]),
    "gates that open": (lambda: call(-log_gates(1, 2, 3)), ValueError, ["gates", "at most 0"]),
    "gates that are no numbers": (lambda: call(log_gates(1, 2, 3) * math.nan), ValueError, ["gates", "nan"]),
    "whole numbers": (lambda: call(torch.zeros(1, 2, 3, dtype=torch.long)), TypeError, ["gates", "float"]),
    "both ways": (lambda: call(log_gates(1, 2, 3), causal=False), ValueError, ["causal=False"]),
    "gates that nothing reads": (lambda: call(log_gates(1, 2, 3), posenc.Encoding()), ValueError, ["gates", "none"]),
    "no number of queries": (lambda: fox.decay(log_gates(3), 1.5), TypeError, ["queries=1.5", "int"]),
    "a single gate": (lambda: fox.decay(log_gates(())), ValueError, ["log_forget", "[..., Tk]"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    call, error, words = BAD[case]
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), str(caught.value)
