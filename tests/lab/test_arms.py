"""What models of today add to a method: each addition against what it should be, and each arm in training."""

import math

import pytest
import torch

import posenc
from posenc.lab.experiments.arms import ARMS, EXTRA, Dropped, Scaled, Window, recipe
from posenc.lab.experiments.runner import run_cell
from posenc.lab.train import build, settings_for
from posenc.rotate.rope import rope

SMALL = settings_for(
    "nano", dim=16, num_layers=4, num_heads=2, length=16, steps=5, warmup=1, batch=2, windows=2, targets=4
)


def qkv(length=12, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(3, 2, 2, length, 8, dtype=torch.float64, generator=generator).unbind()


def test_a_window_is_the_softmax_over_the_nearest_keys():
    q, k, v = qkv()
    out = posenc.attention(q, k, v, posenc.Encoding(weigh=Window(4)), causal=True)
    index = torch.arange(12)
    near = (index[:, None] - index < 4) & (index[:, None] >= index)
    scores = (q @ k.mT / math.sqrt(8)).masked_fill(~near, -math.inf)
    torch.testing.assert_close(out, scores.softmax(-1) @ v)
    whole = posenc.attention(q, k, v, posenc.Encoding(weigh=Window(12)), causal=True)
    torch.testing.assert_close(whole, posenc.attention(q, k, v, causal=True))


def test_a_dropped_rotation_acts_in_training_s_first_passes_alone():
    q, k, v = qkv()
    module = posenc.Encoding(rotate=Dropped(rope(8).rotate, steps=2))
    turned, bare = (posenc.attention(q, k, v, encoding, causal=True) for encoding in (rope(8), None))
    found = [posenc.attention(q, k, v, module, causal=True) for _ in range(4)]
    for ours, theirs in zip(found, (turned, turned, bare, bare)):
        torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(posenc.attention(q, k, v, module.eval(), causal=True), bare)
    fresh = posenc.Encoding(rotate=Dropped(rope(8).rotate, steps=2)).eval()
    torch.testing.assert_close(posenc.attention(q, k, v, fresh, causal=True), turned)  # it counts no test
    fresh.load_state_dict(module.state_dict())
    torch.testing.assert_close(posenc.attention(q, k, v, fresh, causal=True), bare)


def test_scaled_logits_are_those_of_longer_queries():
    q, k, v = qkv()
    factor = (torch.arange(12, dtype=torch.float64) + 1).log() / math.log(8)
    assert factor[7] == 1
    for encoding, rotate in ((None, None), (rope(8), rope(8).rotate)):
        ours = posenc.attention(q, k, v, posenc.Encoding(rotate=Scaled(8, rotate)), causal=True)
        torch.testing.assert_close(ours, posenc.attention(q * factor[:, None], k, v, encoding, causal=True))


def test_mixes_have_position_where_they_say():
    def places(arm):
        return [block.attention.encoding.places for block in build(recipe(arm, SMALL)[0], SMALL).blocks]

    assert places("mix") == [("rotate", "weigh")] * 3 + [()]
    assert places("mix_reversed") == [()] * 3 + [("rotate", "weigh")]
    assert build(recipe("mix", SMALL)[0], SMALL).blocks[0].attention.encoding.weigh.width == 8


def test_all_arms_train_from_one_start():
    cells = {arm: run_cell(EXTRA["additions"], arm, 0, SMALL) for arm in ARMS}
    assert len({cell["start"] for cell in cells.values()}) == 1
    whole = {arm: tuple(cell["whole"]) for arm, cell in cells.items()}
    assert len(set(whole.values())) == len(ARMS)  # no two are one
    extra = {arm: cell["parameters"] - cells["nope"]["parameters"] for arm, cell in cells.items()}
    assert {arm: count for arm, count in extra.items() if count} == {
        "nope_sink": 4 * 2,
        "rope_sink": 4 * 2,
        "nope_normed": 4 * 2 * 8,
        "rope_normed": 4 * 2 * 8,
    }
    assert all(set(sweep.predictions) == set(ARMS) for sweep in EXTRA.values())
    with pytest.raises(ValueError, match="arm='rop'"):
        recipe("rop", SMALL)
