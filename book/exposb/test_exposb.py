r"""What the explorables of ExpoSB draw, against the method."""

import pytest
import torch

from posenc.chapters.exposb import figures as exposb
from posenc.several.exposb import band


@pytest.mark.parametrize("pair", [1, 4])
def test_the_turning_part_is_what_a_pair_s_score_swings_by(pair):
    part = exposb.turning(band(8))[pair - 1]
    even, odd = band(8).view(-1, 2)[pair - 1]
    angle = torch.linspace(0, 3.14159265, 101, dtype=torch.float64)  # of a vector with itself, wherever it stands
    score = (even * angle.cos()) ** 2 + (odd * angle.sin()) ** 2
    assert ((score.max() - score.min()) / (score.max() + score.min())).item() == pytest.approx(part.abs().item())
    assert exposb.turning(band(8, per_pair=True)).abs().max() < 1e-12
    torch.testing.assert_close(exposb.bump(torch.arange(16, dtype=torch.float64)), band(16))
