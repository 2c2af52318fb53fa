r"""The ExpoSB chapter: checks that notice a wrong formula, and what its prose concludes from the frozen results."""

import math

import pytest
import torch

from posenc.lab.pages import ablation, print_errors
from posenc.lab.pages import exposb as page
from posenc.several.exposb import fade


def test_the_checks_see_another_fade(monkeypatch):
    monkeypatch.setattr(page, "fade", lambda distance: fade(distance) ** 1.001)
    with pytest.raises(AssertionError):
        print_errors(page.check_errors(), limit=1e-9)


def test_plain_rope_is_not_the_chapters_lines():
    def plain_rope(q, k):
        at = torch.arange(len(q))
        q, k = (page.posenc.rope.rotate(x, at, page.inv_freq(q.shape[-1])) for x in (q, k))
        return (q @ k.T / q.shape[-1] ** 0.5).masked_fill(at[:, None] < at, -math.inf).softmax(-1)

    with pytest.raises(AssertionError):
        page.check_short(plain_rope)


def test_by_hand():
    assert page.wavelengths() == pytest.approx((2 * math.pi * 10000**0.25, 2 * math.pi * 100))
    f, z = torch.tensor([5 / 8, 3 / 4, 1.0], dtype=torch.float64), -2.0  # three bad keys
    expected = {"logits": (f * z).softmax(-1), "weights": f / 3, "log": f / f.sum()}
    for form, weights in page.hand_weights().items():
        assert weights == pytest.approx(expected[form].tolist(), abs=1e-6)
    weights = (4 * (0.7 + 0.3 * torch.exp(-0.005 * torch.arange(1024.0, dtype=torch.float64)))).exp()
    assert page.equal_share(4.0, 1024) == pytest.approx((weights[:64].sum() / weights.sum()).item())


def test_what_the_prose_concludes_is_in_the_results():
    first, last = ablation.ends()
    change = {arm: ablation.beside(arm, last)[0] for arm in page.ARMS}
    assert all(abs(ablation.beside(arm, first)[0]) < ablation.text()["tolerance"] for arm in page.ARMS)
    assert change["exposb_logits"] < -0.3 and change["exposb"] < -0.2 and -0.1 < change["exposb_log"] < 0
    assert change["exposb_logits"] < change["exposb_weights"] < change["exposb_log"]
    assert abs(change["exposb_band"]) < 0.1 and abs(change["exposb_pairs"]) < 0.1
    far = {arm: row["scores"]["far"] for arm, row in ablation.needle()["methods"].items()}
    missed = {arm: sum(values) / len(values) for arm, values in far.items()}
    assert all(missed[arm] > max(0.4, missed["rope"] - 0.05) for arm in page.ARMS)
