r"""The minutes that a chapter's opening box promises are those that its first reading takes, by a count."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book"))
import minutes  # noqa: E402


@pytest.mark.parametrize("name", minutes.names())
def test_a_box_says_what_the_first_reading_takes(name):
    text = (minutes.BOOK / f"{name}.md").read_text("utf-8")
    count = minutes.first_reading(text)
    assert "\n## Second reading\n" not in text or count.words <= 1500
    said = minutes.book()[name].reading
    assert abs(count.minutes - said) <= minutes.WITHIN * said, f"{count.minutes:.1f} minutes by {count}"


PAGE = r"""---
kernelspec: {name: python3}
---
# One title

Three [words of](somewhere.md) $a + b = c$ prose.

$$
a = b
$$ (eq-one)

```{admonition} Two words
:class: tip
Two more.
```
"""


@pytest.mark.parametrize(
    "more, expected",
    [
        ("", (11, 1, 0, 0, 0, 0)),
        ("word {glue:text}`a_number` `two words` {cite}`somebody`", (15, 1, 0, 0, 0, 0)),
        ("```{explorable} rope.scores\n```", (11, 1, 0, 1, 0, 0)),
        ("```{code-cell} ipython3\n:tags: [hide-output]\na = 1\n\nb = 2\n```", (11, 1, 2, 0, 0, 0)),
        ("```{code-cell} ipython3\n:tags: [remove-cell]\na = 1\n```", (11, 1, 0, 0, 0, 0)),
        (
            '```{code-cell} ipython3\n---\ntags: [hide-input]\n  caption: "A plot."\n---\na = 1\n```',
            (13, 1, 0, 0, 0, 0),
        ),
        ("````{dropdown} Why?\nBecause.\n\n```python\na = 1\n```\n````", (12, 1, 0, 0, 0, 0)),
        (
            "```{predict}\n:show: a.b=c:1\nWhich?\n\n- [ ] One\n- [x] Two\n---\nTwo, since $1 + 1$.\n```",
            (15, 1, 0, 0, 3, 0),
        ),
        ("## Check yourself\n\n````{dropdown} Why?\nBecause it is.\n````", (14, 1, 0, 0, 3, 0)),
        ("```{code-cell} ipython3\nprint(1)\n```", (11, 1, 1, 0, 0, 1)),
        (
            "```{code-cell} ipython3\n---\ntags: [remove-input]\nmystnb:\n  markdown_format: myst\n---\na()\n```",
            (11, 1, 0, 0, 60, 0),
        ),
        ("{glue:text}`a_verdict`", (12, 1, 0, 0, 20, 0)),
        ("```python\na = 1\nb = 2\n```", (11, 1, 2, 0, 0, 0)),
        (":::{prf:proof}\n$$x$$\n\nDone.\n:::", (12, 2, 0, 0, 0, 0)),
        ("| a | b |\n|---|---|\n| c | $d$ |", (15, 1, 0, 0, 0, 0)),
        ("## Second reading\n\nMore.", (11, 1, 0, 0, 0, 0)),
    ],
)
def test_what_a_reader_sees_and_unfolds_on_the_way_is_counted(more, expected):
    assert minutes.first_reading(f"{PAGE}\n{more}\n") == expected


def test_an_included_function_counts_without_the_long_part_of_its_docstring():
    include = "```{{literalinclude}} ../posenc/bias/alibi.py\n:pyobject: {}\n:language: python\n```"
    whole = minutes.first_reading(include.format("slopes")).lines
    source = (ROOT / "posenc/bias/alibi.py").read_text("utf-8").split("def slopes")[1].split("\n\n\n")[0]
    assert 5 < whole < sum(bool(line.strip()) for line in source.split("\n"))


def test_a_block_that_no_rule_speaks_of_is_refused():
    with pytest.raises(ValueError, match="tab-set.*minutes.py"):
        minutes.first_reading("```{tab-set}\n```")


def test_the_table_says_which_box_is_off(capsys, monkeypatch):
    chapter = minutes.book()["rope"]
    monkeypatch.setattr(minutes, "book", lambda: {"rope": chapter._replace(reading=10)})
    minutes.main(["rope"])
    head, row = capsys.readouterr().out.strip().split("\n")
    assert head.split() == ["chapter", "words", "formulas", "code", "figures", "more", "minutes", "box"]
    assert row.split()[0] == "rope" and row.split()[-2:] == ["10", "off"]
