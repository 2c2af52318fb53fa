r"""Explorables of the kernels chapter: a softmax over blocks of keys, and tiles under a causal mask."""

import itertools
import math

import torch

from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, level, line, number

KEYS = 24
BLOCK = 6
HATCHED = dict(shape="/", solidity=0.35)


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


def online_row(peak, size=3.0):
    """Seeded scores and values of the keys, [KEYS] each; the key at `peak` scores `size` and has a value of its own."""
    generator = torch.Generator().manual_seed(3)
    noise = 1.5 * torch.randn(KEYS - 1, generator=generator, dtype=torch.float64)
    values = torch.rand(KEYS, generator=generator, dtype=torch.float64) * 2 - 1
    both = ((noise, torch.full((1,), size)), (values[1:], values[:1]))
    return [torch.cat([of[:peak], own, of[peak:]]) for of, own in both]


def _online_softmax(peak, size):
    scores, values = online_row(peak, size)
    states = [torch.tensor([-math.inf, 0, 0], dtype=torch.float64)]
    for s, v in zip(scores.split(BLOCK), values.split(BLOCK)):
        states.append(torch.stack(online_update(*states[-1], s, v)))
    m, l, acc = torch.stack(states).T
    r = (m[:-1] - m[1:]).exp()  # in each block, what all earlier terms shrink by
    was, old, new = l[:-1], r * l[:-1], l[1:] - r * l[:-1]
    middle = torch.arange(0, KEYS, BLOCK) + (BLOCK - 1) / 2
    stairs = torch.stack([middle - BLOCK / 2, middle + BLOCK / 2], 1).flatten()
    across = [x + side for x in middle.tolist() for side in (-2.6, -2.6, 2.6, 2.6, math.nan)]
    frames = [y for top in was.tolist() for y in (0, top, top, 0, math.nan)]
    shrunk = ["", *(f"× {x:.2f}" for x in r[1:].tolist())]
    outputs = [number(x) for x in (acc / l)[1:].tolist()]
    key, colors = ["⋯ earlier sum", "■ × r", "▨ this block"], ["purple", "blue", "orange"]
    beside = ["middle left", "middle center", "middle right"]
    below = dict(width=5.2, panel=2)
    data = [
        bars("scores", list(range(KEYS)), scores, "sky", width=0.84, hover="key %{x}: score %{y:.2f}"),
        line("maximum m", stairs, m[1:].repeat_interleave(2), "ink", 2, "dash"),
        label("its name", KEYS + 0.2, m[-1].item(), "m", "ink", "middle right"),
        held("the large score", peak, size, "orange"),
        label("names", [9.4, 11.6, 13.8], [9.4] * 3, key, colors, beside, panel=2),
        bars("earlier blocks", middle, old, "blue", hover="left of earlier terms: %{y:.2f}", **below),
        bars("this block", middle, new, "orange", base=old, marker=dict(pattern=HATCHED), **below),
        line("before rescaling", across, frames, "purple", 2.5, "dot", panel=2),
        label("factors", middle, [-0.9] * len(shrunk), shrunk, "purple", "middle center", panel=2),
        level("the sum at once", l[-1].item(), -0.7, KEYS - 0.3, "green", 2, "dash", panel=2),
        label("its name too", KEYS + 0.2, l[-1].item(), "l", "green", "middle right", panel=2),
        label("outputs", middle, [-2] * len(outputs), outputs, "ink", "middle center", panel=2),
    ]
    blocks = dict(tickvals=middle, ticktext=[f"{a}–{a + BLOCK - 1}" for a in range(0, KEYS, BLOCK)], showgrid=False)
    marks = dict(tickvals=[-2, -0.9, 0, 2, 4, 6, 8], ticktext=["output", "r", *"02468"])
    layout = dict(height=460, showlegend=False, barmode="overlay")
    layout |= dict(
        xaxis=axis(-0.7, KEYS + 1.4, anchor="y", showticklabels=False, zeroline=False)
        | dict(showgrid=True, tickvals=[n - 0.5 for n in range(BLOCK, KEYS, BLOCK)]),
        xaxis2=axis(-0.7, KEYS + 1.4, "keys, block by block", anchor="y2", zeroline=False, **blocks),
        yaxis=axis(-3.1, 4.4, "score s", domain=[0.66, 1], tickvals=[-2, 0, 2, 4]),
        yaxis2=axis(-2.5, 10.2, "sum l", domain=[0, 0.64], showgrid=False, **marks),
    )
    said = dict(m=m[-1].item(), l=l[-1].item(), output=outputs[-1], whole=number((scores.softmax(-1) @ values).item()))
    return dict(data=data, layout=layout), said


online_softmax = explorable(
    _online_softmax,
    title="The softmax, one block of keys at a time",
    alt="Above, the scores of twenty-four keys as bars, one of them large, and a dashed staircase over four blocks, "
    "the largest score so far. Below, the sum after each block: what is left of earlier terms, this block's terms "
    "hatched on top, and dotted the height of the earlier sum before. Where the staircase rises, it shrinks by a "
    "factor. Under each column stand that factor and the output so far. Drag the large score to "
    "another block, or up and down: the columns change, and the last always ends on the dashed level l, the sum of the "
    "whole softmax.",
    readout="at the end m {m:.2f}, l {l:.2f} · output {output} · whole softmax {whole}",
    handles={"the large score": ("peak", "size")},
    peak=slider(range(KEYS), label="large score at key", default=20),
    size=slider([n / 2 for n in range(9)], label="its size", default=3),
)


def _or_gap(numbers):
    """The numbers, or one gap where there are none: a trace without points would leave the legend."""
    return list(numbers) or [math.nan]


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
