"""The ALiBi chapter: its windows, needles and figures by closed forms."""

import math

import pytest
import torch

from posenc.bias.alibi import slopes
from posenc.chapters.alibi import facts as page
from posenc.chapters.alibi import figures


def test_windows_are_where_the_geometric_series_says():
    for slope, half, *reaches in page.windows(4):
        assert math.exp(-slope * half) == pytest.approx(0.5)
        shares = [1 - math.exp(-slope * reach) for reach in reaches]
        assert shares == pytest.approx([1 - 1 / math.e, 0.95, 0.9999])
    assert page.head_numbers()["mildest_95"] == f"{256 * math.log(20):.0f}"


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


@pytest.mark.parametrize("heads, key", [(8, 24), (12, 99), (16, 111)])
def test_a_bar_is_the_weight_that_a_head_leaves_of_the_key_that_fits(heads, key):
    drawn = figures.decay.evaluate(dict(heads=heads, key=key))
    odds = figures.content_logits(key).exp()
    assert drawn["the key that fits"]["x"][0] == key
    for slope, share in zip(slopes(heads).sort(descending=True).values, drawn["weight of the key"]["x"], strict=True):
        fading = odds * math.exp(-slope) ** (figures.KEYS - 1 - torch.arange(figures.KEYS))
        assert share == pytest.approx((fading[key] / fading.sum()).item(), rel=1e-4)
    assert drawn["without a penalty"]["x"][0] == pytest.approx((odds[key] / odds.sum()).item())
