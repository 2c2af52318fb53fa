r"""Bring your own encoding and get a report: what holds, what fails, and the example that shows it.

    def my_rotation(x, positions): ...          # x [B, H, T, D], positions [T]

    print(posenc.audit.audit(my_rotation, "rotate"))

An audit looks for counterexamples. It finds no proof, and says nothing about whether a method learns.
"""

import copy
import inspect
import math
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from textwrap import fill
from typing import NamedTuple

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from .attention import attention
from .encoding import PLACES, At, Encoding
from .errors import check_bool, check_choice, check_int, check_number, shown
from .layer import KVCache, SelfAttention, embed_input
from .methods import METHODS, make, sizes

FORMS = (*PLACES, "attention")

#: The questions in the order of the report.
QUESTIONS = {
    "shape": "takes what it says, and returns its input's shape",
    "relative": "moving all positions changes no weight",
    "norm": "a vector keeps its length",
    "layout": "each lane meets one partner, and the two turn together",
    "gradient": "the backward pass agrees with finite differences",
    "precision": "half precisions and autocast read the same positions",
    "causality": "the future changes nothing in the past",
    "cache": "token by token, or in chunks, equals all at once",
    "batch": "a batch is its rows, each with positions of its own",
    "weights": "a row's weights are at least 0 and sum to at most 1",
    "distance": "which keys win at equal content, the nearest or the farthest",
    "finite": "past the trained length it stays finite, or refuses in words",
    "unseen": "past the trained length nothing leaves the range of training",
}

WRONG = 0.05  # a weight in a narrow dtype that is off by more than this is no rounding
NEW = 0.2  # a logit, or a unit vector, this far from all that training showed counts as unseen
STEP = 1e-3  # of finite differences; some subjects compute in float32 inside
WIDTH = 76  # of a printed report, in characters
SLOPE = 1e-2  # largest disagreement of a gradient, as a share of its largest entry


class Finding(NamedTuple):
    r"""The answer to one of `QUESTIONS`, or to "same": is it what `like` is?

    verdict: "holds", "fails", "told" (a fact with nothing to be right or wrong about) or "not asked"; number: what was
    measured, or None; words: what that means, or the reason why it is not asked; example: where it fails, in words, or
    "".
    """

    name: str
    verdict: str
    number: float | None
    words: str
    example: str = ""


@dataclass
class Report:
    r"""What `audit` found. report["norm"] is one `Finding`; print(report) reads as text."""

    subject: str
    places: tuple
    findings: tuple
    cost: dict
    settings: dict = field(default_factory=dict)

    def __getitem__(self, name):
        check_choice("name", name, tuple(self.verdicts))
        return next(finding for finding in self.findings if finding.name == name)

    @property
    def verdicts(self):
        """{name of the question: verdict}."""
        return {finding.name: finding.verdict for finding in self.findings}

    @property
    def failures(self):
        """The names of the questions whose answer is "fails"."""
        return tuple(finding.name for finding in self.findings if finding.verdict == "fails")

    def __str__(self):
        verdicts = list(self.verdicts.values())
        counts = ", ".join(f"{verdicts.count(v)} {v}" for v in ("holds", "fails", "told", "not asked"))
        head = f"Audit of {self.subject} (at {', '.join(self.places) or 'no place'}): {counts}"
        rows = []
        for finding in self.findings:
            example = f"; e.g. {finding.example}" if finding.example else ""
            rows.append((f"{finding.verdict:<10s}{finding.name:<11s}", finding.words + example))
        rows.append((f"{'cost':<21s}", self.cost["words"]))
        return "\n".join(
            [head, *(fill(words, WIDTH, initial_indent=row, subsequent_indent=" " * 21) for row, words in rows)]
        )


class SubjectError(Exception):
    """The subject raised; `__cause__` is what it raised."""


class NotAsked(Exception):
    """The question makes no sense for this subject; the message says why."""


def error_words(error):
    """An error of the subject in words."""
    cause = error.__cause__ or error
    return f"{type(cause).__name__}: {' '.join(str(cause).split())[:120]}"


# ------------------------------------------------------------------------------------------ what a person has at hand


def shape_of(out):
    """What a subject returned, for an error: its shape, or its type where it is no tensor."""
    return list(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__


class ByHand(nn.Module):
    """A callable as a person has it, in the form that the package calls. A module in it moves and casts along.

    It knows one row of positions: where the rows of a batch have positions of their own, it is called for each.
    """

    def __init__(self, function):
        super().__init__()
        self.function = function

    def same_shape(self, x, positions):
        out = self.function(x, positions)
        if not isinstance(out, torch.Tensor) or out.shape != x.shape:
            got = shape_of(out)
            raise ValueError(f"given x {list(x.shape)} and positions {list(positions.shape)} it returned {got}")
        return out


def by_rows(function, positions, *batches):
    """function(batches, positions [T]) for positions [1, T], or joined from a call for each row of positions [B, T]."""
    if len(positions) == 1:
        return function(*batches, positions[0])
    return torch.cat([function(*(batch[i : i + 1] for batch in batches), own) for i, own in enumerate(positions)])


class HandEmbed(ByHand):
    def forward(self, x, positions):
        return by_rows(self.same_shape, positions, x)


class HandRotate(ByHand):
    def forward(self, q, k, at):
        return by_rows(self.same_shape, at.pos_q, q), by_rows(self.same_shape, at.pos_k, k)


class HandBias(ByHand):
    def forward(self, q, k, at):
        shape = (q.shape[1], q.shape[2], k.shape[2])  # [H, Tq, Tk]
        rows = max(len(at.pos_q), len(at.pos_k))
        pairs = zip(at.pos_q.expand(rows, -1), at.pos_k.expand(rows, -1))
        return torch.cat([self.of_row(pos_q, pos_k, shape) for pos_q, pos_k in pairs])

    def of_row(self, pos_q, pos_k, shape):
        """[1, H, Tq, Tk] of positions [Tq] and [Tk]."""
        out = self.function(pos_q, pos_k)
        try:
            return torch.broadcast_to(out, (1, *shape))
        except (RuntimeError, TypeError):
            got = shape_of(out)
            raise ValueError(f"it must return what broadcasts to [H, Tq, Tk] = {list(shape)}, got {got}") from None


class HandWeigh(ByHand):
    def forward(self, scores, at):
        out = self.function(scores, at)
        if not isinstance(out, torch.Tensor) or out.shape != scores.shape:
            got = shape_of(out)
            raise ValueError(f"it must return weights of shape {list(scores.shape)}, got {got}")
        return out


class HandAttention(ByHand):
    def forward(self, q, k, v, encoding, *, pos_k=None, causal=True, return_weights=False, **others):
        positions = torch.arange(k.shape[2]) if pos_k is None else pos_k

        def outputs(q, k, v, positions):
            out = self.function(q, k, v, positions, causal)
            shape = (*q.shape[:3], v.shape[3])
            if not isinstance(out, torch.Tensor) or out.shape != shape:
                raise ValueError(f"it must return [B, H, Tq, Dv] = {list(shape)}, got {shape_of(out)}")
            return out

        out = by_rows(outputs, positions.reshape(-1, k.shape[2]), q, k, v)
        return (out, None) if return_weights else out


BY_HAND = {  # place: (its class, what the callable is given)
    "embed": (HandEmbed, ("x", "positions")),
    "rotate": (HandRotate, ("x", "positions")),
    "bias": (HandBias, ("pos_q", "pos_k")),
    "weigh": (HandWeigh, ("scores", "at")),
    "attention": (HandAttention, ("q", "k", "v", "positions", "causal")),
}


def check_takes(subject, place, given, name):
    """Raise unless the callable takes as many arguments as its place gives it; builtins don't tell what they take."""
    try:
        signature = inspect.signature(subject)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*given)
    except TypeError:
        raise TypeError(
            f"{name} must take ({', '.join(given)}), as place={place!r} calls it; this one takes {signature}"
        ) from None


def as_encoding(subject, place, name="subject"):
    """An `Encoding` that holds the subject, or what it is compared with; name: that of the argument, for errors."""
    if isinstance(subject, Encoding):
        if place is not None:
            raise ValueError(f"place={place!r} must be None for an Encoding, which names its places itself")
        return subject
    if not callable(subject):
        raise TypeError(f"{name}={shown(subject)} must be an Encoding or a callable, got {type(subject).__name__}")
    if place is None:
        raise ValueError(f"place=None: where does {name} act? At one of {', '.join(FORMS)}; or make it an Encoding")
    check_choice("place", place, FORMS)
    kind, given = BY_HAND[place]
    check_takes(subject, place, given, name)
    part = kind(subject)
    return Encoding(attend=part) if place == "attention" else Encoding(**{place: part})


# --------------------------------------------------------------------------------------------------- the test bench


def copied(encoding):
    """A copy of the subject's encoding. Errors: TypeError where it can't be copied, with what to do."""
    try:
        return copy.deepcopy(encoding)
    except Exception as error:
        raise TypeError(
            f"subject holds what can't be copied ({error_words(error)}); a function that refers to it is used as it is"
        ) from error


class Bench:
    r"""One attention layer with fixed random projections around the subject, so that all are asked the same."""

    def __init__(self, encoding, *settings):
        self.encoding, self.settings = copied(encoding), settings
        self.head_dim, self.num_heads, self.length, self.causal, self.tolerance, self.far, self.seed, self.decays = (
            settings
        )
        self.weighs = not isinstance(encoding.attend, HandAttention)  # else there are outputs alone
        self.copies = {}
        self.exact = self.encoding_in(torch.float64)

    def line(self, positions, shift=0):
        """Where tokens at positions [..., T] stand, then shifted; with n axes [..., T, n], on no straight line."""
        if self.exact.axes is None:
            return positions + shift
        return torch.stack([positions + 2 * a * positions % 5 + (a + 1) * shift for a in range(self.exact.axes)], -1)

    def generator(self):
        return torch.Generator().manual_seed(self.seed)

    def encoding_in(self, dtype):
        """A copy of the encoding as `model.to(dtype)` would make it."""
        return self.layer(dtype).whole

    def layer(self, dtype):
        if dtype not in self.copies:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(self.seed)
                dim = self.head_dim * self.num_heads
                own = copy.deepcopy(self.encoding)
                layer = SelfAttention(dim, self.num_heads, own.in_layers(), causal=self.causal, impl="torch")
                layer.whole = own  # with what acts before the layer
            self.copies[dtype] = layer.to(dtype).eval()
        return self.copies[dtype]

    def tokens(self, length):
        """Seeded inputs [1, T, C], large enough for weights that differ."""
        return 2 * self.random(1, length, self.head_dim * self.num_heads)

    def gates(self, length):
        """What the encoding reads of each token besides q, k and v, seeded; None where it reads nothing."""
        if self.exact.gates is None:
            return None
        size, activation = self.exact.gates
        return activation(self.random(1, self.num_heads, length, *size))

    def run(self, x, positions, cache=None, dtype=torch.float64, shift=0):
        r"""(output [B, T, C], weights [B, H, Tq, Tk] or None) of tokens x at positions [T] or [B, T], then shifted."""
        layer, positions = self.layer(dtype), self.line(positions, shift)
        try:
            x = embed_input(layer.whole, x.to(dtype), positions)
            out, weights = layer(x, positions=positions, cache=cache, return_weights=True)
        except Exception as error:
            raise SubjectError from error
        return out, weights

    def outcome(self, x, positions, **options):
        """What a question compares: weights, and the output where a whole attention function gives no weights."""
        out, weights = self.run(x, positions, **options)
        return out[:, None] if weights is None else weights

    def weights(self, q, k, gates):
        """[B, H, T, T] of queries and keys [B, H, T, D] at positions 0 .. T-1; one-hot values show those of outputs."""
        parts, size = [], k.shape[2]
        try:
            if self.weighs:
                return attention(q, k, k, self.exact, causal=self.causal, gates=gates, return_weights=True)[1]
            for lanes in torch.eye(size, dtype=torch.float64).split(self.head_dim, -1):
                v = torch.zeros_like(k)
                v[..., : lanes.shape[1]] = lanes
                out = attention(q, k, v, self.exact, causal=self.causal, gates=gates)
                parts.append(out[..., : lanes.shape[1]])
        except Exception as error:
            raise SubjectError from error
        return torch.cat(parts, -1)

    def at(self, pos_q, pos_k=None):
        pos_k = pos_q if pos_k is None else pos_k
        visible = torch.ones(1, 1, len(pos_q), len(pos_k), dtype=torch.bool)
        return At(self.line(pos_q)[None], self.line(pos_k)[None], visible)

    def rotate(self, x, positions):
        """(x turned as a query, x turned as a key) for x [1, H, T, D]."""
        try:
            q, k = self.exact.rotate(x, x, self.at(positions))
            return [q.to(x.dtype), k.to(x.dtype)]
        except Exception as error:
            raise SubjectError from error

    def matrices(self, positions):
        r"""[T, D, D] for queries and for keys: what the first head multiplies vectors by at each position."""
        out = []
        for lane in torch.eye(self.head_dim, dtype=torch.float64):
            turned = self.rotate(lane.expand(1, self.num_heads, len(positions), -1), positions)
            out.append(torch.stack([y[0, 0] for y in turned]))  # [2, T, D]: what became of this lane
        return torch.stack(out, -1)

    def random(self, *shape):
        return torch.randn(*shape, dtype=torch.float64, generator=self.generator())


def pair_of(bench, like, place):
    """Benches of the subject and of `like`; one that is named has the sizes of the first, and both the same numbers."""
    if not isinstance(like, str):
        mine, other = bench.encoding, as_encoding(like, None if isinstance(like, Encoding) else place, "like")
    else:
        check_choice("like", like, tuple(METHODS))
        options = sizes(like, num_heads=bench.num_heads, head_dim=bench.head_dim, length=bench.length)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(bench.seed)
            mine = copied(bench.encoding)
            other = make(like, **options | ({} if bench.causal else METHODS[like].both_ways))
            ours, theirs = ([p for p in one.parameters() if p.requires_grad] for one in (mine, other))
            if [p.shape for p in ours] != [p.shape for p in theirs]:
                raise ValueError(f"like={like!r} learns other numbers than subject: give an Encoding that holds those")
            for p, its in zip(ours, theirs):
                p.data += 0.1 * torch.randn_like(p)  # some start at zero, where nothing shows
                its.data = p.data.clone()
    if other.axes != mine.axes:
        raise ValueError(f"like={shown(like)} has axes={other.axes}, it must have those of subject, {mine.axes}")
    return [Bench(one, *bench.settings) for one in (mine, other)]


def small(number):
    """A number with two digits."""
    return f"{number:.2g}"


def decimals(number, digits=3):
    """A number with this many decimals; with two digits and a power of ten where they would show nothing but zeros."""
    text = f"{number:.{digits}f}"
    return text if number == 0 or float(text) else f"{number:.1e}"


def percent(share, digits=1):
    """A share in percent, as `decimals`."""
    return f"{decimals(100 * share, digits)}%"


def unlike(a, b, digits=3):
    """Two numbers as `decimals`, with as many more decimals as it takes to tell them from each other."""
    while a != b and decimals(a, digits) == decimals(b, digits) and digits < 16:
        digits += 1
    return decimals(a, digits), decimals(b, digits)


def unravel(index, shape):
    """The index of each dimension from the one into a flat tensor; torch's own imports sympy, which takes seconds."""
    place = []
    for size in reversed(shape):
        index, coordinate = divmod(index, size)
        place.append(coordinate)
    return tuple(reversed(place))


def worst_at(difference):
    """Index of the largest entry, as a tuple of ints."""
    return unravel(int(difference.argmax()), difference.shape)


def at_most(name, number, limit, words, broken, example):
    """A finding from one number that must not exceed a limit."""
    if number <= limit:  # False for nan
        return Finding(name, "holds", number, words)
    return Finding(name, "fails", number, broken, example)


# ------------------------------------------------------------------------------------------------------ the questions


def ask_shape(bench):
    """It runs at all: three sequences, integer and float positions."""
    positions = torch.arange(5)
    x = bench.tokens(5).expand(3, -1, -1)
    for at in (positions, positions.double()):
        try:
            out, _ = bench.run(x, at)
        except SubjectError as error:
            kind = "whole" if at is positions else "float"
            words = f"it does not run in float64 on three sequences of 5 tokens at {kind} positions"
            if at is not positions:  # a table is right to ask for whole numbers
                return Finding("shape", "holds", None, f"it runs at whole positions alone ({error_words(error)})")
            return Finding("shape", "fails", None, words, error_words(error))
        if not out.isfinite().all():
            return Finding("shape", "fails", None, "its output is not finite", "positions 0 to 4")
    return Finding("shape", "holds", None, "it runs in float64 on several sequences, at whole and at float positions")


def ask_relative(bench):
    """Shift all positions, inside the trained length and, if that is accepted, far beyond; no weight may change."""
    size = max(4, bench.length // 4)
    beyond = max(1, bench.far - size // 2)  # the window lies across `far`: a counter that wraps there shows
    x, positions = bench.tokens(size), torch.arange(size)
    before = bench.outcome(x, positions)
    worst, example, farthest = 0.0, "", 0
    for shift in sorted({1, bench.length // 2, bench.length - size, beyond}):
        try:
            after = bench.outcome(x, positions, shift=shift)
        except SubjectError:
            if shift == beyond:  # a table's end
                break
            raise
        change = (after - before).abs().nan_to_num(math.inf)
        farthest = shift
        if change.max() > worst:
            worst = change.max().item()
            _, head, i, j = place = worst_at(change)
            pair = f"query {i}, key {j}, head {head}: weight" if bench.weighs else f"token {i}: output"
            home, away = unlike(before[place].item(), after[place].item(), 4)
            by = bench.line(torch.tensor(0), shift).tolist()
            example = f"{pair} {home} at home, {away} with all positions moved by {by}"
    what = "weight" if bench.weighs else "output"
    exact = "" if worst < 1e-9 else ", as in float32"
    words = f"moving all positions by up to {farthest} changes no {what} by more than {small(worst)}{exact}"
    broken = f"moving all positions by up to {farthest} changes a {what} by {small(worst)}"
    return at_most("relative", worst, bench.tolerance, words, broken, example)


def ask_norm(bench):
    """A rotation keeps lengths."""
    if bench.exact.rotate is None:
        raise NotAsked("it turns no vectors")
    positions = torch.arange(bench.length)
    x = bench.random(1, bench.num_heads, bench.length, bench.head_dim)
    worst, example = 0.0, ""
    for kind, y in zip(("query", "key"), bench.rotate(x, positions)):
        ratio = (y.norm(dim=-1) / x.norm(dim=-1)).nan_to_num(math.inf)
        change = (ratio - 1).abs()
        if change.max() > worst:
            worst = change.max().item()
            place = worst_at(change)
            times, _ = unlike(ratio[place].item(), 1.0)
            example = f"a {kind} at position {place[2]}, head {place[1]}, becomes {times} times as long"
    words = f"lengths are kept to {small(worst)}"
    return at_most("norm", worst, bench.tolerance, words, f"lengths change by up to {percent(worst)}", example)


def groups_of(matrices):
    """Lanes that meet, as sorted tuples: connected parts of where the matrices are not zero."""
    lanes = len(matrices[0])
    meets = torch.stack([m.abs() > 1e-5 for m in matrices]).any(0)
    meets = meets | meets.T | torch.eye(lanes, dtype=torch.bool)
    for _ in range(lanes.bit_length()):
        meets = (meets.double() @ meets.double()) > 0
    return sorted({tuple(row.nonzero().flatten().tolist()) for row in meets})


def name_of(pairs):
    """The name of a way to pair lanes."""
    flat = sorted(lane for pair in pairs for lane in pair)
    if pairs == [(a, a + 1) for a in flat[::2]]:
        return "interleaved"
    if pairs == [(a, b) for a, b in zip(flat[: len(pairs)], flat[len(pairs) :])]:
        return "half-split"
    return "pairs " + ", ".join(map(str, pairs[:3])) + ("..." if len(pairs) > 3 else "")


def fixed_lanes(bench, start):
    """Raise NotAsked where lanes can't be followed from position 0 on; start [D, D] is what happens to them there."""
    x, positions = bench.random(1, bench.num_heads, 2, bench.head_dim), torch.tensor([1, 2])
    one, many = bench.rotate(3 * x, positions)[0], 3 * bench.rotate(x, positions)[0]
    if (one - many).abs().max() > bench.tolerance:
        raise NotAsked("it is not linear, so lanes can't be told apart")
    if torch.linalg.matrix_rank(start, rtol=1e-6) < bench.head_dim:
        raise NotAsked("at position 0 it loses lanes, so what follows can't be told from a reordering")


def bent_block(matrices, groups, tolerance):
    r"""(how far, position, lanes, their products [b, b]) of the first block that is no rotation; None where all are.

    matrices: {position: [D, D]}. A rotation times a number is let pass: "norm" asks for that.
    """
    for group in groups:
        for position, matrix in matrices.items():
            block = matrix[list(group)][:, list(group)]
            square = block.T @ block
            bent = (square - square.trace() / len(group) * torch.eye(len(group))).abs().max().item()
            if bent > tolerance:
                return bent, position, group, square
    return None


def ask_layout(bench):
    """Send one lane at a time through the rotation and see where it comes out."""
    if bench.exact.rotate is None:
        raise NotAsked("it turns no vectors")
    positions = sorted({1, 3, bench.length - 1})
    start, *later = bench.matrices(torch.tensor([0, *positions])).transpose(0, 1)  # each [2, D, D]
    apart = (start[0] - start[1]).abs()
    if apart.max() > bench.tolerance:
        words = "queries and keys come out in different lanes"
        return Finding("layout", "fails", None, words, f"lane {worst_at(apart)[1]} at position 0")
    fixed_lanes(bench, start[0])
    back = torch.linalg.inv(start[0])
    into = [back @ m[0] for m in later]  # in the lanes of the input
    out = [m[0] @ back for m in later]  # in those of the output
    groups, of_keys = groups_of(into), groups_of([back @ m[1] for m in later])
    if groups != of_keys:
        ours, theirs = ([g for g in lanes if len(g) > 1] for lanes in (groups, of_keys))
        words = f"queries turn as {name_of(ours)}, keys as {name_of(theirs)}"
        return Finding("layout", "fails", None, words, f"lane {ours[0][0] if ours else theirs[0][0]}")
    moved = [g for g in groups if any((m[list(g)][:, list(g)] - torch.eye(len(g))).abs().max() > 1e-6 for m in into)]
    if not moved:
        raise NotAsked("it leaves every vector as it is")
    single = [g for g in moved if len(g) == 1]
    if single:
        lane = single[0][0]
        factors = ", ".join(f"{unlike(m[lane, lane].item(), 1.0)[0]} at {p}" for p, m in zip(positions, into))
        whole = "lanes never mix: each is scaled, none turns" if len(single) == len(moved) else "some lanes only scale"
        return Finding("layout", "fails", len(single), whole, f"lane {lane} is multiplied by {factors}")
    turned = [g for g in groups_of(out) if len(g) > 1]
    bent = bent_block(dict(zip(positions, out)), turned, bench.tolerance)
    if bent is not None:
        number, position, group, products = bent
        sizes = products.diagonal().sqrt()
        longest, shortest = unlike(sizes.max().item(), sizes.min().item())
        product = decimals(products.triu(1).abs().max().item())
        example = f"at position {position} unit vectors in lanes {group} get lengths from {shortest} to {longest}"
        example += f" and products of up to {product}"
        words = f"{name_of(moved)}, but the lanes of a pair do not turn as one"
        return Finding("layout", "fails", number, words, example)
    return named_layout(moved, turned, bench.head_dim)


def named_layout(moved, turned, head_dim):
    """The finding of a right rotation: how its lanes meet, in the input and in the output."""
    largest = max(len(g) for g in moved)
    if {len(g) for g in moved} != {2}:
        return Finding("layout", "holds", largest, f"blocks of up to {largest} lanes turn together")
    lanes = sum(len(g) for g in moved)
    words = name_of(moved)
    if turned != moved:
        words = f"reads {words}, writes {name_of(turned)}"
    words += "" if lanes == head_dim else f", {lanes} of {head_dim} lanes"
    if turned != moved:
        words += ": harmless while queries and keys share it"
    return Finding("layout", "holds", 2, words)


def disagreement(compute, leaves, generator, samples):
    r"""The worst entry of the gradient of compute() as autograd and finite differences have it.

    leaves: {name: tensor that requires a gradient}. Returns (share of the largest entry, words).
    """
    weight = None

    def loss():
        nonlocal weight
        out = compute()
        if weight is None:
            weight = torch.randn(out.shape, dtype=torch.float64, generator=generator)
        return (out * weight).sum()

    value = loss()
    if not value.requires_grad:
        grads = [None] * len(leaves)
    else:
        grads = torch.autograd.grad(value, list(leaves.values()), allow_unused=True)
    worst, words = 0.0, ""
    for (name, leaf), grad in zip(leaves.items(), grads):
        grad = torch.zeros_like(leaf) if grad is None else grad
        flat, numbers = leaf.detach().view(-1), {}
        for index in torch.randperm(len(flat), generator=generator)[:samples].tolist():
            old, ends = flat[index].item(), []
            for step in (STEP, -STEP):
                flat[index] = old + step  # shares memory with the leaf
                ends.append(loss().item())
            flat[index] = old
            numbers[index] = (ends[0] - ends[1]) / (2 * STEP)
        largest = max([grad.abs().max().item(), *map(abs, numbers.values()), 1e-6])
        for index, number in numbers.items():
            claimed = grad.reshape(-1)[index].item()
            off = abs(claimed - number) / largest
            if not off <= worst:
                place = ", ".join(str(i) for i in unravel(index, leaf.shape))
                ours, theirs = unlike(claimed, number, 4)
                words = f"{name}[{place}]: backward says {ours}, finite differences {theirs}"
                worst = off if off == off else math.inf
    return worst, words


def ask_gradient(bench):
    """Autograd, or a backward pass written by hand, against finite differences of the forward pass."""
    generator = bench.generator()
    worst, example = 0.0, ""
    size = min(6, bench.length)
    positions = torch.arange(size)
    parameters = {n: p for n, p in bench.exact.named_parameters() if p.requires_grad}
    x = bench.tokens(size).requires_grad_()
    trials = [(lambda: bench.run(x, positions)[0], {"tokens": x} | parameters, 8)]
    if bench.exact.rotate is not None:
        vector = bench.random(1, bench.num_heads, size, bench.head_dim).requires_grad_()
        trials.insert(0, (lambda: torch.cat(bench.rotate(vector, positions)), {"x": vector}, 32))
    for compute, leaves, samples in trials:
        try:
            off, words = disagreement(compute, leaves, generator, samples)
        except RuntimeError as error:  # raised by the backward pass
            return Finding("gradient", "fails", None, "the backward pass raises", error_words(error))
        if off > worst:
            worst, example = off, words
    what = "inputs and parameters" if parameters else "inputs"
    words = f"backward and finite differences agree for {what}, to {small(worst)} of the largest entry"
    broken = f"the backward pass is off by {percent(worst, 0)} of the largest entry"
    return at_most("gradient", worst, SLOPE, words, broken, example)


def ask_precision(bench):
    """Tokens at ever larger positions look at each other and back at the first ones, in narrow dtypes."""
    width = min(16, bench.length)
    x = bench.tokens(width)
    dtypes = {"float32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16, "autocast to bf16": None}

    def window(start, dtype):
        """The outcome of tokens from `start` on, behind the first ones where a cache can hold those."""
        cache = KVCache() if bench.weighs else None
        if bench.weighs and start:
            bench.run(x, torch.arange(width), cache=cache, dtype=dtype)
        return bench.outcome(x, torch.arange(start, start + width), cache=cache, dtype=dtype).double()

    def off(name, start, right):
        """The largest error for each token of the window, [width]."""
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtypes[name] is None):
            out = window(start, dtypes[name] or torch.float32)
        return ((out - right) / right.abs().max().clamp(min=1)).abs().amax((0, 1, 3)).nan_to_num(math.inf)

    starts = [0, *(2**p for p in range(5, 40) if 2**p < bench.far - width), bench.far - width]
    first, worst, before = {}, dict.fromkeys(dtypes, 0.0), 0
    for start in starts:
        try:
            right = window(start, torch.float64)
        except SubjectError:  # a table's end
            if start == 0:
                raise
            break
        reached = start + width - 1
        for name in dtypes:
            error = off(name, start, right)
            worst[name] = max(worst[name], error.max().item())
            if name not in first and error.max() > WRONG:
                place = start
                for between in range(before + width, start, width):  # where, since the last window that was right?
                    closer = off(name, between, window(between, torch.float64))
                    if closer.max() > WRONG:
                        place, error = between, closer
                        break
                first[name] = place + int((error > WRONG).nonzero()[0])
        before = reached - width + 1
    errors = ", ".join(f"{name} {small(value)}" for name, value in worst.items())
    what = "a weight" if bench.weighs else "an output"
    words = f"worst error of {what} up to position {reached}: {errors}"
    if not first:
        return Finding("precision", "holds", None, words)
    example = ", ".join(f"{name} is first wrong at position {p}" for name, p in first.items())
    return Finding("precision", "fails", min(first.values()), words, example)


def ask_causality(bench):
    """Change the future, watch the past."""
    if not bench.causal:
        raise NotAsked("it is audited without a causal mask")
    size = min(12, bench.length)
    cut = size // 2
    x, positions = bench.tokens(size), torch.arange(size)
    changed = x.clone()
    changed[:, cut:] = -3 * changed[:, cut:].flip(1)  # other directions, other lengths
    moved = (bench.run(changed, positions)[0] - bench.run(x, positions)[0])[:, :cut].abs().amax((0, 2))
    number = moved.max().item()
    first = int((moved > 1e-9).nonzero()[0]) if number > 1e-9 else 0
    example = f"tokens from {cut} on change, and the output of token {first} moves by {small(moved[first].item())}"
    return at_most(
        "causality", number, 1e-9, "changing the future leaves the past as it was", "the past moves", example
    )


def ask_cache(bench):
    """Step by step and in chunks at their offsets, against all at once."""
    if not bench.causal:
        raise NotAsked("without a causal mask there is nothing to decode step by step")
    size = min(12, bench.length)
    x, positions = bench.tokens(size), torch.arange(size)
    whole = bench.run(x, positions)[0]
    worst, example = 0.0, ""
    for words, parts in (("one token at a time", [1] * size), ("in two chunks", [size // 3, size - size // 3])):
        cache, pieces = KVCache(), []
        for part, at in zip(x.split(parts, 1), positions.split(parts)):
            try:
                pieces.append(bench.run(part, at, cache=cache)[0])
            except SubjectError as error:
                if bench.exact.attend is None:
                    raise
                raise NotAsked(f"it takes no fewer queries than keys ({error_words(error)})") from None
        off = (torch.cat(pieces, 1) - whole).abs().amax((0, 2)).nan_to_num(math.inf)
        if off.max() > worst:
            worst = off.max().item()
            first = int((off > bench.tolerance).nonzero()[0]) if worst > bench.tolerance else 0
            example = f"{words}, token {first} is off by {small(off[first].item())}"
    words = f"token by token and in chunks it is the full pass to {small(worst)}"
    return at_most("cache", worst, bench.tolerance, words, f"decoding differs by {small(worst)}", example)


def ask_batch(bench):
    """Two sequences in one call, at shared positions and each at its own, against each in a call of its own."""
    size = min(8, bench.length // 2)
    x, near = 2 * bench.random(2, size, bench.head_dim * bench.num_heads), torch.arange(size)
    own = torch.stack((near, 2 * near + 1))  # with other gaps: what is relative can't see a shift
    worst, example = 0.0, ""
    for where, positions in (("both at the same positions", near), ("each at positions of its own", own)):
        together = bench.run(x, positions)[0]
        alone = torch.cat([bench.run(x[i : i + 1], row)[0] for i, row in enumerate(positions.expand(2, -1))])
        off = (together - alone).abs().amax(-1).nan_to_num(math.inf)
        if off.max() > worst:
            worst = off.max().item()
            row, token = worst_at(off)
            example = f"{where}, token {token} of row {row} is off by {small(worst)}"
    words = f"two rows in one call are each row alone, to {small(worst)}"
    return at_most("batch", worst, bench.tolerance, words, "a row in a batch is not the row alone", example)


def ask_weights(bench):
    """Rows of weights: no negative entry, nothing above 1 in sum, nothing on hidden keys."""
    size = bench.length
    x, positions = bench.tokens(size), torch.arange(size)
    _, weights = bench.run(x, positions)
    if weights is None:
        weights = bench.weights(*bench.random(2, 1, bench.num_heads, size, bench.head_dim), bench.gates(size))
    sums, lowest = weights.sum(-1), weights.min().item()
    hidden = weights.triu(1).abs().max().item() if bench.causal else 0.0
    highest = sums.max().item()
    if lowest < -1e-9 or hidden > 1e-9 or not highest <= 1 + bench.tolerance:
        place = worst_at(sums)
        example = f"query {place[2]}, head {place[1]}: its weights sum to {unlike(highest, 1.0, 2)[0]}"
        if hidden > 1e-9:
            _, _, i, j = worst_at(weights.triu(1).abs())
            example = f"query {i} gives key {j}, which it must not see, {decimals(hidden)}"
        elif lowest < -1e-9:
            sums_too = f"; {example}" if highest > 1 + bench.tolerance else ""
            example = f"a weight of {decimals(lowest)}{sums_too}"
        return Finding("weights", "fails", highest, "rows are no shares of one whole", example)
    return Finding(
        "weights", "holds", highest, f"rows sum to {decimals(sums.min().item(), 2)} at least, {highest:.2f} at most"
    )


def ask_distance(bench):
    """One query looks back at keys that all say what it says: what then differs between them is distance alone."""
    if bench.exact.axes is not None:
        raise NotAsked("it does not apply: with several axes, keys are not in one order from near to far")
    if bench.exact.places == ("embed",) and bench.exact.attend is None:
        raise NotAsked("learned projections decide what becomes of what it adds")
    size = bench.length
    same = bench.random(1, bench.num_heads, 1, bench.head_dim).expand(-1, -1, size, -1)
    gates = bench.gates(1)
    gates = None if gates is None else gates.expand(-1, -1, size, *gates.shape[3:])
    weights = bench.weights(same, same, gates)[0, :, -1].flip(-1)  # [H, T], by distance
    return judged_decay(weights) if bench.decays else told_distance(weights)


def heads_in_words(chosen):
    """Which heads are chosen; chosen: [H] bool."""
    heads = chosen.nonzero().flatten().tolist()
    return "every head" if chosen.all() else f"head{'s' * (len(heads) > 1)} {', '.join(map(str, heads))}"


def told_distance(weights):
    """The finding that says which quarter of the keys wins, head by head; weights [H, T], by distance."""
    quarter = weights.shape[1] // 4
    near, far = weights[:, :quarter].sum(-1), weights[:, -quarter:].sum(-1)
    lead = torch.where((near - far).abs() > 1e-6 * (near.abs() + far.abs()), near - far, 0.0)
    if not lead.any():
        return Finding("distance", "told", 0.0, "at equal content neither the nearest keys win nor the farthest")
    parts = []
    for end, wins in (("the nearest keys win", lead > 0), ("the farthest keys win", lead < 0), ("neither", lead == 0)):
        parts += [f"{end} in {heads_in_words(wins)}"] if wins.any() else []
    head = int(lead.abs().argmax())
    shares = f"head {head} gives the {quarter} nearest {decimals(near[head].item())}"
    shares += f", the {quarter} farthest {decimals(far[head].item())}"
    return Finding("distance", "told", lead.min().item(), f"at equal content {', '.join(parts)}; {shares}")


def judged_decay(weights):
    """The finding for a claimed decay; weights [H, T], by distance. A stick gives a token itself none: from 1 on."""
    before, after = weights[:, 1:-1], weights[:, 2:]
    gain = (after - before) - 1e-6 * before.abs()
    if gain.max() > 0:
        head, step = worst_at(gain)
        near, far = unlike(before[head, step].item(), after[head, step].item())
        example = f"head {head}: a key {step + 1} tokens away gets {near}, one {step + 2} away {far}"
        words = "at equal content a farther key gets more, although decay is claimed"
        return Finding("distance", "fails", gain.max().item(), words, example)
    fall = (weights[:, 1] - weights[:, -1]) / weights[:, 1]
    if not fall.min() > 1e-6:
        head = int(fall.argmin())
        words = "at equal content a head weighs all distances alike, although decay is claimed"
        example = f"head {head}: {decimals(weights[head, 1].item())} one token away and {weights.shape[1] - 1} away"
        return Finding("distance", "fails", fall.min().item(), words, example)
    words = "at equal content no key gets more than a nearer one, and the farthest gets less than the nearest"
    return Finding("distance", "holds", fall.min().item(), words)


def ask_finite(bench):
    """Windows past the trained length, up to eight times as far, and a last query that looks back at all keys."""
    width = min(16, bench.length)
    x = bench.tokens(width)

    def last_row(length):
        """The output of the last of `length` tokens; a window alone sees short distances only."""
        q, k = (
            bench.random(1, bench.num_heads, 1, bench.head_dim),
            bench.random(1, bench.num_heads, length, bench.head_dim),
        )
        at = bench.line(torch.arange(length))[None]
        try:
            return attention(
                q, k, k, bench.exact, pos_q=at[:, -1:], pos_k=at, causal=bench.causal, gates=bench.gates(length)
            )
        except Exception as error:
            raise SubjectError from error

    for factor in (1, 2, 4, 8):
        start = factor * bench.length - (width if factor > 1 else 0)
        end = start + width - 1
        trials = [(f"position {end}", f"positions {start} to {end}", bench.outcome, (x, torch.arange(start, end + 1)))]
        if bench.exact.attend is None:  # a whole attention function may want as many queries as keys
            far = f"distance {factor * bench.length - 1}"
            trials.append((far, f"a query that sees keys up to {far}", last_row, (factor * bench.length,)))
        for limit, where, compute, given in trials:
            try:
                out = compute(*given)
            except SubjectError as error:
                named = any(
                    bench.length <= int(n) <= 8 * bench.length + 16 for n in re.findall(r"\d+", error_words(error))
                )
                words = f"it refuses {limit}"
                if named:
                    return Finding("finite", "holds", start, f"{words} and names the limit: {error_words(error)}")
                return Finding("finite", "fails", start, f"{words} in words that name no limit", error_words(error))
            if not out.isfinite().all():
                return Finding("finite", "fails", start, "it is not finite", where)
    return Finding("finite", "holds", None, f"finite up to position {8 * bench.length - 1}")


def unseen_angles(bench):
    """(lanes, words, example) where lanes stand past the trained length as they never stood within it, or None."""
    near, far = torch.arange(bench.length), torch.arange(bench.length, 8 * bench.length)
    steps = far[:: max(1, len(far) // 64)]
    trained, new = (bench.matrices(p)[0].permute(2, 0, 1) for p in (near, steps))  # [D, T, D], a lane each
    gaps = torch.cdist(new, trained).amin(-1).nan_to_num(math.inf)  # [D, steps]
    lanes = (gaps.amax(-1) > NEW).nonzero().flatten().tolist()
    if not lanes:
        return None
    away = int(steps[int(gaps[lanes[-1]].argmax())])
    words = f"{len(lanes)} of {bench.head_dim} lanes are turned by angles not trained on"
    return len(lanes), words, f"lane {lanes[-1]}, {away} tokens away"


def additions(bench):
    r"""{place: (values within, values beyond the trained length)}, each [rows, T], of a bias and of an embedding."""
    encoding, tables = bench.exact, {}

    def biases(length):
        """Of one query at every distance, [H, length], its own as zero: a softmax sees differences alone."""
        q, k = bench.random(2, 1, bench.num_heads, 1, bench.head_dim)
        at = bench.at(torch.tensor([length - 1]), torch.arange(length))
        b = encoding.bias(q, k.expand(-1, -1, length, -1), at)
        b = torch.broadcast_to(b, (1, bench.num_heads, 1, length))[0, :, 0].flip(-1).double()
        return b - b[:, :1]

    def vectors(start, end):
        """What is added at positions, [C, T]."""
        x = torch.zeros(1, end - start, bench.head_dim * bench.num_heads, dtype=torch.float64)
        return encoding.embed(x, torch.arange(start, end)[None])[0].T

    try:
        if encoding.bias is not None:
            tables["bias"] = biases(bench.length), biases(8 * bench.length)[:, bench.length :]
        if encoding.embed is not None:
            tables["embed"] = vectors(0, bench.length), vectors(bench.length, 8 * bench.length)
    except Exception as error:
        raise SubjectError from error
    return tables


def unseen_values(bench, place, trained, new):
    """(rows, words, example) where rows of a bias or an embedding leave the range of training, or None."""
    row, where = ("head", "distance") if place == "bias" else ("lane", "position")
    low, high = trained.amin(-1, keepdim=True), trained.amax(-1, keepdim=True)
    beyond = torch.maximum(low - new, new - high)
    beyond = beyond if place == "bias" else beyond / trained.abs().max()
    familiar = (new == low) | (new == high)  # an infinite penalty, too, may be what training showed
    beyond = torch.where(familiar, 0.0, beyond).nan_to_num(math.inf, posinf=math.inf)
    rows = int((beyond.amax(-1) > NEW).sum())
    if not rows:
        return None
    r, d = worst_at(beyond)
    span = f"trained on {decimals(low[r].item(), 2)} to {decimals(high[r].item(), 2)}"
    example = f"{row} {r} at {where} {d + bench.length}: {decimals(new[r, d].item(), 2)}, {span}"
    return rows, f"{rows} of {len(new)} {row}s leave the range of training", example


def unseen_parameters(bench, trained, new):
    """(how many, words, "") of the learned numbers that only values past the trained length read, or None."""
    parameters = [p for p in bench.exact.parameters() if p.requires_grad]
    if not parameters or not new.requires_grad:
        return None
    near, far = (torch.autograd.grad(x.square().sum(), parameters, allow_unused=True) for x in (trained, new))
    count = 0
    for a, b in zip(near, far):
        if a is not None and b is not None:
            least = 1e-9 * b.abs().max()  # what cancels leaves noise
            count += int(((b.abs() > least) & (a.abs() <= least)).sum())
    return (count, f"{count} learned numbers are read that training never reached", "") if count else None


def ask_unseen(bench):
    """What a model meets past the trained length that no weight was trained on: values, and learned numbers."""
    if bench.exact.axes is not None:
        raise NotAsked("it does not apply: with several axes, training reaches a box of offsets and not one length")
    turns = bench.exact.rotate is not None
    news = [unseen_angles(bench)] if turns else []
    tables = additions(bench)
    news += [unseen_values(bench, place, *values) for place, values in tables.items()]
    news += [unseen_parameters(bench, *values) for values in tables.values()]
    kinds = ["turns"] * turns + [{"bias": "biases", "embed": "vectors"}[place] for place in tables]
    if not kinds:
        raise NotAsked("at its place no turn, bias or vector can be read")
    news = [new for new in news if new is not None]
    if not news:
        return Finding("unseen", "holds", 0, f"its {' and '.join(kinds)} stay in the range of training")
    number, words, example = zip(*news)
    return Finding("unseen", "fails", number[0], "; ".join(words), "; ".join(filter(None, example)))


def ask_same(pair, name):
    """Weights, or outputs where those agree, of two benches: at home, in a short row, far apart and far out."""
    bench, home = pair[0], torch.arange(pair[0].length)
    worst, reached, example, heads = 0.0, 0, "", torch.zeros(bench.num_heads, dtype=torch.bool)
    for at in (home, home[-5:], torch.arange(math.isqrt(8 * bench.length)) ** 2, torch.arange(8) + bench.far):
        try:
            outputs, weights = zip(*(one.run(bench.tokens(len(at)), at) for one in pair))
        except SubjectError:  # a table's end
            if at is home:
                raise
            continue
        equal = any(w is None for w in weights) or bool((weights[0] - weights[1]).abs().max() <= bench.tolerance)
        mine, theirs = (x.reshape(-1, *x.shape[-2:]) for x in (outputs if equal else weights))  # [H or 1, Tq, Tk or C]
        reached, change = int(at[-1]), (mine - theirs).abs().nan_to_num(math.inf)
        worst, wrong = max(worst, change.max().item()), change > bench.tolerance
        heads |= wrong.flatten(1).any(1) & (not equal)
        if wrong.any() and not example:
            i, j = wrong.any(0).nonzero()[0].tolist()
            h, places = int(wrong[:, i, j].nonzero()[0]), bench.line(at).tolist()
            where = f"token at {places[i]}" if equal else f"query at {places[i]}, key at {places[j]}, head {h}"
            example = "first {}: {}, not {}".format(where, *unlike(mine[h, i, j].item(), theirs[h, i, j].item(), 4))
    what, where = ("a weight", f", in {heads_in_words(heads)}") if heads.any() else ("an output", "")
    broken = f"{what} is not that of {name}, by up to {small(worst)}{where}"
    words = f"weights and outputs are those of {name}, to {small(worst)}, up to position {reached}"
    return at_most("same", worst, bench.tolerance, words, broken, example)


ASK = {
    "shape": ask_shape,
    "relative": ask_relative,
    "norm": ask_norm,
    "layout": ask_layout,
    "gradient": ask_gradient,
    "precision": ask_precision,
    "causality": ask_causality,
    "cache": ask_cache,
    "batch": ask_batch,
    "weights": ask_weights,
    "distance": ask_distance,
    "finite": ask_finite,
    "unseen": ask_unseen,
}


# --------------------------------------------------------------------------------------------------------------- cost


class Counted(TorchFunctionMode):
    """Counts the numbers that torch's functions write; views write nothing."""

    def __init__(self):
        super().__init__()
        self.numbers = 0

    def __torch_function__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        if isinstance(out, torch.Tensor):
            given = [x for x in (*args, *(kwargs or {}).values()) if isinstance(x, torch.Tensor)]
            if out.untyped_storage().data_ptr() not in {x.untyped_storage().data_ptr() for x in given}:
                self.numbers += out.numel()
        return out


def cost_of(bench, length=128):
    """Learned numbers, and numbers written by one forward pass beside those of attention without position."""
    length = min(length, bench.length)
    parameters = sum(p.numel() for p in bench.encoding.parameters())
    x, counts = bench.tokens(length), []
    for one in (Bench(Encoding(), *bench.settings), bench):
        one.layer(torch.float64)
        with Counted() as counted, torch.no_grad():
            one.run(x, torch.arange(length))
        counts.append(counted.numbers)
    ratio = counts[1] / counts[0]
    words = f"{parameters:,} learned numbers; writes {ratio:.2f} times as many numbers as attention without position"
    words += f" ({length} tokens; counted, not timed)"
    return {"parameters": parameters, "written_ratio": round(ratio, 3), "length": length, "words": words}


# -------------------------------------------------------------------------------------------------------------- audit


def audit(
    subject: Encoding | Callable,
    place: str | None = None,
    *,
    head_dim: int = 16,
    num_heads: int = 4,
    trained_length: int = 64,
    causal: bool = True,
    far: int = 4096,
    tolerance: float = 1e-4,
    decays: bool = False,
    questions: Iterable[str] | None = None,
    like: str | Encoding | Callable | None = None,
    name: str | None = None,
    seed: int = 0,
) -> Report:
    r"""Ask an encoding thirteen questions and report the answers, each with the example that shows a failure.

    Arguments:
        subject: an `Encoding`, or a callable as you have it at hand, with its `place`. A module is copied and cast
            along; one that a function merely refers to is used as it is. An `Encoding` with n axes is asked at places
            along a crooked line; "distance" and "unseen" do not apply to it.
        place: "embed": f(x [B, T, C], positions [T]) -> x, with C = num_heads head_dim;
            "rotate": f(x [B, H, T, D], positions [T]) -> x, called for queries and for keys;
            "bias": f(pos_q [Tq], pos_k [Tk]) -> what broadcasts to [H, Tq, Tk], added to the scaled logits;
            "weigh": f(scores [B, H, Tq, Tk], at) -> weights, with at.visible, at.pos_q and at.pos_k;
            "attention": f(q, k, v, positions [Tk], causal) -> [B, H, Tq, Dv], queries at the last Tq positions.
            None for an `Encoding`; what reads q, k and positions together goes in as Encoding(rotate=f).
        head_dim, num_heads: D and H of the vectors that it is asked about.
        trained_length: L, in tokens: "relative" is asked inside it, "finite" and "unseen" beyond it, to 8 L.
        causal: False audits without a causal mask; "causality" and "cache" are then not asked.
        far: the last position, in tokens, of "precision"; "relative" is asked of a window across it, too.
        tolerance: the largest change that counts as none. It lets pass what computes in float32 inside.
        decays: True where distance is claimed to be a penalty: "distance" then judges that claim. Otherwise it tells
            which keys win, as many methods learn it.
        questions: names from `QUESTIONS`, default all of them.
        like: asks "same" too: what the subject should compute, at home and farther out, in float64. A name from
            `posenc.METHODS` is made with the audit's sizes and the subject's learned numbers (both are moved a little,
            as some start at zero); an `Encoding`, or a callable of the same place, is used with its own.
        name: what the report calls the subject.
        seed: of the random vectors; the same seed gives the same report.
    Returns: a `Report`.
    Errors: TypeError or ValueError naming the argument. What the subject raises is a finding, not an error.
    Chapter: Auditing a proposal.
    """
    encoding = as_encoding(subject, place)
    head_dim = check_int("head_dim", head_dim, minimum=2, even=True)
    num_heads = check_int("num_heads", num_heads)
    trained_length = check_int("trained_length", trained_length, minimum=8)
    check_bool("causal", causal)
    far = check_int("far", far, minimum=16)
    tolerance = check_number("tolerance", tolerance, above=0)
    check_bool("decays", decays)
    seed = check_int("seed", seed, minimum=0)
    if not causal and encoding.causal_only:
        raise ValueError(f"causal=False: {encoding.causal_only}")
    if not isinstance(questions, list | tuple | set | None):
        raise TypeError(f"questions={shown(questions)} must be a list of names, or None for all")
    questions = tuple(QUESTIONS) if questions is None else tuple(questions)
    for question in questions:
        check_choice("questions", question, tuple(QUESTIONS))
    name = name or getattr(subject, "__name__", None) or type(subject).__name__

    bench = Bench(encoding, head_dim, num_heads, trained_length, causal, tolerance, far, seed, decays)
    pair, ask = None if like is None else pair_of(bench, like, place), dict(ASK)
    ask["same"] = lambda _: ask_same(pair, like if isinstance(like, str) else "the other")
    runs = ask_shape(bench)
    findings = []
    for question in questions if like is None else (*questions, "same"):
        if question != "shape" and runs.verdict == "fails":
            findings.append(Finding(question, "not asked", None, "it does not run"))
            continue
        try:
            findings.append(runs if question == "shape" else ask[question](bench))
        except NotAsked as reason:
            findings.append(Finding(question, "not asked", None, str(reason)))
        except SubjectError as error:
            if question == "unseen":  # "finite" tells
                findings.append(Finding(question, "not asked", None, f"it refuses positions past {trained_length - 1}"))
            else:
                findings.append(Finding(question, "fails", None, "it raises an error", error_words(error)))
    cost = {"parameters": 0, "words": "not counted: it does not run"}
    if runs.verdict == "holds":
        try:
            cost = cost_of(bench)
        except SubjectError as error:
            cost["words"] = f"not counted: it raises an error ({error_words(error)})"
    places = encoding.places + (("attention",) if encoding.attend is not None else ())
    settings = {
        "head_dim": head_dim,
        "num_heads": num_heads,
        "trained_length": trained_length,
        "causal": causal,
        "far": far,
        "tolerance": tolerance,
        "decays": decays,
        "seed": seed,
    }
    return Report(name, places, tuple(findings), cost, settings)
