r"""Exercises of the chapter What flows back: a backward pass by hand. They have no lab; the page checks them."""

import torch

from posenc.lab.check.exercise import Exercise, generator
from posenc.rotate.rope import inv_freq, rotate


def softmax_gradient(weights, dweights):
    r"""The gradient of the logits, ds = A (dA - sum_j A dA), from weights A and their gradient dA, [..., Tq, Tk]."""
    return weights * (dweights - (weights * dweights).sum(-1, keepdim=True))


SOFTMAX_GRADIENT = {
    "the mean is not taken off: raising one logit lowers the other weights": "-> weights * dweights",
    "the plain mean is taken off: weigh it with A": "(weights * dweights).sum( -> dweights.mean(",
    "the mean is taken over the queries: a row of weights belongs to one query": "sum(-1 -> sum(-2",
    "the sign of the mean is flipped: it is taken off": "dweights - -> dweights +",
}


def table_backward(ds, rows, count):
    r"""The gradient [H, count] of a table whose entry rows[i, j] was added to logit i, j: ds [H, T, T], rows [T, T]."""
    out = ds.new_zeros(ds.shape[0], count)
    return out.index_add(1, rows.flatten(), ds.flatten(1))


def _last_one_wins(ds, rows, count):
    out = ds.new_zeros(ds.shape[0], count)
    for number, row in enumerate(rows.flatten().tolist()):
        out[:, row] = ds.flatten(1)[:, number]
    return out


TABLE_BACKWARD = {
    "visits overwrite one another: entries of one row add up (index_add_, scatter_add_)": _last_one_wins,
    "the visits of a row are averaged: the gradient is their sum": (
        "-> table_backward(ds, rows, count) / torch.bincount(rows.flatten(), minlength=count).clamp(min=1)"
    ),
    "the heads are added up: each head has a row of its own": (
        "-> table_backward(ds, rows, count).sum(0, keepdim=True).expand(len(ds), -1)"
    ),
    "query and key are swapped: rows[i, j] belongs to ds[:, i, j]": "ds.flatten -> ds.mT.flatten",
}


def rotation_backward(grad, positions, inv_freq):
    return rotate(grad, -positions, inv_freq)


ROTATION_BACKWARD = {
    "the gradient turns the same way as the vector: backwards, it turns back": "-positions -> positions",
    "the gradient is handed on unturned": "-> grad.clone()",
    "lanes i and i + D/2 are paired: the forward pairs 2i and 2i+1": 'inv_freq -> inv_freq, layout="half"',
    "the right pairs turn, but are written as two halves": (
        "-> torch.cat(rotate(grad, -positions, inv_freq).unflatten(-1, (-1, 2)).unbind(-1), dim=-1)"
    ),
}


def _weights():
    source = generator()
    for shape in ((3, 4), (2, 5, 5), (1, 2, 4, 6)):
        yield torch.randn(shape, generator=source).softmax(-1), torch.randn(shape, generator=source)


def _tables():
    source = generator(1)
    for heads, length, count in ((2, 4, 3), (3, 6, 8)):
        rows = torch.randint(count - 1, (length, length), generator=source)  # the last row of the table is never read
        yield torch.randn(heads, length, length, generator=source), rows, count


def _rotations():
    source = generator(2)
    for shape, positions in (((5, 4), torch.arange(5) + 1), ((2, 3, 6, 8), torch.tensor([2, 3, 5, 8, 13, 100]))):
        yield torch.randn(shape, generator=source), positions, inv_freq(shape[-1])


ON_PAPER = 4  # points

EXERCISES = {  # what is right, cases, tolerance, points, mistakes
    "logits_backward": Exercise(softmax_gradient, _weights, 1e-5, 1, SOFTMAX_GRADIENT, title="logits_backward"),
    "table_backward": Exercise(table_backward, _tables, 1e-5, 2, TABLE_BACKWARD, title="table_backward"),
    "rotation_backward": Exercise(rotation_backward, _rotations, 1e-5, 2, ROTATION_BACKWARD, title="rotation_backward"),
}
