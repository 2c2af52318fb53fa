"""What the chapter RoPE, looked at closely computes beside its text, by other roads."""

import math

import pytest

from posenc.lab.pages import rope_closely as page


def test_scores_of_equal_vectors_follow_the_sum_of_cosines():
    scores = page.scores()["k = q"]
    for row, d in enumerate(page.DISTANCES):
        wanted = 2 * sum(math.cos(d * 10_000 ** (-i / 64)) for i in range(64)) / math.sqrt(128)
        assert scores[row].mean().item() == pytest.approx(wanted, abs=0.15)


def test_the_bound_at_distance_zero_adds_whole_numbers():
    assert page.bounds()[0][2] == pytest.approx(64 * 65 / 2), "the partial sums are 1, 2, ..., 64"


def test_a_head_that_looks_for_the_token_before_needs_exact_positions():
    # bf16 holds every second number from 256 on, every fourth from 512 on: at most one query in eight finds its key
    assert page.previous_shares()["positions in bf16"][2] <= 1 / 4
