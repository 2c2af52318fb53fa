r"""Explorables of the chapter on relative position: Shaw, Transformer-XL, T5, KERPLE, FIRE."""

import functools
import math

import torch

from posenc.bias.alibi import bias as alibi_bias
from posenc.bias.fire import fire
from posenc.bias.kerple import kerple
from posenc.bias.shaw import shaw
from posenc.bias.t5 import bucket
from posenc.bias.transformer_xl import shift, transformer_xl
from posenc.encoding import At
from posenc.lab.explore import COLORS, DIVERGING, explorable, slider
from posenc.lab.figures.parts import axis, bars, dots, heat, label, line, path, signed, thousands, upright

# ------------------------------------------------------------------------------------------- Transformer-XL, four terms

TOKENS, HEADS, LANES, WIDTH = 8, 2, 8, 16
TEXTS = {"different": list(range(TOKENS)), "in turn": [0, 1] * 4, "the same": [2] * TOKENS}
TERMS = {"a": "content", "b": "q, distance", "c": "key", "d": "distance"}
CAPTIONS = {  # what stands above each map
    "a": "<b>a</b> query times key: as the words are",
    "b": "<b>b</b> query and distance: a curve in each row",
    "c": "<b>c</b> the key alone: columns of one color",
    "d": "<b>d</b> the distance alone: diagonals of one color",
    "sum": "<b>a + b + c + d</b>, over √D",
}
SPAN = 5.5  # the widest that a pair's terms reach
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


def _four_terms(text, term, query, key, moved):
    terms = _terms(text, moved)[:, 0]
    total = terms.sum(0) / math.sqrt(LANES)
    hidden = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    weights = total.masked_fill(hidden, -math.inf).softmax(-1)
    maps = dict(zip(CAPTIONS, [*terms, total]))
    parts = terms[:, query, key] / math.sqrt(LANES)
    ends = parts.cumsum(0)
    cells, rows = list(range(TOKENS)), list(range(len(TERMS)))
    data = [
        heat(
            "map",
            cells,
            cells,
            maps[term],
            hover=f"query %{{y:d}}, key %{{x:d}}: {term} %{{z:.2f}}<extra></extra>",
            zmin=-9,
            zmax=9,
            colorscale=DIVERGING,
            xgap=1,
            ygap=1,
            colorbar=dict(
                orientation="h",
                x=0.86,
                y=0.13,
                len=0.3,
                thickness=12,
                tickvals=[-9, 0, 9],
                ticktext=["−9", "0", "9"],
                title=dict(text="color of a cell", side="top"),
            ),
        ),
        path(
            "pair",
            [-0.5, TOKENS - 0.5, None, key, key, None, key],
            [query, query, None, -0.5, TOKENS - 0.5, None, query],
            "ink",
            1.5,
            marker=dict(color="ink", size=[0, 0, 0, 0, 0, 0, 7]),
        ),
        bars(
            "terms of the pair",
            parts,
            rows,
            "blue",
            hover="term %{y}: %{customdata:.2f}<extra></extra>",
            panel=2,
            orientation="h",
            base=ends - parts,
            width=0.4,
            customdata=parts,
        ),
        bars(
            "sum of the pair",
            [total[query, key]],
            [len(TERMS)],
            "green",
            marker=dict(pattern=dict(shape="/")),
            hover="sum: %{x:.2f}<extra></extra>",
            panel=2,
            orientation="h",
            width=0.4,
        ),
        line(
            "from term to term",
            [x for end in ends.tolist() for x in (end, end, None)],
            [y for n in rows for y in (n - 0.2, n + 1.2, None)],
            "gray",
            1,
            panel=2,
        ),
    ]
    ticks = dict(tickvals=[0, TOKENS - 1], ticktext=[f"{moved:,}", f"{moved + TOKENS - 1:,}"], tickangle=0)
    bare = dict(showgrid=False, zeroline=False)
    names = [f"<b>{name}</b> {words}" for name, words in TERMS.items()]
    layout = dict(
        height=450,
        showlegend=False,
        margin=dict(r=10, t=24, b=44),
        xaxis=dict(bare, range=[-0.5, TOKENS - 0.5], domain=[0, 0.56], title=dict(text="key", standoff=2), **ticks),
        yaxis=dict(
            bare, range=[TOKENS - 0.5, -0.5], title=dict(text="query", standoff=2), **ticks | dict(tickangle=-90)
        ),
        xaxis2=axis(-SPAN, SPAN, domain=[0.72, 1], anchor="y2", tickvals=[-4, 0, 4], ticktext=["−4", "0", "4"]),
        yaxis2=dict(
            bare,
            range=[4.45, -0.45],
            domain=[0.32, 1],
            anchor="x2",
            tickvals=list(range(5)),
            ticktext=[*names, "<b>sum</b>"],
        ),
        meta=dict(
            phone=dict(  # a name in two lines: the bars need the room
                xaxis=dict(domain=[0, 0.52]),
                xaxis2=dict(domain=[0.77, 1]),
                yaxis2=dict(
                    domain=[0.44, 1], ticktext=[name.replace(", ", ",<br>") for name in (*names, "<b>sum</b>")]
                ),
            )
        ),
        annotations=[
            dict(
                xref="paper",
                yref="paper",
                x=0,
                y=1,
                xanchor="left",
                yanchor="bottom",
                showarrow=False,
                text=CAPTIONS[term],
            )
        ],
    )
    said = {"query": query, "key": key, "sum": total[query, key].item(), "weight": weights[query, key].item()}
    return dict(data=data, layout=layout), said


four_terms = explorable(
    _four_terms,
    id="relative.four_terms",
    title="Transformer-XL: one score, four terms",
    alt="At the left a square map of one term, queries down and keys across, with a cross on one pair, which can be "
    "dragged. Term a is irregular. In term b every row is a smooth curve of the distance, another one for each query. "
    "In term c all rows are equal: upright stripes. In term d all diagonals are equal: slanted stripes. At the right, "
    "bars for the four terms of the pair, each from where the one above ends, over √D; the last one is their sum. "
    "Moving all positions changes the numbers on the axes and no cell.",
    readout="query {query:d}, key {key:d} · sum {sum:.2f} · weight after softmax {weight:.3f}",
    handles={"pair": ("query", "key")},
    term=slider(list(CAPTIONS), label="term", default="d"),
    text=slider(list(TEXTS), label="tokens"),
    query=slider(range(TOKENS), label="query", default=7),
    key=slider(range(TOKENS), label="key", default=4, at_most="query"),
    moved=slider([0, 10_000], label="positions start at", format=thousands),
)


# --------------------------------------------------------------------------------------------- T5, the bucket staircase

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

    def tape(name, steps, color, tall):
        return bars(  # without a line plotly widens thin tiles
            name,
            [b - a for _, _, a, b in steps],
            [0] * len(steps),
            color,
            marker=dict(line=dict(width=0.02, color=color)),
            panel=2,
            orientation="h",
            base=[a for _, _, a, _ in steps],
            width=tall,
        )

    x, y = stairs(steps)
    own_x, own_y = stairs(taken)
    if len(taken) > 1:
        own_x, own_y = [*own_x[:2], None, *own_x[2:]], [*own_y[:2], None, *own_y[2:]]
    here = _doubling(-distance)
    data = [
        line("bucket of each offset", x, y, "blue", 2.5),
        line("offsets that share its bucket", own_x, own_y, "orange", 8),
        upright("the key", here, -0.5, num_buckets - 0.5, "ink", 1.5, "dot"),
        tape("odd buckets", [step for step in steps if step[0] % 2], PALE, 0.9),
        tape("even buckets", [step for step in steps if not step[0] % 2], COLORS["blue"], 1),
        tape("its bucket", taken, COLORS["orange"], 1.2),
        dots("the key on the tape", [-distance], [0.95], "ink", 12, "triangle-down", panel=2),
    ]
    marks = [0, 1, 4, 16, 64, 256]
    marks = [*(-n for n in marks[:0:-1]), *(marks if both else [0])]
    far = [-300, -200, -100, 0, 100, 200, 300] if both else [-300, -250, -200, -150, -100, -50, 0]
    end, right = _doubling(REACH), 1 if both else 0.04
    layout = dict(
        height=460,
        barmode="overlay",
        showlegend=False,
        margin=dict(t=10),
        xaxis=axis(
            -1.02 * end,
            right * 1.02 * end,
            "key − query, each doubling as wide",
            tickvals=[_doubling(n) for n in marks],
            ticktext=[signed(n) for n in marks],
            anchor="y",
        ),
        yaxis=axis(-0.04 * num_buckets, 1.04 * num_buckets, "bucket", domain=[0, 0.62]),
        xaxis2=axis(
            -1.02 * REACH,
            right * 1.02 * REACH,
            tickvals=far,
            ticktext=[signed(n) for n in far],
            title=dict(text="key − query, one tile a bucket", standoff=4),
            anchor="y2",
        ),
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
    id="relative.bucket_staircase",
    title="T5: which offsets share a number?",
    alt="Above, a tape of tiles from 300 keys before the query up to it, one tile a bucket: hair-thin tiles near the "
    "query, then wider and wider ones, and beyond the maximal distance a single one. Below, the same as a "
    "staircase, on an axis on which each doubling is as wide: near the query every distance has a step of its "
    "own, farther out all steps are equally wide. Drag the dotted line: tile and step turn orange that hold the "
    "distances of its bucket.",
    readout="{back} · {ahead} · {holds}",
    handles={"the key": "distance", "the key on the tape": "distance"},
    num_buckets=slider([8, 16, 32, 64], label="buckets", default=32),
    max_distance=slider([64, 128, 256], label="maximal distance", default=128),
    direction=slider([CAUSAL, BOTH], label="a query sees", default=CAUSAL, format=lambda d: d.split()[0]),
    distance=slider(DISTANCES, label="distance of the key", default=40),
)


# ------------------------------------------------------------------------------------------------------ the shift trick

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

    def lost(value):  # a pad, or a distance at which this query has no key
        return value == PAD or value % 100 > value // 100 + memory

    dead = [i for i, value in enumerate(values) if lost(value)]
    followed = _followed(follow)
    place = names.index(followed) if followed in names else None
    side = keys + 1
    wanted = 100 * "ABCD".index(followed[0]) + int(followed[1:])

    def tiles(name, letter, color):
        r"""A frame around each cell of a query, and its name: gray where no key stands."""
        mine = [i for i, n in enumerate(names) if n[0] == letter]
        return dict(
            type="scatter",
            name=name,
            x=[x for i in mine for x in (*(columns[i] + 0.45 * across for across, _ in FRAME), None, columns[i], None)],
            y=[y for i in mine for y in (*(rows[i] + 0.42 * down for _, down in FRAME), None, rows[i], None)],
            mode="lines+text",
            text=[word for i in mine for word in (*[""] * (len(FRAME) + 1), names[i], "")],
            textfont=dict(
                size=13, color=[COLORS["gray" if i in dead else "ink"] for i in mine for _ in range(len(FRAME) + 3)]
            ),
            line=dict(color=COLORS[color], width=3),
            hoverinfo="skip",
        )

    data = [
        tiles("zeros", "0", "gray"),
        *(tiles(f"query {letter}", letter, color) for letter, color in LOOKS.items()),
        line(
            "no key stands there",
            [x for i in dead for x in (*(columns[i] + x for x in (-0.45, -0.45, -0.17, -0.45)), None)],
            [y for i in dead for y in (*(rows[i] + y for y in (0.42, 0.12, 0.42, 0.42)), None)],
            "gray",
            1,
            fill="toself",
            fillcolor=COLORS["gray"],
        ),
        label("what a corner says", -0.45, side - 0.2, "◣ no such key", "gray", "middle right"),
        dots(
            "followed",
            [] if place is None else [columns[place]],
            [] if place is None else [rows[place]],
            "rgba(196, 85, 0, 0.3)",
            32,
            "square",
        ),
    ]
    labels = [f"key {j}" for j in range(keys)] if step == 4 else []
    if step == 0:
        labels = [f"−{d}" if d else "0" for d in range(keys - 1, -1, -1)]
    named = step in (0, 1, 4)
    plain = dict(showgrid=False, zeroline=False, fixedrange=True)
    layout = dict(
        height=400,
        showlegend=False,
        margin=dict(l=66, r=10, t=44 if step in (0, 4) else 12, b=8),
        xaxis=dict(
            plain,
            side="top",
            range=[-0.6, side - 0.4],
            tickvals=list(range(len(labels))),
            ticktext=labels,
            tickangle=0,
            automargin=False,
            title=dict(text="offset of the column" if step == 0 else ""),
        ),
        yaxis=dict(
            plain,
            range=[side + 0.1, -0.6],
            tickvals=list(range(queries)) if named else [],
            ticktext=[f"query {letter}" for letter in LOOKS] if named else [],
            automargin=False,
        ),
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
    id="relative.shift_trick",
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


# -------------------------------------------------------------------------------------------------------- Shaw, clipped

LENGTH = 12


@functools.cache
def _rows_read(clip):
    """The row of Shaw's table for each pair of LENGTH positions, counted from -clip to clip, [T, T]."""
    at = torch.arange(LENGTH)[None]
    return shaw(head_dim=2, clip=clip).bias.rows(At(at, at, None))[0, 0] - clip


def _clipped(clip, sees, query, key):
    rows = _rows_read(clip).double()
    visible = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    if sees == CAUSAL:
        visible = visible.tril()
    offset = key - query
    own = max(-clip, min(clip, offset))
    same = (visible & (rows == own)).nonzero().T
    cells = list(range(LENGTH))
    table = list(range(-clip, clip + 1))
    counts = [int((visible & (rows == n)).sum()) for n in table]
    most = max(LENGTH, int((rows == -clip).sum()))  # in either direction: the bars keep their scale
    data = [
        heat(
            "row of the table",
            cells,
            cells,
            rows.masked_fill(~visible, math.nan),
            hover="query %{y}, key %{x}: reads row %{z}<extra></extra>",
            zmin=-8,
            zmax=8,
            colorscale=DIVERGING,
            xgap=1,
            ygap=1,
            showscale=False,
        ),
        dots(
            "pairs that read the same row", same[1], same[0], "ink", 7, "circle-open", marker=dict(line=dict(width=1.5))
        ),
        dots("the pair", [key], [query], "ink", 11, "circle"),
        heat(
            "shade of each row",
            table,
            [0],
            [table],
            zmin=-8,
            zmax=8,
            colorscale=DIVERGING,
            xgap=1,
            xaxis="x2",
            yaxis="y3",
            showscale=False,
        ),
        bars(
            "pairs that read each row",
            table,
            counts,
            "gray",
            hover="row %{x}: read by %{y} pairs<extra></extra>",
            panel=2,
            text=[str(n) if n else "" for n in counts],
            textposition="outside",
            textfont=dict(size=13),
            textangle=0,
            cliponaxis=False,
        ),
        dots("the row of this offset", [own], [0], "ink", 11, "circle", xaxis="x2", yaxis="y3"),
    ]
    layout = dict(
        height=470,
        showlegend=False,
        margin=dict(t=8),
        xaxis=axis(-0.5, LENGTH - 0.5, anchor="y", title=dict(text="key", standoff=2), dtick=1, tickangle=0),
        yaxis=axis(LENGTH - 0.5, -0.5, "query", domain=[0.51, 1], dtick=2),
        xaxis2=axis(
            -clip - 0.7,
            clip + 0.7,
            anchor="y3",
            title=dict(text="row of the table", standoff=2),
            tickvals=table[:: 1 + (clip > 4)],
        ),
        yaxis2=axis(0, 1.35 * most, "pairs", domain=[0.12, 0.33], showticklabels=False),
        yaxis3=axis(-0.5, 0.5, domain=[0, 0.1], anchor="x2", tickvals=[], zeroline=False),
    )
    hidden = sees == CAUSAL and offset > 0
    pairs = 0 if hidden else same.shape[1]
    row_said = "its own row" if abs(offset) < clip else "shared: clipped"
    said = {
        "offset": f"offset {signed(offset)}: " + ("hidden" if hidden else f"row {signed(own)}"),
        "pairs": f"read by {pairs} of {int(visible.sum())} pairs",
        "shared": "hidden by the mask" if hidden else row_said,
    }
    return dict(data=data, layout=layout), said


clipped = explorable(
    _clipped,
    id="relative.clipped",
    title="Shaw: beyond the clip all offsets are one",
    alt="A square of queries and keys whose shade says which row of the table a pair reads: a stripe for each offset "
    "around the diagonal, and one flat shade in each far corner, where the offset is clipped. Drag the dot to "
    "take a pair: rings mark the pairs that read the same row. Bars below, in the shades of the rows, count the "
    "pairs of each row: tall at the two ends.",
    readout="{offset} · {pairs} · {shared}",
    handles={"the pair": ("query", "key")},
    depends={
        "row of the table": ["clip", "sees"],
        "pairs that read the same row": ["clip", "sees", ("key", "-query")],
        "the pair": ["query", "key"],
        "shade of each row": ["clip"],
        "pairs that read each row": ["clip", "sees"],
        "the row of this offset": ["clip", ("key", "-query")],
        "layout": ["clip"],
        "readout": ["clip", "sees", ("key", "-query")],
    },
    clip=slider([1, 2, 3, 4, 6, 8], label="clip k", default=3),
    sees=slider([CAUSAL, BOTH], label="a query sees", default=BOTH, format=lambda d: d.split()[0]),
    query=slider(range(LENGTH), label="query", default=8),
    key=slider(range(LENGTH), label="key", default=3),
)


# --------------------------------------------------------------------------------------- KERPLE beside ALiBi, penalties

FARTHEST = 1023


@functools.cache
def _distances():
    """Whole distances to draw at: all up to 16, then ever sparser."""
    grown = torch.logspace(math.log10(16), math.log10(FARTHEST), 60, dtype=torch.float64).round()
    return torch.cat((torch.arange(17, dtype=torch.float64), grown)).unique()


def _penalty(form, r1, r2):
    """The bias at distances 0 .. FARTHEST, [FARTHEST + 1], from `posenc` itself."""
    at = torch.arange(FARTHEST + 1)
    now = torch.tensor([FARTHEST])
    if form == "alibi":
        return alibi_bias(now, at, torch.tensor([r1], dtype=torch.float64))[0, 0].flip(0)
    encoding = kerple(1, form=form).double()
    encoding.bias.log_r1.data.fill_(math.log(r1))
    encoding.bias.log_r2.data.fill_(math.log(r2))
    with torch.no_grad():
        q = torch.zeros(1, 1, 1, 2, dtype=torch.float64)
        return encoding.bias(q, q, At(now[None], at[None], None))[0, 0, 0].flip(0)


SHOWN = {"log": ("log", "blue", "solid"), "power": ("power", "orange", "dash"), "ALiBi": ("alibi", "green", "dot")}
HELD = {"log": 255, "alibi": 3}  # where a curve can be taken: the distance


def _penalties(r1, r2):
    drawn = _distances().long()
    data, near = [], {}
    for name, (form, color, dash) in SHOWN.items():
        added = _penalty(form, r1, r2)
        if form in HELD:
            here = HELD[form]
            data.append(
                dots(
                    f"{name}: take it",
                    [here + 1],
                    [added[here].clamp(min=-12)],
                    color,
                    11,
                    "circle" if form == "log" else "square",
                    showlegend=False,
                )
            )
        share = added.softmax(0).cumsum(0)
        near[form] = int((share < 0.95).sum()) + 1
        curve = dict(type="scatter", mode="lines", line=dict(color=COLORS[color], width=2.5, dash=dash))
        steep = added[drawn].clamp(min=-60).masked_fill(added[drawn] < -50, math.nan)
        data += [
            dict(curve, name=name, x=drawn + 1, y=steep, hovertemplate="%{x} keys back: bias %{y:.2f}<extra></extra>"),
            dict(
                curve,
                name=f"{name}: weight so far",
                x=drawn + 1,
                y=share[drawn],
                yaxis="y2",
                showlegend=False,
                hovertemplate="the nearest %{x} hold %{y:.3f}<extra></extra>",
            ),
        ]
    ticks = [1, 4, 16, 64, 256, 1024]
    layout = dict(
        height=460,
        xaxis=axis(
            0,
            math.log10(FARTHEST + 1),
            "nearest keys, the query itself the first",
            type="log",
            tickvals=ticks,
            ticktext=[str(n) for n in ticks],
            anchor="y2",
        ),
        yaxis=axis(-12.5, 0.5, "bias", domain=[0.5, 1]),
        yaxis2=axis(-0.03, 1.03, "weight so far", domain=[0, 0.42]),
    )
    return dict(data=data, layout=layout), near


penalties = explorable(
    _penalties,
    id="relative.penalties",
    title="KERPLE beside ALiBi: how fast does the past fade?",
    alt="Above, three penalties against the number of nearest keys, on a log axis. ALiBi and the power form fall off "
    "a cliff; the logarithmic form is a straight slope. Below, for equal content, the weight that the nearest "
    "keys hold together: it rises early for ALiBi and late for the logarithm. Two dots can be dragged: one on the "
    "line of the logarithm sets r₂, one on ALiBi's sets r₁, which all three share.",
    readout="95% of the weight: log {log:d} keys · power {power:d} · ALiBi {alibi:d}",
    handles={"log: take it": "r2", "ALiBi: take it": "r1"},
    r1=slider([0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0], label="r₁", default=1.0),
    r2=slider([0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0], label="r₂", default=0.5),
)


# ------------------------------------------------------------------------------------------------------ FIRE, its share

DECADES = [0, 1, 4, 16, 64, 256, 1024, 4096]


@functools.cache
def _share(query, threshold, c):
    encoding = fire(1, threshold=float(threshold)).double()
    encoding.bias.c.data.fill_(c)
    distance = torch.cat((torch.zeros(1), torch.logspace(0, math.log10(max(query, 1)), 60))).round().unique().double()
    at = At(torch.tensor([[query]]), (query - distance)[None], None)
    with torch.no_grad():
        return distance, encoding.bias.share(at, torch.float64)[0, 0]


def _shares(query, threshold, c, back):
    distance, share = _share(query, threshold, c)
    near, near_share = _share(threshold, threshold, c)
    here = min(back, query)
    at = At(torch.tensor([[query]]), torch.tensor([[query - here]]), None)
    encoding = fire(1, threshold=float(threshold)).double()
    encoding.bias.c.data.fill_(c)
    with torch.no_grad():
        own = encoding.bias.share(at, torch.float64).item()
    data = [
        line("this query", (distance + 1).log10(), share, "blue", 2.5),
        line("any up to L", (near + 1).log10(), near_share, "purple", 1.5, "dot"),
        dots("the key", [math.log10(here + 1)], [own], "orange", 12, "diamond"),
        dots("first key", [math.log10(query + 1)], [share[-1]], "blue", 11, "square"),
        line("threshold L", [math.log10(threshold + 1)] * 2, [0, 1], "gray", 1.5, "dash"),
    ]
    layout = dict(
        height=380,
        xaxis=axis(
            -0.05,
            math.log10(DECADES[-1] + 1) + 0.05,
            "distance i − j",
            tickvals=[math.log10(n + 1) for n in DECADES],
            ticktext=[str(n) for n in DECADES],
        ),
        yaxis=axis(-0.03, 1.05, "share that f reads"),
    )
    kind = "relative, up to L" if query <= threshold else "absolute, beyond L"
    return dict(data=data, layout=layout), {"own": own, "here": here, "kind": kind}


shares = explorable(
    _shares,
    id="relative.shares",
    title="FIRE: what share of the past is this distance?",
    alt="The input of FIRE's network against distance, on a log axis: a curve that rises from 0 at the query. Up to "
    "the threshold, a dashed upright line, the curve lies on a dotted one, the same for every query. Beyond it "
    "the curve is pressed flatter the later the query stands, and always ends at 1. Drag the square, the first "
    "key of the text, and the query moves; the diamond, and the key does; the dashed line, and the threshold "
    "does.",
    readout="f reads {own:.3f} · key {here:d} back · {kind}",
    handles={"the key": "back", "first key": "query", "threshold L": "threshold"},
    query=slider([4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], label="query position i", default=64, play=True),
    threshold=slider([16, 128, 512], label="threshold L", default=128),
    c=slider([0.02, 0.1, 1.0], label="bend c", default=0.1),
    back=slider([0, 1, 2, 4, 8, 16, 32, 64, 128, 256], label="distance of the key", default=16, at_most="query"),
)
