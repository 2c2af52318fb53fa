r"""Train small models on text that every Python carries, and measure them fairly.

    model, history = train("rope", preset="lab")        # one model, with a progress bar
    losses = short_long(model, Settings())              # its loss as the context grows, on fixed target characters
    results = load_results("train_short_test_long")     # five methods, five seeds, frozen

    python -m posenc.train short-long --preset study --seeds 5 --workers 2
    python -m posenc.train rope-heads --preset study

Chapter: Does it learn?, in each method's chapter.
"""

import argparse
import dataclasses
import functools
import hashlib
import importlib.metadata
import importlib.resources
import inspect
import json
import math
import os
import platform
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import NamedTuple

import numpy
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy
from tqdm import tqdm

from .errors import UnsupportedError, check_choice, check_int, check_number, nearest
from .methods import METHODS, make
from .rope import inv_freq, rotate
from .tiny import Decoder

# --------------------------------------------------------------------------------------------------------- settings


@dataclasses.dataclass(frozen=True)
class Settings:
    r"""The model, its training and its test. The defaults are the study's.

    length is the training window in characters; the test lengthens it by each of `multiples`. `windows` are test
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
        if not self.multiples or list(self.multiples) != sorted(set(self.multiples)):
            raise ValueError(f"multiples={self.multiples!r} must rise, such as (1, 2, 4, 8)")
        for multiple in self.multiples:
            check_int("multiples", multiple)
            if self.multiples[-1] % multiple:
                raise ValueError(f"multiples={self.multiples!r}: {multiple} must divide the last, {self.multiples[-1]}")

    @property
    def lengths(self):
        """The context lengths of the test, in characters."""
        return [self.length * multiple for multiple in self.multiples]


PRESETS = {
    "nano": Settings(dim=48, num_layers=2, length=32, batch=16, steps=300, warmup=30, lr=6e-3, windows=16, targets=16),
    "lab": Settings(steps=300, warmup=30, windows=48),
    "study": Settings(),
}


def settings_for(preset="lab", **changes):
    r"""The `Settings` called `preset` ("nano": seconds, "lab": under a minute, "study": the frozen results), changed.

    Errors: ValueError for an unknown preset or field, naming the nearest one.
    """
    check_choice("preset", preset, PRESETS)
    fields = [field.name for field in dataclasses.fields(Settings)]
    for name in changes:
        if name not in fields:
            raise ValueError(
                f"{name}={changes[name]!r} is no setting; known: {', '.join(fields)}.{nearest(name, fields)}"
            )
    return dataclasses.replace(PRESETS[preset], **changes)


def encoding_maker(method, settings):
    r"""make_encoding(layer) for a method's name, with the sizes of these settings; a callable is returned as it is."""
    if callable(method):
        return method
    if not isinstance(method, str) or method not in METHODS:
        make(method)  # raises, and names the nearest method
    sizes = {"head_dim": settings.dim // settings.num_heads, "num_heads": settings.num_heads, "dim": settings.dim}
    wanted = {
        name: size for name, size in sizes.items() if name in inspect.signature(METHODS[method].factory).parameters
    }
    return lambda layer: make(method, **wanted)


# ----------------------------------------------------------------------------------------------------------- corpus


class Corpus(NamedTuple):
    r"""Text as numbers: `vocabulary` is the string of all characters, `train` and `held_out` index into it."""

    name: str
    sha256: str  # of the text after repeats are dropped, so of what is really trained and tested on
    vocabulary: str
    train: Tensor  # [characters] int64
    held_out: Tensor

    def encode(self, text):
        """Characters to a tensor [T]. Errors: ValueError naming a character that the corpus lacks."""
        for character in text:
            if character not in self.vocabulary:
                raise ValueError(f"text holds {character!r}, which is none of the corpus's characters")
        return torch.tensor([self.vocabulary.index(character) for character in text], dtype=torch.long)

    def decode(self, tokens):
        """A tensor [T] (or a list) to characters."""
        return "".join(self.vocabulary[int(token)] for token in tokens)


@functools.cache
def load_corpus():
    r"""The documentation topics that `help()` prints, from Python's own `pydoc_data.topics`: nothing is downloaded.

    Topics quote each other, so a paragraph that was already there is dropped: else a fifth of the text would stand
    on both sides of the split. Whole topics are then dealt to training and, until a tenth of the characters is
    reached, to the held-out part; always in the same way. The text differs between versions of Python; its sha256
    tells which one a result is about.

    Errors: FileNotFoundError where this Python lacks the module.
    """
    try:
        from pydoc_data.topics import topics
    except ImportError:
        raise FileNotFoundError(
            "pydoc_data.topics, the corpus, is missing from this Python; some distributions pack it apart "
            "(python3-doc, libpython3-stdlib); a Python from python.org, conda, uv or pyenv has it"
        ) from None
    seen, kept = set(), {}
    for topic in sorted(topics):
        paragraphs = [p for p in re.split(r"\n[ \t]*\n", topics[topic].strip("\n")) if p.strip()]
        new = list(dict.fromkeys(p for p in paragraphs if " ".join(p.split()) not in seen))
        seen.update(" ".join(p.split()) for p in new)
        if new:
            kept[topic] = "\n\n".join(new) + "\n\n\n"
    order = sorted(kept)
    random.Random(0).shuffle(order)
    total, held, held_names = sum(map(len, kept.values())), 0, set()
    for topic in order:
        if held < total / 10 and len(kept[topic]) < total / 20:  # the longest topics go to training
            held_names.add(topic)
            held += len(kept[topic])
    parts = ["".join(kept[topic] for topic in order if (topic in held_names) == side) for side in (False, True)]
    text = "".join(parts)
    vocabulary = "".join(sorted(set(text)))
    index = {character: i for i, character in enumerate(vocabulary)}
    train, held_out = (torch.tensor([index[character] for character in part]) for part in parts)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()
    return Corpus("pydoc_data.topics", digest, vocabulary, train, held_out)


# --------------------------------------------------------------------------------------------------------- training


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


def build(method, settings, corpus=None, seed=0):
    r"""The untrained `Decoder` for a method's name (or make_encoding(layer)), the same weights for the same seed."""
    check_int("seed", seed, minimum=0)
    corpus = load_corpus() if corpus is None else corpus
    make_encoding = encoding_maker(method, settings)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return Decoder(len(corpus.vocabulary), settings.dim, settings.num_layers, settings.num_heads, make_encoding)


def learning_rate(step, settings):
    """Linear warm-up to lr over `warmup` steps, then a cosine down to a tenth of it."""
    if step < settings.warmup:
        return settings.lr * (step + 1) / settings.warmup
    done = (step - settings.warmup) / max(1, settings.steps - settings.warmup)
    return settings.lr * (0.1 + 0.9 * (1 + math.cos(math.pi * done)) / 2)


def train(method, preset="lab", seed=0, *, corpus=None, device=None, live=False, progress=True, **changes):
    r"""Train a small decoder to predict the next character.

    Arguments:
        method: a name in `posenc.METHODS`, or make_encoding(layer) -> Encoding.
        preset: "nano", "lab" or "study"; `changes` are fields of `Settings`, such as steps=400.
        seed: of the initial weights and of the batches. Two methods with one seed start from the same weights (but
            for parameters of their own) and read the same batches.
        device: default cuda where there is one, else cpu.
        live: True draws the loss curve as it grows, in a notebook; elsewhere it does nothing.
        progress: True shows a progress bar with an estimate.
    Returns: (model, history); history = {"loss": one number a step, in nats per character, "seconds": ...,
        "settings": ..., "device": ..., "seed": ...}. The same call gives the same weights on the same machine with
        the same number of threads.
    Errors: TypeError or ValueError naming the argument, before the first step.
    """
    settings = settings_for(preset, **changes)
    return train_with(method, settings, seed, corpus, device, live, progress)


def train_with(method, settings, seed=0, corpus=None, device=None, live=False, progress=True):
    """`train` with the `Settings` themselves."""
    device = pick_device(device)
    corpus = load_corpus() if corpus is None else corpus
    if len(corpus.train) <= settings.length:
        raise ValueError(f"length={settings.length} must be less than the {len(corpus.train)} training characters")
    model = build(method, settings, corpus, seed).to(device)
    name = method if isinstance(method, str) else "your encoding"
    text, span = corpus.train.to(device), torch.arange(settings.length + 1, device=device)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=settings.lr, betas=(0.9, 0.99), weight_decay=settings.weight_decay, fused=True
    )
    batches = torch.Generator().manual_seed(seed)
    curve = LiveCurve(settings.steps, name) if live else None

    losses, started = [], time.perf_counter()
    bar = tqdm(range(settings.steps), desc=name, disable=not progress or "POSENC_BOOK" in os.environ)
    for step in bar:
        starts = torch.randint(len(text) - settings.length, (settings.batch, 1), generator=batches).to(device)
        chunk = text[starts + span]  # [batch, length + 1]
        with precision(device):
            logits = model(chunk[:, :-1])
        loss = cross_entropy(logits.float().flatten(0, 1), chunk[:, 1:].flatten())
        for group in optimizer.param_groups:
            group["lr"] = learning_rate(step, settings)
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), settings.clip)
        optimizer.step()
        losses.append(loss.detach())
        if step % 10 == 9 or step == settings.steps - 1:
            bar.set_postfix(loss=f"{losses[-1].item():.3f}")
            if curve is not None:
                curve.draw(torch.stack(losses).tolist())
    seconds = time.perf_counter() - started
    history = {
        "loss": torch.stack(losses).tolist(), "seconds": seconds, "settings": settings, "device": str(device),
        "seed": seed,
    }  # fmt: skip
    return model.eval(), history


class LiveCurve:
    """A loss curve that is drawn again, at most twice a second, in one output of a notebook; nothing elsewhere."""

    def __init__(self, steps, title):
        self.steps, self.title, self.handle, self.drawn = steps, title, None, 0.0
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython else None
        self.notebook = shell is not None and hasattr(shell, "kernel")

    def draw(self, losses):
        last = len(losses) == self.steps
        if not self.notebook or (time.monotonic() - self.drawn < 0.5 and not last):
            return
        from IPython.display import display

        figure = plot_loss(losses, self.steps, self.title)
        if self.handle is None:
            self.handle = display(figure, display_id=True)
        else:
            self.handle.update(figure)
        self.drawn = time.monotonic()


def sample(model, corpus=None, prompt="The ", length=200, *, temperature=0.8, seed=0, window=None):
    r"""Text that the model writes after `prompt`; see `Decoder.generate` for `window`."""
    corpus = load_corpus() if corpus is None else corpus
    device = next(model.parameters()).device
    tokens = corpus.encode(prompt)[None].to(device)
    return corpus.decode(model.generate(tokens, length, temperature=temperature, seed=seed, window=window)[0])


# ------------------------------------------------------------------------------------------- train short, test long

KINDS = {
    "whole": "Loss on the target characters: the last {targets} of each test window. The window ends at the same "
    "character at every context length and is lengthened on its left, so the targets are the same throughout.",
    "cut": "The same windows, targets and positions, but each query sees only its last {length} keys, itself included, "
    "in every layer: as many as in training. What is farther away can still pass on through depth, at most "
    "{reach} characters more with each layer.",
    "early": "The same target characters where a window starts with them: the first has one character before it, the "
    "last {targets}. It says what they cost with little context. A causal model cannot see what follows, so it is one "
    "number, whatever the window's length; it stands once for each length.",
    "chopped": "The usual way, which is unfair, for comparison: the longest windows chopped into pieces of the context "
    "length, every character of every piece counted. The characters are the same at each length, but the share of "
    "early ones falls as the pieces grow, so this falls too, even where distant context is no help.",
}


def check_windows(held_out, settings):
    """Raise unless the held-out text has room for the test windows with targets that don't overlap."""
    longest = settings.lengths[-1]
    room = (len(held_out) - longest - 1) // max(1, settings.windows - 1)
    if len(held_out) <= longest or (settings.windows > 1 and room < settings.targets):
        raise ValueError(
            f"windows={settings.windows} of {longest} characters with {settings.targets} targets each don't fit into "
            f"{len(held_out)} held-out characters; fewer windows or shorter lengths would"
        )


def held_out_windows(held_out, settings):
    r"""The test windows [windows, longest + 1], spread evenly over the held-out text, their targets apart.

    A context of any length is the right end of such a window: windows[:, -(length + 1):].
    """
    check_windows(held_out, settings)
    longest = settings.lengths[-1]
    starts = torch.linspace(0, len(held_out) - longest - 1, settings.windows, dtype=torch.float64).long()
    return held_out[starts[:, None] + torch.arange(longest + 1)]


@torch.no_grad()
def target_losses(model, windows, cut=None, positions=None):
    r"""Loss of each character that the model predicts in windows [W, T + 1], in nats: [W, T] float32 on the CPU.

    The model reads the first T characters of a window and predicts the last T.

    Arguments:
        cut: None, or how many of its last keys (itself included) each query may see.
        positions: [T], default 0 .. T-1.
    """
    device = next(model.parameters()).device
    length = windows.shape[1] - 1
    mask = None
    if cut is not None:
        check_int("cut", cut)
        index = torch.arange(length, device=device)
        mask = index[:, None] - index[None, :] < cut  # causality hides the future
    out = []
    for chunk in windows.split(max(1, 2048 // length)):
        chunk = chunk.to(device)
        logits = model(chunk[:, :-1], mask=mask, positions=positions)
        out.append(cross_entropy(logits.float().transpose(1, 2), chunk[:, 1:], reduction="none"))
    return torch.cat(out).cpu()


def short_long(model, settings, corpus=None):
    r"""Loss as the context grows beyond the training length, on fixed target characters: `KINDS` says what is what.

    Returns: {"lengths": settings.lengths, "whole": [...], "cut": [...], "early": [...], "chopped": [...]}, a loss in
        nats per character for each length.
    Chapter: Why attention needs position.
    """
    corpus = load_corpus() if corpus is None else corpus
    windows = held_out_windows(corpus.held_out, settings)
    losses = {kind: [] for kind in KINDS}
    early = target_losses(model, windows[:, -(settings.targets + 1) :]).mean().item()
    for length in settings.lengths:
        pieces = windows.unfold(
            1, length + 1, length
        )  # [W, n, length + 1]; one predicts last what the next reads first
        chopped = target_losses(model, pieces.flatten(0, 1)).unflatten(0, pieces.shape[:2])  # [W, n, length]
        cut = target_losses(model, pieces[:, -1], cut=settings.length)
        losses["whole"].append(chopped[:, -1, -settings.targets :].mean().item())
        losses["cut"].append(cut[:, -settings.targets :].mean().item())
        losses["early"].append(early)
        losses["chopped"].append(chopped.mean().item())
    return {"lengths": settings.lengths, **losses}


# Written before the study ran: what theory or the papers say, and how large a rise from the training length to eight
# times that counts as one. "holds": by no more than TOLERANCE nats per character. "rises": by more.
TOLERANCE = 0.05
PREDICTIONS = {
    "nope": (
        "rises",
        "Nothing tells the model how far away a key is, so eight times as many keys share one softmax that was trained "
        "with 64: attention thins out and the loss rises. The causal mask tells order at depth, so it should train.",
    ),
    "sinusoidal": (
        "rises",
        "Positions beyond 63 add vectors to the embeddings that training never showed, so the loss rises, although the "
        "paper hoped that the sinusoid may extrapolate. Cutting attention does not help: the vectors remain unseen.",
    ),
    "rope": (
        "rises",
        "Distances beyond 63 turn the slow lane pairs by angles that training never showed, so the loss rises. "
        "Cutting attention to 64 keys takes those distances away, and the loss stays.",
    ),
    "alibi": (
        "holds",
        "Distant keys are penalized ever more, so the loss holds at eight times the length, as the paper says. If it "
        "is the same with attention cut, then it holds because what is far is ignored.",
    ),
    "stickbreaking": (
        "holds",
        "Near keys take their share first and no position is ever unseen, so the loss holds or improves with length, "
        "as the paper says. If it is the same with attention cut, then nothing far away is used.",
    ),
}


class Verdict(NamedTuple):
    r"""What became of a prediction.

    outcome: "held", "failed" or "within the spread"; change and spread: mean and standard deviation over seeds of
    (loss at the longest context - loss at the training length); gap: mean over seeds of (whole - cut) at the longest
    context, and gap_spread its standard deviation; words: a sentence with these numbers.
    """

    outcome: str
    change: float
    spread: float
    gap: float
    gap_spread: float
    words: str


def mean_and_spread(values):
    """Mean and sample standard deviation of one number a seed (0.0 for a single seed)."""
    values = numpy.asarray(values, dtype=float)
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0


def verdict(results, method, claim=None):
    r"""Whether the prediction for `method` held, from the numbers in `results`.

    "rises" holds where the change minus the spread exceeds the tolerance and fails where the change plus the spread
    doesn't reach it; "holds" is the other way around. In between the seeds don't tell: "within the spread".

    Arguments: claim: "rises" or "holds", default the prediction that was frozen with the results.
    Returns: a `Verdict`. Errors: ValueError for a method that the results lack or an unknown claim.
    """
    check_choice("method", method, list(results["methods"]))
    claim = results["claims"][method] if claim is None else claim
    check_choice("claim", claim, ("rises", "holds"))
    values, tolerance = results["methods"][method], results["tolerance"]
    whole, cut = numpy.array(values["whole"]), numpy.array(values["cut"])  # [seeds, lengths]
    change, spread = mean_and_spread(whole[:, -1] - whole[:, 0])
    gap, gap_spread = mean_and_spread(whole[:, -1] - cut[:, -1])
    if change - spread > tolerance:
        outcome = "held" if claim == "rises" else "failed"
    elif change + spread <= tolerance:
        outcome = "held" if claim == "holds" else "failed"
    else:
        outcome = "within the spread"
    shortest, longest = results["lengths"][0], results["lengths"][-1]
    digits = 3 if max(abs(change), spread) >= 5e-4 else 4
    moved = f"{'rises' if change > 0 else 'falls'} by {abs(change):.{digits}f} ± {spread:.{digits}f} nats per character"
    beside = (
        "level with" if abs(gap) < 5e-4 else f"{abs(gap):.3f} ± {gap_spread:.3f} nats {'above' if gap > 0 else 'below'}"
    )
    predicted = "a rise of" if claim == "rises" else "no rise of"
    words = (
        f"{METHODS[method].title}: from {shortest} to {longest} characters of context the loss {moved}, and ends "
        f"{beside} the same model with its attention cut to {shortest} keys. Predicted was {predicted} more than "
        f"{tolerance:g} nats: {'that lies ' if outcome == 'within the spread' else ''}{outcome}."
    )
    return Verdict(outcome, change, spread, gap, gap_spread, words)


# ------------------------------------------------------------------------------------------------- trained RoPE heads


@torch.no_grad()
def head_scores(model, settings, corpus=None, windows=64, longest=256):
    r"""What the trained heads of a RoPE model make of distance.

    score: q.k / sqrt(D) of real pairs in held-out text, by distance, mean and standard deviation. Up to the training
        length the windows have that length; beyond, they have `longest` characters, and the model is already outside
        of what it was trained on.
    cos, sin: for each lane pair p, from all pairs of a query and an earlier key inside the training window: their mean
        score, if the same vectors stood at distance d, is the sum over p of cos_p cos(d w_p) + sin_p sin(d w_p). So
        content is held and distance alone moves.
    Returns: {"inv_freq": [D/2], "heads": [{"layer", "head", "mean": [longest], "std": [longest], "cos": [D/2], "sin"}]}
    """
    attention = [block.attention for block in model.blocks]
    if any(layer.encoding.places != ("rotate",) for layer in attention):
        raise UnsupportedError(f"model has encodings at {attention[0].encoding.places}, head_scores reads RoPE alone")
    corpus = load_corpus() if corpus is None else corpus
    held, length, head_dim = corpus.held_out, settings.length, attention[0].head_dim
    w = inv_freq(head_dim, dtype=torch.float64)

    def cut(size, count):
        starts = torch.linspace(0, len(held) - size, count, dtype=torch.float64).long()
        return held[starts[:, None] + torch.arange(size)].to(next(model.parameters()).device)

    def queries_and_keys(tokens):
        """[layer] -> q, k [B, H, T, D] in float64, not yet turned."""
        inputs = []
        hooks = [layer.register_forward_pre_hook(lambda module, args: inputs.append(args[0])) for layer in attention]
        model(tokens)
        for hook in hooks:
            hook.remove()
        return [
            [to(x).unflatten(-1, (-1, head_dim)).transpose(1, 2).double() for to in (layer.to_q, layer.to_k)]
            for layer, x in zip(attention, inputs)
        ]

    short, long = queries_and_keys(cut(length, windows * longest // length)), queries_and_keys(cut(longest, windows))
    heads = []
    for layer in range(len(attention)):
        mean, std = [], []  # [H] for each distance
        for (q, k), distances in ((short[layer], range(length)), (long[layer], range(length, longest))):
            at = torch.arange(q.shape[2], device=q.device)
            scores = rotate(q, at, w) @ rotate(k, at, w).transpose(-2, -1) / math.sqrt(head_dim)  # [B, H, T, T]
            for distance in distances:
                pairs = scores.diagonal(-distance, dim1=-2, dim2=-1).transpose(0, 1).flatten(1)  # [H, pairs]
                mean.append(pairs.mean(1))
                std.append(pairs.std(1))
        q, k = short[layer]
        seen = k.cumsum(2)  # the sum of q_i k_j over j <= i is q_i times this
        (qa, qb), (ka, kb) = (q[..., 0::2], q[..., 1::2]), (seen[..., 0::2], seen[..., 1::2])
        pairs = len(q) * length * (length + 1) / 2
        cos = (qa * ka + qb * kb).sum((0, 2)) / pairs / math.sqrt(head_dim)  # [H, D/2]
        sin = (qa * kb - qb * ka).sum((0, 2)) / pairs / math.sqrt(head_dim)
        for head in range(q.shape[1]):
            heads.append({
                "layer": layer, "head": head,
                "mean": [round(value[head].item(), 4) for value in mean],
                "std": [round(value[head].item(), 4) for value in std],
                "cos": [round(value, 5) for value in cos[head].tolist()],
                "sin": [round(value, 5) for value in sin[head].tolist()],
            })  # fmt: skip
    return {"inv_freq": [round(value, 8) for value in w.tolist()], "heads": heads}


# ------------------------------------------------------------------------------------------------- results and plots


def load_results(name):
    r"""Read frozen results by name: "train_short_test_long" or "rope_heads".

    train_short_test_long: ["methods"][method][kind] with kind in `KINDS` is a list over ["seeds"] of lists over
    ["lengths"], in nats per character; ["predictions"][method] is a string, ["definitions"][kind] says what was
    measured, ["command"], ["commit"], ["versions"], ["machine"] how; ["methods"][method]["sample"] is text it wrote.
    rope_heads: as `head_scores` returns it.

    Errors: FileNotFoundError for an unknown name; ValueError where a file is not what it should be.
    """
    folder = importlib.resources.files("posenc.results")
    known = sorted(item.name.removesuffix(".json") for item in folder.iterdir() if item.name.endswith(".json"))
    if name not in known:
        raise FileNotFoundError(f"name={name!r} is no frozen result; there are {known}.{nearest(name, known)}")
    return check_results(json.loads((folder / f"{name}.json").read_text()))


def check_results(results):
    """Return `results` if it is whole: provenance there, every list of the right length, every number finite."""
    name = results.get("name")
    for key in ("name", "command", "commit", "versions", "machine", "corpus", "settings"):
        if not results.get(key):
            raise ValueError(f"results {name!r} lack {key!r}")
    if name == "rope_heads":
        shape = (len(results["heads"]), len(results["heads"][0]["mean"]))
        rows = [head[key] for head in results["heads"] for key in ("mean", "std")]
    else:
        shape = (len(results["seeds"]), len(results["lengths"]))
        rows = [row for method in results["methods"].values() for kind in KINDS for row in method[kind]]
        for method, values in results["methods"].items():
            for kind in KINDS:
                if len(values[kind]) != shape[0]:
                    raise ValueError(f"results {name!r}: {method} {kind} has {len(values[kind])} seeds, not {shape[0]}")
    for row in rows:
        if len(row) != shape[1] or not all(math.isfinite(value) for value in row):
            raise ValueError(f"results {name!r} hold a row that isn't {shape[1]} finite numbers: {row}")
    return results


def blank_figure(width, height):
    """A figure and its axes, closed for pyplot, so that a notebook shows it once: where it is asked to."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(width, height), layout="constrained", facecolor="white")
    plt.close(figure)
    return figure, axes


def plot_loss(losses, steps=None, title=""):
    r"""A matplotlib figure of the training loss: each step, and an average over the last twentieth of all steps."""
    figure, axes = blank_figure(6, 3)
    width = max(1, len(losses) // 20)
    means = numpy.convolve(losses, numpy.ones(width) / width, mode="valid")
    axes.plot(range(1, len(losses) + 1), losses, color="0.75", linewidth=0.8, label="each step")
    axes.plot(range(width, len(losses) + 1), means, color="C0", label=f"mean of {width}")
    axes.set(xlabel="step", ylabel="loss, nats per character", title=title, xlim=(0, steps or len(losses)))
    axes.legend(frameon=False)
    return figure


STYLES = {
    "nope": ("0.35", "o"), "sinusoidal": ("C0", "s"), "rope": ("C1", "^"), "alibi": ("C2", "D"),
    "stickbreaking": ("C4", "v"),
}  # fmt: skip


def plot_short_long(results, methods=None, highlight=None, own=None):
    r"""Loss on fixed target characters as their context grows: whole (solid) and cut to the training window (dashed).

    Arguments:
        results: from `load_results("train_short_test_long")`.
        methods: names, in drawing order; default all of the results'.
        highlight: one of them, drawn strong, the others pale.
        own: {label: what `short_long` returned} for models of your own, drawn beside, in black.
    Returns: a matplotlib figure: means over seeds, bars of one standard deviation, a vertical line at the training
        length. Errors: ValueError for a method that the results lack.
    """
    from matplotlib.ticker import NullLocator

    methods = list(results["methods"]) if methods is None else list(methods)
    for name in [*methods, *([highlight] if highlight else [])]:
        check_choice("methods", name, list(results["methods"]))
    figure, axes = blank_figure(7.5, 4)
    lengths = results["lengths"]
    for name in methods:
        color, marker = STYLES.get(name, (None, "o"))
        strong = highlight in (None, name)
        look = {"color": color, "marker": marker, "alpha": 1 if strong else 0.35, "capsize": 3, "markersize": 5}
        for kind, line in (("whole", "-"), ("cut", "--")):
            values = numpy.array(results["methods"][name][kind])  # [seeds, lengths]
            mean, spread = values.mean(0), values.std(0, ddof=1) if len(values) > 1 else None
            label = METHODS[name].title + ("" if kind == "whole" else ", cut")
            if kind == "whole" or strong:
                face = color if kind == "whole" else "white"
                axes.errorbar(lengths, mean, spread, linestyle=line, label=label, markerfacecolor=face, **look)
    for (label, losses), marker in zip((own or {}).items(), "*PX<>hp" * 3):
        for kind, line in (("whole", "-"), ("cut", "--")):
            text = label if kind == "whole" else f"{label}, cut"
            axes.plot(losses["lengths"], losses[kind], line, color="black", marker=marker, label=text)
    axes.axvline(lengths[0], color="0.6", linestyle=":", linewidth=1)
    axes.annotate(" trained here", (lengths[0], 0.97), xycoords=("data", "axes fraction"), va="top", color="0.4")
    axes.set_xscale("log", base=2)
    ticks = sorted({*lengths, *(length for losses in (own or {}).values() for length in losses["lengths"])})
    axes.set_xticks(ticks, [str(length) for length in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="context, characters", ylabel="loss on the same targets,\nnats per character")
    figure.legend(loc="outside right upper", frameon=False, fontsize="small")
    return figure


# -------------------------------------------------------------------------------------------------------- the command


def provenance(name, preset, settings, corpus, command):
    """What a reader needs to know about how a result was made."""
    git = functools.partial(subprocess.run, capture_output=True, text=True, cwd=Path(__file__).parent)
    commit = git(["git", "rev-parse", "HEAD"]).stdout.strip() or "unknown"
    loaded = [module.__file__ for name, module in sys.modules.items() if name.startswith("posenc.")]
    changed = git(["git", "status", "--porcelain", "--", __file__, *filter(None, loaded)]).stdout.split("\n")
    if any(changed):
        commit += f", with changes in {', '.join(line[3:] for line in changed if line)}"
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, numpy {numpy.__version__}"
    return {
        "name": name,
        "command": command,
        "commit": commit,
        "versions": f"{versions}, posenc {importlib.metadata.version('posenc')}",
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, one thread a run",
        "preset": preset,
        "settings": dataclasses.asdict(settings),
        "corpus": {
            "name": corpus.name,
            "sha256": corpus.sha256,
            "characters": len(corpus.train) + len(corpus.held_out),
            "train_characters": len(corpus.train),
            "held_out_characters": len(corpus.held_out),
            "vocabulary": len(corpus.vocabulary),
        },
    }


def cpu_model():
    """The processor's name, as far as the system tells."""
    try:
        return re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text()).group(1).strip()
    except (OSError, AttributeError):
        return platform.processor() or platform.machine()


def write_json(path, value):
    """Write a file in one move: a reader or an interruption finds the old one or the new one, never a half."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(path.name + ".writing")
    partial.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n")
    os.replace(partial, path)


def run_cell(method, seed, settings):
    """Train and test one method with one seed on one CPU thread; the numbers of one cell of the study."""
    torch.set_num_threads(1)
    started = time.perf_counter()
    corpus = load_corpus()
    model, history = train_with(method, settings, seed, corpus, torch.device("cpu"), progress=False)
    losses = short_long(model, settings, corpus)
    cell = {kind: [round(value, 6) for value in losses[kind]] for kind in KINDS}
    cell["final_train_loss"] = round(numpy.mean(history["loss"][-settings.steps // 10 :]), 6)
    cell["curve"] = [round(numpy.mean(history["loss"][i : i + 10]), 4) for i in range(0, settings.steps, 10)]
    cell["parameters"] = sum(parameter.numel() for parameter in model.parameters())
    if seed == 0:
        cell["sample"] = sample(model, corpus, window=settings.length)
        cell["sample_long"] = sample(model, corpus, length=400)
    cell["seconds"] = round(time.perf_counter() - started, 1)
    return cell


def run_short_long(preset, seeds, methods, out, workers, command):
    r"""Run the study and write `out`. Finished cells are kept in `out`.partial, so that the command can be repeated."""
    settings, corpus = PRESETS[preset], load_corpus()
    check_windows(corpus.held_out, settings)
    results = provenance("train_short_test_long", preset, settings, corpus, command)
    partial = out.with_name(out.name + ".partial")
    same = json.loads(json.dumps({key: results[key] for key in ("settings", "corpus", "versions")}))
    cells = {}
    if partial.exists():
        saved = json.loads(partial.read_text())
        if saved["same"] != same:
            raise ValueError(
                f"{partial} was begun with other settings, corpus or versions; go on with those or delete it"
            )
        cells = saved["cells"]
        if saved["commit"] != results["commit"]:
            results["commit"] = f"{saved['commit']}, gone on with at {results['commit']}"
    todo = [(m, s) for s in range(seeds) for m in methods if f"{m} {s}" not in cells]
    if cells:
        print(f"{partial}: {len(cells)} finished runs found, {len(todo)} to go", file=sys.stderr)
    with ProcessPoolExecutor(workers, mp_context=get_context("spawn")) as pool:
        runs = {pool.submit(run_cell, method, seed, settings): f"{method} {seed}" for method, seed in todo}
        try:
            for run in tqdm(as_completed(runs), total=len(runs), desc="runs"):
                cells[runs[run]] = run.result()
                write_json(partial, {"same": same, "commit": results["commit"], "cells": cells})
        except BaseException:
            pool.shutdown(cancel_futures=True)  # or leaving would first wait for every run that is still to come
            raise
    per_seed = (*KINDS, "final_train_loss", "curve", "seconds")
    facts = {"targets": settings.targets, "length": settings.length, "reach": settings.length - 1}
    results |= {
        "seeds": list(range(seeds)),
        "lengths": settings.lengths,
        "target_characters": settings.windows * settings.targets,
        "unit": "nats per character",
        "definitions": {kind: text.format(**facts) for kind, text in KINDS.items()},
        "tolerance": TOLERANCE,
        "claims": {method: PREDICTIONS[method][0] for method in methods},
        "predictions": {method: PREDICTIONS[method][1] for method in methods},
        "methods": {
            method: {
                "parameters": cells[f"{method} 0"]["parameters"],
                **{key: [cells[f"{method} {seed}"][key] for seed in range(seeds)] for key in per_seed},
                "sample": cells[f"{method} 0"]["sample"],
                "sample_long": cells[f"{method} 0"]["sample_long"],
            }
            for method in methods
        },
    }
    write_json(out, check_results(results))
    partial.unlink()
    for method in methods:
        print(verdict(results, method).words)


def run_rope_heads(preset, out, command):
    """Train RoPE with seed 0 and write what its heads make of distance."""
    torch.set_num_threads(1)
    settings, corpus = PRESETS[preset], load_corpus()
    model, history = train_with("rope", settings, 0, corpus, torch.device("cpu"))
    results = provenance("rope_heads", preset, settings, corpus, command)
    results |= {"seed": 0, "definition": inspect.cleandoc(head_scores.__doc__)} | head_scores(model, settings, corpus)
    write_json(out, check_results(results))


def main(arguments=None):
    r"""The command `python -m posenc.train`."""
    parser = argparse.ArgumentParser(prog="python -m posenc.train", description="Train and measure small models.")
    parser.add_argument("experiment", choices=("short-long", "rope-heads"))
    parser.add_argument("--preset", default="study", choices=PRESETS)
    parser.add_argument("--seeds", type=int, default=5, help="how many seeds, from 0 (short-long)")
    parser.add_argument("--methods", nargs="+", default=list(PREDICTIONS), choices=PREDICTIONS)
    parser.add_argument("--workers", type=int, default=1, help="processes, one CPU thread each (short-long)")
    parser.add_argument("--out", type=Path, help="default results/NAME.json")
    given = parser.parse_args(arguments)
    check_int("--seeds", given.seeds)
    check_int("--workers", given.workers)
    command = "python -m posenc.train " + " ".join(sys.argv[1:] if arguments is None else map(str, arguments))
    if given.experiment == "short-long":
        out = given.out or Path("results/train_short_test_long.json")
        run_short_long(given.preset, given.seeds, given.methods, out, given.workers, command)
    else:
        run_rope_heads(given.preset, given.out or Path("results/rope_heads.json"), command)


if __name__ == "__main__":
    main()
