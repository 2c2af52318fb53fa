r"""Grade labs that were downloaded from anywhere, without nbgrader: `python -m posenc.lab.check submission.ipynb`.

A student may have edited, doubled, moved or deleted any cell, so cells and their metadata count for nothing: what
counts is the last finished definition of each exercise's function, or what was last given to `check("rope.rotate",
...)`. The notebook runs in a process of its own (`cells`), without training; what raises costs only itself, and what
hangs or ends Python is named. `judge` then holds each function against the right one; what an exercise is worth stands
in its `Exercise`.

It runs the student's code with your rights, and what it compares with is public: it tells mistakes, not cheating. What
it flags, an answer that calls posenc's own function or another seed than the roster's, is a hint to look there.
"""

import argparse
import ast
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

import torch

from posenc.lab.check import bank, gradebook
from posenc.lab.check.exercise import student_seed, text
from posenc.lab.check.judging import argument_names, describe
from posenc.lab.check.registry import labs, of, on_paper


class GradeError(ValueError):
    """A file that cannot be graded; the message says why."""


def read(path):
    r"""A notebook's cells, the source of each in one string. Errors: GradeError where the file is no notebook."""
    try:
        notebook = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise GradeError(f"cannot be read: {error.strerror or error}") from None
    except ValueError:
        raise GradeError("is no notebook: not JSON in UTF-8 (download it as .ipynb, not .py)") from None
    if isinstance(notebook, dict) and "worksheets" in notebook:
        raise GradeError("is a notebook of format 3: open it in Jupyter, save it, and try again")
    cells = notebook.get("cells") if isinstance(notebook, dict) else None
    if not isinstance(cells, list) or not all(isinstance(cell, dict) for cell in cells):
        raise GradeError("is no notebook: JSON without a list of cells")
    sources = [cell.get("source", "") for cell in cells]
    lines = ["".join(map(str, lines)) if isinstance(lines, list) else str(lines) for lines in sources]
    return [{"cell_type": ""} | cell | {"source": source} for cell, source in zip(cells, lines)]


def seed_of(cells):
    r"""The word that cells set POSENC_SEED to, by a magic or in `os.environ`, or None."""
    words = re.findall(r"^[^#\n]*\bPOSENC_SEED[\"'\]]* *[= ] *[\"']?([^\s\"']+)", "\n".join(cells), re.MULTILINE)
    return words[-1] if words else None


def which_lab(cells, lab=None):
    r"""The lab whose exercises a notebook checks. Errors: GradeError where it checks none, several, or not `lab`."""
    checked = set(re.findall(r"\bcheck\(\s*[\"'](\w+)\.", "\n".join(cells))) & set(labs())
    if lab is not None and checked and lab not in checked:
        raise GradeError(f"is a notebook of the lab {' and '.join(sorted(checked))}, not of {lab}")
    if lab is not None:
        return lab
    if len(checked) != 1:
        whose = f"those of {' and '.join(sorted(checked))}" if checked else f"none of {', '.join(labs())}"
        raise GradeError(f"which lab it is does not show: its cells check exercises, {whose}; name the lab with --lab")
    return checked.pop()


def borrowed(cells, name):
    """What the cells that define an answer take from posenc: that function itself, or the checks; lines of code."""
    taken = rf"posenc\.[\w.]*\b{name}|from posenc\.\S* import .*\b{name}\b.*"
    taken += r"|from posenc\.\S*(check\S*|exercises) import (?!check\b|student_seed\b).*"
    lines = []
    for cell in cells:
        cell = re.sub(r"^\s*[%!].*", "", cell, flags=re.MULTILINE)
        try:
            nodes = list(ast.walk(ast.parse(cell))) if re.search(rf"(?m)^\s*(def {name}\b|{name}\s*=)", cell) else []
        except SyntaxError:
            continue
        lines += [ast.unparse(node) for node in nodes if isinstance(node, (ast.Attribute, ast.ImportFrom))]
    return [line for line in lines if re.fullmatch(taken, line)]


def _run(cells, lab, limit, seed):
    """Run `cells.main` in a process of its own: what it says of each exercise. Errors: GradeError."""
    package = str(Path(__file__).parents[3])
    command = f"import sys; sys.path.append({package!r}); from posenc.lab.check.cells import main; main()"
    settings = {"POSENC_PRESET": "nano", "MPLBACKEND": "agg", "PYTHONUTF8": "1", "POSENC_SEED": str(seed)}
    with tempfile.TemporaryDirectory() as folder:
        said, errors = Path(folder, "said"), Path(folder, "errors")
        with said.open("w") as out, errors.open("w") as err:
            code = subprocess.run(
                [sys.executable, "-P", "-c", command],
                cwd=folder,
                env={**os.environ, **settings},
                input=json.dumps({"cells": cells, "lab": lab, "limit": limit}),
                encoding="utf-8",
                stdout=out,
                stderr=err,
            ).returncode
        replies = [json.loads(line) for line in said.read_text("utf-8").splitlines()]
        complaint = errors.read_text("utf-8", errors="replace")
    judged = [reply for reply in replies if "exercise" in reply]
    if code or len(judged) < len(of(lab)):
        step = next((reply["begin"] for reply in reversed(replies) if "begin" in reply), None)
        if step is None:
            raise GradeError(f"the process that grades did not start:\n{complaint}")
        if "Timeout (" in complaint:
            raise GradeError(f"cannot be graded: {step} ran longer than {limit:g} s. Does a loop not end?")
        raise GradeError(f"cannot be graded: {step} ended Python (exit code {code})")
    return judged


@dataclass
class Grade:
    r"""What `grade` found: the lab, one row an exercise, what a person grades on paper, and what to look at."""

    file: str
    lab: str
    exercises: list = field(default_factory=list)
    on_paper: int = 0
    paper: tuple = ("", "")  # the question and the answer
    numbers: tuple = (0, "")  # points of a question with the student's own numbers, and the question with its key
    flags: list = field(default_factory=list)

    @property
    def points(self):
        return sum(row["points"] for row in self.exercises)

    @property
    def of(self):
        return sum(row["of"] for row in self.exercises)

    def record(self):
        """A plain dict, for JSON."""
        return {**vars(self), "points": self.points, "of": self.of}

    def text(self):
        """The points by exercise, a line of words for each that failed, and the total."""
        rows = [f"{self.file}: lab {self.lab}"]
        for row in self.exercises:
            rows.append(f"  {row['points']:>2} of {row['of']}  {row['title']}" + (": " if row["words"] else ""))
            rows[-1] += row["words"]
        rows.append(f"  {self.points:>2} of {self.of}  in all")
        if self.on_paper:
            rows.append(f"   ? of {self.on_paper}  on paper, for the teacher to grade")
        rows += [f"   !  {flag}" for flag in self.flags]
        return "\n".join(rows)

    def line(self):
        """The same in one line."""
        failed = [f"{row['exercise']} {row['points']}/{row['of']}" for row in self.exercises if row["words"]]
        words = f" ({', '.join(failed)})" if failed else ""
        paper = f"; on paper ?/{self.on_paper}" if self.on_paper else ""
        return f"{self.file}: {self.lab} {self.points}/{self.of}{words}{paper}" + "".join(
            f"; look at: {flag}" for flag in self.flags
        )


def grade(path, lab=None, limit=60.0, seed=None):
    r"""Grade one notebook.

    Arguments:
        path: of the notebook.
        lab: whose exercises; default: those that the notebook checks.
        limit: seconds that each statement and each exercise may take.
        seed: the student's, as `POSENC_SEED` has it; default: the one that the notebook sets, or this process's.
    Returns: `Grade`.
    Errors: GradeError where the file is no notebook, shows no lab or another, and where a step hangs or ends Python.
    """
    notebook, flags = read(path), []
    cells = [cell["source"] for cell in notebook if cell["cell_type"] == "code"]
    lab = which_lab(cells, lab)
    word, own, counts = seed_of(cells), None, seed and student_seed(str(seed))
    try:
        own = word and student_seed(word)
    except ValueError as error:
        flags = [f"the notebook's seed counts for nothing: {error}"]
    if seed is not None and own != counts:
        flags.append(f"the notebook sets {word or 'no seed'}, the roster's seed is {seed}, which counts")
    rows, counts = [], next(s for s in (counts, own, student_seed()) if s is not None)
    for line in _run(cells, lab, limit, counts):
        flags += [f"{line['exercise']}: {words}" for words in borrowed(cells, line["exercise"])]
        row = {key: line[key] for key in ("exercise", "title", "points")}
        rows.append(row | {"of": of(lab)[line["exercise"]].points, "words": line["words"]})
    try:
        numbers, posed = with_numbers(lab, counts)
        if not any(posed in cell for cell in cells):
            flags.append("the notebook has not the question with numbers that the bank has now")
    except (ValueError, FileNotFoundError) as error:  # no bank, or one that a teacher wrote
        numbers = (0, "")
        flags.append(f"the question with numbers is not counted: {error}")
    return Grade(str(path), lab, rows, on_paper(lab) + numbers[0], gradebook.paper(notebook), numbers, flags)


def with_numbers(lab, seed):
    """What a lab asks a student on paper with numbers of a seed: (points, question and key by steps), and the question
    as the notebook holds it; (0, "") and "" for nothing. Errors: those of `bank.of_lab` and `bank.fill`."""
    if not (asked := bank.of_lab(lab)):
        return (0, ""), ""
    filled = bank.fill(asked, seed)
    return (asked.points, f"{bank.told(filled)}\n\n{bank.keyed(filled)}"), asked.posed


def notebooks(paths):
    """The notebooks among files and folders, those of a folder sorted."""
    files = []
    for path in map(Path, paths):
        inside = sorted(p for p in path.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
        files += inside if path.is_dir() else [path]
        if path.is_dir() and not inside:
            raise GradeError(f"{path}: no notebook in this folder")
    return files


def key(arguments):
    r"""The command's `key`: what the exercises ask a student for, what is right in their first case, and the steps."""
    parser = argparse.ArgumentParser(prog="python -m posenc.lab.check key")
    parser.add_argument("--seed", required=True, type=student_seed, help="a number, or a student's id")
    parser.add_argument("--lab", choices=labs(), help="default: all")
    options = parser.parse_args(arguments)
    os.environ["POSENC_SEED"] = str(options.seed)
    for lab in [options.lab] if options.lab else labs():
        varied = [e for e in of(lab).values() if e.variants or e.arguments() == [()]]  # without: a word
        try:
            asked = with_numbers(lab, options.seed)[0][1]
        except (ValueError, FileNotFoundError) as error:
            asked = f"The question with numbers is missing: {error}"
        print(f"{lab}, seed {options.seed}" + ("" if varied or asked else ": no exercise depends on it"))
        for plain, exercise in ((e, e.seeded()) for e in varied):
            case = exercise.arguments()[0]
            small = sum(value.numel() for value in case if torch.is_tensor(value)) <= 24
            named = ", ".join(f"{n}={x}" for n, x in zip(argument_names(exercise.reference, len(case)), case))
            given = f"; with {named if small else describe(exercise.reference, case)}" if case else ""
            right = exercise.call(exercise.reference, *case) if case else exercise.reference()
            print(f"{exercise.title}{given}:\n{right}")
            if plain.variants:
                print("steps, before what is yours:", *text(plain.reference), sep="\n", end="\n\n")
        print(asked, end="\n" * bool(asked))
    return 0


def main(arguments=None):
    r"""The command. Returns 0 where every file was graded and is one student's, whatever the points, else 1."""
    arguments = sys.argv[1:] if arguments is None else arguments
    if arguments[:1] == ["key"]:
        return key(arguments[1:])
    parser = argparse.ArgumentParser(
        prog="python -m posenc.lab.check",
        description="Grade labs downloaded from Colab or anywhere. Runs the code in them. `key --seed 17`: a key.",
    )
    parser.add_argument("paths", nargs="+", metavar="NOTEBOOK", help="notebooks, or folders of them")
    parser.add_argument("--lab", choices=labs(), help="default: the one whose exercises are checked")
    parser.add_argument("--json", action="store_true", help="a list with one object for each notebook")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="for each exercise; default 60")
    parser.add_argument("--roster", metavar="CSV", help="a row a student: id, and, if you like, name and seed")
    parser.add_argument("--csv", metavar="CSV", help="write a gradebook of the roster's students here")
    parser.add_argument("--format", choices=("moodle", "canvas"), default="moodle", help="of --csv; default moodle")
    parser.add_argument("--answers", metavar="DIR", help="write a sheet of all answers on paper for each lab here")
    options = parser.parse_args(arguments)
    if not options.limit > 0:
        parser.error(f"--limit {options.limit:g} must be greater than 0")
    if options.csv and not (options.roster and Path(options.csv).absolute().parent.is_dir()):
        parser.error(f"--csv {options.csv} needs --roster, and a folder that exists")

    submissions, failed = [], False
    try:
        students = gradebook.roster(options.roster) if options.roster else []
        paths = notebooks(options.paths)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    for path in paths:
        inside = next((path.relative_to(p) for p in options.paths if Path(p) in path.parents), path.name)
        student, grades, error = gradebook.owner(inside, students), None, None
        try:
            grades = grade(path, options.lab, options.limit, student and student.row.get("seed") or None)
            if students and not student:
                grades.flags.append("its name fits none, or several, of the roster: it is in no gradebook")
                failed = True
            if not options.json:
                print(grades.text() if len(paths) == 1 else grades.line(), flush=True)
        except GradeError as problem:
            failed, error = True, str(problem)
            print(f"{path}: {error}", file=sys.stderr)
        submissions.append(gradebook.Submission(str(path), student, grades, error))
    if options.json:
        print(json.dumps([submission.record() for submission in submissions], indent=2))
    if options.csv:
        gradebook.write(options.csv, options.format, students, submissions)
    if options.answers:
        gradebook.sheets(options.answers, submissions)
    return 1 if failed else 0
