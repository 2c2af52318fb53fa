r"""Explorables of the ExpoSB chapter: a factor that fades, a filter over lanes."""

import math

import torch

from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line, path, signed
from posenc.lab.explore.parts import level as horizontal
from posenc.rotate.rope import inv_freq
from posenc.several.exposb import FORMS, fade

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
    x, before, after, up = far[drawn], z[drawn], moved[drawn], (moved > z)[drawn]
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

    words = [f"all move <b>{'towards 0' if form == 'logits' else 'down by one curve'}</b>", "mean"]
    places = [CENTER, "top right"]
    data = [
        horizontal("zero", 0, *EDGES, "gray", 2),
        ways("lifted", up, "blue", "triangle-up"),
        ways("lowered", ~up, "orange", "triangle-down"),
        horizontal("mean of all logits", level, *EDGES, "ink", 2, "dash"),
        label("in words", [KEYS / 2, EDGES[0]], [-3.8 if level > 0 else 3.8, level], words, "ink", places),
        bars("ground of the hatched", middle, change.clamp(max=0), "gray", marker=dict(opacity=0.3), **below),
        bars(CHANGE, middle, change, ["green" if g else "gray" for g in gains], **below, **times),
        line("ALiBi", middle, sloped, "ink", 1, yaxis="y2"),
        label("ALiBi's name", 210, 2.3, f"— ALiBi, slope {rate}", "ink", "middle right", 12, yaxis="y2"),
        label("above", KEYS / 2, 3.5, "<b>gain</b> weight by the fade", "green", CENTER, yaxis="y2"),
        label("below", KEYS / 2, -3.5, "<b>lose</b> weight", "gray", CENTER, yaxis="y2"),
    ]
    quarters = dict(tickvals=[-2, 0, 2], ticktext=["1/4", "1", "4"])  # lines would run through the numbers
    layout = dict(height=460, showlegend=False, barmode="overlay", margin=dict(t=12)) | dict(
        xaxis=dict(range=EDGES, title=dict(text="distance of the key, in tokens"), anchor="y2"),
        yaxis=axis(-6.2, 6.2, "logit", domain=[0.46, 1], tickvals=[-5, 0, 5]),
        yaxis2=axis(-4.2, 4.2, "weight, times", domain=[0, 0.42], showgrid=False, **quarters),
    )
    near, whole = faded[:NEAR].sum().item(), faded.sum().item()
    return dict(data=data, layout=layout), dict(faded=near / whole, plain=plain[:NEAR].sum().item(), sum=whole)


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

LANES, PAIRS = "lane by lane", "pair by pair"
HEAD, FLAT = 16, 0.8  # lanes, and the factor far from the bump
CENTERS = [n / 2 for n in range(2 * HEAD - 1)]


def bump(lane, center=HEAD / 4, top=1.2):
    r"""The factor on a lane of HEAD lanes: the report's bump, or one that stands elsewhere or is not as high."""
    return FLAT + (top - FLAT) * torch.exp(-((lane - center) ** 2) / (2 * (HEAD / 8) ** 2))


def turning(factors):
    r"""The part of each pair's score that turns with m + n, against the part that is relative: [D] -> [D/2]."""
    even, odd = factors.square().view(-1, 2).unbind(-1)
    return (even - odd) / (even + odd)


def _ladder(which, center, top):
    lane = torch.arange(HEAD, dtype=torch.float64)
    middle, fine = lane.view(-1, 2).mean(-1), torch.linspace(-1, HEAD, 86, dtype=torch.float64)
    c = bump(lane if which == LANES else middle.repeat_interleave(2), center, top)
    pairs, gap = c.view(-1, 2), torch.full((HEAD // 2, 1), math.nan)
    part, loudest, report = turning(c).abs().max().item(), pairs.sum(-1).argmax(), bump(fine)
    waves = [f"{2 * math.pi / w:,.0f}" for w in inv_freq(HEAD, dtype=torch.float64)]
    steps = torch.cat((pairs, gap), -1).flatten()
    each = dict(color=["blue", "orange", "gray"] * 8, symbol=["circle", "diamond", "circle"] * 8, size=8, opacity=1)
    red = "<b>red bar</b>: turns with m + n, not relative" if which == LANES else "pairs are level: all is relative"
    side = "right" if center < 3 else "left" if center > 12 else "center"
    data = [
        line("the report's bump", fine, report, "green", 5, opacity=0.35),
        label("the report's, in words", HEAD / 4, 0.74, f"the report's: <b>{waves[2]}</b> tokens", "green", CENTER),
        line("the bump", fine, bump(fine, center, top), "gray", 1.5, "dot"),
        path("lanes", torch.cat((lane.view(-1, 2), gap), -1).flatten(), steps, "gray", 2, marker=each),
        line("between the two", middle.repeat_interleave(3), steps, "red", 7),
        label("loudest", center, top + 0.14, f"loudest: <b>{waves[loudest]}</b> tokens", "ink", f"top {side}"),
        held("top of the bump", center, top + 0.09, symbol="triangle-down", size=18),
        label("even and odd", HEAD / 2 - 0.5, 0.64, "● even, ◆ odd lane of a pair", "ink", CENTER),
        label("what turns", HEAD / 2 - 0.5, 0.56, red, "red", CENTER),
    ]
    ticks = {0: "<br>fastest", 4: "", 8: "<br>middle", 14: "<br>slowest"}
    ladder = dict(tickvals=list(ticks), ticktext=[waves[n // 2] + word for n, word in ticks.items()], tickangle=0)
    layout = dict(height=400, showlegend=False, margin=dict(t=12)) | dict(
        xaxis=axis(-1.2, HEAD, "a pair turns once in so many tokens", zeroline=False, **ladder),
        yaxis=axis(0.5, 1.62, "factor", tickvals=[0.8, 1, 1.2, 1.4]),
    )
    return dict(data=data, layout=layout), {"wave": waves[loudest], "part": part}


ladder = explorable(
    _ladder,
    title="The filter over the ladder of frequencies",
    alt="The factor on each lane from the fastest pair to the slowest, along a dotted bump, the two lanes of a pair "
    "joined. The triangle over its top can be dragged: sideways it makes another pair the loudest, up and down the "
    "filter stronger or weaker. The report's bump, broad and pale, stands at a quarter of the way. Lane by lane the "
    "two lanes of a pair stand at different heights on the slopes, and a red bar between them grows with the slope: "
    "so much of the score turns with the sum of the positions. Pair by pair they are level, without red.",
    readout="loudest pair turns in {wave} tokens · turns with m + n: up to {part:.1%}",
    handles={"top of the bump": ("center", "top")},
    which=slider([LANES, PAIRS], label="filter"),
    center=slider(CENTERS, label="bump at lane", default=HEAD / 2, format=lambda c: f"{c:g}"),
    top=slider([n / 10 for n in range(9, 15)], label="its height", default=1.2),
)
