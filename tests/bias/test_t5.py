"""T5's buckets and bias (Raffel et al. 2020, arXiv 1910.10683, and its code), in loops; transformers' own layers."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import attend, close, dot, inputs

import posenc
from posenc.bias.t5 import bucket

quick = settings(max_examples=60, derandomize=True, deadline=None)


def made(heads=2, bidirectional=False, **options):
    """A fresh encoding in float64, its table drawn at spread 1."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        encoding = posenc.make("t5", num_heads=heads, bidirectional=bidirectional, **options).double()
        torch.nn.init.normal_(encoding.bias.table)
    return encoding


def loop_bucket(offset, buckets, max_distance, bidirectional):
    """One bucket; the edges on the logarithmic side are found by comparing powers, without a logarithm."""
    first, side = 0, buckets
    if bidirectional:
        side = buckets // 2
        first = side if offset > 0 else 0
        distance = abs(offset)
    else:
        distance = max(-offset, 0)
    exact = side // 2
    if distance < exact:
        return first + distance
    shared = exact
    for step in range(1, side - exact):  # bucket exact + step starts where (distance / exact)^n = (far / exact)^step
        n = side - exact
        if distance**n * exact**step >= max_distance**step * exact**n:
            shared = exact + step
    return first + shared


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


SIZES = [(32, 128), (32, 20), (8, 10), (4, 3), (64, 1000), (16, 64), (12, 100), (6, 8), (10, 7), (2, 8), (128, 300)]
SETTINGS = [(*sizes, both) for sizes in SIZES for both in (True, False) if sizes[0] > 2 or not both]


@pytest.mark.parametrize("buckets, far, bidirectional", SETTINGS, ids=str)
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


@quick
@given(half=st.integers(2, 40), beyond=st.integers(1, 500), bidirectional=st.booleans())
def test_buckets_grow_with_distance_and_end_at_the_last(half, beyond, bidirectional):
    buckets = 2 * half
    exact = half // 2 if bidirectional else half
    far = exact + beyond
    row = bucket(torch.arange(0, -2 * far - 1, -1), buckets, far, bidirectional)
    last = half - 1 if bidirectional else buckets - 1
    assert row[:exact].tolist() == list(range(exact))
    assert (row.diff() >= 0).all() and (row[far:] == last).all()
    ahead = bucket(torch.arange(1, far + 1), buckets, far, bidirectional)
    assert torch.equal(ahead, row[1 : far + 1] + half) if bidirectional else (ahead == 0).all()


# The construction


@pytest.mark.parametrize("scale", [None, 1.0])
@pytest.mark.parametrize("causal, bidirectional", [(True, False), (True, True), (False, True)], ids=str)
@pytest.mark.parametrize("queries, keys", [(9, 9), (2, 7), (1, 1)], ids=str)
def test_equals_the_construction(queries, keys, causal, bidirectional, scale):
    q, k, v = inputs(heads=3, queries=queries, keys=keys)
    encoding = made(3, bidirectional, num_buckets=8, max_distance=6)
    out, weights = posenc.attention(q, k, v, encoding, causal=causal, scale=scale, return_weights=True)
    logit = biased(encoding.bias.table, 8, 6, bidirectional, scale)
    expected_out, expected_weights = attend(q, k, v, logit, causal=causal)
    close(weights, expected_weights)
    close(out, expected_out)


# What must hold


@quick
@given(
    positions=st.lists(st.integers(-300, 300), min_size=1, max_size=6),
    shift=st.integers(-10000, 10000),
    bidirectional=st.booleans(),
)
def test_any_shift_of_all_positions_changes_nothing(positions, shift, bidirectional):
    q, k, v = inputs(queries=len(positions))
    at, encoding = torch.tensor(positions), made(bidirectional=bidirectional)
    moved = posenc.attention(q, k, v, encoding, pos_q=at + shift)
    assert torch.equal(moved, posenc.attention(q, k, v, encoding, pos_q=at))


@pytest.mark.parametrize("bidirectional", [True, False])
def test_what_the_kernel_reads_is_the_bias_of_every_offset(bidirectional):
    encoding = made(bidirectional=bidirectional, max_distance=20)
    q, _, _ = inputs(queries=1)
    given = encoding.bias.kernel_inputs(q)
    table, first = given["table"], given["first"]
    assert table.dtype == torch.float32 and table.is_contiguous()
    relative = torch.arange(-100, 101)
    inside = (relative - first).clamp(0, table.shape[1] - 1)  # outside, the first or last column
    at = posenc.At(torch.tensor([[0]]), relative[None], None)
    close(table[:, inside].double(), encoding.bias(q, None, at)[0, :, 0].detach(), 1e-6)


def test_without_a_causal_mask_only_the_bidirectional_form_is_defined():
    q, k, v = inputs()
    with pytest.raises(posenc.UnsupportedError, match="bidirectional=True"):
        posenc.attention(q, k, v, made(), causal=False)


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


def test_the_table_may_be_shared_by_layers():
    _, ours = theirs_and_ours(decoder=True)
    assert ours[0].encoding is ours[1].encoding
    assert sum("table" in name for name, _ in torch.nn.ModuleList(ours).named_parameters()) == 1


def test_step_by_step_with_a_cache_equals_one_pass():
    _, (layer, _) = theirs_and_ours(decoder=True)
    x, cache = torch.randn(2, 9, 12, dtype=torch.float64), posenc.KVCache()
    steps = [layer(x[:, n : n + 1], cache=cache) for n in range(9)]
    close(torch.cat(steps, dim=1), layer(x))


# Gradients


@pytest.mark.parametrize("bidirectional", [True, False])
def test_gradcheck(bidirectional):
    encoding = made(bidirectional=bidirectional, num_buckets=4, max_distance=3)
    q, k, v = (x.requires_grad_() for x in inputs(batch=1, queries=3, keys=4))
    table = encoding.bias.table
    assert torch.autograd.gradcheck(lambda q, k, v, _: posenc.attention(q, k, v, encoding), (q, k, v, table))


@pytest.mark.parametrize("bidirectional", [True, False])
def test_buckets_that_are_read_get_gradients(bidirectional):
    encoding = made(bidirectional=bidirectional, num_buckets=8, max_distance=6)
    posenc.attention(*inputs(queries=9), encoding, causal=not bidirectional).square().sum().backward()
    (table,) = encoding.parameters()
    offsets = range(-8, 9 if bidirectional else 1)
    read = {loop_bucket(offset, 8, 6, bidirectional) for offset in offsets}
    assert len(read) == 7  # both ways no offset is "0 behind the query"; one way this scale jumps over bucket 5
    for row in table.grad:
        assert {n for n, g in enumerate(row.tolist()) if g != 0} == read


@pytest.mark.parametrize("bidirectional, idle", [(True, {16}), (False, set())], ids=["both", "causal"])
def test_one_of_the_papers_buckets_is_never_used_both_ways(bidirectional, idle):
    """The half for keys behind the query starts at offset 0, which belongs to the other half."""
    assert set(range(32)) - set(bucket(torch.arange(-2000, 2001), bidirectional=bidirectional).tolist()) == idle


# Bad input


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"num_heads": 2.0}, TypeError, "num_heads=2.0"),
        ({"num_heads": 0}, ValueError, "num_heads=0"),
        ({"num_buckets": 7}, ValueError, "num_buckets=7.*even"),
        ({"num_buckets": 2, "bidirectional": True}, ValueError, "num_buckets=2.*at least 4"),
        ({"num_buckets": "32"}, TypeError, "num_buckets='32'"),
        ({"max_distance": 16}, ValueError, "max_distance=16.*at least 17"),
        ({"max_distance": 128.0}, TypeError, "max_distance=128.0"),
        ({"bidirectional": 1}, TypeError, "bidirectional=1"),
    ],
    ids=str,
)
def test_bad_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        posenc.make("t5", **{"num_heads": 2, **options})


def test_bad_offsets_are_refused():
    with pytest.raises(TypeError, match="relative must be a tensor.*7"):
        bucket(7)
    with pytest.raises(TypeError, match="relative must hold integers.*float32"):
        bucket(torch.tensor([0.5]))


def test_bad_positions_and_sizes_are_refused():
    q, k, v = inputs()
    with pytest.raises(ValueError, match=r"pos_k holds 0\.5.*whole numbers"):
        posenc.attention(q, k, v, made(), pos_q=torch.arange(5) / 2)
    with pytest.raises(ValueError, match="num_heads=3.*2 heads"):
        posenc.attention(q, k, v, made(3))
