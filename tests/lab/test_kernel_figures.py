"""The explorables on kernels: whatever the block, the walk ends where the formula does, and tiles are what they say."""

import itertools

import pytest
import torch
from torch.testing import assert_close

from posenc.lab.figures import kernels, load
from posenc.weigh.stickbreaking import weigh

ZERO = torch.zeros((), dtype=torch.float64)


def at(id, **state):
    return load(f"kernels.{id}").evaluate(state)


# Online softmax


@pytest.mark.parametrize("block", [1, 5, 6, 8, 12, 24])
@pytest.mark.parametrize("peak", [0, 13, 23])
def test_the_online_softmax_ends_at_the_softmax(block, peak):
    scores, values = kernels.online_row(peak)
    assert scores.argmax() == peak
    m, l, acc = ZERO - torch.inf, ZERO, ZERO  # noqa: E741
    for s, v in zip(scores.split(block), values.split(block)):
        m, l, acc = kernels.online_update(m, l, acc, s, v)  # noqa: E741
    assert_close(acc / l, torch.softmax(scores, -1) @ values)
    assert_close(m + l.log(), scores.logsumexp(-1))


@pytest.mark.parametrize("blocks", kernels.BLOCKS)
def test_the_drawn_walk_ends_on_the_line_of_the_whole_softmax(blocks):
    for peak in load("kernels.online_softmax").sliders["peak"].values:
        drawn = at("online_softmax", blocks=blocks, step=99, peak=peak)
        assert drawn["output so far"]["y"][-1] == pytest.approx(drawn["whole softmax"]["y"][0])
        assert len(drawn["output so far"]["x"]) == blocks
        assert drawn["readout"]["output"] == pytest.approx(drawn["readout"]["target"])
        for path, values in ((p, drawn[p]["y"]) for p in ("output so far", "whole softmax")):
            low, high = drawn["layout"]["yaxis3.range"]
            assert low < values.min() and values.max() < high, f"{path} leaves its panel"


def test_one_factor_rescales_all_earlier_terms():
    """Where the maximum jumps, each diamond times the factor in words is the bar below it."""
    drawn = at("online_softmax", blocks=4, step=3, peak=13)
    before, after = drawn["rescaled from"]["y"][::3], drawn["terms of earlier blocks"]["y"]
    factor = float(drawn["factor"]["text"][0].split("×")[1])
    assert len(before) == len(after) == 12 and before.max() == 1 and factor < 0.3
    assert after == pytest.approx(factor * before, abs=6e-4)
    assert drawn["rescaled from"]["y"][1::3] == pytest.approx(after), "each arrow ends on its bar"
    later = at("online_softmax", blocks=4, step=4, peak=13)
    assert later["rescaled from"]["y"][::3] == pytest.approx(later["terms of earlier blocks"]["y"]), "no new maximum"
    assert later["factor"]["text"] == [""]


def test_a_students_update_is_drawn():
    """One that forgets to rescale ends beside the line."""

    def forgets(m, l, acc, scores, values):  # noqa: E741
        new = torch.maximum(m, scores.max())
        weights = (scores - new).exp()
        return new, l + weights.sum(), acc + weights @ values

    drawn = load("kernels.online_softmax").with_function(update=forgets).evaluate({"step": 6})
    assert abs(drawn["readout"]["output"] - drawn["readout"]["target"]) > 0.01


# Stick across blocks


@pytest.mark.parametrize("block", [1, 3, 8, 12, 24])
@pytest.mark.parametrize("order", ["recent", "first"])
def test_the_stick_handed_on_is_the_stick(block, order):
    logits = torch.randn(kernels.KEYS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    visible = torch.ones(1, kernels.KEYS, dtype=torch.bool)
    expected, left = weigh(logits[None], visible, order, return_remainder=True)
    row = logits.flip(0) if order == "recent" else logits
    pieces, log_rests = kernels.walk(row, block, kernels.break_block)
    assert_close(pieces.flip(0) if order == "recent" else pieces, expected[0])
    assert_close(log_rests[-1], left[0].log())


@pytest.mark.parametrize("block", [16, 32, 64])
def test_one_rest_a_block_is_the_mistake_that_was_seen(block):
    """The loop as its kernel has it, and the sums that the issue names for beta 0.3."""
    beta = torch.full((128,), 0.3, dtype=torch.float64)
    rest, weights = 1.0, []
    for part in beta.split(block):
        weights.append(part * rest)
        rest = max(rest * (1 - weights[-1].sum().item()), 1e-6)
    pieces, log_rests = kernels.walk(beta.logit(), block, kernels.share_one_rest)
    assert_close(pieces, torch.cat(weights))
    assert log_rests[-1].exp().item() == pytest.approx(rest)
    assert round(pieces.sum().item(), 1) == {16: 4.8, 32: 9.6, 64: 19.2}[block]


def test_small_bites_shrink_the_shared_rest_by_the_pieces():
    pieces, log_rests = kernels.walk(torch.full((8,), 0.1, dtype=torch.float64).logit(), 4, kernels.share_one_rest)
    assert log_rests.exp().tolist() == pytest.approx([1.0, 0.6, 0.6 * (1 - 0.24)])
    assert pieces.sum().item() == pytest.approx(0.64)


@pytest.mark.parametrize("beta", [0.03, 0.3])
def test_sums_drawn_for_each_rule(beta):
    sums = {
        rule: [at("stick_across_blocks", blocks=n, step=9, handed=rule, beta=beta)["readout"] for n in (6, 3, 2, 1)]
        for rule in kernels.RULES
    }
    totals = {rule: [float(r["total"]) for r in readouts] for rule, readouts in sums.items()}
    whole = 1 - (1 - beta) ** kernels.KEYS
    assert totals[kernels.TRUE] == pytest.approx([whole] * 4), "the block must not matter"
    assert all(float(r["truth"]) == pytest.approx(whole) for readouts in sums.values() for r in readouts)
    assert totals[kernels.ONE_REST] == sorted(totals[kernels.ONE_REST]) and totals[kernels.ONE_REST][0] > whole
    assert totals[kernels.NOTHING][:3] > [whole] * 3 and totals[kernels.NOTHING][3] == pytest.approx(whole)


@pytest.mark.parametrize("handed", kernels.RULES)
@pytest.mark.parametrize("blocks", kernels.STICK_BLOCKS)
def test_one_stick_stays_where_it_is_and_a_sum_off_the_scale_says_so(handed, blocks):
    end = at("stick_across_blocks", blocks=blocks, handed=handed, step=99)
    low, high = end["layout"]["xaxis2.range"]
    assert (low, high) == (0, kernels.MOST_STICKS)
    assert bool(end["off the scale"]["text"][0]) == (end["readout"]["total"] > high)


def test_what_is_handed_on_stands_at_the_key_that_receives_it_and_on_the_line_of_the_true_rest():
    drawn = at("stick_across_blocks", handed=kernels.TRUE, step=2)
    rest, true = drawn["rest handed on"], drawn["true rest"]
    given = rest["marker.size"] > 0
    assert rest["x"][given].tolist() == [23, 15, 7]
    line = dict(zip(true["x"].tolist(), true["y"].tolist()))
    assert rest["y"] == pytest.approx([line[key] for key in rest["x"].tolist()])
    wrong = at("stick_across_blocks", handed=kernels.ONE_REST, step=2)["rest handed on"]["y"]
    assert wrong[8] != wrong[8] and wrong[9] < rest["y"][8] - 1  # a gap, then the next block


def test_what_is_more_than_a_stick_stands_beyond_it():
    whole, beyond = (at("stick_across_blocks", handed=h, step=9) for h in (kernels.TRUE, kernels.NOTHING))
    assert whole["more than there is"]["x"] == 0 and whole["within one stick"]["x"] < 1
    assert beyond["within one stick"]["x"] == 1
    assert beyond["more than there is"]["x"] == pytest.approx(beyond["readout"]["total"] - 1)


def test_the_first_state_shows_a_failure_beside_the_truth():
    drawn = at("stick_across_blocks")
    assert drawn["more than there is"]["x"] > 0.5 and drawn["true sum"]["x"] <= 1


@pytest.mark.parametrize("handed", kernels.RULES)
def test_the_words_above_say_whether_what_is_handed_on_is_right(handed):
    drawn = at("stick_across_blocks", handed=handed, blocks=3, step=3)
    right = drawn["readout"]["total"] == pytest.approx(drawn["readout"]["truth"])
    assert ("right" in drawn["verdict"]["text"][0]) == right != ("wrong" in drawn["verdict"]["text"][0])


@pytest.mark.parametrize("blocks", kernels.STICK_BLOCKS)
def test_every_other_block_has_a_ground(blocks):
    x = at("stick_across_blocks", blocks=blocks)["every other block"]["x"]
    edges = [kernels.KEYS - 0.5 - n * kernels.KEYS // blocks for n in range(1, 2 * (blocks // 2) + 1)]
    assert sorted({*x[x == x].tolist()}) == sorted(edges)


# Causal block map


@pytest.mark.parametrize("keys", kernels.LENGTHS)
@pytest.mark.parametrize("queries", kernels.QUERIES)
def test_each_tile_is_what_the_mask_makes_it(queries, keys):
    visible = torch.ones(queries, keys, dtype=torch.bool).tril(keys - queries)
    for block_q, block_k in itertools.product(kernels.TILE, kernels.TILE):
        drawn = at("causal_blocks", queries=queries, keys=keys, block_q=block_q, block_k=block_k)
        computed, tiles = 0, set()
        for kind in (kernels.SKIPPED, kernels.WHOLE, kernels.MASKED):
            trace = drawn[kind]
            for left, middle in zip(trace["base"], trace["y"]):
                if left != left:  # the gap that stands for no tile
                    continue
                row, key = int(middle - block_q / 2), int(left)
                tiles.add((row, key))
                tile = visible[row : row + block_q, key : key + block_k]
                full = bool(tile.all()) and key + block_k <= keys
                assert kind == (kernels.WHOLE if full else kernels.MASKED if tile.any() else kernels.SKIPPED)
                computed += 0 if kind == kernels.SKIPPED else block_q * block_k
        assert tiles == set(itertools.product(range(0, queries, block_q), range(0, keys, block_k)))
        readout = {name: float(value) for name, value in drawn["readout"].items()}
        assert readout["skipped"] + readout["whole"] + readout["masked"] == len(tiles)
        assert readout["saved"] == pytest.approx(readout["skipped"] / len(tiles))
        assert readout["wasted"] == pytest.approx(1 - visible.sum().item() / computed)


@pytest.mark.parametrize("keys", range(7, 13))
def test_tiles_that_the_diagonal_only_touches(keys):
    """Small odd sizes, where a tile begins at the last key seen or ends one after it."""
    visible = torch.ones(7, keys, dtype=torch.bool).tril(keys - 7)
    for block_q, block_k in itertools.product((1, 2, 3, 4), repeat=2):
        for row, key in itertools.product(range(0, 7, block_q), range(0, keys, block_k)):
            tile = visible[row : row + block_q, key : key + block_k]
            full = bool(tile.all()) and key + block_k <= keys
            kind = kernels.WHOLE if full else kernels.MASKED if tile.any() else kernels.SKIPPED
            assert kernels.tile_kind(row, key, block_q, block_k, 7, keys) == kind


def test_smaller_tiles_waste_less():
    wasted = [at("causal_blocks", block_q=b, block_k=b)["readout"]["wasted"] for b in kernels.TILE]
    assert wasted == sorted(wasted) and wasted[0] < 0.5 * wasted[-1]
