r"""Explorables of the chapter Sinusoidal."""

import math

import torch

from posenc import sinusoidal
from posenc.chapters.sinusoidal.exercises import rotation
from posenc.lab.explore import COLORS, DIVERGING, explorable, slider
from posenc.lab.explore.parts import axis, bars, heat, label, level, line, path, pin, signed, thousands

POSITIONS = 48  # rows of the heat map


def _ladder(dim, base, position, *, table=sinusoidal.table):
    lanes = torch.arange(dim)
    code = table(torch.arange(POSITIONS), dim, base)
    edges = [-0.5, dim - 0.5]
    cell = "position %{y}, lane %{x}: %{z:.2f}<extra></extra>"
    here = f"position {position}, lane %{{x}}: %{{y:.2f}}<extra></extra>"
    beside, outline = position - 1 if position else 1, dict(color=COLORS["ink"], width=1.5)
    bar = dict(y=0.69, len=0.66, thickness=10, xpad=12, tickvals=[-1, 0, 1])
    colors = dict(zmin=-1, zmax=1, colorscale=DIVERGING, colorbar=bar)
    data = [
        heat("every lane and position", lanes, torch.arange(POSITIONS), code, hover=cell, **colors),
        level("the position m", position, *edges, "ink", 4),
        bars("the code of that position", lanes, code[position], "blue", hover=here, panel=2),
        bars("one step away", lanes, code[beside], "rgba(0, 0, 0, 0)", marker=dict(line=outline), panel=2),
    ]
    layout = dict(
        height=520,
        barmode="overlay",
        bargap=0.3,
        showlegend=False,
        margin=dict(t=10),
        xaxis=dict(range=edges, anchor="y", showticklabels=False),
        yaxis=axis(POSITIONS - 0.5, -0.5, "position m", domain=[0.38, 1]),
        xaxis2=dict(range=edges, anchor="y2", title=dict(text="lane: sine, cosine, …; outlines: one step away")),
        yaxis2=axis(-1.15, 1.15, "code", domain=[0, 0.33], tickvals=[-1, 0, 1]),
    )
    moved = (code[position] - code[beside]).abs() > 0.05
    return dict(data=data, layout=layout), {"position": position, "moved": int(moved.sum()), "dim": dim}


ladder = explorable(
    _ladder,
    title="The frequency ladder",
    alt="A heat map of lanes against positions: stripes in the first lanes change at every position, the last lanes "
    "hardly at all. A level line is dragged from position to position, and below, a bar for each lane shows the row "
    "under it, in the outlines of the row before: the bars on the left jump at every step, those on the right stand.",
    readout="position {position:d} · one step moves {moved:d} of {dim:d} lanes by over 0.05",
    handles={"the position m": "position"},
    position=slider(range(POSITIONS), label="position m", default=12, play=True),
    base=slider([1e2, 1e4, 1e6], label="base b", default=1e4, format=thousands),
    dim=slider([8, 16, 32, 64], label="model size C", default=32),
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
        xaxis2=axis(-40.5, 40.5, "offset n − m, the same three", anchor="y2"),
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
    dim, base = 8, 100.0
    frequency = base ** (-2 * pair / dim)

    def hand(position):
        x, y = table(torch.tensor([position], dtype=torch.float64), dim, base)[0, 2 * pair : 2 * pair + 2].tolist()
        return x, y

    def arc(start, radius):  # the clock's way from start to start + t: clockwise from the top
        angle = frequency * (start + torch.linspace(0, t, 33, dtype=torch.float64))
        return radius * angle.sin(), radius * angle.cos()

    around = torch.linspace(0, 2 * math.pi, 65)
    (x0, y0), (x1, y1), (u, v) = hand(m), hand(m + t), hand(t)
    arc_x, arc_y = arc(m, 0.55)
    ghost_x, ghost_y = arc(0, 0.3)
    data = [
        line("clock face", around.cos(), around.sin(), "gray", 1, showlegend=False),
        line("at 0", [0, 0], [0, 1], "gray", 2),
        line("at t", [0, u], [0, v], "gray", 2, "dot"),
        line("the turn from 0", ghost_x, ghost_y, "gray", 2, showlegend=False),
        path("at m", [0, x0], [0, y0], "blue", 3, marker=dict(size=[0, 15], opacity=1)),
        path("at m + t", [0, x1], [0, y1], "orange", 3, "dash", marker=dict(size=[0, 15], symbol="diamond", opacity=1)),
        line("the turn from m", arc_x, arc_y, "green", 4),
        label("0", 0, 1.13, "0", "gray", "middle center"),
        label("t", 1.13 * u, 1.13 * v, "t" if t else "", "gray", "middle center"),
        label("m", 1.2 * x0, 1.2 * y0, "m", "blue", "middle center"),
        label("m + t", 1.38 * x1, 1.26 * y1, "m + t" if t else "", "orange", "middle center", cliponaxis=False),
    ]
    bare = axis(-1.45, 1.45, zeroline=False, tickvals=[-1, 0, 1])
    layout = dict(
        height=440,
        showlegend=False,
        margin=dict(t=10),
        xaxis=dict(title=dict(text="lane 2i: sin"), constrain="domain", **bare),
        yaxis=dict(title=dict(text="lane 2i + 1: cos"), scaleanchor="x", **bare),
    )
    return dict(data=data, layout=layout), {"angle": t * frequency, "degrees": math.degrees(t * frequency)}


one_rotation = explorable(
    _one_rotation,
    title="One rotation carries every position",
    alt="A clock face for one pair of lanes. A solid hand stands at position m, a dashed one at m + t, with the arc "
    "between them; both hands are dragged by their tips. A gray pair of hands stands at 0 and t, with an arc of the "
    "same angle.",
    handles={"at m": "m", "at m + t": "t"},
    readout="t tokens turn it by {degrees:+.0f}°, from every m · tω = {angle:+.2f} rad",
    m=slider(range(7), label="position m", default=3),  # within one turn: a drag has one place to go
    t=slider(range(-3, 4), label="shift t", default=2),
    pair=slider(range(4), label="pair of lanes i"),
)
