"""What the chapter Learned positions computes beside its text: from the frozen results, and right."""

import copy
import json
import math
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


def test_the_weights_by_hand():
    half, one = math.exp(0.5), math.exp(1)
    expected = [weight / (2 * half + one) for weight in (half, half, one)]
    assert list(page.hand_numbers().values()) == [f"{weight:.3f}" for weight in expected]


def test_the_pages_own_lines_are_held_against_posenc():
    def table(rows, dim, forward):
        module = page.learned(rows, dim).embed
        module.forward = forward.__get__(module)
        return module

    def right(self, x, positions):
        if positions.min() < 0 or positions.max() >= len(self.table):
            raise ValueError("no such row")
        return x + self.table[positions]

    page.check_short(lambda rows, dim: table(rows, dim, right))
    with pytest.raises(AssertionError, match="-1"):
        page.check_short(lambda rows, dim: table(rows, dim, lambda self, x, positions: x + self.table[positions]))
    with pytest.raises(AssertionError):
        page.check_short(lambda rows, dim: table(rows, dim, lambda self, x, positions: x + self.table[positions // 2]))


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
    assert set(verdicts.values()) <= {"came true", "failed", "not decided"}
    assert len(page.verdict_table().splitlines()) == 1 + len(verdicts) == 1 + len(page.claims())
    assert {name for name, *_ in page.claims()} == set(frozen["prediction"])
    assert len(page.predictions().data.splitlines()) == len(frozen["prediction"])


def test_results_without_an_arm_are_refused(monkeypatch, frozen):
    less = copy.deepcopy(frozen)
    del less["injected"][-1]["concat"]
    monkeypatch.setattr(page, "load_results", lambda name: less)
    with pytest.raises(ValueError, match="concat"):
        page.results.__wrapped__()


def test_losses_far_from_the_best_are_written_at_the_edge_and_squeeze_no_others():
    axes = page.injected_figure().axes[0]
    best = min(page.injection_losses(arm).mean() for arm in page.INJECTIONS)
    written = {text.xy[1]: text.get_text() for text in axes.texts if "→" in text.get_text()}
    for line, arm in enumerate(page.INJECTIONS):
        losses = page.injection_losses(arm)
        assert (line in written) == (losses.min() > best + page.FAR)
        if line in written:
            assert written[line].split(" →")[0] == ", ".join(f"{loss:.2f}" for loss in losses)
            assert axes.get_xlim()[1] < losses.min()


def test_the_product_of_the_rates_is_what_silent_rows_kept(frozen):
    length, given = frozen["length"], frozen["settings"]
    kept = [end / start for was, now in zip(frozen["norms_start"], frozen["norms"]) for start, end in zip(was, now)]
    silent = [share for place, share in enumerate(kept) if place % len(frozen["norms"][0]) >= length]
    numbers = page.decay_numbers()
    assert numbers["product"] == f"{fmean(silent):.3f}"
    assert float(numbers["rate"]) == pytest.approx(
        (1 - fmean(silent)) / given["weight_decay"] / given["steps"], rel=0.1
    )


def test_volumes_of_another_model_are_refused(monkeypatch):
    other = copy.deepcopy(page.study())
    other["settings"]["dim"] += 1
    monkeypatch.setattr(page, "study", lambda: other)
    with pytest.raises(ValueError, match="dim"):
        page.volumes()
