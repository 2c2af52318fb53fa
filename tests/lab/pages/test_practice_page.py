r"""The chapter on position in practice: its tables, and what its prose concludes from the frozen results."""

import json
import math
import statistics
from pathlib import Path

import pytest
import torch

import posenc
from posenc.lab.figures.practice import ALL, NEW, added
from posenc.lab.pages import practice as page

ROOT = Path(__file__).resolve().parents[3]
BLIND = ("nope", "stickbreaking")
RELATIVE = ("nope", "rope", "alibi", "t5", "shaw", "transformer_xl", "kerple", "stickbreaking")


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def rows(markdown):
    return [line.strip("| ").split(" | ") for line in markdown.data.splitlines()]


def test_a_cost_is_beside_right_ids_seed_by_seed():
    runs = json.loads((ROOT / "results" / "practice.json").read_text())["methods"]["rope"]["packing"]
    expected = statistics.mean(one["ids only"] - one["right"] for one in runs)
    assert page.cost("rope", "packing", "ids only") == pytest.approx(expected)
    assert page.packing_numbers()["packing_ids"] == f"{expected:.2f}"


def test_a_model_attends_about_as_sharply_as_a_trained_one():
    plain, sharp = page.build("rope", page.small_settings(), seed=0), page.model_of("rope")
    query = [model.blocks[0].attention.to_q.weight for model in (plain, sharp)]
    assert torch.equal(query[1], 2 * query[0].double())


@pytest.fixture(scope="module")
def padded():
    tokens = torch.randint(50, (1, 10), generator=torch.Generator().manual_seed(0))
    padded = torch.cat((torch.zeros(1, 3, dtype=torch.long), tokens), dim=1)
    valid = torch.arange(13)[None] >= 3
    return padded, tokens, valid, torch.arange(13)[None], (valid.long().cumsum(1) - 1).clamp(min=0)


def test_padding_moves_methods_that_are_not_relative(padded):
    models = {method: page.model_of(method) for method in ("rope", "sinusoidal")}
    head, _, rope, sinusoidal = rows(page.padding_table(models, *padded, {"rope"}))
    assert len(head) == len(rope) == 4
    assert rope[1] == rope[3] == sinusoidal[3] == "same" and "same" not in (rope[2], *sinusoidal[1:3])


def test_a_method_of_the_wrong_kind_stops_the_table(padded):
    with pytest.raises(AssertionError, match="sinusoidal"):
        page.padding_table({"sinusoidal": page.model_of("sinusoidal")}, *padded, {"sinusoidal"})


def test_every_method_works_without_a_mask_or_says_why_not():
    answers = {row[0]: row[1] for row in rows(page.directions_table())[2:]}
    methods = [posenc.METHODS[name] for name in posenc.methods.on_text()]
    assert list(answers) == [method.title for method in methods]
    for method in methods:
        if method.both_ways:
            assert all(option in answers[method.title] for option in method.both_ways)


def test_the_maps_have_a_row_for_each_method_and_a_number_where_answers_are_wrong():
    left, right = page.needle_figure().axes
    methods = {posenc.METHODS[name].title: page.needle_errors(name) for name in page.needle()["methods"]}
    rows = [tick.get_text() for tick in left.get_yticklabels()]
    assert sorted(rows) == sorted(methods) and left.yaxis_inverted() and right.yaxis_inverted()
    last = [methods[name][-1, -1] for name in rows]
    assert last == sorted(last)
    for axes, wrong in ((left, lambda e: e[-1]), (right, lambda e: e[:, : page.NEAR].mean(-1))):
        drawn = {(int(text.get_position()[1]), int(text.get_position()[0])): text.get_text() for text in axes.texts}
        cells = {(i, j): round(x) for i, name in enumerate(rows) for j, x in enumerate(wrong(methods[name]))}
        assert drawn == {place: f"{value}" for place, value in cells.items() if value}
    assert left.lines[0].get_xdata()[0] == page.NEAR
    assert math.isnan(page.needle_errors("rope")[0, -1]) and not math.isnan(page.needle_errors("rope")[-1, -1])


def test_what_the_prose_concludes_of_wrong_ids():
    for way in ("begun anew", "always 0"):
        assert page.cost("rope", "decoding", way) > 0.5
    assert abs(page.cost("rope", "padding", "mask only")) < 1e-4
    assert page.cost("sinusoidal", "padding", "mask only") > 0.005 and page.cost("rope", "padding", "ids only") > 0.02
    assert page.cost("rope", "packing", "ids only") > 3 * abs(page.cost("rope", "packing", "neither"))


def test_what_the_prose_concludes_of_offsets():
    def cost(method, which, off):
        return statistics.fmean(added(page.frozen(), method, which, off))

    methods = page.frozen()["methods"]
    assert cost("rope", NEW, 1) > 0.05 and abs(cost("sinusoidal", NEW, 1)) < 0.03
    assert all(cost(method, NEW, 32) == 0 for method in methods if method in BLIND)
    assert 0 < cost("alibi", NEW, 1) < 0.03 and cost("alibi", NEW, 32) > cost("rope", NEW, 32) > 0.5
    assert all(abs(cost(method, ALL, 32)) < 1e-3 for method in methods if method in RELATIVE)


def test_what_the_prose_concludes_of_the_needle():
    longest = {method: page.needle_errors(method)[-1] for method in page.needle()["methods"]}
    assert longest["sinusoidal"][0] > 15 and longest["rope"][0] < 10 < 50 < longest["rope"][-1]
    assert longest["alibi"][0] < 10 < 30 < longest["alibi"][-1] and longest["nope"].max() < 5
    runs = page.frozen()["needle"]["sinusoidal"]
    assert all(one[key] < 0.02 for one in runs for key in ("right", "shuffled"))


def test_the_costs_are_those_that_the_verdict_puts_in_order():
    """Ids wrong against a cache cost RoPE most, then restarted ids without a mask, then pads; masks alone hurt NoPE."""
    head, _, *found = rows(page.costs_table())
    assert len(head) == 5 and len(found) == len(page.MISTAKES)
    rope = {row[0]: float(row[1].split(" ± ")[0]) for row in found}
    zero, anew, index, seen, mask, restarted, neither = rope.values()
    assert zero > anew > restarted > seen > neither > mask == index == 0
    assert all(row[4] == "0" for row in found if row[0].startswith("cached") or "mask alone" in row[0])
    seeds = [one["always 0"] - one["right"] for one in page.frozen()["methods"]["rope"]["decoding"]]
    assert found[0][1] == f"{statistics.mean(seeds):.3f} ± {statistics.stdev(seeds):.3f}"


def test_the_pictured_ids_count_the_tokens_of_the_own_text():
    for words, (text, index, right) in page.OCCASIONS.items():
        parts = [part.split() for part in text.split("|")]
        assert len(index) == len(right) == sum(map(len, parts)), words
    assert page.OCCASIONS["a cache"][2] == tuple(range(5))
    assert page.OCCASIONS["a packed row"][2] == (*range(3), *range(2))
    assert page.OCCASIONS["left padding"][2] == (None, None, *range(3))
