r"""Grade labs that were downloaded from anywhere, without nbgrader: `python -m posenc.lab.check submission.ipynb`.

A student may have edited, doubled, moved or deleted any cell, so cells and their metadata count for nothing: what
counts is the last finished definition of each exercise's function, or what was last given to `check("rope.rotate",
...)`. The notebook runs in a process of its own (`cells`), without training; what raises costs only itself, and what
hangs or ends Python is named. `judge` then holds each function against the right one; what an exercise is worth stands
in its `Exercise`.

It runs the student's code with your rights, and what it compares with is public: it tells mistakes, not cheating.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from posenc.lab.check.registry import labs, of, on_paper


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


def which_lab(cells):
    r"""The lab whose exercises a notebook checks. Errors: GradeError where it checks none, or those of several labs."""
    checked = set(re.findall(r"\bcheck\(\s*[\"'](\w+)\.", "\n".join(cells))) & set(labs())
    if len(checked) != 1:
        whose = f"those of {' and '.join(sorted(checked))}" if checked else f"none of {', '.join(labs())}"
        raise GradeError(f"which lab it is does not show: its cells check exercises, {whose}; name the lab with --lab")
    return checked.pop()


def _run(cells, lab, limit):
    """Run `cells.main` in a process of its own: what it says of each exercise. Errors: GradeError."""
    package = str(Path(__file__).parents[3])
    command = f"import sys; sys.path.append({package!r}); from posenc.lab.check.cells import main; main()"
    settings = {"POSENC_PRESET": "nano", "MPLBACKEND": "agg", "PYTHONUTF8": "1"}
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
    r"""What `grade` found: the lab, one row an exercise, and the points that a person gives for answers on paper."""

    file: str
    lab: str
    exercises: list = field(default_factory=list)
    on_paper: int = 0

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
        return "\n".join(rows)

    def line(self):
        """The same in one line."""
        failed = [f"{row['exercise']} {row['points']}/{row['of']}" for row in self.exercises if row["words"]]
        words = f" ({', '.join(failed)})" if failed else ""
        paper = f"; on paper ?/{self.on_paper}" if self.on_paper else ""
        return f"{self.file}: {self.lab} {self.points}/{self.of}{words}{paper}"


def grade(path, lab=None, limit=60.0):
    r"""Grade one notebook.

    Arguments:
        path: of the notebook.
        lab: whose exercises; default: those that the notebook checks.
        limit: seconds that each statement and each exercise may take.
    Returns: `Grade`.
    Errors: GradeError where the file is no notebook or shows no lab, and where a step hangs or ends Python: which one.
    """
    cells = read(path)
    lab = which_lab(cells) if lab is None else lab
    rows = []
    for line in _run(cells, lab, limit):
        row = {key: line[key] for key in ("exercise", "title", "points")}
        rows.append(row | {"of": of(lab)[line["exercise"]].points, "words": line["words"]})
    return Grade(str(path), lab, rows, on_paper(lab))


def notebooks(paths):
    """The notebooks among files and folders, those of a folder sorted."""
    files = []
    for path in map(Path, paths):
        inside = sorted(p for p in path.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
        files += inside if path.is_dir() else [path]
        if path.is_dir() and not inside:
            raise GradeError(f"{path}: no notebook in this folder")
    return files


def main(arguments=None):
    r"""The command. Returns 0 where every file was graded, whatever the points, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m posenc.lab.check",
        description="Grade labs downloaded from Colab or anywhere. Runs the code in them.",
    )
    parser.add_argument("paths", nargs="+", metavar="NOTEBOOK", help="notebooks, or folders of them")
    parser.add_argument("--lab", choices=labs(), help="default: the one whose exercises are checked")
    parser.add_argument("--json", action="store_true", help="a list with one object for each notebook")
    parser.add_argument("--limit", type=float, default=60.0, metavar="SECONDS", help="for each exercise; default 60")
    options = parser.parse_args(arguments)
    if not options.limit > 0:
        parser.error(f"--limit {options.limit:g} must be greater than 0")

    records, failed = [], False
    try:
        paths = notebooks(options.paths)
    except GradeError as error:
        print(error, file=sys.stderr)
        return 1
    for path in paths:
        try:
            graded = grade(path, options.lab, options.limit)
        except GradeError as error:
            failed = True
            records.append({"file": str(path), "error": str(error)})
            print(f"{path}: {error}", file=sys.stderr)
            continue
        records.append(graded.record())
        if not options.json:
            print(graded.text() if len(paths) == 1 else graded.line(), flush=True)
    if options.json:
        print(json.dumps(records, indent=2))
    return 1 if failed else 0
