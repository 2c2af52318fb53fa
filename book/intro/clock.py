r"""Two hands on a clock: the figure that opens the book, and the RoPE chapter's first."""

import math
import re
from pathlib import Path

import torch

from posenc import rope
from posenc.lab.explore.page import escape

TITLE = "Two hands on a clock"
SEE = "Drag the bracket, or a hand by its tip. Which bars move?"
ALT = (
    "A sentence, and a bracket between two of its words: the query, it, and the key, cat. Below, a dial with a long "
    "hand for the query and a short dashed one for the key, each turned by its word's place, the arc between them, and "
    "the key's projection on the query, the score. Eight small dials, fast to slow, each with a bar for its score, "
    "striped where it takes away, and their sum. Drag the bracket: hands turn, bars don't move. Drag one word: they do."
)
EAGER = True  # a finger comes to the book's first figure before anything else has stirred
WORDS = "the cat sat up as it saw a bird land on the old red roof and then the sun set and all was dark".split()
SHOWN = dict.fromkeys("mn", (0, len(WORDS) - 1))  # the query's place and the key's
PAIRS = 8  # pairs of lanes, D = 16: a dial each
BASE = 177.0  # pair 1 turns by 30 degrees a word, an hour on a clock; the slowest still turns in sight
LENGTHS = (1, 0.75)  # of a query's hand and a key's; a query's is 1, so that a score is a length along it
PHASES = 2 * math.pi * torch.rand(2, PAIRS, dtype=torch.float64, generator=torch.Generator().manual_seed(6889))
PHASES[:, 1] = 0  # on the large dial both point to lane 2i before they turn, elsewhere anywhere
STILL = Path(__file__).with_suffix(".html")  # what the script draws at first, as `make screenshot` writes it


def data() -> dict:
    numbers = {"frequencies": rope.inv_freq(2 * PAIRS, BASE, dtype=torch.float64).tolist(), "phases": PHASES.tolist()}
    return {"words": WORDS, "m": WORDS.index("it"), "n": WORDS.index("cat"), "lengths": LENGTHS} | numbers


def picture() -> str:
    drawn = re.sub(r' (role|tabindex|aria-[\w-]+)="[^"]*"', "", STILL.read_text("utf-8"))  # nothing yet to take in hand
    style = f"<style>{STILL.with_suffix('.css').read_text('utf-8')}</style>"
    return f'<div role="img" aria-label="{escape(ALT)}">{style}{drawn}</div>'
