r"""Explorables on the frozen results: what a longer context costs each method, and the puzzles with every seed."""

import functools
import math
import statistics

import numpy as np

from posenc.lab.experiments import load_results, mean_and_spread
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import HALO, apart, axis, dots, held, label, leaders, line, path, signed
from posenc.methods import METHODS

load = functools.cache(load_results)
TEXT = "train_short_test_long"
#: the first place where a method acts -> its lines and dots
LOOK = {
    None: ("gray", "dot", "circle"),
    "embed": ("orange", "dash", "square"),
    "rotate": ("blue", "solid", "triangle-up"),
    "bias": ("green", "solid", "diamond"),
    "weigh": ("purple", "longdash", "star"),
}
BOTTOM, TOP = 1.25, 3.75
GAP = 0.115  # nats between the names of two lines, so that they stand apart on a phone
CURVES = list(load(TEXT)["methods"])


def named(ends: list, chosen: int) -> dict[int, float]:
    """Line -> height of its name: all of them, or, where they would fan out, the chosen, the outermost, the free."""
    places = dict(enumerate(apart(ends, GAP, BOTTOM)))
    if all(abs(place - end) < 2 * GAP for place, end in zip(places.values(), ends)):
        return places
    falling = sorted(places, key=ends.__getitem__, reverse=True)
    first = list(dict.fromkeys((chosen, falling[0], falling[-1])))
    kept = dict(zip(first, apart([ends[one] for one in first], GAP, BOTTOM)))
    for one in falling:
        if one not in kept and all(abs(ends[one] - place) >= GAP for place in kept.values()):
            kept[one] = ends[one]
    return kept


def short(name: str) -> str:
    """A method's name where a phone has little room."""
    return METHODS[name].title.removeprefix("Softmax with a ")


@functools.cache
def losses(name: str, kind: str) -> np.ndarray:
    """A method's losses on text, [seeds, lengths]."""
    return np.array(load(TEXT)["methods"][name][kind])


def row(name: str) -> list[str]:
    """What the tooltip of a method says at each length: few words, so that they leave the plot in sight on a phone."""
    said = []
    for length, *both in zip(load(TEXT)["lengths"], losses(name, "whole").T, losses(name, "cut").T):
        whole, cut = ("{:.2f} ± {:.2f}".format(*mean_and_spread(values)) for values in both)
        said.append(f"{short(name)}, {length}: {whole}<br>cut {cut}")
    return said


def _slopes(attention, method):
    kind = "whole" if attention == "whole" else "cut"
    lengths, chosen = load(TEXT)["lengths"], CURVES[method]
    means = {name: losses(name, kind).mean(0).tolist() for name in CURVES}
    ends = [means[name][-1] for name in CURVES]
    names, beside = named(ends, method), lengths[-1] * 1.14
    written = [f"<b>{short(chosen)}</b>" if one == method else short(CURVES[one]) for one in names]
    font = dict(size=11, shadow=HALO)
    data = []
    for name in CURVES:
        color, dash, symbol = LOOK[next(iter(METHODS[name].places), None)]
        said = dict(hover="%{text}", text=row(name), marker=dict(symbol=symbol, size=6))
        data.append(path(METHODS[name].title, lengths, means[name], color, 1.6, dash, **said))
    data += [
        leaders([ends[one] for one in names], names.values(), lengths[-1] * 1.02, beside * 0.985),
        dots("names", [beside] * len(names), list(names.values()))
        | dict(mode="text", text=written, textposition="middle right", textfont=font),
        path("the one in hand", lengths, means[chosen], "ink", 4, marker=dict(size=10)),
    ]
    across = (math.log10(lengths[0]) - 0.03, math.log10(lengths[-1]) + 0.47)
    ticks = dict(type="log", tickvals=lengths, ticktext=[str(n) for n in lengths])
    layout = dict(
        height=480,
        showlegend=False,
        margin=dict(t=12),
        xaxis=axis(*across, "characters of context; 64 in training", **ticks),
        yaxis=axis(BOTTOM, TOP, "loss, nats per character"),
    )
    rise, spread = mean_and_spread(losses(chosen, kind)[:, -1] - losses(chosen, kind)[:, 0])
    return dict(data=data, layout=layout), {
        "who": METHODS[chosen].title,
        "ends": f"{means[chosen][0]:.2f} → {means[chosen][-1]:.2f}",
        "rise": f"{signed(rise, 2)} ± {spread:.2f}",
    }


slopes = explorable(
    _slopes,
    title="Trained on 64 characters, read on up to 512",
    alt="The loss of each method at four lengths of context, a line each, its name at the right end; where many "
    "run together, only the chosen and the outermost have theirs. With the whole "
    "context, RoPE, ExpoSB, the learned table, the sinusoid and T5 climb steeply, FIRE, CoPE, NoPE, the sink and "
    "Inkling less, and the others run level. With attention cut to the 64 characters of training, RoPE, ExpoSB, T5, "
    "CoPE and Inkling run level too, NoPE and the sink rise less, the sinusoid and the learned table a little less, "
    "FIRE as before. "
    "Colors and dashes tell where a method acts: bias green, rotate blue, embed orange and dashed, weigh purple. Point "
    "at a mark for its numbers, or drag the heavy end along the right side.",
    readout="{who} · {ends} nats · rise {rise}",
    handles={"the one in hand": "method"},
    attention=slider(["whole", "cut to 64"], label="attention"),
    method=slider(
        range(len(CURVES)), label="method", default=CURVES.index("rope"), format=lambda i: METHODS[CURVES[i]].title
    ),
)


#: puzzle -> its experiment, and what is outside of training
PUZZLES = {
    "needle": ("needle", "a farther needle"),
    "recall": ("recall", "twice the pairs"),
    "flip-flop": ("flipflop", "hardly any writes"),
    "copy": ("selective_copy", "three times the blanks"),
    "count": ("counting", "four times as long"),
}
LEARNED = 0.1  # more wrong answers than this within training's own setting: the puzzle was not learned


def _puzzles(puzzle):
    experiment, beyond = PUZZLES[puzzle]
    result = load(experiment)
    inside, outside = result["contrast"]
    scores = {name: values["scores"] for name, values in result["methods"].items()}
    mean = {name: tuple(statistics.fmean(s[column]) for column in (inside, outside)) for name, s in scores.items()}
    able = {name: pair[0] <= LEARNED for name, pair in mean.items()}
    order = sorted(scores, key=lambda name: (not able[name], mean[name][1]))
    at = {name: len(order) - 1 - i for i, name in enumerate(order)}

    def marks(name, column, symbol, size, color, said):
        x, places, names = zip(*((score, at[m], m) for m in order for score in scores[m][column]))
        words = [f"{METHODS[m].title}, {said}: {wrong:.1%} wrong" for wrong, m in zip(x, names)]
        pale = dict(opacity=[1 if able[m] else 0.4 for m in names])
        return dots(name, list(x), list(places), color, size, symbol, marker=pale, hover="%{text}", text=words)

    x = [x for m in order for x in (*mean[m], math.nan)]
    y = [y for m in order for y in (at[m], at[m], math.nan)]
    data = [
        line("means", x, y, "gray", 5, opacity=0.5),
        marks("outside", outside, "diamond", 8, "orange", beyond),
        marks("as trained", inside, "circle-open", 12, "blue", "as trained"),
    ]
    words = "wrong answers, a mark a seed; ✗ not learned in the mean"
    names = dict(tickvals=list(at.values()), ticktext=[METHODS[m].title + " (✗)" * (not able[m]) for m in order])
    layout = dict(
        height=460,
        xaxis=axis(-0.1, 1.02, words, tickvals=[0, 0.5, 1], ticktext=["0", "50%", "100%"]),
        yaxis=axis(-0.6, len(order) - 0.4, zeroline=False, **names),
        meta=dict(phone=dict(xaxis=dict(title=dict(text=words.replace("; ", ";<br>"))))),
    )
    best = next((m for m in order if able[m]), None)
    return dict(data=data, layout=layout), {
        "outside": beyond,
        "best": f"{METHODS[best].title} {mean[best][1]:.0%}" if best else "none",
        "learned": f"{sum(able.values())} of {len(able)}",
    }


puzzles = explorable(
    _puzzles,
    title="Five puzzles, every seed",
    alt="Wrong answers of each method in a puzzle, a mark a seed: rings as trained, diamonds outside of training, a "
    "bar from mean to mean. A long bar without a cross is a method that knows the puzzle and loses it elsewhere. "
    "Methods with a cross, pale at the foot, did not learn the puzzle in the mean; single seeds may have.",
    readout="outside: {outside} · {learned} learn it · lowest {best}",
    puzzle=slider(list(PUZZLES), label="puzzle", default="recall"),  # the needle is asked for first
)


#: what is trained -> its experiment
TRAINED = {"text": TEXT} | {puzzle: experiment for puzzle, (experiment, _) in PUZZLES.items()}


@functools.cache
def trained(experiment: str) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Method -> its training loss, the mean over seeds of the mean of ten steps each, and the spread over seeds."""
    curves = {name: np.array(arm["curve"]) for name, arm in load(experiment)["methods"].items()}
    return {name: (curve.mean(0), curve.std(0, ddof=1)) for name, curve in curves.items()}


def _training(task, method):
    curves, chosen = trained(TRAINED[task]), CURVES[method]
    at = 10 * np.arange(len(curves[chosen][0])) + 5
    top = max(mean[0] for mean, _ in curves.values())
    mean, spread = curves[chosen]
    around = np.concatenate((mean - spread, (mean + spread)[::-1])).clip(0)
    band = dict(fill="toself", fillcolor="rgba(128, 128, 128, 0.35)")
    x = np.concatenate([np.append(at, math.nan) for _ in curves])
    y = np.concatenate([np.append(other, math.nan) for other, _ in curves.values()])
    said, who = f"{METHODS[chosen].title}, step %{{x}}: %{{y:.2f}}", METHODS[chosen].title
    data = [
        line("all methods", x, y, "gray", 0.8),
        line("one deviation", np.concatenate((at, at[::-1])), around, "gray", 0, **band),
        line("the one in hand", at, mean, "ink", 3, hover=said),
        held("its end", at[-1], mean[-1]),
        label("its name", at[-1], mean[-1] + 0.04 * top, f"<b>{who}</b>", "ink", "top left", halo=True),
    ]
    layout = dict(
        height=380,
        showlegend=False,
        margin=dict(t=12),
        xaxis=axis(0, 1.03 * at[-1], "step of training"),
        yaxis=axis(0, 1.05 * top, "training loss, nats"),
    )
    return dict(data=data, layout=layout), {"who": who, "ends": f"{mean[-1]:.2f} ± {spread[-1]:.2f}"}


training = explorable(
    _training,
    title="How each trained",
    alt="The training loss of all methods at each step as thin gray lines, and of one, the mean over seeds, as a heavy "
    "line in a band of one standard deviation, with its name. Drag its end up or down to another method's.",
    readout="{who} ends at {ends} nats",
    handles={"its end": "method"},
    task=slider(list(TRAINED), label="trained on"),
    method=slider(
        range(len(CURVES)), label="method", default=CURVES.index("rope"), format=lambda i: METHODS[CURVES[i]].title
    ),
)
