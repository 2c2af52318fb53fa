r"""Hints for a teacher who reads answers: which ones call posenc itself, and whose code looks alike. No verdicts.

An answer that calls the function it should build, or imports what the checks compare with, is right and shows nothing.
Two short functions for one formula look alike however they came about. So nothing here changes a point.
"""

import ast
import difflib
import statistics
from itertools import combinations

from posenc.lab.exercises.registry import labs, of

#: What a lab itself imports from the checks.
OPEN = {"Verdict", "ask", "check", "labs", "student_seed", "use_seed"}
#: What the answers of a lab may be built on, since the lab gives it.
GIVEN = {"scaling": {"posenc.rotate.rope.inv_freq"}}


def definitions(cells: list[str]) -> tuple[dict, dict]:
    r"""The top-level functions and assignments of a notebook, the last of each name, and what names it imports.

    Returns: {name: its syntax tree}, {name: "module.name" as imported}. Cells that are no Python are left out.
    """
    from IPython.core.inputtransformer2 import TransformerManager  # magics become calls, as in a notebook

    defined, imported = {}, {}
    for cell in cells:
        try:
            tree = ast.parse(TransformerManager().transform_cell(cell))
        except (SyntaxError, ValueError):
            continue
        for node in tree.body:
            if isinstance(node, ast.FunctionDef):
                defined[node.name] = node
            elif isinstance(node, ast.Assign) and not _is_check(node.value):
                defined |= {target.id: node.value for target in node.targets if isinstance(target, ast.Name)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Import):
                for alias in node.names:
                    whole = alias.name if alias.asname else alias.name.partition(".")[0]
                    imported[alias.asname or whole] = whole
            elif isinstance(node, ast.ImportFrom):
                imported |= {alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names}
    return defined, imported


def _is_check(node):
    """Whether this is a call check("lab.name", ...)."""
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "check"


def borrowed(cells: list[str], lab: str) -> list[str]:
    r"""Which answers call posenc, directly or by a function of the notebook, and which imports are the checks' own."""
    defined, imported = definitions(cells)
    hints = []
    for name in of(lab, 0):
        calls = sorted(_posenc_names(name, defined, imported) - GIVEN.get(lab, set()))
        if calls:
            hints.append(f"the answer {name} uses {', '.join(calls)}")
    answers = [(f"posenc.lab.exercises.{x}", one.reference) for x in labs() for one in of(x, 0).values()]
    references = {f"{home}.{answer.__name__}" for home, answer in answers if answer.__module__ == home}
    modules = {f"posenc.lab.exercises.{x}" for x in labs()}
    for whole in sorted(set(imported.values())):
        own = whole.removeprefix("posenc.lab.exercises.")
        if whole in references | modules or (own != whole and "." not in own and own not in OPEN):
            hints.append(f"the notebook imports {whole}, which the checks are made of")
    return hints


def _posenc_names(name, defined, imported):
    """What an answer takes from posenc, followed through the notebook's own functions."""
    names, waiting, done = set(), [name], set()
    while waiting:
        node = defined.get(waiting.pop())
        if node is None or id(node) in done:
            continue
        done.add(id(node))
        own = {part.arg for part in ast.walk(node) if isinstance(part, ast.arg)}
        own |= {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}
        inner = [part for part in ast.walk(node) if isinstance(part, (ast.Import, ast.ImportFrom))]
        names |= {"posenc" for part in inner if "posenc" in ast.dump(part)}
        for part in ast.walk(node):
            whole = _dotted(part)
            first, _, rest = whole.partition(".")
            source = imported.get(first, "")
            if first in own or source.endswith("without_triton"):
                continue
            if source.split(".")[0] == "posenc":
                names.add(source + ("." + rest if rest else ""))
            elif first in defined and isinstance(part, ast.Name):
                waiting.append(first)
    return {one for one in names if not any(other.startswith(one + ".") for other in names)}


def _dotted(node):
    """A name or a chain of attributes as text, "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (front := _dotted(node.value)):
        return f"{front}.{node.attr}"
    return ""


def tokens(cells: list[str], lab: str) -> list[str]:
    r"""The answers of a notebook as one list of words, without names of variables, docstrings and comments."""
    defined, _ = definitions(cells)
    words = []
    for name in of(lab, 0):
        node = defined.get(name)
        if isinstance(node, ast.FunctionDef):
            words += [name, *_words(node)]
    return words


def _words(function):
    body = function.body
    if body and isinstance(body[0], ast.Expr) and isinstance(getattr(body[0], "value", None), ast.Constant):
        body = body[1:]
    for statement in body:
        for node in ast.walk(statement):
            yield type(node).__name__
            if isinstance(node, ast.Constant):
                yield repr(node.value)
            elif isinstance(node, ast.Attribute):
                yield node.attr


def similarity(first: list[str], second: list[str]) -> float:
    r"""How alike two lists of `tokens` are, from 0 to 1; 0 where one of them is empty."""
    if not first or not second:
        return 0.0
    return difflib.SequenceMatcher(None, first, second, autojunk=False).ratio()


def alike(submissions: dict[str, tuple[str, list[str]]], most: int = 20) -> str:
    r"""The pairs whose code looks most alike, in words.

    Arguments: submissions: {file: (lab, its code cells)}; pairs are made within a lab. most: how many pairs are listed.
    """
    rows = {file: (lab, tokens(cells, lab)) for file, (lab, cells) in submissions.items()}
    pairs = [(similarity(rows[a][1], rows[b][1]), a, b) for a, b in combinations(rows, 2) if rows[a][0] == rows[b][0]]
    pairs = sorted((pair for pair in pairs if pair[0]), reverse=True)
    if not pairs:
        return "similarity: no two notebooks of one lab have answers"
    middle = statistics.median(share for share, _, _ in pairs)
    head = [
        f"similarity of code, names of variables left out: median of {len(pairs)} pairs {middle:.2f}.",
        "These are hints: short functions for one formula look alike. Talk before you judge.",
    ]
    return "\n".join(head + [f"  {share:.2f}  {a}  {b}" for share, a, b in pairs[:most]])
