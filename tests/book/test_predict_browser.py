r"""A `{predict}` box and a figure that the reader draws first, in a real browser, on a page of their own."""

import json

import pytest
from conftest import ROOT
from tiny_site import build

from posenc.lab.live import draw_loss

pytestmark = pytest.mark.browser

PAGE = """# A page

```{predict}
:show: rope.rotation_invariance=shift:10
Both positions move by ten. What does the score do?

- [ ] It grows
- [x] It stays
- [ ] It falls
---
The arrows turn *together*.
```

```{explorable} rope.rotation_invariance
```

```{predict}
Which of the two?

- [x] This
- [ ] That
---
So it is.
```

```{live} draw_loss
```

```{predict}
:show: sticks=cat:0.9
The third takes more. Which pieces change?

- [ ] All
- [x] Its own and later ones
---
Who was asked *before* keeps all.
```

```{live} sticks
```
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    build(folder, PAGE)
    return (folder / "out" / "index.html").as_uri()


def watched(page):
    yield page
    problems, _ = page.log.problems, page.context.close()
    assert not problems


@pytest.fixture
def page(site, open_page):
    yield from watched(open_page(site))


def box(page, number=0):
    found = page.locator(".predict").nth(number)
    return found, found.get_by_role("button"), found.locator("details")


def test_a_press_marks_the_answers_moves_the_figure_then_opens_the_fold(page):
    found, buttons, fold = box(page)
    assert buttons.all_inner_texts() == ["It grows", "It stays", "It falls"]
    assert "together" not in found.inner_text() and found.get_by_role("status").inner_text() == ""
    page.evaluate("""() => { document.querySelector('.predict details').addEventListener('toggle', () => {
        window.opened = posencExplorables.get('rope.rotation_invariance').state(); }); }""")
    buttons.nth(2).click()
    assert [text.split("\n")[-1] for text in buttons.all_inner_texts()] == ["It grows", "✓ right", "✗ your answer"]
    status = found.get_by_role("status").inner_text()
    assert "It stays" in status and "figure" in status
    assert fold.get_attribute("open") is None
    page.wait_for_function("window.opened")
    assert page.evaluate("window.opened.shift") == 10, "the fold opened before the figure had answered"
    assert "together" in found.inner_text()


@pytest.mark.weekly
def test_on_a_phone_a_button_leads_to_the_figure_in_place_of_the_reason(page):
    page.set_viewport_size({"width": 390, "height": 664})
    found, buttons, fold = box(page)
    top = page.evaluate("scrollY")
    buttons.nth(1).click()
    look = found.get_by_role("button", name="See it in the figure")
    look.wait_for()
    assert page.evaluate("scrollY") == top and "Right" in found.get_by_role("status").inner_text()
    assert fold.get_attribute("open") is None
    assert page.evaluate("posencExplorables.get('rope.rotation_invariance').state().shift") == 10
    look.click()
    page.wait_for_function("document.querySelector('.explorable-view').getBoundingClientRect().bottom <= innerHeight")


def test_at_the_desk_the_page_stays_and_a_button_below_the_reason_leads_to_the_figure(page):
    page.set_viewport_size({"width": 1440, "height": 780})
    found, buttons, fold = box(page)
    page.evaluate("scrollBy(0, document.querySelector('.predict').getBoundingClientRect().top - 300)")
    top, bottom = page.evaluate("scrollY"), "document.querySelector('figure.explorable').getBoundingClientRect().bottom"
    assert page.evaluate(bottom) > 780
    buttons.nth(1).click()
    look = fold.get_by_role("button", name="See it in the figure")
    look.wait_for()
    assert page.evaluate("scrollY") == top and fold.get_by_text("together").is_visible()
    look.click()
    page.wait_for_function(f"{bottom} <= innerHeight + 1")


def test_an_answer_is_given_once_and_by_keyboard(page):
    found, buttons, fold = box(page, 1)
    assert len({(button.get_attribute("class"), button.get_attribute("aria-pressed")) for button in buttons.all()}) == 1
    buttons.first.focus()
    page.keyboard.press("Enter")
    fold.get_by_text("So it is.").wait_for()
    assert "right" in buttons.first.inner_text() and "✓" in buttons.first.inner_text()
    said = found.get_by_role("status").inner_text()
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page.evaluate("document.activeElement.textContent") == "That" == buttons.nth(1).inner_text()
    assert found.get_by_role("status").inner_text() == said


@pytest.mark.weekly
def test_the_fold_opens_without_the_figure(site, open_page):
    page = open_page(site)
    page.route("**/*.data.js", lambda route: route.abort())
    page.locator(".predict button").first.click()
    page.get_by_text("together").wait_for()
    page.context.close()


def test_without_scripts_it_is_a_question_with_a_fold(site, open_page):
    page = open_page(site, scripts=False)
    found = page.locator(".predict").first
    assert found.locator("li").all_inner_texts() == ["It grows", "It stays", "It falls"]
    assert not found.get_by_role("button").count() and not found.get_by_text("together").is_visible()
    found.locator("summary").click()
    assert found.get_by_text("together").is_visible() and found.locator("details").get_by_text("It stays").is_visible()
    assert page.locator("figure.live .live-still svg").first.is_visible()
    page.context.close()


@pytest.mark.weekly
@pytest.mark.parametrize("how", ["phone", "dark", "forced", "print"])
def test_answers_can_be_read(site, browser, how):
    context = browser.new_context(
        viewport={"width": 390 if how == "phone" else 1024, "height": 664},
        forced_colors="active" if how == "forced" else "none",
        color_scheme="dark" if how == "dark" else "light",
    )
    page = context.new_page()
    page.goto(site)
    page.locator(".predict button").first.click()
    if how == "phone":
        page.locator(".predict summary").first.click()
    page.get_by_text("together").wait_for()
    if how == "print":
        page.emulate_media(media="print")
        assert page.get_by_text("together").is_visible() and page.locator(".predict button").first.is_visible()
    else:
        lines = page.eval_on_selector_all(
            ".predict:first-of-type .predict-press",
            "all => all.slice(0, 3).map((b) => getComputedStyle(b).borderTopStyle)",
        )
        assert lines == ["dashed", "solid", "solid"]
    sizes = page.eval_on_selector_all(
        ".predict-press", "all => all.map((b) => [b.scrollWidth - b.clientWidth, b.offsetHeight])"
    )
    assert all(over <= 1 and (how == "print" or tall >= 44) for over, tall in sizes)
    context.close()


# --- a figure that waits ---------------------------------------------------------------------------------------------

WAITING = """# A page

```{predict}
:show: rope.seen_angles=trained:4096,target:32768,base:100
:waits:
Which pairs?

- [ ] Fast ones
- [x] Slow ones
---
They turn *slowly*.
```

```{explorable} rope.seen_angles
```

```{explorable} rope.score_by_distance
```
"""
SEEN = '[data-explorable="rope.seen_angles"]'


@pytest.fixture(scope="module")
def waiting_site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("waits")
    build(folder, WAITING)
    return (folder / "out" / "index.html").as_uri()


@pytest.fixture
def waiting(waiting_site, open_page):
    yield from watched(open_page(waiting_site))


def height(page):
    return page.locator(SEEN).evaluate("(b) => [b.offsetHeight, b.closest('figure').offsetHeight]")


def is_covered(page) -> bool:
    r"""Whether the cover stands; what is under it, wherever it is pressed, is then out of reach."""
    button = page.locator(f"{SEEN} .explorable-cover button")
    seen = page.locator(f"{SEEN} :is(.explorable-plot, .explorable-picture, input, .explorable-reset)")
    visible = [one.is_visible() for one in seen.all()]
    if button.count() and button.is_visible():
        assert not any(visible)
        cover, body = (page.locator(what).bounding_box() for what in (f"{SEEN} .explorable-cover", SEEN))
        assert cover == body
        return True
    assert any(visible)
    return False


def test_a_figure_waits_until_an_answer_is_pressed(waiting):
    assert is_covered(waiting) and waiting.get_by_role("slider").count() == len(
        waiting.locator(f"figure:not(:has({SEEN})) input[type=range]").all()
    ), "a screen reader finds what is covered"
    assert waiting.locator('[data-explorable="rope.score_by_distance"] .explorable-picture').is_visible()
    before = height(waiting)
    waiting.evaluate("async () => { await posencExplorables.get('rope.seen_angles').start(); }")
    assert is_covered(waiting), "the drawing gives the answer away"
    assert not waiting.locator(f"{SEEN} .explorable-drawing").is_visible()
    waiting.locator(".predict button").first.click()
    waiting.wait_for_function("""!document.querySelector('.explorable-waits, .predict details[open]')
        && posencExplorables.get('rope.seen_angles').state().base === 100""")  # the figure first, the words after it
    waiting.wait_for_function("document.querySelector('.predict details').open")
    assert not is_covered(waiting) and height(waiting) == before


def test_a_figure_is_shown_by_its_button_and_the_keyboard_goes_on_in_it(waiting):
    button, before = waiting.get_by_role("button", name="Show the figure"), height(waiting)
    while not button.evaluate("(b) => b === document.activeElement"):
        waiting.keyboard.press("Tab")
        assert waiting.evaluate("document.activeElement !== document.body"), "the keyboard has passed the button"
    waiting.keyboard.press("Enter")
    assert not is_covered(waiting) and height(waiting) == before
    assert waiting.evaluate(f"Boolean(document.activeElement.closest('{SEEN} .explorable-controls'))")
    waiting.wait_for_function("posencExplorables.get('rope.seen_angles').ready()")
    assert waiting.evaluate("!posencExplorables.get('rope.seen_angles').changed()")
    waiting.locator(".predict button").last.click()
    waiting.wait_for_function("posencExplorables.get('rope.seen_angles').state().base === 100")


@pytest.mark.weekly
def test_a_figure_that_the_address_names_does_not_wait(waiting_site, open_page):
    for address, covered in (("rope.seen_angles=base:100", False), ("rope.score_by_distance=base:100", True)):
        page = open_page(f"{waiting_site}#{address}")
        page.wait_for_function("posencExplorables.list.some((e) => e.ready() && e.state().base === 100)")
        assert is_covered(page) is covered
        page.context.close()


@pytest.mark.weekly
def test_the_answer_is_shown_where_the_states_do_not_come(waiting_site, open_page):
    page = open_page(waiting_site)
    page.route("**/*.data.js", lambda route: route.abort())
    page.locator(".predict button").first.click()
    page.get_by_text("slowly").wait_for()
    assert not is_covered(page)
    page.context.close()


@pytest.mark.weekly
def test_no_script_has_to_run_to_keep_the_answer(waiting_site, open_page, browser):
    page = browser.new_page()
    page.route("**/*.js*", lambda route: route.abort())
    page.goto(waiting_site)
    assert not page.locator(f"{SEEN} .explorable-picture").is_visible(), "the answer is seen before the script comes"
    page.close()
    page = open_page(waiting_site, scripts=False)
    assert page.locator(f"{SEEN} .explorable-picture").is_visible() and not page.locator(".explorable-cover").count()
    page.context.close()


@pytest.mark.weekly
def test_nothing_waits_in_print(waiting):
    waiting.emulate_media(media="print")
    assert waiting.locator(f"{SEEN} .explorable-picture").is_visible()
    assert not waiting.locator(".explorable-cover").is_visible()


@pytest.mark.weekly
@pytest.mark.parametrize("how", ["phone", "dark", "forced"])
def test_a_cover_hides_and_can_be_read(waiting_site, browser, how):
    context = browser.new_context(
        viewport={"width": 390 if how == "phone" else 1024, "height": 664},
        forced_colors="active" if how == "forced" else "none",
        color_scheme="dark" if how == "dark" else "light",
    )
    page = context.new_page()
    page.goto(waiting_site)
    page.evaluate("async () => { await posencExplorables.get('rope.seen_angles').start(); }")
    assert is_covered(page)
    button = page.locator(".explorable-cover button")
    assert button.bounding_box()["height"] >= 44
    ground, ink, fits = page.locator(".explorable-cover").evaluate(
        """(c) => [getComputedStyle(c).backgroundColor, getComputedStyle(c).color,
            c.scrollWidth <= c.clientWidth && c.scrollHeight <= c.clientHeight]"""
    )
    assert fits
    assert "rgba(0, 0, 0, 0)" != ground != ink
    context.close()


# --- draw it ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def figure(page):
    page.mouse.move(9, 9)
    found = page.locator('figure.live:has([data-live="draw_loss"])')
    found.scroll_into_view_if_needed()
    found.get_by_role("slider").first.wait_for()
    return found


def test_rings_move_by_keyboard_and_by_hand(page, figure):
    one, two, three = figure.get_by_role("slider").all()
    assert [ring.get_attribute("aria-label").split()[-2] for ring in (one, two, three)] == ["128", "256", "512"]
    start = float(one.get_attribute("aria-valuenow"))
    assert figure.locator("path[stroke-dasharray]").get_attribute("d") == "", "a line that nobody has drawn"
    one.focus()
    for key in ("ArrowUp", "ArrowUp", "ArrowDown", "PageUp"):
        page.keyboard.press(key)
    assert float(one.get_attribute("aria-valuenow")) == pytest.approx(start + 0.6)
    assert one.get_attribute("aria-valuetext").startswith(f"{start + 0.6:.1f} ")
    page.keyboard.press("End")
    page.keyboard.press("ArrowUp")
    assert one.get_attribute("aria-valuenow") == one.get_attribute("aria-valuemax") + ".0"
    place = three.bounding_box()
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 80, steps=4)
    page.mouse.up()
    moved = three.bounding_box()
    assert moved["y"] == pytest.approx(place["y"] + 80, abs=5) and moved["x"] == pytest.approx(place["x"], abs=0.5)
    assert float(two.get_attribute("aria-valuenow")) == start


@pytest.mark.weekly
def test_the_page_stays_while_a_finger_holds_a_ring(site, browser):
    context = browser.new_context(viewport={"width": 390, "height": 500}, has_touch=True, is_mobile=True)
    page = context.new_page()
    try:
        page.goto(site)
        page.mouse.move(9, 9)
        page.locator("figure.live").first.scroll_into_view_if_needed()
        ring = page.locator(".draw-handle").first
        ring.wait_for()
        page.evaluate("scrollTo(0, scrollY + document.querySelector('.draw-ring').getBoundingClientRect().top - 200)")
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        place, scrolled = page.locator(".draw-ring").first.bounding_box(), page.evaluate("scrollY")
        x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
        start, finger = float(ring.get_attribute("aria-valuenow")), context.new_cdp_session(page)
        for kind, by in (("touchStart", 0), *(("touchMove", 8 * i) for i in range(1, 8)), ("touchEnd", None)):
            points = [] if by is None else [{"x": x, "y": y + by}]
            finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": points})
        page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        assert page.evaluate("scrollY") == scrolled
        assert float(ring.get_attribute("aria-valuenow")) == pytest.approx(start - 56 / 210 * 4, abs=0.15)
    finally:
        context.close()


@pytest.mark.weekly
def test_nothing_is_judged_that_nobody_drew(page, figure):
    figure.get_by_role("button").click()
    assert "you drew" not in figure.get_by_role("status").inner_text()


@pytest.mark.weekly
def test_what_was_measured_comes_after_the_press_and_is_what_is_frozen(page, figure):
    results = json.loads((ROOT / "results" / "train_short_test_long.json").read_text("utf-8"))
    runs = results["methods"]["rope"]["whole"]
    means = [sum(run[i] for run in runs) / len(runs) for i in range(len(runs[0]))]
    said = figure.get_by_role("status")
    drawn = figure.get_by_text("measured", exact=True)
    assert f"{means[-1]:.2f}" not in figure.inner_text() and not drawn.count()
    rings = figure.get_by_role("slider").all()
    rings[2].focus()
    page.keyboard.press("Home")
    figure.get_by_role("button", name="Show").click()
    assert all(f"{mean:.2f}" in said.inner_text() for mean in means[1:])
    assert f"{means[-1] - 1:.1f} too low" in said.inner_text()
    marks = figure.locator("svg.draw-plot rect")
    tops = [box["y"] + box["height"] / 2 for box in (marks.nth(i).bounding_box() for i in range(3))]
    grid = [figure.locator("svg.draw-plot line").nth(i).bounding_box()["y"] for i in range(5)]  # 1 to 5 nats
    assert [1 + 4 * (grid[0] - top) / (grid[0] - grid[4]) for top in tops] == pytest.approx(means[1:], abs=0.03)
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("ArrowUp")
    assert rings[2].get_attribute("aria-valuenow") == "1.0", "what is drawn stands while the two are compared"
    figure.get_by_role("button").click()
    assert not drawn.count() and rings[2].get_attribute("aria-disabled") is None


@pytest.mark.weekly
def test_no_words_meet_and_nothing_jumps(page, figure):
    page.set_viewport_size({"width": 390, "height": 664})
    rings, button = figure.get_by_role("slider"), figure.get_by_role("button")
    boxes = """(all) => all.map((text) => text.getBoundingClientRect()).map(({left, right, top, bottom, height}) =>
        [left, right, top + 0.15 * height, bottom - 0.15 * height])"""
    heights = set()
    last = round((draw_loss.data()["measured"][-1][1] - 1) / 0.1)  # steps up to where the measured curve ends
    for keys in (["End"], ["Home"], ["ArrowUp"] * last):
        for key in keys:
            rings.last.press(key)
        for _ in range(2):
            places = figure.locator("svg.draw-plot text").evaluate_all(boxes)
            for i, (left, right, top, bottom) in enumerate(places):
                assert 0 <= left and right <= 390
                for others in places[i + 1 :]:
                    assert right <= others[0] or others[1] <= left or bottom <= others[2] or others[3] <= top
            heights.add(figure.bounding_box()["height"])
            button.click()
    assert len(heights) == 1


def test_the_picture_does_not_show_what_was_measured():
    shown = draw_loss.data("alibi")
    assert shown["method"] == "ALiBi" and [n for n, *_ in shown["measured"]] == [64, 128, 256, 512]
    line = draw_loss.picture("alibi").split('<polyline points="')[2].split('"')[0]
    assert len(line.split()) == len(shown["known"]) + 1
