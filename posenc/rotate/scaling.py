r"""RoPE beyond the length it was trained with: other frequencies for the same rotation, and at times a temperature.

Every scheme returns (inv_freq [dim/2] float64, attention_factor), what `posenc.rope.rope` takes:

    frequencies, factor = yarn(64, 8.0, trained=4096)
    encoding = rope(64, inv_freq=frequencies, attention_factor=factor)

`dim` is the number of lanes that turn: head_dim, or rotary_dim where the rotary embedding is partial. A new base alone
needs no scheme: rope(64, base=500000.0).
"""

import math
from collections.abc import Callable, Sequence

import torch
from torch import nn

from ..encoding import Encoding
from ..errors import check_bool, check_choice, check_int, check_number, check_tensor, shown
from .rope import LAYOUTS, ladder, rotate

RAMPS = ("lanes", "rotations")


def linear(dim: int, factor: float, *, base: float = 10000.0) -> tuple[torch.Tensor, float]:
    r"""Position interpolation: every frequency is divided by s, as if positions were.

    Arguments:
        dim: how many lanes turn, even.
        factor: s >= 1, the target length over the trained length.
        base: b of the frequencies b^(-2i/dim) that the model was trained with.
    Returns: inv_freq [dim/2] float64 in radians per token, and 1.0.
    Paper: arXiv 2306.15595, section 2.3. Chapter: Longer than trained.
    """
    factor = check_number("factor", factor, minimum=1)
    return ladder(dim, base) / factor, 1.0


def ntk(dim: int, factor: float, *, base: float = 10000.0) -> tuple[torch.Tensor, float]:
    r"""NTK-aware scaling: the base becomes b s^(dim/(dim-2)); the first frequency stays, the last is divided by s.

    Arguments: as in `linear`; dim at least 4.
    Returns: inv_freq [dim/2] float64 in radians per token, and 1.0.
    Paper: bloc97, a post of June 2023 (reddit.com/r/LocalLLaMA/comments/14lz7j5); arXiv 2309.00071, definition 1.
    Chapter: Longer than trained.
    """
    dim = check_int("dim", dim, minimum=4, even=True)
    factor = check_number("factor", factor, minimum=1)
    base = check_number("base", base, above=0)
    return ladder(dim, base * factor ** (dim / (dim - 2))), 1.0


def dynamic_ntk(
    dim: int, factor: float = 1.0, *, length: int, trained: int, base: float = 10000.0
) -> tuple[torch.Tensor, float]:
    r"""NTK-aware scaling that grows with the text: `ntk` by 1 + f (L / L0 - 1), with L = max(length, L0).

    Arguments:
        dim, base: as in `ntk`.
        factor: f >= 1; with 1, the scale is the length over the trained length.
        length: of the text so far, in tokens: one more than the largest position. `dynamic` follows it.
        trained: L0, in tokens. Up to it the frequencies are those of plain RoPE.
    Returns: inv_freq [dim/2] float64 in radians per token, and 1.0.
    Convention: the frequencies change with every token beyond L0, for keys of the past too: they must be kept as they
        were before the rotation, as `posenc.KVCache` does.
    Paper: emozilla, a post of June 2023 (reddit.com/r/LocalLLaMA/comments/14mrgpr); arXiv 2309.00071, section 3.3.
    Chapter: Longer than trained.
    """
    factor = check_number("factor", factor, minimum=1)
    length = check_number("length", length, minimum=0)
    trained = check_number("trained", trained, above=0)
    return ntk(dim, 1.0 + factor * (max(length / trained, 1.0) - 1.0), base=base)


def yarn(
    dim: int,
    factor: float,
    *,
    trained: int,
    base: float = 10000.0,
    ramp: str = "lanes",
    alpha: float = 1.0,
    beta: float = 32.0,
    truncate: bool = True,
    attention_factor: float | None = None,
    mscale: float | None = None,
    mscale_all_dim: float | None = None,
) -> tuple[torch.Tensor, float]:
    r"""YaRN: lanes that turn often in training keep their frequency, those that don't finish a turn are interpolated.

    A lane of wavelength 2 pi / w turns r = L w / (2 pi) times within the trained length L. Below alpha turns its
    frequency is divided by s, above beta it is kept, between the two the frequency is a mixture.

    Arguments:
        dim, factor, base: as in `linear`.
        trained: L, in tokens.
        ramp: what the mixture is linear in. "lanes", the released code: the index of the lane, between the lanes that
            turn beta and alpha times. "rotations", the paper: r.
        alpha, beta: in turns, alpha < beta.
        truncate: True rounds those two lanes outwards, as the released code does; False leaves them between lanes, as
            gpt-oss does. For ramp="lanes" alone.
        attention_factor: the factor on cos and sin, so that logits grow by its square. Default 0.1 ln s + 1; 1.0
            leaves the temperature out.
        mscale, mscale_all_dim: both, as a configuration names them, make the factor get_mscale(s, mscale) /
            get_mscale(s, mscale_all_dim): 1.0 where they are equal (Ministral 3, DeepSeek-V2 and V3). DeepSeek's models
            also multiply the scale of all scores by get_mscale(s, mscale_all_dim)^2, which is yours to give to
            `posenc.attention` as `scale`; Ministral's do not. One of them alone says nothing, and is refused.
    Returns: inv_freq [dim/2] float64 in radians per token, and the attention factor.
    Paper: arXiv 2309.00071, definitions 2 and 3. Chapter: Longer than trained.
    """
    check_choice("ramp", ramp, RAMPS)
    check_bool("truncate", truncate)
    scales = (mscale, mscale_all_dim)
    if scales.count(None) == 1 or (None not in scales and attention_factor is not None):
        both = f"give both, and no attention_factor={shown(attention_factor)}"
        raise ValueError(f"mscale={shown(mscale)} and mscale_all_dim={shown(mscale_all_dim)} make the factor: {both}")
    if None not in scales:
        attention_factor = get_mscale(factor, mscale) / get_mscale(factor, mscale_all_dim)
    elif attention_factor is None:
        attention_factor = get_mscale(factor)
    attention_factor = check_number("attention_factor", attention_factor, above=0)
    if ramp == "rotations":
        if not truncate:
            raise ValueError("truncate=False is for ramp='lanes': ramp='rotations' rounds nothing")
        return _by_turns(dim, factor, trained, base, alpha=alpha, beta=beta), attention_factor
    low, high = correction_lanes(dim, trained=trained, base=base, alpha=alpha, beta=beta, truncate=truncate)
    high = max(high, low + 1e-3)  # as the released code avoids dividing by 0
    kept = 1.0 - ((torch.arange(dim // 2, dtype=torch.float64, device="cpu") - low) / (high - low)).clamp(0, 1)
    return _mixture(dim, factor, base, kept), attention_factor


def get_mscale(factor: float, mscale: float = 1.0) -> float:
    r"""YaRN's temperature for a factor s, with a weight of its own: 0.1 mscale ln s + 1.

    DeepSeek's models multiply the scale of their scores by its square: scale = get_mscale(40, 1.0)^2 / sqrt(D), 1.8739
    times the usual one in V3; 1.5896 times in V2, whose weight is 0.707.

    Paper: the code of arXiv 2405.04434. Chapter: Longer than trained.
    """
    factor, mscale = check_number("factor", factor, minimum=1), check_number("mscale", mscale, above=0)
    return 0.1 * mscale * math.log(factor) + 1.0


def correction_lanes(
    dim: int, *, trained: int, base: float = 10000.0, alpha: float = 1.0, beta: float = 32.0, truncate: bool = True
) -> tuple[float, float]:
    r"""Where `yarn`'s ramp over lanes starts and ends: the lanes that turn beta and alpha times, rounded outwards.

    Arguments: as in `yarn`; base above 1.

    Returns: (first, last), ints; 20 and 46 for dim=128 and trained=4096. With truncate=False floats, not rounded.
    Paper: the code of arXiv 2309.00071. Chapter: Longer than trained.
    """
    dim = check_int("dim", dim, minimum=2, even=True)
    base = check_number("base", base, above=1)
    trained = check_number("trained", trained, above=0)
    check_bool("truncate", truncate)
    alpha, beta = _check_turns(alpha=alpha, beta=beta)
    first, last = (dim * math.log(trained / (2 * math.pi * turns)) / (2 * math.log(base)) for turns in (beta, alpha))
    if truncate:
        first, last = math.floor(first), math.ceil(last)
    return max(first, 0), min(last, dim - 1)


def llama3(
    dim: int, factor: float = 8.0, *, trained: int = 8192, low: float = 1.0, high: float = 4.0, base: float = 500000.0
) -> tuple[torch.Tensor, float]:
    r"""Llama 3.1: wavelengths below L / high are kept, above L / low multiplied by s, between the two a mixture.

    It is `yarn` with the paper's ramp from 1 to 4 turns and without the temperature.

    Arguments:
        dim, factor, base: as in `linear`; the defaults are those of Llama 3.1.
        trained: L, in tokens.
        low, high: in turns within L, low < high.
    Returns: inv_freq [dim/2] float64 in radians per token, and 1.0.
    Paper: the released code and configuration of Llama 3.1 (the report, arXiv 2407.21783, gives the base alone).
    Chapter: Longer than trained.
    """
    return _by_turns(dim, factor, trained, base, low=low, high=high), 1.0


def longrope(
    dim: int, factor: float, *, short: Sequence[float], long: Sequence[float], length: int, trained: int,
    base: float = 10000.0, attention_factor: float | None = None,
) -> tuple[torch.Tensor, float]:  # fmt: skip
    r"""LongRoPE: each lane has a factor of its own, found by search; one list up to the trained length, one beyond.

    Arguments:
        dim, base: as in `linear`.
        factor: s >= 1, the longest length that the factors were searched for over the trained length.
        short, long: the factors [dim/2] that divide the frequencies, lists or tensors; short up to `trained`.
        length: of the text so far, in tokens. `dynamic` follows it.
        trained: L0 > 1, in tokens.
        attention_factor: as in `yarn`. Default sqrt(1 + ln s / ln L0), at every length.
    Returns: inv_freq [dim/2] float64 in radians per token, and the attention factor.
    Convention: the paper also leaves the first tokens' positions as they are; released models don't.
    Paper: arXiv 2402.13753, section 3; the attention factor is that of the models released with it (Phi-3).
    Chapter: Longer than trained.
    """
    factor = check_number("factor", factor, minimum=1)
    length = check_number("length", length, minimum=0)
    trained = check_number("trained", trained, above=1)
    plain = ladder(dim, base)
    divisors = [_divisors(name, value, plain) for name, value in (("short", short), ("long", long))]
    if attention_factor is None:
        attention_factor = math.sqrt(1 + math.log(factor) / math.log(trained))
    attention_factor = check_number("attention_factor", attention_factor, above=0)
    return plain / divisors[length > trained], attention_factor


class DynamicRotary(nn.Module):
    """The `rotate` callable of `dynamic`."""

    def __init__(self, scheme, layout):
        super().__init__()
        self.scheme, self.layout = scheme, layout

    def forward(self, q, k, at):
        length = max(at.pos_k.max().item() + 1, 0) if at.pos_k.numel() else 0  # all may stand before 0
        inv_freq, factor = self.scheme(length=length)
        turned = (rotate(x, pos[:, None], inv_freq, self.layout, factor) for x, pos in ((q, at.pos_q), (k, at.pos_k)))
        return tuple(turned)


def dynamic(head_dim: int, scheme: Callable, *, layout: str = "interleaved") -> Encoding:
    r"""RoPE whose frequencies follow the length of the text, an `Encoding` at the place `rotate`.

    dynamic(64, functools.partial(dynamic_ntk, 64, trained=4096))

    Arguments:
        head_dim: D, even.
        scheme: called as scheme(length=...) with one more than the largest key position in the batch; returns
            (inv_freq [p/2], attention_factor) with p at most D.
        layout: see `posenc.rope.rotate`.
    Convention: all queries and keys of a call turn by the frequencies of one length. So a step of decoding equals the
        last row of a full pass over the text up to there; earlier rows of a longer pass differ from their own steps.
        Each call reads the largest position and moves new frequencies to the device: no CUDA graph holds it, nor does
        `torch.compile(fullgraph=True)`.
    Chapter: Longer than trained.
    """
    head_dim = check_int("head_dim", head_dim, minimum=2, even=True)
    check_choice("layout", layout, LAYOUTS)
    if not callable(scheme):
        raise TypeError(f"scheme={shown(scheme)} must be a callable of length, got {type(scheme).__name__}")
    frequencies = scheme(length=1)[0]
    check_tensor("scheme(length=1)[0]", frequencies, "[p/2]", ndim=1, floating=True)
    if 2 * frequencies.shape[0] > head_dim:
        raise ValueError(f"scheme turns {2 * frequencies.shape[0]} lanes, more than head_dim={head_dim}")
    return Encoding(rotate=DynamicRotary(scheme, layout), head_dim=head_dim)


def _mixture(dim, factor, base, kept):
    """Frequencies of which the part `kept` [dim/2] stays and the rest is divided by `factor`."""
    factor = check_number("factor", factor, minimum=1)
    return ladder(dim, base) * (kept + (1.0 - kept) / factor)


def _by_turns(dim, factor, trained, base, **turns):
    trained = check_number("trained", trained, above=0)
    low, high = _check_turns(**turns)
    rotations = trained * ladder(dim, base) / (2 * math.pi)
    return _mixture(dim, factor, base, ((rotations - low) / (high - low)).clamp(0, 1))


def _check_turns(**turns):
    """Two numbers of turns, given under the caller's names for them, once they are positive and in order."""
    first, second = (check_number(name, value, above=0) for name, value in turns.items())
    if first >= second:
        low, high = turns
        raise ValueError(f"{low}={first} must be below {high}={second}")
    return first, second


def _divisors(name, value, plain):
    if isinstance(value, (list, tuple)):
        value = torch.tensor(value, dtype=plain.dtype, device="cpu")
    check_tensor(name, value, f"[{plain.shape[0]}]", ndim=1, floating=True)
    if value.shape != plain.shape:
        raise ValueError(f"{name} must have one factor for each of {plain.shape[0]} pairs, got {list(value.shape)}")
    if not (value.isfinite() & (value > 0)).all():
        raise ValueError(f"{name} must hold finite factors above 0, got {shown(value.tolist())}")
    return value.to("cpu", plain.dtype)
