r"""Explorables of the chapter on relative position: Transformer-XL, T5."""

import functools
import math

import torch

from posenc.bias.t5 import bucket
from posenc.bias.transformer_xl import shift, transformer_xl
from posenc.encoding import At
from posenc.lab.explore import COLORS, DIVERGING, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, heat, held, label, line, path, signed, thousands, upright

TOKENS, HEADS, LANES, WIDTH = 8, 2, 8, 16
TEXTS = {"different": list(range(TOKENS)), "in turn": [0, 1] * 4, "the same": [2] * TOKENS}
MAPS = {"a": "content", "+ b": "q, distance", "+ c": "key", "+ d": "distance", "=": "sum over √D"}
BASE = 10  # the tokens then see several turns; with the paper's 10,000 most lanes would stand still


@functools.cache
def _terms(text, moved):
    """a, b, c and d, [4, H, T, T], of a seeded layer for one text whose positions start at `moved`."""
    generator = torch.Generator().manual_seed(6)
    encoding = transformer_xl(HEADS, LANES, WIDTH, base=BASE).double()
    for parameter, size in ((encoding.bias.u, 0.8), (encoding.bias.v, 0.8), (encoding.bias.w_r, 0.45)):
        drawn = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
        parameter.data.copy_(size * drawn)
    vocabulary = torch.randn(2, 10, HEADS, LANES, generator=generator, dtype=torch.float64)  # a query, a key of each
    q, k = vocabulary[:, TEXTS[text]].transpose(1, 2)[:, None]
    at = torch.arange(TOKENS)[None] + moved
    with torch.no_grad():
        b, c, d = encoding.bias.terms(q, k, At(at, at, None))
    a = q @ k.transpose(-2, -1)
    return torch.cat([a, b, c.expand_as(a), d.expand_as(a)])


def _four_terms(text, query, key, moved):
    terms = _terms(text, moved)[:, 0] / math.sqrt(LANES)
    total = terms.sum(0)
    hidden = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    weights = total.masked_fill(hidden, -math.inf).softmax(-1)
    cells, edge = list(range(TOKENS)), [-0.5, TOKENS - 0.5]
    bar = dict(orientation="h", x=0.86, y=0.3, len=0.27, thickness=12, tickvals=[-4, 0, 4], ticktext=["−4", "0", "4"])
    shades = dict(zmin=-4, zmax=4, colorscale=DIVERGING, xgap=1, ygap=1)
    ticks = dict(tickvals=[0, TOKENS - 1], ticktext=[f"{moved:,}", f"+{TOKENS - 1}" if moved else f"{TOKENS - 1}"])
    bare, data, axes, words = dict(showgrid=False, zeroline=False, tickangle=0, **ticks), [], {}, []
    cross, across = dict(color="ink", size=[0] * 6 + [7]), [query, query, None, *edge, None, query]
    for n, ((name, reads), of) in enumerate(zip(MAPS.items(), [*terms, total])):  # three in a row
        left, low, last = 0.36 * (n % 3), 0.54 - 0.54 * (n // 3), name.startswith("=")
        hover = f"query %{{y:d}}, key %{{x:d}}: {name[-1] if not last else 'sum'} %{{z:.2f}}"
        own = shades | (dict(colorbar=bar) if last else dict(showscale=False))
        data += [
            heat(name, cells, cells, of, hover=hover, panel=n + 1, **own),
            path(f"pair in {name}", [*edge, None, key, key, None, key], across, "ink", 1.5, marker=cross, panel=n + 1),
            label(f"number of {name}", edge[1], -2.8, signed(of[query, key], 2), "ink", "middle left", panel=n + 1),
        ]
        tag = str(n + 1) if n else ""
        corner = dict(xref=f"x{tag} domain", yref=f"y{tag} domain", x=0, y=1, xanchor="left", yanchor="top")
        words.append(dict(corner, text=f"<b>{name}</b><br>{reads}", align="left", showarrow=False))
        axes[f"xaxis{tag}"] = dict(bare, range=edge, domain=[left, left + 0.28], anchor=f"y{tag}", showticklabels=n > 1)
        axes[f"yaxis{tag}"] = dict(bare, range=[edge[1], -3.4], domain=[low, low + 0.46], anchor=f"x{tag}")
        axes[f"yaxis{tag}"]["showticklabels"] = n % 3 == 0
    layout = dict(height=480, showlegend=False, margin=dict(l=36, r=4, t=6, b=24), annotations=words, **axes)
    said = {"query": query, "key": key, "sum": total[query, key].item(), "weight": weights[query, key].item()}
    return dict(data=data, layout=layout), said


four_terms = explorable(
    _four_terms,
    title="Transformer-XL: one score, four terms",
    alt="Five square maps, queries down and keys across: the four terms and their sum, with a cross on one pair, which "
    "can be dragged in the last. Term a is irregular. In term b every row is a smooth curve of the distance, another "
    "one for each query. In term c all rows are equal: upright stripes. In term d all diagonals are equal: slanted "
    "stripes. Moving all positions changes the numbers on the axes and no cell.",
    readout="query {query:d}, key {key:d} · sum {sum:.2f} · weight after softmax {weight:.3f}",
    handles={"pair in =": ("query", "key")},
    text=slider(list(TEXTS), label="tokens"),
    query=slider(range(TOKENS), label="query", default=7),
    key=slider(range(TOKENS), label="key", default=4, at_most="query"),
    moved=slider([0, 10_000], label="positions start at", format=thousands),
)


REACH = 300
DISTANCES = [*range(17), 20, 24, 28, 32, 36, 40, 45, 50, 57, 64, 72, 80, 90, 100, 113, 128, 150, 180, 210, 256, 300]
CAUSAL, BOTH = "causal", "both directions"
PALE = "rgba(42, 143, 201, 0.35)"  # beside blue, so that tiles a pixel wide stay apart on a phone


def _doubling(x):
    """Where an offset stands on an axis on which each doubling is as wide."""
    return math.copysign(math.log2(1 + abs(x)), x)


def _bucket_staircase(num_buckets, max_distance, direction, distance, *, bucket=bucket):
    both = direction == BOTH
    relative = torch.arange(-REACH, (REACH if both else 0) + 1)
    rows = bucket(relative, num_buckets, max_distance, both).tolist()
    starts = [0, *(n for n in range(1, len(rows)) if rows[n] != rows[n - 1]), len(rows)]
    steps = [  # a bucket, its offsets and where it begins and ends
        (rows[a], range(a - REACH, b - REACH), max(a - REACH - 0.5, -REACH), min(b - REACH - 0.5, relative[-1].item()))
        for a, b in zip(starts, starts[1:])
    ]
    taken = [step for step in steps if -distance in step[1] or (both and distance in step[1])]
    own = next(step for step in taken if -distance in step[1])

    def stairs(steps):
        ends = [[(_doubling(a), n), (_doubling(b), n)] for n, _, a, b in steps]
        return [x for pair in ends for x, _ in pair], [y for pair in ends for _, y in pair]

    def tape(name, steps, color, tall):  # without a line plotly widens thin tiles
        look = dict(marker=dict(line=dict(width=0.02, color=color)), panel=2, orientation="h", width=tall)
        return bars(
            name, [b - a for *_, a, b in steps], [0] * len(steps), color, base=[a for *_, a, _ in steps], **look
        )

    own_x, own_y = stairs(taken)
    if len(taken) > 1:
        own_x, own_y = [*own_x[:2], None, *own_x[2:]], [*own_y[:2], None, *own_y[2:]]
    data = [
        line("bucket of each offset", *stairs(steps), "blue", 2.5),
        line("offsets that share its bucket", own_x, own_y, "orange", 8),
        upright("the key", _doubling(-distance), -0.5, num_buckets - 0.5, "ink", 1.5, "dot"),
        tape("odd buckets", [step for step in steps if step[0] % 2], PALE, 0.9),
        tape("even buckets", [step for step in steps if not step[0] % 2], COLORS["blue"], 1),
        tape("its bucket", taken, COLORS["orange"], 1.2),
        dots("the key on the tape", [-distance], [0.95], "ink", 12, "triangle-down", panel=2),
        held("where all the rest share one", _doubling(-max_distance), steps[0][0], "blue"),
    ]
    marks = [0, 1, 4, 16, 64, 256]
    marks = [*(-n for n in marks[:0:-1]), *(marks if both else [0])]
    far = [-300, -200, -100, 0, 100, 200, 300] if both else [-300, -250, -200, -150, -100, -50, 0]
    end, right = _doubling(REACH), 1 if both else 0.04
    doublings = dict(tickvals=[_doubling(n) for n in marks], ticktext=[signed(n) for n in marks], anchor="y")
    evenly = dict(tickvals=far, ticktext=[signed(n) for n in far], anchor="y2")
    below = dict(text="key − query, one tile a bucket", standoff=4)
    layout = dict(
        height=460,
        barmode="overlay",
        showlegend=False,
        margin=dict(t=10),
        xaxis=axis(-1.02 * end, right * 1.02 * end, "key − query, each doubling as wide", **doublings),
        yaxis=axis(-0.04 * num_buckets, 1.04 * num_buckets, "bucket", domain=[0, 0.62]),
        xaxis2=axis(-1.02 * REACH, right * 1.02 * REACH, below, **evenly),
        yaxis2=axis(-0.5, 1.4, domain=[0.84, 1], showticklabels=False, showgrid=False, zeroline=False),
    )
    if own[2] <= -REACH:
        holds = f"all from {-own[1][-1]} on"
    else:
        holds = f"{len(own[1])} distances share it" if len(own[1]) > 1 else "its own bucket"
    words = {
        "back": f"{signed(-distance)}: bucket {own[0]}",
        "ahead": f"{signed(distance)}: bucket {taken[-1][0]}" if both else "keys ahead hidden",
        "holds": holds,
    }
    return dict(data=data, layout=layout), words


bucket_staircase = explorable(
    _bucket_staircase,
    title="T5: which offsets share a number?",
    alt="Above, a tape of tiles from 300 keys before the query up to it, one tile a bucket: hair-thin tiles near the "
    "query, then wider and wider ones, and beyond the maximal distance a single one. Below, the same as a "
    "staircase, on an axis on which each doubling is as wide: near the query every distance has a step of its "
    "own, farther out all steps are equally wide. Drag the diamond: the maximal distance, beyond which all share a "
    "bucket, and every step stretches. Drag the dotted line: tile and step turn orange that hold the distances of its "
    "bucket.",
    readout="{back} · {ahead} · {holds}",
    handles={"the key": "distance", "the key on the tape": "distance", "where all the rest share one": "max_distance"},
    num_buckets=slider([8, 16, 32, 64], label="buckets", default=32),
    max_distance=slider([64, 128, 256], label="maximal distance", default=128),
    direction=slider([CAUSAL, BOTH], label="a query sees", default=CAUSAL, format=lambda d: d.split()[0]),
    distance=slider(DISTANCES, label="distance of the key", default=40),
)


QUERIES = 4
STEPS = ["by distance", "zeros added", "rows of Tq", "a row dropped", "rows of Tk"]
PAD = -1
LOOKS = {"A": "blue", "B": "orange", "C": "green", "D": "purple"}
FRAME = [(-1, -1), (1, -1), (1, 1), (-1, 1), (-1, -1)]


def _shift_trick(step, memory, follow, *, shift=shift):
    queries, keys = QUERIES, QUERIES + memory
    distance = torch.arange(keys - 1, -1, -1).expand(queries, keys)
    cells = 100 * torch.arange(queries)[:, None] + distance  # query and distance in one number
    pad = torch.full((queries, 1), PAD)
    padded = torch.cat((pad, cells), dim=1)
    narrow = padded.reshape(keys + 1, queries)
    final = (shift(cells.double() + 1) - 1).long()  # the function itself; its pad, 0, becomes -1
    shown = [cells, padded, narrow, narrow[1:], final][step]

    rows, columns = (x.flatten().tolist() for x in torch.meshgrid(*map(torch.arange, shown.shape), indexing="ij"))
    values = shown.flatten().tolist()
    names = ["0" if v == PAD else f"{'ABCD'[v // 100]}{v % 100}" for v in values]

    # gray: a pad, or a distance at which this query has no key
    dead = [i for i, value in enumerate(values) if value == PAD or value % 100 > value // 100 + memory]
    followed = _followed(follow)
    place = names.index(followed) if followed in names else None
    side = keys + 1
    wanted = 100 * "ABCD".index(followed[0]) + int(followed[1:])

    def tiles(name, letter, color):
        r"""A frame around each cell of a query, and its name: gray where no key stands."""
        mine = [i for i, n in enumerate(names) if n[0] == letter]
        inks = [COLORS["gray" if i in dead else "ink"] for i in mine for _ in range(len(FRAME) + 3)]
        x = [x for i in mine for x in (*(columns[i] + 0.45 * across for across, _ in FRAME), None, columns[i], None)]
        y = [y for i in mine for y in (*(rows[i] + 0.42 * down for _, down in FRAME), None, rows[i], None)]
        text = [word for i in mine for word in (*[""] * (len(FRAME) + 1), names[i], "")]
        return line(name, x, y, color, 3, text=text, textfont=dict(size=13, color=inks)) | dict(mode="lines+text")

    x = [x for i in dead for x in (*(columns[i] + x for x in (-0.45, -0.45, -0.17, -0.45)), None)]
    y = [y for i in dead for y in (*(rows[i] + y for y in (0.42, 0.12, 0.42, 0.42)), None)]
    at = ([], []) if place is None else ([columns[place]], [rows[place]])
    data = [
        tiles("zeros", "0", "gray"),
        *(tiles(f"query {letter}", letter, color) for letter, color in LOOKS.items()),
        line("no key stands there", x, y, "gray", 1, fill="toself", fillcolor=COLORS["gray"]),
        label("what a corner says", -0.45, side - 0.2, "◣ no such key", "gray", "middle right"),
        dots("followed", *at, "rgba(196, 85, 0, 0.3)", 32, "square"),
    ]
    labels = [f"key {j}" for j in range(keys)] if step == 4 else []
    if step == 0:
        labels = [f"−{d}" if d else "0" for d in range(keys - 1, -1, -1)]
    named = ([*range(queries)], [f"query {letter}" for letter in LOOKS]) if step in (0, 1, 4) else ([], [])
    plain = dict(showgrid=False, zeroline=False, fixedrange=True, automargin=False)
    above = dict(side="top", tickvals=list(range(len(labels))), ticktext=labels, tickangle=0)
    layout = dict(
        height=400,
        showlegend=False,
        margin=dict(l=66, r=10, t=44 if step in (0, 4) else 12, b=8),
        xaxis=axis(-0.6, side - 0.4, "offset of the column" if step == 0 else "", **above, **plain),
        yaxis=axis(side + 0.1, -0.6, tickvals=named[0], ticktext=named[1], **plain),
    )
    if place is not None:
        where = f"{followed}: row {rows[place]}, column {columns[place]}"
        memory_place = f"number {place:2d} in memory"
    else:
        where = f"{followed} went with the first row" if wanted in cells.flatten().tolist() else f"no {followed}"
        memory_place = "dropped"
    shape = f"{shown.shape[0]} rows of {shown.shape[1]}"
    return dict(data=data, layout=layout), {"shape": shape, "where": where, "memory": memory_place}


def _followed(place):
    return f"{'ABCD'[place // QUERIES]}{place % QUERIES}"


shift_trick = explorable(
    _shift_trick,
    title="The shift trick: no score is moved, only the rows are cut anew",
    alt="A table of tiles, each named by its query, A to D, and a distance. First every row runs through the same "
    "distances. A column of zeros comes in on the left, the numbers are read as more and shorter rows, the first "
    "row is dropped, and the rest is read as long rows again: now each row ends its run at distance 0 under its "
    "own key. A filled corner marks zeros and distances at which the query has no key; at the end they stand right "
    "of the diagonal. Play the steps; drag the filled tile to follow another.",
    readout="{shape} · {where} · {memory}",
    handles={"followed": "follow"},
    step=slider(range(len(STEPS)), label="step", format=lambda n: f"{n}: {STEPS[n]}", play=True),
    memory=slider([0, 1, 2], label="keys in memory"),
    follow=slider(range(QUERIES * QUERIES), label="follow", default=9, format=_followed),
)
