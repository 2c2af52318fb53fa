r"""How many minutes a first reading takes, written where a page asks for them: {minutes}`rope`, or the hours of several
chapters with more minutes besides, {hours}`rope alibi + 90`, or the ECTS credits that these are worth, {credits}.

A minute for 200 words or an explorable, 20 seconds for a displayed formula, 15 for a line of code and 5 for one that it
prints: an attentive reading up to "Second reading", answers included, without the time that a question or an exercise
asks for, hidden code and folds.
"""

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.docutils import SphinxRole

logger = logging.getLogger(__name__)

WORD, FORMULA, LINE, PRINTED, FIGURE = 0.3, 20, 15, 5, 60  # seconds
SHOWN = 60 * WORD  # of a table or card that a cell shows: it is looked up, not read
HIDDEN_CODE = {"tag_hide-input", "tag_remove-input", "tag_hide-cell"}
SKIPPED = {"lab-links", "predict-right", "text_plain"}


class Time(nodes.inline):
    r"""A time to be written: `of` some chapters, and `more` minutes, in a `unit`."""


class TimeRole(SphinxRole):
    def run(self) -> tuple[list[nodes.Node], list[nodes.system_message]]:
        names, _, more = self.text.partition("+")
        return [Time(self.text, of=names.split(), more=int(more or 0), unit=self.name)], []


def seconds(node: nodes.Node, unfolds: bool = False) -> float:
    r"""How long it takes to read a node up to the second reading; `unfolds`: what is folded is an answer."""
    if isinstance(node, nodes.Text):
        return WORD * sum(any(letter.isalnum() for letter in word) for word in node.split())
    if isinstance(node, nodes.math | nodes.literal | Time):
        return WORD
    if isinstance(node, nodes.math_block):
        return FORMULA
    if isinstance(node, nodes.raw | nodes.Invisible) or SKIPPED & set(node["classes"]):
        return 0
    if isinstance(node, nodes.literal_block):
        lines = sum(bool(line.strip()) for line in node.astext().split("\n"))
        return lines * (PRINTED if "output" in node["classes"] else LINE)
    if isinstance(node, nodes.figure) and "shows" in node:
        return FIGURE
    if node.get("nb_element") == "cell_code":
        return of_cell(node)
    parts = node.children
    if node.get("design_component") == "dropdown" and not unfolds:
        parts = parts[:1]
    if isinstance(node, nodes.section):
        unfolds = unfolds or node[0].astext() == "Check yourself"
    total = 0
    for part in parts:
        if isinstance(part, nodes.section) and part[0].astext() == "Second reading":
            break
        total += seconds(part, unfolds)
    return total


def of_cell(cell: nodes.Element) -> float:
    r"""The time for a cell's captions, its code and what it prints, and what else it shows."""
    total = sum(map(seconds, cell.findall(nodes.caption)))
    if not HIDDEN_CODE & set(cell["classes"]):
        total += sum(map(seconds, cell.findall(nodes.literal_block)))
    if "tag_hide-output" not in cell["classes"]:
        bundles = (node for node in cell.findall(nodes.container) if node.get("nb_element") == "mime_bundle")
        total += sum(min(SHOWN, seconds(bundle[0])) for bundle in bundles)
    return total


def minutes_of(env) -> dict[str, int]:
    r"""{page of book/: the minutes of its first reading}."""
    return {name.split("/")[1]: page["minutes"] for name, page in env.metadata.items() if "minutes" in page}


def count(app: Sphinx, doctree: nodes.document) -> None:
    name, page = app.env.docname, app.env.metadata[app.env.docname]
    page["asks"] = {asked for time in doctree.findall(Time) for asked in time["of"]}
    if name.startswith("book/"):
        page["minutes"] = round(seconds(doctree) / 60)


def find_changed(app: Sphinx, env) -> list[str]:
    r"""Pages to be written again since what they ask for has changed."""
    before, env.posenc_minutes = getattr(env, "posenc_minutes", {}), minutes_of(env)
    changed = {name for name, minutes in env.posenc_minutes.items() if minutes != before.get(name)}
    return [name for name, page in env.metadata.items() if changed & page.get("asks", set())]


def write(app: Sphinx, doctree: nodes.document, docname: str) -> None:
    known = minutes_of(app.env)
    for time in list(doctree.findall(Time)):
        if missing := [name for name in time["of"] if name not in known]:
            logger.warning("%s: %s is no chapter; write {minutes}`rope`", docname, missing, location=time)
            continue
        total = sum(known[name] for name in time["of"]) + time["more"]
        hours = total / 60  # a credit is 25 to 30
        said = {"hours": f"{hours:.1f}", "credits": f"{hours / 30:.1f} to {hours / 25:.1f}", "minutes": str(total)}
        time.replace_self(nodes.Text(said[time["unit"]]))


def setup(app: Sphinx) -> None:
    for unit in ("minutes", "hours", "credits"):
        app.add_role(unit, TimeRole())
    app.connect("doctree-read", count, priority=900)  # as paperwork.py and glossary.py leave the page
    app.connect("env-updated", find_changed)
    app.connect("doctree-resolved", write)
