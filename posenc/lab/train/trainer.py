r"""Train small models, and go on with a run that was interrupted.

    model, history = train("rope", preset="lab")                      # one model, with a progress bar
    model, history = train("rope", preset="lab", task="flipflop")     # on another task
    model, history = load("runs/text-rope-lab-0.pt")                  # what the command below has trained

    python -m posenc.lab.train run --method rope --task flipflop --preset lab
    torchrun --nproc-per-node 2 -m posenc.lab.train run ...               # the same, on two processes

Chapter: How to measure position.
"""

import math
import os
import time
from collections.abc import Callable, Collection
from pathlib import Path

import torch
from torch import distributed
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from posenc.errors import UnsupportedError, check_choice, check_number
from posenc.lab.train.checkpoints import describe, read_checkpoint, write_checkpoint
from posenc.lab.train.curve import LiveCurve
from posenc.lab.train.measures import check_windows
from posenc.lab.train.settings import Settings, in_few_steps, settings_for
from posenc.lab.train.tasks import IGNORE, TASKS, Task, load_corpus
from posenc.lab.train.tiny import Model, build, own_parameters, pick_device, precision
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
        preset: "nano", "lab", "study" or "original"; `changes` are fields of `Settings`, such as steps=400. There are
            at most POSENC_STEPS steps, where the environment has it; with 0 the one loss is that of an untrained model.
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
    Errors: TypeError or ValueError naming the argument, OSError for a checkpoint that can't be written: all before
        the first step. FloatingPointError where the loss is no finite number any more.
    """
    settings, shown = in_few_steps(settings_for(preset, task, **changes)), {"live": live, "progress": progress}
    return train_with(method, settings, seed, task, device=device, checkpoint=checkpoint, options=options, **shown)


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
        raise UnsupportedError(f"method={method!r} is for {row(method).axes} axes; posenc.lab.train.glyphs trains it")
    if checkpoint is not None and (not isinstance(method, str) or make_attention is not SelfAttention):
        raise TypeError(
            f"checkpoint: method={method!r} must be a name then, and make_attention={make_attention!r} SelfAttention: "
            f"a function can't be told from another"
        )
    run = Run(method, settings, seed, task, pick_device(device), options, together, make_attention)
    if checkpoint is not None:
        run.save_to(Path(checkpoint), describe(method, settings, seed, task, options))
    name = method if isinstance(method, str) else "your encoding"
    curve = LiveCurve(settings.steps, name) if live else None
    quiet = not progress or run.rank > 0 or "POSENC_BOOK" in os.environ
    first, saved_at = len(run.losses), time.perf_counter()
    with tqdm(total=settings.steps, initial=first, desc=name, disable=quiet) as bar:
        for step in range(first, settings.steps):
            run.step()
            bar.update()
            last = step == settings.steps - 1
            if step % 10 == 9 or last:
                bar.set_postfix(loss=f"{run.losses[-1]:.3f}", refresh=False)
                if curve is not None:
                    curve.draw(run.losses)
            if last or time.perf_counter() - saved_at >= save_every:
                run.save()
                saved_at = time.perf_counter()
    return run.model.eval(), run.history


class Run:
    r"""A model in training: `step` makes one step, `save_to` and `save` keep all that a step depends on.

    Where it shares its batches (`together`), every process takes the sequences rank, rank + world, ... of each batch.
    """

    def __init__(self, method, settings, seed, task, device, options, together, make_attention):
        self.settings, self.seed, self.task, self.device = settings, seed, task, device
        self.rank, self.world = (distributed.get_rank(), distributed.get_world_size()) if together else (0, 1)
        if settings.batch % self.world:
            raise ValueError(f"batch={settings.batch} must be a multiple of the {self.world} processes that share it")
        check_task(TASKS[task], settings)
        self.model = build(method, settings, task, seed, options, make_attention).to(device)
        self.optimizer = adam(self.model, settings, own_parameters(self.model, settings, task))
        self.batches = torch.Generator().manual_seed(seed)
        self.losses, self.checkpoint, self.facts = [], None, None
        self.started = time.perf_counter()

    @property
    def history(self):
        """What `train` returns beside the model."""
        about = {"settings": self.settings, "device": str(self.device), "seed": self.seed, "task": self.task}
        return {"loss": self.losses, "seconds": time.perf_counter() - self.started} | about

    def save_to(self, checkpoint, facts):
        """Save to this file from now on, and go on from what it holds where it is there."""
        self.checkpoint, self.facts = checkpoint, facts
        if not checkpoint.exists():
            return self.save()  # so that what can't be written is told now
        saved = read_checkpoint(checkpoint, facts)
        self.model.load_state_dict(saved["model"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.batches.set_state(saved["batches"])
        self.losses = saved["losses"]
        self.started -= saved["seconds"]

    def save(self):
        """Write the checkpoint, if there is to be one; one of the processes does it."""
        if self.checkpoint is None or self.rank > 0:
            return
        state = {"run": self.facts, "losses": self.losses, "seconds": self.history["seconds"]}
        state |= {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
        write_checkpoint(self.checkpoint, state | {"batches": self.batches.get_state()})

    def step(self):
        """Make one step, and add the loss before it to `losses`. Errors: FloatingPointError where it is not finite."""
        settings = self.settings
        options = {"text": load_corpus().train[: -settings.held_back]} if settings.held_back else {}
        tokens, targets = TASKS[self.task].batch(self.batches, settings.batch, settings.length, **options)
        answers = (targets != IGNORE).sum().item()  # in the whole batch, whatever this process's share of it
        tokens, targets = (part[self.rank :: self.world].to(self.device) for part in (tokens, targets))
        with precision(self.device):
            logits = self.model(tokens)
        loss = cross_entropy(logits.float().flatten(0, 1), targets.flatten(), ignore_index=IGNORE, reduction="sum")
        descend(loss / answers, self.model, self.optimizer, self.losses, settings, self.world)


def adam(model, settings: Settings, own: Collection[str] = ()) -> torch.optim.Optimizer:
    """The optimizer of a model; its parameters with the names `own` learn at `settings.own` times the rate."""
    parts = {factor: [] for factor in (1.0, settings.own)}
    for name, parameter in model.named_parameters():
        parts[settings.own if name in own else 1.0].append(parameter)
    groups = [{"params": params, "factor": factor} for factor, params in parts.items()]
    return torch.optim.AdamW(groups, settings.lr, (0.9, 0.99), weight_decay=settings.weight_decay, fused=True)


def descend(loss, model, optimizer, losses: list, settings: Settings, world: int = 1) -> None:
    """Move a model's parameters down its loss, at the rate of step len(losses), and add the loss to `losses`.

    world: of how many processes this is one, whose losses and gradients are summed.
    Errors: FloatingPointError for a loss that is no finite number, naming step, loss and rate.
    """
    for group in optimizer.param_groups:
        group["lr"] = learning_rate(len(losses), settings) * group["factor"]
    optimizer.zero_grad()
    loss.backward()
    loss = loss.detach()
    if world > 1:
        for part in (loss, *(p.grad for p in model.parameters() if p.grad is not None)):
            distributed.all_reduce(part)
    torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
    optimizer.step()
    losses.append(loss.item())
    if math.isfinite(losses[-1]):
        return
    before = f", after {losses[-2]:.4g} at the step before" if len(losses) > 1 else ""
    own = f", own={settings.own:g}" if settings.own != 1 else ""
    raise FloatingPointError(
        f"the loss is {losses[-1]} at step {len(losses)} of {settings.steps}{before}, with lr={settings.lr:g}{own}: "
        f"the training has diverged. Try a smaller lr, such as {settings.lr / 10:g}, more warmup than "
        f"{settings.warmup} steps, or a smaller clip than {settings.clip:g}."
    )


def learning_rate(step: int, settings: Settings) -> float:
    """Linear warm-up to lr over `warmup` steps, then a cosine down to a tenth of it."""
    if step < settings.warmup:
        return settings.lr * (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    return settings.lr * (0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2)


def check_task(task: Task, settings: Settings) -> None:
    """Draw from every test of a task once, so that what does not fit is told before the first step."""
    if task.name in ("text", "masked"):
        corpus = load_corpus()
        if len(corpus.train) - settings.held_back <= settings.length:
            left = f", less held_back={settings.held_back}" if settings.held_back else ""
            raise ValueError(f"length={settings.length} must be less than the text's {len(corpus.train)}{left}")
        check_windows(corpus.held_out, settings)
        return
    if settings.held_back:
        raise ValueError(f"held_back={settings.held_back} is for text; {task.name!r} is drawn, so leave it 0")
    for options in task.tests(settings.length).values():
        task.batch(torch.Generator().manual_seed(0), 1, **{"length": settings.length} | options)
