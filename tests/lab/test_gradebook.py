"""From grades to a gradebook: rosters, the CSV, partial points, answers on paper, Gradescope; and what is not lost."""

import csv
import dataclasses
import json
import re

import nbformat
import pytest
from samples import sample

from posenc.lab import exercises
from posenc.lab.exercises import bank, grade, gradebook, marks, submission, variants
from posenc.lab.exercises.grade import Grade, GradeError
from posenc.lab.exercises.gradebook import Roster, RosterError

CANVAS = """\
Student,ID,SIS User ID,SIS Login ID,Section,Homework 1 (77)
    Points Possible,,,,,10
"Lovelace, Ada",4711,s1,ada,A,9
"Hopper, Grace",99,s2,grace,A,
"Student, Test",1,,,A,
"""
MOODLE = """\
\ufeffFirst name;Last name;ID number;Email address;Department
Ada;Lovelace;s1;ada@uni.example;CS
Grace;Hopper;s2;grace@uni.example;CS
"""


def roster(tmp_path, text):
    (tmp_path / "roster.csv").write_text(text, "utf-8")
    return Roster.read(tmp_path / "roster.csv")


def graded(file, lab="rope", points=7, of=10):
    row = {
        "exercise": "rotate",
        "title": "Exercise 2, rotate",
        "points": points,
        "of": of,
        "words": "",
        "mistake": None,
    }
    return Grade(file, lab, [row], on_paper=4)


# --- rosters ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text, path, name",
    [
        (CANVAS, "lovelaceada_4711_99_rope.ipynb", "Ada"),  # 99 is the submission's number, and Grace's ID
        (CANVAS, "hoppergrace_LATE_99_4711_rope-1.ipynb", "Grace"),
        (CANVAS, "submitted/grace/rope/rope.ipynb", "Grace"),  # nbgrader's folders
        (MOODLE, "Ada Lovelace_123_assignsubmission_file/rope.ipynb", "Ada"),
        (MOODLE, "x/grace@uni.example.ipynb", "Grace"),
        (MOODLE, "S1_rope.ipynb", "Ada"),
    ],
)
def test_a_notebook_is_told_by_names_in_its_path(text, path, name, tmp_path):
    students = roster(tmp_path, text)
    assert len(students.students) == 2, "no points possible, no test student"
    assert name in students.name(students.whose(path))


@pytest.mark.parametrize("path, words", [("rope.ipynb", "no student"), ("ada/grace.ipynb", "Ada.* or .*Grace")])
def test_a_notebook_of_nobody_or_of_two_is_refused(path, words, tmp_path):
    with pytest.raises(LookupError, match=words):
        roster(tmp_path, MOODLE).whose(path)


def test_a_name_of_two_students_tells_neither(tmp_path):
    both = roster(tmp_path, "Email address\nada@a.example\nada@b.example\n")
    with pytest.raises(LookupError, match="a.example or .*b.example"):
        both.whose("ada.ipynb")
    assert both.whose("ada@b.example.ipynb") == 1


@pytest.mark.parametrize(
    "text, words",
    [
        ("First name,Last name\nAda,Lovelace\n", "email address.*First name"),
        ("Student,ID\nAda,1\n", "'section'.*Canvas"),
        ("Student,Section\nAda,A\n", "'id'.*Canvas"),
        ("Email address\n", "nothing"),
        ("Email address,Section\n , \n", "no student"),
        ("", "nothing"),
    ],
)
def test_a_roster_that_tells_no_students_apart_is_refused_by_what_is_missing(text, words, tmp_path):
    with pytest.raises(RosterError, match=words):
        roster(tmp_path, text)


# --- the CSV ---------------------------------------------------------------------------------------------------------


def rows_of(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_canvas_gets_its_columns_back_and_a_column_a_lab(tmp_path):
    grades = [
        graded("ada/rope.ipynb"),
        graded("ada/alibi.ipynb", "alibi", 1.5, 7),
        graded("grace_rope.ipynb", points=10),
    ]
    files = gradebook.write(tmp_path / "marks.csv", grades, {}, roster(tmp_path, CANVAS))
    assert files == [tmp_path / "marks.csv"], "nothing is left over"
    head, possible, *rows = rows_of(files[0])
    assert head == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Lab alibi", "Lab rope"]
    assert possible[0].strip() == "Points Possible" and possible[-2:] == ["7", "10"]
    assert rows == [
        ["Lovelace, Ada", "4711", "s1", "ada", "A", "1.5", "7"],
        ["Hopper, Grace", "99", "s2", "grace", "A", "", "10"],
    ]


def test_moodle_gets_its_columns_and_no_row_that_is_no_student(tmp_path):
    (path,) = gradebook.write(tmp_path / "marks.csv", [graded("s1.ipynb")], {}, roster(tmp_path, MOODLE))
    assert rows_of(path) == [
        ["First name", "Last name", "ID number", "Email address", "Lab rope"],
        ["Ada", "Lovelace", "s1", "ada@uni.example", "7"],
        ["Grace", "Hopper", "s2", "grace@uni.example", ""],
    ]


def test_no_mark_is_lost(tmp_path):
    """What is of nobody, handed in twice, or not graded stands in a second file with the reason."""
    grades = [graded("x.ipynb"), graded("old/ada.ipynb", points=3), graded("new/ada.ipynb", points=8)]
    students = roster(tmp_path, MOODLE)
    files = gradebook.write(tmp_path / "marks.csv", grades, {"grace/broken.ipynb": "is no notebook"}, students)
    assert rows_of(files[0])[1][-1] == "8", "the better one counts"
    head, *left = rows_of(files[1])
    assert head == ["file", "lab", "points", "of", "why"]
    assert {row[0]: row[2] for row in left} == {"x.ipynb": "7", "old/ada.ipynb": "3", "grace/broken.ipynb": ""}
    why = {row[0]: row[4] for row in left}
    assert "new/ada.ipynb" in why["old/ada.ipynb"] and "no student" in why["x.ipynb"]
    gradebook.write(tmp_path / "marks.csv", grades[2:], {}, students)
    assert not files[1].exists(), "an earlier run's is gone"


def test_without_a_roster_each_notebook_has_a_row(tmp_path):
    (path,) = gradebook.write(tmp_path / "marks.csv", [graded("a, b.ipynb", points=0.5)], {})
    assert rows_of(path) == [["file", "lab", "points", "of"], ["a, b.ipynb", "rope", "0.5", "10"]]


# --- partial points --------------------------------------------------------------------------------------------------


def test_what_gets_no_share_is_a_mistake_that_is_known():
    for name, beginnings in marks.NO_SHARE.items():
        for beginning in beginnings:
            named = [words for words in exercises.find(name).mistakes if words.startswith(beginning)]
            assert len(named) == 1, f"{name}: {beginning!r} begins {len(named)} of its mistakes"


@pytest.mark.parametrize(
    "name", sample([f"{lab}.{name}" for lab in exercises.labs() for name in exercises.of(lab)], every=4)
)
def test_both_graders_give_a_named_mistake_the_same_points(name, monkeypatch, capsys):
    """nbgrader reads the last value of the graded cell; what raises there has no points."""
    exercise = exercises.find(name)
    monkeypatch.setenv("POSENC_PARTIAL", "1")
    shares = set()
    for words, wrong in exercise.mistakes.items():
        monkeypatch.setattr(submission, "_submissions", {name: wrong})
        wanted = marks.partial(name, exercise, words)
        shares.add(wanted)
        if wanted:
            assert submission.require(name) == wanted < exercise.points
            assert words in capsys.readouterr().out
        else:
            with pytest.raises(AssertionError):
                submission.require(name)
    assert shares - {0}, "some mistake deserves something"
    monkeypatch.setattr(submission, "_submissions", {name: exercise.reference})
    assert submission.require(name) is None
    monkeypatch.setattr(submission, "_submissions", {name: lambda *_: 0})
    with pytest.raises(AssertionError):
        submission.require(name)  # whatever mistake it may look like


def test_without_the_setting_a_named_mistake_gets_nothing(monkeypatch):
    exercise = exercises.find("rope.rotate")
    words, wrong = next(iter(exercise.mistakes.items()))
    assert marks.partial("rope.rotate", exercise, words) == 1.5 and marks.partial("rope.rotate", exercise, None) == 0
    assert marks.partial("rope.rotate", exercise, variants.PLAIN) == 0, "the public solution, where another is asked"
    monkeypatch.setattr(submission, "_submissions", {"rope.rotate": wrong})
    for value in ("", "0"):
        monkeypatch.setenv("POSENC_PARTIAL", value)
        with pytest.raises(AssertionError):
            submission.require("rope.rotate")


def test_a_rubric_has_numbers_from_all_to_none():
    points = [points for points, _ in marks.rubric(3)]
    assert points == [3, 2.5, 1.5, 1, 0] and sorted(points, reverse=True) == points


# --- answers on paper ------------------------------------------------------------------------------------------------


def notebook(path, *cells):
    made = nbformat.v4.new_notebook()
    made.cells = [nbformat.v4.new_code_cell(c[1:]) if c[0] == "!" else nbformat.v4.new_markdown_cell(c) for c in cells]
    for cell in made.cells:
        if cell.source.startswith("@"):
            cell.source, cell.id = cell.source[1:], "paper"
    nbformat.write(made, path)
    return str(path)


@pytest.mark.parametrize(
    "cells, answer",
    [
        (["**On paper.** Show it.", "@It cancels."], "It cancels."),
        (["**On paper.** Show it.", "It cancels.", "!1"], "It cancels."),  # the cell was made anew
        (["@It cancels.", "!1", "**On paper.** Show it."], "It cancels."),  # moved
        (["**On paper.** Show it.", f"@{gradebook.UNANSWERED}"], ""),
        (["**On paper.** Show it.", f"@{gradebook.UNANSWERED}", "It cancels."], "It cancels."),
        (["3. **On paper.** Below.", "!1", "**On paper.** Show it.", "@It cancels."], "It cancels."),
    ],
)
def test_the_answer_is_found(cells, answer, tmp_path):
    assert gradebook.on_paper(notebook(tmp_path / "x.ipynb", *cells)) == ("**On paper.** Show it.", answer)


def test_every_lab_has_a_question_and_a_place_for_the_answer():
    """As students get it, and without ids and metadata."""
    from lab_runs import ROOT

    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        question, answer = gradebook.on_paper(path)
        assert len(question) > 60 and answer == "", path.name


def test_a_sheet_has_question_rubric_and_each_answer(tmp_path):
    question = "**On paper.** Show it."
    grades = [graded(notebook(tmp_path / "ada.ipynb", question, "@# It cancels.\nIndeed."))]
    grades += [graded(notebook(tmp_path / "x.ipynb", question, "@" + gradebook.UNANSWERED))]
    sheets = gradebook.sheets(grades, roster(tmp_path, MOODLE))
    assert list(sheets) == ["rope.md"]
    text = sheets["rope.md"]
    assert text.count(question) == 1 and re.findall(r"^\| ([\d.]+) \|", text, re.M) == ["4", "3", "2", "1", "0"]
    assert "> # It cancels.\n> Indeed." in text, "what students write is no heading of ours"
    assert re.search(r"^## Ada, Lovelace", text, re.M) and "no student" in text and "(no answer)" in text


def test_above_an_answer_under_a_seed_stand_its_questions_with_their_keys(tmp_path):
    grade = graded(notebook(tmp_path / "ada.ipynb", "**On paper.** Show it.", "@It cancels."))
    plain = gradebook.sheets([grade])["rope.md"]
    text = gradebook.sheets([dataclasses.replace(grade, seed=17)])["rope.md"]
    own = bank.for_lab("rope", grade.on_paper, 17)
    assert own and all(one.text in text and one.key in text and one.text not in plain for _, _, one in own)
    assert text.index(own[-1][2].key) < text.index("> It cancels.") and ", seed 17" in text


# --- Gradescope ------------------------------------------------------------------------------------------------------


def test_gradescope_reads_a_test_an_exercise():
    results = gradebook.gradescope([graded("x.ipynb")], {})
    assert results["tests"] == [{"name": "Exercise 2, rotate", "score": 7, "max_score": 10, "output": "right."}]
    assert "4 points" in results["output"]


@pytest.mark.parametrize(
    "grades, failed, words",
    [
        ([], {"a/x.ipynb": "is no notebook"}, "x.ipynb: is no notebook"),
        ([], {}, "no notebook"),
        ([graded("x.ipynb"), graded("y.ipynb")], {}, "x.ipynb, y.ipynb"),
    ],
)
def test_gradescope_says_why_there_are_no_points(grades, failed, words):
    results = gradebook.gradescope(grades, failed)
    assert results["score"] == 0 and words in results["output"]


# --- the command -----------------------------------------------------------------------------------------------------


@pytest.fixture
def submissions(tmp_path, monkeypatch):
    """A folder of three submissions, an empty folder, and a grader that needs no process."""
    for name in ("ada", "grace", "x"):
        (tmp_path / "in" / name).mkdir(parents=True)
        notebook(tmp_path / "in" / name / "rope.ipynb", "**On paper.** Show it.", "@It cancels.")
    (tmp_path / "empty").mkdir()

    def grade_it(path, *_):
        if "grace" in str(path):
            raise GradeError("is no notebook")
        return graded(str(path))

    monkeypatch.setattr(grade, "grade", grade_it)
    (tmp_path / "moodle.csv").write_text(MOODLE, "utf-8")
    return tmp_path


def test_the_command_writes_all_that_is_asked_for_and_says_what_is_left_over(submissions, capsys):
    made = {name: submissions / name for name in ("marks.csv", "sheets", "results.json")}
    words = [
        submissions / "in",
        submissions / "empty",
        "--json",
        "--csv",
        made["marks.csv"],
        "--answers",
        made["sheets"],
    ]
    words += ["--roster", submissions / "moodle.csv", "--gradescope", made["results.json"], "--partial"]
    assert grade.main(["grade", *map(str, words)]) == 1
    said = capsys.readouterr()
    assert "empty: no notebook" in said.err and "is no notebook" in said.err and "left_over" in said.err
    assert [row.get("error", row.get("points")) for row in json.loads(said.out)] == [7, "is no notebook", 7]
    assert rows_of(made["marks.csv"])[1] == ["Ada", "Lovelace", "s1", "ada@uni.example", "7"]
    assert len(rows_of(submissions / "marks_left_over.csv")) == 4, "its head, the empty folder, grace's and x's"
    assert (made["sheets"] / "rope.md").read_text("utf-8").count("> It cancels.") == 2
    assert "x" in json.loads(made["results.json"].read_text("utf-8"))["output"]


def test_a_run_that_is_stopped_keeps_what_it_has_graded(submissions, monkeypatch):
    before = grade.grade

    def stop_at_x(path, *how):
        if "x" in path.parts:
            raise KeyboardInterrupt
        return before(path, *how)

    monkeypatch.setattr(grade, "grade", stop_at_x)
    with pytest.raises(KeyboardInterrupt):
        grade.main([str(submissions / "in"), "--csv", str(submissions / "marks.csv")])
    assert [row[2] for row in rows_of(submissions / "marks.csv")[1:]] == ["7"]


def test_a_bad_roster_is_told_before_anything_is_graded(submissions, capsys, monkeypatch):
    (submissions / "bad.csv").write_text("First name\nAda\n")
    monkeypatch.setattr(grade, "grade", None)
    words = [submissions / "in", "--csv", submissions / "marks.csv", "--roster", submissions / "bad.csv"]
    assert grade.main([*map(str, words)]) == 1
    said = capsys.readouterr().err
    assert "bad.csv" in said and "email address" in said and not (submissions / "marks.csv").exists()


@pytest.mark.parametrize("words", [["--csv", "nowhere/x.csv"], ["--gradescope", "nowhere/x"]])
def test_options_that_make_no_sense_are_refused(words, submissions, capsys):
    with pytest.raises(SystemExit) as stop:
        grade.main([str(submissions / "in"), *words])
    said = capsys.readouterr().err
    assert stop.value.code == 2 and words[1] in said


def test_a_notebook_of_another_lab_is_refused_by_its_name():
    cells = ["import posenc", 'check("alibi.slopes", slopes)\ndef slopes(n): pass', "def inv_freq(dim): pass"]
    with pytest.raises(GradeError, match="alibi.*not.*rope"):
        grade.which_lab(cells, "rope")
    assert grade.which_lab(cells, "alibi") == grade.which_lab(cells) == "alibi"
