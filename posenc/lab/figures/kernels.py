r"""Explorables of the kernels chapter: softmax and stick walking over blocks of keys, and tiles under a causal mask."""

import itertools
import math

import torch
from torch.nn.functional import logsigmoid

from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.figures.parts import axis, bars, dots, held, label, level, line, path, upright

KEYS = 24
BLOCKS = (2, 3, 4, 6)  # how many; the keys are cut into as many alike
HATCHED = dict(shape="/", solidity=0.35)
PEAK = 3.0  # the largest score stands this high; the others are noise of spread 1


# ------------------------------------------------------------------------------------------------------ online softmax


def online_update(m, l, acc, scores, values):  # noqa: E741, the letters of the paper
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


def _cut(blocks):
    return f"{blocks}×{KEYS // blocks}"


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
    m, l, acc = states[-1]  # noqa: E741
    was = states[max(done - 1, 0)][0]
    factor = _finite((was - m).exp()) if done > 1 else math.nan
    keys = list(range(KEYS))
    old, new, later = slice(0, before), slice(before, seen), slice(seen, KEYS)

    def columns(name, at, y, color, parts=(), **look):
        return bars(
            name,
            _or_gap(keys[at]),
            _or_gap(y[at]),
            hover=True,
            width=0.84,
            marker=dict(color=color, **look),
            **dict(parts),
        )

    score, term = ({"hovertemplate": f"key %{{x}}: {word} %{{y:.2f}}<extra></extra>"} for word in ("score", "term"))
    unnamed = dict(score, showlegend=False)
    terms = (scores - m).exp() if done else scores
    ends = [n * block - 0.5 for n in range(1, done + 1)]
    said = ("", "exp(s − m), nothing to rescale", f"exp(s − m), earlier ones × {factor:.3f}")[min(done, 2)]
    lower = dict(xaxis="x", yaxis="y2", showlegend=False)
    data = [
        columns("earlier", old, scores, "blue", unnamed),
        columns("this block", new, scores, "orange", score, pattern=HATCHED),
        columns("to come", later, scores, "gray", unnamed, opacity=0.3),
        line(
            "maximum m",
            _or_gap(x for n in range(done) for x in (n * block - 0.5, (n + 1) * block - 0.5)),
            _or_gap(s[0] for s in states[1:] for _ in range(2)),
            "ink",
            2,
            "dash",
            hover="the largest score so far: %{y:.2f}<extra></extra>",
        ),
        upright("read so far", seen - 0.5, -2.6, 5, "ink", 1),
        held("the largest", peak, PEAK, symbol="triangle-up", size=11),
        columns("terms of earlier blocks", old, terms, "blue", lower | term),
        columns("terms of this block", new, terms, "orange", lower | term, pattern=HATCHED),
        dots(
            "rescaled from",
            _or_gap(keys[old]),
            _or_gap((scores[old] - was).exp()),
            "purple",
            8,
            "diamond-open",
            hover="key %{x}: term %{y:.2f} before<extra></extra>",
            xaxis="x",
            yaxis="y2",
        ),
        label("in words", (KEYS - 1) / 2, 1.28, said, "ink", "middle center", yaxis="y2"),
        path(
            "output so far",
            _or_gap(ends),
            _or_gap(s[2] / s[1] for s in states[1:]),
            "orange",
            2,
            hover="output so far: %{y:.3f}<extra></extra>",
            marker=dict(size=8),
            xaxis="x",
            yaxis="y3",
            showlegend=False,
        ),
        line(
            "whole softmax",
            [-0.7, KEYS - 0.3],
            [target, target],
            "green",
            2,
            "dot",
            hover="softmax over all keys: %{y:.3f}<extra></extra>",
            xaxis="x",
            yaxis="y3",
        ),
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
    id="kernels.online_softmax",
    title="The softmax, one block of keys at a time",
    alt=(
        "Three panels over the same keys. Top: the scores, with the blocks done, the block just read (hatched) and the "
        "keys still to come, and a dashed staircase, the largest score so far. Middle: the term of each key relative "
        "to that maximum; diamonds show where earlier terms stood before this block, and where the maximum rose all "
        "of them shrink by one factor. Bottom: the output so far, which ends on the dotted line of the whole softmax "
        "for every block size. The line after the last key read can be dragged, and so can the largest score."
    ),
    readout="m {m:.2f}, l {l:.2f} · output {output:.3f} · whole softmax {target:.3f}",
    handles={"read so far": "step", "the largest": "peak"},
    blocks=slider(BLOCKS, label="blocks", default=4, format=_cut),
    step=slider(range(max(BLOCKS) + 1), label="blocks done", default=3, play=True, at_most="blocks"),
    peak=slider(range(1, KEYS, 4), label="largest score at key", default=13),
)


# ------------------------------------------------------------------------------------------------ stick across blocks

STICK_BLOCKS = (1, 2, 3, 6)  # how many
TRUE, ONE_REST, NOTHING = "true", "one a block", "none"


def break_block(logits, log_rest):
    r"""Break one block of keys off the stick: the order runs through the block, the rest is handed on as a logarithm.

    logits: [block] in the order of asking. log_rest: 0-d, the logarithm of the stick that reaches the block.
    Returns (pieces [block], log_rest after the block).
    """
    kept = logsigmoid(-logits)  # log(1 - beta)
    before = log_rest + kept.cumsum(0) - kept
    return (logsigmoid(logits) + before).exp(), log_rest + kept.sum()


def share_one_rest(logits, log_rest):
    r"""A mistake in circulation: every key of a block takes from the same rest, which shrinks once, by the pieces."""
    rest = log_rest.exp()
    pieces = logits.sigmoid() * rest
    return pieces, (rest * (1 - pieces.sum())).clamp(min=1e-6).log()


def forget_the_rest(logits, log_rest):
    r"""Another mistake: nothing is handed on, so each block breaks a whole stick."""
    pieces, _ = break_block(logits, torch.zeros_like(log_rest))
    return pieces, torch.zeros_like(log_rest)


RULES = {TRUE: break_block, ONE_REST: share_one_rest, NOTHING: forget_the_rest}


def walk(logits, block, rule):
    r"""Pieces of all keys, [keys], and the logarithm of the rest before each block and after the last."""
    log_rests, pieces = [torch.zeros((), dtype=logits.dtype)], []
    for part in logits.split(block):
        taken, log_rest = rule(part, log_rests[-1])
        pieces.append(taken)
        log_rests.append(log_rest)
    return torch.cat(pieces), torch.stack(log_rests)


def _stick_across_blocks(blocks, step, handed, beta, *, rule=break_block):
    block = KEYS // blocks
    logits = torch.full((KEYS,), math.log(beta / (1 - beta)), dtype=torch.float64)
    rules = {**RULES, TRUE: rule}
    pieces, log_rests = walk(logits, block, rules[handed])
    truth, true_rests = walk(logits, 1, break_block)
    done = min(step, blocks)
    seen, before = done * block, max(done - 1, 0) * block
    asked = list(range(KEYS))[::-1]  # the most recent key first
    old, new = slice(0, before), slice(before, seen)
    reaches = pieces / logits.sigmoid()  # the rest that each key takes its share of

    def tens(values):
        return _or_gap(torch.as_tensor(values).log10())

    def points(name, at, color, symbol, size):
        return dots(
            name,
            _or_gap(asked[at]),
            tens(pieces[at]),
            color,
            size,
            symbol,
            hover="key %{x}: piece %{text}<extra></extra>",
            text=[f"{piece:.3g}" for piece in pieces[at]] or [""],
        )

    def curve(name, x, y, color, dash="solid", **parts):
        look = dict(color=COLORS[color], width=2, dash=dash)
        return dict(line(name, x, y, line=look), **parts)

    def gauge(name, row, start, end, color, **look):
        return bars(
            name,
            [end - start],
            [row],
            hover=f"{name}: {end - start:.2f}<extra></extra>",
            panel=2,
            orientation="h",
            base=[start],
            width=0.7 - 0.2 * row,
            marker=dict(color=color, **look),
        )

    # What reaches each key, by blocks: only the truth runs on from one to the next.
    whole_walk = handed == TRUE
    rests = torch.cat((reaches[:seen], log_rests[done : done + 1].exp())).tolist()
    reached = [*asked[:seen], KEYS - 1 - seen]
    for n in range(0 if whole_walk else done, 0, -1):
        rests.insert(n * block, math.nan)
        reached.insert(n * block, math.nan)
    every = block + (not whole_walk)
    sizes = [0 if n % every else 11 for n in range(len(rests))]
    total, whole = float(pieces[:seen].sum()), float(truth[:seen].sum())
    data = [
        curve("true pieces", asked, tens(truth), "gray", "dot"),
        curve("true rest", asked, tens(true_rests[:-1].exp()), "gray", "dash"),
        points("pieces, earlier blocks", old, "blue", "circle", 6),
        points("pieces, this block", new, "orange", "square", 6),
        curve(
            "rest handed on",
            _or_gap(reached),
            tens(rests),
            "purple",
            mode="lines+markers",
            line=dict(color=COLORS["purple"], width=1),
            marker=dict(symbol="diamond", size=sizes, opacity=1, color=COLORS["purple"]),
            text=[f"{rest:.3g}" for rest in rests],
            hovertemplate="rest: %{text} of the stick<extra></extra>",
            hoverinfo=None,
        ),
        upright("read so far", KEYS - 0.5 - seen, LOWEST, 1.1, "ink", 2),
        label(
            "names",
            [-1.4, KEYS - 0.2] * 2,
            [3.3, 3.3, 2.2, 2.2],
            ["● earlier pieces", "■ this block’s pieces", "◆ rest handed on", "gray: what is true"],
            [color for color in ("blue", "orange", "purple", "gray")],
            ["middle right", "middle left"] * 2,
        ),
        gauge("true sum", 1, 0.0, whole, "gray"),
        gauge("within one stick", 0, 0.0, min(total, 1.0), "blue"),
        gauge("more than there is", 0, 1.0, max(total, 1.0), "red", pattern=HATCHED),
        upright("one stick", 1, -0.6, 1.6, "ink", 2, xaxis="x2", yaxis="y2"),
        label(
            "off the scale",
            0.98 * MOST_STICKS,
            1,
            f"{total:.1f} sticks: off the scale ▸" if total > MOST_STICKS else "",
            "red",
            "middle left",
            xaxis="x2",
            yaxis="y2",
        ),
    ]
    layout = dict(
        height=500,
        showlegend=False,
        margin=dict(t=8),
        meta=dict(phone=dict(yaxis=dict(domain=[0.4, 1]))),
        barmode="overlay",
        xaxis=axis(
            -1.6,
            KEYS,
            "key j, the query at the right",
            type="linear",
            anchor="y",
            tickvals=list(range(0, KEYS, 4)),
            showgrid=False,
            zeroline=False,
        ),
        yaxis=axis(
            LOWEST,
            3.9,
            "part of the stick",
            domain=[0.33, 1],
            tickvals=[0, -2, -4, -6],
            ticktext=["1", "0.01", "0.0001", "≤ 10⁻⁶"],
            zeroline=False,
        ),
        xaxis2=axis(0, MOST_STICKS, "sum of the weights, in sticks", anchor="y2", tickvals=list(range(8))),
        yaxis2=axis(
            -0.6, 1.6, domain=[0, 0.18], tickvals=[0, 1], ticktext=["here", "true"], showgrid=False, zeroline=False
        ),
    )
    carry = log_rests[done].exp().item()
    readouts = {"total": total, "truth": whole, "carry": "at most 10⁻⁶" if carry < 1.01e-6 else f"{carry:.2g}"}
    return dict(data=data, layout=layout), readouts


LOWEST = -6.9  # of the axis, in powers of ten
MOST_STICKS = 5  # of the axis below: the same in every state, so that one stick stays where it is

stick_across_blocks = explorable(
    _stick_across_blocks,
    id="kernels.stick_across_blocks",
    title="The stick, handed from block to block",
    alt=(
        "On a logarithmic scale, the piece that each key takes, from the query at the right to older keys: dots for "
        "earlier blocks, squares for the block just read, diamonds for the rest that a block hands to the next. The "
        "true pieces and the true rest are straight dotted and dashed lines. Below, the sum of the weights as a bar, "
        "under the true sum; an upright line marks one stick. The true pieces stay within it for every block size; "
        "with one rest for all keys of a block the sum goes beyond, hatched, the farther the larger the block; with "
        "nothing handed on, each block breaks a stick of its own. The line after the last key read can be dragged."
    ),
    readout="weights sum to {total:.2f} · truly {truth:.2f} · handed on {carry}",
    handles={"read so far": "step"},
    handed=slider(list(RULES), label="handed on", default=NOTHING),
    blocks=slider(STICK_BLOCKS, label="blocks", default=3, format=_cut),
    step=slider(range(max(STICK_BLOCKS) + 1), label="blocks done", default=3, play=True, at_most="blocks"),
    beta=slider([0.1, 0.2, 0.3], label="share β of each key", default=0.3),
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
        return bars(
            name,
            _or_gap(block_k for _ in found[name]),
            _or_gap(query + block_q / 2 for query, _ in found[name]),
            hover=f"a tile: {name}<extra></extra>",
            orientation="h",
            base=_or_gap(key for _, key in found[name]),
            width=block_q,
            marker=dict(color=color, line=dict(color=edge, width=1), **look),
        )

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
        yaxis=axis(  # the grip on the last query hangs over no number below
            max(QUERIES) + 8, -2, "query i", type="linear", tickvals=list(range(0, 129, 32))
        ),
    )
    count = {name: len(places) for name, places in found.items()}
    computed = (count[WHOLE] + count[MASKED]) * block_q * block_k
    visible = sum(query + 1 + keys - queries for query in range(queries))
    readouts = {
        "skipped": count[SKIPPED],
        "whole": count[WHOLE],
        "masked": count[MASKED],
        "saved": count[SKIPPED] / sum(count.values()),
        "wasted": 1 - visible / computed if computed else math.nan,
    }
    return dict(data=data, layout=layout), readouts


causal_blocks = explorable(
    _causal_blocks,
    id="kernels.causal_blocks",
    title="Which tiles a causal kernel computes",
    alt=(
        "The matrix of scores in a frame, a row for each query and a column for each key, cut into tiles, which reach "
        "beyond the frame where they do not divide it. A dotted diagonal that ends in the bottom right corner marks "
        "the last key each query sees. Tiles to its right are empty: skipped. Tiles to its left are solid blue: "
        "computed without a mask. Tiles that it cuts are hatched orange: computed with the mask. Smaller tiles follow "
        "the diagonal more closely. The corner of the first tile and the edge after the last query can be dragged."
    ),
    readout="{skipped:d} skipped, {whole:d} unmasked, {masked:d} masked · {saved:.0%} saved · {wasted:.0%} wasted",
    handles={"a tile's corner": ("block_k", "block_q"), "last query": "queries"},
    queries=slider(QUERIES, label="last queries", default=128),
    keys=slider(LENGTHS, label="keys", default=128),
    block_q=slider(TILE, label="queries in a tile", default=32),
    block_k=slider(TILE, label="keys in a tile", default=32),
)
