r"""Explorables of the RSE chapter: what lambda allots, who comes first, and three ways to weigh the same scores."""

import math

import torch

from posenc import stickbreaking
from posenc.lab.exercises.rse import peak
from posenc.lab.explore import explorable, slider
from posenc.lab.figures.parts import axis, bars, dots, label, line, number, signed, upright
from posenc.rotate.rope import inv_freq, rotate

KEYS = 64
FIRST, BOTH, RECENT = "key 0 first", "both ways", "last key first"
RATES = [0.0, 0.01, 0.03, 0.1, 0.3, 1.0]
NEAR_RATES = [0.0, 0.03, 0.05, 0.06, 0.07, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0]  # the hill walks some keys with each


def _rate(value):
    return f"{value:g}"


def broken(logits, order, weigh=stickbreaking.weigh):
    """One query that sees all of these keys: (pieces [n], what is left), order "first" or "recent"."""
    seen = torch.ones(1, len(logits), dtype=torch.bool)
    pieces, left = weigh(logits[None], seen, order, return_remainder=True)
    return pieces[0], float(left[0])


def _bars(name, x, y, color, **more):
    return bars(name, x, y, color, hover=True, **more)


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
        _bars("weight", keys, pieces, "green", hovertemplate="key %{x}: weight %{y:.3f}<extra></extra>"),
        line(
            "stick that reaches the key",
            keys,
            reaches,
            "purple",
            2.5,
            line=dict(shape="hvh"),
            hover="of the stick %{y:.3f} reaches key %{x}<extra></extra>",
            yaxis="y2",
        ),
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
    id="rse.allocation",
    title="What lambda allots",
    alt="Above, the weight of each key of one query, all contents equal. Below, how much of the stick reaches each "
    "key; drag the triangle, the query, and the diamond under the top of the hill, which sets lambda. Asked from "
    "key 0 on, the weights form a hill that stands far before the query while lambda is small, and moves up to "
    "the query as lambda grows. Asked from the last key back, the query's own key is always the largest.",
    readout="nearest 8: {near:.3f} · left over {left:.3f} · hill: {where}",
    handles={"the query": "query", "the top of the hill": "rate"},
    rate=slider(NEAR_RATES, label="λ", default=0.1, format=_rate),
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
        on = dict(yaxis=frame)
        begin, side = (-0.5, "bottom right") if order == "first" else (PAST - 0.5, "bottom left")
        data += [
            _bars(name, keys, pieces, color, hovertemplate="key %{x}: weight %{y:.3f}<extra></extra>", **on),
            line(
                f"stick that reaches the key, {name}",
                keys,
                1 - taken + pieces,
                "purple",
                2,
                line=dict(shape="hvh"),
                hover="of the stick %{y:.3f} reaches key %{x}<extra></extra>",
                **on,
            ),
            label(f"{name} begins", begin, 1.47, asked, "purple", side, **on),
        ]
        for which, j in places.items():
            weight = float(pieces[j])
            called, place, (start, stop) = sides[which]
            curve = (1 - taken + pieces)[max(j + start, 0) : j + stop + 1]  # of the stick, where the words stand
            struck = curve.min() < weight + 0.38 and curve.max() > weight + 0.16
            data += [
                dots(f"{which} match, {name}", [j], [weight + 0.07], "orange", 12, "star", **on),
                label(
                    f"{which} match in words, {name}",
                    j,
                    float(curve.max()) + 0.04 if struck else weight + 0.16,
                    called + number(weight),
                    "orange",
                    place,
                    **on,
                ),
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


_ORDERS = (FIRST, RECENT)
primacy = explorable(
    _primacy,
    id="rse.primacy",
    title="Primacy against recency",
    alt="Two panels of bars over the same keys, with the same logits: above, key 0 is asked first, below, the last "
    "key. Two stars mark equal matches, with what they get, and a falling line is the stick that reaches each key. "
    "Above, the older match takes most, or a crowd of others before it takes it all; below, the newer one does; drag "
    "the older match. What is left over is the same in both.",
    readout="older match {first:.2f} above, {recent:.2f} below · left over {left:.3f}",
    handles={f"older match, {name}": "older" for name in _ORDERS},
    rate=slider([0.0, 0.01, 0.03, 0.1, 0.3], label="λ", default=0.0, format=_rate),
    rest=slider([-8, -6, -4, -2], label="others' logit", default=-4, format=signed),
    older=slider([8, 12, 16, 20, 24, 31], label="older match, keys back", default=24),
)


LANES, LENGTH = 16, 24

WAYS = {"softmax": ("gray", 0.6), "softmax, −λd": ("orange", 0.7), "stick": ("green", 0.8)}  # color, opacity


def scores():
    """Seeded scores of 24 rotated queries and keys, [24, 24]: the ones that all three methods of the figure weigh."""
    source = torch.Generator().manual_seed(3)
    q, k = (1.6 * torch.randn(LENGTH, LANES, generator=source, dtype=torch.float64) for _ in range(2))
    at = torch.arange(LENGTH)
    q, k = (rotate(x, at, inv_freq(LANES, dtype=torch.float64)) for x in (q, k))
    return q @ k.T / math.sqrt(LANES)


def _same_scores(query, rate, offset, order, *, weigh=stickbreaking.weigh):
    keys = torch.arange(query + 1)
    s = scores()[query, : query + 1] + offset
    z = s - rate * (query - keys)
    pieces, left = broken(z, "first" if order == "key 0 first" else "recent", weigh)

    soft, biased = torch.softmax(s, -1), torch.softmax(z, -1)
    data, means = [], []
    for row, (name, (color, opacity)) in zip((2, 1, 0), WAYS.items()):
        weights = (soft, biased, pieces)[2 - row]
        mean = float((weights * (query - keys)).sum() / weights.sum())
        means.append(mean)
        data += [
            dots(  # the area is the weight
                name,
                keys,
                [row] * len(keys),
                color,
                weights,
                marker=dict(opacity=opacity, sizemode="area", sizeref=2 / 32**2, sizemin=1.5),
                hover="key %{x}: weight %{marker.size:.3f}<extra></extra>",
            ),
            dots(f"mean key, {name}", [query - mean], [row - 0.42], "ink", 11, "triangle-up"),
        ]
    data += [
        dots(
            "left over",
            [LENGTH + 1.5],
            [0],
            "ink",
            [left],
            "circle-open",
            marker=dict(sizemode="area", sizeref=2 / 32**2),
            hover="left over: %{marker.size:.3f}<extra></extra>",
        ),
        upright("the query", query + 0.5, 2.5, -0.5, "blue", 1.5, "dot"),
    ]
    layout = dict(
        height=400,
        showlegend=False,
        margin=dict(t=8, r=8),
        xaxis=axis(
            -1,
            LENGTH + 3.2,
            "key j; disk: its weight; ▲ the mean key",
            tickvals=[0, 5, 10, 15, 20, LENGTH + 1.5],
            ticktext=["0", "5", "10", "15", "20", "left"],
            tickangle=0,
            showgrid=False,
            zeroline=False,
        ),
        yaxis=axis(-0.6, 2.6, tickvals=[2, 1, 0], ticktext=list(WAYS), ticks="", zeroline=False),
    )
    return dict(data=data, layout=layout), {"left": left, "soft": means[0], "biased": means[1], "stick": means[2]}


same_scores = explorable(
    _same_scores,
    id="rse.same_scores",
    title="Three ways to weigh the same scores",
    alt="Three rows over the same keys; the area of each disk is the weight of a key for one query, by three methods, "
    "from the same rotated scores: a softmax as in RoPE, a softmax with ALiBi's penalty, and RSE's stick. A "
    "triangle under each row stands at the mean key. The softmax ignores distance and offset; with the penalty it "
    "moves to near keys and still ignores the offset. The stick from key 0 on puts its weight on old keys, and "
    "more so with a larger offset; a ring on the right is what it leaves over. Drag the dotted line, the query.",
    readout="left over {left:.3f} · ▲ stick {stick:.1f} back · ▲ softmax {soft:.1f}, with λ {biased:.1f}",
    handles={"the query": "query"},
    query=slider(range(3, LENGTH, 2), label="query position i", default=23),
    rate=slider(RATES, label="λ", default=0.1, format=_rate),
    offset=slider([-6, -4, -2, 0, 2], label="offset of all logits", default=-2, format=signed),
    order=slider(["key 0 first", "last key first"], label="order"),
)
