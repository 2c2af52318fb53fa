"""The schemes that scale RoPE, against the papers' equations in plain loops and against transformers."""

import itertools
import math
from functools import partial

import pytest
import torch
from loops import close, inputs, normal
from transformers import LlamaConfig
from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
from transformers.models.deepseek_v3.modeling_deepseek_v3 import yarn_apply_mscale

import posenc
from posenc import scaling
from posenc.rotate.rope import rope


def plain(i, dim, base):
    return base ** (-2 * i / dim)


def linear_lane(i, dim, s, base=10000.0):
    """f'(x, m) = f(x, m / s): the angle of position m is (m / s) w."""
    return 1 / s * plain(i, dim, base)


def ntk_lane(i, dim, s, base=10000.0):
    """b' = b s^(D / (D - 2))."""
    return plain(i, dim, base * s ** (dim / (dim - 2)))


def dynamic_lane(i, dim, f, length, trained, base=10000.0):
    longest = length if length > trained else trained
    return plain(i, dim, base * ((f * longest / trained) - (f - 1)) ** (dim / (dim - 2)))


def by_parts_lane(i, dim, s, trained, low, high, base=10000.0):
    """h(w) = (1 - gamma(r)) w / s + gamma(r) w, r = L / wavelength."""
    w = plain(i, dim, base)
    r = trained / (2 * math.pi / w)
    gamma = 0 if r < low else 1 if r > high else (r - low) / (high - low)
    return (1 - gamma) * w / s + gamma * w


def lanes_lane(i, dim, s, trained, low, high, base=10000.0):
    """The same with gamma falling from 1 to 0 between the lanes that turn `high` and `low` times, rounded outwards."""
    w = plain(i, dim, base)
    first = max(math.floor(dim * math.log(trained / (high * 2 * math.pi)) / (2 * math.log(base))), 0)
    last = min(math.ceil(dim * math.log(trained / (low * 2 * math.pi)) / (2 * math.log(base))), dim - 1)
    last = last if last > first else first + 1e-3
    ramp = 0 if i < first else 1 if i > last else (i - first) / (last - first)
    return w / s * ramp + w * (1 - ramp)


def llama3_lane(i, dim, s, trained=8192, low=1.0, high=4.0, base=500000.0):
    w = plain(i, dim, base)
    wavelength = 2 * math.pi / w
    if wavelength < trained / high:
        return w
    if wavelength > trained / low:
        return w / s
    smooth = (trained / wavelength - low) / (high - low)
    return (1 - smooth) * w / s + smooth * w


def longrope_lane(i, dim, ratios, base):
    return plain(i, dim, base) / ratios[i]


def same(actual, lane, dim, *options, **keywords):
    frequencies = actual[0]
    assert frequencies.dtype == torch.float64 and frequencies.shape == (dim // 2,)
    expected = torch.tensor([lane(i, dim, *options, **keywords) for i in range(dim // 2)], dtype=torch.float64)
    torch.testing.assert_close(frequencies, expected, rtol=1e-12, atol=0)


@pytest.mark.parametrize("base, dim", [(100.0, 4), (10000.0, 6), (500000.0, 6), (10000.0, 128), (500000.0, 64)])
@pytest.mark.parametrize("factor", [1.0, 1.5, 8.0])
def test_every_scheme_equals_its_equation(dim, factor, base):
    same(scaling.linear(dim, factor, base=base), linear_lane, dim, factor, base)
    same(scaling.ntk(dim, factor, base=base), ntk_lane, dim, factor, base)
    for trained in (32, 4096):
        for length in (0, 1, trained - 1, trained, trained + 1, 1.5 * trained, 8 * trained):
            dynamic = scaling.dynamic_ntk(dim, factor, length=length, trained=trained, base=base)
            same(dynamic, dynamic_lane, dim, factor, length, trained, base)
        for alpha, beta in ((1.0, 32.0), (2.0, 4.0), (0.5, 64.0)):
            options = dict(trained=trained, base=base, alpha=alpha, beta=beta)
            keywords = dict(trained=trained, low=alpha, high=beta, base=base)
            same(scaling.yarn(dim, factor, **options), lanes_lane, dim, factor, **keywords)
            same(scaling.yarn(dim, factor, ramp="rotations", **options), by_parts_lane, dim, factor, **keywords)
        same(scaling.llama3(dim, factor, trained=trained, base=base), llama3_lane, dim, factor, trained, base=base)
        short, long = [1 + 0.1 * i for i in range(dim // 2)], [factor + i for i in range(dim // 2)]
        for length in (1, trained, trained + 1, 4 * trained):
            options = dict(short=short, long=long, length=length, trained=trained, base=base)
            chosen = long if length > trained else short
            same(scaling.longrope(dim, factor, **options), longrope_lane, dim, chosen, base)


def theirs(kind, dim, base, length=None, trained=4096, partial_factor=1.0, **parameters):
    """The frequencies and the factor of transformers."""
    parameters |= dict(rope_type=kind, rope_theta=base, partial_rotary_factor=partial_factor)
    parameters |= dict(original_max_position_embeddings=trained)
    sizes = dict(hidden_size=4 * dim, num_attention_heads=4, head_dim=dim, max_position_embeddings=trained)
    config = LlamaConfig(**sizes, rope_parameters=parameters)
    return ROPE_INIT_FUNCTIONS[kind](config, device="cpu", seq_len=length)


def agrees(actual, expected):
    frequencies, factor = expected
    assert actual[1] == pytest.approx(factor, rel=1e-6)
    torch.testing.assert_close(actual[0], frequencies.double(), rtol=1e-6, atol=0)


@pytest.mark.parametrize(
    "head_dim, base, partial_factor", [(16, 10000.0, 1.0), (64, 500000.0, 0.5), (128, 10000.0, 1.0)], ids=str
)
def test_every_scheme_equals_transformers(head_dim, base, partial_factor):
    dim = int(head_dim * partial_factor)
    sizes = dict(dim=head_dim, base=base, partial_factor=partial_factor)
    for factor, trained in itertools.product((1.0, 2.0, 8.0, 40.0), (64, 4096, 8192)):
        call, own = partial(theirs, trained=trained, factor=factor, **sizes), dict(trained=trained, base=base)
        agrees(scaling.linear(dim, factor, base=base), call("linear"))
        agrees(scaling.yarn(dim, factor, **own), call("yarn"))
        slow_and_fast = call("yarn", beta_slow=2.0, beta_fast=16.0, attention_factor=0.9)
        agrees(scaling.yarn(dim, factor, alpha=2.0, beta=16.0, attention_factor=0.9, **own), slow_and_fast)
        agrees(scaling.llama3(dim, factor, **own), call("llama3", low_freq_factor=1.0, high_freq_factor=4.0))
        short, long = [1 + 0.1 * i for i in range(dim // 2)], [factor + i for i in range(dim // 2)]
        for length in (1, trained, trained + 1, 5 * trained):
            agrees(scaling.dynamic_ntk(dim, factor, length=length, **own), call("dynamic", length=length))
            expected = call("longrope", length=length, short_factor=short, long_factor=long)
            agrees(scaling.longrope(dim, factor, short=short, long=long, length=length, **own), expected)


def test_yarn_equals_transformers_where_no_lane_finishes_a_turn():
    assert scaling.correction_lanes(8, trained=5) == (0, 0)
    agrees(scaling.yarn(8, 4.0, trained=5), theirs("yarn", 8, 10000.0, trained=5, factor=4.0))


@pytest.mark.parametrize(
    "s, mscale, all_dim, factor, score",
    [
        (16.0, 1.0, 1.0, 1.0, None),
        (40.0, 1.0, 1.0, 1.0, 1.87385),
        (40.0, 0.707, 0.707, 1.0, 1.58963),
        (40.0, 1.0, 0.8, 1.05697, 1.67731),
    ],
)
def test_mscale_is_that_of_transformers(s, mscale, all_dim, factor, score):
    """Ministral 3, DeepSeek-V3, V2, and two that differ; `score` is what DeepSeek's models multiply their scores by."""
    parameters = dict(factor=s, mscale=mscale, mscale_all_dim=all_dim)
    found = scaling.yarn(64, s, trained=4096, mscale=mscale, mscale_all_dim=all_dim)
    agrees(found, theirs("yarn", 64, 10000.0, trained=4096, **parameters))
    assert found[1] == pytest.approx(factor, abs=1e-5)
    if score is not None:
        scale = yarn_apply_mscale(dict(rope_type="yarn", **parameters), 1.0)
        assert scaling.get_mscale(s, all_dim) ** 2 == pytest.approx(scale) == pytest.approx(score, abs=1e-5)


def test_yarn_without_rounding_is_that_of_gpt_oss():
    call = partial(theirs, "yarn", 64, 150000.0, trained=4096, factor=32.0)
    agrees(scaling.yarn(64, 32.0, trained=4096, base=150000.0, truncate=False), call(truncate=False))
    assert ((call()[0] / call(truncate=False)[0] - 1).abs() > 0.01).sum() == 7


# Frequencies that follow the length; tests/test_properties.py has dynamic NTK in plain loops

TRAINED_AT = 8
SCHEMES = {
    "dynamic_ntk": partial(scaling.dynamic_ntk, 8, 2.0, trained=TRAINED_AT),
    "longrope": partial(scaling.longrope, 8, 4.0, short=[1.0] * 4, long=[1.0, 2.0, 3.0, 4.0], trained=TRAINED_AT),
}


def test_dynamic_serves_a_text_that_ends_before_position_0():
    q, k, v = inputs(queries=3)
    encoding = scaling.dynamic(4, partial(scaling.dynamic_ntk, 4, trained=2))
    found = posenc.attention(q, k, v, encoding, pos_q=torch.tensor([-7, -6, -5]))
    close(found, posenc.attention(q, k, v, rope(4), pos_q=torch.tensor([-7, -6, -5])), 1e-15)


@pytest.mark.parametrize("layout", ["interleaved", "half"])
@pytest.mark.parametrize("length", [8, 9, 21])
def test_dynamic_turns_by_the_frequencies_and_the_factor_of_its_length(length, layout):
    q, k, v = inputs(dim=8, queries=length)
    frequencies, factor = SCHEMES["longrope"](length=length)
    assert factor > 1.2
    fixed = rope(8, inv_freq=frequencies, attention_factor=factor, layout=layout)
    dynamic = scaling.dynamic(8, SCHEMES["longrope"], layout=layout)
    close(posenc.attention(q, k, v, dynamic), posenc.attention(q, k, v, fixed), 0)


def test_dynamic_takes_no_keys_and_refuses_triton():
    q, k, v = inputs(dim=8, queries=2, keys=0)
    encoding = scaling.dynamic(8, SCHEMES["dynamic_ntk"])
    positions = dict(pos_q=torch.arange(2), pos_k=torch.arange(0))
    assert not posenc.attention(q, k, v, encoding, causal=False, **positions).any()
    q, k, v = inputs(dim=8, dtype=torch.float32)
    with pytest.raises(posenc.UnsupportedError, match="'rotate' has no kernel"):
        posenc.attention(q, k, v, encoding, impl="triton")


@pytest.mark.parametrize("scheme", SCHEMES.values(), ids=SCHEMES)
def test_decoding_equals_the_full_pass_at_each_length(scheme):
    layer, cache = posenc.SelfAttention(16, 2, scaling.dynamic(8, scheme)).double(), posenc.KVCache()
    x = normal(2, 20, 16, seed=1)
    for t in range(20):
        close(layer(x[:, t : t + 1], cache=cache)[:, 0], layer(x[:, : t + 1])[:, -1])
    early = layer(x)[:, TRAINED_AT - 1] - layer(x[:, :TRAINED_AT])[:, -1]
    assert early.abs().max() > 1e-4, "the same token in a longer text: its angles are those of the longer text"
