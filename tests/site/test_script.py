r"""The pages in the hands of a reader: what site.js does, paper, and pages without a script; in a real browser."""

import io

import pytest
from pypdf import PdfReader

import posenc
from posenc.chapters.four_places.figures import FOUR

pytestmark = pytest.mark.browser

CHAPTER = "book/rope/index.html"


@pytest.fixture
def opened(base, open_page):
    r"""opened(page of the site, **options of open_page) -> the page."""
    return lambda path, **options: open_page(base + path, **options)


THEME = "document.documentElement.dataset.theme"
LANDING = "book/intro/index.html"
SEEN = "(cards) => cards.filter((card) => card.checkVisibility()).map((card) => card.querySelector('a').textContent)"


@pytest.mark.parametrize("dark", [False, True])
def test_the_first_press_changes_the_colors_and_the_choice_is_kept(dark, base, opened):
    page = opened(CHAPTER, dark=dark)
    button = page.locator(".theme-switch-button").first
    start, other = ("dark", "light") if dark else ("light", "dark")
    assert page.evaluate(THEME) == start
    button.focus()
    page.keyboard.press("Enter")
    assert page.evaluate(THEME) == other and button.get_attribute("aria-label") == f"Color mode: {other}"
    # On the next page the choice holds before any script file has come: nothing flashes.
    page.route("**/book.js*", lambda route: route.abort())
    page.goto(base + "book/alibi/index.html")
    assert page.evaluate(THEME) == other


def test_search_opens_by_keyboard_and_leads_to_the_results(opened):
    page = opened(CHAPTER)
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


@pytest.mark.parametrize("name, toggle", [("primary", ".primary-toggle"), ("secondary", ".secondary-toggle")])
def test_on_a_phone_a_side_bar_opens_over_the_page(name, toggle, opened):
    page = opened(CHAPTER)
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


def test_paper_is_light_whatever_the_screen_shows(opened):
    seen = []
    for dark, scripts in ((False, True), (True, True), (True, False)):
        page = opened(CHAPTER, dark=dark, scripts=scripts)
        page.emulate_media(media="print", color_scheme="dark" if dark else "light")
        seen.append(page.evaluate(COLORS_OF, PLACES))
    assert seen[0] == seen[1] == seen[2]


def test_without_a_script_a_phone_shows_the_way_to_all_chapters(opened):
    page = opened(CHAPTER, scripts=False)
    page.set_viewport_size({"width": 360, "height": 740})
    for bar, least in (("primary", 20), ("secondary", 8)):
        links = page.locator(f"#pst-{bar}-sidebar a")
        assert sum(link.is_visible() for link in links.all()) >= least
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_what_is_folded_unfolds_on_paper_and_folds_again(opened):
    page = opened(CHAPTER)
    page.emulate_media(reduced_motion="no-preference")  # the theme lets what is unfolded fade in
    folded = "document.querySelectorAll('.bd-article details:not([open])').length"
    before = page.evaluate(folded)
    assert before > 5
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert page.evaluate(folded) == 0
    faint = "[...document.querySelectorAll('.bd-article details > *')].filter((e) => getComputedStyle(e).opacity < 1)"
    assert page.evaluate(f"{faint}.length") == 0, "paper is printed at once"
    page.evaluate("dispatchEvent(new Event('afterprint'))")
    assert page.evaluate(folded) == before


@pytest.mark.parametrize("scripts", [True, False])
def test_a_place_on_the_landing_page_leaves_its_methods(scripts, opened):
    page = opened(LANDING, scripts=scripts)
    cards = page.locator(".method")
    assert cards.evaluate_all(SEEN) == [method.title for method in posenc.METHODS.values()]
    page.locator("input[name=place][value=all]").focus()
    for place in [*reversed(FOUR), "all"]:
        page.keyboard.press("ArrowLeft")  # on from the first to the last
        there = [m.title for m in posenc.METHODS.values() if place in (*m.places, "all")]
        assert cards.evaluate_all(SEEN) == there


@pytest.mark.parametrize("to", ["#equation-", "#thm-"])
def test_what_a_reference_leads_to_is_shown_to_mouse_and_keyboard(to, opened):
    page = opened("book/relative/index.html")
    page.evaluate("dispatchEvent(new Event('keydown'))")  # the reader begins
    page.add_style_tag(content="* { content-visibility: visible !important; }")
    link = page.locator(f'.bd-article a.reference[href*="{to}"]:not([href^="../"])').first
    title = link.get_attribute("title")
    link.scroll_into_view_if_needed()
    page.evaluate("""async () => {
        await posencExplorables.idle(); // what comes into view moves nothing any more, and the scroll has been told
        for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
    }""")
    peek = page.locator("#peek")
    mouse = {"pointerType": "mouse"}
    link.dispatch_event("pointerover", mouse)
    peek.wait_for(state="visible")
    shown = peek.inner_text()
    assert len(shown) > 20 and "#" not in shown and not peek.locator("[id]").count()
    page.locator("#pst-page-toc-nav").dispatch_event("pointerover", mouse)
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


@pytest.mark.parametrize("by", ["address", "contents"])
def test_a_link_into_a_page_lands_at_its_heading(by, opened):
    page = opened(CHAPTER + ("#longer-than-training" if by == "address" else ""))
    page.set_viewport_size({"width": 1280, "height": 800})
    if by == "contents":  # no section on the way has been laid out
        page.locator('#pst-page-toc-nav a[href="#longer-than-training"]').click()
    page.wait_for_function("""() => {
        const {top} = document.querySelector('#longer-than-training :is(h2, h3)').getBoundingClientRect();
        return 0 <= top && top < 150;
    }""")


@pytest.mark.parametrize("words, chapter", [("rotation", "rope"), ("YaRN", "scaling")])
def test_search_finds_first_the_chapter_that_teaches_it(words, chapter, opened):
    page = opened(f"search.html?q={words}")
    page.set_viewport_size({"width": 360, "height": 740})
    found = page.locator("#search-results li a")
    page.locator(".search-summary").filter(has_text="The best come first").wait_for()
    assert f"book/{chapter}/index.html" in found.first.get_attribute("href")
    assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_the_methods_on_one_sheet_are_two_pages_of_paper(opened):
    page = opened("book/sheet/index.html")
    paper = page.pdf(format="A4", margin=dict.fromkeys(("top", "right", "bottom", "left"), "12mm"))
    assert len(PdfReader(io.BytesIO(paper)).pages) == 2


def test_an_old_address_takes_its_fragment_along(base, opened):
    page = opened("book/rope.html#the-idea")
    page.wait_for_url(base + "book/rope/index.html#the-idea")
