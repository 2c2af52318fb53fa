"""What the chapter Longer than trained computes beside its text: from the frozen results, and right."""

import json
import math
from pathlib import Path
from statistics import fmean

import pytest
import torch

from posenc.lab.pages import scaling as page

RESULTS = Path(__file__).resolve().parents[3] / "results"


@pytest.fixture(scope="module")
def frozen():
    return json.loads((RESULTS / "scaling.json").read_text("utf-8"))


def test_the_table_of_losses_holds_the_frozen_means(frozen):
    rows = page.loss_rows()
    assert list(rows) == list(page.NAMES) and set(rows) == set(frozen["schemes"])
    for name, row in rows.items():
        for when, cells in (("before", row[:3]), ("after", row[3:])):
            losses = frozen["schemes"][name]["text"][when]
            wanted = [fmean(seed[-1] for seed in losses[key]) for key in ("whole", "cut")]
            assert cells == pytest.approx([*wanted, fmean(losses["price"])])
    assert len(page.loss_table().splitlines()) == 2 + len(rows) + 2


def test_far_needles_are_those_beyond_training(frozen):
    far = [i for i, distance in enumerate(frozen["distances"]) if distance > frozen["lengths"][0]]
    missed = fmean(seed[i] for seed in frozen["schemes"]["plain"]["needle"]["before"] for i in far)
    assert page.needle_numbers()["n_plain"] == f"{missed:.0%}"
    near = [i for i in range(len(frozen["distances"])) if i not in far]
    missed = [fmean(seed[i] for i in near) for seed in frozen["schemes"]["ntk"]["needle"]["after"]]
    assert page.wrong_share("ntk", "after", "near").tolist() == pytest.approx(missed)


def test_what_distance_and_keys_add_is_counted_from_neither():
    grids = json.loads((RESULTS / "train_short_test_long.json").read_text("utf-8"))["methods"]["rope"]
    for name, (keys, gap) in {"distance": (0, -1), "keys": (-1, 0), "both": (-1, -1)}.items():
        wanted = [grid[keys][gap] - grid[0][0] for grid in grids["distance_and_keys"]]
        assert page.factorial()[name].tolist() == pytest.approx(wanted)


def test_stopping_no_pair_mends_nothing_and_every_pair_nearly_all():
    slow, fast = page.mended_share("slow"), page.mended_share("fast")
    assert slow[0] == fast[0] == 0 and slow[-1] == pytest.approx(fast[-1]) and 0.8 < slow[-1] < 1
    assert page.open_pairs() == sum(2 * math.pi * 10_000 ** (i / 12) > 64 for i in range(12))


def test_yarn_keeps_fast_pairs_whole_and_divides_slow_ones():
    turns = [4096 / (2 * math.pi * 10_000 ** (i / 64)) for i in range(64)]
    shares = page.remaining_share(128, 4096, "rotations")
    wanted = [min(max((turn - 1) / 31, 0), 1) for turn in turns]
    assert shares.tolist() == pytest.approx(wanted, abs=1e-9)


def test_every_prediction_has_verdicts(frozen):
    verdicts = page.verdicts()
    assert set(verdicts) == set(frozen["schemes"])
    outcomes = {outcome for claims in verdicts.values() for _, outcome in claims}
    assert outcomes <= {"held", "failed", "within the spread"}
    rises = {
        name: fmean(seed[-1] - seed[0] for seed in arm["text"]["before"]["whole"])
        for name, arm in frozen["schemes"].items()
    }
    assert page.rise("linear").mean() == pytest.approx(rises["linear"])
    outcome = dict(verdicts["plain"])["rises most"]
    assert (outcome == "failed") == (max(rises, key=rises.get) != "plain") or outcome == "within the spread"
    assert len(page.predictions().data.splitlines()) == len(verdicts)


@pytest.mark.parametrize(
    "verdicts, worst", [("hh", "held"), ("hf", "failed"), ("hw", "within the spread"), ("wf", "failed")]
)
def test_several_claims_are_as_good_as_the_worst(verdicts, worst):
    words = {"h": "held", "f": "failed", "w": "within the spread"}
    assert page.worst_verdict(words[letter] for letter in verdicts) == worst


def test_entropy_of_a_softmax_by_its_definition():
    logits = torch.tensor([[0.0, 1.0, -2.0], [3.0, 3.0, 3.0]], dtype=torch.float64)
    weights = logits.softmax(-1)
    assert page.entropy(logits).item() == pytest.approx(-(weights * weights.log()).sum(-1).mean().item())


def test_a_cache_of_turned_keys_is_right_up_to_the_training_length_only():
    errors = page.cache_errors(trained=6, dim=8)
    assert {len(values) for values in errors.values()} == {18}
    assert max(errors["unturned keys"]) < 1e-12 and max(errors["turned keys"][:6]) < 1e-12
    assert min(errors["turned keys"][7:]) > 1e-3


def test_only_divided_frequencies_meet_no_new_angles():
    angles = page.unseen_angles()
    page.check_unseen(angles)
    plain, divided, times = angles
    with pytest.raises(AssertionError, match="angles="):
        page.check_unseen({plain: angles[divided], divided: angles[plain], times: angles[times]})


def test_a_factor_below_one_is_refused_and_one_above_is_no_refusal():
    assert "0.125" in page.refusal(1 / 8)
    with pytest.raises(AssertionError, match="factor=2"):
        page.refusal(2.0)


def test_partial_rotary_wants_the_lanes_that_turn():
    right, wrong = page.partial_divisors(rotary=8, head_dim=16)
    assert right == pytest.approx(8) and wrong == pytest.approx(8 ** (2 * 3 / 14))


@pytest.mark.parametrize(
    "change, words", [({"lengths": [64, 128]}, "lengths"), ({"schemes": {"plain": {}}}, "schemes")]
)
def test_results_that_do_not_fit_are_refused(monkeypatch, frozen, change, words):
    monkeypatch.setattr(page, "load_results", lambda name: frozen | change)
    monkeypatch.setattr(page, "surgery", lambda: frozen)
    monkeypatch.setattr(page, "short_long", lambda: frozen)
    with pytest.raises(ValueError, match=words):
        page.study.__wrapped__()
