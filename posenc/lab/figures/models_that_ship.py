r"""The explorable of the chapter *Models that ship*: a model's depth, what a layer turns, and how far it sees."""

import functools
import math
from pathlib import Path

from posenc import configs
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.figures.parts import label, level, thousands

CONFIGS = Path(__file__).parents[3] / "book" / "configs"
MODELS = {
    "Llama 2": "llama-2-7b",
    "Llama 3.1": "llama-3.1-8b",
    "Llama 4": "llama-4-scout",
    "OLMo 3": "olmo-3-7b",
    "Qwen3.5": "qwen3.5-27b",
    "Gemma 4": "gemma-4-31b",
    "DeepSeek-V4": "deepseek-v4-flash",
}
MOST, OTHERS = "most layers", "the others"
LENGTHS = [2**n for n in range(9, 21)]
KINDS = {  # words in the strip -> (color, pattern)
    "RoPE, full": ("blue", ""),
    "RoPE, near": ("orange", "/"),
    "near and summaries": ("sky", "-"),
    "NoPE": ("purple", "x"),
    "recurrence": ("gray", "."),
}
STILL = 8.2  # where pairs stand that never turn, in powers of ten of tokens
TOP = 8.7
GAP = 0.15  # between a line and its name, in powers of ten


@functools.cache
def model(name: str) -> configs.Reading:
    r"""The reading of a model's frozen configuration, by its name in the figure."""
    return configs.read(CONFIGS / f"{MODELS[name]}.json")


def kind_of(layer) -> str:
    r"""Which of `KINDS` a layer is."""
    if layer.method in ("linear", "nope"):
        return {"linear": "recurrence", "nope": "NoPE"}[layer.method]
    if summarizes(layer):
        return "near and summaries"
    return "RoPE, near" if layer.window or layer.chunk else "RoPE, full"


def groups(name: str) -> list[list]:
    r"""The layers of a model in at most two groups, the larger first: those of one kind that turn at the same rates."""
    out = {}
    for layer in model(name).layers:
        out.setdefault((kind_of(layer), layer.inv_freq), []).append(layer)
    return sorted(out.values(), key=len, reverse=True)[:2]


def chosen(name: str, which: str) -> list:
    r"""The layers that the two controls ask for; a model of one kind has only these."""
    both = groups(name)
    return both[-1] if which == OTHERS else both[0]


def fates(name: str, which: str, length: int) -> dict[str, list]:
    r"""Pairs of a layer by what became of them: {"turned", "open", "unseen", "still": pairs}, and their periods.

    A pair is open if it never finished a turn in training, unseen if at this length it also reaches angles that are a
    token or more past those of training. "periods": log10 of the tokens that a turn takes, of each pair.
    """
    layer, out = chosen(name, which)[0], {"turned": [], "open": [], "unseen": [], "still": []}
    rates = configs.frequencies_at(layer, length)
    span = math.inf if summarizes(layer) else layer.window or layer.chunk or math.inf
    trained, reach = (min(tokens, span) - 1 for tokens in (layer.trained, length)) if layer.trained else (0, 0)
    for pair, (rate, plain) in enumerate(zip(map(abs, rates), map(abs, layer.plain))):
        if not rate:
            fate = "still"
        elif plain * trained >= 2 * math.pi:
            fate = "turned"
        else:  # linear scaling ends less than a token past the last trained angle: that counts as seen
            fate = "unseen" if rate * reach > plain * (trained + 1) else "open"
        out[fate].append(pair)
    return out | {"periods": [math.log10(2 * math.pi / abs(rate)) if rate else STILL for rate in rates]}


def summarizes(layer) -> bool:
    r"""Whether a layer sees, beside its window, summaries of all that lies before, turned by positions of their own."""
    return "compressed" in layer.kind


def sees(layer, length: int) -> str:
    r"""How far back the layer looks in a text of this length, in a few words."""
    if layer.method == "linear":
        return "a state, no scores"
    if layer.chunk and layer.chunk < length:
        return f"sees its chunk of {layer.chunk:,}"
    if layer.window and layer.window < length:
        return f"sees {layer.window:,}" + (" and summaries" if summarizes(layer) else "")
    return "sees all"


def verdict(layer, out, length) -> tuple[str, str]:
    r"""Whether any pair meets new angles in a text of this length, in a few words; and their color."""
    if not layer.inv_freq:
        return "", COLORS["ink"]
    if out["unseen"]:
        return f"<b>✕ {len(out['unseen'])} pairs meet new angles</b>", COLORS["red"]
    if not summarizes(layer):
        near = layer.window or layer.chunk
        if near and near < length:
            return f"<b>no new angles within {near:,}</b>", COLORS["blue"]
    if out["still"]:
        return "<b>no new angles: slow pairs stand</b>", COLORS["blue"]
    return "<b>no angle is new so far</b>", COLORS["blue"]


def turns(layer, out) -> str:
    r"""What of the head turns, in a few words."""
    if not layer.inv_freq:
        return "nothing turns"
    moving = len(out["periods"]) - len(out["still"])
    return f"{moving} of {layer.head_dim // 2} pairs turn"


def _depth(name, which, power):
    length = LENGTHS[power]
    layers, own = model(name).layers, chosen(name, which)
    layer, out = own[0], fates(name, which, length)
    count = max(len(layer.inv_freq), 32)
    right = 1.05 * count  # past the last pair there is room for the grip of the line
    strip = [
        dict(
            type="bar",
            name=kind,
            x=[one.index for one in layers if kind_of(one) == kind],
            y=[1 for one in layers if kind_of(one) == kind],
            width=1,
            opacity=1 if kind == kind_of(layer) else 0.4,
            marker=dict(
                color=COLORS[color],
                pattern=dict(shape=pattern, size=5),
                line=dict(width=0.7, color="rgba(255,255,255,0.7)"),
            ),
            yaxis="y2",
            xaxis="x2",
            hovertemplate=f"layer %{{x}}: {kind}<extra></extra>",
        )
        for kind, (color, pattern) in KINDS.items()
    ]
    look = {  # of a pair: what it means, the words over the plot, color, symbol
        "turned": ("turned fully in training", "● full turn in training", "blue", "circle"),
        "open": ("turned in part in training", "◇ part of a turn", "orange", "diamond-open"),
        "unseen": ("at unseen angles", "✕ new angles", "red", "x"),
        "still": ("stands still", "□ never turns", "gray", "square-open"),
    }
    present = [fate for fate in look if out[fate]]
    pairs = [
        dict(
            type="scatter",
            name=meaning,
            mode="markers",
            x=out[fate],
            y=[out["periods"][pair] for pair in out[fate]],
            marker=dict(symbol=symbol, size=6 if count <= 64 else 4, color=COLORS[color]),
            showlegend=False,
            hovertemplate=f"pair %{{x}}: {meaning}<extra></extra>",
        )
        for fate, (meaning, _, color, symbol) in look.items()
    ]
    nearest = math.inf if summarizes(layer) else layer.window or layer.chunk or math.inf
    scaled = layer.scaling not in ("", "default", "proportional")
    words, word_color = ("first training" if scaled else "seen in training"), "ink"
    high = near = math.nan  # one of two lines beside the text's: the length of training, or the window
    if layer.inv_freq and nearest < length:
        near, words, word_color = math.log10(nearest), "the window" if layer.window else "the chunk", "orange"
    elif layer.inv_freq:
        high = math.log10(min(layer.trained or 1, nearest))
    other = near if math.isnan(high) else high
    over = not other > math.log10(length)  # of the two lines, the upper has its name above it, at the left

    def beside(upper):  # ladders rise to the right: the upper left is free, and the lower right
        return (0.01 * count, GAP, "top right") if upper else (0.97 * right, -GAP, "bottom left")

    (text_x, text_up, text_side), (other_x, other_up, other_side) = beside(over), beside(not over)
    data = [
        *strip,
        *pairs,
        level("trained", high, -1, right, COLORS["ink"], 1.5, "dot"),
        level("window", near, -1, right, COLORS["orange"], 2, "dashdot"),
        level("the text", math.log10(length), -1, right, COLORS["green"], 3, "solid")
        | dict(opacity=1 if math.isnan(near) else 0.4),  # no distance comes near it
        label("its length", text_x, math.log10(length) + text_up, "<b>the text</b>", COLORS["green"], text_side),
        label("its training", other_x, other + other_up, words, COLORS[word_color], other_side),
        label(
            "what marks mean",
            [0, 0.54][: len(present)],
            [0.5] * len(present),
            [look[fate][1] for fate in present],
            [COLORS[look[fate][2]] for fate in present],
            "middle right",
            12,
            xaxis="x3",
            yaxis="y3",
        ),
        label("verdict", 0, 2.5, *verdict(layer, out, length), "middle right", xaxis="x3", yaxis="y3"),
        label(
            "no pairs",
            right / 2,
            1.4,
            "" if layer.inv_freq else "these layers<br>turn nothing",
            COLORS["ink"],
            "middle center",
        ),
    ]
    title = dict(x=0, xref="paper", yref="paper", y=0.75, xanchor="left", yanchor="bottom", showarrow=False)
    these = f"the {len(own)} filled" if len(own) < len(layers) else f"all {len(own)}"
    title |= dict(text=f"tokens per full turn, in {these} layers")
    bare = dict(showgrid=False, zeroline=False, showticklabels=False)
    layout = dict(
        height=460,
        bargap=0,
        barmode="overlay",
        margin=dict(l=62, r=8),
        legend=dict(traceorder="normal"),
        xaxis=dict(range=[-1, right], title=dict(text="pair, fastest first", standoff=2), anchor="y"),
        yaxis=dict(
            range=[0.3, TOP],
            domain=[0, 0.68],
            tickvals=[1, 3, 5, 7, STILL],
            ticktext=["10", "1,000", "10⁵", "10⁷", "never"],
            zeroline=False,
        ),
        xaxis2=dict(bare, range=[-0.7, len(layers) - 0.3], anchor="y2"),
        yaxis2=dict(
            range=[0, 1],
            domain=[0.88, 1],
            tickvals=[0.5],
            ticktext=[f"{len(layers)}<br>layers"],
            showgrid=False,
            zeroline=False,
        ),
        xaxis3=dict(bare, range=[0, 1], anchor="y3"),
        yaxis3=dict(bare, range=[0, 3], domain=[0.69, 0.87], anchor="x3"),
        annotations=[title],
        meta=dict(phone=dict(legend=dict(x=-0.21))),
    )
    lost = len(out["unseen"])
    said = f"{lost} meet new angles" if layer.inv_freq else "no angles"
    return dict(data=data, layout=layout), {"turn": turns(layer, out), "unseen": said, "sees": sees(layer, length)}


depth = explorable(
    _depth,
    id="models_that_ship.depth",
    title="Seven models: depth, pairs, sight",
    alt=(
        "Above, a strip of a model's layers from first to last: blue for RoPE that sees everything, hatched orange "
        "for RoPE in a window or a chunk, lined light blue where summaries of the rest join the window, crossed "
        "purple for layers without position, dotted gray for a recurrence. The layers that are looked at are filled, "
        "the others faded. Below, each pair of lanes of such a layer by how many tokens a full turn takes: blue dots "
        "have turned fully in training, open orange diamonds have turned in part, red crosses reach angles at this "
        "length that training did not have, gray squares stand still. A dotted line is the length of training, or a "
        "dash-dotted one the window where it is shorter than the text, whose length, the solid green line, can be "
        "dragged; it is faint where the window is shorter. Between strip and panel stands how many pairs meet new "
        "angles."
    ),
    readout="{turn} · {unseen} · {sees}",
    handles={"the text": "power"},
    depends={
        **{kind: ["name", "which"] for kind in KINDS},
        **{words: ["name", "which", "power"] for words in ("turned fully in training", "turned in part in training")},
        "stands still": ["name", "which"],
        "no pairs": ["name", "which"],
        "the text": ["name", "which", "power"],
        "layout": ["name", "which"],
    },
    name=slider(list(MODELS), label="model", default="Gemma 4", format=lambda name: name.removesuffix("-V4")),
    which=slider([MOST, OTHERS], label="look at", default=MOST),
    power=slider(range(len(LENGTHS)), label="text length", default=3, format=lambda n: thousands(LENGTHS[n])),
)
