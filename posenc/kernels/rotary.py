r"""Rotary position embedding: q and k turned in one launch, and turned back in the backward.

A vector may grow on the way, by a gain of its position and by a factor of each lane: ExpoSB's, in the same launch.
"""

import torch
import triton
import triton.language as tl

from ..errors import UnsupportedError, check_choice, check_number, check_tensor
from .common import (
    Tile,
    as_positions,
    capability,
    check_here,
    check_positions_of,
    check_tile,
    launch,
    load_tile,
    rows_first,
    store_tile,
)

LAYOUTS = ("interleaved", "half")

# A kernel's arguments are read in groups, as they were written.
# fmt: off


@triton.jit
def of_head(ptr, h, heads):
    """A number of the head h, or 1.0 where none is given; the last program may have heads left over."""
    return 1.0 if ptr is None else tl.load(ptr + h, mask=h < heads, other=0.0)


@triton.jit
def of_lanes(ptr, lane, width):
    """The factors of the lanes, [1, L], or 1.0 where none are given."""
    return 1.0 if ptr is None else tl.load(ptr + lane, mask=lane < width, other=0.0)[None, :]


@triton.jit
def turn(
    x_ptr, out_ptr, pos_ptr, freq_ptr, rate_ptr, weight_ptr, band_ptr, before_ptr, drate_ptr, dweight_ptr,
    x_stride, out_stride, pos_stride, before_stride,
    b, first_head, heads, block, length, place, places, pairs, width, factor, sign, boost,
    HALF: tl.constexpr, HEADS: tl.constexpr, BLOCK_T: tl.constexpr, PAIRS: tl.constexpr, REST: tl.constexpr,
):
    """Turn one block of tokens of up to HEADS heads: the angles are computed once and serve them all.

    Forward, x is turned and then multiplied: by 1 + boost exp(-rate m) at position m, the head's weight and the band's
    factor of each lane. With `before`, which forward was turned, x is the gradient of what came out, and sign -1: it
    is multiplied by the band, then turned back. Its product with `before`, summed over the lanes, is what the other
    factors need: each program writes one number for each head's rate and weight.
    """
    t = block * BLOCK_T + tl.arange(0, BLOCK_T)
    pair = tl.arange(0, PAIRS)
    pos = tl.load(pos_ptr + b * pos_stride[0] + t * pos_stride[1], mask=t < length, other=0).to(tl.float32)
    freq = tl.load(freq_ptr + pair, mask=pair < pairs, other=0.0)
    angle = pos[:, None] * freq[None, :]  # [T, p/2], float32 whatever the dtype of x
    cos, sin = factor * tl.cos(angle), factor * sign * tl.sin(angle)
    for n in range(HEADS):
        h = first_head + n
        rows = tl.where(h < heads, length, 0)  # the last program may have heads left over
        x = x_ptr + b * x_stride[0] + h * x_stride[1]
        out = out_ptr + b * out_stride[0] + h * out_stride[1]
        weight = of_head(weight_ptr, h, heads)
        extra = 0.0 if rate_ptr is None else boost * tl.exp(-of_head(rate_ptr, h, heads) * pos[:, None])  # [T, 1]
        much = weight * (1.0 + extra)
        inner = tl.zeros([BLOCK_T, 1], tl.float32)
        if before_ptr is not None:
            before = before_ptr + b * before_stride[0] + h * before_stride[1]
        if HALF:
            one = load_tile(x, t, pair, x_stride, rows, pairs).to(tl.float32)
            two = load_tile(x + pairs * x_stride[3], t, pair, x_stride, rows, pairs).to(tl.float32)
            band_one, band_two = of_lanes(band_ptr, pair, pairs), of_lanes(band_ptr, pairs + pair, 2 * pairs)
            if before_ptr is not None:
                one, two = one * band_one, two * band_two
            one, two = one * cos - two * sin, one * sin + two * cos
            if before_ptr is None:
                one, two = one * band_one, two * band_two
            else:
                x_two = load_tile(before + pairs * before_stride[3], t, pair, before_stride, rows, pairs)
                inner += tl.sum(one * load_tile(before, t, pair, before_stride, rows, pairs) + two * x_two, 1)[:, None]
            store_tile(out, one * much, t, pair, out_stride, rows, pairs)
            store_tile(out + pairs * out_stride[3], two * much, t, pair, out_stride, rows, pairs)
        else:  # neighbors are read and written together, which keeps the memory accesses side by side
            lane = tl.arange(0, 2 * PAIRS)
            both = load_tile(x, t, lane, x_stride, rows, 2 * pairs).to(tl.float32)
            band = of_lanes(band_ptr, lane, 2 * pairs)
            if before_ptr is not None:
                both = both * band
            one, two = tl.split(tl.reshape(both, [BLOCK_T, PAIRS, 2]))
            both = tl.reshape(tl.join(one * cos - two * sin, one * sin + two * cos), [BLOCK_T, 2 * PAIRS])
            if before_ptr is None:
                both = both * band
            else:
                inner += tl.sum(both * load_tile(before, t, lane, before_stride, rows, 2 * pairs), 1)[:, None]
            store_tile(out, both * much, t, lane, out_stride, rows, 2 * pairs)
        if REST:  # lanes that don't turn
            lane = 2 * pairs + tl.arange(0, REST)
            rest = load_tile(x, t, lane, x_stride, rows, width).to(tl.float32) * of_lanes(band_ptr, lane, width)
            if before_ptr is not None:
                inner += tl.sum(rest * load_tile(before, t, lane, before_stride, rows, width), 1)[:, None]
            store_tile(out, rest * much, t, lane, out_stride, rows, width)
        at = (b * heads + h) * places + place
        if drate_ptr is not None:
            tl.store(drate_ptr + at, tl.sum(-weight * pos[:, None] * extra * inner), mask=h < heads)
        if dweight_ptr is not None:
            tl.store(dweight_ptr + at, tl.sum((1.0 + extra) * inner), mask=h < heads)


@triton.jit
def rotary_kernel(
    q_ptr, k_ptr, q_out_ptr, k_out_ptr, pos_q_ptr, pos_k_ptr, freq_ptr, rate_ptr, weight_ptr, band_ptr,
    q_stride, k_stride, q_out_stride, k_out_stride, pos_q_stride, pos_k_stride,
    blocks, chunks, heads, kv_heads, queries, keys, pairs, width, factor, sign, boost,
    HALF: tl.constexpr, HEADS: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, PAIRS: tl.constexpr,
    REST: tl.constexpr,
):
    """One program: a block of tokens of a few heads; the first programs take q, the others k. sign -1 turns back."""
    block, chunk = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    first_head, b = chunk % chunks * HEADS, (chunk // chunks).to(tl.int64)
    q_blocks = (queries + BLOCK_Q - 1) // BLOCK_Q
    if block < q_blocks:
        if first_head < heads:
            turn(
                q_ptr, q_out_ptr, pos_q_ptr, freq_ptr, rate_ptr, weight_ptr, band_ptr, None, None, None,
                q_stride, q_out_stride, pos_q_stride, None,
                b, first_head, heads, block, queries, block, blocks, pairs, width, factor, sign, boost,
                HALF, HEADS, BLOCK_Q, PAIRS, REST,
            )
    else:
        if first_head < kv_heads:
            turn(
                k_ptr, k_out_ptr, pos_k_ptr, freq_ptr, rate_ptr, weight_ptr, band_ptr, None, None, None,
                k_stride, k_out_stride, pos_k_stride, None,
                b, first_head, kv_heads, block - q_blocks, keys, block, blocks, pairs, width, factor, sign, boost,
                HALF, HEADS, BLOCK_K, PAIRS, REST,
            )


@triton.jit
def rotary_backward_kernel(
    q_ptr, k_ptr, dout_q_ptr, dout_k_ptr, dq_ptr, dk_ptr, pos_q_ptr, pos_k_ptr, freq_ptr, rate_ptr, weight_ptr,
    band_ptr, drate_ptr, dweight_ptr,
    q_stride, k_stride, dout_q_stride, dout_k_stride, dq_stride, dk_stride, pos_q_stride, pos_k_stride,
    blocks, chunks, heads, kv_heads, queries, keys, pairs, width, factor, boost,
    HALF: tl.constexpr, HEADS: tl.constexpr, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, PAIRS: tl.constexpr,
    REST: tl.constexpr,
):
    """The programs of `rotary_kernel` backward, where there are factors: gradients of q, k, and sums for the others."""
    block, chunk = tl.program_id(0) % blocks, tl.program_id(0) // blocks
    first_head, b = chunk % chunks * HEADS, (chunk // chunks).to(tl.int64)
    q_blocks = (queries + BLOCK_Q - 1) // BLOCK_Q
    if block < q_blocks:
        turn(
            dout_q_ptr, dq_ptr, pos_q_ptr, freq_ptr, rate_ptr, weight_ptr, band_ptr, q_ptr, drate_ptr, dweight_ptr,
            dout_q_stride, dq_stride, pos_q_stride, q_stride,
            b, first_head, heads, block, queries, block, blocks, pairs, width, factor, -1.0, boost,
            HALF, HEADS, BLOCK_Q, PAIRS, REST,
        )
    else:
        turn(
            dout_k_ptr, dk_ptr, pos_k_ptr, freq_ptr, rate_ptr, weight_ptr, band_ptr, k_ptr, drate_ptr, dweight_ptr,
            dout_k_stride, dk_stride, pos_k_stride, k_stride,
            b, first_head, kv_heads, block - q_blocks, keys, block, blocks, pairs, width, factor, -1.0, boost,
            HALF, HEADS, BLOCK_K, PAIRS, REST,
        )


def tiles(major_minor, width):
    """Tokens a block (block_q for q, block_k for k), for a compute capability, None for the interpreter."""
    tokens = 64 if major_minor is None else 32 if width <= 64 else 16  # so that a thread moves 16 bytes at a time
    return Tile(tokens, tokens, tokens // 4, 1)


def _grid(q, k, pos_q, pos_k, inv_freq, half, factor, tile):
    """How both kernels are cut, and what they are told besides their own tensors: (blocks, times, cut, arguments)."""
    batch, heads, queries, width = q.shape
    kv_heads, keys = k.shape[1:3]
    pairs = inv_freq.shape[0]
    cut = Tile(*tile) if tile else tiles(capability(q.device), width)
    several = min(8, max(heads, kv_heads))  # heads a program
    chunks = triton.cdiv(max(heads, kv_heads), several)
    pos_q, pos_q_stride = as_positions(pos_q, batch, queries)
    pos_k, pos_k_stride = as_positions(pos_k, batch, keys)
    blocks = triton.cdiv(queries, cut.block_q) + triton.cdiv(keys, cut.block_k)
    return blocks, chunks * batch, cut, dict(
        q_ptr=q, k_ptr=k, pos_q_ptr=pos_q, pos_k_ptr=pos_k, freq_ptr=inv_freq, q_stride=q.stride(),
        k_stride=k.stride(), pos_q_stride=pos_q_stride, pos_k_stride=pos_k_stride, chunks=chunks, heads=heads,
        kv_heads=kv_heads, queries=queries, keys=keys, pairs=pairs, width=width, factor=factor, HALF=half,
        HEADS=several, PAIRS=triton.next_power_of_2(pairs),
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
    """The kernel with factors as an operator: q and k turned and multiplied in one launch."""
    check("rotary kernel", q, k, pos_q, pos_k, inv_freq)
    check_factors("rotary kernel", q, k, rates, weights, band)
    return _forward(q, k, pos_q, pos_k, inv_freq, half, factor, 1.0, tile, rates, boost, weights, band)


@gained_rotary.register_fake
def _(q, k, pos_q, pos_k, inv_freq, rates, weights, band, boost, half, factor, tile):
    return rows_first(q), rows_first(k)


@torch.library.custom_op("posenc::gained_rotary_backward", mutates_args=())
def gained_rotary_backward(
    dout_q: torch.Tensor, dout_k: torch.Tensor, q: torch.Tensor, k: torch.Tensor, pos_q: torch.Tensor,
    pos_k: torch.Tensor, inv_freq: torch.Tensor, rates: torch.Tensor | None, weights: torch.Tensor | None,
    band: torch.Tensor | None, boost: float, half: bool, factor: float, tile: list[int],
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The backward kernel as an operator: gradients of q, k, rates, weights (empty tensors for what was not given)."""
    dq, dk = rows_first(q), rows_first(k)
    blocks, times, cut, arguments = _grid(q, k, pos_q, pos_k, inv_freq, half, factor, tile)
    sums = (*q.shape[:2], blocks)  # one number a program and head, summed here
    drates, dweights = (
        None if x is None else torch.empty(sums, dtype=torch.float32, device=q.device) for x in (rates, weights)
    )
    if q.numel() + k.numel() > 0:
        launch(
            rotary_backward_kernel, blocks, times, cut, dout_q_ptr=dout_q, dout_k_ptr=dout_k, dq_ptr=dq, dk_ptr=dk,
            dout_q_stride=dout_q.stride(), dout_k_stride=dout_k.stride(), dq_stride=dq.stride(),
            dk_stride=dk.stride(), rate_ptr=rates, weight_ptr=weights, band_ptr=band, drate_ptr=drates,
            dweight_ptr=dweights, boost=boost, **arguments,
        )
    none = torch.empty(0, dtype=torch.float32, device=q.device)
    return dq, dk, *(none.clone() if x is None else x.sum((0, 2)) for x in (drates, dweights))


@gained_rotary_backward.register_fake
def _(dout_q, dout_k, q, k, pos_q, pos_k, inv_freq, rates, weights, band, boost, half, factor, tile):
    like = (torch.empty(0 if x is None else x.shape, dtype=torch.float32, device=q.device) for x in (rates, weights))
    return rows_first(q), rows_first(k), *like


def _setup_gained(ctx, inputs, output):
    *tensors, ctx.boost, ctx.half, ctx.factor, ctx.tile = inputs
    ctx.save_for_backward(*tensors)


def _gained_backward(ctx, dq, dk):
    rates, weights = ctx.saved_tensors[5:7]
    dq, dk, drates, dweights = gained_rotary_backward(
        dq, dk, *ctx.saved_tensors, ctx.boost, ctx.half, ctx.factor, ctx.tile
    )
    given = (None if x is None else g for x, g in ((rates, drates), (weights, dweights)))
    return dq, dk, None, None, None, *given, None, None, None, None, None


gained_rotary.register_autograd(_gained_backward, setup_context=_setup_gained)


def check(op, q, k, pos_q, pos_k, inv_freq):
    """Raise before any launch what the kernel doesn't serve, naming the argument."""
    for name, x in (("q", q), ("k", k)):
        check_tensor(name, x, "[B, H, T, D]", ndim=4, floating=True)
        if x.dtype != q.dtype or x.device != q.device:
            raise ValueError(f"{name} is {x.dtype} on {x.device}, it must be as q: {q.dtype} on {q.device}")
    if k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3]:
        raise ValueError(f"k must share B and D with q {list(q.shape)}, got {list(k.shape)}")
    check_tensor("inv_freq", inv_freq, "[p/2]", ndim=1, floating=True)
    if not 1 <= inv_freq.shape[0] <= q.shape[3] // 2:
        raise ValueError(f"inv_freq turns {2 * inv_freq.shape[0]} lanes, q has {q.shape[3]}")
    check_here(op, q)
    for name, positions, x in (("pos_q", pos_q, q), ("pos_k", pos_k, k)):
        check_positions_of(op, name, positions, x)
    if inv_freq.requires_grad:
        raise UnsupportedError(f"{op}: inv_freq asks for a gradient, which only impl='torch' gives")


def check_factors(op, q, k, rates, weights, band):
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
    if band is not None and band.requires_grad:
        raise UnsupportedError(f"{op}: band asks for a gradient, which only impl='torch' gives")


def rotate(
    q, k, pos_q, pos_k, inv_freq, layout="interleaved", attention_factor=1.0, tile=(), *, rates=None, boost=0.0,
    weights=None, band=None,
):
    r"""Turn q and k by their positions in one launch, out of place; with factors, multiply them there too.

    (a, b) -> factor * (a cos(m w_i) - b sin(m w_i), a sin(m w_i) + b cos(m w_i))
    then lane d of head h -> (1 + boost exp(-rates_h m)) weights_h band_d times it

    Arguments:
        q: [B, H, Tq, D]; k: [B, Hkv, Tk, D]; float32, float16 or bfloat16, any strides.
        pos_q, pos_k: [T], [1, T] or [B, T], integers or floats, in tokens.
        inv_freq: [p/2] with p <= D, in radians per token; the first p lanes turn, the rest pass.
        layout: "interleaved" pairs lanes (2i, 2i+1), "half" pairs (i, i + p/2).
        attention_factor: factor on cos and sin.
        tile: (tokens of q a block, tokens of k a block, num_warps, num_stages) in place of the chosen ones.
        rates: [H] float32, per token; None for no gain. boost: the extra at position 0.
        weights: [H] float32, a factor of each head; None for none. Rates and weights want as many heads of k as of q.
        band: [D] float32, a factor of each lane, those that don't turn too; None for none.
    Returns: (q, k) turned, of their shapes and dtype, rounded once. Angles and factors are float32. Differentiable in
        q, k, rates and weights, backward only: the gradient is turned back. Without factors nothing is saved for it,
        with them q and k are.
    Errors: UnsupportedError for what the kernel doesn't serve, before any launch; ValueError naming another argument.
    Paper: arXiv 2104.09864, equation 34. Chapter: From formula to kernel.
    """
    check_choice("layout", layout, LAYOUTS)
    check_number("attention_factor", attention_factor, above=0)
    check("rotary kernel", q, k, pos_q, pos_k, inv_freq)
    check_tile(tile)
    inv_freq = inv_freq.to(q.device, torch.float32).contiguous()
    half, factor = layout == "half", float(attention_factor)
    if rates is None and weights is None and band is None:
        return rotary(q, k, pos_q, pos_k, inv_freq, half, factor, 1.0, list(tile))
    check_number("boost", boost)
    check_factors("rotary kernel", q, k, rates, weights, band)
    return gained_rotary(
        q, k, pos_q, pos_k, inv_freq, rates, weights, band, float(boost), half, factor, list(tile)
    )
