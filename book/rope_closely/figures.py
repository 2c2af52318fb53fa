r"""Explorables of the chapter *RoPE, looked at closely*."""

import math
from functools import cache

import torch

from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, dots, held, label, line, pin, thousands
from posenc.rotate.rope import inv_freq

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


DIM, FARTHEST = 64, 96  # the lanes of a head, and the farthest distance that its key aims at
REACH, STRIP = 128, -1.5  # the distances that are drawn, and how low the pairs stand under the curve


def _aimed(count, target):
    """Where lanes are drawn alike, a pair adds, on average, its squared length times the cosine of its angle."""
    away = torch.arange(-FARTHEST, REACH + 1)
    cosines = (away[:, None] * inv_freq(DIM, dtype=torch.float64)).cos()
    score, places = cosines[:, :count].mean(-1), 2 + 4 * torch.arange(DIM // 2)
    half = int((score[FARTHEST:] < 0.5).int().argmax())  # the first
    share = "distance %{x}: %{y:.0%} of the peak<extra></extra>"
    ends = [f"{count} fastest of {DIM // 2} pairs", "slow"]
    data = [
        line("the last of these pairs", away + target, cosines[:, count - 1], "orange", 1.5, "dot"),
        line("these pairs", away + target, score, "blue", 3, hover=share),
        held("where the key aims", target, 1, "blue"),
        label("aimed", target, 1.1, f"aimed at {target}", "blue", "top center" if target > 16 else "top right"),
        label("its name", REACH, 1.42, "dotted: the last pair alone", "orange", "middle left"),
        dots("pairs that stay out", places[count:], [STRIP] * (DIM // 2 - count), "gray", 6, "circle-open"),
        dots("pairs that take part", places[:count], [STRIP] * count, "blue", 7),
        held("how many", places[count - 1].item(), STRIP, "orange", "square"),
        label("fast and slow", [2, REACH - 2], [STRIP + 0.1] * 2, ends, ["blue", "gray"], ["top right", "top left"]),
    ]
    layout = dict(
        height=420,
        showlegend=False,
        margin=dict(t=10),
        xaxis=axis(0, REACH, "distance m − n, in tokens"),
        yaxis=axis(STRIP - 0.2, 1.5, "score, share of its peak", tickvals=[-1, 0, 1]),
    )
    return dict(data=data, layout=layout), {"half": half}


aimed_key = explorable(
    _aimed,
    id="rope_closely.aimed_key",
    title="Which pairs of lanes make the peak?",
    alt="The mean score of a query and a key aimed at a distance, as a share of its peak. Under it a row of 32 pairs, "
    "fast to slow; drag its mark to say how many of the fastest take part. One pair draws a cosine that peaks again "
    "after each full turn. As the first dozen joins, the last one dotted, the false peaks sink, until a needle is left "
    "where the key aims; the slow ones lift all else. The peak itself can be dragged, and its shape goes along.",
    readout="half of it gone after {half} tokens",
    handles={"how many": "count", "where the key aims": "target"},
    count=slider(range(1, DIM // 2 + 1), label="fastest pairs", default=16),
    target=slider(range(0, FARTHEST + 1, 4), label="aimed at distance a", default=40),
)


WIDE, DRAWN = 128, 256
OCTAVES = range(4, 21)  # 16 .. 1,048,576
AROUND = 32
PLACES = {"positions": "positions", "frequencies": "frequencies", "the angle": "angles", "cos and sin": "table"}
DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16, "float32": torch.float32}


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


def _off_by(error):
    if math.isnan(error):
        return "–"
    return "nothing" if error < 1e-9 else f"{error:.1g}".replace("-", "−")


def _precision(place, dtype, octave, pair):
    start, w = 2**octave, inv_freq(WIDE, dtype=torch.float64)[pair : pair + 1]
    steps = torch.arange(AROUND + 1)
    fine = torch.linspace(0, AROUND, 8 * AROUND + 1 if pair < 16 else 33, dtype=torch.float64)
    got = cos_sin((start + steps).double(), w, PLACES[place], DTYPES[dtype])[0][:, 0]
    errors = octave_errors(place, dtype)[:, pair]
    here = errors[octave - OCTAVES[0]].item()
    value = f"position {start:,} + %{{x}}: %{{y:.3f}}<extra></extra>"
    off, lower = "from position %{customdata}<extra></extra>", dict(panel=2, showlegend=False)
    said = [f"{2**n:,}: off by {_off_by(error)}" for n, error in zip(OCTAVES, errors.tolist())]
    ghost, ticks = octave_errors("positions", dtype)[:, pair], dict(tickvals=[4, 8, 11, 14, 17, 20], tickangle=0)
    rise, shown = OCTAVES[int((ghost > 0.01).double().argmax())], place != "positions"
    data = [
        line("exact", fine, ((start + fine) * w).cos(), "gray", 2),
        dots("as computed", steps, got, "orange", 8, "diamond", hover=value),
        line("that of positions", list(OCTAVES), ghost.clamp(min=1e-3), "gray", 2, "dot", **lower, opacity=shown),
        label("whose", rise, 0.3, "positions\u2002" * shown, "gray", "middle left", panel=2),
        line("largest error", list(OCTAVES), errors.clamp(min=1e-3), "blue", 2.5, hover=off, customdata=said, **lower),
        pin("here", octave, 8e-4, 3, xaxis="x2", yaxis="y2"),
    ]
    layout = dict(
        height=480,
        xaxis=axis(-0.7, AROUND + 0.7, "tokens on from the position below", anchor="y"),
        yaxis=axis(-1.2, 1.2, "cosine", domain=[0.57, 1], tickvals=[-1, 0, 1]),
        xaxis2=axis(3.6, 20.4, "position", anchor="y2", ticktext="16 256 2k 16k 131k 1M".split(), **ticks),
        yaxis2=axis(
            -3.2, 0.6, "off by", domain=[0, 0.38], type="log", tickvals=[1e-3, 0.1, 1], ticktext=["≤ 0.001", "0.1", "1"]
        ),
    )
    return dict(data=data, layout=layout), {"position": thousands(start), "here": _off_by(here)}


precision = explorable(
    _precision,
    title="What rounding does to the angle",
    alt="Above, the cosine of one pair at 33 neighboring positions: the exact curve, and a diamond for what is "
    "computed. With positions in bf16 the diamonds sit on the curve up to position 256; beyond it neighbors share a "
    "value, and the diamonds part from the curve. Below, the largest error against the position, which doubles from "
    "mark to mark, that of rounded positions dotted; the upright line is dragged to where the upper drawing looks.",
    readout="position {position} · cosine off by {here}",
    handles={"here": "octave"},
    place=slider(list(PLACES), label="rounded"),
    dtype=slider(list(DTYPES), label="to"),
    octave=slider(OCTAVES, label="position", default=9, play=True, format=lambda octave: thousands(2**octave)),
    pair=slider([0, 4, 8, 16, 32], label="pair of lanes i", default=8),
)
