r"""The chapter on the need for position: tables that count, and what its prose concludes from the frozen results."""

import torch

from posenc.lab.pages import why_position as page


def test_shares_of_a_text_that_can_be_counted_by_hand():
    r"""In "abaab" a is followed by b twice and by a once, b by a once."""
    text = torch.tensor([0, 1, 0, 0, 1])
    shares = page.shares(text[:-1], text[1:], 2, torch.tensor([[1.0, 1.0]]))
    assert torch.allclose(shares, torch.tensor([[2 / 5, 3 / 5], [2 / 3, 1 / 3]], dtype=torch.float64))


def test_places_by_hand():
    r"""The last proof's weights for three tokens, 11, 5 and 2 eighteenths, and equal ones after one layer."""
    torch.set_default_dtype(torch.float64)
    try:
        one, two = page.shares_of_places(3)
    finally:
        torch.set_default_dtype(torch.float32)
    assert torch.allclose(18 * two, torch.tensor([11.0, 5, 2]).to(two)) and torch.allclose(
        3 * one, torch.ones_like(one)
    )
