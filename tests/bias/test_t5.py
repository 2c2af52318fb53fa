"""T5's buckets and bias (Raffel et al. 2020, arXiv 1910.10683, and its code), in loops; transformers' own layers."""

import math

import pytest
import torch
from cases import equals_loops
from loops import bucket as loop_bucket
from loops import close, dot, inputs
from transformers import T5Config
from transformers.models.t5.modeling_t5 import T5Attention

import posenc
from posenc.bias.t5 import bucket


def made(heads=2, bidirectional=False):
    """A fresh encoding in float64, its table drawn at spread 1."""
    torch.manual_seed(0)
    encoding = posenc.make("t5", num_heads=heads, bidirectional=bidirectional, num_buckets=8, max_distance=6).double()
    torch.nn.init.normal_(encoding.bias.table)
    return encoding


SIZES = [(32, 128), (8, 10), (4, 3), (12, 100), (10, 7), (2, 8)]
SETTINGS = [(*sizes, both) for sizes in SIZES for both in (True, False) if sizes[0] > 2 or not both]
# A power of two that a logarithm puts just below its bucket; one bucket that is exact.
EDGES = [(18, 128, True), (36, 32, False), (6, 3, True)]


@pytest.mark.parametrize("buckets, far, bidirectional", SETTINGS + EDGES, ids=str)
def test_bucket_equals_the_construction(buckets, far, bidirectional):
    offsets = torch.arange(-300, 301)
    actual = bucket(offsets, buckets, far, bidirectional)
    assert actual.tolist() == [loop_bucket(offset, buckets, far, bidirectional) for offset in offsets.tolist()]


@pytest.mark.parametrize("buckets, far, bidirectional", SETTINGS, ids=str)
def test_bucket_equals_transformers(buckets, far, bidirectional):
    offsets = torch.arange(-2000, 2001)
    theirs = T5Attention._relative_position_bucket(offsets, bidirectional, buckets, far)
    assert torch.equal(bucket(offsets, buckets, far, bidirectional), theirs)


@pytest.mark.parametrize(
    "queries, keys, causal, bidirectional, scale",
    [(9, 9, True, False, None), (9, 9, False, True, 1.0), (2, 7, True, True, 1.0)],
    ids=str,
)
def test_equals_the_construction(queries, keys, causal, bidirectional, scale):
    encoding, factor = made(3, bidirectional), 1 / math.sqrt(4) if scale is None else scale

    def logit(h, i, j, q_i, k_j):
        return factor * dot(q_i, k_j) + encoding.bias.table[h, loop_bucket(j - i, 8, 6, bidirectional)].item()

    equals_loops(encoding, inputs(heads=3, queries=queries, keys=keys), logit, causal=causal, scale=scale)


@pytest.mark.parametrize("decoder", [False, True], ids=["encoder", "decoder"])
def test_equals_the_self_attention_of_transformers(decoder):
    """Two layers of theirs, of which the first holds the table, and ours with their weights."""
    sizes = dict(relative_attention_num_buckets=8, relative_attention_max_distance=6, dropout_rate=0.0)
    config = T5Config(d_model=12, d_kv=5, num_heads=3, is_decoder=decoder, attn_implementation="eager", **sizes)
    theirs = [T5Attention(config, has_relative_attention_bias=n == 0, layer_idx=n).double().eval() for n in range(2)]
    shared, ours = made(3, not decoder), []
    shared.bias.table.data.copy_(theirs[0].relative_attention_bias.weight.T)
    for layer in theirs:
        own = posenc.SelfAttention(12, 3, shared, head_dim=5, causal=decoder, scale=1.0).double()
        for mine, name in ((own.to_q, "q"), (own.to_k, "k"), (own.to_v, "v"), (own.to_out, "o")):
            mine.load_state_dict(getattr(layer, name).state_dict())
        ours.append(own)
    x = torch.randn(2, 11, 12, dtype=torch.float64)
    hidden = torch.full((11, 11), -torch.inf, dtype=torch.float64).triu(1)[None, None] if decoder else None
    first, bias, _ = theirs[0](x, mask=hidden)
    close(ours[0](x), first)
    close(ours[1](x), theirs[1](x, mask=hidden, position_bias=bias)[0])  # the first layer's bias, handed on


def test_the_table_starts_small():
    assert 0.09 < posenc.make("t5", num_heads=64).bias.table.std() < 0.11
