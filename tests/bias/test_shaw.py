"""Shaw et al. 2018 (arXiv 1803.02155), equations 3 and 4, in loops; the relative keys of Wav2Vec2-BERT."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import attend, close, dot, inputs

import posenc

quick = settings(max_examples=40, derandomize=True, deadline=None)


def made(head_dim=4, clip=2, values=False, seed=0):
    """A fresh encoding in float64."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        return posenc.make("shaw", head_dim=head_dim, clip=clip, values=values).double()


def row(table, i, j, clip):
    """w_clip(j - i, k) of the paper, as a list."""
    return table[max(-clip, min(clip, j - i)) + clip].tolist()


def with_keys(table, clip):
    """Equation 4: x_i W^Q (x_j W^K + a^K_ij)^T / sqrt(d_z)."""

    def logit(h, i, j, q_i, k_j):
        key = [x + a for x, a in zip(k_j, row(table, i, j, clip), strict=True)]
        return dot(q_i, key) / math.sqrt(len(q_i))

    return logit


def value_term(weights, table, clip):
    """What equation 3 adds to the output: sum_j alpha_ij a^V_ij."""
    batch, heads, queries, keys = weights.shape
    out = torch.zeros(batch, heads, queries, table.shape[1], dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for i in range(queries):
                for j in range(keys):
                    for d, a in enumerate(row(table, i + keys - queries, j, clip)):
                        out[b, h, i, d] += weights[b, h, i, j].item() * a
    return out


# The construction


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("queries, keys", [(6, 6), (2, 7), (1, 1)], ids=str)
@pytest.mark.parametrize("clip", [1, 2, 9])
def test_equals_the_construction(queries, keys, clip, causal):
    q, k, v = inputs(heads=3, queries=queries, keys=keys)
    encoding = made(clip=clip)
    out, weights = posenc.attention(q, k, v, encoding, causal=causal, return_weights=True)
    expected_out, expected_weights = attend(q, k, v, with_keys(encoding.bias.keys, clip), causal=causal)
    close(weights, expected_weights)
    close(out, expected_out)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("queries, keys", [(5, 5), (2, 6)], ids=str)
def test_value_term_equals_the_construction(queries, keys, causal):
    q, k, v = inputs(queries=queries, keys=keys)
    encoding = made(values=True)
    out, weights = posenc.attention(q, k, v, encoding, causal=causal, return_weights=True)
    expected, expected_weights = attend(q, k, v, with_keys(encoding.bias.keys, 2), causal=causal)
    close(weights, expected_weights)
    close(out, expected + value_term(expected_weights, encoding.bias.values, 2))
    assert (out - expected).abs().max() > 0.1
    close(posenc.attention(q, k, v, encoding, causal=causal), out)


def test_tables_have_a_row_for_each_offset_up_to_the_clip():
    encoding = made(head_dim=6, clip=5, values=True)
    assert encoding.bias.keys.shape == encoding.bias.values.shape == (11, 6)
    assert made(head_dim=6, clip=5).bias.values is None
    assert posenc.make("shaw", head_dim=4).bias.keys.shape == (33, 4)
    assert not torch.equal(encoding.bias.keys, encoding.bias.values)


def test_beyond_the_clip_all_offsets_are_one():
    q, k, _ = inputs(queries=1, keys=6)
    k = k[:, :, :1].expand_as(k)  # the same key everywhere
    encoding = made(clip=3)
    at = posenc.At(torch.tensor([[0]]), torch.tensor([[-700, -3, -2, 2, 3, 50]]), None)
    far_before, before, two_before, two_after, after, far_after = encoding.bias(q, k, at).unbind(-1)
    assert torch.equal(far_before, before) and torch.equal(after, far_after)
    assert not torch.equal(before, two_before) and not torch.equal(after, two_after)
    assert not torch.equal(before, after)


def test_one_table_serves_all_heads():
    q, k, v = inputs(heads=1)
    many = [x.expand(-1, 3, -1, -1) for x in (q, k, v)]
    out = posenc.attention(*many, made(values=True))
    close(out, posenc.attention(q, k, v, made(values=True)).expand_as(out))


# What must hold


@quick
@given(
    positions=st.lists(st.integers(-50, 50), min_size=1, max_size=6),
    shift=st.integers(-10000, 10000),
    values=st.booleans(),
)
def test_any_shift_of_all_positions_changes_nothing(positions, shift, values):
    q, k, v = inputs(queries=len(positions))
    at, encoding = torch.tensor(positions), made(values=values)
    moved = posenc.attention(q, k, v, encoding, pos_q=at + shift)
    assert torch.equal(moved, posenc.attention(q, k, v, encoding, pos_q=at))


def test_the_term_is_divided_by_the_root_of_the_dimension_whatever_the_scale():
    q, k, _ = inputs()
    encoding = made()
    _, weights = posenc.attention(q, k, k, encoding, scale=0.0, return_weights=True)
    expected, _ = attend(q, torch.zeros_like(k), k, with_keys(encoding.bias.keys, 2))
    close(weights @ k, expected)


@pytest.mark.parametrize("values", [False, True])
def test_a_query_that_sees_nothing_gets_exact_zeros(values):
    q, k, v = inputs()
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[2] = False
    out = posenc.attention(q, k, v, made(values=values), mask=mask)
    assert (out[:, :, 2] == 0).all() and (out[:, :, 3] != 0).all()


def test_grouped_queries_and_positions_of_each_batch_row():
    q, k, v = inputs(heads=4)
    at = torch.tensor([[0, 1, 2, 3, 4], [0, 5, 6, 7, 30]])
    encoding = made(values=True)
    out = posenc.attention(q, k[:, :2], v[:, :2], encoding, pos_q=at)
    for b in range(2):
        wide = [x[b : b + 1, :2].repeat_interleave(2, dim=1) for x in (k, v)]
        close(out[b : b + 1], posenc.attention(q[b : b + 1], *wide, encoding, pos_q=at[b]))


def test_half_precision_keeps_its_dtype():
    q, k, v = inputs(dtype=torch.bfloat16)
    for values in (False, True):
        out = posenc.attention(q, k, v, made(values=values).float())
        exact = posenc.attention(*(x.double() for x in (q, k, v)), made(values=values))
        assert out.dtype == torch.bfloat16
        close(out.double(), exact, 0.03)


# Independent implementation


@pytest.mark.parametrize("causal", [True, False])
def test_equals_the_relative_keys_of_wav2vec2_bert(causal):
    from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertConfig, Wav2Vec2BertSelfAttention

    config = Wav2Vec2BertConfig(
        hidden_size=12,
        num_attention_heads=3,
        position_embeddings_type="relative_key",
        attention_dropout=0.0,
        left_max_position_embeddings=2,
        right_max_position_embeddings=2,
    )
    torch.manual_seed(0)
    theirs = Wav2Vec2BertSelfAttention(config).double().eval()
    encoding = made(clip=2)
    encoding.bias.keys.data.copy_(theirs.distance_embedding.weight)
    ours = posenc.SelfAttention(12, 3, encoding, causal=causal, bias=True).double()
    for mine, name in ((ours.to_q, "q"), (ours.to_k, "k"), (ours.to_v, "v"), (ours.to_out, "out")):
        mine.load_state_dict(getattr(theirs, f"linear_{name}").state_dict())
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    hidden = torch.full((7, 7), -torch.inf, dtype=torch.float64).triu(1) if causal else None
    close(ours(x), theirs(x, attention_mask=hidden)[0])


# Gradients


@pytest.mark.parametrize("values", [False, True])
def test_gradcheck(values):
    encoding = made(values=values)
    q, k, v = (x.requires_grad_() for x in inputs(batch=1, queries=3, keys=4))
    parameters = tuple(encoding.parameters())
    assert torch.autograd.gradcheck(lambda q, k, v, *_: posenc.attention(q, k, v, encoding), (q, k, v, *parameters))


@pytest.mark.parametrize("values", [False, True])
def test_every_row_that_is_read_gets_a_gradient(values):
    encoding = made(values=values)
    q, k, v = inputs()
    posenc.attention(q, k, v, encoding, causal=False).square().sum().backward()
    assert len(list(encoding.parameters())) == 1 + values
    assert all((table.grad.abs().sum(-1) > 0).all() for table in encoding.parameters())


# Bad input


@pytest.mark.parametrize(
    "options, error, words",
    [
        ({"head_dim": 4.0}, TypeError, "head_dim=4.0"),
        ({"head_dim": 0}, ValueError, "head_dim=0"),
        ({"clip": "16"}, TypeError, "clip='16'"),
        ({"clip": 0}, ValueError, "clip=0"),
        ({"values": 1}, TypeError, "values=1"),
    ],
    ids=str,
)
def test_bad_options_are_refused(options, error, words):
    with pytest.raises(error, match=words):
        posenc.make("shaw", **{"head_dim": 4, **options})


@pytest.mark.parametrize("values", [False, True])
def test_bad_positions_and_sizes_are_refused(values):
    q, k, v = inputs()
    with pytest.raises(ValueError, match=r"pos_k holds 0\.5.*whole numbers"):
        posenc.attention(q, k, v, made(values=values), pos_q=torch.arange(5) / 2)
    with pytest.raises(ValueError, match="head_dim=6.*4 lanes of q"):
        posenc.attention(q, k, v, made(head_dim=6))
    whole = torch.arange(5.0)  # whole numbers may come as floats
    close(posenc.attention(q, k, v, made(values=values), pos_q=whole), posenc.attention(q, k, v, made(values=values)))


def test_values_of_another_width_are_refused():
    q, k, v = inputs()
    with pytest.raises(ValueError, match="head_dim=4.*3 lanes of v"):
        posenc.attention(q, k, v[..., :3], made(values=True))
    assert posenc.attention(q, k, v[..., :3], made()).shape == (2, 2, 5, 3)
