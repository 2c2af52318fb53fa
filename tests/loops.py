"""Attention in plain loops over batch, head, i and j, in Python floats: what the methods' tests construct from.

It imports nothing from posenc, and knows no broadcasting: an index that is wrong here is wrong in one visible place.
"""

import math

import torch


def dot(a, b):
    return sum(x * y for x, y in zip(a, b, strict=True))


def softmax(logits):
    """Weights of a list of logits; None stands for a key that is not visible."""
    top = max((z for z in logits if z is not None), default=0.0)
    powers = [0.0 if z is None else math.exp(z - top) for z in logits]
    total = sum(powers)
    return [p / total if total else 0.0 for p in powers]


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


def inputs(batch=2, heads=2, queries=5, keys=None, dim=4, seed=0, dtype=torch.float64):
    """Seeded q, k, v."""
    keys = queries if keys is None else keys
    generator = torch.Generator().manual_seed(seed)
    shapes = [(batch, heads, queries, dim), (batch, heads, keys, dim), (batch, heads, keys, dim)]
    return [torch.randn(shape, dtype=torch.float64, generator=generator).to(dtype) for shape in shapes]


def close(actual, expected, tolerance=1e-12):
    torch.testing.assert_close(actual, expected, rtol=0, atol=tolerance)
