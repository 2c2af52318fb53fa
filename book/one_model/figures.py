r"""Explorables of the report's comparison: every arm while it trains, and in contexts longer than it trained on."""

import math

import numpy as np

from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import apart, axis, dots, held, label, line, path, upright

#: objective -> what it is called
OBJECTIVES = {"causal": "next character", "masked": "hidden characters"}
RUNS = {objective: load_results(f"report_{objective}") for objective in OBJECTIVES}
LENGTHS = RUNS["causal"]["lengths"]
NAMES = {
    "absolute": "Sinusoid on q, k", "standard": "Table on q, k, v", "rope": "RoPE", "exposb": "ExpoSB", "rse": "RSE",
    "nope": "NoPE", "sinusoidal": "Sinusoid at input", "alibi": "ALiBi", "stickbreaking": "Stick-breaking",
}  # fmt: skip
ARMS, FIVE = tuple(NAMES), tuple(NAMES)[:5]
NAMES |= {f"{arm}_ran": f"{NAMES[arm]}, as run" for arm in FIVE}
LOOK = {
    "absolute": ("orange", "longdash", 2.6), "standard": ("orange", "dash", 2.6), "rope": ("blue", "solid", 2.6),
    "exposb": ("blue", "dashdot", 2.6), "rse": ("purple", "solid", 3.4),
}  # fmt: skip
MARKS = dict(zip(FIVE, ("circle", "diamond", "triangle-up", "triangle-down", "star")))
TASKS, WHOLE, CUT = {words: name for name, words in OBJECTIVES.items()}, "whole", f"cut to {LENGTHS[0]}"


def scores(objective: str, arm: str) -> np.ndarray:
    """An arm's losses on held-out text, [seeds, lengths]."""
    return np.array([RUNS[objective]["methods"][arm]["scores"][str(length)] for length in LENGTHS]).T


def _curves(task, step):
    """The arms' training losses, means of ten steps each, named at the step; dotted, two in the other task."""
    of = {
        words: {arm: np.mean(RUNS[name]["methods"][arm]["curve"], 0) for arm in ARMS} for words, name in TASKS.items()
    }
    (other,) = (of[words] for words in of if words != task)
    now, x, bottom, top = step // 10, 10 * np.arange(1, 1 + len(other["nope"])), 1.25, 3.2
    gap, wide = 0.045 * (top - bottom), x[-1] - x[0]
    data = [upright("the front", x[now - 1], bottom, top, "ink", 1)]
    rows = of[task] | {f"other {arm}": other[arm] for arm in ("rse", "nope")}
    hue = {arm: LOOK.get(arm.removeprefix("other "), ("gray", "solid", 3 if arm == "nope" else 1.2)) for arm in rows}
    for dots_apart, arm in ((4, "rse"), (2, "nope")):
        data.append(line(f"dotted {arm}", x[:now], other[arm][:now], hue[arm][0], 1.5, f"2px,{dots_apart}px"))
    raised = apart([y[now - 1] for y in rows.values()], gap, bottom)
    for arm, place in zip(rows, apart([-y for y in raised], gap, 1.2 * gap - top)):  # minus: below the handle
        words = NAMES.get(arm) or f"<i>{NAMES[arm[6:]]}, other task</i>"
        color, dash, width = hue[arm]
        look = dict(dash=dash, marker=dict(size=1), hover=f"{words}: %{{y:.2f}}")
        data += [path(arm, x[:now], rows[arm][:now], color, width, **look)] if arm in ARMS else []
        start, height = x[now - 1] + np.array([0.01, 0.04]) * wide, [rows[arm][now - 1], -place]
        name = label(f"name of {arm}", start, height, ["", words], color, "middle right", 12, True)
        data.append(name | dict(mode="lines+text", line=dict(color=COLORS["gray"], width=0.8)))
    left, right, ticks = x[0] - 0.04 * wide, x[-1] + 0.24 * wide, dict(tickvals=[0, 200, 400, 600])
    axes = dict(xaxis=axis(left, right, "step of training", **ticks), yaxis=axis(bottom, top, "loss, nats"))
    phone = dict(xaxis=dict(range=[left, x[-1] + 0.68 * wide]))
    layout = dict(height=440, showlegend=False, margin=dict(t=12), meta=dict(phone=phone), **axes)
    return dict(data=data, layout=layout), {arm: of[task][arm][now - 1] for arm in ("rse", "nope")}


def _rows(still, moved, bottom, top, title, hand, across):
    """A row an arm: a hollow mark that stays, and a full one that moves; above them, on axes 2, what is in hand."""
    data = [*hand]
    for row, arm in enumerate(ARMS):
        color, symbol = LOOK.get(arm, ["gray"])[0], MARKS.get(arm, "square")
        data += [
            line(f"way of {arm}", [still[arm], moved[arm]], [row, row], "gray", 3, opacity=0.5),
            dots(f"still {arm}", [still[arm]], [row], color, 11, f"{symbol}-open", hover=f"{NAMES[arm]}: %{{x:.2f}}"),
            dots(arm, [moved[arm]], [row], color, 13, symbol, hover=f"{NAMES[arm]}: %{{x:.2f}}"),
        ]
    names = dict(tickvals=list(range(len(ARMS))), ticktext=[NAMES[arm] for arm in ARMS], ticks="", zeroline=False)
    axes = dict(xaxis=axis(bottom, top, title, nticks=5), yaxis=axis(len(ARMS) - 0.4, -0.6, domain=[0, 0.73], **names))
    axes |= {"xaxis2": axis(*across, visible=False), "yaxis2": axis(-1.4, 1.4, domain=[0.77, 1], visible=False)}
    return dict(data=data, layout=dict(height=470, showlegend=False, margin=dict(t=12), **axes))


def _longer(task, length, attention):
    at, name, runs = LENGTHS.index(length), TASKS[task], RUNS[TASKS[task]]["methods"]
    whole = attention == WHOLE or name == "masked"  # which was not cut
    seen = LENGTHS[at if whole else 0]
    held_at = math.nan if name == "masked" or at == 0 else seen
    start = {arm: scores(name, arm)[:, 0].mean() for arm in ARMS}
    now = {arm: (scores(name, arm) if whole else np.array(runs[arm]["cut"]))[:, at].mean() for arm in ARMS}
    hand = [
        line("text", [0, length], [0.8, 0.8], "gray", 14, opacity=0.45, panel=2),
        line("seen", [0, seen], [-0.8, -0.8], "blue", 14, panel=2),
        line("training", [LENGTHS[0]] * 2, [-1.4, 1.4], "gray", 1.5, "dot", panel=2),
        held("end of the text", length, 0.8, "ink", "triangle-right", 18, panel=2),
        held("end of the window", held_at, -0.8, "orange", "triangle-left", 18, panel=2),
        label("how far", [length, seen], [0.8, -0.8], [f"\u2003{n}" for n in (f"{length} of text", f"sees {seen}")],
              ["ink", "blue"], "middle right", 13, panel=2, cliponaxis=False),
    ]  # fmt: skip
    words = {"length": length, "cut": "" if seen == length else f", seeing {seen}"}
    return _rows(start, now, 1.35, 3.45, "loss on the same characters, nats", hand, (0, 520)), words


curves = explorable(
    _curves,
    title="One model trains, its encoding is exchanged",
    alt="Training loss by step, of models that fill in hidden characters or, at a press, predict the next. The "
    "report's five arms are colored, the four beside them gray, NoPE's line heavy; each has its name at its end. The "
    "upright line, the step, can be dragged, and the names ride along. Dotted: RSE and NoPE at the other task.",
    readout="RSE {rse:.2f}, NoPE {nope:.2f} · dotted: the other task",
    handles={"the front": "step"},
    task=slider([*TASKS], label="task", default="hidden characters"),
    step=slider(range(100, 601, 50), label="step of training", default=600, play=True),
)
longer = explorable(
    _longer,
    title="Trained short, tested long",
    alt="A row for each of nine arms: hollow its loss with the 85 characters of training, full with more. The text can "
    "be pulled longer, and what a query sees be cut. For the next character stick-breaking, RSE and ALiBi stay, what "
    "adds vectors jumps, RoPE and ExpoSB rise, and are back when cut. For hidden ones RSE, lowest, and ALiBi stay.",
    readout="full: {length} characters{cut} · hollow: 85",
    handles={"end of the text": "length", "end of the window": "attention"},
    task=slider([*TASKS], label="task"),
    length=slider(LENGTHS, label="context, characters", default=LENGTHS[-1]),
    attention=slider([WHOLE, CUT], label="attention"),
)
