r"""The commands `python -m posenc.lab.experiments sweep NAME` and `rates NAME`."""

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from posenc.lab.experiments.run import KNOWN, run_rates, run_sweep
from posenc.lab.train import PRESETS
from posenc.lab.train.command import change


def main(arguments: Sequence[str] | None = None) -> None:
    r"""The command; `arguments` in place of the command line's."""
    arguments = sys.argv[1:] if arguments is None else [str(argument) for argument in arguments]
    parser = argparse.ArgumentParser(prog="python -m posenc.lab.experiments", description="Run a sweep.")
    commands = parser.add_subparsers(required=True, dest="command")
    many = commands.add_parser("sweep", help="train every method with several seeds and write one JSON")
    rates = commands.add_parser("rates", help="choose each method's learning rates, by what no table shows")
    for each, file in ((many, "NAME"), (rates, "rates_NAME")):
        each.add_argument("name", choices=KNOWN)
        each.add_argument("--preset", default="study", choices=PRESETS)
        each.add_argument("--methods", nargs="+", help="default all")
        each.add_argument("--out", type=Path, help=f"default results/{file}.json")
        each.add_argument("--device", default="cpu", help="cpu, or cuda: each process takes the next GPU")
        each.add_argument("--set", nargs="+", default=[], type=change, metavar="NAME=NUMBER", help="other settings")
    many.add_argument("--seeds", type=int, default=5, help="how many seeds, from 0")
    many.add_argument("--add", action="store_true", help="add the methods to the results that are there")
    many.add_argument("--rates", nargs="?", type=Path, const=True, help="chosen rates; alone results/rates_NAME.json")
    options = parser.parse_args(arguments)
    world = int(os.environ.get("WORLD_SIZE", 1))
    starter = f"torchrun --nproc-per-node {world}" if world > 1 else "python"
    command = f"{starter} -m posenc.lab.experiments {' '.join(arguments)}"
    results, chosen = (Path("results") / f"{prefix}{options.name}.json" for prefix in ("", "rates_"))
    more = {"device": options.device, "changes": dict(options.set)}
    if options.command == "rates":
        run_rates(options.name, options.preset, options.methods, options.out or chosen, command, **more)
    else:
        more |= {"add": options.add, "rates": chosen if options.rates is True else options.rates}
        run_sweep(options.name, options.preset, options.seeds, options.methods, options.out or results, command, **more)
