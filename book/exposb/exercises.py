r"""What the lab ExpoSB asks for, and the wrong answers that its checks recognize."""

import math

import torch

from posenc.lab.check.exercise import Exercise, generator


def lane_filter(head_dim, per_pair):
    """The factor on each lane, a tensor [head_dim] of float64."""
    lane = torch.arange(head_dim).double()
    lane = lane - lane % 2 + 0.5 if per_pair else lane
    center, width = head_dim / 4, head_dim / 8
    bump = torch.exp(-0.5 * ((lane - center) / width) ** 2)
    return 0.8 + 0.4 * bump


def fade_logits(scores, distance, rate, floor):
    """The logits, multiplied by the factor of their distance."""
    return scores * (floor + (1 - floor) * torch.exp(-rate * distance.abs()))


def fade_log(scores, distance, rate, floor):
    """The logits plus the logarithm of the factor of their distance."""
    return scores + (floor + (1 - floor) * torch.exp(-rate * distance.abs())).log()


def hazard_weights(scores, rate):
    """Weights [K] of one query from its logits [K], the nearest key last; rate is lambda."""
    r = torch.nn.functional.softplus(scores) + rate
    nearer = r.flip(0).cumsum(0).flip(0) - r
    return (1 - torch.exp(-r)) * torch.exp(-nearer)


def _half_split(head_dim, per_pair):
    if not per_pair:
        return lane_filter(head_dim, False)
    return lane_filter(head_dim // 2, False).repeat(2) if head_dim % 4 == 0 else lane_filter(head_dim, True).flip(0)


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


ON_PAPER = 3  # points

EXERCISES = {
    "lane_filter": Exercise(
        points=2,
        reference=lane_filter,
        cases=[(16, False), (16, True), (64, True), (6, True), (64, False)],
        tolerance=1e-9,
        mistakes={
            "the bump stands in the middle: its center is D/4": "head_dim / 4 -> head_dim / 2",
            "lanes are counted from 1: the first is 0": "lane - center -> lane + 1 - center",
            "it ignores per_pair: both lanes of a pair must get one factor": "-> lane_filter(head_dim, False)",
            "it pairs lanes i and i + D/2: here a pair is (2i, 2i+1)": _half_split,
            "a pair gets the factor of its first lane: take the middle, 2i + 1/2": "+ 0.5 -> ",
            "the width is not squared": "((lane - center) / width) ** 2 -> (lane - center) ** 2 / width",
        },
        variants=(
            ("the square root of each factor, since q and k both get it", lambda f, *case: f(*case).sqrt()),
            ("all factors are divided by their mean", lambda f, *case: f(*case) / f(*case).mean()),
            ("the natural logarithm of each factor", lambda f, *case: f(*case).log()),
        ),
    ),
    "fade_logits": Exercise(
        points=1,
        reference=fade_logits,
        cases=_faded,
        tolerance=1e-9,
        mistakes={
            "the absolute value is missing: a key after the query gets a factor above 1": ".abs() -> ",
            "it adds the factor: this form multiplies by it": "scores * -> scores +",
            "this is the repaired form: here the factor multiplies the logits": fade_log,
            "the softmax is taken: return logits": "-> torch.softmax(fade_logits(scores, distance, rate, floor), -1)",
            "the floor is missing: the factor falls to it, not to 0": "floor + (1 - floor) * -> ",
            "the floor and the rest are swapped": "floor + (1 - floor) -> 1 - floor + floor",
        },
    ),
    "fade_log": Exercise(
        points=2,
        reference=fade_log,
        cases=_faded,
        tolerance=1e-9,
        mistakes={
            "this is the report's form, which raises negative logits: add the logarithm of the factor": fade_logits,
            "the sign is flipped: the logarithm of a factor below 1 is negative, add it": "scores + -> scores -",
            "this is ALiBi, without the floor": "-> scores - rate * distance.abs()",
            "it adds the factor itself, not its logarithm": ".log() -> ",
            "the absolute value is missing: a key after the query gets a factor above 1": ".abs() -> ",
            "the softmax is taken: return logits": "-> torch.softmax(fade_log(scores, distance, rate, floor), -1)",
        },
    ),
    "hazard_weights": Exercise(
        points=3,
        reference=hazard_weights,
        cases=_rows,
        tolerance=1e-9,
        mistakes={
            "the walk starts at the oldest key: the nearest comes first": "flip(0).cumsum(0).flip(0) -> cumsum(0)",
            "a key survives its own hazard too: sum over the nearer keys only": "flip(0) - r -> flip(0)",
            "the rate is charged by distance: it is added to each key's hazard once": (
                "-> hazard_weights(scores - rate * torch.arange(len(scores) - 1, -1, -1).to(scores.dtype), 0.0)"
            ),
            "the walk never ends by the rate: 1 - exp(-r) has it too": "1 - torch.exp(-r) -> torch.sigmoid(scores)",
            "the rate is left out": " + rate -> ",
            "the rows sum to 1: the rest stays": "-> hazard_weights(scores, rate) / hazard_weights(scores, rate).sum()",
            "the rate is added to the logit: it is added to softplus(z)": "(scores) + rate -> (scores + rate)",
        },
        variants=(
            ("a temperature of 2: logits are halved first", lambda f, scores, rate: f(scores / 2, rate)),
            ("the rate is given as a half-life h: lambda = ln 2 / h", lambda f, z, half: f(z, math.log(2) / half)),
            ("the natural logarithms of the weights", lambda f, *case: f(*case).log()),
        ),
    ),
}
