"""Compare and choose: what became of a method, who is level with the best, and the table written by hand."""

import re
from pathlib import Path

from posenc import METHODS
from posenc.chapters.compare import facts as compare
from posenc.chapters.shipped import facts as shipped
from posenc.lab.titles import TITLES

ROOT = Path(__file__).resolve().parents[2]


def rows(table):
    """The cells of a Markdown table, without its head."""
    return [line.strip("| ").split(" | ") for line in table.data.split("\n")[2:]]


def test_a_method_that_was_not_run_has_dashes_and_no_number(monkeypatch):
    cut = {name: dict(result) for name, result in compare.RESULTS.items()}
    for result in cut.values():
        result["methods"] = {name: values for name, values in result["methods"].items() if name != "rope"}
    monkeypatch.setattr(compare, "RESULTS", cut)
    for make in (compare.text_table, compare.factorial_table, compare.masked_table, compare.puzzles_table):
        (row,) = (row for row in rows(make()) if row[0] == compare.link("rope"))
        assert all(cell.startswith("–") for cell in row[1:])


def test_level_is_what_the_pairs_of_seeds_do_not_tell_from_the_lowest():
    values = {"rope": [1.0, 1.2], "alibi": [1.001, 1.201], "nope": [1.3, 0.95], "t5": [1.2, 1.4]}
    ranked = ["rope", "alibi", "nope", "t5"]
    assert compare.level(values) == (["rope", "nope"], ranked)  # a hair apart, but with every seed
    windows = {"rope": [0.0, 0.0], "alibi": [0.9, -0.9]}  # which say nothing of the two
    assert compare.level({name: values[name] + windows[name] for name in windows}, 2)[0] == ["rope", "alibi"]


def test_the_table_of_one_glance_agrees_with_the_methods_and_the_shipped_models():
    text = (ROOT / "book" / "compare" / "index.md").read_text("utf-8")
    rows = re.findall(
        r"^\| \[([\w-]+)\]\(\.\./(\w+)/index\.md\) \| (\w+) \| .+? \| (.+?) \| .+ \| .+ \| (.+) \|$", text, re.M
    )
    names = {method.title: name for name, method in METHODS.items()}
    models = {row["name"]: row.get("told", {}).get("method", "") for row in shipped.MODELS["rows"]}
    models |= {name: shipped.method(reading) for name, reading in shipped.readings().items()}
    assert len(rows) == 7
    for title, page, place, relative, ships in rows:
        method = METHODS[names[title]]
        assert (page, place) == (TITLES[names[title]].page, *(method.places or ("nowhere",)))
        assert relative in ("no", "yes", "reads no position") and (relative == "no") == ("relative" in method.fails)
        for model in ships.removesuffix(", in some layers").split(", ") if ships != "none widely used" else ():
            assert ("rope" if title == "NoPE" else title.lower().split("-")[0]) in models[model].lower(), model
