r"""Explorables of the page *Inside a pretrained model*."""

import math

import numpy as np

from posenc.lab.experiments import load_results
from posenc.lab.explore import SEQUENTIAL, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, heat, held, label, line, signed, tile

FOUND = load_results("pretrained")
LENGTHS = FOUND["lengths"]
#: what is done to the model or the text -> its words
ARMS = {
    "whole": "all keys, unchanged",
    "cut": "nearest keys only",
    "first": "nearest and first",
    "placed": "first within reach",
    "distance": "distance alone",
    "keys": "number alone",
    "linear": "linear interpolation",
    "ntk": "NTK",
    "yarn": "YaRN",
}
SHARES, ENERGY = (np.array(FOUND[name]) for name in ("shares", "energy"))
#: of a share of weight, the distance to its keys
NEAR = ["first key", *(f"{a}–{b - 1}" if b - a > 1 else f"{a}" for a, b in zip([0, *FOUND["until"]], FOUND["until"]))]
NEAR.append(f"{FOUND['until'][-1]}+")
SHARES = SHARES.reshape(len(ENERGY), -1, len(NEAR))
LAYERS, HEADS = SHARES.shape[:2]


def changes(arm, length):
    r"""Loss of each text at a length, less that of the untouched model at the length of training."""
    return np.array(FOUND["losses"][f"{arm} {length}"]) - FOUND["losses"][f"whole {LENGTHS[0]}"]


def stands(arm):
    r"""Where the keys stand that the last query sees: [(nearest, farthest) distance, tokens] of each stretch."""
    near, far, last = LENGTHS[0], LENGTHS[1], FOUND["settings"]["targets"]
    if arm == "distance":
        return [((0, last), last), ((far - near + last, far), near - last)]
    heaps = {"cut": [], "first": [(far, 1)], "placed": [(near - 1, 1)], "keys": [(near - 1, far - near + 1)]}
    if arm in heaps:
        return [((0, near), near), *(((at, at), tokens) for at, tokens in heaps[arm])]
    return [((0, far), far)]


def count(tokens):
    r"""How many keys, in words."""
    return f"{tokens:,} key{'s' * (tokens != 1)}"


def _losses(arm):
    names = list(ARMS)
    chosen, rows = names[arm], {name: changes(name, LENGTHS[1]) for name in names}
    kinds = FOUND["texts"]

    def texts(kind, color, symbol):
        x = [value for name in names for value, own in zip(rows[name], kinds) if own == kind]
        y = [n for n in range(len(names)) for own in kinds if own == kind]
        return dots(f"{kind} texts", x, y, color, 7, symbol, hover="%{x:+.2f} nats")

    # Each state draws the same traces: two bars and a heap, of which some are nowhere.
    bars_of = [(low, high) for (low, high), _ in stands(chosen) if high > low]
    strips = (bars_of + [(math.nan, math.nan)])[:2]
    heap, tokens = next(((low, n) for (low, high), n in stands(chosen) if high == low), (math.nan, 0))
    data = [
        *(line(f"keys {n}", span, [0, 0], "blue", 14, showlegend=False, panel=2) for n, span in enumerate(strips)),
        dots("a heap", [heap], [0], "orange", 18, "diamond", showlegend=False, panel=2, cliponaxis=False),
        label("how many", heap, 0.55, count(tokens), "orange", panel=2, cliponaxis=False),
        texts("help", "sky", "circle-open"),
        texts("code", "purple", "square-open"),
        held("the change", rows[chosen].mean(), arm),
    ]
    layout = dict(
        height=440,
        xaxis=axis(min(row.min() for row in rows.values()) - 0.05, max(row.max() for row in rows.values()) + 0.15,
                   "nats per token", domain=[0, 1], anchor="y"),
        yaxis=axis(len(names) - 0.5, -0.5, domain=[0, 0.7], tickvals=list(range(9)), ticktext=list(ARMS.values())),
        xaxis2=axis(1.03 * LENGTHS[1], -0.02 * LENGTHS[1], dict(text="distance to the key", standoff=2), domain=[0, 1],
                    anchor="y2", tickvals=[0, *LENGTHS], ticktext=["0", *(f"{n:,}" for n in LENGTHS)]),
        yaxis2=axis(-1, 1, domain=[0.86, 1], tickvals=[], anchor="x2"),
        margin=dict(l=128),
    )  # fmt: skip
    seen = sum(tokens for _, tokens in stands(chosen))
    return dict(data=data, layout=layout), {
        "words": ARMS[chosen],
        "seen": count(seen),
        "change": signed(rows[chosen].mean(), 2),
    }


losses = explorable(
    _losses,
    title="Twice the length, and what of it does harm",
    alt="Above, where the keys stand that the last query sees: a bar over their distances, a diamond where many stand "
    "in one place. Below, a row for each change: how far the loss of each of five texts moves beside the untouched "
    "model at the length of training; a diamond at the mean marks the chosen row and can be dragged.",
    readout="{words}: {seen}, {change} nats",
    handles={"the change": "arm"},
    arm=slider(range(len(ARMS)), label="changed", default=0, format=lambda n: ARMS[list(ARMS)[n]]),
)


def _heads(layer, head):
    first = SHARES[:, :, 0]
    own = SHARES[layer, head]
    key = dict(title=dict(text="share on the first key", side="top"), orientation="h", y=1, yanchor="bottom", len=0.7)
    key |= dict(thickness=8, tickvals=[0, 0.5, 1])
    map_ = heat("share on the first key", list(range(LAYERS)), list(range(HEADS)), first.T.tolist(), zmin=0, zmax=1,
                hover="layer %{x}, head %{y}: %{z:.2f}", panel=2, colorscale=SEQUENTIAL, colorbar=key)  # fmt: skip
    mark = tile("the head", layer, head, 22, xaxis="x2", yaxis="y2")  # sees its cell
    shares = bars("share of weight", NEAR, own.tolist(), "blue", hover="%{x}: %{y:.3f}", showlegend=False)
    upto = ["first key", "0", "1", *(f"–{n - 1}" for n in FOUND["until"][2:]), "more"]
    ticks = dict(tickvals=NEAR, ticktext=upto, tickangle=0)
    layout = dict(
        height=470,
        xaxis=axis(-0.5, len(NEAR) - 0.5, "distance to the key, in tokens", anchor="y", **ticks),
        yaxis=axis(0, 1, "share of weight", domain=[0, 0.42]),
        xaxis2=axis(-0.5, LAYERS - 0.5, anchor="y2", tickvals=[0, 10, 20, 29], ticktext=["layer 0", "10", "20", "29"]),
        yaxis2=axis(HEADS - 0.5, -0.5, "head", domain=[0.62, 1], anchor="x2"),
    )
    most = int(own.argmax())
    return dict(data=[map_, mark, shares], layout=layout), {
        "where": f"layer {layer}, head {head}",
        "most": f"{own[most]:.0%} on {'the first key' if most == 0 else f'distance {NEAR[most]}'}",
    }


heads = explorable(
    _heads,
    title="Where the heads of SmolLM2 look",
    alt="Above, a map with a column for each layer and a row for each head, the brighter the more of the weight lies "
    "on the first key; a frame marks the chosen head and can be dragged. Below, its weight by distance.",
    readout="{where}: {most}",
    handles={"the head": ("head", "layer")},
    layer=slider(range(LAYERS), label="layer", default=LAYERS // 2),
    head=slider(range(HEADS), label="head", default=0),
)
