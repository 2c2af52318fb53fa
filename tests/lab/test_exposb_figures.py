r"""What the explorables of ExpoSB draw, against the method."""

import pytest
import torch

from posenc.lab.figures import exposb
from posenc.several.exposb import FORMS, fade


def traces(figure):
    return {trace["name"]: trace for trace in figure["data"]}


def drawn(form, level):
    """Distances, logits before and after the fade, as the two ends of each key's line, and all traces."""
    lines = traces(exposb.fading.fn(form=form, level=level)[0])
    ends = [torch.stack([torch.as_tensor(lines[n][xy]).view(-1, 3) for xy in "xy"]) for n in ("lifted", "lowered")]
    x, y = torch.cat(ends, 1)
    return x[:, 0], y[:, 0], y[:, 1], lines


@pytest.mark.parametrize("level", [-3, 0, 3])
def test_a_fade_on_logits_lifts_those_below_zero_and_lowers_those_above(level):
    far, before, after, lines = drawn("logits", level)
    torch.testing.assert_close(after, before * fade(far, exposb.RATE, exposb.FLOOR))
    assert len(far) == exposb.KEYS // exposb.NEAR and (far > 0).all()
    assert set(lines["lifted"]["x"].tolist()) == set(far[before < 0].tolist())


@pytest.mark.parametrize("form", FORMS)
def test_the_mean_of_the_logits_counts_on_logits_alone(form):
    low, high = (drawn(form, level)[3]["weight against that without the fade"]["y"] for level in (-3, 3))
    if form == "logits":
        assert low[0] < 0 < low[-4:].mean() and high[0] > 0 > high[-4:].mean()
    else:
        torch.testing.assert_close(low, high)
        assert low[0] > low[-4:].mean()


def test_a_student_s_own_factor_is_drawn():
    own = exposb.fading.with_function(fade=lambda distance, rate, floor: torch.ones_like(distance))
    lines = traces(own.fn(form="logits", level=-3)[0])
    assert lines["weight against that without the fade"]["y"].abs().max() < 1e-12


@pytest.mark.parametrize("pair", [1, 4])
def test_the_turning_part_is_what_a_pair_s_score_swings_by(pair):
    part = exposb.turning(8, exposb.LANES)[pair - 1]
    even, odd = exposb.band(8).view(-1, 2)[pair - 1]
    angle = torch.linspace(0, 3.14159265, 101, dtype=torch.float64)  # of a vector with itself, wherever it stands
    score = (even * angle.cos()) ** 2 + (odd * angle.sin()) ** 2
    assert ((score.max() - score.min()) / (score.max() + score.min())).item() == pytest.approx(part.abs().item())
    assert exposb.turning(8, exposb.PAIRS).abs().max() < 1e-12


def test_the_readout_of_the_ladder_is_of_the_chosen_pair():
    figure, readouts = exposb.ladder.fn(which=exposb.LANES, pairs=8, pair=3)
    lines = traces(figure)
    lanes = torch.as_tensor(lines["the two lanes of a pair"]["y"]).view(-1, 3)[2, :2]
    assert [readouts["even"], readouts["odd"]] == lanes.tolist() == [float(y) for y in lines["this pair's lanes"]["y"]]
    assert lines["this pair"]["x"][0] == lines["part that turns with m + n"]["x"][2]


def test_one_offset_scores_the_same_everywhere_with_rope_and_with_the_filter_by_pair_alone():
    at = torch.arange(0.0, 4000.0, 7, dtype=torch.float64)
    for head_dim in (8, 64):
        assert exposb.off_by(head_dim, at, exposb.PAIRS).abs().max() < 1e-9
        assert exposb.off_by(head_dim, at, "gain", 0.0) == pytest.approx(44)  # 1.2 squared, and no decay
        assert exposb.off_by(head_dim, at[-1:], "gain", 0.01).item() == pytest.approx(0, abs=1e-6)
    small, large = (exposb.off_by(head_dim, at, exposb.LANES) for head_dim in (64, 8))
    assert 0.5 < small.max() < large.max() / 4
