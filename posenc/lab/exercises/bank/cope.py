r"""Questions on CoPE."""

import math

import torch

from posenc.bias.cope import cope, lookup, positions
from posenc.lab.exercises.bank.question import Question, number, options, vector
from posenc.lab.exercises.cope import cope_scores

F64 = torch.float64


def _logit(gate):
    return math.log(gate / (1 - gate))


def _positions(gates):
    """The positions of the keys of the last query, whose gates these are."""
    logits = torch.tensor([[_logit(gate) for gate in gates]], dtype=F64)
    return positions(logits, torch.ones_like(logits, dtype=torch.bool))[0].tolist()


def by_hand(draw):
    gates = draw.sample([0.1, 0.2, 0.5, 0.7, 0.9], 4)
    key = _positions(gates)
    first = [sum(gates[: j + 1]) for j in range(4)]
    return Question(
        f"The gates between the last token and its four keys (itself last) are {vector(gates)}. Give the position of each key. What would they be if all gates were 1?",
        f"{vector(key)}; with open gates (4, 3, 2, 1)",
        ((1, "p_ij sums the gates from key j up to the query, both ends in"), (1, f"{vector(key)}")),
        {
            vector(first): "summed from the first key on",
            vector([p - g for p, g in zip(key, gates)]): "the key's own gate is left out",
        },
        {"gates": gates},
        tuple(key),
        1,
        4,
    )


def read_the_table(draw):
    q = [draw.randint(1, 3), draw.randint(-2, 2)]
    table = [[draw.randint(-2, 3), draw.randint(-2, 3) + c] for c in range(4)]
    table[2], table[1] = [table[2][0] + 4, table[2][1]], [table[1][0] - 3, table[1][1]]
    p = draw.choice([1.25, 1.4, 1.75])
    z = [q[0] * e[0] + q[1] * e[1] for e in table]
    made = lookup(torch.tensor([q], dtype=F64), torch.tensor(table, dtype=F64), torch.tensor([[p, 7.5]], dtype=F64))[
        0
    ].tolist()
    return Question(
        f"CoPE's table has the rows {', '.join(vector(e) for e in table)}; the query is {vector(q)}. What is added to the logit of a key at position {p}, and of one at position 7.5? Why is it cheaper to interpolate q·e than e?",
        f"{number(made[0])} and {number(made[1])}",
        (
            (1, f"the products q·e are {vector(z)}"),
            (1, f"at {p}: a mix of rows 1 and 2, {number(made[0])}"),
            (1, f"7.5 is beyond the last row: it reads row 3, {number(made[1])}; P products a query serve all keys"),
        ),
        {
            number(z[round(p)]): "the nearest row: no gradient would reach the gates",
            number(z[1] * (p - 1) + z[2] * (2 - p)): "the two shares are swapped",
        },
        {"q": q, "table": table, "p": p},
        tuple(made),
        2,
        6,
    )


def counting_sentences(draw):
    n, length, leak = draw.choice([5, 10, 20]), draw.choice([10, 20]), draw.choice([0.01, 0.02, 0.05])
    gates = ([leak] * (length - 1) + [0.99]) * n
    key = _positions(gates)[0]
    return Question(
        f"A head counts sentences: gates of 0.99 at sentence ends, {leak} at all other words. The text has {n} sentences of {length} tokens. At which position does its first word stand, and how many sentences of error do the leaking gates make? Which logit must a closed gate have so that the leak stays below half a sentence?",
        f"{number(key)} in place of {n}: {number(key - n)} of error; below −ln({number(2 * n * (length - 1))} − 1) ≈ {number(-math.log(2 * n * (length - 1) - 1))}",
        (
            (1, f"{n} · 0.99 + {n * (length - 1)} · {leak} = {number(key)}"),
            (1, f"the leak is {number(n * (length - 1) * leak)}"),
            (
                1,
                f"g < 1/(2 · {n * (length - 1)}), so z < {number(-math.log(2 * n * (length - 1) - 1))}: it grows with the text",
            ),
        ),
        {number(n * 0.99): "closed gates were taken for 0"},
        {"n": n, "length": length, "leak": leak},
        (key, key - n),
        2,
        6,
    )


def gates_share_the_score(draw):
    d, gain = draw.choice([16, 64]), draw.choice([1.5, 2.0, 3.0, 4.0])
    high, low = 1 / (1 + math.exp(-gain)), 1 / (1 + math.exp(gain))
    table = torch.zeros(3, d)
    ratio = math.exp(2 * gain)
    q = torch.zeros(2, d)
    q[1, 0] = 1.0
    k = torch.zeros(2, d)
    k[0, 0], k[1, 0] = gain * d**0.5, -gain * d**0.5
    scores = cope_scores(q, k, table)
    measured = math.exp(float(scores[1, 0] - scores[1, 1]))
    return Question(
        f"CoPE makes its gates from the same products q·k/√D as its scores. Two keys have the gates {number(high)} and {number(low)}. By which factor is the first one's weight larger if the table adds the same to both? Can a head count sentence ends and look at words within a sentence? What would a separate gate cost?",
        f"e^(2·{gain:g}) = {number(ratio)}",
        (
            (1, f"logits are ln(g/(1 − g)) = ±{gain:g}: the weights differ by {number(ratio)}"),
            (
                1,
                "a key that counts is a key that is read: no, unless a table undoes it, and positions that are nearly equal read nearly the same",
            ),
            (1, "one more projection, and one more product for each pair"),
        ),
        {
            number(high / low)
            if abs(high / low - ratio) > 1
            else "the ratio of the gates": "gates are no weights: the softmax sees the logits"
        },
        {"gain": gain},
        (measured,),
        3,
        7,
    )


def beyond_the_table(draw):
    P, gate, T = draw.choice([(32, 0.5, 256), (64, 0.25, 1024), (16, 0.8, 64)])
    made = _positions([gate] * T)
    reach = sum(p < P - 1 for p in made)
    return Question(
        f"A table has {P} rows (positions 0 to {P - 1}); all gates are {gate}. How many of the last query's {T} keys stand below the last row? What do the others share, and when does a longer text show the model something new?",
        f"{reach} of {T}",
        (
            (1, f"p = {gate} · number of keys from there < {P - 1}"),
            (1, f"{reach} keys"),
            (1, "the rest read one row: nothing new by distance, but their number grows"),
        ),
        {number(P - 1): "gates of 1: open doors are counted"},
        {"P": P, "gate": gate, "T": T},
        (reach,),
        2,
        5,
    )


def hidden_gates(draw):
    gates = draw.sample([0.2, 0.4, 0.6, 0.8], 3)
    logits = torch.tensor([[_logit(g) for g in gates]], dtype=F64)
    seen = torch.tensor([[True, True, False]])
    right = positions(logits, seen)[0, :2].tolist()
    half = [right[0] + 0.5, right[1] + 0.5]
    listing, letter = options(
        draw,
        "`(logits.sigmoid() * visible).flip(-1).cumsum(-1).flip(-1)`",
        [
            "`(logits * visible).sigmoid().flip(-1).cumsum(-1).flip(-1)`",
            "`logits.sigmoid().flip(-1).cumsum(-1).flip(-1) * visible`",
            "`(logits.sigmoid() * visible).cumsum(-1)`",
        ],
    )
    return Question(
        f"A query may see the first two of three keys; the gates would be {vector(gates)}. Which line gives its positions? Give them, and what each wrong line gives.\n\n{listing}",
        f"({letter}): {vector(right)}",
        (
            (1, f"({letter})"),
            (1, f"{vector(right)}"),
            (
                1,
                f"hidden logits of 0 count a half, {vector(half)}; hiding last counts the hidden key; no flip sums from the start",
            ),
        ),
        {
            vector(half): "a logit of 0 is a gate of one half",
            vector([x + gates[2] for x in right]): "the hidden key was counted before it was hidden",
        },
        {"gates": gates},
        tuple(right),
        2,
        5,
    )


def gradient_to_a_gate(draw):
    gates = [0.5, draw.choice([0.25, 0.4, 0.8]), 0.75]
    slope = draw.choice([2.0, -3.0])
    z = torch.tensor([[_logit(g) for g in gates]], dtype=F64, requires_grad=True)
    table = torch.arange(6, dtype=F64)[:, None] * slope
    bias = lookup(torch.ones(1, 1, dtype=F64), table, positions(z, torch.ones_like(z, dtype=torch.bool)))
    key = torch.autograd.grad(bias[0, 0], z)[0][0].tolist()
    return Question(
        f"Three keys with gates {vector(gates)}; the products q·e of the table are {slope:g} times the position. Compute the gradient of the bias of key 0 with respect to the three gate logits. Which gates does the bias of key 2 (the last) reach?",
        f"{vector(key)}; key 2's bias reaches its own gate alone",
        (
            (1, "∂p_0/∂z_k = g_k(1 − g_k) for every k from 0 on"),
            (1, f"times the slope {slope:g} between two rows: {vector(key)}"),
            (1, "p_2 sums from key 2 on: its own gate alone"),
        ),
        {
            vector([key[0], 0, 0]): "positions are sums: later gates count too",
            vector([slope * g for g in gates]): "the sigmoid's derivative is missing",
        },
        {"gates": gates, "slope": slope},
        tuple(key),
        3,
        7,
    )


def cost(draw):
    T, P, D = draw.choice([1024, 2048]), draw.choice([64, 128]), draw.choice([64, 128])
    dots = T * P * D
    size = sum(p.numel() for p in cope(D, P).parameters())
    return Question(
        f"T = {T:,} tokens, a table of {P} rows, D = {D}, one head. How many multiplications do the products q·e take if each is made once a query, and how many if the rows are mixed first for each of the T²/2 visible pairs? How many parameters has the table?",
        f"{dots:,} against {T * T // 2 * D:,}; {size:,} parameters",
        (
            (1, f"T P D = {dots:,}"),
            (1, f"T²/2 · D = {T * T // 2 * D:,}, and {size:,} parameters, which heads may share"),
        ),
        {f"{T * T * D:,}": "the future is masked: half of the pairs"},
        {"T": T, "P": P, "D": D},
        (dots, T * T // 2 * D, size),
        1,
        4,
    )


def same_for_a_shift(draw):
    n = draw.choice([3, 10, 50, 200])
    generator = torch.Generator().manual_seed(n)
    logits = torch.randn(1, 6, generator=generator, dtype=F64)
    before = positions(logits, torch.ones_like(logits, dtype=torch.bool))
    longer = torch.cat((torch.randn(1, n, generator=generator, dtype=F64), logits), dim=-1)
    after = positions(longer, torch.ones_like(longer, dtype=torch.bool))[:, n:]
    gap = float((before - after).abs().max())
    return Question(
        f"{n} tokens are put before a text. Do the positions of the old keys change for the old queries? Prove it. Now one token is put between a key and the query: by how much does that key's position change, at least and at most?",
        f"no (measured: {gap:.0e}); by its gate, between 0 and 1",
        (
            (1, "the sum starts at the key: what is before it is not in it"),
            (1, "a token between adds its gate, which lies between 0 and 1"),
        ),
        {"yes, positions count from the start": "they count back from the query"},
        {"n": n},
        (gap < 1e-9,),
        1,
        4,
    )


# Aloud


def say_why(draw):
    n = draw.choice([3, 5])
    return Question(
        f"Name a question about a text that no distance in tokens can answer, and show how CoPE answers it for {n} sentences of different lengths.",
        f"'the sentence {n} back': gates at sentence ends count {n}",
        (
            (1, "sentences have no fixed length"),
            (1, "gates at ends, position = number of ends since"),
            (2, "what the model must learn for it: gates near 0 and 1, and a table that asks for that count"),
        ),
        {"a larger window": "distance in tokens still differs from text to text"},
        {"n": n},
        (_positions([0.99] * n)[0],),
        1,
        3,
    )


def say_limits(draw):
    T = draw.choice([1000, 4000])
    key = _positions([0.01] * T)[0]
    return Question(
        f"Closed gates of 0.01 and a text of {T} tokens. Where does the first token stand? What does it say about 'CoPE generalizes to longer texts'?",
        f"at {number(key)}",
        (
            (1, f"{number(key)}: leaks add up"),
            (1, "counts drift with length"),
            (2, "beyond the table all is one row; what to measure: counts at growing lengths, gates' histogram"),
        ),
        {"at 0, since gates are closed": "closed is not 0"},
        {"T": T},
        (key,),
        2,
        4,
    )


def say_kernel(draw):
    T = draw.choice([2, 8])
    return Question(
        f"Why can't CoPE use a fused attention kernel as it is, even for {T} thousand tokens? What must be known before the first score is final?",
        "a key's position needs the gates of all keys between it and the query: a running sum along the row, from the query back",
        (
            (1, "position depends on scores of other keys"),
            (1, "tiles must be visited from the newest key back"),
            (2, "a kernel can carry the running sum, and in the backward pass sums the other way"),
        ),
        {"because the table is too large": "it is small"},
        {"T": T},
        (T,),
        3,
        4,
    )


def say_separate(draw):
    gate = draw.choice([0.9, 0.99])
    return Question(
        f"A gate of {gate} and one of {number(1 - gate)}: what do their scores look like? Would you make gates from keys of their own?",
        f"logits ±{number(_logit(gate))}, weights {number((gate / (1 - gate)) ** 2)} apart",
        (
            (1, "gate and score are one number"),
            (1, "counted means read"),
            (2, "separate keys: cost, cache, freedom; an experiment that would decide"),
        ),
        {"they are independent": "both are q·k"},
        {"gate": gate},
        ((gate / (1 - gate)) ** 2,),
        3,
        4,
    )


def say_against_fox(draw):
    g = draw.choice([0.5, 0.9])
    return Question(
        f"CoPE and FoX both have gates. With all gates {g}, what does each add for a key 3 tokens back? What can a table do that a decay cannot?",
        f"CoPE: reads its table at {number(_positions([g] * 4)[0])}; FoX: 3 ln {g} = {number(3 * math.log(g))}",
        (
            (1, "CoPE: a position, looked up by the query"),
            (1, "FoX: a penalty, the same for all queries' contents"),
            (2, "a table may prefer the second sentence back; a decay is monotone"),
        ),
        {"they are the same": "one counts up, the other multiplies down"},
        {"g": g},
        (_positions([g] * 4)[0], 3 * math.log(g)),
        3,
        4,
    )


PAPER = (
    by_hand,
    read_the_table,
    counting_sentences,
    gates_share_the_score,
    beyond_the_table,
    hidden_gates,
    gradient_to_a_gate,
    cost,
    same_for_a_shift,
)
ORAL = (say_why, say_limits, say_kernel, say_separate, say_against_fox)
