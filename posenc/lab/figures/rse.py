r"""Explorables of the RSE chapter: what lambda allots, who comes first, and three ways to weigh the same scores."""

import math

import torch

from posenc import stickbreaking
from posenc.lab.exercises.rse import peak
from posenc.lab.explore import COLORS, explorable, slider
from posenc.rotate.rope import inv_freq, rotate

KEYS = 64
FIRST, BOTH, RECENT = "key 0 first, causal", "key 0 first, both ways", "last key first, causal"
RATES = [0.0, 0.01, 0.03, 0.1, 0.3, 1.0]


def _rate(value):
    return f"{value:g} a token"


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
    data = [
        _bars("weight", keys, pieces, "blue"),
        dict(
            type="scatter",
            name="stick that reaches the key",
            x=keys,
            y=reaches,
            mode="lines",
            yaxis="y2",
            line=dict(color=COLORS["orange"], width=2.5, shape="hvh"),
        ),
        dict(
            type="scatter",
            name="the query",
            x=[query],
            y=[-0.06],
            mode="markers",
            yaxis="y2",
            marker=dict(color=COLORS["ink"], symbol="triangle-up", size=12),
        ),
    ]
    top = float(pieces.max())
    scale = next(s for s in (0.02, 0.05, 0.1, 0.2, 0.5, 1.0) if top <= s)
    layout = dict(
        height=460,
        bargap=0.1,
        xaxis=dict(range=[-1, KEYS], title=dict(text="key j"), anchor="y2"),
        yaxis=dict(range=[0, 1.05 * scale], domain=[0.5, 1], title=dict(text="weight")),
        yaxis2=dict(range=[-0.12, 1.05], domain=[0, 0.4], title=dict(text="stick"), tickvals=[0, 0.5, 1]),
    )
    if order == RECENT:
        where = "largest weight on the query's own key, whatever λ"
    elif rate == 0:
        where = "no λ: key 0 has most"
    else:
        far = peak(content, rate)
        where = "λ ≥ softplus(c): local" if far == 0 else f"endless past: most at distance {far:.0f}"
    return dict(data=data, layout=layout), {"near": near, "left": left, "where": where}


allocation = explorable(
    _allocation,
    id="rse.allocation",
    title="What lambda allots",
    alt="Above, the weight of each key of one query, all contents equal. Below, how much of the stick reaches each "
    "key, and a triangle at the query. Asked from key 0 on, the weights form a hill that stands far before the query "
    "while lambda is small, and moves up to the query as lambda grows. Asked from the last key back, the query's own "
    "key is always the largest.",
    readout="within 7 tokens of the query {near:.3f} · left over {left:.3f} · {where}",
    depends={
        "weight": ["rate", "content", "query", "order"],
        "stick that reaches the key": ["rate", "content", "query", "order"],
        "the query": ["query"],
        "layout": ["rate", "content", "query", "order"],
        "readout.near": ["rate", "content", "query", "order"],
        "readout.left": ["rate", "content", "query", "order"],
        "readout.where": ["rate", "content", "order"],
    },
    rate=slider(RATES, label="λ", default=0.1, format=_rate),
    content=slider([-4, -2, 0, 2], label="content logit c of every key", default=0, format=lambda v: f"{v:+d}"),
    query=slider([0, 7, 15, 31, 47, 63], label="query position i", default=63),
    order=slider([FIRST, BOTH, RECENT], label="order of asking"),
)


PAST = 48
SPAN = 4  # the newer of the two matches stands this far back


def _primacy(rate, match, rest, older, *, weigh=stickbreaking.weigh):
    distance = torch.arange(PAST - 1, -1, -1, dtype=torch.float64)
    logits = torch.full((PAST,), float(rest), dtype=torch.float64)
    places = {"older": PAST - 1 - older, "newer": PAST - 1 - SPAN}
    logits[list(places.values())] = float(match)
    logits = logits - rate * distance
    data, readouts, keys = [], {}, torch.arange(PAST)
    for order, name, axis, color in (
        ("first", "key 0 first", "y", "blue"),
        ("recent", "last key first", "y2", "green"),
    ):
        pieces, left = broken(logits, order, weigh)
        data.append(_bars(name, keys, pieces, color, yaxis=axis))
        data.append(
            dict(
                type="scatter",
                uid=f"matches {order}",
                name="the two matches",
                x=list(places.values()),
                y=[float(pieces[j]) + 0.04 for j in places.values()],
                mode="markers",
                yaxis=axis,
                marker=dict(color=COLORS["orange"], symbol="star", size=11),
                showlegend=order == "first",
            )
        )
        readouts |= {f"{order}_{which}": float(pieces[j]) for which, j in places.items()}
        readouts[f"{order}_left"] = left
    layout = dict(
        height=460,
        bargap=0.1,
        xaxis=dict(range=[-1, PAST], title=dict(text="key j, the query's own is the last"), anchor="y2"),
        yaxis=dict(range=[0, 1.12], domain=[0.54, 1], title=dict(text="weight"), tickvals=[0, 0.5, 1]),
        yaxis2=dict(range=[0, 1.12], domain=[0, 0.46], title=dict(text="weight"), tickvals=[0, 0.5, 1]),
    )
    return dict(data=data, layout=layout), readouts


primacy = explorable(
    _primacy,
    id="rse.primacy",
    title="Primacy against recency",
    alt="Two panels of bars over the same keys, with the same logits: above, key 0 is asked first, below, the last "
    "key. Two stars mark equal matches. Above, the older one takes most, or a crowd of others before it takes it all; "
    "below, the newer one does. What is left over is the same in both.",
    readout="key 0 first: older {first_older:.3f}, newer {first_newer:.3f} · last key first: older {recent_older:.3f}, "
    "newer {recent_newer:.3f} · left over in either {first_left:.3f}",
    depends={name: ["rate", "match", "rest", "older"] for name in ("key 0 first", "last key first", "readout")},
    rate=slider([0.0, 0.01, 0.03, 0.1, 0.3], label="λ", default=0.0, format=_rate),
    match=slider([0, 2, 4], label="logit of the two matches", default=2, format=lambda v: f"{v:+d}"),
    rest=slider([-8, -6, -4, -2], label="logit of all other keys", default=-6, format=lambda v: f"{v:+d}"),
    older=slider([8, 16, 32, 47], label="distance of the older match", default=32, format=lambda v: f"{v} back"),
)


LANES, LENGTH = 16, 48


def scores():
    """Seeded scores of 48 rotated queries and keys, [48, 48]: the ones that all three methods of the figure weigh."""
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

    def line(name, y, color, dash, symbol):
        return dict(
            type="scatter",
            name=name,
            x=keys,
            y=y,
            mode="lines+markers",
            line=dict(color=COLORS[color], dash=dash, width=1.5),
            marker=dict(symbol=symbol, size=6),
        )

    soft, biased = torch.softmax(s, -1), torch.softmax(z, -1)
    data = [
        line("softmax (RoPE)", soft, "gray", "dot", "x"),
        line("softmax, minus λ times distance (ALiBi's way)", biased, "orange", "dash", "diamond"),
        line("stick (RSE)", pieces, "blue", "solid", "circle"),
    ]
    layout = dict(
        height=420,
        xaxis=dict(range=[-1, LENGTH], title=dict(text="key j, the query's own is the last")),
        yaxis=dict(range=[-0.02, 1.02], title=dict(text="weight")),
    )
    moved = float((pieces - biased).clamp(min=0).sum())
    return dict(data=data, layout=layout), {"sum": float(pieces.sum()), "left": left, "apart": moved}


same_scores = explorable(
    _same_scores,
    id="rse.same_scores",
    title="Three ways to weigh the same scores",
    alt="Weights of one query over its past by three methods, from the same rotated scores. The softmax ignores "
    "distance and offset; with the penalty it prefers near keys and still ignores the offset. The stick from key 0 on "
    "puts its weight on old keys, and more so with a larger offset.",
    readout="softmax: weights sum to 1 either way · stick: {sum:.3f}, left over {left:.3f} · weight that the stick "
    "puts where the penalized softmax has less: {apart:.3f}",
    depends={
        "softmax (RoPE)": ["query"],
        "softmax, minus λ times distance (ALiBi's way)": ["query", "rate"],
        "stick (RSE)": ["query", "rate", "offset", "order"],
    },
    query=slider([3, 7, 15, 31, 47], label="query position i", default=31),
    rate=slider([0.0, 0.01, 0.03, 0.1, 0.3, 1.0], label="λ, and ALiBi's slope", default=0.1, format=_rate),
    offset=slider([-6, -4, -2, 0, 2], label="offset, added to all logits", default=-2, format=lambda v: f"{v:+d}"),
    order=slider(["key 0 first", "last key first"], label="order of the stick"),
)
