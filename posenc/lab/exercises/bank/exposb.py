r"""Questions on ExpoSB: a proposal of four mechanisms, read closely."""

import math

import torch

from posenc.lab.exercises.bank.question import Question, number, options, vector
from posenc.lab.exercises.exposb import fade_log, fade_logits, hazard_weights
from posenc.several.exposb import band, fade

F64 = torch.float64


def _two(form, near, far, d, rate, floor):
    """The weight of a far key over that of a near one, by one form."""
    made = form(torch.tensor([near, far], dtype=F64), torch.tensor([0.0, d], dtype=F64), rate, floor).softmax(-1)
    return float(made[1] / made[0])


def factor_by_hand(draw):
    rate, floor, d = draw.choice([0.005, 0.01, 0.05]), draw.choice([0.6, 0.7]), draw.choice([20, 100, 200])
    key = float(fade(torch.tensor([float(d)], dtype=F64), rate, floor)[0])
    return Question(
        f"ExpoSB's decay multiplies logits by floor + (1 − floor) e^(−rate·distance), here floor {floor} and rate {rate}. Give the factor at distance {d}, its limit, and the distance at which half of the fall is done.",
        f"{number(key)}; limit {floor}; {number(math.log(2) / rate)} tokens",
        (
            (1, f"{floor} + {number(1 - floor)} e^(−{number(rate * d)}) = {number(key)}"),
            (1, f"limit {floor}; ln 2/rate = {number(math.log(2) / rate)}"),
        ),
        {
            number(math.exp(-rate * d)): "the floor is missing",
            number((1 - floor) + floor * math.exp(-rate * d)): "floor and the rest are swapped",
        },
        {"rate": rate, "floor": floor, "d": d},
        (key, math.log(2) / rate),
        1,
        4,
    )


def sign_of_a_logit(draw):
    z, floor, d = draw.choice([1.0, 2.0, 3.0]), draw.choice([0.5, 0.7]), draw.choice([100.0, 200.0])
    high, low = (_two(fade_logits, s * z, s * z, d, 0.01, floor) for s in (1, -1))
    f = float(fade(torch.tensor([d], dtype=F64), 0.01, floor)[0])
    return Question(
        f"Two keys of one logit z, one at distance 0, one at {d:g} (rate 0.01, floor {floor}). The factor multiplies logits. Compute far over near for z = {z:g} and for z = −{z:g}. Why does a 'decay' favor the far key in one case, and which form repairs it?",
        f"{number(high)} and {number(low)}; added as a logarithm it is {number(f)} for both",
        (
            (1, f"the factor is {number(f)}: e^((f − 1)z)"),
            (1, f"{number(high)} and {number(low)}: a negative logit shrinks towards 0, so it rises"),
            (1, f"z + ln f: the ratio is f = {number(f)} whatever z"),
        ),
        {number(f): "the factor was taken to multiply weights: it multiplies logits"},
        {"z": z, "floor": floor, "d": d},
        (high, low),
        2,
        6,
    )


def constant_that_counts(draw):
    z, c = draw.choice([1.0, -1.0]), draw.choice([2.0, 5.0])
    d, floor = 200.0, 0.7
    before, after = (_two(fade_logits, z + s, z + s, d, 0.01, floor) for s in (0.0, c))
    same = [_two(fade_log, z + s, z + s, d, 0.01, floor) for s in (0.0, c)]
    return Question(
        f"A constant {c:g} is added to all logits of a row, which no softmax notices. Two keys of logit {z:g}, distances 0 and {d:g} (rate 0.01, floor {floor}): compute far over near before and after, for the form that multiplies logits and for the one that adds the logarithm. What does the first lose?",
        f"multiplied: {number(before)}, then {number(after)}; logarithm: {number(same[0])} both times",
        (
            (1, f"e^((f − 1)z) moves with z: {number(before)}, {number(after)}"),
            (1, f"a shift cancels where ln f is added: {number(same[0])} both times"),
            (
                1,
                "a softmax's freedom: a shift of all logits is not harmless any more, so a query's bias changes how far it looks",
            ),
        ),
        {number(before) + " both times": "the shift was taken to cancel: it is multiplied, too"},
        {"z": z, "c": c},
        (before, after, *same),
        3,
        7,
    )


def the_bump(draw):
    dim = draw.choice([16, 32, 64])
    factors = band(dim)
    lane = draw.choice([dim // 8, dim // 2])
    pair = lane // 2 * 2
    gap = float((factors[pair] - factors[pair + 1]).abs())
    return Question(
        f"ExpoSB multiplies lane l by 0.8 + 0.4 exp(−(l − D/4)²/(2(D/8)²)), D = {dim}. Give the factor of lane {lane}, and of its partner in the interleaved pair. Why is a rotation with different factors on the two lanes of a pair no rotation, and what does per_pair=True do?",
        f"{number(factors[lane])}; the two lanes of its pair differ by {number(gap)}",
        (
            (1, f"{number(factors[lane])} and {number(factors[pair + 1 if lane == pair else pair])}"),
            (1, "R(m)ᵀ S R(n) is no function of n − m unless S is a multiple of the identity on each pair"),
            (1, "one factor a pair, at its middle"),
        ),
        {number(0.8 + 0.4 * math.exp(-((lane - dim / 2) ** 2) / (2 * (dim / 8) ** 2))): "the bump stands at D/4"},
        {"dim": dim, "lane": lane},
        (float(factors[lane]), gap),
        2,
        6,
    )


def by_hazards(draw):
    z, rate = draw.sample([-1.0, 0.0, 1.0], 3), draw.choice([0.1, 0.5])
    key = hazard_weights(torch.tensor(z, dtype=F64), rate).tolist()
    plain = hazard_weights(torch.tensor(z, dtype=F64), 0.0).tolist()
    return Question(
        f"Hazards: r = softplus(z) + rate, and a key gets (1 − e^(−r)) times the survival of all nearer ones. Logits {vector(z)}, nearest last, rate {rate}. Give the three weights and what is left. Which method is it at rate 0?",
        f"{vector(key)}, left {number(1 - sum(key))}; stick-breaking, newest first",
        (
            (1, "survival is e^(−Σ r of the nearer keys)"),
            (1, vector(key)),
            (1, f"left {number(1 - sum(key))}; at rate 0, 1 − e^(−softplus z) = σ(z): stick-breaking"),
        ),
        {
            vector(plain): "the rate is left out",
            vector([k / sum(key) for k in key]): "normalized: what is left stays left",
        },
        {"z": z, "rate": rate},
        (*key, 1 - sum(key)),
        2,
        7,
    )


def reach_of_a_rate(draw):
    rate = draw.choice([0.01, 0.02, 0.05])
    n = 4000
    row = hazard_weights(torch.full((n,), -30.0, dtype=F64), rate).flip(0)
    share = draw.choice([0.5, 0.9])
    key = int((row.cumsum(0) < share).sum()) + 1
    return Question(
        f"All logits are far below 0, so the hazard is the rate alone, {rate} a key. How many of the nearest keys hold {share:.0%} of a long row? Compare ALiBi with slope {rate} and equal contents, and say what differs when contents are not equal.",
        f"{key} keys, as ALiBi's window",
        (
            (1, f"1 − e^(−rate·n) ≥ {share}: n = {key}; ALiBi falls by the same e^(−{rate}) a token"),
            (1, "here each key's content ends the walk for those behind it; in ALiBi all compete at once"),
        ),
        {number(math.ceil(1 / rate)): "1/rate belongs to a share of 63 %"},
        {"rate": rate, "share": share},
        (key,),
        2,
        5,
    )


def what_a_floor_means(draw):
    floor, z, n = draw.choice([0.5, 0.7]), draw.choice([4.0, 6.0]), draw.choice([100, 1000])
    far = torch.full((n,), 1.0, dtype=F64)
    logits = torch.cat((fade_log(far, torch.full((n,), 1e6, dtype=F64), 0.01, floor), torch.tensor([z], dtype=F64)))
    share = float(logits.softmax(-1)[-1])
    return Question(
        f"Logarithmic form, floor {floor}. One near key has the logit {z:g}, {n} keys very far away have 1. Which share does the near one get? Compare a decay without a floor. For which length does 'decay' no longer protect against many far keys?",
        f"{number(share)}; without a floor it tends to 1",
        (
            (1, f"far keys keep the factor {floor}: e^{z:g}/(e^{z:g} + {n} · {floor} · e)"),
            (1, f"{number(share)}; with no floor the far ones vanish: the sum grows with the length as in any softmax"),
        ),
        {number(math.exp(z) / (math.exp(z) + n * math.e)): "the floor was left out of the far keys' weight"},
        {"floor": floor, "z": z, "n": n},
        (share,),
        1,
        5,
    )


def right_form(draw):
    listing, letter = options(
        draw,
        "`scores + torch.log(floor + (1 - floor) * torch.exp(-rate * d.abs()))`",
        [
            "`scores * (floor + (1 - floor) * torch.exp(-rate * d.abs()))`",
            "`scores + (floor + (1 - floor) * torch.exp(-rate * d.abs()))`",
            "`(scores - rate * d.abs()).clamp(min=floor)`",
        ],
    )
    d, floor, rate = draw.choice([50.0, 100.0]), 0.7, 0.01
    key = float(fade_log(torch.zeros(1, dtype=F64), torch.tensor([d], dtype=F64), rate, floor)[0])
    return Question(
        f"Which line lowers the weight of a far key by a factor that does not depend on its logit? What does each other one do? Give what it adds at distance {d:g} (rate {rate}, floor {floor}).\n\n{listing}",
        f"({letter}); {number(key)}",
        (
            (
                1,
                f"({letter}); times: depends on the logit's sign; plus the factor: adds at most 1; clamp: cuts contents",
            ),
            (1, number(key)),
        ),
        {number(-rate * d): "that is ALiBi, without a floor"},
        {"d": d, "rate": rate, "floor": floor},
        (key,),
        2,
        4,
    )


# Aloud


def say_four(draw):
    rate = draw.choice([0.005, 0.05])
    return Question(
        f"ExpoSB combines gain, band, decay (rate {rate}) and a rotation. Which properties of RoPE survive each one? Test in your head: shift, norm, decay.",
        "the gain of the position breaks the shift; the band breaks the pair; the decay keeps the shift",
        (
            (1, "gain: scores depend on m itself"),
            (1, "band: lanes of a pair differ"),
            (2, "decay: shift invariant, but no decay for negative logits"),
        ),
        {"it is RoPE with extras": "check each property anew"},
        {"rate": rate},
        (rate,),
        3,
        5,
    )


def say_logits_or_log(draw):
    z = draw.choice([-2.0, -1.0])
    ratio = _two(fade_logits, z, z, 200.0, 0.01, 0.7)
    return Question(
        f"Show at the board why multiplying logits is no decay, with logit {z:g}. What did the authors probably mean?",
        f"far over near is {number(ratio)}, above 1",
        (
            (1, number(ratio)),
            (1, "sign of the logit decides"),
            (2, "weights times a factor: add its logarithm to the logits"),
        ),
        {"logits are positive": "they are products: half of random ones are negative"},
        {"z": z},
        (ratio,),
        2,
        4,
    )


def say_evidence(draw):
    n = draw.choice([1, 3])
    return Question(
        f"The report shows {n} run{'s' if n > 1 else ''} a method. What can and can't be concluded, and what would you run in an afternoon?",
        "no spread, no conclusion; ablate each mechanism with several seeds on the same targets",
        (
            (1, "spread unknown or poorly known"),
            (1, "which mechanism did it"),
            (2, "a plan with a control, seeds, and a number that would refute"),
        ),
        {"more data": "say which comparison it would decide"},
        {"n": n},
        (n,),
        2,
        4,
    )


def say_hazard(draw):
    rate = draw.choice([0.1, 0.5])
    row = hazard_weights(torch.zeros(4, dtype=F64), rate).tolist()
    return Question(
        f"Explain stick-breaking as survival: what is a hazard, and what does a rate of {rate} do to four keys of logit 0?",
        f"weights {vector(row)}",
        (
            (1, "a walk from the newest key back that ends at each with its hazard"),
            (1, "hazards add in the exponent"),
            (2, "a rate is added to each: an exponential horizon beside content"),
        ),
        {"the rate lowers the nearest key": "it ends the walk sooner, so near keys gain"},
        {"rate": rate},
        tuple(row),
        2,
        4,
    )


def say_audit(draw):
    far = draw.choice([1000, 4000])
    return Question(
        f"You get ExpoSB's code. Which five questions do you ask it by machine before reading, one of them at position {far}?",
        "shift, norm, causality, precision far out, cache",
        (
            (1, "relative: move all positions"),
            (1, "norm and layout"),
            (2, "cache against one pass, future against past, half precision far out; what a failing example shows"),
        ),
        {"does it train": "many wrong encodings train"},
        {"far": far},
        (far,),
        1,
        3,
    )


PAPER = (
    factor_by_hand,
    sign_of_a_logit,
    constant_that_counts,
    the_bump,
    by_hazards,
    reach_of_a_rate,
    what_a_floor_means,
    right_form,
)
ORAL = (say_four, say_logits_or_log, say_evidence, say_hazard, say_audit)
