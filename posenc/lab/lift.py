r"""Lift a section of the book into another one, with what it needs: `python -m posenc.lab.lift`.

    python -m posenc.lab.lift rope#derivation ../my-book/posenc

writes `rope_derivation.md` into that folder, the entries that it cites into `posenc.bib`, its pictures into `_static/`,
and says what the other book's `_config.yml` must hold. The section is named by its heading, as in the address of the
published page, or by the label above it. It brings the cells that its own cells need, hidden; numbers in the text come
from the same functions. Figures with sliders are notebook outputs there, which work without a network; references
to what stays behind lead to the published book. Where the other book is built, `posenc[book]` must be installed.

The other book is a Jupyter Book 1, or with `--myst` a MyST project (Jupyter Book 2), which has no names for numbers:
there they stand as they are today.
"""

import argparse
import ast
import builtins
import re
import shutil
import sys
from pathlib import Path
from typing import NamedTuple

from posenc.errors import nearest
from posenc.lab.pages import ROOT, collected, repository

BOOK = ROOT / "book"
FENCE = re.compile(
    r"^(?P<mark>`{3,}|:{3,})\{(?P<name>[\w:-]+)\}(?P<words>[^\n]*)\n(?P<inside>.*?)^(?P=mark)[ \t]*$", re.M | re.S
)
HEAD = """\
---
jupytext:
  text_representation: {extension: .md, format_name: myst}
kernelspec: {name: python3, display_name: Python 3}
---
"""
NEEDS = "where it is built: pip install 'posenc[book]'"
EXTENSIONS = {
    "prf": "sphinx_proof",
    "exercise": "sphinx_exercise",
    "solution": "sphinx_exercise",
    "dropdown": "sphinx_design",
}


class LiftError(ValueError):
    """A section that cannot be lifted; the message says why, and what would be right."""


class Section(NamedTuple):
    """A section's title, its text below the title, and the text of the page that stands before it."""

    title: str
    text: str
    before: str


def slug(title: str) -> str:
    """A heading as the end of its address."""
    return re.sub(r"[^\w\- ]", "", title.lower()).strip().replace(" ", "-")


def find(page: str, label: str) -> Section:
    r"""The section of a page that has this label, or whose heading reads so. Errors: LiftError."""
    path = BOOK / f"{page}.md"
    if not BOOK.is_dir():
        raise LiftError(f"there is no {BOOK}: run this in a copy of the repository, where the book's text is")
    if not path.exists():
        pages = [p.stem for p in BOOK.glob("*.md")]
        raise LiftError(f"page={page!r}: the book has no such page.{nearest(page, pages)}")
    text = path.read_text("utf-8").split("---\n", 2)[2]
    blank = re.sub(r"^(`{3,}|:{3,}).*?^\1[ \t]*$", lambda m: re.sub(r"[^\n]", " ", m[0]), text, flags=re.M | re.S)
    heads = list(re.finditer(r"^(#+) (.+)$", blank, re.M))
    names = {}
    for head in heads:
        above = re.search(r"\(([\w-]+)\)=\s*$", text[: head.start()])
        names |= {slug(head[2]): head} | ({above[1]: head} if above else {})
    if label not in names:
        raise LiftError(f"{page}#{label}: no section is called so; {page} has {', '.join(names)}")
    head = names[label]
    end = next((h.start() for h in heads if h.start() > head.start() and len(h[1]) <= len(head[1])), len(text))
    before = re.sub(r"\([\w-]+\)=\s*$", "", text[: head.start()])
    inside = re.sub(r"\([\w-]+\)=\s*$", "", text[head.end() : end])
    return Section(head[2], inside, before)


# --- cells -----------------------------------------------------------------------------------------------------------


def code_of(inside: str) -> str:
    """The code of a cell, without its options."""
    return re.sub(r"\A(---\n.*?^---\n|(:[\w-]+:[^\n]*\n)+)", "", inside, flags=re.M | re.S)


def cells(text: str) -> list[str]:
    """The code of the cells of a text."""
    return [code_of(found["inside"]) for found in FENCE.finditer(text) if found["name"] == "code-cell"]


def names_in(code: str) -> tuple[set, set]:
    """The names that a cell binds, and those that it uses."""
    tree = ast.parse(re.sub(r"^[%!].*$", "", code, flags=re.M))
    bound, used = set(), set()
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            bound.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            bound |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        elif isinstance(node, ast.Name):
            (bound if isinstance(node.ctx, ast.Store) else used).add(node.id)
    return bound, used - set(dir(builtins))


def needed(before: str, section: str) -> list[str]:
    r"""The cells before a section that it leans on: what binds its names, and what says its numbers."""
    wanted, glued = set(), "{glue:text}" in section
    if not (glued or cells(section)):
        return []
    for code in cells(section):
        wanted |= names_in(code)[1]
    kept = []
    for number, code in reversed(list(enumerate(cells(before)))):
        bound, used = names_in(code)
        says = glued and re.search(r"\bsay(_all)?\(|\.numbers\(|\.start\(", code)
        if number == 0 or says or bound & wanted:
            kept.append(code)
            wanted |= used
    return kept[::-1]


def numbers(code: list[str]) -> dict[str, str]:
    r"""What cells say to the prose, {name: text}: they are run here."""
    with collected() as said:
        space = {"__name__": "__main__"}
        for cell in code:
            exec(compile(cell, "<cell of the book>", "exec"), space)
    return dict(said)


# --- references and figures ------------------------------------------------------------------------------------------


def site() -> str:
    """The address of the published book."""
    owner, name = repository().split("/")
    return f"https://{owner}.github.io/{name}/"


def title_of(page: str) -> str:
    return re.search(r"^# (.+)$", (BOOK / f"{page}.md").read_text("utf-8"), re.M)[1]


def defined(text: str) -> set:
    """The labels that a text defines."""
    labels = re.findall(r"^\(([\w-]+)\)=|:(?:label|name): ([\w-]+)|^ *name: ([\w-]+)|\$\$ \(([\w-]+)\)", text, re.M)
    return {label for found in labels for label in found if label}


def home_of(label: str, page: str) -> str:
    """The page that defines a label; this one where none does."""
    pages = [path.stem for path in sorted(BOOK.glob("*.md")) if label in defined(path.read_text("utf-8"))]
    return page if page in pages or not pages else pages[0]


class Lift:
    r"""One section on its way: its text is rewritten, and what it needs is noted.

    page: it comes from. there: the labels that come along. values: of the numbers in its text, None where the other
    book computes them.
    """

    def __init__(self, page: str, section: Section, values: dict | None = None):
        self.page, self.section, self.there, self.values = page, section, defined(section.text), values
        self.pictures, self.keys, self.extensions = [], set(), set()

    def fence(self, found: re.Match) -> str:
        r"""A directive as the other book has it."""
        name, words, inside, mark = found["name"], found["words"].strip(), found["inside"], found["mark"]
        if name == "code-cell":
            return found[0]
        if name == "explorable":
            return (
                "```{code-cell} ipython3\n:tags: [remove-input]\nfrom posenc.lab.figures import load\n\n"
                f'load("{words}")\n```'
            )
        if name == "predict":
            question, _, answer = re.sub(r"^:.*\n", "", inside, flags=re.M).partition("\n---\n")
            asks = re.sub(r"^- \[[ x]\] ", "- ", question.strip(), flags=re.M)
            right = re.search(r"^- \[x\] (.+)$", question, re.M)
            told = f"*{right[1]}.* " if right else ""
            return (
                f"````{{admonition}} Predict\n{self.text(asks)}\n````\n\n"
                f"````{{admonition}} Answer\n:class: dropdown\n{told}{self.text(answer.strip())}\n````"
            )
        if name in ("live", "lab"):
            where = f"notebooks/{words}" if name == "lab" else f"book/{self.page}"
            return f"[To be found in the book]({site()}{where}.html)"
        if name == "literalinclude":
            return self.included(words, inside)
        if name in ("figure", "image"):
            self.pictures.append(BOOK / words)
            return f"{mark}{{{name}}} _static/{Path(words).name}\n{self.text(inside)}{mark}"
        self.extensions |= {EXTENSIONS[kind] for kind in [name.split(":")[0]] if kind in EXTENSIONS}
        return f"{mark}{{{name}}} {self.text(words)}\n{self.text(inside)}{mark}"

    def included(self, path: str, options: str) -> str:
        """What a literalinclude shows, as code."""
        source = (BOOK / path).resolve().read_text("utf-8")
        wanted = re.search(r":pyobject: (\S+)", options)
        if wanted:
            nodes = ast.parse(source).body
            for part in wanted[1].split("."):
                (node,) = (n for n in nodes if getattr(n, "name", None) == part)
                nodes = getattr(node, "body", [])
            source = ast.get_source_segment(source, node) + "\n"
        return f"```python\n{source}```"

    def away(self, words: str, target: str, page: str) -> str:
        """A link to the published book."""
        return f"[{words}]({site()}{'notebooks' if page.startswith('../') else 'book'}/{Path(page).name}.html{target})"

    def role(self, found: re.Match) -> str:
        """A role as the other book has it."""
        name, inside = found.groups()
        parts = re.fullmatch(r"(.*?)\s*<(.+)>", inside, re.S)
        words, target = parts.groups() if parts else ("", inside)
        if name.startswith("cite"):
            self.keys |= {key.strip() for key in inside.split(",")}
        elif name == "glue:text" and self.values is not None:
            return self.values[inside]
        elif name == "term":
            return words or inside
        elif name == "doc":
            return self.away(words or title_of(Path(target).name), "", target)
        elif name in ("func", "class", "mod", "meth"):
            return f"`{(words or target).lstrip('~.')}`"
        elif name in ("ref", "numref", "eq", "prf:ref") and target not in self.there:
            page = home_of(target, self.page)
            kind = {"eq": "an equation of", "numref": "a figure of", "prf:ref": "a statement of"}.get(
                name, "a section of"
            )
            return self.away(words or f"{kind} {title_of(page)}", f"#{target}", page)
        return found[0]

    def link(self, found: re.Match) -> str:
        words, page, target = found.groups()
        if not page and target[1:] in self.there | {slug(h) for h in re.findall(r"^#+ (.+)$", self.section.text, re.M)}:
            return found[0]
        return self.away(words, target or "", re.sub(r"\.(md|ipynb)$", "", page or f"{self.page}.md"))

    def text(self, text: str) -> str:
        """A text outside code, with its directives, roles and links rewritten."""
        out, at = [], 0
        for found in FENCE.finditer(text):
            out += [self.prose(text[at : found.start()]), self.fence(found)]
            at = found.end()
        return "".join([*out, self.prose(text[at:])])

    def prose(self, text: str) -> str:
        text = re.sub(r"\{([\w:]+)\}`([^`]+)`", self.role, text)
        return re.sub(r"(?<!!)\[([^\]]+)\]\(((?:\.\./notebooks/)?\w+\.(?:md|ipynb))?(#[\w-]+)?\)", self.link, text)


def bibliography(keys: set) -> str:
    """The entries of these keys. Errors: LiftError for one that the book does not have."""
    entries = re.findall(r"^@\w+\{([^,\s]+),.*?^\}$", (BOOK / "references.bib").read_text("utf-8"), re.M | re.S)
    if missing := keys - set(entries):
        raise LiftError(f"{sorted(missing)}: not in references.bib")
    whole = re.finditer(r"^@\w+\{([^,\s]+),.*?^\}$", (BOOK / "references.bib").read_text("utf-8"), re.M | re.S)
    return "\n\n".join(found[0] for found in whole if found[1] in keys) + "\n"


def lift(name: str, to: Path, myst: bool = False) -> list[str]:
    r"""Write a section of the book, "page#section", and what it needs into a folder of another one.

    Arguments: myst: the other one is a MyST project, not a Jupyter Book 1.
    Returns: what is to be said: the files, and the lines that the other book's configuration must hold.
    Errors: LiftError for a page or section that there is not, and for a page of this name that says something else.
    """
    page, _, label = name.partition("#")
    section = find(page, label)
    before = needed(section.before, section.text)
    values = numbers([*before, *cells(section.text)]) if myst and "{glue:text}" in section.text else {}
    made = Lift(page, section, values if myst else None)
    if myst and not cells(section.text):
        before = []  # they only said the numbers
    body = made.text(section.text).strip()
    body = re.sub(r"^#(#+) ", lambda m: "#" * max(2, len(m[1])) + " ", body, flags=re.M)
    setup = "".join(f"```{{code-cell}} ipython3\n:tags: [remove-cell]\n{code}```\n\n" for code in before)
    source = f"*From [{title_of(page)}]({site()}book/{page}.html#{label}) of posenc, CC BY 4.0.*"
    cited = "\n\n```{bibliography}\n:filter: docname in docnames\n```" if made.keys and not myst else ""
    text = f"{HEAD}# {made.prose(section.title)}\n\n{setup}{source}\n\n{body}{cited}\n"
    path = to / f"{page}_{label.replace('-', '_')}.md"
    if path.exists() and path.read_text("utf-8") != text:
        raise LiftError(f"{path} is there and says something else: delete it to have it anew")
    to.mkdir(parents=True, exist_ok=True)
    path.write_text(text, "utf-8", newline="\n")
    said = [f"wrote {path}"]
    for picture in made.pictures:
        (to / "_static").mkdir(exist_ok=True)
        shutil.copy(picture, to / "_static")
    config = "in myst.yml, under project" if myst else "in _config.yml"
    if made.keys:
        shared = to / "posenc.bib"
        there = shared.read_text("utf-8") if shared.exists() else ""
        old = set(re.findall(r"^@\w+\{([^,\s]+),", there, re.M))
        new = made.keys - old
        shared.write_text(there + ("\n" if there and new else "") + (bibliography(new) if new else ""), "utf-8")
        said.append(f"{config}: {'bibliography' if myst else 'bibtex_bibfiles'}: [{shared.name}], with its path")
    if made.extensions and not myst:
        said.append(f"{config}: sphinx: extra_extensions: [{', '.join(sorted(made.extensions))}]")
    listed = f"{config}, toc" if myst else "in _toc.yml"
    return [*said, f"{listed}: file: {path.name if myst else path.stem}, with its path", NEEDS]


def main(arguments=None) -> int:
    parser = argparse.ArgumentParser(prog="python -m posenc.lab.lift", description=__doc__.split(":")[0])
    parser.add_argument("section", metavar="PAGE#SECTION", help="such as rope#derivation")
    parser.add_argument("to", metavar="DIR", type=Path, help="a folder of the other book")
    parser.add_argument("--myst", action="store_true", help="for a MyST project (Jupyter Book 2): numbers as text")
    options = parser.parse_args(arguments)
    try:
        print("\n".join(lift(options.section, options.to, options.myst)))
    except LiftError as error:
        parser.error(str(error))
    return 0


if __name__ == "__main__":
    sys.exit(main())
