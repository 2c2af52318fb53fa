r"""What the explorables of FoX draw, against the method."""

import pytest
import torch

from posenc.bias.fox import decay
from posenc.chapters.fox import figures as fox


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


@pytest.mark.parametrize("uneven, same", [(0.0, True), (0.5, False)])
def test_even_gates_are_alibi_and_uneven_ones_are_not(uneven, same):
    figure, readouts = fox.alibi.fn(slope=0.25, uneven=uneven, query=15)
    staircase, line = (torch.as_tensor(trace(figure, words)["y"]) for words in ("FoX", "ALiBi"))
    assert torch.allclose(staircase, line) is same
    assert ("same" in readouts["words"]) is same
    assert staircase[-1] == 0 and (staircase.diff() > 0).all()
