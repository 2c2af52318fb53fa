r"""The explorables of the chapter *CoPE: counting what matters*."""

import functools
import math

import torch

from posenc.bias.cope import lookup, positions
from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider

TOKENS = ["The", "cat", "sat", ".", "It", "slept", ".", "The", "dog", "saw", "it", "run"]
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
    last = len(TABLE) - 1
    gates = list(PRESETS[preset])
    gates[token] = gate
    keys = list(range(len(TOKENS)))
    seen = token <= query
    star = dict(color=COLORS["red"], size=14, symbol="star")
    blue, orange = COLORS["blue"], COLORS["orange"]
    data = [
        dict(type="bar", name="gate", x=keys, y=gates, width=0.7, marker=dict(color=blue), showlegend=False),
        dict(
            type="scatter",
            name="the query",
            x=[query, query],
            y=[0, 1.12],
            mode="lines",
            line=dict(color=COLORS["gray"], width=2, dash="dot"),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="position p of each key",
            x=keys[: query + 1],
            y=p,
            mode="lines+markers",
            line=dict(color=blue, width=2, shape="hv"),
            marker=dict(color=blue, size=7),
            yaxis="y2",
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="the last row, P − 1",
            x=[-0.5, len(TOKENS) - 0.5],
            y=[last, last],
            mode="lines",
            line=dict(color=COLORS["gray"], width=1, dash="dash"),
            yaxis="y2",
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="key on the staircase",
            x=[token] if seen else [],
            y=p[token : token + 1] if seen else [],
            mode="markers",
            marker=star,
            yaxis="y2",
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="q·e between the rows",
            x=list(range(len(TABLE))),
            y=TABLE,
            mode="lines+markers",
            line=dict(color=COLORS["gray"], width=2),
            marker=dict(color=COLORS["gray"], size=9, symbol="square"),
            xaxis="x3",
            yaxis="y3",
        ),
        dict(
            type="scatter",
            name="the keys",
            x=p.clamp(max=last),
            y=z,
            mode="markers",
            marker=dict(color=orange, size=9, symbol="circle-open", line=dict(width=2)),
            xaxis="x3",
            yaxis="y3",
        ),
        dict(
            type="scatter",
            name="the chosen key",
            x=[min(p[token].item(), last)] if seen else [],
            y=[z[token].item()] if seen else [],
            mode="markers",
            marker=star,
            xaxis="x3",
            yaxis="y3",
        ),
    ]
    layout = dict(
        height=620,
        xaxis=dict(range=[-0.6, len(TOKENS) - 0.4], tickvals=keys, ticktext=TOKENS, anchor="y2"),
        yaxis=dict(range=[0, 1.12], domain=[0.8, 1], tickvals=[0, 0.5, 1], title=dict(text="gate")),
        yaxis2=dict(range=[-0.5, len(TOKENS) + 0.6], domain=[0.44, 0.74], title=dict(text="position p")),
        xaxis3=dict(range=[-0.4, last + 0.4], tickvals=list(range(len(TABLE))), anchor="y3", title=dict(text="p")),
        yaxis3=dict(range=[-1.7, 2.5], domain=[0, 0.28], anchor="x3", title=dict(text="bias")),
    )
    readouts = {
        "query": TOKENS[query],
        "key": f"“{TOKENS[token]}” (key {token})",
        "where": gate_words(query, token, p, z),
    }
    return dict(data=data, layout=layout), readouts


def gate_words(query, token, p, z):
    """Where the chosen key stands, and which rows it mixes, in words."""
    if token > query:
        return "comes later: it is hidden, and its gate counts nothing"
    here, last = p[token].item(), len(TABLE) - 1
    if here > last:
        return f"stands at p = {here:g}, beyond the last row: bias {z[token]:.2f}, and no gradient to any gate"
    low = math.floor(here)
    if low == here:
        return f"stands at p = {here:g}, row {low}: bias {z[token]:.2f}"
    share = here - low
    return f"stands at p = {here:g}: {1 - share:.0%} of row {low}, {share:.0%} of row {low + 1}, bias {z[token]:.2f}"


gates = explorable(
    _gates,
    id="cope.gates",
    title="Gates, positions, lookup",
    alt="Three panels. Above, a bar for each of twelve tokens: its gate, from 0 to 1, and a dotted line at the query. "
    "In the middle, the position of each key as a staircase that rises from the query to the left, by one gate a step, "
    "with a dashed line at the last row of the table. Below, the query's product with eight rows of the table as gray "
    "squares joined by lines, and the keys as circles on these lines, a star for the chosen one.",
    readout="seen from “{query}”, {key} {where}",
    depends={
        "gate": ["preset", "token", "gate"],
        "the query": ["query"],
        "position p of each key": ["preset", "query", "token", "gate"],
        "the last row, P − 1": [],
        "key on the staircase": ["preset", "query", "token", "gate"],
        "q·e between the rows": [],
        "the keys": ["preset", "query", "token", "gate"],
        "the chosen key": ["preset", "query", "token", "gate"],
        "readout.query": ["query"],
        "readout.key": ["token"],
        "readout.where": ["preset", "query", "token", "gate"],
    },
    preset=slider(list(PRESETS), label="count", default="words"),
    query=slider(range(2, len(TOKENS)), label="query", default=10, format=lambda i: TOKENS[i]),
    token=slider(
        range(len(TOKENS)), label="one token with a gate of its own", default=8, format=lambda i: f"{i}: {TOKENS[i]}"
    ),
    gate=slider([0.0, 0.25, 0.5, 0.75, 1.0], label="its gate", default=1.0),
)


# ------------------------------------------------------------------------------------------------------- the clamp

RATES = {"every token": 1, "every second": 2, "every fourth": 4, "every eighth": 8}
LENGTHS = [32, 64, 128, 256]


def clamped(rows, count, length):
    """By distance from the last query, [length]: its positions, and how many keys tell each gate something.

    A gate hears from the keys at its own place or before it whose position is less than the last row's.
    """
    every = RATES[count]
    distance = torch.arange(length)
    p = (torch.div(distance, every, rounding_mode="floor") + 1).double()  # a counted token, then every - 1 that are not
    free = p < rows - 1
    return p, free.flip(0).cumsum(0).flip(0)


def _clamp(rows, count, length):
    p, heard = clamped(rows, count, length)
    distance = list(range(length))
    last = rows - 1
    here = p.clamp(max=last)
    piled = int((p >= last).sum())
    silent = int((heard == 0).sum())
    data = [
        dict(
            type="scatter",
            name="counted",
            x=distance,
            y=p,
            mode="lines",
            line=dict(color=COLORS["gray"], width=2, dash="dot"),
        ),
        dict(
            type="scatter",
            name="after the clamp",
            x=distance,
            y=here,
            mode="lines",
            line=dict(color=COLORS["blue"], width=4),
        ),
        dict(
            type="scatter",
            name="keys that a gate hears from",
            x=distance,
            y=heard,
            mode="lines",
            fill="tozeroy",
            line=dict(color=COLORS["orange"], width=2),
            yaxis="y2",
            showlegend=False,
        ),
    ]
    layout = dict(
        height=470,
        xaxis=dict(range=[length, -0.5], title=dict(text="how far before the query"), anchor="y2"),
        yaxis=dict(
            range=[0, min(length / RATES[count] + 2, 3 * rows)], domain=[0.47, 1], title=dict(text="position p")
        ),
        yaxis2=dict(range=[0, max(8, 1.1 * float(heard.max()))], domain=[0, 0.36], title=dict(text="keys heard")),
    )
    share = f"{piled} of {length} keys share row {last}" if piled else f"no key reaches row {last}"
    gate = f"{silent} gates get no gradient" if silent else "every gate gets a gradient"
    return dict(data=data, layout=layout), {"words": f"{share}; {gate}"}


clamp = explorable(
    _clamp,
    id="cope.clamp",
    title="Where positions pile up",
    alt="Above, the position of each key against its distance before the query: a dotted staircase as counted, and a "
    "thick line that follows it up to the last row of the table and is level from there on. Below, how many keys send "
    "a gradient to the gate at that distance: most near the query, none beyond the place where the thick line "
    "becomes level.",
    readout="{words}",
    depends={
        "counted": ["count", "length"],
        "after the clamp": ["rows", "count", "length"],
        "keys that a gate hears from": ["rows", "count", "length"],
        "layout": ["rows", "count", "length"],
        "readout.words": ["rows", "count", "length"],
    },
    rows=slider([4, 8, 16, 32, 64, 128], label="rows of the table P", default=16),
    count=slider(list(RATES), label="gates open at", default="every second"),
    length=slider(LENGTHS, label="tokens", default=64),
)


# ------------------------------------------------------------------------------------------------ the trained gates


@functools.cache
def trained_gates():
    """The frozen gates of a trained model, `results/cope_gates.json`."""
    return load_results("cope_gates")


def name_of(head):
    return f"layer {head['layer'] + 1}, head {head['head'] + 1}"


def _trained(head, query, *, results=None):
    results = trained_gates() if results is None else results
    chosen = next(each for each in results["heads"] if name_of(each) == head)
    line, row = results["line"], chosen["gates"][results["queries"].index(query)]
    g = torch.tensor(row, dtype=torch.float64)
    p = g.flip(0).cumsum(0).flip(0)
    keys = list(range(query + 1))
    spaces = [j for j in keys if line[j] == " "]
    letters = [j for j in keys if line[j] != " "]
    data = [
        dict(
            type="bar",
            name="gate of a letter or mark",
            x=letters,
            y=g[letters],
            width=0.8,
            marker=dict(color=COLORS["blue"]),
        ),
        dict(
            type="bar",
            name="gate of a space",
            x=spaces,
            y=g[spaces],
            width=0.8,
            marker=dict(color=COLORS["orange"], pattern=dict(shape="/", fillmode="replace")),
        ),
        dict(
            type="scatter",
            name="position p of each key",
            x=keys,
            y=p,
            mode="lines",
            line=dict(color=COLORS["blue"], width=3, shape="hv"),
            yaxis="y2",
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="tokens: i − j + 1",
            x=[0, query],
            y=[query + 1, 1],
            mode="lines",
            line=dict(color=COLORS["gray"], width=2, dash="dash"),
            yaxis="y2",
        ),
    ]
    layout = dict(
        height=480,
        barmode="overlay",
        xaxis=dict(
            range=[-1, len(line)],
            tickvals=list(range(len(line))),
            ticktext=[character if character != " " else "␣" for character in line],
            tickangle=0,
            tickfont=dict(size=10),
            anchor="y2",
        ),
        yaxis=dict(range=[0, 1.05], domain=[0.6, 1], tickvals=[0, 0.5, 1], title=dict(text="gate")),
        yaxis2=dict(range=[0, len(line) + 2], domain=[0, 0.5], title=dict(text="position p")),
    )
    mean = chosen["by_kind"]
    words = (
        f"{head}: it counts {p[0]:.1f} in {query + 1} characters; over held-out text its gates are "
        f"{mean['letter']:.2f} on letters, {mean['space']:.2f} on spaces"
    )
    return dict(data=data, layout=layout), {"words": words}


trained = explorable(
    _trained,
    id="cope.trained",
    title="What a trained head counts",
    alt="Above, a bar for each character of a line of real text: the gate that the query gives it, hatched for spaces. "
    "Below, the position of each key as a staircase that rises from the query to the left, and a dashed line that "
    "rises by one a character: what counting tokens would give.",
    readout="{words}",
    head=slider(
        [f"layer {layer}, head {head}" for layer in (1, 2, 3) for head in (1, 2, 3, 4)],
        label="head",
        default="layer 1, head 1",
    ),
    query=slider([7, 15, 23, 31, 39, 47, 55, 63], label="query (which character)", default=63),
)
