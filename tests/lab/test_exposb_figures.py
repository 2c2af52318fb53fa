r"""What the explorables of ExpoSB draw, against the method."""

import pytest
import torch

from posenc.lab.figures import exposb


@pytest.mark.parametrize("pair", [1, 4])
def test_the_turning_part_is_what_a_pair_s_score_swings_by(pair):
    part = exposb.turning(8, exposb.LANES)[pair - 1]
    even, odd = exposb.band(8).view(-1, 2)[pair - 1]
    angle = torch.linspace(0, 3.14159265, 101, dtype=torch.float64)  # of a vector with itself, wherever it stands
    score = (even * angle.cos()) ** 2 + (odd * angle.sin()) ** 2
    assert ((score.max() - score.min()) / (score.max() + score.min())).item() == pytest.approx(part.abs().item())
    assert exposb.turning(8, exposb.PAIRS).abs().max() < 1e-12


def test_one_offset_scores_the_same_everywhere_with_rope_and_with_the_filter_by_pair_alone():
    at = torch.arange(0.0, 4000.0, 7, dtype=torch.float64)
    for head_dim in (8, 64):
        assert exposb.off_by(head_dim, at, exposb.PAIRS).abs().max() < 1e-9
        assert exposb.off_by(head_dim, at, "gain", 0.0) == pytest.approx(44)  # 1.2 squared, and no decay
        assert exposb.off_by(head_dim, at[-1:], "gain", 0.01).item() == pytest.approx(0, abs=1e-6)
    small, large = (exposb.off_by(head_dim, at, exposb.LANES) for head_dim in (64, 8))
    assert 0.5 < small.max() < large.max() / 4
