r"""The FoX chapter's numbers against its figures, closed forms and the frozen results."""

import math

import pytest
import torch

from posenc.bias.fox import decay
from posenc.chapters.cope import gates
from posenc.chapters.fox import facts as page


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
    at_period = gates.presets("fox")["open"]
    at_period[4] = numbers["hand_gate"]
    assert gates.read("fox", at_period, 11)[1][4] > 10 * numbers["hand_period"]  # a gate is no part of its own product


def test_even_gates_are_alibi():
    left, weights = gates.read("fox", gates.presets("fox")["as ALiBi"], 9)
    assert left.tolist() == pytest.approx([-gates.SLOPE * (9 - j) for j in range(10)]) and weights.argmax() == 9


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
