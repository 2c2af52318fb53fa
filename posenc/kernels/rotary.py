r"""Rotary position embedding: q and k turned in one launch, and turned back in the backward."""

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
def turn(
    x_ptr, out_ptr, pos_ptr, freq_ptr, x_stride, out_stride, pos_stride,
    b, first_head, heads, block, length, pairs, width, factor, sign,
    HALF: tl.constexpr, HEADS: tl.constexpr, BLOCK_T: tl.constexpr, PAIRS: tl.constexpr, REST: tl.constexpr,
):
    """Turn one block of tokens of up to HEADS heads: the angles are computed once and serve them all."""
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
        if HALF:
            one = load_tile(x, t, pair, x_stride, rows, pairs).to(tl.float32)
            two = load_tile(x + pairs * x_stride[3], t, pair, x_stride, rows, pairs).to(tl.float32)
            store_tile(out, one * cos - two * sin, t, pair, out_stride, rows, pairs)
            store_tile(out + pairs * out_stride[3], one * sin + two * cos, t, pair, out_stride, rows, pairs)
        else:  # neighbors are read and written together, which keeps the memory accesses side by side
            lane = tl.arange(0, 2 * PAIRS)
            both = load_tile(x, t, lane, x_stride, rows, 2 * pairs).to(tl.float32)
            one, two = tl.split(tl.reshape(both, [BLOCK_T, PAIRS, 2]))
            both = tl.join(one * cos - two * sin, one * sin + two * cos)
            store_tile(out, tl.reshape(both, [BLOCK_T, 2 * PAIRS]), t, lane, out_stride, rows, 2 * pairs)
        if REST:  # lanes that don't turn
            lane = 2 * pairs + tl.arange(0, REST)
            store_tile(out, load_tile(x, t, lane, x_stride, rows, width), t, lane, out_stride, rows, width)


@triton.jit
def rotary_kernel(
    q_ptr, k_ptr, q_out_ptr, k_out_ptr, pos_q_ptr, pos_k_ptr, freq_ptr,
    q_stride, k_stride, q_out_stride, k_out_stride, pos_q_stride, pos_k_stride,
    blocks, chunks, heads, kv_heads, queries, keys, pairs, width, factor, sign,
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
                q_ptr, q_out_ptr, pos_q_ptr, freq_ptr, q_stride, q_out_stride, pos_q_stride,
                b, first_head, heads, block, queries, pairs, width, factor, sign, HALF, HEADS, BLOCK_Q, PAIRS, REST,
            )
    else:
        if first_head < kv_heads:
            turn(
                k_ptr, k_out_ptr, pos_k_ptr, freq_ptr, k_stride, k_out_stride, pos_k_stride,
                b, first_head, kv_heads, block - q_blocks, keys, pairs, width, factor, sign,
                HALF, HEADS, BLOCK_K, PAIRS, REST,
            )


def tiles(major_minor, width):
    """Tokens a block (block_q for q, block_k for k), for a compute capability, None for the interpreter."""
    tokens = 64 if major_minor is None else 32 if width <= 64 else 16  # so that a thread moves 16 bytes at a time
    return Tile(tokens, tokens, tokens // 4, 1)


@torch.library.custom_op("posenc::rotary", mutates_args=())
def rotary(
    q: torch.Tensor, k: torch.Tensor, pos_q: torch.Tensor, pos_k: torch.Tensor, inv_freq: torch.Tensor, half: bool,
    factor: float, sign: float, tile: list[int],
) -> tuple[torch.Tensor, torch.Tensor]:
    """The kernel as an operator: q and k turned; sign -1 turns back."""
    check("rotary kernel", q, k, pos_q, pos_k, inv_freq)
    batch, heads, queries, width = q.shape
    kv_heads, keys = k.shape[1:3]
    q_out, k_out = rows_first(q), rows_first(k)
    if q.numel() + k.numel() == 0:
        return q_out, k_out
    pairs = inv_freq.shape[0]
    cut = Tile(*tile) if tile else tiles(capability(q.device), width)
    several = min(8, max(heads, kv_heads))  # heads a program
    chunks = triton.cdiv(max(heads, kv_heads), several)
    pos_q, pos_q_stride = as_positions(pos_q, batch, queries)
    pos_k, pos_k_stride = as_positions(pos_k, batch, keys)
    blocks = triton.cdiv(queries, cut.block_q) + triton.cdiv(keys, cut.block_k)
    launch(
        rotary_kernel, blocks, chunks * batch, cut, chunks=chunks,
        q_ptr=q, k_ptr=k, q_out_ptr=q_out, k_out_ptr=k_out, pos_q_ptr=pos_q, pos_k_ptr=pos_k, freq_ptr=inv_freq,
        q_stride=q.stride(), k_stride=k.stride(), q_out_stride=q_out.stride(), k_out_stride=k_out.stride(),
        pos_q_stride=pos_q_stride, pos_k_stride=pos_k_stride, heads=heads, kv_heads=kv_heads, queries=queries,
        keys=keys, pairs=pairs, width=width, factor=factor, sign=sign, HALF=half, HEADS=several,
        PAIRS=triton.next_power_of_2(pairs),
        REST=triton.next_power_of_2(width - 2 * pairs) if width > 2 * pairs else 0,
    )
    return q_out, k_out


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


def rotate(q, k, pos_q, pos_k, inv_freq, layout="interleaved", attention_factor=1.0, tile=()):
    r"""Turn q and k by their positions in one launch, out of place.

    (a, b) -> factor * (a cos(m w_i) - b sin(m w_i), a sin(m w_i) + b cos(m w_i))

    Arguments:
        q: [B, H, Tq, D]; k: [B, Hkv, Tk, D]; float32, float16 or bfloat16, any strides.
        pos_q, pos_k: [T], [1, T] or [B, T], integers or floats, in tokens.
        inv_freq: [p/2] with p <= D, in radians per token; the first p lanes turn, the rest pass.
        layout: "interleaved" pairs lanes (2i, 2i+1), "half" pairs (i, i + p/2).
        attention_factor: factor on cos and sin.
        tile: (tokens of q a block, tokens of k a block, num_warps, num_stages) in place of the chosen ones.
    Returns: (q, k) turned, of their shapes and dtype. Angles are float32. Differentiable in q and k, backward only: the
        gradient is turned back.
    Errors: UnsupportedError for what the kernel doesn't serve, before any launch; ValueError naming another argument.
    Paper: arXiv 2104.09864, equation 34. Chapter: From formula to kernel.
    """
    check_choice("layout", layout, LAYOUTS)
    check_number("attention_factor", attention_factor, above=0)
    check("rotary kernel", q, k, pos_q, pos_k, inv_freq)
    check_tile(tile)
    inv_freq = inv_freq.to(q.device, torch.float32).contiguous()
    return rotary(q, k, pos_q, pos_k, inv_freq, layout == "half", float(attention_factor), 1.0, list(tile))
