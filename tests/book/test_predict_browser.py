r"""A `{predict}` box, a figure that waits for its answer, and one that the reader draws first, in a real browser."""

import json

import pytest
from tiny_site import build

from conftest import ROOT

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
:show: scaling.angles=scheme:NTK,factor:8,target:4
:waits:
Which pairs?

- [ ] Fast ones
- [x] Slow ones
---
They turn *slowly*.
```

```{explorable} scaling.angles
```
"""
SEEN = '[data-explorable="scaling.angles"]'
START = "async () => { await posencExplorables.get('scaling.angles').start(); await posencExplorables.idle(); }"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    folder = tmp_path_factory.mktemp("predict")
    build(folder, PAGE)
    return (folder / "out" / "index.html").as_uri()


@pytest.fixture
def page(site, open_page):
    page = open_page(site)
    yield page
    assert not page.log.problems


def box(page, number=0):
    found = page.locator(".predict").nth(number)
    return found, found.get_by_role("button"), found.locator("details")


def is_covered(page) -> bool:
    r"""Whether the cover stands; what is under it is then out of sight and reach, and it is as large as that."""
    cover, body = page.locator(f"{SEEN} .explorable-cover"), page.locator(SEEN)
    under = page.locator(f"{SEEN} :is(.explorable-plot, .explorable-picture, input, .explorable-reset)")
    covered = cover.count() > 0 and cover.is_visible()
    assert any(one.is_visible() for one in under.all()) != covered
    return covered and cover.bounding_box() == body.bounding_box()


def test_a_press_marks_the_answers_moves_the_figure_then_opens_the_fold(page):
    found, buttons, fold = box(page)
    assert buttons.all_inner_texts() == ["It grows", "It stays", "It falls"]
    assert "together" not in found.inner_text() and found.get_by_role("status").inner_text() == ""
    page.evaluate("""() => { document.querySelector('.predict details').addEventListener('toggle', () => {
        window.opened = posencExplorables.get('rope.rotation_invariance').state(); }); }""")
    buttons.nth(2).click()
    assert [text.split("\n")[-1] for text in buttons.all_inner_texts()] == ["It grows", "✓ right", "✗ your answer"]
    assert "It stays" in found.get_by_role("status").inner_text() and fold.get_attribute("open") is None
    page.wait_for_function("window.opened")
    assert page.evaluate("window.opened.shift") == 10, "the fold opened before the figure had answered"
    assert "together" in found.inner_text()
    look = fold.get_by_role("button", name="See it in the figure")
    look.click()
    page.wait_for_function(
        "document.querySelector('figure.explorable').getBoundingClientRect().bottom <= innerHeight + 1"
    )


def test_an_answer_is_given_once_and_by_keyboard(page):
    found, buttons, fold = box(page, 1)
    buttons.first.press("Enter")
    fold.get_by_text("So it is.").wait_for()
    assert "✓" in buttons.first.inner_text()
    said = found.get_by_role("status").inner_text()
    buttons.nth(1).press("Space")
    assert buttons.nth(1).inner_text() == "That" and found.get_by_role("status").inner_text() == said


def test_a_figure_waits_until_an_answer_is_pressed_but_not_in_print(page):
    size = "(body) => [body.offsetHeight, body.closest('figure').offsetHeight]"
    before = page.locator(SEEN).evaluate(size)
    assert is_covered(page)
    page.evaluate(START)
    assert is_covered(page), "the drawing gives the answer away"
    page.emulate_media(media="print")
    assert not page.locator(".explorable-cover").is_visible()
    page.emulate_media(media="screen")
    box(page, 2)[1].first.click()
    page.wait_for_function("document.querySelectorAll('.predict details')[2].open")
    assert page.evaluate("posencExplorables.get('scaling.angles').state().factor") == 8
    assert not is_covered(page) and page.locator(SEEN).evaluate(size) == before


def test_a_figure_is_shown_by_its_button_or_its_address_and_the_keyboard_goes_on_in_it(page, site, open_page):
    page.get_by_role("button", name="Show the figure").press("Enter")
    assert not is_covered(page)
    assert page.evaluate(f"Boolean(document.activeElement.closest('{SEEN} .explorable-controls'))")
    page.evaluate(START)
    assert not page.evaluate("posencExplorables.get('scaling.angles').changed()")
    named = open_page(f"{site}#scaling.angles=factor:8")
    named.evaluate(START)
    assert not is_covered(named) and named.evaluate("posencExplorables.get('scaling.angles').state().factor") == 8


def test_rings_move_and_what_was_measured_comes_after_the_press(page):
    page.mouse.move(9, 9)
    figure = page.locator('figure.live:has([data-live="draw_loss"])')
    figure.scroll_into_view_if_needed()
    figure.get_by_role("slider").first.wait_for()
    rings, said = figure.get_by_role("slider").all(), figure.get_by_role("status")
    assert [ring.get_attribute("aria-label").split()[-2] for ring in rings] == ["128", "256", "512"]
    start, place = float(rings[0].get_attribute("aria-valuenow")), rings[1].bounding_box()
    for key in ("ArrowUp", "ArrowUp", "ArrowDown", "PageUp"):
        rings[0].press(key)
    assert float(rings[0].get_attribute("aria-valuenow")) == pytest.approx(start + 0.6)
    x, y = place["x"] + place["width"] / 2, place["y"] + place["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y + 80)
    page.mouse.up()
    moved = rings[1].bounding_box()
    assert moved["y"] == pytest.approx(place["y"] + 80, abs=5) and moved["x"] == pytest.approx(place["x"], abs=0.5)
    rings[2].press("Home")
    runs = json.loads((ROOT / "results" / "train_short_test_long.json").read_text("utf-8"))["methods"]["rope"]["whole"]
    means = [sum(losses) / len(runs) for losses in zip(*runs)][1:]
    assert f"{means[-1]:.2f}" not in figure.inner_text()
    figure.get_by_role("button", name="Show").click()
    assert all(f"{mean:.2f}" in said.inner_text() for mean in means) and "too low" in said.inner_text()
