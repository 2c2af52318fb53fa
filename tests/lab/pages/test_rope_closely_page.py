"""What the chapter RoPE, looked at closely computes beside its text: from the frozen results, and right."""

import copy
import json
import math
from pathlib import Path
from statistics import fmean, stdev

import pytest
import torch

from posenc.lab.pages import rope_closely as page

RESULTS = Path(__file__).resolve().parents[3] / "results"


@pytest.fixture(scope="module")
def frozen():
    return json.loads((RESULTS / "rope_closely.json").read_text("utf-8"))


def test_scores_of_equal_vectors_follow_the_sum_of_cosines():
    scores = page.scores()["k = q"]
    for row, d in enumerate(page.DISTANCES):
        wanted = 2 * sum(math.cos(d * 10_000 ** (-i / 64)) for i in range(64)) / math.sqrt(128)
        assert scores[row].mean().item() == pytest.approx(wanted, abs=0.15)
    assert len(page.score_table().splitlines()) == 1 + len(page.DISTANCES)


def test_the_bound_holds_and_is_loose():
    for score, steps, sums in page.bounds().values():
        assert score < steps * sums
    assert page.bounds()[0][2] == pytest.approx(64 * 65 / 2), "at distance 0 the partial sums are 1, 2, ..., 64"
    assert len(page.bound_table().splitlines()) == 1 + len(page.bounds())


def test_what_a_pair_costs_is_the_frozen_loss_less_that_as_trained(frozen):
    wanted = [seed[4] - start for seed, start in zip(frozen["lanes"]["removed"], frozen["lanes"]["trained"])]
    assert page.damage("removed")[:, 4].tolist() == pytest.approx(wanted, abs=1e-6)


def test_shares_of_position_by_hand(frozen):
    length, heads = frozen["settings"]["length"], frozen["heads"]
    position, energy = (sum(head[key][i] for head in heads for i in range(5)) for key in ("position", "energy"))
    fast = [i for i in range(12) if (length - 1) * 10_000 ** (-i / 12) / (2 * math.pi) >= 1]
    assert page.use_numbers()["share_first"] == f"{position / energy:.0%}" and page.use_numbers()["fast"] == len(fast)


def test_the_table_of_verdicts_has_a_row_for_each_prediction(frozen):
    head, rule, *rows = page.verdict_table().data.splitlines()
    assert len(rows) == len(frozen["predictions"]) and {row.count("|") for row in rows} == {head.count("|")}
    losses, first = frozen["losses"], frozen["predictions"][0]
    place = 0 if first["at"] == "short" else -1
    changes = [one[place] - other[place] for one, other in zip(losses[first["arm"]], losses["rope"])]
    assert page.change(first) == pytest.approx(changes, abs=1e-6)
    assert f"{fmean(changes):.2f} ± {stdev(changes):.2f}".lstrip("-") in rows[0]


def test_xpos_decays_by_its_formula_and_moves_along():
    spreads = page.xpos_spreads()
    assert list(spreads) == sorted(spreads) and spreads[0][1] == 1
    assert page.xpos_shift_error() < 1e-10
    assert page.overflows_at(False, torch.float16) < page.overflows_at(True, torch.float16)


@pytest.mark.parametrize("dtype, wanted", [(torch.bfloat16, 257), (torch.float16, 2049)], ids=["bf16", "fp16"])
def test_the_first_number_that_a_dtype_misses(dtype, wanted):
    assert page.first_miss(dtype) == wanted


def test_a_head_that_looks_for_the_token_before_needs_exact_positions():
    shares = page.previous_shares()
    assert {len(row) for row in shares.values()} == {len(page.QUERY_STARTS)}
    assert min(shares["posenc, autocast bf16"]) == 1 > max(shares["positions in bf16"][1:])
    # bf16 holds every second number from 256 on, every fourth from 512 on: at most one query in eight finds its key
    assert shares["positions in bf16"][2] <= 1 / 4


def test_all_positions_moved_by_nothing_change_nothing(frozen):
    shifted = page.shift_rises()
    assert set(shifted) == set(frozen["shifted"]) and shifted["float32 angles"][:, 0].abs().max() == 0


def test_weights_move_to_half_split_within_each_head_only():
    def to_half(rows, head_dim, rotary_dim=None):
        p = rotary_dim or head_dim
        lanes = [*range(0, p, 2), *range(1, p, 2), *range(p, head_dim)]
        return rows.unflatten(0, (-1, head_dim))[:, lanes].flatten(0, 1)

    right, *wrong = page.conversion_errors(to_half).values()
    assert right < 1e-12 and min(wrong) > 1e-3 and len(wrong) == 5


@pytest.mark.parametrize(
    "spoil, words",
    [
        (lambda results: results["losses"]["rope"].pop(), "seeds"),
        (lambda results: results["shifted"].pop("positions in bf16"), "positions in bf16"),
        (lambda results: results["settings"].__setitem__("dim", 1), "settings"),
    ],
    ids=["a seed less", "a rounding less", "another model"],
)
def test_results_that_are_not_whole_are_refused(monkeypatch, frozen, spoil, words):
    spoiled, real = copy.deepcopy(frozen), page.load_results
    spoil(spoiled)
    monkeypatch.setattr(page, "load_results", lambda name: spoiled if name == "rope_closely" else real(name))
    with pytest.raises(ValueError, match=words):
        page.results.__wrapped__()
