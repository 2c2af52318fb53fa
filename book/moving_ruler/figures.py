r"""Explorables of the chapter *When content moves the ruler*: two mirrors, a slot for nobody, a curve of one's own."""

import math

import torch

from posenc import inkling, sink
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line, number, path, signed, upright

KEY = torch.tensor([0.8, 0.6], dtype=torch.float64)
HALF = 1.15  # half the length of a drawn mirror
SLICE = 0.5  # how far the slices reach that show what the two ways turn by


def direction(degrees):
    r"""The unit vector [2] at this angle; the mirror of a reflection stands across it."""
    angle = math.radians(degrees)
    return torch.tensor([math.cos(angle), math.sin(angle)], dtype=torch.float64)


def through(first, second, strength):
    r"""The key after one step and after two: [3, 2], the key itself on top."""
    w = torch.stack((direction(first), direction(second)))
    steps = [KEY]
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


def _arrows(name, points, color, dash, width):
    r"""Arrows from point to point."""
    sizes = [0, *[9 + 2 * width] * (len(points) - 1)]
    heads = dict(symbol="arrow", angleref="previous", size=sizes, color=color, opacity=1)
    x, y = ([point[lane] for point in points] for lane in (0, 1))
    return path(name, x, y, color, width, dash, marker=heads)


def _sector(name, tip, color, dash, fill):
    r"""What a way turns the key by: a slice around the middle, from the key to `tip`."""
    start, wide = math.degrees(math.atan2(KEY[1], KEY[0])), turn(tip)
    around = [] if math.isnan(wide) else torch.linspace(start, start + wide, 25, dtype=torch.float64)
    x, y = torch.stack([torch.zeros(2), *(SLICE * direction(angle) for angle in around), torch.zeros(2)]).T
    return line(name, x, y, color, 1, dash, fill="toself", fillcolor=fill)


def _mirror(name, end, color, dash):
    x, y = (end * HALF).tolist()
    grip = dict(symbol="diamond", size=[0, 16], color=color, opacity=1)
    return path(f"mirror of {name}", [-x, x], [-y, y], color, 2, dash, marker=grip)


def _mirrors(a, b, strength):
    ways = {"a, then b": through(a, b, strength), "b, then a": through(b, a, strength)}
    looks = {"a, then b": (COLORS["blue"], "solid"), "b, then a": (COLORS["red"], "dash")}
    ends = {"a": direction(a + 90), "b": direction(b - 90)}  # on two sides of the drawing: they never meet
    tips = {name: way[-1].masked_fill(way[-1].norm() < 1e-9, math.nan) for name, way in ways.items()}
    pale = {"a, then b": "rgba(0, 114, 178, 0.22)", "b, then a": "rgba(192, 57, 43, 0.22)"}
    x, y = torch.stack([1.4 * end for end in ends.values()]).T
    one, other = (way[-1] for way in ways.values())
    turns = ["–" if math.isnan(angle) else f"{signed(angle)}°" for angle in (turn(one), turn(other))]
    named = ["┅┅ key", *(f"{dash} <b>{name}</b>" for dash, name in zip(("━━", "╍╍"), ways))]
    data = [
        *(_sector(f"turn, {name}", way[-1], *looks[name], pale[name]) for name, way in ways.items()),
        _mirror("a", ends["a"], "orange", "dot"),
        _mirror("b", ends["b"], "purple", "longdash"),
        label("names of the mirrors", x, y, ["<b>a</b>", "<b>b</b>"], ["orange", "purple"], "middle center", 15),
        _arrows("key", [(0, 0), KEY.tolist()], COLORS["gray"], "dashdot", 4),
        *(_arrows(f"first of {name}", way[:2].tolist(), *looks[name], 1.5) for name, way in ways.items()),
        *(_arrows(f"second of {name}", way[1:].tolist(), *looks[name], 1.5) for name, way in ways.items()),
        *(_arrows(name, [(0, 0), tip.tolist()], *looks[name], 4) for name, tip in tips.items()),
        label("names", [-1.3, -0.25, 1.02], [1.66] * 3, named, ["gray", "blue", "red"], "middle center"),
    ]
    frame = dict(tickvals=[-1, 0, 1], constrain="domain")
    layout = dict(height=440, showlegend=False, margin=dict(t=8), xaxis=axis(-1.6, 1.6, "lane 0", **frame))
    layout |= dict(yaxis=axis(-1.5, 1.8, "lane 1", scaleanchor="x", **frame))
    lengths = [number(tip.norm().item()) for tip in (one, other)]
    apart = (one - other).norm().item()
    return dict(data=data, layout=layout), {"turns": ", ".join(turns), "lengths": ", ".join(lengths), "apart": apart}


mirrors = explorable(
    _mirrors,
    title="Two reflections, in two orders",
    alt="A key as a gray arrow, and two mirrors through its foot, each square to its w, a dotted and b dashed, whose "
    "diamonds can be dragged. Thin arrows take the key's tip straight across one mirror and then across the other: "
    "blue and solid by a first, red and dashed by b first. A thick arrow shows where each way ends. At full strength "
    "both have turned the key by twice the angle between the mirrors, the one to the left, the other to the right; "
    "they meet only where the mirrors are parallel or square to each other.",
    readout="turned by {turns} · lengths {lengths} · {apart:.2f} apart",
    handles={"mirror of a": "a", "mirror of b": "b"},
    a=slider(range(0, 180, 15), label="w of a", default=15, format=lambda v: f"{v}°"),
    b=slider(range(0, 180, 15), label="w of b", default=45, format=lambda v: f"{v}°"),
    strength=slider([0.5, 1.0, 1.5, 2.0], label="strength β", default=2.0),
)


def _slot(fit, empty, others):
    scores = torch.zeros(1, 1, 1, 1 + others, dtype=torch.float64)
    scores[..., 0] = fit
    visible = torch.ones(1 + others, dtype=torch.bool)
    with_slot = sink.weigh(scores, visible, torch.tensor([empty], dtype=torch.float64))[0, 0, 0]
    plain = torch.softmax(scores[0, 0, 0], dim=-1)
    left = 1 - with_slot.sum().item()
    columns = ["the key that fits", "all others", "the sink"]
    plain_shares = [plain[0].item(), plain[1:].sum().item(), 0.0]
    shares = [with_slot[0].item(), with_slot[1:].sum().item(), left]
    numbers = [[f"{share:.2f}" for share in row] for row in (plain_shares, shares)]
    places = torch.arange(3)
    side = places + 0.22  # where the bars with a sink stand

    def bar(name, values, color, pattern, **parts):
        marker = dict(color=color, pattern=dict(shape=pattern))
        words = f"{name}, %{{customdata}}: %{{y:.3f}}<extra></extra>"
        return bars(name, places, values, hover=words, customdata=columns, marker=marker, **parts)

    data = [
        bar("softmax", plain_shares, COLORS["gray"], "/", text=numbers[0], textposition="outside"),
        bar("with a sink", shares, COLORS["blue"], ""),
        label("weights with a sink", side, [v + 0.09 for v in shares], numbers[1], "blue", "middle center"),
        held("what fits", side[0].item(), shares[0]),
        held("what is left", side[2].item(), shares[2]),
    ]
    across = axis(-0.5, 2.5, tickvals=places, ticktext=columns, showgrid=False, zeroline=False)
    layout = dict(height=360, barmode="group", xaxis=across)
    layout |= dict(yaxis=axis(0, 1.16, "weight", showgrid=False))  # each bar has its number
    return dict(data=data, layout=layout), {"left": left, "factor": 1 - left}


slot = explorable(
    _slot,
    title="A slot for nobody",
    alt="Bars of the weight that goes to the key that fits, to all others together and to nobody, with and without a "
    "sink. Without one the others share everything when nothing fits; with one the sink takes it. The diamonds can "
    "be dragged.",
    readout="the sink takes {left:.2f} · all other weights × {factor:.2f}",
    handles={"what fits": "fit", "what is left": "empty"},
    fit=slider(range(-2, 9), label="logit of the fitting key", default=1, format=signed),
    empty=slider(range(-4, 9), label="logit of the sink", default=3, format=signed),
    others=slider([4, 16, 64, 256], label="other keys, at logit 0", default=16),
)


EXTENT = 32
ASKED = 35  # how far back the key is that the chapter asks about
DISTANCE = torch.arange(40)
SHARES = [-2, -1, -0.5, 0, 0.5, 1, 2]


def bank():
    r"""Two curves over the distances 0 .. 31 [2, 32]: one for near keys, one for far ones."""
    d = torch.arange(EXTENT, dtype=torch.float64)
    return torch.stack((2 * torch.exp(-d / 4), 2 * torch.sigmoid((d - 16) / 2)))


def share(value):
    return signed(value, 1 if value % 1 else 0)


def _mixture(near, back):
    mix = torch.tensor([[near, back]], dtype=torch.float64)
    own = inkling.curves(mix, bank(), DISTANCE[None])[0]
    adds, (near_curve, far_curve) = "distance %{x}: adds %{y:.2f}<extra></extra>", bank()
    data = [
        path("own curve", DISTANCE, own, "blue", 3, hover=adds, marker=dict(size=5)),
        line("curve 0", DISTANCE[:EXTENT], near * near_curve, "orange", 2, "dot"),
        line("curve 1", DISTANCE[:EXTENT], back * far_curve, "purple", 2, "dash"),
        *(held(name, at, own[at].item()) for name, at in (("near end", 0), ("far end", EXTENT - 1))),
        upright("the key in question", ASKED, -5, 6.2, "ink", 1.5, "dashdot"),
        label("its distance", ASKED - 1, 5.3, f"a key {ASKED} back", "ink", "middle left"),
    ]
    added = axis(-5, 6.2, "added to the logit", tickvals=[-4, -2, 0, 2, 4])
    layout = dict(height=360, xaxis=axis(-2, 39.5, "distance i − j"), yaxis=added)
    return dict(data=data, layout=layout), {"at": signed(own[31], 2), "beyond": own[EXTENT:].abs().max().item()}


mixture = explorable(
    _mixture,
    title="A curve of one's own",
    alt="Two thin curves over distance, one for near keys and one for far ones, each times its share, and a solid "
    "curve, their sum. The solid curve drops to zero at distance 32, whatever the shares are: an upright line marks a "
    "key 35 back, to which it adds nothing. The diamonds at its ends can be dragged.",
    readout="at distance 31 it adds {at} · from 32 on {beyond:.2f}",
    handles={"near end": "near", "far end": "back"},
    near=slider(SHARES, label="share of curve 0, near", default=1, format=share),
    back=slider(SHARES, label="share of curve 1, far", default=0.5, format=share),
)
