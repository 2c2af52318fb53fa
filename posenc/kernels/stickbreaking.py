r"""Stick-breaking attention in blocks: the log of what is left of the stick is carried from block to block.

Memory grows with the length, not with its square, and nothing is added atomically: the same inputs give the same bits.
"""

import torch

from ..errors import UnsupportedError, check_bool, check_choice
from .common import (
    Tile,
    added,
    capability,
    check,
    check_attend,
    column,
    distances,
    head_of,
    heaviest_first,
    in_parts,
    key_blocks,
    launch,
    launch_arguments,
    load_tile,
    long,
    one_number,
    query_rows,
    row,
    rows_first,
    seen,
    share_of,
    store_tile,
)
from .needs import tl, triton
from .variants import VARIANTS

SPENT = tl.constexpr(-64.0)  # exp(-64) = 1.6e-28: a key that leaves less than this has taken the whole stick
SLICE = 1024  # queries whose carries the backward holds at a time
# How a tile sums along the stick: by scans (tl.cumsum), or by a product with a tile of zeros and ones, without a scan.
# Triton's scans have been wrong on GPUs while right in the interpreter: reversed ones (triton-lang/triton issue 4362),
# and one beside a tl.sum in one kernel (3017). A total less a scan would not do: it loses small sums after large ones
# (fla-org/flash-linear-attention pull request 1095). `benchmarks/kernels.py --smoke` says which of the two are right.
BY_PRODUCT = False

# A kernel's arguments are read in groups, as they were written.
# fmt: off


@triton.jit
def log1p(x):
    """log(1 + x) for x in [0, 1], as 2 artanh(s) = 2 (s + s^3/3 + s^5/5 + ...) with s = x / (2 + x), at most 1/3.

    log(1 + x) itself loses a small x, which 1 + x rounds away. This never adds it to 1, and needs no logarithm.
    """
    s = x / (2.0 + x)
    q = s * s
    return 2.0 * s * (1 + q * (1 / 3 + q * (1 / 5 + q * (1 / 7 + q * (1 / 9 + q * (1 / 11 + q / 13))))))


@triton.jit
def sums(x, LATER: tl.constexpr, PRODUCT: tl.constexpr):
    """For each column of a tile [Q, K] the sum of the columns before it, or of those after it."""
    if PRODUCT:
        one, other = tl.arange(0, x.shape[1])[:, None], tl.arange(0, x.shape[1])[None, :]
        total = tl.dot(x, (one > other if LATER else one < other).to(tl.float32), input_precision="ieee")
    else:
        total = tl.cumsum(x, 1, reverse=LATER) - x
    return total


@triton.jit
def pieces(z, visible, carry, PRODUCT: tl.constexpr):
    """The weights of a tile whose keys stand in stick order: (weights, log beta, log(1 - beta), log kept by the tile).

    z [Q, K] logits, carry [Q] the log of the stick that reaches the tile. The sum over the keys before j is the sum up
    to j less j's own term; SPENT bounds that term, so that the difference keeps its digits.
    """
    rest = log1p(tl.exp(-tl.abs(z)))
    log_beta = tl.minimum(z, 0.0) - rest
    log_keep = -tl.maximum(z, 0.0) - rest
    kept = tl.where(visible, tl.maximum(log_keep, SPENT), 0.0)
    before = sums(kept, False, PRODUCT)
    weights = tl.where(visible, tl.exp(log_beta + before + carry[:, None]), 0.0)
    return weights, log_beta, log_keep, tl.sum(kept, 1)


@triton.jit
def grad_logits(weights, log_beta, log_keep, visible, dweights, after, PRODUCT: tl.constexpr):
    """The gradient of a tile's logits, and the sum of weights * dweights over the tile's keys, [Q].

    dz_j = A_j dA_j (1 - beta_j) - beta_j (sum over the keys after j of A dA + what the remainder gets); `after` [Q] is
    that sum over the tiles after this one. It may be anything where nothing is visible: `where` must have the last
    word.
    """
    flow = weights * dweights
    later = sums(flow, True, PRODUCT) + after[:, None]
    dz = flow * tl.exp(log_keep) - tl.exp(log_beta) * later
    return tl.where(visible, dz, 0.0), tl.sum(flow, 1)


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, rest_ptr, mask_ptr, pos_q_ptr, pos_k_ptr, a_ptr, x_ptr, y_ptr,
    q_stride, k_stride, v_stride, out_stride, mask_stride, pos_q_stride, pos_k_stride,
    blocks, heads, groups, queries, keys, width, width_v, scale,
    SCORE: tl.constexpr, DELTA: tl.constexpr, CAUSAL: tl.constexpr, STRICT: tl.constexpr, RECENT: tl.constexpr,
    PRODUCT: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, LANES: tl.constexpr, LANES_V: tl.constexpr,
):
    """One program: one block of queries of one head, along the stick.

    "recent" walks the blocks of keys from the last to the first, and the keys of a block likewise, so that a tile
    always lies in stick order and one sum from left to right serves both orders.
    """
    block, bh = heaviest_first(blocks)
    b, h = bh // heads, bh % heads
    q_ptr = head_of(q_ptr, q_stride, b, h)
    k_ptr = head_of(k_ptr, k_stride, b, h // groups)
    v_ptr = head_of(v_ptr, v_stride, b, h // groups)
    a = one_number(a_ptr, h)

    i = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    lane, lane_v = tl.arange(0, LANES), tl.arange(0, LANES_V)
    q = load_tile(q_ptr, i, lane, q_stride, queries, width)  # [Q, D]
    x = column(x_ptr, bh, i, queries)
    carry = tl.zeros([BLOCK_Q], tl.float32)  # log of the stick that is left
    acc = tl.zeros([BLOCK_Q, LANES_V], tl.float32)

    whole, last = key_blocks(block, queries, keys, BLOCK_Q, BLOCK_K, CAUSAL, STRICT, mask_ptr is not None)
    for stage in tl.static_range(2):  # along the stick; the blocks that need a mask are those of the largest index
        low, high = whole if (stage == 0) == RECENT else 0, last if (stage == 0) == RECENT else whole
        for n in range(0, high - low):
            start = (high - 1 - n if RECENT else low + n) * BLOCK_K
            j = start + (BLOCK_K - 1 - tl.arange(0, BLOCK_K) if RECENT else tl.arange(0, BLOCK_K))
            k = load_tile(k_ptr, j, lane, k_stride, keys, width)  # [K, D]
            v = load_tile(v_ptr, j, lane_v, v_stride, keys, width_v)  # [K, Dv]
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # [Q, K]
            delta = distances(pos_q_ptr, pos_k_ptr, b, i, j, pos_q_stride, pos_k_stride, queries, keys, DELTA)
            z = SCORE(s, delta, a, x, row(y_ptr, bh, j, keys))
            visible = tl.full([BLOCK_Q, BLOCK_K], True, tl.int1)
            if (stage == 0) == RECENT:
                visible = seen(i, j, b, queries, keys, mask_ptr, mask_stride, CAUSAL, STRICT)
            weights, _, _, kept = pieces(z, visible, carry, PRODUCT)
            carry += kept
            acc = tl.dot(weights.to(v.dtype), v, acc, input_precision="ieee")

    store_tile(head_of(out_ptr, out_stride, b, h), acc, i, lane_v, out_stride, queries, width_v)
    tl.store(rest_ptr + bh * queries + i, tl.exp(carry), mask=i < queries)


@triton.jit
def backward_q_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, drest_ptr, before_ptr, after_ptr, dq_ptr, da_ptr, dx_ptr,
    mask_ptr, pos_q_ptr, pos_k_ptr, a_ptr, x_ptr, y_ptr,
    q_stride, k_stride, v_stride, dout_stride, dq_stride, mask_stride, pos_q_stride, pos_k_stride,
    blocks, heads, groups, queries, keys, width, width_v, scale, first_block,
    SCORE: tl.constexpr, GRAD: tl.constexpr, DELTA: tl.constexpr, CAUSAL: tl.constexpr, STRICT: tl.constexpr,
    RECENT: tl.constexpr, PRODUCT: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, LANES: tl.constexpr, LANES_V: tl.constexpr,
):
    """One program: the gradients of one block of queries, in two walks.

    The first walk goes along the stick and writes down what reaches each block of keys; the second comes back and
    gathers what the later keys send to the earlier ones. Both carries, [B*H, blocks of keys, rows of the slice], serve
    the other kernel too. Only sums of what is needed are ever formed, so nothing cancels.
    """
    block, bh = heaviest_first(blocks)
    block += first_block
    b, h = bh // heads, bh % heads
    q_ptr = head_of(q_ptr, q_stride, b, h)
    k_ptr = head_of(k_ptr, k_stride, b, h // groups)
    v_ptr = head_of(v_ptr, v_stride, b, h // groups)
    dout_ptr = head_of(dout_ptr, dout_stride, b, h)
    a = one_number(a_ptr, h)

    i = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    rows = long(blocks * BLOCK_Q)  # of the slice
    place = i - first_block * BLOCK_Q
    count = (keys + BLOCK_K - 1) // BLOCK_K  # blocks of keys
    before_ptr += bh * count * rows
    after_ptr += bh * count * rows
    lane, lane_v = tl.arange(0, LANES), tl.arange(0, LANES_V)
    q = load_tile(q_ptr, i, lane, q_stride, queries, width)
    dout = load_tile(dout_ptr, i, lane_v, dout_stride, queries, width_v)
    x = column(x_ptr, bh, i, queries)
    carry = tl.zeros([BLOCK_Q], tl.float32)

    whole, last = key_blocks(block, queries, keys, BLOCK_Q, BLOCK_K, CAUSAL, STRICT, mask_ptr is not None)
    for stage in tl.static_range(2):
        low, high = whole if (stage == 0) == RECENT else 0, last if (stage == 0) == RECENT else whole
        for n in range(0, high - low):
            key_block = high - 1 - n if RECENT else low + n
            j = key_block * BLOCK_K + (BLOCK_K - 1 - tl.arange(0, BLOCK_K) if RECENT else tl.arange(0, BLOCK_K))
            k = load_tile(k_ptr, j, lane, k_stride, keys, width)
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            delta = distances(pos_q_ptr, pos_k_ptr, b, i, j, pos_q_stride, pos_k_stride, queries, keys, DELTA)
            z = SCORE(s, delta, a, x, row(y_ptr, bh, j, keys))
            visible = tl.full([BLOCK_Q, BLOCK_K], True, tl.int1)
            if (stage == 0) == RECENT:
                visible = seen(i, j, b, queries, keys, mask_ptr, mask_stride, CAUSAL, STRICT)
            tl.store(before_ptr + key_block * rows + place, carry)
            _, _, _, kept = pieces(z, visible, carry, PRODUCT)
            carry += kept

    tl.debug_barrier()  # the second walk may read with another thread what the first wrote
    after = tl.exp(carry) * tl.load(drest_ptr + bh * queries + i, mask=i < queries, other=0.0)
    dq = tl.zeros([BLOCK_Q, LANES], tl.float32)
    da = tl.zeros([BLOCK_Q], tl.float32)
    dx = tl.zeros([BLOCK_Q], tl.float32)
    for stage in tl.static_range(2):  # back again
        low, high = whole if (stage == 1) == RECENT else 0, last if (stage == 1) == RECENT else whole
        for n in range(0, high - low):
            key_block = low + n if RECENT else high - 1 - n
            j = key_block * BLOCK_K + (BLOCK_K - 1 - tl.arange(0, BLOCK_K) if RECENT else tl.arange(0, BLOCK_K))
            k = load_tile(k_ptr, j, lane, k_stride, keys, width)
            v = load_tile(v_ptr, j, lane_v, v_stride, keys, width_v)
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            delta = distances(pos_q_ptr, pos_k_ptr, b, i, j, pos_q_stride, pos_k_stride, queries, keys, DELTA)
            y = row(y_ptr, bh, j, keys)
            z = SCORE(s, delta, a, x, y)
            visible = tl.full([BLOCK_Q, BLOCK_K], True, tl.int1)
            if (stage == 1) == RECENT:
                visible = seen(i, j, b, queries, keys, mask_ptr, mask_stride, CAUSAL, STRICT)
            tl.store(after_ptr + key_block * rows + place, after)
            weights, log_beta, log_keep, _ = pieces(
                z, visible, tl.load(before_ptr + key_block * rows + place), PRODUCT
            )
            dweights = tl.dot(dout, tl.trans(v), input_precision="ieee")
            dz, flow = grad_logits(weights, log_beta, log_keep, visible, dweights, after, PRODUCT)
            after += flow
            ds, da_tile, dx_tile, _ = GRAD(dz, s, delta, a, x, y)
            if da_ptr is not None:
                da += tl.sum(da_tile, 1)
            if dx_ptr is not None:
                dx += tl.sum(dx_tile, 1)
            dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")

    store_tile(head_of(dq_ptr, dq_stride, b, h), dq * scale, i, lane, dq_stride, queries, width)
    if da_ptr is not None:
        tl.store(da_ptr + bh * ((queries + BLOCK_Q - 1) // BLOCK_Q) + block, tl.sum(da, 0))
    if dx_ptr is not None:
        tl.store(dx_ptr + bh * queries + i, dx, mask=i < queries)


@triton.jit
def backward_kv_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, before_ptr, after_ptr, dk_ptr, dv_ptr, dy_ptr,
    mask_ptr, pos_q_ptr, pos_k_ptr, a_ptr, x_ptr, y_ptr,
    q_stride, k_stride, v_stride, dout_stride, dk_stride, dv_stride, mask_stride, pos_q_stride, pos_k_stride,
    blocks, heads, groups, share, queries, keys, width, width_v, scale, first_row, rows,
    SCORE: tl.constexpr, GRAD: tl.constexpr, DELTA: tl.constexpr, CAUSAL: tl.constexpr, STRICT: tl.constexpr,
    RECENT: tl.constexpr, PRODUCT: tl.constexpr,
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

    j = block * BLOCK_K + (BLOCK_K - 1 - tl.arange(0, BLOCK_K) if RECENT else tl.arange(0, BLOCK_K))
    lane, lane_v = tl.arange(0, LANES), tl.arange(0, LANES_V)
    k = load_tile(k_ptr, j, lane, k_stride, keys, width)
    v = load_tile(v_ptr, j, lane_v, v_stride, keys, width_v)
    dk = tl.zeros([BLOCK_K, LANES], tl.float32)
    dv = tl.zeros([BLOCK_K, LANES_V], tl.float32)

    end = tl.minimum(first_row + rows, queries)
    first, whole = query_rows(
        block, first_row, end, queries, keys, BLOCK_Q, BLOCK_K, CAUSAL, STRICT, mask_ptr is not None
    )
    count = (keys + BLOCK_K - 1) // BLOCK_K  # blocks of keys
    for n in range(share):
        h = part * share + n
        bh = b * heads + h
        a, y = one_number(a_ptr, h), row(y_ptr, bh, j, keys)
        dy = tl.zeros([BLOCK_K], tl.float32)
        for WHOLE in tl.static_range(2):  # first the blocks of queries that need a mask, then the others
            for start in range(whole if WHOLE else first, end if WHOLE else whole, BLOCK_Q):
                i = start + tl.arange(0, BLOCK_Q)
                q = load_tile(head_of(q_ptr, q_stride, b, h), i, lane, q_stride, queries, width)
                dout = load_tile(head_of(dout_ptr, dout_stride, b, h), i, lane_v, dout_stride, queries, width_v)
                at = (bh * count + block) * rows + i - first_row
                before = tl.load(before_ptr + at, mask=i < queries, other=0.0)
                after = tl.load(after_ptr + at, mask=i < queries, other=0.0)
                x = column(x_ptr, bh, i, queries)
                s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
                delta = distances(pos_q_ptr, pos_k_ptr, b, i, j, pos_q_stride, pos_k_stride, queries, keys, DELTA)
                z = SCORE(s, delta, a, x, y)
                visible = tl.full([BLOCK_Q, BLOCK_K], True, tl.int1)
                if not WHOLE:
                    visible = seen(i, j, b, queries, keys, mask_ptr, mask_stride, CAUSAL, STRICT)
                weights, log_beta, log_keep, _ = pieces(z, visible, before, PRODUCT)
                dv = tl.dot(tl.trans(weights.to(dout.dtype)), dout, dv, input_precision="ieee")
                dweights = tl.dot(dout, tl.trans(v), input_precision="ieee")
                dz, _ = grad_logits(weights, log_beta, log_keep, visible, dweights, after, PRODUCT)
                ds, _, _, dy_tile = GRAD(dz, s, delta, a, x, y)
                if dy_ptr is not None:
                    dy += tl.sum(dy_tile, 0)
                dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk, input_precision="ieee")
        if dy_ptr is not None:
            at = dy_ptr + bh * keys + j
            tl.store(at, dy + tl.load(at, mask=j < keys, other=0.0), mask=j < keys)

    dk = dk * scale + load_tile(dk_ptr, j, lane, dk_stride, keys, width)
    dv = dv + load_tile(dv_ptr, j, lane_v, dv_stride, keys, width_v)
    store_tile(dk_ptr, dk, j, lane, dk_stride, keys, width)
    store_tile(dv_ptr, dv, j, lane_v, dv_stride, keys, width_v)


def tiles(major_minor, dtype, width):
    """The tiles of (forward, backward) for a compute capability, None for the interpreter.

    width is the wider of q's and v's heads. Of the tiles tried, the largest that spill no registers (`make
    kernel-report`).
    """
    if major_minor is None:
        return Tile(64, 64, 4, 1), Tile(64, 64, 4, 1)
    wide = width > 64
    if major_minor < (8, 0) or dtype == torch.float32:  # no tensor cores: each thread holds whole rows
        forward = Tile(32, 16, 8, 1) if wide else Tile(32, 32, 8, 1)
        return forward, Tile(32, 16, 4, 1) if dtype == torch.float32 and not wide else Tile(16, 16, 8, 1)
    major = major_minor[0]
    if major in (9, 10):
        forward = Tile(128, 64, 8, 2) if wide or major == 10 else Tile(128, 32, 8, 2)
    else:
        forward = Tile(64, 64, 8, 2) if wide else Tile(64, 32, 8, 2)
    if wide:
        backward = Tile(32, 32, 4, 1) if major == 9 else Tile(64, 32, 8, 1)
    else:
        narrow = Tile(32, 32, 8, 1) if major_minor == (8, 0) else Tile(16, 32, 4, 1)
        backward = Tile(64, 32, 8, 1) if major in (9, 10) else narrow
    return forward, backward


@torch.library.custom_op("posenc::stickbreaking", mutates_args=())
def stickbreaking(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, pos_q: torch.Tensor | None,
    pos_k: torch.Tensor | None, a: torch.Tensor | None, x: torch.Tensor | None, y: torch.Tensor | None,
    scale: float, causal: bool, strict: bool, recent: bool, variant: str, tile: list[int],
) -> tuple[torch.Tensor, torch.Tensor]:
    """The forward kernel as an operator: (output [B, H, Tq, Dv], remainder [B, H, Tq] in float32).

    Positions are [parts, 1 or B, T], from `in_parts`.
    """
    check("stick-breaking kernel", q, k, v, pos_q, pos_k, a, x, y, variant)
    out = rows_first(q, v.shape[3])
    rest = q.new_empty(q.shape[:3], dtype=torch.float32)
    if out.numel() == 0 or k.shape[2] == 0:
        return out.zero_(), rest.fill_(1.0)
    cut = Tile(*tile) if tile else tiles(capability(q.device), q.dtype, max(q.shape[3], v.shape[3]))[0]
    launch(
        forward_kernel, triton.cdiv(q.shape[2], cut.block_q), q.shape[0] * q.shape[1], cut,
        q_ptr=q, k_ptr=k, v_ptr=v, out_ptr=out, rest_ptr=rest, a_ptr=a, x_ptr=x, y_ptr=y, out_stride=out.stride(),
        scale=scale, SCORE=VARIANTS[variant].score, CAUSAL=causal, STRICT=strict, RECENT=recent,
        PRODUCT=BY_PRODUCT, **launch_arguments(q, k, v, mask, pos_q, pos_k, variant),
    )
    return out, rest


@stickbreaking.register_fake
def _(q, k, v, mask, pos_q, pos_k, a, x, y, scale, causal, strict, recent, variant, tile):
    return rows_first(q, v.shape[3]), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("posenc::stickbreaking_backward", mutates_args=())
def stickbreaking_backward(
    dout: torch.Tensor, drest: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor,
    mask: torch.Tensor | None, pos_q: torch.Tensor | None, pos_k: torch.Tensor | None, a: torch.Tensor | None,
    x: torch.Tensor | None, y: torch.Tensor | None, scale: float, causal: bool, strict: bool, recent: bool,
    variant: str, tile: list[int],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """Both backward kernels as an operator: gradients of q, k, v, a, x, y (empty tensors for what was not given).

    Besides them it holds the carries of one slice, two float32 numbers for each of its SLICE queries, head and block of
    keys, and the gradients of k and v in float32.
    """
    batch, heads, queries, _ = q.shape
    kv_heads, keys = k.shape[1:3]
    cut = Tile(*tile) if tile else tiles(capability(q.device), q.dtype, max(q.shape[3], v.shape[3]))[1]
    blocks, blocks_k = triton.cdiv(queries, cut.block_q), triton.cdiv(keys, cut.block_k)
    float32 = dict(dtype=torch.float32, device=q.device)
    dq = rows_first(q)
    share = share_of(heads // kv_heads, batch * kv_heads * blocks_k, q.device)
    dk, dv = (rows_first(t, dtype=torch.float32, heads=max(heads // share, kv_heads)).zero_() for t in (k, v))
    da = torch.zeros(batch, heads, blocks if a is not None else 0, **float32)
    dx, dy = (torch.zeros(0 if t is None else t.shape, **float32) for t in (x, y))
    if q.numel() == 0 or k.numel() == 0:
        dq = dq.zero_()
    else:
        slice_blocks = min(blocks, triton.cdiv(SLICE, cut.block_q))
        before, after = torch.empty(2, batch * heads, blocks_k, slice_blocks * cut.block_q, **float32)
        both = launch_arguments(q, k, v, mask, pos_q, pos_k, variant)
        both |= dict(q_ptr=q, k_ptr=k, v_ptr=v, dout_ptr=dout, a_ptr=a, x_ptr=x, y_ptr=y, dout_stride=dout.stride())
        both |= dict(before_ptr=before, after_ptr=after, scale=scale, CAUSAL=causal, STRICT=strict, RECENT=recent)
        both |= dict(SCORE=VARIANTS[variant].score, GRAD=VARIANTS[variant].grad, PRODUCT=BY_PRODUCT)
        for first_block in range(0, blocks, slice_blocks):
            these = min(slice_blocks, blocks - first_block)
            launch(
                backward_q_kernel, these, batch * heads, cut, drest_ptr=drest, dq_ptr=dq,
                da_ptr=None if a is None else da, dx_ptr=None if x is None else dx, dq_stride=dq.stride(),
                first_block=first_block, **both,
            )
            launch(
                backward_kv_kernel, blocks_k, batch * heads // share, cut, share=share, dk_ptr=dk, dv_ptr=dv,
                dy_ptr=None if y is None else dy, dk_stride=dk.stride(), dv_stride=dv.stride(),
                first_row=first_block * cut.block_q, rows=these * cut.block_q, **both,
            )
    return dq, added(dk, k), added(dv, v), da.sum((0, 2)) if a is not None else da.new_empty(0), dx, dy


@stickbreaking_backward.register_fake
def _(dout, drest, q, k, v, mask, pos_q, pos_k, a, x, y, scale, causal, strict, recent, variant, tile):
    def like(t):
        return torch.empty(0 if t is None else t.shape, dtype=torch.float32, device=q.device)

    return rows_first(q), rows_first(k), rows_first(v), like(a), like(x), like(y)


def _setup_context(ctx, inputs, output):
    *tensors, ctx.scale, ctx.causal, ctx.strict, ctx.recent, ctx.variant, ctx.tile = inputs
    ctx.save_for_backward(*tensors)


def _backward(ctx, dout, drest):
    q, k, v, mask, pos_q, pos_k, a, x, y = ctx.saved_tensors
    dq, dk, dv, *rest = stickbreaking_backward(
        dout, drest.contiguous(), q, k, v, mask, pos_q, pos_k, a, x, y,
        ctx.scale, ctx.causal, ctx.strict, ctx.recent, ctx.variant, ctx.tile,
    )
    da, dx, dy = (g if t is not None else None for g, t in zip(rest, (a, x, y)))
    return dq, dk, dv, None, None, None, da, dx, dy, None, None, None, None, None, None


stickbreaking.register_autograd(_backward, setup_context=_setup_context)


def attend(q, k, v, *, pos_q=None, pos_k=None, causal=True, mask=None, scale=1.0, order="recent",
           attend_current=False, variant="plain", a=None, x=None, y=None, tile=()):
    r"""Stick-breaking attention by the kernels of this file.

    A_ij = beta_ij * prod over the keys k before j in the order of (1 - beta_ik), beta = sigmoid of the logits

    Arguments:
        q, k, v, pos_q, pos_k, causal, mask, scale, variant, a, x, y, tile: as in `posenc.kernels.softmax.attend`.
        order: "recent" starts the stick at the last key a query sees, "first" at key 0.
        attend_current: True lets a query take from the key of its own index.
    Returns: (output [B, H, Tq, Dv], remainder [B, H, Tq] float32: the part of the stick that no key took). Both are
        differentiable in q, k, v, a, x, y, once and backward: no second derivatives, no forward mode.
    Paper: arXiv 2410.17980, equations 2 to 4. Chapter: From formula to kernel.
    """
    check_choice("order", order, ("recent", "first"))
    check_bool("attend_current", attend_current)
    check_attend("stick-breaking kernel", q, k, v, pos_q, pos_k, causal, mask, scale, tile)
    if variant in VARIANTS and "table" in VARIANTS[variant].reads:
        raise UnsupportedError(f"stick-breaking kernel: the variant {variant!r} reads a table, as only softmax does")
    pos_q, pos_k = in_parts(pos_q, pos_k, variant)
    return stickbreaking(
        q, k, v, mask, pos_q, pos_k, a, x, y, float(scale), causal, not attend_current, order == "recent", variant,
        list(tile),
    )
