r"""CoPE's attention in blocks: the count of open gates is carried from block to block, from the newest key back.

The lookup is a sum of hats, max(0, 1 - |p - c|) over the positions c, so that no thread gathers and nothing is added
atomically: the same inputs give the same bits. Memory grows with the length, not with its square; what a query says to
each position, z [B, H, Tq, P], is made outside, by one matrix product.
"""

import torch

from ..errors import check_tensor
from .common import (
    LOG2E,
    Tile,
    added,
    as_mask,
    capability,
    check_attend,
    head_of,
    heaviest_first,
    key_blocks,
    launch,
    load_tile,
    long,
    query_rows,
    rows_first,
    seen,
    share_of,
    store_tile,
)
from .needs import tl, triton
from .softmax import online

SLICE = 1024  # queries whose carries the backward holds at a time

# A kernel's arguments are read in groups, as they were written.
# fmt: off


@triton.jit
def counted(s, visible, carry, last):
    """Positions of a tile whose keys stand from the newest to the oldest: (gates, p clamped to last, tile's count)."""
    gates = tl.where(visible, 1.0 / (1.0 + tl.exp(-s)), 0.0)
    return gates, tl.minimum(carry[:, None] + tl.cumsum(gates, 1), last), tl.sum(gates, 1)


@triton.jit
def lookup(p, z_ptr, i, queries, positions):
    """z_i[p] for a tile of positions p [Q, K], and its slope in p, which is 0 where p is clamped."""
    value, slope = tl.zeros(p.shape, tl.float32), tl.zeros(p.shape, tl.float32)
    for c in range(positions):
        z = tl.load(z_ptr + long(i) * positions + c, mask=i < queries, other=0.0)[:, None]
        away = p - c
        value += z * tl.maximum(1.0 - tl.abs(away), 0.0)
        slope += tl.where((away >= -1.0) & (away < 0.0), z, 0.0) - tl.where((away >= 0.0) & (away < 1.0), z, 0.0)
    return value, tl.where(p < positions - 1, slope, 0.0)


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, z_ptr, out_ptr, lse_ptr, mask_ptr, q_stride, k_stride, v_stride, out_stride, mask_stride,
    blocks, heads, groups, queries, keys, width, width_v, positions, scale,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, LANES: tl.constexpr, LANES_V: tl.constexpr,
):
    """One program: one block of queries of one head, along its keys from the newest to the oldest."""
    block, bh = heaviest_first(blocks)
    b, h = bh // heads, bh % heads
    q_ptr = head_of(q_ptr, q_stride, b, h)
    k_ptr = head_of(k_ptr, k_stride, b, h // groups)
    v_ptr = head_of(v_ptr, v_stride, b, h // groups)
    z_ptr += bh * queries * positions

    i = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    lane, lane_v = tl.arange(0, LANES), tl.arange(0, LANES_V)
    q = load_tile(q_ptr, i, lane, q_stride, queries, width)  # [Q, D]
    carry = tl.zeros([BLOCK_Q], tl.float32)  # gates of the newer keys
    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)
    acc = tl.zeros([BLOCK_Q, LANES_V], tl.float32)

    whole, last = key_blocks(block, queries, keys, BLOCK_Q, BLOCK_K, True, False, mask_ptr is not None)
    for n in range(0, last):
        j = (last - n) * BLOCK_K - 1 - tl.arange(0, BLOCK_K)  # so that a tile's sum runs from left to right
        k = load_tile(k_ptr, j, lane, k_stride, keys, width)  # [K, D]
        v = load_tile(v_ptr, j, lane_v, v_stride, keys, width_v)  # [K, Dv]
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # [Q, K]
        visible = seen(i, j, b, queries, keys, mask_ptr, mask_stride, True, False)
        gates, p, count = counted(s, visible, carry, positions - 1.0)
        value, slope = lookup(p, z_ptr, i, queries, positions)
        m, l, acc = online(m, l, acc, tl.where(visible, (s + value) * LOG2E, float("-inf")), v)
        carry += count

    empty = l == 0.0
    l = tl.where(empty, 1.0, l)
    store_tile(head_of(out_ptr, out_stride, b, h), acc / l[:, None], i, lane_v, out_stride, queries, width_v)
    tl.store(lse_ptr + bh * queries + i, tl.where(empty, float("inf"), m + tl.log2(l)), mask=i < queries)


@triton.jit
def weighed(s, visible, carry, lse, z_ptr, i, queries, positions):
    """What both backward kernels make anew of a tile: (gates, weights, p, the slope of z at p, the tile's count)."""
    gates, p, count = counted(s, visible, carry, positions - 1.0)
    value, slope = lookup(p, z_ptr, i, queries, positions)
    weights = tl.where(visible, tl.exp2((s + value) * LOG2E - lse[:, None]), 0.0)
    return gates, weights, p, slope, count


@triton.jit
def grad_scores(d, gates, slope, after):
    """The gradient of a tile's scaled products, and the sum over the tile of the gradient of its positions, [Q].

    A score moves its own logit, and by its gate the positions of its key and of all older ones; `after` [Q] is the sum
    of the gradients of the positions in the tiles of the older keys.
    """
    dp = d * slope
    dgates = tl.cumsum(dp, 1, reverse=True) + after[:, None]
    return d + dgates * gates * (1.0 - gates), tl.sum(dp, 1)


@triton.jit
def backward_q_kernel(
    q_ptr, k_ptr, v_ptr, z_ptr, dout_ptr, lse_ptr, dot_ptr, before_ptr, after_ptr, dq_ptr, dz_ptr, mask_ptr,
    q_stride, k_stride, v_stride, dout_stride, dq_stride, mask_stride,
    blocks, heads, groups, queries, keys, width, width_v, positions, scale, first_block,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, LANES: tl.constexpr, LANES_V: tl.constexpr,
):
    """One program: the gradients of one block of queries, in two walks.

    The first walk goes from the newest key to the oldest, writes down the count that reaches each block of keys, and
    sums what the softmax takes off each row; the second comes back and gathers what older keys send to newer gates.
    Both carries, [B*H, blocks of keys, rows of the slice], serve the other kernel too.
    """
    block, bh = heaviest_first(blocks)
    block += first_block
    b, h = bh // heads, bh % heads
    q_ptr = head_of(q_ptr, q_stride, b, h)
    k_ptr = head_of(k_ptr, k_stride, b, h // groups)
    v_ptr = head_of(v_ptr, v_stride, b, h // groups)
    dout_ptr = head_of(dout_ptr, dout_stride, b, h)
    z_ptr += bh * queries * positions
    dz_ptr += bh * queries * positions

    i = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    rows = long(blocks * BLOCK_Q)  # of the slice
    place = i - first_block * BLOCK_Q
    count_blocks = (keys + BLOCK_K - 1) // BLOCK_K
    before_ptr += bh * count_blocks * rows
    after_ptr += bh * count_blocks * rows
    lane, lane_v = tl.arange(0, LANES), tl.arange(0, LANES_V)
    q = load_tile(q_ptr, i, lane, q_stride, queries, width)
    dout = load_tile(dout_ptr, i, lane_v, dout_stride, queries, width_v)
    lse = tl.load(lse_ptr + bh * queries + i, mask=i < queries, other=float("inf"))
    carry = tl.zeros([BLOCK_Q], tl.float32)
    dot = tl.zeros([BLOCK_Q], tl.float32)

    whole, last = key_blocks(block, queries, keys, BLOCK_Q, BLOCK_K, True, False, mask_ptr is not None)
    for n in range(0, last):
        key_block = last - 1 - n
        j = key_block * BLOCK_K + BLOCK_K - 1 - tl.arange(0, BLOCK_K)
        k = load_tile(k_ptr, j, lane, k_stride, keys, width)
        v = load_tile(v_ptr, j, lane_v, v_stride, keys, width_v)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        visible = seen(i, j, b, queries, keys, mask_ptr, mask_stride, True, False)
        tl.store(before_ptr + key_block * rows + place, carry)
        gates, weights, p, slope, count = weighed(s, visible, carry, lse, z_ptr, i, queries, positions)
        dot += tl.sum(weights * tl.dot(dout, tl.trans(v), input_precision="ieee"), 1)
        carry += count
    tl.store(dot_ptr + bh * queries + i, dot, mask=i < queries)

    tl.debug_barrier()  # the second walk may read with another thread what the first wrote
    after = tl.zeros([BLOCK_Q], tl.float32)
    dq = tl.zeros([BLOCK_Q, LANES], tl.float32)
    for key_block in range(0, last):
        j = key_block * BLOCK_K + BLOCK_K - 1 - tl.arange(0, BLOCK_K)
        k = load_tile(k_ptr, j, lane, k_stride, keys, width)
        v = load_tile(v_ptr, j, lane_v, v_stride, keys, width_v)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        visible = seen(i, j, b, queries, keys, mask_ptr, mask_stride, True, False)
        before = tl.load(before_ptr + key_block * rows + place)
        gates, weights, p, slope, count = weighed(s, visible, before, lse, z_ptr, i, queries, positions)
        d = weights * (tl.dot(dout, tl.trans(v), input_precision="ieee") - dot[:, None])
        for c in range(positions):
            at = dz_ptr + long(i) * positions + c
            more = tl.sum(d * tl.maximum(1.0 - tl.abs(p - c), 0.0), 1)
            tl.store(at, tl.load(at, mask=i < queries, other=0.0) + more, mask=i < queries)
        tl.debug_barrier()  # and so may the next block of keys
        tl.store(after_ptr + key_block * rows + place, after)
        ds, sent = grad_scores(d, gates, slope, after)
        after += sent
        dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")
    store_tile(head_of(dq_ptr, dq_stride, b, h), dq * scale, i, lane, dq_stride, queries, width)


@triton.jit
def backward_kv_kernel(
    q_ptr, k_ptr, v_ptr, z_ptr, dout_ptr, lse_ptr, dot_ptr, before_ptr, after_ptr, dk_ptr, dv_ptr, mask_ptr,
    q_stride, k_stride, v_stride, dout_stride, dk_stride, dv_stride, mask_stride,
    blocks, heads, groups, share, queries, keys, width, width_v, positions, scale, first_row, rows,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, LANES: tl.constexpr, LANES_V: tl.constexpr,
):
    """One program: what one slice of queries, of `share` heads, adds to the gradients of one block of keys and values.

    The slices follow one another and a block of keys belongs to one program, so the sums have one order.
    """
    block, pair = tl.program_id(0) % blocks, long(tl.program_id(0) // blocks)
    b, part = pair // (heads // share), pair % (heads // share)
    kv_head = part * share // groups
    k_ptr = head_of(k_ptr, k_stride, b, kv_head)
    v_ptr = head_of(v_ptr, v_stride, b, kv_head)
    dk_ptr = head_of(dk_ptr, dk_stride, b, part)
    dv_ptr = head_of(dv_ptr, dv_stride, b, part)

    j = block * BLOCK_K + BLOCK_K - 1 - tl.arange(0, BLOCK_K)
    lane, lane_v = tl.arange(0, LANES), tl.arange(0, LANES_V)
    k = load_tile(k_ptr, j, lane, k_stride, keys, width)
    v = load_tile(v_ptr, j, lane_v, v_stride, keys, width_v)
    dk = load_tile(dk_ptr, j, lane, dk_stride, keys, width)
    dv = load_tile(dv_ptr, j, lane_v, dv_stride, keys, width_v)

    end = tl.minimum(first_row + rows, queries)
    first, whole = query_rows(block, first_row, end, queries, keys, BLOCK_Q, BLOCK_K, True, False, mask_ptr is not None)
    count_blocks = (keys + BLOCK_K - 1) // BLOCK_K
    for n in range(share):
        h = part * share + n
        bh = b * heads + h
        for start in range(first, end, BLOCK_Q):
            i = start + tl.arange(0, BLOCK_Q)
            q = load_tile(head_of(q_ptr, q_stride, b, h), i, lane, q_stride, queries, width)
            dout = load_tile(head_of(dout_ptr, dout_stride, b, h), i, lane_v, dout_stride, queries, width_v)
            lse = tl.load(lse_ptr + bh * queries + i, mask=i < queries, other=float("inf"))
            dot = tl.load(dot_ptr + bh * queries + i, mask=i < queries, other=0.0)
            at = (bh * count_blocks + block) * rows + i - first_row
            before = tl.load(before_ptr + at, mask=i < queries, other=0.0)
            after = tl.load(after_ptr + at, mask=i < queries, other=0.0)
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            visible = seen(i, j, b, queries, keys, mask_ptr, mask_stride, True, False)
            gates, weights, p, slope, count = weighed(
                s, visible, before, lse, z_ptr + bh * queries * positions, i, queries, positions
            )
            dv = tl.dot(tl.trans(weights.to(dout.dtype)), dout, dv, input_precision="ieee")
            d = weights * (tl.dot(dout, tl.trans(v), input_precision="ieee") - dot[:, None])
            ds, sent = grad_scores(d, gates, slope, after)
            dk = tl.dot(tl.trans((ds * scale).to(q.dtype)), q, dk, input_precision="ieee")
    store_tile(dk_ptr, dk, j, lane, dk_stride, keys, width)
    store_tile(dv_ptr, dv, j, lane_v, dv_stride, keys, width_v)


def tiles(major_minor, dtype, width):
    """The tiles of (forward, backward) for a compute capability, None for the interpreter.

    width is the wider of q's and v's heads. A tile is held several times at once (scores, gates, positions, slopes), so
    it is small.
    """
    if major_minor is None:
        return Tile(64, 64, 4, 1), Tile(64, 64, 4, 1)
    wide = width > 64
    if major_minor < (8, 0) or dtype == torch.float32:  # no tensor cores: each thread holds whole rows
        return (Tile(16, 16, 8, 1), Tile(16, 16, 8, 1)) if wide else (Tile(32, 16, 8, 1), Tile(16, 16, 4, 1))
    return Tile(64, 32, 8, 1), Tile(32, 32, 8, 1)


def _arguments(q, k, v, z, mask):
    """What all three kernels are told besides their own tensors: pointers, strides, sizes."""
    mask, mask_stride = as_mask(mask, q.shape[0], q.shape[2], k.shape[2])
    lanes = {"LANES": q.shape[3], "LANES_V": v.shape[3]}
    return dict(
        q_ptr=q, k_ptr=k, v_ptr=v, z_ptr=z, mask_ptr=mask, mask_stride=mask_stride, q_stride=q.stride(),
        k_stride=k.stride(), v_stride=v.stride(), heads=q.shape[1], groups=q.shape[1] // k.shape[1],
        queries=q.shape[2], keys=k.shape[2], width=q.shape[3], width_v=v.shape[3], positions=z.shape[3],
        **{name: max(16, triton.next_power_of_2(width)) for name, width in lanes.items()},
    )


@torch.library.custom_op("posenc::cope", mutates_args=())
def cope(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, z: torch.Tensor, mask: torch.Tensor | None, scale: float,
    tile: list[int],
) -> tuple[torch.Tensor, torch.Tensor]:
    """The forward kernel as an operator: (output [B, H, Tq, Dv], log of each row's sum [B, H, Tq], base 2)."""
    out = rows_first(q, v.shape[3])
    lse = q.new_empty(q.shape[:3], dtype=torch.float32)
    if out.numel() == 0 or k.shape[2] == 0:
        return out.zero_(), lse.fill_(float("inf"))
    cut = Tile(*tile) if tile else tiles(capability(q.device), q.dtype, max(q.shape[3], v.shape[3]))[0]
    launch(
        forward_kernel, triton.cdiv(q.shape[2], cut.block_q), q.shape[0] * q.shape[1], cut, out_ptr=out, lse_ptr=lse,
        out_stride=out.stride(), scale=scale, **_arguments(q, k, v, z, mask),
    )
    return out, lse


@cope.register_fake
def _(q, k, v, z, mask, scale, tile):
    return rows_first(q, v.shape[3]), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("posenc::cope_backward", mutates_args=())
def cope_backward(
    dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, z: torch.Tensor, mask: torch.Tensor | None,
    lse: torch.Tensor, scale: float, tile: list[int],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Both backward kernels as an operator: gradients of q, k, v and z.

    Besides them it holds the carries of one slice, two float32 numbers for each of its SLICE queries, head and block of
    keys, and the gradients of k and v in float32.
    """
    batch, heads, queries, _ = q.shape
    kv_heads, keys = k.shape[1:3]
    cut = Tile(*tile) if tile else tiles(capability(q.device), q.dtype, max(q.shape[3], v.shape[3]))[1]
    blocks, blocks_k = triton.cdiv(queries, cut.block_q), triton.cdiv(keys, cut.block_k)
    dq, dz, dot = rows_first(q), torch.zeros_like(z), torch.empty_like(lse)
    share = share_of(heads // kv_heads, batch * kv_heads * blocks_k, q.device)
    dk, dv = (rows_first(t, dtype=torch.float32, heads=max(heads // share, kv_heads)).zero_() for t in (k, v))
    if q.numel() == 0 or k.numel() == 0:
        return dq.zero_(), added(dk, k), added(dv, v), dz
    slice_blocks = min(blocks, triton.cdiv(SLICE, cut.block_q))
    carries = (2, batch * heads, blocks_k, slice_blocks * cut.block_q)
    before, after = torch.empty(carries, dtype=torch.float32, device=q.device)
    both = _arguments(q, k, v, z, mask) | dict(dout_ptr=dout, dout_stride=dout.stride(), lse_ptr=lse, dot_ptr=dot)
    both |= dict(before_ptr=before, after_ptr=after, scale=scale)
    for first_block in range(0, blocks, slice_blocks):
        these = min(slice_blocks, blocks - first_block)
        launch(
            backward_q_kernel, these, batch * heads, cut, dq_ptr=dq, dz_ptr=dz, dq_stride=dq.stride(),
            first_block=first_block, **both,
        )
        launch(
            backward_kv_kernel, blocks_k, batch * heads // share, cut, share=share, dk_ptr=dk, dv_ptr=dv,
            dk_stride=dk.stride(), dv_stride=dv.stride(), first_row=first_block * cut.block_q,
            rows=these * cut.block_q, **both,
        )
    return dq, added(dk, k), added(dv, v), dz


@cope_backward.register_fake
def _(dout, q, k, v, z, mask, lse, scale, tile):
    return rows_first(q), rows_first(k), rows_first(v), torch.empty_like(z)


def _setup_context(ctx, inputs, output):
    *tensors, ctx.scale, ctx.tile = inputs
    ctx.save_for_backward(*tensors, output[1])
    ctx.mark_non_differentiable(output[1])


def _backward(ctx, dout, _):
    q, k, v, z, mask, lse = ctx.saved_tensors
    return *cope_backward(dout, q, k, v, z, mask, lse, ctx.scale, ctx.tile), None, None, None


cope.register_autograd(_backward, setup_context=_setup_context)


def attend(q, k, v, z, *, mask=None, scale=1.0, tile=()):
    r"""CoPE's attention by the kernels of this file, causal.

    softmax over keys of scale q.k + z_i[p_ij], times v;  p_ij the sum of sigmoid(scale q_i . k_n) over n = j .. i

    Arguments:
        q, k, v, mask, scale, tile: as in `posenc.kernels.softmax.attend`.
        z: [B, H, Tq, P] float32, what each query says to each position: q . e.
    Returns: [B, H, Tq, Dv]. Queries that see nothing get exact zeros. Differentiable in q, k, v, z, once and backward.
    Convention: each pair of a query and a key asks all P positions, so the work beside the products grows with P.
    Paper: arXiv 2405.18719, equations 4 and 5. Chapter: From formula to kernel.
    """
    check_attend("CoPE kernel", q, k, v, None, None, True, mask, scale, tile)
    check_tensor("z", z, "[B, H, Tq, P]", ndim=4, floating=True)
    if z.shape[:3] != q.shape[:3] or z.shape[3] < 2 or z.dtype != torch.float32:
        raise ValueError(f"z must be float32 of shape {[*q.shape[:3], 'P']}, P > 1, got {z.dtype} {list(z.shape)}")
    return cope(q, k, v, z.contiguous(), mask, float(scale), list(tile))[0]
