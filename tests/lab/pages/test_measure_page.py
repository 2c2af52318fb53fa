"""How to measure position: numbers of the frozen files, verdicts, and what the opening figure counts."""

import json
import re
from pathlib import Path

import matplotlib
import numpy as np
import pytest
import torch

from posenc import METHODS
from posenc.lab.experiments import ONE_A_PLACE
from posenc.lab.pages import measure

RESULTS = Path(__file__).resolve().parents[3] / "results"
EXPERIMENTS = [measure.TEXT, measure.MASKED, *measure.PUZZLES]


def frozen(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def test_numbers_are_those_of_the_files():
    text, needle = frozen("train_short_test_long"), frozen("needle")["methods"]
    grid = np.array(text["methods"]["nope"]["distance_and_keys"])
    assert measure.factorial_numbers()["many_nope"] == f"{np.mean(grid[:, -1, 0] - grid[:, 0, 0]):.2f}"
    assert measure.needle_numbers()["rope_far"] == f"{np.mean(needle['rope']['scores']['far']):.2f}"
    assert measure.text_numbers()["longest"] == str(text["lengths"][-1])
    share = {name: np.mean(frozen("masked")["methods"][name]["scores"]["64"]) for name in ("nope", "alibi", "rope")}
    gain = (share["nope"] - share["alibi"]) / (share["nope"] - share["rope"])
    assert measure.masked_numbers() == {"masked_alibi_share": f"{gain:.0%}"}


def test_every_number_of_the_prose_is_said_once(monkeypatch):
    names = []
    monkeypatch.setattr(measure, "say_all", lambda page, texts: names.extend(f"{page}_{name}" for name in texts))
    measure.numbers()
    text = (RESULTS.parent / "book" / "measure.md").read_text("utf-8")
    here = {f"measure_{name}" for name in measure.found_numbers(0.0, 0.0, 0.0)}  # of what visible cells compute
    assert len(names) == len(set(names)) and not here & set(names)
    assert here | set(names) == set(re.findall(r"\{glue:text\}`(\w+)`", text))


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_a_card_has_a_row_and_a_reason_for_each_prediction(name):
    card, claims = measure.card(name).data, frozen(name)["claims"]
    rows = [line for line in card.split("\n") if line.startswith("| ")][2:]
    asked = [arm for arm in claims if arm in ONE_A_PLACE]
    assert [row.split(" | ")[0].strip("| ") for row in rows] == [METHODS[arm].title for arm in asked]
    assert card.count("\n- *") == len(asked)


def test_the_verdicts_are_counted():
    numbers = measure.prediction_numbers()
    assert int(numbers["all"]) == sum(int(numbers[word]) for word in ("held", "failed", "spread"))
    lines = measure.outcomes_table().data.split("\n")
    assert len(lines) == 2 + len(EXPERIMENTS)
    assert sum(line.count("**failed**") for line in lines) == int(numbers["failed"])


def test_a_table_of_counts_is_a_distribution_that_knows_the_text():
    text = torch.tensor([0, 1, 0, 1, 0, 1, 0, 2])
    lean = torch.full((3, 3), 0.01)
    table = measure.follower_table(text[:-1], 3, text[1:], 3, lean)
    assert torch.allclose(table.sum(1), torch.ones(3))
    assert table[0].argmax() == 1 and table[1].argmax() == 0 and (table > 0).all()


def test_more_context_helps_a_table_and_length_does_not():
    losses = measure.table_losses()
    assert len({len(values) for values in losses.values()}) == 1
    means = [values.mean() for values in losses.values()]
    assert means == sorted(means, reverse=True)


def test_a_prediction_that_nobody_made_has_no_outcome():
    assert measure.outcome("masked", "nope") is None and measure.outcome("masked", "rope") == "came true"


def test_an_experiment_without_a_file_and_a_task_without_a_name_are_refused():
    with pytest.raises((ValueError, FileNotFoundError), match="haystack"):
        measure.results("haystack")
    with pytest.raises(KeyError, match="haystack"):
        measure.show("haystack")


def test_what_cells_found_is_rounded_for_the_prose():
    assert measure.found_numbers(0.00126, 2.449, 0.123) == {"law_error": "0.0013", "law_E": "2.4", "flips": "12%"}


def test_the_start_sets_the_style_and_says_the_numbers(monkeypatch):
    said = []
    monkeypatch.setattr(measure, "say_all", lambda page, texts: said.extend(texts))
    with matplotlib.rc_context():
        measure.start()
        assert {key: matplotlib.rcParams[key] for key in measure.STYLE} == measure.STYLE
    assert "held" in said


def test_a_zero_has_no_sign():
    assert [measure.number(value) for value in (-0.0001, -0.25, 0.25)] == ["0.000", "−0.250", "0.250"]
