r"""The pages on kernels: their counts, by hand and as the interpreter counts them; their frozen cells."""

import collections

import pytest
import torch

from posenc.chapters.kernels import facts as page


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
