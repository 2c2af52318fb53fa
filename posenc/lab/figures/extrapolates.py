r"""The explorable on the cut: three trained models in a longer context, whole and cut. Two of them go without names."""

import functools
import math
from typing import NamedTuple

import numpy as np

from posenc.lab.experiments import in_longer, load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.figures.parts import held, label, number

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
    arm = result["methods"][method]
    if experiment != "needle":
        whole, cut = (np.array(arm[kind]) for kind in ("whole", "cut"))
        return Runs(
            result["lengths"], whole, cut, "loss, nats per character", (1.05, 2.72), result["tolerance"], "characters"
        )
    contexts = [result["contexts"][0], result["contexts"][-1]]
    whole, cut = (np.array([arm["scores"]["in"], arm["scores"][test]]).T for test in ("far", "far, cut"))
    return Runs(contexts, whole, cut, "share of wrong answers", (-0.07, 1.13), result["tolerance"], "tokens")


def _cut(model, attention):
    r = runs(model)
    whole, cut = r.whole.mean(0), r.cut.mean(0)
    shown = attention == CUT
    blue, orange, end = COLORS["blue"], COLORS["orange"], r.lengths[-1] * 1.14
    room = 0.035 * (r.range[1] - r.range[0])
    apart = max(0.0, room - abs(cut[-1] - whole[-1]) / 2) if shown else 0.0
    top, reach = r.range[1], r.lengths[0] if shown else r.lengths[-1]
    above = dict(xaxis="x2", yaxis="y2")  # in a band of its own: what a query sees is no loss
    ends = [math.log10(64) - 0.08, math.log10(512) + 0.42]
    side = 1 if whole[-1] >= cut[-1] else -1
    higher = min(whole[-1] + 7 * room, top - 2.2 * room)
    guesses = {"if cut<br>higher?": higher, "level?": whole[-1], "lower?": whole[-1] - 4 * room}
    guesses = {} if shown else {word: y for word, y in guesses.items() if y > r.range[0]}
    breaks = runs("NoPE").whole.mean(0) if model == "A" else [math.nan] * len(r.lengths)
    data = [
        dict(
            type="scatter",
            name="NoPE, for its scale",
            x=r.lengths,
            y=breaks,
            mode="lines",
            line=dict(color=COLORS["gray"], width=1.5),
            hovertemplate="%{x} of context, NoPE whole: %{y:.3f}<extra></extra>",
        ),
        label(
            "name of NoPE", r.lengths[0] * 1.06, breaks[0] - 0.4 * room, "NoPE breaks", COLORS["gray"], "bottom right"
        ),
        dict(
            type="scatter",
            name="whole",
            x=r.lengths,
            y=whole,
            mode="lines+markers",
            line=dict(color=blue, width=7),
            opacity=0.65,
            marker=dict(size=12),
            hovertemplate="%{x} of context, whole: %{y:.3f}<extra></extra>",
        ),
        dict(
            type="scatter",
            name="cut",
            x=r.lengths,
            y=cut if shown else [math.nan] * len(r.lengths),
            mode="lines+markers",
            line=dict(color=orange, width=2.5, dash="dash"),
            marker=dict(symbol="circle-open", size=14, line=dict(width=2)),
            hovertemplate="%{x} of context, cut: %{y:.3f}<extra></extra>",
        ),
        label(
            "names",
            [end if shown else r.lengths[0] * 1.5, end],
            [whole[-1] + side * apart if shown else np.interp(1.5, [1, 2], whole[:2]) + room, cut[-1] - side * apart],
            ["whole", "cut" if shown else ""],
            [blue, orange],
            ["middle right" if shown else "top center", "middle right"],
        ),
        dict(
            type="scatter",
            name="guesses",
            x=[x for _ in guesses for x in (r.lengths[-1] * 1.12, r.lengths[-1] * 1.34, None)],
            y=[y for guess in guesses.values() for y in (guess, guess, None)],
            mode="lines",
            line=dict(color=orange, width=4, dash="dot"),
            opacity=0.6,
            hoverinfo="skip",
        ),
        label(
            "question",
            [r.lengths[-1] * 1.38] * len(guesses),
            list(guesses.values()),
            list(guesses),
            orange,
            "middle right",
        ),
        dict(
            type="scatter",
            name="what a query sees",
            x=[10 ** ends[0], reach],
            y=[0.5, 0.5],
            mode="lines",
            line=dict(color=COLORS["ink"], width=5),
            hoverinfo="skip",
            **above,
        ),
        held("end of sight", reach, 0.5, size=14, **above),
        label(
            "sight",
            reach * 1.19,
            0.5,
            "a query sees 64" if shown else "sees all",
            COLORS["ink"],
            "middle right",
            **above,
        ),
        label("unseen", 64 * 1.05, top - 0.5 * room, "not seen in training →", COLORS["gray"], "bottom right"),
    ]
    unseen = dict(type="rect", yref="y domain", x0=64, x1=3 * end, y0=0, y1=1, layer="below")
    ticks = [0, 0.5, 1] if model == "B" else [1.5, 2, 2.5]
    layout = dict(
        height=400,
        showlegend=False,
        margin=dict(t=12),
        shapes=[unseen | dict(fillcolor="rgba(128, 128, 128, 0.12)", line=dict(width=0))],
        xaxis=dict(
            type="log",
            range=ends,
            tickvals=[64, 128, 256, 512],
            ticktext=["64<br>in training", "128", "256", "512"],
            tickangle=0,
            title=dict(text=f"{r.of} of context"),
        ),
        yaxis=dict(range=list(r.range), domain=[0, 0.87], title=dict(text=r.unit), tickvals=ticks, zeroline=False),
        xaxis2=dict(type="log", range=ends, visible=False, anchor="y2"),
        yaxis2=dict(range=[0, 1], domain=[0.89, 1], visible=False, anchor="x2"),
    )
    word = r.word()
    return dict(data=data, layout=layout), {
        "ends": f"{number(whole[0])} at 64, {number(whole[-1])} at {r.lengths[-1]}",
        "cut": f"cut {number(cut[-1])}" if shown else "not cut yet",
        "word": word if shown or word == "breaks" else "holds",
    }


cut = explorable(
    _cut,
    id="extrapolates.cut",
    title="Trained on 64, read on up to 512",
    alt="One trained model at a time. A solid line: its loss, or its share of wrong answers, as the context grows from "
    "64 to 512. A bar above says how far a query sees; its diamond can be dragged from the whole context to the "
    "training window, and a dashed line is added. NoPE rises, and its dashed line rises less. Model A runs "
    "level and its dashed line lies on it. Model B stays at zero, and its dashed line climbs to nearly nine wrong of "
    "ten.",
    readout="{ends} · {cut} · {word}",
    handles={"end of sight": "attention"},
    depends={"layout": ["model"], "whole": ["model"]},
    model=slider(list(MODELS), label="model", default="A"),
    attention=slider([WHOLE, CUT], label="attention"),
)
