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
    assert dots == 4 * 12 == readouts["all"]  # to one side: the other has the same
    assert readouts["beyond"] == len(trace(figure, rope2d.OUTSIDE)["x"])
    for w in rope2d.MAGNITUDES.tolist():
        (x,) = trace(figure, f"the key at {w:.2g}")["x"]
        angle = float(x) * min(5 * w, math.pi)  # as a share of the widest of training
        assert 0 <= angle <= math.pi and math.cos(angle) == pytest.approx(math.cos(11 / 2 * w), abs=1e-9)


@pytest.mark.parametrize("asked", rope2d.SIDES[1:])
def test_normalized_only_the_farthest_patch_leaves_the_band(asked):
    figure, readouts = rope2d.resolution.fn(asked=asked, coordinates=rope2d.NORMALIZED, offset=asked - 1)
    crosses = {(round(float(x), 6), y) for t in [trace(figure, rope2d.OUTSIDE)] for x, y in zip(t["x"], t["y"])}
    keys = {(round(float(t["x"][0]), 6), t["y"][0]) for t in figure["data"] if t["name"].startswith("the key at")}
    assert crosses and crosses == {(x, y) for x, y in keys if x > 1}


def test_the_key_stays_in_the_picture():
    states = [rope2d.resolution.fn(asked=6, coordinates=rope2d.BY_INDEX, offset=offset) for offset in (5, 6)]
    assert [trace(figure, "the key at 0.1")["x"] for figure, _ in states][0] == trace(states[1][0], "the key at 0.1")[
        "x"
    ]
    assert states[1][1]["offset"] == 5


@pytest.mark.parametrize("deal", rope2d.DEALS)
def test_cells_are_scores_of_the_rotated_pair_of_tokens(deal):
    words = 5
    figure, readouts = rope2d.ids.fn(words=words, row=2, column=1, deal=deal)
    ids = posenc.mrope.positions_for([words, (1, 4, 4), 4])
    x = torch.ones(len(ids), 32, dtype=torch.float64)
    turned = rotate(x, ids, posenc.mrope.dealt(32, base=10000.0, **rope2d.DEALS[deal]), "half")
    wanted = (turned[words : words + 16] @ turned[-1] / 32).view(4, 4)
    cells = torch.tensor(trace(figure, "score of each patch")["z"], dtype=torch.float64)
    torch.testing.assert_close(cells, wanted)
    assert (cells.diff(dim=1).abs().max() < 0.001) == (deal == "in sections")
    assert readouts["score"] == pytest.approx(wanted[2, 1].item())
    assert trace(figure, "scores in numbers")["text"][9] == f"{wanted[2, 1]:.3f}"[1:]


def test_words_before_the_picture_change_ids_and_no_score():
    states = [rope2d.ids.fn(words=words, row=1, column=2, deal="in turn") for words in (0, 4)]
    numbers = [[trace(figure, f"ids of {name}")["text"][1] for name in rope2d.AXES] for figure, _ in states]
    assert numbers == [["<b>0</b>", "<b>1</b>", "<b>2</b>"], ["<b>4</b>", "<b>5</b>", "<b>6</b>"]]
    assert states[0][1]["score"] == pytest.approx(states[1][1]["score"])


def test_columns_are_heard_in_turn_and_not_in_sections():
    changes = {deal: rope2d.ids.fn(words=3, row=1, column=1, deal=deal)[1]["column"] for deal in rope2d.DEALS}
    assert changes["in turn"] > 1000 * changes["in sections"]


def test_the_first_state_shows_a_score_that_a_column_moves():
    _, readouts = rope2d.ids.fn(**rope2d.ids.default_state())
    assert readouts["column"] > 0.01


@pytest.mark.parametrize("asked, kinds", [(6, 1), (12, 3)])
def test_only_marks_that_are_there_have_a_name(asked, kinds):
    figure, _ = rope2d.resolution.fn(asked=asked, coordinates=rope2d.NORMALIZED, offset=4)
    names = trace(figure, "names of the marks")
    assert len(names["text"]) == len(set(names["x"])) == kinds
    keys = [t["y"][0] for t in figure["data"] if t["name"].startswith("the key at")]
    assert keys == list(range(len(rope2d.MAGNITUDES)))  # each on its row
