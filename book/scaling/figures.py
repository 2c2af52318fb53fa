r"""Explorables of the chapter Longer than trained."""

import math
from functools import cache

import torch

from posenc import scaling
from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, label, level, line, path, thousands, upright
from posenc.rotate.rope import inv_freq

DIM = 128  # the head size of most large models: 64 pairs
PLAIN = "plain"
FACTORS = [1, 2, 4, 8, 16]
TRAINED = 4096


@cache
def _schemes(factor):
    r"""The frequencies [DIM/2] of each scheme: target length over trained length is `factor`."""
    return {
        PLAIN: inv_freq(DIM, dtype=torch.float64),
        "base × 50": inv_freq(DIM, 500_000, dtype=torch.float64),
        "linear": scaling.linear(DIM, factor)[0],
        "NTK": scaling.ntk(DIM, factor)[0],
        "YaRN by lanes": scaling.yarn(DIM, factor, trained=TRAINED)[0],
        "YaRN by turns": scaling.yarn(DIM, factor, trained=TRAINED, ramp="rotations")[0],
        "Llama 3.1": scaling.llama3(DIM, factor, trained=TRAINED, base=10_000.0)[0],
    }


NAMES = list(_schemes(1.0))
SHARES = {"tickvals": [0, 0.5, 1], "ticktext": ["0", "50%", "100%"]}


def _angles(scheme, factor, target):
    plain = inv_freq(DIM, dtype=torch.float64)
    now = _schemes(float(factor))[scheme]
    seen = (plain * TRAINED / (2 * math.pi)).clamp(max=1)  # the part of a turn that distances up to L reach
    asked = (now * target * TRAINED / (2 * math.pi)).clamp(max=1)
    new = (asked - seen).clamp(min=0)
    new[new < 1e-9] = 0  # rounding, where a scheme hits the edge exactly
    pairs, lower = torch.arange(DIM // 2), dict(yaxis="y2", showlegend=False)
    share = "pair %{{x}}: %{{y:.0%}} of the circle {}"
    hatched = dict(pattern=dict(shape="/", fillmode="replace"))
    turned = "pair %{x}: one token turns %{y:.0%} of what it did"
    data = [
        bars("seen in training", pairs, seen, "blue", hover=share.format("seen")),
        bars("new at the target length", pairs, new, "orange", marker=hatched, hover=share.format("is new")),
        line("angle of one token", pairs, now / plain, "green", 3, line=dict(shape="hvh"), hover=turned, **lower),
        dots("the slowest pair", pairs[-1:], (now / plain)[-1:], "green", 14, "diamond", cliponaxis=False, **lower),
    ]
    layout = dict(
        height=500,
        barmode="stack",
        bargap=0.15,
        xaxis=axis(-0.8, DIM // 2 + 1, "pair of lanes i, fast to slow", anchor="y2"),
        yaxis=axis(0, 1.05, "of the circle", domain=[0.44, 1], **SHARES),
        yaxis2=axis(0, 1.1, "turn kept", domain=[0, 0.36], **SHARES),
    )
    return dict(data=data, layout=layout), {
        "blind": int((new > 0).sum()),
        "squeezed": int((now < plain * (1 - 1e-9)).sum()),
    }


angles = explorable(
    _angles,
    title="Angles seen and unseen, and what it costs to avoid them",
    alt="Above, a bar for each of 64 pairs: the part of the circle that training showed, and hatched on top what is "
    "new at the target length. Below, the angle of one token, as a share of what it was in training: all of it where "
    "the scheme keeps a pair, less where it squeezes neighbors together. A diamond at the slowest pair is dragged up "
    "and down, and sets the factor s.",
    readout="new angles in {blind:d} of 64 pairs · neighbors squeezed in {squeezed:d}",
    handles={"the slowest pair": "factor"},
    scheme=slider(NAMES, label="scheme", default="NTK", format=lambda name: name.replace(" by", "")),
    factor=slider(FACTORS, label="factor s", default=4),  # the page asks which larger one will do
    target=slider([1, 2, 4, 8, 16], label="target", default=4, format=lambda n: f"{n} × L"),
)


KEYS = [TRAINED // 4 * 2**k for k in range(8)]
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
    log_keys, trained = [math.log10(n) for n in KEYS], KEYS.index(TRAINED)
    edges = [log_keys[0] - 0.7, log_keys[-1] + 0.1]  # the name of the level stands where no curve runs

    def curve(name, values, color, dash, symbol):
        hover = "%{customdata[0]:,} keys: %{customdata[1]:,.0f} attended"
        marker = dict(color=color, symbol=symbol, size=[7] * (len(KEYS) - 1) + [15], opacity=1)
        pairs = [[n, v] for n, v in zip(KEYS, values.tolist())]
        return path(name, log_keys, values.log10(), color, 2.5, dash, hover=hover, marker=marker, customdata=pairs)

    data = [
        line("all of them", log_keys, log_keys, "gray", 1.5, "dot", showlegend=False),
        level("as many as in training", bare[trained].log10(), edges[0], edges[1], "ink", 1.5),
        upright("trained length", log_keys[trained], -0.3, 5.4, "gray", 1.5, "dashdot"),
        curve("logits as they are", bare, COLORS["orange"], "dash", "diamond"),
        curve("logits times (c ln s + 1)²", warm, COLORS["blue"], "solid", "circle"),
        label("all keys", log_keys[6], log_keys[6] + 0.1, "all keys equal", "gray", "top left", halo=True),
        label("level", edges[0] + 0.02, bare[trained].log10() + 0.02, "as in<br>training", "ink", "top right"),
        label("trained", log_keys[trained] + 0.03, 0.2, "trained length L", "gray", "middle right"),
    ]
    layout = dict(
        height=440,
        xaxis=axis(*edges, "keys n", tickvals=log_keys[::2], ticktext=[thousands(n) for n in KEYS[::2]]),
        yaxis=axis(-0.3, 5.4, "keys attended to", tickvals=[*range(6)], ticktext="1 10 100 1k 10k 100k".split()),
    )
    return dict(data=data, layout=layout), {
        "before": thousands(bare[trained].item()),
        "bare": thousands(bare[-1].item()),
        "warm": thousands(warm[-1].item()),
    }


temperature = explorable(
    _temperature,
    title="More keys, flatter attention, and a temperature against it",
    alt="The number of keys that a query attends to, the exponential of the entropy, against the number of keys, both "
    "on log axes, for random logits. With the logits as they are the dashed line rises in parallel to the dotted one "
    "of equal weights. With the logits multiplied it rises less beyond the trained length, stays on the level line of "
    "training, or falls: its last point is dragged up and down, and sets c.",
    readout=f"{{before}} in training · {{bare}} at {KEYS[-1] // TRAINED} × L · {{warm}} with c",
    handles={"logits times (c ln s + 1)²": "strength"},
    spread=slider([0.5, 1.0, 1.5, 2.0, 3.0], label="spread of the logits", default=1.5),
    strength=slider([k / 50 for k in range(16)], label="c, in YaRN 0.1", default=0.1, format=lambda c: f"{c:.2f}"),
)


def _which_lanes(kind, cutoff):
    results = load_results("rope_surgery")
    length, runs = results["settings"]["length"], results["stopped"][kind]
    ends = torch.tensor(results["until"], dtype=torch.float64)
    losses = torch.tensor(runs, dtype=torch.float64)  # [seed, cutoff, bin]
    none = torch.tensor(results["stopped"]["slow"], dtype=torch.float64).mean(0)[0]  # [bin]
    cut = torch.tensor(results["cut"], dtype=torch.float64).mean(0)
    frequencies = inv_freq(2 * results["cutoffs"][-1], dtype=torch.float64)
    pairs, slow = len(frequencies), int((2 * math.pi / frequencies > length).sum())
    edge = (slow if kind == "slow" else pairs - slow) + 0.5  # between the last that does not, or does, finish a turn
    aside, side = (0.15, "right") if kind == "slow" else (-0.15, "left")
    beyond = ends >= 2 * length  # where most distances are unseen
    far = losses[..., beyond].mean(-1)  # [seed, cutoff]
    highest = max(torch.tensor(one).max().item() for one in results["stopped"].values())
    low, high = cut[1:].min().item() - 0.1, math.ceil(10 * highest) / 10

    def by_position(name, values, **style):
        words = f"position %{{x}}: loss %{{y:.2f}} {name}"
        return line(name, ends, values, hover=words, line=style)

    (seeds, cutoffs), stopped, here = far.shape, losses[:, cutoff].mean(0), far[:, cutoff].mean().item()
    foot = low - 0.45  # of the upper panel: the line's name stands under it
    place = 5 * len(ends) // 8
    middle = stopped[place - 1 : place + 3]
    climbs = middle.mean() > (none[beyond].mean() + cut[beyond].mean()) / 2
    beside = ends[place].item(), (middle.min() - 0.1 if climbs else middle.max() + 0.1).item()
    words, stops = "these stopped" if cutoff else "none stopped", torch.arange(cutoffs)
    loss, one = (f"%{{x}} stopped: loss %{{y:.2f}}{which}" for which in (" on average", ", one seed"))
    lower, follows = dict(xaxis="x2", yaxis="y2"), dict(color="orange", size=[0, 15, 0], opacity=1, symbol="diamond")
    data = [
        by_position("RoPE as trained", none, color=COLORS["gray"], width=2, dash="dot"),
        by_position("attention cut to L", cut, color=COLORS["green"], width=2, dash="dash"),
        by_position("these pairs stopped", stopped, color=COLORS["blue"], width=3),
        upright("trained length", length, foot, high, "gray", 1.5, "dashdot"),
        label("cut's name above", ends[-1].item(), low + 0.07, "attention cut to L", "green", "bottom left"),
        label("plain's name", ends[-1].item(), none.max().item(), "as trained", "gray", "top left"),
        label("their name", *beside, words, "blue", "bottom center" if climbs else "top center"),
        label("L", length + 4, none.max().item() + 0.2, "trained length L", "gray", "middle right"),
        line("mean beyond 2 L", stops, far.mean(0), "blue", 2, hover=loss, panel=2),
        dots("each seed beyond 2 L", stops.repeat(seeds), far.flatten(), "blue", 5, hover=one, panel=2),
        # upright, so that a drag follows its number alone: the losses stand close
        path("this many", [cutoff] * 3, [low, here, high], "orange", 2, marker=follows, panel=2),
        level("cut beyond 2 L", cut[beyond].mean(), 0, pairs, "green", 2, "dash", **lower),
        label("cut's name", 0, cut[beyond].mean().item(), "cut to L", "green", "top right", **lower),
        upright("a turn takes L tokens", edge, low, high, "purple", 2, "dashdot", **lower),
        label("edge's name", edge + aside, 2.05, "turned fully", "purple", f"middle {side}", **lower),
    ]
    layout = dict(
        height=500,
        showlegend=False,
        margin=dict(t=10),
        xaxis=axis(0, ends[-1].item() + 1, "position in the text", anchor="y"),
        yaxis=axis(foot, none.max().item() + 0.5, "loss", domain=[0.6, 1]),
        xaxis2=axis(-0.5, pairs + 0.5, f"{kind}est pairs stopped; dots: seeds", anchor="y2"),
        yaxis2=axis(low, high, "beyond 2 L", domain=[0, 0.4]),
    )
    return dict(data=data, layout=layout), {
        "which": f"{cutoff} {kind}est of {pairs} stopped",
        "far": f"{here:.2f}",
        "plain": f"{none[beyond].mean().item():.2f}",
        "cut": f"{cut[beyond].mean().item():.2f}",
    }


which_lanes = explorable(
    _which_lanes,
    title="Which lanes break it?",
    alt="Above, the loss of a trained model by position in the text: as trained it climbs beyond the trained length, "
    "with attention cut to that length it stays, and a thick line shows it with the chosen pairs of lanes stopped at "
    "the largest angle of training. Below, the loss far beyond the trained length against the number of pairs stopped, "
    "a dot for each seed, an upright line with a diamond to drag, and another one between pairs that finish a "
    "turn within the trained length and pairs that don't.",
    readout="{which} · loss beyond 2 L {far} · none {plain}, cut {cut}",
    handles={"this many": "cutoff"},
    kind=slider(["slow", "fast"], label="stop first", format=lambda kind: f"the {kind}est"),
    cutoff=slider(load_results("rope_surgery")["cutoffs"], label="pairs stopped", default=8),
)
