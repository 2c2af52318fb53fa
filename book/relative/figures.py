r"""Explorables of the chapter on relative position: Transformer-XL, T5."""

import functools
import math

import torch

from posenc.bias.t5 import bucket
from posenc.bias.transformer_xl import transformer_xl
from posenc.encoding import At
from posenc.lab.explore import COLORS, DIVERGING, explorable, slider
from posenc.lab.explore.parts import axis, bars, heat, held, label, line, upright

TOKENS, HEADS, LANES, WIDTH = 8, 2, 8, 16
MAPS = {"b": "query, distance", "c": "key", "d": "distance"}
BASE = 10  # the tokens then see several turns; with the paper's 10,000 most lanes would stand still


@functools.cache
def _maps(start=0):
    """The terms of MAPS, [3, T, T], of a seeded head for a text whose positions start there."""
    generator = torch.Generator().manual_seed(6)
    encoding = transformer_xl(HEADS, LANES, WIDTH, base=BASE).double()
    for parameter, size in ((encoding.bias.u, 0.8), (encoding.bias.v, 0.8), (encoding.bias.w_r, 0.45)):
        drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.data.copy_(size * drawn)
    vocabulary = torch.randn(2, 10, HEADS, LANES, generator=generator, dtype=torch.float64)  # a query, a key of each
    q, k = vocabulary[:, :TOKENS].transpose(1, 2)[:, None]
    at = torch.arange(TOKENS)[None] + start
    with torch.no_grad():
        return torch.stack([term[0, 0] for term in encoding.bias.terms(q, k, At(at, at, None))]) / math.sqrt(LANES)


def _four_terms(distance):
    cells, keys, edge = list(range(TOKENS)), list(range(TOKENS - distance)), [-0.5, TOKENS - 0.5]
    shades = dict(zmin=-4, zmax=4, colorscale=DIVERGING, showscale=False, xgap=1, ygap=1)
    bare = dict(showgrid=False, zeroline=False, showticklabels=False, ticks="")
    axes, phone, words, data = {}, {}, [], []
    frame = [(j + a, j + distance + b) for j in keys for a, b in ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))]
    frame = [p for n in range(0, len(frame), 4) for p in (*frame[n : n + 4], frame[n], (math.nan, math.nan))]
    for n, (name, reads) in enumerate(MAPS.items(), 1):
        tag, strip, pulled = str(n) if n > 1 else "", n + 3, _maps()[n - 1].diagonal(-distance)
        whose, differs = "query" if _maps()[n - 1].std(0).max() > 1e-6 else "key", pulled.std() > 1e-6
        said, color = (f"<b>differs,<br>{whose} by {whose}</b>", "ink") if differs else ("<b>one color</b>", "green")
        hover = f"query %{{y:d}}, key %{{x:d}}: {name} %{{z:.2f}}"
        data += [
            heat(name, cells, cells, _maps()[n - 1], hover=hover, panel=n, **shades),
            line(f"diagonal of {name}", *zip(*frame), "ink", 2.5, panel=n),
            held(f"grip of {name}", -1.1, distance, "blue", "triangle-right", 15, panel=n),
            heat(f"{name} pulled out", keys, [0], [pulled.tolist()], panel=strip, **shades),
            label(f"verdict on {name}", -0.5, 1, said, color, "middle right", 17, panel=strip),
        ]
        own = dict(xref=f"x{tag} domain", yref=f"y{tag} domain", x=0.1, y=1, xanchor="left", yanchor="bottom")
        words.append(dict(own, text=f"<b>({name})</b> {reads}", showarrow=False, font=dict(size=14)))
        left, low = 0.35 * (n - 1), 0.68 - 0.34 * (n - 1)
        axes[f"xaxis{tag}"] = dict(bare, range=[-1.6, TOKENS - 0.5], domain=[left, left + 0.3], anchor=f"y{tag}")
        axes[f"yaxis{tag}"] = dict(bare, range=edge[::-1], domain=[0.29, 0.94], anchor=f"x{tag}")
        axes[f"xaxis{strip}"] = dict(bare, range=[-1.6, TOKENS - 0.5], domain=[left, left + 0.3], anchor=f"y{strip}")
        axes[f"yaxis{strip}"] = dict(bare, range=[-0.5, 1.6], domain=[0, 0.22], anchor=f"x{strip}")
        phone |= {f"xaxis{tag}": dict(domain=[0, 0.44]), f"yaxis{tag}": dict(domain=[low, low + 0.26])}
        phone |= {f"xaxis{strip}": axis(-0.6, TOKENS - 0.5, domain=[0.5, 1])}
        phone |= {f"yaxis{strip}": dict(domain=[low + 0.01, low + 0.23])}
    layout = dict(height=440, showlegend=False, margin=dict(l=4, r=4, t=4, b=4), annotations=words, **axes)
    return dict(data=data, layout=layout | dict(meta=dict(phone=phone))), {"distance": distance}


four_terms = explorable(
    _four_terms,
    title="Transformer-XL: which term knows the distance alone?",
    alt="Three square maps, queries down and keys across, of three terms of a score: b, c, d. One diagonal, the keys "
    "at one distance from their queries, is framed in each, and pulled out as a strip. In b a strip has as many colors "
    "as tiles: each query has a curve of its own. In c too: its stripes are upright, one a key. In d it has one color. "
    "A triangle beside each map is dragged, and moves the diagonal.",
    see="Drag a triangle to another diagonal, and compare the tiles framed there.",
    readout="framed: distance {distance}",
    handles={f"grip of {name}": "distance" for name in MAPS},
    distance=slider(range(6), label="query − key", default=1),
)


REACH = 300
DISTANCES = [*range(17), 20, 24, 28, 32, 36, 40, 45, 50, 57, 64, 72, 80, 90, 100, 113, 128, 150, 180, 210, 256, 300]
PALE = "rgba(42, 143, 201, 0.35)"  # beside blue, so that tiles a pixel wide stay apart on a phone


def _back(distance):
    """Where a distance stands, to the left, on an axis on which each doubling is as wide."""
    return -math.copysign(math.log2(1 + abs(distance)), distance)


def _bucket_staircase(num_buckets, distance, *, bucket=bucket):
    widths, end, foot = [], _back(REACH), [-0.6, -0.7, -0.7, -0.6]
    data, here, side = [], _back(distance), "right" if distance > 2 else "left"
    for low, who, both in ((2.6, "decoder", False), (0, "encoder", True)):
        rows = bucket(-torch.arange(REACH + 1), num_buckets, 128, both).tolist()
        starts = [0, *(d for d in range(1, len(rows)) if rows[d] != rows[d - 1]), len(rows)]
        tiles = [(_back(b - 0.5), _back(a - 0.5), range(a, b)) for a, b in zip(starts, starts[1:])]
        (own,) = (tile for tile in tiles if distance in tile[2])
        first, last, own_ones = own[2][0], own[2][-1], num_buckets // (1 + both)
        said = "alone" if first == last else f"shared by {last - first + 1}" if last < REACH else f"all from {first} on"
        for name, some, color in (("odd", tiles[1::2], PALE), ("even", tiles[::2], "blue"), ("its", [own], "orange")):
            wide, base, tall = [b - a for a, b, _ in some], [a for a, *_ in some], 1.1 if name == "its" else 0.9
            look = dict(base=base, orientation="h", width=tall, marker=dict(line=dict(width=0.02)))
            data.append(bars(f"{who}: {name} bucket", wide, [low] * len(some), color, **look))
        widths.append([len(tile[2]) for tile in tiles[:-1] for _ in tile[2]])
        alone = [_back(widths[-1].count(1) - 0.5), _back(-0.5)]
        data += [
            held(f"{who}: the key", here, low + 0.72, "orange", "triangle-down", 15),
            label(f"{who}: how", here, low + 0.74, "\xa0\xa0\xa0drag\xa0\xa0\xa0", "ink", f"middle {side}", 14),
            label(f"{who}: named", end, low + 1.2, f"<b>{who}</b>, {own_ones} buckets", "ink", "middle right", 14),
            label(f"{who}: verdict", 0.6, low + 1.2, f"<b>{said}</b>", "orange", "middle left", 17),
            line(f"{who}: single", [alone[0], *alone, alone[1]], [low + y for y in foot], "gray", 2),
            label(f"{who}: each", sum(alone) / 2, low - 0.93, "1 each", "gray", "middle center", 14),
        ]
    coarser = [d for d, few in enumerate(widths[0]) if d >= len(widths[1]) or widths[1][d] > few] or [0]
    span = [_back(coarser[-1] + 0.5), _back(coarser[0] - 0.5)]
    data += [
        line("coarser", [span[0], *span, span[1]], foot, "purple", 3),
        label("its name", sum(span) / 2, -0.95, "<b>coarser than above</b>", "purple", "middle center", 15),
    ]
    marks = [256, 64, 16, 8, 4, 2, 1, 0]
    ticks = dict(tickvals=[_back(d) for d in marks], ticktext=[*map(str, marks)], showgrid=False, zeroline=False)
    layout = dict(height=400, barmode="overlay", showlegend=False, margin=dict(t=16, l=8, r=8))
    layout |= dict(
        xaxis=axis(1.01 * end, 0.65, "tokens back from the query, each doubling as wide", **ticks),
        yaxis=axis(-1.25, 4.15, showticklabels=False, showgrid=False, zeroline=False),
    )
    return dict(data=data, layout=layout), {"distance": distance}


bucket_staircase = explorable(
    _bucket_staircase,
    title="T5: which distances share a bucket?",
    alt="Two tapes of the keys before a query, up to 300 tokens back, one of a decoder, one of an encoder, cut into a "
    "tile for each bucket. Near the query every distance has a tile of its own; farther out tiles are shared, and the "
    "far end is a single one. The encoder has half as many tiles: its single distances end earlier, and those after "
    "them are wider. A triangle is dragged to a key; its tiles turn orange, and each tape says how many share it.",
    see="Drag a triangle over its tape: how many distances share the orange tile?",
    readout="key {distance} back",
    handles={"decoder: the key": "distance", "encoder: the key": "distance"},
    num_buckets=slider([16, 32, 64], label="buckets", default=32),
    distance=slider(DISTANCES, label="tokens back", default=4),
)


KEYS = 4  # and as many queries
WIDTHS = [KEYS + n / 8 for n in range(8, -1, -1)]  # tiles a row, from the padded table to the shifted one
TILES = [f"{letter}{d}" if d < KEYS else "0" for letter in "ABCD" for d in range(KEYS, -1, -1)]
LOOKS = {"A": "blue", "B": "orange", "C": "green", "D": "purple"}
FOLLOWED = TILES.index("C1")


def _whole(width):
    return f"{width:g}" if width == int(width) else "…"


def _shift_trick(width):
    alive = [name != "0" and int(name[1]) <= "ABCD".index(name[0]) for name in TILES]  # its key is in the text
    row = [math.floor((n + 0.5) / width) for n in range(len(TILES))]
    data = []
    groups = {"no key": [n for n, on in enumerate(alive) if not on]}
    groups |= {f"query {q}": [n for n, on in enumerate(alive) if on and TILES[n][0] == q] for q in LOOKS}
    for name, mine in groups.items():
        color, ink, clear = (LOOKS[name[-1]], "ink", 0.45) if name[-1] in LOOKS else ("gray", "gray", 0.15)
        look = dict(orientation="h", textangle=0, textfont=dict(size=15, color=COLORS[ink]), constraintext="none")
        look |= dict(insidetextanchor="middle", textposition="inside", marker=dict(opacity=clear))
        text = [TILES[n] for n in mine]
        base = [n - row[n] * width + 0.04 for n in mine]
        data.append(
            bars(name, [0.92] * len(mine), [row[n] for n in mine], color, base=base, width=0.86, text=text, **look)
        )
        letters = [name[-1] * (name[-1] in LOOKS and n == mine[len(mine) // 2]) for n in mine]
        look |= dict(base=[n + 0.03 for n in mine], width=1, panel=2, text=letters)
        data.append(bars(f"{name} in memory", [0.94] * len(mine), [0] * len(mine), color, **look))
    cuts = [width * n for n in range(1, 5) if width * n < len(TILES)]
    padded, cut = width == WIDTHS[0], width == WIDTHS[-1]
    said = "<b>none of them has moved</b>" if cut else "in memory, ┃ a row ends"

    def frame(name, x, y, high, **panel):
        return line(
            name, [x, x + 1, x + 1, x, x], [y - high, y - high, y + high, y + high, y - high], "ink", 3, **panel
        )

    data += [
        line("cuts", [p for c in cuts for p in (c, c, math.nan)], [-0.9, 0.9, math.nan] * len(cuts), "ink", 4, panel=2),
        frame("C1 framed", FOLLOWED - row[FOLLOWED] * width, row[FOLLOWED], 0.47),
        frame("C1 in memory", FOLLOWED, 0, 0.55, panel=2),
        upright("right edge", width + 0.06, -0.5, KEYS + 0.5, "ink"),
        label("how", width - 0.05, KEYS, "◂ drag this edge" if padded else "", "blue", "middle left", 14),
        label("C1", FOLLOWED + 0.5, 0.95, f"<b>{TILES[FOLLOWED]}</b>", "ink", "middle center", 14, panel=2),
        label("memory", 0, 1.9, said, "ink", "middle right", 15, panel=2),
    ]
    queries = [f"query {q}" for q in LOOKS]
    beside = ["<i>dropped</i>", *queries] if cut else queries if padded else []
    over = [f"key {j}" for j in range(KEYS)] if cut else ["zeros", "−3", "−2", "−1", "0"] if padded else []
    left, above = (dict(tickvals=[n + by for n in range(len(w))], ticktext=w) for w, by in ((beside, 0), (over, 0.5)))
    plain = dict(showgrid=False, zeroline=False, automargin=False, tickangle=0)
    layout = dict(height=420, showlegend=False, barmode="overlay", margin=dict(l=58, r=14, t=6, b=6))
    layout |= dict(
        xaxis=axis(-0.5, KEYS + 1.1, side="top", **above, **plain),
        yaxis=axis(KEYS + 0.5, -0.5, domain=[0, 0.68], **left, **plain),
        xaxis2=axis(-1, len(TILES), anchor="y2", showticklabels=False, **plain),
        yaxis2=axis(-0.9, 2.4, anchor="x2", domain=[0.8, 1], showticklabels=False, **plain),
    )
    return dict(data=data, layout=layout)


shift_trick = explorable(
    _shift_trick,
    title="The shift trick",
    alt="Above, a tape of twenty tiles, the numbers in memory, and marks where a row ends. Below, the table that these "
    "cuts make of it: each tile names its query, A to D, and a distance; gray are zeros, and distances at which there "
    "is no key. The rest are right-aligned. Drag the right edge left by one tile: the cuts move along the tape, and no "
    "tile on it does. At the end the first row is dropped, and the colored tiles stand each under its own key.",
    see="Drag the table's right edge left by one tile: watch table and tape.",
    handles={"right edge": "width"},
    width=slider(WIDTHS, label="tiles a row", format=_whole, play=True),
)
