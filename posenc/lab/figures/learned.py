r"""Explorables of the chapter Learned positions: resizing, likeness by offset, the cliff at the table's end."""

import numpy as np
import torch

from posenc import learned, sinusoidal
from posenc.lab.experiments import load_results, mean_and_spread
from posenc.lab.explore import COLORS, explorable, slider

RESULTS = load_results("learned_table")
ROWS = torch.tensor(RESULTS["rows"], dtype=torch.float64)  # the trained ones, [seeds, L, C]
LENGTH, DIM = ROWS.shape[1:]
LANES = tuple(range(2, DIM, DIM // 6))
CLASS = 1.5  # the class row stands apart, so that one sees where it goes
STEPS, SHIFTS = RESULTS["steps"], RESULTS["shifts"]
WINDOW, TARGETS = LENGTH // 2, LENGTH // 4  # characters whose ids are moved, and how many of them count


def _resizing(length, lane, prefix, *, resize=learned.resize):
    old = torch.cat((torch.full((1, DIM), CLASS, dtype=torch.float64), ROWS[0]))  # a class row, then positions 0 to L-1
    kept = 1 if prefix == "kept" else 0
    new = resize(old, 1 + length, prefix=kept)[:, lane]
    at = torch.linspace(0, len(old) - 1 - kept, 1 + length - kept, dtype=torch.float64) + kept
    at = torch.cat((torch.zeros(kept, dtype=torch.float64), at))  # where each new row reads, in old rows
    data = [
        dict(
            type="scatter",
            name="old rows",
            x=torch.arange(-1, len(old) - 1),
            y=old[:, lane],
            mode="lines+markers",
            line=dict(color=COLORS["gray"], width=1),
            marker=dict(size=5, symbol="circle-open"),
        ),
        dict(
            type="scatter",
            name="new rows",
            x=torch.arange(-1, length),
            y=new,
            mode="lines+markers",
            line=dict(color=COLORS["blue"], width=1),
            marker=dict(size=5),
        ),
        dict(
            type="scatter",
            name="reads at",
            x=torch.arange(-1, length),
            y=at - 1,
            mode="lines+markers",
            yaxis="y2",
            line=dict(color=COLORS["green"], width=1),
            marker=dict(size=4),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="class row",
            x=[-1],
            y=new[:1],
            mode="markers",
            marker=dict(color=COLORS["red"], size=12, symbol="star"),
        ),
    ]
    layout = dict(
        height=480,
        xaxis=dict(range=[-LENGTH / 11, 4.1 * LENGTH], title=dict(text="row (−1: the class row)"), anchor="y2"),
        yaxis=dict(range=[-1.3, 1.7], domain=[0.48, 1], title=dict(text="value of the lane")),
        yaxis2=dict(range=[-4, LENGTH + 2], domain=[0, 0.4], title=dict(text="reads old row")),
    )
    first = (new[1] - old[1, lane]).item()
    return dict(data=data, layout=layout), {"step": (at[-1] - at[-2]).item(), "first": f"{abs(first):.2f}"}


resizing = explorable(
    _resizing,
    id="learned.resizing",
    title="Resizing a trained table",
    alt="Above, one lane of a trained table against the row: open gray dots for its old rows, blue dots for the new "
    "ones, the same curve pulled out to the new length; a star for the class row, far above. Below, which old row each "
    "new one reads: a straight line from the first to the last.",
    readout="one step of the new table is {step:.3f} of an old one; position 0 moves by {first}",
    depends={
        "old rows": ["lane"],
        "reads at": ["length", "prefix"],
        "new rows": ["length", "lane", "prefix"],
        "class row": ["lane", "prefix"],
        "readout.step": ["length", "prefix"],
        "readout.first": ["length", "lane", "prefix"],
    },
    length=slider(
        [LENGTH * n // 4 for n in (1, 2, 3, 4, 6, 8, 12, 16)], label="positions afterwards", default=2 * LENGTH
    ),
    lane=slider(LANES, label="lane", default=LANES[3]),
    prefix=slider(("kept", "stretched with the rest"), label="class row"),
)


def cosines(table):
    """The cosine of every two rows, [N, N]."""
    unit = table / table.norm(dim=-1, keepdim=True)
    return unit @ unit.T


def by_offset(table):
    """The mean cosine of rows p and p + d over p, for d = 0 .. N-1."""
    alike = cosines(table)
    return torch.stack([alike.diagonal(d).mean() for d in range(len(table))])


SHOWN = 3 * LENGTH // 4  # offsets: the last ones are averages over few pairs
CENTERED, AS_THEY_ARE = "mean row taken away", "as they are"


def _likeness(step, p, mean, seed):
    def seen(table):
        return table - table.mean(0) if mean == CENTERED else table

    sinusoid = seen(sinusoidal.table(torch.arange(LENGTH, dtype=torch.float64), DIM))
    kind = "centered" if mean == CENTERED else "raw"
    offsets = torch.arange(LENGTH)
    learned_rows = RESULTS[kind][seed][STEPS.index(step)]
    data = [
        dict(
            type="scatter",
            name="sinusoid",
            x=offsets[:SHOWN],
            y=by_offset(sinusoid)[:SHOWN],
            mode="lines",
            line=dict(color=COLORS["orange"], width=3, dash="dash"),
        ),
        dict(
            type="scatter",
            name="learned",
            x=offsets[:SHOWN],
            y=learned_rows[:SHOWN],
            mode="lines+markers",
            line=dict(color=COLORS["blue"], width=2),
            marker=dict(size=5),
        ),
        dict(
            type="scatter",
            name="sinusoid from p",
            x=offsets,
            y=cosines(sinusoid)[p],
            mode="lines",
            yaxis="y2",
            xaxis="x2",
            line=dict(color=COLORS["orange"], width=3, dash="dash"),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="learned from p",
            x=offsets,
            y=cosines(seen(ROWS[seed]))[p],
            mode="lines+markers",
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["blue"], width=2),
            marker=dict(size=5),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="row p",
            x=[p, p],
            y=[-1.1, 1.1],
            mode="lines",
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["ink"], width=1, dash="dot"),
            showlegend=False,
        ),
    ]
    layout = dict(
        height=560,
        xaxis=dict(range=[-1, SHOWN], title=dict(text="offset d"), anchor="y"),
        yaxis=dict(range=[-1.1, 1.1], domain=[0.58, 1], title=dict(text="mean cosine")),
        xaxis2=dict(range=[-1, LENGTH], title=dict(text="row"), anchor="y2"),
        yaxis2=dict(range=[-1.1, 1.1], domain=[0, 0.4], title=dict(text="cosine with row p")),
    )
    readouts = {"one": learned_rows[1], "eight": learned_rows[8], "sin": by_offset(sinusoid)[1].item()}
    return dict(data=data, layout=layout), readouts


likeness = explorable(
    _likeness,
    id="learned.likeness",
    title="What the table learns",
    alt="Above, the mean cosine of two rows against their offset: an orange dashed curve for the sinusoid, blue dots "
    "for the learned table, which start near zero and end above the sinusoid at small offsets and below it at large "
    "ones. Below, the cosine of one row with all "
    "others, after the last step: the sinusoid peaks at the row with symmetric waves, the learned one is ragged.",
    readout="learned rows: cosine {one:.2f} at offset 1, {eight:.2f} at offset 8; the sinusoid at offset 1: {sin:.2f}",
    depends={
        "sinusoid": ["mean"],
        "learned": ["step", "mean", "seed"],
        "sinusoid from p": ["p", "mean"],
        "learned from p": ["p", "mean", "seed"],
        "row p": ["p"],
        "readout.one": ["step", "mean", "seed"],
        "readout.eight": ["step", "mean", "seed"],
        "readout.sin": ["mean"],
    },
    step=slider(STEPS, label="training steps (above)", default=STEPS[-1]),
    p=slider(range(0, LENGTH, 3), label="row p (below)", default=30),
    mean=slider((CENTERED, AS_THEY_ARE), label="rows"),
    seed=slider(RESULTS["seeds"], label="seed"),
)


def untrained(shift):
    """How many of the ids that count, the last TARGETS of the moved window, have rows that training never reached."""
    return min(TARGETS, max(0, shift + WINDOW - LENGTH))


def _cliff(shift):
    curves = {name: [seed[name] for seed in RESULTS["moved"]] for name in ("learned", "sinusoidal")}
    mean = {name: np.array(curve).mean(0) for name, curve in curves.items()}
    place = SHIFTS.index(shift)
    norms = np.array(RESULTS["norms"]).mean(0)[: SHIFTS[-1] + WINDOW]
    start = np.array(RESULTS["norms_start"]).mean(0)[: SHIFTS[-1] + WINDOW]
    top = float(max(curve.max() for curve in mean.values()))
    low = float(min(curve.min() for curve in mean.values()))
    pad = 0.08 * (top - low)
    here = [shift, shift + WINDOW - 1]
    data = [
        dict(
            type="scatter",
            name="learned table",
            x=SHIFTS,
            y=mean["learned"],
            mode="lines+markers",
            line=dict(color=COLORS["blue"], width=3),
            marker=dict(size=5),
        ),
        dict(
            type="scatter",
            name="sinusoid",
            x=SHIFTS,
            y=mean["sinusoidal"],
            mode="lines",
            line=dict(color=COLORS["orange"], width=2, dash="dash"),
        ),
        dict(
            type="scatter",
            name="here",
            x=[shift, shift],
            y=[mean["learned"][place], mean["sinusoidal"][place]],
            mode="markers",
            marker=dict(color=COLORS["ink"], size=11, symbol="diamond-open"),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="rows, trained",
            x=np.arange(len(norms)),
            y=norms,
            mode="lines",
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["blue"], width=2),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="rows at the start",
            x=np.arange(len(norms)),
            y=start,
            mode="lines",
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["gray"], width=1, dash="dot"),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="ids in use",
            x=[here[0], *here, here[1]],
            y=[0.15, 0, 0, 0.15],
            mode="lines",
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["ink"], width=4),
            showlegend=False,
        ),
    ]
    right = SHIFTS[-1] + WINDOW
    layout = dict(
        height=500,
        xaxis=dict(range=[-3, right], title=dict(text="first id s"), anchor="y"),
        yaxis=dict(range=[low - pad, top + pad], domain=[0.58, 1], title=dict(text="loss (nats)")),
        xaxis2=dict(range=[-3, right], title=dict(text="row (bracket: ids in use)"), anchor="y2"),
        yaxis2=dict(range=[-0.15, float(norms.max()) * 1.1], domain=[0, 0.38], title=dict(text="length of the row")),
    )
    learned_mean, learned_spread = mean_and_spread([curve[place] for curve in curves["learned"]])
    return dict(data=data, layout=layout), {
        "untrained": untrained(shift),
        "targets": TARGETS,
        "learned": learned_mean,
        "spread": learned_spread,
        "sinusoid": float(mean["sinusoidal"][place]),
    }


cliff = explorable(
    _cliff,
    id="learned.cliff",
    title="The cliff at the table's end",
    alt="Above, loss against the first id of the same characters: a solid line for the learned table, a dashed one for "
    "the sinusoid, a diamond on each at the chosen id. Below, the length of each row of the table: long up to the "
    "training length, then a fall to the short rows that it started with (dotted); a bracket shows the ids in use.",
    readout="of the {targets} characters that count, {untrained} stand on untrained rows; loss {learned:.2f} ± "
    "{spread:.2f} with the table, {sinusoid:.2f} with the sinusoid",
    depends={
        "learned table": [],
        "sinusoid": [],
        "here": ["shift"],
        "rows, trained": [],
        "rows at the start": [],
        "ids in use": ["shift"],
        "readout.targets": [],
    },
    shift=slider(SHIFTS, label="first id s"),
)
