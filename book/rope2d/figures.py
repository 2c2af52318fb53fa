r"""The explorables of the chapter *Two axes and more*."""

import functools
import math

import numpy
import torch
from matplotlib.cbook import get_sample_data
from PIL import Image

from posenc.lab.explore import DIVERGING, explorable, slider
from posenc.lab.explore.parts import axis, dots, heat, held, label, line, path
from posenc.rotate.rope2d import angles, axial

SIDE = 9  # rows and columns of the picture
LANES = 8  # so two magnitudes, two pairs of lanes each
MIXED_BASE = 10.0  # of the frequencies, where mixed starts
DIRECTIONS = range(0, 91, 9)  # degrees
ALL = "all, averaged"
RADIAN = 2.0  # patches, how long an arrow is for a turn by one
PAIRS = [f"pair {i}" for i in range(LANES // 2)] + [ALL]


def frequencies(direction):
    """Frequencies [2, 4] of (row, column): axial ones, whose two axes are turned by some degrees."""
    a = math.radians(direction)
    frame = torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]], dtype=torch.float64)
    return frame @ axial(LANES, base=MIXED_BASE, dtype=torch.float64)


def score_map(pairs, direction, *, angles=angles):
    """cos of the angle between equal contents at each offset, of one pair or the mean of all: [2 side - 1] squared."""
    along = torch.arange(1 - SIDE, SIDE)
    scores = angles(torch.cartesian_prod(along, along), frequencies(direction)).cos()
    scores = scores.mean(-1) if pairs == ALL else scores[:, PAIRS.index(pairs)]
    return scores.view(2 * SIDE - 1, 2 * SIDE - 1)


def _beside(turn):
    """Where the number of a pair stands, beside its arrow in the drawing: across, down."""
    down, across = turn
    if math.hypot(*turn) > 0.5:
        return 1.22 * across, 1.22 * down
    return 1.2 * across + 0.9 * down, 1.2 * down - 0.9 * across  # off its tip


def _map(row, column, pairs, direction, *, angles=angles):
    z = score_map(pairs, direction, angles=angles)
    curve = list(range(1 - SIDE, SIDE))
    diagonals = {"↖": -1, "↙": 1}  # at the side that has no arrows
    turns = frequencies(direction).T.tolist()  # of each pair: a row, a column
    there = "row %{y}, column %{x}: score %{z:.2f}<extra></extra>"
    bar = dict(x=0.88, xpad=0, y=1, yanchor="top", len=0.7, title=dict(text="score", side="top"), tickvals=[-1, 0, 1])
    colors = dict(zmin=-1, zmax=1, zmid=0, colorscale=DIVERGING, xgap=1, ygap=1, colorbar=bar)

    def place(across, down):
        return column + RADIAN * across, row + RADIAN * down

    def arrow(name, turn, color, width, **look):
        head = dict(symbol="arrow", angleref="previous", size=[0, 9 + 1.5 * width], color=color, opacity=1)
        return path(name, *zip((column, row), place(*turn[::-1])), color, width, marker=head, **look)

    widths = [4 if pairs in (name, ALL) else 1.5 for name in PAIRS[:-1]]
    number = dict(place="middle center", halo=True, cliponaxis=False)
    data = [
        heat("score", [column + d for d in curve], [row + d for d in curve], z, hover=there, **colors),
        label(
            "its neighbors on the two diagonals",
            *([column - 1] * 2, [row + step for step in diagonals.values()]),
            *([f"<b>{way}</b>" for way in diagonals], "ink", "middle center", 20),
        ),
        *(arrow(f"edge of {name}", turn, "#f2f2f2", width + 3) for name, width, turn in zip(PAIRS, widths, turns)),
        *(arrow(f"how {name} turns", turn, "ink", width) for name, width, turn in zip(PAIRS, widths, turns)),
        *(  # a pair's number: of a long arrow beyond the tip, in the ring; of a short one beside it
            label(f"the number of {name}", *place(*_beside(turn)), f"<b>{n}</b>", "ink", **number)
            for n, (name, turn) in enumerate(zip(PAIRS[:-1], turns))
        ),
        dots("the query", [column], [row], "ink", 15, "diamond", marker=dict(line=dict(color="#f2f2f2", width=2))),
    ]
    ticks = dict(tickvals=list(range(SIDE)), showgrid=False, zeroline=False, constrain="domain")
    note = dict(showarrow=False, align="left", x=0, xref="paper", yref="paper", xanchor="left")
    note |= dict(text="arrow of a pair: how far<br>it turns for a step that way;<br>its stripes lie across it")
    layout = dict(
        height=450,
        showlegend=False,
        margin=dict(t=8),
        xaxis=axis(-0.5, SIDE - 0.5, "column", domain=[0, 0.86], constraintoward="right", **ticks),
        yaxis=axis(SIDE - 0.5, -0.5, "row", scaleanchor="x", constraintoward="top", **ticks),
        annotations=[note | dict(y=1, yanchor="top")],
        meta=dict(phone=dict(annotations=[note | dict(y=0, yanchor="bottom")], margin=dict(t=8, b=8))),
    )
    at = {way: z[SIDE - 1 + step, SIDE - 2].item() for way, step in diagonals.items()}
    return dict(data=data, layout=layout), {"up": at["↖"], "down": at["↙"]}


map = explorable(
    _map,
    title="What a query sees from its patch",
    alt="A picture of nine by nine patches. Its colors are the scores of one query with keys of equal content at "
    "every patch, from minus one to one. A pair that turns along one axis draws stripes along the other one; a "
    "turned pair draws oblique stripes; all pairs together draw a cross through the query, upright or turned. "
    "From the query leads an arrow for each pair: how far it turns for a row, downward, and for a column, across. "
    "Stripes lie across the arrow. Drag the diamond, the query, or the number at a long arrow.",
    readout="score on ↖ {up:+.2f} · on ↙ {down:+.2f}",
    handles={"the query": ("row", "column"), "the number of pair 0": "direction", "the number of pair 1": "direction"},
    row=slider(range(2, SIDE - 2), label="row of the query", default=4),
    column=slider(range(1, SIDE - 2), label="column of the query", default=4),
    pairs=slider(PAIRS, label="pair", default=PAIRS[0], format=lambda name: {ALL: "all"}.get(name, name[-1])),
    direction=slider(DIRECTIONS, label="turned by", default=45, format=lambda d: f"{d}°" if d % 90 else f"axial, {d}°"),
)


TRAINED, SIDES = 6, (6, 8, 12, 16)  # patches on a side: of the training pictures, of the one that is asked for
BY_INDEX, NORMALIZED = "by index", "normalized"
PIXELS, GRAYS = 96, [[0, "#101010"], [1, "#fafafa"]]  # in the dark too


@functools.cache
def portrait():
    """Grace Hopper, a photograph of the U.S. Navy that comes with Matplotlib: [PIXELS, PIXELS] of 0 .. 255."""
    with get_sample_data("grace_hopper.jpg") as file, Image.open(file) as image:
        return numpy.asarray(image.convert("L").resize((PIXELS, PIXELS), box=(96, 20, 416, 340)))


def _photo(asked, coordinates, row, column):
    size = PIXELS // asked
    scale = TRAINED / asked if coordinates == NORMALIZED else 1.0
    here = torch.tensor([row // size, column // size])
    patches = torch.cartesian_prod(torch.arange(asked), torch.arange(asked))
    beyond = (scale * (patches - here).abs() > TRAINED - 1).any(-1)  # in rows or in columns
    y, x = ((patches + 0.5) * size - 0.5).unbind(-1)
    cuts = [cut * size - 0.5 for cut in range(asked + 1)]
    along = [part for cut in cuts for part in (cut, cut, None)]
    across = [part for _ in cuts for part in (-0.5, PIXELS - 0.5, None)]
    ids = [f"{r:g}, {c:g}" for r, c in (patches * scale).tolist()]
    told = dict(hover="ids %{text}", text=ids, opacity=0)
    new = beyond.nonzero().flatten().tolist()
    corner = (here.flip(-1) * size - 0.5).tolist()
    data = [
        heat("photograph", list(range(PIXELS)), list(range(PIXELS)), portrait(), colorscale=GRAYS, showscale=False),
        line("cuts", [*along, *across], [*across, *along], "#f2f2f2", 1),
        dots("each patch", x, y, "gray", size, "square", **told),
        dots("an offset that training never had", x[new], y[new], "orange", 11, "x", marker=dict(line=dict(width=1))),
        line("the query", *_square(corner, size), "sky", 4),
        held("its middle", corner[0] + size / 2, corner[1] + size / 2, "sky", "circle", 12),
        held("corner of a patch", *[PIXELS - size - 0.5] * 2, "green", "square", 11),
    ]
    bare = dict(showgrid=False, zeroline=False, showticklabels=False, ticks="", constrain="domain")
    axes = dict(xaxis=axis(-1.5, PIXELS + 0.5, **bare), yaxis=axis(PIXELS + 0.5, -1.5, scaleanchor="x", **bare))
    layout = dict(height=410, showlegend=False, margin=dict(l=8, r=8, t=8, b=8), **axes)
    found = {
        "beyond": len(new),
        "all": len(patches),
        "row": (here[0] * scale).item(),
        "column": (here[1] * scale).item(),
    }
    return dict(data=data, layout=layout), found


def _square(corner, size):
    x, y = corner
    return [x, x + size, x + size, x, x], [y, y, y + size, y + size, y]


photo = explorable(
    _photo,
    title="A picture cut finer than in training",
    alt="A photograph, cut into patches by a grid. The query is a framed patch, which can be dragged. A cross lies on "
    "each patch that is farther from it, in rows or in columns, than two patches of a training picture of six by six "
    "ever were. The corner of the last patch can be dragged to cut finer. By index crosses fill all that is more than "
    "five patches away; normalized, coordinates are shrunk to the old range and few are left, at the far edges.",
    readout="✖ {beyond:d} of {all:d} at new offsets · query at {row:.3g}, {column:.3g}",
    handles={"its middle": ("row", "column"), "corner of a patch": "asked"},
    asked=slider(SIDES, label="patches on a side", default=12),
    coordinates=slider([BY_INDEX, NORMALIZED], label="coordinates"),
    row=slider(range(0, PIXELS, 8), label="query, pixels down"),
    column=slider(range(0, PIXELS, 8), label="query, pixels right"),
)
