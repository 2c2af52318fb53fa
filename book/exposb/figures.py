r"""Explorables of the ExpoSB chapter: a factor that fades, a filter over lanes."""

import math

import torch

from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line, path, signed
from posenc.lab.explore.parts import level as horizontal
from posenc.rotate.rope import inv_freq
from posenc.several.exposb import fade

KEYS = 1024  # keys of the row, at the distances 0 .. KEYS - 1
NEAR = 64  # the nearest keys, whose share of the weight is read out
DRAWN = slice(26, KEYS, 133)  # the keys that are drawn: none of them starts so near zero that its way cannot be seen
RATE, FLOOR = 0.005, 0.4  # at first; the report's own floor is 0.7, where all this is fainter
CENTER, PLAIN, ALIBI = "middle center", "no fade", "ALiBi"


def content_logits():
    """Seeded content logits, by distance: noise of spread 1.5 and mean 0, [KEYS]."""
    return 1.5 * torch.randn(KEYS, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


def row(z, form, rate, floor, fade=fade):
    r"""Weights of a row of logits z, by distance [KEYS], with the fade on "logits" or "log"."""
    f = fade(torch.arange(KEYS, dtype=torch.float64), rate, floor)
    return (z * f if form == "logits" else z + f.log()).softmax(-1)


def _fading(level, rate, floor, beside, *, fade=fade):
    far = torch.arange(KEYS, dtype=torch.float64)
    z = content_logits() + level
    at, before, after = far[DRAWN], z[DRAWN], (z * fade(far, rate, floor))[DRAWN]
    other = z.softmax(-1) if beside == PLAIN else (z - rate * far).softmax(-1)
    against, faded = (w[:NEAR].sum().item() for w in (other, row(z, "logits", rate, floor, fade)))
    times, edge = f", × {faded / against:.1f}" * (beside == PLAIN), dict(line=dict(color=COLORS["ink"], width=1.5))

    def ways(name, which, color, symbol):
        ends = torch.stack((before[which], after[which], torch.full_like(before[which], math.nan)), -1)
        marks = dict(color=color, size=[9, 20, 0] * len(ends), symbol=["circle", symbol, symbol] * len(ends), opacity=1)
        look = dict(hover="distance %{x:.0f}: logit %{y:.2f}", marker=marks)
        return path(name, at[which].repeat_interleave(3), ends.flatten(), color, 6, cliponaxis=False, **look)

    def word(name, which, text, color):  # at the start of the longest way
        n = ((before - after).abs() * which).argmax().item()
        spot = (at[n], before[n] + 0.2 * before[n].sign()) if which[n] else (0, math.nan)
        return label(name, *spot, text, color, f"{'top' if before[n] > 0 else 'bottom'} center", 15, cliponaxis=False)

    def share(name, y, value, text, color, **look):
        font = dict(size=18, halo=True, panel=2)
        words = label(f"{name}, in words", max(against, value) + 0.004, y, text, color, "middle right", **font)
        return bars(name, [value], [y], color, orientation="h", width=0.76, panel=2, **look), words

    hatch, pale = dict(opacity=0.55, pattern=dict(shape="/" if beside == ALIBI else "")), "rgba(0, 114, 178, 0.2)"
    data = [
        line("near", [0, 0, NEAR, NEAR], [-6.3, 5.3, 5.3, -6.3], width=0, fill="toself", fillcolor=pale),
        horizontal("zero", 0, 0, KEYS, "gray", 2),
        ways("lifted", after > before, "blue", "triangle-up"),
        ways("lowered", after <= before, "orange", "triangle-down"),
        word("gains", after > before, "gains", "blue"),
        word("loses", after < before, "loses", "orange"),
        horizontal("mean of all logits", level, 0, KEYS + 130, "ink", 3, "dash"),
        label("mean, in words", KEYS + 130, level + 1.4, "<b>drag</b><br>mean", "ink", CENTER, 14),
        *share("beside", 1, against, f"<b>{against:.1%}</b>", "purple" if beside == ALIBI else "gray", marker=hatch),
        *share("ExpoSB", 0, faded, f"<b>{faded:.1%}{times}</b>", "green"),
        bars("as beside", [against], [0], "rgba(0, 0, 0, 0)", orientation="h", width=0.76, panel=2, marker=edge),
    ]
    strip = dict(tickvals=[NEAR / 2], ticktext=[f"nearest {NEAR}"], tickfont=dict(size=13), showgrid=False)
    names = dict(tickvals=[1, 0], ticktext=[beside, "ExpoSB"], tickfont=dict(size=14), showgrid=False)
    layout = dict(height=440, showlegend=False, margin=dict(t=22, l=64, r=8, b=32), barmode="overlay") | dict(
        xaxis=axis(-8, KEYS + 270, "logits by distance, moved by the fade", zeroline=False, **strip),
        yaxis=axis(-6.3, 5.3, domain=[0.4, 1], tickvals=[0], ticktext=["logit 0"], showgrid=False, zeroline=False),
        xaxis2=axis(0, 0.46, f"what the nearest {NEAR} of {KEYS:,} keys hold", anchor="y2", tickvals=[]),
        yaxis2=axis(-0.5, 1.5, domain=[0, 0.28], **names),
        meta=dict(phone=dict(xaxis2=dict(range=[0, 0.58]))),
    )
    return dict(data=data, layout=layout)


fading = explorable(
    _fading,
    title="A factor that fades lifts what is below zero",
    alt="Above, the logits of eight keys by distance, as arrows to where the fade brings them: blue is up, orange is "
    f"down. All go toward zero, the farther away the more; in a shaded strip, the nearest {NEAR}, they hardly move. A "
    "dashed line, the mean of all logits, can be dragged up and down. Below, two bars, what the nearest keys hold: "
    "with ExpoSB's fade, and over it without a fade, or hatched with ALiBi, its slope the same rate. With the mean at "
    "or above zero ExpoSB's bar is longer than that without a fade; with the mean three below zero it is shorter.",
    see="Drag the mean of the logits: what becomes of the nearest keys' share?",
    handles={"mean of all logits": "level"},
    level=slider(range(-3, 3), label="added to all logits", default=0, format=signed),
    rate=slider([0.002, 0.005, 0.01], label="rate", default=RATE),
    floor=slider([0, 0.4, 0.7], label="floor", default=FLOOR),
    beside=slider([PLAIN, ALIBI], label="beside it"),
)


HEAD, FLAT = 16, 0.8  # lanes, and the factor far from the bump
APART = torch.arange(0, 64.25, 0.25, dtype=torch.float64)  # distances of query and key that a wave is drawn over


def bump(lane, center=HEAD / 4):
    r"""The factor on a lane of HEAD lanes: the report's bump, or one that stands elsewhere."""
    return FLAT + (1.2 - FLAT) * torch.exp(-((lane - center) ** 2) / (2 * (HEAD / 8) ** 2))


def waves(center):
    r"""What each pair adds to the score of a vector with itself so far APART, and its factor: [D/2, ...], [D/2]."""
    factors = bump(torch.arange(HEAD, dtype=torch.float64).view(-1, 2).mean(-1), center)
    return factors[:, None] ** 2 * (inv_freq(HEAD, dtype=torch.float64)[:, None] * APART).cos(), factors


def _ladder(center):
    drawn, factors = waves(center)
    turns = [f"{2 * math.pi / w:,.0f}" for w in inv_freq(HEAD, dtype=torch.float64)]
    report, here = waves(HEAD / 4)[1].argmax().item(), (center - 0.5) / 2  # rows: pair i has the lanes 2i and 2i + 1
    loud, far = (factors - FLAT) / (1.2 - FLAT), 7 if center < HEAD / 2 else 0
    name, grip = f"report's<br><b>{turns[report]} tokens</b>", ["drag", f"<b>× {factors.max():.1f}</b>"]
    strip, pale = [report - 0.4] * 2 + [report + 0.6] * 2, "rgba(0, 122, 82, 0.25)"
    data = [
        line("the report's", [-15, 65, 65, -15], strip, "green", 1.5, fill="toself", fillcolor=pale),
        label("the report's, in words", 66, report + 0.15, name, "green", "middle right", 15),
        *(
            line(f"pair {n}", APART, n + 0.2 - 0.3 * wave, "blue", 1.5 + 7 * much, opacity=0.5 + 0.5 * much)
            for n, (wave, much) in enumerate(zip(drawn, loud.tolist()))
        ),
        held("bump", -9, here, symbol="triangle-right", size=20),
        label("bump, in words", [-9] * 2, [here - 0.5, here + 0.55], grip, "ink", CENTER, 14),
        label("elsewhere", 66, far, f"elsewhere<br><b>× {factors[far]:.1f}</b>", "ink", "middle right", 14),
    ]
    words = {0: "fastest<br>", 4: "middle<br>", 7: "slowest<br>"}
    rows = dict(tickvals=list(range(8)), ticktext=[words.get(n, "") + turn for n, turn in enumerate(turns)])
    rows |= dict(tickfont=dict(size=12), zeroline=False, showgrid=False)
    layout = dict(height=420, showlegend=False, margin=dict(t=8, l=76, r=8, b=40)) | dict(
        xaxis=axis(-15, 91, "query and key so many tokens apart", tickvals=[0, 32, 64], zeroline=False),
        yaxis=axis(8.2, -1, "a pair's turn, in tokens", **rows),
        meta=dict(phone=dict(xaxis=dict(range=[-20, 110]))),
    )
    return dict(data=data, layout=layout)


ladder = explorable(
    _ladder,
    title="The filter over the ladder of frequencies",
    alt="Eight waves, one under the other: what each pair adds to a score, by distance, from the fastest pair to the "
    "slowest. A triangle at the left stands where the bump is, and can be dragged: there waves are tall and "
    "thick, elsewhere flat and thin. A shaded strip over the third wave says which pair the report favors most.",
    see="The bump multiplies its pairs by 1.2: drag it to where you expect it.",
    handles={"bump": "center"},
    center=slider(range(HEAD), label="bump at lane", default=HEAD // 2),
)
