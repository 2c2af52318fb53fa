r"""What the lab ExpoSB asks for, and the wrong answers that its checks recognize."""

import torch
from torch.nn.functional import softplus

from posenc import exposb
from posenc.lab.exercises.exercise import Exercise, generator

# What the exercises ask for


def lane_filter(head_dim, per_pair):
    r"""The factor on each lane [D], one for both lanes of a pair where `per_pair`. Chapter: ExpoSB."""
    return exposb.band(head_dim, per_pair)


def fade_logits(scores, distance, rate, floor):
    r"""The report's form: logits times floor + (1 - floor) exp(-rate |distance|). Chapter: ExpoSB."""
    return scores * exposb.fade(distance, rate, floor)


def fade_log(scores, distance, rate, floor):
    r"""The repaired form: the logarithm of the same factor, added to the logits. Chapter: ExpoSB."""
    return scores + exposb.fade(distance, rate, floor).log()


def hazard_weights(scores, rate):
    r"""Weights of one query over the keys of its past, nearest last: [K] from logits [K], by hazards.

    A_j = (1 - exp(-r_j)) exp(-sum of r_k over the keys k nearer than j),  r = softplus(z) + rate. Chapter: ExpoSB.
    """
    return exposb.hazard(scores[None], torch.ones(1, len(scores), dtype=torch.bool), rate)[0]


# How they go wrong


def _bump(lane, head_dim, center, width):
    return 0.8 + 0.4 * torch.exp(-((lane - center) ** 2) / (2 * width**2))


def _lanes(head_dim, per_pair):
    lane = torch.arange(head_dim, dtype=torch.float64)
    return 2 * (lane // 2) + 0.5 if per_pair else lane


def _middle(head_dim, per_pair):
    return _bump(_lanes(head_dim, per_pair), head_dim, head_dim / 2, head_dim / 8)


def _from_one(head_dim, per_pair):
    return _bump(_lanes(head_dim, per_pair) + 1, head_dim, head_dim / 4, head_dim / 8)


def _never_per_pair(head_dim, per_pair):
    return exposb.band(head_dim, False)


def _half_split(head_dim, per_pair):
    if not per_pair:
        return exposb.band(head_dim)
    return exposb.band(head_dim // 2).repeat(2) if head_dim % 4 == 0 else exposb.band(head_dim, True).flip(0)


def _first_of_the_pair(head_dim, per_pair):
    lane = _lanes(head_dim, per_pair) - (0.5 if per_pair else 0)
    return _bump(lane, head_dim, head_dim / 4, head_dim / 8)


def _width_not_squared(head_dim, per_pair):
    lane = _lanes(head_dim, per_pair)
    return 0.8 + 0.4 * torch.exp(-((lane - head_dim / 4) ** 2) / (2 * (head_dim / 8)))


def _factor(distance, rate, floor):
    return exposb.fade(distance, rate, floor)


def _no_abs(scores, distance, rate, floor):
    return scores * (floor + (1 - floor) * torch.exp(-rate * distance))


def _adds(scores, distance, rate, floor):
    return scores + _factor(distance, rate, floor)


def _log_of_it(scores, distance, rate, floor):
    return fade_log(scores, distance, rate, floor)


def _softmaxed(scores, distance, rate, floor):
    return torch.softmax(fade_logits(scores, distance, rate, floor), -1)


def _no_floor(scores, distance, rate, floor):
    return scores * torch.exp(-rate * distance.abs())


def _floor_and_rest_swapped(scores, distance, rate, floor):
    return scores * _factor(distance, rate, 1 - floor)


def _multiplies(scores, distance, rate, floor):
    return fade_logits(scores, distance, rate, floor)


def _minus_log(scores, distance, rate, floor):
    return scores - _factor(distance, rate, floor).log()


def _alibi(scores, distance, rate, floor):
    return scores - rate * distance.abs()


def _log_no_abs(scores, distance, rate, floor):
    return scores + (floor + (1 - floor) * torch.exp(-rate * distance)).log()


def _log_softmaxed(scores, distance, rate, floor):
    return torch.softmax(fade_log(scores, distance, rate, floor), -1)


def _hazards(scores, rate):
    return softplus(scores) + rate


def _after(r):
    """Sum of the entries behind each."""
    return torch.cat((r[1:], r.new_zeros(1))).flip(0).cumsum(0).flip(0)


def _oldest_first(scores, rate):
    return hazard_weights(scores.flip(0), rate).flip(0)


def _own_too(scores, rate):
    r = _hazards(scores, rate)
    return -torch.expm1(-r) * torch.exp(-r.flip(0).cumsum(0).flip(0))


def _rate_by_distance(scores, rate):
    return hazard_weights(scores - rate * torch.arange(len(scores) - 1, -1, -1).to(scores.dtype), 0.0)


def _rate_ends_nothing(scores, rate):
    r = _hazards(scores, rate)
    return torch.sigmoid(scores) * torch.exp(-_after(r))


def _no_rate(scores, rate):
    return hazard_weights(scores, 0.0)


def _normalized(scores, rate):
    weights = hazard_weights(scores, rate)
    return weights / weights.sum()


def _rate_in_the_logit(scores, rate):
    return hazard_weights(scores + rate, 0.0)


# The cases


def _faded():
    g = generator(11)
    for shape, rate, floor in (((5, 7), 0.05, 0.7), ((3, 3), 0.5, 0.2), ((1, 9), 0.01, 0.4)):
        scores = 2 * torch.randn(*shape, generator=g, dtype=torch.float64)
        positions = torch.arange(shape[1], dtype=torch.float64) * 3
        distance = positions[-shape[0] :, None] - positions[None, :] - 4.0  # of both signs
        yield scores, distance, rate, floor


def _rows():
    g = generator(12)
    for count, rate in ((6, 0.1), (3, 1.5), (11, 0.02)):
        yield torch.randn(count, generator=g, dtype=torch.float64) - 0.5, rate


# What an answer on paper is worth; a person grades it.
ON_PAPER = 3

EXERCISES = {
    "lane_filter": Exercise(
        title="Exercise 1, lane_filter",
        points=2,
        reference=lane_filter,
        cases=[(16, False), (16, True), (64, True), (6, True), (64, False)],
        tolerance=1e-9,
        mistakes={
            "the bump stands in the middle: its center is D/4": _middle,
            "lanes are counted from 1: the first is 0": _from_one,
            "it ignores per_pair: both lanes of a pair must get one factor": _never_per_pair,
            "it pairs lanes i and i + D/2: here a pair is (2i, 2i+1)": _half_split,
            "a pair gets the factor of its first lane: take the middle, 2i + 1/2": _first_of_the_pair,
            "the width is not squared": _width_not_squared,
        },
    ),
    "fade_logits": Exercise(
        title="Exercise 2, fade_logits",
        points=1,
        reference=fade_logits,
        cases=lambda: list(_faded()),
        tolerance=1e-9,
        mistakes={
            "the absolute value is missing: a key after the query gets a factor above 1": _no_abs,
            "it adds the factor: this form multiplies by it": _adds,
            "this is the repaired form: here the factor multiplies the logits": _log_of_it,
            "the softmax is taken already: return logits": _softmaxed,
            "the floor is missing: the factor falls to it, not to 0": _no_floor,
            "the floor and the rest are swapped": _floor_and_rest_swapped,
        },
    ),
    "fade_log": Exercise(
        title="Exercise 3, fade_log",
        points=2,
        reference=fade_log,
        cases=lambda: list(_faded()),
        tolerance=1e-9,
        mistakes={
            "this is the report's form, which raises negative logits: add the logarithm of the factor": _multiplies,
            "the sign is flipped: the logarithm of a factor below 1 is negative, add it": _minus_log,
            "this is ALiBi, without the floor": _alibi,
            "it adds the factor itself, not its logarithm": _adds,
            "the absolute value is missing: a key after the query gets a factor above 1": _log_no_abs,
            "the softmax is taken already: return logits": _log_softmaxed,
        },
    ),
    "hazard_weights": Exercise(
        title="Exercise 4, hazard_weights",
        points=3,
        reference=hazard_weights,
        cases=lambda: list(_rows()),
        tolerance=1e-9,
        mistakes={
            "the walk starts at the oldest key: the nearest one, the last, comes first": _oldest_first,
            "a key survives its own hazard too: sum over the nearer keys only": _own_too,
            "the rate is charged by distance: it is added to each key's hazard once": _rate_by_distance,
            "the walk never ends by the rate: it belongs into 1 - exp(-r) too": _rate_ends_nothing,
            "the rate is left out": _no_rate,
            "rows are normalized: what is left over stays left over": _normalized,
            "the rate is added to the logit: it is added to softplus(z)": _rate_in_the_logit,
        },
    ),
}
