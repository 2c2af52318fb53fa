r"""Explorables of the RoPE chapter."""

import math
from functools import cache

import torch

from posenc import rope
from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider

PAIRS = 8  # pairs of lanes in the plane: D = 16
DRAWS = 400  # seeded draws behind a mean and its spread
POINTS = 65  # distances drawn


def _power(value):
    return f"{value:,.0f}"


def _words(value, digits):
    r"""A number for a readout: thousands separated, a true minus sign, none before a zero, a dash for nan."""
    if math.isnan(value):
        return "–"
    return f"{round(value, digits) + 0.0:,.{digits}f}".replace("-", "−")


# Two vectors turn, their score stays


@cache
def _content():
    r"""A query and a key before rotation, [2, PAIRS, 2]: every pair of the query has length 1.3, of the key 1."""
    phase = 2 * math.pi * torch.rand(2, PAIRS, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    return (
        torch.stack((phase.cos(), phase.sin()), dim=-1) * torch.tensor([1.3, 1.0], dtype=torch.float64)[:, None, None]
    )


@cache
def _turned(which, position, base, rotate):
    r"""The query (0) or the key (1) turned to `position`, by the interleaved layout: [PAIRS, 2]."""
    frequencies = rope.inv_freq(2 * PAIRS, float(base), dtype=torch.float64)
    flat = _content()[which].reshape(1, -1)
    return rotate(flat, torch.tensor([position], dtype=torch.float64), frequencies).view(PAIRS, 2)


@cache
def _curve(base, rotate):
    r"""The score of each pair at the distances -20 .. 20: [41, PAIRS]."""
    return torch.stack([(_turned(0, d, base, rotate) * _content()[1]).sum(-1) for d in range(-20, 21)])


def _arrow(name, tip, color, dash):
    x, y = tip.tolist()
    return dict(
        type="scatter",
        name=name,
        x=[0, x],
        y=[0, y],
        mode="lines+markers",
        line=dict(color=color, width=3, dash=dash),
        marker=dict(symbol="arrow", angleref="previous", size=[0, 16], color=color, opacity=1),
        hoverinfo="skip",
    )


def _label(name, text, tip, color):
    x, y = (tip * (1 + 0.2 / tip.norm())).tolist()
    return dict(
        type="scatter",
        name=name,
        x=[x],
        y=[y],
        mode="text",
        text=[text],
        textfont=dict(size=18, color=color),
        hoverinfo="skip",
        showlegend=False,
    )


def _invariance(m, n, shift, base, pair, *, rotate=rope.rotate):
    query, key = _content()
    q, k = _turned(0, m + shift, base, rotate), _turned(1, n + shift, base, rotate)
    distances, curve = torch.arange(-20, 21), _curve(base, rotate)[:, pair]
    score = float(q[pair] @ k[pair])
    ghost = dict(color=COLORS["gray"], width=1.5, dash="dot")
    lines = torch.stack((query[pair], key[pair]))
    beside = torch.stack((-lines[:, 1], lines[:, 0]), dim=-1) / lines.norm(dim=-1, keepdim=True)
    before = 0.72 * lines + 0.16 * beside  # labels stand beside their dotted lines
    data = [
        dict(
            type="scatter",
            name="both before turning",
            mode="lines",
            line=ghost,
            hoverinfo="skip",
            x=[query[pair, 0].item(), 0, key[pair, 0].item()],
            y=[query[pair, 1].item(), 0, key[pair, 1].item()],
        ),
        dict(
            type="scatter",
            name="q and k before turning",
            mode="text",
            text=["q at 0", "k at 0"],
            hoverinfo="skip",
            x=before[:, 0],
            y=before[:, 1],
            textfont=dict(size=14, color=COLORS["gray"]),
            showlegend=False,
        ),
        _arrow("query, turned to m + shift", q[pair], COLORS["blue"], "solid"),
        _arrow("key, turned to n + shift", k[pair], COLORS["orange"], "dash"),
        _label("q", "q", q[pair], COLORS["blue"]),
        _label("k", "k", k[pair], COLORS["orange"]),
        dict(
            type="scatter",
            name="score of this pair at every distance",
            mode="lines",
            x=distances,
            y=curve,
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["ink"], width=2),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="score now",
            mode="markers",
            x=[m - n],
            y=[score],
            xaxis="x2",
            yaxis="y2",
            marker=dict(color=COLORS["green"], size=13, symbol="diamond"),
            showlegend=False,
        ),
    ]
    layout = dict(
        height=620,
        xaxis=dict(range=[-1.6, 1.6], domain=[0, 1], title=dict(text="lane 2i"), constrain="domain", zeroline=True),
        yaxis=dict(range=[-1.6, 1.6], domain=[0.36, 1], title=dict(text="lane 2i + 1"), scaleanchor="x"),
        xaxis2=dict(range=[-20.5, 20.5], anchor="y2", title=dict(text="distance m − n, in tokens")),
        yaxis2=dict(range=[-1.5, 1.5], domain=[0, 0.22], anchor="x2", title=dict(text="q · k")),
    )
    return dict(data=data, layout=layout), {
        "query": m + shift,
        "key": n + shift,
        "distance": _words(m - n, 0),
        "score": _words(score, 4),
        "whole": _words(float((q * k).sum()), 4),
        "period": _words(2 * math.pi / base ** (-pair / PAIRS), 1),
    }


rotation_invariance = explorable(
    _invariance,
    id="rope.rotation_invariance",
    title="Two vectors turn, their score stays",
    alt="Above, one pair of lanes drawn as a plane: a query arrow and a dashed key arrow start at the origin, and "
    "their directions before turning, at position 0, are dotted. The shift slider turns both arrows by the same "
    "angle. Below, the score of this pair against the distance m − n, with a diamond at the distance now: it moves "
    "with m and with n, never with the shift.",
    readout="distance {distance} · score of this pair {score} · of all 8 {whole}",
    handles={"query, turned to m + shift": "m", "key, turned to n + shift": "n", "score now": ("m", "n")},
    depends={
        "both before turning": ["pair"],
        "q and k before turning": ["pair"],
        "query, turned to m + shift": [("m", "shift"), "base", "pair"],
        "key, turned to n + shift": [("n", "shift"), "base", "pair"],
        "q": [("m", "shift"), "base", "pair"],
        "k": [("n", "shift"), "base", "pair"],
        "score of this pair at every distance": ["base", "pair"],
        "score now": [("m", "-n"), "base", "pair"],
        "readout.query": [("m", "shift")],
        "readout.key": [("n", "shift")],
        "readout.distance": [("m", "-n")],
        "readout.score": [("m", "-n"), "base", "pair"],
        "readout.whole": [("m", "-n"), "base"],
        "readout.period": ["base", "pair"],
    },
    m=slider(range(0, 21), label="query position m", default=7),
    n=slider(range(0, 21), label="key position n", default=3),
    shift=slider(range(0, 31), label="shift of both positions", play=True),
    base=slider([100, 10_000, 1_000_000], label="base b", default=10_000, format=_power),
    pair=slider(range(PAIRS), label="pair of lanes i", default=1),
)


# Score against distance

SPANS = [64, 256, 8_192]  # multiples of POINTS - 1: every point is a whole distance
TRAINED = load_results("rope_heads")


@cache
def _vectors(dim, same):
    generator = torch.Generator().manual_seed(dim)
    q = torch.randn(DRAWS, dim, dtype=torch.float64, generator=generator)
    return q, q if same else torch.randn(DRAWS, dim, dtype=torch.float64, generator=generator)


@cache
def _scores(dim, base, span, same, rotate):
    r"""Scores q . k / sqrt(D) of DRAWS seeded draws [DRAWS, POINTS], the query 0 .. span tokens after the key."""
    q, k = _vectors(dim, same)
    distances = torch.linspace(0, span, POINTS, dtype=torch.float64)
    turned = rotate(q[:, None].expand(-1, POINTS, -1), distances, rope.inv_freq(dim, float(base), dtype=torch.float64))
    return (turned @ k[..., None])[..., 0] / math.sqrt(dim)


def averaged_bound(distances, frequencies):
    r"""The mean over j of |sum over the first j pairs of exp(i d w)|: what is known as RoPE's "long-term decay".

    distances: [T]. frequencies: [D/2]. Returns [T]: a bound on a score is this times a factor made of q and k.
    Paper: arXiv 2104.09864, section 3.4.3.
    """
    angles = distances[:, None] * frequencies
    return torch.polar(torch.ones_like(angles), angles).cumsum(dim=-1).abs().mean(dim=-1)


_PARTS = ("mean", "std", "cos", "sin")


def _trained(head, span):
    r"""Mean and spread of a trained head's scores where they were measured, and its content's score at any distance.

    Returns: measured distances, mean, spread; all distances and the score of the held content. Up to a span of 256
        every distance is there.
    """
    mean, std, cos, sin = (torch.tensor(TRAINED["heads"][head][k], dtype=torch.float64) for k in _PARTS)
    frequencies = torch.tensor(TRAINED["inv_freq"], dtype=torch.float64)
    measured = torch.arange(min(span, len(mean) - 1) + 1)
    distances = torch.linspace(0, span, (span if span <= 256 else POINTS - 1) + 1, dtype=torch.float64)
    angles = distances[:, None] * frequencies
    return measured, mean[measured], std[measured], distances, angles.cos() @ cos + angles.sin() @ sin


def _by_distance(kind, dim, base, span, head, *, rotate=rope.rotate):
    distances = far = torch.linspace(0, span, POINTS, dtype=torch.float64)
    spread = one = held = edge = none = torch.zeros(0, dtype=torch.float64)
    low, high, name = -4, 13 if kind == "q = k, random" else 4, "score q · k / √D"
    if kind in ("random q and k", "q = k, random"):
        scores = _scores(dim, base, span, kind != "random q and k", rotate)
        mean, spread, one = scores.mean(dim=0), scores.std(dim=0), scores[0]
    elif kind == "the averaged bound":
        mean = averaged_bound(distances, rope.inv_freq(dim, float(base), dtype=torch.float64))
        low, high, name = 0, 0.55 * (dim / 2 + 1), "bound, up to a factor"
    else:
        distances, mean, spread, far, held = _trained(head, span)
        high = 4.0 * math.ceil(max((mean.abs() + spread).max(), held.abs().max()) / 4)
        low, edge = -high, torch.full((2,), TRAINED["settings"]["length"])
    around = distances[: len(spread)]
    data = [
        dict(
            type="scatter",
            name="mean ± spread",
            mode="lines",
            fill="toself",
            hoverinfo="skip",
            line=dict(width=0, color=COLORS["sky"]),
            x=torch.cat((around, around.flip(0))),
            y=torch.cat((mean + spread, (mean - spread).flip(0))) if len(spread) else none,
        ),
        dict(
            type="scatter",
            name="one draw",
            mode="lines",
            x=distances[: len(one)],
            y=one,
            line=dict(color=COLORS["orange"], width=1.5, dash="dot"),
        ),
        dict(
            type="scatter",
            name="content held, distance alone moves",
            mode="lines",
            x=far[: len(held)],
            y=held,
            line=dict(color=COLORS["orange"], width=2, dash="dash"),
        ),
        dict(type="scatter", name="mean", mode="lines", x=distances, y=mean, line=dict(color=COLORS["ink"], width=2.5)),
        dict(
            type="scatter",
            name="training length",
            mode="lines",
            x=edge,
            y=[low, high][: len(edge)],
            line=dict(color=COLORS["gray"], width=1.5, dash="dashdot"),
        ),
    ]
    layout = dict(
        height=400,
        xaxis=dict(range=[0, span], title=dict(text="distance m − n, in tokens")),
        yaxis=dict(range=[low, high], title=dict(text=name)),
    )
    readouts = {
        "near": _words(float(mean[0]), 2),
        "far": _words(float(mean[1:].mean()), 2),
        "wide": _words(float(spread[1:].mean()) if len(spread) else math.nan, 2),
    }
    return dict(data=data, layout=layout), readouts


def _head(index):
    return "layer {layer}, head {head}".format(**TRAINED["heads"][index])


_RANDOM = ["kind", "dim", "base", "span"]
score_by_distance = explorable(
    _by_distance,
    id="rope.score_by_distance",
    title="Score against distance: does RoPE decay?",
    alt="A curve of the score of a query and a key against the distance between them, with a band for the spread. For "
    "random vectors the mean stays at zero and the band keeps its width at every distance. For a key equal to its "
    "query the curve falls from a peak and then wavers. A trained head was measured up to distance "
    f"{len(TRAINED['heads'][0]['mean']) - 1}; a dashed curve, its content held, goes on beyond.",
    readout="mean at distance 0: {near}; mean at the other distances: {far}; spread there: {wide}",
    depends={
        "one draw": _RANDOM,
        "content held, distance alone moves": ["kind", "span", "head"],
        "training length": ["kind", "span", "head"],
        "layout": ["kind", "dim", "span", "head"],
    },
    kind=slider(["random q and k", "q = k, random", "the averaged bound", "a trained head"], label="vectors"),
    dim=slider([16, 64, 128], label="head size D (untrained only)", default=64),
    base=slider([100, 10_000, 500_000], label="base b (untrained only)", default=10_000, format=_power),
    span=slider(SPANS, label="distances up to", format=_power),
    head=slider(range(len(TRAINED["heads"])), label="head (trained only)", format=_head),
)


# Which angles has training shown?

WIDE = 128  # the head size of most large models: 64 pairs


def circle(pair, seen, asked, new, names, points=49):
    """What training showed of one pair's circle and what a longer text asks for, over bars of all pairs.

    seen, asked, new: [D/2] parts of a turn. names: of the two arcs. points: of an arc. Returns plotly traces.
    """

    def arc(radius, turns):
        angle = torch.linspace(0, 2 * math.pi * min(turns, 1.0), points, dtype=torch.float64)
        return radius * angle.cos(), radius * angle.sin()

    pairs = torch.arange(len(seen))
    around, inner, outer = arc(1, 1.0), arc(1, seen[pair].item()), arc(1.25, asked[pair].item())
    return [
        dict(
            type="scatter",
            name="a full turn",
            mode="lines",
            x=around[0],
            y=around[1],
            hoverinfo="skip",
            line=dict(color=COLORS["gray"], width=1, dash="dot", shape="spline"),
        ),
        dict(
            type="scatter",
            name=names[0],
            mode="lines",
            x=inner[0],
            y=inner[1],
            hoverinfo="skip",
            line=dict(color=COLORS["blue"], width=7, shape="spline"),
        ),
        dict(
            type="scatter",
            name=names[1],
            mode="lines",
            x=outer[0],
            y=outer[1],
            line=dict(color=COLORS["orange"], width=3, dash="dash", shape="spline"),
            hoverinfo="skip",
        ),
        dict(
            type="bar",
            name="part of the circle seen",
            x=pairs,
            y=seen,
            xaxis="x2",
            yaxis="y2",
            marker=dict(color=COLORS["blue"]),
            showlegend=False,
        ),
        dict(
            type="bar",
            name="new at the target length",
            x=pairs,
            y=new,
            xaxis="x2",
            yaxis="y2",
            marker=dict(color=COLORS["orange"], pattern=dict(shape="/", fillmode="replace")),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="this pair",
            mode="markers",
            x=[pair],
            y=[1.09],
            xaxis="x2",
            yaxis="y2",
            marker=dict(symbol="triangle-down", size=13, color=COLORS["ink"]),
            showlegend=False,
        ),
    ]


def _seen(trained, target, base, pair):
    frequencies = rope.inv_freq(WIDE, float(base), dtype=torch.float64)
    seen = (frequencies * (trained - 1) / (2 * math.pi)).clamp(max=1)  # the part of a turn that distances reach
    asked = (frequencies * (target - 1) / (2 * math.pi)).clamp(max=1)
    new = (asked - seen).clamp(min=0)
    names = ("angles seen in training", "angles that the target length asks for")
    data = circle(pair, seen, asked, new, names)
    layout = dict(
        height=560,
        barmode="stack",
        bargap=0.15,
        xaxis=dict(range=[-1.45, 1.45], domain=[0, 1], constrain="domain", visible=False),
        yaxis=dict(range=[-1.45, 1.45], domain=[0.45, 1], scaleanchor="x", visible=False),
        xaxis2=dict(range=[-0.8, WIDE // 2 - 0.2], anchor="y2", title=dict(text="pair of lanes i, fast to slow")),
        yaxis2=dict(range=[0, 1.18], domain=[0, 0.34], anchor="x2", title=dict(text="part of the circle")),
    )
    return dict(data=data, layout=layout), {
        "blind": int((new > 0).sum()),
        "period": _words(2 * math.pi / frequencies[pair].item(), 0),
    }


seen_angles = explorable(
    _seen,
    id="rope.seen_angles",
    title="Which angles has training shown?",
    alt="Above, one pair of lanes as a circle: a thick inner arc for the angles between query and key that training "
    "shows, a dashed outer arc for those that the target length asks for. Below, a bar for each of 64 pairs: the "
    "fast pairs on the left have seen the whole circle, the slow pairs on the right only a part of it, and a hatched "
    "piece on top is what the target length adds.",
    readout="{blind:d} of 64 pairs meet angles that training never showed; this pair turns once in {period} tokens",
    depends={
        "a full turn": [],
        "angles seen in training": ["trained", "base", "pair"],
        "angles that the target length asks for": ["target", "base", "pair"],
        "part of the circle seen": ["trained", "base"],
        "new at the target length": ["trained", "target", "base"],
        "this pair": ["pair"],
        "readout.blind": ["trained", "target", "base"],
        "readout.period": ["base", "pair"],
    },
    trained=slider([512, 2_048, 4_096, 8_192], label="training length L", default=4_096, format=_power),
    target=slider([512, 2_048, 4_096, 8_192, 32_768, 131_072], label="target length", default=32_768, format=_power),
    base=slider([100, 10_000, 500_000], label="base b", default=10_000, format=_power),
    pair=slider(range(0, WIDE // 2, 3), label="pair of lanes i", default=48),
)
