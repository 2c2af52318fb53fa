r"""Break the stick by hand: cuts to drag, neighbors to swap, and the softmax of the same logits beneath."""

import torch

from posenc import stickbreaking
from posenc.lab.explore import COLORS
from posenc.lab.explore.page import escape

TITLE = "A stick broken by hand, and the softmax of the same logits"
SEE = "Drag a cut, or swap two words: which pieces change?"
ALT = (
    "Above, a stick of length one, cut into a piece for each word, the most recent word first, and the rest that "
    "nobody took. Below, the softmax of the same logits. A thin strip over each keeps the pieces as they were. Moving "
    "a cut changes the piece it ends and those after it, never one before it; in the softmax every piece changes. "
    "Swapping two neighbors with equal logits moves weight between them in the stick, and nothing in the softmax."
)
WORDS = ("it", "sleeps", "cat", "the", "dog", "a")  # most recent first
LOGITS = (-2.0, -1.7, -0.4, -0.85, -0.4, -0.85)  # cuts that a finger can tell apart
SHOWN = {word: (0.02, 0.98) for word in WORDS}  # the share that a word takes of what is left
HUES = ("blue", "orange", "green", "purple", "yellow", "gray")


def weights(logits) -> tuple[list[float], list[float]]:
    r"""(pieces of the stick and what is left, the softmax), for logits with the most recent first."""
    scores = torch.tensor([*reversed(logits)], dtype=torch.float64)[None, None, None]
    pieces, rest = stickbreaking.weigh(scores, torch.ones_like(scores, dtype=torch.bool), return_remainder=True)
    return [*pieces.flatten().flip(0).tolist(), rest.item()], torch.tensor(logits).double().softmax(0).tolist()


def data() -> dict:
    return {"words": WORDS, "logits": LOGITS, "hues": [COLORS[hue] for hue in HUES]}


def picture() -> str:
    parts = []
    for top, name, shares in zip((34, 134), ("stick-breaking", "softmax"), weights(LOGITS)):
        at = 0.0
        parts.append(f'<text x="0" y="{top - 10}" font-weight="600">{name}</text>')
        for share, word, hue in zip(shares, (*WORDS, "left over"), (*HUES, "gray")):
            fill = f'fill="{COLORS[hue]}" fill-opacity="{0.1 if word == "left over" else 0.35}"'
            size = f'x="{680 * at:.1f}" y="{top}" width="{680 * share:.1f}" height="52"'
            parts.append(f'<rect {size} {fill} stroke="currentColor"/>')
            if share > 0.06:
                middle = f'x="{680 * (at + share / 2):.1f}" text-anchor="middle"'
                parts.append(f'<text {middle} y="{top + 24}">{escape(word)}</text>')
                parts.append(f'<text {middle} y="{top + 42}" font-size="12">{share:.2f}</text>')
            at += share
    return (
        f'<svg viewBox="-1 0 682 200" role="img" aria-label="{escape(ALT)}" font-family="system-ui, sans-serif" '
        f'font-size="15" fill="currentColor">{"".join(parts)}</svg>'
    )
