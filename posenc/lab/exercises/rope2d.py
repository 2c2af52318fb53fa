r"""What the lab Two axes and more asks for, and the wrong answers that its checks recognize."""

import math

import torch

from posenc.lab.exercises.exercise import Exercise, generator
from posenc.rotate import mrope, rope2d

# What the exercises ask for


def axial_freqs(head_dim, axes, base):
    return rope2d.axial(head_dim, axes, base)


def angles(positions, freqs):
    return rope2d.angles(positions, freqs)


def rotate_axes(x, positions, freqs):
    return rope2d.rotate(x, positions, freqs)


def positions_for(layout):
    r"""The ids [T, 3] (time, row, column) of a text with still pictures: `posenc.mrope.positions_for`, made simpler.

    layout: a list of whole numbers n, n words of text, and pairs (rows, columns), pictures.
    """
    return mrope.positions_for([part if isinstance(part, int) else (1, *part) for part in layout])


# How they go wrong: axial_freqs


def _dealt(magnitudes, axes):
    """[t] -> [axes, axes t]: each magnitude given to one axis after the other."""
    return (magnitudes[:, None, None] * torch.eye(axes)).flatten(0, 1).T


def _one_too_many(head_dim, axes, base):
    return _dealt(base ** (-2 * axes * torch.arange(head_dim // (2 * axes) + 1) / head_dim), axes)


def _concatenated(head_dim, axes, base):
    magnitudes = base ** (-2 * axes * torch.arange(head_dim // (2 * axes)) / head_dim)
    return torch.block_diag(*[magnitudes[None]] * axes)


def _as_in_one_dimension(head_dim, axes, base):
    return _dealt(base ** (-2 * torch.arange(head_dim // (2 * axes)) / head_dim), axes)


def _counted_by_pair(head_dim, axes, base):
    pairs = torch.arange(head_dim // 2)
    return base ** (-2 * pairs / head_dim) * (pairs % axes == torch.arange(axes)[:, None])


def _last_axis_first(head_dim, axes, base):
    return axial_freqs(head_dim, axes, base).flip(0)


def _growing(head_dim, axes, base):
    return _dealt(base ** (2 * axes * torch.arange(head_dim // (2 * axes)) / head_dim), axes)


def _on_every_axis(head_dim, axes, base):
    return axial_freqs(head_dim, axes, base).sum(0).expand(axes, -1).clone()


def _transposed(head_dim, axes, base):
    return axial_freqs(head_dim, axes, base).T


# How they go wrong: angles


def _matrix_product(positions, freqs):
    return positions.to(freqs.dtype) @ freqs


def _only_the_missing_coordinate(positions, freqs):
    return positions.to(freqs.dtype).nan_to_num() @ freqs


def _swapped(positions, freqs):
    return angles(positions.flip(-1), freqs)


def _product_over_axes(positions, freqs):
    return torch.stack([angles(p, w) for p, w in _per_axis(positions, freqs)]).prod(0)


def _per_axis(positions, freqs):
    """(positions [..., T, 1], freqs [1, P]) of each axis, tokens without a place as NaN on all."""
    positions = positions + 0 * positions.sum(-1, keepdim=True)
    return [(positions[..., a : a + 1], freqs[a : a + 1]) for a in range(len(freqs))]


def _first_axis_only(positions, freqs):
    return angles(*_per_axis(positions, freqs)[0])


def _mean_over_axes(positions, freqs):
    return angles(positions, freqs) / len(freqs)


def _one_distance(positions, freqs):
    return angles(positions.float().norm(dim=-1, keepdim=True), freqs.sum(0, keepdim=True))


def _axes_kept(positions, freqs):
    return torch.stack([angles(p, w) for p, w in _per_axis(positions, freqs)], -2)


# How they go wrong: rotate


def _cos_sin(positions, freqs):
    by = angles(positions, freqs)
    return by.cos(), by.sin()


def _halves(x, positions, freqs):
    return rope2d.rotate(x, positions, freqs, "half")


def _backwards(x, positions, freqs):
    return rotate_axes(x, positions, -freqs)


def _reads_pairs_writes_halves(x, positions, freqs):
    cos, sin = _cos_sin(positions, freqs)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.cat((a * cos - b * sin, a * sin + b * cos), -1)


def _reads_halves_writes_pairs(x, positions, freqs):
    cos, sin = _cos_sin(positions, freqs)
    a, b = x.chunk(2, -1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2)


def _angles_of_halves(x, positions, freqs):
    cos, sin = (torch.cat((half, half), -1) for half in _cos_sin(positions, freqs))
    other = torch.stack((-x[..., 1::2], x[..., 0::2]), -1).flatten(-2)
    return x * cos + other * sin


def _both_plus(x, positions, freqs):
    cos, sin = _cos_sin(positions, freqs)
    a, b = x[..., 0::2], x[..., 1::2]
    return torch.stack((a * cos + b * sin, a * sin + b * cos), -1).flatten(-2)


def _rows_for_columns(x, positions, freqs):
    return rotate_axes(x, positions.flip(-1), freqs)


def _cosine_alone(x, positions, freqs):
    return x * _cos_sin(positions, freqs)[0].repeat_interleave(2, -1)


# How they go wrong: positions_for


def _ids(layout, after, time=lambda rows, columns: torch.zeros(rows * columns, dtype=torch.long)):
    """Ids with the step `after(rows, columns)` from a picture's start to what follows it."""
    parts, start = [], 0
    for part in layout:
        if isinstance(part, int):
            parts.append(start + torch.arange(part)[:, None].expand(part, 3))
            start += part
        else:
            rows, columns = part
            place = torch.cartesian_prod(torch.arange(rows), torch.arange(columns))
            parts.append(start + torch.cat((time(rows, columns)[:, None], place), 1))
            start += after(rows, columns)
    return torch.cat(parts)


def _number_of_patches(layout):
    return _ids(layout, lambda rows, columns: rows * columns)


def _at_the_largest(layout):
    return _ids(layout, lambda rows, columns: max(rows, columns) - 1)


def _one_step_after(layout):
    return _ids(layout, lambda rows, columns: 1)


def _after_the_rows(layout):
    return _ids(layout, lambda rows, columns: rows)


def _after_the_columns(layout):
    return _ids(layout, lambda rows, columns: columns)


def _time_counts_patches(layout):
    return _ids(layout, max, time=lambda rows, columns: torch.arange(rows * columns))


def _picture_one_late(layout):
    parts, start = [], 0
    for part in layout:
        late = 0 if isinstance(part, int) else 1
        parts.append(positions_for([part]) + start + late)
        start = int(parts[-1].max()) + 1
    return torch.cat(parts)


def _column_before_row(layout):
    return positions_for(layout)[:, [0, 2, 1]]


def _rows_fastest(layout):
    parts, first = positions_for(layout), 0
    for part in layout:
        length = part if isinstance(part, int) else part[0] * part[1]
        if not isinstance(part, int):
            parts[first : first + length] = parts[first : first + length].view(*part, 3).transpose(0, 1).reshape(-1, 3)
        first += length
    return parts


def _pictures_from_zero(layout):
    ids, first = positions_for(layout), 0
    for part in layout:
        length = part if isinstance(part, int) else part[0] * part[1]
        if not isinstance(part, int):
            ids[first : first + length, 1:] -= ids[first, 0].clone()
        first += length
    return ids


def _text_has_time_only(layout):
    ids, first = positions_for(layout), 0
    for part in layout:
        length = part if isinstance(part, int) else part[0] * part[1]
        if isinstance(part, int):
            ids[first : first + length, 1:] = 0
        first += length
    return ids


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

EXERCISES = {
    "axial_freqs": Exercise(
        title="Exercise 1, axial_freqs",
        points=2,
        reference=axial_freqs,
        cases=[(16, 2, 100.0), (24, 3, 10.0), (8, 2, 1e4), (12, 2, 50.0)],
        mistakes={
            "t runs one too far: it ends before D/(2n), or there are more pairs than D/2": _one_too_many,
            "the axes stand in one stretch after the other: deal the pairs out in turn, pair n t + a to axis a": (
                _concatenated
            ),
            "this is the ladder of one axis, 2t/D: with n axes there are n times fewer steps, so the exponent is "
            "2nt/D": _as_in_one_dimension,
            "the exponent counts pairs, so each axis gets frequencies of its own: count t, the same for the n axes of "
            "a step": _counted_by_pair,
            "the axes are in the wrong order: pair 0 turns along axis 0, the row": _last_axis_first,
            "the sign of the exponent is flipped: frequencies fall from 1": _growing,
            "each pair turns along every axis: a pair knows one axis, the others are 0 there": _on_every_axis,
            "pairs stand in rows: axes do, [n, D/2]": _transposed,
        },
    ),
    "angles": Exercise(
        title="Exercise 2, angles",
        points=2,
        reference=angles,
        cases=lambda: list(_angles_cases()),
        tolerance=1e-4,
        mistakes={
            "a token without a place has angles that are NaN, which would spread to every score: give it 0": (
                _matrix_product
            ),
            "only the coordinate that is NaN became 0: a token with one NaN has no place at all": (
                _only_the_missing_coordinate
            ),
            "rows and columns are swapped: coordinate a goes with row a of freqs": _swapped,
            "the angles of the axes are multiplied: add them": _product_over_axes,
            "the first axis alone turns: add the others": _first_axis_only,
            "this is the mean over the axes: take the sum": _mean_over_axes,
            "the place became one distance from the corner, so its direction is lost: each coordinate has a frequency "
            "of its own": _one_distance,
            "the axes are still there: sum over them, [..., T, P]": _axes_kept,
        },
    ),
    "rotate_axes": Exercise(
        title="Exercise 3, rotate_axes",
        points=3,
        reference=rotate_axes,
        cases=lambda: list(_rotate_cases()),
        tolerance=1e-4,
        mistakes={
            "these are pairs of the half layout, (i, i + D/2): the interleaved one pairs neighbors, (2i, 2i + 1)": (
                _halves
            ),
            "the sign of the sine is flipped: it turns backwards": _backwards,
            "pairs are read as neighbors and written as halves: stack on a last axis and flatten, in place of cat": (
                _reads_pairs_writes_halves
            ),
            "pairs are read as halves and written as neighbors: read x[..., 0::2] and x[..., 1::2]": (
                _reads_halves_writes_pairs
            ),
            "lanes are paired as neighbors, but lane i has angle i mod D/2, that of the half layout: each angle serves "
            "two neighbors": _angles_of_halves,
            "both signs are plus: a rotation has one minus, a cos - b sin": _both_plus,
            "rows and columns are swapped": _rows_for_columns,
            "the sine is missing: lanes shrink, and nothing turns": _cosine_alone,
        },
    ),
    "positions_for": Exercise(
        title="Exercise 4, positions_for",
        points=3,
        reference=positions_for,
        cases=[([3, (2, 3), 2],), ([(4, 2), 1, (1, 3), (3, 2), 4],), ([2, (2, 5), (4, 3), 1],)],
        mistakes={
            "the text after a picture goes on at the number of patches: it goes on at the largest id + 1": (
                _number_of_patches
            ),
            "what follows a picture stands at its largest id: one past it": _at_the_largest,
            "what follows a picture stands one past its time: one past the largest of all three ids": _one_step_after,
            "what follows a picture stands one past its rows: columns may be more": _after_the_rows,
            "what follows a picture stands one past its columns: rows may be more": _after_the_columns,
            "time counts the patches: a still picture has one time for all of them, its start": _time_counts_patches,
            "a picture starts one too late: its first patch has the next id": _picture_one_late,
            "rows and columns are swapped: (time, row, column)": _column_before_row,
            "patches stand column by column: the column runs fastest": _rows_fastest,
            "the rows and columns of a picture start at 0: they start where the picture does": _pictures_from_zero,
            "words have a time alone: a word has the same id on all three": _text_has_time_only,
        },
    ),
}
