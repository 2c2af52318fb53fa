r"""The chapter on sums, products and slots: blind rules and mirrors, by other roads."""

import itertools
import math

import pytest
import torch

from posenc import path
from posenc.chapters.moving_ruler import facts as page
from posenc.chapters.moving_ruler import figures


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


def test_two_full_mirrors_turn_by_twice_their_angle_the_other_order_back_and_meet_parallel_or_square():
    for a, b in itertools.product(range(0, 180, 15), repeat=2):
        one, other = (figures.through(*way, 2.0)[-1] for way in ((a, b), (b, a)))
        there, back = figures.turn(one), figures.turn(other)
        assert (there - 2 * (b - a)) % 360 == 0 and (there + back) % 360 == 0
        assert ((one - other).norm() < 1e-12) == ((a - b) % 90 == 0)
