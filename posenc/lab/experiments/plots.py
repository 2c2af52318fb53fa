r"""Figures of the experiments, each drawn by one function from frozen results. Chapter: How to measure position."""

import textwrap

import numpy

from posenc.errors import check_choice
from posenc.lab.explore import COLORS, DIVERGING
from posenc.lab.titles import TITLES, title
from posenc.lab.train.curve import blank_figure

AMOUNT = "Blues"  # the map of all plots whose cells have no sign: more is darker
HIDDEN = "0.85"  # the gray of cells that a causal mask hides


def signed():
    r"""The map of all plots whose cells have a sign, that of the explorables: blue below zero, orange above."""
    from matplotlib.colors import LinearSegmentedColormap

    return LinearSegmentedColormap.from_list("signed", DIVERGING)


def choose(results, methods):
    """The methods to draw, default all of the results'. Errors: ValueError for one that the results lack."""
    methods = list(results["methods"]) if methods is None else list(methods)
    for name in methods:
        check_choice("methods", name, list(results["methods"]))
    return methods


def mark(axes, x, words):
    """A dotted line at x, with words beside its top."""
    axes.axvline(x, color="0.6", linestyle=":", linewidth=1)
    axes.annotate(f" {words}", (x, 0.97), xycoords=("data", "axes fraction"), va="top", color="0.4")


def folded(words, letters):
    r"""Words in lines of at most so many letters, a longer word in a line of its own."""
    return textwrap.fill(words, letters, break_long_words=False)


def name_lines(*panels):
    r"""Write each line's label beside its end, in its color, in place of a legend: once all is drawn, limits too.

    Names move up and down until none meets another, each as near its line's end as can be; where they are more than a
    panel has room for, the figure grows.
    """
    from matplotlib.text import Text

    figure = panels[0].figure
    named = {axes: [name_line(axes, *each) for each in zip(*axes.get_legend_handles_labels())] for axes in panels}
    figure.draw_without_rendering()  # an annotation's own extent has its arrow in it
    heights = {axes: numpy.array([Text.get_window_extent(name).height for name in named[axes]]) for axes in panels}
    if (crowd := max(heights[axes].sum() / axes.bbox.height for axes in panels)) > 1:
        figure.set_figheight(crowd * figure.get_figheight())
        figure.draw_without_rendering()
    for axes, names in named.items():
        box, ends = axes.bbox, numpy.array([name.xycoords.transform(name.xy)[1] for name in names])
        order = numpy.argsort(ends, kind="stable")
        for i, middle in zip(order, stack(ends[order], heights[axes][order], box.y0, box.y1)):
            names[i].xyann = 1.02, (middle - box.y0) / box.height


def name_line(axes, handle, words):
    r"""Write words beside the end of a line, or of a container with bars of error. Returns: the text."""
    line = handle if hasattr(handle, "get_xdata") else handle[0]
    return axes.annotate(
        folded(words, 16),
        (line.get_xdata()[-1], line.get_ydata()[-1]),
        (1.02, 0),
        xycoords=line.get_transform(),
        textcoords="axes fraction",
        va="center",
        color=line.get_color(),
        arrowprops={
            "arrowstyle": "-",
            "color": line.get_color(),
            "linewidth": 0.7,
            "relpos": (0, 0.5),
            "patchA": None,  # else each drawing looks, slowly, for where the arrow leaves the box of the words
            "shrinkA": 3,
        },
    )


def stack(middles, heights, low, high):
    r"""The middles of boxes of these heights, in order from below, moved so that none meets the next.

    The sum of squared moves is the least possible, except where a box would leave the range from low to high.
    """
    under = numpy.cumsum(heights) - heights / 2  # the middles of boxes piled up without a gap
    blocks = []  # [boxes that touch, where their pile would begin]
    for start in middles - under:
        blocks.append([1, start])
        while len(blocks) > 1 and blocks[-2][1] > blocks[-1][1]:
            count, start = blocks.pop()
            total = blocks[-1][0] + count
            blocks[-1] = [total, (blocks[-1][0] * blocks[-1][1] + count * start) / total]
    starts = [start for count, start in blocks for _ in range(count)]
    return numpy.clip(starts, low, max(low, high - sum(heights))) + under


def plot_short_long(results, methods=None, highlight=None, own=None):
    r"""Loss on fixed target characters as their context grows: whole (solid) and cut to the training window (dashed).

    Arguments:
        results: from `load_results("train_short_test_long")`.
        methods: names, in drawing order; default all of the results'.
        highlight: one of them, drawn strong, the others pale.
        own: {label: what `short_long` returned} for models of your own, drawn beside, in black.
    Returns: a matplotlib figure: means over seeds, bars of one standard deviation, a vertical line at the training
        length. Errors: ValueError for a method that the results lack.
    """
    from matplotlib.ticker import NullLocator

    methods = choose(results, methods)
    if highlight is not None:
        check_choice("highlight", highlight, list(results["methods"]))
    figure, axes = blank_figure(4.4, 3.5)
    lengths = results["lengths"]
    kinds = (("whole", "-", None, ""), ("cut", "--", "white", ", cut"))
    for name in methods:
        strong = highlight in (None, name)
        style = {"alpha": 1 if strong else 0.35, "capsize": 3, "markersize": 5} | look(name)
        for kind, line, face, also in kinds[: 1 + strong]:
            mean, spread = mean_spread(results["methods"][name][kind])
            style |= {"linestyle": line, "markerfacecolor": face}
            axes.errorbar(lengths, mean, spread, label=title(name) + also, **style)
    for (label, losses), marker in zip((own or {}).items(), "*PX<>hp" * 3):
        for kind, line, _, also in kinds:
            axes.plot(losses["lengths"], losses[kind], line, color="black", marker=marker, label=label + also)
    mark(axes, lengths[0], "trained here")
    axes.set_xscale("log", base=2)
    ticks = sorted({*lengths, *(length for losses in (own or {}).values() for length in losses["lengths"])})
    axes.set_xticks(ticks, [str(length) for length in ticks])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set(xlabel="context, characters", ylabel="loss on the same targets,\nnats per character")
    name_lines(axes)
    return figure


def look(arm):
    """The color and marker of a method."""
    row = TITLES.get(arm)
    return {"color": row.color, "marker": row.marker} if row else {"color": "C5", "marker": "o"}


def mean_spread(values):
    """Mean over the first axis (seeds) and sample standard deviation, 0 for one seed."""
    values = numpy.asarray(values, dtype=float)
    return values.mean(0), values.std(0, ddof=1) if len(values) > 1 else numpy.zeros(values.shape[1:])


def plot_scores(results, columns=None, methods=None):
    r"""A dot for each method at each test of a task: the mean over seeds, with bars of one standard deviation.

    Arguments:
        results: from `load_results`, of a sweep over a puzzle or "masked".
        columns: tests in drawing order, default all, "sparser" before "denser".
        methods: default all of the results'.
    Returns: a matplotlib figure. Errors: ValueError for a test or method that the results lack.
    """
    methods = choose(results, methods)
    first = ("in", "sparser", "denser")
    if columns is None:
        columns = sorted(results["tests"], key=lambda name: first.index(name) if name in first else len(first))
    for name in columns:
        check_choice("columns", name, list(results["tests"]))
    share = results["unit"].startswith("share")
    rows = -(-len(methods) // 3)  # of the legend
    figure, axes = blank_figure(max(4.4, 0.75 * len(columns)), 2.3 + 0.2 * rows)
    for index, name in enumerate(methods):
        rows = [mean_spread(results["methods"][name]["scores"][column]) for column in columns]
        at = numpy.arange(len(columns)) + (index - (len(methods) - 1) / 2) * min(0.13, 0.8 / len(methods))
        mean, spread = zip(*rows)
        axes.errorbar(at, mean, spread, linestyle="none", capsize=2, label=title(name), **look(name))
        if share:
            axes.vlines(at, 0, mean, color=look(name)["color"], linewidth=1, alpha=0.6)
    axes.set_xticks(range(len(columns)), [folded(str(name), 8) for name in columns])
    axes.set(ylabel=results["unit"], xlim=(-0.5, len(columns) - 0.5))
    if share:
        axes.set_ylim(-0.03, 1.03)
        axes.axhline(0, color="0.3", linewidth=0.8, zorder=1)  # most points stand on it
        axes.spines["bottom"].set_visible(False)
        axes.tick_params(axis="x", length=0)
    for edge in range(1, len(columns)):
        axes.axvline(edge - 0.5, color="0.9", linewidth=0.8)
    figure.legend(loc="outside lower center", ncols=3, frameon=False, columnspacing=1, handletextpad=0.2)
    return figure


def plot_by_position(results, methods=None):
    r"""Loss by place in the longest test windows.

    results: from `load_results("train_short_test_long")`. Returns: a matplotlib figure, means over seeds, bands of one
    standard deviation.
    """
    methods = choose(results, methods)
    figure, axes = blank_figure(4.4, 3.2)
    for index, name in enumerate(methods):
        mean, spread = mean_spread(results["methods"][name]["by_position"])
        dash, face = (("-", None), ((0, (4, 3)), "white"))[index % 2]  # lines that all but meet are told apart
        marks = {"markersize": 6, "markevery": (3 * index % 8, 8), "markerfacecolor": face}
        axes.plot(results["until"], mean, linestyle=dash, label=title(name), **marks, **look(name))
        axes.fill_between(results["until"], mean - spread, mean + spread, color=look(name)["color"], alpha=0.2)
    axes.axvline(results["lengths"][0], color="0.6", linestyle=":", linewidth=1)
    axes.set(xlabel="place in the window, characters", ylabel="loss, nats per character")
    name_lines(axes)
    return figure


def plot_recall(results, methods=None):
    r"""Share of wrong answers against the number of pairs.

    results: from `load_results("recall")`. Returns: a matplotlib figure, means over seeds with bars.
    """
    methods = choose(results, methods)
    figure, axes = blank_figure(4.4, 3.2)
    pairs = numpy.array(results["pairs"])
    step = 0.06 * numpy.ptp(pairs) / len(methods)  # bars at one place would cover each other
    for index, name in enumerate(methods):
        shift = step * (index - (len(methods) - 1) / 2)
        mean, spread = mean_spread(results["methods"][name]["by_pairs"])
        bars = numpy.stack((numpy.minimum(spread, mean), spread))  # no share is below 0
        axes.errorbar(pairs + shift, mean, bars, capsize=2, markersize=4, label=title(name), **look(name))
    mark(axes, results["trained_pairs"], "most in training")
    axes.set(xlabel="pairs in the context", ylabel=results["unit"], ylim=(-0.03, 1.03))
    name_lines(axes)
    return figure


def plot_volume(results):
    r"""Loss against the volume of the sinusoid beside embeddings of variance 1, at each context length.

    results: from `load_results("sinusoidal_volume")`. Returns: a matplotlib figure, means over seeds with bars; the
    leftmost point is volume 0, NoPE.
    """
    figure, axes = blank_figure(4.4, 2.9)
    at = range(len(results["volumes"]))
    rows = [mean_spread(results["methods"][f"{volume:.4f}"]["whole"]) for volume in results["volumes"]]
    means, spreads = (numpy.array(part).T for part in zip(*rows))  # [lengths, volumes]
    for length, mean, spread, color, marker in zip(results["lengths"], means, spreads, COLORS.values(), "osD^"):
        axes.errorbar(at, mean, spread, capsize=2, color=color, marker=marker, label=f"context {length}")
    axes.set_xticks(at, [f"{volume:.2g}" for volume in results["volumes"]])
    axes.set(xlabel="volume of the sinusoid (embeddings: 1)", ylabel="loss, nats per character")
    name_lines(axes)
    return figure


def plot_parts(results, names=None):
    r"""Loss of a method's parts, a row each: at the training length (filled) and at the longest test (open).

    Arguments:
        results: from `load_results("ablation_text")`.
        names: {arm: words for its row}, from top to bottom; default all arms under their own names.
    Returns: a matplotlib figure, means over seeds with bars of one standard deviation, a vertical line at the arm that
        the others are compared with. Errors: ValueError for an arm that the results lack.
    """
    names = {arm: title(arm) for arm in results["methods"]} if names is None else names
    arms = choose(results, list(names))
    figure, axes = blank_figure(4.4, 1 + 0.36 * len(arms))
    first, last = str(results["lengths"][0]), str(results["lengths"][-1])
    for row, arm in enumerate(arms):
        scores = results["methods"][arm]["scores"]
        for column, face, words in ((first, "C0", f"{first} characters, as trained"), (last, "white", f"{last}")):
            mean, spread = mean_spread(scores[column])
            style = {"fmt": "o", "color": "C0", "markerfacecolor": face, "capsize": 3}
            axes.errorbar(mean, row, xerr=spread, label=words if row == 0 else None, **style)
    axes.axvline(mean_spread(results["methods"][results["against"]]["scores"][first])[0], color="0.6", linestyle=":")
    axes.set_yticks(range(len(arms)), [folded(names[arm], 24) for arm in arms])
    axes.invert_yaxis()
    axes.set_xlabel("loss, nats per character")
    figure.legend(loc="outside lower center", ncols=2, frameon=False)
    return figure


def plot_language(causal, masked):
    r"""Loss of each method as a causal and as a masked language model at the training length, side by side.

    causal: from `load_results("train_short_test_long")`; masked: from `load_results("masked")`. Returns: a matplotlib
    figure, means over seeds with bars of one standard deviation.
    """
    figure, axes = blank_figure(4.4, 2.6)
    methods = [name for name in causal["methods"] if name in masked["methods"]]
    kinds = ((None, "causal: next character"), ("white", "masked: hidden character"))
    for index, name in enumerate(methods):
        first = numpy.array(causal["methods"][name]["whole"])[:, 0]
        second = numpy.array(masked["methods"][name]["scores"][next(iter(masked["tests"]))])
        sides = index - 0.1, index + 0.1
        axes.plot(sides, [first.mean(), second.mean()], color=look(name)["color"], linewidth=1)
        for x, values, (face, words) in zip(sides, (first, second), kinds):
            style = {"capsize": 3, "linestyle": "none", "markersize": 7, "markerfacecolor": face} | look(name)
            axes.errorbar(x, *mean_spread(values), label=words if index == 0 else None, **style)
    axes.set_xticks(range(len(methods)), [folded(title(name), 8) for name in methods])
    axes.set_ylabel("loss, nats per character")
    figure.legend(loc="outside lower center", ncols=2, frameon=False, columnspacing=1, handletextpad=0.4)
    return figure
