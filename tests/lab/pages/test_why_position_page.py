r"""The chapter on the need for position: tables that count, and what its prose concludes from the frozen results."""

import json
import re
import statistics
from pathlib import Path

import pytest
import torch

from posenc.lab.experiments import verdict
from posenc.lab.pages import why_position as page

RESULTS = Path(__file__).resolve().parents[3] / "results"


@pytest.fixture
def double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def test_losses_are_means_over_the_frozen_seeds():
    runs = json.loads((RESULTS / "train_short_test_long.json").read_text())["methods"]["nope"]["whole"]
    assert page.results_numbers()["nope"] == f"{statistics.mean(run[0] for run in runs):.3f}"


def test_a_shift_moves_the_sinusoid_alone(double):
    torch.manual_seed(0)
    changes = page.shift_changes()
    assert len(changes) == 1 + len(page.SHIFTED)
    assert changes.pop("Sinusoidal") > 1e-3 and max(changes.values()) < 1e-12


def test_shares_of_a_text_that_can_be_counted_by_hand():
    r"""In "abaab" a is followed by b twice and by a once, b by a once."""
    text = torch.tensor([0, 1, 0, 0, 1])
    shares = page.shares(text[:-1], text[1:], 2, torch.tensor([[1.0, 1.0]]))
    assert torch.allclose(shares, torch.tensor([[2 / 5, 3 / 5], [2 / 3, 1 / 3]], dtype=torch.float64))


def test_nope_stands_between_the_two_tables():
    one, two = page.table_losses()
    at_train = page.losses("nope")[:, 0]
    assert two < at_train.mean() < one and (at_train > page.losses("nope", "early")[:, 0]).all()


def test_what_the_prose_concludes_of_the_crowd():
    change, crowding = verdict(page.frozen(), "nope").change, page.crowding()
    assert 0.2 * change < crowding[:, -1].mean() < 0.8 * change and crowding[:, -1].min() > 0
    assert crowding[:, 0].mean() > 0.9 * crowding[:, -1].mean()


def test_chopping_hides_what_a_longer_context_costs():
    fixed, chopped = (page.losses("alibi", kind).mean(0) for kind in ("whole", "chopped"))
    assert fixed[-1] > fixed[0] and chopped[-1] < chopped[0]


def test_places_by_hand():
    r"""The last proof's weights for three tokens, 11, 5 and 2 eighteenths, and equal ones after one layer."""
    one, two = page.shares_of_places(3)
    assert torch.allclose(18 * two, torch.tensor([11.0, 5, 2])) and torch.allclose(3 * one, torch.ones(3))


def test_the_lines_of_the_page_are_a_layer_of_means():
    text = (RESULTS.parent / "book" / "why_position.md").read_text("utf-8")
    code = re.search(r"^def mean_of_past.*?\n\n", text, re.M | re.S)[0]
    for change, right in (("", True), (".tril()", False)):
        names = {"torch": torch}
        exec(code.replace(change, ""), names)
        if right:
            page.check_short(names["mean_of_past"])
        else:
            with pytest.raises(AssertionError, match="W_Q = 0"):
                page.check_short(names["mean_of_past"])
