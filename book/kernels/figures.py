r"""Explorables of the kernels chapter: a softmax over blocks of keys, and tiles under a causal mask."""

import itertools
import math

import torch

from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, held, label, level, line, path, upright

KEYS = 24
BLOCKS = (2, 3, 4, 6)  # how many; the keys are cut into as many alike
HATCHED = dict(shape="/", solidity=0.35)
PEAK = 3.0  # the largest score stands this high; the others are noise of spread 1


# ------------------------------------------------------------------------------------------------------ online softmax


def online_update(m, l, acc, scores, values):
    r"""Take one block of keys into a softmax that is not yet divided.

    m, l, acc: 0-d, the running maximum, the sum of exp(score - m), the sum of exp(score - m) * value; they start at
    -inf, 0, 0. scores, values: [block]. Returns the new m, l, acc.
    Paper: arXiv 2205.14135, algorithm 1.
    """
    new = torch.maximum(m, scores.max())
    old = (m - new).exp()  # what all earlier terms shrink by
    weights = (scores - new).exp()
    return new, old * l + weights.sum(), old * acc + weights @ values


def online_row(peak):
    """Seeded scores and values of the keys, [KEYS] each; the largest score stands at key `peak`."""
    generator = torch.Generator().manual_seed(3)
    noise = torch.randn(KEYS - 1, generator=generator, dtype=torch.float64)
    values = torch.rand(KEYS, generator=generator, dtype=torch.float64) * 2 - 1
    return torch.cat([noise[:peak], torch.tensor([PEAK], dtype=torch.float64), noise[peak:]]), values


def _finite(number):
    number = float(number)
    return number if math.isfinite(number) else math.nan


def _or_gap(numbers):
    """The numbers, or one gap where there are none: a trace without points would leave the legend."""
    return [_finite(number) for number in numbers] or [math.nan]


def _online_softmax(blocks, step, peak, *, update=online_update):
    block = KEYS // blocks
    scores, values = online_row(peak)
    target = float(torch.softmax(scores, -1) @ values)
    done = min(step, blocks)
    seen, before = done * block, max(done - 1, 0) * block
    zero = torch.zeros((), dtype=torch.float64)
    states = [(zero - math.inf, zero, zero)]
    for a in range(0, seen, block):
        states.append(update(*states[-1], scores[a : a + block], values[a : a + block]))
    m, l, acc = states[-1]
    was = states[max(done - 1, 0)][0]
    factor = _finite((was - m).exp()) if done > 1 else math.nan
    keys = list(range(KEYS))
    old, new, later = slice(0, before), slice(before, seen), slice(seen, KEYS)

    def columns(name, at, y, color, word, lower=(), **look):
        words = dict(hover=f"key %{{x}}: {word} %{{y:.2f}}", width=0.84, marker=dict(color=color, **look))
        return bars(name, _or_gap(keys[at]), _or_gap(y[at]), **words, **dict(lower))

    terms = (scores - m).exp() if done else scores
    ends = [n * block - 0.5 for n in range(1, done + 1)]
    said = ("", "exp(s − m), nothing to rescale", f"exp(s − m), earlier ones × {factor:.3f}")[min(done, 2)]
    unnamed, middle, lowest = dict(showlegend=False), dict(xaxis="x", yaxis="y2"), dict(xaxis="x", yaxis="y3")
    stairs = _or_gap(x for n in range(done) for x in (n * block - 0.5, (n + 1) * block - 0.5))
    largest, so_far = _or_gap(s[0] for s in states[1:] for _ in range(2)), _or_gap(s[2] / s[1] for s in states[1:])
    before_it, words = _or_gap((scores[old] - was).exp()), "key %{x}: term %{y:.2f} before"
    drawn = dict(marker=dict(size=8), **lowest, **unnamed)
    every, whole = [-0.7, KEYS - 0.3], "softmax over all keys: %{y:.3f}"
    data = [
        columns("earlier", old, scores, "blue", "score", unnamed),
        columns("this block", new, scores, "orange", "score", pattern=HATCHED),
        columns("to come", later, scores, "gray", "score", unnamed, opacity=0.3),
        line("maximum m", stairs, largest, "ink", 2, "dash", hover="the largest score so far: %{y:.2f}"),
        upright("read so far", seen - 0.5, -2.6, 5, "ink", 1),
        held("the largest", peak, PEAK, symbol="triangle-up", size=11),
        columns("terms of earlier blocks", old, terms, "blue", "term", middle | unnamed),
        columns("terms of this block", new, terms, "orange", "term", middle | unnamed, pattern=HATCHED),
        dots("rescaled from", _or_gap(keys[old]), before_it, "purple", 8, "diamond-open", hover=words, **middle),
        label("in words", (KEYS - 1) / 2, 1.28, said, "ink", "middle center", yaxis="y2"),
        path("output so far", _or_gap(ends), so_far, "orange", 2, hover="output so far: %{y:.3f}", **drawn),
        line("whole softmax", every, [target, target], "green", 2, "dot", hover=whole, **lowest),
    ]
    layout = dict(
        height=500,
        barmode="overlay",
        xaxis=axis(-0.7, KEYS - 0.3, "key j", type="linear", anchor="y3", tickvals=keys[::4], zeroline=False),
        yaxis=axis(-2.6, 5, "score s", domain=[0.68, 1], tickvals=[-2, 0, 2, 4]),
        yaxis2=axis(0, 1.45, "term", domain=[0.34, 0.62], tickvals=[0, 0.5, 1]),
        yaxis3=axis(-0.5, 0.5, "output", domain=[0, 0.28], tickvals=[-0.4, 0, 0.4]),
    )
    output = _finite(acc / l) if done else math.nan
    numbers = {"m": _finite(m), "l": _finite(l), "output": output, "target": target}
    return dict(data=data, layout=layout), numbers


online_softmax = explorable(
    _online_softmax,
    title="The softmax, one block of keys at a time",
    alt="Three panels over the same keys. Top: the scores, with the blocks done, the block just read (hatched) and the "
    "keys still to come, and a dashed staircase, the largest score so far. Middle: the term of each key relative "
    "to that maximum; diamonds show where earlier terms stood before this block, and where the maximum rose all "
    "of them shrink by one factor. Bottom: the output so far, which ends on the dotted line of the whole softmax "
    "for every block size. The line after the last key read can be dragged, and so can the largest score.",
    readout="m {m:.2f}, l {l:.2f} · output {output:.3f} · whole softmax {target:.3f}",
    handles={"read so far": "step", "the largest": "peak"},
    blocks=slider(BLOCKS, label="blocks", default=4, format=lambda blocks: f"{blocks}×{KEYS // blocks}"),
    step=slider(range(max(BLOCKS) + 1), label="blocks done", default=3, play=True, at_most="blocks"),
    peak=slider(range(1, KEYS, 4), label="largest score at key"),
)


# ---------------------------------------------------------------------------------------------------- causal block map

QUERIES, LENGTHS, TILE = (1, 32, 64, 100, 128), (128, 150, 192), (16, 32, 64)
SKIPPED, WHOLE, MASKED = "skipped", "no mask", "with mask"


def tile_kind(query, key, block_q, block_k, queries, keys):
    r"""What a causal kernel does with the tile whose first entry is (query, key): SKIPPED, WHOLE or MASKED.

    Query i sees keys 0 to i + keys - queries. A tile of which no query sees a key is skipped. One of which its first
    query sees all keys needs no mask: the others see more. Rows after the last query are computed and never stored.
    """
    first_own, last_own = (min(i, queries - 1) + keys - queries for i in (query, query + block_q - 1))
    if key > last_own:
        return SKIPPED
    return WHOLE if key + block_k - 1 <= first_own else MASKED


def _causal_blocks(queries, keys, block_q, block_k, *, kind=tile_kind):
    found = {SKIPPED: [], WHOLE: [], MASKED: []}
    for query, key in itertools.product(range(0, queries, block_q), range(0, keys, block_k)):
        found[kind(query, key, block_q, block_k, queries, keys)].append((query, key))

    def tiles(name, color, edge="#ffffff", **look):
        starts = found[name]
        y, base = _or_gap(query + block_q / 2 for query, _ in starts), _or_gap(key for _, key in starts)
        lying = dict(orientation="h", base=base, width=block_q, hover=f"a tile: {name}")
        marker = dict(line=dict(color=edge, width=1), **look)
        return bars(name, _or_gap(block_k for _ in starts), y, color, marker=marker, **lying)

    data = [
        tiles(SKIPPED, "rgba(107, 114, 128, 0.1)", COLORS["gray"]),
        tiles(WHOLE, COLORS["blue"]),
        tiles(MASKED, COLORS["orange"], COLORS["orange"], pattern=HATCHED),
        line("the scores", [0, keys, keys, 0, 0], [0, 0, queries, queries, 0], "ink", 2, showlegend=False),
        level("last query", queries, 0, keys, "ink", 4),
        held("a tile's corner", block_k, block_q, symbol="square", size=11),
        line("last key seen", [keys - queries, keys], [0, queries], "ink", 3, "dot"),
    ]
    layout = dict(
        height=480,
        barmode="overlay",
        xaxis=axis(-2, keys + 2, "key j", type="linear", tickvals=list(range(0, 193, 32))),
        # the grip on the last query hangs over no number below
        yaxis=axis(max(QUERIES) + 8, -2, "query i", type="linear", tickvals=list(range(0, 129, 32))),
    )
    count = {name: len(places) for name, places in found.items()}
    computed = (count[WHOLE] + count[MASKED]) * block_q * block_k
    visible = sum(query + 1 + keys - queries for query in range(queries))
    shares = {"saved": count[SKIPPED] / sum(count.values()), "wasted": 1 - visible / computed if computed else math.nan}
    counts = {"skipped": count[SKIPPED], "whole": count[WHOLE], "masked": count[MASKED]}
    return dict(data=data, layout=layout), counts | shares


causal_blocks = explorable(
    _causal_blocks,
    title="Which tiles a causal kernel computes",
    alt="The matrix of scores in a frame, a row for each query and a column for each key, cut into tiles, which reach "
    "beyond the frame where they do not divide it. A dotted diagonal that ends in the bottom right corner marks "
    "the last key each query sees. Tiles to its right are empty: skipped. Tiles to its left are solid blue: "
    "computed without a mask. Tiles that it cuts are hatched orange: computed with the mask. Smaller tiles follow "
    "the diagonal more closely. The corner of the first tile and the edge after the last query can be dragged.",
    readout="{skipped:d} skipped, {whole:d} unmasked, {masked:d} masked · {saved:.0%} saved · {wasted:.0%} wasted",
    handles={"a tile's corner": ("block_k", "block_q"), "last query": "queries"},
    queries=slider(QUERIES, label="last queries", default=128),
    keys=slider(LENGTHS, label="keys", default=128),
    block_q=slider(TILE, label="queries in a tile", default=32),
    block_k=slider(TILE, label="keys in a tile", default=32),
)
