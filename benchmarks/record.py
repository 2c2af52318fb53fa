r"""What the benchmarks share: a command line, finished parts kept in runs/, and the record in results/."""

import argparse
import copy
import datetime
import importlib.metadata
import json
import multiprocessing
import os
import statistics
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from posenc.lab.experiments import check_results, load_results, provenance, six_digits, write_json
from posenc.lab.train import Settings, settings_for
from posenc.lab.train.measures import BLOCKS, target_losses
from posenc.lab.train.tasks import IGNORE, TASKS

SEEDS, CHOOSING = range(5), range(2)  # of an arm, and those of them that choose its learning rate


def asked(doc, options=None):
    """What the command line asks for; options: {"--name": what `add_argument` is told of it}."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, how in (options or {}).items():
        parser.add_argument(name, **how)
    return parser.parse_args()


def facts(name, preset, settings):
    """Where results come from, as they are begun, with one thread."""
    torch.set_num_threads(1)
    return provenance(name, preset, settings, "python " + " ".join(sys.argv))


def begun(doc, name, preset, settings):
    """`facts`, for a command line without options."""
    asked(doc)
    return facts(name, preset, settings)


def of_libraries(doc, name, libraries):
    """`begun` for what asks other libraries, of these names, and trains nothing."""
    made = begun(doc, name, "nano", settings_for("nano"))
    about = {key: made[key] for key in ("name", "command", "commit", "versions", "machine")}
    versions = {library: importlib.metadata.version(library) for library in libraries}
    today = datetime.date.today().isoformat()
    return about | {"date": today, "definition": doc.split("\n\n")[2], "libraries": versions}


def kept(path, measure, *cell):
    """The numbers of a cell: measure(*cell), or what runs/PATH.json holds since."""
    file = Path("runs", f"{path}.json")
    if not file.exists():
        write_json(file, six_digits(measure(*cell)))
    return json.loads(file.read_text())


def kept_cell(measure, folder, cell):
    """`kept`, by the words of a cell."""
    torch.set_num_threads(1)
    return kept(f"{folder}/{'-'.join(map(str, cell))}", measure, *cell)


def in_turn(todo, measure, folder, words):
    """{cell: its numbers} of all cells to do, one on each core at a time."""
    os.environ["OMP_NUM_THREADS"] = "1"
    with ProcessPoolExecutor(os.cpu_count(), multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(kept_cell, measure, folder, cell): cell for cell in todo}
        return {waiting[future]: future.result() for future in tqdm(as_completed(waiting), words, len(waiting))}


def in_turns(functions, rounds, clock, repeat=1):
    """Seconds of each function, [rounds] for each: they take turns, so that a busy machine slows them all alike."""
    seconds = [[] for _ in functions]
    for turn in tqdm(range(rounds + 3), "rounds", leave=False):
        for function, own in zip(functions, seconds):
            started = clock()
            for _ in range(repeat):
                function()
            if turn >= 3:  # the first ones warm up
                own.append((clock() - started) / repeat)
    return seconds


def ratio(above, below):
    """The median over rounds of above / below, rounds paired."""
    return round(statistics.median(a / b for a, b in zip(above, below)), 3)


def chosen(arm, sweep="train_short_test_long"):
    """The settings of an arm of a frozen sweep: with one seed `train_with` makes the model that was tested there."""
    frozen = load_results(sweep)
    return Settings(**frozen["settings"] | frozen["choice"][arm])


def write(results):
    """Write results/NAME.json, where `results` are whole."""
    write_json(Path(f"results/{results['name']}.json"), check_results(six_digits(results)))


# ------------------------------------------------------------------------------- each arm at its best learning rate


def chosen_rate(cells, arm, rates):
    """The learning rate whose validation loss, mean over the seeds that choose, is least."""
    return min(rates, key=lambda rate: sum(cells[*arm, rate, seed]["validation"] for seed in CHOOSING))


def train_at(rates, measure, folder):
    """All seeds of the arms, {arm: its rate}."""
    todo = [(*arm, rate, seed) for arm, rate in rates.items() for seed in SEEDS]
    return in_turn(todo, measure, folder, "the chosen rate")


def train_cells(arms, rates, measure, folder):
    """All cells of the arms, tuples: the seeds that choose at each rate, the others at the one they chose.

    measure(*arm, rate, seed) returns the {"validation", "scores"} of a cell.
    """
    todo = [(*arm, rate, seed) for arm in arms for seed in CHOOSING for rate in rates]
    cells = in_turn(todo, measure, folder, "all rates")
    return cells | train_at({arm: chosen_rate(cells, arm, rates) for arm in arms}, measure, folder)


def over(cells, arm, rate):
    """{test: its scores over the seeds} of an arm at a rate."""
    scores = [cells[*arm, rate, seed]["scores"] for seed in SEEDS]
    return {test: [one[test] for one in scores] for test in scores[0]}


def arm_results(cells, arm, rates):
    """What stands in the results of one arm: its rate, why, and the scores at that rate."""
    rate = chosen_rate(cells, arm, rates)
    return {
        "rate": rate,
        "validation": {str(r): [cells[*arm, r, seed]["validation"] for seed in CHOOSING] for r in rates},
        "scores": over(cells, arm, rate),
    }


# -------------------------------------------------------------------------------------------------------- one model


def with_encoding(model, encoding):
    """A copy of a model with one encoding in every layer."""
    model = copy.deepcopy(model)
    for block in model.blocks:
        block.attention.encoding = encoding
    return model


def targets_of(model, windows, settings, length, **how):
    """Losses of the last characters of the windows at a context length, [W, targets] in nats; as `target_losses`."""
    return target_losses(model, windows[:, -(length + 1) :], **how)[:, -settings.targets :]


def target_loss(*model_and_windows, **how):
    """The mean of `targets_of`."""
    return targets_of(*model_and_windows, **how).mean().item()


def in_blocks(*rows):
    """The mean of each block of neighboring windows, of each of losses [W, targets], in one list."""
    return [round(part.mean().item(), 4) for losses in rows for part in losses.tensor_split(BLOCKS)]


def over_seeds(rows):
    """The mean over the seeds of their rows, of equal length."""
    return torch.tensor(rows, dtype=torch.float64).mean(0).round(decimals=4).tolist()


IN_BLOCKS = (  # what stands in a file as "in_blocks"
    "Means over the seeds of losses in blocks of neighboring windows, for intervals that count the windows, too: "
)


def descend(loss, model, optimizer, rate, clip=1.0):
    """One step down a loss at this learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), clip)
    optimizer.step()


def fine_tune(model, task, length, batch, rates, seed, fused=None):
    """Go on training the model at another length, one step at each of the learning rates."""
    optimizer = torch.optim.AdamW(model.parameters(), betas=(0.9, 0.99), weight_decay=0.01, fused=fused)
    draws = torch.Generator().manual_seed(seed)
    model.train()
    for rate in rates:
        tokens, targets = TASKS[task].batch(draws, batch, length)
        loss = cross_entropy(model(tokens).flatten(0, 1), targets.flatten(), ignore_index=IGNORE)
        descend(loss, model, optimizer, rate)
    return model.eval()
