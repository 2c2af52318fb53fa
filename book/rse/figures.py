r"""Explorables of the RSE chapter: what lambda allots, and who comes first."""

import math

import torch

from posenc import stickbreaking
from posenc.chapters.rse.exercises import peak
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, label, line, number, signed

KEYS = 64
FIRST, BOTH, RECENT = "key 0 first", "both ways", "last key first"
NEAR_RATES = [0.0, 0.03, 0.05, 0.06, 0.07, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0]  # the hill walks some keys with each


STEPS, REACHED = dict(shape="hvh"), "of the stick %{y:.3f} reaches key %{x}<extra></extra>"


def broken(logits, order, weigh=stickbreaking.weigh):
    """One query that sees all of these keys: (pieces [n], what is left), order "first" or "recent"."""
    seen = torch.ones(1, len(logits), dtype=torch.bool)
    pieces, left = weigh(logits[None], seen, order, return_remainder=True)
    return pieces[0], float(left[0])


def _allocation(rate, content, query, order, *, weigh=stickbreaking.weigh):
    keys = torch.arange(KEYS if order == BOTH else query + 1, dtype=torch.float64)
    distance = (query - keys).abs()
    pieces, left = broken(content - rate * distance, "recent" if order == RECENT else "first", weigh)
    taken = torch.cumsum(pieces.flip(0) if order == RECENT else pieces, 0)
    reaches = 1 - torch.cat((torch.zeros(1, dtype=taken.dtype), taken[:-1]))
    reaches = reaches.flip(0) if order == RECENT else reaches

    near = float(pieces[distance < 8].sum())
    top = int(pieces.argmax())
    data = [
        bars("weight", keys, pieces, "green", hover="key %{x}: weight %{y:.3f}<extra></extra>"),
        line("stick that reaches the key", keys, reaches, "purple", 2.5, line=STEPS, hover=REACHED, yaxis="y2"),
        dots("the top of the hill", [top], [reaches[top]], "purple", 11, "diamond", yaxis="y2"),
        dots("the query", [query], [-0.09], "blue", 13, "triangle-up", yaxis="y2"),
        label("the query, in words", query - 2.5, -0.1, "query", "blue", "middle left", yaxis="y2"),
    ]
    scale = next(s for s in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if pieces.max() <= s)
    layout = dict(
        height=430,
        bargap=0.1,
        showlegend=False,
        margin=dict(t=8),
        xaxis=axis(-3, KEYS + 0.5, "key j", anchor="y2"),
        yaxis=axis(0, 1.05 * scale, "weight", domain=[0.54, 1], nticks=4),
        yaxis2=axis(-0.2, 1.08, "stick left", domain=[0, 0.46], tickvals=[0, 0.5, 1]),
    )
    where = "the query"
    if order != RECENT:
        far = math.inf if rate == 0 else peak(content, rate)
        if far >= query:
            where = "key 0"
        elif far:
            where = f"{far:.0f} back"
    return dict(data=data, layout=layout), {"near": near, "left": left, "where": where}


allocation = explorable(
    _allocation,
    title="What lambda allots",
    alt="Above, the weight of each key of one query, all contents equal. Below, how much of the stick reaches each "
    "key; drag the triangle, the query, and the diamond under the top of the hill, which sets lambda. Asked from "
    "key 0 on, the weights form a hill that stands far before the query while lambda is small, and moves up to "
    "the query as lambda grows. Asked from the last key back, the query's own key is always the largest.",
    readout="nearest 8: {near:.3f} · left over {left:.3f} · hill: {where}",
    handles={"the query": "query", "the top of the hill": "rate"},
    rate=slider(NEAR_RATES, label="λ", default=0.1, format=lambda rate: f"{rate:g}"),
    content=slider([-2, 0, 2], label="content logit c", default=0, format=signed),
    query=slider([15, 31, 47, 55, 63], label="query position i", default=63),
    order=slider([FIRST, BOTH, RECENT], label="order"),
)


PAST = 32
SPAN = 4  # the newer of the two matches stands this far back
MATCH = 2.0  # the logit of both


def _primacy(rate, rest, older, *, weigh=stickbreaking.weigh):
    distance = torch.arange(PAST - 1, -1, -1, dtype=torch.float64)
    logits = torch.full((PAST,), float(rest), dtype=torch.float64)
    places = {"older": PAST - 1 - older, "newer": PAST - 1 - SPAN}
    logits[list(places.values())] = MATCH
    logits = logits - rate * distance
    right, near = places["older"] < PAST / 4, older < 3 * SPAN + 1  # too near for two names on a phone
    sides = {
        "older": ("older ", "top right", (0, 8)) if right else ("older ", "top left", (-8, 0)),
        "newer": ("" if near else "newer ", "top center", (-2, 2) if near else (-4, 4)),
    }
    data, readouts, keys = [], {}, torch.arange(PAST)
    for order, name, asked, frame, color in (
        ("first", FIRST, "the stick, from here ▸", "y", "blue"),
        ("recent", RECENT, "◂ the stick, from here", "y2", "green"),
    ):
        pieces, left = broken(logits, order, weigh)
        taken = pieces.cumsum(0) if order == "first" else pieces.flip(0).cumsum(0).flip(0)
        on, reach = dict(yaxis=frame), 1 - taken + pieces
        begin, side = (-0.5, "bottom right") if order == "first" else (PAST - 0.5, "bottom left")
        data += [
            bars(name, keys, pieces, color, hover="key %{x}: weight %{y:.3f}<extra></extra>", **on),
            line(f"stick that reaches the key, {name}", keys, reach, "purple", 2, line=STEPS, hover=REACHED, **on),
            label(f"{name} begins", begin, 1.47, asked, "purple", side, **on),
        ]
        for which, j in places.items():
            weight = float(pieces[j])
            called, place, (start, stop) = sides[which]
            curve = reach[max(j + start, 0) : j + stop + 1]  # of the stick, where the words stand
            struck = curve.min() < weight + 0.38 and curve.max() > weight + 0.16
            height = float(curve.max()) + 0.04 if struck else weight + 0.16
            data += [
                dots(f"{which} match, {name}", [j], [weight + 0.07], "orange", 12, "star", **on),
                label(f"{which} match in words, {name}", j, height, called + number(weight), "orange", place, **on),
            ]
        readouts[order] = float(pieces[places["older"]])
        readouts["left"] = left
    weights = axis(0, 1.48, "weight", tickvals=[0, 0.5, 1], showgrid=False)
    layout = dict(
        height=430,
        bargap=0.1,
        showlegend=False,
        margin=dict(t=8),
        xaxis=axis(-1, PAST, "key j, the query's own is the last", anchor="y2"),
        yaxis=dict(weights, domain=[0.53, 1]),
        yaxis2=dict(weights, domain=[0, 0.47]),
    )
    return dict(data=data, layout=layout), readouts


primacy = explorable(
    _primacy,
    title="Primacy against recency",
    alt="Two panels of bars over the same keys, with the same logits: above, key 0 is asked first, below, the last "
    "key. Two stars mark equal matches, with what they get, and a falling line is the stick that reaches each key. "
    "Above, the older match takes most, or a crowd of others before it takes it all; below, the newer one does; drag "
    "the older match. What is left over is the same in both.",
    readout="older match {first:.2f} above, {recent:.2f} below · left over {left:.3f}",
    handles={f"older match, {name}": "older" for name in (FIRST, RECENT)},
    rate=slider([0.0, 0.01, 0.03, 0.1, 0.3], label="λ", default=0.0, format=lambda rate: f"{rate:g}"),
    rest=slider([-8, -6, -4, -2], label="others' logit", default=-4, format=signed),
    older=slider([8, 12, 16, 20, 24, 31], label="older match, keys back", default=24),
)
