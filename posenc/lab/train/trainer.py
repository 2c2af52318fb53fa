r"""Train small models, alone or many at once, so that nothing is lost when a run is interrupted.

    model, history = train("rope", preset="lab")                      # one model, with a progress bar
    model, history = train("rope", preset="lab", task="flipflop")     # on another task
    model, history = load("runs/text-rope-lab-0.pt")                  # what the command below has trained

    python -m posenc.lab.train run --method rope --task flipflop --preset lab
    torchrun --nproc-per-node 2 -m posenc.lab.train run ...               # the same, on two processes

Chapter: How to measure position.
"""

import contextlib
import hashlib
import math
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import torch
from torch import distributed
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from tqdm import tqdm

from posenc.errors import UnsupportedError, check_choice, check_number
from posenc.lab.train.checkpoints import (
    check_moments,
    check_same_run,
    describe,
    naming,
    read_checkpoint,
    write_checkpoint,
)
from posenc.lab.train.curve import LiveCurve
from posenc.lab.train.files import held
from posenc.lab.train.measure import check_windows
from posenc.lab.train.models import build, own_parameters, pick_device, precision
from posenc.lab.train.settings import Settings, settings_for
from posenc.lab.train.tasks import IGNORE, TASKS, Task, load_corpus
from posenc.lab.train.tiny import Model
from posenc.layer import SelfAttention
from posenc.methods import row


def train(
    method: str | Callable,
    preset: str = "lab",
    seed: int = 0,
    *,
    task: str = "text",
    device: str | torch.device | None = None,
    live: bool = False,
    progress: bool = True,
    checkpoint: str | Path | None = None,
    options: dict | None = None,
    **changes,
) -> tuple[Model, dict]:
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
        checkpoint: a file that the run is saved to on its way, and gone on from where it exists. While it trains, no
            other process can train to it.
        options: of the method's factory, such as {"base": 500.0} for "rope".
    Returns: (model, history); history = {"loss": one number a step, in nats per scored token, "seconds": ...,
        "settings": ..., "device": ..., "seed": ..., "task": ..., "batches": a sha256 of all that it read, None where
        the checkpoint of an older version did not keep it}. The same call gives the same weights on the same
        machine with the same number of threads.
    Errors: TypeError or ValueError naming the argument, OSError for a checkpoint that can't be written,
        posenc.lab.train.HeldError for one that another process trains to: all before the first step.
        FloatingPointError where the loss is no finite number any more; the checkpoint keeps the last that was saved.
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
    method: str | Callable,
    settings: Settings,
    seed: int = 0,
    task: str = "text",
    *,
    device: str | torch.device | None = None,
    live: bool = False,
    progress: bool = True,
    checkpoint: str | Path | None = None,
    save_every: float = 30.0,
    options: dict | None = None,
    together: bool = False,
    make_attention: Callable = SelfAttention,
) -> tuple[Model, dict]:
    r"""`train` with the `Settings` themselves.

    make_attention: what each layer attends with; see `Model`. Only `SelfAttention` can be saved to a checkpoint.
    save_every: seconds between two savings of the checkpoint. together: True shares each batch among the processes of
    torch.distributed, whose group must be there; every process gets the same model back.
    """
    check_choice("task", task, TASKS)
    check_number("save_every", save_every, minimum=0)
    if isinstance(method, str) and row(method).axes is not None:
        raise UnsupportedError(
            f"method={method!r} counts {row(method).axes} axes, text has one; posenc.lab.train.pictures trains it"
        )
    run = Run(method, settings, seed, task, pick_device(device), options, together, make_attention)
    with contextlib.ExitStack() as inside:
        if checkpoint is not None:
            if make_attention is not SelfAttention:
                raise TypeError(f"checkpoint: make_attention={make_attention!r} must be SelfAttention then, see method")
            config = describe(method, settings, seed, task, options)
            if run.rank == 0:
                inside.enter_context(held("checkpoint", Path(checkpoint)))
            run.resume(Path(checkpoint), config)
        name = method if isinstance(method, str) else "your encoding"
        curve = LiveCurve(settings.steps, name) if live else None
        quiet = not progress or run.rank > 0 or "POSENC_BOOK" in os.environ
        bar = inside.enter_context(tqdm(total=settings.steps, initial=len(run.losses), desc=name, disable=quiet))
        take_steps(run, save_every, bar, curve, inside.enter_context(DeferredSignals(checkpoint is not None)))
    return run.model.eval(), run.history()


def take_steps(run, save_every, bar, curve, signals):
    """The steps that a run has left, saved on the way and at the end."""
    first, saved_at = len(run.losses), time.perf_counter()
    for step in range(first, run.settings.steps):
        loss, stopping = run.step(signals)
        bar.update()
        tenth = step % 10 == 9 or step == run.settings.steps - 1
        if tenth or run.device.type == "cpu":  # elsewhere to look is to wait
            run.check_loss(loss.item())
        if tenth:
            bar.set_postfix(loss=f"{loss.item():.3f}", refresh=False)
            if curve is not None:
                curve.draw(stack(run.losses).tolist())
        if stopping or time.perf_counter() - saved_at >= save_every:
            run.save()
            saved_at = time.perf_counter()
        if stopping:
            raise Stopped(f"stopped after step {step + 1}, saved to {run.checkpoint}", signals.number)
    if len(run.losses) > first:
        run.save()
    if signals.pending:  # since the last step began
        raise Stopped(f"stopped after the last step, saved to {run.checkpoint}", signals.number)


class Stopped(KeyboardInterrupt):
    """A run that a signal stopped, and saved; `number` is the signal's, SIGTERM's where another process had it."""

    def __init__(self, words, number):
        super().__init__(words)
        self.number = number or signal.SIGTERM


class Run:
    r"""A model in training: `step` makes one step, `save` and `resume` write and read all that a step depends on.

    Where it shares its batches (`together`), every process takes the sequences rank, rank + world, ... of each batch.
    """

    def __init__(self, method, settings, seed, task, device, options, together, make_attention):
        self.settings, self.seed, self.task, self.device, self.together = settings, seed, task, device, together
        self.rank, self.world = (distributed.get_rank(), distributed.get_world_size()) if together else (0, 1)
        if settings.batch % self.world:
            raise ValueError(f"batch={settings.batch} must be a multiple of the {self.world} processes that share it")
        check_task(TASKS[task], settings)
        self.model = build(method, settings, task, seed, options, make_attention).to(device)
        self.optimizer = torch.optim.AdamW(
            groups(self.model, settings, task),
            lr=settings.lr,
            betas=(0.9, 0.99),
            weight_decay=settings.weight_decay,
            fused=True,
        )
        self.batches, self.read = torch.Generator().manual_seed(seed), ""
        self.losses, self.checkpoint, self.config, self.saved = [], None, None, 0
        self.before, self.started = 0.0, time.perf_counter()  # seconds before it was resumed, and when that was
        self.parallel = DistributedDataParallel(self.model) if together else self.model

    @property
    def seconds(self):
        return self.before + time.perf_counter() - self.started

    def resume(self, checkpoint, config):
        """Save to this file from now on, and go on from what it holds where it is there."""
        self.checkpoint, self.config = checkpoint, config
        if not checkpoint.exists():
            return
        saved = read_checkpoint(checkpoint)
        check_same_run(checkpoint, saved, config)
        with naming(checkpoint):
            self.model.load_state_dict(saved["model"])
            self.optimizer.load_state_dict(saved["optimizer"])
            check_moments(self.optimizer)
            self.batches.set_state(saved["batches"])
        self.read = saved.get("read")
        self.losses, self.before = list(saved["losses"].to(self.device)), saved["seconds"]
        self.saved = len(self.losses)
        self.started = time.perf_counter()

    def save(self):
        """Write the checkpoint, if there is to be one; one of the processes does it. Errors: as `check_loss`."""
        self.check_loss(self.losses[-1].item())
        if not all(parameter.isfinite().all() for parameter in self.model.parameters()):
            self.check_loss(math.nan)  # as the next step would find it
        if self.checkpoint is not None and self.rank == 0:
            write_checkpoint(
                self.checkpoint,
                {
                    "config": self.config,
                    "step": len(self.losses),
                    "losses": stack(self.losses),
                    "seconds": self.seconds,
                    "batches": self.batches.get_state(),
                    "read": self.read,
                    "model": self.model.state_dict(),
                    "optimizer": self.optimizer.state_dict(),
                },
            )
            self.saved = len(self.losses)

    def check_loss(self, loss):
        """Raise FloatingPointError, naming step, loss and rate, unless the loss is a finite number."""
        if not math.isfinite(loss):
            raise diverged(stack(self.losses).tolist(), self.settings, self.checkpoint, self.saved)

    def step(self, signals):
        """Make one step: the loss before it, a tensor, and whether a signal, to any process, says to stop after it."""
        settings = self.settings
        options = {"text": training_text(settings)} if settings.held_back else {}
        tokens, targets = TASKS[self.task].batch(self.batches, settings.batch, settings.length, **options)
        if self.read is not None:  # a chain, since a hash can't be gone on with
            self.read = hashlib.sha256(self.read.encode() + bytes_of(tokens) + bytes_of(targets)).hexdigest()
        answers = (targets != IGNORE).sum().item()  # in the whole batch, whatever this process's share of it
        tokens, targets = (part[self.rank :: self.world].to(self.device) for part in (tokens, targets))
        with precision(self.device):
            logits = self.parallel(tokens)
        loss = cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="sum")
        loss = loss / answers
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(len(self.losses), settings) * group.get("factor", 1.0)
        self.optimizer.zero_grad()
        (loss * self.world).backward()  # processes average their gradients, the loss is a sum over them
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), settings.clip)
        self.optimizer.step()
        loss, stopping = loss.detach(), signals.pending
        if self.together:  # a signal may reach one process only: all must leave after the same step
            shared = torch.stack((loss, torch.full_like(loss, stopping)))
            distributed.all_reduce(shared)
            loss, stopping = shared[0].clone(), shared[1].item() > 0
        self.losses.append(loss)
        return loss, stopping

    def history(self):
        """What `train` returns beside the model."""
        return {
            "loss": stack(self.losses).tolist(),
            "seconds": self.seconds,
            "settings": self.settings,
            "device": str(self.device),
            "seed": self.seed,
            "task": self.task,
            "batches": self.read,
        }


def groups(model: Model, settings: Settings, task: str) -> list:
    """The parameters for the optimizer: the encoding's own apart where they have a factor on the learning rate."""
    own = set(own_parameters(model, settings, task)) if settings.own != 1 else ()
    if not own:
        return list(model.parameters())
    named = list(model.named_parameters())
    shared = [parameter for name, parameter in named if name not in own]
    return [{"params": shared}, {"params": [p for name, p in named if name in own], "factor": settings.own}]


def training_text(settings: Settings) -> torch.Tensor:
    """The text that training reads: all of the corpus's part for training but what is held back."""
    text = load_corpus().train
    return text[: len(text) - settings.held_back]


def bytes_of(tensor: torch.Tensor) -> bytes:
    """A tensor's numbers as bytes."""
    return tensor.numpy().tobytes()


def learning_rate(step: int, settings: Settings) -> float:
    """Linear warm-up to lr over `warmup` steps, then a cosine down to a tenth of it."""
    if step < settings.warmup:
        return settings.lr * (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    return settings.lr * (0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2)


def diverged(losses, settings, checkpoint=None, saved=0):
    """The error that says where a run with these losses, numbers, came to no finite one, and what may help."""
    step = next((step for step, loss in enumerate(losses) if not math.isfinite(loss)), len(losses))
    found = f"the loss is {losses[step]}" if step < len(losses) else "the weights are no finite numbers"
    before = f", after {losses[step - 1]:.4g} at the step before" if step else ""
    kept = f" {checkpoint} keeps step {saved}." if saved else ""
    own = f", own={settings.own:g}" if settings.own != 1 else ""
    return FloatingPointError(
        f"{found} at step {step + 1} of {settings.steps}{before}, with lr={settings.lr:g}{own}: the training has "
        f"diverged. Try a smaller lr, such as {settings.lr / 10:g}, more warmup than {settings.warmup} steps, or a "
        f"smaller clip than {settings.clip:g}.{kept}"
    )


def stack(losses):
    """A list of numbers on some device as one tensor on the CPU."""
    return torch.stack(losses).cpu() if losses else torch.zeros(0)


def check_task(task: Task, settings: Settings) -> None:
    """Draw from every test of a task once, so that what does not fit is told before the first step."""
    if task.name in ("text", "masked"):
        corpus = load_corpus()
        room = len(corpus.train) - settings.held_back
        if room <= settings.length:
            left = f", less held_back={settings.held_back}" if settings.held_back else ""
            raise ValueError(
                f"length={settings.length} must be less than the {len(corpus.train)} training characters{left}"
            )
        check_windows(corpus.held_out, settings)
        return
    if settings.held_back:
        raise ValueError(
            f"held_back={settings.held_back} is for text; the batches of {task.name!r} are drawn: leave it 0"
        )
    for options in task.tests(settings.length).values():
        task.batch(torch.Generator().manual_seed(0), 1, **{"length": settings.length} | options)


class DeferredSignals(contextlib.AbstractContextManager):
    """While entered, Ctrl-C and SIGTERM are only noted in `pending`, for a run that is going to save itself first."""

    def __init__(self, active):
        self.active, self.pending, self.number, self.handlers = active, False, None, {}

    def __enter__(self):
        if self.active:
            for number in (signal.SIGINT, signal.SIGTERM):
                with contextlib.suppress(ValueError):  # signals belong to the main thread; elsewhere nothing is noted
                    self.handlers[number] = signal.signal(number, self.note)
        return self

    def note(self, number, frame):
        self.pending, self.number = True, number

    def __exit__(self, *error):
        for number, handler in self.handlers.items():
            signal.signal(number, handler)
