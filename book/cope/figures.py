r"""The explorables of the chapter *CoPE: counting what matters*."""

import math
import re

import torch

from posenc.lab.experiments import load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line, signed

TRAINED_GATES = load_results("cope_gates")
# Of all heads the one whose gates on held-out text favor spaces over letters most.
WORDIEST = max(TRAINED_GATES["heads"], key=lambda head: head["by_kind"]["space"] - head["by_kind"]["letter"])


def name_of(head):
    return f"layer {head['layer'] + 1}, head {head['head'] + 1}"


def two_gates(text, sums, gates, letter, space, names, floor, panel=1, rows=2, across=(0.7, 1), right=1.6, **layout):
    r"""A trained head's staircase, `sums` of its gates over the text, and that of two gates to pull, each letter's and
    each space's, on x2 and y2, down to the floor. `names`: ends of the legend's two samples; words stand in rows."""
    words, keys = list(re.finditer(r"\S+|\n\n", text)), list(range(len(text)))
    mine = sums(torch.tensor([space if c.isspace() else letter for c in text], dtype=torch.float64))
    head, grip = sums(torch.tensor(gates, dtype=torch.float64)), dict(color="blue", panel=2)
    said = dict(mine=mine[0].item(), head=head[0].item(), apart=(mine - head).abs().mean().item())
    mine = mine.where(mine > floor, math.nan)
    start, beside = int(mine.isnan().sum()), dict(mode="lines+text", textposition="middle right")
    data = [
        line("trained head", keys, head, "orange", 6, line=dict(shape="hvh")),
        line("two gates", keys, mine, "blue", 2.5, line=dict(shape="hvh")),
        line("its name", *names[0], "orange", 6, text=["", "\u00a0trained head"], panel=panel) | beside,
        line("their name", *names[1], "blue", 2.5, text=["", "\u00a0two gates"], panel=panel) | beside,
        label("cut", start, floor - 9, f"▼ to {signed(said['mine'])}" if start else "", "blue", "middle right"),
        bars("gates", [0, 1], [letter, space], width=0.6, opacity=0.35, **grip),
        held("gate of each letter", 0, letter, **grip),
        held("gate of each space", 1, space, **grip),
    ]
    strip = dict(type="rect", yref="paper", y0=0, y1=0.03, fillcolor="rgba(128, 128, 128, 0.5)", line=dict(width=0))
    ticks = dict(tickvals=[(w.start() + w.end() - 1) / 2 for w in words], tickangle=0, showgrid=False)
    ticks |= dict(ticktext=[n % rows * "<br>" + w.group().replace("\n\n", "¶") for n, w in enumerate(words)])
    layout |= dict(
        showlegend=False,
        margin=dict(t=12),
        shapes=[strip | dict(x0=w.start() - 0.5, x1=w.end() - 0.5) for w in words if w.group() != "\n\n"],
        xaxis=axis(-1, len(text), **ticks),
        xaxis2=axis(-0.6, right, domain=list(across), anchor="y2", tickvals=[0, 1], ticktext=["letter", "space"]),
    )
    return dict(data=data, layout=layout), said


def _trained(letter, space):
    return two_gates(
        TRAINED_GATES["line"],
        lambda gates: gates.flip(0).cumsum(0).flip(0),
        WORDIEST["gates"][-1],
        letter,
        space,
        (([12, 16], [65, 65]), ([12, 16], [60, 60])),
        floor=-1,
        height=420,
        yaxis=axis(-7, 68, "position p", showgrid=False),
        yaxis2=axis(-0.12, 1.1, "gate", domain=[0.5, 1], anchor="x2", tickvals=[0, 0.5, 1]),
    )


trained = explorable(
    _trained,
    title="Two gates for a trained head",
    alt="A line of real text, and over it the position of each key for the last query: two staircases that rise to the "
    "left. The thick one is a trained head's. The thin one counts with two gates, one for each letter or mark and "
    "one for each space, two bars to pull. With the letters shut it steps at spaces alone; with both at two fifths "
    "it is straight, and close to the head's.",
    readout="two gates count {mine:.0f} of 64 · the head {head:.0f} · {apart:.1f} apart on average",
    handles={"gate of each letter": "letter", "gate of each space": "space"},
    letter=slider([n / 20 for n in range(21)], label="letter"),
    space=slider([n / 20 for n in range(21)], label="space", default=1),
)
