r"""Explorables on trained models: distance against number of keys, the needle's distance."""

import functools
import math

import numpy as np

from posenc.lab.experiments import ONE_A_PLACE, load_results, mean_and_spread
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, heat, label, level, number, path, signed, tile, upright
from posenc.lab.titles import title
from posenc.lab.train.tasks import NEEDLE_VALUES
from posenc.methods import METHODS

load = functools.cache(functools.partial(load_results, methods=ONE_A_PLACE))
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down")


def added(results, method, keys, gap):
    r"""What each seed's loss gains by an unseen gap alone, by more keys alone, and by both: [3, seeds]."""
    grid = np.array(results["methods"][method]["distance_and_keys"])  # [seeds, keys, gaps]
    n, g = results["lengths"].index(keys), results["gaps"].index(gap)
    return np.stack([grid[:, 0, g], grid[:, n, 0], grid[:, n, g]]) - grid[:, 0, 0]


TRAINED, REACH = (64, 128, 256, 512), (0, 64, 192, 448)
MORE = [[0.0, "#f2f2f2"], [0.5, "#e3a36b"], [1.0, "#b35806"]]  # from the ground to the warm end of DIVERGING
PLACES = list(range(4))


def _maps():
    r"""{method: what each cell of the factorial adds to the loss of training}: mean and spread, [keys, gaps]."""
    for method, arm in load("train_short_test_long")["methods"].items():
        grid = np.array(arm["distance_and_keys"])
        more = grid - grid[:, :1, :1]
        yield title(method), more.mean(0), more.std(0, ddof=1)


def _distance_keys(method, keys, gap):
    maps, n, g = {name: of for name, *of in _maps()}, TRAINED.index(keys), REACH.index(gap)
    mean, spread = maps[method]
    said = [
        [f"{k} keys, gap {d}: {signed(m, 2)} ± {s:.2f} nats" for d, m, s in zip(REACH, *row)]
        for k, row in zip(TRAINED, zip(mean, spread))
    ]
    ground = dict(zmin=0, zmax=math.sqrt(1.5), colorscale=MORE, showscale=False, xgap=2, ygap=2)  # a root shows a tenth
    numbers = [number(value) for value in mean.flatten()]
    inks = ["#f2f2f2" if value > 0.6 else COLORS["ink"] for value in mean.flatten()]
    beside = {name: of[0][n, g] for name, of in maps.items()}
    marks = dict(pattern=dict(shape=["/" if name == method else "" for name in beside]))
    shown = dict(text=[number(value) for value in beside.values()], textposition="outside", cliponaxis=False)
    shown |= dict(orientation="h", panel=2, marker=marks)
    data = [
        heat("map", PLACES, PLACES, np.sqrt(np.where(mean < 0.005, 0, mean)), hover="%{text}", text=said, **ground),
        label("numbers", PLACES * 4, np.repeat(PLACES, 4), numbers, inks, "middle center", 11),
        tile("cell", g, n, 36),
        bars("this cell", list(beside.values()), [name.split("-")[0] for name in beside], "orange", **shown),
    ]
    ticks = axis(-0.5, 3.5, tickvals=PLACES, tickangle=0, ticks="", showgrid=False, zeroline=False)
    phone = dict(xaxis=dict(domain=[0, 0.54]), xaxis2=dict(domain=[0.8, 0.93]))
    layout = dict(
        height=400,
        showlegend=False,
        margin=dict(t=16),
        xaxis=ticks | dict(title=dict(text="unseen gap"), ticktext=[str(d) for d in REACH], domain=[0, 0.56]),
        yaxis=ticks | dict(title=dict(text="keys"), ticktext=[str(k) for k in TRAINED]),
        xaxis2=axis(0, 2, "added, nats", domain=[0.74, 0.95], anchor="y2", tickvals=[0, 1, 2]),
        yaxis2=axis(len(beside) - 0.4, -0.6, anchor="x2", type="category", ticks=""),
        meta=dict(phone=phone),
    )
    return dict(data=data, layout=layout), {"said": said[n][g]}


distance_keys = explorable(
    _distance_keys,
    title="Too far, or too many?",
    alt="A map of four by four cells for the method: to the right the unseen gap before the context grows, upward the "
    "number of keys; the lower left cell is training. The number in a cell, and its color, is what is added to the "
    "loss. A frame can be dragged from cell to cell; the bars at the right are that cell's, for every method. RoPE and "
    "the sinusoid change from left to right, NoPE from below to above, stick-breaking nowhere.",
    readout="{said}",
    handles={"cell": ("gap", "keys")},
    method=slider([name for name, *_ in _maps()], label="method"),
    keys=slider(TRAINED, label="number of keys", default=64),
    gap=slider(REACH, label="unseen gap", default=64),
)


def _needle(method, at):
    results = load("needle")
    key = next(m for m in METHODS if title(m) == method)
    runs, contexts, distances = results["methods"][key], results["contexts"], results["distances"]
    grid = np.array([[[math.nan if v is None else v for v in row] for row in seed] for seed in runs["grid"]])
    cut = np.array(runs["cut_row"])
    place = distances.index(at)
    guess, farthest = 1 - 1 / NEEDLE_VALUES, contexts[0] - 6
    ticks = [n for n in distances if not farthest <= n < contexts[0]]
    wrong, blind = grid.mean(0), cut.mean(0)
    ends = [int(np.isfinite(row).sum()) - 1 for row in wrong[1:-1]]  # of the lines between: that of training lies below
    apart = max(0.0, 0.08 - (blind[-1] - wrong[-1, -1])) / 2
    longest, heights = contexts[-1], [row[at] - 0.01 for row, at in zip(wrong[1:], ends)]
    alike = max(heights) < 0.03  # all lines are one at the foot, and share a name
    between = ["" if alike else f"of {n}" for n in contexts[1:-1]]
    x = [1.1 * distances[at] for at in ends]
    hovers = [f"{method}, context {n}, needle %{{x:d}} back: %{{y:.0%}} wrong" for n in contexts]
    looks = [("gray", 1.5, 7) if n < longest else ("blue", 4, 10) for n in contexts]
    blind_hover = f"{method}, attention cut, needle %{{x:d}} back: %{{y:.0%}} wrong"
    diamond = dict(symbol="diamond-open", size=11)
    ends_at = [wrong[-1, -1] - apart, blind[-1] + apart]
    names = [f"context<br>{'128–' if alike else 'of '}{longest}", f"cut to {contexts[0]}"]
    data = [
        path(str(n), distances, row, color, width, hover=hover, marker=dict(symbol=symbol, size=size))
        for n, row, hover, (color, width, size), symbol in zip(contexts, wrong, hovers, looks, SYMBOLS)
    ] + [
        path("cut", distances, blind, "orange", dash="dash", hover=blind_hover, marker=diamond),
        label("names", [1.3 * distances[-1]] * 2, ends_at, names, ["blue", "orange"], "middle right", cliponaxis=False),
        level("guessing", guess, 1, 2 * distances[-1], "gray", 1, "dot"),
        upright("farthest in training", farthest, -0.03, 1.03, "gray", 2, "dot"),
        upright("cursor", at, -0.03, 1.03, "ink", 2),
        label("names of shorter contexts", x, heights, between, "gray", "bottom right", halo=True, cliponaxis=False),
    ]
    tens = dict(type="log", tickvals=[*ticks, farthest], ticktext=[*map(str, ticks), f"{farthest}<br>in training"])
    first, last = math.log10(distances[0]) - 0.08, math.log10(distances[-1]) + 0.12
    shares = dict(tickvals=[0, 0.25, 0.5, guess], ticktext=["0", "25%", "50%", "guess"])
    layout = dict(height=440, showlegend=False, margin=dict(t=12, r=70))  # for the names
    layout |= dict(
        xaxis=axis(first, last, "distance of the needle, tokens", **tens),
        yaxis=axis(-0.03, 1.03, "wrong answers", **shares),
    )
    at_needle = {"whole": grid[:, -1, place], "cut": cut[:, place]}
    words = {name: "{:.2f} ± {:.2f}".format(*mean_and_spread(values)) for name, values in at_needle.items()}
    return dict(data=data, layout=layout), {"at": at, **words}


needle = explorable(
    _needle,
    title="Where is the needle lost?",
    alt="The share of wrong answers against the distance of the needle: a heavy line in the longest context, thin ones "
    "in shorter ones, and a dashed one with attention cut to the training window, which is at guessing for every "
    "needle beyond it. Dotted lines stand at guessing and at the farthest needle of training. An upright line to "
    "drag reads a distance off.",
    readout="needle {at} back · wrong {whole} · cut {cut}",
    handles={"cursor": "at"},
    method=slider(list(map(title, ONE_A_PLACE)), label="method", default="ALiBi"),
    at=slider(load("needle")["distances"], label="distance of the needle", default=load("needle")["distances"][-2]),
)
