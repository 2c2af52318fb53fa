r"""The command `python -m posenc.lab.train run`: train one model, or go on with it, and print how it does."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import distributed

from posenc.lab.train.measures import scores
from posenc.lab.train.settings import PRESETS, settings_for
from posenc.lab.train.tasks import TASKS
from posenc.lab.train.tiny import pick_device
from posenc.lab.train.trainer import train_with
from posenc.methods import on_text


def in_one_line(main: Callable[[], None]) -> int:
    r"""Run a command; return its exit code: 130 for Ctrl-C, 1 for what a line on stderr can say."""
    try:
        main()
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        return 130
    except (FloatingPointError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def main(arguments: Sequence[str] | None = None) -> None:
    r"""The command; `arguments` in place of the command line's."""
    parser = argparse.ArgumentParser(prog="python -m posenc.lab.train", description="Train and measure a small model.")
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run", help="train one model; the same command again goes on where it was stopped")
    one.add_argument("--method", required=True, choices=on_text())
    one.add_argument("--task", default="text", choices=TASKS)
    one.add_argument("--preset", default="lab", choices=PRESETS)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--set", nargs="+", default=[], type=change, metavar="NAME=NUMBER", help="other settings")
    one.add_argument("--out", type=Path, help="the checkpoint, default runs/TASK-METHOD-PRESET-SEED.pt")
    one.add_argument("--device", help="cpu, cuda, cuda:1 ... or mps; default cuda where there is one")
    one.add_argument("--save-every", type=float, default=30.0, metavar="SECONDS")
    run(parser.parse_args(arguments))


def run(options: argparse.Namespace) -> None:
    r"""Train the model of these options, with a checkpoint, and print its score on each test of its task.

    Under torchrun each batch is shared by its processes: NCCL where each has a GPU, else gloo.
    """
    settings = settings_for(options.preset, options.task, **dict(options.set))
    name = f"{options.task}-{options.method}-{options.preset}-{options.seed}.pt"
    checkpoint = options.out or Path("runs") / name
    device, together = pick_device(options.device), int(os.environ.get("WORLD_SIZE", 1)) > 1
    if together and device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    if together:
        distributed.init_process_group("nccl" if device.type == "cuda" else "gloo")
    asked = {"device": device, "checkpoint": checkpoint, "save_every": options.save_every, "together": together}
    model, history = train_with(options.method, settings, options.seed, options.task, **asked)
    if together:
        distributed.destroy_process_group()
    if int(os.environ.get("RANK", 0)):
        return
    print(f"{checkpoint}: {settings.steps} steps, last loss {history['loss'][-1]:.4f}, {history['seconds']:.0f} s")
    for name, value in scores(model, options.task, settings).items():
        print(f"  {name:12} {value:.4f}")


def change(text):
    """`--set steps=400` as ("steps", 400)."""
    name, equals, value = text.partition("=")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=NUMBER, such as steps=400") from None
