r"""The built book in a real browser, with the network off."""

import io

import pytest
from conftest import SITE, missing
from pypdf import PdfReader

pytestmark = [pytest.mark.browser, pytest.mark.weekly]

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


every_page = pytest.mark.parametrize("opened", PAGES, indirect=True)


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


@every_page
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


@every_page
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


@every_page
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


@every_page
@pytest.mark.parametrize("theme, size", [("light", "wide"), ("light", "phone"), ("dark", "wide")])
def test_axe_finds_nothing(opened, theme, size):
    assert axe(opened, theme, size) == []


@every_page
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


@every_page
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


def test_the_system_changes_the_colors_where_nobody_chose(base, open_page):
    page = open_page(base + CHAPTER)
    try:
        page.emulate_media(color_scheme="dark")
        page.wait_for_timeout(500)
        assert page.evaluate(THEME) == "dark"
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


# --- paper, and readers without a script -----------------------------------------------------------------------------


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


# --- tables -------------------------------------------------------------------------------------------------------


# --- solutions ----------------------------------------------------------------------------------------------------


LANDING = "book/intro.html"


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
