r"""The explorable of the stick-breaking chapter: what more keys do to a weight."""

import functools

import torch

from posenc import stickbreaking
from posenc.lab.explore import COLORS, explorable, slider
from posenc.lab.explore.parts import axis, bars, held, label, line, signed

COUNTS = (0, *(2**n for n in range(13)))
MATCH = 2.0  # its logit
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


def _dilution(far, rest, between, *, weigh=stickbreaking.weigh):
    soft, stick = _shares(MATCH, rest, between, weigh)
    before, at = [shares[1, 0].item() for shares in _shares(MATCH, rest, 0, weigh)], COUNTS.index(far)
    nearer, order, lying = COUNTS.index(between), [1, 0, 2, 3], dict(orientation="h")
    edge, parts = dict(line=dict(color=COLORS["ink"], width=1)), [*PARTS.items()]
    data = [
        bars(f"{part} in the row", [size], [0], marker=look | edge, base=start, width=0.8, **lying)
        for (part, look), start, size in zip(parts, (-HALF, -HALF, HALF), (-nearer, 2 * HALF, at))
    ]
    for row, (way, shares) in enumerate(dict(softmax=soft, stick=stick).items()):
        sizes, start = shares[:, at].tolist(), 0.0
        for part, look in (parts[n] for n in order):  # the match first: so its part can be compared
            size = sizes[[*PARTS].index(part)]
            data.append(
                bars(f"{part}, {way}", [size], [1 - row], base=[start], panel=2, marker=look | edge, width=0.5, **lying)
            )
            start += size
        low, high, kept = 0.68 - row, 1.32 - row, f"<b>the match keeps {sizes[1]:.2f}</b> of {before[row]:.2f}"
        frame = [0, 0, before[row], before[row]], [low, high, high, low]
        data += [
            line(f"the match alone, {way}", *frame, "green", 3, "dot", panel=2),
            label(f"what it keeps, {way}", 1, 1.48 - row, kept, "green", "middle left", 15, panel=2),
        ]
    ends = [-HALF - nearer, HALF + at]
    words, look = [f"{between} nearer", "<b>match</b>", f"{far:,} farther"], dict(color=["ink", "green", "orange"])
    data += [
        label("how many", [-HALF - 0.5, 0, HALF + 0.5], [0.75] * 3, words, **look, size=14, cliponaxis=False)
        | dict(textposition=["middle left", "middle center", "middle right"]),
        label("grips", ends, [-0.85] * 2, ["drag"] * 2, "ink", "middle center", cliponaxis=False),
        label("ways", [0, 0], [1.48, 0.48], ["<b>softmax</b>", "<b>stick</b>"], "ink", "middle right", 15, panel=2),
        label("its rest", 1, -0.47, "▒ left over" * (sizes[3] > 0.005), "gray", "middle left", panel=2),
        held("nearer end", ends[0], 0, "ink", "diamond", 15),
        held("farther end", ends[1], 0, "ink", "diamond", 15),
    ]
    layout = dict(height=430, barmode="overlay", showlegend=False, margin=dict(l=12, r=12, t=12, b=6))
    layout |= dict(
        xaxis=axis(-HALF - 8.5, HALF + 14.5, visible=False),
        yaxis=axis(-1.1, 1.1, domain=[0.73, 1], visible=False),
        xaxis2=axis(-0.003, 1.003, anchor="y2", visible=False),
        yaxis2=axis(-0.6, 1.65, domain=[0, 0.7], anchor="x2", visible=False),
    )
    return dict(data=data, layout=layout), {"stick": stick[1, at].item(), "soft": soft[1, at].item()}


dilution = explorable(
    _dilution,
    title="More keys, nearer and farther than the match",
    alt="At the top the keys in a row, in the order of asking: nearer keys, crossed; the match, solid; farther keys, "
    "hatched. Both ends can be dragged. Below, a bar for softmax and one for stick-breaking, cut among them: first the "
    "match's part, its number above it, in a dotted frame of what it has alone. Farther keys make its part of the "
    "softmax smaller; in the stick's bar they take only from what was left over, dotted. Nearer keys take in both.",
    see="Drag either end of the row: how much green is left in the frame?",
    handles={"nearer end": "between", "farther end": "far"},
    far=slider(COUNTS, label="keys farther away", default=256, format=lambda v: f"{v:,}"),
    rest=slider([-8, -4, -2], label="logit of the others", default=-4, format=signed),
    between=slider(COUNTS[:8], label="keys nearer", default=1),
)
