r"""Explorables of the chapter Sinusoidal."""

import math

import torch

from posenc import sinusoidal
from posenc.chapters.sinusoidal.exercises import rotation
from posenc.lab.explore import COLORS, DIVERGING, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, heat, label, level, line, path, pin, signed, thousands

POSITIONS = 48  # rows of the heat map


def _ladder(dim, base, position, *, table=sinusoidal.table):
    lanes, edges = torch.arange(dim), [-0.5, dim - 0.5]
    code = table(torch.arange(POSITIONS), dim, base)
    cell = "position %{y}, lane %{x}: %{z:.2f}<extra></extra>"
    here = f"position {position}, lane %{{x}}: %{{y:.2f}}<extra></extra>"
    beside, thick = position - 1 if position else 1, dict(line=dict(width=2))
    moved = lanes[(code[position] - code[beside]).abs() > 0.05]
    low, high, scale = position - 0.5, position + 0.5, dict(colorscale=DIVERGING, showscale=False)
    bar = dict(color=code[position], cmin=-1, cmax=1, line=dict(color=COLORS["gray"], width=1), **scale)
    data = [
        heat("every lane and position", lanes, torch.arange(POSITIONS), code, hover=cell, zmin=-1, zmax=1, **scale),
        line("its row", [*edges, *edges[::-1], edges[0]], [low, low, high, high, low], "ink", 2, cliponaxis=False),
        level("the position m", position, *edges, "rgba(0, 0, 0, 0)", 4),
        bars("the code of that position", lanes, code[position], marker=bar, hover=here, panel=2),
        dots("one step away", lanes, code[beside], "ink", 256 / dim, "line-ew-open", marker=thick, panel=2),
        dots("moved lanes", moved, [-1.3] * len(moved), "ink", 7, "triangle-up", panel=2),
    ]
    layout = dict(height=500, bargap=0.1, showlegend=False, margin=dict(t=8))
    layout |= dict(
        xaxis=dict(range=edges, anchor="y", showticklabels=False, ticks=""),
        yaxis=axis(POSITIONS - 0.5, -0.5, "position m", domain=[0.36, 1]),
        xaxis2=dict(range=edges, anchor="y2", title=dict(text="lane (dash: one step away, ▲: has moved)")),
        yaxis2=axis(-1.45, 1.15, "code", domain=[0, 0.33], tickvals=[-1, 0, 1]),
        meta=dict(phone=dict(margin=dict(l=8, r=12, b=36))),
    )
    return dict(data=data, layout=layout), {"position": position, "moved": len(moved), "dim": dim}


ladder = explorable(
    _ladder,
    title="The frequency ladder",
    alt="A heat map of lanes against positions: stripes in the first lanes change at every position, the last lanes "
    "hardly at all. A frame round a row is dragged from position to position, and below, a bar for each lane shows the "
    "row in its colors, with a dash where the row before has it: the bars on the left jump at every step, and a "
    "triangle marks them; those on the right stand.",
    readout="position {position:d} · one step moves {moved:d} of {dim:d} lanes by over 0.05",
    handles={"the position m": "position"},
    position=slider(range(POSITIONS), label="position m", default=12, play=True),
    base=slider([1e2, 1e4, 1e6], label="base b", default=1e4, format=thousands),
    dim=slider([8, 16, 32], label="model size C", default=32),
)


KEYS = torch.arange(101)
OFFSETS = torch.arange(-40, 41)
FIXED = (20, 70)  # where the two other curves stand
BETWEEN = ("nothing", "R(−10)", "a random matrix")


def _inner_product(m, dim, between, *, table=sinusoidal.table):
    base, low = 1e4, 0.0 if dim == 64 and between != BETWEEN[2] else -1.2

    def scores(start, keys):  # the code of start, a matrix, the code of a key; over C/2
        here = table(torch.tensor([start], dtype=torch.float64), dim, base)
        if between == BETWEEN[1]:
            here = here @ rotation(-10, dim, base, dtype=torch.float64)
        elif between == BETWEEN[2]:
            here = here @ torch.randn(dim, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 5
        return (table(keys.double(), dim, base) @ here[0]) / (dim / 2)

    looks = {f"from {FIXED[0]}": ("sky", 8), f"from {FIXED[1]}": ("orange", 4, "dash"), "from m": ("ink", 1.5)}
    data, below = [], []
    for start, (name, look) in zip((*FIXED, m), looks.items(), strict=True):
        words = f"from position {start}"
        to, more = f"{words} to %{{x}}: %{{y:.2f}}", dict(hover=f"{words}, offset %{{x}}: %{{y:.2f}}", showlegend=False)
        data.append(line(name, KEYS, scores(start, KEYS), *look, hover=to))
        below.append(line(f"{name}, by offset", OFFSETS, scores(start, start + OFFSETS), *look, panel=2, **more))
    data += below
    data.append(pin("m", m, low, 1.15, width=1.5, dash="dot"))
    ticks = axis(low, 1.25, tickvals=[-1, 0, 1])
    layout = dict(
        height=480,
        xaxis=axis(-1, 101, "position n of the other", anchor="y"),
        yaxis=dict(domain=[0.58, 1], title=dict(text="score"), **ticks),
        xaxis2=axis(-40.5, 40.5, "offset n − m, the same three", anchor="y2", tickvals=[*range(-30, 31, 10)]),
        yaxis2=dict(domain=[0, 0.38], title=dict(text="score"), **ticks),
    )
    own, other = (scores(start, start + OFFSETS) for start in (m, FIXED[0]))
    peak = int(OFFSETS[own.argmax()])
    return dict(data=data, layout=layout), {"peak": signed(peak), "gap": (own - other).abs().max()}


inner_product = explorable(
    _inner_product,
    title="The inner product by offset",
    alt="Above, the score of three positions with every other, divided by C/2, against the place of the other: three "
    "bumps, one of which follows the position m that is dragged. Below, the same three against the offset n - m: a "
    "thick, a dashed and a thin line, one on top of the other, with a peak of 1 at offset 0, wherever m stands. A "
    "rotation between the two moves all peaks alike; a random matrix parts the lines.",
    readout="peak at n − m = {peak} · curves apart {gap:.2f}",
    handles={"m": "m"},
    m=slider(range(0, 101, 5), label="position m", default=45),
    dim=slider([4, 16, 64], label="model size C", default=64),
    between=slider(BETWEEN, label="between", format=lambda name: name.replace("a random matrix", "random")),
)


def _one_rotation(m, t, pair, *, table=sinusoidal.table):
    dim, base, frequency = 8, 10.0, 10.0 ** (-pair / 4)  # with the paper's 10,000 most clocks would stand still

    def hand(position, length=1.0):
        of = table(torch.tensor([position], dtype=torch.float64), dim, base)[0, 2 * pair : 2 * pair + 2]
        return (length * of).tolist()

    def arc(start, radius):  # the clock's way from start to start + t: clockwise from the top
        angle = frequency * (start + torch.linspace(0, t, 9, dtype=torch.float64))
        return radius * angle.sin(), radius * angle.cos()

    def clear(position, *others):  # whether there is room for its name
        return all(math.dist(hand(position), hand(other)) > 0.25 for other in others)

    (x0, y0), (x1, y1), (u, v), around = hand(m), hand(m + t), hand(t, 0.5), torch.linspace(0, 2 * math.pi, 65)
    names = ["0" * clear(0, m, m + t), "t" * clear(t, 0, m, m + t)]
    grip, named, curve = dict(size=[0, 14], opacity=1), dict(halo=True, place="middle center"), dict(shape="spline")
    data = [
        line("clock face", around.cos(), around.sin(), "gray", 1),
        line("at 0", [0, 0], [0, 0.5], "gray", 2),
        line("at t", [0, u], [0, v], "gray", 2, "dot"),
        line("the turn from 0", *arc(0, 0.3), "gray", 2, line=curve),
        path("at m", [0, x0], [0, y0], "blue", 3, marker=grip),
        path("at m + t", [0, x1], [0, y1], "orange", 3, "dash", marker=dict(symbol="diamond", **grip)),
        line("the turn from m", *arc(m, 0.75), "green", 5, line=curve),
        label("0 and t", *zip(hand(0, 0.6), hand(t, 0.6)), names, "gray", **named),
        label("m", 1.2 * x0, 1.2 * y0, "<b>m</b>", "blue", **named),
        label("m + t", 1.31 * x1, 1.2 * y1, "<b>m + t</b>" * clear(m + t, m), "orange", **named, cliponaxis=False),
        label("up", -1.46, 1.27, "lane 2i + 1: cos ↑", "ink", "middle right"),
        label("right", 1.46, -1.27, "lane 2i: sin →", "ink", "middle left"),
    ]
    at, phone = dict(zeroline=False, tickvals=[-1, 0, 1]), dict(yaxis=dict(showticklabels=False, ticks=""))
    layout = dict(height=410, showlegend=False, margin=dict(l=4, r=4, t=6, b=24), meta=dict(phone=phone))
    layout |= dict(xaxis=axis(-1.48, 1.48, constrain="domain", **at), yaxis=axis(-1.34, 1.34, scaleanchor="x", **at))
    return dict(data=data, layout=layout), {"angle": t * frequency, "degrees": math.degrees(t * frequency)}


one_rotation = explorable(
    _one_rotation,
    title="One rotation carries every position",
    alt="A clock face for one pair of lanes. A solid hand stands at position m, a dashed one at m + t, with the arc "
    "between them; both hands are dragged by their tips. A short gray pair of hands stands at 0 and t,"
    " with an arc of the same angle.",
    handles={"at m": "m", "at m + t": "t"},
    readout="t tokens turn it by {degrees:+.0f}°, from every m · tω = {angle:+.2f} rad",
    m=slider([k / 4 for k in range(21)], label="position m", default=3),  # within one turn: a drag has one place to go
    t=slider([k / 2 for k in range(-5, 6)], label="shift t", default=2, format=lambda t: signed(t, 1)),
    pair=slider(range(4), label="pair of lanes i", default=1),
)
