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
from posenc.lab.explore import COLORS, DIVERGING, SEQUENTIAL, explorable, slider


def _signed(offset):
    return f"+{offset}" if offset > 0 else f"−{-offset}" if offset < 0 else "0"


# ------------------------------------------------------------------------------------------- Transformer-XL, four terms

TOKENS, HEADS, LANES, WIDTH = 10, 2, 8, 16
TEXTS = {"ten different tokens": list(range(10)), "two tokens in turn": [0, 1] * 5, "one token ten times": [2] * 10}
MAPS = ["a: content", "b: query, distance", "c: key", "d: distance", "sum / √D", "weights"]
BASE = 10  # ten tokens then see several turns; with the paper's 10,000 most lanes would stand still


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


def _four_terms(text, head, moved):
    terms = _terms(text, moved)
    total = terms.sum(0)[head - 1] / math.sqrt(LANES)
    hidden = torch.ones(TOKENS, TOKENS, dtype=torch.bool).triu(1)
    weights = total.masked_fill(hidden, -math.inf).softmax(-1).masked_fill(hidden, math.nan)
    cells = list(range(TOKENS))
    layout = dict(height=760, showlegend=False)
    data = []
    for n, (name, z) in enumerate(zip(MAPS, [*terms[:, head - 1], total, weights])):
        last = n == len(MAPS) - 1
        one, low = "" if n == 0 else str(n + 1), 0.74 - 0.37 * (n // 2)
        bar = dict(len=0.26, thickness=12, x=1.0, y=0.13 if last else 0.87)
        colors = dict(zmin=0, zmax=1, colorscale=SEQUENTIAL) if last else dict(zmin=-9, zmax=9, colorscale=DIVERGING)
        data.append(
            dict(
                type="heatmap",
                name=name,
                x=cells,
                y=cells,
                z=z,
                xaxis=f"x{one}",
                yaxis=f"y{one}",
                **colors,
                xgap=1,
                ygap=1,
                colorbar=bar,
                showscale=n in (1, 5),
            )
        )
        side = [0, 0.43] if n % 2 == 0 else [0.56, 0.99]
        ticks = dict(
            tickvals=[0, TOKENS - 1],
            ticktext=[str(moved), str(moved + TOKENS - 1)],
            fixedrange=True,
            showgrid=False,
            zeroline=False,
        )
        layout[f"xaxis{one}"] = dict(
            ticks,
            domain=side,
            anchor=f"y{one}",
            range=[-0.5, TOKENS - 0.5],
            tickangle=0,
            title=dict(text=name, standoff=2, font=dict(size=14)),
        )
        layout[f"yaxis{one}"] = dict(
            ticks,
            domain=[low, low + 0.26],
            anchor=f"x{one}",
            range=[TOKENS - 0.5, -0.5],
            title=dict(text="query" if n % 2 == 0 else ""),
        )
    change = (terms - _terms(text, 0)).abs().max().item()
    words = "positions from 0" if moved == 0 else f"all positions moved by {moved}: the largest change of a cell is "
    return dict(data=data, layout=layout), {"words": words + ("" if moved == 0 else f"{change:.0e}")}


four_terms = explorable(
    _four_terms,
    id="relative.four_terms",
    title="Transformer-XL: one score, four terms",
    alt="Six square maps, queries down and keys across. Term a is irregular. In term b every row is a smooth curve of "
    "the distance, another one for each query. In term c all rows are equal: upright stripes. In term d all diagonals "
    "are equal: slanted stripes. Then their sum, and the causal weights it gives. Moving all positions changes the "
    "numbers on the axes and no cell.",
    readout="{words}",
    depends={name: ["text", "head"] for name in MAPS} | {"layout": ["moved"], "readout": ["text", "moved"]},
    text=slider(list(TEXTS), label="text"),
    head=slider(range(1, HEADS + 1), label="head"),
    moved=slider([0, 100, 10_000], label="positions start at"),
)


# --------------------------------------------------------------------------------------------- T5, the bucket staircase

REACH = 300
OFFSETS = [
    300,
    257,
    256,
    255,
    200,
    129,
    128,
    127,
    100,
    65,
    64,
    63,
    50,
    40,
    33,
    32,
    31,
    24,
    17,
    16,
    15,
    12,
    9,
    8,
    7,
    4,
    2,
]
OFFSETS = [*(-n for n in OFFSETS), -1, 0, 1, 2, 4, 7, 8, 9, 12, 15, 16, 17, 31, 32, 64, 128, 300]
CAUSAL, BOTH = "causal", "both directions"
FOOT = 0.15  # what a bar for a single offset, whose logarithm is 0, stands on


def _bucket_staircase(num_buckets, max_distance, direction, offset, *, bucket=bucket):
    both = direction == BOTH
    relative = torch.arange(-REACH, REACH + 1)
    rows = bucket(relative, num_buckets, max_distance, both)
    edges = [0, *((rows[1:] != rows[:-1]).nonzero().flatten() + 1).tolist(), len(rows)]
    steps_x, steps_y = [], []
    for start, end in zip(edges, edges[1:]):
        steps_x += [relative[start] - 0.5, relative[end - 1] + 0.5]
        steps_y += [rows[start]] * 2
    last = rows[0].item()  # of the keys before the query
    endless = {last, num_buckets - 1} if both else {0, last}
    widths = torch.bincount(rows, minlength=num_buckets).double()
    widths[list(endless)] = REACH
    heights = [math.log10(w) + FOOT if w else math.nan for w in widths.tolist()]
    own = bucket(torch.tensor([offset]), num_buckets, max_distance, both).item()
    sharing = relative[rows == own]
    data = [
        dict(
            type="scatter",
            name="bucket of each offset",
            x=steps_x,
            y=steps_y,
            mode="lines",
            line=dict(color=COLORS["blue"], width=2),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="offsets that share its bucket",
            x=[sharing[0] - 0.5, sharing[-1] + 0.5],
            y=[own, own],
            mode="lines",
            line=dict(color=COLORS["orange"], width=7),
        ),
        dict(
            type="scatter",
            name="this offset",
            x=[offset],
            y=[own],
            mode="markers",
            marker=dict(color=COLORS["red"], size=12, symbol="diamond"),
        ),
        dict(
            type="bar",
            name="offsets in each bucket",
            x=list(range(num_buckets)),
            y=heights,
            yaxis="y2",
            xaxis="x2",
            base=-FOOT,
            marker=dict(color=COLORS["blue"]),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="endless",
            x=sorted(endless),
            y=[math.log10(REACH) + 0.1] * len(endless),
            xaxis="x2",
            yaxis="y2",
            mode="text",
            text=["∞"] * len(endless),
            textfont=dict(size=16),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="its bucket",
            x=[own],
            y=[-0.35],
            xaxis="x2",
            yaxis="y2",
            mode="markers",
            marker=dict(color=COLORS["red"], size=10, symbol="triangle-up"),
            showlegend=False,
        ),
    ]
    layout = dict(
        height=560,
        bargap=0.15,
        xaxis=dict(range=[-REACH - 8, REACH + 8], title=dict(text="offset, key − query"), anchor="y"),
        yaxis=dict(range=[-0.04 * num_buckets, 1.04 * num_buckets], domain=[0.46, 1], title=dict(text="bucket")),
        xaxis2=dict(range=[-1, num_buckets], title=dict(text="bucket"), anchor="y2"),
        yaxis2=dict(
            range=[-0.5, 2.85],
            domain=[0, 0.3],
            title=dict(text="offsets in it"),
            tickvals=[0, 1, 2],
            ticktext=["1", "10", "100"],
        ),
    )
    if own == 0 and not both:
        holds = "offset 0 and all keys behind the query"
    elif own in endless:
        holds = f"all offsets from {_signed(sharing[-1 if offset < 0 else 0].item())} on"
    else:
        holds = "one offset" if len(sharing) == 1 else f"{len(sharing)} offsets"
    key = "the query itself" if offset == 0 else f"a key {abs(offset)} {'before' if offset < 0 else 'behind'} the query"
    return dict(data=data, layout=layout), {"key": key, "bucket": own, "holds": holds}


_SHAPE = ["num_buckets", "max_distance", "direction"]
bucket_staircase = explorable(
    _bucket_staircase,
    id="relative.bucket_staircase",
    title="T5: which offsets share a number?",
    alt="Above, a staircase: the bucket of each offset from 300 keys before the query to 300 behind it. Steps of one "
    "offset near zero, then wider and wider ones, and beyond the maximal distance a single one; a thick bar marks the "
    "offsets that share the bucket of the diamond. Below, on a log scale, how many offsets each bucket holds: "
    "one for the near half, then a straight rise, and no end for the last.",
    readout="{key}: bucket {bucket:d}, which holds {holds}",
    depends={
        "readout.key": ["offset"],
        "bucket of each offset": _SHAPE,
        "offsets in each bucket": _SHAPE,
        "endless": _SHAPE,
        "layout": ["num_buckets"],
    },
    num_buckets=slider([8, 16, 32, 64], label="buckets", default=32),
    max_distance=slider([64, 128, 256], label="maximal distance", default=128),
    direction=slider([CAUSAL, BOTH], label="directions", default=CAUSAL),
    offset=slider(OFFSETS, label="offset, key − query", default=-40, format=_signed),
)


# ------------------------------------------------------------------------------------------------------ the shift trick

QUERIES = 4
STEPS = [
    "0: scores by distance",
    "1: a column of zeros",
    "2: read as rows of Tq",
    "3: the first row dropped",
    "4: read as rows of Tk",
]
PAD = -1


def _shift_trick(step, memory, follow, *, shift=shift):
    queries, keys = QUERIES, QUERIES + memory
    distance = torch.arange(keys - 1, -1, -1).expand(queries, keys)
    cells = 100 * torch.arange(queries)[:, None] + distance  # query and distance in one number
    n = STEPS.index(step)
    pad = torch.full((queries, 1), PAD)
    padded = torch.cat((pad, cells), dim=1)
    narrow = padded.reshape(keys + 1, queries)
    final = (shift(cells.double() + 1) - 1).long()  # the function itself; its pad, 0, becomes -1
    shown = [cells, padded, narrow, narrow[1:], final][n]

    rows, columns = (x.flatten().tolist() for x in torch.meshgrid(*map(torch.arange, shown.shape), indexing="ij"))
    values = shown.flatten().tolist()
    names = ["0" if v == PAD else f"{'ABCD'[v // 100]}{v % 100}" for v in values]

    def lost(value):  # a pad, or a distance at which this query has no key
        return value == PAD or value % 100 > value // 100 + memory

    dead = [i for i, value in enumerate(values) if lost(value)]
    place = names.index(follow) if follow in names else None
    wanted = 100 * "ABCD".index(follow[0]) + int(follow[1:])
    data = [
        dict(
            type="scatter",
            name="score",
            x=columns,
            y=rows,
            mode="markers+text",
            text=names,
            showlegend=False,
            textfont=dict(size=14),
            marker=dict(symbol="square-open", size=31, color=COLORS["blue"]),
        ),
        dict(
            type="scatter",
            name="no key stands there",
            x=[columns[i] for i in dead],
            y=[rows[i] for i in dead],
            mode="markers",
            marker=dict(symbol="x-thin-open", size=24, color=COLORS["gray"], line=dict(width=1.5)),
        ),
        dict(
            type="scatter",
            name="followed",
            x=[] if place is None else [columns[place]],
            y=[] if place is None else [rows[place]],
            mode="markers",
            marker=dict(symbol="square-open", size=33, color=COLORS["orange"], line=dict(width=4)),
        ),
    ]
    side = keys + 2  # room for Tk + 1 rows or columns
    ticks = list(range(side - 1))
    labels = ["key " + str(j) for j in range(keys)] if n == 4 else [""] * len(ticks)
    if n == 0:
        labels = [f"−{d}" if d else "0" for d in range(keys - 1, -1, -1)]
    layout = dict(
        height=470,
        xaxis=dict(
            range=[-0.7, side - 1.3],
            tickvals=ticks[: len(labels)],
            ticktext=labels,
            tickangle=0,
            showgrid=False,
            zeroline=False,
            fixedrange=True,
            title=dict(text=["offset of the column", "", "", "", "key of the column"][n]),
        ),
        yaxis=dict(
            range=[side - 1.3, -0.7],
            tickvals=ticks[:queries] if n in (0, 1, 4) else [],
            ticktext=[f"query {x}" for x in "ABCD"] if n in (0, 1, 4) else [],
            showgrid=False,
            zeroline=False,
            fixedrange=True,
        ),
    )
    shape = f"[{shown.shape[0]}, {shown.shape[1]}]"
    if place is None:
        where = f"{follow} went with the first row" if wanted in cells.flatten().tolist() else f"there is no {follow}"
    else:
        where = f"{follow} is number {place} in memory, row {rows[place]}, column {columns[place]}"
        if n == 4:
            if lost(wanted):
                where += ": left over, the mask must hide it"
            else:
                where += f": key {columns[place]} is {int(follow[1:])} before query {follow[0]}"
    return dict(data=data, layout=layout), {"words": f"{shape}; {where}"}


shift_trick = explorable(
    _shift_trick,
    id="relative.shift_trick",
    title="The shift trick: no score is moved, only the rows are cut anew",
    alt="A table of cells, each named by its query, A to D, and a distance. First every row runs through the same "
    "distances. A column of zeros comes in on the left, the numbers are read as more and shorter rows, the first row "
    "is dropped, and the rest is read as long rows again: now each row ends its run at distance 0 under its own key. "
    "Crosses mark zeros and distances at which the query has no key; at the end they stand right of the diagonal.",
    readout="{words}",
    depends={"score": ["step", "memory"], "no key stands there": ["step", "memory"], "layout": ["step", "memory"]},
    step=slider(STEPS, label="step"),
    memory=slider([0, 1, 2], label="keys in memory before the queries"),
    follow=slider(["A0", "B0", "B3", "C1", "D2", "D3"], label="follow", default="C1"),
)


# -------------------------------------------------------------------------------------------------------- Shaw, clipped

LENGTH = 12


@functools.cache
def _rows_read(clip):
    """The row of Shaw's table for each pair of LENGTH positions, counted from -clip to clip, [T, T]."""
    at = torch.arange(LENGTH)[None]
    return shaw(head_dim=2, clip=clip).bias.rows(At(at, at, None))[0, 0] - clip


def _clipped(clip, sees, offset):
    rows = _rows_read(clip).double()
    visible = torch.ones(LENGTH, LENGTH, dtype=torch.bool)
    if sees == CAUSAL:
        visible = visible.tril()
    own = max(-clip, min(clip, offset))
    same = (visible & (rows == own)).nonzero().T
    cells = list(range(LENGTH))
    table = list(range(-clip, clip + 1))
    counts = [int((visible & (rows == n)).sum()) for n in table]
    data = [
        dict(
            type="heatmap",
            name="row of the table",
            x=cells,
            y=cells,
            z=rows.masked_fill(~visible, math.nan),
            zmin=-8,
            zmax=8,
            colorscale=DIVERGING,
            xgap=1,
            ygap=1,
            colorbar=dict(title=dict(text="row"), len=0.62, y=0.68),
        ),
        dict(
            type="scatter",
            name="pairs that read the same row",
            x=same[1],
            y=same[0],
            mode="markers",
            marker=dict(symbol="circle-open", size=9, color=COLORS["ink"], line=dict(width=2)),
        ),
        dict(
            type="bar",
            name="pairs that read each row",
            x=table,
            y=counts,
            xaxis="x2",
            yaxis="y2",
            showlegend=False,
            text=[str(n) if n else "" for n in counts],
            textposition="outside",
            cliponaxis=False,
            marker=dict(color=COLORS["blue"]),
        ),
        dict(
            type="scatter",
            name="the row of this offset",
            x=[own],
            y=[-7],
            xaxis="x2",
            yaxis="y2",
            mode="markers",
            marker=dict(symbol="triangle-up", size=10, color=COLORS["red"]),
            showlegend=False,
        ),
    ]
    layout = dict(
        height=600,
        xaxis=dict(range=[-0.5, LENGTH - 0.5], anchor="y", title=dict(text="key"), dtick=1, tickangle=0),
        yaxis=dict(range=[LENGTH - 0.5, -0.5], domain=[0.37, 1], title=dict(text="query"), dtick=1),
        xaxis2=dict(range=[-8.7, 8.7], anchor="y2", title=dict(text="row of the table"), dtick=2),
        yaxis2=dict(range=[-14, 78], domain=[0, 0.24], title=dict(text="pairs"), tickvals=[0, 30, 60]),
    )
    pairs = same.shape[1]
    reads = f"offset {_signed(offset)} reads row {_signed(own)}"
    shared = (
        "a row of its own" if abs(offset) < clip else f"and so does every offset from {_signed(own)} on, however far"
    )
    if sees == CAUSAL and offset > 0:
        words = f"offset {_signed(offset)}: hidden by the causal mask; {clip} rows of the table are never read"
    else:
        words = f"{reads}, {shared}; {pairs} of {int(visible.sum())} pairs read it"
    return dict(data=data, layout=layout), {"words": words}


clipped = explorable(
    _clipped,
    id="relative.clipped",
    title="Shaw: beyond the clip all offsets are one",
    alt="A square of queries and keys whose shade says which row of the table a pair reads: a stripe for each offset "
    "around the diagonal, and one flat shade in each far corner, where the offset is clipped. Rings mark the pairs "
    "that read the same row as the offset chosen. Bars below count the pairs of each row: tall at the two ends.",
    readout="{words}",
    depends={
        "row of the table": ["clip", "sees"],
        "pairs that read each row": ["clip", "sees"],
        "the row of this offset": ["clip", "offset"],
    },
    clip=slider([1, 2, 3, 4, 6, 8], label="clip k", default=3),
    sees=slider([CAUSAL, BOTH], label="a query sees", default=BOTH),
    offset=slider(range(-9, 10), label="offset, key − query", default=-5, format=_signed),
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


SHOWN = {
    "KERPLE, log": ("log", COLORS["blue"], "solid"),
    "KERPLE, power": ("power", COLORS["orange"], "dash"),
    "ALiBi, slope r₁": ("alibi", COLORS["green"], "dot"),
}


def _penalties(r1, r2):
    drawn = _distances().long()
    data, near = [], {}
    for name, (form, color, dash) in SHOWN.items():
        added = _penalty(form, r1, r2)
        share = added.softmax(0).cumsum(0)
        near[form] = int((share < 0.95).sum()) + 1
        line = dict(type="scatter", mode="lines", line=dict(color=color, width=2.5, dash=dash))
        steep = added[drawn].clamp(min=-60).masked_fill(added[drawn] < -50, math.nan)
        data += [
            dict(line, name=name, x=drawn + 1, y=steep),
            dict(line, name=f"{name}: weight so far", x=drawn + 1, y=share[drawn], yaxis="y2", showlegend=False),
        ]
    ticks = [1, 4, 16, 64, 256, 1024]
    layout = dict(
        height=520,
        xaxis=dict(
            type="log",
            range=[0, math.log10(FARTHEST + 1)],
            tickvals=ticks,
            ticktext=[str(n) for n in ticks],
            title=dict(text="nearest keys, the query itself the first"),
            anchor="y2",
        ),
        yaxis=dict(range=[-12.5, 0.5], domain=[0.5, 1], title=dict(text="bias")),
        yaxis2=dict(range=[-0.03, 1.03], domain=[0, 0.42], title=dict(text="weight so far")),
    )
    return dict(data=data, layout=layout), near


penalties = explorable(
    _penalties,
    id="relative.penalties",
    title="KERPLE beside ALiBi: how fast does the past fade?",
    alt="Above, three penalties against the number of nearest keys, on a log axis. ALiBi and the power form fall off a "
    "cliff; the logarithmic form is a straight slope. Below, for equal content, the weight that the nearest keys hold "
    "together: it rises early for ALiBi and late for the logarithm.",
    readout="95% of the weight, of 1,024 keys with equal content: log {log:d} keys, power {power:d}, ALiBi {alibi:d}",
    depends={"ALiBi, slope r₁": ["r1"], "ALiBi, slope r₁: weight so far": ["r1"]},
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
        dict(
            type="scatter",
            name="what the network reads",
            x=(distance + 1).log10(),
            y=share,
            mode="lines",
            line=dict(color=COLORS["blue"], width=2.5),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="any query up to L",
            x=(near + 1).log10(),
            y=near_share,
            mode="lines",
            line=dict(color=COLORS["purple"], width=1.5, dash="dot"),
        ),
        dict(
            type="scatter",
            name="this key",
            x=[math.log10(here + 1)],
            y=[own],
            mode="markers",
            marker=dict(color=COLORS["orange"], size=12, symbol="diamond"),
            showlegend=False,
        ),
        dict(
            type="scatter",
            name="threshold L",
            x=[math.log10(threshold + 1)] * 2,
            y=[0, 1],
            mode="lines",
            line=dict(color=COLORS["gray"], width=1.5, dash="dash"),
        ),
    ]
    layout = dict(
        height=380,
        xaxis=dict(
            range=[-0.05, math.log10(DECADES[-1] + 1) + 0.05],
            tickvals=[math.log10(n + 1) for n in DECADES],
            ticktext=[str(n) for n in DECADES],
            title=dict(text="distance i − j"),
        ),
        yaxis=dict(range=[-0.03, 1.05], title=dict(text="input of f")),
    )
    kind = "relative: only the distance counts" if query <= threshold else "beyond L: the query's position counts too"
    words = f"query at {query}, key {here} before it: f reads {own:.3f}; {kind}"
    return dict(data=data, layout=layout), {"words": words}


shares = explorable(
    _shares,
    id="relative.shares",
    title="FIRE: what share of the past is this distance?",
    alt="The input of FIRE's network against distance, on a log axis: a curve that rises from 0 at the query. Up to "
    "the threshold, a dashed upright line, the curve lies on a dotted one, the same for every query. Beyond it the "
    "curve is pressed flatter the later the query stands, and always ends at 1.",
    readout="{words}",
    depends={
        "what the network reads": ["query", "threshold", "c"],
        "any query up to L": ["threshold", "c"],
        "threshold L": ["threshold"],
    },
    query=slider([4, 16, 64, 128, 256, 512, 1024, 4096], label="query position i", default=64),
    threshold=slider([16, 128, 512], label="threshold L", default=128),
    c=slider([0.02, 0.1, 1.0], label="c", default=0.1),
    back=slider([0, 1, 4, 16, 64, 256], label="distance of the key", default=16),
)
