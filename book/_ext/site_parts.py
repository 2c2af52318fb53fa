r"""What the whole site needs: lab links, descriptions, footers, repairs, a page for lost readers.

`{lab} rope` renders one line with the lab's two links, "Open the lab in Colab" and "Read the lab here". The address
comes from `[tool.posenc]` in `pyproject.toml`, which is the only place that knows it; a page writes {{repository}},
{{ref}} and {{site}}.
"""

import datetime
import functools
import html
import os
import re
import subprocess
import time
import urllib.parse
from pathlib import Path

import jinja2
from bs4 import BeautifulSoup
from bundle import moved_up
from docutils import nodes
from sphinx.application import Sphinx
from sphinx.errors import ExtensionError
from sphinx.util.docutils import SphinxDirective

from posenc.lab.write import ROOT, project

PICTURE = "_static/screenshot.png"  # what a shared link shows
MOVED = Path(__file__).parent / "templates" / "moved.html"


# --- the repository's address ----------------------------------------------------------------------------------------


def site_address() -> str:
    r"""Where the site is published: GitHub Pages of the repository."""
    owner, name = project()["repository"].split("/")
    return f"https://{owner}.github.io/{name}/"


def set_base(app: Sphinx, config) -> None:
    r"""Sphinx writes a canonical link on every page then, and reads all pages again where the address has changed."""
    config.html_baseurl, config.posenc_address = site_address(), "{repository}@{ref}".format(**project())


def fill_address(app: Sphinx, docname: str, source: list[str]) -> None:
    r"""Write the address where a page leaves a place for it."""
    for name, said in (project() | {"site": site_address()}).items():
        source[0] = source[0].replace(f"{{{{{name}}}}}", said)


class LabDirective(SphinxDirective):
    r"""One line with the links of a lab."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        lab = self.arguments[0]
        if not re.fullmatch(r"[a-z0-9_]+", lab):
            raise self.error(f"lab {lab!r}: write the name of a notebook, such as rope")
        place = "{repository}/blob/{ref}".format(**project())
        colab = f"https://colab.research.google.com/github/{place}/notebooks/{lab}.ipynb"
        text = f"[Open the lab in Colab]({colab}){{.lab-link .lab-colab}}"
        if f"notebooks/{lab}" in self.env.found_docs:
            text += f" {{doc}}`Read the lab here </notebooks/{lab}>`"
        [line] = self.parse_text_to_nodes(text)
        line["classes"].append("lab-links")
        return [line]


# --- repairs of the stock pages --------------------------------------------------------------------------------------


def shortened(text: str, longest: int = 160) -> str:
    r"""The first whole sentences of a text; where the first is too long, its first words."""
    if len(text) <= longest:
        return text
    ends = [found.end() for found in re.finditer(r"[.?!][”’)]?(?= [“‘(]?[A-Z])", text[: longest + 2])]
    if ends and ends[-1] >= 40:
        return text[: ends[-1]]
    return text[: longest - 2].rsplit(" ", 1)[0].rstrip(",;:–—") + " …"


def describe(app: Sphinx, pagename, templatename, context, doctree) -> None:
    r"""Say what a page is about to search engines and to those who share its address: its first sentences in words."""
    paragraphs = doctree.findall(nodes.paragraph) if doctree else ()
    plain = (p.astext() for p in paragraphs if isinstance(p.parent, nodes.section) and "\\" not in p.astext())
    text = next((" ".join(words.split()) for words in plain if len(words) > 60), context.get("title") or pagename)
    said = html.escape(shortened(text))
    tags = [f'<meta name="description" content="{said}">']
    if doctree:
        title = html.unescape(re.sub(r"<[^>]+>", "", context["title"]))
        preview = {
            "title": html.escape(title),
            "description": said,
            "type": "article",
            "url": context["pageurl"],
            "site_name": html.escape(app.config.html_title),
            "image": site_address() + PICTURE,
        }
        tags += [f'<meta property="og:{name}" content="{value}">' for name, value in preview.items()]
        tags.append('<meta name="twitter:card" content="summary">')
    # The theme's own layout has a viewport already.
    before = re.sub(r'<meta name="viewport"[^>]*>\s*', "", context.get("metatags", ""))
    context["metatags"] = before + "".join(f"\n    {tag}" for tag in tags)


@functools.cache
def built() -> tuple[datetime.datetime, str]:
    r"""(time of this build, commit or "" outside a checkout); SOURCE_DATE_EPOCH sets the time."""
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    now = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return now, found.stdout.strip() if found.returncode == 0 else ""


def sign(app: Sphinx, pagename, templatename, context, doctree) -> None:
    r"""Give the footer (templates/book-footer.html) what it says."""
    now, commit = built()
    repository = f"https://github.com/{project()['repository']}"
    title = urllib.parse.quote(f"Mistake on {pagename}")
    context.update(
        built=f"{now:%B} {now.day}, {now.year}",
        built_iso=now.strftime("%Y-%m-%dT%H:%MZ"),
        commit=commit,
        repository_address=repository,
        report_address=f"{repository}/issues/new?title={title}",
    )


def unique_ids(body: str) -> str:
    r"""Each id once: the later ones go, no link ever led there. sphinx-proof and sphinx-exercise repeat theirs."""
    seen = set()

    def once(found: re.Match) -> str:
        again = found[2] in seen
        seen.add(found[2])
        return found[1] if again else found[0]

    return re.sub(r'(<[a-zA-Z][^<>]*?)\sid="([^"]*)"', once, body)


def mend_markup(app: Sphinx, pagename, templatename, context, doctree) -> None:
    r"""Docutils gives a list of citations entries of a role that is no longer used; it calls an empty corner of a table
    a heading; MyST-NB gives folded code a name that is not the words it shows; and Pygments marks also the words of
    code that have no color, a sixth of a long page's bytes. Code that draws a figure is named as such, for paper."""
    body = (context.get("body") or "").replace('role="doc-biblioentry"', 'role="listitem"')
    body = body.replace('<summary aria-label="Toggle hidden content">', "<summary>")
    drawing = r'<details class="(sd-[^"]*)"([^>]*>\s*<summary(?:(?!</summary>).)*?>The code of this figure<)'
    body = re.sub(drawing, r'<details class="\1 of-figure"\2', body, flags=re.DOTALL)
    body = re.sub(r'<span class="(?:mf|mi|n|nn|o|p|sa|si|w)">([^<]*)</span>|<span></span>', r"\1", body)
    context["body"] = unique_ids(re.sub(r'<th class="head[^"]*">(?:<p></p>|\s)*</th>', "<td></td>", body))


# --- the list of chapters --------------------------------------------------------------------------------------------


def chapters(toctree: str, pagename: str) -> str:
    r"""The side bar's list: parts fold, chapters have numbers, a lab stands beside the chapter whose name it has."""
    tree = BeautifulSoup(toctree, "html.parser")

    def name(link) -> str:
        page = pagename if link["href"] == "#" else link["href"].removesuffix(".html")
        return page.removesuffix("/index").split("/")[-1]

    labs = {}
    for link in tree.select("li > a"):
        if link.get_text().startswith("Lab: "):
            link.parent.extract()
            labs[name(link)] = link
    count = 0
    for caption in tree.select("p.caption"):
        part = caption.find_next_sibling("ul")
        title = caption.get_text(strip=True)
        for link in part.select("li > a"):
            if title not in ("Reference", "Labs"):
                count += 1
                number = tree.new_tag("span", attrs={"class": "chapter-number"})
                number.string = f"{count} "
                link.insert(0, number)
            if lab := labs.pop(name(link), None):
                lab["aria-label"] = lab.get_text()
                lab["class"].append("chapter-lab")
                lab.string = "lab"
                link.insert_after(lab)
        if not part.li:
            part.decompose()
            caption.decompose()
            continue
        fold, summary = tree.new_tag("details", attrs={"open": ""}), tree.new_tag("summary")
        caption.insert_before(fold)
        caption.name = "span"
        summary.append(caption.extract())
        fold.extend([summary, part.extract()])
    if labs:
        raise ExtensionError(f"_toc.yml: the labs {', '.join(labs)} have no chapter of their name")
    return str(tree)


def arrange(app: Sphinx, pagename, templatename, context, doctree) -> None:
    r"""Hand the side bar's template the list as it shall be. Runs behind the theme, which makes it."""
    made = context.get("generate_toctree_html")
    if made:
        context["generate_toctree_html"] = functools.cache(
            lambda **how: chapters(str(made(**how)), pagename)  # asked as the theme asks, which keeps what it made
        )


# --- for readers who are lost ----------------------------------------------------------------------------------------


def lost(app: Sphinx):
    r"""The page that GitHub Pages shows where it has none."""
    home = f"{app.config.root_doc}.html"
    body = f"""<section id="no-such-page"><h1>There is no page here</h1>
<p>The address is wrong, or the page has moved. You can
<a href="{home}">go to the book’s first page</a>, <a href="search.html">search the book</a>
or look in the <a href="genindex.html">index</a>. The contents list every chapter.</p></section>"""
    said = {"title": "There is no page here", "body": body, "pageurl": None}
    yield "404", said | {"metatags": '\n    <meta name="robots" content="noindex">'}, "page.html"


def finish(app: Sphinx, error: Exception | None) -> None:
    r"""The lost readers' page stands at any depth, so its addresses begin at the host; old addresses lead on."""
    if error or app.builder.format != "html":
        return
    out, base = Path(app.outdir), site_address()
    folder = urllib.parse.urlsplit(base).path
    page = (out / "404.html").read_text("utf-8")
    page = moved_up(page, folder).replace('data-content_root="./"', f'data-content_root="{folder}"')
    (out / "404.html").write_text(page, "utf-8")
    folders = (name.removesuffix("/index") for name in app.env.found_docs if name.endswith("/index"))
    moved = {f"{name}.html": f"{name.split('/')[-1]}/index.html" for name in folders}
    olds = {"clock": ["clock.two_hands", "intro.two_hands"], "gates.cope": ["cope.gates"]}
    olds |= {"gates.fox": ["fox.gates", "fox.alibi"]}
    moved |= {f"embed/{old}.html": f"{new}.html" for new, those in olds.items() for old in those}
    template = jinja2.Template(MOVED.read_text("utf-8"), keep_trailing_newline=True)
    for old, to in moved.items():
        (out / old).write_text(template.render(to=to), "utf-8")


def setup(app: Sphinx) -> None:
    app.add_config_value("comments_config", {}, "")  # Jupyter Book sets it even where sphinx_comments is left out
    app.add_config_value("posenc_address", "", "env")
    app.add_directive("lab", LabDirective)
    app.connect("config-inited", set_base)
    app.connect("source-read", fill_address)
    app.connect("html-page-context", describe)
    app.connect("html-page-context", sign)
    app.connect("html-page-context", mend_markup)
    app.connect("html-page-context", arrange, priority=600)
    app.connect("html-collect-pages", lost)
    app.connect("build-finished", finish, priority=950)  # after bundle.py
