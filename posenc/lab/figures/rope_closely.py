r"""Explorables of the chapter *RoPE, looked at closely*."""

import math
from functools import cache

import torch

from posenc.lab.experiments import load_results
from posenc.lab.explore import COLORS, explorable, slider
from posenc.rotate.rope import inv_freq, rotate, xpos

#: Where rounding may enter on the way to cos and sin, and to what: what is rounded, and the dtype.
ROUNDED = {
    "float32 angles": ("angles", torch.float32),
    "positions in fp16": ("positions", torch.float16),
    "positions in bf16": ("positions", torch.bfloat16),
    "frequencies in fp16": ("frequencies", torch.float16),
    "frequencies in bf16": ("frequencies", torch.bfloat16),
    "cos and sin in fp16": ("table", torch.float16),
    "cos and sin in bf16": ("table", torch.bfloat16),
}


def rounded_cos_sin(positions, inv_freq, where):
    r"""cos and sin [..., T, p/2] in float64, rounded on the way at the one place that `where`, of `ROUNDED`, names."""
    place, dtype = ROUNDED[where]
    if place == "angles":
        angles = (positions[..., None].to(dtype) * inv_freq.to(dtype)).double()
    elif place == "positions":
        angles = positions.to(dtype).double()[..., None] * inv_freq.double()
    elif place == "frequencies":
        angles = positions.double()[..., None] * inv_freq.to(dtype).double()
    else:
        angles = positions.double()[..., None] * inv_freq.double()
    cos, sin = angles.cos(), angles.sin()
    return (cos.to(dtype).double(), sin.to(dtype).double()) if place == "table" else (cos, sin)


def turn_rounded(x, positions, inv_freq, where):
    r"""`posenc.rope.rotate` in the interleaved layout, all in float64 but for the one rounding that `where` names."""
    cos, sin = rounded_cos_sin(positions, inv_freq, where)
    a, b = x.double().unflatten(-1, (-1, 2)).unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2).to(x.dtype)


# Score by distance: which content, which pairs of lanes, which encoding

DIM, DRAWS, POINTS = 64, 400, 65
SPANS = [64, 256, 1_024]  # multiples of POINTS - 1: every point is a whole distance
LANES = {
    "all 32 pairs": slice(0, 32),
    "the 16 fastest": slice(0, 16),
    "the 16 slowest": slice(16, 32),
    "pair 8 alone": slice(8, 9),
}
ENCODINGS = ["RoPE", "p-RoPE: the 8 fastest turn", "xPos, B = 512"]


def _number(value):
    return f"{value:,.0f}"


def _words(value, digits=2):
    return f"{round(float(value), digits) + 0.0:,.{digits}f}".replace("-", "−")


@cache
def _scores(content, target, encoding, lanes, span):
    r"""Scores q . k / sqrt(D) of DRAWS seeded pairs at POINTS distances: [DRAWS, POINTS]."""
    generator = torch.Generator().manual_seed(4)
    q, k = torch.randn(2, DRAWS, DIM, dtype=torch.float64, generator=generator)
    w = inv_freq(DIM, dtype=torch.float64)
    if encoding == ENCODINGS[1]:
        w = torch.where(torch.arange(DIM // 2) < 8, w, 0.0)
    if content != "random q and k":
        k = rotate(q, torch.full((DRAWS,), float(target), dtype=torch.float64), w)
    distances = torch.linspace(0, span, POINTS, dtype=torch.float64)
    turned = rotate(q[:, None].expand(-1, POINTS, -1), distances, w)
    parts = (turned * k[:, None]).unflatten(-1, (-1, 2)).sum(-1)  # [DRAWS, POINTS, D/2]
    if encoding == ENCODINGS[2]:
        parts = parts * xpos(DIM).rotate.zeta ** (distances[:, None] / 512)
    return parts[..., LANES[lanes]].sum(-1) / math.sqrt(DIM)


def _by_distance(content, target, encoding, lanes, span):
    random = content == "random q and k"
    distances = torch.linspace(0, span, POINTS, dtype=torch.float64)
    scores = _scores(content, target if not random else 0, encoding, lanes, span)
    mean, spread, none = scores.mean(0), scores.std(0), torch.zeros(0)
    data = [
        dict(
            type="scatter",
            name="mean ± spread",
            mode="lines",
            fill="toself",
            hoverinfo="skip",
            line=dict(width=0, color=COLORS["sky"]),
            x=torch.cat((distances, distances.flip(0))) if random else none,
            y=torch.cat((mean + spread, (mean - spread).flip(0))) if random else none,
        ),
        dict(
            type="scatter",
            name="one draw",
            mode="lines",
            x=distances,
            y=scores[0],
            line=dict(color=COLORS["orange"], width=1.5, dash="dot"),
        ),
        dict(
            type="scatter",
            name="mean of all draws",
            mode="lines",
            x=distances,
            y=mean,
            line=dict(color=COLORS["ink"], width=2.5),
        ),
    ]
    layout = dict(
        height=400,
        xaxis=dict(range=[0, span], title=dict(text="distance m − n, in tokens")),
        yaxis=dict(range=[-4, 4] if random else [-4, 11], title=dict(text="score q · k / √D")),
    )
    best = int(distances[mean.argmax()])
    return dict(data=data, layout=layout), {
        "near": _words(spread[0]),
        "far": _words(spread[-1]),
        "best": "–" if random else f"{best:,d}",
        "end": _words(mean[-1]),
    }


score_kinds = explorable(
    _by_distance,
    id="rope_closely.score_kinds",
    title="Does it decay? Content, lanes and encoding, one at a time",
    alt="Score against distance. For random vectors under RoPE the mean is a flat line at zero and the band around it "
    "keeps its width at every distance. For a key aimed at a distance the curve peaks at that distance and wavers on "
    "both sides. Under xPos the band and the peak shrink with distance.",
    readout="spread over draws at distance 0: {near}, at the far end: {far}; highest mean among the points at distance "
    "{best}; mean at the far end: {end}",
    depends={"mean ± spread": ["content", "encoding", "lanes", "span"], "layout": ["content", "span"]},
    content=slider(["random q and k", "k = R(a) q, a key aimed at distance a"], label="vectors"),
    target=slider([0, 8, 16, 40, 64], label="a, in tokens (aimed key only)", default=40),
    encoding=slider(ENCODINGS, label="encoding"),
    lanes=slider(list(LANES), label="pairs of lanes"),
    span=slider(SPANS, label="distances up to", format=_number),
)


# Which pairs of lanes a trained head uses

PAIRS, HEADS, WINDOW = 12, 12, 64  # of the study model


@cache
def _trained():
    r"""The heads' energy by pair, and their mean score by distance: (energy and position [HEADS, PAIRS] each, curves).

    curves: [HEADS, PAIRS, WINDOW], the mean part of each pair in the score at every distance within the window.
    """
    used, heads = load_results("rope_closely")["heads"], load_results("rope_heads")
    energy, position = (torch.tensor([h[key] for h in used], dtype=torch.float64) for key in ("energy", "position"))
    angles = torch.arange(WINDOW)[:, None] * torch.tensor(heads["inv_freq"], dtype=torch.float64)
    cos, sin = (torch.tensor([h[k] for h in heads["heads"]], dtype=torch.float64)[..., None] for k in ("cos", "sin"))
    return energy, position, angles.cos().T * cos + angles.sin().T * sin


def _lanes(head, pair):
    energy, position, curves = _trained()
    pairs, content = torch.arange(PAIRS), energy - position
    top = math.ceil(10 * energy[head].max().item()) / 10
    reach = math.ceil(10 * curves[head].abs().max().item()) / 10
    data = [
        dict(type="bar", name="from position", x=pairs, y=position[head], marker=dict(color=COLORS["blue"])),
        dict(
            type="bar",
            name="from content",
            x=pairs,
            y=content[head],
            marker=dict(color=COLORS["orange"], pattern=dict(shape="/", fillmode="replace")),
        ),
        dict(
            type="scatter",
            name="this pair",
            mode="markers",
            x=[pair],
            y=[1.06 * top],
            showlegend=False,
            marker=dict(symbol="triangle-down", size=13, color=COLORS["ink"]),
        ),
        dict(
            type="scatter",
            name="mean part of this pair in the score",
            mode="lines",
            x=torch.arange(WINDOW),
            y=curves[head, pair],
            xaxis="x2",
            yaxis="y2",
            line=dict(color=COLORS["ink"], width=2.5),
            showlegend=False,
        ),
    ]
    layout = dict(
        height=520,
        barmode="stack",
        bargap=0.15,
        xaxis=dict(range=[-0.6, PAIRS - 0.4], dtick=1, title=dict(text="pair of lanes, fastest first")),
        yaxis=dict(range=[0, 1.15 * top], domain=[0.48, 1], title=dict(text="energy, logits²")),
        xaxis2=dict(range=[0, WINDOW - 1], anchor="y2", title=dict(text="distance m − n, in tokens")),
        yaxis2=dict(range=[-reach, reach], domain=[0, 0.3], anchor="x2", title=dict(text="mean part")),
    )
    return dict(data=data, layout=layout), {
        "share": f"{position[head, pair] / energy[head, pair]:.0%}",
        "whole": f"{position[head].sum() / energy[head].sum():.0%}",
        "turns": _words((WINDOW - 1) * inv_freq(2 * PAIRS)[pair] / (2 * math.pi), 3),
    }


lane_use = explorable(
    _lanes,
    id="rope_closely.lane_use",
    title="What each pair of lanes does in a trained head",
    alt="Above, a bar for each of 12 pairs of lanes in one trained head, fastest on the left: how much the pair moves "
    "the score, split into a solid part that depends on position alone and a hatched part that depends on content. "
    "Nearly all of it is in the five fastest pairs; the slow pairs have short, hatched bars. Below, the mean "
    "part of the chosen pair in the score against distance: an oscillation for a fast pair, nearly "
    "a straight line for a slow one.",
    readout="from position: {share} of this pair's energy, {whole} of the head's; this pair turns {turns} times within "
    "the training window",
    depends={
        "from position": ["head"],
        "from content": ["head"],
        "layout": ["head"],
        "readout.whole": ["head"],
        "readout.turns": ["pair"],
    },
    head=slider(range(HEADS), label="head", default=4, format=lambda index: f"layer {index // 4}, head {index % 4}"),
    pair=slider(range(PAIRS), label="pair of lanes i", default=2),
)


# Rounding on the way to cos and sin

WIDE, BINS, DRAWN = 128, 64, 256
REACHES = [512, 4_096, 32_768, 131_072, 1_048_576]
FLOOR = -9  # smaller errors are drawn here


@cache
def _places(reach):
    r"""Positions to test, [BINS, n]: all of a short bin, else DRAWN at random (multiples of a power of two flatter)."""
    width = reach // BINS
    if width <= DRAWN:
        within = torch.arange(width).expand(BINS, -1)
    else:
        within = torch.randint(width, (BINS, DRAWN), generator=torch.Generator().manual_seed(reach))
    return torch.arange(0, reach, width)[:, None] + within


@cache
def _exact(reach):
    return (_places(reach).double()[..., None] * inv_freq(WIDE, dtype=torch.float64)).cos()


@cache
def cosine_errors(where, reach):
    r"""The largest error of the cosine in each of BINS bins of positions, for each pair of D = 128: [BINS, 64]."""
    cos, _ = rounded_cos_sin(_places(reach), inv_freq(WIDE, dtype=torch.float64), where)
    return (cos - _exact(reach)).abs().amax(1)  # nan where a position has overflowed


def _precision(where, reach, pair):
    width = reach // BINS
    errors = cosine_errors(where, reach)
    middle = torch.arange(0, reach, width) + width / 2
    log = errors.log10().clamp(min=FLOOR)
    data = [
        dict(
            type="scatter",
            name="worst pair",
            mode="lines",
            x=middle,
            y=log.amax(1),
            line=dict(color=COLORS["gray"], width=2, dash="dash"),
        ),
        dict(
            type="scatter",
            name="this pair",
            mode="lines",
            x=middle,
            y=log[:, pair],
            line=dict(color=COLORS["blue"], width=2.5),
        ),
        dict(
            type="scatter",
            name="one rounding of a cosine to bf16",
            mode="lines",
            x=[0, reach],
            hoverinfo="skip",
            y=[math.log10(2**-9)] * 2,
            line=dict(color=COLORS["orange"], width=1.5, dash="dot"),
        ),
    ]
    ticks = list(range(FLOOR, 1))
    raised = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
    names = ["1" if t == 0 else "10⁻" + str(-t).translate(raised) for t in ticks]
    layout = dict(
        height=400,
        xaxis=dict(range=[0, reach], title=dict(text="position")),
        yaxis=dict(range=[FLOOR - 0.2, 0.5], tickvals=ticks, ticktext=names, title=dict(text="largest error of cos")),
    )
    finite = errors[errors.isfinite().all(1)]
    return dict(data=data, layout=layout), {
        "worst": f"{finite.max():.2g}".replace("-", "−"),
        "this": f"{finite[:, pair].max():.2g}".replace("-", "−"),
        "lost": "" if len(finite) == BINS else "; beyond the gap positions overflow to infinity",
    }


precision = explorable(
    _precision,
    id="rope_closely.precision",
    title="What rounding does to the angle",
    alt="The largest error of a pair's cosine against position, on a logarithmic scale. With positions in bf16 the "
    "fast pairs are wrong by order one soon after position 256. Rounded frequencies give an error that grows with the "
    "position until it is of order one. Rounding cosine and sine themselves gives a flat line. Angles in float32 give "
    "an error that grows with the position but stays small.",
    readout="largest error drawn: {worst}, of this pair {this}{lost}",
    depends={
        "worst pair": ["where", "reach"],
        "one rounding of a cosine to bf16": ["reach"],
        "layout": ["reach"],
        "readout.worst": ["where", "reach"],
        "readout.lost": ["where", "reach"],
    },
    where=slider(list(ROUNDED), label="rounded", default="positions in bf16"),
    reach=slider(REACHES, label="positions up to", default=4_096, format=_number),
    pair=slider([0, 1, 4, 8, 16, 32, 63], label="pair of lanes i", default=8),
)
