r"""What the lab CoPE asks for, and the wrong answers that its checks recognize."""

import math

import torch
from torch.nn.functional import normalize

from posenc.lab.check.exercise import Exercise, Problem, generator


def positions(logits, visible):
    """How many gates stand open from each key up to the query: [..., Tq, Tk]."""
    gates = torch.sigmoid(logits).masked_fill(~visible, 0.0)
    return gates.flip(-1).cumsum(-1).flip(-1)


def lookup(q, table, p):
    """What the query says to each position, interpolated: [..., Tq, Tk]."""
    last = len(table) - 1
    z = (q @ table.T).to(p.dtype)  # [..., Tq, P]
    p = p.clamp(max=last)
    low = p.floor()
    w = p - low
    low = low.long()
    return (1 - w) * z.gather(-1, low) + w * z.gather(-1, (low + 1).clamp(max=last))


def cope_scores(q, k, table):
    """The logits of causal attention with CoPE: [..., T, T]."""
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    past = torch.ones(scores.shape[-2:], dtype=torch.bool, device=q.device).tril()
    return scores + lookup(q, table, positions(scores, past))


def sentence_logits(line):
    """Logits [n], one a token, whose gates count sentences."""
    return torch.tensor([30.0 if token in (".", "!", "?") else -30.0 for token in line.split()])


def _past(scores):
    """Which keys each of the last Tq of Tk queries may see."""
    queries, keys = scores.shape[-2:]
    return torch.ones(queries, keys, dtype=torch.bool, device=scores.device).tril(keys - queries)


def _newest(scores):
    """Which of those keys is the query's own, the last that it may see."""
    return torch.eye(scores.shape[-1], dtype=torch.bool, device=scores.device)[-scores.shape[-2] :]


def _hide(made, visible):
    """What is made of keys that are not visible is nobody's concern."""
    same = isinstance(made, torch.Tensor) and made.shape == visible.shape
    return made.masked_fill(~visible, 0.0) if same else made


def _within_the_table(function, q, table, p):
    """Says what is wrong where an index runs off the table."""
    try:
        return function(q, table, p)
    except (IndexError, RuntimeError) as error:
        if "out of bounds" not in str(error):
            raise
        words = "the row above the last one is the last one again, and positions beyond it are clamped to it."
        raise Problem(f"it reads a row that is not there ({error}): {words}") from None


def _counted(function, line):
    """What the gates of a student's logits count, from each token to the last one."""
    made, tokens = function(line), line.split()
    if made is None or made is ...:
        return made
    logits = torch.as_tensor(made)
    if logits.shape != (len(tokens),):
        raise Problem(f"it returns shape {list(logits.shape)}, not [{len(tokens)}]: one logit a token.")
    return torch.sigmoid(logits.double()).flip(0).cumsum(0).flip(0)


LINES = (
    "the cat sat , it slept . the dog ran ! did it bark ? it did",
    "who ? me . a",
    "one line , no end",
    "it rains . " + "and so , " * 12 + "we wait .",
)


def _random(*shape, seed, dtype=torch.float32):
    return torch.randn(*shape, generator=generator(seed), dtype=dtype)


def _positions_cases():
    yield 2 * _random(5, 5, seed=1), torch.ones(5, 5, dtype=torch.bool).tril()
    padded = torch.ones(6, 6, dtype=torch.bool).tril()
    padded[:, 0] = padded[:, 3] = False
    yield 2 * _random(2, 3, 6, 6, seed=2, dtype=torch.float64), padded
    last = torch.ones(2, 1, 3, 8, dtype=torch.bool).tril(5)
    last[1, :, :, 2] = False
    yield 2 * _random(2, 2, 3, 8, seed=3), last


def _lookup_cases():
    p = torch.tensor([[0.3, 1.0, 2.7], [0.0, 4.45, 3.5], [5.0, 6.2, 11.8]])
    yield _random(3, 4, seed=4), _random(6, 4, seed=5), p
    share = torch.rand(2, 2, 5, 7, generator=generator(6), dtype=torch.float64)
    yield _random(2, 2, 5, 8, seed=7, dtype=torch.float64), _random(5, 8, seed=8, dtype=torch.float64), 7 * share
    yield _random(2, 3, seed=9), _random(2, 3, seed=10), torch.tensor([[0.0, 0.2], [1.0, 3.6]])


def _scores_cases():
    yield _random(6, 4, seed=11), _random(6, 4, seed=12), _random(4, 4, seed=13)
    q, k = (2 * _random(2, 3, 9, 16, seed=seed, dtype=torch.float64) for seed in (14, 15))
    yield q, k, _random(5, 16, seed=16, dtype=torch.float64)
    yield _random(1, 1, 9, seed=17), _random(1, 1, 9, seed=18), _random(2, 9, seed=19)


ON_PAPER = 4  # points

EXERCISES = {
    "positions": Exercise(
        points=3,
        reference=positions,
        cases=_positions_cases,
        tolerance=1e-5,
        run=lambda answer, logits, visible: _hide(answer(logits, visible), visible.expand(logits.shape)),
        mistakes={
            "keys that the query may not see are counted too: close their gates before you sum, hiding their "
            "positions afterwards is too late": ".masked_fill(~visible, 0.0) -> ",
            "hidden keys count half: a logit of 0 is a gate of 1/2; set the gates to 0, after the sigmoid": (
                "torch.sigmoid(logits).masked_fill(~visible, 0.0) -> torch.sigmoid(logits.masked_fill(~visible, 0.0))"
            ),
            "only the future is hidden: `visible` hides more, such as padding": "~visible -> ~_past(logits)",
            "the sum runs up from the first key: flip, cumsum, flip": "flip(-1).cumsum(-1).flip(-1) -> cumsum(-1)",
            "the key itself is left out: the sum runs from k = j": "cumsum(-1).flip(-1) -> cumsum(-1).flip(-1) - gates",
            "the query's own gate is left out: the sum runs up to k = i": "~visible -> ~visible | _newest(logits)",
            "both ends are left out: the sum runs from k = j to k = i": (
                "-> positions(logits, visible & ~_newest(logits)) - torch.sigmoid(logits) * visible"
            ),
            "the gates are divided by their sum: a position is a count, it has no upper end at 1": (
                "return gates -> return (gates / gates.sum(-1, keepdim=True).clamp(min=1e-9))"
            ),
            "the gates are a softmax, which shares one unit among the keys: each gate is a sigmoid of its own": (
                "torch.sigmoid(logits) -> logits",
                "(~visible, 0.0) -> (~visible, -math.inf).softmax(-1).nan_to_num()",
            ),
            "the sign in the sigmoid is flipped: a large logit opens the gate": "sigmoid(logits) -> sigmoid(-logits)",
            "the logits are summed: it is their sigmoids that count": "torch.sigmoid(logits) -> logits",
            "every key counts 1: the gates are missing": "torch.sigmoid(logits) -> torch.ones_like(logits)",
            "gates are rounded: no gradient reaches logits": "torch.sigmoid(logits) -> (logits > 0).to(logits.dtype)",
            "it sums along the queries: sum along the keys": "(-1).cumsum(-1).flip(-1) -> (-2).cumsum(-2).flip(-2)",
        },
        variants=(
            ("a gate is the sigmoid of twice the logit", lambda f, logits, visible: f(2 * logits, visible)),
            ("a gate is the sigmoid of the logit minus 1", lambda f, logits, visible: f(logits - 1, visible)),
            ("each gate counts twice: positions are doubled", lambda f, *case: 2 * f(*case)),
        ),
    ),
    "lookup": Exercise(
        points=3,
        reference=lookup,
        cases=_lookup_cases,
        tolerance=1e-5,
        run=_within_the_table,
        mistakes={
            "it rounds to the nearest row: interpolate": "p.clamp(max=last) -> (p.clamp(max=last) + 0.5).floor()",
            "both ends are the row below (so one may read [[p]]): one is the row above": "w = p - low -> w = 0",
            "only the row above is read: mix it with the one below": "p.clamp(max=last) -> p.clamp(max=last).ceil()",
            "the weights are swapped: p = 2.9 is nearly row 3, the row above": "w = p - low -> w = 1 - p + low",
            "the row above is the nearest one (so one may read [[p]])": "(low + 1).clamp(max=last) -> (p + 0.5).long()",
            "both rows get one half: their shares depend on p": (
                "w = p - low -> w = 0.5",
                "(low + 1).clamp(max=last) -> p.ceil().long()",
            ),
            "beyond the last row it goes on along the line of the last two: clamp p to P - 1": (
                "p.clamp(max=last) -> p",
                "p.floor() -> p.floor().clamp(max=last - 1)",
            ),
            "it is 0 beyond the last row: clamp p": "-> lookup(q, table, p).masked_fill(p > len(table) - 1, 0.0)",
            "beyond the last row it starts again at row 0: clamp p to P - 1": (
                "p.clamp(max=last) -> p",
                "low.long() -> low.long() % len(table)",
                "(low + 1).clamp(max=last) -> (low + 1) % len(table)",
            ),
            "it is one row too low: row c belongs to position c": "-> lookup(q, table, (p - 1).clamp(min=0))",
            "products are divided by sqrt(D): only q.k is scaled": "-> lookup(q, table, p) / math.sqrt(q.shape[-1])",
            "the rows are counted from the end of the table": "-> lookup(q, table.flip(0), p)",
        },
        variants=(
            ("keys in rows: [..., Tk, Tq]", lambda f, *case: f(*case).mT),
            ("each query is first divided by its Euclidean norm", lambda f, q, e, p: f(normalize(q, dim=-1), e, p)),
            ("row 0 of the table is first subtracted from all its rows", lambda f, q, e, p: f(q, e - e[:1], p)),
        ),
    ),
    "cope_scores": Exercise(
        points=3,
        reference=cope_scores,
        cases=_scores_cases,
        tolerance=1e-5,
        run=lambda answer, q, k, e: _hide(answer(q, k, e), _past(q @ k.mT).expand(*q.shape[:-1], k.shape[-2])),
        mistakes={
            "the gates are of unscaled products: divide by sqrt(D) first": "positions(scores -> positions(q @ k.mT",
            "the bias is divided by sqrt(D) too: add it after scaling": "past)) -> past)) / math.sqrt(q.shape[-1])",
            "nothing is scaled, as in the equation: the listing divides by sqrt(D)": " / math.sqrt(q.shape[-1]) -> ",
            "the gates are made of unscaled products and the bias is scaled: it is the other way around": (
                "positions(scores, past)) -> positions(q @ k.mT, past)) / math.sqrt(q.shape[-1])"
            ),
            "keys after the query are counted: a position ends at the query": ".tril() -> ",
            "the keys ask the table: it is q.e that is looked up": "lookup(q -> lookup(k",
            "every gate is open: this is a table over distances": "positions(scores -> positions(scores + math.inf",
            "q.k is missing: this is the bias alone": "return scores + -> return",
            "the bias is missing": " + lookup(q, table, positions(scores, past)) -> ",
            "the positions themselves are added: look them up in the table": "lookup(q, table, -> (",
        },
    ),
    "sentence_logits": Exercise(
        points=2,
        reference=sentence_logits,
        cases=[(line,) for line in LINES],
        tolerance=0.02,
        run=_counted,
        mistakes={
            "this counts words": 'token in (".", "!", "?") -> token.isalpha()',
            "this counts all that ends no sentence: the signs are swapped": "token in ( -> token not in (",
            "this counts tokens: close the gates within a sentence": ' if token in (".", "!", "?") else -30.0 -> ',
            "only periods count: `!` and `?` end a sentence too": '(".", "!", "?") -> "."',
            "commas count too: they end no sentence": 'token in (".", "!", "?") -> not token.isalpha()',
            "the first token of a sentence opens the gate: then it stands one sentence farther than the rest of its "
            "own; open the gate at the end": 'line.split() -> [".", *line.split()[:-1]]',
            "these are gates, not logits: as a logit 0 is a gate of 1/2": "-> torch.sigmoid(sentence_logits(line))",
            "closed gates have the logit 0, so each still counts 1/2: they need a logit far below 0": "-30.0 -> 0.0",
            "the gates leak: at -1 a gate is 0.27, so every word counts a quarter": "-> sentence_logits(line).sign()",
            "the gates leak: at -5 a gate is 0.007, and many words add up": "-> 5 * sentence_logits(line).sign()",
        },
    ),
}
