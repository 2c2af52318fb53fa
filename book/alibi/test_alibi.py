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


@pytest.mark.parametrize("heads, head, query", [(8, 1, 127), (8, 4, 127), (12, 9, 55), (16, 16, 7)])
def test_what_the_hand_holds_lies_on_the_head_s_line(heads, head, query):
    drawn = figures.decay.evaluate(dict(heads=heads, head=head, query=query))
    slope = slopes(heads)[head - 1].item()
    held = drawn["end of this head's line"]
    assert held["y"][0] == pytest.approx(-slope * (query - held["x"][0]), rel=1e-6)
    assert held["y"][0] >= figures.EDGE - 1e-9 and drawn["readout"]["slope"] == pytest.approx(slope)


def test_the_window_holds_95_percent_of_equal_logits():
    lines = figures.decay.evaluate(dict(heads=8, head=4, query=127))
    weights = 10 ** lines["equal logits"]["y"][-1]  # of the query itself; the rest is geometric
    first, last = lines["95% of the weight"]["x"].astype(int)
    ratio = 2.718281828 ** -slopes(8)[3].item()
    held = sum(weights * ratio**distance for distance in range(last - first + 1))
    assert 0.95 <= held < 0.96
