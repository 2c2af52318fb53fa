r"""Explorables of *Why attention needs position*."""

import functools

import torch

from posenc import SelfAttention, UnsupportedError, embed_input, make
from posenc.lab.explore import COLORS, DIVERGING, explorable, slider

WORDS = ("the", "dog", "bit", "a", "man")
#: Orders of the sentence, as indices into WORDS; the first is the sentence as it is written.
ORDERS = {
    " ".join(WORDS[i] for i in order): order
    for order in ((0, 1, 2, 3, 4), (0, 4, 2, 3, 1), (1, 0, 2, 3, 4), (2, 3, 1, 0, 4), (4, 0, 1, 2, 3), (4, 3, 2, 1, 0))
}
POSITIONS = ("none", "sinusoidal", "RoPE", "ALiBi", "stick-breaking")
MASKS = ("every key", "past keys")
DIM, HEADS = 8, 4
SAME = 1e-10  # relative to an output's length; double precision leaves about 1e-16


def network(position, mask, depth):
    r"""An encoding and `depth` layers of attention in double precision; the same weights for every `position`."""
    options = {
        "none": dict(name="nope"),
        "sinusoidal": dict(name="sinusoidal"),
        "RoPE": dict(name="rope", head_dim=DIM // HEADS),
        "ALiBi": dict(name="alibi", num_heads=HEADS, symmetric=mask == "every key"),
        "stick-breaking": dict(name="stickbreaking"),
    }[position]
    generator = torch.Generator().manual_seed(1)
    encoding, layers = make(**options), []
    for _ in range(depth):
        layer = SelfAttention(DIM, HEADS, encoding.in_layers(), causal=mask == "past keys").double()
        with torch.no_grad():
            for weight in layer.parameters():
                weight.copy_(1.2 * torch.randn(weight.shape, generator=generator, dtype=torch.float64) / DIM**0.5)
        layers.append(layer)
    return encoding, layers


@functools.cache
def outputs(words, position, mask, depth):
    r"""The output of each word of a sentence: [T, C]. `words` are indices into WORDS, in the order they are read."""
    vectors = torch.randn(len(WORDS), DIM, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
    x = vectors[list(words)][None]
    encoding, layers = network(position, mask, depth)
    x = embed_input(encoding, x, torch.arange(len(words)))
    with torch.no_grad():
        for layer in layers:
            x = x + layer(x)
    return x[0]


def changes(order, position, mask, depth):
    r"""How far each word's output moves when the sentence is read in `order`, relative to its length: [T] by word."""
    before = outputs(tuple(range(len(WORDS))), position, mask, depth)
    after = torch.empty_like(before)
    after[list(order)] = outputs(tuple(order), position, mask, depth)
    return (after - before).norm(dim=-1) / before.norm(dim=-1)


def _shuffle(sentence, position, mask, depth):
    order, size = ORDERS[sentence], len(WORDS)
    rows = list(range(size))
    try:
        before, after = (outputs(o, position, mask, depth) for o in (tuple(rows), order))
        moved = changes(order, position, mask, depth)
    except UnsupportedError:
        before, after, moved = torch.zeros(0, DIM), torch.zeros(0, DIM), torch.zeros(0)
        verdict = "stick-breaking needs a past and a future: without the mask it is not defined, and posenc refuses"
    else:
        verdict = _verdict(order, moved)
    drawn = [value if value > SAME else 0.0 for value in moved.tolist()]
    cells = dict(type="heatmap", x=list(range(DIM)), colorscale=DIVERGING, zmid=0, zmin=-4, zmax=4, showscale=False)
    data = [
        dict(cells, name="outputs as written", y=rows[: len(before)], z=before),
        dict(cells, name="outputs in the new order", y=rows[: len(after)], z=after, xaxis="x2", yaxis="y2"),
        dict(
            type="bar",
            name="change of the output",
            orientation="h",
            x=drawn,
            y=rows[: len(drawn)],
            text=[f"{value:.2f}" if value else "0, the same" for value in drawn],
            textposition="outside",
            marker=dict(color=COLORS["blue"]),
            xaxis="x3",
            yaxis="y3",
        ),
    ]

    def words(indices, domain, anchor):
        labels = [WORDS[i] for i in indices]
        return dict(
            tickvals=rows, ticktext=labels, range=[size - 0.5, -0.5], domain=domain, anchor=anchor, fixedrange=True
        )

    plain = dict(showticklabels=False, fixedrange=True, ticks="", showgrid=False, zeroline=False)
    layout = dict(
        xaxis=dict(plain, domain=[0, 0.42], title=dict(text="as written")),
        yaxis=words(rows, [0.56, 1], "x"),
        xaxis2=dict(plain, domain=[0.58, 1], title=dict(text="in the new order"), anchor="y2"),
        yaxis2=words(order, [0.56, 1], "x2"),
        xaxis3=dict(range=[0, 3.8], anchor="y3", fixedrange=True, title=dict(text="change of each word's output")),
        yaxis3=words(rows, [0, 0.36], "x3"),
        showlegend=False,
        height=460,
    )
    return dict(data=data, layout=layout), {"verdict": verdict}


def _verdict(order, moved):
    if order == tuple(range(len(WORDS))):
        return "the sentence as written; pick another order"
    same = [word for word, value in zip(WORDS, moved.tolist()) if value < SAME]
    if len(same) == len(WORDS):
        return "the outputs are reordered with the words, and nothing else happens"
    return f"outputs that stay the same: {', '.join(same)}" if same else "every word's output changes"


shuffle = explorable(
    _shuffle,
    id="why_position.shuffle",
    title="Reorder a sentence: do the outputs only reorder with it?",
    alt="Two maps hold one row of numbers for each word: what attention puts out for the sentence as written and in "
    "the new order. Below, a bar for each word shows how far its output moved. Without position and mask no bar "
    "appears: each word keeps its row and takes it along.",
    readout="{verdict}",
    depends={"outputs as written": ["position", "mask", "depth"], "layout": ["sentence"]},
    sentence=slider(list(ORDERS), label="read as", default="the man bit a dog"),
    position=slider(
        list(POSITIONS),
        label="position",
        format=lambda value: "ALiBi (symmetric without a mask)" if value == "ALiBi" else value,
    ),
    mask=slider(list(MASKS), label="a word sees"),
    depth=slider([1, 2], label="layers", format=lambda value: f"{value} layer{'s' * (value > 1)}"),
)
