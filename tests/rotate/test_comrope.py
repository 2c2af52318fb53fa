"""ComRoPE (arXiv 2506.03737): what stays true in training, and the blocks that fit a head."""

import torch
from loops import normal
from test_liere import DIM, HEADS, grid, made, weights

from posenc.rotate.comrope import comrope


def test_commuting_survives_training():
    for name in ("ap", "ld"):
        encoding, positions = made(name, block=4), grid(3, 3)
        step = torch.optim.Adam(encoding.parameters(), lr=0.1)
        for seed in range(5):
            q = normal(1, HEADS, 9, DIM, seed=seed)
            step.zero_grad()
            weights(encoding, q, q, positions).square().sum().backward()
            assert all(parameter.grad.abs().max() > 0 for parameter in encoding.parameters())
            step.step()
        generators = encoding.rotate.generators()
        bracket = generators[:, 0] @ generators[:, 1] - generators[:, 1] @ generators[:, 0]
        assert bracket.abs().max() < 1e-13


def test_the_default_block_is_the_largest_that_fits():
    def blocks(head_dim, form, axes=2):
        return comrope(head_dim, 1, form, axes=axes).rotate.matrices.shape[1:3]

    assert blocks(64, "ap") == (8, 8) and blocks(64, "ld") == (8, 8)
    assert blocks(12, "ap") == (6, 2) and blocks(12, "ld") == (3, 4)
    assert blocks(24, "ap", axes=3) == (3, 8) and blocks(8, "ap") == (2, 4)
