"""One model, five encodings: the numbers of its prose and its tables anew from the frozen file."""

import copy
import json
import math
import re
import statistics
from pathlib import Path

import pytest

from posenc.lab.pages import one_model as page

FROZEN = json.loads((Path(__file__).resolve().parents[3] / "results" / "report_small.json").read_text("utf-8"))


def scores(objective, arm, length):
    return FROZEN["objectives"][objective]["results"]["methods"][arm]["scores"][length]


def rise(objective, arm):
    return [b - a for a, b in zip(scores(objective, arm, "85"), scores(objective, arm, "340"))]


def students_t(values):
    """Mean and ends of the 95% interval, for five seeds."""
    mean, half = statistics.fmean(values), 2.776 * statistics.stdev(values) / math.sqrt(5)
    return mean, mean - half, mean + half


def row(objective, arm):
    """The cells of an arm in the table of verdicts."""
    lines = page.verdict_table(objective).data.replace("−", "-").replace("*", "").split("\n")[2:]
    return [cell.strip() for cell in lines[list(page.WHERE).index(arm)].strip("| ").split("|")]


@pytest.mark.parametrize("objective", ["causal", "masked"])
def test_a_row_of_the_verdicts_is_the_frozen_arm(objective):
    for arm in page.WHERE:
        name, short, long, said, predicted, became = row(objective, arm)
        assert name.startswith(f"[{page.TITLES[arm]}](")
        assert short == f"{statistics.fmean(scores(objective, arm, '85')):.2f}"
        assert long == f"{statistics.fmean(scores(objective, arm, '340')):.2f}"
        mean, low, high = students_t(rise(objective, arm))
        assert [float(x) for x in re.findall(r"-?\d+\.\d+", said)] == pytest.approx([mean, low, high], abs=6e-4)
        inside = low > 0.05 if predicted == "a rise" else high <= 0.05
        outside = high <= 0.05 if predicted == "a rise" else low > 0.05
        assert became == ("came true" if inside else "failed" if outside else "not decided")


def test_what_failed_and_what_is_open():
    became = {(objective, arm): row(objective, arm)[-1] for objective in ("causal", "masked") for arm in page.WHERE}
    assert {key for key, word in became.items() if word == "failed"} == {("causal", "rse")}
    assert {key for key, word in became.items() if word == "not decided"} == {("masked", "rse"), ("masked", "nope")}


def test_rows_beyond_the_training_length_have_only_decayed():
    table = FROZEN["objectives"]["causal"]["results"]["methods"]["standard"]["rows"]
    beyond = statistics.fmean(x for seed in table for x in seed[85:])
    said = page.row_numbers()
    assert said["rows_causal_beyond"] == f"{beyond:.4f}" and said["rows_dead"] == "75%"
    lr, own, steps, warmup = 4e-3, 10, 600, 50
    rates = [lr * (step + 1) / warmup for step in range(warmup)]
    done = [n / (steps - warmup) for n in range(steps - warmup)]
    rates += [lr * (0.1 + 0.45 * (1 + math.cos(math.pi * x))) for x in done]
    assert said["rows_causal_kept"] == f"{0.02 * math.prod(1 - 0.01 * own * rate for rate in rates):.4f}"


def test_paired_differences_of_the_prose():
    said = page.length_numbers()
    mean, low, high = students_t([a - b for a, b in zip(rise("causal", "rope"), rise("causal", "standard"))])
    assert said["rise_more"] == f"{mean:.2f} ({low:.2f} to {high:.2f})" and low > 0
    whole, cut = (FROZEN["objectives"]["causal"]["results"]["methods"]["rse"][kind] for kind in ("whole", "cut"))
    assert float(said["rse_gap"]) == pytest.approx(max(abs(a[-1] - b[-1]) for a, b in zip(whole, cut)), abs=5e-5)


def test_the_open_interval_reaches_over_the_tolerance():
    said = [float(x) for x in re.findall(r"-?\d+\.\d+", page.length_numbers()["rse_interval"].replace("−", "-"))]
    assert said == pytest.approx(students_t(rise("masked", "rse")), abs=6e-4) and said[1] < 0 < 0.05 < said[2]


def test_the_table_of_arms_counts_what_each_learns():
    lines = page.arms_table().data.split("\n")[2:]
    learned = {arm: line.split("|")[-2].strip() for arm, line in zip(page.WHERE, lines)}
    assert learned["standard"] == f"{2 * 340 * 128:,}" and learned["rse"] == "2" and learned["exposb"] == "8"


def test_results_that_contradict_the_prose_stop_the_build(monkeypatch):
    other = copy.deepcopy(page.report())
    arm = other["objectives"]["causal"]["results"]["methods"]["rse"]
    arm["scores"]["340"] = [x + 0.5 for x in arm["scores"]["340"]]
    monkeypatch.setattr(page, "report", lambda: other)
    for check in (page.length_numbers, page.verdict_numbers):
        with pytest.raises(AssertionError):
            check()


def test_a_file_without_an_arm_is_refused(monkeypatch):
    other = copy.deepcopy(page.report())
    del other["objectives"]["masked"]["results"]["methods"]["alibi"]
    monkeypatch.setattr(page, "load_results", lambda name: other)
    with pytest.raises(ValueError, match="report_small.*masked"):
        page.report.__wrapped__()
