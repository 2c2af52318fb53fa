r"""Explorables on position ids: which tokens and pairs they are wrong for, and what that costs a trained model."""

import functools
import math

import torch

from posenc.lab.experiments import load_results, mean_and_spread
from posenc.lab.explore import COLORS, DIVERGING, explorable, slider
from posenc.methods import METHODS

load = functools.cache(load_results)

# ------------------------------------------------------------------------------------------------- ids, pairs and masks

TOKENS = 10
DECODING, PADDING, PACKING = "decoding with a cache", "padding on the left", "two texts in one row"
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
    extra, missing = (visible & ~seen_right).nonzero().T, (seen_right & ~visible).nonzero().T
    cells = list(range(TOKENS))
    data = [
        dict(
            type="heatmap",
            name="offset off by",
            x=cells,
            y=cells,
            z=shown,
            zmin=-8,
            zmax=8,
            colorscale=DIVERGING,
            xgap=1,
            ygap=1,
            colorbar=dict(title=dict(text="offset<br>off by"), len=0.7, y=0.35),
        ),
        dict(
            type="scatter",
            name="seen, must not be",
            x=extra[1],
            y=extra[0],
            mode="markers",
            marker=dict(symbol="x", size=9, color=COLORS["red"]),
        ),
        dict(
            type="scatter",
            name="hidden, must be seen",
            x=missing[1],
            y=missing[0],
            mode="markers",
            marker=dict(symbol="circle-open", size=10, color=COLORS["purple"], line=dict(width=2)),
        ),
        dict(
            type="bar",
            name="id off by",
            x=cells,
            y=off,
            yaxis="y2",
            marker=dict(color=COLORS["orange"]),
            showlegend=False,
        ),
    ]
    labels = [f"{name}<br>{'–' if name == 'pad' else p}" for name, p in zip(names, positions.tolist())]
    layout = dict(
        height=520,
        xaxis=dict(
            range=[-0.5, TOKENS - 0.5],
            tickvals=cells,
            ticktext=labels,
            tickangle=0,
            anchor="y",
            title=dict(text="key, and the id it has"),
        ),
        yaxis=dict(
            range=[TOKENS - 0.5, -0.5], tickvals=cells, ticktext=names, domain=[0, 0.72], title=dict(text="query")
        ),
        yaxis2=dict(
            range=[-8.5, 8.5],
            domain=[0.8, 1],
            title=dict(text="id off by"),
            tickvals=[-8, 0, 8],
            ticktext=["−8", "0", "+8"],
        ),
    )
    wrong_pairs = int((torch.nan_to_num(shown) != 0).sum())
    words = (
        f"{int((off != 0).sum())} tokens with a wrong id, {wrong_pairs} pairs with a wrong offset, "
        f"{extra.shape[1]} seen that must not be, {missing.shape[1]} hidden that must be seen"
    )
    return dict(data=data, layout=layout), {"words": words}


ids = explorable(
    _ids,
    id="practice.ids",
    title="Whose ids are wrong?",
    alt="Ten tokens. Bars above show by how much each token's position id is off. Below, a square of queries and keys: "
    "its shade says by how much the offset of a visible pair is off, gray for right; a cross marks a pair that is seen "
    "and must not be, a ring one that is hidden and must be seen.",
    readout="{words}",
    depends={
        "id off by": ["situation", "ids", "n"],
        "seen, must not be": ["situation", "mask", "n"],
        "hidden, must be seen": ["situation", "mask", "n"],
        "layout": ["situation", "ids", "n"],
    },
    situation=slider([DECODING, PADDING, PACKING], label="situation"),
    ids=slider([WRONG, MENDED], label="position ids"),
    mask=slider([WRONG, MENDED], label="mask"),
    n=slider([2, 4, 6, 8], label="tokens in the cache, pads, or tokens of text A", default=6),
)


# ------------------------------------------------------------------------------------- what wrong ids cost, by method

NEW, ALL = "the new tokens, after a prefix", "all tokens, as padding does"
OFF = (0, 1, 2, 4, 8, 16, 32)


def added(results, method, which, off):
    r"""What ids that are `off` by so much add to each seed's loss; None where the method refuses them."""
    kind, known, wanted = ("new", "offsets", -off) if which == NEW else ("all", "shifts", off)
    place, zero = results[known].index(wanted), results[known].index(0)
    rows = results["methods"][method][kind]
    if any(row[place] is None for row in rows):
        return None
    return [row[place] - row[zero] for row in rows]


def _wrong_ids(which, off, *, results=None):
    results = load("practice") if results is None else results
    methods = list(results["methods"])[::-1]  # a list of bars is drawn from below
    losses = {method: added(results, method, which, off) for method in methods}
    mean = {method: math.nan if row is None else mean_and_spread(row)[0] for method, row in losses.items()}
    at = {method: place for place, method in enumerate(methods)}
    top = max(
        max(row)
        for kind in (NEW, ALL)
        for method in methods
        for o in OFF
        if (row := added(results, method, kind, o)) is not None
    )
    seeds = [(value, at[method]) for method, row in losses.items() if row is not None for value in row]
    data = [
        dict(
            type="bar",
            name="added to the loss",
            orientation="h",
            x=list(mean.values()),
            y=list(at.values()),
            marker=dict(color=COLORS["orange"]),
        ),
        dict(
            type="scatter",
            name="each seed",
            x=[x for x, _ in seeds],
            y=[y for _, y in seeds],
            mode="markers",
            marker=dict(color=COLORS["ink"], size=6, symbol="circle-open"),
        ),
    ]
    layout = dict(
        height=460,
        xaxis=dict(range=[-0.08 * top, 1.05 * top], title=dict(text="added to the loss, nats per character")),
        yaxis=dict(
            range=[-0.6, len(methods) - 0.4],
            tickvals=list(at.values()),
            ticktext=[METHODS[method].title for method in methods],
        ),
    )
    said = [
        f"{METHODS[method].title} {'refuses' if losses[method] is None else signed(mean[method])}"
        for method in methods[::-1]
    ]
    return dict(data=data, layout=layout), {"words": ", ".join(said)}


def signed(value):
    """A change in words: no minus before a zero."""
    return "0.00" if abs(value) < 0.005 else f"{value:+.2f}".replace("-", "−")


wrong_ids = explorable(
    _wrong_ids,
    id="practice.wrong_ids",
    title="What do wrong ids cost?",
    alt="A bar for each method: what is added to the loss of a trained model when position ids are off by the chosen "
    "number, with a ring for each seed. When all ids are moved, relative methods have no bar; when only the new "
    "tokens' ids are off against their prefix, those that read positions do.",
    readout="added: {words}",
    which=slider([NEW, ALL], label="whose ids are off"),
    off=slider(OFF, label="off by how many tokens", default=32, format=lambda k: "right" if k == 0 else str(k)),
)
