r"""A `{predict}` box, a figure that waits for its answer, and one that the reader draws first, in a real browser."""

import statistics

import pytest
from tiny_site import build

from posenc.lab.experiments import load_results

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
:show: scaling.angles=scheme:NTK,factor:8
:waits: new at the target length
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


def is_missing(page) -> bool:
    r"""Whether the answer is missing from the drawing; the figure's own button then stands where the readout does."""
    find = "document.querySelector('.explorable-waits .explorable-drawing')?.data.find((trace) => trace.name === {!r})"
    drawn = page.evaluate(find.format("new at the target length") + ".visible")
    for part, seen in ((".explorable-asks", drawn == "legendonly"), (".explorable-readout", drawn != "legendonly")):
        assert page.locator(f"{SEEN} {part}").is_visible() == seen
    return drawn == "legendonly"


def test_a_press_marks_the_answers_and_moves_the_figure_alone(page):
    found, buttons, fold = box(page)
    assert buttons.all_inner_texts() == ["It grows", "It stays", "It falls"]
    assert "together" not in found.inner_text() and found.get_by_role("status").inner_text() == ""
    page.evaluate("posencExplorables.get('rope.rotation_invariance').start()")
    buttons.nth(2).click()
    assert [text.split("\n")[-1] for text in buttons.all_inner_texts()][:3] == ["It grows", "✓ right", "✗ your answer"]
    assert "It stays" in found.get_by_role("status").inner_text()
    page.get_by_role("button", name="See it in the figure").click()
    assert page.evaluate("posencExplorables.get('rope.rotation_invariance').state().shift") == 10
    assert fold.get_attribute("open") is None, "the reason pushes the figure away"
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


def test_a_figure_lacks_the_answer_until_one_is_pressed(page):
    size = "(body) => [body.offsetHeight, body.closest('figure').offsetHeight]"
    assert not page.locator(f"{SEEN} .explorable-picture").is_visible(), "the picture gives the answer away"
    page.evaluate(START)
    before = page.locator(SEEN).evaluate(size)
    assert is_missing(page)
    page.evaluate("posencExplorables.get('scaling.angles').set({factor: 4})")
    page.evaluate("posencExplorables.idle()")
    assert is_missing(page), "a move gives the answer away"
    box(page, 2)[1].first.click()
    page.wait_for_function("posencExplorables.get('scaling.angles').state().factor == 8")
    page.evaluate("posencExplorables.idle()")
    assert not is_missing(page) and page.locator(SEEN).evaluate(size) == before


def test_the_answer_is_shown_by_the_figure_s_button_or_its_address_and_the_keyboard_goes_on_in_it(
    page, site, open_page
):
    page.evaluate(START)
    page.get_by_role("button", name="Show it").press("Enter")
    page.wait_for_function("posencExplorables.get('scaling.angles').state().factor == 8")
    page.evaluate("posencExplorables.idle()")
    assert not is_missing(page)
    assert page.evaluate(f"Boolean(document.activeElement.closest('{SEEN} .explorable-controls'))")
    named = open_page(f"{site}#scaling.angles=factor:8")
    named.evaluate(START)
    assert not is_missing(named) and named.evaluate("posencExplorables.get('scaling.angles').state().factor") == 8


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
    columns = [ring.bounding_box()["x"] + place["width"] / 2 for ring in rings]
    start, end = columns[0] - 40, columns[2] + 40
    page.mouse.move(start, y + 90)
    page.mouse.down()
    page.mouse.move(end, y - 20, steps=20)  # straight: each ring has its place on it, to a tenth of a nat
    page.mouse.up()
    for ring, column in zip(rings, columns):
        on = y + 90 - 110 * (column - start) / (end - start)
        assert ring.bounding_box()["y"] + place["height"] / 2 == pytest.approx(on, abs=8)
    rings[2].press("Home")
    runs = load_results("train_short_test_long")["methods"]
    means = [sum(losses) / len(losses) for losses in zip(*runs["rope"]["whole"])][1:]
    assert f"{means[-1]:.2f}" not in figure.inner_text()
    figure.get_by_role("button", name="Show").click()
    assert all(f"{mean:.2f}" in said.inner_text() for mean in means) and "too low" in said.inner_text()
    figure.get_by_role("button", name="Cut to").click()
    figure.get_by_label("beside").select_option("ALiBi")
    ends = (
        statistics.fmean(run[-1] for run in runs[name][kind]) for name, kind in (("rope", "cut"), ("alibi", "whole"))
    )
    assert "Cut, it is {:.2f} at 512. ALiBi: {:.2f} at 512.".format(*ends) in said.inner_text()
