r"""Questions on RoPE."""

import math

import torch

from posenc.attention import attention
from posenc.lab.exercises.bank.question import Question, number, solve, vector
from posenc.lab.exercises.rope import half_from_interleaved, pairs_of_one_angles_of_other, reads_pairs_writes_halves
from posenc.rotate.rope import inv_freq, rope, rotate

F64 = torch.float64


def _turn(x, position, w, layout="interleaved"):
    x, w = torch.tensor([x], dtype=F64), torch.as_tensor(w, dtype=F64)
    return rotate(x, torch.tensor([position], dtype=F64), w, layout=layout)[0].tolist()


def _score(q, k, m, n, w):
    return sum(a * b for a, b in zip(_turn(q, m, w), _turn(k, n, w)))


def by_hand(draw):
    x, m, layout = (
        [draw.choice([-3, -2, 2, 3, 5]) + i for i in range(4)],
        draw.randint(2, 9),
        draw.choice(("interleaved", "half")),
    )
    pairs = "neighbors, (0, 1) and (2, 3)" if layout == "interleaved" else "lane i with lane i + 2"
    w = inv_freq(4, 100.0, dtype=F64)
    key, other = _turn(x, m, w, layout), _turn(x, m, w, "half" if layout == "interleaved" else "interleaved")
    return Question(
        f"A head has D = 4 lanes and base 100. Its pairs are {pairs}. A query is x = {vector(x)} and stands at position "
        f"{m}. Give the two frequencies and the query after RoPE.",
        f"frequencies {vector(w)}; x becomes {vector(key)}",
        (
            (1, f"the frequencies {vector(w)}, in radians a token"),
            (1, "each pair (a, b) becomes (a cos − b sin, a sin + b cos) at its own angle"),
            (1, f"the numbers stand in the right lanes: {vector(key)}"),
        ),
        {
            vector(other): "the lanes are paired in the other layout",
            vector(_turn(x, -m, w, layout)): "the rotation goes clockwise: the sign of the sine is flipped",
            vector(_turn(x, m, [1.0, 100**-0.25], layout)): "the exponent is −i/D: lanes are counted in place of pairs",
        },
        {"x": x, "m": m, "half": layout == "half"},
        tuple(key),
        1,
        6,
    )


def score_at_distance(draw):
    q, k = [draw.randint(1, 4), draw.randint(-4, -1)], [draw.randint(1, 4), draw.randint(1, 4)]
    n, d = draw.randint(100, 900), draw.choice([2, 3, 4, 5])
    key = _score(q, k, n + d, n, [1.0])
    return Question(
        f"One pair of lanes with ω = 1. The query is q = {vector(q)} at position {n + d}, the key is k = {vector(k)} at position {n}. "
        f"Compute the score of the rotated vectors (no division by √D), and say why the number {n} need not be used.",
        f"{number(key)}; R(m)ᵀR(n) = R(n − m), so only the distance {d} enters",
        (
            (1, "the score is qᵀR(n − m)k: the two rotations join into one"),
            (1, f"with an angle of {d} radians the number {number(key)}"),
        ),
        {
            number(_score(q, k, n, n + d, [1.0])): "query and key are swapped: the angle has the wrong sign",
            number(q[0] * k[0] + q[1] * k[1]): "the plain product: the distance was taken for no rotation at all",
        },
        {"q": q, "k": k, "d": d},
        (key,),
        1,
        5,
    )


def pairs_that_turn(draw):
    dim, base, length = (
        draw.choice([64, 96, 128, 256]),
        draw.choice([10000, 100000, 500000, 1000000]),
        draw.choice([2048, 4096, 8192, 32768]),
    )
    w = inv_freq(dim, float(base), dtype=F64)
    full = int((w * length >= 2 * math.pi).sum())
    no_pi = int((w * length >= 1).sum())
    return Question(
        f"A head has D = {dim} and base {base:,}. How many of its {dim // 2} pairs go around at least once within {length:,} tokens? What is special, beyond the trained length {length:,}, about the others?",
        f"{full} of {dim // 2}; the other {dim // 2 - full} meet angles there that training never showed",
        (
            (1, "the condition: ω_i · length ≥ 2π, with ω_i = b^(−2i/D)"),
            (1, f"solved for i and rounded the right way: i = 0 to {full - 1}, {full} pairs"),
            (1, f"the remaining {dim // 2 - full} pairs come to new angles beyond the trained length"),
        ),
        {
            number(no_pi): "2π is missing: a turn was taken for one radian",
            number(2 * full): "lanes are counted: a pair has two",
            number(full - 1): "off by one: pair 0 counts too",
        },
        {"dim": dim, "base": base, "length": length},
        (full, dim // 2 - full),
        2,
        6,
    )


def base_for_a_context(draw):
    dim, length, turns = draw.choice([32, 64, 128]), draw.choice([4096, 8192, 16384]), draw.choice([0.25, 0.5, 1])
    slowest = lambda base: float(inv_freq(dim, base, dtype=F64)[-1]) * length / (2 * math.pi)  # noqa: E731
    key = solve(slowest, turns, 1.01, 1e12)
    return Question(
        f"A model with D = {dim} is to be trained on {length:,} tokens. Which base makes its slowest pair turn through exactly {turns:g} of a full circle over that length?",
        f"b = {number(key)}",
        (
            (1, f"the slowest pair is i = D/2 − 1: ω = b^(−{dim - 2}/{dim})"),
            (1, f"the condition ω · {length} = 2π · {turns:g}"),
            (1, f"solved: b = ({length}/(2π · {turns:g}))^({dim}/{dim - 2}) = {number(key)}"),
        ),
        {
            number(length / (2 * math.pi * turns)): "the last exponent was taken as −1: it is −(D − 2)/D",
            number((length / turns) ** (dim / (dim - 2))): "2π is missing",
            number((length / (2 * math.pi * turns)) ** 2): "the exponent −i/D: b is far too large",
        },
        {"dim": dim, "length": length, "turns": turns},
        (key,),
        2,
        6,
    )


def lanes_to_take(draw):
    dim = draw.choice([6, 8, 10])
    to_half = draw.random() < 0.5
    half = half_from_interleaved(dim)
    key = (half if to_half else half.argsort()).tolist()
    other = (half.argsort() if to_half else half).tolist()
    a, b = ("interleaved", "half-split") if to_half else ("half-split", "interleaved")
    return Question(
        f"Weights of a head with D = {dim} were trained with the {a} layout. They are to run in code with the {b} layout. In which order must the rows of W_q (and of W_k) be taken? Write the list of {dim} row numbers. What happens if W_k is forgotten, and what if both are?",
        f"{key}; forgotten once or twice, scores are wrong (both forgotten: the products of unrotated vectors are right, the rotated ones are not)",
        (
            (2, f"the list {key}"),
            (1, "with W_k alone forgotten, lanes of q meet other lanes of k: even at distance 0 the scores are wrong"),
            (1, "with both forgotten, distance 0 is right and every other distance turns the wrong partners together"),
        ),
        {
            str(other): "this is the inverse: it goes from the target's layout to the source's",
            str(list(range(dim))): "nothing is permuted: the two layouts were taken for one",
        },
        {"dim": dim, "to_half": to_half},
        tuple(key),
        2,
        7,
    )


_CODES = {
    "both q and k are turned by R(−m), clockwise": lambda x, p, w, key: rotate(x, -p, w),
    "q is turned by R(m), k by R(−n)": lambda x, p, w, key: rotate(x, -p if key else p, w),
    "the right pairs turn, but every vector is written as two halves (first lanes, then second lanes)": lambda x, p, w, key: (
        reads_pairs_writes_halves(x, p, w)
    ),
    "lanes i and i + D/2 are paired, but lane i gets the angle of pair ⌊i/2⌋": lambda x, p, w, key: (
        pairs_of_one_angles_of_other(x, p, w)
    ),
    "positions of q and k are both divided by 8 before the angles are made": lambda x, p, w, key: rotate(x, p / 8, w),
    "positions of k alone are divided by 8 before the angles are made": lambda x, p, w, key: rotate(
        x, p / 8 if key else p, w
    ),
    "q stands one position too far on, k where it belongs": lambda x, p, w, key: rotate(x, p if key else p + 1, w),
    "the first half of the lanes turns, the other half is left alone, in q and k": lambda x, p, w, key: torch.cat(
        (rotate(x[..., :4], p, w[:2]), x[..., 4:]), dim=-1
    ),
}


def _moves(code):
    """The largest change of a score when all positions move by 50, and the norm's largest change."""
    q, k = torch.randn(2, 5, 8, generator=torch.Generator().manual_seed(3), dtype=F64)
    at, w = torch.arange(5, dtype=F64), inv_freq(8, 100.0, dtype=F64)
    scores = lambda by: code(q, at + by, w, False) @ code(k, at + by, w, True).T  # noqa: E731
    return float((scores(50) - scores(0)).abs().max())


def still_relative(draw):
    names = draw.sample(sorted(_CODES), 4)
    moves = [_moves(_CODES[name]) for name in names]
    kept = [letter for letter, move in zip("abcd", moves) if move < 1e-9]
    words = "\n".join(f"- ({letter}) {name}" for letter, name in zip("abcd", names))
    judged = ", ".join(f"({letter}) changes scores by up to {move:.2g}" for letter, move in zip("abcd", moves))
    return Question(
        f"Four implementations of RoPE. For which ones does no score change when all positions move by 50? One reason each.\n\n{words}",
        f"relative: {', '.join(kept) or 'none'} (measured on random vectors: {judged})",
        tuple(
            (1, f"({letter}): {'relative' if move < 1e-9 else 'not relative'}, with the reason")
            for letter, move in zip("abcd", moves)
        ),
        {
            "a code that is wrong is never relative": "'differs from RoPE' and 'is not relative' are confused: a common offset, scale, sign or permutation keeps the difference"
        },
        {"codes": names},
        tuple(float(move < 1e-9) for move in moves),
        3,
        8,
    )


def restarted_in_decoding(draw):
    n, j = draw.randint(6, 40), draw.randint(1, 5)
    w = draw.choice([0.1, 0.2, 0.25])
    right, wrong = _score([1, 0], [1, 0], n, j, [w]), _score([1, 0], [1, 0], 0, j, [w])
    return Question(
        f"A model decodes with a cache of {n} keys, turned at positions 0 to {n - 1}. A bug gives each new query position 0 in place of {n}. One pair has ω = {w}; q = k = (1, 0). Compute the score with key {j} as it should be and as it is. Why does a test with one forward pass over the whole text not find this?",
        f"should be {number(right)}, is {number(wrong)}; one pass never uses the cache, so its positions are right",
        (
            (
                1,
                f"cos({w} · {n - j}) = {number(right)} and cos({w} · {j}) = {number(wrong)}: the key seems to stand {j} tokens ahead",
            ),
            (1, "the whole pass numbers all tokens at once; compare it with decoding step by step"),
        ),
        {
            number(
                _score([1, 0], [1, 0], n - 1, j, [w])
            ): "off by one: with keys 0 to n − 1 in the cache the query stands at n"
        },
        {"n": n, "j": j, "w": w},
        (right, wrong),
        2,
        6,
    )


def key_for_a_distance(draw):
    q, d = [draw.randint(1, 5), draw.randint(1, 5)], draw.choice([1, 2, 4, 5])
    key = _turn(q, d, [1.0])
    return Question(
        f"One pair, ω = 1, q = {vector(q)}. Which key of the same length gets the highest score from this query at distance m − n = {d}? Give it, and that score. What does it say about the sentence 'RoPE makes near tokens score higher'?",
        f"k = R({d}) q = {vector(key)}; the score is |q|² = {number(_score(q, key, d, 0, [1.0]))}. Content can put the highest score at any distance",
        (
            (1, f"the score is qᵀR(−{d})k, greatest where R(−{d})k = q (Cauchy and Schwarz)"),
            (1, f"k = {vector(key)}"),
            (
                1,
                f"the score {number(_score(q, key, d, 0, [1.0]))}, and: a key can be made for each distance, so there is no decay without a statement about q and k",
            ),
        ),
        {
            vector(_turn(q, -d, [1.0])): "turned the wrong way: this key is best for a query that stands before it",
            vector(q): "q itself: that is the best key at distance 0",
        },
        {"q": q, "d": d},
        (*key, _score(q, key, d, 0, [1.0])),
        2,
        6,
    )


def narrow_positions(draw):
    m = draw.randint(1030, 2040) | 1
    stored = float(torch.tensor(float(m)).bfloat16())
    step = 2.0 ** (math.floor(math.log2(m)) - 7)
    return Question(
        f"Code computes its angles in bfloat16, a format with eight significant binary digits. Position {m:,} is stored in it first. Which number is stored, how far is the angle of the fastest pair off, in radians, and how many different positions does the code know between 1,024 and 2,047?",
        f"stored is {number(stored)}, the angle is off by {number(stored - m)} radians, and there are {number(1024 / step)} positions",
        (
            (
                1,
                f"from 1,024 on, numbers are {number(step)} apart: {number(stored)}, and ω_0 = 1, so the angle is off by {number(stored - m)}",
            ),
            (1, f"1,024/{number(step)} = {number(1024 / step)} different positions"),
        ),
        {number(m): "taken as exact: bfloat16 has the range of float32, not its digits"},
        {"m": m},
        (stored, stored - m, 1024 / step),
        2,
        5,
    )


# Aloud


def say_relative(draw):
    s = draw.choice([3, 10, 50])
    both = _moves(lambda x, p, w, key: rotate(x, p, w))
    one = _moves(lambda x, p, w, key: rotate(x, p + s * bool(p[0]) * (not key), w))  # only the second time
    return Question(
        f"Show at the board, in three lines, that RoPE's scores depend on m − n alone. Then: which property of rotations did you use, and what becomes of the proof if queries move by {s} positions and keys don't?",
        f"R(m)ᵀR(n) = R(n − m): rotations of one plane form a group in which angles add. All moved: scores change by {both:.0e}; queries alone: by up to {one:.2g}",
        (
            (2, "the proof, with the transpose as the inverse"),
            (1, "that angles add; a scaling would do for no product"),
            (1, "the distances all change by the same amount, so scores are those of other distances, not noise"),
        ),
        {"because cos is even": "the sign of the distance is lost: RoPE tells before from after"},
        {"s": s},
        (both < 1e-9,),
        2,
        4,
    )


def say_values(draw):
    shift = draw.choice([7, 100])
    q, k, v = torch.randn(3, 1, 1, 6, 8, generator=torch.Generator().manual_seed(1), dtype=F64)
    at, w = torch.arange(6, dtype=F64), inv_freq(8, dtype=F64)

    def out(by, turned):
        return attention(q, k, rotate(v, at + by, w) if turned else v, rope(8), pos_q=at + by, pos_k=at + by)

    plain, turned = (float((out(shift, t) - out(0, t)).abs().max()) for t in (False, True))
    return Question(
        f"Why are the values not turned? What would you see if they were and the text moved by {shift} positions? How could one turn them and stay relative?",
        f"a sum of turned values depends on where the text stands: moved by {shift}, outputs change by up to {turned:.2g} (values as they are: {plain:.0e}). Turning the output back by R(−m) makes it relative again",
        (
            (1, "position enters the weights; what is carried is content"),
            (1, "turned values make the output absolute"),
            (2, "R(−m) applied to the sum leaves Σ a R(n − m) v"),
        ),
        {"it would cost too much": "cost is not the reason: it is the same as for the keys"},
        {"shift": shift},
        (plain < 1e-9, turned > 1e-3),
        3,
        4,
    )


def say_decay(draw):
    dim, d = draw.choice([64, 128]), draw.choice([8, 64, 512])
    q, k = torch.randn(2, 4000, dim, generator=torch.Generator().manual_seed(2), dtype=F64)
    turned = rotate(q[:, None], torch.tensor([d]), inv_freq(dim, dtype=F64))[:, 0]
    mean, spread = float((turned * k).sum(-1).mean() / dim**0.5), float((turned * k).sum(-1).std() / dim**0.5)
    same = float((turned * q).sum() / (q * q).sum())
    return Question(
        f"'RoPE decays with distance.' True? Argue for random q and k, for q = k, and for a key made for distance {d}.",
        f"random: mean {mean:.2f} and spread {spread:.2f} at distance {d}, as at every distance; q = k: {same:.2f} of the score at 0 (D = {dim}); a key made for it: the full |q|²",
        (
            (1, "random: the mean is 0 and the spread is that of unrotated vectors at every distance"),
            (1, "q = k: a mean of cosines, which falls on average and not monotonically"),
            (2, "content decides: k = R(d)q is highest at d; the paper's bound is a bound"),
        ),
        {"yes, the paper proves it": "a falling upper bound on a sum was taken for falling scores"},
        {"dim": dim, "d": d},
        (abs(mean) < 0.1, abs(spread - 1) < 0.1),
        3,
        5,
    )


def say_longer(draw):
    dim, base, length = 128, draw.choice([10000, 500000]), draw.choice([4096, 8192])
    unseen = int((inv_freq(dim, float(base), dtype=F64) * (length - 1) < 2 * math.pi).sum())
    return Question(
        f"A model with D = {dim}, base {base:,}, was trained on {length:,} tokens and is asked about {2 * length:,}. Nothing in the formula ends there. Why does it fail all the same, which pairs are to blame, and what would you try first?",
        f"{unseen} of {dim // 2} pairs have not gone around within the trained length and come to angles never seen; slow them (interpolation, NTK, YaRN) or cut attention to the trained window",
        (
            (1, "the formula extrapolates, the weights were fitted to angles seen"),
            (1, f"the {unseen} slow pairs"),
            (
                2,
                "a remedy and its cost: interpolation blurs neighbors, NTK and YaRN spare fast pairs, a window forgets; and how it would be tested on the same targets",
            ),
        ),
        {"the fast pairs, since they turn most": "fast pairs have seen all their angles many times over"},
        {"base": base, "length": length},
        (unseen,),
        2,
        5,
    )


def say_layouts(draw):
    d = draw.choice([1, 5, 20])
    q, k = torch.randn(2, 1, 16, generator=torch.Generator().manual_seed(4), dtype=F64)
    w, at, zero = inv_freq(16, dtype=F64), torch.tensor([d]), torch.tensor([0])
    gap = lambda p: float((rotate(q, p, w) @ k.T - rotate(q, p, w, layout="half") @ k.T).abs())  # noqa: E731
    return Question(
        f"A checkpoint for the interleaved layout is loaded into half-split code without any change. Are its scores right at distance 0, at distance {d}? What would you measure to find the fault, and how do you mend it without touching the code?",
        f"at distance 0 scores agree to {gap(zero):.0e}; at distance {d} one differs by {gap(at):.2g}. Mend: permute the rows of W_q and W_k, even lanes first",
        (
            (1, "distance 0: nothing turns"),
            (1, "compare logits with the reference implementation, or feel single lanes: which partner moves"),
            (2, "the permutation, in W_q and W_k alike, heads one by one"),
        ),
        {"the angles are wrong": "the angles are the same in both layouts: it is the partners that differ"},
        {"d": d},
        (gap(zero) < 1e-9, gap(at) > 1e-6),
        2,
        4,
    )


PAPER = (
    by_hand,
    score_at_distance,
    pairs_that_turn,
    base_for_a_context,
    lanes_to_take,
    still_relative,
    restarted_in_decoding,
    key_for_a_distance,
    narrow_positions,
)
ORAL = (say_relative, say_values, say_decay, say_longer, say_layouts)
