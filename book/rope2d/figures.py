r"""The explorables of the chapter *Two axes and more*."""

import functools
import math

import numpy
import torch
from matplotlib.cbook import get_sample_data
from PIL import Image

from posenc.lab.explore import COLORS, DIVERGING, explorable, slider
from posenc.lab.explore.parts import axis, dots, heat, held, label, line, number, path
from posenc.rotate.rope2d import angles, axial

REACH = 4  # rows and columns of the picture, to each side of the query
LANES = 8  # so two magnitudes, two pairs of lanes each
MIXED_BASE = 10.0  # of the frequencies, where mixed starts
ALL = "all four"
PAIRS = ["0", "1", ALL]  # the faster two, or the average of all


def frequencies(direction):
    """Frequencies [2, 4] of (row, column): axial ones, whose two axes are turned by some degrees."""
    a = math.radians(direction)
    frame = torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]], dtype=torch.float64)
    return frame @ axial(LANES, base=MIXED_BASE, dtype=torch.float64)


def score_map(pairs, direction, *, angles=angles):
    """cos of the angle between equal contents at each offset, of one pair or the mean of all: [2 REACH + 1] squared."""
    along = torch.arange(-REACH, REACH + 1)
    scores = angles(torch.cartesian_prod(along, along), frequencies(direction)).cos()
    scores = scores.mean(-1) if pairs == ALL else scores[:, int(pairs)]
    return scores.view(2 * REACH + 1, 2 * REACH + 1)


def _map(pairs, direction, *, angles=angles):
    z, curve = score_map(pairs, direction, angles=angles), list(range(-REACH, REACH + 1))
    spots = [(x, y) for y in (-REACH, 0, REACH) for x in (-REACH, 0, REACH) if x or y]
    far = [z[y + REACH, x + REACH].item() for x, y in spots]
    said, sizes = [f"<b>{number(one, 1)}</b>" for one in far], [18 if one > max(far) - 0.05 else 12 for one in far]
    data = [
        heat("score", curve, curve, z, zmin=-1, zmax=1, zmid=0, colorscale=DIVERGING, xgap=1, ygap=1, showscale=False),
        label("scores far off", *zip(*spots), said, "ink", "middle center", sizes, halo=True, cliponaxis=False),
    ]
    for n, (across, down) in enumerate(frequencies(direction).T[:2].flip(-1).tolist()):
        (x, y), lit = (2.6 * across, 2.6 * down), pairs in (str(n), ALL)
        beside = (x, y - 0.9, "middle center") if abs(across) > 0.8 else (x + 0.45, y, "middle right")
        ends, head = ([0, x], [0, y]) if lit else ([], []), dict(symbol="circle", size=[0, 16], opacity=1)
        data += [
            line(f"edge of pair {n}", *ends, "#f2f2f2", 10),
            path(f"pair {n}", *ends, "ink", 5, ("solid", "9px,4px")[n], marker=head),
            label(f"name of pair {n}", *beside[:2], f"<b>pair {n}</b><br>drag" * lit, "ink", beside[2], 14, halo=True),
        ]
    data.append(dots("the query", [0], [0], "ink", 20, "diamond", marker=dict(line=dict(color="#f2f2f2", width=2))))
    bare = dict(showgrid=False, zeroline=False, showticklabels=False, ticks="", constrain="domain")
    edge = REACH + 0.5
    layout = dict(height=440, showlegend=False, margin=dict(t=8, l=8, r=8, b=8))
    layout |= dict(xaxis=axis(-edge, edge, **bare), yaxis=axis(edge, -edge, scaleanchor="x", **bare))
    return dict(data=data, layout=layout)


map = explorable(
    _map,
    title="What a query sees around its patch",
    alt="A picture of nine by nine patches, the query in the middle. Its colors are the scores of the query with keys "
    "of equal content at every patch, printed at the corners and at the ends of its row and column, the highest "
    "larger. From the query a hand points where a pair turns, and can be dragged: one of the faster two, or both. "
    "A pair draws stripes across its hand; all four together draw a cross through the query, upright or turned.",
    see="Choose all four, or turn a hand: where are far scores high?",
    handles={"pair 0": "direction", "pair 1": "direction"},
    pairs=slider(PAIRS, label="pairs"),
    direction=slider(range(0, 46, 5), label="turned by", format=lambda d: f"{d}°" if d else "axial, 0°"),
)


TRAINED, SIDES = 6, (6, 8, 12, 16)  # patches on a side: of the training pictures, of the one that is asked for
BY_INDEX, NORMALIZED = "by index", "normalized"
DARK, LIGHT = "#101010", "#fafafa"  # in the dark too
PIXELS, GRAYS = 96, [[0, DARK], [1, LIGHT]]


@functools.cache
def portrait():
    """Grace Hopper, a photograph of the U.S. Navy that comes with Matplotlib: [PIXELS, PIXELS] of 0 .. 255."""
    with get_sample_data("grace_hopper.jpg") as file, Image.open(file) as image:
        return numpy.asarray(image.convert("L").resize((PIXELS, PIXELS), box=(96, 20, 416, 340)))


def _photo(asked, coordinates):
    size, step = PIXELS // asked, TRAINED / asked if coordinates == NORMALIZED else 1.0
    beyond = step * torch.arange(asked) > TRAINED - 1  # farther from the corner than training ever had
    veiled = beyond[:, None] | beyond
    middles = (torch.arange(asked) + 0.5) * size - 0.5
    seen, count = size * int((~beyond).sum()) - 0.5, int(veiled.sum())
    cuts = [cut * size - 0.5 for cut in range(asked + 1)]
    along = [part for cut in cuts for part in (cut, cut, None)]
    across = [part for _ in cuts for part in (-0.5, PIXELS - 0.5, None)]
    veil = dict(colorscale=[[0, COLORS["orange"]], [1, COLORS["orange"]]], showscale=False, opacity=0.72)
    corner, gone = PIXELS - size - 0.5, veiled.nonzero()
    data = [
        heat("photograph", list(range(PIXELS)), list(range(PIXELS)), portrait(), colorscale=GRAYS, showscale=False),
        heat("an offset that training never had", middles, middles, torch.where(veiled, 1.0, math.nan), **veil),
        dots("crosses", middles[gone[:, 1]], middles[gone[:, 0]], LIGHT, 5, "x"),
        line("cuts", [*along, *across], [*across, *along], LIGHT, 1),
        line("offsets of training", *_square((-0.5, -0.5), seen + 0.5), "sky", 6, cliponaxis=False),
        line("the query", *_square((-0.5, -0.5), size), "ink", 3, fill="toself", fillcolor="#f2f2f2"),
        label("its name", size / 2, size / 2, "<b>q</b>", "ink", "middle center", 16),
        held("corner of a patch", corner, corner, "green", "square", 15),
    ]
    bare = dict(showgrid=False, zeroline=False, showticklabels=False, ticks="", constrain="domain")
    axes = dict(xaxis=axis(-1.5, PIXELS + 0.5, **bare), yaxis=axis(PIXELS + 0.5, -13, scaleanchor="x", **bare))
    word = dict(showarrow=False, bgcolor=LIGHT, bordercolor=DARK, borderpad=5, opacity=0.95)
    said = dict(text=f"<b>{count} of {asked**2}</b> never trained", font=dict(size=20))
    notes = [dict(said, x=PIXELS / 2, y=-2.5, yanchor="bottom", showarrow=False)]
    notes.append(
        word | dict(x=corner - 2, y=corner, xanchor="right", text="drag: cut finer", font=dict(size=14, color=DARK))
    )
    layout = dict(height=440, showlegend=False, margin=dict(l=8, r=8, t=8, b=8), annotations=notes, **axes)
    return dict(data=data, layout=layout), {"beyond": count}


def _square(corner, size):
    x, y = corner
    return [x, x + size, x + size, x, x], [y, y, y + size, y + size, y]


photo = explorable(
    _photo,
    title="A picture cut finer than in training",
    alt="A photograph, cut into patches by a grid. The query is the patch q in the corner. A thick frame holds the "
    "patches that are no farther from it, in rows and in columns, than those of a training picture of six by six; an "
    "orange veil with crosses lies on all others. The corner of the last patch can be dragged to cut finer. "
    "By index the frame shrinks with the patches; normalized, it holds all but a thin edge.",
    see="Drag the green corner, and choose the coordinates: how much is never trained?",
    handles={"corner of a patch": "asked"},
    asked=slider(SIDES, label="patches on a side", default=12),
    coordinates=slider([BY_INDEX, NORMALIZED], label="coordinates"),
)
