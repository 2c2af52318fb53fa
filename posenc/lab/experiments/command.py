r"""The command `python -m posenc.lab.experiments sweep NAME`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from posenc.lab.experiments.runner import run_sweep
from posenc.lab.experiments.sweeps import SWEEPS
from posenc.lab.train import PRESETS


def main(arguments: Sequence[str] | None = None) -> None:
    r"""The command; `arguments` in place of the command line's."""
    arguments = sys.argv[1:] if arguments is None else [str(argument) for argument in arguments]
    parser = argparse.ArgumentParser(prog="python -m posenc.lab.experiments", description="Run a sweep.")
    commands = parser.add_subparsers(required=True)
    many = commands.add_parser("sweep", help="train every method with several seeds and write one JSON")
    many.add_argument("name", choices=SWEEPS)
    many.add_argument("--preset", default="study", choices=PRESETS)
    many.add_argument("--seeds", type=int, default=5, help="how many seeds, from 0")
    many.add_argument("--methods", nargs="+", help="default all")
    many.add_argument("--out", type=Path, help="default results/NAME.json")
    many.add_argument("--add", action="store_true", help="add the methods to the results that are there")
    options = parser.parse_args(arguments)
    world = int(os.environ.get("WORLD_SIZE", 1))
    starter = f"torchrun --nproc-per-node {world}" if world > 1 else "python"
    command = f"{starter} -m posenc.lab.experiments {' '.join(arguments)}"
    out = options.out or Path("results") / f"{options.name}.json"
    run_sweep(options.name, options.preset, options.seeds, options.methods, out, command, options.add)
