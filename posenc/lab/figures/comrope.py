r"""The explorables of the chapter *Rotations that commute*."""

import functools
import math

import torch

from posenc.lab.explore import COLORS, DIVERGING, explorable, slider
from posenc.lab.figures.parts import above, held, label, level, signed
from posenc.rotate.liere import rotation

ALONE = {"hoverinfo": "skip"}

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


def walk(rows, columns, degrees, rows_first):
    r"""The way [2 ARC - 1, 3] of the vector that turns by one coordinate, then by the other."""
    row, column = (rotation(_line(*end), generators(degrees))[:, 0] for end in ((rows, 0), (0, columns)))
    first, second = (row, column) if rows_first else (column, row)
    start = torch.tensor(VECTOR, dtype=torch.float64)
    way = first @ start
    return torch.cat((way, (second @ way[-1])[1:]))


def _line(rows, columns):
    return torch.linspace(0, 1, ARC, dtype=torch.float64)[:, None] * torch.tensor([rows, columns], dtype=torch.float64)


def scores(rows, columns, degrees):
    r"""Score of a query and the key `rows` down and `columns` right, both moved down: [4 SHIFTS + 1]."""
    moved = torch.arange(0, SHIFTS + 0.25, 0.25, dtype=torch.float64)[:, None] * torch.tensor([1, 0])
    offset = torch.tensor([rows, columns], dtype=torch.float64)
    return (turned(QUERY, moved, degrees) * turned(KEY, moved + offset, degrees)).sum(-1)


VIEW, TILT = math.radians(95), math.radians(20)  # from where the sphere is seen: around, and above its equator


def _flat(way):
    """The points [T, 3] as they are seen: across, up, and towards the eye."""
    across = -math.sin(VIEW) * way[:, 0] + math.cos(VIEW) * way[:, 1]
    near = math.cos(VIEW) * way[:, 0] + math.sin(VIEW) * way[:, 1]
    up = math.cos(TILT) * way[:, 2] - math.sin(TILT) * near
    return across, up, math.cos(TILT) * near + math.sin(TILT) * way[:, 2]


def _way(name, way, color, dash, symbol):
    x, y, _ = _flat(way)
    look = dict(type="scatter", x=x, y=y, **ALONE)
    end = dict(symbol=symbol, size=14, color=COLORS[color], line=dict(width=3, color=COLORS[color]))
    return [
        look | dict(name=name, mode="lines", line=dict(color=COLORS[color], width=3, dash=dash)),
        look | dict(name=f"end of {name}", mode="markers", x=x[-1:], y=y[-1:], marker=end, showlegend=False),
    ]


def _globe():
    """Outline and near parts of circles of latitude and meridians of the upper half, as one line with gaps."""
    around = torch.linspace(0, 2 * math.pi, 73, dtype=torch.float64)
    half = around[:37]
    lines = [torch.stack((half.cos(), half.sin()), -1)]
    rings = []
    for degrees in range(0, 90, 30):
        high = math.radians(degrees)
        flat = math.cos(high) * torch.stack((around.cos(), around.sin()), -1)
        rings.append(torch.cat((flat, torch.full((73, 1), math.sin(high))), -1))
    for degrees in range(0, 180, 30):
        a = math.radians(degrees)
        rings.append(torch.stack((half.cos() * math.cos(a), half.cos() * math.sin(a), half.sin()), -1))
    for ring in rings:
        x, y, near = _flat(ring)
        lines += [torch.full((1, 2), math.nan), torch.stack((x, y), -1).masked_fill(near[:, None] < 0, math.nan)]
    return torch.cat(lines)


def _clear_of(ways, x, y):
    """Where the gap's name stands: near the middle of the gap, as far as may be from both ways."""
    across, up, _ = _flat(ways)
    around = torch.arange(0, 2 * math.pi, math.pi / 8, dtype=torch.float64)
    spots = torch.cat([torch.stack((x + (r + 0.14) * around.cos(), y + r * around.sin()), -1) for r in (0.2, 0.32)])
    spots = spots[(spots[:, 0].abs() < 0.85) & (spots[:, 1] > -0.25) & (spots[:, 1] < 1.05)]
    aside = (across - spots[:, :1]).abs() - 0.3, (up - spots[:, 1:]).abs() - 0.09  # the room that the words take
    return spots[torch.maximum(*aside).min(-1).values.argmax()].tolist()


def _axis(name, color, dash, degrees):
    """What a block turns about, drawn outside the sphere at its upper pole, with its name."""
    pole = torch.tensor([[math.sin(math.radians(degrees)), 0, math.cos(math.radians(degrees))]])
    x, y, _ = _flat(torch.cat((pole, 1.15 * pole)))
    return dict(
        type="scatter",
        name=f"axis of the {name}",
        x=x,
        y=y,
        mode="lines+markers+text",
        line=dict(color=COLORS[color], width=3, dash=dash),
        marker=dict(size=[1, 9], opacity=[0, 1], color=COLORS[color]),
        text=["", name],
        textposition="top right" if name == "rows" else "top left",
        textfont=dict(color=COLORS[color], size=13),
        cliponaxis=False,
        showlegend=False,
        **ALONE,
    )


def _commute(degrees, rows, columns, shift):
    down, right = (walk(rows, columns, degrees, first) for first in (True, False))
    at_once = turned(VECTOR, torch.tensor([[rows, columns]], dtype=torch.float64), degrees)
    curve, globe = scores(rows, columns, degrees), _globe()
    low, high = curve.min().item(), curve.max().item()
    middle, reach = (low + high) / 2, max(0.65 * (high - low), 0.25)  # a level line is seen to be level
    x, y, _ = _flat(at_once)
    points = _flat(torch.stack((down[0], down[-1], right[-1])))
    (start_x, *ends_x), (start_y, *ends_y) = (part.tolist() for part in points[:2])
    apart = (down[-1] - right[-1]).norm().item()
    between = torch.lerp(down[-1:], right[-1:], torch.linspace(0, 1, ARC, dtype=torch.float64)[:, None])
    below = 0.28 if degrees == 60 else 0.04  # there the columns' axis ends beside the start
    sinks = bool(curve.mean() <= curve[0] + 1e-9)
    data = [
        dict(
            type="scatter",
            name="sphere",
            x=globe[:, 0],
            y=globe[:, 1],
            mode="lines",
            line=dict(color=COLORS["gray"], width=0.7),
            showlegend=False,
            **ALONE,
        ),
        _axis("rows", "blue", "solid", 0),
        _axis("columns", "orange", "dot", degrees),
        dict(
            type="scatter",
            name="the gap",
            x=ends_x,
            y=ends_y,
            mode="lines",
            line=dict(color=COLORS["red"], width=3.5),
            showlegend=False,
            **ALONE,
        ),
        *_way("rows first", down, "blue", "solid", "circle-open"),
        *_way("columns first", right, "orange", "dash", "square-open"),
        dict(
            type="scatter",
            name="at once",
            x=x,
            y=y,
            mode="markers",
            marker=dict(symbol="x", size=13, color=COLORS["ink"]),
            **ALONE,
        ),
        held("start", start_x, start_y, COLORS["ink"], "circle", 9),
        label(
            "name of the gap",
            *_clear_of(torch.cat((down, right, between)), sum(ends_x) / 2, sum(ends_y) / 2),
            f"<b>gap {apart:.2f}</b>" if apart > 1e-9 else "<b>no gap</b>",
            COLORS["red"],
            "middle center",
            halo=True,
            cliponaxis=False,
        ),
        label(
            "name of the start",
            start_x - below / 2 - 0.08,
            start_y - below,
            "start",
            COLORS["ink"],
            "bottom left",
            cliponaxis=False,
        ),
        level("score at the start", curve[0].item(), 0, SHIFTS, COLORS["gray"], 1.5, "dot", xaxis="x2", yaxis="y2"),
        dict(
            type="scatter",
            name="score of one pair, both tokens moved",
            fill="tonexty",
            fillcolor="rgba(0, 128, 90, 0.15)",
            x=torch.arange(0, SHIFTS + 0.25, 0.25),
            y=curve,
            xaxis="x2",
            yaxis="y2",
            mode="lines",
            line=dict(color=COLORS["green"], width=3),
            hovertemplate="both moved %{x} rows: score %{y:.3f}<extra></extra>",
            showlegend=False,
        ),
        label(
            "name of the level",
            SHIFTS,
            curve[0].item() + (0.08 if sinks else -0.08) * reach,
            "as at the start" if high - low > 1e-9 else "the score stays",
            COLORS["gray"],
            "top left" if sinks else "bottom left",
            xaxis="x2",
            yaxis="y2",
        ),
        held("score now", shift, curve[4 * shift].item(), COLORS["green"], size=15, xaxis="x2", yaxis="y2"),
    ]
    layout = dict(
        height=430,
        legend=dict(traceorder="normal"),
        xaxis=dict(range=[-1.3, 1.15], visible=False, domain=[0, 0.65], constrain="domain"),
        yaxis=dict(range=[-0.36, 1.28], visible=False, scaleanchor="x"),
        xaxis2=dict(
            range=[-1.5, SHIFTS + 0.6],
            domain=[0.75, 1],
            anchor="y2",
            title=dict(text="rows both moved"),
            tickvals=[0, 4, 8, 12],
        ),
        yaxis2=dict(
            range=[middle - 1.3 * reach, middle + 1.5 * reach],
            anchor="x2",
            title=dict(text="score"),
            nticks=4,
            showgrid=False,
            zeroline=False,
        ),
        meta=dict(
            phone=dict(
                xaxis=dict(domain=[0, 1]),
                yaxis=dict(domain=[0.32, 1]),
                xaxis2=dict(domain=[0, 1], title=dict(standoff=2)),
                yaxis2=dict(domain=[0, 0.29]),
                legend=dict(x=-0.16, font=dict(size=11)),
                margin=dict(t=24, b=34),
            )
        ),
    )
    return dict(data=data, layout=layout), {"apart": apart, "off": (curve - curve[0]).abs().max().item()}


commute = explorable(
    _commute,
    id="comrope.commute",
    title="Two walks, and a pair that moves",
    alt=(
        "The upper half of a globe. From one point two walks start: a solid one turns by the rows first and then by "
        "the columns, a dashed one the other way round; a red line is the gap between their ends, and a cross "
        "shows where both at once lead. The solid walk's end "
        "can be dragged, which makes both longer or shorter. Two spokes outside the globe are the axes of turning; the "
        "dotted one, of the columns, can be dragged too. Beside or below, the score of a query and a key whose offset "
        "stays, against the rows that both have moved: level where the two axes are one, wavy where they are apart. "
        "The diamond can be dragged along it; the last number is the largest change that moving both makes."
    ),
    readout="gap {apart:.2f} · score changes by up to {off:.3f}",
    handles={"axis of the columns": "degrees", "score now": "shift", "rows first": ("rows", "columns")},
    depends={
        "sphere": [],
        "axis of the rows": [],
        "axis of the columns": ["degrees"],
        **{
            f"{part}{way} first": ["degrees", "rows", "columns"]
            for part in ("", "end of ")
            for way in ("rows", "columns")
        },
        "at once": ["degrees", "rows", "columns"],
        "the gap": ["degrees", "rows", "columns"],
        "name of the gap": ["degrees", "rows", "columns"],
        "start": [],
        "name of the start": ["degrees"],
        "name of the level": ["degrees", "rows", "columns"],
        "score at the start": ["degrees", "rows", "columns"],
        "score of one pair, both tokens moved": ["degrees", "rows", "columns"],
        "layout": ["degrees", "rows", "columns"],
        "readout.apart": ["degrees", "rows", "columns"],
        "readout.off": ["degrees", "rows", "columns"],
    },
    degrees=slider([0, 5, 15, 30, 60, 90], label="angle between the axes", default=30, format=lambda d: f"{d}°"),
    rows=slider(range(1, 5), label="rows, query to key", default=3),
    columns=slider(range(1, 5), label="columns, query to key", default=4),
    shift=slider(range(SHIFTS + 1), label="rows both moved", default=0, play=True),
)

# --------------------------------------------------------------------------------------------- what a block is blind to

GRID = 7  # rows and columns of patches
CENTER = 3  # where the query stands, in both
FAST, SLOW = 1.1, 0.45  # radians that the two planes of a block turn for each unit that it sees
DIRECTIONS = {
    "0°": (1, 0),
    "27°": (2, 1),
    "45°": (1, 1),
    "63°": (1, 2),
    "90°": (0, 1),
    "135°": (-1, 1),
}  # (row, column)
ONE, TWO, PARTITION = "one", "two, free", "two, by axis"  # LD, LD, AP
FINE = 43  # points of the map, a side
ARROW = 1.6  # patches, how long theta is drawn
ASIDE = 1.5, 1.0, 0.6  # patches, how far the key is moved across theta; in a corner less


VERDICTS = {
    ONE: "along its stripe the score stays",
    TWO: "no straight way keeps the score",
    PARTITION: "no straight way keeps the score",
}


def normals(form, direction):
    r"""theta [n, m] of the blocks, unit vectors: the direction; for LD's second block it is turned by 60 degrees."""
    row, column = DIRECTIONS[direction]
    angle = math.atan2(column, row)
    angles = {ONE: [angle], TWO: [angle, angle + math.pi / 3], PARTITION: [0, math.pi / 2]}[form]
    return torch.tensor([[math.cos(a) for a in angles], [math.sin(a) for a in angles]], dtype=torch.float64)


def plane_of(speed):
    r"""[2, 2]: a plane that turns by so many radians for a step."""
    return torch.tensor([[0, -speed], [speed, 0]], dtype=torch.float64)


def likeness(form, direction, positions):
    r"""Score of a query at the center with a key of its own content at positions [T, 2], from -1 to 1."""
    block = torch.block_diag(plane_of(FAST), plane_of(SLOW))
    theta = normals(form, direction)
    q = torch.full((4,), 0.5, dtype=torch.float64)  # in each block; of length 1
    blocks = theta[..., None, None] * block  # [n, m, 4, 4]
    center = torch.full((1, 2), float(CENTER), dtype=torch.float64)
    return ((rotation(positions, blocks) @ q) * (rotation(center, blocks) @ q)).sum(-1).mean(-1)


def _beside(theta, place):
    r"""Where the names of the arrows stand, [2, m]: beside them, far from the key, its line and the other arrow."""
    single, out = theta.shape[1] == 1, []
    for own, other in zip(theta.T, theta.flip(1).T):
        square = torch.stack((-own[1], own[0]))
        spots = torch.stack([CENTER + a * own + side * 0.5 * square for a in (0.5, 1.1) for side in (1, -1)])
        from_key = (spots - place).norm(dim=-1)
        from_other = (spots - place) @ own if single else (spots - CENTER - other).norm(dim=-1)
        out.append(spots[torch.minimum(from_key, from_other.abs()).argmax()])
    return torch.stack(out, -1)


def _blind(form, direction, row, column):
    across = torch.linspace(-0.5, GRID - 0.5, FINE, dtype=torch.float64)
    picture = likeness(form, direction, torch.cartesian_prod(across, across)).view(FINE, FINE)
    place = torch.tensor([[row, column]], dtype=torch.float64)
    theta = normals(form, direction)
    step = torch.stack((-theta[1, 0], theta[0, 0]))  # square to the first block's theta
    line = place + torch.tensor([[-2.0 * GRID], [2.0 * GRID]]) * step
    tips = [place + side * far * step for far in ASIDE for side in (1, -1)]
    aside = next(tip for tip in tips if (tip - CENTER).abs().max() <= GRID / 2)
    if form != ONE:
        line = line[:0]
    patches = torch.cartesian_prod(torch.arange(GRID), torch.arange(GRID))

    def points(name, where, symbol, size, color, **parts):
        return dict(
            type="scatter",
            name=name,
            x=where[:, 1],
            y=where[:, 0],
            mode="markers",
            marker=dict(symbol=symbol, size=size, color=COLORS[color], **parts),
            **ALONE,
        )

    def arrow(name, block, dash):
        tip = CENTER + ARROW * theta[:, block] if block < theta.shape[1] else torch.full((2,), math.nan)
        return dict(
            type="scatter",
            name=name,
            x=[CENTER, tip[1]],
            y=[CENTER, tip[0]],
            mode="lines+markers",
            line=dict(color=COLORS["ink"], width=2, dash=dash),
            marker=dict(symbol="arrow", angleref="previous", size=[0, 14], color=COLORS["ink"]),
            **ALONE,
        )

    data = [
        dict(
            type="heatmap",
            name="score of a key there",
            x=across,
            y=across,
            z=picture,
            zmin=-1,
            zmax=1,
            colorscale=DIVERGING,
            colorbar=dict(title=dict(text="score"), tickvals=[-1, 0, 1], thickness=12, xpad=4),
            hovertemplate="row %{y:.1f}, column %{x:.1f}: score %{z:.2f}<extra></extra>",
        ),
        points("patches", patches, "square", 3, "gray"),
        dict(
            type="scatter",
            name="same score",
            x=line[:, 1],
            y=line[:, 0],
            mode="lines",
            line=dict(color=COLORS["ink"], width=2, dash="dash"),
            **ALONE,
        ),
        arrow("θ", 0, "solid"),
        arrow("θ of the second block", 1, "dot"),
        dict(
            type="scatter",
            name="a step across θ",
            x=[column, aside[0, 1]],
            y=[row, aside[0, 0]],
            mode="lines+markers",
            line=dict(color=COLORS["ink"], width=3),
            marker=dict(symbol="arrow", angleref="previous", size=[0, 15], color=COLORS["ink"]),
            cliponaxis=False,
            **ALONE,
        ),
        points("query", torch.full((1, 2), CENTER), "star", 15, "ink"),
        points("key", place, "circle", 15, "ink"),
        label(
            "names of the marks",
            [CENTER - 0.3, column],
            [CENTER, row + (0.62 if row < GRID - 1 else -0.62)],
            ["query", "key"],
            COLORS["ink"],
            ["middle left", "middle center"],
            13,
            halo=True,
        ),
        label(
            "names of the arrows",
            *_beside(theta, place).flip(0).tolist(),
            ["<b>θ</b>", "<b>θ₂</b>"][: theta.shape[1]],
            COLORS["ink"],
            "middle center",
            15,
        ),
    ]
    axis = dict(tickvals=list(range(GRID)), showgrid=False, zeroline=False, constrain="domain")
    layout = dict(
        height=460,
        showlegend=False,
        margin=dict(l=150, r=110, t=30),  # the map is square
        meta=dict(phone=dict(margin=dict(l=44, r=12))),
        annotations=[above(f"<b>{VERDICTS[form]}</b>", right=True)],
        xaxis=axis | dict(range=[-0.5, GRID - 0.5], title=dict(text="column"), constraintoward="right"),
        yaxis=axis | dict(range=[GRID - 0.5, -0.5], scaleanchor="x", title=dict(text="row"), constraintoward="top"),
    )
    score, moved = (likeness(form, direction, at).item() for at in (place, aside))
    return dict(data=data, layout=layout), {"score": signed(score, 3), "moved": signed(moved, 3)}


blind = explorable(
    _blind,
    id="comrope.blind",
    title="What a block cannot see",
    alt=(
        "A picture of seven by seven patches with the query in its middle, as a star, and a key as a disk, which can "
        "be dragged. Colors say what score the key would get at each place. An arrow from the query is theta of the "
        "first block, a dotted one that of the second; where it is free (LD) the first can be dragged by its tip. For "
        "one block the colors are stripes square to theta, and a dashed line of equal score runs through the key along "
        "its stripe. For two blocks, free (LD) or one for each axis (AP), they are a pattern of hills. A short arrow "
        "from the key is a step square to the first theta; the chips say the score before it and after it."
    ),
    readout="score {score} · at the arrow’s tip {moved}",
    handles={"key": ("row", "column"), "θ": "direction"},
    depends={
        "score of a key there": ["form", "direction"],
        "patches": [],
        "query": [],
        "θ": ["form", "direction"],
        "θ of the second block": ["form", "direction"],
        "key": ["row", "column"],
        "layout": ["form"],
    },
    form=slider([ONE, TWO, PARTITION], label="blocks", default=ONE),
    direction=slider(list(DIRECTIONS), label="θ at", default="27°"),
    row=slider(range(GRID), label="row of the key", default=4),
    column=slider(range(GRID), label="column of the key", default=5),
)
