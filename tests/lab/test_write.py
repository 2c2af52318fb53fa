"""What pages share: numbers as the prose prints them, tables, and random numbers of their own."""

import pytest
import torch

from posenc.lab import write


def test_a_number_has_a_true_minus_and_a_name_keeps_its_hyphen():
    assert write.typeset("-0.5 to -3, GPT-2, 1e-9") == "−0.5 to −3, GPT-2, 1e-9"


@pytest.mark.parametrize(
    "values, text",
    [([-1.0, -2.0], "−1.50 ± 0.71"), ([-0.001, 0.0], "0.00 ± 0.00"), ([2.0], "2.00 ± 0.00")],
    ids=["negative", "zero", "single"],
)
def test_mean_and_spread_in_words(values, text):
    assert write.pm(values) == text


def test_a_difference_has_its_sign_and_a_cell_no_break():
    assert write.signed_pm(-0.125, 0.25, 1) == "−0.1 ± 0.2" and write.signed_pm(0.125, 0.25) == "+0.12 ± 0.25"
    assert write.cell([1.0, 2.0], 1) == "1.5\u00a0±\u00a00.7"
    assert [write.listed(names) for names in ([], "a", "ab", "abc")] == ["none", "a", "a and b", "a, b and c"]


def test_numbers_are_said_under_the_name_of_their_page(monkeypatch):
    import myst_nb

    glued = {}
    monkeypatch.setattr(myst_nb, "glue", lambda name, value, display: glued.update({name: value}))
    write.say_all("rope", {"far": "-1.2", "pairs": 8})
    assert glued == {"rope_far": "−1.2", "rope_pairs": "8"}


def test_a_seed_is_kept_to_what_it_is_for():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    first, second = (write.seeded(lambda: torch.rand(3), seed) for seed in (0, 1))
    assert torch.equal(first, write.seeded(lambda: torch.rand(3))) and not torch.equal(first, second)
    assert torch.equal(torch.rand(2), expected)
