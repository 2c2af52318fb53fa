r"""Explorables of the RSE chapter: what lambda allots, who comes first, and three ways to weigh the same scores."""

import functools
import math

import torch

from posenc import stickbreaking
from posenc.lab.exercises.rse import peak
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.figures.parts import label, number, signed, upright
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
    return dict(type="bar", name=name, x=x, y=y, marker=dict(color=COLORS[color]), **more)


def _allocation(rate, content, query, order, *, weigh=stickbreaking.weigh):
    keys = torch.arange(KEYS if order == BOTH else query + 1, dtype=torch.float64)
    distance = (query - keys).abs()
    pieces, left = broken(content - rate * distance, "recent" if order == RECENT else "first", weigh)
    taken = torch.cumsum(pieces.flip(0) if order == RECENT else pieces, 0)
    reaches = 1 - torch.cat((torch.zeros(1, dtype=taken.dtype), taken[:-1]))
    reaches = reaches.flip(0) if order == RECENT else reaches

    near = float(pieces[distance < 8].sum())
    top = int(pieces.argmax())
    where = "the query"
    if order != RECENT:
        far = math.inf if rate == 0 else peak(content, rate)
        if far >= query:
            where = "key 0"
        elif far:
            where = f"{far:.0f} back"
    high = float(pieces[top])
    scale = next(s for s in (0.02, 0.03, 0.05, 0.07, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 1.0) if high <= s)
    dear = order != RECENT and rate * query > 2 and top > 30  # else there is no room beside the name of the peak
    gone = order != RECENT and float(reaches[-1]) < 0.2 and top < len(keys) - 8
    end = len(keys) - 1
    aside = end < 0.75 * KEYS  # past the last key, as there are none
    side = "middle left" if top > 0.7 * KEYS else "middle right" if reaches[top] > 0.8 else "top right"
    data = [
        _bars("weight", keys, pieces, "green", hovertemplate="key %{x}: weight %{y:.3f}<extra></extra>"),
        dict(
            type="scatter",
            name="stick that reaches the key",
            x=keys,
            y=reaches,
            mode="lines",
            yaxis="y2",
            line=dict(color=COLORS["purple"], width=2.5, shape="hvh"),
            hovertemplate="of the stick %{y:.3f} reaches key %{x}<extra></extra>",
        ),
        dict(
            type="scatter",
            name="the top of the hill",
            x=[top],
            y=[reaches[top]],
            mode="markers+text",
            yaxis="y2",
            marker=dict(color=COLORS["purple"], symbol="diamond", size=11),
            text=[f"{SPACE}penalty λ{SPACE}"],
            textposition=side,
            textfont=dict(size=13, color=COLORS["purple"]),
            hoverinfo="skip",
        ),
        dict(
            type="scatter",
            name="the query",
            x=[query],
            y=[-0.09],
            mode="markers",
            yaxis="y2",
            marker=dict(color=COLORS["blue"], symbol="triangle-up", size=13),
            hoverinfo="skip",
        ),
        label(
            "what the hill is made of",
            [-1, top],
            [float(pieces[:22].max()) + 0.03 * scale, high + 0.03 * scale],
            ["far keys<br>pay too much" if dear else "", f"<b>peak: {where}</b>{', asked first' * (order == RECENT)}"],
            [COLORS["gray"], COLORS["green"]],
            ["top right", "top right" if top < 0.3 * KEYS else "top left" if top > 0.7 * KEYS else "top center"],
        ),
        label(
            "what is left for the last",
            end + 2 if aside else end + 0.5,
            max(float(reaches[end if aside else end - 16]), 0.1),
            "little left" if gone else "",
            COLORS["gray"],
            "middle right" if aside else "top left",
            yaxis="y2",
        ),
        label("the query, in words", query - 3.3, -0.1, "query", COLORS["blue"], "middle left", yaxis="y2"),
    ]
    layout = dict(
        height=430,
        bargap=0.1,
        showlegend=False,
        margin=dict(t=8),
        xaxis=dict(range=[-3, KEYS + 0.5], title=dict(text="key j"), anchor="y2"),
        yaxis=dict(
            range=[0, 1.35 * scale],
            domain=[0.52, 1],
            title=dict(text="weight"),
            tickvals=[0, scale / 2, scale],
            ticktext=["0", f"{scale / 2:g}", f"{scale:g}"],
        ),
        yaxis2=dict(range=[-0.2, 1.08], domain=[0, 0.46], title=dict(text="stick left"), tickvals=[0, 0.5, 1]),
    )
    return dict(data=data, layout=layout), {"near": near, "left": left}


allocation = explorable(
    _allocation,
    id="rse.allocation",
    title="What lambda allots",
    alt="Above, the weight of each key of one query, all contents equal. Below, how much of the stick reaches each "
    "key; drag the triangle, the query, and the diamond under the top of the hill, which sets lambda. Asked from "
    "key 0 on, the weights form a hill that stands far before the query while lambda is small, and moves up to "
    "the query as lambda grows. Asked from the last key back, the query's own key is always the largest.",
    readout="nearest 8 keys: {near:.3f} · left over: {left:.3f}",
    handles={"the query": "query", "the top of the hill": "rate"},
    depends={"the query": ["query"], "the query, in words": ["query"], "layout": ["rate", "content", "query", "order"]},
    rate=slider(NEAR_RATES, label="penalty λ", default=0.1, format=_rate),
    content=slider([-2, 0, 2], label="content logit c", default=0, format=signed),
    query=slider([15, 31, 47, 63], label="query position i", default=63),
    order=slider([FIRST, BOTH, RECENT], label="order", format=lambda order: order.replace("last key", "last")),
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
    for order, name, asked, axis, color in (
        ("first", FIRST, "the stick, from here ▸", "y", "blue"),
        ("recent", RECENT, "◂ the stick, from here", "y2", "green"),
    ):
        pieces, left = broken(logits, order, weigh)
        taken = pieces.cumsum(0) if order == "first" else pieces.flip(0).cumsum(0).flip(0)
        on = dict(yaxis=axis)
        begin, side = (-0.5, "bottom right") if order == "first" else (PAST - 0.5, "bottom left")
        data += [
            _bars(name, keys, pieces, color, hovertemplate="key %{x}: weight %{y:.3f}<extra></extra>", **on),
            dict(
                type="scatter",
                name=f"stick that reaches the key, {name}",
                x=keys,
                y=1 - taken + pieces,
                mode="lines",
                line=dict(color=COLORS["purple"], width=2, shape="hvh"),
                hovertemplate="of the stick %{y:.3f} reaches key %{x}<extra></extra>",
                **on,
            ),
            label(f"{name} begins", begin, 1.47, asked, COLORS["purple"], side, **on),
        ]
        for which, j in places.items():
            weight = float(pieces[j])
            called, place, (start, stop) = sides[which]
            line = (1 - taken + pieces)[max(j + start, 0) : j + stop + 1]  # of the stick, where the words stand
            struck = line.min() < weight + 0.38 and line.max() > weight + 0.16
            data += [
                dict(
                    type="scatter",
                    name=f"{which} match, {name}",
                    x=[j],
                    y=[weight + 0.07],
                    mode="markers",
                    marker=dict(color=COLORS["orange"], symbol="star", size=12),
                    hoverinfo="skip",
                    **on,
                ),
                label(
                    f"{which} match in words, {name}",
                    j,
                    float(line.max()) + 0.04 if struck else weight + 0.16,
                    called + number(weight),
                    COLORS["orange"],
                    place,
                    **on,
                ),
            ]
        readouts[order] = float(pieces[places["older"]])
        readouts["left"] = left
    weights = dict(range=[0, 1.48], title=dict(text="weight"), tickvals=[0, 0.5, 1], showgrid=False)
    layout = dict(
        height=430,
        bargap=0.1,
        showlegend=False,
        margin=dict(t=8),
        xaxis=dict(range=[-1, PAST], title=dict(text="key j, the query's own is the last"), anchor="y2"),
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
    depends={"layout": [], **{f"{name} begins": [] for name in _ORDERS}},
    rate=slider([0.0, 0.01, 0.03, 0.1, 0.3], label="λ", default=0.0, format=_rate),
    rest=slider([-8, -6, -4, -2], label="others' logit", default=-4, format=signed),
    older=slider([8, 12, 16, 20, 24, 31], label="older match, keys back", default=24),
)


LANES, LENGTH = 16, 24
SPACE = "\xa0" * 4  # between a mark and its words, on any screen

WAYS = {"softmax": "purple", "softmax with penalty": "orange", "stick": "green"}
ROWS = {name: 0.56 - 0.28 * n for n, name in enumerate(WAYS)}  # where each row of weights begins
HIGH, DEEP, TITLE = 0.24, -0.44, 1.26  # of a row: its height, where its axis begins, and where its title stands


@functools.cache
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
    verdicts = {
        "softmax": "blind to λ and offset",
        "softmax with penalty": "blind to the offset" if rate else "no penalty: as above",
        "stick": f"{'old' if order == FIRST else 'new'} keys choose first",
    }
    aside = query + 2 if query < LENGTH / 2 else -1  # on top, where the query's grip is not
    spans = [y for low in ROWS.values() for y in (low + HIGH * (1.05 - DEEP) / (1.45 - DEEP), low, math.nan)]
    spans = [0.95, 0.84, math.nan, *spans][:-1]  # the query's line, but for the titles
    stops = [query + 0.6] * len(spans)
    hover = "key %{x}: %{y:.3f}<extra></extra>"
    data = [_bars("the same scores", keys, s, "gray", hovertemplate=hover)]
    for n, (weights, (name, color)) in enumerate(zip((soft, biased, pieces), WAYS.items()), 2):
        on, foot = dict(yaxis=f"y{n}"), dict(yaxis=f"y{n + 4}")  # the row, and the same at one scale for all states
        mean = float((weights * (query - keys)).sum() / weights.sum())
        at, right = query - mean, query - mean < LENGTH / 3
        words = query + 0.6 if right and mean < 7.5 else at  # beyond the query's line, not across it
        data += [
            _bars(name, keys, weights, color, hovertemplate=hover, **on),
            dict(
                type="scatter",
                name=f"mean key, {name}",
                x=[at],
                y=[0.12],
                mode="markers",
                marker=dict(symbol="triangle-up", size=12, color=COLORS[color]),
                hoverinfo="skip",
                **foot,
            ),
            label(
                f"how far back, {name}",
                words,
                0.1,
                f"{SPACE}{number(mean, 1)} back{SPACE}",
                COLORS[color],
                "middle right" if right else "middle left",
                12,
                halo=True,
                **foot,
            ),
            label(
                f"what it heeds, {name}",
                -1,
                TITLE,
                f"<b>{name}</b>: {verdicts[name]}",
                COLORS[color],
                "middle right",
                12,
                **on,
            ),
        ]
    data += [
        _bars(
            "left over",
            [LENGTH + 2],
            [left],
            "gray",
            width=1.6,
            hovertemplate="left over: %{y:.3f}<extra></extra>",
            **on,
        ),
        label("how much is left over", LENGTH + 2, left, f"<b>{number(left)}</b>", COLORS["gray"], "top center", **on),
        label("whose bars these are", aside, 14, "<b>the same scores</b>", COLORS["gray"], "middle right", 12),
        upright("the query", query + 0.6, 0, 1, COLORS["blue"], 1.5, "dot", yaxis="y5") | dict(x=stops, y=spans),
    ]
    row = dict(ticks="", zeroline=False)
    layout = dict(
        height=430,
        barmode="overlay",
        bargap=0.15,
        showlegend=False,
        margin=dict(t=8, r=8),
        xaxis=dict(
            range=[-1, LENGTH + 4],
            tickvals=[0, 5, 10, 15, 20, LENGTH + 2],
            ticktext=["0", "5", "10", "15", "20", "left over"],
            tickangle=0,
            title=dict(text="key j; bar: its weight; ▲ the mean key"),
            showgrid=False,
            zeroline=False,
            anchor="y5",
        ),
        yaxis=dict(row, range=[-12, 17], domain=[0.84, 1], tickvals=[-10, 0, 10], ticktext=["−10", "0", "10"]),
        **{
            f"yaxis{n}": dict(row, range=[DEEP, 1.45], domain=[low, low + HIGH], tickvals=[0, 1])
            for n, low in enumerate(ROWS.values(), 2)
        },
        **{
            f"yaxis{n}": dict(range=[0, 1], domain=[low, low + HIGH], visible=False)
            for n, low in enumerate(ROWS.values(), 6)
        },
        yaxis5=dict(range=[0, 1], visible=False),
    )
    return dict(data=data, layout=layout), {"left": left}


same_scores = explorable(
    _same_scores,
    id="rse.same_scores",
    title="Three ways to weigh the same scores",
    alt="On top, a gray bar for each key, up or down from zero: the rotated scores of one query. Under them three rows "
    "over the same keys, whose bars are the weights that three methods make of these scores, on one scale: a softmax "
    "as in RoPE, a softmax with ALiBi's penalty, and RSE's stick; over each stands what it heeds. A "
    "triangle under each row stands at the mean key, with how far back it is. The softmax ignores distance and "
    "offset; with the penalty it "
    "moves to near keys and still ignores the offset. The stick from key 0 on puts its weight on old keys, and "
    "more so with a larger offset; a gray bar on the right is what it leaves over. Drag the dotted line, the query.",
    readout="left over {left:.3f}",
    handles={"the query": "query"},
    depends={
        "the same scores": ["query", "offset"],
        **{name: ["query"] for name in ("softmax", "mean key, softmax", "how far back, softmax")},
        **{f"{what}softmax with penalty": ["query", "rate"] for what in ("", "mean key, ", "how far back, ")},
        "left over": ["query", "rate", "offset"],
        "the query": ["query"],
        "what it heeds, softmax": [],
        "what it heeds, softmax with penalty": ["rate"],
        "what it heeds, stick": ["order"],
        "whose bars these are": ["query"],
        "how much is left over": ["query", "rate", "offset"],
    },
    query=slider(range(3, LENGTH, 2), label="query position i", default=23),
    rate=slider(RATES, label="λ", default=0.1, format=_rate),
    offset=slider([-6, -4, -2, 0, 2], label="offset of all logits", default=-2, format=signed),
    order=slider([FIRST, RECENT], label="order"),
)
