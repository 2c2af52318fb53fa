r"""What the lab RSE asks for, and the wrong answers that its checks recognize."""

import math

import torch

from posenc import alibi, stickbreaking
from posenc.lab.exercises.exercise import Exercise, generator

# What the exercises ask for


def penalize(scores, pos_q, pos_k, rate):
    r"""The logits z_ij = s_ij - rate |pos_q_i - pos_k_j|.

    Arguments: scores: [..., Tq, Tk], scaled products. pos_q: [Tq]. pos_k: [Tk]. rate: lambda, a number per token.
    Returns: like scores. Chapter: RSE.
    """
    return scores + alibi.bias(pos_q, pos_k, torch.tensor([rate], dtype=scores.dtype), symmetric=True)[0]


def stick(logits):
    r"""Break a stick of length 1 over the keys of one query, key 0 first: rest <- rest (1 - beta).

    Arguments: logits: [n]. Returns: (pieces [n], what is left, a number). Chapter: RSE.
    """
    return _broken(logits, "first")


def by_rate(logits, distance):
    r"""How each weight of a row moves with lambda, key 0 first, where logits = content - lambda * distance.

    dA_j / dlambda = A_j (sum over k < j of beta_k d_k - (1 - beta_j) d_j)

    Arguments: logits, distance: [n]. Returns: [n]. Chapter: RSE.
    """
    pieces, beta = stick(logits)[0], torch.sigmoid(logits)
    return pieces * (_before(beta * distance) - (1 - beta) * distance)


def peak(content, rate):
    r"""At which distance the weights of an endless row are largest, key 0 first, all contents equal.

    (content - ln(e^rate - 1)) / rate, or 0 where that is negative: there each step nearer weighs more.

    Arguments: content: the logit at distance 0. rate: lambda, above 0, per token. Returns: a number. Chapter: RSE.
    """
    return max(0.0, (content - math.log(math.expm1(rate))) / rate)


def _broken(logits, order):
    pieces, rest = stickbreaking.weigh(logits[None], torch.ones_like(logits, dtype=torch.bool)[None], order, True)
    return pieces[0], rest[0]


def _before(x):
    """Sums over the keys asked earlier, from key 0 on."""
    return x.cumsum(-1) - x


# Wrong answers: penalize


def _bonus(scores, pos_q, pos_k, rate):
    return penalize(scores, pos_q, pos_k, -rate)


def _one_sided(scores, pos_q, pos_k, rate):
    return scores - rate * (pos_q[:, None] - pos_k[None, :])


def _by_index(scores, pos_q, pos_k, rate):
    return penalize(scores, torch.arange(len(pos_q)), torch.arange(len(pos_k)), rate)


def _multiplied(scores, pos_q, pos_k, rate):
    return scores * penalize(torch.zeros_like(scores), pos_q, pos_k, rate).exp()


def _squared(scores, pos_q, pos_k, rate):
    return scores - rate * (pos_q[:, None] - pos_k[None, :]) ** 2


# Wrong answers: stick


def _recent(logits):
    return _broken(logits, "recent")


def _loop(logits, update):
    beta = torch.sigmoid(logits)
    pieces, rest = torch.zeros_like(logits), torch.ones((), dtype=logits.dtype)
    for j in range(len(logits)):
        pieces[j] = beta[j] * rest
        rest = update(rest, beta, pieces, j)
    return pieces, rest


def _rest_by_piece(logits):
    return _loop(logits, lambda rest, beta, pieces, j: rest * (1 - pieces[j]))


def _rest_by_sum(logits):
    return _loop(logits, lambda rest, beta, pieces, j: rest * (1 - pieces[: j + 1].sum()))


def _one_rest(logits):
    beta = torch.sigmoid(logits)
    return beta, 1 - beta.sum()


def _no_penalty_of_order(logits):
    return torch.softmax(logits, -1), torch.zeros((), dtype=logits.dtype)


def _flipped(logits):
    return _broken(-logits, "first")


def _taken(logits):
    pieces, rest = stick(logits)
    return pieces, 1 - rest


# Wrong answers: by_rate


def _minus(logits, distance):
    return -by_rate(logits, distance)


def _own_only(logits, distance):
    beta = torch.sigmoid(logits)
    return -stick(logits)[0] * (1 - beta) * distance


def _others_behind(logits, distance):
    beta = torch.sigmoid(logits)
    behind = (beta * distance).flip(-1)
    return stick(logits)[0] * (_before(behind).flip(-1) - (1 - beta) * distance)


def _whole_distance(logits, distance):
    beta = torch.sigmoid(logits)
    return stick(logits)[0] * (_before(beta * distance) - distance)


def _of_the_softmax(logits, distance):
    weights = torch.softmax(logits, -1)
    return weights * ((weights * distance).sum() - distance)


def _of_the_log(logits, distance):
    beta = torch.sigmoid(logits)
    return _before(beta * distance) - (1 - beta) * distance


# Wrong answers: peak


def _rate_for_hazard(content, rate):
    return max(0.0, (content - math.log(rate)) / rate)


def _behind_the_query(content, rate):
    return (content - math.log(math.expm1(rate))) / rate


def _content_flipped(content, rate):
    return max(0.0, (-content - math.log(math.expm1(rate))) / rate)


def _per_logit(content, rate):
    return max(0.0, content - math.log(math.expm1(rate)))


def _rows(*sizes, seed=0):
    source = generator(seed)
    return [1.5 * torch.randn(*size, generator=source, dtype=torch.float64) for size in sizes]


def _penalize_cases():
    whole, decoding, shared = _rows((4, 4), (2, 2, 5), (3, 3), seed=1)
    return [
        (whole, torch.arange(4), torch.arange(4), 0.3),
        (decoding, torch.tensor([3, 4]), torch.arange(5), 0.05),
        (shared, torch.tensor([7, 2, 2]), torch.tensor([0, 5, 11]), 1.5),
    ]


def _stick_cases():
    return [(torch.tensor([0.8, -1.1, 0.3]),), *((row.float(),) for row in _rows((7,), (1,)))]


def _rate_cases():
    distances = (torch.tensor([3.0, 2, 1, 0]), torch.tensor([9.0, 8, 4, 1, 0, 1, 5]))
    return [(row, d.double()) for row, d in zip(_rows((4,), (7,), seed=2), distances)]


ON_PAPER = 4  # points

EXERCISES = {
    "penalize": Exercise(
        title="Exercise 1, penalize",
        points=2,
        reference=penalize,
        cases=_penalize_cases,
        mistakes={
            "the sign is flipped: a key far away must lose, not gain": _bonus,
            "the absolute value is missing: keys after the query get a bonus": _one_sided,
            "the distance is that of the indices; use the positions that are given": _by_index,
            "the scores are multiplied; the penalty is subtracted": _multiplied,
            "the distance is squared; the penalty is linear": _squared,
        },
    ),
    "stick": Exercise(
        title="Exercise 2, stick",
        points=3,
        reference=stick,
        cases=_stick_cases,
        tolerance=1e-5,
        mistakes={
            "you start with the last key; in this order key 0 is asked first": _recent,
            "the rest is shortened by the piece; it loses the fraction beta of itself, so multiply by 1 - beta": (
                _rest_by_piece
            ),
            "the rest is multiplied by 1 minus the sum of the pieces; multiply it by 1 - beta": _rest_by_sum,
            "all keys take from one rest, the whole stick; shorten it after each bite": _one_rest,
            "this is the softmax, the report's fallback: all keys share at once, and nothing is left": (
                _no_penalty_of_order
            ),
            "the sign in the sigmoid is flipped: a large logit must take much": _flipped,
            "you return what was taken; the second value is what is left": _taken,
        },
    ),
    "by_rate": Exercise(
        title="Exercise 3, by_rate",
        points=3,
        reference=by_rate,
        cases=_rate_cases,
        mistakes={
            "the sign is flipped: the first key loses when lambda grows": _minus,
            "only the key's own logit is there; a penalty on the keys asked before leaves it more of the stick": (
                _own_only
            ),
            "the sum runs over the keys behind; those asked before leave more": _others_behind,
            "the key's own term lacks its factor 1 - beta": _whole_distance,
            "this is the softmax's: distance minus its mean": _of_the_softmax,
            "this is the derivative of log A_j; multiply by A_j": _of_the_log,
        },
    ),
    "peak": Exercise(
        title="Exercise 4, peak",
        points=2,
        reference=peak,
        cases=[(0.0, 0.5), (1.0, 0.1), (-2.0, 1.2), (2.0, 0.7)],
        mistakes={
            "rate stands for e^rate - 1, which holds for small rates only": _rate_for_hazard,
            "no distance is negative: where the formula is, the nearest key has most, at distance 0": (
                _behind_the_query
            ),
            "the sign of the content is flipped: louder keys use the stick up earlier, farther away": _content_flipped,
            "these are logits; divide by the rate to get tokens": _per_logit,
        },
    ),
}
