"""A section lifted into another book: what it brings along, what it leaves, and a fresh Jupyter Book that builds it."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from posenc.lab import lift, pages

ROOT = Path(__file__).resolve().parents[2]


def lifted(name, to):
    said = lift.lift(name, to)
    return Path(said[0].removeprefix("wrote ")).read_text("utf-8"), "\n".join(said)


def test_a_section_brings_its_numbers_cells_citations_and_says_what_the_other_book_needs(tmp_path):
    text, said = lifted("rope#derivation", tmp_path)
    assert "# Derivation\n" in text and "page.numbers()" in text and text.count("remove-cell") == 1
    assert "{prf:theorem}" in text and "sphinx_proof" in said and "bibtex_bibfiles" in said
    entries = re.findall(r"^@\w+\{(\w+)", (tmp_path / "posenc.bib").read_text("utf-8"), re.M)
    assert set(entries) == {"vaswani2017attention", "su2021roformer"} and "{bibliography}" in text
    assert "(eq-rope-wish)" in text and "rope.html#is-there-no-other-solution" in text
    assert not re.search(r"\{(term|doc|explorable|predict|lab|live)\}|\]\(\w+\.md", text)


def test_figures_move_there_as_outputs_and_pictures_come_along(tmp_path):
    text, _ = lifted("rope#the-idea", tmp_path)
    assert 'load("clock.two_hands")' in text and "Answer" in text
    assert (tmp_path / "_static" / "four-places-rotate.svg").exists() and "{figure} _static/four-places-rotate" in text


def test_cells_that_the_sections_own_lean_on_come_hidden_and_no_others(tmp_path):
    text, _ = lifted("practice#break-it", tmp_path)
    assert "def in_a_packed_row" in text and "restarted = " in text and "targets[" not in text
    assert "def scores_along" in lifted("moving_ruler#the-code", tmp_path)[0], "what it includes stands in it"


def test_two_sections_share_a_bibliography_and_what_was_edited_is_kept(tmp_path):
    lift.lift("rope#derivation", tmp_path)
    lift.lift("kernels#the-idea", tmp_path)
    entries = re.findall(r"^@\w+\{(\w+)", (tmp_path / "posenc.bib").read_text("utf-8"), re.M)
    assert len(entries) == len(set(entries)) == 4
    lift.lift("rope#derivation", tmp_path)
    (tmp_path / "rope_derivation.md").write_text("mine", "utf-8")
    with pytest.raises(lift.LiftError, match="rope_derivation.md.*delete"):
        lift.lift("rope#derivation", tmp_path)


@pytest.mark.parametrize("name, words", [("rpoe#derivation", "'rpoe'.*rope"), ("rope#nothing", "nothing.*derivation")])
def test_what_is_not_there_is_named(name, words, tmp_path, capsys):
    with pytest.raises(SystemExit):
        lift.main([name, str(tmp_path)])
    assert re.search(words, capsys.readouterr().err, re.S) and not list(tmp_path.iterdir())


def test_in_a_myst_project_numbers_are_text(tmp_path):
    said = "\n".join(lift.lift("rope#derivation", tmp_path, myst=True))
    text = (tmp_path / "rope_derivation.md").read_text("utf-8")
    assert "glue" not in text and "54,410 for the slowest" in text and "{code-cell}" not in text
    assert "myst.yml" in said and "bibliography: [posenc.bib]" in said and "_config" not in said and "_toc" not in said
    lift.lift("practice#break-it", tmp_path, myst=True)
    text = (tmp_path / "practice_break_it.md").read_text("utf-8")
    assert "remove-cell" in text and "glue" not in text


def test_cells_that_say_numbers_run_where_there_is_no_myst_nb(monkeypatch):
    monkeypatch.setitem(sys.modules, "myst_nb", None)
    pages.say("rope_number", 1.5)
    with pages.collected() as said:
        pages.say("rope_number", 1.5, ".2f")
    assert said == {"rope_number": "1.50"}


@pytest.mark.slow
def test_a_fresh_jupyter_book_builds_them_without_a_warning(tmp_path):
    for name in ("rope#the-idea", "rope#derivation", "moving_ruler#the-code", "practice#the-code"):
        lift.lift(name, tmp_path / "posenc")
    (tmp_path / "index.md").write_text("# A course\n", "utf-8")
    files = sorted(path.relative_to(tmp_path).with_suffix("").as_posix() for path in (tmp_path / "posenc").glob("*.md"))
    chapters = "".join(f"- file: {file}\n" for file in files)
    (tmp_path / "_toc.yml").write_text(f"format: jb-book\nroot: index\nchapters:\n{chapters}", "utf-8")
    (tmp_path / "_config.yml").write_text(
        "title: A course\nonly_build_toc_files: true\nbibtex_bibfiles: [posenc/posenc.bib]\n"
        "execute: {execute_notebooks: force, timeout: 300}\n"
        "sphinx: {extra_extensions: [sphinx_proof, sphinx_exercise]}\n",
        "utf-8",
    )
    book = "from jupyter_book.cli.main import main; main()"
    words = [sys.executable, "-c", book, "build", str(tmp_path), "--warningiserror", "--keep-going"]
    result = subprocess.run(words, capture_output=True, text=True, cwd=tmp_path)
    assert result.returncode == 0, result.stderr[-3000:]
    pages = {path.stem: path.read_text("utf-8") for path in (tmp_path / "_build" / "html" / "posenc").glob("*.html")}
    assert "posencExplorables.notebook(" in pages["rope_the_idea"] and "four-places-rotate" in pages["rope_the_idea"]
    assert "54,410" in pages["rope_derivation"] and "Vaswani" in pages["rope_derivation"]
