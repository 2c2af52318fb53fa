r"""A symbol means one thing on a page: each is in the tables of *Notation*, and once."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "book"))
import symbols  # noqa: E402


@pytest.mark.parametrize("page", symbols.pages())
def test_notation_explains_each_symbol_of_a_page_once(page):
    assert symbols.faults(page) == []


@pytest.mark.parametrize(
    "formula, expected",
    [
        (r"s_{ij} = q_i \cdot k_j / \sqrt D", "i j s__ i q_ j k_ D"),
        (r"\tilde{q}_m^\top \tilde k_n", "m q_ n k_"),
        (r"a^K_{\operatorname{clip}(j - i)}", "j i a_"),
        (r"W_Q x + W^\top", "W_Q x W"),
        (r"D_{j+1,\,j} = \bar\ell(c)", "j j D__ ell c"),
        (r"e^{-\alpha_h m} \text{ if } T_k", "h alpha_ m e k T_"),
    ],
)
def test_symbols_of_a_formula(formula, expected):
    assert symbols.symbols(formula) == expected.split()


def test_what_is_wrong_is_said(tmp_path, monkeypatch):
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
