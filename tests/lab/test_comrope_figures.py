r"""What the explorables of ComRoPE draw, against the method."""

import math

import pytest
import torch

from posenc.lab.figures import comrope
from posenc.rotate.liere import rotation


def trace(figure, words):
    return next(trace for trace in figure["data"] if words in trace["name"])


def test_generators_turn_about_axes_that_far_apart():
    row, column = comrope.generators(30)[:, 0]
    assert (row + row.T).abs().max() == 0 and (column + column.T).abs().max() == 0
    cosine = (row * column).sum() / (row.norm() * column.norm())
    assert cosine.item() == pytest.approx(math.cos(math.radians(30)))
    assert row.norm().item() == pytest.approx(comrope.STEP * math.sqrt(2))


@pytest.mark.parametrize("degrees", [0, 5, 90])
def test_two_walks_end_together_only_about_one_axis(degrees):
    figure, readouts = comrope.commute.fn(degrees=degrees, rows=3, columns=4, shift=0)
    assert (readouts["apart"] < 1e-12) == (degrees == 0) == (readouts["off"] < 1e-12)
    ends = [(trace(figure, words)["x"][-1], trace(figure, words)["y"][-1]) for words in ("rows first", "columns first")]
    assert (math.dist(*ends) < 1e-12) == (degrees == 0)
    for rows_first in (True, False):
        way = comrope.walk(3, 4, degrees, rows_first)
        torch.testing.assert_close(way.norm(dim=-1), torch.ones(len(way), dtype=torch.float64))


def test_walks_are_products_and_the_cross_is_not():
    row, column, both = rotation(torch.tensor([[2.0, 0], [0, 3], [2, 3]], dtype=torch.float64), comrope.generators(60))
    start = torch.tensor(comrope.VECTOR, dtype=torch.float64)
    torch.testing.assert_close(comrope.walk(2, 3, 60, True)[-1], column[0] @ row[0] @ start)
    torch.testing.assert_close(comrope.walk(2, 3, 60, False)[-1], row[0] @ column[0] @ start)
    assert (both[0] @ start - column[0] @ row[0] @ start).norm() > 0.05


def test_the_error_grows_with_the_angle():
    errors = [comrope.commute.fn(degrees=d, rows=3, columns=4, shift=0)[1]["off"] for d in (0, 5, 15, 30, 45, 60, 90)]
    assert errors == sorted(errors) and errors[-1] > 0.5


def test_the_diamond_stands_on_the_curve():
    figure, _ = comrope.commute.fn(degrees=30, rows=1, columns=2, shift=6)
    curve, diamond = trace(figure, "score of one pair"), trace(figure, "score now")
    place = list(curve["x"]).index(6)
    assert diamond["y"][0] == curve["y"][place]
    q, k = (torch.tensor(v, dtype=torch.float64) for v in (comrope.QUERY, comrope.KEY))
    at_q, at_k = rotation(torch.tensor([[6.0, 0], [7, 2]], dtype=torch.float64), comrope.generators(30))[:, 0]
    assert diamond["y"][0] == pytest.approx(((at_q @ q) @ (at_k @ k)).item())


@pytest.mark.parametrize("direction", comrope.DIRECTIONS)
def test_one_block_of_ld_is_blind_along_a_line_and_two_are_not(direction):
    def change(form):
        readouts = comrope.blind.fn(form=form, direction=direction, row=4, column=5)[1]
        before, after = (float(readouts[name].replace("−", "-")) for name in ("score", "moved"))
        return abs(after - before)

    assert change(comrope.ONE) == 0 and change(comrope.TWO) > 1e-3 and change(comrope.PARTITION) > 1e-3
    row, column = comrope.DIRECTIONS[direction]
    start = torch.tensor([[3.0, 3.0]], dtype=torch.float64) + torch.tensor([[1.0, 2.0]], dtype=torch.float64)
    along = start + torch.tensor([[-column, row]], dtype=torch.float64)
    scores = [comrope.likeness(comrope.ONE, direction, place).item() for place in (start, along)]
    assert scores[0] == pytest.approx(scores[1], abs=1e-12)


def test_the_line_runs_through_the_key_and_only_where_there_is_one():
    figure, _ = comrope.blind.fn(form=comrope.ONE, direction="27°", row=4, column=5)
    line = trace(figure, "same score")
    (x0, x1), (y0, y1) = line["x"], line["y"]
    assert (x1 - x0) * (4 - y0) == pytest.approx(float((y1 - y0) * (5 - x0)), abs=1e-9)
    assert len(trace(comrope.blind.fn(comrope.TWO, "27°", 4, 5)[0], "same score")["x"]) == 0


def test_the_map_is_the_score_at_each_place():
    figure, _ = comrope.blind.fn(form=comrope.TWO, direction="63°", row=0, column=0)
    picture = trace(figure, "score of a key")
    place = torch.tensor([[picture["y"][5], picture["x"][11]]], dtype=torch.float64)
    assert picture["z"][5, 11].item() == pytest.approx(comrope.likeness(comrope.TWO, "63°", place).item())
    middle = comrope.FINE // 2
    assert picture["z"][middle, middle].item() == pytest.approx(1)  # the query with its own content
