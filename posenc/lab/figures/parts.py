r"""What the drawings of several chapters share: words beside a mark, lines to take in hand, numbers in words."""

import math

from posenc.lab.explore import COLORS


def label(name, x, y, text, color, place="top center", **axes):
    r"""Words that stand in a drawing, beside what they name: a trace without a mark."""
    return dict(
        type="scatter",
        name=name,
        mode="text",
        x=[x] if isinstance(text, str) else x,
        y=[y] if isinstance(text, str) else y,
        text=[text] if isinstance(text, str) else text,
        textposition=place,
        textfont=dict(size=13, color=color),
        hoverinfo="skip",
        showlegend=False,
        **axes,
    )


def upright(name, x, low, high, color=COLORS["blue"], width=3, dash="solid", **axes):
    r"""An upright line, such as the one at the query's position: a handle that is held anywhere."""
    return _line(name, [x, x], [low, high], dict(color=color, width=width, dash=dash), axes)


def level(name, y, left, right, color=COLORS["blue"], width=3, dash="solid", **axes):
    r"""A level line: a handle that is held anywhere."""
    return _line(name, [left, right], [y, y], dict(color=color, width=width, dash=dash), axes)


def pin(name, x, low, high, color=COLORS["ink"], width=2, dash="solid", **axes):
    r"""An upright line under a triangle, its handle."""
    line = _line(name, [x, x], [low, high], dict(color=color, width=width, dash=dash), axes)
    return line | dict(mode="lines+markers", marker=dict(symbol="triangle-down", size=[0, 15], color=color, opacity=1))


def arrow(name, tip, color, width=3, dash="solid", **axes):
    r"""An arrow from the origin to a tip (x, y)."""
    x, y = (float(part) for part in tip)
    line = _line(name, [0, x], [0, y], dict(color=color, width=width, dash=dash), axes)
    head = dict(symbol="arrow", angleref="previous", size=[0, 4 * width], color=color, opacity=1)
    return line | dict(mode="lines+markers", marker=head)


def _line(name, x, y, line, axes):
    look = dict(type="scatter", mode="lines", hoverinfo="skip", showlegend=False)
    return dict(name=name, x=x, y=y, line=line, **look, **axes)


def held(name, x, y, color=COLORS["ink"], symbol="diamond", size=13, **axes):
    r"""A mark to take in hand, with an edge of ink."""
    return dict(
        type="scatter",
        name=name,
        mode="markers",
        x=[x],
        y=[y],
        marker=dict(symbol=symbol, size=size, color=color, line=dict(color=COLORS["ink"], width=2)),
        cliponaxis=False,
        hoverinfo="skip",
        showlegend=False,
        **axes,
    )


def number(value, digits=2):
    r"""A number for a readout: thousands separated, a true minus sign, none before a zero, a dash for nan."""
    if math.isnan(value):
        return "–"
    return f"{round(float(value), digits) + 0.0:,.{digits}f}".replace("-", "−")


def signed(value, digits=0):
    r"""A number with its sign, a true minus, and none before a zero."""
    rounded = round(float(value), digits) + 0.0
    return f"{rounded:+.{digits}f}".replace("-", "−") if rounded else f"{0:.{digits}f}"


def thousands(value):
    return f"{value:,.0f}"
