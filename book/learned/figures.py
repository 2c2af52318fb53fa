r"""Explorables of the chapter Learned positions: resizing, likeness of rows, the cliff at the table's end."""

import numpy as np
import torch

from posenc import learned, sinusoidal
from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, held, label, line

RESULTS = load_results("learned_table")
ROWS = torch.tensor(RESULTS["rows"], dtype=torch.float64)  # the trained ones, [seeds, L, C]
LENGTH, DIM = ROWS.shape[1:]
KEPT = "kept"
SHOWN = 6  # as many of the new rows are drawn
SHIFTS = RESULTS["shifts"]
WINDOW, TARGETS = LENGTH // 2, LENGTH // 4  # characters whose ids are moved, and how many of them count


def _resizing(length, prefix, *, resize=learned.resize):
    old = torch.zeros(1 + LENGTH, 1, dtype=torch.float64)  # a class row, then positions 0 to L-1
    old[0] = 1  # so that a new row holds its share of the class row
    shares = resize(old, 1 + length, prefix=1 if prefix == KEPT else 0)[1:, 0]
    count, rows, most = int((shares > 1e-9).sum()), np.arange(SHOWN), 6 * LENGTH
    first, names, mid = shares[:SHOWN].numpy(), ["<b>class</b>", *map(str, rows)], "middle center"
    words = f"<b>{count} row{'s' if count > 1 else ''} spoiled</b>" if count else "<b>no row spoiled</b>"
    hatch, edge = dict(color=COLORS["red"], pattern=dict(shape="/")), dict(color=COLORS["gray"], width=1.5)
    at, place = (length + 9, "middle right") if length < 4 * LENGTH else (length - 9, "middle left")
    plain = dict(color="rgba(0, 114, 178, 0.16)", line=edge)
    data = [
        bars("table", [length], [0], orientation="h", width=0.7, marker=plain),
        bars("class row of the table", [-7], [0], orientation="h", width=0.7, marker=hatch),
        line("old end", [LENGTH] * 2, [-0.6, 0.6], "ink", 2, "dot"),
        label("old length", LENGTH, -1, f"before: {LENGTH} rows", "ink", "middle center", cliponaxis=False),
        label("grip", at, 0, f"drag: <b>{length} rows</b>", "ink", place, 14),
        held("end of the table", length, 0, size=17),
        bars("new rows", rows, [1] * SHOWN, marker=plain, width=0.86, panel=2),
        bars("class row", [-1], [1], marker=hatch, width=0.86, panel=2),
        bars("spoiled", rows, first, marker=hatch, width=0.86, hover="%{y:.0%} of the class row", panel=2),
        label("shares", rows, first + 0.08, [f"<b>{s:.0%}</b>" if s else " " for s in first], "red", mid, 15, panel=2),
        label("names of rows", [-1, *rows], [-0.1] * (1 + SHOWN), names, ["red"] + ["ink"] * SHOWN, mid, 14, panel=2),
        label("name of them all", (SHOWN - 1) / 2, -0.26, "the first new rows", "ink", mid, 14, panel=2),
        label("what is spoiled", (SHOWN - 1) / 2, 1.2, words, "red" if count else "blue", mid, 24, panel=2),
    ]  # fmt: skip
    layout = dict(height=420, showlegend=False, barmode="overlay", margin=dict(l=8, r=8, t=8, b=4))
    layout |= dict(
        xaxis=axis(-8, most + 4, visible=False),
        yaxis=axis(-1.5, 0.7, domain=[0.8, 1], visible=False),
        xaxis2=axis(-1.5, SHOWN - 0.5, anchor="y2", visible=False),
        yaxis2=axis(-0.34, 1.34, domain=[0, 0.78], anchor="x2", visible=False),
    )
    return dict(data=data, layout=layout)


resizing = explorable(
    _resizing,
    title="Resizing a trained table",
    alt="A strip, the table, with the class row hatched in front. Its end can be dragged: it has 32 rows and is "
    "given more. Below, the class row and the first six new rows, large, a tile each. The hatched part "
    "of a tile is the share of the class row in it, in percent. Words above count the rows that hold any of it.",
    see="Drag the end of the table, and watch its first rows.",
    handles={"end of the table": "length"},
    length=slider(range(LENGTH, 6 * LENGTH + 1, 4), label="new length", default=2 * LENGTH),
    prefix=slider((KEPT, "stretched"), label="class row", default="stretched"),
)


def cosines(table):
    """The cosine of every two rows, [N, N]."""
    unit = table / table.norm(dim=-1, keepdim=True)
    return unit @ unit.T


ALIKE = 0.5  # two rows are alike whose cosine is greater


def _likeness(i):
    tables = ROWS[0], sinusoidal.table(torch.arange(LENGTH, dtype=torch.float64), DIM)
    rows, edge, data = np.arange(LENGTH), LENGTH - 0.5, []
    for panel, (name, table) in enumerate(zip(("learned table", "sinusoid"), tables), 1):
        alike = (cosines(table - table.mean(0)) > ALIKE).numpy()
        low, count = alike.argmax(1), alike.sum(1)
        assert all(row[start : start + n].all() for row, start, n in zip(alike, low, count))  # so a bar is all of them
        x, place = (edge - 0.5, "middle left") if i < LENGTH / 2 else (0, "middle right")  # where there is room
        y = np.clip(i + (1.7 if x == 0 else -1.7), 2.6, LENGTH - 2.2)
        look, pale, dark = dict(orientation="h", panel=panel), "rgba(107, 114, 128, 0.12)", "rgba(107, 114, 128, 0.6)"
        own = dict(color=COLORS["orange"], line=dict(color=COLORS["ink"], width=2))
        data += [
            bars(f"frame of the {name}", [LENGTH] * LENGTH, rows, pale, base=-0.5, width=1, **look),
            bars(f"{name}", count, rows, "rgba(217, 119, 6, 0.45)", base=low - 0.5, width=0.8, **look),
            bars(f"row of the {name}", count[[i]], [i], base=low[[i]] - 0.5, width=1.5, marker=own, **look),
            bars(f"each itself, {name}", [1] * LENGTH, rows, dark, base=rows - 0.5, width=0.8, **look),
            bars(f"row itself, {name}", [1], [i], "ink", base=[i - 0.5], width=1, **look),
            label(f"likes of the {name}", x, y, f"like <b>{count[i] - 1} others</b>", "ink", place, 17,
                  halo=True, panel=panel),
            label(f"name of the {name}", edge, -2.6, f"<b>{name}</b>", "ink", "middle left", 15, panel=panel),
            held(f"grip, {name}", -2, i, "ink", "triangle-right", 17, panel=panel),
        ]  # fmt: skip
    data.append(label("row", -3.5, -2.6, f"drag: row {i}", "ink", "middle right", 14, cliponaxis=False))
    phone = dict(xaxis=dict(domain=[0, 1]), xaxis2=dict(domain=[0, 1]))
    phone |= dict(yaxis=dict(domain=[0.44, 1]), yaxis2=dict(domain=[0, 0.4]))
    layout = dict(height=440, showlegend=False, barmode="overlay", margin=dict(l=6, r=6, t=8, b=4))
    layout |= {
        f"xaxis{n}": axis(-3.5, LENGTH, domain=at, anchor=f"y{n}", visible=False)
        for n, at in (("", [0, 0.49]), (2, [0.51, 1]))
    }
    down = axis(LENGTH, -4.4, visible=False)
    return dict(data=data, layout=layout | dict(yaxis=down, yaxis2=down | dict(anchor="x2"), meta=dict(phone=phone)))


likeness = explorable(
    _likeness,
    title="What the table learns",
    alt="Two squares of 32 bars, a bar for each row, of the learned table and the sinusoid. A bar covers the rows "
    "that its row is like: those with a cosine above 0.5, the mean row taken away. Dark tiles are each row itself. "
    "One row can be dragged; its bar is outlined, and beside it stands how many others it is like. In the sinusoid "
    "all bars are short, a band along the diagonal. In the learned table they fill two blocks, short in the middle.",
    see="Drag a row: its bar covers the rows that it is like.",
    handles={"grip, sinusoid": "i", "grip, learned table": "i"},
    i=slider(range(LENGTH), label="row i", default=6, play=True),
)


def _cliff(shift):
    table, sinusoid = (np.mean([seed[name] for seed in RESULTS["moved"]], 0) for name in ("learned", "sinusoidal"))
    here, last, right = SHIFTS.index(shift), shift + WINDOW - 1, SHIFTS[-1] + WINDOW
    ends, new, edge = np.array(SHIFTS[: here + 1]) + WINDOW - 1, min(WINDOW, max(0, last + 1 - LENGTH)), LENGTH - 0.5
    under, known = min(max(shift + WINDOW / 2, 34), right - 34), min(max(edge, shift - 0.5), last + 0.5)
    side, past, half = last > 70, last >= LENGTH, (table[here] - sinusoid[here]) / 2
    at = (right - 0.5 if side else min(last + 2, LENGTH + 20)) if past else edge / 2  # of the losses, clear of the edge
    place, mid = f"middle {('left' if side else 'right') if past else 'center'}", max(sinusoid[here] + half, 2.1)
    off = np.copysign(max(0.21, abs(half) + 0.45 * (last >= LENGTH + WINDOW)), half)
    data = [
        line("learned table", ends, table[: here + 1], "blue", 5),
        line("sinusoid", ends, sinusoid[: here + 1], "orange", 4, "dot"),
        dots("end of the learned", [last], table[here : here + 1], "blue", 12),
        dots("end of the sinusoid", [last], sinusoid[here : here + 1], "orange", 12, "square"),
        line("trained loss", [edge, right], [table[0]] * 2, "rgba(107, 114, 128, 0.6)", 1),
        label("name of it", right - 0.5, table[0] - 0.22, f"when trained: {table[0]:.2f}", "gray", "middle left", 14),
        label("loss of the learned", at, mid + off, f"table <b>{table[here]:.2f}</b>", "blue", place, 17),
        label("loss of the sinusoid", at, mid - off, f"sinusoid <b>{sinusoid[here]:.2f}</b>", "orange", place, 17),
        line("trained ids", [shift - 0.5, known], [0.55, 0.55], "blue", 18),
        line("untrained ids", [known, last + 0.5], [0.55, 0.55], "red", 18, "3px,2px"),
        held("end of the text", last + 0.5, 0.55, "ink", "triangle-right", 15),
        label("grip", shift - 2 if side else last + 6, 0.55, "drag", "ink", f"middle {'left' if side else 'right'}"),
        label("what is new", under, -0.05, f"the text: <b>{new} of {WINDOW}</b> ids never trained", "red",
              "middle center", 15),
        label("name of the zones", [edge / 2, (edge + right) / 2], [5.2, 5.2], ["trained ids", "never trained"],
              ["blue", "red"], "middle center", 16),
    ]  # fmt: skip
    shade = dict(type="rect", x0=edge, x1=right, y0=1, y1=5.45, line=dict(width=0), layer="below")
    layout = dict(height=440, showlegend=False, margin=dict(l=10, r=10, t=12, b=4))
    layout |= dict(shapes=[shade | dict(fillcolor="rgba(192, 57, 43, 0.13)")])
    layout |= dict(xaxis=axis(-1, right, visible=False), yaxis=axis(-0.35, 5.45, visible=False))
    return dict(data=data, layout=layout)


cliff = explorable(
    _cliff,
    title="The cliff at the table's end",
    alt="Loss against the last id of a text, as far as the text has come: solid for the learned table, dotted for the "
    "sinusoid. The text is a block of ids below, whose end can be dragged; ids never trained are shaded, in the block "
    "dashed and counted. A thin line there is the loss when trained. With all of the block there both losses are far "
    "higher.",
    see="Drag the text to the right: what does its loss do in the shade?",
    handles={"end of the text": "shift"},
    shift=slider(SHIFTS, label="first id", default=20, play=True),
)
