r"""Explorables of the stick-breaking chapter: a stick broken key by key, and what more keys do to a weight."""

import functools

import torch

from posenc import stickbreaking
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.figures.parts import signed

TOKENS = ["the", "cat", "sat", "and", "the", "dog", "sat", "and", "the", "cat"]
NOUNS = {"cat", "dog"}


def logits(query):
    r"""Content-only logits of the keys before `query`, [query]: equal tokens get equal logits, wherever they stand."""
    own = TOKENS[query]
    alike = {True: 1.5, False: -2.5}
    z = [0.5 if {own, key} == NOUNS else alike[own == key] for key in TOKENS[:query]]
    return torch.tensor(z, dtype=torch.float64)


def _allocation(query, temperature, offset, order, remainder, *, weigh=stickbreaking.weigh):
    z = logits(query) / temperature
    visible = torch.ones(1, query, dtype=torch.bool)
    direction = "recent" if order == "nearest first" else "first"
    take, left = weigh((z + offset)[None], visible, direction, return_remainder=True)
    take, left = take[0], float(left[0])
    soft = torch.softmax(z + offset, dim=-1)

    asked = list(range(query))[::-1] if direction == "recent" else list(range(query))
    pieces = take[asked]
    start = torch.cumsum(pieces, 0) - pieces
    names = [f"{TOKENS[j]}<sub>{j}</sub>" for j in asked]
    # One fill a key in both bars; the tokens that equal the query's are orange, and every piece has its label.
    fills = [COLORS["blue" if j % 2 else "sky"] for j in range(query)]
    fills = [COLORS["orange"] if TOKENS[j] == TOKENS[query] else fill for j, fill in enumerate(fills)]
    soft_start = torch.cumsum(soft[asked], 0) - soft[asked]
    gap = 1 - left
    edge = dict(color="#ffffff", width=1)

    def bar(name, words, **parts):
        hover = f"query {query}, key %{{customdata}}: {words}<extra></extra>"
        return dict(
            type="bar", name=name, orientation="h", customdata=parts.pop("keys", asked), hovertemplate=hover, **parts
        )

    def strip(name, words, x, base, y, **parts):  # a bar of the upper panel, its pieces labelled
        parts = dict(width=0.86, text=names, marker=dict(color=[fills[j] for j in asked], line=edge)) | parts
        where = dict(yaxis="y2", textposition="inside", insidetextanchor="middle", textangle=0)
        return bar(name, words, x=x, base=base, y=[y] * len(x), **where, **parts)

    drop = remainder == "dropped"
    rest = "left over" if drop else f"to {TOKENS[query]}<sub>{query}</sub> itself"
    data = [
        bar(
            "stick reaching the key",
            "%{x:.3f} of the stick reaches it",
            x=1 - start,
            base=start,
            y=asked,
            width=0.3,
            marker=dict(color=COLORS["gray"], opacity=0.4),
        ),
        bar(
            "piece the key takes",
            "takes %{x:.3f}",
            x=pieces,
            base=start,
            y=asked,
            width=0.8,
            marker=dict(color=[fills[j] for j in asked]),
        ),
        strip("the stick", "weight %{x:.3f}", pieces, start, 1),
        strip(
            "what is left of the stick",
            f"%{{x:.3f}} {rest}",
            [left],
            [gap],
            1,
            width=0.4 if drop else 0.86,
            text=[rest],
            marker=dict(color=COLORS["gray"] if drop else COLORS["purple"], line=edge),
            keys=["none"],
        ),
        strip("softmax", "softmax weight %{x:.3f}", soft[asked], soft_start, 0),
        dict(
            type="scatter",
            name="the query",
            x=[1, 0.015],
            y=[query, query],
            mode="lines+markers+text",
            text=["", f"{TOKENS[query]}<sub>{query}</sub> asks"],
            textposition="bottom right",
            line=dict(color=COLORS["ink"], width=1.5, dash="dot"),
            marker=dict(symbol="diamond", size=[0, 15], color=COLORS["ink"], opacity=1),
            hoverinfo="skip",
        ),
    ]
    layout = dict(
        barmode="overlay",
        height=540,
        showlegend=False,
        uniformtext=dict(mode="hide", minsize=10),
        xaxis=dict(range=[0, 1], title=dict(text="share of the stick"), anchor="y", domain=[0, 1]),
        yaxis=dict(
            range=[len(TOKENS) + 0.1, -0.6],
            domain=[0, 0.7],
            tickmode="array",
            tickvals=list(range(len(TOKENS))),
            ticktext=[f"{token}<sub>{j}</sub>" for j, token in enumerate(TOKENS)],
        ),
        yaxis2=dict(
            range=[-0.5, 1.5], domain=[0.77, 1], tickmode="array", tickvals=[0, 1], ticktext=["softmax", "stick"]
        ),
        margin=dict(l=70, t=10),
    )
    total = float(take.sum()) + (0.0 if drop else left)
    nearest = float(take[-1]) if query else 0.0
    return dict(data=data, layout=layout), {"total": total, "left": left, "nearest": nearest}


allocation = explorable(
    _allocation,
    id="stickbreaking.allocation",
    title="A stick, broken key by key",
    alt=(
        "Top: the finished stick as a bar of length one, cut into one labelled piece for each key in the order of "
        "asking, above the softmax of the same logits. Below: a staircase with a row for each key; a thin gray bar "
        "shows how much stick reaches the key, a thick bar what the key takes. Of two equal tokens the one asked "
        "first takes more; softmax gives both the same. The dotted row of the query is dragged to another token."
    ),
    readout="sum {total:.3f} · left over {left:.3f} · nearest key {nearest:.3f}",
    handles={"the query": "query"},
    depends={
        "stick reaching the key": ["query", "temperature", "offset", "order"],
        "piece the key takes": ["query", "temperature", "offset", "order"],
        "the stick": ["query", "temperature", "offset", "order"],
        "what is left of the stick": ["query", "temperature", "offset", "remainder"],
        "softmax": ["query", "temperature", "order"],
        "the query": ["query"],
        "readout.total": ["query", "temperature", "offset", "remainder"],
        "readout.left": ["query", "temperature", "offset"],
        "readout.nearest": ["query", "temperature", "offset", "order"],
    },
    query=slider(range(len(TOKENS)), label="query position i", default=8, format=lambda i: f"{i}, “{TOKENS[i]}”"),
    temperature=slider([0.5, 1.0, 2.0], label="temperature", default=1.0),
    offset=slider([-6, -4, -2, 0, 2, 4, 6], label="added to all logits", default=0, format=signed),
    order=slider(["nearest first", "key 0 first"], label="asked"),
    remainder=slider(["dropped", "to the query"], label="the rest"),
)


COUNTS = (0, 1, 4, 16, 64, 256, 1024, 4096)


@functools.lru_cache(maxsize=512)
def _match_weights(match, rest, between, weigh):
    r"""Weight of the match under softmax and stick-breaking, and the stick left over, for each number of far keys."""
    nearer, far = int(between), max(COUNTS)
    z = torch.full((1, far + 1 + nearer), float(rest), dtype=torch.float64)
    z[0, far] = match
    here = torch.arange(z.shape[1]) >= far - torch.tensor(COUNTS)[:, None]  # [counts, keys]: far keys stand in front
    soft = torch.softmax(z.expand_as(here).masked_fill(~here, float("-inf")), dim=-1)[:, far]
    take, left = weigh(z.expand_as(here), here, "recent", return_remainder=True)
    return soft, take[:, far], left


def _dilution(far, match, rest, between, *, weigh=stickbreaking.weigh):
    soft, stick, left = _match_weights(match, rest, between, weigh)
    n = COUNTS.index(far)
    places = list(range(len(COUNTS)))  # an evenly spaced axis that can hold 0

    def line(name, y, color, dash, symbol):
        return dict(
            type="scatter",
            name=name,
            x=places,
            y=y,
            mode="lines+markers",
            line=dict(color=COLORS[color], dash=dash, width=2.5),
            marker=dict(symbol=symbol, size=8),
            customdata=COUNTS,
            hovertemplate=f"%{{customdata:,}} keys farther away: %{{y:.4f}}, {name}<extra></extra>",
        )

    data = [
        line("stick-breaking", stick, "blue", "solid", "circle"),
        line("softmax", soft, "orange", "dash", "diamond"),
        line("left over", left, "gray", "dot", "x"),
        dict(
            type="scatter",
            name="here",
            x=[n, n],
            y=[-0.04, 1.09],
            mode="lines+markers",
            line=dict(color=COLORS["ink"], width=2),
            marker=dict(symbol="triangle-down", size=[0, 15], color=COLORS["ink"], opacity=1),
            showlegend=False,
            hoverinfo="skip",
        ),
    ]
    layout = dict(
        height=380,
        xaxis=dict(
            range=[-0.3, len(COUNTS) - 0.7],
            tickmode="array",
            tickvals=[0, *places[1::2]],  # few enough to lie flat and whole on a narrow screen
            ticktext=[f"{c:,}" for c in (COUNTS[0], *COUNTS[1::2])],
            tickangle=0,
            title=dict(text="keys farther away than the match"),
        ),
        yaxis=dict(range=[-0.04, 1.12], title=dict(text="weight of the match")),
    )
    return dict(data=data, layout=layout), {"stick": float(stick[n]), "soft": float(soft[n]), "left": float(left[n])}


dilution = explorable(
    _dilution,
    id="stickbreaking.dilution",
    title="More keys behind the match",
    alt=(
        "Weight of one matching key against the number of keys farther away. The softmax curve falls as keys are "
        "added; the stick-breaking curve is flat. A third curve, the stick left over, falls: it pays for the far keys. "
        "An upright line is dragged to a number of keys."
    ),
    readout="stick {stick:.4f} · softmax {soft:.4f} · left over {left:.4f}",
    handles={"here": "far"},
    depends={
        "stick-breaking": ["match", "rest", "between"],
        "softmax": ["match", "rest", "between"],
        "left over": ["match", "rest", "between"],
        "here": ["far"],
    },
    far=slider(COUNTS, label="keys farther away", default=16, format=lambda v: f"{v:,}"),
    match=slider([-2, 0, 2, 4, 6, 8], label="logit of the match", default=4, format=signed),
    rest=slider([-8, -6, -4, -3, -2, -1, 0, 2], label="logit of all other keys", default=-4, format=signed),
    between=slider([0, 1, 4, 16, 64], label="keys nearer than the match", default=1),
)
