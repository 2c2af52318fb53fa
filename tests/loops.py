"""The papers' formulas in plain loops, in Python floats: what the methods' tests construct from.

It imports nothing from posenc, and knows no broadcasting: an index that is wrong here is wrong in one visible place.
"""

import math

import torch


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def sigmoid(z):
    return 1 / (1 + math.exp(-z)) if z >= 0 else math.exp(z) / (1 + math.exp(z))


def softplus(z):
    return max(z, 0.0) + math.log1p(math.exp(-abs(z)))


def softmax(logits):
    """Weights of a list of logits; None stands for a key that is not visible."""
    top = max((z for z in logits if z is not None), default=0.0)
    powers = [0.0 if z is None else math.exp(z - top) for z in logits]
    total = sum(powers)
    return [p / total if total else 0.0 for p in powers]


def stick(row, order="recent"):
    """Walk over the keys and break off a share of what is left of the stick: (pieces, rest); None is not asked."""
    pieces, rest = [0.0] * len(row), 1.0
    for j in reversed(range(len(row))) if order == "recent" else range(len(row)):
        if row[j] is not None:
            pieces[j] = rest * sigmoid(row[j])
            rest *= 1 - sigmoid(row[j])
    return pieces, rest


def ladder(dim, base=10000.0, count=None):
    """The first `count` frequencies base^(-2i/dim), default all."""
    return [base ** (-2 * i / dim) for i in range(dim // 2 if count is None else count)]


def sinusoid(position, dim, base=10000.0):
    """PE(pos, 2i) = sin(pos base^(-2i/C)), PE(pos, 2i+1) = cos(pos base^(-2i/C)), a row of C numbers."""
    return [f(position * w) for w in ladder(dim, base) for f in (math.sin, math.cos)]


def pair(i, rotary_dim, layout):
    """The two lanes of RoPE's pair i."""
    return (2 * i, 2 * i + 1) if layout == "interleaved" else (i, i + rotary_dim // 2)


def turn(x, position, frequencies, layout="interleaved", factor=1.0):
    """Each pair of lanes of a list turned by position * frequency."""
    out = list(x)
    for i, w in enumerate(frequencies):
        a, b = pair(i, 2 * len(frequencies), layout)
        cos, sin = factor * math.cos(position * w), factor * math.sin(position * w)
        out[a], out[b] = x[a] * cos - x[b] * sin, x[a] * sin + x[b] * cos
    return out


def slopes(num_heads):
    """ALiBi's: 2^(-8h/H) for a power of two; else those of the power below, then every other one of its double."""
    if math.log2(num_heads).is_integer():
        return [2 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)]
    below = 2 ** math.floor(math.log2(num_heads))
    return slopes(below) + slopes(2 * below)[0::2][: num_heads - below]


def bucket(offset, buckets, max_distance, bidirectional):
    """T5's; the edges on the logarithmic side are found by comparing powers, without a logarithm."""
    first, side = 0, buckets
    if bidirectional:
        side = buckets // 2
        first = side if offset > 0 else 0
        distance = abs(offset)
    else:
        distance = max(-offset, 0)
    exact = side // 2
    if distance < exact:
        return first + distance
    shared, n = exact, side - exact
    for step in range(1, n):  # bucket exact + step starts where (distance / exact)^n = (far / exact)^step
        if distance**n * exact**step >= max_distance**step * exact**n:
            shared = exact + step
    return first + shared


def network(bias, h, x):
    """FIRE's f: one hidden layer with ReLU, one output a head; `bias` holds its two layers, widen and narrow."""
    hidden = [max(0.0, w[0] * x + b) for w, b in zip(bias.widen.weight.tolist(), bias.widen.bias.tolist())]
    return dot(bias.narrow.weight[h].tolist(), hidden) + bias.narrow.bias[h].item()


def attend(q, k, v, logit, weigh=softmax, causal=True):
    r"""Attention with the logit and the weighing of a method.

    Arguments:
        q, k, v: tensors [B, H, Tq, D], [B, H, Tk, D], [B, H, Tk, Dv].
        logit: (h, i, j, q_i, k_j) -> float, with i the index of the query among the keys, q_i and k_j lists.
        weigh: list of logits (None where not visible) -> list of weights.
    Returns: output [B, H, Tq, Dv] and weights [B, H, Tq, Tk], float64.
    """
    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    out = torch.zeros(batch, heads, queries, v.shape[3], dtype=torch.float64)
    weights = torch.zeros(batch, heads, queries, keys, dtype=torch.float64)
    for b in range(batch):
        for h in range(heads):
            for row in range(queries):
                i = row + keys - queries
                q_i = q[b, h, row].tolist()
                logits = [
                    logit(h, i, j, q_i, k[b, h, j].tolist()) if j <= i or not causal else None for j in range(keys)
                ]
                for j, weight in enumerate(weigh(logits)):
                    weights[b, h, row, j] = weight
                    for d in range(v.shape[3]):
                        out[b, h, row, d] += weight * v[b, h, j, d].item()
    return out, weights


def normal(*shape, seed=0):
    """Seeded normal numbers, float64."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def inputs(batch=2, heads=2, queries=5, keys=None, dim=4, seed=0, dtype=torch.float64):
    """Seeded q, k, v."""
    keys = queries if keys is None else keys
    generator = torch.Generator().manual_seed(seed)
    shapes = [(batch, heads, queries, dim), (batch, heads, keys, dim), (batch, heads, keys, dim)]
    return [torch.randn(shape, dtype=torch.float64, generator=generator).to(dtype) for shape in shapes]


def close(actual, expected, tolerance=1e-12):
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)


def gradients_agree(mine, theirs, of, theirs_of=None, **tolerances):
    """Hold two outputs, then their gradients along a drawn direction, to each other; `of` leads to both by default."""
    torch.testing.assert_close(mine, theirs, **tolerances)
    direction = normal(*mine.shape, seed=9).to(mine.dtype)
    expected = torch.autograd.grad(theirs, theirs_of or of, direction, retain_graph=True)
    for got, want in zip(torch.autograd.grad(mine, of, direction), expected, strict=True):
        torch.testing.assert_close(got, want, **tolerances)
