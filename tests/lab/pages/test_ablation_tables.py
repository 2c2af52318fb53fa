r"""Tables of the ablations, against the frozen files."""

import json
import statistics
from pathlib import Path

import pytest

from posenc.lab.pages import ablation

RESULTS = Path(__file__).resolve().parents[3] / "results"
ARMS = {"nope": "no position", "stickbreaking": "the stick"}


def cells(markdown):
    return [line.strip("| ").split(" | ") for line in markdown.data.splitlines()]


def test_a_loss_beside_ropes_is_paired_by_seed():
    results = json.loads((RESULTS / "ablation_text.json").read_text())
    longest = str(results["lengths"][-1])
    ours, theirs = (results["methods"][arm]["scores"][longest] for arm in ("nope", "rope"))
    pairs = [a - b for a, b in zip(ours, theirs)]
    assert ablation.beside("nope", longest) == pytest.approx((statistics.mean(pairs), statistics.stdev(pairs)))


def test_the_text_table_has_a_row_for_each_arm():
    head, _, *rows = cells(ablation.text_table(ARMS))
    assert [row[0] for row in rows] == list(ARMS.values()) and {len(row) for row in rows} == {len(head)}


def test_the_needle_table_has_shares_of_ropes_and_each_arm():
    results = json.loads((RESULTS / "ablation_needle.json").read_text())
    head, _, rope, *rows = cells(ablation.needle_table(ARMS))
    assert len(rows) == len(ARMS) and {len(row) for row in rows} == {len(head)}
    far = statistics.mean(results["methods"]["rope"]["scores"]["far"])
    assert rope[3].startswith(f"{100 * far:.0f} ±")


def test_an_arm_that_was_not_run_is_refused():
    with pytest.raises(KeyError, match="cope"):
        ablation.text_table({"cope": "CoPE"})
