r"""Questions on relative position: Shaw, Transformer-XL, T5, KERPLE, FIRE."""

import math

import torch

from posenc.attention import attention
from posenc.bias.kerple import kerple
from posenc.bias.shaw import shaw
from posenc.bias.t5 import bucket, t5
from posenc.bias.transformer_xl import shift
from posenc.lab.exercises.bank.question import Question, number, options, vector
from posenc.lab.exercises.relative import shaw_term

F64 = torch.float64


def shaw_by_hand(draw):
    clip, i = draw.choice([2, 3]), draw.randint(4, 9)
    j = i + draw.choice([-5, -4, -1, 1, 2])
    q = torch.tensor([[draw.randint(1, 4), draw.choice([-5, 1, 2, 3]), draw.randint(1, 3), 2]], dtype=F64)
    table = torch.tensor([[r - clip, r, 1, (-1) ** r] for r in range(2 * clip + 1)], dtype=F64)
    at = lambda p: torch.tensor([p])  # noqa: E731
    q[0, 2] += float(shaw_term(q, table, at(i), at(j))) == 0  # a logit of 0 tells no mistake apart
    key = float(shaw_term(q, table, at(i), at(j)))
    row = max(-clip, min(clip, j - i)) + clip
    return Question(
        f"Shaw's method with D = 4 and clip k = {clip}. The rows of its table, from offset −{clip} to {clip}: {', '.join(vector(r.tolist()) for r in table)}. The query {vector(q[0].tolist())} stands at {i}, a key at {j}. Which row does the pair read, and what does it add to the logit?",
        f"row {row} (offset {j - i}, clipped to {row - clip}); it adds {number(key)}",
        ((1, f"offset key − query = {j - i}, clipped to {row - clip}: row {row}"), (1, f"q · a/√D = {number(key)}")),
        {
            number(float(shaw_term(q, table, at(j), at(i)))): "the sign of the offset is swapped",
            number(key * 2): "not divided by √D",
        },
        {"clip": clip, "i": i, "j": j, "q": q[0].tolist(), "table": table.tolist()},
        (key,),
        1,
        5,
    )


def bucket_of(draw):
    buckets, far = draw.choice([(32, 128), (16, 64), (32, 256)])
    exact = buckets // 2
    d = draw.randint(exact + 3, far // 2)
    key = int(bucket(torch.tensor([-d]), buckets, far, False)[0])
    share = int((bucket(-torch.arange(0, 4 * far), buckets, far, False) == key).sum())
    return Question(
        f"T5's decoder has {buckets} buckets and max_distance {far}, causal. In which bucket is a key {d} tokens back, and how many distances share it? From which distance on are all keys alike?",
        f"bucket {key}, shared by {share} distances; all alike from {int((bucket(-torch.arange(0, far), buckets, far, False) == buckets - 1).float().argmax())} on",
        (
            (1, f"distances below {exact} have a bucket each"),
            (1, f"{exact} + ⌊{exact} · ln(d/{exact})/ln({far}/{exact})⌋ = {key}"),
            (
                1,
                f"{share} distances share it; the last bucket starts at {int((bucket(-torch.arange(0, far), buckets, far, False) == buckets - 1).float().argmax())}",
            ),
        ),
        {
            number(
                int(bucket(torch.tensor([-d]), buckets, far, True)[0])
            ): "that is the encoder's rule: there each side has half of the buckets",
            number(
                exact + math.floor(exact * math.log(d) / math.log(far))
            ): "the logarithm runs from the last exact distance, not from 1",
        },
        {"buckets": buckets, "far": far, "d": d},
        (key, share),
        2,
        6,
    )


def shift_trick(draw):
    keys = draw.choice([3, 4])
    start = draw.randint(1, 5)
    x = torch.arange(start, start + keys * keys, dtype=F64).view(1, 1, keys, keys)
    key = shift(x)[0, 0].tril()
    return Question(
        f"Transformer-XL computes q_i · r for distances {keys - 1}, …, 1, 0 in this order of columns: rows {', '.join(vector(r.tolist()) for r in x[0, 0])}. Carry out its shift (a zero column on the left, reshape, drop the first row) and give what stands at or below the diagonal. Why is this cheaper than gathering a vector for each pair?",
        "; ".join(vector(r[: i + 1].tolist()) for i, r in enumerate(key)),
        (
            (1, f"reshaped to [{keys + 1}, {keys}] and the first row dropped"),
            (1, f"rows {'; '.join(vector(r[: i + 1].tolist()) for i, r in enumerate(key))}"),
            (1, "T products a query in place of T² vectors in memory; the reshape moves nothing"),
        ),
        {
            "; ".join(
                vector(r[: i + 1].tolist()) for i, r in enumerate(x[0, 0])
            ): "nothing has moved: column c was read as key c"
        },
        {"keys": keys, "start": start},
        tuple(key[i, j].item() for i in range(keys) for j in range(i + 1)),
        2,
        7,
    )


def what_a_softmax_cancels(draw):
    a, b = draw.choice([1.0, 2.0]), draw.choice([0.5, 1.5])
    k = draw.sample([0.0, 1.0, 2.0, 3.0], 3)
    scores = torch.tensor([0.5, 1.0, 0.0], dtype=F64)
    plain = scores.softmax(-1)
    keyed = (scores + b * torch.tensor(k, dtype=F64)).softmax(-1)
    gap = float(((scores + a).softmax(-1) - plain).abs().max())
    return Question(
        f"Someone adds two terms to Transformer-XL's logits: w·q_i, here {a} for the query, and u·k_j, here {b} times {vector(k)}. The scores are {vector(scores.tolist())}. Compute the weights with both. Which term could be left out, and why?",
        f"{vector(keyed.tolist())}; w·q_i cancels (it changes weights by {gap:.0e})",
        (
            (1, "w·q_i is the same for all keys of a row: a softmax cancels it"),
            (1, f"u·k_j stays: {vector(keyed.tolist())}"),
        ),
        {vector(plain.tolist()): "both were canceled: u·k_j differs from key to key"},
        {"a": a, "b": b, "k": k},
        tuple(keyed.tolist()),
        2,
        6,
    )


def cost(draw):
    heads, dim, clip, layers = (
        draw.choice([8, 12, 16]),
        draw.choice([64, 128]),
        draw.choice([16, 32, 64]),
        draw.choice([6, 12]),
    )
    buckets = 32
    size = lambda encoding: sum(p.numel() for p in encoding.parameters())  # noqa: E731
    shaw_, t5_ = size(shaw(dim, clip)) * layers, size(t5(heads, num_buckets=buckets))
    return Question(
        f"A model has {layers} layers and {heads} heads of D = {dim}. How many parameters has Shaw's method (clip {clip}, keys only, heads of a layer share), and how many T5's ({buckets} buckets, shared by all layers)? What can the first say that the second cannot?",
        f"{shaw_:,} and {t5_:,}",
        (
            (1, f"(2·{clip} + 1) · {dim} · {layers} = {shaw_:,}; {buckets} · {heads} = {t5_:,}"),
            (
                1,
                "Shaw's term depends on the query: which distance is wanted can follow from content; T5's bias is one number for all queries",
            ),
        ),
        {
            f"{2 * clip * dim * layers:,}": "offset 0 has a row of its own",
            f"{t5_ * layers:,}": "T5 shares its table between layers",
        },
        {"heads": heads, "dim": dim, "clip": clip, "layers": layers},
        (shaw_, t5_),
        1,
        4,
    )


def log_or_line(draw):
    r, near = draw.choice([1.0, 2.0]), draw.choice([10, 100])
    far, encoding = 10 * near, kerple(1)
    with torch.no_grad():
        for parameter in encoding.parameters():
            parameter.fill_(math.log(r))  # it holds the logarithms of r1 and r2
        zeros = torch.zeros(1, 1, 2, 4)
        at = torch.tensor([0, far - near])
        weights = attention(
            zeros[:, :, :1], zeros, zeros, encoding, pos_q=torch.tensor([far]), pos_k=at, return_weights=True
        )[1]
    ratio = float(weights[0, 0, 0, 0] / weights[0, 0, 0, 1])
    line = math.exp(-0.05 * (far - near))
    return Question(
        f"KERPLE's logarithmic form subtracts r₁ log(1 + r₂ d), here r₁ = r₂ = {r}. Two keys of equal content stand {near} and {far} tokens back. What is the ratio of their weights, far over near? Compare ALiBi with slope 0.05, and say what kind of forgetting each is.",
        f"{number(ratio)} against {number(line)}",
        (
            (1, f"((1 + {r}·{far})/(1 + {r}·{near}))^(−{r}) = {number(ratio)}"),
            (1, f"e^(−0.05·{far - near}) = {number(line)}"),
            (
                1,
                "a power law has no window: ten times farther is always about the same factor; ALiBi's exponential has one",
            ),
        ),
        {
            number(
                math.log((1 + r * far) / (1 + r * near)) * r
            ): "that is the difference of logits: take its exponential"
        },
        {"r": r, "near": near},
        (ratio, line),
        2,
        6,
    )


def clip_and_longer(draw):
    clip, length, longer = draw.choice([8, 16, 32]), draw.choice([64, 128]), draw.choice([512, 1024])
    key = length - clip
    offsets = torch.arange(-longer, 1).clamp(min=-clip).unique().numel()
    return Question(
        f"Shaw's table is clipped at {clip}; training has {length} tokens, the test {longer}. Are any rows unseen in the test? How many of the last test query's keys read the row of offset −{clip}, how many did in training? What can still go wrong?",
        f"none unseen ({offsets} rows in use on the past's side); {longer - clip} keys against {key}",
        (
            (1, f"no: all offsets beyond {clip} read one row"),
            (1, f"{longer} − {clip} = {longer - clip} against {length} − {clip} = {key}"),
            (
                1,
                "that many keys alike in one softmax: their joint weight grows, the number of keys is new though no distance is",
            ),
        ),
        {
            number(longer - clip - 1): "the offset −k itself belongs to it",
            "yes, those beyond " + str(length): "clipping was overlooked",
        },
        {"clip": clip, "length": length, "longer": longer},
        (longer - clip, key),
        2,
        5,
    )


def one_bias_for_all(draw):
    drawn = draw.choice([2, 3])
    listing, letter = options(
        draw,
        "`bucket(pos_k[None, :] - pos_q[:, None])`",
        [
            "`bucket(pos_q[:, None] - pos_k[None, :])`",
            "`bucket(torch.arange(Tk)[None, :] - torch.arange(Tq)[:, None])`",
            "`bucket((pos_k[None, :] - pos_q[:, None]).abs())`",
        ],
    )
    causal = [int(bucket(torch.tensor([r]), 32, 128, False)[0]) for r in (-drawn, drawn)]
    return Question(
        f"T5's relative position is key minus query. Which line is right for a decoder with a cache (Tq = 1, Tk keys)? What does each other one read there? Give the causal bucket of a key {drawn} back, and of one {drawn} ahead.\n\n{listing}",
        f"({letter}); buckets {causal[0]} and {causal[1]}",
        (
            (1, f"({letter})"),
            (
                1,
                "swapped: all of the past reads bucket 0; arange: the query seems to stand at 0; abs: the past counts as ahead",
            ),
            (1, f"{causal[0]} and {causal[1]}: what is ahead has bucket 0"),
        ),
        {f"{drawn} and {drawn}": "in the causal form keys ahead all share bucket 0"},
        {"d": drawn},
        tuple(causal),
        2,
        5,
    )


def number_of_keys(draw):
    n, gain = draw.choice([64, 128]), draw.choice([4.0, 6.0])
    share = lambda keys: float(torch.tensor([gain] + [0.0] * (keys - 1), dtype=F64).softmax(-1)[0])  # noqa: E731
    return Question(
        f"One key has a logit {gain:g} above all others, which are equal. What share does it get among {n} keys, and among {8 * n}? By how much would its logit have to rise to keep its share? Which relative methods can do that by distance?",
        f"{number(share(n))} and {number(share(8 * n))}; about ln 8 = {number(math.log(8))}",
        (
            (1, f"e^g/(e^g + n − 1): {number(share(n))} and {number(share(8 * n))}"),
            (1, f"the rest grows eightfold: ln((8n − 1)/(n − 1)) ≈ {number(math.log((8 * n - 1) / (n - 1)))}"),
            (
                1,
                "a bias that falls without end lowers the far crowd (ALiBi, KERPLE); a clipped or bucketed one does not",
            ),
        ),
        {number(share(n) / 8): "the share does not fall in proportion: its own weight is in the sum"},
        {"n": n, "gain": gain},
        (share(n), share(8 * n), math.log((8 * n - 1) / (n - 1))),
        3,
        7,
    )


# Aloud


def say_four_terms(draw):
    n = draw.choice([3, 4])
    return Question(
        f"Write the logit of absolute encodings as {4} terms and turn it into Transformer-XL's. What replaces what, and why are u and v there? With {n} keys, which terms are vectors, which matrices?",
        "p_n becomes r_(m−n); p_m W becomes the learned u and v, since a query has no absolute position",
        (
            (1, "the four terms"),
            (1, "relative vectors for keys' positions"),
            (2, "u, v: what is left of the query's position; which of the terms a softmax would cancel"),
        ),
        {"u and v are biases to help training": "they stand where p_m W stood"},
        {"n": n},
        (n,),
        2,
        5,
    )


def say_buckets(draw):
    far = draw.choice([128, 512])
    rows = int(bucket(torch.tensor([-far * 4]), 32, far, False)[0])
    return Question(
        f"Why are T5's buckets exact near by and logarithmic far away? What happens at a distance of {4 * far} with max_distance {far}, and is that extrapolation?",
        f"bucket {rows}, the last one; nothing is unseen if training reached {far}",
        (
            (1, "near order matters exactly, far only roughly"),
            (1, f"all beyond share bucket {rows}"),
            (2, "no new bias, but more keys in it; if training never reached max_distance, some buckets are untrained"),
        ),
        {"it fails": "buckets are bounded; ask what was trained"},
        {"far": far},
        (rows,),
        2,
        4,
    )


def say_values(draw):
    clip = draw.choice([4, 16])
    rows = 2 * clip + 1
    return Question(
        f"Shaw also adds vectors to the values (clip {clip}). Where does that term fit among the four places, what can it do that a bias cannot, and why did others drop it?",
        f"it fits none: Σ a_ij a^V_(j−i), {rows} more rows",
        (
            (1, "it is added to what is summed, after the weights"),
            (1, "it tells the output *how far* what was read stood"),
            (2, "cost, and no fused kernel knows it; whether it gains anything is for an ablation to say"),
        ),
        {"a bias can do the same": "a bias changes weights, never the content that is read"},
        {"clip": clip},
        (rows,),
        3,
        4,
    )


def say_fire(draw):
    n = draw.choice([512, 4096])
    return Question(
        f"FIRE divides a distance by the query's position before a small network sees it. What stays bounded then, for a text of {n} tokens, and what is no longer relative?",
        "the input lies in [0, 1] at any length; the bias depends on the query's position, beyond a threshold",
        (
            (1, "ψ(i − j)/ψ(max(L, i)) lies between 0 and 1"),
            (1, "no unseen inputs"),
            (
                2,
                "moving the text changes it: not shift invariant past the threshold; a cache with restarted positions breaks it",
            ),
        ),
        {"it is relative since it uses i − j": "the divisor is i"},
        {"n": n},
        (n,),
        3,
        4,
    )


def say_choose(draw):
    n = draw.choice([2, 8])
    return Question(
        f"You have a decoder trained at 1,024 and must serve {n} times that without training. Rank Shaw (clip 64), T5, ALiBi and FIRE, and say what evidence would change your ranking.",
        "a defended ranking with a measurement on the same targets, whole and cut",
        (
            (1, "unseen parameters: none for Shaw and T5 (if trained to their ends), ALiBi and FIRE are functions"),
            (1, "number of keys: who lowers the far crowd"),
            (2, "an experiment with a control, several seeds, and a task that needs the far part"),
        ),
        {"the one with the lowest loss at the training length": "that says nothing about longer texts"},
        {"n": n},
        (n,),
        3,
        5,
    )


PAPER = (
    shaw_by_hand,
    bucket_of,
    shift_trick,
    what_a_softmax_cancels,
    cost,
    log_or_line,
    clip_and_longer,
    one_bias_for_all,
    number_of_keys,
)
ORAL = (say_four_terms, say_buckets, say_values, say_fire, say_choose)
