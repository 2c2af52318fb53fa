r"""The kernels of the methods that read content, against their references, on a GPU or through Triton's interpreter."""

import copy

import beside
import pytest
import torch
from beside import DEVICE, LENGTHS, against_reference, leaves
from nan_memory import nan_buffers  # noqa: F401 (the fixture serves by its name)

pytest.importorskip("triton", reason="Triton is published for Linux only")

import posenc
from posenc import attention, cope, fox


def problem(*lengths, heads=2, batch=1, **options):
    """q, k, v and a gradient of the output, then log f, float64."""
    qkv_dout = beside.problem(*lengths, heads, batch=batch, **options)
    (gates,) = beside.drawn((batch, heads, lengths[1]), seed=1)
    return [*qkv_dout, torch.nn.functional.logsigmoid(gates + 1)]


def run(impl, encoding, tensors, dtype, **options):
    """(output, the gradients of q, k, v and of log f or the table) in one dtype; gates and table not below float32."""
    q, k, v = leaves(*tensors[:3], dtype=dtype)
    encoding = copy.deepcopy(encoding).to(DEVICE, torch.promote_types(dtype, torch.float32))
    learned = list(encoding.parameters())
    if encoding.gates is not None:
        (options["gates"],) = leaves(tensors[4], dtype=torch.promote_types(dtype, torch.float32))
        learned.append(options["gates"])
    out = attention(q, k, v, encoding, impl=impl, **options)
    return out, *torch.autograd.grad(out, (q, k, v, *learned), tensors[3].to(dtype))


def compare(encoding, tensors, dtype=torch.float32, tolerance=2e-6, **options):
    against_reference(lambda impl, d: run(impl, encoding, tensors, d, **options), dtype, tolerance)


def counting(head_dim=16, num_positions=5, num_heads=None):
    made = cope.cope(head_dim, num_positions, num_heads=num_heads)
    made.bias.table.data = torch.randn(made.bias.table.shape, generator=torch.Generator().manual_seed(1))
    return made


@pytest.mark.sample(5)
@pytest.mark.parametrize("queries, keys", LENGTHS, ids=str)
@pytest.mark.parametrize("method", ["fox", "cope"])
def test_at_every_length(method, queries, keys):
    if method == "fox":
        compare(fox.fox(), problem(queries, keys))
    else:  # where a count is near a whole number, rounding may take the slope of the other side
        compare(counting(), problem(queries, keys), tolerance=1e-5)


@pytest.mark.sample(4)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("method", ["fox", "cope"])
def test_with_grouped_heads_packed_rows_and_rope(method, dtype):
    tensors = problem(70, 70, heads=4, kv_heads=2, head_dim=32, batch=2)
    segment = torch.tensor([[0] * 25 + [1] * 45, [0] * 69 + [1]], device=DEVICE)
    mask = segment[:, None, :, None] == segment[:, None, None, :]
    # A count of up to 40 is rounded in its sixth digit, which may put it on the other side of a whole number, where the
    # slope is another: the steps between positions are small here.
    made = fox.fox() if method == "fox" else counting(32, 40, 4)
    for table in made.parameters():
        table.data *= 0.1
    compare(posenc.compose(posenc.make("rope", head_dim=32), made), tensors, dtype, tolerance=2e-5, mask=mask)


@pytest.mark.parametrize("stick", [False, True])
def test_gates_of_zero_forget_exactly(stick):
    """log f = -inf, several in a row, in one tile and in another; row 40 sees nothing but what it has forgotten."""
    tensors, mask = problem(130, 130), torch.ones(130, 130, dtype=torch.bool, device=DEVICE)
    tensors[4][..., [0, 3, 4, 5, 40, 63, 64, 129]] = -torch.inf
    mask[40, 40] = False
    encoding = posenc.compose(fox.fox(), posenc.make("stickbreaking")) if stick else fox.fox()
    compare(encoding, tensors, mask=mask)
    out, *gradients = run("triton", encoding, tensors, torch.float32, mask=mask)
    assert (out[:, :, 40] == 0).all() and all(x.isfinite().all() for x in gradients)


def test_far_into_a_text_the_decay_is_exact():
    """c is near -160,000 at the end, where float32 numbers lie 1/64 apart: what counts is the difference of two."""
    tensors = problem(8, 8)
    tensors[4] = tensors[4].float().double()
    near = run("torch", fox.fox(), tensors, torch.float64)
    tensors[4] = torch.cat((tensors[4].new_full((1, 2, 1), -160_000.3), tensors[4][..., 1:]), -1)
    for ours, exact in zip(run("triton", fox.fox(), tensors, torch.float32), near):
        torch.testing.assert_close(ours.double(), exact, rtol=0, atol=2e-5)


@pytest.mark.weekly
def test_cope_in_slices_and_other_tiles(monkeypatch):
    """The backward holds the carries of a slice of queries at a time: three slices give what one gives."""
    from posenc.kernels import cope as kernel

    q, k, v, dout, _ = (x.float() for x in problem(100, 100))
    z = torch.randn(1, 2, 100, 6, generator=torch.Generator().manual_seed(1)).to(DEVICE)
    results = []
    for size, tile in ((1024, ()), (32, (32, 16, 4, 1))):
        monkeypatch.setattr(kernel, "SLICE", size)
        inputs = [x.clone().requires_grad_() for x in (q, k, v, z)]
        out = kernel.attend(*inputs, scale=0.25, tile=tile)
        results.append((out, *torch.autograd.grad(out, inputs, dout)))
    for one, other in zip(*results):
        torch.testing.assert_close(one, other, rtol=0, atol=2e-5)
