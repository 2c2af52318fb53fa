r"""Explorables of the ExpoSB chapter: a factor that fades, a filter over lanes, and what of it is relative."""

import math
from functools import cache

import torch

from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.figures.parts import held, signed, upright
from posenc.lab.figures.parts import level as line
from posenc.rotate.rope import inv_freq, rotate
from posenc.several.exposb import FORMS, band, fade, gain

KEYS = 1024  # keys of the row, at the distances 0 .. KEYS - 1
NEAR = 64  # the nearest keys, whose share of the weight is read out, and how many keys stand for one that is drawn
DRAWN = 43  # the one of them that is drawn: of this one no logit starts so near zero that its way cannot be seen
RATE, FLOOR = 0.005, 0.4  # of the fade that is drawn; the report's own floor is 0.7, where all this is fainter


def content_logits():
    """Seeded content logits, by distance: noise of spread 1.5 and mean 0, [KEYS]."""
    return 1.5 * torch.randn(KEYS, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def row(z, form, rate, floor, fade=fade):
    r"""Weights of a row of logits z, by distance [KEYS], with the fade in one of `FORMS`."""
    f = fade(torch.arange(KEYS, dtype=torch.float64), rate, floor)
    if form == "weights":
        return z.softmax(-1) * f
    return (z * f if form == "logits" else z + f.log()).softmax(-1)


def _fading(form, level, *, fade=fade):
    far = torch.arange(KEYS, dtype=torch.float64)
    z = content_logits() + level
    f = fade(far, RATE, FLOOR)
    moved = z * f if form == "logits" else z + f.log()  # a factor on a weight is its log, added to the logit
    plain, faded = z.softmax(-1), row(z, form, RATE, FLOOR, fade)
    drawn = torch.arange(DRAWN, KEYS, NEAR)
    x, before, after = far[drawn], z[drawn], moved[drawn]
    up = after > before
    gap = torch.full_like(x, math.nan)
    bars = torch.arange(0, KEYS, NEAR)
    change = (faded.view(-1, NEAR).sum(-1) / plain.view(-1, NEAR).sum(-1)).log2()

    def arrows(name, which, color, symbol):
        return dict(
            type="scatter",
            name=name,
            x=x[which],
            y=after[which],
            mode="markers",
            marker=dict(color=COLORS[color], size=10, symbol=symbol),
            hovertemplate="distance %{x:.0f}: logit %{y:.2f} after the fade<extra></extra>",
        )

    data = [
        line("zero", 0, -60, KEYS + 20, COLORS["gray"], 2),
        dict(
            type="scatter",
            name="the way of each logit",
            x=torch.stack((x, x, gap), -1).flatten(),
            y=torch.stack((before, after, gap), -1).flatten(),
            mode="lines",
            line=dict(color=COLORS["gray"], width=2),
            hoverinfo="skip",
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="before",
            x=x,
            y=before,
            mode="markers",
            marker=dict(color=COLORS["gray"], size=6),
            hovertemplate="distance %{x:.0f}: logit %{y:.2f} before<extra></extra>",
        ),
        arrows("lifted", up, "blue", "triangle-up"),
        arrows("lowered", ~up, "orange", "triangle-down"),
        line("mean of all logits", level, -60, KEYS + 20, COLORS["ink"], 2, "dash"),
        dict(
            type="bar",
            name="weight against that without the fade",
            x=bars + NEAR / 2,
            y=change,
            width=0.8 * NEAR,
            yaxis="y2",
            marker=dict(color=COLORS["green"]),
            text=[f"×{2**c:.2g}" if n in (0, len(change) - 1) else "" for n, c in enumerate(change.tolist())],
            textposition="outside",
            textfont=dict(size=12),
            constraintext="none",
            cliponaxis=False,
            customdata=2**change,
            hovertemplate="64 keys around distance %{x:.0f}: %{customdata:.2f} times their weight<extra></extra>",
            showlegend=False,
        ),
    ]
    layout = dict(
        height=460,
        xaxis=dict(range=[-60, KEYS + 20], title=dict(text="distance of the key, in tokens"), anchor="y2"),
        yaxis=dict(range=[-6.2, 6.2], domain=[0.4, 1], title=dict(text="logit"), tickvals=[-5, 0, 5]),
        yaxis2=dict(
            range=[-2.2, 3.3],
            domain=[0, 0.34],
            title=dict(text="weight, times"),
            tickvals=[-1, 0, 2],
            ticktext=["1/2", "1", "4"],
        ),
    )
    return dict(data=data, layout=layout), {
        "faded": faded[:NEAR].sum().item() / faded.sum().item(),
        "plain": plain[:NEAR].sum().item(),
        "sum": faded.sum().item(),
    }


fading = explorable(
    _fading,
    id="exposb.fading",
    title="A factor that fades lifts what is below zero",
    alt="Above, the logits of sixteen keys by distance, each with a line from where it was to where the fade brings "
    "it. On logits all go towards zero, farther away the more: those above zero fall, those below rise. On weights and "
    "on log all fall by the same curve. A dashed line, the mean of all logits, can be dragged up and down. Below, by "
    "how much the weight of each 64 keys grows or shrinks: with the mean below zero on logits, near keys lose and far "
    "ones gain; with the mean above zero it is the reverse. The fade has rate 0.005 and floor 0.4.",
    readout=f"nearest {NEAR} hold {{faded:.1%}} · without {{plain:.1%}} · row sum {{sum:.2f}}",
    handles={"mean of all logits": "level"},
    depends={"zero": [], "layout": [], "mean of all logits": ["level"], "before": ["level"], "readout.plain": []},
    form=slider(FORMS, label="the factor acts on"),
    level=slider(range(-3, 4), label="added to all logits", default=0, format=signed),
)


# The filter over the ladder of frequencies

OFF, LANES, PAIRS = "off", "lane by lane", "pair by pair"


def _filter(head_dim, which):
    return torch.ones(head_dim, dtype=torch.float64) if which == OFF else band(head_dim, which == PAIRS)


def turning(head_dim, which):
    r"""The part of each pair's score that turns with m + n, against the part that is relative: [D/2]."""
    even, odd = _filter(head_dim, which).view(-1, 2).unbind(-1)
    return (even**2 - odd**2) / (even**2 + odd**2)


def _ladder(which, pairs, pair):
    head_dim = 2 * pairs
    c, part = _filter(head_dim, which), turning(head_dim, which)
    even, odd = c[0::2], c[1::2]
    lane = torch.arange(head_dim) / head_dim
    middle = (lane[0::2] + lane[1::2]) / 2
    at = min(pair, pairs) - 1  # a state with fewer pairs than that is never shown
    gap = torch.full_like(even, math.nan)
    data = [
        dict(
            type="scatter",
            name="the two lanes of a pair",
            x=torch.stack((lane[0::2], lane[1::2], gap), -1).flatten(),
            y=torch.stack((even, odd, gap), -1).flatten(),
            mode="lines",
            line=dict(color=COLORS["gray"], width=3),
            hoverinfo="skip",
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="even lane",
            x=lane[0::2],
            y=even,
            mode="markers",
            marker=dict(color=COLORS["blue"], size=8),
            hovertemplate="even lane: factor %{y:.3f}<extra></extra>",
        ),
        dict(
            type="scatter",
            name="odd lane",
            x=lane[1::2],
            y=odd,
            mode="markers",
            marker=dict(color=COLORS["orange"], size=9, symbol="diamond-open", line=dict(width=2)),
            hovertemplate="odd lane: factor %{y:.3f}<extra></extra>",
        ),
        dict(
            type="bar",
            name="part that turns with m + n",
            x=middle,
            y=100 * part,
            yaxis="y2",
            width=1.5 / head_dim,
            marker=dict(color=COLORS["red"]),
            hovertemplate="%{y:.1f}% of this pair's score turns with m + n<extra></extra>",
            showlegend=False,
        ),
        upright("this pair", middle[at], 0.74, 1.26, COLORS["ink"], 2, "dot"),
        upright("this pair, below", middle[at], -22, 22, COLORS["ink"], 2, "dot", yaxis="y2"),
    ]
    quarters = [0, 0.25, 0.5, 0.75]
    layout = dict(
        height=460,
        xaxis=dict(
            range=[-0.03, 1.01],
            anchor="y2",
            title=dict(text="wavelength of a pair, in tokens"),
            tickvals=quarters,
            ticktext=[f"{2 * math.pi * 10_000**x:,.0f}" for x in quarters],
        ),
        yaxis=dict(range=[0.74, 1.26], domain=[0.5, 1], title=dict(text="factor"), tickvals=[0.8, 1, 1.2]),
        yaxis2=dict(
            range=[-22, 22],
            domain=[0, 0.4],
            title=dict(text="turning"),
            tickvals=[-20, 0, 20],
            ticktext=["−20%", "0", "+20%"],
        ),
    )
    wave = 2 * math.pi / inv_freq(head_dim, dtype=torch.float64)[at].item()
    return dict(data=data, layout=layout), {
        "wave": f"{wave:,.0f}",
        "even": even[at].item(),
        "odd": odd[at].item(),
        "turning": f"{signed(100 * part[at], 1)}%",
    }


ladder = explorable(
    _ladder,
    id="exposb.ladder",
    title="The filter over the ladder of frequencies",
    alt="Above, the factor on each lane from the fastest pair to the slowest, the two lanes of a pair joined: a bump "
    "around a quarter of the lanes. Lane by lane the joined ends stand at different heights on the slopes of the "
    "bump; pair by pair they are level. Below, a bar for each pair: how much of its score turns with the sum of the "
    "positions. Bars stand on the slopes and have opposite signs on its two sides; pair by pair there are none. A "
    "dotted line, the chosen pair, can be dragged.",
    readout="turns in {wave} tokens · factors {even:.2f}, {odd:.2f} · turns with m + n: {turning}",
    handles={"this pair": "pair", "this pair, below": "pair"},
    depends={
        "the two lanes of a pair": ["which", "pairs"],
        "even lane": ["which", "pairs"],
        "odd lane": ["which", "pairs"],
        "part that turns with m + n": ["which", "pairs"],
        "this pair": ["pairs", "pair"],
        "this pair, below": ["pairs", "pair"],
        "readout.wave": ["pairs", "pair"],
    },
    which=slider([LANES, PAIRS], label="filter"),
    pairs=slider([4, 8, 16, 32], label="head size D", default=8, format=lambda n: f"{2 * n}"),
    pair=slider(range(1, 33), label="pair", default=2, at_most="pairs"),
)


# The score of one offset, wherever it stands

FAR, CLOSE = torch.arange(0, 4001, 100), torch.arange(0, 257, 2)  # positions of the key in the two panels
HELD = 1000  # where the curve of the gain is taken in hand


@cache
def _vector(head_dim):
    return torch.randn(head_dim, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def offset_scores(head_dim, offset, positions, *, factors=None, rates=None):
    r"""Score / sqrt(D) of a query and a key of one content `offset` apart, with the key at each of `positions`."""
    frequencies = inv_freq(head_dim, dtype=torch.float64)
    turned = []
    for at in (positions + offset, positions):
        x = rotate(_vector(head_dim).expand(len(at), head_dim), at.double(), frequencies)
        x = x if factors is None else x * factors
        turned.append(x if rates is None else x * gain(at.double(), rates)[:, None])
    return (turned[0] * turned[1]).sum(-1) / math.sqrt(head_dim)


def _same_offset(offset, head_dim, rate):
    unit = (_vector(head_dim).norm() ** 2 / math.sqrt(head_dim)).item()
    rope_far = offset_scores(head_dim, offset, FAR) / unit
    gained = offset_scores(head_dim, offset, FAR, rates=float(rate)) / unit
    moved = {}
    for which in (LANES, PAIRS):
        s = offset_scores(head_dim, offset, CLOSE, factors=_filter(head_dim, which))
        moved[which] = (s - s.mean()) / unit
    data = [
        dict(
            type="scatter",
            name="RoPE",
            x=FAR[[0, -1]],
            y=rope_far[[0, -1]],
            mode="lines",
            line=dict(color=COLORS["gray"], width=2, dash="dot"),
            hovertemplate="RoPE: score %{y:.3f} at every position<extra></extra>",
        ),
        dict(
            type="scatter",
            name="gain",
            x=FAR,
            y=gained,
            mode="lines",
            line=dict(color=COLORS["orange"], width=3),
            hovertemplate="gain, key at %{x}: score %{y:.3f}<extra></extra>",
        ),
        held("gain at a thousand", HELD, gained[FAR == HELD].item(), COLORS["orange"], "circle"),
        dict(
            type="scatter",
            name="filter by lane",
            x=CLOSE,
            y=moved[LANES],
            mode="lines",
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["red"], width=2),
            hovertemplate="filter by lane, key at %{x}: %{y:+.3f}<extra></extra>",
        ),
        dict(
            type="scatter",
            name="filter by pair",
            x=CLOSE,
            y=moved[PAIRS],
            mode="lines",
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["blue"], width=3, dash="dash"),
            hovertemplate="filter by pair, key at %{x}: %{y:+.3f}<extra></extra>",
        ),
    ]
    layout = dict(
        height=480,
        xaxis=dict(range=[-50, 4050], anchor="y", tickvals=[0, 1000, 2000, 3000, 4000]),
        yaxis=dict(range=[-0.15, 1.55], domain=[0.58, 1], title=dict(text="score")),
        xaxis2=dict(range=[-3, 259], anchor="y2", title=dict(text="position n of the key (m = n + offset)")),
        yaxis2=dict(
            range=[-0.11, 0.11],
            domain=[0, 0.44],
            title=dict(text="score − mean"),
            tickvals=[-0.1, 0, 0.1],
            ticktext=["−0.1", "0", "+0.1"],
        ),
    )

    def swing(s):
        return (s.max() - s.min()).item()

    return dict(data=data, layout=layout), {
        "gain": swing(gained),
        "lanes": swing(moved[LANES]),
        "pairs": swing(moved[PAIRS]),
    }


same_offset = explorable(
    _same_offset,
    id="exposb.same_offset",
    title="One offset, many positions",
    alt="Above, the score of a query and a key of one content, a fixed offset apart, as both move along: RoPE's is a "
    "flat line, with the gain it falls towards that line. A dot on the curve of the gain can be dragged. Below, close "
    "up, the score less its mean: with the filter by lane it wiggles, with the filter by pair it is flat. Scores are "
    "in units of |q||k|/√D; the readout says by how much each of the three moves.",
    readout="moved by gain {gain:.3f} · lane filter {lanes:.3f} · pair filter {pairs:.3f}",
    handles={"gain at a thousand": "rate"},
    depends={
        "RoPE": ["offset", "head_dim"],
        "filter by lane": ["offset", "head_dim"],
        "filter by pair": ["offset", "head_dim"],
        "readout.lanes": ["offset", "head_dim"],
        "readout.pairs": ["offset", "head_dim"],
    },
    offset=slider([0, 1, 2, 5, 10, 50], label="offset m − n", default=1),
    head_dim=slider([8, 16, 32, 64], label="head size D", default=8),
    rate=slider([0.0, 0.0001, 0.0003, 0.0005, 0.001, 0.002, 0.003, 0.01], label="rate of the gain", default=0.001),
)
