"""What the chapter Longer than trained computes and draws beside its text: closed forms."""

import math

import pytest

from posenc.chapters.scaling import facts as page
from posenc.chapters.scaling import figures


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


def test_yarn_and_llama3_leave_no_angle_unseen_at_their_target_and_ntk_does():
    unseen = {scheme: figures._angles(scheme, 8, 8)[1]["blind"] for scheme in figures.NAMES}
    slow = sum(2 * math.pi * 10_000 ** (i / 64) > 4096 for i in range(64))  # pairs that did not finish a turn
    assert unseen.pop(figures.PLAIN) == slow
    assert unseen.pop("NTK") == slow - 1  # the last pair alone is divided by s
    assert set(unseen.values()) == {0}
    for scheme in figures.NAMES:
        assert figures._angles(scheme, 8, 1)[1]["blind"] == 0, "at the trained length nothing is unseen"
        assert figures._angles(scheme, 8, 16)[1]["blind"] > 0


@pytest.mark.parametrize("keys", [4096, 32_768])
@pytest.mark.parametrize("strength", [0.0, 0.1])
@pytest.mark.parametrize("spread", [0.5, 1.0])
def test_entropy_of_many_normal_logits(keys, spread, strength):
    r"""ln n - (spread of the logits)^2 / 2, and the factor multiplies the spread."""
    factor = (strength * math.log(keys / 4096) + 1) ** 2
    entropy = figures._dilution(keys, spread, strength)
    assert entropy == pytest.approx(math.log(keys) - (factor * spread) ** 2 / 2, abs=0.03)
