r"""Questions on the sinusoidal encoding."""

import math

import torch

from posenc.embed.sinusoidal import table
from posenc.lab.exercises.bank.question import Question, number, options, solve, vector
from posenc.lab.exercises.sinusoidal import rotation, terms

F64 = torch.float64


def _row(position, dim, base, layout="interleaved"):
    return table(torch.tensor([position], dtype=F64), dim, base, layout=layout)[0].tolist()


def by_hand(draw):
    m, base = draw.randint(2, 12), draw.choice([100, 400, 10000])
    key = _row(m, 4, float(base))
    return Question(
        f"C = 4, base {base:,}. Write the sinusoidal encoding of position {m} in the paper's order of lanes, with the two frequencies.",
        f"frequencies {vector([1, base**-0.5])}; row {vector(key)}",
        ((1, f"ω_i = b^(−2i/C): {vector([1, base**-0.5])}"), (1, f"sin, cos, sin, cos: {vector(key)}")),
        {
            vector(
                _row(m, 4, float(base), "concatenated")
            ): "all sines, then all cosines: another layout, harmless only where no weights are loaded",
            vector(_row(m + 1, 4, float(base))): "positions are counted from 1",
            vector([key[1], key[0], key[3], key[2]]): "sine and cosine are swapped",
        },
        {"m": m, "base": base},
        tuple(key),
        1,
        5,
    )


def carried_on(draw):
    t, base = draw.choice([2, 3, 5, 7]), draw.choice([100, 10000])
    block = rotation(t, 4, float(base), dtype=F64)[2:, 2:]
    key = block.flatten().tolist()
    return Question(
        f"C = 4, base {base:,}. Encodings are rows. Give the 2 × 2 block R with (sin mω, cos mω) R = (sin (m + {t})ω, cos (m + {t})ω) for the slower pair, and prove it with one addition theorem. Why does R not depend on m, and what can attention do with that?",
        f"[[cos, −sin], [sin, cos]] of {t}ω: {vector(key)} row by row",
        (
            (1, "sin(a + b) and cos(a + b) written as products with the fixed numbers sin tω, cos tω"),
            (1, f"the block {vector(key)}"),
            (1, "W_q and W_k can hold R: a score can then look for the offset t"),
        ),
        {vector(block.T.flatten().tolist()): "the transpose: it goes back by t, or belongs to columns"},
        {"t": t, "base": base},
        tuple(key),
        2,
        7,
    )


def product_of_two(draw):
    dim, d, m = draw.choice([4, 6]), draw.choice([1, 2, 3, 5]), draw.randint(20, 90)
    rows = table(torch.tensor([m, m + d], dtype=F64), dim, 100.0)
    key = float(rows[0] @ rows[1])
    return Question(
        f"C = {dim}, base 100. Compute the scalar product of the encodings of positions {m} and {m + d}. Which terms must be added, why does {m} not matter, and is the product a falling function of the distance?",
        f"Σ_i cos({d} ω_i) = {number(key)}",
        (
            (1, "sin a sin b + cos a cos b = cos(a − b): one cosine for each pair"),
            (1, f"{number(key)}"),
            (1, "not monotone: cosines come back; and it is even, so it does not tell before from after"),
        ),
        {
            number(key * 2): "lanes were counted in place of pairs",
            number(sum(math.cos(d * 100 ** (-i / dim)) for i in range(dim // 2))): "the exponent is −i/C",
        },
        {"dim": dim, "d": d},
        (key,),
        2,
        6,
    )


def length_of_a_row(draw):
    dim, std = draw.choice([64, 256, 512, 768]), draw.choice([0.02, 0.05])
    norm = float(table(torch.tensor([17], dtype=F64), dim).norm())
    content = std * dim**0.5
    key = norm / content
    return Question(
        f"C = {dim}. Word embeddings start as normal numbers with deviation {std}. How long is a row of the sinusoidal table, how long is an embedding (expected square), and how many times louder is position? By which factor does the paper multiply embeddings, and what would the ratio be then?",
        f"√(C/2) = {number(norm)} against {number(content)}: {number(key)} times; with √C the ratio is {number(key / dim**0.5)}",
        (
            (1, f"each pair has sin² + cos² = 1: length √({dim}/2) = {number(norm)}"),
            (1, f"{std} √C = {number(content)}, ratio {number(key)}"),
            (1, f"√C: the ratio falls to {number(key / dim**0.5)}"),
        ),
        {number(dim**0.5): "each lane was taken for 1: the mean of sin² is a half"},
        {"dim": dim, "std": std},
        (norm, content, key),
        2,
        6,
    )


def wavelengths(draw):
    dim, base = draw.choice([64, 128, 512]), draw.choice([1000, 10000])
    lengths = [2 * math.pi * base ** (2 * i / dim) for i in range(dim // 2)]
    one_step = table(torch.tensor([1.0], dtype=F64), dim, float(base))[0].view(-1, 2)
    omega = torch.atan2(one_step[:, 0], one_step[:, 1])
    reach = draw.choice([100, 512])
    key = int((2 * math.pi / omega > reach).sum())
    return Question(
        f"C = {dim}, base {base:,}. Give the shortest and the longest wavelength in tokens, and the number of pairs whose wavelength is longer than {reach} tokens. What do those pairs look like to a model trained on {reach} tokens?",
        f"{number(2 * math.pi / omega[0])} and {number(2 * math.pi / omega[-1])} tokens; {key} of {dim // 2} pairs",
        (
            (1, f"2π and 2π b^((C − 2)/C): {number(lengths[0])} and {number(lengths[-1])}"),
            (1, f"λ_i > {reach} solved for i, rounded: {key} pairs"),
            (1, "an arc of the circle only: nearly a straight line, and beyond training values they never showed"),
        ),
        {
            number(2 * math.pi * base): "the last exponent was taken as 1: it is (C − 2)/C",
            f"{dim // 2 - key} pairs": "the pairs that do go around were counted",
        },
        {"dim": dim, "base": base, "reach": reach},
        (float(2 * math.pi / omega[0]), float(2 * math.pi / omega[-1]), key),
        2,
        6,
    )


def four_terms(draw):
    shift = draw.choice([1, 10, 100])
    generator = torch.Generator().manual_seed(shift)
    x, W = torch.randn(5, 8, generator=generator, dtype=F64), torch.randn(8, 8, generator=generator, dtype=F64)
    here, there = (terms(x, W, torch.arange(5.0, dtype=F64) + s) for s in (0, shift))
    moves = [float((a - b).abs().max()) for a, b in zip(here, there)]
    return Question(
        f"Write q·k for inputs x + p as four terms with W = W_q W_kᵀ. Which of them change when the same words move by {shift} positions? Then: for which W does the last term depend on the distance alone?",
        f"largest changes for random W: {vector(moves)}: all but content-content; the last is relative where W commutes with the rotation of every pair",
        (
            (1, "x W x, x W p, p W x, p W p"),
            (1, f"the three with p change ({vector(moves)})"),
            (2, "R(s) W R(s)ᵀ = W for all s: blocks (a b; −b a) for each pair, no mixing of frequencies"),
        ),
        {
            "only the last one": "the mixed terms hold p too",
            "none: sinusoids are relative": "relative is what W may learn, not what it is",
        },
        {"shift": shift},
        (moves[0] < 1e-9, *(move > 1e-3 for move in moves[1:])),
        3,
        8,
    )


def first_repeat(draw):
    dim, base = 2, draw.choice([10000])
    tokens = draw.choice([22, 44, 355, 710])
    gap = float((table(torch.tensor([0, tokens], dtype=F64), dim).diff(dim=0)).norm())
    other = draw.choice([8, 16])
    wide = float((table(torch.tensor([0, tokens], dtype=F64), other, float(base)).diff(dim=0)).norm())
    return Question(
        f"With C = 2 there is one pair, ω = 1. How far apart are the encodings of positions 0 and {tokens}? Why is that so little, and what do more pairs change? Give the distance for C = {other}, base {base:,}.",
        f"{number(gap)}; with C = {other} it is {number(wide)}",
        (
            (1, f"{tokens} is nearly a multiple of 2π: 2|sin({tokens}/2)| = {number(gap)}"),
            (1, "one clock repeats: slower ones tell the rounds apart"),
            (1, f"√(Σ 4 sin²({tokens} ω_i/2)) = {number(wide)}"),
        ),
        {"0": "no whole number is a multiple of 2π: positions never coincide exactly"},
        {"tokens": tokens, "other": other, "base": base},
        (gap, wide),
        2,
        6,
    )


def base_for_neighbors(draw):
    dim, length = draw.choice([64, 128]), draw.choice([512, 2048, 8192])
    key = solve(lambda b: _angle(length, dim, b), math.pi, 1.01, 1e12)
    return Question(
        f"C = {dim}. Which base makes the slowest pair go through exactly half a circle over {length:,} tokens, so that its cosine falls all the way and no two positions share it? What is lost with a much larger base?",
        f"b = {number(key)}",
        (
            (1, f"b^(−(C − 2)/C) · {length} = π"),
            (
                1,
                f"b = ({length}/π)^({dim}/{dim - 2}) = {number(key)}; a larger base spends pairs on wavelengths that no text fills",
            ),
        ),
        {
            number(length / math.pi): "the last exponent was taken as −1",
            number(
                (length / (2 * math.pi)) ** (dim / (dim - 2))
            ): "a whole circle: then its two halves share each cosine",
        },
        {"dim": dim, "length": length},
        (key,),
        2,
        6,
    )


def _angle(length, dim, base):
    """How far the slowest pair goes over a length, in radians."""
    sin, cos = table(torch.tensor([1.0], dtype=F64), dim, base)[0, -2:].tolist()
    return math.atan2(sin, cos) * length


def right_row(draw):
    m = draw.choice([3, 5, 7])
    listing, letter = options(
        draw,
        "`torch.stack((a.sin(), a.cos()), -1).flatten(-2)` with `a = p[:, None] * b ** (-torch.arange(0, C, 2) / C)`",
        [
            "`torch.stack((a.sin(), a.cos()), -1).flatten(-2)` with `a = p[:, None] * b ** (-torch.arange(C // 2) / C)`",
            "`torch.stack((a.cos(), a.sin()), -1).flatten(-2)` with `a = p[:, None] * b ** (-torch.arange(0, C, 2) / C)`",
            "`torch.cat((a.sin(), a.cos()), -1)` with `a = p[:, None] * b ** (-torch.arange(0, C, 2) / C)`",
        ],
    )
    key = _row(m, 6, 1000.0)
    return Question(
        f"Which line is the table of *Attention is all you need*? Say of each other one whether a model trained from scratch with it would be worse, and why. Check yours: lane 2 of position {m} for C = 6, b = 1,000.\n\n{listing}",
        f"({letter}); lane 2 is {number(key[2])}",
        (
            (1, f"({letter})"),
            (
                1,
                "another order of lanes is a permutation, which W learns: no worse from scratch, wrong for loaded weights; the half exponent spans a shorter ladder",
            ),
            (1, f"sin({m}/10) = {number(key[2])}"),
        ),
        {"all others are worse": "the order of lanes is a convention; the exponent is not"},
        {"m": m},
        (key[2],),
        2,
        5,
    )


# Aloud


def say_why_waves(draw):
    m = draw.choice([5, 9])
    return Question(
        f"Why not add the number m itself, or m/T? And why not the binary digits of m, here of {m}? Come to sinusoids from there.",
        f"m is unbounded, m/T changes its meaning with the length; {m:b} jumps in many digits at once; waves are digits made smooth: row {vector(_row(m, 4, 100.0))} for C = 4, b = 100",
        (
            (1, "m: unbounded, drowns content; m/T: one step means another distance in each text"),
            (1, "binary digits: bounded and unique, but not smooth"),
            (2, "a pair of waves is a clock: an offset is a rotation, the same at every m"),
        ),
        {"because the paper does": "ask for a property that only this choice has"},
        {"m": m},
        tuple(_row(m, 4, 100.0)),
        2,
        4,
    )


def say_relative(draw):
    d = draw.choice([3, 30])
    row = table(torch.tensor([0, d], dtype=F64), 64)
    return Question(
        f"'Sinusoidal encodings are relative.' Defend it, then attack it. How large is p_0 · p_{d} for C = 64, and which score of a real layer is not a function of distance?",
        f"p_0 · p_{d} = {number(float(row[0] @ row[1]))}; with learned W_q, W_k and mixed terms, scores depend on m itself",
        (
            (1, "p_m · p_n = Σ cos (m − n)ω: a function of distance"),
            (1, "a layer has W between them: relative only for special W"),
            (2, "mixed terms of content and position are absolute; the audit's shift test shows it"),
        ),
        {"yes, since R(t) exists": "that an offset is linear makes it learnable, not automatic"},
        {"d": d},
        (float(row[0] @ row[1]),),
        2,
        4,
    )


def say_longer(draw):
    length = draw.choice([256, 512])
    a = table(torch.arange(4 * length, dtype=F64), 64)
    key = int((a[:length].amin(0) - 0.05 > a.amin(0)).logical_or(a[:length].amax(0) + 0.05 < a.amax(0)).sum())
    return Question(
        f"Trained on {length} tokens, tested on {4 * length}: sinusoids need no new parameters. Why does it fail all the same? How many of 64 lanes (b = 10,000) take values there that are more than 0.05 outside of what training showed?",
        f"{key} of 64 lanes leave their range; the others make new combinations",
        (
            (1, "slow lanes take new values"),
            (1, "and fast ones, all seen, meet in combinations never seen"),
            (2, "what to measure: same targets, context whole and cut"),
        ),
        {"it works, since sine is bounded": "bounded is not seen"},
        {"length": length},
        (key,),
        2,
        4,
    )


def say_where(draw):
    layers = draw.choice([6, 12])
    return Question(
        f"The table is added once, at the input of a model with {layers} layers. How does layer {layers} still know positions? What speaks for adding it in each layer, and to queries and keys alone?",
        "the residual stream carries it; norm and later writes may drown it",
        (
            (1, "residual connections pass the sum on"),
            (1, "volume: layers write over it, a norm rescales it"),
            (
                2,
                "in each layer: always there; q and k alone: values carry content only. Both cost little, a fair test has the same volume",
            ),
        ),
        {"each layer adds it again": "not in the original: look at the code"},
        {"layers": layers},
        (layers,),
        2,
        3,
    )


def say_swap(draw):
    m = draw.choice([2, 4])
    a, b = _row(m, 4, 100.0), _row(m, 4, 100.0, "concatenated")
    return Question(
        f"You load weights trained with sin and cos in turn into code that puts all sines first. For position {m} (C = 4, b = 100), what does the model get, what should it get? Would training from scratch mind?",
        f"gets {vector(b)}, should get {vector(a)}",
        (
            (1, "the same numbers in other lanes"),
            (1, "embeddings and W were trained for the first order"),
            (2, "from scratch it is a fixed permutation, learned away; mended by permuting the table, not the weights"),
        ),
        {"it retrains itself": "nothing trains when weights are only loaded"},
        {"m": m},
        (*a, *b),
        1,
        3,
    )


PAPER = (
    by_hand,
    carried_on,
    product_of_two,
    length_of_a_row,
    wavelengths,
    four_terms,
    first_repeat,
    base_for_neighbors,
    right_row,
)
ORAL = (say_why_waves, say_relative, say_longer, say_where, say_swap)
