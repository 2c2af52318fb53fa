r"""What the lab Relative position asks for, and the wrong answers that its checks recognize."""

import math

import torch

from posenc import t5, transformer_xl
from posenc.lab.exercises.exercise import Exercise, generator

# What the exercises ask for


def shaw_term(q, table, pos_q, pos_k):
    r"""Shaw's term of the logits, q_i . a_clip(j - i, -k, k) / sqrt(D).

    q: [Tq, D]; table: [2k + 1, D], row k belongs to the query's own position; pos_q: [Tq], pos_k: [Tk], whole numbers.
    Returns: [Tq, Tk]. Paper: arXiv 1803.02155. Chapter: Relative position.
    """
    clip = len(table) // 2
    rows = (pos_k[None, :] - pos_q[:, None]).clamp(-clip, clip) + clip  # [Tq, Tk]
    return (q @ table.T).gather(1, rows) / math.sqrt(q.shape[1])


def shift(x):
    return transformer_xl.shift(x)


def bucket(relative, num_buckets=32, max_distance=128, bidirectional=True):
    return t5.bucket(relative, num_buckets, max_distance, bidirectional)


# How they go wrong


def _by_row(q, table, rows, scale=True):
    return (q @ table.T).gather(1, rows) / (math.sqrt(q.shape[1]) if scale else 1)


def _offsets(pos_q, pos_k):
    return pos_k[None, :] - pos_q[:, None]


def _query_minus_key(q, table, pos_q, pos_k):
    return shaw_term(q, table.flip(0), pos_q, pos_k)


def _not_scaled(q, table, pos_q, pos_k):
    return shaw_term(q, table, pos_q, pos_k) * math.sqrt(q.shape[1])


def _counts_rows(q, table, pos_q, pos_k):
    return shaw_term(q, table, torch.arange(len(pos_q)), torch.arange(len(pos_k)))


def _k_not_added(q, table, pos_q, pos_k):  # a negative index counts from the end
    clip = len(table) // 2
    return _by_row(q, table, _offsets(pos_q, pos_k).clamp(-clip, clip) % len(table))


def _clips_one_early(q, table, pos_q, pos_k):
    clip = len(table) // 2
    return _by_row(q, table, _offsets(pos_q, pos_k).clamp(1 - clip, clip - 1) + clip)


def _no_past(q, table, pos_q, pos_k):
    return _by_row(q, table, _offsets(pos_q, pos_k).clamp(0, len(table) - 1))


def _distance_only(q, table, pos_q, pos_k):
    clip = len(table) // 2
    return _by_row(q, table, _offsets(pos_q, pos_k).abs().clamp(max=clip) + clip)


def _wraps(q, table, pos_q, pos_k):
    return _by_row(q, table, (_offsets(pos_q, pos_k) + len(table) // 2) % len(table))


def _causal(function, x):
    """What a shift is judged by: the region that the causal mask leaves, whatever stands right of it."""
    out = function(x)
    same = isinstance(out, torch.Tensor) and out.shape == x.shape
    return out.tril(x.shape[-1] - x.shape[-2]) if same else out


def _padded(x, left):
    zero = x.new_zeros(*x.shape[:-1], 1)
    return torch.cat((zero, x) if left else (x, zero), -1)


def _zero_on_the_right(x):
    return _padded(x, False).reshape(*x.shape[:-2], x.shape[-1] + 1, x.shape[-2])[..., 1:, :].reshape(x.shape)


def _drops_the_last_row(x):
    return _padded(x, True).reshape(*x.shape[:-2], x.shape[-1] + 1, x.shape[-2])[..., :-1, :].reshape(x.shape)


def _transposes(x):
    return _padded(x, True).transpose(-2, -1)[..., 1:, :].reshape(x.shape)


def _not_reshaped(x):
    return _padded(x, True)[..., 1:]


def _wrong_way(x):
    rows = [torch.roll(row, i, -1) for i, row in enumerate(x.unbind(-2))]
    return torch.stack(rows, -2)


def _reads_distance_as_column(x):
    queries, keys = x.shape[-2:]
    distance = torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)[None, :]
    return x.gather(-1, distance.clamp(min=0).expand(x.shape))


def _buckets(relative, num_buckets, max_distance, bidirectional, *, nearest=False, sides=True, base=None, stops=True):
    """`bucket`, with one thing done differently."""
    side = num_buckets // 2 if bidirectional and sides else num_buckets
    exact = side // 2
    distance = relative.abs() if bidirectional else (-relative).clamp(min=0)
    steps = torch.log(distance.clamp(min=1).double() / exact) / math.log(base or max_distance / exact) * (side - exact)
    shared = exact + (steps.round() if nearest else (steps + 1e-9).floor()).long()
    if stops:
        shared = shared.clamp(max=side - 1)
    return torch.where(distance < exact, distance, shared) + (relative > 0) * (num_buckets // 2 if bidirectional else 0)


def _query_first(relative, num_buckets, max_distance, bidirectional):
    return bucket(-relative, num_buckets, max_distance, bidirectional)


def _own_bucket_ahead(relative, num_buckets, max_distance, bidirectional):
    return bucket(relative, num_buckets, max_distance, bidirectional) + (relative == 0) * (
        num_buckets // 2 if bidirectional else 0
    )


def _always_both_ways(relative, num_buckets, max_distance, bidirectional):
    return bucket(relative, num_buckets, max_distance, True)


def _sees_ahead(relative, num_buckets, max_distance, bidirectional):
    return bucket(relative if bidirectional else -relative.abs(), num_buckets, max_distance, bidirectional)


def _sideless(relative, num_buckets, max_distance, bidirectional):
    return bucket(-relative.abs() if bidirectional else relative, num_buckets, max_distance, bidirectional)


def _rounds(relative, num_buckets, max_distance, bidirectional):
    return _buckets(relative, num_buckets, max_distance, bidirectional, nearest=True)


def _runs_over(relative, num_buckets, max_distance, bidirectional):
    return _buckets(relative, num_buckets, max_distance, bidirectional, stops=False)


def _all_buckets(relative, num_buckets, max_distance, bidirectional):
    return _buckets(relative, num_buckets, max_distance, bidirectional, sides=False)


def _log_of_max(relative, num_buckets, max_distance, bidirectional):
    return _buckets(relative, num_buckets, max_distance, bidirectional, base=max_distance)


def _only_clipped(relative, num_buckets, max_distance, bidirectional):
    side = num_buckets // 2 if bidirectional else num_buckets
    distance = relative.abs() if bidirectional else (-relative).clamp(min=0)
    return distance.clamp(max=side - 1) + (relative > 0) * (side if bidirectional else 0)


# The tables


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

EXERCISES = {
    "shaw_term": Exercise(
        title="Exercise 1, shaw_term",
        points=3,
        reference=shaw_term,
        cases=lambda: list(_shaw_cases()),
        tolerance=1e-5,
        mistakes={
            "the sign is swapped: the row is that of query minus key, it must be key minus query": _query_minus_key,
            "it is not divided by sqrt(D)": _not_scaled,
            "rows and columns are counted instead of using the positions": _counts_rows,
            "k is not added after clipping: a negative index takes rows from the end of the table": _k_not_added,
            "it clips one offset early: -k and k have rows of their own": _clips_one_early,
            "the clip has only one side: offsets in the past all read row 0": _no_past,
            "the sign of the offset is lost: past and future read the same rows": _distance_only,
            "nothing is clipped: far offsets wrap around into rows of others": _wraps,
        },
    ),
    "shift": Exercise(
        title="Exercise 2, shift",
        points=2,
        reference=shift,
        run=_causal,
        cases=lambda: list(_shift_cases()),
        mistakes={
            "nothing has moved: reshape to [Tk + 1, Tq], not back to [Tq, Tk + 1]": _not_reshaped,
            "the zero column stands on the right: put it on the left": _zero_on_the_right,
            "the last row is dropped: drop the first": _drops_the_last_row,
            "it transposes: reshape keeps the numbers in their order in memory, transpose doesn't": _transposes,
            "rows move the wrong way: row i goes Tq - 1 - i steps to the left": _wrong_way,
            "the columns are read as distances 0, 1, 2, ...: column c holds distance Tk - 1 - c": (
                _reads_distance_as_column
            ),
        },
    ),
    "bucket": Exercise(
        title="Exercise 3, bucket",
        points=3,
        reference=bucket,
        cases=lambda: list(_bucket_cases()),
        mistakes={
            "the sign is swapped: relative is key minus query, so the past is negative": _query_first,
            "the query's own offset is counted as ahead: 0 belongs to the first half": _own_bucket_ahead,
            "the halves are used without a causal mask only: here both are in use": _always_both_ways,
            "with bidirectional=False all keys ahead share bucket 0": _sees_ahead,
            "with bidirectional=True keys ahead have the second half of the buckets": _sideless,
            "it rounds to the nearest: a bucket begins where its logarithm is whole, so round down": _rounds,
            "nothing stops at the last bucket: from max_distance on all share it": _runs_over,
            "with bidirectional=True each side has only half of the buckets": _all_buckets,
            "the logarithm is divided by log(max_distance): it runs from exact, so by log(max_distance / exact)": (
                _log_of_max
            ),
            "far offsets are clipped one by one: share them on a logarithmic scale": _only_clipped,
        },
    ),
}
