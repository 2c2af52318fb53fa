r"""Make one PDF of the built book, and check it: `make pdf`.

The articles of `_build/html` are joined in the contents' order into one page, which Chromium prints. So the PDF has
the site's numbers of equations, figures and exercises, its static pictures for the figures with sliders, and needs no
second build and no LaTeX. Everything folded is open. The labs stay out: they are notebooks to run, with places to fill
in; links to them, and to whatever else only the site has, lead to the published site.

`python book/pdf.py` writes `_build/posenc.pdf`, `python book/pdf.py --check` counts its
chapters and links.
"""

from __future__ import annotations

import argparse
import io
import logging
import os
import posixpath
import sys
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from bs4 import BeautifulSoup, Tag
from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject, TextStringObject

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
from site_parts import site_address  # noqa: E402

SITE = ROOT / "_build" / "html"
PDF = ROOT / "_build" / "posenc.pdf"
STYLE = Path(__file__).with_name("pdf.css")

LEFT_OUT = ("notebooks/",)
# What needs a script, or a page of its own.
DROPPED = "source, .headerlink, script, noscript, .explorable-controls, .explorable-embed, .lab-links a:not(.lab-colab)"
# Words of code in the text's own color: each would be an element in the PDF's structure, and they are most of them.
PLAIN = ".highlight span.n, .highlight span.p, .highlight span.w, .highlight span.nn, code span.pre"
REFERRING = ("for", "aria-labelledby", "aria-describedby", "aria-controls", "headers")
# A4 less the margins in pdf.css, in the browser's pixels: the page is laid out at this width before it is printed.
WIDTH, HEIGHT = 650, 971


@dataclass
class Page:
    name: str  # such as book/rope
    part: str  # the part of the contents that it stands in, "" for none
    title: str
    article: Tag

    @property
    def anchor(self) -> str:
        return self.name.replace("/", "-")


# --- joining ---------------------------------------------------------------------------------------------------------


def parse(path: Path) -> BeautifulSoup:
    if not path.is_file():
        raise SystemExit(f"{path} is not there: run `make html` first")
    return BeautifulSoup(path.read_text("utf-8"), "html.parser")


def read_site(site: Path) -> tuple[list[Page], BeautifulSoup]:
    r"""The pages in the contents' order, without the labs, and the first page as it is."""
    canonical = parse(site / "index.html").select_one("link[rel=canonical]")  # index.html repeats the first page
    root = canonical["href"].removeprefix(site_address()).removesuffix(".html") if canonical else "index"
    first = parse(site / f"{root}.html")
    listed, part = {root: ""}, ""
    for found in first.select(".bd-docs-nav .caption, .bd-docs-nav li.toctree-l1 > a"):
        if found.name != "a":
            part = found.get_text(strip=True)
        else:
            href = found["href"].split("#")[0]
            name = posixpath.normpath(posixpath.join(posixpath.dirname(root), href)) if href else root
            listed.setdefault(name.removesuffix(".html"), part)
    pages = []
    for name, part in listed.items():
        if name.startswith(LEFT_OUT):
            continue
        article = (first if name == root else parse(site / f"{name}.html")).select_one("article.bd-article")
        if article is None or article.h1 is None:
            raise SystemExit(f"{name}.html has no article with a title")
        title = "".join(text for text in article.h1.strings if "headerlink" not in (text.parent.get("class") or []))
        pages.append(Page(name, part, " ".join(title.split()), article))
    return pages, first


def new_address(href: str, page: Page, pages: dict[str, Page], site_address: str) -> str:
    r"""Where a link on a page leads in the PDF: inside it, to the published site, or where it always led."""
    parts = urllib.parse.urlsplit(href)
    if parts.scheme or parts.netloc:
        return href
    path = posixpath.normpath(posixpath.join(posixpath.dirname(page.name), parts.path)) if parts.path else ""
    target = pages.get(path.removesuffix(".html")) if path else page
    if path == "index.html":
        target = next(iter(pages.values()))
    if target:
        return f"#{target.anchor}" + (f"--{parts.fragment}" if parts.fragment else "")
    return site_address + path + (f"#{parts.fragment}" if parts.fragment else "")


def rewrite(page: Page, pages: dict[str, Page], site: Path, folder: Path, site_address: str) -> Tag:
    r"""Make a page's article fit to stand in one document with the others; `folder` is where that document will be."""
    article = page.article
    for tag in article.select(DROPPED):
        tag.decompose()
    for tag in article.find_all(id=True):
        tag["id"] = f"{page.anchor}--{tag['id']}"
    for attribute in REFERRING:
        for tag in article.find_all(attrs={attribute: True}):
            tag[attribute] = " ".join(f"{page.anchor}--{name}" for name in tag[attribute].split())
    for tag in article.find_all("a", href=True):
        if "image-reference" in (tag.get("class") or []):  # leads to the picture that it holds
            tag.unwrap()
        else:
            tag["href"] = new_address(tag["href"], page, pages, site_address)
    for tag in article.select(PLAIN):
        tag.unwrap()
    for tag in article.find_all("img"):
        tag.attrs.pop("loading", None)
        if not tag["src"].startswith("data:"):
            src = urllib.parse.unquote(tag["src"].split("?")[0])
            file = site / posixpath.normpath(posixpath.join(posixpath.dirname(page.name), src))
            if not file.is_file():
                raise SystemExit(f"{page.name}: its picture {tag['src']} is not in {site}")
            tag["src"] = urllib.parse.quote(Path(os.path.relpath(file, folder)).as_posix())
    for tag in article.select("details:is(.above-input, .of-figure, .paperwork)"):
        tag.decompose()  # paper shows figures, not the code that draws them
    for tag in article.find_all("details"):
        tag["open"] = ""
    article["id"] = page.anchor
    article["data-page"] = page.name
    return article


def contents(pages: list[Page]) -> str:
    r"""Parts, chapters and their sections; the page numbers come when the pages are known (`Printer.print`)."""
    out, part = [], ""
    entry = '<p class="pdf-{}"><a href="#{}"><span>{}</span><span class="pdf-number">0</span></a></p>'
    for page in pages:
        if page.part != part:
            part = page.part
            out.append(f'<p class="pdf-part">{escape(part)}</p>')
        out.append(entry.format("chapter", page.anchor, escape(page.title)))
        for heading in page.article.select("h2"):
            section = heading.find_parent("section")
            if section and section.get("id"):
                label = " ".join(heading.get_text().split())
                out.append(entry.format("section", section["id"], escape(label)))
    return "\n".join(out)


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace('"', "&quot;")


def running_heads(pages: list[Page]) -> str:
    r"""A named page for each chapter: it starts on a new sheet and carries its title on top."""
    rule = '#{0} {{ page: {0} }}\n@page {0} {{ @top-right {{ content: "{1}" }} }}\n'
    return "".join(rule.format(page.anchor, page.title.replace('"', "”").replace("\\", "")) for page in pages)


def join(site: Path = SITE, folder: Path = PDF.parent) -> tuple[str, list[Page]]:
    r"""(the book as one HTML page to be written into `folder`, its pages in order)."""
    pages, first = read_site(site)
    named = {page.name: page for page in pages}
    address = site_address()
    for page in pages:
        rewrite(page, named, site, folder, address)
    footer = first.select_one(".bd-footer-content, footer.bd-footer")
    said = footer.find_all("p") if footer else []
    for tag in [link for p in said for link in p.find_all("a") if link.get_text().startswith("Report a mistake")]:
        tag.next_sibling.extract() if tag.next_sibling else None
        tag.decompose()
    brand = first.select_one(".logo__title")
    title = escape(brand.get_text(strip=True) if brand else pages[0].title)
    static = Path(os.path.relpath(site / "_static", folder)).as_posix()
    imprint = "\n".join(str(p) for p in said)
    articles = "\n".join(str(page.article) for page in pages)
    return (
        f"""<!doctype html>
<html lang="en" data-theme="light" data-mode="light">
<head>
<meta charset="utf-8">
<title>{title}</title>
<meta name="author" content="The posenc authors">
<link rel="stylesheet" href="{static}/book.css">
<link rel="stylesheet" href="{static}/math.css">
<style>
{STYLE.read_text("utf-8")}
{running_heads(pages)}
</style>
</head>
<body>
<div class="pdf-title">
<p class="pdf-book">{title}</p>
{imprint}
<p>The same text with figures that move, and the labs: <a href="{address}">{address}</a></p>
</div>
<div class="pdf-contents">
<h1>Contents</h1>
{contents(pages)}
</div>
<main class="bd-main"><div class="bd-content"><div class="bd-article-container">
{articles}
</div></div></main>
</body>
</html>
""",
        pages,
    )


# --- printing --------------------------------------------------------------------------------------------------------

# Tables and formulas that are wider than the page are set smaller, down to about half; the check finds what still is.
# A cell's lines stay whole where that costs a table no more than a fifth of its size. What is not too long stays on one
# page, a fold's table with the fold's title.
FIT = """() => {
  for (const e of document.querySelectorAll(".bd-article table, .bd-article math[display=block]")) {
    const box = e.closest(".pst-scrollable-table-container, .math, td, li, .admonition, section") || e.parentElement;
    const style = getComputedStyle(box);
    const room = box.clientWidth - parseFloat(style.paddingLeft) - parseFloat(style.paddingRight);
    const width = () => e.tagName === "math" ? Math.max(e.scrollWidth, e.lastElementChild.getBoundingClientRect().width)
                                             : e.getBoundingClientRect().width;
    if (e.tagName === "TABLE") {
      e.style.whiteSpace = "nowrap";
      if (width() > room / 0.8) e.style.whiteSpace = "";
    }
    const wide = width();
    if (wide > room + 0.5) e.style.zoom = Math.max(0.55, Math.floor((room / wide) * 98) / 100);
  }
  for (const e of document.querySelectorAll(".cell_input, .cell_output, pre, table, .admonition, details"))
    if (e.offsetHeight < (e.matches("details:has(table)") ? 600 : 330)) e.style.breakInside = "avoid";
}"""

FILL = """(where) => {
  for (const a of document.querySelectorAll(".pdf-contents a"))
    a.lastElementChild.textContent = where[a.getAttribute("href")] ?? "?";
}"""


HEADINGS = """() => [...document.querySelectorAll("h1, h2, h3, h4, h5, h6")]
  .map((e) => e.textContent.replace(/\\s+/g, " ").trim())"""


class Printer:
    r"""The joined page, open in Chromium as it will be printed."""

    def __init__(self, file: Path):
        self.file = file

    def __enter__(self):
        from playwright.sync_api import sync_playwright

        from posenc.lab.explore import BROWSER_ARGS, find_chromium

        self.playwright = sync_playwright().start()
        self.browser = self.playwright.chromium.launch(executable_path=find_chromium(), args=BROWSER_ARGS)
        self.page = self.browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        self.page.set_default_timeout(600_000)
        self.page.emulate_media(media="print", color_scheme="light")
        self.page.goto(self.file.as_uri())
        self.page.evaluate("document.fonts.ready")
        self.page.evaluate(FIT)
        return self

    def __exit__(self, *_):
        self.browser.close()
        self.playwright.stop()

    def print(self, to: Path) -> None:
        r"""Print twice: Chromium has no `target-counter`, so the first print tells the contents' page numbers."""
        logging.getLogger("pypdf").setLevel(logging.ERROR)  # it counts Chromium's objects and wonders
        reader = PdfReader(io.BytesIO(self.pdf(outline=False, tagged=False)))
        number = {page.indirect_reference.idnum: i for i, page in enumerate(reader.pages, 1)}
        where = {"#" + name[1:]: number[at.raw_get("/Page").idnum] for name, at in reader.named_destinations.items()}
        self.page.evaluate(FILL, where)
        writer = PdfWriter(io.BytesIO(self.pdf(outline=True, tagged=True)))
        writer.add_metadata({"/Author": "The posenc authors", "/Creator": "posenc, book/pdf.py"})
        # Chromium joins a title's lines without a space, and doubles some.
        titles = self.page.evaluate(HEADINGS)
        entries = list(walk(writer.get_outline_root()))
        if len(entries) != len(titles):
            raise SystemExit(f"the PDF's outline has {len(entries)} entries for {len(titles)} headings")
        for entry, title in zip(entries, titles):
            entry[NameObject("/Title")] = TextStringObject(title)
        part = to.with_suffix(".part")  # whoever looks meanwhile finds the last PDF, not half of this one
        writer.write(part)
        part.replace(to)

    def pdf(self, **how) -> bytes:
        return self.page.pdf(prefer_css_page_size=True, print_background=True, **how)


def make(site: Path = SITE, to: Path = PDF) -> list[Page]:
    text, pages = join(site, to.parent)
    file = to.with_suffix(".print.html")
    file.write_text(text, "utf-8")
    try:
        with Printer(file) as printer:
            printer.print(to)
    finally:
        if not os.environ.get("POSENC_KEEP"):
            file.unlink()
    return pages


def walk(entry) -> Iterator:
    r"""All entries below one of an outline."""
    child = entry.get("/First")
    while child is not None:
        child = child.get_object()
        yield child
        yield from walk(child)
        child = child.get("/Next")


# --- counting --------------------------------------------------------------------------------------------------------


def check(site: Path = SITE, pdf: Path = PDF) -> str:
    r"""Count what the PDF holds beside the site's pages; end with what is missing, or return the counts in one line."""
    if not pdf.is_file():
        raise SystemExit(f"{pdf} is not there: run `make pdf` first")
    _, pages = join(site, pdf.parent)
    reader = PdfReader(pdf)
    titles = {" ".join(entry.title.split()) for entry in reader.outline if not isinstance(entry, list)}
    problems = [
        f"{page.name}: its title {page.title!r} is not in the outline" for page in pages if page.title not in titles
    ]
    annotations = [a.get_object() for page in reader.pages for a in page.get("/Annots") or []]
    addresses = [
        a["/A"].get_object().get("/URI") if "/A" in a else None for a in annotations if a["/Subtype"] == "/Link"
    ]
    inside = addresses.count(None)
    problems += [f"a link leads to {uri}, which readers do not have" for uri in addresses if uri and "://" not in uri]
    wanted = sum(tag["href"].startswith("#") for page in pages for tag in page.article.find_all("a", href=True))
    if inside < wanted:
        problems.append(f"{wanted} links inside the book, {inside} in the PDF")
    if problems:
        raise SystemExit("\n".join(problems))
    return f"{len(reader.pages)} pages, {pdf.stat().st_size / 1e6:.1f} MB, {len(pages)} chapters, {inside} links inside"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--check", action="store_true", help="check the PDF that is there instead of making it")
    parser.add_argument("--site", type=Path, default=SITE, help="the built site (default: _build/html)")
    parser.add_argument("--pdf", type=Path, default=PDF, help="the PDF (default: _build/posenc.pdf)")
    arguments = parser.parse_args()
    if not arguments.check:
        make(arguments.site.resolve(), arguments.pdf.resolve())
        print(f"wrote {arguments.pdf}")
    else:
        print(check(arguments.site.resolve(), arguments.pdf.resolve()))
