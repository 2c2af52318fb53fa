"""The curves of *One model, five encodings*: their numbers are the frozen ones, their names stand apart on the plot."""

import itertools
import math

import numpy as np
import pytest

from posenc.lab.experiments import load_results
from posenc.lab.figures import one_model

FROZEN = load_results("report_small")["objectives"]
STATES = list(itertools.product(FROZEN, (one_model.TRAINING, one_model.LENGTH), one_model.SHOWN))


def traces(*state):
    return {trace["name"]: trace for trace in one_model._curves(*state)[0]["data"]}


def frozen(objective, show, arm):
    """[places, seeds] of an arm."""
    values = FROZEN[objective]["results"]["methods"][arm]
    return np.array(values["curve"]).T if show == one_model.TRAINING else np.array(list(values["scores"].values()))


@pytest.mark.parametrize("state", STATES, ids=str)
def test_a_line_is_the_mean_over_seeds_of_an_arm_that_is_chosen(state):
    objective, show, arms = state
    drawn = traces(*state)
    for arm, title in one_model.TITLES.items():
        if arm in one_model.SHOWN[arms]:
            np.testing.assert_allclose(drawn[title]["y"], frozen(objective, show, arm).mean(1))
            last = frozen(objective, show, arm)[-1]
            assert drawn[title]["text"][-1].endswith(f"{last.mean():.2f} ± {last.std(ddof=1):.2f}")
        else:
            assert len(drawn[title]["y"]) == 0
    steps = drawn["RoPE"]["x"]
    assert (steps[0], steps[-1]) == ((10, 600) if show == one_model.TRAINING else (85, 340))


def test_a_band_is_one_standard_deviation_to_both_sides():
    outline = traces("masked", one_model.LENGTH, "the report's five")["one standard deviation over seeds"]
    parts = [list(part) for gap, part in itertools.groupby(outline["y"], math.isnan) if not gap]
    for arm, part in zip(one_model.REPORTED, parts, strict=True):
        values = frozen("masked", one_model.LENGTH, arm)
        low, high = values.mean(1) - values.std(1, ddof=1), values.mean(1) + values.std(1, ddof=1)
        np.testing.assert_allclose(part, [*low, *high[::-1], low[0]])


@pytest.mark.parametrize("state", STATES, ids=str)
def test_names_stand_apart_near_the_ends_and_within_the_plot(state):
    objective, show, arms = state
    drawn, (bottom, top) = traces(*state), one_model.RANGES[objective, show]
    names = drawn["names"]
    assert names["text"] == [one_model.TITLES[arm] for arm in one_model.SHOWN[arms]]
    room = one_model.GAP * (top - bottom)
    assert (
        min(np.diff(sorted(names["y"]))) > 0.9 * room and bottom < min(names["y"]) and max(names["y"]) < top - room / 2
    )
    ends = [drawn[title]["y"][-1] for title in names["text"]]
    assert max(abs(np.array(ends) - names["y"])) < 3.2 * room and bottom < min(ends)


@pytest.mark.parametrize("state", STATES, ids=str)
def test_the_line_below_the_figure_names_the_lowest_and_the_highest(state):
    objective, show, arms = state
    ends = {arm: frozen(objective, show, arm)[-1].mean() for arm in one_model.SHOWN[arms]}
    said = one_model._curves(*state)[1]
    for word, which in (("lowest", min), ("highest", max)):
        arm = which(ends, key=ends.get)
        assert said[word] == f"{one_model.TITLES[arm]} {ends[arm]:.2f}"
