r"""The explorables of the chapter *FoX: a door that closes*."""

import math

import torch

from posenc.bias.fox import decay
from posenc.chapters.cope.figures import word_bands, word_ticks
from posenc.lab.experiments import load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, path, upright


def _trained(layer, head, query):
    results = load_results("fox_gates")
    text = results["passage"]
    log_gates = torch.tensor(results["passage_gates"], dtype=torch.float64)[layer - 1, head - 1]
    left = decay(log_gates)[query]
    left = left.masked_fill(left.isinf(), math.nan)  # after the query
    tightest = 1 + int(log_gates[1 : query + 1].argmin())  # the first gate closes on nothing
    f = log_gates.exp()
    blank = [n for n, character in enumerate(text) if character.isspace()]
    lowest = 1.03 * log_gates[1:].sum().item()  # the same for every query of a head
    over = dict(cliponaxis=False, showlegend=True, hover="space at %{x:d}: gate %{y:.3f}")
    keys, wide = list(range(len(text))), dict(yaxis="y", width=0.7, showlegend=False)
    stairs = dict(line=dict(shape="hvh"), marker=dict(size=5), yaxis="y2", connectgaps=False, showlegend=False)
    stairs |= dict(hover="character %{x:d}: what is left, %{y:.2f}")
    data = [
        bars("gate of each character", keys, f, "gray", hover="character %{x:d}: gate %{y:.3f}", **wide),
        dots("space or line end", blank, f[blank], "orange", 9, "diamond", **over),
        upright("the query", query, 0, 1.05, yaxis="y"),
        path("D, left for the query", keys, left, "purple", 2, "solid", **stairs),
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
