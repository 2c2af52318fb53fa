r"""Rotary position embedding (RoPE): queries and keys turn by an angle proportional to their position."""

import torch
from torch import nn

from ..encoding import Encoding, weighted_sum
from ..errors import check_bool, check_choice, check_device, check_int, check_number, check_tensor, shown
from ..fixed import FixedNumbers
from ..inputs import accumulation_dtype, angle_dtype
from ..positions import check_positions

LAYOUTS = ("interleaved", "half")


def inv_freq(dim: int, base: float = 10000.0, dtype: torch.dtype = torch.float32) -> torch.Tensor:
    r"""The rotation frequencies w_i = base^(-2i/dim), i = 0 .. dim/2 - 1, in radians per token, fastest first.

    Returns: [dim/2] of `dtype`, rounded once from float64, on the CPU.
    Paper: arXiv 2104.09864, section 3.2.2. Chapter: RoPE.
    """
    dim = check_int("dim", dim, minimum=2, even=True)
    base = check_number("base", base, above=0)
    if not isinstance(dtype, torch.dtype) or not dtype.is_floating_point:
        raise TypeError(f"dtype={shown(dtype)} must be a floating-point dtype such as torch.float32")
    return (base ** (-torch.arange(0, dim, 2, dtype=torch.float64, device="cpu") / dim)).to(dtype)


def rotate(
    x: torch.Tensor,
    positions: torch.Tensor,
    inv_freq: torch.Tensor,
    layout: str = "interleaved",
    attention_factor: float = 1.0,
) -> torch.Tensor:
    r"""Turn each pair of lanes of x by the angle position * frequency.

    (a, b) -> (a cos(m w_i) - b sin(m w_i), a sin(m w_i) + b cos(m w_i))

    Arguments:
        x: [..., T, D].
        positions: [T], or anything that broadcasts to x.shape[:-1]; integers or floats, in tokens.
        inv_freq: [p/2] with p <= D; the first p lanes turn, the rest pass unchanged (partial rotary).
        layout: "interleaved" pairs lanes (2i, 2i+1) (the paper, GPT-J); "half" pairs (i, i + p/2) (NeoX, Llama).
        attention_factor: factor on cos and sin (YaRN's temperature).
    Returns: like x. Angles are float64, their cosines and sines float32 (float64 where x is), under autocast too.
    Convention: a positive position turns counterclockwise: R(m)^T R(n) = R(n - m).
    Paper: arXiv 2104.09864, equation 34. Chapter: RoPE.
    """
    check_tensor("x", x, "[..., T, D]", floating=True)
    positions = check_positions("positions", positions)
    check_tensor("inv_freq", inv_freq, "[p/2]", ndim=1, floating=True)
    check_device("positions", positions, x.device)
    check_choice("layout", layout, LAYOUTS)
    attention_factor = check_number("attention_factor", attention_factor, above=0)
    pairs = inv_freq.shape[0]
    if x.ndim < 2 or 2 * pairs > x.shape[-1]:
        raise ValueError(f"inv_freq turns {2 * pairs} lanes, x must have at least as many, got {list(x.shape)}")
    try:
        torch.broadcast_to(positions, x.shape[:-1])
    except RuntimeError:
        raise ValueError(f"positions {list(positions.shape)} must broadcast to {list(x.shape[:-1])}") from None

    angles = positions[..., None].to(angle_dtype(x)) * inv_freq.to(x.device, angle_dtype(x))
    return turn(x, *cos_sin(x, angles, attention_factor), layout)


def cos_sin(x, angles, factor=1.0):
    """Cosines and sines of angles in the dtype in which x is turned, times a factor."""
    cos, sin, dtype = angles.cos(), angles.sin(), accumulation_dtype(x)
    return (cos.to(dtype), sin.to(dtype)) if factor == 1 else ((factor * cos).to(dtype), (factor * sin).to(dtype))


def turn(x, cos, sin, layout):
    """Turn pair i of the lanes of x [..., T, D] by angles [..., T, P]; further lanes pass unchanged."""
    dtype, pairs = cos.dtype, cos.shape[-1]
    turned, rest = x[..., : 2 * pairs].to(dtype), x[..., 2 * pairs :]
    if layout == "interleaved":
        a, b = turned.unflatten(-1, (pairs, 2)).unbind(-1)
        out = torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)
    else:
        a, b = turned.unflatten(-1, (2, pairs)).unbind(-2)
        out = torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)
    return torch.cat((out.to(x.dtype), rest), dim=-1) if rest.shape[-1] else out.to(x.dtype)


class Rotary(FixedNumbers):
    """The `rotate` callable."""

    kernel = "rotary"  # its twin in posenc.kernels

    def __init__(self, inv_freq, layout, attention_factor):
        super().__init__()
        self.fix(inv_freq=inv_freq)
        self.layout, self.attention_factor = layout, attention_factor

    @property
    def turns_alone(self):
        """Whether a cache may hold keys turned, as `turn` leaves them: unless a subclass has a forward of its own."""
        return type(self).forward is Rotary.forward

    def turn(self, x, positions):
        """x [B, H, T, D] as its tokens stand at positions [B or 1, T]."""
        return rotate(x, positions[:, None], self.exact("inv_freq", x), self.layout, self.attention_factor)

    def forward(self, q, k, at):
        if at.pos_q is not at.pos_k:
            return self.turn(q, at.pos_q), self.turn(k, at.pos_k)
        angles = at.pos_q[:, None, :, None].to(angle_dtype(q)) * self.exact("inv_freq", q)
        cos, sin = cos_sin(q, angles, self.attention_factor)  # once for both
        return turn(q, cos, sin, self.layout), turn(k, cos, sin, self.layout)

    def kernel_inputs(self, q):
        """What the twin reads besides q, k and positions."""
        inv_freq = self.exact("inv_freq", q)
        return {"inv_freq": inv_freq, "layout": self.layout, "attention_factor": self.attention_factor}


class TurnedValues(nn.Module):
    """The `gather` callable: each value turns by its position, their sum back by the query's: sum A_ij R(j - i) v_j."""

    no_kernel = "the kernels add up values as they are; `rotate` before them and after turns values and output"

    def __init__(self, rotary):
        super().__init__()
        self.rotary = rotary

    def forward(self, weights, v, at):
        lanes = 2 * len(self.rotary.inv_freq)
        if v.shape[-1] < lanes:
            raise ValueError(f"v must have at least the {lanes} lanes that turn, got {list(v.shape)}")
        return self.rotary.turn(weighted_sum(weights, self.rotary.turn(v, at.pos_k), at), -at.pos_q)


def rope(
    head_dim: int, base: float = 10000.0, *, layout: str = "interleaved", rotary_dim: int | None = None,
    proportional: bool = False, inv_freq: torch.Tensor | None = None, attention_factor: float = 1.0,
    values: bool = False,
) -> Encoding:  # fmt: skip
    r"""Rotary position embedding, an `Encoding` at the place `rotate`, and at `gather` for values.

    Arguments:
        head_dim: D, even: that of q and k, whatever part of it turns.
        base: b of the frequencies b^(-2i/D).
        layout: which lanes make a pair, see `rotate`. The default is the paper's, "interleaved"; Llama and its kin need
            "half", which is the default of `mrope`. Converting weights between layouts permutes lanes.
        rotary_dim: p, even, at most D: only p/2 pairs of lanes turn. Default D.
        proportional: with p < D, False pairs the first p lanes among themselves and divides the exponent by p
            (GPT-NeoX). True is p-RoPE, the type "proportional" of transformers (Gemma 4): the lanes of the whole head
            are paired, the p/2 fastest frequencies of the full ladder are kept and the others are 0. With
            layout="half" the lanes that turn then are the first p/2 of either half.
        inv_freq: [p/2] frequencies of your own, instead of `base`, `rotary_dim` and `proportional`.
        attention_factor: see `rotate`.
        values: True turns the lanes of v [B, H, Tk, Dv] too, Dv >= p, and the output back by the query's position, so
            that value j comes out turned by the angles of j - i; without `attention_factor`. DeepSeek-V4 does so, whose
            keys are its values: the last 64 of 512 lanes turn there, x.roll(64, -1) brings them to the front.
            `apply_rotary_pos_emb(attn_output, cos, -sin)` in the code of transformers is the turn back.
    Paper: arXiv 2104.09864. Chapter: RoPE.
    """
    head_dim = check_int("head_dim", head_dim, minimum=2, even=True)
    check_choice("layout", layout, LAYOUTS)
    check_bool("proportional", proportional)
    check_bool("values", values)
    attention_factor = check_number("attention_factor", attention_factor, above=0)
    if rotary_dim is not None:
        rotary_dim = check_int("rotary_dim", rotary_dim, minimum=2, even=True)
        if rotary_dim > head_dim:
            raise ValueError(f"rotary_dim={rotary_dim} must be at most head_dim={head_dim}")
    if inv_freq is None:
        lanes = head_dim if rotary_dim is None else rotary_dim
        inv_freq = ladder(head_dim if proportional else lanes, base)
        inv_freq[lanes // 2 :] = 0.0  # pairs that don't turn, of a ladder over the whole head
    elif rotary_dim is not None or proportional:
        raise ValueError(f"inv_freq is given, so leave out rotary_dim={rotary_dim} and proportional={proportional}")
    check_tensor("inv_freq", inv_freq, "[p/2]", ndim=1, floating=True)
    if 2 * inv_freq.shape[0] > head_dim:
        raise ValueError(f"inv_freq turns {2 * inv_freq.shape[0]} lanes, more than head_dim={head_dim}")
    gather = TurnedValues(Rotary(inv_freq, layout, 1.0)) if values else None
    return Encoding(rotate=Rotary(inv_freq, layout, attention_factor), gather=gather, head_dim=head_dim)


def ladder(dim, base):
    """`inv_freq` in float64, from which `rotate` takes the precision it needs."""
    return inv_freq(dim, base, dtype=torch.float64)


class XPos(FixedNumbers):
    """The `rotate` callable of `xpos`: RoPE, then pair i of a query by zeta_i^(m/B), of a key by zeta_i^(-n/B)."""

    def __init__(self, inv_freq, zeta, scale_base, layout, center):
        super().__init__()
        self.fix(inv_freq=inv_freq, zeta=zeta)
        self.scale_base, self.layout, self.center = scale_base, layout, center

    def forward(self, q, k, at):
        first, last = at.pos_k.amin(-1, keepdim=True), at.pos_q.amax(-1, keepdim=True)
        middle = (first + last) / 2 if self.center else 0  # one for queries and keys, so it cancels

        def turn(x, positions, sign):
            dtype = accumulation_dtype(x)
            power = sign * (positions - middle)[:, None, :, None].to(dtype) / self.scale_base
            scale = self.here("zeta", x) ** power  # [B or 1, 1, T, D/2]
            lanes = scale.repeat_interleave(2, -1) if self.layout == "interleaved" else scale.repeat(1, 1, 1, 2)
            turned = rotate(x.to(dtype), positions[:, None], self.exact("inv_freq", x), self.layout)
            return (turned * lanes).to(x.dtype)

        return turn(q, at.pos_q, 1), turn(k, at.pos_k, -1)


def xpos(
    head_dim: int, base: float = 10000.0, *, gamma: float = 0.4, scale_base: float = 512.0,
    layout: str = "interleaved", center: bool = True,
) -> Encoding:  # fmt: skip
    r"""xPos: RoPE whose pair i of the score also shrinks by zeta_i^(d/B) at distance d; an `Encoding` at `rotate`.

    zeta_i = (2i/D + gamma) / (1 + gamma) <= 1, so that the fastest pairs shrink most.

    Arguments:
        head_dim: D, even.
        base: of the frequencies.
        gamma: sets zeta of the fastest pair, gamma / (1 + gamma).
        scale_base: B, in tokens: the distance at which pair i has shrunk to zeta_i.
        layout: see `rotate`.
        center: True measures positions from the middle of those at hand, as the released code does; False from 0, as
            the formula does, whose factors grow with the position itself. Scores are the same as long as all fits.
    Errors: TypeError, ValueError naming the argument; UnsupportedError without a causal mask.
    Paper: arXiv 2212.10554, section 2. Chapter: RoPE, looked at closely.
    """
    head_dim = check_int("head_dim", head_dim, minimum=2, even=True)
    gamma = check_number("gamma", gamma, above=0)
    scale_base = check_number("scale_base", scale_base, above=0)
    check_choice("layout", layout, LAYOUTS)
    check_bool("center", center)
    pairs = torch.arange(0, head_dim, 2, dtype=torch.float64, device="cpu")
    zeta = (pairs / head_dim + gamma) / (1 + gamma)
    reason = "xPos makes the score of a key after the query grow with its distance"
    turning = XPos(ladder(head_dim, base), zeta, scale_base, layout, center)
    return Encoding(rotate=turning, causal_only=reason, head_dim=head_dim)
