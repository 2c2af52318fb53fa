r"""LieRE: blocks of lanes turn by matrix exponentials of learned skew-symmetric generators."""

import math

import torch
from torch import nn

from ..encoding import Encoding
from ..errors import check_int, check_number, check_tensor
from ..inputs import accumulation_dtype, angle_dtype
from ..positions import check_positions


def skew(matrices):
    """P - P^T of matrices [..., b, b]: skew-symmetric, whatever P is."""
    return matrices - matrices.mT


def rotation(positions: torch.Tensor, generators: torch.Tensor) -> torch.Tensor:
    r"""R(p) = exp(sum over the axes a of p_a A_a), one orthogonal matrix a token and block.

    Arguments:
        positions: [..., T, n], integers or floats; NaN in any coordinate: without a place, the identity.
        generators: A, [..., n, m, b, b], skew-symmetric, for n axes and m blocks of b lanes; [H, n, m, b, b] beside
            positions [B, 1, T, n].
    Returns: [..., T, m, b, b] in the dtype of the generators, orthogonal. R(x)^T R(y) = R(y - x) for all x and y if and
        only if the generators of each block commute.
    Paper: arXiv 2406.10322, section 3; arXiv 2506.03737, theorem 1. Chapter: Rotations that commute.
    """
    check_tensor("positions", positions, "[..., T, n]")
    check_tensor("generators", generators, "[..., n, m, b, b]", floating=True)
    if generators.ndim < 4 or generators.shape[-1] != generators.shape[-2]:
        raise ValueError(f"generators must be [..., n, m, b, b], got {list(generators.shape)}")
    if positions.ndim < 2 or positions.shape[-1] != generators.shape[-4]:
        n = generators.shape[-4]
        raise ValueError(f"positions {list(positions.shape)} must be [..., T, n], n = {n} as generators have axes")
    positions = check_positions("positions", positions, axes=True).to(angle_dtype(generators))
    placeless = positions.isnan().any(-1, keepdim=True)
    positions = positions.masked_fill(placeless, 0)[..., None, None, None]  # [..., T, n, 1, 1, 1]
    return torch.linalg.matrix_exp((positions * generators[..., None, :, :, :, :]).sum(-4)).to(generators.dtype)


def turn_blocks(x, rotations):
    """R x block by block: x [..., T, D], rotations [..., T, m, b, b] with m b = D, in their dtype."""
    blocks = x.to(rotations.dtype).unflatten(-1, rotations.shape[-3:-1])
    return (rotations * blocks[..., None, :]).sum(-1).flatten(-2).to(x.dtype)  # no matmul: autocast would round it


class Blocks(nn.Module):
    """The `rotate` callable of `liere` and `comrope`, whose `generators(dtype)` are [H, n, m, b, b].

    They are computed in that dtype, and exponentiated in it: a far position multiplies every rounding.
    """

    no_kernel = "blocks of q and k turn by matrix products in PyTorch"  # in words, for `explain_impl`

    def reset_parameters(self):
        nn.init.normal_(self.matrices, std=self.std)

    def forward(self, q, k, at):
        generators = self.generators(angle_dtype(q))
        at_q = rotations_of(at.pos_q, generators)
        at_k = at_q if at.pos_k is at.pos_q else rotations_of(at.pos_k, generators)
        return tuple(turn_blocks(x, at_x.to(accumulation_dtype(x))) for x, at_x in ((q, at_q), (k, at_k)))


def rotations_of(positions, generators):
    """R(p) [B or 1, H, T, m, b, b] of positions [B or 1, T, n], each distinct one exponentiated once."""
    if len(positions) == 1 or positions.is_meta or torch.compiler.is_compiling():  # a graph can't count the distinct
        return rotation(positions[:, None], generators)
    # `unique` holds each NaN for a number of its own: +inf stands for it, while what was infinite becomes the largest
    # number, at which a rotation is NaN as it is at infinity
    distinct, which = positions.flatten(0, 1).nan_to_num(nan=math.inf).unique(dim=0, return_inverse=True)
    distinct = distinct.masked_fill(distinct.isposinf(), math.nan) if distinct.is_floating_point() else distinct
    return rotation(distinct[None], generators)[:, which.view(positions.shape[:2])].transpose(0, 1)


class Liere(Blocks):
    """Generators of their own for each head, axis and block."""

    def __init__(self, num_heads, axes, blocks, block, std):
        super().__init__()
        self.std = std
        self.matrices = nn.Parameter(torch.empty(num_heads, axes, blocks, block, block))
        self.reset_parameters()

    def generators(self, dtype=None):
        return skew(self.matrices.to(dtype))


def liere(head_dim: int, num_heads: int, *, axes: int = 2, block: int | None = None, std: float = 0.3) -> Encoding:
    r"""LieRE: blocks of lanes turn by exp(sum of p_a A_a) with learned generators; an `Encoding` at the place `rotate`.

    Norms are kept always; scores depend on differences of positions alone where the generators commute, as with one
    axis or in blocks of 2, and else in general not.

    Arguments:
        head_dim: D.
        num_heads: H; queries and keys must have as many.
        axes: n; positions are [T, n] or [B, T, n].
        block: b, lanes a block, a divisor of D; default D, one block.
        std: spread of the numbers P that generators P - P^T start from. At 0.3 a block of 4 starts with up to about a
            radian a step, as RoPE's fastest pair, and larger blocks with more; coordinates that run from 0 to 1 want a
            larger spread (the authors of ComRoPE: 1).
    Paper: arXiv 2406.10322. Chapter: Rotations that commute.
    """
    sizes = block_sizes(head_dim, num_heads, axes, block, std)
    return Encoding(rotate=Liere(*sizes), axes=axes, num_heads=num_heads, head_dim=head_dim)


def block_sizes(head_dim, num_heads, axes, block, std):
    """(H, n, m, b, std), checked."""
    head_dim = check_int("head_dim", head_dim, minimum=2)
    num_heads = check_int("num_heads", num_heads)
    axes = check_int("axes", axes)
    block = head_dim if block is None else block
    block = check_int("block", block, minimum=2)
    std = check_number("std", std, above=0)
    if head_dim % block:
        raise ValueError(f"block={block} must divide head_dim={head_dim}")
    return num_heads, axes, head_dim // block, block, std
