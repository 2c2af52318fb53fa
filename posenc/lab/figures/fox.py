r"""The explorables of the chapter *FoX: a door that closes*."""

import math

import torch

from posenc.bias.alibi import bias
from posenc.bias.fox import decay
from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.figures.cope import word_ticks
from posenc.lab.figures.parts import held, label, upright

TOKENS = ["Ann", "is", "in", "Ulm", ".", "Bob", "is", "in", "Rio", ".", "Bob", "is"]
FIRST = slice(0, 4)  # what the first sentence says, before its period
ALL_OPEN, ALIBI, AT_PERIODS = "open", "as ALiBi", "shut at periods"
SLOPE = 0.25  # logits per token, of the preset that is ALiBi
SHUT = 0.05  # the gate of the periods in the third preset
PRESETS = {
    ALL_OPEN: [1.0] * len(TOKENS),
    ALIBI: [math.exp(-SLOPE)] * len(TOKENS),
    AT_PERIODS: [SHUT if token == "." else 1.0 for token in TOKENS],
}
LOW = -7.0  # the lower edge of the drawing of logits


def line_of_gates(preset, token, gate):
    """log f [T] of the line: those of a preset, and one set by hand."""
    gates = torch.tensor(PRESETS[preset], dtype=torch.float64)
    gates[token] = gate
    return gates.log()


def weights_of(log_gates, query):
    """D_ij and the softmax weights of equal contents, [T] each, nan and 0 after the query."""
    row = decay(log_gates)[query]
    return row.masked_fill(row.isinf(), math.nan), row.softmax(-1)


def _bars(name, y, color, axis, words, **parts):
    return dict(
        type="bar",
        name=name,
        x=list(range(len(y))),
        y=y,
        yaxis=axis,
        width=0.7,
        marker=dict(color=COLORS[color]),
        hovertemplate=f"token %{{x}}: {words} %{{y:.3f}}<extra></extra>",
        showlegend=False,
        **parts,
    )


def _steps(name, y, color, dash, axis, words, **parts):
    return dict(
        type="scatter",
        name=name,
        x=list(range(len(y))),
        y=y,
        yaxis=axis,
        mode="lines+markers",
        line=dict(color=COLORS[color], dash=dash, width=2, shape="hvh"),
        marker=dict(size=5),
        hovertemplate=f"key %{{x}}: {words} %{{y:.2f}}<extra></extra>",
        **parts,
    )


def _gates(preset, token, gate, query):
    log_gates = line_of_gates(preset, token, gate)
    left, weights = weights_of(log_gates, query)
    data = [
        _bars("gate of each token", log_gates.exp(), "gray", "y", "gate"),
        held("gate set by hand", token, gate, COLORS["orange"], size=14),
        upright("the query, above", query, 0, 1.25, yaxis="y"),
        _steps("c", log_gates.cumsum(0), "gray", "dot", "y2", "c ="),
        _steps("D", left, "purple", "solid", "y2", "what is left,", connectgaps=False),
        label("name of c", -0.4, 1.9, "<b>c</b>: log f summed", COLORS["gray"], "middle right", yaxis="y2"),
        label("name of D", 11.4, 1.9, "<b>D</b>: c of query − c of key", COLORS["purple"], "middle left", yaxis="y2"),
        upright("the query", query, LOW, 0.5, yaxis="y2"),
        _bars("weight of each key", weights, "green", "y3", "weight"),
        upright("the query, below", query, 0, 1.05, yaxis="y3"),
    ]
    layout = dict(
        height=480,
        showlegend=False,
        margin=dict(t=12),
        barmode="overlay",
        xaxis=dict(
            range=[-0.6, len(TOKENS) - 0.4],
            tickvals=list(range(len(TOKENS))),
            ticktext=TOKENS,
            anchor="y3",
            tickangle=0,
        ),
        yaxis=dict(range=[0, 1.25], domain=[0.8, 1], title=dict(text="gate f"), tickvals=[0, 1]),
        yaxis2=dict(range=[LOW, 2.8], domain=[0.34, 0.74], title=dict(text="logits"), tickvals=[0, -3, -6]),
        yaxis3=dict(range=[0, 1.05], domain=[0, 0.29], title=dict(text="weight"), tickvals=[0, 0.5, 1]),
    )
    period = TOKENS.index(".")
    readouts = {
        "first": weights[FIRST].sum().item(),
        "period": weights[period].item() if query >= period else 0.0,
        "rest": weights[period + 1 :].sum().item(),
    }
    return dict(data=data, layout=layout), readouts


def name_of(token):
    """A token and where it stands."""
    return f"{token}: {TOKENS[token]}"


gates = explorable(
    _gates,
    id="fox.gates",
    title="Gates by hand",
    alt=(
        "Twelve tokens, “Ann is in Ulm. Bob is in Rio. Bob is”, in three drawings. Above, the gate of "
        "each token as a bar between 0 and 1. A diamond stands on the one that is set by hand; drag it up or down, or "
        "to another token. In the middle, the sum c of log f as a dotted staircase that falls, and "
        "for one query what is left of each key as a solid staircase that rises to 0 at the query, an upright line "
        "that can be dragged. Below, the softmax weights of keys of equal content. The readout says what the query "
        "gives to the first sentence, to its period, and to all after it."
    ),
    readout="first sentence {first:.3f} · its period {period:.3f} · rest {rest:.3f}",
    handles={
        "gate set by hand": ("token", "gate"),
        "the query, above": "query",
        "the query": "query",
        "the query, below": "query",
    },
    depends={
        "gate of each token": ["preset", "token", "gate"],
        "gate set by hand": ["token", "gate"],
        "c": ["preset", "token", "gate"],
        "name of c": [],
        "name of D": [],
        "the query": ["query"],
        "the query, above": ["query"],
        "the query, below": ["query"],
    },
    preset=slider(list(PRESETS), label="gates", default=ALL_OPEN),
    token=slider(range(len(TOKENS)), label="gate set by hand", default=8, format=name_of),
    gate=slider([0.05, 0.2, 0.5, 0.8, 1.0], label="its value f", default=0.2),
    query=slider(range(3, len(TOKENS)), label="query", default=11, format=name_of, play=True),
)


LENGTH = 24
WIGGLE = torch.randn(LENGTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64).tanh()


def _alibi(slope, uneven, query, *, decay=decay, bias=bias):
    log_gates = -slope * (1 + uneven * WIGGLE)
    i, keys = torch.tensor([query]), torch.arange(query + 1)
    left = decay(log_gates[: query + 1], 1)[0]
    line = bias(i, keys, torch.tensor([slope], dtype=torch.float64)).flatten()
    ours, theirs = left.softmax(-1), line.softmax(-1)

    def crosses(name, y, axis, words):
        return dict(
            type="scatter",
            name=name,
            x=keys,
            y=y,
            yaxis=axis,
            mode="markers",
            showlegend=axis == "y2",
            marker=dict(symbol="x", size=7, color=COLORS["orange"]),
            hovertemplate=f"key %{{x}}: ALiBi's {words} %{{y:.3f}}<extra></extra>",
        )

    data = [
        _bars("gates", log_gates.exp(), "gray", "y", "gate"),
        _steps("FoX", left, "purple", "solid", "y2", "FoX's decay"),
        crosses("ALiBi", line, "y2", "bias"),
        upright("the query", query, -12.5, 0.5, yaxis="y2"),
        _bars("weights, FoX", ours, "green", "y3", "FoX's weight"),
        crosses("weights, ALiBi", theirs, "y3", "weight"),
        upright("the query, below", query, 0, 0.62, yaxis="y3"),
    ]
    layout = dict(
        height=470,
        barmode="overlay",
        xaxis=dict(range=[-0.6, LENGTH - 0.4], tickvals=[0, 4, 8, 12, 16, 20], anchor="y3", title=dict(text="token")),
        yaxis=dict(range=[0, 1.05], domain=[0.8, 1], title=dict(text="gate f"), tickvals=[0, 1]),
        yaxis2=dict(range=[-12.5, 0.5], domain=[0.34, 0.74], title=dict(text="logits"), tickvals=[0, -5, -10]),
        yaxis3=dict(range=[0, 0.62], domain=[0, 0.28], title=dict(text="weight"), tickvals=[0, 0.25, 0.5]),
    )
    off = (left - line).abs().max().item()
    words = "the same logits" if off < 1e-9 else f"{off:.2f} logits apart"
    return dict(data=data, layout=layout), {"gate": math.exp(-slope), "words": words}


alibi = explorable(
    _alibi,
    id="fox.alibi",
    title="The constant gate",
    alt=(
        "Above, the gates of 24 tokens as bars. In the middle, FoX's decay for one query as a staircase, c of the "
        "query less c of the key, and ALiBi's bias, minus slope times distance, as crosses on a straight line. The "
        "query is an upright line that can be dragged. Below, the weights of both for equal contents, bars and "
        "crosses. With even gates the crosses stand on the staircase; with uneven ones they do not."
    ),
    readout="e to the minus slope {gate:.4f} · {words}",
    handles={"the query": "query", "the query, below": "query"},
    depends={
        "gates": ["slope", "uneven"],
        "ALiBi": ["slope", "query"],
        "the query": ["query"],
        "weights, ALiBi": ["slope", "query"],
        "the query, below": ["query"],
        "readout.gate": ["slope"],
    },
    slope=slider([0.5, 0.25, 0.125, 0.0625, 0.03125], label="slope m", default=0.25, format=lambda m: f"1/{1 / m:.0f}"),
    uneven=slider([0.0, 0.25, 0.5, 1.0], label="uneven by", default=0.0),
    query=slider(range(3, LENGTH), label="query i", default=23, play=True),
)


def _trained(layer, head, query):
    results = load_results("fox_gates")
    text = results["passage"]
    log_gates = torch.tensor(results["passage_gates"], dtype=torch.float64)[layer - 1, head - 1]
    left, _ = weights_of(log_gates, query)
    tightest = 1 + int(log_gates[1 : query + 1].argmin())  # the first gate closes on nothing
    f = log_gates.exp()
    blank = [n for n, character in enumerate(text) if character.isspace()]
    data = [
        _bars("gate of each character", f, "gray", "y", "gate"),
        dict(
            type="scatter",
            name="space or line end",
            x=blank,
            y=f[blank],
            mode="markers",
            marker=dict(symbol="diamond", size=9, color=COLORS["orange"]),
            cliponaxis=False,
            hovertemplate="space at %{x}: gate %{y:.3f}<extra></extra>",
            showlegend=True,
        ),
        upright("the query", query, 0, 1.05, yaxis="y"),
        _steps("D, left for the query", left, "purple", "solid", "y2", "what is left,", connectgaps=False)
        | dict(showlegend=False),
        upright("the query, below", query, -62, 2, yaxis="y2"),
    ]
    layout = dict(
        height=450,
        showlegend=True,
        barmode="overlay",
        xaxis=dict(range=[-1, len(text)], anchor="y2", **word_ticks(text)),
        yaxis=dict(range=[-0.03, 1.05], domain=[0.56, 1], title=dict(text="gate f"), tickvals=[0, 0.5, 1]),
        yaxis2=dict(range=[-62, 2], domain=[0, 0.48], title=dict(text="D, logits"), tickvals=[0, -20, -40, -60]),
    )
    near = int((left[: query + 1] >= math.log(0.1)).sum())
    readouts = {"tightest": tightest, "gate": f[tightest].item(), "near": near}
    return dict(data=data, layout=layout), readouts


trained = explorable(
    _trained,
    id="fox.trained",
    title="Trained gates on a line of text",
    alt=(
        "A line of held-out text, one bar a character, with diamonds at spaces and ends of lines. Above, the trained "
        "forget gate of each character in one head: low bars are doors that close on what stands before. Below, the "
        "staircase that they leave for one query, an upright line that can be dragged: it falls to the left, by a "
        "large step at each door. The readout names the tightest door up to the query, and says of how many "
        "characters a tenth or more is left."
    ),
    readout="tightest door f {gate:.4f} · at character {tightest} · a tenth left of {near}",
    handles={"the query": "query", "the query, below": "query"},
    depends={
        "gate of each character": ["layer", "head"],
        "space or line end": ["layer", "head"],
        "the query": ["query"],
        "the query, below": ["query"],
    },
    layer=slider([1, 2, 3], label="layer", default=3),
    head=slider([1, 2, 3, 4], label="head"),
    query=slider([*range(2, 62, 4), 62], label="query", default=62, play=True),
)
