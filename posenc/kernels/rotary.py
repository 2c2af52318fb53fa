r"""Rotary position embedding: q and k turned in one launch, and turned back in the backward.

One kernel for positions on a line (RoPE) and on several axes (2D-RoPE, M-RoPE): the angle of a pair of lanes is summed
over the axes, and frequencies may be learned. A vector may grow on the way, by a gain of its position and by a factor
of each lane: ExpoSB's, in the same launch.
"""

import torch

from ..errors import UnsupportedError, check_choice, check_number, check_tensor
from .common import (
    Tile,
    capability,
    check_here,
    check_positions_of,
    check_tile,
    head_of,
    launch,
    load_tile,
    long,
    rows_first,
    store_tile,
)
from .needs import tl, triton

LAYOUTS = ("interleaved", "half")

# A kernel's arguments are read in groups, as they were written.
# fmt: off


@triton.jit
def of_head(ptr, h):
    """A number of the head h, or 1.0 where none is given."""
    return 1.0 if ptr is None else tl.load(ptr + h)


@triton.jit
def of_lanes(ptr, lane, width):
    """The factors of the lanes, [1, L], or 1.0 where none are given."""
    return 1.0 if ptr is None else tl.load(ptr + lane, mask=lane < width, other=0.0)[None, :]


@triton.jit
def coordinate(pos_ptr, pos_stride, b, t, a, there):
    """Where the tokens t stand along axis a, [T] float64; 0 for those that are not `there`."""
    at = long(b) * pos_stride[0] + long(t) * pos_stride[1] + long(a) * pos_stride[2]
    return tl.load(pos_ptr + at, mask=there, other=0).to(tl.float64)


@triton.jit
def placed(pos_ptr, pos_stride, b, t, length, AXES: tl.constexpr):
    """Which of the tokens t are there and have a place, [T]; with axes, one with NaN for a coordinate has none."""
    there = t < length
    with_place = there
    for a in tl.static_range(AXES):
        along = coordinate(pos_ptr, pos_stride, b, t, a, there)
        with_place &= along == along
    return with_place


@triton.jit
def angles(pos_ptr, freq_ptr, pos_stride, b, h, t, pair, there, pairs, AXES: tl.constexpr):
    """The sum over the axes of coordinate times frequency, [T, P], float64, less whole turns, which float32 holds."""
    rows: tl.constexpr = AXES if AXES else 1  # AXES is 0 where positions are numbers; frequencies are [H or 1, rows, P]
    inside = pair < pairs
    freq_ptr += long(h) * rows * pairs + pair
    angle = coordinate(pos_ptr, pos_stride, b, t, 0, there)[:, None] * tl.load(freq_ptr, inside, 0.0)[None, :]
    for a in tl.static_range(1, AXES):
        freq = tl.load(freq_ptr + long(a) * pairs, inside, 0.0)
        angle += coordinate(pos_ptr, pos_stride, b, t, a, there)[:, None] * freq[None, :]
    turns = tl.floor(angle * tl.full([], 0.15915494309189535, tl.float64) + 0.5)  # a plain number would be float32
    return (angle - turns * tl.full([], 6.283185307179586, tl.float64)).to(tl.float32)


@triton.jit
def store_dfreq(dfreq_ptr, dangle, pos_ptr, pos_stride, at, b, t, pair, there, pairs, AXES: tl.constexpr):
    """Write what a block of tokens adds to the gradient of a head's frequencies, from that of the angles [T, P]."""
    rows: tl.constexpr = AXES if AXES else 1
    for a in tl.static_range(rows):
        along = coordinate(pos_ptr, pos_stride, b, t, a, there).to(tl.float32)
        tl.store(dfreq_ptr + (at * rows + a) * pairs + pair, tl.sum(along[:, None] * dangle, 0), mask=pair < pairs)


@triton.jit
def turn(
    x_ptr, out_ptr, pos_ptr, freq_ptr, rate_ptr, weight_ptr, band_ptr, before_ptr, drate_ptr, dweight_ptr, dfreq_ptr,
    x_stride, out_stride, pos_stride, before_stride,
    b, first_head, heads, slots, block, length, place, places, pairs, width, factor, sign, boost,
    AXES: tl.constexpr, OWN: tl.constexpr, HALF: tl.constexpr, HEADS: tl.constexpr, BLOCK_T: tl.constexpr,
    PAIRS: tl.constexpr, REST: tl.constexpr,
):
    """Turn one block of tokens of up to HEADS heads: the angles are computed once and serve all, or each has its OWN.

    Forward, x is turned and then multiplied: by 1 + boost exp(-rate m) at position m, the head's weight and the band's
    factor of each lane. With `before`, which forward was turned, x is the gradient of what came out, and sign -1: it
    is multiplied by the band, then turned back. Its product with `before`, summed over the lanes, is what the other
    factors need, and with `before` turned by a right angle, pair by pair, what the frequencies need: each program
    writes one number for each head's rate and weight, and one for each head, axis and pair.
    """
    t = block * BLOCK_T + tl.arange(0, BLOCK_T)
    pair = tl.arange(0, PAIRS)
    there = placed(pos_ptr, pos_stride, b, t, length, AXES)
    pos = coordinate(pos_ptr, pos_stride, b, t, 0, there).to(tl.float32)
    if not OWN:
        angle = angles(pos_ptr, freq_ptr, pos_stride, b, 0, t, pair, there, pairs, AXES)  # [T, P]
        cos, sin = factor * tl.cos(angle), factor * sign * tl.sin(angle)
    start = 0 if HEADS == 1 else first_head  # the compiler unrolls a loop from 0 to 1
    end = 1 if HEADS == 1 else tl.minimum(first_head + HEADS, heads)
    for n in range(start, end):
        h = first_head + n if HEADS == 1 else n
        x, out = head_of(x_ptr, x_stride, b, h), head_of(out_ptr, out_stride, b, h)
        before = None if before_ptr is None else head_of(before_ptr, before_stride, b, h)
        if OWN:
            angle = angles(pos_ptr, freq_ptr, pos_stride, b, h, t, pair, there, pairs, AXES)
            cos, sin = factor * tl.cos(angle), factor * sign * tl.sin(angle)
        weight = of_head(weight_ptr, h)
        extra = 0.0 if rate_ptr is None else boost * tl.exp(-of_head(rate_ptr, h) * pos[:, None])  # [T, 1]
        much = weight * (1.0 + extra)
        inner = tl.zeros([BLOCK_T, 1], tl.float32)
        if HALF:
            second = long(pairs)  # how many lanes on the other half begins
            one = load_tile(x, t, pair, x_stride, length, pairs).to(tl.float32)
            two = load_tile(x + second * x_stride[3], t, pair, x_stride, length, pairs).to(tl.float32)
            band_one, band_two = of_lanes(band_ptr, pair, pairs), of_lanes(band_ptr, pairs + pair, 2 * pairs)
            if before_ptr is not None:
                one, two = one * band_one, two * band_two
            one, two = one * cos - two * sin, one * sin + two * cos
            if before_ptr is None:
                one, two = one * band_one, two * band_two
            else:
                x_one = load_tile(before, t, pair, before_stride, length, pairs)
                x_two = load_tile(before + second * before_stride[3], t, pair, before_stride, length, pairs)
                inner += tl.sum(one * x_one + two * x_two, 1)[:, None]
            store_tile(out, one * much, t, pair, out_stride, length, pairs)
            store_tile(out + second * out_stride[3], two * much, t, pair, out_stride, length, pairs)
        else:  # neighbors are read and written together, which keeps the memory accesses side by side
            lane = tl.arange(0, 2 * PAIRS)
            both = load_tile(x, t, lane, x_stride, length, 2 * pairs).to(tl.float32)
            band = of_lanes(band_ptr, lane, 2 * pairs)
            if before_ptr is not None:
                both = both * band
            one, two = tl.split(tl.reshape(both, [BLOCK_T, PAIRS, 2]))
            one, two = one * cos - two * sin, one * sin + two * cos
            both = tl.reshape(tl.join(one, two), [BLOCK_T, 2 * PAIRS])
            if before_ptr is None:
                both = both * band
            else:
                x_both = load_tile(before, t, lane, before_stride, length, 2 * pairs)
                inner += tl.sum(both * x_both, 1)[:, None]
                x_one, x_two = tl.split(tl.reshape(x_both, [BLOCK_T, PAIRS, 2]))
            store_tile(out, both * much, t, lane, out_stride, length, 2 * pairs)
        if REST:  # lanes that don't turn
            lane = 2 * pairs + tl.arange(0, REST)
            rest = load_tile(x, t, lane, x_stride, length, width).to(tl.float32) * of_lanes(band_ptr, lane, width)
            if before_ptr is not None:
                inner += tl.sum(rest * load_tile(before, t, lane, before_stride, length, width), 1)[:, None]
            store_tile(out, rest * much, t, lane, out_stride, length, width)
        at = (long(b) * slots + h) * places + place
        if drate_ptr is not None:
            tl.store(drate_ptr + at, tl.sum(-weight * pos[:, None] * extra * inner))
        if dweight_ptr is not None:
            tl.store(dweight_ptr + at, tl.sum((1.0 + extra) * inner))
        if dfreq_ptr is not None:
            dangle = (two * x_one - one * x_two) * much  # [T, P]
            store_dfreq(dfreq_ptr, dangle, pos_ptr, pos_stride, at, b, t, pair, there, pairs, AXES)


@triton.jit
def rotary_kernel(
    q_ptr, k_ptr, q_out_ptr, k_out_ptr, pos_q_ptr, pos_k_ptr, freq_ptr, rate_ptr, weight_ptr, band_ptr,
    q_stride, k_stride, q_out_stride, k_out_stride, pos_q_stride, pos_k_stride,
    blocks, chunks, heads, kv_heads, queries, keys, pairs, width, factor, sign, boost,
    AXES: tl.constexpr, OWN: tl.constexpr, HALF: tl.constexpr, HEADS: tl.constexpr, BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr, PAIRS: tl.constexpr, REST: tl.constexpr,
):
    """One program: a block of tokens of a few heads; the first programs take q, the others k. sign -1 turns back."""
    block, chunk = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    first_head, b = chunk % chunks * HEADS, (chunk // chunks).to(tl.int64)
    q_blocks = (queries + BLOCK_Q - 1) // BLOCK_Q
    if block < q_blocks:
        if first_head < heads:
            turn(
                q_ptr, q_out_ptr, pos_q_ptr, freq_ptr, rate_ptr, weight_ptr, band_ptr, None, None, None, None,
                q_stride, q_out_stride, pos_q_stride, None,
                b, first_head, heads, heads, block, queries, block, blocks, pairs, width, factor, sign, boost,
                AXES, OWN, HALF, HEADS, BLOCK_Q, PAIRS, REST,
            )
    else:
        if first_head < kv_heads:
            turn(
                k_ptr, k_out_ptr, pos_k_ptr, freq_ptr, rate_ptr, weight_ptr, band_ptr, None, None, None, None,
                k_stride, k_out_stride, pos_k_stride, None,
                b, first_head, kv_heads, kv_heads, block - q_blocks, keys, block, blocks, pairs, width, factor, sign,
                boost,
                AXES, OWN, HALF, HEADS, BLOCK_K, PAIRS, REST,
            )


@triton.jit
def rotary_backward_kernel(
    q_ptr, k_ptr, dout_q_ptr, dout_k_ptr, dq_ptr, dk_ptr, pos_q_ptr, pos_k_ptr, freq_ptr, rate_ptr, weight_ptr,
    band_ptr, drate_ptr, dweight_ptr, dfreq_ptr,
    q_stride, k_stride, dout_q_stride, dout_k_stride, dq_stride, dk_stride, pos_q_stride, pos_k_stride,
    blocks, chunks, heads, kv_heads, queries, keys, pairs, width, factor, boost,
    AXES: tl.constexpr, OWN: tl.constexpr, HALF: tl.constexpr, HEADS: tl.constexpr, BLOCK_Q: tl.constexpr,
    BLOCK_K: tl.constexpr, PAIRS: tl.constexpr, REST: tl.constexpr,
):
    """The programs of `rotary_kernel` backward, where there are factors: gradients of q, k, and sums for the others."""
    block, chunk = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    first_head, b = chunk % chunks * HEADS, (chunk // chunks).to(tl.int64)
    slots = tl.maximum(heads, kv_heads)
    q_blocks = (queries + BLOCK_Q - 1) // BLOCK_Q
    if block < q_blocks:
        turn(
            dout_q_ptr, dq_ptr, pos_q_ptr, freq_ptr, rate_ptr, weight_ptr, band_ptr, q_ptr, drate_ptr, dweight_ptr,
            dfreq_ptr,
            dout_q_stride, dq_stride, pos_q_stride, q_stride,
            b, first_head, heads, slots, block, queries, block, blocks, pairs, width, factor, -1.0, boost,
            AXES, OWN, HALF, HEADS, BLOCK_Q, PAIRS, REST,
        )
    else:
        turn(
            dout_k_ptr, dk_ptr, pos_k_ptr, freq_ptr, rate_ptr, weight_ptr, band_ptr, k_ptr, drate_ptr, dweight_ptr,
            dfreq_ptr,
            dout_k_stride, dk_stride, pos_k_stride, k_stride,
            b, first_head, kv_heads, slots, block - q_blocks, keys, block, blocks, pairs, width, factor, -1.0, boost,
            AXES, OWN, HALF, HEADS, BLOCK_K, PAIRS, REST,
        )


def tiles(major_minor, width):
    """Tokens a block (block_q for q, block_k for k), for a compute capability, None for the interpreter."""
    tokens = 64 if major_minor is None else 32 if width <= 64 else 16  # so that a thread moves 16 bytes at a time
    return Tile(tokens, tokens, tokens // 4, 1)


def _grid(q, k, pos_q, pos_k, inv_freq, half, factor, tile):
    """How both kernels are cut, and what they are told besides their own tensors: (blocks, times, cut, arguments)."""
    batch, heads, queries, width = q.shape
    kv_heads, keys = k.shape[1:3]
    pairs, axes = inv_freq.shape[-1], 0 if inv_freq.ndim == 1 else inv_freq.shape[-2]
    cut = Tile(*tile) if tile else tiles(capability(q.device), width)
    own = inv_freq.ndim == 3
    several = 1 if own else min(8, max(heads, kv_heads))  # heads a program: more than one where they share angles
    chunks = triton.cdiv(max(heads, kv_heads), several)
    if not axes:  # a number is read as one coordinate
        pos_q, pos_k = pos_q[..., None], pos_k[..., None]
    pos_q, pos_k = pos_q.expand(batch, queries, axes or 1), pos_k.expand(batch, keys, axes or 1)
    blocks = triton.cdiv(queries, cut.block_q) + triton.cdiv(keys, cut.block_k)
    return blocks, chunks * batch, cut, dict(
        q_ptr=q, k_ptr=k, pos_q_ptr=pos_q, pos_k_ptr=pos_k, freq_ptr=inv_freq, q_stride=q.stride(),
        k_stride=k.stride(), pos_q_stride=pos_q.stride(), pos_k_stride=pos_k.stride(), chunks=chunks, heads=heads,
        kv_heads=kv_heads, queries=queries, keys=keys, pairs=pairs, width=width, factor=factor, AXES=axes,
        OWN=own, HALF=half, HEADS=several, PAIRS=triton.next_power_of_2(pairs),
        REST=triton.next_power_of_2(width - 2 * pairs) if width > 2 * pairs else 0,
    )


def _forward(q, k, pos_q, pos_k, inv_freq, half, factor, sign, tile, rates=None, boost=0.0, weights=None, band=None):
    q_out, k_out = rows_first(q), rows_first(k)
    if q.numel() + k.numel() > 0:
        *cut, arguments = _grid(q, k, pos_q, pos_k, inv_freq, half, factor, tile)
        launch(
            rotary_kernel, *cut, q_out_ptr=q_out, k_out_ptr=k_out, q_out_stride=q_out.stride(),
            k_out_stride=k_out.stride(), rate_ptr=rates, weight_ptr=weights, band_ptr=band, sign=sign, boost=boost,
            **arguments,
        )
    return q_out, k_out


@torch.library.custom_op("posenc::rotary", mutates_args=())
def rotary(
    q: torch.Tensor, k: torch.Tensor, pos_q: torch.Tensor, pos_k: torch.Tensor, inv_freq: torch.Tensor, half: bool,
    factor: float, sign: float, tile: list[int],
) -> tuple[torch.Tensor, torch.Tensor]:
    """The kernel as an operator: q and k turned; sign -1 turns back."""
    check("rotary kernel", q, k, pos_q, pos_k, inv_freq)
    return _forward(q, k, pos_q, pos_k, inv_freq, half, factor, sign, tile)


@rotary.register_fake
def _(q, k, pos_q, pos_k, inv_freq, half, factor, sign, tile):
    return rows_first(q), rows_first(k)


def _setup_context(ctx, inputs, output):
    _, _, pos_q, pos_k, inv_freq, ctx.half, ctx.factor, ctx.sign, ctx.tile = inputs
    ctx.save_for_backward(pos_q, pos_k, inv_freq)


def _backward(ctx, dq, dk):
    # A rotation is orthogonal: its gradient is the rotation back, R(m)^T = R(-m), with the same factor.
    dq, dk = rotary(dq, dk, *ctx.saved_tensors, ctx.half, ctx.factor, -ctx.sign, ctx.tile)
    return dq, dk, None, None, None, None, None, None, None


rotary.register_autograd(_backward, setup_context=_setup_context)


@torch.library.custom_op("posenc::gained_rotary", mutates_args=())
def gained_rotary(
    q: torch.Tensor, k: torch.Tensor, pos_q: torch.Tensor, pos_k: torch.Tensor, inv_freq: torch.Tensor,
    rates: torch.Tensor | None, weights: torch.Tensor | None, band: torch.Tensor | None, boost: float, half: bool,
    factor: float, tile: list[int],
) -> tuple[torch.Tensor, torch.Tensor]:
    """The kernel with factors or learned frequencies as an operator: q and k turned and multiplied in one launch."""
    check("rotary kernel", q, k, pos_q, pos_k, inv_freq)
    check_factors("rotary kernel", q, k, inv_freq, rates, weights, band)
    return _forward(q, k, pos_q, pos_k, inv_freq, half, factor, 1.0, tile, rates, boost, weights, band)


@gained_rotary.register_fake
def _(q, k, pos_q, pos_k, inv_freq, rates, weights, band, boost, half, factor, tile):
    return rows_first(q), rows_first(k)


@torch.library.custom_op("posenc::gained_rotary_backward", mutates_args=())
def gained_rotary_backward(
    dout_q: torch.Tensor, dout_k: torch.Tensor, q: torch.Tensor, k: torch.Tensor, pos_q: torch.Tensor,
    pos_k: torch.Tensor, inv_freq: torch.Tensor, rates: torch.Tensor | None, weights: torch.Tensor | None,
    band: torch.Tensor | None, learned: bool, boost: float, half: bool, factor: float, tile: list[int],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The backward kernel as an operator: gradients of q, k, rates, weights and, where `learned`, the frequencies.

    Empty tensors stand for what was not given or is not asked for.
    """
    dq, dk = rows_first(q), rows_first(k)
    blocks, times, cut, arguments = _grid(q, k, pos_q, pos_k, inv_freq, half, factor, tile)
    slots = (q.shape[0], max(q.shape[1], k.shape[1]), blocks)  # each program writes for its heads what is summed here
    new = torch.empty if q.shape[1] == k.shape[1] else torch.zeros  # a head that one of both lacks is written by no one
    drates, dweights, dfreqs = (
        new(*slots, *shape, dtype=torch.float32, device=q.device) if wanted else None
        for wanted, shape in ((rates is not None, ()), (weights is not None, ()), (learned, inv_freq.shape[-2:]))
    )
    if q.numel() + k.numel() > 0:
        launch(
            rotary_backward_kernel, blocks, times, cut, dout_q_ptr=dout_q, dout_k_ptr=dout_k, dq_ptr=dq, dk_ptr=dk,
            dout_q_stride=dout_q.stride(), dout_k_stride=dout_k.stride(), dq_stride=dq.stride(),
            dk_stride=dk.stride(), rate_ptr=rates, weight_ptr=weights, band_ptr=band, drate_ptr=drates,
            dweight_ptr=dweights, dfreq_ptr=dfreqs, boost=boost, **arguments,
        )
    none = torch.empty(0, dtype=torch.float32, device=q.device)
    drates, dweights, dfreqs = (none.clone() if x is None else x.sum((0, 2)) for x in (drates, dweights, dfreqs))
    return dq, dk, drates, dweights, dfreqs.sum(0) if learned and inv_freq.ndim < 3 else dfreqs


@gained_rotary_backward.register_fake
def _(dout_q, dout_k, q, k, pos_q, pos_k, inv_freq, rates, weights, band, learned, boost, half, factor, tile):
    wanted = (rates, weights, inv_freq if learned else None)
    like = (torch.empty(0 if x is None else x.shape, dtype=torch.float32, device=q.device) for x in wanted)
    return rows_first(q), rows_first(k), *like


def _setup_gained(ctx, inputs, output):
    *tensors, ctx.boost, ctx.half, ctx.factor, ctx.tile = inputs
    ctx.save_for_backward(*tensors)


def _gained_backward(ctx, dq, dk):
    learned, (rates, weights) = ctx.needs_input_grad[4], ctx.saved_tensors[5:7]
    dq, dk, drates, dweights, dfreqs = gained_rotary_backward(
        dq, dk, *ctx.saved_tensors, learned, ctx.boost, ctx.half, ctx.factor, ctx.tile
    )
    given = (None if x is None else g for x, g in ((rates, drates), (weights, dweights)))
    return dq, dk, None, None, dfreqs if learned else None, *given, None, None, None, None, None


gained_rotary.register_autograd(_gained_backward, setup_context=_setup_gained)


def check(op, q, k, pos_q, pos_k, inv_freq):
    """Raise before any launch what the kernel doesn't serve, naming the argument."""
    for name, x in (("q", q), ("k", k)):
        check_tensor(name, x, "[B, H, T, D]", ndim=4, floating=True)
        if x.dtype != q.dtype or x.device != q.device:
            raise ValueError(f"{name} is {x.dtype} on {x.device}, it must be as q: {q.dtype} on {q.device}")
    if k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3]:
        raise ValueError(f"k must share B and D with q {list(q.shape)}, got {list(k.shape)}")
    check_tensor("inv_freq", inv_freq, "[p/2], [n, p/2] or [H, n, p/2]", floating=True)
    if not 1 <= inv_freq.ndim <= 3 or 0 in inv_freq.shape:
        raise ValueError(f"inv_freq must be [p/2], [n, p/2] or [H, n, p/2], got {list(inv_freq.shape)}")
    if inv_freq.shape[-1] > q.shape[3] // 2:
        raise ValueError(f"inv_freq turns {2 * inv_freq.shape[-1]} lanes, q has {q.shape[3]}")
    for name, x in (("q", q), ("k", k)):
        if inv_freq.ndim == 3 and x.shape[1] != inv_freq.shape[0]:
            remedy = ": repeat its heads" if name == "k" else ""
            raise ValueError(f"inv_freq has frequencies for {inv_freq.shape[0]} heads, {name} has {x.shape[1]}{remedy}")
    check_here(op, q)
    axes = None if inv_freq.ndim == 1 else inv_freq.shape[-2]
    for name, positions, x in (("pos_q", pos_q, q), ("pos_k", pos_k, k)):
        check_positions_of(op, name, positions, x, axes)


def check_factors(op, q, k, inv_freq, rates, weights, band):
    """Raise before any launch where a factor does not fit q and k, naming the argument."""
    shapes = (("rates", rates, "[H]", q.shape[1]), ("weights", weights, "[H]", q.shape[1]))
    for name, x, words, size in (*shapes, ("band", band, "[D]", q.shape[3])):
        if x is None:
            continue
        check_tensor(name, x, words)
        if tuple(x.shape) != (size,) or x.dtype != torch.float32 or x.device != q.device or not x.is_contiguous():
            wanted, got = f"on {q.device}, of shape {words} = {[size]}", f"{x.dtype} {list(x.shape)} on {x.device}"
            raise ValueError(f"{name} must be float32, contiguous, {wanted}, got {got}")
    if (rates is not None or weights is not None) and k.shape[1] != q.shape[1]:
        raise ValueError(
            f"k has {k.shape[1]} heads, with rates or weights it must have the {q.shape[1]} of q: repeat its heads"
        )
    if rates is not None and inv_freq.ndim > 1:
        raise UnsupportedError(
            f"{op}: rates make a gain of a position that is a number, inv_freq {list(inv_freq.shape)} has axes"
        )
    if band is not None and band.requires_grad:
        raise UnsupportedError(f"{op}: band asks for a gradient, which only impl='torch' gives")


def rotate(
    q, k, pos_q, pos_k, inv_freq, layout="interleaved", attention_factor=1.0, tile=(), *, rates=None, boost=0.0,
    weights=None, band=None,
):
    r"""Turn q and k by their positions in one launch, out of place; with factors, multiply them there too.

    (a, b) -> factor * (a cos(angle_i) - b sin(angle_i), a sin(angle_i) + b cos(angle_i)),  angle_i = sum_a m_a w_(a,i)
    then lane d of head h -> (1 + boost exp(-rates_h m)) weights_h band_d times it

    Arguments:
        q: [B, H, Tq, D]; k: [B, Hkv, Tk, D]; float32, float16 or bfloat16, any strides.
        pos_q, pos_k: integers or floats. [T], [1, T] or [B, T] in tokens beside inv_freq [p/2]; with n axes [T, n],
            [1, T, n] or [B, T, n] in steps of each, where NaN in any coordinate leaves the token unturned.
        inv_freq: [p/2], or for n axes [n, p/2] or [H, n, p/2] (each head its own, q and k have H), with p <= D, in
            radians per token or step; the first p lanes turn, the rest pass. It may be learned.
        layout: "interleaved" pairs lanes (2i, 2i+1), "half" pairs (i, i + p/2).
        attention_factor: factor on cos and sin.
        tile: (tokens of q a block, tokens of k a block, num_warps, num_stages) in place of the chosen ones.
        rates: [H] float32, per token; None for no gain; not with axes. boost: the extra at position 0.
        weights: [H] float32, a factor of each head; None for none. Rates and weights want as many heads of k as of q.
        band: [D] float32, a factor of each lane, those that don't turn too; None for none.
    Returns: (q, k) turned, of their shapes and dtype, rounded once. Angles are float64, less whole turns float32, as
        factors are. Differentiable in q, k, inv_freq, rates and weights, backward only: the gradient is turned back.
        Without factors and learned frequencies nothing is saved for it, with them q and k are.
    Paper: arXiv 2104.09864, equation 34; arXiv 2403.13298, section 3.2, for axes. Chapter: From formula to kernel.
    """
    check_choice("layout", layout, LAYOUTS)
    check_number("attention_factor", attention_factor, above=0)
    check("rotary kernel", q, k, pos_q, pos_k, inv_freq)
    check_tile(tile)
    inv_freq = inv_freq.to(q.device, torch.float64).contiguous()
    half, factor = layout == "half", float(attention_factor)
    if rates is None and weights is None and band is None and not inv_freq.requires_grad:
        return rotary(q, k, pos_q, pos_k, inv_freq, half, factor, 1.0, list(tile))
    check_number("boost", boost)
    check_factors("rotary kernel", q, k, inv_freq, rates, weights, band)
    return gained_rotary(
        q, k, pos_q, pos_k, inv_freq, rates, weights, band, float(boost), half, factor, list(tile)
    )
