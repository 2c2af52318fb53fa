r"""The explorables of the chapter *CoPE: counting what matters*."""

import math
import re

import torch

from posenc.bias.cope import lookup, positions
from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, held, label, level, line, path, signed, upright

TOKENS = ["The", "cat", "sat", ".", "It", "hid", ".", "A", "dog", "saw", "it", "run"]
LOWERED = [n % 2 * "<br>" + token for n, token in enumerate(TOKENS)]  # so that none meet on a phone
PRESETS = {
    "words": [0.0 if token == "." else 1.0 for token in TOKENS],
    "sentences": [1.0 if token == "." else 0.0 for token in TOKENS],
    "all": [1.0] * len(TOKENS),
}
# What the query says to each of eight positions: z = q.e of a small table, the same for every query here.
TABLE = torch.tensor([0.0, 2.0, -1.0, 1.5, 0.5, -0.5, -1.0, -1.2], dtype=torch.float64)


def looked_up(p, lookup=lookup):
    """z at the positions p [keys], by the package's own lookup: a query of size 1 and a table of its products."""
    return lookup(torch.ones(1, 1, dtype=torch.float64), TABLE[:, None], p[None])[0]


def logit(gate):
    """What a gate is the sigmoid of."""
    return torch.logit(torch.as_tensor(gate, dtype=torch.float64))


def counted(preset, query, token, gate, positions=positions):
    """The positions [query + 1] of the keys that this query sees, with one token's gate set by hand."""
    gates = list(PRESETS[preset])
    gates[token] = gate
    return positions(logit(gates)[None, : query + 1], torch.ones(1, query + 1, dtype=torch.bool))[0]


def _gates(preset, query, token, gate, *, positions=positions, lookup=lookup):
    p = counted(preset, query, token, gate, positions)
    z = looked_up(p, lookup)
    last, orange = len(TABLE) - 1, COLORS["orange"]
    gates = list(PRESETS[preset])
    gates[token] = gate
    keys = list(range(len(TOKENS)))

    def chosen(name, x, y, place, **axes):  # nothing where the query does not see it
        x, y = ([], []) if token > query else ([x], [y])
        star = dict(color=COLORS["red"], size=18, symbol="star")
        words = dict(text=[TOKENS[token]], textposition=place, textfont=dict(color=COLORS["red"], size=14))
        return dots(name, x, y, marker=star, cliponaxis=False, **words, **axes) | dict(mode="markers+text")

    upper = dict(width=0.7, text=TOKENS, textposition="none")
    stairs = dict(line=dict(shape="hv"), marker=dict(color=orange, size=7), yaxis="y2", text=TOKENS[: query + 1])
    squares = dict(color="gray", size=7, symbol="square")
    row, read = "row %{x} of the table: q·e = %{y}", "a key read at %{x:.2f}: bias %{y:.2f}"
    here, place = [p[token], z[token]] if token <= query else [0, 0], "“%{text}”: position %{y:.2f}"
    data = [
        bars("gate", keys, gates, orange, hover="“%{text}”: gate %{y}", **upper),
        held("gate set by hand", token, gate, "red"),
        upright("the query", query, 0, 1.3),
        upright("the query, below", query, 0, len(TOKENS) + 0.6, yaxis="y2"),
        level("the last row, P − 1", last, -0.5, len(TOKENS) - 0.5, "gray", 1, "dash", yaxis="y2"),
        path("position p of each key", keys[: query + 1], p, orange, 2, hover=place, **stairs),
        chosen("key on the staircase", token, here[0], "top right", yaxis="y2"),
        path("q·e between the rows", list(range(len(TABLE))), TABLE, "gray", 2, hover=row, panel=3, marker=squares),
        dots("the keys", p.clamp(max=last), z, orange, 11, hover=read, panel=3),
        chosen("the chosen key", min(here[0], last), here[1], "top center", xaxis="x3", yaxis="y3"),
    ]
    rows = dict(tickvals=[0, last, len(TOKENS)], ticktext=["0", f"last<br>row {last}", str(len(TOKENS))])
    layout = dict(
        height=500,
        showlegend=False,
        margin=dict(t=12),
        xaxis=axis(-0.6, len(TOKENS) - 0.4, tickvals=keys, ticktext=LOWERED, tickangle=0, anchor="y2"),
        yaxis=axis(0, 1.3, "gate", domain=[0.83, 1], tickvals=[0, 1]),
        yaxis2=axis(0, len(TOKENS) + 0.6, "position p", domain=[0.46, 0.78], **rows),
        xaxis3=axis(-0.4, last + 0.4, "min(p, P − 1): row of the table", tickvals=list(range(len(TABLE))), anchor="y3"),
        yaxis3=axis(-1.9, 3.2, "bias", domain=[0, 0.28], anchor="x3", tickvals=[-1, 0, 1, 2]),
    )
    return dict(data=data, layout=layout), gate_words(query, token, p, z)


def gate_words(query, token, p, z):
    """Where the chosen key stands, the rows that it mixes, and its bias, in words."""
    if token > query:
        return {"stands": "no position", "where": "after the query", "bias": "no bias"}
    here, last = p[token].item(), len(TABLE) - 1
    low = math.floor(here)
    where = f"row {low}" if low == here else f"rows {low} and {low + 1}"
    where = f"beyond row {last}" if here > last else where
    return {"stands": f"p = {here:g}", "where": where, "bias": f"bias {signed(z[token], 2)}"}


def token_name(place):
    return f"{place}: {TOKENS[place]}"


TRAINED_GATES = load_results("cope_gates")


gates = explorable(
    _gates,
    id="cope.gates",
    title="Gates, positions, lookup",
    alt="Three panels. Above, a bar for each of twelve tokens: its gate, from 0 to 1. A diamond stands on the one that "
    "is set by hand; drag it up or down, or to another token. In the middle, the position of each key as a staircase "
    "that rises from the query, an upright line that can be dragged, to the left, by one gate a step, with a dashed "
    "line at the last row of the table. Below, the query's product with eight rows of the table as gray squares "
    "joined by lines, and the keys as dots on these lines. A star is the key set by hand; beyond the last row it "
    "gives no gradient to any gate.",
    readout="{stands} · {where} · {bias}",
    handles={"gate set by hand": ("token", "gate"), "key on the staircase": "token"}
    | dict.fromkeys(("the query", "the query, below"), "query"),
    preset=slider(list(PRESETS), label="count", default="words"),
    query=slider(range(2, len(TOKENS)), label="query", default=10, format=token_name),
    token=slider(range(len(TOKENS)), label="key set by hand", default=8, format=token_name),
    gate=slider([0.0, 0.25, 0.5, 0.75, 1.0], label="its gate", default=1.0),
)


def name_of(head):
    return f"layer {head['layer'] + 1}, head {head['head'] + 1}"


def word_ticks(line):
    """The words of a line of text under their middles, every other one a line lower: what an x axis takes."""
    words = list(re.finditer(r"\S+", line))
    low = [n % 2 * "<br>" + w.group() for n, w in enumerate(words)]
    return dict(tickvals=[(w.start() + w.end() - 1) / 2 for w in words], ticktext=low, tickangle=0)


def word_bands(line):
    """A pale ground behind every other word, through all panels: what a layout takes as shapes."""
    look = dict(type="rect", yref="paper", y0=0, y1=1, layer="below", fillcolor="rgba(128, 128, 128, 0.18)")
    words = list(re.finditer(r"\S+", line))[1::2]
    return [look | dict(x0=w.start() - 0.5, x1=w.end() - 0.5, line=dict(width=0)) for w in words]


def _trained(layer, head, query):
    results, name = TRAINED_GATES, f"layer {layer}, head {head}"
    chosen = next(each for each in results["heads"] if name_of(each) == name)
    text, row = results["line"], chosen["gates"][results["queries"].index(query)]
    g = torch.tensor(row, dtype=torch.float64)
    p = g.flip(0).cumsum(0).flip(0)
    keys = list(range(query + 1))
    roomy, half = query > len(text) / 2, query // 2
    low = p[half] < 12  # no room for a name under the staircase's middle

    def columns(name, spaces, **look):
        mine = [j for j in keys if (text[j] == " ") == spaces]
        return bars(name, mine, g[mine], hover=f"key %{{x:d}}, {name}: gate %{{y:.2f}}", width=0.8, marker=look)

    here = (0, p[0].item() + 7) if low else (half, p[half].item() - 8)
    place, lower = "middle right" if low else "middle left", dict(halo=True, yaxis="y2")
    words = ["all characters", "this head"] if roomy else ["", ""]
    stairs = dict(line=dict(shape="hv"), yaxis="y2", showlegend=False)
    data = [
        columns("letter", False, color=COLORS["orange"]),
        columns("space", True, color=COLORS["ink"], pattern=dict(shape="/", fillmode="replace")),
        line("tokens", [0, query], [query + 1, 1], "gray", 2, "dash", yaxis="y2", showlegend=False),
        label("all of them", query / 2, query / 2 + 8, words[0], "gray", "middle right", **lower),
        label("this head", *here, words[1], "orange", place, **lower),
        line("position p of each key", keys, p, "orange", 3, hover="key %{x:d}: position %{y:.1f}", **stairs),
        upright("the query", query, 0, 1.05, width=2),
        upright("the query, below", query, 0, len(text) + 2, width=2, yaxis="y2"),
    ]
    layout = dict(
        height=450,
        barmode="overlay",
        shapes=word_bands(text),
        xaxis=axis(-1, len(text), **word_ticks(text), anchor="y2"),
        yaxis=axis(0, 1.05, "gate", domain=[0.57, 1], tickvals=[0, 0.5, 1]),
        yaxis2=axis(0, len(text) + 2, "position p", domain=[0, 0.5]),
    )
    said = {"counted": p[0].item(), "length": query + 1}
    return dict(data=data, layout=layout), said | {kind: chosen["by_kind"][kind] for kind in ("letter", "space")}


trained = explorable(
    _trained,
    id="cope.trained",
    title="What a trained head counts",
    alt="Above, a bar for each character of a line of real text: the gate that the query gives it, hatched for spaces. "
    "Below, the position of each key as a staircase that rises from the query, an upright line that can be dragged, to "
    "the left, and a dashed line that rises by one a character: what counting tokens would give. The last two numbers "
    "are the head's mean gates over held-out text.",
    readout="counts {counted:.1f} of {length} · mean gates: letters {letter:.2f}, spaces {space:.2f}",
    handles={"the query": "query", "the query, below": "query"},
    layer=slider([1, 2, 3], label="layer"),
    head=slider([1, 2, 3, 4], label="head"),
    query=slider([7, 15, 23, 31, 39, 47, 55, 63], label="query", default=63, play=True),
)
