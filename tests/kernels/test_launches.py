r"""How the kernels' work is cut and begun: which rows start first, who sums which heads, what positions become."""

import beside
import pytest
import torch
from beside import DEVICE, leaves
from nan_memory import nan_buffers  # noqa: F401 (the fixture serves by its name)

pytest.importorskip("triton", reason="Triton is published for Linux only")
import triton
import triton.language as tl

from posenc.kernels import common, cope, softmax, stickbreaking

TILE = (16, 16, 4, 1)


def problem(queries, keys, heads=1, kv_heads=1, dtype=torch.float32):
    """Seeded q, k, v that ask for gradients, and a gradient of the output."""
    *qkv, dout = beside.problem(queries, keys, heads, kv_heads)
    return leaves(*qkv, dtype=dtype), dout.to(dtype)


def at(queries, keys):
    return dict(pos_q=torch.arange(keys - queries, keys, device=DEVICE), pos_k=torch.arange(keys, device=DEVICE))


def attend(family, q, k, v, tile=TILE):
    """The output of one family's kernels, with a variant that reads positions where it has one."""
    heads, (queries, keys) = q.shape[1], (q.shape[2], k.shape[2])
    slopes = torch.linspace(0.1, 0.5, heads, device=DEVICE)
    if family == "softmax":
        return softmax.attend(q, k, v, variant="linear", a=slopes, tile=tile, **at(queries, keys))
    if family == "decay":  # whose y belongs to each head of queries, and its gradient too
        y = torch.linspace(-1, 1, heads * keys, device=DEVICE).expand(q.shape[0], -1).view(-1, heads, keys)
        return softmax.attend(q, k, v, variant="decay", x=y[:, :, -queries:].contiguous(), y=y.contiguous(), tile=tile)
    if family == "stick":
        return stickbreaking.attend(q, k, v, variant="symmetric", a=slopes, tile=tile, **at(queries, keys))[0]
    z = torch.linspace(-1, 1, q[..., 0].numel() * 3, device=DEVICE).view(*q.shape[:3], 3)
    return cope.attend(q, k, v, z, tile=tile)


@pytest.mark.parametrize("family, module", [("softmax", softmax), ("stick", stickbreaking), ("cope", cope)])
def test_the_rows_that_see_most_keys_start_first(monkeypatch, family, module):
    """Of each launch the first program alone is run: what it writes belongs to the longest rows of the first head."""
    first = lambda kernel, blocks, times, cut, **others: kernel[(1,)](  # noqa: E731
        blocks=blocks, BLOCK_Q=cut.block_q, BLOCK_K=cut.block_k, num_warps=4, num_stages=1, **others
    )
    monkeypatch.setattr(module, "launch", first)
    (q, k, v), dout = problem(32, 32, heads=2, kv_heads=2)
    out = attend(family, q, k, v)
    (dq,) = torch.autograd.grad(out, q, dout)
    for written in (out, dq):
        assert written[0, 0, 16:].isfinite().all()
        assert written[0, 0, :16].isnan().all() and written[0, 1].isnan().all()


@pytest.mark.sample(4)
@pytest.mark.parametrize(
    "family, dtype",
    [("softmax", torch.float32), ("decay", torch.float16), ("stick", torch.float16), ("cope", torch.float32)],
    ids=str,
)
def test_programs_may_share_the_heads_of_queries_on_one_head_of_keys(monkeypatch, family, dtype):
    """4 heads on 1, and 2 blocks of keys: one program for all of them, for two, for each."""
    asked, results = [], []
    launch = common.launch

    def counted(kernel, blocks, times, cut, **others):
        if "dk_ptr" in others:
            asked.append((blocks, times, others["share"]))
        launch(kernel, blocks, times, cut, **others)

    for module in (softmax, stickbreaking, cope):
        monkeypatch.setattr(module, "launch", counted)
    for fewest in (1, 3, 10**6):  # of a device
        monkeypatch.setattr(common, "fewest_programs", lambda device, fewest=fewest: fewest)
        qkv, dout = problem(17, 30, heads=4, dtype=dtype)
        results.append(torch.autograd.grad(attend(family, *qkv), qkv, dout))
    assert asked == [(2, 1, 4), (2, 2, 2), (2, 4, 1)]
    eps = torch.finfo(dtype).eps
    for other in results[1:]:
        for one, two in zip(results[0], other):
            assert one.dtype == two.dtype and one.shape == two.shape and two.stride() == one.stride()
            torch.testing.assert_close(one, two, rtol=4 * eps, atol=20 * eps)


@triton.jit
def distances_kernel(q_ptr, k_ptr, out_ptr, q_stride, k_stride, queries, keys, DELTA: tl.constexpr):
    i, j = tl.arange(0, 16), tl.arange(0, 16)
    delta = common.distances(q_ptr, k_ptr, 0, i, j, q_stride, k_stride, queries, keys, DELTA)
    tl.store(out_ptr + i[:, None] * 16 + j[None, :], delta)


NEAR = torch.arange(16)
POSITIONS = {
    "default": (NEAR, NEAR, 2),
    "far from 0": (NEAR + 2**45, 2 * NEAR + 2**45, 2),
    "below 0": (-NEAR - 2**40, NEAR, 2),
    "int32, further apart than it counts": (NEAR.int() + 2**31 - 16, NEAR.int() - 2**31, 2),
    "bytes, which wrap": (NEAR.to(torch.uint8), (NEAR + 200).to(torch.uint8), 1),
    "float64": (NEAR.double() / 3 + 1e9, NEAR.double() / 7 + 1e9, 2),
    "float32 beside integers": (NEAR.float() * 1.5, NEAR, 2),
}


@pytest.mark.parametrize("case", POSITIONS)
def test_distances_keep_their_digits_and_convert_nothing(case):
    """Beside the difference in float64: right to float32's last digits, also where both stand far from 0.

    Two parts hold 48 bits, so a fraction far from 0 ends there.
    """
    pos_q, pos_k, parts = POSITIONS[case]
    exact = (pos_q.double()[:, None] - pos_k.double()[None, :]).to(DEVICE)
    split = common.in_parts(pos_q.to(DEVICE), pos_k.to(DEVICE), "linear")
    assert all(p.dtype == torch.float32 and p.shape == (parts, 1, 16) for p in split)
    out = torch.empty(16, 16, device=DEVICE)
    distances_kernel[(1,)](*split, out, *(p.stride() for p in split), 16, 16, DELTA=parts)
    atol = 2.0**-47 * float(pos_q.abs().max()) if pos_q.dtype == torch.float64 else 0
    torch.testing.assert_close(out.double(), exact, rtol=2.0**-22, atol=atol)
