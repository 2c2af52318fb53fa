r"""The explorable of the chapter *Models that ship*: a text grows, and in some layers pairs reach new angles."""

import bisect
import math

from posenc.chapters.shipped.facts import readings
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, label, upright

MODELS = "GPT-NeoX-20B|Mistral 7B|Llama 3.1 8B|Gemma 3 4B|Llama 4 Scout|SmolLM3|gpt-oss|Gemma 4"
MODELS = MODELS.split("|")  # as they came out
LENGTHS = [m * 2**n for n in range(9, 19) for m in (2, 3)] + [2**20]
#: [(model, place)]: of each model the kinds of its layers, by their place in `Reading.at`
KINDS = [(model, place) for model in MODELS for place in range(len(readings()[model].at(1)))]


def words(layer, extent):
    r"""What is said of a layer at the end of its row."""
    if extent.unseen or layer.rope is None:
        return f"{extent.unseen} pairs new" if extent.unseen else "no position"
    return "window" if layer.window else "blocks" if layer.chunk else "all seen" if extent.slow else "no slow pair"


def _depth(length):
    rows, height = [], 0.0
    for model, place in KINDS:
        at = readings()[model].at
        extent, had = at(length)[place], at(length)[place].distance + 1
        if extent.unseen:  # the longest text that brings no new angle
            had = bisect.bisect(range(length + 1), 0, 1, key=lambda n: at(n)[place].unseen) - 1
        layer, other = readings()[model][extent.layers[0]], extent.layers[1] - extent.layers[0]
        parts = [math.nan, had] if layer.rope is None else [had, math.nan]  # a layer without angles, or with them
        new, ink = extent.distance + 1 - had or math.nan, "red" if extent.unseen else "ink"
        name, height = f"1 layer in {other}" if place else model, height + (0.85 if place else 1.35)
        rows.append((height, name, *parts, new, f"\u00a0\u00a0{words(layer, extent)}", ink))
    y, names, seen, still, new, said, inks = map(list, zip(*rows))
    look, key = dict(orientation="h", width=0.7), ["■ angles seen", "▨ new", "\u00a0▒ none"]
    data = [
        bars("seen in training", seen, y, "blue", **look),
        bars("new angles", new, y, "red", base=seen, marker=dict(pattern=dict(shape="x", size=5)), **look),
        bars("no angles", still, y, "gray", marker=dict(pattern=dict(shape=".", size=5)), **look),
        upright("this text", length, 0.4, height + 0.6, "ink"),
        label("its length", length, -0.2, f"this text: {length:,}", "ink", cliponaxis=False),
        label("key", [67, 2**15.3, 2**20], [-1.5] * 3, key, ["blue", "red", "gray"], "middle right", cliponaxis=False),
        label("what follows", [2**20] * len(y), y, said, inks, "middle right", 12, cliponaxis=False),
    ]
    ticks = dict(tickvals=[128, 2**13, 2**20], ticktext=["128", "8,192", "2²⁰"], tickangle=0)
    layout = dict(
        height=480,
        showlegend=False,
        barmode="overlay",
        margin=dict(t=10, r=84),
        xaxis=axis(math.log10(64), math.log10(2**20.1), "how far back the layer sees, tokens", type="log", **ticks),
        yaxis=axis(height + 0.7, -3.4, tickvals=y, ticktext=names, ticks="", showgrid=False),
    )
    return dict(data=data, layout=layout)


depth = explorable(
    _depth,
    title="A text grows",
    alt="Bars for the kinds of layers of eight models, as long as the layer sees. An upright line, the length of the "
    "text, is dragged, and bars of layers that see everything grow with it. What training had is blue; past it a bar "
    "is red and crossed, and says how many pairs stand at new angles. Bars of a window or of blocks stop. Dotted ones "
    "of layers without a position grow, as do those of Gemma 3 and 4 that see everything, and none is ever red.",
    handles={"this text": "length"},
    length=slider(LENGTHS, label="text, tokens", default=2**15, format=lambda n: f"{n:,}"),
)
