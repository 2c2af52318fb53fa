r"""What the lab Two axes and more asks for, and the wrong answers that its checks recognize."""

import math

import torch

from posenc.lab.check.exercise import Exercise, generator


def axial_freqs(head_dim, axes, base):
    """The frequencies [axes, head_dim/2] of the axial form, in radians a step."""
    t = torch.arange(head_dim // (2 * axes))
    freqs = torch.zeros(axes, head_dim // 2)
    for a in range(axes):
        freqs[a, a::axes] = base ** (-2 * axes * t / head_dim)
    return freqs


def angles(positions, freqs):
    """The angle of each token and pair: positions [..., T, n], freqs [n, P] -> [..., T, P]."""
    placeless = positions.isnan().any(-1, keepdim=True)  # [..., T, 1]
    return positions.masked_fill(placeless, 0).to(freqs.dtype) @ freqs


def rotate_axes(x, positions, freqs):
    """Turn the pairs (2i, 2i+1) of x [..., T, D] by their angles at positions [..., T, n]."""
    phi = angles(positions, freqs)
    cos, sin = phi.cos(), phi.sin()
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2)


def positions_for(layout):
    """The ids [T, 3] (time, row, column): layout [3, (2, 4), 5] is 3 words, a picture of 2 x 4, 5 words."""
    parts, start = [], 0
    for part in layout:
        if isinstance(part, int):
            ids = torch.arange(part)[:, None].expand(part, 3)
        else:
            rows, columns = part
            ids = torch.cartesian_prod(torch.arange(1), torch.arange(rows), torch.arange(columns))
        parts.append(start + ids)
        start = int(parts[-1].max()) + 1
    return torch.cat(parts)


def _places(*shape, seed, missing=True):
    """Positions that are no whole numbers, one token without a place, one with half of one."""
    positions = torch.randn(*shape, generator=generator(seed)) * 3
    if missing:
        positions[..., 1, :] = math.nan
        positions[..., 3, -1] = math.nan
    return positions


def _freqs(axes, pairs, seed):
    return torch.randn(axes, pairs, generator=generator(seed))


def _angles_cases():
    yield torch.tensor([[0, 0], [0, 1], [1, 0], [2, 5], [-3, 4]]), _freqs(2, 4, seed=0)
    yield _places(6, 2, seed=1), _freqs(2, 3, seed=2)
    yield _places(2, 5, 3, seed=3), _freqs(3, 5, seed=4)


def _rotate_cases():
    yield (
        torch.randn(4, 8, generator=generator(5)),
        torch.tensor([[0, 1], [1, 0], [2, 5], [3, 3]]),
        _freqs(2, 4, seed=6),
    )
    yield torch.randn(2, 3, 5, 12, generator=generator(7)), _places(5, 3, seed=8), _freqs(3, 6, seed=9)
    yield torch.randn(2, 3, 5, 4, generator=generator(10)), _places(2, 1, 5, 2, seed=11), _freqs(2, 2, seed=12)


ON_PAPER = 4  # points

CASES = {
    "axial_freqs": [(16, 2, 100.0), (24, 3, 10.0), (8, 2, 1e4), (12, 2, 50.0)],
    "positions_for": [([3, (2, 3), 2],), ([(4, 2), 1, (1, 3), (3, 2), 4],), ([2, (2, 5), (4, 3), 1],)],
}

MISTAKES = {
    "axial_freqs": {
        "t runs one too far: it ends before D/(2n), or there are more pairs than D/2": (
            "(2 * axes)) -> (2 * axes) + 1)",
            "head_dim // 2) -> axes * len(t))",
        ),
        "the axes stand in one stretch after the other: deal the pairs out in turn, pair n t + a to axis a": (
            "a::axes -> a * len(t) : (a + 1) * len(t)"
        ),
        "this is the ladder of one axis, 2t/D: with n axes there are n times fewer steps, so the exponent is "
        "2nt/D": "-2 * axes * t -> -2 * t",
        "the exponent counts pairs, so each axis gets frequencies of its own: count t, the same for the n axes of "
        "a step": "axes * t -> (axes * t + a)",
        "the axes are in the wrong order: pair 0 turns along axis 0, the row": "freqs[a, -> freqs[-1 - a,",
        "the sign of the exponent is flipped: frequencies fall from 1": "-2 * axes -> 2 * axes",
        "each pair turns along every axis: a pair knows one axis, the others are 0 there": "freqs[a, -> freqs[:,",
        "pairs stand in rows: axes do, [n, D/2]": "return freqs -> return freqs.T",
    },
    "angles": {
        "a token without a place has angles that are NaN, which would spread to every score: give it 0": (
            ".masked_fill(placeless, 0) -> "
        ),
        "only the coordinate that is NaN became 0: a token with one NaN has no place at all": (
            ".any(-1, keepdim=True) -> "
        ),
        "rows and columns are swapped: coordinate a goes with row a of freqs": "-> angles(positions.flip(-1), freqs)",
        "the angles of the axes are multiplied: add them": (
            "return positions -> return (positions",
            " @ freqs -> [..., None] * freqs).prod(-2)",
        ),
        "the first axis alone turns: add the others": " @ freqs -> [..., :1] @ freqs[:1]",
        "this is the mean over the axes: take the sum": "-> angles(positions, freqs) / len(freqs)",
        "the place became one distance from the corner, so its direction is lost: each coordinate has a frequency "
        "of its own": "-> angles(positions.float().norm(dim=-1, keepdim=True), freqs.sum(0, keepdim=True))",
        "the axes are still there: sum over them, [..., T, P]": " @ freqs -> [..., None] * freqs",
    },
    "rotate_axes": {
        "these are pairs of the half layout, (i, i + D/2): the interleaved one pairs neighbors, (2i, 2i + 1)": (
            "x[..., 0::2], x[..., 1::2] -> x.chunk(2, -1)",
            "stack( -> cat(",
            ".flatten(-2) -> ",
        ),
        "the sign of the sine is flipped: it turns backwards": "phi.sin() -> -phi.sin()",
        "pairs are read as neighbors and written as halves: stack on a last axis and flatten, in place of cat": (
            "stack( -> cat(",
            ".flatten(-2) -> ",
        ),
        "pairs are read as halves and written as neighbors: read x[..., 0::2] and x[..., 1::2]": (
            "x[..., 0::2], x[..., 1::2] -> x.chunk(2, -1)"
        ),
        "lanes are paired as neighbors, but lane i has angle i mod D/2, that of the half layout: each angle serves "
        "two neighbors": (
            "angles(positions, freqs) -> angles(positions, freqs).tile(2)",
            "a * cos - b * sin -> a * cos[..., 0::2] - b * sin[..., 0::2]",
            "a * sin + b * cos -> a * sin[..., 1::2] + b * cos[..., 1::2]",
        ),
        "both signs are plus: a rotation has one minus, a cos - b sin": "cos - b -> cos + b",
        "rows and columns are swapped": "-> rotate_axes(x, positions.flip(-1), freqs)",
        "the sine is missing: lanes shrink, and nothing turns": "phi.sin() -> 0",
    },
    "positions_for": {
        "the text after a picture goes on at the number of patches: it goes on at the largest id + 1": (
            "int(parts[-1].max()) + 1 -> start + len(ids)"
        ),
        "what follows a picture stands at its largest id: one past it": (
            "int(parts[-1].max()) + 1 -> int(parts[-1].max()) + isinstance(part, int)"
        ),
        "what follows a picture stands one past its time: one past the largest of all three ids": (
            "int(parts[-1].max()) + 1 -> start + (part if isinstance(part, int) else 1)"
        ),
        "what follows a picture stands one past its rows: columns may be more": (
            "int(parts[-1].max()) + 1 -> start + (part if isinstance(part, int) else rows)"
        ),
        "what follows a picture stands one past its columns: rows may be more": (
            "int(parts[-1].max()) + 1 -> start + (part if isinstance(part, int) else columns)"
        ),
        "time counts the patches: a still picture has one time for all of them, its start": (
            "parts[-1].max() -> parts[-1][:, 1:].max()",
            "(columns)) -> (columns))\n            ids[:, 0] = torch.arange(rows * columns)",
        ),
        "a picture starts one too late: its first patch has the next id": (
            "start + ids -> start + ids + (not isinstance(part, int))"
        ),
        "rows and columns are swapped: (time, row, column)": "-> positions_for(layout)[:, [0, 2, 1]]",
        "patches stand column by column: the column runs fastest": (
            "torch.arange(rows), torch.arange(columns)) -> torch.arange(columns), torch.arange(rows))[:, [0, 2, 1]]"
        ),
        "the rows and columns of a picture start at 0: they start where the picture does": (
            "start + ids -> ids + start * torch.tensor([1, *2 * [isinstance(part, int)]])",
            "int(parts[-1].max()) -> start + int(ids.max())",
        ),
        "words have a time alone: a word has the same id on all three": (
            "start + ids -> (start + ids) * torch.tensor([1, *2 * [not isinstance(part, int)]])"
        ),
    },
}

LADDERS = (
    ("frequencies in turns a step, not radians: divided by 2 pi", lambda f, *case: f(*case) / (2 * math.pi)),
    ("a base of 10 times the base that is given", lambda f, dim, axes, base: f(dim, axes, 10 * base)),
    ("frequencies in degrees a step, not radians: times 180 / pi", lambda f, *case: f(*case) * (180 / math.pi)),
)
TURNS = (
    ("all coordinates are first halved", lambda f, x, at, freqs: f(x, at / 2, freqs)),
    ("the result times 0.1 ln 4 + 1, as in YaRN", lambda f, *case: f(*case) * (0.1 * math.log(4) + 1)),
    ("pairs in a dimension of their own: [..., T, D/2, 2]", lambda f, *case: f(*case).unflatten(-1, (-1, 2))),
)

# reference, cases, tolerance, points, mistakes
EXERCISES = {
    "axial_freqs": Exercise(axial_freqs, CASES["axial_freqs"], 1e-6, 2, MISTAKES["axial_freqs"], variants=LADDERS),
    "angles": Exercise(angles, _angles_cases, 1e-4, 2, MISTAKES["angles"]),
    "rotate_axes": Exercise(rotate_axes, _rotate_cases, 1e-4, 3, MISTAKES["rotate_axes"], variants=TURNS),
    "positions_for": Exercise(positions_for, CASES["positions_for"], 1e-6, 3, MISTAKES["positions_for"]),
}
