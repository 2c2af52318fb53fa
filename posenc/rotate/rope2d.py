r"""Rotary position embedding on several axes: each pair of lanes turns by an angle that is summed over the axes."""

import torch
from torch import nn

from ..encoding import Encoding
from ..errors import check_choice, check_int, check_number, check_tensor, shown
from ..fixed import FixedNumbers
from ..inputs import angle_dtype
from ..positions import check_positions
from .rope import LAYOUTS, cos_sin, turn

FORMS = ("axial", "mixed")


def axial(head_dim: int, axes: int = 2, base: float = 100.0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    r"""Frequencies where each pair of lanes knows one axis: pair n t + a turns by w_t = base^(-2 n t / D) along axis a.

    Returns: [n, D/2] of `dtype`, in radians per step of an axis, one entry of a column not zero; rounded once, on the
        CPU.
    Paper: arXiv 2403.13298, section 3.2, for two axes. Chapter: Two axes and more.
    """
    axes = check_int("axes", axes)
    head_dim = check_int("head_dim", head_dim, minimum=2, even=True)
    base = check_number("base", base, above=0)
    if head_dim % (2 * axes):
        raise ValueError(f"head_dim={head_dim} must be a multiple of {2 * axes}: a pair of lanes for each axis")
    exact = dict(dtype=torch.float64, device="cpu")
    magnitudes = base ** (-torch.arange(0, head_dim, 2 * axes, **exact) / head_dim)  # [D/(2n)], fastest first
    return (magnitudes[:, None, None] * torch.eye(axes, **exact)).flatten(0, 1).T.to(dtype)


def angles(positions: torch.Tensor, freqs: torch.Tensor) -> torch.Tensor:
    r"""The angle of each pair of lanes: sum over the axes a of p_a w_(a,i). A token without a place turns by none.

    Arguments:
        positions: [..., T, n], integers or floats, in steps of each axis; NaN in any coordinate: without a place.
        freqs: [n, P], or with what broadcasts in front, such as [H, n, P].
    Returns: [..., T, P] in the dtype of freqs.
    Paper: arXiv 2403.13298, section 3.2. Chapter: Two axes and more.
    """
    check_tensor("positions", positions, "[..., T, n]")
    check_tensor("freqs", freqs, "[..., n, P]", floating=True)
    if positions.ndim < 2 or freqs.ndim < 2 or positions.shape[-1] != freqs.shape[-2]:
        raise ValueError(
            f"positions {list(positions.shape)} must be [..., T, n] with the n axes of freqs {list(freqs.shape)}, "
            f"[..., n, P]"
        )
    positions = check_positions("positions", positions, axes=True).to(freqs.dtype)
    placeless = positions.isnan().any(-1, keepdim=True)
    return (positions.masked_fill(placeless, 0)[..., None] * freqs[..., None, :, :]).sum(-2)


def rotate(
    x: torch.Tensor,
    positions: torch.Tensor,
    freqs: torch.Tensor,
    layout: str = "interleaved",
    attention_factor: float = 1.0,
) -> torch.Tensor:
    r"""Turn each pair of lanes of x by its angle, see `angles`.

    Arguments:
        x: [..., T, D].
        positions: [..., T, n], see `angles`.
        freqs: [n, P] with 2 P <= D, or [H, n, P] beside x [B, H, T, D]; further lanes pass unchanged.
        layout, attention_factor: which lanes make a pair, and a factor on cos and sin, see `posenc.rope.rotate`.
    Returns: like x. Angles are float64, their cosines and sines float32 (float64 where x is), under autocast too.
    Paper: arXiv 2403.13298, section 3.2. Chapter: Two axes and more.
    """
    check_tensor("x", x, "[..., T, D]", floating=True)
    check_tensor("freqs", freqs, "[..., n, P]", floating=True)
    check_choice("layout", layout, LAYOUTS)
    attention_factor = check_number("attention_factor", attention_factor, above=0)
    if x.ndim < 2 or 2 * freqs.shape[-1] > x.shape[-1]:
        raise ValueError(f"freqs turn {2 * freqs.shape[-1]} lanes, x must have at least as many, got {list(x.shape)}")
    by = angles(positions, freqs.to(x.device, angle_dtype(x)))
    try:
        torch.broadcast_to(by, (*x.shape[:-1], by.shape[-1]))
    except RuntimeError:
        turned = f"angles {list(by.shape)}, which must broadcast to {[*x.shape[:-1], by.shape[-1]]}"
        raise ValueError(f"positions {list(positions.shape)} and freqs {list(freqs.shape)} give {turned}") from None
    return turn(x, *cos_sin(x, by, attention_factor), layout)


class Rotary2d(FixedNumbers):
    """The `rotate` callable of `rope2d`: frequencies [n, D/2] that stand, or [H, n, D/2] that are learned."""

    kernel = "rotary"  # its twin in posenc.kernels

    def __init__(self, freqs, layout, num_heads=None, attention_factor=1.0):
        super().__init__()
        self.start, self.layout, self.attention_factor = freqs, layout, attention_factor
        self.fix(freqs=freqs if num_heads is None else nn.Parameter(torch.empty(num_heads, *freqs.shape)))
        self.reset_parameters()

    def reset_parameters(self):
        if isinstance(self.freqs, nn.Parameter):  # each head starts in directions of its own
            frames = torch.linalg.qr(torch.randn(len(self.freqs), *2 * (len(self.start),), dtype=torch.float32))[0]
            with torch.no_grad():
                self.freqs.copy_(frames @ self.start.to(frames))

    def kernel_inputs(self, q):
        """What the twin reads besides q, k and positions; keys get the heads of q."""
        return {"inv_freq": self.exact("freqs", q), "layout": self.layout, "attention_factor": self.attention_factor}

    @property
    def turns_alone(self):
        """Whether a cache may hold keys turned: learned frequencies are those of H heads, a cache holds Hkv."""
        return self.freqs.ndim == 2

    def turn(self, x, positions):
        """x [B, H, T, D] as its tokens stand at positions [B or 1, T, n]."""
        return rotate(x, positions[:, None], self.exact("freqs", x), self.layout, self.attention_factor)

    def forward(self, q, k, at):
        return self.turn(q, at.pos_q), self.turn(k, at.pos_k)


def rope2d(
    head_dim: int, form: str = "axial", *, axes: int = 2, base: float | None = None, num_heads: int | None = None,
    layout: str = "interleaved",
) -> Encoding:  # fmt: skip
    r"""RoPE on n axes, an `Encoding` at the place `rotate` whose positions are [T, n] or [B, T, n].

    Scores depend on differences of positions alone, in either form. A token with NaN for a coordinate has no place
    (a class token, a register): it stays unturned, so its scores with others read where those stand.

    Arguments:
        head_dim: D, a multiple of 2 n.
        form: "axial": each pair of lanes turns along one axis. "mixed": each pair has a learned frequency for each
            axis, so that it may know any direction; in each head of its own.
        axes: n; 2 for pictures, 3 for volumes and video.
        base: of the frequencies; default 100 for "axial", 10 for "mixed", where they start.
        num_heads: H, for "mixed" alone; queries and keys must have as many.
        layout: see `posenc.rope.rotate`.
    Convention: the axes are in the caller's order, (x, y) in the paper, (row, column) in the book; "axial" gives pair
        n t + a to axis a: of two axes even pairs turn with the first, odd ones with the second. A coordinate above 0
        turns counterclockwise, (a, b) -> (a cos - b sin, a sin + b cos), as `posenc.rope.rotate` does.
    Paper: arXiv 2403.13298. Chapter: Two axes and more.
    """
    check_choice("form", form, FORMS)
    check_choice("layout", layout, LAYOUTS)
    if form == "axial":
        if num_heads is not None:
            raise ValueError(f"num_heads={shown(num_heads)}: form='axial' has one set for all heads, leave it out")
        freqs = axial(head_dim, axes, 100.0 if base is None else base, torch.float64)
        return Encoding(rotate=Rotary2d(freqs, layout), axes=axes, head_dim=head_dim)
    if num_heads is None:
        raise ValueError("num_heads=None: form='mixed' learns frequencies for each head, say how many there are")
    num_heads = check_int("num_heads", num_heads)
    freqs = axial(head_dim, axes, 10.0 if base is None else base)
    return Encoding(rotate=Rotary2d(freqs, layout, num_heads), axes=axes, num_heads=num_heads, head_dim=head_dim)
