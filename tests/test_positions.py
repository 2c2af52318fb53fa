"""What positions may be: integers that no difference wraps around, float32 and float64, all of them finite."""

import math

import pytest
import torch
from cases import DIM, HEAD_DIM, HEADS, Block, along_a_line, causal_modes, encoding, tokens
from torch._subclasses.fake_tensor import FakeTensorMode

import posenc
from posenc.bias.alibi import bias
from posenc.rotate.rope import inv_freq, rotate

AT = [250, 3, 200, 7, 120, 0]  # a key seen later may stand before: in 8 bits their difference wraps
NARROW = (torch.uint8, torch.int16, torch.uint16, torch.int32)
HALF = (torch.bfloat16, torch.float16)


def qkv(dtype=torch.float64):
    return torch.randn(3, 2, HEADS, len(AT), HEAD_DIM, generator=torch.Generator().manual_seed(1)).to(dtype)


def placed(name, dtype):
    """AT in this dtype, on a line where the method of this name has axes; small enough for the line's second axis."""
    axes = encoding(name).axes
    at = torch.tensor(AT) if axes is None else torch.tensor(AT) // axes
    return along_a_line(at, axes).to(dtype)


@pytest.mark.parametrize("name", posenc.METHODS)
def test_integers_of_any_width_stand_where_int64_does(name):
    for causal in causal_modes(name):
        expected = attend_at(name, placed(name, torch.int64), causal)
        for dtype in NARROW:
            torch.testing.assert_close(attend_at(name, placed(name, dtype), causal), expected, rtol=0, atol=0)


@pytest.mark.parametrize("impl", ["torch", "triton"])
@pytest.mark.parametrize("name", ["rope", "mrope", "rope2d-mixed", "exposb", "liere"])
def test_far_out_float32_is_as_exact_as_near(name, impl):
    """Where angles in float32 are off by .03 (10^6) and .5 (10^7) radians, and LieRE's by more."""
    if impl == "triton":
        pytest.importorskip("triton", reason="Triton is published for Linux only")
        if not hasattr(encoding(name).rotate, "kernel"):
            return
    for start in (10**6, 10**7 + 1):
        at = placed(name, torch.int64) + start
        exact, near = attend_at(name, at), attend_at(name, at, impl=impl, dtype=torch.float32)
        torch.testing.assert_close(near.double(), exact, rtol=0, atol=5e-6)


def attend_at(name, at, causal=True, impl="auto", dtype=torch.float64):
    made = encoding(name).to(dtype)
    q, k, v = qkv(dtype)
    gates = None
    if made.gates is not None:
        size, activation = made.gates
        gates = activation(torch.randn(*q.shape[:3], *size, generator=torch.Generator().manual_seed(2)).double())
    return posenc.attention(q, k, v, made, pos_q=at, causal=causal, gates=gates, impl=impl)


@pytest.mark.parametrize("name", posenc.METHODS)
def test_a_block_and_its_cache_take_narrow_integers(name):
    at = placed(name, torch.uint8)
    x, layer, cache = tokens(2, len(AT)), Block(name).attention, posenc.KVCache()
    torch.testing.assert_close(layer(x, positions=at), layer(x, positions=at.long()), rtol=0, atol=0)
    layer(x[:, :4], positions=at[:4], cache=cache)
    assert cache.positions.dtype == torch.int64


@pytest.mark.parametrize("name", ["nope", "t5", "rope2d"])
def test_half_precision_and_what_is_no_number_are_refused(name):
    for dtype in HALF:
        with pytest.raises(TypeError, match=rf"pos_q.*{dtype}.*integers.*float32"):
            attend_at(name, placed(name, dtype))
    with pytest.raises(TypeError, match="pos_q.*bool"):
        attend_at(name, placed(name, torch.int64) > 5)
    for wrong in (math.nan, math.inf, -math.inf):
        at = placed(name, torch.float32)
        at[2] = wrong
        if math.isnan(wrong) and encoding(name).axes is not None:  # a token without a place
            assert attend_at(name, at).isfinite().all()
            continue
        with pytest.raises(ValueError, match=f"pos_q holds {wrong}"):
            attend_at(name, at)


def test_functions_that_take_distances_convert_too():
    apart = torch.tensor([-128, 0, 127], dtype=torch.int8)
    for function in (posenc.t5.bucket, posenc.exposb.fade):
        assert torch.equal(function(apart), function(apart.long()))


@pytest.mark.parametrize("name", ["sinusoidal", "learned"])
def test_an_embedding_converts_too(name):
    embed, x, at = encoding(name).embed, torch.zeros(1, len(AT), DIM), torch.tensor(AT)[None]
    assert torch.equal(embed(x, at.to(torch.uint8)), embed(x, at))
    with pytest.raises(TypeError, match="positions.*bfloat16"):
        embed(x, at.bfloat16())


def test_values_are_asked_for_on_a_cpu_and_outside_of_graphs_alone():
    slopes, at = torch.tensor([0.5, 0.1]), torch.arange(12.0).view(3, 4)
    each = torch.vmap(lambda p: bias(p, p, slopes))(at)
    torch.testing.assert_close(each, bias(at, at, slopes))
    with FakeTensorMode():
        assert rotate(torch.ones(4, 8), torch.arange(4.0), inv_freq(8)).shape == (4, 8)
    assert rotate(torch.ones(4, 8, device="meta"), torch.full((4,), math.nan, device="meta"), inv_freq(8)).is_meta
