r"""The explorable on the frozen results: what a longer context costs each method, whole and cut."""

import functools
import math
import statistics

import numpy as np

from posenc.lab.experiments import load_results, mean_and_spread
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import apart, axis, label, leaders, line, path
from posenc.methods import METHODS

load = functools.cache(load_results)
TEXT = "train_short_test_long"
#: the first place where a method acts -> its lines and dots
LOOK = {
    None: ("gray", "dot", "circle"),
    "embed": ("orange", "dash", "square"),
    "rotate": ("blue", "solid", "triangle-up"),
    "bias": ("green", "solid", "diamond"),
    "weigh": ("purple", "longdash", "star"),
}
BOTTOM, TOP = 1.25, 3.95
KEY = ["■ embed", "▲ rotate", "◆ bias", "★ weigh"]
COLORED = [LOOK[place[2:]][0] for place in KEY]
GAP = 0.122  # nats between the names of two lines, so that they stand apart on a phone


def short(name: str) -> str:
    """A method's name where a phone has little room."""
    return METHODS[name].title.removeprefix("Softmax with a ")


@functools.cache
def losses(name: str, kind: str) -> np.ndarray:
    """A method's losses on text, [seeds, lengths]."""
    return np.array(load(TEXT)["methods"][name][kind])


def row(name: str, kind: str) -> list[str]:
    """What the tooltip of a method says at each length: few words, so that they leave the plot in sight on a phone."""
    at = zip(load(TEXT)["lengths"], losses(name, kind).T)
    return [f"{short(name)}, {n}: {{:.2f}} ± {{:.2f}}".format(*mean_and_spread(values)) for n, values in at]


def _slopes(attention):
    result, kind = load(TEXT), "whole" if attention == "whole" else "cut"
    lengths, methods, limit = result["lengths"], list(result["methods"]), result["tolerance"]
    whole = {name: losses(name, "whole").mean(0) for name in methods}
    means = {name: losses(name, kind).mean(0) for name in methods}
    look = {name: LOOK[next(iter(METHODS[name].places), None)] for name in methods}
    risen = [name for name in methods if whole[name][-1] - whole[name][0] > limit]
    up = [name for name in risen if means[name][-1] - means[name][0] > limit]
    back = sorted(set(risen) - set(up), key=lambda name: -whole[name][-1])
    level = statistics.fmean(means[name][-1] for name in methods if name not in risen)
    ends = [*(means[name][-1] for name in up), level]
    names, beside = apart(ends, GAP, BOTTOM + 0.35 * bool(back)), lengths[-1] * 1.14
    home = "<br>".join([*(f"↓ {short(name)}" for name in back), f"{len(methods) - len(risen)} others"])
    written, inks = [*map(short, up), home], [*(look[name][0] for name in up), "ink"]
    before = [loss for name in risen for loss in (*whole[name], math.nan)]
    data = [line("before the cut", [*lengths, math.nan] * len(risen), before, "gray", 1, opacity=0.5 if back else 0)]
    for name in methods:
        color, dash, symbol = look[name]
        said = dict(hover="%{text}", text=row(name, kind), marker=dict(symbol=symbol, size=7))
        data.append(path(METHODS[name].title, lengths, means[name].tolist(), color, 2, dash, **said))
    data += [
        leaders(ends, names, lengths[-1] * 1.02, beside * 0.985),
        label("names", [beside] * len(names), names, written, inks, "middle right", 12, True),
        label("places", [66 * 2**n for n in range(4)], [TOP - 0.1] * 4, KEY, COLORED, "middle right", 12, True),
    ]
    across = (math.log10(lengths[0]) - 0.03, math.log10(lengths[-1]) + 0.37)
    ticks = dict(type="log", tickvals=lengths, ticktext=[str(n) for n in lengths])
    layout = dict(
        height=480,
        showlegend=False,
        margin=dict(t=12),
        xaxis=axis(*across, "characters of context; 64 in training", **ticks),
        yaxis=axis(BOTTOM, TOP, "loss, nats per character"),
    )
    home = f" · {len(back)} are back" if back else ""
    return dict(data=data, layout=layout), {"up": f"{len(up)} of {len(methods)} rise by more than {limit}{home}"}


slopes = explorable(
    _slopes,
    title="Trained on 64 characters, read on up to 512",
    alt="The loss of each method at four lengths of context, a line each; those that rise with the whole context have "
    "their names at the right end. With the whole "
    "context, RoPE, ExpoSB, the learned table, the sinusoid and T5 climb steeply, FIRE, CoPE, NoPE, the sink and "
    "Inkling less, and the others run level. With attention cut to the 64 characters of training, RoPE, ExpoSB, T5, "
    "CoPE and Inkling run level too, NoPE and the sink rise less, the sinusoid and the learned table a little less, "
    "FIRE as before; thin gray lines stay where they were. "
    "Colors and dashes tell where a method acts: bias green, rotate blue, embed orange and dashed, weigh purple. Point "
    "at a mark for its numbers.",
    readout="{up}",
    attention=slider(["whole", "cut to 64"], label="attention"),
)
