r"""The `{predict}` boxes: what they hold, what they show before they are answered, whether their figures exist."""

import re

import pytest
from test_book import predict
from tiny_site import build

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


def test_a_box_that_lacks_something_says_what():
    for text, word in {
        "Which?|- [ ] a|- [ ] b|---|So.": "0 of them right",
        "Which?|- [x] a|- [x] b|---|So.": "2 of them right",
        "Which?|- [x] a|---|So.": "1 answers",
        "Which?|- [x] a|- [ ] b||more|---|So.": "'more'",
        "- [x] a|- [ ] b|---|So.": "question",
        "Which?|- [x] a|- [ ] b": "---",
    }.items():
        with pytest.raises(ValueError, match=re.escape(word)):
            predict.read(text.split("|"))


def test_show_names_what_the_figure_has():
    for text, words in {
        "rope.no_such_figure": ["no_such_figure"],
        "rope.rotation_invariance=speed:10": ["'speed'", "'shift'"],
        "rope.rotation_invariance=shift:1000": ["shift", "'1000'"],
        "sticks=cow:0.5": ["sticks", "'cow'", "'cat'"],
        "sticks=cat:1": ["cat", "0.98"],
        "stick=cat:1": ["'stick'", "'sticks'"],
    }.items():
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
    assert "open" not in fold.split(">")[0] and not warnings


def test_only_an_explorable_that_is_there_can_wait_or_be_shown(tmp_path):
    from sphinx.errors import ExtensionError

    for option in (":waits: any", ":show: rope.rotation_invariance\n:waits: no such"):
        _, warnings = build(tmp_path / option[-4:].strip(), BOX.format(option=option, figure="```{live} sticks\n```"))
        assert "ERROR" in warnings and "waits" in warnings
    with pytest.raises(ExtensionError, match=r"rope\.rotation_invariance"):
        build(tmp_path / "figure", BOX.format(option=":show: rope.rotation_invariance=shift:10", figure=""))
