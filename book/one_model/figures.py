r"""Explorables of the report's comparison: every arm while it trains, and in contexts longer than it trained on."""

import numpy as np

from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import apart, axis, label, line, path, upright

#: objective -> what it is called
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
NAMED = ("rse", "nope", "exposb")  # of the dotted lines
NAMES |= {f"{arm}_ran": f"{NAMES[arm]}, as run" for arm in FIVE}
LOOK = {
    "absolute": ("orange", "longdash", 2.6),
    "standard": ("orange", "dash", 2.6),
    "rope": ("blue", "solid", 2.6),
    "exposb": ("blue", "dashdot", 2.6),
    "rse": ("purple", "solid", 3.4),
}
TASKS, DESCRIBED, RAN = [*OBJECTIVES.values()], "as described", "as it ran"


def scores(objective: str, arm: str) -> np.ndarray:
    """An arm's losses on held-out text, [seeds, lengths]."""
    return np.array([RUNS[objective]["methods"][arm]["scores"][str(length)] for length in LENGTHS]).T


def curve(objective: str, arm: str) -> np.ndarray:
    """An arm's training loss, [seeds, means of ten steps each]."""
    return np.array(RUNS[objective]["methods"][arm]["curve"])


def _arms(lines, ghosts, x, front, ticks, bottom, top, title, rests=False):
    """The arms' lines to the front, each named there; dotted, some in the other state; contexts' rests thin."""
    gap, wide, later = 0.045 * (top - bottom), x[-1] - x[0], lines if rests else ()
    data = [line(f"rest of {arm}", x[front - 1 :], lines[arm][front - 1 :], "gray", 1, opacity=0.4) for arm in later]
    data.append(upright("the front", x[front - 1], bottom, top, "ink", 1))
    rows = lines | {f"other {arm}": ghosts[arm] for arm in NAMED if arm in ghosts}
    hue = {arm: LOOK.get(arm.removeprefix("other "), ("gray", "solid", 3 if arm == "nope" else 1.2)) for arm in rows}
    for n, (arm, y) in enumerate(ghosts.items()):  # the first with the widest gaps
        data.append(line(f"dotted {arm}", x[:front], y[:front], hue[arm][0], 1.5, f"2px,{2 * (len(ghosts) - n)}px"))
    raised = apart([rows[arm][front - 1] for arm in rows], gap, bottom)
    for arm, place in zip(rows, apart([-y for y in raised], gap, 1.2 * gap - top)):  # minus: below the handle
        of = NAMES.get(arm) or f"<i>{NAMES[arm[6:]]}, other{'' if rests else ' task'}</i>"
        color, dash, width = hue[arm]
        look = dict(dash=dash, marker=dict(size=6 if rests else 1), hover=f"{of}: %{{y:.2f}}")
        data += [path(arm, x[:front], rows[arm][:front], color, width, **look)] if arm in lines else []
        start, height = x[front - 1] + np.array([0.01, 0.04]) * wide, [rows[arm][front - 1], -place]
        name = label(f"name of {arm}", start, height, ["", of], color, "middle right", 12, True)
        data.append(name | dict(mode="lines+text", line=dict(color=COLORS["gray"], width=0.8)))
    left, right = x[0] - (0.12 if rests else 0.04) * wide, x[-1] + 0.24 * wide
    axes = dict(xaxis=axis(left, right, title, **ticks), yaxis=axis(bottom, top, "loss, nats"))
    phone = dict(xaxis=dict(range=[left, x[-1] + (0.76 if rests else 0.68) * wide]))
    layout = dict(height=440, showlegend=False, margin=dict(t=12), meta=dict(phone=phone), **axes)
    return dict(data=data, layout=layout), {arm: lines[arm][front - 1] for arm in ("rse", "nope")}


def _curves(task, step):
    of = {words: {arm: curve(name, arm).mean(0) for arm in ARMS} for name, words in OBJECTIVES.items()}
    (other,) = (of[words] for words in of if words != task)
    ghosts, ticks = {arm: other[arm] for arm in ("rse", "nope")}, dict(tickvals=[0, 200, 400, 600])
    steps = 10 * np.arange(1, 1 + len(other["nope"]))
    return _arms(of[task], ghosts, steps, step // 10, ticks, 1.25, 3.2, "step of training")


def _longer(task, form, length):
    (name,) = (name for name, words in OBJECTIVES.items() if words == task)
    lines = {arm: scores(name, arm).mean(0) for arm in ARMS}
    ghosts = {arm: scores(name, f"{arm}_ran").mean(0) for arm in FIVE}
    lines, ghosts = (lines | ghosts, {arm: lines[arm] for arm in FIVE}) if form == RAN else (lines, ghosts)
    ticks = dict(tickvals=[0, 1, 2], ticktext=[str(length) for length in LENGTHS])
    return _arms(lines, ghosts, np.arange(3), 1 + LENGTHS.index(length), ticks, 1.35, 3.5, "context, characters", True)


curves = explorable(
    _curves,
    title="One model trains, its encoding is exchanged",
    alt="Training loss by step, of models that fill in hidden characters or, at a press, predict the next. The "
    "report's five arms are colored, the four beside them gray, NoPE's line heavy; each has its name at its end. The "
    "upright line, the step, can be dragged, and the names ride along. Dotted: RSE and NoPE at the other task.",
    readout="RSE {rse:.2f}, NoPE {nope:.2f} · dotted: the other task",
    handles={"the front": "step"},
    task=slider(TASKS, label="task", default=TASKS[1]),
    step=slider(range(100, 601, 50), label="step of training", default=600, play=True),
)
longer = explorable(
    _longer,
    title="Trained short, tested long",
    alt="Loss on the same held-out characters, by how many characters of context there are. For the next character "
    "stick-breaking, RSE and ALiBi run level, and what adds vectors has risen at twice the length. For hidden "
    "characters RSE, lowest of all, and ALiBi run level, and RoPE and ExpoSB rise between twice and four times. "
    "As their code ran, RSE rises for the next character. Dotted: the five in the other form. Faint: what is to come.",
    readout="RSE {rse:.2f}, NoPE {nope:.2f} · dotted: the other form",
    handles={"the front": "length"},
    task=slider(TASKS, label="task"),
    form=slider([DESCRIBED, RAN], label="the report's five"),
    length=slider(LENGTHS, label="context, characters", default=LENGTHS[-1]),
)
