r"""Turn the package's plain docstrings into reStructuredText for the API page.

The docstrings are written to be read in a terminal: a first line, formulas as they are, then sections that begin with
`Arguments:`, `Returns:`, `Errors:`, `Convention:`, `Paper:`, `Chapter:`. Here formulas become literal blocks, arguments
a list, the other sections a table of fields; arXiv numbers and chapters become links. The API page's sections on
methods are written from `posenc.METHODS`, its table of what works where from results/works_in.json.
"""

import functools
import json
import re
import sys
import textwrap
from pathlib import Path
from types import ModuleType

from sphinx.application import Sphinx
from sphinx.errors import ExtensionError

from posenc import METHODS

ROOT = Path(__file__).resolve().parents[2]
MARK = "<!-- methods -->"
WORKS_IN = "<!-- works in -->"

FIELDS = ("Returns", "Errors", "Raises", "Convention", "Paper", "Chapter")
_FIELD = re.compile(rf"(?:(?<=\. )|^)({'|'.join(FIELDS)}): *")
_ITEM = re.compile(r"(`?[A-Za-z_]\w*`?(?:, `?[A-Za-z_]\w*`?)*): +(\S.*)$", re.S)
_ARXIV = re.compile(r"arXiv (\d{4}\.\d{5})")


def inline(text: str) -> str:
    r"""Escape what reStructuredText would take for markup; `code` stays code, arXiv numbers become links."""
    parts = re.split(r"(``[^`]+``|`[^`]+`)", " ".join(text.split()))
    for n, part in enumerate(parts):
        if n % 2:
            parts[n] = f"``{part.strip('`')}``"
            if n + 1 < len(parts) and re.match(r"\w", parts[n + 1]):
                parts[n] += "\\ "
        else:
            part = re.sub(r"([\\*|_])", r"\\\1", part)
            parts[n] = _ARXIV.sub(r"`arXiv \1 <https://arxiv.org/abs/\1>`__", part)
    return "".join(parts)


@functools.cache
def chapters() -> dict[str, str]:
    r"""{title: book/page} of the book, from each page's heading."""
    titles = {}
    for page in [*(ROOT / "book").glob("*.md"), *(ROOT / "book").glob("*/index.md")]:
        title = re.search(r"^# (.+?)\s*$", page.read_text("utf-8"), re.M)[1]
        titles[title] = page.relative_to(ROOT).with_suffix("").as_posix()
    return titles


def chapter(text: str) -> str:
    r"""A link to the chapter named by its title, or "title, section". Errors: ExtensionError for an unknown title."""
    name = text.strip().rstrip(".")
    title = max((t for t in chapters() if f"{name}, ".startswith(f"{t}, ")), key=len, default=None)
    if title is None:
        raise ExtensionError(f"Chapter: {name!r} is no page of the book; pages are {', '.join(sorted(chapters()))}")
    return f":doc:`{title} </{chapters()[title]}>`{inline(name.removeprefix(title))}"


def reference(name: str, title: str, module: ModuleType) -> str:
    r"""Markdown of a method's section in the API page: each function whose docstring names its chapter."""
    public = [
        f".. autofunction:: posenc.{name}.{key}"
        for key, function in vars(module).items()
        if not key.startswith("_")
        and getattr(function, "__module__", None) == module.__name__
        and "Chapter:" in (function.__doc__ or "")
    ]
    return "\n".join([f"### {title}", "", "```{eval-rst}", *public, "```", ""])


def write_methods(app: Sphinx, docname: str, source: list[str]) -> None:
    r"""Put a section for each row of `METHODS` in the place of the line `<!-- methods -->`; NoPE stands above it."""
    if MARK in source[0]:
        rows = {name: row for name, row in METHODS.items() if name != "nope"}
        sections = (reference(n, r.title, sys.modules[r.factory.__module__]) for n, r in rows.items())
        source[0] = source[0].replace(MARK, "\n".join(sections))
    if WORKS_IN in source[0]:
        source[0] = source[0].replace(WORKS_IN, works_in())


def works_in() -> str:
    r"""Markdown of the table that tests/works_in.py makes, a row for each method, and of what it says."""
    found = json.loads((ROOT / "results" / "works_in.json").read_text("utf-8"))
    reasons = list(dict.fromkeys(cell for row in found["table"].values() for cell in row.values() if cell != "yes"))
    short = {"yes": "yes"} | {reason: f"note {n}" for n, reason in enumerate(reasons, 1)}
    rows = [(METHODS[name].title, *map(short.get, row.values())) for name, row in found["table"].items()]
    head = ("Method", *next(iter(found["table"].values())))
    lines = [f"| {' | '.join(row)} |" for row in (head, ["---"] * len(head), *rows)]
    notes = [f"- note {n}: {reason}" for n, reason in enumerate(reasons, 1)]
    return "\n".join([f"{found['definition']} Tried with {found['versions']}.", "", *lines, "", *notes])


def convert(lines: list[str]) -> list[str]:
    r"""The docstring `lines` as reStructuredText."""
    body, fields = [], []
    for block in blocks(textwrap.dedent("\n".join(lines)).strip("\n").split("\n")):
        head = block[0]
        if head.startswith("Arguments:"):
            first = [head.removeprefix("Arguments:").strip()]
            body += ["**Arguments**", ""] + items(first + textwrap.dedent("\n".join(block[1:])).split("\n")) + [""]
        elif _FIELD.match(head):
            fields += named(_FIELD.split(" ".join(line.strip() for line in block))[1:])
        elif formula(block):
            body += ["::", ""] + ["    " + line for line in block] + [""]
        elif len(block) > 1 and all(_ITEM.match(line) for line in block if not line.startswith(" ")):
            body += items(block) + [""]
        else:
            prose, *sections = _FIELD.split(" ".join(line.strip() for line in block))
            fields += named(sections)
            body += [inline(prose), ""]
    if fields:
        body += [f":{name}: {text}" for name, text in fields] + [""]
    return body


def blocks(lines: list[str]) -> list[list[str]]:
    r"""Cut into paragraphs; a section that begins with its name is one of its own, with all that is indented below."""
    found, current, kind = [], [], "text"
    for line in lines:
        starts = "list" if line.startswith("Arguments:") else "field" if _FIELD.match(line) else None
        indented = line.startswith(" ")
        if not line.strip():
            if kind == "text":
                found, current = [*found, current], []
            continue
        list_ends = kind == "list" and not indented
        quote_begins = kind == "text" and indented and current and not (_ITEM.match(current[0]) or current[0][0] == " ")
        if starts or list_ends or quote_begins:
            found, current, kind = [*found, current], [], starts or "text"
        current.append(line)
    return [block for block in [*found, current] if block]


def formula(block: list[str]) -> bool:
    r"""True for what must keep its spaces and lines: indented text, and lines that are formulas and no sentences."""
    if all(line.startswith("    ") for line in block):
        return True
    return not block[-1].rstrip().endswith((".", ":")) and all(re.search(r"\s(=|->|<-)\s", line) for line in block)


def items(lines: list[str]) -> list[str]:
    r"""A list of `name: text` entries, with their indented continuation lines."""
    out = []
    for entry in filter(str.strip, re.split(r"\n(?! )", "\n".join(lines))):
        if match := _ITEM.match(entry.strip()):
            names = ", ".join(f"``{name.strip().strip('`')}``" for name in match[1].split(","))
            out.append(f"- {names}: {inline(match[2])}")
        else:
            out.append(f"- {inline(entry)}")
    return out


def named(pieces: list[str]) -> list[tuple[str, str]]:
    r"""[(name, text), ...] of [name, text, name, text, ...]."""
    pairs = zip(pieces[::2], pieces[1::2])
    return [(name, chapter(rest) if name == "Chapter" else inline(rest)) for name, rest in pairs]


def process(app, what, name, obj, options, lines):
    if what == "module":  # a page of its own, laid out by hand: show it as it is
        lines[:] = [inline(lines[0]), "", "::", ""] + ["    " + line for line in lines[1:]] + [""]
    else:
        lines[:] = convert(lines)


def setup(app: Sphinx):
    app.setup_extension("sphinx.ext.autodoc")
    app.connect("source-read", write_methods)
    app.connect("autodoc-process-docstring", process)
