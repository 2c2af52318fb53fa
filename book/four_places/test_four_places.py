r"""The chapter on the four places: its example by hand."""

import re

from posenc.chapters.four_places import facts as page
from posenc.lab.write import ROOT

TEXT = (ROOT / "book" / "four_places" / "index.md").read_text("utf-8")


def test_the_table_by_hand_holds_what_the_package_computes():
    rows = re.findall(r"^\| (?:nowhere|bias|weights).*?\|(.+)\|$", TEXT, re.M)
    printed = [[float(cell.strip(" $")) for cell in row.split("|")] for row in rows]
    computed = [[*weights, sum(weights)] for weights in page.by_hand().values()]
    assert [[round(number, 3) for number in row] for row in computed] == printed
