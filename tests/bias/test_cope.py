"""CoPE: the paper's equations in plain loops, and x-transformers' own."""

import math

import pytest
import torch
from cases import equals_loops
from loops import dot, gradients_agree, normal, sigmoid
from x_transformers.x_transformers import CoPE

from posenc import attention, cope


def encoding(head_dim=8, num_positions=6, num_heads=None):
    made = cope.cope(head_dim, num_positions, num_heads=num_heads).double()
    made.bias.table.data = normal(*made.bias.table.shape, seed=3)
    return made


def interpolated(table, p):
    """e[p] for a real p: between the two rows beside it, clamped to the last."""
    p = min(p, len(table) - 1)
    low = math.floor(p)
    high = min(low + 1, len(table) - 1)
    return [(1 - (p - low)) * a + (p - low) * b for a, b in zip(table[low], table[high])]


@pytest.mark.parametrize("num_heads", [None, 2], ids=["shared table", "a table a head"])
@pytest.mark.parametrize("scale", [1 / math.sqrt(8), 1.0], ids=["the listing", "the equation"])
@pytest.mark.parametrize("queries, keys", [(7, 7), (3, 7), (7, 3), (1, 1)], ids=str)
def test_equals_the_papers_equations_in_loops(num_heads, scale, queries, keys):
    """Equations 3 to 5, with e interpolated (the raw form)."""
    q, k, v = normal(1, 2, queries, 8), normal(1, 2, keys, 8, seed=1), normal(1, 2, keys, 5, seed=2)
    made = encoding(num_heads=num_heads)
    table = made.bias.table

    def logit(h, i, j, q_i, k_j):
        p = sum(sigmoid(scale * dot(q_i, k[0, h, n].tolist())) for n in range(j, i + 1))
        rows = table[h].tolist() if table.ndim == 3 else table.tolist()
        return scale * dot(q_i, k_j) + dot(q_i, interpolated(rows, p))

    equals_loops(made, (q, k, v), logit, scale=scale)


def test_equals_x_transformers():
    q, k = (normal(2, 4, 9, 8, seed=s).float().requires_grad_() for s in range(2))
    past = torch.ones(9, 9, dtype=torch.bool).tril()
    theirs, table = CoPE(8, 4, 6), normal(6, 8, seed=2).float().requires_grad_()
    theirs.pos_emb.data = table.detach().clone()
    logits = q @ k.transpose(-1, -2) / math.sqrt(8)
    expected = theirs(q, logits.masked_fill(~past, -1e30))
    mine = cope.lookup(q, table, cope.positions(logits, past))
    both = (x.masked_fill(~past, 0.0) for x in (mine, expected))
    gradients_agree(*both, (q, k, table), (q, k, theirs.pos_emb))


def test_a_hidden_key_moves_no_position():
    q, k, v = (normal(1, 2, 6, 8, seed=s) for s in range(3))
    made, mask = encoding(num_positions=9), torch.ones(6, 6, dtype=torch.bool)
    mask[:, 2] = False
    kept = torch.tensor([0, 1, 3, 4, 5])
    out = attention(q, k, v, made, mask=mask)
    torch.testing.assert_close(out[:, :, kept], attention(q[:, :, kept], k[:, :, kept], v[:, :, kept], made))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_positions_are_counted_in_float32(dtype):
    """4,096 gates of a half are 2,048 positions, which neither half precision counts to."""
    for autocast in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=autocast):
            p = cope.positions(torch.zeros(1, 4096, dtype=dtype), torch.ones(1, 4096).bool())
        assert p.dtype == torch.float32 and torch.equal(p[0], torch.arange(4096, 0, -1) / 2)
