r"""Questions on stick-breaking attention."""

import math

import torch

from posenc.lab.exercises.bank.question import Question, number, options, solve, vector
from posenc.lab.exercises.stickbreaking import jacobian, log_weights, stick
from posenc.weigh.stickbreaking import weigh

F64 = torch.float64


def _logit(share):
    return math.log(share / (1 - share))


def _broken(shares, order="recent"):
    """Pieces and the rest of one row whose keys take these shares, oldest first."""
    logits = torch.tensor([[_logit(share) for share in shares]], dtype=F64)
    pieces, rest = weigh(logits, torch.ones_like(logits, dtype=torch.bool), order, return_remainder=True)
    return pieces[0].tolist(), float(rest.flatten()[0])


def by_hand(draw):
    shares = draw.sample([0.2, 0.25, 0.4, 0.5, 0.6, 0.75], 3)
    key, rest = _broken(shares)
    other, _ = _broken(shares, "first")
    return Question(
        f"Three keys, oldest first, have sigmoids β = {vector(shares)}. The most recent one is asked first. Give the three weights and what is left over. What would a softmax have done with the rest?",
        f"{vector(key)}, left over {number(rest)}",
        (
            (1, "A_j = β_j Π over later keys of (1 − β)"),
            (1, f"{vector(key)} and {number(rest)}; a softmax leaves nothing"),
        ),
        {
            vector(other): "the oldest key was asked first",
            vector([share / sum(shares) for share in shares]): "normalized: nothing makes the row sum to one",
        },
        {"shares": shares},
        (*key, rest),
        1,
        5,
    )


def logits_for_weights(draw):
    weights = draw.choice([[0.1, 0.3, 0.4], [0.2, 0.2, 0.5], [0.3, 0.1, 0.4], [0.15, 0.25, 0.35]])
    bites, rest = [], 1.0
    for weight in reversed(weights):
        bites.append(weight / rest)
        rest -= weight
    key = [_logit(bite) for bite in reversed(bites)]
    made = stick(torch.tensor(key, dtype=F64)).tolist()
    naive = [_logit(weight) for weight in weights]
    return Question(
        f"Which logits make stick-breaking give the weights {vector(weights)} (oldest key first, most recent asked first)? Can it give every row that a softmax can?",
        f"{vector(key)} (they give {vector(made)}); a row that sums to 1 needs the logit +∞ for its oldest key",
        (
            (1, "β_j = a_j / (1 − Σ of the weights of later keys)"),
            (1, f"z = ln(β/(1 − β)): {vector(key)}"),
            (1, "every row with a sum below 1; a sum of 1 only in the limit"),
        ),
        {vector(naive): "the weights were taken for the bites: later keys have shortened the stick"},
        {"weights": weights},
        tuple(key),
        2,
        7,
    )


def equal_bites(draw):
    share, d = draw.choice([0.1, 0.2, 0.25, 0.5]), draw.choice([3, 5, 10])
    row, _ = _broken([share] * 400)
    key = row[-d]
    mean = sum((i + 1) * weight for i, weight in enumerate(reversed(row)))
    return Question(
        f"All keys of a long past have the same logit, and β = {share}. Which weight has the key that is asked as number {d}? What is the mean place in the order of asking, and which slope must ALiBi have (equal contents) to fall just as fast?",
        f"{number(key)}; mean place {number(mean)}; slope {number(-math.log(1 - share))}",
        (
            (1, f"β(1 − β)^{d - 1} = {number(key)}, a geometric law"),
            (1, f"mean 1/β = {number(mean)}"),
            (1, f"−ln(1 − β) = {number(-math.log(1 - share))}: a recency bias without any position"),
        ),
        {
            number(share * (1 - share) ** d): "one factor too many: the first key asked takes β of a whole stick",
            number(share): "no key had shortened the stick",
        },
        {"share": share, "d": d},
        (key, mean, -math.log(1 - share)),
        2,
        6,
    )


def one_logit_moves(draw):
    shares = [draw.choice([0.25, 0.5, 0.75]) for _ in range(3)]
    G = jacobian(torch.tensor([_logit(share) for share in shares], dtype=F64))
    k = draw.choice([1, 2])
    key = G[:, k].tolist()
    return Question(
        f"Keys 0, 1, 2 (oldest first, most recent asked first) have β = {vector(shares)}. The logit of key {k} rises a little. Derive and compute the change of all three weights per unit of it. Which keys don't notice, and what would a softmax do?",
        f"∂A/∂z_{k} = {vector(key)}",
        (
            (1, "own weight: A_k (1 − β_k)"),
            (1, "keys asked later (older ones): −β_k A_j; keys asked before: 0"),
            (1, f"{vector(key)}"),
            (1, "a softmax moves all: −a_k a_j for each other key"),
        ),
        {
            vector(G[k].tolist()): "row and column of the Jacobian are swapped",
            vector([-x for x in key]): "the sign is flipped: a higher logit takes more",
        },
        {"shares": shares, "k": k},
        tuple(key),
        3,
        8,
    )


def more_keys(draw):
    share, n = draw.choice([0.5, 0.6, 0.8]), draw.choice([20, 50, 100])
    logit = _logit(share)
    after = lambda extra: _broken([share] + [1 / (1 + math.exp(4.0))] * extra)[0][0]  # noqa: E731
    soft = lambda extra: math.exp(logit) / (math.exp(logit) + extra * math.exp(-4.0))  # noqa: E731
    return Question(
        f"The oldest key has β = {share}; {n} keys that came after it are all of no interest, with the logit −4. Which weight is left for the old key, and which would a softmax over the same logits leave? How does it go on with 10 times as many?",
        f"stick-breaking {number(after(n))}, softmax {number(soft(n))}; with {10 * n}: {number(after(10 * n))} and {number(soft(10 * n))}",
        (
            (
                1,
                f"each takes β = σ(−4) = {number(1 / (1 + math.exp(4.0)))} of what is left: {share} · (1 − σ(−4))^{n} = {number(after(n))}",
            ),
            (1, f"softmax: {number(soft(n))}"),
            (
                1,
                "the stick falls exponentially in the number of keys, the softmax as one over it: to look far, logits must go well below 0",
            ),
        ),
        {number(share): "keys of no interest take nothing: but σ(−4) is not 0"},
        {"share": share, "n": n},
        (after(n), soft(n), after(10 * n), soft(10 * n)),
        2,
        7,
    )


def in_logarithms(draw):
    z, n = draw.choice([2.0, 3.0, 5.0]), draw.choice([300, 1000])
    key = float(log_weights(torch.full((n,), z, dtype=F64))[0])
    smallest = math.log(torch.finfo(torch.float32).tiny)
    return Question(
        f"{n} keys, all with the logit {z}. Give the logarithm of the oldest key's weight by a formula that multiplies nothing. Why must code not multiply first and take the log then? (The smallest normal float32 is e^{number(smallest)}.)",
        f"z − n · softplus(z) = {number(key)}",
        (
            (1, "log A_j = z_j − Σ over k ≥ j of softplus(z_k), softplus(z) = ln(1 + e^z)"),
            (1, f"{number(key)}, far below {number(smallest)}: the product is 0, its log −∞, its gradient NaN"),
        ),
        {
            number(key - math.log1p(math.exp(z))): "one softplus too many: the key's own is in the sum once",
            number(key + 2 * z): "the sign of z: log σ(z) = z − softplus(z)",
        },
        {"z": z, "n": n},
        (key,),
        2,
        6,
    )


def what_is_left(draw):
    shares = [draw.choice([0.25, 0.4, 0.5]) for _ in range(4)]
    row, rest = _broken(shares)
    return Question(
        f"A row has β = {vector(shares)}. Prove that its weights and the remainder sum to 1, and give both. Name two things that a model can do with the remainder, and what each is good for.",
        f"weights sum to {number(sum(row))}, remainder Π(1 − β) = {number(rest)}",
        (
            (1, "induction: each key splits what reaches it into β and 1 − β"),
            (1, f"{number(sum(row))} and {number(rest)}"),
            (1, "drop it (attention may say nothing), or give it to the query's own value or to a sink"),
        ),
        {number(1 - sum(shares)): "bites were added: each is of what is left"},
        {"shares": shares},
        (sum(row), rest),
        1,
        6,
    )


def no_positions(draw):
    shares = draw.sample([0.2, 0.4, 0.6, 0.8], 3)
    row, _ = _broken(shares)
    i = draw.choice([0, 1])
    swapped = list(shares)
    swapped[i], swapped[i + 1] = swapped[i + 1], swapped[i]
    moved, _ = _broken(swapped)
    return Question(
        f"Stick-breaking reads no position. Keys with β = {vector(shares)} (oldest first). Keys {i} and {i + 1} change places, contents and all. Give the weights of the same contents before and after, and say what this shows. Does moving the whole text by 100 positions change anything?",
        f"before {vector(row)}, after {vector(moved)} (in the new order); moving changes nothing",
        (
            (1, f"{vector(row)} and {vector(moved)}"),
            (1, "order alone is position here: who comes later is asked first"),
            (1, "no number of a position enters: shift invariant by construction"),
        ),
        {
            vector(
                [row[1], row[0], row[2]] if i == 0 else [row[0], row[2], row[1]]
            ): "the weights were carried along: that is what a softmax without positions does"
        },
        {"shares": shares, "i": i},
        (*row, *moved),
        2,
        6,
    )


def start_of_training(draw):
    target = draw.choice([10, 50, 100])
    key = solve(lambda odds: 1 / _broken_mean(odds), 1 / target, 1e-6, 1e3)
    bias = math.log(key)
    return Question(
        f"A new head has logits near 0. How far does it look on average (in keys, the first asked is number 1)? Which constant must be added to all logits so that the mean is {target}?",
        f"2 keys; add {number(bias)}",
        (
            (1, "β = 1/2, mean 1/β = 2"),
            (1, f"β = 1/{target}, so z = ln(β/(1 − β)) = −ln({target - 1}) = {number(bias)}"),
        ),
        {number(-math.log(target)): "β was taken for e^z: it is a sigmoid"},
        {"target": target},
        (bias,),
        1,
        4,
    )


def _broken_mean(odds):
    """The mean place of a long row whose keys all have these odds."""
    row, _ = _broken([odds / (1 + odds)] * 3000)
    return sum((i + 1) * weight for i, weight in enumerate(reversed(row)))


def mask_too_late(draw):
    shares = draw.sample([0.3, 0.5, 0.6, 0.8], 3)
    right, _ = _broken(shares[:2])
    wrong, _ = _broken(shares)
    listing, letter = options(
        draw,
        "set the logits of hidden keys to −∞, then take sigmoids and the running product",
        [
            "take the running product, then set the weights of hidden keys to 0",
            "take the running product, set hidden weights to 0, and divide by the row's sum",
        ],
    )
    return Question(
        f"Key 2 lies in the future of a query; all three have β = {vector(shares)}. Which code hides it? Compute the weights of keys 0 and 1 by the right code and by the one that hides last.\n\n{listing}",
        f"({letter}): {vector(right)}; hiding last gives {vector(wrong[:2])}",
        (
            (1, f"({letter}): a hidden key must not shorten the stick"),
            (1, f"{vector(right)}"),
            (1, f"{vector(wrong[:2])}: the future changes the past's weights, a leak"),
        ),
        {vector(wrong[:2]): "the future has broken the stick before it was hidden"},
        {"shares": shares},
        tuple(right),
        2,
        6,
    )


# Aloud


def say_why_a_stick(draw):
    share = draw.choice([0.5, 0.9])
    return Question(
        f"Explain stick-breaking with a stick, with β = {share} for the newest key. Why is a key's weight no statement about its logit alone, and why do newer keys come first?",
        f"the newest takes {share}, the next at most {number(1 - share)}",
        (
            (1, "each takes its fraction of what is left"),
            (1, "a weight is bite times what the others left"),
            (2, "newest first makes recency the default; the other order starves the recent"),
        ),
        {"it is a softmax with another normalization": "nothing is normalized, and order matters"},
        {"share": share},
        tuple(_broken([share])[0]),
        1,
        3,
    )


def say_long(draw):
    n = draw.choice([1000, 4000])
    left = _broken([0.9] + [1 / (1 + math.exp(6.0))] * n)[0][0]
    return Question(
        f"'Stick-breaking extrapolates: nothing about length is in it.' Attack this with a text of {n} tokens, all but one with the logit −6.",
        f"the oldest key with β = 0.9 keeps {number(left)}",
        (
            (1, "true: no unseen number"),
            (1, f"but many small bites add up: {number(left)} is left"),
            (2, "so logits trained for short rows are not low enough; measure with the old key at growing distance"),
        ),
        {"softmax has no such problem": "it has: one over the number of keys"},
        {"n": n},
        (left,),
        3,
        4,
    )


def say_order(draw):
    row = _broken([0.5] * draw.choice([3, 4]))[0]
    first = _broken([0.5] * len(row), "first")[0]
    return Question(
        f"{len(row)} keys with β = 1/2. Compare asking the newest first and the oldest first. Which would you use in a decoder with a cache, and what costs more?",
        f"{vector(row)} against {vector(first)}",
        (
            (1, "the two rows"),
            (
                1,
                "newest first: a new key shortens all others, so the cache's sums move by one number; oldest first: old weights stay",
            ),
            (2, "meaning: recency by default against primacy by default"),
        ),
        {"they are the same up to order": "only for equal bites, and then mirrored"},
        {"n": len(row)},
        (*row, *first),
        2,
        4,
    )


def say_gradient(draw):
    top = draw.choice([1.0, 2.0])
    G = jacobian(torch.tensor([0.0, 0.0, top], dtype=F64))
    return Question(
        f"Which keys get a gradient from the weight of key 0 (three keys, logits 0, 0 and {number(top)})? Compare the triangle here with the softmax's full matrix, and say what it means for learning to look far.",
        f"row 0 of the Jacobian is {vector(G[0].tolist())}",
        (
            (1, "its own logit and all keys asked before it"),
            (1, "triangular: nothing from keys asked after"),
            (2, "to raise an old key, all newer ones must come down: many small gradients"),
        ),
        {"only its own": "all that shortened the stick count"},
        {"top": top},
        tuple(G[0].tolist()),
        3,
        4,
    )


def say_remainder(draw):
    n = draw.choice([1, 2])
    rest = _broken([0.5] * n)[1]
    return Question(
        f"The query at position {n} sees {n} key{'s' if n > 1 else ''} with β = 1/2. What is left, what does the layer output if it is dropped, and what changes for position 0?",
        f"left {number(rest)}; position 0 sees nothing: weights 0, output 0",
        (
            (1, f"{number(rest)}"),
            (1, "the output shrinks by it"),
            (
                2,
                "strictly past: the first token reads nothing at all; options: own key, a sink, the remainder to the own value",
            ),
        ),
        {"it is renormalized": "then it would be no stick"},
        {"n": n},
        (rest,),
        2,
        3,
    )


PAPER = (
    by_hand,
    logits_for_weights,
    equal_bites,
    one_logit_moves,
    more_keys,
    in_logarithms,
    what_is_left,
    no_positions,
    start_of_training,
    mask_too_late,
)
ORAL = (say_why_a_stick, say_long, say_order, say_gradient, say_remainder)
