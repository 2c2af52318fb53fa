r"""A notebook's cells, run without a kernel, and what they define, judged: the grader's other process.

The cells run in their order, statement by statement; one that raises, since its cell stood too early, is tried again
after the others. Training, audits, the kernels' trials, magics and shell lines do nothing.
`check` only notes what it is given: each exercise is judged in the end.
"""

import ast
import faulthandler
import json
import linecache
import os
import re
import sys
from typing import NamedTuple

from posenc import audit
from posenc.lab import check, train
from posenc.lab.check import trial
from posenc.lab.check.judging import UNDONE, judge
from posenc.lab.check.registry import of
from posenc.lab.train import glyphs


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

    lab: whose exercises. tell: called with begin="..." before each step.
    """

    def __init__(self, lab: str, tell=lambda **_: None):
        self.lab, self.exercises, self.tell = lab, of(lab), tell
        self.space = {"__name__": "__main__", "get_ipython": _NoShell}
        self.answers = {name: {} for name in self.exercises}  # statement number -> function
        self.problems = {}
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
        """Whether a statement ran."""
        self.number = statement.number
        self.tell(begin=statement.code.co_filename.strip("<>"))
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

    def verdict(self, name: str) -> tuple[int, str]:
        """The points of the last finished answer to an exercise, and what is wrong in words."""
        exercise, problem = self.exercises[name], self.problems.get(name)
        answers = [function for _, function in sorted(self.answers[name].items(), reverse=True)]
        points, words = 0, f"not right yet: {problem}" if problem else "not in the notebook."
        if answers:
            self.tell(begin=name)
            verdicts = (judge(exercise, function) for function in answers)
            verdict = next((verdict for verdict in verdicts if not verdict.undone), UNDONE)
            points, words = verdict.points, "" if verdict.right else verdict.message
        if words or exercise.seeded() is not exercise:  # posenc's stands in, as in the lab: one mistake counts once
            wrong = {id(function) for function in answers}
            self.space |= {key: exercise.reference for key, value in self.space.items() if id(value) in wrong}
            self.space[name] = exercise.reference
        return points, words


def main():
    r"""Read a task from stdin, run and judge, and tell each step in a line of JSON.

    A step is told before it begins; one that takes longer than the task's limit ends the process.
    """
    task = json.load(sys.stdin)
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")  # what the student's code prints goes nowhere
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)

    def tell(**line):
        faulthandler.dump_traceback_later(task["limit"], exit=True)
        print(json.dumps(line), file=out, flush=True)

    tell(begin="reading")
    notebook = Notebook(task["lab"], tell)
    audit.audit = audit.model = _left_out
    train.train = train.train_with = glyphs.train_pictures = trial.against = _left_out
    check.check = notebook.note
    seed = os.environ["POSENC_SEED"]
    notebook.run(task["cells"])
    for name, exercise in notebook.exercises.items():
        os.environ["POSENC_SEED"] = seed  # whatever the notebook set it to
        points, words = notebook.verdict(name)
        tell(exercise=name, title=exercise.seeded().title, points=points, words=words)
