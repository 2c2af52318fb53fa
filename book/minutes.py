r"""How long the first reading of each chapter takes, beside what its opening box says.

    python book/minutes.py [CHAPTER ...]

A minute for 200 words, 20 seconds for a displayed formula, 15 for a line of code, a minute for an explorable: an
attentive reading, without the time that a question or an exercise asks for. The first reading is the page up to "Second
reading", or the whole page where it has no such heading.

What counts is what a reader sees, and unfolds on the way, as far as the source holds it:

- words: prose, headings, tables, captions, boxes, questions with what can be ticked, exercises. An inline formula, a
  piece of code in a sentence and a number from a cell are a word each.
- formulas: each displayed block, of one line or of several.
- lines of code: those that are not blank, of cells whose code is not hidden, of listings, and of included functions, as
  book/_ext/paperwork.py leaves them: without the long part of their docstrings. A line that a cell's own code prints
  takes a third of one; of a loop it counts once.
- explorables: and figures of their own script, `{live}`.
- more words, apart from those of the page's text, which have a limit: what a `{predict}` says below its line, and the
  answers of "Check yourself"; 20 for a sentence and 60 for a table or card of a cell, which the source does not hold,
  and for a chart in a container.

What does not: the bodies of other dropdowns; hidden cells, hidden code and what they print; what cells draw; pictures;
the lab's links, labels.
"""

import ast
import re
import sys
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parent / "_ext"))
from paperwork import parted

from posenc.lab.pages.teachers import book, names

BOOK = Path(__file__).resolve().parent
WITHIN = 0.15  # how far a box may be from the count

FENCE = re.compile(r"^ *(`{3,}|:{3,})(?:\{([\w:-]+)\})? *(.*)$")
#: Directives that only hold text, with what they say in their first line.
BOXES = {"admonition", "exercise", "prf:theorem", "prf:proof", "prf:proposition", "prf:definition", "prf:corollary"}
SENTENCE, TABLE = 20, 60  # words of what a cell says, where the source only names it
HIDDEN_CODE = {"hide-input", "remove-input", "hide-cell"}


class Count(NamedTuple):
    r"""What a first reading holds."""

    words: int = 0
    formulas: int = 0
    lines: int = 0
    explorables: int = 0
    more: int = 0
    printed: int = 0

    def plus(self, other: "Count") -> "Count":
        return Count(*(a + b for a, b in zip(self, other)))

    @property
    def minutes(self) -> float:
        words, lines = self.words + self.more, self.lines + self.printed / 3
        return words / 200 + self.formulas / 3 + lines / 4 + self.explorables

    def unfolded(self) -> "Count":
        return self._replace(words=0, more=self.words + self.more)


def prose(text: str) -> Count:
    r"""Words and displayed formulas of text that holds no directive."""
    sentences = len(re.findall(r"\{glue:text\}`\w+_(?:words|verdict|prediction)`", text))
    text, formulas = re.subn(r"\$\$.*?\$\$(?: *\([\w-]+\))?", " ", text, flags=re.S)
    text = re.sub(r"^(?:%.*|\([\w-]+\)=)$|<[^>\n]+>|^ *\|[-:| ]+\|$", " ", text, flags=re.M)
    text = re.sub(r"\]\([^)\s]*\)", "", text)  # a link's address
    text = re.sub(r"\{[\w:]+\}`[^`]*`|`[^`\n]+`|\$[^$]+\$", " x ", text)
    words = sum(any(c.isalnum() for c in word) for word in text.split())
    return Count(words, formulas, more=SENTENCE * sentences)


def shown_lines(code: str) -> Count:
    r"""The lines of code that are not blank."""
    return Count(lines=sum(bool(line.strip()) for line in code.split("\n")))


def options(body: str) -> tuple[dict, str]:
    r"""(a directive's options, what stands below them)."""
    header = re.match(r"---\n(?:.*\n)*?---\n|(?: *:[\w-]+:.*\n)*", body)[0]
    found = {key: value.strip(" \"'") for key, value in re.findall(r"^\s*:?([\w-]+): *(.*)$", header, re.M)}
    return found, body[len(header) :]


def included(argument: str, name: str) -> Count:
    r"""The lines that a page shows of a function or class of a file."""
    source = (BOOK / argument).read_text("utf-8")
    body = ast.parse(source)
    for part in name.split("."):
        body = next(node for node in body.body if getattr(node, "name", None) == part)
    first = min([body.lineno, *(decorator.lineno for decorator in body.decorator_list)])
    code = "\n".join(source.split("\n")[first - 1 : body.end_lineno])
    indent = len(code) - len(code.lstrip())
    return shown_lines(parted("\n".join(line[indent:] for line in code.split("\n")))[0])


#: Blocks that take the same time whatever they hold; of a chart in a container a reader follows a branch.
FIXED = {kind: Count(explorables=1) for kind in ("explorable", "live")}
FIXED |= {"glue:md": Count(words=1), "container": Count(more=TABLE)}


def block(kind: str | None, argument: str, body: str) -> Count:
    r"""What a fenced block shows. Errors: ValueError for a directive that no rule speaks of."""
    said, content = options(body)
    if kind is None:
        return shown_lines(body)
    if kind == "code-cell":
        tags = set(re.findall(r"[\w-]+", said.get("tags", "")))
        if "remove-cell" in tags:
            return Count()
        caption = prose(said.get("caption", ""))
        if said.get("markdown_format") and "hide-output" not in tags:
            caption = caption.plus(Count(more=TABLE))
        if tags & HIDDEN_CODE:
            return caption
        return caption.plus(shown_lines(content))._replace(printed=len(re.findall(r"\bprint\w*\(", content)))
    if kind == "literalinclude":
        return included(argument, said["pyobject"])
    if kind in FIXED:
        return FIXED[kind]
    if kind == "predict":
        question, _, answer = content.partition("\n---\n")
        return shown(question).plus(shown(answer).unfolded())
    if kind == "dropdown":
        return prose(argument)
    if kind == "answer":
        return prose(argument).plus(shown(content).unfolded())
    if kind == "figure":
        return prose(content)
    if kind in BOXES:
        return prose(argument).plus(shown(content))
    if kind in ("lab", "div"):
        return shown(content)
    raise ValueError(f"{{{kind}}}: say in book/minutes.py how long it takes to read")


def shown(text: str) -> Count:
    r"""What a piece of a page shows: its prose, and its blocks one by one."""
    total, plain, lines = Count(), [], iter(text.split("\n"))
    for line in lines:
        fence = FENCE.match(line)
        if not fence:
            plain.append(line)
            continue
        body = []
        for inner in lines:
            if re.fullmatch(rf" *{fence[1][0]}{{{len(fence[1])},}} *", inner):
                break
            body.append(f"{inner}\n")
        total = total.plus(block(fence[2], fence[3], "".join(body)))
    return total.plus(prose("\n".join(plain)))


def first_reading(text: str) -> Count:
    r"""What the first reading of a page holds, by its text."""
    text = re.sub(r"\A---\n.*?\n---\n", "", text, flags=re.S)
    first = text.split("\n## Second reading\n")[0]
    sections = first.split("\n## ")  # in "Check yourself" a dropdown is an answer
    return shown("\n## ".join(s.replace("{dropdown}", "{answer}") if s.startswith("Check") else s for s in sections))


def counts() -> dict[str, Count]:
    r"""{chapter: what its first reading holds} in the book's order."""
    return {name: first_reading((BOOK / f"{name}.md").read_text("utf-8")) for name in names()}


def main(only: list[str]) -> None:
    print(f"{'chapter':20}{'words':>7}{'formulas':>10}{'code':>6}{'figures':>9}{'more':>9}{'minutes':>9}{'box':>6}")
    for name, count in counts().items():
        if not only or name in only:
            said = book()[name].reading
            far = "  off" if abs(count.minutes - said) > WITHIN * said else ""
            columns = f"{count.words:7}{count.formulas:10}{count.lines:6}{count.explorables:9}{count.more:9}"
            print(f"{name:20}{columns}{count.minutes:9.0f}{said:6}{far}")


if __name__ == "__main__":
    main(sys.argv[1:])
