r"""Explorables of the report's comparison: every arm while it trains, and in contexts longer than it trained on."""

import math

import numpy as np

from posenc.lab.experiments import load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, label, line, path

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
FIVE = tuple(NAMES)[:5]
NAMES |= {f"{arm}_ran": f"{NAMES[arm]}, as run" for arm in FIVE}


def scores(objective: str, arm: str) -> np.ndarray:
    """An arm's losses on held-out text, [seeds, lengths]."""
    by_length = RUNS[objective]["methods"][arm]["scores"]
    return np.array([by_length[str(length)] for length in LENGTHS]).T


def curve(objective: str, arm: str) -> np.ndarray:
    """An arm's training loss, [seeds, means of ten steps each]."""
    return np.array(RUNS[objective]["methods"][arm]["curve"])


RANKED = sorted(NAMES, key=lambda arm: scores("causal", arm)[:, 0].mean())


def _panels(values, x, arm, beside, bottom, top, across, said):
    """Two panels of the same height: every arm thin, one in hand with its spread, and another beside it."""
    data, axes, reached, right = [], {}, {}, across["range"][1]
    corner = 10**right if across.get("type") == "log" else float(right), top
    for panel, (objective, words) in enumerate(OBJECTIVES.items(), 1):
        rows = {name: values(objective, name) for name in NAMES}
        mean, spread = rows[arm].mean(0), rows[arm].std(0, ddof=1)
        reached[objective] = f"{mean[-1]:.2f} ± {spread[-1]:.2f}"
        around = np.concatenate((mean - spread, (mean + spread)[::-1]))
        band = dict(fill="toself", fillcolor="rgba(128, 128, 128, 0.35)", panel=panel)
        ends_at = [mean[-1], rows[beside].mean(0)[-1]]
        places = ["top left", "bottom left"] if ends_at[0] >= ends_at[1] else ["bottom left", "top left"]
        named = [f"<b>{NAMES[arm]}</b>\u2003", f"{NAMES[beside]}\u2003" * (beside != arm)]  # clear of the ring
        ends = dict(marker=dict(size=[*[0] * (len(x) - 1), 11]), hover=f"{NAMES[arm]}, {said}: %{{y:.2f}}")
        data += [
            *(
                line(f"{NAMES[name]}, {words}", x, row.mean(0), "gray", 0.8, panel=panel, opacity=0.7)
                | dict(hoverinfo="all", hovertemplate=f"{NAMES[name]}, {said}: %{{y:.2f}}<extra></extra>")
                for name, row in rows.items()
            ),
            line(f"one deviation, {words}", np.concatenate((x, x[::-1])), around, "gray", 0, **band),
            path(f"beside, {words}", x, rows[beside].mean(0), "orange", 2, "dash", panel=panel, marker=dict(size=1)),
            path(f"in hand, {words}", x, mean, "ink", 3, panel=panel, **ends),
            label(f"names, {words}", [x[-1]] * 2, ends_at, named, ["ink", "orange"], places, 12, True, panel=panel),
            label(f"name, {words}", *corner, f"<b>{words}</b>", "ink", "bottom left", panel=panel),
        ]
        tag = "" if panel == 1 else "2"
        domain = [0, 0.48] if panel == 1 else [0.52, 1]
        axes[f"xaxis{tag}"] = dict(across, domain=domain, anchor=f"y{tag}")
        axes[f"yaxis{tag}"] = axis(bottom, top, anchor=f"x{tag}", showticklabels=panel == 1)
    axes["yaxis"]["title"] = dict(text="loss, nats", standoff=4)
    phone = dict(xaxis=dict(domain=[0, 1], showticklabels=False, title=dict(text="")), xaxis2=dict(domain=[0, 1]))
    phone |= dict(yaxis=dict(domain=[0.53, 1]), yaxis2=dict(domain=[0, 0.47], showticklabels=True))
    layout = dict(height=420, showlegend=False, margin=dict(t=12), meta=dict(phone=phone), **axes)
    return dict(data=data, layout=layout), reached


def _curves(arm, beside):
    steps = 10 * np.arange(curve("causal", "nope").shape[1]) + 5
    across = axis(0, steps[-1] + 25, "step of training", tickvals=[0, 200, 400, 600])
    return _panels(curve, steps, RANKED[arm], RANKED[beside], 1.0, 3.6, across, "step %{x}")


def _longer(arm, beside):
    ticks = dict(type="log", tickvals=LENGTHS, ticktext=[str(length) for length in LENGTHS])
    first, last = math.log10(LENGTHS[0]), math.log10(LENGTHS[-1])
    across = axis(first - 0.03, last + 0.06, "context, characters", **ticks)
    x = np.array(LENGTHS)
    return _panels(scores, x, RANKED[arm], RANKED[beside], 1.0, 3.9, across, "%{x} characters")


HANDLES = {f"in hand, {words}": "arm" for words in OBJECTIVES.values()}
SAID = "next {causal} · hidden {masked}"


def _choice(arm: str, words: str):
    return slider(range(len(RANKED)), label=words, default=RANKED.index(arm), format=lambda i: NAMES[RANKED[i]])


curves = explorable(
    _curves,
    title="One model trains, its encoding is exchanged",
    alt="Two panels of training loss by step: at the left the models that predict the next character, at the right "
    "those that fill in hidden ones. Every arm is a thin gray line; the one in hand is heavy, in a band of one "
    "standard deviation over seeds, and another is dashed beside it. Point at a thin line for its name.",
    readout=SAID,
    handles=HANDLES,
    arm=_choice("rope", "encoding"),
    beside=_choice("nope", "versus"),
)
longer = explorable(
    _longer,
    title="Trained short, tested long",
    alt="Two panels of loss on the same held-out characters, by how many characters of context there are. For the next "
    "character stick-breaking, RSE and ALiBi run level, and what adds vectors has risen at twice the length. For "
    "hidden characters RSE, lowest of all, and ALiBi run level, and RoPE and ExpoSB rise between twice and four times.",
    readout=SAID,
    handles=HANDLES,
    arm=_choice("rope", "encoding"),
    beside=_choice("nope", "versus"),
)
