r"""What the explorables of ExpoSB draw, against the method."""

import pytest
import torch

from posenc.lab.figures import exposb
from posenc.several.exposb import FORMS, fade


def traces(figure):
    return {trace["name"]: trace for trace in figure["data"]}


def drawn(form, level):
    """Logits before and after the fade, by distance, as the two ends of each key's line, and the change below."""
    lines = traces(exposb.fading.fn(form=form, level=level)[0])
    x, y = (torch.as_tensor(lines["the way of each logit"][axis]).view(-1, 3) for axis in "xy")
    return x[:, 0], y[:, 0], y[:, 1], lines


@pytest.mark.parametrize("level", [-3, 0, 3])
def test_a_fade_on_logits_lifts_those_below_zero_and_lowers_those_above(level):
    far, before, after, lines = drawn("logits", level)
    torch.testing.assert_close(after, before * fade(far, exposb.RATE, exposb.FLOOR))
    moved = far > 0
    assert set(lines["lifted"]["x"].tolist()) == set(far[moved & (before < 0)].tolist())
    assert set(lines["lowered"]["x"].tolist()) == set(far[~moved | (before > 0)].tolist())


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
    assert readouts["even"] == lines["even lane"]["y"][2] and readouts["odd"] == lines["odd lane"]["y"][2]
    assert lines["this pair"]["x"][0] == lines["part that turns with m + n"]["x"][2]
