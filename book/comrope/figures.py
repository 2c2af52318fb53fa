r"""The explorables of the chapter *Rotations that commute*."""

import functools
import math

import torch

from posenc.lab.explore import COLORS, DIVERGING, explorable, slider
from posenc.lab.explore.parts import axis, dots, heat, label, line, path, signed
from posenc.rotate.liere import rotation

STEP = 0.35  # radians that a block turns for a step of one axis
VECTOR = (0.8, 0.0, 0.6)  # where the walks start: a vector of length 1 in a block of three lanes
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


@functools.cache
def walk(rows, columns, degrees, rows_first):
    r"""The way [2 ARC - 1, 3] of the vector that turns by one coordinate, then by the other."""
    part = torch.linspace(0, 1, ARC, dtype=torch.float64)[:, None]
    ends = torch.tensor([[rows, 0], [0, columns]], dtype=torch.float64)
    first, second = (rotation(part * end, generators(degrees))[:, 0] for end in (ends if rows_first else ends.flip(0)))
    way = first @ torch.tensor(VECTOR, dtype=torch.float64)
    return torch.cat((way, (second @ way[-1])[1:]))


VIEW, TILT = math.radians(70), math.radians(25)  # from where the sphere is seen: around, and above its equator


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


def _axis(name, words, color, dash, degrees):
    """What a block turns about, drawn from one pole out of the sphere, with its name."""
    pole = torch.tensor([[math.sin(math.radians(degrees)), 0, math.cos(math.radians(degrees))]])
    x, y, _ = _flat(torch.cat((pole, 1.28 * pole)))
    look = dict(marker=dict(size=[1, 9], opacity=[0, 1], color=color), cliponaxis=False)
    at = x[1].item() + (0.09 if name == "rows" else -0.09), y[1].item(), words, color
    side = f"middle {'right' if name == 'rows' else 'left'}"
    return path(name, x, y, color, 4, dash, **look), label(f"{name}, named", *at, side, 14)


@functools.cache
def far_apart(steps):
    r"""How far apart the two walks end, for the angles 0, 1, ..., 90 degrees."""
    return [(walk(steps, steps, d, True)[-1] - walk(steps, steps, d, False)[-1]).norm().item() for d in range(91)]


def _commute(degrees, steps):
    ways = [walk(steps, steps, degrees, first) for first in (True, False)]
    ends, globe = torch.stack([way[-1] for way in ways]), _globe()
    apart, under = far_apart(steps)[degrees], dict(fill="tozeroy", fillcolor="rgba(190, 40, 40, 0.15)", panel=2)
    part = torch.linspace(0, 1, ARC, dtype=torch.float64)[:, None]
    x, y, _ = _flat(torch.nn.functional.normalize(ends[0] + part * (ends[1] - ends[0]), dim=-1))
    right, side = max(_flat(way)[0].max().item() for way in ways), "top left" if steps > 2 else "top center"
    said, at = f"{apart:.2f} apart", (right + 0.06, y[ARC // 2].item(), "right")
    said, at = (said, at) if apart > 1e-6 else ("one place", (0.1, -0.1, "center"))
    data = [
        line("sphere", globe[:, 0], globe[:, 1], "gray", 0.6),
        *_axis("rows", "axis of <b>down</b>", "blue", "solid", 0),
        *_axis("columns", "axis of<br><b>right</b><br>drag", "orange", "dot", degrees),
        line("gap", x, y, "red", 10, opacity=0.5),
        _way("down, then right", ways[0], "blue", "solid", "circle-open"),
        _way("right, then down", ways[1], "orange", "dash", "square-open"),
        label("down first", x[0].item(), y[0].item() + 0.06, "down, right", "blue", side, 14, True),
        label("right first", x[-1].item(), y[-1].item() - 0.06, "right, down", "orange", "bottom right", 14, True),
        label("how far", *at[:2], f"<b>{said}</b>", "red", f"middle {at[2]}", 22, True, cliponaxis=False),
        line("apart at each angle", list(range(91)), far_apart(steps), "red", 3, **under),
        dots("at this angle", [degrees], [apart], "red", 16, panel=2, cliponaxis=False),
        dots("at 0°", [0], [0], "ink", 20, "circle-open", marker=dict(line=dict(width=3)), panel=2, cliponaxis=False),
        label("meet", 8, -0.12, "<b>0°: they meet</b>", "ink", "middle right", 16, panel=2),
    ]
    narrow = dict(xaxis=dict(domain=[0, 1]), yaxis=dict(domain=[0.42, 1], range=[-0.3, 1.4]))
    narrow |= dict(xaxis2=dict(domain=[0.02, 1]), yaxis2=dict(domain=[0.1, 0.38]))
    ticks = dict(tickvals=[0, 45, 90], ticktext=["0°", "45°", "90°"], tickfont=dict(size=13), showgrid=False)
    layout = dict(height=420, showlegend=False, margin=dict(t=12, l=8, r=8, b=8)) | dict(
        xaxis=axis(-1.8, 1.05, visible=False, domain=[0, 0.64]),
        yaxis=axis(-0.5, 1.4, visible=False, scaleanchor="x", constraintoward="top"),
        xaxis2=axis(-4, 94, "distance by angle", domain=[0.68, 1], anchor="y2", zeroline=False, **ticks),
        yaxis2=axis(-0.24, 1.1, domain=[0.2, 0.8], anchor="x2", tickvals=[]),
        meta=dict(phone=narrow),
    )
    return dict(data=data, layout=layout)


commute = explorable(
    _commute,
    title="Down then right, right then down",
    alt="On a globe two walks start at one point: a solid one goes down and then right, a dashed one right and then "
    "down. A broad red arc joins their ends, and says how far apart they are, in radii of the globe. Two spokes stand "
    "out of it: what a step down turns about, and, dotted, what a step right turns about, which can be dragged, as can "
    "the end of the solid walk. A curve says how far apart the ends are at each angle between the spokes: it rises "
    "from zero at 0°, which a ring marks: there alone both walks end at one place.",
    see="Drag the dotted axis: do both walks end at one place?",
    handles={"columns": "degrees", "down, then right": "steps"},
    degrees=slider([0, 5, *range(15, 91, 15)], label="angle between the axes", default=60, format=lambda d: f"{d}°"),
    steps=slider(range(1, 4), label="steps each way", default=3),
)

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
    place, center = torch.tensor([[row, column]], dtype=torch.float64), torch.full((1, 2), CENTER)
    theta = normals(form, direction)
    step = torch.stack((-theta[1, 0], theta[0, 0]))  # square to the first block's theta
    along = place + torch.linspace(-2 * GRID, 2 * GRID, 113)[:, None] * step
    beside = CENTER + ARROW * theta.T + 0.65 * torch.stack((theta[1], -theta[0]), -1)
    out = min(max(column + 0.35 * (column > CENTER) - 0.35 * (column < CENTER), 0.7), GRID - 1.7)
    over = torch.tensor([[row + (0.75 if row < 1 else -0.75), out]])
    others = torch.cat((place, over, center, center + torch.tensor([[0, -0.95]]), center + ARROW * theta.T, beside))
    inside = along[((along - CENTER).abs() < torch.tensor([2.8, 2.3])).all(-1)]  # where a word has room
    room = ((inside[:, None] - others).abs() / torch.tensor([0.65, 2.4])).amax(-1).amin(-1)
    spot = inside[room.argmax()] if form == ONE and len(inside) else torch.full((2,), math.nan)
    score, gap = likeness(form, direction, place).item(), torch.full((2,), math.nan)

    def arrow(name, block, dash):
        tip = CENTER + ARROW * theta[:, block] if block < theta.shape[1] else gap
        head = dict(symbol="arrow", angleref="previous", size=[0, 20], color="ink")
        return path(name, [CENTER, tip[1]], [CENTER, tip[0]], "ink", 4, dash, marker=head)

    def words(name, where, text, size, **parts):
        return label(name, *where.T[[1, 0]], text, "ink", "middle center", size, True, cliponaxis=False, **parts)

    there = "row %{y:.1f}, column %{x:.1f}: score %{z:.2f}<extra></extra>"
    colors = dict(zmin=-1, zmax=1, colorscale=DIVERGING, showscale=False)
    data = [
        heat("score of a key there", ACROSS, ACROSS, likeness_everywhere(form, direction), hover=there, **colors),
        dots("patches", list(range(GRID)) * GRID, [n // GRID for n in range(GRID**2)], "gray", 3, "circle"),
        line("here its score stays", along[:, 1], along[:, 0], "ink", 4, "dash", visible=form == ONE),
        arrow("θ", 0, "solid"),
        arrow("second θ", 1, "dot"),
        dots("query", [CENTER], [CENTER], "ink", 20, "star"),
        dots("key", [column], [row], "ink", 22, "circle-open", marker=dict(line=dict(width=5))),
        words("names", torch.cat((center + torch.tensor([[0, -0.95]]), beside)), ["query", "θ", "second θ"], 14),
        words("score of the key", over, [f"<b>{signed(score, 2)}</b>"], 18),
        words("it stays", spot[None], ["<b>score stays</b>"], 16),
        heat("scale of scores", [0], GRADES, GRADES[:, None], panel=2, **colors),
        dots("score on the scale", [1.2], [score], "ink", 16, "triangle-left", panel=2, cliponaxis=False),
        label("name of the scale", 0, 1.05, "score", "ink", size=14, panel=2, cliponaxis=False),
    ]
    narrow = dict(xaxis=dict(domain=[0, 0.85]), xaxis2=dict(domain=[0.9, 1]), yaxis2=dict(domain=[0.2, 0.8]))
    frame = dict(tickvals=[], showgrid=False, zeroline=False, constrain="domain")
    layout = dict(height=410, showlegend=False, margin=dict(t=20, b=8, l=8, r=8)) | dict(
        xaxis=frame | axis(-0.5, GRID - 0.5, domain=[0, 0.7], constraintoward="right"),
        yaxis=frame | axis(GRID - 0.5, -0.5, scaleanchor="x"),
        xaxis2=axis(-0.5, 3, domain=[0.76, 0.85], anchor="y2", showgrid=False, zeroline=False, tickvals=[]),
        yaxis2=axis(-1, 1.1, anchor="x2", domain=[0.1, 0.9], showgrid=False, zeroline=False, tickvals=[-1, 0, 1]),
        meta=dict(phone=narrow),
    )
    return dict(data=data, layout=layout)


blind = explorable(
    _blind,
    title="What a block cannot see",
    alt="A picture of seven by seven patches with the query in its middle, as a star, and a key as a ring, which can "
    "be dragged and carries its score. Colors, and a triangle beside their scale, say the score too. An arrow from "
    "the query is theta of the first block, a dotted one that of the second; LD's first can be dragged by its tip. "
    "For one block of LD the colors are stripes square to theta, and on a dashed line along its stripe the key's score "
    "stays. For two blocks, of LD or AP, they are a pattern of hills.",
    see="Drag the key: in which direction does its number stand still?",
    handles={"key": ("row", "column"), "θ": "direction"},
    form=slider([ONE, TWO, PARTITION], label="blocks", default=ONE),
    direction=slider(DIRECTIONS, label="θ, from straight down", default=27, format=lambda d: f"{d}°"),
    row=slider(range(GRID), label="row of the key", default=6),
    column=slider(range(GRID), label="column of the key", default=3),
)
