r"""What the explorables of two axes and more draw, against the method."""

import math

import pytest
import torch

import posenc
from posenc.lab.figures import rope2d
from posenc.rotate.rope2d import axial, rotate


def trace(figure, words):
    return next(trace for trace in figure["data"] if words in trace["name"])


def cells(figure):
    """The score at each (row, column) of the picture that is drawn."""
    drawn = trace(figure, "score")
    z = torch.as_tensor(drawn["z"])
    places = torch.cartesian_prod(torch.arange(rope2d.SIDE), torch.arange(rope2d.SIDE))
    scores = [z[drawn["y"].index(row), drawn["x"].index(column)] for row, column in places.tolist()]
    return places, torch.stack(scores)


@pytest.mark.parametrize("direction", rope2d.DIRECTIONS)
@pytest.mark.parametrize("row, column", [(4, 4), (0, 8)])
def test_the_map_is_the_score_of_equal_contents(row, column, direction):
    figure, _ = rope2d.map.fn(row=row, column=column, pairs=rope2d.ALL, direction=direction)
    places, drawn = cells(figure)
    freqs = rope2d.frequencies(direction)
    x = torch.tensor([1.0, 0], dtype=torch.float64).repeat(rope2d.LANES // 2)
    query = rotate(x[None], torch.tensor([[row, column]]), freqs)
    keys = rotate(x.expand(len(places), -1), places, freqs)
    torch.testing.assert_close(drawn, (keys @ query[0]) / (rope2d.LANES // 2))


def test_straight_pairs_are_axial_and_draw_stripes():
    torch.testing.assert_close(rope2d.frequencies(0), axial(rope2d.LANES, base=rope2d.MIXED_BASE, dtype=torch.float64))
    for pairs, axis in (("pair 0", 1), ("pair 1", 0)):
        z = rope2d.score_map(pairs, 0)
        assert (z.diff(dim=axis).abs() < 1e-12).all() and (z.diff(dim=1 - axis).abs() > 1e-3).all()
    oblique = rope2d.score_map("pair 0", 45)
    assert (oblique.diff(dim=0).abs() > 1e-6).any() and (oblique.diff(dim=1).abs() > 1e-6).any()


def test_diagonals_tie_for_axial_and_not_for_an_oblique_pair():
    _, straight = rope2d.map.fn(row=4, column=4, pairs="pair 0", direction=0)
    _, oblique = rope2d.map.fn(row=4, column=4, pairs="pair 0", direction=45)
    assert straight["right"] == pytest.approx(straight["left"])
    assert oblique["left"] == pytest.approx(1) and oblique["right"] == pytest.approx(math.cos(math.sqrt(2)))


def test_a_picture_of_the_training_size_asks_for_nothing_new():
    for coordinates in (rope2d.BY_INDEX, rope2d.NORMALIZED):
        for w in rope2d.MAGNITUDES.tolist():
            found = rope2d.sort_angles(rope2d.TRAINED, coordinates, w)
            assert len(found[rope2d.SEEN]) == 2 * rope2d.TRAINED - 1
            assert len(found[rope2d.BETWEEN]) == len(found[rope2d.OUTSIDE]) == 0


@pytest.mark.parametrize("asked", [8, 12, 24])
def test_by_index_leaves_the_range_and_normalizing_halves_the_steps(asked):
    fast, slow = rope2d.MAGNITUDES[0].item(), rope2d.MAGNITUDES[-1].item()
    by_index = rope2d.sort_angles(asked, rope2d.BY_INDEX, slow)
    assert len(by_index[rope2d.SEEN]) == 2 * rope2d.TRAINED - 1  # each old offset
    assert len(by_index[rope2d.OUTSIDE]) == 2 * (asked - rope2d.TRAINED) and not len(by_index[rope2d.BETWEEN])
    assert len(rope2d.sort_angles(asked, rope2d.BY_INDEX, fast)[rope2d.OUTSIDE]) == 0  # it had gone all the way round
    normalized = rope2d.sort_angles(asked, rope2d.NORMALIZED, slow)
    trained = slow * (rope2d.TRAINED - 1)
    assert (normalized[rope2d.OUTSIDE].abs() < trained + slow).all()  # by less than a step of training
    assert len(normalized[rope2d.BETWEEN]) > len(normalized[rope2d.OUTSIDE])


def test_rows_show_each_angle_once_and_where_the_key_is():
    figure, readouts = rope2d.resolution.fn(asked=12, coordinates=rope2d.NORMALIZED, offset=11)
    dots = sum(len(trace(figure, word)["x"]) for word in (rope2d.SEEN, rope2d.BETWEEN, rope2d.OUTSIDE))
    assert dots == 4 * (2 * 12 - 1) == readouts["all"]
    assert readouts["beyond"] == len(trace(figure, rope2d.OUTSIDE)["x"])
    for w in rope2d.MAGNITUDES.tolist():
        (x,) = trace(figure, f"the key at {w:.2g}")["x"]
        angle = float(x) * min(5 * w, math.pi)  # as a share of the widest of training
        assert abs(angle) <= math.pi and math.remainder(angle - 11 / 2 * w, 2 * math.pi) == pytest.approx(0, abs=1e-9)


def test_the_key_stays_in_the_picture():
    states = [rope2d.resolution.fn(asked=6, coordinates=rope2d.BY_INDEX, offset=offset) for offset in (5, 6)]
    assert [trace(figure, "the key at 0.1")["x"] for figure, _ in states][0] == trace(states[1][0], "the key at 0.1")[
        "x"
    ]
    assert states[1][1]["offset"] == 5


@pytest.mark.parametrize("deal", rope2d.DEALS)
def test_bars_are_cosines_of_the_rotated_pair_of_tokens(deal):
    words, row, column = 5, 2, 1
    figure, readouts = rope2d.ids.fn(words=words, row=row, column=column, deal=deal)
    ids = posenc.mrope.positions_for([words, (1, 4, 4), 4])
    freqs = posenc.mrope.dealt(32, base=10000.0, **rope2d.DEALS[deal])
    x = torch.ones(2, 32, dtype=torch.float64)
    key, word = rotate(x, ids[[words + row * 4 + column, -1]], freqs, "half").view(2, 2, 16)
    wanted = (key * word).sum(0) / 2
    drawn = torch.full((16,), math.nan, dtype=torch.float64)
    for name in rope2d.AXES:
        bars = trace(figure, f"cos of the angle, {name}")
        drawn[bars["x"]] = bars["y"]
    torch.testing.assert_close(drawn, wanted)
    assert readouts["score"] == pytest.approx(wanted.mean().item())
    torch.testing.assert_close(torch.as_tensor(trace(figure, "row")["y"]), ids[:, 1])


def test_words_before_the_picture_change_ids_and_no_score():
    states = [rope2d.ids.fn(words=words, row=1, column=2, deal="in turn") for words in (0, 5)]
    places = [trace(figure, "its ids")["y"].tolist() for figure, _ in states]
    assert places == [[0, 1, 2], [5, 6, 7]]  # time, row, column
    assert states[0][1]["score"] == pytest.approx(states[1][1]["score"])


def test_columns_are_heard_in_turn_and_not_in_sections():
    changes = {deal: rope2d.ids.fn(words=3, row=1, column=1, deal=deal)[1]["column"] for deal in rope2d.DEALS}
    assert changes["in turn"] > 1000 * changes["in sections"]
