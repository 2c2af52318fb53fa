"""Shaw et al. 2018 (arXiv 1803.02155), equations 3 and 4, in loops; the relative keys of Wav2Vec2-BERT."""

import math

import pytest
import torch
from cases import equals_loops
from loops import attend, close, dot, inputs

import posenc


def made(clip=2, values=False):
    """A fresh encoding in float64."""
    torch.manual_seed(0)
    return posenc.make("shaw", head_dim=4, clip=clip, values=values).double()


def row(table, i, j, clip):
    """w_clip(j - i, k) of the paper, as a list."""
    return table[max(-clip, min(clip, j - i)) + clip].tolist()


def with_keys(table, clip):
    """Equation 4: x_i W^Q (x_j W^K + a^K_ij)^T / sqrt(d_z)."""

    def logit(h, i, j, q_i, k_j):
        key = [x + a for x, a in zip(k_j, row(table, i, j, clip), strict=True)]
        return dot(q_i, key) / math.sqrt(len(q_i))

    return logit


@pytest.mark.parametrize("clip, queries, keys, causal", [(1, 6, 6, False), (2, 2, 7, True), (9, 6, 6, True)], ids=str)
def test_equals_the_construction(queries, keys, clip, causal):
    encoding = made(clip)
    tensors = inputs(heads=3, queries=queries, keys=keys)
    equals_loops(encoding, tensors, with_keys(encoding.bias.keys, clip), causal=causal)


@pytest.mark.parametrize("queries, keys, causal", [(5, 5, False), (2, 6, True)], ids=str)
def test_value_term_equals_the_construction(queries, keys, causal):
    """What equation 3 adds to the output: sum_j alpha_ij a^V_ij."""
    q, k, v = inputs(queries=queries, keys=keys)
    encoding = made(values=True)
    out, weights = posenc.attention(q, k, v, encoding, causal=causal, return_weights=True)
    expected, expected_weights = attend(q, k, v, with_keys(encoding.bias.keys, 2), causal=causal)
    close(weights, expected_weights)
    for b, h, i, j in torch.cartesian_prod(*(torch.arange(n) for n in weights.shape)).tolist():
        for d, a in enumerate(row(encoding.gather.values, i + keys - queries, j, 2)):
            expected[b, h, i, d] += expected_weights[b, h, i, j].item() * a
    close(out, expected)
    close(posenc.attention(q, k, v, encoding, causal=causal), out)


def test_the_term_is_divided_by_the_root_of_the_dimension_whatever_the_scale():
    q, k, _ = inputs()
    encoding = made()
    expected, _ = attend(q, torch.zeros_like(k), k, with_keys(encoding.bias.keys, 2))
    close(posenc.attention(q, k, k, encoding, scale=0.0), expected)


@pytest.mark.parametrize("causal", [True, False])
def test_equals_the_relative_keys_of_wav2vec2_bert(causal):
    from transformers.models.wav2vec2_bert.modeling_wav2vec2_bert import Wav2Vec2BertConfig, Wav2Vec2BertSelfAttention

    sizes = dict(hidden_size=12, num_attention_heads=3, attention_dropout=0.0)
    sizes |= dict(left_max_position_embeddings=2, right_max_position_embeddings=2)
    config = Wav2Vec2BertConfig(position_embeddings_type="relative_key", **sizes)
    theirs = Wav2Vec2BertSelfAttention(config).double().eval()
    encoding = made(clip=2)
    encoding.bias.keys.data.copy_(theirs.distance_embedding.weight)
    ours = posenc.SelfAttention(12, 3, encoding, causal=causal, bias=True).double()
    for mine, name in ((ours.to_q, "q"), (ours.to_k, "k"), (ours.to_v, "v"), (ours.to_out, "out")):
        mine.load_state_dict(getattr(theirs, f"linear_{name}").state_dict())
    x = torch.randn(2, 7, 12, dtype=torch.float64)
    hidden = torch.full((7, 7), -torch.inf, dtype=torch.float64).triu(1) if causal else None
    close(ours(x), theirs(x, attention_mask=hidden)[0])
