r"""The first use of a glossary's word in a page's prose leads to the glossary, where the author set no link earlier."""

import re

from docutils import nodes
from sphinx import addnodes
from sphinx.application import Sphinx

#: Words of the glossary that are everyday words, too, and methods with a chapter: a page links those that it means.
LEFT = (
    "absolute audit band base bias block bucket cache carry clip context cut embedding encoding fade fallback "
    "frequency fused gain generator grid hat head interpolation interpreter invariant kernel mixed offset packing "
    "padding pair penalty position primacy probe program recency register relative remainder saturated scaling "
    "score slope tile token variant verdict visit volume window ALiBi ExpoSB RoPE RSE NoPE xPos M-RoPE p-RoPE "
    "stick-breaking"
).split()
NO_PROSE = (nodes.title, nodes.rubric, nodes.literal, nodes.FixedTextElement, nodes.math, nodes.raw, nodes.reference)
NO_PROSE += (addnodes.pending_xref, addnodes.desc, addnodes.glossary, nodes.figure)
NOT_HERE = ("book/notation", "book/errata/index", "book/api", "book/sheet/index")
QUOTED = r"“[^”]*”|\"[^\"]*\""


def is_prose(text: nodes.Text) -> bool:
    node = text.parent
    while node is not None:
        if isinstance(node, NO_PROSE) or {"predict-answers", "cell_output"} & set(node.get("classes", ())):
            return False
        node = node.parent
    return True


def link_first_uses(app: Sphinx, doctree: nodes.document) -> None:
    page = app.env.docname
    if not page.startswith("book/") or page in NOT_HERE:
        return
    source = app.env.doc2path("book/notation")
    with open(source, encoding="utf-8") as file:
        listed = file.read().split("```{glossary}\n")[1].split("\n```")[0].split("\n")
    app.env.note_dependency(source)
    words = sorted((line for line in listed if line and line[0] != " " and line not in LEFT), key=len, reverse=True)
    patterns = {}
    for word in words:
        letters = r"\s+".join(word.split())
        patterns[word] = re.compile(rf"(?<![\w-]){letters}(?:s|es)?(?![\w-])", re.I)
    linked = set()
    for node in list(doctree.findall(lambda n: isinstance(n, nodes.Text | addnodes.pending_xref))):
        if isinstance(node, addnodes.pending_xref):
            linked |= {node.get("reftarget", "").lower()} if node.get("reftype") == "term" else set()
        elif is_prose(node):
            link(node, {w: p for w, p in patterns.items() if w.lower() not in linked}, patterns, page, linked)


def link(node: nodes.Text, missing: dict, patterns: dict, page: str, linked: set) -> None:
    r"""Set links into one piece of text, and note their words in `linked`."""
    text = node.astext()
    taken = [hit.span() for hit in re.finditer(QUOTED, text)]
    links = []
    for word, pattern in patterns.items():  # longest first: a word within a longer one is no use of its own
        uses = [hit for hit in pattern.finditer(text) if not any(a <= hit.start() < b for a, b in taken)]
        taken += [hit.span() for hit in uses]
        if uses and word in missing:
            links.append((uses[0], word))
            linked.add(word.lower())
    parts, end = [], 0
    for hit, word in sorted(links, key=lambda pair: pair[0].start()):
        target = addnodes.pending_xref(
            "", refdomain="std", reftype="term", reftarget=word, refexplicit=True, refdoc=page
        )
        target += nodes.inline("", hit[0], classes=["xref", "std", "std-term"])
        parts += [nodes.Text(text[end : hit.start()]), target]
        end = hit.end()
    if parts:
        node.parent.replace(node, [*parts, nodes.Text(text[end:])])


def setup(app: Sphinx) -> None:
    app.connect("doctree-read", link_first_uses)
