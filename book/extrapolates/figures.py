r"""The explorable on the cut: three trained models in a longer context, whole and cut. Two of them go without names."""

import functools
import math
from typing import NamedTuple

import numpy as np

from posenc.lab.experiments import in_longer, load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, label, number, path

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
    return Runs(contexts, whole, cut, "share of wrong answers", (-0.06, 1.14), tolerance, "tokens")


def _cut(model, attention):
    r = runs(model)
    whole, cut = r.whole.mean(0), r.cut.mean(0)
    shown = attention == CUT
    end = r.lengths[-1] * 1.1
    room = 0.035 * (r.range[1] - r.range[0])
    apart = max(0.0, room - abs(cut[-1] - whole[-1]) / 2) if shown else 0.0
    side = 1 if whole[-1] >= cut[-1] else -1
    ends, names = [whole[-1] + side * apart, cut[-1] - side * apart], ["whole", "cut" if shown else ""]
    told, asked = f"%{{x:d}} {r.of} of context", "" if shown else "if cut: higher, level or lower?"
    heavy, ring = dict(opacity=0.65, marker=dict(size=12)), dict(symbol="circle-open", size=14, line=dict(width=2))
    below = cut if shown else [math.nan] * len(r.lengths)
    at_right = dict(place="middle right", halo=True)
    data = [
        path("whole", r.lengths, whole, "blue", 7, hover=f"{told}, whole: %{{y:.3f}}", **heavy),
        path("cut", r.lengths, below, "orange", 2.5, "dash", hover=f"{told}, cut: %{{y:.3f}}", marker=ring),
        label("names", [end, end], ends, names, ["blue", "orange"], **at_right),
        label("question", 64, r.range[1] - room, asked, "orange", **at_right),
    ]
    ticks = dict(tickvals=[64, 128, 256, 512], ticktext=["64<br>in training", "128", "256", "512"], tickangle=0)
    across = math.log10(64) - 0.05, math.log10(512) + 0.22
    layout = dict(height=400, showlegend=False, margin=dict(t=12))
    layout |= dict(xaxis=axis(*across, f"{r.of} of context", type="log", **ticks), yaxis=axis(*r.range, r.unit))
    word = r.word()
    return dict(data=data, layout=layout), {
        "ends": f"{number(whole[0])} at 64, {number(whole[-1])} at {r.lengths[-1]}",
        "cut": f"cut {number(cut[-1])}" if shown else "not cut yet",
        "word": word if shown or word == "breaks" else "holds",
    }


cut = explorable(
    _cut,
    title="Trained on 64, read on up to 512",
    alt="One trained model at a time. A solid line: its loss, or its share of wrong answers, as the context grows from "
    "64 to 512. With attention cut to the training window a dashed line is added. NoPE rises, and its dashed line "
    "rises less. Model A runs level and its dashed line lies on it. Model B stays at zero, and its dashed line climbs "
    "to nearly nine wrong of ten.",
    readout="{ends} · {cut} · {word}",
    model=slider(list(MODELS), label="model", default="A"),
    attention=slider([WHOLE, CUT], label="attention"),
)
