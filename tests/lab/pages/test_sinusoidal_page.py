r"""The sinusoidal chapter: numbers by hand, and what its prose concludes from the frozen results."""

import json
import math
import statistics
from pathlib import Path

import numpy as np
import pytest

from posenc.embed.sinusoidal import table
from posenc.lab.pages import sinusoidal as page

RESULTS = Path(__file__).resolve().parents[3] / "results"


def test_a_gain_is_a_difference_paired_by_seed():
    methods = json.loads((RESULTS / "train_short_test_long.json").read_text())["methods"]
    pairs = [a[0] - b[0] for a, b in zip(methods["nope"]["whole"], methods["sinusoidal"]["whole"])]
    mean, spread = statistics.mean(pairs), statistics.stdev(pairs)
    assert page.results_numbers()["gain"] == f"{mean:.3f} ± {spread:.3f}" and mean > spread


def test_the_first_ideas_fail():
    assert page.number_share(64) < 0.02
    jumps = page.binary_jumps()
    assert [jump.item() for jump in jumps] == pytest.approx([math.sqrt(bin(p ^ (p + 1)).count("1")) for p in range(31)])


def test_each_figure_draws_what_it_says():
    import matplotlib.pyplot as plt

    open_before = plt.get_fignums()
    assert len(page.failure_figure().axes) == 3
    faces = page.clocks_figure().axes
    assert len(faces) == 4
    tips = [face.lines[-1].get_xydata()[0] for face in faces]  # of position 5: base 100, four clocks
    assert np.array(tips) == pytest.approx(
        np.array([[math.sin(5 * 100 ** (-i / 4)), math.cos(5 * 100 ** (-i / 4))] for i in range(4)]), abs=1e-6
    )
    assert plt.get_fignums() == open_before


def test_the_numbers_by_hand():
    r"""C = 4, base 100: the rows and products that the chapter prints."""
    said = page.hand_numbers()
    one = (math.sin(1), math.cos(1), math.sin(0.1), math.cos(0.1))
    assert said["hand_p1"] == "(" + ", ".join(f"{v:.3f}" for v in one) + ")" == "(0.841, 0.540, 0.100, 0.995)"
    assert said["hand_01"] == said["hand_12"] == f"{math.cos(1) + math.cos(0.1):.3f}"
    assert said["hand_02"] == f"{math.cos(2) + math.cos(0.2):.3f}"
    assert said["hand_12_terms"] == "0.765 − 0.225 + 0.020 + 0.975"
    assert said["hand_across"].endswith(f"= {math.sin(2):.3f}") and said["hand_up"].endswith(f"= {math.cos(2):.3f}")
    theirs = (math.sin(1), math.sin(0.01), math.cos(1), math.cos(0.01))  # its last frequency is 1/b
    assert said["hand_theirs"] == "(" + ", ".join(f"{v:.3f}" for v in theirs) + ")"


def test_the_pages_own_lines_are_held_against_posenc():
    page.check_short(lambda m, width, base: table(m.double(), width, base))
    with pytest.raises(AssertionError):
        page.check_short(lambda m, width, base: table(m.double(), width, base, "concatenated"))


def test_how_loud_the_content_is_beside_its_code():
    assert page.volume_ratios(512) == {"louder_paper": f"{math.sqrt(2):.2f}", "louder_torch": f"{math.sqrt(1024):.0f}"}


def test_rounding_grows_on_all_clocks_but_the_first():
    near, far = page.worst_rounding(0, 4097), page.worst_rounding(1_000_000, page.FAR)
    assert near[0] < 1e-7 and far[0] < 1e-7  # p * 1 is exact: what is left is the rounding of the sine itself
    assert 0 < near.argmax() <= 3 and far.max() > 10 * near.max()


def test_the_circulated_row_is_no_sinusoid():
    assert page.misfit() > 0.005  # more than rounding to two digits explains


def test_what_the_prose_concludes_of_the_lengths():
    whole, cut = page.losses("sinusoidal"), page.losses("sinusoidal", "cut")
    assert (whole[:, 1] > page.losses("nope")[:, 1]).all()
    assert 0.5 < page.rise("sinusoidal", "cut").mean() / page.rise("sinusoidal").mean() < 0.95
    assert cut[:, 1].mean() >= whole[:, 1].mean() and (np.diff(cut.mean(0))[1:] < 0).all()
    assert page.rise("sinusoidal", "cut").mean() > page.frozen()["tolerance"] > page.rise("rope", "cut").mean()


def test_what_the_prose_concludes_of_the_volumes():
    volumes = page.volume()["volumes"]
    assert volumes[4] == 1 and volumes[2] == page.volume()["drowned"]
    none, _, quiet, _, right, loud, loudest = (page.at_volume(index) for index in range(len(volumes)))
    assert (none - quiet).mean() / (none - right).mean() < 0.1  # drowned: hardly anything of the gain is left
    saved = none - quiet
    assert (saved > 0).all() and len(saved) == 5  # little, but in every seed
    assert saved.mean() > 2.776 * saved.std(ddof=1) / math.sqrt(5)  # Student's t for five seeds, 95%
    assert abs(right.mean() - loud.mean()) < 0.02 < 0.1 < (loudest - right).mean() and (loudest < none).all()
    longest = [page.at_volume(index, -1).mean() for index in range(len(volumes))]
    assert longest[2:] == sorted(longest[2:]) and max(longest[:3]) - min(longest[:3]) < 0.01  # louder is worse
