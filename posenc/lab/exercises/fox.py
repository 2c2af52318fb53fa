r"""What the lab FoX asks for, and the wrong answers that its checks recognize."""

import torch
from torch.nn.functional import logsigmoid, pad

from posenc.bias import fox
from posenc.bias.alibi import slopes
from posenc.lab.exercises.exercise import Exercise, generator

# What the exercises ask for


def log_forget(x, weight, bias):
    r"""Log f of each token, a head each, float32: logsigmoid(x W^T + b).

    x [..., T, C], weight [H, C] and bias [H] as `nn.Linear` holds them -> [..., H, T]. Paper: arXiv 2503.02130.
    Chapter: FoX: a door that closes.
    """
    return logsigmoid(_logits(x, weight, bias)).mT


def decay(log_forget):
    return fox.decay(log_forget)


def alibi_gate(slope):
    r"""The gate f, the same for all tokens, whose decay is ALiBi's penalty of this slope: e^(-m); [H] -> [H]."""
    return torch.exp(-slope)


def next_decay(c, log_forget):
    r"""One step of decoding, from the cached sums c [..., n] of the old tokens and log f [...] of the new one.

    Returns: (the decay of the new query's keys [..., n + 1], the sums to keep [..., n + 1]); one addition, and one
    subtraction a key. Chapter: FoX: a door that closes.
    """
    c = torch.cat((c, c[..., -1:] + log_forget[..., None]), dim=-1)
    return c[..., -1:] - c, c


# How they go wrong: log_forget


def _logits(x, weight, bias):
    return (x @ weight.mT + bias).float()


def _log_of_sigmoid(x, weight, bias):
    return _logits(x, weight, bias).sigmoid().log().mT


def _no_log(x, weight, bias):
    return _logits(x, weight, bias).sigmoid().mT


def _log_of_the_rest(x, weight, bias):
    return logsigmoid(-_logits(x, weight, bias)).mT


def _positive(x, weight, bias):
    return -log_forget(x, weight, bias)


def _no_bias(x, weight, bias):
    return log_forget(x, weight, torch.zeros_like(bias))


def _heads_last(x, weight, bias):
    return log_forget(x, weight, bias).mT


def _gates_in_half(x, weight, bias):
    return logsigmoid(x @ weight.mT + bias).mT


# How they go wrong: decay


def _later(log_forget):
    return torch.ones(2 * log_forget.shape[-1:], dtype=torch.bool).triu(1)


def _differences(c, log_forget, of_future=float("-inf")):
    return (c[..., :, None] - c[..., None, :]).masked_fill(_later(log_forget), of_future)


def _sums(log_forget):
    return log_forget.float().cumsum(-1)


def _own_gate_too(log_forget):
    return decay(log_forget) + log_forget.float()[..., None, :]


def _without_the_querys(log_forget):
    return _differences(_sums(log_forget) - log_forget.float(), log_forget)


def _flipped(log_forget):
    return _differences(-_sums(log_forget), log_forget)


def _future_seen(log_forget):
    c = _sums(log_forget)
    return c[..., :, None] - c[..., None, :]


def _future_at_zero(log_forget):
    return _differences(_sums(log_forget), log_forget, 0.0)


def _product_of_logs(log_forget):
    return _differences(log_forget.float().cumprod(-1), log_forget)


def _products(log_forget):
    return decay(log_forget).exp()


def _keys_first(log_forget):
    return decay(log_forget).mT


def _all_in_half(log_forget):
    return _differences(log_forget.cumsum(-1), log_forget)


def _widened_too_late(log_forget):
    return _differences(log_forget.cumsum(-1).float(), log_forget)


# How they go wrong: alibi_gate


def _one_minus(slope):
    return 1 - slope


def _sigmoid(slope):
    return torch.sigmoid(-slope)


# How they go wrong: next_decay


def _extended(c, log_forget):
    return next_decay(c, log_forget)[1]


def _new_gate_left_out(c, log_forget):
    return pad(c[..., -1:] - c, (0, 1)), _extended(c, log_forget)


def _new_key_too(c, log_forget):
    row, c = next_decay(c, log_forget)
    return torch.cat((row[..., :-1], log_forget[..., None]), dim=-1), c


def _nearest_key_only(c, log_forget):
    row = pad(c[..., -1:] - c, (0, 1))
    row[..., -2] += log_forget
    return row, _extended(c, log_forget)


def _sum_restarted(c, log_forget):
    c = torch.cat((c, log_forget[..., None]), dim=-1)
    return c[..., -1:] - c, c


def _summed_again(c, log_forget):
    c = torch.cat((c, log_forget[..., None]), dim=-1).cumsum(-1)
    return c[..., -1:] - c, c


def _row_flipped(c, log_forget):
    row, c = next_decay(c, log_forget)
    return -row, c


def _own_key_missing(c, log_forget):
    row, c = next_decay(c, log_forget)
    return row[..., :-1], c


def _cache_not_extended(c, log_forget):
    return next_decay(c, log_forget)[0], c


def _gate_in_the_cache(c, log_forget):
    return next_decay(c, log_forget)[0], torch.cat((c, log_forget[..., None]), dim=-1)


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


ON_PAPER = 4  # points

EXERCISES = {
    "log_forget": Exercise(
        title="Exercise 1, log_forget",
        points=2,
        reference=log_forget,
        cases=lambda: list(_log_forget_cases()),
        tolerance=1e-5,
        mistakes={
            "the sigmoid of a logit far below zero is 0, and its log is -inf: take both at once, with logsigmoid": (
                _log_of_sigmoid
            ),
            "these are the gates, not their logs": _no_log,
            "the sign of the logit is flipped: this is log (1 - f), so a large logit would close the door": (
                _log_of_the_rest
            ),
            "the sign is flipped: f is below 1, so its log is negative": _positive,
            "the bias is missing: add b, one number a head": _no_bias,
            "the heads stand last: swap the last two axes, [..., H, T]": _heads_last,
            "the gates stay in the half precision of x: make the logits float32 before the sigmoid": _gates_in_half,
        },
    ),
    "decay": Exercise(
        title="Exercise 2, decay",
        points=3,
        reference=decay,
        cases=lambda: list(_decay_cases()),
        tolerance=1e-5,
        mistakes={
            "the key's own gate is in the sum, c_i - c_(j-1): a door closes on what was before it, so the diagonal is "
            "0": _own_gate_too,
            "the sum runs over l = j .. i - 1: it starts after the key and ends with the query, l = j + 1 .. i": (
                _without_the_querys
            ),
            "the sign is flipped: it is c_i - c_j, and c falls, so an old key loses": _flipped,
            "the future is not hidden: above the diagonal stands -inf": _future_seen,
            "the future stands at 0, which hides nothing: above the diagonal stands -inf": _future_at_zero,
            "the logs are multiplied: gates multiply, so their logs add up, with cumsum": _product_of_logs,
            "these are the products of the gates: leave them as logs": _products,
            "rows and columns are swapped: a row belongs to a query, [..., i, j]": _keys_first,
            "the sum is kept in the half precision of the input: make it float32 before cumsum": _all_in_half,
            "it is made float32 after cumsum, when the digits are gone: do it before": _widened_too_late,
        },
    ),
    "alibi_gate": Exercise(
        title="Exercise 3, alibi_gate",
        points=2,
        reference=alibi_gate,
        cases=[(slopes(4),), (slopes(12),), (torch.tensor([0.03, 1.5]),)],
        tolerance=1e-6,
        mistakes={
            "the sign is flipped: e^m is above 1, and a gate forgets": torch.exp,
            "1 - m is e^(-m) to first order only, and below 0 for a slope above 1": _one_minus,
            "this is the slope: the gate is the number whose log is -m": lambda slope: slope.clone(),
            "this is the log of the gate, not the gate": torch.neg,
            "the base is e, not 2: ALiBi's penalty is subtracted from a logit": lambda slope: 2.0**-slope,
            "the slope is no logit: -m is log f itself, so no sigmoid is left to take": _sigmoid,
            "1 - e^(-m) is what a gate takes away": lambda slope: -torch.expm1(-slope),
        },
    ),
    "next_decay": Exercise(
        title="Exercise 4, next_decay",
        points=3,
        reference=next_decay,
        cases=lambda: list(_next_cases()),
        tolerance=1e-5,
        mistakes={
            "the new gate is left out: it closes on every old key": _new_gate_left_out,
            "the new gate closes on the new key too: a query's own key loses nothing": _new_key_too,
            "the new gate closes on the nearest old key only: it closes on every old key": _nearest_key_only,
            "the sum starts anew: the new one is the last of c plus log f": _sum_restarted,
            "c is summed once more: it holds sums already": _summed_again,
            "the sign is flipped: an old key loses": _row_flipped,
            "the new query's own key is missing from the row: it stands last, at 0": _own_key_missing,
            "the sums come back without the new one: the next step needs it": _cache_not_extended,
            "log f itself is put into the cache: put its sum there, the last of c plus log f": _gate_in_the_cache,
        },
    ),
}
