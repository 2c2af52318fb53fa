r"""What the page *Rotations that commute* runs, and its reader need not see."""

import math

import torch

import posenc
from posenc.lab.experiments import mean_and_spread
from posenc.lab.experiments.plots import signed
from posenc.lab.explore import COLORS
from posenc.lab.figures.comrope import scores
from posenc.lab.pages import finish, pictures, seeded
from posenc.lab.write import signed_pm, table, typeset
from posenc.rotate.comrope import comrope
from posenc.rotate.liere import liere, rotation, skew, turn_blocks
from posenc.rotate.rope2d import rope2d, rotate

HEAD_DIM, BLOCK = 16, 4  # of the head that the page tries things on
OFFSET = (1, 2)  # rows and columns from the query to the key
MOVES = (0, 2, 4, 6, 8)  # rows down and columns right by which both tokens move
COUNTED_DIM, COUNTED_BLOCK = 64, 8  # of the head whose parameters and products are counted


def heads(head_dim=HEAD_DIM, block=BLOCK) -> dict[str, posenc.Encoding]:
    r"""One head each of axial and mixed RoPE, LieRE and both forms of ComRoPE, float64, seeded."""
    make = {
        "axial RoPE": lambda: rope2d(head_dim),
        "mixed RoPE": lambda: rope2d(head_dim, "mixed", num_heads=1),
        f"LieRE, blocks of {block}": lambda: liere(head_dim, 1, block=block),
        f"ComRoPE-AP, blocks of {block}": lambda: comrope(head_dim, 1, "ap", block=block),
        f"ComRoPE-LD, blocks of {block}": lambda: comrope(head_dim, 1, "ld", block=block),
    }
    return {name: seeded(factory).double() for name, factory in make.items()}


def normal(*shape, seed=1):
    r"""Seeded random numbers, float64."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def turned(encoding, x, positions):
    r"""R(p) x [T, D] for x [T, D] or [1, D] and positions [T, n], of an encoding with one head."""
    positions = torch.as_tensor(positions, dtype=torch.float64)[None]
    x = x.expand(positions.shape[1], -1)[None, None]
    return encoding.rotate(x, x, posenc.At(positions, positions, None))[0][0, 0].detach()


# --------------------------------------------------------------------------------------------------- a pair that moves


def moved_scores(encoding) -> list[float]:
    r"""The score of one query and one key at the same offset, for each of MOVES."""
    q, k = normal(2, 1, HEAD_DIM)
    here = torch.tensor([[move, move] for move in MOVES])
    found = (turned(encoding, q, here) * turned(encoding, k, here + torch.tensor(OFFSET))).sum(-1)
    return (found / math.sqrt(HEAD_DIM)).tolist()


def print_moved() -> None:
    r"""That score for RoPE on two axes and for LieRE, a line each."""
    print(f"{'both moved down and right by':30}" + "".join(f"{move:8d}" for move in MOVES))
    for name, encoding in list(heads().items())[:3]:
        print(f"{name:30}" + "".join(f"{score:8.3f}" for score in moved_scores(encoding)))


def moved_numbers() -> dict[str, str]:
    r"""What the prose beside these lines cites."""
    liere_scores = moved_scores(heads()[f"LieRE, blocks of {BLOCK}"])
    return {"from": f"{min(liere_scores):.2f}", "to": f"{max(liere_scores):.2f}"}


def touch_numbers() -> dict[str, str]:
    r"""How much the score of the explorable's pair changes at most as both move, for three angles."""
    off = {degrees: scores(3, 4, degrees) for degrees in (5, 30, 90)}
    return {f"off{degrees}": f"{(curve - curve[0]).abs().max().item():.2f}" for degrees, curve in off.items()}


def hand_scores() -> list[float]:
    r"""The scores of the table by hand: AP with a quarter turn a step, at two places with one offset."""
    quarter = math.pi / 2 * torch.tensor([[0.0, -1.0], [1.0, 0.0]], dtype=torch.float64)
    generators = torch.eye(2, dtype=torch.float64)[..., None, None] * quarter  # [n, m, b, b]
    q, k = torch.tensor([[1.0, 0, 1, 0], [1, 0, 0, 1]], dtype=torch.float64)
    found = []
    for query, key in (((0, 0), (1, 1)), ((1, 0), (2, 1))):
        at_query, at_key = rotation(torch.tensor([query, key], dtype=torch.float64), generators)
        found.append((turn_blocks(q, at_query) @ turn_blocks(k, at_key)).round().item())
    return found


# ---------------------------------------------------------------------------------------------------------- generators


def whole(encoding) -> torch.Tensor:
    r"""The generators [n, D, D] of an encoding with one head, blocks along the diagonal, float64."""
    blocks = encoding.rotate.generators().detach().double()[0]
    return torch.stack([torch.block_diag(*axis) for axis in blocks])


def commutator(one, two) -> torch.Tensor:
    r"""one two - two one: zero if and only if the two commute."""
    return one @ two - two @ one


def generators_figure():
    r"""A_1, A_2 and their commutator for LieRE and both forms of ComRoPE, as maps."""
    import matplotlib.pyplot as plt

    made = {name: whole(encoding) for name, encoding in heads().items() if "RoPE, " not in name and "blocks" in name}
    made = {name.split(",")[0]: generators for name, generators in made.items()}
    figure, axes = plt.subplots(3, len(made), figsize=(4.4, 5), layout="constrained")
    for column, (name, (one, two)) in zip(axes.T, made.items()):
        rows = {"$A_1$ (rows)": one, "$A_2$ (columns)": two, "$A_1A_2 - A_2A_1$": commutator(one, two)}
        for axis, (words, picture) in zip(column, rows.items()):
            image = axis.imshow(picture, cmap=signed(), vmin=-1, vmax=1)
            axis.set(xticks=[], yticks=[])
            if name == "LieRE":
                axis.set_ylabel(words)
        column[0].set_title(name)
    figure.colorbar(
        image, ax=axes, shrink=0.6, location="bottom", ticks=(-1, -0.5, 0, 0.5, 1), label="entry of the matrix"
    )
    return finish(figure)


def card_figure():
    r"""What one block sees, for both forms: the stripes along which its number is the same."""
    import matplotlib.pyplot as plt

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


# ---------------------------------------------------------------------------------------------------------- the checks


def relativity_error(generators, x, y) -> float:
    r"""The largest entry of R(x)^T R(y) - R(y - x), for positions [T, n] and generators [n, m, b, b]."""
    x, y = torch.as_tensor(x, dtype=torch.float64), torch.as_tensor(y, dtype=torch.float64)
    return (rotation(x, generators).mT @ rotation(y, generators) - rotation(y - x, generators)).abs().max().item()


def check_errors() -> dict[str, float]:
    r"""How far each claim of the chapter is off, on random generators in float64."""
    x, y = 3 * normal(2, 50, 2, seed=2)
    free = skew(normal(2, 4, 4, 4, seed=4))  # n = 2, m = 4, b = 4
    ap, ld = (whole(heads()[f"ComRoPE-{form}, blocks of {BLOCK}"])[:, None] for form in ("AP", "LD"))
    far = rotation(x, free)
    t = normal(50, 1, seed=5)
    line = t * torch.tensor([1.0, 2.0])  # through the origin
    return {
        "LieRE is orthogonal": (far.mT @ far - torch.eye(4, dtype=torch.float64)).abs().max().item(),
        "AP is relative": relativity_error(ap, x, y),
        "LD is relative": relativity_error(ld, x, y),
        "LieRE with blocks of 2 is relative": relativity_error(skew(normal(2, 8, 2, 2, seed=6)), x, y),
        "LieRE on a line through the origin is relative": relativity_error(free, line, line.flip(0)),
    }


def print_planes() -> None:
    r"""The errors of the proposition for both forms, a line each."""
    for form in ("AP", "LD"):
        for claim, error in plane_errors(heads()[f"ComRoPE-{form}, blocks of {BLOCK}"]).items():
            print(f"{form}: {claim:24} largest error {error:.0e}")
            if not error < 1e-12:
                raise AssertionError(f"{form}, {claim}: {error}")


# -------------------------------------------------------------------------------------------------------------- counts


def learned(encoding) -> int:
    r"""How many numbers an encoding stores to learn."""
    return sum(parameter.numel() for parameter in encoding.parameters())


def free_numbers(encoding) -> int:
    r"""In how many directions the generators (or frequencies) can move: the rank of their derivative."""
    parts = dict(encoding.rotate.named_parameters())
    if not parts:
        return 0

    def made(*values):
        state = dict(zip(parts, values))
        if "freqs" in state:
            return state["freqs"]
        return torch.func.functional_call(_Generators(encoding.rotate), {f"of.{n}": v for n, v in state.items()}, ())

    values = tuple(parameter.detach() for parameter in parts.values())
    outputs = made(*values).numel()
    jacobians = torch.autograd.functional.jacobian(made, values)
    return int(torch.linalg.matrix_rank(torch.cat([j.reshape(outputs, -1) for j in jacobians], 1)))


class _Generators(torch.nn.Module):
    """`generators()` as a forward pass, which `functional_call` can call."""

    def __init__(self, of):
        super().__init__()
        self.of = of

    def forward(self):
        return self.of.generators()


def seen_numbers(method, head_dim, block, axes=2) -> int:
    r"""In how many directions the frequencies of a head's planes can move; W_Q and W_K can do the rest.

    Mixed RoPE: n for each of D/2 planes. AP: one, along the block's own axis. LD: one for each plane of a block, and a
    direction of the block, n - 1.
    """
    blocks, planes_of_block = head_dim // block, block // 2
    return {"mixed": axes * head_dim // 2, "ap": blocks * planes_of_block, "ld": blocks * (planes_of_block + axes - 1)}[
        method
    ]


def turn_products(head_dim, block) -> int:
    r"""Multiplications that turn one vector of a head, counted as PyTorch runs them."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Count(TorchDispatchMode):
        total = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            if function is torch.ops.aten.mul.Tensor:
                self.total += out.numel()
            return out

    with Count() as counter:
        turn_blocks(torch.ones(1, head_dim), torch.eye(block).expand(1, head_dim // block, block, block))
    return counter.total


def counts_table(head_dim=COUNTED_DIM, block=COUNTED_BLOCK):
    r"""What a head of each method stores, may choose and shows in its scores, and the products that turn one vector."""
    rows = []
    for (name, encoding), seen in zip(heads(head_dim, block).items(), ("0", "mixed", None, "ap", "ld")):
        size = 2 if "RoPE" in name and "blocks" not in name else block
        rows.append(
            [
                name,
                learned(encoding),
                free_numbers(encoding),
                seen_numbers(seen, head_dim, block) if seen in ("mixed", "ap", "ld") else seen or "not relative",
                turn_products(head_dim, size),
            ]
        )
    rows.append(["a whole R, as a dense matrix", "", "", "", turn_products(head_dim, head_dim)])
    return table(["", "numbers stored", "distinct", "seen by scores", "multiply-adds a vector"], rows)


def counts_numbers() -> dict[str, str]:
    r"""What the prose about the counts cites."""
    encodings = list(heads(COUNTED_DIM, COUNTED_BLOCK).values())
    return {
        "dim": f"{COUNTED_DIM}",
        "block": f"{COUNTED_BLOCK}",
        "stored": f"{learned(encodings[3])}",
        "distinct": f"{free_numbers(encodings[3])}",
        "seen": f"{seen_numbers('ap', COUNTED_DIM, COUNTED_BLOCK)}",
        "times": f"{turn_products(COUNTED_DIM, COUNTED_BLOCK) // turn_products(COUNTED_DIM, 2)}",
        "dense": f"{turn_products(COUNTED_DIM, COUNTED_DIM) // turn_products(COUNTED_DIM, 2)}",
    }


# --------------------------------------------------------------------------------------------------- the paper's table

SIZES = (224, 384, 512)  # pixels of a side; trained at the first
# Top-1 accuracy in percent, ViT-B on ImageNet, trained with shaken coordinates and without: arXiv 2506.03737, table 1.
HEADLINE = {
    "a learned table": ((58.76, 57.04, 50.99), (58.62, 49.68, 42.66)),
    "RoPE": ((63.09, 59.24, 51.11), (62.03, 58.56, 50.58)),
    "LieRE": ((64.36, 61.15, 53.74), (64.07, 60.74, 52.51)),
    "ComRoPE-AP": ((65.32, 61.88, 54.02), (64.76, 61.62, 53.81)),
    "ComRoPE-LD": ((65.49, 62.62, 55.29), (65.27, 61.83, 53.64)),
}


def paper_table():
    r"""What shaking gives each method, and each method's lead over LieRE without shaking, in points."""
    base = HEADLINE["LieRE"][1]
    rows = []
    for name, (shaken, still) in HEADLINE.items():
        gains = (f"{a - b:+.2f}" for a, b in zip(shaken, still))
        leads = (typeset(f"{value - lieres:+.2f}") for value, lieres in zip(still, base))
        rows.append([name, *gains, *leads])
    heads = (f"{words} {size}" for words in ("shaking, at", "over LieRE, not shaken, at") for size in SIZES)
    return table(["points of accuracy", *heads], rows)


def paper_numbers() -> dict[str, str]:
    r"""What shaking gives at the largest size, and ComRoPE's lead over LieRE there without it."""
    table_gain = HEADLINE["a learned table"][0][-1] - HEADLINE["a learned table"][1][-1]
    leads = [HEADLINE[name][1][-1] - HEADLINE["LieRE"][1][-1] for name in ("ComRoPE-AP", "ComRoPE-LD")]
    rest = [shaken[-1] - still[-1] for name, (shaken, still) in HEADLINE.items() if name != "a learned table"]
    return {
        "shaken": f"{table_gain:.2f}",
        "shaken_rest": f"{min(rest):.2f} to {max(rest):.2f}",
        "lead_ap": f"{leads[0]:.2f}",
        "lead_ld": f"{leads[1]:.2f}",
    }


# ------------------------------------------------------------------------------------------- starts, Cayley, precision

STARTS = (2, 4, 8, 16)  # block sizes
DRAWS = 4000


def start_speeds(block, std=0.3) -> torch.Tensor:
    r"""Radians a step of the planes of random blocks P - P^T, sorted within each: [DRAWS, block / 2]."""
    speeds = torch.linalg.svdvals(skew(std * normal(DRAWS, block, block, seed=block)))  # each plane's speed, twice
    return speeds.sort(-1)[0][:, ::2]


def starts_table():
    r"""For each block size the median speed of the slowest and the fastest plane of a block, at the start."""
    rows = []
    for block in STARTS:
        speeds = start_speeds(block)
        rows.append([block, f"{speeds[:, 0].median():.1f}", f"{speeds[:, -1].median():.1f}"])
    return table(["block", "slowest plane, radians a step", "fastest plane"], rows)


def cayley(matrices):
    r"""(I + S/2) (I - S/2)^-1 of skew-symmetric S [..., b, b]: orthogonal as exp(S), and equal to second order."""
    one = torch.eye(matrices.shape[-1], dtype=matrices.dtype)
    return torch.linalg.solve(one - matrices / 2, one + matrices / 2)  # both factors commute


def print_maps() -> None:
    r"""Orthogonality and relativity along one axis of the exponential and of Cayley's map, a line each."""
    generator = skew(normal(4, 4, seed=8)) / 2
    for name, make in (("exponential", torch.linalg.matrix_exp), ("Cayley", cayley)):
        one, three, four = (make(steps * generator) for steps in (1, 3, 4))
        orthogonal = (three.mT @ three - torch.eye(4, dtype=torch.float64)).abs().max().item()
        relative = (one.mT @ four - three).abs().max().item()
        print(f"{name:12} R^T R - I: {orthogonal:.0e}    R(1)^T R(4) - R(3): {relative:.0e}")


def orthogonality_error(rotations) -> float:
    r"""The largest entry of R^T R - I over all matrices, NaN as infinity."""
    rotations = rotations.double()
    error = (rotations.mT @ rotations - torch.eye(rotations.shape[-1], dtype=torch.float64)).abs()
    return error.nan_to_num(nan=math.inf).max().item()


# ------------------------------------------------------------------------------------------------- the study on letters

FORMS = ("comrope ap", "comrope ld")
ARMS = ("axial", "mixed", "liere 2", "liere 4", "liere 8", *FORMS)


def study_table():
    r"""Right answers as trained, moved, and with four times as many patches at normalized coordinates."""
    tests = {"as trained": "24", "moved": "24, moved", "12 × 12, normalized": "48, normalized"}
    return pictures.tests_table(ARMS, tests)


def gaps_table():
    r"""How far ComRoPE's two forms stand from LieRE and from mixed RoPE, in points of right answers, seed by seed."""
    places = (("liere 8", "24", "as trained"), ("mixed", "24", "as trained"), ("mixed", "48, normalized", "12 × 12"))
    rows = []
    for beside, test, words in places:
        row = [f"{words}, beside {pictures.TITLES[beside]}"]
        for arm in FORMS:
            pairs = zip(pictures.scores(beside, test), pictures.scores(arm, test))
            mean, spread = mean_and_spread([b - a for a, b in pairs])
            row.append(signed_pm(mean, spread, 1))
        rows.append(row)
    return table(["", *(pictures.TITLES[arm] for arm in FORMS)], rows)


def study_numbers() -> dict[str, str]:
    r"""What the prose beside the tables cites."""
    asked = {arm: pictures.mean(arm, "24", "left") for arm in ("none", "learned", *ARMS)}
    blind = asked.pop("none")
    learnt = f"Every arm that reads coordinates gives at least {min(asked.values()):.1f}% right answers; without an "
    learnt += f"encoding it is {blind:.1f}%."
    gains = pictures.noise_gains()
    noise = (
        f"the share of right answers of {sum(gain < 0 for gain in gains)} of {len(gains)} rotary arms, on average by "
    )
    noise += typeset(f"{-sum(gains) / len(gains):.1f} points")
    return {
        "study_seeds": f"{len(pictures.study()['seeds'])}",
        "moved_words": pictures.moved_words(ARMS),
        "lowest": pictures.TITLES[min(ARMS, key=lambda arm: pictures.mean(arm, "48, normalized"))],
        "left_words": learnt,
        "noise_words": noise,
    }


def noise_table():
    r"""What noise on the coordinates in training adds at four times as many patches."""
    return pictures.noise_table(("learned", *ARMS), "48, normalized")


def predictions_table():
    r"""What moving all patches did to each arm, beside what had been predicted."""
    return pictures.moved_table(ARMS)


def also_table():
    r"""The predictions on noise and on forms, and what became of them."""
    return pictures.also_table(["method or augmentation", "LieRE or ComRoPE"])


def left_table():
    r"""Right answers on the dot and the bar."""
    tests = {"as trained": "24", "moved": "24, moved", "farther": "48, farther apart"}
    return pictures.tests_table(("none", "learned", *ARMS), tests, "left")
