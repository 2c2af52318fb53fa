r"""A bias read from a table by offset: every pair of a tile finds its entry, and every entry gathers from its pairs.

Many pairs of many programs share an entry, so its gradient is a sum that no program owns. The kernel here adds to it
atomically, in whole numbers: integers give the same sum in any order, so the same inputs still give the same bits. It
sums first what it can, so that few additions meet.
"""

import torch

from ..errors import check_int, check_tensor
from ..positions import whole
from .common import LOG2E, column, distances, head_of, heaviest_first, load_tile, position, row, seen
from .needs import tl, triton

# A kernel's arguments are read in groups, as they were written.
# fmt: off


@triton.jit
def places(q_ptr, k_ptr, b, i, j, q_stride, k_stride, queries, keys, first_offset, entries):
    """Which entry of the table each pair reads, [Q, K]: that of the offset pos_k[j] - pos_q[i], held to its ends."""
    pos_q = position(q_ptr, q_stride, b, i, queries, 0)
    pos_k = position(k_ptr, k_stride, b, j, keys, 0)
    place = pos_k[None, :] - pos_q[:, None] - first_offset
    return tl.minimum(tl.maximum(place, 0), entries - 1).to(tl.int32)


@triton.jit
def read(
    table_ptr, a, h, b, i, j, pos_q_ptr, pos_k_ptr, pos_q_stride, pos_k_stride, queries, keys, first_offset,
    entries,
):
    """What a variant reads as `a`: the table's entries for a tile, [Q, K], or the head's number where there is none."""
    if table_ptr is None:
        value = a
    else:
        place = places(pos_q_ptr, pos_k_ptr, b, i, j, pos_q_stride, pos_k_stride, queries, keys, first_offset, entries)
        value = tl.load(table_ptr + h * entries + place)
    return value


@triton.jit
def add_counts(total_ptr, acc, place, per_unit, entries):
    """Add a tile of gradients [Q, K] to the entries that its pairs read: a number each, and one for each end."""
    at_low, within = place == 0, (place > 0) & (place < entries - 1)
    count = (acc * per_unit).to(tl.int64)
    tl.atomic_add(total_ptr + place, count, mask=within & (count != 0), sem="relaxed")
    low = tl.sum(tl.sum(tl.where(at_low, acc, 0.0), 1), 0)
    high = tl.sum(tl.sum(tl.where(at_low | within, 0.0, acc), 1), 0)
    tl.atomic_add(total_ptr, (low * per_unit).to(tl.int64), sem="relaxed")
    tl.atomic_add(total_ptr + entries - 1, (high * per_unit).to(tl.int64), sem="relaxed")


@triton.jit
def backward_table_kernel(
    q_ptr, k_ptr, v_ptr, dout_ptr, lse_ptr, dot_ptr, total_ptr, unit_ptr,
    mask_ptr, pos_q_ptr, pos_k_ptr, table_ptr, x_ptr, y_ptr,
    q_stride, k_stride, v_stride, dout_stride, mask_stride, pos_q_stride, pos_k_stride,
    blocks, heads, groups, queries, keys, width, width_v, first_offset, entries, scale,
    SCORE: tl.constexpr, GRAD: tl.constexpr, DELTA: tl.constexpr, CAUSAL: tl.constexpr,
    BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, LANES: tl.constexpr, LANES_V: tl.constexpr,
):
    """One program: what one diagonal of tiles of one head adds to the gradient of the head's table.

    total [H, R] counts in units of which int64 can hold the sum. Where positions count on by one, the tiles of a
    diagonal read the same entries with the same pairs, so they are summed pair by pair in float32 and added once, at
    the end; where positions leap, what was summed is added first. Any positions do. The cost: scores and gradients of
    the weights are computed once more, two products a tile.
    """
    diagonal, bh = heaviest_first(blocks)
    b, h = bh // heads, bh % heads
    q_ptr = head_of(q_ptr, q_stride, b, h)
    k_ptr = head_of(k_ptr, k_stride, b, h // groups)
    v_ptr = head_of(v_ptr, v_stride, b, h // groups)
    dout_ptr = head_of(dout_ptr, dout_stride, b, h)
    table_ptr += h * entries
    total_ptr += h * entries
    per_unit = 1 / tl.load(unit_ptr + h)  # a power of two, so that nothing is rounded twice

    each: tl.constexpr = BLOCK_Q // BLOCK_K  # blocks of keys that a block of queries is as long as
    blocks_q, blocks_k = (queries + BLOCK_Q - 1) // BLOCK_Q, (keys + BLOCK_K - 1) // BLOCK_K
    ahead = diagonal - (blocks_q - 1) * each  # the block of keys beside the first block of queries
    first = (tl.maximum(-ahead, 0) + each - 1) // each
    last = tl.minimum(blocks_q, (blocks_k - ahead + each - 1) // each)
    lane, lane_v = tl.arange(0, LANES), tl.arange(0, LANES_V)
    acc = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
    held = tl.full([BLOCK_Q, BLOCK_K], 0, tl.int32)  # the entries that acc belongs to
    for n in range(first, last):
        i = n * BLOCK_Q + tl.arange(0, BLOCK_Q)
        j = (n * each + ahead) * BLOCK_K + tl.arange(0, BLOCK_K)
        q = load_tile(q_ptr, i, lane, q_stride, queries, width)
        k = load_tile(k_ptr, j, lane, k_stride, keys, width)
        v = load_tile(v_ptr, j, lane_v, v_stride, keys, width_v)
        dout = load_tile(dout_ptr, i, lane_v, dout_stride, queries, width_v)
        lse = tl.load(lse_ptr + bh * queries + i, mask=i < queries, other=float("inf"))
        dot = tl.load(dot_ptr + bh * queries + i, mask=i < queries, other=0.0)
        s = tl.dot(q, tl.trans(k), input_precision="ieee") * scale
        delta = distances(pos_q_ptr, pos_k_ptr, b, i, j, pos_q_stride, pos_k_stride, queries, keys, DELTA)
        place = places(
            pos_q_ptr, pos_k_ptr, b, i, j, pos_q_stride, pos_k_stride, queries, keys, first_offset, entries
        )
        a, x, y = tl.load(table_ptr + place), column(x_ptr, bh, i, queries), row(y_ptr, bh, j, keys)
        p = tl.exp2(SCORE(s, delta, a, x, y) * LOG2E - lse[:, None])
        p = tl.where(seen(i, j, b, queries, keys, mask_ptr, mask_stride, CAUSAL, False), p, 0.0)
        d = p * (tl.dot(dout, tl.trans(v), input_precision="ieee") - dot[:, None])
        _, da, _, _ = GRAD(d, s, delta, a, x, y)
        if tl.max(tl.max((place != held).to(tl.int32), 1), 0) > 0:
            add_counts(total_ptr, acc, held, per_unit, entries)
            acc = tl.zeros([BLOCK_Q, BLOCK_K], tl.float32)
            held = place
        acc += da
    add_counts(total_ptr, acc, held, per_unit, entries)


def diagonals(queries, keys, cut, causal):
    """How many diagonals of tiles hold a pair that may be seen; a block of queries is whole blocks of keys long."""
    each = cut.block_q // cut.block_k
    blocks_q, blocks_k = triton.cdiv(queries, cut.block_q), triton.cdiv(keys, cut.block_k)
    if causal:
        blocks_k = min(blocks_k, (cut.block_q - 1 + keys - queries) // cut.block_k + 1)
    return (blocks_q - 1) * each + blocks_k


def unit_of(dout, v, dot):
    r"""The unit of each head, [H], in which `backward_table_kernel` counts; not finite where a gradient isn't.

    Over the keys of a query i, |d logit| sums to at most 2 |dout_i| max |v|, so that all queries together stay below
    2^62 units. A power of two: dividing by it rounds nothing.
    """
    norm = torch.linalg.vector_norm
    values = norm(v, dim=-1, dtype=torch.float32).amax((0, 2)).repeat_interleave(dout.shape[1] // v.shape[1])
    most = norm(dout, dim=-1, dtype=torch.float32).sum((0, 2)) * values
    most = (most + 0.0 * dot.sum((0, 2))).clamp(min=1e-18)
    return torch.exp2(torch.ceil(torch.log2(most)) - 60)


def table_inputs(pos_q, pos_k, table, first):
    """Check what `attend` gets for a table; return positions as int64 [1, 1 or B, T], the table contiguous."""
    check_tensor("table", table, "[H, R]", ndim=2, floating=True)
    check_int("first", first, minimum=-(2**62))
    given = (("pos_q", pos_q), ("pos_k", pos_k))
    pos_q, pos_k = (None if p is None else whole(name, p).view(1, -1, p.shape[-1]) for name, p in given)
    return pos_q, pos_k, table.contiguous()


def table_arguments(table, first):
    """What the kernels of the softmax are told of a table."""
    return dict(table_ptr=table, first_offset=first, entries=0 if table is None else table.shape[1])
