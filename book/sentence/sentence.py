r"""One sentence, every method: where each word of a sentence looks, one small map a method.

Nothing here is trained. Every word looks for words that share its letters: `content` makes the query and the key of a
word from its letters alone, the same for all methods, so that only position tells the maps apart. Where a method
learns its numbers, they are set by hand, and `NOTES` says how.
"""

import math
from html import escape

import torch
from torch import Tensor

from posenc import attention, make
from posenc.bias.alibi import bias as linear_bias
from posenc.bias.alibi import slopes
from posenc.encoding import Encoding
from posenc.lab.titles import TITLES
from posenc.methods import METHODS, on_text

TITLE = "One sentence, every method: where a word looks"
ALT = (
    "A sentence, and for each method a small map of its attention: a row for each word that looks, darker where it "
    "looks more, with the row of one chosen word drawn as bars. Choose the word, put ten filler words before it, "
    "drag ALiBi's slope, or type a sentence of your own."
)
PRESETS = (
    "the cat sat on the mat because it was tired",
    "a rose is a rose is a rose",
    "to be or not to be that is the question",
)
FILLER = "so to say as it were you know and then"
#: lanes of a head; strengths of what all words share, of the letters, and of what keeps unlike words below zero
LANES, COMMON, LETTERS, THRESHOLD = 16, 2.7, 2.6, 3.3
ROWS = 16  # of the learned table
CLIPPED = (0.0, 0.5, 1.0, 2.0, 0.0)  # Shaw: what is added four and more, three, two, one back, and at the word itself
SLOPE = 0.25
#: what a method's card says of its numbers; "set" are those that training would find, set by hand
NOTES = {
    "nope": "letters alone",
    "sinusoidal": "added to q and k",
    "learned": f"{ROWS} random rows",
    "shaw": "set: one back",
    "transformer_xl": "set: W_R = 2",
    "t5": "set: −0.3 a bucket",
    "kerple": "as it starts",
    "fire": "set: −2½ × share",
    "rope": "q and k turned",
    "alibi": "drag its slope",
    "stickbreaking": "nearest first",
    "exposb": "as it starts",
    "rse": "set: rate 0.1",
    "cope": "set: −½ a count",
    "fox": "set: long words shut",
    "inkling": "set: long look far",
    "path": "set: w = letters",
    "sink": "as it starts",
}
SHORT = {"sinusoidal": "Sinusoid", "transformer_xl": "Transf.-XL", "stickbreaking": "Stick", "sink": "Sink"}


def random(seed: int, lane: int) -> float:
    """A number between -1 and 1 that looks random: the same here and in the script."""
    return ((seed * seed * (2 * lane + 3) + seed * (31 * lane + 17) + 7 * lane) % 211) / 105 - 1


def content(word: str) -> tuple[list, list, list]:
    r"""What a word asks for, what it shows, and the direction [LANES] of its letters, of length 1.

    q, k = COMMON u + LETTERS e ± THRESHOLD t: e is the sum of a vector a letter, so words that share letters are alike;
    u is the same in all words, and what rotations turn; t is a lane that makes q.k smaller by the same for all words.
    """
    letters = [0.0] * LANES
    for letter in word.lower():
        for lane in range(LANES - 2):
            letters[lane] += random(ord(letter), lane)
    pairs = LANES // 2 - 1
    middle = sum(letters[1:-1:2]) / pairs
    letters = [x - middle if lane % 2 and lane < LANES - 2 else x for lane, x in enumerate(letters)]  # e.u is 0
    length = math.sqrt(sum(x * x for x in letters)) or 1.0
    letters = [x / length for x in letters]
    shared = [COMMON / math.sqrt(pairs) if lane % 2 and lane < LANES - 2 else 0.0 for lane in range(LANES)]
    q, k = ([c + LETTERS * e for c, e in zip(shared, letters)] for _ in "qk")
    q[-1], k[-1] = THRESHOLD, -THRESHOLD
    return q, k, letters


def encoding(method: str, slope: float) -> Encoding:
    """The method at the size of one head, in float64, with the numbers that `NOTES` tells of."""
    if method == "alibi":
        one = torch.tensor([slope], dtype=torch.float64)
        return Encoding(bias=lambda q, k, at: linear_bias(at.pos_q, at.pos_k, one))
    options = {
        "sinusoidal": {"embed_at": "layer_qk"},
        "learned": {"max_positions": ROWS, "dim": LANES, "embed_at": "layer_qk"},
        "shaw": {"head_dim": LANES, "clip": len(CLIPPED) - 1},
        "transformer_xl": {"num_heads": 1, "head_dim": LANES},
        "t5": {"num_heads": 1, "num_buckets": 8, "max_distance": 16},
        "kerple": {"num_heads": 1},
        "fire": {"num_heads": 1, "hidden": 1, "threshold": 8.0},
        "rope": {"head_dim": LANES},
        "exposb": {"head_dim": LANES, "num_heads": 1},
        "rse": {"head_dim": LANES, "rate": 0.1},
        "cope": {"head_dim": LANES, "num_positions": 8},
        "inkling": {"extent": 8, "num_curves": 2},
        "path": {"head_dim": LANES},
        "sink": {"num_heads": 1},
    }.get(method, {})
    out = make(method, **options).double()
    lane = torch.zeros(LANES, dtype=torch.float64)  # q times this lane is 1, for each word
    lane[-1] = 1 / THRESHOLD
    steps, none, fires = (
        torch.arange(8.0, dtype=torch.float64),
        [[0.0] * LANES],
        ("bias.widen.bias", "bias.narrow.bias"),
    )
    numbers = {
        "learned": {"embed.table": [[0.5 * random(row + 1, at) for at in range(LANES)] for row in range(ROWS)]},
        "shaw": {"bias.keys": [(lane * b * math.sqrt(LANES)).tolist() for b in (*CLIPPED, *CLIPPED[-2::-1])]},
        "transformer_xl": {"bias.w_r": (2 * torch.eye(LANES)).tolist(), "bias.u": none, "bias.v": none},
        "t5": {"bias.table": [(-0.3 * steps).tolist()]},
        "fire": {"bias.widen.weight": [[1.0]], "bias.narrow.weight": [[-2.5]]} | dict.fromkeys(fires, [0.0]),
        "cope": {"bias.table": (-0.5 * steps[:, None] * lane).tolist()},
        "inkling": {"bias.bank": [(3 * torch.exp(-steps)).tolist(), (3 - 3 * torch.exp(-steps / 3)).tolist()]},
    }.get(method, {})
    for name, value in numbers.items():
        out.get_parameter(name).data.copy_(torch.tensor(value, dtype=torch.float64))
    return out


def gates(method: str, words: list, letters: Tensor) -> Tensor | None:
    """What the methods that read gates are given, from the words: [1, 1, T] or [1, 1, T, n]."""
    sizes = torch.tensor([float(len(word)) for word in words], dtype=torch.float64)
    if method == "fox":
        return torch.nn.functional.logsigmoid(4 - 0.7 * sizes)[None, None]
    if method == "inkling":
        far = sizes.clamp(max=8) / 8
        return torch.stack((1 - far, far), dim=-1)[None, None]
    if method == "path":
        return torch.nn.functional.pad(letters, (0, 1), value=0.5)[None, None]
    return None


@torch.no_grad()
def weights(method: str, words: list, slope: float = SLOPE) -> Tensor:
    r"""How much each word looks at each word before it and at itself, by one method.

    Arguments:
        method: a name in `METHODS` whose positions are plain numbers; words: of a sentence; slope: ALiBi's.
    Returns: [T, T] float64, a row for each word that looks. NaN where the learned table has no row for its place.
    """
    q, k, letters = (torch.tensor(x, dtype=torch.float64) for x in zip(*(content(word) for word in words)))
    chosen, given = encoding(method, slope), gates(method, words, letters)
    out = torch.full((len(words), len(words)), float("nan"), dtype=torch.float64)
    seen = min(len(words), ROWS) if method == "learned" else len(words)
    q, k = q[None, :seen], k[None, :seen]
    if chosen.embed is not None:
        places = torch.arange(seen, dtype=torch.int64 if method == "learned" else torch.float64)
        q, k, chosen = chosen.embed(q, places), chosen.embed(k, places), chosen.without("embed")
    q, k = q[:, None], k[:, None]
    out[:seen, :seen] = attention(q, k, k, chosen, gates=given, return_weights=True)[1][0, 0]
    return out


def triangle(method: str, words: list) -> list:
    """The weights as the script takes them: row i holds the weights on the words up to i, rounded."""
    rows = weights(method, words)
    return [[round(w, 6) for w in row[: i + 1].tolist()] for i, row in enumerate(rows)]


def card(name: str) -> dict:
    """What a method's card says, and where its chapter is, from another page of the book."""
    full = METHODS[name].title
    links = {"note": NOTES[name], "page": f"{TITLES[name].page}.html"}
    return {"name": name, "title": SHORT.get(name, full), "full": full} | links


def data() -> dict:
    """What the script gets: the presets' weights, and the numbers that its closed forms take from here."""
    several = [METHODS[name].title for name in METHODS if name not in on_text()]
    return {
        "presets": PRESETS,
        "filler": FILLER,
        "methods": [card(name) for name in on_text()],
        "weights": {text: {name: triangle(name, text.split()) for name in on_text()} for text in PRESETS},
        "strengths": {"lanes": LANES, "common": COMMON, "letters": LETTERS, "threshold": THRESHOLD},
        "rows": ROWS,
        "clipped": CLIPPED,
        "slope": SLOPE,
        "slopes": slopes(8).tolist(),
        "left_out": f"Not here: {', '.join(several)}. Their positions have several coordinates, a word has one.",
    }


SHADES = 12


def drawn(method: str, words: list, left: float, top: float, side: float) -> list:
    """One method's map with the last word's row as bars, as pieces of SVG: a path for each shade."""
    rows, cell, floor = weights(method, words).tolist(), side / len(words), top + side + 38
    paths, bars = {}, ""
    for i, row in enumerate(rows):
        for j, weight in enumerate(row[: i + 1]):
            shade = round(SHADES * min(1, (1.5 * weight) ** 0.7))
            at = f"M{left + j * cell:.4g} {top + 6 + i * cell:.4g}h{cell:.3g}v{cell:.3g}h-{cell:.3g}z"
            paths[shade] = paths.get(shade, "") + at
    for j, weight in enumerate(rows[-1]):
        bars += f"M{left + (j + 0.1) * cell:.4g} {floor}v{-40 * weight:.3g}h{0.8 * cell:.3g}V{floor}z"
    title = escape(SHORT.get(method, METHODS[method].title))
    return [
        f'<text x="{left}" y="{top}" font-weight="600">{title}</text>',
        f'<text x="{left + side}" y="{top}" text-anchor="end">{rows[-1][-3]:.0%}</text>',
        *(f'<path d="{d}" fill="var(--x-accent)" fill-opacity="{s / SHADES:.2f}"/>' for s, d in paths.items() if s),
        f'<path d="{bars}" fill="var(--x-accent)"/>',
        f'<path d="M{left} {floor}h{side}" stroke="currentColor" stroke-opacity="0.4"/>',
    ]


def picture() -> str:
    """The first preset before it is touched: the last word looks."""
    words, wide, tall, columns = PRESETS[0].split(), 120, 174, 8
    said = f"{PRESETS[0]}: where “{words[-1]}” looks, and how much of it at “{words[-3]}”"
    pieces = [f'<text x="0" y="14" font-size="14">{escape(said)}</text>']
    for index, name in enumerate(on_text()):
        pieces += drawn(name, words, index % columns * wide, 40 + index // columns * tall, wide - 14)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {columns * wide - 14} {3 * tall + 16}" role="img" '
        f'aria-label="{escape(ALT)}" fill="currentColor" font-family="inherit" font-size="12">{"".join(pieces)}</svg>'
    )
