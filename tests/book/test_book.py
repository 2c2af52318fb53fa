"""What can be checked in the book's text without building it: one test a page, with all rules in it."""

import ast
import builtins
import inspect
import re
import sys
from pathlib import Path

import numerals
import pybtex.database
import pytest
import torch
import yaml

import posenc
from posenc.chapters.four_places import figures as four_places
from posenc.chapters.kernels import facts as kernels
from posenc.lab.experiments import load_results
from posenc.lab.titles import TITLES

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
sys.path[:0] = [str(BOOK / "_tools"), str(BOOK / "_ext")]
import docstrings  # noqa: E402
import predict  # noqa: E402
import references  # noqa: E402

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
IN_TOC = [TOC["root"], *(chapter["file"] for part in TOC["parts"] for chapter in part["chapters"])]
PAGES = [ROOT / f"{name}.md" for name in IN_TOC if name.startswith("book/")]
CHAPTERS = {row.page for row in TITLES.values()}
# A first reading of 1,500 words at most, a card, questions; the rest under one heading.
ARC = (
    "A failure that asks for it", "The idea", "Derivation", "Predict, then touch", "By hand",
    "The code", "One verdict", "The card", "Check yourself", "Second reading",
)  # fmt: skip
HIDDEN = {"remove-cell", "remove-input", "hide-cell", "hide-input"}


def blocks(text, kind):
    r"""The (argument, body) of every directive of this kind: [("...", "..."), ...]."""
    pattern = rf"^(?P<fence>`{{3,}}|:{{3,}})\{{{kind}\}}(?P<argument>.*)\n(?P<body>(?:.*\n)*?)(?P=fence)\s*$"
    return [(m["argument"].strip(), m["body"]) for m in re.finditer(pattern, text, re.M)]


def cells(text):
    r"""(whether its code is hidden, its code) of every code cell: [(True, "import ..."), ...]."""
    for _, body in blocks(text, "code-cell"):
        header = re.match(r"---\n(?:.*\n)*?---\n|(?::.*\n)*", body)[0]
        tags = re.search(r"^:?tags: *\[(.*)\]", header, re.M)
        yield bool(tags and HIDDEN & set(re.findall(r"[\w-]+", tags[1]))), body[len(header) :]


def headings(text, level):
    r"""Headings of a level, outside of code."""
    text = re.sub(r"^(`{3,}).*\n(?:.*\n)*?\1\s*$", "", text, flags=re.M)
    return re.findall(rf"^{'#' * level} (.+?)\s*$", text, re.M)


def bound(tree):
    r"""Every name that a cell binds, at any depth: assigned, imported, defined, or taken as an argument."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
            yield node.id
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.ExceptHandler):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.alias):
            yield (node.asname or node.name).split(".")[0]


def missing_names(text):
    r"""Names that visible cells take from hidden ones."""
    known, missing = set(dir(builtins)), set()
    for hidden, code in cells(text):
        if not hidden:
            tree = ast.parse(code)
            known |= set(bound(tree))
            missing |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - known
    return sorted(missing)


def chapter_faults(text):
    r"""What a chapter of a method lacks."""
    own = headings(text, 2)
    if own != [name for name in ARC if name in own or name != "Predict, then touch"]:
        yield f"headings {own}, not {ARC}"
    idea = text[text.index(f"## {ARC[1]}") : text.index(f"## {ARC[2]}")]
    if not blocks(idea, "explorable") + blocks(idea, "live"):
        yield "nothing to touch before the derivation"
    if len(re.findall(r"\*\*[a-z]", text[: text.index(f"## {ARC[0]}")])) < 3:
        yield "the opening box has not three verbs in bold"
    for kind in ("prf:theorem", "prf:proof", "literalinclude", "explorable"):
        if not blocks(text, kind):
            yield f"no {kind}"
    broken = re.search(r"^(##+) Break it$(.*?)(?=^\1 |\Z)", text, re.M | re.S)
    if len(blocks(text, "exercise")) < 3 or not broken or "assert " not in broken[2]:
        yield "fewer than three exercises, or nothing that breaks"


def box_faults(text):
    r"""What is wrong with a page's questions."""
    places = [match.start() for match in re.finditer(r"^`{3,}\{explorable\}", text, re.M)]
    for start, end in zip([0, *places], places):
        boxes = [*blocks(text[start:end], "admonition"), *blocks(text[start:end], "predict")]
        if not any("?" in body for _, body in boxes):
            yield f"no question before the explorable at line {text[:end].count(chr(10)) + 1}"
    right = []
    for _, body in blocks(text, "predict"):
        option = re.match(r":show: (.+)\n", body)
        if option:
            figure, _ = predict.shown(option[1].strip('"'))
            after = text[text.index(body) :]
            if figure not in re.findall(r"^`{3,}\{(?:explorable|live)\} (\S+)", after, re.M)[:2]:
                yield f"{figure} does not follow the box that shows it"
        right.append(predict.read(body[option.end() if option else 0 :].rstrip().split("\n")).right)
    if len(right) > 2 and len(set(right)) == 1:
        yield "the right answer is always at the same place"
    first, _, _ = text.partition("\n## Second reading\n")
    _, check, questions = first.partition("\n## Check yourself\n")
    if check and len(re.findall(r"^`{3,}\{(?:dropdown|admonition)\}", questions, re.M)) != 5:
        yield "not five questions under 'Check yourself'"


def faults(page):
    r"""What is wrong with a page's text, a line each."""
    text = page.read_text("utf-8")
    if len(headings(text, 1)) != 1 or headings(text, 5):
        yield "not one title, or headings five deep"
    yield from box_faults(text)
    yield from chapter_faults(text) if numerals.called(page) in CHAPTERS else ()
    for argument, body in blocks(text, "literalinclude"):
        wanted = re.search(r"^:pyobject: ([\w.]+)$", body, re.M)
        if not wanted or ":lines:" in body:
            yield f"{argument} is included by line number: name a function by :pyobject:"
    hidden = "".join(code for hides, code in cells(text) if hides)
    if sum(bool(line.strip()) for line in hidden.split("\n")) > 30:
        yield "more than 30 hidden lines: name them in facts.py"
    if names := missing_names(text):
        yield f"{names} of hidden cells: import or compute them where the reader sees it"
    yield from (f"line {line}: {value} in {words!r}" for line, value, words in numerals.unexplained(page))
    titles = [title for title, _ in blocks(text, "exercise")]
    if titles and any(BOOK.glob("*/solutions.md")):  # a teacher's kit has all of them, or none
        solutions = page.with_name("solutions.md").read_text("utf-8").lower()
        plain = [re.sub(r"^(On paper|In code|Open): | \([a-z ,]+\)$", "", title).lower() for title in titles]
        if without := [title for title in plain if not title or f"## {title}" not in solutions]:
            yield f"exercises without a title or a solution: {without}"


@pytest.mark.parametrize("page", PAGES, ids=numerals.called)
def test_a_page_keeps_the_rules(page):
    assert list(faults(page)) == []


def test_no_solution_in_what_readers_get():
    leak = re.compile(r"\{solution|solution-(start|end)|BEGIN SOLUTION|BEGIN HIDDEN TESTS|:class:.*\bdropdown\b")
    for path in [*PAGES, *(ROOT / "notebooks").glob("*.ipynb")]:
        found = leak.search(path.read_text("utf-8"))
        assert not found, f"{path.name}: {found[0]}"


SOLVED = [path for path in BOOK.glob("*/solutions.md") if "```python\n" in path.read_text("utf-8")]


@pytest.mark.parametrize("path", SOLVED, ids=lambda path: path.parent.name)
def test_the_code_of_solutions_runs(path):
    """What it asserts holds. What goes on from a page's own code is left out."""
    names = {}
    for block in re.findall(r"^ *```python\n(.*?)^ *```$", path.read_text("utf-8"), re.M | re.S):
        if "import " in block and "judge_code" not in block:
            with torch.enable_grad():  # whatever a block sets
                exec(compile(block, path.name, "exec"), names)


def test_the_diagrams_are_those_that_the_script_draws(tmp_path):
    four_places.write(tmp_path)
    for path in tmp_path.iterdir():
        assert path.read_text("utf-8") == (BOOK / "_static" / path.name).read_text("utf-8"), path.name


def test_every_cell_that_needs_triton_is_frozen():
    text = "".join((BOOK / page / "index.md").read_text("utf-8") for page in kernels.PAGES)
    assert re.findall(rf"^{kernels.MARK}(.*)", text, re.M) == list(load_results("kernels_page")["outputs"]), (
        "run python book/_tools/freeze.py"
    )


def test_sources_are_cited_and_can_be_found():
    sources = pybtex.database.parse_file(str(BOOK / "references.bib"), "bibtex").entries
    texts = [page.read_text("utf-8") for page in [*PAGES, ROOT / "book/sheet/facts.py"]]
    cited = {
        key.strip()
        for text in texts
        for keys in re.findall(r"\{cite[:\w]*\}`([^`]+)`", text)
        for key in keys.split(",")
    }
    assert cited == set(sources)
    for key, entry in sources.items():
        assert entry.persons.get("author") and entry.fields["title"] and re.fullmatch(r"\d{4}", entry.fields["year"]), (
            key
        )
        assert set(entry.fields) & {"url", "doi", "journal"}, key
    labels = list(references.AuthorYearLabels().format_labels(list(sources.values())))
    assert len(set(labels)) == len(labels) and "Press et al., 2022" in labels


def test_allowed_numerals_are_still_there_and_have_reasons():
    pages = {numerals.called(page): page for page in PAGES}
    for page, value, words, reason in numerals.allowed():
        found = list(numerals.numerals(pages[page].read_text("utf-8")))
        assert any(value == v and words in sentence for _, v, sentence in found), (page, value, words)
        assert len(reason) > 5


#: Helpers between modules, which no reader calls.
UNLISTED = {"ladder", "at_queries", "check_log_forget", "sums", "reflections"}
UNLISTED |= {"steps", "turn", "cos_sin", "skew", "turn_blocks", "rotations_of", "block_sizes"}


def test_the_api_page_lists_every_public_name():
    api = [(BOOK / "api.md").read_text("utf-8")]
    docstrings.write_methods(None, "book/api", api)
    expected = {f"posenc.{name}" for name in posenc.__all__ if not inspect.ismodule(getattr(posenc, name))}
    for name in [*(name for name in posenc.METHODS if name != "nope"), "scaling", "bridges"]:
        module = getattr(posenc, name)
        functions = [f for f, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__]
        expected |= {f"posenc.{name}.{f}" for f in functions if f not in UNLISTED and not f.startswith("_")}
    documented = re.findall(r"^\.\. auto(?:function|class):: ([\w.]+)$", api[0], re.M)
    assert expected - {"posenc.METHODS"} - set(documented) == set()


def test_a_docstring_is_laid_out():
    text = """Add |i - j| times m_h.

    Arguments:
        x, y: [B, T],
            on one line; see `table`.
    Errors: TypeError naming the argument;
    ValueError too. Paper: arXiv 2108.12409. Chapter: ALiBi.
    """
    markup = docstrings.convert(inspect.cleandoc(text).split("\n"))
    assert "Add \\|i - j\\| times m\\_h." in markup, "signs of formulas are no markup"
    assert "- ``x``, ``y``: [B, T], on one line; see ``table``." in markup
    assert any(line.startswith(":Errors:") and line.endswith("ValueError too.") for line in markup)
    assert all(
        any(link in line for line in markup) for link in ("<https://arxiv.org/abs/2108.12409>", "</book/alibi/index>")
    )
