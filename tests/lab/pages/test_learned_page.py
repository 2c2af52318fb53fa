"""What the chapter Learned positions computes beside its text, by other roads."""

import math

import torch

from posenc.lab.pages import learned as page


def test_the_best_reading_of_the_boxes_leaves_nothing_that_the_sinusoid_holds():
    wanted, reading = page.boxes()
    at = torch.arange(64.0, dtype=torch.float64)
    for lane in (at.sin(), at.cos(), torch.ones_like(at)):
        assert abs((wanted - reading) @ lane) < 1e-4, "what is left is orthogonal to each lane"


def test_the_weights_by_hand():
    half, one = math.exp(0.5), math.exp(1)
    expected = [weight / (2 * half + one) for weight in (half, half, one)]
    assert list(page.hand_numbers().values()) == [f"{weight:.3f}" for weight in expected]


def test_rows_that_no_token_used_only_decay():
    encoding, x = page.table_encoding(torch.randn(6, 4, dtype=torch.float64)), torch.randn(1, 2, 4).double()
    before = encoding.embed.table.detach().clone()
    gap = page.decayed_error(encoding, x, torch.tensor([[1, 4]]), steps=3)
    assert gap.shape == (4, 4) and gap.abs().max() < 1e-12
    torch.testing.assert_close(encoding.embed.table[0], before[0] * 0.999**3)
    assert (encoding.embed.table[1] - before[1] * 0.999**3).abs().min() > 1e-4
