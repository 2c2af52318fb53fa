r"""What the lab Rotations that commute asks for, and the wrong answers that its checks recognize."""

import torch

from posenc.lab.exercises.exercise import Exercise, generator
from posenc.rotate import liere

# What the exercises ask for


def skew(P):
    r"""P - P^T of matrices [..., b, b]."""
    return liere.skew(P)


def rotation(positions, generators):
    r"""R(p) = exp(sum over a of p_a A_a): positions [T, n], generators [..., n, b, b] -> [..., T, b, b]."""
    return torch.linalg.matrix_exp(_sums(positions, generators))


def commutator_error(generators):
    r"""The largest |entry| of A_i A_j - A_j A_i over all pairs of generators [n, b, b], as one number."""
    return _over_pairs(generators, lambda a, b: a @ b - b @ a)


def ap_generators(P, axes):
    r"""Axial partition: block j of P [m, b, b] turns along axis j mod n alone; -> [m, n, b, b]."""
    owner = torch.arange(len(P)) % axes
    return _owned(P, owner, axes)


def ld_generators(theta, P):
    r"""Linearly dependent: A_a = theta_a (P - P^T), with theta [..., n] and P [..., b, b] -> [..., n, b, b]."""
    return theta[..., None, None] * skew(P)[..., None, :, :]


def _sums(positions, generators):
    """p_1 A_1 + p_2 A_2 + ..: [..., T, b, b]."""
    return (positions.to(generators.dtype)[..., None, None] * generators[..., None, :, :, :]).sum(-3)


def _over_pairs(generators, bracket):
    return bracket(generators[:, None], generators[None]).abs().max()


def _owned(P, owner, axes):
    """[m, n, b, b]: the generator of block j at the axis owner[j], zeros at the others."""
    own = owner[:, None] == torch.arange(axes)
    return own[..., None, None] * skew(P)[:, None]


# How they go wrong: skew


def _symmetric(P):
    return P + P.mT


def _halved(P):
    return (P - P.mT) / 2


def _flipped(P):
    return P.mT - P


def _upper_only(P):
    return P.triu(1) - P.triu(1).mT


def _diagonal_cleared(P):
    return P - torch.diag_embed(P.diagonal(dim1=-2, dim2=-1))


# How they go wrong: rotation


def _entry_by_entry(positions, generators):
    return _sums(positions, generators).exp()


def _per_axis(positions, generators):
    """exp(p_a A_a) of each axis, in their order."""
    return [rotation(positions[:, a : a + 1], generators[..., a : a + 1, :, :]) for a in range(generators.shape[-3])]


def _product(factors):
    out = factors[0]
    for factor in factors[1:]:
        out = out @ factor
    return out


def _product_of_exponentials(positions, generators):
    return _product(_per_axis(positions, generators))


def _product_the_other_way(positions, generators):
    return _product(_per_axis(positions, generators)[::-1])


def _sum_of_exponentials(positions, generators):
    return torch.stack(_per_axis(positions, generators)).sum(0)


def _first_order(positions, generators):
    sums = _sums(positions, generators)
    return torch.eye(sums.shape[-1]) + sums


def _backwards(positions, generators):
    return rotation(-positions, generators)


def _coordinates_added(positions, generators):
    return rotation(positions.sum(-1, keepdim=True), generators.sum(-3, keepdim=True))


def _swapped(positions, generators):
    return rotation(positions.flip(-1), generators)


def _no_exponential(positions, generators):
    return _sums(positions, generators)


# How they go wrong: commutator_error


def _anticommutator(generators):
    return _over_pairs(generators, lambda a, b: a @ b + b @ a)


def _entrywise_product(generators):
    return _over_pairs(generators, lambda a, b: a * b - b * a)


def _neighbors_only(generators):
    return max((a @ b - b @ a).abs().max() for a, b in zip(generators, generators[1:]))


def _products_alone(generators):
    return _over_pairs(generators, lambda a, b: a @ b)


def _norm(generators):
    a, b = generators[:, None], generators[None]
    return (a @ b - b @ a).norm(dim=(-2, -1)).max()


def _mean(generators):
    a, b = generators[:, None], generators[None]
    return (a @ b - b @ a).abs().mean()


def _sum_of_entries(generators):
    a, b = generators[:, None], generators[None]
    return (a @ b - b @ a).abs().sum()


# How they go wrong: ap_generators


def _by_halves(P, axes):
    return _owned(P, torch.arange(len(P)) // (len(P) // axes), axes)


def _from_the_last_axis(P, axes):
    return _owned(P, (axes - 1 - torch.arange(len(P))) % axes, axes)


def _one_axis_late(P, axes):
    return _owned(P, (torch.arange(len(P)) + 1) % axes, axes)


def _along_every_axis(P, axes):
    return skew(P)[:, None].expand(-1, axes, -1, -1).clone()


def _not_skew(P, axes):
    own = torch.arange(len(P))[:, None] % axes == torch.arange(axes)
    return own[..., None, None] * P[:, None]


def _axes_first(P, axes):
    return ap_generators(P, axes).transpose(0, 1)


# How they go wrong: ld_generators


def _a_matrix_for_each_axis(theta, P):
    return theta[..., None, None] * (skew(P) if P.ndim > 2 else skew(P)[None])


def _theta_on_one_side(theta, P):
    scaled = theta[..., None, None] * P[..., None, :, :]
    return scaled - P.mT[..., None, :, :]


def _plus(theta, P):
    return theta[..., None, None] * (P + P.mT)[..., None, :, :]


def _p_alone(theta, P):
    return theta[..., None, None] * P[..., None, :, :]


def _without_theta(theta, P):
    return torch.ones_like(theta)[..., None, None] * skew(P)[..., None, :, :]


def _unit_theta(theta, P):
    return ld_generators(theta / theta.norm(dim=-1, keepdim=True), P)


def _size_of_theta(theta, P):
    return ld_generators(theta.abs(), P)


def _normal(*shape, seed):
    return torch.randn(*shape, generator=generator(seed))


def _rotation_cases():
    # Whole positions and floats; one block, and heads of blocks that share the positions.
    yield torch.tensor([[0, 1], [1, 0], [2, 1], [-1, 3]]), skew(_normal(2, 3, 3, seed=0)) / 2
    yield _normal(5, 3, seed=1), skew(_normal(3, 4, 4, seed=2)) / 2
    yield _normal(4, 2, seed=3), skew(_normal(2, 3, 2, 4, 4, seed=4)) / 2


def _commutator_cases():
    yield (skew(_normal(2, 3, 3, seed=5)),)
    yield (_normal(2, 4, 4, seed=6),)
    ends = skew(_normal(2, 4, 4, seed=7))
    yield (torch.stack((ends[0], 0.1 * ends[0], ends[1])),)  # the first and the last differ most
    planes = torch.zeros(2, 4, 4)
    planes[0, :2, :2] = planes[1, 2:, 2:] = torch.tensor([[0.0, 1.0], [-1.0, 0.0]])
    yield (planes,)  # they commute


def _ld_cases():
    # As many blocks as axes: there a missing axis broadcasts without an error.
    yield _normal(2, 2, seed=8), _normal(2, 3, 3, seed=9)
    yield _normal(3, 3, seed=10), _normal(3, 2, 2, seed=11)
    yield _normal(2, seed=12), _normal(4, 4, seed=13)


ON_PAPER = 4  # points

EXERCISES = {
    "skew": Exercise(
        title="Exercise 1, skew",
        points=1,
        reference=skew,
        cases=lambda: [(_normal(3, 3, seed=14),), (_normal(2, 3, 4, 4, seed=15),)],
        mistakes={
            "P + P^T is symmetric: its exponential stretches lanes and keeps no norm; subtract": _symmetric,
            "half of it is skew-symmetric too, but here nothing is divided by 2": _halved,
            "the sign is flipped: P - P^T": _flipped,
            "the numbers below the diagonal are lost: take all of P, and subtract its transpose": _upper_only,
            "the diagonal is 0, but the rest is not skew-symmetric yet: subtract the transpose": _diagonal_cleared,
        },
    ),
    "rotation": Exercise(
        title="Exercise 2, rotation",
        points=3,
        reference=rotation,
        cases=lambda: list(_rotation_cases()),
        tolerance=1e-4,
        mistakes={
            "torch.exp takes the exponential of each entry: that of a matrix is torch.linalg.matrix_exp": (
                _entry_by_entry
            ),
            "this is the product of one exponential for each axis: it is the exponential of the sum only where the "
            "generators commute": _product_of_exponentials,
            "this is the product of one exponential for each axis, the last axis first: it is the exponential of the "
            "sum only where the generators commute": _product_the_other_way,
            "the exponentials of the axes are added: add p_a A_a first": _sum_of_exponentials,
            "I + A is the first step of the series: it keeps no norm": _first_order,
            "the sign is flipped: it turns backwards": _backwards,
            "the coordinates are added up before they meet their generators: each has its own, p_1 A_1 + p_2 A_2": (
                _coordinates_added
            ),
            "rows and columns are swapped: coordinate a goes with generator a": _swapped,
            "this is the exponent: its exponential is missing": _no_exponential,
        },
    ),
    "commutator_error": Exercise(
        title="Exercise 3, commutator_error",
        points=2,
        reference=commutator_error,
        cases=lambda: list(_commutator_cases()),
        tolerance=1e-5,
        mistakes={
            "A_i A_j + A_j A_i is not 0 for matrices that commute: subtract": _anticommutator,
            "* multiplies entry by entry, which always commutes: use @": _entrywise_product,
            "neighbors alone are compared: every pair counts, the first and the last too": _neighbors_only,
            "the other order is missing: A_i A_j - A_j A_i": _products_alone,
            "this is the norm of the matrix: the largest entry is asked for": _norm,
            "this is the mean: the largest entry is asked for": _mean,
            "this is the sum: the largest entry is asked for": _sum_of_entries,
        },
    ),
    "ap_generators": Exercise(
        title="Exercise 4, ap_generators",
        points=2,
        reference=ap_generators,
        cases=lambda: [(_normal(4, 3, 3, seed=16), 2), (_normal(6, 2, 2, seed=17), 3), (_normal(6, 4, 4, seed=18), 2)],
        mistakes={
            "the blocks are cut into one stretch an axis: deal them out in turn, block j to axis j mod n": _by_halves,
            "the axes are in the wrong order: block 0 turns along axis 0, the row": _from_the_last_axis,
            "the axes are one off: block 0 turns along axis 0, the row": _one_axis_late,
            "every block turns along every axis by the same: the other axes have 0 there": _along_every_axis,
            "P itself is no generator: take P - P^T": _not_skew,
            "axes stand before blocks: [m, n, b, b]": _axes_first,
        },
    ),
    "ld_generators": Exercise(
        title="Exercise 5, ld_generators",
        points=2,
        reference=ld_generators,
        cases=lambda: list(_ld_cases()),
        mistakes={
            "each axis has a P of its own: broadcasting took the axis of blocks for the axis of coordinates. All axes "
            "of a block share one P, P[..., None, :, :]": _a_matrix_for_each_axis,
            "theta multiplies P alone: P - P^T comes first, then theta times all of it": _theta_on_one_side,
            "P + P^T is symmetric: subtract": _plus,
            "P itself is no generator: take P - P^T": _p_alone,
            "theta is missing: all axes turn alike": _without_theta,
            "theta has length 1 here: it is learned as it is": _unit_theta,
            "the sign of theta is lost": _size_of_theta,
        },
    ),
}
