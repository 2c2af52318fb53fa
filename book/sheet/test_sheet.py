r"""The methods on one sheet: a card for each, which says what the package and its audit say."""

import re

import posenc
from posenc.chapters.sheet import facts as sheet
from posenc.lab.titles import TITLES
from posenc.lab.write import ROOT

TEXT = sheet.sheet().data


def test_the_sheet_has_a_card_for_each_method_whose_line_makes_it():
    titles = re.findall(r"^`{4}\{admonition\} \[(.+)\]\(\.\./(\w+)/index\.md\)$", TEXT, re.M)
    assert titles == [(method.title, TITLES[name].page) for name, method in posenc.METHODS.items()]
    for name, method in posenc.METHODS.items():
        card = sheet.CARDS[name]
        assert all(card[:5]) and bool(card.place) == (not method.places), name
        assert isinstance(eval(sheet.made(name), {"posenc": posenc}), posenc.Encoding)
        assert f"`{sheet.made(name)}`" in TEXT
        if method.axes is None:
            assert card.relative.startswith("no;") == ("relative" in method.fails), name


def test_a_chapter_with_a_card_has_those_of_all_its_methods():
    for path in (ROOT / "book").glob("*/index.md"):
        if "\n## The card\n" in (text := path.read_text("utf-8")):
            own = {name for name, row in TITLES.items() if row.page == path.parent.name}
            call = re.search(r"^cards\((.+)\)$" if own else r"^page\.card\(()\)$", text, re.M)
            assert call and set(re.findall(r'"(\w+)"', call[1])) == own, path.parent.name
