r"""The built book in a real browser, with the network off."""

import base64
import html
import io
import re
import string

import pytest
from bs4 import BeautifulSoup
from conftest import SITE, missing
from fontTools.ttLib import TTFont
from kit import COURSE, needs_sources
from pypdf import PdfReader
from samples import sample

import posenc

pytestmark = pytest.mark.browser

PAGES = sorted(
    path.relative_to(SITE).as_posix()
    for path in SITE.glob("**/*.html")
    if path.relative_to(SITE).parts[0] in ("book", "notebooks")
) or ["index.html"]  # where nothing is built, one test that says so

SETTLE = """async () => {
    await document.fonts.ready;
    window.dispatchEvent(new Event('keydown'));
    await new Promise((done) => setTimeout(done, 250));
}"""


@pytest.fixture(scope="module")
def opened(request, base, open_page):
    r"""A page of the book that the reader has just begun to use."""
    page = open_page(base + request.param)
    page.evaluate(SETTLE)
    yield page
    page.context.close()


every_other_page = pytest.mark.parametrize("opened", sample(PAGES, every=2), indirect=True)


UNMARKED = """() => [...document.querySelectorAll('.bd-article :is(pre, .math, .pst-scrollable-table-container)')].some(
    (place) => place.scrollWidth > place.clientWidth && place.tabIndex < 0)"""
COLORS = ["color-contrast", "link-in-text-block"]  # what a theme can change
SIZES = {"wide": (1280, 900), "phone": (360, 740)}


def axe(page, theme: str, size: str) -> list[str]:
    r"""What axe-core finds on a page, of whatever weight.

    Wide and light: everything. Dark: the rules on color. On a phone code and formulas, which are thousands of elements,
    are left out: they are the same there.
    """
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        missing("axe is missing: .venv/bin/pip install axe-playwright-python")
    page.set_viewport_size(dict(zip(("width", "height"), SIZES[size])))
    page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
    page.wait_for_timeout(300)  # explorables repaint
    # axe compares places: sections that are not laid out yet would lie over each other.
    page.evaluate("document.querySelectorAll('section').forEach((s) => { s.style.contentVisibility = 'visible'; })")
    for _ in range(150):  # wide places become focusable bit by bit
        if not page.evaluate(UNMARKED):
            break
        page.wait_for_timeout(200)
    in_light = {"rules": {"target-size": {"enabled": True}}}  # WCAG 2.2, which axe leaves out unless asked
    options = {"runOnly": {"type": "rule", "values": COLORS}} if theme == "dark" else in_light
    drawing = [[".explorable-drawing"]]  # one picture with a label to a screen reader, thousands of elements to axe
    without = drawing + ([["math"], ["pre"]] if size == "phone" else [["math"]] if theme == "dark" else [])
    try:
        options |= {"resultTypes": ["violations"]}  # what passes needs no report
        found = Axe().run(page, context={"exclude": without}, options=options).response["violations"]
    finally:
        page.evaluate("document.documentElement.dataset.theme = 'light'")
        page.set_viewport_size({"width": 1280, "height": 900})
    faults = [(v, node["html"]) for v in found for node in v["nodes"]]
    # A heading of a table that is a formula: axe counts no MathML as text, browsers hand it to screen readers.
    faults = [(v, markup) for v, markup in faults if not (v["id"] == "empty-table-header" and "<math" in markup)]
    return [f"{v['impact']} {v['id']}: {v['help']}: {markup[:300]}" for v, markup in faults[:10]]


@every_other_page
def test_math_is_drawn(opened):
    r"""Every formula is MathML, has a size, holds no error, and is set in the book's own font."""
    found = opened.evaluate(r"""() => {
        const places = [...document.querySelectorAll('span.math, div.math')];
        const drawn = (place) => {
            const box = place.querySelector('math') && place.querySelector('math').getBoundingClientRect();
            return box && (box.width > 2 || !place.offsetParent) && !place.querySelector('merror, .temml-error');
        };
        return [places.length, places.filter((place) => !drawn(place)).map((place) => place.outerHTML.slice(0, 200))];
    }""")
    assert found[1] == []
    assert "\\(" not in opened.locator("article").inner_text(), "a formula shows its source"
    if found[0]:
        assert opened.evaluate("document.fonts.check('16px posenc-math')"), "the math font has not loaded"


def test_the_math_font_has_all_that_formulas_show(site):
    css = (site / "_static" / "math.css").read_text("utf-8")
    data = re.search(r"font-family:posenc-math;[^}]*base64,([^)\"]+)", css)[1]
    letters = set(TTFont(io.BytesIO(base64.b64decode(data))).getBestCmap())
    for path in site.glob("*/*.html"):
        for formula in re.findall(r"<math.*?</math>", path.read_text("utf-8"), re.DOTALL):
            shown = set(html.unescape(re.sub(r"<[^>]+>", "", formula)))
            # Browsers draw this one of their own accord.
            shown |= {"√"} if "<msqrt" in formula or "<mroot" in formula else set()
            lacking = {c for c in shown if ord(c) not in letters and not c.isspace() and not 0x2061 <= ord(c) <= 0x2064}
            # Primes have a font of their own; upright letters and digits are those of the text face.
            assert lacking <= set("′″‴" + string.ascii_letters + string.digits), f"{path.name}: {formula}"


@every_other_page
def test_wide_formulas_begin_at_their_beginning(opened):
    opened.set_viewport_size({"width": 360, "height": 740})
    opened.evaluate("document.querySelectorAll('section').forEach((s) => { s.style.contentVisibility = 'visible'; })")
    try:
        wrong = opened.evaluate("""() => [...document.querySelectorAll('div.math')].filter((place) => {
            const box = place.getBoundingClientRect(), math = place.querySelector('math').getBoundingClientRect();
            const inner = place.querySelector('math').firstElementChild.getBoundingClientRect();
            const number = place.querySelector('.eqno');
            const over = number && number.getBoundingClientRect().left < inner.right - 1;
            return place.scrollLeft || Math.min(math.left, inner.left) < box.left - 1 || over;
        }).map((place) => place.textContent.slice(0, 60))""")
        assert wrong == []
        hidden = """() => [...document.querySelectorAll('span.math')].filter((place) =>
            place.scrollWidth > place.clientWidth && getComputedStyle(place).overflowX !== 'auto').length"""
        assert opened.evaluate(hidden) == 0
    finally:
        opened.set_viewport_size({"width": 1280, "height": 900})


@every_other_page
def test_images_are_there_and_say_what_they_show(opened):
    broken = opened.evaluate("""async () => {
        const out = [];
        for (const i of document.querySelectorAll('.bd-article img')) {
            i.loading = 'eager';
            try { await i.decode(); } catch (error) { out.push('broken: ' + i.src); }
            if (!(i.alt || '').trim()) out.push('no alt text: ' + i.src);
        }
        return out;
    }""")
    assert broken == []


@pytest.mark.parametrize("name", ["book/rope.html", "book/measure.html"])
def test_a_phone_gets_drawings_of_its_own(name, base, open_page):
    page = open_page(base + name)
    try:
        for width, narrow in ((1280, False), (390, True)):
            page.set_viewport_size({"width": width, "height": 740})
            found = page.evaluate("""() => Promise.all([...document.querySelectorAll('.bd-article picture img')].map(
                async (i) => { i.loading = 'eager'; await i.decode(); return [i.currentSrc, i.naturalWidth]; }))""")
            assert len(found) > 5
            for address, drawn in found:
                assert (address.endswith(".phone.svg"), drawn <= 358) == (narrow, narrow), address
    finally:
        page.context.close()


# A page takes axe a quarter of a minute.
@pytest.mark.parametrize("opened", sample(PAGES, every=3), indirect=True)
def test_axe_finds_nothing(opened):
    assert axe(opened, "light", "wide") == []


# Colors and the narrow layout are the theme's, the same on all pages.
@pytest.mark.parametrize("opened", sample(PAGES, every=8), indirect=True)
@pytest.mark.parametrize("theme, size", [("light", "phone"), ("dark", "wide")])
def test_axe_finds_nothing_in_the_dark_and_on_a_phone(opened, theme, size):
    assert axe(opened, theme, size) == []


@every_other_page
def test_nothing_scrolls_sideways_on_a_phone(opened):
    opened.set_viewport_size({"width": 360, "height": 740})
    opened.wait_for_timeout(400)
    try:
        wide = opened.evaluate("document.documentElement.scrollWidth")
        culprits = opened.evaluate("""() => [...document.querySelectorAll('.bd-main *')].filter((e) =>
            e.getBoundingClientRect().right > 361 && e.getBoundingClientRect().width > 0).slice(0, 5).map(
            (e) => e.outerHTML.slice(0, 120))""")
        assert wide <= 360, f"{wide} pixels wide: {culprits}"
    finally:
        opened.set_viewport_size({"width": 1280, "height": 900})


@every_other_page
def test_the_page_is_whole_offline(opened):
    # Last, with every figure drawn: their thousands of elements would slow down the tests above.
    opened.evaluate("""async () => {
        if (window.posencExplorables) await Promise.all(posencExplorables.list.map((e) => e.start()));
        await new Promise((done) => setTimeout(done, 250));
    }""")
    assert opened.log.problems == []


# --- what site.js does -----------------------------------------------------------------------------------------------

CHAPTER = "book/rope.html"
THEME = "document.documentElement.dataset.theme"


@pytest.mark.parametrize("dark", [False, True])
def test_the_first_press_changes_the_colors_and_the_choice_is_kept(dark, base, open_page):
    page = open_page(base + CHAPTER, dark=dark)
    try:
        button = page.locator(".theme-switch-button").first
        start, other = ("dark", "light") if dark else ("light", "dark")
        assert page.evaluate(THEME) == start
        button.focus()
        page.keyboard.press("Enter")
        assert page.evaluate(THEME) == other and button.get_attribute("aria-label") == f"Color mode: {other}"
        # On the next page the choice holds before any script file has come: nothing flashes.
        page.route("**/book.js*", lambda route: route.abort())
        page.goto(base + "book/alibi.html")
        assert page.evaluate(THEME) == other
    finally:
        page.context.close()


def test_the_system_changes_the_colors_where_nobody_chose(base, open_page):
    page = open_page(base + CHAPTER)
    try:
        page.emulate_media(color_scheme="dark")
        page.wait_for_timeout(500)
        assert page.evaluate(THEME) == "dark"
    finally:
        page.context.close()


def test_search_opens_by_keyboard_and_leads_to_the_results(base, open_page):
    page = open_page(base + CHAPTER)
    try:
        dialog = page.locator("#pst-search-dialog")
        page.keyboard.press("Control+k")
        assert dialog.evaluate("(d) => d.open && d.contains(document.activeElement)")
        page.keyboard.press("Escape")
        assert not dialog.evaluate("(d) => d.open")
        page.locator(".search-button__button").first.click()
        page.keyboard.type("slopes")
        page.keyboard.press("Enter")
        page.wait_for_selector("#search-results li a")
        assert page.url.endswith("search.html?q=slopes")
        assert page.log.problems == []
    finally:
        page.context.close()


@pytest.mark.parametrize("name, toggle", [("primary", ".primary-toggle"), ("secondary", ".secondary-toggle")])
def test_on_a_phone_a_side_bar_opens_over_the_page(name, toggle, base, open_page):
    page = open_page(base + CHAPTER)
    try:
        page.set_viewport_size({"width": 360, "height": 740})
        button, dialog = page.locator(toggle), page.locator(f"#pst-{name}-sidebar-modal")
        assert not dialog.is_visible()
        button.focus()
        page.keyboard.press("Enter")
        assert dialog.is_visible() and dialog.get_attribute("aria-label") == button.get_attribute("aria-label")
        assert dialog.locator("a").count() > 5
        page.keyboard.press("Escape")
        page.wait_for_selector(f"#pst-{name}-sidebar a", state="attached")  # the theme moves the bar back as it closes
        assert not dialog.is_visible() and page.locator(f"#pst-{name}-sidebar a").count() > 5
        assert button.evaluate("(b) => b === document.activeElement"), "the focus is back where it was"
    finally:
        page.context.close()


@pytest.mark.parametrize("size", [(1440, 780), (1024, 700), (1920, 1080), (390, 664)])
def test_lines_are_short_and_figures_take_the_room(size, base, open_page):
    page = open_page(base + CHAPTER)
    try:
        page.set_viewport_size({"width": size[0], "height": size[1]})
        page.evaluate(SETTLE)
        found = page.evaluate("""() => {
            const box = (selector) => document.querySelector(selector).getBoundingClientRect();
            const lines = [];
            for (const p of document.querySelectorAll('.bd-article section > p')) {
                const high = parseFloat(getComputedStyle(p).lineHeight), rows = p.getBoundingClientRect().height / high;
                if (p.textContent.length > 200 && !p.querySelector('math')) lines.push(p.textContent.length / rows);
            }
            const contents = document.querySelector('#pst-secondary-sidebar').getBoundingClientRect();
            return {
                page: document.documentElement.scrollWidth,
                letters: Math.max(...lines),
                text: box('.bd-article section > p').width,
                figure: box('figure.explorable').width,
                free: (contents.left > 0 ? contents.left : innerWidth) - box('figure.explorable').right,
                face: document.fonts.check('18px posenc-text'),
            };
        }""")
        assert found["page"] <= size[0] and found["free"] >= 0 and found["face"]
        assert 30 < found["letters"] < 76
        if size[0] > 1000:
            assert found["letters"] > 60 and found["figure"] > found["text"] + 100
    finally:
        page.context.close()


@pytest.mark.parametrize("to", ["references.html#", "#equation-", "#thm-"])
def test_what_a_reference_leads_to_is_shown_to_mouse_and_keyboard(to, base, open_page):
    page = open_page(base + "book/relative.html")
    try:
        page.evaluate(SETTLE)
        link = page.locator(f'.bd-article a.reference[href*="{to}"]:not([href^="../"])').first
        title = link.get_attribute("title")
        link.scroll_into_view_if_needed()
        page.wait_for_timeout(400)
        peek = page.locator("#peek")
        link.hover()
        peek.wait_for(state="visible")
        shown = peek.inner_text()
        assert len(shown) > 20 and "#" not in shown and not peek.locator("[id]").count()
        peek.hover()
        page.wait_for_timeout(400)
        assert peek.is_visible(), "who points at what is shown reads on"
        page.mouse.move(3, 300)
        peek.wait_for(state="hidden")
        link.focus()
        page.keyboard.press("Shift+Tab")
        page.keyboard.press("Tab")
        peek.wait_for(state="visible")
        assert link.get_attribute("aria-describedby") == "peek"
        page.keyboard.press("Escape")
        peek.wait_for(state="hidden")
        assert link.get_attribute("title") == title and not link.get_attribute("aria-describedby")
        assert page.log.problems == []
    finally:
        page.context.close()


def test_the_contents_follow_the_reader(base, open_page):
    page = open_page(base + CHAPTER)
    try:
        page.evaluate("document.querySelector('#check-yourself').scrollIntoView()")
        page.wait_for_selector('#pst-page-toc-nav a[aria-current="true"][href="#check-yourself"]')
        assert page.locator('#pst-page-toc-nav a[aria-current="true"]').count() == 1
    finally:
        page.context.close()


def test_what_scrolls_sideways_is_reached_by_keyboard_once_the_reader_begins(base, open_page):
    page = open_page(base + CHAPTER)
    try:
        page.set_viewport_size({"width": 360, "height": 740})
        wide = """() => [...document.querySelectorAll('.bd-article pre')]
            .filter((p) => p.scrollWidth > p.clientWidth + 1).map((p) => p.tabIndex)"""
        assert set(page.evaluate(wide)) == {-1}
        page.keyboard.press("Tab")
        page.wait_for_function(f"() => ({wide})().every((place) => place === 0)")
    finally:
        page.context.close()


# --- paper, and readers without a script -----------------------------------------------------------------------------

COLORS_OF = """(selectors) => selectors.map((selector) => {
    const style = getComputedStyle(document.querySelector(selector));
    return [style.color, style.backgroundColor];
})"""
PLACES = [
    "body",
    ".bd-article p",
    ".bd-article .highlight .k, .bd-article .highlight .kn",
    ".admonition-title",
    ".bd-article a",
]


def test_paper_is_light_whatever_the_screen_shows(base, open_page):
    seen = []
    for dark, scripts in ((False, True), (True, True), (True, False)):
        page = open_page(base + CHAPTER, dark=dark, scripts=scripts)
        try:
            page.emulate_media(media="print", color_scheme="dark" if dark else "light")
            seen.append(page.evaluate(COLORS_OF, PLACES))
        finally:
            page.context.close()
    assert seen[0] == seen[1] == seen[2]


@pytest.mark.parametrize("dark", [False, True])
def test_without_a_script_the_system_decides_the_colors(dark, base, open_page):
    seen = []
    for scripts in (True, False):
        page = open_page(base + CHAPTER, dark=dark, scripts=scripts)
        try:
            seen.append(page.evaluate(COLORS_OF, PLACES))
        finally:
            page.context.close()
    assert seen[0] == seen[1]


def test_without_a_script_a_phone_shows_the_way_to_all_chapters(base, open_page):
    page = open_page(base + CHAPTER, scripts=False)
    try:
        page.set_viewport_size({"width": 360, "height": 740})
        for bar, least in (("primary", 20), ("secondary", 8)):
            links = page.locator(f"#pst-{bar}-sidebar a")
            assert sum(link.is_visible() for link in links.all()) >= least
        assert page.evaluate("document.documentElement.scrollWidth") <= 360
    finally:
        page.context.close()


def test_what_is_folded_unfolds_on_paper_and_folds_again(base, open_page):
    page = open_page(base + CHAPTER)
    try:
        page.emulate_media(reduced_motion="no-preference")  # the theme lets what is unfolded fade in
        folded = "document.querySelectorAll('.bd-article details:not([open])').length"
        before = page.evaluate(folded)
        assert before > 5
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        assert page.evaluate(folded) == 0
        faint = (
            "[...document.querySelectorAll('.bd-article details > *')].filter((e) => getComputedStyle(e).opacity < 1)"
        )
        assert page.evaluate(f"{faint}.length") == 0, "paper is printed at once"
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        assert page.evaluate(folded) == before
    finally:
        page.context.close()


# --- where links lead ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["address", "contents"])
def test_a_link_into_a_page_lands_at_its_heading(by, base, open_page):
    page = open_page(base + CHAPTER + ("#longer-than-training" if by == "address" else ""))
    try:
        page.set_viewport_size({"width": 1280, "height": 800})
        if by == "contents":  # no section on the way has been laid out
            page.locator('#pst-page-toc-nav a[href="#longer-than-training"]').click()
        page.wait_for_timeout(500)
        top = page.evaluate("document.querySelector('#longer-than-training :is(h2, h3)').getBoundingClientRect().top")
        assert 0 <= top < 150
    finally:
        page.context.close()


# --- search ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words, page", [("rotary", "book/rope"), ("linear bias", "book/alibi")])
def test_search_finds(words, page, base, open_page):
    opened = open_page(f"{base}search.html?q={words.replace(' ', '+')}")
    try:
        opened.wait_for_selector("#search-results li a", timeout=10_000)
        opened.wait_for_timeout(500)
        links = [a.get_attribute("href") for a in opened.query_selector_all("#search-results li a")]
        assert any(page in link for link in links), links
        opened.goto(base + next(link for link in links if page in link).removeprefix("../"))
        opened.wait_for_selector(".highlighted", state="attached")
        opened.locator(".highlight-link a").click()
        assert opened.locator(".highlighted").count() == 0, "the link that hides the marks does it"
        assert opened.log.problems == []
    finally:
        opened.context.close()


@pytest.mark.parametrize(
    "words, page",
    [("rotation", "book/rope"), ("YaRN", "book/scaling"), ("kernel", "book/kernels"), ("stick-breaking", "book/stick")],
)
def test_the_chapter_that_teaches_it_comes_first_and_results_fit_a_phone(words, page, base, open_page):
    opened = open_page(f"{base}search.html?q={words}")
    try:
        opened.set_viewport_size({"width": 360, "height": 740})
        opened.wait_for_selector("#search-results li a", timeout=10_000)
        opened.wait_for_timeout(800)
        assert page in opened.locator("#search-results li a").first.get_attribute("href")
        assert opened.evaluate("document.documentElement.scrollWidth") <= 360
    finally:
        opened.context.close()


# What people type, with the pages that hold the answer: words of code, error messages, what they see.
TYPED = {
    "rope_scaling": ["symptoms", "practice"],
    "`rope_scaling` must be a dictionary": ["symptoms"],
    "`rope_scaling` must be a dictionary with two fields, `type` and `factor`": ["symptoms"],
    "rope_parameters": ["symptoms", "models_that_ship"],
    "'LlamaConfig' object has no attribute 'rope_theta'": ["symptoms"],
    "position_ids": ["practice", "symptoms"],
    "position_ids left padding": ["symptoms"],
    "left padding": ["practice", "symptoms"],
    "works alone not in a batch": ["symptoms"],
    "works alone, not in a batch": ["symptoms"],
    "first token fine, then garbage": ["symptoms"],
    "cache_position": ["symptoms"],
    "rotate_half": ["symptoms"],
    "rotate_half interleaved": ["symptoms"],
    "convert llama weights": ["rope_closely", "symptoms"],
    "IndexError: index out of range in self": ["symptoms"],
    "original_max_position_embeddings": ["symptoms"],
    "mrope_section": ["symptoms", "models_that_ship"],
    "rope_deltas": ["symptoms"],
    "qk_rope_head_dim": ["symptoms"],
    "worse after YaRN": ["symptoms"],
    "dynamic NTK cache": ["scaling", "symptoms"],
    "rope bfloat16 precision": ["symptoms"],
    "KV cache eviction": ["symptoms"],
    "speculative decoding": ["symptoms"],
    "packed sequences": ["practice", "symptoms"],
    "ALiBi flash attention": ["symptoms"],
    "size mismatch for pos_embed": ["symptoms"],
    "why 10000": ["symptoms"],
    "why is positional encoding added": ["symptoms"],
}


def test_what_people_type_leads_to_the_answer(base, open_page):
    page = open_page(f"{base}search.html?q=rope")
    try:
        page.wait_for_selector("#search-results li a", timeout=10_000)
        search = "Search._performSearch(...Search._parseQuery(words))"  # the best hit last
        first = page.evaluate(f"(typed) => typed.map((words) => {search}.slice(-3).map(([name]) => name))", list(TYPED))
    finally:
        page.context.close()
    assert len(TYPED) == 30
    hits = zip(TYPED.items(), first, strict=True)
    assert {words: found for (words, pages), found in hits if not {f"book/{p}" for p in pages} & set(found)} == {}


def test_a_part_that_the_reader_folds_stays_folded_until_they_are_in_it(base, open_page):
    page = open_page(base + CHAPTER)
    try:
        parts = page.locator(".bd-docs-nav details")
        assert parts.count() > 4 and all(part.get_attribute("open") is not None for part in parts.all())
        parts.last.locator("summary").click()
        page.reload()
        assert parts.last.get_attribute("open") is None and parts.first.get_attribute("open") is not None
        page.goto(base + "book/notation.html")
        assert parts.last.get_attribute("open") is not None, "this page is in it"
    finally:
        page.context.close()


# --- tables -------------------------------------------------------------------------------------------------------


def raw_tables(markup: str) -> list[str]:
    r"""Paragraphs that hold a table as it was typed, with bars; formulas and code may have theirs."""
    tree = BeautifulSoup(markup, "html.parser")
    for place in tree(["math", "code", "pre", "script", "style"]):
        place.decompose()
    texts = [paragraph.get_text().strip() for paragraph in tree("p")]
    return [
        text for text in texts if text.startswith("|") or re.search(r"\|\s*:?(-{3,}|—):?\s*\|| \| .* \| ", text, re.S)
    ]


@pytest.mark.parametrize(
    "markup, raw",
    [
        ("<p>| arm | loss |\n|—|—|\n| RoPE | 1.5 |</p>", True),
        ("<p>| arm |</p>", True),
        ("<p>Results: | arm | loss | why |</p>", True),
        ("<p>arm|loss\n|---|---|</p>", True),
        ("<table><tr><td><p>RoPE</p></td><td><p>1.5</p></td></tr></table>", False),
        ("<p><math><mo>|</mo><mi>x</mi><mo>|</mo></math> is <code>a | b | c</code> or a | b.</p>", False),
    ],
    ids=["table", "begins with a bar", "in a sentence", "rule", "a real table", "bars of formulas and code"],
)
def test_a_table_with_bars_is_noticed(markup, raw):
    assert bool(raw_tables(markup)) == raw


@pytest.mark.parametrize("page", PAGES)
def test_no_table_is_printed_with_its_bars(page, site):
    assert raw_tables((site / page).read_text("utf-8")) == []


# --- solutions ----------------------------------------------------------------------------------------------------


def secrets():
    r"""What only instructors have: solved bodies of the labs, and the paragraphs of written solutions."""
    for path in sorted(COURSE.glob("*.py")):
        for body in re.findall(r"### BEGIN SOLUTION\n(.*?)### END SOLUTION", path.read_text("utf-8"), re.S):
            yield path.name, squeezed(body)
    for path in sorted(COURSE.glob("*_solutions.md")):
        for paragraph in path.read_text("utf-8").split("\n\n"):
            yield path.name, squeezed(paragraph)


def squeezed(text):
    return re.sub(r"\s+", "", text)


@needs_sources
def test_no_solution_is_anywhere_in_the_built_tree(site):
    """Search index and data files included; short fragments would be found by chance and are left out."""
    found = [(name, text) for name, text in secrets() if len(text) >= 60]
    assert len(found) > 40
    for path in site.glob("**/*"):
        if path.suffix in (".html", ".js", ".json", ".txt", ".md", ".py", ".ipynb") and path.is_file():
            shown = squeezed(html.unescape(re.sub(r"<[^>]+>", "", path.read_text("utf-8", errors="replace"))))
            for name, text in found:
                assert text not in shown, f"{path.relative_to(site)} holds, from {name}: {text[:80]}"


LANDING = "book/intro.html"
SEEN = "(cards) => cards.filter((card) => card.checkVisibility()).map((card) => card.querySelector('a').textContent)"


@pytest.mark.parametrize("scripts", [True, False])
def test_a_place_on_the_landing_page_leaves_its_methods(scripts, base, open_page):
    page = open_page(base + LANDING, scripts=scripts)
    try:
        cards = page.locator(".method")
        assert cards.evaluate_all(SEEN) == [method.title for method in posenc.METHODS.values()]
        page.locator("input[name=place][value=all]").focus()
        for place in [*reversed(posenc.encoding.PLACES), "all"]:
            page.keyboard.press("ArrowLeft")  # on from the first to the last
            there = [m.title for m in posenc.METHODS.values() if place in (*m.places, "all")]
            assert cards.evaluate_all(SEEN) == there
    finally:
        page.context.close()


@pytest.mark.parametrize("width, height", [(1440, 780), (390, 664)])
def test_the_landing_page_opens_on_its_figure(width, height, base, open_page):
    r"""The whole drawing is on the first screen, and a hand on the bracket moves it."""
    page = open_page(base + LANDING, width=width, height=height)
    try:
        page.evaluate(SETTLE)
        page.wait_for_selector("figure.explorable-live")
        plot = page.locator(".explorable-plot").first.bounding_box()
        assert plot["y"] > 0 and plot["y"] + plot["height"] <= height
        grip = page.locator(".explorable-handle").nth(2).bounding_box()
        x, y = grip["x"] + grip["width"] / 2, grip["y"] + grip["height"] / 2
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + plot["width"] / 4, y, steps=4)
        page.mouse.up()
        state = page.evaluate("posencExplorables.get('clock.two_hands').state()")
        assert (state["m"], state["n"]) == (5, 1) and 5 <= state["shift"] <= 8
    finally:
        page.context.close()


def test_the_methods_on_one_sheet_are_two_pages_of_paper(base, open_page):
    page = open_page(base + "book/sheet.html")
    paper = page.pdf(format="A4", margin=dict.fromkeys(("top", "right", "bottom", "left"), "12mm"))
    assert len(PdfReader(io.BytesIO(paper)).pages) == 2
    page.context.close()
