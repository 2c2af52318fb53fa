r"""What the explorables of relative position and of RSE draw, against the methods."""

import math

import pytest
import torch

from posenc.bias.t5 import bucket
from posenc.lab.figures import relative, rse


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


@pytest.mark.parametrize("direction", [relative.CAUSAL, relative.BOTH])
@pytest.mark.parametrize("distance", [0, 40, 300])
def test_the_orange_tile_holds_the_distances_of_one_bucket(direction, distance):
    both = direction == relative.BOTH
    figure, said = relative.bucket_staircase.fn(32, 128, direction, distance)
    tile = named(figure)["its bucket"]
    for side in (-1, 1)[: 1 + both]:
        own = bucket(torch.tensor([side * distance]), 32, 128, both)
        assert said["back" if side < 0 else "ahead"].endswith(f": bucket {own.item()}")
        tape = int(1.25 * 128)  # it ends there
        for n in range(0, tape + 1):
            inside = any(
                a < side * n < a + width or side * n in (a, a + width) for a, width in zip(tile["base"], tile["x"])
            )
            shared = bucket(torch.tensor([side * n]), 32, 128, both) == own
            assert bool(shared) == inside or n in (0, tape), (side, n)


@pytest.mark.parametrize("memory", [0, 2])
def test_what_is_followed_stays_in_memory_while_the_rows_are_cut(memory):
    drawn = [named(relative.shift_trick.fn(step, memory, 9)[0]) for step in range(5)]
    assert len({tuple(traces["followed, in memory"]["x"]) for traces in drawn[1:]}) == 1
    for traces in drawn:
        cells, (here,) = traces["memory"], traces["followed, in memory"]["x"]
        assert cells["marker"]["color"][cells["x"].index(here)] == relative.COLORS["green"]
    counts = [len(traces["where a row ends"]["x"]) // 3 - 1 for traces in drawn]  # of the rows
    assert counts == [4, 4, 5 + memory, 4 + memory, 4]
    gaps = [traces["where a row ends"]["x"][3] - traces["where a row ends"]["x"][0] for traces in drawn]
    assert [4 * gap for gap in gaps] == pytest.approx([4 + memory, 5 + memory, 4, 4, 4 + memory])


@pytest.mark.parametrize("memory", [0, 2])
def test_at_the_end_each_score_stands_under_its_key(memory):
    traces = named(relative.shift_trick.fn(4, memory, 9)[0])
    for row, letter in enumerate("ABCD"):
        tiles = traces[f"query {letter}"]
        here = [(x, y, word) for x, y, word in zip(tiles["x"], tiles["y"], tiles["text"]) if word]
        assert here == [(j, row, f"{letter}{row + memory - j}") for j in range(row + memory + 1)]


@pytest.mark.parametrize("query, first, smaller", [(64, 128, False), (512, 128, True), (4096, 256, True)])
def test_strips_of_an_early_query_and_of_this_one(query, first, smaller):
    back = 8 if query < 128 else first // 2 if first == 128 else 256
    figure, said = relative.shares.fn(query=query, threshold=128, c=0.1, back=back)
    drawn = named(figure)
    (early,), (own,) = (drawn[f"share for {whose} query"]["x"] for whose in ("an early", "this"))
    assert figure["layout"]["yaxis2"]["ticktext"] == [f"query {first}", f"query {query}"]
    assert own == said["own"] == pytest.approx(math.log1p(0.1 * back) / math.log1p(0.1 * max(128, query)), abs=1e-6)
    assert early == pytest.approx(math.log1p(0.1 * back) / math.log1p(0.1 * first), abs=1e-6)
    assert (own < early - 1e-6) == smaller


def test_a_pair_beyond_the_clip_shares_its_row():
    near, far = (relative.clipped.fn(3, relative.BOTH, query, 1) for query in (4, 9))
    assert named(near[0])["the row of this offset"]["x"] == named(far[0])["the row of this offset"]["x"] == [-3]
    assert near[1]["pairs"] == far[1]["pairs"]


def test_offsets_move_the_stick_and_no_softmax():
    one, other = (rse.same_scores.fn(query=15, rate=0.1, offset=offset, order="key 0 first") for offset in (-6, 2))
    first, second = named(one[0]), named(other[0])
    for name in ("softmax", "softmax with penalty"):
        torch.testing.assert_close(first[name]["y"], second[name]["y"])
        assert first[name]["y"].sum().item() == pytest.approx(1)
    assert one[1]["left"] > other[1]["left"]
    moved = second["the same scores"]["y"] - first["the same scores"]["y"]
    torch.testing.assert_close(moved, torch.full_like(moved, 8))
    for figure, said in (one, other):
        assert named(figure)["stick"]["y"].sum().item() + said["left"] == pytest.approx(1)


@pytest.mark.parametrize("name, before", [(rse.FIRST, slice(0, 7)), (rse.RECENT, slice(8, None))])
def test_the_stick_that_reaches_a_match_is_what_those_asked_before_left(name, before):
    figure, said = rse.primacy.fn(rate=0.03, rest=-4, older=24)
    traces = named(figure)
    weights = torch.as_tensor(traces[name]["y"])
    reaches = torch.as_tensor(traces[f"stick that reaches the key, {name}"]["y"])[7]
    assert reaches.item() == pytest.approx(1 - weights[before].sum().item())
    assert weights.sum().item() + said["left"] == pytest.approx(1)
