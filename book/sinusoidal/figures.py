r"""Explorables of the chapter Sinusoidal."""

import math

import torch

from posenc import sinusoidal
from posenc.chapters.sinusoidal.exercises import rotation
from posenc.lab.explore import DIVERGING, explorable, slider
from posenc.lab.explore.parts import axis, bars, heat, held, label, level, line, path, signed, thousands

POSITIONS, DIM = 32, 16  # rows and columns of the heat map
VISIBLE = 0.05  # radians by which a clock must turn in a step to be seen


def _ladder(base, position, *, table=sinusoidal.table):
    lanes, pairs, edges = torch.arange(DIM), torch.arange(DIM // 2), [-0.5, DIM - 0.5]
    code, low, high = table(torch.arange(POSITIONS), DIM, base), position - 0.5, position + 0.5
    turning = 2 * int((base ** (-pairs / (DIM / 2)) > VISIBLE).sum())
    ends, out = [(-0.4, turning - 0.6), (turning - 0.4, DIM - 0.6)], dict(place="middle left", cliponaxis=False)
    said = [f"<b>{turning} move</b>", f"<b>{DIM - turning} hardly</b>"]
    middles = [max(turning / 2 - 0.5, 1.6), min(turning / 2 + 7.5, 12.6)]
    cells = dict(
        zmin=-1, zmax=1, colorscale=DIVERGING, showscale=False, xgap=1, hover="position %{y}, lane %{x}: %{z:.2f}"
    )
    moved = (code[position] - code[position - 1]).unflatten(0, (-1, 2)).norm(dim=-1)  # how far each clock's tip went
    hooks = [x for a, b in ends for x in (a, a, b, b, math.nan)], [1.08, 1.16, 1.16, 1.08, math.nan] * 2
    data = [
        heat("every lane and position", lanes, torch.arange(POSITIONS), code, **cells),
        line("its row", [*edges, *edges[::-1], edges[0]], [low, low, high, high, low], "ink", 3, cliponaxis=False),
        level("the position m", position, *edges, "rgba(0, 0, 0, 0)", 4),
        label("grip", -0.5, position, f"<b>m = {position}</b>\u2002<br>drag\u2002", "ink", **out),
        bars("movement", 2 * pairs + 0.5, moved, "purple", width=1.8, hover="its point moved by %{y:.2f}", panel=2),
        line("brackets", *hooks, "ink", 2, panel=2),
        label("who moves", middles, [1.21] * 2, said, "ink", size=17, panel=2),
        label("name of the bars", -0.5, 0.5, "a pair's\u2002<br>step\u2002", "purple", **out, panel=2),
    ]
    bare = dict(showgrid=False, zeroline=False, ticks="")
    layout = dict(
        height=500, bargap=0.12, showlegend=False, margin=dict(l=78, r=14, t=10, b=24),
        xaxis=axis(*edges, anchor="y", showticklabels=False, **bare),
        yaxis=axis(POSITIONS - 0.5, -0.5, domain=[0.48, 1], showticklabels=False, **bare),
        xaxis2=axis(*edges, anchor="y2", tickvals=[0, DIM - 1], ticktext=["lane 0", f"lane {DIM - 1}"], **bare),
        yaxis2=axis(0, 1.55, domain=[0, 0.46], showticklabels=False, **(bare | dict(zeroline=True))),
    )  # fmt: skip
    return dict(data=data, layout=layout)


ladder = explorable(
    _ladder,
    title="The frequency ladder",
    alt="A heat map of lanes against positions: stripes in the first lanes change at every position, the last lanes "
    "hardly at all. A frame round a row is dragged from position to position. Below, a bar for each pair of lanes, a "
    "clock, shows how far its point moves in a step: the bars fall like stairs, down to nothing. Brackets "
    "count the lanes whose clock turns by more than 0.05 in a step, and the others.",
    see="Drag the frame down by one row: which lanes does the step move?",
    handles={"the position m": "position"},
    position=slider(range(1, POSITIONS), label="position m", default=12, play=True),
    base=slider([1e2, 1e4, 1e6], label="base b", default=1e4, format=thousands),
)


KEYS = torch.arange(61)
FIXED = 41  # where the other query stands
BETWEEN = ("nothing", "R(−10)", "a random matrix")


def _inner_product(m, dim, between, *, table=sinusoidal.table):
    base = 1e4

    def scores(start, between):  # the code of start, a matrix, the code of a key; over C/2
        here = table(torch.tensor([start], dtype=torch.float64), dim, base)
        if between == BETWEEN[1]:
            here = here @ rotation(-10, dim, base, dtype=torch.float64)
        elif between == BETWEEN[2]:
            here = here @ torch.randn(dim, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 5
        return (table(KEYS.double(), dim, base) @ here[0]) / (dim / 2)

    data = []
    for start, foot, color, dash in ((m, 1.8, "blue", "solid"), (FIXED, 0, "orange", "dash")):
        name = "m" if color == "blue" else "the other"
        before, now = scores(start, BETWEEN[0]), scores(start, between)
        low, top = (now if between == BETWEEN[2] else before).min(), int(now.argmax())
        now, before = foot + (now - low) / (now.max() - low), foot + (before - before.min()) / (1 - before.min())
        near, ghost = KEYS[max(top - 6, 0) : top + 7], KEYS[max(start - 6, 0) : start + 7]
        far = f"{abs(top - start)} {'back' if top < start else 'ahead'}" if top != start else "at itself"
        head = dict(
            symbol="arrow", angleref="previous", size=[0, 24 if top != start else 0], opacity=1, line=dict(width=0)
        )
        y, side = foot + 1.12, "right" if start < 43 else "left"
        words = f"\u2003{'drag: m =' if color == 'blue' else 'query at'} <b>{start}</b>\u2003"
        data += [
            line(f"scores, {name}", KEYS, now, "gray", 1),
            line(f"before, {name}", ghost, before[ghost], "gray", 2, "dot"),
            line(f"peak, {name}", near, now[near], color, 4, dash),
            line(f"place, {name}", [start, start], [foot, y], "ink", 2),
            path(f"to the peak, {name}", [start, top], [y, y], "purple", 7, marker=head),
            label(f"how far, {name}", min(max((start + top) / 2, 6), 54), y + 0.06, f"<b>{far}</b>", "purple", size=20),
            label(f"name of {name}", start, foot + 0.03, words, "ink", f"middle {side}", 14, halo=True),
        ]
    data += [held("m", m, 1.83, "blue", "diamond", 15)]
    layout = dict(height=430, showlegend=False, margin=dict(l=12, r=12, t=8))
    layout |= dict(
        xaxis=axis(
            -1, 61, "key at position n (drawn to one height)", tickvals=[0, 20, 40, 60], showgrid=False, zeroline=False
        ),
        yaxis=axis(-0.12, 3.35, visible=False),
    )
    return dict(data=data, layout=layout)


inner_product = explorable(
    _inner_product,
    title="The inner product of two positions, with a matrix between",
    alt="Two lanes, one for each of two queries, the upper at a place m, which can be dragged, the lower at another. "
    "In each a curve, the scores of the query with the key at every position, all drawn to one height. An arrow leads "
    "from the place of the query to the peak of its curve, and a word says how far. Dotted, the peak with nothing "
    "between, at the place itself. With the rotation between, both arrows are ten long and point back, wherever m "
    "stands. With a random matrix the shapes are gone.",
    see="Choose what stands between, and drag m: do the two arrows agree?",
    handles={"m": "m"},
    m=slider(range(14, 57, 2), label="position m", default=24),
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
    turned, middle = f"<b>{signed(math.degrees(t * frequency))}°</b>", t / 2 if abs(t * frequency) > 0.8 else min(t, 0)
    shift = 0 if abs(t * frequency) > 0.8 else -0.45 / frequency  # a short arc's number stands beside it
    far, near = hand(m + middle + shift, 0.7), hand(middle + 1.4 * shift, 0.5)
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
        label("angle from m", *far, turned, "green", **named, size=20),
        label("angle from 0", *near, turned, "gray", **named),
        label("up", -1.46, 1.27, "lane 2i + 1: cos ↑", "ink", "middle right"),
        label("right", 1.46, -1.27, "lane 2i: sin →", "ink", "middle left"),
    ]
    at, phone = dict(zeroline=False, tickvals=[-1, 0, 1]), dict(yaxis=dict(showticklabels=False, ticks=""))
    layout = dict(height=410, showlegend=False, margin=dict(l=4, r=4, t=6, b=24), meta=dict(phone=phone))
    layout |= dict(xaxis=axis(-1.48, 1.48, constrain="domain", **at), yaxis=axis(-1.34, 1.34, scaleanchor="x", **at))
    return dict(data=data, layout=layout)


one_rotation = explorable(
    _one_rotation,
    title="One rotation carries every position",
    alt="A clock face for one pair of lanes. A solid hand stands at position m, a dashed one at m + t, with the arc "
    "between them; both hands are dragged by their tips. A short gray pair of hands stands at 0 and t,"
    " with an arc of the same angle. Each arc is marked with its angle.",
    see="Drag the blue hand: what becomes of the green arc?",
    handles={"at m": "m", "at m + t": "t"},
    m=slider([k / 4 for k in range(21)], label="position m", default=3),  # within one turn: a drag has one place to go
    t=slider([k / 2 for k in range(-5, 6)], label="shift t", default=2, format=lambda t: signed(t, 1)),
    pair=slider(range(4), label="pair of lanes i", default=1),
)
