r"""Explorables of the chapter *When content moves the ruler*: two mirrors, a slot for nobody, a curve of one's own."""

import math

import torch

from posenc import inkling, sink
from posenc.lab.explore import COLORS, explorable, slider

KEY = torch.tensor([0.8, 0.6], dtype=torch.float64)
ORDERS = ("a, then b", "b, then a")
HALF = 1.15  # half the length of a drawn mirror


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


def _arrow(name, tip, color, dash="solid"):
    return dict(
        type="scatter",
        name=name,
        x=[0, tip[0].item()],
        y=[0, tip[1].item()],
        mode="lines+markers",
        line=dict(color=color, width=3, dash=dash),
        marker=dict(symbol="arrow", angleref="previous", size=[0, 15], color=color, opacity=1),
        hoverinfo="skip",
    )


def _mirror(name, degrees, color, dash):
    x, y = (direction(degrees + 90) * HALF).tolist()
    return dict(
        type="scatter",
        name=name,
        x=[-x, x],
        y=[-y, y],
        mode="lines",
        line=dict(color=color, width=2, dash=dash),
        hoverinfo="skip",
    )


def _names(tips):
    r"""A word beyond the tip of each arrow: {word: (tip, color)}."""
    ends = torch.stack([tip * (1 + 0.2 / tip.norm().clamp(min=0.2)) for tip, _ in tips.values()])
    return dict(
        type="scatter",
        name="names",
        x=ends[:, 0],
        y=ends[:, 1],
        mode="text",
        text=list(tips),
        textfont=dict(size=14, color=[color for _, color in tips.values()]),
        hoverinfo="skip",
    )


def _mirrors(a, b, strength, order):
    turned = order == ORDERS[0]
    steps = through(a, b, strength) if turned else through(b, a, strength)
    other = (through(b, a, strength) if turned else through(a, b, strength))[-1]
    first, last = ("a", "b") if turned else ("b", "a")
    apart = (steps[-1] - other).norm().item()
    tips = {
        "a": (direction(a + 90) * HALF, COLORS["orange"]),
        "b": (direction(b + 90) * HALF, COLORS["purple"]),
        "key": (steps[0], COLORS["gray"]),
        f"after {first}": (steps[1], COLORS["sky"]),
        f"after {first}, {last}": (steps[2], COLORS["blue"]),
        f"after {last}, {first}" if apart > 0.05 else "": (other, COLORS["red"]),
    }
    data = [
        _mirror("mirror of a", a, COLORS["orange"], "dot"),
        _mirror("mirror of b", b, COLORS["purple"], "longdash"),
        _arrow("the key", steps[0], COLORS["gray"], "dashdot"),
        _arrow("after the first", steps[1], COLORS["sky"], "dash"),
        _arrow("after both", steps[2], COLORS["blue"]),
        dict(
            type="scatter",
            name="after both, in the other order",
            x=[other[0].item()],
            y=[other[1].item()],
            mode="markers",
            marker=dict(symbol="diamond-open", size=14, color=COLORS["red"], line=dict(width=3)),
            hoverinfo="skip",
        ),
        _names(tips),
    ]
    axis = dict(range=[-1.5, 1.5], tickvals=[-1, 0, 1])
    layout = dict(
        height=440,
        showlegend=False,
        margin=dict(t=12),
        xaxis=axis | dict(title=dict(text="lane 0")),
        yaxis=axis | dict(scaleanchor="x", title=dict(text="lane 1")),
    )
    return dict(data=data, layout=layout), {"apart": apart, "length": steps[-1].norm().item()}


mirrors = explorable(
    _mirrors,
    id="moving_ruler.mirrors",
    title="Two reflections, in two orders",
    alt=(
        "A key as an arrow, two mirrors, a dotted and b dashed, whose ends can be dragged, the key after one "
        "reflection and after both, and a diamond where the other order would have brought it. Arrow and diamond meet "
        "only where the mirrors are parallel or square to each other."
    ),
    readout="the two orders end {apart:.2f} apart · the key's length is now {length:.2f}",
    depends={"mirror of a": ["a"], "mirror of b": ["b"], "the key": [], "layout": []},
    handles={"mirror of a": "a", "mirror of b": "b"},
    a=slider(range(0, 180, 15), label="direction a", default=15, format=lambda v: f"{v}°"),
    b=slider(range(0, 180, 15), label="direction b", default=60, format=lambda v: f"{v}°"),
    strength=slider([0.5, 1.0, 1.5, 2.0], label="strength β", default=2.0),
    order=slider(list(ORDERS), label="order"),
)


def _slot(fit, empty, others):
    scores = torch.zeros(1, 1, 1, 1 + others, dtype=torch.float64)
    scores[..., 0] = fit
    visible = torch.ones(1 + others, dtype=torch.bool)
    with_slot = sink.weigh(scores, visible, torch.tensor([empty], dtype=torch.float64))[0, 0, 0]
    plain = torch.softmax(scores[0, 0, 0], dim=-1)
    left = 1 - with_slot.sum().item()
    bars = ["the key that fits", f"the {others} others", "the sink"]

    def bar(name, values, color, pattern):
        marker = dict(color=color, pattern=dict(shape=pattern))
        text = [f"{value:.2f}" for value in values]
        said = dict(text=text, textposition="outside", hovertemplate=f"{name}, %{{x}}: %{{y:.3f}}<extra></extra>")
        return dict(type="bar", name=name, x=bars, y=values, marker=marker, **said)

    def grip(name, place, value):
        look = dict(symbol="diamond", size=12, color=COLORS["ink"])
        return dict(
            type="scatter",
            name=name,
            x=[bars[place]],
            y=[value],
            mode="markers",
            marker=look,
            hoverinfo="skip",
            showlegend=False,
        )

    data = [
        bar("softmax", [plain[0].item(), plain[1:].sum().item(), 0.0], COLORS["gray"], "/"),
        bar("with a sink", [with_slot[0].item(), with_slot[1:].sum().item(), left], COLORS["blue"], ""),
        grip("what fits", 0, with_slot[0].item()),
        grip("what is left", 2, left),
    ]
    layout = dict(height=360, barmode="group", yaxis=dict(range=[0, 1.12], title=dict(text="weight")))
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
    fit=slider(range(-2, 9), label="logit of the fitting key", default=1, format=lambda v: f"{v:+d}"),
    empty=slider(range(-4, 9), label="logit of the sink", default=3, format=lambda v: f"{v:+d}"),
    others=slider([4, 16, 64, 256], label="other keys, at logit 0", default=16),
)


EXTENT = 32
DISTANCE = torch.arange(40)


def bank():
    r"""Two curves over the distances 0 .. 31 [2, 32]: one for near keys, one for far ones."""
    d = torch.arange(EXTENT, dtype=torch.float64)
    return torch.stack((2 * torch.exp(-d / 4), 2 * torch.sigmoid((d - 16) / 2)))


def _mixture(near, back):
    mix = torch.tensor([[near, back]], dtype=torch.float64)
    own = inkling.curves(mix, bank(), DISTANCE[None])[0]
    data = [
        dict(
            type="scatter",
            name=name,
            x=DISTANCE[:EXTENT],
            y=curve,
            mode="lines",
            line=dict(color=color, width=1.5, dash=dash),
            hoverinfo="skip",
        )
        for name, curve, color, dash in zip(
            ("curve 0", "curve 1"), bank(), (COLORS["orange"], COLORS["purple"]), ("dot", "longdash")
        )
    ]
    data.extend(
        dict(
            type="scatter",
            name=name,
            x=[at],
            y=[own[at].item()],
            mode="markers",
            marker=dict(symbol="diamond", size=13, color=COLORS["ink"]),
            hoverinfo="skip",
            showlegend=False,
        )
        for name, at in (("near end", 0), ("far end", EXTENT - 1))
    )
    data.append(
        dict(
            type="scatter",
            name="own curve",
            x=DISTANCE,
            y=own,
            mode="lines+markers",
            line=dict(color=COLORS["blue"], width=3),
            marker=dict(size=4),
            hovertemplate="distance %{x}: adds %{y:.2f}<extra></extra>",
        )
    )
    layout = dict(
        height=360,
        xaxis=dict(range=[-0.5, 39.5], title=dict(text="distance i − j")),
        yaxis=dict(range=[-5, 5], title=dict(text="added to the logit")),
    )
    return dict(data=data, layout=layout), {"at": own[31].item(), "beyond": own[EXTENT:].abs().max().item()}


mixture = explorable(
    _mixture,
    id="moving_ruler.mixture",
    title="A curve of one's own",
    alt=(
        "Two thin curves over distance, one high for near keys and one for far ones, and a solid "
        "curve, their mixture. The solid curve drops to zero at distance 32, whatever the shares are. The "
        "diamonds at its ends can be dragged."
    ),
    readout="at distance 31 it adds {at:+.2f} · from 32 on {beyond:.2f}",
    depends={"curve 0": [], "curve 1": [], "own curve": ["near", "back"]},
    handles={"near end": "near", "far end": "back"},
    near=slider([-2, -1, -0.5, 0, 0.5, 1, 2], label="share of curve 0, near", default=1, format=lambda v: f"{v:+g}"),
    back=slider([-2, -1, -0.5, 0, 0.5, 1, 2], label="share of curve 1, far", default=0.5, format=lambda v: f"{v:+g}"),
)
