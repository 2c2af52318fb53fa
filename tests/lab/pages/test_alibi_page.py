r"""The ALiBi chapter's numbers against the frozen results and closed forms."""

import json
import math
from pathlib import Path

import pytest
import torch

from posenc.bias.alibi import slopes
from posenc.lab.figures.alibi import FLOOR, MATCH_LOGIT
from posenc.lab.pages import alibi as page
from posenc.lab.pages import print_errors

RESULTS = Path(__file__).resolve().parents[3] / "results"


def test_losses_are_means_over_the_frozen_seeds():
    runs = json.loads((RESULTS / "train_short_test_long.json").read_text())["methods"]["rope"]["cut"]
    assert page.failure_numbers()["rope_cut"] == f"{sum(run[-1] for run in runs) / len(runs):.2f}"


def test_the_failure_and_the_reading_are_in_the_results():
    for method in page.FAILURE:
        assert page.loss(method, "whole", -1) > page.loss(method, "whole", 0) + 0.1
    assert page.loss("rope", "cut", -1) < page.loss("rope", "whole", 0) + 0.05
    assert page.loss("sinusoidal", "cut", -1) > page.loss("sinusoidal", "whole", 0) + 0.1
    assert page.loss("alibi", "chopped", -1) < page.loss("alibi", "chopped", 0)  # the curse of the early tokens lifts
    assert page.best_short() != "alibi"


def test_windows_are_where_the_geometric_series_says():
    for slope, half, *reaches in page.windows(4):
        assert math.exp(-slope * half) == pytest.approx(0.5)
        shares = [1 - math.exp(-slope * reach) for reach in reaches]
        assert shares == pytest.approx([1 - 1 / math.e, 0.95, 0.9999])


def test_the_match_stands_above_the_line_in_every_head():
    star, line = page.match_weights()
    decades = (star / line).log10()
    assert (decades < MATCH_LOGIT / math.log(10)).all() and (decades.diff() < 0).all()
    assert ((star < FLOOR) == (torch.arange(8) < 2)).all() and ((line < FLOOR) == (torch.arange(8) < 3)).all()
    assert star[2] < 1e-4 and (star[3:] > 0.01).all()


def test_the_checks_see_a_wrong_slope(monkeypatch):
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 3, 48, 4, dtype=torch.float64)
    print_errors(page.check_errors(q, k, v), limit=1e-10)
    monkeypatch.setattr(page, "slopes", lambda heads: 1.01 * slopes(heads))
    with pytest.raises(AssertionError, match="limit"):
        print_errors(page.check_errors(q, k, v), limit=1e-10)


def test_the_chapters_own_check_stops_at_a_wrong_slope(monkeypatch, capsys):
    page.checked.cache_clear()
    page.print_checks()
    assert (
        len(capsys.readouterr().out.splitlines()) == len(page.checked()) and page.check_numbers()["scale_factor"] == "8"
    )
    page.checked.cache_clear()
    monkeypatch.setattr(page, "slopes", lambda heads: 1.01 * slopes(heads))
    with pytest.raises(AssertionError, match="limit"):
        page.print_checks()
    page.checked.cache_clear()


def test_the_example_by_hand_is_held_against_its_table():
    weights = torch.tensor([0.3843, 0.2331, 0.3843])
    assert page.hand_numbers(weights, torch.tensor([0.4519, 0.1, 0.4])) == {"hand_nope": "0.452"}
    with pytest.raises(AssertionError, match="0.233"):
        page.hand_numbers(weights.flip(0).roll(1), weights)


def test_the_needle_pays_the_price():
    r"""At the reach the needle holds half of the row, one token further it does not."""
    reaches = [page.needle_reach(slope)[0] for slope in slopes(8).double().tolist()]
    assert reaches[0] < 20 and reaches == sorted(reaches)
    slope, reach = slopes(8)[2].item(), reaches[2]
    for distance, holds in ((reach, True), (reach + 1, False)):
        logits = -slope * torch.arange(5000, dtype=torch.float64)
        logits[distance] += page.NEEDLE_LOGIT
        assert (logits.softmax(-1)[distance] >= 0.5).item() == holds


@pytest.mark.parametrize("gap, word", [(0.0, "ignores"), (0.02, "better"), (-0.02, "uses")])
def test_the_reading_follows_the_gap(gap, word):
    cut = [2.0, 2.1, 2.2]
    assert word in page.reading([loss + gap for loss in cut], cut)
