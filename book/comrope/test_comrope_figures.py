r"""What the explorables of ComRoPE draw, against the method."""

import torch

from posenc.chapters.comrope import figures as comrope
from posenc.rotate.liere import rotation


def test_walks_are_products_and_the_cross_is_not():
    row, column, both = rotation(torch.tensor([[2.0, 0], [0, 3], [2, 3]], dtype=torch.float64), comrope.generators(60))
    start = torch.tensor(comrope.VECTOR, dtype=torch.float64)
    torch.testing.assert_close(comrope.walk(2, 3, 60, True)[-1], column[0] @ row[0] @ start)
    torch.testing.assert_close(comrope.walk(2, 3, 60, False)[-1], row[0] @ column[0] @ start)
    assert (both[0] @ start - column[0] @ row[0] @ start).norm() > 0.05
