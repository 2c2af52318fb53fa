r"""Explorables of the kernels chapter: softmax and stick walking over blocks of keys, and tiles under a causal mask."""

import itertools
import math

import torch
from torch.nn.functional import logsigmoid

from posenc.lab.explore import COLORS, explorable, slider

KEYS = 24
BLOCKS = (4, 6, 8, 12)
HATCHED = dict(shape="/", solidity=0.35)
PEAK = 3.0  # the largest logit stands this high; the others are noise of spread 1


# ------------------------------------------------------------------------------------------------------ online softmax


def online_update(m, l, acc, scores, values):  # noqa: E741, the letters of the paper
    r"""Take one block of keys into a softmax that is not yet divided.

    m, l, acc: 0-d, the running maximum, the sum of exp(score - m), the sum of exp(score - m) * value; they start at
    -inf, 0, 0. scores, values: [block]. Returns the new m, l, acc.
    Paper: arXiv 2205.14135, algorithm 1.
    """
    new = torch.maximum(m, scores.max())
    old = (m - new).exp()  # what all earlier weights shrink by
    weights = (scores - new).exp()
    return new, old * l + weights.sum(), old * acc + weights @ values


def online_row(peak):
    """Seeded logits and values of the keys, [KEYS] each; the largest logit stands at key `peak`."""
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


def _online_softmax(block, step, peak, *, update=online_update):
    scores, values = online_row(peak)
    target = float(torch.softmax(scores, -1) @ values)
    done = min(step, KEYS // block)
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

    def bars(name, at, y, color, parts=(), **look):
        return dict(
            type="bar",
            name=name,
            x=_or_gap(keys[at]),
            y=_or_gap(y[at]),
            width=0.84,
            marker=dict(color=COLORS[color], **look),
            **dict(parts),
        )

    weights = (scores - m).exp() if done else scores
    ends = [n * block - 0.5 for n in range(1, done + 1)]
    said = f"exp(s − m), earlier ones × {factor:.3f}" if done > 1 else "exp(s − m), nothing to rescale" if done else ""
    lower = dict(xaxis="x", yaxis="y2", showlegend=False)
    data = [
        bars("earlier", old, scores, "blue"),
        bars("this block", new, scores, "orange", pattern=HATCHED),
        bars("to come", later, scores, "gray", opacity=0.3),
        dict(
            type="scatter",
            name="maximum m",
            mode="lines",
            line=dict(color=COLORS["ink"], width=2, dash="dash"),
            x=_or_gap(x for n in range(done) for x in (n * block - 0.5, (n + 1) * block - 0.5)),
            y=_or_gap(s[0] for s in states[1:] for _ in range(2)),
        ),
        bars("weights of earlier blocks", old, weights, "blue", lower),
        bars("weights of this block", new, weights, "orange", lower, pattern=HATCHED),
        dict(
            type="scatter",
            name="rescaled from",
            x=_or_gap(keys[old]),
            y=_or_gap((scores[old] - was).exp()),
            mode="markers",
            marker=dict(symbol="diamond-open", size=8, color=COLORS["purple"]),
            xaxis="x",
            yaxis="y2",
        ),
        dict(
            type="scatter",
            name="in words",
            x=[(KEYS - 1) / 2],
            y=[1.28],
            mode="text",
            text=[said],
            hoverinfo="skip",
            **lower,
        ),
        dict(
            type="scatter",
            name="output so far",
            x=_or_gap(ends),
            y=_or_gap(s[2] / s[1] for s in states[1:]),
            mode="lines+markers",
            line=dict(color=COLORS["orange"], width=2),
            marker=dict(size=8),
            xaxis="x",
            yaxis="y3",
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="whole softmax",
            x=[-0.7, KEYS - 0.3],
            y=[target, target],
            mode="lines",
            line=dict(color=COLORS["green"], width=2, dash="dot"),
            xaxis="x",
            yaxis="y3",
        ),
    ]
    layout = dict(
        height=600,
        barmode="overlay",
        xaxis=dict(
            type="linear",
            range=[-0.7, KEYS - 0.3],
            anchor="y3",
            title=dict(text="key j"),
            tickvals=keys[::4],
            zeroline=False,
        ),
        yaxis=dict(range=[-2.6, 5], domain=[0.68, 1], title=dict(text="logit s"), tickvals=[-2, 0, 2, 4]),
        yaxis2=dict(range=[0, 1.45], domain=[0.34, 0.62], title=dict(text="weight"), tickvals=[0, 0.5, 1]),
        yaxis3=dict(range=[-0.5, 0.5], domain=[0, 0.28], title=dict(text="output"), tickvals=[-0.4, 0, 0.4]),
    )
    head = f"{done} of {KEYS // block} blocks, {seen} of {KEYS} keys"
    output = _finite(acc / l) if done else math.nan
    numbers = {"m": _finite(m), "l": _finite(l), "output": output, "target": target}
    return dict(data=data, layout=layout), {"head": head, **numbers}


online_softmax = explorable(
    _online_softmax,
    id="kernels.online_softmax",
    title="The softmax, one block of keys at a time",
    alt=(
        "Three panels over the same keys. Top: the logits, with the blocks done, the block just read (hatched) and the "
        "keys still to come, and a dashed staircase, the largest logit so far. Middle: the weight of each key relative "
        "to that maximum; diamonds show where earlier weights stood before this block, and where the maximum rose all "
        "of them shrink by one factor. Bottom: the output so far, which ends on the dotted line of the whole softmax "
        "for every block size."
    ),
    readout="{head}: m = {m:.3f}, l = {l:.3f}, output acc / l = {output:.4f} · softmax over all keys {target:.4f}",
    depends={"whole softmax": ["peak"], "readout.head": ["block", "step"], "readout.target": ["peak"]},
    block=slider(BLOCKS, label="keys in a block", default=6),
    step=slider(range(KEYS // min(BLOCKS) + 1), label="blocks done (stops after the last)", default=3),
    peak=slider(range(1, KEYS, 4), label="the largest logit stands at key", default=13),
)


# ------------------------------------------------------------------------------------------------ stick across blocks

STICK_BLOCKS = (4, 8, 12, 24)
TRUE, ONE_REST, NOTHING = "the true rest", "one rest a block (wrong)", "nothing (wrong)"
RECENT, FIRST = "most recent first", "key 0 first"


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


def _stick_across_blocks(block, step, handed, beta, order, *, rule=break_block):
    logits = torch.full((KEYS,), math.log(beta / (1 - beta)), dtype=torch.float64)
    rules = {**RULES, TRUE: rule}
    pieces, log_rests = walk(logits, block, rules[handed])
    truth, true_rests = walk(logits, 1, break_block)
    done = min(step, KEYS // block)
    seen, before = done * block, max(done - 1, 0) * block
    forward = order == FIRST
    asked = list(range(KEYS)) if forward else list(range(KEYS))[::-1]

    def place(n):
        """Where the key stands that is asked after n others."""
        return n if forward else KEYS - 1 - n

    reaches = (pieces / logits.sigmoid()).log()  # the rest that each key takes its share of
    sums = pieces.cumsum(0)
    old, new = slice(0, before), slice(before, seen)

    def bars(name, at, color, **look):
        return dict(
            type="bar",
            name=name,
            x=_or_gap(asked[at]),
            y=_or_gap(pieces[at]),
            width=0.84,
            marker=dict(color=COLORS[color], **look),
        )

    def line(name, axis, x, y, color, dash="solid", **parts):
        look = dict(color=COLORS[color], width=2, dash=dash)
        return dict(dict(type="scatter", name=name, x=x, y=y, mode="lines", line=look, xaxis="x", yaxis=axis), **parts)

    data = [
        bars("earlier", old, "blue"),
        bars("this block", new, "orange", pattern=HATCHED),
        line(
            "true piece",
            "y",
            asked,
            truth,
            "ink",
            mode="markers",
            marker=dict(symbol="line-ew-open", size=9, color=COLORS["ink"], line=dict(width=2)),
        ),
        line("true rest", "y2", asked, true_rests[:-1], "gray", "dot"),
        line(
            "rest that a key takes from",
            "y2",
            _or_gap(asked[:seen]),
            _or_gap(reaches[:seen]),
            "blue",
            line=dict(color=COLORS["blue"], width=2, shape="hvh"),
            showlegend=False,
        ),
        line(
            "handed on",
            "y2",
            [place(n * block) for n in range(done + 1)],
            _or_gap(log_rests[: done + 1]),
            "purple",
            mode="markers",
            marker=dict(symbol="diamond", size=10, color=COLORS["purple"]),
        ),
        line(
            "sum of the weights",
            "y3",
            [place(-1), *asked[:seen]],
            [0.0, *sums[:seen].tolist()],
            "orange",
            showlegend=False,
        ),
        line("one stick", "y3", [-1.5, KEYS + 0.7], [1, 1], "green", "dash"),
        line(
            "the query",
            "y",
            [KEYS],
            [0.012],
            "ink",
            mode="markers",
            marker=dict(symbol="star", size=12, color=COLORS["ink"]),
            showlegend=False,
        ),
    ]
    layout = dict(
        height=600,
        barmode="overlay",
        xaxis=dict(
            type="linear",
            range=[-1.5, KEYS + 0.7],
            anchor="y3",
            title=dict(text="key j (★ the query)"),
            tickvals=list(range(0, KEYS, 4)),
            zeroline=False,
        ),
        yaxis=dict(range=[0, 0.33], domain=[0.7, 1], title=dict(text="piece"), tickvals=[0, 0.1, 0.2, 0.3]),
        yaxis2=dict(range=[-15.5, 1.5], domain=[0.35, 0.64], title=dict(text="log rest"), tickvals=[-15, -10, -5, 0]),
        yaxis3=dict(range=[0, 7.8], domain=[0, 0.29], title=dict(text="sum"), tickvals=[0, 1, 3, 5, 7]),
    )
    total = float(sums[seen - 1]) if done else 0.0
    verdict = "more than one stick" if total > 1 + 1e-9 else "no more than one stick"
    readouts = {
        "head": f"{done} of {KEYS // block} blocks",
        "total": total,
        "verdict": verdict,
        "truth": float(truth[:seen].sum()),
        "carry": _finite(log_rests[done]),
    }
    return dict(data=data, layout=layout), readouts


_WALK = ["block", "step", "handed", "beta"]

stick_across_blocks = explorable(
    _stick_across_blocks,
    id="kernels.stick_across_blocks",
    title="The stick, handed from block to block",
    alt=(
        "Three panels over the same keys, the query a star at their right. Top: the piece that each key takes, the "
        "block just read hatched, short lines at the true pieces. Middle: the logarithm of the rest that a key takes "
        "from, with diamonds where a block hands it to the next; the true rest is a straight dotted line. Bottom: the "
        "sum of the weights so far against a dashed line at one whole stick. The true stick stays below that line for "
        "every block size; with one rest for all keys of a block the sum is too large, and grows with the block."
    ),
    readout=(
        "{head}: weights sum to {total:.3f}, {verdict}; the true pieces to {truth:.3f} · "
        "handed on: log rest {carry:.2f}"
    ),
    depends={
        "earlier": [*_WALK, "order"],
        "this block": [*_WALK, "order"],
        "true piece": ["beta", "order"],
        "true rest": ["beta", "order"],
        "rest that a key takes from": [*_WALK, "order"],
        "handed on": [*_WALK, "order"],
        "sum of the weights": [*_WALK, "order"],
        "one stick": [],
        "the query": [],
        "readout": _WALK,
        "readout.head": ["block", "step"],
        "readout.truth": ["block", "step", "beta"],
    },
    handed=slider(list(RULES), label="handed on"),
    block=slider(STICK_BLOCKS, label="keys in a block", default=8),
    step=slider(range(KEYS // min(STICK_BLOCKS) + 1), label="blocks done (stops after the last)", default=2),
    beta=slider([0.03, 0.1, 0.2, 0.3], label="β, the share each key takes", default=0.3),
    order=slider([RECENT, FIRST], label="order of asking"),
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
        return dict(
            type="bar",
            name=name,
            orientation="h",
            base=_or_gap(key for _, key in found[name]),
            x=_or_gap(block_k for _ in found[name]),
            y=_or_gap(query + block_q / 2 for query, _ in found[name]),
            width=block_q,
            marker=dict(color=color, line=dict(color=edge, width=1), **look),
        )

    data = [
        tiles(SKIPPED, "rgba(107, 114, 128, 0.1)", COLORS["gray"]),
        tiles(WHOLE, COLORS["blue"]),
        tiles(MASKED, COLORS["orange"], pattern=HATCHED),
        dict(
            type="scatter",
            name="the scores",
            x=[0, keys, keys, 0, 0],
            y=[0, 0, queries, queries, 0],
            mode="lines",
            line=dict(color=COLORS["ink"], width=2),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="last key seen",
            x=[keys - queries, keys],
            y=[0, queries],
            mode="lines",
            line=dict(color=COLORS["ink"], width=3, dash="dot"),
        ),
    ]
    layout = dict(
        height=480,
        barmode="overlay",
        xaxis=dict(
            type="linear", range=[-2, max(LENGTHS) + 2], title=dict(text="key j"), tickvals=list(range(0, 193, 32))
        ),
        yaxis=dict(
            type="linear", range=[max(QUERIES) + 2, -2], title=dict(text="query i"), tickvals=list(range(0, 129, 32))
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
        "the diagonal more closely."
    ),
    readout=(
        "{skipped:d} tiles skipped, {whole:d} without a mask, {masked:d} with it: {saved:.1%} of the tiles saved; "
        "of the entries computed, {wasted:.1%} are masked or outside: wasted"
    ),
    depends={"the scores": ["queries", "keys"], "last key seen": ["queries", "keys"]},
    queries=slider(QUERIES, label="queries, the last of the keys", default=128),
    keys=slider(LENGTHS, label="keys", default=128),
    block_q=slider(TILE, label="queries in a tile", default=32),
    block_k=slider(TILE, label="keys in a tile", default=32),
)
