r"""The command `python -m posenc.lab.train run`: train one model, or go on with it, and print how it does."""

import argparse
import contextlib
import datetime
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from torch import distributed

from posenc.lab.train.files import HeldError
from posenc.lab.train.measure import scores
from posenc.lab.train.models import pick_device
from posenc.lab.train.settings import PRESETS, settings_for
from posenc.lab.train.tasks import TASKS
from posenc.lab.train.trainer import train_with
from posenc.methods import on_text


def in_one_line(main: Callable[[], None]) -> int:
    r"""Run a command; return its exit code: 143 for SIGTERM, 130 for Ctrl-C, 1 for what a line on stderr can say."""
    try:
        main()
    except KeyboardInterrupt as stopped:
        print(str(stopped) or "stopped", file=sys.stderr)
        return 128 + getattr(stopped, "number", signal.SIGINT)
    except (HeldError, FloatingPointError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def main(arguments: Sequence[str] | None = None, others: Sequence[Callable] = ()) -> None:
    r"""The command; `arguments` in place of the command line's. others: each adds a command of its own."""
    parser = argparse.ArgumentParser(prog="python -m posenc.lab.train", description="Train and measure a small model.")
    commands = parser.add_subparsers(required=True)
    one = commands.add_parser("run", help="train one model; the same command again goes on where it was stopped")
    one.add_argument("--method", required=True, choices=on_text())
    one.add_argument("--task", default="text", choices=TASKS)
    one.add_argument("--preset", default="lab", choices=PRESETS)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--set", nargs="+", default=[], type=change, metavar="NAME=NUMBER", help="other settings")
    one.add_argument("--out", type=Path, help="the checkpoint, default runs/TASK-METHOD-PRESET-SEED.pt")
    one.add_argument(
        "--device", type=torch_device, help="cpu, cuda, cuda:1 ... or mps; default cuda where there is one"
    )
    one.add_argument("--save-every", type=float, default=30.0, metavar="SECONDS")
    one.set_defaults(run=run)
    for add in others:
        add(commands)
    given = sys.argv[1:] if arguments is None else [str(argument) for argument in arguments]
    options = parser.parse_args(given, argparse.Namespace(given=given))
    options.run(options)


def run(options: argparse.Namespace) -> None:
    r"""Train the model of these options, with a checkpoint, and print its score on each test of its task."""
    settings = settings_for(options.preset, options.task, **dict(options.set))
    name = f"{options.task}-{options.method}-{options.preset}-{options.seed}.pt"
    checkpoint = options.out or Path("runs") / name
    world = int(os.environ.get("WORLD_SIZE", 1))
    device = pick_device(options.device)
    if world > 1 and device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    with process_group(device) if world > 1 else contextlib.nullcontext():
        model, history = train_with(
            options.method,
            settings,
            options.seed,
            options.task,
            device=device,
            checkpoint=checkpoint,
            save_every=options.save_every,
            together=world > 1,
        )
        if int(os.environ.get("RANK", 0)):
            return
    print(f"{checkpoint}: {settings.steps} steps, last loss {history['loss'][-1]:.4f}, {history['seconds']:.0f} s")
    for name, value in scores(model, options.task, settings).items():
        print(f"  {name:12} {value:.4f}")


@contextlib.contextmanager
def process_group(device):
    """The group of processes that torchrun started: NCCL where each has a GPU, else gloo."""
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=datetime.timedelta(days=2))
    try:
        yield
    finally:
        distributed.destroy_process_group()


def torch_device(text):
    """`--device cuda:1` as a torch device."""
    try:
        return pick_device(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(error) from None


def change(text):
    """`--set steps=400` as ("steps", 400)."""
    name, equals, value = text.partition("=")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=NUMBER, such as steps=400") from None
