r"""The numerals in the book's prose that no cell computed and no source vouches for; test_book asks each page.

A numeral is vouched for where it stands in code, in math, in a role such as {glue:text}`...` or {eq}`...`, in a
sentence with a citation or a paragraph that ends with one, in an exercise (there numbers are given, not claimed), or is
a year, a number of minutes in the opening box, part of a name (GPT-2, float32, Python 3.11), a reference (section 3.2)
or the name of one thing (key 0, pair 7). What is left must be listed, with a reason, in numerals_allowed.txt.
"""

import re
from pathlib import Path

ALLOWED = Path(__file__).parent / "numerals_allowed.txt"

#: Blocks whose content is not prose, or whose numbers are given rather than claimed.
SKIPPED = "code-cell|literalinclude|eval-rst|math|exercise|bibliography|mermaid"
BLOCK = rf"^ *(`{{3,}}|:{{3,}})(?:\{{(?:{SKIPPED})\}}[^\n]*|[\w-]+)\n.*?^ *\1$"
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
    for part in (r"\A---\n.*?^---$", r"\$\$.*?\$\$", BLOCK, r"\n\n```\n.*?^```$"):  # each becomes as many empty lines
        text = re.sub(part, lambda match: "\n" * match[0].count("\n"), text, flags=re.S | re.M)
    paragraph, first = [], 0
    for number, line in enumerate([*text.split("\n"), ""], 1):
        line = line.strip()
        fence = re.match(r"(?:`{3,}|:{3,})(?:\{(?:admonition|prf:\w+|grid-item[\w-]*)\} *(.*))?", line)
        alone = re.match(r"[-*]\s|\d+\.\s|\||#", line)  # an item, a row or a heading is a paragraph of its own
        if paragraph and (fence or alone or not line):
            yield first, " ".join(paragraph)
            paragraph = []
        if fence and fence[1]:
            yield number, fence[1]
        elif line and not fence and not re.match(r":[\w-]+:", line):
            first = first if paragraph else number
            paragraph.append(line)


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


def called(page):
    r"""What a page is called: its folder, or its file where it has none."""
    return page.parent.name if page.stem == "index" else page.stem


def unexplained(page):
    r"""[(line number, numeral, sentence), ...] of a page of the book that are neither vouched for nor allowed."""
    known = [(value, words) for name, value, words, _ in allowed() if name == called(page)]
    found = numerals(page.read_text(encoding="utf-8"))
    return [each for each in found if not any(each[1] == value and words in each[2] for value, words in known)]
