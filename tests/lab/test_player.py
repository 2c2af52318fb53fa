r"""The player in a real browser: it waits, it speaks, it fills a screen, it is embedded, and no address harms it."""

import functools
import http.server
import io
import math
import random
import re
import shutil
import sys
import threading
from urllib.parse import quote

import pytest
from conftest import ROOT, SITE, Log, missing
from PIL import Image
from states import fragment, parse

from posenc.lab.explore import STATIC, explorable, slider
from posenc.lab.explore.page import escape
from posenc.lab.figures import load

sys.path.insert(0, str(ROOT / "book" / "_ext"))
from bundle import FIRST_SCRIPT, POLICY

pytestmark = pytest.mark.browser

EMBEDDED = sorted(path.stem for path in (SITE / "embed").glob("*.html"))
STUB = "window.Plotly = { react: async () => {} };"  # for tests of the sliders alone: drawing takes most of the time


@pytest.fixture(scope="module")
def strict(site):
    r"""The address of the built site, served with a content policy that allows its own host alone."""

    class Strict(http.server.SimpleHTTPRequestHandler):
        def end_headers(self):
            self.send_header("Content-Security-Policy", POLICY)
            super().end_headers()

        def log_message(self, *_):
            pass

    class Server(http.server.ThreadingHTTPServer):
        def handle_error(self, *_):
            pass  # a page that is left stops listening

    server = Server(("127.0.0.1", 0), functools.partial(Strict, directory=str(site)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()


@pytest.fixture(scope="module")
def opened(strict, browser):
    r"""opened(path, stub=, hold=) -> a page of the site under the policy, as it stands; closed when the file is done.

    What `hold` names, by patterns of addresses, waits in page.held until it is let go on. No other request is
    intercepted: that would turn the browser's cache off, and these tests load the same files often.
    """
    contexts = []

    def open_(path, stub=False, hold=()):
        contexts.append(browser.new_context(viewport={"width": 1280, "height": 900}, reduced_motion="reduce"))
        page = contexts[-1].new_page()
        page.log, page.asked, page.held = Log(page), [], {}
        for pattern in hold:
            page.route(pattern, lambda route, _, pattern=pattern: page.held.update({pattern: route}))
        page.on("request", lambda request: page.asked.append(request.url))
        if stub:
            page.add_init_script(STUB)
        page.goto(strict + path)
        return page

    yield open_
    for context in contexts:
        context.close()


@pytest.fixture(scope="module")
def example(site):
    r"""An explorable with numeric sliders, a readout and a page to embed."""
    if not EMBEDDED:
        missing(f"no page to embed in {SITE / 'embed'}: run `make html` first")
    shown = map(load, EMBEDDED)
    return next(e for e in shown if e.readout and not next(iter(e.sliders.values())).buttons)


@pytest.fixture(scope="module")
def embed(opened, example):
    r"""Its page to embed, drawn."""
    page = opened(f"embed/{example.id}.html")
    page.mouse.move(9, 9)
    page.wait_for_selector("figure.explorable-live")
    return page


def chapter(id):
    r"""The address of the book's page that an embedded page names as its source."""
    return re.search(r'href="\.\./([^"]+)">', (SITE / "embed" / f"{id}.html").read_text("utf-8").split("<h1>")[1])[1]


def until(page, what, arg=None):
    r"""Wait until `what` is true on the page: Playwright's `wait_for_function` uses eval, which the policy forbids."""
    for _ in range(200):
        if page.evaluate(what, arg):
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"not so after 5 seconds: {what}, {arg}")


def stands_at(page, id, wanted):
    r"""Wait until the sliders stand at these values."""
    at = "([id, wanted]) => posencExplorables.get(id).ready() && posencExplorables.get(id).state()"
    for _ in range(200):
        if (got := page.evaluate(at, [id, wanted])) == wanted:
            return
        page.wait_for_timeout(25)
    raise AssertionError(f"{id} stands at {got}, not at {wanted}")


SPOKEN = "(text) => document.querySelector('[role=status]').textContent === text"


# --- it waits --------------------------------------------------------------------------------------------------------

ACTS = {
    "pointer": lambda page: page.mouse.move(9, 9),
    "key": lambda page: page.keyboard.press("Shift"),
    "scroll": lambda page: page.evaluate("window.dispatchEvent(new Event('scroll'))"),
}


@pytest.mark.parametrize("act", ACTS)
def test_a_figure_in_view_waits_for_the_reader(act, opened, example):
    page = opened(f"embed/{example.id}.html")
    page.wait_for_timeout(300)
    assert page.locator(".explorable-picture").is_visible()
    assert not [url for url in page.asked if "plotly" in url or ".data.js" in url]
    ACTS[act](page)
    page.wait_for_selector("figure.explorable-live")
    assert len([url for url in page.asked if "plotly" in url]) == 1
    assert page.log.problems == []


@pytest.mark.parametrize("saves", [False, True], ids=["as it comes", "saves data"])
def test_a_figure_on_the_first_screen_wakes_when_the_page_rests(saves, opened, example):
    page = opened("embed/")  # any address of the site
    page.add_init_script(
        f"Object.defineProperty(navigator, 'connection', {{value: {{saveData: {str(saves).lower()}}}}})"
    )
    page.goto(page.url + f"{example.id}.html")
    page.wait_for_timeout(3500)
    assert bool(page.locator("figure.explorable-live").count()) == (not saves)


def test_the_whole_page_loads_plotly_once_and_only_near(opened, example):
    page = opened(chapter(example.id).partition("#")[0])
    page.wait_for_timeout(300)
    assert not [url for url in page.asked if "plotly" in url]
    heights = page.evaluate("[...document.querySelectorAll('figure.explorable')].map((f) => f.offsetHeight)")
    page.mouse.move(9, 9)
    page.wait_for_timeout(300)
    first = page.evaluate("posencExplorables.list[0].figure.getBoundingClientRect().top - innerHeight")
    assert first < 400 or not [url for url in page.asked if "plotly" in url]
    page.evaluate("""async () => {
        posencExplorables.list[0].figure.scrollIntoView({behavior: 'instant'});
        for (const e of posencExplorables.list.slice(1)) e.start(); // all at once, as on a page read in haste
    }""")
    live = "posencExplorables.list.filter((e) => e.controls).length"  # the others are drawn by scripts of their own
    until(page, f"document.querySelectorAll('figure.explorable-live').length === {live}")
    assert page.locator('script[src*="plotly"]').count() == 1
    assert heights == page.evaluate("[...document.querySelectorAll('figure.explorable')].map((f) => f.offsetHeight)")
    blocked = [line for line in page.log.problems if "_static/explore" in line]
    assert blocked == [], "the policy stops the player"


SHIFTS = """new PerformanceObserver((found) => {
    for (const entry of found.getEntries()) window.shifted = (window.shifted || 0) + entry.value;
}).observe({type: 'layout-shift', buffered: true});"""


def test_the_first_key_moves_the_slider_while_all_is_on_its_way(opened, example):
    e, (name, first) = example, next(iter(example.sliders.items()))
    place = first.start + (1 if first.start + 1 < len(first.values) else -1)
    wanted = {**e.default_state(), name: first.values[place]}
    plotly, states = "**/plotly-cartesian.min.js", "**/*.data.js"
    page = opened(f"embed/{e.id}.html", hold=(plotly, states))  # from the start: who is on a page may stir it early
    page.evaluate(SHIFTS)
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowRight" if place > first.start else "ArrowLeft")
    field = page.locator(f'input[name="{name}"]')
    assert field.input_value() == str(place)
    assert field.get_attribute("aria-valuetext") == page.locator(".explorable-value").first.text_content() == "…"
    page.wait_for_selector(".explorable-note")
    assert page.locator(".explorable-note").text_content().startswith("Loading")
    until(page, SPOKEN, "Loading the drawing")
    page.held[states].continue_()
    stands_at(page, e.id, wanted)
    assert field.get_attribute("aria-valuetext") == first.words[place], "the words wait for the drawing"
    page.held[plotly].continue_()
    page.wait_for_selector("figure.explorable-live")
    assert page.locator(".explorable-note").count() == 0
    until(page, SPOKEN, e.readout_text(e.evaluate(wanted)["readout"]))
    assert page.evaluate("window.shifted || 0") <= 0.02  # what a reader's own act moves is counted here too
    assert page.log.problems == []


def test_a_lost_line_is_told_and_tried_again(opened, example):
    page = opened(f"embed/{example.id}.html")
    page.route("**/plotly-cartesian.min.js", lambda route: route.abort())
    page.mouse.move(9, 9)
    page.wait_for_selector(".explorable-note")
    assert page.locator(".explorable-note").text_content().count("could not load") == 1
    page.unroute("**/plotly-cartesian.min.js")
    page.locator("input").first.focus()
    page.wait_for_selector("figure.explorable-live")
    assert page.locator(".explorable-note").count() == 0
    assert not [line for line in page.log.problems if line.startswith("error:")]


# --- by keyboard, in words -------------------------------------------------------------------------------------------

FOCUSED = """() => {
    const e = document.activeElement, box = e.getBoundingClientRect();
    const style = getComputedStyle(e.type === 'radio' ? e.nextSibling : e);
    return {tag: e.tagName, text: e.textContent, inside: Boolean(e.closest('figure.explorable')),
        name: e.tagName === 'INPUT' ? e.closest('.explorable-control').querySelector('.explorable-label').textContent
            : e.getAttribute('aria-label') || e.textContent,
        said: e.type === 'radio' ? e.nextSibling.textContent : e.getAttribute('aria-valuetext'),
        color: style.outlineColor,
        outline: style.outlineStyle === 'none' ? 0 : parseFloat(style.outlineWidth),
        width: box.width, height: box.height};
}"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_control_is_reached_named_seen_and_large(dark, embed, example):
    embed.emulate_media(color_scheme="dark" if dark else "light")
    embed.locator("h1").click()  # Tab goes on from there
    stops = []
    for _ in range(len(example.sliders) + 4):  # reset, full screen, what to see; the link to the book comes last
        embed.keyboard.press("Tab")
        stops.append(embed.evaluate(FOCUSED))
    inside = [stop for stop in stops if stop["inside"]]
    names = [stop["name"] for stop in inside]
    assert names == [*(s.label for s in example.sliders.values()), "Reset", "Full screen", "What to see"]
    ground = 0 if dark else 1
    for stop in stops:
        if stop["tag"] == "BODY":
            continue
        assert stop["outline"] >= 2, f"{stop['name']}: its focus is not seen"
        light = sum(map(int, re.findall(r"\d+", stop["color"])[:3])) / 765
        assert abs(light - ground) > 0.4, f"{stop['name']}: its focus is too faint: {stop['color']}"
        if stop["inside"]:
            assert min(stop["width"], stop["height"]) >= 24, f"{stop['name']}: {stop}"
    assert [stop["said"] for stop in inside][: len(example.sliders)] == [
        s.words[s.start] for s in example.sliders.values()
    ]


def test_a_drag_is_told_once_at_rest(embed, example):
    name = max(example.sliders, key=lambda name: len(example.sliders[name].values))
    count, end = embed.evaluate(
        """async (name) => {
            const input = document.querySelector(`input[name="${name}"]`), told = [];
            const spoken = document.querySelector('[role=status]');
            const heard = new MutationObserver(() => { if (spoken.textContent) told.push(spoken.textContent); });
            heard.observe(spoken, {childList: true});
            for (let i = 0; i <= 20; i++) {
                input.value = i % (Number(input.max) + 1);
                input.dispatchEvent(new Event('input', {bubbles: true}));
                await new Promise((done) => setTimeout(done, 20));
            }
            await new Promise((done) => setTimeout(done, 900));
            return [told.length, told[0]];
        }""",
        name,
    )
    assert (count, end) == (1, embed.locator(".explorable-readout").text_content())
    assert embed.locator(".explorable-readout").get_attribute("aria-live") is None, "each frame would be read aloud"
    embed.locator(".explorable-reset").focus()
    embed.keyboard.press("Enter")
    wanted = f"Reset. {example.readout_text(example.evaluate()['readout'])}"
    until(embed, SPOKEN, wanted)


def test_the_drawing_says_what_to_see(embed, example):
    drawing = embed.locator(".explorable-drawing")
    assert (drawing.get_attribute("role"), drawing.get_attribute("aria-label")) == ("img", example.alt)
    assert not embed.locator(".explorable-picture").is_visible(), "it would be read twice"


def test_nothing_moves_by_itself():
    for path in (STATIC / "player.css", STATIC / "player.js"):
        text = re.sub(r"/\*.*?\*/|//[^\n]*", "", path.read_text("utf-8"), flags=re.S)
        assert not re.search(r"\b(transition|animation|smooth|animate)\b", text), path.name


@pytest.mark.parametrize("system", ["light", "dark"])
@pytest.mark.parametrize("stored", ["light", "dark"])
def test_forced_colors_stand_over_a_choice(stored, system, opened, example):
    page = opened(f"embed/{example.id}.html")
    page.evaluate("(mode) => localStorage.setItem('mode', mode)", stored)
    page.reload()
    page.mouse.move(9, 9)
    page.wait_for_selector("figure.explorable-live")
    page.emulate_media(forced_colors="active", color_scheme=system)
    drawn = "() => document.querySelector('.explorable-drawing .xtick text').style.fill"
    until(page, f"({drawn})() === '{'rgb(230, 233, 238)' if system == 'dark' else 'rgb(31, 41, 51)'}'")
    picture = page.evaluate("getComputedStyle(document.querySelector('img.explorable-picture')).filter")
    assert (picture != "none") == (system == "dark")
    page.emulate_media(forced_colors="none", color_scheme=system)
    until(page, f"({drawn})() === '{'rgb(230, 233, 238)' if stored == 'dark' else 'rgb(31, 41, 51)'}'")


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
@pytest.mark.parametrize("where", ["embed", "book"])
def test_pictures_are_read_without_scripts(where, dark, site, strict, open_page, example):
    address = f"embed/{example.id}.html" if where == "embed" else chapter(example.id).partition("#")[0]
    page = open_page(strict + address, dark=dark, scripts=False)
    try:
        picture = page.locator("img.explorable-picture").first
        picture.scroll_into_view_if_needed()
        page.wait_for_timeout(200)
        shown = Image.open(io.BytesIO(picture.screenshot())).convert("L")
        ground, (low, high) = shown.getpixel((1, 1)), shown.getextrema()
        assert ground < 50 if dark else ground > 245, "the ground is the page's"
        assert high > 180 if dark else low < 75, "axes and words stand out"
    finally:
        page.context.close()


CROWDED = """() => {
    const drawing = document.querySelector('.explorable-drawing'), edge = drawing.getBoundingClientRect(), out = [];
    const all = (what) => [...drawing.querySelectorAll(what)].map((n) => [n.textContent, n.getBoundingClientRect()]);
    const titles = all('.infolayer text[class^=x][class$=title]');
    for (const [text, box] of [...titles, ...all('.legendtext')]) {
        if (box.left < edge.left - 1 || box.right > edge.right + 1) out.push(`cut: ${text}`);
    }
    const meet = (a, b, low, high, gap) => Math.min(a[high], b[high]) - Math.max(a[low], b[low]) > -gap;
    for (const [labels, gap] of [[titles, 2], [all('.xtick text'), 0], [all('.x2tick text'), 0]]) {
        labels.forEach(([text, a], i) => labels.slice(0, i).forEach(([other, b]) => {
            if (meet(a, b, 'left', 'right', gap) && meet(a, b, 'top', 'bottom', 0)) out.push(`${other} meets ${text}`);
        }));
    }
    if (!titles.length) out.push('no title');
    return out;
}"""
NARROW = {"practice.ids", "practice.wrong_ids", "rse.same_scores"}


@pytest.mark.parametrize("id", sorted(NARROW & set(EMBEDDED)) or EMBEDDED[:1])
def test_words_are_whole_on_a_narrow_screen(id, opened):
    page = opened(f"embed/{id}.html")
    page.set_viewport_size({"width": 320, "height": 640})
    page.mouse.move(9, 9)
    page.wait_for_selector("figure.explorable-live")
    page.wait_for_timeout(200)
    assert page.evaluate(CROWDED) == []


# --- in the hand -----------------------------------------------------------------------------------------------------


def dial(m, n, kind, step, heads, head):
    r"""A point on a circle that follows m, a cell that follows m and n, a curve that follows the rest."""
    data = [
        {"name": "arrow", "x": [0, math.cos(0.3 * m)], "y": [0, math.sin(0.3 * m)], "mode": "lines"},
        {"name": "cell", "x": [m], "y": [n], "xaxis": "x2", "yaxis": "y2", "mode": "markers"},
        {"name": "line", "x": [n, n], "y": [0, 12], "xaxis": "x2", "yaxis": "y2", "mode": "lines"},
        {"name": "curve", "x": [0, 1], "y": [0, step if kind == "steps" else head / heads], "mode": "lines"},
    ]
    ranges = {"xaxis": [-1.2, 1.2], "yaxis": [-1.2, 1.2], "xaxis2": [-1, 13], "yaxis2": [-1, 13]}
    layout = {name: {"range": limits} for name, limits in ranges.items()}
    for name, domain in (("xaxis", [0, 0.45]), ("xaxis2", [0.55, 1])):
        layout[name]["domain"] = domain
    layout["xaxis2"]["anchor"], layout["yaxis2"]["anchor"] = "y2", "x2"
    return {"data": data, "layout": {**layout, "height": 320}}, {"m": m, "n": n}


def made_by(fn=dial, **changes):
    arguments = dict(
        id="made.dial",
        title="t",
        alt="a",
        readout="m {m:d} · n {n:d}",
        handles={"arrow": "m", "cell": ("m", "n"), "line": "n"},
        depends={"arrow": ["m"], "cell": ["m", "n"], "line": ["n"], "curve": ["kind", "step", "heads", "head"]}
        | {"readout.m": ["m"], "readout.n": ["n"]},
        m=slider(range(12), label="query m"),
        n=slider(range(12), label="key n", default=8),
        kind=slider(["steps", "heads"], label="what the curve shows"),
        step=slider(range(4), label="steps", play=True),
        heads=slider([2, 4, 8, 12, 16], label="heads H", default=16),
        head=slider(range(1, 17), label="head", default=9, at_most="heads"),
    )
    return explorable(fn, **(arguments | changes))


@pytest.fixture(scope="module")
def hand(browser, tmp_path_factory):
    r"""hand(*explorables, **options of the context) -> a page from disk that shows them, each drawn."""
    contexts = []

    def open_(*shown, **options):
        folder = tmp_path_factory.mktemp("hand")
        for name in ("player.js", "player.css", "plotly-cartesian.min.js"):
            shutil.copyfile(STATIC / name, folder / name)
        figures = "".join(
            f'<figure class="explorable">{e.body_html(f"p{i}", None, inline=True)}</figure>'
            for i, e in enumerate(shown)
        )
        (folder / "page.html").write_text(
            '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="player.css">'
            f'<script defer src="player.js"></script><body class="explorable-page">{figures}',
            "utf-8",
        )
        contexts.append(browser.new_context(viewport={"width": 1000, "height": 800}, **options))
        page = contexts[-1].new_page()
        page.log = Log(page)
        page.goto((folder / "page.html").as_uri())
        page.evaluate("Promise.all(posencExplorables.list.map((e) => e.start()))")
        until(page, f"document.querySelectorAll('.explorable-live').length === {len(shown)}")
        return page

    yield open_
    for context in contexts:
        context.close()


def at(page, which=0):
    return page.evaluate("(i) => posencExplorables.list[i].state()", which)


def middle(page, i):
    box = page.locator(".explorable-handle").nth(i).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


def test_a_drag_takes_the_nearest_state_and_a_click_brings_the_point(hand):
    page = hand(made_by())
    x, y = middle(page, 0)  # the arrow points right, at m = 0
    center = page.evaluate(CENTER)
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, 9):  # along the circle to m = 4
        before, turn = at(page)["m"], 0.15 * step
        page.mouse.move(center[0] + (x - center[0]) * math.cos(turn), center[1] - (x - center[0]) * math.sin(turn))
        page.wait_for_timeout(30)
        assert at(page)["m"] >= before
    page.mouse.up()
    assert at(page)["m"] == 4 and page.evaluate("location.hash") == "#made.dial=m:4"
    until(page, "posencExplorables.list[0].readout() === 'm 4 · n 8'")
    x, y = middle(page, 1)  # one step right and three down on the map
    one = page.evaluate(
        "() => { const {xaxis2: a} = posencExplorables.list[0].figure.querySelector"
        "('.explorable-drawing')._fullLayout; return a.d2p(1) - a.d2p(0); }"
    )
    page.mouse.click(x + one, y + 1)
    assert at(page)["m"] == 5 and at(page)["n"] == 8
    x, y = middle(page, 2)  # an upright line is held anywhere
    page.mouse.move(x, y - 60)
    page.mouse.down()
    page.mouse.move(x - 3 * one, y + 20)
    page.mouse.up()
    assert (at(page)["m"], at(page)["n"]) == (5, 5)
    assert page.log.problems == []


CENTER = """() => { const d = posencExplorables.list[0].figure.querySelector('.explorable-drawing');
    const {xaxis: x, yaxis: y} = d._fullLayout, box = d.getBoundingClientRect();
    return [box.x + x._offset + x.d2p(0), box.y + y._offset + y.d2p(0)]; }"""


def test_a_tile_among_others_of_one_control_changes_places_with_one(hand):
    page = hand(load("why_position.shuffle"))
    page.evaluate("posencExplorables.list[0].set({sentence: 0})")  # the dog bit a man
    tops = [middle(page, i) for i in range(5)]
    page.mouse.move(*tops[0])
    page.mouse.down()
    for x, y in tops[1:4]:  # past two words, onto the third
        page.mouse.move(x, y)
        page.wait_for_timeout(60)
    page.mouse.up()
    assert page.evaluate("document.querySelector('.explorable-value').textContent") == "a dog bit the man"
    assert page.log.problems == []


def test_a_drag_may_raise_a_control_and_its_limit_at_once(hand):
    page = hand(load("relative.four_terms"))
    pairs = [f"posencExplorables.list[0].set({{query: {q}, key: {k}}})" for q, k in ((2, 1), (7, 6))]
    page.evaluate(pairs[1])
    page.wait_for_timeout(80)
    there = middle(page, 0)
    page.evaluate(pairs[0])
    page.wait_for_timeout(80)
    page.mouse.move(*middle(page, 0))
    page.mouse.down()
    page.mouse.move(*there)
    page.mouse.up()
    assert (at(page)["query"], at(page)["key"]) == (7, 6)


def test_a_finger_on_a_handle_drags_and_elsewhere_scrolls(hand):
    page = hand(made_by(), has_touch=True)
    assert page.evaluate("getComputedStyle(document.querySelector('.explorable-handle')).touchAction") == "none"
    assert page.evaluate("getComputedStyle(document.querySelector('.explorable-plot')).touchAction") != "none"
    x, y = middle(page, 1)
    finger = page.context.new_cdp_session(page)
    for kind, points in (
        ("touchStart", [(x, y)]),
        ("touchMove", [(x + 40, y)]),
        ("touchMove", [(x + 90, y + 40)]),
        ("touchEnd", []),
    ):
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": a, "y": b} for a, b in points]})
    page.wait_for_timeout(60)
    state = at(page)
    assert state["m"] > 0 and state["n"] < 8
    assert page.evaluate("scrollY") == 0


def test_what_has_no_effect_is_greyed_and_says_why(hand):
    page = hand(made_by())
    control = page.locator("[data-name=heads]")
    until(page, "document.querySelector('[data-name=heads] .explorable-why')")
    assert "what the curve shows" in control.locator(".explorable-why").inner_text()
    assert control.locator("input").is_disabled() and page.locator("[data-name=step] input").is_enabled()
    page.locator("[data-name=kind] label").nth(1).click()
    assert at(page)["kind"] == "heads"
    until(page, "!document.querySelector('[data-name=heads] .explorable-why')")
    assert control.locator("input").is_enabled() and page.locator("[data-name=step] input").is_disabled()


def test_a_slider_stays_below_the_one_that_limits_it(hand):
    page = hand(made_by())
    page.locator("[data-name=kind] label").nth(1).click()
    until(page, "!document.querySelector('[data-name=heads] input').disabled")
    page.locator("[data-name=heads] input").focus()
    page.keyboard.press("Home")
    assert at(page)["heads"] == 2 and at(page)["head"] == 2
    assert page.locator("[data-name=head] input").get_attribute("max") == "1"
    page.evaluate("posencExplorables.list[0].set({head: 12})")
    assert at(page)["head"] == 2


def test_buttons_above_a_limit_stay_shut_when_their_control_has_an_effect_again(hand):
    def draw(kind, most, head):
        return {"data": [{"name": "a", "x": [most, head if kind == "by head" else 0], "y": [0, 1]}]}

    sliders = dict(most=slider([1, 2, 3], default=2), head=slider([1, 2, 3], default=1, at_most="most"))
    page = hand(explorable(draw, title="t", alt="t", id="made.limit", kind=["alone", "by head"], **sliders))
    buttons = page.locator("[data-name=head] input")
    until(page, "document.querySelector('[data-name=head] .explorable-why')")
    assert [b.is_enabled() for b in buttons.all()] == [False, False, False]
    page.locator("[data-name=kind] label").nth(1).click()
    until(page, "!document.querySelector('[data-name=head] .explorable-why')")
    assert [b.is_enabled() for b in buttons.all()] == [True, True, False]


@pytest.mark.parametrize("motion", ["no-preference", "reduce"])
def test_play_runs_to_the_end_or_goes_by_steps(motion, hand):
    page = hand(made_by(), reduced_motion=motion)
    button = page.locator(".explorable-play")
    name = button.get_attribute("aria-label")
    button.click()
    page.wait_for_timeout(100)
    assert at(page)["step"] == 1 and (button.get_attribute("aria-label") != name) == (motion == "no-preference")
    page.wait_for_timeout(2500)
    assert at(page)["step"] == (1 if motion == "reduce" else 3)
    if motion == "no-preference":
        assert button.get_attribute("aria-label") == name, "it has stopped"
        button.click()
        page.wait_for_timeout(100)
        button.click()
        held = at(page)["step"]
        page.wait_for_timeout(1200)
        assert at(page)["step"] == held < 3, "it pauses"


def test_a_move_carries_to_the_same_control_of_other_figures_and_says_so(hand):
    other = made_by(id="made.other", n=slider(range(12), label="another n", default=8))
    page = hand(made_by(), other)
    page.locator("[data-name=m] input").first.focus()
    page.keyboard.press("ArrowRight")
    page.locator("[data-name=n] input").first.focus()
    page.keyboard.press("ArrowLeft")
    assert (at(page)["m"], at(page)["n"]) == (1, 7)
    assert (at(page, 1)["m"], at(page, 1)["n"]) == (1, 8), "another label is another parameter"
    assert "query m 1" in page.locator(".explorable-remark").nth(1).inner_text()
    page.locator("[data-name=n] input").nth(1).focus()
    page.keyboard.press("ArrowLeft")
    assert page.locator(".explorable-remark").nth(1).inner_text() == "", "its own move ends what was said"
    page.evaluate("posencExplorables.list[1].set({m: 5})")
    page.locator("[data-name=n] input").nth(1).focus()
    page.keyboard.press("ArrowLeft")
    assert at(page)["m"] == 1, "what an address has set does not travel with the next move"


# --- full screen -----------------------------------------------------------------------------------------------------


def test_full_screen_fills_the_screen_with_larger_type(embed, example):
    page = embed
    page.set_viewport_size({"width": 1600, "height": 1000})
    type_ = "() => document.querySelector('.explorable-drawing .xtick text').getBoundingClientRect().height"
    small = page.evaluate(type_)
    button = page.locator(".explorable-full")
    button.focus()
    page.keyboard.press("Enter")
    until(page, "document.fullscreenElement && document.fullscreenElement.matches('figure.explorable')")
    until(page, "document.querySelector('.explorable-drawing').style.transform !== ''")
    assert button.text_content().startswith("Leave")
    reached = set()
    for _ in range(12):
        page.keyboard.press("Tab")
        reached.add(page.evaluate("!document.activeElement.closest('figure, body:not(:has(:focus))')"))
    assert reached == {False}, "Tab stays in the figure"
    button.focus()
    assert page.evaluate(type_) > 1.3 * small
    box, plot = page.locator(".explorable-drawing").bounding_box(), page.locator(".explorable-plot").bounding_box()
    assert all(abs(box[side] - plot[side]) <= 2 for side in box), "the drawing fills its place"
    assert plot["width"] > 1450 and plot["height"] > 400
    svg = page.locator(".explorable-drawing .main-svg").first.bounding_box()
    assert abs(svg["width"] - plot["width"]) <= 4 and abs(svg["height"] - plot["height"]) <= 4
    assert page.evaluate("document.querySelector('figure').scrollHeight <= innerHeight")
    page.keyboard.press("Enter")
    until(page, "!document.fullscreenElement && !document.querySelector('[inert]')")
    until(page, "document.querySelector('.explorable-drawing').style.transform === ''")
    assert not button.text_content().startswith("Leave")
    page.set_viewport_size({"width": 1280, "height": 900})


def test_the_keys_of_the_search_rest_in_full_screen(opened, example):
    page = opened(chapter(example.id).partition("#")[0], stub=True)
    page.locator(".explorable-full").first.focus()
    page.keyboard.press("Enter")
    until(page, "Boolean(document.fullscreenElement)")
    page.wait_for_timeout(100)
    for key in ("Control+k", "Meta+k"):
        page.keyboard.press(key)
        assert page.locator("dialog[open]").count() == 0, f"{key} opens what cannot be reached"
    page.keyboard.press("Enter")
    until(page, "!document.fullscreenElement && !document.querySelector('[inert]')")
    page.wait_for_timeout(100)
    page.keyboard.press("Control+k")
    assert page.locator("dialog[open]").count() == 1, "the search answers again"


def test_no_full_screen_where_there_is_none(opened, example):
    page = opened("embed/")  # any address of the site
    page.add_init_script("Object.defineProperty(document, 'fullscreenEnabled', {value: false});")
    page.goto(page.url + f"{example.id}.html")
    assert page.locator(".explorable-reset").is_visible()
    assert page.locator(".explorable-full").count() == 0


def test_in_a_notebook_it_draws_by_itself_and_leaves_the_page_alone(browser):
    e = explorable(lambda m: {"data": [{"name": "a", "x": [m]}]}, title="t", alt="t", m=range(6))
    page = browser.new_page()
    try:
        body = e.body_html("p", None, inline=True)
        page.set_content(f'<!doctype html><script>{STUB}</script><figure class="explorable">{body}</figure>')
        page.add_script_tag(content=(STATIC / "player.js").read_text("utf-8"))
        page.wait_for_selector("figure.explorable-live")
        page.locator("input").focus()
        page.keyboard.press("End")
        page.wait_for_timeout(50)
        assert page.evaluate("posencExplorables.list[0].state()") == {"m": 5}
        assert page.locator(".explorable-full").count() == 0
        assert page.evaluate("location.hash") == ""
    finally:
        page.close()


# --- embedding -------------------------------------------------------------------------------------------------------


def test_each_explorable_of_the_book_has_a_page_to_embed(site):
    shown = set()
    for path in site.glob("book/**/*.html"):
        shown |= set(re.findall(r'data-src="([\w.]+?)\.[0-9a-f]{10}\.data\.js"', path.read_text("utf-8")))
    assert shown and shown == set(EMBEDDED)
    for id in EMBEDDED:
        e, text = load(id), (site / "embed" / f"{id}.html").read_text("utf-8")
        assert '<html lang="en"' in text and f"<title>{escape(e.title)}</title>" in text
        assert f'<meta name="description" content="{escape(e.alt)}">' in text
        assert f"<summary>What to see</summary><p>{escape(e.alt)}</p>" in text
        inert = text.replace(f"<script>{FIRST_SCRIPT}</script>", "")
        assert f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">' in text and inert != text
        assert not re.search(r"<script(?![^>]* src=)|\bon\w+=|src=\"https?:|\"/", inert), "a policy would stop it"
        links = re.findall(r"<a\b[^>]*>", text)
        assert len(links) >= 2 and all('target="_top"' in link for link in links), "the book would open in the frame"
        assert re.search(r'Built <time datetime="[\dTZ:-]{17}">\w+ \d+, \d{4}</time>', text)
        assert f"/issues/new?title=Mistake%20on%20embed/{id}" in text
        for link in re.findall(r'(?:src|href)="(\.\./[^"?#]+)', text):
            assert (site / "embed" / link).resolve().is_file(), f"{id}: {link}"
        page, _, anchor = chapter(id).partition("#")
        assert f'id="{anchor}"' in (site / page).read_text("utf-8")


def test_a_page_to_embed_is_for_everyone(embed):
    try:
        from axe_playwright_python.sync_playwright import Axe
    except ImportError:
        missing("axe is missing: .venv/bin/pip install axe-playwright-python")
    for dark in ("light", "dark"):
        embed.emulate_media(color_scheme=dark)
        assert [v["id"] for v in Axe().run(embed).response["violations"]] == []
    embed.emulate_media(color_scheme="light")
    embed.set_viewport_size({"width": 320, "height": 640})
    embed.wait_for_timeout(200)
    assert embed.evaluate("document.documentElement.scrollWidth") <= 320
    embed.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.parametrize("stored", ["light", "dark"])
def test_a_page_to_embed_honors_the_stored_choice(stored, opened, example):
    page = opened(f"embed/{example.id}.html")
    page.evaluate("(mode) => localStorage.setItem('mode', mode)", stored)
    page.emulate_media(color_scheme="dark" if stored == "light" else "light")
    page.wait_for_load_state("networkidle")  # else the reload breaks off what is still on its way
    page.reload()
    page.mouse.move(9, 9)
    page.wait_for_selector("figure.explorable-live")
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    ink = page.evaluate("document.querySelector('.explorable-drawing .xtick text').style.fill")
    dark = [sum(map(int, re.findall(r"\d+", color)[:3])) < 300 for color in (ground, ink)]
    assert dark == ([False, True] if stored == "light" else [True, False]), (ground, ink)
    assert not [line for line in page.log.problems if "favicon" not in line]  # left behind at the reload


def test_a_page_to_embed_follows_the_system_without_a_reload(embed):
    ink = "() => getComputedStyle(document.querySelector('.explorable-drawing .xtick text')).fill"
    colors = []
    for scheme in ("light", "dark", "light"):
        embed.emulate_media(color_scheme=scheme)
        embed.wait_for_timeout(200)
        colors.append((embed.evaluate(ink), embed.evaluate("getComputedStyle(document.body).backgroundColor")))
    assert colors[0] == colors[2]
    assert colors[0][0] != colors[1][0] and colors[0][1] != colors[1][1]


def test_the_book_offers_what_to_paste(opened, example):
    e = example
    wanted = e.random_states(2, seed=3)[1]
    page = opened(chapter(e.id).partition("#")[0] + fragment(e, **wanted), stub=True)
    until(page, "(id) => posencExplorables.get(id).ready()", e.id)
    figure = page.locator(f'figure:has([data-explorable="{e.id}"])')
    figure.locator(".explorable-embed summary").click()
    snippet = figure.locator("textarea").input_value()
    title, address = re.search(r' title="([^"]*)"', snippet)[1], re.search(r'<iframe src="([^"]*)"', snippet)[1]
    assert title == escape(e.title)
    assert parse(e, "#" + address.partition("#")[2]) == wanted
    page.goto("about:blank")
    frame = f"<!doctype html><body>{snippet}"
    page.route("**/frame.html", lambda route: route.fulfill(body=frame, content_type="text/html"))
    page.goto(address.partition("embed/")[0] + "frame.html")
    inner = page.frame_locator("iframe")
    inner.locator("figure.explorable-live").wait_for()
    assert [int(i.input_value()) for i in inner.locator("input").all()] == [
        s.index(wanted[name]) for name, s in e.sliders.items()
    ]
    assert inner.locator("html").evaluate("(h) => h.scrollHeight - innerHeight") <= 0, "the frame is too low"


def test_it_works_from_disk(site, open_page, example):
    page = open_page((site / "embed" / f"{example.id}.html").resolve().as_uri())
    try:
        page.mouse.move(9, 9)
        page.wait_for_selector("figure.explorable-live")
        drawing = page.locator(".explorable-drawing")
        before = drawing.inner_html(), page.locator(".explorable-readout").text_content()
        for field, s in zip(page.locator("input").all(), example.sliders.values()):
            field.focus()
            page.keyboard.press("Home" if s.start else "End")
        page.wait_for_timeout(150)
        after = drawing.inner_html(), page.locator(".explorable-readout").text_content()
        assert after[0] != before[0] and after[1] != before[1]
        assert parse(example, page.evaluate("location.hash")) == page.evaluate("posencExplorables.list[0].state()")
        assert page.log.problems == []
    finally:
        page.context.close()


# --- addresses -------------------------------------------------------------------------------------------------------

BAD = [
    "<img src=x onerror=alert(1)>",
    "%3Cimg%20src=x%20onerror=alert(1)%3E",
    "{id}={name}:<img src=x onerror=alert(1)>",
    "{id}={name}:%3Cscript%3Ealert(1)%3C/script%3E",
    '{id}={name}:"><svg onload=alert(1)>',
    "{id}=<img src=x onerror=alert(1)>:1",
    "<img src=x onerror=alert(1)>=a:b",
    "javascript:alert(1)",
    "{id}={name}:javascript:alert(1)",
    "{id}=__proto__:1,constructor:2,toString:3,hasOwnProperty:4,{name}:1",
    "__proto__={name}:1",
    "constructor={name}:1&toString={name}:1&hasOwnProperty={name}:1",
    "{id}=__proto__.polluted:1,constructor.prototype.polluted:1",
    "{id}={name}:1e999",
    "{id}={name}:-1e999",
    "{id}={name}:1e300",
    "{id}={name}:-1e300",
    "{id}={name}:NaN",
    "{id}={name}:Infinity",
    "{id}={name}:0x10",
    "{id}={name}:1_0",
    "{id}={name}:+1",
    "{id}={name}:.5e0",
    "{id}={name}: 1",
    "{id}={name}:%31",
    "{id}={name}:٣",
    "{id}={name}:１",
    "{id}={name}:☃\u202e\u2028",
    "{id}={name}:\ud83d",
    "{id}={name}:%E0%A4%A",
    "%E0%A4%A={name}:1",
    "{id}%={name}:1",
    "{id}={name}:%",
    "{id}={name}:%00",
    "{id}=&={name}:1&&==&:&,",
    "{id}={id}={name}:1",
    "{id}={name}:1&{id}={name}:2",
    "{id}={name}:1,{name}:x",
    "{id}={name}::::1,,,:,{name}",
    "&{id}={name}:1",
    "#{id}={name}:1",
    "{id}={name}:" + "9" * 50_000,
    "{id}=" + "{name}:1," * 3_000,
    "{id}=" * 3_000,
    "&" * 20_000,
]


def test_a_link_lands_where_the_figure_is_seen_whole(opened, example):
    page = opened(chapter(example.id).partition("#")[0], stub=True)
    page.set_viewport_size({"width": 390, "height": 640})
    address = page.url
    id = page.locator("[data-explorable]").last.get_attribute("data-explorable")  # the farther, the more can shift
    name, s = next(iter(load(id).sliders.items()))
    page.goto("about:blank")
    page.goto(f"{address}#{id}={name}:{s.values[0] if s.numeric else 'x'}")
    until(page, "(id) => posencExplorables.get(id).ready()", id)
    page.wait_for_timeout(300)
    top, seen = page.evaluate(
        """(id) => {
            const {figure} = posencExplorables.get(id), box = figure.getBoundingClientRect();
            return [box.top, document.elementFromPoint(195, box.top + 3)?.closest('figure') === figure];
        }""",
        id,
    )
    assert seen and 0 <= top <= 100, f"its top stands at {top}"


ENCODED = [
    ("{id}={a}:{x},{b}:{y}", True),
    ("{id}%3D{a}%3A{x}%2C{b}%3A{y}", True),
    ("{id}%3d{a}%3a{x}%2c{b}%3a{y}", True),
    ("{id}={a}:{x}%2C{b}:{y}", True),
    ("{id}%3D{a}:{x},{b}%3A{y}", True),
    ("other.figure%3Dm%3A1%26{id}%3D{a}%3A{x}%2C{b}%3A{y}", True),
    ("{id}%253D{a}%253A{x}", False),
    ("{id}%3D%E0%A4%A%3A1%2C{a}%3A{x}%", False),
    ("%{id}%3D{a}%3A{x}", False),
]


@pytest.mark.parametrize("address, moves", ENCODED)
def test_an_encoded_address_is_read(address, moves, embed, example):
    (a, first), (b, second) = list(example.sliders.items())[:2]
    wanted = {**example.default_state(), a: first.values[-1], b: second.values[-1]}
    words = {"{id}": example.id, "{a}": a, "{b}": b, "{x}": str(wanted[a]), "{y}": str(wanted[b])}
    for mark, word in words.items():
        address = address.replace(mark, word)
    embed.evaluate("([id, rest]) => posencExplorables.get(id).set(rest)", [example.id, example.default_state()])
    embed.evaluate("(address) => { location.hash = ''; location.hash = address; }", address)
    embed.wait_for_timeout(100)
    stands_at(embed, example.id, wanted if moves else example.default_state())
    assert embed.log.problems == []


def test_a_gap_of_a_map_has_no_number_to_tell(hand):
    def draw(m):
        return {"data": [{"type": "heatmap", "name": "a", "x": [0, 1], "y": [0], "z": [[m, math.nan]]}]}

    page = hand(explorable(draw, title="t", alt="t", id="made.gap", m=[1, 2]))
    box = page.locator(".explorable-drawing .nsewdrag").bounding_box()
    told = []
    for share in (0.25, 0.75):
        page.mouse.move(box["x"] + share * box["width"], box["y"] + box["height"] / 2, steps=3)
        page.wait_for_timeout(300)
        told.append(page.locator(".hoverlayer .hovertext").count())
    assert told == [1, 0]


def test_an_encoded_value_stays_whole(browser):
    r"""Values that hold the signs of an address, as the player writes them and encoded once more."""
    values = ["a", "0: by distance", "all, as padding does", "x=1&y=2", "a,b"]
    e = explorable(
        lambda m, n: {"data": [{"name": "a", "x": [n]}]}, id="some.figure", title="t", alt="t", m=values, n=range(3)
    )
    page = browser.new_page()
    try:
        page.route("**/*", lambda route: route.fulfill(**answers[route.request.url.split("#")[0].rpartition("/")[2]]))
        js, html = {"content_type": "text/javascript"}, {"content_type": "text/html"}
        body = e.body_html("p", None, inline=True)
        answers = {
            "player.js": {**js, "body": (STATIC / "player.js").read_text("utf-8")},
            "page.html": {
                **html,
                "body": f'<script>{STUB}</script><figure class="explorable">{body}</figure>'
                '<script src="player.js"></script>',
            },
        }
        page.goto("http://127.0.0.1/page.html")
        page.evaluate("posencExplorables.list[0].start()")
        for value in values:
            plain = fragment(e, m=value, n=2)[1:]
            for address in (plain, plain.replace(":", "%3A").replace("=", "%3D"), quote(plain, safe="")):
                page.evaluate("(address) => { location.hash = ''; location.hash = address; }", address)
                page.wait_for_timeout(30)
                assert page.evaluate("posencExplorables.list[0].state()") == {"m": value, "n": 2}, address
    finally:
        page.close()


def addresses(e, count, seed):
    r"""Hand-written attacks, then `count` seeded ones put together from what an address is made of."""
    draw = random.Random(seed)
    name = next(iter(e.sliders))
    values = [str(v) for s in e.sliders.values() for v in (*s.values[:3], s.values[-1])]
    bits = [e.id, *e.sliders, *"=:,&%.e <", "%2", "%3C", "<b>", "__proto__", "-3", "1e9", "\u00e9", *values]

    def made():
        if draw.random() < 0.5:
            return "".join(draw.choices(bits, k=draw.randint(1, 12)))
        pairs = [
            f"{draw.choice([*e.sliders])}:{draw.choice([*values, draw.choice(bits)])}"
            for _ in range(draw.randint(1, 4))
        ]
        return f"{e.id}={','.join(pairs)}"

    out = [text.replace("{id}", e.id).replace("{name}", name) for text in BAD]
    return out + [made() for _ in range(count)]


TRY = """async ([id, addresses, rest]) => {
    const e = posencExplorables.get(id), out = [];
    await Promise.all(posencExplorables.list.map((other) => other.start())); // links scroll: others may come near
    const settle = () => new Promise((done) => setTimeout(done, 0));
    // Every element outside the drawings, a figure's with its attributes: the theme's own come and go with the address.
    const ours = (n) => n.closest('.explorable-drawing, #js-plotly-tester') === null;
    // A readout keeps its height, in a style.
    const own = (n, a) => n.closest('figure') && !(a === 'style' && n.matches('.explorable-readout'));
    const traits = (n) => n.getAttributeNames().filter((a) => own(n, a) || a.startsWith('on')).sort();
    const all = () => [...document.querySelectorAll('*')].filter(ours);
    const shape = () => all().map((n) => `${n.tagName} ${traits(n)}`).join(';');
    const base = () => Reflect.ownKeys(Object.prototype).concat(Reflect.ownKeys(Array.prototype)).map(String).join();
    const shapes = shape(), bases = base();
    for (const address of addresses) {
        location.hash = '';
        e.set(rest);
        await settle();
        const heard = new Promise((done) => addEventListener('hashchange', done, {once: true}));
        const before = location.href;
        location.hash = address;
        if (location.href !== before) await heard;
        await settle();
        const legal = e.controls.every((c, i) => c.value >= 0 && e.state()[c.element.dataset.name] !== undefined);
        out.push({hash: location.hash, state: e.state(), legal,
            whole: shape() === shapes && base() === bases, polluted: ({}).polluted || null});
    }
    return out;
}"""


@pytest.mark.parametrize("where", ["embed", "book"])
def test_no_address_harms_the_page(where, opened, example):
    e = example
    page = opened(f"embed/{e.id}.html" if where == "embed" else chapter(e.id).partition("#")[0], stub=where == "book")
    page.mouse.move(9, 9)
    page.evaluate("async (id) => { await posencExplorables.get(id).start(); }", e.id)
    before = list(page.log.problems)
    tried = addresses(e, 60, seed=11 if where == "embed" else 12)
    moved = 0
    for address, got in zip(tried, page.evaluate(TRY, [e.id, tried, e.default_state()])):
        shown = address[:80]
        assert got["whole"] and got["polluted"] is None, f"the page has changed: {shown}"
        assert got["legal"], shown
        assert got["state"] == parse(e, got["hash"]), f"Python reads it otherwise: {shown}"
        moved += got["state"] != e.default_state()
    assert moved >= 20, f"{moved} of {len(tried)} addresses say anything"
    assert page.log.problems == before
    assert page.locator("img[src=x], svg[onload]").count() == 0


# Loads each page anew in a frame, several at a time, moves its sliders where the job says so, and tells their state.
FRESH = """async (jobs) => {
    const out = [], wait = (ms) => new Promise((done) => setTimeout(done, ms));
    async function one({ id, url, places }) {
        const frame = document.createElement('iframe');
        frame.src = url;
        document.body.appendChild(frame);
        await new Promise((done) => { frame.onload = done; });
        const page = frame.contentWindow, e = page.posencExplorables.get(id);
        await e.start();
        if (places) {
            e.controls.forEach((c, i) => { c.value = places[i]; });
            for (const kind of ['input', 'change']) {
                e.controls[0].element.querySelector('input').dispatchEvent(new Event(kind, {bubbles: true}));
            }
        }
        await wait(20);
        const said = e.controls.map(({element}) => element.querySelector('input[type=range]')
            ? element.querySelector('input').getAttribute('aria-valuetext')
            : element.querySelector('input:checked').parentElement.textContent);
        const strange = page.document.querySelectorAll('img:not(.explorable-picture), body script, svg').length;
        const got = {href: page.location.href, hash: page.location.hash, state: e.state(), said, strange};
        frame.remove();
        return got;
    }
    while (jobs.length) out.push(...await Promise.all(jobs.splice(0, 6).map(one)));
    return out;
}"""


def test_a_bad_address_harms_no_fresh_page(opened, example):
    e = example
    page = opened(f"embed/{e.id}.html", stub=True)
    tried = addresses(e, 10, seed=13)
    jobs = [{"id": e.id, "url": f"{page.url}?{i}#{address}"} for i, address in enumerate(tried)]
    for address, got in zip(tried, page.evaluate(FRESH, jobs)):
        assert got["state"] == parse(e, got["hash"]), address[:80]
        assert got["strange"] == 0, address[:80]
    assert [
        line for line in page.log.problems if not line.startswith("failed:")
    ] == []  # frames go before pictures come


def test_every_address_brings_its_state_back(opened):
    page = opened(f"embed/{EMBEDDED[0]}.html", stub=True)
    wanted = [(e, state) for e in map(load, EMBEDDED) for state in e.random_states(3, seed=7)[1:]]
    folder = page.url.rpartition("/")[0]
    moved = page.evaluate(
        FRESH,
        [
            {"id": e.id, "url": f"{folder}/{e.id}.html", "places": [s.index(state[n]) for n, s in e.sliders.items()]}
            for e, state in wanted
        ],
    )
    again = page.evaluate(FRESH, [{"id": e.id, "url": got["href"]} for (e, _), got in zip(wanted, moved)])
    for (e, state), one, two in zip(wanted, moved, again):
        assert one["state"] == state and parse(e, one["hash"]) == state, f"{e.id}: {one}"
        assert two["state"] == state, f"{e.id}: {one['hash']}"
        assert two["said"] == [s.words[s.index(state[name])] for name, s in e.sliders.items()]
    assert [line for line in page.log.problems if not line.startswith("failed:")] == []
