"""CoPE: the paper's equations in plain loops, and x-transformers' own."""

import math

import pytest
import torch
from loops import attend, dot, sigmoid
from x_transformers.x_transformers import CoPE

from posenc import attention, cope


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def encoding(head_dim=8, num_positions=6, num_heads=None, seed=3):
    made = cope.cope(head_dim, num_positions, num_heads=num_heads).double()
    made.bias.table.data = random(*made.bias.table.shape, seed=seed)
    return made


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


def test_a_hidden_key_moves_no_position():
    q, k, v = random(1, 2, 6, 8), random(1, 2, 6, 8, seed=1), random(1, 2, 6, 8, seed=2)
    made, mask = encoding(num_positions=9), torch.ones(6, 6, dtype=torch.bool)
    mask[:, 2] = False
    kept = torch.tensor([0, 1, 3, 4, 5])
    out = attention(q, k, v, made, mask=mask)
    torch.testing.assert_close(out[:, :, kept], attention(q[:, :, kept], k[:, :, kept], v[:, :, kept], made))
    k[:, :, 2] += 5
    assert torch.equal(out, attention(q, k, v, made, mask=mask))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_positions_are_counted_in_float32(dtype):
    """4,096 gates of a half are 2,048 positions, which neither half precision counts to."""
    p = cope.positions(torch.zeros(1, 4096, dtype=dtype), torch.ones(1, 4096).bool())
    assert p.dtype == torch.float32 and torch.equal(p[0], torch.arange(4096, 0, -1) / 2)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(cope.positions(torch.zeros(1, 4096, dtype=dtype), torch.ones(1, 4096).bool()), p)


BAD = {
    "one position": (lambda: cope.cope(8, 1), ValueError, ["num_positions=1", "2"]),
    "both ways": (lambda: attention(*[random(1, 2, 3, 8)] * 3, encoding(), causal=False), ValueError, ["causal=False"]),
    "lookup in another width": (
        lambda: cope.lookup(random(3, 8), random(4, 6), random(3, 3)),
        ValueError,
        ["table", "6", "8"],
    ),
    "logits in one row": (lambda: cope.positions(random(3), torch.ones(3).bool()), ValueError, ["logits", "[3]"]),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_named(case):
    call, error, words = BAD[case]
    with pytest.raises(error) as caught:
        call()
    assert all(word in str(caught.value) for word in words), str(caught.value)
