r"""A notebook's cells, run without a kernel, and what they define, judged: the grader's other process.

The cells run in their order, statement by statement; one that raises, since its cell stood too early, is tried again
after the others. Training, the kernels' trials, magics and shell lines do nothing. `check` only notes what it is given:
each exercise is judged in the end.
"""

import ast
import contextlib
import functools
import json
import linecache
import os
import re
import select
import signal
import time
from typing import NamedTuple

from posenc.lab import exercises, train
from posenc.lab.exercises import trial
from posenc.lab.exercises.registry import of
from posenc.lab.exercises.verdict import UNDONE, judge
from posenc.lab.train import pictures

FORKS = hasattr(os, "fork")  # Windows has none: there each notebook starts Python anew


class Statement(NamedTuple):
    """One top-level statement of a notebook, and the exercises that it defines."""

    number: int
    code: object
    defines: set


def statements(cells: list[str], names) -> tuple[list[Statement], dict[str, str]]:
    r"""The notebook's `Statement`s, and {exercise: why the cell that seems to define it is no Python}."""
    from IPython.core.inputtransformer2 import TransformerManager  # magics become calls, as in a notebook

    parsed, unreadable = [], {}
    for number, cell in enumerate(cells, start=1):
        if cell.lstrip().startswith("%%"):  # %%time and the like; of other languages nothing is readable
            cell = "\n" + cell.lstrip().partition("\n")[2]
        file = f"<code cell {number}>"
        try:
            text = TransformerManager().transform_cell(cell)
            tree = ast.parse(text, file)
        except (SyntaxError, ValueError) as error:
            line = f"line {error.lineno}: " if getattr(error, "lineno", None) else ""
            why = f"its cell is no Python, {line}{getattr(error, 'msg', error)}."
            unreadable |= {n: why for n in names if re.search(rf"^\s*def\s+{n}\b", cell, re.MULTILINE)}
            continue
        linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
        for node in tree.body:
            try:
                code = compile(ast.Module([node], type_ignores=[]), file, "exec", dont_inherit=True)
            except SyntaxError:  # a `return` or an `await` outside of a function
                continue
            bound = {getattr(n, "name", getattr(n, "id", None)) for n in ast.walk(node) if _binds(n)}
            parsed.append(Statement(len(parsed), code, bound & set(names)))
    return parsed, unreadable


def _binds(node):
    return isinstance(node, ast.FunctionDef) or isinstance(getattr(node, "ctx", None), ast.Store)


class LeftOut(Exception):
    """Raised by what does not run when a lab is graded."""


def _left_out(*_, **__):
    raise LeftOut("this does not run when a lab is graded")


class _NoShell:
    """What `get_ipython()` gives: magics and shell lines do nothing."""

    def __getattr__(self, name):
        return lambda *_, **__: None


class Notebook:
    r"""A notebook that is run: its names, and the answers to each exercise.

    lab: whose exercises. tell: called with begin="..." before each step. skip: steps that did not end in earlier runs.
    """

    def __init__(self, lab: str, tell=lambda **_: None, skip=()):
        self.lab, self.exercises, self.tell, self.skip = lab, of(lab), tell, set(skip)
        self.space = {"__name__": "__main__", "get_ipython": _NoShell}
        self.answers = {name: {} for name in self.exercises}  # statement number -> function
        self.problems = {}
        self.mistakes = {}  # exercise -> the mistake that was named
        self.number = 0  # of the statement that runs

    def note(self, name: str, function):
        """Stands in for `check`: what was given to it is an answer."""
        lab, _, name = str(name).partition(".")
        if lab == self.lab and name in self.answers:
            self.answers[name][self.number] = function
        return function

    def run(self, cells: list[str]) -> None:
        """Run all statements, those that raise again as long as that helps."""
        waiting, unreadable = statements(cells, self.exercises)
        self.problems |= unreadable
        before = None
        while waiting and len(waiting) != before:
            before = len(waiting)
            waiting = [statement for statement in waiting if not self._execute(statement)]

    def _execute(self, statement):
        """Whether a statement is done with: it ran, or it did not end."""
        self.number, step = statement.number, f"statement {statement.number}"
        if step in self.skip:
            self.problems |= {name: "its definition does not end." for name in statement.defines}
            return True
        self.tell(begin=step)
        before = {name: self.space.get(name) for name in self.exercises}
        try:
            exec(statement.code, self.space)
        except (Exception, SystemExit) as error:
            words = f"its definition raises {type(error).__name__}: {error}"
            self.problems = {name: words for name in statement.defines} | self.problems  # the first says why
            return False
        for name, old in before.items():
            new = self.space.get(name)
            if callable(new) and new is not old:
                self.answers[name][statement.number] = new
        return True

    def verdict(self, name: str) -> tuple[bool, str]:
        """Whether the last finished answer to an exercise is right, and what is wrong in words."""
        exercise, problem = self.exercises[name], self.problems.get(name)
        answers = [function for _, function in sorted(self.answers[name].items(), reverse=True)]
        right, words = False, f"not right yet: {problem}" if problem else "not in the notebook."
        if name in self.skip:
            words = "not right yet: "
        elif answers:
            self.tell(begin=name)
            verdicts = (judge(exercise, function) for function in answers)
            verdict = next((verdict for verdict in verdicts if not verdict.undone), UNDONE)
            right, words = verdict.right, "" if verdict.right else verdict.message
            self.mistakes[name] = verdict.mistake
        if not right or exercise.asks:  # posenc's stands in, as in the lab, so that one mistake is counted once
            wrong, reference = {id(function) for function in answers}, (exercise.plain or exercise).reference
            self.space |= {key: reference for key, value in self.space.items() if id(value) in wrong}
            self.space[name] = reference
        return right, words


def grade(task: dict, tell) -> None:
    r"""Run and judge the cells of a task, and tell each step before it begins."""
    tell(begin="reading")
    notebook = Notebook(task["lab"], tell, task["skip"])
    train.train = train.train_with = pictures.train_pictures = trial.against = _left_out
    exercises.check = notebook.note
    notebook.run(task["cells"])
    for name in notebook.exercises:
        right, words = notebook.verdict(name)
        tell(exercise=name, right=right, words=words, mistake=notebook.mistakes.get(name))
    tell(begin="done")  # who ends Python with exit code 0 does not come here


def serve():
    r"""Take a task, a line of JSON on stdin, at a time; each is graded by a copy of this process, which ends with it.

    What Python and torch take to start is paid once. A copy holds neither the tasks nor what is told of others. Each
    line that is told goes to stdout: {"child": its number}, {"said": a step, as the copy told it}, so that the first
    process knows where a loop did not end, then {"end": how it ended}.
    """
    out, nowhere = os.dup(1), os.open(os.devnull, os.O_RDWR)
    tasks = os.fdopen(os.dup(0), encoding="utf-8")
    for number in (0, 1, 2):  # what the student's code prints goes nowhere, and it has nothing to read
        os.dup2(nowhere, number)
    tell = functools.partial(_write, out)
    tell(begin="ready")
    for line in iter(tasks.readline, ""):
        task = json.loads(line)
        if not FORKS:
            _grade_and_end(task, lambda **step: tell(said=json.dumps(step)), lambda: tell(end=0))
        inside, outside = os.pipe()
        if child := os.fork():
            os.close(outside)
            tell(child=child)
            tell(end=_pass_on(child, inside, tasks, tell))
            os.close(inside)
            continue
        os.setsid()
        for mine in (inside, out, tasks.fileno()):
            os.close(mine)
        _grade_and_end(task, functools.partial(_write, outside))


def _write(file, **line):
    os.write(file, (json.dumps(line) + "\n").encode())


def _grade_and_end(task, tell, last=lambda: None):
    """Grade a task and end this process, with 0 where it came to its end."""
    os.chdir(task["folder"])
    os.environ["POSENC_SEED"] = str(task["seed"])
    status = 1
    try:
        grade(task, tell)
        status = 0
        last()
    finally:
        os._exit(status)


def _pass_on(child, inside, tasks, tell):
    """Tell what a copy says until it has ended, and return how. Where nobody listens any more, end both."""
    text, code, until = b"", None, None
    while True:
        ready, _, _ = select.select([inside, tasks], [], [], 0.05)
        if tasks in ready:  # no task comes before the end of the last: the first process is gone
            for end in (os.killpg, os.kill):
                with contextlib.suppress(ProcessLookupError):
                    end(child, signal.SIGKILL)
            os._exit(1)
        more = os.read(inside, 1 << 16) if inside in ready else None
        *lines, text = (text + (more or b"")).split(b"\n")
        for line in lines:
            tell(said=line.decode(errors="replace"))
        if code is not None and (not more or time.monotonic() > until):  # what it started may still hold the pipe
            return code
        if more == b"":
            time.sleep(0.05)
        if code is None and (ended := os.waitpid(child, os.WNOHANG))[0]:
            code, until = os.waitstatus_to_exitcode(ended[1]), time.monotonic() + 1
