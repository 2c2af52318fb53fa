r"""The explorable on the cut: three trained models in a longer context, whole and cut. Two of them go without names."""

import functools
import math
from typing import NamedTuple

import numpy as np

from posenc.lab.experiments import in_longer, load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, label, path, signed

load = functools.cache(load_results)
WHOLE, CUT = "whole", "cut to 64"
#: model -> its experiment and method. The chapters of A and B ask for a guess of their own.
MODELS = {"NoPE": ("train_short_test_long", "nope"), "A": ("train_short_test_long", "fox"), "B": ("needle", "shaw")}


class Runs(NamedTuple):
    r"""A model's losses or shares of wrong answers, [seeds, lengths]; their name, range, tolerance; what it reads."""

    lengths: list[int]
    whole: np.ndarray
    cut: np.ndarray
    unit: str
    range: tuple[float, float]
    tolerance: float
    of: str

    def word(self) -> str:
        r"""What the two rows say at the longest context."""
        return in_longer(self.whole[:, 0], self.whole[:, -1], self.cut[:, -1], self.tolerance)


@functools.cache
def runs(model: str) -> Runs:
    r"""The frozen runs of a model, by the name that the page gives it."""
    experiment, method = MODELS[model]
    result = load(experiment)
    arm, tolerance = result["methods"][method], result["tolerance"]
    if experiment != "needle":
        whole, cut = (np.array(arm[kind]) for kind in ("whole", "cut"))
        return Runs(result["lengths"], whole, cut, "loss, nats per character", (1.25, 2.75), tolerance, "characters")
    contexts = [result["contexts"][0], result["contexts"][-1]]
    whole, cut = (np.array([arm["scores"]["in"], arm["scores"][test]]).T for test in ("far", "far, cut"))
    return Runs(contexts, whole, cut, "share of wrong answers", (-0.1, 1.14), tolerance, "tokens")


def _cut(attention):
    data, changes = [], {}
    for name, color, symbol in zip(MODELS, ("ink", "blue", "green"), ("circle", "square", "diamond")):
        r = runs(name)
        whole, cut, word = r.whole.mean(0), r.cut.mean(0), r.word()
        change, panel = cut[-1] - whole[-1], 2 if name == "B" else 1
        if attention == WHOLE:
            cut, word = np.full(len(cut), math.nan), word if word == "breaks" else "holds"
        told, heavy = f"%{{x:d}} {r.of} of context", dict(opacity=0.65, marker=dict(size=11, symbol=symbol))
        ring = dict(symbol="circle-open", size=13, line=dict(width=2))
        beside = "cut" if attention == CUT and abs(change) > 0.01 else ""
        data += [
            path(name, r.lengths, whole, color, 6, hover=f"{told}, whole: %{{y:.3f}}", panel=panel, **heavy),
            path(f"{name}, cut", r.lengths, cut, "orange", 2.5, "dash", marker=ring, panel=panel),
            label(f"name of {name}", 620, whole[-1], f"<b>{name}</b> {word}", color, "top right", panel=panel),
            label(f"name of {name}, cut", 620, np.nan_to_num(cut[-1]), beside, "orange", "middle right", panel=panel),
        ]
        changes[name] = signed(change, 2) if attention == CUT else "?"
    ticks = dict(type="log", tickvals=[64, 128, 256, 512], tickangle=0)
    across, (text, puzzle) = (math.log10(64) - 0.05, math.log10(512) + 0.75), (runs(name) for name in "AB")
    rows = dict(yaxis=dict(domain=[0.52, 1]), yaxis2=dict(domain=[0, 0.3]))
    layout = dict(
        height=400,
        showlegend=False,
        margin=dict(t=12),
        xaxis=axis(*across, "characters of context", domain=[0, 0.46], **ticks),
        yaxis=axis(*text.range, text.unit),
        xaxis2=axis(*across, "tokens of context", domain=[0.6, 1], anchor="y2", **ticks),
        yaxis2=axis(*puzzle.range, puzzle.unit, anchor="x2", tickvals=[0, 0.5, 1]),
        meta=dict(phone=rows | dict.fromkeys(("xaxis", "xaxis2"), dict(domain=[0, 1]))),
    )
    return dict(data=data, layout=layout), changes


cut = explorable(
    _cut,
    title="Trained on 64, read on up to 512",
    alt="The loss of NoPE and of model A, and beside it the share of wrong answers of model B, as the context grows "
    "from 64 to 512. NoPE rises, A runs level, B stays at zero. With attention cut to the training window "
    "each has a dashed line: NoPE's rises less, A's lies on the solid one, B's climbs to nearly nine wrong of ten. At "
    "the ends stand the names and the words: breaks, ignores, extrapolates.",
    readout="if cut: NoPE {NoPE} · A {A} · B {B}",
    attention=slider([WHOLE, CUT], label="attention"),
)
