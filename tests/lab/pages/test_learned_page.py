"""What the chapter Learned positions computes beside its text: from the frozen results, and right."""

import copy
import json
from pathlib import Path
from statistics import fmean

import pytest
import torch

from posenc.lab.pages import learned as page

RESULTS = Path(__file__).resolve().parents[3] / "results"


@pytest.fixture(scope="module")
def frozen():
    return json.loads((RESULTS / "learned_table.json").read_text("utf-8"))


def test_the_best_reading_of_the_boxes_leaves_nothing_that_the_sinusoid_holds():
    wanted, reading = page.boxes()
    assert wanted.nonzero().flatten().tolist() == page.BOXES
    lanes = [torch.sin(torch.arange(64.0, dtype=torch.float64)), torch.cos(torch.arange(64.0, dtype=torch.float64))]
    for lane in (*lanes, torch.ones(64, dtype=torch.float64)):
        assert abs((wanted - reading) @ lane) < 1e-4, "what is left is orthogonal to each lane"
    assert 0.5 < page.unread_share() < 1


def test_errors_are_of_rounding():
    errors = page.check_errors()
    assert len(errors) == 8 and max(errors.values()) < 1e-12
    assert len(page.check_table(errors).splitlines()) == 8


def test_rows_that_no_token_used_only_decay():
    torch.manual_seed(0)
    encoding, x = page.table_encoding(torch.randn(6, 4, dtype=torch.float64)), torch.randn(1, 2, 4).double()
    before = encoding.embed.table.detach().clone()
    gap = page.decayed_error(encoding, x, torch.tensor([[1, 4]]), steps=3)
    assert gap.shape == (4, 4) and gap.abs().max() < 1e-12
    torch.testing.assert_close(encoding.embed.table[0], before[0] * 0.999**3)
    assert (encoding.embed.table[1] - before[1] * 0.999**3).abs().min() > 1e-4


def test_lengths_of_rows_are_the_frozen_ones(frozen):
    length = frozen["length"]
    grown = [fmean(end[:length]) / fmean(start[:length]) for start, end in zip(frozen["norms_start"], frozen["norms"])]
    assert page.growth().tolist() == pytest.approx(grown)
    assert len(page.trained_rows()) == length
    inside = fmean(norm for seed in frozen["norms"] for norm in seed[:length])
    assert page.table_numbers()["norm_in"] == f"{inside:.1f}"


def test_losses_are_the_frozen_ones(frozen):
    far = fmean(seed["resized 8"]["tuned"][-1] for seed in frozen["stretched"])
    assert page.stretched_numbers()["resized_8_tuned"] == f"{far:.2f}"
    change = fmean(seed["concat"]["loss"] - seed["add"]["loss"] for seed in frozen["injected"])
    assert page.injected_numbers()["diff_concat"].startswith(f"{change:+.3f}")
    out = frozen["shifts"].index(frozen["length"])
    rise = [seed["learned"][out] - seed["learned"][0] for seed in frozen["moved"]]
    assert page.shift_rise("learned").tolist() == pytest.approx(rise)


def test_what_position_costs(frozen):
    width, rows = frozen["settings"]["dim"], frozen["length"]
    costs = page.position_parameters()
    assert costs["nope"] == costs["sinusoidal"] == 0 and costs["add"] == rows * width


def test_each_claim_has_a_verdict_and_belongs_to_a_prediction(frozen):
    verdicts = page.verdicts()
    assert set(verdicts.values()) <= {"held", "failed", "within the spread"}
    assert len(page.verdict_table().splitlines()) == 1 + len(verdicts) == 1 + len(page.claims())
    assert {name for name, *_ in page.claims()} == set(frozen["prediction"])
    assert len(page.predictions().data.splitlines()) == len(frozen["prediction"])


def test_results_without_an_arm_are_refused(monkeypatch, frozen):
    less = copy.deepcopy(frozen)
    del less["injected"][-1]["concat"]
    monkeypatch.setattr(page, "load_results", lambda name: less)
    with pytest.raises(ValueError, match="concat"):
        page.results.__wrapped__()
