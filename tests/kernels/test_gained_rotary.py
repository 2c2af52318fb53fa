r"""ExpoSB's rotation, gain and band in one launch, against the reference, on a GPU or through Triton's interpreter."""

import pytest
import torch
from nan_memory import inside_nan, nan_buffers  # noqa: F401 (the fixture serves by its name)

pytest.importorskip("triton", reason="Triton is published for Linux only")

import posenc
from posenc import UnsupportedError, attention
from posenc.impls import by_kernels
from posenc.kernels import rotary
from posenc.several import exposb

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


# ------------------------------------------------------------------------------------------------ the kernel alone

FACTORS = {  # which are given, and the extra at position 0
    "all": ("rates", "weights", "band"),
    "gain": ("rates",),
    "band": ("weights", "band"),
    "lanes": ("band",),
    "head": ("weights",),
}
CASES = [  # queries, keys, heads, lanes, pairs that turn, layout, factors, dtype
    (1, 1, 1, 16, 8, "interleaved", "all", torch.float32),
    (17, 17, 3, 16, 8, "half", "all", torch.float32),
    (63, 40, 2, 32, 16, "interleaved", "all", torch.float32),
    (65, 30, 9, 20, 10, "interleaved", "all", torch.float32),  # two programs share the heads, the second has one
    (40, 65, 9, 20, 10, "half", "all", torch.float32),
    (40, 130, 2, 80, 30, "interleaved", "all", torch.float32),  # some lanes don't turn
    (40, 65, 2, 40, 9, "half", "all", torch.float32),
    (65, 17, 2, 16, 8, "interleaved", "gain", torch.float32),
    (17, 65, 2, 16, 8, "half", "band", torch.float32),
    (33, 33, 2, 24, 9, "interleaved", "lanes", torch.float32),
    (33, 33, 2, 24, 9, "half", "head", torch.float32),
    (65, 63, 3, 64, 32, "interleaved", "all", torch.float16),
    (63, 65, 3, 24, 9, "half", "all", torch.float16),
]


def reference(q, k, pos_q, pos_k, inv_freq, layout, factor, boost, rates=None, weights=None, band=None):
    """What the kernel's docstring says, in the dtype of q, rounded once."""

    def grown(x, positions):
        x = posenc.rope.rotate(x, positions[:, None], inv_freq, layout, factor)
        if rates is not None:
            x = x * (1 + boost * torch.exp(-rates[:, None] * positions[:, None]))[..., None]
        if weights is not None:
            x = x * weights[:, None, None]
        return x if band is None else x * band

    return grown(q, pos_q), grown(k, pos_k)


@pytest.mark.sample(5)
@pytest.mark.parametrize("queries, keys, heads, lanes, pairs, layout, given, dtype", CASES, ids=str)
def test_the_kernel_equals_the_reference(queries, keys, heads, lanes, pairs, layout, given, dtype):
    generator = torch.Generator().manual_seed(0)
    kv_heads = 1 if given == "lanes" else heads  # the lanes' factors are no head's own
    q, k, dout_q, dout_k = (
        torch.randn(2, count, length, lanes, generator=generator).to(DEVICE, dtype)
        for count, length in ((heads, queries), (kv_heads, keys)) * 2
    )
    every = {
        "rates": torch.rand(heads, generator=generator) / 20,
        "weights": torch.randn(heads, generator=generator),  # of both signs
        "band": torch.rand(lanes, generator=generator) + 0.5,
    }
    every["weights"][0] = 0.0  # which nothing may be divided by
    pos_q = torch.rand(2, queries, generator=generator).cumsum(1) * 3 + 2.25  # floats, another for each row
    pos_k = torch.arange(-3, keys - 3)[None]
    pos_q, pos_k, inv_freq = pos_q.to(DEVICE), pos_k.to(DEVICE), posenc.rope.inv_freq(2 * pairs).to(DEVICE)

    def both(function, wide, **options):
        q_, k_ = (inside_nan(x.to(wide)) for x in (q, k))
        own = {name: every[name].to(DEVICE, torch.promote_types(wide, torch.float32)) for name in FACTORS[given]}
        learned = [x.requires_grad_() for name, x in own.items() if name != "band"]
        out = function(q_, k_, pos_q, pos_k, inv_freq, layout, 1.2, boost=0.3, **own, **options)
        return *out, *torch.autograd.grad(out, (q_, k_, *learned), (dout_q.to(wide), dout_k.to(wide)))

    exact, ours = both(reference, torch.float64), both(rotary.rotate, dtype)
    assert len(exact) == len(ours) == 4 + len(set(FACTORS[given]) - {"band"})
    rounding = torch.finfo(dtype).eps
    for n, (wanted, got) in enumerate(zip(exact, ours)):
        assert got.dtype == (dtype if n < 4 else torch.float32) and got.shape == wanted.shape
        largest = wanted.abs().max().item() if n < 4 else max(25.0, wanted.abs().max().item())
        tolerance = dict(rtol=rounding, atol=1e-5 * largest) if n < 4 else dict(rtol=1e-5, atol=2e-6 * largest)
        torch.testing.assert_close(got.double(), wanted.double(), **tolerance, msg=lambda m, n=n: f"{n}: {m}")


def test_the_answer_does_not_depend_on_the_blocks():
    generator = torch.Generator().manual_seed(0)
    q, k = (torch.randn(1, 2, n, 16, generator=generator).to(DEVICE).requires_grad_() for n in (50, 20))
    rates, weights = (torch.tensor(x, device=DEVICE, requires_grad=True) for x in ([0.1, 0.01], [0.5, -2.0]))
    at, inv_freq = [torch.arange(n, device=DEVICE) for n in (50, 20)], posenc.rope.inv_freq(16)
    band, results = torch.linspace(0.5, 1.5, 16, device=DEVICE), []
    for tile in ((), (16, 16, 4, 1), (64, 32, 4, 1)):
        out = rotary.rotate(q, k, *at, inv_freq, rates=rates, boost=0.3, weights=weights, band=band, tile=tile)
        results.append((*out, *torch.autograd.grad(out, (q, k, rates, weights), [x.detach() for x in out])))
    for other in results[1:]:
        for a, b in zip(results[0], other):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=2e-6 * max(1.0, b.detach().abs().max().item()))


def test_empty_inputs_give_empty_outputs_and_no_gradient():
    for queries, keys in ((0, 5), (5, 0), (0, 0)):
        q, k = (torch.randn(1, 2, n, 16, device=DEVICE, requires_grad=True) for n in (queries, keys))
        at = (torch.arange(queries, device=DEVICE), torch.arange(keys, device=DEVICE))
        rates = torch.ones(2, device=DEVICE, requires_grad=True)
        out = rotary.rotate(q, k, *at, posenc.rope.inv_freq(16).to(DEVICE), rates=rates, boost=0.2)
        assert [x.shape for x in out] == [q.shape, k.shape]
        (drates,) = torch.autograd.grad(out, rates, [torch.zeros_like(x) for x in out])
        assert torch.equal(drates, torch.zeros_like(rates))


@pytest.mark.weekly
def test_the_operators_pass_opcheck():
    q, k = (torch.randn(1, 2, 17, 16, device=DEVICE, requires_grad=True) for _ in range(2))
    rates, weights = (torch.ones(2, device=DEVICE, requires_grad=True) for _ in range(2))
    at, inv_freq = torch.arange(17, device=DEVICE), posenc.rope.inv_freq(16).to(DEVICE)
    for factors in ((rates, weights, torch.ones(16, device=DEVICE)), (None, weights, None)):
        results = torch.library.opcheck(rotary.gained_rotary, (q, k, at, at, inv_freq, *factors, 0.2, False, 1.0, []))
        assert set(results.values()) == {"SUCCESS"}


HERE = dict(device=DEVICE)
WRONG = {  # case: (the changed arguments, the error, what it says)
    "heads of rates": ({"rates": torch.ones(3, **HERE)}, ValueError, r"rates must be .*\[2\], got .*\[3\]"),
    "dtype of weights": ({"weights": torch.ones(2, **HERE).double()}, ValueError, "weights must be float32.*float64"),
    "lanes of band": ({"band": torch.ones(8, **HERE)}, ValueError, r"band must be .*\[16\], got .*\[8\]"),
    "type of band": ({"band": [1.0] * 16}, TypeError, "band .*list"),
    "boost": ({"rates": torch.ones(2, **HERE), "boost": "x"}, TypeError, "boost='x'"),
    "grouped keys": ({"weights": torch.ones(2, **HERE), "k": torch.ones(1, 1, 5, 16, **HERE)}, ValueError, "k has 1"),
    "a band that learns": ({"band": torch.ones(16, **HERE, requires_grad=True)}, UnsupportedError, "band.*gradient"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_bad_factor_is_named_before_a_launch(monkeypatch, case):
    def never(*_, **__):
        raise AssertionError("a kernel was launched")

    monkeypatch.setattr(rotary, "launch", never)
    change, error, words = WRONG[case]
    q, at = torch.ones(1, 2, 5, 16, device=DEVICE), torch.arange(5, device=DEVICE)
    arguments = dict(q=q, k=q, pos_q=at, pos_k=at, inv_freq=posenc.rope.inv_freq(16)) | change
    with pytest.raises(error, match=words):
        rotary.rotate(**arguments)


# -------------------------------------------------------------------------------------------- the whole of attention

VARIANTS = {
    "as the report has it": {},
    "log": {"on": "log", "rate": 0.05},
    "learned rate, a factor a pair": {"learn_rate": True, "per_pair": True},
    "gain": {"band": False, "decay": False},
    "band": {"gain": False, "decay": False},
    "no gain": {"gain": False},
}


def made(heads, head_dim, **options):
    """An ExpoSB whose learned numbers are no longer those of the start: one rate below zero, whose size counts."""
    encoding = posenc.make("exposb", head_dim=head_dim, num_heads=heads, **options).to(DEVICE)
    if encoding.rotate.decay_rates is not None:
        encoding.rotate.decay_rates.data = torch.linspace(-0.02, 0.05, heads, device=DEVICE)
    if encoding.rotate.band_weights is not None:
        encoding.rotate.band_weights.data = torch.linspace(0.5, 1.5, heads, device=DEVICE)
    return encoding


def run(impl, encoding, tensors, dtype, **options):
    """(output, gradients of q, k, v and the encoding's parameters) in one dtype.

    impl "turned before" turns and multiplies as the reference does, then attends by the kernels.
    """
    *inputs, dout = tensors
    inputs = [x.to(dtype).requires_grad_() for x in inputs]
    q, k, v = inputs
    rest = encoding
    if impl == "turned before":
        k, v = (x.repeat_interleave(q.shape[1] // k.shape[1], dim=1) for x in (k, v))
        index = torch.arange(k.shape[2], device=DEVICE)[None]
        q, k = encoding.rotate(q, k, posenc.encoding.At(index[:, -q.shape[2] :], index, None))
        impl, rest = "triton", posenc.Encoding(bias=encoding.bias, weigh=encoding.weigh)
    out = attention(q, k, v, rest, impl=impl, **options)
    return out, *torch.autograd.grad(out, [*inputs, *encoding.parameters()], dout.to(dtype))


def compare(encoding, tensors, dtype, **options):
    """Hold the kernels against the float64 reference: float32 element by element, halves by the error of others.

    In halves dq and dk are rounded before they are summed over all tokens: in the gradient of a learned number
    PyTorch's rounding, which is another, may cancel by chance. So the same attention kernels stand beside it.
    """
    tensors = [x.to(dtype).double() for x in tensors]
    exact = run("torch", encoding, tensors, torch.float64, **options)
    ours = run("triton", encoding, tensors, dtype, **options)
    assert len(exact) == 4 + len(list(encoding.parameters()))
    if dtype == torch.float32:
        for n, (wanted, got) in enumerate(zip(exact, ours)):
            largest = max(25.0 if n > 3 else 1.0, wanted.abs().max().item())
            close = dict(rtol=2e-5, atol=4e-6 * largest, msg=lambda m, n=n: f"{n}: {m}")
            torch.testing.assert_close(got.double(), wanted.double(), **close)
        return
    others = [run(impl, encoding, tensors, dtype, **options) for impl in ("torch", "turned before")]
    for n, (wanted, got, *beside) in enumerate(zip(exact, ours, *others)):
        error, *allowed = ((x.double() - wanted.double()).norm() for x in (got, *beside))
        limit = 1.2 * max(allowed) + 0.3 * torch.finfo(dtype).eps * wanted.norm()
        assert error <= limit, f"{n}: off by {error:.1e} beside {max(allowed):.1e}"


def problem(queries, keys, heads=2, kv_heads=1, head_dim=16, batch=1):
    generator = torch.Generator().manual_seed(0)
    shapes = [
        (batch, heads, queries, head_dim),
        *[(batch, kv_heads, keys, head_dim)] * 2,
        (batch, heads, queries, head_dim),
    ]
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(DEVICE) for shape in shapes]


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "name, queries, keys, dtype",
    [
        ("as the report has it", 1, 1, torch.float32),
        ("as the report has it", 17, 63, torch.float32),
        ("as the report has it", 65, 65, torch.float32),
        ("as the report has it", 65, 65, torch.float16),
        ("log", 65, 65, torch.float32),
        ("log", 63, 65, torch.float16),
        ("learned rate, a factor a pair", 33, 65, torch.float32),
        ("gain", 17, 65, torch.float32),
        ("band", 63, 63, torch.float32),
        ("no gain", 65, 17, torch.float32),
    ],
    ids=str,
)
def test_exposb_equals_the_reference(name, queries, keys, dtype):
    compare(made(2, 16, **VARIANTS[name]), problem(queries, keys), dtype)


def test_exposb_with_packed_rows_positions_of_each_row_and_a_stick():
    tensors = problem(40, 40, heads=4, kv_heads=2, head_dim=32, batch=2)
    pos = torch.stack((torch.arange(40), torch.arange(40) * 3 - 20)).to(DEVICE)
    segment = torch.tensor([[0] * 25 + [1] * 15, [0] * 39 + [1]], device=DEVICE)
    mask = segment[:, None, :, None] == segment[:, None, None, :]
    options = dict(pos_q=pos, pos_k=pos, mask=mask)
    compare(made(4, 32), tensors, torch.float32, **options)
    stick = posenc.compose(made(4, 32, decay=False), posenc.make("stickbreaking"))
    compare(stick, tensors, torch.float32, **options)


def test_rotation_gain_and_band_are_one_launch_each_way(monkeypatch):
    launched = []
    launch = rotary.launch

    def counted(kernel, *arguments, **named):
        launched.append((kernel.__name__, *(named[f"{what}_ptr"] is not None for what in ("rate", "weight", "band"))))
        launch(kernel, *arguments, **named)

    def never(*_):
        raise AssertionError("PyTorch turned or multiplied")

    monkeypatch.setattr(rotary, "launch", counted)
    for name in ("forward", "factors"):
        monkeypatch.setattr(exposb.GainedRotary, name, never)
    encoding = made(2, 16)
    run("triton", encoding, problem(17, 17), torch.float32)
    assert launched == [("rotary_kernel", True, True, True), ("rotary_backward_kernel", True, True, True)]


def test_without_gain_and_band_exposb_turns_as_rope_does():
    q, k, v, _ = (x.float() for x in problem(33, 33, kv_heads=1))
    plain = made(2, 16, gain=False, band=False, decay=False)
    rope = attention(q, k, v, posenc.make("rope", head_dim=16), impl="triton")
    assert torch.equal(attention(q, k, v, plain, impl="triton"), rope)


@pytest.mark.parametrize("options", [{}, {"band": False}, {"gain": False}], ids=str)
def test_heads_that_don_t_fit_the_learned_numbers_are_refused(options):
    q, at = torch.ones(1, 3, 5, 16, device=DEVICE), torch.arange(5, device=DEVICE)[None]
    encoding = made(2, 16, decay=False, **options)
    with pytest.raises(ValueError, match="num_heads=2.*3 heads"):
        by_kernels(q, q, q, encoding, at, at, True, None, 1.0)
