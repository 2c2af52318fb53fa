r"""Grade labs that were downloaded from anywhere, without nbgrader: `python -m posenc.lab.exercises submission.ipynb`.

A student may have edited, doubled, moved or deleted any cell, so cells and their metadata count for nothing: what
counts is the last finished definition of each exercise's function, or what was last given to `check("rope.rotate",
...)`. The notebook runs in a process of its own (`cells`), without training, each statement within a time limit; what
raises, hangs or ends Python costs only itself. `judge` then holds each function against posenc's; what an exercise is
worth stands in its `Exercise`.

It runs the student's code with your rights, and what it compares with is public: it tells mistakes, not cheating. What
`integrity` and a roster of seeds see is printed as hints, and costs no points.
"""

import argparse
import atexit
import contextlib
import importlib
import json
import os
import queue
import re
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from pathlib import Path

from posenc.lab.exercises import gradebook
from posenc.lab.exercises.integrity import alike, borrowed
from posenc.lab.exercises.marks import partial as partial_points
from posenc.lab.exercises.registry import labs, of, on_paper
from posenc.lab.exercises.seeds import seed_in

START = 120  # seconds until the other process has imported torch


class GradeError(ValueError):
    """A file that cannot be graded; the message says why."""


def read(path):
    r"""The sources of a notebook's code cells. Errors: GradeError where the file is no notebook."""
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
    source = [cell.get("source", "") for cell in cells if cell.get("cell_type") == "code"]
    return ["".join(map(str, lines)) if isinstance(lines, list) else str(lines) for lines in source]


def which_lab(cells, wanted=None):
    r"""The lab that a notebook is, by the exercises that it checks or defines.

    wanted: the lab that it should be. Errors: GradeError where it is none, or rather another.
    """
    text = "\n".join(cells)
    counts = {}
    for lab in labs():
        names = "|".join(of(lab))
        named = set(re.findall(rf"[\"']{lab}\.({names})[\"']", text))
        defined = set(re.findall(rf"^(?:def )?({names})\s*[(=]", text, re.MULTILINE))
        counts[lab] = 3 * len(named) + len(defined)
    best = max(counts.values(), default=0)
    likely = [lab for lab, count in counts.items() if count == best]
    if wanted is not None:
        if counts.get(wanted, best) < best:
            raise GradeError(f"is of the lab {likely[0]}, not of {wanted}")
        return wanted
    if best == 0 or "posenc" not in text:
        raise GradeError(f"is none of the labs ({', '.join(counts)}): it has none of their exercises")
    if len(likely) > 1:
        raise GradeError(f"may be {' or '.join(likely)}: name the lab with --lab")
    return likely[0]


class _Grader:
    r"""The process that grades: it has imported torch, and a copy of it runs each notebook (`cells.serve`)."""

    def __init__(self):
        package = str(Path(__file__).parents[3])
        command = f"import sys; sys.path.append({package!r}); from posenc.lab.exercises.cells import serve; serve()"
        settings = {"POSENC_PRESET": "nano", "MPLBACKEND": "agg", "PYTHONUTF8": "1", "OMP_NUM_THREADS": "1"}
        self.settings, self.lines, self.errors = _settings(), queue.Queue(), tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [sys.executable, "-P", "-c", command],
            env={**os.environ, **settings},
            text=True,
            encoding="utf-8",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.errors,
            start_new_session=True,
        )
        read = lambda: [*map(self.lines.put, self.process.stdout), self.lines.put(None)]  # noqa: E731
        threading.Thread(target=read, daemon=True).start()
        if self.tell(START) is None:
            self.close()
            self.errors.seek(0)
            raise GradeError(f"the process that grades did not start:\n{self.errors.read().decode()}")

    def tell(self, limit):
        """The next line that is told, None where the process has ended. Errors: queue.Empty after `limit` seconds."""
        line = self.lines.get(timeout=limit)
        return None if line is None else json.loads(line)

    def usable(self):
        """Whether it lives, and was started under the settings that hold now."""
        return hasattr(os, "fork") and self.process.poll() is None and self.settings == _settings()

    def run(self, task, limit):
        """One task's replies, and the step that it did not survive with the reason, or None."""
        replies, step, child, told = [], "start", None, None
        with tempfile.TemporaryDirectory() as folder:
            with contextlib.suppress(BrokenPipeError):  # it ended: no line comes, which is said below
                self.process.stdin.write(json.dumps(task | {"folder": folder}) + "\n")
                self.process.stdin.flush()
            try:
                while (told := self.tell(limit)) is not None and "end" not in told:
                    child = told.get("child", child)
                    if said := _said(told):
                        replies.append(said)
                        step = said.get("begin", step)
            except queue.Empty:
                if child is None or not self._stop(child):
                    self.close()
                if step == "done":  # it has ended the grader, and was judged all the same
                    return replies, None
                return replies, (step, f"it ran longer than {limit:g} s. Does a loop not end?")
            if told is None:
                self.close()
            elif child:
                _kill(child)  # what it started
        if step != "done":
            code = "of the grader itself" if told is None else f"code {told['end']}"
            return replies, (step, f"it ended Python (exit {code}).")
        return replies, None

    def _stop(self, child):
        """End a notebook that does not end; whether the grader goes on."""
        _kill(child)
        try:
            while (told := self.tell(5)) is not None and "end" not in told:
                pass
        except queue.Empty:
            return False
        return told is not None

    def close(self):
        _kill(self.process.pid)
        self.process.kill()
        self.process.wait()
        self.process.stdin.close()


def _said(told):
    """The step that a line tells, None where it tells of another thing, or the student's code wrote it."""
    with contextlib.suppress(ValueError):
        said = json.loads(told.get("said", ""))
        return said if isinstance(said, dict) else None


def _settings():
    """What of the environment is ours: whose exercises are asked, and how."""
    return {name: value for name, value in os.environ.items() if name.startswith("POSENC_")}


def _kill(group):
    """End the processes of a group, where there are any."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        if hasattr(os, "killpg"):
            os.killpg(group, signal.SIGKILL)


_graders = []  # the one that is kept, from one notebook to the next


def _run(task, limit):
    """Run the cells of a task once: replies, and the step that it did not survive with the reason, or None."""
    if _graders and not _graders[0].usable():
        _graders.pop().close()
    if not _graders:
        _graders.append(_Grader())
    return _graders[0].run(task, limit)


@atexit.register
def _end():
    while _graders:
        _graders.pop().close()


@dataclass
class Grade:
    r"""What `grade` found: the lab, one row an exercise, and the points that a person gives for answers on paper.

    seed: what the notebook sets, 0 for none. hints: what a person may want to look at, in words; they cost nothing.
    """

    file: str
    lab: str
    exercises: list = field(default_factory=list)
    on_paper: int = 0
    seed: int = 0
    hints: list = field(default_factory=list)

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
        rows = [f"{self.file}: lab {self.lab}" + (f", seed {self.seed}" if self.seed else "")]
        for row in self.exercises:
            rows.append(f"  {row['points']:>2g} of {row['of']}  {row['title']}" + (": " if row["words"] else ""))
            rows[-1] += row["words"]
        rows.append(f"  {self.points:>2g} of {self.of}  in all")
        if self.on_paper:
            rows.append(f"   ? of {self.on_paper}  on paper, for the teacher to grade")
        rows += [f"  hint: {hint}" for hint in self.hints]
        return "\n".join(rows)

    def line(self):
        """The same in one line."""
        failed = [f"{row['exercise']} {row['points']:g}/{row['of']}" for row in self.exercises if row["words"]]
        words = f" ({', '.join(failed)})" if failed else ""
        paper = f"; on paper ?/{self.on_paper}" if self.on_paper else ""
        hints = "".join(f"\n  hint: {hint}" for hint in self.hints)
        return f"{self.file}: {self.lab} {self.points:g}/{self.of}{words}{paper}{hints}"


def grade(path, lab=None, limit=60.0, partial=False, roster=None):
    r"""Grade one notebook.

    Arguments:
        path: of the notebook.
        lab: whose exercises; default: what the notebook holds says it.
        limit: seconds that each definition and each exercise may take.
        partial: whether a mistake that is named leaves part of the points, as `marks` has it.
        roster: a `gradebook.Roster`; where it has seeds, a notebook with another one, or none, gets a hint.
    Returns: `Grade`.
    Errors: GradeError where the file is no notebook, none of the labs, or another lab than `lab`.
    """
    cells = read(path)
    lab = which_lab(cells, lab)
    skip, seed = {}, seed_in(cells)
    while True:  # a step that did not end, or ended Python, is left out of the next run
        replies, broken = _run({"cells": cells, "lab": lab, "skip": list(skip), "seed": seed}, limit)
        if broken is None:
            break
        if broken[0] in skip:
            raise GradeError(f"cannot be graded, in {broken[0]}: {broken[1]}")
        skip[broken[0]] = broken[1]
    exercises, rows = of(lab, seed), []
    hints = [words] if roster and (words := roster.odd_seed(path, seed)) else []
    hints += borrowed(cells, lab)
    for line in replies:
        if "exercise" in line:
            name, right = line["exercise"], line["right"]
            points, mistake = exercises[name].points, line["mistake"]
            reached = partial_points(f"{lab}.{name}", exercises[name], mistake) if partial else 0
            rows.append(
                {
                    "exercise": name,
                    "title": exercises[name].title,
                    "points": points if right else reached,
                    "of": points,
                    "words": line["words"] + skip.get(name, ""),
                    "mistake": mistake,
                }
            )
    return Grade(str(path), lab, rows, on_paper(lab), seed, hints)


def notebooks(paths):
    """The notebooks among files and folders, those of a folder sorted; and what is an empty folder, {path: why}."""
    files, failed = [], {}
    for path in map(Path, paths):
        inside = sorted(p for p in path.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
        files += inside if path.is_dir() else [path]
        if path.is_dir() and not inside:
            failed[str(path)] = "no notebook in this folder"
    return files, failed


def options_of(arguments):
    """The command line, parsed. Errors: SystemExit, with words, for options that make no sense."""
    parser = argparse.ArgumentParser(
        prog="python -m posenc.lab.exercises",
        description="Grade labs downloaded from Colab or anywhere. Runs the code in them.",
    )
    parser.add_argument("paths", nargs="+", metavar="NOTEBOOK", help="notebooks, or folders of them")
    parser.add_argument("--lab", choices=labs(), help="default: told from the notebook")
    parser.add_argument("--json", action="store_true", help="a list with one object for each notebook")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="for each exercise; default 60")
    parser.add_argument("--partial", action="store_true", help="part of the points for a mistake that is named")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the points as a CSV, for a gradebook")
    parser.add_argument(
        "--roster",
        type=Path,
        metavar="FILE",
        help="the students, as Moodle or Canvas exports them; a column seed is held against the notebooks",
    )
    parser.add_argument("--answers", type=Path, metavar="DIR", help="write the answers on paper, a sheet a lab")
    parser.add_argument("--gradescope", type=Path, metavar="FILE", help="write results.json as Gradescope reads it")
    parser.add_argument("--similar", action="store_true", help="list the pairs whose code looks most alike: hints")
    options = parser.parse_args(arguments)
    if not options.limit > 0:
        parser.error(f"--limit {options.limit:g} must be greater than 0")
    for path in (options.csv, options.gradescope):
        if path and not path.parent.is_dir():
            parser.error(f"{path}: there is no folder {path.parent}")
    return options


def main(arguments=None):
    r"""The command. Returns 0 where every file was graded and all points have their place, however many, else 1."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    options = options_of(arguments[1:] if arguments[:1] == ["grade"] else arguments)
    try:
        roster = gradebook.Roster.read(options.roster) if options.roster else None
    except ValueError as error:  # before minutes of grading
        print(error, file=sys.stderr)
        return 1
    paths, failed = notebooks(options.paths)
    for path, why in failed.items():
        print(f"{path}: {why}", file=sys.stderr)
    grades, records = [], []
    try:
        for path in paths:
            try:
                graded = grade(path, options.lab, options.limit, options.partial, roster)
            except GradeError as error:
                failed[str(path)] = str(error)
                records.append({"file": str(path), "error": str(error)})
                print(f"{path}: {error}", file=sys.stderr)
                continue
            grades.append(graded)
            records.append(graded.record())
            if not options.json:
                print(graded.text() if len(paths) == 1 else graded.line(), flush=True)
    finally:  # also where somebody stops it: what is graded is kept
        complete = _write(options, grades, failed, roster)
    if grades:
        print(judges({graded.lab for graded in grades}), file=sys.stderr)
    if options.json:
        print(json.dumps(records, indent=2))
    if options.similar:
        read_again = {record["file"]: (record["lab"], read(record["file"])) for record in records if "lab" in record}
        print(alike(read_again), file=sys.stderr if options.json else sys.stdout)
    return 0 if complete and not failed else 1


def judges(names):
    r"""Whose exercises these labs were judged by, in a line: posenc's own, or a teacher's private ones."""
    files = {name: importlib.import_module(f"posenc.lab.exercises.{name}").__file__ for name in sorted(names)}
    own = [f"{name} by {file}" for name, file in files.items() if Path(file).parent != Path(__file__).parent]
    return "judged by posenc's own exercises" + (f", but {', '.join(own)}" if own else "")


def _write(options, grades, failed, roster):
    """Write the files that were asked for; whether every point has its place in them."""
    files = []
    if options.csv:
        files = gradebook.write(options.csv, grades, failed, roster)
        if len(files) > 1:
            print(f"{files[1]}: what has no row in {files[0]}, and why", file=sys.stderr)
    if options.answers:
        options.answers.mkdir(parents=True, exist_ok=True)
        for name, text in gradebook.sheets(grades, roster).items():
            (options.answers / name).write_text(text, encoding="utf-8")
    if options.gradescope:
        results = gradebook.gradescope(grades, failed)
        options.gradescope.write_text(json.dumps(results, indent=2), encoding="utf-8")
    return len(files) < 2
