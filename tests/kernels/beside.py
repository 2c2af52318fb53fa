r"""What the tests of the kernels share: seeded inputs, and how far from the float64 reference a kernel may be."""

import torch

CUDA = torch.cuda.is_available()
DEVICE = "cuda" if CUDA else "cpu"
# Queries and keys: about a tile's edges, in decoding, with more queries than keys.
LENGTHS = [*((n, n) for n in (1, 17, 63, 64, 65, 127, 200)), (1, 64), (1, 65), (40, 100), (100, 40)]


def drawn(*shapes, seed=0):
    """Seeded normal numbers, float64, a tensor a shape."""
    generator = torch.Generator().manual_seed(seed)
    return [torch.randn(shape, generator=generator, dtype=torch.float64).to(DEVICE) for shape in shapes]


def problem(queries, keys, heads=2, kv_heads=1, head_dim=16, head_dim_v=None, batch=1):
    """q, k, v and a gradient of the output, float64."""
    wide = head_dim_v or head_dim
    q, k = (batch, heads, queries, head_dim), (batch, kv_heads, keys, head_dim)
    return drawn(q, k, (*k[:3], wide), (*q[:3], wide))


def leaves(*tensors, dtype=torch.float32):
    return [x.detach().to(dtype, copy=True).requires_grad_() for x in tensors]


def hold(exact, ours, rtol=1e-5, atol=2e-6):
    """Element by element, beside the largest. From the fifth tensor on they are gradients of parameters: sums of
    thousands of terms as large as a distance, of both signs."""
    assert len(exact) == len(ours)
    for n, (wanted, got) in enumerate(zip(exact, ours)):
        assert got.shape == wanted.shape, n
        largest = max(25.0 if n > 3 else 1.0, float(wanted.detach().abs().max()) if wanted.numel() else 0.0)
        close = dict(rtol=rtol, atol=atol * largest, msg=lambda words, n=n: f"tensor {n}: {words}")
        torch.testing.assert_close(got.double(), wanted.double(), **close)


def hold_halves(exact, ours, eager):
    """By eager's own error; one rounding of the result is allowed, also where eager happens to be exact."""
    for n, (wanted, got, other) in enumerate(zip(exact, ours, eager, strict=True)):
        assert got.shape == wanted.shape and got.dtype == other.dtype, n
        mine, eagers = (float((x.double() - wanted.double()).norm()) for x in (got, other))
        share = 0.3 if n < 4 else 1.0  # a parameter's is a sum over all pairs, in which eager's errors may cancel
        allowed = 2 * eagers + share * torch.finfo(ours[0].dtype).eps * float(wanted.norm()) + 1e-5
        assert mine <= allowed, f"tensor {n}: {mine} against {eagers}"


def against_reference(run, dtype, atol=2e-6):
    """Hold run("triton", dtype) against float64 by the reference: float32 by elements, halves by eager's own error."""
    exact, ours = run("torch", torch.float64), run("triton", dtype)
    if dtype == torch.float32:
        hold(exact, ours, atol=atol)
    else:
        hold_halves(exact, ours, run("torch", dtype))


def never(*_, **__):
    raise AssertionError("a kernel was launched, or PyTorch did its work")
