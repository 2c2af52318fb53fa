"""PaTH: the reflections one by one, and flash-linear-attention's own."""

import math

import pytest
import torch
from cases import equals_loops
from loops import dot, gradients_agree, normal

from posenc import alibi, attention, compose, path


def gates(*shape, dim, seed=5):
    return path.reflections(normal(*shape, dim + 1, seed=seed))


@pytest.mark.parametrize("queries, keys", [(7, 7), (3, 7), (7, 3), (1, 1)], ids=str)
def test_equals_the_paper_with_every_reflection_as_a_matrix(queries, keys):
    """Equation 3."""
    tensors = normal(1, 2, queries, 8), normal(1, 2, keys, 8, seed=1), normal(1, 2, keys, 5, seed=2)
    given = gates(1, 2, keys, dim=8)

    def logit(h, i, j, q_i, k_j):
        x = torch.tensor(k_j, dtype=torch.float64)
        for t in range(j + 1, i + 1):
            w, beta = given[0, h, t, :-1], given[0, h, t, -1]
            x = (torch.eye(len(w), dtype=torch.float64) - beta * torch.outer(w, w)) @ x
        return dot(q_i, x.tolist()) / math.sqrt(len(q_i))

    equals_loops(path.path(8), tensors, logit, gates=given)
    beside = compose(path.path(8), alibi.alibi(2))  # 2^-4 and 2^-8 a token
    equals_loops(beside, tensors, lambda h, i, j, *x: logit(h, i, j, *x) - 16.0 ** -(h + 1) * (i - j), gates=given)


def test_equals_flash_linear_attention():
    naive = pytest.importorskip("fla.ops.path_attn.naive").naive_path_attn
    q, k, v = (normal(2, h, 9, 8, seed=s).float().requires_grad_() for s, h in enumerate((4, 2, 2)))
    given = gates(2, 2, 9, dim=8).float()
    w, beta = given[..., :-1].clone().requires_grad_(), given[..., -1].clone().requires_grad_()
    parts = [x.transpose(1, 2) for x in (q, k, v, w, beta)]
    theirs = naive(*parts, torch.zeros(2, 9, 4), scale=8**-0.5, chunk_size=4).transpose(1, 2)
    own = torch.cat((w, beta[..., None]), -1).repeat_interleave(2, dim=1)
    mine = attention(q, k, v, path.path(8), gates=own)
    gradients_agree(mine, theirs, (q, k, v, w, beta), rtol=1e-3, atol=1e-4)


def test_beta_goes_from_nothing_over_a_projection_to_a_mirror():
    raw = torch.tensor([[3.0, -4.0, beta] for beta in (-40.0, 0.0, 40.0)], dtype=torch.float64)
    wanted = torch.tensor([[0.6, -0.8, beta] for beta in (0.0, 1.0, 2.0)], dtype=torch.float64)
    torch.testing.assert_close(path.reflections(raw), wanted, rtol=0, atol=1e-12)
