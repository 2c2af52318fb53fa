r"""What the lab Learned positions asks for, and the wrong answers that its checks recognize."""

import math

import torch
from torch.nn.functional import normalize

from posenc.lab.check.exercise import Exercise, generator


def lookup(table, positions):
    """The row of each position."""
    missing = positions[(positions < 0) | (positions >= len(table))]
    if missing.numel():
        raise ValueError(f"position {missing[0].item()} has no row: there are {len(table)} rows")
    return table[positions]


LOOKUP = {
    "a negative position is not refused: torch counts it from the end, so -1 gives the last row": (
        "(positions < 0) | -> "
    ),
    "nothing is refused: -2 gives a row from the end, and what torch says of 17 names no table": "-> table[positions]",
    "positions beyond the table get its last row; refuse them": "-> table[positions.clamp(0, len(table) - 1)]",
    "positions beyond the table start again at its first row; refuse them": "-> table[positions % len(table)]",
    "positions beyond the table get zeros; refuse them": (
        "-> torch.cat((table, 0 * table[:1]))[positions.where((positions >= 0) & (positions < len(table)), -1)]"
    ),
    "it refuses, but does not say which position and how many rows": (
        "position {missing[0].item()} has no row: there are {len(table)} rows -> a position is out of range"
    ),
    "the last row is refused too: N rows serve positions 0 to N - 1": ">= len(table) -> >= len(table) - 1",
}


def stretch(table, length, prefix=0):
    """The table with `length` rows, [length, C]."""
    kept, rows = table[:prefix], table[prefix:]
    place = torch.linspace(0, len(rows) - 1, length - prefix, dtype=torch.float64, device=table.device)
    left = place.floor().long()
    right = (left + 1).clamp(max=len(rows) - 1)
    share = (place - left).to(table.dtype)[:, None]
    return torch.cat((kept, (1 - share) * rows[left] + share * rows[right]))


STRETCH = {
    "the corners are not aligned: the first and the last row must stay, and all steps be equal": (
        "linspace(0, len(rows) - 1, -> arange(",
        "left = -> place = ((place + 0.5) * len(rows) / len(place) - 0.5).clamp(min=0)\n    left =",
    ),
    "the prefix is stretched along with the rest; keep its rows as they are": "-> stretch(table, length)",
    "there are too many rows: length counts those of the prefix too": "-> stretch(table, length + prefix, prefix)",
    "the prefix is missing": "-> stretch(table[prefix:], length)",
    "the prefix must stay in front": "-> stretch(table, length, prefix).roll(-prefix, 0)",
    "the steps are N / length; with both ends kept they are (N - 1) / (length - 1)": (
        "len(rows) - 1, length -> len(rows) - len(rows) / (length - prefix), length"
    ),
    "each new row is a copy of the nearest old one; mix the two neighbors": (
        "place.floor() -> place.round()",
        "(place - left) -> (0 * place)",
    ),
    "the two shares are swapped: the nearer row counts more": (
        "(1 - share) * rows[left] + share * -> share * rows[left] + (1 - share) *"
    ),
    "the old rows are repeated from the start; read between them": (
        "-> torch.cat((table[:prefix], table[prefix:][torch.arange(length - prefix) % (len(table) - prefix)]))"
    ),
}


def count(max_positions, dim, num_layers, embed_at):
    """The parameters that position has in a model, as a whole number."""
    tables = 1 if embed_at == "input" else num_layers
    return tables * max_positions * dim


COUNT = {
    "each layer has a table of its own when it acts in the layers: times the number of layers": (
        "else num_layers -> else 1"
    ),
    "at the input there is one table, however many layers": '1 if embed_at == "input" else num_layers -> num_layers',
    "queries, keys and values of a layer share one table: it is added before their matrices": (
        "else num_layers -> else num_layers * len(embed_at[6:])"
    ),
    "a table has a row for each position and a column for each lane: multiply, do not add": (
        "max_positions * dim -> (max_positions + dim)"
    ),
}


def fold(table, weight):
    """The rows to add, [N, C]."""
    lanes = table.shape[1]
    return table @ weight[-lanes:]


FOLD = {
    "these are the first rows of weight, which meet the content; the last ones meet the position": (
        "[-lanes:] -> [:lanes]"
    ),
    "the sign is flipped: the row is added": "table @ -> -table @",
    "row 0 is missing: the rows are one position off": "-> fold(table, weight).roll(-1, 0)",
    "all of weight is summed: only the last K rows meet the position": (
        "-> fold(table, weight) + weight[: -table.shape[1]].sum(0)"
    ),
}


def run_lookup(function, table, positions):
    """What becomes of a lookup: its rows, or in words how it was refused."""
    try:
        return function(table, positions)
    except IndexError:
        return "IndexError"
    except ValueError as error:
        rows = len(table)
        wrong = [p for p in positions.flatten().tolist() if not 0 <= p < rows]
        words = str(error).replace(",", " ").replace(":", " ").replace("=", " ").replace(".", " ").split()
        named = str(rows) in words and any(str(p) in words for p in wrong)
        return "refused" if named else "ValueError that does not name both numbers"


def _random(*shape):
    return torch.randn(*shape, generator=generator(5))


def _lookups():
    table = _random(6, 3)
    return [
        (table, torch.tensor([0, 1, 2, 5])),
        (table, torch.tensor([[3, 1], [4, 4]])),
        (table, torch.tensor([0, 17, 2])),
        (table, torch.tensor([1, -2, 3])),
        (table, torch.tensor([6])),
    ]


def _stretches():
    return [(_random(5, 3), 9), (_random(4, 2), 7, 1), (_random(9, 2), 5, 2), (_random(6, 4), 6)]


def _folds():
    return [(_random(7, 3), _random(8, 5)), (_random(4, 6), _random(12, 6)), (_random(3, 1), _random(3, 2))]


_COUNTS = [(512, 768, 12, "input"), (512, 768, 12, "layer_qkv"), (100, 64, 5, "layer_qk"), (7, 3, 1, "input")]
ON_PAPER = 3  # points

STRETCHES = (
    ("the result transposed: [C, length]", lambda f, *case: f(*case).T),
    ("each row of the result is divided by its Euclidean norm", lambda f, *case: normalize(f(*case), dim=-1)),
    ("each row minus the row before it, row 0 as it is", lambda f, p, *n: f(p, *n).diff(dim=0, prepend=0 * p[:1])),
)
FOLDS = (
    ("rows of the table are first multiplied by sqrt(K)", lambda f, p, w: f(p * math.sqrt(p.shape[1]), w)),
    ("row 0 of the table is first subtracted from all its rows", lambda f, p, w: f(p - p[:1], w)),
    ("the result transposed: [C, N]", lambda f, *case: f(*case).T),
)

EXERCISES = {  # what is right, cases, tolerance, points, mistakes
    "lookup": Exercise(lookup, _lookups, 1e-6, 2, LOOKUP, run_lookup),
    "stretch": Exercise(stretch, _stretches, 1e-5, 3, STRETCH, variants=STRETCHES),
    "count": Exercise(count, _COUNTS, 1e-6, 1, COUNT),
    "fold": Exercise(fold, _folds, 1e-5, 2, FOLD, variants=FOLDS),
}
