r"""Code that a page includes shows its algorithm: long docstrings stand folded behind it, their first line in it.

Checks stay where they are: pages speak of them. Folds need no script; paper shows the code alone.
"""

import ast
import html
import inspect

from docutils import nodes
from sphinx.application import Sphinx

LONGEST = 3  # lines that a docstring may have and stay


def parted(code: str) -> tuple[str, list[tuple[str, str]]]:
    r"""(the code with the first lines of its long docstrings, [(name, the rest of its docstring), ...])."""
    try:
        tree = ast.parse(code)
    except SyntaxError:  # part of a file, which begins or ends anywhere
        return code, []
    lines, folded = code.split("\n"), []
    for place in ast.walk(tree):
        if not isinstance(place, ast.FunctionDef | ast.ClassDef) or ast.get_docstring(place) is None:
            continue
        said = place.body[0]
        first, *rest = inspect.cleandoc(said.value.value).split("\n")
        if said.end_lineno - said.lineno < LONGEST or not first:
            continue
        start = lines[said.lineno - 1]
        quotes = '"""' if '"""' in start else "'''"
        lines[said.lineno - 1] = start.rstrip() + quotes
        lines[said.lineno : said.end_lineno] = [None] * (said.end_lineno - said.lineno)
        folded.append((said.lineno, place.name, "\n".join(rest).strip("\n")))
    return "\n".join(line for line in lines if line is not None), [(name, rest) for _, name, rest in sorted(folded)]


def is_folded(node: nodes.Node) -> bool:
    r"""Whether a node stands in a fold of the page already."""
    while node.parent is not None:
        node = node.parent
        if isinstance(node, nodes.Element) and node.get("design_component") == "dropdown":
            return True
    return False


def fold(app: Sphinx, doctree: nodes.document) -> None:
    for block in list(doctree.findall(nodes.literal_block)):
        if block.get("language") != "python" or "source" not in block or is_folded(block):
            continue
        code, folded = parted(block.astext())
        if not folded:
            continue
        block.children = [nodes.Text(code)]
        block.rawsource = code
        names = ", ".join(f"<code>{html.escape(name)}</code>" for name, _ in folded)
        texts = [rest if len(folded) == 1 else f"{name}\n\n{rest}" for name, rest in folded]
        text = html.escape("\n\n\n".join(texts))
        markup = f'<details class="paperwork"><summary>More on {names}</summary><pre>{text}</pre></details>'
        block.parent.insert(block.parent.index(block) + 1, nodes.raw("", markup, format="html"))


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", fold)
