r"""The ExpoSB chapter: checks that notice a wrong formula, and what its prose concludes from the frozen results."""

import math

import pytest
import torch

from posenc.lab.pages import exposb as page
from posenc.lab.pages import print_errors
from posenc.several.exposb import fade


def test_the_checks_see_another_fade(monkeypatch):
    monkeypatch.setattr(page, "fade", lambda distance: fade(distance) ** 1.001)
    with pytest.raises(AssertionError):
        print_errors(page.check_errors(), limit=1e-9)


def test_by_hand():
    assert page.wavelengths() == pytest.approx((2 * math.pi * 10000**0.25, 2 * math.pi * 100))
    f, z = torch.tensor([5 / 8, 3 / 4, 1.0], dtype=torch.float64), -2.0  # three bad keys
    expected = {"logits": (f * z).softmax(-1), "weights": f / 3, "log": f / f.sum()}
    for form, weights in page.hand_weights().items():
        assert weights == pytest.approx(expected[form].tolist(), abs=1e-6)
    weights = (4 * (0.7 + 0.3 * torch.exp(-0.005 * torch.arange(1024.0, dtype=torch.float64)))).exp()
    assert page.equal_share(4.0, 1024) == pytest.approx((weights[:64].sum() / weights.sum()).item())
