r"""The explorable of the page *Inside a pretrained model*: far keys, or many."""

import numpy as np

from posenc.lab.experiments import load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, held, label, line, signed, upright

FOUND = load_results("pretrained")
LENGTHS = FOUND["lengths"]


def changes(arm, length):
    r"""Loss of each text at a length, less that of the untouched model at the length of training."""
    return np.array(FOUND["losses"][f"{arm} {length}"]) - FOUND["losses"][f"whole {LENGTHS[0]}"]


def _losses(far, keys):
    (near, twice), last = LENGTHS, FOUND["settings"]["targets"]
    few, close = keys == near, far == near
    arm = "whole" if few == close else "distance" if few else "keys"
    row = changes(arm, near if few and close else twice)
    gap = near if few and not close else 0  # before the targets
    older, middle = f"{twice - near:,} older keys", (near + twice) / 2
    if few:
        place, grip, words = [[near, twice], [1, 1]], (middle, 1), (middle, 1.2, f"{older}, left out")
    elif close:
        place, grip = [[near, near], [0, 0.7]], (near, 0.8)
        words = near, 0.8, f"{older},\u2003<br>in one place\u2003"
    else:
        place, grip, words = [[near, twice], [0, 0]], (middle, 0), (middle, 0.2, older)
    at = (0, -0.7) if close else (far / 2.1, -0.6)
    side = "middle left" if close and not few else "top center"

    def texts(kind, color, symbol):
        own = [value for value, of in zip(row, FOUND["texts"]) if of == kind]
        return dots(f"{kind} texts", own, [0] * len(own), color, 9, symbol, hover="%{x:+.2f} nats", panel=2)

    data = [
        upright("farthest in training", near, -1, 1.3, "gray", 1.5, "dot"),
        line("last keys", [0, last], [0, 0], "blue", 16),
        line("keys before them", [gap + last, gap + near], [0, 0], "blue", 16),
        line("older keys", *place, "orange", 22),
        line("reach", [0, far], [-0.5, -0.5], "ink", 2),
        held("farthest key", far, -0.5, "blue", "triangle-left"),
        held("grip of the older keys", *grip, "orange"),
        label("how far", *at, f"farthest {far:,} back", "ink", "bottom left" if close else "bottom center", halo=True),
        label("how many", *words, "orange", side, cliponaxis=False),
        bars("the mean", [row.mean()], [0], "purple", orientation="h", width=1, panel=2),
        label("its number", row.mean(), 0.55, f"{signed(row.mean(), 2)} nats", "purple",
              "top center" if row.mean() > 1 else "top right", panel=2, cliponaxis=False),
        texts("help", "ink", "circle-open"),
        texts("code", "ink", "square-open"),
    ]  # fmt: skip
    places = dict(tickvals=[0, *LENGTHS], ticktext=["0", f"{near:,}<br>trained", f"{twice:,}"], tickangle=0, ticks="")
    layout = dict(
        height=400,
        showlegend=False,
        margin=dict(t=10),
        xaxis=axis(1.06 * twice, -0.02 * twice, "distance back from the last token", **places),
        yaxis=axis(-1.1, 1.5, domain=[0.48, 1], visible=False),
        xaxis2=axis(-0.3, 6, "added to the loss, nats a token (○ help, □ code)", anchor="y2"),
        yaxis2=axis(-1, 1.6, domain=[0, 0.25], anchor="x2", visible=False),
    )
    return dict(data=data, layout=layout)


losses = explorable(
    _losses,
    title="Far keys, or many?",
    alt="Above, the keys that the last token sees, by distance: the last ones and those before them, and above the "
    "older half of the text, which can be dragged in. The farthest key can be dragged to twice the distance of "
    "training and back. Below, a bar: what that adds to the loss, with a ring or a square for each of five texts. "
    "Far keys add five nats, however many there are; as many older keys in one place, none too far, next to nothing.",
    handles={"farthest key": "far", "grip of the older keys": "keys"},
    far=slider(LENGTHS, label="farthest key", default=LENGTHS[1], format=lambda n: f"{n:,}"),
    keys=slider(LENGTHS, label="number of keys", default=LENGTHS[1], format=lambda n: f"{n:,}"),
)
