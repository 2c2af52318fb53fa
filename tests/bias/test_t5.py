"""T5's buckets and bias (Raffel et al. 2020, arXiv 1910.10683, and its code), in loops; transformers' own layers."""

import math

import pytest
import torch
from loops import attend, close, dot, inputs
from loops import bucket as loop_bucket

import posenc
from posenc.bias.t5 import bucket


def made(heads=2, bidirectional=False, **options):
    """A fresh encoding in float64, its table drawn at spread 1."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoding = posenc.make("t5", num_heads=heads, bidirectional=bidirectional, **options).double()
        torch.nn.init.normal_(encoding.bias.table)
    return encoding


def biased(table, buckets=32, max_distance=128, bidirectional=False, scale=None):
    def logit(h, i, j, q_i, k_j):
        factor = 1 / math.sqrt(len(q_i)) if scale is None else scale
        return factor * dot(q_i, k_j) + table[h, loop_bucket(j - i, buckets, max_distance, bidirectional)].item()

    return logit


# The buckets


BOTH_WAYS = {0: 0, -7: 7, -8: 8, -16: 10, -64: 14, -128: 15, -5000: 15, 1: 17, 7: 23, 128: 31, 5000: 31}
CAUSAL = {0: 0, -1: 1, -15: 15, -16: 16, -32: 21, -64: 26, -127: 31, -128: 31, 5: 0, 5000: 0}


@pytest.mark.parametrize("bidirectional, anchors", [(True, BOTH_WAYS), (False, CAUSAL)], ids=["both", "causal"])
def test_known_buckets(bidirectional, anchors):
    offsets = torch.tensor(list(anchors))
    assert bucket(offsets, bidirectional=bidirectional).tolist() == list(anchors.values())


SIZES = [(32, 128), (8, 10), (4, 3), (12, 100), (10, 7), (2, 8)]
SETTINGS = [(*sizes, both) for sizes in SIZES for both in (True, False) if sizes[0] > 2 or not both]


EDGES = [(18, 128, True), (36, 32, False)]  # a power of two that a logarithm puts just below its bucket


@pytest.mark.parametrize("buckets, far, bidirectional", SETTINGS + EDGES, ids=str)
def test_bucket_equals_the_construction(buckets, far, bidirectional):
    offsets = list(range(-300, 301))
    actual = bucket(torch.tensor(offsets), buckets, far, bidirectional)
    assert actual.tolist() == [loop_bucket(offset, buckets, far, bidirectional) for offset in offsets]


@pytest.mark.parametrize("buckets, far, bidirectional", SETTINGS, ids=str)
def test_bucket_equals_transformers(buckets, far, bidirectional):
    from transformers.models.t5.modeling_t5 import T5Attention

    offsets = torch.arange(-2000, 2001)
    theirs = T5Attention._relative_position_bucket(offsets, bidirectional, buckets, far)
    assert torch.equal(bucket(offsets, buckets, far, bidirectional), theirs)


# The construction


@pytest.mark.parametrize(
    "queries, keys, causal, bidirectional, scale",
    [(9, 9, True, False, None), (9, 9, False, True, 1.0), (2, 7, True, True, 1.0)],
    ids=str,
)
def test_equals_the_construction(queries, keys, causal, bidirectional, scale):
    q, k, v = inputs(heads=3, queries=queries, keys=keys)
    encoding = made(3, bidirectional, num_buckets=8, max_distance=6)
    out, weights = posenc.attention(q, k, v, encoding, causal=causal, scale=scale, return_weights=True)
    logit = biased(encoding.bias.table, 8, 6, bidirectional, scale)
    expected_out, expected_weights = attend(q, k, v, logit, causal=causal)
    close(weights, expected_weights)
    close(out, expected_out)


# Independent implementation


def theirs_and_ours(decoder, layers=2):
    """Self-attention layers of transformers' T5, of which the first holds the table, and ours with their weights."""
    from transformers import T5Config
    from transformers.models.t5.modeling_t5 import T5Attention

    config = T5Config(
        d_model=12,
        d_kv=5,
        num_heads=3,
        is_decoder=decoder,
        dropout_rate=0.0,
        relative_attention_num_buckets=8,
        relative_attention_max_distance=6,
        attn_implementation="eager",
    )
    torch.manual_seed(0)
    theirs = [
        T5Attention(config, has_relative_attention_bias=n == 0, layer_idx=n).double().eval() for n in range(layers)
    ]
    shared = made(3, not decoder, num_buckets=8, max_distance=6)
    shared.bias.table.data.copy_(theirs[0].relative_attention_bias.weight.T)
    ours = []
    for layer in theirs:
        own = posenc.SelfAttention(12, 3, shared, head_dim=5, causal=decoder, scale=1.0).double()
        for mine, name in ((own.to_q, "q"), (own.to_k, "k"), (own.to_v, "v"), (own.to_out, "o")):
            mine.load_state_dict(getattr(layer, name).state_dict())
        ours.append(own)
    return theirs, ours


@pytest.mark.parametrize("decoder", [False, True], ids=["encoder", "decoder"])
def test_equals_the_self_attention_of_transformers(decoder):
    theirs, ours = theirs_and_ours(decoder)
    x = torch.randn(2, 11, 12, dtype=torch.float64)
    hidden = torch.full((11, 11), -torch.inf, dtype=torch.float64).triu(1)[None, None] if decoder else None
    first, bias, _ = theirs[0](x, mask=hidden)
    close(ours[0](x), first)
    close(ours[1](x), theirs[1](x, mask=hidden, position_bias=bias)[0])  # the first layer's bias, handed on
    assert (ours[0](x) - posenc.SelfAttention.forward(ours[1], x)).abs().max() > 0.01


def test_the_table_starts_small_and_one_bucket_may_be_exact():
    table = posenc.make("t5", num_heads=64).bias.table
    assert 0.09 < table.std() < 0.11
    assert bucket(torch.tensor([0, -1, -2]), 6, 3).tolist() == [0, 1, 2]  # distance 1 shares no exact bucket
