r"""What the explorables of ExpoSB draw, against the method."""

import pytest
import torch

from posenc.chapters.exposb import figures as exposb
from posenc.rotate.rope import inv_freq, rotate
from posenc.several.exposb import band


@pytest.mark.parametrize("pair", [1, 2, 4])
def test_a_wave_is_what_a_pair_adds_to_a_score_with_the_report_s_bump(pair):
    drawn, factors = exposb.waves(exposb.HEAD / 4)
    c = band(exposb.HEAD, per_pair=True)
    torch.testing.assert_close(factors.repeat_interleave(2), c)
    x = torch.zeros(exposb.HEAD, dtype=torch.float64)
    x[2 * pair] = 1  # a vector of length 1 in this pair alone
    keys = rotate(x.expand(len(exposb.APART), -1), exposb.APART, inv_freq(exposb.HEAD, dtype=torch.float64)) * c
    torch.testing.assert_close(keys @ (x * c), drawn[pair])
    torch.testing.assert_close(exposb.bump(torch.arange(16, dtype=torch.float64)), band(16))
