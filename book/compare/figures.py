r"""The explorable on the frozen results: what a longer context costs each method, by how many of its keys are seen."""

import functools
import math

import numpy as np

from posenc.lab.experiments import load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line
from posenc.methods import METHODS

load = functools.cache(load_results)
TEXT = "train_short_test_long"


@functools.cache
def losses(name: str, kind: str) -> np.ndarray:
    """A method's losses on text, [seeds, lengths]."""
    return np.array(load(TEXT)["methods"][name][kind])


def _slopes(keys):
    result = load(TEXT)
    methods, cuts, (trained, *_, longest) = [*result["methods"]], result["cuts"], result["lengths"]
    start = {name: losses(name, "distance_and_keys")[:, 0, 0] for name in methods}  # on the windows of `context_cut`
    whole, now = (
        {name: (losses(name, "context_cut").T[cuts.index(n)] - start[name]).mean() for name in methods}
        for n in (longest, keys)
    )
    up = sorted((name for name in methods if whole[name] > result["tolerance"]), key=lambda name: -whole[name])
    level = max(now[name] for name in methods if name not in up)
    rows, column = list(range(len(up))), max(whole.values()) + 0.08
    back = [now[name] <= result["tolerance"] for name in up]
    said = ["<b>back</b>" if home else f"<b>+{now[name]:.2f}</b>" for name, home in zip(up, back)]
    inks, others = ["blue" if home else "ink" for home in back], f"{len(methods) - len(up)} others"
    assert level <= result["tolerance"]
    data = [
        bars("whole", [whole[name] for name in up], rows, "rgba(110, 120, 130, 0.3)", orientation="h", width=0.86),
        bars("rise", [max(now[name], 0) for name in up], rows, "orange", orientation="h", width=0.56),
        label("how much", [column] * len(up), rows, said, inks, "middle right", 14),
        label("level", column, len(up), f"≤ {result['tolerance']:g}", "gray", "middle right", 14),
        line("the context", [longest, 1], [0, 0], "gray", 22, opacity=0.35, panel=2),
        line("what a query sees", [keys, 1], [0, 0], "blue", 22, panel=2),
        label("keys", keys, 0.8, f"<b>sees {keys} keys</b>, drag", "ink", f"top {'right' if keys > 8 else 'left'}", 15,
              panel=2, cliponaxis=False),
        held("end of the window", keys, 0, "orange", "triangle-left", 19, panel=2),
    ]  # fmt: skip
    titles = [METHODS[name].title.removeprefix("Softmax with a ") for name in up]
    names = dict(tickvals=[*rows, len(up)], ticktext=[*titles, others], tickfont=dict(size=13), ticks="")
    back_to = dict(tickvals=[longest, trained, 1], ticktext=[f"{longest}", f"{trained}, as in training", "1"])
    back_to |= dict(tickfont=dict(size=12), ticks="")
    layout = dict(
        dict(height=480, showlegend=False, barmode="overlay", margin=dict(t=4)),
        xaxis=axis(0, 2.65, "nats added to the loss (pale: whole context)", tickvals=[0, 1, 2], anchor="y"),
        yaxis=axis(len(up) + 0.6, -0.6, domain=[0, 0.76], **names),
        xaxis2=axis(math.log10(700), math.log10(0.8), type="log", anchor="y2", showgrid=False, **back_to),
        yaxis2=axis(-0.8, 2.2, domain=[0.85, 1], anchor="x2", visible=False),
    )
    return dict(data=data, layout=layout)


slopes = explorable(
    _slopes,
    title="Trained on 64 characters, read on with 512",
    alt="Above, a context of 512 keys; the blue part, which a query sees, can be dragged. Below, a bar for each of "
    "ten methods: what the longer context adds to its loss; pale it stays where the whole context put it. With 512 "
    "keys RoPE, ExpoSB, the learned table, the sinusoid and T5 have long bars, FIRE, CoPE, NoPE, the sink and Inkling "
    "short ones; seven others add 0.05 at most. With 64 keys RoPE, ExpoSB, T5, CoPE and Inkling are back; the learned "
    "table, the sinusoid and FIRE keep most of their bars.",
    see="Drag the end of the blue band: whose bars come back to zero?",
    handles={"end of the window": "keys"},
    keys=slider((512, 256, 128, 64, 32, 16, 8), label="keys that a query sees", play=True),
)
