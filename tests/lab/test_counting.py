"""The rule that counts, against sums and loops over a small text."""

import itertools
import random

import counting_rule
import pytest

TEXT = [0, 1, 0, 1, 2, 0, 1, 0]


def test_probabilities_of_all_characters_add_up_to_one():
    tables = counting_rule.count(TEXT * 3)
    for context in ([], [1], [2, 0], TEXT, [2, 2, 2, 0, 1, 2, 2, 2]):
        for predict in (counting_rule.by_table, counting_rule.by_rule):
            assert sum(predict(tables, context, c, 4) for c in range(4)) == pytest.approx(1)
    # by hand: 0 stands 4 times of 8 with 3 kinds, and was followed by 1 three times, by 1 kind
    first = (4 + 3 / 4) / (8 + 3), (3 + 3 / 4) / (8 + 3)
    assert counting_rule.by_table(counting_rule.count(TEXT), [], 0, 4) == pytest.approx(first[0])
    assert counting_rule.by_table(counting_rule.count(TEXT), [9, 0], 1, 4) == pytest.approx((3 + first[1]) / (3 + 1))


def test_the_longest_repeat_is_found_whatever_it_overlaps():
    source = random.Random(0)
    for length in itertools.chain(range(6), [40] * 20):
        context = [source.randrange(3) for _ in range(length)]
        ends = {
            n: [context[i] for i in range(n, length) if context[i - n : i] == context[length - n :]]
            for n in range(1, length)
        }
        longest = max((n for n in ends if ends[n]), default=0)
        n, followed = counting_rule.longest_repeat(context)
        assert (n, sorted(followed)) == (longest, sorted(ends[longest] if longest else []))
    tables = counting_rule.count(TEXT * 3)
    repeated = [0, 1, 2, 2, 1, 0, 0, 1, 2]  # 0, 1, 2 stood there, and 2 followed
    share = 3 / (3 + counting_rule.DOUBT)
    plain = counting_rule.by_table(tables, repeated, 2, 4)
    assert counting_rule.by_rule(tables, repeated, 2, 4) == pytest.approx((1 - share) * plain + share)
