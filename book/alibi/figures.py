r"""The explorable of the ALiBi chapter."""

import torch

from posenc.bias.alibi import bias, slopes
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, dots, held, label, line, number

KEYS = 128
MATCH, MATCH_LOGIT = 24, 6.0  # one key fits the query: its logit stands this far above the flat level


def content_logits(match=MATCH):
    """Seeded content logits of the keys: noise of spread 1, and one key that fits the query."""
    noise = torch.randn(KEYS, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    noise[match] = MATCH_LOGIT
    return noise


def _slope(m):
    """A slope in few letters: 1/4, or 0.354 where it is no such fraction."""
    return f"1/{1 / m:.0f}" if abs(1 / m - round(1 / m)) < 1e-4 else f"{m:.3f}"


def _decay(heads, key, *, slopes=slopes, bias=bias):
    m, keys = slopes(heads).double().sort(descending=True).values, torch.arange(KEYS)
    content, row, back = content_logits(key), bias(keys[-1:], keys, m)[:, 0], KEYS - 1 - key  # row: [H, KEYS]
    weights = torch.softmax(content + row, -1)[:, key].tolist()
    rows, plain, lying = list(range(heads)), content.softmax(-1)[key].item(), dict(orientation="h", width=0.72)
    said = [f"<b>{w:.0%}</b>" if w >= 0.01 else "< 1%" for w in weights]
    penalties = [number(-b, 0 if b < -99.95 else 1 if b < -0.095 else 2) for b in row[:, key].tolist()]
    ticks = [f"{_slope(slope)} → {penalty}\u2009" for slope, penalty in zip(m.tolist(), penalties)]
    ticks[0], ticks[-1] = f"<b>steep:</b> {ticks[0]}", f"<b>mild:</b> {ticks[-1]}"
    tones = ["red" if w >= 0.01 else "gray" for w in weights]
    place = "top center" if key < 0.6 * KEYS else "top left"
    slot = dict(color="rgba(128, 128, 128, 0.1)", line=dict(color=COLORS["gray"], width=1))
    data = [
        dots("keys", keys, [0] * KEYS, "gray", 4, "square", panel=2),
        held("query", KEYS - 1, 0, "blue", panel=2),
        held("the key that fits", key, 0, "red", "star", 20, panel=2),
        label("its distance", key, 0.7, f"<b>drag: {back} back</b>", "red", place, 14, panel=2, cliponaxis=False),
        label("its end", KEYS - 1, -0.5, "query", "blue", "bottom center", panel=2, cliponaxis=False),
        bars("all of the weight", [1] * heads, rows, marker=slot, **lying),
        bars("weight of the key", weights, rows, "red", **lying),
        label("how much", [1.02] * heads, rows, said, tones, "middle right", 15),
        line("without a penalty", [plain, plain], [-0.5, heads - 0.4], "ink", 2, "dash"),
        label("its name", plain, heads + 0.1, f"no penalty: {plain:.0%}", "ink", "bottom center", 14),
        label("head of the rows", 0, -1, "slope → penalty\u2002", "ink", "middle left", cliponaxis=False),
        label("head of the bars", 0, -1, "weight of the key", "red", "middle right"),
    ]
    places = dict(tickvals=rows, ticktext=ticks, ticks="", tickfont=dict(size=13), showgrid=False)
    layout = dict(height=470, showlegend=False, barmode="overlay", margin=dict(t=12, l=160, r=8, b=8))
    layout["xaxis"] = axis(0, 1.2, showticklabels=False, ticks="", showgrid=False, zeroline=False)
    layout["yaxis"] = axis(1.05 * heads + 0.5, -1.5, domain=[0, 0.82], **places)
    layout["xaxis2"] = axis(-2, KEYS + 9, anchor="y2", visible=False)
    layout["yaxis2"] = axis(-2, 2, domain=[0.84, 1], anchor="x2", visible=False)
    layout["meta"] = dict(phone=dict(margin=dict(l=136), xaxis=dict(range=[0, 1.3])))
    return dict(data=data, layout=layout)


decay = explorable(
    _decay,
    title="ALiBi: what each head leaves of a key that fits",
    alt="At the top a row of keys, the query at its end and a star, the key that fits, to drag. Below, a row for each "
    "head, from steep to mild: its slope, the penalty, and a red bar, the weight that the key keeps, with "
    "the number beside it. A dashed line is its weight without a penalty. Far from the query the bars of steep heads "
    "are empty and those of mild heads filled; the nearer the star, the more heads fill theirs.",
    see="Drag the star towards the query: which heads hear it?",
    handles={"the key that fits": "key"},
    heads=slider([4, 8, 12, 16], label="heads", default=8),
    key=slider(range(0, 112, 3), label="key that fits", default=MATCH, format=lambda key: f"{KEYS - 1 - key} back"),
)
