r"""Explorables of the stick-breaking chapter: a stick broken key by key, and what more keys do to a weight."""

import functools

import torch

from posenc import stickbreaking
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, label, path, pin, signed

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

    def bar(name, words, x, **parts):
        parts = dict(text=names, textposition="none") | parts
        hover = f"query {query}, {words}<extra></extra>"  # plotly's %{x} is where a bar ends
        return dict(type="bar", name=name, orientation="h", x=x, customdata=x, hovertemplate=hover, **parts)

    def strip(name, words, x, base, y, **parts):  # a bar of the upper panel, its pieces labelled
        parts = dict(width=0.86, text=names, marker=dict(color=[fills[j] for j in asked], line=edge)) | parts
        where = dict(yaxis="y2", textposition="inside", insidetextanchor="middle", textangle=0)
        return bar(name, words, x=x, base=base, y=[y] * len(x), **where, **parts)

    leaves = "key %{text}: leaves %{customdata:.3f} of the stick to those asked after it"
    pale, thick = dict(color=COLORS["gray"], opacity=0.4), dict(width=0.8, marker=dict(color=[fills[j] for j in asked]))
    drop = remainder == "dropped"
    # The words stand clear of a phone's axis.
    asks = dict(marker=dict(symbol="diamond", size=[0, 15], color="ink", opacity=1))
    asks |= dict(text=["", f"{TOKENS[query]}<sub>{query}</sub> asks"], textposition="bottom right")
    rest = "left over" if drop else f"to {TOKENS[query]}<sub>{query}</sub> itself"
    looks = dict(marker=dict(color=COLORS["gray" if drop else "purple"], line=edge), text=[rest])
    looks |= dict(width=0.4 if drop else 0.86)
    data = [
        bar("what the key leaves", leaves, 1 - start - pieces, base=start + pieces, y=asked, width=0.3, marker=pale),
        bar("piece the key takes", "key %{text}: takes %{customdata:.3f}", pieces, base=start, y=asked, **thick),
        strip("the stick", "key %{text}: weight %{customdata:.3f}", pieces, start, 1),
        strip("what is left of the stick", f"the rest: %{{customdata:.3f}} {rest}", [left], [gap], 1, **looks),
        strip("softmax", "key %{text}: softmax weight %{customdata:.3f}", soft[asked], soft_start, 0),
        path("the query", [1, 0.035], [query] * 2, "ink", 1.5, "dot", **asks) | dict(mode="lines+markers+text"),
    ]
    tokens = [f"{token}<sub>{j}</sub>" for j, token in enumerate(TOKENS)]
    ticks = dict(tickvals=list(range(len(TOKENS))), ticktext=tokens)
    layout = dict(
        barmode="overlay",
        height=540,
        showlegend=False,
        uniformtext=dict(mode="hide", minsize=10),
        xaxis=axis(0, 1, "share of the stick", anchor="y", domain=[0, 1]),
        yaxis=axis(len(TOKENS) + 0.1, -0.6, domain=[0, 0.7], tickmode="array", **ticks),
        yaxis2=axis(-0.5, 1.5, domain=[0.77, 1], tickmode="array", tickvals=[0, 1], ticktext=["softmax", "stick"]),
        margin=dict(l=70, t=10),
    )
    total = float(take.sum()) + (0.0 if drop else left)
    nearest = float(take[-1]) if query else 0.0
    return dict(data=data, layout=layout), {"total": total, "left": left, "nearest": nearest}


allocation = explorable(
    _allocation,
    id="stickbreaking.allocation",
    title="A stick, broken key by key",
    alt="Top: the finished stick as a bar of length one, cut into one labelled piece for each key in the order of "
    "asking, above the softmax of the same logits. Below: a staircase with a row for each key; a thick bar is "
    "what the key takes, a thin gray bar what it leaves to the keys asked after it. Of two equal tokens the one "
    "asked first takes more; softmax gives both the same. The dotted row of the query is dragged to another token.",
    readout="sum {total:.3f} · left over {left:.3f} · nearest key {nearest:.3f}",
    handles={"the query": "query"},
    query=slider(range(len(TOKENS)), label="query i", default=8, format=lambda i: f"{i}, “{TOKENS[i]}”"),
    temperature=slider([0.5, 1.0, 2.0], label="temperature", default=1.0),
    offset=slider([-6, -4, -2, 0, 2, 4, 6], label="added to logits", default=0, format=signed),
    order=slider(["nearest first", "key 0 first"], label="asked"),
    remainder=slider(["dropped", "to the query"], label="the rest"),
)


COUNTS = (0, 1, 4, 16, 64, 256, 1024, 4096)
PARTS = {  # of the weight: who has it
    "nearer keys": dict(color=COLORS["gray"], pattern=dict(shape="x", fillmode="replace")),
    "the match": dict(color=COLORS["green"], pattern=dict(shape="")),
    "farther keys": dict(color=COLORS["orange"], pattern=dict(shape="/", fillmode="replace")),
    "left over": dict(color=COLORS["gray"], pattern=dict(shape=".", fillmode="replace")),
}


@functools.lru_cache(maxsize=512)
def _shares(match, rest, between, weigh):
    r"""What each of `PARTS` has under softmax and stick-breaking, for each number of far keys: two [4, counts]."""
    nearer, far = int(between), max(COUNTS)
    z = torch.full((1, far + 1 + nearer), float(rest), dtype=torch.float64)
    z[0, far] = match
    here = torch.arange(z.shape[1]) >= far - torch.tensor(COUNTS)[:, None]  # [counts, keys]: far keys stand in front
    soft = torch.softmax(z.expand_as(here).masked_fill(~here, float("-inf")), dim=-1)
    take, left = weigh(z.expand_as(here), here, "recent", return_remainder=True)

    def parts(weights, rest):
        return torch.stack((weights[:, far + 1 :].sum(-1), weights[:, far], weights[:, :far].sum(-1), rest))

    return parts(soft, torch.zeros_like(left)), parts(take, left)


def _dilution(far, match, rest, between, *, weigh=stickbreaking.weigh):
    soft, stick = _shares(match, rest, between, weigh)
    n = COUNTS.index(far)
    places = list(range(len(COUNTS)))  # an evenly spaced axis that can hold 0

    def curve(name, y, color, dash, symbol):
        hover = f"%{{customdata:,}} keys farther away: weight of the match %{{y:.3f}}, {name}<extra></extra>"
        marker = dict(symbol=symbol, size=8)
        return path(name, places, y, color, 2.5, dash, hover=hover, marker=marker, customdata=COUNTS, showlegend=False)

    both = torch.stack((soft[:, n], stick[:, n]), -1)  # [parts, 2]
    starts = both.cumsum(0) - both
    data, aside = [], dict(panel=2, orientation="h", width=0.7, showlegend=True)
    for (part, look), share, start in zip(PARTS.items(), both, starts):
        more = dict(aside, base=start, customdata=share, marker=look | dict(line=dict(color=COLORS["ink"], width=1)))
        data.append(bars(part, share, [0, 1], hover=f"{part}: %{{customdata:.3f}}", **more))
    ends = [float(stick[1, -1]), float(soft[1, -1])]
    low = max(min(ends), 0.04)
    high = max(max(ends), low + 0.16)
    heights = [high, low] if ends[0] >= ends[1] else [low, high]  # of the names: on the plot, and apart
    data += [
        curve("stick-breaking", stick[1], "blue", "solid", "circle"),
        curve("softmax", soft[1], "purple", "dash", "diamond"),
        label("names", [places[-1] + 0.2] * 2, heights, ["stick", "softmax"], ["blue", "purple"], "middle right"),
        pin("here", n, -0.04, 1.13),
    ]
    bare = dict(showgrid=False, zeroline=False)
    # few enough to lie flat and whole on a narrow screen
    few = dict(tickmode="array", tickvals=[0, *places[1::2]], tickangle=0)
    few |= dict(ticktext=[f"{count:,}" for count in (COUNTS[0], *COUNTS[1::2])])
    layout = dict(
        height=440,
        barmode="overlay",
        meta=dict(phone=dict(xaxis=dict(range=[-0.3, len(COUNTS) + 1.1]))),
        xaxis=axis(-0.3, len(COUNTS) + 0.1, "keys farther away than the match", **few),
        yaxis=axis(-0.04, 1.16, "weight of the match", domain=[0, 0.62], tickvals=[0, 0.5, 1]),
        xaxis2=axis(0, 1, anchor="y2", showticklabels=False, **bare),
        yaxis2=axis(-0.5, 1.5, domain=[0.74, 1], anchor="x2", tickvals=[0, 1], ticktext=["softmax", "stick"], **bare),
    )
    words = {"stick": float(stick[1, n]), "soft": float(soft[1, n]), "left": float(stick[3, n])}
    return dict(data=data, layout=layout), words


dilution = explorable(
    _dilution,
    id="stickbreaking.dilution",
    title="More keys behind the match",
    alt="Above, two bars, who has the weight under softmax and who under stick-breaking: nearer keys, the match, "
    "farther keys, and what is left over of the stick. Below, the weight of the match against the number of keys "
    "farther away. The softmax curve falls as keys are added; the stick-breaking curve is flat, and in its bar "
    "farther keys take only from what was left over. An upright line is dragged to a number of keys.",
    readout="stick {stick:.3f} · softmax {soft:.3f} · left over {left:.3f}",
    handles={"here": "far"},
    far=slider(COUNTS, label="keys farther away", default=256, format=lambda v: f"{v:,}", play=True),
    match=slider([0, 1, 2, 4, 6], label="logit of the match", default=2, format=signed),
    rest=slider([-8, -6, -4, -2, 0], label="logit of all other keys", default=-4, format=signed),
    between=slider([0, 1, 4, 16, 64], label="keys nearer than the match", default=1),
)
