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
    crowd, side = [f"{more} more keys,", "in one place"] if more else ["as many keys", "as trained"], gap < GAPS[-1]
    crowd = "<br>".join(f"{words}\u2003" if side else f"\u2003{words}" for words in crowd)
    data = [
        upright("farthest in training", KEYS[0] - 1, -0.7, 1.1, "gray", 1.5, "dot"),
        line("near keys", [TARGETS - 1, 0], [0, 0], "blue", 16),
        line("far keys", [oldest, TARGETS + gap], [0, 0], "blue", 16),
        line("crowd", [oldest, oldest], [0, top], "orange", 22),
        line("gap", [TARGETS - 1, TARGETS + gap], [-0.3, -0.3], "ink", 2),
        dots("stops", [*(TARGETS + n for n in GAPS), *[oldest] * 4], [-0.3] * 4 + [n / KEYS[-1] - 0.005 for n in KEYS],
             "gray", 9, ["line-ns-open"] * len(GAPS) + ["line-ew-open"] * len(KEYS)),
        held("end of the gap", TARGETS + gap, -0.3, "blue", "triangle-left"),
        held("top of the crowd", oldest, top + 0.12, "orange", "triangle-up"),
        label("how far", TARGETS + gap / 2, -0.42, f"gap {gap}" if gap else "no gap", "ink", "bottom center",
              halo=True, cliponaxis=False),
        label("how many", oldest, max(top, 0.3), crowd, "orange", "middle left" if side else "middle right"),
        bars("added to the loss", means, names, "purple", orientation="h", text=said, textposition="outside",
             cliponaxis=False, panel=2),
    ]  # fmt: skip
    places = [0, *(KEYS[0] - 1 + gap for gap in GAPS if gap != GAPS[1])]
    back = dict(tickvals=places, ticktext=[f"{n}<br>trained" if n == KEYS[0] - 1 else f"{n}" for n in places])
    layout = dict(
        height=470,
        showlegend=False,
        margin=dict(t=10),
        xaxis=axis(1.08 * KEYS[-1], -12, "distance back from the target", ticks="", tickangle=0, **back),
        yaxis=axis(-0.75, 1.1, domain=[0.54, 1], visible=False),
        xaxis2=axis(0, 2.4, "added to the loss, nats", anchor="y2", tickvals=[0, 1, 2]),
        yaxis2=axis(len(names) - 0.4, -0.6, domain=[0, 0.36], anchor="x2", type="category", ticks=""),
    )
    return dict(data=data, layout=layout), {"keys": keys, "gap": gap}


distance_keys = explorable(
    _distance_keys,
    title="Too far, or too many?",
    alt="Above, the keys of a target by distance: near ones, a gap, far ones, and at their end a column of more keys, "
    "all in one place; a dotted line is the farthest of training. The end of the gap can be dragged away, the top of "
    "the column up. Below, a bar for each of five methods: what that adds to its loss. The gap makes those of RoPE and "
    "the sinusoid long, the column that of NoPE the longest, though short; stick-breaking has none.",
    readout="{keys} keys · gap {gap}",
    handles={"end of the gap": "gap", "top of the crowd": "keys"},
    gap=slider(GAPS, label="unseen gap", default=64),
    keys=slider(KEYS, label="number of keys"),
)
