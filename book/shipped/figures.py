r"""The explorable of the chapter *Models that ship*: a text grows, and in some layers pairs reach new angles."""

import bisect
import math

from posenc.chapters.shipped.facts import readings
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, label, upright

MODELS = ["Llama 4 Scout", "Llama 3.1 8B", "Mistral 7B", "Gemma 4"]  # the asked one first
LENGTHS = list(range(2**13, 2**17 + 1, 2**13))
#: [(model, place)]: of each model the kinds of its layers, by their place in `Reading.at`
KINDS = [(model, place) for model in MODELS for place in range(len(readings()[model].at(1)))]
KINDS.remove(("Gemma 4", 0))  # a window, as Mistral has


def words(layer, extent):
    r"""What a layer sees, and what is said of its angles at the length of the text."""
    sees = "window" if layer.window else "blocks" if layer.chunk else "sees all"
    if layer.rope is None:
        return sees, "✓ no angles"
    return sees, f"✗ {extent.unseen} pairs new" if extent.unseen else "✓ none new"


def _depth(length):
    rows, height = [], 0.0
    for model, place in KINDS:
        at = readings()[model].at
        extent, had = at(length)[place], at(length)[place].distance + 1
        if extent.unseen:  # the longest text that brings no new angle
            had = bisect.bisect(range(length + 1), 0, 1, key=lambda n: at(n)[place].unseen) - 1
        layer, share = readings()[model][extent.layers[0]], f"1 layer in {extent.layers[1] - extent.layers[0]}"
        parts = [math.nan, had] if layer.rope is None else [had, math.nan]  # a layer without angles, or with them
        new, (sees, said) = extent.distance + 1 - had or math.nan, words(layer, extent)
        name = f"{share}, {sees}" if (model, place) == KINDS[1] else f"<b>{model}</b>, {share if place else sees}"
        height += 0.9 if (model, place) == KINDS[1] else 1.15
        stops = f"\u00a0stops at {layer.window or layer.chunk:,}" if layer.window or layer.chunk else ""
        rows.append((height, name, *parts, new, f"<b>{said}</b>", "red" if extent.unseen else "ink", stops))
    y, names, seen, still, new, said, inks, stops = map(list, zip(*rows))
    asked, above = [0.95 if model == MODELS[0] else 0.5 for model, _ in KINDS], [place - 0.42 for place in y]
    look, ends = dict(orientation="h", width=0.42), dict(cliponaxis=False)
    data = [
        bars("seen in training", seen, y, "blue", marker=dict(opacity=asked), **look),
        bars("new angles", new, y, "red", base=seen, marker=dict(pattern=dict(shape="x", size=5)), **look),
        bars("no angles", still, y, "gray", marker=dict(pattern=dict(shape=".", size=5), opacity=asked), **look),
        upright("this text", length, 0.3, height + 0.4, "ink"),
        label("its length", length, 0, f"<b>drag: {length:,} tokens</b>", "ink", size=14, **ends)
        | dict(textposition="top left" if length > LENGTHS[-1] / 2 else "top right"),
        label("layers", [0] * len(y), above, names, "ink", "middle right", 13, halo=True, **ends),
        label("where it stops", seen, y, stops, "ink", "middle right", 14, halo=True),
        label("what follows", [0.985 * LENGTHS[-1]] * len(y), above, said, inks, "middle left", 17, halo=True, **ends),
    ]
    layout = dict(
        height=430,
        showlegend=False,
        barmode="overlay",
        margin=dict(t=12, l=8, r=10, b=8),
        xaxis=axis(0, 1.005 * LENGTHS[-1], visible=False),
        yaxis=axis(height + 0.4, -0.4, visible=False),
    )
    return dict(data=data, layout=layout)


depth = explorable(
    _depth,
    title="A text grows",
    alt="Bars for kinds of layers of four models, as long as the layer sees, Llama 4 Scout first. An upright line, "
    "the length of the text, is dragged, and bars of layers that see everything grow with it. What training had is "
    "blue; past it a bar is red, crossed, and says how many pairs stand at new angles. Bars of a window or of blocks "
    "stop. The dotted one, without a position, and that of Gemma 4 that sees all grow, never red.",
    see="Drag the text longer: in which layers does a bar reach new angles?",
    handles={"this text": "length"},
    length=slider(LENGTHS, label="text, tokens", default=2**16, format=lambda n: f"{n:,}"),
)
