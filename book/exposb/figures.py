r"""Explorables of the ExpoSB chapter: a factor that fades, a filter over lanes."""

import math

import torch

from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, label, line, path, signed, upright
from posenc.lab.explore.parts import level as horizontal
from posenc.rotate.rope import inv_freq
from posenc.several.exposb import FORMS, band, fade

KEYS = 1024  # keys of the row, at the distances 0 .. KEYS - 1
NEAR = 64  # the nearest keys, whose share of the weight is read out, and how many keys stand for one that is drawn
DRAWN = 43  # the one of them that is drawn: of this one no logit starts so near zero that its way cannot be seen
EDGES = -110, KEYS + 100  # of the drawing: beyond the last key is room for the handle of the mean
RATE, FLOOR = 0.005, 0.4  # at first; the report's own floor is 0.7, where all this is fainter
CENTER, CHANGE = "middle center", "weight against that without the fade"
OUTSIDE = dict(textposition="outside", textfont=dict(size=13), constraintext="none", cliponaxis=False)


def content_logits():
    """Seeded content logits, by distance: noise of spread 1.5 and mean 0, [KEYS]."""
    return 1.5 * torch.randn(KEYS, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def row(z, form, rate, floor, fade=fade):
    r"""Weights of a row of logits z, by distance [KEYS], with the fade in one of `FORMS`."""
    f = fade(torch.arange(KEYS, dtype=torch.float64), rate, floor)
    if form == "weights":
        return z.softmax(-1) * f
    return (z * f if form == "logits" else z + f.log()).softmax(-1)


def _fading(form, level, rate, floor, *, fade=fade):
    far = torch.arange(KEYS, dtype=torch.float64)
    z = content_logits() + level
    f = fade(far, rate, floor)
    moved = z * f if form == "logits" else z + f.log()  # a factor on a weight is its log, added to the logit
    plain, faded = z.softmax(-1), row(z, form, rate, floor, fade)
    drawn = torch.arange(DRAWN, KEYS, NEAR)
    x, before, after = far[drawn], z[drawn], moved[drawn]
    up = after > before
    middle, below = torch.arange(0, KEYS, NEAR) + NEAR / 2, dict(width=0.8 * NEAR, yaxis="y2")
    change, sloped = (
        (weights.view(-1, NEAR).sum(-1) / plain.view(-1, NEAR).sum(-1)).log2()
        for weights in (faded, (z - rate * far).softmax(-1))
    )
    gains = (change > 0).tolist()
    hatched = dict(pattern=dict(shape=["" if g else "/" for g in gains], fillmode="replace"))
    ends = [f"×{2**c:.2g}" if n in (0, len(change) - 1) else "" for n, c in enumerate(change.tolist())]
    times = dict(hover="64 keys around distance %{x:.0f}: %{customdata:.2f} times their weight", customdata=2**change)
    times |= OUTSIDE | dict(text=ends, marker=hatched)

    def ways(name, which, color, symbol):
        ends = torch.stack((before[which], after[which], torch.full_like(x[which], math.nan)), -1)
        marks = dict(color=color, size=[6, 11, 0] * len(ends), symbol=["circle", symbol, symbol] * len(ends), opacity=1)
        look = dict(hover="distance %{x:.0f}: logit %{y:.2f}<extra></extra>", marker=marks, showlegend=False)
        return path(name, x[which].repeat_interleave(3), ends.flatten(), color, 2.5, **look)

    where = "towards 0" if form == "logits" else "down by one curve"
    data = [
        horizontal("zero", 0, *EDGES, "gray", 2),
        ways("lifted", up, "blue", "triangle-up"),
        ways("lowered", ~up, "orange", "triangle-down"),
        horizontal("mean of all logits", level, *EDGES, "ink", 2, "dash"),
        label("what the fade does", KEYS / 2, -3.8 if level > 0 else 3.8, f"all move <b>{where}</b>", "ink", CENTER),
        bars("ground of the hatched", middle, change.clamp(max=0), "gray", marker=dict(opacity=0.3), **below),
        bars(CHANGE, middle, change, ["green" if g else "gray" for g in gains], **below, **times),
        line("ALiBi", middle, sloped, "ink", 1, yaxis="y2"),
        label("ALiBi's name", 210, 2.3, f"— ALiBi, slope {rate}", "ink", "middle right", 12, yaxis="y2"),
        label("above", KEYS / 2, 3.5, "<b>gain</b> weight by the fade", "green", CENTER, yaxis="y2"),
        label("below", KEYS / 2, -3.5, "<b>lose</b> weight", "gray", CENTER, yaxis="y2"),
    ]
    quarters = dict(tickvals=[-2, 0, 2], ticktext=["1/4", "1", "4"])  # lines would run through the numbers
    layout = dict(
        height=460,
        showlegend=False,
        barmode="overlay",
        margin=dict(t=12),
        xaxis=dict(range=EDGES, title=dict(text="distance of the key, in tokens"), anchor="y2"),
        yaxis=axis(-6.2, 6.2, "logit", domain=[0.46, 1], tickvals=[-5, 0, 5]),
        yaxis2=axis(-4.2, 4.2, "weight, times", domain=[0, 0.42], showgrid=False, **quarters),
    )
    return dict(data=data, layout=layout), {
        "faded": faded[:NEAR].sum().item() / faded.sum().item(),
        "plain": plain[:NEAR].sum().item(),
        "sum": faded.sum().item(),
    }


fading = explorable(
    _fading,
    title="A factor that fades lifts what is below zero",
    alt="Above, the logits of sixteen keys by distance, each with a line that ends in an arrow, where the fade brings"
    " it: blue is up, orange is down. On logits all go towards zero, farther away the more: those above zero "
    "fall, those below rise. On weights and on log all fall by the same curve. A dashed line, the mean of all "
    "logits, can be dragged up and down. Below, by how much the weight of each 64 keys grows, green, or shrinks, "
    "hatched: with the mean above zero on logits, near keys gain and far ones lose; with the mean below zero it "
    "is the reverse. A thin line there is ALiBi of the same rate, without a floor.",
    readout=f"nearest {NEAR} hold {{faded:.1%}} · unfaded {{plain:.1%}} · row sum {{sum:.2f}}",
    handles={"mean of all logits": "level"},
    form=slider(FORMS, label="the factor acts on"),
    level=slider(range(-3, 4), label="added to all logits", default=0, format=signed),
    rate=slider([0.002, 0.005, 0.02], label="rate", default=RATE),
    floor=slider([0, 0.4, 0.7], label="floor", default=FLOOR),
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
    own, half = 100 * part[at].item(), 175 * turning(head_dim, LANES).abs().max().item()
    fine = torch.linspace(0, 1, 97, dtype=torch.float64)
    joined = [torch.stack((*pair, gap), -1).flatten() for pair in ((lane[0::2], lane[1::2]), (even, odd))]
    each = dict(color=["blue", "orange", "gray"] * pairs, symbol=["circle", "diamond", "circle"] * pairs)
    named = dict(hover="%{text} lane: factor %{y:.3f}", text=["even", "odd", ""] * pairs)
    named |= dict(marker=each | dict(size=8 if pairs < 16 else 5))
    turns = dict(hover="%{y:.1f}% of this pair's score turns with m + n", yaxis="y2", width=1.5 / head_dim)
    strong = dict(opacity=[1 if n == at else 0.45 for n in range(pairs)])
    below = "part of a score that turns with m + n" if which == LANES else "nothing turns with m + n"
    data = [
        dots("lanes, unfiltered", lane, torch.ones(head_dim), "gray", 5 if pairs < 16 else 3, marker=dict(opacity=0.5)),
        line("the bump", fine, 0.8 + 0.4 * torch.exp(-((fine - 1 / 4) ** 2) / (2 * (1 / 8) ** 2)), "gray", 1, "dot"),
        upright("this pair", middle[at], 0.77, 1.29, "ink", 1.5, "dot"),
        path("the two lanes of a pair", *joined, "gray", 2, **named),
        line("between the two", [middle[at]] * 2, [even[at], odd[at]], "red", 7),
        dots(
            "this pair's lanes",
            lane[[2 * at, 2 * at + 1]],
            torch.stack((even[at], odd[at])),
            ["blue", "orange"],
            13,
            ["circle", "diamond"],
        ),
        label("above", 1.02, 0.72, "factor on each lane: ● even, ◆ odd", "ink", "middle left"),
        bars("part that turns with m + n", middle, 100 * part, "red", marker=strong, **turns),
        label(
            "its number",
            middle[at].item(),
            math.copysign(0.7 * half, own),
            f"{signed(own, 1)}%",
            "red",
            CENTER,
            yaxis="y2",
        ),
        label("below", 1.02, 0.92 * half, below, "red", "middle left", yaxis="y2"),
    ]
    quarters, tick = [0, 0.25, 0.5, 0.75], 80 // pairs
    ladder = dict(tickvals=quarters, ticktext=[f"{2 * math.pi * 10_000**x:,.0f}" for x in quarters])
    layout = dict(
        height=460,
        showlegend=False,
        margin=dict(t=12),
        xaxis=axis(-0.09, 1.06, "a pair turns once in so many tokens", anchor="y2", **ladder),
        yaxis=axis(0.68, 1.3, domain=[0.5, 1], tickvals=[0.8, 1, 1.2]),
        yaxis2=axis(-half, half, domain=[0, 0.44], tickvals=[-tick, 0, tick], ticktext=[f"−{tick}%", "0", f"+{tick}%"]),
    )
    wave = 2 * math.pi / inv_freq(head_dim, dtype=torch.float64)[at].item()
    return dict(data=data, layout=layout), {
        "wave": f"{wave:,.0f}",
        "even": even[at].item(),
        "odd": odd[at].item(),
        "turning": f"{signed(own, 1)}%",
    }


ladder = explorable(
    _ladder,
    title="The filter over the ladder of frequencies",
    alt="Above, gray dots for the lanes as they are, and the factor on each from the fastest pair to the slowest, the "
    "two lanes of a pair joined: a bump around a quarter of the lanes. Lane by lane the joined ends stand at different "
    "heights on the slopes of the bump, by the red mark of the chosen pair; pair by pair they are level. Below, a bar "
    "for each pair: how much of its score turns with the sum of the positions. Bars stand on the slopes and have "
    "opposite signs on its two sides; pair by pair there are none. A dotted line, the chosen pair, can be dragged.",
    readout="turns in {wave} tokens · factors {even:.2f}, {odd:.2f} · turns with m + n: {turning}",
    handles={"this pair": "pair"},
    which=slider([LANES, PAIRS], label="filter"),
    pairs=slider([4, 8, 16, 32], label="head size D", default=8, format=lambda n: f"{2 * n}"),
    pair=slider(range(1, 33), label="pair", default=4, at_most="pairs"),
)
