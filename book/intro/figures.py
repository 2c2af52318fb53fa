r"""Two hands on a clock: the figure that opens the book, and the RoPE chapter's first."""

import math
from functools import cache

import torch

from posenc import rope
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, label, line, number, path

PAIRS = 8  # pairs of lanes, D = 16: a dial each
BASE = 177.0  # pair 1 turns by 30 degrees a word, an hour on a clock; the slowest still turns in sight
LARGE = 1  # the pair on the large dial
CELLS = 24  # words of the strip
LENGTHS = (1, 0.75)  # of a query's hand and a key's; a query's is 1, so that a score is a length along it
FREQUENCIES = rope.inv_freq(2 * PAIRS, BASE, dtype=torch.float64)
RIM = 1.25  # of the large dial: beyond the query's tip, whose ring then covers no numeral


@cache
def hands(which, position):
    r"""The query (0) or the key (1) turned to a position: [PAIRS, 2]."""
    phase = 2 * math.pi * torch.rand(2, PAIRS, dtype=torch.float64, generator=torch.Generator().manual_seed(6889))
    phase[:, LARGE] = 0  # on the large dial both point to lane 2i before they turn, elsewhere anywhere
    flat = LENGTHS[which] * torch.stack((phase[which].cos(), phase[which].sin()), dim=-1).reshape(1, -1)
    return rope.rotate(flat, torch.tensor([position], dtype=torch.float64), FREQUENCIES).view(PAIRS, 2)


def _across(points):
    r"""Where vectors [..., 2] stand on a dial: lane 2i up, lane 2i + 1 to the right, so that hands turn clockwise."""
    return points[..., 1], points[..., 0]


def _arrow(name, tip, color, dash, width):
    r"""A hand. The point beside it, which is not drawn, tells the player that a level hand is no level line."""
    x, y = (part.item() for part in _across(tip))
    head = dict(symbol="arrow", angleref="previous", size=[0, 0, 0, 15], color=color, opacity=1)
    return path(name, [-0.05 * y, math.nan, 0, x], [0.05 * x, math.nan, 0, y], color, width, dash, panel=2, marker=head)


def _small_hands(name, tips, color, dash, width):
    x, y = _across(0.42 * tips)
    center = torch.arange(PAIRS, dtype=torch.float64)
    gap = torch.full((PAIRS,), math.nan, dtype=torch.float64)
    ends = (torch.stack((foot, foot + part, gap), dim=-1).flatten() for foot, part in ((center, x), (0 * center, y)))
    return line(name, *ends, color, width, dash, panel=3)


def _tile(name, word, position, color, symbol, side):
    words = dict(text=[f"<b>{word}</b>"], textposition=f"top {side}", textfont=dict(size=15, color=color))
    mark = dots(name, [2 * position], [1.5], color, 15, symbol, marker=dict(opacity=1), cliponaxis=False)
    return mark | dict(mode="markers+text") | words


def _words(name, line, row, color):
    words = label(name, 0, row, line, color, "middle right", xaxis="x4", yaxis="y4", cliponaxis=False)
    return words | dict(textfont=dict(size=12, color=color))


def _circle(x, y, radius, where, color, width):
    corners = dict(x0=x - radius, x1=x + radius, y0=y - radius, y1=y + radius)
    look = dict(type="circle", line=dict(color=color, width=width), layer="below")
    return dict(xref=f"x{where}", yref=f"y{where}", **look, **corners)


@cache
def _layout():
    degrees = torch.rad2deg(FREQUENCIES).tolist()
    turns = [*(f"{d:.0f}°" if d > 9.5 else f"{d:.1f}°" for d in degrees), "sum"]
    below = dict(showgrid=False, zeroline=False, tickvals=[*range(PAIRS), PAIRS + 0.2], ticktext=turns)
    words = dict(text="a pair's turn for each word, fast to slow", font=dict(size=12))
    gray, ink, hidden = COLORS["gray"], COLORS["ink"], dict(visible=False)
    dials = [_circle(i, 0, 0.46, 3, ink if i == LARGE else gray, 2 if i == LARGE else 1) for i in range(PAIRS)]
    zero = dict(type="line", xref="x3", yref="y5", x0=-0.5, x1=PAIRS + 0.6, y0=0, y1=0, line=dict(color=gray, width=1))
    return dict(
        height=420,
        margin=dict(l=8, r=8, t=4, b=40),
        showlegend=False,
        bargap=0.3,
        xaxis=axis(-4, 2 * CELLS + 1, domain=[0, 1], **hidden),  # half words: the bracket's middle is whole
        yaxis=axis(-1, 2.7, domain=[0.78, 1], **hidden),
        xaxis2=axis(-1.56, 1.56, domain=[0, 0.43], constrain="domain", anchor="y2", **hidden),
        yaxis2=axis(-1.56, 1.56, domain=[0, 0.76], scaleanchor="x2", anchor="x2", **hidden),
        xaxis3=axis(-0.55, PAIRS + 0.75, words, domain=[0.45, 1], anchor="y5", **below),
        yaxis3=axis(-0.5, 0.5, domain=[0.34, 0.48], scaleanchor="x3", anchor="x3", **hidden),
        xaxis4=axis(0, 1, domain=[0.46, 1], anchor="y4", **hidden),
        yaxis4=axis(0.4, 4.9, domain=[0.5, 0.76], anchor="x4", **hidden),
        yaxis5=axis(-1.7, 3.1, domain=[0, 0.32], anchor="x3", **hidden),
        shapes=[_circle(0, 0, RIM, 2, ink, 2), *dials, zero],
        meta=dict(
            phone=dict(
                xaxis2=dict(domain=[0, 0.52]),
                yaxis2=dict(domain=[0.31, 0.77]),
                xaxis3=dict(domain=[0, 1]),
                yaxis3=dict(domain=[0.2, 0.3]),
                xaxis4=dict(domain=[0.53, 1]),
                yaxis4=dict(domain=[0.34, 0.72]),
                yaxis5=dict(domain=[0, 0.18]),
            )
        ),
    )


def _two_hands(m, n, shift):
    at_q, at_k = m + shift, n + shift
    query, key = hands(0, at_q), hands(1, at_k)
    scores = (hands(0, m - n) * hands(1, 0)).sum(-1)  # what turning both by the same angle leaves
    total = scores.cumsum(0)
    q, k = query[LARGE], key[LARGE]
    foot = (q @ k) * q
    turn = math.degrees(FREQUENCIES[LARGE].item())
    start, end = (math.atan2(tip[1].item(), tip[0].item()) for tip in (k, q))
    between = (end - start + math.pi) % (2 * math.pi) - math.pi
    arc = start + between * torch.linspace(0, 1, 4, dtype=torch.float64)
    ticks = hands(0, 0)[LARGE, 0] * torch.arange(12, dtype=torch.float64) * math.radians(turn)
    gap = torch.full((12,), math.nan, dtype=torch.float64)
    edge = RIM * torch.stack((ticks.cos(), ticks.sin()), dim=-1)
    marks = [torch.stack((a, 0.92 * a, gap), dim=-1).flatten() for a in _across(edge)]
    numerals = [part * 1.14 for part in _across(edge)]
    apart, angle = number(m - n, 0), f"= {number((m - n) * turn, 0)}°"
    if abs(m - n) * turn > 180.5:  # the arc goes the short way
        angle = f"≡ {number(math.degrees(between), 0)}°"
    pair, whole = number(scores[LARGE].item()), number(total[-1].item())
    (foot_x, foot_y), (k_x, k_y) = ([part.item() for part in _across(tip)] for tip in (foot, k))
    levels = torch.stack((total[:-1], total[:-1], gap[: PAIRS - 1]), dim=-1).flatten()
    across = torch.arange(PAIRS - 1, dtype=torch.float64)
    steps = torch.stack((across - 0.35, across + 1.35, gap[: PAIRS - 1]), dim=-1).flatten()
    above = dict(text=[whole], textposition="outside", constraintext="none", textfont=dict(size=12), cliponaxis=False)
    spline = dict(shape="spline", smoothing=1.3)
    hours = dict(text=[str(hour) for hour in range(12)], textfont=dict(size=12, color=COLORS["gray"]))
    stripes = dict(pattern=dict(shape=["/" if s < 0 else "" for s in scores.tolist()]))
    cells = dict(base=[1.25] * CELLS, width=[1.6] * CELLS)
    corners = [2 * at_k, 2 * at_k, 2 * at_q, 2 * at_q, math.nan, at_q + at_k], [0.9, 0.45, 0.45, 0.9, math.nan, 0.45]
    middle = dict(symbol="circle", size=[0] * 5 + [12], color="purple", opacity=1)
    drag = dict(text=[""] * 5 + ["<br>◂ drag ▸"], textposition="bottom center")
    drag |= dict(textfont=dict(size=12, color=COLORS["purple"]))
    on_dial, on_columns = dict(xaxis="x2", yaxis="y2", hoverinfo="skip"), dict(xaxis="x3", yaxis="y5")
    data = [
        bars("words", list(range(0, 2 * CELLS, 2)), [0.5] * CELLS, "gray", marker=dict(opacity=0.3), **cells),
        path("bracket", *corners, "purple", 4, marker=middle, cliponaxis=False)
        | dict(mode="lines+markers+text", **drag),
        _tile("query word", "it", at_q, COLORS["blue"], "square", "right" if at_q >= at_k else "left"),
        _tile("key word", "cat", at_k, COLORS["orange"], "diamond", "left" if at_q >= at_k else "right"),
        line("ticks", marks[0], marks[1], "ink", 1.5, hover=True, **on_dial),
        dict(type="scatter", name="numerals", x=numerals[0], y=numerals[1], mode="text", **hours, **on_dial),
        line("projection", [0, foot_x], [0, foot_y], "green", 11, hover=True, opacity=0.75, **on_dial),
        line("drop", [k_x, foot_x], [k_y, foot_y], "green", 1.5, "dot", hover=True, **on_dial),
        line("angle", 0.4 * arc.sin(), 0.4 * arc.cos(), "purple", 4, line=spline, hover=True, **on_dial),
        _arrow("query", q, COLORS["blue"], "solid", 4),
        _arrow("key", k, COLORS["orange"], "dash", 3),
        _words("query in words", f"<b>it</b> {at_q} × {turn:.0f}° = {at_q * turn:.0f}°", 4.3, COLORS["blue"]),
        _words("key in words", f"<b>cat</b> {at_k} × {turn:.0f}° = {at_k * turn:.0f}°", 3.3, COLORS["orange"]),
        _words("angle in words", f"<b>apart</b> {apart} × {turn:.0f}° {angle}", 2, COLORS["purple"]),
        _words("score in words", f"<b>score</b> here {pair}", 1, COLORS["green"]),
        _small_hands("query hands", query, COLORS["blue"], "solid", 2.5),
        _small_hands("key hands", key, COLORS["orange"], "dot", 2.5),
        bars("score of each pair", [*range(PAIRS)], scores, "green", base=total - scores, marker=stripes, **on_columns),
        label("hatched", -0.4, 2.75, "hatched: takes away", "green", "middle right", cliponaxis=False, **on_columns),
        line("levels", steps, levels, "gray", 1, **on_columns),
        bars("score", [PAIRS + 0.2], [total[-1]], "ink", **above, **on_columns),
    ]
    return dict(data=data, layout=_layout()), {"distance": apart, "pair": pair, "whole": whole}


_QUERY, _KEY, _APART = [("m", "shift")], [("n", "shift")], [("m", "-n")]
two_hands = explorable(
    _two_hands,
    id="intro.two_hands",
    title="Two hands on a clock",
    alt="On top a strip of words with a query, it, and a key, cat, and a bracket that holds them apart. Below, a dial "
    "with a long hand for the query and a short dashed one for the key, each turned by its place in the text, the "
    "arc between them, and the key's projection on the query, which is the score. Eight small dials, from fast to "
    "slow, each with a bar for its score, hatched where it takes away; the bars add up to the sum on the right. Drag "
    "the bracket: every hand turns, no bar moves. Drag one word or one hand: the bars move.",
    readout="{distance} apart · this pair {pair} · sum {whole}",
    handles={"query word": "m", "key word": "n", "bracket": "shift", "query": "m", "key": "n"},
    depends={
        **dict.fromkeys(("query", "query in words", "query hands"), _QUERY),
        **dict.fromkeys(("key", "key in words", "key hands"), _KEY),
        **dict.fromkeys(("bracket", "query word", "key word", "projection", "drop", "angle"), [*_QUERY, *_KEY]),
        **dict.fromkeys(("angle in words", "score in words", "score of each pair", "levels", "score"), _APART),
        "readout": _APART,
    },
    m=slider(range(12), label="query m, before the shift", default=5),
    n=slider(range(12), label="key n, before the shift", default=1),
    shift=slider(range(0, 13), label="words put before both", play=True),
)
