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


@pytest.mark.parametrize("dim", DIMS)
def test_one_rotation_carries_every_position_by_the_same_offset(dim):
    for offset in (1, 7, -3, 0.5):
        for p in (0, 1, 10, 333):
            close(table(at(p + offset), dim)[0], table(at(p), dim)[0] @ rotation(offset, dim))
            backward = table(at(p), dim)[0] @ rotation(-offset, dim)
            assert (table(at(p + offset), dim)[0] - backward).abs().max() > 1e-3


@pytest.mark.parametrize("dim", DIMS)
def test_squared_norm_is_half_the_width(dim):
    for layout in ("interleaved", "concatenated"):
        close(table(at(0, 1, 9, 4096.5), dim, layout=layout).square().sum(-1), at(*[dim / 2] * 4))


def test_frequencies_fall_from_one_to_the_last_that_is_not_one_over_base():
    code = table(at(1), 384)[0]
    frequencies = torch.asin(code[0::2])
    assert (frequencies[1:] < frequencies[:-1]).all(), "small i is the fastest"
    assert math.isclose(frequencies[0], 1.0) and round(frequencies[1].item(), 3) == 0.953
    assert math.isclose(frequencies[-1], 10000 ** -(382 / 384)) and not math.isclose(
        frequencies[-1], 1e-4, rel_tol=0.01
    )
    close(frequencies[1:] / frequencies[:-1], torch.full((191,), 10000 ** (-2 / 384), dtype=torch.float64))  # geometric
    last = torch.asin(table(at(1), 384, layout="concatenated")[0, 191])
    assert math.isclose(last, 1e-4), "tensor2tensor's ladder ends at 1/base exactly"


def test_the_two_layouts_are_different_ladders():
    interleaved, concatenated = table(at(5), 8)[0], table(at(5), 8, layout="concatenated")[0]
    regrouped = torch.cat((interleaved[0::2], interleaved[1::2]))
    assert regrouped[0] == concatenated[0] and (regrouped - concatenated)[1:4].abs().min() > 1e-3


def test_multiplying_normal_embeddings_by_sqrt_width_drowns_it():
    width = 512
    words = torch.randn(1000, width, generator=torch.Generator().manual_seed(0))  # PyTorch's nn.Embedding: N(0, 1)
    code = table(torch.arange(1000), width)
    share = code.square().mean() / (code.square().mean() + (words * width**0.5).square().mean())
    fair = code.square().mean() / (code.square().mean() + (words * width**-0.5 * width**0.5).square().mean())
    assert abs(fair - 1 / 3) < 0.01 and share < 1 / 900  # 1/2 against 1, and against 512


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
def test_half_precision_inputs_do_not_round_positions(dtype):
    positions = [255, 256, 257, 259, 2049, 4097]
    x = torch.zeros(1, len(positions), 64, dtype=dtype)
    out = posenc.make("sinusoidal").embed(x, torch.tensor(positions)[None])
    assert out.dtype == dtype
    close(out[0].double(), rows(paper, positions, 64), 4e-3)  # one rounding of a number up to 1


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


@pytest.mark.parametrize("layout", posenc.sinusoidal.LAYOUTS)
def test_the_sinusoid_is_added_in_its_layout(layout):
    x, positions = torch.randn(2, 5, 8), torch.arange(5)
    encoding = posenc.make("sinusoidal", base=100.0, layout=layout, volume=0.5)
    close(encoding.embed(x, positions), x + 0.5 * table(positions, 8, 100.0, layout), 1e-6)
    for dtype in (torch.bfloat16, torch.float64):
        assert encoding.embed(x.to(dtype), positions).dtype == dtype
