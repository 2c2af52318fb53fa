r"""Explorables of the chapter Longer than trained."""

import math
from functools import cache

import torch

from posenc import scaling
from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.figures.rope import circle
from posenc.rotate.rope import inv_freq

DIM = 128  # the head size of most large models: 64 pairs
PLAIN = "plain RoPE"
FACTORS = [1, 2, 4, 8, 16, 32]


@cache
def _schemes(factor, trained, base):
    r"""The frequencies [DIM/2] of each scheme: target length over trained length is `factor`."""
    return {
        PLAIN: inv_freq(DIM, base, dtype=torch.float64),
        "another base alone: 50 b": inv_freq(DIM, 50 * base, dtype=torch.float64),
        "position interpolation": scaling.linear(DIM, factor, base=base)[0],
        "NTK-aware": scaling.ntk(DIM, factor, base=base)[0],
        "YaRN, ramp by lanes": scaling.yarn(DIM, factor, trained=trained, base=base)[0],
        "YaRN, ramp by rotations": scaling.yarn(DIM, factor, trained=trained, base=base, ramp="rotations")[0],
        "Llama 3.1": scaling.llama3(DIM, factor, trained=trained, base=base)[0],
    }


NAMES = list(_schemes(1.0, 4096, 10000.0))


def _power(value):
    return f"{value:,.0f}"


def _times(value):
    return f"{value} ×"


# Wavelengths

DECADES = {"tickvals": [1, 2, 3, 4, 5, 6, 7, 8], "ticktext": ["10", "100", "1k", "10k", "100k", "1M", "10M", "100M"]}
DIVISORS = {"tickvals": [math.log10(f) for f in (1, 4, 16, 64)], "ticktext": ["1", "4", "16", "64"]}


def _wavelengths(scheme, factor, trained, base):
    plain = inv_freq(DIM, float(base), dtype=torch.float64)
    now = _schemes(float(factor), trained, float(base))[scheme]
    before, after = (torch.log10(2 * math.pi / w) for w in (plain, now))
    pairs = torch.arange(DIM // 2)
    across = [-1, DIM // 2]
    data = [
        dict(
            type="scatter",
            name="as trained",
            mode="lines",
            x=pairs,
            y=before,
            line=dict(color=COLORS["gray"], width=2, dash="dot"),
        ),
        dict(
            type="scatter",
            name="under the scheme",
            mode="lines+markers",
            x=pairs,
            y=after,
            line=dict(color=COLORS["blue"], width=2),
            marker=dict(color=COLORS["blue"], size=5),
        ),
        dict(
            type="scatter",
            name="trained length L",
            mode="lines",
            x=across,
            y=[math.log10(trained)] * 2,
            line=dict(color=COLORS["orange"], width=2),
        ),
        dict(
            type="scatter",
            name="target length s L",
            mode="lines",
            x=across,
            y=[math.log10(factor * trained)] * 2,
            line=dict(color=COLORS["orange"], width=2, dash="dash"),
        ),
        dict(
            type="scatter",
            name="frequency divided by",
            mode="lines+markers",
            x=pairs,
            y=after - before,
            yaxis="y2",
            line=dict(color=COLORS["green"], width=2),
            marker=dict(color=COLORS["green"], size=5, symbol="square"),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="by s",
            mode="lines",
            x=across,
            y=[math.log10(factor)] * 2,
            yaxis="y2",
            line=dict(color=COLORS["gray"], width=1.5, dash="dash"),
            showlegend=False,
        ),
    ]
    layout = dict(
        height=540,
        xaxis=dict(range=[-1, DIM // 2], anchor="y2", title=dict(text="pair of lanes i, fast to slow")),
        yaxis=dict(range=[0.5, 8.4], domain=[0.4, 1], title=dict(text="wavelength, in tokens"), **DECADES),
        yaxis2=dict(range=[-0.12, 1.95], domain=[0, 0.3], title=dict(text="divided by"), **DIVISORS),
    )
    divided = 10 ** (after - before)
    whole = divided >= factor * (1 - 1e-9)
    return dict(data=data, layout=layout), {
        "open": int((before > math.log10(trained)).sum()),
        "kept": int((divided < 1 + 1e-9).sum()),
        "whole": int(whole.sum()) if factor > 1 else "–",
        "first": f"{divided[0].item():.3g}",
        "last": f"{divided[-1].item():.3g}",
    }


wavelengths = explorable(
    _wavelengths,
    id="scaling.wavelengths",
    title="How long is a turn, and how much does a scheme stretch it?",
    alt="Above, the wavelength of each of 64 pairs of lanes on a log scale, a straight dotted line as trained, and "
    "dots under the scheme chosen, with horizontal lines at the trained length and at the target length. Below, what "
    "divides each frequency: one level for position interpolation, a straight rise for NTK-aware scaling, "
    "two levels with a ramp between them for YaRN and for Llama 3.1.",
    readout="{open:d} of 64 pairs did not finish a turn in training; pairs whose frequency is kept: {kept:d}, divided "
    "by s or more: {whole}; the first is divided by {first}, the last by {last}",
    depends={
        "as trained": ["base"],
        "trained length L": ["trained"],
        "target length s L": ["trained", "factor"],
        "by s": ["factor"],
        "readout.open": ["trained", "base"],
    },
    scheme=slider(NAMES, label="scheme", default="YaRN, ramp by lanes"),
    factor=slider(FACTORS, label="factor s", default=8),
    trained=slider([4_096, 8_192], label="trained length L", format=_power),
    base=slider([10_000, 500_000], label="base b", format=_power),
)


# Angles seen and unseen

TRAINED = 4096


def _angles(scheme, factor, target, pair):
    plain = inv_freq(DIM, dtype=torch.float64)
    now = _schemes(float(factor), TRAINED, 10000.0)[scheme]
    seen = (plain * TRAINED / (2 * math.pi)).clamp(max=1)  # the part of a turn that distances up to L reach
    asked = (now * target * TRAINED / (2 * math.pi)).clamp(max=1)
    new = (asked - seen).clamp(min=0)
    new[new < 1e-9] = 0  # rounding, where a scheme hits the edge exactly
    pairs = torch.arange(DIM // 2)
    names = ("seen in training", "asked for at the target length")
    data = [
        *circle(pair, seen, asked, new, names, points=33),
        dict(
            type="scatter",
            name="angle of one token",
            mode="lines",
            x=pairs,
            y=now / plain,
            xaxis="x2",
            yaxis="y3",
            line=dict(color=COLORS["green"], width=3, shape="hvh"),
            showlegend=False,
        ),
    ]
    layout = dict(
        height=640,
        barmode="stack",
        bargap=0.15,
        xaxis=dict(range=[-1.45, 1.45], domain=[0, 1], constrain="domain", visible=False),
        yaxis=dict(range=[-1.45, 1.45], domain=[0.56, 1], scaleanchor="x", visible=False),
        xaxis2=dict(range=[-0.8, DIM // 2 - 0.2], anchor="y3", title=dict(text="pair of lanes i, fast to slow")),
        yaxis2=dict(range=[0, 1.18], domain=[0.26, 0.52], anchor="x2", title=dict(text="part of<br>the circle")),
        yaxis3=dict(range=[0, 1.1], domain=[0, 0.2], anchor="x2", title=dict(text="angle of one<br>token, ratio")),
    )
    return dict(data=data, layout=layout), {
        "blind": int((new > 0).sum()),
        "squeezed": int((now < plain * (1 - 1e-9)).sum()),
        "seen": f"{100 * seen[pair].item():.0f}%",
        "asked": f"{100 * asked[pair].item():.0f}%",
        "step": f"{100 * (now / plain)[pair].item():.3g}%",
    }


angles = explorable(
    _angles,
    id="scaling.angles",
    title="Angles seen and unseen, and what it costs to avoid them",
    alt="Three drawings. A circle for one pair of lanes: a thick inner arc for the angles that training showed, a "
    "dashed outer arc for those that the target length asks for under the scheme. Below it a bar for each of 64 pairs: "
    "the part of the circle seen, and hatched on top what is new. At the bottom, the angle of one token compared with "
    "training: one where the scheme keeps a pair, lower where it squeezes neighbors together.",
    readout=f"trained at {TRAINED:,}: {{blind:d}} of 64 pairs meet unseen angles, {{squeezed:d}} turn less per token; "
    "this pair: seen {seen} of the circle, asked for {asked}, one token turns {step} of what it did",
    depends={
        "a full turn": [],
        "seen in training": ["pair"],
        "asked for at the target length": ["scheme", "factor", "target", "pair"],
        "part of the circle seen": [],
        "new at the target length": ["scheme", "factor", "target"],
        "this pair": ["pair"],
        "angle of one token": ["scheme", "factor"],
        "readout.blind": ["scheme", "factor", "target"],
        "readout.squeezed": ["scheme", "factor"],
        "readout.seen": ["pair"],
        "readout.step": ["scheme", "factor", "pair"],
    },
    scheme=slider(NAMES, label="scheme", default="NTK-aware"),
    factor=slider(FACTORS[:-1], label="factor s", default=8),
    target=slider([1, 2, 4, 8, 16], label="target length, in trained lengths", default=8, format=_times),
    pair=slider(range(0, DIM // 2, 9), label="pair of lanes i", default=54),
)


# Temperature

KEYS = [TRAINED // 4 * 2**k for k in range(8)]
DRAWS = 16  # seeded draws behind a mean


@cache
def _logits():
    return torch.randn(DRAWS, KEYS[-1], generator=torch.Generator().manual_seed(5))


@cache
def _dilution(count, spread, strength):
    r"""Mean entropy (in nats) and mean largest weight of a softmax over `count` random logits of this spread.

    For more keys than in training logits are multiplied by (strength ln s + 1)^2, s = count / TRAINED.
    """
    sharpening = (strength * math.log(max(count / TRAINED, 1.0)) + 1.0) ** 2
    z = sharpening * spread * _logits()[:, :count]
    weights = z.softmax(-1)
    entropy = z.logsumexp(-1) - (weights * z).sum(-1)
    return entropy.mean().item(), weights.amax(-1).mean().item()


def _temperature(keys, spread, strength):
    bare, warm = ([_dilution(n, spread, c) for n in KEYS] for c in (0.0, strength))
    now, log_keys = KEYS.index(keys), [math.log10(n) for n in KEYS]
    edge = [math.log10(TRAINED)] * 2

    def line(name, values, which, color, dash, symbol):
        y = [v[0] if which == "y" else math.log10(v[1]) for v in values]
        return dict(
            type="scatter",
            name=name if which == "y" else f"{name}: largest weight",
            mode="lines+markers",
            x=log_keys,
            y=y,
            yaxis=which,
            showlegend=which == "y",
            line=dict(color=color, width=2, dash=dash),
            marker=dict(color=color, symbol=symbol, size=[14 if i == now else 6 for i in range(len(KEYS))], opacity=1),
        )

    data = [
        dict(
            type="scatter",
            name="all keys equal",
            mode="lines",
            x=log_keys,
            y=[math.log(n) for n in KEYS],
            line=dict(color=COLORS["gray"], width=1.5, dash="dot"),
        ),
        dict(
            type="scatter",
            name="trained length",
            mode="lines",
            x=edge,
            y=[0, 13],
            line=dict(color=COLORS["gray"], width=1.5, dash="dashdot"),
        ),
        line("logits as they are", bare, "y", COLORS["orange"], "dash", "diamond"),
        line("logits times (c ln s + 1)²", warm, "y", COLORS["blue"], "solid", "circle"),
        line("logits as they are", bare, "y2", COLORS["orange"], "dash", "diamond"),
        line("logits times (c ln s + 1)²", warm, "y2", COLORS["blue"], "solid", "circle"),
        dict(
            type="scatter",
            name="trained length below",
            mode="lines",
            x=edge,
            y=[-6, 0],
            yaxis="y2",
            line=dict(color=COLORS["gray"], width=1.5, dash="dashdot"),
            showlegend=False,
        ),
    ]
    ticks = KEYS[::2]
    layout = dict(
        height=500,
        xaxis=dict(
            range=[log_keys[0] - 0.1, log_keys[-1] + 0.1],
            anchor="y2",
            title=dict(text="keys n"),
            tickvals=[math.log10(n) for n in ticks],
            ticktext=[_power(n) for n in ticks],
        ),
        yaxis=dict(range=[0, 13], domain=[0.48, 1], title=dict(text="entropy, nats")),
        yaxis2=dict(
            range=[-5, 0.1],
            domain=[0, 0.4],
            title=dict(text="largest weight"),
            tickvals=[-4, -3, -2, -1, 0],
            ticktext=["10⁻⁴", "10⁻³", "10⁻²", "0.1", "1"],
        ),
    )
    trained = KEYS.index(TRAINED)
    return dict(data=data, layout=layout), {
        "sharper": f"{(strength * math.log(max(keys / TRAINED, 1.0)) + 1) ** 2:.2f}",
        "before": _power(math.exp(bare[trained][0])),
        "bare": _power(math.exp(bare[now][0])),
        "warm": _power(math.exp(warm[now][0])),
    }


temperature = explorable(
    _temperature,
    id="scaling.temperature",
    title="More keys, flatter attention, and a temperature against it",
    alt="Above, the entropy of one query's attention over n keys with random logits, against n on a log scale: with "
    "the logits as they are it rises in parallel to the dotted line of equal weights; with the logits multiplied it "
    "rises less beyond the trained length, or falls. Below, the largest weight: it sinks as keys are added, with the "
    "factor less. Large marks stand at the number of keys chosen.",
    readout=f"effective number of keys exp(entropy): {{before}} at {TRAINED:,} keys; at this n {{bare}} with the "
    "logits as they are, {warm} with the logits times {sharper}",
    depends={
        "all keys equal": [],
        "trained length": [],
        "trained length below": [],
        "logits as they are": ["keys", "spread"],
        "logits as they are: largest weight": ["keys", "spread"],
        "readout.before": ["spread"],
        "readout.bare": ["keys", "spread"],
        "readout.sharper": ["keys", "strength"],
    },
    keys=slider(KEYS, label="keys n", default=32_768, format=_power),
    spread=slider([0.5, 1.0, 1.5, 2.0, 3.0], label="spread of the logits", default=1.5),
    strength=slider([0.0, 0.05, 0.1, 0.15, 0.2], label="c (0.1 in YaRN)", default=0.1),
)


# Which lanes break it


def _which_lanes(kind, cutoff, *, results=None):
    results = load_results("rope_surgery") if results is None else results
    length, runs = results["settings"]["length"], results["stopped"][kind]
    ends = torch.tensor(results["until"], dtype=torch.float64)
    losses = torch.tensor(runs, dtype=torch.float64)  # [seed, cutoff, bin]
    none, everything = torch.tensor(results["stopped"]["slow"], dtype=torch.float64).mean(0)[[0, -1]]  # [bin]
    cut = torch.tensor(results["cut"], dtype=torch.float64).mean(0)
    frequencies = inv_freq(2 * results["cutoffs"][-1], dtype=torch.float64)
    pairs, slow = len(frequencies), int((2 * math.pi / frequencies > length).sum())
    edge = (slow if kind == "slow" else pairs - slow) + 0.5  # between the last that does not, or does, finish a turn
    beyond = ends >= 2 * length  # where most distances are unseen
    far = losses[..., beyond].mean(-1)  # [seed, cutoff]
    highest = max(torch.tensor(one).max().item() for one in results["stopped"].values())
    low, high = cut[1:].min().item() - 0.1, math.ceil(10 * highest) / 10

    def by_position(name, values, **style):
        return dict(type="scatter", name=name, mode="lines", x=ends, y=values, line=style)

    seeds, cutoffs = far.shape
    data = [
        by_position("RoPE as trained", none, color=COLORS["gray"], width=2, dash="dot"),
        by_position("attention cut to L", cut, color=COLORS["green"], width=2, dash="dash"),
        by_position("these pairs stopped", losses[:, cutoff].mean(0), color=COLORS["blue"], width=3),
        dict(
            type="scatter",
            name="trained length",
            mode="lines",
            x=[length, length],
            y=[low, high],
            line=dict(color=COLORS["gray"], width=1.5, dash="dashdot"),
        ),
        dict(
            type="scatter",
            name="mean beyond 2 L",
            mode="lines",
            x=torch.arange(cutoffs),
            y=far.mean(0),
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["blue"], width=2),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="each seed beyond 2 L",
            mode="markers",
            x=torch.arange(cutoffs).repeat(seeds),
            y=far.flatten(),
            xaxis="x2",
            yaxis="y2",
            marker=dict(color=COLORS["blue"], size=5),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="this many",
            mode="markers",
            x=[cutoff],
            y=[far[:, cutoff].mean()],
            xaxis="x2",
            yaxis="y2",
            marker=dict(color=COLORS["orange"], size=14, symbol="diamond"),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="cut beyond 2 L",
            mode="lines",
            x=[0, pairs],
            y=[cut[beyond].mean()] * 2,
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["green"], width=2, dash="dash"),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="a turn takes L tokens",
            mode="lines",
            x=[edge, edge],
            y=[low, high],
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["purple"], width=2, dash="dashdot"),
        ),
    ]
    layout = dict(
        height=540,
        xaxis=dict(range=[0, ends[-1].item() + 1], anchor="y", title=dict(text="position in the text")),
        yaxis=dict(range=[low, high], domain=[0.56, 1], title=dict(text="loss")),
        xaxis2=dict(range=[-0.5, pairs + 0.5], anchor="y2", title=dict(text=f"{kind}est pairs stopped")),
        yaxis2=dict(range=[low, high], domain=[0, 0.36], title=dict(text="loss beyond 2 L")),
    )
    return dict(data=data, layout=layout), {
        "which": f"{cutoff} of {pairs} pairs stopped, the {kind}est" if cutoff else f"none of {pairs} pairs stopped",
        "far": f"{far[:, cutoff].mean().item():.2f} ± {far[:, cutoff].std().item():.2f}",
        "plain": f"{none[beyond].mean().item():.2f}",
        "all": f"{everything[beyond].mean().item():.2f}",
        "cut": f"{cut[beyond].mean().item():.2f}",
    }


which_lanes = explorable(
    _which_lanes,
    id="scaling.which_lanes",
    title="Which lanes break it?",
    alt="Above, the loss of a trained model by position in the text: as trained it climbs beyond the trained length, "
    "with attention cut to that length it stays, and a thick line shows it with the chosen pairs of lanes stopped at "
    "the largest angle of training. Below, the loss far beyond the trained length against the number of pairs stopped, "
    "a dot for each seed, with a diamond at the number chosen, and an upright line between pairs that finish a turn "
    "within the trained length and pairs that don't.",
    readout="{which}: loss beyond twice the trained length {far}; none stopped {plain}, all stopped {all}, attention "
    "cut {cut}",
    depends={
        "RoPE as trained": [],
        "attention cut to L": [],
        "trained length": [],
        "cut beyond 2 L": [],
        "mean beyond 2 L": ["kind"],
        "each seed beyond 2 L": ["kind"],
        "a turn takes L tokens": ["kind"],
        "layout": ["kind"],
        "readout.plain": [],
        "readout.all": [],
        "readout.cut": [],
    },
    kind=slider(["slow", "fast"], label="which pairs stop first", format=lambda kind: f"the {kind}est"),
    cutoff=slider(load_results("rope_surgery")["cutoffs"], label="pairs stopped", default=8),
)
