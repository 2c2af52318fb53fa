"""The explorables on kernels: whatever the block, the walk ends where the formula does, and tiles are what they say."""

import itertools

import pytest
import torch
from torch.testing import assert_close

from posenc.chapters.kernels import figures as kernels

ZERO = torch.zeros((), dtype=torch.float64)


@pytest.mark.parametrize("block", [1, 5, 6, 8, 12, 24])
@pytest.mark.parametrize("peak", [0, 13, 23])
def test_the_online_softmax_ends_at_the_softmax(block, peak):
    scores, values = kernels.online_row(peak)
    assert scores.argmax() == peak
    m, l, acc = ZERO - torch.inf, ZERO, ZERO  # noqa: E741
    for s, v in zip(scores.split(block), values.split(block)):
        m, l, acc = kernels.online_update(m, l, acc, s, v)  # noqa: E741
    assert_close(acc / l, torch.softmax(scores, -1) @ values)
    assert_close(m + l.log(), scores.logsumexp(-1))


@pytest.mark.parametrize("keys", range(7, 13))
def test_tiles_that_the_diagonal_only_touches(keys):
    """Small odd sizes, where a tile begins at the last key seen or ends one after it."""
    visible = torch.ones(7, keys, dtype=torch.bool).tril(keys - 7)
    for block_q, block_k in itertools.product((1, 2, 3, 4), repeat=2):
        for row, key in itertools.product(range(0, 7, block_q), range(0, keys, block_k)):
            tile = visible[row : row + block_q, key : key + block_k]
            full = bool(tile.all()) and key + block_k <= keys
            kind = kernels.WHOLE if full else kernels.MASKED if tile.any() else kernels.SKIPPED
            assert kernels.tile_kind(row, key, block_q, block_k, 7, keys) == kind
