r"""The explorable on trained models: distance against number of keys."""

import numpy as np

from posenc.lab.experiments import ONE_A_PLACE, load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, held, label, line, upright
from posenc.lab.titles import title

TEXT = load_results("train_short_test_long", methods=ONE_A_PLACE)
KEYS, GAPS, TARGETS = TEXT["lengths"], TEXT["gaps"], TEXT["settings"]["targets"]


def _distance_keys(keys, gap):
    grids = [np.array(arm["distance_and_keys"]) for arm in TEXT["methods"].values()]  # [seeds, keys, gaps]
    added = np.stack([grid[:, KEYS.index(keys), GAPS.index(gap)] - grid[:, 0, 0] for grid in grids])
    names, means = list(map(title, TEXT["methods"])), added.mean(1).round(2) + 0.0
    said = [f"{mean:.2f} ± {spread:.2f}" for mean, spread in zip(means, added.std(1, ddof=1))]
    oldest, more, top = KEYS[0] - 1 + gap, keys - KEYS[0], (keys - KEYS[0]) / KEYS[-1]
    new, side = (more + KEYS[0] - TARGETS) * (gap > 0), gap < GAPS[-1]
    crowd = [f"{more} more, all here" if more else "as many as trained", f"<b>{new} of {keys} too far</b>"]
    crowd = "<br>".join(f"{words}\u2003" if side else f"\u2003{words}" for words in crowd)
    data = [
        upright("farthest in training", KEYS[0] - 1, -0.7, 1.1, "gray", 1.5, "dot"),
        line("near keys", [TARGETS - 1, 0], [0, 0], "blue", 20),
        line("far keys", [oldest, TARGETS + gap], [0, 0], "orange" if gap else "blue", 20, "3px,2px" if gap else None),
        line("crowd", [oldest, oldest], [0, top], "orange", 22),
        line("gap", [TARGETS - 1, TARGETS + gap], [-0.36, -0.36], "ink", 2),
        dots("stops", [*(TARGETS + n for n in GAPS), *[oldest] * 4], [-0.36] * 4 + [n / KEYS[-1] - 0.005 for n in KEYS],
             "gray", 9, ["line-ns-open"] * len(GAPS) + ["line-ew-open"] * len(KEYS)),
        held("end of the gap", TARGETS + gap, -0.36, "blue", "triangle-left", 18),
        held("top of the crowd", oldest, top + 0.14, "orange", "triangle-up", 18),
        label("how far", TARGETS + gap / 2, -0.48, f"gap {gap}" if gap else "no gap", "ink", "bottom center",
              halo=True, cliponaxis=False),
        label("how many", oldest, max(top, 0.34), crowd, "orange", f"middle {'left' if side else 'right'}",
              halo=True, cliponaxis=False),
    ]  # fmt: skip
    look, rope = dict(orientation="h", textposition="outside", cliponaxis=False, panel=2, width=0.8), title("rope")
    for shown, live in (("added to RoPE's loss", True), ("added to the loss", False)):  # the first before the answer
        rows = [row for row in zip(means, names, said) if (row[1] == rope) == live]
        data.append(bars(shown, *list(zip(*rows))[:2], "purple", text=[row[2] for row in rows], **look))
    places = [0, *(KEYS[0] - 1 + gap for gap in GAPS if gap != GAPS[1])]
    back = dict(tickvals=places, ticktext=[f"{n}<br>trained" if n == KEYS[0] - 1 else f"{n}" for n in places])
    layout = dict(
        dict(height=470, showlegend=False, margin=dict(t=10), barmode="overlay"),
        xaxis=axis(1.08 * KEYS[-1], -12, "distance back from the target", ticks="", tickangle=0, **back),
        yaxis=axis(-0.75, 1.1, domain=[0.54, 1], visible=False),
        xaxis2=axis(0, 2.4, "added to the loss, nats", anchor="y2", tickvals=[0, 1, 2]),
        yaxis2=axis(len(names) - 0.4, -0.6, domain=[0, 0.36], anchor="x2", type="category", categoryarray=names),
    )
    return dict(data=data, layout=layout), {"keys": keys, "gap": gap}


distance_keys = explorable(
    _distance_keys,
    title="Too far, or too many?",
    alt="Above, the keys of a target by distance: near ones, a gap, far ones, and at their end a column of more keys, "
    "in one place. Beyond the dotted line, the farthest of training, they are dashed and counted. The gap's end can "
    "be dragged away, the column's top up. Below, a bar for each of five methods: what that adds to its loss. The gap "
    "makes those of RoPE and the sinusoid long, the column that of NoPE; stick-breaking has none.",
    readout="{keys} keys · gap {gap}",
    handles={"end of the gap": "gap", "top of the crowd": "keys"},
    gap=slider(GAPS, label="unseen gap", default=64),
    keys=slider(KEYS, label="number of keys"),
)
