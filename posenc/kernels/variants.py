r"""What a kernel does to a scaled score: compile-time functions of scores and positions, with their gradients.

A variant is a pair of jitted functions that the kernels call on each tile, so that a new bias needs these few lines and
no kernel of its own:

    score(s, delta, a, x, y) -> the logits
    grad(d, s, delta, a, x, y) -> (ds, da, dx, dy)

s [Q, K] are the scaled products q.k, delta [Q, K] the distance pos_q - pos_k, a one number for the head, x [Q, 1] one
for each query, y [1, K] one for each key, all float32 (x and y float64 where both were given so); d is the gradient
that reaches the logits. da, dx and dy are what each pair of the tile adds to the gradient of a, x and y: the kernels
sum them over the tile, its rows and its columns. For a variant that reads a table, a [Q, K] is the entry at the offset
of each pair, and da is summed over the pairs of each entry; no |da| may exceed |d|.
What a variant does not read is 0.0, and what it returns for that is not looked at. Both functions are called for hidden
pairs of a tile too (keys in the future, past the end) and must be finite there: 0 times infinity is not 0. A score of
-inf hides its key. grad must be linear in d.
"""

from typing import NamedTuple

from .needs import tl, triton


class Variant(NamedTuple):
    """`score` and `grad` as above, and which they read of "delta", "head" or "table" (both are a), "query", "key"."""

    score: object
    grad: object
    reads: tuple = ()


SHUT = tl.constexpr(-(2.0**15))  # a decay below this hides its key: half of what a gate of 0 takes off FoX's sums


@triton.jit
def plain_score(s, delta, a, x, y):
    return s


@triton.jit
def plain_grad(d, s, delta, a, x, y):
    return d, d, d, d


@triton.jit
def linear_score(s, delta, a, x, y):
    return s - a * delta


@triton.jit
def linear_grad(d, s, delta, a, x, y):
    return d, -d * delta, d, d


@triton.jit
def symmetric_score(s, delta, a, x, y):
    return s - a * tl.abs(delta)


@triton.jit
def symmetric_grad(d, s, delta, a, x, y):
    return d, -d * tl.abs(delta), d, d


@triton.jit
def table_score(s, delta, a, x, y):
    return s + a


@triton.jit
def table_grad(d, s, delta, a, x, y):
    return d, d, d, d


@triton.jit
def faded_score(s, delta, a, x, y):
    return s * (x + (1 - x) * tl.exp(-a * tl.abs(delta)))


@triton.jit
def faded_grad(d, s, delta, a, x, y):
    e = tl.exp(-a * tl.abs(delta))
    return d * (x + (1 - x) * e), -d * s * (1 - x) * tl.abs(delta) * e, d * s * (1 - e), d


@triton.jit
def log_faded_score(s, delta, a, x, y):
    return s + tl.log(x + (1 - x) * tl.exp(-a * tl.abs(delta)))


@triton.jit
def log_faded_grad(d, s, delta, a, x, y):
    e = tl.exp(-a * tl.abs(delta))
    share = d / (x + (1 - x) * e)
    return d, -share * (1 - x) * tl.abs(delta) * e, share * (1 - e), d


@triton.jit
def decay_score(s, delta, a, x, y):
    x1, y1 = x.to(tl.float32), y.to(tl.float32)  # in two parts: sums grow with the text, what counts is a difference
    decay = (x1 - y1) + ((x - x1).to(tl.float32) - (y - y1).to(tl.float32))
    return tl.where(decay < SHUT, float("-inf"), s + decay)


@triton.jit
def decay_grad(d, s, delta, a, x, y):
    return d, d, d, -d


VARIANTS = {
    "plain": Variant(plain_score, plain_grad),
    "linear": Variant(linear_score, linear_grad, ("delta", "head")),  # ALiBi: a is the slope
    "symmetric": Variant(symmetric_score, symmetric_grad, ("delta", "head")),  # the same with |distance|
    "table": Variant(table_score, table_grad, ("table",)),  # T5: a is a bias for each offset; softmax only
    "faded": Variant(faded_score, faded_grad, ("delta", "head", "query")),  # ExpoSB: a is the rate, x the floor
    "decay": Variant(decay_score, decay_grad, ("query", "key")),  # FoX: x and y are the sums of log f up to i and j
    "log_faded": Variant(log_faded_score, log_faded_grad, ("delta", "head", "query")),  # its logarithm, added
}
