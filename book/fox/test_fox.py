r"""The FoX chapter's numbers against its figures, closed forms and the frozen results."""

import math

import pytest
import torch

from posenc.bias.fox import decay
from posenc.chapters.fox import facts as page
from posenc.chapters.fox import figures


def test_alibi_forgets_by_the_clock_and_one_door_does_not():
    odds = math.exp(page.TITLE_LOGIT)
    title, old = page.shares(decay(page.chapter_gates()))
    assert title == pytest.approx(odds / (odds + page.CHAPTER - 1))
    left = (odds + page.CHAPTER - 1) * page.DOOR
    assert old == pytest.approx(left / (left + page.AFTER))
    for slope in page.SLOPES:
        by_clock = page.shares(page.penalty(slope))
        assert by_clock[0] < title and by_clock[1] > 2 * old


def test_the_door_after_the_period_forgets_the_sentence_and_its_period():
    numbers = {name: float(value) for name, value in page.hand_numbers().items()}
    after = numbers["hand_gate"] / (5 * numbers["hand_gate"] + 7)  # five keys behind the door, seven before it
    assert numbers["hand_first"] == pytest.approx(4 * after, abs=1e-3)
    assert numbers["hand_period"] == pytest.approx(after, abs=1e-3)
    _, readouts = figures.gates.fn(preset=figures.ALL_OPEN, token=5, gate=numbers["hand_gate"], query=11)
    assert readouts["first"] == pytest.approx(numbers["hand_first"], abs=1e-3)
    _, at_period = figures.gates.fn(preset=figures.ALL_OPEN, token=4, gate=numbers["hand_gate"], query=11)
    assert at_period["period"] > 10 * readouts["period"]  # a gate is no part of its own product


def test_a_gradient_summed_forward_is_another():
    dleft = torch.randn(2, 5, 5, dtype=torch.float64).tril()
    forward = (dleft.sum(-1) - dleft.sum(-2)).cumsum(-1)
    assert (page.gradient_by_hand(dleft) - forward).abs().max() > 0.1


def test_what_is_said_of_the_first_layer_is_in_the_results():
    """It reads the character alone: a newline has one gate there, whatever stood before it."""
    for seed in page.GATES["arms"]["fox"]["heads"]:
        assert seed["newline"][0] == pytest.approx(seed["paragraph end"][0], abs=1e-5)
        later = [torch.tensor(seed[name])[1:] for name in ("newline", "paragraph end")]
        assert (later[0] - later[1]).abs().max() > 0.05


@pytest.mark.parametrize("preset", figures.PRESETS)
def test_gates_by_hand_draw_the_decay(preset):
    lines = figures.gates.evaluate(dict(preset=preset, token=7, gate=0.5, query=9))
    gates = torch.tensor(figures.PRESETS[preset], dtype=torch.float64)
    gates[7] = 0.5
    drawn = torch.as_tensor(lines["D"]["y"])
    torch.testing.assert_close(drawn[:10], decay(gates.log())[9, :10])
    assert drawn[10:].isnan().all()
    weights = torch.as_tensor(lines["weight of each key"]["y"])
    assert weights.sum().item() == pytest.approx(1) and (weights[10:] == 0).all()
    assert sum(lines["readout"][name] for name in ("first", "period", "rest")) == pytest.approx(1)


@pytest.mark.parametrize("uneven, same", [(0.0, True), (0.5, False)])
def test_even_gates_are_alibi_and_uneven_ones_are_not(uneven, same):
    lines = figures.alibi.evaluate(dict(slope=0.25, uneven=uneven, query=15))
    staircase, line = (torch.as_tensor(lines[name]["y"]) for name in ("FoX", "ALiBi"))
    assert torch.allclose(staircase, line) is same
    assert ("same" in lines["readout"]["words"]) is same
    assert staircase[-1] == 0 and (staircase.diff() > 0).all()
