"""Every figure that a chapter's facts.py draws has something in each panel, and can be read on a phone: no words meet
or are cut."""

import importlib
from inspect import signature
from itertools import combinations

import matplotlib.pyplot as plt
import pytest
from matplotlib.text import Text

from posenc import chapters

CHAPTERS = [path.parent.name for path in chapters.files("facts.py")]


def figures(name):
    r"""The chapter's own functions that draw a figure and need no arguments."""
    module = importlib.import_module(f"posenc.chapters.{name}.facts")
    for function, value in sorted(vars(module).items()):
        if function.endswith("_figure") and value.__module__ == module.__name__:
            if all(parameter.default is not parameter.empty for parameter in signature(value).parameters.values()):
                yield value


def words(figure):
    r"""What a figure says, each with its box; words that are slanted fill less than theirs, and are left out."""
    for axes in filter(lambda axes: axes.axison, figure.axes):
        inside = axes.get_window_extent().padded(1)
        texts = [axes.title, axes.xaxis.label, axes.yaxis.label, *axes.texts]
        for text in texts + [*axes.get_xticklabels(), *axes.get_yticklabels()]:
            box = Text.get_window_extent(text)  # an annotation's own has its arrow in it
            x, y = (box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2
            seen = text in texts or inside.x0 < x < inside.x1 or inside.y0 < y < inside.y1  # ticks beyond the limits
            if seen and text.get_visible() and text.get_text().strip() and text.get_rotation() % 90 == 0:
                yield text.get_text(), box
    for text in (text for legend in figure.legends for text in legend.get_texts()):
        yield text.get_text(), text.get_window_extent()


@pytest.mark.weekly
@pytest.mark.parametrize("draw", [each for name in CHAPTERS for each in figures(name)], ids=lambda draw: draw.__name__)
def test_a_figure_is_drawn_and_can_be_read(draw):
    with plt.rc_context({"axes.titlesize": "medium"}):  # as in the book
        figure = draw() or plt.gcf()
    try:
        figure.draw_without_rendering()
        assert figure.axes and all(axes.has_data() for axes in figure.axes if axes.axison)
        assert figure.get_figwidth() == 4.4 and min(text.get_fontsize() for text in figure.findobj(Text)) >= 10
        for (one, a), (two, b) in combinations(words(figure), 2):
            overlap = min(min(a.x1, b.x1) - max(a.x0, b.x0), min(a.y1, b.y1) - max(a.y0, b.y0))  # pixels
            assert overlap <= 1, (one, two)
        assert not [one for one, box in words(figure) if box.x0 < 0 or box.x1 > figure.bbox.x1]
    finally:
        plt.close(figure)
