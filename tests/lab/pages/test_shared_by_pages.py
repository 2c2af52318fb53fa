"""What pages share: numbers as the prose prints them, tables, and random numbers of their own."""

import re

import pytest
import torch

from posenc.lab import pages


def test_a_number_has_a_true_minus_and_a_name_keeps_its_hyphen():
    assert pages.typeset("-0.5 to -3, GPT-2, 1e-9") == "−0.5 to −3, GPT-2, 1e-9"


@pytest.mark.parametrize(
    "values, text",
    [([-1.0, -2.0], "−1.50 ± 0.71"), ([-0.001, 0.0], "0.00 ± 0.00"), ([2.0], "2.00 ± 0.00")],
    ids=["negative", "zero", "single"],
)
def test_mean_and_spread_in_words(values, text):
    assert pages.pm(values) == text


def test_numbers_are_said_under_the_name_of_their_page(monkeypatch):
    import myst_nb

    glued = {}
    monkeypatch.setattr(myst_nb, "glue", lambda name, value, display: glued.update({name: value}))
    pages.say_all("rope", {"far": "-1.2", "pairs": 8})
    assert glued == {"rope_far": "−1.2", "rope_pairs": "8"}


def test_a_table_has_its_head_and_a_line_for_each_row():
    assert pages.table(["a", "b"], [["x", 1]]).data.split("\n") == ["| a | b |", "| --- | --- |", "| x | 1 |"]


def test_a_seed_is_kept_to_what_it_is_for():
    torch.manual_seed(5)
    expected = torch.rand(2)
    torch.manual_seed(5)
    first, second = (pages.seeded(lambda: torch.rand(3), seed) for seed in (0, 1))
    assert torch.equal(first, pages.seeded(lambda: torch.rand(3))) and not torch.equal(first, second)
    assert torch.equal(torch.rand(2), expected)


def test_the_repository_is_an_owner_and_a_name():
    owner, name = pages.repository().split("/")
    assert owner and name and (pages.ROOT / "pyproject.toml").exists()


def study(short, far, cut, claim="rises"):
    """Results of one method on text: two seeds that agree, at 64 and 512 characters."""
    runs = {"whole": [[short, far]] * 2, "cut": [[short, cut]] * 2}
    return {"methods": {"rope": runs}, "lengths": [64, 512], "tolerance": 0.05, "claims": {"rope": claim}}


@pytest.mark.parametrize(
    "results, words",
    [
        (study(1.5, 3.5, 1.5), "As predicted, RoPE breaks at 8 times .*: what stands beyond .* nearly all the harm"),
        (study(1.5, 3.5, 3.0), "As predicted, RoPE breaks .*: cut, it breaks as well"),
        (study(1.5, 1.5, 1.5), "Against the prediction, RoPE holds .*, and what is far makes no difference"),
        (study(1.5, 1.52, 1.5, "holds"), "As predicted, RoPE holds .*, but what is far does it a little harm"),
        (study(1.5, 1.4, 1.5, "holds"), "As predicted, RoPE holds .*, and it uses what the cut hides"),
    ],
)
def test_a_verdict_has_one_plain_sentence(results, words):
    assert re.match(words, pages.plainly(results, "rope", "RoPE"))


def test_a_harm_that_far_keys_do_in_part_has_no_sentence():
    with pytest.raises(ValueError, match="70% of the rise"):
        pages.plainly(study(1.5, 2.5, 1.8), "rope", "RoPE")
