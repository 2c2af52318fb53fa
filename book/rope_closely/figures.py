r"""Explorables of the chapter *RoPE, looked at closely*."""

import math
from functools import cache

import torch

from posenc.lab.experiments import load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import apart, axis, bars, dots, label, line, pin, thousands
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


DIM = 64
LANES = {"all 32": slice(0, 32), "16 fastest": slice(0, 16), "16 slowest": slice(16, 32), "pair 8 alone": slice(8, 9)}


@cache
def aimed_scores(target, reach):
    r"""The mean score of a random query and a key that is this query, turned on by `target` tokens: a row a choice of
    LANES, a column a distance 0 .. reach, each as a share of the row's peak.

    A pair whose lanes are drawn alike adds, on average, its squared length times the cosine of its angle.
    """
    away = torch.arange(reach + 1, dtype=torch.float64) - target
    cosines = (away[:, None] * inv_freq(DIM, dtype=torch.float64)).cos()
    return torch.stack([cosines[:, lanes].mean(-1) for lanes in LANES.values()])


def _aimed(target, lanes):
    reach = 128
    scores, names = aimed_scores(target, reach), list(LANES)
    row, distances = scores[names.index(lanes)], torch.arange(reach + 1)
    end = next((d for d in range(target, reach + 1) if row[d] < 0.5), reach)
    share = "distance %{x}: %{y:.0%} of the peak<extra></extra>"
    words = [(f" <b>{name}</b>" if name == lanes else f" {name}").replace(" alone", "") for name in names]
    heights = apart(scores[:, -1].tolist(), 0.13, -1.1)
    colors = ["blue" if name == lanes else "gray" for name in names]
    dashes = ["solid"] * (len(names) - 1) + ["dash"]
    data = [
        line(name, distances, curve, "gray", 1, dash, hover=f"{name}, {share}")
        for name, curve, dash in zip(names, scores, dashes)
    ]
    data += [
        line("these pairs", distances, row, "blue", 3, hover=share),
        label("names of the others", [reach] * 4, heights, words, colors, "middle right", 12, cliponaxis=False),
        dots("where the key aims", [target], [1], "orange", 15, "diamond"),
        label("aimed", target, 1.1, f"aimed at {target}", "orange"),
    ]
    layout = dict(
        height=420,
        showlegend=False,
        margin=dict(t=10, r=78),
        xaxis=axis(-3, reach, "distance m − n, in tokens"),
        yaxis=axis(-1.1, 1.3, "score, share of its peak", tickvals=[-1, 0, 1]),
    )
    return dict(data=data, layout=layout), {
        "half": f"half of it gone after {end - target} tokens" if end < reach else "never half gone in this range",
        "target": target,
    }


aimed_key = explorable(
    _aimed,
    id="rope_closely.aimed_key",
    title="Which pairs of lanes make the peak?",
    alt="The mean score of a query and a key aimed at a distance, as a share of its peak. The peak stands wherever "
    "the reader drags it. With the fastest pairs it is a needle, with the slowest a broad hill, and a single pair "
    "draws a cosine that peaks again after each full turn. The choices not taken stand behind as thin gray lines; each "
    "line has its name at its right end.",
    readout="peak at {target} · {half}",
    handles={"where the key aims": "target"},
    lanes=slider(list(LANES), label="pairs of lanes", default="16 fastest"),
    target=slider(range(0, 97, 4), label="aimed at distance a", default=40),
)


PAIRS, HEADS, WINDOW = 12, 12, 64  # of the study model


@cache
def _trained():
    r"""The heads' energy by pair, and their mean score by distance: (energy and position [HEADS, PAIRS] each, curves).

    curves: [HEADS, PAIRS, WINDOW], the mean part of each pair in the score at every distance within the window.
    """
    found = load_results("rope_closely")
    keys = ("energy", "position", "cos", "sin")
    energy, position, cos, sin = (torch.tensor([h[key] for h in found["heads"]], dtype=torch.float64) for key in keys)
    angles = torch.arange(WINDOW) * torch.tensor(found["inv_freq"], dtype=torch.float64)[:, None]
    return energy, position, angles.cos() * cos[..., None] + angles.sin() * sin[..., None]


def _lanes(head, pair):
    energy, position, curves = _trained()
    pairs, content = torch.arange(PAIRS), energy - position
    top = math.ceil(10 * energy[head].max().item()) / 10
    reach = math.ceil(10 * curves[head].abs().max().item()) / 10
    part, hatched = "pair %{{x}}: %{{y:.2f}} from {}<extra></extra>", dict(pattern=dict(shape="/", fillmode="replace"))
    lower = dict(hover="distance %{x}: %{y:.2f}<extra></extra>", panel=2, showlegend=False)
    data = [
        bars("from position", pairs, position[head], "blue", hover=part.format("position")),
        bars("from content", pairs, content[head], "orange", marker=hatched, hover=part.format("content")),
        pin("this pair", pair, 0, 1.06 * top),
        line("mean part of this pair in the score", torch.arange(WINDOW), curves[head, pair], "ink", 2.5, **lower),
    ]
    layout = dict(
        height=520,
        barmode="stack",
        bargap=0.15,
        xaxis=axis(-0.6, PAIRS - 0.4, "pair of lanes, fastest first", dtick=1),
        yaxis=axis(0, 1.15 * top, "energy, logits²", domain=[0.48, 1]),
        xaxis2=axis(0, WINDOW - 1, "distance m − n, in tokens", anchor="y2"),
        yaxis2=axis(-reach, reach, "mean part", domain=[0, 0.3], anchor="x2"),
    )
    return dict(data=data, layout=layout), {
        "share": f"{position[head, pair] / energy[head, pair]:.0%}",
        "whole": f"{position[head].sum() / energy[head].sum():.0%}",
        "turns": f"{(WINDOW - 1) * inv_freq(2 * PAIRS)[pair].item() / (2 * math.pi):.2g}",
    }


lane_use = explorable(
    _lanes,
    id="rope_closely.lane_use",
    title="What each pair of lanes does in a trained head",
    alt="Above, a bar for each of 12 pairs of lanes in one trained head, fastest on the left: how much the pair moves "
    "the score, split into a solid part that depends on position alone and a hatched part that depends on content. "
    "Nearly all of it is in the five fastest pairs; the slow pairs have short, mostly hatched bars. Below, the mean "
    "part of the chosen pair in the score against distance: an oscillation for a fast pair, nearly "
    "a straight line for a slow one.",
    readout="by position: {share} of this pair · {whole} of the head · {turns} turns",
    handles={"this pair": "pair"},
    head=slider(range(HEADS), label="head", default=4, format=lambda n: f"layer {n // 4}, head {n % 4}"),
    pair=slider(range(PAIRS), label="pair of lanes i", default=2),
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
    off, lower = "from position %{customdata:,}: off by %{y:.2g}<extra></extra>", dict(panel=2, showlegend=False)
    starts, ticks = [2**n for n in OCTAVES], dict(tickvals=[4, 8, 11, 14, 17, 20], tickangle=0)
    data = [
        line("exact", fine, ((start + fine) * w).cos(), "gray", 2),
        dots("as computed", steps, got, "orange", 8, "diamond", hover=value),
        line("largest error", list(OCTAVES), errors, "blue", 2.5, hover=off, customdata=starts, **lower),
        pin("here", octave, 0, 2.1, xaxis="x2", yaxis="y2"),
    ]
    layout = dict(
        height=480,
        xaxis=axis(-0.7, AROUND + 0.7, "tokens on from there", anchor="y"),
        yaxis=axis(-1.2, 1.2, "cosine", domain=[0.56, 1], tickvals=[-1, 0, 1]),
        xaxis2=axis(3.6, 20.4, "position", anchor="y2", ticktext="16 256 2k 16k 131k 1M".split(), **ticks),
        yaxis2=axis(0, 2.3, "off by", domain=[0, 0.32], tickvals=[0, 1, 2]),
    )
    return dict(data=data, layout=layout), {"position": thousands(start), "here": _off_by(here)}


precision = explorable(
    _precision,
    title="What rounding does to the angle",
    alt="Above, the cosine of one pair at 33 neighboring positions: the exact curve, and a diamond for what is "
    "computed. With positions in bf16 the diamonds sit on the curve up to position 256; beyond it neighbors share a "
    "value, and the diamonds part from the curve. Below, the largest error against the position, which doubles from "
    "mark to mark; the upright line is dragged to where the upper drawing looks.",
    readout="position {position} · cosine off by {here}",
    handles={"here": "octave"},
    place=slider(list(PLACES), label="rounded"),
    dtype=slider(list(DTYPES), label="to"),
    octave=slider(OCTAVES, label="position", default=9, play=True, format=lambda octave: thousands(2**octave)),
    pair=slider([0, 4, 8, 16, 32], label="pair of lanes i", default=8),
)
