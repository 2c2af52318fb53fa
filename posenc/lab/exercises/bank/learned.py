r"""Questions on learned position vectors."""

import torch
from torch import nn

from posenc.embed.learned import learned, resize
from posenc.lab.exercises.bank.question import Question, number, options, vector
from posenc.lab.exercises.learned import count, fold

F64 = torch.float64


def parameters(draw):
    n, dim, layers, words = (
        draw.choice([512, 1024, 2048]),
        draw.choice([256, 512, 768]),
        draw.choice([6, 12]),
        draw.choice([30000, 50000]),
    )
    made = sum(p.numel() for p in learned(n, dim).parameters())
    each = count(n, dim, layers, "layer_qk")
    return Question(
        f"A model has C = {dim}, {layers} layers, {words:,} words and room for {n:,} positions. How many numbers does its table of positions hold at the input, how many if each layer has one for its queries and keys, and what share of the word embeddings is the first?",
        f"{made:,}; {each:,}; {made / (words * dim):.2%}",
        (
            (1, f"{n} · {dim} = {made:,}, and times {layers} = {each:,} (queries and keys of a layer share one)"),
            (1, f"{n}/{words} = {made / (words * dim):.2%}: C cancels"),
        ),
        {f"{2 * each:,}": "queries and keys were given a table each: it is added before W_q and W_k"},
        {"n": n, "dim": dim, "layers": layers, "words": words},
        (made, each, n / words),
        1,
        4,
    )


def rows_that_never_train(draw):
    lr, decay, steps = draw.choice([0.001, 0.0003]), draw.choice([0.1, 0.01]), draw.choice([50_000, 100_000])
    one = 1 - lr * decay  # what decoupled decay leaves of a row without gradient
    key = one**steps
    return Question(
        f"A table has 1,024 rows; all training texts have 512 tokens. AdamW runs {steps:,} steps at learning rate {lr} with weight decay {decay}. What gradient do rows 512 to 1,023 get, what moves them, and to which fraction of their start have they shrunk? What does a model see there at test time?",
        f"gradient 0; decay leaves (1 − {lr} · {decay})^{steps} = {number(key)} of them",
        (
            (1, "no loss contains them: gradient exactly 0, and Adam's step with it"),
            (1, f"decoupled decay: a factor of {one:.6f} a step, {number(key)} in the end"),
            (
                1,
                "noise about as it started, or nearly zeros: positions the model was never taught, and no error says so",
            ),
        ),
        {
            number((1 - lr) ** steps): "the decay's own factor is missing: it is 1 − lr · decay",
            "1": "weight decay was forgotten: it needs no gradient",
        },
        {"lr": lr, "decay": decay, "steps": steps},
        (key,),
        2,
        6,
    )


def stretched(draw):
    n, length = draw.choice([(4, 7), (3, 5), (4, 10), (5, 9)])
    table = torch.tensor([[draw.choice([-2.0, 0.0, 1.0, 3.0, 4.0])] for _ in range(n)], dtype=F64)
    table[1] = table[0] + 2
    key = resize(table, length)[:, 0].tolist()
    tiled = [float(table[min(i * n // length, n - 1), 0]) for i in range(length)]
    return Question(
        f"A table with one lane has the rows {vector(table[:, 0].tolist())}. Stretch it to {length} rows by linear interpolation that keeps the first and the last row. What does a model that knows rows {n - 1} apart by one step have to relearn?",
        f"{vector(key)}",
        (
            (1, f"steps of ({n} − 1)/({length} − 1) = {number((n - 1) / (length - 1))}"),
            (1, f"{vector(key)}"),
            (
                1,
                f"neighbors now differ by {number((n - 1) / (length - 1))} of an old step: every distance has another look",
            ),
        ),
        {vector(tiled): "the nearest row was copied: nothing lies between"},
        {"table": table[:, 0].tolist(), "length": length},
        tuple(key),
        1,
        6,
    )


def concatenated(draw):
    generator = torch.Generator().manual_seed(draw.randint(0, 9))
    p, W = (
        torch.randint(-3, 4, (2, 2), generator=generator).double(),
        torch.randint(-2, 3, (4, 3), generator=generator).double(),
    )
    p[0, 0] = p[0, 0] or 1.0
    p[0, 0], W[2:] = abs(p[0, 0]) + 1, W[2:] + torch.tensor([[3.0, 0, 0], [0, 3.0, 0]])
    key = fold(p, W)[1].tolist()
    return Question(
        f"Someone concatenates a position vector of 2 lanes to a word vector of 2 lanes before a matrix W [4, 3]: (x, p) W. The rows of W are {', '.join(vector(r.tolist()) for r in W)}; position 1 has p = {vector(p[1].tolist())}. Which vector must one *add* to x W₁ to get the same? Prove that concatenating is a special case of adding.",
        f"p W₂ = {vector(key)}, with W₂ the last two rows",
        (
            (1, "(x, p) W = x W₁ + p W₂"),
            (1, f"{vector(key)}"),
            (
                1,
                "so it is a table added after the matrix, of rank at most 2; adding before the matrix is (x + p) W, which shares W",
            ),
        ),
        {vector((p @ W[:2])[1].tolist()): "the rows that meet the content were taken"},
        {"p": p[1].tolist(), "W": W.tolist()},
        tuple(key),
        2,
        6,
    )


def shifted_text(draw):
    shift, dim = draw.choice([1, 5, 50]), 16
    torch.manual_seed(shift)
    table = learned(128, dim, std=0.5)
    generator = torch.Generator().manual_seed(1)
    x, W = torch.randn(6, dim, generator=generator), torch.randn(dim, dim, generator=generator) / dim
    with torch.no_grad():
        score = lambda by: (h := table.embed(x[None], torch.arange(6) + by)[0]) @ W @ h.T  # noqa: E731
        move = float((score(shift) - score(0)).abs().max())
    return Question(
        f"The same sentence stands at the start of a text, and again {shift} tokens later. With a learned table at the input, are the scores between its words the same? Give the two terms that change, and say what data the model needs to learn that they should not.",
        f"no: with random rows a score moves by up to {number(move)}",
        (
            (1, "q·k has x W p, p W x and p W p: rows m + s are others than rows m"),
            (1, "nothing ties row m + 1 to row m"),
            (1, "the same content at all offsets: shifts in training, packed texts, random starts"),
        ),
        {"yes, since the difference of rows is what counts": "rows are free numbers: no such rule was built in"},
        {"shift": shift},
        (move > 1e-3,),
        2,
        6,
    )


def often_seen(draw):
    texts, length = draw.choice([(1000, 512), (2000, 1024)])
    mean = draw.choice([100, 200])
    row = draw.choice([50, 300, 400])
    key = texts * torch.exp(torch.tensor(-row / mean, dtype=F64)).item()
    ratio = texts / key
    return Question(
        f"Texts have exponentially distributed lengths with mean {mean} tokens, cut at {length}. Of {texts:,} texts, how many train row {row}, how many row 0, and what follows for the noise of that row? What does packing texts to full windows change?",
        f"about {number(key)} against {texts}: {number(ratio)} times fewer",
        (
            (1, f"P(length > {row}) = e^(−{row}/{mean}), so {number(key)} texts"),
            (1, f"{number(ratio)} times fewer updates: late rows are learned last and worst"),
            (1, "packing fills all rows equally, if positions are not restarted at each text"),
        ),
        {number(texts): "every row was taken to be trained by every text"},
        {"texts": texts, "mean": mean, "row": row},
        (key,),
        2,
        5,
    )


def grid(draw):
    old, new = draw.choice([(2, 3), (2, 4), (3, 5)])
    a, b, c, d = (draw.choice([0.0, 2.0, 4.0, 8.0]) for _ in range(4))
    corners = [a, b + 1, c + 3, d + (a + d == b + c + 4)]  # the two diagonals have other means
    table = torch.zeros(old * old, 1, dtype=F64)
    for place, value in zip((0, old - 1, old * (old - 1), old * old - 1), corners):
        table[place] = value
    two = torch.tensor([[corners[0], corners[1]], [corners[2], corners[3]]], dtype=F64)
    rows = resize(two, 3)  # corners kept
    key = float(resize(rows.T.contiguous(), 3)[1, 1])
    return Question(
        f"A vision model has a learned vector for each patch of a grid; in one lane its four corners are {vector(corners)} (upper left, upper right, lower left, lower right) of a 2 × 2 grid. Pictures get larger: stretch to 3 × 3, corners kept. Give the middle. Why must a class token's row be set aside, and what goes wrong if the {4} rows are stretched as one list?",
        f"{number(key)}, the mean of the four",
        (
            (1, f"interpolate along rows, then columns: {number(key)}"),
            (1, "the class token has no place between patches: cut it off, stretch, put it back"),
            (
                1,
                "as one list, the end of a row is mixed with the start of the next: neighbors in the list, not in the picture",
            ),
        ),
        {number((corners[1] + corners[2]) / 2): "the list was stretched: the middle of four rows in a line"},
        {"corners": corners},
        (key,),
        2,
        6,
    )


def beyond_the_table(draw):
    n = draw.choice([128, 512])
    listing, letter = options(
        draw,
        "`if p.max() >= len(table): raise ValueError(...)`",
        [
            "`table[p.clamp(max=len(table) - 1)]`",
            "`table[p % len(table)]`",
            "`torch.cat((table, torch.zeros(len(p), C)))[p]`",
        ],
    )
    refused = 0
    try:
        learned(n, 8).embed(torch.zeros(1, 1, 8), torch.tensor([n]))
    except (ValueError, IndexError):
        refused = 1
    return Question(
        f"A table has {n} rows; a text asks for position {n}. Which line would you ship, and what does each other one make of a text of {n + 20} tokens? Which of them would a test on short texts find?\n\n{listing}",
        f"({letter}); posenc {'refuses' if refused else 'accepts'} position {n}",
        (
            (1, f"({letter}): the failure is named where it happens"),
            (1, "clamp: 20 tokens share a place; modulo: they look like the first ones; zeros: they have no place"),
            (1, "none: all four agree up to the table's end, so test one position beyond"),
        ),
        {"modulo, since it never fails": "it fails silently: the worst kind"},
        {"n": n},
        (refused,),
        1,
        4,
    )


def cosine_of_rows(draw):
    dim = draw.choice([64, 256])
    shared = draw.choice([0.5, 1.0, 2.0])
    generator = torch.Generator().manual_seed(dim)
    rows = torch.randn(2000, dim, generator=generator, dtype=F64) + shared * torch.ones(dim, dtype=F64)
    measured = float((nn.functional.cosine_similarity(rows[:-1], rows[1:])).mean())
    key = shared**2 / (1 + shared**2)
    return Question(
        f"Rows of a table are independent noise of deviation 1 in each of {dim} lanes, plus one vector that all share, {shared} in every lane. Which cosine similarity do two rows have, about? Someone sees high similarities between neighbors and says 'the table learned that neighbors are alike'. What must be looked at first?",
        f"about {number(key)} (2,000 rows drawn: {number(measured)})",
        (
            (1, f"s²C/((1 + s²)C) = {number(key)}"),
            (1, "subtract the mean row first"),
            (1, "compare neighbors with far rows: only a difference between them is structure"),
        ),
        {"0": "the shared vector was left out: independent noise alone gives about 0"},
        {"shared": shared},
        (key, measured),
        3,
        6,
    )


# Aloud


def say_longer(draw):
    n = draw.choice([512, 1024])
    table = torch.arange(n, dtype=F64)[:, None]
    step = float(resize(table, 2 * n).diff(dim=0)[0, 0])
    return Question(
        f"A good model has a learned table of {n} rows. Your texts have {2 * n} tokens and you can afford a short training. What are your three options, and which do you take?",
        f"new random rows; interpolated rows (a step is then {number(step)} of an old one); another encoding. Short fine-tuning after interpolation",
        (
            (1, "append rows: the new half starts as noise"),
            (1, f"interpolate: all rows seen, distances shrink to {number(step)}"),
            (2, "why the second needs the least training, and how to test it: loss by position, before and after"),
        ),
        {"repeat the table": "two tokens share a place; only a relative bias could tell them apart"},
        {"n": n},
        (step,),
        2,
        4,
    )


def say_against_sinusoid(draw):
    n, dim = 512, draw.choice([512, 768])
    return Question(
        f"Learned rows or sinusoids, for a model that will never see more than {n} tokens (C = {dim})? Say what decides, and what you would need to see to change your mind.",
        f"{sum(p.numel() for p in learned(n, dim).parameters()):,} more parameters; decide by what the checkpoint has, and by a fair measurement",
        (
            (1, "parameters are no argument at this size"),
            (1, "no extrapolation asked for: the sinusoid's advantage falls away"),
            (2, "several seeds, tuned volume for both, same targets"),
        ),
        {"learned is always better, it has more freedom": "freedom costs data: late rows are rarely trained"},
        {"dim": dim},
        (n * dim,),
        2,
        3,
    )


def say_left_padding(draw):
    pad = draw.choice([3, 8])
    table = learned(32, 4, std=1.0)
    with torch.no_grad():
        x = torch.zeros(1, 1, 4)
        gap = float((table.embed(x, torch.tensor([0])) - table.embed(x, torch.tensor([pad]))).abs().max())
    return Question(
        f"A batch is padded on the left by {pad} tokens and positions are `arange(T)`. What does the first real word get? Why did the same code work with a relative method?",
        f"row {pad} in place of row 0; they differ (here by up to {gap:.2g})",
        (
            (1, f"row {pad}"),
            (1, "a relative method has the same distances whatever the start"),
            (2, "positions from the mask: cumsum(mask) − 1; test: a padded batch equals its rows alone"),
        ),
        {"the mask takes care of it": "the mask hides keys; it does not number tokens"},
        {"pad": pad},
        (gap > 0,),
        2,
        3,
    )


def say_structure(draw):
    k = draw.choice([2, 4])
    return Question(
        f"You are given the trained table of a BERT. Which {k + 1} pictures do you draw before you say anything about what it learned?",
        "similarity of all pairs with the mean row removed, norms by row, frequencies of each lane, the same for an untrained table",
        (
            (1, "similarities, mean removed"),
            (1, "norms: rarely trained rows stay small or noisy"),
            (2, "a control: random rows, and rows beyond the lengths of training"),
        ),
        {"a t-SNE": "it makes structure; look at numbers with a control first"},
        {"k": k},
        (k,),
        3,
        4,
    )


def say_leak(draw):
    n = draw.choice([5, 9])
    rows = next(learned(n, 2).parameters()).shape[0]
    return Question(
        f"Why does nothing about a learned table know that {n - 1} comes after {n - 2}? How would you put that in, as a loss or as a start?",
        f"{rows} free rows: permute them, and the model class is the same",
        (
            (1, "permuting rows permutes a model's parameters only"),
            (1, "order comes from data"),
            (2, "start from sinusoids; penalize differences of neighbors; or use a function of m"),
        ),
        {"because it is trained in order": "batches hold all positions at once"},
        {"n": n},
        (rows,),
        2,
        3,
    )


PAPER = (
    parameters,
    rows_that_never_train,
    stretched,
    concatenated,
    shifted_text,
    often_seen,
    grid,
    beyond_the_table,
    cosine_of_rows,
)
ORAL = (say_longer, say_against_sinusoid, say_left_padding, say_structure, say_leak)
