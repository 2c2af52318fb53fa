r"""The chapter on position in practice: what its prose concludes from the frozen results, and tables that refuse."""

import statistics

import pytest
import torch

import posenc
from posenc.lab.figures.practice import ALL, NEW, added
from posenc.lab.pages import practice as page


def rows(markdown):
    return [line.strip("| ").split(" | ") for line in markdown.data.splitlines()]


def test_a_method_of_the_wrong_kind_stops_the_table():
    tokens = torch.randint(50, (1, 10))
    padded, index, valid = torch.nn.functional.pad(tokens, (3, 0)), torch.arange(13)[None], torch.arange(13)[None] >= 3
    by_mask = (valid.long().cumsum(1) - 1).clamp(min=0)
    with torch.no_grad(), pytest.raises(AssertionError, match="sinusoidal"):
        models = {"sinusoidal": page.model_of("sinusoidal")}
        page.padding_table(models, padded, tokens, valid, index, by_mask, {"sinusoidal"})


def test_every_method_works_without_a_mask_or_says_why_not():
    answers = {row[0]: row[1] for row in rows(page.directions_table())[2:]}
    methods = [posenc.METHODS[name] for name in posenc.methods.on_text()]
    assert list(answers) == [method.title for method in methods]
    for method in methods:
        assert all(option in answers[method.title] for option in method.both_ways or ())


def test_what_the_prose_concludes_of_offsets():
    def cost(method, which, off):
        return statistics.fmean(added(page.frozen(), method, which, off))

    assert cost("rope", NEW, 1) > 0.05 and abs(cost("sinusoidal", NEW, 1)) < 0.03
    assert 0 < cost("alibi", NEW, 1) < 0.03 and cost("alibi", NEW, 32) > cost("rope", NEW, 32) > 0.5
    relative = ("nope", "rope", "alibi", "t5", "shaw", "transformer_xl", "kerple", "stickbreaking")
    assert all(abs(cost(method, ALL, 32)) < 1e-3 for method in relative)


def test_the_costs_are_those_that_the_verdict_puts_in_order():
    """Ids wrong against a cache cost RoPE most, then restarted ids without a mask, then pads; masks alone hurt NoPE."""
    found = rows(page.costs_table())[2:]
    zero, anew, index, seen, mask, restarted, neither = (float(row[1].split(" ± ")[0]) for row in found)
    assert zero > anew > restarted > seen > neither > mask == index == 0
    assert all(row[4] == "0" for row in found if row[0].startswith("cached") or "mask alone" in row[0])
