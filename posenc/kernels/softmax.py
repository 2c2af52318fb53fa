r"""Softmax attention in blocks: the online softmax forward, two kernels backward, a variant for what scores get.

No kernel ever holds more than one tile of the scores, so memory grows with the length, not with its square. Nothing is
added atomically but the whole numbers of table.py, which have one sum in any order: the same inputs give the same bits.
"""

import torch

from ..errors import UnsupportedError, check_tensor
from .common import (
    LOG2E,
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
    position,
    query_rows,
    row,
    rows_first,
    seen,
    share_of,
    store_tile,
)
from .needs import tl, triton
from .rotary import check as check_rotation
from .rotary import rotary
from .table import backward_table_kernel, diagonals, read, table_arguments, table_inputs, unit_of
from .variants import VARIANTS

# A kernel's arguments are read in groups, as they were written.
# fmt: off


@triton.jit
def turned(x, b, index, pos_ptr, pos_stride, length, freq_ptr, pairs, ROWS: tl.constexpr, LANES: tl.constexpr):
    """A tile of q or k [N, D], its pairs of neighboring lanes turned by position; as it is without frequencies."""
    if freq_ptr is not None:
        pair = tl.arange(0, LANES // 2)
        pos = position(pos_ptr, pos_stride, b, index, length, 0).to(tl.float32)
        freq = tl.load(freq_ptr + pair, mask=pair < pairs, other=0.0)  # lanes past the last pair turn by 0
        cos, sin = tl.cos(pos[:, None] * freq[None, :]), tl.sin(pos[:, None] * freq[None, :])
        one, two = tl.split(tl.reshape(x.to(tl.float32), [ROWS, LANES // 2, 2]))
        both = tl.join(one * cos - two * sin, one * sin + two * cos)
        x = tl.reshape(both, [ROWS, LANES]).to(x.dtype)
    return x


@triton.jit
def online(m, l, acc, s, v):
    """Take one more tile into a running softmax: logits s [Q, K], in units of log 2, and values v [K, Dv].

    m [Q] is the largest logit so far, l [Q] the sum of exp2(logit - m), acc [Q, Dv] the sum of exp2(logit - m) v.
    """
    new_m = tl.maximum(m, tl.max(s, 1))
    anchor = tl.where(new_m == float("-inf"), 0.0, new_m)  # a row that has seen nothing yet
    p = tl.exp2(s - anchor[:, None])
    shrink = tl.exp2(m - anchor)  # what was summed under the old maximum, under the new one
    acc = tl.dot(p.to(v.dtype), v, acc * shrink[:, None], input_precision="ieee")
    return new_m, l * shrink + tl.sum(p, 1), acc


@triton.jit
def forward_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, lse_ptr, mask_ptr, pos_q_ptr, pos_k_ptr, freq_ptr, a_ptr, table_ptr, x_ptr, y_ptr,
    q_stride, k_stride, v_stride, out_stride, mask_stride, pos_q_stride, pos_k_stride,
    blocks, heads, groups, queries, keys, width, width_v, first_offset, entries, pairs, scale,
    SCORE: tl.constexpr, DELTA: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, LANES: tl.constexpr, LANES_V: tl.constexpr,
):
    """One program: one block of queries of one head, against all blocks of keys that one of them sees."""
    block, bh = heaviest_first(blocks)
    b, h = bh // heads, bh % heads
    q_ptr = head_of(q_ptr, q_stride, b, h)
    k_ptr = head_of(k_ptr, k_stride, b, h // groups)
    v_ptr = head_of(v_ptr, v_stride, b, h // groups)
    number = one_number(a_ptr, h)

    i = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    lane, lane_v = tl.arange(0, LANES), tl.arange(0, LANES_V)
    q = load_tile(q_ptr, i, lane, q_stride, queries, width)  # [Q, D]
    q = turned(q, b, i, pos_q_ptr, pos_q_stride, queries, freq_ptr, pairs, BLOCK_Q, LANES)
    x = column(x_ptr, bh, i, queries)
    m = tl.full([BLOCK_Q], float("-inf"), tl.float32)
    l = tl.zeros([BLOCK_Q], tl.float32)
    acc = tl.zeros([BLOCK_Q, LANES_V], tl.float32)

    whole, last = key_blocks(block, queries, keys, BLOCK_Q, BLOCK_K, CAUSAL, False, mask_ptr is not None)
    for MASKED in tl.static_range(2):  # first the blocks of keys that need no mask, then the others
        for n in range(whole if MASKED else 0, last if MASKED else whole):
            j = n * BLOCK_K + tl.arange(0, BLOCK_K)
            k = load_tile(k_ptr, j, lane, k_stride, keys, width)  # [K, D]
            v = load_tile(v_ptr, j, lane_v, v_stride, keys, width_v)  # [K, Dv]
            k = turned(k, b, j, pos_k_ptr, pos_k_stride, keys, freq_ptr, pairs, BLOCK_K, LANES)
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale  # [Q, K]
            delta = distances(pos_q_ptr, pos_k_ptr, b, i, j, pos_q_stride, pos_k_stride, queries, keys, DELTA)
            a = read(
                table_ptr, number, h, b, i, j, pos_q_ptr, pos_k_ptr, pos_q_stride, pos_k_stride, queries, keys,
                first_offset, entries,
            )
            s = SCORE(s, delta, a, x, row(y_ptr, bh, j, keys)) * LOG2E
            if MASKED:
                ok = seen(i, j, b, queries, keys, mask_ptr, mask_stride, CAUSAL, False)
                s = tl.where(ok, s, float("-inf"))
            m, l, acc = online(m, l, acc, s, v)

    empty = l == 0.0
    l = tl.where(empty, 1.0, l)
    out = acc / l[:, None]
    store_tile(head_of(out_ptr, out_stride, b, h), out, i, lane_v, out_stride, queries, width_v)
    lse = tl.where(empty, float("inf"), m + tl.log2(l))  # inf makes every weight of an empty row 0 in the backward
    tl.store(lse_ptr + bh * queries + i, lse, mask=i < queries)


@triton.jit
def backward_q_kernel(
    q_ptr, k_ptr, v_ptr, out_ptr, dout_ptr, lse_ptr, dot_ptr, dq_ptr, da_ptr, dx_ptr,
    mask_ptr, pos_q_ptr, pos_k_ptr, a_ptr, table_ptr, x_ptr, y_ptr,
    q_stride, k_stride, v_stride, out_stride, dout_stride, dq_stride, mask_stride, pos_q_stride, pos_k_stride,
    blocks, heads, groups, queries, keys, width, width_v, first_offset, entries, scale,
    SCORE: tl.constexpr, GRAD: tl.constexpr, DELTA: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, LANES: tl.constexpr, LANES_V: tl.constexpr,
):
    """One program: the gradients of one block of queries, and of what belongs to a query or to the head.

    d logit_ij = p_ij (dout_i . v_j - dot_i) with dot_i = dout_i . out_i, which makes each row sum to 0. In half
    precision `out` was rounded, so dot_i is a little off. What the row then sums to is that error: taken back, it
    mends the gradients of a and x, which may weigh far keys most, and dot_i for the other kernel. Only dq, which is
    summed in the same walk, keeps it: there it is as small as the rounding of `out`.
    """
    block, bh = heaviest_first(blocks)
    b, h = bh // heads, bh % heads
    q_ptr = head_of(q_ptr, q_stride, b, h)
    k_ptr = head_of(k_ptr, k_stride, b, h // groups)
    v_ptr = head_of(v_ptr, v_stride, b, h // groups)
    out_ptr = head_of(out_ptr, out_stride, b, h)
    dout_ptr = head_of(dout_ptr, dout_stride, b, h)
    number = one_number(a_ptr, h)

    i = block * BLOCK_Q + tl.arange(0, BLOCK_Q)
    lane, lane_v = tl.arange(0, LANES), tl.arange(0, LANES_V)
    q = load_tile(q_ptr, i, lane, q_stride, queries, width)
    dout = load_tile(dout_ptr, i, lane_v, dout_stride, queries, width_v)
    out = load_tile(out_ptr, i, lane_v, out_stride, queries, width_v)
    dot = tl.sum(out.to(tl.float32) * dout.to(tl.float32), 1)
    excess = tl.zeros([BLOCK_Q], tl.float32)  # by how much dot is too small
    lse = tl.load(lse_ptr + bh * queries + i, mask=i < queries, other=float("inf"))
    x = column(x_ptr, bh, i, queries)
    dq = tl.zeros([BLOCK_Q, LANES], tl.float32)
    da, da_excess = tl.zeros([BLOCK_Q], tl.float32), tl.zeros([BLOCK_Q], tl.float32)
    dx, dx_excess = tl.zeros([BLOCK_Q], tl.float32), tl.zeros([BLOCK_Q], tl.float32)

    whole, last = key_blocks(block, queries, keys, BLOCK_Q, BLOCK_K, CAUSAL, False, mask_ptr is not None)
    for MASKED in tl.static_range(2):
        for n in range(whole if MASKED else 0, last if MASKED else whole):
            j = n * BLOCK_K + tl.arange(0, BLOCK_K)
            k = load_tile(k_ptr, j, lane, k_stride, keys, width)
            v = load_tile(v_ptr, j, lane_v, v_stride, keys, width_v)
            s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
            delta = distances(pos_q_ptr, pos_k_ptr, b, i, j, pos_q_stride, pos_k_stride, queries, keys, DELTA)
            a = read(
                table_ptr, number, h, b, i, j, pos_q_ptr, pos_k_ptr, pos_q_stride, pos_k_stride, queries, keys,
                first_offset, entries,
            )
            y = row(y_ptr, bh, j, keys)
            p = tl.exp2(SCORE(s, delta, a, x, y) * LOG2E - lse[:, None])  # the weights, as they were forward
            if MASKED:
                p = tl.where(seen(i, j, b, queries, keys, mask_ptr, mask_stride, CAUSAL, False), p, 0.0)
            d = p * (tl.dot(dout, tl.trans(v), input_precision="ieee") - dot[:, None])
            excess += tl.sum(d, 1)
            ds, da_tile, dx_tile, _ = GRAD(d, s, delta, a, x, y)
            _, da_unit, dx_unit, _ = GRAD(p, s, delta, a, x, y)  # what an error of 1 in dot does to them
            if da_ptr is not None:
                da += tl.sum(da_tile, 1)
                da_excess += tl.sum(da_unit, 1)
            if dx_ptr is not None:
                dx += tl.sum(dx_tile, 1)
                dx_excess += tl.sum(dx_unit, 1)
            dq = tl.dot(ds.to(k.dtype), k, dq, input_precision="ieee")

    store_tile(head_of(dq_ptr, dq_stride, b, h), dq * scale, i, lane, dq_stride, queries, width)
    tl.store(dot_ptr + bh * queries + i, dot + excess, mask=i < queries)
    if da_ptr is not None:
        da = tl.sum(da - excess * da_excess, 0)
        tl.store(da_ptr + bh * blocks + block, da)  # one number a program, summed afterwards
    if dx_ptr is not None:
        tl.store(dx_ptr + bh * queries + i, dx - excess * dx_excess, mask=i < queries)


@triton.jit
def backward_kv_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, dot_ptr, dk_ptr, dv_ptr, dy_ptr,
    mask_ptr, pos_q_ptr, pos_k_ptr, a_ptr, table_ptr, x_ptr, y_ptr,
    q_stride, k_stride, v_stride, dout_stride, dk_stride, dv_stride, mask_stride, pos_q_stride, pos_k_stride,
    blocks, heads, groups, share, queries, keys, width, width_v, first_offset, entries, scale,
    SCORE: tl.constexpr, GRAD: tl.constexpr, DELTA: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, LANES: tl.constexpr, LANES_V: tl.constexpr,
):
    """One program: the gradients of one block of keys and values, over `share` of the heads of queries on them."""
    block, pair = tl.program_id(0) % blocks, long(tl.program_id(0) // blocks)
    b, part = pair // (heads // share), pair % (heads // share)
    kv_head = part * share // groups
    k_ptr = head_of(k_ptr, k_stride, b, kv_head)
    v_ptr = head_of(v_ptr, v_stride, b, kv_head)

    j = block * BLOCK_K + tl.arange(0, BLOCK_K)
    lane, lane_v = tl.arange(0, LANES), tl.arange(0, LANES_V)
    k = load_tile(k_ptr, j, lane, k_stride, keys, width)
    v = load_tile(v_ptr, j, lane_v, v_stride, keys, width_v)
    dk = tl.zeros([BLOCK_K, LANES], tl.float32)
    dv = tl.zeros([BLOCK_K, LANES_V], tl.float32)

    first, whole = query_rows(block, 0, queries, queries, keys, BLOCK_Q, BLOCK_K, CAUSAL, False, mask_ptr is not None)
    for n in range(share):
        h = part * share + n
        bh = b * heads + h
        number, y = one_number(a_ptr, h), row(y_ptr, bh, j, keys)
        dy = tl.zeros([BLOCK_K], tl.float32)
        for WHOLE in tl.static_range(2):  # first the blocks of queries that need a mask, then the others
            for start in range(whole if WHOLE else first, queries if WHOLE else whole, BLOCK_Q):
                i = start + tl.arange(0, BLOCK_Q)
                q = load_tile(head_of(q_ptr, q_stride, b, h), i, lane, q_stride, queries, width)
                dout = load_tile(head_of(dout_ptr, dout_stride, b, h), i, lane_v, dout_stride, queries, width_v)
                lse = tl.load(lse_ptr + bh * queries + i, mask=i < queries, other=float("inf"))  # p = 0 past the end
                dot = tl.load(dot_ptr + bh * queries + i, mask=i < queries, other=0.0)
                s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
                delta = distances(pos_q_ptr, pos_k_ptr, b, i, j, pos_q_stride, pos_k_stride, queries, keys, DELTA)
                a = read(
                    table_ptr, number, h, b, i, j, pos_q_ptr, pos_k_ptr, pos_q_stride, pos_k_stride, queries, keys,
                    first_offset, entries,
                )
                x = column(x_ptr, bh, i, queries)
                p = tl.exp2(SCORE(s, delta, a, x, y) * LOG2E - lse[:, None])
                if not WHOLE:
                    p = tl.where(seen(i, j, b, queries, keys, mask_ptr, mask_stride, CAUSAL, False), p, 0.0)
                dv = tl.dot(tl.trans(p.to(dout.dtype)), dout, dv, input_precision="ieee")
                d = p * (tl.dot(dout, tl.trans(v), input_precision="ieee") - dot[:, None])
                ds, _, _, dy_tile = GRAD(d, s, delta, a, x, y)
                if dy_ptr is not None:
                    dy += tl.sum(dy_tile, 0)
                dk = tl.dot(tl.trans(ds.to(q.dtype)), q, dk, input_precision="ieee")
        if dy_ptr is not None:
            tl.store(dy_ptr + bh * keys + j, dy, mask=j < keys)

    store_tile(head_of(dk_ptr, dk_stride, b, part), dk * scale, j, lane, dk_stride, keys, width)
    store_tile(head_of(dv_ptr, dv_stride, b, part), dv, j, lane_v, dv_stride, keys, width_v)


def tiles(major_minor, dtype, width, turned=False, heavy=False):
    """The tiles of (forward, backward) for a compute capability, None for the interpreter.

    width is the wider of q's and v's heads; turned, whether keys are turned inside; heavy, whether the variant reads a
    table or a number for each query. Of the tiles tried, the largest that spill no registers (`make kernel-report`).
    """
    if major_minor is None:
        return Tile(64, 64, 4, 1), Tile(64, 64, 4, 1)
    wide, half = width > 64, dtype != torch.float32
    if major_minor < (8, 0) or not half:  # no tensor cores: each thread holds whole rows
        forward = Tile(32, 16, 4 if half else 8, 1) if wide else Tile(32, 32, 8, 1)
        return forward, Tile(16, 16, 8, 1) if wide or (heavy and half) else Tile(32, 16, 8 if half else 4, 1)
    major = major_minor[0]
    forward = Tile(128, 32, 8, 2) if wide and major not in (9, 10) else Tile(128, 64, 8, 3)
    if turned:
        narrow = Tile(64, 32, 4, 2) if major in (9, 10) else Tile(32, 32, 4, 1)
        forward = Tile(64, 32, 8, 1) if wide else narrow
    if major == 9:
        backward = Tile(64, 64, 8, 1) if wide else Tile(128, 64, 8, 1)
    elif major == 10:
        backward = Tile(64, 64, 8, 2)
    else:
        backward = Tile(64, 64, 8, 1) if wide else Tile(64, 32, 8, 1)
    if heavy:
        backward = Tile(64, 64, 8, 1) if major == 10 and not wide else Tile(64, 32, 8, 1)
    return forward, backward


@torch.library.custom_op("posenc::softmax", mutates_args=())
def softmax(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, mask: torch.Tensor | None, pos_q: torch.Tensor | None,
    pos_k: torch.Tensor | None, inv_freq: torch.Tensor | None, a: torch.Tensor | None, table: torch.Tensor | None,
    x: torch.Tensor | None, y: torch.Tensor | None, first: int, scale: float, causal: bool, variant: str,
    tile: list[int],
) -> tuple[torch.Tensor, torch.Tensor]:
    """The forward kernel as an operator: (output [B, H, Tq, Dv], log2-sum-exp2 of the logits [B, H, Tq]).

    Positions are [parts, 1 or B, T]: from `in_parts`, or one part of int64 for a table.
    """
    check("softmax kernel", q, k, v, pos_q, pos_k, a, x, y, variant, table)
    out = rows_first(q, v.shape[3])
    lse = q.new_empty(q.shape[:3], dtype=torch.float32)
    if out.numel() == 0 or k.shape[2] == 0:
        return out.zero_(), lse.fill_(float("inf"))
    wider = max(q.shape[3], v.shape[3])
    cut = Tile(*tile) if tile else tiles(capability(q.device), q.dtype, wider, inv_freq is not None)[0]
    launch(
        forward_kernel, triton.cdiv(q.shape[2], cut.block_q), q.shape[0] * q.shape[1], cut,
        q_ptr=q, k_ptr=k, v_ptr=v, out_ptr=out, lse_ptr=lse, freq_ptr=inv_freq, a_ptr=a, x_ptr=x, y_ptr=y,
        out_stride=out.stride(), **table_arguments(table, first),
        pairs=0 if inv_freq is None else inv_freq.shape[0], scale=scale, SCORE=VARIANTS[variant].score, CAUSAL=causal,
        **launch_arguments(q, k, v, mask, pos_q, pos_k, variant, inv_freq is not None),
    )
    return out, lse


@softmax.register_fake
def _(q, k, v, mask, pos_q, pos_k, inv_freq, a, table, x, y, first, scale, causal, variant, tile):
    return rows_first(q, v.shape[3]), q.new_empty(q.shape[:3], dtype=torch.float32)


@torch.library.custom_op("posenc::softmax_backward", mutates_args=())
def softmax_backward(
    dout: torch.Tensor, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, out: torch.Tensor, lse: torch.Tensor,
    mask: torch.Tensor | None, pos_q: torch.Tensor | None, pos_k: torch.Tensor | None, a: torch.Tensor | None,
    table: torch.Tensor | None, x: torch.Tensor | None, y: torch.Tensor | None, first: int, scale: float, causal: bool,
    variant: str, tile: list[int],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The backward kernels as an operator: gradients of q, k, v, a, table, x, y (empty for what was not given)."""
    batch, heads, queries, _ = q.shape
    keys = k.shape[2]
    wider, heavy = max(q.shape[3], v.shape[3]), table is not None or x is not None
    cut = Tile(*tile) if tile else tiles(capability(q.device), q.dtype, wider, heavy=heavy)[1]
    blocks = triton.cdiv(queries, cut.block_q)
    float32 = dict(dtype=torch.float32, device=q.device)
    kv_heads, blocks_k = k.shape[1], triton.cdiv(keys, cut.block_k)
    share = share_of(heads // kv_heads, batch * kv_heads * blocks_k, q.device)
    parts = {} if share * kv_heads == heads else dict(dtype=torch.float32, heads=max(heads // share, kv_heads))
    dq, dk, dv = rows_first(q), rows_first(k, **parts), rows_first(v, **parts)
    da = torch.zeros(batch, heads, blocks if a is not None else 0, **float32)
    dtable, dx, dy = (torch.zeros(0 if t is None else t.shape, **float32) for t in (table, x, y))
    if q.numel() == 0 or k.numel() == 0:
        dq, dk, dv = dq.zero_(), dk.zero_(), dv.zero_()
    else:
        dot = torch.empty_like(lse)
        both = launch_arguments(q, k, v, mask, pos_q, pos_k, variant)
        both |= dict(q_ptr=q, k_ptr=k, v_ptr=v, dout_ptr=dout, x_ptr=x, y_ptr=y, dout_stride=dout.stride())
        both |= table_arguments(table, first)
        both |= dict(lse_ptr=lse, dot_ptr=dot, scale=scale, CAUSAL=causal)
        both |= dict(SCORE=VARIANTS[variant].score, GRAD=VARIANTS[variant].grad)
        launch(
            backward_q_kernel, blocks, batch * heads, cut, out_ptr=out, dq_ptr=dq, a_ptr=a,
            da_ptr=None if a is None else da, dx_ptr=None if x is None else dx, out_stride=out.stride(),
            dq_stride=dq.stride(), **both,
        )
        launch(
            backward_kv_kernel, blocks_k, batch * heads // share, cut, share=share, a_ptr=a, dk_ptr=dk, dv_ptr=dv,
            dy_ptr=None if y is None else dy, dk_stride=dk.stride(), dv_stride=dv.stride(), **both,
        )
        if table is not None:
            total, unit = torch.zeros(table.shape, dtype=torch.int64, device=q.device), unit_of(dout, v, dot)
            cut = cut._replace(block_k=min(cut.block_k, cut.block_q, 32))  # it holds two tiles more
            if (blocks := diagonals(queries, keys, cut, causal)) > 0:
                launch(backward_table_kernel, blocks, batch * heads, cut, total_ptr=total, unit_ptr=unit, **both)
            dtable = total.to(torch.float32) * unit[:, None]
    dk, dv = added(dk, k), added(dv, v)
    return dq, dk, dv, da.sum((0, 2)) if a is not None else da.new_empty(0), dtable, dx, dy


@softmax_backward.register_fake
def _(dout, q, k, v, out, lse, mask, pos_q, pos_k, a, table, x, y, first, scale, causal, variant, tile):
    def like(t):
        return torch.empty(0 if t is None else t.shape, dtype=torch.float32, device=q.device)

    return rows_first(q), rows_first(k), rows_first(v), like(a), like(table), like(x), like(y)


def _setup_context(ctx, inputs, output):
    *tensors, ctx.first, ctx.scale, ctx.causal, ctx.variant, ctx.tile = inputs
    ctx.save_for_backward(*tensors, *output)
    ctx.mark_non_differentiable(output[1])


def _backward(ctx, dout, _):
    q, k, v, mask, *at, inv_freq, a, table, x, y, out, lse = ctx.saved_tensors
    if inv_freq is not None:  # what was turned inside is turned once here, and its gradient turned back
        pos_q, pos_k = (p[0] for p in at)  # the first part is the position in float32, as angles are
        q, k = rotary(q, k, pos_q, pos_k, inv_freq, False, 1.0, 1.0, [])
    dq, dk, dv, *rest = softmax_backward(
        dout, q, k, v, out, lse, mask, *at, a, table, x, y,
        ctx.first, ctx.scale, ctx.causal, ctx.variant, ctx.tile,
    )
    if inv_freq is not None:
        dq, dk = rotary(dq, dk, pos_q, pos_k, inv_freq, False, 1.0, -1.0, [])
    given = (g if t is not None else None for g, t in zip(rest, (a, table, x, y)))
    return dq, dk, dv, None, None, None, None, *given, None, None, None, None, None


softmax.register_autograd(_backward, setup_context=_setup_context)


def attend(q, k, v, *, pos_q=None, pos_k=None, causal=True, mask=None, scale=1.0, variant="plain", a=None, table=None,
           first=0, x=None, y=None, inv_freq=None, tile=()):
    r"""Softmax attention by the kernels of this file.

    softmax over keys of score(scale * q.k, pos_q - pos_k, a or table, x, y), times v

    Arguments:
        q: [B, H, Tq, D]; k, v: [B, Hkv, Tk, D], [B, Hkv, Tk, Dv], Hkv divides H; float32, float16 or bfloat16, any
            strides.
        pos_q, pos_k: [T], [1, T] or [B, T] positions, for variants that read distances; integers for a table.
        causal: query i sees keys up to i + Tk - Tq.
        mask: bool, [Tq, Tk] or broadcastable to [B, 1, Tq, Tk]; True where a query may look.
        scale: factor on q.k.
        variant: a name in `posenc.kernels.variants.VARIANTS`; a [H], table [H, R], x [B, H, Tq], y [B, H, Tk] are
            what it reads.
        first: the offset pos_k - pos_q of the table's first entry; offsets beyond an end of the table read that end.
            The table's gradient is a third kernel backward: see `posenc.kernels.table.backward_table_kernel`.
        inv_freq: [D/2 or fewer] frequencies: pairs of neighboring lanes of q and k are turned inside the kernel. Every
            block of queries then turns every key it sees again; `posenc.kernels.rotary.rotate` turns each once. Angles
            are float32 here: at position 10^5 they are off by .007, at 10^6 by .06.
        tile: (block_q, block_k, num_warps, num_stages) in place of the tiles chosen for the device. The result depends
            on it by rounding only.
    Returns: [B, H, Tq, Dv]. Queries that see nothing get exact zeros. Differentiable in q, k, v, a, table, x, y,
        once and backward: no second derivatives, no forward mode.
    Errors: UnsupportedError for what the kernels don't serve, before any launch; ValueError naming another argument.
    Chapter: From formula to kernel.
    """
    check_attend("softmax kernel", q, k, v, pos_q, pos_k, causal, mask, scale, tile)
    if inv_freq is not None:
        check_tensor("inv_freq", inv_freq, "[D/2 or fewer]", ndim=1, floating=True)
        check_rotation("softmax kernel", q, k, pos_q, pos_k, inv_freq)
        if inv_freq.requires_grad:
            raise UnsupportedError(
                "softmax kernel: inv_freq asks for a gradient, which posenc.kernels.rotary.rotate gives"
            )
        inv_freq = inv_freq.to(q.device, torch.float32).contiguous()
    if table is not None:
        pos_q, pos_k, table = table_inputs(pos_q, pos_k, table, first)
    else:
        pos_q, pos_k = in_parts(pos_q, pos_k, variant, inv_freq is not None)
    return softmax(
        q, k, v, mask, pos_q, pos_k, inv_freq, a, table, x, y, first, float(scale), causal, variant, list(tile)
    )[0]
