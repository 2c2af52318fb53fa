"""What the explorables of Longer than trained show, against closed forms."""

import math

import pytest
import torch

from posenc.lab.figures import scaling as figures


def traces(figure):
    return {trace.get("uid") or trace["name"]: trace for trace in figure["data"]}


@pytest.mark.parametrize("base", [10_000, 500_000])
def test_wavelengths_of_plain_rope_and_linear_scaling(base):
    figure, readout = figures._wavelengths("linear", 8, base)
    lines = traces(figure)
    turns = [2 * math.pi * base ** (i / 64) for i in range(64)]  # in tokens
    for i, turn in enumerate(turns):
        assert lines["frequency divided by"]["y"][i].item() == pytest.approx(3), "log2 of 8"
        assert lines["frequency divided by"]["customdata"][i].tolist() == pytest.approx([8, turn])
    slow = [i for i, turn in enumerate(turns) if turn > 4096]
    assert slow[0] - 1 < lines["a turn takes L"]["x"][0] < slow[0]
    assert readout == {"kept": "0 pairs", "whole": 64, "open": len(slow)}
    low, high = figure["layout"]["yaxis"]["range"]
    for scheme in figures.NAMES:
        y = traces(figures._wavelengths(scheme, 32, base)[0])["frequency divided by"]["y"]
        assert low < y.min() and y.max() < high, scheme


def test_yarn_and_llama3_leave_no_angle_unseen_at_their_target_and_ntk_does():
    unseen = {scheme: figures._angles(scheme, 8, 8)[1]["blind"] for scheme in figures.NAMES}
    slow = sum(2 * math.pi * 10_000 ** (i / 64) > 4096 for i in range(64))  # pairs that did not finish a turn
    assert unseen.pop(figures.PLAIN) == slow
    assert unseen.pop("NTK") == slow - 1  # the last pair alone is divided by s
    assert set(unseen.values()) == {0}
    for scheme in figures.NAMES:
        assert figures._angles(scheme, 8, 1)[1]["blind"] == 0, "at the trained length nothing is unseen"
        assert (figures._angles(scheme, 8, 16)[1]["blind"] > 0) == (scheme != "base × 50")


@pytest.mark.parametrize("keys", [4096, 32_768])
@pytest.mark.parametrize("strength", [0.0, 0.1])
@pytest.mark.parametrize("spread", [0.5, 1.0])
def test_entropy_of_many_normal_logits(keys, spread, strength):
    r"""ln n - (spread of the logits)^2 / 2, and the factor multiplies the spread."""
    factor = (strength * math.log(keys / 4096) + 1) ** 2
    entropy = figures._dilution(keys, spread, strength)
    assert entropy == pytest.approx(math.log(keys) - (factor * spread) ** 2 / 2, abs=0.03)


def test_dilution_equals_the_softmax_of_one_draw(monkeypatch):
    logits = torch.tensor([[0.0, 1.0, -2.0, 0.5]])
    monkeypatch.setattr(figures, "_logits", lambda: logits)
    weights = [math.exp(2 * z) for z in logits[0].tolist()]
    weights = [w / sum(weights) for w in weights]
    entropy = figures._dilution.__wrapped__(4, 2.0, 0.1)
    assert entropy == pytest.approx(-sum(w * math.log(w) for w in weights), rel=1e-5)


def test_which_lanes_shows_the_losses_that_were_measured():
    stopped = {
        kind: [[[1.0 + s, 2.0 + c + s, 3.0 + c + s, 4.0 + c + s] for c in (*range(4, -1, -1),)] for s in (0.0, 0.5)]
        for kind in ("slow", "fast")
    }
    results = {
        "settings": {"length": 64},
        "until": [63, 127, 191, 255],
        "cutoffs": list(range(5)),
        "stopped": stopped,
        "cut": [[1.0] * 4] * 2,
    }
    figure, readout = figures._which_lanes("slow", 3, results=results)
    lines = traces(figure)
    assert lines["these pairs stopped"]["y"].tolist() == [1.25, 3.25, 4.25, 5.25]
    assert lines["RoPE as trained"]["y"].tolist() == [1.25, 6.25, 7.25, 8.25]
    assert lines["mean beyond 2 L"]["y"].tolist() == [7.75, 6.75, 5.75, 4.75, 3.75]
    assert lines["this many"]["x"] == [3] * 3 and lines["this many"]["y"][1] == 4.75
    assert (readout["far"], readout["plain"], readout["cut"]) == ("4.75", "7.75", "1.00")
    # 4 pairs of base 10,000 have wavelengths 6.3, 63, 628, 6283: two of them exceed 64
    assert lines["a turn takes L tokens"]["x"] == [2.5, 2.5]
