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
from posenc.lab.figures.parts import above, label, level, signed, thousands, upright

# ------------------------------------------------------------------------------------------- Transformer-XL, four terms

TOKENS, HEADS, LANES, WIDTH = 8, 2, 8, 16
TEXTS = {"different": list(range(TOKENS)), "in turn": [0, 1] * 4, "the same": [2] * TOKENS}
TERMS = {"a": "both words", "b": "query, distance", "c": "key alone", "d": "distance alone"}
CAPTIONS = {  # what stands above each map
    "a": "<b>a</b> query times key: as the words are",
    "b": "<b>b</b> query and distance: a curve in each row",
    "c": "<b>c</b> the key alone: columns of one color",
    "d": "<b>d</b> the distance alone: diagonals of one color",
    "sum": "<b>a + b + c + d</b>, over √D",
}
SPAN = [-4.4, 5.5]  # as far as a pair's terms reach
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
    diagonal = cells[: max(0, TOKENS - query + key)] if term == "d" else []
    data = [
        dict(
            type="heatmap",
            name="map",
            x=cells,
            y=cells,
            z=maps[term],
            zmin=-9,
            zmax=9,
            colorscale=DIVERGING,
            xgap=1,
            ygap=1,
            showscale=False,
            hovertemplate=f"query %{{y}}, key %{{x}}: {term} %{{z:.2f}}<extra></extra>",
        ),
        dict(
            type="heatmap",
            name="keys ahead",  # under a veil: the mask hides them
            x=cells,
            y=cells,
            z=torch.zeros(TOKENS, TOKENS).masked_fill(~hidden, math.nan),
            colorscale=[[0, DIVERGING[2][1]], [1, DIVERGING[2][1]]],
            opacity=0.65,
            showscale=False,
            hoverinfo="skip",
        ),
        dict(
            type="scatter",
            name="pair",
            x=[-0.5, TOKENS - 0.5, None, key, key, None, key],
            y=[query, query, None, -0.5, TOKENS - 0.5, None, query],
            mode="lines+markers",
            line=dict(color=COLORS["ink"], width=1.5),
            marker=dict(color=COLORS["ink"], size=[0, 0, 0, 0, 0, 0, 7]),
            hoverinfo="skip",
        ),
        dict(
            type="scatter",
            name="its diagonal",
            x=diagonal,
            y=[n + query - key for n in diagonal],
            mode="lines",
            line=dict(color=COLORS["ink"], width=1.5, dash="dot"),
            hoverinfo="skip",
        ),
        dict(
            type="bar",
            name="terms of the pair",
            orientation="h",
            y=rows,
            x=parts,
            base=ends - parts,
            width=0.6,
            xaxis="x2",
            yaxis="y2",
            marker=dict(color=[COLORS["blue" if part < 0 else "orange"] for part in parts]),  # as in the map
            hovertemplate="term %{y}: %{x:.2f}<extra></extra>",
        ),
        dict(
            type="bar",
            name="sum of the pair",
            orientation="h",
            y=[len(TERMS)],
            x=[total[query, key]],
            width=0.6,
            xaxis="x2",
            yaxis="y2",
            marker=dict(color=COLORS["green"], pattern=dict(shape="/")),
            hovertemplate="sum: %{x:.2f}<extra></extra>",
        ),
        dict(
            type="scatter",
            name="from term to term",
            x=[x for end in ends.tolist() for x in (end, end, None)],
            y=[y for n in rows for y in (n - 0.3, n + 1.3, None)],
            xaxis="x2",
            yaxis="y2",
            mode="lines",
            line=dict(color=COLORS["gray"], width=1),
            hoverinfo="skip",
        ),
        label(
            "what colors mean",
            0,
            1,
            "orange: above 0<br>blue: below 0<br>faded: keys ahead",
            COLORS["ink"],
            "bottom right",
            12,
            xaxis="x3",
            yaxis="y3",
        ),
    ]
    ticks = dict(tickvals=[0, TOKENS - 1], ticktext=[f"{moved:,}", f"{moved + TOKENS - 1:,}"], tickangle=0)
    bare = dict(showgrid=False, zeroline=False)
    layout = dict(
        height=450,
        showlegend=False,
        margin=dict(l=62, r=10, t=24, b=44),
        xaxis=dict(bare, range=[-0.5, TOKENS - 0.5], domain=[0, 0.52], title=dict(text="key", standoff=2), **ticks),
        yaxis=dict(
            bare,
            range=[TOKENS - 0.5, -0.5],
            title=dict(text="query", standoff=2),
            **ticks | dict(tickangle=-90 if moved else 0),
        ),
        xaxis2=dict(
            range=SPAN,
            domain=[0.71, 1],
            anchor="y2",
            tickvals=[-4, 0, 4],
            ticktext=["−4", "0", "4"],
            title=dict(text="part of the score", standoff=2),
            showgrid=False,
        ),
        yaxis2=dict(
            bare,
            range=[4.5, -0.5],
            domain=[0.34, 1],
            anchor="x2",
            tickvals=[*rows, len(TERMS)],
            ticktext=[*(f"{words} <b>{name}</b>" for name, words in TERMS.items()), "<b>sum</b>"],
        ),
        xaxis3=dict(range=[0, 1], domain=[0.71, 1], anchor="y3", visible=False),
        yaxis3=dict(range=[0, 1], domain=[0, 0.16], anchor="x3", visible=False),
        meta=dict(
            phone=dict(  # the bars below, words on colors beside the map
                margin=dict(l=44, t=20, b=34),
                xaxis=dict(
                    domain=[0, 0.5], title=dict(text=""), ticktext=[f"key {moved:,}", f"{moved + TOKENS - 1:,}"]
                ),
                yaxis=dict(domain=[0.44, 1], tickangle=0),
                xaxis2=dict(domain=[0.22, 1]),
                yaxis2=dict(domain=[0, 0.33]),
                xaxis3=dict(domain=[0.54, 1]),
                yaxis3=dict(domain=[0.6, 0.98]),
            )
        ),
        annotations=[above(CAPTIONS[term])],
    )
    said = {"query": query, "key": key, "sum": total[query, key].item(), "weight": weights[query, key].item()}
    return dict(data=data, layout=layout), said


four_terms = explorable(
    _four_terms,
    id="relative.four_terms",
    title="Transformer-XL: one score, four terms",
    alt="At the left a square map of one term, queries down and keys across, with a cross on one pair, which can be "
    "dragged. Term a is irregular. In term b every row is a smooth curve of the distance, another one for each "
    "query. In term c all rows are equal: upright stripes. In term d all diagonals are equal: slanted stripes, "
    "and a dotted line runs along the pair's own. The keys ahead of a query are faded. Orange is above zero, blue "
    "below. At the right, bars for the four terms of the pair, each from where the one above ends, over √D; the "
    "last one is their sum. Moving all positions changes the numbers on the axes and no cell.",
    readout="query {query:d}, key {key:d} · sum {sum:.2f} · weight after softmax {weight:.3f}",
    handles={"pair": ("query", "key")},
    depends={
        "map": ["text", "term"],
        "keys ahead": [],
        "pair": ["query", "key"],
        "its diagonal": ["term", ("query", "-key")],
        "terms of the pair": ["text", "query", "key"],
        "sum of the pair": ["text", "query", "key"],
        "from term to term": ["text", "query", "key"],
        "layout": ["term", "moved"],
        "readout": ["text", "query", "key"],
    },
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
        shown = [(max(a, -edge), min(b, edge)) for _, _, a, b in steps]
        tiles = [(a, b) for a, b in shown if a < b]
        return dict(
            type="bar",
            name=name,
            orientation="h",
            base=[a for a, _ in tiles],
            x=[b - a for a, b in tiles],
            y=[0] * len(tiles),
            xaxis="x2",
            yaxis="y2",
            width=tall,
            marker=dict(color=color, line=dict(width=0.02, color=color)),  # without a line plotly widens thin tiles
            hoverinfo="skip",
        )

    cut = min(1.25 * max_distance, REACH)  # the tape ends there: all farther keys share one tile
    edge = 1.02 * cut
    x, y = stairs(steps)
    own_x, own_y = stairs(taken)
    if len(taken) > 1:
        own_x, own_y = [*own_x[:2], None, *own_x[2:]], [*own_y[:2], None, *own_y[2:]]
    here = _doubling(-distance)
    sides = [-1, 1] if both else [-1]
    shared = [rows[0], rows[-1]]
    data = [
        dict(
            type="scatter",
            name="bucket of each offset",
            x=x,
            y=y,
            mode="lines",
            line=dict(color=COLORS["blue"], width=2.5),
            hoverinfo="skip",
        ),
        dict(
            type="scatter",
            name="offsets that share its bucket",
            x=own_x,
            y=own_y,
            mode="lines",
            line=dict(color=COLORS["orange"], width=8),
            hoverinfo="skip",
        ),
        upright("the key", here, -0.5, 1.14 * num_buckets, COLORS["ink"], 1.5, "dot"),
        tape("odd buckets", [step for step in steps if step[0] % 2], PALE, 0.9),
        tape("even buckets", [step for step in steps if not step[0] % 2], COLORS["blue"], 1),
        tape("its bucket", taken, COLORS["orange"], 1.2),
        dict(
            type="scatter",
            name="the key on the tape",
            x=[-min(distance, cut)],
            y=[0.95],
            xaxis="x2",
            yaxis="y2",
            mode="markers",
            marker=dict(color=COLORS["ink"], size=12, symbol="triangle-down"),
            hoverinfo="skip",
        ),
        label(
            "all farther",
            [side * cut for side in sides],
            [0] * len(sides),
            [f"← {shared[0]}", f"{shared[1]} →"] if both else [f"← all: {shared[0]}"],
            COLORS["ink"],
            ["middle right", "middle left"][: len(sides)],
            halo=True,
            xaxis="x2",
            yaxis="y2",
        ),
    ]
    marks = [0, 1, 4, 16, 64, 256]
    marks = [*(-n for n in marks[:0:-1]), *(marks if both else [0])]
    few = [n for n in marks if abs(n) != 1]
    cropped = f", cut at {'±' if both else '−'}{cut:g}" if cut < REACH else ""
    far = [n for n in range(-REACH, REACH + 1, 100 if both else 50) if abs(n) <= cut and (both or n <= 0)]
    end, right = _doubling(REACH), 1 if both else 0.04
    layout = dict(
        height=460,
        barmode="overlay",
        showlegend=False,
        margin=dict(t=10),
        xaxis=dict(
            range=[-1.02 * end, right * 1.02 * end],
            tickvals=[_doubling(n) for n in marks],
            ticktext=[signed(n) for n in marks],
            title=dict(text="key − query, each doubling as wide"),
            anchor="y",
        ),
        yaxis=dict(
            range=[-0.04 * num_buckets, 1.18 * num_buckets],
            domain=[0, 0.62],
            tickvals=list(range(0, num_buckets, num_buckets // 4)),
            title=dict(text="bucket"),
        ),
        xaxis2=dict(
            range=[-edge, right * edge],
            tickvals=far,
            ticktext=[signed(n) for n in far],
            title=dict(text=f"key − query, one tile a bucket{cropped}", standoff=4),
            anchor="y2",
        ),
        yaxis2=dict(range=[-0.5, 1.4], domain=[0.84, 1], showticklabels=False, showgrid=False, zeroline=False),
        meta=dict(phone=dict(xaxis=dict(tickvals=[_doubling(n) for n in few], ticktext=[signed(n) for n in few]))),
    )
    if own[2] <= -REACH:
        holds = f"one bucket from {-own[1][-1]} on"
    else:
        holds = f"{len(own[1])} distances share it" if len(own[1]) > 1 else "its own bucket"
    words = {
        "back": f"{signed(-distance)}: bucket {own[0]}",
        "ahead": f"{signed(distance)}: bucket {taken[-1][0]}" if both else "keys ahead hidden",
        "holds": holds,
    }
    return dict(data=data, layout=layout), words


_SHAPE = ["num_buckets", "max_distance", "direction"]
bucket_staircase = explorable(
    _bucket_staircase,
    id="relative.bucket_staircase",
    title="T5: which offsets share a number?",
    alt="Above, a tape of tiles up to the query, one tile a bucket: hair-thin tiles near the query, then wider and "
    "wider ones, and from near the maximal distance on a single one without end. Below, the same as a staircase, on an "
    "axis on which each doubling is as wide: near the query every distance has a step of its own, farther out all "
    "steps are equally wide. Drag the dotted line: tile and step turn orange that hold the distances of its bucket.",
    readout="{back} · {ahead} · {holds}",
    handles={"the key": "distance", "the key on the tape": "distance"},
    depends={
        "bucket of each offset": _SHAPE,
        "odd buckets": _SHAPE,
        "even buckets": _SHAPE,
        "the key": ["distance", "num_buckets"],
        "the key on the tape": ["distance", "max_distance"],
        "all farther": _SHAPE,
        "layout": _SHAPE,
    },
    num_buckets=slider([8, 16, 32, 64], label="buckets", default=32),
    max_distance=slider([64, 128, 256], label="maximal distance", default=128),
    direction=slider([CAUSAL, BOTH], label="a query sees", default=CAUSAL, format=lambda d: d.split()[0]),
    distance=slider(DISTANCES, label="distance of the key", default=40),
)


# ------------------------------------------------------------------------------------------------------ the shift trick

QUERIES = 4
STEPS = ["by distance", "zeros come in", "shorter rows", "drop the first", "long rows again"]
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
    start = queries if step > 2 else 0  # the first row is skipped where it lies
    wanted = 100 * "ABCD".index(followed[0]) + int(followed[1:])
    says = "4 dropped, the rest in rows" if start else "memory, cut into rows"
    strip, floor = 22, 50  # over the table, its memory: a cell is a quarter of a column wide

    def along(n):
        return (n + 0.5) / queries - 0.5

    def in_memory(name, numbers, color, **look):
        return dict(
            type="bar",
            name=name,
            x=[along(start + n) for n in numbers],
            y=[floor - strip] * len(numbers),
            base=strip,
            width=0.92 / queries,
            marker=dict(color=color, **look),
            yaxis="y2",
            hoverinfo="skip",
        )

    here = [] if place is None else [place]
    ends = [along(start + n * shown.shape[1] - 0.5) for n in range(len(shown) + 1)]

    def tiles(name, letter, color):
        r"""A frame around each score of a query for which there is a key."""
        mine = [i for i, n in enumerate(names) if n[0] == letter and i not in dead]
        return dict(
            type="scatter",
            name=name,
            x=[x for i in mine for x in (*(columns[i] + 0.45 * across for across, _ in FRAME), None, columns[i], None)],
            y=[y for i in mine for y in (*(rows[i] + 0.42 * down for _, down in FRAME), None, rows[i], None)],
            mode="lines+text",
            text=[word for i in mine for word in (*[""] * (len(FRAME) + 1), names[i], "")],
            textfont=dict(size=14, color=COLORS["ink"]),
            line=dict(color=COLORS[color], width=3),
            hoverinfo="skip",
        )

    data = [
        label(
            "no key stands there",
            [columns[i] for i in dead],
            [rows[i] for i in dead],
            [names[i] for i in dead],
            COLORS["gray"],
            "middle center",
            12,
        ),
        *(tiles(f"query {letter}", letter, color) for letter, color in LOOKS.items()),
        in_memory(
            "memory",
            range(len(names)),
            [COLORS[LOOKS.get(name[0], "gray")] for name in names],
            opacity=0.45,
            line=dict(width=0),
        ),
        in_memory("followed, in memory", here, COLORS["ink"]),
        in_memory("dropped", range(-start, 0), "rgba(107, 114, 128, 0.1)", line=dict(width=1, color=COLORS["gray"])),
        dict(
            type="scatter",
            name="where a row ends",
            x=[x for end in ends for x in (end, end, None)],
            y=[strip - 5, floor + 5, None] * len(ends),
            yaxis="y2",
            mode="lines",
            line=dict(color=COLORS["ink"], width=2),
            hoverinfo="skip",
        ),
        label(
            "its name in memory",
            [along(start + n) for n in here],
            [strip - 1] * len(here),
            [f"<b>{followed}</b>"] * len(here),
            COLORS["ink"],
            "top center",
            yaxis="y2",
        ),
        label("what the strip says", -0.5, 66, says, COLORS["ink"], "middle right", 12, yaxis="y2"),
        label("what has no frame", keys + 0.5, 66, "no frame: no key", COLORS["gray"], "middle left", 12, yaxis="y2"),
        dict(
            type="scatter",
            name="followed",
            x=[columns[n] for n in here],
            y=[rows[n] for n in here],
            mode="markers",
            marker=dict(symbol="square", size=30, color="rgba(107, 114, 128, 0.15)"),
            hoverinfo="skip",
        ),
    ]
    labels = {0: [f"{d} back" for d in range(keys - 1, -1, -1)], 4: [f"key {j}" for j in range(keys)]}.get(step, [])
    heading = [
        "scores by distance",
        "a column of zeros comes in",
        f"the same line, in rows of {queries}",
        "the first row is dropped",
        f"in rows of {keys}: each under its key",
    ][step]
    named = step in (0, 1, 4)
    plain = dict(showgrid=False, zeroline=False, fixedrange=True)
    layout = dict(
        height=420,
        showlegend=False,
        margin=dict(l=28, r=10, t=30, b=6),
        barmode="overlay",
        xaxis=dict(
            plain,
            side="top",
            anchor="y",
            range=[-0.6, keys + 0.6],
            tickvals=list(range(len(labels))),
            ticktext=labels,
            tickangle=0,
            automargin=False,
        ),
        yaxis=dict(
            plain,
            range=[keys + 0.6, -0.6],
            domain=[0, 0.73],
            tickvals=list(range(queries)) if named else [],
            ticktext=[f"<b>{letter}</b>" for letter in LOOKS] if named else [],
            automargin=False,
        ),
        yaxis2=dict(plain, range=[76, 0], domain=[0.8, 1], visible=False),
        annotations=[
            dict(
                x=0,
                y=1,
                xref="paper",
                yref="paper",
                xanchor="left",
                yanchor="bottom",
                showarrow=False,
                font=dict(size=17),
                text=f"<b>{step}</b>  {heading}",
            )
        ],
    )
    if place is not None:
        where = f"{followed}: row {rows[place]}, column {columns[place]}"
        memory_place = f"number {start + place:2d} in memory"
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
    alt="A table of tiles, each named by its query, A to D, and a distance; over it stands what the step did. First "
    "every row runs through the same distances. A column of zeros comes in on the left, the numbers are read as "
    "more and shorter rows, the first row is dropped, and the rest is read as long rows again: now each row ends "
    "its run at distance 0 under its own key. Over the table, a strip of the same cells as they lie in memory: "
    "upright marks, where rows end, move from step to step, and the black cell, the followed one, stays; what was "
    "dropped stays as empty cells. Zeros and distances at which the query has no key have no frame; at the end "
    "they stand right of the diagonal. Play the steps; drag the filled tile to follow another.",
    readout="{shape} · {where} · {memory}",
    handles={"followed": "follow"},
    depends={
        **{name: ["step", "memory"] for name in ("layout", *(f"query {letter}" for letter in LOOKS))},
        **{name: ["step", "memory"] for name in ("no key stands there", "memory", "where a row ends")},
        "dropped": ["step"],
        "what the strip says": ["step"],
        "what has no frame": ["memory"],
    },
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
            showscale=False,
            hovertemplate="query %{y}, key %{x}: reads row %{z}<extra></extra>",
        ),
        dict(
            type="scatter",
            name="pairs that read the same row",
            x=same[1],
            y=same[0],
            mode="markers",
            marker=dict(symbol="circle-open", size=7, color=COLORS["ink"], line=dict(width=1.5)),
            hoverinfo="skip",
        ),
        dict(
            type="scatter",
            name="the pair",
            x=[key],
            y=[query],
            mode="markers",
            marker=dict(symbol="circle", size=11, color=COLORS["ink"]),
            hoverinfo="skip",
        ),
        dict(
            type="heatmap",
            name="shade of each row",
            x=table,
            y=[0],
            z=[table],
            zmin=-8,
            zmax=8,
            colorscale=DIVERGING,
            xgap=1,
            xaxis="x2",
            yaxis="y3",
            showscale=False,
            hoverinfo="skip",
        ),
        dict(
            type="bar",
            name="pairs that read each row",
            x=table,
            y=counts,
            xaxis="x2",
            yaxis="y2",
            text=[str(n) if n else "" for n in counts],
            textposition="outside",
            textfont=dict(size=13),
            textangle=0,
            cliponaxis=False,
            marker=dict(color=COLORS["gray"]),
            hovertemplate="row %{x}: read by %{y} pairs<extra></extra>",
        ),
        dict(
            type="scatter",
            name="the row of this offset",
            x=[own],
            y=[0],
            xaxis="x2",
            yaxis="y3",
            mode="markers",
            marker=dict(symbol="circle", size=11, color=COLORS["ink"]),
            hoverinfo="skip",
        ),
    ]
    layout = dict(
        height=470,
        showlegend=False,
        margin=dict(t=8),
        xaxis=dict(range=[-0.5, LENGTH - 0.5], anchor="y", title=dict(text="key", standoff=2), dtick=1, tickangle=0),
        yaxis=dict(range=[LENGTH - 0.5, -0.5], domain=[0.51, 1], title=dict(text="query"), dtick=2),
        xaxis2=dict(
            range=[-clip - 0.7, clip + 0.7],
            anchor="y3",
            title=dict(text="row of the table", standoff=2),
            tickvals=table[:: 1 + (clip > 4)],
        ),
        yaxis2=dict(range=[0, 1.35 * most], domain=[0.12, 0.33], title=dict(text="pairs"), showticklabels=False),
        yaxis3=dict(range=[-0.5, 0.5], domain=[0, 0.1], anchor="x2", tickvals=[], zeroline=False),
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


_OFFSET = [("key", "-query")]
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
        "layout": ["clip"],
        "pairs that read the same row": ["clip", "sees", *_OFFSET],
        "the pair": ["query", "key"],
        "pairs that read each row": ["clip", "sees"],
        "shade of each row": ["clip"],
        "the row of this offset": ["clip", *_OFFSET],
        "readout": ["clip", "sees", *_OFFSET],
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
HELD = {"log": 255, "power": 2, "alibi": 5}  # where a curve can be taken: the distance


def _penalties(r1, r2):
    drawn = _distances().long()
    data, near = [], {}
    for name, (form, color, dash) in SHOWN.items():
        added = _penalty(form, r1, r2)
        if form in HELD:
            here = HELD[form]
            data.append(
                dict(
                    type="scatter",
                    name=f"{name}: take it",
                    x=[here + 1],
                    y=[added[here]],
                    mode="markers",
                    marker=dict(
                        color=COLORS[color],
                        size=11,
                        symbol={"log": "circle", "power": "diamond", "alibi": "square"}[form],
                    ),
                    showlegend=False,
                    hoverinfo="skip",
                )
            )
        share = added.softmax(0).cumsum(0)
        near[form] = int((share < 0.95).sum()) + 1
        line = dict(type="scatter", mode="lines", line=dict(color=COLORS[color], width=2.5, dash=dash))
        steep = added[drawn].clamp(min=-60).masked_fill(added[drawn] < -50, math.nan)
        data += [
            dict(line, name=name, x=drawn + 1, y=steep, hovertemplate="%{x} keys back: bias %{y:.2f}<extra></extra>"),
            dict(
                line,
                name=f"{name}: weight so far",
                x=drawn + 1,
                y=share[drawn],
                yaxis="y2",
                showlegend=False,
                hovertemplate="the nearest %{x} hold %{y:.3f}<extra></extra>",
            ),
        ]
    data.append(level("nearly all", 0.95, 1, FARTHEST + 1, COLORS["gray"], 1, "dot", yaxis="y3"))
    ticks = [1, 4, 16, 64, 256, 1024]
    whole = dict(range=[-0.03, 1.05], domain=[0, 0.42])
    layout = dict(
        height=460,
        xaxis=dict(
            type="log",
            range=[0, math.log10(FARTHEST + 1)],
            tickvals=ticks,
            ticktext=[str(n) for n in ticks],
            title=dict(text="nearest keys, the query itself the first"),
            anchor="y2",
        ),
        yaxis=dict(range=[-13.4, 0.7], domain=[0.5, 1], title=dict(text="bias")),
        yaxis2=dict(whole, tickvals=[0, 0.5, 1], ticktext=["0", "50%", "100%"], title=dict(text="weight so far")),
        yaxis3=dict(
            whole, overlaying="y2", side="right", anchor="x", tickvals=[0.95], ticktext=["95%"], showgrid=False
        ),
    )
    return dict(data=data, layout=layout), near


penalties = explorable(
    _penalties,
    id="relative.penalties",
    title="KERPLE beside ALiBi: how fast does the past fade?",
    alt="Above, three penalties against the number of nearest keys, on a log axis. ALiBi and the power form fall off "
    "a cliff; the logarithmic form is a straight slope. Below, for equal content, the weight that the nearest "
    "keys hold together, with a dotted line at 95%: it rises early for ALiBi and late for the logarithm. Three "
    "marks can be dragged: those on the curves of the logarithm and of the power set r₂, that on ALiBi's sets r₁, "
    "which all three share.",
    readout="95% of the weight: log {log:d} keys · power {power:d} keys · ALiBi {alibi:d} keys",
    handles={"log: take it": "r2", "power: take it": "r2", "ALiBi: take it": "r1"},
    depends={"ALiBi": ["r1"], "ALiBi: weight so far": ["r1"], "ALiBi: take it": ["r1"]},
    r1=slider([0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0], label="r₁, slope", default=1.0),
    r2=slider([0.05, 0.1, 0.25, 0.5, 1.0, 1.5, 2.0], label="r₂, bend", default=0.5),
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

    def read_by(i):  # the share of the key in the hand, for a query at i
        encoding = fire(1, threshold=float(threshold)).double()
        encoding.bias.c.data.fill_(c)
        with torch.no_grad():
            return encoding.bias.share(At(torch.tensor([[i]]), torch.tensor([[i - here]]), None), torch.float64).item()

    first = max(threshold, here)  # the earliest query past the threshold that has this key, or the last before it
    own, early = read_by(query), read_by(first)
    falls = early - own > 0.005
    last = math.log10(query + 1)
    ends_right = last > 2.5  # then its name has no room at the right

    def curve(name, x, y, color, width, dash="solid"):
        line = dict(color=COLORS[color], width=width, dash=dash)
        return dict(type="scatter", name=name, x=x, y=y, mode="lines", hoverinfo="skip", line=line)

    def strip(name, row, share, color, **look):
        return dict(
            type="bar",
            name=name,
            orientation="h",
            x=[share],
            y=[row],
            width=0.62,
            marker=dict(color=color, **look),
            xaxis="x2",
            yaxis="y2",
            hoverinfo="skip",
        )

    data = [
        *(
            strip(f"the past of {name}", row, 1, "rgba(107, 114, 128, 0.12)", line=dict(color=COLORS["gray"], width=1))
            for row, name in enumerate(("an early query", "this query"))
        ),
        strip("share for an early query", 0, early, COLORS["purple"], pattern=dict(shape="/", size=6)),
        strip("share for this query", 1, own, COLORS["blue"]),
        label(
            "shares in numbers",
            [1.01, 1.01],
            [0, 1],
            [f"<b>{early:.2f}</b>", f"<b>{own:.2f}</b>"],
            [COLORS["purple"], COLORS["blue"]],
            "middle right",
            14,
            xaxis="x2",
            yaxis="y2",
        ),
        label(
            "what a frame is",
            1,
            1.72,
            "frame: the whole past = 1",
            COLORS["gray"],
            "middle left",
            12,
            xaxis="x2",
            yaxis="y2",
        ),
        curve("this query", (distance + 1).log10(), share, "blue", 2.5),
        curve("any up to L′", (near + 1).log10(), near_share, "purple", 2, "dot"),
        upright("threshold L′", math.log10(threshold + 1), 0, 1, COLORS["gray"], 1.5, "dash"),
        dict(
            type="scatter",
            name="how far it falls",
            x=[math.log10(here + 1)] * 2 if early - own > 0.12 else [],  # else there is no room for an arrow
            y=[early, own + 0.08] if early - own > 0.12 else [],  # clear of the diamond's ring
            mode="lines+markers",
            line=dict(color=COLORS["orange"], width=3),
            marker=dict(symbol="arrow", angleref="previous", size=[0, 12], color=COLORS["orange"], opacity=1),
            hoverinfo="skip",
        ),
        dict(
            type="scatter",
            name="the key",
            x=[math.log10(here + 1)],
            y=[own],
            mode="markers",
            marker=dict(color=COLORS["orange"], size=12, symbol="diamond"),
            hoverinfo="skip",
        ),
        dict(
            type="scatter",
            name="first key",
            x=[last],
            y=[share[-1]],
            mode="markers",
            marker=dict(color=COLORS["blue"], size=11, symbol="square"),
            hoverinfo="skip",
        ),
        label(
            "its name",
            last + (0.05 if ends_right else 0.2),
            share[-1].item() + (0.12 if ends_right else 0),
            f"query {query}",
            COLORS["blue"],
            "top left" if ends_right else "middle right",
            halo=True,
        ),
        label(
            "the early ones", 0.03, 1.44, f"··· any query up to L′ = {threshold}", COLORS["purple"], "middle right", 12
        ),
    ]
    bare = dict(showgrid=False, zeroline=False)
    heading = above("") | dict(xshift=-74)
    said = "later query, smaller share" if falls else "the same share"
    layout = dict(
        height=430,
        showlegend=False,
        barmode="overlay",
        margin=dict(l=88, t=26),
        xaxis=dict(
            range=[-0.25, math.log10(DECADES[-1] + 1) + 0.3],
            tickvals=[math.log10(n + 1) for n in DECADES],
            ticktext=[str(n) for n in DECADES],
            title=dict(text="how far back a key is", standoff=2),
            anchor="y",
        ),
        yaxis=dict(
            range=[-0.13, 1.55], domain=[0, 0.69], tickvals=[0, 0.5, 1], title=dict(text="its share", standoff=4)
        ),
        xaxis2=dict(bare, range=[0, 1.2], anchor="y2", showticklabels=False),
        yaxis2=dict(
            bare,
            range=[2, -0.5],
            domain=[0.72, 1],
            tickvals=[0, 1],
            ticktext=[f"query {first}", f"query {query}"],
            ticks="outside",  # clear of the bars
            tickcolor="rgba(0, 0, 0, 0)",
        ),
        annotations=[heading | dict(text=f"◆ {here} back: <b>{said}</b> of the past")],
        meta=dict(phone=dict(margin=dict(t=22), annotations=[heading | dict(text=f"◆ {here} back: <b>{said}</b>")])),
    )
    kind = "depends on distance alone" if query <= threshold else "depends on position too"
    return dict(data=data, layout=layout), {"own": own, "here": here, "kind": kind}


shares = explorable(
    _shares,
    id="relative.shares",
    title="FIRE: what share of the past is this distance?",
    alt="Above, two strips, each the whole past of a query: what share of it, on a log scale, the distance of one "
    "key is. For a query at the threshold it is larger than for a later one. Below, the share against distance: "
    "a curve that rises from 0 at the query. Up to the threshold, a dashed upright line, it lies on a dotted "
    "one, the same for every query. Beyond it the curve is pressed flatter the later the query stands, and "
    "always ends at 1; an arrow shows how far the share of the key has fallen, at the same distance. Drag the "
    "square, the first key of the text, and the query moves; the diamond, and the key does; the dashed line, "
    "and the threshold does.",
    readout="share {own:.3f} · key {here:d} back · {kind}",
    handles={"the key": "back", "first key": "query", "threshold L′": "threshold"},
    depends={
        "the past of an early query": [],
        "the past of this query": [],
        "share for an early query": ["query", "threshold", "c", "back"],
        "this query": ["query", "threshold", "c"],
        "first key": ["query", "threshold", "c"],
        "its name": ["query", "threshold", "c"],
        "any up to L′": ["threshold", "c"],
        "threshold L′": ["threshold"],
        "the early ones": ["threshold"],
        "layout": ["query", "threshold", "c", "back"],
    },
    query=slider([4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096], label="query position i", default=512, play=True),
    threshold=slider([16, 128, 512], label="threshold L′", default=128),
    c=slider([0.02, 0.1, 1.0], label="bend c", default=0.1),
    back=slider([0, 1, 2, 4, 8, 16, 32, 64, 128, 256], label="distance of the key", default=64, at_most="query"),
)
