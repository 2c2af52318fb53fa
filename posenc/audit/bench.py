r"""The bench on which each question is asked, and what an answer is."""

import copy
from dataclasses import dataclass, field
from textwrap import fill
from typing import NamedTuple

import numpy
import torch

from ..attention import attention
from ..encoding import At, Encoding
from ..errors import check_choice, shown
from ..layer import SelfAttention, embed_input
from ..methods import METHODS, make, sizes
from .by_hand import HandAttention, SubjectError, as_encoding

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


WIDTH = 76  # of a printed report, in characters


class Finding(NamedTuple):
    r"""The answer to one of `QUESTIONS`, or to "same": is it what `like` is?

    verdict: "holds", "fails", "told" (a fact with nothing to be right or wrong about) or "not asked"; number: what was
    measured, or None; words: what that means, or the reason why it is not asked; example: where it fails, in words, or
    "". Of a whole model's faults, words are what a person sees; cause: the likely one; line: of its code, to look at.
    """

    name: str
    verdict: str
    number: float | None
    words: str
    example: str = ""
    cause: str = ""
    line: str = ""


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
        lines = [head]
        for name, verdict, _, words, example, *more in (*self.findings, Finding("", "cost", None, self.cost["words"])):
            words += f"; e.g. {example}" if example else ""
            lines.append(fill(words, WIDTH, initial_indent=f"{verdict:<10s}{name:<11s}", subsequent_indent=" " * 21))
            for before, said in zip(("likely: ", "look at "), more):
                if said:
                    lines.append(fill(before + said, WIDTH, initial_indent=" " * 21, subsequent_indent=" " * 23))
        return "\n".join(lines)


class Bench:
    r"""One attention layer with fixed random projections around the subject, so that all are asked the same."""

    def __init__(self, encoding, settings):
        self.encoding, self.settings, self.length = copy.deepcopy(encoding), settings, settings["trained_length"]
        for name, value in settings.items():
            setattr(self, name, value)
        self.weighs = not isinstance(encoding.attend, HandAttention)  # else there are outputs alone
        self.shows = "weight" if self.weighs and encoding.gather is None else "output"  # where a change would show
        self.copies = {}
        self.exact = self.layer(torch.float64).whole  # the encoding in float64

    def line(self, positions, shift=0):
        """Where tokens at positions [..., T] stand, then shifted; with n axes [..., T, n], on no straight line."""
        if self.exact.axes is None:
            return positions + shift
        return torch.stack([positions + 2 * a * positions % 5 + (a + 1) * shift for a in range(self.exact.axes)], -1)

    def generator(self):
        return torch.Generator().manual_seed(0)

    def layer(self, dtype):
        """The layer, and as `whole` the encoding, as `model.to(dtype)` would make it."""
        if dtype not in self.copies:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(0)
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
        """What a question compares: weights, and the output where these don't tell all."""
        out, weights = self.run(x, positions, **options)
        return out[:, None] if self.shows == "output" else weights

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
            torch.manual_seed(0)
            mine = copy.deepcopy(bench.encoding)
            other = make(like, **options | ({} if bench.causal else METHODS[like].both_ways))
            ours, theirs = ([p for p in one.parameters() if p.requires_grad] for one in (mine, other))
            if [p.shape for p in ours] != [p.shape for p in theirs]:
                raise ValueError(f"like={like!r} learns other numbers than subject: give an Encoding that holds those")
            for p, its in zip(ours, theirs):
                p.data += 0.1 * torch.randn_like(p)  # some start at zero, where nothing shows
                its.data = p.data.clone()
    if other.axes != mine.axes:
        raise ValueError(f"like={shown(like)} has axes={other.axes}, it must have those of subject, {mine.axes}")
    return [Bench(one, bench.settings) for one in (mine, other)]


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
    return tuple(map(int, numpy.unravel_index(index, shape)))


def worst_at(difference):
    """Index of the largest entry, as a tuple of ints."""
    return unravel(int(difference.argmax()), difference.shape)


def at_most(name, number, limit, words, broken, example):
    """A finding from one number that must not exceed a limit."""
    if number <= limit:  # False for nan
        return Finding(name, "holds", number, words)
    return Finding(name, "fails", number, broken, example)
