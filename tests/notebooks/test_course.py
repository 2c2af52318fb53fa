"""A lecturer's term: fork, kit, a question of one's own, release, thirty submissions, both graders, gradebooks read.

Rules of the gradebooks: those that posenc/lab/check/gradebook.py cites.
"""

import csv
import os
import shutil
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest
from lab_runs import ROOT, labs, private

from posenc.lab import check as checks
from posenc.lab.check import grade, gradebook

OWN = "(on paper). A question of this department."
EXERCISES = checks.of("rope")
MOST = sum(exercise.points for exercise in EXERCISES.values())
MISTAKES = [(name, words) for name, exercise in EXERCISES.items() for words in exercise.mistakes]
HOSTILE = {  # what stands below the answer rotate: the points that it leaves, None for no mark; what is said
    "while True:\n    pass": (None, "ran longer than 60 s"),
    "import os\nos._exit(3)": (None, "ended Python (exit code 3)"),
    "rotate = )": (MOST - 3, "rotate 0/3"),
    "rotate = 7": (MOST - 3, "rotate 0/3"),
    "print('x' * 10_000_000)\nprint = range = None": (MOST, ""),
    "from posenc.rope import rotate": (MOST, "look at: rotate"),
}
# student: the seed, which for every second one of those with a mistake, and for the last, is the id
CLASS = {f"s{n:02}": "0" for n in range(len(MISTAKES) + len(HOSTILE) + 2)}
CLASS |= {student: student for student in (*list(CLASS)[: len(MISTAKES) : 2], list(CLASS)[-1])}


def run(folder, *command):
    """What a command said; nbgrader calls a program that stands beside this Python."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    how = {"cwd": folder, "env": os.environ | {"PATH": path}, "encoding": "utf-8"}
    return subprocess.run([sys.executable, "-m", *command], stdout=-1, stderr=subprocess.STDOUT, **how).stdout


def answered(released, student, changes):
    """The released notebook solved by a student, with lines below the answers: {exercise: lines}."""
    solutions = {c.id: c.source for c in labs.read(private("rope/lab.py"), labs.address()).cells if not labs.is_test(c)}
    notebook = nbformat.read(released, as_version=4)
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        if name in EXERCISES:
            asked = f'{name} = __import__("posenc.lab.check", fromlist=["find"]).find("rope.{name}").seeded()'
            lines = changes.get(name, ".reference" if CLASS[student] != "0" else "")
            lines = asked + lines if lines.startswith(".") else lines
            cell.source = f"{solutions[name]}\n{lines}"
        elif name == "paper":
            cell.source = f"The answer of {student}."
    notebook.cells.insert(0, nbformat.v4.new_code_cell(f"%env POSENC_SEED={CLASS[student]}"))
    return notebook


def moodle(path):
    """{ID number: grade or None} of what Moodle takes."""
    rows = list(csv.DictReader(path.open(encoding="utf-8", newline=""), strict=True))
    assert [title for title in rows[0] if "(Real)" in title] == ["Lab rope (Real)"] and len(rows) == len(CLASS)
    marks = {row["ID number"]: row["Lab rope (Real)"] for row in rows}
    return {student: None if mark == "-" else float(mark) for student, mark in marks.items()}


def canvas(path):
    """The same of what Canvas takes."""
    heads, possible, *rows = csv.reader(path.open(encoding="utf-8", newline=""), strict=True)
    assert heads == ["Student", "ID", "SIS User ID", "SIS Login ID", "Section", "Lab rope"]
    assert possible[0].strip() == "Points Possible" and float(possible[5]) == MOST
    return {row[2]: float(row[5]) if row[5] else None for row in rows}


@pytest.mark.weekly
def test_a_term_of_thirty_students(tmp_path, monkeypatch, capsys):
    from nbgrader.api import Gradebook

    fork, kit, course, handed_in = (tmp_path / name for name in ("fork", "kit", "course", "in"))
    shutil.copytree(ROOT / "book", fork / "book", ignore=shutil.ignore_patterns("_vendor", "__pycache__"))
    shutil.copytree(ROOT / "notebooks", fork / "notebooks")
    for file in ("pyproject.toml", "README.md", "CITATION.cff", "_toc.yml"):
        shutil.copy(ROOT / file, fork)
    assert labs.main(["--kit", str(kit)], root=fork) == 0
    source = kit / "book" / "rope" / "lab.py"
    source.write_text(source.read_text("utf-8").replace("(on paper).", OWN, 1), "utf-8")
    assert labs.main(["--kit", str(kit)], root=fork) == 0 and OWN in (fork / "notebooks" / "rope.ipynb").read_text()
    assert labs.main(["rope", "--kit", str(kit), "--course", str(course)], root=fork) == 0
    config = course / "nbgrader_config.py"
    config.write_text(config.read_text().replace("Execute.timeout = 600", "Execute.timeout = 60"))
    run(course, "nbgrader", "generate_assignment", "rope")
    released = course / "release" / "rope" / "rope.ipynb"
    assert OWN in released.read_text() and "SOLUTION" not in released.read_text()

    handed, expected = {}, {}
    for student, (name, words) in zip(CLASS, MISTAKES):
        worth, share = EXERCISES[name].points, EXERCISES[name].shares.get(words, 0.5)
        handed[student] = {name: f".mistakes[{words!r}]"}
        expected[student] = MOST - worth + int(worth * share) * (worth > 1)
    for student, (lines, (points, _)) in zip(list(CLASS)[len(MISTAKES) :], HOSTILE.items()):
        handed[student], expected[student] = {"rotate": lines}, points
    for student in CLASS:
        notebook = answered(released, student, handed.get(student, {}))
        mine = course / "submitted" / student / "rope" / "rope.ipynb"
        mine.parent.mkdir(parents=True)
        nbformat.write(notebook, mine)
        name = f"Ada {student}_17_assignsubmission_file_" if int(student[1:]) % 3 else f"lab-{student}"
        (handed_in / name).mkdir(parents=True)
        shutil.copy(mine, handed_in / name / "rope.ipynb")
    shutil.copy(mine, handed_in / "nobody.ipynb")
    (handed_in / "lab-s00" / "again.ipynb").write_text("{")
    (handed_in / "torch.py").write_text("raise SystemExit('a file of the folder was imported')")
    roster = "".join(f"{student},Ada {student},{seed}\n" for student, seed in CLASS.items())
    (tmp_path / "class.csv").write_text(f"id,name,seed\n{roster}")

    taken, sheets = [], gradebook.sheets
    monkeypatch.setattr(gradebook, "sheets", lambda folder, given: sheets(folder, taken.extend(given) or given))
    how = ["--roster", str(tmp_path / "class.csv"), "--csv", str(tmp_path / "marks.csv")]
    capsys.readouterr()
    assert grade.main([str(handed_in), *how, "--answers", str(tmp_path / "sheets")]) == 1
    said = "".join(capsys.readouterr())
    marks = moodle(tmp_path / "marks.csv")
    students = list({id(s.student): s.student for s in taken if s.student}.values())
    gradebook.write(tmp_path / "canvas.csv", "canvas", students, taken)
    assert marks == canvas(tmp_path / "canvas.csv") == {student: expected.get(student, MOST) for student in CLASS}
    assert all(words in said for _, words in HOSTILE.values())
    assert all(f"The answer of {s}." in (tmp_path / "sheets" / "rope.md").read_text() for s in CLASS if marks[s])

    print(run(course, "nbgrader", "autograde", "rope"))
    with Gradebook(f"sqlite:///{course / 'gradebook.db'}", "posenc") as book:
        theirs = {one.student.id: one.code_score for one in book.assignment_submissions("rope")}
    graded = [student for student in CLASS if marks[student] is not None]
    assert [theirs.get(student) for student in graded] == [marks[student] for student in graded]
