r"""What the lab Stick-breaking asks for, and the wrong answers that its checks recognize."""

import math

import torch

from posenc.lab.check.exercise import Exercise, generator


def stick(logits):
    """Pieces of a stick, one a key: logits [n], oldest first -> [n]."""
    pieces = torch.zeros_like(logits)
    rest = 1.0
    for j in reversed(range(len(logits))):
        bite = torch.sigmoid(logits[j])
        pieces[j] = bite * rest
        rest = rest * (1 - bite)
    return pieces


def log_weights(logits):
    """Logs of the pieces: logits [..., n], oldest first -> [..., n]."""
    softplus = torch.nn.functional.softplus(logits)
    return logits - softplus.flip(-1).cumsum(-1).flip(-1)


def weigh(scores):
    """Stick-breaking over the strict past: scores [..., T, T] -> (weights [..., T, T], remainder [..., T])."""
    length = scores.shape[-1]
    past = torch.ones(length, length, dtype=torch.bool, device=scores.device).tril(-1)
    softplus = torch.nn.functional.softplus(scores).masked_fill(~past, 0.0)
    log_a = scores - softplus.flip(-1).cumsum(-1).flip(-1)
    return log_a.masked_fill(~past, float("-inf")).exp(), (-softplus.sum(-1)).exp()


def jacobian(logits):
    """G[j, k] = dA_j / dz_k for a row of logits [n], oldest first -> [n, n]."""
    weights, beta = stick(logits), torch.sigmoid(logits)
    asked_before = torch.ones(len(logits), len(logits), dtype=torch.bool).triu(1)  # k > j
    lowered = -beta[None, :] * weights[:, None]
    return torch.where(asked_before, lowered, 0.0) + torch.diag((1 - beta) * weights)


def _product_then_log(logits):
    beta = torch.sigmoid(logits)
    left = (1 - beta).flip(-1).cumprod(-1).flip(-1)
    before = torch.cat((left[..., 1:], torch.ones_like(left[..., :1])), dim=-1)
    return torch.log(beta * before)


def rows(*sizes, seed=0):
    source = generator(seed)
    return [1.5 * torch.randn(*size, generator=source, dtype=torch.float64) for size in sizes]


def stick_cases():
    return [(torch.tensor([0.8, -1.1, 0.3]),), *((row.float(),) for row in rows((7,), (1,)))]


def _log_cases():
    loud = torch.full((400,), 3.0)  # the product of 400 of (1 - beta) is far below what float32 can hold
    return [(torch.tensor([0.8, -1.1, 0.3]),), *((row.float(),) for row in rows((7,), (2, 3, 5))), (loud,)]


def _weigh_cases():
    return [(scores,) for scores in rows((4, 4), (2, 3, 6, 6), (1, 1))]


def _jacobian_cases():
    return [(row,) for row in rows((3,), (6,))]


ON_PAPER = 4  # points

MISTAKES = {
    "stick": {
        "you start with the oldest key; the most recent one, the last, is asked first": (
            "reversed(range(len(logits))) -> range(len(logits))"
        ),
        "the rest is shortened by the piece; it loses the fraction beta of itself, so multiply by 1 - beta": (
            "1 - bite -> 1 - pieces[j]"
        ),
        "every key takes from a whole stick; shorten the rest after each bite": "rest * (1 - bite) -> rest",
        "the sign in the sigmoid is flipped: a large logit must take much": "sigmoid(logits -> sigmoid(-logits",
        "the rest is shortened before the key takes its piece; it takes from what reaches it": (
            "bite * rest -> bite * rest * (1 - bite)"
        ),
        "this is the softmax: all keys share at once, nobody is asked first": "-> torch.softmax(logits, dim=-1)",
    },
    "log_weights": {
        "you multiply first and take the log at the end: the product underflows, and its log is -inf": (
            _product_then_log
        ),
        "the sum runs over the older keys; it must run over those asked before, to the right": (
            "softplus.flip(-1).cumsum(-1).flip(-1) -> softplus.cumsum(-1)"
        ),
        "the sum leaves out the key's own softplus; it starts at k = j": "logits - -> logits + softplus -",
        "the key's own softplus is counted twice: log sigmoid already holds it": "logits - -> logits - softplus -",
        "the softplus is taken of -z; log(1 - sigmoid(z)) = -softplus(z)": "softplus(logits) -> softplus(-logits)",
        "the sign of the sum is flipped: every key asked before makes the stick shorter": "logits - -> logits +",
        "this is the logarithm of the softmax": "-> torch.log_softmax(logits, dim=-1)",
        "these are the weights, not their logs": "-> log_weights(logits).exp()",
    },
    "weigh": {
        "the query asks its own key too; strictly past means keys j < i": "tril(-1) -> tril()",
        "the order is from key 0 on; the most recent key is asked first": (
            "softplus.flip(-1).cumsum(-1).flip(-1) -> softplus.cumsum(-1)"
        ),
        "keys of the future still break the stick; hide them before the running sum, not only after it": (
            "softplus(scores).masked_fill(~past, 0.0) -> softplus(scores)"
        ),
        "the remainder is the product over all keys; only those before the query take from it": (
            "-softplus.sum(-1) -> -torch.nn.functional.softplus(scores).sum(-1)"
        ),
        "you return what was taken; the remainder is what is left": (
            "(-softplus.sum(-1)).exp() -> 1 - (-softplus.sum(-1)).exp()"
        ),
        "this is the softmax over the past, which leaves nothing": (
            'log_a = -> a = scores.masked_fill(~past, float("-inf")).softmax(-1).nan_to_num()\n    log_a =',
            'log_a.masked_fill(~past, float("-inf")).exp(), (-softplus.sum(-1)).exp() -> a, 1 - a.sum(-1)',
        ),
    },
    "jacobian": {
        "rows and columns are swapped: G[j, k] is dA_j / dz_k": "-> jacobian(logits).T",
        "the sign is flipped: a key's own logit raises its share": "-> -jacobian(logits)",
        "only the diagonal is there; a key also lowers the shares of those asked after it": (
            "-> jacobian(logits).diagonal().diag()"
        ),
        "the bite of the wrong key: dA_j / dz_k = -beta_k A_j, with the bite of k": (
            "-beta[None, :] * weights[:, None] -> -(beta * weights)[:, None]"
        ),
        "this is the softmax's Jacobian": (
            "-> logits.softmax(-1).diag() - torch.outer(logits.softmax(-1), logits.softmax(-1))"
        ),
    },
}

_LOGITS = (
    ("a temperature of 2: logits are halved first", lambda f, logits: f(logits / 2)),
    ("a bite is the sigmoid of the logit minus 1", lambda f, logits: f(logits - 1)),
)
STICKS = (*_LOGITS, ("the stick is 2 long", lambda f, logits: 2 * f(logits)))
LOGS = (*_LOGITS, ("logarithms to base 2", lambda f, logits: f(logits) / math.log(2)))

# reference, cases, tolerance, points, mistakes
EXERCISES = {
    "stick": Exercise(stick, stick_cases, 1e-5, 2, MISTAKES["stick"], variants=STICKS),
    "log_weights": Exercise(log_weights, _log_cases, 1e-5, 2, MISTAKES["log_weights"], variants=LOGS),
    "weigh": Exercise(weigh, _weigh_cases, 1e-6, 3, MISTAKES["weigh"]),
    "jacobian": Exercise(jacobian, _jacobian_cases, 1e-6, 3, MISTAKES["jacobian"]),
}
