r"""Explorables on "trained short, tested long": one figure, which each chapter opens at its own method."""

import functools
import math
from collections.abc import Sequence

from posenc.lab.experiments import load_results, mean_and_spread
from posenc.lab.explore import COLORS, Explorable, explorable, slider
from posenc.lab.explore.parts import apart, axis, label, leaders, line, path, upright
from posenc.lab.titles import title

RESULTS = load_results("train_short_test_long")
LENGTHS = RESULTS["lengths"]
LOW, HIGH = 1.2, 3.75  # of the plot, in nats per character
APART = 0.145  # nats between the names at the right: they stand apart on a phone too
HOVER = (
    "%{text}, %{x} characters:<br>%{customdata[0]:.2f} ± %{customdata[1]:.2f} nats, %{customdata[2]:.0f} seeds;"
    "<br>cut %{customdata[3]:.2f}"
)


def summary(method: str) -> list[list[float]]:
    r"""Of a method, at each length: mean and spread of its loss over seeds, how many seeds, mean with attention cut."""
    whole, cut = (zip(*RESULTS["methods"][method][kind]) for kind in ("whole", "cut"))
    return [[*mean_and_spread(w), len(w), mean_and_spread(c)[0]] for w, c in zip(whole, cut)]


SUMMARY = {method: summary(method) for method in RESULTS["methods"]}
#: from the lowest loss at the longest context to the highest: the control walks up the right side
RANKED = sorted(SUMMARY, key=lambda method: SUMMARY[method][-1][0])


def curve(name, method, column, color, dash, symbol, width):
    r"""A method's means at each length: column 0 of its summary, or 3 with attention cut.

    "Every method" lies under the whole ones and answers the pointer for them.
    """
    hover = f"{title(method)}, %{{x}} characters:<br>cut %{{y:.2f}} nats" if name == "cut" else None
    y, marker = [row[column] for row in SUMMARY[method]], dict(symbol=symbol, size=8)
    return path(name, LENGTHS, y, color, width, dash, hover=hover, marker=marker)


def band(name, method, color, opacity):
    r"""One standard deviation over seeds to either side of the means."""
    rows, x = SUMMARY[method], [*LENGTHS, *reversed(LENGTHS)]
    edge = [*(row[0] - row[1] for row in rows), *(row[0] + row[1] for row in reversed(rows))]
    return line(name, x, edge, color, 0, fill="toself", fillcolor=color, opacity=opacity)


def _short_long(method, beside, length):
    method, other = next(name for name in RANKED if title(name) == method), RANKED[beside]
    at, gap = LENGTHS.index(length), [math.nan] * 4
    pale = [row for name in RANKED for row in (*SUMMARY[name], gap)]
    blue, orange, purple = map(COLORS.get, ("blue", "orange", "purple"))
    words = {f"cut to {LENGTHS[0]}": (method, 3, purple), title(method): (method, 0, blue)}
    if other != method:
        words |= {title(other): (other, 0, orange), f"{title(other)}, cut": (other, 3, orange)}
    ends = [SUMMARY[name][-1][column] for name, column, _ in words.values()]
    places, right = apart(ends, APART, LOW), LENGTHS[-1] * 1.25
    texts = [word for name in RANKED for word in (*[title(name)] * len(LENGTHS), "")]
    xs, ys = [x for _ in RANKED for x in (*LENGTHS, math.nan)], [row[0] for row in pale]
    rings = dict(symbol="circle-open", size=13, line=dict(width=2))
    colors = [color for *_, color in words.values()]
    named = dict(place="middle right", size=11, halo=True, cliponaxis=False)
    data = [
        line("every method", xs, ys, "gray", 1, hover=HOVER, opacity=0.6, text=texts, customdata=pale),
        upright("context", length, LOW, HIGH, "ink", 2, "dot"),
        band("spread beside", other, orange, 0.2),
        curve("cut beside", other, 3, orange, "dash", "square-open", 1.5),
        curve("beside", other, 0, orange, "solid", "square", 2),
        band("spread", method, blue, 0.3),
        curve("whole", method, 0, blue, "solid", "circle", 5) | dict(opacity=0.6),
        curve("cut", method, 3, purple, "dash", "circle-open", 2.5) | dict(marker=rings),
        leaders(ends, places, LENGTHS[-1] * 1.05, right * 0.98),
        label("names", [right] * len(words), places, list(words), colors, **named),
    ]
    first, last = math.log10(LENGTHS[0]), math.log10(LENGTHS[-1])
    ticks = dict(type="log", tickvals=LENGTHS, ticktext=[str(n) for n in LENGTHS])
    layout = dict(height=440, showlegend=False, margin=dict(t=12))
    layout |= dict(
        meta=dict(phone=dict(xaxis=axis(first - 0.04, last + 0.74))),  # room for the names
        xaxis=axis(first - 0.04, last + 0.36, f"characters of context; {LENGTHS[0]} in training", **ticks),
        yaxis=axis(LOW, HIGH, "loss, nats per character"),
    )
    mean, spread, _, cut = SUMMARY[method][at]
    whole = f"{title(method)} at {length}: {mean:.2f} ± {spread:.2f}"
    said = {"whole": whole, "cut": cut, "beside": title(other), "loss": SUMMARY[other][at][0]}
    return dict(data=data, layout=layout), said


def short_long(page: str, beside: str, see: str, own: Sequence[str] = ()) -> Explorable:
    r"""The figure of a page: at its method, or at the first of several to choose from, with another one beside it."""
    names, ranks = list(map(title, own or [page])), range(len(RANKED))
    several = len(names) > 1
    return explorable(
        _short_long if several else functools.partial(_short_long, names[0]),
        id=f"{page}.longer",
        title=f"Trained on {LENGTHS[0]} characters, read on up to {LENGTHS[-1]}",
        alt=f"The loss on the same characters as the context before them grows. {see} Solid lines are means with all "
        f"of the context, bands one standard deviation over {len(RESULTS['seeds'])} seeds. Dashed lines are the same "
        "models with attention cut to the training window: what parts solid from dashed is the doing of far keys. Thin "
        "gray lines are the other methods; point at one for its numbers. The upright line can be dragged to another "
        "context, the end of the orange line to another method.",
        readout="{whole} · cut {cut:.2f} · {beside} {loss:.2f}",
        handles={"context": "length", "beside": "beside"},
        **({"method": slider(names, label="method")} if several else {}),
        beside=slider(ranks, label="versus", default=RANKED.index(beside), format=lambda n: title(RANKED[n])),
        length=slider(LENGTHS, label="context", default=LENGTHS[-2]),
    )
