r"""Examples and numbers of chapters by hand and by closed forms; a chapter with more of them has a file of its own."""

import math

import pytest
import torch

import posenc
from posenc.chapters.exposb import facts as exposb
from posenc.chapters.gradients.figures import logit_gradient
from posenc.chapters.learned import facts as learned
from posenc.chapters.practice import facts as practice
from posenc.chapters.rope_closely import facts as rope_closely
from posenc.chapters.rse import facts as rse
from posenc.chapters.sinusoidal import facts as sinusoidal
from posenc.chapters.stickbreaking import facts as stickbreaking
from posenc.chapters.why_position import facts as why_position


def wide(*values):
    return torch.tensor(values, dtype=torch.float64)


def test_why_position_counts_the_shares_of_a_text():
    r"""In "abaab" a is followed by b twice and by a once, b by a once."""
    text = torch.tensor([0, 1, 0, 0, 1])
    shares = why_position.shares(text[:-1], text[1:], 2, torch.tensor([[1.0, 1.0]]))
    assert torch.allclose(shares, wide([2 / 5, 3 / 5], [2 / 3, 1 / 3]))


def test_sinusoidal_examples():
    r"""C = 4, base 100: the rows and products that the chapter prints."""
    jumps = [jump.item() for jump in sinusoidal.binary_jumps()]
    assert jumps == pytest.approx([math.sqrt(bin(p ^ (p + 1)).count("1")) for p in range(31)])
    said = sinusoidal.hand_numbers()
    assert said["hand_p1"] == "(0.841, 0.540, 0.100, 0.995)"  # sin 1, cos 1, sin 0.1, cos 0.1
    assert said["hand_01"] == said["hand_12"] == f"{math.cos(1) + math.cos(0.1):.3f}"
    assert said["hand_02"] == f"{math.cos(2) + math.cos(0.2):.3f}"
    theirs = (math.sin(1), math.sin(0.01), math.cos(1), math.cos(0.01))  # its last frequency is 1/b
    assert said["hand_theirs"] == "(" + ", ".join(f"{v:.3f}" for v in theirs) + ")"


def test_learned_boxes_are_read_as_well_as_a_sinusoid_can():
    wanted, reading = learned.boxes()
    at = torch.arange(64.0, dtype=torch.float64)
    for lane in (at.sin(), at.cos(), torch.ones_like(at)):
        assert abs((wanted - reading) @ lane) < 1e-4, "what is left is orthogonal to each lane"


def test_rope_closely_scores_of_equal_vectors_follow_the_sum_of_cosines():
    scores = rope_closely.scores()["k = q"]
    for row, d in enumerate(rope_closely.DISTANCES):
        wanted = 2 * sum(math.cos(d * 10_000 ** (-i / 64)) for i in range(64)) / math.sqrt(128)
        assert scores[row].mean().item() == pytest.approx(wanted, abs=0.15)
    assert rope_closely.bounds()[0][2] == pytest.approx(64 * 65 / 2), "at distance 0 the sums are 1, 2, ..., 64"


def test_stickbreaking_finds_the_best_slope():
    r"""Two equal keys: the steepest slope gives all to the nearer one, the mildest hardly tells them apart."""
    logits = wide(-50.0, 3.0, -50.0, 3.0)
    assert stickbreaking.best_slope_weight(logits, -1) == pytest.approx(1.0)
    assert stickbreaking.best_slope_weight(logits, -3) == pytest.approx(0.5, abs=1e-3)  # the mildest


@pytest.mark.parametrize("order", ["first", "recent"])
def test_rse_pieces(order):
    weights, left = rse.pieces(order)
    rest, keys = 1.0, range(5)
    for j in keys if order == "first" else reversed(keys):
        assert weights[j] == pytest.approx(rse.BITES[j] * rest)
        rest *= 1 - rse.BITES[j]
    assert left == pytest.approx(rest)


def test_exposb_weights_and_lanes():
    assert exposb.wavelengths() == pytest.approx((2 * math.pi * 10000**0.25, 2 * math.pi * 100))
    weights = (4 * (0.7 + 0.3 * torch.exp(-0.005 * torch.arange(1024.0, dtype=torch.float64)))).exp()
    assert exposb.equal_share(4.0, 1024) == pytest.approx((weights[:64].sum() / weights.sum()).item())


def test_gradients_row():
    r"""q = (2, 0, 0, 0) on three keys: softmax weights 1/4, 1/2, 1/4, and bites of 1/2, 2/3, 1/2 on a stick."""
    q = wide(2, 0, 0, 0).view(1, 1, 1, 4).requires_grad_()
    k = wide([0, 1, 0, 0], [math.log(2), 0, 0, 1], [0, 0, 1, 0]).view(1, 1, 3, 4)
    v = torch.eye(4, dtype=torch.float64)[:3].view(1, 1, 3, 4)
    dout = wide(2, 0, -4, 0).view(1, 1, 1, 4)
    soft = logit_gradient(q, k, v, dout, posenc.Encoding())[0].flatten()
    stick = logit_gradient(q, k, v, dout, posenc.make("stickbreaking", attend_current=True))[0].flatten()
    (dq,) = torch.autograd.grad(posenc.attention(q, k, v), q, dout)
    assert torch.allclose(soft, wide(5 / 8, 1 / 4, -7 / 8))
    assert torch.allclose(stick, wide(1 / 12, -1 / 9, -13 / 12))
    assert torch.allclose(dq.flatten(), wide(math.log(2) / 8, 5 / 16, -7 / 16, 1 / 8))


def test_practice_costs_stand_in_the_order_of_the_verdict():
    """Ids wrong against a cache cost RoPE most, then restarted ids without a mask, then pads; masks alone hurt NoPE."""
    found = [line.strip("| ").split(" | ") for line in practice.costs_table().data.splitlines()[2:]]
    zero, anew, index, seen, mask, restarted, neither = (float(row[1].split()[0]) for row in found)
    assert zero > anew > restarted > seen > neither > mask == index == 0
    assert all(row[4] == "0" for row in found if row[0].startswith("cached") or "mask alone" in row[0])
