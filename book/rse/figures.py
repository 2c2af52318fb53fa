r"""Explorables of the RSE chapter: what lambda allots, and who comes first."""

import math

import torch

from posenc import stickbreaking
from posenc.chapters.rse.exercises import peak
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, label, line, path, signed

KEYS = 64
FIRST, BOTH, RECENT = "key 0 first", "both ways", "last first"
NEAR_RATES = [0.0, 0.03, 0.05, 0.055, 0.06, 0.065, 0.07, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.7, 1.0]
ARROW = dict(symbol="arrow", angleref="previous", size=[0, 13], opacity=1)
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
    layout = dict(
        height=430,
        bargap=0.1,
        barmode="overlay",
        showlegend=False,
        margin=dict(t=8),
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
RATES = [0.0, 0.02, 0.03, 0.04, 0.05, 0.06, 0.07, 0.08, 0.09, 0.1, 0.12, 0.15, 0.2, 0.3]


def _primacy(rate, rest, *, weigh=stickbreaking.weigh):
    logits = torch.full((PAST,), float(rest), dtype=torch.float64)
    logits[list(MATCHES.values())] = MATCH
    logits -= rate * torch.arange(PAST - 1, -1, -1, dtype=torch.float64)
    data, keys = [], torch.arange(PAST)
    for order, name, up, color, at, asked in (
        ("first", FIRST, 1, "blue", "right", "<b>stick left, key 0 first</b> ▸"),
        ("recent", RECENT, -1, "green", "left", "◂ <b>stick left, last key first</b>"),
    ):
        pieces, left = broken(logits, order, weigh)
        taken = pieces.cumsum(0) if order == "first" else pieces.flip(0).cumsum(0).flip(0)
        wins = max(MATCHES, key=lambda which: pieces[MATCHES[which]])
        data += [
            bars(name, keys, up * pieces, color, marker=dict(pattern=dict(shape="" if up > 0 else "/"))),
            line(f"stick that reaches the key, {name}", keys, up * (1 - taken + pieces), "purple", 2, line=STEPS),
            label(f"{name} begins", -0.5 if up > 0 else PAST - 0.5, up * 1.45, asked, "purple", f"middle {at}"),
        ]
        for which, j in MATCHES.items():
            said = f"{which} {pieces[j]:.2f}"
            said, star = (f"<b>{said}</b>", "star") if which == wins else (said, "star-open")
            data += [
                dots(f"{which} match, {name}", [j], [up * (pieces[j] + 0.07)], "orange", 13, star),
                label(f"{which} in words, {name}", j, up * 1.16, said, "orange", "middle center"),
            ]
    halves = dict(tickvals=[-1, -0.5, 0, 0.5, 1], ticktext=["1", "0.5", "0", "0.5", "1"], showgrid=False)
    layout = dict(
        height=430,
        bargap=0.1,
        barmode="overlay",
        showlegend=False,
        margin=dict(t=8),
        xaxis=axis(-1, PAST, "key j, the query's own is the last"),
        yaxis=axis(-1.6, 1.6, "weight", **halves),
    )
    paid = {which: rate * (PAST - 1 - j) for which, j in MATCHES.items()}
    return dict(data=data, layout=layout), paid | {"left": left}


primacy = explorable(
    _primacy,
    title="Primacy against recency",
    alt="Bars of weight over keys: upwards if key 0 is asked first, downwards if the last key is. Two stars are equal "
    "matches, the larger one filled, and a stair is the stick that reaches each key. Drag the older match's star above "
    "down, and lambda grows: the newer one takes over. Below, the newer match has most at any lambda. As the others' "
    "logit grows, a crowd of them takes more than half of the stick before the older match.",
    readout="older pays {older:.2f} · newer pays {newer:.2f} · left over {left:.3f}",
    handles={f"older match, {FIRST}": "rate"},
    rate=slider(RATES, label="λ", default=0.0, format=lambda rate: f"{rate:g}"),
    rest=slider([-8, -6, -4, -2], label="others' logit", default=-4, format=signed),
)
