r"""Make one PDF of the built book, and count its chapters and links: `make pdf`.

    python book/_tools/pdf.py [SITE PDF]

The articles of `_build/html` are joined in the contents' order into one page, which Chromium prints. So the PDF has
the site's numbers of equations, figures and exercises, its static pictures for the figures with sliders, and needs no
second build and no LaTeX. Everything folded is open. The labs stay out: they are notebooks to run, with places to fill
in; links to them, and to whatever else only the site has, lead to the published site.
"""

import io
import logging
import os
import posixpath
import sys
import urllib.parse
from dataclasses import dataclass
from pathlib import Path

import jinja2
from bs4 import BeautifulSoup, Tag
from pypdf import PdfReader, PdfWriter
from pypdf.generic import NameObject, TextStringObject

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book" / "_ext"))
from site_parts import site_address  # noqa: E402

SITE = ROOT / "_build" / "html"
PDF = ROOT / "_build" / "posenc.pdf"

# What needs a script, or a page of its own.
DROPPED = "source, .headerlink, script, noscript, .explorable-controls, .explorable-embed, .lab-links a:not(.lab-colab)"
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

    @property
    def sections(self) -> list[tuple[str, str]]:
        r"""[(its id, its title), ...] of the page's sections."""
        headings = self.article.select("section[id] > h2")
        return [(heading.parent["id"], " ".join(heading.get_text().split())) for heading in headings]


# --- joining ---------------------------------------------------------------------------------------------------------


def parse(path: Path) -> BeautifulSoup:
    if not path.is_file():
        raise SystemExit(f"{path} is not there: run `make html` first")
    return BeautifulSoup(path.read_text("utf-8"), "html.parser")


def read_site(site: Path) -> tuple[list[Page], BeautifulSoup]:
    r"""The pages in the contents' order, without the labs, and the first page as it is."""
    canonical = parse(site / "index.html").select_one("link[rel=canonical]")["href"]  # it repeats the first page
    root = canonical.removeprefix(site_address()).removesuffix(".html")
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
        if name.startswith("notebooks/"):
            continue
        article = (first if name == root else parse(site / f"{name}.html")).select_one("article.bd-article")
        title = "".join(text for text in article.h1.strings if "headerlink" not in (text.parent.get("class") or []))
        pages.append(Page(name, part, " ".join(title.split()), article))
    return pages, first


def new_address(href: str, page: Page, pages: dict[str, Page]) -> str:
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
    return site_address() + path + (f"#{parts.fragment}" if parts.fragment else "")


def rewrite(page: Page, pages: dict[str, Page], site: Path, folder: Path) -> None:
    r"""Make a page's article fit to stand in one document with the others; `folder` is where that document will be."""
    article = page.article
    for tag in article.select(DROPPED):
        tag.decompose()
    for tag in article.find_all(id=True):
        tag["id"] = f"{page.anchor}--{tag['id']}"
    for tag in article.find_all("a", href=True):
        if "image-reference" in (tag.get("class") or []):  # leads to the picture that it holds
            tag.unwrap()
        else:
            tag["href"] = new_address(tag["href"], page, pages)
    for tag in article.select("code span.pre"):  # each would be an element in the PDF's structure
        tag.unwrap()
    for tag in article.find_all("img"):
        tag.attrs.pop("loading", None)
        if not tag["src"].startswith("data:"):
            src = urllib.parse.unquote(tag["src"].split("?")[0])
            file = site / posixpath.normpath(posixpath.join(posixpath.dirname(page.name), src))
            tag["src"] = urllib.parse.quote(Path(os.path.relpath(file, folder)).as_posix())
    for tag in article.select("details:is(.above-input, .of-figure, .paperwork)"):
        tag.decompose()  # paper shows figures, not the code that draws them
    for tag in article.find_all("details"):
        tag["open"] = ""
    article["id"] = page.anchor
    article["data-page"] = page.name


def join(site: Path, folder: Path) -> tuple[str, list[Page]]:
    r"""(the book as one HTML page to be written into `folder`, its pages in order)."""
    pages, first = read_site(site)
    named = {page.name: page for page in pages}
    for page in pages:
        rewrite(page, named, site, folder)
    said = first.select(".bd-footer-content p")
    for link in [link for p in said for link in p.find_all("a") if link.get_text().startswith("Report a mistake")]:
        link.next_sibling.extract()
        link.decompose()
    words = {
        "title": first.select_one(".logo__title").get_text(strip=True),
        "static": Path(os.path.relpath(site / "_static", folder)).as_posix(),
        "style": Path(__file__).with_suffix(".css").read_text("utf-8"),
        "imprint": "\n".join(map(str, said)),
        "address": site_address(),
    }
    template = jinja2.Template(Path(__file__).with_suffix(".html").read_text("utf-8"), autoescape=True)
    return template.render(words, pages=pages), pages


# --- printing --------------------------------------------------------------------------------------------------------

# Tables and formulas that are wider than the page are set smaller, down to about half.
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


def write_pdf(page, to: Path) -> None:
    r"""Print a page of Playwright's twice: Chromium has no `target-counter`, so the first print tells the
    contents' page numbers. It joins the lines of the outline's titles without a space, too, and doubles some."""
    how = {"prefer_css_page_size": True, "print_background": True}
    logging.getLogger("pypdf").setLevel(logging.ERROR)  # it counts Chromium's objects and wonders
    reader = PdfReader(io.BytesIO(page.pdf(**how)))
    number = {page.indirect_reference.idnum: i for i, page in enumerate(reader.pages, 1)}
    where = {"#" + name[1:]: number[at.raw_get("/Page").idnum] for name, at in reader.named_destinations.items()}
    page.evaluate(FILL, where)
    writer = PdfWriter(io.BytesIO(page.pdf(outline=True, tagged=True, **how)))
    writer.add_metadata({"/Author": "The posenc authors", "/Creator": "posenc, book/_tools/pdf.py"})
    for entry, title in zip(entries(writer.get_outline_root()), page.evaluate(HEADINGS), strict=True):
        entry[NameObject("/Title")] = TextStringObject(title)
    writer.write(to)


def entries(entry) -> list:
    r"""All entries below one of an outline."""
    found, child = [], entry.get("/First")
    while child is not None:
        child = child.get_object()
        found += [child, *entries(child)]
        child = child.get("/Next")
    return found


def make(site: Path, to: Path) -> None:
    r"""Write the PDF of a built site."""
    from playwright.sync_api import sync_playwright

    from posenc.lab.explore import BROWSER_ARGS, find_chromium

    text, _ = join(site, to.parent)
    file = to.with_suffix(".print.html")
    file.write_text(text, "utf-8")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=BROWSER_ARGS)
        page = browser.new_page(viewport={"width": WIDTH, "height": HEIGHT}, color_scheme="light")
        page.set_default_timeout(600_000)
        page.emulate_media(media="print", color_scheme="light")
        page.goto(file.as_uri())
        page.evaluate("document.fonts.ready")
        page.evaluate(FIT)
        write_pdf(page, to)
        browser.close()
    file.unlink()


# --- counting --------------------------------------------------------------------------------------------------------


def check(site: Path, pdf: Path) -> str:
    r"""Count what the PDF holds beside the site's pages; end with what is missing, or return the counts in one line."""
    _, pages = join(site, pdf.parent)
    reader = PdfReader(pdf)
    titles = {" ".join(entry.title.split()) for entry in reader.outline if not isinstance(entry, list)}
    links = [note.get_object() for page in reader.pages for note in page.get("/Annots") or []]
    inside = sum(link["/Subtype"] == "/Link" and "/A" not in link for link in links)
    wanted = sum(len(page.article.select("a[href^='#']")) for page in pages)
    problems = [f"{page.title!r} is not in the outline" for page in pages if page.title not in titles]
    problems += [f"{wanted} links inside the book, {inside} in the PDF"] if inside < wanted else []
    if problems:
        raise SystemExit("\n".join(problems))
    return f"{len(reader.pages)} pages, {pdf.stat().st_size / 1e6:.1f} MB, {len(pages)} chapters, {inside} links inside"


if __name__ == "__main__":
    of = [Path(argument).resolve() for argument in sys.argv[1:]] or [SITE, PDF]
    make(*of)
    print(check(*of))
