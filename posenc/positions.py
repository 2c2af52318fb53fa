r"""Positions as data: what they must be, where queries and keys stand, and how far apart they are."""

import torch

from .errors import check_device, check_tensor, check_values, readable
from .inputs import batched_mask


def place_tokens(q, k, encoding, pos_q, pos_k, mask):
    """Positions [B or 1, T] (or with n axes last) of queries and keys, and the mask [B or 1, 1, Tq or 1, Tk or 1]."""
    batch, queries, keys = q.shape[0], q.shape[2], k.shape[2]
    if (pos_q is None) != (pos_k is None):
        if queries != keys:
            given, missing = ("pos_k", "pos_q") if pos_q is None else ("pos_q", "pos_k")
            raise ValueError(f"{missing}=None: give it too, {queries} queries and {keys} keys can't share {given}")
        pos_q = pos_k = pos_q if pos_k is None else pos_k
    if pos_q is None:
        if encoding.axes is not None:
            raise ValueError(f"pos_q=None: this encoding needs positions of shape [T, {encoding.axes}]")
        pos_k = torch.arange(keys, device=q.device)
        pos_q = pos_k if queries == keys else torch.arange(keys - queries, keys, device=q.device)
    both = queries == keys and pos_q is pos_k
    pos_q = batched_positions("pos_q", pos_q, batch, queries, encoding.axes, q.device)
    pos_k = pos_q if both else batched_positions("pos_k", pos_k, batch, keys, encoding.axes, q.device)
    return pos_q, pos_k, None if mask is None else batched_mask(mask, batch, queries, keys, q.device)


def batched_positions(name, positions, batch, length, axes, device):
    """Bring positions [T], [B, T], [T, n] or [B, T, n] to [B or 1, T] or [B or 1, T, n], in a dtype that holds them."""
    tail = () if axes is None else (axes,)
    shapes = f"{[length, *tail]} or {[batch, length, *tail]}"
    check_tensor(name, positions, shapes)
    check_device(name, positions, device)
    positions = check_positions(name, positions, axes is not None)
    if tuple(positions.shape) == (length, *tail):
        return positions[None]
    if tuple(positions.shape) not in ((1, length, *tail), (batch, length, *tail)):
        raise ValueError(f"{name} must have shape {shapes}, got {list(positions.shape)}")
    return positions


def check_positions(argument, positions, axes=False):
    r"""Return `positions` as int64, float32 or float64, the dtypes that hold them.

    Narrower integers become int64, since a difference of theirs would wrap around. Half precision is refused: it
    counts whole numbers to 256 (bfloat16) or 2048 (float16) only. NaN and infinity are refused where reading the
    values costs nothing: in plain tensors on a CPU, outside of `torch.compile`, `torch.export` and `torch.func`.

    axes: True for positions with coordinates, whose methods read NaN as "without a place".
    """
    check_tensor(argument, positions, "[T] or [B, T]")
    if positions.ndim == 0:
        raise ValueError(f"{argument} must have shape [T] or [B, T], got a single number")
    if not positions.is_floating_point():
        return positions.long()
    if positions.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{argument} is {positions.dtype}, which rounds positions: pass integers, float32 or float64")
    if readable(positions):
        odd = positions.isinf() if axes else ~positions.isfinite()
        if odd.any():
            raise ValueError(f"{argument} holds {positions[odd][0].item()}, positions must be finite")
    return positions


def whole(argument, positions):
    r"""Return `positions` as int64, for methods that look one up; ValueError where one is no whole number."""
    positions = check_positions(argument, positions)
    if positions.is_floating_point():
        good = positions == positions.round()
        must = "it must hold whole numbers: this method looks them up in a table"

        def words():
            return f"{argument} holds {positions[~good].flatten()[0].item():g}, {must}"

        check_values(good, f"{argument}: {must}", words)
    return positions.long()


def distances(at):
    r"""pos_q - pos_k of every pair, [B or 1, Tq, Tk], for positions that are numbers."""
    if at.pos_q.ndim != 2:
        raise ValueError(f"pos_q {list(at.pos_q.shape)} has axes, this method reads positions that are numbers")
    return check_positions("pos_q", at.pos_q)[:, :, None] - check_positions("pos_k", at.pos_k)[:, None, :]


def offsets(at):
    r"""pos_k - pos_q of every pair, [B or 1, Tq, Tk] int64, for methods that look offsets up in a table."""
    return -distances(at._replace(pos_q=whole("pos_q", at.pos_q), pos_k=whole("pos_k", at.pos_k)))
