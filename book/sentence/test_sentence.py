r"""One sentence, every method: what the page computes is what posenc computes, and one cursor moves all maps."""

import random
import re

import pytest
import torch

from conftest import Log
from posenc.chapters import live_scripts
from posenc.chapters.sentence import sentence
from posenc.lab.explore import STATIC
from posenc.lab.explore.page import script_json
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
    page.add_script_tag(path=live_scripts()["sentence"])
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


def test_each_method_has_a_card_or_a_reason_and_the_still_names_them():
    shown = sentence.data()
    left_out = [row.title for name, row in METHODS.items() if name not in {card["name"] for card in shown["methods"]}]
    assert {card["name"] for card in shown["methods"]} == {*sentence.NOTES}
    assert left_out and all(title in shown["left_out"] for title in left_out)
    titles = {sentence.SHORT.get(name, METHODS[name].title) for name in on_text()}
    assert titles <= set(re.findall(r">([^<>]+)</text>", sentence.picture()))


@pytest.mark.browser
def test_one_cursor_moves_every_map(fresh):
    assert query(fresh) == ["tired"]
    strip = fresh.locator(".sentence-words")
    strip.focus()
    strip.press("ArrowLeft")
    rows = fresh.locator(".sentence-row").evaluate_all("(all) => all.map((r) => r.getAttribute('y'))")
    assert query(fresh) == ["was"] and set(rows) == {"80"} and "was" in strip.get_attribute("aria-valuetext")
    strip.get_by_text("mat").tap()
    assert query(fresh) == ["mat"]
    box = fresh.locator(".sentence-map").nth(5).bounding_box()
    fresh.mouse.move(box["x"] + box["width"] * 0.25, box["y"] + box["height"] * 0.75)
    assert query(fresh) == ["mat"] and fresh.locator(".sentence-key").inner_text() == "sat"  # hovering reads, only
    fresh.mouse.down()
    fresh.mouse.up()
    assert query(fresh) == ["it"]
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
    before, fan = shares(fresh), fresh.locator(".sentence-fan svg")
    box = fan.bounding_box()
    fresh.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    fresh.mouse.down()
    fresh.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] * 0.9, steps=4)
    fresh.mouse.up()
    after, slope = shares(fresh), float(fan.get_attribute("aria-valuenow"))
    assert slope > 2 * sentence.SLOPE and {title for title in before if before[title] != after[title]} == {"ALiBi"}
    fan.focus()
    fan.press("ArrowLeft")
    assert float(fan.get_attribute("aria-valuenow")) < slope


@pytest.mark.browser
def test_a_sentence_of_ones_own_and_back_to_a_preset(fresh):
    field = fresh.get_by_label("type your own")
    field.fill("Äpfel und birnen und <b>äpfel</b>")
    assert query(fresh) == ["<b>äpfel</b>"]
    field.fill("one")
    assert shares(fresh)["NoPE"] == "100%" and shares(fresh)["Stick"] == "0%"  # a stick skips the word itself
    field.fill("   ")
    assert query(fresh) == ["one"]  # nothing typed changes nothing
    assert fresh.locator("[aria-pressed=true]").count() == 0
    fresh.get_by_role("button", name=sentence.PRESETS[1]).click()
    assert field.input_value() == sentence.PRESETS[1] and fresh.log.problems == []
