r"""What the lab Relative position asks for, and the wrong answers that its checks recognize."""

import math

import torch
from torch.nn.functional import normalize

from posenc.lab.check.exercise import Exercise, generator


def shaw_term(q, table, pos_q, pos_k):
    """q_i . a_clip(j - i) / sqrt(D) for every query and key: [Tq, Tk]."""
    clip = len(table) // 2
    offset = pos_k[None, :] - pos_q[:, None]  # [Tq, Tk]
    rows = offset.clamp(-clip, clip) + clip
    return (q @ table.T).gather(1, rows) / math.sqrt(q.shape[1])


def shift(x):
    """Line up scores by distance, [..., Tq, Tk], with the keys."""
    queries, keys = x.shape[-2:]
    zeros = torch.zeros(*x.shape[:-1], 1, dtype=x.dtype, device=x.device)
    padded = torch.cat((zeros, x), dim=-1)  # [..., Tq, Tk + 1]
    rows = padded.reshape(*x.shape[:-2], keys + 1, queries)
    return rows[..., 1:, :].reshape(x.shape)


def bucket(relative, num_buckets=32, max_distance=128, bidirectional=True):
    """The bucket of each offset: integers of the shape of `relative`."""
    side = num_buckets // 2 if bidirectional else num_buckets
    exact = side // 2
    distance = relative.abs() if bidirectional else (-relative).clamp(min=0)
    steps = torch.log(distance.clamp(min=exact).double() / exact) / math.log(max_distance / exact) * (side - exact)
    shared = (exact + (steps + 1e-9).long()).clamp(max=side - 1)
    found = torch.where(distance < exact, distance, shared)
    return torch.where(relative > 0, found + side, found) if bidirectional else found


def _causal(function, x):
    """What a shift is judged by: the region that the causal mask leaves, whatever stands right of it."""
    out = function(x)
    same = isinstance(out, torch.Tensor) and out.shape == x.shape
    return out.tril(x.shape[-1] - x.shape[-2]) if same else out


def _shaw_cases():
    draw = generator()
    for queries, keys, size, clip, start in ((4, 4, 4, 2, 0), (3, 9, 6, 3, 6), (5, 7, 2, 1, 40)):
        q, table = torch.randn(queries, size, generator=draw), torch.randn(2 * clip + 1, size, generator=draw)
        yield q, table, torch.arange(queries) + start, torch.arange(keys) + start - (keys - queries)
    q, table = torch.randn(2, 4, generator=draw), torch.randn(5, 4, generator=draw)
    yield q, table, torch.tensor([10, 3]), torch.tensor([3, 9, 10, 11, 40])


def _shift_cases():
    draw = generator(1)
    for shape in ((4, 4), (3, 7), (1, 5), (2, 3, 5, 6)):
        yield (torch.randn(shape, generator=draw),)


def _bucket_cases():
    anchors = torch.tensor([-1000, -128, -127, -100, -64, -50, -17, -16, -15, -9, -8, -7, -1, 0, 1, 5, 8, 30, 128, 500])
    yield anchors, 32, 128, True
    yield anchors, 32, 128, False
    yield torch.arange(-30, 31).reshape(1, 61), 8, 21, True
    yield torch.arange(-30, 31), 10, 23, False


ON_PAPER = 3  # points

MISTAKES = {
    "shaw_term": {
        "the sign is swapped: the row is that of query minus key, it must be key minus query": (
            "offset.clamp -> (-offset).clamp"
        ),
        "it is not divided by sqrt(D)": " / math.sqrt(q.shape[1]) -> ",
        "rows and columns are counted instead of using the positions": (
            "-> shaw_term(q, table, torch.arange(len(pos_q)), torch.arange(len(pos_k)))"
        ),
        "k is not added after clipping: a negative index takes rows from the end of the table": (
            "+ clip -> % len(table)"
        ),
        "it clips one offset early: -k and k have rows of their own": "clamp(-clip, clip) -> clamp(1 - clip, clip - 1)",
        "the clip has only one side: offsets in the past all read row 0": (
            "offset.clamp(-clip, clip) + clip -> offset.clamp(0, len(table) - 1)"
        ),
        "the sign of the offset is lost: past and future read the same rows": (
            "offset.clamp(-clip, clip) -> offset.abs().clamp(max=clip)"
        ),
        "nothing is clipped: far offsets wrap around into rows of others": (
            "offset.clamp(-clip, clip) + clip -> (offset + clip) % len(table)"
        ),
    },
    "shift": {
        "nothing has moved: reshape to [Tk + 1, Tq], not back to [Tq, Tk + 1]": "-> x.clone()",
        "the zero column stands on the right: put it on the left": "(zeros, x) -> (x, zeros)",
        "the last row is dropped: drop the first": "[..., 1:, :] -> [..., :-1, :]",
        "it transposes: reshape keeps the numbers in their order in memory, transpose doesn't": (
            "reshape(*x.shape[:-2], keys + 1, queries) -> mT"
        ),
        "rows move the wrong way: row i goes Tq - 1 - i steps to the left": (
            "-> torch.stack([row.roll(i, -1) for i, row in enumerate(x.unbind(-2))], -2)"
        ),
        "the columns are read as distances 0, 1, 2, ...: column c holds distance Tk - 1 - c": (
            "rows = -> at = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)\n    rows =",
            "rows[..., 1:, :].reshape(x.shape) -> x.gather(-1, at.clamp(min=0).expand(x.shape))",
        ),
    },
    "bucket": {
        "the sign is swapped: relative is key minus query, so the past is negative": (
            "-> bucket(-relative, num_buckets, max_distance, bidirectional)"
        ),
        "the query's own offset is counted as ahead: 0 belongs to the first half": "relative > 0 -> relative >= 0",
        "the halves are used without a causal mask only: here both are in use": (
            "-> bucket(relative, num_buckets, max_distance)"
        ),
        "with bidirectional=False all keys ahead share bucket 0": "(-relative).clamp(min=0) -> relative.abs()",
        "with bidirectional=True keys ahead have the second half of the buckets": "found + side -> found",
        "it rounds to the nearest: a bucket begins where its logarithm is whole, so round down": (
            "(steps + 1e-9).long() -> steps.round().long()"
        ),
        "nothing stops at the last bucket: from max_distance on all share it": ".clamp(max=side - 1) -> ",
        "with bidirectional=True each side has only half of the buckets": (
            "num_buckets // 2 if bidirectional else num_buckets -> num_buckets",
            "found + side -> found + num_buckets // 2",
        ),
        "the logarithm is divided by log(max_distance): it runs from exact, so by log(max_distance / exact)": (
            "log(max_distance / exact) -> log(max_distance)"
        ),
        "far offsets are clipped one by one: share them on a logarithmic scale": (
            "torch.where(distance < exact, distance, shared) -> distance.clamp(max=side - 1)"
        ),
    },
}

SHAWS = (
    ("for a softmax in powers of 2: divided by ln 2", lambda f, *case: f(*case) / math.log(2)),
    ("keys in rows: [Tk, Tq]", lambda f, *case: f(*case).T),
    ("rows of the table are first divided by their Euclidean norms", lambda f, q, a, *at: f(q, normalize(a), *at)),
)
BUCKETS = (
    ("relative is given in units of 2 tokens: double it first", lambda f, offset, *how: f(2 * offset, *how)),
    ("max_distance is given in units of 4 tokens", lambda f, offset, n, most, both: f(offset, n, 4 * most, both)),
    ("8 times the bucket: its first index in a flat table of 8 heads", lambda f, *case: 8 * f(*case)),
)

# reference, cases, tolerance, points, mistakes
EXERCISES = {
    "shaw_term": Exercise(shaw_term, _shaw_cases, 1e-5, 3, MISTAKES["shaw_term"], variants=SHAWS),
    "shift": Exercise(shift, _shift_cases, 1e-6, 2, MISTAKES["shift"], run=_causal),
    "bucket": Exercise(bucket, _bucket_cases, 1e-6, 3, MISTAKES["bucket"], variants=BUCKETS),
}
