"""Extrapolates, or ignores?: the words for the three models, and the mask of the cut."""

import matplotlib.pyplot as plt
import pytest

from posenc.chapters.extrapolates import facts as extrapolates
from posenc.lab.experiments import in_longer


@pytest.mark.parametrize(
    "short, whole, cut, word",
    [
        ([1.60, 1.61], [1.70, 1.71], [1.90, 1.91], "breaks"),
        ([1.60, 1.61], [1.63, 1.72], [1.90, 1.91], "not decided"),  # one seed within the tolerance, one beyond it
        ([1.60, 1.61], [1.62, 1.63], [1.75, 1.76], "extrapolates"),
        ([1.60, 1.61], [1.62, 1.63], [1.6205, 1.6305], "ignores"),
        ([1.60, 1.61], [1.62, 1.63], [1.60, 1.61], "suffers"),
        ([1.60, 1.61], [1.62, 1.63], [1.75, 1.62], "holds"),  # two seeds that say the opposite
    ],
)
def test_the_word_for_a_longer_context(short, whole, cut, word):
    assert in_longer(short, whole, cut, tolerance=0.05) == word


def test_the_masks_keep_what_a_query_may_see():
    extrapolates.masks_figure()
    whole, cut = (axes.collections[0].get_array().reshape(12, 12) for axes in plt.gcf().axes)
    plt.close()
    for i in range(12):
        for j in range(12):
            assert (whole[i, j] > 0) == (j <= i) and (cut[i, j] > 0) == (j <= i and i - j < 4)
