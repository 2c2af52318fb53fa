r"""The explorables of the chapter *Two axes and more*."""

import math

import torch

from posenc.lab.explore import COLORS, DIVERGING, explorable, slider
from posenc.lab.explore.parts import arrow, axis, bars, dots, heat, label, line, upright
from posenc.rotate.mrope import dealt, positions_for
from posenc.rotate.rope2d import angles, axial

SIDE = 9  # rows and columns of the picture
LANES = 8  # so two magnitudes, two pairs of lanes each
MIXED_BASE = 10.0  # of the frequencies, where mixed starts
DIRECTIONS = [0, 15, 45, 70]  # degrees
ALL = "all, averaged"
PAIRS = [f"pair {i}" for i in range(LANES // 2)] + [ALL]


def frequencies(direction):
    """Frequencies [2, 4] of (row, column): axial ones, whose two axes are turned by some degrees."""
    a = math.radians(direction)
    frame = torch.tensor([[math.cos(a), -math.sin(a)], [math.sin(a), math.cos(a)]], dtype=torch.float64)
    return frame @ axial(LANES, base=MIXED_BASE, dtype=torch.float64)


def score_map(pairs, direction, *, angles=angles):
    """cos of the angle between equal contents at each offset, of one pair or the mean of all: [2 side - 1] squared."""
    along = torch.arange(1 - SIDE, SIDE)
    scores = angles(torch.cartesian_prod(along, along), frequencies(direction)).cos()
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
    curve = list(range(1 - SIDE, SIDE))
    diagonals = {"↘": 1, "↙": -1}
    turns = frequencies(direction).T.tolist()  # of each pair: a row, a column
    dial_axes = dict(xaxis="x2", yaxis="y2")
    looks = [(COLORS["blue"], 3) if pairs in (name, ALL) else (COLORS["gray"], 2) for name in PAIRS[:-1]]
    there = "row %{y}, column %{x}: score %{z:.2f}<extra></extra>"
    bar = dict(orientation="h", x=0.855, y=0.16, len=0.29, thickness=14, title=dict(text="score", side="top"))
    bar |= dict(tickvals=[-1, 0, 1], ticktext=["−1", "0", "1"])
    colors = dict(zmin=-1, zmax=1, zmid=0, colorscale=DIVERGING, xgap=1, ygap=1, colorbar=bar)
    data = [
        heat("score", [column + d for d in curve], [row + d for d in curve], z, hover=there, **colors),
        dots("the query", [column], [row], "#1f2933", 15, "diamond", marker=dict(line=dict(color="#ffffff", width=2))),
        dict(
            dots("its neighbors on the two diagonals", [column + step for step in diagonals.values()], [row + 1] * 2),
            mode="text",
            text=[f"<b>{arrow}</b>" for arrow in diagonals],
            textfont=dict(size=20, color="#1f2933"),
        ),
        *(arrow(f"how {name} turns", turn[::-1], *look, **dial_axes) for name, look, turn in zip(PAIRS, looks, turns)),
        *(  # a pair's number: of a long arrow beyond the tip, in the ring; of a short one beside it
            label(f"the number of {name}", *_beside(turn), f"<b>{n}</b>", color, "middle center", **dial_axes)
            for n, (name, (color, _), turn) in enumerate(zip(PAIRS, looks, turns))
        ),
    ]
    ticks = dict(tickvals=list(range(SIDE)), showgrid=False, zeroline=False, constrain="domain")
    name = dict(text="how far each<br>pair turns", xref="x2 domain", yref="y2 domain", showarrow=False)
    dial = dict(tickvals=[-1, 0, 1], constrain="domain")
    domains = dict(xaxis=[0, 1], yaxis=[0.47, 1], xaxis2=[0, 0.46], yaxis2=[0, 0.35])
    phone = {name: dict(domain=domain) for name, domain in domains.items()}
    layout = dict(
        height=430,
        showlegend=False,
        margin=dict(t=8),
        xaxis=dict(ticks, range=[-0.5, SIDE - 0.5], domain=[0, 0.66], title=dict(text="column", standoff=2)),
        yaxis=dict(ticks, range=[SIDE - 0.5, -0.5], title=dict(text="row"), scaleanchor="x", constraintoward="top"),
        xaxis2=dict(dial, range=[-0.4, 1.5], domain=[0.74, 1], anchor="y2", title=dict(text="turn by a column")),
        yaxis2=axis(1.5, -1.45, "turn by a row", domain=[0.46, 0.88], anchor="x2", scaleanchor="x2", **dial),
        annotations=[name | dict(x=0.5, y=1, yanchor="bottom")],
        meta=dict(phone=phone | dict(annotations=[name | dict(x=1.2, y=0.95, xanchor="left", yanchor="top")])),
    )
    at = {arrow: z[SIDE, SIDE - 1 + step].item() for arrow, step in diagonals.items()}
    return dict(data=data, layout=layout), {"right": at["↘"], "left": at["↙"]}


map = explorable(
    _map,
    id="rope2d.map",
    title="What a query sees from its patch",
    alt="A picture of nine by nine patches. Its colors are the scores of one query with keys of equal content at "
    "every patch, from minus one to one. A pair that turns along one axis draws stripes along the other one; a "
    "turned pair draws oblique stripes; all pairs together draw a cross through the query, upright or turned. "
    "Beside or below it an arrow for each pair: how far it turns for a row, downward, and for a column, across. "
    "Stripes lie across the arrow. Drag the diamond, the query, or the number at a long arrow.",
    readout="score on ↘ {right:+.2f} · on ↙ {left:+.2f}",
    handles={"the query": ("row", "column"), "the number of pair 0": "direction", "the number of pair 1": "direction"},
    row=slider(range(SIDE), label="row of the query", default=4),
    column=slider(range(SIDE), label="column of the query", default=4),
    pairs=slider(PAIRS, label="pair", default=PAIRS[0], format=lambda name: {ALL: "all"}.get(name, name[-1])),
    direction=slider(DIRECTIONS, label="turned by", default=0, format=lambda d: f"{d}°" if d else "axial, 0°"),
)


TRAINED = 6  # patches on a side of the training pictures
DIAL_LANES = 16
MAGNITUDES = axial(DIAL_LANES, 2, 100.0, torch.float64)[0, ::2]  # radians a patch, of the four pairs of an axis
BY_INDEX, NORMALIZED = "by index", "normalized"
SEEN, BETWEEN, OUTSIDE = "trained", "between", "beyond"
SIDES = [6, 7, 8, 9, 10, 12]  # patches on a side of the picture that is asked for


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


def _named(found):
    """The marks of the drawing to write the words at, of each kind: of the slowest pair, or of the fastest."""
    names, slowest = {}, len(MAGNITUDES) - 1
    for word, goal, rows in ((SEEN, 0.1, [slowest - 1]), (BETWEEN, -0.6, [slowest, 0]), (OUTSIDE, 1.8, [slowest])):
        row = next((row for row in rows if len(found[word][row])), None)
        if row is not None:
            x = found[word][row]
            names[word] = (x[(x - goal).abs().argmin()].item(), row + 0.12)
    return names


def _resolution(asked, coordinates, offset):
    sorted_angles = [sort_angles(asked, coordinates, w) for w in MAGNITUDES.tolist()]
    scale = TRAINED / asked if coordinates == NORMALIZED else 1.0
    here = min(offset, asked - 1)  # the key stays within the picture
    rows = list(range(len(MAGNITUDES)))
    looks = {SEEN: ("circle", "blue"), BETWEEN: ("circle-open", "blue"), OUTSIDE: ("x", "orange")}
    found, data = {}, []
    for word, (symbol, color) in looks.items():
        found[word] = [folded(angles[word]) / widest(w) for angles, w in zip(sorted_angles, MAGNITUDES.tolist())]
        y = [row for row in rows for _ in found[word][row]]
        sizes = [7 if row else 5 for row in y]  # the fastest pair has them all within the band
        hover = f"{word}: %{{x:.2f}} of the widest trained angle<extra></extra>"
        data.append(dots(word, torch.cat(found[word]), y, color, sizes, symbol, hover=hover))
    named = _named(found)
    x, y = ([*axis] for axis in zip(*named.values()))
    data.append(label("names of the marks", x, y, list(named), [looks[word][1] for word in named], "bottom center"))
    for row, w in enumerate(MAGNITUDES.tolist()):
        x = folded(torch.tensor([here * scale * w], dtype=torch.float64)) / widest(w)
        hover = f"turned by {here * scale * w:.2f} radians<extra></extra>"
        data.append(dots(f"the key at {w:.2g}", x, [row - 0.34], "ink", 13, "triangle-down", hover=hover))
    farthest = (SIDES[-1] - 1) / (TRAINED - 1)
    bare, words = dict(showgrid=False, zeroline=False), "angle, 1: the widest in training"
    shares = dict(tickvals=[-2, -1, 0, 1, 2], ticktext=["−2", "−1", "0", "1", "2"])
    speeds = [f"{math.degrees(w):.2g}°" for w in MAGNITUDES.tolist()]
    ground = dict(layer="below", line=dict(width=0), fillcolor="rgba(42, 143, 201, 0.2)")
    layout = dict(
        height=430,
        showlegend=False,
        margin=dict(l=64, t=10),
        xaxis=axis(-farthest - 0.1, farthest + 0.1, dict(text=words, standoff=2), **shares, **bare),
        yaxis=axis(len(rows) - 0.3, -1.25, "turn a patch", tickvals=rows, ticktext=speeds, **bare),
        shapes=[dict(type="rect", x0=-1, x1=1, y0=0, y1=1, yref="paper", **ground)],
        annotations=[dict(x=0, y=-0.95, text=f"trained on {TRAINED} × {TRAINED}", showarrow=False)],
        meta=dict(phone=dict(margin=dict(l=50))),
    )
    counts = [len(angles[OUTSIDE]) for angles in sorted_angles]
    return dict(data=data, layout=layout), {"beyond": sum(counts), "all": len(rows) * (2 * asked - 1), "offset": here}


_KEYS = [f"the key at {w:.2g}" for w in MAGNITUDES.tolist()]
resolution = explorable(
    _resolution,
    id="rope2d.resolution",
    title="A larger picture than trained",
    alt="Four rows, one for each frequency of an axis, from fast to slow; across, the angle between query and key, as "
    "a share of the widest that the row met in training: half a turn at most. A band shows the angles between "
    "patches of the six by six training pictures. Marks are the angles that a larger picture asks for: full dots "
    "are angles of training, open ones lie between two of them, crosses lie beyond the band. Triangles stand at "
    "the angles of one key: drag one, and the key moves farther away.",
    readout="{beyond:d} of {all:d} angles beyond · key {offset:d} on",
    handles={name: "offset" for name in _KEYS[1:]},
    asked=slider(SIDES, label="patches on a side", default=12),
    coordinates=slider([BY_INDEX, NORMALIZED], label="coordinates"),
    offset=slider(range(1, SIDES[-1]), label="key, patches on", default=4, at_most="asked"),
)


PICTURE = (1, 4, 4)  # time, rows, columns
AFTER = 4  # words after the picture
MOST_WORDS, TOP = 5, 14  # before it; where its ground ends in the drawing
ID_LANES = 32
DEALS = {"in sections": dict(sections=(4, 6, 6)), "in turn": dict(sections=(6, 5, 5), interleaved=True)}
AXES = {"time": "blue", "row": "orange", "column": "green"}


def text_ids(words):
    """The three ids of each token: words, a picture of 4 x 4, four words; [T, 3]."""
    return positions_for([words, PICTURE, AFTER])


def frequencies_of(deal):
    """[3, 16], each frequency dealt to time, row or column."""
    return dealt(ID_LANES, base=10_000.0, **DEALS[deal])


def turns_between(words, patch, deal):
    """By how much each pair turns between the last word and a patch (row, column): [16]."""
    ids = text_ids(words)
    key = words + patch[0] * PICTURE[2] + patch[1]
    return angles((ids[key] - ids[-1])[None], frequencies_of(deal))[0]


def _ids(words, row, column, deal):
    ids = text_ids(words)
    key = words + row * PICTURE[2] + column
    tokens = list(range(len(ids)))
    patches = PICTURE[1] * PICTURE[2]
    colors = [COLORS[color] for color in AXES.values()]
    corners = [words - 0.5, words + patches - 0.5, words + patches - 0.5, words - 0.5]
    ground = "rgba(128, 128, 128, 0.15)"
    data = [line("the picture", corners, [-2, -2, TOP, TOP], ground, 0, fill="toself", fillcolor=ground)]
    for a, ((name, color), width) in enumerate(zip(AXES.items(), (9, 4, 2))):  # each shows beside the next
        hover = f"token %{{x}}: {name} %{{y}}<extra></extra>"
        data.append(line(name, tokens, ids[:, a], color, width, "solid", line=dict(shape="hvh"), hover=hover))
    middle = words + patches / 2 - 0.5
    edge, patch = dict(line=dict(color=COLORS["ink"], width=1)), "this patch: %{text} %{y}<extra></extra>"
    ends = [words + patches + 0.2] * 3, [words - 0.4, words + 1.1, words + 2.6]  # where nothing is dragged
    data += [
        label("names of the lines", *ends, [f"<b>{name}</b>" for name in AXES], colors, "middle right"),
        label("what the ground is", middle, TOP - 1.2, "picture, 4 × 4 patches", "gray", "middle center"),
        upright("the key, a patch", key, -2, TOP - 4, "ink", 2, "dot"),
        dots("its ids", [key] * 3, ids[key], colors, 9, "circle", marker=edge, hover=patch, text=list(AXES)),
    ]
    turned = turns_between(words, (row, column), deal)
    owner = (frequencies_of(deal) > 0).long().argmax(0)
    for a, (name, color) in enumerate(AXES.items()):
        mine = (owner == a).nonzero().flatten()
        look = dict(hover="pair %{x}, %{text}: cos %{y:.2f}<extra></extra>", panel=2, width=0.8, textposition="none")
        text = [name] * len(mine)
        data.append(bars(f"cos of the angle, {name}", mine, turned[mine].cos(), color, text=text, **look))
        # In sections a name over each section, in turn a letter over each pair.
        at, word = (mine, name[0]) if deal == "in turn" else (mine.double().mean()[None], name)
        named = [f"<b>{word}</b>"] * len(at)
        data.append(label(f"owner, {name}", at, [1.05] * len(at), named, color, xaxis="x2", yaxis="y2"))
    corner = turns_between(words, (0, 0), deal).cos()
    pairs = torch.arange(len(corner), dtype=torch.float64)
    x = torch.stack((pairs - 0.4, pairs + 0.4, pairs + math.nan), -1).flatten()
    y = torch.stack((corner, corner, corner + math.nan), -1).flatten()
    data.append(line("the first patch", x, y, "ink", 2, panel=2))
    data.append(label("its name", 15.4, -0.62, "━ first patch", "ink", "middle left", xaxis="x2", yaxis="y2"))
    longest = MOST_WORDS + patches + AFTER
    below = dict(text="pair of lanes, fastest first", standoff=4)
    layout = dict(
        height=430,
        showlegend=False,
        margin=dict(t=10),
        xaxis=axis(-0.8, longest + 0.8, title=dict(text="token of the text", standoff=4), anchor="y"),
        yaxis=axis(-2, TOP + 0.2, "id", domain=[0.5, 1], tickvals=[0, 5, 10]),
        xaxis2=axis(-0.6, ID_LANES // 2 - 0.4, below, anchor="y2", tickvals=list(range(0, ID_LANES // 2, 3))),
        yaxis2=axis(-1.1, 1.75, "cos", domain=[0, 0.33], tickvals=[-1, 0, 1]),
    )
    score = turned.cos().mean().item()
    steps = [turns_between(words, place, deal).cos().mean().item() - score for place in beside(row, column)]
    return dict(data=data, layout=layout), {"score": score, "row": abs(steps[0]), "column": abs(steps[1])}


def beside(row, column):
    """The patches one row and one column on, or back at the edge."""
    on = [place + (1 if place < PICTURE[frame] - 1 else -1) for frame, place in ((1, row), (2, column))]
    return (on[0], column), (row, on[1])


ids = explorable(
    _ids,
    id="rope2d.ids",
    title="Three ids for a text with a picture",
    alt="Above, three lines over the tokens of a text that holds a picture of four by four patches: the ids of time, "
    "row and column. They are equal in words; in the picture time stands still, row climbs a step every four "
    "patches and column runs up and down. Three dots on a dotted line are the ids of one patch: drag the line. "
    "Below, a bar for each pair of lanes: the cosine of the angle between the last word and this patch, under the "
    "name or the first letter of the axis that owns the pair, and a short line where the bar of the first patch "
    "ends. The chips say how far the score moves if the patch is one row, or one column, farther.",
    readout="score {score:.2f} · a row on: ±{row:.3f} · a column on: ±{column:.3f}",
    handles={"the key, a patch": ("row", "column")},
    words=slider(range(MOST_WORDS + 1), label="words before", default=3),
    row=slider(range(PICTURE[1]), label="row", default=1),
    column=slider(range(PICTURE[2]), label="column", default=2),
    deal=slider(list(DEALS), label="pairs dealt"),
)
