r"""The explorable of the chapter *Models that ship*: a model, a layer, a length, and what follows."""

import functools
import math

from posenc.chapters.shipped.facts import readings
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, label, line, pin, upright

MODELS = "GPT-NeoX-20B|MPT-7B|Mistral 7B|Llama 3.1 8B|DeepSeek-V3|Gemma 3 4B|Llama 4 Scout|SmolLM3|gpt-oss"
MODELS = [*MODELS.split("|"), "Ministral 3", "Qwen3.5", "Gemma 4"]  # as they came out
LAYERS = range(12)  # that are drawn: the periods of these models divide twelve, so later layers repeat them
LENGTHS = [2**n for n in range(10, 21)]
#: kind of layer -> color, pattern
KINDS = {
    "RoPE": ("blue", ""),
    "RoPE, window": ("orange", "-"),
    "RoPE, blocks": ("purple", "x"),
    "no position": ("green", "/"),
    "linear": ("gray", "."),
    "other": ("sky", "\\"),
}
INSTEAD = {
    "nope": "no position: nothing turns",
    "linear": "no softmax:<br>order enters by recurrence",
    "alibi": "a penalty that grows with distance:<br>nothing turns",
}


@functools.cache
def extents(model, length):
    r"""{index of a layer: its Extent} in a text of so many tokens."""
    return {index: one for one in readings()[model].at(length) for index in one.layers}


def name_of(layer):
    r"""The kind of a layer, as KINDS has them."""
    if layer.method in ("linear", "nope"):
        return {"linear": "linear", "nope": "no position"}[layer.method]
    if layer.rope is None:
        return "other"
    return "RoPE, window" if layer.window else "RoPE, blocks" if layer.chunk else "RoPE"


def pairs(layer, extent):
    r"""[(wavelength in tokens, "full circle" | "never" | "unseen")] of the pairs that turn, fastest first.

    The slowest are those that never came full circle; in these models a text brings new angles to all of them or none.
    """
    assert extent.unseen in (0, extent.slow), extent
    frequencies = layer.rope.at(extent.length)[0][: extent.pairs].tolist()
    states = ["full circle"] * (extent.pairs - extent.slow) + ["unseen" if extent.unseen else "never"] * extent.slow
    return [(2 * math.pi / w, state) for w, state in zip(frequencies, states)]


def _depth(model, layer, length):
    reading, far = readings()[MODELS[model]], extents(MODELS[model], length)
    own, extent, names = reading[layer], far[layer], [name_of(one) for one in reading]
    assert all(name == names[i % len(LAYERS)] for i, name in enumerate(names)), MODELS[model]
    at = {name: [i for i in LAYERS if names[i] == name] for name in KINDS}

    def strip(name, color, shape):
        look = dict(width=0.86, marker=dict(pattern=dict(shape=shape, size=5)))
        return bars(
            name, at[name] or [0], [max(far[i].distance, 1) for i in at[name]] or [math.nan], color, panel=2, **look
        )

    turning = pairs(own, extent) if own.rope is not None else []

    def marks(name, state, color, symbol):
        heights = [(wave, 1 - (i + 0.5) / len(turning)) for i, (wave, one) in enumerate(turning) if one == state]
        look = dict(hover="once around in %{x:,.0f} tokens", marker=dict(opacity=1), showlegend=False)
        return dots(name, *(zip(*heights) if heights else ([], [])), color, 7, symbol, **look)

    seen = min(own.trained, own.window or own.chunk or own.trained) if turning else math.nan
    sees = math.nan if own.method == "linear" else max(extent.distance, 1)
    data = [
        *(strip(name, *look) for name, look in KINDS.items()),
        pin("the layer", layer, 1, 4e6, panel=2),
        line("all that training had", [seen, seen], [0, 1], "gray", 2, "dash", showlegend=False),
        upright("as far as the layer sees", sees, 0, 1 if turning else 0.6, "ink"),
        label("its name", seen, 1.02, "trained", "ink"),
        label("the other's", sees, -0.02, "this text", "ink", "bottom center"),
        marks("came full circle", "full circle", "blue", "circle"),
        marks("never did", "never", "orange", "circle-open"),
        marks("new angles", "unseen", "red", "x"),
        label("what turns", 4.5e3, 0.82, "" if turning else INSTEAD[own.method], "ink", "middle center", 14),
    ]
    tokens = dict(type="log", tickvals=[1, 100, 1e4, 1e6], ticktext=["1", "100", "10⁴", "10⁶"])
    layout = dict(
        height=480,
        xaxis=axis(-0.2, 8, dict(text="tokens for a full circle, and distance", standoff=4), anchor="y", **tokens),
        yaxis=axis(-0.14, 1.14, "pairs", domain=[0, 0.5], tickvals=[0, 1], ticktext=["slow", "fast"]),
        xaxis2=axis(
            -0.5, 11.5, dict(text="layer; the later ones repeat these", standoff=2), anchor="y2", tickvals=list(LAYERS)
        ),
        yaxis2=axis(
            0, 7.6, "sees", domain=[0.66, 1], **tokens | dict(tickvals=[100, 1e4, 1e6], ticktext=["100", "10⁴", "10⁶"])
        ),
        barmode="overlay",
        margin=dict(l=56),
    )
    circle = f"{extent.slow} of {extent.pairs} slow, {extent.unseen} unseen" if turning else "no pair turns"
    return dict(data=data, layout=layout), {
        "kind": f"layer {layer} of {len(names)}: {names[layer]}",
        "sees": "reads by recurrence" if own.method == "linear" else f"sees {extent.distance:,} back",
        "circle": circle,
    }


depth = explorable(
    _depth,
    title="What a model's layers do with position",
    alt="Above, a bar for each of the first twelve layers, which the later ones repeat, as high as the layer sees "
    "far, in the color and the pattern of its kind: RoPE over all keys, in a window, in blocks, no position, linear, "
    "or other. A pin marks the chosen layer and can be dragged. Below, its pairs of lanes by the tokens that they take "
    "for a full circle: a filled circle where training saw it whole, an open one where it did not, a cross where this "
    "text brings new angles. A dashed line stands at the distances that training had, a solid one at the farthest key "
    "of this text.",
    readout="{kind} · {sees} · {circle}",
    handles={"the layer": "layer"},
    model=slider(range(len(MODELS)), label="model", default=MODELS.index("Llama 4 Scout"), format=lambda n: MODELS[n]),
    layer=slider(LAYERS, label="layer", default=2),
    length=slider(LENGTHS, label="text, tokens", default=2**20, format=lambda n: f"{n:,}"),
)
