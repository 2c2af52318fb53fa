r"""Explorables of the ALiBi chapter."""

import math

import torch

from posenc.bias.alibi import bias, slopes
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, dots, label, line, path, upright

KEYS = 128
MATCH, MATCH_LOGIT = 24, 6.0  # one key fits the query: its logit stands this far above the flat level
FLOOR = 1e-6  # weights below this are not drawn
LOW, EDGE = -17.0, -14.5  # the lower edge of the panel of biases, and where a line ends that would leave it
TICKS = ["10⁻⁶", "10⁻⁴", "10⁻²", "1"]
WEIGHTS = [-6.2, 3.0]  # the panel of weights, as powers of ten, with room for two names over a weight of one


def content_logits():
    """Seeded content logits of the keys: noise of spread 1, and one key that fits the query."""
    noise = torch.randn(KEYS, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    noise[MATCH] = MATCH_LOGIT
    return noise


def _log10(weights):
    """Base-10 logarithms for a drawing, gaps where the weight is below FLOOR."""
    return [math.log10(w) if w >= FLOOR else math.nan for w in weights]


def _end(line):
    """Where the line of a head, a bias by key, leaves the upper panel: at the first key or at its lower edge."""
    steep = (line[-1] - line[0]).item() / max(len(line) - 1, 1)
    if line[0].item() >= EDGE or not steep:
        return 0.0, line[0].item()
    return len(line) - 1 + (EDGE - line[-1].item()) / steep, EDGE


def _slope(m):
    """A slope in few letters: 1/4, or 0.35 where it is no such fraction."""
    return f"1/{1 / m:.0f}" if abs(1 / m - round(1 / m)) < 1e-4 else f"{m:.3f}"


def _named(ends, chosen):
    """Of the other heads, those whose slopes can be written beside its own, the steepest and the mildest first."""
    named = [chosen]
    for head in [0, len(ends) - 1, *range(1, len(ends) - 1)]:
        (x, y), taken = ends[head], [ends[h] for h in named]
        if all(abs(x - a) > 26 or abs(y - b) > 1.2 for a, b in taken):
            named.append(head)
    return named[1:]


def _decay(heads, head, query, *, slopes=slopes, bias=bias):
    chosen = min(head, heads) - 1  # a state with fewer heads is never shown
    m = slopes(heads).double()
    seen = torch.arange(query + 1)
    row = bias(seen[-1:], seen, m)[:, 0]  # of every head on the keys up to the query, [H, query + 1]
    flat = torch.softmax(row[chosen], -1)
    first = int((flat < FLOOR).sum())  # the first key of which the straight line is drawn
    content = torch.softmax(content_logits()[: query + 1] + row[chosen], -1)
    slope = m[chosen].item()
    near = min(1 + math.floor(math.log(20) / slope), query + 1)

    ends = [_end(curve) for curve in row]
    fan_x = [x for end, _ in ends for x in (query, end, math.nan)]
    fan_y = [y for curve, (_, end) in zip(row, ends) for y in (curve[-1], end, math.nan)]
    named = _named(ends, chosen)
    x = [ends[h][0] or -2 for h in named]
    y = [ends[h][1] - 1.2 * (ends[h][0] > 0) for h in named]
    places = ["middle left" if ends[h][0] == 0 else "bottom center" for h in named]
    weight, held = "weight 10<sup>%{y:.1f}</sup>", f"95% of the weight of equal logits: {near} keys"
    (at, low), penalty = ends[chosen], "key %{x:.0f}: bias %{y:.2f}"
    end = dict(text=[f"<b>{_slope(slope)}</b>  "], textposition="middle left", cliponaxis=False, showlegend=False)
    end |= dict(textfont=dict(size=12, color=COLORS["green"]), hover=f"head {chosen + 1}: slope {slope:.4f}")
    lost = query >= MATCH and content[MATCH] < FLOOR  # the star stays in sight, at the foot
    star = [MATCH] if query >= MATCH else [], [WEIGHTS[0] + 0.6] if lost else _log10(content[MATCH : MATCH + 1])
    written, below = dict(mode="markers+text"), dict(showlegend=False, yaxis="y2")
    fits = below | dict(text=[f"key {MATCH} fits" + ", far below" * lost])
    fits |= dict(textposition="top center" if query > 48 else "top left")
    fits |= dict(textfont=dict(size=13, color=COLORS["red"]), hover=f"key {MATCH}, which fits: {weight}")
    high = dict(yaxis="y2", cliponaxis=False)
    stops = dict(symbol="line-ns-open", size=10, line=dict(width=2))
    data = [
        line("bias of every head", fan_x, fan_y, "gray", 1, "dot", showlegend=False),
        label("slopes", x, y, [_slope(m[h].item()) for h in named], "gray", places, 11, cliponaxis=False),
        line("bias of this head", [query, at], [row[chosen, -1], low], "green", 4, hover=penalty, showlegend=False),
        dots("end of this head's line", [at], [low], "green", 12, **end) | written,
        upright("query", query, LOW, 1),
        upright("query, below", query, *WEIGHTS, yaxis="y2"),
        line("equal logits", [first, query], _log10(flat[[first, query]]), "green", 3, "dash", yaxis="y2"),
        dots("with content", seen, _log10(content), "orange", 5, hover=f"key %{{x}}: {weight}", yaxis="y2"),
        dots(f"key {MATCH}", *star, "red", 14, "star", **fits) | written,
        path("95% of the weight", [query - near + 1, query], [1.6, 1.6], "green", 2, hover=held, marker=stops, **below),
        label("how many keys that are", query, 2.0, f"95% on {near}\u2003", "green", "top left", **high),
    ]
    layout = dict(
        height=500,
        xaxis=axis(-38, KEYS + 2, "key position j", anchor="y2", tickvals=[0, 32, 64, 96, 127]),
        yaxis=axis(LOW, 1.5, "bias", domain=[0.54, 1], zeroline=False, showgrid=False),  # lines would run through names
        yaxis2=axis(*WEIGHTS, "weight", domain=[0, 0.47], tickvals=[-6, -4, -2, 0], ticktext=TICKS),
    )
    match = "hidden" if query < MATCH else f"{content[MATCH]:.4f}" if content[MATCH] > 1e-4 else "below 0.0001"
    return dict(data=data, layout=layout), {"slope": slope, "half": math.log(2) / slope, "match": match}


decay = explorable(
    _decay,
    title="ALiBi: a straight penalty, an exponential window",
    alt="Above, the bias of each head as a dotted line with its slope beside it, this one thick: straight lines that "
    "fall from zero at the query towards older keys. The end of the thick line can be dragged to another, and so can "
    "the upright line, the query. Below, the weights of this head, on a log scale: with equal logits a straight line "
    f"again (dashed), with content dots scattered around it, and above them a star: key {MATCH}, which fits the query. "
    "A bracket at the top spans the keys that hold 95% of the weight of equal logits.",
    readout=f"slope {{slope:.4f}} · halves in {{half:.1f}} · key {MATCH}: {{match}}",
    handles={"end of this head's line": "head", "query": "query"},
    heads=slider([2, 4, 8, 12, 16], label="heads H", default=8),
    head=slider(range(1, 17), label="head h", default=4, at_most="heads"),
    query=slider(range(7, KEYS, 5), label="query position i", default=127),
)
