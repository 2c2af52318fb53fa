r"""Explorables on trained models: distance against number of keys, attention cut, the needle's distance."""

import functools
import math

import numpy as np

from posenc.lab.experiments import ONE_A_PLACE, load_results, mean_and_spread
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.train.tasks import NEEDLE_VALUES
from posenc.methods import METHODS

load = functools.cache(functools.partial(load_results, methods=ONE_A_PLACE))
HUES = ("gray", "blue", "orange", "green", "purple", "sky", "red", "yellow", "ink")
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down", "x", "star", "cross", "pentagon")
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")


def title(method):
    return METHODS[method].title


def signed(value):
    """A change in words: no minus before a zero."""
    return "0.00" if abs(value) < 0.005 else f"{value:+.2f}".replace("-", "−")


# ------------------------------------------------------------------------------------------- distance, number of keys


def added(results, method, keys, gap):
    r"""What each seed's loss gains by an unseen gap alone, by more keys alone, and by both: [3, seeds]."""
    grid = np.array(results["methods"][method]["distance_and_keys"])  # [seeds, keys, gaps]
    n, g = results["lengths"].index(keys), results["gaps"].index(gap)
    return np.stack([grid[:, 0, g], grid[:, n, 0], grid[:, n, g]]) - grid[:, 0, 0]


CELLS = ("distance alone", "keys alone", "both")


def _distance_keys(keys, gap, *, results=None):
    results = load("train_short_test_long") if results is None else results
    methods = list(results["methods"])
    losses = np.stack([added(results, method, keys, gap) for method in methods])  # [methods, 3, seeds]
    mean = losses.mean(-1)
    grids = [np.array(results["methods"][method]["distance_and_keys"]) for method in methods]
    top = max((grid - grid[:, :1, :1]).max() for grid in grids)
    at = np.arange(len(methods))
    data = [
        dict(
            type="bar",
            name=name,
            x=at + 0.27 * (place - 1),
            y=mean[:, place],
            width=0.25,
            marker=dict(color=COLORS[color], pattern=dict(shape=shape, solidity=0.35)),
        )
        for place, (name, color, shape) in enumerate(zip(CELLS, ("sky", "orange", "gray"), ("", "/", "x")))
    ] + [
        dict(
            type="scatter",
            name="each seed",
            mode="markers",
            y=losses.flatten(),
            x=np.repeat([i + 0.27 * (place - 1) for i in at for place in range(3)], losses.shape[-1]),
            marker=dict(color=COLORS["ink"], size=5, symbol="circle-open"),
        )
    ]
    layout = dict(
        height=420,
        barmode="overlay",
        xaxis=dict(range=[-0.6, len(methods) - 0.4], tickvals=at, ticktext=[title(method) for method in methods]),
        yaxis=dict(range=[-0.1, 1.1 * top], title=dict(text="added to the loss, nats")),
    )
    words = ", ".join(f"{title(method)} {signed(value)}" for method, value in zip(methods, mean[:, 2]))
    return dict(data=data, layout=layout), {"words": words}


TRAINED, REACH = (64, 128, 256, 512), (0, 64, 192, 448)

distance_keys = explorable(
    _distance_keys,
    id="measure.distance_keys",
    title="Too far, or too many?",
    alt="Three bars for each method: what is added to its loss, in nats per character, when the distance to the "
    "context grows beyond training and the number of keys stays, when keys are added and no distance is new, and when "
    "both happen, with a ring for each seed. RoPE and the sinusoid rise by distance, NoPE by keys.",
    readout="both together add: {words}",
    depends={"distance alone": ["gap"], "keys alone": ["keys"], "both": ["keys", "gap"], "readout": ["keys", "gap"]},
    keys=slider(TRAINED, label="number of keys (64 in training)", default=256),
    gap=slider(REACH, label="unseen gap before the targets, in positions", default=0),
)


# ------------------------------------------------------------------------------------------------------ attention cut

CUTS = tuple(2**power for power in range(10))


def _context_cut(keys, *, results=None):
    results = load("train_short_test_long") if results is None else results
    cuts, shown = results["cuts"], results["cuts"].index(keys) + 1
    means = {m: np.array(values["context_cut"]).mean(0) for m, values in results["methods"].items()}
    top = max(mean.max() for mean in means.values())
    bottom = min(mean.min() for mean in means.values())
    pad = 0.05 * (top - bottom)
    data = [
        dict(
            type="scatter",
            name=title(method),
            x=cuts[:shown],
            y=mean[:shown],
            mode="lines+markers",
            line=dict(color=COLORS[color], width=2, dash=dash),
            marker=dict(symbol=symbol, size=8),
        )
        for (method, mean), color, symbol, dash in zip(means.items(), HUES, SYMBOLS, DASHES * 2)
    ] + [
        dict(
            type="scatter",
            name="whole context",
            x=[cuts[-1]] * len(means),
            y=[mean[-1] for mean in means.values()],
            mode="markers",
            marker=dict(symbol=[f"{s}-open" for s in SYMBOLS[: len(means)]], size=14, color=COLORS["ink"]),
        ),
        dict(
            type="scatter",
            name="training length",
            x=[results["lengths"][0]] * 2,
            y=[bottom - pad, top + pad],
            mode="lines",
            line=dict(color=COLORS["gray"], dash="dot", width=2),
        ),
    ]
    layout = dict(
        height=480,
        xaxis=dict(
            type="log",
            range=[-0.08, math.log10(cuts[-1]) + 0.08],
            tickvals=cuts,
            ticktext=[str(n) for n in cuts],
            title=dict(text="keys that a query may see"),
        ),
        yaxis=dict(range=[bottom - pad, top + pad], title=dict(text="loss, nats per character")),
    )
    now = {method: (mean[shown - 1], mean[shown - 1] - mean[-1]) for method, mean in means.items()}
    words = ", ".join(f"{title(method)} {loss:.2f} ({signed(change)})" for method, (loss, change) in now.items())
    return dict(data=data, layout=layout), {"words": words}


context_cut = explorable(
    _context_cut,
    id="measure.context_cut",
    title="How much of the context does it use?",
    alt="The loss of each trained method against the number of keys that a query may see, revealed up to the chosen "
    "cut; open marks at the right show the loss with the whole context, a dotted line the training length. All fall "
    "steeply over the first keys and are level before the training length. Beyond it RoPE and the sinusoid rise.",
    readout="loss (against the whole context): {words}",
    depends={"whole context": [], "training length": []},
    keys=slider(CUTS, label="keys that a query may see", default=8),
)


# ------------------------------------------------------------------------------------------------------------- needle


def _needle(method, attention, *, results=None):
    results = load("needle") if results is None else results
    key = next(m for m in METHODS if title(m) == method)
    runs, contexts, distances = results["methods"][key], results["contexts"], results["distances"]
    whole = attention == "whole"

    def row(context):
        values = [[math.nan if v is None else v for v in grid[context]] for grid in runs["grid"]]
        return np.array(values).mean(0)

    data = [
        dict(
            type="scatter",
            name=f"context {n}",
            x=distances if whole else [],
            y=row(i) if whole else [],
            mode="lines+markers",
            line=dict(color=COLORS[color], dash=dash),
            marker=dict(symbol=symbol, size=9),
        )
        for i, (n, color, symbol, dash) in enumerate(zip(contexts, ("sky", "blue", "purple", "ink"), SYMBOLS, DASHES))
    ] + [
        dict(
            type="scatter",
            name=f"context {contexts[-1]}, cut",
            x=[] if whole else distances,
            y=[] if whole else np.array(runs["cut_row"]).mean(0),
            mode="lines+markers",
            line=dict(color=COLORS["orange"], dash="dash"),
            marker=dict(symbol="diamond-open", size=11),
        ),
        dict(
            type="scatter",
            name="guessing",
            x=[distances[0], distances[-1]],
            y=[1 - 1 / NEEDLE_VALUES] * 2,
            mode="lines",
            line=dict(color=COLORS["gray"], width=1, dash="dot"),
        ),
        dict(
            type="scatter",
            name="farthest in training",
            x=[contexts[0] - 10] * 2,
            y=[-0.03, 1.03],
            mode="lines",
            line=dict(color=COLORS["gray"], width=2, dash="dot"),
        ),
    ]
    layout = dict(
        height=440,
        xaxis=dict(
            type="log",
            range=[math.log10(distances[0]) - 0.05, math.log10(distances[-1]) + 0.05],
            tickvals=sorted(set(distances)),
            ticktext=[str(d) for d in sorted(set(distances))],
            title=dict(text="distance of the needle, tokens"),
        ),
        yaxis=dict(range=[-0.03, 1.03], title=dict(text="share of wrong answers")),
    )
    near, far = ("near", "far") if whole else ("near, cut", "far, cut")
    scores = {name: mean_and_spread(runs["scores"][name]) for name in ("in", near, far)}
    words = ", ".join(f"{name} {mean:.2f} ± {spread:.2f}" for name, (mean, spread) in scores.items())
    return dict(data=data, layout=layout), {"words": f"{method}: {words}"}


needle = explorable(
    _needle,
    id="measure.needle",
    title="Where is the needle lost?",
    alt="The share of wrong answers against the distance of the needle, one line for each length of the context, with "
    "dotted lines for guessing and for the farthest needle of training.",
    readout="{words}",
    depends={"guessing": [], "farthest in training": []},
    method=slider([title(m) for m in ONE_A_PLACE], label="method", default="ALiBi"),
    attention=slider(["whole", "cut to the training window"], label="attention"),
)
