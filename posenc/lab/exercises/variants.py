r"""Variants of the labs' exercises: a student's seed asks for another base, order, unit or rule.

A variant is made from the book's exercise: `wrap` turns a function for that one into one for the variant. It does so
with the right function and with every mistake, so that mistakes are still named. Nobody has a variant without a seed.
"""

import dataclasses
import functools
import math
import random
from collections.abc import Callable
from typing import NamedTuple

import torch

from posenc.lab.exercises.exercise import Exercise


class Variant(NamedTuple):
    r"""What is asked in place of the book's exercise.

    asks: in words, to the student. wrap: function for the book's exercise -> function for this one. reword: {words of a
    mistake: what they must say here, or None where it is no mistake here}; parts of a sentence are replaced.
    """

    asks: str
    wrap: Callable
    reword: dict = {}


PLAIN = "this is the book's own version; read what your seed asks for"


def variant(name: str, exercise: Exercise, seed: int) -> Exercise:
    r"""The exercise that a seed asks for: `exercise` itself for seed 0, and where `VARIANTS` has none.

    Arguments: name: "rope.rotate". exercise: the book's. seed: from 0 on.
    """
    if not seed or name not in VARIANTS:
        return exercise
    chosen = random.Random(f"{name}.{seed}").choice(VARIANTS[name])
    mistakes = {PLAIN: exercise.reference}
    for words, function in exercise.mistakes.items():
        for old, new in chosen.reword.items():
            if old in words:
                words = new and words.replace(old, new)
                break
        if words is not None:
            mistakes[words] = _wrapped(chosen.wrap, function)
    right = _wrapped(chosen.wrap, exercise.reference)
    return dataclasses.replace(exercise, reference=right, mistakes=mistakes, asks=chosen.asks, plain=exercise)


def _wrapped(wrap, function):
    made = wrap(function)
    try:
        functools.update_wrapper(made, function)
    except AttributeError:  # of a built-in function
        pass
    return made


def _partly_turned(f):
    def turn(x, positions, inv_freq):
        half = x.shape[-1] // 2
        return torch.cat((f(x[..., :half], positions, inv_freq[: half // 2]), x[..., half:]), dim=-1)

    return turn


def _logarithmic(f):
    def bias(pos_q, pos_k, slopes):
        each = f(pos_q, pos_k, torch.ones_like(slopes))
        return slopes[:, None, None] * each.sign() * torch.log1p(each.abs())

    return bias


#: exercise -> its variants; a seed picks one of them.
VARIANTS = {
    "rope.inv_freq": [
        Variant(
            "return them in degrees a token, not in radians.",
            lambda f: lambda dim, base: f(dim, base) * (180 / math.pi),
            {"so the first frequency is 1": "so the first frequency is 1 radian"},
        ),
        Variant(
            "return them in turns a token (a whole circle is 1), not in radians.",
            lambda f: lambda dim, base: f(dim, base) / (2 * math.pi),
            {"so the first frequency is 1": "so the first frequency is 1 radian"},
        ),
        Variant(
            "raise the base first, as NTK scaling by 4 does: b becomes b · 4^(D/(D − 2)).",
            lambda f: lambda dim, base: f(dim, base * 4 ** (dim / (dim - 2))),
        ),
    ],
    "rope.rotate": [
        Variant(
            "pairs take the frequencies in reverse: pair i turns by inv_freq[D/2 − 1 − i].",
            lambda f: lambda x, positions, inv_freq: f(x, positions, inv_freq.flip(-1)),
        ),
        Variant(
            "only the first half of the lanes turns, with the first D/4 frequencies (rounded down); the others stay.",
            _partly_turned,
            {"lanes i and i + D/2 are paired": "of the lanes that turn, the first and the second half are paired"},
        ),
        Variant(
            "positions are divided by 8 before the angles are made (position interpolation).",
            lambda f: lambda x, positions, inv_freq: f(x, positions / 8, inv_freq),
        ),
    ],
    "rope.rotate_half": [
        Variant(
            "pairs take the frequencies in reverse: pair i turns by inv_freq[D/2 − 1 − i].",
            lambda f: lambda x, positions, inv_freq: f(x, positions, inv_freq.flip(-1)),
        ),
        Variant(
            "positions are divided by 4 before the angles are made (position interpolation).",
            lambda f: lambda x, positions, inv_freq: f(x, positions / 4, inv_freq),
        ),
    ],
    "alibi.slopes": [
        Variant(
            "the exponents run to 4, not to 8: square roots of the paper's slopes.",
            lambda f: lambda num_heads: f(num_heads) ** 0.5,
            {": 12 heads must end .7071 .3536 .1768 .0884": ""},
        ),
        Variant(
            "the exponents run to 16, not to 8: squares of the paper's slopes.",
            lambda f: lambda num_heads: f(num_heads) ** 2,
            {": 12 heads must end .7071 .3536 .1768 .0884": ""},
        ),
    ],
    "alibi.bias": [
        Variant(
            "positions count in blocks of 4 tokens: token p stands at ⌊p/4⌋.",
            lambda f: lambda pos_q, pos_k, slopes: f(pos_q // 4, pos_k // 4, slopes),
        ),
        Variant(
            "the penalty is logarithmic: −m log(1 + d) at distance d in the past, +m log(1 + d) as far ahead.",
            _logarithmic,
        ),
    ],
    "alibi.window": [
        Variant("slope is given a hundred tokens, not a token.", lambda f: lambda slope, share: f(slope / 100, share)),
        Variant(
            "weights fall by 2^(−slope) a token, not by e^(−slope).",
            lambda f: lambda slope, share: f(slope * math.log(2), share),
            {
                "the logarithm has base 2: the weight falls by e^-m a step": "the base 2 is counted twice",
                "1/m does not": "1/(m ln 2) does not",
                "hold 1 - e^(-m n)": "hold 1 - 2^(-m n)",
            },
        ),
    ],
    "sinusoidal.table": [
        Variant(
            "positions are divided by 4 before the angles are made (position interpolation).",
            lambda f: lambda positions, dim, base=10000.0: f(positions / 4, dim, base),
        ),
        Variant(
            "each row has length 1: divide by √(C/2).",
            lambda f: lambda positions, dim, base=10000.0: f(positions, dim, base) / (dim / 2) ** 0.5,
        ),
    ],
    "sinusoidal.rotation": [
        Variant(
            "positions are halved before they are encoded, so R(t) carries on by t/2 of the book's steps.",
            lambda f: lambda offset, dim, base=10000.0: f(offset / 2, dim, base),
        ),
        Variant(
            "the base is 4 times the one that is given.",
            lambda f: lambda offset, dim, base=10000.0: f(offset, dim, 4 * base),
        ),
    ],
    "sinusoidal.terms": [
        Variant(
            "return the terms as logits, divided by √C.",
            lambda f: lambda x, W, positions: f(x, W, positions) / x.shape[-1] ** 0.5,
        ),
        Variant(
            "words are numbered backwards: the given positions stand in reverse order.",
            lambda f: lambda x, W, positions: f(x, W, positions.flip(0)),
        ),
    ],
    "stickbreaking.stick": [
        Variant(
            "the oldest key, the first, is asked first.",
            lambda f: lambda logits: f(logits.flip(0)).flip(0),
            {"you start with the oldest key; the most recent one, the last, is asked first": None},
        ),
        Variant("logits are divided by a temperature of 2 before the sigmoid.", lambda f: lambda logits: f(logits / 2)),
    ],
    "stickbreaking.log_weights": [
        Variant("return logarithms to base 2.", lambda f: lambda logits: f(logits) / math.log(2)),
        Variant("logits are divided by a temperature of 4 before the sigmoid.", lambda f: lambda logits: f(logits / 4)),
    ],
    "stickbreaking.weigh": [
        Variant("scores are divided by a temperature of 2 before the sigmoid.", lambda f: lambda scores: f(scores / 2)),
        Variant(
            "scores are shifted by −1 before the sigmoid, so that a new head looks farther.",
            lambda f: lambda scores: f(scores - 1),
        ),
    ],
    "relative.shaw_term": [
        Variant(
            "positions count in blocks of 2 tokens: token p stands at ⌊p/2⌋.",
            lambda f: lambda q, table, pos_q, pos_k: f(q, table, pos_q // 2, pos_k // 2),
        ),
        Variant(
            "the table is stored from the farthest future to the farthest past: its rows stand in reverse.",
            lambda f: lambda q, table, pos_q, pos_k: f(q, table.flip(0), pos_q, pos_k),
            {"the sign is swapped": None, "offsets in the past all read row 0": "offsets in the past all read one row"},
        ),
    ],
    "relative.bucket": [
        Variant(
            "distances count twice: an offset r is treated as 2r.",
            lambda f: (
                lambda relative, num_buckets=32, max_distance=128, bidirectional=True: f(
                    2 * relative, num_buckets, max_distance, bidirectional
                )
            ),
        ),
        Variant(
            "max_distance is half of what is given.",
            lambda f: (
                lambda relative, num_buckets=32, max_distance=128, bidirectional=True: f(
                    relative, num_buckets, max_distance // 2, bidirectional
                )
            ),
        ),
    ],
    "learned.count": [
        Variant(
            "return bytes in float32, four a number.",
            lambda f: lambda max_positions, dim, num_layers, embed_at: 4 * f(max_positions, dim, num_layers, embed_at),
        ),
        Variant(
            "return bytes in float64, eight a number.",
            lambda f: lambda max_positions, dim, num_layers, embed_at: 8 * f(max_positions, dim, num_layers, embed_at),
        ),
    ],
    "learned.fold": [
        Variant(
            "the position vectors are halved before they are concatenated.",
            lambda f: lambda table, weight: f(table / 2, weight),
        ),
        Variant(
            "the rows of table are stored in reverse: row 0 is the last position's; return the first position's first.",
            lambda f: lambda table, weight: f(table.flip(0), weight),
        ),
    ],
    "cope.positions": [
        Variant(
            "each open gate counts 2, so that positions run twice as far.",
            lambda f: lambda logits, visible: 2 * f(logits, visible),
        ),
        Variant(
            "logits are divided by a temperature of 2 before the sigmoid.",
            lambda f: lambda logits, visible: f(logits / 2, visible),
        ),
    ],
    "cope.lookup": [
        Variant(
            "positions count in half rows: position p reads the table at p/2.",
            lambda f: lambda q, table, p: f(q, table, p / 2),
        ),
        Variant(
            "the table is stored backwards: its last row belongs to position 0.",
            lambda f: lambda q, table, p: f(q, table.flip(0), p),
            {
                "the rows are counted from the end of the table": None,
                "beyond the last row it": "beyond the farthest row it",
                "position c, the first row to 0": "position c, the last row to 0",
                "p = 2.9 is nearly row 3, so the row above": "p = 2.9 is nearly position 3, so that row",
            },
        ),
    ],
    "fox.log_forget": [
        Variant(
            "the bias is raised by 4, so that doors start open.",
            lambda f: lambda x, weight, bias: f(x, weight, bias + 4),
        ),
        Variant(
            "logits are doubled before the sigmoid, bias and all.",
            lambda f: lambda x, weight, bias: f(x, 2 * weight, 2 * bias),
        ),
    ],
    "fox.decay": [
        Variant(
            "each gate closes twice as hard: its log counts double.", lambda f: lambda log_forget: f(2 * log_forget)
        ),
        Variant("each gate closes half as hard: its log counts half.", lambda f: lambda log_forget: f(log_forget / 2)),
    ],
    "fox.alibi_gate": [
        Variant(
            "the slope is given per 10 tokens.",
            lambda f: lambda slope: f(slope / 10),
            {", and below 0 for a slope above 1": ""},
        ),
        Variant(
            "the slope counts twice: the gate of a head whose slope is 2m.",
            lambda f: lambda slope: f(2 * slope),
            {", and below 0 for a slope above 1": ""},
        ),
    ],
    "scaling.linear": [
        Variant(
            "factor is given in doublings of the length: 3 means 8.",
            lambda f: lambda dim, factor, base: f(dim, 2**factor, base),
        ),
        Variant(
            "the factor acts twice, as in a model that was interpolated before: the square of factor.",
            lambda f: lambda dim, factor, base: f(dim, factor**2, base),
        ),
    ],
    "scaling.ntk": [
        Variant(
            "the factor acts twice, as in a model that was scaled before: the square of factor.",
            lambda f: lambda dim, factor, base: f(dim, factor**2, base),
        ),
        Variant(
            "only half of what is asked for is needed: scale by 1 + (factor − 1)/2.",
            lambda f: lambda dim, factor, base: f(dim, 1 + (factor - 1) / 2, base),
        ),
    ],
    "scaling.pair_of_turns": [
        Variant(
            "turns are given in degrees (360 a turn).",
            lambda f: lambda dim, turns, trained, base: f(dim, turns / 360, trained, base),
        ),
        Variant(
            "turns are given in half circles.",
            lambda f: lambda dim, turns, trained, base: f(dim, turns / 2, trained, base),
        ),
    ],
    "rope2d.axial_freqs": [
        Variant(
            "return them in degrees a patch.",
            lambda f: lambda head_dim, axes, base: f(head_dim, axes, base) * (180 / math.pi),
            {"frequencies fall from 1": "frequencies fall from 1 radian"},
        ),
        Variant(
            "return them in turns a patch (a whole circle is 1).",
            lambda f: lambda head_dim, axes, base: f(head_dim, axes, base) / (2 * math.pi),
            {"frequencies fall from 1": "frequencies fall from 1 radian"},
        ),
    ],
    "rope2d.rotate_axes": [
        Variant(
            "the positions are measured in half patches: divide them by 2.",
            lambda f: lambda x, positions, freqs: f(x, positions / 2, freqs),
        ),
        Variant(
            "the frequencies are 3 times those given.", lambda f: lambda x, positions, freqs: f(x, positions, 3 * freqs)
        ),
    ],
    "comrope.rotation": [
        Variant(
            "the positions are measured in half patches: divide them by 2.",
            lambda f: lambda positions, generators: f(positions / 2, generators),
            {"p_1 A_1 + p_2 A_2": "p_1 A_1/2 + p_2 A_2/2"},
        ),
        Variant(
            "the generators are twice those given.",
            lambda f: lambda positions, generators: f(positions, 2 * generators),
        ),
    ],
    "comrope.commutator_error": [
        Variant(
            "return it for generators that are three times those given.", lambda f: lambda generators: f(3 * generators)
        ),
        Variant("return the error in per mille of 1: times 1,000.", lambda f: lambda generators: 1000 * f(generators)),
    ],
    "exposb.fade_logits": [
        Variant(
            "distances count in tens of tokens: divide them by 10.",
            lambda f: lambda scores, distance, rate, floor: f(scores, distance / 10, rate, floor),
        ),
        Variant(
            "the floor is the square root of the one given.",
            lambda f: lambda scores, distance, rate, floor: f(scores, distance, rate, floor**0.5),
        ),
    ],
    "exposb.hazard_weights": [
        Variant("logits are divided by a temperature of 2 first.", lambda f: lambda scores, rate: f(scores / 2, rate)),
        Variant("the rate is doubled.", lambda f: lambda scores, rate: f(scores, 2 * rate)),
    ],
    "rse.penalize": [
        Variant(
            "distances count in blocks: token p stands at ⌊p/2⌋.",
            lambda f: lambda scores, pos_q, pos_k, rate: f(scores, pos_q // 2, pos_k // 2, rate),
        ),
        Variant(
            "the rate is given per ten tokens.",
            lambda f: lambda scores, pos_q, pos_k, rate: f(scores, pos_q, pos_k, rate / 10),
        ),
    ],
    "rse.stick": [
        Variant("logits are divided by a temperature of 2 before the sigmoid.", lambda f: lambda logits: f(logits / 2)),
        Variant("logits are shifted by −1 before the sigmoid.", lambda f: lambda logits: f(logits - 1)),
    ],
}
