r"""A rule that predicts text by counting, with nothing to train: what a long context is worth, taken without a model.

Chapter: Compare and choose.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence

ORDER = 6  # characters before the next one that the table goes by
LEAST = 3  # characters in a row that must have stood in the context before
DOUBT = 16  # a repeat of n characters gets the share n / (n + DOUBT) of the prediction: chosen on validation text


def count(text: Sequence[int]) -> list[dict]:
    r"""For each n up to ORDER: what followed each n characters of the text, {the n characters: Counter}."""
    tables = [defaultdict(Counter) for _ in range(ORDER + 1)]
    for i, following in enumerate(text):
        for n in range(min(ORDER, i) + 1):
            tables[n][tuple(text[i - n : i])][following] += 1
    return tables


def by_table(tables: list[dict], context: Sequence[int], character: int, vocabulary: int) -> float:
    r"""The probability of a character after a context, by what followed its last characters in the counted text.

    p_n = (count + k p_(n-1)) / (total + k), k how many characters followed those n: Witten and Bell (1991), method C
    """
    p = 1 / vocabulary
    for n in range(min(ORDER, len(context)) + 1):
        seen = tables[n].get(tuple(context[len(context) - n :]))
        if not seen:
            break
        p = (seen[character] + len(seen) * p) / (seen.total() + len(seen))
    return p


def longest_repeat(context: Sequence[int]) -> tuple[int, list[int]]:
    r"""The longest end of the context that stood in it before: its length, and what followed it each time."""
    end, n, at = len(context), 0, list(range(1, len(context)))
    while at:
        longer = [i for i in at if i > n and context[i - n - 1] == context[end - n - 1]]
        if not longer:
            break
        n, at = n + 1, longer
    return n, [context[i] for i in at] if n else []


def by_rule(tables: list[dict], context: Sequence[int], character: int, vocabulary: int) -> float:
    r"""The table's probability, mixed with what followed the longest repeat in the context, if it is long enough."""
    p = by_table(tables, context, character, vocabulary)
    n, followed = longest_repeat(context)
    if n < LEAST:
        return p
    share = n / (n + DOUBT)
    return (1 - share) * p + share * followed.count(character) / len(followed)
