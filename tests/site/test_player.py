r"""What the player does, on a small figure made here, drawn by the real plotly on a page that lies on the disk.

After each act a test awaits `posencExplorables.idle()`: no sleep, no pixels but those that a hand aims at.
"""

import math
from urllib.parse import quote

import pytest

from posenc.lab.explore import STATIC, explorable, slider

pytestmark = pytest.mark.browser


def dial(m, n, kind, step, heads, head):
    r"""A point on a circle that follows m, a cell that follows m and n, a curve that follows the rest."""
    data = [
        {"name": "arrow", "x": [0, math.cos(0.3 * m)], "y": [0, math.sin(0.3 * m)], "mode": "lines"},
        {"name": "cell", "x": [m], "y": [n], "xaxis": "x2", "yaxis": "y2", "mode": "markers"},
        {"name": "line", "x": [n, n], "y": [0, 12], "xaxis": "x2", "yaxis": "y2", "mode": "lines"},
        {"name": "curve", "x": [0, 1], "y": [0, step if kind == "steps" else head / heads], "mode": "lines"},
    ]
    layout = {name: {"range": [-1.2, 1.2]} for name in ("xaxis", "yaxis")} | {"height": 320}
    layout |= {name: {"range": [-1, 13], "anchor": to} for name, to in (("xaxis2", "y2"), ("yaxis2", "x2"))}
    layout["xaxis"]["domain"], layout["xaxis2"]["domain"] = [0, 0.45], [0.55, 1]
    return {"data": data, "layout": layout}, {"m": m, "part": -m / 7000}


DIAL = explorable(
    dial,
    id="made.dial",
    title="A dial",
    alt="An arrow turns with m; a cell stands at m and n.",
    readout="m {m:d} · part {part:.2e}",
    handles={"arrow": "m", "cell": ("m", "n"), "line": "n"},
    depends={"arrow": ["m"], "cell": ["m", "n"], "line": ["n"], "readout": ["m"]}
    | {"curve": ["kind", "step", "heads", "head"]},
    m=slider(range(12), label="query m"),
    n=slider(range(12), label="key n", default=8),
    kind=slider(["steps", "0: heads, all"], label="what the curve shows"),
    step=slider(range(5), label="steps", play=True, at_most="n"),
    heads=slider([1, 2, 3], label="heads H", default=2),
    head=slider([1, 2, 3], label="head", at_most="heads"),
)

PICTURE = '<svg xmlns="http://www.w3.org/2000/svg" width="680" height="320"><rect width="9" height="9"/></svg>'
PLOTLY = "plotly-cartesian.min.js"
FIGURE = f'<figure class="explorable">{DIAL.body_html("made", "still.svg")}</figure>'
PAGE = (
    '<!doctype html><html lang="en" data-theme="auto"><meta charset="utf-8"><title>made</title>'
    '<link rel="stylesheet" href="player.css"><script defer src="player.js"></script><body class="explorable-page">'
) + FIGURE.replace('class="explorable-body"', 'class="explorable-body" data-src="made.data.js"', 1)


@pytest.fixture
def drawn(tmp_path, open_page):
    r"""drawn(hash) -> the page with the figure drawn and at rest, or not `start`ed; at the end nothing may be wrong."""
    files = {name: (STATIC / name).read_text("utf-8") for name in ("player.js", "player.css", PLOTLY)}
    for name, text in {**files, "made.data.js": DIAL.data_js(), "page.html": PAGE, "still.svg": PICTURE}.items():
        (tmp_path / name).write_text(text, "utf-8")
    pages = []

    def open_(hash="", start=True, **options):
        pages.append(open_page((tmp_path / "page.html").as_uri() + hash, **options))
        if start:
            pages[-1].evaluate("posencExplorables.list[0].start()")
            pages[-1].evaluate("posencExplorables.idle()")
        return pages[-1]

    yield open_
    assert not sum((page.log.problems for page in pages), [])


def fragment(**state):
    r"""The address that opens the page with these values, as the player writes it."""
    return f"#{DIAL.id}=" + ",".join(f"{name}:{quote(str(value), safe='')}" for name, value in state.items())


def at(page):
    page.evaluate("posencExplorables.idle()")
    return page.evaluate("posencExplorables.list[0].state()")


def control(page, name):
    return page.locator(f"[data-name={name}]")


def middle(page, i):
    r"""Of a handle: x, y, and how many pixels one is: of m or n, of the arrow across, and upward."""
    box = page.locator(".explorable-handle").nth(i).bounding_box()
    return box["x"] + box["width"] / 2, box["y"] + box["height"] / 2, *page.evaluate(UNITS)


def drag(page, *places):
    page.mouse.move(*places[0])
    page.mouse.down()
    for place in places[1:]:
        page.mouse.move(*place)
    page.mouse.up()


SPOKEN = "document.querySelector('[role=status]').textContent"
UNITS = """() => { const full = document.querySelector('.explorable-drawing')._fullLayout;
    return ['xaxis2', 'xaxis', 'yaxis'].map((name) => full[name].d2p(1) - full[name].d2p(0)); }"""


def test_figures_wait_for_the_reader_and_load_plotly_once(drawn):
    page, asked = drawn(start=False), []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    assert page.locator(".explorable-picture").is_visible()
    page.mouse.move(9, 9)
    page.locator("figure.explorable-live").wait_for()
    assert asked.count("made.data.js") == asked.count(PLOTLY) == 1


def test_the_first_key_moves_the_slider_while_all_is_on_its_way(drawn):
    page, held = drawn(start=False), []
    for what in (PLOTLY, "made.data.js"):
        page.route(f"**/{what}", lambda route: held.append(route))
    field = page.locator("input[name=m]")
    field.press("ArrowRight")
    assert field.input_value() == "1" and field.get_attribute("aria-valuetext") == "…"
    page.locator(".explorable-note", has_text="Loading").wait_for()
    while len(held) < 2:  # they are asked for when this thread listens
        page.evaluate("1")
    for route in held:
        route.continue_()
    page.locator("figure.explorable-live").wait_for()
    assert at(page)["m"] == 1 and field.get_attribute("aria-valuetext") == "1"
    assert page.locator(".explorable-note").count() == 0


def test_a_lost_line_is_told_and_tried_again(drawn):
    page = drawn(start=False)
    page.route(f"**/{PLOTLY}", lambda route: route.abort())
    page.mouse.move(9, 9)
    page.locator(".explorable-note", has_text="could not load").wait_for()
    page.unroute(f"**/{PLOTLY}")
    page.locator("input[name=m]").focus()
    page.locator("figure.explorable-live").wait_for()
    assert page.locator(".explorable-note").count() == 0
    page.log.problems.clear()  # the request that failed


def test_a_drag_takes_the_nearest_state(drawn):
    page = drawn()
    x, y, _, across, up = middle(page, 0)  # the arrow points right, at m = 0
    turns = [0.15 * step for step in range(9)]  # along the circle to m = 4
    drag(page, *((x + across * (math.cos(turn) - 1), y + up * math.sin(turn)) for turn in turns))
    assert at(page)["m"] == 4 and page.evaluate("location.hash") == "#made.dial=m:4"


def test_a_click_brings_the_point(drawn):
    page = drawn()
    x, y, one, *_ = middle(page, 1)
    page.mouse.click(x + one, y + 1)
    assert (at(page)["m"], at(page)["n"]) == (1, 8)


def test_an_upright_line_is_held_anywhere(drawn):
    page = drawn()
    x, y, one, *_ = middle(page, 2)
    drag(page, (x, y - 60), (x - 3 * one, y + 20))
    assert (at(page)["m"], at(page)["n"]) == (0, 5)


def test_a_finger_on_a_handle_drags_and_elsewhere_scrolls(drawn):
    page = drawn()
    touch = "(what) => getComputedStyle(document.querySelector(what)).touchAction"
    assert page.evaluate(touch, ".explorable-handle") == "none" != page.evaluate(touch, ".explorable-plot")
    x, y, one, *_ = middle(page, 1)
    finger = page.context.new_cdp_session(page)
    finger.send("Emulation.setTouchEmulationEnabled", {"enabled": True})
    for kind, by in (("touchStart", [0]), ("touchMove", [one]), ("touchMove", [3 * one]), ("touchEnd", [])):
        points = [{"x": x + more, "y": y} for more in by]
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
    assert at(page)["m"] == 3 and page.evaluate("scrollY") == 0


@pytest.mark.parametrize("name, words", [("m", ".explorable-value"), ("kind", "input:checked + span")])
def test_the_keyboard_moves_a_control_and_says_its_value(name, words, drawn):
    page, own = drawn(), DIAL.sliders[name]
    control(page, name).locator("input:checked, input[type=range]").press("ArrowRight")
    assert at(page) == DIAL.default_state() | {name: own.values[1]}
    assert control(page, name).locator(words).inner_text() == own.words[1]


def test_reset_brings_all_back_and_says_so(drawn):
    page = drawn(fragment(m=7, n=2))
    assert at(page)["m"] == 7
    page.locator(".explorable-reset").press("Enter")
    assert at(page) == DIAL.default_state() and page.evaluate("location.hash") == ""
    assert page.evaluate(SPOKEN) == f"Reset. {DIAL.readout_text(DIAL.evaluate()['readout'])}"


GREYED = "[...document.querySelectorAll('.explorable-greyed:not(:has(:enabled))')].map((c) => c.dataset.name)"


def test_what_has_no_effect_is_greyed(drawn):
    page = drawn()
    for which, greyed in ((1, ["step"]), (0, ["heads", "head"])):
        control(page, "kind").locator("label").nth(which).click()
        at(page)
        assert page.evaluate(GREYED) == greyed
    assert control(page, "step").locator(":enabled").count() == 2


def test_a_control_stays_below_the_one_that_limits_it(drawn):
    page = drawn(fragment(step=4, head=2))
    assert (at(page)["step"], at(page)["head"]) == (4, 2)
    page.evaluate("posencExplorables.list[0].set({n: 3, heads: 1})")
    assert (at(page)["step"], at(page)["head"]) == (3, 1)
    page.evaluate("posencExplorables.list[0].set({step: 4, heads: 2, kind: '0: heads, all'})")  # head was greyed
    assert at(page)["step"] == 3 and control(page, "step").locator("input").get_attribute("max") == "3"
    assert [b.is_enabled() for b in control(page, "head").locator("input").all()] == [True, True, False]


NAME = "document.querySelector('.explorable-play').getAttribute('aria-label')"
PRESS = f"() => {{ document.querySelector('.explorable-play').click(); return Promise.resolve().then(() => {NAME}); }}"


def test_play_runs_to_the_end_and_pauses_and_goes_by_steps_where_motion_is_not_wanted(drawn):
    page = drawn()
    assert page.evaluate(PRESS) == page.evaluate(PRESS) and at(page)["step"] == 2
    page.emulate_media(reduced_motion="no-preference")
    playing = page.evaluate(PRESS)
    assert at(page)["step"] == 4 and page.evaluate(NAME) != playing
    assert page.evaluate(PRESS) == playing != page.evaluate(PRESS)  # from the start again, and paused
    assert at(page)["step"] < 4


def test_a_move_is_told_at_rest(drawn):
    page = drawn()
    for _ in range(3):
        control(page, "m").locator("input").press("ArrowRight")
    assert at(page)["m"] == 3 and page.evaluate(SPOKEN) == DIAL.readout_text(DIAL.evaluate({"m": 3})["readout"])


def test_without_a_readout_the_words_that_changed_in_the_drawing_are_told(tmp_path, monkeypatch, open_page):
    def worded(m):
        words = {"name": "words", "x": [m, 0], "y": [1, 0], "mode": "text", "text": [f"<b>{m} back</b>", "query"]}
        return {"data": [words], "layout": {"xaxis": {"range": [-1, 5]}, "yaxis": {"range": [-1, 2]}}}

    monkeypatch.delenv("POSENC_BOOK", raising=False)
    made = explorable(worded, id="made.words", title="Words", alt="A key that moves.", m=slider(range(5), label="m"))
    (tmp_path / "output.html").write_text(FRAME.format(output=made._repr_html_()), "utf-8")
    page = open_page((tmp_path / "output.html").as_uri())
    page.locator("figure.explorable-live").wait_for()
    page.locator("input[name=m]").press("End")
    assert at(page)["m"] == 4 and page.evaluate(SPOKEN) == "4 back"


def test_dark_mode_repaints_without_a_reload(drawn):
    page, inks = drawn(), []
    for scheme, theme in (("light", "auto"), ("dark", "auto"), ("light", "auto"), ("light", "dark")):
        page.emulate_media(color_scheme=scheme)
        page.evaluate("(theme) => { document.documentElement.dataset.theme = theme; }", theme)
        at(page)
        inks.append(page.evaluate("document.querySelector('.explorable-drawing .xtick text').style.fill"))
    assert inks[0] == inks[2] != inks[1] == inks[3]


def test_print_and_readers_without_scripts_get_the_picture_in_place_of_the_drawing(drawn):
    page, plain = drawn(), drawn(start=False, scripts=False)
    assert page.locator(".explorable-drawing").get_attribute("aria-label") == DIAL.alt
    assert not page.locator(".explorable-picture").is_visible(), "it would be read twice"
    page.emulate_media(media="print")
    for picture in (shown.locator("img.explorable-picture") for shown in (page, plain)):
        assert picture.is_visible() and picture.get_attribute("alt") == DIAL.alt
    assert not page.locator(".explorable-controls").is_visible()


GO = """async (address) => {
    history.replaceState(null, '', location.pathname);
    const heard = new Promise((done) => addEventListener('hashchange', done, {once: true})), before = location.href;
    location.hash = address;
    if (location.href !== before) await heard;
}"""


def test_an_address_brings_its_state_back(drawn):
    for state in DIAL.random_states(3, seed=7)[1:]:
        page = drawn(fragment(**state))
        assert at(page) == state
        page.locator("input[name=n]").dispatch_event("change")  # as a hand that lets go: the address is written
        at(page)
        assert at(drawn(page.evaluate("location.hash"))) == state


BAD = {  # address: m
    "m:<img src=x onerror=alert(1)>,n:%3Cscript%3Ealert(1)%3C/script%3E": 0,
    "__proto__:1,constructor:2,toString:3,hasOwnProperty:4,m:1": 1,
    "__proto__.polluted:1,constructor.prototype.polluted:1&__proto__=m:1": 0,
    **{"m:1e999": 11, "m:-1e300": 0, "m:NaN": 0, "m:0x10": 0, "m:+1": 1, "m:٣": 0, "m:%E0%A4%A": 0},
    **{"m:" + "9" * 9_000: 11, "m::::1,,,:,m": 0, "m:1&made.dial=m:2" + "&" * 9_000: 2},
}
TOLD = "() => [({}).polluted ?? null, document.querySelectorAll('img[src=x], body script').length]"


def test_no_address_harms_the_page(drawn):
    page = drawn()
    for address, m in BAD.items():
        page.evaluate("(state) => posencExplorables.list[0].set(state)", DIAL.default_state())
        page.evaluate(GO, f"{DIAL.id}={address}")
        assert at(page) == DIAL.default_state() | {"m": m} and page.evaluate(TOLD) == [None, 0], address[:80]


FRAME = """<!doctype html><html theme="dark"><meta charset="utf-8"><script>
    window.define = () => {{ throw new Error("as require.js, which is not ours to tell"); }};
    window.define.amd = {{}};
</script><body>{output}</body></html>"""


def test_a_notebook_output_stands_alone_and_leaves_the_page_alone(tmp_path, monkeypatch, open_page):
    monkeypatch.delenv("POSENC_BOOK", raising=False)
    (tmp_path / "output.html").write_text(FRAME.format(output=DIAL._repr_html_()), "utf-8")
    page = open_page((tmp_path / "output.html").as_uri())
    page.locator("figure.explorable-live").wait_for()
    page.locator("input[name=m]").press("End")
    assert at(page)["m"] == 11 and page.evaluate("location.hash") == "" and page.log.problems == []
