r"""Exercises of the RoPE lab, and four variants of the rotation that the chapter takes apart.

Some of the variants are wrong on purpose, in the way that code in circulation is wrong.
"""

import math

import torch

from posenc.lab.check.exercise import Exercise, generator
from posenc.rotate import rope

# Four variants that the chapter asks about: which of them are harmless? Each takes x [..., T, D]. They come without
# docstrings, since the reader is to find out what they do.


def reads_pairs_writes_halves(x, positions, inv_freq):
    angles = positions[..., None] * inv_freq
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


def pairs_of_one_angles_of_other(x, positions, inv_freq):
    angles = positions[..., None] * inv_freq
    angles = angles.repeat_interleave(2, dim=-1)  # w0 w0 w1 w1 ...
    a, b = x.chunk(2, dim=-1)
    return x * angles.cos() + torch.cat((-b, a), dim=-1) * angles.sin()


def turns_backwards(x, positions, inv_freq):
    angles = positions[..., None] * inv_freq
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    pairs = torch.stack((a * cos + b * sin, b * cos - a * sin), dim=-1)
    return pairs.flatten(-2)


def masks_lanes(x, positions, inv_freq):
    angles = positions[..., None] * inv_freq
    angles = angles.repeat_interleave(2, dim=-1)
    cos, sin = angles.cos(), angles.sin()
    is_even = torch.arange(x.shape[-1]) % 2 == 0
    even, odd = x * is_even, x * ~is_even
    return (even * cos - odd * sin) + (odd * cos + even * sin)


def inv_freq(dim, base):
    """The frequencies [dim/2], in radians a token."""
    return base ** (-torch.arange(0, dim, 2) / dim)


def rotate(x, positions, inv_freq):
    """Turn the pairs (2i, 2i+1) of x [..., T, D]."""
    angles = positions[..., None] * inv_freq  # [T, D/2]
    cos, sin = angles.cos(), angles.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


def rotate_half(x, positions, inv_freq):
    """Turn the pairs (i, i + D/2) of x [..., T, D]."""
    angles = positions[..., None] * inv_freq
    cos, sin = angles.cos(), angles.sin()
    a, b = x.chunk(2, dim=-1)
    return torch.cat((a * cos - b * sin, a * sin + b * cos), dim=-1)


def permutation(dim):
    """The lanes of an interleaved vector, in the order of the half-split layout."""
    return torch.cat((torch.arange(0, dim, 2), torch.arange(1, dim, 2)))


def shift_error(rotate, q, k, pos_q, pos_k, shift, inv_freq):
    """The largest change of any score when all positions move by `shift`."""
    before = rotate(q, pos_q, inv_freq) @ rotate(k, pos_k, inv_freq).T
    after = rotate(q, pos_q + shift, inv_freq) @ rotate(k, pos_k + shift, inv_freq).T
    return (after - before).abs().max()


def _rotations():
    source = generator()
    for shape, positions in (
        ((5, 4), torch.arange(5)),
        ((2, 3, 6, 8), torch.arange(6) + 11),
        ((7, 16), torch.tensor([0, 3, 4, 90, 91, 500, 2000])),
    ):
        yield torch.randn(shape, generator=source), positions, rope.inv_freq(shape[-1])


def _shifts():
    source = generator(1)
    for rotation, dim, shift in ((rotate, 8, 100), (pairs_of_one_angles_of_other, 8, 5), (masks_lanes, 4, 17)):
        q, k = torch.randn(2, 6, dim, generator=source, dtype=torch.float64)
        positions = torch.arange(6, dtype=torch.float64)
        for sign in (1, -1):  # so that the greatest change goes up once and down once, whatever was drawn
            yield rotation, sign * q, k, positions + 3, positions, shift, rope.inv_freq(dim, dtype=torch.float64)


ON_PAPER = 4  # points

CASES = {"inv_freq": [(8, 10000.0), (64, 10000.0), (16, 500000.0)], "permutation": [(8,), (6,), (64,)]}

MISTAKES = {
    "inv_freq": {
        "the exponent is -i/dim where it must be -2i/dim, i counting pairs": "arange(0, dim, 2) -> arange(dim // 2)",
        "the ladder is off by one: i starts at 0, so the first frequency is 1": (
            "arange(0, dim, 2) -> arange(2, dim + 2, 2)"
        ),
        "the sign of the exponent is flipped: these grow, and a later pair must be slower": "-torch -> torch",
        "the ladder ends at exactly 1/base: divide the exponent by dim, not by dim - 2": (
            "arange(0, dim, 2) -> arange(dim // 2)",
            "/ dim -> / max(dim // 2 - 1, 1)",
        ),
    },
    "rotate": {
        "the sign of the sine is flipped: a positive position must turn counterclockwise": "positions -> -positions",
        "positions are off by one: a token at position 0 does not turn": "positions -> (positions + 1)",
        "lanes i and i + D/2 are paired: that is the half-split layout, here 2i and 2i+1 are": rotate_half,
        "the right pairs turn, but are written as two halves: weave them together again": reads_pairs_writes_halves,
        "the pairing is right, but the two lanes of a pair get different angles": (
            "inv_freq -> inv_freq.repeat(2)",
            "a * cos - b * sin -> a * cos[..., 0::2] - b * sin[..., 0::2]",
            "a * sin + b * cos -> a * sin[..., 1::2] + b * cos[..., 1::2]",
        ),
        "the even and the odd lanes are masked, not moved: a lane never meets its partner": masks_lanes,
    },
    "rotate_half": {
        "the sign of the sine is flipped: a positive position must turn counterclockwise": "positions -> -positions",
        "positions are off by one: a token at position 0 does not turn": "positions -> (positions + 1)",
        "lanes 2i and 2i+1 are paired: that is the interleaved layout": rotate,
        "neighbors are paired and written as two halves: pair lane i with lane i + D/2": reads_pairs_writes_halves,
        "the lanes of one layout meet the angles of the other: tile the angles, don't repeat each "
        "one twice": pairs_of_one_angles_of_other,
    },
    "permutation": {
        "this is the inverse: it takes lanes from a half-split vector": "-> permutation(dim).argsort()",
        "the halves are swapped: even lanes come first": (
            "-> torch.cat((torch.arange(1, dim, 2), torch.arange(0, dim, 2)))"
        ),
        "lanes are off by one: they count from 0": "-> permutation(dim) + 1",
    },
    "shift_error": {
        "only the queries move: shift pos_k too": "pos_k + shift -> pos_k",
        "the keys move the other way: both shifts have the same sign": "pos_k + shift -> pos_k - shift",
        "rotated queries are compared: compare scores": (
            " @ rotate(k, pos_k, inv_freq).T -> ",
            " @ rotate(k, pos_k + shift, inv_freq).T -> ",
        ),
        "a change downwards does not count: take the absolute value": ".abs() -> ",
    },
}

LADDERS = (
    ("frequencies in turns a token, not radians: divided by 2 pi", lambda f, *case: f(*case) / (2 * math.pi)),
    ("a base of 10 times the base that is given", lambda f, dim, base: f(dim, 10 * base)),
    ("the slowest pair first", lambda f, *case: f(*case).flip(0)),
)
TURNS = (
    ("every frequency divided by 4, as in position interpolation", lambda f, x, at, w: f(x, at, w / 4)),
    ("the result times 0.1 ln 4 + 1, as in YaRN", lambda f, *case: f(*case) * (0.1 * math.log(4) + 1)),
    ("pairs in a dimension of their own: [..., T, D/2, 2]", lambda f, *case: f(*case).unflatten(-1, (-1, 2))),
)

# reference, cases, tolerance, points, mistakes
EXERCISES = {
    "inv_freq": Exercise(inv_freq, CASES["inv_freq"], 1e-6, 1, MISTAKES["inv_freq"], variants=LADDERS),
    "rotate": Exercise(rotate, _rotations, 1e-4, 3, MISTAKES["rotate"], variants=TURNS),
    "rotate_half": Exercise(rotate_half, _rotations, 1e-4, 2, MISTAKES["rotate_half"]),
    "permutation": Exercise(permutation, CASES["permutation"], 1e-6, 2, MISTAKES["permutation"]),
    "shift_error": Exercise(shift_error, _shifts, 1e-9, 2, MISTAKES["shift_error"]),
}
