r"""Explorables of the chapter *RoPE, looked at closely*."""

import math
from functools import cache

import torch

from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, label, level, line, number, path, upright
from posenc.rotate.rope import inv_freq

#: Where rounding may enter on the way to cos and sin, and to what: what is rounded, and the dtype.
PLACES = {"positions": "positions", "frequencies": "frequencies", "cos and sin": "table"}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "float32": torch.float32}
ROUNDED = {f"{part} in {half}": (place, DTYPES[half]) for part, place in PLACES.items() for half in ("fp16", "bf16")}
ROUNDED |= {"float32 angles": ("angles", torch.float32)}


def cos_sin(positions, inv_freq, place, dtype):
    r"""cos and sin [..., T, p/2] in float64, what `place` names rounded to `dtype` on the way."""
    at = positions[..., None].to(dtype if place in ("angles", "positions") else torch.float64)
    w = inv_freq.to(dtype if place in ("angles", "frequencies") else torch.float64)
    angles = (at * w).double()  # a product of two dtypes has the larger one
    cos, sin = angles.cos(), angles.sin()
    return (cos.to(dtype).double(), sin.to(dtype).double()) if place == "table" else (cos, sin)


def turn_rounded(x, positions, inv_freq, where):
    r"""`posenc.rope.rotate` in the interleaved layout, all in float64 but for the one rounding that `where` names."""
    cos, sin = cos_sin(positions, inv_freq, *ROUNDED[where])
    a, b = x.double().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2).to(x.dtype)


DIM, TARGET, REACH = 64, 40, 128  # the lanes of a head, the distance its key aims at, those that are drawn
FEW, BESIDE = 16, 4  # the pairs at first, and how many tokens from its target are the peak's own


def _aimed(count):
    """Where lanes are drawn alike, a pair adds, on average, its squared length times the cosine of its angle."""
    away = torch.arange(REACH + 1) - TARGET
    cosines = (away[:, None] * inv_freq(DIM, dtype=torch.float64)).cos()
    few, score = cosines[:, :FEW].mean(-1), cosines[:, :count].mean(-1)
    at, rest, pairs = torch.arange(REACH + 1), away.abs() > BESIDE, torch.arange(DIM // 2)
    before, ground = (part[rest].mean().item() for part in (few, score))
    share = "distance %{x}: %{y:.0%} of the peak<extra></extra>"
    marker = dict(symbol="arrow", angleref="previous", size=[0, 14], color=COLORS["green"], opacity=1)
    said, beside = f"<b>stands out<br>by {number(1 - ground)}</b>", f"middle {'left' if count > DIM // 4 else 'right'}"
    dashes = "dashes: all others, on average" if score.min() > -0.33 else " "  # where it has room

    def tiles(name, some, color):
        return bars(name, pairs[some] + 0.5, [1] * int(some.sum()), color, width=0.8, panel=2)

    data = [
        line(f"{FEW} fastest", at, few, "gray", 2, opacity=0.55),
        level(f"ground of the {FEW}", before, 0, REACH, "gray", 1.5, "dot", opacity=0.6),
        level("ground", ground, 0, REACH, "green", 2.5, "dash"),
        line("these pairs", at, score, "blue", 3, hover=share),
        path("stands out", [TARGET, TARGET], [ground, 0.99], "green", 5, marker=marker),
        label("by how much", TARGET + 5, 0.87, said, "green", "middle right", 18, True),
        label("ground, named", REACH - 1, -0.47, dashes, "green", "middle left", 14),
        tiles("pairs that take part", pairs < count, "blue"),
        tiles("pairs that stay out", pairs >= count, "rgba(125, 131, 140, 0.25)"),
        upright("how many", count, -0.3, 1.4, "orange", 4, panel=2),
        label("their number", count, 2.3, f"\xa0<b>{count} fastest</b>, drag\xa0", "blue", beside, 14, panel=2),
    ]
    ends = dict(tickvals=[1, DIM // 2 - 1], ticktext=["fast", "slow"], showgrid=False, ticks="", zeroline=False)
    layout = dict(height=420, showlegend=False, barmode="overlay", margin=dict(t=6))
    layout |= dict(
        xaxis=axis(0, REACH, "distance m − n", tickvals=[0, TARGET, 80, 120], showgrid=False, anchor="y"),
        yaxis=axis(-0.65, 1.1, "share of the peak", tickvals=[0, 1], domain=[0.36, 1]),
        xaxis2=axis(-0.2, DIM // 2 + 0.2, **ends, anchor="y2"),
        yaxis2=axis(-0.3, 2.9, visible=False, domain=[0, 0.17]),
    )
    return dict(data=data, layout=layout)


aimed_key = explorable(
    _aimed,
    id="rope_closely.aimed_key",
    title="Which pairs of lanes make the peak?",
    alt="The mean score of a query and a key aimed at distance 40, as a share of its peak, a dashed level at the mean "
    "of all other distances, an arrow from it up to the peak, and pale the curve of the 16 fastest pairs. Below, a "
    "strip of 32 pairs; drag its mark to say how many take part. A few peak again and again. As more join, false peaks "
    "sink, and a needle is left; the slow ones lift all else, so that it stands out by less.",
    see="Drag the orange mark: how far does the peak stand out from all else?",
    handles={"how many": "count"},
    count=slider(range(4, DIM // 2 + 1), label="fastest pairs", default=FEW),
)


WIDE, DRAWN = 128, 256
OCTAVES, LEAST = range(4, 21), 1e-3  # positions 16 .. 1,048,576, and the least error that has a bar


@cache
def octave_errors(place, dtype):
    r"""The largest error of a cosine at DRAWN positions of each octave 2^k .. 2^(k+1): [len(OCTAVES), 64 pairs].

    NaN where a position overflows: infinity has no cosine.
    """
    w = inv_freq(WIDE, dtype=torch.float64)
    part = torch.rand(DRAWN, dtype=torch.float64, generator=torch.Generator().manual_seed(6))
    positions = torch.stack([(2**k * (1 + part)).floor() for k in OCTAVES])
    exact = (positions[..., None] * w).cos()
    return (cos_sin(positions, w, PLACES[place], DTYPES[dtype])[0] - exact).abs().amax(1)


def _bits(dtype):
    return round(1 - math.log2(torch.finfo(dtype).eps))  # that a number keeps, the leading one included


def _verdict(errors):
    """Past which position a cosine is off by LEAST, or that it is off by as much everywhere, or by less."""
    off = [n for n, error in zip(OCTAVES, errors.tolist()) if not error < LEAST]
    if not off:
        return "exact" if errors.max() < 1e-9 else f"below {LEAST:g}"
    same = errors.max() < 2 * errors.min()
    start = "off from the start" if off[0] == OCTAVES[0] else f"off past {2 ** off[0]:,}"
    return f"always off by {errors.max():.1g}" if same else start


def _precision(dtype, pair):
    data, kept, at, bits = [], _bits(DTYPES[dtype]), torch.tensor(OCTAVES), torch.arange(_bits(torch.float32)) + 0.5
    for row, place in enumerate(PLACES):
        low, errors = 5 * (2 - row), [octave_errors(place, name)[:, pair] for name in ("bf16", dtype)]
        ghost, heights = ((error.nan_to_num(2.0) / LEAST).clamp(min=1).log10() for error in errors)
        lost, look = errors[1].isnan().tolist(), dict(width=0.86, base=low)
        said = [f"{2**n:,}: {'overflow' if no else f'{error:.1g}'}" for n, no, error in zip(OCTAVES, lost, errors[1])]
        look |= dict(customdata=said, hover="from position %{customdata}")
        lit = [1 if n == (heights > 0).int().argmax() else 0.55 for n in range(len(at))]  # the first that is off
        hatch = dict(opacity=lit, pattern=dict(shape=["/" if no else "" for no in lost]))
        aside = (sum(OCTAVES[n] for n, no in enumerate(lost) if no) / max(sum(lost), 1), "overflow" * any(lost))
        data += [
            bars(f"{place} in bf16", at, ghost, "rgba(125, 131, 140, 0.25)", **look),
            bars(place, at, heights, "orange", marker=hatch, **look),
            level(f"{place}: no error", low, OCTAVES[0] - 0.5, OCTAVES[-1] + 0.5, "gray", 1),
            label(f"{place}: lost", aside[0], low + 1.5, aside[1], "ink", "middle center", 14, halo=True),
            label(f"{place}: named", 3.3, low + 4.05, f"<b>{place}</b>", "ink", "middle right", 14),
            label(f"{place}: verdict", 20.6, low + 4.05, f"<b>{_verdict(errors[1])}</b>", "orange", "middle left", 17),
        ]
    side, here = "left" if kept > len(bits) / 2 else "right", f"\xa0\xa0\xa0<b>{kept} bits</b> kept, drag\xa0\xa0\xa0"
    for name, some, color in (("kept", bits < kept, "blue"), ("cut off", bits > kept, "rgba(125, 131, 140, 0.25)")):
        data.append(bars(name, bits[some], [1] * int(some.sum()), color, width=0.8, panel=2))
    data += [
        upright("how many bits", kept, -0.3, 1.4, "purple", 4, panel=2),
        label("how many", kept, 2.1, here, "purple", f"middle {side}", 14, panel=2),
    ]
    ticks = dict(tickvals=[4, 8, 12, 16, 20], ticktext="16 256 4k 65k 1M".split(), tickangle=0, showgrid=False)
    stops = dict(tickvals=[_bits(own) for own in DTYPES.values()], ticktext=[*DTYPES], showgrid=False, ticks="")
    layout = dict(height=460, showlegend=False, barmode="overlay", margin=dict(t=6, l=8, r=8))
    layout |= dict(
        xaxis=axis(3.2, 20.7, "position (bars: off by 0.001 to 2, log scale)", **ticks, anchor="y"),
        yaxis=axis(-0.3, 14.9, visible=False, domain=[0, 0.74]),
        xaxis2=axis(-0.2, 25, **stops, zeroline=False, tickangle=0, anchor="y2"),
        yaxis2=axis(-0.3, 2.8, visible=False, domain=[0.86, 1]),
    )
    return dict(data=data, layout=layout)


precision = explorable(
    _precision,
    title="What rounding does to a cosine",
    alt="A strip of bits, its end to be dragged: how many a number keeps in bf16, fp16 or float32. Under it three rows "
    "of bars, one for each doubling of the position: by how much a cosine is off, if the position is rounded, or the "
    "frequency, or cosine and sine; words say past where. Pale bars are bf16's. With it and pair 8 positions are "
    "exact up to 256, and then soon wrong; frequencies off from the first bar; cosines by the same little.",
    see="Drag the end of the bits: past which position is a cosine off?",
    handles={"how many bits": "dtype"},
    dtype=slider(list(DTYPES), label="rounded to"),
    pair=slider([0, 4, 8, 16], label="pair of lanes i", default=8),
)
