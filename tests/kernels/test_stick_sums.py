"""The sums along the stick: a scan, and a product without one, on a GPU where there is one, else interpreted."""

import pytest
import torch

import posenc

pytest.importorskip("triton", reason="Triton is published for Linux only")
import triton
import triton.language as tl

from posenc.kernels import stickbreaking

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"


@triton.jit
def sums_kernel(x_ptr, out_ptr, Q: tl.constexpr, K: tl.constexpr, LATER: tl.constexpr, PRODUCT: tl.constexpr):
    at = tl.arange(0, Q)[:, None] * K + tl.arange(0, K)[None, :]
    tl.store(out_ptr + at, stickbreaking.sums(tl.load(x_ptr + at), LATER, PRODUCT))


def summed(x, later, product, num_warps):
    out = torch.empty_like(x)
    sums_kernel[(1,)](x, out, *x.shape, later, product, num_warps=num_warps)
    return out


@pytest.mark.parametrize("product", [False, True], ids=["scan", "product"])
def test_sums_of_the_columns_before_and_after_each(product):
    """At every shape and number of warps that a tile ships with: where Triton's scans were wrong, some were right."""
    for rows, columns, num_warps in ((16, 16, 8), (16, 32, 4), (32, 32, 4), (32, 16, 8), (64, 32, 8), (128, 64, 8)):
        x = torch.rand(rows, columns, device=DEVICE) + 0.5
        for later in (False, True):
            exact = x.double().flip(1).cumsum(1).flip(1) if later else x.double().cumsum(1)
            found = summed(x, later, product, num_warps).double()
            torch.testing.assert_close(found, exact - x, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("product", [False, True], ids=["scan", "product"])
def test_small_sums_after_large_ones_keep_their_digits(product):
    """A total less what came before would not: 1e8 in half of the columns, then ones."""
    x = torch.ones(16, 32, device=DEVICE)
    x[:, :16] = 1e8
    assert torch.equal(summed(x, True, product, 4)[0, 16:].cpu(), torch.arange(15.0, -1, -1))


@pytest.mark.parametrize("order", ["recent", "first"])
def test_both_constructions_give_the_gradients_of_the_reference(monkeypatch, order):
    generator = torch.Generator().manual_seed(0)
    shapes = [(1, 2, 50, 16), (1, 1, 70, 16), (1, 1, 70, 16), (1, 2, 50, 16)]
    *tensors, dout = (torch.randn(shape, generator=generator, dtype=torch.float64).to(DEVICE) for shape in shapes)
    encoding = posenc.make("stickbreaking", order=order)

    def run(impl, dtype):
        q, k, v = (x.to(dtype).requires_grad_() for x in tensors)
        out = posenc.attention(q, k, v, encoding, impl=impl)
        return [x.double() for x in (out, *torch.autograd.grad(out, (q, k, v), dout.to(dtype)))]

    exact = run("torch", torch.float64)
    scans = []
    if DEVICE == "cpu":  # on a GPU the kernels are compiled, and call nothing
        monkeypatch.setattr(tl, "cumsum", lambda *a, cumsum=tl.cumsum, **b: scans.append(1) or cumsum(*a, **b))
    for by_product in (False, True):
        monkeypatch.setattr(stickbreaking, "BY_PRODUCT", by_product)
        scans.clear()
        for found, wanted in zip(run("triton", torch.float32), exact):
            torch.testing.assert_close(found, wanted, rtol=1e-5, atol=1e-5)
        if DEVICE == "cpu":
            assert bool(scans) != by_product
