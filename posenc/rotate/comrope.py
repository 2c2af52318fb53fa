r"""ComRoPE: as LieRE, with generators that commute by construction, so that scores depend on differences alone."""

import torch
from torch import nn

from ..encoding import Encoding
from ..errors import check_choice, check_int
from .liere import Blocks, block_sizes, skew

FORMS = ("ap", "ld")
BLOCKS = (8, 4, 2)


class AxialPartition(Blocks):
    """Block j has one generator, for axis j mod n; the other axes do not turn it, so all commute."""

    def __init__(self, num_heads, axes, blocks, block, std):
        super().__init__()
        self.std = std
        self.matrices = nn.Parameter(torch.empty(num_heads, blocks, block, block))
        self.axes = axes
        self.reset_parameters()

    def generators(self, dtype=None):
        blocks = torch.arange(self.matrices.shape[1], device=self.matrices.device)
        own = blocks % self.axes == torch.arange(self.axes, device=blocks.device)[:, None]  # [n, m]
        return own[..., None, None] * skew(self.matrices.to(dtype))[:, None]


class LinearlyDependent(Blocks):
    """The generators of a block are multiples of one matrix: theta_a (P - P^T), so all commute."""

    def __init__(self, num_heads, axes, blocks, block, std):
        super().__init__()
        self.std = std
        self.matrices = nn.Parameter(torch.empty(num_heads, blocks, block, block))
        self.theta = nn.Parameter(torch.empty(num_heads, axes, blocks))
        self.reset_parameters()

    def reset_parameters(self):
        super().reset_parameters()
        nn.init.normal_(self.theta)

    def generators(self, dtype=None):
        return self.theta.to(dtype)[..., None, None] * skew(self.matrices.to(dtype))[:, None]


def comrope(
    head_dim: int, num_heads: int, form: str = "ap", *, axes: int = 2, block: int | None = None, std: float = 0.3
) -> Encoding:
    r"""ComRoPE: as LieRE, with generators that commute by construction, so that scores are relative.

    Arguments:
        head_dim, num_heads, axes, std: as in `liere`.
        block: b, lanes a block; "ap" needs a multiple of n blocks. Default the largest of 8, 4 and 2 that fits.
        form: "ap", axial partition: block j turns along axis j mod n. "ld", linearly dependent: a block's generators
            are theta_a (P - P^T), so it sees theta . p alone and is blind to moves that leave this as it is.
    Paper: arXiv 2506.03737, section 4. Chapter: Rotations that commute.
    """
    check_choice("form", form, FORMS)
    if block is None:
        head_dim = check_int("head_dim", head_dim, minimum=2)
        axes = check_int("axes", axes)
        together = axes if form == "ap" else 1  # blocks come in so many
        block = next((b for b in BLOCKS if head_dim % (b * together) == 0), BLOCKS[-1])
    sizes = block_sizes(head_dim, num_heads, axes, block, std)
    if form == "ap" and sizes[2] % axes:
        needs = f"form='ap' needs a multiple of axes={axes}"
        raise ValueError(f"block={block} cuts head_dim={head_dim} into {sizes[2]} blocks, {needs}")
    turning = (AxialPartition if form == "ap" else LinearlyDependent)(*sizes)
    return Encoding(rotate=turning, axes=axes, num_heads=num_heads, head_dim=head_dim)
