r"""Exercises of the lab *One model, five encodings*."""

import math

import torch

from posenc.lab.exercises.exercise import Exercise, generator

# What the exercises ask for


def project(x, p, w_q, w_k, w_v):
    r"""The report's *absolute*: x, p [T, C], weights [C, C] -> q, k, v [T, C], with p in queries and keys alone."""
    return (x + p) @ w_q.T, (x + p) @ w_k.T, x @ w_v.T


def never_trained(before, after, kept):
    r"""Which rows of a table [N, C] only decayed: N booleans, True where `after` is `kept` times `before`."""
    return torch.isclose(after, kept * before, rtol=1e-4, atol=1e-7).all(-1)


def paired_interval(a, b, t):
    r"""(mean, half of the interval's width) of a - b, one number a seed each, with Student's t given."""
    differences = torch.as_tensor(a).double() - torch.as_tensor(b).double()
    return differences.mean().item(), t * differences.std().item() / math.sqrt(len(differences))


def became(mean, half, tolerance):
    r"""What became of the prediction of a rise: "came true", "failed" or "not decided"."""
    if mean - half > tolerance:
        return "came true"
    return "failed" if mean + half <= tolerance else "not decided"


# How they go wrong


def _values_too(x, p, w_q, w_k, w_v):
    return tuple((x + p) @ w.T for w in (w_q, w_k, w_v))


def _after(x, p, w_q, w_k, w_v):
    return x @ w_q.T + p, x @ w_k.T + p, x @ w_v.T


def _queries_alone(x, p, w_q, w_k, w_v):
    return (x + p) @ w_q.T, x @ w_k.T, x @ w_v.T


def _not_transposed(x, p, w_q, w_k, w_v):
    return (x + p) @ w_q, (x + p) @ w_k, x @ w_v


def _no_position(x, p, w_q, w_k, w_v):
    return x @ w_q.T, x @ w_k.T, x @ w_v.T


def _unchanged(before, after, kept):
    return (before == after).all(-1)


def _any_entry(before, after, kept):
    return torch.isclose(after, kept * before, rtol=1e-4, atol=1e-7).any(-1)


def _trained(before, after, kept):
    return ~never_trained(before, after, kept)


def _small(before, after, kept):
    sizes = after.square().mean(-1).sqrt()
    return sizes < sizes.mean()


def _unpaired(a, b, t):
    a, b = torch.as_tensor(a).double(), torch.as_tensor(b).double()
    return (a.mean() - b.mean()).item(), t * math.sqrt((a.var() + b.var()).item() / len(a))


def _population(a, b, t):
    mean, half = paired_interval(a, b, t)
    return mean, half * math.sqrt((len(a) - 1) / len(a))


def _no_root(a, b, t):
    mean, half = paired_interval(a, b, t)
    return mean, half * math.sqrt(len(a))


def _other_way(a, b, t):
    return paired_interval(b, a, t)


def _whole_width(a, b, t):
    mean, half = paired_interval(a, b, t)
    return mean, 2 * half


def _by_the_mean(mean, half, tolerance):
    return "came true" if mean > tolerance else "failed"


def _against_zero(mean, half, tolerance):
    return became(mean, half, 0.0)


def _failed_unless_held(mean, half, tolerance):
    return "came true" if mean - half > tolerance else "failed"


def _upper_end(mean, half, tolerance):
    return "came true" if mean + half > tolerance else "failed"


def _inputs():
    for length, dim in ((4, 6), (7, 3)):
        draws = generator(10 * length + dim)
        yield (
            *(torch.randn(length, dim, generator=draws) for _ in range(2)),
            *(torch.randn(dim, dim, generator=draws) for _ in range(3)),
        )


def _tables():
    for rows, dim, trained, kept in ((9, 4, 3, 0.9), (12, 5, 8, 0.75)):
        draws = generator(rows)
        before = torch.randn(rows, dim, generator=draws)
        after = kept * before
        after[:trained] += 0.3 * torch.randn(trained, dim, generator=draws)
        after[trained - 1] = kept * before[trained - 1]
        after[trained - 1, 1] += 0.01  # one entry of it alone has learned
        after[-1] *= 1 + 1e-6  # rounding
        yield before, after, kept


def _seeds():
    for count, t in ((5, 2.776), (3, 4.303)):
        draws = generator(count)
        shared = torch.randn(count, generator=draws, dtype=torch.float64)  # seeds that are good or bad for both
        noise = 0.1 * torch.randn(2, count, generator=draws, dtype=torch.float64)
        yield (2 + shared + noise[0]).tolist(), (1.5 + shared + noise[1]).tolist(), t


ON_PAPER = 3  # points

EXERCISES = {
    "project": Exercise(
        title="Exercise 1, project",
        points=1,
        reference=project,
        cases=lambda: list(_inputs()),
        tolerance=1e-5,
        mistakes={
            "the values have a position too: that is the report's standard": _values_too,
            "position is added after the projection: add it to what is projected": _after,
            "the keys have no position": _queries_alone,
            "the weights are stored transposed: q = x @ w_q.T": _not_transposed,
            "the position is missing": _no_position,
        },
    ),
    "never_trained": Exercise(
        title="Exercise 2, never_trained",
        points=2,
        reference=never_trained,
        cases=lambda: list(_tables()),
        mistakes={
            "rows that did not change at all: weight decay shrinks the others too": _unchanged,
            "one entry of a row decides: all of them must have decayed alone": _any_entry,
            "these are the rows that did train": _trained,
            "small rows are not the same as untrained ones: compare with before": _small,
        },
    ),
    "paired_interval": Exercise(
        title="Exercise 3, paired_interval",
        points=2,
        reference=paired_interval,
        cases=lambda: list(_seeds()),
        tolerance=1e-5,
        mistakes={
            "the seeds are not paired: take differences first, seed by seed": _unpaired,
            "the standard deviation divides by n: a sample's divides by n - 1": _population,
            "this is the spread of one seed: the mean's is smaller by the root of n": _no_root,
            "the sign is flipped: a - b": _other_way,
            "this is the whole width: half of it is asked for": _whole_width,
        },
    ),
    "became": Exercise(
        title="Exercise 4, became",
        points=1,
        reference=became,
        cases=[(1.3, 0.2, 0.05), (0.0, 0.01, 0.05), (0.2, 0.48, 0.05), (0.06, 0.02, 0.05), (0.04, 0.02, 0.05)]
        + [(0.03, 0.01, 0.05), (-0.2, 0.1, 0.05)],
        mistakes={
            "the mean alone decides nothing: the interval does": _by_the_mean,
            "a rise is more than the tolerance, not more than zero": _against_zero,
            "an interval with the tolerance in it leaves it open": _failed_unless_held,
            "the upper end alone decides: all of the interval must lie above": _upper_end,
        },
    ),
}
