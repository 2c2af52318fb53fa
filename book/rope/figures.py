r"""Explorables of the RoPE chapter."""

import math
from functools import cache

import torch

from posenc import rope
from posenc.chapters.rope import facts
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import arrow, axis, held, label, level, line, number, path, upright

PAIRS = 8  # pairs of lanes in the plane: D = 16
LAST = 36  # the last token that query or key reaches
SPEEDS = rope.inv_freq(2 * PAIRS, dtype=torch.float64)
SLOW = 4  # a token turns this pair and those after it by less than a degree: nothing to take in hand


@cache
def _content():
    r"""A query and a key before rotation, [2, PAIRS, 2]: every pair of the query has length 1.3, of the key 1."""
    phase = 2 * math.pi * torch.rand(2, PAIRS, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
    lengths = torch.tensor([1.3, 1.0], dtype=torch.float64)
    return torch.stack((phase.cos(), phase.sin()), dim=-1) * lengths[:, None, None]


@cache
def _turned(which, position, rotate):
    r"""The query (0) or the key (1) turned to `position`, by the interleaved layout: [PAIRS, 2]."""
    flat = _content()[which].reshape(1, -1)
    return rotate(flat, torch.tensor([position], dtype=torch.float64), SPEEDS).view(PAIRS, 2)


@cache
def _scores_at(distance, rotate):
    r"""The score of each pair, the query `distance` tokens after the key: [PAIRS]."""
    return (_turned(0, distance, rotate) * _content()[1]).sum(-1)


@cache
def _wave(rotate):
    r"""Distances -LAST .. LAST in half tokens, and the score of each pair there: [n], [n, PAIRS]."""
    distances = torch.arange(-2 * LAST, 2 * LAST + 1, dtype=torch.float64) / 2
    return distances, torch.stack([_scores_at(d, rotate) for d in distances.tolist()])


def _tip(name, end, color, symbol, pair):
    """The end of an arrow, to take in hand where its pair is not a slow one."""
    return held(name, *end.tolist(), color, symbol, 6) | ({} if pair < SLOW else dict(x=[], y=[]))


def _invariance(shift, m, n, pair, *, rotate=rope.rotate):
    at_q, at_k, mid = m + shift, n + shift, (m + n) / 2 + shift
    q, k = _turned(0, at_q, rotate)[pair], _turned(1, at_k, rotate)[pair]
    distances, wave = _wave(rotate)
    scores = _scores_at(m - n, rotate)
    score = number(scores[pair].item(), 3)
    blue, orange, green, purple = (COLORS[name] for name in ("blue", "orange", "green", "purple"))
    right, grip = dict(xaxis="x2", yaxis="y2"), dict(size=[0, 0, 0, 12], color=purple, opacity=1)
    drag = dict(mode="lines+markers+text", text=["", "", "", "\xa0\xa0\xa0◂ drag ▸\xa0\xa0\xa0"], cliponaxis=False)
    side, spline = "right" if at_q + at_k < LAST else "left", dict(line=dict(shape="spline"))
    drag |= dict(textposition=f"middle {side}", textfont=dict(size=12, color=purple))

    def name(of, end, aside, color):  # within the circles, which then take all the room
        x, y = (0.7 * end + aside / end.norm() * torch.stack((-end[1], end[0]))).tolist()
        return label(of, x, y, f"<b>{of}</b>", color, "middle center", 15, halo=True)

    data = [
        arrow("query, turned", q, blue),
        arrow("key, turned", k, orange, 3, "5px,3px"),
        _tip("end of the query", q, blue, "circle", pair),
        _tip("end of the key", k, orange, "diamond", pair),
        name("q", q, 0.15, blue),
        name("k", k, -0.15, orange),
        level("score", scores[pair].item(), 0, LAST, green, 5, **right),
        line("score of this query by the key's place", at_q - distances, wave[:, pair], "ink", 2, **spline, **right),
        label("wave's name", LAST / 2, 1.95, "score with a key at each place", "ink", "middle center", **right),
        upright("key's place", at_k, -1.75, 1.5, orange, 2, "dash", **right),
        upright("query's place", at_q, -1.75, 1.5, blue, **right),
        # a level line would be held anywhere, and moved up and down
        path("bracket", [at_k, at_q, mid, mid], [*3 * [-1.75], -2.4], purple, 3, marker=grip, panel=2) | drag,
    ]
    circles = [
        dict(type="circle", x0=-r, x1=r, y0=-r, y1=r, line=dict(color=COLORS["gray"], width=1), layer="below")
        for r in (1, 1.3)
    ]
    plane = dict(showticklabels=False, showgrid=False, zeroline=False, constrain="domain")
    phone = dict(yaxis=dict(domain=[0.47, 1]), yaxis2=axis(-2.9, 2.4, domain=[0, 0.45]), margin=dict(l=8, r=8, b=34))
    phone |= dict(xaxis=dict(domain=[0, 1], title=dict(text="")), xaxis2=dict(domain=[0, 1]))
    layout = dict(height=460, showlegend=False, margin=dict(l=8, t=6), shapes=circles)
    layout |= dict(
        xaxis=dict(plane, range=[-1.4, 1.4], domain=[0, 0.55], title=dict(text="lanes 2i and 2i + 1")),
        yaxis=dict(plane, range=[-1.4, 1.4], scaleanchor="x"),
        xaxis2=axis(-1, LAST + 1, "place in the text", domain=[0.63, 1], anchor="y2"),
        yaxis2=axis(-2.9, 2.4, anchor="x2", tickvals=[-1, 0, 1], title=dict(text="score", standoff=2)),
        meta=dict(phone=phone),
    )
    whole = number(scores.sum().item(), 3)
    return dict(data=data, layout=layout), {"distance": number(m - n, 0), "score": score, "whole": whole}


_QUERY, _KEY, _APART = ("m", "shift"), ("n", "shift"), ("m", "-n")
rotation_invariance = explorable(
    _invariance,
    id="rope.rotation_invariance",
    title="Two vectors turn, their score stays",
    alt="One pair of lanes as a plane: a query arrow and a dashed key arrow from the origin, each turned by its place "
    "in the text. Beside it, on a phone below, the places: an upright line for the query, a dashed one for the key, a "
    "bracket between them, and the wave of scores that this query has with a key at each place. The wave crosses the "
    "key's line at the level green line, the score. Drag the bracket: arrows, lines and wave move on, and the green "
    "line stays. Drag one arrow alone, and it goes up or down; the arrows of slow pairs hardly turn, and cannot be "
    "dragged.",
    readout="distance {distance} · score of this pair {score} · all 8 pairs: {whole}",
    handles={"bracket": "shift", "end of the query": "m", "end of the key": "n"},
    depends={
        **dict.fromkeys(("query, turned", "end of the query", "q"), [_QUERY, "pair"]),
        **dict.fromkeys(("key, turned", "end of the key", "k"), [_KEY, "pair"]),
        **dict.fromkeys(("score", "readout.score"), [_APART, "pair"]),
        **dict.fromkeys(("readout.distance", "readout.whole"), [_APART]),
        "score of this query by the key's place": [_QUERY, "pair"],
        "query's place": [_QUERY],
        "key's place": [_KEY],
        "bracket": [_QUERY, _KEY],
    },
    shift=slider(range(0, LAST - 11), label="shift of both positions", play=True),
    m=slider(range(13), label="query position m", default=7),
    n=slider(range(13), label="key position n", default=3),
    pair=slider(range(PAIRS), label="pair of lanes i", default=1),
)


L = facts.L
SHOWN = 160  # distances that are drawn: two and a half times the training length, and wide enough for a phone


def _trained_head(slow, fast):
    scores = facts.scores_of(facts.DRAWN, torch.where(facts.SLOW, slow, fast))[:SHOWN]
    highest, hover = scores[:L].max(), "distance %{x}: %{y:.1f}<extra></extra>"

    def turning(name, last, height, color, symbol):  # not quite level: a level line would be moved up and down
        grip = dict(color=color, symbol=symbol, size=[0, 13], opacity=1)
        return path(f"{name} pairs turn", [0, last], [height, height + 0.1], color, 4, marker=grip, cliponaxis=False)

    sides, names = [L - 2, L + 2], ["slow pairs turn", "fast pairs turn"]
    data = [
        line("score", torch.arange(L + 1), scores[: L + 1], "ink", 2.5, hover=hover),
        line("score beyond", torch.arange(L, SHOWN), scores[L:], "blue", 3.5, hover=hover),
        level("highest in training", highest, 0, SHOWN, "gray", 1.5, "dash"),
        label("its name", L - 2, highest + 0.4, "highest here", "gray", "top left"),
        upright("training length", L, -35, 19, "gray", 1.5, "dashdot"),
        label("sides", sides, [17.5] * 2, ["trained", "never seen"], "gray", ["middle left", "middle right"]),
        turning("slow", slow, -25, "orange", "circle"),
        turning("fast", fast, -33, "purple", "diamond"),
        label("their names", [0, 0], [-24.5, -32.5], names, ["orange", "purple"], "top right"),
    ]
    layout = dict(
        height=420,
        showlegend=False,
        margin=dict(t=10),
        xaxis=axis(-3, SHOWN + 1, "distance m − n, in tokens"),
        yaxis=axis(-35, 19, "score q · k / √D", tickvals=[-10, 0, 10]),
    )
    return dict(data=data, layout=layout), {
        "highest": number(highest.item(), 1),
        "far": number(scores[L:].max().item(), 1),
    }


_LAST = range(L - 1, SHOWN, 8)
trained_head = explorable(
    _trained_head,
    title="Which pairs bring far keys back?",
    alt="The mean score of a trained head against distance, up to two and a half times the training length. Within it "
    "the score peaks a token or two away, and falls. Past the upright line, at distances that training never showed, "
    "it climbs above that peak in waves. Two bars under the curve say up to which distance the slow and the fast pairs "
    "turn. Drag the end of the slow pairs' bar back to the upright line, and far keys stay low; drag that of the fast "
    "pairs, and a hill stays, lower and without its ripples.",
    readout="highest score: {highest} in training · {far} beyond",
    handles={"slow pairs turn": "slow", "fast pairs turn": "fast"},
    slow=slider(_LAST, label="slow pairs turn up to", default=SHOWN - 1),
    fast=slider(_LAST, label="fast pairs turn up to", default=SHOWN - 1),
)
