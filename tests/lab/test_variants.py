"""What a student's seed changes: other exercises, with their mistakes still named; and who has which seed."""

import nbformat
import pytest
from lab_runs import ROOT, labs
from samples import sample

from posenc import METHODS
from posenc.lab import exercises
from posenc.lab.exercises import find, grade, judge, registry, seeds, submission, variants
from posenc.lab.exercises.gradebook import Roster

EVERY = [(name, number) for name, row in variants.VARIANTS.items() for number in range(len(row))]
METHOD_LABS = sorted({method.lab for method in METHODS.values() if method.lab} | {"scaling"})


@pytest.fixture
def seeded(monkeypatch):
    monkeypatch.setenv("POSENC_SEED", "17")
    return 17


@pytest.mark.parametrize("name, number", sample(EVERY, every=4))
def test_a_variant_has_another_answer_and_names_each_mistake(name, number, seeded, monkeypatch):
    monkeypatch.setitem(variants.VARIANTS, name, [variants.VARIANTS[name][number]])
    exercise = find(name)
    assert exercise.asks and judge(exercise, exercise.reference).right
    assert judge(exercise, exercise.plain.reference).mistake == variants.PLAIN
    assert not judge(exercise.plain, exercise.reference).right
    for words, wrong in exercise.mistakes.items():
        assert judge(exercise, wrong).mistake == words


@pytest.mark.parametrize("lab", METHOD_LABS)
def test_two_exercises_of_each_lab_differ_between_seeds(lab):
    assert not any(exercise.asks for exercise in registry.of(lab, 0).values())
    varied = [name for name, exercise in registry.of(lab, 1).items() if exercise.asks]
    assert len(varied) >= 2
    asked = {tuple(exercise.asks for exercise in registry.of(lab, seed).values()) for seed in range(1, 31)}
    assert len(asked) >= 4


def test_a_reworded_mistake_is_one_that_exists():
    for name, row in variants.VARIANTS.items():
        words = " ".join(registry.of(name.partition(".")[0], 0)[name.partition(".")[2]].mistakes)
        for one in row:
            assert all(old in words for old in one.reword), (name, one.asks)


def test_the_lab_says_what_the_seed_asks_and_goes_on_with_the_books_function(seeded, monkeypatch, capsys):
    monkeypatch.setattr(submission, "_submissions", {})
    exercise = find("rope.inv_freq")
    after = exercises.check("rope.inv_freq", exercise.reference)
    said = capsys.readouterr().out
    assert exercise.asks in said and "right" in said
    assert isinstance(after, submission.StandIn) and (after(8, 100.0) == exercise.plain.reference(8, 100.0)).all()
    exercises.require("rope.inv_freq")
    exercises.check("rope.inv_freq", exercise.plain.reference)
    with pytest.raises(AssertionError, match="book's own"):
        exercises.require("rope.inv_freq")


def test_a_form_field_sets_the_seed_and_a_missing_one_is_named(monkeypatch, capsys):
    monkeypatch.delenv("POSENC_SEED", raising=False)
    assert exercises.use_seed(0, "rope") == 0 and "none is set" in capsys.readouterr().out
    exercises.ask("rope")
    assert "No seed" in capsys.readouterr().out
    monkeypatch.setenv("POSENC_SEED", "0")
    assert exercises.use_seed(17, "rope") == 17 == exercises.student_seed()
    said = capsys.readouterr().out
    assert all(one.asks in said for one in registry.of("rope", 17).values())
    with pytest.raises(ValueError, match="POSENC_SEED is 17"):
        exercises.use_seed(18)
    for bad in (-1, 1.5, True, "ada", 2**31):
        with pytest.raises(ValueError, match="STUDENT_SEED="):
            exercises.use_seed(bad)


@pytest.mark.parametrize(
    "cell, seed",
    [
        ('STUDENT_SEED = 17  # @param {type: "integer"}', 17),
        ("%env POSENC_SEED=17", 17),
        ("%env POSENC_SEED 17", 17),
        ('import os\nos.environ["POSENC_SEED"] = "17"', 17),
        ("STUDENT_SEED = 0", 0),
        ("# STUDENT_SEED = 17", 0),
        ("STUDENT_SEED = None", 0),
    ],
)
def test_the_seed_is_read_from_the_notebook(cell, seed):
    assert seeds.seed_in(["import torch", cell]) == seed


def roster_file(tmp_path, text):
    path = tmp_path / "roster.csv"
    path.write_text(text, encoding="utf-8")
    return path


def test_a_roster_tells_whose_seed_it_is(tmp_path):
    students = Roster.read(roster_file(tmp_path, "username,seed,group\nada,17,a\nada.l,18,b\nbob,19,a\n"))
    assert students.seeds == [17, 18, 19]
    assert students.odd_seed("week 1/ada/rope.ipynb", 17) == students.odd_seed("ada.l_4_rope.ipynb", 18) == ""
    assert "no seed" in students.odd_seed("ada/rope.ipynb", 0)
    assert "bob" in students.odd_seed("ada/rope.ipynb", 19)
    assert "nobody's" in students.odd_seed("ada/rope.ipynb", 3)
    assert "no student" in students.odd_seed("adam/rope.ipynb", 17)
    assert Roster.read(roster_file(tmp_path, "username\nada\n")).odd_seed("ada/rope.ipynb", 0) == ""


@pytest.mark.parametrize(
    "text, word",
    [
        ("username,seed\nada,x\n", "'x' of ada"),
        ("username,seed\nada,0\n", "'0' of ada"),
        ("username,seed\nada,17\nbob,17\n", "seed=17"),
    ],
)
def test_a_roster_with_bad_seeds_is_refused(tmp_path, text, word, capsys):
    path = roster_file(tmp_path, text)
    with pytest.raises(ValueError, match=word):
        Roster.read(path)
    assert grade.main([str(tmp_path), "--roster", str(path)]) == 1 and word in capsys.readouterr().err


@pytest.mark.slow
def test_the_grader_grades_by_the_notebooks_seed_and_names_a_forgotten_one(tmp_path):
    notebook = labs.read(ROOT / "course" / "alibi.py", labs.address())
    notebook.cells = [cell for cell in notebook.cells if not labs.is_test(cell)]
    roster = Roster.read(roster_file(tmp_path, "username,seed\nada,17\nbob,18\n"))
    path = tmp_path / "ada.ipynb"
    nbformat.write(notebook, path)
    forgotten = grade.grade(path, roster=roster)
    assert forgotten.points == forgotten.of and "no seed" in forgotten.hints[0]

    assert registry.of("alibi", 17)["slopes"].asks.startswith("the exponents run to 4")
    for cell in notebook.cells:
        cell.source = cell.source.replace("STUDENT_SEED = 0", "STUDENT_SEED = 17")
        if cell.id == "slopes":  # this one as the seed asks for it, the others as the book has them
            cell.source = "def slopes(num_heads):\n    return posenc.alibi.slopes(num_heads) ** 0.5"
    nbformat.write(notebook, path)
    graded = grade.grade(path, roster=roster)
    rows = {row["exercise"]: row for row in graded.exercises}
    assert graded.seed == 17 and not any("seed" in hint for hint in graded.hints)
    assert rows["slopes"]["points"] == rows["slopes"]["of"]
    assert all("book's own" in rows[name]["words"] and not rows[name]["points"] for name in ("bias", "window"))
