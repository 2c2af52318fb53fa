r"""List the numerals in the book's prose that no cell computed and no source vouches for.

    python tests/book/numerals.py [book/rope.md ...]

A numeral is vouched for where it stands in code, in math, in a role such as {glue:text}`...` or {eq}`...`, in a
sentence with a citation or a paragraph that ends with one, in an exercise (there numbers are given, not claimed), or is
a year, a number of minutes in the opening box, part of a name (GPT-2, float32, Python 3.11), a reference (section 3.2)
or the name of one thing (key 0, pair 7). What is left must be listed, with a reason, in numerals_allowed.txt.
"""

import re
import sys
from pathlib import Path

BOOK = Path(__file__).parents[2] / "book"
ALLOWED = Path(__file__).parent / "numerals_allowed.txt"

#: Blocks whose content is not prose, or whose numbers are given rather than claimed.
SKIPPED_BLOCKS = ("code-cell", "literalinclude", "eval-rst", "math", "exercise", "bibliography", "mermaid")
#: Words that a number may follow as part of a name or a reference.
NAMES = "Llama|LLaMA|Python|PyTorch|Gemma|Command|CC BY|Triton|Qwen|Mistral|Llama-3|Claude|Falcon|Phi|MPT"
REFERENCES = "sections?|equations?|eqs?[.]|tables?|figures?|fig[.]|appendix|chapters?|theorems?|exercises?|arXiv|step"
#: Nouns that a number may follow as the name of one thing: key 0, pair 7, positions 7 and 3. It counts nothing.
INDEXED = "keys?|quer(?:y|ies)|tokens?|positions?|pairs?|heads?|lanes?|rows?|layers?|buckets?|distances?|dim|bits?"
SERIES = r"\s+(?:[\d.]+(?:,| or| and| to)*\s+)*$"  # pairs 3, 4 and 5
NAMED = re.compile(rf"\b(?:{NAMES}|{REFERENCES}|{INDEXED}){SERIES}", re.I)
CITED = re.compile(r"\{cite(:\w+)?\}`")
NUMERAL = re.compile(r"(?<![\w.,/^_-])[−-]?\d[\d.,]*(?:e[−-]?\d+)?")
SENTENCE_END = re.compile(r"(?<=[.!?:])\s+(?=[A-Z*{`\[(])")
#: What a sentence is read without: roles, code, math, the targets of links, HTML.
MARKUP = re.compile(r"\{[\w:-]+\}`[^`]*`|(`+)[^`].*?\1|\$[^$]+\$|(?<=\])\([^)]*\)|<[^>]+>|https?://\S+")


def prose(text):
    r"""Yield (line number, paragraph) of a MyST page: everything but code, math blocks, options and front matter."""
    text = re.sub(r"\$\$.*?\$\$", lambda math: "\n" * math[0].count("\n"), text, flags=re.S)
    lines = text.split("\n")
    start = 0
    if lines[0] == "---":
        start = lines.index("---", 1) + 1
    fences, paragraph, first, in_options, in_yaml = [], [], 0, False, False

    for number, line in enumerate(lines[start:], start + 1):
        bare = line.strip()
        skipping = any(kind in SKIPPED_BLOCKS or kind is None for _, kind in fences)
        fence = re.match(r"(`{3,}|:{3,})(?:\{([\w:-]+)\})?(.*)$", bare)
        ends = False
        if fence and fences and not fence[2] and not fence[3].strip() and fence[1][0] == fences[-1][0][0]:
            if len(fence[1]) >= len(fences[-1][0]):
                fences.pop()
                ends = True
        elif fence and not skipping:
            fences.append((fence[1], fence[2]))
            in_options, ends = True, True
            title = fence[3].strip() if fence[2] and fence[2] not in SKIPPED_BLOCKS else ""
            if title and fence[2].startswith(("admonition", "prf", "grid-item")):
                yield number, title
        elif skipping:
            continue
        elif in_yaml or (in_options and bare == "---"):
            in_yaml = bare != "---" if in_yaml else True
            continue
        elif in_options and re.match(r":[\w-]+:", bare):
            continue
        else:
            in_options = False
            if paragraph and re.match(r"([-*]|\d+\.)\s", bare):  # a list item is a paragraph of its own
                yield first, " ".join(paragraph)
                paragraph, first = [], 0
            if bare:
                first = first or number
                paragraph.append(bare)
            ends = not bare or bare.startswith("|") or bare.startswith("#")
        if ends and paragraph:
            yield first, " ".join(paragraph)
            paragraph, first = [], 0
    if paragraph:
        yield first, " ".join(paragraph)


def numerals(text):
    r"""Yield (line number, numeral, sentence) for each numeral of a page that nothing vouches for."""
    for number, paragraph in prose(text):
        paragraph = re.sub(r"^(\d+\.|#+|\|\s*\d+\s*\|)\s", "", paragraph)  # the number of a list item or a row
        sentences = SENTENCE_END.split(paragraph)
        for sentence in sentences:
            if CITED.search(sentence) or CITED.search(sentences[-1]):
                continue
            bare = MARKUP.sub(" ", sentence)
            for match in NUMERAL.finditer(bare):
                value, before, after = match[0].rstrip(".,"), bare[: match.start()], bare[match.end() :]
                year = re.fullmatch(r"(19|20)\d\d", value)
                unit = re.match(r"[A-Za-z]|(\s+to\s+\d+)?\s+minutes?\b", after)  # 2D, 7B, 12 minutes
                if not (year or unit or NAMED.search(before)):
                    yield number, value, sentence


def allowed():
    r"""[(page, numeral, words around it, reason), ...] from tests/book/numerals_allowed.txt."""
    lines = ALLOWED.read_text(encoding="utf-8").splitlines()
    return [tuple(map(str.strip, line.split(" | "))) for line in lines if line.strip() and not line.startswith("#")]


def unexplained(page):
    r"""[(line number, numeral, sentence), ...] of a page of the book that are neither vouched for nor allowed."""
    known = [(value, words) for name, value, words, _ in allowed() if name == page.stem]
    found = numerals(page.read_text(encoding="utf-8"))
    return [each for each in found if not any(each[1] == value and words in each[2] for value, words in known)]


if __name__ == "__main__":
    for page in [Path(name) for name in sys.argv[1:]] or sorted(BOOK.glob("*.md")):
        for number, value, sentence in unexplained(page):
            print(f"{page}:{number}: {value}: {sentence[:150]}")
