r"""A still picture of an explorable, for where no script runs: GitHub, nbviewer, a notebook that is not trusted.

It draws with matplotlib what a figure of scatter, bar and heat-map traces says, in plain; the player draws the rest.
"""

import io
import re

import numpy as np

DASHES = {"solid": "-", "dash": "--", "dot": ":", "dashdot": "-.", "longdash": (0, (8, 3))}
DASHES["5px,3px"] = "--"
MARKERS = {"circle": "o", "square": "s", "diamond": "D", "x": "X", "cross": "P", "star": "*", "arrow": "^"}
MARKERS |= {"triangle-up": "^", "triangle-down": "v"}


def png(items: dict[str, dict], width: int, height: int) -> bytes:
    r"""What `figure_leaves` returns, as the bytes of a PNG for `width` by `height` pixels of a page.

    Errors: ValueError for a trace of another kind.
    """
    from matplotlib.figure import Figure

    layout = items["layout"]
    drawing, axes, legend = Figure(figsize=(width / 100, height / 100), dpi=120), {}, {}
    for name, trace in items.items():
        if name in ("layout", "readout") or trace.get("visible", True) is not True:
            continue
        kind = trace["type"]
        if kind not in DRAW:
            raise ValueError(f"trace {name!r} is of type {kind!r}; a still picture shows {', '.join(DRAW)}")
        where = trace.get("xaxis", "x"), trace.get("yaxis", "y")
        if where not in axes:
            axes[where] = _axes(drawing, layout, *where)
        handle = DRAW[kind](axes[where], trace, layout)
        if handle is not None and trace.get("showlegend", layout.get("showlegend", True)):
            legend.setdefault(trace.get("name", name), handle)
    if legend:
        drawing.legend(legend.values(), legend.keys(), loc="upper center", ncols=3, fontsize=7, frameon=False)
    out = io.BytesIO()
    drawing.savefig(out, format="png", facecolor="white")
    return out.getvalue()


def _axes(drawing, layout, x, y):
    """The axes where plotly's "x2", "y" stand, with their ranges, ticks and titles."""
    x, y = (f"{name[0]}axis{name[1:]}." for name in (x, y))
    (left, right), (low, high) = (layout.get(f"{axis}domain", (0.0, 1.0)) for axis in (x, y))
    ax = drawing.add_axes((0.1 + 0.88 * left, 0.14 + 0.7 * low, 0.88 * (right - left), 0.7 * (high - low)))
    ax.spines[["top", "right"]].set_visible(False)
    ax.tick_params(labelsize=7)
    for which, axis in (("x", x), ("y", y)):
        look = {key.removeprefix(axis): value for key, value in layout.items() if key.startswith(axis)}
        log = look.get("type") == "log"
        if log:
            getattr(ax, f"set_{which}scale")("log")
        if "range" in look:
            getattr(ax, f"set_{which}lim")(*(10.0 ** np.asarray(look["range"]) if log else look["range"]))
        if "tickvals" in look:
            words = list(map(_plain, look["ticktext"])) if "ticktext" in look else None
            getattr(ax, f"set_{which}ticks")(look["tickvals"], words)
        if look.get("showticklabels") is False:
            ax.tick_params(axis=which, **{"labelbottom" if which == "x" else "labelleft": False})
        if look.get("visible") is False:
            getattr(ax, f"{which}axis").set_visible(False)
        getattr(ax, f"set_{which}label")(_plain(look.get("title.text", "")), fontsize=8)
    if f"{y}scaleanchor" in layout:
        ax.set_aspect("equal", adjustable="box")
    return ax


def _scatter(ax, trace, layout):
    x, y, mode = trace.get("x", []), trace.get("y", []), trace.get("mode", "lines")
    count = min(len(x), len(y))  # one of them may be empty: the trace has nothing to show
    x, y = x[:count], y[:count]
    color = _color(trace.get("line.color", trace.get("marker.color", "#0072b2")))
    style = DASHES.get(trace.get("line.dash"), "-")
    handle = None
    if trace.get("fill") == "toself":
        (handle,) = ax.fill(x, y, color=_color(trace.get("fillcolor", color)), alpha=0.3, lw=0)
    if "lines" in mode:
        (handle,) = ax.plot(x, y, linestyle=style, color=color, lw=float(trace.get("line.width", 2)))
    if "markers" in mode and len(x):
        symbol, ink = str(trace.get("marker.symbol", "circle")), _color(trace.get("marker.color", color))
        look = {"facecolors": "none", "edgecolors": ink} if symbol.endswith("-open") else {"color": ink}
        marker = MARKERS.get(symbol.removesuffix("-open"), "o")
        size = np.asarray(trace.get("marker.size", 6), float)
        dots = ax.scatter(x, y, s=size**2 / 2, marker=marker, zorder=3, **look)
        handle = dots if handle is None else handle
    if "text" in mode:
        ink = trace.get("textfont.color", "#1f2933")
        inks = ink if isinstance(ink, list) else [ink] * len(x)
        for a, b, words, one in zip(x, y, trace.get("text", []), inks):
            ax.text(a, b, _plain(words), color=_color(one), fontsize=7, ha="center", va="center", clip_on=True)
    return handle


def _bar(ax, trace, layout):
    color = trace.get("marker.color", "#0072b2")
    color = [_color(c) for c in color] if isinstance(color, list) else _color(color)
    look = {"color": color, "edgecolor": _color(trace.get("marker.line.color", "none"))}
    if shape := trace.get("marker.pattern.shape"):
        hatch = 2 * shape if isinstance(shape, str) else [2 * own for own in shape]
        look |= {"hatch": hatch, "edgecolor": "white"}
    size = np.asarray(trace.get("width", 0.8), float).tolist()  # a plain number, where the places are words
    across = trace.get("orientation") == "h"
    length, place = (trace["x"], trace["y"]) if across else (trace["y"], trace["x"])
    base = np.asarray(trace.get("base", 0.0), float).tolist()
    if across:
        bars = ax.barh(place, length, height=size, left=base, **look)
    else:
        bars = ax.bar(place, length, width=size, bottom=base, **look)
    if isinstance(trace.get("text"), list):
        ax.bar_label(
            bars,
            [_plain(t) for t in trace["text"]],
            label_type="edge" if trace.get("textposition") == "outside" else "center",
            fontsize=7,
        )
    return bars


def _heatmap(ax, trace, layout):
    z = np.atleast_2d(trace["z"])
    scale = trace.get("colorscale", "Viridis")
    if isinstance(scale, str):
        cmap = scale.lower()
    else:
        from matplotlib.colors import LinearSegmentedColormap

        cmap = LinearSegmentedColormap.from_list("posenc", [(float(at), _color(c)) for at, c in scale])
    low, high = (None if key not in trace else float(trace[key]) for key in ("zmin", "zmax"))
    x, y = trace.get("x", np.arange(z.shape[1])), trace.get("y", np.arange(z.shape[0]))
    limits = ax.get_xlim(), ax.get_ylim(), ax.get_autoscale_on()
    mesh = ax.pcolormesh(x, y, np.ma.masked_invalid(z), cmap=cmap, vmin=low, vmax=high, shading="nearest")
    if not limits[2]:
        ax.set(xlim=limits[0], ylim=limits[1])
    if trace.get("showscale", True) is True:
        ax.figure.colorbar(mesh, ax=ax).ax.tick_params(labelsize=7)


DRAW = {"scatter": _scatter, "bar": _bar, "heatmap": _heatmap}


def _color(value):
    """A color of plotly's, such as rgba(0, 0, 0, 0.5), for matplotlib."""
    parts = re.fullmatch(r"rgba?\(([^)]*)\)", value) if isinstance(value, str) else None
    if parts is None:
        return value
    red, green, blue, *alpha = (float(part) for part in parts[1].split(","))
    return (red / 255, green / 255, blue / 255, *alpha)


def _plain(words):
    """Text without plotly's tags, its $ not mathematics."""
    return re.sub(r"<[^>]*>", "", str(words).replace("<br>", "\n")).replace("$", r"\$")
