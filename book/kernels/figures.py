r"""Explorables of the kernels chapter: a softmax over blocks of keys, and tiles under a causal mask."""

import itertools
import math

import torch

from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, level, line, path

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
    m, l, _ = torch.stack(states).T
    r = (m[:-1] - m[1:]).exp()  # in each block, what all earlier terms shrink by
    old, new = r * l[:-1], l[1:] - r * l[:-1]
    middle = torch.arange(0, KEYS, BLOCK) + (BLOCK - 1) / 2
    stairs = torch.stack([middle - BLOCK / 2, middle + BLOCK / 2], 1).flatten()
    parts, half = [l[1] / 2, old[2] / 2], 1.5
    between = (middle[1:] - BLOCK / 2).tolist()
    shrunk = [f"<b>× {x:.2f}</b>" if x < 0.995 else "× 1" for x in r[1:].tolist()]
    colors = ["red" if x < 0.995 else "gray" for x in r[1:].tolist()]
    hands = [n for x in between for n in (x - BLOCK / 2 + half, x + BLOCK / 2 - half, math.nan)]
    falls = [n for pair in zip(l[1:-1].tolist(), old[1:].tolist()) for n in (*pair, math.nan)]
    head = dict(symbol="arrow", angleref="previous", size=[0, 15, 0] * 3, color="ink", opacity=1)
    x = [x + side for x in middle.tolist() for side in (-half, -half, half, half, math.nan)]
    frames = [y for top in l[1:].tolist() for y in (0, top, top, 0, math.nan)]
    below = dict(width=2 * half, panel=2)
    data = [
        bars("scores", list(range(KEYS)), scores, "sky", width=0.8, hover="key %{x}: score %{y:.2f}"),
        line("maximum m", stairs, m[1:].repeat_interleave(2), "ink", 3, "dash"),
        label("its name", KEYS - 0.4, -4, "– – largest so far", "ink", "middle left", 14),
        held("the large score", peak, size, "orange"),
        bars("earlier blocks", middle, old, "blue", hover="left of earlier terms: %{y:.2f}", **below),
        bars("this block", middle, new, "orange", base=old, marker=dict(pattern=HATCHED), **below),
        label("parts", middle[::2], parts, ["new", "kept"], "ink", "middle center", 14, True, panel=2),
        line("sum so far", x, frames, "ink", 2, panel=2),
        label("sums", middle, l[1:] + 0.1, [f"{x:.1f}" for x in l[1:].tolist()], "ink", size=14, panel=2),
        path("how it shrinks", hands, falls, "ink", 2.5, marker=head, panel=2),
        label("factors", between, [8.6] * 3, shrunk, colors, "middle center", 18, panel=2),
    ]
    blocks = dict(tickvals=middle, ticktext=[f"{a}–{a + BLOCK - 1}" for a in range(0, KEYS, BLOCK)], showgrid=False)
    layout = dict(height=430, showlegend=False, barmode="overlay", margin=dict(t=12, l=12, r=12)) | dict(
        xaxis=axis(-1, KEYS, anchor="y", showticklabels=False, zeroline=False)
        | dict(showgrid=True, tickvals=[n - 0.5 for n in range(BLOCK, KEYS, BLOCK)]),
        xaxis2=axis(-1, KEYS, "keys of a block", anchor="y2", zeroline=False, tickangle=0, **blocks),
        yaxis=axis(-4.8, 4.6, domain=[0.66, 1], tickvals=[]),
        yaxis2=axis(0, 9.4, domain=[0, 0.62], showgrid=False, tickvals=[]),
    )
    return dict(data=data, layout=layout)


online_softmax = explorable(
    _online_softmax,
    title="The softmax, one block of keys at a time",
    alt="Above, the scores of twenty-four keys as bars, one of them large, and a dashed staircase over four blocks, "
    "the largest score so far. Below, a column for each block, the sum so far: what is left of earlier terms, and this "
    "block's terms hatched on top. An arrow leads from each column to what is left of it in the next, under the factor "
    "by which it shrinks: less than one where the staircase rises, else one. Drag the large score to another block, or "
    "up and down, and the factors change.",
    see="Drag the large score to another block: which columns shrink?",
    handles={"the large score": ("peak", "size")},
    peak=slider(range(KEYS), label="large score at key", default=20),
    size=slider([n / 2 for n in range(9)], label="its size", default=3),
)


def _or_gap(numbers):
    """The numbers, or one gap where there are none: a trace without points would leave the legend."""
    return list(numbers) or [math.nan]


# ---------------------------------------------------------------------------------------------------- causal block map

LENGTH, QUERIES, TILE = 128, (128, 64, 32, 1), (8, 16, 32, 64)
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


def _causal_blocks(tile, queries, *, kind=tile_kind):
    def sorted_into(size):
        found = {SKIPPED: [], WHOLE: [], MASKED: []}
        for at in itertools.product(range(0, queries, size), range(0, LENGTH, size)):
            found[kind(*at, size, size, queries, LENGTH)].append(at)
        return found

    def wasted(size):
        """Share of the computed entries that no query sees, and their outline."""
        found, x, y = sorted_into(size), [math.nan], [math.nan]
        for query, key in found[MASKED] + [at for at in found[WHOLE] if at[0] + size > queries]:
            rows = torch.arange(query, min(query + size, queries) + 1)
            sees = (rows + LENGTH - queries).clamp(key, key + size).tolist()
            beyond = [key, key] if query + size > queries else []
            x += [*sees, *beyond, key + size, key + size, sees[0], math.nan]
            y += [*rows.tolist(), *[queries, query + size][: len(beyond)], query + size, query, query, math.nan]
        computed = (len(found[WHOLE]) + len(found[MASKED])) * size**2
        visible = sum(query + 1 + LENGTH - queries for query in range(queries))
        return 1 - visible / computed if computed else math.nan, x, y

    def tiles(name, color, edge, **look):
        starts = sorted_into(tile)[name]
        y, base = _or_gap(query + tile / 2 for query, _ in starts), _or_gap(key for _, key in starts)
        lying = dict(orientation="h", base=base, width=tile, hover=f"a tile: {name}")
        lying |= dict(marker=dict(line=dict(color=edge, width=1), **look))
        return bars(name, _or_gap(tile for _ in starts), y, color, **lying)

    (share, *at), (before, *ghost) = wasted(tile), wasted(32)
    dotted, blue = f"dotted, tiles<br>of 32: {before:.0%}", "blue: computed<br>light: with a mask"
    beside = dict(place="middle center", cliponaxis=False, panel=2)
    data = [
        tiles(SKIPPED, "rgba(107, 114, 128, 0.06)", "rgba(107, 114, 128, 0.4)"),
        tiles(WHOLE, COLORS["blue"], "#ffffff"),
        tiles(MASKED, COLORS["sky"], "#ffffff", opacity=0.55),
        line("wasted with tiles of 32", *ghost, "red", 1.5, "dot"),
        line("wasted", *at, "red", 1, fill="toself", fillcolor=COLORS["red"]),
        line("the scores", [0, LENGTH, LENGTH, 0, 0], [0, 0, queries, queries, 0], "ink", 2),
        level("last query", queries, 0, LENGTH, "ink", 4),
        held("a tile's corner", tile, tile, symbol="square", size=11),
        label("share", 0.1, 0.9, f"<b>{share:.0%}</b><br>wasted", "red", size=20, **beside),
        label("computed", 0.47, 0.53, blue, "blue", size=14, **beside),
        label("share before", 0.88, 0.12, dotted if tile != 32 else " ", "gray", size=14, **beside),
    ]
    phone = dict(xaxis=dict(domain=[0, 1]), yaxis=dict(domain=[0, 0.84]))  # the words in a row above, no column
    phone |= dict(xaxis2=axis(0, 1, domain=[0, 1]), yaxis2=axis(-99, 100, domain=[0.87, 1]))
    layout = dict(height=430, showlegend=False, barmode="overlay", margin=dict(t=12, l=44, r=16)) | dict(
        xaxis=axis(-2, LENGTH + 2, "key", type="linear", tickvals=[0, 64, 128], domain=[0, 0.78]),
        yaxis=axis(max(QUERIES) + 6, -2, "query", type="linear", tickvals=[0, 64, 128]),  # the grip hides no number
        yaxis2=axis(0, 1, anchor="x2", visible=False),
    )
    layout |= dict(xaxis2=axis(-99, 100, domain=[0.81, 1], anchor="y2", visible=False), meta=dict(phone=phone))
    return dict(data=data, layout=layout)


causal_blocks = explorable(
    _causal_blocks,
    title="Which tiles a causal kernel computes",
    alt="The scores in a frame, a row for each query, a column for each key, cut into tiles. Those that no query sees "
    "are empty; those that all their queries see are solid blue. In the others, on the diagonal or beyond the last "
    "query, what no query sees is red: wasted, with its share beside. A dotted outline and a number say it for "
    "tiles of thirty-two. The first tile's corner and the last query's edge can be dragged.",
    see="Drag the square, the first tile's corner: how much is wasted, in red?",
    handles={"a tile's corner": "tile", "last query": "queries"},
    tile=slider(TILE, label="tile's side", default=32),
    queries=slider(QUERIES, label="last queries", default=128),
)
