r"""Explorables of the RoPE chapter."""

import math
from functools import cache

import torch

from posenc import rope
from posenc.chapters.rope import facts
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import arrow, axis, bars, held, label, level, line, number, path, upright

PAIRS = 8  # pairs of lanes in the plane: D = 16
DRAWN = {"pair 1": 1, "pair 7": 7}
LAST = 28  # the last token that query or key reaches
SPEEDS = rope.inv_freq(2 * PAIRS, dtype=torch.float64)
START = dict(shift=0, m=7, n=3)


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


def _invariance(shift, m, n, *, rotate=rope.rotate):
    at_q, at_k, mid = m + shift, n + shift, (m + n) / 2 + shift
    purple, data, axes = COLORS["purple"], [], {}
    bare = dict(showticklabels=False, showgrid=False, zeroline=False, ticks="")
    for panel, (name, pair) in enumerate(DRAWN.items(), 1):
        q, k = _turned(0, at_q, rotate)[pair], _turned(1, at_k, rotate)[pair]
        was = [_turned(which, START[at], rotate)[pair].tolist() for which, at in ((0, "m"), (1, "n"))]
        first, last = (math.atan2(tip[1], tip[0]) for tip in (q, k))
        between = math.remainder(last - first, 2 * math.pi)
        turns = first + torch.linspace(0, between, 9, dtype=torch.float64)
        fan = [[0, *(0.5 * turns.cos()).tolist(), 0], [0, *(0.5 * turns.sin()).tolist(), 0]]
        ghost, both = zip((0, 0), was[0], (math.nan, math.nan), (0, 0), was[1]), (was, (q.tolist(), k.tolist()))
        before, score = (number(sum(a * b for a, b in zip(*tips))) for tips in both)
        aside = [first - math.copysign(0.25, between), last + math.copysign(0.3, between)]  # of the two letters
        q_k = [[0.8 * of(angle) for angle in aside] for of in (math.cos, math.sin)]
        here, more = dict(place="middle center", panel=panel), ", the slowest" * (pair == PAIRS - 1)
        data += [
            label(f"{name}: named", 0, 1.55, f"<b>{name}</b>{more}", "ink", size=14, **here),
            line(f"{name}: where they were", *ghost, "gray", 2, panel=panel, opacity=0.45),
            line(f"{name}: angle between", *fan, "green", 0, fill="toself", opacity=0.35, panel=panel),
            arrow(f"{name}: query", q, COLORS["blue"], 4, panel=panel),
            arrow(f"{name}: key", k, COLORS["orange"], 4, "6px,3px", panel=panel),
            label(f"{name}: letters", *q_k, ["<b>q</b>", "<b>k</b>"], ["blue", "orange"], size=15, **here),
            label(f"{name}: before", 0, -1.7, f"score {before}", "gray", "middle left", 13, panel=panel),
            label(f"{name}: score", 0, -1.7, f"<b>\xa0→ {score}</b>", "green", "middle right", 16, panel=panel),
        ]
        tag, left = str(panel) if panel > 1 else "", 0.5 * (panel - 1)
        axes[f"xaxis{tag}"] = dict(
            bare, range=[-1.6, 1.6], constrain="domain", domain=[left, left + 0.5], anchor=f"y{tag}"
        )
        axes[f"yaxis{tag}"] = dict(bare, range=[-1.95, 1.7], scaleanchor=f"x{tag}", domain=[0.31, 1])
    grip = dict(size=[0] * 5 + [13], color=purple, opacity=1)
    names, sides = ["<b>key</b>\xa0\xa0\xa0", "\xa0\xa0\xa0<b>query</b>"], ["middle left", "middle right"]
    ticks, bend = [0, 10, 20], [at_k, at_k, *[at_q] * 3, mid]
    data += [
        line("text", [0, 0, 10, 10, 10, 20, 20, 20, LAST], [0.3, 0, 0, 0.3, 0, 0, 0.3, 0, 0], "gray", 1, panel=3),
        label("their names", ticks, [-0.9] * 3, ["place 0", "10", "20"], "gray", "middle center", 12, panel=3),
        held("key's place", at_k, 1.3, "orange", "diamond", 16, panel=3),
        held("query's place", at_q, 0, "blue", "circle", 16, panel=3),
        label("words", [at_k, at_q], [1.3, 0], names, ["orange", "blue"], sides, 15, panel=3, halo=True),
        path("bracket", bend, [2.2, 2.6, 2.6, 2.2, 2.6, 2.6], purple, 3, marker=grip, panel=3),
        label("how", mid, 3.7, "drag both", purple, "middle center", 14, panel=3, cliponaxis=False),
    ]
    rim = dict(type="circle", line=dict(color=COLORS["gray"], width=1), layer="below")
    rims = [rim | dict(x0=-r, x1=r, y0=-r, y1=r, xref=f"x{n}", yref=f"y{n}") for r in (1, 1.3) for n in ("", "2")]
    phone = {"yaxis": dict(domain=[0.47, 1]), "yaxis2": dict(domain=[0.47, 1]), "yaxis3": dict(domain=[0, 0.44])}
    layout = dict(height=460, showlegend=False, margin=dict(l=8, r=8, t=4, b=4), shapes=rims)
    layout |= axes | dict(
        meta=dict(phone=phone),
        xaxis3=axis(-5.5, LAST + 9, anchor="y3", **bare),
        yaxis3=axis(-1.7, 4.3, anchor="x3", domain=[0, 0.28], **bare),
    )
    return dict(data=data, layout=layout), {"distance": number(m - n, 0)}


rotation_invariance = explorable(
    _invariance,
    id="rope.rotation_invariance",
    title="Two vectors turn, their score stays",
    alt="Two pairs of lanes as planes, a fast one and the slowest: in each the arrow of a query and a dashed one of a "
    "key, turned by their places in the text, pale where they were at first, the angle between them filled, and the "
    "score, at first and now. Below, the text as a line, query and key on it, a bracket over both. Drag it: the fast "
    "arrows turn, their angle and score stay. Drag one mark: in the fast pair both change, in the slow one hardly.",
    see="Drag key or query alone, then both by the bracket: which scores change?",
    readout="distance {distance}",
    handles={"bracket": "shift", "query's place": "m", "key's place": "n"},
    shift=slider(range(20), label="shift of both", play=True),
    m=slider(range(10), label="query's place m", default=7),
    n=slider(range(10), label="key's place n", default=3),
)


L = facts.L
SHOWN, BIN, FLOOR = 160, 4, -18  # distances that are drawn, those of a bar, and where bars stand
STOPPED = {"slow": facts.SLOW, "fast": ~facts.SLOW, "all": facts.SLOW | ~facts.SLOW}


def _trained_head(which, last):
    free, scores = (  # the highest of each few distances
        facts.scores_of(facts.DRAWN, torch.where(STOPPED[which], end, math.inf))[:SHOWN].view(-1, BIN).amax(1)
        for end in (math.inf, last)
    )
    at, highest = torch.arange(0, SHOWN, BIN) + BIN / 2, scores[: L // BIN].max().item()
    near, far, over = at < L, at > L, scores[L // BIN :].max().item() - highest
    said, color = ("higher", "orange") if over > 0 else ("lower", "green")
    said = f"<b>{number(abs(over), 1)} {said}</b><br>than any in training"

    def stack(name, some, up, color, base=FLOOR, wide=0.8 * BIN, **look):
        return bars(name, at[some], up[some] - base, color, base=base, width=wide, **look)

    grip = dict(color=COLORS["purple"], symbol="diamond", size=[0, 16], opacity=1)
    middle, hatched = (L + SHOWN) / 2, dict(pattern=dict(shape="/", size=6))
    data = [
        stack("as trained", far, free, "rgba(125, 131, 140, 0.3)", wide=BIN),
        stack("score", near, scores, "rgba(107, 114, 128, 0.8)"),
        stack("score beyond", far, scores.clamp(max=highest), "blue"),
        stack("above", far & (scores > highest), scores, "orange", highest, marker=hatched),
        level("highest in training", highest, 0, SHOWN, "ink", 1.5, "dash"),
        upright("training length", L, FLOOR, 28, "gray", 1.5, "dashdot"),
        label("sides", [L / 2, middle], [26] * 2, ["trained", "never seen"], "gray", "middle center", 14),
        label("how much", middle, 21, said, color, "middle center", 16, halo=True),
        path("these pairs turn", [0, last], [-27, -26.9], "purple", 6, marker=grip, cliponaxis=False),
        label("their name", 0, -22.8, f"<b>{which} pairs turn</b>, drag the end", "purple", "middle right", 14),
    ]
    layout = dict(height=420, showlegend=False, barmode="overlay", margin=dict(t=6))
    layout |= dict(
        xaxis=axis(-3, SHOWN + 3, "tokens back", zeroline=False, tickvals=[0, L, 128], showgrid=False),
        yaxis=axis(-29, 28, "highest score of 4 tokens", tickvals=[-10, 0, 10], zeroline=False),
    )
    return dict(data=data, layout=layout), {"which": which, "last": last}


trained_head = explorable(
    _trained_head,
    title="Which pairs bring far keys back?",
    alt="The score of a trained head as bars against distance, each the highest of four tokens, up to two and a half "
    "times the training length. The highest stand a token or two away, at a dashed level. Past the upright line, at "
    "distances that training never showed, bars climb above that level in waves, hatched, and a word says by how much. "
    "A bar under them says up to which distance the chosen pairs turn. Drag its end back: with the slow pairs stopped "
    "far keys stay low, with the fast ones a hill is left. Pale bars are the head as trained.",
    see="Choose pairs, drag their end back: how high do far keys come?",
    readout="{which} pairs turn up to {last}",
    handles={"these pairs turn": "last"},
    which=slider([*STOPPED], label="stop the pairs"),
    last=slider([*range(L - 1, SHOWN, 8)][::-1], label="they turn up to"),
)
