r"""Symptoms: each entry can be found, runs alone, and leads on."""

import re
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book"))
import minutes  # noqa: E402

PAGE = (ROOT / "book" / "symptoms.md").read_text("utf-8")
OPENING, REST = PAGE.split("\n## Second reading\n")
START, *PARTS = re.split(r"^\((sym-[\w-]+)\)=\n", REST, flags=re.M)
ENTRIES = dict(zip(PARTS[::2], PARTS[1::2], strict=True))
CELL = re.compile(r"^```\{code-cell\} ipython3\n(.*?)^```$", re.M | re.S)

each_entry = pytest.mark.parametrize("name", ENTRIES)


@pytest.fixture(scope="module")
def start():
    r"""What all entries share: the page's first cell."""
    (code,), names = CELL.findall(START), {}
    exec(compile(code, "symptoms.md", "exec"), names)
    return names


def test_the_opening_is_short_and_its_table_has_every_entry_in_order():
    assert minutes.first_reading(PAGE).words <= 400
    assert re.findall(r"\]\(#(sym-[\w-]+)\)", OPENING) == list(ENTRIES)


@each_entry
def test_an_entry_is_short_and_has_a_heading_a_thread_and_a_chapter(name):
    text = ENTRIES[name]
    assert re.match(r"### .+\n", text)
    assert re.search(r"\]\(https://github\.com/[\w.-]+/[\w.-]+/(?:issues|pull)/\d+\)", text)
    chapters = re.findall(r"\]\((\w+)\.md(?:#[\w-]+)?\)", text)
    assert chapters and all((ROOT / "book" / f"{chapter}.md").exists() for chapter in chapters)
    assert minutes.prose(CELL.sub("", text)).words <= 150


@each_entry
def test_an_entry_fails_and_is_mended_in_a_cell_that_runs_alone(name, start):
    (code,) = CELL.findall(ENTRIES[name])
    assert "assert " in code and sum(bool(line.strip()) for line in code.split("\n")) <= 12
    exec(compile(code, f"symptoms.md, {name}", "exec"), dict(start))  # it asserts both sides
