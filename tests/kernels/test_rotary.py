r"""The rotary kernel: on a line and on axes, with learned frequencies and ExpoSB's factors; see test_kernels."""

import math
import re

import pytest
import torch
from beside import CUDA, DEVICE, drawn, hold, leaves, never, problem
from nan_memory import inside_nan, nan_buffers  # noqa: F401 (the fixture serves by its name)

pytest.importorskip("triton", reason="Triton is published for Linux only")

import posenc
from posenc import UnsupportedError, attention
from posenc.impls import by_kernels
from posenc.kernels import rotary, softmax
from posenc.rotate.rope2d import Rotary2d
from posenc.several import exposb

HERE = dict(device=DEVICE)
SINGLE, HALF = torch.float32, torch.float16
inv_freq = posenc.rope.inv_freq

CASES = [  # queries, keys, heads, lanes, pairs, axes, frequencies, layout, positions, rates weights band, dtype
    (17, 65, 3, 16, 8, 2, "own", "interleaved", "rows", "", SINGLE),
    (65, 33, 2, 24, 9, 3, "own", "half", "without a place", "", SINGLE),  # some lanes don't turn
    (40, 17, 2, 20, 7, 1, "own", "interleaved", "without a place", "", SINGLE),
    (33, 65, 9, 24, 12, 2, "learned", "half", "one row", "", SINGLE),  # two programs share the heads
    (65, 17, 9, 20, 5, 3, "learned", "interleaved", "ids", "", SINGLE),
    (65, 40, 9, 24, 12, 2, "given", "interleaved", "without a place", "", SINGLE),
    (17, 130, 2, 40, 18, 3, "given", "half", "rows", "", SINGLE),
    (33, 65, 2, 16, 8, 0, "learned", "interleaved", "rows", "", SINGLE),  # RoPE that learns its frequencies
    (65, 30, 9, 20, 10, 0, "given", "interleaved", "rows", "rwb", SINGLE),
    (65, 63, 3, 32, 16, 2, "own", "half", "without a place", "", HALF),
    (40, 65, 2, 40, 9, 0, "given", "half", "rows", "rwb", SINGLE),
    (40, 130, 2, 80, 30, 0, "given", "interleaved", "rows", "rwb", SINGLE),
    (65, 63, 3, 64, 32, 0, "given", "half", "rows", "rwb", HALF),
    (63, 17, 2, 24, 9, 3, "learned", "interleaved", "rows", "", HALF),
    (65, 17, 2, 16, 8, 0, "given", "interleaved", "rows", "r", SINGLE),
    (17, 65, 2, 16, 8, 0, "given", "half", "rows", "wb", SINGLE),
    (33, 33, 2, 24, 9, 0, "given", "interleaved", "ids", "b", SINGLE),
    (33, 33, 2, 24, 9, 0, "given", "half", "ids", "w", SINGLE),
    (17, 9, 3, 20, 7, 0, "learned", "interleaved", "ids", "rwb", SINGLE),
    (17, 9, 3, 20, 7, 2, "learned", "half", "ids", "wb", SINGLE),
    (1, 1, 1, 16, 8, 2, "own", "interleaved", "ids", "", SINGLE),
]


def places(kind, length, axes, generator):
    """Positions [T, n], [1, T, n] or [B, T, n] with strides of their own, two sequences where there are several."""
    if kind == "ids":
        return torch.randint(-9, 60, (length, axes), generator=generator)
    batch = 1 if kind == "one row" else 2
    drawn = torch.empty(axes, length, batch).uniform_(-4, 25, generator=generator).permute(2, 1, 0)
    if kind == "without a place":
        drawn[0, ::3, 0] = drawn[1, 1::4, -1] = math.nan  # one coordinate is enough
    return drawn.double() if kind == "one row" else drawn


def reference(q, k, pos_q, pos_k, freqs, layout, factor, boost, rates=None, weights=None, band=None):
    """What the kernel's docstring says, in the dtype of q, rounded once; without axes by RoPE's own reference."""

    def grown(x, positions):
        if freqs.ndim == 1:
            positions = positions[..., 0][..., None, :]  # [B or none, 1, T]
            x = posenc.rope.rotate(x, positions, freqs, layout, factor)
        else:
            factors = torch.where(torch.arange(x.shape[-1], **HERE) < 2 * freqs.shape[-1], factor, 1.0)
            positions = positions if positions.ndim == 3 else positions[None]
            x = posenc.rope2d.rotate(x, positions[:, None], freqs, layout) * factors
        if rates is not None:
            x = x * (1 + boost * torch.exp(-rates[:, None] * positions))[..., None]
        x = x if weights is None else x * weights[:, None, None]
        return x if band is None else x * band

    return grown(q, pos_q), grown(k, pos_k)


@pytest.mark.sample(4)
@pytest.mark.parametrize("queries, keys, heads, lanes, pairs, axes, kind, layout, where, given, dtype", CASES, ids=str)
def test_the_kernel_equals_the_reference(queries, keys, heads, lanes, pairs, axes, kind, layout, where, given, dtype):
    generator = torch.Generator().manual_seed(0)
    kv_heads = 1 if kind != "own" and given in ("", "b") else heads  # frequencies and bands of all are no head's own
    q, k, *gradients = drawn(*((2, *shape, lanes) for shape in ((heads, queries), (kv_heads, keys)) * 2))
    q, k, *gradients = (x.to(dtype) for x in (q, k, *gradients))
    shape = (*[heads] * (kind == "own"), *[axes] * (axes > 0), pairs)
    freqs = torch.randn(shape, generator=generator).to(DEVICE) / 4
    pos_q, pos_k = (places(where, length, axes or 1, generator).to(DEVICE) for length in (queries, keys))
    every = {
        "rates": torch.rand(heads, generator=generator) / 20,
        "weights": torch.randn(heads, generator=generator),  # of both signs
        "band": torch.rand(lanes, generator=generator) + 0.5,
    }
    every["weights"][0] = 0.0  # which nothing may be divided by

    def both(function, wide):
        x = [inside_nan(x.to(wide)) for x in (q, k)]
        at_least = torch.promote_types(wide, SINGLE)
        w = freqs.to(at_least).requires_grad_(kind != "given")
        own = {name: value.to(DEVICE, at_least) for name, value in every.items() if name[0] in given}
        learned = [*[w] * (kind != "given"), *(value.requires_grad_() for name, value in own.items() if name != "band")]
        at = [p[..., 0] if axes == 0 and function is not reference else p for p in (pos_q, pos_k)]
        out = function(*x, *at, w, layout, 1.2, boost=0.3, **own)
        return *out, *torch.autograd.grad(out, [*x, *learned], [g.to(wide) for g in gradients])

    exact, ours = both(reference, torch.float64), both(rotary.rotate, dtype)
    assert [x.dtype for x in ours] == [dtype] * 4 + [SINGLE] * (len(exact) - 4)
    hold(exact[:4], ours[:4], rtol=torch.finfo(dtype).eps, atol=2e-5)
    hold(exact, [*exact[:4], *ours[4:]], atol=4e-6)


HEADS_AND_LANES = [(1, 1, 16, 8), (12, 4, 32, 8), (3, 3, 80, 30), (9, 3, 64, 1)]


@pytest.mark.sample(8)
@pytest.mark.parametrize("dtype", [SINGLE, HALF], ids=str)
@pytest.mark.parametrize("layout", rotary.LAYOUTS)
@pytest.mark.parametrize("heads, kv_heads, lanes, pairs", HEADS_AND_LANES)
def test_far_into_a_text_it_is_the_reference_to_the_last_bit_but_one(heads, kv_heads, lanes, pairs, layout, dtype):
    generator = torch.Generator().manual_seed(0)
    q, k = (inside_nan(x.to(dtype)) for x in drawn((2, heads, 65, lanes), (2, kv_heads, 100, lanes)))
    pos_q, pos_k = torch.randint(0, 9000, (2, 65), generator=generator).to(DEVICE), torch.arange(100, **HERE) * 1.5
    w = inv_freq(2 * pairs)
    reference = [posenc.rope.rotate(x, p, w, layout, 1.2) for x, p in ((q, pos_q[:, None]), (k, pos_k))]
    gradients = [x.detach().flip(2) for x in reference]
    both = [(*out, *torch.autograd.grad(out, (q, k), gradients)) for out in (
        rotary.rotate(q, k, pos_q, pos_k, w, layout, 1.2), reference
    )]  # fmt: skip
    for a, b in zip(*both):
        torch.testing.assert_close(a, b, rtol=torch.finfo(dtype).eps, atol=1e-6)
        assert torch.equal(a[..., 2 * pairs :], b[..., 2 * pairs :])  # the lanes that don't turn


@pytest.mark.parametrize("axes", [0, 2])
def test_the_answer_does_not_depend_on_the_blocks(axes):
    q, k = leaves(*drawn((1, 3, 50, 16), (1, 3, 20, 16)))
    rates, weights = (torch.tensor(x, **HERE, requires_grad=True) for x in ([0.1, 0.01, 0.0], [0.5, -2.0, 1.0]))
    at, freqs, factors = [torch.arange(n, **HERE) for n in (50, 20)], inv_freq(16), dict(rates=rates, boost=0.3)
    if axes:
        at, freqs, factors = [torch.rand(1, n, 2, **HERE) * 9 for n in (50, 20)], torch.randn(3, 2, 8, **HERE), {}
    learned, results = [freqs.requires_grad_() if axes else rates, weights], []
    for tile in ((), (16, 16, 4, 1), (64, 32, 4, 1)):
        out = rotary.rotate(q, k, *at, freqs, weights=weights, tile=tile, **factors)
        results.append((*out, *torch.autograd.grad(out, (q, k, *learned), [x.detach().flip(2) for x in out])))
    for other in results[1:]:
        hold(results[0], other)


def test_empty_inputs_give_empty_outputs_and_no_gradient():
    for queries, keys in ((0, 5), (5, 0), (0, 0)):
        q, k = leaves(*drawn((1, 2, queries, 16), (1, 2, keys, 16)))
        at, rates = [torch.arange(n, **HERE) for n in (queries, keys)], torch.ones(2, **HERE, requires_grad=True)
        freqs = torch.ones(8, **HERE, requires_grad=True)
        out = rotary.rotate(q, k, *at, freqs, rates=rates, boost=0.2)
        assert [x.shape for x in out] == [q.shape, k.shape]
        for gradient in torch.autograd.grad(out, (rates, freqs), [torch.zeros_like(x) for x in out]):
            assert not gradient.any()


@pytest.mark.sample(3)
@pytest.mark.parametrize("learned, factors", [(True, "wb"), (False, ""), (False, "rwb"), (False, "w")])
def test_the_operators_pass_opcheck(learned, factors):
    q, k = leaves(*drawn((1, 2, 5, 16), (1, 2, 17, 16)))
    axes = "r" not in factors
    at = [torch.rand(1, n, 2, **HERE) if axes else torch.arange(n, **HERE) for n in (5, 17)]
    freqs = torch.ones(2, 2, 8, **HERE) if axes else inv_freq(16).to(DEVICE)
    rates, weights = (torch.ones(2, **HERE, requires_grad=True) if name in factors else None for name in "rw")
    band = torch.ones(16, **HERE) if "b" in factors else None
    if learned or factors:
        given = (q, k, *at, freqs.requires_grad_(learned), rates, weights, band, 0.2, False, 1.0, [])
        results = torch.library.opcheck(rotary.gained_rotary, given)
    else:
        results = torch.library.opcheck(rotary.rotary, (q, k, *at, freqs, True, 1.0, 1.0, []))
    assert set(results.values()) == {"SUCCESS"}


def ones(*shape, **options):
    return torch.ones(shape, **HERE, **options)


PLANE = {"pos_q": ones(5, 2), "pos_k": ones(5, 2), "inv_freq": ones(2, 8)}
WRONG = [  # the changed arguments, the error, what it says
    ({"rates": ones(3)}, ValueError, r"rates must be .*\[2\], got .*\[3\]"),
    ({"weights": ones(2).double()}, ValueError, "weights must be float32.*float64"),
    ({"band": [1.0] * 16}, TypeError, "band .*list"),
    ({"rates": ones(2), "boost": "x"}, TypeError, "boost='x'"),
    ({"weights": ones(2), "k": ones(1, 1, 5, 16)}, ValueError, "k has 1"),
    ({"band": ones(16, requires_grad=True)}, UnsupportedError, "band.*gradient"),
    (PLANE | {"pos_q": ones(5)}, ValueError, r"pos_q must have shape \[5, 2\] .*\[5\]"),
    (PLANE | {"inv_freq": ones(3, 2, 8)}, ValueError, "frequencies for 3 heads, q has 2"),
    (PLANE | {"inv_freq": ones(2, 9)}, ValueError, "turns 18 lanes, q has 16"),
    (PLANE | {"rates": ones(2)}, UnsupportedError, r"rates.*inv_freq \[2, 8\] has axes"),
    ({"pos_q": ones(5, requires_grad=True)}, UnsupportedError, "pos_q.*gradient"),
]


def test_bad_input_is_named_before_a_launch(monkeypatch):
    monkeypatch.setattr(rotary, "launch", never)
    q, at = ones(1, 2, 5, 16), torch.arange(5, **HERE)
    for change, error, words in WRONG:
        with pytest.raises(error, match=words):
            rotary.rotate(**dict(q=q, k=q, pos_q=at, pos_k=at, inv_freq=inv_freq(16)) | change)


def made(**options):
    """An ExpoSB whose learned numbers are no longer those of the start: one rate below zero, whose size counts."""
    encoding = posenc.make("exposb", head_dim=16, num_heads=4, **options)
    if encoding.rotate.decay_rates is not None:
        encoding.rotate.decay_rates.data = torch.linspace(-0.02, 0.05, 4)
    if encoding.rotate.band_weights is not None:
        encoding.rotate.band_weights.data = torch.linspace(0.5, 1.5, 4)
    return encoding


def mixed():
    return posenc.make("rope2d", head_dim=16, form="mixed", num_heads=4)


STICK = posenc.make("stickbreaking")
ENCODINGS = {  # name: (the encoding, heads of keys beside 4 of queries)
    "axial": (lambda: posenc.make("rope2d", head_dim=16), 2),
    "mixed": (mixed, 2),
    "exposb": (made, 2),
    "mrope": (lambda: posenc.make("mrope", head_dim=16, rotary_dim=8, attention_factor=1.5), 1),
    "mixed and a stick": (lambda: posenc.compose(mixed(), STICK), 2),
    "mixed on three axes": (lambda: posenc.rope2d.rope2d(24, "mixed", axes=3, num_heads=4, layout="half"), 4),
    "exposb and a stick": (lambda: posenc.compose(made(decay=False), STICK), 2),
    "exposb's gain": (lambda: made(band=False, decay=False), 4),
    "exposb's band": (lambda: made(gain=False, decay=False), 1),
}


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", ENCODINGS)
def test_attention_by_the_kernels_equals_the_reference(monkeypatch, name):
    """Two rows of a batch, packed, each with positions of its own."""
    make, kv_heads = ENCODINGS[name]
    torch.manual_seed(0)
    encoding, generator = make().to(DEVICE), torch.Generator().manual_seed(0)
    *tensors, dout = problem(35, 35, 4, kv_heads, head_dim=24 if "three" in name else 16, batch=2)
    tensors = [x.float() for x in tensors]
    segment = torch.tensor([[0] * 25 + [1] * 10, [0] * 34 + [1]], **HERE)
    shape = (2, 35, encoding.axes) if encoding.axes else (2, 35)
    positions = torch.randint(-9, 60, shape, generator=generator).float().to(DEVICE)
    if encoding.axes:
        positions[:, 0] = math.nan  # a class token

    def run(impl, dtype):
        encoding.to(dtype)
        x = leaves(*tensors, dtype=dtype)
        given = dict(pos_q=positions, pos_k=positions, mask=segment[:, None, :, None] == segment[:, None, None, :])
        out = attention(*x, encoding, causal=encoding.causal_only is not None, impl=impl, **given)
        return out, *torch.autograd.grad(out, [*x, *encoding.parameters()], dout.to(dtype))

    exact = run("torch", torch.float64)
    monkeypatch.setattr(Rotary2d, "forward", never)
    for method in ("forward", "factors"):
        monkeypatch.setattr(exposb.GainedRotary, method, never)
    hold(exact, run("triton", SINGLE), rtol=2e-5, atol=4e-6)


def test_rope_with_learned_frequencies_is_served():
    (q,), found = leaves(*drawn((1, 2, 17, 16))), []
    for impl in ("torch", "triton"):
        w = torch.tensor([0.5, 0.1, 0.02], **HERE, requires_grad=True)
        out = attention(q, q, q, posenc.make("rope", head_dim=16, inv_freq=w), impl=impl)
        found.append(torch.autograd.grad(out.sum(), w)[0])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_what_the_kernels_do_not_serve_is_refused(monkeypatch):
    monkeypatch.setattr(softmax, "launch", never)
    q, at = ones(1, 2, 5, 16), torch.arange(5, **HERE)
    with pytest.raises(UnsupportedError, match="inv_freq.*gradient.*rotary"):  # what the rotary kernel serves
        softmax.attend(q, q, q, pos_q=at, pos_k=at, inv_freq=torch.ones(8, requires_grad=True))
    with pytest.raises(ValueError, match=r"inv_freq must .*\[2, 8\]"):
        softmax.attend(q, q, q, pos_q=at, pos_k=at, inv_freq=torch.ones(2, 8))
    plane = posenc.compose(posenc.make("rope2d", head_dim=16), posenc.make("alibi", num_heads=2))
    with pytest.raises(UnsupportedError, match="'linear'.*axes=2"):
        by_kernels(q, q, q, plane, ones(1, 5, 2), ones(1, 5, 2), True, None, 1.0)
    for options in ({}, {"band": False}, {"gain": False}):
        with pytest.raises(ValueError, match=r"\[H\] = \[2\].*\[4\]"):
            by_kernels(q, q, q, made(decay=False, **options).to(DEVICE), at[None], at[None], True, None, 1.0)


@pytest.mark.skipif(CUDA, reason="pretends that there is a GPU")
def test_explain_impl_says_what_turns(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))
    blocks, plane = posenc.make("liere", head_dim=16, num_heads=2), posenc.make("rope2d", head_dim=16)
    for encoding, impl, words in (
        (plane, "auto", "^impl='sdpa'"),
        (plane, "triton", "rotary kernel turns"),
        (blocks, "auto", "^impl='sdpa'.*matrix products in PyTorch"),
        (posenc.compose(blocks, STICK), "auto", "^impl='torch'"),
    ):
        assert re.search(words, posenc.explain_impl(encoding, impl, device="cuda", dtype=HALF, head_dim=16))
    with pytest.raises(UnsupportedError, match="'rotate'.*matrix products in PyTorch"):
        posenc.explain_impl(blocks, "triton", device="cuda", dtype=HALF, head_dim=16)
