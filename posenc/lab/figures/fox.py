r"""The explorables of the chapter *FoX: a door that closes*."""

import math

import torch

from posenc.bias.alibi import bias
from posenc.bias.fox import decay
from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider

TOKENS = ["Ann", "is", "in", "Rome", ".", "Bob", "is", "in", "Oslo", ".", "Bob", "is"]
FIRST = slice(0, 4)  # what the first sentence says, before its period
ALL_OPEN, ALIBI, AT_PERIODS = "all open", "constant, as ALiBi", "close at the periods"
SLOPE = 0.25  # logits per token, of the preset that is ALiBi
SHUT = 0.05  # the gate of the periods in the third preset
PRESETS = {
    ALL_OPEN: [1.0] * len(TOKENS),
    ALIBI: [math.exp(-SLOPE)] * len(TOKENS),
    AT_PERIODS: [SHUT if token == "." else 1.0 for token in TOKENS],
}
ALONE = {"hoverinfo": "skip"}


def line_of_gates(preset, token, gate):
    """log f [T] of the line: those of a preset, and one set by hand."""
    gates = torch.tensor(PRESETS[preset], dtype=torch.float64)
    gates[token] = gate
    return gates.log()


def weights_of(log_gates, query):
    """D_ij and the softmax weights of equal contents, [T] each, nan and 0 after the query."""
    row = decay(log_gates)[query]
    return row.masked_fill(row.isinf(), math.nan), row.softmax(-1)


def _bars(name, y, color, axis, **parts):
    return dict(
        type="bar",
        name=name,
        x=list(range(len(y))),
        y=y,
        yaxis=axis,
        width=0.7,
        marker=dict(color=COLORS[color]),
        showlegend=False,
        **ALONE,
        **parts,
    )


def _steps(name, y, color, dash, axis, **parts):
    return dict(
        type="scatter",
        name=name,
        x=list(range(len(y))),
        y=y,
        yaxis=axis,
        mode="lines+markers",
        line=dict(color=COLORS[color], dash=dash, width=2, shape="hvh"),
        marker=dict(size=5),
        **ALONE,
        **parts,
    )


def _axes(names, *, height, low):
    """Three drawings over each other that share their tokens: gates, what is left, weights."""
    return dict(
        height=height,
        barmode="overlay",
        xaxis=dict(
            range=[-0.6, len(names) - 0.4],
            tickmode="array",
            tickvals=list(range(len(names))),
            ticktext=names,
            anchor="y3",
            tickangle=0,
        ),
        yaxis=dict(range=[0, 1.15], domain=[0.74, 1], title=dict(text="gate f"), tickvals=[0, 0.5, 1]),
        yaxis2=dict(range=[low, 0.5], domain=[0.34, 0.68], title=dict(text="logits")),
        yaxis3=dict(range=[0, 1.05], domain=[0, 0.28], title=dict(text="weight"), tickvals=[0, 0.5, 1]),
        legend=dict(orientation="h", y=1.02, yanchor="bottom", x=0),
    )


def _gates(preset, token, gate, query):
    log_gates = line_of_gates(preset, token, gate)
    left, weights = weights_of(log_gates, query)
    data = [
        _bars("gate of each token", log_gates.exp(), "gray", "y"),
        dict(
            type="scatter",
            name="set by hand",
            x=[token],
            y=[gate],
            mode="markers",
            marker=dict(symbol="diamond", size=12, color=COLORS["orange"]),
            **ALONE,
        ),
        _steps("c, the sum of log f", log_gates.cumsum(0), "gray", "dot", "y2"),
        _steps("D, what is left for the query", left, "blue", "solid", "y2", connectgaps=False),
        _bars("weight of each key", weights, "blue", "y3"),
        dict(
            type="scatter",
            name="the query",
            x=[query],
            y=[1.0],
            yaxis="y3",
            mode="markers",
            marker=dict(symbol="triangle-down", size=11, color=COLORS["ink"]),
            **ALONE,
        ),
    ]
    layout = _axes(TOKENS, height=560, low=-6.5)
    period = TOKENS.index(".")
    readouts = {
        "query": f"{TOKENS[query]} ({query})",
        "first": weights[FIRST].sum().item(),
        "period": weights[period].item() if query >= period else 0.0,
        "rest": weights[period + 1 :].sum().item(),
    }
    return dict(data=data, layout=layout), readouts


def name_of(token):
    """A token and where it stands."""
    return f"{token}, “{TOKENS[token]}”"


gates = explorable(
    _gates,
    id="fox.gates",
    title="Gates by hand",
    alt=(
        "Twelve tokens, “Ann is in Rome. Bob is in Oslo. Bob is”, in three drawings. Above, the gate of "
        "each token as a bar between 0 and 1. In the middle, the sum c of log f as a dotted staircase that falls, and "
        "for one query what is left of each key as a solid staircase that rises to 0 at the query. Below, the softmax "
        "weights of keys of equal content."
    ),
    readout="{query} gives the first sentence {first:.3f}, its period {period:.3f}, all after it {rest:.3f}",
    depends={
        "gate of each token": ["preset", "token", "gate"],
        "set by hand": ["token", "gate"],
        "c, the sum of log f": ["preset", "token", "gate"],
        "D, what is left for the query": ["preset", "token", "gate", "query"],
        "weight of each key": ["preset", "token", "gate", "query"],
        "the query": ["query"],
        "readout.query": ["query"],
    },
    preset=slider(list(PRESETS), label="all gates", default=ALL_OPEN),
    token=slider(range(len(TOKENS)), label="token whose gate you set", default=8, format=name_of),
    gate=slider([1.0, 0.8, 0.5, 0.2, 0.05], label="its gate f", default=0.2),
    query=slider([3, 6, 9, 11], label="query", default=11, format=name_of),
)


LENGTH = 24
WIGGLE = torch.randn(LENGTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64).tanh()


def _alibi(slope, uneven, query, *, decay=decay, bias=bias):
    log_gates = -slope * (1 + uneven * WIGGLE)
    i, keys = torch.tensor([query]), torch.arange(query + 1)
    left = decay(log_gates[: query + 1], 1)[0]
    line = bias(i, keys, torch.tensor([slope], dtype=torch.float64)).flatten()
    ours, theirs = left.softmax(-1), line.softmax(-1)

    def crosses(name, y, axis):
        return dict(
            type="scatter",
            name=name,
            x=keys,
            y=y,
            yaxis=axis,
            mode="markers",
            showlegend=axis == "y2",
            marker=dict(symbol="x", size=7, color=COLORS["orange"]),
            **ALONE,
        )

    data = [
        _bars("gates", log_gates.exp(), "gray", "y"),
        _steps("FoX: c of the query less c of the key", left, "blue", "solid", "y2"),
        crosses("ALiBi: minus slope times distance", line, "y2"),
        _bars("weights, FoX", ours, "blue", "y3"),
        crosses("weights, ALiBi", theirs, "y3"),
    ]
    names = [str(n) if n % 4 == 0 else "" for n in range(LENGTH)]
    layout = _axes(names, height=560, low=-12.5)
    layout["yaxis3"] |= dict(range=[0, 0.62], tickvals=[0, 0.25, 0.5])
    off = (left - line).abs().max().item()
    words = "the same numbers" if off < 1e-9 else f"up to {off:.2f} logits apart"
    return dict(data=data, layout=layout), {"gate": math.exp(-slope), "words": words}


alibi = explorable(
    _alibi,
    id="fox.alibi",
    title="The constant gate",
    alt=(
        "Above, the gates of 24 tokens as bars. In the middle, FoX's decay for one query as a staircase, and ALiBi's "
        "penalty as crosses on a straight line. Below, the weights of both for equal contents, bars and crosses. With "
        "even gates the crosses stand on the staircase; with uneven ones they do not."
    ),
    readout="e to the minus slope is {gate:.4f}; FoX and ALiBi: {words}",
    depends={
        "gates": ["slope", "uneven"],
        "FoX: c of the query less c of the key": ["slope", "uneven", "query"],
        "ALiBi: minus slope times distance": ["slope", "query"],
        "weights, FoX": ["slope", "uneven", "query"],
        "weights, ALiBi": ["slope", "query"],
        "readout.gate": ["slope"],
    },
    slope=slider([0.5, 0.25, 0.125, 0.0625, 0.03125], label="slope m", default=0.25, format=lambda m: f"1/{1 / m:.0f}"),
    uneven=slider([0.0, 0.25, 0.5, 1.0], label="unevenness of the gates", default=0.0),
    query=slider([7, 11, 15, 19, 23], label="query i", default=23),
)


def shown(character):
    """A character as an axis writes it."""
    return {" ": "␣", "\n": "⏎"}.get(character, character)


def _trained(layer, head, query):
    results = load_results("fox_gates")
    text = results["passage"]
    log_gates = torch.tensor(results["passage_gates"], dtype=torch.float64)[layer - 1, head - 1]
    left, weights = weights_of(log_gates, query)
    tightest = 1 + int(log_gates[1 : query + 1].argmin())  # the first gate closes on nothing
    data = [
        _bars("gate f of each character", log_gates.exp(), "gray", "y"),
        _steps("D, what is left for the query", left, "blue", "solid", "y2", connectgaps=False, showlegend=False),
        _bars("weight of each character", weights, "blue", "y3"),
        dict(
            type="scatter",
            name="the query",
            x=[query],
            y=[1.1],
            yaxis="y3",
            mode="markers",
            showlegend=False,
            marker=dict(symbol="triangle-down", size=10, color=COLORS["ink"]),
            **ALONE,
        ),
    ]
    layout = _axes([shown(c) for c in text], height=540, low=-16.5)
    layout["xaxis"] |= dict(range=[-1, len(text)], tickfont=dict(size=9))
    layout["yaxis3"] |= dict(range=[0, 1.2])
    near = int((left[: query + 1] >= math.log(0.1)).sum())
    readouts = {
        "tightest": f"{shown(text[tightest])} at {tightest}, f = {log_gates[tightest].exp().item():.3f}",
        "near": f"{near} of {query + 1} characters",
    }
    return dict(data=data, layout=layout), readouts


trained = explorable(
    _trained,
    id="fox.trained",
    title="Trained gates on a line of text",
    alt=(
        "A line of held-out text, one bar a character. Above, the trained forget gate of each character in one head: "
        "low bars are doors that close on what stands before. In the middle, the staircase that they leave for one "
        "query. Below, its weights if all contents were equal."
    ),
    readout="tightest door up to the query: {tightest} · a tenth or more is left of {near}",
    depends={
        "gate f of each character": ["layer", "head"],
        "D, what is left for the query": ["layer", "head", "query"],
        "weight of each character": ["layer", "head", "query"],
        "the query": ["query"],
        "readout.tightest": ["layer", "head", "query"],
    },
    layer=slider([1, 2, 3], label="layer"),
    head=slider([1, 2, 3, 4], label="head"),
    query=slider([15, 23, 31, 39, 47, 55, 62], label="query", default=62),
)
