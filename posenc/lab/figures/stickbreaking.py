r"""Explorables of the stick-breaking chapter: a stick broken key by key, and what more keys do to a weight."""

import functools

import torch

from posenc import stickbreaking
from posenc.lab.explore import COLORS, explorable, slider

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
    direction = "recent" if order == "most recent first" else "first"
    take, left = weigh((z + offset)[None], visible, direction, return_remainder=True)
    take, left = take[0], float(left[0])
    soft = torch.softmax(z + offset, dim=-1)

    asked = list(range(query))[::-1] if direction == "recent" else list(range(query))
    pieces = take[asked]
    start = torch.cumsum(pieces, 0) - pieces
    names = [f"{TOKENS[j]}<sub>{j}</sub>" for j in asked]
    # One fill a key in both bars; the tokens that equal the query's are orange, and every piece has its label.
    fills = [
        COLORS["orange"] if TOKENS[j] == TOKENS[query] else COLORS["blue" if j % 2 else "sky"] for j in range(query)
    ]
    soft_start = torch.cumsum(soft[asked], 0) - soft[asked]
    gap = 1 - left
    edge = dict(color="#ffffff", width=1)

    def bar(name, **parts):
        return dict(type="bar", name=name, orientation="h", hoverinfo="skip", textangle=0, **parts)

    drop = remainder == "dropped"
    data = [
        bar(
            "stick reaching the key",
            x=1 - start,
            base=start,
            y=asked,
            width=0.3,
            marker=dict(color=COLORS["gray"], opacity=0.4),
        ),
        bar(
            "piece the key takes",
            x=pieces,
            base=start,
            y=asked,
            width=0.8,
            marker=dict(color=[fills[j] for j in asked]),
        ),
        bar(
            "the stick",
            x=pieces,
            base=start,
            y=[1] * query,
            yaxis="y2",
            width=0.8,
            text=names,
            textposition="inside",
            insidetextanchor="middle",
            marker=dict(color=[fills[j] for j in asked], line=edge),
            showlegend=False,
        ),
        bar(
            "what is left of the stick",
            x=[left],
            base=[gap],
            y=[1],
            yaxis="y2",
            width=0.8 if not drop else 0.35,
            text=["left over" if drop else f"to {TOKENS[query]}<sub>{query}</sub> itself"],
            textposition="inside",
            insidetextanchor="middle",
            marker=dict(color=COLORS["gray"] if drop else COLORS["purple"], line=edge),
            showlegend=False,
        ),
        bar(
            "softmax",
            x=soft[asked],
            base=soft_start,
            y=[0] * query,
            yaxis="y2",
            width=0.8,
            text=names,
            textposition="inside",
            insidetextanchor="middle",
            marker=dict(color=[fills[j] for j in asked], line=edge),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="the query",
            x=[0.012],
            y=[query],
            mode="markers+text",
            text=["← asks"],
            textposition="middle right",
            marker=dict(symbol="diamond", size=11, color=COLORS["ink"]),
            hoverinfo="skip",
        ),
    ]
    layout = dict(
        barmode="overlay",
        height=520,
        uniformtext=dict(mode="hide", minsize=10),
        xaxis=dict(range=[0, 1], title=dict(text="share of the stick"), anchor="y", domain=[0, 1]),
        yaxis=dict(
            range=[len(TOKENS) - 0.4, -0.6],
            domain=[0, 0.66],
            tickmode="array",
            tickvals=list(range(len(TOKENS))),
            ticktext=[f"{token}<sub>{j}</sub>" for j, token in enumerate(TOKENS)],
        ),
        yaxis2=dict(
            range=[-0.6, 1.6], domain=[0.74, 1], tickmode="array", tickvals=[0, 1], ticktext=["softmax", "the stick"]
        ),
        margin=dict(l=70),
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
        "first takes more; softmax gives both the same."
    ),
    readout="weights sum to {total:.3f} · left over {left:.3f} · nearest key takes {nearest:.3f}",
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
    temperature=slider([0.25, 0.5, 1.0, 2.0, 4.0], label="temperature (divides the logits)", default=1.0),
    offset=slider(
        [-6, -4, -2, -1, 0, 1, 2, 4, 6], label="logit offset (added to all)", default=0, format=lambda v: f"{v:+d}"
    ),
    order=slider(["most recent first", "key 0 first"], label="order of asking"),
    remainder=slider(["dropped", "to the query itself"], label="what is left"),
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
            line=dict(color=COLORS[color], dash=dash, width=2),
            marker=dict(symbol=symbol, size=7),
        )

    data = [
        line("match, stick-breaking", stick, "blue", "solid", "circle"),
        line("match, softmax", soft, "orange", "dash", "diamond"),
        line("left over, stick-breaking", left, "gray", "dot", "x"),
        dict(
            type="scatter",
            name="here",
            x=[n, n],
            y=[-0.04, 1.04],
            mode="lines",
            line=dict(color=COLORS["ink"], width=1),
            showlegend=False,
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
        yaxis=dict(range=[-0.04, 1.04], title=dict(text="weight")),
    )
    return dict(data=data, layout=layout), {"stick": float(stick[n]), "soft": float(soft[n]), "left": float(left[n])}


dilution = explorable(
    _dilution,
    id="stickbreaking.dilution",
    title="More keys behind the match",
    alt=(
        "Weight of one matching key against the number of keys farther away. The softmax curve falls as keys are "
        "added; the stick-breaking curve is flat. A third curve, the stick left over, falls: it pays for the far keys."
    ),
    readout="match: stick-breaking {stick:.4f}, softmax {soft:.4f} · left over {left:.4f}",
    depends={
        "match, stick-breaking": ["match", "rest", "between"],
        "match, softmax": ["match", "rest", "between"],
        "left over, stick-breaking": ["match", "rest", "between"],
        "here": ["far"],
    },
    far=slider(COUNTS, label="keys farther away", default=16, format=lambda v: f"{v:,}"),
    match=slider([-2, 0, 2, 4, 6, 8], label="logit of the match", default=4, format=lambda v: f"{v:+d}"),
    rest=slider(
        [-8, -6, -4, -3, -2, -1, 0, 2], label="logit of all other keys", default=-4, format=lambda v: f"{v:+d}"
    ),
    between=slider([0, 1, 4, 16, 64], label="keys nearer than the match", default=1),
)
