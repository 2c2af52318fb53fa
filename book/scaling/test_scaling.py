"""What the chapter Longer than trained computes beside its text: closed forms."""

import math

import pytest

from posenc.chapters.scaling import facts as page


def test_yarn_keeps_fast_pairs_whole_and_divides_slow_ones():
    turns = [4096 / (2 * math.pi * 10_000 ** (i / 64)) for i in range(64)]
    kept = [min(max((turn - 1) / 31, 0), 1) for turn in turns]
    wanted = [share + (1 - share) / 8 for share in kept]
    assert page.remaining_share(128, 4096, "rotations").tolist() == pytest.approx(wanted, abs=1e-9)


def test_several_claims_are_as_good_as_the_worst():
    assert page.worst_verdict(["came true", "not decided"]) == "not decided"
    assert page.worst_verdict(["not decided", "failed", "came true"]) == "failed"


def test_partial_rotary_wants_the_lanes_that_turn():
    right, wrong = page.partial_divisors(rotary=8, head_dim=16)
    assert right == pytest.approx(8) and wrong == pytest.approx(8 ** (2 * 3 / 14))
