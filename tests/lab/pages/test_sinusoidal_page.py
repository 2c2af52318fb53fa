r"""The sinusoidal chapter: numbers by hand, and what its prose concludes from the frozen results."""

import math

import pytest

from posenc.lab.pages import sinusoidal as page


def test_a_binary_code_jumps_by_the_bits_that_change():
    jumps = page.binary_jumps()
    assert [jump.item() for jump in jumps] == pytest.approx([math.sqrt(bin(p ^ (p + 1)).count("1")) for p in range(31)])


def test_the_numbers_by_hand():
    r"""C = 4, base 100: the rows and products that the chapter prints."""
    said = page.hand_numbers()
    assert said["hand_p1"] == "(0.841, 0.540, 0.100, 0.995)"  # sin 1, cos 1, sin 0.1, cos 0.1
    assert said["hand_01"] == said["hand_12"] == f"{math.cos(1) + math.cos(0.1):.3f}"
    assert said["hand_02"] == f"{math.cos(2) + math.cos(0.2):.3f}"
    assert said["hand_12_terms"] == "0.765 − 0.225 + 0.020 + 0.975"
    theirs = (math.sin(1), math.sin(0.01), math.cos(1), math.cos(0.01))  # its last frequency is 1/b
    assert said["hand_theirs"] == "(" + ", ".join(f"{v:.3f}" for v in theirs) + ")"
    assert page.volume_ratios(512) == {"louder_paper": f"{math.sqrt(2):.2f}", "louder_torch": f"{math.sqrt(1024):.0f}"}


def test_rounding_grows_on_all_clocks_but_the_first():
    near, far = page.worst_rounding(0, 4097), page.worst_rounding(1_000_000, page.FAR)
    assert near[0] < 1e-7 and far[0] < 1e-7  # p * 1 is exact: what is left is the rounding of the sine itself
    assert 0 < near.argmax() <= 3 and far.max() > 10 * near.max()
