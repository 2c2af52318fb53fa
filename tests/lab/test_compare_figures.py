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
        for at, tooltip in enumerate(drawn[METHODS[name].title]["text"]):
            for both in ("whole", "cut"):
                assert f"{np.mean(values[both], axis=0)[at]:.2f} ±" in tooltip
            lines = tooltip.split("<br>")
            assert len(lines) <= 2 and max(map(len, lines)) <= 32  # leaves the plot in sight on a phone
        low, *_, high = np.array(values[kind]).mean(0)
        said = compare._slopes(attention, compare.CURVES.index(name))[1]
        assert said["ends"] == f"{low:.2f} → {high:.2f}"
        assert said["rise"].startswith(compare.signed(high - low, 2))


@pytest.mark.parametrize("attention", ["whole", "cut to 64"])
def test_names_stand_apart_near_their_lines(attention):
    for method, name in enumerate(compare.CURVES):
        drawn = traces(compare._slopes, attention, method)
        names = sorted(drawn["names"]["y"])
        assert min(np.diff(names)) > 0.9 * compare.GAP and compare.BOTTOM < names[0] and names[-1] < compare.TOP
        assert f"<b>{compare.short(name)}</b>" in drawn["names"]["text"]
        ends, beside = (np.array(drawn["from line to name"]["y"][i::3]) for i in (0, 1))
        assert max(abs(ends - beside)) < 2 * compare.GAP
        assert {min(ends), max(ends)} == {
            f([drawn[METHODS[m].title]["y"][-1] for m in compare.CURVES]) for f in (min, max)
        }


@pytest.mark.parametrize("puzzle", list(compare.PUZZLES))
def test_every_seed_has_a_dot(puzzle):
    result = load_results(compare.PUZZLES[puzzle])
    drawn = traces(compare._puzzles, puzzle)
    for trace, column in zip(("as trained", "outside"), result["contrast"]):
        scores = [score for values in result["methods"].values() for score in values["scores"][column]]
        assert sorted(drawn[trace]["x"]) == sorted(scores)


@pytest.mark.parametrize("puzzle", list(compare.PUZZLES))
def test_who_did_not_learn_the_puzzle_stands_at_the_foot(puzzle):
    result = load_results(compare.PUZZLES[puzzle])
    inside = {METHODS[m].title: np.mean(v["scores"][result["contrast"][0]]) for m, v in result["methods"].items()}
    figure, said = compare._puzzles(puzzle)
    axis = figure["layout"]["yaxis"]
    rows = [title for _, title in sorted(zip(axis["tickvals"], axis["ticktext"]))]  # from the foot up
    failed = [title for title in rows if title.endswith(" (✗)")]
    assert rows[: len(failed)] == failed and said["learned"] == f"{len(rows) - len(failed)} of {len(rows)}"
    assert {title.removesuffix(" (✗)") for title in failed} == {t for t, wrong in inside.items() if wrong > 0.1}


def test_the_puzzles_do_not_open_on_the_answer():
    assert compare.puzzles.default_state()["puzzle"] != "needle"
