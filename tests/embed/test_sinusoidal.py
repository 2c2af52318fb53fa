"""Sinusoidal encoding against Vaswani et al. 2017 (arXiv 1706.03762), section 3.5, written out in loops."""

import math

import pytest
import torch
from loops import attend, close, dot
from loops import sinusoid as paper

import posenc
from posenc.embed.sinusoidal import table


def tensor2tensor(position, dim, longest=10000.0):
    """The layout of the paper's public code: sines, then cosines, log-spaced from 1 to 1/longest, with both ends."""
    channels = dim // 2
    step = math.log(longest) / max(channels - 1, 1)
    angles = [position * math.exp(-channel * step) for channel in range(channels)]
    return [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]


def rows(construction, positions, dim, *base):
    return torch.tensor([construction(p, dim, *base) for p in positions], dtype=torch.float64)


@pytest.mark.parametrize("base", [10000.0, 0.5])
@pytest.mark.parametrize("dim", [2, 4, 6, 64])
@pytest.mark.parametrize("layout, construction", [("interleaved", paper), ("concatenated", tensor2tensor)])
def test_table_equals_the_construction(layout, construction, dim, base):
    positions = [0, 1, 2, 3, 17, -5, 2.25, 511]
    found = table(torch.tensor(positions, dtype=torch.float64), dim, base, layout)
    close(found, rows(construction, positions, dim, base))


@pytest.mark.parametrize("embed_at", ["input", "layer_qk", "layer_qkv"])
def test_attention_layer_equals_the_construction(embed_at):
    positions, volume, dim = [4, 5, 6, 7, 11], 0.5, 8
    encoding = posenc.make("sinusoidal", embed_at=embed_at, volume=volume)
    layer = posenc.SelfAttention(dim, 2, encoding.in_layers()).double()
    x = torch.randn(1, 5, dim, dtype=torch.float64)
    position_ids = torch.tensor(positions)
    actual = layer(posenc.embed_input(encoding, x, position_ids), positions=position_ids)

    moved = x + volume * rows(paper, positions, dim)
    values = x if embed_at == "layer_qk" else moved
    linears = (layer.to_q, moved), (layer.to_k, moved), (layer.to_v, values)
    q, k, v = ((x @ to.weight.T).unflatten(2, (2, 4)).transpose(1, 2) for to, x in linears)
    out, _ = attend(q, k, v, lambda h, i, j, q_i, k_j: dot(q_i, k_j) / math.sqrt(4))
    close(actual, out.transpose(1, 2).flatten(2) @ layer.to_out.weight.T)


def test_single_precision_is_as_exact_far_out_as_near():
    far = [5, 10**6, 10**7 + 1]  # where a product in float32 is off by .03 and .5 radians
    found = table(torch.tensor(far), 64)
    assert found.dtype == torch.float32
    close(found.double(), rows(paper, far, 64), 1e-7)
