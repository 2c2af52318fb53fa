r"""Explorables of the chapter Learned positions: resizing, likeness by offset, the cliff at the table's end."""

import math

import numpy as np
import torch

from posenc import learned, sinusoidal
from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, dots, held, label, line, number, path, upright

RESULTS = load_results("learned_table")
ROWS = torch.tensor(RESULTS["rows"], dtype=torch.float64)  # the trained ones, [seeds, L, C]
LENGTH, DIM = ROWS.shape[1:]
LANE = 41  # the one that is drawn
KEPT = "kept"
RULER = 2.0  # the height of the new rows' ruler
TICKS = 64  # its most ticks: they stay apart on a phone
CLASS = 1.5  # the class row stands apart, so that one sees where it goes
STEPS, SHIFTS = RESULTS["steps"], RESULTS["shifts"]
WINDOW, TARGETS = LENGTH // 2, LENGTH // 4  # characters whose ids are moved, and how many of them count


def _resizing(length, row, prefix, *, resize=learned.resize):
    old = torch.cat((torch.full((1, DIM), CLASS, dtype=torch.float64), ROWS[0]))  # a class row, then positions 0 to L-1
    kept = 1 if prefix == KEPT else 0
    new = resize(old, 1 + length, prefix=kept)[1:, LANE]
    first = 0 if kept else LENGTH / length - 1
    at = torch.linspace(first, LENGTH - 1, length, dtype=torch.float64)  # where each new position reads, in old rows
    here, every = min(row, length - 1), length // 4
    shown = [*range(0, length - 1, math.ceil(length / TICKS)), length - 1]
    spoiled = at < -1e-9
    left = min(math.floor(at[here].item()), LENGTH - 2)
    share = at[here].item() - left
    reads = "a new row that reads at %{x:.2f}: %{y:.2f}"
    count = int(spoiled.sum())
    words = f"✕ {count} row{'s' * (count > 1)} spoiled:<br>mixed with the class row" if count else ""
    red, blue = dict(color=COLORS["red"], size=13), dict(color=COLORS["blue"], size=11)
    star = dict(color=COLORS["red"], size=14, symbol="star")
    numbers = [str(n) if n % every == 0 or n == length - 1 else "" for n in shown]

    def numbered(place, font):
        return dict(type="scatter", mode="markers+text", hoverinfo="skip", textposition=place, textfont=font)

    over = dict(cliponaxis=False, **numbered("top center", blue))
    rings, grip = dict(size=9, symbol="circle-open"), dict(color="ink", size=[0, 11], symbol="diamond", opacity=1)
    tick = dict(symbol="line-ns-open", size=9, color=COLORS["blue"], line=dict(width=1))
    data = [
        path("old rows", np.arange(-1, LENGTH), old[:, LANE], "gray", 1, hover="old row %{x}: %{y:.2f}", marker=rings),
        dots("new rows", at[~spoiled], new[~spoiled], "blue", 6 if length <= 2 * LENGTH else 3.5, hover=reads),
        dots("spoiled", at[spoiled], new[spoiled], "red", 10, "x", hover=reads),
        dict(name="class row", x=[-1], y=[CLASS], text=["  class row"], marker=star, **numbered("middle right", red)),
        dict(name="ruler of new rows", x=at[shown], y=[RULER] * len(shown), text=numbers, marker=tick, **over),
        label("what is spoiled", 4.5, -1.02, words, "red", "middle right"),
        label("old", 14, -0.35, "○ old rows", "gray", "bottom right"),
        label("new", 14, -0.6, "● new rows", "blue", "bottom right"),
        path("this row", [at[here].item()] * 2, [RULER - 0.17, new[here].item()], "ink", 1, "dot", marker=grip),
    ]
    layout = dict(height=460, showlegend=False, margin=dict(t=10))
    layout |= dict(
        xaxis=axis(-2.6, LENGTH + 0.4, "row of the old table (−1: the class row)", zeroline=False),
        yaxis=axis(-1.3, RULER + 0.35, "value of one lane", tickvals=[-1, 0, 1]),
    )
    names = {number: "class row" if number < 0 else f"row {number}" for number in (left, left + 1)}
    mix = f"{1 - share:.2f} {names[left]} + {share:.2f} {names[left + 1]}"
    step, moved = (at[-1] - at[-2]).item(), abs((new[0] - old[1, LANE]).item())
    return dict(data=data, layout=layout), {"row": here, "mix": mix, "step": step, "moved": moved}


resizing = explorable(
    _resizing,
    title="Resizing a trained table",
    alt="One lane of a trained table: open gray dots for its old rows, with a line through them; blue dots for the new "
    "rows, which lie on that line, at the places where they read. The blue ruler above them counts the new rows. A "
    "diamond, which can be dragged, is one of them. A star is the class row, above them; stretched with the rest, it "
    "pulls new rows (red crosses, counted beside them) onto the line between itself and position 0.",
    readout="row {row} = {mix} · step {step:.3f} · row 0 moves {moved:.2f}",
    handles={"this row": "row"},
    length=slider([LENGTH * n // 4 for n in (1, 2, 3, 4, 6, 8, 12, 16)], label="new length", default=4 * LENGTH),
    row=slider(range(0, 4 * LENGTH, 3), label="new row", default=93, at_most="length"),
    prefix=slider((KEPT, "stretched"), label="class row", default="stretched"),
)


def cosines(table):
    """The cosine of every two rows, [N, N]."""
    unit = table / table.norm(dim=-1, keepdim=True)
    return unit @ unit.T


def by_offset(table):
    """The mean cosine of rows i and i + d over i, for d = 0 .. N-1."""
    alike = cosines(table)
    return torch.stack([alike.diagonal(d).mean() for d in range(len(table))])


SHOWN = 3 * LENGTH // 4  # offsets: the last ones are averages over few pairs
CENTERED, AS_THEY_ARE = "mean taken away", "as they are"


def _likeness(step, i, mean):
    def seen(table):
        return table - table.mean(0) if mean == CENTERED else table

    def curve(name, whose, y, *look, draw=line, **more):
        hover = f"{whose}, offset %{{x}}: cosine %{{y:.2f}}"
        return draw(name, np.arange(SHOWN), y[:SHOWN], *look, hover=hover, **more)

    def row(name, whose, table, *look, draw=line, **more):
        hover = f"{whose}, row %{{x}}: cosine %{{y:.2f}}"
        y = cosines(table)[i]
        return draw(name, np.arange(LENGTH), y, *look, hover=hover, panel=2, showlegend=False, **more)

    sinusoid = seen(sinusoidal.table(torch.arange(LENGTH, dtype=torch.float64), DIM))
    runs = RESULTS["centered" if mean == CENTERED else "raw"]
    by_seed = [run[STEPS.index(step)] for run in runs]
    others, quiet = RESULTS["seeds"][1:], dict(showlegend=False)
    marks, dashed = dict(draw=path, marker=dict(size=5)), ("orange", 3, "dash")
    data = [
        curve("learned, at step 0", "before training", runs[0][0], "gray", 2, "dot", **quiet),
        label("name of step 0", 2, -0.1, "at step 0", "gray", "bottom right"),
        curve("sinusoid", "sinusoid", by_offset(sinusoid), *dashed),
        curve("learned", "learned", by_seed[0], "blue", 2, **marks),
        held("training", 1, by_seed[0][1], "blue"),
        *(curve(f"learned, seed {n}", "learned, another seed", by_seed[n], "blue", 1, **quiet) for n in others),
        row("sinusoid from i", "sinusoid", sinusoid, *dashed),
        row("learned from i", "learned", seen(ROWS[0]), "blue", 2, **marks),
        upright("row i", i, -1.1, 1.1, "ink", 2, "dot", xaxis="x2", yaxis="y2"),
    ]
    layout = dict(
        height=520,
        xaxis=axis(-1, SHOWN, "offset d", anchor="y"),
        yaxis=axis(-1.1, 1.1, "cosine", domain=[0.58, 1]),
        xaxis2=axis(-1, LENGTH, "row, at the last step", anchor="y2"),
        yaxis2=axis(-1.1, 1.1, "cosine with i", domain=[0, 0.4]),
    )
    readouts = {"one": number(by_seed[0][1]), "eight": number(by_seed[0][8]), "sin": number(by_offset(sinusoid)[1])}
    return dict(data=data, layout=layout), readouts


likeness = explorable(
    _likeness,
    title="What the table learns",
    alt="Above, the mean cosine of two rows against their offset: an orange dashed curve for the sinusoid, blue dots "
    "for a learned table and thin lines for other seeds. They start near zero (dotted) and end above the sinusoid "
    "at small offsets and below it at large ones: pull the diamond on the learned curve down, and training is undone. "
    "Below, the cosine of one row, which can be dragged, with all others, after the last step: the sinusoid peaks at "
    "the row with symmetric waves, the learned one falls without waves, and slowly near the ends.",
    readout="offset 1: {one} · offset 8: {eight} · sinusoid at 1: {sin}",
    handles={"training": "step", "row i": "i"},
    step=slider(STEPS, label="training steps", default=STEPS[-1], play=True),
    i=slider(range(0, LENGTH, 3), label="row i", default=15),
    mean=slider((CENTERED, AS_THEY_ARE), label="rows"),
)


def untrained(shift):
    """How many of the ids that count, the last TARGETS of the moved window, have rows that training never reached."""
    return min(TARGETS, max(0, shift + WINDOW - LENGTH))


def _cliff(shift):
    table, sinusoid = (np.mean([seed[name] for seed in RESULTS["moved"]], 0) for name in ("learned", "sinusoidal"))
    here, last, right = SHIFTS.index(shift), shift + WINDOW - 1, SHIFTS[-1] + WINDOW
    norms, start = (np.mean(RESULTS[name], 0)[:right] for name in ("norms", "norms_start"))
    low, top = float(min(table.min(), sinusoid.min())), float(max(table.max(), sinusoid.max()))
    pad = 0.08 * (top - low)
    loss, long = "first id %{x}: loss %{y:.2f}", "length %{y:.2f}"
    lower, shade = dict(panel=2, showlegend=False), dict(fill="toself", fillcolor="rgba(107, 114, 128, 0.25)")
    rows, high = np.arange(right), float(norms.max()) * 1.1
    fresh, tall = max(shift, LENGTH) if last >= LENGTH else math.nan, [0.8 * high, 0, 0, 0.8 * high, 0.8 * high]
    hatched = dict(fill="toself", fillpattern=dict(shape="/", size=6), fillcolor=COLORS["gray"], hover=None)
    data = [
        path("learned table", SHIFTS, table, "blue", 3, hover=f"learned table, {loss}", marker=dict(size=5)),
        line("sinusoid", SHIFTS, sinusoid, "orange", 2, "dash", hover=f"sinusoid, {loss}"),
        dots("here", [shift] * 2, [sinusoid[here], table[here]], "ink", 11, "diamond", showlegend=False),
        line("rows, trained", rows, norms, "blue", 2, hover=f"row %{{x}}: {long}", **lower),
        line("rows at the start", rows, start, "gray", 1, "dot", hover=f"row %{{x}} at the start: {long}", **lower),
        line("ids in use", [shift, shift, last, last, shift], tall, "ink", 2, **lower, **shade),
        line("never trained", [fresh, fresh, last, last, fresh], tall, "ink", 0, **lower, **hatched),
        upright("first id", shift, 0, 0.97 * high, "ink", panel=2),
    ]
    layout = dict(
        height=500,
        xaxis=axis(-3, right, "first id", anchor="y"),
        yaxis=axis(low - pad, top + pad, "loss (nats)", domain=[0.58, 1]),
        xaxis2=axis(
            -3,
            right,
            "row (box: the ids in use, hatched: untrained,<br>dotted line: lengths at the start)",
            anchor="y2",
        ),
        yaxis2=axis(-0.15, high, "row's length", domain=[0, 0.38]),
    )
    said = {"learned": float(table[here]), "sinusoid": float(sinusoid[here])}
    return dict(data=data, layout=layout), said | {"untrained": untrained(shift), "targets": TARGETS}


cliff = explorable(
    _cliff,
    title="The cliff at the table's end",
    alt="Above, loss against the first id of the same characters: a solid line for the learned table, a dashed one for "
    "the sinusoid, a diamond on each at the chosen id. Below, the length of each row of the table: long up to the "
    "training length, then a fall to rows shorter than they started (dotted); a box, which can "
    "be dragged by its first line, shows the ids in use, hatched where rows were never trained.",
    readout="untrained rows {untrained} of the last {targets} · table {learned:.2f} · sinusoid {sinusoid:.2f}",
    handles={"first id": "shift"},
    shift=slider(SHIFTS, label="first id", default=20, play=True),
)
