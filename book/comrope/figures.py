r"""The explorables of the chapter *Rotations that commute*."""

import functools
import math

import torch

from posenc.lab.explore import COLORS, DIVERGING, explorable, slider
from posenc.lab.explore.parts import axis, dots, heat, held, label, level, line, path, signed
from posenc.rotate.liere import rotation

# ------------------------------------------------------------------------------------------------ two walks on a sphere

STEP = 0.35  # radians that a block turns for a step of one axis
VECTOR = (0.8, 0.0, 0.6)  # where the walks start: a vector of length 1 in a block of three lanes
QUERY, KEY = (0.6, 0.0, 0.8), (0.8, 0.6, 0.0)  # contents whose score is drawn
SHIFTS = 12  # rows by which both tokens move
ARC = 13  # points of an arc: with fewer a walk has corners


def about(axis):
    r"""The skew-symmetric [3, 3] whose exponential turns about `axis`, by its length in radians: S v = axis x v."""
    x, y, z = axis
    return torch.tensor([[0, -z, y], [z, 0, -x], [-y, x, 0]], dtype=torch.float64)


@functools.cache
def generators(degrees):
    r"""[2, 1, 3, 3]: row steps turn about one axis, column steps about another, so many degrees apart."""
    angle = math.radians(degrees)
    return torch.stack((about((0, 0, STEP)), about((STEP * math.sin(angle), 0, STEP * math.cos(angle)))))[:, None]


def turned(vector, positions, degrees):
    r"""R(p) v [T, 3] of positions [T, 2], floats."""
    return rotation(positions, generators(degrees))[:, 0] @ torch.tensor(vector, dtype=torch.float64)


@functools.cache
def walk(rows, columns, degrees, rows_first):
    r"""The way [2 ARC - 1, 3] of the vector that turns by one coordinate, then by the other."""
    part = torch.linspace(0, 1, ARC, dtype=torch.float64)[:, None]
    ends = torch.tensor([[rows, 0], [0, columns]], dtype=torch.float64)
    first, second = (rotation(part * end, generators(degrees))[:, 0] for end in (ends if rows_first else ends.flip(0)))
    way = first @ torch.tensor(VECTOR, dtype=torch.float64)
    return torch.cat((way, (second @ way[-1])[1:]))


@functools.cache
def scores(rows, columns, degrees):
    r"""Score of a query and the key `rows` down and `columns` right, both moved down: [4 SHIFTS + 1]."""
    moved = torch.arange(0, SHIFTS + 0.25, 0.25, dtype=torch.float64)[:, None] * torch.tensor([1, 0])
    offset = torch.tensor([rows, columns], dtype=torch.float64)
    return (turned(QUERY, moved, degrees) * turned(KEY, moved + offset, degrees)).sum(-1)


VIEW, TILT = math.radians(60), math.radians(13)  # from where the sphere is seen: around, and above its equator


def _flat(way):
    """The points [T, 3] as they are seen: across, up, and towards the eye."""
    across = -math.sin(VIEW) * way[:, 0] + math.cos(VIEW) * way[:, 1]
    near = math.cos(VIEW) * way[:, 0] + math.sin(VIEW) * way[:, 1]
    up = math.cos(TILT) * way[:, 2] - math.sin(TILT) * near
    return across, up, math.cos(TILT) * near + math.sin(TILT) * way[:, 2]


def _way(name, way, color, dash, symbol):
    x, y, _ = _flat(way)
    before, rim = len(way) - 1, dict(width=3, color=COLORS[color])
    end = dict(symbol=symbol, size=[1] * before + [14], opacity=[0] * before + [1], color=color, line=rim)
    return path(name, x, y, color, 3, dash, marker=end, cliponaxis=False)


@functools.cache
def _globe():
    """Outline and the near halves of circles of latitude and meridians, as one line with gaps."""
    around = torch.linspace(0, 2 * math.pi, 73, dtype=torch.float64)
    cos, sin, one = around.cos(), around.sin(), torch.ones_like(around)
    latitudes, longitudes = ([math.radians(a) for a in range(*ends, 30)] for ends in ((-60, 90), (0, 180)))
    rings = [torch.stack((math.cos(a) * cos, math.cos(a) * sin, math.sin(a) * one), -1) for a in latitudes]
    rings += [torch.stack((cos * math.cos(a), cos * math.sin(a), sin), -1) for a in longitudes]
    lines = [torch.stack((cos, sin), -1)]
    for ring in rings:
        x, y, near = _flat(ring)
        lines += [torch.full((1, 2), math.nan), torch.stack((x, y), -1).masked_fill(near[:, None] < 0, math.nan)]
    return torch.cat(lines)


def _axis(name, color, dash, degrees):
    """What a block turns about, drawn from one pole out of the sphere, with its name."""
    pole = torch.tensor([[math.sin(math.radians(degrees)), 0, math.cos(math.radians(degrees))]])
    x, y, _ = _flat(torch.cat((pole, 1.35 * pole)))
    side, raised = ("right", "") if name == "rows" else ("center", "<br> ")  # clear of the handle's ring
    marker = dict(size=[1, 9], opacity=[0, 1], color=color)
    words = dict(text=["", name + raised], textposition=f"top {side}")
    look = dict(textfont=dict(color=COLORS[color], size=12), cliponaxis=False, showlegend=False)
    trace = path(f"axis of the {name}", x, y, color, 3, dash, marker=marker, **words, **look)
    return trace | dict(mode="lines+markers+text")


def _commute(degrees, rows, columns, shift):
    down, right = (walk(rows, columns, degrees, first) for first in (True, False))
    curve, globe = scores(rows, columns, degrees), _globe()
    x, y, _ = _flat(turned(VECTOR, torch.tensor([[rows, columns]], dtype=torch.float64), degrees))
    moves, moved = torch.arange(0, SHIFTS + 0.25, 0.25), "both moved %{x} rows: score %{y:.3f}<extra></extra>"
    words = dict(mode="lines+text", text=["", "at the start"], textposition="bottom left", textfont=dict(size=12))
    filled = dict(fill="tonexty", fillcolor="rgba(0, 128, 90, 0.15)", showlegend=False)
    data = [
        line("sphere", globe[:, 0], globe[:, 1], "gray", 0.7, showlegend=False),
        _axis("rows", "blue", "solid", 0),
        _axis("columns", "orange", "dot", degrees),
        _way("rows first", down, "blue", "solid", "circle-open"),
        _way("columns first", right, "orange", "dash", "square-open"),
        dots("at once", x, y, "ink", 9, "x"),
        level("score at the start", curve[0].item(), 0, SHIFTS, "gray", 1.5, "dot", panel=2) | words,
        line("score of one pair, both tokens moved", moves, curve, "green", 3, hover=moved, panel=2, **filled),
        held("score now", shift, curve[4 * shift].item(), "green", size=15, xaxis="x2", yaxis="y2"),
    ]
    phone = dict(
        xaxis=axis(-1.4, 1.1, domain=[0, 1]),
        yaxis=axis(-0.18, 1.44, domain=[0.4, 1]),
        xaxis2=dict(domain=[0, 1], title=dict(text="score, by rows both moved", standoff=4)),
        yaxis2=dict(domain=[0, 0.38], title=dict(text=""), ticklabelposition="inside top"),
        margin=dict(t=30, l=8, r=8, b=36),
    )
    layout = dict(
        height=430,
        xaxis=axis(-1.4, 1.4, visible=False, domain=[0, 0.58], constrain="domain"),
        yaxis=axis(-0.2, 1.45, visible=False, scaleanchor="x"),  # no walk leads below
        xaxis2=axis(-2.2, SHIFTS + 0.6, "rows both moved", domain=[0.7, 1], anchor="y2", tickvals=[0, 4, 8, 12]),
        yaxis2=axis(-0.82, 1.08, "score", anchor="x2", tickvals=[-0.5, 0, 0.5, 1]),
        meta=dict(phone=phone),
    )
    return dict(data=data, layout=layout), {
        "apart": (down[-1] - right[-1]).norm().item(),
        "score": signed(curve[4 * shift], 3),
        "off": (curve - curve[0]).abs().max().item(),
    }


commute = explorable(
    _commute,
    title="Two walks, and a pair that moves",
    alt="The upper part of a globe. From one point two walks start: a solid one turns by the rows first and then by "
    "the columns, a dashed one the other way round; a cross shows where both at once lead. The solid walk's end "
    "can be dragged, which makes both longer or shorter. Two spokes outside the globe are the axes of turning; the "
    "dotted one, of the columns, can be dragged too. Beside or below, the score of a query and a key whose offset "
    "stays, against the rows that both have moved: level where the two axes are one, wavy where they are apart. "
    "The diamond can be dragged along it; the last number is the largest change that moving both makes.",
    readout="walks end {apart:.2f} apart · score {score} · changes by up to {off:.3f}",
    handles={"axis of the columns": "degrees", "score now": "shift", "rows first": ("rows", "columns")},
    degrees=slider([0, 5, 15, 30, 60, 90], label="angle between the axes", default=30, format=lambda d: f"{d}°"),
    rows=slider(range(5), label="rows, query to key", default=3),
    columns=slider(range(5), label="columns, query to key", default=4),
    shift=slider(range(SHIFTS + 1), label="rows both moved", default=0, play=True),
)

# --------------------------------------------------------------------------------------------- what a block is blind to

GRID = 7  # rows and columns of patches
CENTER = 3  # where the query stands, in both
FAST, SLOW = 1.1, 0.45  # radians that the two planes of a block turn for each unit that it sees
#: degrees from straight down: (row, column)
DIRECTIONS = {0: (1, 0), 27: (2, 1), 45: (1, 1), 63: (1, 2), 90: (0, 1), 117: (-1, 2), 135: (-1, 1), 153: (-2, 1)}
ONE, TWO, PARTITION = "1 of LD", "2 of LD", "2 of AP"
FINE = 43  # points of the map, a side
ARROW = 1.6  # patches, how long theta is drawn


def normals(form, direction):
    r"""theta [n, m] of the blocks, unit vectors: the direction; for LD's second block it is turned by 60 degrees."""
    row, column = DIRECTIONS[direction]
    angle = math.atan2(column, row)
    angles = {ONE: [angle], TWO: [angle, angle + math.pi / 3], PARTITION: [0, math.pi / 2]}[form]
    return torch.tensor([[math.cos(a) for a in angles], [math.sin(a) for a in angles]], dtype=torch.float64)


def likeness(form, direction, positions):
    r"""Score of a query at the center with a key of its own content at positions [T, 2], from -1 to 1."""
    quarter = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    block = torch.block_diag(FAST * quarter, SLOW * quarter)
    q = torch.full((4,), 0.5, dtype=torch.float64)  # in each block; of length 1
    blocks = normals(form, direction)[..., None, None] * block  # [n, m, 4, 4]
    center = torch.full((1, 2), float(CENTER), dtype=torch.float64)
    return ((rotation(positions, blocks) @ q) * (rotation(center, blocks) @ q)).sum(-1).mean(-1)


GRADES = torch.linspace(-1, 1, 41)
ACROSS = torch.linspace(-0.5, GRID - 0.5, FINE, dtype=torch.float64)


@functools.cache
def likeness_everywhere(form, direction):
    return likeness(form, direction, torch.cartesian_prod(ACROSS, ACROSS)).view(FINE, FINE)


def _blind(form, direction, row, column):
    place = torch.tensor([[row, column]], dtype=torch.float64)
    theta = normals(form, direction)
    step = torch.stack((-theta[1, 0], theta[0, 0]))  # square to the first block's theta
    curve = place + torch.tensor([[-2.0 * GRID], [2.0 * GRID]]) * (step if form == ONE else math.nan)
    sees = (place - CENTER) @ theta  # [1, n]
    feet = CENTER + (sees * theta).T  # of the key on each theta
    start, gap = torch.full((2,), float(CENTER)), torch.full((2,), math.nan)
    way = torch.stack((start, feet[0], gap, *((start, feet[1]) if form != ONE else (gap, gap))))
    over = torch.tensor([[0.6 if row < 1 else -0.6, 0]])  # the key's name stands over it, in the picture
    beside = CENTER + ARROW * theta.T + 0.6 * torch.stack((-theta[1], theta[0]), -1)
    side = 0.95 if row in (3, 4) and column == 2 else -0.95  # of the query's name, clear of the key
    spots = torch.cat((place + over, torch.tensor([[CENTER, CENTER + side]]), beside))
    score, along = likeness(form, direction, torch.cat((place, place + step))).tolist()

    def points(name, where, symbol, size, color, **parts):
        return dots(name, where[:, 1], where[:, 0], color, size, symbol, marker=parts)

    def arrow(name, block, dash):
        tip = CENTER + ARROW * theta[:, block] if block < theta.shape[1] else gap
        head = dict(symbol="arrow", angleref="previous", size=[0, 14], color="ink")
        return path(name, [CENTER, tip[1]], [CENTER, tip[0]], "ink", 2, dash, marker=head)

    there = "row %{y:.1f}, column %{x:.1f}: score %{z:.2f}<extra></extra>"
    free = dict(cliponaxis=False)  # a name may stand beyond the picture
    colors = dict(zmin=-1, zmax=1, colorscale=DIVERGING, showscale=False)
    data = [
        heat("score of a key there", ACROSS, ACROSS, likeness_everywhere(form, direction), hover=there, **colors),
        points("patches", torch.cartesian_prod(torch.arange(GRID), torch.arange(GRID)), "circle", 3, "gray"),
        line("here its score stays", curve[:, 1], curve[:, 0], "ink", 2, "dash"),
        line("what the blocks see", way[:, 1], way[:, 0], "green", 7),
        arrow("θ", 0, "solid"),
        arrow("second θ", 1, "dot"),
        points("query", torch.full((1, 2), CENTER), "star", 15, "ink"),
        points("key", place, "circle-open", 20, "ink", line=dict(width=4)),
        label("names", *spots.T[[1, 0]], ["key", "query", "θ", "second θ"], "ink", "middle center", 13, True, **free),
        heat("scale of scores", [0], GRADES, GRADES[:, None], panel=2, **colors),
        dots("score of the key", [0.95], [score], "ink", 13, "triangle-left", panel=2, **free),
        label("score in words", 0, 1.09, f"score<br><b>{signed(score, 2)}</b>", "ink", panel=2, **free),
    ]
    frame = dict(tickvals=list(range(GRID)), showgrid=False, zeroline=False, constrain="domain")
    words = "column<br>bar along θ: what a block sees of the way"
    layout = dict(height=460, showlegend=False, margin=dict(t=10, r=8)) | dict(
        xaxis=frame | axis(-0.5, GRID - 0.5, words, domain=[0, 0.8], constraintoward="right"),
        yaxis=frame | axis(GRID - 0.5, -0.5, "row", scaleanchor="x"),
        xaxis2=axis(-0.5, 3, domain=[0.88, 1], anchor="y2", showgrid=False, zeroline=False, tickvals=[]),
        yaxis2=axis(-1, 1.1, anchor="x2", domain=[0.1, 0.85], showgrid=False, zeroline=False, tickvals=[-1, 0, 1]),
        meta=dict(phone=dict(yaxis2=dict(domain=[0.25, 0.75]))),
    )
    seen = ", ".join(signed(value, 2) for value in sees.flatten())
    return dict(data=data, layout=layout), {"seen": seen, "score": signed(score, 3), "change": abs(along - score)}


blind = explorable(
    _blind,
    title="What a block cannot see",
    alt="A picture of seven by seven patches with the query in its middle, as a star, and a key as a ring, which can "
    "be dragged. A triangle beside the scale says its score, and colors that of a key at each place. An arrow from "
    "the query is theta of the first block, a dotted one that of the second; LD's first can be dragged by its tip. A "
    "broad bar along each is what the block sees of the way to the key. For one block of LD the colors are stripes "
    "square to theta, and a dashed line runs through the key along its stripe. For two blocks, of LD or AP, they are "
    "a pattern of hills. The last chip: how much a step of the key square to the first theta changes its score.",
    readout="sees {seen} · score {score} · a step across θ: {change:.3f}",
    handles={"key": ("row", "column"), "θ": "direction"},
    form=slider([ONE, TWO, PARTITION], label="blocks", default=ONE),
    direction=slider(DIRECTIONS, label="θ, from straight down", default=27, format=lambda d: f"{d}°"),
    row=slider(range(GRID), label="row of the key", default=6),
    column=slider(range(GRID), label="column of the key", default=3),
)
