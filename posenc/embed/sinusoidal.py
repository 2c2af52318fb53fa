r"""Sinusoidal encoding: sines and cosines of the position, added to the embeddings."""

import torch
from torch import nn

from ..encoding import Encoding
from ..errors import check_choice, check_int, check_number
from ..inputs import accumulation_dtype
from ..positions import check_positions

LAYOUTS = ("interleaved", "concatenated")


def table(positions: torch.Tensor, dim: int, base: float = 10000.0, layout: str = "interleaved") -> torch.Tensor:
    r"""The sinusoidal encoding of each position.

    PE(p)_{2i} = sin(p w_i),  PE(p)_{2i+1} = cos(p w_i),  w_i = base^(-2i/dim),  i = 0 .. dim/2 - 1

    Arguments:
        positions: [T] or [B, T], integers or floats, in tokens.
        dim: C, even.
        base: b, greater than 0; the wavelengths run from 2 pi to 2 pi b^((C-2)/C).
        layout: "interleaved" is the paper's. "concatenated" is tensor2tensor's: all sines, then all cosines, with
            frequencies b^(-i/(C/2-1)), so that the last one is exactly 1/b.
    Returns: [T, dim] or [B, T, dim], float32 (float64 where positions are float64).
    Convention: small i is the fastest. Paper: arXiv 1706.03762, section 3.5. Chapter: Sinusoidal encoding.
    """
    positions = check_positions("positions", positions)
    dim = check_int("dim", dim, minimum=2, even=True)
    base = check_number("base", base, above=0)
    check_choice("layout", layout, LAYOUTS)
    dtype = torch.float64 if positions.dtype == torch.float64 else torch.float32
    where = "cpu" if positions.device.type == "mps" else positions.device  # mps has no float64
    steps = torch.arange(dim // 2, dtype=torch.float64, device=where)  # i
    exponent = 2 * steps / dim if layout == "interleaved" else steps / max(dim // 2 - 1, 1)
    frequencies = base**-exponent  # w_i, [C/2]
    angles = positions[..., None].to(where, torch.float64) * frequencies  # [..., T, C/2]
    sin, cos = angles.sin().to(positions.device, dtype), angles.cos().to(positions.device, dtype)
    if layout == "concatenated":
        return torch.cat((sin, cos), dim=-1)
    return torch.stack((sin, cos), dim=-1).flatten(-2)  # [..., T, C]


class AddSinusoid(nn.Module):
    """The `embed` callable: x + volume * table(positions)."""

    def __init__(self, base, layout, volume):
        super().__init__()
        self.base, self.layout, self.volume = base, layout, volume

    def forward(self, x, positions):
        positions = check_positions("positions", positions)
        code = table(positions.to(accumulation_dtype(x)), x.shape[-1], self.base, self.layout)
        return x + (self.volume * code).to(x.dtype)


def sinusoidal(
    base: float = 10000.0, *, embed_at: str = "input", layout: str = "interleaved", volume: float = 1.0
) -> Encoding:
    r"""Sinusoidal encoding, an `Encoding` at the place `embed`.

    Arguments:
        base, layout: see `table`.
        embed_at: "input" adds once to the embeddings (the paper); "layer_qk" in each layer to what queries and keys
            are made from; "layer_qkv" to the values too.
        volume: factor on the encoding. 1 is the paper's, for embeddings of variance 1: the paper multiplies its
            embeddings by sqrt(C), and tensor2tensor, its code, initializes them at variance 1/C. Multiplying PyTorch's
            N(0, 1) embeddings by sqrt(C) drowns it.
    Paper: arXiv 1706.03762, section 3.5. Chapter: Sinusoidal encoding.
    """
    base = check_number("base", base, above=0)
    check_choice("layout", layout, LAYOUTS)
    volume = check_number("volume", volume)
    return Encoding(embed=AddSinusoid(base, layout, volume), embed_at=embed_at)
