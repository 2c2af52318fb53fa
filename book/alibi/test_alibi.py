r"""The ALiBi chapter: its windows and needles by closed forms, and checks that notice a wrong slope."""

import math

import pytest
import torch

from posenc.bias.alibi import slopes
from posenc.chapters.alibi import facts as page
from posenc.lab.write import print_errors


def test_windows_are_where_the_geometric_series_says():
    for slope, half, *reaches in page.windows(4):
        assert math.exp(-slope * half) == pytest.approx(0.5)
        shares = [1 - math.exp(-slope * reach) for reach in reaches]
        assert shares == pytest.approx([1 - 1 / math.e, 0.95, 0.9999])
    assert page.head_numbers()["mildest_95"] == f"{256 * math.log(20):.0f}"


def test_the_checks_see_a_wrong_slope(monkeypatch):
    q, k, v = torch.randn(3, 1, 3, 48, 4, dtype=torch.float64)
    monkeypatch.setattr(page, "slopes", lambda heads: 1.01 * slopes(heads))
    with pytest.raises(AssertionError, match="limit"):
        print_errors(page.check_errors(q, k, v), limit=1e-10)


def test_what_a_row_of_equal_keys_leaves_beyond_training():
    first, last = page.STUDY["lengths"][0], page.STUDY["lengths"][-1]
    row = (-torch.arange(last, dtype=torch.float64) / 256).softmax(-1)  # by distance
    assert page.far_share(1 / 256) == pytest.approx(row[first:].sum().item())


def test_at_its_reach_a_needle_holds_half_of_the_row_and_one_token_further_it_does_not():
    slope = slopes(8)[2].item()
    reach = page.needle_reach(slope)[0]
    for distance, holds in ((reach, True), (reach + 1, False)):
        logits = -slope * torch.arange(5000, dtype=torch.float64)
        logits[distance] += page.NEEDLE_LOGIT
        assert (logits.softmax(-1)[distance] >= 0.5).item() == holds
