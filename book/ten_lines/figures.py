r"""The explorable of *Attention in ten lines*."""

import math

import torch

from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import arrow, axis, bars, held, label, number

WORDS = ("the", "dog", "bit")
KEYS = torch.tensor([[-1.1, 0.5], [0.2, 1.4], [1.3, 0.1]], dtype=torch.float64)
LENGTHS = (0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
NAMES = [[-1.375, -0.15, 1.625], [0.625, 1.7, 0.125]]  # where those of the keys stand
REACH = 2.1
START = 60, 1.0  # angle and length of the query whose weights stay as outlines


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
        return (x + 0.25, y, "middle right") if x > -1e-6 else (x - 0.25, y, "middle left")
    return x, y + (0.45 if y > 0.3 * abs(x) else -0.45), "middle center"


def _ask(angle, length):
    query, scores, weights = looked_at(angle, length)
    blue, orange = COLORS["blue"], COLORS["orange"]
    said, ticks = (
        [f"<b>{w:.2f}</b>" for w in weights],
        [f"<b>{w}</b><br>s = {number(s)}" for w, s in zip(WORDS, scores)],
    )
    (_, at_first, before), ghost = looked_at(*START), dict(line=dict(color=COLORS["gray"], width=2))
    best = before.argmax()
    grown = [number(new[best] / old[best], 1) for new, old in ((scores, at_first), (weights, before))]
    told = f"<b>{WORDS[best]}: score × {grown[0]}, weight × {grown[1]}</b>"
    data = [arrow(f"key of {word}", key, orange, 3, "dash") for word, key in zip(WORDS, KEYS)]
    x, y, place = _beside(query)
    data += [
        label("names of the keys", *NAMES, [f"<b>{word}</b>" for word in WORDS], orange, "middle center"),
        arrow("query", query, blue, 4),
        label("name of the query", x, y, "<b>drag: query</b>", blue, place, cliponaxis=False),
        held("end of the query", *query.tolist(), blue, "circle", 12),
        bars("weight", [0, 1, 2], weights, blue, width=0.7, panel=2),
        bars("weight before", [0, 1, 2], before, "rgba(0, 0, 0, 0)", marker=ghost, width=0.86, panel=2),
        label("how much", [0, 1, 2], torch.maximum(weights, before) + 0.02, said, blue, size=18, panel=2),
        label("how much more", 2.6, 1.22, told, "ink", "middle left", 17, panel=2, cliponaxis=False),
    ]
    plane = dict(showticklabels=False, showgrid=False, constrain="domain")
    words = dict(tickvals=[0, 1, 2], ticktext=ticks, tickfont=dict(size=13), tickangle=0, ticks="")
    phone = {"xaxis": dict(domain=[0, 1]), "yaxis": dict(domain=[0.5, 1]), "xaxis2": dict(domain=[0, 1])}
    phone |= dict(margin=dict(l=40, t=4), yaxis2=axis(0, 1.4, domain=[0, 0.46]))
    layout = dict(height=430, showlegend=False, barmode="overlay", margin=dict(l=16, t=10), meta=dict(phone=phone))
    layout["xaxis"] = dict(plane, range=[-REACH, REACH], domain=[0, 0.5])
    layout["yaxis"] = dict(plane, range=[-REACH, REACH], scaleanchor="x")
    layout["xaxis2"] = axis(-0.6, 2.6, domain=[0.57, 1], anchor="y2", **words)
    layout["yaxis2"] = axis(0, 1.3, "weight", anchor="x2", tickvals=[], showgrid=False)
    return dict(data=data, layout=layout)


ask = explorable(
    _ask,
    title="A query among three keys",
    alt="A plane with three dashed arrows, the keys of the, dog and bit, and a solid one, the query: its end can be "
    "dragged. Beside it a bar for each word, the weight that the query gives it, with an outline of its first weight "
    "and the score s below; above, by what dog's score and weight have grown. The bar is highest where key and query "
    "point the same way, and a longer query makes it higher still.",
    see="Pull the query longer, or turn it: which weight outgrows its outline?",
    handles={"end of the query": ("angle", "length")},
    angle=slider(range(0, 360, 15), label="angle of the query", default=START[0], format=lambda angle: f"{angle}°"),
    length=slider(LENGTHS, label="its length", default=START[1], format=lambda length: f"{length:g}"),
)
