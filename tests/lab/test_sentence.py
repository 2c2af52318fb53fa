r"""One sentence, every method: what the page computes is what posenc computes, and one cursor moves all maps."""

import random
import re

import pytest
import torch
from conftest import Log

from posenc.lab.explore import STATIC
from posenc.lab.explore.page import script_json
from posenc.lab.live import STATIC as LIVE
from posenc.lab.live import sentence
from posenc.methods import METHODS, on_text

LETTERS = "abcdefghijklmnopqrstuvwxyzäßéжλ'-7"


def sentences(count=20):
    r"""Random sentences of 1 to 24 words, some of them twice: the longest outgrow the learned table."""
    made = random.Random(7)
    for _ in range(count):
        words = ["".join(made.choices(LETTERS, k=made.randint(1, 10))) for _ in range(made.randint(1, 18))]
        yield made.sample(words + made.choices(words, k=6), made.randint(1, len(words) + 6))


@pytest.fixture(scope="module")
def page(browser):
    r"""The figure without the book; `fresh` draws it."""
    page = browser.new_page(viewport={"width": 1280, "height": 900}, has_touch=True)
    page.log = Log(page)
    page.set_content(
        f"<style>{(STATIC / 'player.css').read_text('utf-8')}</style>"
        '<figure class="live live-on"><div class="live-place"></div></figure>'
        f'<script type="application/json" class="live-data">{script_json(sentence.data())}</script>'
    )
    page.evaluate("""() => {
        const make = (tag, name, attributes) => {  // as the player's
            const made = document.createElement(tag);
            made.className = name;
            for (const key in attributes) made.setAttribute(key, attributes[key]);
            return made;
        };
        window.posencLive = (name, draw) => {
            window.drawSentence = () => draw(document.querySelector(".live-place"), data, make);
        };
    }""")
    page.add_script_tag(path=LIVE / "sentence.js")
    yield page
    page.close()


@pytest.fixture
def fresh(page):
    r"""The page with the figure as it stands at first."""
    page.evaluate("""() => { window.data = JSON.parse(document.querySelector(".live-data").textContent);
        drawSentence(); }""")
    return page


def shares(page):
    r"""What the cards say: {title: the weight on the marked word}."""
    return dict(page.locator(".sentence-card:not(.sentence-fan)").evaluate_all(
        "(cards) => cards.map((card) => ['header', 'b'].map((part) => card.querySelector(part).textContent))"
    ))  # fmt: skip


def query(page):
    return page.locator(".sentence-query").all_inner_texts()


@pytest.mark.browser
def test_closed_forms_equal_posenc(fresh):
    compute = "([words, slope, methods]) => methods.map((m) => posencSentence.weights(data, m, words, slope))"
    for words in sentences():
        slope, methods = 1 / len(words), on_text()
        for method, rows in zip(methods, fresh.evaluate(compute, [words, slope, methods])):
            # where the table has no row, NaN here and there
            mine, theirs = torch.tensor(rows, dtype=torch.float64), sentence.weights(method, words, slope)
            assert torch.allclose(mine, theirs, rtol=0, atol=1e-5, equal_nan=True), (method, words)


def test_words_alike_are_alike():
    cat, sat, tired = (torch.tensor(sentence.content(word)[2]) for word in ("cat", "sat", "tired"))
    assert cat @ sat > 2 * abs(cat @ tired)
    torch.testing.assert_close(torch.tensor(sentence.content("Tac")[2]), cat)  # the same letters


def test_each_method_has_a_card_or_a_reason():
    shown = sentence.data()
    left_out = [row.title for name, row in METHODS.items() if name not in {card["name"] for card in shown["methods"]}]
    assert {card["name"] for card in shown["methods"]} == {*sentence.NOTES}
    assert left_out and all(title in shown["left_out"] for title in left_out)


@pytest.mark.browser
def test_presets_come_from_posenc(fresh):
    # a mark in the data that no closed form computes: the page must show it
    fresh.evaluate("""() => { data.weights[data.presets[0]].rope[9][7] = 0.77;
        drawSentence(); }""")
    assert shares(fresh)["RoPE"] == "77%"


@pytest.mark.browser
def test_one_cursor_moves_every_map(fresh):
    assert query(fresh) == ["tired"]
    rows = lambda: fresh.locator(".sentence-row").evaluate_all("(all) => all.map((r) => r.getAttribute('y'))")  # noqa: E731
    strip = fresh.locator(".sentence-words")
    strip.focus()
    strip.press("ArrowLeft")
    assert query(fresh) == ["was"] and set(rows()) == {"80"}
    assert "was" in strip.get_attribute("aria-valuetext")
    strip.get_by_text("mat").tap()
    assert query(fresh) == ["mat"]
    box = fresh.locator(".sentence-map").nth(5).bounding_box()
    at = lambda i, j: (box["x"] + box["width"] * (j + 0.5) / 10, box["y"] + box["height"] * (i + 0.5) / 10)  # noqa: E731
    fresh.mouse.move(*at(5, 1))
    assert query(fresh) == ["mat"] and fresh.locator(".sentence-key").inner_text() == "cat"  # hovering reads, only
    fresh.mouse.down()
    fresh.mouse.move(*at(7, 2), steps=3)
    fresh.mouse.up()
    assert query(fresh) == ["it"] and fresh.locator(".sentence-key").inner_text() == "sat"
    words = sentence.PRESETS[0].split()
    wanted = {sentence.SHORT.get(m, METHODS[m].title): sentence.weights(m, words)[7, 2].item() for m in on_text()}
    for title, share in shares(fresh).items():
        assert share == "<1%" or abs(int(share[:-1]) - 100 * wanted[title]) < 0.51, title


@pytest.mark.browser
def test_filler_comes_before_the_word_that_looks(fresh):
    before = shares(fresh)
    fresh.get_by_text("ten filler words more").click()
    assert query(fresh) == ["tired"] and fresh.locator(".sentence-key").inner_text() == "it"
    after = shares(fresh)
    assert after["Learned"] == "no row"  # the table has 16
    words = [*sentence.PRESETS[0].split()[:-1], *sentence.FILLER.split(), "tired"]
    assert after["RoPE"] == f"{sentence.weights('rope', words)[-1, 7]:.0%}" != before["RoPE"]
    fresh.get_by_text("ten fewer").click()
    assert shares(fresh) == before


@pytest.mark.browser
def test_the_fan_moves_alibi_alone(fresh):
    bars = lambda: fresh.locator(".sentence-bars").evaluate_all("(all) => all.map((bars) => bars.innerHTML)")  # noqa: E731
    before, drawn, fan = shares(fresh), bars(), fresh.locator(".sentence-fan svg")
    box = fan.bounding_box()
    fresh.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    fresh.mouse.down()
    fresh.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.9, steps=4)
    fresh.mouse.up()
    after, slope = shares(fresh), float(fan.get_attribute("aria-valuenow"))
    assert slope > 2 * sentence.SLOPE
    assert {title for title in before if before[title] != after[title]} == {"ALiBi"}
    assert [a == b for a, b in zip(drawn, bars())] == [name != "alibi" for name in on_text()]  # one scale, always
    fan.focus()
    fan.press("ArrowLeft")
    assert float(fan.get_attribute("aria-valuenow")) < slope


@pytest.mark.browser
def test_a_sentence_of_ones_own(fresh):
    field = fresh.get_by_label("type your own")
    field.fill("Äpfel und birnen und <b>äpfel</b>")
    assert query(fresh) == ["<b>äpfel</b>"]
    field.fill("one")
    assert shares(fresh)["NoPE"] == "100%" and shares(fresh)["Stick"] == "0%"  # a stick skips the word itself
    field.fill("   ")
    assert query(fresh) == ["one"]  # nothing typed changes nothing
    assert fresh.log.problems == []


@pytest.mark.browser
def test_a_finger_picks_the_word_looked_at(fresh):
    fresh.set_viewport_size({"width": 390, "height": 844})
    box, href = fresh.locator(".sentence-bars").nth(3).bounding_box(), fresh.url
    fresh.touchscreen.tap(box["x"] + 0.25 * box["width"], box["y"] + 0.5 * box["height"])
    assert fresh.locator(".sentence-key").inner_text() == "sat" and query(fresh) == ["tired"]
    fresh.locator(".sentence-card header").nth(3).tap()
    assert fresh.url == href  # a name leads nowhere
    fresh.set_viewport_size({"width": 1280, "height": 900})


def test_the_still_needs_no_script():
    still = sentence.picture()
    titles = {sentence.SHORT.get(name, METHODS[name].title) for name in on_text()}
    assert titles <= set(re.findall(r">([^<>]+)</text>", still)) and len(still) < 60_000
