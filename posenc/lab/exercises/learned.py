r"""What the lab Learned positions asks for, and the wrong answers that its checks recognize."""

import torch
from torch.nn.functional import interpolate

from posenc.embed.learned import resize
from posenc.lab.exercises.exercise import Exercise, generator

# What the exercises ask for


def lookup(table, positions):
    r"""The row of each position; a position without a row is refused, with both numbers in the message.

    Arguments: table: [N, C]. positions: [T] or [B, T], whole numbers. Returns: [T, C] or [B, T, C].
    Errors: ValueError naming the position and N. Chapter: Learned positions.
    """
    rows = len(table)
    wrong = positions[(positions < 0) | (positions >= rows)]
    if len(wrong):
        raise ValueError(f"position {wrong[0].item()}: the table has {rows} rows, for positions 0 to {rows - 1}")
    return table[positions]


def stretch(table, length, prefix=0):
    """See `posenc.learned.resize`."""
    return resize(table, length, prefix=prefix)


def count(max_positions, dim, num_layers, embed_at):
    r"""How many parameters the positions of a model have, every layer with an encoding of its own.

    embed_at: "input", "layer_qk" or "layer_qkv".
    """
    return max_positions * dim * (1 if embed_at == "input" else num_layers)


def fold(table, weight):
    r"""The table that does by adding what appending and projecting did: W_1 x_i + W_2 p_i.

    Arguments: table: [N, K], the rows p_i. weight: [C + K, C], W_1^T above W_2^T. Returns: [N, C].
    """
    return table @ weight[-table.shape[1] :]


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


# How they go wrong


def _plain(table, positions):
    return table[positions]


def _upper_only(table, positions):
    if positions.max() >= len(table):
        raise ValueError(f"position {positions.max().item()} but {len(table)} rows")
    return table[positions]


def _clamps(table, positions):
    return table[positions.clamp(0, len(table) - 1)]


def _wraps(table, positions):
    return table[positions % len(table)]


def _says_nothing(table, positions):
    if positions.min() < 0 or positions.max() >= len(table):
        raise ValueError("a position is out of range")
    return table[positions]


def _last_refused(table, positions):
    wrong = positions[(positions < 0) | (positions >= len(table) - 1)]
    if len(wrong):
        raise ValueError(f"position {wrong[0].item()} but {len(table)} rows")
    return table[positions]


def _zeros_beyond(table, positions):
    inside = (positions >= 0) & (positions < len(table))
    return table[positions.clamp(0, len(table) - 1)] * inside[..., None]


def _read_at(rows, place):
    left = place.floor().long().clamp(max=len(rows) - 1)
    right = (left + 1).clamp(max=len(rows) - 1)
    share = (place - left)[:, None]
    return rows[left] * (1 - share) + rows[right] * share


def _not_aligned(table, length, prefix=0):
    rows = interpolate(table[prefix:].T[None], size=length - prefix, mode="linear", align_corners=False)[0].T
    return torch.cat((table[:prefix], rows))


def _prefix_stretched(table, length, prefix=0):
    return stretch(table, length)


def _prefix_not_counted(table, length, prefix=0):
    return stretch(table, length + prefix, prefix)


def _prefix_lost(table, length, prefix=0):
    return stretch(table[prefix:], length)


def _prefix_last(table, length, prefix=0):
    return stretch(table, length, prefix).roll(-prefix, 0)


def _falls_short(table, length, prefix=0):
    rows, new = table[prefix:], length - prefix
    return torch.cat((table[:prefix], _read_at(rows, torch.arange(new) * len(rows) / new)))


def _nearest(table, length, prefix=0):
    return resize(table, length, "nearest", prefix)


def _shares_swapped(table, length, prefix=0):
    rows = table[prefix:]
    place = torch.linspace(0, len(rows) - 1, length - prefix)
    left = place.floor().long()
    right = (left + 1).clamp(max=len(rows) - 1)
    share = (place - left)[:, None]
    return torch.cat((table[:prefix], rows[left] * share + rows[right] * (1 - share)))


def _tiles(table, length, prefix=0):
    rows = table[prefix:]
    return torch.cat((table[:prefix], rows[torch.arange(length - prefix) % len(rows)]))


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


ON_PAPER = 3  # points

EXERCISES = {
    "lookup": Exercise(
        title="Exercise 1, lookup",
        points=2,
        reference=lookup,
        cases=_lookups,
        run=run_lookup,
        mistakes={
            "a negative position is not refused: torch counts it from the end, so -1 gives the last row": _upper_only,
            "nothing is refused: -2 gives a row from the end, and what torch says of 17 names no table": _plain,
            "positions beyond the table get its last row; refuse them": _clamps,
            "positions beyond the table start again at its first row; refuse them": _wraps,
            "positions beyond the table get zeros; refuse them": _zeros_beyond,
            "it refuses, but does not say which position and how many rows": _says_nothing,
            "the last row is refused too: N rows serve positions 0 to N - 1": _last_refused,
        },
    ),
    "stretch": Exercise(
        title="Exercise 2, stretch",
        points=3,
        reference=stretch,
        cases=_stretches,
        tolerance=1e-5,
        mistakes={
            "the corners are not aligned: the first and the last row must stay, and all steps be equal": _not_aligned,
            "the prefix is stretched along with the rest; keep its rows as they are": _prefix_stretched,
            "there are too many rows: length counts those of the prefix too": _prefix_not_counted,
            "the prefix is missing": _prefix_lost,
            "the prefix must stay in front": _prefix_last,
            "the steps are N / length; with both ends kept they are (N - 1) / (length - 1)": _falls_short,
            "each new row is a copy of the nearest old one; mix the two neighbors": _nearest,
            "the two shares are swapped: the nearer row counts more": _shares_swapped,
            "the old rows are repeated from the start; read between them": _tiles,
        },
    ),
    "count": Exercise(
        title="Exercise 3, count",
        points=1,
        reference=count,
        cases=[(512, 768, 12, "input"), (512, 768, 12, "layer_qkv"), (100, 64, 5, "layer_qk"), (7, 3, 1, "input")],
        mistakes={
            "each layer has a table of its own when it acts in the layers: times the number of layers": (
                lambda max_positions, dim, num_layers, embed_at: max_positions * dim
            ),
            "at the input there is one table, however many layers": (
                lambda max_positions, dim, num_layers, embed_at: max_positions * dim * num_layers
            ),
            "queries, keys and values of a layer share one table: it is added before their matrices": (
                lambda max_positions, dim, num_layers, embed_at: (
                    max_positions * dim * (1 if embed_at == "input" else num_layers * len(embed_at[6:]))
                )
            ),
            "a table has a row for each position and a column for each lane: multiply, do not add": (
                lambda max_positions, dim, num_layers, embed_at: (
                    (max_positions + dim) * (1 if embed_at == "input" else num_layers)
                )
            ),
        },
    ),
    "fold": Exercise(
        title="Exercise 4, fold",
        points=2,
        reference=fold,
        cases=lambda: [(_random(7, 3), _random(8, 5)), (_random(4, 6), _random(12, 6)), (_random(3, 1), _random(3, 2))],
        tolerance=1e-5,
        mistakes={
            "these are the first rows of weight, which meet the content; the last ones meet the position": (
                lambda table, weight: table @ weight[: table.shape[1]]
            ),
            "the sign is flipped: the row is added": lambda table, weight: -fold(table, weight),
            "row 0 is missing: the rows are one position off": lambda table, weight: fold(table, weight).roll(-1, 0),
            "all of weight is summed: only the last K rows meet the position": (
                lambda table, weight: fold(table, weight) + weight[: -table.shape[1]].sum(0)
            ),
        },
    ),
}
