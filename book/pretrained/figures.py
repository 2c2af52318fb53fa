r"""The explorable of the page *Inside a pretrained model*: far keys, or many."""

import numpy as np

from posenc.lab.experiments import load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line, signed

FOUND = load_results("pretrained")
LENGTHS = FOUND["lengths"]
ROWS = {"whole": "<b>both</b> grow", "distance": "only the <b>distance</b>", "keys": "only the <b>number</b>"}


def changes(arm, length):
    r"""Loss of each text at a length, less that of the untouched model at the length of training."""
    return np.array(FOUND["losses"][f"{arm} {length}"]) - FOUND["losses"][f"whole {LENGTHS[0]}"]


def _losses(text):
    (near, twice), last, longer = LENGTHS, FOUND["settings"]["targets"], text > LENGTHS[0]
    heights, side = [height for y in (2, 1, 0) for height in (y - 0.24, y + 0.24, np.nan)], "middle right"
    data = [line("farthest in training", [near] * 9, heights, "ink", 2, "dot")]
    for y, (arm, words) in zip((2, 1, 0), ROWS.items()):
        old, piled = (last if arm == "distance" and longer else near), arm == "keys"
        start, pile = text - twice + near + (near - old and last), [[near, near], [y - 0.47, y - 0.15]]
        more = pile if piled else [[text, start], [y, y]]
        found = changes(arm if longer else "whole", text)
        added, hover = found.mean(), f"mean {signed(found.mean(), 2)} ± {found.std(ddof=1):.2f}, {len(found)} texts"
        data += [
            line(f"keys, {arm}", [old, 0], [y, y], "blue", 20),
            line(f"more keys, {arm}", *(more if longer else [[], []]), "orange", 20, "3px,2px"),
            label(f"name, {arm}", 1.24 * twice, y + 0.42, words, "ink", "middle right", 15, cliponaxis=False),
            bars(f"added, {arm}", [added], [y], "purple", orientation="h", width=0.4, panel=2, hover=hover),
            label(f"how much, {arm}", added, y, f"\u00a0<b>{signed(added, 2)}</b>", "purple", side, 19, panel=2),
        ]
    data += [
        held("farthest key", text, 2, "orange", "triangle-left", 17),
        label("grip", text + 1700, 2, "drag", "ink", "middle left", cliponaxis=False),
        label("new", 1.56 * near, 1.66, f"{text - near:,} new keys" if longer else " ", "orange", "middle center", 14),
        label("name of the bars", 0, 2.42, "\u00a0added to the loss", "purple", side, 14, cliponaxis=False, panel=2),
    ]
    layout = dict(
        height=380,
        showlegend=False,
        margin=dict(l=18, r=8, t=10),
        meta=dict(phone=dict(xaxis2=axis(0, 11.5))),
        xaxis=axis(1.24 * twice, 0, domain=[0, 0.52], ticks="", tickangle=0, tickfont=dict(size=12), showgrid=False,
                   zeroline=False, tickvals=[near, 0], ticktext=[f"{near:,} back:<br>trained", "last<br>token"]),
        yaxis=axis(-0.55, 2.65, visible=False),
        xaxis2=axis(0, 8.8, domain=[0.57, 1], anchor="y2", showticklabels=False, showgrid=False),
        yaxis2=axis(-0.55, 2.65, anchor="x2", visible=False),
    )  # fmt: skip
    return dict(data=data, layout=layout)


losses = explorable(
    _losses,
    title="Far keys, or many?",
    alt="Three rows. In each, at the left, the keys that the last token sees, by distance, and at the right a bar, "
    "what they add to the loss. The end of the first can be dragged from the distance of training to twice that. "
    "Then in the first row distance and number of keys both grow, in the second the distance alone, in the third the "
    "number alone: the older keys stand in one place. The first two bars are then long, the third next to nothing.",
    see="Drag the end of the keys: which of the rows pays?",
    handles={"farthest key": "text"},
    text=slider(LENGTHS, label="text, tokens", default=LENGTHS[1], format=lambda n: f"{n:,}"),
)
