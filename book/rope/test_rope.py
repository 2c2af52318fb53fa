"""What the chapter RoPE computes beside its text, by other roads."""

import math

import pytest
import torch

from posenc.chapters.rope import facts as page


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
    head, none = page.HEADS["heads"][0], torch.zeros(len(page.SPEEDS), dtype=torch.bool)
    speeds = page.HEADS["inv_freq"]
    wanted = sum(c * math.cos(5 * f) + s * math.sin(5 * f) for c, s, f in zip(head["cos"], head["sin"], speeds))
    assert page.scores_of(head, none)[5].item() == pytest.approx(wanted)
    still = page.scores_of(head, ~none)[page.L - 1 :]
    assert torch.allclose(still, still[:1])


def test_what_stopping_the_fast_pairs_saves_is_the_rest_of_the_rise():
    rise, less = page.rises(), float(page.lane_numbers()["fast_less"])
    assert rise["fast"] + less == pytest.approx(rise["none"], abs=1e-3)
