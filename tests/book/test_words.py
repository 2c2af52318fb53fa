r"""A page links a word of the glossary where it first uses it."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book"))
import symbols  # noqa: E402
import words  # noqa: E402


@pytest.mark.parametrize("page", symbols.pages())
def test_first_uses_lead_to_the_glossary(page):
    assert list(words.first_uses((words.BOOK / f"{page}.md").read_text("utf-8"))) == []


PAGE = r"""---
title: lanes
---
# Lanes and logits

`lane` $lane$ [a lane](lane.md) "causal mask"

```{predict}
:show: lane
Where?

- [ ] In the lane
---
In a causal
mask: {glue:text}`lane`, many lanes.
```

{term}`Logits <logit>` and a logit.
"""


def test_the_first_use_in_prose_becomes_a_link():
    assert {word: use[0] for word, use in words.first_uses(PAGE).items()} == {
        "causal mask": "causal\nmask",
        "lane": "lanes",
    }
    linked = words.linked(PAGE)
    assert "In a {term}`causal mask`: {glue:text}`lane`, many {term}`lanes <lane>`." in linked
    assert words.first_uses(linked) == {}


def test_a_link_after_the_first_use_is_too_late():
    assert list(words.first_uses("The loss in nats, in {term}`nats`.")) == ["nats"]


def test_words_left_out_are_in_the_glossary():
    glossary = (words.BOOK / "notation.md").read_text("utf-8").split("```{glossary}\n")[1].split("\n```")[0].split("\n")
    assert {*words.EVERYDAY, *words.NAMES} <= set(glossary)
