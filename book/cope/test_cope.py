"""What the chapter on CoPE computes beside its text: a head made by hand, positions that are sums."""

import pytest

from posenc.chapters.cope import facts as page
from posenc.chapters.cope import figures


def test_the_head_made_by_hand_finds_the_previous_sentence_in_both():
    for name, words in page.TEXTS.items():
        starts = [0, *(j + 1 for j, word in enumerate(words) if word == ".")]  # the last is the query's own
        p, weights = page.count_sentences(name)
        assert weights.argmax() == starts[-2] and weights.max() > 0.99
        assert p[starts[-2]] == pytest.approx(2, abs=0.05)


@pytest.mark.parametrize("preset", figures.PRESETS)
@pytest.mark.parametrize("query, token, gate", [(11, 8, 0.5), (5, 0, 0.25), (11, 11, 0.0), (4, 9, 1.0)])
def test_positions_are_sums_of_the_gates_that_are_drawn(preset, query, token, gate):
    lines = figures.gates.evaluate(dict(preset=preset, query=query, token=token, gate=gate))
    expected = [sum(lines["gate"]["y"][j : query + 1]) for j in range(query + 1)]
    assert lines["gate"]["y"][token] == gate
    assert lines["position p of each key"]["y"].tolist() == pytest.approx(expected)
