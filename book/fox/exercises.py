r"""What the lab FoX asks for, and the wrong answers that its checks recognize."""

import math

import torch
from torch.nn.functional import logsigmoid

from posenc.bias.alibi import slopes
from posenc.lab.check.exercise import Exercise, generator


def log_forget(x, weight, bias):
    """Log f of each token, a head each: x [..., T, C], weight [H, C], bias [H] -> [..., H, T], float32."""
    logits = (x @ weight.transpose(0, 1) + bias).float()  # [..., T, H]
    return torch.nn.functional.logsigmoid(logits).transpose(-2, -1)


LOG_FORGET = {
    "the sigmoid of a logit far below zero is 0, and its log is -inf: take both at once, with logsigmoid": (
        "torch.nn.functional.logsigmoid(logits) -> logits.sigmoid().log()"
    ),
    "these are the gates, not their logs": "torch.nn.functional.logsigmoid(logits) -> logits.sigmoid()",
    "the sign of the logit is flipped: this is log (1 - f), so a large logit would close the door": (
        "logsigmoid(logits) -> logsigmoid(-logits)"
    ),
    "the sign is flipped: f is below 1, so its log is negative": "return torch -> return -torch",
    "the bias is missing: add b, one number a head": " + bias -> ",
    "the heads stand last: swap the last two axes, [..., H, T]": ".transpose(-2, -1) -> ",
    "the gates stay in the half precision of x: make the logits float32 before the sigmoid": ".float() -> ",
}


def decay(log_forget):
    """What is added to the logits: log_forget [..., T] -> [..., T, T], float32, -inf for keys after the query."""
    length = log_forget.shape[-1]
    c = log_forget.float().cumsum(-1)
    later = torch.ones(length, length, dtype=torch.bool, device=c.device).triu(1)
    return (c[..., :, None] - c[..., None, :]).masked_fill(later, float("-inf"))


DECAY = {
    "the key's own gate is in the sum, c_i - c_(j-1): a door closes on what was before it, so the diagonal is 0": (
        "-> decay(log_forget) + log_forget.float()[..., None, :]"
    ),
    "the sum runs over l = j .. i - 1: it starts after the key and ends with the query, l = j + 1 .. i": (
        "cumsum(-1) -> cumsum(-1) - log_forget.float()"
    ),
    "the sign is flipped: it is c_i - c_j, and c falls, so an old key loses": (
        "c[..., :, None] - c[..., None, :] -> c[..., None, :] - c[..., :, None]"
    ),
    "the future is not hidden: above the diagonal stands -inf": '.masked_fill(later, float("-inf")) -> ',
    "the future stands at 0, which hides nothing: above the diagonal stands -inf": 'float("-inf") -> 0.0',
    "the logs are multiplied: gates multiply, so their logs add up, with cumsum": "cumsum -> cumprod",
    "these are the products of the gates: leave them as logs": "-> decay(log_forget).exp()",
    "rows and columns are swapped: a row belongs to a query, [..., i, j]": "-> decay(log_forget).mT",
    "the sum is kept in the half precision of the input: make it float32 before cumsum": ".float() -> ",
    "it is made float32 after cumsum, when the digits are gone: do it before": (
        "float().cumsum(-1) -> cumsum(-1).float()"
    ),
}


def alibi_gate(slope):
    """The gate f that every token has in a head of this slope: [H] -> [H]."""
    return (-slope).exp()


ALIBI_GATE = {
    "the sign is flipped: e^m is above 1, and a gate forgets": "-slope -> slope",
    "1 - m is e^(-m) to first order only, and below 0 for a slope above 1": "-> 1 - slope",
    "this is the slope: the gate is the number whose log is -m": "-> slope.clone()",
    "this is the log of the gate, not the gate": "-> -slope",
    "the base is e, not 2: ALiBi's penalty is subtracted from a logit": "-> 2.0**-slope",
    "the slope is no logit: -m is log f itself, so no sigmoid is left to take": "exp() -> sigmoid()",
    "1 - e^(-m) is what a gate takes away": "-> 1 - torch.exp(-slope)",
}


def next_decay(c, log_forget):
    """One step: c [..., n], log_forget [...] -> (the new query's row of the decay [..., n + 1], c [..., n + 1])."""
    newest = c[..., -1] + log_forget
    c = torch.cat((c, newest[..., None]), dim=-1)
    return newest[..., None] - c, c


NEXT_DECAY = {
    "the new gate is left out: it closes on every old key": (
        "newest[..., None] - c -> torch.nn.functional.pad(c[..., -2:-1] - c[..., :-1], (0, 1))"
    ),
    "the new gate closes on the new key too: a query's own key loses nothing": (
        "newest[..., None] - c -> torch.cat((newest[..., None] - c[..., :-1], log_forget[..., None]), dim=-1)"
    ),
    "the new gate closes on the nearest old key only: it closes on every old key": (
        "- c, c -> - c - log_forget[..., None] * (torch.arange(c.shape[-1]) < c.shape[-1] - 2), c"
    ),
    "the sum starts anew: the new one is the last of c plus log f": "c[..., -1] + log_forget -> log_forget",
    "c is summed once more: it holds sums already": (
        "newest[..., None]), dim=-1) -> log_forget[..., None]), dim=-1).cumsum(-1)",
        "newest[..., None] - c -> c[..., -1:] - c",
    ),
    "the sign is flipped: an old key loses": "newest[..., None] - c -> c - newest[..., None]",
    "the new query's own key is missing from the row: it stands last, at 0": (
        "newest[..., None] - c -> (newest[..., None] - c)[..., :-1]"
    ),
    "the sums come back without the new one: the next step needs it": "- c, c -> - c, c[..., :-1]",
    "log f itself is put into the cache: put its sum there, the last of c plus log f": (
        "- c, c -> - c, torch.cat((c[..., :-1], log_forget[..., None]), dim=-1)"
    ),
}


def _gates(*shape, seed):
    return logsigmoid(torch.randn(*shape, generator=generator(seed)) + 1)


def _log_forget_cases():
    source = generator(0)
    for shape, heads in (((5, 8), 3), ((2, 4, 6), 2)):
        x, weight = (torch.randn(*size, generator=source) for size in (shape, (heads, shape[-1])))
        yield x, weight, 1 + torch.randn(heads, generator=source)
    yield torch.tensor([[0.5, -1.0], [1.0, 2.0]]), torch.tensor([[1.0, 0.0], [0.0, 1.0]]), torch.tensor([-200.0, 2.0])
    # Quarters that bfloat16 holds exactly, products and sums too: whether they are widened before does not matter.
    x, weight, bias = (torch.randint(-4, 5, size, generator=source) / 4 for size in ((3, 2), (2, 2), (2,)))
    yield x.bfloat16(), weight.bfloat16(), (bias + 1).bfloat16()


def _decay_cases():
    yield (torch.tensor([-0.25, -0.5, -1.5, -0.125]),)
    yield (_gates(2, 3, 6, seed=1),)
    # Eighths: their sum is exact in float32, and in bfloat16 it is not.
    yield ((-torch.randint(1, 12, (96,), generator=generator(2)) / 8).bfloat16(),)


def _next_cases():
    yield torch.tensor([-0.25, -0.75, -2.25]), torch.tensor(-0.5)
    yield _gates(2, 3, 5, seed=3).cumsum(-1), _gates(2, 3, seed=4)
    yield torch.tensor([-0.375]), torch.tensor(-4.0)


_SLOPES = [(slopes(4),), (slopes(12),), (torch.tensor([0.03, 1.5]),)]
ON_PAPER = 4  # points

GATES = (
    ("logarithms to base 2", lambda f, *case: f(*case) / math.log(2)),
    ("the logit is doubled before the sigmoid", lambda f, x, weight, bias: f(2 * x, weight, 2 * bias)),
    ("log f is divided by 16, as in GLA", lambda f, *case: f(*case) / 16),
)
STEPS = (
    ("log_forget is the gate's logit: take its log-sigmoid first", lambda f, c, logit: f(c, logsigmoid(logit))),
    ("the new gate closes twice: log f is doubled, in the sums too", lambda f, c, gate: f(c, 2 * gate)),
    ("the row is divided by ln 2, the sums are not", lambda f, *case: (f(*case)[0] / math.log(2), f(*case)[1])),
)

EXERCISES = {  # what is right, cases, tolerance, points, mistakes
    "log_forget": Exercise(log_forget, _log_forget_cases, 1e-5, 2, LOG_FORGET, variants=GATES),
    "decay": Exercise(decay, _decay_cases, 1e-5, 3, DECAY),
    "alibi_gate": Exercise(alibi_gate, _SLOPES, 1e-6, 2, ALIBI_GATE),
    "next_decay": Exercise(next_decay, _next_cases, 1e-5, 3, NEXT_DECAY, variants=STEPS),
}
