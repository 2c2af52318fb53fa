"""Compare and choose: tables with every method, numbers of the frozen files, and who is level with the best."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

from posenc import METHODS
from posenc.lab.pages import compare
from posenc.methods import on_text

RESULTS = Path(__file__).resolve().parents[3] / "results"


def frozen(name):
    return json.loads((RESULTS / f"{name}.json").read_text("utf-8"))


def rows(table):
    """The cells of a Markdown table, without its head."""
    return [line.strip("| ").split(" | ") for line in table.data.split("\n")[2:]]


@pytest.mark.parametrize("make", ["properties_table", "text_table", "factorial_table", "masked_table", "puzzles_table"])
def test_a_table_has_a_row_for_each_method(make):
    cells = rows(getattr(compare, make)())
    assert [row[0] for row in cells] == [compare.link(name) for name in (METHODS if "prop" in make else on_text())]
    assert len({len(row) for row in cells}) == 1


def test_a_method_that_was_not_run_has_dashes_and_no_number(monkeypatch):
    cut = {name: dict(result) for name, result in compare.results().items()}
    for result in cut.values():
        result["methods"] = {name: values for name, values in result["methods"].items() if name != "rope"}
    monkeypatch.setattr(compare, "results", lambda: cut)
    for make in (compare.text_table, compare.factorial_table, compare.masked_table, compare.puzzles_table):
        (row,) = (row for row in rows(make()) if row[0] == compare.link("rope"))
        assert all(cell.startswith("–") for cell in row[1:])
    with pytest.raises(KeyError, match="rope"):
        compare.factorial("rope")
    with pytest.raises(AssertionError):  # the prose tells that RoPE's loss rises
        compare.near_numbers()


def test_the_table_of_verdicts_has_the_words_of_the_files():
    text, needle = frozen("train_short_test_long")["methods"], frozen("needle")["methods"]
    cells = {row[0]: row[1:] for row in rows(compare.verdict_table())}
    assert list(cells) == [compare.link(name) for name in on_text() if name in text or name in needle]
    rope = cells[compare.link("rope")]
    whole = np.array(text["rope"]["whole"])
    assert rope[1] == f"{(whole[:, -1] - whole[:, 0]).mean():+.2f}" and rope[3] == rope[5] == "*breaks*"
    saves = whole[:, -1] - np.array(text["rope"]["cut"])[:, -1]
    half = 2.776 * saves.std(ddof=1) / 5**0.5  # Student's t, five seeds
    assert rope[2] == f"{saves.mean():.3f} ({saves.mean() - half:.3f} to {saves.mean() + half:.3f})"
    low, high = re.search(r"\((.+) to (.+)\)", cells[compare.link("kerple")][2].replace("−", "-")).groups()
    assert float(low) < 0 < float(high) and cells[compare.link("kerple")][3] == "*ignores*"
    for name, on_text_, on_needle in (("fox", "*ignores*", "*not decided*"), ("t5", "*breaks*", "*extrapolates*")):
        far = f"{np.mean(needle[name]['scores']['far']):.0%}"
        assert cells[compare.link(name)][3:] == [on_text_, far, on_needle]


def test_the_choices_are_those_of_the_files_and_every_prediction_is_counted():
    chosen = {row[0]: row[1:] for row in rows(compare.choices_table())}
    text, needle = frozen("train_short_test_long"), frozen("needle")
    for name in text["methods"]:
        for run, (rate, own, _) in ((text, chosen[compare.link(name)][:3]), (needle, chosen[compare.link(name)][3:])):
            assert float(rate) == run["choice"][name]["lr"]
            assert own == "–" or float(own) == run["choice"][name]["own"]
    *each, total = ([int(cell) for cell in row[1:]] for row in rows(compare.counts_table()))
    assert [sum(column) for column in zip(*each)] == total and total[0] == sum(total[1:])
    assert {len(needle["claims"]), len(text["claims"])} <= {row[0] for row in each}


def test_numbers_are_those_of_the_files():
    text = frozen("train_short_test_long")
    whole, cut = (np.array(text["methods"]["rope"][kind])[:, [0, -1]] for kind in ("whole", "cut"))
    rise = whole[:, 1] - whole[:, 0]
    grid = np.array(text["methods"]["rope"]["distance_and_keys"])
    numbers = compare.near_numbers()
    assert f"RoPE ({rise.mean():+.2f} ± {rise.std(ddof=1):.2f})" in numbers["breaks"]
    assert numbers["rope_cut"] == f"{cut[:, 1].mean():.2f}\u00a0±\u00a0{cut[:, 1].std(ddof=1):.2f}"
    assert numbers["rope_distance"] == f"{(grid[:, 0, -1] - grid[:, 0, 0]).mean():.2f}"
    assert numbers["rope_keys"] == f"{(grid[:, -1, 0] - grid[:, 0, 0]).mean():.2f}"
    assert compare.study_numbers()["tested"] == str(text["lengths"][-1])


@pytest.mark.parametrize(
    "name, kind", [("nope", "reads no position"), ("sinusoidal", "absolute"), ("rope", "relative"), ("t5", "relative")]
)
def test_what_a_method_is_comes_from_its_code(name, kind):
    assert compare.kind_of(name) == kind


def test_without_a_mask_sides_and_order_are_told_apart():
    assert [compare.properties(name)["both ways"].split(": ")[-1] for name in ("nope", "alibi", "rope")] == [
        "sees a bag",
        "can't tell left from right",
        "tells order",
    ]


def test_level_is_what_the_pairs_of_seeds_do_not_tell_from_the_lowest():
    values = {"rope": [1.0, 1.2], "alibi": [1.001, 1.201], "nope": [1.3, 0.95], "t5": [1.2, 1.4]}
    ranked = ["rope", "alibi", "nope", "t5"]
    assert compare.level(values) == (["rope", "nope"], ranked)  # a hair apart, but with every seed


def test_a_puzzle_ranks_only_those_that_learned_it(monkeypatch):
    scores = {"rope": ([0.0, 0.02], [0.5, 0.6]), "nope": ([0.4, 0.5], [0.1, 0.1])}
    methods = {name: {"scores": {"in": inside, "far": outside}} for name, (inside, outside) in scores.items()}
    result = {"contrast": ("in", "far"), "tolerance": 0.05, "methods": methods}
    monkeypatch.setattr(compare, "results", lambda: {"needle": result})
    top, words = compare.puzzle_ranking("needle")
    assert top == ["rope"] and "NoPE" in words
    del methods["rope"]
    assert compare.puzzle_ranking("needle")[0] == []


def test_every_file_is_listed_with_its_command():
    names = sorted(path.stem for path in RESULTS.glob("*.json"))
    assert [row[0] for row in rows(compare.runs_table())] == names == list(compare.files())
    assert frozen("needle")["command"] in compare.runs_table().data


def test_a_comparison_that_sees_nothing_is_refused():
    with pytest.raises(AssertionError):
        compare.check_disagreements(lambda mine, other: [], frozen("flipflop"))


@pytest.mark.weekly
def test_every_number_of_the_prose_is_said_once(monkeypatch):
    names = []
    monkeypatch.setattr(compare, "say_all", lambda page, texts: names.extend(f"{page}_{name}" for name in texts))
    compare.numbers()
    text = (RESULTS.parent / "book" / "compare.md").read_text("utf-8")
    assert len(names) == len(set(names))
    assert set(names) == set(re.findall(r"\{glue:text\}`(\w+)`", text))


def slug(heading):
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def test_each_arrow_of_the_decision_has_evidence():
    book = RESULTS.parent / "book"
    branches = re.findall(r"^ +- (.*)$", compare.decision().data, re.M)
    for branch in branches:
        page, _, anchor = re.match(r"\[[^\]]+\]\(([^)]+)\)", branch)[1].partition("#")
        text = (book / (page or "compare.md")).read_text("utf-8")
        assert not anchor or anchor in [slug(heading) for heading in re.findall(r"^#+ (.+)$", text, re.M)], branch
    assert len(branches) >= 8


def test_the_decision_gives_the_numbers_of_the_files():
    runs = frozen("train_short_test_long")["methods"]
    whole = {name: np.array(runs[name]["whole"]) for name in ("alibi", "exposb")}
    far = frozen("needle")["methods"]["rope"]["scores"]["far"]
    words = compare.decision().data
    assert all(f"{(loss[:, -1] - loss[:, 0]).mean():+.2f} nats" in words for loss in whole.values())
    assert f"{np.mean(far):.0%} wrong" in words


def test_the_table_of_one_glance_agrees_with_the_methods_and_the_shipped_models():
    book = Path(__file__).resolve().parents[3] / "book"
    text = (book / "compare.md").read_text("utf-8")
    rows = re.findall(r"^\| \[([\w-]+)\]\((\w+)\.md\) \| (\w+) \| .+? \| (.+?) \| .+ \| .+ \| (.+) \|$", text, re.M)
    methods = {method.title: method for method in METHODS.values()}
    models = {row["model"]: row["encoding"] for row in json.loads((book / "shipped_models.json").read_text())["rows"]}
    assert len(rows) == 7
    for title, page, place, relative, shipped in rows:
        method = methods[title]
        assert (page, place) == (method.page, *(method.places or ("nowhere",)))
        assert relative == ("no" if "relative" in method.fails else relative) and relative in (
            "no",
            "yes",
            "reads no position",
        )
        for model in shipped.removesuffix(", in some layers").split(", ") if shipped != "none widely used" else ():
            nope = title == "NoPE"
            assert nope or title.lower().split("-")[0] in models[model].lower(), model
            assert not nope or "RoPE" in models[model]
