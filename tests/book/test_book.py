"""What can be checked in the book's text without building it."""

import ast
import builtins
import functools
import importlib
import inspect
import itertools
import re
import sys
from pathlib import Path

import docutils.core
import docutils.parsers.rst.roles
import docutils.utils
import numerals
import pybtex.database
import pytest
import torch
import yaml

import posenc
from posenc.lab.figures import four_places, why_position

ROOT = Path(__file__).resolve().parents[2]
BOOK = ROOT / "book"
sys.path.insert(0, str(BOOK / "_ext"))
import docstrings  # noqa: E402
import references  # noqa: E402

TOC = yaml.safe_load((ROOT / "_toc.yml").read_text("utf-8"))
IN_TOC = [TOC["root"], *(chapter["file"] for part in TOC["parts"] for chapter in part["chapters"])]
PAGES = [ROOT / f"{name}.md" for name in IN_TOC if name.startswith("book/")]
CHAPTERS = sorted({BOOK / f"{method.page}.md" for method in posenc.METHODS.values()})
# A first reading of 1,500 words at most, a card, questions; the rest under one heading.
ARC = [
    "A failure that asks for it",
    "The idea",
    "Derivation",
    "Predict, then touch",
    "By hand",
    "The code",
    "One verdict",
    "The card",
    "Check yourself",
    "Second reading",
]

each_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
each_chapter = pytest.mark.parametrize("page", CHAPTERS, ids=lambda page: page.stem)


def blocks(text, kind):
    r"""The (argument, body) of every directive of this kind: [("...", "..."), ...]."""
    pattern = rf"^(?P<fence>`{{3,}}|:{{3,}})\{{{kind}\}}(?P<argument>.*)\n(?P<body>(?:.*\n)*?)(?P=fence)\s*$"
    return [(m["argument"].strip(), m["body"]) for m in re.finditer(pattern, text, re.M)]


HIDDEN = {"remove-cell", "remove-input", "hide-cell", "hide-input"}


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


# --- pages -----------------------------------------------------------------------------------------------------------


@each_page
def test_one_title_and_nothing_skipped(page):
    text = page.read_text("utf-8")
    assert len(headings(text, 1)) == 1
    assert not headings(text, 5)


@each_chapter
def test_a_chapter_has_the_arc(page):
    text = page.read_text("utf-8")
    assert headings(text, 2) == ARC
    before = text[: text.index(f"## {ARC[0]}")]
    boxes = [body for title, body in blocks(before, "admonition") if title == "In this chapter"]
    assert len(boxes) == 1
    assert len(re.findall(r"\*\*[a-z]", boxes[0])) >= 3, "three verbs in bold"
    assert re.search(r"\bminutes\b", boxes[0])


@each_chapter
def test_a_chapter_proves_shows_breaks_and_asks(page):
    text = page.read_text("utf-8")
    assert blocks(text, "prf:theorem") and blocks(text, "prf:proof")
    assert blocks(text, "literalinclude")
    assert blocks(text, "explorable")
    assert len(blocks(text, "exercise")) >= 3
    broken = re.search(r"^(##+) Break it$(.*?)(?=^\1 |\Z)", text, re.M | re.S)[2]
    cells = [body for _, body in blocks(broken, "code-cell")]
    assert cells and any("assert " in cell for cell in cells)


@pytest.mark.parametrize("page", [page for page in PAGES if "\n## Check yourself\n" in page.read_text("utf-8")])
def test_a_first_reading_can_be_checked(page):
    first = page.read_text("utf-8").split("\n## Second reading\n")[0]
    questions = first.split("\n## Check yourself\n")[1]
    assert len(re.findall(r"^`{3,}\{(?:dropdown|admonition)\}", questions, re.M)) == 5


@each_page
def test_a_question_stands_before_each_explorable(page):
    text = page.read_text("utf-8")
    places = [match.start() for match in re.finditer(r"^`{3,}\{explorable\}", text, re.M)]
    for start, end in zip([0, *places], places):
        boxes = [*blocks(text[start:end], "admonition"), *blocks(text[start:end], "predict")]
        assert any("?" in body for _, body in boxes), (
            f"no question before the explorable at line {text[:end].count(chr(10)) + 1}"
        )


@functools.cache
def defined_in(source):
    r"""The names of the functions and classes of a file."""
    tree = ast.parse(source.read_text("utf-8"))
    return {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.ClassDef))}


@each_page
def test_code_is_included_whole_and_never_by_line_number(page):
    for argument, body in blocks(page.read_text("utf-8"), "literalinclude"):
        names = defined_in((page.parent / argument).resolve())
        wanted = re.search(r"^:pyobject: ([\w.]+)$", body, re.M)
        assert wanted and wanted[1].split(".")[-1] in names, f"{argument}: {body}"
        assert ":lines:" not in body


@each_page
def test_few_lines_are_hidden(page):
    code = "".join(code for hidden, code in cells(page.read_text("utf-8")) if hidden)
    assert sum(bool(line.strip()) for line in code.split("\n")) <= 30, "name it in posenc/lab/pages, and test it there"


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


@each_page
def test_visible_cells_need_no_hidden_ones(page):
    known, missing = set(dir(builtins)), set()
    for hidden, code in cells(page.read_text("utf-8")):
        if not hidden:
            tree = ast.parse(code)
            known |= set(bound(tree))
            missing |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - known
    assert not missing, "import or compute it where the reader sees it"


# --- pictures --------------------------------------------------------------------------------------------------------


@each_page
def test_every_picture_has_words(page):
    text = page.read_text("utf-8")
    for kind in ("figure", "image"):
        for argument, body in blocks(text, kind):
            alt = re.search(r"^:?alt: *(.+)$", body, re.M)
            assert alt and len(alt[1]) > 20, f"{argument} has no alt text that says what to see"
            if "://" not in argument:
                assert (page.parent / argument).exists(), argument
    assert not re.findall(r"!\[\s*\]\(", text)


@each_page
def test_every_drawing_cell_has_words(page):
    for _, body in blocks(page.read_text("utf-8"), "code-cell"):
        if "remove-cell" in body or "remove-output" in body:
            continue
        code = re.sub(r"^---\n.*?^---\n", "", body, flags=re.M | re.S)
        if re.search(r"plt\.(subplots|figure)\(|^plot_\w+\(|^\w+\.plot_\w+\(|^\w+\.\w+_figure\(", code, re.M):
            assert re.search(r"\balt:", body), f"a drawing without alt text:\n{body[:300]}"


def test_the_diagrams_are_those_that_the_script_draws(tmp_path):
    for path in four_places.write(tmp_path):
        assert path.read_text("utf-8") == (BOOK / "_static" / path.name).read_text("utf-8"), path.name


@pytest.mark.parametrize("place", posenc.encoding.PLACES)
def test_a_lit_place_is_told_by_more_than_color(place):
    lit, dark = four_places.diagram((place,)), four_places.diagram(())
    assert lit.count('class="enter"') == 1 and lit.count('class="off"') == 3
    assert dark.count('class="enter"') == 0 and dark.count('class="off"') == 4
    assert place in four_places.title((place,))
    with pytest.raises(ValueError, match="'embedding'"):
        four_places.diagram(("embedding",))


# --- sources ---------------------------------------------------------------------------------------------------------

BIBLIOGRAPHY = pybtex.database.parse_file(str(BOOK / "references.bib"), "bibtex")
CITED = {
    key.strip(): page.stem
    for page in [*PAGES, ROOT / "posenc" / "lab" / "pages" / "sheet.py"]
    for keys in re.findall(r"\{cite(?::\w+)?\}`([^`]+)`", page.read_text("utf-8"))
    for key in keys.split(",")
}


def test_every_citation_has_a_source():
    assert {key: page for key, page in CITED.items() if key not in BIBLIOGRAPHY.entries} == {}


def test_every_source_is_cited():
    assert [key for key in BIBLIOGRAPHY.entries if key not in CITED] == []


@pytest.mark.parametrize("key", BIBLIOGRAPHY.entries)
def test_a_source_can_be_found(key):
    entry = BIBLIOGRAPHY.entries[key]
    assert entry.persons.get("author") and entry.fields["title"] and re.fullmatch(r"\d{4}", entry.fields["year"])
    assert set(entry.fields) & {"url", "doi", "journal"}, "where to find it"


def test_labels_of_sources_differ():
    labels = list(references.AuthorYearLabels().format_labels(list(BIBLIOGRAPHY.entries.values())))
    assert len(set(labels)) == len(labels)
    assert "Press et al., 2022" in labels and "Irie, 2025" in labels


# --- numbers ---------------------------------------------------------------------------------------------------------


@each_page
def test_every_number_is_computed_or_cited(page):
    assert [f"line {line}: {value} in {words!r}" for line, value, words in numerals.unexplained(page)] == []


def test_allowed_numerals_are_still_there_and_have_reasons():
    for page, value, words, reason in numerals.allowed():
        found = list(numerals.numerals((BOOK / f"{page}.md").read_text("utf-8")))
        assert any(value == v and words in sentence for _, v, sentence in found), (
            f"{page} | {value} | {words}: not there"
        )
        assert len(reason) > 5


SAMPLE = """---
title: 7
---
# Title

Loss is {glue:text}`loss` at $T = 5$ and `3` cells, `n = 4`.

It takes 12 steps. In 2017 it took 0.31 nats {cite}`someone`.
Python 3.11 and GPT-2, float32, section 3.2, key 0, pairs 3 and 4.

```{code-cell} ipython3
x = 99
```

$$
y = 88
$$

```{exercise} Counting
Take 77 keys.
```

1. First, 41 of them.

| 5 | 66 |
|---|---|

A model of 1.3 billion. It gains 11% {cite}`someone`.
"""


def test_numerals_are_found_where_nothing_vouches_for_them():
    assert [value for _, value, _ in numerals.numerals(SAMPLE)] == ["12", "41", "66"]


# --- solutions -------------------------------------------------------------------------------------------------------

LEAK = re.compile(r"\{solution|solution-(start|end)|BEGIN SOLUTION|BEGIN HIDDEN TESTS|:class:.*\bdropdown\b")


@pytest.mark.parametrize("folder", ["book", "notebooks"])
def test_no_solution_in_what_readers_get(folder):
    for path in [*(ROOT / folder).glob("*.md"), *(ROOT / folder).glob("*.ipynb")]:
        found = LEAK.search(path.read_text("utf-8"))
        assert not found, f"{path.name}: {found[0]}"


@each_page
def test_every_exercise_has_a_solution_for_instructors(page):
    titles = [title for title, _ in blocks(page.read_text("utf-8"), "exercise")]
    if titles:
        assert all(titles), "an exercise without a title"
        solutions = (ROOT / "course" / f"{page.stem}_solutions.md").read_text("utf-8").lower()
        plain = [re.sub(r"^(On paper|In code|Open): | \([a-z ,]+\)$", "", title).lower() for title in titles]
        assert [title for title in plain if f"## {title}" not in solutions] == []


# --- the API page ----------------------------------------------------------------------------------------------------

API = [(BOOK / "api.md").read_text("utf-8")]
docstrings.write_methods(None, "book/api", API)
DOCUMENTED = re.findall(r"^\.\. auto(?:function|class):: ([\w.]+)$", API[0], re.M)


def resolve(name):
    thing = posenc
    for part in name.split(".")[1:]:
        thing = getattr(thing, part) if hasattr(thing, part) else importlib.import_module(f"{thing.__name__}.{part}")
    return thing


def test_the_api_page_lists_every_public_name():
    expected = {f"posenc.{name}" for name in posenc.__all__ if not inspect.ismodule(getattr(posenc, name))}
    for name in [*(name for name in posenc.METHODS if name != "nope"), "scaling", "bridges"]:
        module = getattr(posenc, name)
        functions = [f for f, v in vars(module).items() if inspect.isfunction(v) and v.__module__ == module.__name__]
        listed = [f for f in functions if f not in UNLISTED and not f.startswith("_")]
        expected |= {f"posenc.{name}.{function}" for function in listed}
    assert expected - {"posenc.METHODS"} - set(DOCUMENTED) == set()


#: Helpers between modules, which no reader calls.
UNLISTED = {"ladder", "at_queries", "check_log_forget", "sums", "reflections"}
UNLISTED |= {"steps", "turn", "skew", "turn_blocks", "rotations_of", "block_sizes"}


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_docstring_becomes_valid_markup(name):
    thing = resolve(name)
    assert thing.__doc__, name
    markup = "\n".join(docstrings.convert(inspect.getdoc(thing).split("\n")))
    markup = re.sub(r":doc:`([^`<]+) <[^`]+>`", r"\1", markup)
    stream = []
    settings = {"report_level": 1, "halt_level": 5, "warning_stream": type("S", (), {"write": stream.append})()}
    docutils.core.publish_doctree(markup, settings_overrides=settings)
    assert stream == []


def test_a_docstring_is_laid_out():
    text = """Add |i - j| times m_h.

    y_i = a * x

    Arguments:
        x, y: [B, T],
            on one line; see `table`.
        n: a number.
    Returns: [B]
        or [T].
    Errors: TypeError naming the argument;
    ValueError too. Paper: arXiv 2108.12409. Chapter: ALiBi.
    """
    markup = docstrings.convert(inspect.cleandoc(text).split("\n"))
    assert "Add \\|i - j\\| times m\\_h." in markup, "signs of formulas are no markup"
    assert markup[markup.index("::") + 2] == "    y_i = a * x"
    assert "- ``x``, ``y``: [B, T], on one line; see ``table``." in markup
    assert ":Returns: [B] or [T]." in markup
    assert any(line.startswith(":Errors:") and line.endswith("ValueError too.") for line in markup)
    assert any("<https://arxiv.org/abs/2108.12409>" in line for line in markup)
    assert any("</book/alibi>" in line for line in markup)


# --- the shuffled sentence -------------------------------------------------------------------------------------------

BACKWARDS, SWAPPED = "man a bit dog the", "dog the bit a man"


def test_every_order_is_there_and_each_swaps_two_neighbors_of_the_one_before():
    found = list(why_position.ORDERS.values())
    assert sorted(found) == sorted(itertools.permutations(range(len(why_position.WORDS))))
    for one, other in itertools.pairwise(found):
        first, second = (n for n in range(len(one)) if one[n] != other[n])
        assert second == first + 1


@pytest.mark.parametrize("depth", [1, 2])
def test_without_position_and_mask_outputs_only_reorder(depth):
    assert all(
        why_position.changes(order, "none", "every key", depth).max() < 1e-13 for order in why_position.ORDERS.values()
    )


def test_one_causal_layer_is_blind_to_the_order_of_the_past_and_two_are_not():
    order = why_position.ORDERS[SWAPPED]
    one, two = (why_position.changes(order, "none", "past keys", depth) for depth in (1, 2))
    assert one[2:].max() < 1e-13 and one[:2].min() > 1e-2
    assert two.min() > 1e-2


def test_symmetric_alibi_cannot_tell_left_from_right_and_the_others_can():
    def change(position, mask):
        return why_position.changes(why_position.ORDERS[BACKWARDS], position, mask, 2)

    assert change("ALiBi", "every key").max() < 1e-13
    assert min(change(p, "every key").min() for p in ("sinusoidal", "RoPE")) > 1e-2
    assert min(change(p, "past keys").max() for p in why_position.POSITIONS) > 1e-2


def test_the_figure_is_what_the_model_puts_out():
    place = why_position.SENTENCES.index(SWAPPED)
    figure, readouts = why_position.shuffle.fn(sentence=place, position="none", mask="past keys", depth=1)
    traces = {trace["name"]: trace for trace in figure["data"]}
    order = why_position.ORDERS[SWAPPED]
    expected = why_position.changes(order, "none", "past keys", 1)[list(order)]  # row by row, as it is read
    found = torch.tensor(traces["change of the output"]["x"], dtype=torch.float64)
    torch.testing.assert_close(found, expected, atol=1e-10, rtol=0)
    assert traces["no change"]["y"] == [2, 3, 4] and readouts["same"] == 3  # bit, a, man
    lines = [traces[name]["y"] for name in ("the same output", "another output")]
    assert [list(zip(y[::3], y[1::3])) for y in lines] == [[(2, 2), (3, 3), (4, 4)], [(1, 0), (0, 1)]]
    assert traces["tile dog"]["y"] == [0] and traces["tile the"]["y"] == [1]


# --- verdicts --------------------------------------------------------------------------------------------------------

JUDGES = {"verdict", "judge", "ignores_far"}


def judges(page):
    r"""Whether what a page prints comes from code that judges predictions, or its text calls one a verdict."""
    names, seen = [page.stem], set()
    while names:
        module = ROOT / "posenc" / "lab" / "pages" / f"{names.pop()}.py"
        if not module.exists() or module in seen:
            continue
        seen.add(module)
        for node in ast.walk(ast.parse(module.read_text("utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module == "posenc.lab.experiments":
                if JUDGES & {alias.name for alias in node.names}:
                    return True
            elif isinstance(node, ast.ImportFrom) and node.module == "posenc.lab.pages":
                names += [alias.name for alias in node.names]
    return "not decided" in page.read_text("utf-8")


@each_page
def test_a_page_with_verdicts_links_their_words(page):
    linked = re.search(r"\{ref\}`[^`]+<verdict-words>`", page.read_text("utf-8"))
    assert linked or not judges(page), "link them at the first verdict: {ref}`... <verdict-words>`"


def test_the_words_of_a_verdict_are_all_defined():
    boxes = [body for page in PAGES for _, body in blocks(page.read_text("utf-8"), "admonition")]
    (box,) = [body for body in boxes if ":name: verdict-words" in body]
    words = {"came true", "failed", "not decided", "breaks", "holds", "ignores", "extrapolates", "suffers", "tie"}
    assert words <= set(re.findall(r"\*\*([a-z ]+)\*\*", box))
