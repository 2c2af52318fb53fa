r"""Explorables of the RSE chapter: what lambda allots, and who comes first."""

import math

import torch

from posenc import stickbreaking
from posenc.chapters.rse.exercises import peak
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, held, label, line, path, signed

KEYS = 64
FIRST, BOTH, RECENT = "key 0 first", "both ways", "last first"
NEAR_RATES = [0.0, 0.03, 0.05, 0.055, 0.06, 0.065, 0.07, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0]
ARROW = dict(symbol="arrow", angleref="previous", size=[0, 13], opacity=1)
LOOK = dict(height=440, bargap=0.1, barmode="overlay", showlegend=False, margin=dict(t=8))
STEPS, REACHED = dict(shape="hvh"), "of the stick %{y:.3f} reaches key %{x}<extra></extra>"


def broken(logits, order, weigh=stickbreaking.weigh):
    """One query that sees all of these keys: (pieces [n], what is left), order "first" or "recent"."""
    seen = torch.ones(1, len(logits), dtype=torch.bool)
    pieces, left = weigh(logits[None], seen, order, return_remainder=True)
    return pieces[0], float(left[0])


def _allocation(rate, content, query, order):
    keys = torch.arange(KEYS if order == BOTH else query + 1, dtype=torch.float64)
    distance = (query - keys).abs()
    pieces, left = broken(content - rate * distance, "recent" if order == RECENT else "first")
    taken = torch.cumsum(pieces.flip(0) if order == RECENT else pieces, 0)
    reaches = 1 - torch.cat((torch.zeros(1, dtype=taken.dtype), taken[:-1]))
    reaches = reaches.flip(0) if order == RECENT else reaches

    way = [0, len(keys) - 1][:: -1 if order == RECENT else 1]
    near = float(pieces[distance < 8].sum())
    top, height = int(pieces.argmax()), pieces.clamp(min=1e-3).log10() + 3
    data = [
        bars("weight", keys, height, "green"),
        bars("the largest weight", [top], height[top : top + 1], "purple", marker=dict(pattern=dict(shape="/"))),
        line("stick that reaches the key", keys, reaches, "purple", 2.5, line=STEPS, hover=REACHED, yaxis="y2"),
        dots("the top of the hill", [top], [reaches[top]], "purple", 11, "diamond", yaxis="y2"),
        dots("the query", [query], [-0.09], "blue", 13, "triangle-up", yaxis="y2"),
        dots("above the largest weight", [top], height[top : top + 1] + 0.2, "purple", 12, "triangle-down"),
        path("the way", way, [3.55] * 2, "ink", 2, marker=ARROW),
        label("the way, in words", 0, 3.7, "asked in this order", "ink", "top right"),
        label("the query, in words", query, -0.1, "query" + 4 * "\u00a0", "blue", "middle left", yaxis="y2"),
    ]
    powers = dict(tickvals=[0, 1, 2, 3], ticktext=["0.001", "0.01", "0.1", "1"])
    layout = LOOK | dict(
        xaxis=axis(-3, KEYS + 0.5, "key j", anchor="y2"),
        yaxis=axis(0, 4.1, "weight", domain=[0.5, 1], **powers),
        yaxis2=axis(-0.2, 1.08, "stick left", domain=[0, 0.44], tickvals=[0, 0.5, 1]),
    )
    far = 0 if order == RECENT else math.inf if rate == 0 else peak(content, rate)
    where = "key 0" if far >= query else f"{far:.0f} back" if far else "the query"
    return dict(data=data, layout=layout), {"near": near, "left": left, "where": where}


allocation = explorable(
    _allocation,
    title="What lambda allots",
    alt="Above, on a log scale, the weight of each key of one query, all contents equal, and a mark over the largest; "
    "an arrow runs from the key that is asked first to the last. Below, how much of the stick reaches each key; "
    "drag the triangle, the query, and the diamond under the top of the hill, which sets lambda. Asked from key 0 "
    "on, the weights form a hill that stands far before the query while lambda is small, and moves up to the query "
    "as lambda grows. Asked from the last key back, the query's own key is always the largest.",
    readout="nearest 8: {near:.3f} · left over {left:.3f} · hill: {where}",
    handles={"the query": "query", "the top of the hill": "rate"},
    rate=slider(NEAR_RATES, label="λ", default=0.1, format=lambda rate: f"{rate:g}"),
    content=slider([-2, 0, 2], label="content logit c", default=0, format=signed),
    query=slider([15, 31, 47, 55, 63], label="query position i", default=47),
    order=slider([FIRST, BOTH, RECENT], label="order"),
)


PAST = 32
MATCHES = {"older": 7, "newer": 27}  # two keys that match the query, which stands on the last one
MATCH = 2.0  # the logit of both
RATES = [n / 100 for n in range(21)]
LOW = -9  # the lowest logit that is drawn


def _primacy(rate, rest, *, weigh=stickbreaking.weigh):
    keys = torch.arange(PAST, dtype=torch.float64)
    paid, matches = rate * (PAST - 1 - keys), list(MATCHES.values())
    logits, others = rest - paid, rest - paid
    logits[matches] += MATCH - rest
    low, middle = MATCH - paid[0].item(), PAST / 2 + 1
    spots = [1, middle, PAST - 2.4], [low - 1.5, MATCH - paid[17].item() + 0.4 + 5 * rate, rest + 0.4]
    words = [f"<b>λ {rate:g}</b>", "both matches", "all others"]
    data = [
        line("a match pays", keys, MATCH - paid, "orange", 2, yaxis="y2"),
        line("the others pay", keys, others.where(others >= LOW, math.nan), "gray", 2, "dot", yaxis="y2"),
        dots("matches", matches, logits[matches], "orange", 14, "star", yaxis="y2"),
        held("tilt", 0, low, "orange", size=16, yaxis="y2"),
        held("others' level", PAST - 1, rest, "gray", "square", size=14, yaxis="y2"),
        label(
            "logits in words", *spots, words, "ink", ["middle right", "top center", "top left"], halo=True, yaxis="y2"
        ),
    ]
    asked = ("first", FIRST, f"<b>{FIRST} ▸</b>", 1, "blue"), ("recent", RECENT, f"<b>◂ {RECENT}</b>", -1, "green")
    for order, name, way, up, color in asked:
        pieces, left = broken(logits, order, weigh)
        taken = pieces.cumsum(0) if order == "first" else pieces.flip(0).cumsum(0).flip(0)
        wins = pieces[matches].argmax()
        said = [f"{which} {pieces[at]:.2f}" for which, at in MATCHES.items()]
        said[wins] = f"<b>{said[wins]}</b>"
        row = [*matches, middle], [up * 1.22] * 3, [*said, way]
        data += [
            bars(name, keys, up * pieces, color, marker=dict(pattern=dict(shape="" if up > 0 else "/"))),
            line(f"stick that reaches the key, {name}", keys, up * (1 - taken + pieces), "purple", 2, line=STEPS),
            label(f"{name}, in words", *row, ["orange", "orange", "purple"], "middle center"),
        ]
    halves = dict(tickvals=[-1, 0, 1], ticktext=["1", "0", "1"], showgrid=False)
    layout = LOOK | dict(
        xaxis=axis(-1, PAST, "key j, the query's own is the last", zeroline=False),
        yaxis=axis(-1.36, 1.36, "weight (stair: stick left)", domain=[0, 0.63], **halves),
        yaxis2=axis(LOW, 4, "logit", domain=[0.67, 1], tickvals=[-8, -4, 0]),
    )
    return dict(data=data, layout=layout), {which: paid[at].item() for which, at in MATCHES.items()} | {"left": left}


primacy = explorable(
    _primacy,
    title="Primacy against recency",
    alt="Above, logits over keys: two stars are equal matches on a line, all others lie on a dotted one. Drag the "
    "diamond at its left end down, and lambda tilts both; drag the others' square up or down. Below, bars of weight: "
    "upwards if key 0 is asked first, downwards if the last key is, with a stair for the stick that reaches each key. "
    "As lambda grows, the newer match takes over upwards; downwards it has most at any lambda. As the others rise, a "
    "crowd of them takes more than half of the stick before the older match.",
    readout="older pays {older:.2f} · newer pays {newer:.2f} · left over {left:.3f}",
    handles={"tilt": "rate", "others' level": "rest"},
    rate=slider(RATES, label="λ", default=0.0, format=lambda rate: f"{rate:g}"),
    rest=slider(range(-8, -1), label="others' logit", default=-4, format=signed),
)
