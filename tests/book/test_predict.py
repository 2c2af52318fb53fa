r"""The `{predict}` boxes: what they hold, what they show before they are answered, whether their figures exist."""

import re
import sys

import pytest
from test_book import BOOK, PAGES, blocks
from tiny_site import EXT, build

from posenc.lab.live import draw_loss

sys.path.insert(0, EXT)
predict = pytest.importorskip("predict", reason="Sphinx is missing: run `make test` once")

BOX = """# A page

````{{predict}}
{option}
How far does $m + n$ go?

- [ ] It *falls*
- [x] It stays at $m - n$
- [ ] It grows,
  and then falls
---
It turns **both**.

```{{note}}
Nested.
```
````

{figure}
"""


def test_a_box_has_a_question_answers_and_a_reason():
    box = predict.read(
        ["Which?", "", "- [ ] this", "- [ ] that,", "  or that", "- [x] those", "---", "Because.", "---", "So."]
    )
    assert box == (["Which?", ""], ["this", "that, or that", "those"], 2, ["Because.", "---", "So."])


@pytest.mark.parametrize(
    "lines, word",
    [
        (["Which?", "- [ ] a", "- [ ] b", "---", "So."], "0 of them right"),
        (["Which?", "- [x] a", "- [x] b", "---", "So."], "2 of them right"),
        (["Which?", "- [x] a", "---", "So."], "1 answers"),
        (["Which?", "- [x] a", "- [ ] b", "", "more", "---", "So."], "'more'"),
        (["- [x] a", "- [ ] b", "---", "So."], "question"),
        (["Which?", "- [x] a", "- [ ] b"], "---"),
    ],
    ids=["none right", "two right", "one answer", "text among them", "no question", "no reason"],
)
def test_a_box_that_lacks_something_says_what(lines, word):
    with pytest.raises(ValueError, match=re.escape(word)):
        predict.read(lines)


def test_show_names_a_whole_state():
    id, state = predict.shown("rope.rotation_invariance=shift:10")
    from posenc.lab.figures import load

    assert state == {**load(id).default_state(), "shift": 10}


@pytest.mark.parametrize(
    "text, words",
    [
        ("rope.no_such_figure", ["no_such_figure"]),
        ("rope.rotation_invariance=speed:10", ["'speed'", "'shift'"]),
        ("rope.rotation_invariance=shift:1000", ["shift", "'1000'"]),
        ("rope.rotation_invariance=shift:far", ["shift", "'far'"]),
        ("sticks=cow:0.5", ["sticks", "'cow'", "'cat'"]),
        ("sticks=cat:1", ["cat", "0.98"]),
        ("draw_loss=cat:1", ["draw_loss", "'cat'"]),
        ("stick=cat:1", ["'stick'", "'sticks'"]),
    ],
    ids=["figure", "control", "value", "word", "live control", "live value", "live without", "live figure"],
)
def test_show_names_what_the_figure_has(text, words):
    with pytest.raises(ValueError) as raised:
        predict.shown(text)
    assert all(word in str(raised.value) for word in words)


def test_the_page_does_not_say_which_answer_is_right_outside_of_the_fold(tmp_path):
    page, warnings = build(tmp_path, BOX.format(option="", figure=""))
    box = re.search(r'<div class="[^"]*\bpredict\b.*', page, re.S)[0]
    before, fold = box[: box.index("<details")], box[box.index("<details") : box.index("</details>")]
    items = re.findall(r"<li[^>]*>(.*?)</li>", before, re.S)
    assert len(items) == 3 and "<em>falls</em>" in items[0] and "then falls" in items[2]
    bare = re.sub(r"<p>.*?</p>", "", before[before.index("<li") :], flags=re.S)
    assert len(set(re.findall(r"<li.*?</li>", bare, re.S))) == 1, "one answer is marked"
    assert not re.search(r"right|true|\[x\]|checked", before)
    assert "predict-right-1" in fold and "stays at" in fold and "<strong>both</strong>" in fold and "Nested." in fold
    assert "open" not in box[box.index("<details") :].split(">")[0]
    assert not warnings


@pytest.mark.parametrize("show", ["", "sticks=cat:0.9"], ids=["none", "live"])
def test_only_an_explorable_can_wait(show, tmp_path):
    option = (f":show: {show}\n" if show else "") + ":waits:"
    _, warnings = build(tmp_path, BOX.format(option=option, figure="```{live} sticks\n```"))
    assert "ERROR" in warnings and "waits" in warnings


@pytest.mark.weekly
def test_the_figure_that_a_box_names_waits_alone(tmp_path):
    figures = "```{explorable} rope.rotation_invariance\n```\n\n```{explorable} rope.trained_head\n```"
    text, _ = build(tmp_path, BOX.format(option=":show: rope.trained_head\n:waits:", figure=figures))
    marked = [("explorable-waits" in figure.split(">")[0]) for figure in text.split("<figure")[1:]]
    assert marked == [False, True]


def test_what_a_box_shows_must_be_there(tmp_path):
    from sphinx.errors import ExtensionError

    _, warnings = build(tmp_path / "value", BOX.format(option=":show: rope.rotation_invariance=speed:1", figure=""))
    assert "ERROR" in warnings and "'speed'" in warnings
    with pytest.raises(ExtensionError, match=r"rope\.rotation_invariance"):
        build(tmp_path / "figure", BOX.format(option=":show: rope.rotation_invariance=shift:10", figure=""))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_every_box_of_the_book_can_be_answered(page):
    text, places = page.read_text("utf-8"), []
    for _, body in blocks(text, "predict"):
        option = re.match(r":show: (.+)\n", body)
        if option:
            id, _ = predict.shown(option[1].strip('"'))
            after = text[text.index(body) :]
            assert id in re.findall(r"^`{3,}\{(?:explorable|live)\} (\S+)", after, re.M)[:2], (
                f"{id} does not follow the box"
            )
        places.append(predict.read(body[option.end() if option else 0 :].rstrip().split("\n")).right)
    assert len(places) < 3 or len(set(places)) > 1, "the right answer is always at the same place"
    assert not re.search(r"\{admonition\} Predict\b", text), "write it as {predict}"


def test_the_book_asks():
    assert sum(len(blocks(page.read_text("utf-8"), "predict")) for page in PAGES) >= 50, BOOK


def test_the_picture_of_a_loss_to_draw_does_not_show_what_was_measured():
    shown = draw_loss.data("alibi")
    assert shown["method"] == "ALiBi" and [n for n, *_ in shown["measured"]] == [64, 128, 256, 512]
    line = draw_loss.picture("alibi").split('<polyline points="')[2].split('"')[0]
    assert len(line.split()) == len(shown["known"]) + 1
