r"""The runner of a sweep: one cell for each arm and seed, each kept when it is done, and one JSON when all are."""

import dataclasses
import datetime
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy
import torch
from torch import distributed
from tqdm import tqdm

from posenc.errors import check_choice, check_int
from posenc.lab.experiments.arms import EXTRA
from posenc.lab.experiments.provenance import provenance, start_of
from posenc.lab.experiments.results import (
    check_results,
    read_cell,
    read_json,
    read_rates,
    read_results,
    six_digits,
    write_json,
)
from posenc.lab.experiments.sweeps import SWEEPS, Sweep, arms_of, made
from posenc.lab.experiments.verdicts import verdict
from posenc.lab.train import Settings, pick_device, read_checkpoint, sample, settings_for, train_with
from posenc.lab.train.tasks import TASKS

# What all cells of one JSON share, as far as it is there: "device" stands for a GPU, "choice" for rates.
SAME = ("settings", "versions", "corpus", "device", "choice")
ONCE = ("parameters", "sample", "sample_long")  # what stands once for all seeds of an arm


def run_sweep(
    name: str,
    preset: str,
    seeds: int,
    methods: Sequence[str] | None,
    out: Path,
    command: str,
    add: bool = False,
    *,
    rates: Path | None = None,
    device: str = "cpu",
    changes: dict | None = None,
    sweep: Sweep | None = None,
) -> None:
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
        sweep: what to train, default the known one with this name.
    Errors: ValueError naming an argument, or a file that is damaged or of other settings, OSError for an `out` that
        can't be written: all before anything is trained.
    """
    check_int("seeds", seeds)
    sweep, arms = chosen(name, methods, sweep)
    if sweep.against and not add and sweep.against not in arms:
        raise ValueError(f"methods={arms} must hold {sweep.against!r}, which {name} compares the others with")
    settings, choice = settings_for(preset, sweep.task, **sweep.changes | (changes or {})), {}
    if rates is not None:
        settings, choice = read_rates(rates, name, settings, arms)
    facts = provenance(name, preset, settings, command) | on(device) | ({"choice": choice} if rates is not None else {})
    each = {arm: dataclasses.replace(settings, **choice.get(arm, {})) for arm in arms}
    check_file(out)
    older = read_results(out, name) if add else None
    if add:
        check_addition(out, older, facts, arms, sweep.against)
    cells = train_all(sweep, each, range(seeds), facts, out, device)
    if cells is None:
        return
    results = facts | assemble(sweep, settings, cells.read())
    whole = check_results(merge(older, results) if add else results)
    write_json(out, whole)
    shutil.rmtree(cells.folder)
    for arm in results["claims"]:
        if arm != sweep.against:
            print(verdict(whole, arm).words)


def known() -> dict[str, Sweep]:
    """The sweeps that the commands train, by name."""
    return SWEEPS | EXTRA


def chosen(name: str, methods: Sequence[str] | None, sweep: Sweep | None = None) -> tuple[Sweep, list]:
    """The sweep of a name, and its arms among `methods`, default all. Errors: ValueError for one that isn't known."""
    if sweep is None:
        check_choice("name", name, known())
        sweep = known()[name]
    arms = arms_of(sweep) if methods is None else list(dict.fromkeys(methods))
    for arm in arms:
        check_choice("methods", arm, arms_of(sweep))
    return sweep, arms


def check_file(out: Path) -> None:
    """Raise IsADirectoryError for a folder, which would be told only when all is trained."""
    if out.is_dir():
        raise IsADirectoryError(f"out={str(out)!r} is a folder; name a file in it")


def train_all(
    sweep: Sweep, each: dict, seeds: Sequence[int], facts: dict, out: Path, device: str, one: Callable | None = None
):
    r"""Train the cells of each arm, {arm: its Settings}, that are not there yet; `facts` is told where they come from.

    one: trains a cell, default `run_cell`. Returns: the `Cells`, all there; None in all processes but the first.
    """
    rank, world = int(os.environ.get("RANK", 0)), int(os.environ.get("WORLD_SIZE", 1))
    device = deal(device, rank)
    torch.set_num_threads(1)
    cells = Cells(out.with_name(out.name + ".cells"), list(each), seeds)
    facts["commit"] = cells.begin(facts, rank)
    name = facts["name"]
    bar = tqdm(cells.share(rank, world), desc=f"{name}, process {rank}" if world > 1 else name, position=rank)
    for arm, seed in bar:
        cells.run(one or run_cell, sweep, arm, seed, each[arm], device)
    if world > 1:
        distributed.init_process_group("gloo", timeout=datetime.timedelta(days=2))
        distributed.barrier()
        distributed.destroy_process_group()
    return None if rank else cells


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


class Cells:
    r"""The folder of a sweep on its way: a file for each finished cell, a checkpoint for each begun one.

    A file "begun-RANK.json" says under which settings, versions and corpus, and at which commit.
    """

    def __init__(self, folder: Path, arms: Sequence[str], seeds: Sequence[int]):
        self.folder, self.all = folder, [(arm, seed) for seed in seeds for arm in arms]

    def file(self, arm: str, seed: int) -> Path:
        return self.folder / f"{arm}-{seed}.json"

    def begin(self, facts: dict, rank: int) -> str:
        """The commits that these cells are trained at; raise ValueError where they were begun under other facts."""
        same, commits = {key: facts[key] for key in SAME if key in facts}, []
        for file in sorted(self.folder.glob("begun-*.json")):
            start = read_json(file, {"same": dict, "commit": str})
            others = [key for key in SAME if start["same"].get(key) != as_read(same.get(key))]
            if others:
                raise ValueError(
                    f"{self.folder} was begun with other {', '.join(others)}; go on with those or delete it"
                )
            commits.append(start["commit"])
        commit = ", gone on with at ".join(dict.fromkeys([*commits, facts["commit"]]))
        if not (self.folder / f"begun-{rank}.json").exists():
            write_json(self.folder / f"begun-{rank}.json", {"same": same, "commit": commit})
        return commit

    def share(self, rank: int, world: int) -> list:
        """What is left to do of this process's share. A damaged cell, of anyone's, is refused before."""
        finished = [cell for cell in self.all if self.file(*cell).exists()]
        for cell in finished:
            read_cell(self.file(*cell))
        mine = self.all[rank::world]
        left = [cell for cell in mine if cell not in finished]
        if len(left) < len(mine):
            print(f"{self.folder}: {len(mine) - len(left)} finished runs, {len(left)} to go", file=sys.stderr)
        return left

    def run(self, one: Callable, sweep: Sweep, arm: str, seed: int, settings: Settings, device: torch.device) -> None:
        """Train one cell, or go on with it, and keep its numbers."""
        checkpoint = self.file(arm, seed).with_suffix(".pt")
        if checkpoint.exists():
            read_checkpoint(checkpoint)  # refuses a damaged one before anything is trained
        write_json(self.file(arm, seed), one(sweep, arm, seed, settings, checkpoint, device))
        checkpoint.unlink(missing_ok=True)

    def read(self) -> dict:
        """{(arm, seed): its numbers} of all cells, which must hold the same columns."""
        numbers = {cell: read_cell(self.file(*cell)) for cell in self.all}
        first = columns(numbers[self.all[0]])
        for cell, values in numbers.items():  # one that is whole, but of something else
            if columns(values) != first:
                raise ValueError(
                    f"{self.file(*cell)} holds {columns(values)}, not as the others {first}; move it away and run again"
                )
        return numbers


def columns(values):
    """What a cell holds a number of for each seed, in order."""
    return sorted({*values} - {*ONCE}), sorted(values.get("scores", {}))


def run_cell(
    sweep: Sweep,
    arm: str,
    seed: int,
    settings: Settings,
    checkpoint: Path | None = None,
    device: str | torch.device = "cpu",
) -> dict:
    r"""Train and test one arm with one seed: the numbers of one cell of a sweep.

    "start" is a hash of the initial parameters that the model shares with NoPE's: arms of one seed share it.
    """
    started = time.perf_counter()
    method, options, make_attention = made(sweep, arm, settings)
    named = isinstance(method, str)  # a checkpoint of another can't be told from a third
    model, history = train_with(
        method,
        settings,
        seed,
        sweep.task,
        device=device,
        progress=False,
        checkpoint=checkpoint if named else None,
        options=options,
        make_attention=make_attention,
    )
    cell = six_digits(sweep.measure(model, settings))
    cell["final_train_loss"] = round(float(numpy.mean(history["loss"][-max(1, settings.steps // 10) :])), 6)
    cell["curve"] = [round(float(numpy.mean(history["loss"][i : i + 10])), 4) for i in range(0, settings.steps, 10)]
    cell["start"] = start_of(method, settings, sweep.task, seed, options)
    cell["parameters"] = sum(parameter.numel() for parameter in model.parameters())
    if sweep.task == "text" and seed == 0 and sweep.arms is None:
        cell["sample"] = sample(model, window=settings.length)
        cell["sample_long"] = sample(model, length=400)
    cell["seconds"] = round(time.perf_counter() - started, 1)
    return cell


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


def over_seeds(cells):
    """The cells of one arm as lists over its seeds."""
    first = cells[0]
    values = {key: first[key] if key in ONCE else [cell[key] for cell in cells] for key in first if key != "scores"}
    if "scores" in first:
        values["scores"] = {column: [cell["scores"][column] for cell in cells] for column in first["scores"]}
    return dict(sorted(values.items()))


def merge(older: dict, results: dict) -> dict:
    """The older results with the arms of `results`, each with its seeds, and a note of where they come from."""
    note = {key: results[key] for key in ("command", "commit", "machine", "seeds")} | {"arms": list(results["methods"])}
    newer = results | {
        "methods": {arm: values | {"seeds": results["seeds"]} for arm, values in results["methods"].items()}
    }
    both = {key: older[key] | newer[key] for key in ("claims", "predictions", "methods")}
    arms = [arm for arm in arms_of(known()[older["name"]]) if arm in both["methods"]]
    both = {key: {arm: values[arm] for arm in arms if arm in values} for key, values in both.items()}
    return older | both | {"added": [*older.get("added", []), note]}
