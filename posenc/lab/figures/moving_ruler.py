r"""Explorables of the chapter *When content moves the ruler*: two mirrors, a slot for nobody, a curve of one's own."""

import math

import torch

from posenc import inkling, sink
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.figures.parts import held, label, number, signed, upright

KEY = torch.tensor([0.8, 0.6], dtype=torch.float64)
HALF = 1.2  # half the length of a drawn mirror
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


def _arrows(name, points, color, dash, width, **parts):
    r"""Arrows from point to point."""
    return dict(
        type="scatter",
        name=name,
        x=[x for x, _ in points],
        y=[y for _, y in points],
        mode="lines+markers",
        line=dict(color=color, width=width, dash=dash),
        marker=dict(
            symbol="arrow", angleref="previous", size=[0, *[9 + 2 * width] * (len(points) - 1)], color=color, opacity=1
        ),
        hoverinfo="skip",
        **parts,
    )


def _sector(name, tip, color, dash, fill):
    r"""What a way turns the key by: a slice around the middle, from the key to `tip`."""
    start, wide = math.degrees(math.atan2(KEY[1], KEY[0])), turn(tip)
    around = [] if math.isnan(wide) else torch.linspace(start, start + wide, 25, dtype=torch.float64)
    x, y = torch.stack([torch.zeros(2), *(SLICE * direction(angle) for angle in around), torch.zeros(2)]).T
    return dict(
        type="scatter",
        name=name,
        x=x,
        y=y,
        mode="lines",
        line=dict(color=color, width=1, dash=dash),
        fill="toself",
        fillcolor=fill,
        hoverinfo="skip",
        showlegend=False,
    )


def _mirror(name, end, color, dash):
    x, y = (end * HALF).tolist()
    return dict(
        type="scatter",
        name=f"mirror of {name}",
        x=[-x, x],
        y=[-y, y],
        mode="lines",
        line=dict(color=color, width=2, dash=dash),
        hoverinfo="skip",
        showlegend=False,
    )


def beyond(end, side):
    r"""Where a mirror's name stands: above its end or below it, and to its side, for the other mirror may end near."""
    x, y = end.tolist()
    return x + 0.2 * side, y + (0.3 if y > -1e-9 else -0.3)


ROW = 0.12  # half the height of a line of words


def _along(*ways):
    r"""Points along straight lines from point to point, [N, 2]."""
    part = torch.linspace(0, 1, 25, dtype=torch.float64)[:, None]
    return torch.cat([p + (q - p) * part for way in ways for p, q in zip(way, way[1:])])


def _clear(spot, wide, high, points):
    r"""How far words of this half width and height are from the nearest of these points."""
    return (((points - torch.tensor(spot)).abs() - torch.tensor([wide, high])).amax(-1)).min().item()


def _names(words, tips, ends, lines):
    r"""Where the arrows' names stand, {name: (x, y)}: beside their tips, clear of each other and of the mirrors' ends.

    words, tips: {name: ...}; ends: where the mirrors can be taken hold of, and their names; lines: points of lines that
    names had better not stand on.
    """
    taken = [(*end, *room) for end, room in ends]
    found = {}
    for name, tip in tips.items():
        rows = words[name].split("<br>")
        wide, high = 0.038 * max(map(len, rows)), ROW * len(rows)
        heads = [(*head.tolist(), 0.05, 0.05) for other, head in tips.items() if other != name]
        spots = [
            (tip + torch.tensor([(wide + out) * math.cos(angle), (high + out) * math.sin(angle)])).tolist()
            for out in (0.08, 0.25)
            for angle in (k * math.pi / 8 for k in range(16))
        ]
        spots = [(x, y) for x, y in spots if abs(x) + wide < 1.7 and abs(y) + high < 1.6]
        gap = {
            (x, y): min(max(abs(x - u) - wide - w, abs(y - v) - high - h) for u, v, w, h in taken + heads)
            for x, y in spots
        }
        off = {spot: min(_clear(spot, wide, high, lines), 0) for spot in spots}
        x, y = max(spots, key=lambda spot: min(gap[spot], 0.08) + 0.2 * off[spot] + 0.01 * math.hypot(*spot))
        found[name] = x, y
        if words[name]:
            taken.append((x, y, wide, high))
    return found


def _mirrors(a, b, strength):
    ways = {"a, then b": through(a, b, strength), "b, then a": through(b, a, strength)}
    looks = {"a, then b": (COLORS["blue"], "solid"), "b, then a": (COLORS["red"], "dash")}
    ends = {"a": direction(a + 90), "b": direction(b - 90)}  # on two sides of the drawing: they never meet
    between = (b - a + 90) % 180 - 90  # from mirror a to mirror b, the shorter way
    arc = torch.stack([0.62 * direction(a - 90 + between * part / 8) for part in range(9)])
    start = math.degrees(math.atan2(KEY[1], KEY[0]))
    turned = {name: turn(way[-1]) for name, way in ways.items()}
    pale = {"a, then b": "rgba(0, 114, 178, 0.22)", "b, then a": "rgba(192, 57, 43, 0.22)"}
    around = torch.stack([direction(5 * part) for part in range(73)])
    data = [
        dict(
            type="scatter",
            name="as long as the key",
            x=around[:, 0],
            y=around[:, 1],
            mode="lines",
            line=dict(color=COLORS["gray"], width=1, dash="dot"),
            hoverinfo="skip",
        ),
        *(_sector(f"turn, {name}", way[-1], *looks[name], pale[name]) for name, way in ways.items()),
        _mirror("a", ends["a"], COLORS["orange"], "dot"),
        _mirror("b", ends["b"], COLORS["purple"], "8px,3px"),
        *(
            label(
                f"name of {name}",
                *beyond(ends[name] * HALF, side),
                f"<b>mirror {name}</b>",
                COLORS[color],
                "middle center",
                cliponaxis=False,
            )
            for name, color, side in (("a", "orange", -1), ("b", "purple", 1))
        ),
        dict(
            type="scatter",
            name="between the mirrors",
            x=arc[:, 0],
            y=arc[:, 1],
            mode="lines",
            line=dict(color=COLORS["ink"], width=2),
            hoverinfo="skip",
            showlegend=False,
        ),
        _arrows("key", [(0, 0), KEY.tolist()], COLORS["gray"], "dashdot", 4),
        _arrows("the way a, then b", ways["a, then b"].tolist(), *looks["a, then b"], 1.5, opacity=0.8),
        *(
            _arrows(name, [(0, 0), way[-1].masked_fill(way[-1].norm() < 1e-9, math.nan).tolist()], *looks[name], 4)
            for name, way in ways.items()
        ),
    ]
    words = {name: name for name in ("key", *ways)}
    one, other = (way[-1] for way in ways.values())
    apart, same = (one - other).norm().item(), turned["a, then b"] == turned["b, then a"]
    if apart < 1e-6:
        unmoved, gone = (one - KEY).norm() < 1e-6, one.norm() < 1e-6
        words |= {"a, then b": "both orders" + "<br>unmoved" * unmoved + "<br>nothing left" * gone, "b, then a": ""}
        words["key"] = "" if unmoved else "key"
    tips = {"key": KEY, **{name: way[-1] for name, way in ways.items()}}
    colors = {"key": COLORS["gray"], **{name: look[0] for name, look in looks.items()}}
    ring = [((end * HALF).tolist(), (0.17, 0.17)) for end in ends.values()]
    shown = [
        name for name, angle in turned.items() if abs(angle) >= 12 and not (same and name != "a, then b")
    ]  # of two angles that are the same, one; nan is none
    steps, middles = _along(ways["a, then b"]), {}
    full = [steps, *(end * HALF + 0.17 * around[::9] for end in ends.values())]
    for name in shown:  # of these places the first that no thin arrow runs through, and no other words
        places = [out * direction(start + turned[name] / 2) for out in (0.77, 0.95, 0.6, 1.15)]
        middles[name] = max(places, key=lambda spot: min(_clear(spot.tolist(), 0.24, ROW, torch.cat(full)), 0))
        full.append(middles[name] + torch.tensor([0.2, 0.1]) * around[::9])
    corner = 0.86 * direction(a - 90 + between / 2)
    ring += [(spot.tolist(), (0.26, ROW)) for spot in (*middles.values(), *([corner] if between else []))]
    ring += [(beyond(ends[name] * HALF, side), (0.4, ROW)) for name, side in (("a", -1), ("b", 1))]
    origin = torch.zeros(2, dtype=torch.float64)
    mirrors = [(-HALF * end, HALF * end) for end in ends.values()]
    lines = torch.cat((steps, _along(*mirrors, *((origin, tip) for tip in tips.values()))))
    places = _names(words, tips, ring, lines)
    data += [
        *(
            label(
                f"name of the arrow, {name}",
                *places[name],
                f"<b>{words[name]}</b>" if words[name] else "",
                colors[name],
                "middle center",
                halo=True,
                cliponaxis=False,
            )
            for name in tips
        ),
        label(
            "angle of the mirrors",
            *corner.tolist(),
            f"<b>{abs(between)}°</b>" if between else "",
            COLORS["ink"],
            "middle center",
            halo=True,
        ),
        *(
            label(
                f"angle, {name}",
                *(middles[name] if name in shown else KEY).tolist(),
                f"<b>{signed(angle)}°</b>" if name in shown else "",
                looks[name][0],
                "middle center",
                halo=True,
            )
            for name, angle in turned.items()
        ),
    ]
    axis = dict(range=[-1.6, 1.6], showgrid=False, showticklabels=False, ticks="")
    layout = dict(
        height=480,
        showlegend=False,
        margin=dict(t=4),
        xaxis=axis | dict(title=dict(text="lane 0<br><i>thin arrows: a, then b, step by step</i>")),
        yaxis=axis | dict(scaleanchor="x", title=dict(text="lane 1")),
    )
    lengths = [number(tip.norm().item()) for tip in (one, other)]
    return dict(data=data, layout=layout), {"lengths": ", ".join(lengths), "apart": apart}


mirrors = explorable(
    _mirrors,
    id="moving_ruler.mirrors",
    title="Two reflections, in two orders",
    alt=(
        "A key as a gray arrow, and two mirrors through its foot, each square to its w, a dotted and b dashed, whose "
        "ends can be dragged. An arc names the angle between them. "
        "A dotted circle is as far out as the key is long. "
        "Thin arrows take the key's tip straight across mirror a and then across b. Thick arrows show where this way "
        "ends, blue and solid, and the other order, red and dashed, and a slice how far each has turned. "
        "At full strength both have turned the key by twice the angle between the mirrors, the one to the left, the "
        "other to the right; they meet only where the mirrors are parallel or square to each other."
    ),
    readout="the two ends: {apart:.2f} apart · lengths {lengths}",
    depends={
        "mirror of a": ["a"],
        "mirror of b": ["b"],
        "name of a": ["a"],
        "name of b": ["b"],
        **{name: ["a", "b"] for name in ("between the mirrors", "angle of the mirrors")},
        **{name: [] for name in ("as long as the key", "key", "layout")},
    },
    handles={"mirror of a": "a", "mirror of b": "b"},
    a=slider(range(0, 180, 15), label="mirror a stands at", default=15, format=lambda v: f"{v + 90}°"),
    b=slider(range(0, 180, 15), label="mirror b stands at", default=45, format=lambda v: f"{v + 90}°"),
    strength=slider([0.5, 1.0, 1.5, 2.0], label="strength β", default=2.0),
)


def _slot(fit, empty, others):
    scores = torch.zeros(1, 1, 1, 1 + others, dtype=torch.float64)
    scores[..., 0] = fit
    visible = torch.ones(1 + others, dtype=torch.bool)
    with_slot = sink.weigh(scores, visible, torch.tensor([empty], dtype=torch.float64))[0, 0, 0]
    plain = torch.softmax(scores[0, 0, 0], dim=-1)
    left = 1 - with_slot.sum().item()
    bars = ["the key that fits", "all others", "the sink"]
    plain_shares = [plain[0].item(), plain[1:].sum().item(), 0.0]
    shares = [with_slot[0].item(), with_slot[1:].sum().item(), left]
    places = torch.arange(3)
    side = places + 0.22  # where the bars with a sink stand

    def bar(name, values, color, pattern, **parts):
        marker = dict(color=color, pattern=dict(shape=pattern))
        words = f"{name}, %{{customdata}}: %{{y:.3f}}<extra></extra>"
        return dict(
            type="bar", name=name, x=places, y=values, customdata=bars, marker=marker, hovertemplate=words, **parts
        )

    data = [
        bar(
            "softmax",
            plain_shares,
            COLORS["gray"],
            "/",
            text=[f"{v:.2f}" for v in plain_shares],
            textposition="outside",
        ),
        bar("with a sink", shares, COLORS["blue"], ""),
        label(
            "weights with a sink",
            side,
            [v + 0.09 for v in shares],
            [f"{v:.2f}" for v in shares],
            COLORS["blue"],
            "middle center",
        ),
        held("what fits", side[0].item(), shares[0]),
        held("what is left", side[2].item(), shares[2]),
    ]
    layout = dict(
        height=360,
        barmode="group",
        xaxis=dict(range=[-0.5, 2.5], tickvals=places, ticktext=bars, showgrid=False, zeroline=False),
        yaxis=dict(range=[0, 1.16], title=dict(text="weight"), showgrid=False),  # each bar has its number
    )
    return dict(data=data, layout=layout), {"left": left, "factor": 1 - left}


slot = explorable(
    _slot,
    id="moving_ruler.slot",
    title="A slot for nobody",
    alt=(
        "Bars of the weight that goes to the key that fits, to all others together and to nobody, with and without a "
        "sink. Without one the others share everything when nothing fits; with one the sink takes it. The diamonds can "
        "be dragged."
    ),
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
    data = [
        dict(
            type="scatter",
            name="own curve",
            x=DISTANCE,
            y=own,
            mode="lines+markers",
            line=dict(color=COLORS["blue"], width=3),
            marker=dict(size=5),
            hovertemplate="distance %{x}: adds %{y:.2f}<extra></extra>",
        ),
        *(
            dict(
                type="scatter",
                name=name,
                x=DISTANCE[:EXTENT],
                y=curve,
                mode="lines",
                line=dict(color=color, width=2, dash=dash),
                hoverinfo="skip",
            )
            for name, curve, color, dash in zip(
                ("near", "far"), bank(), (COLORS["orange"], COLORS["purple"]), ("dot", "dash")
            )
        ),
        *(held(name, at, own[at].item()) for name, at in (("near end", 0), ("far end", EXTENT - 1))),
        label("its name", 21, own[21].item() - 0.6, "<b>mixture</b>", COLORS["blue"], "middle center", halo=True),
        label(
            "names of the curves",
            [3.5, 26],
            [2, 2.5],
            ["<b>near</b>", "<b>far</b>"],
            [COLORS["orange"], COLORS["purple"]],
            "middle center",
        ),
        label(
            "past the bank", (EXTENT + 39) / 2, -3, "past the<br>bank:<br>exactly 0", COLORS["ink"], "middle center", 12
        ),
        upright("the key in question", ASKED, -1.4, 6.2, COLORS["ink"], 1.5, "dashdot"),
        label("its distance", ASKED - 0.4, 5.3, f"a key {ASKED} back", COLORS["ink"], "middle left"),
    ]
    layout = dict(
        height=360,
        showlegend=False,
        margin=dict(t=8),
        xaxis=dict(range=[-2, 39.5], title=dict(text="distance i − j")),
        yaxis=dict(range=[-5, 6.2], tickvals=[-4, -2, 0, 2, 4], title=dict(text="added to the logit")),
        shapes=[
            dict(type="rect", x0=EXTENT - 0.5, x1=39.5, y0=0, y1=1, yref="paper", layer="below", line=dict(width=0))
            | dict(fillcolor="rgba(128, 128, 128, 0.18)")
        ],
    )
    return dict(data=data, layout=layout), {"at": signed(own[31], 2), "beyond": own[EXTENT:].abs().max().item()}


mixture = explorable(
    _mixture,
    id="moving_ruler.mixture",
    title="A curve of one's own",
    alt=(
        "Two thin curves over distance, one high for near keys and one for far ones, and a solid "
        "curve, their mixture. The solid curve drops to zero at distance 32, where a gray ground begins, whatever the "
        "shares are: an "
        "upright line marks a key 35 back, to which it adds nothing. The "
        "diamonds at its ends can be dragged."
    ),
    readout="at distance 31 it adds {at} · from 32 on {beyond:.2f}",
    depends={
        "near": [],
        "far": [],
        **{name: ["near", "back"] for name in ("own curve", "its name")},
        "the key in question": [],
        **{name: [] for name in ("its distance", "names of the curves", "past the bank")},
    },
    handles={"near end": "near", "far end": "back"},
    near=slider(SHARES, label="share of near", default=0.5, format=share),
    back=slider(SHARES, label="share of far", default=0.5, format=share),
)
