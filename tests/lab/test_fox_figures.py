r"""What the explorables of FoX draw, against the method."""

import math

import pytest
import torch

from posenc.bias.fox import decay
from posenc.lab.figures import fox


def trace(figure, words):
    return next(trace for trace in figure["data"] if trace["name"].startswith(words))


@pytest.mark.parametrize("preset", fox.PRESETS)
def test_gates_by_hand_draw_the_decay(preset):
    figure, readouts = fox.gates.fn(preset=preset, token=7, gate=0.5, query=9)
    gates = torch.tensor(fox.PRESETS[preset], dtype=torch.float64)
    gates[7] = 0.5
    drawn = torch.as_tensor(trace(figure, "D")["y"])
    torch.testing.assert_close(drawn[:10], decay(gates.log())[9, :10])
    assert drawn[10:].isnan().all()
    weights = torch.as_tensor(trace(figure, "weight")["y"])
    assert weights.sum().item() == pytest.approx(1) and (weights[10:] == 0).all()
    assert readouts["first"] + readouts["period"] + readouts["rest"] == pytest.approx(1)


def test_the_presets_are_what_they_are_called():
    assert set(fox.PRESETS[fox.ALL_OPEN]) == {1.0}
    (constant,) = set(fox.PRESETS[fox.ALIBI])
    assert math.log(constant) == pytest.approx(-fox.SLOPE)
    shut = [token for token, gate in zip(fox.TOKENS, fox.PRESETS[fox.AT_PERIODS]) if gate < 1]
    assert shut == [".", "."]


@pytest.mark.parametrize("uneven, same", [(0.0, True), (0.5, False)])
def test_even_gates_are_alibi_and_uneven_ones_are_not(uneven, same):
    figure, readouts = fox.alibi.fn(slope=0.25, uneven=uneven, query=15)
    staircase, line = (torch.as_tensor(trace(figure, words)["y"]) for words in ("FoX", "ALiBi"))
    assert torch.allclose(staircase, line) is same
    assert ("same" in readouts["words"]) is same
    assert staircase[-1] == 0 and (staircase.diff() > 0).all()


def test_trained_gates_leave_nothing_after_the_query():
    figure, _ = fox.trained.fn(layer=2, head=3, query=31)
    left = torch.as_tensor(trace(figure, "D")["y"])
    assert left[31] == 0 and left[32:].isnan().all() and (left[:31].diff() > 0).all()


def test_the_stretches_part_the_line_at_its_first_period():
    figure, readouts = fox.gates.fn(**fox.gates.default_state())
    spans = [(first, last) for first, last, _ in fox.STRETCHES.values()]
    period = fox.TOKENS.index(".")
    assert spans == [(0, period - 1), (period, period), (period + 1, len(fox.TOKENS) - 1)]
    bars = trace(figure, "weight")
    weights, tints = torch.as_tensor(bars["y"]), bars["marker"]["color"]
    for (first, last), part in zip(spans, ("first", "period", "rest")):
        assert weights[first : last + 1].sum().item() == pytest.approx(readouts[part])
        assert len(set(tints[first : last + 1])) == 1
    assert len(set(tints)) == 3 and weights[0] < 0.1 * weights[period]  # the door forgets what is before it
