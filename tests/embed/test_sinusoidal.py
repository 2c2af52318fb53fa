"""Sinusoidal encoding against Vaswani et al. 2017 (arXiv 1706.03762), section 3.5, written out in loops."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from loops import attend, close, dot
from loops import sinusoid as paper

import posenc
from posenc.embed.sinusoidal import table

DIMS = [2, 4, 6, 64]
floats = st.floats(-1000, 1000, allow_nan=False, width=32)
quick = settings(max_examples=25, derandomize=True, deadline=None)


def tensor2tensor(position, dim, longest=10000.0):
    """The layout of the paper's public code: sines, then cosines, log-spaced from 1 to 1/longest, with both ends."""
    channels = dim // 2
    step = math.log(longest) / max(channels - 1, 1)
    angles = [position * math.exp(-channel * step) for channel in range(channels)]
    return [math.sin(angle) for angle in angles] + [math.cos(angle) for angle in angles]


def rotation(offset, dim, base=10000.0):
    """R(k) with PE(p + k) = PE(p) R(k), rows: one counterclockwise 2 x 2 block a frequency."""
    matrix = torch.zeros(dim, dim, dtype=torch.float64)
    for i in range(dim // 2):
        c, s = math.cos(offset / base ** (2 * i / dim)), math.sin(offset / base ** (2 * i / dim))
        matrix[2 * i, 2 * i], matrix[2 * i, 2 * i + 1] = c, -s  # row (sin a, cos a): sin a cos b + cos a sin b,
        matrix[2 * i + 1, 2 * i], matrix[2 * i + 1, 2 * i + 1] = s, c  # and cos a cos b - sin a sin b
    return matrix


def rows(construction, positions, dim, *base):
    return torch.tensor([construction(p, dim, *base) for p in positions], dtype=torch.float64)


def at(*positions):
    return torch.tensor(positions, dtype=torch.float64)


# The construction


@pytest.mark.parametrize("base", [10000.0, 0.5])
@pytest.mark.parametrize("dim", DIMS)
@pytest.mark.parametrize("layout, construction", [("interleaved", paper), ("concatenated", tensor2tensor)])
def test_table_equals_the_construction(layout, construction, dim, base):
    positions = [0, 1, 2, 3, 17, -5, 2.25, 511]
    close(table(at(*positions), dim, base, layout), rows(construction, positions, dim, base))


@pytest.mark.parametrize("embed_at", ["input", "layer_qk", "layer_qkv"])
def test_attention_layer_equals_the_construction(embed_at):
    torch.manual_seed(0)
    positions, volume, dim = [4, 5, 6, 7, 11], 0.5, 8
    encoding = posenc.make("sinusoidal", embed_at=embed_at, volume=volume)
    layer = posenc.SelfAttention(dim, 2, encoding.in_layers()).double()
    x = torch.randn(1, 5, dim, dtype=torch.float64)
    position_ids = torch.tensor(positions)
    actual = layer(posenc.embed_input(encoding, x, position_ids), positions=position_ids)

    moved = x + volume * rows(paper, positions, dim)

    def heads(linear, x):
        return torch.stack([(x[0] @ linear.weight.T)[:, :4], (x[0] @ linear.weight.T)[:, 4:]])[None]

    values = x if embed_at == "layer_qk" else moved
    q, k, v = heads(layer.to_q, moved), heads(layer.to_k, moved), heads(layer.to_v, values)
    out, _ = attend(q, k, v, lambda h, i, j, q_i, k_j: dot(q_i, k_j) / math.sqrt(4))
    close(actual, torch.cat((out[:, 0], out[:, 1]), dim=-1) @ layer.to_out.weight.T)


# What must hold


def test_single_precision_is_as_exact_far_out_as_near():
    far = [5, 10**6, 10**7 + 1]  # where a product in float32 is off by .03 and .5 radians
    found = table(torch.tensor(far), 64)
    assert found.dtype == torch.float32
    close(found.double(), rows(paper, far, 64), 1e-7)


@quick
@given(p=floats, k=floats, half=st.integers(1, 8), base=st.floats(2, 1e6))
def test_any_offset_is_one_rotation(p, k, half, base):
    moved = table(at(p), 2 * half, base)[0] @ rotation(k, 2 * half, base)
    close(table(at(p + k), 2 * half, base)[0], moved, 1e-10)
