r"""The kernels of the methods that read content, against their references, on a GPU or through Triton's interpreter."""

import copy

import pytest
import torch
from nan_memory import nan_buffers  # noqa: F401 (the fixture serves by its name)

pytest.importorskip("triton", reason="Triton is published for Linux only")

import posenc
from posenc import attention, cope, fox

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
LENGTHS = [
    (1, 1),
    (17, 17),
    (63, 63),
    (64, 64),
    (65, 65),
    (127, 127),
    (200, 200),
    (1, 64),
    (1, 65),
    (40, 100),
    (100, 40),
]


def problem(queries, keys, heads=2, kv_heads=1, head_dim=16, batch=1):
    """Seeded q, k, v, log f and a gradient of the output, float64."""
    generator = torch.Generator().manual_seed(0)
    shapes = [(batch, heads, queries, head_dim), *[(batch, kv_heads, keys, head_dim)] * 2, (batch, heads, keys)]
    q, k, v, gates = (torch.randn(shape, generator=generator, dtype=torch.float64) for shape in shapes)
    dout = torch.randn(shapes[0], generator=generator, dtype=torch.float64)
    return [x.to(DEVICE) for x in (q, k, v, torch.nn.functional.logsigmoid(gates + 1), dout)]


def run(impl, encoding, tensors, dtype, **options):
    """(output, the gradients of q, k, v and of log f or the table) in one dtype; gates and table not below float32."""
    q, k, v = (x.to(dtype).requires_grad_() for x in tensors[:3])
    encoding = copy.deepcopy(encoding).to(DEVICE, torch.promote_types(dtype, torch.float32))
    learned = list(encoding.parameters())
    if encoding.gates is not None:
        options["gates"] = tensors[3].to(torch.promote_types(dtype, torch.float32)).requires_grad_()
        learned.append(options["gates"])
    out = attention(q, k, v, encoding, impl=impl, **options)
    return out, *torch.autograd.grad(out, (q, k, v, *learned), tensors[4].to(dtype))


def compare(encoding, tensors, dtype, tolerance=2e-5, **options):
    """Hold the kernel against the float64 reference: float32 element by element, halves by eager's own error."""
    exact = run("torch", encoding, tensors, torch.float64, **options)
    for name, wanted, got, eager in zip(
        ("output", "q", "k", "v", "gates or table"),
        exact,
        *(run(impl, encoding, tensors, dtype, **options) for impl in ("triton", "torch")),
    ):
        error, allowed = (got.double() - wanted).abs(), (eager.double() - wanted).abs()
        if dtype == torch.float32:
            assert (error <= tolerance * (1 + wanted.abs())).all(), f"{name}: off by {error.max():.1e}"
        else:
            assert error.norm() <= 2 * allowed.norm() + 1e-6, (
                f"{name}: {error.norm():.1e} beside eager's {allowed.norm():.1e}"
            )


@pytest.mark.sample(5)
@pytest.mark.parametrize("queries, keys", LENGTHS, ids=str)
def test_fox_at_every_length(queries, keys):
    compare(fox.fox(), problem(queries, keys), torch.float32)


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
def test_fox_with_grouped_heads_packed_rows_and_rope(dtype):
    tensors = problem(70, 70, heads=4, kv_heads=2, head_dim=32, batch=2)
    segment = torch.tensor([[0] * 25 + [1] * 45, [0] * 69 + [1]], device=DEVICE)
    mask = segment[:, None, :, None] == segment[:, None, None, :]
    compare(posenc.compose(posenc.make("rope", head_dim=32), fox.fox()), tensors, dtype, mask=mask)


@pytest.mark.parametrize("stick", [False, True])
def test_gates_of_zero_forget_exactly(stick):
    """log f = -inf, several in a row, in one tile and in another; row 40 sees nothing but what it has forgotten."""
    tensors, mask = problem(130, 130), torch.ones(130, 130, dtype=torch.bool, device=DEVICE)
    tensors[3][..., [0, 3, 4, 5, 40, 63, 64, 129]] = -torch.inf
    mask[40, 40] = False
    encoding = posenc.compose(fox.fox(), posenc.make("stickbreaking")) if stick else fox.fox()
    compare(encoding, tensors, torch.float32, mask=mask)
    out, *gradients = run("triton", encoding, tensors, torch.float32, mask=mask)
    assert (out[:, :, 40] == 0).all() and all(x.isfinite().all() for x in gradients)


def test_fox_breaks_a_stick_too():
    """The decay stands at `bias`: the stick-breaking kernel takes it as well, and its gates' gradient is whole."""
    compare(posenc.compose(fox.fox(), posenc.make("stickbreaking")), problem(65, 65), torch.float32)


def test_far_into_a_text_the_decay_is_exact():
    """c is near -160,000 at the end, where float32 numbers lie 1/64 apart: what counts is the difference of two."""
    tensors = problem(8, 8)
    tensors[3] = tensors[3].float().double()
    near = run("torch", fox.fox(), tensors, torch.float64)
    tensors[3] = torch.cat((tensors[3].new_full((1, 2, 1), -160_000.3), tensors[3][..., 1:]), -1)
    for ours, exact in zip(run("triton", fox.fox(), tensors, torch.float32), near):
        torch.testing.assert_close(ours.double(), exact, rtol=0, atol=2e-5)


def counting(head_dim=16, num_positions=5, num_heads=None):
    made = cope.cope(head_dim, num_positions, num_heads=num_heads)
    made.bias.table.data = torch.randn(made.bias.table.shape, generator=torch.Generator().manual_seed(1))
    return made


@pytest.mark.sample(5)
@pytest.mark.parametrize("queries, keys", LENGTHS, ids=str)
def test_cope_at_every_length(queries, keys):
    compare(counting(), problem(queries, keys), torch.float32)


@pytest.mark.weekly
@pytest.mark.parametrize("dtype", [pytest.param(torch.float32, marks=pytest.mark.weekly), torch.float16], ids=str)
def test_cope_with_grouped_heads_packed_rows_and_rope(dtype):
    tensors = problem(70, 70, heads=4, kv_heads=2, head_dim=32, batch=2)
    segment = torch.tensor([[0] * 25 + [1] * 45, [0] * 69 + [1]], device=DEVICE)
    mask = segment[:, None, :, None] == segment[:, None, None, :]
    # A count of up to 40 is rounded in its sixth digit, which may put it on the other side of a whole number, where the
    # slope is another: the steps between positions are small here.
    made = counting(32, 40, 4)
    made.bias.table.data *= 0.1
    both = posenc.compose(posenc.make("rope", head_dim=32), made)
    compare(both, tensors, dtype, tolerance=1e-4, mask=mask)


@pytest.mark.weekly
def test_cope_in_slices_and_other_tiles(monkeypatch):
    """The backward holds the carries of a slice of queries at a time: three slices give what one gives."""
    from posenc.kernels import cope as kernel

    q, k, v, _, dout = (x.float() for x in problem(100, 100))
    z = torch.randn(1, 2, 100, 6, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    results = []
    for size, tile in ((1024, ()), (32, (32, 16, 4, 1))):
        monkeypatch.setattr(kernel, "SLICE", size)
        inputs = [x.clone().requires_grad_() for x in (q, k, v, z)]
        out = kernel.attend(*inputs, scale=0.25, tile=tile)
        results.append((out, *torch.autograd.grad(out, inputs, dout)))
    for one, other in zip(*results):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-5)


def test_what_cope_s_kernel_does_not_serve_is_refused():
    q = torch.randn(1, 2, 5, 16, device=DEVICE)
    both = posenc.compose(counting(), posenc.make("stickbreaking")).to(DEVICE)
    with pytest.raises(posenc.UnsupportedError, match="weigh"):
        attention(q, q, q, both, impl="triton")
