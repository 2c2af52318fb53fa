r"""The FoX chapter's numbers against its figures, closed forms and the frozen results."""

import json
import math
from pathlib import Path

import pytest
import torch

from posenc.bias.alibi import bias
from posenc.bias.fox import decay
from posenc.lab.figures import fox as figures
from posenc.lab.pages import fox as page

RESULTS = Path(__file__).resolve().parents[3] / "results"


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def test_alibi_forgets_by_the_clock_and_one_door_does_not():
    odds = math.exp(page.TITLE_LOGIT)
    title, old = page.shares(decay(page.chapter_gates()))
    assert title == pytest.approx(odds / (odds + page.CHAPTER - 1))
    left = (odds + page.CHAPTER - 1) * page.DOOR
    assert old == pytest.approx(left / (left + page.AFTER))
    for slope in page.SLOPES:
        by_clock = page.shares(page.penalty(slope))
        assert by_clock[0] < title and by_clock[1] > 2 * old
    index = torch.arange(page.CHAPTER + page.AFTER)
    visible = index[:, None] >= index
    wanted = bias(index, index, torch.tensor([1 / 16], dtype=torch.float64))[0]
    assert torch.equal(page.penalty(1 / 16)[visible], wanted[visible])


def test_the_door_after_the_period_forgets_the_sentence_and_its_period():
    numbers = {name: float(value) for name, value in page.hand_numbers().items()}
    after = numbers["hand_gate"] / (5 * numbers["hand_gate"] + 7)  # five keys behind the door, seven before it
    assert numbers["hand_first"] == pytest.approx(4 * after, abs=1e-3)
    assert numbers["hand_period"] == pytest.approx(after, abs=1e-3)
    assert numbers["hand_open"] == pytest.approx(5 / 12, abs=1e-2)
    _, readouts = figures.gates.fn(preset=figures.ALL_OPEN, token=5, gate=numbers["hand_gate"], query=11)
    assert readouts["first"] == pytest.approx(numbers["hand_first"], abs=1e-3)
    _, at_period = figures.gates.fn(preset=figures.ALL_OPEN, token=4, gate=numbers["hand_gate"], query=11)
    assert at_period["period"] > 10 * readouts["period"]  # a gate is no part of its own product


def test_each_claim_of_the_chapter_is_checked_and_can_fail():
    q, k, v = random(3, 2, 4, 24, 8)
    gates = torch.nn.functional.logsigmoid(random(2, 4, 24, seed=1))
    assert max(page.check_errors(q, k, v, gates).values()) < 1e-10
    dleft = random(2, 5, 5).tril()
    forward = (dleft.sum(-1) - dleft.sum(-2)).cumsum(-1)
    assert (page.gradient_by_hand(dleft) - forward).abs().max() > 0.1


def test_a_sum_in_half_precision_is_off_by_whole_units():
    rows = {name: (whole, step) for name, whole, step in page.sums_table(1024)}
    assert rows["float32"][0] < 0.01 and rows["float32"][1] < 1e-3
    assert rows["bfloat16"][0] > 100 and rows["bfloat16"][1] > 0.5


@pytest.mark.parametrize("gap, word", [(0.0, "ignores"), (0.1, "suffers"), (-0.1, "uses")])
def test_the_reading_follows_the_gap(gap, word):
    cut = [1.5, 1.51, 1.49, 1.5, 1.52]
    assert word in page.reading([loss + gap for loss in cut], cut)


# ------------------------------------------------------------------------------------------------------ frozen results


def test_means_of_gates_are_those_of_the_file():
    frozen = json.loads((RESULTS / "fox_gates.json").read_text())
    for seeds in frozen["arms"].values():
        for mean, heads in zip(seeds["mean"], seeds["heads"]):
            for name, value in mean.items():
                assert value == pytest.approx(torch.tensor(heads[name]).mean().item(), abs=1e-5) and value < 0
    spaces = [seed["space"] for seed in frozen["arms"]["fox"]["mean"]]
    assert page.gates_numbers()["space"] == f"{math.exp(sum(spaces) / len(spaces)):.4f}"
    assert page.classes()[0] == min(frozen["classes"], key=lambda name: sum(page.means(name)))
    assert sum(frozen["classes"].values()) % (frozen["settings"]["length"] // 2) == 0


def test_what_is_said_of_the_first_layer_is_in_the_results():
    """It reads the character alone: a newline has one gate there, whatever stood before it."""
    for seed in page.gates()["arms"]["fox"]["heads"]:
        assert seed["newline"][0] == pytest.approx(seed["paragraph end"][0], abs=1e-5)
        later = [torch.tensor(seed[name])[1:] for name in ("newline", "paragraph end")]
        assert (later[0] - later[1]).abs().max() > 0.05


def test_the_verdict_on_the_gates_reads_the_results():
    words = page.gates_verdict().data
    results = page.gates()
    tightest = [min(seed, key=seed.get) for seed in results["arms"]["fox"]["mean"]]
    assert f"{tightest.count('paragraph end')} of {len(tightest)} seeds" in words
    assert any(outcome in words for outcome in ("came true", "failed", "not decided"))


def test_the_passage_is_drawn_with_its_gates():
    results = page.gates()
    assert torch.tensor(results["passage_gates"]).shape == (3, 4, len(results["passage"]))
    figure, readouts = figures.trained.fn(layer=1, head=1, query=62)
    bars = next(trace for trace in figure["data"] if "gate" in trace["name"])
    torch.testing.assert_close(bars["y"].log(), torch.tensor(results["passage_gates"][0][0], dtype=torch.float64))
    spaces = next(trace for trace in figure["data"] if "space" in trace["name"])["x"]
    assert {results["passage"][at] for at in spaces} == {" ", "\n"}


def test_the_pro_table_shows_each_arm(monkeypatch):
    run = [[1.5, 1.6], [1.7, 1.8]]
    table = {"arms": {"a": "plain", "b": "with QK-norm"}, "lengths": [64, 512]}
    table["methods"] = {arm: {"whole": run, "cut": run} for arm in "ab"}
    monkeypatch.setattr(page, "load_results", lambda name: table)
    found = {"against": "a", "claim": "falls", "outcome": "held", "low": -0.3, "mean": -0.2, "high": -0.1}
    table["predictions"] = {"b": found}
    lines = page.pro_table().data.splitlines()
    assert len(lines) == 4 and "with QK-norm" in lines[-1] and "1.600 ± 0.141" in lines[-1] and "512" in lines[0]
    assert "−0.200 against a (−0.300 to −0.100); falls: came true" in lines[-1] and "against a" not in lines[-2]


def test_the_puzzles_table_judges_each_claim(monkeypatch):
    scores = {"in": [0.0] * 5, "sparser": [0.2] * 5}
    arms = ("rope", "alibi", "stickbreaking", "cope", "fox")
    task = {
        "contrast": ["in", "sparser"],
        "predictions": {arm: {"claim": "holds" if arm == "fox" else "rises"} for arm in arms},
        "methods": {arm: {"scores": scores} for arm in arms},
    }
    monkeypatch.setattr(page, "load_results", lambda name: {"tolerance": 0.05, "tasks": {"flipflop": task}})
    lines = page.puzzles_table().data.splitlines()
    assert "holds: failed" in lines[-1] and "rises: came true" in lines[-2] and "20.0 ± 0.0 %" in lines[-1]


def test_the_second_reading_counts_seeds_and_parts():
    numbers = page.second_numbers()
    frozen = json.loads((RESULTS / "foxpro.json").read_text())
    assert f"{-frozen['predictions']['pro']['mean']:.3f}" in numbers["pro_words"]
    tried = {"best": 2.0, "at": {"1.0": {"whole": [[1.5, 9], [1.7, 9]]}, "2.0": {"whole": [[1.2, 9], [1.4, 9]]}}}
    assert page.better_rate(tried) == pytest.approx(0.3)
    copied = json.loads((RESULTS / "contextual.json").read_text())["tasks"]["selective_copy"]["methods"]["fox"]
    learned = sum(wrong < 0.1 for wrong in copied["scores"]["in"])
    assert f"{learned} of 5 seeds" in numbers["puzzle_words"]
