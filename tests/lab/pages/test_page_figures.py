"""Every figure that a page's module draws has something in each of its panels, and says what its axes are."""

import importlib

import matplotlib.pyplot as plt
import pytest

FIGURES = [
    (name, function)
    for name in ("learned", "relative", "rope", "rope_closely", "scaling")
    for function in sorted(vars(importlib.import_module(f"posenc.lab.pages.{name}")))
    if function.endswith("_figure")
]


@pytest.mark.parametrize("name, function", FIGURES)
def test_a_figure_is_drawn(name, function):
    figure = getattr(importlib.import_module(f"posenc.lab.pages.{name}"), function)()
    try:
        panels = [axes for axes in figure.axes if axes.axison]
        assert panels and all(axes.has_data() for axes in panels)
        assert figure.get_supxlabel() or panels[-1].get_xlabel()
        assert figure.get_supylabel() or panels[0].get_ylabel() or function == "injected_figure", "its rows have names"
    finally:
        plt.close(figure)
