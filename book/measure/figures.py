r"""The explorable on trained models: distance against number of keys."""

import numpy as np

from posenc.lab.experiments import ONE_A_PLACE, load_results
from posenc.lab.explore import explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line, signed
from posenc.lab.titles import title

TEXT = load_results("train_short_test_long", methods=ONE_A_PLACE)
KEYS, TARGETS, FAINT = TEXT["lengths"], TEXT["settings"]["targets"], "rgba(107, 114, 128, 0.3)"
GRIDS = np.array([arm["distance_and_keys"] for arm in TEXT["methods"].values()])  # [methods, seeds, keys, gaps]
WHAT = FARTHER, MORE = "farther keys", "more keys"
ADDED = {FARTHER: GRIDS[..., 0, :] - GRIDS[..., :1, 0], MORE: GRIDS[..., 0] - GRIDS[..., :1, 0]}  # [methods, seeds, to]
SPREAD = f"%{{x:.2f}} ± %{{customdata:.2f}}: mean ± standard deviation, {len(TEXT['seeds'])} seeds"
NAMES, ROPE = [f"{title(name)}\u2002" for name in TEXT["methods"]], [*TEXT["methods"]].index("rope")


def _distance_keys(what, to):
    far, near, step = what == FARTHER, KEYS[0], KEYS.index(to)
    start, pile, left = (to if far else near), (0 if far else to - near) / KEYS[-1] * 1.8, 1.1 * KEYS[-1]
    said = f"still <b>{near} keys</b>, up to <b>{to - 1} back</b>" if far else f"<b>{to} keys</b>, none farther"
    color, spot, drag = ("orange", (start + 9, 0.4), 0) if far else ("green", (near - 12, 1.05 + pile), 58)
    marker, rows, old = dict(pattern=dict(shape="/" * far)), [*range(len(NAMES))], near - TARGETS
    more, band = dict(orientation="h", panel=2), dict(orientation="h", width=0.8)
    words, places = ["drag", "query", "moved" * (start > near)], [spot[0] + drag, 34, to - 12]
    pale = ADDED[FARTHER][..., step].mean(1) * (not far)
    data = [
        bars("where the far keys were", [old], [0.4], FAINT, base=[TARGETS], **band),
        bars("near keys", [TARGETS], [0.4], "blue", **band),
        bars("far keys", [old], [0.4], color if far else "blue", base=[start - old], marker=marker, **band),
        bars("more keys", [near - 12], [pile], "green", base=[0.9], width=24),
        line("the gap", [near, max(near, start - old)], [0.4, 0.4], "orange", 2, "dot"),
        held("end", *spot, color, "triangle-left" if far else "triangle-up", 16),
        label("what is what", places, [spot[1] + 0.85 * far, -0.5, -0.5], words, "ink", "middle center", 14),
        label("what is so", left, 2.4, said, color, "middle right", 18),
        bars("by distance", pale, rows, FAINT, width=0.86, **more),
        label("methods", [0] * 5, rows, NAMES, "ink", "middle left", 15, cliponaxis=False, panel=2),
    ]
    for group, some in {"RoPE": [ROPE], "the others": [row for row in rows if row != ROPE]}.items():
        mean, spread = ADDED[what][some, :, step].mean(1).round(2) + 0.0, ADDED[what][some, :, step].std(1, ddof=1)
        look = more | dict(text=[f"<b>{signed(loss, 2)}</b>" for loss in mean], textposition="outside", width=0.6)
        look |= dict(textfont=dict(size=18), marker=marker, customdata=spread, hover=SPREAD)
        data.append(bars(group, mean, some, color, **look))
    bare, beside = dict(visible=False), "nats added" + (" to the loss" if far else " (pale: by distance)")
    layout = dict(height=440, showlegend=False, margin=dict(l=8, r=8, t=8), barmode="overlay")
    layout |= dict(xaxis=axis(left, 0, **bare), yaxis=axis(-0.9, 2.9, domain=[0.6, 1], **bare))
    layout |= dict(xaxis2=axis(0, 1.8, beside, anchor="y2", tickvals=[], domain=[0.24, 1]))
    layout |= dict(yaxis2=axis(4.5, -0.5, domain=[0, 0.57], anchor="x2", **bare))
    return dict(data=data, layout=layout | dict(meta=dict(phone=dict(xaxis2=dict(domain=[0.34, 1])))))


distance_keys = explorable(
    _distance_keys,
    title="Too far, or too many?",
    alt="A band of keys that ends at the query. Either its older half moves away, by an end that can be dragged, or "
    "more keys pile up in one place. Below, a bar for each of five methods: what that adds to its loss. Distance, "
    "hatched, makes those of RoPE and the sinusoid long; number makes NoPE's the longest; stick-breaking has none.",
    see="Drag the keys farther, or pile up more: whose loss grows?",
    handles={"end": "to"},
    what=slider(WHAT, label="the context has"),
    to=slider(KEYS, label="up to", default=KEYS[1]),
)
