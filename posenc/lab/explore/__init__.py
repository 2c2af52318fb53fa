r"""Explorables: figures that a reader takes in hand or moves with controls, without a kernel and without a network.

An explorable is one pure function of slider values that returns a plotly figure, and the values of each slider:

    from posenc.lab.explore import explorable, slider
    from posenc.lab.explore.parts import axis, path

    def _invariance(m, n, shift, base, pair):
        angle_q, angle_k = ...                                     # any torch or numpy code
        data = [path("query", [0, qx], [0, qy], "blue"), path("key", [0, kx], [0, ky], "orange", dash="dash")]
        layout = dict(xaxis=axis(-1.1, 1.1, "dimension 2i"), yaxis=axis(-1.1, 1.1), height=380)
        return dict(data=data, layout=layout), {"score": score}     # the second part is optional

    rotation_invariance = explorable(
        _invariance,
        id="rope.rotation_invariance",
        title="RoPE: two vectors turn, their score stays",
        alt="Two arrows of equal length. Moving the shift slider turns both by the same angle.",
        see="Drag either tip, then the shift: only one of them changes the score.",
        readout="score q·k = {score:.4f}",
        handles={"query": "m", "key": "n"},
        depends={  # only because it has 484,344 states: see below
            "query": [("m", "shift"), "base", "pair"],
            "key": [("n", "shift"), "base", "pair"],
            "readout": [("m", "-n"), "base", "pair"],
        },
        m=slider(range(0, 31), label="query position m", default=5),
        n=slider(range(0, 31), label="key position n", default=2),
        shift=slider(range(0, 21), label="shift of both", play=True),
        base=slider([1e2, 1e4, 1e6], label="base b", format=lambda v: f"{v:g}"),
        pair=range(0, 8),
    )

`rotation_invariance` lives in `book/rope/figures.py`, as its `id` says; without one it goes by the names of its
file and function. The chapter shows it by the directive ``{explorable} rope.rotation_invariance``, which evaluates the
function for every state when the book is built; a notebook shows it by `display(rotation_invariance)`, which evaluates
it when the cell runs. `make pictures` draws its static picture.

The function
    takes every slider by name and returns `figure` or `(figure, readouts)`.
    `figure` is a dict `{"data": [...], "layout": {...}}` with plotly's own attribute names (nested dicts:
    `marker=dict(color=...)`, not `marker_color`). Arrays may be lists, numpy arrays or torch tensors. `readouts` is a
    dict of numbers or strings. `path` and its like in `posenc.lab.explore.parts` write such traces.
    It has no state and no unseeded randomness: the same values give the same figure.
    Traces: `scatter`, `bar`, `heatmap` (what plotly's "cartesian" build draws). Every trace has a unique `name`, and
    the same names appear in every state; a trace that has nothing to show has empty arrays or `visible=False`. `name`
    labels the legend; if two traces must read alike there, give them `uid="..."`, which then stands for the name.
    Arrays may change their length between states. NaN is a gap. Infinities are refused.
    It may have further keyword-only parameters with defaults, such as `*, rotate=posenc.rope.rotate`, which
    `explorable.with_function(rotate=mine)` replaces: that is how a lab shows a student's own function.

Sliders
    `slider(values, label=, default=, format=)`, or just the values (label = name, default = first). Values are numbers,
    or strings for a choice. `format` gives the words shown and read aloud for a value, and takes the value.
    Strings, and numbers where there are at most four, are a row of buttons. A label is one line: at most 28 letters.
    `play=True` is for a sequence (training steps, blocks, a shift): a button steps through it. `at_most="heads"` keeps
    a slider's value at or below that of another. A control that changes nothing in a state is greyed: the player finds
    that out by itself, from equal arrays.

`see`
    is the line under the title: a dozen words on what to do and to watch, without the answer. `alt` is the description
    at length, which a screen reader says of the drawing, and paper shows.

`handles`
    maps the name of a scatter trace to the one or two sliders that its last point follows. The reader drags that point
    (of an upright or level line: any of it), and the figure takes the state whose point is nearest. Other controls and
    the ranges of the axes stay as they are meanwhile: an axis must not depend on a slider that a handle moves.

`readout`
    is at most three short chips, parted by " · ", that stand above the plot: "distance {d} · score {score:.3f}". A chip
    is at most some 40 letters in every state, and their lines on a phone are counted at the default state: words that
    grow longer elsewhere would move the plot.

States
    The function is called once for every combination of the sliders' values, at most 2,000 of them. Each trace, the
    layout (ranges, shapes, annotations, titles) and each readout is stored over the sliders that move it alone.

`depends`
    is for a figure of more states, whose traces each move with few sliders, or with sums of some. It maps the name of a
    trace to its sliders, as it does `"layout"`, `"readout"` (all readouts) and `"readout.<key>"`; what is not named is
    the same in every state. Each is computed for the combinations of its own sliders, at most 2,000 of them.
    A tuple of sliders inside the list says "depends on their sum only" (a name after the first may carry a minus sign:
    `("m", "-n")` is the difference). The trace is then stored over the distinct sums, and the function is called with
    the *first* slider set to the sum and the others to 0, even where these are not among the slider's values. A slider
    may stand in several sums, first in none: `[("m", "shift"), ("n", "shift")]`.
    The declaration is checked on seeded random states: a trace that moves with an undeclared slider is an error.

Size
    Numbers are stored in two bytes (one for small whole numbers), so that a state is off by less than 5e-4; wide ranges
    and log axes in four. Equal arrays are stored once. A page holds at most 300 kB of states: a heat map of 64 x 64 is
    11 kB a state, so declare few states for heat maps, or draw fewer cells.

Color
    `COLORS` (blue, orange, green, purple, sky, red, yellow, gray, ink) and `SEQUENTIAL`, `DIVERGING` for heat maps are
    readable on light and dark ground; the player swaps them with the theme. Leave fonts, background, template and grid
    alone. Do not tell things apart by color alone: use dashes (`line.dash`), marker symbols, text.
    Fix axis ranges (`xaxis.range`), or the drawing jumps while a slider moves. `layout.height` (default 360) is the
    most pixels that it takes; with its controls on one screen it gets what they leave: some 450, on a phone 300. What
    is to be otherwise on a narrow screen stands in `layout.meta["phone"]`: `dict(xaxis2=dict(domain=[0, 1]))`. The
    legend stands above the plot. Text takes plain Unicode (θ, ², ·), no `$...$`.
"""

from posenc.lab.explore.declaration import Explorable, explorable
from posenc.lab.explore.notebook import interact
from posenc.lab.explore.page import BROWSER_ARGS, COLORS, DIVERGING, SEQUENTIAL, STATIC, find_chromium
from posenc.lab.explore.sliders import slider

__all__ = ["BROWSER_ARGS", "COLORS", "DIVERGING", "Explorable", "SEQUENTIAL", "STATIC", "explorable", "find_chromium"]
__all__ += ["interact", "slider"]
