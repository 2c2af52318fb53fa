r"""What the built pages are made of: formulas, bundles, weights, footers; and the functions that make them."""

import base64
import gzip
import html
import io
import re
import string
import sys
import urllib.parse

import pytest
import tinycss2
from bs4 import BeautifulSoup
from fontTools.ttLib import TTFont
from lab_runs import labs, private

from conftest import ROOT, SITE, built_pages

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import bundle
import mathml
import site_parts

PAGES = built_pages("book", "notebooks") or ["book/intro/index.html"]


# --- formulas --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("broken", [r"\frac{1}", r"\unheardof x", r"\begin{aligned} a", "{a"])
def test_a_broken_formula_is_named(broken):
    with pytest.raises(ValueError, match=re.escape(repr(broken))):
        mathml.mathml(broken, display=True)


@pytest.mark.parametrize("tex, rows", [("a \\\\ b", 2), (r"\begin{aligned} a \\ b \\ c \end{aligned}", 3)])
def test_rows_stay_rows(tex, rows):
    made = mathml.mathml(mathml.wrap(tex), display=True)
    assert made.count("<mtr>") == rows and made.count("<mtable") == 1


@pytest.mark.parametrize(
    "page, tex, kinds",
    [
        ("book/rope/index", "q_m k_n", ["query", "query", "key", "key"]),
        ("notebooks/rope", r"d = m - n, \omega", ["distance", "query", "key", "frequency"]),
        ("book/gradients/index", r"dq_i = \sum_k k_j", ["query", "key"]),  # d begins a differential, the index counts
    ],
)
def test_letters_have_the_color_of_what_they_mean_on_a_page(page, tex, kinds):
    assert re.findall(r'<mi class="(\w+)">', mathml.colored(mathml.mathml(tex, False), page)) == kinds


# --- style sheets ----------------------------------------------------------------------------------------------------

USED = {"html", "p", "a", ".note", "#top"}


def purged(css: str) -> str:
    return bundle.purge(tinycss2.parse_stylesheet(css, True, True), USED)


@pytest.mark.parametrize(
    "css, kept",
    [
        ("table{color:red}", ""),
        (".note p, .gone p{color:red}", ".note p{color:red}"),
        ("#top>a:hover{color:red}", "#top>a:hover{color:red}"),
        ("html[data-theme=dark] .note{color:red}", "html[data-theme=dark] .note{color:red}"),
        ("@media print{.gone{color:red} .note{color:red}}", "@media print{.note{color:red}}"),
        ("@font-face{font-family:x;src:url(x)} @import 'x';", ""),
    ],
)
def test_rules_that_can_match_stay_and_the_others_go(css, kept):
    assert purged(css) == kept


def letters(face: str) -> set[str]:
    data = re.search(r"base64,([^)\"]+)", face)[1]
    return {chr(code) for code in TTFont(io.BytesIO(base64.b64decode(data))).getBestCmap()}


def test_the_text_face_has_what_pages_say_and_is_small():
    everything = "".join(map(chr, range(32, 127))) + "é–—‘’“”…×−"
    made = bundle.text_faces([f"<p>{html.escape(everything)}</p><pre>Ж</pre>"])
    faces = re.findall("@font-face{.*?}", made)
    styles = {re.search(r"font-style:(\w+);font-weight:(\d+)", face).groups() for face in faces}
    assert styles == {("normal", "400"), ("italic", "400"), ("normal", "600")}
    assert all(letters(face) >= set(everything) and "Ж" not in letters(face) for face in faces)
    assert len(made) * 3 / 4 < 60_000


def test_a_page_moved_up_keeps_its_links():
    page = '<html data-content_root="../../"><a href="#top"><a href="../rope/index.html#x">'
    page += '<img src="../../_static/a.svg?v=1"><a href="https://x.org/"><form action="../../search.html">'
    page += '<a href="../../notebooks/rope.html">'
    addresses = re.findall(r'="([^"]+)"', bundle.moved_up(page, "book/intro"))
    assert addresses == ["./", "#top", "book/rope/index.html#x", "_static/a.svg?v=1"] + [
        "https://x.org/",
        "search.html",
        "notebooks/rope.html",
    ]


def listed(*parts: tuple[str, str]) -> str:
    entry = '<li class="toctree-l1"><a class="reference internal" href="{}">{}</a></li>'
    part = '<p class="caption"><span class="caption-text">{}</span></p><ul class="nav">{}</ul>'
    return "".join(part.format(title, entry.format(href, text)) for title, href, text in parts)


def test_chapters_are_numbered_and_have_their_labs_beside_them():
    toctree = listed(
        ("Start", "../why/index.html", "Why"),
        ("Methods", "#", "RoPE"),
        ("Labs", "../../notebooks/rope.html", "Lab: RoPE"),
        ("Reference", "../api.html", "API"),
    )
    made = BeautifulSoup(site_parts.chapters(toctree, "book/rope/index"), "html.parser")
    assert [part.summary.get_text() for part in made("details")] == ["Start", "Methods", "Reference"]
    assert [li.a.get_text() for li in made("li")] == ["1 Why", "2 RoPE", "API"]
    [lab] = made.select("a.chapter-lab")
    assert (
        lab["href"] == "../../notebooks/rope.html" and lab["aria-label"] == "Lab: RoPE" and lab.parent.a["href"] == "#"
    )


# --- the built pages -------------------------------------------------------------------------------------------------

built = pytest.mark.site
every_page = pytest.mark.parametrize("page", PAGES)


def packed(path) -> int:
    return len(gzip.compress(path.read_bytes(), 6))


def linked(page: str, text: str) -> dict[str, list]:
    r"""The site's files that a page asks for by itself: {"first": before the reader moves, "later": as they scroll}."""
    here = (SITE / page).parent
    head = re.findall(r'<(?:script|link)\b[^>]*?(?:src|href)="([^"#]+)"[^>]*>', text.split("</head>")[0])
    head = [name for name in head if not name.endswith(".html") and "noscript" not in name]
    images = re.findall(r"<img\b[^>]*>", text)
    source = re.compile(r'src="([^"]+)"')
    lazy = [source.search(tag)[1] for tag in images if 'loading="lazy"' in tag]
    eager = [source.search(tag)[1] for tag in images if 'loading="lazy"' not in tag]
    root = "../" * page.count("/")
    states = [f"{root}_static/explore/{name}" for name in re.findall(r'data-src="([^"]+)"', text)]
    plotly = [f"{root}_static/explore/plotly-cartesian.min.js"] if states or "data-explorable=" in text else []

    def files(names):
        plain = {urllib.parse.unquote(name.split("?")[0]) for name in names if not name.startswith("data:")}
        return [(here / name).resolve() for name in sorted(plain)]

    return {"first": files(head + eager), "later": files(lazy + states + plotly)}


@built
@every_page
def test_a_page_is_light(page, site):
    text = (site / page).read_text("utf-8")
    files = linked(page, text)
    first = packed(site / page) + sum(map(packed, files["first"]))
    whole = first + sum(map(packed, files["later"]))
    assert first <= 150_000, f"{page}: {first:,} bytes before the reader moves"
    assert whole <= 900_000, f"{page}: {whole:,} bytes with everything on it"
    assert len(files["first"]) <= 12, [path.name for path in files["first"]]


@built
@every_page
def test_a_page_brings_its_head_and_foot(page, site):
    text = (site / page).read_text("utf-8")
    assert html.escape(bundle.POLICY, quote=False).replace("&#x27;", "'") in text.replace("&#39;", "'")
    [description] = re.findall(r'<meta name="description" content="([^"]+)">', text)
    assert 10 < len(html.unescape(description)) <= 165
    assert text.count("<h1>") == 2 or text.count("<h1>") == 1, "one title on screen, one for print"
    assert re.search(r'Built <time datetime="20\d\d-\d\d-\d\dT\d\d:\d\dZ">', text)
    assert "/issues/new?title=" in text
    inline = re.findall(r"<script(?![^>]*(?:src=|application/json))[^>]*>(.*?)</script>", text, re.DOTALL)
    assert [html.unescape(script) for script in inline] == [bundle.FIRST_SCRIPT]
    assert not re.search(r"<[^>]+\son\w+=", text), "an event handler in the markup, which the policy refuses"


@built
def test_nothing_is_left_of_what_was_bundled(site):
    names = {path.name for path in (site / "_static").iterdir()}
    assert {"book.css", "math.css", "book.js", "search.js", "sections.js"} <= names
    assert not names & {"styles", "scripts", "vendor", "pygments.css", "doctools.js"}


def every_text(site) -> dict[str, str]:
    return {page: (site / page).read_text("utf-8") for page in built_pages("")}


@built
def test_an_id_and_a_viewport_are_on_a_page_once(site):
    for page, text in every_text(site).items():
        ids = re.findall(r'<[a-zA-Z][^<>]*?\sid="([^"]*)"', re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL))
        assert not {name for name in ids if ids.count(name) > 1}, page
        assert text.count('<meta name="viewport"') == 1, page


@built
def test_lost_readers_find_a_way_from_any_depth(site):
    base = site_parts.site_address()
    root = urllib.parse.urlsplit(base).path
    text = (site / "404.html").read_text("utf-8")
    assert '<meta name="robots" content="noindex">' in text and 'rel="canonical"' not in text
    assert f'data-content_root="{root}"' in text
    inside = [address for address in re.findall(r'\s(?:href|src|action)="([^"#]+)"', text) if ":" not in address]
    files = {address.removeprefix(root).split("?")[0] for address in inside}
    assert all(address.startswith(root) for address in inside), inside
    assert {"search.html", "genindex.html", "_static/book.css", "_static/book.js"} <= files
    assert all((site / name).is_file() for name in files), [name for name in files if not (site / name).is_file()]


@built
@every_page
def test_a_shared_link_says_what_it_leads_to(page, site):
    text, base = (site / page).read_text("utf-8"), site_parts.site_address()
    found = dict(re.findall(r'<meta property="og:(\w+)" content="([^"]+)">', text))
    title = re.search("<title>(.*?)(?: &#8212; |</title>)", text)[1]
    assert html.unescape(found["title"]) == html.unescape(title)
    assert f'<meta name="description" content="{found["description"]}">' in text
    assert re.search(r"([.?!:][”’)]?| …)$", html.unescape(found["description"])), found["description"]
    assert found["type"] == "article" and found["url"] == base + page and found["site_name"]
    assert found["image"].startswith(base) and (site / found["image"].removeprefix(base)).is_file()
    assert '<meta name="twitter:card" content="summary">' in text


@built
def test_an_old_address_leads_on(site):
    pages = {"book/rope.html": "rope/index.html", "embed/clock.two_hands.html": "clock.html"}
    for old, new in (pages | {"embed/fox.alibi.html": "gates.fox.html"}).items():
        tree = BeautifulSoup((site / old).read_text("utf-8"), "html.parser")
        assert tree.a["href"] == tree.select_one("link[rel=canonical]")["href"] == new
        assert (site / old).parent.joinpath(new).exists()


@built
def test_the_math_font_has_all_that_formulas_show(site):
    css = (site / "_static" / "math.css").read_text("utf-8")
    there = letters(css[css.index("font-family:posenc-math;") :])
    for path in site.glob("[bn]*/**/*.html"):
        for formula in re.findall(r"<math.*?</math>", path.read_text("utf-8"), re.DOTALL):
            shown = set(html.unescape(re.sub(r"<[^>]+>", "", formula)))
            # Browsers draw this one of their own accord.
            shown |= {"√"} if "<msqrt" in formula or "<mroot" in formula else set()
            lacking = {c for c in shown if c not in there and not c.isspace() and not 0x2061 <= ord(c) <= 0x2064}
            # Primes have a font of their own; upright letters and digits are those of the text face.
            assert lacking <= set("′″‴" + string.ascii_letters + string.digits), f"{path.name}: {formula}"


def raw_tables(markup: str) -> list[str]:
    r"""Paragraphs that hold a table as it was typed, with bars; formulas and code may have theirs."""
    tree = BeautifulSoup(markup, "html.parser")
    for place in tree(["math", "code", "pre", "script", "style"]):
        place.decompose()
    texts = [paragraph.get_text().strip() for paragraph in tree("p")]
    return [
        text for text in texts if text.startswith("|") or re.search(r"\|\s*:?(-{3,}|—):?\s*\|| \| .* \| ", text, re.S)
    ]


@built
@every_page
def test_no_table_is_printed_with_its_bars(page, site):
    assert raw_tables((site / page).read_text("utf-8")) == []


def secrets():
    r"""What only instructors have: solved bodies of the labs, and the paragraphs of written solutions."""
    private("rope/lab.py")
    for path in labs.sources():
        cells = "\n".join(cell.source for cell in labs.read(path, labs.address()).cells)
        for body in re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", cells, re.S):
            yield path, squeezed(body)
    for path in sorted((ROOT / "book").glob("*/solutions.md")):
        for paragraph in path.read_text("utf-8").split("\n\n"):
            yield path, squeezed(paragraph)


def squeezed(text):
    return re.sub(r"\s+", "", text)


@built
def test_no_solution_is_anywhere_in_the_built_tree(site):
    """Search index and data files included; short fragments would be found by chance and are left out."""
    found = [(name, text) for name, text in secrets() if len(text) >= 60]
    assert len(found) > 40
    for path in site.glob("**/*"):
        if path.suffix in (".html", ".js", ".json", ".txt", ".md", ".py", ".ipynb") and path.is_file():
            shown = squeezed(html.unescape(re.sub(r"<[^>]+>", "", path.read_text("utf-8", errors="replace"))))
            for name, text in found:
                assert text not in shown, f"{path.relative_to(site)} holds, from {name}: {text[:80]}"
