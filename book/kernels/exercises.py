r"""What the lab From formula to kernel asks for, and the wrong answers that its checks recognize.

A student writes a Triton kernel; a launcher of three lines starts it and is what the check calls: launcher(inputs ...,
block sizes ..., outputs ...). The right functions are PyTorch, so nothing here imports Triton.
"""

import math

import torch
from torch import empty_like
from torch.nn.functional import logsigmoid, pad

from posenc.chapters.kernels.launch import launch
from posenc.lab.check.exercise import Exercise, generator

# ------------------------------------------------------------------------------------------------------- what is right
# Block by block, as a kernel goes: so a mistake in a kernel is the same mistake here. Inputs have any strides, blocks
# are of the kernel and do not change the result, the last arguments are the outputs and are written.


def _as_if(x, row=None, col=None):
    """x read as if its strides were these."""
    return x.as_strided(x.shape, (row or x.stride(0), col or x.stride(1)))


def _rows_without_gap(x, block, out):
    d = x.shape[1]
    for t in range(len(x)):  # one after the other: rows of `out` overlap where its columns lie apart
        unit_rows(_as_if(x, row=d)[t : t + 1], block, _as_if(out, row=d)[t : t + 1])


def unit_rows(x, block, out):
    r"""Divide each row by its length: out[t] = x[t] / |x[t]|. x: [T, D]."""
    out.copy_(x / x.square().sum(-1, keepdim=True).sqrt())


UNIT_ROWS = {
    "the square root is missing: you divide by the sum of the squares": ".sqrt() -> ",
    "you divide by the sum of the row; its length is the root of the sum of its squares": (
        ".square().sum(-1, keepdim=True).sqrt() -> .sum(-1, keepdim=True)"
    ),
    "you divide by the root of the mean of the squares; take the sum": "sum -> mean",
    "you divide by BLOCK, so the result depends on it; the length of a row has no mean in it": (
        "x.square() -> (x.square() / block)"
    ),
    "the column stride is left out: neighbors in a row need not lie side by side": (
        "-> unit_rows(_as_if(x, col=1), block, _as_if(out, col=1))"
    ),
    "the row stride is left out: rows need not lie D numbers apart": _rows_without_gap,
}


def turn_halves(x, positions, inv_freq, block, out):
    r"""RoPE, half-split: turn the pairs (i, i + D/2) of row t of x [T, D] by positions[t] * inv_freq[i], in float32."""
    angle = positions[:, None].float() * inv_freq
    cos, sin = angle.cos(), angle.sin()
    a, b = x.float().chunk(2, dim=-1)
    out.copy_(torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1))


TURN_HALVES = {
    "the sign of the sine is flipped: it turns backwards": "angle.sin() -> -angle.sin()",
    "pairs of the other layout: lane i goes with lane i + D/2, not with its neighbor": (
        "x.float().chunk(2, dim=-1) -> x[:, 0::2].float(), x[:, 1::2].float()",
        "torch.cat( -> torch.stack(",
        "dim=-1) -> dim=-1).flatten(-2)",
    ),
    "rows turn by their index; load their positions": "positions -> torch.arange(len(x))",
    "rows turn by their index inside of the block; load their positions": "positions -> (torch.arange(len(x)) % block)",
    "all rows of a block turn by one position, that of the program's number": (
        "positions -> positions[torch.arange(len(x)) // block]"
    ),
    "the angles are in half precision; compute them in float32": (
        "positions[:, None].float() -> positions[:, None].to(x.dtype)",
        "inv_freq -> inv_freq.to(x.dtype)",
        "angle.cos(), angle.sin() -> angle.float().cos(), angle.float().sin()",
    ),
    "the positions are in half precision, which rounds those above 2,048; use float32": (
        "positions -> positions.to(x.dtype)"
    ),
    "the second half is turned with the first after its turn; keep the old first half": (
        "(a * cos - b * sin, -> (a,",
        "out.copy_ -> a = a * cos - b * sin\n    out.copy_",
    ),
    "sine and cosine are swapped": "angle.cos(), angle.sin() -> angle.sin(), angle.cos()",
}


def online_softmax(scores, values, block, lse, mean):
    r"""The log-sum-exp of each row of scores [N, T], and the mean of the values [T] weighted by the row's softmax."""
    tail = -scores.shape[1] % block
    scores, values = pad(scores, (0, tail), value=float("-inf")), pad(values, (0, tail))
    m = torch.full_like(lse, float("-inf"))
    l, acc = torch.zeros_like(m), torch.zeros_like(m)
    for s, v in zip(scores.split(block, dim=1), values.split(block)):
        new = torch.maximum(m, s.amax(1))
        old, p = (m - new).exp(), (s - new[:, None]).exp()
        l = l * old + p.sum(1)
        acc = acc * old + p @ v
        m = new
    lse.copy_(m + l.log())
    mean.copy_(acc / l)


ONLINE_SOFTMAX = {
    "the normalizer is rescaled, the accumulator is not: both hold weights relative to the old maximum": (
        "acc * old -> acc"
    ),
    "the accumulator is rescaled, the normalizer is not: both hold weights relative to the old maximum": "l * old -> l",
    "nothing is rescaled when the maximum rises": ("acc * old -> acc", "l * old -> l"),
    "no maximum is subtracted: exp overflows for large scores and is 0 for small ones": (
        "torch.maximum(m, s.amax(1)) -> torch.zeros_like(m)"
    ),
    "the running maximum starts at 0, which is too much where all scores are far below; start at -inf": (
        'torch.full_like(lse, float("-inf")) -> torch.zeros_like(lse)'
    ),
    "the scores behind the end count as 0: load them with other=-inf": ', value=float("-inf") -> ',
    "only the last block counts: l and acc must go on from block to block": (
        "torch.maximum(m, s.amax(1)) -> s.amax(1)",
        "l * old + -> ",
        "acc * old + -> ",
    ),
    "lse is the maximum alone; add log l": "m + l.log() -> m",
    "lse is log l alone; add the maximum": "m + l.log() -> l.log()",
    "lse is the normalizer; it should be m + log l": "m + l.log() -> l",
    "the weighted sum of the values is not divided by the normalizer": "acc / l -> acc",
}


def attend(q, k, v, block_q, block_k, out):
    r"""Causal softmax attention of q, k, v [H, T, D]: out = softmax(q k^T / sqrt(D), keys j <= i) v."""
    length, scale = q.shape[1], q.shape[2] ** -0.5
    q, k, v = (pad(x, (0, 0, 0, 128)) for x in (q, k, v))  # a masked load gives 0
    for first in range(0, length, block_q):
        rows = torch.arange(first, first + block_q)
        m = torch.full((len(q), block_q), float("-inf"))
        l, acc = torch.zeros_like(m), torch.zeros(len(q), block_q, q.shape[2])
        for start in range(0, min(length, first + block_q), block_k):
            cols = torch.arange(start, start + block_k)
            visible = (rows[:, None] >= cols) & (cols < length)
            s = (scale * q[:, rows] @ k[:, cols].mT).where(visible, -torch.inf)
            new = torch.maximum(m, s.amax(-1))
            old, p = (m - new).exp(), (s - new[..., None]).exp()
            l = l * old + p.sum(-1)
            acc = acc * old[..., None] + p @ v[:, cols]
            m = new
        out[:, first : first + block_q] = (acc / l[..., None])[:, : length - first]


LATER, UNSEEN = "rows[:, None] >= -> rows[:, None] + 1 >=", "(rows[:, None] >= cols) & -> "
UNHIDDEN, TOO_LATE = ".where(visible, -torch.inf) -> ", "p @ v -> (p * visible) @ v"
TO_THE_END, PADDING = "min(length, first + block_q) -> length", " & (cols < length) -> "
ATTEND = {
    "the scores are not divided by sqrt(D)": "scale * q -> q",
    "causal off by one: a query sees its own key too, i >= j": "rows[:, None] >= -> rows[:, None] >",
    "causal off by one: a query does not see the key after its own, i >= j": LATER,
    "causal off by one, i >= j is right; and the padding behind the last key counts": (LATER, PADDING),
    "queries see the future: the mask i >= j is missing": (UNSEEN, TO_THE_END),
    "queries see the future, and the padding behind the last key: the mask i >= j is missing": (UNHIDDEN, TO_THE_END),
    "queries see all of the last block that they reach: the mask i >= j is missing": UNHIDDEN,
    "queries see all keys of the last block that they reach: the mask i >= j is missing": UNSEEN,
    "the mask comes after the exponential: hidden keys and padding are counted in the normalizer": (UNHIDDEN, TOO_LATE),
    "the mask comes after the exponential: all keys are counted in the normalizer": (UNHIDDEN, TOO_LATE, TO_THE_END),
    "i and j are counted from the start of their blocks; add first and start": (
        "rows[:, None] >= cols -> (rows - first)[:, None] >= cols - start",
        PADDING,
    ),
    "the normalizer is rescaled, the accumulator is not": "acc * old[..., None] -> acc",
    "the accumulator is rescaled, the normalizer is not": "l * old -> l",
    "nothing is rescaled when the maximum rises": ("acc * old[..., None] -> acc", "l * old -> l"),
    "the output is not divided by the normalizer": "acc / l[..., None] -> acc",
}


def break_stick(q, k, v, block_q, block_k, out, rest):
    r"""Stick-breaking over the strict past, most recent key first, and what is left of each stick, rest [H, T]."""
    length, scale = q.shape[1], q.shape[2] ** -0.5
    q, k, v = (pad(x, (0, 0, 0, 128)) for x in (q, k, v))
    for first in range(0, length, block_q):
        rows = torch.arange(first, first + block_q)
        log_rest, acc = torch.zeros(len(q), block_q), torch.zeros(len(q), block_q, q.shape[2])
        for start in reversed(range(0, min(length, first + block_q), block_k)):
            cols = torch.arange(start, start + block_k)
            past = rows[:, None] > cols
            z = scale * q[:, rows] @ k[:, cols].mT
            kept = logsigmoid(-z).masked_fill(~past, 0.0)
            before = kept.flip(-1).cumsum(-1).flip(-1) - kept
            share = (logsigmoid(z) + log_rest[..., None] + before).exp() * past
            acc = acc + share @ v[:, cols]
            log_rest = log_rest + kept.sum(-1)
        out[:, first : first + block_q] = acc[:, : length - first]
        rest[:, first : first + block_q] = log_rest.exp()[:, : length - first]


FROM_THE_LEFT = "kept.flip(-1).cumsum(-1).flip(-1) -> kept.cumsum(-1)"
BREAK_STICK = {
    "all keys of a block take from one rest; inside of a block too, each key leaves less to the next": " + before -> ",
    "each block starts with a whole stick: add the logs of what its keys leave to log_rest": " + kept.sum(-1) -> ",
    "a block is handed what the last block left alone; log_rest must add up over all blocks": "log_rest + kept -> kept",
    "the walk goes from the oldest block; the most recent one comes first": "reversed -> ",
    "inside of a block the oldest key comes first; sum from the right": FROM_THE_LEFT,
    "the walk goes from key 0; the most recent key is asked first": ("reversed -> ", FROM_THE_LEFT),
    "a key's own share is taken off before it takes; leave it out of its own sum": "flip(-1) - kept -> flip(-1)",
    "a query asks its own key; strictly past means i > j": "rows[:, None] > -> rows[:, None] >=",
    "keys of the future, and padding, still break the stick: hide them before the sum": ".masked_fill(~past, 0.0) -> ",
    "keys of the future get a share: hide them in the weights too": " * past -> ",
    "the second output is the log of the rest": "log_rest.exp() -> log_rest",
    "the second output is what was taken, not what is left": "log_rest.exp() -> (1 - log_rest.exp())",
    "the scores are not divided by sqrt(D)": "scale * q -> q",
}


def tile_kind(i, j, block_q, block_k, length):
    """What a causal kernel does with the tile of block_q queries from i on and block_k keys from j on."""
    last_query, last_key = min(i + block_q, length) - 1, j + block_k - 1
    if j > last_query:
        return "skip"
    if last_key <= i and i + block_q <= length:
        return "whole"
    return "mask"


STRICT = "last_key <= i -> last_key < i"
TILE_KIND = {
    "nothing is skipped: a tile whose first key comes after its last query has no work": '"skip" -> "mask"',
    "too much is skipped: the last query of a tile sees further than the first": "j > last_query -> j > i",
    "a tile is whole when its last key is not after its *first* query": "last_key <= i -> last_key < i + block_q",
    "a tile is whole when its *last* key is not after its first query": "last_key <= i -> j <= i",
    "off by one: a query sees its own key": ("j > last_query -> j >= last_query", STRICT),
    "off by one: a query does not see the key after its own": ("length) - 1 -> length)", STRICT),
    "the ragged edge is forgotten: a tile that hangs over the end is not whole": (
        "-> tile_kind(i, j, block_q, block_k, 10**9)"
    ),
}


def _normal(*shape, seed=0):
    return torch.randn(shape, generator=generator(seed))


def _swapped(x):
    """x, its first two axes in the other order in memory."""
    return x.transpose(0, 1).contiguous().transpose(0, 1)


def _unit_cases():
    return [(_normal(3, 5), 8), (_normal(4, 16, seed=1), 16), (_swapped(_normal(5, 6, seed=2)), 32)]


def _turn_cases():
    inv_freq = torch.tensor([1.0, 0.3, 0.1, 0.03, 0.01, 0.003])
    at = torch.tensor([3, 0, 41, 7, 5, 12, 2001, 1, 19])
    return [
        (_normal(9, 12), at, inv_freq, 4),
        (_swapped(_normal(9, 12, seed=1)), at.flip(0), inv_freq, 16),
        (_normal(5, 8, seed=2).half(), torch.tensor([3001, 4, 0, 1023, 77]), inv_freq[:4], 2),
    ]


def _online_cases():
    rising = torch.linspace(0, 6, 21) + 0.1 * _normal(3, 21)
    return [
        (rising, _normal(21, seed=1), 8),
        (2 * _swapped(_normal(2, 21, seed=2)), 2 + _normal(21, seed=3), 32),
        (_normal(2, 40, seed=4) + torch.tensor([[150.0], [-150.0]]), 2 + _normal(40, seed=5), 16),
    ]


def _qkv(heads, length, seed):
    return [scale * _normal(3, heads, length, 16, seed=seed + n)[n] for n, scale in enumerate((1.5, 1.5, 1.0))]


def _attend_cases():
    q, k, v = _qkv(1, 50, 9)
    calm = q.abs(), -k.abs(), v, 16, 16  # four blocks of keys, and each leaves most of a stick to the next
    return [(*_qkv(1, 21, 0), 16, 16), (*map(_swapped, _qkv(2, 40, 3)), 32, 16), (*_qkv(1, 50, 6), 16, 32), calm]


def _tile_cases():
    cases = [(i, j, 32, 32, 100) for i in (0, 32, 96) for j in (0, 32, 64, 96)]
    cases += [(32, j, 64, 16, 200) for j in (0, 16, 32, 48, 80, 96)]
    return cases + [(i, 64, 16, 64, 200) for i in (48, 64, 112, 128, 192)] + [(3, 4, 1, 1, 8), (4, 4, 1, 1, 8)]


def _of_rows(x):
    return x.new_empty(x.shape[:-1])


ON_PAPER = 4  # points


UNITS = (  # a case ends with what is written to
    ("rows of length 2", lambda f, *case: (f(*case), case[-1].mul_(2))),
    ("each row points the other way", lambda f, *case: (f(*case), case[-1].neg_())),
    ("1 is added to each number at the end", lambda f, *case: (f(*case), case[-1].add_(1))),
)
TURNS = (
    ("twice as fast", lambda f, x, at, w, *how: f(x, at, 2 * w, *how)),
    ("half as fast", lambda f, x, at, w, *how: f(x, at, w / 2, *how)),
    ("inv_freq counts whole turns a token", lambda f, x, at, w, *how: f(x, at, 2 * math.pi * w, *how)),
)


def _kernel(reference, cases, mistakes, *outputs, points, tolerance=1e-4, variants=()):
    return Exercise(reference, cases, tolerance, points, mistakes, run=launch(*outputs), variants=variants)


EXERCISES = {
    "unit_rows": _kernel(unit_rows, _unit_cases, UNIT_ROWS, empty_like, points=2, tolerance=1e-5, variants=UNITS),
    "turn_halves": _kernel(turn_halves, _turn_cases, TURN_HALVES, empty_like, points=3, tolerance=1e-3, variants=TURNS),
    "online_softmax": _kernel(online_softmax, _online_cases, ONLINE_SOFTMAX, _of_rows, _of_rows, points=3),
    "attend": _kernel(attend, _attend_cases, ATTEND, empty_like, points=4),
    "break_stick": _kernel(break_stick, _attend_cases, BREAK_STICK, empty_like, _of_rows, points=4),
    "tile_kind": Exercise(tile_kind, _tile_cases, points=2, mistakes=TILE_KIND),
}
