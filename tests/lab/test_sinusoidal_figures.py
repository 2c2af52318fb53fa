"""What the explorables of Sinusoidal show, against closed forms."""

import math

import pytest

from posenc.lab.figures import sinusoidal as figures


def traces(figure):
    return {trace["name"]: trace for trace in figure["data"]}


@pytest.mark.parametrize("base", [1e2, 1e4])
def test_a_clock_comes_round_where_its_turn_fits_the_context(base):
    for context in (32, 256):
        figure, readout = figures._clocks(context, base)
        turns = [2 * math.pi * base ** (i / 16) for i in range(16)]
        assert readout["turning"] == sum(turn <= context for turn in turns)
        assert len(traces(figure)["comes round"]["x"]) == 3 * readout["turning"]
        tips = traces(figure)["never comes round"]["y"][1::3].tolist()
        assert tips == pytest.approx([math.log10(turn) for turn in turns if turn > context])


def test_a_bump_stands_where_m_stands_and_the_curves_by_offset_lie_on_one_another():
    for between, parted in zip(figures.BETWEEN, (False, False, True), strict=True):
        figure, readout = figures._inner_product(45, 64, between)
        gap = float(readout["gap"])
        assert gap > 0.1 if parted else gap < 1e-9
        if between == "nothing":
            assert traces(figure)["from m"]["y"].argmax() == 45
            assert traces(figure)["from m, by offset"]["y"].max().item() == pytest.approx(1)


def test_one_step_moves_the_fast_lanes():
    moved = [figures._ladder(32, 1e4, 12)[1]["moved"], figures._ladder(32, 1e2, 12)[1]["moved"]]
    assert 0 < moved[0] < moved[1] < 32
