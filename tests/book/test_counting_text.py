r"""How long a first reading takes, and what a page's symbols are: the counting and the finding."""

import pytest
from test_book import minutes, symbols

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
CELL = "```{code-cell} ipython3\n"


@pytest.mark.parametrize(
    "more, expected",  # words, formulas, lines, explorables, more words, printed lines
    [
        ("word {glue:text}`a_number` `two words` {cite}`somebody`", (15, 1, 0, 0, 0, 0)),
        ("```{explorable} rope.scores\n```", (11, 1, 0, 1, 0, 0)),
        (CELL + ":tags: [hide-output]\na = 1\n\nb = 2\n```", (11, 1, 2, 0, 0, 0)),
        (CELL + ":tags: [remove-cell]\na = 1\n```", (11, 1, 0, 0, 0, 0)),
        (CELL + '---\ntags: [hide-input]\n  caption: "A plot."\n---\na = 1\n```', (13, 1, 0, 0, 0, 0)),
        ("````{dropdown} Why?\nBecause.\n\n```python\na = 1\n```\n````", (12, 1, 0, 0, 0, 0)),
        ("```{predict}\n:show: a.b=c:1\nWhich?\n\n- [ ] One\n- [x] Two\n---\nIt is $1 + 1$.\n```", (15, 1, 0, 0, 3, 0)),
        ("## Check yourself\n\n````{dropdown} Why?\nBecause it is.\n````", (14, 1, 0, 0, 3, 0)),
        (CELL + "print(1)\n```", (11, 1, 1, 0, 0, 1)),
        (CELL + "---\ntags: [remove-input]\nmystnb:\n  markdown_format: myst\n---\na()\n```", (11, 1, 0, 0, 60, 0)),
        ("| a | b |\n|---|---|\n| c | $d$ |", (15, 1, 0, 0, 0, 0)),
        ("## Second reading\n\nMore.", (11, 1, 0, 0, 0, 0)),
    ],
)
def test_what_a_reader_sees_and_unfolds_on_the_way_is_counted(more, expected):
    assert minutes.first_reading(f"{PAGE}\n{more}\n") == expected


def test_a_block_that_no_rule_speaks_of_is_refused():
    with pytest.raises(ValueError, match="tab-set.*minutes.py"):
        minutes.first_reading("```{tab-set}\n```")


def test_symbols_of_a_formula():
    for formula, expected in {
        r"s_{ij} = q_i \cdot k_j / \sqrt D": "i j s__ i q_ j k_ D",
        r"\tilde{q}_m^\top \tilde k_n": "m q_ n k_",
        r"a^K_{\operatorname{clip}(j - i)}": "j i a_",
        r"D_{j+1,\,j} = \bar\ell(c)": "j j D__ ell c",
        r"e^{-\alpha_h m} \text{ if } T_k": "h alpha_ m e k T_",
    }.items():
        assert symbols.symbols(formula) == expected.split(), formula


def test_symbols_that_no_row_explains_or_two_do(tmp_path, monkeypatch):
    (tmp_path / "book").mkdir()
    (tmp_path / "_toc.yml").write_text("root: book/intro\nparts:\n- chapters:\n  - file: book/rope\n", "utf-8")
    (tmp_path / "book" / "notation.md").write_text(
        "# Notation\n\n## Symbols\n\n| symbol | unit | meaning | where |\n|---|---|---|---|\n| $m$, $s_{ij}$ | | | |\n"
        "| $i$ | | position | all but *Pages of pairs* |\n| $i$ | | pair | *Pages of pairs* |\n\n"
        "*Pages of pairs*: {doc}`rope`\n\n### Letters of one page\n\n| page | letters |\n|---|---|\n"
        "| {doc}`rope` | $m$ a bound; $f$ any function |\n",
        "utf-8",
    )
    (tmp_path / "book" / "rope.md").write_text("# RoPE\n\nOf $m$ and $i$, $s_{mi}$, not `$x$` but $k_i$.\n", "utf-8")
    monkeypatch.setattr(symbols, "BOOK", tmp_path / "book")
    assert [fault.split(":")[0] for fault in symbols.faults("rope")] == ["k_", "m", "f"]
