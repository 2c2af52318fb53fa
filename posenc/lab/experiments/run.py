r"""A sweep: one cell for each arm and seed, each a file when it is done, and one JSON when all are.

    python -m posenc.lab.experiments rates needle                   # writes results/rates_needle.json
    python -m posenc.lab.experiments sweep needle --rates           # trains each arm with its choice

The same command again trains what is not there yet. Chapter: How to measure position.
"""

import dataclasses
import datetime
import json
import math
import os
import shutil
import time
from collections.abc import Sequence
from pathlib import Path

import numpy
import torch
from torch import distributed
from tqdm import tqdm

from posenc.errors import check_choice, check_int
from posenc.lab.experiments import report
from posenc.lab.experiments.results import (
    check_finite,
    check_results,
    provenance,
    read_json,
    read_results,
    six_digits,
    write_json,
)
from posenc.lab.experiments.sweeps import SWEEPS, Sweep, arms_of, made
from posenc.lab.experiments.verdicts import verdict
from posenc.lab.train import Settings, build, measures, pick_device, sample, settings_for, train_with
from posenc.lab.train.tasks import TASKS
from posenc.lab.train.tiny import own_parameters

KNOWN = SWEEPS | report.EXTRA  # the sweeps that the commands train, by name
# What all cells of one JSON share, as far as it is there: "device" stands for a GPU, "choice" for rates.
SAME = ("settings", "versions", "corpus", "device", "choice")
ONCE = ("parameters", "sample")  # what stands once for all seeds of an arm

FACTORS = (0.5, 1, 2)  # on the preset's learning rate
BEYOND = 4  # how many more, where the best stands at an end
OWN = (1, 10, 100)  # on that of an encoding's own parameters, at the best rate of the others
SEEDS = (100, 101)  # of no sweep
HELD_BACK = 16_000  # characters, of text
MEASURED = {
    "text": f"nats per character over the last {HELD_BACK} characters of the training text, kept from training",
    "masked": f"nats per masked character in the last {HELD_BACK} characters of the training text, kept from training",
}


# ------------------------------------------------------------------------------------------------------------- a sweep


def run_sweep(name, preset, seeds, methods, out: Path, command, add=False, *, rates=None, device="cpu", changes=None):
    r"""Train every arm with `seeds` seeds, one CPU thread each, and write `out` when all are there.

    Each finished cell is a file in the folder `out`.cells, so the same command goes on where it was stopped. Under
    torchrun the cells are dealt to the processes, and the first one writes `out`. `add` puts the arms into the
    results that are there, which must have been made with the same settings, corpus and versions.

    Arguments:
        methods: the arms, default all of the sweep's.
        command: how a reader runs this again.
        rates: a file that `run_rates` wrote; each arm trains with its choice, on text without what is held back.
        device: "cpu", or "cuda": the processes then take the GPUs in turn.
        changes: fields of `Settings` other than the preset's, such as {"windows": 960}.
    Errors: ValueError naming an argument, or a file that is damaged or of other settings, before anything is trained.
    """
    check_int("seeds", seeds)
    sweep, arms = chosen(name, methods, out)
    if sweep.against and not add and sweep.against not in arms:
        raise ValueError(f"methods={arms} must hold {sweep.against!r}, which {name} compares the others with")
    settings, choice = settings_for(preset, sweep.task, **sweep.changes | (changes or {})), {}
    if rates is not None:
        settings, choice = read_rates(rates, name, settings, arms)
    facts = provenance(name, preset, settings, command) | on(device) | ({"choice": choice} if rates is not None else {})
    older = read_results(out, name) if add else None
    if add:
        check_addition(out, older, facts, arms, sweep.against)
    each = {arm: dataclasses.replace(settings, **choice.get(arm, {})) for arm in arms}
    cells = train_cells(sweep, each, range(seeds), facts, out, device)
    if cells is None:
        return
    results = facts | {"commit": commits(cells)} | assemble(sweep, settings, cells)
    whole = check_results(merge(older, results) if add else results)
    write_json(out, whole)
    shutil.rmtree(folder_of(out))
    for arm in results["claims"]:
        if arm != sweep.against:
            print(verdict(whole, arm).words)


def chosen(name: str, methods: Sequence[str] | None, out: Path) -> tuple[Sweep, list]:
    """The sweep of a name, and its arms among `methods`, default all.

    Errors: ValueError for one that isn't known, IsADirectoryError for a folder in place of the file to write.
    """
    check_choice("name", name, KNOWN)
    arms = arms_of(KNOWN[name]) if methods is None else list(dict.fromkeys(methods))
    for arm in arms:
        check_choice("methods", arm, arms_of(KNOWN[name]))
    if out.is_dir():
        raise IsADirectoryError(f"out={str(out)!r} is a folder; name a file in it")
    return KNOWN[name], arms


def on(device: str) -> dict:
    """{"device": the GPU's name} for the facts of what is trained on one, {} for the CPU. Errors: as `pick_device`."""
    found = pick_device(device)
    if found.type == "cpu":
        return {}
    return {"device": torch.cuda.get_device_name(found) if found.type == "cuda" else found.type}


def deal(device: str, rank: int) -> torch.device:
    """The device of a process: "cuda" without a number is each GPU in turn. Errors: as `pick_device`."""
    found = pick_device(device)
    return torch.device("cuda", rank % torch.cuda.device_count()) if str(found) == "cuda" else found


def check_addition(out: Path, older: dict, facts: dict, arms: Sequence[str], against: str | None) -> None:
    """Raise ValueError unless arms trained under these facts may stand beside those of the older results."""
    if against and against not in older["methods"]:
        raise ValueError(f"{out} must hold {against!r}, which it compares the others with")
    for key in SAME:
        if older.get(key) != as_read(facts.get(key)):
            raise ValueError(f"{out} was made with other {key}, {older.get(key)}; nothing can be added to it")
    twice = sorted({*arms} & {*older["methods"]})
    if twice:
        raise ValueError(f"methods={list(arms)}: {out} already holds {twice}")


def as_read(value):
    """A value as it would come back from a JSON file: tuples as lists."""
    return json.loads(json.dumps(value))


def assemble(sweep: Sweep, settings: Settings, cells: dict) -> dict:
    """What the JSON of a sweep holds beside its provenance: the sweep in words, and its cells as lists over seeds."""
    arms, seeds = (list(dict.fromkeys(part)) for part in zip(*cells))
    results = {
        "task": sweep.task,
        "question": sweep.question,
        "seeds": seeds,
        "unit": sweep.unit,
        "tolerance": sweep.tolerance,
        "claims": {arm: sweep.predictions[arm][0] for arm in arms if arm in sweep.predictions},
        "predictions": {arm: sweep.predictions[arm][1] for arm in arms if arm in sweep.predictions},
        "headline": sweep.headline,
        "shows_not": sweep.shows_not,
    }
    if sweep.contrast:
        start, end = sweep.contrast
        results |= {"contrast": [start, end or str(settings.length)], "against": sweep.against}
    if "scores" in cells[arms[0], seeds[0]]:
        results["tests"] = TASKS[sweep.task].words
    by_arm = {arm: over_seeds([cells[arm, seed] for seed in seeds]) for arm in arms}
    return results | sweep.facts(settings) | {"methods": by_arm}


def over_seeds(cells: list[dict]) -> dict:
    """The cells of one arm as lists over its seeds."""
    first = cells[0]
    kept = [key for key in first if key not in ("scores", "made")]
    values = {key: first[key] if key in ONCE else [cell[key] for cell in cells] for key in kept}
    if "scores" in first:
        values["scores"] = {column: [cell["scores"][column] for cell in cells] for column in first["scores"]}
    return dict(sorted(values.items()))


def merge(older: dict, results: dict) -> dict:
    """The older results with the arms of `results`, each with its seeds, and a note of where they come from."""
    note = {key: results[key] for key in ("command", "commit", "machine", "seeds")} | {"arms": list(results["methods"])}
    methods = {arm: values | {"seeds": results["seeds"]} for arm, values in results["methods"].items()}
    newer = results | {"methods": methods}
    both = {key: older[key] | newer[key] for key in ("claims", "predictions", "methods")}
    arms = [arm for arm in arms_of(KNOWN[older["name"]]) if arm in both["methods"]]
    both = {key: {arm: values[arm] for arm in arms if arm in values} for key, values in both.items()}
    return older | both | {"added": [*older.get("added", []), note]}


# ----------------------------------------------------------------------------------------------------------- its cells


def train_cells(sweep, each: dict, seeds, facts: dict, out: Path, device, one=None, alone=False) -> dict | None:
    r"""Train the cells of each arm, {arm: its Settings}, that are not there yet: under torchrun those of this process.

    facts: where the results come from; each cell keeps its share of them. one: trains a cell, default `run_cell`.
    alone: this process trains all. Returns: {(arm, seed): its numbers}; None in all processes but the first.
    """
    rank, world = (0, 1) if alone else (int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1)))
    torch.set_num_threads(1)
    made = as_read({key: facts[key] for key in (*SAME, "commit") if key in facts})
    files = {(arm, seed): folder_of(out) / f"{arm}-{seed}.json" for seed in seeds for arm in each}
    for file in files.values():
        if file.exists():
            read_cell(file, made)  # refuses one that is damaged or of something else before anything is trained
    mine = [cell for cell in list(files)[rank::world] if not files[cell].exists()]
    for arm, seed in tqdm(mine, desc=facts["name"], position=rank):
        cell = (one or run_cell)(sweep, arm, seed, each[arm], deal(device, rank))
        write_json(files[arm, seed], cell | {"made": made})
    if world > 1:
        distributed.init_process_group("gloo", timeout=datetime.timedelta(days=2))
        distributed.barrier()
        distributed.destroy_process_group()
    return None if rank else {cell: read_cell(file, made) for cell, file in files.items()}


def folder_of(out: Path) -> Path:
    """The folder of a sweep's finished cells."""
    return out.with_name(out.name + ".cells")


def read_cell(file: Path, made: dict) -> dict:
    """A finished cell. Errors: ValueError for a file that is damaged, or of a sweep with other settings or versions."""
    cell = read_json(file)
    others = [key for key in SAME if cell.get("made", {}).get(key) != made.get(key)]
    if others:
        raise ValueError(f"{file} was made with other {', '.join(others)}; go on with those or delete its folder")
    check_finite(cell, f"{file}:")
    return cell


def commits(cells: dict) -> str:
    """The commits that cells were trained at, in words."""
    on = ", gone on with at "
    return on.join(dict.fromkeys(part for cell in cells.values() for part in cell["made"]["commit"].split(on)))


def run_cell(sweep: Sweep, arm: str, seed: int, settings: Settings, device: str | torch.device = "cpu") -> dict:
    r"""Train and test one arm with one seed: the numbers of one cell of a sweep."""
    started = time.perf_counter()
    method, options = made(sweep, arm)
    model, history = train_with(method, settings, seed, sweep.task, device=device, progress=False, options=options)
    cell = six_digits(sweep.measure(model, settings))
    cell["curve"] = [round(float(numpy.mean(history["loss"][i : i + 10])), 4) for i in range(0, settings.steps, 10)]
    cell["parameters"] = sum(parameter.numel() for parameter in model.parameters())
    if sweep.task == "text" and seed == 0 and sweep.arms is None:
        cell["sample"] = sample(model, window=settings.length)
    cell["seconds"] = round(time.perf_counter() - started, 1)
    return cell


# -------------------------------------------------------------------------------------------------- its learning rates


def run_rates(name, preset, methods, out: Path, command, *, device="cpu", changes=None) -> None:
    r"""Train every arm of a sweep at each rate with two seeds of its own, and write the scores and choices to `out`.

    The cells are kept and gone on with as `run_sweep`'s are. A score is `measures.validation`; the choice is the least
    mean over seeds, in a tie what was tried first. The first process goes on: at the best rate it tries the factors on
    an encoding's own parameters, and beyond what is the least or greatest tried, until it is neither, or `BEYOND` are
    tried. A run that diverges has no score.
    Arguments and errors: as `run_sweep`.
    """
    sweep, arms = chosen(name, methods, out)
    kept = {"held_back": HELD_BACK} if sweep.task in MEASURED else {}
    settings = settings_for(preset, sweep.task, **sweep.changes | (changes or {}) | kept)
    factors = sorted(FACTORS, key=lambda factor: abs(math.log(factor)))
    trials = {arm: [{"lr": settings.lr * factor, "own": 1.0} for factor in factors] for arm in arms}
    models = {arm: build(made(sweep, arm)[0], settings, sweep.task, options=made(sweep, arm)[1]) for arm in arms}
    learn = {arm for arm, model in models.items() if own_parameters(model, settings, sweep.task)}
    facts = provenance(f"rates_{name}", preset, settings, command) | on(device)

    def scored(alone: bool) -> dict | None:
        """{arm: what `choose` says of its trials}, once they are trained; and the commits."""
        origin = {called(arm, trial): (arm, trial) for arm in arms for trial in trials[arm]}
        trial_sweep = sweep._replace(
            arms={cell: made(sweep, arm) for cell, (arm, _) in origin.items()},
            measure=lambda model, settings: {"score": measures.validation(model, sweep.task, settings)},
        )
        each = {cell: dataclasses.replace(settings, **trial) for cell, (_, trial) in origin.items()}
        cells = train_cells(trial_sweep, each, SEEDS, facts, out, device, run_trial, alone)
        if cells is None:
            return None
        facts["commit"] = commits(cells)
        return {
            arm: choose(those, [[cells[called(arm, trial), seed] for seed in SEEDS] for trial in those])
            for arm, those in trials.items()
        }

    tried = scored(alone=False)
    if tried is None:
        return
    for _ in range(1 + BEYOND):
        further = {arm: beyond(values, arm in learn) for arm, values in tried.items()}
        trials = {arm: [*trials[arm], *more] for arm, more in further.items()}
        tried = scored(alone=True) if any(further.values()) else tried
    results = facts | {
        "task": sweep.task,
        "question": f"With which learning rates does each arm of the sweep {name} do best?",
        "measured": MEASURED.get(sweep.task, 'nats per answer on a batch like the test "in", of its own seed'),
        "seeds": list(SEEDS),
        "choice": {arm: values["choice"] for arm, values in tried.items() if values["choice"]},
        "ties": [arm for arm, values in tried.items() if values["ties"]],
        "at_edge": {arm: values["at_edge"] for arm, values in tried.items() if values["at_edge"]},
        "trials": {arm: values["trials"] for arm, values in tried.items()},
    }
    write_json(out, check_results(results))
    shutil.rmtree(folder_of(out))
    for arm, values in tried.items():
        print(f"{arm}: {values['choice'] or 'every run diverged'}{', a tie' if values['ties'] else ''}")


def beyond(values: dict, own: bool) -> list[dict]:
    """The trials that follow from an arm's choice: factors on its own parameters, or one step beyond an end."""
    choice = values["choice"]
    if choice and own and all(trial["own"] == 1 for trial in values["trials"]):
        return [choice | {"own": float(factor)} for factor in OWN[1:]]
    least = choice and choice["lr"] == min(trial["lr"] for trial in values["trials"])
    steps = {"lr": 0.5 if least else 2.0, "own": 10.0}
    return [choice | {key: choice[key] * steps[key]} for key in values["at_edge"]]


def called(arm: str, trial: dict) -> str:
    """The name of an arm at a rate, its cells' file name."""
    return f"{arm} lr={trial['lr']:g} own={trial['own']:g}"


def run_trial(sweep: Sweep, arm: str, seed: int, settings: Settings, device) -> dict:
    """The score of one cell, and how long it took; a run that diverges has no score, and says so."""
    try:
        cell = run_cell(sweep, arm, seed, settings, device)
    except FloatingPointError as error:
        return {"score": None, "diverged": str(error)}
    return {"score": cell["score"], "diverged": None, "seconds": cell["seconds"]}


def choose(trials: list[dict], found: list[list[dict]]) -> dict:
    r"""The choice among trials of one arm, with every score.

    found: for each trial its cells over seeds. Returns: {"choice": {"lr", "own"} or None, "ties": the other trials of
    the same mean, "at_edge": those of "lr" and "own" whose choice is an end of what was tried, but for an "own" of 1,
    "trials": [{"lr", "own", "scores", "mean", "diverged"}]}.
    """
    rows = []
    for trial, cells in zip(trials, found):
        scores = [cell["score"] for cell in cells]
        mean = None if None in scores else sum(scores) / len(scores)
        diverged = [cell["diverged"] for cell in cells]
        rows.append(trial | six_digits({"scores": scores, "mean": mean, "diverged": diverged}))
    means = [row["mean"] for row in rows if row["mean"] is not None]
    best = [trial for trial, row in zip(trials, rows) if means and row["mean"] == min(means)]
    choice = best[0] if best else None
    tried = [trial["lr"] for trial in trials]
    edges = {"lr": {min(tried), max(tried)}, "own": {max(trial["own"] for trial in trials)} - {1}}
    at_edge = [key for key, ends in edges.items() if choice and choice[key] in ends]
    return {"choice": choice, "ties": best[1:], "at_edge": at_edge, "trials": rows}


def read_rates(path: Path, name: str, settings: Settings, arms: Sequence[str]) -> tuple[Settings, dict]:
    r"""What a file of `run_rates` chose, for the sweep `name`: the settings with its text held back, {arm: its rates}.

    The file may be another sweep's, as one choice for all puzzles. Errors: FileNotFoundError; ValueError for a file of
    something else, that lacks an arm, or that was made with other settings than these: the test's windows may differ,
    and between two sweeps the number of steps.
    """
    if not path.exists():
        command = f"python -m posenc.lab.experiments rates {name} --out {path}"
        raise FileNotFoundError(f"rates={str(path)!r}: no such file; {command} makes it")
    found = read_results(path)
    if not found["name"].startswith("rates_"):
        raise ValueError(f"rates={str(path)!r} holds the results {found['name']!r}, no rates")
    settings = dataclasses.replace(settings, held_back=found["settings"].get("held_back", 0))
    ours, theirs = as_read(settings.as_dict()), found["settings"]
    free = {"windows"} if found["name"] == f"rates_{name}" else {"windows", "steps"}
    differ = sorted(key for key in {*ours, *theirs} - free if ours.get(key) != theirs.get(key))
    if differ:
        raise ValueError(f"rates={str(path)!r} has other settings: {', '.join(differ)}. Choose rates with the same")
    for arm in arms:
        if arm not in found["choice"]:
            raise ValueError(f"rates={str(path)!r} has none for {arm!r}; add it with `rates {name}`, or leave it out")
    return settings, found["choice"]
