r"""What the lab ALiBi asks for, and the wrong answers that its checks recognize."""

import math

import torch

from posenc import alibi
from posenc.lab.exercises.exercise import Exercise

# What the exercises ask for


def slopes(num_heads):
    return alibi.slopes(num_heads)


def bias(pos_q, pos_k, slopes):
    return alibi.bias(pos_q, pos_k, slopes)


def window(slope, share):
    r"""How many of the nearest keys hold `share` of the weight of a row of equal contents with a long past.

    The smallest n with 1 - e^(-slope n) >= share. Chapter: ALiBi.
    """
    return math.ceil(-math.log(1 - share) / slope)


# How they go wrong


def _one_formula(num_heads):
    return torch.tensor([2 ** (-8 * h / num_heads) for h in range(1, num_heads + 1)])


def _from_zero(num_heads):
    return torch.tensor([2 ** (-8 * h / num_heads) for h in range(num_heads)])


def _mildest_first(num_heads):
    return slopes(num_heads).flip(0)


def _one_formula_mildest_first(num_heads):
    return _one_formula(num_heads).flip(0)


def _sorted(num_heads):
    return slopes(num_heads).sort(descending=True).values


def _below(num_heads):
    return 1 << (num_heads.bit_length() - 1)


def _fills_with_first(num_heads):
    power = _below(num_heads)
    return torch.cat((slopes(power), slopes(2 * power)[: num_heads - power]))


def _fills_with_even(num_heads):
    power = _below(num_heads)
    return torch.cat((slopes(power), slopes(2 * power)[1::2][: num_heads - power]))


def _same_for_all(num_heads):
    return torch.full((num_heads,), 2 ** (-8 / num_heads))


def _plus(pos_q, pos_k, slopes):
    return -bias(pos_q, pos_k, slopes)


def _symmetric(pos_q, pos_k, slopes):
    return alibi.bias(pos_q, pos_k, slopes, symmetric=True)


def _own_key_pays(pos_q, pos_k, slopes):
    return bias(pos_q + 1, pos_k, slopes)


def _counts_rows(pos_q, pos_k, slopes):
    return bias(torch.arange(len(pos_q)), torch.arange(len(pos_k)), slopes)


def _masks(pos_q, pos_k, slopes):
    return bias(pos_q, pos_k, slopes).masked_fill(pos_k[None, :] > pos_q[:, None], -math.inf)


def _clamps(pos_q, pos_k, slopes):
    return bias(pos_q, pos_k, slopes).clamp(max=0)


def _rounds_down(slope, share):
    return math.floor(-math.log(1 - share) / slope)


def _one_too_many(slope, share):
    return window(slope, share) + 1


def _base_two(slope, share):
    return math.ceil(-math.log2(1 - share) / slope)


def _of_the_tail(slope, share):
    return math.ceil(-math.log(share) / slope)


def _ignores_share(slope, share):
    return math.ceil(1 / slope)


def _positions():
    yield torch.arange(5), torch.arange(5), slopes(2)
    yield torch.arange(7, 10), torch.arange(12), slopes(6)
    yield torch.tensor([3.0, 3.5, 11.25]), torch.tensor([0.0, 2.5, 3.0, 4.0]), slopes(4)
    yield torch.tensor([1000, 1001]), torch.tensor([990, 999, 1000]), slopes(3).double()


ON_PAPER = 3  # points

EXERCISES = {
    "slopes": Exercise(
        title="Exercise 1, slopes",
        points=3,
        reference=slopes,
        cases=[(8,), (4,), (1,), (12,), (6,), (112,)],
        mistakes={
            "the order is reversed: the first head is the steepest": _mildest_first,
            "h runs from 0: it is off by one, no slope is 1": _from_zero,
            "the formula for powers of two is used for every number of heads: 12 heads must "
            "end .7071 .3536 .1768 .0884": _one_formula,
            "the formula for powers of two is used for every number of heads, and the order is "
            "reversed": _one_formula_mildest_first,
            "every head has the same slope: h is missing from the exponent": _same_for_all,
            "the slopes are sorted: those that fill up stay at the end": _sorted,
            "the missing slopes are the first ones for 2p: take every other one": _fills_with_first,
            "the missing slopes are the even-numbered ones for 2p, which are there already: take the "
            "odd-numbered ones": _fills_with_even,
        },
    ),
    "bias": Exercise(
        title="Exercise 2, bias",
        points=2,
        reference=bias,
        cases=lambda: list(_positions()),
        tolerance=1e-6,
        mistakes={
            "the sign is flipped: a key in the past must lose": _plus,
            "this is the symmetric form: leave out the absolute value": _symmetric,
            "distances are off by one: a query's own key loses nothing": _own_key_pays,
            "rows and columns are counted instead of using the positions": _counts_rows,
            "the future is hidden here: leave that to the causal mask": _masks,
            "keys in the future are clamped to 0: leave them to the causal mask": _clamps,
        },
    ),
    "window": Exercise(
        title="Exercise 3, window",
        points=2,
        reference=window,
        cases=[(0.5, 0.95), (0.0625, 0.5), (1 / 256, 0.95), (0.7071, 0.9)],
        mistakes={
            "it is rounded down: that many keys do not hold the share yet": _rounds_down,
            "it is one key too many: the nearest key is at distance 0": _one_too_many,
            "the logarithm has base 2: the weight falls by e^-m a step": _base_two,
            "this is where the rest holds the share: the nearest n keys hold 1 - e^(-m n)": _of_the_tail,
            "1/m does not depend on the share: it belongs to a share of 63%": _ignores_share,
        },
    ),
}
