r"""The explorables of the chapter *CoPE: counting what matters*."""

import re

import torch

from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, label, line, upright

TRAINED_GATES = load_results("cope_gates")


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
