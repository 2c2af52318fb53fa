r"""Explorables of the chapter Longer than trained."""

import math
from functools import cache

import torch

from posenc import scaling
from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, dots, held, label, level, line, path, thousands, upright
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


def _angles(scheme, factor, target=4):
    plain, now = (_schemes(float(factor))[name] for name in (PLAIN, scheme))
    kept, pairs, most = now / plain, torch.arange(DIM // 2), 1 / target
    first = int((plain * TRAINED >= 2 * math.pi).sum())  # the fastest pair that did not finish a turn in training
    new = pairs[(pairs >= first) & (kept > most * (1 + 1e-9))]  # rounding, where a scheme hits the edge exactly
    end, edge, by = DIM // 2 + 0.5, math.log2(target), (1 / kept).log2()  # the axis is in powers of two, downward
    shaded, hatched = dict(fill="toself"), dict(fill="toself", fillpattern=dict(shape="/", size=9))
    words, hover = (
        ["shaded:<br>neighbors blur", f"hatched:<br>new at {target} L"],
        "pair %{x}: divided by %{customdata:.2f}",
    )
    sides = {0: "0", 20: "20<br>closed: full circle in training", 40: "40", 55: "<br>open: less"}
    ticks = dict(tickvals=[*sides], ticktext=[*sides.values()], tickangle=0, showgrid=False)
    data = [
        line("price", [0, *pairs[: first + 1], first], [0, *by[: first + 1], 0], "green", 0, **shaded, opacity=0.25),
        line("where angles are new", [first, end, end, first], [edge, edge, 0, 0], "orange", 0, **hatched),
        dots("new at the target length", new, by[new], "orange", 9, hover=hover, customdata=1 / kept[new]),
        label("names", [-0.8, end], [-0.15] * 2, words, ["green", "orange"], ["top right", "top left"]),
        line("angle of one token", pairs, by, "green", 3, hover=hover, customdata=1 / kept),
        held("the slowest pair", end - 1.5, by[-1].item(), "green"),
    ]
    layout = dict(
        height=400,
        showlegend=False,
        margin=dict(t=10),
        xaxis=axis(-0.8, end, "pair of lanes i, fast to slow", **ticks),
        yaxis=axis(4.4, -1, "speed divided by", tickvals=[*range(5)], ticktext=[f"{2**n}" for n in range(5)]),
    )
    slowed = int((kept[:first] < 1 - 1e-9).sum())
    return dict(data=data, layout=layout), {"blind": len(new), "open": len(pairs) - first, "slowed": slowed}


angles = explorable(
    _angles,
    title="Slowed enough, and not too much",
    alt="By how much each of 64 pairs is slowed, on a text of 4 times the trained length L, on a log axis, downward. "
    "Closed pairs, at the left, came full circle in training, open ones did not: slowed by less than 4, in the hatched "
    "field, they meet new angles, and are beaded. Shaded above the line, left, is the price: closed pairs are slowed, "
    "so that neighbors look more alike. A diamond at the slowest pair is dragged down, and sets the factor s.",
    readout="new angles in {blind:d} of {open:d} open pairs · {slowed:d} closed pairs slowed",
    handles={"the slowest pair": "factor"},
    scheme=slider(NAMES, label="scheme", default="NTK", format=lambda name: name.replace(" by", "")),
    factor=slider(FACTORS, label="factor s", default=4),  # the page asks which larger one will do
)


KEYS = [TRAINED * 2**k for k in range(6)]
DRAWS = 16  # seeded draws behind a mean


@cache
def _logits():
    return torch.randn(DRAWS, KEYS[-1], generator=torch.Generator().manual_seed(5))


@cache
def _dilution(count, spread, strength):
    r"""Mean entropy, in nats, of a softmax over `count` random logits of this spread.

    For more keys than in training logits are multiplied by (strength ln s + 1)^2, s = count / TRAINED.
    """
    sharpening = (strength * math.log(max(count / TRAINED, 1.0)) + 1.0) ** 2
    z = sharpening * spread * _logits()[:, :count]
    return (z.logsumexp(-1) - (z.softmax(-1) * z).sum(-1)).mean().item()


def _temperature(spread, strength):
    bare, warm = (torch.tensor([_dilution(n, spread, c) for n in KEYS]).exp() for c in (0.0, strength))
    lengths, last = ["L", *(f"{n // TRAINED} L" for n in KEYS[1:])], len(KEYS) - 1
    level_off = [[0, *range(last + 1), last], [0, *(warm / bare[0]).log2().tolist(), 0]]
    sides = ["flatter than in training", "sharper than in training"]

    def curve(name, values, color, dash, symbol):
        marker = dict(color=color, symbol=symbol, size=[7] * last + [15], opacity=1)
        look = dict(hover="%{customdata[0]:,} keys: %{customdata[1]:,.0f} attended", marker=marker)
        pairs = [[n, v] for n, v in zip(KEYS, values.tolist())]
        return path(name, list(range(last + 1)), (values / bare[0]).log2(), color, 2.5, dash, **look, customdata=pairs)

    data = [
        line("off the level", *level_off, "blue", 0, fill="toself", opacity=0.15, showlegend=False),
        level("as many as in training", 0, -0.15, last + 0.2, "ink", 1.5),
        curve("as they are", bare, COLORS["orange"], "dash", "diamond"),
        curve("sharpened by c", warm, COLORS["blue"], "solid", "circle"),
        label("sides", [0.08] * 2, [4.6, -4.6], sides, "ink", "middle right", halo=True),
    ]
    ticks = dict(tickvals=list(range(last + 1)), ticktext=lengths, zeroline=False)
    layout = dict(
        height=440,
        xaxis=axis(-0.15, last + 0.2, f"keys n, trained with L = {thousands(TRAINED)}", **ticks),
        yaxis=axis(
            -5.7, 5.7, "keys attended to", tickvals=[-4, -2, 0, 2, 4], ticktext="÷ 16|÷ 4|× 1|× 4|× 16".split("|")
        ),
    )
    said = zip(("before", "bare", "warm"), (bare[0], bare[-1], warm[-1]))
    return dict(data=data, layout=layout), {name: thousands(keys.item()) for name, keys in said}


temperature = explorable(
    _temperature,
    title="More keys, flatter attention, and a temperature against it",
    alt="By what factor more keys are attended to than at the trained length (the exponential of the entropy), against "
    "the factor of keys, both on log axes, for random logits. With the logits as they are the dashed line rises with "
    "the keys. Multiplied by (c ln s + 1)² the solid one rises less, stays on the level line of training, or falls, "
    "and attention is sharper than it was: its last point is dragged up and down, and sets c.",
    readout=f"{{before}} attended to at L · {{bare}} at {KEYS[-1] // TRAINED} L · {{warm}} with c",
    handles={"sharpened by c": "strength"},
    spread=slider([0.5, 1.0, 1.5, 2.0, 3.0], label="spread of the logits", default=1.5),
    strength=slider([k / 100 for k in range(21)], label="c, in YaRN 0.1", default=0.1, format=lambda c: f"{c:.2f}"),
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
    length, ends = results["settings"]["length"], torch.tensor(results["until"], dtype=torch.float64)
    runs = {name: torch.tensor(losses, dtype=torch.float64) for name, losses in results["stopped"].items()}
    none, stopped = runs["slow"][:, 0].mean(0), runs[kind][:, cutoff].mean(0)  # [bin]
    cut = torch.tensor(results["cut"], dtype=torch.float64).mean(0)
    frequencies = inv_freq(2 * results["cutoffs"][-1], dtype=torch.float64)
    seen, new = ((frequencies * (d - 1) / (2 * math.pi)).clamp(max=1) for d in (length, ends[-1]))
    pairs, last, beyond = len(frequencies), ends[-1].item(), ends >= 2 * length  # where most distances are unseen
    band = [pairs - cutoff, pairs] if kind == "slow" else [0, cutoff]
    new[slice(*band)] = seen[slice(*band)]
    left, right = (edge - 0.5 for edge in band)
    dials, hatched = dict(panel=2, fill="toself"), dict(fillpattern=dict(shape="/", size=5))
    loss, tail = "position %{x}: loss %{y:.2f}", stopped[-12:]
    beside, side = (tail.max() + 0.05, "top") if tail.mean() < 2.5 else (tail.min() - 0.06, "bottom")
    places, words = ["bottom right", "bottom left"], ["fast<br>■ seen in training", "slow<br>▨ new beyond L"]
    data = [
        line("stopped", [left, right, right, left], [-0.6, -0.6, 0.6, 0.6], "gray", 0, **dials, opacity=0.3),
        line("seen in training", *_sectors(0 * seen, seen), "blue", 1, **dials, fillcolor=COLORS["blue"]),
        line("new", *_sectors(seen, new), "orange", 1.5, **dials, fillcolor=COLORS["orange"], **hatched),
        line("dials", *_sectors(0 * seen, 0 * seen + 1), "gray", 1, panel=2),
        label("words", [-0.4, pairs - 0.6], [-0.6] * 2, words, ["blue", "orange"], places, panel=2, cliponaxis=False),
        upright("stop from here", left if kind == "slow" else right, -0.6, 0.6, "ink", 3, panel=2),
        line("as trained", ends, none, "gray", 2, "dot", hover=loss),
        line("attention cut to L", ends, cut, "green", 2, "dash", hover=loss),
        line("these pairs stopped", ends, stopped, "ink", 3, hover=loss),
        upright("trained length", length, 0.8, 4, "gray", 1.5, "dashdot"),
        label("L", length + 4, 3.8, "trained length L", "gray", "middle right"),
        label("as trained, named", last, none[-1] + 0.05, "as trained", "gray", "top left"),
        label("cut, named", last, cut.min() - 0.02, "attention cut to L", "green", "bottom left"),
        label("their name", last, beside, "these stopped" if cutoff else "", "ink", f"{side} left"),
    ]
    layout = dict(
        height=460,
        showlegend=False,
        margin=dict(t=10),
        xaxis=axis(0, last + 1, "position in the text", anchor="y"),
        yaxis=axis(0.8, 4.1, "loss", domain=[0, 0.6], tickvals=[1, 2, 3, 4]),
        xaxis2=axis(-0.6, pairs - 0.4, visible=False, anchor="y2"),
        yaxis2=axis(-0.6, 0.6, visible=False, scaleanchor="x2", domain=[0.76, 0.96]),
        meta=dict(phone=dict(yaxis=axis(0.8, 4.1, domain=[0, 0.68]), yaxis2=dict(domain=[0.86, 0.94]))),
    )
    far, plain = (f"{losses[beyond].mean().item():.2f}" for losses in (stopped, none))
    return dict(data=data, layout=layout), {"far": far, "plain": plain}


which_lanes = explorable(
    _which_lanes,
    title="Which lanes break it?",
    alt="Above, a row of dials, one for each pair of lanes, fast to slow: the part of the circle that training showed, "
    "and hatched what is new beyond the trained length. Drag the upright line over the dials: those behind it are "
    "stopped at the last angle of training, and lose what is new. Below, the loss of a trained model by position in "
    "the text: as trained it climbs beyond the trained length, with attention cut to that length it stays. A thick "
    "line shows it with these pairs stopped, and comes down when dials stop that are a fifth and nearly half full.",
    readout="loss beyond 2 L {far} · none stopped {plain}",
    handles={"stop from here": "cutoff"},
    kind=slider(["slow", "fast"], label="stop first", format=lambda kind: f"the {kind}est"),
    cutoff=slider(load_results("rope_surgery")["cutoffs"], label="pairs stopped", default=5),
)
