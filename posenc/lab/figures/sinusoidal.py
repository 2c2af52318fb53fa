r"""Explorables of the chapter Sinusoidal: the ladder, the inner product by offset, the one rotation, the volume."""

import math

import numpy as np
import torch

from posenc import sinusoidal
from posenc.lab.exercises.sinusoidal import rotation
from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, DIVERGING, explorable, slider

POSITIONS = 48  # rows of the heat map
CONTEXTS = (16, 64, 256, 1024, 4096)


def _ladder(dim, base, position, context, *, table=sinusoidal.table):
    lanes = torch.arange(dim)
    code = table(torch.arange(POSITIONS), dim, base)
    pairs = torch.arange(0, dim, 2, dtype=torch.float64)
    wavelengths = 2 * math.pi * base ** (pairs / dim)
    turns = wavelengths <= context
    edges = [-0.5, dim - 0.5]

    def steps(chosen):  # where not chosen, a gap
        return torch.where(chosen, wavelengths, torch.nan)

    data = [
        dict(
            type="heatmap",
            name="PE(p), every lane and position",
            x=lanes,
            y=torch.arange(POSITIONS),
            z=code,
            zmin=-1,
            zmax=1,
            colorscale=DIVERGING,
            showscale=False,
            hovertemplate="lane %{x}, p = %{y}: %{z:.2f}<extra></extra>",
        ),
        dict(
            type="scatter",
            name="the position p",
            x=edges,
            y=[position, position],
            mode="lines",
            line=dict(color=COLORS["ink"], width=3),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="PE(p) at that position",
            x=lanes,
            y=code[position],
            mode="lines+markers",
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["blue"], width=1),
            marker=dict(size=5),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="completes a turn",
            x=pairs + 0.5,
            y=steps(turns),
            mode="markers",
            xaxis="x3",
            yaxis="y3",
            marker=dict(color=COLORS["green"], size=8),
        ),
        dict(
            type="scatter",
            name="never completes a turn",
            x=pairs + 0.5,
            y=steps(~turns),
            mode="markers",
            xaxis="x3",
            yaxis="y3",
            marker=dict(color=COLORS["orange"], size=8, symbol="x"),
        ),
        dict(
            type="scatter",
            name="context length",
            x=edges,
            y=[context, context],
            mode="lines",
            xaxis="x3",
            yaxis="y3",
            line=dict(color=COLORS["ink"], dash="dash"),
        ),
    ]
    layout = dict(
        height=640,
        xaxis=dict(range=edges, anchor="y"),
        yaxis=dict(range=[POSITIONS - 0.5, -0.5], domain=[0.62, 1], title=dict(text="position p")),
        xaxis2=dict(range=edges, anchor="y2", matches="x"),
        yaxis2=dict(range=[-1.15, 1.15], domain=[0.38, 0.54], title=dict(text="value")),
        xaxis3=dict(range=edges, anchor="y3", matches="x", title=dict(text="lane")),
        yaxis3=dict(
            type="log",
            range=[0.5, 7.1],
            dtick=2,
            domain=[0, 0.3],
            title=dict(text="wavelength (tokens)"),
            exponentformat="power",
        ),
    )
    readouts = {
        "first": wavelengths[0].item(),
        "last": wavelengths[-1].item(),
        "turning": int(turns.sum()),
        "pairs": dim // 2,
    }
    return dict(data=data, layout=layout), readouts


ladder = explorable(
    _ladder,
    id="sinusoidal.ladder",
    title="The frequency ladder",
    alt="Three panels over the lanes of the encoding. Top: a heat map of lanes against positions; stripes in the first "
    "lanes change at every position, the last lanes hardly at all. Middle: the row of the chosen position. Bottom: the "
    "wavelength of each pair of lanes on a log axis, a straight line upwards, crossed by the context length.",
    readout="wavelengths {first:.2f} to {last:.0f} tokens; in the context, {turning:d} of {pairs:d} clocks turn fully",
    depends={
        "PE(p), every lane and position": ["dim", "base"],
        "the position p": ["dim", "position"],
        "PE(p) at that position": ["dim", "base", "position"],
        "completes a turn": ["dim", "base", "context"],
        "never completes a turn": ["dim", "base", "context"],
        "context length": ["dim", "context"],
        "layout": ["dim"],
        "readout": ["dim", "base", "context"],
        "readout.first": ["dim", "base"],
        "readout.last": ["dim", "base"],
        "readout.pairs": ["dim"],
    },
    dim=slider([8, 16, 32, 64], label="model size C", default=32),
    base=slider([1e2, 1e4, 1e6], label="base b", default=1e4, format=lambda v: f"{v:,.0f}"),
    position=slider(range(POSITIONS), label="position p", default=12),
    context=slider(CONTEXTS, label="context length", default=64),
)


OFFSETS = torch.arange(-48, 49)
BETWEEN = ("nothing", "the rotation R(−10)", "a random matrix")


def _inner_product(p, dim, base, between, *, table=sinusoidal.table):
    def scores(start):  # PE(start) A PE(start + k)^T over C/2, for every offset k
        here = table(torch.tensor([start], dtype=torch.float64), dim, base)
        there = table((start + OFFSETS).double(), dim, base)
        if between == BETWEEN[1]:
            here = here @ rotation(-10, dim, base, dtype=torch.float64)
        elif between == BETWEEN[2]:
            here = here @ torch.randn(dim, dim, generator=torch.Generator().manual_seed(0), dtype=torch.float64) / 5
        return (there @ here[0]) / (dim / 2)

    data = [
        dict(
            type="scatter",
            name="from position 0",
            x=OFFSETS,
            y=scores(0),
            mode="lines",
            line=dict(color=COLORS["sky"], width=7),
        ),
        dict(
            type="scatter",
            name="from position 50",
            x=OFFSETS,
            y=scores(50),
            mode="lines",
            line=dict(color=COLORS["orange"], width=3, dash="dash"),
        ),
        dict(
            type="scatter",
            name="from position p",
            x=OFFSETS[::2],
            y=scores(p)[::2],
            mode="markers",
            marker=dict(color=COLORS["ink"], size=6, symbol="diamond-open"),
        ),
    ]
    layout = dict(
        height=380,
        xaxis=dict(range=[-48.5, 48.5], title=dict(text="offset k")),
        yaxis=dict(range=[-1.15, 1.15], title=dict(text="score over C/2")),
    )
    gap = (scores(p) - scores(0)).abs().max()
    return dict(data=data, layout=layout), {"gap": gap}


inner_product = explorable(
    _inner_product,
    id="sinusoidal.inner_product",
    title="The inner product by offset",
    alt="Three curves of the score between position p and p + k against the offset k. With nothing between them the "
    "curves lie on top of each other, with a peak of 1 at offset 0. A rotation moves it; a random matrix parts them.",
    readout="largest difference between the curves from p and from 0: {gap:.3f}",
    depends={"from position 0": ["dim", "base", "between"], "from position 50": ["dim", "base", "between"]},
    p=slider(range(0, 101, 5), label="position p", default=20),
    dim=slider([4, 16, 64], label="model size C", default=64),
    base=slider([10.0, 1e2, 1e4], label="base b", default=1e4, format=lambda v: f"{v:,.0f}"),
    between=slider(BETWEEN, label="between the two"),
)


def _one_rotation(p, k, pair, *, table=sinusoidal.table):
    dim, base = 8, 100.0
    frequency = base ** (-2 * pair / dim)

    def hand(position):
        x, y = table(torch.tensor([position], dtype=torch.float64), dim, base)[0, 2 * pair : 2 * pair + 2].tolist()
        return x, y

    def arc(start, radius):  # the clock's way from start to start + k: clockwise from the top
        angle = frequency * (start + torch.linspace(0, k, 15, dtype=torch.float64))
        return radius * angle.sin(), radius * angle.cos()

    around = torch.linspace(0, 2 * math.pi, 65)
    (x0, y0), (x1, y1), (u, v) = hand(p), hand(p + k), hand(k)
    arc_x, arc_y = arc(p, 0.55)
    ghost_x, ghost_y = arc(0, 0.3)
    data = [
        dict(
            type="scatter",
            name="clock face",
            x=around.cos(),
            y=around.sin(),
            mode="lines",
            showlegend=False,
            line=dict(color=COLORS["gray"], width=1),
            hoverinfo="skip",
        ),
        dict(type="scatter", name="PE(0)", x=[0, 0], y=[0, 1], mode="lines", line=dict(color=COLORS["gray"], width=2)),
        dict(
            type="scatter",
            name="PE(k)",
            x=[0, u],
            y=[0, v],
            mode="lines",
            line=dict(color=COLORS["gray"], width=2, dash="dot"),
        ),
        dict(
            type="scatter",
            name="R(k) from 0",
            x=ghost_x,
            y=ghost_y,
            mode="lines",
            showlegend=False,
            line=dict(color=COLORS["gray"], width=2),
        ),
        dict(
            type="scatter",
            name="PE(p)",
            x=[0, x0],
            y=[0, y0],
            mode="lines+markers",
            line=dict(color=COLORS["blue"], width=3),
            marker=dict(size=[1, 11]),
        ),
        dict(
            type="scatter",
            name="PE(p + k)",
            x=[0, x1],
            y=[0, y1],
            mode="lines+markers",
            line=dict(color=COLORS["orange"], width=3, dash="dash"),
            marker=dict(size=[1, 11], symbol="diamond"),
        ),
        dict(
            type="scatter",
            name="R(k) from p",
            x=arc_x,
            y=arc_y,
            mode="lines",
            showlegend=False,
            line=dict(color=COLORS["green"], width=3),
        ),
    ]
    layout = dict(
        height=440,
        xaxis=dict(range=[-1.15, 1.15], title=dict(text="lane 2i: sin"), zeroline=False, constrain="domain"),
        yaxis=dict(range=[-1.15, 1.15], title=dict(text="lane 2i + 1: cos"), scaleanchor="x", zeroline=False),
    )
    return dict(data=data, layout=layout), {"angle": k * frequency, "degrees": math.degrees(k * frequency)}


one_rotation = explorable(
    _one_rotation,
    id="sinusoidal.one_rotation",
    title="One rotation carries every position",
    alt="A clock face for one pair of lanes. A solid hand stands at position p, a dashed one at p + k, with the arc "
    "between them. A gray pair of hands stands at 0 and k, with an arc of the same angle.",
    readout="R(k) turns by k·ω = {angle:+.3f} radians ({degrees:+.0f} degrees), from every p",
    depends={
        "clock face": [],
        "PE(0)": [],
        "PE(k)": ["k", "pair"],
        "R(k) from 0": ["k", "pair"],
        "PE(p)": ["p", "pair"],
        "PE(p + k)": [("p", "k"), "pair"],
        "readout": ["k", "pair"],
    },
    p=slider(range(13), label="position p", default=2),
    k=slider(range(-6, 7), label="offset k", default=2),
    pair=slider(range(4), label="pair of lanes i"),
)


VOLUMES = (0.0, 0.03, 96**-0.5, 0.3, 1.0, 3.0, 10.0)


def _volume(volume, *, results=None):
    results = load_results("sinusoidal_volume") if results is None else results
    lengths = results["lengths"]
    curves = {v: np.array(results["methods"][f"{v:.4f}"]["whole"]) for v in VOLUMES}  # [seeds, lengths]
    mean, spread = curves[volume].mean(0), curves[volume].std(0, ddof=1)
    none = curves[0.0].mean(0)
    means = [curve.mean(0) for curve in curves.values()]
    bottom, top = min(map(min, means)), max(map(max, means))
    pad = 0.08 * (top - bottom)
    others_x, others_y = [], []
    for v, curve in curves.items():
        if v:
            others_x += [*lengths, math.nan]
            others_y += [*curve.mean(0), math.nan]
    data = [
        dict(
            type="scatter",
            name="other volumes",
            x=others_x,
            y=others_y,
            mode="lines",
            line=dict(color=COLORS["gray"], width=1),
        ),
        dict(
            type="scatter",
            name="no encoding",
            x=lengths,
            y=none,
            mode="lines",
            line=dict(color=COLORS["ink"], width=2, dash="dash"),
        ),
        dict(
            type="scatter",
            name="this volume",
            x=lengths,
            y=mean,
            mode="lines+markers",
            line=dict(color=COLORS["blue"], width=3),
            marker=dict(size=9),
        ),
        dict(
            type="scatter",
            name="each seed",
            x=lengths * len(curves[volume]),
            y=curves[volume].flatten(),
            mode="markers",
            marker=dict(color=COLORS["ink"], size=5, symbol="circle-open"),
        ),
    ]
    layout = dict(
        height=420,
        xaxis=dict(
            type="log",
            range=[math.log10(lengths[0]) - 0.08, math.log10(lengths[-1]) + 0.08],
            tickvals=lengths,
            ticktext=[str(n) for n in lengths],
            title=dict(text="characters of context"),
        ),
        yaxis=dict(range=[bottom - pad, top + pad], title=dict(text="loss, nats per character")),
    )
    share = volume**2 / 2 / (1 + volume**2 / 2)  # of the squared length, |x|^2 = C and |PE|^2 = volume^2 C/2
    readouts = {
        "share": f"{share:.0%}" if 0.01 <= share or not share else f"{share:.1%}" if share >= 0.001 else f"{share:.2%}",
        "short": mean[0],
        "spread": spread[0],
        "saved": f"{none[0] - mean[0]:+.3f}".replace("-", "−"),
    }
    return dict(data=data, layout=layout), readouts


volume = explorable(
    _volume,
    id="sinusoidal.volume",
    title="The volume knob",
    alt="Loss against the length of the context for the chosen volume of the sinusoid, in bold, beside the model "
    "without encoding, dashed, and all other volumes, thin. Quiet ones lie on the dashed line; from a volume near one "
    "on the loss at the training length is far lower, and jumps up at longer contexts.",
    readout="position is {share} of the squared length of the sum at the start; loss at the training length "
    "{short:.3f} ± {spread:.3f}, saved against no encoding: {saved}",
    depends={"other volumes": [], "no encoding": []},
    volume=slider(
        VOLUMES,
        label="volume (embeddings: 1)",
        default=1.0,
        format=lambda v: "1/√96 = 0.102" if v == VOLUMES[2] else f"{v:g}",
    ),
)
