r"""The explorable on the cut: three trained models in a longer context, whole and cut. Two of them go without names."""

import functools
import math
from typing import NamedTuple

import numpy as np

from posenc.lab.experiments import in_longer, load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, label, path, signed, upright

load = functools.cache(load_results)
WHOLE, CUT, LENGTHS = "whole", "cut to 64", (64, 128, 256, 512)
#: model -> its experiment and method. The chapters of A and B ask for a guess of their own.
MODELS = {"NoPE": ("train_short_test_long", "nope"), "A": ("train_short_test_long", "fox"), "B": ("needle", "shaw")}


class Runs(NamedTuple):
    r"""A model's losses or shares of wrong answers, [seeds, lengths]; how they are drawn; what the lengths are of."""

    lengths: list[int]
    whole: np.ndarray
    cut: np.ndarray
    unit: str
    range: tuple[float, float]
    tolerance: float
    of: str

    def word(self, at=-1) -> str:
        r"""What the two rows say at the last of the lengths, or at another; the first is within training's window."""
        return in_longer(self.whole[:, 0], self.whole[:, at], self.cut[:, at], self.tolerance)


@functools.cache
def runs(model: str) -> Runs:
    r"""The frozen runs of a model, by the name that the page gives it."""
    experiment, method = MODELS[model]
    result = load(experiment)
    arm, tolerance = result["methods"][method], result["tolerance"]
    if experiment != "needle":
        whole, cut, lengths = np.array(arm["whole"]), np.array(arm["cut"]), result["lengths"]
        return Runs(lengths, whole, cut, "rise of loss, nats", (-0.05, 0.27), tolerance, "characters of context")
    back = [n for n in result["distances"] if n > 32]  # to the number: the last within training's window, and beyond
    whole, cut = (np.array(wrong)[:, -len(back) :] for wrong in ([grid[-1] for grid in arm["grid"]], arm["cut_row"]))
    return Runs(back, whole, cut, "share wrong", (-0.1, 1.1), tolerance, "tokens back to the number")


def _cut(attention, reach):
    data, changes, layout, phone, now = [], {}, {}, {}, LENGTHS.index(reach)
    looks = zip(MODELS, ("ink", "blue", "green"), ("circle", "square", "diamond"), (0.015, -0.02, 0.06))
    for name, color, symbol, up in looks:
        r, panel = runs(name), 2 if name == "B" else 1
        whole, cut = (losses.mean(0)[: now + 1] - r.whole[:, 0].mean() for losses in (r.whole, r.cut))
        change, word = cut[-1] - whole[-1], r.word(now) if now else ""
        beside = "cut" if attention == CUT and abs(change) > 0.01 else ""
        if attention == WHOLE:
            change, cut, word = whole[-1], np.full(len(cut), math.nan), word if word in ("breaks", "") else "holds"
        x, end, hover = r.lengths[: now + 1], 1.12 * r.lengths[now], f"{name}, %{{x:d}} {r.of}: %{{y:.3f}}"
        heavy, ring = dict(size=11, symbol=symbol), dict(symbol="circle-open", size=13, line=dict(width=2))
        front = upright(f"the front, {panel}", r.lengths[now], *r.range, "ink", 1.5, panel=panel)
        data += [front] * (name != "A") + [
            path(name, x, whole, color, 6, hover=hover, panel=panel, opacity=0.65, marker=heavy),
            path(f"{name}, cut", x, cut, "orange", 2.5, "dash", marker=ring, panel=panel),
            label(f"name of {name}", end, whole[-1] + up, f"<b>{name}</b> {word}", color, "middle right", panel=panel),
            label(f"name of {name}, cut", end, np.nan_to_num(cut[-1]), beside, "orange", "bottom right", panel=panel),
        ]
        changes[name] = signed(change, 2)
        low, high = math.log10(r.lengths[0]) - 0.05, math.log10(r.lengths[-1]) + 0.65
        n, ticks = str(panel)[panel < 2 :], dict(type="log", tickvals=r.lengths, tickangle=0)
        layout[f"xaxis{n}"] = axis(low, high, r.of, domain=[[0, 0.46], [0.6, 1]][panel - 1], anchor=f"y{n}", **ticks)
        layout[f"yaxis{n}"] = axis(*r.range, r.unit, anchor=f"x{n}", nticks=5)
        phone |= {f"xaxis{n}": dict(domain=[0, 1]), f"yaxis{n}": dict(domain=[[0.58, 1], [0, 0.4]][panel - 1])}
    layout |= dict(height=400, showlegend=False, margin=dict(t=12), meta=dict(phone=phone))
    return dict(data=data, layout=layout), changes | dict(what="if cut" if attention == CUT else "rise")


cut = explorable(
    _cut,
    title="Trained on 64, read on up to 512",
    alt="By how much the loss of NoPE and of model A rises as the context grows from 64 to 512. Beside it the share of "
    "wrong answers of model B, by how far back its number lies in a context of 512. An upright line is dragged, "
    "and lines grow along. NoPE rises, A and B run level. With attention cut to the training window each has a "
    "dashed line: NoPE's rises less, A's lies on the solid one, B's jumps beyond the window to nearly nine wrong of "
    "ten. At the ends stand the names and the words: breaks, ignores, extrapolates.",
    readout="{what}: NoPE {NoPE} · A {A} · B {B}",
    handles={"the front, 1": "reach", "the front, 2": "reach"},
    attention=slider([WHOLE, CUT], label="attention"),
    reach=slider(LENGTHS, label="read on up to", default=LENGTHS[-1]),
)
