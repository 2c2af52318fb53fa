r"""The explorable on the frozen results: what a longer context costs each method, by how many of its keys are seen."""

import functools
import math

import numpy as np

from posenc.lab.experiments import load_results, mean_and_spread
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import apart, axis, held, label, leaders, line, path, upright
from posenc.methods import METHODS

load = functools.cache(load_results)
TEXT = "train_short_test_long"
#: the first place where a method acts -> its lines and dots
LOOK = {
    None: ("gray", "dot", "circle"), "embed": ("orange", "dash", "square"), "rotate": ("blue", "solid", "triangle-up"),
    "bias": ("green", "solid", "diamond"), "weigh": ("purple", "longdash", "star"),
}  # fmt: skip
BOTTOM, TOP = 1.25, 3.95
KEY, COLORED = ["■ embed", "▲ rotate", "◆ bias", "★ weigh"], ["orange", "blue", "green", "purple"]
GAP = 0.122  # nats between the names of two lines, so that they stand apart on a phone
SHORT = {name: method.title.removeprefix("Softmax with a ") for name, method in METHODS.items()}  # for a phone


@functools.cache
def losses(name: str, kind: str) -> np.ndarray:
    """A method's losses on text, [seeds, lengths]."""
    return np.array(load(TEXT)["methods"][name][kind])


def _slopes(keys):
    result = load(TEXT)
    methods, cuts, (trained, *_, longest) = [*result["methods"]], result["cuts"], result["lengths"]
    start = {name: losses(name, "distance_and_keys")[:, 0, 0] for name in methods}  # on the windows of `context_cut`
    whole, now = ({name: losses(name, "context_cut").T[cuts.index(n)] for name in methods} for n in (longest, keys))
    look, limit = {name: LOOK[next(iter(METHODS[name].places), None)] for name in methods}, result["tolerance"]
    risen, up = ([name for name in methods if (to[name] - start[name]).mean() > limit] for to in (whole, now))
    back = sorted(set(risen) - set(up), key=lambda name: -whole[name].mean())
    named, (shift, side) = [*up, *back], (0.92, "right") if keys > 8 else (1.25, "left")
    ends = [*(now[name].mean() for name in named), min(now[name].mean() for name in {*methods} - {*up})]
    names, inks = apart(ends, GAP, BOTTOM), [*(look[name][0] for name in named), "ink"]
    written = [("↓ " if name in back else "") + SHORT[name] for name in named] + [f"{len(methods) - len(named)} others"]
    before = [loss for name in risen for loss in (start[name].mean(), whole[name].mean(), math.nan)]
    data = [line("whole", [0, 1, math.nan] * len(risen), before, "gray", 1, opacity=0.5 if keys < longest else 0)]
    for name in methods:
        color, dash, symbol = look[name]
        said = [f"{SHORT[name]}: {{:.2f}} ± {{:.2f}}".format(*mean_and_spread(at)) for at in (start[name], now[name])]
        shown = dict(hover="%{text}", text=said, marker=dict(symbol=symbol, size=7))
        data.append(path(METHODS[name].title, [0, 1], [start[name].mean(), now[name].mean()], color, 2, dash, **shown))
    data += [
        leaders(ends, names, 1.015, 1.07),
        label("names", [1.08] * len(names), names, written, inks, "middle right", 12, True),
        label("places", [0.02] * 4, [TOP - 0.1 - 0.18 * n for n in range(4)], KEY, COLORED, "middle right", 12, True),
        line("the context", [longest, 1], [0, 0], "gray", 20, opacity=0.35, panel=2),
        line("what a query sees", [keys, 1], [0, 0], "blue", 20, panel=2),
        upright("training", trained, -0.8, 0.8, "gray", 1.5, "dot", panel=2),
        label("keys", keys * shift, 0.45, f"sees {keys} keys", "blue", f"top {side}", 14, True, panel=2),
        held("end of the window", keys, 0, "orange", "triangle-left", 18, panel=2),
    ]  # fmt: skip
    below = [f"{trained} characters,<br>as in training", f"{longest} characters"]
    back_to = dict(tickvals=[longest, trained, 1], ticktext=[f"{longest}", f"{trained}, as in training", "1 key"])
    layout = dict(
        dict(height=520, showlegend=False, margin=dict(t=12), meta=dict(phone=dict(xaxis=dict(range=[-0.03, 1.6])))),
        xaxis=axis(-0.03, 1.3, tickvals=[0, 1], ticktext=below, tickangle=0),
        yaxis=axis(BOTTOM, TOP, "loss, nats per character", domain=[0, 0.74]),
        xaxis2=axis(math.log10(700), math.log10(0.8), type="log", anchor="y2", tickangle=0, ticks="", **back_to),
        yaxis2=axis(-0.8, 1.6, domain=[0.86, 1], anchor="x2", visible=False),
    )
    home = f" · back: {len(back)}" if back else ""
    return dict(data=data, layout=layout), {"up": f"{len(up)} of {len(methods)} rise by more than {limit}{home}"}


slopes = explorable(
    _slopes,
    title="Trained on 64 characters, read on with 512",
    alt="Above, a context of 512 keys; the blue part, which a query sees, can be dragged. Below, a line a method, from "
    "its loss in training's window to that in the context. With all keys in sight RoPE, ExpoSB, the learned table, the "
    "sinusoid and T5 climb steeply, FIRE, CoPE, NoPE, the sink and Inkling less, the others run level. With 64 keys "
    "RoPE, ExpoSB, T5, CoPE and Inkling run level too; the learned table, the sinusoid and FIRE stay up. Gray lines "
    "stay where the whole context put them. Colors, dashes and marks tell where a method acts.",
    readout="{up}",
    handles={"end of the window": "keys"},
    keys=slider((512, 256, 128, 64, 32, 16, 8), label="keys that a query sees", play=True),
)
