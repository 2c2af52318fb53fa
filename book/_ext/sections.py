r"""What the search page reads: every section of the book, [page, its title, id, heading, prose, code], as a script.

A script, because a browser that opens the book from disk loads no other data. search.js makes MiniSearch's index of it:
Sphinx's own knows whole pages alone, and is not made.
"""

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

from sphinx.application import Sphinx

LIBRARY = Path(__file__).resolve().parents[1] / "_vendor" / "minisearch" / "minisearch.js"
UNREAD = {"script", "style", "math", "svg", "button", "select"}  # what they hold is not said
VOID = {"area", "br", "col", "hr", "img", "input", "link", "meta", "source", "wbr"}


class Sections(HTMLParser):
    r"""A page's sections as `rows`, [id, heading, prose, code], each without those in it; names of the API, too."""

    def __init__(self) -> None:
        super().__init__()
        self.rows, self.open, self.tags, self.unread, self.code, self.heading = [], [], [], 0, 0, False

    def handle_starttag(self, tag: str, attrs: list) -> None:
        own = dict(attrs)
        if tag in VOID:
            return
        named = tag == "dt" and "sig" in (own.get("class") or "").split() and "id" in own
        if named or (tag == "section" and "id" in own):
            self.rows.append([own["id"], own["id"] if named else "", "", ""])
        if named:
            self.open[-1] = self.rows[-1]
        elif tag == "section":  # one without a name belongs to the one around it
            self.open.append(self.rows[-1] if "id" in own else self.open[-1])
        self.unread += tag in UNREAD or "headerlink" in (own.get("class") or "")
        self.code += tag == "pre"
        self.heading = self.heading or bool(re.fullmatch("h[1-6]", tag))
        self.tags.append((tag, self.unread, self.code))

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID or tag not in [name for name, *_ in self.tags]:
            return
        while self.tags.pop()[0] != tag:
            pass
        self.unread, self.code = self.tags[-1][1:] if self.tags else (0, 0)
        if tag == "section" and self.open:
            self.open.pop()
        self.heading = self.heading and not re.fullmatch("h[1-6]", tag)

    def handle_data(self, data: str) -> None:
        if not self.open or self.unread or (self.heading and not data.strip()):
            return
        self.open[-1][1 if self.heading else 3 if self.code else 2] += data


def sections(page: str) -> list[list[str]]:
    r"""[id, heading, prose, code] of each section in a page's article."""
    article = re.search(r'<article class="bd-article".*?</article>', page, re.S)
    reader = Sections()
    reader.feed(article[0] if article else "")
    return [[" ".join(part.split()) for part in row] for row in reader.rows]


def ask(app: Sphinx) -> None:
    app.builder.search = False


def page(app: Sphinx):
    yield "search", {}, "search.html"


def write(app: Sphinx, error: Exception | None) -> None:
    r"""Write _static/sections.js, from the pages as they were built."""
    if error or app.builder.format != "html":
        return
    out, rows = Path(app.outdir), []
    for path in sorted(out.glob("[bn]*/**/*.html")):
        found = sections(path.read_text("utf-8"))
        rows += [[path.relative_to(out).as_posix(), found[0][1], *row] for row in found if row[2] + row[3]]
    text = json.dumps(rows, ensure_ascii=False, separators=(",", ":"))
    (out / "_static" / "sections.js").write_text(f"const SECTIONS = {text};\n", "utf-8")
    shutil.copy(LIBRARY, out / "_static")


def setup(app: Sphinx) -> None:
    app.connect("builder-inited", ask)
    app.connect("html-collect-pages", page)
    app.connect("build-finished", write, priority=999)
