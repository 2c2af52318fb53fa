r"""The PDF and the pack for offline reading, on small made-up sites: how pages are joined, and what is refused."""

import base64
import re
import subprocess
import sys
import zipfile

import pytest
from bs4 import BeautifulSoup

from conftest import ROOT

sys.path.insert(0, str(ROOT / "book" / "_tools"))

import offline
import pdf

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
NAVIGATION = """<nav class="bd-docs-nav"><details><summary><span class="caption">Methods &amp; more</span></summary><ul>
<li class="toctree-l1"><a href="turn.html">1 Turn</a><a href="../notebooks/turn.html">lab</a></li></ul></details>
</nav>"""
PAGE = """<html><head><title>x</title></head><body><span class="logo__title">A book</span>{navigation}
<article class="bd-article"><section id="top"><h1>{title}<a class="headerlink" href="#top">#</a></h1>
{body}</section></article>
<div class="bd-footer-content"><p>By us.</p><p>Built today. <a href="https://x.org">Report a mistake on this page</a>.
</p></div></body></html>"""
START = """<p>See <a href="turn.html#eq">(1)</a>, <a href="turn.html">Turn</a>, <a href="#top">above</a>,
<a href="../notebooks/turn.html#task">the lab</a>, <a href="../search.html">search</a>, <a href="../index.html">home</a>
and <a href="https://example.org/a.html">elsewhere</a>.</p>"""
TURN = """<p class="lab-links"><a class="lab-colab" href="https://colab.example">Open</a> <a href="x.html">Read</a></p>
<div class="math" id="eq"><span class="eqno">(1)</span><math display="block"><mi>a</mi><mo>=</mo><mi>b</mi></math></div>
<section id="code"><h2>The code<a class="headerlink" href="#code">#</a></h2>
<div class="highlight"><pre><span class="n">answer</span> <span class="o">=</span> <span class="mi">42</span>  # {long}
</pre></div></section>
<figure class="explorable" id="fig"><div class="explorable-body" data-src="turn.1.data.js">
<img class="explorable-picture" src="../_static/a%20b.png" alt="a blue dot" loading="lazy" width="40" height="40">
<div class="explorable-controls"><label for="s">m</label><input id="s"></div></div>
<figcaption><span class="caption-number">Fig. 7 </span>A dot <details><summary>More</summary>x</details>
<a class="explorable-embed" href="turn.html">Embed</a></figcaption></figure>
<table><tr><td>{wide}</td></tr></table>"""


def write_site(folder, start=START, turn=TURN, long="word " * 40, wide="x"):
    for name in ("book", "notebooks", "_static/explore"):
        (folder / name).mkdir(parents=True)
    turn = turn.replace("{long}", long).replace("{wide}", wide)
    (folder / "book/start.html").write_text(PAGE.format(navigation=NAVIGATION, title="Start here", body=start))
    (folder / "book/turn.html").write_text(PAGE.format(navigation="", title="Turn", body=turn))
    (folder / "notebooks/turn.html").write_text(PAGE.format(navigation="", title="Lab: Turn", body=""))
    (folder / "index.html").write_text('<link rel="canonical" href="book/start.html">')
    (folder / "search.html").write_text("")
    (folder / "book/x.html").write_text("")
    (folder / "_static/a b.png").write_bytes(PNG)
    (folder / "_static/explore/turn.1.data.js").write_text("")
    (folder / "_static/book.css").write_text("")
    (folder / "_static/math.css").write_text("")
    return folder


def joined(folder, **how):
    text, pages = pdf.join(write_site(folder / "html", **how), folder)
    return BeautifulSoup(text, "html.parser"), pages


def test_the_pages_come_in_the_contents_order_without_the_labs(tmp_path):
    book, pages = joined(tmp_path)
    assert [p.name for p in pages] == ["book/start", "book/turn"] and pages[1].part == "Methods & more"
    assert [a["data-page"] for a in book.select("article")] == ["book/start", "book/turn"]
    assert [a.span.get_text() for a in book.select(".pdf-contents a")] == ["Start here", "Turn", "The code"]


def test_links_lead_into_the_book_or_to_the_published_site(tmp_path):
    book, _ = joined(tmp_path)
    site = pdf.site_address()
    assert [a["href"] for a in book.select("#book-start a")] == [
        "#book-turn--eq",
        "#book-turn",
        "#book-start--top",
        f"{site}notebooks/turn.html#task",
        f"{site}search.html",
        "#book-start",
        "https://example.org/a.html",
    ]
    ids = [tag["id"] for tag in book.find_all(id=True)]
    assert len(ids) == len(set(ids)) and "book-turn--eq" in ids
    assert all(a["href"][1:] in ids for a in book.select("a[href^='#']"))


def test_what_only_works_in_a_window_is_gone_and_folds_are_open(tmp_path):
    book, _ = joined(tmp_path)
    assert not book.select(".explorable-controls, input, .explorable-embed, .headerlink, [loading]")
    assert [d.has_attr("open") for d in book.select("details")] == [True]
    assert [a.get_text() for a in book.select(".lab-links a")] == ["Open"]
    assert book.select_one("#book-turn img")["src"] == "html/_static/a%20b.png"
    assert book.select_one("#book-turn pre").get_text().startswith("answer = 42  # word")
    assert "Report a mistake" not in book.select_one(".pdf-title").get_text()


@pytest.mark.weekly
@pytest.mark.browser
def test_a_book_is_printed_and_another_refused(tmp_path, browser):
    site, to = write_site(tmp_path / "html"), tmp_path / "book.pdf"
    command = [sys.executable, ROOT / "book" / "_tools" / "pdf.py", site, to]  # two Playwrights can't start in one
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 and all(count in done.stdout for count in ("2 chapters", "7 links")), done
    reader = pdf.PdfReader(to)
    assert [e.title for e in reader.outline if not isinstance(e, list)] == ["Contents", "Start here", "Turn"]
    assert re.search(r"Turn\s*4\s*The code\s*4", reader.pages[1].extract_text())
    assert reader.metadata.author == "The posenc authors"
    page = site / "book/start.html"
    page.write_text(page.read_text().replace("Start here", "Begin here"))
    with pytest.raises(SystemExit, match="'Begin here'"):
        pdf.check(site, to)


def test_the_pack_holds_the_site_in_one_folder_and_nothing_that_only_publishing_wants(tmp_path):
    site, to = write_site(tmp_path / "html"), tmp_path / "a.zip"
    (site / "posenc.pdf").write_text("not in it")
    assert offline.pack(site, to).startswith("a.zip: 10 files")
    with zipfile.ZipFile(to) as inside:
        assert "posenc-book/index.html" in inside.namelist()


@pytest.mark.weekly
@pytest.mark.browser
def test_the_unpacked_book_opens_and_searches_from_disk(site, tmp_path, open_page):
    offline.pack(site, tmp_path / "book.zip")
    with zipfile.ZipFile(tmp_path / "book.zip") as inside:
        inside.extractall(tmp_path)
    folder = tmp_path / "posenc-book"
    page = open_page((folder / "index.html").as_uri())
    page.wait_for_selector("article h1")
    assert "Positional encodings" in page.title() and page.log.problems == []
    page.goto((folder / "search.html").as_uri() + "?q=rotary")
    page.locator(".search-summary").filter(has_text="The best come first").wait_for()
    links = [a.get_attribute("href") for a in page.query_selector_all("#search-results li a")]
    assert any("book/rope" in link for link in links), links
    assert page.log.problems == []
