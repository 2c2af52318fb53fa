r"""What the built pages are made of: formulas, bundles, weights, footers; and the functions that make them."""

import base64
import gzip
import hashlib
import html
import re
import sys
import urllib.parse

import pytest
import tinycss2
from conftest import ROOT, SITE, missing

sys.path.insert(0, str(ROOT / "book" / "_ext"))

import bundle  # noqa: E402
import mathml  # noqa: E402

PAGES = sorted(
    path.relative_to(SITE).as_posix() for folder in ("book", "notebooks") for path in (SITE / folder).glob("*.html")
) or ["book/intro.html"]


# --- formulas --------------------------------------------------------------------------------------------------------


def test_a_formula_becomes_mathml():
    made = mathml.mathml(r"\tilde q_m = R(m)\,q_m", display=True)
    assert made.startswith("<math") and 'display="block"' in made and "<mover>" in made and "\\" not in made
    assert 'display="block"' not in mathml.mathml("a", display=False)


@pytest.mark.parametrize("broken", [r"\frac{1}", r"\unheardof x", r"\begin{aligned} a", "{a"])
def test_a_broken_formula_is_named(broken):
    with pytest.raises(ValueError, match=re.escape(repr(broken))):
        mathml.mathml(broken, display=True)


@pytest.mark.parametrize(
    "tex, rows",
    [
        ("a \\\\ b", 2),
        (r"\begin{aligned} a \\ b \\ c \end{aligned}", 3),
        (r"\begin{pmatrix} a \\ b \end{pmatrix} = c", 2),
    ],
)
def test_rows_stay_rows(tex, rows):
    made = mathml.mathml(mathml.wrap(tex), display=True)
    assert made.count("<mtr>") == rows and made.count("<mtable") == 1


# --- style sheets ----------------------------------------------------------------------------------------------------

USED = {"html", "p", "a", ".note", "#top"}


def purged(css: str) -> str:
    return bundle.purge(tinycss2.parse_stylesheet(css, True, True), USED)


@pytest.mark.parametrize(
    "css, kept",
    [
        ("p{color:red}", "p{color:red}"),
        ("table{color:red}", ""),
        (".note p, .gone p{color:red}", ".note p{color:red}"),
        ("#top>a:hover{color:red}", "#top>a:hover{color:red}"),
        ("#nowhere{color:red}", ""),
        ("p:not(.gone){color:red}", "p:not(.gone){color:red}"),
        ("html[data-theme=dark] .note{color:red}", "html[data-theme=dark] .note{color:red}"),
        ("@media print{.gone{color:red} .note{color:red}}", "@media print{.note{color:red}}"),
        ("@media print{.gone{color:red}}", ""),
        ("@font-face{font-family:x;src:url(x)} @import 'x';", ""),
        ("a.note.gone{color:red}", ""),
    ],
)
def test_rules_that_can_match_stay_and_the_others_go(css, kept):
    assert purged(css) == kept


def test_variables_that_nothing_reads_go():
    css = "html{--a:1px;--b:var(--a);--c:2px;--d:var(--c)}p{width:var(--b)}"
    assert bundle.drop_unused_variables(css, "") == "html{--a:1px;--b:var(--a);}p{width:var(--b)}"
    assert "--d:var(--c)" in bundle.drop_unused_variables(css, "style.getPropertyValue('--d')")


def test_the_font_has_the_letters_as_browsers_draw_them():
    made = bundle.math_characters(["<p>Z</p><math><mi>q</mi><mo>&le;</mo><mi>h</mi><mi>ω</mi><mtext>if</mtext></math>"])
    assert {"q", "𝑞", "≤", "ℎ", "ω", "𝜔", "i", "f"} <= made and "Z" not in made


def test_the_policy_allows_the_inline_script_and_no_other_host():
    digest = base64.b64encode(hashlib.sha256(bundle.FIRST_SCRIPT.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in bundle.POLICY and "default-src 'self'" in bundle.POLICY
    assert "http" not in bundle.POLICY and "*" not in bundle.POLICY and "unsafe-eval" not in bundle.POLICY


def test_a_page_moved_up_keeps_its_links():
    page = '<html data-content_root="../"><a href="#top"><a href="rope.html#x"><img src="../_static/a.svg?v=1">'
    page += '<a href="https://x.org/"><form action="../search.html"><a href="../notebooks/rope.html">'
    assert bundle.moved_up(page, "book") == (
        '<html data-content_root="./"><a href="#top"><a href="book/rope.html#x"><img src="_static/a.svg?v=1">'
        '<a href="https://x.org/"><form action="search.html"><a href="notebooks/rope.html">'
    )


# --- the built pages -------------------------------------------------------------------------------------------------

built = pytest.mark.browser
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
    states = [f"../_static/explore/{name}" for name in re.findall(r'data-src="([^"]+)"', text)]
    plotly = ["../_static/explore/plotly-cartesian.min.js"] if states or "data-explorable=" in text else []

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
    assert {"book.css", "math.css", "book.js", "searchtools.js"} <= names
    assert not names & {"styles", "scripts", "vendor", "pygments.css", "doctools.js"}


@built
def test_pages_and_labs_lead_to_colab(site):
    labs = [page for page in PAGES if page.startswith("notebooks/")]
    if not labs:
        missing("no lab in the built book")
    for page in labs:
        name = page.split("/")[1].removesuffix(".html")
        assert f"/notebooks/{name}.ipynb" in (site / page).read_text("utf-8"), f"{page} has no way to Colab"
