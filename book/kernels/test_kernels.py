"""The pages on kernels: their counts, by hand and as the interpreter counts them; what their explorables draw."""

import collections
import itertools
import math

import pytest
import torch
from torch.testing import assert_close

from posenc.chapters.kernels import facts as page
from posenc.chapters.kernels import figures


def test_tiles_that_a_causal_kernel_walks_over_by_hand():
    assert page.pairs_visited(1, 32, 16) == 32 * 16
    assert page.pairs_visited(70, 32, 16) == 32 * 16 * (2 + 4 + 5)
    assert page.pairs_visited(64, 16, 16) == 16 * 16 * (1 + 2 + 3 + 4)


@pytest.mark.skipif(torch.cuda.is_available(), reason="counts what the interpreter does")
@pytest.mark.parametrize("name", ["softmax", pytest.param("CoPE", marks=pytest.mark.weekly)])
def test_kernels_do_as_many_operations_as_the_page_counts(monkeypatch, name):
    """The kernels run in the interpreter, which counts: hats by their absolute values, each number of a tile one."""
    interpreter = pytest.importorskip("triton.runtime.interpreter", reason="Triton is published for Linux only")
    from posenc.kernels import cope, softmax

    block_q, block_k, length, lanes, positions = 32, 16, 70, 16, 5
    builder, done = interpreter.InterpreterBuilder, collections.Counter()

    def counting(what):
        method = getattr(builder, what)

        def counted(self, arg, *rest):
            if what == "create_dot":
                done[what] += 2 * arg.data.size * rest[0].data.shape[1]
            elif arg.data.shape == (block_q, block_k):
                done[what] += arg.data.size
            return method(self, arg, *rest)

        monkeypatch.setattr(builder, what, counted)

    for what in ("create_dot", "create_fabs", "create_exp", "create_exp2"):
        counting(what)
    q, k, v = (torch.randn(1, 1, length, lanes, requires_grad=True) for _ in range(3))
    tile, pairs = (block_q, block_k, 4, 1), page.pairs_visited(length, block_q, block_k)
    if name == "CoPE":
        out = cope.attend(q, k, v, torch.randn(1, 1, length, positions, requires_grad=True), tile=tile)
    else:
        out = softmax.attend(q, k, v, tile=tile)
    for direction, hats in (("forward", positions), ("backward", 4 * positions)):
        if direction == "backward":
            done.clear()
            out.sum().backward()
        counted = page.contextual_work(positions, lanes)[name][direction]
        assert done["create_dot"] == pairs * counted["products"]
        assert done["create_exp"] + done["create_exp2"] == pairs * counted["exponentials"]
        assert done["create_fabs"] == (pairs * hats if name == "CoPE" else 0)
        if name == "CoPE":  # the slopes that grad_scores reads are what is left
            slopes = {"forward": 0, "backward": 2}[direction] * positions
            assert counted["lookup"] == 6 * hats + 10 * slopes


@pytest.mark.parametrize("block", [1, 5, 6, 8, 12, 24])
@pytest.mark.parametrize("peak", [0, 13, 23])
def test_the_online_softmax_ends_at_the_softmax(block, peak):
    scores, values = figures.online_row(peak)
    assert scores.argmax() == peak
    m, l, acc = torch.tensor([-math.inf, 0, 0], dtype=torch.float64)
    for s, v in zip(scores.split(block), values.split(block)):
        m, l, acc = figures.online_update(m, l, acc, s, v)
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
            kind = figures.WHOLE if full else figures.MASKED if tile.any() else figures.SKIPPED
            assert figures.tile_kind(row, key, block_q, block_k, 7, keys) == kind
