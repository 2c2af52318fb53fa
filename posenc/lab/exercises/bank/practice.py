r"""Questions on position ids and masks in practice: caches, padding, packed rows."""

import math

import torch

from posenc.attention import attention
from posenc.bias.alibi import alibi, bias
from posenc.encoding import Encoding
from posenc.lab.exercises.bank.question import Question, number, options, vector
from posenc.rotate.rope import rope, rotate

F64 = torch.float64


def _count(visible, causal=True, queries=None, keys=None):
    """How many pairs attention sees under a mask: those that get some weight."""
    keys = visible.shape[-1] if keys is None else keys
    queries = keys if queries is None else queries
    q, k = torch.zeros(1, 1, queries, 2, dtype=F64), torch.zeros(1, 1, keys, 2, dtype=F64)
    _, weights = attention(q, k, k, Encoding(), causal=causal, mask=visible, return_weights=True)
    return int((weights > 0).sum())


def _texts(lengths):
    """The number of its text for each token of a packed row."""
    return torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))


def _restarted(lengths):
    """Ids that begin anew in each text of a packed row."""
    return torch.cat([torch.arange(n) for n in lengths])


def _turned(q, k, m, n, w):
    """The score of one pair of lanes at these ids."""
    a, b = (
        rotate(torch.tensor([x], dtype=F64), torch.tensor([float(p)]), torch.tensor([w], dtype=F64))
        for x, p in ((q, m), (k, n))
    )
    return float((a * b).sum())


def after_a_cache(draw):
    written, calls = draw.randint(10, 60), [draw.randint(2, 4), 1]
    key = [*range(written, written + sum(calls))]
    heard = [
        float(b)
        for b in bias(torch.tensor([key[-1]]), torch.tensor([0, key[-2]]), torch.tensor([0.5], dtype=F64)).flatten()
    ]
    return Question(
        f"A prompt of {written} tokens is in the cache. {calls[0]} tokens come in one call, then one more. Which ids do the new tokens get? Which bias of ALiBi with slope 1/2 do the first token of the prompt and the nearest earlier token get from the last one?",
        f"{vector(key)}; {number(heard[0])} and {number(heard[1])}",
        (
            (1, f"an id counts the tokens before it in its text, however calls are cut: {vector(key)}"),
            (1, f"−1/2 times the distance: {number(heard[0])} and {number(heard[1])}"),
        ),
        {
            vector([*range(calls[0]), 0]): "counted from 0 in each call",
            vector([*range(sum(calls))]): "begun anew after the prompt",
            vector([n + 1 for n in key]): "off by one: the first new token has as many before it as are in the cache",
        },
        {"written": written, "calls": calls},
        (*key, *heard),
        1,
        4,
    )


def under_padding(draw):
    pads, real = draw.randint(2, 4), draw.randint(3, 5)
    valid = torch.tensor([0] * pads + [1] * real)
    key = (valid.cumsum(0) - 1).clamp(min=0).tolist()
    causal = _count(valid.bool()[None, :] & valid.bool()[:, None])
    return Question(
        f"A decoder's row has {pads} pads on the left, then {real} tokens. Give the ids of the whole row, made from the mask, with the pads' clamped at 0. How many pairs of a query and a key must the tokens see in all, under the causal mask? Which of two mistakes does RoPE forgive: ids counted by index, or pads that are seen?",
        f"{vector(key)}; {causal} pairs; it forgives the ids",
        (
            (1, f"the running sum of the mask less one: {vector(key)}"),
            (1, f"{real}({real} + 1)/2 = {causal} pairs"),
            (1, "by index every id is off by one number, and differences stay; a pad that is seen is a word"),
        ),
        {
            vector(list(range(pads + real))): "counted by index: every token is off by the number of pads",
            vector([0] * pads + list(range(1, real + 1))): "one is not taken off: the first token has id 0",
        },
        {"pads": pads, "real": real},
        (*key, causal),
        1,
        5,
    )


def a_packed_row(draw):
    lengths = draw.sample([3, 4, 5, 6, 7], 3)
    texts, ids = _texts(lengths), _restarted(lengths)
    together, apart = _count(torch.ones(len(ids), len(ids), dtype=torch.bool)), _count(texts[:, None] == texts[None, :])
    at = lengths[0] + lengths[1] + 1
    return Question(
        f"Three texts of {lengths[0]}, {lengths[1]} and {lengths[2]} tokens share one row. Which id has the token with index {at}? How many pairs does a causal mask alone let through, and how many are left when texts are kept apart? How many targets must be left out of the loss?",
        f"id {int(ids[at])}; {together} and {apart} pairs; {len(lengths)} targets",
        (
            (1, f"ids begin anew in each text: {int(ids[at])}"),
            (1, f"{together} pairs of the whole row, {apart} inside the texts"),
            (1, f"the last token of each text has no next one: {len(lengths)}"),
        ),
        {f"id {at}": "counted on through the row", f"{together - apart} pairs": "these are the leaks between texts"},
        {"lengths": lengths, "at": at},
        (int(ids[at]), together, apart, len(lengths)),
        1,
        6,
    )


def begun_anew(draw):
    slope, prefix, j = draw.choice([0.5, 0.25]), draw.randint(6, 20), draw.randint(1, 5)
    one = lambda at: float(bias(torch.tensor([at]), torch.tensor([j]), torch.tensor([slope], dtype=F64)))  # noqa: E731
    right, wrong = one(prefix), one(0)
    return Question(
        f"ALiBi with slope {slope:g}. {prefix} tokens are in the cache, and the next one gets id 0. Which bias has key {j} with the right id, and which by the formula −slope · (i − j) with the wrong one? How many keys of the cache seem to lie ahead of the query? Which one does it hear best?",
        f"{number(right)}, and {number(wrong)}; {prefix - 1}; key {prefix - 1} in both cases, but now louder than the query's own",
        (
            (1, f"right: −{slope:g} · {prefix - j} = {number(right)}"),
            (1, f"wrong: {number(wrong)}, a bonus for distance"),
            (1, f"all but key 0, {prefix - 1} of them: what was a penalty drowns the newest tokens"),
        ),
        {
            number(-right): "the sign of the right bias: it is a penalty",
            number(one(prefix - 1)): f"off by one: the next token stands at {prefix}",
        },
        {"slope": slope, "prefix": prefix, "j": j},
        (right, wrong, prefix - 1),
        2,
        6,
    )


def off_by_one(draw):
    w, c, d = draw.choice([0.25, 0.5, 1.0]), draw.choice([1, 2, 3]), draw.choice([1, 2, 4])
    right, wrong, all_off = (_turned([1, 0], [1, 0], 20 + m, 20 - d + n, w) for m, n in ((0, 0), (c, 0), (c, c)))
    return Question(
        f"One pair of RoPE with ω = {w:g}, q = k = (1, 0), distance {d}. The new tokens' ids are off by {c}, the cached ones' are right. Compute the score as it should be, as it is, and as it would be if all ids were off by {c}. Which condition on the errors c_i of ids does no harm?",
        f"{number(right)}, {number(wrong)}, {number(all_off)}; c_i = c_j for each pair that is seen",
        (
            (1, f"cos({w:g} · {d}) = {number(right)}"),
            (1, f"cos({w:g} · {d + c}) = {number(wrong)}; all off: {number(all_off)} again"),
            (1, "the difference is off by c_i − c_j: nothing where they are equal for visible pairs"),
        ),
        {
            f"{number(right)}, {number(math.cos(w * abs(d - c)))}": "the query has moved away from the key, not towards it",
            "ids must be right": "a common error is forgiven by methods that read differences",
        },
        {"w": w, "c": c, "d": d},
        (right, wrong, all_off),
        2,
        6,
    )


def _moves(encoding, situation):
    """How far the output of the tokens that count moves when ids or masks have this mistake."""
    q, k, v = torch.randn(3, 1, 2, 12, 8, generator=torch.Generator().manual_seed(5), dtype=F64)
    at, apart = torch.arange(12), _texts([5, 7])[:, None] == _texts([5, 7])[None, :]
    restarted = _restarted([5, 7])
    see = lambda ids, mask=None: attention(q, k, v, encoding, pos_q=ids, pos_k=ids, mask=mask)  # noqa: E731
    wanted, ways = {
        "left padding: ids by index, pads hidden": (see(at), lambda: see(at + 7)),
        "new tokens begun anew behind a cache": (see(at), lambda: see(torch.cat((at[:8], at[:4])))),
        "a packed row: ids counted on, texts kept apart": (see(restarted, apart), lambda: see(at, apart)),
        "a packed row: ids begun anew, no mask between texts": (see(restarted, apart), lambda: see(restarted)),
        "the first text's ids off by 10, the second's by 3, texts kept apart": (
            see(restarted, apart),
            lambda: see(restarted + 10 - 7 * _texts([5, 7]), apart),
        ),
        "a cache whose keys and new tokens are all off by 4": (see(at), lambda: see(at + 4)),
    }[situation]
    return float((ways() - wanted).abs().max())


_SITUATIONS = (
    "left padding: ids by index, pads hidden",
    "new tokens begun anew behind a cache",
    "a packed row: ids counted on, texts kept apart",
    "a packed row: ids begun anew, no mask between texts",
    "the first text's ids off by 10, the second's by 3, texts kept apart",
    "a cache whose keys and new tokens are all off by 4",
)


def what_is_forgiven(draw):
    names, method = draw.sample(_SITUATIONS, 4), draw.choice(["RoPE", "ALiBi"])
    encoding = rope(8) if method == "RoPE" else alibi(2)
    moves = [_moves(encoding, name) for name in names]
    kept = [letter for letter, move in zip("abcd", moves) if move < 1e-9]
    words = "\n".join(f"- ({letter}) {name}" for letter, name in zip("abcd", names))
    judged = ", ".join(f"({letter}) {move:.2g}" for letter, move in zip("abcd", moves))
    return Question(
        f"Four mistakes. Which does {method} forgive, so that the text's output is the right one? One reason each.\n\n{words}",
        f"forgiven: {', '.join(kept) or 'none'} (the output of random vectors moves by {judged})",
        tuple(
            (1, f"({letter}): {'forgiven' if move < 1e-9 else 'not forgiven'}, with the reason")
            for letter, move in zip("abcd", moves)
        ),
        {"wrong ids are wrong distances": "only where a visible pair is off by two different numbers"},
        {"names": names},
        tuple(float(move < 1e-9) for move in moves),
        3,
        8,
    )


def the_triangles_corner(draw):
    queries, keys = draw.choice([2, 3, 4]), draw.randint(6, 12)
    right = _count(None, queries=queries, keys=keys)
    top_left = torch.ones(queries, keys, dtype=torch.bool).tril()
    wrong = _count(top_left, causal=False, queries=queries, keys=keys)
    return Question(
        f"{queries} new queries meet {keys} keys, {keys - queries} of them cached. How many pairs must be seen, and how many are with a lower triangle aligned at the top left? Which keys does the first new query see then? Why does a test with one whole pass not find it?",
        f"{right} and {wrong}; key 0 alone; there queries and keys are equally many, and both corners are one",
        (
            (1, f"query r of the new ones sees {keys - queries} + r + 1 keys: {right}"),
            (1, f"top left: 1 + … + {queries} = {wrong}, the oldest keys"),
            (1, "with as many queries as keys the two triangles are the same"),
        ),
        {
            number(queries * keys): "the new tokens must not see each other's future",
            number(right - queries): "each query sees its own key as well",
        },
        {"queries": queries, "keys": keys},
        (right, wrong),
        2,
        5,
    )


def a_pad_is_a_word(draw):
    pads, logits = draw.choice([2, 4, 8]), draw.sample([0, 1, 2, 3], 2)
    z = torch.tensor([0.0] * pads + logits, dtype=F64)
    one, k = torch.ones(1, 1, 1, 1, dtype=F64), z[None, None, :, None]

    def share(mask):
        _, weights = attention(one, k, k, Encoding(), scale=1.0, mask=mask, return_weights=True)
        return weights.flatten()[pads:].tolist()

    right, seen = share((torch.arange(len(z)) >= pads)[None]), share(None)
    return Question(
        f"A query gives two tokens the logits {logits[0]} and {logits[1]}. {pads} pads before them have logit 0. Compute the two weights with the pads hidden, and with the pads seen. Is there a method of position that repairs this?",
        f"{vector(right)}; seen {vector(seen)}; none, for a pad that is seen is a word",
        (
            (1, f"hidden: {vector(right)}"),
            (1, f"seen: the sum has {pads} more terms of 1, {vector(seen)}"),
            (1, "none: ids say where a word stands, not that it isn't there"),
        ),
        {f"{vector(right)} both times": "a logit of 0 is not a weight of 0"},
        {"pads": pads, "logits": logits},
        (*right, *seen),
        1,
        5,
    )


def future_by_position(draw):
    a, b = draw.randint(3, 6), draw.randint(3, 6)
    ids = _restarted([a, b])
    rule = ids[:, None] >= ids[None, :]
    later = torch.ones(a + b, a + b, dtype=torch.bool).triu(1)
    seen, future = _count(rule, causal=False), _count(rule, causal=False) - _count(rule)
    assert future == int((rule & later).sum())
    return Question(
        f"Two texts of {a} and {b} tokens share a row with ids begun anew. Somebody writes the mask as 'a query sees keys whose id is not greater than its own'. How many pairs does this let through, and how many of them are in the future? What should causality go by?",
        f"{seen}, {future} of them in the future; by the index in the row, and texts kept apart",
        (
            (2, f"{seen} pairs; the first text's queries see {future} keys of the second"),
            (1, "causality by index, distance by id"),
        ),
        {
            number(0): "true for one text in one row alone: ids repeat here",
            number(a * b): "not all: ids must not be greater",
        },
        {"a": a, "b": b},
        (seen, future),
        3,
        7,
    )


# Aloud


def say_test(draw):
    prefix = draw.choice([16, 40])
    wrong = _turned([1, 0], [1, 0], 0, prefix - 1, 0.1)
    return Question(
        f"Ten minutes to test a model's decoding behind a prompt of {prefix} tokens. What do you compare, and which mistakes does it find? Which not?",
        f"step by step against one pass, equal to rounding (ids begun anew: a pair with ω = 0.1 scores {number(wrong)} in place of {number(_turned([1, 0], [1, 0], prefix, prefix - 1, 0.1))})",
        (
            (2, "decoding through the cache against the whole pass"),
            (1, "finds wrong ids behind the cache and a triangle in the wrong corner"),
            (1, "not padding or packed rows: these need batches against their rows"),
        ),
        {"the loss": "it is finite, and only a little worse"},
        {"prefix": prefix},
        (wrong,),
        2,
        4,
    )


def say_mask_first(draw):
    a, b = draw.choice([(4, 6), (5, 5)])
    leaks = _count(torch.ones(a + b, a + b, dtype=torch.bool)) - _count(
        _texts([a, b])[:, None] == _texts([a, b])[None, :]
    )
    return Question(
        f"Packed rows, texts of {a} and {b} tokens: you may make one repair today, the mask or the ids. Which one with RoPE, and why is the other alone worse than nothing?",
        f"the mask: it hides {leaks} pairs, and RoPE forgives ids that count on",
        (
            (1, "the mask"),
            (1, "one number is off for a whole text: forgiven"),
            (2, "ids begun anew without it put a stranger at every distance"),
        ),
        {"the ids: the mask follows from them": "what may be seen and how far it is are two questions"},
        {"a": a, "b": b},
        (leaks,),
        2,
        4,
    )


def say_left_or_right(draw):
    pads = draw.choice([3, 5])
    listing, letter = options(
        draw,
        "the last column is the last token of each row",
        ["pads on the left are cheaper", "the causal mask hides them"],
    )
    moved = _moves(rope(8), _SITUATIONS[0])
    return Question(
        f"Why is a decoder padded on the left, here by {pads}, and what must be told besides the mask?\n\n{listing}",
        f"({letter}); ids from the mask, for methods that are not shift-invariant (RoPE's output moves by {number(moved)})",
        (
            (1, f"({letter}): the next token of each row is written in one column"),
            (1, "left pads are seen by all that follow, so they need a mask"),
            (2, "ids from the mask; RoPE and ALiBi forgive, sinusoids and tables don't"),
        ),
        {"right padding needs a mask too": "under a causal mask nothing real looks at what follows"},
        {"pads": pads},
        (moved,),
        1,
        3,
    )


def say_triangle(draw):
    keys = draw.choice([24, 100])
    seen = _count(torch.ones(1, keys, dtype=torch.bool).tril(), causal=False, queries=1, keys=keys)
    return Question(
        f"One new query, {keys} keys, `is_causal=True` in PyTorch's fused attention. What comes back, and what would you write?",
        f"the value of key 0: {seen} pair is seen; leave the argument out",
        (
            (1, "the triangle stands at the top left"),
            (1, "the query sees the oldest key alone"),
            (2, "one query: no mask; several: a mask aligned at the bottom right"),
        ),
        {"the right row": "that is the bottom right corner"},
        {"keys": keys},
        (seen,),
        2,
        3,
    )


def say_strict(draw):
    by = draw.choice([3, 10])
    kept = _moves(alibi(2), _SITUATIONS[4])
    return Question(
        f"All ids of a text are off by {by}. Which methods notice, which don't, and which read no ids at all? How do you tell for an unknown one?",
        f"sinusoids and tables notice; RoPE, ALiBi, T5 don't (ALiBi moves by {number(kept)}); NoPE and stick-breaking read none",
        (
            (1, "not shift-invariant: sinusoidal, learned"),
            (1, "differences alone: RoPE, ALiBi, T5"),
            (2, "move all ids: no change is shift-invariant; deal them out at random: no change reads none"),
        ),
        {"every relative method forgives": "FIRE divides by the query's own position beyond its threshold"},
        {"by": by},
        (kept,),
        1,
        3,
    )


PAPER = (
    after_a_cache,
    under_padding,
    a_packed_row,
    begun_anew,
    off_by_one,
    what_is_forgiven,
    the_triangles_corner,
    a_pad_is_a_word,
    future_by_position,
)
ORAL = (say_test, say_mask_first, say_left_or_right, say_triangle, say_strict)
