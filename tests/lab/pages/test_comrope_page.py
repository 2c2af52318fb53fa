r"""The chapter on rotations that commute: its numbers against closed forms and the methods."""

import math

import pytest
import torch

from posenc.lab.pages import comrope as page
from posenc.rotate.comrope import comrope
from posenc.rotate.liere import liere, rotation, skew


def test_only_liere_minds_where_the_pair_stands():
    for name, encoding in page.heads().items():
        scores = page.moved_scores(encoding)
        assert (max(scores) - min(scores) < 1e-12) == ("LieRE" not in name), name
    low, high = page.moved_numbers().values()
    assert float(high) - float(low) > 0.1


def test_the_table_by_hand():
    assert page.hand_scores() == [-1, -1]


def test_each_claim_is_checked_and_can_fail():
    assert max(page.check_errors().values()) < 1e-12
    free = skew(page.normal(2, 1, 4, 4))
    assert page.relativity_error(free, page.normal(9, 2), page.normal(9, 2, seed=2)) > 0.1
    symmetric = torch.diag(torch.tensor([1.0, -1.0], dtype=torch.float64))[None, None]
    assert page.relativity_error(symmetric, [[1]], [[0]]) == pytest.approx(math.e - 1 / math.e)


@pytest.mark.parametrize("form, block", [("ap", 2), ("ap", 4), ("ap", 8), ("ld", 2), ("ld", 3), ("ld", 8)])
def test_commuting_generators_are_planes_of_mixed_rope(form, block):
    torch.manual_seed(1)
    encoding = comrope(24 if block == 3 else 16, 1, form, block=block).double()
    assert max(page.plane_errors(encoding).values()) < 1e-11
    _, freqs = page.planes(page.whole(encoding))
    if form == "ap":  # axial: one axis a plane
        assert (freqs.abs().min(0)[0] < 1e-12).all() and (freqs.abs().max(0)[0] > 1e-6).all()
    if block == 3:  # one lane of three never turns
        assert int((freqs.abs().max(0)[0] < 1e-9).sum()) == 4


def test_generators_that_do_not_commute_have_no_planes():
    torch.manual_seed(0)
    assert page.plane_errors(liere(16, 1, block=4).double())["generators from planes"] > 0.1


def test_counts():
    axial, mixed, free, ap, ld = page.heads(16, 4).values()
    assert [page.learned(e) for e in (axial, mixed, free, ap, ld)] == [0, 16, 2 * 4 * 16, 4 * 16, 4 * 16 + 2 * 4]
    assert [page.free_numbers(e) for e in (axial, mixed, free, ap, ld)] == [0, 16, 2 * 4 * 6, 4 * 6, 4 * (6 + 1)]
    assert page.turn_products(16, 4) == 16 * 4 and page.turn_products(16, 16) == 16 * 16
    lines = page.counts_table(16, 4).data.splitlines()
    assert len(lines) == 8 and "not relative" in lines[4] and "256" in lines[-1]


@pytest.mark.parametrize("block", [2, 4, 8])
def test_what_scores_see_is_the_rank_of_the_frequencies(block):
    """LD's frequencies theta_(a, j) mu_(j, i), differentiated by both."""
    blocks, planes = 16 // block, block // 2

    def freqs(theta, speeds):
        return theta[..., None] * speeds

    parts = page.normal(2, blocks), page.normal(blocks, planes, seed=2)
    jacobian = torch.autograd.functional.jacobian(freqs, parts)
    rank = torch.linalg.matrix_rank(torch.cat([j.reshape(2 * blocks * planes, -1) for j in jacobian], 1)).item()
    assert page.seen_numbers("ld", 16, block) == rank
    assert page.seen_numbers("ap", 16, block) == 8
    assert page.seen_numbers("mixed", 16, block) == 16 >= rank


def test_cayley_is_orthogonal_and_no_multiple_of_the_step():
    plane = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    for steps in (1, 3):
        turned = page.cayley(steps * plane)
        assert math.atan2(turned[1, 0], turned[0, 0]) == pytest.approx(2 * math.atan(steps / 2))
        assert page.orthogonality_error(turned) < 1e-14
    assert page.orthogonality_error(torch.full((2, 2), math.nan)) == math.inf


def test_larger_blocks_start_faster_and_wider():
    speeds = {block: page.start_speeds(block) for block in page.STARTS}
    fastest = [speeds[block][:, -1].median() for block in page.STARTS]
    ratio = [(speeds[block][:, -1] / speeds[block][:, 0]).median() for block in page.STARTS]
    assert fastest == sorted(fastest) and ratio == sorted(ratio)
    assert all(s.shape == (page.DRAWS, block // 2) and (s >= 0).all() for block, s in speeds.items())


def test_the_paper_s_differences():
    numbers = page.paper_numbers()
    assert numbers["shaken"] == f"{50.99 - 42.66:.2f}" and numbers["lead_ld"] == f"{53.64 - 52.51:.2f}"
    assert numbers["shaken_rest"] == f"{54.02 - 53.81:.2f} to {55.29 - 53.64:.2f}"
    lines = page.paper_table().data.splitlines()
    assert f"+{57.04 - 49.68:.2f}" in lines[2] and f"+{61.83 - 60.74:.2f}" in lines[-1]


def test_the_card_is_the_method():
    torch.manual_seed(0)
    n, m, b = 2, 4, 4
    places = torch.cartesian_prod(torch.arange(3), torch.arange(3)).double()
    for form in ("ap", "ld"):
        encoding = comrope(m * b, 1, form, block=b).double()
        matrices = encoding.rotate.matrices.detach()[0]
        seen = places[:, torch.arange(m) % n] if form == "ap" else places @ encoding.rotate.theta.detach()[0]
        rotations = torch.linalg.matrix_exp(seen[..., None, None] * (matrices - matrices.mT))
        wanted = rotation(places, encoding.rotate.generators().detach()[0])
        torch.testing.assert_close(rotations, wanted, atol=1e-13, rtol=0)
        x = page.normal(9, m * b)
        own = (rotations @ x.unflatten(-1, (m, b))[..., None]).flatten(-3)
        torch.testing.assert_close(own, page.turned(encoding, x, places), atol=1e-12, rtol=0)
