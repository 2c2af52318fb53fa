r"""The chapter on the four places: its own attention, its example by hand, its figure."""

import re

import pytest
import torch

from posenc.chapters.four_places import facts as page
from posenc.lab.write import ROOT

TEXT = (ROOT / "book" / "four_places" / "index.md").read_text("utf-8")
CODE = re.search(r"^def softmax\(.*?(?=^```)", TEXT, re.M | re.S)[0]


@pytest.fixture(autouse=True)
def double():
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def check(code):
    names = {"torch": torch}
    exec(code, names)
    page.check_short(names["attend"])


@pytest.mark.parametrize(
    "right, wrong, name",
    [
        ("x = embed(x, at.pos_q)", "x = embed(x, 0 * at.pos_q)", "sinusoidal"),
        ("q, k = rotate(q, k, at)", "q, _ = rotate(q, k, at)", "rope"),
        ("scores + bias(q, k, at)", "scores - bias(q, k, at)", "alibi"),
        ("weigh(scores, at) @ v", "softmax(scores, at) @ v", "stickbreaking"),
        ("** 0.5", "** 0.25", "nope"),
    ],
)
def test_the_lines_are_attention_and_a_slip_is_found(right, wrong, name):
    assert right in CODE
    check(CODE)
    with pytest.raises(AssertionError, match=f"{name}: off by"):
        check(CODE.replace(right, wrong))


def test_the_table_by_hand_holds_what_the_package_computes():
    rows = re.findall(r"^\| (?:nowhere|bias|weights).*?\|(.+)\|$", TEXT, re.M)
    printed = [[float(cell.strip(" $")) for cell in row.split("|")] for row in rows]
    computed = [[*weights, sum(weights)] for weights in page.by_hand().values()]
    assert [[round(number, 3) for number in row] for row in computed] == printed
