r"""Exercises of the RoPE lab, and four variants of the rotation that the chapter takes apart.

Some of the wrong functions below are wrong on purpose in the way that code in circulation is wrong.
"""

import torch

from posenc.lab.exercises.exercise import Exercise, generator
from posenc.rotate.rope import inv_freq, rotate

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


# What the exercises ask for


def frequencies(dim, base):
    return inv_freq(dim, base)


def rotate_interleaved(x, positions, inv_freq):
    return rotate(x, positions, inv_freq)


def rotate_half_split(x, positions, inv_freq):
    return rotate(x, positions, inv_freq, layout="half")


def half_from_interleaved(dim):
    r"""The lanes [dim] to take from an interleaved vector, in the order in which the half-split layout has them."""
    return torch.cat((torch.arange(0, dim, 2), torch.arange(1, dim, 2)))


def shift_error(rotate, q, k, pos_q, pos_k, shift, inv_freq):
    r"""The largest change of any score when all positions, [Tq] and [Tk], move by `shift`."""

    def scores(by):
        return rotate(q, pos_q + by, inv_freq) @ rotate(k, pos_k + by, inv_freq).transpose(-2, -1)

    return (scores(shift) - scores(0)).abs().max()


# How they go wrong


def _exponent_i_over_dim(dim, base):
    return (base ** (-torch.arange(dim // 2, dtype=torch.float64) / dim)).float()


def _exponent_from_one(dim, base):
    return (base ** (-torch.arange(2, dim + 2, 2, dtype=torch.float64) / dim)).float()


def _exponent_positive(dim, base):
    return (base ** (torch.arange(0, dim, 2, dtype=torch.float64) / dim)).float()


def _ends_at_one_over_base(dim, base):
    return (base ** (-torch.arange(dim // 2, dtype=torch.float64) / max(dim // 2 - 1, 1))).float()


def _half_backwards(x, positions, inv_freq):
    return rotate(x, -positions, inv_freq, layout="half")


def _one_late(x, positions, inv_freq):
    return rotate(x, positions + 1, inv_freq)


def _half_one_late(x, positions, inv_freq):
    return rotate(x, positions + 1, inv_freq, layout="half")


def _pairs_with_angles_in_halves(x, positions, inv_freq):
    angles = (positions[..., None] * inv_freq).repeat(*[1] * positions.ndim, 2)  # w0 w1 ... w0 w1 ...
    turned = torch.stack((-x[..., 1::2], x[..., 0::2]), dim=-1).flatten(-2)
    return x * angles.cos() + turned * angles.sin()


def _interleaved_from_half(dim):
    return half_from_interleaved(dim).argsort()


def _odd_lanes_first(dim):
    return torch.cat((torch.arange(1, dim, 2), torch.arange(0, dim, 2)))


def _from_one(dim):
    return half_from_interleaved(dim) + 1


def _shifts_query_alone(rotate, q, k, pos_q, pos_k, shift, inv_freq):
    turned = rotate(k, pos_k, inv_freq).transpose(-2, -1)
    return (rotate(q, pos_q + shift, inv_freq) @ turned - rotate(q, pos_q, inv_freq) @ turned).abs().max()


def _shifts_apart(rotate, q, k, pos_q, pos_k, shift, inv_freq):
    moved = rotate(q, pos_q + shift, inv_freq) @ rotate(k, pos_k - shift, inv_freq).transpose(-2, -1)
    return (moved - rotate(q, pos_q, inv_freq) @ rotate(k, pos_k, inv_freq).transpose(-2, -1)).abs().max()


def _compares_queries(rotate, q, k, pos_q, pos_k, shift, inv_freq):
    return (rotate(q, pos_q + shift, inv_freq) - rotate(q, pos_q, inv_freq)).abs().max()


def _keeps_the_sign(rotate, q, k, pos_q, pos_k, shift, inv_freq):
    moved = rotate(q, pos_q + shift, inv_freq) @ rotate(k, pos_k + shift, inv_freq).transpose(-2, -1)
    return (moved - rotate(q, pos_q, inv_freq) @ rotate(k, pos_k, inv_freq).transpose(-2, -1)).max()


def _rotations():
    source = generator()
    for shape, positions in (
        ((5, 4), torch.arange(5)),
        ((2, 3, 6, 8), torch.arange(6) + 11),
        ((7, 16), torch.tensor([0, 3, 4, 90, 91, 500, 2000])),
    ):
        yield torch.randn(shape, generator=source), positions, inv_freq(shape[-1])


def _shifts():
    source = generator(1)
    for rotation, dim, shift in ((rotate, 8, 100), (pairs_of_one_angles_of_other, 8, 5), (masks_lanes, 4, 17)):
        q, k = torch.randn(2, 6, dim, generator=source, dtype=torch.float64)
        positions = torch.arange(6, dtype=torch.float64)
        for sign in (1, -1):  # so that the greatest change goes up once and down once, whatever was drawn
            yield rotation, sign * q, k, positions + 3, positions, shift, inv_freq(dim, dtype=torch.float64)


ON_PAPER = 4  # points

EXERCISES = {
    "inv_freq": Exercise(
        title="Exercise 1, inv_freq",
        points=1,
        reference=frequencies,
        cases=[(8, 10000.0), (64, 10000.0), (16, 500000.0)],
        mistakes={
            "the exponent is -i/dim where it must be -2i/dim, i counting pairs": _exponent_i_over_dim,
            "the ladder is off by one: i starts at 0, so the first frequency is 1": _exponent_from_one,
            "the sign of the exponent is flipped: these grow, and a later pair must be slower": _exponent_positive,
            "the ladder ends at exactly 1/base: divide the exponent by dim, not by dim - 2": _ends_at_one_over_base,
        },
    ),
    "rotate": Exercise(
        title="Exercise 2, rotate",
        points=3,
        reference=rotate_interleaved,
        cases=lambda: list(_rotations()),
        tolerance=1e-4,  # angles in float32 are right, too
        mistakes={
            "the sign of the sine is flipped: a positive position turns counterclockwise": turns_backwards,
            "positions are off by one: a token at position 0 does not turn": _one_late,
            "lanes i and i + D/2 are paired: that is the half-split layout, here 2i and 2i+1 are": rotate_half_split,
            "the right pairs turn, but are written as two halves: weave them together again": reads_pairs_writes_halves,
            "the pairing is right, but the two lanes of a pair get different angles": _pairs_with_angles_in_halves,
            "the even and the odd lanes are masked, not moved: a lane never meets its partner": masks_lanes,
        },
    ),
    "rotate_half": Exercise(
        title="Exercise 3, rotate_half",
        points=2,
        reference=rotate_half_split,
        cases=lambda: list(_rotations()),
        tolerance=1e-4,  # angles in float32 are right, too
        mistakes={
            "the sign of the sine is flipped: a positive position turns counterclockwise": _half_backwards,
            "positions are off by one: a token at position 0 does not turn": _half_one_late,
            "lanes 2i and 2i+1 are paired: that is the interleaved layout": rotate_interleaved,
            "neighbors are paired and written as two halves: pair lane i with lane i + D/2": reads_pairs_writes_halves,
            "the lanes of one layout meet the angles of the other: tile the angles, don't repeat each "
            "one twice": pairs_of_one_angles_of_other,
        },
    ),
    "permutation": Exercise(
        title="Exercise 4, permutation",
        points=2,
        reference=half_from_interleaved,
        cases=[(8,), (6,), (64,)],
        mistakes={
            "this is the inverse: it takes lanes from a half-split vector": _interleaved_from_half,
            "the halves are swapped: even lanes come first": _odd_lanes_first,
            "lanes are off by one: they count from 0": _from_one,
        },
    ),
    "shift_error": Exercise(
        title="Exercise 5, shift_error",
        points=2,
        reference=shift_error,
        cases=lambda: list(_shifts()),
        tolerance=1e-9,
        mistakes={
            "only the queries move: shift pos_k too": _shifts_query_alone,
            "the keys move the other way: both shifts have the same sign": _shifts_apart,
            "rotated queries are compared: compare scores": _compares_queries,
            "a change downwards does not count: take the absolute value": _keeps_the_sign,
        },
    ),
}
