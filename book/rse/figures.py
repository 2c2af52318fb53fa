r"""Explorables of the RSE chapter: what lambda allots, and who comes first."""

import torch

from posenc import stickbreaking
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, held, label, line, path, signed

KEYS = 48
FIRST, RECENT = "key 0 first", "last first"
ARROW = dict(symbol="arrow", angleref="previous", size=[0, 16], opacity=1)
LOOK = dict(height=430, bargap=0.15, barmode="overlay", showlegend=False, margin=dict(t=12, l=12, r=12, b=8))


def broken(logits, order, weigh=stickbreaking.weigh):
    """One query that sees all of these keys: (pieces [n], what is left), order "first" or "recent"."""
    seen = torch.ones(1, len(logits), dtype=torch.bool)
    pieces, left = weigh(logits[None], seen, order, return_remainder=True)
    return pieces[0], float(left[0])


def _allocation(rate, order):
    keys = torch.arange(KEYS, dtype=torch.float64)
    paid = rate * (KEYS - 1 - keys)
    pieces, _ = broken(-paid, "recent" if order == RECENT else "first")
    top, heights = int(pieces.argmax()), pieces / pieces.max()
    start, _ = broken(0 * keys, "recent" if order == RECENT else "first")
    left, bare = order == FIRST, int(start.argmax())
    flag = f"\u2002λ 0: most at key {bare}" if bare != top else " "
    others, way = keys != top, [0, KEYS - 1] if left else [KEYS - 1, 0]
    where = "the query's own" if top == KEYS - 1 else "key 0" if top == 0 else f"{KEYS - 1 - top} tokens back"
    said, low = f"<b>largest: {where}</b><br>weight {pieces[top]:.2f}", -paid[0].item()
    side = (-0.5, "right") if top < KEYS / 3 else (KEYS - 0.5, "left") if top > 2 * KEYS / 3 else (top, "center")
    below, words = [-0.5, KEYS / 2, KEYS - 0.5], ["key 0", "asked in this order", "query"]
    places, over = ["middle right", "middle center", "middle left"], "a key pays <b>λ</b> for each token of distance"
    data = [
        line("what a key pays", keys, -paid, "orange", 3, fill="tozeroy", fillcolor="rgba(196, 85, 0, 0.15)", panel=2),
        label("paid", KEYS / 2, 2.4, over, "orange", "middle center", 14, panel=2),
        held("lambda", 0, low, "orange", size=16, panel=2),
        label("its value", 1.6, low - 3.2, f"<b>λ {rate:g}</b>: drag", "orange", "middle right", 15, panel=2),
        line("pole", [bare, bare], [0, 1.12 * (bare != top)], "gray", 2),
        label("flag", bare, 1.07, flag, "gray", "middle right", 14, True),
        bars("weight", keys[others], heights[others], "green"),
        bars("the largest weight", [top], heights[top : top + 1], "purple", marker=dict(pattern=dict(shape="/"))),
        label("in words", side[0], 1.42, said, "purple", f"middle {side[1]}", 17),
        path("the way", way, [-0.1] * 2, "ink", 2.5, marker=ARROW),
        label("the way, in words", below, [-0.24] * 3, words, "ink", places, 14),
    ]
    layout = LOOK | dict(
        xaxis=axis(-1, KEYS, anchor="y", tickvals=[], zeroline=False),
        yaxis=axis(-0.34, 1.62, domain=[0, 0.63], tickvals=[]),
        yaxis2=axis(-17.5, 3.4, domain=[0.64, 1], tickvals=[]),
        xaxis2=axis(-1, KEYS, anchor="y2", tickvals=[], zeroline=False),
    )
    return dict(data=data, layout=layout)


allocation = explorable(
    _allocation,
    title="What lambda allots",
    alt="Above, a wedge says what each key pays, lambda for each token between it and the query; its left end can be "
    "dragged. Below, a bar for each key's weight, all contents equal, as its part of the largest, which is hatched and "
    "says how far back it stands. A gray flag marks who has most at no lambda. An arrow shows the order. "
    "From key 0 on, as lambda grows, a hill moves up to the query. From the last key back, the query's own has most.",
    see="Drag the wedge's left end, which is λ: where does the hill go?",
    handles={"lambda": "rate"},
    rate=slider([0, 0.02, 0.04, 0.06, 0.08, 0.1, 0.12, 0.15, 0.2, 0.25], label="λ", default=0.1, format="{:g}".format),
    order=slider([FIRST, RECENT], label="order"),
)


PAST = 32
MATCHES = {"older": 7, "newer": 27}  # two keys that match the query, which stands on the last one
MATCH = 2.0  # the logit of both
LOUD = range(-8, -1)  # the logit of all others


def _cut(rate, rest, order, weigh):
    """A stick in the order in which keys are asked: the lengths of older, newer, and the others in three parts."""
    logits = torch.full((PAST,), float(rest), dtype=torch.float64)
    logits[[*MATCHES.values()]] = MATCH
    pieces, _ = broken(logits - rate * (PAST - 1 - torch.arange(PAST)), order, weigh)
    older, newer = MATCHES.values()
    parts = pieces[:older], pieces[older], pieces[older + 1 : newer], pieces[newer], pieces[newer + 1 :]
    return [float(part.sum()) for part in parts[:: 1 if order == "first" else -1]]


def _primacy(rate, rest, *, weigh=stickbreaking.weigh):
    keys = torch.arange(PAST, dtype=torch.float64)
    paid, matches = rate * (PAST - 1 - keys), list(MATCHES.values())
    low, above = MATCH - paid[0].item(), (MATCH - paid)[matches] + 1.9
    spots = [-3.4, *matches, PAST + 2.4], [low, *above.tolist(), rest]
    words = [f"λ {rate:g}:<br><b>drag</b>", *(f"<b>{name}</b>" for name in MATCHES), "others:<br><b>drag</b>"]
    cuts = [_cut(rate, rest, order, weigh) for order in ("first", "recent")]
    before = [_cut(0, LOUD[0], order, weigh)[1] for order in ("first", "recent")]
    lost, heights = [had - cut[1] for had, cut in zip(before, cuts)], [2.4, 0.5]
    thin, edge = dict(width=0.4, orientation="h"), dict(line=dict(color=COLORS["red"], width=2))

    def pieces(name, color, which, shape=""):
        parts = [(n, part) for n in range(2) for part in which[n]]
        x, base = zip(*((cuts[n][part], sum(cuts[n][:part])) for n, part in parts))
        look = dict(base=base, width=0.62, marker=dict(pattern=dict(shape=shape)), hover=f"{name}: %{{x:.2f}}")
        return bars(name, x, [heights[n] for n, _ in parts], color, orientation="h", **look)

    names, parts = ["others", "older", "others", "newer", "others"], [(n, part) for n in range(2) for part in range(5)]
    said = [f"<b>{names[:: 1 - 2 * n][part]}</b>" if cuts[n][part] > 0.15 else " " for n, part in parts]
    centers = [sum(cuts[n][:part]) + cuts[n][part] / 2 for n, part in parts]
    kept, under = [cut[1] for cut in cuts], [height - 0.56 for height in heights]
    stays = [f"{name} kept" if part > 0.3 else " " for name, part in zip(MATCHES, kept)]
    loses = [f"<b>loses {part:.2f}</b>" if part > 0.005 else " " for part in lost]
    inside, sides = [part > 0.33 for part in lost], ["middle left", *["middle center"] * 2, "middle right"]
    spot = [had - part / 2 if wide else had - part - 0.01 for had, part, wide in zip(before, lost, inside)]
    place = ["middle center" if wide else "middle left" for wide in inside]
    data = [
        line("a match pays", keys, MATCH - paid, "orange", 2, panel=2),
        line("the others pay", keys, rest - paid, "gray", 3, "dot", panel=2),
        dots("matches", matches, (MATCH - paid)[matches], ["orange", "blue"], 16, ["star", "star-square"], panel=2),
        held("tilt", 0, low, "orange", size=16, panel=2),
        held("others' level", PAST - 1, rest, "gray", "square", size=15, panel=2),
        label("logits in words", *spots, words, "ink", sides, 14, panel=2),
        pieces("others", "gray", [(0, 2, 4)] * 2, "."),
        pieces("older", "orange", [(1,), (3,)]),
        pieces("newer", "blue", [(3,), (1,)], "/"),
        bars("kept", kept, under, ["orange", "blue"], hover="kept: %{x:.2f}", marker=dict(opacity=0.5), **thin),
        bars("lost", lost, under, "rgba(0, 0, 0, 0)", base=kept, hover="lost: %{x:.2f}", marker=edge, **thin),
        label("parts", centers, [heights[n] for n, _ in parts], said, "ink", "middle center", 14, True),
        label("kept, named", [0.01] * 2, under, stays, "ink", "middle right", 14, True),
        label("loses", spot, under, loses, "red", place, 18, True),
        label("orders", [0, 0], [3.0, 1.1], [f"<b>{FIRST}</b>", f"<b>{RECENT}</b>"], "ink", "middle right", 15),
    ]
    layout = LOOK | dict(
        xaxis=axis(0, 1, tickvals=[], zeroline=False),
        yaxis=axis(-0.3, 3.3, domain=[0, 0.68], tickvals=[]),
        xaxis2=axis(-8, PAST + 7, tickvals=[], anchor="y2", zeroline=False),
        yaxis2=axis(-11, 5, domain=[0.7, 1], tickvals=[], zeroline=False),
        meta=dict(phone=dict(xaxis2=dict(range=[-13.5, PAST + 12.5]))),
    )
    return dict(data=data, layout=layout)


primacy = explorable(
    _primacy,
    title="Primacy against recency",
    alt="Above, logits over keys: two named stars are equal matches on a line, others lie on a dotted one. Drag the "
    "diamond at its left end down, and lambda tilts both; drag the others' square up or down. Below, two sticks, cut "
    "in the order in which keys are asked: key 0 first, and the last key first. The older match's piece is plain, the "
    "newer one's hatched, the others' dotted. A bar under each stick is the favored match's piece with no lambda and "
    "silent others: what it keeps is filled, what it loses is framed in red, with its number. With no lambda it loses "
    "more with key 0 first. As lambda grows, the newer match takes over there; below it leads at any lambda.",
    see="Drag the others' square up: from which stick do they take more?",
    handles={"tilt": "rate", "others' level": "rest"},
    rate=slider([n / 100 for n in range(21)], label="λ", default=0.0, format="{:g}".format),
    rest=slider(LOUD, label="others' logit", default=-8, format=signed),
)
