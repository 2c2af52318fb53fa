r"""The rotary kernel on several axes, with learned frequencies, against the references; see test_kernels for how."""

import math

import pytest
import torch
from nan_memory import inside_nan, nan_buffers  # noqa: F401 (the fixture serves by its name)

pytest.importorskip("triton", reason="Triton is published for Linux only")

import posenc
from posenc import UnsupportedError, attention
from posenc.impls import by_kernels
from posenc.kernels import rotary, softmax
from posenc.rotate.rope2d import Rotary2d

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
HERE = dict(device=DEVICE)


def places(kind, length, axes, generator):
    """Positions [T, n], [1, T, n] or [B, T, n] with strides of their own, two sequences where there are several."""
    if kind == "ids":
        return torch.randint(-9, 60, (length, axes), generator=generator)
    batch = 1 if kind == "one row" else 2
    drawn = torch.empty(axes, length, batch).uniform_(-4, 25, generator=generator).permute(2, 1, 0)
    if kind == "without a place":
        drawn[0, ::3, 0] = drawn[1, 1::4, -1] = math.nan  # one coordinate is enough
    return drawn.double() if kind == "one row" else drawn


# ------------------------------------------------------------------------------------------------ the kernel alone

CASES = [  # queries, keys, heads, lanes, pairs, axes, of each head, learned, layout, positions, dtype
    (1, 1, 1, 16, 8, 2, True, True, "interleaved", "ids", torch.float32),
    (17, 65, 3, 16, 8, 2, True, True, "interleaved", "rows", torch.float32),
    (65, 33, 2, 24, 9, 3, True, True, "half", "without a place", torch.float32),  # some lanes don't turn
    (40, 17, 2, 20, 7, 1, True, True, "interleaved", "without a place", torch.float32),
    (33, 65, 9, 24, 12, 2, False, True, "half", "one row", torch.float32),  # two programs share the heads
    (65, 17, 9, 20, 5, 3, False, True, "interleaved", "ids", torch.float32),
    (65, 40, 9, 24, 12, 2, False, False, "interleaved", "without a place", torch.float32),
    (17, 130, 2, 40, 18, 3, False, False, "half", "rows", torch.float32),
    (63, 17, 2, 16, 8, 1, False, False, "half", "one row", torch.float32),
    (65, 63, 3, 32, 16, 2, True, True, "half", "without a place", torch.float16),
    (63, 17, 2, 24, 9, 3, False, True, "interleaved", "rows", torch.float16),
    (33, 65, 2, 16, 8, 0, False, True, "interleaved", "rows", torch.float32),  # RoPE that learns its frequencies
]


def reference(q, k, pos_q, pos_k, freqs, layout, factor):
    """What the kernel's docstring says, in the dtype of q, rounded once; without axes by RoPE's own reference."""

    def turned(x, positions):
        if freqs.ndim == 1:
            return posenc.rope.rotate(x, positions[..., 0][..., None, :], freqs, layout, factor)
        factors = torch.where(torch.arange(x.shape[-1], **HERE) < 2 * freqs.shape[-1], factor, 1.0)
        positions = positions if positions.ndim == 3 else positions[None]
        return posenc.rope2d.rotate(x, positions[:, None], freqs, layout) * factors

    return turned(q, pos_q), turned(k, pos_k)


@pytest.mark.sample(5)
@pytest.mark.parametrize("queries, keys, heads, lanes, pairs, axes, own, learned, layout, kind, dtype", CASES, ids=str)
def test_the_kernel_equals_the_reference(queries, keys, heads, lanes, pairs, axes, own, learned, layout, kind, dtype):
    generator = torch.Generator().manual_seed(0)
    kv_heads = heads if own else 1  # frequencies that all share are no head's own
    q, k, dout_q, dout_k = (
        torch.randn(2, count, length, lanes, generator=generator).to(DEVICE, dtype)
        for count, length in ((heads, queries), (kv_heads, keys)) * 2
    )
    shape = (*[heads] * own, *[axes] * (axes > 0), pairs)
    freqs = torch.randn(shape, generator=generator).to(DEVICE) / 4
    pos_q, pos_k = (places(kind, length, axes or 1, generator).to(DEVICE) for length in (queries, keys))

    def both(function, wide, **options):
        q_, k_ = (inside_nan(x.to(wide)) for x in (q, k))
        w = freqs.to(torch.promote_types(wide, torch.float32)).requires_grad_(learned)
        at = [x[..., 0] if axes == 0 and function is not reference else x for x in (pos_q, pos_k)]
        out = function(q_, k_, *at, w, layout, 1.2, **options)
        return *out, *torch.autograd.grad(out, (q_, k_, *[w] * learned), (dout_q.to(wide), dout_k.to(wide)))

    exact, ours = both(reference, torch.float64), both(rotary.rotate, dtype)
    assert len(exact) == len(ours) == 4 + learned
    rounding = torch.finfo(dtype).eps
    for n, (wanted, got) in enumerate(zip(exact, ours)):
        assert got.dtype == (dtype if n < 4 else torch.float32) and got.shape == wanted.shape
        scale = max(1.0 if n < 4 else 25.0, wanted.abs().max().item())
        tolerance = dict(rtol=rounding, atol=2e-5 * scale) if n < 4 else dict(rtol=1e-5, atol=4e-6 * scale)
        torch.testing.assert_close(got.double(), wanted.double(), **tolerance, msg=lambda m, n=n: f"{n}: {m}")


@pytest.mark.parametrize("axes, layout", [(0, "interleaved"), (2, "half")])
def test_frequencies_learn_beside_factors(axes, layout):
    """A gain, weights and a band grow what is turned, and so the gradient of the frequencies."""
    generator = torch.Generator().manual_seed(0)
    q, k, dout_q, dout_k = (torch.randn(2, 3, n, 20, generator=generator).to(DEVICE) for n in (17, 9) * 2)
    pos_q, pos_k = (places("ids", n, axes or 1, generator).to(DEVICE) for n in (17, 9))
    freqs = torch.randn(*[axes] * (axes > 0), 7, generator=generator).to(DEVICE) / 4
    rates, weights = torch.tensor([0.01, 0.02, 0.0], **HERE), torch.tensor([0.5, -2.0, 1.5], **HERE)
    band = torch.linspace(0.5, 1.5, 20, **HERE)

    def grown(q, k, pos_q, pos_k, freqs, rates, weights, band):
        out = reference(q, k, pos_q, pos_k, freqs, layout, 1.2)
        gains = [1.0, 1.0]
        if axes == 0:
            gains = [1 + 0.3 * torch.exp(-rates[:, None, None] * at) for at in (pos_q, pos_k)]
        return tuple(x * gain * weights[:, None, None] * band for x, gain in zip(out, gains))

    def ours(q, k, pos_q, pos_k, freqs, rates, weights, band):
        at = (pos_q, pos_k) if axes else (pos_q[:, 0], pos_k[:, 0])
        gain = {} if axes else dict(rates=rates, boost=0.3)
        return rotary.rotate(q, k, *at, freqs, layout, 1.2, weights=weights, band=band, **gain)

    def both(function, wide):
        x = [t.to(wide, copy=True).requires_grad_() for t in (q, k, freqs, weights)]
        out = function(*x[:2], pos_q, pos_k, x[2], rates.to(wide), x[3], band.to(wide))
        return *out, *torch.autograd.grad(out, x, (dout_q.to(wide), dout_k.to(wide)))

    for wanted, got in zip(both(grown, torch.float64), both(ours, torch.float32), strict=True):
        scale = max(25.0, wanted.abs().max().item())
        torch.testing.assert_close(got.double(), wanted.double(), rtol=1e-5, atol=4e-6 * scale)


def problem(queries, keys, heads=2, head_dim=16):
    generator = torch.Generator().manual_seed(0)
    return [torch.randn(1, heads, n, head_dim, generator=generator).to(DEVICE) for n in (queries, keys)]


@pytest.mark.parametrize("layout", rotary.LAYOUTS)
def test_one_axis_gives_the_bits_of_rope(layout):
    q, k = problem(33, 17)
    at, inv_freq = [torch.arange(n, **HERE) * 3 - 5 for n in (33, 17)], posenc.rope.inv_freq(12).to(DEVICE)
    plain = rotary.rotate(q, k, *at, inv_freq, layout)
    for freqs in (inv_freq[None], inv_freq.expand(2, 1, 6)):
        for one, other in zip(rotary.rotate(q, k, *(x[:, None] for x in at), freqs, layout), plain):
            assert torch.equal(one, other)


def test_a_token_without_a_place_stays_as_it_is():
    q, k = problem(17, 17)
    at = torch.rand(17, 2, **HERE) * 9
    at[3, 1] = at[16, 0] = math.nan
    for turned, x in zip(rotary.rotate(q, k, at, at, torch.ones(2, 2, 8, **HERE)), (q, k)):
        assert torch.equal(turned[:, :, [3, 16]], x[:, :, [3, 16]]) and not torch.equal(turned[:, :, 4], x[:, :, 4])


def test_the_answer_does_not_depend_on_the_blocks():
    q, k = (x.requires_grad_() for x in problem(50, 20, heads=3))
    at = [torch.rand(1, n, 2, **HERE) * 9 for n in (50, 20)]
    freqs, results = torch.randn(3, 2, 8, **HERE).requires_grad_(), []
    for tile in ((), (16, 32, 4, 1)):
        out = rotary.rotate(q, k, *at, freqs, tile=tile)
        results.append((*out, *torch.autograd.grad(out, (q, k, freqs), [x.detach().flip(2) for x in out])))
    for a, b in zip(*results):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=2e-6 * max(1.0, b.detach().abs().max().item()))


def test_empty_inputs_give_empty_outputs_and_no_gradient():
    for queries, keys in ((0, 5), (0, 0)):
        q, k = (x.requires_grad_() for x in problem(queries, keys))
        at = [torch.zeros(n, 2, **HERE) for n in (queries, keys)]
        freqs = torch.ones(2, 2, 8, **HERE, requires_grad=True)
        out = rotary.rotate(q, k, *at, freqs)
        assert [x.shape for x in out] == [q.shape, k.shape]
        (gradient,) = torch.autograd.grad(out, freqs, [torch.zeros_like(x) for x in out])
        assert torch.equal(gradient, torch.zeros_like(freqs))


def test_the_operators_pass_opcheck():
    q, k = (x.requires_grad_() for x in problem(5, 17))
    at = [torch.rand(1, n, 2, **HERE) for n in (5, 17)]
    freqs = torch.ones(2, 2, 8, **HERE)
    results = torch.library.opcheck(rotary.rotary, (q, k, *at, freqs, False, 1.0, 1.0, []))
    assert set(results.values()) == {"SUCCESS"}
    freqs.requires_grad_()
    results = torch.library.opcheck(rotary.gained_rotary, (q, k, *at, freqs, None, None, None, 0.0, True, 1.0, []))
    assert set(results.values()) == {"SUCCESS"}


ONES = torch.ones
WRONG = {  # case: (the changed arguments, the error, what it says)
    "positions that are numbers": ({"pos_q": ONES(5, **HERE)}, ValueError, r"pos_q must have shape \[5, 2\] .*\[5\]"),
    "axes of positions": ({"pos_k": ONES(5, 3, **HERE)}, ValueError, r"pos_k must have shape \[5, 2\] .*\[5, 3\]"),
    "axes of frequencies": ({"inv_freq": ONES(3, 8)}, ValueError, r"pos_q must have shape \[5, 3\] .*\[5, 2\]"),
    "heads of frequencies": ({"inv_freq": ONES(3, 2, 8)}, ValueError, "frequencies for 3 heads, q has 2"),
    "grouped keys": ({"inv_freq": ONES(2, 2, 8), "k": ONES(1, 1, 5, 16, **HERE)}, ValueError, "k has 1: repeat"),
    "lanes": ({"inv_freq": ONES(2, 9)}, ValueError, "turns 18 lanes, q has 16"),
    "shape": ({"inv_freq": ONES(1, 1, 2, 8)}, ValueError, r"inv_freq must be .*\[H, n, p/2\], got \[1, 1, 2, 8\]"),
    "no axes": ({"inv_freq": ONES(0, 8)}, ValueError, r"inv_freq must be .*\[0, 8\]"),
    "a gain": ({"rates": ONES(2, **HERE)}, UnsupportedError, r"rates.*inv_freq \[2, 8\] has axes"),
    "learned positions": ({"pos_q": ONES(5, 2, **HERE, requires_grad=True)}, UnsupportedError, "pos_q.*gradient"),
}


def never(*_, **__):
    raise AssertionError("a kernel was launched, or PyTorch turned")


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_is_named_before_a_launch(monkeypatch, case):
    monkeypatch.setattr(rotary, "launch", never)
    change, error, words = WRONG[case]
    q, at = ONES(1, 2, 5, 16, **HERE), ONES(5, 2, **HERE)
    with pytest.raises(error, match=words):
        rotary.rotate(**dict(q=q, k=q, pos_q=at, pos_k=at, inv_freq=ONES(2, 8)) | change)


# -------------------------------------------------------------------------------------------- the whole of attention

ENCODINGS = {  # name: (the encoding, heads of keys beside 4 of queries)
    "axial": (lambda: posenc.make("rope2d", head_dim=16), 2),
    "mixed": (lambda: posenc.make("rope2d", head_dim=16, form="mixed", num_heads=4), 2),
    "mixed on three axes": (lambda: posenc.rope2d.rope2d(24, "mixed", axes=3, num_heads=4, layout="half"), 4),
    "mrope": (lambda: posenc.make("mrope", head_dim=16), 1),
    "mrope on a part": (lambda: posenc.make("mrope", head_dim=16, rotary_dim=8, attention_factor=1.5), 2),
    "mixed and a stick": (
        lambda: posenc.compose(
            posenc.make("rope2d", head_dim=16, form="mixed", num_heads=4), posenc.make("stickbreaking")
        ),
        2,
    ),
}


@pytest.mark.sample(4)
@pytest.mark.parametrize("name", ENCODINGS)
def test_attention_by_the_kernels_equals_the_reference(monkeypatch, name):
    make, kv_heads = ENCODINGS[name]
    torch.manual_seed(0)
    encoding = make().to(DEVICE)
    axes, dim = encoding.axes, 24 if encoding.axes == 3 and "mrope" not in name else 16
    generator = torch.Generator().manual_seed(0)
    q, k, v, dout = (
        torch.randn(2, heads, 35, dim, generator=generator).to(DEVICE) for heads in (4, kv_heads, kv_heads, 4)
    )
    positions = torch.randint(0, 9, (2, 35, axes), generator=generator).float().to(DEVICE)
    positions[:, 0] = math.nan  # a class token

    def run(impl, dtype):
        encoding.to(dtype)
        x = [t.to(dtype, copy=True).requires_grad_() for t in (q, k, v)]
        out = attention(*x, encoding, pos_q=positions, causal=encoding.causal_only is not None, impl=impl)
        return out, *torch.autograd.grad(out, [*x, *encoding.parameters()], dout.to(dtype))

    exact = run("torch", torch.float64)
    monkeypatch.setattr(Rotary2d, "forward", never)
    ours = run("triton", torch.float32)
    assert len(exact) == 4 + ("mixed" in name)
    for n, (wanted, got) in enumerate(zip(exact, ours)):
        scale = max(1.0 if n < 4 else 25.0, wanted.abs().max().item())
        close = dict(rtol=2e-5, atol=4e-6 * scale, msg=lambda m, n=n: f"{n}: {m}")
        torch.testing.assert_close(got.double(), wanted.double(), **close)


def test_rope_with_learned_frequencies_is_served():
    q = torch.randn(1, 2, 17, 16, **HERE)
    found = []
    for impl in ("torch", "triton"):
        w = torch.tensor([0.5, 0.1, 0.02], **HERE, requires_grad=True)
        out = attention(q, q, q, posenc.make("rope", head_dim=16, inv_freq=w), impl=impl)
        found.append(torch.autograd.grad(out.sum(), w)[0])
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)


def test_the_rotation_inside_the_softmax_kernel_refuses_what_the_rotary_kernel_serves(monkeypatch):
    monkeypatch.setattr(softmax, "launch", never)
    (q, k), at = problem(5, 5), torch.arange(5, **HERE)
    with pytest.raises(UnsupportedError, match="inv_freq.*gradient.*rotary"):
        softmax.attend(q, k, k, pos_q=at, pos_k=at, inv_freq=torch.ones(8, requires_grad=True))
    with pytest.raises(ValueError, match=r"inv_freq must .*\[2, 8\]"):
        softmax.attend(q, k, k, pos_q=at, pos_k=at, inv_freq=torch.ones(2, 8))


def test_what_reads_positions_that_are_numbers_is_refused_beside_axes():
    q, at = torch.ones(1, 2, 5, 16, **HERE), torch.ones(1, 5, 2, **HERE)
    encoding = posenc.compose(posenc.make("rope2d", head_dim=16), posenc.make("alibi", num_heads=2))
    with pytest.raises(UnsupportedError, match="'linear'.*axes=2"):
        by_kernels(q, q, q, encoding, at, at, True, None, 1.0)


def test_explain_impl_says_what_turns(monkeypatch, capsys):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda _: (9, 0))

    def line(encoding, impl="auto"):
        return posenc.explain_impl(encoding, impl, device="cuda", dtype=torch.float16, head_dim=16)

    axial, stick = posenc.make("rope2d", head_dim=16), posenc.make("stickbreaking")
    assert line(axial).startswith("impl='sdpa'") and "2 axes" in line(axial, "triton")
    assert "3 axes" in line(posenc.compose(posenc.make("mrope", head_dim=16), stick))
    for name in ("liere", "comrope"):
        blocks = posenc.make(name, head_dim=16, num_heads=2)
        assert line(blocks).startswith("impl='sdpa'") and "matrix products in PyTorch" in line(blocks)
        assert line(posenc.compose(blocks, stick)).startswith("impl='torch'")
        with pytest.raises(UnsupportedError, match="'rotate'.*matrix products in PyTorch"):
            line(blocks, "triton")
