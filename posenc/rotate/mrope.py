r"""M-RoPE: RoPE for texts that hold pictures; time, row and column share one ladder of frequencies."""

import numbers
from collections.abc import Sequence

import torch

from ..encoding import Encoding
from ..errors import check_bool, check_choice, check_int, check_number, check_tensor, shown
from .rope import LAYOUTS, ladder
from .rope2d import Rotary2d

AXES = 3  # time, row, column


def dealt(
    head_dim: int,
    sections: Sequence[int] | None = None,
    base: float = 1e6,
    interleaved: bool = False,
    inv_freq: torch.Tensor | None = None,
) -> torch.Tensor:
    r"""RoPE's frequencies, each dealt to one of the three axes.

    Arguments:
        head_dim: D, even.
        sections: how many of the D/2 frequencies time, row and column get; default a quarter, three eighths and three
            eighths as Qwen2-VL has it, rounded in favor of time.
        base: b of the frequencies b^(-2i/D).
        interleaved: False deals in sections, the fastest to time (Qwen2-VL); True in turn, as long as row and column
            have some left (Qwen3-VL), so that each axis has fast and slow ones.
        inv_freq: [D/2] frequencies of your own, as those of `posenc.scaling`, in place of those of `base`.
    Returns: [3, D/2] float64, on the CPU, for `posenc.rope2d.rotate`.
    Paper: arXiv 2409.12191, section 2.1; arXiv 2511.21631, section 2. Chapter: Two axes and more.
    """
    head_dim = check_int("head_dim", head_dim, minimum=2, even=True)
    check_bool("interleaved", interleaved)
    frequencies = ladder(head_dim, base) if inv_freq is None else inv_freq
    check_tensor("inv_freq", frequencies, "[D/2]", ndim=1, floating=True)
    if 2 * frequencies.shape[0] != head_dim:
        raise ValueError(f"inv_freq turns {2 * frequencies.shape[0]} lanes, it must be those of head_dim={head_dim}")
    space = head_dim // 2 * 3 // 8
    sections = [head_dim // 2 - 2 * space, space, space] if sections is None else list(sections)
    whole = all(isinstance(n, numbers.Integral) and n >= 0 for n in sections)
    if not whole or len(sections) != AXES or 2 * sum(sections) != head_dim:
        half = f"{head_dim // 2}, half the lanes that turn; rotary_dim of mrope turns a part of a head"
        raise ValueError(f"sections={shown(sections)} must be three whole numbers that add up to {half}")
    owner = torch.arange(AXES, device="cpu").repeat_interleave(torch.tensor(sections, device="cpu"))
    if interleaved:
        if max(2 + AXES * (sections[2] - 1), 1 + AXES * (sections[1] - 1)) >= head_dim // 2:
            raise ValueError(f"sections={sections} can't be interleaved: row and column take every third frequency")
        owner = torch.zeros(head_dim // 2, dtype=torch.long, device="cpu")
        for axis in (1, 2):
            owner[axis : AXES * sections[axis] : AXES] = axis
    return frequencies.to("cpu", torch.float64) * (owner == torch.arange(AXES, device="cpu")[:, None])


def positions_for(
    layout: Sequence[int | Sequence[int]], *, after: str = "largest", time_step: float = 1
) -> torch.Tensor:
    r"""The three ids of each token of a text with pictures.

    A word stands at the same id on all axes, so text alone is plain RoPE. A picture starts at the next id; its patches
    count on from there, each axis for itself. Grid g of a video stands at start + floor(g time_step) in time.

    Arguments:
        layout: a list of parts in order: a whole number n for n tokens of text, (time, rows, columns) for a picture or
            a video, whose patches stand in this order, columns fastest.
        after: where that starts which follows a picture or a video. "largest": at the largest id so far, plus one.
            "side": at the start of the picture plus its longer side, max(rows, columns); where a video has more time
            ids than that, what follows overlaps them. The two agree for pictures.
        time_step: ids from one grid of a video to the next, greater than 0. Qwen2-VL counts grids, 1; Qwen2.5-VL
            follows the clock, tokens_per_second * second_per_grid_ts, in ids a second and seconds a grid (of two
            frames: 2 / fps).
    Returns: [T, 3] int64.
    Convention: "largest" is that of the paper and of Qwen's own code (transformers' pull request 35569), "side" that of
        Qwen2-VL and Qwen2.5-VL in transformers 5.15. There a prompt's `rope_deltas` are the largest id, plus one, less
        its tokens, so that decoding goes on at the largest id plus one by both. Ids are cut to whole ones after the
        product, in float32, as there since its pull request 48669; 5.15 cuts the seconds first, so that 0.5 s is none.
    Paper: arXiv 2409.12191, section 2.1; of the clock, 2502.13923. Chapter: Two axes and more.
    """
    check_choice("after", after, ("largest", "side"))
    if not hasattr(layout, "__iter__"):
        raise TypeError(f"layout={shown(layout)} must be a list of parts, such as [3, (1, 2, 4), 2]")
    time_step = check_number("time_step", time_step, above=0)
    parts, start = [torch.zeros(0, AXES, dtype=torch.long)], 0
    for part in layout:
        if isinstance(part, numbers.Integral):
            part = check_int("layout", part, minimum=0)
            parts.append(start + torch.arange(part)[:, None].expand(part, AXES))
            start += part
            continue
        if not hasattr(part, "__len__") or len(part) != AXES:
            raise ValueError(f"layout holds {shown(part)}, a picture is (time, rows, columns)")
        time, rows, columns = (check_int("layout", size) for size in part)
        times = (torch.arange(time, dtype=torch.float32) * time_step).long()
        parts.append(start + torch.cartesian_prod(times, torch.arange(rows), torch.arange(columns)))
        start = int(parts[-1].max()) + 1 if after == "largest" else start + max(rows, columns)
    return torch.cat(parts)


def mrope(
    head_dim: int, sections: Sequence[int] | None = None, base: float = 1e6, *, interleaved: bool = False,
    layout: str = "half", rotary_dim: int | None = None, inv_freq: torch.Tensor | None = None,
    attention_factor: float = 1.0,
) -> Encoding:  # fmt: skip
    r"""RoPE with three ids a token, an `Encoding` at the place `rotate` whose positions are [T, 3] or [B, T, 3].

    Arguments:
        head_dim: D, even: that of q and k, whatever part of it turns.
        sections, base, interleaved: see `dealt`; `sections` add up to half the lanes that turn.
        layout: which lanes make a pair, see `posenc.rope.rotate`. The default is "half", as in Qwen's models; that of
            `rope` is "interleaved", as in its paper.
        rotary_dim: p, even, at most D: the first p lanes turn, by a ladder of p lanes (Qwen3.5: 64 of 256). Default D.
        inv_freq: [p/2] frequencies of your own, instead of `base` and `rotary_dim`.
        attention_factor: factor on cos and sin (YaRN's temperature).
    Paper: arXiv 2409.12191. Chapter: Two axes and more.
    """
    head_dim = check_int("head_dim", head_dim, minimum=2, even=True)
    check_choice("layout", layout, LAYOUTS)
    attention_factor = check_number("attention_factor", attention_factor, above=0)
    if inv_freq is not None:
        check_tensor("inv_freq", inv_freq, "[p/2]", ndim=1, floating=True)
        if rotary_dim is not None:
            raise ValueError(f"inv_freq is given, so leave out rotary_dim={shown(rotary_dim)}")
        lanes, name = 2 * inv_freq.shape[0], "inv_freq"
    else:
        lanes = head_dim if rotary_dim is None else check_int("rotary_dim", rotary_dim, minimum=2, even=True)
        name = "rotary_dim"
    if lanes > head_dim:
        raise ValueError(f"{name} turns {lanes} lanes, at most head_dim={head_dim} may")
    turning = Rotary2d(dealt(lanes, sections, base, interleaved, inv_freq), layout, attention_factor=attention_factor)
    return Encoding(rotate=turning, axes=AXES, head_dim=head_dim)
