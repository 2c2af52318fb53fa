r"""What the page *Rotations that commute* runs, and its reader need not see."""

import math

import matplotlib.pyplot as plt
import torch

import posenc
from posenc.chapters.comrope.figures import walk
from posenc.chapters.rope2d import study as pictures
from posenc.lab.experiments import mean_and_spread
from posenc.lab.experiments.plots import signed
from posenc.lab.explore import COLORS
from posenc.lab.write import finish, normal, print_errors, seeded, signed_pm, table
from posenc.rotate.comrope import comrope
from posenc.rotate.liere import liere, rotation, skew
from posenc.rotate.rope2d import rope2d, rotate

HEAD_DIM = 16  # of the head that the page tries things on
MOVES = (0, 2, 4, 6, 8)  # rows down and columns right by which both tokens move


def heads() -> dict[str, posenc.Encoding]:
    r"""One head each of axial and mixed RoPE, LieRE and both forms of ComRoPE, float64, seeded."""
    make = {
        "axial RoPE": lambda: rope2d(HEAD_DIM),
        "mixed RoPE": lambda: rope2d(HEAD_DIM, "mixed", num_heads=1),
        "LieRE, blocks of 4": lambda: liere(HEAD_DIM, 1, block=4),
        "ComRoPE-AP": lambda: comrope(HEAD_DIM, 1, "ap", block=4),
        "ComRoPE-LD": lambda: comrope(HEAD_DIM, 1, "ld", block=4),
    }
    return {name: seeded(factory).double() for name, factory in make.items()}


def turned(encoding, x, positions):
    r"""R(p) x [T, D] for x [T, D] or [1, D] and positions [T, n], of an encoding with one head."""
    positions = torch.as_tensor(positions, dtype=torch.float64)[None]
    x = x.expand(positions.shape[1], -1)[None, None]
    return encoding.rotate(x, x, posenc.At(positions, positions, None))[0][0, 0].detach()


def print_moved() -> dict[str, str]:
    r"""Print the score of a query and a key at one offset, for each of MOVES; return the ends of LieRE's."""
    print(f"{'both moved down and right by':30}" + "".join(f"{move:8d}" for move in MOVES))
    q, k = normal(2, 1, HEAD_DIM, seed=1)
    here = torch.tensor([[move, move] for move in MOVES])
    for name, encoding in list(heads().items())[:3]:
        score = (turned(encoding, q, here) * turned(encoding, k, here + torch.tensor([1, 2]))).sum(-1)
        found = (score / math.sqrt(HEAD_DIM)).tolist()
        print(f"{name:30}" + "".join(f"{number:8.3f}" for number in found))
    return {"from": f"{min(found):.2f}", "to": f"{max(found):.2f}"}


def touch_numbers() -> dict[str, str]:
    r"""How far apart the two walks of the explorable end after three steps each way, for three angles."""
    off = {degrees: walk(3, 3, degrees, True)[-1] - walk(3, 3, degrees, False)[-1] for degrees in (5, 30, 90)}
    return {f"off{degrees}": f"{between.norm().item():.2f}" for degrees, between in off.items()}


def whole(encoding) -> torch.Tensor:
    r"""The generators [n, D, D] of an encoding with one head, blocks along the diagonal, float64."""
    blocks = encoding.rotate.generators().detach().double()[0]
    return torch.stack([torch.block_diag(*axis) for axis in blocks])


def commutator(one, two) -> torch.Tensor:
    r"""one two - two one: zero if and only if the two commute."""
    return one @ two - two @ one


def generators_figure():
    r"""A_1, A_2 and their commutator for LieRE and both forms of ComRoPE, as maps."""
    made = {name.split(",")[0]: whole(encoding) for name, encoding in list(heads().items())[2:]}
    figure, axes = plt.subplots(3, len(made), figsize=(4.4, 5), layout="constrained")
    for column, (name, (one, two)) in zip(axes.T, made.items()):
        rows = {"$A_1$ (rows)": one, "$A_2$ (columns)": two, "$A_1A_2 - A_2A_1$": commutator(one, two)}
        for axis, (words, picture) in zip(column, rows.items()):
            image = axis.imshow(picture, cmap=signed(), vmin=-1, vmax=1)
            axis.set(xticks=[], yticks=[])
            if name == "LieRE":
                axis.set_ylabel(words)
        column[0].set_title(name)
    bar = dict(shrink=0.6, location="bottom", ticks=(-1, -0.5, 0, 0.5, 1), label="entry of the matrix")
    figure.colorbar(image, ax=axes, **bar)
    return finish(figure)


def card_figure():
    r"""What one block sees, for both forms: the stripes along which its number is the same."""
    across = torch.linspace(-0.5, 6.5, 85)
    row, column = torch.meshgrid(across, across, indexing="ij")
    seen = {"AP, block 0": row, "AP, block 1": column, "LD, block 0": 0.9 * row + 0.45 * column}
    figure, axes = plt.subplots(1, 3, figsize=(4.4, 1.8), layout="constrained", sharey=True)
    for axis, (name, picture) in zip(axes, seen.items()):
        axis.contour(across, across, picture, levels=8, colors=COLORS["green"])
        axis.set(xlabel="column", aspect="equal", ylim=(6.5, -0.5), xticks=range(0, 7, 2), yticks=range(0, 7, 2))
        axis.set_title(name)
    axes[0].set_ylabel("row")
    return finish(figure)


def planes(generators) -> tuple[torch.Tensor, torch.Tensor]:
    r"""The planes of commuting skew-symmetric matrices: an orthogonal Q [D, D] and frequencies w [n, D/2] such that
    A_a = Q diag(w[a, 0] J, w[a, 1] J, ...) Q^T with J = [[0, -1], [1, 0]]. D is even.

    Arguments: generators: [n, D, D], float64.
    """
    mix = normal(len(generators), seed=7)  # a mixture of all, which tells joint eigenvalues apart
    eigenvalues, vectors = torch.linalg.eigh(1j * (mix[:, None, None] * generators).sum(0))
    turns = eigenvalues < -1e-9  # A z = i w z with w > 0; their conjugates are the others
    still = eigenvalues.abs() <= 1e-9
    z = math.sqrt(2) * vectors[:, turns]
    pairs = torch.stack((z.imag, z.real), -1).flatten(1)  # A v = w u, A u = -w v
    projector = (vectors[:, still] @ vectors[:, still].mH).real
    basis = torch.cat((pairs, torch.linalg.svd(projector)[0][:, : int(still.sum())]), 1)
    inside = basis.T @ generators @ basis
    return basis, inside[:, 1::2, 0::2].diagonal(dim1=-2, dim2=-1)


def plane_errors(encoding) -> dict[str, float]:
    r"""How far a commuting encoding with one head is from mixed RoPE in another basis."""
    generators = whole(encoding)
    basis, freqs = planes(generators)
    plane = torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    again = torch.stack([basis @ torch.block_diag(*(w[:, None, None] * plane)) @ basis.T for w in freqs])
    size = generators.shape[-1]
    q, k = normal(2, 9, size, seed=3)
    places = torch.cartesian_prod(torch.arange(3), torch.arange(3)).double()
    own = turned(encoding, q, places) @ turned(encoding, k, places).T
    rope = rotate(q @ basis, places, freqs) @ rotate(k @ basis, places, freqs).T
    return {
        "Q is orthogonal": (basis.T @ basis - torch.eye(size, dtype=torch.float64)).abs().max().item(),
        "generators from planes": (again - generators).abs().max().item(),
        "scores from mixed RoPE": (own - rope).abs().max().item(),
    }


def relativity_error(generators, x, y) -> float:
    r"""The largest entry of R(x)^T R(y) - R(y - x), for positions [T, n] and generators [n, m, b, b]."""
    x, y = torch.as_tensor(x, dtype=torch.float64), torch.as_tensor(y, dtype=torch.float64)
    return (rotation(x, generators).mT @ rotation(y, generators) - rotation(y - x, generators)).abs().max().item()


def print_planes() -> None:
    r"""The errors of the proposition for both forms, a line each."""
    for form in ("AP", "LD"):
        errors = {f"{form}: {claim}": e for claim, e in plane_errors(heads()[f"ComRoPE-{form}"]).items()}
        print_errors(errors, 1e-12, width=28, spec=".0e")


def starts_table(draws=4000, std=0.3):
    r"""The median speed of the slowest and the fastest plane of a random block P - P^T, for each block size."""
    rows = []
    for block in (2, 4, 8, 16):
        speeds = torch.linalg.svdvals(skew(std * normal(draws, block, block, seed=block)))  # each plane's, twice
        rows.append([block, f"{speeds[:, -1].median():.1f}", f"{speeds[:, 0].median():.1f}"])
    return table(["block", "slowest plane, radians a step", "fastest plane"], rows)


def orthogonality_error(rotations) -> float:
    r"""The largest entry of R^T R - I over all matrices, NaN as infinity."""
    rotations = rotations.double()
    error = (rotations.mT @ rotations - torch.eye(rotations.shape[-1], dtype=torch.float64)).abs()
    return error.nan_to_num(nan=math.inf).max().item()


# ------------------------------------------------------------------------------------------------- the study on letters

FORMS = ("comrope ap", "comrope ld")
ARMS = ("axial", "mixed", "liere 2", "liere 4", "liere 8", *FORMS)


def gaps_table():
    r"""How far ComRoPE's two forms stand from LieRE and from mixed RoPE, in points of right answers, seed by seed."""
    places = (("liere 8", "24", "as trained"), ("mixed", "24", "as trained"), ("mixed", "48, normalized", "12 × 12"))
    rows = []
    for beside, test, words in places:
        gaps = (pictures.scores(arm, test) - pictures.scores(beside, test) for arm in FORMS)
        points = [signed_pm(*mean_and_spread(gap), 1) for gap in gaps]
        rows.append([f"{words}, beside {pictures.TITLES[beside]}", *points])
    return table(["", *(pictures.TITLES[arm] for arm in FORMS)], rows)


def study_numbers() -> dict[str, str]:
    r"""What the prose beside the tables cites."""
    gains = pictures.noise_gains()
    lower, mean = sum(gain < 0 for gain in gains), -sum(gains) / len(gains)
    return {"noise_words": f"{lower} of {len(gains)} rotary arms, on average by {mean:.1f} points"}
