"""What the chapter on CoPE computes beside its text: a head made by hand, positions that are sums."""

import pytest
import torch

from posenc.chapters.cope import facts, gates


def test_the_head_made_by_hand_finds_the_previous_sentence_in_both():
    for name, words in facts.TEXTS.items():
        starts = [0, *(j + 1 for j, word in enumerate(words) if word == ".")]  # the last is the query's own
        p, weights = facts.count_sentences(name)
        assert weights.argmax() == starts[-2] and weights.max() > 0.99
        assert p[starts[-2]] == pytest.approx(2, abs=0.05)


def test_half_a_gate_moves_all_biases_but_those_of_the_newest_two_and_the_oldest_two():
    half = gates.presets("cope")["words"]
    half[8] = 0.5
    before, after = (gates.read("cope", line, 10)[1] for line in (gates.presets("cope")["words"], half))
    assert (before != after).nonzero().flatten().tolist() == list(range(2, 9))  # as the first box of the page says


SHOWN = """(state) => { if (state) posencExplorables.get('gates').set(state);
    return JSON.parse(document.querySelector('[data-live=gates] .live-place').dataset.shown); }"""


@pytest.mark.browser
@pytest.mark.parametrize("method", ["cope", "fox"])
def test_gates_under_the_hand_are_posenc_s_and_each_moves_alone(base, open_page, method):
    page = open_page(f"{base}book/{method}/index.html")
    page.locator(".live-on [data-live=gates]").wait_for()
    draw = torch.Generator().manual_seed(0)
    for query in (3, 7, 11):
        line = (0.01 + 0.99 * torch.rand(12, generator=draw)).double().round(decimals=2).tolist()
        shown = page.evaluate(SHOWN, {"query": query} | {f"gate{n}": gate for n, gate in enumerate(line)})
        for name, wanted in zip(("steps", "second"), gates.read(method, line, query)):
            assert shown[name] == pytest.approx(wanted.tolist(), abs=1e-3)
    page.evaluate(SHOWN, {"query": 5, "gate2": 1})
    slider = page.locator("[data-live=gates]").get_by_role("slider").nth(2)
    slider.locator(".gates-hold").hover()
    box, before = slider.locator(".gates-hold").bounding_box(), page.evaluate(SHOWN)
    page.mouse.down()
    page.mouse.move(box["x"] + 200, box["y"] + 22 + 40)  # slips over other words
    page.mouse.up()
    after = page.evaluate(SHOWN)
    assert [n for n in range(12) if after["gates"][n] != before["gates"][n]] == [2] and after["query"] == 5
    assert 0.5 < after["gates"][2] < 0.8
    slider.press("ArrowDown")
    assert float(slider.get_attribute("aria-valuenow")) == pytest.approx(after["gates"][2] - 0.05)
    page.get_by_role("radiogroup", name="the query").get_by_role("radio", checked=True).press("ArrowRight")
    assert page.evaluate(SHOWN)["query"] == 6
