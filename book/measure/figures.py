r"""Explorables on trained models: distance against number of keys, the needle's distance."""

import functools
import math

import numpy as np

from posenc.lab.experiments import ONE_A_PLACE, load_results, mean_and_spread
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, heat, label, level, line, path, signed, upright
from posenc.lab.short_long import short_long
from posenc.lab.train.tasks import NEEDLE_VALUES
from posenc.methods import METHODS

load = functools.cache(functools.partial(load_results, methods=ONE_A_PLACE))
SYMBOLS = ("circle", "square", "triangle-up", "diamond", "triangle-down")


def title(method):
    return METHODS[method].title


def added(results, method, keys, gap):
    r"""What each seed's loss gains by an unseen gap alone, by more keys alone, and by both: [3, seeds]."""
    grid = np.array(results["methods"][method]["distance_and_keys"])  # [seeds, keys, gaps]
    n, g = results["lengths"].index(keys), results["gaps"].index(gap)
    return np.stack([grid[:, 0, g], grid[:, n, 0], grid[:, n, g]]) - grid[:, 0, 0]


TRAINED, REACH = (64, 128, 256, 512), (0, 64, 192, 448)
MORE = [[0.0, "#f2f2f2"], [0.5, "#e3a36b"], [1.0, "#b35806"]]  # from the ground to the warm end of DIVERGING
SHARES = (0, 0.5, 1.5)  # of the color's scale, in nats: it goes by the root, so that a tenth is still seen
PLACES = list(range(4))


def _maps():
    r"""{method: what each cell of the factorial adds to the loss of training}: mean and spread, [keys, gaps]."""
    for method, arm in load("train_short_test_long")["methods"].items():
        grid = np.array(arm["distance_and_keys"])
        more = grid - grid[:, :1, :1]
        yield title(method), more.mean(0), more.std(0, ddof=1)


def _words(x, y, text, low, **more):
    r"""Words on the picture, in shares of its width and height."""
    where = dict(xref="paper", yref="paper", x=x, y=y, xanchor=low, yanchor="bottom")
    return dict(text=text, showarrow=False, **where, **more)


def _distance_keys(keys, gap):
    n, g = TRAINED.index(keys), REACH.index(gap)
    data, axes, titles, sums = [], {}, [], {}
    scale = dict(orientation="h", x=0.855, xanchor="center", y=0.26, yanchor="top", len=0.29, thickness=14, tickangle=0)
    scale |= dict(tickvals=[math.sqrt(value) for value in SHARES], ticktext=[f"{value:g}" for value in SHARES])
    ticks = axis(-0.5, 3.5, tickvals=PLACES, tickangle=0, ticks="", showgrid=False, zeroline=False)
    ticks |= dict(tickfont=dict(size=10))
    for place, (name, mean, spread) in enumerate(_maps()):  # three in a row
        tag, sums[name] = "" if place == 0 else str(place + 1), mean[n, g]
        left, low = 0.355 * (place % 3), 0.56 - 0.56 * (place // 3)
        at = dict(xaxis=f"x{tag}", yaxis=f"y{tag}")
        said = [
            [f"{name}, {k} keys, gap {d}: {signed(m, 2)} ± {s:.2f} nats" for d, m, s in zip(REACH, *row)]
            for k, row in zip(TRAINED, zip(mean, spread))
        ]
        colors = dict(zmin=0, zmax=math.sqrt(SHARES[-1]), colorscale=MORE, showscale=place == 0, colorbar=scale)
        map_of = dict(hover="%{text}", text=said, xgap=1, ygap=1, **colors, **at)
        x = [g - 0.5, g + 0.5, g + 0.5, g - 0.5, g - 0.5, math.nan, g]
        y = [n - 0.5, n - 0.5, n + 0.5, n + 0.5, n - 0.5, math.nan, n]
        data.append(heat(name, PLACES, PLACES, np.sqrt(np.maximum(mean, 0)), **map_of))
        data.append(line(f"cursor on {name}", x, y, "ink", 3, **at))
        across = dict(domain=[left, left + 0.29], anchor=f"y{tag}")
        up = dict(domain=[low, low + 0.34], anchor=f"x{tag}")
        axes[f"xaxis{tag}"] = ticks | across | dict(ticktext=[str(d) for d in REACH], showticklabels=place >= 2)
        axes[f"yaxis{tag}"] = ticks | up | dict(ticktext=[str(k) for k in TRAINED], showticklabels=place % 3 == 0)
        if place in (3, 4):
            axes[f"xaxis{tag}"]["title"] = dict(text="unseen gap")
        if place % 3 == 0:
            axes[f"yaxis{tag}"]["title"] = dict(text="keys")
        titles.append(_words(left, low + 0.34, f"<b>{name}</b><br>{signed(mean[n, g], 2)}", "left", align="left"))
    titles.append(_words(0.855, 0.27, "added to the<br>loss, nats", "center"))
    few = dict(tickvals=[0, 3], ticktext=[str(REACH[0]), str(REACH[-1])])
    phone = {frame: few for frame in axes if frame.startswith("x")}
    layout = dict(height=470, showlegend=False, annotations=titles, margin=dict(t=16), meta=dict(phone=phone), **axes)
    most, least = max(sums, key=sums.get), min(sums, key=sums.get)
    words = {"most": f"{most} {signed(sums[most], 2)}", "least": f"{least} {signed(sums[least], 2)}"}
    return dict(data=data, layout=layout), words


distance_keys = explorable(
    _distance_keys,
    id="measure.distance_keys",
    title="Too far, or too many?",
    alt="One map of four by four cells for each method: to the right the unseen gap before the context grows, upward "
    "the number of keys; the lower left cell is training. The stronger the color, the more is added to the loss. A "
    "frame stands on the same cell of every map and can be dragged on that of RoPE; the numbers above are that cell's. "
    "RoPE and the sinusoid change from left to right, NoPE from below to above, stick-breaking nowhere.",
    readout="most: {most} · least: {least}",
    handles={"cursor on RoPE": ("gap", "keys")},
    keys=slider(TRAINED, label="number of keys", default=256),
    gap=slider(REACH, label="unseen gap", default=192),
)


def _needle(method, at):
    results = load("needle")
    key = next(m for m in METHODS if title(m) == method)
    runs, contexts, distances = results["methods"][key], results["contexts"], results["distances"]
    grid = np.array([[[math.nan if v is None else v for v in row] for row in seed] for seed in runs["grid"]])
    cut = np.array(runs["cut_row"])
    place = distances.index(at)
    guess, farthest = 1 - 1 / NEEDLE_VALUES, contexts[0] - 10
    ticks = [n for n in distances if not farthest <= n < contexts[0]]
    wrong, blind = grid.mean(0), cut.mean(0)
    ends = [int(np.isfinite(row).sum()) - 1 for row in wrong[1:-1]]  # of the lines between: that of training lies below
    apart = max(0.0, 0.08 - (blind[-1] - wrong[-1, -1])) / 2
    # The names of lines that end below stand one above the other, the farther beside its needle.
    places = [(row[at], row[at] < 0.05, 0.02 + 0.08 * i) for i, (row, at) in enumerate(zip(wrong[1:], ends))]
    x = [distances[at] * (0.95 if low else 1.1) for at, (_, low, _) in zip(ends, places)]
    y = [y + (above if low else -0.01) for y, low, above in places]
    sides = ["top left" if low else "bottom right" for _, low, _ in places]
    between = [f"of {n}" for n in contexts[1:-1]]
    longest = contexts[-1]
    hovers = [f"{method}, context {n}, needle %{{x:d}} back: %{{y:.0%}} wrong" for n in contexts]
    looks = [("gray", 1.5, 7) if n < longest else ("blue", 4, 10) for n in contexts]
    blind_hover = f"{method}, attention cut, needle %{{x:d}} back: %{{y:.0%}} wrong"
    diamond = dict(symbol="diamond-open", size=11)
    ends_at, names = [wrong[-1, -1] - apart, blind[-1] + apart], [f"context<br>of {longest}", f"cut to {contexts[0]}"]
    data = [
        path(str(n), distances, row, color, width, hover=hover, marker=dict(symbol=symbol, size=size))
        for n, row, hover, (color, width, size), symbol in zip(contexts, wrong, hovers, looks, SYMBOLS)
    ] + [
        path("cut", distances, blind, "orange", dash="dash", hover=blind_hover, marker=diamond),
        label("names", [1.3 * distances[-1]] * 2, ends_at, names, ["blue", "orange"], "middle right", cliponaxis=False),
        level("guessing", guess, 1, 2 * distances[-1], "gray", 1, "dot"),
        upright("farthest in training", farthest, -0.03, 1.03, "gray", 2, "dot"),
        upright("cursor", at, -0.03, 1.03, "ink", 2),
        label("names of shorter contexts", x, y, between, "gray", sides, halo=True, cliponaxis=False),
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
    id="measure.needle",
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

longer = short_long(
    "measure",
    "rope",
    "The chosen method is blue. NoPE, the sinusoid and RoPE rise, ALiBi and stick-breaking stay level.",
    ONE_A_PLACE,
)
