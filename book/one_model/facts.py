r"""One model, five encodings: the tables of the report's comparison, and checks of what its prose tells."""

import numpy as np

from posenc.chapters.one_model.figures import FIVE, LENGTHS, NAMES, OBJECTIVES, RUNS, scores
from posenc.lab import write
from posenc.lab.experiments import load_results, verdict
from posenc.lab.write import cell, finish, rate_tried, say_all, table

RATES = {"causal": load_results("rates_report_causal"), "masked": load_results("rates_report_masked")}


def start():
    """Check what the prose tells, and give it what is not read from one place."""
    say_all("one_model", numbers())


def beside(objective: str, arm: str, other: str, length: int = 0) -> np.ndarray:
    """An arm's loss less another's, seed by seed."""
    return scores(objective, arm)[:, length] - scores(objective, other)[:, length]


def rise(objective: str, arm: str) -> np.ndarray:
    """What the longest context adds to an arm's loss, seed by seed."""
    return scores(objective, arm)[:, -1] - scores(objective, arm)[:, 0]


def outcome(objective: str, arm: str) -> str:
    """A prediction, and what became of it."""
    return f"{RUNS[objective]['claims'][arm]}: {verdict(RUNS[objective], arm).outcome}"


def numbers() -> dict[str, str]:
    """What the prose tells and does not read itself; an assertion fails where the results contradict it."""
    gains = {arm: beside("masked", "nope", arm).mean() for arm in ("absolute", "standard", "rope")}
    words = {f"{arm}_gain": f"{gain:.2f}" for arm, gain in gains.items()}
    assert max(gains["absolute"], gains["standard"]) < gains["rope"] / 4
    (factor,) = {RATES[objective]["choice"]["rse"]["own"] for objective in OBJECTIVES}
    became = [verdict(run, arm).outcome for run in RUNS.values() for arm in run["claims"]]
    kept = [abs(beside(o, f"{arm}_ran", arm).mean()) for o in OBJECTIVES for arm in FIVE if arm != "rse"]
    assert all(verdict(RUNS[objective], "rse").outcome == "failed" for objective in OBJECTIVES)
    for objective, name in (("causal", ""), ("masked", "_masked")):
        choice = RATES[objective]["choice"]["rse"]
        words[f"rse_chosen{name}"] = f"{rate_tried('rse', **choice, sweep=f'report_{objective}'):.2f}"
        words[f"rse_common{name}"] = f"{rate_tried('rse', choice['lr'], 1, f'report_{objective}'):.2f}"
    for arm, objective in ((arm, objective) for arm in ("rse", "rse_ran") for objective in OBJECTIVES):
        raw = np.array([seed["bias.raw"] for seed in RUNS[objective]["methods"][arm]["own"]])  # [seeds, layers, 1]
        words[f"penalty_{arm}_{objective}"] = f"{np.logaddexp(0, raw.min()):.2f} to {np.logaddexp(0, raw.max()):.2f}"
    for objective, arms in (("causal", ("rse", "alibi", "stickbreaking")), ("masked", ("rse", "alibi"))):
        assert all(verdict(RUNS[objective], arm, "holds").outcome == "came true" for arm in arms)
        assert all(verdict(RUNS[objective], arm, "rises").outcome == "came true" for arm in ("rope", "exposb"))
    return words | {
        "rse_factor": f"{factor:g}",
        "predictions": f"{len(became)}",
        "true": f"{became.count('came true')}",
        "open": f"{became.count('not decided')}",
        "table_kept": f"{max(kept):.2f}",
    }


def losses_table():
    """A row for each arm: its loss at the training length, what four times that adds, and the prediction of it."""
    head = ["arm"]
    for words in OBJECTIVES.values():
        head += [f"{words}, {LENGTHS[0]}", f"to {LENGTHS[-1]}", "predicted"]
    rows = []
    for arm, name in NAMES.items():
        cells = [
            text
            for objective in OBJECTIVES
            for text in (cell(scores(objective, arm)[:, 0]), cell(rise(objective, arm)), outcome(objective, arm))
        ]
        rows.append([name, *cells])
    return table(head, rows)


def ran_table():
    """A row for each of the report's five: what it loses or gains as its code ran it, with the interval."""
    tests = [(objective, at) for objective in OBJECTIVES for at in (0, -1)]
    head = ["arm", *(f"{OBJECTIVES[objective]}, {LENGTHS[at]}" for objective, at in tests)]
    rows = [
        [NAMES[arm], *(write.beside(RUNS[task], f"{arm}_ran", arm, str(LENGTHS[at])) for task, at in tests)]
        for arm in FIVE
    ]
    return table(head, rows)


def choices_table():
    """The learning rate that validation chose for each arm, the factor on its own numbers', and how many were tried."""
    rows = []
    for arm, name in NAMES.items():
        cells = []
        for found in RATES.values():
            choice, trials = found["choice"][arm], found["trials"][arm]
            own = f"{choice['own']:g}" if any(trial["own"] != 1 for trial in trials) else "–"
            cells += [f"{choice['lr']:g}", own, len(trials)]
        rows.append([name, *cells])
    columns = ["rate", "times for its own", "tried"]
    return table(["arm", *(f"{words}: {column}" for words in OBJECTIVES.values() for column in columns)], rows)


def rows_figure():
    """How large each row of the report's table is after training, in the first layer: a mean over seeds."""
    import matplotlib.pyplot as plt

    sizes = np.array(RUNS["causal"]["methods"]["standard"]["rows"])
    figure, axes = plt.subplots(figsize=(4.4, 2.2), layout="constrained")
    axes.plot(sizes.mean(0), color="#0072b2", lw=1.5)
    axes.axvline(LENGTHS[0] - 0.5, color="0.6", ls=":", lw=1)
    for place, side, words in ((-6, "right", "in training"), (6, "left", "never")):
        axes.text(LENGTHS[0] + place, 1.13, words, ha=side, color="0.4")
    axes.set(xlabel="row of the table", ylabel="root of its mean square", ylim=(0, 1.25))
    return finish(figure)
