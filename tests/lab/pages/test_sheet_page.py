r"""The methods on one sheet: a card for each, which says what the package and its audit say."""

import re

import pytest

import posenc
from posenc.lab.pages import ROOT, sheet

TEXT = sheet.sheet().data


def test_the_sheet_has_a_card_for_each_method_in_their_order():
    titles = re.findall(r"^`{4}\{admonition\} \[(.+)\]\((\w+)\.md\)$", TEXT, re.M)
    assert titles == [(method.title, method.page) for method in posenc.METHODS.values()]
    assert sheet.CARDS.keys() == posenc.METHODS.keys()


@pytest.mark.parametrize("name", posenc.METHODS)
def test_a_card_is_whole_and_its_line_makes_the_method(name):
    card = sheet.CARDS[name]
    assert all(card[:5]) and bool(card.place) == (not posenc.METHODS[name].places)
    assert all(field.count("$") % 2 == 0 and field.count("`") % 2 == 0 for field in card)
    assert isinstance(eval(sheet.made(name), {"posenc": posenc}), posenc.Encoding)
    assert f"`{sheet.made(name)}`" in TEXT


@pytest.mark.parametrize("name", [name for name, row in posenc.METHODS.items() if row.axes is None])
def test_a_card_calls_relative_what_the_audit_does(name):
    assert sheet.CARDS[name].relative.startswith("no;") == ("relative" in posenc.METHODS[name].fails)


def test_a_chapter_with_a_card_has_those_of_all_its_methods():
    pages = {path.stem: path.read_text("utf-8") for path in (ROOT / "book").glob("*.md")}
    shown = {page: text for page, text in pages.items() if "\n## The card\n" in text}
    assert shown
    for page, text in shown.items():
        own = {name for name, method in posenc.METHODS.items() if method.page == page}
        call = re.search(r"^cards\((.+)\)$" if own else r"^page\.card\(()\)$", text, re.M)
        assert call and set(re.findall(r'"(\w+)"', call[1])) == own, page


def test_a_chapter_shows_what_the_sheet_shows():
    card = sheet.markdown("fox", link=False)
    assert sheet.cards("fox").data == card
    assert card.split("\n", 1)[1] in TEXT
