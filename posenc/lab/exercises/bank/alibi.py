r"""Questions on ALiBi."""

import math

import torch

from posenc.attention import attention
from posenc.bias.alibi import alibi, bias, slopes
from posenc.lab.exercises.alibi import window
from posenc.lab.exercises.bank.question import Question, number, options, vector

F64 = torch.float64


def _weights(scores, penalties):
    """Softmax of scores plus penalties, as a list."""
    return (torch.tensor(scores, dtype=F64) + torch.as_tensor(penalties, dtype=F64)).softmax(-1).tolist()


def slopes_of_heads(draw):
    heads = draw.choice([6, 10, 12, 20, 24])
    below = 1 << (heads.bit_length() - 1)
    key = slopes(heads).tolist()
    naive = [2 ** (-8 * h / heads) for h in range(1, heads + 1)]
    return Question(
        f"A model has {heads} heads. Give ALiBi's slopes of its first head, of head number {below}, of head number {below + 1} and of its last head (heads count from 1), and the rule behind the last two.",
        f"{vector([key[0], key[below - 1], key[below], key[-1]])}",
        (
            (1, f"{heads} is no power of two: the first {below} slopes are those of {below} heads, 2^(−8h/{below})"),
            (1, f"the rest are every other slope of {2 * below} heads, from the first: 2^(−8(2j − 1)/{2 * below})"),
            (1, f"the four numbers {vector([key[0], key[below - 1], key[below], key[-1]])}"),
        ),
        {
            vector(
                [naive[0], naive[below - 1], naive[below], naive[-1]]
            ): "the formula for powers of two was used for every number of heads"
        },
        {"heads": heads},
        (key[0], key[below - 1], key[below], key[-1]),
        2,
        6,
    )


def window_of_a_head(draw):
    heads, share = draw.choice([4, 8, 16]), draw.choice([0.5, 0.9, 0.95, 0.99])
    h = draw.randint(heads // 2, heads)
    m = float(slopes(heads)[h - 1])
    key = window(m, share)
    return Question(
        f"A head with ALiBi's slope number {h} of {heads} meets a long past of keys with equal content. How many of the nearest keys, the query's own included, hold at least {share:.0%} of the weight?",
        f"n = {key}, with m = {number(m)}",
        (
            (
                1,
                f"weights fall by e^(−m) a step, m = 2^(−8·{h}/{heads}) = {number(m)}; the nearest n hold 1 − e^(−mn) of a long row",
            ),
            (1, f"n = ⌈−ln(1 − {share})/m⌉ = {key}"),
        ),
        {
            number(math.floor(-math.log(1 - share) / m)): "rounded down: that many do not hold the share yet",
            number(math.ceil(-math.log2(1 - share) / m)): "base 2: slopes are subtracted from logits of base e",
            number(math.ceil(1 / m)) + " (1/m)": "1/m belongs to a share of 63 % only",
        },
        {"m": m, "share": share},
        (key,),
        2,
        5,
    )


def one_row(draw):
    heads = draw.choice([2, 4, 8])
    h = draw.randint(1, heads)
    scores = [draw.choice([0.0, 0.5, 1.0, 1.5, 2.0]) for _ in range(3)]
    m = float(slopes(heads)[h - 1])
    penalties = bias(torch.tensor([2]), torch.arange(3), slopes(heads))[h - 1, 0]
    key = _weights(scores, penalties)
    return Question(
        f"The third token of a text reads its own and the two earlier keys; the scaled scores are {vector(scores)}, oldest key first. The head is number {h} of {heads}. Compute the three weights.",
        f"{vector(key)}",
        (
            (1, f"the slope m = 2^(−8·{h}/{heads}) = {number(m)}"),
            (1, f"penalties −m times distance 2, 1, 0: {vector(penalties)}"),
            (1, f"the softmax of the sums: {vector(key)}"),
        ),
        {
            vector(_weights(scores, -penalties)): "the sign is flipped: the past gains",
            vector(
                _weights(scores, [-m * j for j in range(3)])
            ): "the newest key pays most: distance was counted from the start",
            vector(_weights(scores, [0, 0, 0])): "the bias is missing",
        },
        {"heads": heads, "h": h, "scores": scores},
        tuple(key),
        1,
        6,
    )


def overtaking(draw):
    heads, h = draw.choice([(8, 2), (8, 3), (8, 4), (16, 6), (4, 2)])
    near = draw.choice([0.0, 0.5, 1.0])
    m, gain = float(slopes(heads)[h - 1]), draw.choice([2, 3, 4])
    limit = gain / m
    key = math.ceil(limit) - 1
    return Question(
        f"A head with slope number {h} of {heads}. A key right at the query (distance 0) has the score {near}, a far key has {near + gain}. Up to which whole distance does the far key get more weight than the near one? What does the answer become in a head with half the slope?",
        f"up to {key} tokens (m = {number(m)}, bound {number(limit)}); with half the slope up to {math.ceil(2 * limit) - 1}",
        (
            (1, f"the far key wins where {gain} > m d, with m = {number(m)}"),
            (1, f"d < {number(limit)}, so up to {key}"),
            (
                1,
                f"half the slope doubles the bound: up to {math.ceil(2 * limit) - 1}. Content and distance trade at a fixed rate of m a token",
            ),
        ),
        {
            number(limit * math.log2(math.e)): "the gain was turned into base 2: scores and slopes are both logits",
            number(math.ceil((near + gain) / m) - 1) if near else number(key + 1): "the two scores were not compared"
            if near
            else "at the bound itself both weigh the same",
        },
        {"m": m, "gain": gain},
        (key, math.ceil(2 * limit) - 1),
        2,
        5,
    )


def by_the_key_alone(draw):
    at = draw.choice([1000, 3000, 5000])
    q, k, v = torch.randn(3, 1, 4, 6, 8, generator=torch.Generator().manual_seed(at), dtype=F64)
    positions, m = torch.arange(at, at + 6), slopes(4)
    whole = attention(q, k, v, alibi(4), pos_q=positions, pos_k=positions, return_weights=True)[1]
    scores = q @ k.mT / 8**0.5 + (m.double()[:, None] * positions)[:, None]
    mine = scores.masked_fill(torch.ones(6, 6, dtype=torch.bool).triu(1), -math.inf).softmax(-1)
    gap = float((whole - mine).abs().max())
    sigmoid = float(
        (
            (q @ k.mT / 8**0.5 + (m.double()[:, None] * positions)[:, None]).sigmoid()
            - (q @ k.mT / 8**0.5 + bias(positions, positions, m)).sigmoid()
        )
        .abs()
        .max()
    )
    return Question(
        f"Some code adds m_h · j, with j the key's position, in place of −m_h (i − j). Prove that under a softmax all weights are the same. Then: at positions around {at:,}, why can this form fail in bfloat16, and why is the proof wrong for stick-breaking or a sigmoid?",
        f"same weights to {gap:.0e} in float64; a sigmoid's weights differ by up to {sigmoid:.2g}. In bfloat16 a score with m_h · j in it is rounded to few digits where that is large",
        (
            (1, "m j = −m(i − j) + m i, and m i is the same for all keys of the row"),
            (1, "a softmax cancels what all keys of a row share"),
            (1, "m j grows with the position: in the sum few digits are left for the score and for neighbors"),
            (1, "a sigmoid has no sum over the row in which m i could cancel"),
        ),
        {
            "the two differ, so the code is wrong": "the freedom of a softmax was overlooked: constants of a row don't count"
        },
        {"at": at},
        (gap < 1e-9, sigmoid > 0.1),
        2,
        8,
    )


def memory_of_a_bias(draw):
    heads, length, size = draw.choice([12, 16, 32]), draw.choice([2048, 4096, 8192]), draw.choice([2, 4])
    stored = bias(torch.arange(4), torch.arange(4), slopes(heads)).numel() // 16 * length * length * size
    return Question(
        f"An implementation stores ALiBi's bias as a tensor [H, T, T] with {size} bytes a number, for {heads} heads and {length:,} tokens. How many MiB is that? What is the least that a kernel must read to do the same, and why?",
        f"{number(stored / 2**20)} MiB; a kernel needs the {heads} slopes, since it knows i and j of each score",
        (
            (1, f"{heads} · {length}² · {size} bytes = {number(stored / 2**20)} MiB"),
            (1, f"{heads} slopes: −m(i − j) is computed where the score is"),
        ),
        {
            number(stored / 2**21)
            + " MiB": "half of it: the tensor has the future too, or the code would store triangles",
            number(length * length * size / 2**20) + " MiB": "one head: each head has a slope of its own",
        },
        {"heads": heads, "length": length, "size": size},
        (stored / 2**20, heads),
        1,
        4,
    )


def what_is_left_far_out(draw):
    (heads, h), d = draw.choice([(8, 1), (8, 2), (8, 3), (16, 4)]), draw.choice([64, 128, 256])
    m = float(slopes(heads)[h - 1])
    key = math.exp(-m * d)
    seen, said = float(alibi_share(m, d)), f"{key:.4g}"  # no rounding error, however small
    return Question(
        f"'A model with ALiBi reads contexts longer than it was trained on.' Take head {h} of {heads}, equal contents, and a long past. What share of the weight lies farther back than {d} tokens (at distance {d} or more)? What follows for the sentence, and which experiment tells 'it uses the longer context' from 'it does not mind it'?",
        f"e^(−m·{d}) = {said}, with m = {number(m)}: not zero, yet this head reads a window",
        (
            (1, f"1 − (1 − e^(−m·{d})) = e^(−{number(m * d)}) = {said}"),
            (1, "the head has a window; beyond it only a much higher score counts, so not failing is not reading"),
            (
                1,
                "the same targets with attention cut to the window: if the loss stays, nothing beyond was used; or a task whose answer lies far back",
            ),
        ),
        {number(1 - key): "the share inside: what lies beyond was asked"},
        {"m": m, "d": d},
        (key, seen),
        3,
        7,
    )


def alibi_share(m, distance):
    """The share of a long row of equal contents at `distance` or more, by posenc's bias."""
    weights = (
        bias(torch.tensor([200_000]), torch.arange(200_001), torch.tensor([m], dtype=F64))[0, 0].double().softmax(-1)
    )
    return weights[: 200_001 - distance].sum()


def gradient_of_a_slope(draw):
    m, scores = draw.choice([0.25, 0.5, 1.0]), [draw.choice([0.0, 1.0, 2.0]) for _ in range(3)]
    slope = torch.tensor([m], dtype=F64, requires_grad=True)
    weights = (torch.tensor(scores, dtype=F64) + bias(torch.tensor([2]), torch.arange(3), slope)[0, 0]).softmax(-1)
    key = float(torch.autograd.grad(weights[0], slope)[0])
    weights = weights.detach()
    mean = float(2 * weights[0] + weights[1])
    return Question(
        f"Make the slope m a parameter. Three keys at distances 2, 1, 0 have the scores {vector(scores)}, and m = {m}. Derive ∂a/∂m for the weight a of the farthest key, and compute it.",
        f"∂a/∂m = a (d̄ − 2) = {number(key)}, with a = {number(weights[0])} and mean distance d̄ = {number(mean)}",
        (
            (1, "∂a_j/∂m = a_j (Σ_k a_k d_k − d_j), the softmax's derivative with logits −m d"),
            (1, f"the weights {vector(weights.tolist())} and their mean distance {number(mean)}"),
            (1, f"{number(key)}: a steeper slope takes weight from what is farther than the mean"),
        ),
        {
            number(-key): "the sign is flipped: a steeper slope takes weight from far keys",
            number(-2 * float(weights[0])): "the sum below was held fixed: the softmax normalizes",
        },
        {"m": m, "scores": scores},
        (key,),
        3,
        8,
    )


def right_code(draw):
    heads = draw.choice([4, 8])
    listing, letter = options(
        draw,
        "`scores + m[:, None, None] * (j[None, :] - i[:, None])`",
        [
            "`scores + m[:, None, None] * (i[:, None] - j[None, :])`",
            "`(scores + m[:, None, None] * (j[None, :] - i[:, None])) / D**0.5`",
            "`scores * torch.exp(m[:, None, None] * (j[None, :] - i[:, None]))`",
            "`scores + m[None, None, :heads] * (j[None, :] - i[:, None])`",
        ],
    )
    value = float(bias(torch.tensor([5]), torch.tensor([3]), slopes(heads))[1, 0, 0])
    return Question(
        f"`scores` is [{heads}, T, T], already divided by √D; `m` holds the slopes [{heads}]; `i` and `j` are the positions of queries and keys. Which line is ALiBi? What does it add for head 2 (of {heads}), query 5, key 3?\n\n{listing}",
        f"({letter}); it adds {number(value)}",
        (
            (1, f"({letter}): in logits, after scaling, negative for the past, one slope a head"),
            (1, f"−m·2 = {number(value)}"),
        ),
        {
            "the line that divides by √D": "the bias is added after scaling, else slopes depend on D",
            "the line with exp": "multiplying logits raises negative ones",
        },
        {"heads": heads},
        (value,),
        1,
        3,
    )


# Aloud


def say_train_short(draw):
    m = float(slopes(8)[draw.randint(3, 7)])
    return Question(
        f"Explain to a colleague why a model with ALiBi can be tested on longer texts than it was trained on and one with learned positions cannot. Then argue against yourself: take a head of slope {number(m)}, what does it do with the longer text?",
        f"nothing in the formula is new but larger penalties; such a head's nearest {window(m, 0.95)} keys hold 95 % of the weight (equal contents)",
        (
            (1, "distances beyond training give larger penalties, and a key that far has little weight"),
            (1, "a learned table has no row there"),
            (
                2,
                f"the head looks back {window(m, 0.95)} tokens: the longer text is mostly not read; say how to measure it",
            ),
        ),
        {"it generalizes to any length": "robust and using the context are two claims"},
        {"m": m},
        (window(m, 0.95),),
        2,
        4,
    )


def say_slopes(draw):
    heads = draw.choice([8, 16])
    first, last = slopes(heads)[0], slopes(heads)[-1]
    return Question(
        f"Why do heads get different slopes, and why a geometric series? What would {heads} equal slopes do? Would you learn them?",
        f"half-lives from {number(math.log(2) / first)} to {number(math.log(2) / last)} tokens, evenly spread on a log scale",
        (
            (1, "each head has its own window"),
            (1, "a geometric series spreads windows evenly over orders of magnitude"),
            (
                2,
                "equal slopes: one window for all; learned: one number a head, which must stay positive; an experiment has to say whether it helps",
            ),
        ),
        {"so that the heads can be told apart": "heads differ by their weights anyway: it is the reach that is set"},
        {"heads": heads},
        (float(first), float(last)),
        2,
        3,
    )


def say_both_sides(draw):
    d = draw.choice([2, 5])
    asym = bias(torch.tensor([10]), torch.tensor([10 - d, 10 + d]), slopes(1))[0, 0].tolist()
    sym = bias(torch.tensor([10]), torch.tensor([10 - d, 10 + d]), slopes(1), symmetric=True)[0, 0].tolist()
    return Question(
        f"You want ALiBi in an encoder, which sees both sides. What does the causal formula add at {d} tokens before and after the query (one head)? What would you use, and what can it not tell apart?",
        f"as it is: {vector(asym)}, a bonus for the future; symmetric: {vector(sym)}, which does not tell left from right",
        (
            (1, f"−m(i − j) is a bonus for keys ahead: {vector(asym)}"),
            (1, "−m|i − j|"),
            (
                2,
                "left and right look alike to it; remedies: different slopes for each side, or heads that see one side",
            ),
        ),
        {"the same formula works": "it was only ever meant under the causal mask, which hides the bonus"},
        {"d": d},
        (*asym, *sym),
        2,
        4,
    )


def say_against_rope(draw):
    gain = draw.choice([2, 4])
    m = float(slopes(8)[3])
    return Question(
        f"Compare ALiBi and RoPE at one question: can a head look exactly 40 tokens back, whatever stands between? Use the slope {number(m)} and contents whose scores differ by at most {gain}.",
        f"ALiBi: the order of equal contents is fixed, nearer wins; content must pay m·40 = {number(m * 40)} logits. RoPE: a key can be made for distance 40",
        (
            (
                1,
                f"ALiBi: monotone in distance; {number(m * 40)} against {gain}: {'content can pay' if m * 40 < gain else 'content cannot pay'}",
            ),
            (1, "RoPE: k = R(40)q"),
            (2, "what each pays for it: ALiBi's windows are robust, RoPE's angles may be unseen"),
        ),
        {"ALiBi too, with the right slope": "no slope puts a maximum at 40"},
        {"gain": gain},
        (m * 40,),
        3,
        4,
    )


def say_find_the_bug(draw):
    shared = draw.choice([4, 8])
    spread = float(slopes(shared)[0] / slopes(shared)[-1])
    return Question(
        f"A port of a model with {shared} heads gets its outputs right for one head and wrong for the others; it has ALiBi. Which two faults would you look for first, and which one test tells them apart?",
        f"one slope for all heads (true slopes differ by a factor of {number(spread)}), or slopes in another order; print the weights of equal contents head by head and read off each slope",
        (
            (1, "shared slopes"),
            (1, "order of heads, or the rule for numbers that are no power of two"),
            (2, "equal contents: the log ratio of neighboring weights is the slope of that head"),
        ),
        {"the mask": "a mask would be wrong in every head"},
        {"heads": shared},
        (spread,),
        2,
        3,
    )


PAPER = (
    slopes_of_heads,
    window_of_a_head,
    one_row,
    overtaking,
    by_the_key_alone,
    memory_of_a_bias,
    what_is_left_far_out,
    gradient_of_a_slope,
    right_code,
)
ORAL = (say_train_short, say_slopes, say_both_sides, say_against_rope, say_find_the_bug)
