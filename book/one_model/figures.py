r"""Explorables of the report's comparison: every arm while it trains, and in contexts longer than it trained on."""

import math

import numpy as np

from posenc.lab.experiments import load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import apart, axis, label, leaders, line, path

#: objective -> what its panel is called
OBJECTIVES = {"causal": "next character", "masked": "hidden characters"}
RUNS = {objective: load_results(f"report_{objective}") for objective in OBJECTIVES}
LENGTHS = RUNS["causal"]["lengths"]
NAMES = {
    "absolute": "Sinusoid on q, k",
    "standard": "Table on q, k, v",
    "rope": "RoPE",
    "exposb": "ExpoSB",
    "rse": "RSE",
    "nope": "NoPE",
    "sinusoidal": "Sinusoid at input",
    "alibi": "ALiBi",
    "stickbreaking": "Stick-breaking",
}
ARMS, FIVE = tuple(NAMES), tuple(NAMES)[:5]
NAMES |= {f"{arm}_ran": f"{NAMES[arm]}, as run" for arm in FIVE}
LOOK = {
    "absolute": ("orange", "longdash", 2.6),
    "standard": ("orange", "dash", 2.6),
    "rope": ("blue", "solid", 2.6),
    "exposb": ("blue", "dashdot", 2.6),
    "rse": ("purple", "solid", 3.4),
}
DESCRIBED, RAN = "as described", "as it ran"


def scores(objective: str, arm: str) -> np.ndarray:
    """An arm's losses on held-out text, [seeds, lengths]."""
    by_length = RUNS[objective]["methods"][arm]["scores"]
    return np.array([by_length[str(length)] for length in LENGTHS]).T


def curve(objective: str, arm: str) -> np.ndarray:
    """An arm's training loss, [seeds, means of ten steps each]."""
    return np.array(RUNS[objective]["methods"][arm]["curve"])


def _panels(values, form, x, ticks, bottom, top, title, said):
    """Two panels of the same height, a line an arm; the five as their code ran leave a dotted line where they were."""
    data, axes, moved = [], {}, []
    inks = [LOOK[arm][0] if arm in FIVE else "gray" for arm in ARMS]
    logs = "log" if values is scores else "linear"
    low, high = (math.log10(x[0]), math.log10(x[-1])) if logs == "log" else (0, x[-1])
    wide = 0.62 * (high - low)  # for the names
    right = 10 ** (high + 0.08 * wide) if logs == "log" else high + 0.08 * wide
    for panel, (objective, words) in enumerate(OBJECTIVES.items(), 1):
        means, tag = {arm: values(objective, arm).mean(0) for arm in ARMS}, "" if panel == 1 else "2"
        ghosts = np.concatenate([np.append(means[arm], math.nan) for arm in FIVE])
        if form == RAN:
            ran = {arm: values(objective, f"{arm}_ran").mean(0) for arm in FIVE}
            moved.append(max(abs(ran[arm][-1] - means[arm][-1]) for arm in FIVE))
            means |= ran
        once = dict(panel=panel, opacity=0.8 if form == RAN else 0)
        data.append(
            line(f"described, {words}", np.tile(np.append(x, math.nan), len(FIVE)), ghosts, "gray", 1, "dot", **once)
        )
        for arm, color in zip(ARMS, inks):
            look = dict(marker=dict(size=1), panel=panel, hover=f"{NAMES[arm]}, {said}: %{{y:.2f}}")
            look |= (
                dict(zip(("dash", "width"), LOOK[arm][1:])) if arm in FIVE else dict(width=3 if arm == "nope" else 1.2)
            )
            data.append(path(f"{arm}, {words}", x, means[arm], color, **look))
        ends = [mean[-1] for mean in means.values()]
        places = apart(ends, 0.2, bottom + 0.05)
        data += [
            leaders(ends, places, x[-1], right) | dict(name=f"leaders, {words}", xaxis=f"x{tag}", yaxis=f"y{tag}"),
            label(
                f"names, {words}",
                [right] * len(ends),
                places,
                [NAMES[arm] for arm in ARMS],
                inks,
                "middle right",
                10,
                True,
                panel=panel,
            ),
            label(f"name, {words}", x[0], top, f"<b>{words}</b>", "ink", "top right", panel=panel, cliponaxis=False),
        ]
        domain = [0, 0.48] if panel == 1 else [0.52, 1]
        axes[f"xaxis{tag}"] = axis(low - 0.03 * wide, high + wide, title, type=logs, **ticks) | dict(
            domain=domain, anchor=f"y{tag}"
        )
        axes[f"yaxis{tag}"] = axis(bottom, top, anchor=f"x{tag}", showticklabels=panel == 1)
    axes["yaxis"]["title"] = dict(text="loss, nats", standoff=4)
    phone = dict(xaxis=dict(domain=[0, 1], showticklabels=False, title=dict(text="")), xaxis2=dict(domain=[0, 1]))
    phone |= dict(yaxis=dict(domain=[0.53, 1]), yaxis2=dict(domain=[0, 0.47], showticklabels=True))
    layout = dict(height=440, showlegend=False, margin=dict(t=24), meta=dict(phone=phone), **axes)
    most = (
        f"the ends move by up to {moved[0]:.2f} and {moved[1]:.2f} nats"
        if moved
        else "every arm at rates chosen for it"
    )
    return dict(data=data, layout=layout), {"most": most}


def _curves(form):
    steps = 10 * np.arange(curve("causal", "nope").shape[1]) + 5
    return _panels(curve, form, steps, dict(tickvals=[0, 200, 400, 600]), 1.3, 3.6, "step of training", "step %{x}")


def _longer(form):
    ticks = dict(tickvals=LENGTHS, ticktext=[str(length) for length in LENGTHS])
    return _panels(scores, form, np.array(LENGTHS), ticks, 1.3, 3.6, "context, characters", "%{x} characters")


FORM = slider([DESCRIBED, RAN], label="the report's five")
curves = explorable(
    _curves,
    title="One model trains, its encoding is exchanged",
    alt="Two panels of training loss by step: at the left the models that predict the next character, at the right "
    "those that fill in hidden ones. The report's five arms are colored, the four beside them gray, NoPE's line heavy, "
    "each with its name at its end. A button puts the five as their code ran in the place of those described.",
    readout="{most}",
    form=FORM,
)
longer = explorable(
    _longer,
    title="Trained short, tested long",
    alt="Two panels of loss on the same held-out characters, by how many characters of context there are. For the next "
    "character stick-breaking, RSE and ALiBi run level, and what adds vectors has risen at twice the length. For "
    "hidden characters RSE, lowest of all, and ALiBi run level, and RoPE and ExpoSB rise between twice and four times. "
    "As their code ran, RSE rises for the next character, too.",
    readout="{most}",
    form=FORM,
)
