r"""What the whole site needs: lab links, descriptions and footers, an execution cache that follows the code, repairs.

`{lab} rope` renders one line with the lab's two links, "Open the lab in Colab" and "Read the lab here". The address
comes from `[tool.posenc]` in `pyproject.toml`, which is the only place that knows it.
"""

from __future__ import annotations

import datetime
import functools
import hashlib
import html
import logging
import os
import re
import shutil
import subprocess
import time
import tomllib
import urllib.parse
from pathlib import Path

import imagesize
from docutils import nodes
from explorable import sources
from jupyter_cache import get_cache
from jupyter_cache.executors import load_executor
from sphinx import addnodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

ROOT = Path(__file__).resolve().parents[2]


# --- the repository's address ----------------------------------------------------------------------------------------


def address() -> tuple[str, str]:
    r"""(repository, ref) from pyproject.toml."""
    table = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["posenc"]
    return table["repository"], table["ref"]


def colab_url(lab: str) -> str:
    repository, ref = address()
    return f"https://colab.research.google.com/github/{repository}/blob/{ref}/notebooks/{lab}.ipynb"


class LabDirective(SphinxDirective):
    r"""One line with the links of a lab."""

    required_arguments = 1

    def run(self) -> list[nodes.Node]:
        lab = self.arguments[0]
        self.env.note_dependency(str(ROOT / "pyproject.toml"))
        if not re.fullmatch(r"[a-z0-9_]+", lab):
            raise self.error(f"lab {lab!r}: write the name of a notebook, such as rope")
        here = nodes.reference("", "Open the lab in Colab", refuri=colab_url(lab), classes=["lab-link", "lab-colab"])
        line = nodes.paragraph(classes=["lab-links"])
        line += here
        if f"notebooks/{lab}" in self.env.found_docs:
            line += nodes.Text(" ")
            target = addnodes.pending_xref(
                "",
                nodes.inline("", "Read the lab here"),
                refdomain="std",
                reftype="doc",
                reftarget=f"/notebooks/{lab}",
                refexplicit=True,
                refdoc=self.env.docname,
                refwarn=True,
            )
            line += target
        return [line]


# --- repairs of the stock pages --------------------------------------------------------------------------------------


def add_noscript(app: Sphinx, pagename, templatename, context, doctree) -> None:
    r"""Hide what only works with scripts where there are none."""
    href = context["pathto"]("_static/noscript.css", resource=True)
    context["metatags"] = (
        context.get("metatags", "") + f'\n    <noscript><link rel="stylesheet" href="{href}"></noscript>'
    )


def describe(app: Sphinx, pagename, templatename, context, doctree) -> None:
    r"""Say what a page is about to search engines and to those who share its address: its first sentences in words."""
    paragraphs = doctree.findall(nodes.paragraph) if doctree else ()
    plain = (p.astext() for p in paragraphs if isinstance(p.parent, nodes.section) and "\\" not in p.astext())
    text = next((" ".join(words.split()) for words in plain if len(words) > 60), context.get("title") or pagename)
    short = text if len(text) <= 160 else text[:157].rsplit(" ", 1)[0] + " …"
    context["metatags"] = (
        context.get("metatags", "") + f'\n    <meta name="description" content="{html.escape(short)}">'
    )


@functools.cache
def built() -> tuple[datetime.datetime, str]:
    r"""(time of this build, commit or "" outside a checkout); SOURCE_DATE_EPOCH sets the time, as elsewhere."""
    seconds = float(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    now = datetime.datetime.fromtimestamp(seconds, datetime.UTC)
    found = subprocess.run(["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, text=True)
    return now, found.stdout.strip() if found.returncode == 0 else ""


def sign(app: Sphinx, pagename, templatename, context, doctree) -> None:
    r"""Give the footer (templates/book-footer.html) what it says."""
    now, commit = built()
    repository = f"https://github.com/{address()[0]}"
    title = urllib.parse.quote(f"Mistake on {pagename}")
    context.update(
        built=f"{now:%B} {now.day}, {now.year}",
        built_iso=now.strftime("%Y-%m-%dT%H:%MZ"),
        commit=commit,
        repository_address=repository,
        report_address=f"{repository}/issues/new?title={title}",
    )


def mend_markup(app: Sphinx, pagename, templatename, context, doctree) -> None:
    r"""Docutils gives a list of citations entries of a role that is no longer used; and it calls an empty corner of a
    table a heading."""
    body = (context.get("body") or "").replace('role="doc-biblioentry"', 'role="listitem"')
    context["body"] = re.sub(r'<th class="head[^"]*">(?:<p></p>|\s)*</th>', "<td></td>", body)


def size_images(app: Sphinx, pagename, templatename, context, doctree) -> None:
    r"""Fetch pictures as the reader comes near, and keep their place until then: their size stands in the page."""
    sources = {f"_images/{quoted}": Path(app.srcdir, path) for path, quoted in app.builder.images.items()}

    def mend(found: re.Match) -> str:
        tag = found[0]
        if "loading=" in tag:
            return tag
        source = sources.get(re.search(r'src="(?:\.\./)*([^"]*)"', tag)[1])
        size = imagesize.get(source) if source and "style=" not in tag and source.exists() else (-1, -1)
        place = ' width="{}" height="{}"'.format(*size) if min(size) > 0 else ""
        return f'<img loading="lazy" decoding="async"{place}{tag[4:]}'

    context["body"] = re.sub(r"<img\b[^>]*>", mend, context.get("body") or "")


# --- the execution cache ---------------------------------------------------------------------------------------------


def sources_hash() -> str:
    r"""A hash of posenc/ and results/, and of the preset that executed pages run at."""
    digest = hashlib.sha256(os.environ.get("POSENC_PRESET", "").encode())
    for path in sources():
        digest.update(path.relative_to(ROOT).as_posix().encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def key_cache(app: Sphinx, config) -> None:
    r"""Give each state of the package its own execution cache.

    jupyter-cache compares cells only, so an edit of posenc/ would leave stale outputs on the pages. The cache's path is
    a setting that belongs to the environment: when it changes, Sphinx reads every page again.
    """
    os.environ["POSENC_BOOK"] = "1"  # for the kernels: displayed explorables use the site's player
    base = Path(app.doctreedir).parent / ".execution_cache"
    kept = base / sources_hash()
    for old in base.glob("*"):
        if old != kept:
            shutil.rmtree(old, ignore_errors=True)
    kept.mkdir(parents=True, exist_ok=True)
    config.nb_execution_cache_path = str(kept)


def execute_ahead(app: Sphinx, env, docnames: list[str]) -> None:
    r"""Execute the pages that are about to be read, one on each core; Sphinx itself runs one after the other.

    What they print goes to the cache, where the reading finds it. A page that fails is left to the reading, which says
    so.
    """
    cache = get_cache(app.config.nb_execution_cache_path)
    pages = []
    for path in (str(env.doc2path(name)) for name in docnames):
        markdown = path.endswith(".md")
        if markdown and "{code-cell}" not in Path(path).read_text("utf-8"):
            continue
        how = {"type": "plugin", "name": "myst_nb_md"} if markdown else {}
        cache.add_nb_to_project(path, **({"read_data": how} if how else {}))
        pages.append(path)
    if len(pages) > 1:
        executor = load_executor("local-parallel", cache, logger=logging.getLogger(__name__))
        executor.run_and_cache(filter_uris=pages, timeout=app.config.nb_execution_timeout)


def setup(app: Sphinx) -> dict:
    app.add_config_value("comments_config", {}, "")  # Jupyter Book sets it even where sphinx_comments is left out
    app.add_directive("lab", LabDirective)
    app.connect("config-inited", key_cache)
    app.connect("env-before-read-docs", execute_ahead)
    app.connect("html-page-context", add_noscript)
    app.connect("html-page-context", describe)
    app.connect("html-page-context", sign)
    app.connect("html-page-context", size_images)
    app.connect("html-page-context", mend_markup)
    return {"version": "1", "parallel_read_safe": True, "parallel_write_safe": True}
