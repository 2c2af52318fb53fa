r"""One sentence, every method: where a word of a sentence looks, as arcs by two methods and as a share by each.

Nothing here is trained. Every word looks for words that share its letters: `content` makes the query and the key of a
word from its letters alone, the same for all methods, so that only position tells the methods apart. Where a method
learns its numbers, they are set by hand, and `NOTES` says how.
"""

import math
from html import escape

import torch
from torch import Tensor

from posenc import attention, make
from posenc.bias.alibi import bias as linear_bias
from posenc.encoding import Encoding
from posenc.lab.titles import TITLES
from posenc.methods import METHODS, on_text

TITLE = "One sentence, every method: where a word looks"
EAGER = True  # it opens its page, and is taller than its picture
SEE = "Press a word: who looks at it? The cards sort themselves anew."
ALT = (
    "A sentence in a row of words. Arcs lead from the word that asks to each word before it, by one method above the "
    "words, by another below, thicker where it looks more. A method's card has its share on the word looked at, the "
    "largest first: six cards, or all. Choose both words and both methods, put ten filler words between, or type."
)
PRESETS = (
    "the cat sat on the mat because it was tired",
    "a rose is a rose is a rose",
    "to be or not to be that is the question",
)
FILLER = "so to say as it were you know and then"
START = {"s": PRESETS[0], "f": 0, "i": 1, "q": 10, "k": 8, "a": "rope", "b": "stickbreaking", "m": -2.0}  # the address
#: lanes of a head; strengths of what all words share, of the letters, and of what keeps unlike words below zero
LANES, COMMON, LETTERS, THRESHOLD = 16, 2.7, 2.6, 3.3
ROWS = 16  # of the learned table
CLIPPED = (0.0, 0.5, 1.0, 2.0, 0.0)  # Shaw: what is added four and more, three, two, one back, and at the word itself
SLOPE = 2 ** START["m"]
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
    steps, none = torch.arange(8.0, dtype=torch.float64), [[0.0] * LANES]
    fires = ("bias.widen.bias", "bias.narrow.bias")
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


def card(name: str) -> dict:
    """What a method's card says, and where its chapter is on the site."""
    full = METHODS[name].title
    links = {"note": NOTES[name], "page": f"book/{TITLES[name].page}/index.html"}
    return {"name": name, "title": SHORT.get(name, full), "full": full} | links


def data() -> dict:
    """What the script gets: the sentences, the cards, and the numbers that its closed forms take from here."""
    several = [METHODS[name].title for name in METHODS if name not in on_text()]
    return {
        "presets": PRESETS,
        "filler": FILLER,
        "start": START,
        "methods": [card(name) for name in on_text()],
        "strengths": {"lanes": LANES, "common": COMMON, "letters": LETTERS, "threshold": THRESHOLD},
        "rows": ROWS,
        "clipped": CLIPPED,
        "left_out": f"Not here: {', '.join(several)}. Their positions have several coordinates, a word has one.",
    }


def arcs(row: list, xs: list, foot: float, up: int, hue: str, most: float) -> str:
    """One method's arcs from the last word to each before it, as SVG, with the shares at their ends."""
    out, key = "", START["k"] - 1  # the word looked at
    for j in sorted(range(len(row)), key=lambda j: j == key):
        top = foot - up * 100 * (0.25 + 0.75 * (xs[-1] - xs[j]) / (xs[-1] - xs[0])) * 4 / 3
        path = f"M{xs[-1]:.0f} {foot}C{xs[-1]:.0f} {top:.0f} {xs[j]:.0f} {top:.0f} {xs[j]:.0f} {foot}"
        line = f'stroke="{hue}" stroke-width="{12 * row[j] / most:.1f}" stroke-opacity="{1 if j == key else 0.45}"'
        out += f'<path d="{path}" fill="none" {line}/>' * (j < len(row) - 1)
        bold = ' font-weight="700"' * (j == key)
        if row[j] >= 0.005:
            out += f'<text x="{xs[j]:.0f}" y="{foot + (14 if up > 0 else -4)}"{bold}>{row[j]:.0%}</text>'
    return f'<g text-anchor="middle" font-size="12">{out}</g>'


def picture() -> str:
    """The first sentence before it is touched: its last word asks."""
    words, key = PRESETS[0].split(), START["k"] - 1
    sizes = [len(word) + 2 for word in words]
    xs = [(sum(sizes[:i]) + size / 2) * 480 / sum(sizes) for i, size in enumerate(sizes)]
    rows = {name: weights(name, words)[-1].tolist() for name in on_text()}
    ends = ("above", 126, 12, "var(--x-accent)"), ("below", 202, 326, "var(--x-green, #00795c)")
    sides = dict(zip((START["a"], START["b"]), ends))
    most, pieces = max(max(rows[name][:-1]) for name in sides), []
    for name, (side, foot, y, hue) in sides.items():
        pieces.append(arcs(rows[name], xs, foot, 1 if side == "above" else -1, hue, most))
        pieces.append(f'<text y="{y}" fill="{hue}" font-weight="600">{side}: {METHODS[name].title}</text>')
    for i, word in enumerate(words):
        mark = {len(words) - 1: ' font-weight="700"', key: ' text-decoration="underline"'}.get(i, "")
        pieces.append(f'<text x="{xs[i]:.0f}" y="169" text-anchor="middle"{mark}>{word}</text>')
    for i, name in enumerate(sorted(rows, key=lambda name: -rows[name][key])):
        x, y, share = i % 3 * 163, 356 + i // 3 * 30, rows[name][key]
        hue = sides[name][3] if name in sides else "var(--x-muted)"
        pieces.append(f'<text x="{x}" y="{y}">{escape(SHORT.get(name, METHODS[name].title))}</text>')
        pieces.append(f'<text x="{x + 150}" y="{y}" text-anchor="end">{share:.0%}</text>')
        pieces.append(f'<rect x="{x}" y="{y + 5}" width="{300 * share:.0f}" height="5" fill="{hue}"/>')
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 480 520" style="max-height: 36rem" role="img" '
        f'aria-label="{escape(ALT)}" fill="currentColor" font-family="inherit" font-size="15">{"".join(pieces)}</svg>'
    )
