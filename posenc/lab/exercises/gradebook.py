r"""What becomes of grades: a CSV for Moodle or Canvas, a sheet of answers on paper for each lab, Gradescope's results.

The roster is what the learning platform exports. Its identifying columns come back as they are, so that the platform
knows its students again; behind them stands a column for each lab. A teacher may add a column `seed`.
"""

import csv
import io
import json
import re
from dataclasses import dataclass, field
from pathlib import Path

from posenc.lab.exercises.bank import for_lab, key_text, question_text
from posenc.lab.exercises.marks import rubric

#: Columns that tell students apart, as Canvas and Moodle name them, in small letters: one of them must be there.
IDENTIFIES = ("id", "sis user id", "sis login id", "email address", "email", "id number", "username", "student id")
#: Columns that the CSV keeps beside those.
KEEPS = ("student", "section", "first name", "last name", "surname", "full name")
#: What Canvas's import asks for.
CANVAS = ("student", "id", "section")
UNANSWERED = "YOUR ANSWER HERE"


class RosterError(ValueError):
    """A roster that tells no students apart; the message says what is missing."""


@dataclass
class Roster:
    r"""The students of a course: the columns to keep, their rows {column: value}, whether Canvas made it, their seeds.

    seeds: one for each student, or [] where the file has no column `seed`.
    """

    columns: list
    students: list
    canvas: bool
    seeds: list = field(default_factory=list)
    keys: dict = field(default_factory=dict)  # what a path may say -> numbers of students

    @classmethod
    def read(cls, path):
        r"""Read a CSV as Moodle or Canvas exports it, or one with more columns.

        Errors: RosterError where a column, or anybody, is missing, or a seed is none or stands there twice.
        """
        try:
            text = Path(path).read_text(encoding="utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            raise RosterError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
        head = text.partition("\n")[0]
        rows = list(csv.DictReader(io.StringIO(text), delimiter=max(",;\t", key=head.count)))
        columns = {name.strip().lower(): name for name in (rows[0] if rows else ()) if name and name.strip()}
        there = ", ".join(name.strip() for name in columns.values()) or "nothing"
        missing = [name for name in CANVAS if name not in columns] if "student" in columns else []
        if missing:
            raise RosterError(
                f"{path}: has no column {missing[0]!r}, which Canvas needs beside 'student'; it has {there}"
            )
        if not any(name in columns for name in IDENTIFIES):
            raise RosterError(
                f"{path}: has no column that tells students apart, one of {', '.join(IDENTIFIES)}; it has {there}"
            )
        kept = [original for name, original in columns.items() if name in IDENTIFIES + KEEPS]
        first = next(iter(columns.values()))
        rows = [
            row
            for row in rows
            if any((row[name] or "").strip() for name in kept)
            and not (row[first] or "").strip().lower().startswith(("points possible", "student, test"))
        ]
        students = [{name: (row[name] or "").strip() for name in kept} for row in rows]
        if not students:
            raise RosterError(f"{path}: lists no student")
        seeds = (
            [_seed(path, student, row[columns["seed"]]) for student, row in zip(students, rows)]
            if "seed" in columns
            else []
        )
        twice = [seed for seed in seeds if seeds.count(seed) > 1]
        if twice:
            raise RosterError(f"{path}: seed={twice[0]} stands there twice")
        roster = cls(kept, students, "student" in columns, seeds)
        for number, student in enumerate(students):
            for key in roster._keys_of({name.strip().lower(): value for name, value in student.items()}):
                roster.keys.setdefault(key, set()).add(number)
        return roster

    def _keys_of(self, student):
        """What may stand in a path for a student: identities, the part of an address before the @, the full name."""
        keys = {student.get(name, "") for name in IDENTIFIES}
        keys |= {key.partition("@")[0] for key in keys}
        last = student.get("last name") or student.get("surname") or ""
        keys |= {f"{student.get('first name', '')} {last}".strip(), student.get("full name", "")}
        return {key.lower() for key in keys if key}

    def name(self, number):
        """A student in words: the first of the columns that are kept."""
        return ", ".join(value for value in list(self.students[number].values())[:2] if value)

    def whose(self, path):
        r"""The number of the student whose notebook this is, by the names of file and folders.

        A part of the path names a student as a whole, or up to some underscore: `ada/rope.ipynb`, Moodle's folder
        `Ada Lovelace_123_assignsubmission_file`, Canvas's file `lovelaceada_4711_99_rope.ipynb`, whose first number is
        the column ID. Errors: LookupError where no student or more than one is named.
        """
        found = set()
        for part in Path(path).parts[-4:]:
            part = part.lower().removesuffix(".ipynb")
            named = next((self.keys[key] for key in (part, *part.split("_")) if key in self.keys), set())
            found |= named
        if len(found) != 1:
            names = " or ".join(sorted(self.name(number) for number in found))
            raise LookupError(f"may be of {names}" if found else "no student of the roster is named in its path")
        return found.pop()

    def odd_seed(self, path, seed):
        r"""What is odd about the seed of a notebook, in words, or ""."""
        if not self.seeds:
            return ""
        try:
            number = self.whose(path)
        except LookupError as error:
            return str(error)
        own, name = self.seeds[number], self.name(number)
        if seed == own:
            return ""
        if not seed:
            return f"no seed is set in it, and {name} has {own}: graded as the book's own exercises"
        whose = f"that of {self.name(self.seeds.index(seed))}" if seed in self.seeds else "nobody's in the roster"
        return f"it was done with seed {seed}, {whose}; {name} has {own}"


def _seed(path, student, text):
    """A cell of the column `seed` as a number. Errors: RosterError naming the student."""
    text = (text or "").strip()
    if not (text.isascii() and text.isdecimal()) or not 0 < int(text) < 2**31:
        name = next(value for value in student.values() if value)
        raise RosterError(f"{path}: seed={text!r} of {name} must be a whole number from 1 to 2^31 - 1")
    return int(text)


def tables(grades, failed, roster=None):
    r"""The rows of the CSV, and of a second one for what belongs to no row of the first.

    Arguments:
        grades: `Grade`s.
        failed: {file: why it was not graded}.
        roster: a `Roster`, or None for a row a notebook.
    Returns: (head and rows for the gradebook, head and rows of what is left over). Where a student handed in two
        notebooks of a lab, the one with more points counts, and the other is left over.
    """
    head_left = ["file", "lab", "points", "of", "why"]
    left = [[file, "", "", "", why] for file, why in failed.items()]
    if roster is None:
        rows = [[g.file, g.lab, f"{g.points:g}", f"{g.of:g}"] for g in grades]
        return [["file", "lab", "points", "of"], *rows], [head_left, *left]
    labs, counted = sorted({grade.lab for grade in grades}), {}
    for grade in sorted(grades, key=lambda grade: -grade.points):
        why = None
        try:
            place = (roster.whose(grade.file), grade.lab)
            if counted.setdefault(place, grade) is not grade:
                why = f"{counted[place].file} of the same student and lab counts"
        except LookupError as error:
            why = str(error)
        if why:
            left.append([grade.file, grade.lab, f"{grade.points:g}", f"{grade.of:g}", why])
    of = {grade.lab: grade.of for grade in grades}
    rows = [[*roster.columns, *(f"Lab {lab}" for lab in labs)]]
    if roster.canvas:
        rows.append(["    Points Possible", *[""] * (len(roster.columns) - 1), *(f"{of[lab]:g}" for lab in labs)])
    for number, student in enumerate(roster.students):
        points = [f"{counted[number, lab].points:g}" if (number, lab) in counted else "" for lab in labs]
        rows.append([*student.values(), *points])
    return rows, [head_left, *left]


def write(path, grades, failed, roster=None):
    r"""Write `tables` to a CSV, and what is left over to NAME_left_over.csv beside it, if anything is.

    Returns: the files that were written.
    """
    path, files = Path(path), []
    marks, left = tables(grades, failed, roster)
    beside = path.with_name(f"{path.stem}_left_over.csv")
    for file, rows in ((path, marks), (beside, left)):
        if file == beside and len(rows) == 1:
            file.unlink(missing_ok=True)  # of an earlier run
            continue
        with open(file, "w", encoding="utf-8", newline="") as out:
            csv.writer(out).writerows(rows)
        files.append(file)
    return files


# --- answers on paper ------------------------------------------------------------------------------------------------


def on_paper(path):
    r"""(question, answer) of a notebook's exercise on paper, as Markdown; an answer that is not there is "".

    The answer is the cell of the lab for it, by nbgrader's metadata or by its id; where both are gone, the text between
    the question and the next cell of code.
    """
    cells = json.loads(Path(path).read_text(encoding="utf-8"))["cells"]
    question, answers, after = "", [], False
    for cell in cells:
        text = cell.get("source", "")
        text = ("".join(text) if isinstance(text, list) else str(text)).strip()
        about = cell.get("metadata", {})
        ids = {about.get("nbgrader", {}).get("grade_id"), cell.get("id"), about.get("id")}
        if cell.get("cell_type") != "markdown":
            after = False
            continue
        after = after and not re.match(r"#|\*\*(Exercise|On paper|Open)", text)  # what stands next is not the answer
        if "paper" in ids or after:
            files = ", ".join(cell.get("attachments", {}))
            answers.append(text + (f"\n\n(with {files}: open the notebook to see it)" if files else ""))
        elif re.search(r"^(?!\d).*(\*\*on paper\.\*\*|\(on paper\))", text, re.I | re.M):
            question, after = text, True
    return question, "\n\n".join(answer for answer in answers if answer and answer != UNANSWERED)


def sheets(grades, roster=None):
    r"""A sheet a lab with the answers on paper: {"rope.md": question, rubric in points, each student's text}.

    Above an answer under a seed stand the questions of that seed with their keys, whose steps are its rubric.
    """
    texts = {}
    for lab in sorted({grade.lab for grade in grades if grade.on_paper}):
        of_lab = [grade for grade in grades if grade.lab == lab]
        found = {grade.file: on_paper(grade.file) for grade in of_lab}
        asked = [question for question, _ in found.values() if question]
        lines = [f"# Lab {lab}, on paper: {of_lab[0].on_paper} points", ""]
        lines += [max(asked, key=asked.count) if asked else "(The question is in none of the notebooks.)", ""]
        lines += ["| points | what is there |", "|---|---|"]
        lines += [f"| {points:g} | {words} |" for points, words in rubric(of_lab[0].on_paper)] + [""]
        for grade in of_lab:
            name = grade.file
            if roster is not None:
                try:
                    name = f"{roster.name(roster.whose(grade.file))} ({grade.file})"
                except LookupError as error:
                    name = f"{grade.file} ({error})"
            answer = found[grade.file][1] or "(no answer)"
            own = for_lab(grade.lab, grade.on_paper, grade.seed) if grade.seed else []
            lines += [f"## {name}" + (f", seed {grade.seed}" if grade.seed else ""), ""]
            for number, (_, _, question) in enumerate(own, start=1):
                lines += [question_text(number, question), "", "Key:", "", key_text(number, question), ""]
            lines += [*(f"> {line}".rstrip() for line in answer.splitlines()), ""]
            lines += [f"Points, of {of_lab[0].on_paper}: ", ""]
        texts[f"{lab}.md"] = "\n".join(lines)
    return texts


# --- Gradescope ------------------------------------------------------------------------------------------------------


def gradescope(grades, failed):
    r"""What Gradescope reads from results.json: a test an exercise; where there is no grade, why."""
    if len(grades) != 1:
        several = f"expected one notebook, found {', '.join(grade.file for grade in grades)}" if grades else ""
        reasons = [f"{Path(file).name}: {why}" for file, why in failed.items()]
        return {"score": 0, "output": "\n".join(filter(None, [several, *reasons])) or "no notebook was handed in"}
    (grade,) = grades
    tests = [
        {"name": row["title"], "score": row["points"], "max_score": row["of"], "output": row["words"] or "right."}
        for row in grade.exercises
    ]
    note = f"On paper: up to {grade.on_paper} points, which a person gives." if grade.on_paper else ""
    return {"tests": tests, "output": note}
