r"""What the explorables of RoPE draw, against the rotation."""

import pytest
import torch

from posenc.chapters.rope import figures as rope


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
