r"""The ExpoSB chapter: checks that notice a wrong formula, and what its prose concludes from the frozen results."""

import math

import pytest
import torch

from posenc.lab.figures.exposb import content_logits
from posenc.lab.pages import ablation, print_errors
from posenc.lab.pages import exposb as page
from posenc.several.exposb import band, fade


def test_the_formulas_hold():
    errors = page.check_errors()
    print_errors(errors, limit=1e-9)
    assert errors["all off is RoPE, exactly"] == 0


def test_the_checks_see_another_fade(monkeypatch):
    monkeypatch.setattr(page, "fade", lambda distance: fade(distance) ** 1.001)
    with pytest.raises(AssertionError):
        print_errors(page.check_errors(), limit=1e-9)


def test_gain_and_band_are_not_relative_and_the_band_per_pair_is():
    assert page.shift_change("gain") > 0.01 and page.shift_change("band") > 0.01
    assert page.relative_errors()["relative: band per pair"] < 1e-12


def test_the_level_of_the_logits_decides_what_the_fade_prefers():
    z = content_logits()
    none = page.near_share(z, None)
    assert none == pytest.approx(z.softmax(-1)[: page.NEAR].sum().item())
    assert page.near_share(z - 6, "logits") < none < page.near_share(z, "logits") < page.near_share(z + 6, "logits")
    assert (
        page.near_share(z - 6, "log") == pytest.approx(page.near_share(z, "log")) and page.near_share(z, "log") > none
    )


def test_the_loudest_lane_is_a_quarter_up():
    assert int(band(64).argmax()) == 16
    assert page.wavelengths() == pytest.approx((2 * math.pi * 10000**0.25, 2 * math.pi * 100))


def test_noise_has_no_favorite_distance_and_a_slope_has():
    shares = page.noise_shares()
    assert shares["RoPE"] == pytest.approx(page.NEAR / 1024, abs=0.01) and shares["RoPE, slope 1/64"] > 0.5


def test_three_bad_keys_by_hand():
    f, z = torch.tensor([5 / 8, 3 / 4, 1.0], dtype=torch.float64), -2.0
    expected = {"logits": (f * z).softmax(-1), "weights": f / 3, "log": f / f.sum()}
    for form, weights in page.hand_weights().items():
        assert weights == pytest.approx(expected[form].tolist(), abs=1e-6)


def test_the_page_s_own_lines_are_held_against_posenc():
    def plain_rope(q, k):
        at = torch.arange(len(q))
        q, k = (page.posenc.rope.rotate(x, at, page.inv_freq(q.shape[-1])) for x in (q, k))
        return (q @ k.T / q.shape[-1] ** 0.5).masked_fill(at[:, None] < at, -math.inf).softmax(-1)

    with pytest.raises(AssertionError):
        page.check_short(plain_rope)


def test_the_card_draws_three_factors():
    gain, band, fade = ([line.get_ydata() for line in panel.lines][0] for panel in page.card_figure().axes)
    assert (
        max(gain) == pytest.approx(1.2)
        and max(band) == pytest.approx(1.2)
        and min(fade) == pytest.approx(0.7, abs=0.01)
    )


def test_equal_keys_by_hand():
    f = 0.7 + 0.3 * torch.exp(-0.005 * torch.arange(1024.0, dtype=torch.float64))
    weights = (4 * f).exp()
    assert page.equal_share(4.0, 1024) == pytest.approx((weights[:64].sum() / weights.sum()).item())
    assert page.equal_share(-4.0, 1024) < 64 / 1024 < page.equal_share(4.0, 1024) > 10 * page.equal_share(4.0, 16_384)


def test_claim_by_claim_has_a_verdict_for_each():
    claims = page.claims()
    assert len({claim for claim, _, _ in claims}) == len(claims) == 11
    assert {verdict for _, verdict, _ in claims} == {page.HOLDS, page.PARTLY, page.FAILS}
    assert not any("|" in cell for row in claims for cell in row)  # a bar would end the cell
    assert len(page.claims_table().data.splitlines()) == len(claims) + 2


def test_what_the_prose_concludes_is_in_the_results():
    first, last = ablation.ends()
    change = {arm: ablation.beside(arm, last) for arm in page.ARMS}
    assert all(abs(ablation.beside(arm, first)[0]) < ablation.text()["tolerance"] for arm in page.ARMS)
    assert change["exposb_logits"][0] < -0.3 and change["exposb"][0] < -0.2
    assert -0.1 < change["exposb_log"][0] < 0
    assert change["exposb_logits"][0] < change["exposb_weights"][0] < change["exposb_log"][0]
    assert abs(change["exposb_band"][0]) < 0.1 and abs(change["exposb_pairs"][0]) < 0.1
    far = {arm: row["scores"]["far"] for arm, row in ablation.needle()["methods"].items()}
    missed = {arm: sum(values) / len(values) for arm, values in far.items()}
    assert all(missed[arm] > max(0.4, missed["rope"] - 0.05) for arm in page.ARMS)
