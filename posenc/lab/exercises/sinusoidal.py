r"""What the lab Sinusoidal asks for, and the wrong answers that its checks recognize."""

import math

import torch

from posenc.embed.sinusoidal import sinusoidal, table
from posenc.lab.exercises.exercise import Exercise, generator

POSITIONS = torch.tensor([0, 1, 2, 5, 30, 64])


def rotation(offset, dim, base=10000.0, dtype=torch.float32):
    r"""The matrix R(t) that carries every encoding t positions on: table(m + t) = table(m) @ R(t).

    R(t) is block diagonal, one block for each pair of lanes: [[cos t w_i, -sin t w_i], [sin t w_i, cos t w_i]].

    Arguments: offset: t, a number. dim: C, even. base: b. dtype: of the result. Returns: [C, C].
    Convention: encodings are rows, so R(t) stands on the right. Chapter: Sinusoidal encoding.
    """
    sin, cos = table(torch.tensor([offset], dtype=torch.float64), dim, base)[0].unflatten(0, (-1, 2)).unbind(-1)
    blocks = torch.stack((torch.stack((cos, -sin), dim=-1), torch.stack((sin, cos), dim=-1)), dim=-2)  # [C/2, 2, 2]
    return torch.block_diag(*blocks).to(dtype)


def embed(ids, weight):
    r"""What the first layer of the original transformer sees: sqrt(C) weight[ids] + PE.

    Arguments: ids: [B, T] token ids. weight: [V, C], of variance 1/C. Returns: [B, T, C].
    """
    x = math.sqrt(weight.shape[1]) * weight[ids]
    return sinusoidal().embed(x, torch.arange(ids.shape[1])[None])


def terms(x, W, positions):
    r"""The four terms of a score (x_m + p_m)^T W (x_n + p_n).

    Arguments: x: [T, C] content. W: [C, C]. positions: [T].
    Returns: [4, T, T]: content-content, content-position, position-content, position-position.
    """
    code = table(positions, x.shape[1])
    return torch.stack((x @ W @ x.T, x @ W @ code.T, code @ W @ x.T, code @ W @ code.T))


def _from_angles(positions, frequencies):
    angles = positions[..., None].float() * frequencies.float()
    return torch.stack((angles.sin(), angles.cos()), dim=-1).flatten(-2)


def _pairs(dim):
    return torch.arange(dim // 2, dtype=torch.float64)


def _swapped(positions, dim, base=10000.0):
    return table(positions, dim, base).unflatten(-1, (-1, 2)).flip(-1).flatten(-2)


def _concatenated(positions, dim, base=10000.0):
    return table(positions, dim, base).unflatten(-1, (-1, 2)).transpose(-1, -2).flatten(-2)


def _growing(positions, dim, base=10000.0):
    return _from_angles(positions, base ** (2 * _pairs(dim) / dim))


def _half_exponent(positions, dim, base=10000.0):
    return _from_angles(positions, base ** (-_pairs(dim) / dim))


def _slow_first(positions, dim, base=10000.0):
    return _from_angles(positions, base ** (-2 * _pairs(dim) / dim).flip(0))


def _from_one(positions, dim, base=10000.0):
    return table(positions + 1, dim, base)


def _last_is_one_over_b(positions, dim, base=10000.0):
    return _from_angles(positions, base ** (-_pairs(dim) / max(dim // 2 - 1, 1)))


def _one_clock(offset, dim, base=10000.0):
    return rotation(offset, 2).repeat(dim // 2, dim // 2) * torch.block_diag(*torch.ones(dim // 2, 2, 2))


def _plus_identity(offset, dim, base=10000.0):
    return rotation(offset, dim, base) + torch.eye(dim)


def _halves(offset, dim, base=10000.0):
    lanes = torch.cat((torch.arange(0, dim, 2), torch.arange(1, dim, 2)))
    return rotation(offset, dim, base)[lanes][:, lanes]


def _code(ids, weight, start=0):
    return table(torch.arange(start, start + ids.shape[1]), weight.shape[1]).to(weight.dtype)


def _root(weight):
    return math.sqrt(weight.shape[1])


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

EXERCISES = {
    "table": Exercise(
        title="Exercise 1, table",
        points=2,
        reference=table,
        cases=[(POSITIONS, 8), (POSITIONS, 16, 100.0), (torch.tensor([[0, 1, 2], [7, 8, 9]]), 4)],
        tolerance=1e-5,
        mistakes={
            "sine and cosine are swapped: lane 2i is the sine, lane 2i + 1 the cosine": _swapped,
            "the lanes are all sines, then all cosines; here each sine stands beside its cosine": _concatenated,
            "the exponent has the wrong sign: the frequencies grow with i, and should fall as b^(-2i/C)": _growing,
            "the exponent is -i/C; it is -2i/C, so that C/2 pairs span the ladder": _half_exponent,
            "the ladder is upside down: small i is the fastest": _slow_first,
            "positions are off by one: the first position is 0, not 1": _from_one,
            "the exponents end at -1 (steps over C/2 - 1, as in tensor2tensor); the paper's end at -(C - 2)/C": (
                _last_is_one_over_b
            ),
        },
    ),
    "rotation": Exercise(
        title="Exercise 2, rotation",
        points=3,
        reference=rotation,
        cases=[(1, 4), (3, 8), (-2, 8, 100.0), (0, 6)],
        tolerance=1e-5,
        mistakes={
            "the sign of the sine is flipped: this matrix goes t positions back (it is R(-t), the transpose)": (
                lambda offset, dim, base=10000.0: rotation(-offset, dim, base)
            ),
            "every block turns at the first frequency; block i turns at w_i": _one_clock,
            "the offset is off by one: R(0) must be the identity": (
                lambda offset, dim, base=10000.0: rotation(offset + 1, dim, base)
            ),
            "the blocks pair lane i with lane i + C/2; lane 2i belongs to lane 2i + 1": _halves,
            "the identity is added: R(t) gives the new encoding itself, not the step to add": _plus_identity,
        },
    ),
    "embed": Exercise(
        title="Exercise 3, embed",
        points=2,
        reference=embed,
        cases=_embeddings,
        tolerance=1e-5,
        mistakes={
            "the factor sqrt(C) on the embeddings is missing": lambda ids, weight: weight[ids] + _code(ids, weight),
            "sqrt(C) multiplies the encoding too; only the embeddings are scaled": (
                lambda ids, weight: _root(weight) * (weight[ids] + _code(ids, weight))
            ),
            "the embeddings are divided by sqrt(C); they are multiplied": (
                lambda ids, weight: weight[ids] / _root(weight) + _code(ids, weight)
            ),
            "the encoding is looked up by token id; it goes by the place in the sequence": (
                lambda ids, weight: _root(weight) * weight[ids] + table(ids, weight.shape[1])
            ),
            "positions are off by one: the first position is 0, not 1": (
                lambda ids, weight: _root(weight) * weight[ids] + _code(ids, weight, 1)
            ),
            "the encoding is missing: these are the embeddings alone": lambda ids, weight: _root(weight) * weight[ids],
        },
    ),
    "terms": Exercise(
        title="Exercise 4, terms",
        points=2,
        reference=terms,
        cases=_contents,
        tolerance=1e-5,
        mistakes={
            "the two mixed terms are swapped: content-position comes before position-content": (
                lambda x, W, positions: terms(x, W, positions)[[0, 2, 1, 3]]
            ),
            "W is transposed: the query stands on its left": lambda x, W, positions: terms(x, W.T, positions),
            "queries and keys are swapped: row m belongs to query m": (
                lambda x, W, positions: terms(x, W, positions).transpose(1, 2)
            ),
            "positions start at 0 whatever is given; use the positions that come in": (
                lambda x, W, positions: terms(x, W, torch.arange(len(x)))
            ),
            "the content is missing from the mixed terms": (
                lambda x, W, positions: terms(x, W, positions)[[0, 3, 3, 3]]
            ),
        },
    ),
}
