r"""The explorable of the chapter *CoPE: counting what matters*."""

import math
import re

import torch

from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line, signed

TRAINED_GATES = load_results("cope_gates")
# Of all heads the one whose gates on held-out text favor spaces over letters most.
WORDIEST = max(TRAINED_GATES["heads"], key=lambda head: head["by_kind"]["space"] - head["by_kind"]["letter"])


def name_of(head):
    return f"layer {head['layer'] + 1}, head {head['head'] + 1}"


def two_gates(text, sums, gates, letter, space, names, floor, panel=1, rows=2, across=(0.62, 1), right=1.6, **layout):
    r"""A trained head's staircase, `sums` of its gates over the text, and that of two gates to pull, each letter's and
    each space's, on x2 and y2, down to the floor. `names`: ends of the legend's two samples; words stand in rows."""
    words, keys = list(re.finditer(r"\S+|\n\n", text)), list(range(len(text)))
    mine = sums(torch.tensor([space if c.isspace() else letter for c in text], dtype=torch.float64))
    head, grip = sums(torch.tensor(gates, dtype=torch.float64)), dict(color="blue", panel=2)
    said = dict(mine=mine[0].item(), head=head[0].item(), apart=(mine - head).abs().mean().item())
    mine = mine.where(mine > floor, math.nan)
    start, beside = int(mine.isnan().sum()), dict(mode="lines+text", textposition="middle right")
    fill = "none" if start else "tonexty"  # between the two, where both are whole
    stairs, edge = dict(line=dict(shape="hvh")), dict(line=dict(color=COLORS["gray"], width=1.5))
    data = [
        line("trained head", keys, head, "orange", 6, **stairs),
        line("two gates", keys, mine, "blue", 2.5, **stairs, fill=fill, fillcolor="rgba(0, 114, 178, 0.12)"),
        line("its name", *names[0], "orange", 6, text=["", "\u00a0trained head"], panel=panel) | beside,
        line("their name", *names[1], "blue", 2.5, text=["", "\u00a0two gates"], panel=panel) | beside,
        label("cut", start, floor - 9, f"▼ to {signed(said['mine'])}" if start else "", "blue", "middle right"),
        bars("slots", [0, 1], [1, 1], "rgba(128, 128, 128, 0.12)", marker=edge, width=0.6, panel=2),
        bars("gates", [0, 1], [letter, space], width=0.6, opacity=0.35, **grip),
        held("gate of each letter", 0, letter, **grip),
        held("gate of each space", 1, space, **grip),
    ]
    strip = dict(type="rect", yref="paper", y0=0, y1=0.03, fillcolor="rgba(128, 128, 128, 0.5)", line=dict(width=0))
    ticks = dict(tickvals=[(w.start() + w.end() - 1) / 2 for w in words], tickangle=0, showgrid=False)
    ticks |= dict(ticktext=[n % rows * "<br>" + w.group().replace("\n\n", "¶") for n, w in enumerate(words)])
    gates = dict(tickvals=[0, 1], ticktext=[f"{letter:.2g}<br>letter", f"{space:.2g}<br>space"])
    layout |= dict(showlegend=False, barmode="overlay", margin=dict(t=12), xaxis=axis(-1, len(text), **ticks))
    layout |= dict(
        shapes=[strip | dict(x0=w.start() - 0.5, x1=w.end() - 0.5) for w in words if w.group() != "\n\n"],
        xaxis2=axis(-0.6, right, domain=list(across), anchor="y2", **gates),
    )
    return dict(data=data, layout=layout), said


def _trained(letter, space):
    return two_gates(
        TRAINED_GATES["line"],
        lambda gates: gates.flip(0).cumsum(0).flip(0),
        WORDIEST["gates"][-1],
        letter,
        space,
        (([2, 6], [77, 77]), ([2, 6], [71, 71])),
        floor=-1,
        height=420,
        yaxis=axis(-7, 80, "position p", showgrid=False),
        yaxis2=axis(-0.12, 1.1, "gate", domain=[0.5, 1], anchor="x2", tickvals=[0, 0.5, 1]),
    )


trained = explorable(
    _trained,
    title="Two gates for a trained head",
    alt="Over a line of real text the position of each key for the last query: two staircases that rise to the left, a "
    "trained head's, thick, and a thin one that counts with two gates, for letters or marks and spaces, two bars to "
    "pull. Letters shut, it steps at spaces alone; both at two fifths, the pale gap to the head's is all but gone.",
    readout="two gates count {mine:.0f} of 64 · the head {head:.0f} · {apart:.1f} apart on average",
    handles={"gate of each letter": "letter", "gate of each space": "space"},
    letter=slider([n / 20 for n in range(21)], label="letter"),
    space=slider([n / 20 for n in range(21)], label="space", default=1),
)
