r"""The explorable of the chapter *Models that ship*: a text grows, and in some layers pairs reach new angles."""

import bisect
import math

from posenc.chapters.shipped.facts import readings
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, label, upright

MODELS = "GPT-NeoX-20B|Mistral 7B|Llama 3.1 8B|Gemma 3 4B|Llama 4 Scout|SmolLM3|gpt-oss|Gemma 4"
MODELS = MODELS.split("|")  # as they came out
LENGTHS = [2**n for n in range(10, 21)]
#: [(model, place)]: of each model the kinds of its layers, by their place in `Reading.at`
KINDS = [(model, place) for model in MODELS for place in range(len(readings()[model].at(1)))]


def words(layer, extent):
    r"""What is said of a layer at the end of its bar."""
    if extent.unseen:
        return f"{extent.unseen} pairs unseen"
    if layer.rope is None:
        return "no position"
    return "window" if layer.window else "blocks" if layer.chunk else "" if extent.slow else "no slow pair"


def _depth(length):
    rows = []
    for model, place in KINDS:
        at = readings()[model].at
        extent, had = at(length)[place], at(length)[place].distance + 1
        if extent.unseen:  # the longest text that brings no new angle
            had = bisect.bisect(range(length + 1), 0, 1, key=lambda n: at(n)[place].unseen) - 1
        layer, other = readings()[model][extent.layers[0]], extent.layers[1] - extent.layers[0]
        name = f"1 layer in {other}" if place else model
        color, ink = "gray" if layer.rope is None else "blue", "red" if extent.unseen else "ink"
        rows.append((name, color, had, extent.distance + 1, f"\u00a0{words(layer, extent)}", ink))
    names, colors, seen, sees, said, inks = map(list, zip(*rows))
    y, look = list(range(len(rows))), dict(orientation="h", width=0.7)
    new = [far - had or math.nan for far, had in zip(sees, seen)]
    data = [
        bars("seen in training", seen, y, colors, **look),
        bars("new angles", new, y, "red", base=seen, marker=dict(pattern=dict(shape="x", size=5)), **look),
        upright("this text", length, -0.9, len(y) - 0.4, "ink"),
        label("its length", length, -1.5, f"this text: {length:,}", "ink", cliponaxis=False),
        label("what follows", sees, y, said, inks, "middle right", 12, halo=True, cliponaxis=False),
    ]
    ticks = dict(tickvals=[128, 2**11, 2**15, 2**20], ticktext=["128", "2,048", "32,768", "2²⁰"], tickangle=0)
    layout = dict(
        height=460,
        showlegend=False,
        barmode="overlay",
        margin=dict(t=34, r=100),
        xaxis=axis(math.log10(64), math.log10(2**20.1), "how far back the layer sees, tokens", type="log", **ticks),
        yaxis=axis(len(y) - 0.4, -2.5, tickvals=y, ticktext=names, ticks="", showgrid=False),
    )
    return dict(data=data, layout=layout)


depth = explorable(
    _depth,
    title="A text grows",
    alt="A row for each kind of layer of eight models, a bar as long as the layer sees. An upright line, the length of "
    "the text, can be dragged, and the bars of layers that see everything grow with it. What training had is blue, or "
    "gray without a position; past it a bar is red and crossed, and says how many pairs stand at angles that training "
    "never had. Bars of a window or of blocks stop. Those of layers without a position grow, and so do those of "
    "Gemma 3 and Gemma 4 that see everything, and none of them is ever red.",
    handles={"this text": "length"},
    length=slider(LENGTHS, label="text, tokens", default=2**15, format=lambda n: f"{n:,}"),
)
