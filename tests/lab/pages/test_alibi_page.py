r"""The ALiBi chapter's numbers against the frozen results and closed forms."""

import json
import math
from pathlib import Path

import pytest
import torch

from posenc.bias.alibi import bias, slopes
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


def test_the_example_by_hand_is_held_against_its_table(monkeypatch):
    weight = math.exp(2) / (math.exp(2) + 2 * math.e)  # of scaled products 2, 1, 1
    assert page.hand_numbers() == {"hand_nope": f"{weight:.3f}"}
    monkeypatch.setattr(page, "bias", lambda pos_q, pos_k, m: -bias(pos_q, pos_k, m))
    with pytest.raises(AssertionError, match="is not what the table says"):
        page.hand_numbers()


def test_the_chapters_own_lines_are_held_against_the_package():
    def own_slopes(heads):
        return slopes(heads) * (1.01 if heads == 12 else 1)

    with pytest.raises(AssertionError, match="not close"):
        page.check_short(own_slopes, None)
    with pytest.raises(AssertionError, match="not close"):
        page.check_short(slopes, lambda q, k, m, pos_q, pos_k: (q @ k.transpose(-2, -1)).softmax(-1))


def test_the_words_of_the_verdict_are_parted_by_the_frozen_losses():
    runs = json.loads((RESULTS / "train_short_test_long.json").read_text())["methods"]["alibi"]
    gap = sum(w[-1] - c[-1] for w, c in zip(runs["whole"], runs["cut"])) / len(runs["whole"])
    numbers = page.verdict_numbers()
    assert numbers["gap"] == f"{gap:.3f}" and numbers["verdict"].endswith("suffers from what is far.")


def test_what_a_row_of_equal_keys_leaves_beyond_training():
    first, last = page.frozen()["lengths"][0], page.frozen()["lengths"][-1]
    row = (-torch.arange(last, dtype=torch.float64) / 256).softmax(-1)  # by distance
    assert page.far_share(1 / 256) == pytest.approx(row[first:].sum().item())
    assert page.cost_numbers()["far_mildest"] == f"{row[first:].sum():.0%}"


def test_the_needle_pays_the_price():
    r"""At the reach the needle gets half of the row, one token further it does not."""
    reaches = [page.needle_reach(slope)[0] for slope in slopes(8).double().tolist()]
    assert reaches[0] < 20 and reaches == sorted(reaches)
    slope, reach = slopes(8)[2].item(), reaches[2]
    for distance, holds in ((reach, True), (reach + 1, False)):
        logits = -slope * torch.arange(5000, dtype=torch.float64)
        logits[distance] += page.NEEDLE_LOGIT
        assert (logits.softmax(-1)[distance] >= 0.5).item() == holds


@pytest.mark.parametrize("gap, word", [(0.0, "ignores"), (0.02, "suffers"), (-0.02, "extrapolates")])
def test_the_reading_follows_the_gap(gap, word):
    cut = [2.0, 2.1, 2.2]
    assert word in page.reading([loss + gap for loss in cut], cut)


def test_the_maps_show_what_is_left_of_a_key_and_no_two_heads_alike():
    maps = [axes.images[0].get_array() for axes in page.bias_figure().axes if axes.images]
    for picture, slope in zip(maps, (1 / 4, 1 / 16, 1 / 64, 1 / 256), strict=True):
        assert picture[100, 60] == pytest.approx(math.exp(-40 * slope)) and picture[7, 7] == 1 and picture.mask[7, 8]
    assert maps[-1].min() > 0.5  # as the picture's text says
