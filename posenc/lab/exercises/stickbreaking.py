r"""What the lab Stick-breaking asks for, and the wrong answers that its checks recognize."""

import torch
from torch.nn.functional import logsigmoid, softplus

from posenc import stickbreaking
from posenc.lab.exercises.exercise import Exercise, generator


def stick(logits):
    r"""Break a stick of length 1 over the keys of one query, the last key first.

    A_j = beta_j * prod over k > j of (1 - beta_k),  beta = sigmoid(logits)

    Arguments: logits: [n], one number a key, oldest first. Returns: the pieces [n], in the order of the keys.
    Chapter: Stick-breaking.
    """
    return stickbreaking.weigh(logits[None], torch.ones_like(logits, dtype=torch.bool)[None])[0]


def log_weights(logits):
    r"""The logs of the weights of a row, without a loop: log A_j = z_j - sum over k >= j of softplus(z_k).

    Arguments: logits: [..., n], oldest key first. Returns: [..., n]. Chapter: Stick-breaking.
    """
    taken = softplus(logits)
    return logits - taken.flip(-1).cumsum(-1).flip(-1)


def weigh(scores):
    r"""Stick-breaking over the strict past: query i asks the keys i-1, i-2, .. 0.

    Arguments: scores: [..., T, T] logits. Returns: (weights like scores, remainder [..., T]), the remainder being the
    part of the stick that no key took. Chapter: Stick-breaking.
    """
    return stickbreaking.weigh(scores, _past(scores), return_remainder=True)


def jacobian(logits):
    r"""How each weight of a row moves with each logit, G[j, k] = dA_j / dz_k.

    (1 - beta_j) A_j for k = j, -beta_k A_j for the keys k > j that are asked before j, 0 for those behind.

    Arguments: logits: [n], oldest key first. Returns: [n, n]. Chapter: Stick-breaking.
    """
    weights, beta = stick(logits), torch.sigmoid(logits)
    earlier = torch.ones(len(logits), len(logits), dtype=torch.bool).triu(1)
    return torch.where(earlier, -beta[None, :] * weights[:, None], 0.0) + torch.diag((1 - beta) * weights)


def _past(scores, diagonal=-1):
    return torch.ones(scores.shape[-2:], dtype=torch.bool).tril(diagonal)


# Wrong answers: stick


def _loop(logits, order=reversed, bite=torch.sigmoid, lose="bite"):
    pieces, rest = torch.zeros_like(logits), torch.ones((), dtype=logits.dtype)
    for j in order(range(len(logits))):
        beta = bite(logits[j])
        pieces[j] = beta * rest
        rest = rest * (1 - (beta if lose == "bite" else pieces[j])) if lose != "nothing" else rest
    return pieces


def _oldest_first(logits):
    return _loop(logits, order=iter)


def _rest_by_pieces(logits):
    return _loop(logits, lose="piece")


def _stick_never_shorter(logits):
    return _loop(logits, lose="nothing")


def _sign(logits):
    return _loop(logits, bite=lambda z: torch.sigmoid(-z))


def _rest_of_own_first(logits):
    """The stick is shortened by the key's own bite before the key takes its piece."""
    return stick(logits) * (1 - torch.sigmoid(logits))


def _softmax(logits):
    return torch.softmax(logits, dim=-1)


# Wrong answers: log_weights


def _suffix(x):
    return x.flip(-1).cumsum(-1).flip(-1)


def _product_then_log(logits):
    beta = torch.sigmoid(logits)
    left = (1 - beta).flip(-1).cumprod(-1).flip(-1)
    before = torch.cat((left[..., 1:], torch.ones_like(left[..., :1])), dim=-1)
    return torch.log(beta * before)


def _prefix(logits):
    return logits - softplus(logits).cumsum(-1)


def _own_left_out(logits):
    return logits - (_suffix(softplus(logits)) - softplus(logits))


def _own_twice(logits):
    return logsigmoid(logits) - _suffix(softplus(logits))


def _softplus_of_minus(logits):
    return logits - _suffix(softplus(-logits))


def _added(logits):
    return logits + _suffix(softplus(logits))


# Wrong answers: weigh


def _itself_too(scores):
    return stickbreaking.weigh(scores, _past(scores, 0), return_remainder=True)


def _first_order(scores):
    return stickbreaking.weigh(scores, _past(scores), "first", return_remainder=True)


def _future_breaks(scores):
    weights, rest = stickbreaking.weigh(scores, torch.ones_like(scores, dtype=torch.bool), return_remainder=True)
    return weights.masked_fill(~_past(scores), 0.0), rest


def _rest_of_all_keys(scores):
    weights = weigh(scores)[0]
    return weights, logsigmoid(-scores).sum(-1).exp()


def _sum_as_rest(scores):
    weights = weigh(scores)[0]
    return weights, weights.sum(-1)


def _softmax_past(scores):
    weights = torch.softmax(scores.masked_fill(~_past(scores), float("-inf")), dim=-1).nan_to_num()
    return weights, 1 - weights.sum(-1)


# Wrong answers: jacobian


def _transposed(logits):
    return jacobian(logits).T


def _wrong_sign(logits):
    return -jacobian(logits)


def _own_only(logits):
    return torch.diag(jacobian(logits).diagonal())


def _other_bite(logits):
    """The derivative of A_j by z_k with j's own bite in place of that of k."""
    weights, beta = stick(logits), torch.sigmoid(logits)
    earlier = torch.ones(len(logits), len(logits), dtype=torch.bool).triu(1)
    return torch.where(earlier, -(beta * weights)[:, None], 0.0) + torch.diag((1 - beta) * weights)


def _softmax_jacobian(logits):
    a = torch.softmax(logits, dim=-1)
    return torch.diag(a) - a[:, None] * a[None, :]


def _rows(*sizes, seed=0):
    source = generator(seed)
    return [1.5 * torch.randn(*size, generator=source, dtype=torch.float64) for size in sizes]


def _stick_cases():
    return [(torch.tensor([0.8, -1.1, 0.3]),), *((row.float(),) for row in _rows((7,), (1,)))]


def _log_cases():
    loud = torch.full((400,), 3.0)  # the product of 400 of (1 - beta) is far below what float32 can hold
    return [(torch.tensor([0.8, -1.1, 0.3]),), *((row.float(),) for row in _rows((7,), (2, 3, 5))), (loud,)]


def _weigh_cases():
    return [(scores,) for scores in _rows((4, 4), (2, 3, 6, 6), (1, 1))]


def _jacobian_cases():
    return [(row,) for row in _rows((3,), (6,))]


ON_PAPER = 4  # points

EXERCISES = {
    "stick": Exercise(
        title="Exercise 1, stick",
        points=2,
        reference=stick,
        cases=_stick_cases,
        tolerance=1e-5,
        mistakes={
            "you start with the oldest key; the most recent one, the last, is asked first": _oldest_first,
            "the rest is shortened by the piece; it loses the fraction beta of itself, so multiply by 1 - beta": (
                _rest_by_pieces
            ),
            "every key takes from a whole stick; shorten the rest after each bite": _stick_never_shorter,
            "the sign in the sigmoid is flipped: a large logit must take much": _sign,
            "the rest is shortened before the key takes its piece; it takes from what reaches it": _rest_of_own_first,
            "this is the softmax: all keys share at once, nobody is asked first": _softmax,
        },
    ),
    "log_weights": Exercise(
        title="Exercise 2, log_weights",
        points=2,
        reference=log_weights,
        cases=_log_cases,
        tolerance=1e-5,
        mistakes={
            "you multiply first and take the log at the end: the product underflows, and its log is -inf": (
                _product_then_log
            ),
            "the sum runs over the older keys; it must run over those asked before, to the right": _prefix,
            "the sum leaves out the key's own softplus; it starts at k = j": _own_left_out,
            "the key's own softplus is counted twice: log sigmoid already holds it": _own_twice,
            "the softplus is taken of -z; log(1 - sigmoid(z)) = -softplus(z)": _softplus_of_minus,
            "the sign of the sum is flipped: every key asked before makes the stick shorter": _added,
            "this is the logarithm of the softmax": lambda logits: torch.log_softmax(logits, dim=-1),
            "these are the weights, not their logs": lambda logits: log_weights(logits).exp(),
        },
    ),
    "weigh": Exercise(
        title="Exercise 3, weigh",
        points=3,
        reference=weigh,
        cases=_weigh_cases,
        mistakes={
            "the query asks its own key too; strictly past means keys j < i": _itself_too,
            "the order is from key 0 on; the most recent key is asked first": _first_order,
            "keys of the future still break the stick; hide them before the running sum, not only after it": (
                _future_breaks
            ),
            "the remainder is the product over all keys; only those before the query take from it": _rest_of_all_keys,
            "you return what was taken; the remainder is what is left": _sum_as_rest,
            "this is the softmax over the past, which leaves nothing": _softmax_past,
        },
    ),
    "jacobian": Exercise(
        title="Exercise 4, jacobian",
        points=3,
        reference=jacobian,
        cases=_jacobian_cases,
        mistakes={
            "rows and columns are swapped: G[j, k] is dA_j / dz_k": _transposed,
            "the sign is flipped: a key's own logit raises its share": _wrong_sign,
            "only the diagonal is there; a key also lowers the shares of those asked after it": _own_only,
            "the bite of the wrong key: dA_j / dz_k = -beta_k A_j, with the bite of k": _other_bite,
            "this is the softmax's Jacobian": _softmax_jacobian,
        },
    ),
}
