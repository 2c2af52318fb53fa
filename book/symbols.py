r"""Which symbols each page uses, against the tables of *Notation*.

    python book/symbols.py [PAGE ...]

A symbol is a letter with its number of indices: $s$, $s_{ij}$ and $s_i$ are three, $s_{ij}$ and $s_{mn}$ are one, and
so are $a_{j-i}$ and $a_\delta$. Of $W$ the index itself counts, since $W_Q$ is a name. Bars and tildes change no
symbol, and words in formulas are none.

A row of *Symbols* holds on the pages that its last column names, or everywhere where that is empty; a row of *Letters
of one page* on its page. What the command lists is wrong: a symbol that no row explains, one that two rows explain,
and a letter of a page that the page does not use.
"""

import functools
import re
import sys
from collections import Counter
from pathlib import Path

BOOK = Path(__file__).resolve().parent
GREEK = (
    "alpha beta gamma delta epsilon varepsilon zeta eta theta kappa lambda mu nu xi pi rho sigma tau phi varphi psi "
    "omega Gamma Delta Theta Lambda Sigma Phi Psi Omega ell"
).split()
WORDS = r"\\(?:text\w*|operatorname|math\w+|begin|end|cite\w*|rule)\*?\s*\{[^{}]*\}"
ACCENTS = r"\\(?:tilde|bar|hat|overline|widetilde|underline)\s*(?:\{(\\?[A-Za-z]+)\})?"
CODE = r"^( *)(`{3,})(?:\{code-cell\}.*|python)\n(?:.*\n)*?\1\2\s*$"


def formulas(text: str) -> list[str]:
    r"""The formulas of a page's text, inline and displayed, outside of code."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    text = re.sub(r"`[^`\n]*`", "", re.sub(CODE, "", text, flags=re.M))
    return [a or b for a, b in re.findall(r"\$\$(.*?)\$\$|(?<![\$\\])\$([^$]+?)\$", text, re.S)]


def group(tokens: list[str], start: int) -> tuple[str, int]:
    r"""(what stands in the braces that open at `start`, or the one token there; where it ends)."""
    if start >= len(tokens) or tokens[start] != "{":
        return "".join(tokens[start : start + 1]), start + 1
    depth = 0
    for end in range(start, len(tokens)):
        depth += {"{": 1, "}": -1}.get(tokens[end], 0)
        if depth == 0:
            return "".join(tokens[start + 1 : end]), end + 1
    raise ValueError(f"a brace of {''.join(tokens)!r} stays open")


def indices(index: str) -> int:
    r"""How many indices these are: 2 for "ij" or "h, n", 1 for "j - i" or "0"."""
    if re.search(r"[-+/|]|\\\w*floor", index):
        return 1 + index.count(",")
    return len(re.findall(r"\\[A-Za-z]+|[A-Za-z]|\d+", re.sub(r"\\[,;! ]", "", index)))


def symbols(formula: str, inner: bool = True) -> list[str]:
    r"""The symbols of a formula: ["s__", "q_", "k_", "W_Q"], a bar for each index; `inner`: also those in indices."""
    formula = re.sub(ACCENTS, r" \1", re.sub(WORDS, "{}", formula))
    tokens = re.findall(r"\\[A-Za-z]+|\\.|\S", formula)
    listed, at = [], 0
    while at < len(tokens):
        name = tokens[at].lstrip("\\")
        letter = name in GREEK if tokens[at].startswith("\\") else re.fullmatch("[A-Za-z]", name)
        at += 1
        if not letter:
            continue
        index = ""
        while at < len(tokens) and tokens[at] in "_^":
            below = tokens[at] == "_"
            inside, at = group(tokens, at + 1)
            if below:
                index = inside
            if inner and not (name == "W" and below) and not re.fullmatch("[A-Z]", inside):  # $a^K$: a name, no number
                listed += symbols(inside)
        listed.append(f"W_{index}" if name == "W" and index.isalpha() else name + "_" * min(indices(index), 2))
    return listed


def used(page: str) -> Counter:
    r"""{symbol: how often a page of this name uses it}."""
    return Counter(s for formula in formulas((BOOK / f"{page}.md").read_text("utf-8")) for s in symbols(formula))


def rows(notation: str, heading: str) -> list[list[str]]:
    r"""The cells of each row of the table that stands below this heading of *Notation*, given as text."""
    below = notation.split(f"\n{heading}\n")[1].split("\n#")[0]
    lines = [line.strip()[1:-1] for line in below.split("\n") if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)] for line in lines[2:]]


def pages_named(cell: str) -> list[str]:
    r"""The pages that a cell links: ["rope", "scaling"]."""
    return re.findall(r"\{doc\}`(?:[^`<]*<)?(\w+)>?`", cell)


def named(cell: str) -> set[str]:
    r"""The symbols that a cell explains: those of its formulas, without those in their indices."""
    return {symbol for formula in formulas(cell) for symbol in symbols(formula, inner=False)}


@functools.cache
def explained(notation: str, book: tuple[str, ...]) -> tuple[set[str], dict[str, Counter], dict[str, set[str]]]:
    r"""What the text of *Notation* explains, in a book of these pages.

    Returns: (symbols that hold everywhere, {page: how many rows explain each of its own}, {page: those of its row
    among the letters of one page}).
    """
    groups = {name: pages_named(line) for name, line in re.findall(r"^\*(Pages of \w+)\*: (.*)$", notation, re.M)}
    everywhere, own, last = set(), {}, {}
    for symbol, *_, place in rows(notation, "## Symbols"):
        if not place:
            everywhere |= named(symbol)
        on = pages_named(place) + [page for name in groups if name in place for page in groups[name]]
        for page in (page for page in book if (page in on) != place.startswith("all but")):
            own.setdefault(page, Counter()).update(named(symbol))
    for page, letters in rows(notation, "### Letters of one page"):
        for name in pages_named(page):
            last[name] = named(letters)
            own.setdefault(name, Counter()).update(named(letters))
    return everywhere, own, last


def faults(page: str) -> list[str]:
    r"""What is wrong with a page's symbols: ["k: no row explains it (2 times)", ...]."""
    everywhere, own, last = explained((BOOK / "notation.md").read_text("utf-8"), tuple(pages()))
    here, uses = own.get(page, Counter()), used(page)
    unexplained = [s for s, _ in uses.most_common() if s not in everywhere and s not in here]
    twice = [s for s in sorted(here) if here[s] > 1 or s in everywhere]
    return [
        *(f"{s}: no row explains it ({uses[s]} times)" for s in unexplained),
        *(f"{s}: two rows explain it" for s in twice),
        *(f"{s}: a letter of this page that it does not use" for s in sorted(last.get(page, set()) - uses.keys())),
    ]


def pages() -> list[str]:
    r"""The pages in the book's order, without *Notation* and without the mistakes, which stand in others' letters."""
    named_there = re.findall(r"file: book/(\w+)$", (BOOK.parent / "_toc.yml").read_text("utf-8"), re.M)
    return ["intro", *(page for page in named_there if page not in ("notation", "errata"))]


def main(only: list[str]) -> None:
    for page in only or pages():
        for fault in faults(page):
            print(f"{page}: {fault}")


if __name__ == "__main__":
    main(sys.argv[1:])
