r"""Models that ship: the table's words, the pairs of its layers, and what YaRN changes, each by another road."""

import math

import pytest
import torch

from posenc import scaling
from posenc.chapters.shipped import facts as page
from posenc.chapters.shipped import figures
from posenc.rotate.rope import rotate


def test_rows_come_newest_first_and_each_has_a_source():
    months = [row["since"] for row in page.MODELS["rows"]]
    assert months == sorted(months, reverse=True)
    for row in page.MODELS["rows"]:
        assert ("cite" in row or "doc" in row) and ("type" in row or "told" in row), row["name"]
        assert "cite" in row or "given" not in row, f"{row['name']}: settings of a release want their source"


def test_depth_is_told_as_one_period_or_as_counts():
    assert page.depth(["full"] * 9) == "full"
    assert page.depth(["window", "window", "full"] * 3 + ["window"]).split() == "2 window, 1 full, repeated".split()
    assert page.depth(["full", *["window"] * 9, "full", "full"]).split() == "9 window, 3 full in all".split()


@pytest.mark.parametrize("length", [2**12, 2**17, 2**20])
@pytest.mark.parametrize("model", [*figures.MODELS, "GPT-NeoX-20B", "Gemma 3 4B", "SmolLM3", "gpt-oss"])
def test_pairs_are_slow_and_unseen_where_their_angles_say_so(model, length):
    """Counted by angles: training had those of its distances at the speed before the scheme, this text has its own."""
    for extent in page.readings()[model].at(length):
        layer = page.readings()[model][extent.layers[0]]
        if layer.rope is None:
            continue
        plain = layer.rope.base ** (-2 * torch.arange(extent.pairs, dtype=torch.float64) / layer.rope.dim)
        had = plain * min(layer.trained, layer.window or layer.chunk or math.inf)
        reached = layer.rope.at(length)[0][: extent.pairs] * (extent.distance + 1)
        slow = had < 2 * math.pi
        assert (extent.slow, extent.unseen) == (slow.sum(), (slow & (reached > had * (1 + 1e-9))).sum())


@pytest.mark.parametrize("distance", [16, 1024])
def test_what_yarn_changes_in_scores_by_drawing_them(distance):
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, 20000, 1, 64, dtype=torch.float64, generator=generator)
    at, zero = torch.tensor([distance]), torch.tensor([0])
    frequencies, heat = scaling.yarn(64, 4.0, trained=4096, base=1e4)
    plain = scaling.linear(64, 1.0, base=1e4)[0]

    def scores(speeds, factor):
        return (rotate(q, at, speeds, "half", factor) * rotate(k, zero, speeds, "half", factor)).sum(-1)

    before = scores(plain, 1.0)
    wanted = page.changes(distance, trained=4096, base=1e4, dim=64)
    found = [(scores(frequencies, a) - before).pow(2).mean().sqrt() / before.pow(2).mean().sqrt() for a in (1.0, heat)]
    assert torch.stack(found).tolist() == pytest.approx(wanted, rel=0.05)
