r"""What the benchmarks share: a command line, finished parts kept in runs/, and the record in results/."""

import argparse
import copy
import json
import multiprocessing
import sys
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path

import torch
from tqdm import tqdm

from posenc.lab.experiments import check_results, provenance, six_digits, write_json


def asked(doc, options=None):
    """What the command line asks for; options: {"--name": what `add_argument` is told of it}."""
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    for name, how in (options or {}).items():
        parser.add_argument(name, **how)
    return parser.parse_args()


def begun(name, preset, settings):
    """Where results come from, as they are begun, with one thread."""
    torch.set_num_threads(1)
    return provenance(name, preset, settings, "python " + " ".join(sys.argv))


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


def in_turn(todo, measure, folder, workers, words):
    """{cell: its numbers} of all cells to do, several at a time."""
    with ProcessPoolExecutor(workers, multiprocessing.get_context("spawn")) as pool:
        waiting = {pool.submit(kept_cell, measure, folder, cell): cell for cell in todo}
        return {waiting[future]: future.result() for future in tqdm(as_completed(waiting), words, len(waiting))}


def write(results):
    """Write results/NAME.json, where `results` are whole."""
    write_json(Path(f"results/{results['name']}.json"), check_results(six_digits(results)))


def with_encoding(model, encoding):
    """A copy of a model with one encoding in every layer."""
    model = copy.deepcopy(model)
    for block in model.blocks:
        block.attention.encoding = encoding
    return model
