r"""The chapter on sums, products and slots: its failures, its cups, and words that follow the frozen numbers."""

import itertools
import math

import pytest
import torch

from posenc import path
from posenc.lab.figures import moving_ruler as figures
from posenc.lab.pages import moving_ruler as page


def test_sums_are_blind_to_an_exchange_and_the_product_is_not():
    changes = page.exchanged_changes()
    assert changes["FoX"] < 1e-12 and changes["CoPE"] < 1e-12 and changes["PaTH"] > 1e-3


def test_the_cups_are_tracked_by_weights_set_by_hand():
    answers, right = page.cups_by_hand(200, seed=3)
    assert torch.equal(answers, right) and len(right.unique()) == 3


def test_a_rule_blind_to_order_is_as_good_as_all_rows_of_swaps_say():
    """Written out: after one swap it is never wrong, after n it has the commonest answer of its bag."""
    assert page.bag_error(range(1, 2)) == 0
    pairs, answers = ((0, 1), (0, 2), (1, 2)), {}
    for row in itertools.product(range(3), repeat=4):
        cups = [0, 1, 2]
        for a, b in (pairs[n] for n in row):
            cups[a], cups[b] = cups[b], cups[a]
        answers.setdefault((row[-1], *sorted(row[:-1])), []).append(cups[0])
    right = sum(max(map(given.count, range(3))) for given in answers.values())
    assert page.bag_error(range(4, 5)) == pytest.approx(1 - right / 81)
    assert page.sink_share(16) == pytest.approx(math.exp(3) / (math.exp(3) + 16))


@pytest.mark.parametrize("strength", [0.5, 2.0], ids=str)
def test_the_drawn_steps_are_those_of_the_package(strength):
    """Both lanes of the key after two reflections, asked for by two queries."""
    a, b = 30, 75
    w = torch.stack((torch.zeros(2, dtype=torch.float64), figures.direction(a), figures.direction(b)))
    beta = torch.tensor([0.0, strength, strength], dtype=torch.float64)
    keys = torch.stack((figures.KEY, *torch.zeros(2, 2, dtype=torch.float64)))
    lanes = [path.scores_along(lane[None], keys, w, beta)[0, 0] for lane in torch.eye(2, dtype=torch.float64)]
    torch.testing.assert_close(figures.through(a, b, strength)[-1], torch.stack(lanes), rtol=0, atol=1e-12)


def test_two_orders_meet_where_mirrors_are_parallel_or_square():
    apart = {
        (a, b): (figures.through(a, b, 2.0) - figures.through(b, a, 2.0))[-1].norm()
        for a in (0, 30)
        for b in (0, 45, 90, 120)
    }
    assert all((value < 1e-12) == ((a - b) % 90 == 0) for (a, b), value in apart.items())


def test_two_full_mirrors_turn_by_twice_their_angle_and_the_other_order_back():
    for a, b in itertools.product(range(0, 180, 15), repeat=2):
        there, back = (figures.turn(figures.through(*way, 2.0)[-1]) for way in ((a, b), (b, a)))
        assert (there - 2 * (b - a)) % 360 == 0 and (there + back) % 360 == 0


def test_the_names_of_the_mirrors_never_meet():
    for a, b in itertools.product(range(0, 180, 15), repeat=2):
        drawn = {trace["name"]: trace for trace in figures.mirrors.fn(a=a, b=b, strength=2.0)[0]["data"]}
        ends = [[drawn[f"name of {name}"][axis][0] for axis in "xy"] for name in "ab"]
        assert math.dist(*ends) > 0.3


def test_a_sink_multiplies_the_row():
    assert page.rows_of_weights([-5.0, 2.0]) < 1e-12


def test_padding_moves_the_weights_of_a_scaled_query():
    assert page.padded_change(0) == 0 and page.padded_change(50) > 1e-3
    assert page.padded_change(50, alpha=0.0) == 0


def fake(path_errors, other):
    lengths = [8, 32]
    scores = lambda values: {str(n): [v] * 2 for n, v in zip(lengths, values)}  # noqa: E731
    methods = {"path": {"rate": 1e-3, "scores": scores(path_errors)}, "rope": {"rate": 1e-3, "scores": scores(other)}}
    predicted = {"path": ["in", "right", "why"], "rope": ["in", "wrong", "why"]}
    facts = {"lengths": lengths, "seeds": [0, 1], "chance": 2 / 3, "tolerance": 0.05}
    return facts | {"methods": methods, "predicted": predicted, "predicted_longer": ["path", "rises", "why"]}


@pytest.mark.parametrize(
    "path_errors, other, path_words, rope_words, longer",
    [
        ((0.0, 0.3), (0.5, 0.6), "came true", "came true", "came true"),
        ((0.2, 0.2), (0.01, 0.6), "failed", "failed", "failed"),
    ],
    ids=["as predicted", "not"],
)
def test_verdicts_follow_the_numbers(monkeypatch, path_errors, other, path_words, rope_words, longer):
    monkeypatch.setattr(page, "frozen", lambda: fake(path_errors, other))
    assert page.outcome("path") == path_words and page.outcome("rope") == rope_words
    assert page.longer_outcome()[0] == longer
    assert page.numbers()["best_other"] == "RoPE"
