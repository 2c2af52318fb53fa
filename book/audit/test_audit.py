"""Auditing a proposal: sentences that sound code would contradict."""

import pytest

from posenc import rope
from posenc.chapters.audit import facts as audit


def rotation(x, positions, as_printed=False):
    return rope.rotate(x, positions, rope.inv_freq(x.shape[-1], dtype=x.dtype))


@pytest.mark.weekly  # four whole audits
def test_a_sound_rotation_contradicts_what_is_told_of_the_kernel_and_the_essay():
    with pytest.raises(AssertionError):
        audit.masked_numbers(audit.rope_report())
    with pytest.raises(AssertionError):
        audit.check_essay(rotation, rotation, rotation)


def test_no_mechanism_can_stand_for_another():
    reports = audit.mechanisms()
    for told in ("none (RoPE)", "gain by position", "band of lanes", "band, a factor a pair", "fade of logits"):
        other = "gain by position" if told != "gain by position" else "band of lanes"
        with pytest.raises(AssertionError):
            audit.mechanisms_table(reports | {told: reports[other]})
