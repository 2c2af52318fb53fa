r"""What the explorables of RoPE draw, against the rotation."""

import math

import pytest
import torch

from posenc.lab.figures import rope


def named(figure):
    return {trace["name"]: trace for trace in figure["data"]}


@pytest.mark.parametrize("pair", [0, 1, 7])
def test_a_shift_moves_all_but_the_score_and_the_wave_meets_the_key_at_it(pair):
    (before, said), (after, later) = (rope.rotation_invariance.fn(shift=s, m=7, n=3, pair=pair) for s in (0, 10))
    assert said == later
    before, after = named(before), named(after)
    assert before["score"]["y"] == pytest.approx(after["score"]["y"])
    for name in ("query, turned", "key, turned"):
        assert before[name]["x"][1] != pytest.approx(after[name]["x"][1])
    for traces, key in ((before, 3), (after, 13)):
        assert traces["key's place"]["x"] == [key, key]
        wave = traces["score of this query by the key's place"]
        (there,) = (torch.as_tensor(wave["x"]) == key).nonzero().flatten().tolist()
        assert wave["y"][there].item() == pytest.approx(traces["score"]["y"][0])


@pytest.mark.parametrize("pair", [1, 7])
def test_an_arrow_is_taken_in_hand_only_where_tokens_turn_it(pair):
    here, there = (named(rope.rotation_invariance.fn(shift=0, m=m, n=3, pair=pair)[0]) for m in (7, 8))
    turn = math.dist(*([t["query, turned"][axis][1] for axis in "xy"] for t in (here, there)))
    assert bool(here["end of the query"]["x"]) == (turn > 1.3 * math.radians(1))


def test_one_vector_alone_moves_the_score():
    scores = [rope.rotation_invariance.fn(shift=0, m=m, n=3, pair=1)[1]["score"] for m in (7, 8)]
    assert scores[0] != scores[1]
