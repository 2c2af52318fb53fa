r"""What the lab Inside a pretrained model asks for, and the wrong answers that its checks recognize."""

import math

import torch
from torch.nn.functional import cross_entropy

from posenc.lab.check.exercise import Exercise, generator


def slow_pairs(base, dim, trained):
    """Which of RoPE's dim/2 pairs never came full circle in texts of `trained` tokens: bool [dim/2], fastest first."""
    wavelengths = 2 * math.pi * base ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)
    return wavelengths > trained


def shares(weights):
    """Mean weight of each head on (the first token, the query itself, the token before it): [H, T, T] -> [H, 3].

    Over the queries from the third on, for which the three are different tokens.
    """
    first = weights[:, 2:, 0]
    own = weights.diagonal(dim1=1, dim2=2)[:, 2:]
    before = weights.diagonal(offset=-1, dim1=1, dim2=2)[:, 1:]
    return torch.stack((first, own, before), -1).mean(1)


def visible(length, window, first):
    """Which keys a query sees: the nearest `window`, its own among them, and the first `first` of the text: [T, T]."""
    at = torch.arange(length)
    distance = at[:, None] - at
    return (distance >= 0) & ((distance < window) | (at < first))


def last_loss(logits, tokens, count):
    """Mean loss of the last `count` tokens, in nats: logits [T, V] of tokens [T], each of which tells the next one."""
    return cross_entropy(logits[-count - 1 : -1], tokens[-count:])


def with_gap(length, count, farthest):
    """Positions [length]: 0, 1, 2, ...; before the last `count` a gap, such that the last stands at `farthest`."""
    at = torch.arange(length)
    return at + (farthest - length + 1) * (at >= length - count)


def held_near(length, limit):
    """Positions [length] that end at `limit`: one apart, but 0 for all that would stand farther back."""
    return (torch.arange(length) + limit - length + 1).clamp(min=0)


def _weights(heads, length, seed):
    scores = torch.randn(heads, length, length, generator=generator(seed))
    return scores.masked_fill(torch.ones(length, length).triu(1).bool(), -math.inf).softmax(-1)


def _loss_cases():
    for length, vocab, count, seed in ((9, 5, 4, 3), (6, 4, 1, 4)):
        logits = torch.randn(length, vocab, generator=generator(seed))
        yield logits, torch.randint(vocab, (length,), generator=generator(seed + 10)), count


ON_PAPER = 4  # points

EXERCISES = {
    "slow_pairs": Exercise(
        points=2,
        reference=slow_pairs,
        cases=lambda: [(1e5, 64, 8192), (1e4, 128, 4096), (1e4, 8, 6)],
        mistakes={
            "these are the pairs that did come full circle: the others are asked for": "> trained -> <= trained",
            "base^(2i/D) tokens turn a pair by one radian; once around takes 2 pi times as many": "2 * math.pi * -> ",
            "the exponent runs from 0 to 2: pair i has base^(2i/D)": "/ dim) -> / (dim / 2))",
            "slowest first: pair 0 is the fastest": "return wavelengths -> return wavelengths.flip(0)",
            "slow is what never came full circle: halfway is not enough": "> trained -> > 2 * trained",
        },
        variants=(
            ("the context is given in blocks of 16 tokens", lambda f, base, dim, many: f(base, dim, 16 * many)),
            ("dim counts pairs", lambda f, base, pairs, trained: f(base, 2 * pairs, trained)),
            ("the numbers of these pairs, in a tensor", lambda f, *case: f(*case).nonzero().flatten()),
        ),
    ),
    "shares": Exercise(
        points=2,
        reference=shares,
        cases=lambda: [(_weights(3, 7, 1),), (_weights(2, 4, 2),)],
        mistakes={
            "weights[:, 0] is the first query: the first key is weights[:, :, 0]": "[:, 2:, 0] -> [:, 0, 2:]",
            "the token before a query stands left of the diagonal, offset=-1": (
                "offset=-1, dim1=1, dim2=2)[:, 1:] -> offset=1, dim1=1, dim2=2)[:, 1:]"
            ),
            "the first two queries count, too: for them the three are not different tokens": (
                "[:, 2:, 0] -> [:, :, 0].mean(1)[:, None]",
                "dim1=1, dim2=2)[:, 2:] -> dim1=1, dim2=2).mean(1)[:, None]",
                "[:, 1:] -> .mean(1)[:, None]",
            ),
            "this is the sum: the mean is asked for": "mean(1) -> sum(1)",
            "its own and the one before are swapped": "(first, own, before) -> (first, before, own)",
        },
    ),
    "visible": Exercise(
        points=2,
        reference=visible,
        cases=lambda: [(7, 3, 1), (6, 2, 2), (5, 5, 0), (5, 1, 1)],
        mistakes={
            "a window of W holds the query and W - 1 others": "< window -> <= window",
            "the future is seen": "(distance >= 0) & -> ",
            "the first keys are seen before they are there: nothing behind the query": (
                "return (distance >= 0) & ((distance < window) | (at < first)) -> "
                "return ((distance >= 0) & (distance < window)) | (at < first)"
            ),
            "the first keys are lost": " | (at < first) -> ",
            "one key too many stays": "at < first -> at <= first",
        },
        variants=(
            ("True where a key is hidden", lambda f, *case: ~f(*case)),
            ("a row for each key, a column for each query", lambda f, *case: f(*case).mT),
            ("as a bias: 0 where a key is seen, -inf elsewhere", lambda f, *case: f(*case).double().log()),
        ),
    ),
    "last_loss": Exercise(
        points=2,
        reference=last_loss,
        cases=_loss_cases,
        tolerance=1e-5,
        mistakes={
            "logits of a token tell the *next* one: they are held against themselves": "[-count - 1 : -1] -> [-count:]",
            "the sum: the mean is asked for": "tokens[-count:]) -> tokens[-count:], reduction='sum')",
            "in bits: nats are asked for": "tokens[-count:]) -> tokens[-count:]) / math.log(2)",
            "all tokens count: the last are asked for": "-> cross_entropy(logits[:-1], tokens[1:])",
        },
    ),
    "with_gap": Exercise(
        points=2,
        reference=with_gap,
        cases=lambda: [(8, 3, 20), (5, 1, 4), (6, 2, 9)],
        mistakes={
            "the last stands one too far: positions begin at 0": "farthest - length + 1 -> farthest - length + 2",
            "the last stands one too near: positions begin at 0": "farthest - length + 1 -> farthest - length",
            "the gap comes one token too late": "at >= length - count -> at > length - count",
            "the gap is before the first tokens: the last `count` move": "(at >= length - count) -> (at >= count)",
            "all tokens move: then no distance changes": " * (at >= length - count) -> ",
        },
    ),
    "held_near": Exercise(
        points=2,
        reference=held_near,
        cases=lambda: [(8, 4), (6, 5), (5, 2)],
        mistakes={
            "the newest tokens are held, at the limit: the oldest are to be, at 0": (
                "-> torch.arange(length).clamp(max=limit)"
            ),
            "the last stands one too far: it is to stand at the limit": "length + 1 -> length + 2",
            "nothing is held: the oldest have negative positions": ".clamp(min=0) -> ",
            "positions are squeezed: neighbors are to stay one apart": (
                "-> (torch.arange(length) * limit) // (length - 1)"
            ),
        },
    ),
}
