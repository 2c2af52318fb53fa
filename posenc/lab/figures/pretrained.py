r"""Explorables of the chapter *Inside a pretrained model*: where its heads look, and which pairs carry their scores."""

import functools
import math
import statistics

import torch

from posenc.lab.experiments import half_width, load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.figures.parts import above, held, label, number, signed, thousands, upright

LAYERS, HEADS, PAIRS, TRAINED = 30, 9, 32, 8192
#: What most of a head's weight is on -> (color, symbol, the distances from .. up to).
KINDS = {
    "the first token": ("gray", "circle", None),
    "the last 8": ("orange", "diamond", (0, 8)),
    "8 to 255 back": ("green", "square", (8, 256)),
    "256 and more": ("blue", "triangle-up", (256, TRAINED)),
}
WEIGHT, SCORE = "weight", "score"
REACH = 4 * TRAINED


@functools.cache
def heads() -> dict[str, torch.Tensor]:
    r"""What was measured of all heads, [LAYERS, HEADS, ...] float64 each. Errors: ValueError for another model's."""
    results = load_results("pretrained")
    rows = results["heads"]
    wanted = [(layer, head) for layer in range(LAYERS) for head in range(HEADS)]
    if [(row["layer"], row["head"]) for row in rows] != wanted:
        raise ValueError(f"pretrained must hold {LAYERS} layers of {HEADS} heads, in order; measure it anew")
    names = ("first", "score", "weight", "energy", "cos", "sin")
    return {
        name: torch.tensor([row[name] for row in rows], dtype=torch.float64).unflatten(0, (LAYERS, HEADS))
        for name in names
    }


@functools.cache
def edges() -> list[int]:
    """The first distance of each bin, and the end of the last."""
    return load_results("pretrained")["edges"]


@functools.cache
def frequencies() -> torch.Tensor:
    """Radians a token of each pair, [PAIRS] float64."""
    return torch.tensor(load_results("pretrained")["inv_freq"], dtype=torch.float64)


def first_slow() -> int:
    """The first pair that does not finish a turn within the trained length; all after it don't either."""
    return int((frequencies() * (TRAINED - 1) >= 2 * math.pi).sum())


@functools.cache
def shares() -> torch.Tensor:
    r"""The part of each head's weight on each of KINDS: [LAYERS, HEADS, kinds]."""
    at, measured = torch.tensor(edges()[:-1]), heads()
    parts = [measured["first"]]
    for _, _, span in list(KINDS.values())[1:]:
        parts.append(measured["weight"][..., (at >= span[0]) & (at < span[1])].sum(-1))
    return torch.stack(parts, -1)


def held_curve(layer: int, head: int, distances: torch.Tensor) -> torch.Tensor:
    r"""A head's mean score if the queries and keys of the text, as they are, stood at each distance [n]."""
    angles = distances.double()[:, None] * frequencies()
    cos, sin = (heads()[name][layer, head] for name in ("cos", "sin"))
    return (angles.cos() * cos + angles.sin() * sin).sum(-1)


@functools.cache
def position_energy() -> torch.Tensor:
    r"""The part of each pair's energy that distance alone makes: [LAYERS, HEADS, PAIRS], in squared logits.

    The variance of the pair's mean part in the score over all distances up to the trained length, at most its energy.
    """
    angles = torch.arange(1, TRAINED, dtype=torch.float64)[:, None] * frequencies()
    basis = torch.stack((angles.cos(), angles.sin()), -1)  # [distances, PAIRS, 2]
    centered = basis - basis.mean(0)
    covariance = torch.einsum("dpa,dpb->pab", centered, centered) / len(basis)
    parts = torch.stack((heads()["cos"], heads()["sin"]), -1)
    return torch.einsum("lhpa,pab,lhpb->lhp", parts, covariance, parts).minimum(heads()["energy"])


def _middles() -> torch.Tensor:
    """Where the bins stand on an axis of powers of two: distance 0 at -1."""
    first, last = torch.tensor(edges()[:-1]).double(), torch.tensor(edges()[1:]).double() - 1
    return torch.where(first == 0, -1.0, (first.clamp(min=1) * last.clamp(min=1)).sqrt().log2())


@functools.cache
def _map() -> list[dict]:
    """A mark for each head, by what most of its weight is on."""
    kind = shares().argmax(-1)
    traces = []
    for number_of, (name, (color, symbol, _)) in enumerate(KINDS.items()):
        layer, head = (kind == number_of).nonzero().unbind(1)
        traces.append(
            dict(
                type="scatter",
                name=name,
                mode="markers",
                x=layer,
                y=head,
                marker=dict(color=COLORS[color], symbol=symbol, size=7),
                showlegend=False,
                hovertemplate=f"layer %{{x}}, head %{{y}}: most weight on {name}<extra></extra>",
            )
        )
    return traces


def _heads(layer, head, show):
    measured, middles = heads(), _middles()
    weights = measured["weight"][layer, head]
    distances = torch.cat((torch.tensor([0.5, 1]), 2 ** torch.linspace(1, math.log2(REACH), 57))).double()
    curve, dots = held_curve(layer, head, distances), measured["score"][layer, head]
    past = curve[distances > 0.99 * TRAINED]  # from the trained length on
    leap = (past.max() - past[0]).item()
    as_weight = show == WEIGHT
    every = torch.cat((curve, dots))
    low, high = math.floor(every.min().item()) - 1, math.ceil(every.max().item()) + 1
    step = next(step for step in (2, 5, 10, 20, 50, 100) if high - low <= 5 * step)
    ticks = [n for n in range(-1000, 1001, step) if low <= n <= high]
    high = math.ceil(high + 0.6 * (high - low))  # room for the names; whole, so that heads share a range
    top = 10 * math.ceil(13 * max(weights.max().item(), measured["first"][layer, head].item()) + 0.5)
    span = (0, top) if as_weight else (low, high)
    lower = dict(xaxis="x2", yaxis="y2")
    data = [
        *_map(),
        label(
            "what most weight is on",
            [-0.8, 8.4, 14.6, 23.4],
            [HEADS + 0.55] * 4,
            ["● first token", "◆ last 8", "■ 8 to 255", "▲ 256 +"],
            [COLORS[color] for color, _, _ in KINDS.values()],
            "middle right",
            12,
            cliponaxis=False,
        ),
        held("this head", layer, head, symbol="circle-open", size=22),
        dict(
            type="bar",
            name="share of the weight",
            x=torch.cat((torch.tensor([-3.0]), middles)) if as_weight else [],
            y=100 * torch.cat((measured["first"][layer, head][None], weights)) if as_weight else [],
            marker=dict(color=COLORS["blue"]),
            width=0.45,
            showlegend=False,
            hovertemplate="%{y:.1f} % of the weight<extra></extra>",
            **lower,
        ),
        dict(
            type="scatter",
            name="the same vectors at every distance",
            mode="lines",
            x=[] if as_weight else distances.log2(),
            y=[] if as_weight else curve,
            line=dict(color=COLORS["gray"], width=2),
            showlegend=False,
            hoverinfo="skip",
            **lower,
        ),
        dict(
            type="scatter",
            name="mean score of real pairs",
            mode="markers",
            x=[] if as_weight else middles,
            y=[] if as_weight else dots,
            marker=dict(color=COLORS["orange"], size=7),
            showlegend=False,
            hovertemplate="%{y:.1f}<extra></extra>",
            **lower,
        ),
        upright("trained length", math.log2(TRAINED), *span, COLORS["purple"], 2, "dashdot", **lower)
        | dict(
            mode="lines+text",
            text=["", "" if as_weight else f" then<br> <b>{signed(leap)}</b>"],
            textposition="bottom right",
            textfont=dict(size=13, color=COLORS["gray"]),
        ),
        label(
            "names",
            [-1.3, -1.3, math.log2(TRAINED) - 0.2],
            [span[1] - share * (span[1] - span[0]) for share in (0.09, 0.26, 0.09)],
            ["", "", "trained length"] if as_weight else ["● as measured", "━ same vectors, moved", "trained length"],
            [COLORS[color] for color in ("orange", "gray", "purple")],
            ["middle right", "middle right", "middle left"],
            halo=True,
            **lower,
        ),
    ]
    title = dict(x=0, xref="paper", yref="y2 domain", xanchor="left", yanchor="bottom", showarrow=False)
    what = "its weight by distance" if as_weight else "its mean score by distance"
    powers = [0, 3, 6, 9, 12, 15]
    layout = dict(
        height=500,
        showlegend=False,
        margin=dict(t=6),
        xaxis=dict(range=[-1.6, LAYERS - 0.2], dtick=5, zeroline=False, title=dict(text="layer", standoff=2)),
        yaxis=dict(range=[-1.1, HEADS + 1], tickvals=[0, 2, 4, 6, 8], domain=[0.57, 1], title=dict(text="head")),
        xaxis2=dict(
            range=[-3.8 if as_weight else -1.6, 15.4],
            anchor="y2",
            tickvals=[*([-3] if as_weight else []), -1, *powers],
            ticktext=[*(["first"] if as_weight else []), "0", "1", "8", "64", "512", "4k", "32k"],
            tickangle=0,
            title=dict(text="distance, in tokens", standoff=2),
        ),
        yaxis2=dict(
            range=list(span),
            domain=[0, 0.38],
            title=dict(text="% of weight" if as_weight else "score, logits"),
            tickvals=[0, top // 20 * 5, top // 20 * 10, top // 20 * 15] if as_weight else ticks,
        ),
        annotations=[title | dict(y=1.02, text=f"<b>the ringed head</b>, {what}")],
        meta=dict(phone=dict(yaxis=dict(domain=[0.64, 1]), yaxis2=dict(domain=[0, 0.46]), margin=dict(b=34))),
    )
    share = shares()[layer, head]
    return dict(data=data, layout=layout), {
        "first": f"{share[0]:.0%}",
        "near": f"{share[1]:.0%}",
        "far": f"{share[3]:.0%}",
    }


heads_by_layer = explorable(
    _heads,
    id="pretrained.heads_by_layer",
    title="Where does each head look?",
    alt="Above, a mark for each of 270 heads, 30 layers to the right and 9 heads upwards; shape and color tell what "
    "most of the head's weight is on: the first token, the last 8, 8 to 255 back, or 256 and more. A ring marks one "
    "head. Below, for that head, the share of its weight on the first token and by distance, or its mean score by "
    "distance: dots as measured, and a line for the same queries and keys moved to every distance, on to four times "
    "the trained length, which an upright line marks; a number says how far the line climbs past it.",
    readout="first: {first} · last 8: {near} · 256+: {far}",
    handles={"this head": ["layer", "head"]},
    depends={
        **{name: [] for name in KINDS},
        "what most weight is on": [],
        "this head": ["layer", "head"],
        "layout": ["layer", "head", "show"],
        **{f"readout.{name}": ["layer", "head"] for name in ("first", "near", "far")},
    },
    layer=slider(range(LAYERS), label="layer", default=16),
    head=slider(range(HEADS), label="head", default=0),
    show=slider([WEIGHT, SCORE], label="show", default=SCORE),
)


# Which pairs carry the scores


@functools.cache
def slow_shares() -> torch.Tensor:
    """The share of each head's energy in the pairs that do not finish a turn: [LAYERS, HEADS]."""
    energy = heads()["energy"]
    return energy[..., first_slow() :].sum(-1) / energy.sum(-1)


def _pairs(layer, head):
    energy, position = heads()["energy"][layer, head], position_energy()[layer, head]
    whole, pairs, slow = energy.sum(), torch.arange(PAIRS), first_slow()
    top = 10 * math.ceil(14 * (energy / whole).max().item() + 0.3)  # with room for names
    share = 100 * slow_shares()
    data = [
        dict(
            type="bar",
            name="from distance alone",
            x=pairs,
            y=100 * position / whole,
            marker=dict(color=COLORS["blue"]),
            hovertemplate="pair %{x}: %{y:.1f} % from distance alone<extra></extra>",
        ),
        dict(
            type="bar",
            name="from content",
            x=pairs,
            y=100 * (energy - position) / whole,
            marker=dict(color=COLORS["orange"], pattern=dict(shape="/", fillmode="replace")),
            hovertemplate="pair %{x}: %{y:.1f} % from content<extra></extra>",
        ),
        upright("between fast and slow", slow - 0.5, 0, top, COLORS["purple"], 2, "dashdot"),
        label(
            "names",
            [0.2, 0.2, slow],
            [0.93 * top, 0.79 * top, 0.93 * top],
            ["▨ from content", "■ from distance alone", "<b>slow:</b> never<br>a full turn"],
            [COLORS[color] for color in ("orange", "blue", "purple")],
            ["middle right", "middle right", "bottom right"],
            halo=True,
        ),
        dict(
            type="scatter",
            name="all heads",
            mode="markers",
            x=torch.arange(LAYERS).repeat_interleave(HEADS),
            y=share.flatten(),
            xaxis="x2",
            yaxis="y2",
            marker=dict(color=COLORS["gray"], size=5),
            showlegend=False,
            hovertemplate="layer %{x}: %{y:.0f} %<extra></extra>",
        ),
        held("this head", layer, share[layer, head], COLORS["purple"], "diamond", 12, xaxis="x2", yaxis="y2"),
        label(
            "its name",
            layer + (0.7 if layer < LAYERS / 2 else -0.7),
            -8,
            f"<b>◆ head {head} of layer {layer}</b>",
            COLORS["purple"],
            "middle right" if layer < LAYERS / 2 else "middle left",
            halo=True,
            xaxis="x2",
            yaxis="y2",
        ),
    ]
    title = dict(x=0, xref="paper", yref="paper", xanchor="left", yanchor="bottom", showarrow=False)
    layout = dict(
        height=500,
        barmode="stack",
        bargap=0.15,
        showlegend=False,
        margin=dict(t=26),
        xaxis=dict(
            range=[-0.8, PAIRS - 0.2],
            dtick=4,
            title=dict(text="pair of lanes, fast to slow", standoff=2),
            zeroline=False,
        ),
        yaxis=dict(range=[0, top], domain=[0.53, 1], title=dict(text="% of its energy"), nticks=5),
        xaxis2=dict(
            range=[-0.8, LAYERS - 0.2], dtick=5, anchor="y2", title=dict(text="layer", standoff=2), zeroline=False
        ),
        yaxis2=dict(
            range=[-18, 104], domain=[0, 0.33], tickvals=[0, 50, 100], title=dict(text="% in slow"), zeroline=False
        ),
        annotations=[
            title | dict(y=1, text="<b>one head</b>, how far each pair moves its scores"),
            title | dict(y=0.335, text="<b>every head</b>, the share of its slow pairs"),
        ],
    )
    return dict(data=data, layout=layout), {
        "slow": number(share[layer, head], 0),
        "position": number(100 * position.sum() / whole, 0),
        "best": int(energy.argmax()),
        "wave": thousands(2 * math.pi / frequencies()[energy.argmax()].item()),
    }


pairs = explorable(
    _pairs,
    id="pretrained.pairs",
    title="Which pairs of lanes carry a head's scores?",
    alt="Above, a bar for each of 32 pairs of lanes in one head, fastest on the left: its share of the head's energy, "
    "split into a solid part that distance alone makes and a hatched part from content. An upright line parts off the "
    "pairs that never finish a turn within the trained length. Below, a dot for each head of each layer: the share of "
    "its energy in those slow pairs, the chosen head marked.",
    readout="slow pairs {slow} % · distance alone {position} % · pair {best} leads: {wave} tokens a turn",
    handles={"this head": ["layer", "head"]},
    depends={"all heads": [], "layout": ["layer", "head"]},
    layer=slider(range(LAYERS), label="layer", default=16),
    head=slider(range(HEADS), label="head", default=0),
)


# Longer than trained

#: What is done -> its words, in the order of the figure's rows.
WAYS = {
    "whole": "as it is",
    "distance": "distance alone",
    "keys": "keys alone",
    "linear": "interpolation",
    "ntk": "NTK",
    "yarn": "YaRN",
}
#: What the two that take the length apart change.
APART = {"distance": "<br><i>farther, not more</i>", "keys": "<br><i>more, not farther</i>"}
TIMES = {1: "at its length", 2: "twice", 4: "four times"}
SYMBOLS = {1: "circle-open", 2: "square-open", 4: "diamond-open"}


@functools.cache
def rises(name: str) -> list[float]:
    r"""By how much each window's loss under a condition exceeds that of plain RoPE at its length, in nats a token.

    name: as in the frozen results, such as "4 yarn".
    """
    losses = load_results("pretrained")["losses"]
    return [a - b for a, b in zip(losses[name], losses["1 plain"], strict=True)]


def rises_of(times: int) -> dict[str, list[float]]:
    """`rises` of each of WAYS at so many times the trained length; at once, what no scheme touches has none."""
    losses = load_results("pretrained")["losses"]
    plain = dict.fromkeys(WAYS, "1 plain") if times == 1 else {}
    names = {way: f"{times} {way}" for way in WAYS}
    return {way: rises(name if name in losses else plain[way]) for way, name in names.items()}


def _lengths(times):
    rows, gap = {way: row for row, way in enumerate(WAYS)}, math.nan
    here = rises_of(times)
    means = {way: statistics.fmean(values) for way, values in here.items()}
    ends = [
        (x, rows[way])
        for way in here
        for x in (means[way] - half_width(here[way]), means[way] + half_width(here[way]), gap)
    ]
    data = [
        *(
            dict(
                type="scatter",
                name=words,
                mode="markers",
                x=[statistics.fmean(values) for values in rises_of(n).values()],
                y=[row + 0.3 for row in rows.values()],  # under the row of the chosen length
                marker=dict(color=COLORS["gray"], symbol=SYMBOLS[n], size=7),
                hoverinfo="skip",
            )
            for n, words in TIMES.items()
        ),
        dict(
            type="scatter",
            name="95% interval",
            mode="lines",
            x=[x for x, _ in ends],
            y=[y for _, y in ends],
            line=dict(color=COLORS["orange"], width=3),
            hoverinfo="skip",
        ),
        dict(
            type="scatter",
            name="this length",
            mode="markers",
            x=list(means.values()),
            y=[rows[way] for way in means],
            marker=dict(color=COLORS["orange"], symbol="diamond", size=10),
            hovertemplate="%{x:.2f} nats<extra></extra>",
        ),
        upright("no rise", 0, -0.6, len(WAYS) - 0.4, COLORS["purple"], 2, "dashdot"),
        label("name of the line", 0.15, -0.7, "no rise", COLORS["purple"], "middle right", 12),
        label(
            "numbers",
            [means[way] + half_width(here[way]) + 0.35 for way in here],
            [rows[way] - 0.02 for way in here],
            [f"<b>{signed(means[way], 2)}</b>" for way in here],
            COLORS["orange"],
            "middle right",
            halo=True,
        ),
        label(
            "verdicts",
            [10.3] * 2,
            [rows["keys"], rows["yarn"]],
            ["no harm" if times > 1 else "", "mends best" if times > 1 else "a price even here"],
            COLORS["ink"],
            "middle left",
            halo=True,
        ),
    ]
    layout = dict(
        height=400,
        showlegend=False,
        margin=dict(l=110, t=42),
        annotations=[
            dict(above(words, right=True), yshift=shift, font=dict(size=12, color=COLORS[color]))
            for words, shift, color in (
                ("<b>◆</b> this length, bar: 95% interval", 17, "orange"),
                ("below: ○ at its length, □ twice, ◇ four times", 0, "gray"),
            )
        ],
        xaxis=dict(range=[-0.3, 10.4], title=dict(text="rise of the loss, nats per token")),
        yaxis=dict(
            range=[len(WAYS) - 0.4, -1.05],
            tickvals=list(rows.values()),
            ticktext=[words + APART.get(way, "") for way, words in WAYS.items()],
            title=dict(text=""),
            zeroline=False,
        ),
    )
    return dict(data=data, layout=layout), {"tokens": thousands(times * TRAINED), "trained": thousands(TRAINED)}


lengths = explorable(
    _lengths,
    id="pretrained.lengths",
    title="What does the model lose beyond its length?",
    alt="A row for each way to read: as it is, distance alone, keys alone, interpolation, NTK, YaRN. A diamond with a "
    "bar, its 95% interval over windows, shows the rise of the loss on the same targets at the chosen length, "
    "over plain RoPE at the trained length, an upright line at zero. Below it open marks show all three lengths: a "
    "circle the trained one, a square twice and a diamond four times that.",
    readout="read {tokens} tokens, trained on {trained}",
    depends={**{name: [] for name in (*TIMES.values(), "no rise", "name of the line", "layout", "readout.trained")}},
    times=slider(list(TIMES), label="length", default=4, format=lambda times: TIMES[times]),
)
