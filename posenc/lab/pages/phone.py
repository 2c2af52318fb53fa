r"""The plots of executed pages, drawn a second time for a narrow screen: fewer columns, and type that can be read.

The build starts its kernels with `install()`; each plot then carries a second drawing behind `MARK`, which the build
writes to a file of its own. A page that wants another layout there says so on the figure, after drawing it:
`figure.phone = {"columns": 2, "height": 5.0}`, the number of columns and inches, and how tall the rows are beside each
other: `"rows": [2, 1]`.
"""

import pickle
import textwrap

from posenc.lab.experiments.plots import NAME, part_names

WIDTH = 3.72  # inches: 357 pixels of CSS, what a phone 390 pixels wide leaves
TYPE = 0.78  # of the sizes of the wide drawing
PAD = 0.03  # inches around what is drawn, which constrained layout keeps 0.04 off the edge
SMALLEST = 9.0  # points: twelve pixels
LETTERS, ROW = 16, 22  # the most that a line of a name holds: of a drawn line, of a row
MARK = "\n<!-- for a narrow screen -->\n"


def install():
    r"""Let IPython print a figure as SVG in both layouts."""
    from IPython.core import pylabtools

    printed = pylabtools.print_figure

    def both(figure, fmt="png", **kwargs):
        wide = printed(figure, fmt, **kwargs)
        if fmt != "svg" or wide is None or figure.get_figwidth() <= WIDTH:
            return wide
        return wide + MARK + printed(narrow(figure), fmt, **kwargs | {"pad_inches": PAD})

    pylabtools.print_figure = both


def narrow(figure):
    r"""A copy of a figure, laid out for a narrow screen.

    figure: a matplotlib figure. Its attribute `phone`, where it has one, says how many "columns" of panels the copy has
    (default: its own for maps and panels of a fixed shape, else one), its "height" in inches and the shares of it that
    its "rows" have.
    Returns: the copy, `WIDTH` inches wide. The figure stays as it is.
    """
    import matplotlib.pyplot as plt
    from matplotlib.lines import Line2D
    from matplotlib.text import Text

    copy = pickle.loads(pickle.dumps(figure))
    plt.close(copy)  # a figure of pyplot comes back as one of pyplot
    for text in copy.findobj(Text):
        text.set_fontsize(max(SMALLEST, TYPE * text.get_fontsize()))
        if text.get_gid() == NAME:
            text.set_text(folded(text.get_text(), LETTERS))
    for line in copy.findobj(Line2D):
        line.set(markersize=TYPE * line.get_markersize(), linewidth=TYPE * line.get_linewidth())
    wish = getattr(figure, "phone", {})
    copy.set_size_inches(WIDTH, wish.get("height", stacked(copy, wish.get("columns"), wish.get("rows"))))
    for legend in list(copy.legends):
        refit(legend, copy)
    for axes in copy.axes:
        fold(axes.yaxis, ROW)
    copy.draw_without_rendering()
    for axes in copy.axes:
        part_labels(axes)
    part_names(copy)
    return copy


def stacked(figure, columns: int | None, shares: list[float] | None) -> float:
    r"""Deal the panels into so many columns, rows of these shares. Returns: the inches high that they want to be."""
    panels = [axes for axes in figure.axes if axes.get_subplotspec() is not None]
    width, height = figure.get_size_inches()
    shrunk = height * WIDTH / width
    if not panels:
        return shrunk
    down, across = panels[0].get_gridspec().get_geometry()
    maps, shaped = any(axes.images for axes in panels), any(axes.get_aspect() != "auto" for axes in panels)
    columns = columns or (across if maps or shaped else 1)
    rows = -(-len(panels) // columns) if columns < across else down
    if columns < across:
        grid, first = figure.add_gridspec(rows, columns, height_ratios=shares), panels[0]
        for i, axes in enumerate(panels):
            axes.set_subplotspec(grid[i // columns, i % columns])
            if i % columns == 0:
                axes.tick_params(labelleft=True)
                if axes.get_shared_y_axes().joined(axes, first) and not axes.get_ylabel():
                    axes.set_ylabel(first.get_ylabel())
    if maps or shaped:
        return 1.1 * shrunk * rows / down * across / columns
    return 0.76 * height * rows / down


def refit(legend, figure) -> None:
    r"""Draw a figure's legend again below the panels, in as many columns as fit."""
    labeled = {}
    for axes in figure.axes:
        for handle, name in zip(*axes.get_legend_handles_labels()):
            labeled.setdefault(name, handle)
    names = [text.get_text() for text in legend.get_texts()]
    style = {"fontsize": legend.get_texts()[0].get_fontsize(), "frameon": False, "loc": "outside lower center"}
    legend.remove()
    for columns in range(len(names), 0, -1):
        new = figure.legend([labeled[name] for name in names], names, ncols=columns, **style)
        if columns == 1 or new.get_window_extent().width < WIDTH * figure.dpi:
            return
        new.remove()


def part_labels(axes) -> None:
    r"""Break the labels of the lower axis where they run into each other; if they still do, turn them."""
    if meet(axes):
        fold(axes.xaxis, LETTERS // 2)
    if meet(axes):
        for label in axes.get_xticklabels():
            label.set(rotation=40, ha="right", rotation_mode="anchor")


def meet(axes) -> bool:
    r"""Whether two labels of the lower axis touch."""
    labels = [label for label in axes.get_xticklabels() if label.get_visible() and label.get_text()]
    boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: box.x0)
    return any(right.x0 < left.x1 + 4 for left, right in zip(boxes, boxes[1:]))


def fold(axis, letters: int) -> None:
    r"""Break the words that label an axis into lines of so many letters; numbers stay."""
    from matplotlib.ticker import FuncFormatter

    if isinstance(axis.get_major_formatter(), FuncFormatter):
        places = axis.get_majorticklocs()
        words = axis.get_major_formatter().format_ticks(places)
        axis.set_ticks(places, [folded(str(text), letters) for text in words])


def folded(text: str, letters: int) -> str:
    r"""The text in lines of at most so many letters, its own lines kept."""
    return "\n".join(textwrap.fill(line, letters, break_long_words=False) for line in text.split("\n"))
