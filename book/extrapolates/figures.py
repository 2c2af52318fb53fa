r"""The explorable on the cut: how many keys of a longer context two trained models need, which go without names."""

import functools
import math
from typing import NamedTuple

import numpy as np

from posenc.lab.experiments import in_longer, load_results, on_windows
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line
from posenc.lab.train.tasks import NEEDLE_VALUES

load = functools.cache(load_results)
#: model -> its experiment and method. The chapters of A and B ask for a guess of their own.
MODELS = {"NoPE": ("train_short_test_long", "nope"), "A": ("train_short_test_long", "fox"), "B": ("needle", "shaw")}
TRAINED, ALL = 64, 512


class Runs(NamedTuple):
    r"""A model's losses or shares wrong, [seeds, lengths], the first within training's window; a word for the last."""

    lengths: list[int]
    whole: np.ndarray
    cut: np.ndarray
    tolerance: float
    word: str


@functools.cache
def runs(model: str) -> Runs:
    r"""The frozen runs of a model, by the name that the page gives it."""
    result, method = load(MODELS[model][0]), MODELS[model][1]
    arm, tolerance = result["methods"][method], result["tolerance"]
    if model != "B":
        three = (on_windows(result, method, at, kind) for at, kind in ((0, "whole"), (-1, "whole"), (-1, "cut")))
        word = in_longer(*three, tolerance, len(result["seeds"]))
        return Runs(result["lengths"], np.array(arm["whole"]), np.array(arm["cut"]), tolerance, word)
    back = [n for n in result["distances"] if n > 32]  # to the number: the last within training's window, and beyond
    whole, cut = (np.array(wrong)[:, -len(back) :] for wrong in ([grid[-1] for grid in arm["grid"]], arm["cut_row"]))
    return Runs(back, whole, cut, tolerance, in_longer(whole[:, 0], whole[:, -1], cut[:, -1], tolerance))


def seeing(model: str, keys: int) -> float:
    r"""What a model adds to its loss in training's window, or its share wrong, where a query sees so many keys."""
    result, r = load(MODELS[model][0]), runs(model)
    if model == "B" and keys in (TRAINED, ALL):
        return (r.whole if keys == ALL else r.cut)[:, -1].mean()
    if model == "B":
        assert result["settings"]["num_layers"] * (keys - 1) < r.lengths[-1] - 1  # no layers hand the number on
        return 1 - 1 / NEEDLE_VALUES  # of guesses
    arm = result["methods"][MODELS[model][1]]  # on some of the windows, as `context_cut` of posenc.lab.train reads them
    start, cuts = np.array(arm["distance_and_keys"])[:, 0, 0], np.array(arm["context_cut"])
    return round((cuts[:, result["cuts"].index(keys)] - start).mean(), 2) + 0.0


def _cut(keys):
    trained, loss, wrong = runs("A").whole[:, 0].mean(), seeing("A", keys), seeing("B", keys)
    edge, full = dict(line=dict(color=COLORS["gray"], width=2)), dict(orientation="h", width=0.8)
    side, head = "right" if keys > 8 else "left", dict(color="ink", place="middle right", size=14)
    data = [
        line("the context", [ALL, 1], [0, 0], "gray", 26, opacity=0.35),
        line("what a query sees", [keys, 1], [0, 0], "blue", 26),
        label("B's number", 1.06 * runs("B").lengths[-1], -1.5, "◆ B is asked for this", "green", "middle right", 14),
        label("keys", keys, 0.7, f"<b>sees {keys} keys</b>, drag", "ink", f"top {side}", 15, cliponaxis=False),
        held("end of the window", keys, 0, "orange", "triangle-left", 19),
        bars("A in training", [trained], [0], "rgba(0, 0, 0, 0)", marker=edge, panel=2, **full),
        bars("A", [trained + loss], [0], "blue", orientation="h", width=0.5, panel=2),
        label("A's word", trained + loss + 0.04, 0, f"<b>+{loss:.2f}</b>", "ink", "middle right", 18, panel=2),
        bars("all of B", [1], [0], "rgba(0, 0, 0, 0)", marker=edge, panel=3, **full),
        bars("B", [wrong], [0], "green", marker=dict(pattern=dict(shape="x")), orientation="h", width=0.5, panel=3),
        label("B's word", 1.02, 0, f"<b>{wrong:.0%} wrong</b>", "ink", "middle right", 18, panel=3),
        label("what A does", 0, -0.95, "<b>A</b> reads text: its loss (outline: in training)", panel=2, **head),
        label("what B does", 0, -0.95, "<b>B</b> recalls a number: its share wrong", panel=3, **head),
    ]
    back = dict(tickvals=[ALL, TRAINED, 8, 1], ticktext=[f"{ALL}", f"{TRAINED}, as in training", "8", "1"], ticks="")
    rows = dict(range=[0.6, -1.4], visible=False)
    layout = dict(
        dict(height=420, showlegend=False, barmode="overlay", margin=dict(l=16, t=10, b=8)),
        xaxis=axis(math.log10(720), math.log10(0.8), type="log", showgrid=False, tickfont=dict(size=12), **back),
        xaxis2=axis(0, 2.6, anchor="y2", visible=False),
        xaxis3=axis(0, 1.65, anchor="y3", visible=False),
        yaxis=axis(-2, 2, domain=[0.66, 1], visible=False),
        yaxis2=dict(rows, domain=[0.28, 0.52], anchor="x2"),
        yaxis3=dict(rows, domain=[0, 0.24], anchor="x3"),
    )
    return dict(data=data, layout=layout)


cut = explorable(
    _cut,
    title="How many keys does it need?",
    alt="A context of 512 keys; the blue part, which each query sees, can be dragged in, to training's 64 and to 2. "
    "At the far end stands the number that B is asked for. Below, a bar for the loss of model A, with an outline for "
    "that of training, and one for B's share wrong. Cut to 64, A's bar still fills its outline, and B, never wrong "
    "with the whole, is wrong seven times of eight. A's bar grows where fewer than some eight keys are left.",
    see="Drag the end of the blue band: which bar moves first?",
    handles={"end of the window": "keys"},
    keys=slider((ALL, 128, TRAINED, 32, 16, 8, 4, 2), label="keys that a query sees", play=True),
)
