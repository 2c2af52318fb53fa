r"""Explorables of the chapter Longer than trained."""

import math
from functools import cache

import torch

from posenc import scaling
from posenc.chapters.scaling import facts
from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, level, line, path, upright
from posenc.rotate.rope import inv_freq

DIM = 128  # the head size of most large models: 64 pairs
PLAIN = "plain"
FACTORS = [1, 1.25, 1.5, 1.75, 2, 2.5, 3, 3.5, 4, 4.5, 5, 6, 7, 8, 10, 12, 14, 16]
TRAINED = 4096


@cache
def _schemes(factor):
    r"""The frequencies [DIM/2] of each scheme: target length over trained length is `factor`."""
    return {
        PLAIN: inv_freq(DIM, dtype=torch.float64),
        "linear": scaling.linear(DIM, factor)[0],
        "NTK": scaling.ntk(DIM, factor)[0],
        "YaRN by lanes": scaling.yarn(DIM, factor, trained=TRAINED)[0],
        "YaRN by turns": scaling.yarn(DIM, factor, trained=TRAINED, ramp="rotations")[0],
        "Llama 3.1": scaling.llama3(DIM, factor, trained=TRAINED, base=10_000.0)[0],
    }


NAMES = list(_schemes(1.0))
EVERY = 3  # of the pairs one in so many is drawn


def _angles(scheme, factor, target=4):
    plain, now = (_schemes(float(factor))[name] for name in (PLAIN, scheme))
    kept, pairs, most = now / plain, torch.arange(DIM // 2), 1 / target
    first = int((plain * TRAINED >= 2 * math.pi).sum())  # the fastest pair that did not finish a turn in training
    blind = (pairs >= first) & (kept > most * (1 + 1e-9))  # rounding, where a scheme hits the edge exactly
    drawn = pairs % EVERY == 0
    reach, still = target * kept, drawn & (pairs < first)  # against training, and the pairs that need no cure
    new, opened, last = drawn & blind, drawn & (pairs >= first), int(pairs[still][-1])
    edge, end, count = EVERY * math.ceil(first / EVERY) - EVERY / 2, int(pairs[drawn][-1]), int(new.sum())
    cost, head = f"<b>slowed {1 / kept[last]:.1f} ×</b>", dict(symbol="arrow", angleref="previous", opacity=1)
    head |= dict(size=[0, 13 if kept[last] < 0.9 else 0])
    said, color = (f"<b>{count} of {int(opened.sum())} new</b>", "orange") if count else ("<b>none new</b>", "blue")

    def stack(name, some, up, color, base=0.0, **look):
        own = dict(customdata=(1 / kept)[some], hover="pair %{x}: divided by %{customdata:.2f}")
        return bars(name, pairs[some], up[some] - base, color, width=0.78 * EVERY, base=base, **own | look)

    price, right, high = last - 4, end + EVERY, target + 0.4
    data = [
        stack("as without a scheme", drawn, 0 * kept + target, "rgba(125, 131, 140, 0.18)"),
        stack("closed pairs", still, reach, "green", marker=dict(opacity=0.55)),
        stack("within what training showed", opened, reach.clamp(max=1), "blue"),
        stack("new at the target length", new, reach, "orange", 1.0, marker=dict(pattern=dict(shape="/", size=6))),
        level("as far as in training", 1, edge, right, "ink", 2, "dash"),
        line("between", [edge, edge], [0, target + 0.1], "gray", 1.5, "dashdot"),
        path("slowed", [last] * 2, [target, reach[last].item()], "green", 3.5, marker=head),
        label("closed", price, high + 0.55, "full circle seen", "ink", "middle left", 14),
        label("open", right, high + 0.55, "less seen", "ink", "middle left", 14),
        label("price", price, high, cost, "green", "middle left", 16),
        label("how many", right, high, said, color, "middle left", 16, cliponaxis=False),
        held("the slowest pair", end, reach[end].item(), "ink"),
    ]
    ticks, times = dict(tickvals=[end], ticktext=["drag ▴"], zeroline=False), [*range(target + 1)]
    multiples = dict(tickvals=times, ticktext=[f"× {n}" for n in times])
    layout = dict(height=420, showlegend=False, barmode="overlay", margin=dict(t=6, r=12))
    layout |= dict(
        xaxis=axis(-2, right, "pairs of lanes, fast to slow", **ticks),
        yaxis=axis(0, high + 0.9, f"angle at {target} L, against L", **multiples),
    )
    return dict(data=data, layout=layout), {"blind": int(blind.sum()), "scheme": scheme, "s": factor}


angles = explorable(
    _angles,
    title="Slowed enough, and not too much",
    alt="A bar for every third of 64 pairs, on a text of 4 times the trained length L: how far its angle goes, against "
    "training. Unscaled all go 4 times as far, a pale bar. Left of a line stand pairs that came full circle in "
    "training: slowing them is only a price. Right of it, above a dashed level, the others meet new angles, hatched. "
    "Words say how many do, and how much the last left one is slowed. The last bar's top is dragged, and sets s.",
    see="Drag the last bar's top: when is nothing hatched, and at what cost?",
    readout="{scheme}, s = {s:g}",
    handles={"the slowest pair": "factor"},
    scheme=slider(["linear", "NTK", "YaRN by lanes"], label="scheme", default="NTK", format=lambda s: s.split()[0]),
    factor=slider(FACTORS, label="factor s", default=4),  # the page asks which larger one will do
)


STRENGTHS = [*(k / 50 for k in range(11)), *(k / 10 for k in range(3, 10))]  # of the temperature
TIMES = range(1, 9)  # as many keys as in training
DRAWS = 16  # seeded draws behind a mean


@cache
def _logits():
    return torch.randn(DRAWS, TRAINED * TIMES[-1], generator=torch.Generator().manual_seed(5))


@cache
def _dilution(count, spread, strength):
    r"""Mean entropy, in nats, of a softmax over `count` random logits of this spread.

    For more keys than in training logits are multiplied by (strength ln s + 1)^2, s = count / TRAINED.
    """
    sharpening = (strength * math.log(max(count / TRAINED, 1.0)) + 1.0) ** 2
    z = sharpening * spread * _logits()[:, :count]
    return (z.logsumexp(-1) - (z.softmax(-1) * z).sum(-1)).mean().item()


def _temperature(times, strength, spread):
    before = math.exp(_dilution(TRAINED, spread, 0.0))
    bare, warm = (math.exp(_dilution(TRAINED * times, spread, c)) / before for c in (0.0, strength))
    edge = dict(color="rgba(0, 0, 0, 0)", line=dict(color=COLORS["ink"], width=2))
    data, words = [bars("as in training", [1] * 3, [4, 2, 0], orientation="h", width=0.84, marker=edge)], []
    for name, more, size, low, color in (
        ("keys", ", drag the end", times, 4, "rgba(125, 131, 140, 0.55)"),
        ("keys attended to", "", bare, 2, "orange"),
        ("with the temperature", ", drag the end", warm, 0, "orange"),
    ):
        inside, said = size > 6.6, f"<b>× {size:.{int(low < 4)}f}</b>"
        beside = size + (-0.5 if inside else 0.35), "middle left" if inside else "middle right"
        hatch = dict(opacity=0.75, pattern=dict(shape="" if low else "/", size=8))
        data.append(bars(name, [size], [low], color, orientation="h", width=0.8, marker=hatch))
        words += [
            label(f"{name}, named", 0.05, low + 0.72, f"<b>{name}</b>{more}", "ink", "middle right", 14, halo=True),
            label(f"{name}, by what", beside[0], low, said, "ink", beside[1], 20),
        ]
    dashes = [y for low in (0, 2, 4) for y in (low - 0.9 if low else -0.6, low + 0.46, math.nan)]  # not through words
    data += [
        line("training", [1] * len(dashes), dashes, "ink", 1.5, "dash"),
        *words,
        held("how many keys", times, 4, "ink", "diamond", 15),
        held("how warm", warm, 0, "ink", "diamond", 15),
    ]
    ticks = dict(tickvals=[1, 2, 4, 8], ticktext=["× 1", "× 2", "× 4", "× 8"], showgrid=False, zeroline=False)
    layout = dict(height=400, showlegend=False, barmode="overlay", margin=dict(t=6, l=8, r=12))
    layout |= dict(
        xaxis=axis(0, 8.4, "against training (dashed)", **ticks),
        yaxis=axis(-0.6, 5.1, showticklabels=False, showgrid=False, zeroline=False),
    )
    return dict(data=data, layout=layout), {"times": times, "c": strength}


temperature = explorable(
    _temperature,
    title="More keys, flatter attention, and a temperature against it",
    alt="Three bars, in multiples of what there was at the trained length, an outline: the keys, the keys attended to "
    "(the exponential of the entropy) for random logits, and the same with the logits multiplied by (c ln s + 1)². "
    "The first bar's end is dragged, from 1 to 8 times the keys, and the second goes along, nearly as far for small "
    "spreads. The third bar's end is dragged too, and sets c: it comes back to the outline, and falls short of it.",
    see="Drag the end of the keys, then the lowest bar back to the dashes.",
    readout="{times} times the keys · c = {c:.2f}",
    handles={"how many keys": "times", "how warm": "strength"},
    times=slider(TIMES, label="keys, × training", default=4),
    strength=slider(STRENGTHS, label="c, in YaRN 0.1", default=0.1, format=lambda c: f"{c:.2f}"),
    spread=slider([0.5, 1.0, 2.0, 3.0], label="spread of the logits", default=1.0),
)


def _sectors(starts, ends):
    r"""Outlines of a sector on each of a row of dials, from and to a share of the circle: x, y with gaps."""
    x, y = [], []
    for dial, (start, end) in enumerate(zip(starts.tolist(), ends.tolist())):
        turns = torch.linspace(start, end, 25) * 2 * math.pi
        rim = 0.46 * torch.stack((turns.sin(), turns.cos()))
        x += [dial, *(dial + rim[0]).tolist(), dial, math.nan] if end > start else []
        y += [0, *rim[1].tolist(), 0, math.nan] if end > start else []
    return x, y


def _which_lanes(kind, cutoff):
    results = load_results("rope_surgery")
    length, longest = results["settings"]["length"], results["until"][-1]
    frequencies = inv_freq(2 * results["cutoffs"][-1], dtype=torch.float64)
    seen, new = ((frequencies * (d - 1) / (2 * math.pi)).clamp(max=1) for d in (length, longest))
    pairs, slow = len(frequencies), kind == "slow"
    band = [pairs - cutoff, pairs] if slow else [0, cutoff]
    new[slice(*band)] = seen[slice(*band)]
    left, right = (edge - 0.5 for edge in band)
    dials, hatched = dict(panel=2, fill="toself"), dict(fillpattern=dict(shape="/", size=5))
    damage = (1 - facts.mended_share(kind)).tolist()
    order = [pairs - 1 - n if slow else n for n in range(cutoff)]  # the pairs that are stopped, as they were
    left_over, here = damage[1 : cutoff + 1], left if slow else right
    said = f"<b>{damage[cutoff]:.0%} of the damage left</b>"
    words, sides = ["■ seen in training", "▨ new beyond L"], ["middle right", "middle left"]
    data = [
        line("stopped", [left, right, right, left], [-0.6, -0.6, 0.6, 0.6], "gray", 0, **dials, opacity=0.3),
        line("seen in training", *_sectors(0 * seen, seen), "blue", 1, **dials, fillcolor=COLORS["blue"]),
        line("new", *_sectors(seen, new), "orange", 1.5, **dials, fillcolor=COLORS["orange"], **hatched),
        line("dials", *_sectors(0 * seen, 0 * seen + 1), "gray", 1, panel=2),
        upright("stop from here", here, -0.75, 0.75, "ink", 3, panel=2),
        bars("as trained", [*range(pairs)], [1] * pairs, "rgba(125, 131, 140, 0.15)", width=0.9),
        bars("these pairs stopped", order, left_over, "purple", hover="%{y:.0%} of it left", width=0.9),
        label("how much is left", (pairs - 1) / 2, 1.14, said, "purple", "middle center", 18),
        label("words", [-0.45, pairs - 0.55], [1.36] * 2, words, ["blue", "orange"], sides, 14),
        line("on the bars", [here, here], [0, 1], "ink", 1.5, "dot"),
    ]
    layout = dict(height=460, showlegend=False, margin=dict(t=6), barmode="overlay")
    layout |= dict(
        xaxis=axis(-0.6, pairs - 0.4, tickvals=[0, pairs - 1], ticktext=["fast", "slow"], anchor="y", zeroline=False),
        yaxis=axis(0, 1.45, "damage left", domain=[0, 0.68], tickvals=[0, 1], ticktext=["0%", "100%"]),
        xaxis2=axis(-0.6, pairs - 0.4, visible=False, anchor="y2"),
        yaxis2=axis(-0.75, 0.75, visible=False, scaleanchor="x2", domain=[0.71, 1]),
        meta=dict(phone=dict(yaxis=dict(domain=[0, 0.8]), yaxis2=dict(domain=[0.83, 0.97]))),
    )
    return dict(data=data, layout=layout), {"count": cutoff, "kind": kind}


which_lanes = explorable(
    _which_lanes,
    title="Which lanes break it?",
    alt="Above, a row of dials, one for each pair of lanes, fast to slow: the part of the circle that training showed, "
    "and hatched what is new beyond the trained length. Drag the upright line over the dials: those behind it are "
    "stopped at the last angle of training, and lose what is new. Under each a bar: what is left of the damage, the "
    "loss above that with attention cut to the trained length, once this pair is stopped too; pale, all of it. From "
    "the slow end bars stay full and come down at two pairs that made a fifth and nearly half of a turn.",
    see="Drag the line over the dials, which stops them: when is the damage gone?",
    readout="the {count} {kind}est stopped",
    handles={"stop from here": "cutoff"},
    kind=slider(["slow", "fast"], label="stop first", format=lambda kind: f"the {kind}est"),
    cutoff=slider(load_results("rope_surgery")["cutoffs"], label="pairs stopped", default=3),
)
