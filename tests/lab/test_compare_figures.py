r"""The slope graph and the dots of the puzzles: their numbers are those of the frozen files, and names stand apart."""

import numpy as np
import pytest

from posenc.lab.experiments import load_results
from posenc.lab.figures import compare
from posenc.methods import METHODS


def traces(draw, *state):
    return {trace["name"]: trace for trace in draw(*state)[0]["data"]}


@pytest.mark.parametrize("attention, kind", [("whole", "whole"), ("cut to 64", "cut")])
def test_a_line_is_a_row_of_the_results(attention, kind):
    runs = load_results("train_short_test_long")["methods"]
    drawn = traces(compare._slopes, attention, 0)
    for name, values in runs.items():
        np.testing.assert_allclose(drawn[METHODS[name].title]["y"], np.array(values[kind]).mean(0))
        assert f"{np.mean(values[kind], axis=0)[-1]:.2f} ±" in drawn[METHODS[name].title]["hovertemplate"]
        tooltip = drawn[METHODS[name].title]["hovertemplate"].removesuffix("<extra></extra>").split("<br>")
        assert max(map(len, tooltip)) <= 32  # fits beside a point on a phone
    names = sorted(drawn["names"]["y"])
    assert min(np.diff(names)) > 0.9 * compare.GAP and compare.BOTTOM < names[0] and names[-1] < compare.TOP


@pytest.mark.parametrize("puzzle", list(compare.PUZZLES))
def test_every_seed_has_a_dot(puzzle):
    result = load_results(compare.PUZZLES[puzzle])
    drawn = traces(compare._puzzles, puzzle)
    for trace, column in zip(("as trained", "outside"), result["contrast"]):
        scores = [score for values in result["methods"].values() for score in values["scores"][column]]
        assert sorted(drawn[trace]["x"]) == sorted(scores)


def test_the_puzzles_do_not_open_on_the_answer():
    assert compare.puzzles.default_state()["puzzle"] != "needle"
