"""What the chapter Longer than trained computes beside its text: closed forms, and what is refused."""

import math

import pytest
import torch

from posenc.lab.pages import scaling as page


def test_yarn_keeps_fast_pairs_whole_and_divides_slow_ones():
    turns = [4096 / (2 * math.pi * 10_000 ** (i / 64)) for i in range(64)]
    kept = [min(max((turn - 1) / 31, 0), 1) for turn in turns]
    wanted = [share + (1 - share) / 8 for share in kept]
    assert page.remaining_share(128, 4096, "rotations").tolist() == pytest.approx(wanted, abs=1e-9)


def test_several_claims_are_as_good_as_the_worst():
    assert page.worst_verdict(["came true", "not decided"]) == "not decided"
    assert page.worst_verdict(["not decided", "failed", "came true"]) == "failed"


def test_entropy_of_a_softmax_by_its_definition():
    logits = torch.tensor([[0.0, 1.0, -2.0], [3.0, 3.0, 3.0]], dtype=torch.float64)
    weights = logits.softmax(-1)
    assert page.entropy(logits).item() == pytest.approx(-(weights * weights.log()).sum(-1).mean().item())


def test_a_factor_that_does_not_come_nearest_is_refused():
    counts = page.effective_keys()
    with pytest.raises(AssertionError):
        page.effective_table(counts | {"t on both": counts["none"]})


def test_partial_rotary_wants_the_lanes_that_turn():
    right, wrong = page.partial_divisors(rotary=8, head_dim=16)
    assert right == pytest.approx(8) and wrong == pytest.approx(8 ** (2 * 3 / 14))
