r"""What the lab RSE asks for, and the wrong answers that its checks recognize."""

import math

import torch

from posenc.chapters.stickbreaking.exercises import rows, stick_cases
from posenc.lab.check.exercise import Exercise


def penalize(scores, pos_q, pos_k, rate):
    """Logits: scores [..., Tq, Tk], pos_q [Tq], pos_k [Tk], rate a number -> [..., Tq, Tk]."""
    return scores - rate * (pos_q[:, None] - pos_k[None, :]).abs()


def stick(logits):
    """Pieces of a stick, key 0 first, and what is left: logits [n] -> (pieces [n], a number)."""
    pieces, rest = [], torch.ones((), dtype=logits.dtype)
    for z in logits:
        bite = torch.sigmoid(z)
        pieces.append(bite * rest)
        rest = rest * (1 - bite)
    return torch.stack(pieces), rest


def by_rate(logits, distance):
    """dA_j / dlambda, key 0 first: logits [n], distance [n] -> [n]."""
    pieces, beta = stick(logits)[0], torch.sigmoid(logits)
    gained = torch.cumsum(beta * distance, 0) - beta * distance  # over the keys asked before
    return pieces * (gained - (1 - beta) * distance)


def peak(content, rate):
    """The distance, at least 0, at which an endless row of equal contents has its largest weight."""
    return max(0.0, (content - math.log(math.expm1(rate))) / rate)


def _penalize_cases():
    whole, decoding, shared = rows((4, 4), (2, 2, 5), (3, 3), seed=1)
    return [
        (whole, torch.arange(4), torch.arange(4), 0.3),
        (decoding, torch.tensor([3, 4]), torch.arange(5), 0.05),
        (shared, torch.tensor([7, 2, 2]), torch.tensor([0, 5, 11]), 1.5),
    ]


def _rate_cases():
    distances = (torch.tensor([3.0, 2, 1, 0]), torch.tensor([9.0, 8, 4, 1, 0, 1, 5]))
    return [(row, d.double()) for row, d in zip(rows((4,), (7,), seed=2), distances)]


ON_PAPER = 4  # points

CASES = {"peak": [(0.0, 0.5), (1.0, 0.1), (-2.0, 1.2), (2.0, 0.7)]}

MISTAKES = {
    "penalize": {
        "the sign is flipped: a key far away must lose, not gain": "scores - -> scores +",
        "the absolute value is missing: keys after the query get a bonus": ".abs() -> ",
        "the distance is that of the indices; use the positions that are given": (
            "-> penalize(scores, torch.arange(len(pos_q)), torch.arange(len(pos_k)), rate)"
        ),
        "the scores are multiplied; the penalty is subtracted": (
            "scores - rate * -> scores * torch.exp(-rate *",
            ".abs() -> .abs())",
        ),
        "the distance is squared; the penalty is linear": "abs() -> square()",
    },
    "stick": {
        "you start with the last key; in this order key 0 is asked first": (
            "in logits -> in logits.flip(0)",
            "stack(pieces) -> stack(pieces[::-1])",
        ),
        "the rest is shortened by the piece; it loses the fraction beta of itself, so multiply by 1 - beta": (
            "1 - bite -> 1 - pieces[-1]"
        ),
        "the rest is multiplied by 1 minus the sum of the pieces; multiply it by 1 - beta": (
            "1 - bite -> 1 - sum(pieces)"
        ),
        "all keys take from one rest, the whole stick; shorten it after each bite": (
            "-> (torch.sigmoid(logits), 1 - torch.sigmoid(logits).sum())"
        ),
        "this is the softmax, the report's fallback: all keys share at once, and nothing is left": (
            "-> (torch.softmax(logits, -1), torch.zeros((), dtype=logits.dtype))"
        ),
        "the sign in the sigmoid is flipped: a large logit must take much": "-> stick(-logits)",
        "you return what was taken; the second value is what is left": "(pieces), rest -> (pieces), 1 - rest",
    },
    "by_rate": {
        "the sign is flipped: the first key loses when lambda grows": "return pieces -> return -pieces",
        "only the key's own logit is there; a penalty on the keys asked before leaves it more of the stick": (
            "gained - (1 -> -(1"
        ),
        "the sum runs over the keys behind; those asked before leave more": (
            "torch.cumsum(beta * distance, 0) -> torch.cumsum((beta * distance).flip(0), 0).flip(0)"
        ),
        "the key's own term lacks its factor 1 - beta": "(1 - beta) * distance -> distance",
        "this is the softmax's: distance minus its mean": (
            "-> torch.softmax(logits, -1) * ((torch.softmax(logits, -1) * distance).sum() - distance)"
        ),
        "this is the derivative of log A_j; multiply by A_j": "return pieces * -> return",
    },
    "peak": {
        "rate stands for e^rate - 1, which holds for small rates only": "math.expm1(rate) -> rate",
        "no distance is negative: where the formula is, the nearest key has most, at distance 0": (
            "-> (content - math.log(math.expm1(rate))) / rate"
        ),
        "the sign of the content is flipped: louder keys use the stick up earlier, farther away": (
            "(content -> (-content"
        ),
        "these are logits; divide by the rate to get tokens": " / rate -> ",
    },
}

PENALTIES = (
    ("the rate is given as a half-life h: lambda = ln 2 / h", lambda f, *z: f(*z[:3], math.log(2) / z[3])),
    ("a temperature of 2: scores are halved, the penalty is not", lambda f, scores, *how: f(scores / 2, *how)),
    ("logits to base 2: the result is divided by ln 2", lambda f, *case: f(*case) / math.log(2)),
)
STICKS = (
    ("the stick is 2 long", lambda f, logits: tuple(2 * part for part in f(logits))),
    ("a bite is 1 / (1 + 2^-z)", lambda f, logits: f(math.log(2) * logits)),
    ("a bite is the sigmoid of the logit minus 1", lambda f, logits: f(logits - 1)),
)

# reference, cases, tolerance, points, mistakes
EXERCISES = {
    "penalize": Exercise(penalize, _penalize_cases, 1e-6, 2, MISTAKES["penalize"], variants=PENALTIES),
    "stick": Exercise(stick, stick_cases, 1e-5, 3, MISTAKES["stick"], variants=STICKS),
    "by_rate": Exercise(by_rate, _rate_cases, 1e-6, 3, MISTAKES["by_rate"]),
    "peak": Exercise(peak, CASES["peak"], 1e-6, 2, MISTAKES["peak"]),
}
