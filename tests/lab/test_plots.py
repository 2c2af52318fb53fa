"""The figures of the experiments draw the means and spreads that stand in their results."""

import statistics

import numpy
import pytest

from posenc.lab.experiments import load_results, plots

TEXT = load_results("train_short_test_long")
TITLES = {"nope": "NoPE", "rope": "RoPE", "alibi": "ALiBi"}


def bars(axes):
    """What is drawn with error bars: {label: (x, mean, half the bar's height)}."""
    drawn = {}
    for container in axes.containers:
        line, _, (bar,) = container.lines
        half = [(segment[1][1] - segment[0][1]) / 2 for segment in bar.get_segments()]
        drawn[container.get_label()] = list(line.get_xdata()), list(line.get_ydata()), half
    return drawn


def same(drawn, rows, x=None):
    """Mean and standard deviation of each column of these rows are drawn."""
    assert drawn[1] == pytest.approx([statistics.mean(column) for column in zip(*rows)])
    assert drawn[2] == pytest.approx([statistics.stdev(column) for column in zip(*rows)])
    assert x is None or drawn[0] == pytest.approx(x)


def test_short_long_draws_whole_and_cut_and_your_own_beside():
    own = {"mine": {"lengths": [32, 64, 128], "whole": [2.0, 2.1, 2.2], "cut": [2.0] * 3}}
    axes = plots.plot_short_long(TEXT, methods=["rope", "alibi"], highlight="rope", own=own).axes[0]
    drawn = bars(axes)
    assert list(drawn) == ["RoPE", "RoPE, cut", "ALiBi"]
    for label, name, kind in (("RoPE", "rope", "whole"), ("RoPE, cut", "rope", "cut"), ("ALiBi", "alibi", "whole")):
        same(drawn[label], TEXT["methods"][name][kind], TEXT["lengths"])
    lines = {line.get_label(): line for line in axes.lines}
    assert list(lines["mine"].get_xdata()) == [32, 64, 128] and list(lines["mine"].get_ydata()) == [2.0, 2.1, 2.2]
    assert list(lines["mine, cut"].get_ydata()) == [2.0] * 3


def test_scores_stand_over_their_test():
    results = load_results("flipflop", TITLES)
    drawn = bars(plots.plot_scores(results, columns=["sparser", "in"]).axes[0])
    for name, label in TITLES.items():
        scores = results["methods"][name]["scores"]
        same(drawn[label], list(zip(scores["sparser"], scores["in"])))
        assert [round(x) for x in drawn[label][0]] == [0, 1]


def test_an_unknown_name_is_named():
    for plot, given, words in (
        (plots.plot_short_long, {"methods": ["nopes"]}, "methods='nopes' .*'nope'"),
        (plots.plot_short_long, {"highlight": "ropes"}, "highlight='ropes' .*'rope'"),
        (plots.plot_parts, {"names": {"ropes": ""}}, "'ropes'.*'rope'"),
    ):
        with pytest.raises(ValueError, match=words):
            plot(TEXT, **given)
    with pytest.raises(ValueError, match="columns='longe' .*'longer"):
        plots.plot_scores(load_results("flipflop"), columns=["longe"])


def test_a_stack_moves_no_more_than_it_must():
    heights = numpy.full(4, 10.0)
    free = numpy.array([5.0, 30.0, 50.0, 90.0])
    assert plots.stack(free, heights, 0, 100).tolist() == pytest.approx(free.tolist())
    low, high, crowd = numpy.zeros(4), numpy.full(4, 100.0), numpy.array([50.0, 50.0, 50.0, 90.0])
    assert plots.stack(crowd, heights, 0, 100).tolist() == pytest.approx([40, 50, 60, 90])
    assert plots.stack(low, heights, 0, 100).tolist() == pytest.approx([5, 15, 25, 35])
    assert plots.stack(high, heights, 0, 100).tolist() == pytest.approx([65, 75, 85, 95])
