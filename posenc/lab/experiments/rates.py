r"""The choice of learning rates: each arm's best, by what no table shows.

    python -m posenc.lab.experiments rates needle                   # writes results/rates_needle.json
    python -m posenc.lab.experiments sweep needle --rates           # trains each arm with its choice

Chapter: How to measure position.
"""

import dataclasses
import math
import shutil
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

from posenc.lab.experiments.provenance import provenance
from posenc.lab.experiments.results import check_results, six_digits, write_json
from posenc.lab.experiments.runner import Cells, check_file, chosen, deal, on, run_cell, train_all
from posenc.lab.experiments.sweeps import Sweep, made
from posenc.lab.train import Settings, build, measure, settings_for
from posenc.lab.train.tiny import own_parameters

FACTORS = (0.5, 1, 2)  # on the preset's learning rate
BEYOND = 4  # how many more, where the best stands at an end
OWN = (1, 10)  # on that of an encoding's own parameters, which the first is a part of
SEEDS = (100, 101)  # of no sweep
HELD_BACK = 16_000  # characters, of text
MEASURED = {
    "text": f"nats per character over the last {HELD_BACK} characters of the training text, kept from training",
    "masked": f"nats per masked character in the last {HELD_BACK} characters of the training text, kept from training",
}


def run_rates(
    name: str,
    preset: str,
    methods: Sequence[str] | None,
    out: Path,
    command: str,
    *,
    device: str = "cpu",
    changes: dict | None = None,
    sweep: Sweep | None = None,
) -> None:
    r"""Train every arm of a sweep at each rate with two seeds of its own, and write the scores and choices to `out`.

    The cells are kept and gone on with as `run_sweep`'s are. A score is `measure.validation`; the choice is the least
    mean over seeds, in a tie the rate nearest the preset's. Where it is the least or the greatest rate, one more beyond
    it is tried, by the first process, until it is neither, or `BEYOND` are. A run that diverges has no score.
    Arguments and errors: as `run_sweep`.
    """
    sweep, arms = chosen(name, methods, sweep)
    kept = {"held_back": HELD_BACK} if sweep.task in MEASURED else {}
    settings = settings_for(preset, sweep.task, **sweep.changes | (changes or {}) | kept)
    trials = {arm: grid(*made(sweep, arm, settings)[:2], sweep.task, settings) for arm in arms}
    each = {called(arm, trial): (arm, trial) for arm in arms for trial in trials[arm]}
    origin = {cell: arm for cell, (arm, _) in each.items()}
    trial_sweep = sweep._replace(
        recipe=lambda cell, settings: made(sweep, origin[cell], settings),
        measure=lambda model, settings: {"score": measure.validation(model, sweep.task, settings)},
    )
    facts = provenance(f"rates_{name}", preset, settings, command) | on(device)
    check_file(out)
    each = {cell: dataclasses.replace(settings, **trial) for cell, (_, trial) in each.items()}
    cells = train_all(trial_sweep, each, SEEDS, facts, out, device, run_trial)
    if cells is None:
        return
    tried = choices(cells, trials)
    for _ in range(BEYOND):
        further = {arm: beyond(values) for arm, values in tried.items() if "lr" in values["at_edge"]}
        if not further:
            break
        for arm, trial in further.items():
            trials[arm].append(trial)
            each[called(arm, trial)] = dataclasses.replace(settings, **trial)
            origin[called(arm, trial)] = arm
        cells = Cells(cells.folder, list(each), SEEDS)
        for arm, seed in tqdm(cells.share(0, 1), desc=f"{facts['name']}, beyond"):
            cells.run(run_trial, trial_sweep, arm, seed, each[arm], deal(device, 0))
        tried = choices(cells, trials)
    results = facts | {
        "task": sweep.task,
        "question": f"With which learning rates does each arm of the sweep {name} do best?",
        "measured": MEASURED.get(sweep.task, 'share of wrong answers on a batch like the test "in", of its own seed'),
        "seeds": list(SEEDS),
        "choice": {arm: values["choice"] for arm, values in tried.items() if values["choice"]},
        "ties": [arm for arm, values in tried.items() if values["ties"]],
        "at_edge": {arm: values["at_edge"] for arm, values in tried.items() if values["at_edge"]},
        "arms": tried,
    }
    write_json(out, check_results(results))
    shutil.rmtree(cells.folder)
    for arm, values in tried.items():
        print(f"{arm}: {values['choice'] or 'every run diverged'}{', a tie' if values['ties'] else ''}")


def grid(method: str, options: dict, task: str, settings: Settings) -> list[dict]:
    """The rates to try, the preset's first; `own` only where the encoding has parameters of its own."""
    owns = OWN if own_parameters(build(method, settings, task, options=options), settings, task) else OWN[:1]
    factors = sorted(FACTORS, key=lambda factor: abs(math.log(factor)))
    return [{"lr": settings.lr * factor, "own": float(own)} for own in owns for factor in factors]


def beyond(values: dict) -> dict:
    """The trial one step beyond a choice that stands at an end of its arm's learning rates."""
    choice = values["choice"]
    least = choice["lr"] == min(trial["lr"] for trial in values["trials"])
    return choice | {"lr": choice["lr"] / 2 if least else choice["lr"] * 2}


def called(arm: str, trial: dict) -> str:
    """The name of an arm at a rate, its cells' file name."""
    return f"{arm} lr={trial['lr']:g} own={trial['own']:g}"


def run_trial(sweep: Sweep, arm: str, seed: int, settings: Settings, *given) -> dict:
    """`run_cell`, less what a run that diverges can't have; such a run has no score, and says so."""
    try:
        cell = run_cell(sweep, arm, seed, settings, *given) | {"diverged": None}
    except FloatingPointError as error:
        cell = {"score": None, "diverged": str(error), "parameters": 0, "seconds": 0.0}
    return {key: cell[key] for key in ("score", "diverged", "parameters", "seconds")} | {
        "final_train_loss": cell.get("final_train_loss", 0.0),
        "curve": [],
    }


def choices(cells: Cells, trials: dict) -> dict:
    """{arm: what `choose` says of its trials} from finished cells."""
    numbers = cells.read()
    return {
        arm: choose(those, [[numbers[called(arm, trial), seed] for seed in SEEDS] for trial in those])
        for arm, those in trials.items()
    }


def choose(trials: list[dict], found: list[list[dict]]) -> dict:
    r"""The choice among trials of one arm, with every score.

    found: for each trial its cells over seeds. Returns: {"choice": {"lr", "own"} or None, "ties": the other trials of
    the same mean, "at_edge": those of "lr" and "own" whose choice is the last tried, so that one beyond may be better,
    "trials": [{"lr", "own", "scores", "mean", "diverged"}]}.
    """
    rows = []
    for trial, cells in zip(trials, found):
        scores = [cell["score"] for cell in cells]
        mean = None if None in scores else sum(scores) / len(scores)
        rows.append(
            trial | six_digits({"scores": scores, "mean": mean, "diverged": [cell["diverged"] for cell in cells]})
        )
    means = [row["mean"] for row in rows if row["mean"] is not None]
    best = [trial for trial, row in zip(trials, rows) if means and row["mean"] == min(means)]
    choice = best[0] if best else None
    tried = [trial["lr"] for trial in trials]
    edges = {"lr": [min(tried), max(tried)], "own": [OWN[-1]]}
    at_edge = [key for key, ends in edges.items() if choice and choice[key] in ends]
    return {"choice": choice, "ties": best[1:], "at_edge": at_edge, "trials": rows}
