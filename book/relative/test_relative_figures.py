r"""What the explorables of relative position and of RSE draw, against the methods."""

import math

import pytest
import torch

from posenc.chapters.relative import figures as relative


def named(figure):
    return {trace["name"]: trace for trace in figure["data"]}


@pytest.mark.parametrize("text", relative.TEXTS)
def test_four_terms_add_up_to_the_sum_under_the_cross(text):
    figures = {
        term: relative.four_terms.fn(text=text, term=term, query=5, key=3, moved=0) for term in relative.CAPTIONS
    }
    maps = {term: named(figure)["map"]["z"] for term, (figure, _) in figures.items()}
    figure, said = figures["d"]
    total = torch.stack([maps[name] for name in relative.TERMS]).sum(0) / math.sqrt(relative.LANES)
    torch.testing.assert_close(maps["sum"], total)
    bars, sum_bar = named(figure)["terms of the pair"], named(figure)["sum of the pair"]
    assert said["sum"] == pytest.approx(total[5, 3].item()) == pytest.approx(bars["x"].sum().item())
    assert sum_bar["x"][0].item() == pytest.approx((bars["base"] + bars["x"])[-1].item())
    assert said["weight"] == pytest.approx(total[5, :6].softmax(-1)[3].item())
    torch.testing.assert_close(maps["c"], maps["c"][:1].expand_as(maps["c"]))
    torch.testing.assert_close(maps["d"][1:, 1:], maps["d"][:-1, :-1], atol=1e-9, rtol=0)
    moved, _ = relative.four_terms.fn(text=text, term="b", query=5, key=3, moved=10_000)
    torch.testing.assert_close(named(moved)["map"]["z"], maps["b"], atol=1e-6, rtol=0)
