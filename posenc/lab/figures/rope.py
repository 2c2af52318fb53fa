r"""Explorables of the RoPE chapter."""

import math
from functools import cache

import torch

from posenc import rope
from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.figures.parts import label, number, thousands

PAIRS = 8  # pairs of lanes in the plane: D = 16
DRAWS = 400  # seeded draws behind a mean and its spread


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
    x, y = (tip * (1 + 0.4 / tip.norm())).tolist()
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
        height=400,
        showlegend=False,
        margin=dict(t=10),
        xaxis=dict(range=[-1.9, 1.9], domain=[0, 0.46], title=dict(text="lane 2i"), constrain="domain", dtick=1),
        yaxis=dict(range=[-1.9, 1.9], title=dict(text="lane 2i + 1"), scaleanchor="x", dtick=1),
        xaxis2=dict(range=[-20.5, 20.5], domain=[0.62, 1], anchor="y2", title=dict(text="distance m − n")),
        yaxis2=dict(range=[-1.5, 1.5], anchor="x2", title=dict(text="q · k")),
    )
    return dict(data=data, layout=layout), {
        "query": m + shift,
        "key": n + shift,
        "distance": number(m - n, 0),
        "score": number(score, 4),
        "whole": number(float((q * k).sum()), 4),
        "period": number(2 * math.pi / base ** (-pair / PAIRS), 1),
    }


rotation_invariance = explorable(
    _invariance,
    id="rope.rotation_invariance",
    title="Two vectors turn, their score stays",
    alt="At the left, one pair of lanes as a plane: a query arrow and a dashed key arrow start at the origin, and "
    "their directions before turning, at position 0, are dotted. The shift slider turns both arrows by the same "
    "angle. At the right, the score of this pair against the distance m − n, a diamond at the distance now. It moves "
    "with m and with n, never with the shift.",
    readout="distance {distance} · score of this pair {score} · of all 8 {whole}",
    handles={"query, turned to m + shift": "m", "key, turned to n + shift": "n", "score now": ("m", "n")},
    depends={
        "both before turning": ["pair"],
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
    base=slider([100, 10_000, 1_000_000], label="base b", default=10_000, format=thousands),
    pair=slider(range(PAIRS), label="pair of lanes i", default=1),
)


# Score against distance

DIM, REACH = 64, 81  # head size, and the distances drawn: 0 .. REACH - 1
KINDS = ["random", "the query, aimed"]


@cache
def _scores(kind, aim, base, rotate):
    r"""Scores q . k / sqrt(D) of DRAWS seeded draws [DRAWS, REACH], the query 0 .. REACH - 1 tokens after the key.

    The key is drawn as well, or it is the query itself, turned on by `aim` tokens.
    """
    frequencies = rope.inv_freq(DIM, float(base), dtype=torch.float64)
    q, k = torch.randn(2, DRAWS, DIM, dtype=torch.float64, generator=torch.Generator().manual_seed(DIM))
    if kind == KINDS[1]:
        k = rotate(q, torch.full((DRAWS,), float(aim), dtype=torch.float64), frequencies)
    turned = rotate(q[:, None].expand(-1, REACH, -1), torch.arange(REACH), frequencies)
    return (turned @ k[..., None])[..., 0] / math.sqrt(DIM)


def _by_distance(kind, aim, draw, base, *, rotate=rope.rotate):
    distances = torch.arange(REACH)
    aim = aim if kind == KINDS[1] else 0
    scores = _scores(kind, aim, base, rotate)
    mean, spread = scores.mean(dim=0), scores.std(dim=0)
    lowest = int(scores[draw].argmin())
    data = [
        dict(
            type="scatter",
            name="mean ± spread",
            mode="lines",
            fill="toself",
            hoverinfo="skip",
            line=dict(width=0, color=COLORS["sky"]),
            x=torch.cat((distances, distances.flip(0))),
            y=torch.cat((mean + spread, (mean - spread).flip(0))),
        ),
        dict(
            type="scatter",
            name="this draw",
            mode="lines",
            x=distances,
            y=scores[draw],
            line=dict(color=COLORS["orange"], width=2, dash="dot"),
            hovertemplate="distance %{x}: this draw %{y:.2f}<extra></extra>",
        ),
        dict(
            type="scatter",
            name="mean",
            mode="lines",
            x=distances,
            y=mean,
            line=dict(color=COLORS["ink"], width=2.5),
            hovertemplate="distance %{x}: mean %{y:.2f}<extra></extra>",
        ),
        dict(
            type="scatter",
            name="where the key aims",
            mode="markers",
            x=[aim] if kind == KINDS[1] else [],
            y=[mean[aim]] if kind == KINDS[1] else [],
            marker=dict(color=COLORS["green"], size=14, symbol="diamond"),
            hoverinfo="skip",
        ),
        label("its name", lowest, scores[draw][lowest], "this draw", COLORS["orange"], "bottom center"),
        label("the mean's name", REACH - 3, -2.6, "mean of 400 draws ± spread", COLORS["ink"], "middle left"),
    ]
    layout = dict(
        height=430,
        showlegend=False,
        margin=dict(t=10),
        xaxis=dict(range=[-2, REACH], title=dict(text="distance m − n, in tokens")),
        yaxis=dict(range=[-4.5, 12 if kind == KINDS[1] else 4.5], title=dict(text="score q · k / √D")),
    )
    return dict(data=data, layout=layout), {
        "at": aim,
        "near": number(float(mean[aim]), 1),
        "far": number(float(mean[distances != aim].mean()), 1),
        "wide": number(float(spread.mean()), 1),
    }


score_by_distance = explorable(
    _by_distance,
    id="rope.score_by_distance",
    title="Does RoPE decay with distance?",
    alt="The score of a query and a key against the distance between them. For a key drawn at random every draw goes "
    "its own way, the mean stays at zero, and the band keeps its width at every distance. A key that is the query "
    "itself, turned on by a tokens, scores highest a tokens away: the peak goes where the reader drags it.",
    readout="mean {near} at distance {at} · {far} elsewhere · spread {wide}",
    handles={"where the key aims": "aim"},
    depends={
        "mean ± spread": ["kind", "aim", "base"],
        "mean": ["kind", "aim", "base"],
        "where the key aims": ["kind", "aim", "base"],
        "the mean's name": [],
        "layout": ["kind"],
        "readout": ["kind", "aim", "base"],
    },
    kind=slider(KINDS, label="key"),
    aim=slider(range(0, 57, 8), label="aims at a", default=40),
    draw=slider(range(3), label="draw", play=True, format=lambda draw: str(draw + 1)),
    base=slider([100, 10_000, 500_000], label="base b", default=10_000, format=thousands),
)


# A trained head

TRAINED = load_results("rope_heads")
PLACES = [*range(17), 20, 24, 32, 40, 48, 56, 63, 64, 72, 80, 96, 112, 128, 160, 192, 224, 255]


@cache
def _measured():
    r"""Mean and spread of every trained head's scores at the distances 0 .. 255: two tensors [heads, 256]."""
    return tuple(torch.tensor([h[key] for h in TRAINED["heads"]], dtype=torch.float64) for key in ("mean", "std"))


def _trained_head(head, distance):
    means, spreads = _measured()
    mean, spread, length = means[head], spreads[head], TRAINED["settings"]["length"]
    distances = torch.arange(len(mean))
    high = math.ceil((means.abs() + spreads).max() / 2) * 2
    data = [
        dict(
            type="scatter",
            name="mean ± spread",
            mode="lines",
            fill="toself",
            hoverinfo="skip",
            line=dict(width=0, color=COLORS["sky"]),
            x=torch.cat((distances, distances.flip(0))),
            y=torch.cat((mean + spread, (mean - spread).flip(0))),
        ),
        dict(
            type="scatter",
            name="mean score",
            mode="lines",
            x=distances,
            y=mean,
            line=dict(color=COLORS["ink"], width=2.5),
            hovertemplate="distance %{x}: mean %{y:.2f}<extra></extra>",
        ),
        dict(
            type="scatter",
            name="training length",
            mode="lines",
            x=[length, length],
            y=[-high, high],
            line=dict(color=COLORS["gray"], width=1.5, dash="dashdot"),
            hoverinfo="skip",
        ),
        label("shown", length - 6, -0.94 * high, "trained", COLORS["gray"], "middle left"),
        label("not shown", length + 6, -0.94 * high, "never seen →", COLORS["gray"], "middle right"),
        dict(
            type="scatter",
            name="here",
            mode="markers",
            x=[distance],
            y=[mean[distance]],
            marker=dict(color=COLORS["green"], size=14, symbol="diamond"),
            hoverinfo="skip",
        ),
    ]
    layout = dict(
        height=400,
        showlegend=False,
        margin=dict(t=10),
        xaxis=dict(range=[-3, len(mean)], title=dict(text="distance m − n, in tokens")),
        yaxis=dict(range=[-high, high], title=dict(text="score q · k / √D")),
    )
    return dict(data=data, layout=layout), {
        "distance": distance,
        "score": number(mean[distance].item(), 1),
        "wide": number(spread[distance].item(), 1),
        "peak": int(mean[:length].argmax()),
        "beyond": length + int(mean[length:].argmax()),
    }


def _head(index):
    return "layer {layer}, head {head}".format(**TRAINED["heads"][index])


trained_head = explorable(
    _trained_head,
    id="rope.trained_head",
    title="What training makes of it",
    alt="The mean score of a trained head against distance, in a band of one spread, up to four times the training "
    "length. Within the training length it peaks a token or two away and falls; past the upright line, at distances "
    "that training never showed, it comes back up in waves. A diamond is dragged along the curve.",
    readout="distance {distance}: {score} ± {wide} · highest at {peak} in training · at {beyond} beyond",
    handles={"here": "distance"},
    depends={
        "mean ± spread": ["head"],
        "mean score": ["head"],
        "training length": [],
        "shown": [],
        "not shown": [],
        "readout.peak": ["head"],
        "readout.beyond": ["head"],
    },
    head=slider(range(len(TRAINED["heads"])), label="head", default=4, format=_head),
    distance=slider(PLACES, label="distance m − n", default=1),
)


# Which angles has training shown?

WIDE = 128  # the head size of most large models: 64 pairs


def _seen(trained, target, base, pair):
    frequencies = rope.inv_freq(WIDE, float(base), dtype=torch.float64)
    seen = (frequencies * (trained - 1) / (2 * math.pi)).clamp(max=1)  # the part of a turn that distances reach
    asked = (frequencies * (target - 1) / (2 * math.pi)).clamp(max=1)
    new = (asked - seen).clamp(min=0)
    pairs = torch.arange(len(seen))

    def arc(name, radius, turns, **line):
        angle = torch.linspace(0, 2 * math.pi * turns, 49, dtype=torch.float64)
        return dict(
            type="scatter",
            name=name,
            mode="lines",
            x=radius * angle.cos(),
            y=radius * angle.sin(),
            hoverinfo="skip",
            line=dict(shape="spline", **line),
        )

    data = [
        arc("a full turn", 1, 1.0, color=COLORS["gray"], width=1, dash="dot"),
        arc("angles seen in training", 1, seen[pair].item(), color=COLORS["blue"], width=8),
        arc(
            "angles that the target length asks for",
            1.25,
            asked[pair].item(),
            color=COLORS["orange"],
            width=4,
            dash="dash",
        ),
        label("seen", -1.45, 0.4, "seen in<br>training", COLORS["blue"], "middle left"),
        label("asked", 1.45, 0.4, "asked for<br>at target", COLORS["orange"], "middle right"),
        dict(
            type="bar",
            name="part of the circle seen",
            x=pairs,
            y=seen,
            xaxis="x2",
            yaxis="y2",
            marker=dict(color=COLORS["blue"]),
            hovertemplate="pair %{x}: %{y:.0%} of the circle seen<extra></extra>",
        ),
        dict(
            type="bar",
            name="new at the target length",
            x=pairs,
            y=new,
            xaxis="x2",
            yaxis="y2",
            marker=dict(color=COLORS["orange"], pattern=dict(shape="/", fillmode="replace")),
            hovertemplate="pair %{x}: %{y:.0%} of the circle is new<extra></extra>",
        ),
        dict(
            type="scatter",
            name="this pair",
            mode="lines+markers",
            x=[pair, pair],
            y=[0, 1.1],
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["ink"], width=2),
            marker=dict(symbol="triangle-down", size=[0, 15], color=COLORS["ink"], opacity=1),
            hoverinfo="skip",
        ),
    ]
    layout = dict(
        height=560,
        barmode="stack",
        bargap=0.15,
        showlegend=False,
        margin=dict(t=8),
        xaxis=dict(range=[-3, 3], domain=[0, 1], visible=False),
        yaxis=dict(range=[-1.4, 1.4], domain=[0.44, 1], scaleanchor="x", visible=False),
        xaxis2=dict(range=[-0.8, WIDE // 2 - 0.2], anchor="y2", title=dict(text="pair of lanes i, fast to slow")),
        yaxis2=dict(
            range=[0, 1.22], domain=[0, 0.38], anchor="x2", tickvals=[0, 0.5, 1], ticktext=["0", "50%", "100%"]
        ),
    )
    return dict(data=data, layout=layout), {
        "blind": int((new > 0).sum()),
        "pair": pair,
        "period": number(2 * math.pi / frequencies[pair].item(), 0),
    }


seen_angles = explorable(
    _seen,
    id="rope.seen_angles",
    title="Which angles has training shown?",
    alt="Above, one pair of lanes as a circle: a thick inner arc for the angles between query and key that training "
    "shows, a dashed outer arc for those that the target length asks for. Below, a bar for each of 64 pairs, the part "
    "of its circle seen: the fast pairs on the left have seen all of it, the slow pairs on the right only a part, and "
    "a hatched piece on top is what the target length adds. The upright line at this pair is dragged along the bars.",
    readout="{blind:d} of 64 pairs meet new angles · pair {pair:d}: a turn in {period} tokens",
    handles={"this pair": "pair"},
    depends={
        "a full turn": [],
        "seen": [],
        "asked": [],
        "angles seen in training": ["trained", "base", "pair"],
        "angles that the target length asks for": ["target", "base", "pair"],
        "part of the circle seen": ["trained", "base"],
        "new at the target length": ["trained", "target", "base"],
        "this pair": ["pair"],
        "readout.blind": ["trained", "target", "base"],
        "readout.pair": ["pair"],
        "readout.period": ["base", "pair"],
    },
    trained=slider([512, 2_048, 4_096, 8_192], label="training length L", default=4_096, format=thousands),
    target=slider([512, 2_048, 4_096, 8_192, 32_768, 131_072], label="target length", default=32_768, format=thousands),
    base=slider([100, 10_000, 500_000], label="base b", default=10_000, format=thousands),
    pair=slider(range(0, WIDE // 2, 3), label="pair of lanes i", default=48),
)
