r"""Exercises of the lab *Inside a pretrained model*."""

import math

import torch

from posenc.lab.exercises.exercise import Exercise, generator
from posenc.rotate.rope import inv_freq

# What the exercises ask for


def unfinished(inv_freq, trained):
    r"""How many pairs do not finish a turn between the two ends of a window of `trained` tokens."""
    return int((inv_freq * (trained - 1) < 2 * math.pi).sum())


def weight_by_distance(weights, edges):
    r"""weights [H, T, T] -> [H, bins]: the mean over queries of the weight edges[n] .. edges[n + 1] - 1 back."""
    at = torch.arange(weights.shape[-1])
    distance = at[:, None] - at
    bins = [weights[:, (distance >= a) & (distance < b)].sum(-1) for a, b in zip(edges, edges[1:])]
    return torch.stack(bins, -1) / len(at)


def pair_parts(q, k):
    r"""Turned q, k [T, D] in the half-split layout -> [D/2, T, T]: the part of each pair in q.k / sqrt(D)."""
    q, k = (x.unflatten(-1, (2, -1)) for x in (q, k))  # [T, 2, D/2]
    return torch.einsum("icp,jcp->pij", q, k) / math.sqrt(2 * q.shape[-1])


def with_gap(length, targets, gap):
    r"""Positions [length]: 0, 1, 2, ... with the last `targets` tokens moved on by `gap`."""
    at = torch.arange(length)
    return at + gap * (at >= length - targets)


# How they go wrong


def _without_two_pi(inv_freq, trained):
    return int((inv_freq * (trained - 1) < 1).sum())


def _half_turn(inv_freq, trained):
    return int((inv_freq * (trained - 1) < math.pi).sum())


def _finished(inv_freq, trained):
    return len(inv_freq) - unfinished(inv_freq, trained)


def _lanes(inv_freq, trained):
    return 2 * unfinished(inv_freq, trained)


def _sums_over_queries(weights, edges):
    return weight_by_distance(weights, edges) * weights.shape[-1]


def _mean_over_pairs(weights, edges):
    at = torch.arange(weights.shape[-1])
    distance = at[:, None] - at
    return torch.stack(
        [weights[:, (distance >= a) & (distance < b)].mean(-1) for a, b in zip(edges, edges[1:])], -1
    ).nan_to_num(0.0)


def _forwards(weights, edges):
    return weight_by_distance(weights.transpose(-2, -1), edges)


def _end_included(weights, edges):
    at = torch.arange(weights.shape[-1])
    distance = at[:, None] - at
    bins = [weights[:, (distance >= a) & (distance <= b)].sum(-1) for a, b in zip(edges, edges[1:])]
    return torch.stack(bins, -1) / len(at)


def _neighbors(q, k):
    q, k = (x.unflatten(-1, (-1, 2)) for x in (q, k))
    return torch.einsum("ipc,jpc->pij", q, k) / math.sqrt(2 * q.shape[-2])


def _not_scaled(q, k):
    return pair_parts(q, k) * math.sqrt(q.shape[-1])


def _scaled_by_pairs(q, k):
    return pair_parts(q, k) * math.sqrt(2)


def _first_half(q, k):
    half = q.shape[-1] // 2
    return torch.einsum("ip,jp->pij", q[:, :half], k[:, :half]) / math.sqrt(q.shape[-1])


def _keys_first(q, k):
    return pair_parts(k, q)


def _moves_all(length, targets, gap):
    return torch.arange(length) + gap


def _moves_the_first(length, targets, gap):
    at = torch.arange(length)
    return at + gap * (at < length - targets)


def _one_late(length, targets, gap):
    at = torch.arange(length)
    return at + gap * (at > length - targets)


def _stretches(length, targets, gap):
    at = torch.arange(length)
    return at + gap * (at - (length - targets) + 1).clamp(min=0)


def _weights():
    for heads, length, edges in ((2, 9, [0, 1, 2, 4, 9]), (3, 14, [0, 2, 3, 8])):
        scores = torch.randn(heads, length, length, generator=generator(length))
        mask = torch.ones(length, length, dtype=torch.bool).tril()
        yield scores.masked_fill(~mask, -math.inf).softmax(-1), edges


def _turned():
    for length, dim in ((5, 8), (7, 12)):
        q, k = torch.randn(2, length, dim, generator=generator(dim))
        yield q, k


ON_PAPER = 3  # points

EXERCISES = {
    "unfinished": Exercise(
        title="Exercise 1, unfinished",
        points=1,
        reference=unfinished,
        cases=[(inv_freq(64, 100000.0), 8192), (inv_freq(24, 10000.0), 64), (inv_freq(128, 10000.0), 4096)],
        mistakes={
            "a turn is 2π radians, not one": _without_two_pi,
            "a turn is 2π radians, π is half of it": _half_turn,
            "these are the pairs that do finish a turn": _finished,
            "this counts lanes: a pair has two": _lanes,
        },
    ),
    "weight_by_distance": Exercise(
        title="Exercise 2, weight_by_distance",
        points=2,
        reference=weight_by_distance,
        cases=lambda: list(_weights()),
        tolerance=1e-5,
        mistakes={
            "these are sums over queries: divide by their number": _sums_over_queries,
            "this is the mean weight of a pair: add up each query's weight in the bin": _mean_over_pairs,
            "the distance is query minus key: here the keys stand after the query": _forwards,
            "the end of a bin is counted in two bins: edges[n + 1] belongs to the next": _end_included,
        },
    ),
    "pair_parts": Exercise(
        title="Exercise 3, pair_parts",
        points=2,
        reference=pair_parts,
        cases=lambda: list(_turned()),
        tolerance=1e-5,
        mistakes={
            "these pairs are neighbors: Llama pairs lane p with lane p + D/2": _neighbors,
            "the scale is missing: a score is q.k / sqrt(D)": _not_scaled,
            "the scale is that of D/2 lanes: a head has D": _scaled_by_pairs,
            "the second lane of each pair is missing": _first_half,
            "queries and keys are swapped: rows are queries": _keys_first,
        },
    ),
    "with_gap": Exercise(
        title="Exercise 4, with_gap",
        points=1,
        reference=with_gap,
        cases=[(10, 3, 100), (6, 2, 7), (5, 1, 1)],
        mistakes={
            "all tokens move: then no distance changes": _moves_all,
            "the tokens before the targets move: move the targets": _moves_the_first,
            "one target stays behind": _one_late,
            "the gap grows from target to target: all move by the same": _stretches,
        },
    ),
}
