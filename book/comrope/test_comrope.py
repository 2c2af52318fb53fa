r"""The chapter on rotations that commute: its numbers against closed forms and the methods."""

import math

import pytest
import torch

from posenc.chapters.comrope import facts as page
from posenc.chapters.comrope import figures
from posenc.rotate.comrope import comrope
from posenc.rotate.liere import liere, rotation, skew


def test_generators_that_do_not_commute_or_are_not_skew_are_not_relative():
    free = skew(page.normal(2, 1, 4, 4))
    assert page.relativity_error(free, page.normal(9, 2), page.normal(9, 2, seed=2)) > 0.1
    symmetric = torch.diag(torch.tensor([1.0, -1.0], dtype=torch.float64))[None, None]
    assert page.relativity_error(symmetric, [[1]], [[0]]) == pytest.approx(math.e - 1 / math.e)
    assert page.plane_errors(liere(16, 1, block=4).double())["generators from planes"] > 0.1


@pytest.mark.parametrize("form, block", [("ap", 2), ("ap", 8), ("ld", 3), ("ld", 8)])
def test_commuting_generators_are_planes_of_mixed_rope(form, block):
    torch.manual_seed(1)
    encoding = comrope(24 if block == 3 else 16, 1, form, block=block).double()
    assert max(page.plane_errors(encoding).values()) < 1e-11
    _, freqs = page.planes(page.whole(encoding))
    if form == "ap":  # axial: one axis a plane
        assert (freqs.abs().min(0)[0] < 1e-12).all() and (freqs.abs().max(0)[0] > 1e-6).all()
    if block == 3:  # one lane of three never turns
        assert int((freqs.abs().max(0)[0] < 1e-9).sum()) == 4


def test_walks_are_products_and_the_cross_is_not():
    row, column, both = rotation(torch.tensor([[2.0, 0], [0, 3], [2, 3]], dtype=torch.float64), figures.generators(60))
    start = torch.tensor(figures.VECTOR, dtype=torch.float64)
    torch.testing.assert_close(figures.walk(2, 3, 60, True)[-1], column[0] @ row[0] @ start)
    torch.testing.assert_close(figures.walk(2, 3, 60, False)[-1], row[0] @ column[0] @ start)
    assert (both[0] @ start - column[0] @ row[0] @ start).norm() > 0.05
