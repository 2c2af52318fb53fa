r"""The explorable of the stick-breaking chapter: what more keys do to a weight."""

import functools

import torch

from posenc import stickbreaking
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, signed

COUNTS = (0, *(2**n for n in range(13)))
HALF = 2  # steps that the match takes on either side in the row of keys
PARTS = {  # of the weight: who has it
    "nearer keys": dict(color=COLORS["gray"], pattern=dict(shape="x", fillmode="replace")),
    "the match": dict(color=COLORS["green"], pattern=dict(shape="")),
    "farther keys": dict(color=COLORS["orange"], pattern=dict(shape="/", fillmode="replace")),
    "left over": dict(color=COLORS["gray"], pattern=dict(shape=".", fillmode="replace")),
}


@functools.lru_cache(maxsize=512)
def _shares(match, rest, between, weigh):
    r"""What each of `PARTS` has under softmax and stick-breaking, for each number of far keys: two [4, counts]."""
    nearer, far = int(between), max(COUNTS)
    z = torch.full((1, far + 1 + nearer), float(rest), dtype=torch.float64)
    z[0, far] = match
    here = torch.arange(z.shape[1]) >= far - torch.tensor(COUNTS)[:, None]  # [counts, keys]: far keys stand in front
    soft = torch.softmax(z.expand_as(here).masked_fill(~here, float("-inf")), dim=-1)
    take, left = weigh(z.expand_as(here), here, "recent", return_remainder=True)

    def parts(weights, rest):
        return torch.stack((weights[:, far + 1 :].sum(-1), weights[:, far], weights[:, :far].sum(-1), rest))

    return parts(soft, torch.zeros_like(left)), parts(take, left)


def _dilution(far, match, rest, between, *, weigh=stickbreaking.weigh):
    soft, stick = (shares[:, COUNTS.index(far)] for shares in _shares(match, rest, between, weigh))
    nearer, farther = COUNTS.index(between), COUNTS.index(far)  # steps, evenly spaced, on either side of the match
    lying, edge = dict(orientation="h", width=0.7), dict(line=dict(color=COLORS["ink"], width=1))
    data = [
        bars(f"{part} in the row", [size], [0], marker=look | edge, base=start, **lying)
        for (part, look), start, size in zip(PARTS.items(), (-HALF, -HALF, HALF), (-nearer, 2 * HALF, farther))
    ]
    for row, (way, shares) in enumerate(dict(softmax=soft, stick=stick).items()):
        for (part, look), share in zip(PARTS.items(), shares):
            more = dict(panel=2, marker=look | edge, hover=f"{way}, {part}: %{{x:.3f}}", **lying)
            data.append(bars(f"{part}, {way}", [share], [1 - row], **more))
    words, look = [f"{between} nearer", "match", f"{far:,} farther"], dict(color=["ink", "green", "orange"])
    look |= dict(place=["middle left", "middle center", "middle right"], cliponaxis=False)
    data += [
        label("how many", [-HALF - 0.8, 0, HALF + 0.8], [0.75] * 3, words, **look),
        label("name of the rest", 1, -0.62, "▒ left over", "gray", "middle left", panel=2),
        held("nearer end", -HALF - nearer, 0),
        held("farther end", HALF + farther, 0),
    ]
    bare, steps = dict(showgrid=False, zeroline=False), [0, *range(3, len(COUNTS), 4)]
    ticks = {side * (HALF + n): f"{COUNTS[n]:,}" for side in (-1, 1) for n in steps if side > 0 or n <= 7}
    marks = dict(tickvals=[*ticks], ticktext=[*ticks.values()], **bare)
    layout = dict(height=400, barmode="stack", showlegend=False)
    layout |= dict(
        xaxis=axis(-HALF - 8, HALF + 14, "keys, asked from left to right", **marks),
        yaxis=axis(-0.5, 1.1, domain=[0.68, 1], showticklabels=False, **bare),
        xaxis2=axis(0, 1.003, "who has the weight", anchor="y2", tickvals=[0, 0.5, 1], **bare),
        yaxis2=axis(-0.9, 1.5, domain=[0, 0.46], anchor="x2", tickvals=[1, 0], ticktext=["softmax", "stick"], **bare),
    )
    return dict(data=data, layout=layout), {"stick": stick[1].item(), "soft": soft[1].item(), "left": stick[3].item()}


dilution = explorable(
    _dilution,
    title="More keys, nearer and farther than the match",
    alt="At the top the keys in a row, in the order of asking: nearer keys, crossed; the match, solid; farther keys, "
    "hatched. Both ends of the row can be dragged. Below, two bars with the same patterns, who has the weight under "
    "softmax and who under stick-breaking. Farther keys make the match's part of the softmax smaller; in the "
    "stick's bar they take only from what was left over, dotted. Nearer keys make the match's part of both smaller.",
    readout="stick {stick:.3f} · softmax {soft:.3f} · left over {left:.3f}",
    handles={"nearer end": "between", "farther end": "far"},
    far=slider(COUNTS, label="keys farther away", default=256, format=lambda v: f"{v:,}", play=True),
    match=slider([0, 2, 4, 6], label="logit of the match", default=2, format=signed),
    rest=slider([-8, -4, -2, 0], label="logit of the others", default=-4, format=signed),
    between=slider(COUNTS[:8], label="keys nearer than the match", default=1),
)
