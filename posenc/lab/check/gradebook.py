r"""A class's gradebook: whose file is whose, marks as Moodle and Canvas import them, and the answers on paper.

A roster is a CSV with a column `id`; `name`, `seed` (a number or a word, such as the id) and what a gradebook of Canvas
has are read where they are there. Without a seed, the one that the notebook sets counts.

Moodle names downloads "Ada Lovelace_12345_assignsubmission_file_lab.ipynb", or a folder so, and its number is no id;
Canvas "lovelaceada_340934_208490284_lab.ipynb", "_LATE" behind a late one's name; its first number is the user's ID.
Moodle (grade/import/csv/classes/load_data.php) reads one column a grade and one its feedback, always both, and finds
students by "ID number"; of an empty grade it makes 0 in a new column, of "-" none. Canvas (gradebook_importer.rb of
instructure/canvas-lms) reads Student, ID, SIS User ID, SIS Login ID, Section, then the assignments, and a row "Points
Possible"; words have no place in it and go to a file beside. In both, whoever has no grade in the file loses the one
that stood in its column.
"""

import collections
import csv
import re
import unicodedata
from pathlib import Path
from typing import NamedTuple

from posenc.lab.check.exercise import student_seed

MOODLE = re.compile(r"([^/]+)_\d+_assignsubmission_file")
CANVAS = re.compile(r"([^/_]+)_(?:LATE_)?(\d+)_\d+_[^/]*$")
RUBRIC = {
    "the claim, each step with its reason, and where the assumption enters": 1,
    "the steps are right, one reason is missing or only asserted": 0.75,
    "the right idea, in words or in one example, and no argument for the general case": 0.5,
    "a true statement that does not lead there": 0.25,
    "the opposite sign or direction, without a step that could be checked": 0,
}


class Student(NamedTuple):
    """A row of the roster: the id, the name or "", the seed or None, and all columns, named in lower case."""

    id: str
    name: str
    seed: int | None
    row: dict


class Submission(NamedTuple):
    """A file: whose it is, a `Student` or None, and its `Grade`, or why it has none."""

    file: str
    student: Student | None
    grade: object | None
    error: str | None

    def record(self):
        """A plain dict, for JSON."""
        graded = self.grade.record() if self.grade else {"file": self.file, "error": self.error}
        return graded | ({"student": self.student.id} if self.student else {})


def roster(path):
    r"""Read a roster. Returns: a list of `Student`. Errors: ValueError that names the line, or the column missing."""
    try:
        with open(path, encoding="utf-8-sig", newline="") as file:
            delimiter = max(",;\t", key=file.readline().count)
            file.seek(0)
            rows = csv.DictReader(file, delimiter=delimiter)
            table = [{k.strip().lower(): (r[k] or "").strip() for k in r if k} for r in rows]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise ValueError(f"{path}: cannot be read as CSV in UTF-8: {error}") from None
    if not table or "id" not in table[0]:
        raise ValueError(f"{path}: must have a column id and a row a student, has {list(table[0]) if table else []}")
    students = {}
    for line, row in enumerate(table, start=2):
        name = row.get("name") or row.get("student", "")
        if name == "Points Possible":  # in what Canvas exports
            continue
        if not row["id"] or row["id"] in students:
            raise ValueError(f"{path}, line {line}: id={row['id']!r} must be there, and in one line only")
        try:
            seed = student_seed(row["seed"]) if row.get("seed") else None
        except ValueError as error:
            raise ValueError(f"{path}, line {line}: {error}") from None
        students[row["id"]] = Student(row["id"], name, seed, row)
    return list(students.values())


def owner(path, students):
    """The one student whose file this is by its name, with its folders down from the one that is graded, or None."""
    where = unicodedata.normalize("NFC", Path(path).as_posix())
    canvas = CANVAS.search(where)
    named, rest = MOODLE.search(where) or canvas, MOODLE.sub("", where)
    owners = [student for student in students if canvas and student.id == canvas[2]]
    owners = owners or [student for student in students if named and _turns(named[1]) & _turns(student.name)]
    owners = owners or [s for s in students if re.search(rf"(?<![^\W_]){re.escape(s.id)}(?![^\W_])", rest)]
    return owners[0] if len(owners) == 1 else None


def _turns(name):
    """A name in one word, "adalovelace", from any of its words on, since Canvas has the last name first."""
    words = re.findall(r"[^\W_]+", unicodedata.normalize("NFC", name).lower())
    return {"".join(words[i:] + words[:i]) for i in range(len(words))}


def paper(cells):
    """The question on paper that a notebook asks, and the text below it down to the next exercise: two strings."""
    texts = [(cell["source"].strip(), str(cell.get("metadata"))) for cell in cells if cell["cell_type"] == "markdown"]
    asked = [i for i, (text, _) in enumerate(texts) if re.search(r"\*\*On paper\.\*\*|\*\* \(on paper\)", text)]
    given = [i for i, (_, metadata) in enumerate(texts) if "'grade_id': 'paper'" in metadata]
    rest = texts[asked[-1] + 1 if asked else min(given, default=len(texts)) :]
    end = next((i for i, (text, _) in enumerate(rest) if "**Exercise " in text), len(rest))
    answers = [
        "**With own numbers:** " * ("'grade_id': 'numbers'" in metadata) + text
        for text, metadata in rest[:end]
        if text != "YOUR ANSWER HERE"
    ]
    return texts[asked[-1]][0] if asked else "", "\n\n".join(answers)


def _mark(submissions):
    """The best of a student's files for a lab: its points, or None without one, and words for the student."""
    graded = sorted((s.grade for s in submissions if s.grade), key=lambda grade: -grade.points)
    words = [f"{Path(s.file).name} {s.error}" for s in submissions if s.error] + ["no file"] * (not submissions)
    for grade in graded[:1]:
        words += [f"{r['title']}, {r['points']}/{r['of']}: {r['words']}" for r in grade.exercises if r["words"]]
        words += [f"on paper ?/{grade.on_paper}"] + ["late"] * ("_LATE_" in grade.file)
    words += [f"another of your files has {grade.points}/{grade.of}" for grade in graded[1:]]
    return graded[0].points if graded else None, "; ".join(words)


def write(path, form, students, submissions):
    """Write a gradebook of functions, without the answers on paper: a row a student, form "moodle" or "canvas"."""
    most = {s.grade.lab: s.grade.of for s in submissions if s.grade} or {"none": 0}
    marks = {}
    for student in students:
        mine = [s for s in submissions if s.student is student]
        marks[student.id] = [_mark([s for s in mine if not s.grade or s.grade.lab == lab]) for lab in most]
    titles = [f"Lab {lab}" for lab in most]
    rows = [["ID number", "Full name"] + [f"{title} ({part})" for title in titles for part in ("Real", "Feedback")]]
    rows += [[s.id, s.name] + ["-" if v is None else v for mark in marks[s.id] for v in mark] for s in students]
    if form == "canvas":
        write(Path(path).with_suffix(".comments.csv"), "moodle", students, submissions)
        rows = [["Student", "ID", "SIS User ID", "SIS Login ID", "Section", *titles]]
        rows.append(["    Points Possible", "", "", "", "", *most.values()])
        for student in students:
            ids = [student.row.get(title, "") for title in ("id", "sis user id", "sis login id", "section")]
            if "sis user id" not in student.row:  # the roster is none of Canvas's, whose ID is a number of its own
                ids[:2] = "", student.id
            rows.append([student.name, *ids, *(points for points, _ in marks[student.id])])
    with open(path, "w", encoding="utf-8", newline="") as file:
        csv.writer(file).writerows(rows)


def sheets(folder, submissions):
    """Write a sheet a lab into a folder, LAB.md: the question on paper, a rubric in points, and all answers."""
    Path(folder).mkdir(parents=True, exist_ok=True)
    for lab in {s.grade.lab for s in submissions if s.grade}:
        graded = [s for s in submissions if s.grade and s.grade.lab == lab]
        more = graded[0].grade.numbers[0]
        most, own_numbers = graded[0].grade.on_paper - more, f", and ___ of {more} with own numbers" * bool(more)
        ((question, _),) = collections.Counter(s.grade.paper[0] for s in graded).most_common(1)
        lines = [f"# {lab}, on paper", question, f"| points of {most} | what is there |\n|---|---|"]
        lines[-1] += "".join(f"\n| {share * most:g} | {words} |" for words, share in RUBRIC.items())
        for file, student, grade, _ in graded:
            own = [f"*The question was changed:* {grade.paper[0]}"] if grade.paper[0] != question else []
            own += [f"*Look at:* {flag}" for flag in grade.flags]
            own.append("\n".join(f"> {line}" for line in (grade.paper[1] or "*No answer.*").splitlines()))
            title = f"## {student.id} {student.name}" if student else f"## {file}"
            lines += [title, f"Points: ___ of {most}{own_numbers}", *own, *filter(None, [grade.numbers[1]])]
        Path(folder, f"{lab}.md").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
