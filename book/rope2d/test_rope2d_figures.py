r"""What the explorables of two axes and more draw, against the method."""

import math

import pytest
import torch

import posenc
from posenc.chapters.rope2d import figures as rope2d
from posenc.rotate.rope2d import rotate


def trace(figure, words):
    return next(trace for trace in figure["data"] if words in trace["name"])


@pytest.mark.parametrize("deal", rope2d.DEALS)
def test_bars_are_cosines_of_the_rotated_pair_of_tokens(deal):
    words, row, column = 5, 2, 1
    figure, readouts = rope2d.ids.fn(words=words, row=row, column=column, deal=deal)
    ids = posenc.mrope.positions_for([words, (1, 4, 4), 4])
    freqs = posenc.mrope.dealt(32, base=10000.0, **rope2d.DEALS[deal])
    x = torch.ones(2, 32, dtype=torch.float64)
    key, word = rotate(x, ids[[words + row * 4 + column, -1]], freqs, "half").view(2, 2, 16)
    wanted = (key * word).sum(0) / 2
    drawn = torch.full((16,), math.nan, dtype=torch.float64)
    for name in rope2d.AXES:
        bars = trace(figure, f"cos of the angle, {name}")
        drawn[bars["x"]] = bars["y"]
    torch.testing.assert_close(drawn, wanted)
    assert readouts["score"] == pytest.approx(wanted.mean().item())
    torch.testing.assert_close(torch.as_tensor(trace(figure, "row")["y"]), ids[:, 1])
