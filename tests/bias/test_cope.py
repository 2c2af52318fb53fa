"""CoPE: the paper's equations in plain loops, what the gates must do, and x-transformers' own."""

import math

import pytest
import torch
from loops import attend, dot
from x_transformers.x_transformers import CoPE

import posenc
from posenc import attention, cope


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def encoding(head_dim=8, num_positions=6, num_heads=None, seed=3):
    made = cope.cope(head_dim, num_positions, num_heads=num_heads).double()
    made.bias.table.data = random(*made.bias.table.shape, seed=seed)
    return made


def sigmoid(x):
    return 1 / (1 + math.exp(-x))


def interpolated(table, p):
    """e[p] for a real p: between the two rows beside it, clamped to the last."""
    p = min(p, len(table) - 1)
    low = math.floor(p)
    high = min(low + 1, len(table) - 1)
    return [(1 - (p - low)) * a + (p - low) * b for a, b in zip(table[low], table[high])]


def paper(q, k, table, scale, hidden=()):
    """(h, i, j, q_i, k_j) -> logit by equations 3 to 5, with e interpolated (the raw form); for one sequence."""

    def logit(h, i, j, q_i, k_j):
        gates = [sigmoid(scale * dot(q_i, k[0, h, n].tolist())) for n in range(i + 1)]
        p = sum(gates[n] for n in range(j, i + 1) if n not in hidden)
        rows = table[h].tolist() if table.ndim == 3 else table.tolist()
        return scale * dot(q_i, k_j) + dot(q_i, interpolated(rows, p))

    return logit


@pytest.mark.parametrize("num_heads", [None, 2], ids=["shared table", "a table a head"])
@pytest.mark.parametrize("scale", [1 / math.sqrt(8), 1.0], ids=["the listing", "the equation"])
@pytest.mark.parametrize("queries, keys", [(7, 7), (3, 7), (7, 3), (1, 1)], ids=str)
def test_equals_the_papers_equations_in_loops(num_heads, scale, queries, keys):
    q, k, v = random(1, 2, queries, 8), random(1, 2, keys, 8, seed=1), random(1, 2, keys, 5, seed=2)
    made = encoding(num_heads=num_heads)
    expected, weights = attend(q, k, v, paper(q, k, made.bias.table, scale))
    out, mine = attention(q, k, v, made, scale=scale, return_weights=True)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(mine, weights, rtol=0, atol=1e-12)


def test_equals_x_transformers():
    q, k = random(2, 4, 9, 8).float().requires_grad_(), random(2, 4, 9, 8, seed=1).float().requires_grad_()
    past = torch.ones(9, 9, dtype=torch.bool).tril()
    theirs, table = CoPE(8, 4, 6), random(6, 8, seed=2).float().requires_grad_()
    theirs.pos_emb.data = table.detach().clone()
    logits = q @ k.transpose(-1, -2) / math.sqrt(8)
    expected = theirs(q, logits.masked_fill(~past, -1e30))
    mine = cope.lookup(q, table, cope.positions(logits, past))
    torch.testing.assert_close(mine[..., past], expected[..., past])
    direction = random(2, 4, 9, 9, seed=5).float() * past
    wanted = torch.autograd.grad(expected, (q, k, theirs.pos_emb), direction, retain_graph=True)
    for got, want in zip(torch.autograd.grad(mine, (q, k, table), direction), wanted):
        torch.testing.assert_close(got, want)


def test_all_gates_open_count_the_tokens():
    p = cope.positions(torch.full((5, 5), 40.0, dtype=torch.float64), torch.ones(5, 5).bool().tril())
    i, j = torch.arange(5)[:, None], torch.arange(5)[None]
    assert torch.equal(p, (i - j + 1).clamp(min=0).double())


def test_a_table_of_zeros_is_nope():
    q, k, v = random(2, 4, 6, 8), random(2, 2, 6, 8, seed=1), random(2, 2, 6, 8, seed=2)
    assert torch.equal(attention(q, k, v, cope.cope(8).double()), attention(q, k, v, impl="torch"))


def test_the_raw_form_and_the_cheap_form_are_equal():
    q, table, p = random(3, 4, 8), random(6, 8, seed=1), random(3, 4, 7, seed=2).abs() * 4
    low = p.clamp(max=5).floor()
    share = (p.clamp(max=5) - low)[..., None]
    rows = (1 - share) * table[low.long()] + share * table[(low + 1).clamp(max=5).long()]  # e[p], [3, 4, 7, D]
    torch.testing.assert_close(cope.lookup(q, table, p), torch.einsum("bid,bijd->bij", q, rows))


def test_a_hidden_key_moves_no_position():
    q, k, v = random(1, 2, 6, 8), random(1, 2, 6, 8, seed=1), random(1, 2, 6, 8, seed=2)
    made, mask = encoding(num_positions=9), torch.ones(6, 6, dtype=torch.bool)
    mask[:, 2] = False
    kept = torch.tensor([0, 1, 3, 4, 5])
    out = attention(q, k, v, made, mask=mask)
    torch.testing.assert_close(out[:, :, kept], attention(q[:, :, kept], k[:, :, kept], v[:, :, kept], made))
    k[:, :, 2] += 5
    assert torch.equal(out, attention(q, k, v, made, mask=mask))


def test_a_clamped_position_sends_no_gradient_to_its_gates():
    logits = torch.full((1, 8), 3.0, dtype=torch.float64, requires_grad=True)
    p = cope.positions(logits, torch.ones(1, 8).bool())
    z = cope.lookup(random(1, 4), random(4, 4, seed=1), p)
    far = (p > 3).squeeze(0)  # more than the last of four positions
    assert far.any() and not far.all()
    (gradient,) = torch.autograd.grad(z[0, far].sum(), logits, retain_graph=True)
    assert (gradient == 0).all()
    (gradient,) = torch.autograd.grad(z[0, ~far].sum(), logits)
    assert (gradient != 0).any()


def test_gradients():
    q, k, v = (random(1, 2, 4, 4, seed=seed).requires_grad_() for seed in range(3))
    made = encoding(head_dim=4, num_positions=5)
    assert torch.autograd.gradcheck(lambda *x: attention(*x, made), (q, k, v))
    table = random(5, 4, seed=4).requires_grad_()
    past = torch.ones(4, 4).bool().tril()
    z = lambda q, k, e: cope.lookup(q, e, cope.positions(q @ k.transpose(-1, -2), past))  # noqa: E731
    assert torch.autograd.gradcheck(z, (q, k, table))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_positions_are_counted_in_float32(dtype):
    """4,096 gates of a half are 2,048 positions, which neither half precision counts to."""
    p = cope.positions(torch.zeros(1, 4096, dtype=dtype), torch.ones(1, 4096).bool())
    assert p.dtype == torch.float32 and torch.equal(p[0], torch.arange(4096, 0, -1) / 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(cope.positions(torch.zeros(1, 4096, dtype=dtype), torch.ones(1, 4096).bool()), p)


def test_with_another_place():
    """Counted are the gates of the turned queries and keys: what `bias` sees."""
    q, k, v = random(1, 2, 6, 8), random(1, 2, 6, 8, seed=1), random(1, 2, 6, 8, seed=2)
    rope, made, at = posenc.make("rope", head_dim=8), encoding(), torch.arange(6)[None]
    turned = rope.rotate(q, k, posenc.At(at, at, None))
    both = attention(q, k, v, posenc.compose(rope, made))
    torch.testing.assert_close(both, attention(*turned, v, made), rtol=0, atol=1e-12)


BAD = {
    "one position": (lambda: cope.cope(8, 1), ValueError, ["num_positions=1", "2"]),
    "no lanes": (lambda: cope.cope(0), ValueError, ["head_dim=0"]),
    "half a head": (lambda: cope.cope(8, num_heads=1.5), TypeError, ["num_heads=1.5", "int"]),
    "another head size": (lambda: attention(*[random(1, 2, 3, 4)] * 3, encoding()), ValueError, ["head_dim=8", "4"]),
    "another number of heads": (
        lambda: attention(*[random(1, 3, 3, 8)] * 3, encoding(num_heads=2)),
        ValueError,
        ["num_heads=2", "3"],
    ),
    "both ways": (lambda: attention(*[random(1, 2, 3, 8)] * 3, encoding(), causal=False), ValueError, ["causal=False"]),
    "gates given": (
        lambda: attention(*[random(1, 2, 3, 8)] * 3, encoding(), gates=-random(1, 2, 3).abs()),
        ValueError,
        ["gates"],
    ),
    "lookup in another width": (
        lambda: cope.lookup(random(3, 8), random(4, 6), random(3, 3)),
        ValueError,
        ["table", "6", "8"],
    ),
    "lookup at other queries": (
        lambda: cope.lookup(random(3, 8), random(4, 8), random(2, 3)),
        ValueError,
        ["p", "[2, 3]"],
    ),
    "logits in one row": (lambda: cope.positions(random(3), torch.ones(3).bool()), ValueError, ["logits", "[3]"]),
    "what is visible in numbers": (lambda: cope.positions(random(3, 3), torch.ones(3, 3)), TypeError, ["visible"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    call, error, words = BAD[case]
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), str(caught.value)
