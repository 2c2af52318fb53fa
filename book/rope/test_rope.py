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


@pytest.mark.parametrize("name", [*figures.DRAWN])
def test_a_shift_moves_all_but_the_score_which_is_that_of_the_angle_between(name):
    state, pair = dict(m=7, n=3), figures.DRAWN[name]
    before, after = (figures.rotation_invariance.evaluate(state | {"shift": shift}) for shift in (0, 10))
    assert before[f"{name}: score"]["text"] == after[f"{name}: score"]["text"]
    for part in ("query", "key"):
        assert before[f"{name}: {part}"]["x"][1] != pytest.approx(after[f"{name}: {part}"]["x"][1])
    for traces, (query, key) in ((before, (7, 3)), (after, (17, 13))):
        assert traces["key's place"]["x"][0] == key and traces["query's place"]["x"][0] == query
        ends = [[traces[f"{name}: {part}"][axis][1] for axis in "xy"] for part in ("query", "key")]
        assert [math.hypot(*end) for end in ends] == pytest.approx([1.3, 1.0])
        there = sum(a * b for a, b in zip(*ends))
        first, last = (math.atan2(y, x) for x, y in figures._content()[:, pair].tolist())
        wanted = 1.3 * math.cos(first - last + 4 * 10_000 ** (-pair / figures.PAIRS))
        assert there == pytest.approx(wanted) and f"{wanted:.2f}" in traces[f"{name}: score"]["text"][0]
