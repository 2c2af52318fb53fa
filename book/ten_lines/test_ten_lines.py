r"""The chapter on attention: its ten lines, and its example by hand."""

import math
import re

import pytest
import torch

import posenc
from posenc.chapters.ten_lines import facts as page
from posenc.lab.write import ROOT

TEXT = (ROOT / "book" / "ten_lines" / "index.md").read_text("utf-8")
CODE = re.search(r"^def attend\(.*?(?=^```)", TEXT, re.M | re.S)[0]


def off(code):
    r"""How far the page's lines are from the package's block with the same matrices."""
    names = {"torch": torch}
    exec(code, names)
    torch.manual_seed(0)
    x, block = torch.randn(7, 16), posenc.SelfAttention(16, 4)
    matrices = [layer.weight.detach() for layer in (block.to_q, block.to_k, block.to_v, block.to_out)]
    return (names["attend"](x, *matrices, 4) - block(x[None])[0]).abs().max().item()


def test_there_are_ten_and_they_are_attention():
    assert len(CODE.strip().split("\n")) == 10
    assert off(CODE) < 1e-5


@pytest.mark.parametrize("right, wrong", [("W_Q.T", "W_Q"), (".tril()", ""), (" ** 0.5", ""), ("@ W_O.T", "@ W_O")])
def test_a_slip_in_a_line_shows(right, wrong):
    assert right in CODE and off(CODE.replace(right, wrong)) > 1e-3


def test_the_example_by_hand():
    whole = sum(math.exp(s) for s in (0, 1, 2))
    assert page.weights_by_hand() == pytest.approx([math.exp(s) / whole for s in (0, 1, 2)])
