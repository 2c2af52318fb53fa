r"""What the lab ALiBi asks for, and the wrong answers that its checks recognize."""

import math

import torch

from posenc.lab.check.exercise import Exercise


def slopes(num_heads):
    """The slope of each head, a tensor [num_heads]."""
    power = 2 ** int(math.log2(num_heads))  # the largest power of two up to num_heads
    if power == num_heads:
        return torch.tensor([2 ** (-8 * h / num_heads) for h in range(1, num_heads + 1)])
    return torch.cat((slopes(power), slopes(2 * power)[0::2][: num_heads - power]))


def bias(pos_q, pos_k, slopes):
    """The bias [H, Tq, Tk] that is added to the scaled logits."""
    distance = pos_q[:, None] - pos_k[None, :]  # [Tq, Tk]
    return -slopes[:, None, None] * distance


def window(slope, share):
    """How many of the nearest keys hold this share of the weight: window(0.5, 0.95) is a small number."""
    # The keys beyond the nearest n hold the sum of (1 - e^-m) e^-md over d >= n, which is e^(-m n).
    return math.ceil(math.log(1 / (1 - share)) / slope)


def _positions():
    yield torch.arange(5), torch.arange(5), slopes(2)
    yield torch.arange(7, 10), torch.arange(12), slopes(6)
    yield torch.tensor([3.0, 3.5, 11.25]), torch.tensor([0.0, 2.5, 3.0, 4.0]), slopes(4)
    yield torch.tensor([1000, 1001]), torch.tensor([990, 999, 1000]), slopes(3).double()


ON_PAPER = 3  # points

EXERCISES = {
    "slopes": Exercise(
        points=3,
        reference=slopes,
        cases=[(8,), (4,), (1,), (12,), (6,), (112,)],
        mistakes={
            "the order is reversed: the first head is the steepest": "-> slopes(num_heads).flip(0)",
            "h runs from 0: no slope is 1": "-> torch.tensor([2 ** (-8 * h / num_heads) for h in range(num_heads)])",
            "the formula for powers of two is used for every number of heads: 12 heads must "
            "end .7071 .3536 .1768 .0884": "if power == num_heads -> if True",
            "the formula for powers of two is used for every number of heads, and the order is reversed": (
                "if power == num_heads -> if True",
                "range(1, num_heads + 1) -> range(num_heads, 0, -1)",
            ),
            "all slopes are equal: the exponent has no h": "-> torch.full((num_heads,), 2 ** (-8 / num_heads))",
            "the slopes are sorted: those that fill up stay at the end": "-> slopes(num_heads).sort().values.flip(0)",
            "the missing slopes are the first ones for 2p: take every other one": "[0::2] -> ",
            "the missing slopes are the even ones for 2p, which are there: take the odd ones": "[0::2] -> [1::2]",
        },
    ),
    "bias": Exercise(
        points=2,
        reference=bias,
        cases=_positions,
        tolerance=1e-6,
        mistakes={
            "the sign is flipped: a key in the past must lose": "-slopes -> slopes",
            "this is the symmetric form: leave out the absolute value": "* distance -> * distance.abs()",
            "distances are off by one: a query's own key loses nothing": "* distance -> * (distance + 1)",
            "it reads indices, not positions": "-> bias(torch.arange(len(pos_q)), torch.arange(len(pos_k)), slopes)",
            "the future is hidden here: leave that to the causal mask": (
                "-> bias(pos_q, pos_k, slopes).masked_fill(pos_k[None, :] > pos_q[:, None], -math.inf)"
            ),
            "future keys are clamped to 0: leave them to the causal mask": "* distance -> * distance.clamp(min=0)",
        },
        variants=(
            ("the bias for a softmax in powers of 2: divided by ln 2", lambda f, *case: f(*case) / math.log(2)),
            ("heads in the last dimension: [Tq, Tk, H]", lambda f, *case: f(*case).permute(1, 2, 0)),
            ("slopes are given as exponents e, the slope is 2^-e", lambda f, q, k, e: f(q, k, 2.0**-e)),
        ),
    ),
    "window": Exercise(
        points=2,
        reference=window,
        cases=[(0.5, 0.95), (0.0625, 0.5), (1 / 256, 0.95), (0.7071, 0.9)],
        mistakes={
            "it is rounded down: that many keys do not hold the share yet": "ceil -> floor",
            "it is one key too many: the nearest key is at distance 0": "/ slope) -> / slope) + 1",
            "the logarithm has base 2: the weight falls by e^-m a step": "math.log( -> math.log2(",
            "here the rest holds the share: the nearest n keys hold 1 - e^(-m n)": "1 / (1 - share) -> 1 / share",
            "1/m does not depend on the share: it belongs to a share of 63%": "-> math.ceil(1 / slope)",
        },
        variants=(
            ("all logits are divided by a temperature of 3", lambda f, slope, share: f(slope / 3, share)),
            ("keys stand 2 tokens apart, the nearest at distance 0", lambda f, slope, share: f(2 * slope, share)),
            ("the slope is given as its exponent e, the slope is 2^-e", lambda f, e, share: f(2**-e, share)),
        ),
    ),
}
