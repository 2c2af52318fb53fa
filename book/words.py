r"""First uses of the glossary's words that don't lead there.

    python book/words.py [PAGE ...] [--write]

On each page the first use of a word of *Notation*'s glossary is a link, `{term}`. What counts is prose: no heading,
code, formula, link, title of a box, answer to press or option of a directive. With --write first uses become links.
"""

import re
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from symbols import pages

BOOK = Path(__file__).resolve().parent
#: Words of the glossary that are everyday words, too: a page links those that it means.
EVERYDAY = (
    "absolute audit band base bias block bucket cache carry clip context control cut embedding encoding fade "
    "fallback frequency fused gain generator grid hat head holds interpolation interpreter invariant kernel mixed "
    "needle offset packing padding pair penalty position primacy probe program recency register relative remainder "
    "saturated scaling score slope tie tile token tolerance variant verdict visit volume window"
).split()
#: Names of methods lead to their chapters.
NAMES = "ALiBi ExpoSB RoPE RSE NoPE xPos M-RoPE p-RoPE stick-breaking".split()
#: What is no prose: the header, fenced code, directives' first lines and options, headings, targets, answers to press,
#: formulas, links, roles, code, what stands in quotes.
MASKS = [
    r"\A---\n(?:.*\n)*?---\n",
    r"^( *)(`{3,})(?:\{(?:code-cell|literalinclude|glossary|figure|explorable|live|lab|eval-rst)\}.*|python)\n"
    r"(?:.*\n)*?\1\2 *$",
    r"^ *(?:`{3,}|:{3,}).*$",
    r"^ *:[\w-]+:.*$",
    r"^#.*$",
    r"^\([\w-]+\)=$",
    r"^ *- \[[ x]\] .*(?:\n  +.*)*$",
    r"\$\$[^$]*\$\$",
    r"(?<![\$\\])\$[^$]+?\$",
    r"\[[^\]\n]*\]\([^)]*\)",
    r"\{[\w:]+\}`[^`]*`",
    r"`[^`\n]*`",
    r"\"[^\"\n]*\"",
]


def terms() -> list[str]:
    r"""The glossary's words whose first use is linked, longest first."""
    text = (BOOK / "notation.md").read_text("utf-8").split("```{glossary}\n")[1].split("\n```")[0]
    words = [line for line in text.split("\n") if line and not line.startswith(" ")]
    return sorted((w for w in words if w not in (*EVERYDAY, *NAMES)), key=len, reverse=True)


def prose(text: str) -> str:
    r"""The text with blanks for all that is no prose, as long as it was."""
    for mask in MASKS:
        text = re.sub(mask, lambda hit: re.sub(r"[^\n]", " ", hit[0]), text, flags=re.M)
    return text


def first_uses(text: str) -> dict[str, re.Match]:
    r"""{word: its first use}, of words that a page's text uses before it links them, or without."""
    masked, listed, taken = prose(text), {}, []
    for word in terms():
        letters = r"\s+".join(map(re.escape, word.split()))
        pattern = rf"(?<![\w-]){letters}(?:s|es)?(?![\w-])"
        uses = (use for use in re.finditer(pattern, masked, re.I) if not any(a <= use.start() < b for a, b in taken))
        use = next(uses, None)
        link = re.search(rf"\{{term\}}`(?:[^`<]*<{re.escape(word)}>|{re.escape(word)})`", text, re.I)
        taken += [hit.span() for hit in re.finditer(pattern, masked, re.I)]
        if use and not (link and link.start() < use.start()):
            listed[word] = use
    return listed


def linked(text: str) -> str:
    r"""The text with links at the first uses of words."""
    for word, use in sorted(first_uses(text).items(), key=lambda pair: -pair[1].start()):
        said = " ".join(use[0].split())
        link = f"{{term}}`{said}`" if said == word else f"{{term}}`{said} <{word}>`"
        text = text[: use.start()] + link + text[use.end() :]
    return text


def main(arguments: list[str]) -> None:
    for page in [name for name in arguments if name != "--write"] or pages():
        path = BOOK / f"{page}.md"
        text = path.read_text("utf-8")
        for word, use in first_uses(text).items():
            print(f"{page}:{text[: use.start()].count(chr(10)) + 1}: {word}")
        if "--write" in arguments:
            path.write_text(linked(text), "utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
