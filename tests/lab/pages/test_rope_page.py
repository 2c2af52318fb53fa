"""What the chapter RoPE computes beside its text: from the frozen results, and right."""

import json
import math
from pathlib import Path
from statistics import fmean, stdev

import pytest
import torch

from posenc.lab.pages import rope as page

RESULTS = Path(__file__).resolve().parents[3] / "results"


def frozen(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def test_the_score_of_two_tokens_is_that_of_their_sums():
    *terms, total = page.score_terms(places=5, dim=8)
    assert [len(term) for term in terms] == [5] * 4 and torch.allclose(sum(terms), total)
    assert terms[0].unique().numel() == 1, "content knows no place"
    assert len(page.term_table().splitlines()) == 4


def test_wavelengths_and_pairs_that_did_not_finish_a_turn():
    waves = [2 * math.pi * 10_000 ** (i / 64) for i in range(64)]
    assert page.wavelengths().tolist() == pytest.approx(waves)
    assert page.derivation_numbers()["unseen"] == sum(wave > 4096 for wave in waves)


def test_a_rotation_matrix_turns_each_pair():
    matrix = page.rotation_matrix(3, torch.tensor([0.5, 0.1], dtype=torch.float64))
    turned = (matrix @ torch.tensor([1.0, 0, 0, 1], dtype=torch.float64)).tolist()
    assert turned == pytest.approx([math.cos(1.5), math.sin(1.5), -math.sin(0.3), math.cos(0.3)])


def test_the_example_by_hand_in_halves_keeps_the_scores_and_forgetting_to_reorder_does_not():
    numbers = page.hand_numbers()
    scores, half, wrong = ([numbers[f"s{j}{name}"] for j in range(3)] for name in ("", "_half", "_wrong"))
    assert half == scores != wrong
    stored = [numbers[name].strip("()").split(", ") for name in ("q", "q_half")]
    assert [stored[0][lane] for lane in (0, 2, 1, 3)] == stored[1]


def test_orthogonal_matrices_that_commute_have_their_planes_in_common():
    """Planes from the eigenvectors of one member, asked of another member at a place that is no whole number."""
    basis = torch.linalg.qr(torch.randn(6, 6, dtype=torch.float64, generator=torch.Generator().manual_seed(0)))[0]
    rates = torch.tensor([1.0, 0.3, 0.07], dtype=torch.float64)
    one, other = (basis @ page.rotation_matrix(m, rates) @ basis.T for m in (1.0, 2.5))
    values, vectors = torch.linalg.eig(one)
    for value, u in zip(values, vectors.T):
        assert torch.allclose(other.to(u) @ u, value**2.5 * u, atol=1e-12)
        assert abs(u.real @ u.imag) < 1e-12 and torch.isclose(u.real.norm(), u.imag.norm())


def test_errors_are_of_rounding():
    errors = page.check_errors()
    assert len(errors) == 8 and max(errors.values()) < 1e-11
    assert len(page.check_table().splitlines()) == 10


def test_the_four_codes():
    answers = page.judgments()
    assert [letter for letter, (_, relative, _) in answers.items() if relative] == ["A", "C"]
    assert [letter for letter, (*_, same) in answers.items() if same] == ["A"]


@pytest.mark.parametrize("dtype, bits", [(torch.bfloat16, 8), (torch.float16, 11)], ids=["bf16", "fp16"])
def test_the_first_number_that_a_dtype_misses_follows_from_its_significand(dtype, bits):
    assert page.first_miss(dtype) == (2**bits + 1, 2**bits)


def test_errors_of_float32_grow_with_the_length():
    short, long = page.float32_errors(ends=(64, 4096))
    assert 0 < short < long < 1e-3


def test_a_heads_score_stops_where_all_its_pairs_do():
    head, length = page.heads()["heads"][0], page.heads()["settings"]["length"]
    w = page.heads()["inv_freq"]
    wanted = sum(c * math.cos(5 * f) + s * math.sin(5 * f) for c, s, f in zip(head["cos"], head["sin"], w))
    assert page.scores_of(head)[5].item() == pytest.approx(wanted)
    still = page.scores_of(head, torch.ones(len(w), dtype=torch.bool))[length - 1 :]
    assert torch.allclose(still, still[:1])


def test_losses_are_the_frozen_ones():
    results = frozen("rope_lanes")
    lines = page.loss_table().splitlines()
    assert len(lines) == 1 + len(results["stopped"]) == 1 + len(page.LOSS_ROWS)
    ends = [seed[-1] for seed in results["stopped"]["slow"]]
    row = next(line for line in lines if line.startswith("slow stopped"))
    assert f"{fmean(ends):.3f} ± {stdev(ends):.3f}" in row
    starts = [seed[0] for seed in results["stopped"]["slow"]]
    assert page.rises()["slow"] == pytest.approx(fmean(ends) - fmean(starts), abs=1e-3)
    runs, numbers = frozen("train_short_test_long")["methods"]["rope"], page.study_numbers()
    for name, kind, place in (("at_short", "whole", 0), ("at_long", "whole", -1), ("at_cut", "cut", -1)):
        values = [run[place] for run in runs[kind]]
        assert numbers[name] == f"{fmean(values):.2f} ± {stdev(values):.2f}"


@pytest.mark.parametrize("loader, setting", [("heads", "dim"), ("lanes", "num_heads")])
def test_results_of_another_model_are_refused(monkeypatch, loader, setting):
    real, name = page.load_results, f"rope_{loader}"
    other = frozen(name)
    other["settings"][setting] += 1
    monkeypatch.setattr(page, "load_results", lambda asked: other if asked == name else real(asked))
    with pytest.raises(ValueError, match=name):
        getattr(page, loader).__wrapped__()


def test_the_pages_own_lines_are_held_against_posencs():
    page.check_short(lambda x, at, layout: page.rope.rotate(x, at, page.rope.inv_freq(x.shape[-1]).double(), layout))
    with pytest.raises(AssertionError):
        page.check_short(
            lambda x, at, layout: page.rope.rotate(x, at, page.rope.inv_freq(x.shape[-1]).double(), "half")
        )


def test_each_panel_of_unseen_distances_marks_the_highest_score_of_training_and_the_highest_beyond():
    head = next(h for h in page.heads()["heads"] if (h["layer"], h["head"]) == page.DRAWN_HEAD)
    length = page.heads()["settings"]["length"]
    for axes, (name, _) in zip(page.unseen_figure().axes, page.STOPS.items(), strict=True):
        scores = page.scores_of(head, page.stop_mask(name))
        *_, end, within, dot = axes.lines
        assert axes.get_title() == name and end.get_xdata()[0] == length
        assert within.get_ydata()[0] == scores[:length].max() and dot.get_ydata()[0] == scores[length:].max()
        assert scores[int(dot.get_xdata()[0])] == scores[length:].max()


def test_the_pairs_that_do_most_harm_had_begun_a_turn_and_not_finished_it():
    numbers = page.pair_numbers()
    turns = [64 * w / (2 * math.pi) for w in frozen("rope_heads")["inv_freq"]]
    assert numbers["pairs"] == len(turns) and numbers["finished"] == sum(turn > 1 for turn in turns)
    for letter in "ab":
        assert numbers[f"turned_{letter}"] == f"{turns[numbers[f'worst_{letter}']]:.0%}"
    assert numbers["turned_idle"] == f"{turns[numbers['worst_b'] + 1]:.0%}"
