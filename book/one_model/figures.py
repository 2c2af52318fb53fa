r"""Explorables of the report's comparison: what position gains while models train, and adds beyond their length."""

import numpy as np

from posenc.lab.experiments import load_results, mean_and_spread
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line, number

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
TASKS = {words: name for name, words in OBJECTIVES.items()}
ASKED, VECTORS = FIVE[2:], FIVE[:2]
GROUPS = dict(vectors=(VECTORS, "orange", "x"), RoPE=(ASKED[:1], "blue", "/"), rest=(ASKED[1:], "blue", ""))
EDGE = dict(line=dict(color=COLORS["gray"], width=1.5))
PALE, STEPS, HARDLY = "rgba(110, 120, 130, 0.3)", range(100, 601, 50), 0.2
SPREAD = f"%{{x:.2f}} ± %{{customdata:.2f}}: mean ± standard deviation, {len(RUNS['causal']['seeds'])} seeds"
PAIR = SPREAD.replace("{x:", "{customdata[0]:").replace("{customdata:", "{customdata[1]:")


def scores(objective: str, arm: str) -> np.ndarray:
    """An arm's losses on held-out text, [seeds, lengths]."""
    return np.array([RUNS[objective]["methods"][arm]["scores"][str(length)] for length in LENGTHS]).T


def ahead(objective: str, arm: str, step: int) -> tuple[float, float]:
    """How far below NoPE's an arm's training loss is, of the ten steps up to this one: mean and spread of the seeds."""
    nope, own = (np.array(RUNS[objective]["methods"][name]["curve"])[:, step // 10 - 1] for name in ("nope", arm))
    return mean_and_spread(nope - own)


def _bold(values):
    return [f"<b>{number(value)}</b>" for value in values]


def _named(arms, places, **where):
    """An axis with the names of the arms, the first on top."""
    names = [NAMES[arm].replace(" ", "<br>", 1) for arm in arms]
    return axis(max(places) + 0.6, -0.6, tickvals=places, ticktext=names, ticks="", **where)


def _curves(task, step):
    last, lying, bare = STEPS[-1], dict(orientation="h"), dict(visible=False)
    data = [
        line("all steps", [STEPS[0], last], [0, 0], "gray", 8, opacity=0.35, panel=2),
        line("steps so far", [STEPS[0], step], [0, 0], "blue", 8, panel=2),
        held("now", step, 0, "blue", "circle", 18, panel=2),
        label("which step", STEPS[0], 1.1, f"drag to train: <b>step {step}</b>", "ink", "middle right", 16, panel=2),
    ]
    for name, (arms, color, hatch) in GROUPS.items():
        (now, spread), (then, _) = (np.transpose([ahead(TASKS[task], arm, at) for arm in arms]) for at in (step, last))
        more, y = (
            dict(marker=dict(pattern=dict(shape=hatch)), customdata=spread, hover=SPREAD),
            [*map(FIVE.index, arms)],
        )
        ends = np.maximum(now, then * (then < HARDLY)) + 0.02  # beyond a short outline, too
        said = [f"<b>{number(gain)}" + "  hardly better" * (step == last and gain < HARDLY) + "</b>" for gain in now]
        data += [bars(f"{name}, at last", then, y, "rgba(0, 0, 0, 0)", marker=EDGE, width=0.82, **lying)]
        data += [bars(name, now, y, color, width=0.72, **more, **lying)]
        data += [label(f"{name}, number", ends, y, said, color, "middle right", 17, halo=True)]
    bag = "a bag of characters" if task == "hidden characters" else "told no position"
    data += [line("NoPE", [0, 0], [-0.6, 4.6], "ink", 4)]
    data += [label("what NoPE is", 0, -1, f"<b>NoPE</b>, {bag}", "ink", "middle right", 15)]
    layout = dict(
        dict(height=420, showlegend=False, margin=dict(t=4), barmode="overlay"),
        xaxis=axis(-0.06, 1.5, f"nats below NoPE (outline: step {last})", anchor="y", tickvals=[], zeroline=False),
        yaxis=_named(FIVE, [*range(5)], domain=[0, 0.82], tickfont=dict(size=15)) | dict(range=[4.6, -1.4]),
        **dict(xaxis2=axis(85, 615, anchor="y2", **bare), yaxis2=axis(-0.8, 1.7, domain=[0.84, 1], **bare)),
    )
    return dict(data=data, layout=layout)


def _longer(task, length):
    arms, trained = (*ASKED, *VECTORS), LENGTHS[0]
    loss = {arm: scores(TASKS[task], arm).mean(0)[[0, LENGTHS.index(length)]] for arm in arms}
    off, aside = dict(cliponaxis=False), f"top {'left' if length > 200 else 'right'}"
    grip = (length + 40 if length > 200 else 0, 0.7)
    data = [
        line("text", [0, length], [0, 0], "gray", 20, opacity=0.4, panel=2),
        line("as in training", [0, trained], [0, 0], "blue", 20, panel=2),
        held("end of the text", length, 0, "orange", "triangle-right", 19, panel=2),
        label("how far", *grip, f"<b>{length} characters</b>, drag", "ink", aside, 14, panel=2, **off),
        bars("before", [before for before, _ in loss.values()], [0, 1, 2, 3.4, 4.4], PALE, orientation="h", width=0.7),
    ]
    for name, some, places, hatch in (("", ASKED, [0, 1, 2], "/"), (" by vectors", VECTORS, [3.4, 4.4], "x")):
        rises, ends = ([loss[arm][1] - part * loss[arm][0] for arm in some] for part in (1, 0))
        look = dict(base=[loss[arm][0] for arm in some], marker=dict(pattern=dict(shape=hatch)), width=0.7)
        spread = [np.subtract(*scores(TASKS[task], arm)[:, [LENGTHS.index(length), 0]].T).std(ddof=1) for arm in some]
        look |= dict(customdata=[[*pair] for pair in zip(rises, spread)], hover=f"added: {PAIR}")
        said = [f"+{rise}" * (length > trained) for rise in _bold(rises)]
        data += [bars(f"added{name}", rises, places, "orange" if some == ASKED else "gray", orientation="h", **look)]
        data += [label(f"how much{name}", [end + 0.04 for end in ends], places, said, "ink", "middle right", 16)]
    wide, small = dict(xaxis=dict(range=[0, 4.5])), dict(tickfont=dict(size=12), ticks="", showgrid=False)
    layout = dict(
        dict(height=420, showlegend=False, margin=dict(t=10), barmode="overlay", meta=dict(phone=wide)),
        xaxis=axis(0, 3.9, f"loss, nats (pale: with {trained} characters)", anchor="y", tickvals=[0, 1, 2, 3]),
        yaxis=_named(arms, [0, 1, 2, 3.4, 4.4], domain=[0, 0.72], tickfont=dict(size=13)),
        xaxis2=axis(0, 440, anchor="y2", tickvals=[trained], ticktext=[f"{trained}, as in training"], **small),
        yaxis2=axis(-0.8, 1.8, domain=[0.86, 1], showgrid=False, zeroline=False, showticklabels=False),
    )
    return dict(data=data, layout=layout)


curves = explorable(
    _curves,
    title="One model trains, its encoding is exchanged",
    alt="A bar for each of five encodings: how far its model's training loss is below that of NoPE, an upright line, "
    "at a step that can be dragged. Outlines show the last step. There, for hidden characters, the two that add "
    "vectors, a sinusoid and a table, have short bars; RoPE, ExpoSB and RSE have long ones.",
    see="Drag the step to train: whose bar leaves the line of NoPE?",
    handles={"now": "step"},
    task=slider([*TASKS], label="task", default="hidden characters"),
    step=slider(STEPS, label="step of training", play=True),
)
longer = explorable(
    _longer,
    title="Trained short, tested long",
    alt="A band of text, whose end can be dragged from the 85 characters of training to 340. Below it a bar for each "
    "of the report's five: pale its loss with 85 characters, hatched what the longer text adds. With 340, RSE's has "
    "nothing added; those of RoPE and ExpoSB have much for the next character and less for hidden ones, as the two "
    "have that add vectors, a sinusoid and a table.",
    see="Drag the end of the text: to whose loss is something added?",
    handles={"end of the text": "length"},
    task=slider([*TASKS], label="task"),
    length=slider(LENGTHS, label="context, characters", default=LENGTHS[-1]),
)
