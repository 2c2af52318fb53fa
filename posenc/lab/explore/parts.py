r"""The verbs of a drawing, and what the drawings of several chapters share.

A trace is `line`, `dots`, `path` (a line with marks on it), `bars`, `heat` or `label`; `axis` says where it stands. A
color goes by its name in `COLORS`, or as CSS has it. `hover` is plotly's template for what stands at the pointer, less
the `<extra></extra>` that hides a trace's name: without it nothing does, with True plotly's own words. `panel=2` puts a
trace on the axes x2 and y2. All other arguments, and what `line=` or `marker=` adds to the look, go to plotly under its
own names.
"""

import math

from posenc.lab.explore import COLORS

#: Round the letters, the ground of the picture; on a page `player.css` takes the page's own.
HALO = "0 0 3px #fff"


def line(name, x, y, color=None, width=None, dash=None, *, line=None, **more):
    r"""A line through the points."""
    return _trace("scatter", name, x, y, mode="lines", line=_look(line, color=color, width=width, dash=dash), **more)


def path(name, x, y, color=None, width=None, dash=None, *, line=None, marker=None, **more):
    r"""A line with marks on its points, which `marker=` describes."""
    look = dict(line=_look(line, color=color, width=width, dash=dash), marker=_look(marker))
    return _trace("scatter", name, x, y, mode="lines+markers", **look, **more)


def dots(name, x, y, color=None, size=None, symbol=None, *, marker=None, **more):
    r"""A mark at each point."""
    look = _look(marker, color=color, size=size, symbol=symbol)
    return _trace("scatter", name, x, y, mode="markers", marker=look, **more)


def bars(name, x, y, color=None, *, marker=None, **more):
    r"""Bars; `orientation="h"` lays them."""
    return _trace("bar", name, x, y, marker=_look(marker, color=color), **more)


def heat(name, x, y, z, **more):
    r"""A cell for each number of z [len(y), len(x)]."""
    return _trace("heatmap", name, x, y, z=z, **more)


def axis(low, high, title=None, **more):
    r"""An axis from low to high, in powers of ten where `type="log"`."""
    return dict(range=[low, high], **({} if title is None else dict(title=_title(title))), **more)


def _title(title):
    return dict(text=title) if isinstance(title, str) else title


def _trace(kind, name, x, y, *, hover=None, panel=1, **look):
    trace = dict(type=kind, name=name, x=x, y=y, **look)
    if hover is None:
        trace["hoverinfo"] = "skip"
    elif hover is not True:
        trace["hovertemplate"] = hover if hover.endswith("<extra></extra>") else f"{hover}<extra></extra>"
    return trace if panel == 1 else trace | dict(xaxis=f"x{panel}", yaxis=f"y{panel}")


def _look(more, **parts):
    look = {key: part for key, part in parts.items() if part is not None} | (more or {})
    return look | dict(color=_color(look["color"])) if "color" in look else look


def _color(color):
    if isinstance(color, list):
        return [_color(own) for own in color]
    return COLORS.get(color, color) if isinstance(color, str) else color


def label(name, x, y, text, color, place="top center", size=13, halo=False, **more):
    r"""Words that stand in a drawing, beside what they name: a trace without a mark. A halo parts them from lines."""
    x, y, text = ([x], [y], [text]) if isinstance(text, str) else (x, y, text)
    font = dict(size=size, color=_color(color), **(dict(shadow=HALO) if halo else {}))
    look = dict(mode="text", text=text, textposition=place, textfont=font)
    return _trace("scatter", name, x, y, **look, showlegend=False, **more)


def upright(name, x, low, high, color="blue", width=3, dash="solid", **more):
    r"""An upright line, such as the one at the query's position: a handle that is held anywhere."""
    return line(name, [x, x], [low, high], color, width, dash, showlegend=False, **more)


def level(name, y, left, right, color="blue", width=3, dash="solid", **more):
    r"""A level line: a handle that is held anywhere."""
    return line(name, [left, right], [y, y], color, width, dash, showlegend=False, **more)


def pin(name, x, low, high, color="ink", width=2, dash="solid", **more):
    r"""An upright line under a triangle, its handle."""
    head = dict(symbol="triangle-down", size=[0, 15], color=color, opacity=1)
    return path(name, [x, x], [low, high], color, width, dash, marker=head, showlegend=False, **more)


def arrow(name, tip, color, width=3, dash="solid", **more):
    r"""An arrow from the origin to a tip (x, y)."""
    x, y = (float(part) for part in tip)
    head = dict(symbol="arrow", angleref="previous", size=[0, 4 * width], color=color, opacity=1)
    return path(name, [0, x], [0, y], color, width, dash, marker=head, showlegend=False, **more)


def held(name, x, y, color="ink", symbol="diamond", size=13, **more):
    r"""A mark to take in hand, with an edge of ink."""
    edge = dict(line=dict(color=COLORS["ink"], width=2))
    return dots(name, [x], [y], color, size, symbol, marker=edge, cliponaxis=False, showlegend=False, **more)


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
