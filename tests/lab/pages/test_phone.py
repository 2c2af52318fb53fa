"""Plots on a narrow screen: laid out anew for its width, in type that can be read, with nothing cut off or meeting."""

import importlib
import re
from itertools import combinations

import matplotlib
import matplotlib.pyplot as plt
import numpy
import pytest
from matplotlib.text import Text

from posenc.lab.experiments.plots import name_lines, stack
from posenc.lab.pages import phone
from posenc.lab.pages.phone import narrow


@pytest.fixture(autouse=True)
def style():
    plt.close("all")
    with matplotlib.rc_context({"font.size": 12}):  # as in the book
        yield
    plt.close("all")


def drawn(rows=1, columns=1, **options):
    figure, axes = plt.subplots(rows, columns, layout="constrained", squeeze=False, **options)
    for axis in axes.flat:
        axis.plot([0, 1, 2], [0, 2, 1], label="a line")
        axis.set(xlabel="of something", ylabel="how much")
    return figure, list(axes.flat)


def boxes(texts):
    """Where each text stands that says something; slanted ones fill less than their box, and are left out."""
    texts = [text for text in texts if text.get_text().strip() and text.get_visible() and text.get_rotation() % 90 == 0]
    return [(text.get_text(), Text.get_window_extent(text)) for text in texts]


def meeting(texts):
    """The pairs of texts that overlap by more than a pixel each way."""
    found = boxes(texts)
    return [
        (one, two)
        for (one, a), (two, b) in combinations(found, 2)
        if min(a.x1, b.x1) - max(a.x0, b.x0) > 1 and min(a.y1, b.y1) - max(a.y0, b.y0) > 1
    ]


def test_the_copy_is_as_wide_as_a_phone_and_its_type_large_enough():
    figure, (axes,) = drawn(figsize=(7, 4))
    axes.set_title("small", fontsize=5)
    copy = narrow(figure)
    assert copy.get_figwidth() == phone.WIDTH and copy.get_tightbbox().width <= phone.WIDTH
    sizes = [text.get_fontsize() for text in copy.findobj(Text)]
    assert min(sizes) >= phone.SMALLEST >= 8.5 and max(sizes) < 12


def test_the_figure_stays_as_it_is_and_no_copy_is_left_open():
    figure, (first, second) = drawn(1, 2, figsize=(7, 3))
    figure.legend(loc="outside lower center")
    before = (
        plt.get_fignums(),
        figure.get_size_inches().tolist(),
        [text.get_fontsize() for text in figure.findobj(Text)],
    )
    places = [axes.get_subplotspec().get_geometry() for axes in (first, second)]
    narrow(figure)
    after = plt.get_fignums(), figure.get_size_inches().tolist(), [text.get_fontsize() for text in figure.findobj(Text)]
    assert before == after and places == [axes.get_subplotspec().get_geometry() for axes in (first, second)]
    assert len(figure.legends) == 1 and plt.gcf() is figure


def dealt(copy):
    """The places of a copy's panels: how far from the left and from the top each begins, as ranks."""
    left, top = ([round(getattr(axes.get_position(), side), 2) for axes in copy.axes] for side in ("x0", "y1"))
    return [(sorted(set(left)).index(x), sorted(set(top), reverse=True).index(y)) for x, y in zip(left, top)]


def test_panels_are_dealt_into_one_column_maps_stay_and_a_wish_is_followed():
    side_by_side, _ = drawn(1, 3, figsize=(9, 3), sharey=True)
    copy = narrow(side_by_side)
    assert dealt(copy) == [(0, 0), (0, 1), (0, 2)] and copy.get_figheight() > 4
    assert all(any(label.get_visible() for label in axes.get_yticklabels()) for axes in copy.axes)
    side_by_side.phone = {"columns": 2, "height": 5.0}
    copy = narrow(side_by_side)
    assert dealt(copy) == [(0, 0), (1, 0), (0, 1)] and copy.get_figheight() == 5
    side_by_side.phone = {"rows": [3, 1, 1]}
    first, second, third = (axes.bbox.height for axes in narrow(side_by_side).axes)
    assert first > 2 * second and second == pytest.approx(third, rel=0.01)
    maps, axes = plt.subplots(1, 3, figsize=(9, 3), layout="constrained")
    for axis in axes:
        axis.imshow(numpy.eye(3))
    assert dealt(narrow(maps)) == [(0, 0), (1, 0), (2, 0)]


def test_what_a_phone_gets_is_printed_as_wide_as_its_column(monkeypatch):
    pylabtools = pytest.importorskip("IPython.core.pylabtools")
    monkeypatch.setattr(pylabtools, "print_figure", pylabtools.print_figure)  # and back again
    phone.install()
    figure, _ = drawn(figsize=(7, 4))
    printed = pylabtools.print_figure(figure, "svg", bbox_inches="tight", facecolor="none")
    wide, slim = (float(re.search(r'<svg[^>]* width="([\d.]+)pt"', svg)[1]) / 72 for svg in printed.split(phone.MARK))
    assert wide > 6.5 and phone.WIDTH - 0.1 < slim <= phone.WIDTH


def test_a_legend_stands_below_in_as_many_columns_as_fit():
    figure, (axes,) = drawn(figsize=(7, 4))
    for name in ("a second line of many words", "a third line of many words"):
        axes.plot([0, 1], [1, 0], label=name)
    figure.legend(loc="outside upper center", ncols=3)
    copy = narrow(figure)
    copy.draw_without_rendering()
    (legend,) = copy.legends
    box = legend.get_window_extent()
    assert 0 <= box.x0 and box.x1 <= phone.WIDTH * copy.dpi and box.y1 <= copy.axes[0].get_window_extent().y0
    assert [text.get_text() for text in legend.get_texts()] == [
        text.get_text() for text in figure.legends[0].get_texts()
    ]


def test_labels_of_the_lower_axis_do_not_meet():
    figure, (axes,) = drawn(figsize=(7, 4))
    axes.set_xticks([0, 1, 2], ["stick-breaking attention", "in distribution", "twice as long"])
    copy = narrow(figure)
    labels = copy.axes[0].get_xticklabels()
    assert labels[1].get_text() == "in\ndistribution" and {label.get_rotation() for label in labels} == {0}
    assert not meeting(labels)
    axes.set_xticks(numpy.linspace(0, 2, 9), [f"{n:,}" for n in range(10000, 100000, 10000)])
    labels = narrow(figure).axes[0].get_xticklabels()
    assert [label.get_text() for label in labels][:2] == ["10,000", "20,000"]  # numbers do not break: they turn
    assert {label.get_rotation() for label in labels} == {40}


def test_names_of_rows_take_two_lines_and_hidden_ones_stay_hidden():
    figure, (first, second) = drawn(1, 2, figsize=(7, 3), sharey=True)
    first.set_yticks([0, 1], ["rotation and penalty, softmax", "7"])
    figure.phone = {"columns": 2}
    first, second = narrow(figure).axes
    assert [label.get_text() for label in first.get_yticklabels()] == ["rotation and penalty,\nsoftmax", "7"]
    assert not any(label.get_visible() for label in second.get_yticklabels())


@pytest.mark.parametrize("layout", [lambda figure: figure, narrow], ids=["wide", "narrow"])
def test_names_of_lines_stand_at_their_ends_and_do_not_meet(layout):
    figure, axes = plt.subplots(figsize=(6.4, 3.6), layout="constrained")
    ends = {"high": 1.0, "a name that takes more than one line": 0.1, "low": 0.09, "lowest": 0.0, "between": 0.095}
    for name, end in ends.items():
        axes.errorbar([0, 1], [0.5, end], [0.01, 0.01], label=name)
    axes.axhline(0.6, color="0.5", label="guessing")
    name_lines(axes)
    figure = layout(figure)
    figure.draw_without_rendering()
    axes, edge = figure.axes[0], figure.bbox.x1
    names = {text.get_text().replace("\n", " "): Text.get_window_extent(text) for text in axes.texts}
    assert sorted(names) == sorted([*ends, "guessing"]) and not meeting(axes.texts)
    order = sorted(names, key=lambda name: names[name].y0)
    assert order == sorted(names, key=lambda name: (ends | {"guessing": 0.6})[name])
    assert all(box.x0 > axes.bbox.x1 and box.x1 < edge for box in names.values())
    assert axes.bbox.width > 0.45 * edge  # a long name takes lines, not the room of the plot
    middle = axes.transData.transform((1, 0.6))[1]
    assert abs(names["guessing"].y0 + names["guessing"].height / 2 - middle) < 3  # alone, it stays at its line


def test_a_stack_moves_no_more_than_it_must():
    heights = numpy.full(4, 10.0)
    free = numpy.array([5.0, 30.0, 50.0, 90.0])
    assert stack(free, heights, 0, 100).tolist() == pytest.approx(free.tolist())
    assert stack(numpy.array([50.0, 50.0, 50.0, 90.0]), heights, 0, 100).tolist() == pytest.approx([40, 50, 60, 90])
    assert stack(numpy.zeros(4), heights, 0, 100).tolist() == pytest.approx([5, 15, 25, 35])
    assert stack(numpy.full(4, 100.0), heights, 0, 100).tolist() == pytest.approx([65, 75, 85, 95])


@pytest.mark.slow
@pytest.mark.parametrize(
    "page, function, arguments",
    [
        ("comrope", "generators_figure", ()),
        ("exposb", "card_figure", ()),
        ("fox", "doors_figure", ()),
        ("gradients", "idea_figure", ()),
        ("kernels", "roofline_figure", (dict.fromkeys(["T4", "A100 SXM 80 GB", "H100 SXM", "H200"], (3e14, 2e12)),)),
        ("learned", "injected_figure", ()),
        ("measure", "scores_figure", ("flipflop",)),
        ("moving_ruler", "verdict_figure", ()),
        ("practice", "needle_figure", ()),
        ("rope_closely", "shift_figure", ()),
        ("rse", "card_figure", ()),
        ("rse", "parts_figure", ()),
        ("rse", "stick_figure", ()),
        ("scaling", "needle_figure", ()),
        ("scaling", "position_figure", ()),
    ],
)
def test_pages_plots_fit_a_phone(page, function, arguments):
    copy = narrow(getattr(importlib.import_module(f"posenc.lab.pages.{page}"), function)(*arguments))
    copy.draw_without_rendering()
    box = copy.get_tightbbox()
    assert 0 <= box.x0 and box.x1 <= phone.WIDTH and box.width <= 3.75
    for axes in copy.axes:
        labels = [*axes.get_xticklabels(), *axes.get_yticklabels(), axes.title, axes.xaxis.label, axes.yaxis.label]
        assert not meeting([*axes.texts, *labels])
    assert not meeting([axes.title for axes in copy.axes])
    assert not any(text.get_bbox_patch() for text in copy.findobj(Text))  # a box of one color does not turn dark
