"""Dai et al. 2019 (arXiv 1901.02860), section 3.3 and appendix B, in loops; XLNet's relative attention."""

import math

import pytest
import torch
from cases import equals_loops
from loops import close, dot, inputs, sinusoid
from transformers import XLNetConfig
from transformers.models.xlnet.modeling_xlnet import XLNetModel, XLNetRelativeAttention

import posenc
from posenc.bias.transformer_xl import shift

H, D = 2, 4


def made(dim, base=10000.0):
    """A fresh encoding in float64, its four parameters large enough to matter."""
    torch.manual_seed(0)
    encoding = posenc.make("transformer_xl", num_heads=H, head_dim=D, dim=dim, base=base).double()
    for parameter in encoding.parameters():
        torch.nn.init.normal_(parameter)
    return encoding


@pytest.mark.parametrize(
    "queries, keys, dim, base, causal", [(5, 5, 6, 1e4, False), (2, 7, 6, 50.0, True), (1, 1, 2, 1e4, True)], ids=str
)
def test_equals_the_construction(queries, keys, dim, base, causal):
    """A_rel of the paper: (a) + (b) + (c) + (d), and the division by sqrt(d) of its summary."""
    encoding = made(dim, base)

    def logit(h, i, j, q_i, k_j):
        u, v = encoding.bias.u[h].tolist(), encoding.bias.v[h].tolist()
        w_r = encoding.bias.w_r[h * D : (h + 1) * D].tolist()
        far = [dot(row, sinusoid(i - j, dim, base)) for row in w_r]  # W_{k,R} R_(i-j) of this head
        return (dot(q_i, k_j) + dot(q_i, far) + dot(u, k_j) + dot(v, far)) / math.sqrt(D)

    equals_loops(encoding, inputs(heads=H, queries=queries, keys=keys), logit, causal=causal)


@pytest.mark.parametrize("queries, keys", [(5, 5), (3, 7), (1, 4), (1, 1)], ids=str)
def test_shift_equals_the_gather_where_a_query_may_look(queries, keys):
    """Column Tk - 1 - (i + Tk - Tq - j) of row i, for the keys that query i sees."""
    x = torch.randn(2, 3, queries, keys, dtype=torch.float64)
    for i in range(queries):
        for j in range(i + keys - queries + 1):
            assert torch.equal(shift(x)[..., i, j], x[..., i, keys - 1 - (i + keys - queries - j)])


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("queries, keys", [(6, 6), (3, 8)], ids=str)
def test_equals_xlnets_relative_attention(queries, keys, causal):
    """XLNet kept Transformer-XL's attention; queries fewer than keys are its memory."""
    config = XLNetConfig(d_model=H * D, n_head=H, d_inner=8, n_layer=1, vocab_size=4, dropout=0.0)
    core = XLNetRelativeAttention(config).double().eval()
    encoding = made(dim=H * D)
    q, k, v = inputs(heads=H, queries=queries, keys=keys)
    core.r_w_bias.data.copy_(encoding.bias.u)
    core.r_r_bias.data.copy_(encoding.bias.v)
    R = XLNetModel(config).relative_positional_encoding(queries, keys, bsz=2).double()  # [Tk + Tq, B, C], sines first
    w_r = encoding.bias.w_r.unflatten(1, (-1, 2)).transpose(1, 2).flatten(1)  # our lanes alternate
    k_r = (R @ w_r.T).unflatten(-1, (H, D))
    hidden = torch.ones(queries, keys, dtype=torch.float64).triu(1 + keys - queries)[:, :, None, None] * causal
    q_, k_, v_ = (x.permute(2, 0, 1, 3) for x in (q, k, v))
    expected = core.rel_attn_core(q_, k_, v_, k_r, attn_mask=hidden.expand(-1, -1, 2, H))
    close(posenc.attention(q, k, v, encoding, causal=causal), expected.permute(1, 2, 0, 3), 1e-6)  # R is float32
