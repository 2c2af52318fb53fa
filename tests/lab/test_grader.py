"""`python -m posenc.lab.check`: labs graded from notebooks that students have edited in every way."""

import copy
import re

import nbformat
import pytest
from lab_runs import ROOT, labs, private

from posenc.lab import check as checks
from posenc.lab.check import grade

LABS = [path.parent.name for path in labs.sources()]
WRONG = checks.text(checks.find("rope.rotate").reference)
WRONG_ROTATE = f"{WRONG[0]}\n{WRONG[1].replace('positions', '-positions')}"


def solved(lab):
    """A finished lab as a student hands it in: without the hidden tests."""
    notebook = labs.read(private(f"{lab}/lab.py"), labs.address())
    notebook.cells = [cell for cell in notebook.cells if not labs.is_test(cell)]
    return notebook


def untouched(lab):
    return nbformat.read(ROOT / "notebooks" / f"{lab}.ipynb", as_version=4)


def code(source):
    return nbformat.v4.new_code_cell(source)


def cell_of(notebook, exercise):
    return next(cell for cell in notebook.cells if cell.id == exercise)


@pytest.fixture
def graded(tmp_path):
    """graded(notebook) -> {exercise: (points, words)}."""

    def grade_it(notebook, **options):
        path = tmp_path / "submission.ipynb"
        nbformat.write(notebook, path)
        return {row["exercise"]: (row["points"], row["words"]) for row in grade.grade(path, **options).exercises}

    return grade_it


@pytest.mark.weekly
@pytest.mark.parametrize("lab", LABS)
def test_solutions_get_full_marks_and_stubs_none(lab, graded):
    assert graded(solved(lab)) == {name: (exercise.points, "") for name, exercise in checks.of(lab).items()}
    assert graded(untouched(lab)) == {name: (0, "not done yet.") for name in checks.of(lab)}


def test_last_finished_definition_counts_wherever_it_stands_and_the_mistake_is_named(graded):
    notebook, empty = solved("rope"), untouched("rope")
    stubs = [cell for cell in empty.cells if "def " in cell.source]
    cell_of(notebook, "rotate_half").source += "\n    return )"  # a stub below, and this is no Python
    notebook.cells.remove(cell_of(notebook, "permutation"))
    cell_of(notebook, "inv_freq").source = "raise SystemExit\n@nosuchname\n" + cell_of(notebook, "inv_freq").source
    notebook.cells += [code(WRONG_ROTATE), *copy.deepcopy(stubs[2:3]), code("rotate = None\n1 / 0")]
    notebook.cells = [cell for cell in notebook.cells if "permutation" not in cell.source]
    for number, cell in enumerate(notebook.cells):
        cell.metadata, cell.id = {}, f"n{number}"
        if cell.cell_type == "code":
            cell.source = f"%%time\n%matplotlib inline\n!pip list\n{cell.source}\ntorch.stack?"
    rows = graded(notebook)
    assert [points for points, _ in rows.values()] == [0, 1, 0, 0, 2] and rows["shift_error"] == (2, "")
    words = {"inv_freq": "nosuchname", "rotate": "sign of the sine is flipped", "permutation": "not in the notebook"}
    assert all(said in rows[name][1] for name, said in words.items())


@pytest.mark.parametrize(
    "text, words",
    [
        ("import torch\n", "not JSON"),
        ('{"nbformat": 3, "worksheets": []}', "format 3"),
        ('{"cells": [{"cell_type": "code", "source": "def rotate(x):\\n    return x"}]}', "--lab"),
    ],
)
def test_what_cannot_be_graded_is_refused(tmp_path, capsys, text, words):
    path = tmp_path / "x.ipynb"
    path.write_text(text)
    assert grade.main([str(path)]) == 1
    said = capsys.readouterr()
    assert said.out == "" and said.err.startswith(f"{path}: ") and words in said.err


FILES = {"lovelaceada_LATE_11_208_rope-1": 8, "Bob van Berg_11_assignsubmission_file_/rope": "b2", "again b2": 1.5}
FILES |= {"rope_14": None, "nobody": 1}  # file: the seed that it sets, None where it is no notebook


def test_a_class_becomes_gradebooks_and_sheets(tmp_path, monkeypatch, capsys):
    def run(cells, lab, limit, seed):
        return [{"exercise": "rotate", "title": "", "points": seed + ("1.5" in cells[0]), "words": ""}]

    monkeypatch.setattr(grade, "_run", run)
    (tmp_path / "roster.csv").write_text("ID,Name,Seed\n11,Ada Lovelace,7\nb2,Bob van Berg,b2\n14,Dirac,0\n15,,0\n")
    for name, seed in FILES.items():
        path = tmp_path / "in" / f"{name}.ipynb"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("{")
        if seed:
            texts = [nbformat.v4.new_markdown_cell(text) for text in ("**On paper.** Why?", f"Because {name}.")]
            cells = [code(f'%env POSENC_SEED={seed}\ncheck("rope.x", x)'), *texts]
            nbformat.write(nbformat.v4.new_notebook(cells=cells), path)
    arguments = [str(tmp_path / "in"), "--roster", str(tmp_path / "roster.csv"), "--answers", str(tmp_path / "sheets")]
    assert grade.main([*arguments, "--csv", str(tmp_path / "marks.csv")]) == 1, "nobody is none of the roster"
    assert "nobody.ipynb: rope 1/3" in (said := capsys.readouterr()).out and "rope_14.ipynb: is no" in said.err
    assert "sets 8, the roster's seed is 7" in said.out
    bob = checks.student_seed("b2")
    rows = (tmp_path / "marks.csv").read_text().splitlines()
    starts = ["ID number", "11,Ada Lovelace,7,", f"b2,Bob van Berg,{bob + 1},", "14,Dirac,-,", "15,,-,"]
    words = ["Feedback", "late", f"another of your files has {bob}/3", "rope_14.ipynb is no", "no file"]
    assert all(row.startswith(start) and word in row for start, word, row in zip(starts, words, rows, strict=True))
    assert grade.main([*arguments, "--csv", str(tmp_path / "marks.csv"), "--format", "canvas", "--json"]) == 1
    rows = (tmp_path / "marks.csv").read_text().splitlines()
    assert rows[0].startswith("Student,ID,SIS User ID,SIS Login ID,Section,Lab rope") and "Points Possible" in rows[1]
    assert rows[2].startswith("Ada Lovelace,,11,,,7") and rows[5] == ",,15,,,"
    assert "late" in (tmp_path / "marks.comments.csv").read_text()
    sheet = (tmp_path / "sheets" / "rope.md").read_text()
    assert sheet.count("Why?") == 1 and sheet.index("## 11 Ada") < sheet.index("Because lovelaceada")
    keys = {seed: grade.with_numbers("rope", seed)[0][1] for seed in (7, bob)}
    assert [sheet.count(key.splitlines()[0]) for key in keys.values()] == [1, 2] and len({*keys.values()}) == 2


def test_the_question_with_numbers_counts_and_is_held_against_the_bank(tmp_path, monkeypatch):
    monkeypatch.setattr(grade, "_run", lambda *how: [])
    notebook, points = nbformat.read(ROOT / "notebooks" / "rope.ipynb", 4), grade.with_numbers("rope", 0)[0][0]
    for old, flags in ("g in 2", 0), ("g in 3", 1):
        for cell in notebook.cells:
            cell.source = cell.source.replace("g in 2", old) if "import ask" in cell.source else cell.source
        nbformat.write(notebook, tmp_path / "rope.ipynb")
        graded = grade.grade(tmp_path / "rope.ipynb")
        assert len(graded.flags) == flags and graded.on_paper == checks.on_paper("rope") + points
        assert graded.paper[1] == "", "nothing is answered"


@pytest.mark.parametrize(
    "text, words",
    [("name\nAda\n", "column id"), ("id\n1\n1\n", "line 3: id='1'"), ("id,seed\n1,a b\n", "line 2.*'a b'"), ("", "id")],
)
def test_a_roster_that_cannot_be_used_is_refused_by_its_line(tmp_path, capsys, text, words):
    (tmp_path / "roster.csv").write_text(text)
    assert grade.main([str(tmp_path), "--roster", str(tmp_path / "roster.csv")]) == 1
    assert re.search(words, capsys.readouterr().err)


def test_an_answer_that_is_posencs_own_is_flagged_and_no_lab_is_by_itself():
    answer = "%time\ndef inv_freq(dim, base):\n    return posenc.rope.inv_freq(dim, base)"
    assert grade.borrowed([answer, "x ="], "inv_freq") == ["posenc.rope.inv_freq"]
    for line in ("from posenc.rotate.rope import inv_freq as f", "from posenc.lab.check import find"):
        assert grade.borrowed([f"inv_freq = None\n{line}"], "inv_freq") == [line] and not grade.borrowed([line], "x")
    for lab in {*LABS} - {"symptoms"}:  # whose solutions ask what the seed has drawn
        sources = [cell.source for cell in solved(lab).cells if cell.cell_type == "code"]
        assert not any(grade.borrowed(sources, name) for name in checks.of(lab)), lab


def test_key_tells_what_a_student_is_asked_for(monkeypatch, capsys):
    monkeypatch.setenv("POSENC_SEED", "17")
    assert grade.main(["key", "--seed", "17", "--lab", "alibi"]) == 0
    said = capsys.readouterr().out
    assert all(exercise.seeded().title in said for exercise in checks.of("alibi").values() if exercise.variants)
    assert grade.with_numbers("alibi", 17)[0][1] in said
    assert grade.main(["key", "--seed", "17"]) == 0
