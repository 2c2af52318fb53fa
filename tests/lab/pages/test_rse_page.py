r"""The RSE chapter: the worked example, and what its prose concludes from the frozen results."""

import pytest

from posenc.lab.pages import rse as page


@pytest.mark.parametrize("order", ["first", "recent"])
def test_the_pieces_of_the_worked_example(order):
    weights, left = page.pieces(order)
    rest, keys = 1.0, range(5)
    for j in keys if order == "first" else reversed(keys):
        assert weights[j] == pytest.approx(page.BITES[j] * rest)
        rest *= 1 - page.BITES[j]
    assert left == pytest.approx(rest)
    page.check_hand()


def test_a_stick_sees_no_distance_and_a_penalty_does():
    assert max(page.found(back) for back in (3, 30, 300)) - min(page.found(back) for back in (3, 30, 300)) < 0.002
    assert page.found(300, 0.05) < 0.01 < 0.9 < page.found(3, 0.05)
