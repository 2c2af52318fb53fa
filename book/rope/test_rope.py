"""What the chapter RoPE computes and draws beside its text, by other roads."""

import math

import pytest
import torch

from posenc.chapters.rope import facts as page
from posenc.chapters.rope import figures


def test_the_example_by_hand_in_halves_keeps_the_scores_and_forgetting_to_reorder_does_not():
    numbers = page.hand_numbers()
    scores, half, wrong = ([numbers[f"s{j}{name}"] for j in range(3)] for name in ("", "_half", "_wrong"))
    assert half == scores != wrong


def test_orthogonal_matrices_that_commute_have_their_planes_in_common():
    """Planes from the eigenvectors of one member, asked of another member at a place that is no whole number."""
    basis = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    rates = torch.tensor([1.0, 0.3, 0.07], dtype=torch.float64)
    one, other = (basis @ page.rotation_matrix(m, rates) @ basis.T for m in (1.0, 2.5))
    values, vectors = torch.linalg.eig(one)
    for value, u in zip(values, vectors.T):
        assert torch.allclose(other.to(u) @ u, value**2.5 * u, atol=1e-12)
        assert abs(u.real @ u.imag) < 1e-12 and torch.isclose(u.real.norm(), u.imag.norm())


def test_a_heads_score_stops_where_all_its_pairs_do():
    head = page.HEADS["heads"][0]
    speeds = page.HEADS["inv_freq"]
    wanted = sum(c * math.cos(5 * f) + s * math.sin(5 * f) for c, s, f in zip(head["cos"], head["sin"], speeds))
    assert page.scores_of(head, page.LASTS[0])[5].item() == pytest.approx(wanted)
    still = page.scores_of(head, torch.tensor(page.L - 1))[page.L - 1 :]
    assert torch.allclose(still, still[:1])


def test_what_stopping_the_fast_pairs_saves_is_the_rest_of_the_rise():
    rise, less = page.rises(), float(page.lane_numbers()["fast_less"])
    assert rise["fast"] + less == pytest.approx(rise["none"], abs=1e-3)


@pytest.mark.parametrize("pair", [0, 1, 7])
def test_a_shift_moves_all_but_the_score_and_the_wave_meets_the_key_at_it(pair):
    state = dict(m=7, n=3, pair=pair)
    before, after = (figures.rotation_invariance.evaluate(state | {"shift": shift}) for shift in (0, 10))
    assert before["readout"] == after["readout"]
    assert before["score"]["y"] == pytest.approx(after["score"]["y"])
    for name in ("query, turned", "key, turned"):
        assert before[name]["x"][1] != pytest.approx(after[name]["x"][1])
    for traces, key in ((before, 3), (after, 13)):
        assert traces["key's place"]["x"].tolist() == [key, key]
        wave = traces["score of this query by the key's place"]
        (there,) = (torch.as_tensor(wave["x"]) == key).nonzero().flatten().tolist()
        assert wave["y"][there].item() == pytest.approx(traces["score"]["y"][0])
