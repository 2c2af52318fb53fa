r"""The explorable on the cut: how many keys of a longer context three trained models need. Two go without names."""

import functools
import math
from typing import NamedTuple

import numpy as np

from posenc.lab.experiments import in_longer, load_results, on_windows
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line, signed, upright
from posenc.lab.train.tasks import NEEDLE_VALUES

load = functools.cache(load_results)
#: model -> its experiment and method. The chapters of A and B ask for a guess of their own.
MODELS = {"NoPE": ("train_short_test_long", "nope"), "A": ("train_short_test_long", "fox"), "B": ("needle", "shaw")}
LOOKS = {"NoPE": ("ink", "", 0, 2), "A": ("blue", "/", 1, 2), "B": ("green", "x", 0.5, 3)}  # color, hatch, row, panel
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
    far, end = runs("B").lengths[-1], (0.93, "right") if keys > 8 else (1.3, "left")
    data = [
        line("the context", [ALL, 1], [0, 0], "gray", 22, opacity=0.35),
        line("what a query sees", [keys, 1], [0, 0], "blue", 22),
        upright("training", TRAINED, -1, 1, "gray", 1.5, "dot"),
        label("B's number", 1.1 * far, -0.62, "◆ what B is asked for", "green", "middle right", halo=True),
        label("keys", keys * end[0], 0.32, f"sees {keys} keys", "blue", f"top {end[1]}", 14, True),
        held("end of the window", keys, 0, "orange", "triangle-left", 18),
    ]  # fmt: skip
    look, said = dict(orientation="h", textposition="outside", width=0.42, cliponaxis=False), {}
    for name, (color, shape, row, panel) in LOOKS.items():
        value, word = seeing(name, keys), runs(name).word if keys in (TRAINED, ALL) else ""
        word = "holds" if keys == ALL and word != "breaks" else word
        said[name] = signed(value, 2) if panel == 2 else f"{value:.0%}"
        look |= dict(text=[said[name]], marker=dict(pattern=dict(shape=shape)), panel=panel)
        named = label(f"name of {name}", 0, row - 0.42, f"<b>{name}</b> {word}", color, "middle right", panel=panel)
        data += [bars(name, [value], [row], color, **look), named]
    back = dict(tickvals=[ALL, TRAINED, 8, 1], ticktext=[f"{ALL}", f"{TRAINED}, as in training", "8", "1"], tickangle=0)
    low = dict(range=[1.4, -0.7], domain=[0, 0.42], visible=False, anchor="x2")
    layout = dict(
        dict(height=420, showlegend=False, barmode="overlay", margin=dict(t=12)),
        xaxis=axis(math.log10(720), math.log10(0.8), "keys, counted back from the query", type="log", ticks="", **back),
        xaxis2=axis(-0.1, 0.85, "added to the loss, nats", domain=[0, 0.5], anchor="y2", tickvals=[0, 0.5]),
        xaxis3=axis(0, 1.45, "share wrong", domain=[0.6, 1], anchor="y3", tickvals=[0, 1], ticktext=["0", "all"]),
        **dict(yaxis=axis(-1.1, 1.3, domain=[0.66, 1], visible=False), yaxis2=low, yaxis3=low | dict(anchor="x3")),
    )
    return dict(data=data, layout=layout), said | dict(keys=keys)


cut = explorable(
    _cut,
    title="How many keys does it need?",
    alt="A context of 512 keys; the blue part, which each query sees, can be dragged in, to training's 64 and to 2. "
    "At the far end stands the number that B is asked for. Bars: what NoPE and A add to their loss in training's "
    "window, and B's share wrong. Cut to 64, NoPE's bar shrinks by half, A has none still, and B, never wrong with the "
    "whole, is wrong seven times of eight. A's bar grows where fewer than some eight keys are left.",
    readout="sees {keys} of 512 · A {A} · B {B} wrong",
    handles={"end of the window": "keys"},
    keys=slider((ALL, 128, TRAINED, 32, 16, 8, 4, 2), label="keys that a query sees", play=True),
)
