"""The figures of the experiments draw the means and spreads that stand in their results."""

import math
import statistics

import matplotlib.figure
import matplotlib.pyplot as plt
import pytest

from posenc.lab.experiments import plots
from posenc.lab.experiments.plots import (
    plot_by_position,
    plot_context_cut,
    plot_distance_and_keys,
    plot_language,
    plot_needle,
    plot_parts,
    plot_recall,
    plot_scores,
    plot_short_long,
    plot_volume,
)
from posenc.lab.train.curve import plot_loss

# Numbers that differ everywhere, three seeds each, so that a wrong row, column or seed is seen.
TEXT = {
    "lengths": [64, 128, 256],
    "cuts": [1, 64, 256],
    "until": [63, 255],
    "methods": {
        name: {
            "whole": [[base + 0.1 * seed**2, base + 1 + seed, base + 2 + 3 * seed] for seed in range(3)],
            "cut": [[base + 0.2 * seed**2, base + 5 + seed, base + 7 + 2 * seed] for seed in range(3)],
            "distance_and_keys": [
                [[base + 0.1 * seed, base + 1, base + 2 + seed], [base, base, base], [base + 4, base, base + 9 + seed]]
                for seed in range(3)
            ],
            "context_cut": [[base + 3 + seed, base + 2, base + seed**2] for seed in range(3)],
            "by_position": [[base + 8 + seed, base + seed**2] for seed in range(3)],
        }
        for base, name in enumerate(("nope", "rope", "alibi"), 1)
    },
}
SCORES = {
    "unit": "share of wrong answers",
    "tests": {"in": "as trained", "longer": "twice as long"},
    "methods": {
        name: {"scores": {"in": [base, base + 0.1, base + 0.3], "longer": [2 * base, 2 * base + 0.2, base]}}
        for base, name in ((0.1, "nope"), (0.2, "rope"))
    },
}
NEEDLE = {
    "contexts": [64, 128],
    "distances": [4, 54, 118],
    "methods": {
        "rope": {
            "grid": [[[0.1, 0.2, None], [0.3, 0.4, 0.9]], [[0.3, 0.2, None], [0.5, 0.6, 0.7]]],
            "cut_row": [[0.0, 0.2, 0.8], [0.2, 0.2, 1.0]],
        }
    },
}
RECALL = {
    "unit": "share of wrong answers",
    "pairs": [4, 8, 32],
    "trained_pairs": 8,
    "methods": {"nope": {"by_pairs": [[0.1, 0.2, 0.3], [0.3, 0.8, 0.4]]}, "alibi": {"by_pairs": [[0, 0.1, 1.0]]}},
}
VOLUME = {
    "volumes": [0.0, 0.3, 1.0],
    "lengths": [64, 128],
    "methods": {f"{v:.4f}": {"whole": [[1 + v, 2 + v], [1 + 2 * v, 4 + v]]} for v in (0.0, 0.3, 1.0)},
}
MASKED = {
    "tests": {"64": "context 64", "128": "context 128"},
    "methods": {
        name: {"scores": {"64": [base, base + 1, base + 5], "128": [0.0, 0.0, 0.0]}}
        for base, name in enumerate(("nope", "rope", "alibi"), 11)
    },
}


def bars(axes):
    """What is drawn with error bars: {label: (x, mean, half the bar's height)}."""
    drawn = {}
    for container in axes.containers:
        line, _, (bar,) = container.lines
        half = [(segment[1][1] - segment[0][1]) / 2 for segment in bar.get_segments()]
        drawn[container.get_label()] = list(line.get_xdata()), list(line.get_ydata()), half
    return drawn


def expected(rows):
    """Mean and standard deviation of each column."""
    return [statistics.mean(column) for column in zip(*rows)], [statistics.stdev(column) for column in zip(*rows)]


def same(drawn, rows, x=None):
    mean, spread = expected(rows)
    assert drawn[1] == pytest.approx(mean) and drawn[2] == pytest.approx(spread)
    assert x is None or drawn[0] == pytest.approx(x)


def test_short_long_draws_whole_and_cut():
    axes = plot_short_long(TEXT, methods=["rope", "alibi"], highlight="rope").axes[0]
    drawn = bars(axes)
    assert list(drawn) == ["RoPE", "RoPE, cut", "ALiBi"]
    for label, name, kind in (("RoPE", "rope", "whole"), ("RoPE, cut", "rope", "cut"), ("ALiBi", "alibi", "whole")):
        same(drawn[label], TEXT["methods"][name][kind], [64, 128, 256])
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["64", "128", "256"]


def test_short_long_draws_your_own_beside():
    own = {"mine": {"lengths": [32, 64, 128], "whole": [2.0, 2.1, 2.2], "cut": [2.0] * 3}}
    axes = plot_short_long(TEXT, methods=["rope"], own=own).axes[0]
    lines = {line.get_label(): list(line.get_ydata()) for line in axes.lines}
    assert [list(line.get_xdata()) for line in axes.lines if line.get_label() == "mine"] == [[32, 64, 128]]
    assert lines["mine"] == own["mine"]["whole"] and lines["mine, cut"] == own["mine"]["cut"]


def test_scores_stand_over_their_test():
    axes = plot_scores(SCORES, columns=["longer", "in"]).axes[0]
    drawn = bars(axes)
    assert list(drawn) == ["NoPE", "RoPE"]
    for label, name in (("NoPE", "nope"), ("RoPE", "rope")):
        scores = SCORES["methods"][name]["scores"]
        same(drawn[label], list(zip(scores["longer"], scores["in"])))
        assert [round(x) for x in drawn[label][0]] == [0, 1]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["longer", "in"]
    assert drawn["NoPE"][0][0] < drawn["RoPE"][0][0] and axes.get_ylabel() == SCORES["unit"]


def test_the_tests_of_all_puzzles_stand_in_one_order():
    names = ("in", "denser", "sparser", "longer 2x")
    scores = {"nope": {"scores": {name: [0.1, 0.2] for name in names}}}
    axes = plot_scores(SCORES | {"tests": dict.fromkeys(names, ""), "methods": scores}).axes[0]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["in", "sparser", "denser", "longer 2x"]


def test_distance_and_keys_draws_what_each_adds():
    axes = plot_distance_and_keys(TEXT, methods=["alibi", "nope"]).axes[0]
    heights = [patch.get_height() for patch in axes.patches]
    assert len(heights) == 6
    for index, name in enumerate(("alibi", "nope")):
        grids = TEXT["methods"][name]["distance_and_keys"]
        for place, (keys, gap) in enumerate(((0, -1), (-1, 0), (-1, -1))):  # distance alone, keys alone, both
            added = [grid[keys][gap] - grid[0][0] for grid in grids]
            assert heights[3 * index + place] == pytest.approx(statistics.mean(added)), (name, place)
    assert [text.get_text() for text in axes.figure.legends[0].get_texts()] == ["distance alone", "keys alone", "both"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["ALiBi", "NoPE"]


def test_context_cut_draws_loss_by_keys():
    drawn = bars(plot_context_cut(TEXT, methods=["nope", "alibi"]).axes[0])
    assert list(drawn) == ["NoPE", "ALiBi"]
    same(drawn["ALiBi"], TEXT["methods"]["alibi"]["context_cut"], TEXT["cuts"])


def test_by_position_draws_means_and_bands():
    axes = plot_by_position(TEXT, methods=["nope", "rope"]).axes[0]
    lines = {line.get_label(): line for line in axes.lines}
    assert lines["NoPE"].get_linestyle() != lines["RoPE"].get_linestyle()  # neighbors that meet are told apart
    bands = [band.get_paths()[0].vertices[:, 1] for band in axes.collections]
    for index, (label, name) in enumerate((("NoPE", "nope"), ("RoPE", "rope"))):
        mean, spread = expected(TEXT["methods"][name]["by_position"])
        assert list(lines[label].get_ydata()) == pytest.approx(mean)
        assert list(lines[label].get_xdata()) == TEXT["until"]
        assert min(bands[index]) == pytest.approx(min(m - s for m, s in zip(mean, spread)))
        assert max(bands[index]) == pytest.approx(max(m + s for m, s in zip(mean, spread)))


def test_needle_writes_each_mean_into_its_cell():
    axes = plot_needle(NEEDLE, "rope").axes[0]
    written = {text.get_position(): text.get_text() for text in axes.texts}
    wanted = {(0, 0): 0.2, (1, 0): 0.2, (0, 1): 0.4, (1, 1): 0.5, (2, 1): 0.8, (0, 2): 0.1, (1, 2): 0.2, (2, 2): 0.9}
    assert written == {place: f"{value:.2f}" for place, value in wanted.items()}  # none where no needle fits
    cells = axes.images[0].get_array()
    assert all(cells[row, column] == pytest.approx(value) for (column, row), value in wanted.items())
    assert math.isnan(float(cells.filled(math.nan)[0, 2]))
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["64", "128", "128, cut"]
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["4", "54", "118"]


def test_recall_draws_errors_by_pairs():
    axes = plot_recall(RECALL).axes[0]
    drawn = bars(axes)
    same(drawn["NoPE"], RECALL["methods"]["nope"]["by_pairs"])
    apart = [(one, two) for one, two in zip(drawn["NoPE"][0], drawn["ALiBi"][0])]  # bars stand beside each other
    assert all(one < pairs < two < one + 2 for pairs, (one, two) in zip(RECALL["pairs"], apart))
    assert drawn["ALiBi"][1:] == ([0, 0.1, 1.0], [0, 0, 0])  # one seed has no spread
    assert any(list(line.get_xdata()) == [8, 8] for line in axes.lines)


def test_volume_draws_a_line_for_each_length():
    axes = plot_volume(VOLUME).axes[0]
    drawn = bars(axes)
    assert list(drawn) == ["context 64", "context 128"]
    for index, length in enumerate(drawn):
        rows = [[VOLUME["methods"][f"{v:.4f}"]["whole"][seed][index] for v in VOLUME["volumes"]] for seed in range(2)]
        same(drawn[length], rows)
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["0", "0.3", "1"]


PARTS = {
    "lengths": [64, 512],
    "against": "rope",
    "methods": {
        arm: {"scores": {"64": [base, base + 0.3, base + 1], "512": [base + 2, base + 4, base + 5]}}
        for base, arm in enumerate(("rope", "exposb", "exposb_gain"), 1)
    },
}


def test_parts_draws_a_row_for_each_arm():
    names = {"exposb_gain": "gain alone", "rope": "RoPE"}
    axes = plot_parts(PARTS, names).axes[0]
    assert [tick.get_text() for tick in axes.get_yticklabels()] == ["gain alone", "RoPE"] and axes.yaxis_inverted()
    drawn = [(line.lines[0].get_xdata()[0], line.lines[0].get_ydata()[0]) for line in axes.containers]
    wanted = [
        (statistics.mean(PARTS["methods"][arm]["scores"][column]), row)
        for row, arm in enumerate(names)
        for column in ("64", "512")
    ]
    assert sum(drawn, ()) == pytest.approx(sum(wanted, ()))
    spread = axes.containers[0].lines[2][0].get_segments()[0][:, 0]
    assert (spread[1] - spread[0]) / 2 == pytest.approx(statistics.stdev([3, 3.3, 4]))
    assert any(
        list(line.get_xdata()) == pytest.approx([1 + 1.3 / 3] * 2) for line in axes.lines if len(line.get_xdata()) == 2
    )
    with pytest.raises(ValueError, match="'ropes'.*'rope'"):
        plot_parts(PARTS, {"ropes": ""})


def test_language_draws_causal_beside_masked():
    axes = plot_language(TEXT, MASKED).axes[0]
    drawn = [(line.lines[0].get_xdata()[0], line.lines[0].get_ydata()[0]) for line in axes.containers]
    for index, name in enumerate(TEXT["methods"]):
        causal = statistics.mean(row[0] for row in TEXT["methods"][name]["whole"])
        masked = statistics.mean(MASKED["methods"][name]["scores"]["64"])
        assert drawn[2 * index] == pytest.approx((index - 0.1, causal))
        assert drawn[2 * index + 1] == pytest.approx((index + 0.1, masked))
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["NoPE", "RoPE", "ALiBi"]


def test_loss_draws_each_step_and_a_running_mean():
    losses = [5.0 - 0.1 * i + (i % 3) for i in range(40)]
    each, mean = plot_loss(losses, steps=50, title="rope").axes[0].lines
    assert list(each.get_ydata()) == losses and list(each.get_xdata()) == list(range(1, 41))
    assert list(mean.get_ydata()) == pytest.approx([(a + b) / 2 for a, b in zip(losses, losses[1:])])
    assert list(mean.get_xdata()) == list(range(2, 41)) and each.axes.get_xlim() == (0, 50)


# function -> (its results, what else it is given)
ALL = {
    plot_short_long: TEXT,
    plot_scores: SCORES,
    plot_distance_and_keys: TEXT,
    plot_context_cut: TEXT,
    plot_by_position: TEXT,
    plot_recall: RECALL,
}


@pytest.mark.parametrize("plot", ALL, ids=lambda plot: plot.__name__)
def test_an_unknown_method_is_named(plot):
    with pytest.raises(ValueError, match="methods='nopes' .*'nope'"):
        plot(ALL[plot], methods=["nopes"])


def test_other_unknown_names_are_named():
    with pytest.raises(ValueError, match="method='alibi'"):
        plot_needle(NEEDLE, "alibi")
    with pytest.raises(ValueError, match="columns='longe' .*'longer'"):
        plot_scores(SCORES, columns=["longe"])
    with pytest.raises(ValueError, match="highlight='ropes' .*'rope'"):
        plot_short_long(TEXT, highlight="ropes")


def test_no_figure_is_left_open():
    plt.close("all")
    figures = [plot(results) for plot, results in ALL.items()]
    figures += [plot_needle(NEEDLE, "rope"), plot_volume(VOLUME), plot_language(TEXT, MASKED)]
    figures += [plot_parts(PARTS)]
    assert len(figures) == len([name for name in vars(plots) if name.startswith("plot_")])
    assert all(isinstance(figure, matplotlib.figure.Figure) for figure in figures) and plt.get_fignums() == []
