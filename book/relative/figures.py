r"""Explorables of the chapter on relative position: Transformer-XL, T5."""

import functools
import math

import torch

from posenc.bias.t5 import bucket
from posenc.bias.transformer_xl import transformer_xl
from posenc.embed.sinusoidal import table
from posenc.encoding import At
from posenc.lab.explore import COLORS, DIVERGING, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, heat, held, label, line, signed, upright

TOKENS, HEADS, LANES, WIDTH = 8, 2, 8, 16
MAPS = {"a": "content", "+ b": "q, distance", "+ c": "key", "+ d": "distance", "=": "sum over √D"}
ABSOLUTE = "absolute"  # the sum with sinusoids added to the contents in place of the terms b, c and d
LAST = 56  # where the text starts at the latest
BASE = 10  # the tokens then see several turns; with the paper's 10,000 most lanes would stand still


@functools.cache
def _maps(start):
    """The five MAPS and ABSOLUTE, [6, T, T], of a seeded head for a text whose positions start there."""
    generator = torch.Generator().manual_seed(6)
    encoding = transformer_xl(HEADS, LANES, WIDTH, base=BASE).double()
    for parameter, size in ((encoding.bias.u, 0.8), (encoding.bias.v, 0.8), (encoding.bias.w_r, 0.45)):
        drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.data.copy_(size * drawn)
    vocabulary = torch.randn(2, 10, HEADS, LANES, generator=generator, dtype=torch.float64)  # a query, a key of each
    q, k = vocabulary[:, :TOKENS].transpose(1, 2)[:, None]
    at = torch.arange(TOKENS)[None] + start
    with torch.no_grad():
        b, c, d = encoding.bias.terms(q, k, At(at, at, None))
        for_k, for_q = encoding.bias.w_r.view(HEADS, LANES, WIDTH)
        positions = table(at[0].double(), WIDTH, BASE) / 2
        absolute = (q[0, 0] + positions @ for_q.T) @ (k[0, 0] + positions @ for_k.T).T
    terms = torch.stack([of[0, 0] for of in (q @ k.transpose(-2, -1), b, c, d)])
    return torch.cat([terms, terms.sum(0)[None], absolute[None]]) / math.sqrt(LANES)


def _four_terms(start):
    maps, cells, edge = _maps(start), list(range(TOKENS)), [-0.5, TOKENS - 0.5]
    scale = dict(x=0.96, y=0.39, len=0.8, thickness=8, xpad=0, tickvals=[-4, 0, 4])
    shades = dict(zmin=-4, zmax=4, colorscale=DIVERGING, xgap=1, ygap=1, colorbar=scale)
    texts, last = [f"key {start}", f"{start}"], f"{start + TOKENS - 1}"
    across, down = (dict(tickvals=[0, TOKENS - 1], ticktext=[text, last]) for text in texts)
    bare, axes, phone, words, frames = dict(showgrid=False, zeroline=False, tickangle=0), {}, {}, [], []
    frame = dict(type="rect", x0=0, x1=1, y0=0, y1=1, layer="below", line=dict(color=COLORS["gray"], width=0.5))
    data = [
        bars("text", [TOKENS], [0], "sky", base=[start - 0.5], orientation="h", width=1, panel=7),
        held("its start", start, 0, "blue", panel=7),
    ]
    for n, (name, reads) in enumerate([*MAPS.items(), (ABSOLUTE, "moves")]):  # on a phone two in a row
        left, low, hover = 0.335 * (n % 3), 0.44 - 0.44 * (n // 3), f"query %{{y:d}}, key %{{x:d}}: {name} %{{z:.2f}}"
        data.append(heat(name, cells, cells, maps[n], hover=hover, panel=n + 1, showscale=not n, **shades))
        tag = str(n + 1) if n else ""
        own, corner = dict(xref=f"x{tag} domain", yref=f"y{tag} domain"), dict(x=0, y=1, xanchor="left")
        words.append(dict(own, **corner, yanchor="bottom", text=f"<b>{name}</b> {reads}", showarrow=False))
        frames.append(dict(own, **frame, fillcolor="rgba(125, 131, 140, 0.12)"))  # seen while the map waits
        axes[f"xaxis{tag}"] = dict(bare, **across, range=edge, domain=[left, left + 0.28], anchor=f"y{tag}")
        axes[f"yaxis{tag}"] = dict(bare, **down, range=edge[::-1], domain=[low, low + 0.34], anchor=f"x{tag}")
        left, low, below = 0.02 + 0.5 * (n % 2), 0.59 - 0.295 * (n // 2), dict(showticklabels=n > 3, ticks="")
        phone |= {f"xaxis{tag}": dict(below, domain=[left, left + 0.36]), f"yaxis{tag}": dict(domain=[low, low + 0.23])}
    axes["yaxis"]["title"] = dict(text="query", standoff=2)
    places = dict(tickvals=list(range(0, 65, 16)), ticktext=["position 0", "16", "32", "48", "64"])
    axes["xaxis7"] = axis(-2, LAST + TOKENS + 1, anchor="y7", **places)
    axes["yaxis7"] = axis(-1, 1, anchor="x7", domain=[0.92, 1], showticklabels=False, **bare)
    layout = dict(height=480, showlegend=False, margin=dict(l=36, r=4, t=6, b=24), annotations=words, **axes)
    layout |= dict(shapes=frames, meta=dict(phone=phone))
    moves = (maps - _maps(0)).abs().amax((1, 2)).tolist()
    said = {"first": start, "last": start + TOKENS - 1, "relative": moves[4], "absolute": moves[5]}
    return dict(data=data, layout=layout), said


four_terms = explorable(
    _four_terms,
    title="Transformer-XL: one score, four terms",
    alt="Six square maps, queries down and keys across: the four terms, their sum, and the sum as absolute positions "
    "would make it. Term a is irregular. In term b every row is a smooth curve of the distance, another one for each "
    "query. In term c all rows are equal: upright stripes. In term d all diagonals are: slanted stripes. Above them, "
    "the text as a block on positions. Drag its start: numbers change, and no cell but those of the last map.",
    readout="positions {first:d} to {last:d} · sum moves by {relative:.2f} · absolute by {absolute:.2f}",
    handles={"its start": "start"},
    start=slider(range(0, LAST + 1, 4), label="positions start at", play=True),
)


REACH = 300
DISTANCES = [*range(17), 20, 24, 28, 32, 36, 40, 45, 50, 57, 64, 72, 80, 90, 100, 113, 128, 150, 180, 210, 256, 300]
CAUSAL, BOTH = "causal", "both directions"
PALE = "rgba(42, 143, 201, 0.35)"  # beside blue, so that tiles a pixel wide stay apart on a phone


def _doubling(x):
    """Where an offset stands on an axis on which each doubling is as wide."""
    return math.copysign(math.log2(1 + abs(x)), x)


def _bucket_staircase(num_buckets, max_distance, direction, distance, *, bucket=bucket):
    both, end = direction == BOTH, _doubling(REACH)

    def cut(both):  # the steps: a bucket, its offsets and where it begins and ends
        relative = torch.arange(-REACH, (REACH if both else 0) + 1)
        rows = bucket(relative, num_buckets, max_distance, both).tolist()
        starts = [0, *(n for n in range(1, len(rows)) if rows[n] != rows[n - 1]), len(rows)]
        edges = [-REACH, *(n - REACH - 0.5 for n in starts[1:-1]), relative[-1].item()]
        return [(rows[a], range(a - REACH, b - REACH), *of) for a, b, *of in zip(starts, starts[1:], edges, edges[1:])]

    steps = cut(both)
    taken = [step for step in steps if -distance in step[1] or (both and distance in step[1])]
    own = next(step for step in taken if -distance in step[1])

    def stairs(steps, *gap):
        points = [p for n, _, a, b in steps for p in ((_doubling(a), n), (_doubling(b), n), *gap)]
        return [x for x, _ in points], [y for _, y in points]

    def tape(name, steps, color, tall, edge=0.02):  # without a line plotly widens thin tiles
        look = dict(marker=dict(line=dict(width=edge, color=color)), panel=2, orientation="h", width=tall)
        wide, base = [b - a for *_, a, b in steps], [a for *_, a, _ in steps]
        return bars(name, wide, [0] * len(steps), color, base=base, **look)

    outside, air = [f"middle {side}" for side in ("left", "right")][:: 1 if distance < 150 else -1], 4 * "\xa0"
    flags = [f"<b>{air}{own[0]}{air}</b>", f"<b>{air}{taken[-1][0]}{air}</b>" if both else ""]  # beside the handle
    data = [
        line("causal, to compare", *stairs(cut(False) if both else []), "gray", 2, "2px,2px"),
        line("bucket of each offset", *stairs(steps), "blue", 2.5),
        line("offsets that share its bucket", *stairs(taken, (math.nan, math.nan)), "orange", 8),
        upright("the key", _doubling(-distance), -0.5, 1.11 * num_buckets, "ink", 1.5, "dot"),
        tape("odd buckets", [step for step in steps if step[0] % 2], PALE, 0.9),
        tape("even buckets", [step for step in steps if not step[0] % 2], COLORS["blue"], 1),
        tape("its bucket", taken, COLORS["orange"], 1.2, 2),
        dots("the key on the tape", [-distance], [0.95], "ink", 12, "triangle-down", panel=2, cliponaxis=False),
        label("its number", [-distance, distance], [0.95, 0.95], flags, "orange", outside, cliponaxis=False, panel=2),
        held("where all the rest share one", _doubling(steps[0][3]), steps[0][0], "blue"),
        label("its name", -end, 0.66 * num_buckets, "causal" if both else "", "gray", "middle right", halo=True),
    ]
    marks = [-256, -64, -16, -4, *([0, 4, 16, 64, 256] if both else [-1, 0])]
    far = [-300, -200, -100, 0, 100, 200, 300] if both else [-300, -250, -200, -150, -100, -50, 0]
    right, ticks = 1 if both else 0.04, list(range(0, num_buckets, num_buckets // 8))
    doublings = dict(tickvals=[_doubling(n) for n in marks], ticktext=[signed(n) for n in marks], anchor="y")
    evenly = dict(tickvals=far, ticktext=[signed(n) for n in far], anchor="y2")
    below = dict(text="key − query, one tile a bucket", standoff=4)
    layout = dict(height=460, barmode="overlay", showlegend=False, margin=dict(t=10))
    layout |= dict(
        xaxis=axis(-1.02 * end, right * 1.02 * end, "key − query, each doubling as wide", **doublings),
        yaxis=axis(-0.04 * num_buckets, 1.13 * num_buckets, "bucket", tickvals=ticks, domain=[0, 0.67]),
        xaxis2=axis(-1.02 * REACH, right * 1.02 * REACH, below, **evenly),
        yaxis2=axis(-0.5, 1.4, domain=[0.85, 1], showticklabels=False, showgrid=False, zeroline=False),
        meta=dict(phone=dict(yaxis=dict(domain=[0, 0.7]), yaxis2=dict(domain=[0.83, 1]), margin=dict(l=8, r=8))),
    )
    shared = f"{len(own[1])} distances share it" if len(own[1]) > 1 else "its own bucket"
    words = {
        "back": f"{signed(-distance)}: bucket {own[0]}",
        "ahead": f"{signed(distance)}: bucket {taken[-1][0]}" if both else "keys ahead hidden",
        "holds": f"all from {-own[1][-1]} on" if own[2] <= -REACH else shared,
    }
    return dict(data=data, layout=layout), words


bucket_staircase = explorable(
    _bucket_staircase,
    title="T5: which offsets share a number?",
    alt="Above, a tape of tiles from 300 keys before the query up to it, one tile a bucket: hair-thin tiles near the "
    "query, then wider and wider ones, and far from it a single one. Below, the same as a staircase, on an axis on "
    "which each doubling is as wide: near the query every distance has a step of its own, farther out all steps are "
    "equally wide; with both directions, a dotted line is the causal one. Drag the diamond, where the last one starts: "
    "every step stretches. Drag the upright line: tile and step of its bucket turn orange; its number stands above.",
    readout="{back} · {ahead} · {holds}",
    handles={"the key": "distance", "the key on the tape": "distance", "where all the rest share one": "max_distance"},
    num_buckets=slider([8, 16, 32, 64], label="buckets", default=32),
    max_distance=slider([45, 64, 90, 128, 180, 256], label="maximal distance", default=128),
    direction=slider([CAUSAL, BOTH], label="a query sees", default=CAUSAL, format=lambda d: d.split()[0]),
    distance=slider(DISTANCES, label="distance of the key", default=40),
)


KEYS = 4  # and as many queries
WIDTHS = [KEYS + n / 8 for n in range(8, -1, -1)]  # tiles a row, from the padded table to the shifted one
TILES = [f"{letter}{d}" if d < KEYS else "0" for letter in "ABCD" for d in range(KEYS, -1, -1)]
LOOKS = {"A": "blue", "B": "orange", "C": "green", "D": "purple"}
FOLLOWED = TILES.index("C1")


def _whole(width):
    return f"{width:g}" if width == int(width) else "…"


def _shift_trick(width):
    rows = [math.floor((n + 0.5) / width) for n in range(len(TILES))]
    columns = [n - row * width for n, row in enumerate(rows)]
    alive = [name != "0" and int(name[1]) <= "ABCD".index(name[0]) for name in TILES]  # its key is in the text

    def tiles(name, which, color, ink="ink", edge=3):
        mine = [n for n in range(len(TILES)) if which(n)]
        look = dict(mode="markers+text", text=[TILES[n] for n in mine], textfont=dict(size=13, color=COLORS[ink]))
        frame = dict(line=dict(width=edge))
        x, y = [columns[n] for n in mine], [rows[n] for n in mine]
        return dots(name, x, y, color, 40, "square-open", marker=frame, cliponaxis=False) | look

    padded, cut = width == WIDTHS[0], width == WIDTHS[-1]
    data = [
        dots("followed", [columns[FOLLOWED]], [rows[FOLLOWED]], "rgba(196, 85, 0, 0.3)", 40, "square"),
        tiles("no key stands there", lambda n: not alive[n], "gray", "gray", 1),
        *(tiles(f"query {q}", lambda n, q=q: alive[n] and TILES[n][0] == q, color) for q, color in LOOKS.items()),
        upright("right edge", width - 0.46, -0.5, KEYS + 0.5, "ink"),
        label("how", width - 0.6, KEYS, "◂ drag this edge" if padded else "", "blue", "middle left"),
    ]
    queries = [f"query {q}" for q in LOOKS]
    beside = ["<i>dropped</i>", *queries] if cut else queries if padded else []
    over = [f"key {j}" for j in range(KEYS)] if cut else ["zeros", "−3", "−2", "−1", "0"] if padded else []
    left, above = (dict(tickvals=list(range(len(words))), ticktext=words) for words in (beside, over))
    plain = dict(showgrid=False, zeroline=False, automargin=False, tickangle=0)
    layout = dict(
        height=380,
        showlegend=False,
        margin=dict(l=66, r=10, t=34, b=8),
        xaxis=axis(-0.6, KEYS + 0.8, domain=[0.2, 0.8], side="top", **above, **plain),
        yaxis=axis(KEYS + 0.6, -0.6, **left, **plain),
        meta=dict(phone=dict(xaxis=dict(domain=[0, 1]))),
    )
    said = "zeros in front" if padded else "first row dropped" if cut else "cut anew"
    return dict(data=data, layout=layout), {"width": _whole(width), "said": said}


shift_trick = explorable(
    _shift_trick,
    title="The shift trick: no score is moved, only the rows are cut anew",
    alt="A table of tiles, each named by its query, A to D, and a distance; thin gray ones are zeros, which stand in "
    "front, and distances at which the query has no key. The framed rest are right-aligned. Drag the right edge to the "
    "left by one tile: the lines break elsewhere, as in a text whose margin moves, and each row slides farther than "
    "the one above it. At the end the first row is dropped, and in the others the framed tiles stand left-aligned, "
    "each under its own key.",
    readout=f"{{width}} tiles a row · {TILES[FOLLOWED]}: number {FOLLOWED} in memory · {{said}}",
    handles={"right edge": "width"},
    width=slider(WIDTHS, label="tiles a row", format=_whole, play=True),
)
