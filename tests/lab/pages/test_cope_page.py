"""What the chapter on CoPE computes beside its text: the failure, checks, words that follow the frozen numbers."""

import math

import pytest
import torch

import posenc
from posenc.bias.cope import positions
from posenc.lab.pages import cope as page

ARMS = ("nope", "rope", "cope", "open")
TESTS = {
    "flipflop": ("in", "sparser", "longer 4x", "longer 4x, cut"),
    "counting": ("in", "longer 4x", "longer 4x, cut", "rarely asked"),
    "selective_copy": ("in", "sparser", "denser", "longer 4x"),
}


def made_up(**changes):
    """Results as benchmarks/contextual.py writes them: every arm errs in a tenth, but for changes {"task arm test"}."""

    def arm(task, arm):
        scores = {test: [0.1, 0.11, 0.12, 0.1, 0.11] for test in TESTS[task]}
        scores |= {test: changes[f"{task} {arm} {test}"] for test in scores if f"{task} {arm} {test}" in changes}
        return {"rate": 0.003, "scores": scores}

    contrast = {"flipflop": ["in", "sparser"], "counting": ["in", "longer 4x"], "selective_copy": ["in", "sparser"]}
    tasks = {
        task: {
            "contrast": contrast[task],
            "predictions": {name: {"claim": "holds" if name == "cope" else "rises", "why": ""} for name in ARMS},
            "methods": {name: arm(task, name) for name in ARMS},
        }
        for task in TESTS
    }
    return {
        "tolerance": 0.05,
        "seeds": [0, 1, 2, 3, 4],
        "rates": [0.001],
        "steps": dict.fromkeys(TESTS, 9),
        "tasks": tasks,
    }


@pytest.mark.parametrize("method", page.BLIND)
def test_who_knows_places_alone_prefers_the_same_key_in_both_texts(method):
    first, second = (page.preference(method, text) for text in page.TEXTS)
    assert first == pytest.approx(second, abs=1e-9)


def test_the_two_texts_are_the_same_to_the_eye_of_a_place():
    first, second = page.TEXTS.values()
    assert len(first) == len(second) and first[-1] == second[-1] and first != second
    assert all(words[place] == "The" for words in (first, second) for place in page.STARTS)


def test_the_head_made_by_hand_finds_the_previous_sentence_in_both():
    for name, words in page.TEXTS.items():
        ends = [j for j, word in enumerate(words) if word == "."]
        starts = [0, *(j + 1 for j in ends)]  # of the sentences; the last of them is the query's own
        p, weights = page.count_sentences(name)
        assert weights.argmax() == starts[-2] and weights.max() > 0.99
        assert p[starts[-2]] == pytest.approx(2, abs=0.05)


def test_a_reader_of_positions_that_counts_nothing_fails(monkeypatch):
    q, the, other, encoding = page.counting_head()
    monkeypatch.setattr(page, "counting_head", lambda: (q, other, other, encoding))
    assert page.count_sentences("first")[1].max() < 0.5


def test_each_check_of_the_page_can_fail(monkeypatch):
    q, k, e = (torch.randn(n, 8, generator=torch.Generator().manual_seed(n)).double() for n in (7, 9, 5))
    q = torch.cat((q, q[:2]))
    assert max(page.check_errors(q, k, e).values()) < 1e-12
    monkeypatch.setattr(page, "positions", lambda s, visible: positions(s, visible) + 0.5)
    assert page.check_errors(q, k, e)["interpolated rows = interpolated products"] > 1e-3


def test_a_sum_of_hats_reads_the_row_at_whole_positions():
    e = torch.randn(5, 4).double()
    q = torch.randn(1, 4).double()
    assert torch.allclose(page.hats(q, e, torch.arange(5.0).double()[None]), q @ e.T)


def test_operations_grow_with_the_rows():
    assert page.operations(64, 128)[1] == 2 * page.operations(64, 64)[1]
    assert page.operations(128, 64)[0] == 2 * page.operations(64, 64)[0]


def test_a_cell_says_mean_and_how_many_solved_it():
    assert page.cell([0.0, 0.0, 0.2, 0.0, 0.05]) == "5.0 (3)"


def test_the_table_has_a_row_for_each_arm_with_the_control():
    lines = page.verdict_table(results=made_up()).data.splitlines()
    assert len(lines) == 2 + len(ARMS) and "all gates 1" in lines[-1]
    assert lines[2].count("|") == 2 + sum(map(len, page.FIRST.values()))


@pytest.mark.parametrize(
    "longer, became",
    [([0.1, 0.11, 0.12, 0.1, 0.11], "came true"), ([0.5] * 5, "failed"), ([0.1, 0.11, 0.5, 0.1, 0.11], "not decided")],
)
def test_what_became_of_a_prediction_follows_the_numbers(longer, became):
    results = made_up(**{"counting cope longer 4x": longer})
    assert page.outcome("counting", "cope", results)[1].startswith(became)
    assert became in page.predictions_table(results).data


@pytest.mark.parametrize(
    "ours, words",
    [
        ([0.0, 0.01, 0.0, 0.01, 0.0], "fewer"),
        ([0.5, 0.5, 0.51, 0.5, 0.5], "more"),
        ([0.0, 0.3, 0.0, 0.2, 0.1], "not told"),
    ],
)
def test_a_comparison_needs_more_than_the_spread_of_its_seeds(ours, words):
    assert page.compared(ours, [0.1, 0.11, 0.12, 0.1, 0.11]).startswith(words)


def test_the_interval_is_students():
    mean, half = page.paired([1.0, 2.0, 3.0, 4.0, 5.0], [0.0] * 5)
    assert mean == 3 and half == pytest.approx(2.776 * math.sqrt(2.5) / math.sqrt(5))


@pytest.mark.parametrize(
    "usual, rare, words",
    [
        (0.0, 0.0, "does not need them"),
        (0.0, 0.3, "looks up the last answer"),
        (0.3, 0.3, "do not tell whether"),
        (0.3, 0.1, "do not hurt"),
    ],
)
def test_counts_or_looks_up_follows_the_rare_questions(usual, rare, words):
    results = made_up(**{"counting cope in": [usual] * 5, "counting cope rarely asked": [rare] * 5})
    assert words in page.use_words(results).data


def test_what_the_page_says_of_the_frozen_gates_is_so():
    """Sentences that carry no number of their own: they stand on these."""
    numbers, frozen = page.gate_numbers(), page.trained_gates()
    assert all(0.1 < gate < 0.9 for head in frozen["heads"] for gate in head["by_kind"].values())
    assert float(numbers["loss_mean"]) < 0.25 * float(numbers["loss_zero"])
    flipflop, counting = (frozen["puzzles"][task]["heads"] for task in ("flipflop", "counting"))
    for head in flipflop:
        gap = head["by_kind"]["after w"] - head["by_kind"]["after i"]
        assert gap > 0.95 if head["layer"] else gap < 0.05
    for head in counting:
        if head["layer"] == 0:
            assert min(head["by_kind"]["+"], head["by_kind"]["reset"]) > 0.95 and head["by_kind"]["."] < 0.05


def test_an_encoding_gets_random_numbers_of_its_own():
    table = page.with_random_numbers(posenc.make("cope", head_dim=4)).bias.table
    assert table.dtype == torch.float64 and table.std() > 0.5


def test_the_card_has_a_key_and_its_panels_words_stand_apart():
    figure = page.card_figure()
    left, right = figure.axes
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["row of the table", "key"]
    (words,) = (text.get_window_extent() for text in left.texts)
    assert right.yaxis.label.get_window_extent().x0 - words.x1 > 0.1 * figure.dpi
