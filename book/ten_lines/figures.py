r"""The explorable of *Attention in ten lines*."""

import math

import torch

from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import arrow, axis, bars, held, label, number

WORDS = ("the", "dog", "bit")
KEYS = torch.tensor([[-1.1, 0.5], [0.2, 1.4], [1.3, 0.1]], dtype=torch.float64)
LENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
NAMES = [[-1.375, 0.5, 1.625], [0.625, 1.75, 0.125]]  # where those of the keys stand
REACH = 2.1


def looked_at(angle, length):
    r"""The query [2] at an angle in degrees, its scores and weights for the three words, [3] each."""
    turn = math.radians(angle)
    query = length * torch.tensor([math.cos(turn), math.sin(turn)], dtype=torch.float64)
    scores = KEYS @ query / 2**0.5
    return query, scores, scores.softmax(0)


def _beside(query):
    r"""Where the word stands at the end of a query (x, y): at the side of a steep one, above or below a flat one."""
    x, y = query.tolist()
    if abs(y) > 1.2 * abs(x):
        return x + math.copysign(0.65, round(x, 6)), y + 0.08
    return x, y + (0.45 if y > 0.3 * abs(x) else -0.45)


def _ask(angle, length):
    query, scores, weights = looked_at(angle, length)
    blue, orange = COLORS["blue"], COLORS["orange"]
    right, said = dict(xaxis="x2", yaxis="y2"), [f"s = {number(score)}" for score in scores.tolist()]
    data = [arrow(f"key of {word}", key, orange, 3, "dash") for word, key in zip(WORDS, KEYS)]
    data += [
        label("names of the keys", *NAMES, [f"<b>{word}</b>" for word in WORDS], orange, "middle center"),
        arrow("query", query, blue, 4),
        label("name of the query", *_beside(query), "<b>query</b>", blue, "middle center", cliponaxis=False),
        held("end of the query", *query.tolist(), blue, "circle", 12),
        bars("weight", [0, 1, 2], weights, blue, hover="weight %{y:.3f}<extra></extra>", width=0.7, **right),
        label("scores", [0, 1, 2], (weights + 0.02).tolist(), said, "ink", **right),
    ]
    plane = dict(showticklabels=False, showgrid=False, constrain="domain")
    words = dict(tickvals=[0, 1, 2], ticktext=list(WORDS))
    phone = {"xaxis": dict(domain=[0, 1]), "yaxis": dict(domain=[0.42, 1]), "xaxis2": dict(domain=[0, 1])}
    phone |= dict(margin=dict(l=40, t=4), yaxis2=axis(0, 1.3, domain=[0, 0.34]))
    layout = dict(
        height=400,
        showlegend=False,
        margin=dict(l=16, t=10),
        xaxis=dict(plane, range=[-REACH, REACH], domain=[0, 0.52]),
        yaxis=dict(plane, range=[-REACH, REACH], scaleanchor="x"),
        xaxis2=axis(-0.6, 2.6, "s: score, query · key / √2", domain=[0.62, 1], anchor="y2", **words),
        yaxis2=axis(0, 1.12, "weight", anchor="x2", tickvals=[0, 0.5, 1]),
        meta=dict(phone=phone),
    )
    the, dog, bit = weights.tolist()
    return dict(data=data, layout=layout), {"the": the, "dog": dog, "bit": bit}


ask = explorable(
    _ask,
    title="A query among three keys",
    alt="At the left a plane with three dashed arrows, the keys of the, dog and bit, and a solid one, the query: its "
    "end can be dragged. At the right a bar for each word, the weight that the query gives it, with the score s "
    "above. The bar is highest where key and query point the same way, and a longer query makes it higher still.",
    readout="the {the:.2f} · dog {dog:.2f} · bit {bit:.2f}",
    handles={"end of the query": ("angle", "length")},
    angle=slider(range(0, 360, 15), label="angle of the query", default=60, format=lambda angle: f"{angle}°"),
    length=slider(LENGTHS, label="its length", default=1.0, format=lambda length: f"{length:g}"),
)
