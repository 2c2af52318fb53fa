"""Every figure that a page's module draws has something in each panel, names its axes, and colors cells alike."""

import importlib
import re
from inspect import signature
from pathlib import Path

import matplotlib.pyplot as plt
import pytest
from matplotlib.collections import QuadMesh
from matplotlib.image import AxesImage
from samples import sample

from posenc.lab import pages
from posenc.lab.experiments.plots import AMOUNT, signed


def figures(name):
    r"""The module's own functions that draw a figure and need no arguments."""
    module = importlib.import_module(f"posenc.lab.pages.{name}")
    for function, value in sorted(vars(module).items()):
        if function.endswith("_figure") and value.__module__ == module.__name__:
            if all(parameter.default is not parameter.empty for parameter in signature(value).parameters.values()):
                yield function


MODULES = sorted(path.stem for path in Path(pages.__file__).parent.glob("[a-z]*.py"))
FIGURES = [(name, function) for name in MODULES for function in figures(name)]


@pytest.mark.parametrize("name, function", sample(FIGURES, every=3))  # the build draws them all
def test_a_figure_is_drawn(name, function):
    figure = getattr(importlib.import_module(f"posenc.lab.pages.{name}"), function)() or plt.gcf()
    try:
        figure.draw_without_rendering()
        for cells in (*figure.findobj(AxesImage), *figure.findobj(QuadMesh)):
            low, high = cells.get_clim()
            assert cells.get_cmap() == (signed() if low < 0 else plt.get_cmap(AMOUNT)) and low in (0, -high)
        panels = [axes for axes in figure.axes if axes.axison]
        assert any(axes.has_data() for axes in figure.axes) and all(axes.has_data() for axes in panels)
        for side in "xy":
            ticks = [tick.get_text() for axes in panels for tick in getattr(axes, f"get_{side}ticklabels")()]
            named = [getattr(axes, f"get_{side}label")() for axes in panels]
            named.append(getattr(figure, f"get_sup{side}label")())
            numbers = [tick for tick in ticks if re.fullmatch(r"[−.,]?\d[−\d.,]*", tick)]
            assert any(named) or not numbers, f"{side}: numbers {numbers[:3]} of what?"
    finally:
        plt.close(figure)
