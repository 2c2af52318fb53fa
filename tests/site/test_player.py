r"""What the player does, on two small figures made here: served to the browser from memory, drawn by the real plotly.

After each act a test awaits `posencExplorables.idle()`: no sleep, no pixels but those that a hand aims at.
"""

import math
from types import SimpleNamespace

import pytest
from states import fragment, parse

from posenc.lab.explore import STATIC, explorable, slider
from posenc.lab.explore.notebook import module_js, packed_plotly

pytestmark = pytest.mark.browser


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
    return {"data": data, "layout": {**layout, "height": 320}}, {"m": m, "part": -m / 7000}


DIAL = explorable(
    dial,
    id="made.dial",
    title="A dial",
    alt="An arrow turns with m; a cell stands at m and n.",
    readout="m {m:d} · part {part:.2e}",
    handles={"arrow": "m", "cell": ("m", "n"), "line": "n"},
    depends={"arrow": ["m"], "cell": ["m", "n"], "line": ["n"], "curve": ["kind", "step", "heads", "head"]}
    | {"readout": ["m"]},
    m=slider(range(12), label="query m"),
    n=slider(range(12), label="key n", default=8),
    kind=slider(["steps", "0: heads, all"], label="what the curve shows"),
    step=slider(range(5), label="steps", play=True),
    heads=slider([2, 4, 8, 12, 16], label="heads H", default=16),
    head=slider(range(1, 17), label="head", default=9, at_most="heads"),
)


def grid(kind, most, head):
    line = {"name": "a", "x": [0, 1], "y": [most, head if kind == "by head" else 0]}
    gap = {"name": "map", "type": "heatmap", "x": [0, 1], "y": [0], "z": [[most, math.nan]]}
    axes = {"xaxis": {"domain": [0, 0.4]}, "xaxis2": {"domain": [0.6, 1], "anchor": "y2"}, "yaxis2": {"anchor": "x2"}}
    return {"data": [line, gap | {"xaxis": "x2", "yaxis": "y2"}], "layout": axes}


GRID = explorable(
    grid,
    id="made.grid",
    title="A grid",
    alt="A line and a map with a gap.",
    kind=["alone", "by head"],
    most=slider([1, 2, 3], default=2),
    head=slider([1, 2, 3], default=1, at_most="most"),
)

HOME = "http://made.example/"
PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="680" height="320"><rect width="9" height="9"/></svg>'


def figure(e):
    body = e.body_html(e.id.replace(".", "-"), "still.svg")
    body = body.replace('<div class="explorable-body"', f'<div class="explorable-body" data-src="{e.id}.data.js"', 1)
    return f'<figure class="explorable">{body}</figure>'


PAGE = (
    '<!doctype html><html lang="en" data-theme="auto"><meta charset="utf-8"><title>made</title>'
    '<link rel="icon" href="data:,"><link rel="stylesheet" href="player.css"><script defer src="player.js"></script>'
    f'<body class="explorable-page"><main><h1>Made</h1>{figure(DIAL)}{figure(GRID)}</main></body></html>'
)


@pytest.fixture(scope="module")
def files():
    r"""{name: (text, type)} of all that a page with the two figures asks for."""
    player = ("player.js", "player.css", "plotly-cartesian.min.js")
    served = {name: (STATIC / name).read_text("utf-8") for name in player}
    served |= {
        "module.js": module_js(),
        "empty.html": '<!doctype html><title>made</title><link rel="icon" href="data:,">',
    }
    served |= {f"{e.id}.data.js": e.data_js() for e in (DIAL, GRID)} | {"page.html": PAGE, "still.svg": PICTURE}
    types = {"js": "text/javascript", "css": "text/css", "html": "text/html", "svg": "image/svg+xml"}
    return {name: (text, f"{types[name.rsplit('.')[-1]]}; charset=utf-8") for name, text in served.items()}


@pytest.fixture
def opened(browser, files):
    r"""opened(hash, hold=(), path=, **options of the context) -> the page with both figures, as it loads.

    `page.asked` lists what it asked for; what `hold` names waits in `page.held` until it is let go on.
    """
    contexts = []

    def open_(hash="", hold=(), path="page.html", **options):
        contexts.append(browser.new_context(viewport={"width": 1000, "height": 800}, **options))
        contexts[-1].set_default_timeout(0)
        page = contexts[-1].new_page()
        page.log, page.asked, page.held, page.lost = SimpleNamespace(problems=[]), [], {}, set()
        page.on("pageerror", lambda error: page.log.problems.append(str(error)))

        def answer(route, request):
            name = request.url.removeprefix(HOME).split("#")[0].split("?")[0]
            page.asked.append(name)
            if name in page.lost:
                route.abort()
            elif name in hold and name not in page.held:
                page.held[name] = lambda: send(route, name)
            else:
                send(route, name)

        def send(route, name):
            body, kind = files[name]
            route.fulfill(body=body, content_type=kind)

        page.route("**/*", answer)
        page.goto(f"{HOME}{path}{hash}")
        return page

    yield open_
    for context in contexts:
        context.close()


def idle(page):
    page.evaluate("posencExplorables.idle()")


@pytest.fixture
def drawn(opened):
    r"""drawn(hash, **options) -> the page with both figures drawn and at rest."""

    def open_(hash="", **options):
        page = opened(hash, **options)
        page.evaluate("Promise.all(posencExplorables.list.map((e) => e.start()))")
        idle(page)
        return page

    return open_


def at(page, id="made.dial"):
    idle(page)
    return page.evaluate("(id) => posencExplorables.get(id).state()", id)


def control(page, name, which=0):
    return page.locator(f"[data-name={name}]").nth(which)


def middle(page, i):
    box = page.locator(".explorable-handle").nth(i).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2


SPOKEN = "document.querySelector('[role=status]').textContent"
UNIT = """() => { const {xaxis2: a} = posencExplorables.list[0].figure.querySelector('.explorable-drawing')._fullLayout;
    return a.d2p(1) - a.d2p(0); }"""
CENTER = """() => { const d = posencExplorables.list[0].figure.querySelector('.explorable-drawing');
    const {xaxis: x, yaxis: y} = d._fullLayout, box = d.getBoundingClientRect();
    return [box.x + x._offset + x.d2p(0), box.y + y._offset + y.d2p(0)]; }"""


# --- it waits --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("act", ["pointer", "key", "scroll"])
def test_figures_wait_for_the_reader_and_load_plotly_once(act, opened):
    page = opened()
    assert page.locator(".explorable-picture").first.is_visible()
    assert not {"plotly-cartesian.min.js", "made.dial.data.js"} & set(page.asked)
    if act == "pointer":
        page.mouse.move(9, 9)
    elif act == "key":
        page.keyboard.press("Shift")
    else:
        page.evaluate("dispatchEvent(new Event('scroll'))")
    page.locator("figure.explorable-live").first.wait_for()
    idle(page)
    assert page.asked.count("plotly-cartesian.min.js") == 1 and page.log.problems == []


def test_the_first_key_moves_the_slider_while_all_is_on_its_way(opened):
    page = opened(hold=("plotly-cartesian.min.js", "made.dial.data.js"))
    field = page.locator("input[name=m]")
    field.focus()
    page.keyboard.press("ArrowRight")
    assert field.input_value() == "1" and field.get_attribute("aria-valuetext") == "…"
    page.locator(".explorable-note").first.wait_for()
    assert page.locator(".explorable-note").first.inner_text().startswith("Loading")
    for name in ("made.dial.data.js", "plotly-cartesian.min.js"):
        while name not in page.held:  # it is asked for, and comes when this thread listens
            page.evaluate("1")
        page.held[name]()
    page.locator("figure.explorable-live").first.wait_for()
    assert at(page)["m"] == 1 and field.get_attribute("aria-valuetext") == "1"
    assert page.locator(".explorable-note").count() == 0 and page.log.problems == []


def test_a_lost_line_is_told_and_tried_again(opened):
    page = opened()
    page.lost.add("plotly-cartesian.min.js")
    page.mouse.move(9, 9)
    note = page.locator(".explorable-note").first
    note.wait_for()
    assert "could not load" in note.inner_text()
    page.lost.clear()
    idle(page)
    page.locator("input[name=m]").focus()
    page.locator("figure.explorable-live").first.wait_for()
    assert page.locator("figure.explorable-live .explorable-note").count() == 0


# --- in the hand -----------------------------------------------------------------------------------------------------


def test_a_drag_takes_the_nearest_state(drawn):
    page = drawn()
    x, y = middle(page, 0)  # the arrow points right, at m = 0
    center = page.evaluate(CENTER)
    page.mouse.move(x, y)
    page.mouse.down()
    for step in range(1, 9):  # along the circle to m = 4
        turn = 0.15 * step
        page.mouse.move(center[0] + (x - center[0]) * math.cos(turn), center[1] - (x - center[0]) * math.sin(turn))
    page.mouse.up()
    assert at(page)["m"] == 4 and page.evaluate("location.hash") == "#made.dial=m:4"


def test_a_click_brings_the_point(drawn):
    page = drawn()
    x, y = middle(page, 1)
    page.mouse.click(x + page.evaluate(UNIT), y + 1)
    assert (at(page)["m"], at(page)["n"]) == (1, 8)


def test_an_upright_line_is_held_anywhere(drawn):
    page = drawn()
    x, y = middle(page, 2)
    page.mouse.move(x, y - 60)
    page.mouse.down()
    page.mouse.move(x - 3 * page.evaluate(UNIT), y + 20)
    page.mouse.up()
    assert (at(page)["m"], at(page)["n"]) == (0, 5)


def test_a_finger_on_a_handle_drags_and_elsewhere_scrolls(drawn):
    page = drawn(has_touch=True)
    assert page.evaluate("getComputedStyle(document.querySelector('.explorable-handle')).touchAction") == "none"
    assert page.evaluate("getComputedStyle(document.querySelector('.explorable-plot')).touchAction") != "none"
    (x, y), one = middle(page, 1), page.evaluate(UNIT)
    finger = page.context.new_cdp_session(page)
    moves = [[(x, y)], [(x + one, y)], [(x + 3 * one, y)], []]
    for kind, points in zip(("touchStart", "touchMove", "touchMove", "touchEnd"), moves):
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [{"x": a, "y": b} for a, b in points]})
    assert at(page)["m"] == 3 and page.evaluate("scrollY") == 0


# --- controls --------------------------------------------------------------------------------------------------------


def test_the_keyboard_moves_each_control_and_says_its_value(drawn):
    page = drawn()
    for name in ("m", "n", "step", "kind"):
        before = at(page)
        control(page, name).locator("input:checked, input[type=range]").first.focus()
        page.keyboard.press("ArrowRight")
        now = at(page)
        assert [key for key in now if now[key] != before[key]] == [name]
        slider_ = DIAL.sliders[name]
        words = slider_.words[slider_.index(now[name])]
        if slider_.buttons:
            assert control(page, name).locator("input:checked + span").inner_text() == words
        else:
            assert control(page, name).locator("input").get_attribute("aria-valuetext") == words
            assert control(page, name).locator(".explorable-value").inner_text() == words


def test_reset_brings_all_back_and_says_so(drawn):
    page = drawn(fragment(DIAL, m=7, n=2))
    assert at(page)["m"] == 7
    page.locator(".explorable-reset").first.focus()
    page.keyboard.press("Enter")
    assert at(page) == DIAL.default_state() and page.evaluate("location.hash") == ""
    assert page.evaluate(SPOKEN) == f"Reset. {DIAL.readout_text(DIAL.evaluate()['readout'])}"


def test_what_has_no_effect_is_greyed(drawn):
    page = drawn()
    greyed = """() => [...document.querySelectorAll('figure:first-of-type .explorable-greyed')]
        .map((control) => control.dataset.name)"""
    assert page.evaluate(greyed) == ["heads", "head"]
    control(page, "kind").locator("label").nth(1).click()
    assert at(page)["kind"] == "0: heads, all"
    assert page.evaluate(greyed) == ["step"]
    assert control(page, "step").locator(":is(input, button):enabled").count() == 0
    control(page, "kind").locator("label").first.click()
    assert at(page)["kind"] == "steps" and page.evaluate(greyed) == ["heads", "head"]
    assert control(page, "step").locator(":is(input, button):enabled").count() == 2


def test_a_slider_stays_below_the_one_that_limits_it(drawn):
    page = drawn(fragment(DIAL, kind="0: heads, all"))
    control(page, "heads").locator("input").focus()
    page.keyboard.press("Home")
    assert at(page)["heads"] == 2 and at(page)["head"] == 2
    assert control(page, "head").locator("input").get_attribute("max") == "1"
    page.evaluate("posencExplorables.list[0].set({head: 12})")
    assert at(page)["head"] == 2


def test_buttons_above_a_limit_stay_shut_when_their_control_has_an_effect_again(drawn):
    page = drawn()
    buttons = control(page, "head", 1).locator("input")
    assert [b.is_enabled() for b in buttons.all()] == [False, False, False]
    control(page, "kind", 1).locator("label").nth(1).click()
    idle(page)
    assert [b.is_enabled() for b in buttons.all()] == [True, True, False]


PLAY = """async (presses) => {
    const button = document.querySelector('.explorable-play'), said = [button.getAttribute('aria-label')];
    for (let i = 0; i < presses; i++) {
        button.click();
        await new Promise((done) => setTimeout(done));
        said.push(button.getAttribute('aria-label'));
    }
    return said;
}"""


def test_play_runs_to_the_end(drawn):
    page = drawn(reduced_motion="no-preference")
    shown = page.evaluate(PLAY, 1)
    assert shown[0] != shown[1], "it can be paused"
    assert at(page)["step"] == 4 and page.locator(".explorable-play").get_attribute("aria-label") == shown[0]
    page.evaluate(PLAY, 2)  # from the start again
    assert at(page)["step"] < 4, "it pauses"


def test_play_goes_by_steps_where_motion_is_not_wanted(drawn):
    page = drawn(reduced_motion="reduce")
    page.locator(".explorable-play").click()
    assert at(page)["step"] == 1
    page.locator(".explorable-play").click()
    assert at(page)["step"] == 2


# --- in words --------------------------------------------------------------------------------------------------------


def test_the_readout_says_what_python_says(drawn):
    page = drawn()
    for state in DIAL.random_states(6, seed=3):
        page.evaluate("(state) => posencExplorables.list[0].set(state)", state)
        idle(page)
        wanted = DIAL.readout_text(DIAL.evaluate(state)["readout"])
        assert page.locator(".explorable-readout").first.text_content() == wanted
        assert ("−" in wanted and "×10" in wanted) == (state["m"] > 0)


def test_a_drag_is_told_once_at_rest(drawn):
    page = drawn()
    told = page.evaluate("""async () => {
        const input = document.querySelector('input[name=m]'), told = [];
        const spoken = document.querySelector('[role=status]');
        const heard = new MutationObserver(() => { if (spoken.textContent) told.push(spoken.textContent); });
        heard.observe(spoken, {childList: true});
        for (let i = 0; i < 12; i++) { // in one go: no timer can run out between two
            input.value = i;
            input.dispatchEvent(new Event('input', {bubbles: true}));
        }
        await posencExplorables.idle();
        return told;
    }""")
    assert told[-1] == page.locator(".explorable-readout").first.text_content() and len(set(told)) == len(told) == 1


def test_the_drawing_says_what_to_see(drawn):
    page = drawn()
    drawing = page.locator(".explorable-drawing").first
    assert (drawing.get_attribute("role"), drawing.get_attribute("aria-label")) == ("img", DIAL.alt)
    assert not page.locator(".explorable-picture").first.is_visible(), "it would be read twice"


# --- the page around it ----------------------------------------------------------------------------------------------

INK = "document.querySelector('.explorable-drawing .xtick text').style.fill"


def test_dark_mode_repaints_without_a_reload(drawn):
    page, seen = drawn(), []
    for scheme in ("light", "dark", "light"):
        page.emulate_media(color_scheme=scheme)
        idle(page)
        seen.append(page.evaluate(INK))
    page.evaluate("document.documentElement.dataset.theme = 'dark'")
    idle(page)
    assert seen[0] == seen[2] != seen[1] == page.evaluate(INK)


def test_print_and_readers_without_scripts_get_the_picture(drawn, opened):
    page = drawn()
    page.emulate_media(media="print")
    plain = opened(java_script_enabled=False)
    for shown in (page, plain):
        assert shown.locator("img.explorable-picture").first.is_visible()
    assert plain.locator("img.explorable-picture").first.get_attribute("alt") == DIAL.alt
    assert not page.locator(".explorable-controls").first.is_visible()


FRAMES = """async () => {
    for (let i = 0; i < 60; i++) await new Promise((done) => requestAnimationFrame(done));
}"""


def test_a_gap_of_a_map_has_no_number_to_tell(drawn):
    page, hover = drawn(), lambda share: page.mouse.move(left + share * width, middle, steps=3)
    box = page.locator("figure.explorable").nth(1).locator(".nsewdrag[data-subplot=x2y2]").bounding_box()
    left, width, middle = box["x"], box["width"], box["y"] + box["height"] / 2
    hover(0.75)
    page.evaluate(FRAMES)  # more than plotly takes
    assert page.locator(".hoverlayer .hovertext").count() == 0
    hover(0.25)
    page.locator(".hoverlayer .hovertext").wait_for()


# --- addresses -------------------------------------------------------------------------------------------------------


GO = """async (address) => {
    location.hash = '';
    await new Promise((done) => setTimeout(done)); // the event of the empty address is through
    const heard = new Promise((done) => addEventListener('hashchange', done, {once: true})), before = location.href;
    location.hash = address;
    if (location.href !== before) await heard;
}"""


def test_every_address_brings_its_state_back(drawn):
    for state in DIAL.random_states(4, seed=7)[1:]:
        page = drawn(fragment(DIAL, **state))
        assert at(page) == state and at(page, "made.grid") == GRID.default_state()
        page.locator("input[name=n]").dispatch_event("change")  # as a hand that lets go: the address is written
        idle(page)
        assert parse(DIAL, page.evaluate("location.hash")) == state


BAD = [
    "<img src=x onerror=alert(1)>",
    "{id}=m:<img src=x onerror=alert(1)>",
    "{id}=m:%3Cscript%3Ealert(1)%3C/script%3E",
    "{id}=<img src=x onerror=alert(1)>:1",
    "javascript:alert(1)",
    "{id}=__proto__:1,constructor:2,toString:3,hasOwnProperty:4,m:1",
    "__proto__=m:1",
    "{id}=__proto__.polluted:1,constructor.prototype.polluted:1",
    *(f"{{id}}=m:{n}" for n in ("1e999", "-1e300", "NaN", "Infinity", "0x10", "1_0", "+1", ".5e0", "٣", "%E0%A4%A")),
    "{id}=m::::1,,,:,m",
    "{id}=m:1&{id}=m:2",
    "{id}=m:" + "9" * 9_000,
    "&" * 9_000,
]
TOLD = "() => [location.hash, ({}).polluted ?? null, document.querySelectorAll('img[src=x], main script').length]"


def test_no_address_harms_the_page(drawn):
    page, moved = drawn(), 0
    for address in BAD:
        page.evaluate("(state) => posencExplorables.list[0].set(state)", DIAL.default_state())
        page.evaluate(GO, address.replace("{id}", DIAL.id))
        hash, polluted, strange = page.evaluate(TOLD)
        assert at(page) == parse(DIAL, hash) and polluted is None and strange == 0, address[:80]
        moved += at(page) != DIAL.default_state()
    assert moved >= 4 and page.log.problems == []


RENDER = """async ([markup, record, plotly]) => {
    const el = document.body.appendChild(document.createElement("div"));
    const {default: {render}} = await import("./module.js");
    window.off = render({model: {get: (name) => ({markup, record, plotly})[name]}, el});
    await posencExplorables.list[0].start();
    return posencExplorables.list.length;
}"""


def test_render_draws_a_figure_from_a_plain_model(opened):
    page, markup = opened(path="empty.html"), f'<figure class="explorable">{DIAL.body_html("x", None)}</figure>'
    assert page.evaluate(RENDER, [markup, DIAL.record(), packed_plotly()]) == 1
    page.locator("input[name=m]").press("End")
    assert at(page)["m"] == 11 and page.locator(".explorable-drawing .xtick").count() > 0
    assert page.asked == ["empty.html", "module.js"] and page.log.problems == []
    assert page.evaluate("off() || posencExplorables.list.length") == 0


# --- in a notebook ---------------------------------------------------------------------------------------------------

FRAME = """<!doctype html><html theme="dark"><head><meta charset="utf-8"><script>
    // What require.js leaves on a page: plotly must not register itself there.
    window.define = function () {{ throw new Error("define is not for us"); }};
    window.define.amd = {{}};
</script></head><body>{output}</body></html>"""


def test_a_notebook_output_stands_alone_and_leaves_the_page_alone(tmp_path, monkeypatch, open_page):
    monkeypatch.delenv("POSENC_BOOK", raising=False)
    (tmp_path / "output.html").write_text(FRAME.format(output=DIAL._repr_html_()), "utf-8")
    page = open_page((tmp_path / "output.html").as_uri())
    try:
        page.locator("figure.explorable-live").wait_for()
        page.locator("input[name=m]").focus()
        page.keyboard.press("End")
        assert at(page)["m"] == 11 and page.evaluate("location.hash") == ""
        assert page.log.problems == []
    finally:
        page.context.close()
