"""ALiBi against Press et al. 2022 (arXiv 2108.12409), section 3, in loops, and Bloom's."""

import math

import pytest
import torch
from cases import equals_loops
from loops import close, dot, inputs
from loops import slopes as paper_slopes

import posenc
from posenc.bias.alibi import slopes


@pytest.mark.parametrize("heads", [1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 20, 25, 40, 71])
def test_slopes_equal_the_construction(heads):
    assert slopes(heads).dtype == torch.float32
    close(slopes(heads).double(), torch.tensor(paper_slopes(heads), dtype=torch.float64), 6e-8)


def test_slopes_of_the_paper():
    assert slopes(8).tolist() == [1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32, 1 / 64, 1 / 128, 1 / 256]
    assert [round(m, 4) for m in slopes(12)[-4:].tolist()] == [0.7071, 0.3536, 0.1768, 0.0884]


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("heads, queries, keys", [(3, 5, 5), (4, 2, 7), (1, 1, 1)], ids=str)
def test_attention_equals_the_construction(heads, queries, keys, symmetric):
    m = slopes(heads).double().tolist()

    def logit(h, i, j, q_i, k_j):
        return dot(q_i, k_j) / math.sqrt(len(q_i)) - m[h] * (abs(i - j) if symmetric else i - j)

    encoding = posenc.make("alibi", num_heads=heads, symmetric=symmetric)
    equals_loops(encoding, inputs(heads=heads, queries=queries, keys=keys), logit, causal=not symmetric)


def test_equals_bloom_with_twelve_heads():
    from transformers.models.bloom.modeling_bloom import build_alibi_tensor

    q, k, v = inputs(heads=12, queries=6)
    theirs = build_alibi_tensor(torch.ones(2, 6, dtype=torch.long), 12, torch.float32).view(2, 12, 1, 6)
    logits = q @ k.transpose(-2, -1) / math.sqrt(4) + theirs.double()  # slope times key position
    hidden = torch.ones(6, 6, dtype=torch.bool).triu(1)
    expected = logits.masked_fill(hidden, -torch.inf).softmax(-1) @ v
    close(posenc.attention(q, k, v, posenc.make("alibi", num_heads=12)), expected, 1e-6)  # theirs is float32
