r"""Questions on RSE: rotation, a penalty by distance, and a stick broken from key 0 on."""

import math

import torch

from posenc.lab.exercises.bank.question import Question, number, options, vector
from posenc.lab.exercises.rse import by_rate, peak, penalize, stick

F64 = torch.float64


def _row(logits):
    pieces, rest = stick(torch.tensor(logits, dtype=F64))
    return pieces.tolist(), float(rest)


def _sigmoid(z):
    return 1 / (1 + math.exp(-z))


def by_hand(draw):
    rate, content = draw.choice([0.5, 1.0]), draw.sample([-1.0, 0.0, 1.0, 2.0], 3)
    made = penalize(torch.tensor([content], dtype=F64), torch.tensor([2]), torch.arange(3), rate)[0]
    key, rest = _row(made.tolist())
    recent = _row(made.flip(0).tolist())[0][::-1]
    return Question(
        f"RSE with λ = {rate}: query 2 has the scaled scores {vector(content)} with keys 0, 1, 2. Give the logits, the weights (key 0 is asked first) and what is left over.",
        f"logits {vector(made.tolist())}; weights {vector(key)}; left {number(rest)}",
        (
            (1, f"minus λ times the distance 2, 1, 0: {vector(made.tolist())}"),
            (1, f"β_j times what keys before left: {vector(key)}"),
            (1, f"Π(1 − β) = {number(rest)}"),
        ),
        {
            vector(recent): "the newest key was asked first: RSE asks key 0 first",
            vector(made.softmax(-1).tolist()): "a softmax, which is another method",
        },
        {"rate": rate, "content": content},
        (*made.tolist(), *key, rest),
        1,
        6,
    )


def where_the_peak_is(draw):
    content, rate = draw.choice([1.0, 2.0, 3.0]), draw.choice([0.1, 0.25, 0.5])
    point = peak(content, rate)
    key = math.ceil(point)
    return Question(
        f"All contents equal c = {content}, λ = {rate}, a long past, key 0 asked first. At which whole distance is the weight largest? Why is it not the nearest key, though the penalty grows with distance?",
        f"d = {key}: weights at d and d + 1 are equal at {number(point)}",
        (
            (1, "weights at d and d + 1 are equal where β_(d+1) = β_d (1 − β_(d+1)), that is e^(c − λd) = e^λ − 1"),
            (1, f"d = (c − ln(e^λ − 1))/λ = {number(point)}; beyond it weights fall, so {key}"),
            (1, "far keys are asked first and use up the stick; the penalty only makes their bites small"),
        ),
        {
            number(math.ceil((content - math.log(rate)) / rate) + 1): "e^λ − 1 was taken for λ, or counted from one",
            "0": "the order of asking was forgotten",
        },
        {"content": content, "rate": rate},
        (key,),
        3,
        8,
    )


def left_and_right(draw):
    c, rate = draw.choice([-1.0, 0.0, 1.0]), draw.choice([0.5, 1.0])
    logits = [c - rate, c, c - rate]
    row, _ = _row(logits)
    key = row[2] / row[0]
    return Question(
        f"Without a causal mask: a query between two keys of equal content, all logits c = {c} before the penalty, λ = {rate} (its own key at distance 0). What is the ratio of the right neighbor's weight to the left one's? What would a softmax give? For which c is the ratio near 1?",
        f"{number(key)}; a softmax gives 1",
        (
            (1, "both have the same logit; the right one is asked after the left and after the own key"),
            (1, f"(1 − β_1)(1 − β_0) = {number(key)}"),
            (1, "only for c far below 0, where bites are small"),
        ),
        {number(1 - _sigmoid(c - rate)): "the query's own key takes its bite between the two"},
        {"c": c, "rate": rate},
        (key,),
        2,
        6,
    )


def blocks(draw):
    share, b = draw.choice([(0.3, 4), (0.2, 8), (0.4, 4), (0.25, 8)])
    right = 1 - (1 - share) ** (2 * b)
    wrong = b * share + (1 - b * share) * b * share
    row, rest = _row([math.log(share / (1 - share))] * (2 * b))
    return Question(
        f"Code breaks the stick in blocks of {b} keys: within a block all keys take from the rest at its start, which is then reduced by what they took. All β = {share}. Compute the sum of the weights over two blocks, and what it should be. From which bβ on does the rest get negative?",
        f"{number(wrong)} in place of {number(right)}; from bβ > 1 on",
        (
            (1, f"one block takes bβ = {number(b * share)}, the rest becomes {number(1 - b * share)}"),
            (1, f"in all 1 − (1 − bβ)² = {number(wrong)}, right is 1 − (1 − β)^(2b) = {number(right)}"),
            (1, "bβ > 1: a negative rest, and negative weights"),
        ),
        {number(min(1.0, 2 * b * share)): "the second block takes from what the first left"},
        {"share": share, "b": b},
        (sum(row), rest, wrong),
        2,
        7,
    )


def moved_by_rate(draw):
    content, rate = draw.sample([0.0, 1.0, -1.0, 2.0], 3), draw.choice([0.5, 0.25])
    distance = torch.tensor([2.0, 1.0, 0.0], dtype=F64)
    key = by_rate(torch.tensor(content, dtype=F64) - rate * distance, distance).tolist()
    return Question(
        f"Contents {vector(content)}, distances 2, 1, 0, λ = {rate}, key 0 asked first. Derive ∂A_j/∂λ and compute it for all three. Why may the nearest key gain, though its own logit does not change?",
        vector(key),
        (
            (1, "∂A_j/∂λ = A_j (Σ over earlier keys of β_k d_k − (1 − β_j) d_j)"),
            (2, vector(key)),
            (1, "keys asked before it bite less, so more of the stick reaches it"),
        ),
        {vector([-x for x in key]): "the sign is flipped: key 0 loses when λ grows"},
        {"content": content, "rate": rate},
        tuple(key),
        3,
        8,
    )


def half_is_gone(draw):
    c, n = draw.choice([0.0, -2.0, -4.0]), draw.choice([5, 20, 50])
    row, rest = _row([c] * n)
    return Question(
        f"λ = 0, all logits {c:g}, {n} keys, key 0 asked first. Which share do the first key, the last key and nobody get? What happens to a text twice as long, and why is asking key 0 first a bias towards the start?",
        f"{number(row[0])}, {number(row[-1])}, {number(rest)}",
        (
            (
                1,
                f"β = {number(_sigmoid(c))}: first {number(row[0])}, last β(1 − β)^{n - 1} = {number(row[-1])}, rest {number(rest)}",
            ),
            (1, "a new token is asked last: it gets what all the past left, ever less"),
        ),
        {f"{number(1 / n)} each": "nothing shares equally: the stick is broken in order"},
        {"c": c, "n": n},
        (row[0], row[-1], rest),
        1,
        5,
    )


def order_and_cache(draw):
    content = draw.sample([-1.0, 0.0, 1.0, 2.0], 3)
    new = draw.choice([0.5, 1.5])
    row, _ = _row(content)
    grown, _ = _row([*content, new])
    gap = max(abs(a - b) for a, b in zip(row, grown))
    return Question(
        f"λ = 0. A query has the logits {vector(content)} with keys 0, 1, 2; one more key with logit {new} becomes visible behind them. Which old weights change when key 0 is asked first? Compute the new key's weight. And with the newest asked first?",
        f"none (change {gap:.0e}); the new key gets {number(grown[-1])}",
        (
            (1, "keys asked later do not touch earlier pieces"),
            (1, f"the new one: β times the rest = {number(grown[-1])}; newest first, all old ones shrink by 1 − β"),
        ),
        {number(_sigmoid(new)): "the stick is no longer whole when the last key is asked"},
        {"content": content, "new": new},
        (grown[-1],),
        2,
        5,
    )


def units_of_lambda(draw):
    rate, d = draw.choice([0.01, 0.05]), draw.choice([50, 100, 200])
    listing, letter = options(
        draw,
        "`scores - rate * (pos_q[:, None] - pos_k[None, :]).abs()`",
        [
            "`scores * torch.exp(-rate * (pos_q[:, None] - pos_k[None, :]).abs())`",
            "`scores - rate * (pos_q[:, None] - pos_k[None, :])`",
            "`scores - rate * (torch.arange(Tq)[:, None] - torch.arange(Tk)[None, :]).abs()`",
        ],
    )
    made = float(penalize(torch.zeros(1, 1, dtype=F64), torch.tensor([d]), torch.tensor([0]), rate)[0, 0])
    return Question(
        f"Which line is RSE's penalty? Say when each other one goes wrong. What does it add at distance {d} with λ = {rate}, and by which factor do the *odds* β/(1 − β) of that key change?\n\n{listing}",
        f"({letter}); {number(made)}; the odds by {number(math.exp(made))}",
        (
            (
                1,
                f"({letter}); times: raises negative scores; no abs: a bonus ahead; arange: wrong with a cache or packed texts",
            ),
            (1, f"{number(made)}, odds times {number(math.exp(made))}"),
        ),
        {number(-made): "the sign is flipped"},
        {"rate": rate, "d": d},
        (made,),
        1,
        4,
    )


# Aloud


def say_three_parts(draw):
    rate = draw.choice([0.01, 0.1])
    return Question(
        f"RSE has three parts. Which place does each take, and which would you drop first if the loss were all you knew? λ starts at {rate}.",
        "rotate, bias, weigh: three places",
        (
            (1, "the three places"),
            (1, "an ablation of each, same seeds"),
            (2, "penalty and stick both act on distance: which one explains the gain?"),
        ),
        {"all are needed, the paper has all": "a sum of parts is no evidence for each"},
        {"rate": rate},
        (rate,),
        2,
        4,
    )


def say_order(draw):
    n = draw.choice([10, 100])
    row, _ = _row([0.0] * n)
    return Question(
        f"Key 0 first: what does the last of {n} keys get at equal logits 0? Why would one choose this order, and what does λ have to do then?",
        f"{number(row[-1])}",
        (
            (1, f"{number(row[-1])}"),
            (1, "a cache never changes old pieces"),
            (2, "λ must lower the far keys enough for the near ones to get anything"),
        ),
        {"the most, it is nearest": "it is asked last"},
        {"n": n},
        (row[-1],),
        2,
        4,
    )


def say_claim(draw):
    gain = draw.choice([0.01, 0.02])
    return Question(
        f"A report says RSE lowers the loss by {gain}. Which three questions do you ask before you believe it?",
        "seeds and spread; what was tuned for whom; the control with one part left out",
        (
            (1, "how many seeds, which spread"),
            (1, "same budget of tuning"),
            (2, "which part; on which targets; beyond the trained length, whole and cut"),
        ),
        {"the size of the model": "it is the comparison that decides"},
        {"gain": gain},
        (gain,),
        2,
        4,
    )


def say_both_ways(draw):
    c = draw.choice([0.0, 2.0])
    row, _ = _row([c - 1, c, c - 1])
    return Question(
        f"RSE without a causal mask: what breaks? Use three keys with logits {vector([c - 1, c, c - 1])}.",
        f"{vector(row)}: left and right differ though distances agree",
        (
            (1, "the numbers"),
            (1, "order of asking is absolute: from the start of the text"),
            (2, "repairs: from near to far on both sides at once, or a softmax"),
        ),
        {"nothing, distance is symmetric": "the penalty is, the stick is not"},
        {"c": c},
        tuple(row),
        3,
        4,
    )


def say_learn(draw):
    rate = draw.choice([0.01, 1.0])
    key = by_rate(
        torch.tensor([1.0 - 2 * rate, 1.0 - rate, 1.0], dtype=F64), torch.tensor([2.0, 1.0, 0.0], dtype=F64)
    ).tolist()
    return Question(
        f"λ is learned from {rate}. Which way does the weight of the nearest of three keys push it, if that weight should grow?",
        f"∂A/∂λ = {vector(key)}: λ grows",
        (
            (1, f"{vector(key)}"),
            (1, "a larger λ leaves more of the stick to the nearest"),
            (2, "gradients are small where bites are small; λ needs its own step size, or a start of some size"),
        ),
        {"it has no influence at distance 0": "through the keys that are asked before"},
        {"rate": rate},
        tuple(key),
        3,
        4,
    )


PAPER = (
    by_hand,
    where_the_peak_is,
    left_and_right,
    blocks,
    moved_by_rate,
    half_is_gone,
    order_and_cache,
    units_of_lambda,
)
ORAL = (say_three_parts, say_order, say_claim, say_both_ways, say_learn)
