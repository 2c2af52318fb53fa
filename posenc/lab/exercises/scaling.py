r"""Exercises of the lab on scaled RoPE."""

import math

import torch

from posenc import scaling
from posenc.lab.exercises.exercise import Exercise
from posenc.rotate.rope import inv_freq, ladder

# What the exercises ask for


def frozen_angles(distance, inv_freq, stopped, length):
    r"""Angle of each pair at each distance [...]: [..., D/2]. `stopped` pairs turn no farther than length - 1."""
    seen = distance.clamp(max=length - 1)
    return torch.where(stopped, seen[..., None] * inv_freq, distance[..., None] * inv_freq)


def linear(dim, factor, base):
    return scaling.linear(dim, factor, base=base)[0].float()


def ntk(dim, factor, base):
    return scaling.ntk(dim, factor, base=base)[0].float()


def pair_of_turns(dim, turns, trained, base):
    r"""Which pair turns that often within `trained` tokens, as a number with a fraction."""
    return dim * math.log(trained / (2 * math.pi * turns)) / (2 * math.log(base))


def ramp(dim, trained, base, alpha, beta):
    r"""The part of each frequency that YaRN's released code keeps: [dim/2], 1 for fast pairs, 0 for slow ones."""
    first, last = scaling.correction_lanes(dim, trained=trained, base=base, alpha=alpha, beta=beta)
    return 1 - ((torch.arange(dim // 2) - first) / (last - first)).clamp(0, 1)


def yarn(dim, factor, trained, base):
    frequencies, attention_factor = scaling.yarn(dim, factor, trained=trained, base=base)
    return frequencies.float(), attention_factor


# How they go wrong


def _stops_the_others(distance, inv_freq, stopped, length):
    return frozen_angles(distance, inv_freq, ~stopped, length)


def _stops_all(distance, inv_freq, stopped, length):
    return frozen_angles(distance, inv_freq, torch.ones_like(stopped), length)


def _one_too_far(distance, inv_freq, stopped, length):
    return frozen_angles(distance, inv_freq, stopped, length + 1)


def _back_to_zero(distance, inv_freq, stopped, length):
    angles = distance[..., None] * inv_freq
    return torch.where(stopped & (distance[..., None] >= length), torch.zeros_like(angles), angles)


def _always_stopped(distance, inv_freq, stopped, length):
    last = torch.full_like(distance, length - 1)
    return torch.where(stopped, last[..., None] * inv_freq, distance[..., None] * inv_freq)


def _multiplies(dim, factor, base):
    return (ladder(dim, base) * factor).float()


def _divides_base(dim, factor, base):
    return ladder(dim, base / factor).float()


def _raises_base_by_factor(dim, factor, base):
    return ladder(dim, base * factor).float()


def _exponent_upside_down(dim, factor, base):
    return ladder(dim, base * factor ** ((dim - 2) / dim)).float()


def _lowers_base(dim, factor, base):
    return ladder(dim, base / factor ** (dim / (dim - 2))).float()


def _exponent_minus_one(dim, factor, base):
    return ladder(dim, base * factor ** (dim / (dim - 1))).float()


def _without_two_pi(dim, turns, trained, base):
    return pair_of_turns(dim, turns / (2 * math.pi), trained, base)


def _lane_not_pair(dim, turns, trained, base):
    return 2 * pair_of_turns(dim, turns, trained, base)


def _sign(dim, turns, trained, base):
    return -pair_of_turns(dim, turns, trained, base)


def _turns_upside_down(dim, turns, trained, base):
    return pair_of_turns(dim, 1 / turns, trained, base)


def _divided_part(dim, trained, base, alpha, beta):
    return 1 - ramp(dim, trained, base, alpha, beta)


def _between(dim, first, last):
    return 1 - ((torch.arange(dim // 2) - first) / (last - first)).clamp(0, 1)


def _unrounded(dim, trained, base, alpha, beta):
    first, last = (pair_of_turns(dim, turns, trained, base) for turns in (beta, alpha))
    return _between(dim, max(first, 0), min(last, dim - 1))


def _rounded_inwards(dim, trained, base, alpha, beta):
    first, last = (pair_of_turns(dim, turns, trained, base) for turns in (beta, alpha))
    return _between(dim, max(math.ceil(first), 0), min(math.floor(last), dim - 1))


def _unclamped(dim, trained, base, alpha, beta):
    first, last = scaling.correction_lanes(dim, trained=trained, base=base, alpha=alpha, beta=beta)
    return 1 - (torch.arange(dim // 2) - first) / (last - first)


def _below_zero(dim, trained, base, alpha, beta):
    first, last = (pair_of_turns(dim, turns, trained, base) for turns in (beta, alpha))
    return _between(dim, math.floor(first), min(math.ceil(last), dim - 1))


def _by_turns(dim, trained, base, alpha, beta):
    turns = trained * ladder(dim, base) / (2 * math.pi)
    return ((turns - alpha) / (beta - alpha)).clamp(0, 1).float()


def _parts(dim, factor, trained, base):
    return ladder(dim, base), ramp(dim, trained, base, 1.0, 32.0).double(), 0.1 * math.log(factor) + 1


def _swapped(dim, factor, trained, base):
    plain, kept, t = _parts(dim, factor, trained, base)
    return (plain * (1 - kept + kept / factor)).float(), t


def _mixes_wavelengths(dim, factor, trained, base):
    plain, kept, t = _parts(dim, factor, trained, base)
    return (plain / (kept + (1 - kept) * factor)).float(), t


def _squared(dim, factor, trained, base):
    frequencies, t = yarn(dim, factor, trained, base)
    return frequencies, t**2


def _cold(dim, factor, trained, base):
    return yarn(dim, factor, trained, base)[0], 1.0


def _log2(dim, factor, trained, base):
    return yarn(dim, factor, trained, base)[0], 0.1 * math.log2(factor) + 1


def _static_ntk(dim, factor, trained, base):
    return ntk(dim, factor, base), yarn(dim, factor, trained, base)[1]


def _distances():
    for shape, dim, length in (((9,), 8, 4), ((5, 3), 12, 7)):
        count = math.prod(shape)
        stopped = torch.arange(dim // 2) % 3 != 1
        yield torch.arange(count).reshape(shape), inv_freq(dim, 100.0), stopped, length


ON_PAPER = 4  # points

EXERCISES = {
    "frozen_angles": Exercise(
        title="Exercise 1, frozen_angles",
        points=2,
        reference=frozen_angles,
        cases=lambda: list(_distances()),
        mistakes={
            "the other pairs stop: those marked in `stopped` should": _stops_the_others,
            "all pairs stop: those not marked in `stopped` turn on": _stops_all,
            "pairs stop one token too late: the largest distance in training is length - 1": _one_too_far,
            "beyond the trained length stopped pairs jump back to angle 0: they keep their last one": _back_to_zero,
            "stopped pairs have their last angle at every distance: up to length - 1 they turn": _always_stopped,
        },
    ),
    "linear": Exercise(
        title="Exercise 2, linear",
        points=1,
        reference=linear,
        cases=[(8, 4.0, 10000.0), (24, 8.0, 10000.0), (6, 1.5, 500.0)],
        mistakes={
            "the wrong way: frequencies are multiplied by the factor, divide": _multiplies,
            "the base is divided by the factor: divide the frequencies": _divides_base,
            "the base is multiplied, so the first pair stays: divide every frequency": _raises_base_by_factor,
        },
    ),
    "ntk": Exercise(
        title="Exercise 3, ntk",
        points=1,
        reference=ntk,
        cases=[(8, 4.0, 10000.0), (24, 8.0, 10000.0), (6, 1.5, 500.0)],
        mistakes={
            "the base grows by s alone, so the last pair is divided by less than s: an exponent is "
            "missing": _raises_base_by_factor,
            "the exponent is upside down: it is dim/(dim - 2), above 1": _exponent_upside_down,
            "the wrong way: the base is lowered, raise it": _lowers_base,
            "the exponent is dim/(dim - 1): the last pair is number dim/2 - 1, and 2i is dim - 2": _exponent_minus_one,
            "this is linear scaling: the first pair should stay": linear,
        },
    ),
    "pair_of_turns": Exercise(
        title="Exercise 4, pair_of_turns",
        points=1,
        reference=pair_of_turns,
        cases=[(128, 32.0, 4096, 10000.0), (128, 1.0, 4096, 10000.0), (24, 2.0, 64, 500.0)],
        mistakes={
            "a turn is 2π radians, not one: turns are trained · ω / 2π": _without_two_pi,
            "this counts lanes: a pair has two, and ω of pair i is base^(-2i/dim)": _lane_not_pair,
            "the sign is flipped: more turns means a smaller number of the pair": _sign,
            "turns stand on the wrong side of the fraction": _turns_upside_down,
        },
    ),
    "ramp": Exercise(
        title="Exercise 5, ramp",
        points=2,
        reference=ramp,
        cases=[(128, 4096, 10000.0, 1.0, 32.0), (24, 64, 10000.0, 1.0, 32.0), (64, 8192, 500000.0, 1.0, 4.0)],
        tolerance=1e-5,
        mistakes={
            "kept and divided are swapped: fast pairs, the first ones, keep 1": _divided_part,
            "the ends are not rounded: floor the first, ceil the last": _unrounded,
            "the ends are rounded inwards: floor the first, ceil the last": _rounded_inwards,
            "outside of its ends the ramp goes on: clamp it to 0 and 1": _unclamped,
            "the first end may not be below 0: where no pair turns beta times, the ramp starts at pair 0": _below_zero,
            "this is the paper's ramp, linear in turns: the released code's is linear in the number of the "
            "pair": _by_turns,
        },
    ),
    "yarn": Exercise(
        title="Exercise 6, yarn",
        points=2,
        reference=yarn,
        cases=[(128, 8.0, 4096, 10000.0), (24, 8.0, 64, 10000.0), (64, 2.5, 8192, 500000.0)],
        mistakes={
            "the mixture is swapped: what `ramp` keeps is not divided": _swapped,
            "wavelengths are mixed: mix the frequencies ω and ω / factor": _mixes_wavelengths,
            "the temperature is squared already: each of q and k gets 0.1 ln s + 1, and logits its square": _squared,
            "the temperature is missing: the second value is 0.1 ln s + 1": _cold,
            "the logarithm has base 2: take the natural one": _log2,
            "these are NTK's frequencies: YaRN keeps some and divides some": _static_ntk,
        },
    ),
}
