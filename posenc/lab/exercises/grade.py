r"""Grade labs that were downloaded from anywhere, without nbgrader: `python -m posenc.lab.exercises submission.ipynb`.

A student may have edited, doubled, moved or deleted any cell, so cells and their metadata count for nothing: what
counts is the last finished definition of each exercise's function, or what was last given to `check("rope.rotate",
...)`. The notebook is not run. Only its imports, definitions and assignments that these functions read, directly or
through others, run in a process of its own, each within a time limit. So training cells, widgets, `%pip` and `!ls`
never run, and a `check` or a `posenc` that the notebook redefined is not asked. `check.judge` then holds each
function against posenc's; what an exercise is worth stands in `posenc.lab.exercises`.

It runs the student's code with your rights, and what it compares with is public: it tells mistakes, not cheating.
"""

import argparse
import ast
import contextlib
import dis
import json
import linecache
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
from typing import NamedTuple

from posenc.lab import exercises as checks
from posenc.lab.exercises.check import judge

START = 120  # seconds until the other process has imported torch


class GradeError(ValueError):
    """A file that cannot be graded; the message says why."""


# ---------------------------------------------------------------------------------------------- what a notebook holds


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
    r"""The lab that a notebook is, by the exercises that it checks or defines. Errors: GradeError where it is none."""
    text = "\n".join(cells)
    found = {}
    for method in checks.methods():
        names = "|".join(checks.of(method))
        named = set(re.findall(rf"[\"']{method}\.({names})[\"']", text))
        defined = set(re.findall(rf"^(?:def )?({names})\s*[(=]", text, re.MULTILINE))
        found[method] = 3 * len(named) + len(defined)
    best = max(found.values(), default=0)
    likely = [method for method, count in found.items() if count == best]
    if best == 0 or "posenc" not in text:
        raise GradeError(f"is none of the labs ({', '.join(found)}): it has none of their exercises")
    if len(likely) > 1:
        raise GradeError(f"may be {' or '.join(likely)}: name the lab with --lab")
    return likely[0]


class Statement(NamedTuple):
    """One top-level statement of a notebook: its code, and the names that it reads, binds and changes."""

    code: object
    reads: set
    binds: set
    changes: set  # x of x[0] = 1, x.a = 1, x.append(1)
    submits: set  # the exercises of the check(...) calls in it
    is_import: bool


def statements(cells, lab):
    r"""The notebook as a list of `Statement`s, and {exercise: why the cell that seems to define it is no Python}."""
    from IPython.core.inputtransformer2 import TransformerManager  # magics become calls, as in a notebook

    exercises, found, unreadable, finished = checks.of(lab), [], {}, set()
    for number, cell in enumerate(cells, start=1):
        if cell.lstrip().startswith("%%"):  # %%time and the like; of other languages nothing is readable
            cell = "\n" + cell.lstrip().partition("\n")[2]
        name = f"<code cell {number}>"
        linecache.cache[name] = (len(cell), None, cell.splitlines(keepends=True), name)
        try:
            tree = ast.parse(TransformerManager().transform_cell(cell), name)
        except (SyntaxError, ValueError) as error:
            for exercise in exercises:
                if re.search(rf"^\s*def\s+{exercise}\b", cell, re.MULTILINE):
                    line = f"line {error.lineno}: " if getattr(error, "lineno", None) else ""
                    unreadable[exercise] = f"its cell is no Python, {line}{getattr(error, 'msg', error)}."
            continue
        for node in tree.body:
            if _is_stub(node) and node.name in finished:
                continue  # a copy of the empty exercise, left below the finished one
            if isinstance(node, ast.FunctionDef) and not _is_stub(node):
                finished.add(node.name)
            try:
                found.append(_statement(node, name, lab, exercises))
            except SyntaxError:  # a `return` or an `await` outside of a function
                continue
    return found, unreadable


def _statement(node, name, lab, exercises):
    calls = _Checks(lab, exercises)
    node = ast.fix_missing_locations(calls.visit(node))
    code = compile(ast.Module([node], type_ignores=[]), name, "exec", dont_inherit=True)
    reads, binds = _names(code)
    is_import = isinstance(node, (ast.Import, ast.ImportFrom))
    if is_import and any(alias.name == "*" for alias in node.names):
        binds = {"*"}
    changes = {_root(n) for n in ast.walk(node) if isinstance(getattr(n, "ctx", None), ast.Store)} - {None}
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        changes.add(_root(node.value.func))
    return Statement(code, reads, binds, changes - {None}, calls.submits, is_import)


class _Checks(ast.NodeTransformer):
    """Turns check("rope.rotate", f) into a call of the grader, whatever `check` is by then."""

    def __init__(self, lab, exercises):
        self.known, self.submits = {f"{lab}.{name}": name for name in exercises}, set()

    def visit_Call(self, node):
        self.generic_visit(node)
        called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", None)
        if called == "check" and len(node.args) == 2 and isinstance(node.args[0], ast.Constant):
            exercise = self.known.get(node.args[0].value)
            if exercise:
                self.submits.add(exercise)
                node.func = ast.Name("__submit__", ast.Load())
        return node


def _names(code):
    """The names that a code object reads from and binds in the notebook, those of the functions in it included."""
    reads, binds = set(), set()
    for step in dis.get_instructions(code):
        if step.opname == "LOAD_NAME" or step.opname.startswith("LOAD_") and "GLOBAL" in step.opname:
            reads.add(step.argval)
        elif step.opname == "STORE_GLOBAL" or step.opname == "STORE_NAME" and code.co_name == "<module>":
            binds.add(step.argval)
    for inner in code.co_consts:
        if hasattr(inner, "co_code"):
            more_reads, more_binds = _names(inner)
            reads, binds = reads | more_reads, binds | more_binds
    return reads, binds


def _root(node):
    """x of x.a[0], None of anything else."""
    if not isinstance(node, (ast.Attribute, ast.Subscript)):
        return None
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return getattr(node, "id", None)


def _is_stub(node):
    """Whether a statement is a function that only raises NotImplementedError."""
    if not isinstance(node, ast.FunctionDef):
        return False
    body = [n for n in node.body if not (isinstance(n, ast.Expr) and isinstance(n.value, ast.Constant))]
    if not body:
        return True  # only `...` or words
    raised = body[0].exc if isinstance(body[0], ast.Raise) else None
    return getattr(getattr(raised, "func", raised), "id", None) == "NotImplementedError"


def needed(found, exercises):
    r"""The statements that the exercises' functions need, imports first.

    What is imported is not changed: `posenc.lab.exercises.check.judge = ...` is no statement that anything needs.
    """
    imported = set().union(*(s.binds for s in found if s.is_import))
    names, chosen, before = set(exercises) | {"*"}, set(), -1
    while before < len(chosen):
        before = len(chosen)
        for number, s in enumerate(found):
            if number not in chosen and (s.submits or s.binds & names or (s.changes - imported) & names):
                chosen.add(number)
                names |= s.reads
    return sorted(((number, found[number]) for number in chosen), key=lambda item: (not item[1].is_import, item[0]))


# ------------------------------------------------------------------------------------------------ in its own process


def work():
    r"""What the other process does: read a task from stdin, run and judge, and tell each step in a line of JSON.

    A step is told before it begins, so that the first process knows where a loop did not end. Steps in `skip` did.
    """
    task = json.load(sys.stdin)
    told = os.fdopen(os.dup(1), "w", encoding="utf-8")  # what the student's code prints goes nowhere
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def tell(**line):
        print(json.dumps(line), file=told, flush=True)

    exercises, skip = checks.of(task["lab"]), set(task["skip"])
    tell(begin="reading")
    found, problems = statements(task["cells"], task["lab"])
    space, submitted = {"__name__": "__main__"}, {}

    def submit(name, function):
        submitted[name.partition(".")[2]] = function
        return function

    space["__submit__"] = submit
    waiting, again = needed(found, exercises), True
    while waiting and again:  # what fails, since its cell stood too early, is tried again after the others
        failed = []
        for number, statement in waiting:
            defines = statement.binds & set(exercises)
            if f"statement {number}" in skip:
                problems = {name: "its definition does not end." for name in defines} | problems
                continue
            tell(begin=f"statement {number}")
            try:
                exec(statement.code, space)
            except (Exception, SystemExit) as error:
                failed.append((number, statement))
                message = f"its definition raises {type(error).__name__}: {error}"
                problems = {name: message for name in defines} | problems  # the first says why
                continue
            submitted |= {name: space[name] for name in defines if callable(space[name])}
        again = len(failed) < len(waiting)
        waiting = [(n, s) for n, s in failed if not s.binds & set(space)]

    for name, exercise in exercises.items():
        function = submitted.get(name)
        if name in skip:
            right, words = False, "not right yet: "
        elif name not in submitted:
            right = False
            words = f"not right yet: {problems[name]}" if name in problems else "not in the notebook."
        else:
            tell(begin=name)
            verdict = judge(exercise, function)
            right, words = verdict.right, verdict.message
        tell(exercise=name, right=right, words="" if right else words)
        if not right:  # posenc's stands in, as in the lab, so that one mistake is counted once
            for key in [key for key, value in space.items() if value is function and function is not None]:
                space[key] = exercise.reference
            space[name] = exercise.reference


def _run(task, limit):
    """Run `work` once: the lines that it told, and the step that it did not survive with the reason, or None."""
    package = str(Path(__file__).parents[3])
    command = f"import sys; sys.path.append({package!r}); from posenc.lab.exercises.grade import work; work()"
    settings = {"POSENC_PRESET": "nano", "MPLBACKEND": "agg", "PYTHONUTF8": "1"}
    lines, told, step = queue.Queue(), [], "start"
    with tempfile.TemporaryDirectory() as folder:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", command],
            cwd=folder,
            env={**os.environ, **settings},
            text=True,
            encoding="utf-8",
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        errors = []
        readers = [
            threading.Thread(target=lambda: [*map(lines.put, process.stdout), lines.put(None)], daemon=True),
            threading.Thread(target=lambda: errors.extend(process.stderr), daemon=True),
        ]
        for reader in readers:
            reader.start()
        try:
            with contextlib.suppress(BrokenPipeError):  # it ended at once: the exit code below says so
                process.stdin.write(json.dumps(task))
                process.stdin.close()
            while (line := lines.get(timeout=START if step == "start" else limit)) is not None:
                told.append(json.loads(line))
                step = told[-1].get("begin", step)
            reason = f"it ended Python (exit code {process.wait()})." if process.wait() else None
        except queue.Empty:
            reason = f"it ran longer than {limit:g} s. Does a loop not end?"
        finally:
            _end(process)
        for reader in readers:
            reader.join(timeout=5)
    if reason and step == "start":
        raise GradeError(f"the process that grades did not start: {reason}\n{''.join(errors)}")
    return told, (step, reason) if reason else None


def _end(process):
    """End the process, and what it started where the system can tell."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    process.kill()
    process.wait()


# --------------------------------------------------------------------------------------------------------- the grade


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
        lab: whose exercises; default: what the notebook holds says it.
        limit: seconds that each definition and each exercise may take.
    Returns: `Grade`.
    Errors: GradeError where the file is no notebook or none of the labs.
    """
    cells = read(path)
    lab = which_lab(cells) if lab is None else lab
    skip = {}
    while True:  # a step that did not end, or ended Python, is left out of the next run
        told, broken = _run({"cells": cells, "lab": lab, "skip": list(skip)}, limit)
        if broken is None:
            break
        if broken[0] in skip:
            raise GradeError(f"cannot be graded, in {broken[0]}: {broken[1]}")
        skip[broken[0]] = broken[1]
    exercises, rows = checks.of(lab), []
    for line in told:
        if "exercise" in line:
            name, right = line["exercise"], line["right"]
            points = exercises[name].points
            rows.append(
                {
                    "exercise": name,
                    "title": exercises[name].title,
                    "points": points if right else 0,
                    "of": points,
                    "words": line["words"] + skip.get(name, ""),
                }
            )
    return Grade(str(path), lab, rows, checks.on_paper(lab))


def notebooks(paths):
    """The notebooks among files and folders, those of a folder sorted."""
    found = []
    for path in map(Path, paths):
        inside = sorted(p for p in path.rglob("*.ipynb") if ".ipynb_checkpoints" not in p.parts)
        found += inside if path.is_dir() else [path]
        if path.is_dir() and not inside:
            raise GradeError(f"{path}: no notebook in this folder")
    return found


def main(arguments=None):
    r"""The command. Returns 0 where every file was graded, whatever the points, else 1."""
    parser = argparse.ArgumentParser(
        prog="python -m posenc.lab.exercises",
        description="Grade labs downloaded from Colab or anywhere. Runs the code in them.",
    )
    parser.add_argument("paths", nargs="+", metavar="NOTEBOOK", help="notebooks, or folders of them")
    parser.add_argument("--lab", choices=checks.methods(), help="default: told from the notebook")
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
