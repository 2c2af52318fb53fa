r"""Exercises of the lab on scaled RoPE."""

import math

import torch

from posenc.lab.check.exercise import Exercise
from posenc.rotate.rope import inv_freq


def frozen_angles(distance, inv_freq, stopped, length):
    """The angle of each pair at each distance, where the stopped pairs turn no farther than length - 1."""
    held = distance.clamp(max=length - 1)
    return torch.where(stopped, held[..., None] * inv_freq, distance[..., None] * inv_freq)


def linear(dim, factor, base):
    """Frequencies [dim/2] of linear scaling."""
    return base ** (-torch.arange(0, dim, 2) / dim) / factor


def ntk(dim, factor, base):
    """Frequencies [dim/2] of NTK-aware scaling."""
    return (base * factor ** (dim / (dim - 2))) ** (-torch.arange(0, dim, 2) / dim)


def pair_of_turns(dim, turns, trained, base):
    """The number of the pair, not rounded, that turns so often."""
    return dim * math.log(trained / (2 * math.pi * turns)) / (2 * math.log(base))


def ramp(dim, trained, base, alpha, beta):
    """The part of each frequency that is kept [dim/2]."""
    first = max(math.floor(pair_of_turns(dim, beta, trained, base)), 0)
    last = min(math.ceil(pair_of_turns(dim, alpha, trained, base)), dim - 1)
    return 1 - ((torch.arange(dim // 2) - first) / (last - first)).clamp(0, 1)


def yarn(dim, factor, trained, base):
    """Frequencies [dim/2] of YaRN, and the factor on cosines and sines."""
    plain = base ** (-torch.arange(0, dim, 2) / dim)
    kept = ramp(dim, trained, base, 1.0, 32.0)
    return plain * (kept + (1 - kept) / factor), 0.1 * math.log(factor) + 1


def _distances():
    for shape, dim, length in (((9,), 8, 4), ((5, 3), 12, 7)):
        count = math.prod(shape)
        stopped = torch.arange(dim // 2) % 3 != 1
        yield torch.arange(count).reshape(shape), inv_freq(dim, 100.0), stopped, length


ON_PAPER = 4  # points

CASES = {
    "linear": [(8, 4.0, 10000.0), (24, 8.0, 10000.0), (6, 1.5, 500.0)],
    "pair_of_turns": [(128, 32.0, 4096, 10000.0), (128, 1.0, 4096, 10000.0), (24, 2.0, 64, 500.0)],
    "ramp": [(128, 4096, 10000.0, 1.0, 32.0), (24, 64, 10000.0, 1.0, 32.0), (64, 8192, 500000.0, 1.0, 4.0)],
    "yarn": [(128, 8.0, 4096, 10000.0), (24, 8.0, 64, 10000.0), (64, 2.5, 8192, 500000.0)],
}

MISTAKES = {
    "frozen_angles": {
        "the other pairs stop: those marked in `stopped` should": "where(stopped -> where(~stopped",
        "all pairs stop: those not marked in `stopped` turn on": "distance[..., None] -> held[..., None]",
        "pairs stop one token too late: the largest distance in training is length - 1": "length - 1 -> length",
        "beyond the trained length stopped pairs jump back to angle 0: they keep their last one": (
            "held[..., None] -> (held * (distance < length))[..., None]"
        ),
        "stopped pairs have their last angle at every distance: up to length - 1 they turn": (
            "distance.clamp(max=length - 1) -> torch.full_like(distance, length - 1)"
        ),
    },
    "linear": {
        "the wrong way: frequencies are multiplied by the factor, divide": "/ factor -> * factor",
        "the base is divided by the factor: divide the frequencies": (
            "-> (base / factor) ** (-torch.arange(0, dim, 2) / dim)"
        ),
        "the base is multiplied, so the first pair stays: divide every frequency": (
            "-> (base * factor) ** (-torch.arange(0, dim, 2) / dim)"
        ),
    },
    "ntk": {
        "the base grows by s alone, so the last pair is divided by less than s: an exponent is "
        "missing": "factor ** (dim / (dim - 2)) -> factor",
        "the exponent is upside down: it is dim/(dim - 2), above 1": "dim / (dim - 2) -> (dim - 2) / dim",
        "the wrong way: the base is lowered, raise it": "base * -> base /",
        "the exponent is dim/(dim - 1): the last pair is number dim/2 - 1, and 2i is dim - 2": "dim - 2 -> dim - 1",
        "this is linear scaling: the first pair should stay": linear,
    },
    "pair_of_turns": {
        "a turn is 2π radians, not one: turns are trained · ω / 2π": "2 * math.pi * turns -> turns",
        "this counts lanes: a pair has two, and ω of pair i is base^(-2i/dim)": (
            "/ (2 * math.log(base)) -> / math.log(base)"
        ),
        "the sign is flipped: more turns means a smaller number of the pair": "return dim -> return -dim",
        "turns stand on the wrong side of the fraction": "* turns -> / turns",
    },
    "ramp": {
        "kept and divided are swapped: fast pairs, the first ones, keep 1": "return 1 - -> return",
        "the ends are not rounded: floor the first, ceil the last": ("math.floor -> ", "math.ceil -> "),
        "the ends are rounded inwards: floor the first, ceil the last": (
            "math.floor -> math.ceil",
            "min(math.ceil -> min(math.floor",
        ),
        "outside of its ends the ramp goes on: clamp it to 0 and 1": ".clamp(0, 1) -> ",
        "the first end may not be below 0: where no pair turns beta times, the ramp starts at pair 0": (
            "max(math.floor -> (math.floor",
            "base)), 0) -> base)))",
        ),
        "this is the paper's ramp, linear in turns: the released code's is linear in the number of the pair": (
            "-> ((trained / math.tau * linear(dim, 1, base) - alpha) / (beta - alpha)).clamp(0, 1)"
        ),
    },
    "yarn": {
        "the mixture is swapped: what `ramp` keeps is not divided": (
            "kept + (1 - kept) / factor -> 1 - kept + kept / factor"
        ),
        "wavelengths are mixed: mix the frequencies ω and ω / factor": (
            "* (kept + (1 - kept) / factor) -> / (kept + (1 - kept) * factor)"
        ),
        "the temperature is squared already: each of q and k gets 0.1 ln s + 1, and logits its square": (
            "0.1 * math.log(factor) + 1 -> (0.1 * math.log(factor) + 1) ** 2"
        ),
        "the temperature is missing: the second value is 0.1 ln s + 1": "0.1 * math.log(factor) + 1 -> 1.0",
        "the logarithm has base 2: take the natural one": "math.log( -> math.log2(",
        "these are NTK's frequencies: YaRN keeps some and divides some": (
            "plain * (kept + (1 - kept) / factor) -> ntk(dim, factor, base)"
        ),
    },
}

ANGLES = (
    ("angles in turns, not radians: divided by 2 pi", lambda f, *case: f(*case) / (2 * math.pi)),
    ("distance is given in units of 2 tokens, length in tokens", lambda f, distance, *how: f(2 * distance, *how)),
    ("pairs come first: [D/2, ...]", lambda f, *case: f(*case).movedim(-1, 0)),
)
YARNS = (
    ("frequencies in turns a token: divided by 2 pi", lambda f, *case: (f(*case)[0] / (2 * math.pi), f(*case)[1])),
    ("a base of 10 times the base that is given", lambda f, *case: f(*case[:3], 10 * case[3])),
    ("the slowest pair first", lambda f, *case: (f(*case)[0].flip(0), f(*case)[1])),
)

# reference, cases, tolerance, points, mistakes
EXERCISES = {
    "frozen_angles": Exercise(frozen_angles, _distances, 1e-6, 2, MISTAKES["frozen_angles"], variants=ANGLES),
    "linear": Exercise(linear, CASES["linear"], 1e-6, 1, MISTAKES["linear"]),
    "ntk": Exercise(ntk, CASES["linear"], 1e-6, 1, MISTAKES["ntk"]),
    "pair_of_turns": Exercise(pair_of_turns, CASES["pair_of_turns"], 1e-6, 1, MISTAKES["pair_of_turns"]),
    "ramp": Exercise(ramp, CASES["ramp"], 1e-5, 2, MISTAKES["ramp"]),
    "yarn": Exercise(yarn, CASES["yarn"], 1e-6, 2, MISTAKES["yarn"], variants=YARNS),
}
