r"""Explorables of the ExpoSB chapter: a factor that fades, a filter over lanes, and what of it is relative."""

import math
from functools import cache

import torch

from posenc.bias.alibi import slopes
from posenc.lab.explore import COLORS, explorable, slider
from posenc.rotate.rope import inv_freq, rotate
from posenc.several.exposb import FORMS, band, fade, gain

KEYS = 1024  # keys of the row, at the distances 0 .. KEYS - 1
EVERY = 8  # of which each eighth is drawn
NEAR = 64  # the nearest keys, whose share of the weight is read out
LOW, HIGH = -2.0, 1.0  # decades drawn below and above "as without it"


def content_logits():
    """Seeded content logits, by distance: noise of spread 1.5 and mean 0, [KEYS]."""
    return 1.5 * torch.randn(KEYS, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def row(z, form, rate, floor, fade=fade):
    r"""Weights of a row of logits z, by distance [KEYS], with the fade in one of `FORMS`."""
    f = fade(torch.arange(KEYS, dtype=torch.float64), rate, floor)
    if form == "weights":
        return z.softmax(-1) * f
    return (z * f if form == "logits" else z + f.log()).softmax(-1)


def _decades(ratio):
    """Base-10 logarithms for a drawing, gaps where they leave it."""
    return [x if LOW <= x <= HIGH else math.nan for x in ratio.log10().tolist()]


def _fading(form, rate, floor, level, slope, distance, *, fade=fade):
    far = torch.arange(KEYS, dtype=torch.float64)
    z = content_logits() + level
    plain, faded = z.softmax(-1), row(z, form, rate, floor, fade)
    alibi = (z - slope * far).softmax(-1)
    f = fade(far, rate, floor)
    drawn = torch.arange(0, KEYS, EVERY)
    ratio = (faded / plain)[drawn]
    high = z[drawn] > 0
    at = int(distance)
    data = [
        dict(
            type="scatter",
            name="ExpoSB's factor",
            x=drawn,
            y=f[drawn],
            mode="lines",
            line=dict(color=COLORS["blue"], width=3),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="ALiBi's factor on a weight",
            x=drawn,
            y=torch.exp(-slope * far)[drawn],
            mode="lines",
            line=dict(color=COLORS["orange"], width=2, dash="dash"),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="at this distance",
            x=[at],
            y=f[at : at + 1],
            mode="markers",
            marker=dict(color=COLORS["blue"], size=12, symbol="diamond"),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="logit above 0",
            x=drawn[high],
            y=_decades(ratio[high]),
            mode="markers",
            yaxis="y2",
            marker=dict(color=COLORS["blue"], size=5),
        ),
        dict(
            type="scatter",
            name="logit below 0",
            x=drawn[~high],
            y=_decades(ratio[~high]),
            mode="markers",
            yaxis="y2",
            marker=dict(color=COLORS["red"], size=7, symbol="x-thin-open"),
        ),
        dict(
            type="scatter",
            name="ALiBi",
            x=drawn,
            y=_decades((alibi / plain)[drawn]),
            mode="lines",
            yaxis="y2",
            line=dict(color=COLORS["orange"], width=2, dash="dash"),
        ),
    ]
    layout = dict(
        height=520,
        xaxis=dict(range=[-20, KEYS + 10], title=dict(text="distance of the key, in tokens"), anchor="y2"),
        yaxis=dict(range=[-0.05, 1.08], domain=[0.62, 1], title=dict(text="factor")),
        yaxis2=dict(
            range=[LOW - 0.1, HIGH + 0.1],
            domain=[0, 0.5],
            title=dict(text="weight, times"),
            tickvals=[-2, -1, 0, 1],
            ticktext=["1/100", "1/10", "as it was", "10"],
        ),
    )
    return dict(data=data, layout=layout), {
        "at": at,
        "factor": f[at].item(),
        "plain": plain[:NEAR].sum().item(),
        "faded": faded[:NEAR].sum().item() / faded.sum().item(),
        "alibi": alibi[:NEAR].sum().item(),
        "sum": faded.sum().item(),
    }


fading = explorable(
    _fading,
    id="exposb.fading",
    title="A factor that fades, and what attention makes of it",
    alt="Above, two curves fall with distance: ExpoSB's factor to its floor, ALiBi's factor to zero. Below, "
    "by how much the weight of each key changes against attention without either. On logits, dots (logit above zero) "
    "fall and crosses (below zero) rise with distance; on log, all lie on one curve that falls.",
    readout=f"factor at distance {{at}}: {{factor:.4f}} · share of the nearest {NEAR} keys: without {{plain:.1%}}, "
    "ExpoSB {faded:.1%}, ALiBi {alibi:.1%} · row sums to {sum:.3f}",
    depends={
        "ExpoSB's factor": ["rate", "floor"],
        "ALiBi's factor on a weight": ["slope"],
        "at this distance": ["rate", "floor", "distance"],
        "logit above 0": ["form", "rate", "floor", "level"],
        "logit below 0": ["form", "rate", "floor", "level"],
        "ALiBi": ["slope"],
        "readout.at": ["distance"],
        "readout.factor": ["rate", "floor", "distance"],
        "readout.plain": [],
        "readout.faded": ["form", "rate", "floor", "level"],
        "readout.alibi": ["slope"],
        "readout.sum": ["form", "rate", "floor", "level"],
    },
    form=slider(FORMS, label="the factor multiplies", format=lambda v: {"log": "log: added to logits"}.get(v, v)),
    level=slider([-6, -3, 0, 3, 6], label="added to all logits", default=0, format=lambda v: f"{v:+d}" if v else "0"),
    rate=slider([0.0, 0.001, 0.005, 0.02, 0.1], label="rate a", default=0.005),
    floor=slider([0.1, 0.4, 0.7, 1.0], label="floor", default=0.7),
    slope=slider(slopes(8).tolist(), label="ALiBi's slope", default=2**-8, format=lambda m: f"1/{1 / m:.0f}"),
    distance=slider([0, 1, 5, 10, 50, 100, 200, 500, 1000], label="distance", default=100),
)


# The filter over the ladder of frequencies

OFF, LANES, PAIRS = "off", "lane by lane", "pair by pair"


def _filter(head_dim, which):
    return torch.ones(head_dim, dtype=torch.float64) if which == OFF else band(head_dim, which == PAIRS)


def _ladder(head_dim, which, position, boost):
    g = gain(torch.tensor([float(position)], dtype=torch.float64), boost=boost)
    c = _filter(head_dim, which)
    even, odd = c[0::2], c[1::2]
    pairs = torch.arange(head_dim // 2)
    middle = (2 * pairs + 0.5) / head_dim
    relative, mirrored = (even**2 + odd**2) / 2, (even**2 - odd**2) / 2
    lane = torch.arange(head_dim) / head_dim
    data = [
        dict(
            type="scatter",
            name="even lanes",
            x=lane[0::2],
            y=g * even,
            mode="markers",
            marker=dict(color=COLORS["blue"], size=7),
        ),
        dict(
            type="scatter",
            name="odd lanes",
            x=lane[1::2],
            y=g * odd,
            mode="markers",
            marker=dict(color=COLORS["orange"], size=8, symbol="diamond-open"),
        ),
        dict(
            type="bar",
            name="relative part of a pair's score",
            x=middle,
            y=relative,
            yaxis="y2",
            width=1.6 / head_dim,
            marker=dict(color=COLORS["green"]),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="part that turns with m + n",
            x=middle,
            y=mirrored / relative,
            yaxis="y3",
            mode="lines+markers",
            line=dict(color=COLORS["red"], width=2),
            marker=dict(symbol="square", size=5),
            showlegend=False,
        ),
    ]
    waves = 2 * math.pi / inv_freq(head_dim, dtype=torch.float64)
    quarters = [0, 0.25, 0.5, 0.75]
    layout = dict(
        height=560,
        xaxis=dict(
            range=[-0.03, 1.03],
            anchor="y3",
            title=dict(text="lane, and its wavelength in tokens"),
            tickvals=quarters,
            ticktext=[f"{int(x * head_dim)}<br>{waves[int(x * head_dim / 2)]:,.0f}" for x in quarters],
        ),
        yaxis=dict(range=[0.7, 1.5], domain=[0.66, 1], title=dict(text="factor")),
        yaxis2=dict(range=[0, 1.55], domain=[0.33, 0.56], title=dict(text="relative")),
        yaxis3=dict(
            range=[-0.3, 0.3],
            domain=[0, 0.24],
            title=dict(text="turning"),
            tickvals=[-0.2, 0, 0.2],
            ticktext=["−20%", "0", "+20%"],
        ),
    )
    worst = (mirrored / relative).abs().max().item()
    return dict(data=data, layout=layout), {
        "gain": g.item(),
        "both": g.item() ** 2,
        "worst": f"{worst:.1%}" if worst > 1e-12 else "nothing",
        "peak": f"{waves[(even + odd).argmax()]:,.0f} tokens" if which != OFF else "no pair",
    }


ladder = explorable(
    _ladder,
    id="exposb.ladder",
    title="Gain and filter over the ladder of frequencies",
    alt="Above, the factor on each lane: a bump around a quarter of the lanes, even and odd lanes apart on its slopes, "
    "all lifted by the gain of the position. In the middle, a bar for each pair: the part of its score that is "
    "relative. Below, the part that turns with the sum of the positions: zero at the top, largest on the slopes.",
    readout="gain {gain:.3f}, on a score at this position {both:.3f} · loudest pair: wavelength {peak} · turning part: "
    "up to {worst}",
    depends={
        "even lanes": ["head_dim", "which", "position", "boost"],
        "odd lanes": ["head_dim", "which", "position", "boost"],
        "relative part of a pair's score": ["head_dim", "which"],
        "part that turns with m + n": ["head_dim", "which"],
        "layout": ["head_dim"],
        "readout.gain": ["position", "boost"],
        "readout.both": ["position", "boost"],
        "readout.worst": ["head_dim", "which"],
        "readout.peak": ["head_dim", "which"],
    },
    which=slider([LANES, PAIRS, OFF], label="filter"),
    head_dim=slider([8, 16, 32, 64, 128], label="head size D", default=32),
    position=slider([0, 100, 300, 700, 1000, 2000, 3000, 5000], label="position m", default=0),
    boost=slider([0.0, 0.2], label="gain", default=0.2, format=lambda b: "on" if b else "off"),
)


# The score of one offset, wherever it stands

FAR, CLOSE = torch.arange(0, 4001, 100), torch.arange(0, 257, 2)  # positions of the key in the two panels


@cache
def _vectors(head_dim, alike):
    q, k = torch.randn(2, head_dim, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return (q, q) if alike else (q, k)


def offset_scores(head_dim, offset, positions, *, factors=None, rates=None, alike=True):
    r"""Score / sqrt(D) of one query and one key `offset` apart, with the key at each of `positions`."""
    frequencies = inv_freq(head_dim, dtype=torch.float64)
    turned = []
    for vector, at in zip(_vectors(head_dim, alike), (positions + offset, positions)):
        x = rotate(vector.expand(len(at), head_dim), at.double(), frequencies)
        x = x if factors is None else x * factors
        turned.append(x if rates is None else x * gain(at.double(), rates)[:, None])
    return (turned[0] * turned[1]).sum(-1) / math.sqrt(head_dim)


def _same_offset(offset, head_dim, rate, content):
    alike = content == "key = query"
    rope_far = offset_scores(head_dim, offset, FAR, alike=alike)
    gained = offset_scores(head_dim, offset, FAR, rates=float(rate), alike=alike)
    unit = (_vectors(head_dim, alike)[0].norm() * _vectors(head_dim, alike)[1].norm() / math.sqrt(head_dim)).item()
    moved = {}
    for which in (LANES, PAIRS):
        s = offset_scores(head_dim, offset, CLOSE, factors=_filter(head_dim, which), alike=alike)
        moved[which] = (s - s.mean()) / unit
    data = [
        dict(
            type="scatter",
            name="RoPE",
            x=FAR[[0, -1]],
            y=(rope_far / unit)[[0, -1]],
            mode="lines",
            line=dict(color=COLORS["gray"], width=2, dash="dot"),
        ),
        dict(
            type="scatter",
            name="gain",
            x=FAR,
            y=gained / unit,
            mode="lines",
            line=dict(color=COLORS["orange"], width=3),
        ),
        dict(
            type="scatter",
            name="filter by lane",
            x=CLOSE,
            y=moved[LANES],
            mode="lines",
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["red"], width=2),
        ),
        dict(
            type="scatter",
            name="filter by pair",
            x=CLOSE,
            y=moved[PAIRS],
            mode="lines",
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["blue"], width=2, dash="dash"),
        ),
    ]
    layout = dict(
        height=540,
        xaxis=dict(range=[-50, 4050], anchor="y", title=dict(text="position n of the key (m = n + offset)")),
        yaxis=dict(range=[-0.8, 1.55], domain=[0.6, 1], title=dict(text="score")),
        xaxis2=dict(range=[-4, 260], anchor="y2", title=dict(text="position n of the key, close up")),
        yaxis2=dict(
            range=[-0.2, 0.2],
            domain=[0, 0.36],
            title=dict(text="score − mean"),
            tickvals=[-0.1, 0, 0.1],
            ticktext=["−0.1", "0", "+0.1"],
        ),
    )

    def swing(s):
        return (s.max() - s.min()).item()

    return dict(data=data, layout=layout), {
        "rope": f"{swing(rope_far / unit):.0e}",
        "gain": swing(gained / unit),
        "lanes": swing(moved[LANES]),
        "pairs": f"{swing(moved[PAIRS]):.0e}",
    }


same_offset = explorable(
    _same_offset,
    id="exposb.same_offset",
    title="One offset, many positions",
    alt="Above, the score of one query and one key a fixed offset apart, as both move along: RoPE's is a flat line, "
    "with the gain it falls towards that line. Below, close up, the score less its mean: with the filter by lane it "
    "wiggles, with the filter by pair it is flat.",
    readout="the score of this offset moves by: RoPE {rope}, gain {gain:.3f}, filter by lane {lanes:.3f}, by pair "
    "{pairs} (in units of |q||k|/√D)",
    depends={
        "RoPE": ["offset", "head_dim", "content"],
        "gain": ["offset", "head_dim", "content", "rate"],
        "filter by lane": ["offset", "head_dim", "content"],
        "filter by pair": ["offset", "head_dim", "content"],
        "readout.rope": ["offset", "head_dim", "content"],
        "readout.gain": ["offset", "head_dim", "content", "rate"],
        "readout.lanes": ["offset", "head_dim", "content"],
        "readout.pairs": ["offset", "head_dim", "content"],
    },
    offset=slider([0, 1, 2, 5, 10, 50], label="offset m − n", default=1),
    head_dim=slider([8, 16, 32, 64, 128], label="head size D", default=16),
    rate=slider([0.0, 0.0003, 0.001, 0.003, 0.01], label="rate of the gain", default=0.001),
    content=slider(["key = query", "a key at random"], label="content"),
)
