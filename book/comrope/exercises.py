r"""What the lab Rotations that commute asks for, and the wrong answers that its checks recognize."""

import functools

import torch

from posenc.lab.check.exercise import Exercise, generator


def skew(P):
    """The skew-symmetric P - P^T of matrices [..., b, b]."""
    return P - P.mT


def rotation(positions, generators):
    """R(p) = exp(sum of p_a A_a): positions [T, n], generators [..., n, b, b] -> [..., T, b, b]."""
    positions = positions.to(generators.dtype)[..., None, None]  # [T, n, 1, 1]
    return torch.linalg.matrix_exp((positions * generators[..., None, :, :, :]).sum(-3))


def commutator_error(generators):
    """The largest |entry| of A_i A_j - A_j A_i over all pairs of generators [n, b, b]."""
    products = generators[:, None] @ generators[None]  # [n, n, b, b]
    return (products - products.transpose(0, 1)).abs().max()


def ap_generators(P, axes):
    """Axial partition: P [m, b, b] -> generators [m, axes, b, b], those of block j at axis j mod n."""
    generators = P.new_zeros(len(P), axes, *P.shape[1:])
    for j, block in enumerate(skew(P)):
        generators[j, j % axes] = block
    return generators


def ld_generators(theta, P):
    """Linearly dependent: theta [..., n], P [..., b, b] -> generators [..., n, b, b]."""
    return theta[..., None, None] * skew(P)[..., None, :, :]


def _product(factors):
    return functools.reduce(torch.matmul, factors)


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
        points=1,
        reference=skew,
        cases=lambda: [(_normal(3, 3, seed=14),), (_normal(2, 3, 4, 4, seed=15),)],
        mistakes={
            "P + P^T is symmetric: its exponential stretches lanes and keeps no norm; subtract": "P - P.mT -> P + P.mT",
            "half of it is skew-symmetric too, but here nothing is divided by 2": "-> (P - P.mT) / 2",
            "the sign is flipped: P - P^T": "-> P.mT - P",
            "numbers below the diagonal are lost: subtract the transpose of all of P": "-> P.triu(1) - P.triu(1).mT",
            "only the diagonal is 0: subtract the transpose": "P.mT -> torch.diag_embed(P.diagonal(dim1=-2, dim2=-1))",
        },
    ),
    "rotation": Exercise(
        points=3,
        reference=rotation,
        cases=_rotation_cases,
        tolerance=1e-4,
        mistakes={
            "torch.exp works entry by entry: a matrix has torch.linalg.matrix_exp": "linalg.matrix_exp -> exp",
            "this is the product of one exponential for each axis: it is the exponential of the sum only where the "
            "generators commute": ("return torch -> return _product(torch", ".sum(-3)) -> ).unbind(-3))"),
            "this is the product of one exponential for each axis, the last axis first: it is the exponential of the "
            "sum only where the generators commute": (
                "return torch -> return _product(torch",
                ".sum(-3)) -> ).unbind(-3)[::-1])",
            ),
            "the exponentials of the axes are added: add p_a A_a first": (
                "matrix_exp(( -> matrix_exp(",
                ".sum(-3)) -> .sum(-3)",
            ),
            "I + A is the series' first step: it keeps no norm": "linalg.matrix_exp( -> eye(generators.shape[-1]) + (",
            "the sign is flipped: it turns backwards": "-> rotation(-positions, generators)",
            "the coordinates are added up before they meet their generators: each has its own, p_1 A_1 + p_2 A_2": (
                "-> rotation(positions.sum(-1, keepdim=True), generators.sum(-3, keepdim=True))"
            ),
            "axes are swapped: coordinate a goes with generator a": "-> rotation(positions.flip(-1), generators)",
            "this is the exponent: its exponential is missing": "torch.linalg.matrix_exp -> ",
        },
        variants=(
            ("all coordinates are first halved", lambda f, positions, generators: f(positions / 2, generators)),
            ("token 0's position is first subtracted from all positions", lambda f, at, A: f(at - at[:1], A)),
            ("each matrix flattened, row by row: [..., T, b * b]", lambda f, *case: f(*case).flatten(-2)),
        ),
    ),
    "commutator_error": Exercise(
        points=2,
        reference=commutator_error,
        cases=_commutator_cases,
        tolerance=1e-5,
        mistakes={
            "A_i A_j + A_j A_i is not 0 where they commute: subtract": "products - products -> products + products",
            "* multiplies entry by entry, which always commutes: use @": "@ -> *",
            "neighbors alone are compared: every pair counts, the first and the last too": (
                "-> max((a @ b - b @ a).abs().max() for a, b in zip(generators, generators[1:]))"
            ),
            "the other order is missing: A_i A_j - A_j A_i": " - products.transpose(0, 1) -> ",
            "this is the norm of the matrix: the largest entry is asked for": "abs().max() -> norm(dim=(-2, -1)).max()",
            "this is the mean: the largest entry is asked for": "max() -> mean()",
            "this is the sum: the largest entry is asked for": "max() -> sum()",
        },
    ),
    "ap_generators": Exercise(
        points=2,
        reference=ap_generators,
        cases=lambda: [(_normal(4, 3, 3, seed=16), 2), (_normal(6, 2, 2, seed=17), 3), (_normal(6, 4, 4, seed=18), 2)],
        mistakes={
            "blocks are dealt in stretches: block j belongs to axis j mod n": "j % axes -> j // (len(P) // axes)",
            "the axes are in the wrong order: block 0 turns along axis 0, the row": "j % axes -> -1 - j % axes",
            "the axes are one off: block 0 turns along axis 0, the row": "j % axes -> (j + 1) % axes",
            "every block turns along every axis by the same: the other axes have 0 there": "[j, j % axes] -> [j]",
            "P itself is no generator: take P - P^T": "skew(P) -> P",
            "axes stand before blocks: [m, n, b, b]": "return generators -> return generators.transpose(0, 1)",
        },
    ),
    "ld_generators": Exercise(
        points=2,
        reference=ld_generators,
        cases=_ld_cases,
        mistakes={
            "each axis has a P of its own: broadcasting took the axis of blocks for the axis of coordinates. All axes "
            "of a block share one P, P[..., None, :, :]": "[..., None, :, :] -> ",
            "theta multiplies P but not P^T": "-> theta[..., None, None] * P[..., None, :, :] - P.mT[..., None, :, :]",
            "P + P^T is symmetric: subtract": "skew(P) -> (P + P.mT)",
            "P itself is no generator: take P - P^T": "skew(P) -> P",
            "theta is missing: all axes turn alike": "theta[ -> torch.ones_like(theta)[",
            "theta is normalized: take it as it is": "-> ld_generators(theta / theta.norm(dim=-1, keepdim=True), P)",
            "the sign of theta is lost": "theta[ -> theta.abs()[",
        },
        variants=(
            ("each matrix flattened, row by row: [..., n, b * b]", lambda f, *case: f(*case).flatten(-2)),
            ("every generator is halved", lambda f, *case: f(*case) / 2),
            ("the axis of coordinates comes last: [..., b, b, n]", lambda f, *case: f(*case).movedim(-3, -1)),
        ),
    ),
}
