r"""The explorable of *One model, five encodings*: its training curves, and its losses in longer contexts."""

import functools
import math

from posenc.lab.experiments import load_results, mean_and_spread
from posenc.lab.experiments.report import ARMS, OBJECTIVES, REPORTED
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.figures.parts import apart, label, leaders, number
from posenc.methods import METHODS

TITLES = {arm: METHODS[arm].title if arm in METHODS else arm.capitalize() for arm in ARMS}
TRAINING, LENGTH = "training", "by length"
ALL = "all nine"
#: Words of a choice -> the arms that are drawn.
SHOWN = {"the report's five": REPORTED, ALL: tuple(ARMS)}
#: arm -> its line and mark: the report's five thick and in color, the others thin and gray.
LOOK = {
    "absolute": ("orange", "dash", "square"),
    "standard": ("ink", "longdash", "circle"),
    "rope": ("blue", "solid", "triangle-up"),
    "exposb": ("green", "dashdot", "diamond"),
    "rse": ("purple", "dot", "star"),
    "nope": ("gray", "dot", "circle-open"),
    "sinusoidal": ("gray", "dash", "square-open"),
    "alibi": ("gray", "solid", "diamond-open"),
    "stickbreaking": ("gray", "dashdot", "star-open"),
}
#: objective, what is shown -> the least and the greatest loss that is drawn.
RANGES = {
    ("causal", TRAINING): (1.3, 3.2),
    ("masked", TRAINING): (1.7, 3.3),
    ("causal", LENGTH): (1.35, 3.35),
    ("masked", LENGTH): (1.8, 3.05),
}
GAP = 0.052  # of the range, between two names
EVERY = 10  # steps, whose mean loss is a number of a curve


@functools.cache
def results(objective: str) -> dict:
    """The frozen sweep of an objective."""
    return load_results("report_small")["objectives"][objective]["results"]


def values(objective: str, show: str, arm: str) -> tuple[list, list, list]:
    """Where an arm's numbers stand (steps or lengths), their means over seeds, and their standard deviations."""
    found = results(objective)["methods"][arm]
    lengths = results(objective)["lengths"]
    by_place = list(zip(*found["curve"])) if show == TRAINING else [found["scores"][str(n)] for n in lengths]
    at = [EVERY * (n + 1) for n in range(len(by_place))] if show == TRAINING else lengths
    means, spreads = zip(*map(mean_and_spread, by_place))
    return at, list(means), list(spreads)


def band(at, means, spreads, floor, ceiling):
    """The outline of a band of one standard deviation, within the drawing, as x and y."""
    low = [min(max(m - s, floor), ceiling) for m, s in zip(means, spreads)]
    high = [min(max(m + s, floor), ceiling) for m, s in zip(means, spreads)]
    return [*at, *at[::-1], at[0], math.nan], [*low, *high[::-1], low[0], math.nan]


def _curves(objective, show, arms):
    bottom, top = RANGES[objective, show]
    room = GAP * (top - bottom)
    chosen = SHOWN[arms]
    found = {arm: values(objective, show, arm) for arm in chosen}
    training = show == TRAINING
    outlines = [band(*found[arm], bottom, top) for arm in chosen]
    ends = [found[arm][1][-1] for arm in chosen]
    places = apart(ends, room, bottom)
    last = found[chosen[0]][0][-1]
    lengths = results(objective)["lengths"]
    left, right, phone = (0, 1.28 * last, 1.5 * last) if training else (lengths[0], 1.75 * last, 2.6 * last)
    near, beside = (1.01 * last, 1.035 * last) if training else (1.02 * last, 1.09 * last)

    def span(end):
        return [left, end] if training else [math.log10(0.94 * left), math.log10(end)]

    data = [
        dict(
            type="scatter",
            name="one standard deviation over seeds",
            x=[x for xs, _ in outlines for x in xs],
            y=[y for _, ys in outlines for y in ys],
            mode="lines",
            fill="toself",
            fillcolor="rgba(128, 128, 128, 0.25)",
            line=dict(width=0, color=COLORS["gray"]),
            hoverinfo="skip",
        )
    ]
    for arm in ARMS:
        color, dash, symbol = LOOK[arm]
        at, means, spreads = found.get(arm, ([], [], []))
        said = "step" if training else "characters"
        data.append(
            dict(
                type="scatter",
                name=TITLES[arm],
                x=at,
                y=means,
                mode="lines" if training else "lines+markers",
                line=dict(color=COLORS[color], dash=dash, width=2.4 if arm in REPORTED else 1.3),
                marker=dict(symbol=symbol, size=8),
                text=[f"{TITLES[arm]}, {said} {x}:<br>{m:.2f} ± {s:.2f}" for x, m, s in zip(at, means, spreads)],
                hovertemplate="%{text}<extra></extra>",
            )
        )
    data += [
        leaders(ends, places, near, beside),
        label(
            "names",
            [beside] * len(places),
            places,
            [TITLES[arm] for arm in chosen],
            [COLORS[LOOK[arm][0]] for arm in chosen],
            "middle right",
            halo=True,
        ),
    ]
    unit = "masked character" if objective == "masked" else "character"
    x_axis = (
        dict(type="linear", tickvals=[0, 200, 400, 600], ticktext=["0", "200", "400", "600"])
        if training
        else dict(type="log", tickvals=lengths, ticktext=[str(n) for n in lengths])
    )
    layout = dict(
        height=430,
        showlegend=False,
        margin=dict(t=12),
        xaxis=dict(
            **x_axis,
            range=span(right),
            title=dict(text="step of training" if training else "characters of context; 85 in training"),
        ),
        yaxis=dict(
            range=[bottom, top],
            title=dict(text=f"loss, nats per {unit}"),
            tickvals=[y for y in (1.5, 2, 2.5, 3) if bottom < y < top],
        ),
        meta=dict(phone=dict(xaxis=dict(range=span(phone)))),
    )
    lowest = min(chosen, key=lambda arm: found[arm][1][-1])
    highest = max(chosen, key=lambda arm: found[arm][1][-1])
    return dict(data=data, layout=layout), {
        "end": "end of training" if training else f"at {lengths[-1]} characters",
        "lowest": f"{TITLES[lowest]} {number(found[lowest][1][-1])}",
        "highest": f"{TITLES[highest]} {number(found[highest][1][-1])}",
    }


curves = explorable(
    _curves,
    id="one_model.curves",
    title="One model, its encoding exchanged",
    alt="Losses of one small model with five encodings, or with nine, each named at the end of its line, with a gray "
    "band of one standard deviation over five seeds. Training: causal, stick-breaking ends lowest, then RoPE and "
    "ExpoSB, absolute and RSE, standard; ALiBi and NoPE stay high. Masked, RoPE, ExpoSB and RSE leave the others, "
    "which stay together near NoPE. By length: causal, RSE, ALiBi and stick-breaking run level from 85 to 340 "
    "characters, NoPE nearly; RoPE, the table, both sinusoids and ExpoSB climb by a nat or more. Masked, lines "
    "climb less; RSE's band opens, one seed of five has gone wrong.",
    readout="{end}: lowest {lowest} · highest {highest}",
    depends={"layout": ["objective", "show"]},
    objective=slider(list(OBJECTIVES), label="objective"),
    show=slider([TRAINING, LENGTH], label="show"),
    arms=slider(list(SHOWN), label="arms"),
)
