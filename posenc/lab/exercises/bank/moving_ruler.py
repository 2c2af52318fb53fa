r"""Questions on content that moves the ruler: PaTH's reflections, Inkling's curves, a sink."""

import math

import torch

from posenc.bias.fox import decay
from posenc.bias.inkling import curves
from posenc.lab.exercises.bank.question import Question, number, options, solve, vector
from posenc.several.path import scores_along
from posenc.weigh.sink import weigh

F64 = torch.float64


def _unit(degrees):
    """The direction of this angle in the plane."""
    return [math.cos(math.radians(degrees)), math.sin(math.radians(degrees))]


def _score(q, k, steps):
    """PaTH's score (scale 1) of q with k, which meets these (w, beta) on its way, the first one first."""
    dim = len(k)
    zeros = [[0.0] * dim] * len(steps)
    w = torch.tensor([[0.0] * dim, *(w for w, _ in steps)], dtype=F64)
    beta = torch.tensor([0.0, *(beta for _, beta in steps)], dtype=F64)
    return float(scores_along(torch.tensor([q], dtype=F64), torch.tensor([k, *zeros], dtype=F64), w, beta)[0, 0])


def _through(k, steps):
    """The key behind these reflections, lane by lane: what a query of one lane scores."""
    lanes = torch.eye(len(k)).tolist()
    return [_score(lane, k, steps) for lane in lanes]


def _with_sink(logits, slot):
    """The weights of a row's keys beside a slot of this logit."""
    z = torch.tensor([[logits]], dtype=F64)
    return weigh(z, torch.ones_like(z, dtype=torch.bool), torch.tensor([slot], dtype=F64)).flatten().tolist()


def by_hand(draw):
    k = draw.sample([1, -2, 3, 4, -5, 6, -7], 4)
    a, b = draw.sample(range(4), 2)
    w = [0.0] * 4
    w[a], w[b] = 2**-0.5, -(2**-0.5)
    sign = [float(lane == a) for lane in range(4)]
    q = [int(lane == a) for lane in range(4)]
    right, other = _score(q, k, [(w, 2.0), (sign, 2.0)]), _score(q, k, [(sign, 2.0), (w, 2.0)])
    return Question(
        f"D = 4, scale 1, all strengths 2. The key is k = {vector(k)}. Token 1 has w with 1/√2 in lane {a} and −1/√2 in lane {b} (lanes count from 0), token 2 has w = {vector(sign)}. The query of token 2 is {vector(q)}. Give PaTH's score, and the score if the two tokens brought each other's reflections.",
        f"{number(right)}; the other way {number(other)}",
        (
            (1, f"the first reflection exchanges lanes {a} and {b}, the second turns the sign of lane {a}"),
            (1, f"the key passes token 1, then token 2: {number(right)}"),
            (1, f"in the other order {number(other)}"),
        ),
        {
            f"{number(other)}; the other way {number(right)}": "the order is turned round: the key meets its nearest token first",
            number(k[a]): "the key was left as it is: the reflections between it and the query are missing",
        },
        {"k": k, "a": a, "b": b},
        (right, other),
        1,
        6,
    )


def one_reflection(draw):
    degrees, beta = draw.choice([0, 30, 45, 60, 90]), draw.choice([0.5, 1.0, 1.5, 2.0])
    k = [draw.randint(1, 5), draw.randint(-9, -6)]
    key, w = _through(k, [(_unit(degrees), beta)]), _unit(degrees)
    along = w[0] * k[0] + w[1] * k[1]
    return Question(
        f"A token's direction w stands at {degrees}° in the plane, and its strength is β = {beta:g}. Where does the key {vector(k)} go? What do the strengths 0, 1 and 2 do to the part along w?",
        f"{vector(key)}; 0 leaves it, 1 removes it, 2 turns its sign",
        (
            (1, f"the part along w: w·k = {number(along)}"),
            (1, f"k − β (w·k) w = {vector(key)}"),
            (1, "0 leaves the part along w, 1 removes it, 2 mirrors it; what is square to w stays"),
        ),
        {
            vector([x + beta * along * y for x, y in zip(k, w)]): "the sign: the part along w is taken off",
            vector([beta * along * y for y in w]): "this is what is taken off, not what is left",
        },
        {"degrees": degrees, "beta": beta, "k": k},
        tuple(key),
        1,
        5,
    )


def two_mirrors(draw):
    a, between = draw.choice([0, 10, 20]), draw.choice([15, 30, 40, 45])
    tip = _through([1.0, 0.0], [(_unit(a), 2.0), (_unit(a + between), 2.0)])
    back = _through([1.0, 0.0], [(_unit(a + between), 2.0), (_unit(a), 2.0)])
    return Question(
        f"Two tokens of strength 2 have directions at {a}° and {a + between}° in the plane. A key (1, 0) meets the first, then the second. What do the two make together, and where does the key end? What does the other order make?",
        f"a turn by {2 * between}°: {vector(tip)}; the other order turns by −{2 * between}°: {vector(back)}",
        (
            (1, "two reflections make a rotation (the determinant is 1)"),
            (1, f"by twice the angle between them, {2 * between}°: {vector(tip)}"),
            (1, f"the other order turns back: {vector(back)}"),
        ),
        {
            vector(_unit(between)): "once the angle between the mirrors: it is twice",
            vector([1.0, 0.0]): "they cancel only if both are the same mirror",
        },
        {"between": between},
        (*tip, *back),
        2,
        6,
    )


def does_order_count(draw):
    between, betas = draw.choice([0, 30, 45, 60, 90]), draw.choice([(1.0, 2.0), (2.0, 2.0), (0.5, 1.0), (0.0, 2.0)])
    q, k = [1.0, 0.0], [0.0, 1.0]
    u, w = (_unit(0), betas[0]), (_unit(between), betas[1])
    change = _score(q, k, [w, u]) - _score(q, k, [u, w])
    return Question(
        f"Two neighbors between a key and a query have directions at 0° and {between}°, strengths {betas[0]:g} and {betas[1]:g}. The query is (1, 0), the key (0, 1). By how much is the score with H_0 H_{between} in the product larger than with H_{between} H_0? When does the order of two reflections never count?",
        f"{number(change)}; never, where a strength is 0 or the directions are parallel or orthogonal",
        (
            (1, "only the term β_u β_w (u·w) u wᵀ changes with the order"),
            (2, f"the difference is β_u β_w (u·w)(u wᵀ − w uᵀ), here {number(change)}"),
            (1, "zero for a strength 0, parallel or orthogonal directions"),
        ),
        {
            "reflections never commute": "parallel and orthogonal ones do",
            f"a difference of {number(change + betas[0] * betas[1])}": "u·w is missing: mirrors square to each other commute",
        },
        {"between": between, "betas": betas},
        (change,),
        3,
        8,
    )


def sum_is_blind(draw):
    gates = draw.sample([0.5, 0.6, 0.7, 0.8, 0.9], 3)
    swapped = [gates[1], gates[0], gates[2]]
    before, after = (float(decay(torch.tensor([1.0, *f], dtype=F64).log())[-1, 0]) for f in (gates, swapped))
    between = _unit(45)
    first = _score([1.0, 0.0], [0.0, 1.0], [(_unit(0), 2.0), (between, 2.0)])
    second = _score([1.0, 0.0], [0.0, 1.0], [(between, 2.0), (_unit(0), 2.0)])
    return Question(
        f"Three tokens follow a key; the last one is the query. In FoX their forget gates are {vector(gates)}. The first two change places. Give the bias of the key before and after. In PaTH the same two have strength 2 and directions at 0° and 45°, the query's own strength is 0, q = (1, 0) and k = (0, 1): give both scores. What can no sum along the way know?",
        f"FoX {number(before)} and {number(after)}; PaTH {number(first)} and {number(second)}; the order of its terms",
        (
            (1, f"the sum of log f is {number(before)} both times"),
            (1, f"PaTH: {number(first)}, then {number(second)}"),
            (1, "a sum has the same terms in another order, a product of reflections is another one"),
        ),
        {number(math.exp(before)): "this is the factor; the bias is its logarithm"},
        {"gates": gates},
        (before, after, first, second),
        2,
        7,
    )


def parity(draw):
    bits = [1, 1, *(draw.randint(0, 1) for _ in range(draw.choice([3, 4, 5])))]
    draw.shuffle(bits)
    value = _score([1.0], [1.0], [([1.0], 2.0 * bit) for bit in bits])
    return Question(
        f"With D = 1 and w = 1 for every token, let a one have strength 2 and a zero strength 0; q = k = 1, scale 1. What is the score of the first key behind the tokens {', '.join(map(str, bits))}? What does it tell in general, and why do strengths up to 1 not do?",
        f"{number(value)}: (−1) to the number of ones, so it tells odd from even; with β ≤ 1 no factor is negative",
        (
            (1, "each one multiplies by 1 − 2 = −1, each zero by 1"),
            (1, f"{number(value)}: the parity"),
            (1, "with β from 0 to 1 factors lie between 0 and 1, and a sign never turns"),
        ),
        {
            number(1 - 2 * sum(bits)): "the ones were added; along the way it is a product",
            number(-value): "one too many or too few: count the ones again",
        },
        {"bits": bits},
        (value,),
        2,
        5,
    )


def share_of_a_sink(draw):
    keys, slot = draw.choice([16, 32, 64]), draw.choice([1.0, 2.0, 3.0, 4.0])
    few, many = (1 - sum(_with_sink([0.0] * n, slot)) for n in (keys, 16 * keys))
    same = solve(lambda power: 1 - sum(_with_sink([0.0] * (16 * keys), math.log(power))), few, 1.0, 1e9)
    return Question(
        f"A row has {keys} keys with logit 0 beside a sink with logit {slot:g}. What share does the sink take? And with {16 * keys} keys? Which logit would keep the first share there, and what must a slot know for that?",
        f"{number(few)}, then {number(many)}; {number(math.log(same))}, so it must know the number of keys",
        (
            (1, f"e^{slot:g}/(e^{slot:g} + {keys}) = {number(few)}"),
            (1, f"{number(many)} with {16 * keys} keys"),
            (1, f"the logit must rise by ln 16 to {number(math.log(same))}: with the logarithm of the number of keys"),
        ),
        {
            number(1 / (1 + keys)): "the sink's logit was taken for 0",
            number(math.exp(slot)): "not divided by the sum: a share is at most 1",
        },
        {"keys": keys, "slot": slot},
        (few, many, math.log(same)),
        2,
        6,
    )


def a_sink_scales_a_row(draw):
    powers, slot = draw.sample([1, 2, 3, 4, 6], 3), draw.choice([2, 5, 8])
    weights = _with_sink([math.log(p) for p in powers], math.log(slot))
    plain = [p / sum(powers) for p in powers]
    return Question(
        f"Three keys have logits ln {powers[0]}, ln {powers[1]}, ln {powers[2]}, the sink has ln {slot}. Give the three weights and what the sink takes. By which one factor do they differ from the plain softmax? Can a sink make one key lose against another?",
        f"{vector(weights)}, the sink {number(1 - sum(weights))}; all by {number(sum(weights))}; no",
        (
            (1, f"each power over {sum(powers) + slot}: {vector(weights)}"),
            (1, f"the sink takes {number(1 - sum(weights))}; the factor is {number(sum(weights))}, σ(lse − s)"),
            (1, "all are scaled alike, so ratios stay"),
        ),
        {
            vector(plain): "the plain softmax: the slot is missing in the sum",
            vector([w * sum(weights) for w in weights]): "scaled twice",
        },
        {"powers": powers, "slot": slot},
        (*weights, 1 - sum(weights)),
        1,
        5,
    )


def a_curve_of_the_query(draw):
    bank = [[draw.randint(0, 4) for _ in range(4)], [draw.randint(-4, 0) for _ in range(4)]]
    mix, d = [draw.choice([0.5, 1.0, 2.0]), draw.choice([-1.0, 0.5, 1.5])], draw.choice([1, 2, 3])
    row = curves(torch.tensor([mix], dtype=F64), torch.tensor(bank, dtype=F64), torch.tensor([[d, 4, 9, -1]]))
    inside, edge, far, _ = row[0].tolist()
    clamped = mix[0] * bank[0][3] + mix[1] * bank[1][3]
    wrongs = {"−∞: it is out of reach": "a bias of 0 hides nothing; content decides"}
    if clamped:
        wrongs[f"{number(inside)}; {number(clamped)} at 4"] = "clamped to the last distance: beyond the bank it is 0"
    return Question(
        f"Inkling's bank has two curves over the distances 0 to 3: {vector(bank[0])} and {vector(bank[1])}. A query gives them the shares {vector(mix)}. Which bias has a key at distance {d}, at distance 4, at distance 9? What decides between keys beyond the bank?",
        f"{number(inside)}; {number(edge)} at 4; {number(far)} at 9; their contents alone",
        (
            (1, f"the shares mix the curves at distance {d}: {number(inside)}"),
            (1, "beyond the bank the bias is exactly 0"),
            (1, "neither favored nor punished: content alone, and the number of such keys"),
        ),
        wrongs,
        {"bank": bank, "mix": mix, "d": d},
        (inside, edge, far),
        1,
        5,
    )


def directions_of_another_length(draw):
    length, steps = draw.choice([1.5, 2.0, 3.0]), draw.choice([5, 10])
    key = _score([1.0], [1.0], [([length], 2.0)] * steps)
    return Question(
        f"An implementation forgets to normalize w: every token has |w| = {length:g}, all in the direction of q and k, with strength 2; q = k = 1 lane, scale 1. What is the score behind {steps} tokens, and what should it be? Which test finds the mistake?",
        f"{number(key)} in place of {number((-1.0) ** steps)}; the length of the key must never grow on the way",
        (
            (1, f"each step multiplies by 1 − 2 · {length:g}² = {number(1 - 2 * length**2)}"),
            (1, f"{number(key)} against {number((-1.0) ** steps)}"),
            (1, "with |w| = 1 and 0 ≤ β ≤ 2 no step makes a vector longer: assert it"),
        ),
        {number((1 - 2 * length) ** steps): "w stands twice in a reflection: the length is squared"},
        {"length": length, "steps": steps},
        (key,),
        2,
        5,
    )


# Aloud


def say_order(draw):
    swaps = draw.choice([2, 3])
    kept = float(decay(torch.full((swaps + 1,), 0.5, dtype=F64).log())[-1, 0])
    return Question(
        f"Three cups, {swaps} swaps. Why can one layer of CoPE or FoX not say which cup stands first, and how does PaTH, by hand?",
        f"each adds up one number a token (FoX with gates 1/2: {number(kept)} in any order); a swap is a mirror, and a product keeps order",
        (
            (1, "the logit holds a sum, the same in any order"),
            (1, "w = (1, −1, 0)/√2 with strength 2 exchanges two lanes"),
            (2, "the key of a cup is a lane, and the query asks which key now lies in lane 0"),
        ),
        {"more heads would do": "each head's logit is blind to the order of what lies between"},
        {"swaps": swaps},
        (kept,),
        2,
        4,
    )


def say_strength(draw):
    beta = draw.choice([0.5, 1.0, 2.0])
    left = _score([1.0], [1.0], [([1.0], beta)])
    listing, letter = options(draw, "mirrors", ["removes", "leaves alone"])
    return Question(
        f"What does a reflection of strength {beta:g} do to the part of a key along w, and to the rest? Which strengths forget, and which one does: \n\n{listing}\n\nat strength 2?",
        f"the part along w is multiplied by {number(left)}, the rest stays; at 2 it ({letter}) mirrors",
        (
            (1, f"times 1 − β = {number(left)}"),
            (1, "what is square to w stays"),
            (2, "at 1 a direction is forgotten for good; near 0 and at 2 nothing is"),
        ),
        {"2 removes twice as much, so it is gone": "it overshoots by exactly as much: the length stays"},
        {"beta": beta},
        (left,),
        1,
        3,
    )


def say_sink_and_length(draw):
    slot = draw.choice([2.0, 3.0])
    shares = [1 - sum(_with_sink([0.0] * n, slot)) for n in (16, 4096)]
    return Question(
        f"A model learned its sinks at short contexts, logit {slot:g}. What becomes of them at 4,096 keys, and why does a sliding window not mind?",
        f"among keys of logit 0 from {number(shares[0])} (16 keys) to {number(shares[1])}",
        (
            (1, "the keys' sum grows with their number, the slot stays"),
            (1, f"{number(shares[0])} to {number(shares[1])}"),
            (2, "in a window the number of keys stops growing, so the balance is the trained one"),
        ),
        {"the softmax normalizes, so nothing changes": "it normalizes over more keys and one slot"},
        {"slot": slot},
        tuple(shares),
        2,
        4,
    )


def say_beyond_the_bank(draw):
    extent = draw.choice([32, 128])
    far = float(curves(torch.ones(1, 1, dtype=F64), torch.full((1, extent), -2.0, dtype=F64), torch.tensor([[extent]])))
    return Question(
        f"Inkling's bank ends at distance {extent - 1}. A colleague says that farther keys are hidden. What do they get, and what follows if all curves end at −2?",
        f"a bias of {number(far)}: at distance {extent} a key is louder than at {extent - 1}",
        (
            (1, "exactly 0, no mask"),
            (2, "if curves end below 0 there is a jump up at the edge, e² in the weight"),
            (1, "and the number of such keys grows with the context"),
        ),
        {"they get the last value": "that is T5's last bucket; here it is 0"},
        {"extent": extent},
        (far,),
        3,
        4,
    )


def say_own_reflection(draw):
    k = [draw.randint(1, 4), draw.randint(1, 4)]
    same = _score(k, k, [])
    return Question(
        f"Whose reflections does PaTH's score of a query with its own key {vector(k)} hold (q = k, scale 1)? With the key before it? Why is the first token's reflection never used?",
        f"none: the score is |k|² = {number(same)}; with the key before it the query's own alone",
        (
            (1, f"an empty product: {number(same)}"),
            (1, "from j + 1 to i: the query's is in it, the key's is not"),
            (2, "nothing lies before the first token, so no key passes it"),
        ),
        {"the key's own": "the product starts behind the key"},
        {"k": k},
        (same,),
        1,
        3,
    )


PAPER = (
    by_hand,
    one_reflection,
    two_mirrors,
    does_order_count,
    sum_is_blind,
    parity,
    share_of_a_sink,
    a_sink_scales_a_row,
    a_curve_of_the_query,
    directions_of_another_length,
)
ORAL = (say_order, say_strength, say_sink_and_length, say_beyond_the_bank, say_own_reflection)
