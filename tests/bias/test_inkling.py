"""Inkling's bias: the formula in loops, and the model's own code in transformers."""

import math

import pytest
import torch
from loops import attend, dot
from transformers.models.inkling.modeling_inkling import InklingRelativeLogits

import posenc
from posenc import attention, inkling


def random(*shape, seed=0):
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def encoding(extent=4, num_curves=3):
    made = inkling.inkling(extent, num_curves=num_curves).double()
    made.bias.bank.data = random(num_curves, extent, seed=8)
    return made


@pytest.mark.parametrize("queries, keys", [(7, 7), (3, 7), (1, 1)], ids=str)
def test_equals_the_formula_in_loops(queries, keys):
    q, k, v = random(1, 2, queries, 8), random(1, 2, keys, 8, seed=1), random(1, 2, keys, 5, seed=2)
    made, mix = encoding(), random(1, 2, keys, 3, seed=3)
    bank = made.bias.bank.detach()

    def logit(h, i, j, q_i, k_j):
        near = sum(mix[0, h, i, n] * bank[n, i - j] for n in range(3)) if 0 <= i - j < 4 else 0.0
        return dot(q_i, k_j) / math.sqrt(8) + float(near)

    expected, weights = attend(q, k, v, logit)
    out, mine = attention(q, k, v, made, gates=mix, return_weights=True)
    torch.testing.assert_close(out, expected, rtol=0, atol=1e-12)
    torch.testing.assert_close(mine, weights, rtol=0, atol=1e-12)


def test_more_queries_than_keys_are_refused():
    q, k = random(1, 2, 3, 8), random(1, 2, 2, 8)
    with pytest.raises(ValueError, match="q has 3 tokens, k 2"):
        attention(q, k, k, encoding(), causal=False, gates=random(1, 2, 2, 3))


def test_equals_transformers():
    mix, bank = random(2, 4, 9, 3).requires_grad_(), random(3, 4, seed=1).requires_grad_()
    theirs = InklingRelativeLogits(3, 4).double()
    theirs.proj.data = bank.detach().clone()
    at, late = torch.arange(9), torch.arange(4, 13)
    expected = theirs(mix.transpose(1, 2), late, at)
    mine = inkling.curves(mix, bank, late[:, None] - at[None])
    torch.testing.assert_close(mine, expected)
    direction = random(*mine.shape, seed=2)
    wanted = torch.autograd.grad(expected, (mix, theirs.proj), direction)
    for got, want in zip(torch.autograd.grad(mine, (mix, bank), direction), wanted):
        torch.testing.assert_close(got, want)


def test_works_both_ways_and_says_nothing_of_the_future():
    q, mix, made = random(1, 2, 5, 8), random(1, 2, 5, 3, seed=3), encoding()
    at = torch.arange(5)[None]
    bias = made.bias(q, q, posenc.At(at, at, None, mix))
    assert (bias.triu(1) == 0).all() and (bias.tril() != 0).sum() == 2 * (5 + 4 + 3 + 2)
    assert attention(q, q, q, made, gates=mix, causal=False).isfinite().all()


def test_bad_input_is_named():
    q, mix = random(1, 2, 3, 4), random(1, 2, 3, 3)
    for call, words in (
        (lambda: inkling.inkling(0), ["extent=0"]),
        (lambda: attention(q, q, q, encoding()), ["gates=None", "[1, 2, 3, 3]"]),
        (lambda: attention(q, q, q, encoding(), gates=mix, pos_q=torch.arange(3) / 2), ["0.5", "whole"]),
        (lambda: inkling.curves(mix, random(2, 4), torch.zeros(3, 3).long()), ["mix", "3", "2"]),
    ):
        with pytest.raises(ValueError) as caught:
            call()
        assert all(word in str(caught.value) for word in words), str(caught.value)
