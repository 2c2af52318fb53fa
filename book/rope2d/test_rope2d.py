r"""The chapter on two axes: its numbers and figures against closed forms, the package and transformers."""

import math

import pytest
import torch

import posenc
from posenc.chapters.rope2d import facts as page
from posenc.chapters.rope2d import figures
from posenc.rotate.mrope import dealt
from posenc.rotate.rope import inv_freq, rotate


def test_the_flat_table_is_ropes():
    x = torch.tensor([1.0, 0], dtype=torch.float64).repeat(page.LANES // 2)
    freqs = inv_freq(page.LANES, dtype=torch.float64)
    for distance in (1, 6, 12):
        score = (rotate(x[None], torch.tensor([distance]), freqs) @ x).item() / (page.LANES // 2)
        assert page.flat_score(distance) == pytest.approx(score)


def test_frequencies_of_the_axes_are_those_of_the_dealing_and_bases_those_of_transformers():
    from transformers import Qwen2VLTextConfig, Qwen3VLTextConfig

    assert page.fastest(2, **page.QWEN2) == pytest.approx(1e6 ** (-(16 + 24) / 64))
    assert page.fastest(2, **page.QWEN3) == pytest.approx(5e5 ** (-2 / 64))
    assert page.fastest(2, **page.QWEN2) == dealt(128)[2].max().item()  # the sections are posenc's default
    assert Qwen2VLTextConfig.default_theta == page.QWEN2["base"]
    assert Qwen3VLTextConfig.default_theta == page.QWEN3["base"]


def test_the_solutions_on_paper():
    quarter, places = math.pi / 2 * torch.eye(2), page.grid(2, 2)
    q, k = torch.tensor([1.0, 2, 0, 1]), torch.tensor([2.0, 0, 1, 3]).expand(4, 4)
    for at, wanted in (((0, 0), [5, 3, 7, 5]), ((1, 1), [-5, -1, 1, 5])):
        query = posenc.rope2d.rotate(q[None], torch.tensor([at]), quarter)[0]
        assert (posenc.rope2d.rotate(k, places, quarter) @ query).round().tolist() == wanted
    ids = posenc.mrope.positions_for([3, (1, 2, 3), 2, (2, 2, 2), 1])
    assert len(ids) == 20 and ids[[3, 8, 11, 18, 19]].tolist() == [[3, 3, 3], [3, 4, 5], [8, 8, 8], [9, 9, 9], [10] * 3]


@pytest.mark.parametrize("coordinates, seen", [(figures.BY_INDEX, 6 * 6), (figures.NORMALIZED, 11 * 11)])
def test_crosses_lie_on_all_patches_but_those_of_a_training_picture(coordinates, seen):
    drawn = figures.photo.evaluate(dict(asked=12, coordinates=coordinates))
    veil = drawn["an offset that training never had"]["z"]
    assert (veil == 1).sum() == len(drawn["crosses"]["x"]) == 12 * 12 - seen == drawn["readout"]["beyond"]
