r"""Explorables of the chapter *When content moves the ruler*: two mirrors, a slot for nobody, a curve of one's own."""

import math

import torch

from posenc import inkling, sink
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, held, label, line, path, signed

KEY = torch.tensor([0.8, 0.6], dtype=torch.float64)
PENNANT = 0.8 * KEY + 0.3 * torch.tensor([-0.6, 0.8], dtype=torch.float64)  # it hangs at the left of the key
END = 1.25  # how far from the middle a mirror is held


def direction(degrees):
    r"""The unit vector [2] at this angle; the mirror of a reflection stands across it."""
    angle = math.radians(degrees)
    return torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)


def through(first, second, strength, key=KEY):
    r"""The key after one step and after two: [3, 2], the key itself on top."""
    w = torch.stack((direction(first), direction(second)))
    steps = [key]
    for t in range(2):
        x = steps[-1]
        steps.append(x - strength * (w[t] @ x) * w[t])
    return torch.stack(steps)


def turn(tip):
    r"""The angle from the key to `tip`, in whole degrees from -179 to 180; nan where nothing is left of the key."""
    if tip.norm() < 1e-9:
        return math.nan
    (x, y), (u, v) = KEY.tolist(), tip.tolist()
    return 180 - (180 - round(math.degrees(math.atan2(x * v - y * u, x * u + y * v)))) % 360


def _slice(name, start, wide, radius, color, width, fill):
    r"""A slice around the middle."""
    arc = [radius * direction(start + wide * part) for part in torch.linspace(0, 1, 25).tolist()]
    x, y = torch.stack([torch.zeros(2), *arc, torch.zeros(2)]).T
    return line(name, x, y, color, width, fill="toself", fillcolor=fill)


def _mirror(name, end, color, dash):
    x, y = (END * end).tolist()
    grip = dict(symbol="diamond", size=[0, 18], color=color, opacity=1)
    return path(f"mirror {name}", [-x, x], [-y, y], color, 3, dash, marker=grip, cliponaxis=False)


def _mirrors(a, b, order):
    first, second = (a, b) if order == ORDERS[0] else (b, a)
    shapes = torch.stack([through(first, second, 2.0, point) for point in (KEY, PENNANT, 0.6 * KEY)], 1)
    flags = [torch.cat((torch.zeros(1, 2), shape)) for shape in shapes]
    between, start = 90 - (90 - (b - a)) % 180, math.degrees(math.atan2(KEY[1], KEY[0]))
    turned, at = turn(shapes[2, 0]), a + 90
    if math.cos(math.radians(at + between / 2 - start - turned / 2)) > 0:
        at += 180  # the slice between the mirrors keeps away from that of the turn
    looks = {"the key": ("gray", 3, "dash"), "through one": ("sky", 3, "dot"), "through both": ("blue", 6)}
    apart, whole, side = f"<b>{abs(between)}°</b>", f"<b>{signed(turned)}°</b>", dict(place="middle right", panel=2)

    def word(name, angle, radius, text, color, size):
        x, y = (radius * direction(angle)).tolist()
        return label(name, x, y, text, color, "middle center", size, halo=True, cliponaxis=False)

    ends = {"a": direction(a + 90), "b": direction(b - 90)}  # on two sides of the drawing: they never meet
    x, y = torch.stack([(END + 0.22) * end for end in ends.values()]).T
    data = [
        _slice("between the mirrors", at, between, 0.6, "purple", 1, "rgba(168, 68, 136, 0.3)"),
        _slice("the turn", start, turned, 0.8, "blue", 2, "rgba(0, 114, 178, 0.3)"),
        _mirror("a", ends["a"], "orange", "solid"),
        _mirror("b", ends["b"], "purple", "longdash"),
        label("names of the mirrors", x, y, ["<b>a</b>", "<b>b</b>"], ["orange", "purple"], "middle center", 17),
        *(line(name, *flag.T, *look, fill="toself") for flag, (name, look) in zip(flags, looks.items())),
        word("angle between", at + between / 2, 0.85, apart, "purple", 18),
        word("angle turned", start + turned / 2, 0.45, whole, "blue", 22),
        word("name of the key", start, 1.2, "the key", "gray", 14),
        label("said of the mirrors", 0, 1.8, f"{apart}<br>between mirrors", "purple", size=17, **side),
        label("said of the first", 0, -1.6, f"pale: through {order[0]} alone", "ink", size=14, **side),
        label("said of the turn", 0, 0, f"key turned<br>{whole}", "blue", size=23, **side),
    ]
    bare = dict(visible=False)
    phone = dict(xaxis=dict(domain=[0, 1]), yaxis2=axis(50, 51))  # the words at the side find no room there
    layout = dict(height=440, showlegend=False, margin=dict(l=8, r=8, t=10, b=4), meta=dict(phone=phone))
    layout |= dict(xaxis=axis(-1.55, 1.55, domain=[0, 0.66], **bare), yaxis=axis(-1.55, 1.55, scaleanchor="x", **bare))
    layout |= dict(xaxis2=axis(0, 1, domain=[0.69, 1], anchor="y2", **bare), yaxis2=axis(-5, 6, anchor="x2", **bare))
    return dict(data=data, layout=layout)


ORDERS = ("a, then b", "b, then a")
mirrors = explorable(
    _mirrors,
    title="Two reflections, in two orders",
    alt="A key as a gray flag, and two mirrors through its foot, a solid and b dashed, whose diamonds can be dragged; "
    "the angle between them is written in a slice. A dotted flag is the key seen in the first mirror, its pennant on "
    "the other side. A thick blue flag is that one seen in the second: the pennant is on its own side again, and the "
    "key is turned by twice the angle between the mirrors. The other order turns it the other way.",
    see="Drag mirror a or b, and watch the two angles. Then change the order.",
    handles={"mirror a": "a", "mirror b": "b"},
    order=slider(ORDERS, label="the key goes through"),
    a=slider(range(0, 180, 15), label="w of a", default=15, format=lambda v: f"{v}°"),
    b=slider(range(0, 180, 15), label="w of b", default=45, format=lambda v: f"{v}°"),
)


CROWDS = (16, 64, 256)


def _slot(empty):
    slots = torch.tensor([empty], dtype=torch.float64)
    plain = [torch.zeros(1, 1, 1, n, dtype=torch.float64) for n in CROWDS]
    keeps = [sink.weigh(z, torch.ones(z.shape[-1], dtype=torch.bool), slots).sum().item() for z in plain]
    data = []
    for row, (n, kept) in enumerate(zip(CROWDS, keeps)):
        taken, cells = 1 - kept, [1 - kept + kept * k / n for k in range(1, n if kept / n > 0.003 else 1)]
        look = dict(orientation="h", width=0.5, cliponaxis=False)
        hatch = dict(color=COLORS["orange"], pattern=dict(shape="/"))
        x = [place for cell in cells for place in (cell, cell, math.nan)]
        data += [
            bars(f"sink among {n}", [taken], [row], marker=hatch, **look),
            bars(f"{n} keys", [kept], [row], "blue", base=[taken], **look),
            line(f"cells of {n}", x, [row - 0.25, row + 0.25, math.nan] * len(cells),
                 f"rgba(255, 255, 255, {0.35 if n > 64 else 0.6})", 0.5 if n > 64 else 0.9),
            line(f"stick of {n}", [0, 1, 1, 0, 0], [row + up for up in (-0.25, -0.25, 0.25, 0.25, -0.25)], "gray", 1),
            label(f"number of {n}", 0.5, row - 0.4, f"<b>{n} keys</b>", "ink", "middle center", 15),
            label(f"share among {n}", 0, row - 0.4, f"sink <b>{taken:.0%}</b>", "orange", "middle right", 17),
            label(f"left of {n}", 1, row - 0.4, f"keep <b>{kept:.0%}</b>", "blue", "middle left", 17),
        ]  # fmt: skip
    data.append(held("edge of the sink", 1 - keeps[0], 0, "orange", size=18))
    data.append(label("grip", min(max(1 - keeps[0], 0.06), 0.94), 0.36, "drag", "ink", "middle center"))
    bare = dict(visible=False)
    layout = dict(height=380, showlegend=False, barmode="overlay", margin=dict(l=16, r=16, t=4, b=4))
    layout |= dict(xaxis=axis(0, 1, **bare), yaxis=axis(len(CROWDS) - 0.65, -0.6, **bare))
    return dict(data=data, layout=layout), {"cells": f"{math.exp(empty):.{0 if empty > 2 else 1}f}"}


slot = explorable(
    _slot,
    title="A slot for nobody",
    alt="Three sticks of one length, the weight of a query: among 16, 64 and 256 keys that all have the logit 0, each "
    "key a cell of one width. A hatched block at the left is what the sink takes, its share written above; the edge of "
    "the first can be dragged, which changes the sink's logit. The more keys there are, the smaller is its share.",
    see="Drag the orange edge: what is left for the keys?",
    readout="the sink is as wide as {cells} keys",
    handles={"edge of the sink": "empty"},
    empty=slider([n / 2 for n in range(-4, 13)], label="logit of the sink", default=3, format=lambda v: signed(v, 1)),
)


EXTENT, KEY_AT = 32, 35  # of the bank, and of the key
DISTANCE = torch.arange(48)
SHARES, FIRST = [n / 4 for n in range(13)], 2


def bank():
    r"""Two curves over the distances 0 .. 31 [2, 32]: one for near keys, one for far ones."""
    d = torch.arange(EXTENT, dtype=torch.float64)
    return torch.stack((2 * torch.exp(-d / 4), 2 * torch.sigmoid((d - 16) / 2)))


def _mixture(near, back):
    mix = torch.tensor([[near, back], [near, 0], [0, back], [FIRST] * 2], dtype=torch.float64)
    own, close, far, ghost = inkling.curves(mix, bank(), DISTANCE[None].expand(4, -1))
    last, at, inside = DISTANCE[-1].item(), EXTENT - 3, DISTANCE[:EXTENT]
    middle, pale = (EXTENT + last) / 2, dict(color="rgba(107, 114, 128, 0.22)")
    words = [f"drag: {name}<br>curve <b>× {share:g}</b>" for name, share in (("near", near), ("far", back))]
    data = [
        bars("at first", inside, ghost[:EXTENT], width=0.8, marker=pale),
        bars("what the query adds", inside, own[:EXTENT], "blue", width=0.8),
        line("near curve", inside, close[:EXTENT], "orange", 3),
        line("far curve", inside, far[:EXTENT], "green", 3, "dash"),
        held("peak of the near curve", 0, close[0].item(), "orange", "circle", 18),
        held("end of the far curve", at, far[at].item(), "green", "diamond", 20),
        label("name of the near", -0.6, close[0].item() + 0.3, words[0], "orange", "top right", 15, halo=True),
        label("name of the far", EXTENT - 1.5, far[at].item() + 0.3, words[1], "green", "top left", 15, halo=True),
        line("what it adds beyond", [EXTENT - 0.5, last + 0.5], own[[EXTENT, last]], "blue", 5),
        label("what the key gets", middle, 0.15, f"adds <b>{signed(own[KEY_AT])}</b>", "blue", size=24),
        dots("the key", [KEY_AT], [-0.5], "ink", 16, "square"),
        label("how far", middle, -1.3, f"key, {KEY_AT} back", "ink", "middle center", 15),
        label("name of the bank", EXTENT / 2, -0.6, "in the bank: 0 to 31 back", "ink", "middle center", 14),
        label("name of the rest", middle, 7.3, "farther", "ink", "middle center", 15),
    ]
    shade = dict(type="rect", x0=EXTENT - 0.5, x1=last + 0.5, y0=-1.75, y1=7.8, line=dict(width=0), layer="below")
    bare = dict(visible=False)
    layout = dict(height=400, showlegend=False, barmode="overlay", margin=dict(l=12, r=12, t=8, b=4))
    layout |= dict(shapes=[shade | dict(fillcolor="rgba(107, 114, 128, 0.2)")])
    layout |= dict(xaxis=axis(-1, last + 0.5, **bare), yaxis=axis(-1.8, 7.85, **bare))
    return dict(data=data, layout=layout)


mixture = explorable(
    _mixture,
    title="A curve of one's own",
    alt="A bar for each distance from 0 to 31, what a query adds to the logit of a key there: the sum of two curves, a "
    "solid one for near keys and a dashed one for far ones, each times its share. Both can be dragged up and down by a "
    "mark, and the bars follow; pale bars stay where both shares are 2. A shaded part is farther than 31, a square in "
    "it the key, 35 back. Over it stands what is added there: 0, whatever the shares.",
    see="Drag either curve up or down: what is added at the key?",
    handles={"peak of the near curve": "near", "end of the far curve": "back"},
    near=slider(SHARES, label="near curve ×", default=FIRST, format=lambda v: f"{v:g}"),
    back=slider(SHARES, label="far curve ×", default=FIRST, format=lambda v: f"{v:g}"),
)
