r"""Explorables on position ids: which tokens and pairs they are wrong for, and what that costs a trained model."""

import functools

import torch

from posenc.lab.experiments import load_results, mean_and_spread
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line, number, pin
from posenc.methods import METHODS

load = functools.cache(load_results)

PARTS = {"a cache": ("cached", "new"), "padding": ("pads", "text"), "packing": ("text A", "text B")}
DECODING, PADDING, PACKING = PARTS
CAT, RAIN, TOKENS = ("the", "cat", "sat", "down"), ("it", "rained", "hard"), 4
EDGE, THICK = (dict(color=COLORS[name], width=3) for name in ("blue", "orange"))


def given(situation, n):
    r"""TOKENS words, n of them old, pads, or of the first text; their right ids, ids by index, visible pairs [T, T]."""
    index, rest = torch.arange(TOKENS), TOKENS - n
    causal, anew = index[:, None] >= index[None, :], torch.where(index < n, index, index - n)
    if situation == DECODING:
        return CAT, index, anew, causal
    if situation == PADDING:
        real = index >= n
        return (*["pad"] * n, *CAT[:rest]), (index - n).clamp(min=0), index, causal & real & real[:, None]
    return (*CAT[:n], *RAIN[:rest]), anew, index, causal & ((index[:, None] < n) == (index[None, :] < n))


def distances(situation, n):
    r"""Distances that ids by index tell, the right ones, and which visible pairs are told a wrong one, all [T, T]."""
    _, right, told, seen = given(situation, n)
    told, right = (ids[:, None] - ids for ids in (told, right))
    return told, right, seen & (told != right)


def _ids(situation, n):
    words, right, told, seen = given(situation, n)
    own = [f"<b>{i}</b>" + f", not {j}" * (i != j) for i, j in zip(told.tolist(), right.tolist())]
    told, right, bad = distances(situation, n)
    counts, here, tokens = [int(distances(each, n)[2].sum()) for each in PARTS], [*PARTS].index(situation), [0, 1, 2, 3]
    (y, x), (bad_y, bad_x), thirds = seen.nonzero().T.tolist(), bad.nonzero().T.tolist(), [-0.47, 1.13, 2.73]
    hid_y, hid_x = (torch.ones_like(seen).tril() & ~seen).nonzero().T.tolist()
    truths = [f"not {d}" if off else " " for d, off in zip(right[seen].tolist(), bad[seen].tolist())]
    key = "row: query<br>column: key<br>cell: distance told"
    verdicts = [(count, f"<b>{count} wrong</b>") for count in counts]

    def cells(name, x, y, color, height=0.94, width=0.96, **more):
        return bars(name, x, [height] * len(x), color, base=[q - height / 2 for q in y], width=width, **more)

    def say(name, x, y, text, size=15, color="ink", place="center"):
        return label(name, x, y, text, color, f"middle {place}", size)

    data = [
        cells("tokens", tokens, [-1.65] * TOKENS, "blue", 0.74, opacity=0.2),
        cells("seen", x, y, "rgba(110, 120, 130, 0.3)"),
        cells("hidden", hid_x, hid_y, "rgba(0, 0, 0, 0)", marker=dict(line=dict(color=COLORS["gray"], width=1))),
        cells("told wrong", bad_x, bad_y, "rgba(255, 170, 80, 0.5)", 0.9, 0.93, marker=dict(line=THICK)),
        cells("cases", thirds, [4.42] * 3, "gray", 1.1, 1.52, opacity=0.2),
        cells("this case", [thirds[here]], [4.42], "rgba(0, 0, 0, 0)", 1.1, 1.52, marker=dict(line=EDGE)),
        say("words", tokens, [-1.65] * TOKENS, [*words], 16),
        say("ids", tokens, [-0.9] * TOKENS, ["–" if word == "pad" else one for word, one in zip(words, own)]),
        say("distances", x, [q - 0.07 for q in y], [f"<b>{number(d, 0)}</b>" for d in told[seen].tolist()], 17),
        say("right or not", x, [q + 0.27 for q in y], truths, 14),
        say("not seen", hid_x, hid_y, ["hidden"] * len(hid_x), 14, "gray"),
        say("queries", [-0.6] * 5, [-0.9, *tokens], ["id", *words], place="left"),
        say("what is what", [3.5], [0.4], [key], 14, place="left"),
        say("parts", [n / 2 - 0.5, n / 2 + 1.5], [-2.95] * 2, PARTS[situation], color="blue"),
        say("hand", [n - 0.24], [-2.35], ["drag"], 14, place="right"),
        pin("border", n - 0.5, -1.25, -2.35, dash="dash"),
        say("case names", thirds, [4.15] * 3, [*PARTS]),
        say("none wrong", thirds, [4.65] * 3, [said * (not count) for count, said in verdicts], 17),
        say("some wrong", thirds, [4.65] * 3, [said * (count > 0) for count, said in verdicts], 17, "orange"),
    ]
    layout = dict(height=450, showlegend=False, margin=dict(l=4, r=4, t=4, b=4), barmode="overlay")
    layout |= dict(xaxis=axis(-1.3, 3.55, visible=False), yaxis=axis(5.05, -3.3, visible=False))
    return dict(data=data, layout=layout)


ids = explorable(
    _ids,
    title="Who is told a wrong distance?",
    alt="A row of four words with their ids, and below it a triangle, a row for each query and a column for each key. "
    "A gray cell holds the distance that two ids tell; a wrong one is orange, thickly framed, the right one below. "
    "Buttons choose a cache, padding or two texts; their border can be dragged. Below stands how many are wrong in "
    "each: some with a cache, none under padding or in a packed row.",
    see="Press each case, drag its border: which cells tell a wrong distance?",
    handles={"border": "n"},
    situation=slider([*PARTS], label="case"),
    n=slider(range(1, TOKENS), label="tokens before the border", default=2),
)


NEW, ALL = "new tokens only", "all tokens"
OLD, COUNT = {NEW: 48, ALL: 0}, {NEW: 16, ALL: 32}  # tokens with right ids in the cache, and tokens whose ids are off
OFF = (0, 1, 2, 4, 8)
ASKED = ("sinusoidal", "rope", "alibi")
SPREAD = f"%{{x:.2f}} ± %{{customdata:.2f}}: mean ± standard deviation, {len(load('practice')['seeds'])} seeds"


def added(method, which, off):
    r"""What ids that are `off` by so much add to each seed's loss."""
    results = load("practice")
    kind, known, wanted = ("new", "offsets", -off) if which == NEW else ("all", "shifts", off)
    place, zero = results[known].index(wanted), results[known].index(0)
    return [row[place] - row[zero] for row in results["methods"][method][kind]]


def _wrong_ids(which, off):
    shown = (which, off), (NEW, OFF[-1])
    (now, spread), (most, _) = (zip(*(mean_and_spread(added(method, *state)) for method in ASKED)) for state in shown)
    right, count, top = OLD[which], COUNT[which], max(most)
    start, rows = abs(right - off), [0, 1, 2]
    low, high, side = (28, 66, "left") if which == NEW else (-2, 42, "right")
    block, hatch = dict(orientation="h", width=0.8, panel=2), dict(pattern=dict(shape="/"))
    frame = [right, right + count, right + count, right, right], [0.55, 0.55, 1.45, 1.45, 0.55]
    loose, said = dict(panel=2, cliponaxis=False), [f"<b>{number(loss)}</b>" for loss in now]
    data = [
        bars("off by the most", most, rows, "rgba(110, 120, 130, 0.3)", orientation="h", width=0.86),
        bars("added", now, rows, "orange", orientation="h", width=0.56, customdata=spread, hover=SPREAD),
        label("how much", [max(loss, 0) + 0.02 * top for loss in now], rows, said, "ink", "middle right", 18),
        bars("old ids", [right], [0], "blue", **block),
        bars("given ids", [count], [1], "orange", base=[start], marker=hatch, **block),
        line("right ids", *frame, "ink", 2, "dot", panel=2),
        held("first id", start, 1, "orange", "square", 17, panel=2),
        label("how far off", start, 2, f"<b>off by {off}</b>, drag", "ink", f"middle {side}", 15, **loose),
    ]
    titles = [METHODS[method].title for method in ASKED]
    names = dict(tickvals=[0, 1], ticktext=["cached", "new"] if which == NEW else ["", "all"], tickfont=dict(size=14))
    plain = dict(ticks="", zeroline=False, showgrid=False)
    layout = dict(
        dict(height=420, showlegend=False, margin=dict(t=4), barmode="overlay"),
        xaxis=axis(0, 1.3 * top, f"nats added (pale: new tokens off by {OFF[-1]})", anchor="y", tickvals=[0, 0.5]),
        yaxis=axis(2.6, -0.6, domain=[0, 0.58], tickvals=rows, ticktext=titles, tickfont=dict(size=15), **plain),
        xaxis2=axis(low, high, anchor="y2", nticks=6, tickprefix="id ", tickfont=dict(size=12), showgrid=False),
        yaxis2=axis(-0.5, 2.5, domain=[0.72, 1], **names, **plain),
    )
    return dict(data=data, layout=layout)


wrong_ids = explorable(
    _wrong_ids,
    title="What do wrong ids cost?",
    alt="Above, on a line of ids, a block of cached tokens and one of new ones, with a dotted frame where it should "
    "stand; its first id can be dragged. Below, a bar each for sinusoidal positions, RoPE and ALiBi: what the wrong "
    "ids add to the loss of a trained model; pale, what new ids off by 8 add. Off by one, RoPE's bar is far the "
    "longest. Where all tokens are off together, next to nothing is added.",
    see="Drag the new ids toward their frame: whose bar is the last to shrink?",
    handles={"first id": "off"},
    which=slider([NEW, ALL], label="ids off"),
    off=slider(OFF, label="off by, tokens", default=8, play=True),
)
