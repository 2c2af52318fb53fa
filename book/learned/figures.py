r"""Explorables of the chapter Learned positions: resizing, likeness of rows, the cliff at the table's end."""

import math

import numpy as np
import torch

from posenc import learned, sinusoidal
from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, held, label, level, line, path, upright

RESULTS = load_results("learned_table")
ROWS = torch.tensor(RESULTS["rows"], dtype=torch.float64)  # the trained ones, [seeds, L, C]
LENGTH, DIM = ROWS.shape[1:]
LANE = 41  # the one that is drawn
KEPT = "kept"
CLASS = 1.5  # the class row stands apart, so that one sees where it goes
NEAR, LOW, HIGH = 8, 0.15, 1.75  # what is magnified: rows up to this one, values between these two
SHIFTS = RESULTS["shifts"]
WINDOW, TARGETS = LENGTH // 2, LENGTH // 4  # characters whose ids are moved, and how many of them count


def _resizing(length, prefix, *, resize=learned.resize):
    old = torch.cat((torch.full((1, DIM), CLASS, dtype=torch.float64), ROWS[0]))  # a class row, then positions 0 to L-1
    kept, new = (1 if prefix == KEPT else 0), torch.arange(length)
    lane = resize(old, 1 + length, prefix=kept)[1:, LANE]
    start = 0 if kept else length / LENGTH - 1  # where old row 0 lies in the new table
    at = [-1, *torch.linspace(start, length - 1, LENGTH, dtype=torch.float64).tolist()]
    spoiled = new < start - 1e-9
    count, reads = int(spoiled.sum()), "new row %{x}: %{y:.2f}"
    words = f"✕ <b>{count} spoiled</b>" if count else ""
    few, end, inset = new < NEAR + 1, sum(place <= NEAR + 1 for place in at) + 1, dict(panel=2)
    rings = dict(size=9, symbol="circle-open")
    data = [
        path("old rows", at, old[:, LANE], "gray", 1, marker=rings),
        dots("new rows", new[~spoiled], lane[~spoiled], "blue", 6 if length <= 2 * LENGTH else 3.5, hover=reads),
        dots("spoiled", new[spoiled], lane[spoiled], "red", 10, "x", hover=reads),
        dots("class row", [-1], [CLASS], "red", 14, "star"),
        path("old rows, near", at[:end], old[:end, LANE], "gray", 1, marker=rings | dict(size=11), **inset),
        dots("new rows, near", new[few & ~spoiled], lane[few & ~spoiled], "blue", 6, hover=reads, **inset),
        dots("spoiled, near", new[spoiled], lane[spoiled], "red", 10, "x", hover=reads, **inset),
        dots("class row, near", [-1], [CLASS], "red", 14, "star", **inset),
        label("class row, in words", -0.2, CLASS, "the class row", "red", "middle right", **inset),
        label("what is spoiled", 1.2, CLASS - 0.3, words, "red", "middle right", **inset),
        label("old row 0, in words", start, old[1, LANE].item() - 0.1, "old row 0", "gray", "bottom right", **inset),
        label("old", 0, -0.85, "○ old rows", "gray", "middle right"),
        label("new", 50, -0.85, "● new rows", "blue", "middle right"),
        label("new length, in words", length - 1, -0.42, f"<b>{length} rows</b>", "ink", "bottom center"),
        held("end of the table", length - 1, lane[-1].item()),
    ]
    frame = dict(type="rect", line=dict(color="gray", width=1))
    around = frame | dict(x0=-3, x1=NEAR + 0.5, y0=LOW, y1=HIGH)
    magnified = frame | dict(x0=-1.7, x1=NEAR + 0.5, y0=LOW, y1=HIGH, xref="x2", yref="y2")
    layout = dict(height=460, showlegend=False, margin=dict(t=10), shapes=[around, magnified])
    layout |= dict(
        xaxis2=axis(-1.7, NEAR + 0.5, domain=[0.4, 1], anchor="y2", tickvals=[0, 4, NEAR], zeroline=False),
        yaxis2=axis(LOW, HIGH, domain=[0.63, 1], anchor="x2", visible=False),
        xaxis=axis(-5, 4.5 * LENGTH, "row of the new table", zeroline=False, showgrid=False, dtick=32),
        yaxis=axis(-1.05, 2.4, "value of one lane", tickvals=[-1, 0, 1]),
    )
    return dict(data=data, layout=layout), {"step": 1 / (at[-1] - at[-2]), "moved": abs(lane[0] - old[1, LANE]).item()}


resizing = explorable(
    _resizing,
    title="Resizing a trained table",
    alt="One lane of a trained table: open gray dots for its old rows, with a line through them; blue dots for the new "
    "rows, which lie on that line. The diamond at its end, the new length, can be dragged, and the line stretches with "
    "it. A star is the class row, above; stretched with the rest, it pulls the new rows next to it (red crosses) "
    "onto the line between itself and position 0. An inset at the upper right magnifies these rows and counts them.",
    readout="a step is {step:.2f} of an old one · row 0 moves {moved:.2f}",
    handles={"end of the table": "length"},
    length=slider(range(LENGTH // 2, 4 * LENGTH + 1, 4), label="new length", default=3 * LENGTH),
    prefix=slider((KEPT, "stretched"), label="class row", default="stretched"),
)


def cosines(table):
    """The cosine of every two rows, [N, N]."""
    unit = table / table.norm(dim=-1, keepdim=True)
    return unit @ unit.T


def _likeness(i):
    tables = ROWS[0], sinusoidal.table(torch.arange(LENGTH, dtype=torch.float64), DIM)
    own, waves = (cosines(table - table.mean(0))[i] for table in tables)
    rows, hover = np.arange(LENGTH), "row %{x}: cosine %{y:.2f}"
    large, ticks = dict(size=[9 if c > 0.5 else 4 for c in own], opacity=1), [-1, -0.5, 0, 0.5, 1]
    data = [
        level("alike", 0.5, -1, LENGTH, "gray", 1, "dot"),
        line("sinusoid", rows, waves, "orange", 3, "dash", hover=f"sinusoid, {hover}"),
        path("learned", rows, own, "blue", 2, hover=f"learned, {hover}", marker=large),
        held("row i", i, 1),
        label("row i, in words", i, 1.08, f"row <b>{i}</b>", "ink", cliponaxis=False),
        label("name of the learned", -0.5, -1.2, "● learned, large: above ½", "blue", "middle right"),
        label("name of the sinusoid", LENGTH - 0.5, -1.2, "– – sinusoid", "orange", "middle left"),
    ]
    layout = dict(height=400, showlegend=False, margin=dict(t=10))
    layout |= dict(
        xaxis=axis(-1.5, LENGTH + 0.5, "row of the table"),
        yaxis=axis(-1.35, 1.35, "cosine with row i", tickvals=ticks, ticktext=["−1", "−½", "0", "½", "1"]),
    )
    return dict(data=data, layout=layout), {"own": int((own > 0.5).sum()), "waves": int((waves > 0.5).sum())}


likeness = explorable(
    _likeness,
    title="What the table learns",
    alt="How much each row of a table is like row i: the cosine, the mean row taken away. A diamond at the top of both "
    "curves is row i, and can be dragged. The sinusoid, dashed, has the same narrow peak with waves around it wherever "
    "row i stands. The learned curve has large dots where rows are alike: most of the half that row i is in, but "
    "few, a narrow peak, from a row in the middle.",
    readout="rows above ½: learned {own} · sinusoid {waves}",
    handles={"row i": "i"},
    i=slider(range(LENGTH), label="row i", default=15, play=True),
)


def untrained(shift):
    """How many of the ids that count, the last TARGETS of the moved window, have rows that training never reached."""
    return min(TARGETS, max(0, shift + WINDOW - LENGTH))


def _cliff(shift):
    table, sinusoid = (np.mean([seed[name] for seed in RESULTS["moved"]], 0) for name in ("learned", "sinusoidal"))
    here, last, right = SHIFTS.index(shift), shift + WINDOW - 1, SHIFTS[-1] + WINDOW
    norms, low, top = np.mean(RESULTS["norms"], 0)[:right], min(table.min(), sinusoid.min()), table.max()
    loss, rows, high = "first id %{x}: loss %{y:.2f}", np.arange(right), float(norms.max()) * 1.25
    lower, shade = dict(panel=2), dict(fill="toself", fillcolor="rgba(107, 114, 128, 0.25)")
    fresh, tall = max(shift, LENGTH) if untrained(shift) else math.nan, [0.72 * high * up for up in (1, 0, 0, 1, 1)]
    hatched = dict(fill="toself", fillpattern=dict(shape="/", size=6), fillcolor=COLORS["gray"])
    box, new = ([left - 0.5, left - 0.5, last + 0.5, last + 0.5, left - 0.5] for left in (shift, fresh))
    data = [
        path("learned table", SHIFTS, table, "blue", 3, hover=f"learned table, {loss}", marker=dict(size=5)),
        line("sinusoid", SHIFTS, sinusoid, "orange", 2, "dash", hover=f"sinusoid, {loss}"),
        label("name of the learned", SHIFTS[table.argmax()] - 4, top, "learned table", "blue", "middle left"),
        label("name of the sinusoid", LENGTH + 2, sinusoid.max(), "sinusoid", "orange", "middle right"),
        line("from the first id", [shift] * 2, [low - 1, table[here]], "ink", 1, "dot"),
        held("loss of the learned", shift, table[here], "blue"),
        held("loss of the sinusoid", shift, sinusoid[here], "orange", "circle", 11),
        bars("rows", rows, norms, "blue", width=0.8, hover="row %{x}: length %{y:.2f}", **lower),
        line("ids in use", box, tall, "ink", 2, **lower, **shade),
        line("never trained", new, tall, "ink", 0, **lower, **hatched),
        label("name of the ids", shift + WINDOW / 2, 0.8 * high, "ids in use", "ink", "middle center", 11, **lower),
        upright("first id", shift - 0.5, 0, 0.97 * high, "ink", **lower),
    ]
    layout = dict(height=460, showlegend=False, margin=dict(t=10))
    layout |= dict(
        xaxis=axis(-3, right, "first id", anchor="y"),
        yaxis=axis(low - 0.3, top + 0.3, "loss (nats)", domain=[0.54, 1]),
        xaxis2=axis(-3, right, "row of the table (hatched: never trained)", anchor="y2"),
        yaxis2=axis(0, high, "row's length", domain=[0, 0.38]),
    )
    said = {"learned": float(table[here]), "sinusoid": float(sinusoid[here])}
    return dict(data=data, layout=layout), said | {"untrained": untrained(shift), "targets": TARGETS}


cliff = explorable(
    _cliff,
    title="The cliff at the table's end",
    alt="Above, loss against the first id of the same characters: a solid line for the learned table, a dashed one for "
    "the sinusoid, with a diamond and a circle at the chosen id. Below, a bar for the length of each row of the table: "
    "long up to the training length, then next to nothing. A box, which can be dragged by its first line, shows "
    "the ids in use, hatched where rows were never trained. As it slides off the long rows, both losses rise.",
    readout="untrained rows {untrained} of the last {targets} · table {learned:.2f} · sinusoid {sinusoid:.2f}",
    handles={"first id": "shift"},
    shift=slider(SHIFTS, label="first id", default=20, play=True),
)
