r"""Explorables on position ids: which tokens and pairs they are wrong for, and what that costs a trained model."""

import functools
import math

import torch

from posenc.lab.experiments import load_results, mean_and_spread
from posenc.lab.explore import COLORS, DIVERGING, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, heat, held, label, level, line, signed, upright
from posenc.methods import METHODS

load = functools.cache(load_results)

TOKENS = 8
DECODING, PADDING, PACKING = "a cache", "padding", "packing"
PARTS = {DECODING: ("cached", "new"), PADDING: ("pads", "text"), PACKING: ("text A", "text B")}
WRONG, MENDED = "wrong", "mended"


def given(situation, n):
    r"""Names, ids and visible pairs of TOKENS tokens, as they should be and as they go wrong.

    n: tokens in the cache, pads, or tokens of the first text.
    Returns: (names, right ids, wrong ids, right pairs, wrong pairs); ids [T], pairs [T, T] bool.
    """
    index = torch.arange(TOKENS)
    causal = index[:, None] >= index[None, :]
    if situation == DECODING:  # begun anew at 0, and a causal mask aligned at the top left
        names = [f"old {i}" for i in range(n)] + [f"new {i}" for i in range(TOKENS - n)]
        own = torch.where(index < n, index, index - n)
        top_left = torch.where(index[:, None] < n, causal, index[:, None] - n >= index[None, :])
        return names, index, own, causal, top_left
    if situation == PADDING:  # counted by index, and the pads not hidden
        names = ["pad"] * n + [f"word {i}" for i in range(TOKENS - n)]
        real = index >= n
        return names, (index - n).clamp(min=0), index, causal & real & real[:, None], causal & real[:, None]
    names = [f"A {i}" for i in range(n)] + [f"B {i}" for i in range(TOKENS - n)]
    same = (index[:, None] < n) == (index[None, :] < n)
    return names, torch.where(index < n, index, index - n), index, causal & same, causal


def _ids(situation, ids, mask, n):
    names, right, wrong, seen_right, seen_wrong = given(situation, n)
    positions = right if ids == MENDED else wrong
    visible = seen_right if mask == MENDED else seen_wrong
    counts = torch.tensor([name != "pad" for name in names])  # a pad's own id is nobody's business
    off = torch.where(counts, positions - right, torch.zeros_like(right))
    offset = (positions[:, None] - positions[None, :]) - (right[:, None] - right[None, :])
    shown = torch.where(visible & seen_right, offset.double(), math.nan)
    extra, missing = ((a & ~b).nonzero().T.flip(0) for a, b in ((visible, seen_right), (seen_right, visible)))  # x, y
    broken = (torch.nan_to_num(shown) != 0).nonzero().tolist()
    cells, (y, x) = list(range(TOKENS)), zip(*broken) if broken else ([], [])
    asks, key, thick = "token %{y:d}", "token %{x:d}", dict(line=dict(width=2))
    words = dict(type="scatter", mode="text", hoverinfo="skip", showlegend=False)
    unseen = f"{asks} does not see {key}, and must"
    shades = dict(zmin=-10, zmax=10, colorscale=DIVERGING, xgap=2, ygap=2, showscale=False)

    def said(name, values, y, which, color, form="{}"):
        words = [form.format(value) for value, wanted in zip(values, which) if wanted]
        return label(name, [n for n in cells if which[n]], [y] * len(words), words, color, "middle center")

    own, wanted = ([p if real else "–" for p, real in zip(ids.tolist(), counts)] for ids in (positions, right))
    data = [
        heat("offset off by", cells, cells, shown, hover=f"{asks} asks {key}: offset off by %{{z}}", **shades),
        dict(words, name="by how much", x=x, y=y, text=[signed(shown[q, k]) for q, k in broken]),
        dots("seen, must not be", *extra, "red", 9, "x", hover=f"{asks} sees {key}, and must not"),
        dots("hidden, must be seen", *missing, "purple", 10, "circle-open", marker=thick, hover=unseen),
        said("right ids", wanted, -2.1, [True] * TOKENS, "gray"),
        said("ids that are right", own, -1.1, (off == 0).tolist(), "ink"),
        said("ids that are wrong", own, -1.1, (off != 0).tolist(), "orange", "<b>{}</b>"),
        level("border of the queries", n - 0.5, -0.5, TOKENS - 0.5, "ink", 2, "dash"),
        upright("border", n - 0.5, TOKENS - 0.5, -2.7, "ink", 2, "dash"),
    ]
    middles, parts = [(n - 1) / 2, (n + TOKENS - 1) / 2], list(PARTS[situation])
    plain = dict(showgrid=False, zeroline=False, ticks="")
    below = dict(text="gray: offset right; a number: off by so much", standoff=2)
    layout = dict(
        height=460,
        margin=dict(l=64, r=8, b=40),
        xaxis=axis(-0.6, TOKENS - 0.4, below, tickvals=middles, ticktext=parts, tickangle=0, **plain),
        yaxis=axis(
            TOKENS - 0.4, -2.8, tickvals=[-2.1, -1.1, *middles], ticktext=["right id", "its id", *parts], **plain
        ),
    )
    return dict(data=data, layout=layout), {
        "tokens": int((off != 0).sum()),
        "ids": "id" if (off != 0).sum() == 1 else "ids",
        "pairs": len(broken),
        "offsets": "offset" if len(broken) == 1 else "offsets",
        "seen": extra.shape[1],
        "hidden": missing.shape[1],
    }


ids = explorable(
    _ids,
    title="Whose ids are wrong?",
    alt="Eight tokens, the right id of each in gray and the id it has below, bold and orange where it is wrong. Under "
    "them a square of queries and keys: a colored cell with a number is a visible pair whose offset is off by so "
    "much, a plain gray one is right; a cross marks a pair that is seen and must not be, a ring one that is "
    "hidden and must be seen. Drag the dashed line, the border between the cached and the new tokens, the pads "
    "and the text, or two texts.",
    readout="{tokens:d} wrong {ids} · {pairs:d} wrong {offsets} · mask: {seen:d} too many, {hidden:d} too few",
    handles={"border": "n"},
    situation=slider([DECODING, PADDING, PACKING], label="situation"),
    ids=slider([WRONG, MENDED], label="ids"),
    mask=slider([WRONG, MENDED], label="mask", default=MENDED),
    n=slider(range(1, TOKENS), label="tokens before the border", default=5),
)


NEW, ALL = "new tokens only", "all tokens"
OLD, COUNT = {NEW: 48, ALL: 0}, {NEW: 16, ALL: 32}  # tokens with right ids in the cache, and tokens whose ids are off
OFF = (0, 1, 2, 4, 8, 12, 16, 24, 32)
FREE = 0.05  # nats that count as nothing


def added(method, which, off):
    r"""What ids that are `off` by so much add to each seed's loss."""
    results = load("practice")
    kind, known, wanted = ("new", "offsets", -off) if which == NEW else ("all", "shifts", off)
    place, zero = results[known].index(wanted), results[known].index(0)
    return [row[place] - row[zero] for row in results["methods"][method][kind]]


def _wrong_ids(which, off):
    methods = list(load("practice")["methods"])[::-1]  # a list of bars is drawn from below
    losses = [added(method, which, off) for method in methods]
    mean = [mean_and_spread(row)[0] for row in losses]
    seeds = [(value, place) for place, row in enumerate(losses) for value in row]
    top = max(max(added(method, kind, o)) for kind in (NEW, ALL) for method in methods for o in OFF)
    right, count = OLD[which], COUNT[which]
    start, bare, stops = abs(right - off), min(off, count) / 2, [*(abs(right - n) for n in OFF), 64]
    one = [mean_and_spread(added(method, which, 1))[0] for method in methods]
    tick = dict(line=dict(width=3, color=COLORS["ink"]))
    free = right + count - bare if which == NEW else bare  # the middle of what the frame shows
    words, block = "%{x:.3f} nats added, mean of the seeds", dict(orientation="h", width=0.8, panel=2)
    frame = [right, right + count, right + count, right, right], [-0.4, -0.4, 0.4, 0.4, -0.4]
    data = [
        bars("mean", mean, list(range(len(methods))), "orange", hover=words, orientation="h"),
        dots("off by one", one, list(range(len(methods))), "ink", 10, "line-ns", opacity=0.65, marker=tick),
        dots("each seed", *zip(*seeds), "ink", 6, "circle-open", hover="one seed: %{x:.3f} nats"),
        label("what the ticks are", 0.04 * top, len(methods) - 1, "| if off by one", "gray", "middle right", 12),
        bars("old tokens", [right], [1], "blue", **block),
        bars("their ids", [count], [0], "orange", base=[start], marker=dict(pattern=dict(shape="/")), **block),
        line("right ids", *frame, "ink", 2, "dot", panel=2),
        label("its name", free, 0, "right ids" if off > 12 else "", "ink", "middle center", 11, panel=2),
        held("first id", start, 0, "orange", "square", panel=2),
    ]
    titles = [METHODS[method].title.removeprefix("Softmax with a ") for method in methods]
    rows = dict(tickvals=[0, 1], ticktext=["new ids", "cached ids"] if which == NEW else ["all ids", ""])
    layout = dict(
        height=480,
        showlegend=False,
        margin=dict(t=10),
        xaxis=axis(-0.08 * top, 1.05 * top, "added to the loss, nats", anchor="y"),
        yaxis=axis(-0.6, len(methods) - 0.4, domain=[0, 0.77], tickvals=list(range(len(methods))), ticktext=titles),
        xaxis2=axis(-2, 66, anchor="y2", tickvals=stops, ticktext=[f"{n}" * (n % 8 == 0) for n in stops]),
        yaxis2=axis(-0.6, 1.6, domain=[0.86, 1], showgrid=False, zeroline=False, **rows),
    )
    most = f"most: {METHODS[methods[mean.index(max(mean))]].title} {signed(max(mean), 2)}" if off else "nobody pays"
    return dict(data=data, layout=layout), {"most": most, "spared": sum(value < FREE for value in mean)}


wrong_ids = explorable(
    _wrong_ids,
    title="What do wrong ids cost?",
    alt="Above, a line of position ids: a block of cached tokens, and below it one of new tokens, with a dotted frame "
    "where it should stand. Drag its first id: the farther from the frame, the longer the bars below, one for each "
    "method, with a ring for each seed: what is added to the loss of a trained model; a tick stands where "
    "ids off by one would end it. Methods that read no position have no bar; "
    "where all tokens are off together, relative methods have none either.",
    handles={"first id": "off"},
    readout="{most} · {spared:d} pay less than 0.05",
    which=slider([NEW, ALL], label="ids off"),
    off=slider(OFF, label="off by, tokens", default=32, play=True),
)
