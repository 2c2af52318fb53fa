r"""Train small models, alone or many at once, so that nothing is lost when a run is interrupted.

    model, history = train("rope", preset="lab")                      # one model, with a progress bar
    model, history = train("rope", preset="lab", task="flipflop")     # on another task
    model, history = load("runs/text-rope-lab-0.pt")                  # what the command below has trained

    python -m posenc.lab.train run --method rope --task flipflop --preset lab
    python -m posenc.lab.train sweep flipflop --preset study --seeds 5
    torchrun --nproc-per-node 2 -m posenc.lab.train ...                   # either of them, on two processes

Chapter: How to measure position.
"""

import argparse
import contextlib
import dataclasses
import datetime
import functools
import json
import math
import os
import signal
import sys
import time
import zipfile
from pathlib import Path

import torch
from torch import distributed
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from posenc.errors import UnsupportedError, check_choice, check_int, check_number, nearest
from posenc.lab.train.curve import LiveCurve
from posenc.lab.train.tasks import IGNORE, TASKS, load_corpus
from posenc.lab.train.tiny import Decoder, Encoder
from posenc.methods import METHODS, make, sizes


@dataclasses.dataclass(frozen=True)
class Settings:
    r"""The model, its training and its test. The defaults are the study's for text.

    length is the training window in tokens; the test lengthens it by each of `multiples`. For text, `windows` are test
    windows, of which the last `targets` characters count. Errors: TypeError, ValueError naming the field.
    """

    dim: int = 96
    num_layers: int = 3
    num_heads: int = 4
    length: int = 64
    batch: int = 16
    steps: int = 500
    warmup: int = 50
    lr: float = 3e-3
    weight_decay: float = 0.01
    clip: float = 1.0
    multiples: tuple = (1, 2, 4, 8)
    windows: int = 96
    targets: int = 32

    def __post_init__(self):
        for name in ("dim", "num_layers", "num_heads", "length", "batch", "steps", "windows", "targets"):
            check_int(name, getattr(self, name))
        check_int("warmup", self.warmup, minimum=0)
        check_number("lr", self.lr, above=0)
        check_number("weight_decay", self.weight_decay, minimum=0)
        check_number("clip", self.clip, above=0)
        if self.dim % self.num_heads:
            raise ValueError(f"num_heads={self.num_heads} must divide dim={self.dim}")
        if self.warmup >= self.steps:
            raise ValueError(f"warmup={self.warmup} must be less than steps={self.steps}")
        if self.targets > self.length:
            raise ValueError(f"targets={self.targets} must be at most length={self.length}")
        if not isinstance(self.multiples, (tuple, list)):
            raise TypeError(f"multiples={self.multiples!r} must be a tuple, such as (1, 2, 4, 8)")
        for multiple in self.multiples:
            check_int("multiples", multiple)
        if not self.multiples or list(self.multiples) != sorted(set(self.multiples)):
            raise ValueError(f"multiples={self.multiples!r} must rise, such as (1, 2, 4, 8)")
        for multiple in self.multiples:
            if self.multiples[-1] % multiple:
                raise ValueError(f"multiples={self.multiples!r}: {multiple} must divide the last, {self.multiples[-1]}")

    @property
    def lengths(self):
        """The context lengths of the test, in tokens."""
        return [self.length * multiple for multiple in self.multiples]


# "original" is the ground of the five-way comparison in the report that this book began with; it wants a GPU.
PRESETS = {
    "nano": Settings(dim=48, num_layers=2, length=32, batch=16, steps=300, warmup=30, lr=6e-3, windows=16, targets=16),
    "lab": Settings(steps=300, warmup=30, windows=48),
    "study": Settings(),
    "original": Settings(
        dim=384, num_layers=6, num_heads=6, length=256, batch=8, steps=20000, warmup=500, lr=1e-4, windows=24
    ),
}
# What the puzzles change: their vocabulary is small, so the model may be too. The steps are what most methods need.
PUZZLES = {
    "nano": {"dim": 32, "batch": 32, "steps": 300, "warmup": 30},
    "lab": {"dim": 64, "num_layers": 2, "batch": 32},
    "study": {"dim": 64, "num_layers": 2, "batch": 32},
    "original": {},
}
STEPS = {"needle": 800, "flipflop": 400, "counting": 600, "selective_copy": 800, "recall": 800, "copy": 800}


def settings_for(preset="lab", task="text", **changes):
    r"""The `Settings` called `preset` for a task, changed.

    preset: "nano" (seconds), "lab" (under a minute), "study" (the frozen results) or "original" (384 wide, 6 layers,
    length 256: for a GPU). Errors: ValueError for an unknown preset, task or field, naming the nearest one.
    """
    check_choice("preset", preset, PRESETS)
    check_choice("task", task, TASKS)
    fields = [field.name for field in dataclasses.fields(Settings)]
    for name in changes:
        if name not in fields:
            raise ValueError(
                f"{name}={changes[name]!r} is no setting; known: {', '.join(fields)}.{nearest(name, fields)}"
            )
    puzzle = {} if task in ("text", "masked") else PUZZLES[preset]
    if task in STEPS and preset in ("lab", "study"):
        puzzle = {"steps": STEPS[task]} | puzzle
    return dataclasses.replace(PRESETS[preset], **puzzle | changes)


def encoding_maker(method, settings, causal=True, options=None):
    r"""make_encoding(layer) for a method's name, with the sizes of these settings; a callable is returned as it is.

    Without a causal mask a method gets the options that define it there (`Method.both_ways`); `options` come last.
    """
    if callable(method):
        return method
    heads = {"num_heads": settings.num_heads, "head_dim": settings.dim // settings.num_heads}
    wanted = sizes(method, **heads, length=settings.lengths[-1])  # a learned table has rows for the test's lengths
    if method == "fire":
        wanted["threshold"] = settings.length / 4  # a share of the training length
    wanted |= ({} if causal else METHODS[method].both_ways) | (options or {})
    if METHODS[method].shared:
        one = functools.cache(lambda: make(method, **wanted))  # made when asked for, after the seed is set
        return lambda layer: one()
    return lambda layer: make(method, **wanted)


def pick_device(device=None):
    """The torch device: the one asked for, else cuda where there is one, else cpu."""
    if device is None:
        device = "cuda" if torch.cuda.is_available() else "cpu"
    device = torch.device(device)
    if device.type == "cuda" and not torch.cuda.is_available():
        raise UnsupportedError(f"device={str(device)!r}: torch sees no CUDA device here; device='cpu' works")
    return device


def precision(device):
    """bf16 autocast where the GPU computes in it natively (capability 8.0 and above), else no autocast."""
    native = device.type == "cuda" and torch.cuda.get_device_capability(device) >= (8, 0)
    return torch.autocast(device.type, dtype=torch.bfloat16, enabled=native)


def build(method, settings, task="text", seed=0, options=None):
    r"""The untrained model of a task (`Decoder`, or `Encoder` for "masked"): the same weights for the same seed.

    method: a name in `posenc.METHODS` (with `options` of its factory), or make_encoding(layer) -> Encoding.
    """
    check_int("seed", seed, minimum=0)
    check_choice("task", task, TASKS)
    task = TASKS[task]
    make_encoding = encoding_maker(method, settings, task.causal, options)
    kind = Decoder if task.causal else Encoder
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return kind(len(task.vocabulary), settings.dim, settings.num_layers, settings.num_heads, make_encoding)


def learning_rate(step, settings):
    """Linear warm-up to lr over `warmup` steps, then a cosine down to a tenth of it."""
    if step < settings.warmup:
        return settings.lr * (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    return settings.lr * (0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2)


def train(
    method,
    preset="lab",
    seed=0,
    *,
    task="text",
    device=None,
    live=False,
    progress=True,
    checkpoint=None,
    options=None,
    **changes,
):
    r"""Train a small model on a task.

    Arguments:
        method: a name in `posenc.METHODS`, or make_encoding(layer) -> Encoding.
        preset: "nano", "lab", "study" or "original"; `changes` are fields of `Settings`, such as steps=400.
        seed: of the initial weights and of the batches. Two methods with one seed start from the same weights (but
            for parameters of their own) and read the same batches.
        task: a name in `posenc.lab.train.tasks.TASKS`: "text" predicts the next character.
        device: default cuda where there is one, else cpu.
        live: True draws the loss curve as it grows, in a notebook; elsewhere it does nothing.
        progress: True shows a progress bar with an estimate.
        checkpoint: a file that the run is saved to on its way, and gone on from where it exists.
        options: of the method's factory, such as {"base": 500.0} for "rope".
    Returns: (model, history); history = {"loss": one number a step, in nats per scored token, "seconds": ...,
        "settings": ..., "device": ..., "seed": ..., "task": ...}. The same call gives the same weights on the same
        machine with the same number of threads.
    Errors: TypeError or ValueError naming the argument, before the first step.
    """
    settings = settings_for(preset, task, **changes)
    return train_with(
        method,
        settings,
        seed,
        task,
        device=device,
        live=live,
        progress=progress,
        checkpoint=checkpoint,
        options=options,
    )


def train_with(
    method,
    settings,
    seed=0,
    task="text",
    *,
    device=None,
    live=False,
    progress=True,
    checkpoint=None,
    save_every=30.0,
    options=None,
    together=False,
):
    r"""`train` with the `Settings` themselves.

    save_every: seconds between two savings of the checkpoint. together: True shares each batch among the processes of
    torch.distributed, whose group must be there; every process gets the same model back.
    """
    check_choice("task", task, TASKS)
    check_number("save_every", save_every, minimum=0)
    device = pick_device(device)
    rank, world = (distributed.get_rank(), distributed.get_world_size()) if together else (0, 1)
    if settings.batch % world:
        raise ValueError(f"batch={settings.batch} must be a multiple of the {world} processes that share it")
    check_task(TASKS[task], settings)
    model = build(method, settings, task, seed, options).to(device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.lr, betas=(0.9, 0.99), weight_decay=settings.weight_decay, fused=True
    )
    batches = torch.Generator().manual_seed(seed)
    losses, spent = [], 0.0

    if checkpoint is not None:
        checkpoint = Path(checkpoint)
        config = describe(method, settings, seed, task, options)
        if checkpoint.exists():
            saved = read_checkpoint(checkpoint, config)
            with fitting(checkpoint):
                model.load_state_dict(saved["model"])
                optimizer.load_state_dict(saved["optimizer"])
                check_moments(optimizer)
                batches.set_state(saved["batches"])
            losses, spent = list(saved["losses"].to(device)), saved["seconds"]

    begun = len(losses)

    def save():
        if checkpoint is not None and rank == 0:
            write_checkpoint(
                checkpoint,
                {
                    "config": config,
                    "step": len(losses),
                    "losses": stack(losses),
                    "seconds": spent + elapsed(),
                    "batches": batches.get_state(),
                    "model": model.state_dict(),
                    "optimizer": optimizer.state_dict(),
                },
            )

    name = method if isinstance(method, str) else "your encoding"
    curve = LiveCurve(settings.steps, name) if live else None
    parallel = DistributedDataParallel(model) if together else model
    started = last_saved = time.perf_counter()

    def elapsed():
        return time.perf_counter() - started

    quiet = not progress or rank > 0 or "POSENC_BOOK" in os.environ
    bar = tqdm(total=settings.steps, initial=len(losses), desc=name, disable=quiet)
    with bar, stopping_between_steps(checkpoint is not None) as stop:
        for step in range(begun, settings.steps):
            tokens, targets = TASKS[task].batch(batches, settings.batch, settings.length)
            asked = (targets != IGNORE).sum().item()  # by the whole batch, whatever this process's share of it
            tokens, targets = tokens[rank::world].to(device), targets[rank::world].to(device)
            with precision(device):
                logits = parallel(tokens)
            loss = cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="sum")
            loss = loss / asked
            for group in optimizer.param_groups:
                group["lr"] = learning_rate(step, settings)
            optimizer.zero_grad()
            (loss * world).backward()  # processes average their gradients, the loss is a sum over them
            torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
            optimizer.step()
            loss = loss.detach()
            stopping = stop.asked
            if together:  # a signal may reach one process only: all must leave after the same step
                shared = torch.stack((loss, torch.full_like(loss, stopping)))
                distributed.all_reduce(shared)
                loss, stopping = shared[0].clone(), shared[1].item() > 0
            losses.append(loss)
            bar.update()
            if step % 10 == 9 or step == settings.steps - 1:
                bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
                if curve is not None:
                    curve.draw(torch.stack(losses).tolist())
            if stopping or time.perf_counter() - last_saved >= save_every:
                save()
                last_saved = time.perf_counter()
            if stopping:
                raise KeyboardInterrupt(f"stopped after step {step + 1}, saved to {checkpoint}")
        if len(losses) > begun:
            save()
        if stop.asked:  # during the last step
            raise KeyboardInterrupt(f"stopped after the last step, saved to {checkpoint}")
    history = {
        "loss": stack(losses).tolist(),
        "seconds": spent + elapsed(),
        "settings": settings,
        "device": str(device),
        "seed": seed,
        "task": task,
    }
    return model.eval(), history


def stack(losses):
    """A list of numbers on some device as one tensor on the CPU."""
    return torch.stack(losses).cpu() if losses else torch.zeros(0)


def check_task(task, settings):
    """Draw from every test of a task once, so that what does not fit is told before the first step."""
    if task.name in ("text", "masked"):
        from posenc.lab.train.measure import check_windows

        corpus = load_corpus()
        if len(corpus.train) <= settings.length:
            raise ValueError(f"length={settings.length} must be less than the {len(corpus.train)} training characters")
        check_windows(corpus.held_out, settings)
        return
    for options in task.tests(settings.length).values():
        task.batch(torch.Generator().manual_seed(0), 1, **{"length": settings.length} | options)


class stopping_between_steps(contextlib.AbstractContextManager):
    """While entered, Ctrl-C and SIGTERM are only noted in `asked`, for a run that is going to save itself first."""

    def __init__(self, active):
        self.active, self.asked, self.before = active, False, {}

    def __enter__(self):
        if self.active:
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(ValueError):  # signals belong to the main thread; elsewhere nothing is noted
                    self.before[number] = signal.signal(number, self.note)
        return self

    def note(self, number, frame):
        self.asked = True

    def __exit__(self, *error):
        for number, handler in self.before.items():
            signal.signal(number, handler)


# ------------------------------------------------------------------------------------------------------- checkpoints

FORMAT = "posenc checkpoint 1"


def describe(method, settings, seed, task, options=None):
    """What must agree between a checkpoint and the run that goes on from it, as text."""
    if not isinstance(method, str):
        raise TypeError(f"checkpoint: method={method!r} must be a name then, a function can't be told from another")
    corpus = load_corpus().sha256 if task in ("text", "masked") else None
    facts = {"method": method, "options": options or {}, "task": task, "seed": seed, "corpus": corpus}
    return json.dumps(facts | {"settings": dataclasses.asdict(settings)}, sort_keys=True)


def write_checkpoint(path, state):
    """Write a checkpoint in one move: whoever reads finds the old one or the new one, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".writing")
    with open(partial, "wb") as file:
        torch.save({"format": FORMAT} | state, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(partial, path)


def read_checkpoint(path, config=None):
    r"""Read what `write_checkpoint` wrote, without running any code in it.

    Errors: FileNotFoundError; ValueError for a truncated, altered or foreign file or, with `config`, another run's.
    """
    if not Path(path).exists():
        raise FileNotFoundError(f"path={str(path)!r}: no such checkpoint")
    try:
        with zipfile.ZipFile(path) as archive:
            altered = archive.testzip()  # torch.load takes a flipped bit for another number
        if altered is not None:
            raise ValueError(f"{altered} in it does not fit its checksum")
        state = torch.load(path, map_location="cpu", weights_only=True)
        check_state(state)
    except Exception as error:  # zipfile and torch raise what the damaged bytes happen to lead to
        raise ValueError(
            f"{path} is no whole posenc checkpoint ({type(error).__name__}: {str(error)[:80]}); it is left as it is. "
            f"Move it away, or name another file"
        ) from error
    if config is not None and state["config"] != config:
        theirs, ours = flat(json.loads(state["config"])), flat(json.loads(config))
        differ = [f"{key}={theirs.get(key)!r}, not {ours.get(key)!r}" for key in ours if theirs.get(key) != ours[key]]
        raise ValueError(f"{path} is another run's: {'; '.join(differ)}. It is left as it is; name another file")
    return state


PARTS = {
    "config": str,
    "step": int,
    "losses": torch.Tensor,
    "seconds": float | int,
    "batches": torch.Tensor,
    "model": dict,
    "optimizer": dict,
}


def check_state(state):
    """Raise unless `state` is what `write_checkpoint` was given, its parts of the right kinds and in agreement."""
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise ValueError(f"it does not say that its format is {FORMAT!r}")
    lacks = [name for name, kind in PARTS.items() if not isinstance(state.get(name), kind)]
    if lacks:
        raise ValueError(f"it lacks {lacks}")
    check_int("step", state["step"], minimum=0)
    check_number("seconds", state["seconds"], minimum=0)
    _, settings = facts_of(state)
    losses = state["losses"]
    if losses.shape != (state["step"],) or not losses.is_floating_point() or state["step"] > settings.steps:
        raise ValueError(f"it has losses {list(losses.shape)} for step {state['step']} of {settings.steps}")


def facts_of(state):
    """What a checkpoint says of its run, and the `Settings` of it."""
    facts = json.loads(state["config"])
    settings = {key: tuple(v) if isinstance(v, list) else v for key, v in facts["settings"].items()}
    return facts, Settings(**settings)


@contextlib.contextmanager
def fitting(path):
    """While entered, what a checkpoint's parts don't fit is an error that names the file."""
    try:
        yield
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError) as error:
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        raise ValueError(
            f"{path} does not fit the model of its settings ({why}); it is left as it is. Was it made by another "
            f"version of posenc?"
        ) from error


def check_moments(optimizer):
    """Raise unless what the optimizer keeps for each parameter has its shape: the fused one reads without looking."""
    for parameter, kept in optimizer.state.items():
        for name, value in kept.items():
            if not isinstance(value, torch.Tensor) or value.shape not in (parameter.shape, ()):
                raise ValueError(f"the optimizer's {name} of a parameter {list(parameter.shape)} has another shape")


def flat(facts):
    """Nested settings beside the other facts."""
    return {key: value for key, value in facts.items() if key != "settings"} | facts["settings"]


def load(path):
    r"""The model that a checkpoint holds, and its history: (model, history), as `train` returns them.

    Errors: as `read_checkpoint`; ValueError too for a model of a text that this Python does not have.
    """
    state = read_checkpoint(path)
    facts, settings = facts_of(state)
    if facts.get("corpus") not in (None, load_corpus().sha256):
        raise ValueError(
            f"{path} was trained on another text than this Python's, so its tokens may be other characters; "
            f"it is left as it is. The Python that trained it has its text"
        )
    with fitting(path):
        model = build(facts["method"], settings, facts["task"], facts["seed"], facts["options"])
        model.load_state_dict(state["model"])
    history = {
        "loss": state["losses"].tolist(),
        "seconds": state["seconds"],
        "settings": settings,
        "device": "cpu",
        "seed": facts["seed"],
        "task": facts["task"],
    }
    return model.eval(), history


# ------------------------------------------------------------------------------------------------- curves and samples


def sample(model, prompt="The ", length=200, *, temperature=0.8, seed=0, window=None):
    r"""Text that a model trained on "text" writes after `prompt`; see `Decoder.generate` for `window`."""
    corpus = load_corpus()
    device = next(model.parameters()).device
    tokens = corpus.encode(prompt)[None].to(device)
    return corpus.decode(model.generate(tokens, length, temperature=temperature, seed=seed, window=window)[0])


# -------------------------------------------------------------------------------------------------------- the command


@contextlib.contextmanager
def process_group(device):
    """The group of processes that torchrun started: NCCL where each has a GPU, else gloo."""
    backend = "nccl" if device.type == "cuda" else "gloo"
    distributed.init_process_group(backend, timeout=datetime.timedelta(days=2))
    try:
        yield
    finally:
        distributed.destroy_process_group()


def run(method, task, preset, seed, changes, out, device, save_every):
    r"""Train one model, with a checkpoint at `out`, and print how it does on each test of its task."""
    from posenc.lab.train.measure import scores

    settings = settings_for(preset, task, **changes)
    world = int(os.environ.get("WORLD_SIZE", 1))
    device = pick_device(device)
    if world > 1 and device.type == "cuda":
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
    with process_group(device) if world > 1 else contextlib.nullcontext():
        model, history = train_with(
            method, settings, seed, task, device=device, checkpoint=out, save_every=save_every, together=world > 1
        )
        if int(os.environ.get("RANK", 0)):
            return
    print(f"{out}: {settings.steps} steps, last loss {history['loss'][-1]:.4f}, {history['seconds']:.0f} s")
    for name, value in scores(model, task, settings).items():
        print(f"  {name:12} {value:.4f}")


def change(text):
    """`--set steps=400` as ("steps", 400)."""
    name, equals, value = text.partition("=")
    try:
        return name, json.loads(value)
    except (ValueError, RecursionError):
        raise argparse.ArgumentTypeError(f"{text!r} must be NAME=NUMBER, such as steps=400") from None


def main(arguments=None):
    r"""The command `python -m posenc.lab.train`."""
    parser = argparse.ArgumentParser(prog="python -m posenc.lab.train", description="Train and measure small models.")
    commands = parser.add_subparsers(dest="what", required=True)
    one = commands.add_parser("run", help="train one model; the same command again goes on where it was stopped")
    one.add_argument("--method", required=True, choices=METHODS)
    one.add_argument("--task", default="text", choices=TASKS)
    one.add_argument("--preset", default="lab", choices=PRESETS)
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--set", nargs="+", default=[], type=change, metavar="NAME=NUMBER", help="other settings")
    one.add_argument("--out", type=Path, help="the checkpoint, default runs/TASK-METHOD-PRESET-SEED.pt")
    one.add_argument("--device", help="default cuda where there is one, else cpu")
    one.add_argument("--save-every", type=float, default=30.0, metavar="SECONDS")
    many = commands.add_parser("sweep", help="train every method with several seeds and write one JSON")
    many.add_argument("name", choices=experiments().SWEEPS)
    many.add_argument("--preset", default="study", choices=PRESETS)
    many.add_argument("--seeds", type=int, default=5, help="how many seeds, from 0")
    many.add_argument("--methods", nargs="+", help="default all")
    many.add_argument("--out", type=Path, help="default results/NAME.json")
    many.add_argument("--add", action="store_true", help="add the methods to the results that are there")
    given = parser.parse_args(arguments)
    if given.what == "run":
        out = given.out or Path("runs") / f"{given.task}-{given.method}-{given.preset}-{given.seed}.pt"
        run(given.method, given.task, given.preset, given.seed, dict(given.set), out, given.device, given.save_every)
        return
    check_int("--seeds", given.seeds)
    world = int(os.environ.get("WORLD_SIZE", 1))
    starter = f"torchrun --nproc-per-node {world}" if world > 1 else "python"
    command = f"{starter} -m posenc.lab.train " + " ".join(sys.argv[1:] if arguments is None else map(str, arguments))
    out = given.out or Path("results") / f"{given.name}.json"
    experiments().run_sweep(given.name, given.preset, given.seeds, given.methods, out, command, given.add)


@functools.cache
def experiments():
    """posenc.lab.experiments, which imports this module."""
    from posenc.lab.experiments import core as experiments

    return experiments
