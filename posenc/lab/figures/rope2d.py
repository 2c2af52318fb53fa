r"""The explorables of the chapter *Two axes and more*."""

import math

import torch

from posenc.lab.explore import COLORS, DIVERGING, explorable, slider
from posenc.lab.figures.parts import arrow, label
from posenc.rotate.mrope import dealt, positions_for
from posenc.rotate.rope2d import angles, axial, steps

ALONE = {"hoverinfo": "skip"}

# ------------------------------------------------------------------------------------------------------ the score map

SIDE = 9  # rows and columns of the picture
LANES = 8  # so two magnitudes, two pairs of lanes each
MIXED_BASE = 10.0  # of the frequencies, where mixed starts
DIRECTIONS = [0, 15, 45, 70]  # degrees
ALL = "all, averaged"
PAIRS = [f"pair {i}" for i in range(LANES // 2)] + [ALL]
DRAWN = (("how", " turns"), ("the number of", ""))  # of each pair


def frequencies(direction):
    """Frequencies [2, 4] of (row, column): axial ones, whose two axes are turned by some degrees."""
    a = math.radians(direction)
    frame = torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]], dtype=torch.float64)
    return frame @ axial(LANES, base=MIXED_BASE, dtype=torch.float64)


def offsets(side):
    """Every offset (row, column) within a square picture: [(2 side - 1)^2, 2]."""
    line = torch.arange(1 - side, side)
    return torch.cartesian_prod(line, line)


def score_map(pairs, direction, *, angles=angles):
    """cos of the angle between equal contents at each offset, of one pair or the mean of all: [2 side - 1] squared."""
    scores = angles(offsets(SIDE), frequencies(direction)).cos()
    scores = scores.mean(-1) if pairs == ALL else scores[:, PAIRS.index(pairs)]
    return scores.view(2 * SIDE - 1, 2 * SIDE - 1)


def _beside(turn):
    """Where the number of a pair stands, beside its arrow in the drawing: across, down."""
    down, across = turn
    if math.hypot(*turn) > 0.5:
        return 1.22 * across, 1.22 * down
    return across + 0.7 * down, down - 0.7 * across  # a right angle off


def _map(row, column, pairs, direction, *, angles=angles):
    z = score_map(pairs, direction, angles=angles)
    line = list(range(1 - SIDE, SIDE))
    diagonals = {"↘": 1, "↙": -1}
    turns = frequencies(direction).T.tolist()  # of each pair: a row, a column
    looks = [  # of a number, of its arrow: those not chosen are pale
        (COLORS["blue"], COLORS["blue"], 4) if pairs in (name, ALL) else (COLORS["gray"], "rgba(128, 128, 128, 0.5)", 3)
        for name in PAIRS[:-1]
    ]
    data = [
        dict(
            type="heatmap",
            name="score",
            x=[column + d for d in line],
            y=[row + d for d in line],
            z=z,
            zmin=-1,
            zmax=1,
            zmid=0,
            colorscale=DIVERGING,
            xgap=1,
            ygap=1,
            colorbar=dict(
                orientation="h",
                x=0.855,
                y=0.08,
                len=0.29,
                thickness=14,
                tickvals=[-1, 0, 1],
                ticktext=["−1", "0", "1"],
                title=dict(text="score", side="top"),
            ),
            hovertemplate="row %{y}, column %{x}: score %{z:.2f}<extra></extra>",
        ),
        dict(
            type="scatter",
            name="the query",
            x=[column],
            y=[row],
            mode="markers",
            marker=dict(symbol="diamond", size=15, color="#1f2933", line=dict(color="#ffffff", width=2)),
            **ALONE,
        ),
        label("its name", column, row + (0.95 if row == 0 else -0.95), "<b>query</b>", "#1f2933", "middle center"),
        dict(
            type="scatter",
            name="its neighbors on the two diagonals",
            x=[column + step if 0 <= column + step < SIDE > row + 1 else math.nan for step in diagonals.values()],
            y=[row + 1] * 2,
            mode="text",
            text=[f"<b>{arrow}</b>" for arrow in diagonals],
            textfont=dict(size=20, color="#1f2933"),
            **ALONE,
        ),
        *(
            dict(drawn, marker=drawn["marker"] | dict(line=dict(width=0)))  # no white edge within the shaft
            for name, look, turn in zip(PAIRS, looks, turns)
            for drawn in [arrow(f"how {name} turns", turn[::-1], look[1], look[2], xaxis="x2", yaxis="y2")]
        ),
        *(  # a pair's number: of a long arrow beyond the tip, in the ring; of a short one beside it
            label(
                f"the number of {name}", *_beside(turn), f"<b>{n}</b>", color, "middle center", xaxis="x2", yaxis="y2"
            )
            for n, (name, (color, *_), turn) in enumerate(zip(PAIRS, looks, turns))
        ),
    ]
    ticks = dict(tickvals=list(range(SIDE)), showgrid=False, zeroline=False, constrain="domain")
    name = dict(text="how far each<br>pair turns", xref="x2 domain", yref="y2 domain", showarrow=False)
    dial = dict(tickvals=[-1, 0, 1], constrain="domain", zeroline=False)
    layout = dict(
        height=430,
        showlegend=False,
        margin=dict(t=8),
        xaxis=dict(ticks, range=[-0.5, SIDE - 0.5], domain=[0, 0.66], title=dict(text="column", standoff=2)),
        yaxis=dict(ticks, range=[SIDE - 0.5, -0.5], title=dict(text="row"), scaleanchor="x", constraintoward="top"),
        xaxis2=dict(dial, range=[-0.4, 1.4], domain=[0.72, 1], anchor="y2", title=dict(text="by a column")),
        yaxis2=dict(
            dial,
            range=[1.42, -1.36],
            domain=[0.36, 0.89],
            anchor="x2",
            title=dict(text="by a row", standoff=0),
            scaleanchor="x2",
        ),
        annotations=[name | dict(x=0.5, y=1, yanchor="bottom")],
        meta=dict(
            phone=dict(  # the arrows below: the map needs the room
                xaxis=dict(domain=[0, 1]),
                yaxis=dict(domain=[0.45, 1]),
                xaxis2=dict(domain=[0.02, 0.5], showticklabels=False, ticks="", title=dict(standoff=0)),
                yaxis2=dict(domain=[0, 0.34], showticklabels=False, ticks="", title=dict(standoff=0)),
                annotations=[name | dict(x=1.1, y=0.95, xanchor="left", yanchor="top", align="left")],
            )
        ),
    )
    at = {arrow: z[SIDE, SIDE - 1 + step].item() for arrow, step in diagonals.items()}
    return dict(data=data, layout=layout), {"right": at["↘"], "left": at["↙"]}


def _short(pairs):
    return "all" if pairs == ALL else pairs.removeprefix("pair ")


def _degrees(direction):
    return f"{direction}°" if direction else "axial, 0°"


map = explorable(
    _map,
    id="rope2d.map",
    title="What a query sees from its patch",
    alt=(
        "A picture of nine by nine patches. Its colors are the scores of one query with keys of equal content at "
        "every patch, from minus one to one. A pair that turns along one axis draws stripes along the other one; a "
        "turned pair draws oblique stripes; all pairs together draw a cross through the query, upright or turned. "
        "Beside it an arrow for each pair: how far it turns for a row, downward, and for a column, across. "
        "Stripes lie across the arrow. Drag the diamond, the query, or the number at a long arrow."
    ),
    readout="score on ↘ {right:+.2f} · on ↙ {left:+.2f}",
    handles={"the query": ("row", "column"), "the number of pair 0": "direction", "the number of pair 1": "direction"},
    depends={
        "score": ["row", "column", "pairs", "direction"],
        "the query": ["row", "column"],
        "its name": ["row", "column"],
        "its neighbors on the two diagonals": ["row", "column"],
        **{f"{what} {name}{end}": ["pairs", "direction"] for what, end in DRAWN for name in PAIRS[:-1]},
        "readout": ["pairs", "direction"],
    },
    row=slider(range(SIDE), label="row of the query", default=4),
    column=slider(range(SIDE), label="column of the query", default=4),
    pairs=slider(PAIRS, label="pair", default=PAIRS[0], format=_short),
    direction=slider(DIRECTIONS, label="turned by", default=0, format=_degrees),
)

# -------------------------------------------------------------------------------------------------------- resolution

TRAINED = 6  # patches on a side of the training pictures
DIAL_LANES = 16
MAGNITUDES = steps(DIAL_LANES, 2, 100.0)  # radians a patch, of the four pairs of an axis
BY_INDEX, NORMALIZED = "by index", "normalized"
SEEN, BETWEEN, OUTSIDE = "trained", "in between", "never trained"
MARKS = {SEEN: "● trained", BETWEEN: "○ in between", OUTSIDE: "✕ never trained"}
SIDES = [6, 7, 8, 9, 10, 12]  # patches on a side of the picture that is asked for
FARTHEST = (SIDES[-1] - 1) / (TRAINED - 1)


def sort_angles(asked, coordinates, magnitude):
    """Angles of the offsets along one axis of a picture, by what training on 6 x 6 showed: {word: [angles]}.

    An angle counts as the same a full turn on.
    """
    scale = TRAINED / asked if coordinates == NORMALIZED else 1.0
    trained = magnitude * torch.arange(1 - TRAINED, TRAINED, dtype=torch.float64)
    turns = magnitude * scale * torch.arange(1 - asked, asked, dtype=torch.float64)
    around = torch.remainder(turns[:, None] - trained + math.pi, 2 * math.pi) - math.pi  # [asked, trained]
    seen = around.abs().min(-1)[0] < 1e-9
    inside = (folded(turns).abs() <= trained.max() + 1e-9) | seen  # the band lies around zero
    return {SEEN: turns[seen], BETWEEN: turns[inside & ~seen], OUTSIDE: turns[~inside]}


def folded(turns):
    """The same angles within half a turn to either side."""
    return torch.remainder(torch.as_tensor(turns) + math.pi, 2 * math.pi) - math.pi


def widest(w):
    """The widest angle of training that a pair of w radians a patch shows: half a turn at most."""
    return min((TRAINED - 1) * w, math.pi)


def _resolution(asked, coordinates, offset):
    sorted_angles = [sort_angles(asked, coordinates, w) for w in MAGNITUDES.tolist()]
    scale = TRAINED / asked if coordinates == NORMALIZED else 1.0
    here = min(offset, asked - 1)  # the key stays within the picture
    rows = list(range(len(MAGNITUDES)))
    looks = {SEEN: ("circle", "blue"), BETWEEN: ("circle-open", "blue"), OUTSIDE: ("x", "orange")}
    found = {
        word: [  # to the left of the query it is the same
            folded(angles[word][angles[word] >= 0]).abs() / widest(w)
            for angles, w in zip(sorted_angles, MAGNITUDES.tolist())
        ]
        for word in looks
    }
    data = []
    for word, (symbol, color) in looks.items():
        data.append(
            dict(
                type="scatter",
                name=word,
                x=torch.cat(found[word]),
                y=[row for row in rows for _ in found[word][row]],
                mode="markers",
                marker=dict(symbol=symbol, size=7, color=COLORS[color], line=dict(width=1.5 if word == BETWEEN else 0)),
                hovertemplate=f"{word}: %{{x:.2f}} of the widest trained angle<extra></extra>",
            )
        )
    present = [word for word in MARKS if any(len(row) for row in found[word])]
    beyond = sum(len(row) for row in found[OUTSIDE])
    said = {NORMALIZED: "<b>only the last patch leaves the band</b>", BY_INDEX: "<b>slower pairs meet new angles</b>"}[
        coordinates
    ]
    data += [
        label(
            "names of the marks",
            [{SEEN: 0, BETWEEN: 0.6, OUTSIDE: 1.38}[word] for word in present],
            [-1.08] * len(present),
            [MARKS[word] for word in present],
            [COLORS[looks[word][1]] for word in present],
            "middle right",
            12,
        ),
        label("verdict", -0.06, -1.6, said if beyond else "<b>no new angle</b>", COLORS["ink"], "middle right"),
        label("the fastest", 1.06, 0, "went all the way<br>round in training", COLORS["gray"], "middle right", 12),
    ]
    for row, w in enumerate(MAGNITUDES.tolist()):
        data.append(
            dict(
                type="scatter",
                name=f"the key at {w:.2g}",
                x=folded(torch.tensor([here * scale * w], dtype=torch.float64)).abs() / widest(w),
                y=[row],
                mode="markers",
                marker=dict(symbol="diamond-open", size=14, color=COLORS["ink"], line=dict(width=2.5)),
                hovertemplate=f"turned by {here * scale * w:.2f} radians<extra></extra>",
            )
        )
    at = [mark["x"].item() for mark in data[-len(rows) :]]
    data += [
        dict(
            type="scatter",
            name="from row to row",
            x=at,
            y=rows,
            mode="lines",
            line=dict(color=COLORS["ink"], width=1.5, dash="dot"),
            hoverinfo="skip",
        ),
        label(  # where the line is upright: the two slowest pairs fold nothing
            "whose diamonds",
            at[2] + (-0.09 if at[2] > 1.5 else 0.09),
            2.5,
            "angles of<br>one key",
            COLORS["ink"],
            "middle left" if at[2] > 1.5 else "middle right",
        ),
    ]
    layout = dict(
        height=430,
        showlegend=False,
        margin=dict(l=64, t=10),
        xaxis=dict(
            range=[-0.06, FARTHEST + 0.12],
            tickvals=[0, 1, 2],
            title=dict(text="angle / widest angle in training", standoff=2),
            showgrid=False,
            zeroline=False,
        ),
        yaxis=dict(
            range=[len(rows) - 0.65, -1.9],
            tickvals=rows,
            ticktext=[
                {0: "fast<br>", len(rows) - 1: "slow<br>"}.get(row, "") + f"{math.degrees(w):.2g}°"
                for row, w in enumerate(MAGNITUDES.tolist())
            ],
            title=dict(text="turn per patch"),
            showgrid=False,
            zeroline=False,
        ),
        shapes=[
            dict(
                type="rect",
                x0=-0.06,
                x1=1,
                y0=len(rows) - 0.72,
                y1=-0.8,
                layer="below",
                line=dict(width=0),
                fillcolor="rgba(42, 143, 201, 0.2)",
            )
        ],
        annotations=[dict(x=0.5, y=-0.55, text=f"trained on {TRAINED} × {TRAINED}", showarrow=False)],
        meta=dict(phone=dict(margin=dict(l=50))),
    )
    return dict(data=data, layout=layout), {"beyond": beyond, "all": len(rows) * asked, "offset": here}


_KEYS = [f"the key at {w:.2g}" for w in MAGNITUDES.tolist()]
resolution = explorable(
    _resolution,
    id="rope2d.resolution",
    title="A larger picture than trained",
    alt=(
        "Four rows, one for each frequency of an axis, from fast to slow; across, the angle between query and "
        "key, as a share of the widest that the row met in training: half a turn at most, to either side. A "
        "band shows the angles between patches of the six by six training pictures. Marks are the angles that a "
        "larger picture asks for: full dots are angles of training, open ones lie between two of them, crosses "
        "lie beyond the band. Diamonds, joined by a dotted line, stand at the angles of one key: drag one, and "
        "the key moves farther away."
    ),
    readout="{beyond:d} of {all:d} angles never trained · key {offset:d} on",
    handles={name: "offset" for name in _KEYS[1:]},
    depends={
        **{word: ["asked", "coordinates"] for word in (SEEN, BETWEEN, OUTSIDE, "names of the marks", "verdict")},
        "the fastest": [],
        "layout": [],
        "readout.beyond": ["asked", "coordinates"],
        "readout.all": ["asked"],
        "readout.offset": ["asked", "offset"],
    },
    asked=slider(SIDES, label="patches on a side", default=12),
    coordinates=slider([BY_INDEX, NORMALIZED], label="coordinates"),
    offset=slider(range(1, SIDES[-1]), label="key, patches on", default=4, at_most="asked"),
)

# ------------------------------------------------------------------------------------------------------- M-RoPE's ids

PICTURE = (1, 4, 4)  # time, rows, columns
AFTER = 4  # words after the picture
MOST_WORDS = 4  # before it: one over each column
ID_LANES = 32
ID_BASE = 10000.0
DEALS = {"in sections": dict(sections=(4, 6, 6)), "in turn": dict(sections=(6, 5, 5), interleaved=True)}
AXES = {"time": "blue", "row": "orange", "column": "green"}


def text_ids(words):
    """The three ids of each token: words, a picture of 4 x 4, four words; [T, 3]."""
    return positions_for([words, PICTURE, AFTER])


def frequencies_of(deal):
    """[3, 16], each frequency dealt to time, row or column."""
    return dealt(ID_LANES, base=ID_BASE, **DEALS[deal])


def turns_between(words, patch, deal):
    """By how much each pair turns between the last word and a patch (row, column): [16]."""
    ids = text_ids(words)
    key = words + patch[0] * PICTURE[2] + patch[1]
    return angles((ids[key] - ids[-1])[None], frequencies_of(deal))[0]


def score_of(words, patch, deal):
    """The score of the last word with a patch of equal content: the mean cosine of what its pairs turn."""
    return turns_between(words, patch, deal).cos().mean().item()


def _ids(words, row, column, deal):
    ids = text_ids(words)
    key = words + row * PICTURE[2] + column
    rows, columns = list(range(PICTURE[1])), list(range(PICTURE[2]))
    scores = [[score_of(words, (r, c), deal) for c in columns] for r in rows]
    before, after = list(range(words)), list(range(AFTER - 1))  # each over or under a column
    last, above, below, aside = AFTER - 1, -1.95, PICTURE[1] + 0.1, -0.62
    ink = "#1e2832"  # on a cell, in either theme

    def bold(number, chosen=True):
        return f"<b>{number}</b>" if chosen else str(number)

    data = [
        dict(
            type="heatmap",
            name="score of each patch",
            x=columns,
            y=rows,
            z=scores,
            zmin=0.69,
            zmax=0.79,
            colorscale=[[0, "#eef3f8"], [1, "#6fa8d6"]],
            xgap=3,
            ygap=3,
            showscale=False,
            hovertemplate="score %{z:.4f}<extra></extra>",
        ),
        label(
            "scores in numbers",
            columns * len(rows),
            [r for r in rows for _ in columns],
            [f"{score:.3f}"[1:] for line in scores for score in line],  # .714: a cell is narrow on a phone
            ink,
            "middle center",
            12,
        ),
        dict(
            type="scatter",
            name="the patch",
            x=[column],
            y=[row],
            mode="markers",
            marker=dict(symbol="square", size=38, color="rgba(107, 114, 128, 0.15)", line=dict(width=2.5, color=ink)),
            **ALONE,
        ),
        *(
            dict(
                type="scatter",
                name=name,
                x=x,
                y=y,
                mode="markers+text",
                text=[str(ids[n, 0].item()) for n in tokens],
                textfont=dict(size=13, color=COLORS[color]),
                marker=dict(symbol=symbol, size=23, color=COLORS[color], line=dict(width=width)),
                **ALONE,
            )
            for name, x, y, tokens, color, symbol, width in (
                (
                    "words",
                    before + after,
                    [above] * words + [below] * len(after),
                    [*range(words), *range(len(ids) - AFTER, len(ids) - 1)],
                    "gray",
                    "circle-open",
                    1.2,
                ),
                ("the last word", [last], [below], [len(ids) - 1], "purple", "square-open", 2.5),
            )
        ),
        label(
            "what is in a line",
            [aside, aside, 0],
            [above, below, above],
            ["words", "words", "" if words else "none"],
            COLORS["gray"],
            ["middle left", "middle left", "middle center"],
            12,
            cliponaxis=False,
        ),
        label(
            "time of the picture",
            -0.5,
            -1.22,
            f"picture: time {bold(words)} throughout",
            COLORS["blue"],
            "middle right",
            12,
        ),
        label(
            "rows' ids",
            [aside] * len(rows),
            rows,
            [f"row {bold(words + r, r == row)}" for r in rows],
            COLORS["orange"],
            "middle left",
            12,
        ),
        label(
            "columns' ids",
            [aside, *columns],
            [-0.7] * (1 + len(columns)),
            ["column", *(bold(words + c, c == column) for c in columns)],
            COLORS["green"],
            ["middle left", *["middle center"] * len(columns)],
            12,
            cliponaxis=False,
        ),
    ]
    table = dict(xaxis="x2", yaxis="y2")
    lines = [1.3, 2.2, 3.1]
    data += [
        label(
            "whose ids",
            [0.48, 0.88],
            [0.3] * 2,
            ["this<br>patch", "last<br>word"],
            [COLORS["ink"], COLORS["purple"]],
            "middle center",
            12,
            **table,
        ),
        *(
            label(
                f"ids of {name}",
                [0, 0.48, 0.88],
                [line] * 3,
                ["col" if name == "column" else name, bold(ids[key, a].item()), bold(ids[-1, a].item())],
                [COLORS[color], COLORS[color], COLORS["purple"]],
                ["middle right", "middle center", "middle center"],
                [12, 16, 16],
                **table,
            )
            for a, ((name, color), line) in enumerate(zip(AXES.items(), lines))
        ),
        label(
            "what is in a cell",
            0.5,
            3.9,
            "in a cell: score<br>with last word",
            COLORS["gray"],
            "middle center",
            12,
            **table,
        ),
        label(
            "verdict",
            0.5,
            4.8,
            {"in turn": "<b>the score<br>hears columns</b>", "in sections": "<b>columns<br>go unheard</b>"}[deal],
            COLORS["ink"],
            "middle center",
            12,
            **table,
        ),
    ]
    bare = dict(showgrid=False, zeroline=False, showticklabels=False, ticks="")
    layout = dict(
        height=400,
        showlegend=False,
        margin=dict(l=8, r=8, t=6, b=6),
        xaxis=dict(bare, range=[-1.5, PICTURE[2] - 0.4], domain=[0, 0.64]),
        yaxis=dict(bare, range=[below + 0.55, above - 0.5]),
        xaxis2=dict(bare, range=[-0.02, 1.02], domain=[0.71, 0.98], anchor="y2"),
        yaxis2=dict(bare, range=[below + 1.2, -0.6], domain=[0, 0.95], anchor="x2"),
        shapes=[
            dict(
                type="line",
                xref="x2",
                yref="y2",
                x0=0,
                x1=1,
                y0=0.85,
                y1=0.85,
                line=dict(color=COLORS["gray"], width=1),
            )
        ],
        meta=dict(phone=dict(xaxis=dict(domain=[0, 0.66]), xaxis2=dict(domain=[0.68, 1]))),
    )
    moves = [abs(scores[r][c] - scores[row][column]) for r, c in beside(row, column)]
    return dict(data=data, layout=layout), {"score": scores[row][column], "row": moves[0], "column": moves[1]}


def beside(row, column):
    """The patches one row and one column on, or back at the edge."""
    on = [place + (1 if place < PICTURE[axis] - 1 else -1) for axis, place in ((1, row), (2, column))]
    return (on[0], column), (row, on[1])


ids = explorable(
    _ids,
    id="rope2d.ids",
    title="Three ids for a text with a picture",
    alt=(
        "A text in its order: a line of words, a picture of four by four patches, a line of words. A word shows its "
        "id, which it has three times. At the picture stand the ids of its rows and of its columns, and over it the "
        "time of all its patches. A patch is framed, and can be dragged; beside the picture stand its three ids as "
        "numbers, and those of the last word. Each patch is shaded by its score with the last word, for equal "
        "contents, which stands in it: dealt in sections, all scores of a row are equal to three digits; dealt in "
        "turn, they climb from column to column. "
        "The chips say how far the score moves if the patch is one row or one column farther."
    ),
    readout="score {score:.3f} · a row on moves it by {row:.3f} · a column on by {column:.3f}",
    handles={"the patch": ("row", "column")},
    depends={
        "layout": [],
        **{name: ["deal"] for name in ("score of each patch", "scores in numbers", "verdict")},
        "the patch": ["row", "column"],
        **{name: ["words"] for name in ("words", "the last word", "what is in a line", "time of the picture")},
        "rows' ids": ["words", "row"],
        "columns' ids": ["words", "column"],
        "whose ids": [],
        "what is in a cell": [],
        **{f"ids of {name}": ["words", at] for name, at in zip(AXES, ("row", "row", "column"))},
        "readout": ["row", "column", "deal"],
    },
    words=slider(range(MOST_WORDS + 1), label="words before", default=3),
    row=slider(range(PICTURE[1]), label="row", default=1),
    column=slider(range(PICTURE[2]), label="column", default=2),
    deal=slider(list(DEALS), label="pairs dealt", default="in turn"),
)
