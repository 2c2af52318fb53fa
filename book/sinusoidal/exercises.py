r"""What the lab Sinusoidal asks for, and the wrong answers that its checks recognize."""

import math

import torch

from posenc.embed import sinusoidal
from posenc.lab.check.exercise import Exercise, generator

POSITIONS = torch.tensor([0, 1, 2, 5, 30, 64])


def rotation(offset, dim, base=10000.0, dtype=torch.float32):
    r"""The matrix R(t) that carries every encoding t positions on: table(m + t) = table(m) @ R(t).

    R(t) is block diagonal, one block for each pair of lanes: [[cos t w_i, -sin t w_i], [sin t w_i, cos t w_i]].

    Arguments: offset: t, a number. dim: C, even. base: b. dtype: of the result. Returns: [C, C].
    Convention: encodings are rows, so R(t) stands on the right. Chapter: Sinusoidal encoding.
    """
    code = sinusoidal.table(torch.tensor([offset], dtype=torch.float64), dim, base)[0]
    sin, cos = code.unflatten(0, (-1, 2)).unbind(-1)
    blocks = torch.stack((torch.stack((cos, -sin), dim=-1), torch.stack((sin, cos), dim=-1)), dim=-2)  # [C/2, 2, 2]
    return torch.block_diag(*blocks).to(dtype)


def table(positions, dim, base=10000.0):
    """The encodings of positions [..., T] -> [..., T, dim]."""
    frequencies = base ** (-torch.arange(0, dim, 2) / dim)  # [C/2]
    angles = positions[..., None] * frequencies  # [..., T, C/2]
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def embed(ids, weight):
    """What the first layer sees: ids [B, T], weight [V, C] -> [B, T, C]."""
    dim = weight.shape[1]
    return math.sqrt(dim) * weight[ids] + table(torch.arange(ids.shape[1]), dim)


def terms(x, W, positions):
    """Content-content, content-position, position-content, position-position: [4, T, T]."""
    code = table(positions, x.shape[1])
    return torch.stack((x @ W @ x.T, x @ W @ code.T, code @ W @ x.T, code @ W @ code.T))


def _embeddings():
    """Two batches of token ids, and embeddings of variance 1/C."""
    source = generator()
    return [
        (torch.randint(20, (batch, length), generator=source), torch.randn(20, dim, generator=source) / dim**0.5)
        for batch, length, dim in ((2, 6, 16), (1, 9, 64))
    ]


def _contents():
    """Contents, matrices and positions for the four terms."""
    source = generator()
    return [
        (torch.randn(n, dim, generator=source), torch.randn(dim, dim, generator=source), torch.arange(n) + start)
        for n, dim, start in ((4, 6, 0), (3, 8, 7))
    ]


ON_PAPER = 4  # points

CASES = {
    "table": [(POSITIONS, 8), (POSITIONS, 16, 100.0), (torch.tensor([[0, 1, 2], [7, 8, 9]]), 4)],
    "rotation": [(1, 4), (3, 8), (-2, 8, 100.0), (0, 6)],
}

MISTAKES = {
    "table": {
        "sine and cosine are swapped: lane 2i is the sine, lane 2i + 1 the cosine": (
            "angles.sin(), angles.cos() -> angles.cos(), angles.sin()"
        ),
        "the lanes are all sines, then all cosines; here each sine stands beside its cosine": (
            "torch.stack( -> torch.cat(",
            ".flatten(-2) -> ",
        ),
        "the exponent has the wrong sign: the frequencies grow with i, and should fall as b^(-2i/C)": "-torch -> torch",
        "the exponent is -i/C; it is -2i/C, so that C/2 pairs span the ladder": "arange(0, dim, 2) -> arange(dim // 2)",
        "the ladder is upside down: small i is the fastest": "/ dim) -> / dim).flip(0)",
        "positions are off by one: the first position is 0, not 1": "positions -> (positions + 1)",
        "the exponents end at -1 (steps over C/2 - 1, as in tensor2tensor); the paper's end at -(C - 2)/C": (
            "arange(0, dim, 2) -> arange(dim // 2)",
            "/ dim -> / max(dim // 2 - 1, 1)",
        ),
    },
    "rotation": {
        "the sign of the sine is flipped: this matrix goes t positions back (it is R(-t), the transpose)": (
            "-> rotation(-offset, dim, base)"
        ),
        "every block turns at the first frequency; block i turns at w_i": (
            "-> rotation(offset, 2).repeat(dim // 2, dim // 2) * torch.block_diag(*torch.ones(dim // 2, 2, 2))"
        ),
        "the offset is off by one: R(0) must be the identity": "-> rotation(offset + 1, dim, base)",
        "the blocks pair lane i with lane i + C/2; lane 2i belongs to lane 2i + 1": (
            "-> rotation(offset, dim, base).view(dim // 2, 2, dim // 2, 2).permute(1, 0, 3, 2).reshape(dim, dim)"
        ),
        "the identity is added: R(t) gives the new encoding itself, not the step to add": (
            "-> rotation(offset, dim, base) + torch.eye(dim)"
        ),
    },
    "embed": {
        "the factor sqrt(C) on the embeddings is missing": "math.sqrt(dim) * -> ",
        "sqrt(C) multiplies the encoding too; only the embeddings are scaled": (
            "* weight[ids] -> * (weight[ids]",
            "shape[1]), dim) -> shape[1]), dim))",
        ),
        "the embeddings are divided by sqrt(C); they are multiplied": (
            "math.sqrt(dim) * weight[ids] -> weight[ids] / math.sqrt(dim)"
        ),
        "the encoding is looked up by token id; it goes by the place in the sequence": (
            "torch.arange(ids.shape[1]) -> ids"
        ),
        "positions are off by one: the first position is 0, not 1": (
            "torch.arange(ids.shape[1]) -> torch.arange(ids.shape[1]) + 1"
        ),
        "the encoding is missing: these are the embeddings alone": " + table(torch.arange(ids.shape[1]), dim) -> ",
    },
    "terms": {
        "the two mixed terms are swapped: content-position comes before position-content": (
            "-> terms(x, W, positions)[[0, 2, 1, 3]]"
        ),
        "W is transposed: the query stands on its left": "-> terms(x, W.T, positions)",
        "queries and keys are swapped: row m belongs to query m": "-> terms(x, W, positions).transpose(1, 2)",
        "positions start at 0 whatever is given; use the positions that come in": "positions -> torch.arange(len(x))",
        "the content is missing from the mixed terms": "-> terms(x, W, positions)[[0, 3, 3, 3]]",
    },
}

TABLES = (
    ("a base of 10 times the base that is given", lambda f, at, dim, base=10000.0: f(at, dim, 10 * base)),
    ("rows of length 1: times sqrt(2 / dim)", lambda f, at, dim, *base: f(at, dim, *base) * math.sqrt(2 / dim)),
    ("every row divided by 2", lambda f, *case: f(*case) / 2),
)
SUMS = (
    ("the sum of the two is divided by sqrt(2)", lambda f, *case: f(*case) / math.sqrt(2)),
    ("time comes first: [T, B, C]", lambda f, *case: f(*case).transpose(0, 1)),
    ("positions count from the right: the last token is at 0", lambda f, ids, w: f(ids.flip(1), w).flip(1)),
)

# reference, cases, tolerance, points, mistakes
EXERCISES = {
    "table": Exercise(table, CASES["table"], 1e-5, 2, MISTAKES["table"], variants=TABLES),
    "rotation": Exercise(rotation, CASES["rotation"], 1e-5, 3, MISTAKES["rotation"]),
    "embed": Exercise(embed, _embeddings, 1e-5, 2, MISTAKES["embed"], variants=SUMS),
    "terms": Exercise(terms, _contents, 1e-5, 2, MISTAKES["terms"]),
}
