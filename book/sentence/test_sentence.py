r"""One sentence, every method: what the page computes is what posenc computes, and a link opens what was seen."""

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


@pytest.fixture
def fresh(browser, tmp_path):
    r"""A page with the book's player and the figure as it stands at first."""
    for source in (STATIC / "player.js", STATIC / "player.css", live_scripts()["sentence"]):
        target = tmp_path / ("live" if source.parent != STATIC else "") / source.name
        target.parent.mkdir(exist_ok=True)
        target.write_text(source.read_text("utf-8"), "utf-8")
    (tmp_path / "page.html").write_text(
        '<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="player.css">'
        '<script defer src="player.js"></script><figure class="live"><div data-live="sentence">'
        '<div class="live-still"></div><div class="live-place"></div>'
        f'<script type="application/json" class="live-data">{script_json(sentence.data())}</script></div></figure>',
        "utf-8",
    )
    page = browser.new_page(viewport={"width": 900, "height": 900}, has_touch=True, reduced_motion="reduce")
    page.log = Log(page)
    page.goto(f"{(tmp_path / 'page.html').as_uri()}#sentence=")
    page.wait_for_selector(".sentence-card")
    yield page
    assert page.log.problems == []
    page.close()


def shares(page):
    r"""What the cards say, in their order: {title: the share on the word looked at}."""
    return dict(page.locator(".sentence-card").evaluate_all(
        "(cards) => cards.map((card) => ['span', 'b'].map((part) => card.querySelector(part).textContent))"
    ))  # fmt: skip


def marked(page):
    r"""The word that asks, and the one looked at."""
    return [page.locator(f".sentence-words [{name}=true]").inner_text() for name in ("aria-current", "aria-pressed")]


@pytest.mark.browser
def test_closed_forms_equal_posenc(fresh):
    data = 'JSON.parse(document.querySelector(".live-data").textContent)'
    compute = f"([words, slope, methods]) => methods.map((m) => posencSentence.weights({data}, m, words, slope))"
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
def test_a_word_is_looked_at_and_asks_when_pressed_again(fresh):
    assert marked(fresh) == ["tired", "it"]
    words = fresh.locator(".sentence-words button")
    words.nth(7).press("ArrowLeft")
    assert marked(fresh) == ["was", "it"] and words.nth(8).evaluate("(word) => word === document.activeElement")
    words.nth(8).press("ArrowDown")
    assert marked(fresh) == ["was", "because"]
    words.nth(7).tap()
    words.nth(7).tap()
    assert marked(fresh)[0] == "it"
    words.nth(1).tap()
    assert marked(fresh) == ["it", "cat"]
    words, said = sentence.PRESETS[0].split(), shares(fresh)
    wanted = {sentence.SHORT.get(m, METHODS[m].title): sentence.weights(m, words)[7, 1].item() for m in on_text()}
    assert [wanted[title] for title in said] == pytest.approx(sorted(wanted.values(), reverse=True), abs=1e-4)
    for title, share in said.items():
        assert share == "<1%" or abs(int(share[:-1]) - 100 * wanted[title]) < 0.51, title


@pytest.mark.browser
def test_filler_keeps_both_words_and_the_height(fresh):
    fresh.locator(".sentence-words button").nth(5).click()
    figure, before, place = fresh.locator("figure"), shares(fresh), fresh.locator(".sentence-words button").nth(5)
    tall = figure.bounding_box()["height"]
    fresh.get_by_text("ten filler words more").click()
    after = shares(fresh)
    assert marked(fresh) == ["tired", "mat"] and place.get_attribute("aria-pressed") == "true"
    assert after["Learned"] == "no row" and [*after][-1] == "Learned"  # the table has 16
    words = [*sentence.PRESETS[0].split()[:-1], *sentence.FILLER.split(), "tired"]
    assert after["RSE"] == f"{sentence.weights('rse', words)[-1, 5]:.0%}" and [*after] != [*before]
    fresh.get_by_label("type your own").fill("word " * 31)
    assert "first 24 of 31" in fresh.get_by_role("status").inner_text()
    fresh.get_by_text("ten filler words more").click()
    assert figure.bounding_box()["height"] == tall
    fresh.get_by_role("button", name=sentence.PRESETS[0]).click()
    fresh.locator(".sentence-words button").nth(5).click()
    assert shares(fresh) == before


@pytest.mark.browser
def test_the_slope_moves_alibi_alone(fresh):
    before = shares(fresh)
    assert not fresh.get_by_role("slider").is_visible()
    fresh.get_by_text("all methods").click()
    fresh.get_by_role("slider").press("End")
    after = shares(fresh)
    assert {title for title in before if before[title] != after[title]} == {"ALiBi"}


@pytest.mark.browser
def test_a_copied_link_opens_what_was_seen(fresh):
    field = fresh.get_by_label("type your own")
    field.fill("one")
    assert shares(fresh)["NoPE"] == "100%" and shares(fresh)["Stick"] == "0%"  # a stick skips the word itself
    field.fill("   ")
    assert marked(fresh) == ["one", "one"]  # nothing typed changes nothing
    field.fill("Äpfel, und: birnen & <b>äpfel</b> =")
    cards = [card for card in fresh.locator(".sentence-card").all() if card.is_visible()]
    assert len(cards) == 6 and {"true"} <= {card.get_attribute("aria-pressed") for card in cards}
    fresh.get_by_text("all methods").click()
    fresh.locator(".sentence-card", has_text="ALiBi").click()
    fresh.get_by_label("below: ").check()
    fresh.locator(".sentence-card", has_text="ALiBi").click()  # it goes below, and what was below goes above
    fresh.get_by_text("ten filler words more").click()
    fresh.evaluate("Object.defineProperty(navigator, 'clipboard', {value: undefined})")
    fresh.get_by_text("Copy link").click()
    link, seen = fresh.get_by_label("The link").input_value(), fresh.locator(".sentence-stage").inner_text()
    assert "above: Stick-breaking" in seen and "below: ALiBi" in seen
    fresh.wait_for_url(link)  # the player has written it
    said, both = shares(fresh), marked(fresh)
    fresh.goto("about:blank")
    fresh.goto(link)
    fresh.wait_for_selector(".sentence-card")
    fresh.wait_for_function("(seen) => document.querySelector('.sentence-stage').innerText === seen", arg=seen)
    assert shares(fresh) == said and marked(fresh) == both
