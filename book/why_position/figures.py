r"""Explorables of *Why attention needs position*."""

import functools

import torch

from posenc import SelfAttention, embed_input, make
from posenc.lab.explore import DIVERGING, explorable, slider
from posenc.lab.explore.parts import dots, heat, label, line

WORDS = ("the", "dog", "bit", "a", "man")


def orders(count):
    r"""All orders of `count` words, as tuples of indices: each swaps two neighbors of the one before."""
    if count == 1:
        return [(0,)]
    found = []
    for n, shorter in enumerate(orders(count - 1)):
        places = range(count) if n % 2 else range(count - 1, -1, -1)
        found += [(*shorter[:place], count - 1, *shorter[place:]) for place in places]
    return found


#: Orders of the sentence, as indices into WORDS; the first is the sentence as it is written.
ORDERS = {" ".join(WORDS[i] for i in order): order for order in orders(len(WORDS))}
SENTENCES = list(ORDERS)
DEFAULT = SENTENCES.index("the man bit a dog")
POSITIONS = ("none", "sinusoidal", "RoPE", "ALiBi")
MASKS = ("every key", "past keys")
DIM, HEADS = 8, 4
SAME = 1e-10  # relative to an output's length; double precision leaves about 1e-16


@functools.cache
def network(position, mask, depth):
    r"""An encoding and `depth` layers of attention in double precision; the same weights for every `position`."""
    options = {
        "none": dict(name="nope"),
        "sinusoidal": dict(name="sinusoidal"),
        "RoPE": dict(name="rope", head_dim=DIM // HEADS),
        "ALiBi": dict(name="alibi", num_heads=HEADS, symmetric=mask == "every key"),
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


# Where things stand, from left to right: a strip of numbers, the lines, the word, its strip, whether it is another.
CELL = 0.25
LEFT, LINES, TILE, RIGHT, SAID, END = 1.2, (3.35, 5.8), 6.55, 7.35, 9.5, 12


def _shuffle(sentence, position, mask, depth):
    order, size = ORDERS[SENTENCES[sentence]], len(WORDS)
    rows = list(range(size))
    before, after = (outputs(o, position, mask, depth) for o in (tuple(rows), order))
    moved = changes(order, position, mask, depth)[list(order)].tolist()  # row by row, as read
    same = [value < SAME for value in moved]
    said, inks = zip(*(("<b>same</b>", "blue") if still else ("<b>changed</b>", "orange") for still in same))

    def strip(name, left, values):  # whole tenths take one byte
        cells = [left + CELL * (n + 0.5) for n in range(DIM)]
        look = dict(colorscale=DIVERGING, zmid=0, zmin=-40, zmax=40, ygap=12, showscale=False)
        return heat(name, cells, rows, (10 * values).round(), **look)

    def lines(name, wanted, color, dash):
        x, y = [], []
        for row, word in enumerate(order):
            if same[row] == wanted:
                x += [*LINES, None]
                y += [word, row, None]
        return line(name, x, y, color, 3, dash)

    def words(name, x, y, text, place, **font):
        where = dict(textposition=place, hoverinfo="skip")
        return dict(type="scatter", name=name, x=[x] * len(y), y=y, mode="text", text=text, **where, **font)

    data = [
        strip("outputs as written", LEFT, before),
        strip("outputs as read", RIGHT, after),
        words("words as written", LEFT - 0.15, rows, list(WORDS), "middle left"),
        lines("the same output", True, "blue", "solid"),
        lines("another output", False, "orange", "dot"),
        label("same or not", [SAID] * size, rows, list(said), list(inks), "middle right", 14),
    ]
    for place, word in enumerate(WORDS):
        tile = dots(f"tile {word}", [TILE], [order.index(place)], "rgba(42, 143, 201, 0.2)", 36, "square")
        data.append(tile | dict(mode="markers+text", text=[word]))
    heads = {LEFT + 1: "as written", TILE + 1.2: "as read: drag a word"}
    plain = dict(showticklabels=False, ticks="", showgrid=False, zeroline=False, fixedrange=True)
    layout = dict(
        xaxis=dict(plain, range=[0, END]),
        yaxis=dict(plain, range=[size - 0.45, -1.05]),
        annotations=[dict(x=x, y=-0.8, text=text, showarrow=False) for x, text in heads.items()],
        margin=dict(l=8, r=8, t=6, b=6),
        showlegend=False,
        height=400,
    )
    return dict(data=data, layout=layout), {"same": sum(same)}


shuffle = explorable(
    _shuffle,
    title="Reorder a sentence: do the outputs only reorder with it?",
    alt="Left, the sentence as written, right, as it is read: each word has a strip of colored numbers, what attention "
    "puts out for it. A line leads from each word to its new place, blue where its output is the same, orange and "
    "dotted where it is another one, and a word beside it says so. Without position and mask all five lines stay blue: "
    "each word takes its strip along. Drag a word onto another, and they change places.",
    see="Drag a word onto another: whose output changes with the order?",
    readout="{same:d} of 5 outputs stay the same",
    handles={f"tile {word}": "sentence" for word in WORDS},
    sentence=slider(range(len(SENTENCES)), label="read as", default=DEFAULT, format=SENTENCES.__getitem__),
    position=slider(list(POSITIONS), label="position"),
    mask=slider(list(MASKS), label="a word sees"),
    depth=slider([1, 2], label="layers"),
)
