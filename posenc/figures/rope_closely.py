r"""Explorables of the chapter *RoPE, looked at closely*."""

import torch

#: Where rounding may enter on the way to cos and sin, and to what: what is rounded, and the dtype.
ROUNDED = {
    "float32 angles": ("angles", torch.float32),
    "positions in fp16": ("positions", torch.float16),
    "positions in bf16": ("positions", torch.bfloat16),
    "frequencies in fp16": ("frequencies", torch.float16),
    "frequencies in bf16": ("frequencies", torch.bfloat16),
    "cos and sin in fp16": ("table", torch.float16),
    "cos and sin in bf16": ("table", torch.bfloat16),
}


def rounded_cos_sin(positions, inv_freq, where):
    r"""cos and sin [..., T, p/2] in float64, rounded on the way at the one place that `where`, of `ROUNDED`, names."""
    place, dtype = ROUNDED[where]
    if place == "angles":
        angles = (positions[..., None].to(dtype) * inv_freq.to(dtype)).double()
    elif place == "positions":
        angles = positions.to(dtype).double()[..., None] * inv_freq.double()
    elif place == "frequencies":
        angles = positions.double()[..., None] * inv_freq.to(dtype).double()
    else:
        angles = positions.double()[..., None] * inv_freq.double()
    cos, sin = angles.cos(), angles.sin()
    return (cos.to(dtype).double(), sin.to(dtype).double()) if place == "table" else (cos, sin)


def turn_rounded(x, positions, inv_freq, where):
    r"""`posenc.rope.rotate` in the interleaved layout, all in float64 but for the one rounding that `where` names."""
    cos, sin = rounded_cos_sin(positions, inv_freq, where)
    a, b = x.double().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2).to(x.dtype)
