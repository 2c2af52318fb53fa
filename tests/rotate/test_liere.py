"""LieRE (arXiv 2406.10322) and ComRoPE (arXiv 2506.03737) alike: exponentials of written-out sums, and the theorem."""

import pytest
import torch
from loops import close, normal

import posenc
from posenc.rotate.comrope import comrope
from posenc.rotate.liere import liere, rotation

HEADS, DIM = 2, 24


def made(name, **options):
    torch.manual_seed(0)
    factory = {"liere": liere, "ap": comrope, "ld": comrope}[name]
    form = {} if name == "liere" else {"form": name}
    return factory(DIM, HEADS, **form, **({"std": 0.5} | options)).double()


def grid(rows, columns):
    return torch.cartesian_prod(torch.arange(rows), torch.arange(columns))


def weights(encoding, q, k, positions):
    return posenc.attention(q, k, k, encoding, pos_q=positions, pos_k=positions, causal=False, return_weights=True)[1]


VARIANTS = [("liere", 2), ("liere", 4), ("liere", DIM), ("ap", 2), ("ap", 4), ("ld", 3), ("ld", 8)]


@pytest.mark.parametrize("axes", [2, 3])
@pytest.mark.parametrize("name, block", VARIANTS)
def test_rotation_equals_whole_matrices_written_out(name, block, axes):
    if name == "ap" and DIM // block % axes:
        pytest.skip("ap needs a multiple of axes")
    encoding = made(name, block=block, axes=axes)
    positions, x = normal(5, axes, seed=1), normal(1, HEADS, 5, DIM)
    turned, _ = encoding.rotate(x, x, posenc.At(positions[None], positions[None], None))
    matrices, theta = encoding.rotate.matrices, getattr(encoding.rotate, "theta", None)
    for h in range(HEADS):
        for t in range(5):
            whole = torch.zeros(DIM, DIM, dtype=torch.float64)
            for j in range(DIM // block):
                lanes = slice(j * block, (j + 1) * block)
                for a in range(axes):
                    if name == "liere":
                        generator = matrices[h, a, j] - matrices[h, a, j].T
                    else:
                        factor = float(j % axes == a) if name == "ap" else theta[h, a, j]
                        generator = factor * (matrices[h, j] - matrices[h, j].T)
                    whole[lanes, lanes] += positions[t, a] * generator
            close(turned[0, h, t], torch.matrix_exp(whole) @ x[0, h, t])


@pytest.mark.parametrize("name, block, relative", [
    ("liere", 2, True), ("liere", 4, False), ("ap", 4, True), ("ld", 4, True), ("ap", 2, True), ("ld", 8, True),
])  # fmt: skip
def test_norms_are_kept_always_and_scores_are_relative_where_generators_commute(name, block, relative):
    encoding, positions = made(name, block=block), grid(3, 4).double()
    q, k = normal(2, 1, HEADS, 12, DIM)
    turned, _ = encoding.rotate(q, k, posenc.At(positions[None], positions[None], None))
    close(turned.norm(dim=-1), q.norm(dim=-1))
    generators = encoding.rotate.generators()
    for a in range(2):
        for b in range(2):
            bracket = generators[:, a] @ generators[:, b] - generators[:, b] @ generators[:, a]
            assert (bracket.abs().max() < 1e-14) == (relative or a == b)
    x, y = positions[:6], positions[6:]
    error = (rotation(x, generators).mT @ rotation(y, generators) - rotation(y - x, generators)).abs().max()
    assert error < 1e-13 if relative else error > 0.1
    moved = weights(encoding, q, k, positions + torch.tensor([2.0, -1.0])) - weights(encoding, q, k, positions)
    assert (moved.abs().max() < 1e-12) == relative
