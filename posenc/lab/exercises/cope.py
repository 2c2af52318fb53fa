r"""What the lab CoPE asks for, and the wrong answers that its checks recognize."""

import math

import torch

from posenc import cope
from posenc.lab.exercises.exercise import Exercise, Problem, generator

ENDS = (".", "!", "?")  # the tokens that end a sentence

# What the exercises ask for


def positions(logits, visible):
    return cope.positions(logits, visible)


def lookup(q, table, p):
    return cope.lookup(q, table, p)


def cope_scores(q, k, table):
    r"""CoPE's logits of one causal sequence: scale q.k + z[p], p counted by the gates sigmoid(scale q.k).

    Arguments: q, k: [..., T, D]; table: [P, D], shared by all that stands before T. Returns: [..., T, T]; those of keys
    after the query mean nothing. Convention: the listing of arXiv 2405.18719, scale = 1/sqrt(D), which q.e does not
    get. Chapter: CoPE: counting what matters.
    """
    scores = _products(q, k)
    return scores + lookup(q, table, positions(scores, _past(scores)))


def sentence_logits(line):
    r"""Logits [n], one a token of the line, whose gates count sentence ends and nothing else.

    line: tokens with spaces between them. Chapter: CoPE: counting what matters.
    """
    return torch.tensor([30.0 if token in ENDS else -30.0 for token in line.split()])


def _past(scores):
    """Which keys each of the last Tq of Tk queries may see."""
    queries, keys = scores.shape[-2:]
    return torch.ones(queries, keys, dtype=torch.bool, device=scores.device).tril(keys - queries)


def _products(q, k):
    return q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])


# How an answer is compared


def _of_visible_keys(function, logits, visible):
    """The positions of keys that are not visible are nobody's concern."""
    return _hide(function(logits, visible), visible.expand(logits.shape))


def _of_past_keys(function, q, k, table):
    return _hide(function(q, k, table), _past(_products(q, k)).expand(*q.shape[:-1], k.shape[-2]))


def _hide(made, visible):
    same = isinstance(made, torch.Tensor) and made.shape == visible.shape
    return made.masked_fill(~visible, 0.0) if same else made


def _within_the_table(function, q, table, p):
    """Says what is wrong where an index runs off the table."""
    try:
        return function(q, table, p)
    except (IndexError, RuntimeError) as error:
        if "out of bounds" not in str(error):
            raise
        raise Problem(
            f"it reads a row that is not there ({error}): the row above the last one is the last one again, and "
            f"positions beyond it are clamped to it."
        ) from None


def _counted(function, line):
    """What the gates of a student's logits count, from each token to the last one."""
    made, tokens = function(line), line.split()
    if made is None or made is ...:
        return made
    logits = torch.as_tensor(made)
    if logits.shape != (len(tokens),):
        raise Problem(f"it returns shape {list(logits.shape)}, not [{len(tokens)}]: one logit a token.")
    return torch.sigmoid(logits.double()).flip(0).cumsum(0).flip(0)


# How they go wrong: positions


def _gates(logits, visible, gate=torch.sigmoid):
    return gate(logits).masked_fill(~visible.expand(logits.shape), 0.0)


def _back(gates):
    """The sum of the gates from each key to the end of the row."""
    return gates.flip(-1).cumsum(-1).flip(-1)


def _hidden_count(logits, visible):
    return _back(torch.sigmoid(logits))


def _hidden_count_half(logits, visible):
    return _back(torch.sigmoid(logits.masked_fill(~visible.expand(logits.shape), 0.0)))


def _only_future_hidden(logits, visible):
    return positions(logits, _past(logits))


def _from_first(logits, visible):
    return _gates(logits, visible).cumsum(-1)


def _without_key(logits, visible):
    gates = _gates(logits, visible)
    return _back(gates) - gates


def _without_query(logits, visible):
    own = _past(logits) & ~_past(logits).roll(-1, -1)  # the last key that each query may see
    own[..., -1, -1] = True
    return _back(_gates(logits, visible).masked_fill(own, 0.0))


def _without_both(logits, visible):
    gates = _gates(logits, visible)
    return _without_query(logits, visible) - gates


def _normalized(logits, visible):
    gates = _gates(logits, visible)
    return _back(gates / gates.sum(-1, keepdim=True).clamp(min=1e-9))


def _softmax_gates(logits, visible):
    weights = torch.softmax(logits.masked_fill(~visible.expand(logits.shape), -math.inf), -1)
    return _back(weights.nan_to_num())


def _sign(logits, visible):
    return _back(_gates(-logits, visible))


def _logits_summed(logits, visible):
    return _back(_gates(logits, visible, gate=lambda x: x))


def _all_counted(logits, visible):
    return _back(_gates(logits, visible, gate=torch.ones_like))


def _hard(logits, visible):
    return _back(_gates(logits, visible, gate=lambda x: (x > 0).to(x.dtype)))


def _along_queries(logits, visible):
    return _gates(logits, visible).flip(-2).cumsum(-2).flip(-2)


# How they go wrong: lookup


def _read(q, table, p, rule, clamp=True):
    """Answers that differ in which rows they mix: rule(p) -> ((row, share), ...)."""
    last = len(table) - 1
    z = (q @ table.T).to(p.dtype)
    p = p.clamp(max=last) if clamp else p
    return sum(share * z.gather(-1, row.long().clamp(0, last)) for row, share in rule(p))


def _rounds(q, table, p):
    return _read(q, table, p, lambda p: ((torch.floor(p + 0.5), 1.0),))


def _lower_only(q, table, p):
    return _read(q, table, p, lambda p: ((p.floor(), 1.0),))


def _upper_only(q, table, p):
    return _read(q, table, p, lambda p: ((p.ceil(), 1.0),))


def _swapped(q, table, p):
    return _read(q, table, p, lambda p: ((p.floor(), p - p.floor()), (p.floor() + 1, 1 - p + p.floor())))


def _nearest_for_ceiling(q, table, p):
    """[[p]] as the whole number nearest to p."""
    return _read(q, table, p, lambda p: ((p.floor(), 1 - p + p.floor()), (torch.floor(p + 0.5), p - p.floor())))


def _mean_of_both(q, table, p):
    return _read(q, table, p, lambda p: ((p.floor(), 0.5), (p.ceil(), 0.5)))


def _extrapolates(q, table, p):
    low = p.floor().clamp(max=len(table) - 2)
    return _read(q, table, p, lambda p: ((low, 1 - p + low), (low + 1, p - low)), clamp=False)


def _nothing_beyond(q, table, p):
    return lookup(q, table, p).masked_fill(p > len(table) - 1, 0.0)


def _around(q, table, p):
    z, size = (q @ table.T).to(p.dtype), len(table)
    low, share = p.floor(), p - p.floor()
    return (1 - share) * z.gather(-1, low.long() % size) + share * z.gather(-1, (low.long() + 1) % size)


def _one_lower(q, table, p):
    return lookup(q, table, (p - 1).clamp(min=0))


def _scaled(q, table, p):
    return lookup(q, table, p) / math.sqrt(q.shape[-1])


def _rows_backwards(q, table, p):
    return lookup(q, table.flip(0), p)


# How they go wrong: cope_scores


def _with(q, k, table, gates=None, visible=None, asks=None, scale=1.0):
    scores = _products(q, k)
    p = positions(scores if gates is None else gates, _past(scores) if visible is None else visible)
    return scores + scale * lookup(q if asks is None else asks, table, p)


def _gates_unscaled(q, k, table):
    return _with(q, k, table, gates=q @ k.transpose(-2, -1))


def _bias_scaled(q, k, table):
    return _with(q, k, table, scale=1 / math.sqrt(q.shape[-1]))


def _nothing_scaled(q, k, table):
    scores = q @ k.transpose(-2, -1)
    return scores + lookup(q, table, positions(scores, _past(scores)))


def _gates_unscaled_bias_scaled(q, k, table):
    return _with(q, k, table, gates=q @ k.transpose(-2, -1), scale=1 / math.sqrt(q.shape[-1]))


def _future_counts(q, k, table):
    scores = _products(q, k)
    return _with(q, k, table, visible=torch.ones_like(scores, dtype=torch.bool))


def _key_asks(q, k, table):
    return _with(q, k, table, asks=k)


def _counts_all(q, k, table):
    return _with(q, k, table, gates=torch.full_like(_products(q, k), math.inf))


def _bias_alone(q, k, table):
    return cope_scores(q, k, table) - _products(q, k)


def _scores_alone(q, k, table):
    return _products(q, k)


def _positions_added(q, k, table):
    scores = _products(q, k)
    return scores + positions(scores, _past(scores))


# How they go wrong: sentence_logits


def _open_at(chosen):
    """Logits that open the gates of some tokens: chosen(tokens) -> one truth value a token."""
    return lambda line: torch.tensor([30.0 if on else -30.0 for on in chosen(line.split())])


_ends = _open_at(lambda tokens: [token in ENDS for token in tokens])
_words = _open_at(lambda tokens: [token.isalpha() for token in tokens])
_not_ends = _open_at(lambda tokens: [token not in ENDS for token in tokens])
_everything = _open_at(lambda tokens: [True] * len(tokens))
_dots = _open_at(lambda tokens: [token == "." for token in tokens])
_commas_too = _open_at(lambda tokens: [not token.isalpha() for token in tokens])
_starts = _open_at(lambda tokens: [n == 0 or tokens[n - 1] in ENDS for n in range(len(tokens))])


def _gates_for_logits(line):
    return torch.sigmoid(_ends(line))


def _sharp_by(size):
    return lambda line: torch.sign(_ends(line)) * size


def _zero_for_closed(line):
    return _ends(line).clamp(min=0)


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
    double = torch.float64
    q, k = (2 * _random(2, 3, 9, 16, seed=seed, dtype=double) for seed in (14, 15))
    yield q, k, _random(5, 16, seed=16, dtype=double)
    yield _random(1, 1, 9, seed=17), _random(1, 1, 9, seed=18), _random(2, 9, seed=19)


ON_PAPER = 4  # points

EXERCISES = {
    "positions": Exercise(
        title="Exercise 1, positions",
        points=3,
        reference=positions,
        cases=lambda: list(_positions_cases()),
        tolerance=1e-5,
        run=_of_visible_keys,
        mistakes={
            "keys that the query may not see are counted too: close their gates before you sum, hiding their "
            "positions afterwards is too late": _hidden_count,
            "hidden keys count half: a logit of 0 is a gate of 1/2; set the gates to 0, after the sigmoid": (
                _hidden_count_half
            ),
            "only the future is hidden: `visible` hides more, such as padding": _only_future_hidden,
            "the sum runs from the first key on; it runs from key j up to the query: flip, cumsum, flip": _from_first,
            "the key itself is left out: the sum runs from k = j, both ends in": _without_key,
            "the query's own gate is left out: the sum runs up to k = i, both ends in": _without_query,
            "both ends are left out: the sum runs from k = j to k = i": _without_both,
            "the gates are divided by their sum: a position is a count, it has no upper end at 1": _normalized,
            "the gates are a softmax, which shares one unit among the keys: each gate is a sigmoid of its own": (
                _softmax_gates
            ),
            "the sign in the sigmoid is flipped: a large logit opens the gate": _sign,
            "the logits are summed: it is their sigmoids that count": _logits_summed,
            "every key counts 1: that is the distance, the gates are missing": _all_counted,
            "the gates are rounded to 0 or 1: no gradient would reach the logits": _hard,
            "the sum runs along the queries: sum along the last dimension, the keys": _along_queries,
        },
    ),
    "lookup": Exercise(
        title="Exercise 2, lookup",
        points=3,
        reference=lookup,
        cases=lambda: list(_lookup_cases()),
        tolerance=1e-5,
        run=_within_the_table,
        mistakes={
            "it rounds to the nearest row: interpolate, else no gradient reaches the gates": _rounds,
            "both ends are the row below (so one reads [[p]] as the whole part): the other end is the row above": (
                _lower_only
            ),
            "only the row above is read: mix it with the one below": _upper_only,
            "the weights are swapped: p = 2.9 is nearly row 3, so the row above gets p - floor(p)": _swapped,
            "for the row above stands the nearest one (so one may read [[p]]): it is the ceiling of p": (
                _nearest_for_ceiling
            ),
            "both rows get one half: their shares depend on p": _mean_of_both,
            "beyond the last row it goes on along the line of the last two: clamp p to P - 1": _extrapolates,
            "beyond the last row it gives 0: clamp p to P - 1, so that all that is far stands at the last row": (
                _nothing_beyond
            ),
            "beyond the last row it starts again at row 0: clamp p to P - 1": _around,
            "it is one row too low: row c belongs to position c, the first row to 0": _one_lower,
            "the products are divided by sqrt(D): the listing scales q.k alone": _scaled,
            "the rows are counted from the end of the table": _rows_backwards,
        },
    ),
    "cope_scores": Exercise(
        title="Exercise 3, cope_scores",
        points=3,
        reference=cope_scores,
        cases=lambda: list(_scores_cases()),
        tolerance=1e-5,
        run=_of_past_keys,
        mistakes={
            "the gates are made of unscaled products: divide by sqrt(D) first": _gates_unscaled,
            "the bias is divided by sqrt(D) too: add it after scaling": _bias_scaled,
            "nothing is scaled: this is the paper's equation, its listing divides q.k by sqrt(D)": _nothing_scaled,
            "the gates are made of unscaled products and the bias is scaled: it is the other way around": (
                _gates_unscaled_bias_scaled
            ),
            "keys after the query are counted: a position ends at the query": _future_counts,
            "the keys ask the table: it is q.e that is looked up": _key_asks,
            "every gate is open: this is a table over distances, the gates are missing": _counts_all,
            "q.k is missing: this is the bias alone": _bias_alone,
            "the bias is missing": _scores_alone,
            "the positions themselves are added: look them up in the table": _positions_added,
        },
    ),
    "sentence_logits": Exercise(
        title="Exercise 4, sentence_logits",
        points=2,
        reference=sentence_logits,
        cases=[(line,) for line in LINES],
        tolerance=0.02,
        run=_counted,
        mistakes={
            "this counts words": _words,
            "this counts all that ends no sentence: the signs are swapped": _not_ends,
            "this counts tokens: close the gates within a sentence": _everything,
            "only periods count: `!` and `?` end a sentence too": _dots,
            "commas count too: they end no sentence": _commas_too,
            "the first token of a sentence opens the gate: then it stands one sentence farther than the rest of its "
            "own; open the gate at the end": _starts,
            "these are gates, not logits: a closed gate of 0 as a logit is a gate of 1/2": _gates_for_logits,
            "closed gates have the logit 0, so each still counts 1/2: they need a logit far below 0": _zero_for_closed,
            "the gates leak: at +1 and -1 they are 0.73 and 0.27, so every word counts a quarter": _sharp_by(1),
            "the gates leak: at +5 and -5 a closed gate is 0.007, and the words of a long sentence add up": _sharp_by(
                5
            ),
        },
    ),
}
