"""ALiBi against Press et al. 2022 (arXiv 2108.12409), section 3, in loops, and Bloom's."""

import math

import pytest
import torch
from loops import attend, close, dot, inputs
from loops import slopes as paper_slopes

import posenc
from posenc.bias.alibi import bias, slopes


def penalty(m, symmetric=False):
    """logit(h, i, j, q_i, k_j) of ALiBi with slopes m."""

    def logit(h, i, j, q_i, k_j):
        distance = abs(i - j) if symmetric else i - j
        return dot(q_i, k_j) / math.sqrt(len(q_i)) - m[h] * distance

    return logit


# The construction


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 25, 40, 71])
def test_slopes_equal_the_construction(heads):
    assert slopes(heads).dtype == torch.float32
    close(slopes(heads).double(), torch.tensor(paper_slopes(heads), dtype=torch.float64), 6e-8)


def test_slopes_of_the_paper():
    assert slopes(8).tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert [round(m, 4) for m in slopes(12)[-4:].tolist()] == [0.7071, 0.3536, 0.1768, 0.0884]
    assert slopes(12)[:8].tolist() == slopes(8).tolist()


@pytest.mark.parametrize("symmetric", [False, True])
def test_bias_equals_the_construction(symmetric):
    pos_q, pos_k, m = [5, 2, 9], [0, 3, 4.5, 9], [0.5, 0.125]
    expected = torch.zeros(2, 3, 4, dtype=torch.float64)
    for h in range(2):
        for a, i in enumerate(pos_q):
            for b, j in enumerate(pos_k):
                expected[h, a, b] = -m[h] * (abs(i - j) if symmetric else i - j)
    actual = bias(torch.tensor(pos_q), torch.tensor(pos_k), torch.tensor(m, dtype=torch.float64), symmetric)
    close(actual, expected)
    batched = bias(torch.tensor([pos_q, pos_q]) + 7, torch.tensor([pos_k, pos_k]) + 7, torch.tensor(m), symmetric)
    assert batched.shape == (2, 2, 3, 4)
    close(batched[1].double(), expected, 1e-6)


@pytest.mark.parametrize("heads, queries, keys", [(3, 5, 5), (4, 2, 7), (1, 1, 1)], ids=str)
def test_attention_equals_the_construction(heads, queries, keys):
    q, k, v = inputs(heads=heads, queries=queries, keys=keys)
    m = slopes(heads).double().tolist()
    out, weights = posenc.attention(q, k, v, posenc.make("alibi", num_heads=heads), return_weights=True)
    expected_out, expected_weights = attend(q, k, v, penalty(m))
    close(weights, expected_weights)
    close(out, expected_out)


# Independent implementations


def test_equals_bloom_with_twelve_heads():
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    q, k, v = inputs(heads=12, queries=6)
    theirs = build_alibi_tensor(torch.ones(2, 6, dtype=torch.long), 12, torch.float32).view(2, 12, 1, 6)
    close(theirs[0, :, 0, 1].double(), slopes(12).double(), 6e-8)
    logits = q @ k.transpose(-2, -1) / math.sqrt(4) + theirs.double()  # slope times key position
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)
    expected = logits.masked_fill(hidden, -torch.inf).softmax(-1) @ v
    close(posenc.attention(q, k, v, posenc.make("alibi", num_heads=12)), expected, 1e-6)  # theirs is float32
