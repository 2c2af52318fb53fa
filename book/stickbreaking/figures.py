r"""The explorable of the stick-breaking chapter: what more keys do to a weight."""

import functools

import torch

from posenc import stickbreaking
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, label, path, pin, signed

COUNTS = (0, 1, 4, 16, 64, 256, 1024, 4096)
PARTS = {  # of the weight: who has it
    "nearer keys": dict(color=COLORS["gray"], pattern=dict(shape="x", fillmode="replace")),
    "the match": dict(color=COLORS["green"], pattern=dict(shape="")),
    "farther keys": dict(color=COLORS["orange"], pattern=dict(shape="/", fillmode="replace")),
    "left over": dict(color=COLORS["gray"], pattern=dict(shape=".", fillmode="replace")),
}


@functools.lru_cache(maxsize=512)
def _shares(match, rest, between, weigh):
    r"""What each of `PARTS` has under softmax and stick-breaking, for each number of far keys: two [4, counts]."""
    nearer, far = int(between), max(COUNTS)
    z = torch.full((1, far + 1 + nearer), float(rest), dtype=torch.float64)
    z[0, far] = match
    here = torch.arange(z.shape[1]) >= far - torch.tensor(COUNTS)[:, None]  # [counts, keys]: far keys stand in front
    soft = torch.softmax(z.expand_as(here).masked_fill(~here, float("-inf")), dim=-1)
    take, left = weigh(z.expand_as(here), here, "recent", return_remainder=True)

    def parts(weights, rest):
        return torch.stack((weights[:, far + 1 :].sum(-1), weights[:, far], weights[:, :far].sum(-1), rest))

    return parts(soft, torch.zeros_like(left)), parts(take, left)


def _dilution(far, match, rest, between, *, weigh=stickbreaking.weigh):
    soft, stick = _shares(match, rest, between, weigh)
    n = COUNTS.index(far)
    places = list(range(len(COUNTS)))  # an evenly spaced axis that can hold 0

    def curve(name, y, color, dash, symbol):
        hover = f"%{{customdata:,}} keys farther away: weight of the match %{{y:.3f}}, {name}<extra></extra>"
        marker = dict(symbol=symbol, size=8)
        return path(name, places, y, color, 2.5, dash, hover=hover, marker=marker, customdata=COUNTS, showlegend=False)

    both = torch.stack((soft[:, n], stick[:, n]), -1)  # [parts, 2]
    starts = both.cumsum(0) - both
    data, aside = [], dict(panel=2, orientation="h", width=0.7, showlegend=True)
    for (part, look), share, start in zip(PARTS.items(), both, starts):
        more = dict(aside, base=start, customdata=share, marker=look | dict(line=dict(color=COLORS["ink"], width=1)))
        data.append(bars(part, share, [0, 1], hover=f"{part}: %{{customdata:.3f}}", **more))
    ends = [float(stick[1, -1]), float(soft[1, -1])]
    low = max(min(ends), 0.04)
    high = max(max(ends), low + 0.16)
    heights = [high, low] if ends[0] >= ends[1] else [low, high]  # of the names: on the plot, and apart
    data += [
        curve("stick-breaking", stick[1], "blue", "solid", "circle"),
        curve("softmax", soft[1], "purple", "dash", "diamond"),
        label("names", [places[-1] + 0.2] * 2, heights, ["stick", "softmax"], ["blue", "purple"], "middle right"),
        pin("here", n, -0.04, 1.13),
    ]
    bare = dict(showgrid=False, zeroline=False)
    # few enough to lie flat and whole on a narrow screen
    few = dict(tickmode="array", tickvals=[0, *places[1::2]], tickangle=0)
    few |= dict(ticktext=[f"{count:,}" for count in (COUNTS[0], *COUNTS[1::2])])
    layout = dict(
        height=440,
        barmode="overlay",
        meta=dict(phone=dict(xaxis=dict(range=[-0.3, len(COUNTS) + 1.1]))),
        xaxis=axis(-0.3, len(COUNTS) + 0.1, "keys farther away than the match", **few),
        yaxis=axis(-0.04, 1.16, "weight of the match", domain=[0, 0.62], tickvals=[0, 0.5, 1]),
        xaxis2=axis(0, 1, anchor="y2", showticklabels=False, **bare),
        yaxis2=axis(-0.5, 1.5, domain=[0.74, 1], anchor="x2", tickvals=[0, 1], ticktext=["softmax", "stick"], **bare),
    )
    words = {"stick": float(stick[1, n]), "soft": float(soft[1, n]), "left": float(stick[3, n])}
    return dict(data=data, layout=layout), words


dilution = explorable(
    _dilution,
    title="More keys behind the match",
    alt="Above, two bars, who has the weight under softmax and who under stick-breaking: nearer keys, the match, "
    "farther keys, and what is left over of the stick. Below, the weight of the match against the number of keys "
    "farther away. The softmax curve falls as keys are added; the stick-breaking curve is flat, and in its bar "
    "farther keys take only from what was left over. An upright line is dragged to a number of keys.",
    readout="stick {stick:.3f} · softmax {soft:.3f} · left over {left:.3f}",
    handles={"here": "far"},
    far=slider(COUNTS, label="keys farther away", default=256, format=lambda v: f"{v:,}", play=True),
    match=slider([0, 1, 2, 4, 6], label="logit of the match", default=2, format=signed),
    rest=slider([-8, -6, -4, -2, 0], label="logit of all other keys", default=-4, format=signed),
    between=slider([0, 1, 4, 16, 64], label="keys nearer than the match", default=1),
)
