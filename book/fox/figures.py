r"""The explorables of the chapter *FoX: a door that closes*."""

import math

import torch

from posenc.bias.alibi import bias
from posenc.bias.fox import decay
from posenc.chapters.cope.figures import word_bands, word_ticks
from posenc.lab.experiments import load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, held, label, line, path, upright

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
QUERY_LINES = ("the query, above", "the query", "the query, below")
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
    look = dict(yaxis=axis, width=0.7, showlegend=False)
    return bars(name, list(range(len(y))), y, color, hover=f"token %{{x}}: {words} %{{y:.3f}}", **look, **parts)


def _steps(name, y, color, dash, axis, words, **parts):
    look = dict(line=dict(shape="hvh"), marker=dict(size=5), yaxis=axis, hover=f"key %{{x}}: {words} %{{y:.2f}}")
    return path(name, list(range(len(y))), y, color, 2, dash, **look, **parts)


def _gates(preset, token, gate, query):
    log_gates = line_of_gates(preset, token, gate)
    left, weights = weights_of(log_gates, query)
    tokens = list(range(len(TOKENS)))
    data = [
        _bars("gate of each token", log_gates.exp(), "gray", "y", "gate"),
        held("gate set by hand", token, gate, "orange", size=14),
        upright("the query, above", query, 0, 1.25, yaxis="y"),
        _steps("c", log_gates.cumsum(0), "gray", "dot", "y2", "c ="),
        _steps("D", left, "purple", "solid", "y2", "what is left,", connectgaps=False),
        label("name of c", -0.4, 1.9, "<b>c</b>: log f summed", "gray", "middle right", yaxis="y2"),
        label("name of D", 11.4, 1.9, "<b>D</b>: c of query − c of key", "purple", "middle left", yaxis="y2"),
        upright("the query", query, LOW, 0.5, yaxis="y2"),
        _bars("weight of each key", weights, "green", "y3", "weight"),
        upright("the query, below", query, 0, 1.05, yaxis="y3"),
    ]
    layout = dict(height=480, showlegend=False, margin=dict(t=12), barmode="overlay")
    layout |= dict(
        xaxis=axis(-0.6, len(TOKENS) - 0.4, tickvals=tokens, ticktext=TOKENS, anchor="y3", tickangle=0),
        yaxis=axis(0, 1.25, "gate f", domain=[0.8, 1], tickvals=[0, 1]),
        yaxis2=axis(LOW, 2.8, "logits", domain=[0.34, 0.74], tickvals=[0, -3, -6]),
        yaxis3=axis(0, 1.05, "weight", domain=[0, 0.29], tickvals=[0, 0.5, 1]),
    )
    period = TOKENS.index(".")
    first, rest = weights[FIRST].sum().item(), weights[period + 1 :].sum().item()
    return dict(data=data, layout=layout), {"first": first, "period": weights[period].item(), "rest": rest}


def name_of(token):
    """A token and where it stands."""
    return f"{token}: {TOKENS[token]}"


gates = explorable(
    _gates,
    id="fox.gates",
    title="Gates by hand",
    alt="Twelve tokens, “Ann is in Ulm. Bob is in Rio. Bob is”, in three drawings. Above, the gate of "
    "each token as a bar between 0 and 1. A diamond stands on the one that is set by hand; drag it up or down, or "
    "to another token. In the middle, the sum c of log f as a dotted staircase that falls, and "
    "for one query what is left of each key as a solid staircase that rises to 0 at the query, an upright line "
    "that can be dragged. Below, the softmax weights of keys of equal content. The readout says what the query "
    "gives to the first sentence, to its period, and to all after it.",
    readout="first sentence {first:.3f} · its period {period:.3f} · rest {rest:.3f}",
    handles={"gate set by hand": ("token", "gate")} | dict.fromkeys(QUERY_LINES, "query"),
    preset=slider(list(PRESETS), label="gates", default=ALL_OPEN),
    token=slider(range(len(TOKENS)), label="gate set by hand", default=8, format=name_of),
    gate=slider([0.05, 0.2, 0.5, 0.8, 1.0], label="its value f", default=0.2),
    query=slider(range(3, len(TOKENS)), label="query", default=11, format=name_of, play=True),
)


LENGTH = 24
LOWEST = -13.8  # the lower edge of the drawing of logits
OTHERS = (3, 7, 11, 19, 23)  # queries whose staircases stand behind
WIGGLE = torch.randn(LENGTH, generator=torch.Generator().manual_seed(3), dtype=torch.float64).tanh()


def _alibi(slope, uneven, query, *, decay=decay, bias=bias):
    log_gates = -slope * (1 + uneven * WIGGLE)
    keys = torch.arange(query + 1)
    left = decay(log_gates[: query + 1], 1)[0]
    curve = bias(torch.tensor([query]), keys, torch.tensor([slope], dtype=torch.float64)).flatten()
    rows = (decay(log_gates[: other + 1], 1)[0].tolist() for other in OTHERS)
    others = [point for row in rows for point in (*enumerate(row), (math.nan, math.nan))]  # a gap after each row
    behind = dict(line=dict(shape="hvh"), yaxis="y2", opacity=0.55, connectgaps=False)
    broad = dict(yaxis="y2", marker=dict(symbol="circle", size=9), opacity=0.45)
    names = dict(place="middle left", yaxis="y2")
    data = [
        _bars("gates", log_gates.exp(), "gray", "y", "gate"),
        label("name of the gates", LENGTH / 2 - 0.5, 1.2, "gate f of each token", "gray", "middle center"),
        line("other queries", *zip(*others), "gray", 1.5, **behind),
        path("ALiBi", keys, curve, "orange", 7, hover="key %{x}: ALiBi's bias %{y:.2f}", **broad),
        _steps("FoX", left, "purple", "solid", "y2", "FoX's decay"),
        upright("the query", query, LOWEST, 0.5, yaxis="y2"),
        label("name of FoX", LENGTH - 0.6, -9.9, "<b>FoX</b>", "purple", **names),
        label("name of ALiBi", LENGTH - 0.6, -11.4, "<b>ALiBi</b>", "orange", **names),
        label("name of others", LENGTH - 0.6, -12.9, "other queries", "gray", **names),
    ]
    layout = dict(height=450, showlegend=False, margin=dict(t=12), barmode="overlay")
    layout |= dict(
        xaxis=axis(-0.6, LENGTH - 0.4, "token", tickvals=[0, 4, 8, 12, 16, 20], anchor="y2"),
        yaxis=axis(0, 1.35, domain=[0.8, 1], tickvals=[0, 1]),
        yaxis2=axis(LOWEST, 0.7, "logits", domain=[0, 0.77], tickvals=[0, -4, -8, -12]),
    )
    off = (left - curve).abs().max().item()
    words = "the same logits" if off < 1e-9 else f"{off:.2f} logits apart"
    return dict(data=data, layout=layout), {"gate": math.exp(-slope), "words": words}


alibi = explorable(
    _alibi,
    id="fox.alibi",
    title="The constant gate",
    alt="Above, the gates of 24 tokens as bars. Below, FoX's decay for one query as a staircase, c of the query less "
    "c of the key, over a broad pale line, ALiBi's bias, minus slope times distance. Thin gray staircases are "
    "those of other queries. The query is an upright line that can be dragged. With even gates the staircase "
    "lies on ALiBi's line, and those of other queries are the same staircase, moved along; with uneven ones each "
    "step stays at its token, and the staircase leaves the line.",
    readout="e⁻ᵐ = {gate:.4f} · {words}",
    handles={"the query": "query"},
    slope=slider([0.5, 0.25, 0.125, 0.0625], label="slope m", default=0.5, format=lambda m: f"1/{1 / m:.0f}"),
    uneven=slider([0.0, 0.25, 0.5, 1.0], label="uneven by", default=0.0),
    query=slider(range(3, LENGTH), label="query i", default=15, play=True),
)


def _trained(layer, head, query):
    results = load_results("fox_gates")
    text = results["passage"]
    log_gates = torch.tensor(results["passage_gates"], dtype=torch.float64)[layer - 1, head - 1]
    left, _ = weights_of(log_gates, query)
    tightest = 1 + int(log_gates[1 : query + 1].argmin())  # the first gate closes on nothing
    f = log_gates.exp()
    blank = [n for n, character in enumerate(text) if character.isspace()]
    lowest = 1.03 * log_gates[1:].sum().item()  # the same for every query of a head
    over = dict(cliponaxis=False, showlegend=True, hover="space at %{x:d}: gate %{y:.3f}")
    data = [
        _bars("gate of each character", f, "gray", "y", "gate")
        | dict(hovertemplate="character %{x:d}: gate %{y:.3f}<extra></extra>"),
        dots("space or line end", blank, f[blank], "orange", 9, "diamond", **over),
        upright("the query", query, 0, 1.05, yaxis="y"),
        _steps("D, left for the query", left, "purple", "solid", "y2", "what is left,", connectgaps=False)
        | dict(showlegend=False, hovertemplate="character %{x:d}: what is left, %{y:.2f}<extra></extra>"),
        upright("the query, below", query, lowest, -0.03 * lowest, yaxis="y2"),
    ]
    layout = dict(height=450, showlegend=True, barmode="overlay")
    layout |= dict(
        shapes=word_bands(text),
        xaxis=axis(-1, len(text), anchor="y2", **word_ticks(text)),
        yaxis=axis(-0.03, 1.05, "gate f", domain=[0.56, 1], tickvals=[0, 0.5, 1]),
        yaxis2=axis(lowest, -0.03 * lowest, "D, logits", domain=[0, 0.48], nticks=5),
    )
    near = int((left[: query + 1] >= math.log(0.1)).sum())
    kept = "1 character keeps" if near == 1 else f"{near} characters keep"
    return dict(data=data, layout=layout), {"tightest": tightest, "gate": f[tightest].item(), "near": kept}


trained = explorable(
    _trained,
    id="fox.trained",
    title="Trained gates on a line of text",
    alt="A line of held-out text, one bar a character, with diamonds at spaces and ends of lines. Above, the trained "
    "forget gate of each character in one head: low bars are doors that close on what stands before. Below, the "
    "staircase that they leave for one query, an upright line that can be dragged: it falls to the left, by a "
    "large step at each door. The readout names the tightest door up to the query, and says of how many "
    "characters a tenth or more is left.",
    readout="tightest door f {gate:.4f} · at character {tightest} · {near} 10% or more",
    handles={"the query": "query", "the query, below": "query"},
    layer=slider([1, 2, 3], label="layer", default=3),
    head=slider([1, 2, 3, 4], label="head"),
    query=slider([*range(2, 62, 4), 62], label="query", default=62, play=True),
)
