r"""What every kernel shares: tiles loaded with care, the rule of who sees whom, and checks before a launch."""

import os
from contextlib import nullcontext
from typing import NamedTuple

import torch

from ..errors import UnsupportedError, check_bool, check_choice, check_number
from ..inputs import batched_mask, check_qkv
from ..positions import batched_positions
from .needs import tl, triton
from .served import DTYPES, MAX_HEAD_DIM, why_not_here
from .variants import VARIANTS

LOG2E = tl.constexpr(1.4426950408889634)  # exp(x) = exp2(x * LOG2E), and exp2 is what the hardware has
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"  # read where @triton.jit reads it: when kernels are imported

# A kernel's arguments are read in groups, as they were written.
# fmt: off


@triton.jit
def long(index):
    """An index as int64: a tensor may span more than 2^31 numbers, so no stride is multiplied by a shorter one."""
    return tl.cast(index, tl.int64)


@triton.jit
def heaviest_first(blocks):
    """This program's block of queries, and its sequence and head as one number.

    Under a causal mask the last queries see most keys. Their blocks start first, so that none is left running alone.
    """
    return blocks - 1 - tl.program_id(0) % blocks, long(tl.program_id(0) // blocks)


@triton.jit
def head_of(ptr, stride, b, h):
    """Where the head h of the sequence b begins in a tensor [B, H, T, D]."""
    return ptr + long(b) * stride[0] + long(h) * stride[1]


@triton.jit
def pairs_at(rows, lanes, stride):
    """Where the numbers of rows [R] and lanes [L] of a matrix stand, [R, L]."""
    return long(rows)[:, None] * stride[2] + long(lanes)[None, :] * stride[3]


@triton.jit
def load_tile(ptr, rows, lanes, stride, length, width):
    """Rows [R] and lanes [L] of a matrix [length, width] as a tile [R, L], with 0 outside of the matrix."""
    inside = (rows < length)[:, None] & (lanes < width)[None, :]
    return tl.load(ptr + pairs_at(rows, lanes, stride), mask=inside, other=0.0)


@triton.jit
def store_tile(ptr, tile, rows, lanes, stride, length, width):
    """Write a tile [R, L] to rows and lanes of a matrix [length, width], in the matrix's dtype."""
    inside = (rows < length)[:, None] & (lanes < width)[None, :]
    tl.store(ptr + pairs_at(rows, lanes, stride), tile.to(ptr.dtype.element_ty), mask=inside)


@triton.jit
def one_number(ptr, h):
    """A variant's number for the head h, or 0.0 where it reads none."""
    return 0.0 if ptr is None else tl.load(ptr + h)


@triton.jit
def column(ptr, bh, i, queries):
    """A variant's numbers for the queries i of a head, [Q, 1], or 0.0 where it reads none."""
    return 0.0 if ptr is None else tl.load(ptr + bh * queries + i, mask=i < queries, other=0.0)[:, None]


@triton.jit
def row(ptr, bh, j, keys):
    """A variant's numbers for the keys j of a head, [1, K], or 0.0 where it reads none."""
    return 0.0 if ptr is None else tl.load(ptr + bh * keys + j, mask=j < keys, other=0.0)[None, :]


@triton.jit
def position(ptr, stride, b, index, length, part):
    """Positions [N] of the tokens `index`, from a tensor [parts, B, T]; 0 past the end."""
    return tl.load(ptr + part * stride[0] + long(b) * stride[1] + long(index) * stride[2], mask=index < length, other=0)


@triton.jit
def distances(q_ptr, k_ptr, b, i, j, q_stride, k_stride, queries, keys, DELTA: tl.constexpr):
    """pos_q[i] - pos_k[j] in float32, [Q, K], for positions in DELTA parts; 0.0 for variants that read none."""
    if not DELTA:
        delta = 0.0
    else:
        pos_q, pos_k = position(q_ptr, q_stride, b, i, queries, 0), position(k_ptr, k_stride, b, j, keys, 0)
        delta = pos_q[:, None] - pos_k[None, :]
        if DELTA == 2:
            pos_q, pos_k = position(q_ptr, q_stride, b, i, queries, 1), position(k_ptr, k_stride, b, j, keys, 1)
            delta += pos_q[:, None] - pos_k[None, :]
    return delta


@triton.jit
def seen(i, j, b, queries, keys, mask_ptr, mask_stride, CAUSAL: tl.constexpr, STRICT: tl.constexpr):
    """Which of the keys j [K] each of the queries i [Q] sees, [Q, K]. STRICT hides a query's own key."""
    ok = (i < queries)[:, None] & (j < keys)[None, :]
    own = i + keys - queries  # the index of each query among the keys
    if CAUSAL:
        ok &= j[None, :] <= own[:, None]
    if STRICT:
        ok &= j[None, :] != own[:, None]
    if mask_ptr is not None:
        at = pairs_at(i, j, mask_stride)
        ok &= tl.load(mask_ptr + long(b) * mask_stride[0] + at, mask=ok, other=0) != 0
    return ok


@triton.jit
def key_blocks(
    block, queries, keys, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr, STRICT: tl.constexpr,
    MASK: tl.constexpr,
):
    """For a block of queries: how many blocks of keys each of them sees whole, how many one of them sees at all."""
    whole, last = keys // BLOCK_K, (keys + BLOCK_K - 1) // BLOCK_K
    if CAUSAL:
        strict: tl.constexpr = 1 if STRICT else 0
        first_own = block * BLOCK_Q + keys - queries
        last_own = tl.minimum(block * BLOCK_Q + BLOCK_Q, queries) - 1 + keys - queries
        whole = tl.maximum(tl.minimum(whole, (first_own + 1 - strict) // BLOCK_K), 0)
        last = tl.maximum(last_own + 1 - strict + BLOCK_K - 1, 0) // BLOCK_K
    if MASK or (STRICT and not CAUSAL):
        whole = 0
    return whole, last


@triton.jit
def query_rows(
    block, low, high, queries, keys, BLOCK_Q: tl.constexpr, BLOCK_K: tl.constexpr, CAUSAL: tl.constexpr,
    STRICT: tl.constexpr, MASK: tl.constexpr,
):
    """For a block of keys, among the queries low to high: the first that sees one of them, the first that sees all.

    Both are starts of blocks of queries; low is one too.
    """
    first, whole = low, low
    if CAUSAL:
        strict: tl.constexpr = 1 if STRICT else 0
        first = block * BLOCK_K - (keys - queries) + strict
        first = tl.maximum(tl.maximum(first, 0) // BLOCK_Q * BLOCK_Q, low)
        whole = block * BLOCK_K + BLOCK_K - 1 - (keys - queries) + strict
        whole = (tl.maximum(whole, 0) + BLOCK_Q - 1) // BLOCK_Q * BLOCK_Q
        whole = tl.minimum(tl.maximum(whole, first), tl.maximum(high, first))
    else:  # nobody sees the keys past the end, which the last block may have
        whole = tl.where((block + 1) * BLOCK_K > keys, high, low)
    if MASK or (STRICT and not CAUSAL):
        whole = tl.maximum(high, first)
    return first, whole


class Tile(NamedTuple):
    """How a kernel cuts its work: queries and keys a block, warps a program, stages of the load pipeline."""

    block_q: int
    block_k: int
    num_warps: int
    num_stages: int


def lanes(width):
    """The lanes of a tile for a head of this width: the next power of two, at least the 16 that `tl.dot` needs."""
    return max(16, triton.next_power_of_2(width))


def capability(device):
    """(major, minor) of a CUDA device; None for the interpreter."""
    return torch.cuda.get_device_capability(device) if device.type == "cuda" and not INTERPRETED else None


def check_here(op, q):
    """Raise UnsupportedError unless the kernels run on q's device and serve its dtype and head size."""
    reason = why_not_here(q.device, q.dtype, q.shape[-1])
    if reason is None and q.device.type == "cpu" and not INTERPRETED:
        reason = "the kernels were imported without TRITON_INTERPRET=1: set it before posenc.kernels is imported"
    if reason is not None:
        raise UnsupportedError(f"{op}: {reason}")


def check_served(op, q, k, v):
    """Raise unless q [B, H, Tq, D], k [B, Hkv, Tk, D], v [B, Hkv, Tk, Dv] are what the kernels serve."""
    check_qkv(q, k, v)
    if q.dtype not in DTYPES:
        raise UnsupportedError(f"{op}: q is {q.dtype}; served are {', '.join(map(str, DTYPES))}")
    if not 1 <= v.shape[3] <= MAX_HEAD_DIM:
        raise UnsupportedError(f"{op}: v has {v.shape[3]} lanes; served are 1 to {MAX_HEAD_DIM}")
    check_here(op, q)


def check_positions_of(op, name, positions, x, axes=None):
    """Raise unless these are positions for the tokens of x [B, H, T, D], on its device, that ask for no gradient.

    axes: how many coordinates each has; None for numbers.
    """
    batched_positions(name, positions, x.shape[0], x.shape[2], axes, x.device)
    if positions.requires_grad:
        raise UnsupportedError(f"{op}: {name} asks for a gradient, which only impl='torch' gives")


def check(op, q, k, v, pos_q, pos_k, a, x, y, variant, table=None):
    """Raise before any launch what the kernels don't serve, naming the argument."""
    check_choice("variant", variant, VARIANTS)
    check_served(op, q, k, v)
    reads = VARIANTS[variant].reads
    for name, positions in (("pos_q", pos_q), ("pos_k", pos_k)):
        if positions is None and ("delta" in reads or "table" in reads):
            raise ValueError(f"{name}=None: the variant {variant!r} needs {name}")
        if "table" in reads and positions.is_floating_point():
            raise ValueError(f"{name} is {positions.dtype}, it must hold integers for the variant {variant!r}")
    batch, heads, queries, _ = q.shape
    entries = max(table.shape[-1], 1) if table is not None and table.ndim else 1
    wanted = {
        "a": (a, "head", (heads,)),
        "table": (table, "table", (heads, entries)),
        "x": (x, "query", (batch, heads, queries)),
        "y": (y, "key", (batch, heads, k.shape[2])),
    }
    exact = all(t is not None and t.dtype == torch.float64 for t in (x, y))  # sums, whose difference is read
    for name, (tensor, what, shape) in wanted.items():
        if (what in reads) != (tensor is not None):
            needs = "needs" if tensor is None else "reads no"
            raise ValueError(f"{name}={tensor!r}: the variant {variant!r} {needs} {name}")
        if tensor is None:
            continue
        good = tensor.dtype == (torch.float64 if exact and name in "xy" else torch.float32)
        good &= tensor.device == q.device and tensor.is_contiguous()
        if tuple(tensor.shape) != shape or not good:
            got = f"{tensor.dtype} {list(tensor.shape)} on {tensor.device}"
            raise ValueError(f"{name} must be float32, contiguous, on {q.device}, of shape {list(shape)}, got {got}")


def check_attend(op, q, k, v, pos_q, pos_k, causal, mask, scale, tile):
    """Check the arguments of `attend`, before an operator is called."""
    check_served(op, q, k, v)
    check_bool("causal", causal)
    check_number("scale", scale)
    for name, positions, x in (("pos_q", pos_q, q), ("pos_k", pos_k, k)):
        if positions is not None:
            check_positions_of(op, name, positions, x)
    if mask is not None:
        batched_mask(mask, q.shape[0], q.shape[2], k.shape[2], q.device)
    check_tile(tile)


def check_tile(tile):
    """Raise unless the tile is empty or four whole numbers that a kernel can be cut by."""
    good = all(isinstance(n, int) and n > 0 for n in tile) and all(n & (n - 1) == 0 for n in tile[:3])
    if len(tile) not in (0, 4) or not good or (tile and min(tile[:2]) < 16):
        raise ValueError(
            f"tile={tile!r} must be (block_q, block_k, num_warps, num_stages): blocks and warps powers of two, blocks "
            f"at least 16"
        )


def as_mask(mask, batch, queries, keys):
    """The mask as bytes that broadcast to [B, 1, Tq, Tk], and its strides; (None, four zeros) for None."""
    if mask is None:
        return None, (0, 0, 0, 0)
    mask = (mask[None, None] if mask.ndim == 2 else mask).expand(batch, 1, queries, keys).view(torch.uint8)
    return mask, mask.stride()


EXACT = {torch.float32, torch.float16, torch.bfloat16, torch.uint8, torch.int8, torch.int16}  # float32 holds them


def in_parts(pos_q, pos_k, variant, turned=False):
    r"""Positions [T], [1, T] or [B, T] as float32 numbers [parts, 1 or B, T] whose sum they are, where they are read.

    Split once here, a pair of them costs additions and no conversion. For distances, integers and float64 have two
    parts of 24 bits each: whole numbers up to 2^48 keep their distance to its last float32 digit, however far from 0
    they stand. What float32 holds has one part and is subtracted in float32, as the reference does. For angles the
    first part is enough: they are float32.
    """
    delta = variant in VARIANTS and "delta" in VARIANTS[variant].reads  # the operator refuses other names
    if pos_q is None or pos_k is None or not (delta or turned):
        return pos_q, pos_k
    two = delta and not EXACT.issuperset((pos_q.dtype, pos_k.dtype))
    split = []
    for positions in (pos_q, pos_k):
        positions = positions[None] if positions.ndim == 1 else positions
        first = positions.to(torch.float32)
        split.append(torch.stack((first, (positions.double() - first).to(torch.float32))) if two else first[None])
    return split


def rows_first(x, width=None, dtype=None, heads=None):
    """An empty tensor of x's shape [B, H, T, D] (or other lanes, heads) whose heads lie side by side in memory."""
    batch, own_heads, length, lanes = x.shape
    shape = (batch, length, own_heads if heads is None else heads, lanes if width is None else width)
    return x.new_empty(shape, dtype=dtype).transpose(1, 2)


def fewest_programs(device):
    """How many programs a device should have: two for each multiprocessor, some end early. 1 for the interpreter."""
    return 2 * torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 1


def share_of(groups, programs, device):
    """How many heads of queries one program of the backward sums, of the `groups` that share a head of keys.

    All, unless these are too few programs for the device, as with one head of keys: then several own a block of keys,
    each with a gradient of its own, for `added`.
    """
    fewest = fewest_programs(device)
    return next((n for n in range(groups, 1, -1) if groups % n == 0 and programs * (groups // n) >= fewest), 1)


def added(shares, x):
    """The gradient of x [B, Hkv, T, D] from those of the programs that share its heads, [B, Hkv * n, T, D]."""
    if shares.shape[1] == x.shape[1]:
        return shares.to(x.dtype)
    return rows_first(x).copy_(shares.unflatten(1, (x.shape[1], -1)).sum(2))  # one order: the same bits again


def launch(kernel, blocks, times, cut, **arguments):
    """Run a kernel, one program for each block of each head (`times` of them), cut as the tile says, where q is.

    The grid has one axis: the others end at 65,535. The blocks of a head run side by side and share what they load.
    """
    device = arguments["q_ptr"].device
    cuts = dict(BLOCK_Q=cut.block_q, BLOCK_K=cut.block_k, num_warps=cut.num_warps, num_stages=cut.num_stages)
    with torch.cuda.device(device) if device.type == "cuda" else nullcontext():
        kernel[(blocks * times,)](blocks=blocks, **cuts, **arguments)


def launch_arguments(q, k, v, mask, pos_q, pos_k, variant, read_positions=False):
    """What all three kernels are told besides their own tensors: pointers, strides, sizes."""
    batch, heads, queries, width = q.shape
    kv_heads, keys = k.shape[1:3]
    reads = VARIANTS[variant].reads
    delta = "delta" in reads
    mask, mask_stride = as_mask(mask, batch, queries, keys)
    extra = dict(mask_ptr=mask, mask_stride=mask_stride, DELTA=pos_q.shape[0] if delta else 0)
    for name, positions, length in (("pos_q", pos_q, queries), ("pos_k", pos_k, keys)):
        if not (delta or "table" in reads or read_positions):
            positions = None
        positions = None if positions is None else positions.expand(-1, batch, length)
        extra |= {f"{name}_ptr": positions, f"{name}_stride": (0, 0, 0) if positions is None else positions.stride()}
    extra |= dict(q_stride=q.stride(), k_stride=k.stride(), v_stride=v.stride())
    extra |= dict(heads=heads, groups=heads // kv_heads, queries=queries, keys=keys, width=width, width_v=v.shape[3])
    return extra | dict(LANES=lanes(width), LANES_V=lanes(v.shape[3]))
