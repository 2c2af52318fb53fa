r"""Twelve gates under the hand: the positions that CoPE counts with them, or what FoX leaves behind them."""

import math

import torch

from posenc.bias.cope import lookup, positions
from posenc.bias.fox import decay
from posenc.lab.explore import COLORS
from posenc.lab.explore.page import escape

TITLE = {"cope": "Gates, positions, lookup", "fox": "Twelve doors"}
ROW = (
    "Twelve words, over each its gate: a grille to pull up and down, open at 1. A mark under them moves the query. "
    "Dashed outlines are what stood there before the last move. Below, "
)
SEE = {
    "cope": "Pull a gate down: whose bias moves, and whose stays?",
    "fox": "Pull one door down: who loses weight, and who does not?",
}
ALT = {
    "cope": f"{ROW}the position of each key as a bar, by one gate higher for each step to the left of the query. At "
    "their left edge stands the table, a row a unit; beyond its last row all read the last. Under them the bias that "
    "each key gets there. After a pull of a gate brackets say for whom it moved and for whom it stays.",
    "fox": f"{ROW}what is left of each key, as a bar: the doors after it, multiplied. A closed door lowers all older "
    "keys by one factor. Brackets sum the softmax weights, if contents are equal: of the first sentence, its period, "
    "the rest. With all gates as ALiBi the bars' tops are ALiBi's line; any gate but the first takes older keys off.",
}
EAGER = True
WORDS = {"cope": "The cat sat . It hid . A dog saw it run", "fox": "Ann is in Ulm . Bob is in Rio . Bob is"}
SHOWN = {"preset": (0, 2), "query": (0, 11)} | {f"gate{n}": (0, 1) for n in range(12)}  # a preset by its number
# What the query says to each of eight positions: z = q.e of a small table, the same for every query here.
TABLE = torch.tensor([0.0, 2.0, -1.0, 1.5, 0.5, -0.5, -1.0, -1.2], dtype=torch.float64)
SHUT, SLOPE = 0.05, 0.25  # of FoX's presets: the gate of a period, the logits per token of the one that is ALiBi


def presets(method: str) -> dict[str, list[float]]:
    r"""{name: gates} of the buttons, the first of which is how the figure starts."""
    period, word = ([float((w == ".") is is_it) for w in WORDS[method].split()] for is_it in (True, False))
    if method == "cope":
        return {"words": word, "sentences": period, "all": [1.0] * 12}
    at_periods, even = [max(gate, SHUT) for gate in word], [math.exp(-SLOPE)] * 12
    return {"open": [1.0] * 12, "shut at periods": at_periods, "as ALiBi": even}


def read(method: str, gates, query: int) -> tuple[torch.Tensor, torch.Tensor]:
    r"""Of the query's keys, [query + 1] each: CoPE's positions and biases; FoX's decay, and the weights if contents are
    equal."""
    gates = torch.as_tensor(gates, dtype=torch.float64)[: query + 1]
    if method == "fox":
        left = decay(gates.log(), 1)[0]
        return left, left.softmax(-1)
    p = positions(gates.logit()[None], torch.ones(1, query + 1, dtype=torch.bool))[0]
    return p, lookup(torch.ones(1, 1, dtype=torch.float64), TABLE[:, None], p[None])[0]


def data(method: str = "cope") -> dict:
    own = dict(query=11, lowest=0.01, slope=SLOPE)
    if method == "cope":
        own = dict(query=10, lowest=0, table=TABLE.tolist())
    return {"words": WORDS[method].split(), "presets": list(presets(method).items()), **own}


def picture(method: str = "cope") -> str:
    shown, cope = data(method), method == "cope"
    gates, query = shown["presets"][0][1], shown["query"]
    steps, second = (part.tolist() for part in read(method, gates, query))
    names = ("positions", "biases") if cope else ("what is left of each key", "weights")
    parts = [f'<text x="33" y="{y}">{name}</text>' for y, name in zip((16, 185, 352), ("gates", *names))]
    for n, word in enumerate(shown["words"]):
        x, level = 60 + 54 * n, 130 - 100 * gates[n]
        bar = f'<rect x="{x - 18}" y="{level:.1f}" width="36" height="{130 - level:.1f}" fill="{COLORS["blue"]}"'
        parts.append(f'<path d="M{x - 18} 30h36v100h-36z" fill="none" stroke="currentColor"/>')
        parts.append(f'{bar} fill-opacity="0.4"/><circle cx="{x}" cy="{level:.1f}" r="8"/>')
        parts.append(f'<text x="{x}" y="152" text-anchor="middle">{escape(word)}</text>')
        if n <= query:
            tall = 11 * steps[n] if cope else 130 * math.exp(steps[n])
            bar = f'width="40" height="{tall:.1f}" fill="currentColor" fill-opacity="0.4"'
            parts.append(f'<rect x="{x - 20}" y="{330 - tall:.1f}" {bar}/>')
            parts.append(f'<text x="{x}" y="372" text-anchor="middle">{second[n]:.2f}</text>')
    look = 'font-family="system-ui, sans-serif" font-size="14" fill="currentColor"'
    return f'<svg viewBox="0 0 690 380" role="img" aria-label="{escape(ALT[method])}" {look}>{"".join(parts)}</svg>'
