r"""The chapter on two axes: its numbers against closed forms, the package and models in transformers."""

import math

import pytest
import torch

import posenc
from posenc.lab.pages import rope2d as page
from posenc.rotate.mrope import dealt
from posenc.rotate.rope import inv_freq, rotate


def test_the_flat_table_is_ropes(capsys):
    x = torch.tensor([1.0, 0], dtype=torch.float64).repeat(page.LANES // 2)
    freqs = inv_freq(page.LANES, dtype=torch.float64)
    for distance in (1, 6, 12):
        score = (rotate(x[None], torch.tensor([distance]), freqs) @ x).item() / (page.LANES // 2)
        assert page.flat_score(distance) == pytest.approx(score)
    page.print_flat()
    lines = capsys.readouterr().out.splitlines()
    below = next(line for line in lines if "below" in line)
    assert "6 away" in below and "12 away" in below
    right, edge = (next(line for line in lines if words in line) for words in ("right neighbor", "right edge"))
    assert right.split("1 away", 1)[1] == edge.split("1 away", 1)[1]


def test_axial_explains_rows_and_no_diagonal():
    shares = page.directions()
    assert shares["in the query's row"] == (pytest.approx(1), pytest.approx(1))
    assert shares["on the query's diagonal"] == (pytest.approx(0, abs=1e-9), pytest.approx(1))
    x = page.random(50)
    assert page.explained(x, page.random(50, 2, seed=1)) < 0.3 and page.explained(x, x[:, None]) == pytest.approx(1)


def test_each_claim_of_the_chapter_is_checked():
    errors = page.check_errors()
    assert len(errors) == 7 and max(errors.values()) < 1e-12


def test_a_class_token_reads_places_unless_it_moves_along():
    patches, token = page.class_changes()
    assert patches < 1e-12 and token > 1
    assert max(page.class_changes((2.5, 2.5))) < 1e-12
    assert page.class_changes(shift=(0, 0))[1] == 0


def test_swapped_axes_are_another_encoding():
    assert page.swapped_change() > 0.1


def test_frequencies_of_the_axes_are_those_of_the_dealing():
    assert page.fastest(2, **page.QWEN2) == pytest.approx(1e6 ** (-(16 + 24) / 64))
    assert page.fastest(2, **page.QWEN3) == pytest.approx(5e5 ** (-2 / 64))
    assert page.lost_columns() == pytest.approx(31 * dealt(128)[2].max().item())  # the sections are posenc's default
    table = page.fast_table().data.splitlines()
    assert len(table) == 5 and f"{2 * math.pi / page.fastest(1, **page.QWEN2):,.0f}" in table[3]


def test_the_defaults_are_those_of_transformers():
    from transformers import Qwen2VLTextConfig, Qwen3VLTextConfig

    assert Qwen2VLTextConfig.default_theta == page.QWEN2["base"]
    assert Qwen3VLTextConfig.default_theta == page.QWEN3["base"]


def test_a_picture_costs_as_many_ids_as_its_longer_side():
    numbers = page.mrope_numbers()
    assert int(numbers["tokens"]) == 10 + 16 * 24 + 5 and int(numbers["last"]) == 10 + 24 + 5 - 1


def test_the_start_of_mixed_is_a_frame_a_head():
    found = page.directions_of_start()
    assert len(found) == 4 and found.unique().numel() == 4 and found.abs().max() <= 180
    numbers = page.second_numbers()
    assert numbers["start"].count("°") == 4 and "-" not in numbers["start"]


def test_the_solutions_on_paper():
    quarter = math.pi / 2
    places = page.grid(2, 2)
    q, k = torch.tensor([1.0, 2, 0, 1]), torch.tensor([2.0, 0, 1, 3]).expand(4, 4)
    for at, wanted in (((0, 0), [5, 3, 7, 5]), ((1, 1), [-5, -1, 1, 5])):
        turned = posenc.rope2d.rotate(k, places, quarter * torch.eye(2))
        query = posenc.rope2d.rotate(q[None], torch.tensor([at]), quarter * torch.eye(2))[0]
        assert (turned @ query).round().tolist() == wanted
    ids = posenc.mrope.positions_for([3, (1, 2, 3), 2, (2, 2, 2), 1])
    assert len(ids) == 20 and ids[[3, 8, 11, 18, 19]].tolist() == [[3, 3, 3], [3, 4, 5], [8, 8, 8], [9, 9, 9], [10] * 3]


@pytest.mark.parametrize("figure", [page.forms_figure, page.card_figure])
def test_pictures_are_drawn(figure):
    assert len(figure().axes) >= 2
