"""Inkling's bias: the formula in loops, and the model's own code in transformers."""

import math

import pytest
import torch
from cases import equals_loops
from loops import dot, gradients_agree, normal
from transformers.models.inkling.modeling_inkling import InklingRelativeLogits

from posenc import inkling


@pytest.mark.parametrize("queries, keys, causal", [(7, 7, True), (3, 7, True), (1, 1, True), (5, 5, False)], ids=str)
def test_equals_the_formula_in_loops(queries, keys, causal):
    tensors = normal(1, 2, queries, 8), normal(1, 2, keys, 8, seed=1), normal(1, 2, keys, 5, seed=2)
    made, mix = inkling.inkling(4, num_curves=3).double(), normal(1, 2, keys, 3, seed=3)
    bank = made.bias.bank.data = normal(3, 4, seed=8)

    def logit(h, i, j, q_i, k_j):
        near = sum(mix[0, h, i, n] * bank[n, i - j] for n in range(3)) if 0 <= i - j < 4 else 0.0
        return dot(q_i, k_j) / math.sqrt(8) + float(near)

    equals_loops(made, tensors, logit, causal=causal, gates=mix)


def test_equals_transformers():
    mix, bank = normal(2, 4, 9, 3).requires_grad_(), normal(3, 4, seed=1).requires_grad_()
    theirs = InklingRelativeLogits(3, 4).double()
    theirs.proj.data = bank.detach().clone()
    at, late = torch.arange(9), torch.arange(4, 13)
    mine = inkling.curves(mix, bank, late[:, None] - at[None])
    gradients_agree(mine, theirs(mix.transpose(1, 2), late, at), (mix, bank), (mix, theirs.proj))
