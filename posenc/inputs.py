r"""What q, k, v, positions and masks must be, and the shapes that the computation takes them in."""

import torch
from torch import Tensor

from .encoding import Encoding
from .errors import UnsupportedError, check_bool, check_device, check_number, check_tensor, shown


def accumulation_dtype(x):
    """The dtype for logits and weights, cosines and sines: float32, or float64 where x is float64."""
    return torch.float64 if x.dtype == torch.float64 else torch.float32


def angle_dtype(x):
    """The dtype for angles where x is: float64, as float32 has no digit after the point at 10^7. Mps lacks it."""
    return torch.float32 if x.device.type == "mps" else torch.float64


def visible_keys(q, k, causal, mask):
    """What each query may see, [B or 1, 1, Tq, Tk]: causality by index, and the mask."""
    queries, keys = q.shape[2], k.shape[2]
    visible = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        visible = visible.tril(keys - queries)
    return visible if mask is None else visible & mask


def check_inputs(q, k, v, encoding, causal, scale, gates, return_weights):
    check_qkv(q, k, v)
    check_encoding(encoding)
    check_bool("causal", causal)
    check_bool("return_weights", return_weights)
    if not causal and encoding.causal_only:
        raise UnsupportedError(f"causal=False: {encoding.causal_only}")
    if scale is not None:
        check_number("scale", scale)
    check_gates(q, k, encoding, gates)
    check_sizes(encoding, num_heads=q.shape[1], head_dim=q.shape[3])


def check_gates(q, k, encoding, gates):
    """Raise unless gates are given exactly where the encoding reads them, [B, H, Tk] or [B, H, Tk, n]."""
    words = "[B, H, Tk]" if encoding.gates is None or not encoding.gates.size else "[B, H, Tk, n]"
    if gates is not None:
        check_tensor("gates", gates, words, floating=True)
    if encoding.gates is None:
        if gates is not None:
            raise ValueError(f"gates of shape {list(gates.shape)}: this encoding reads none, leave them out")
        return
    expected = [q.shape[0], q.shape[1], k.shape[2], *encoding.gates.size]
    if gates is None:
        raise ValueError(f"gates=None: this encoding reads gates {words} = {expected}; SelfAttention makes them")
    if list(gates.shape) != expected:
        raise ValueError(f"gates must have shape {words} = {expected}, got {list(gates.shape)}")
    check_device("gates", gates, q.device)


def check_qkv(q, k, v):
    """Raise unless q [B, H, Tq, D], k [B, Hkv, Tk, D] and v [B, Hkv, Tk, Dv] go together; the kernels ask this too."""
    for name, x in (("q", q), ("k", k), ("v", v)):
        check_tensor(name, x, "[B, H, T, D]", ndim=4, floating=True)
    if k.shape[0] != q.shape[0] or k.shape[3] != q.shape[3]:
        raise ValueError(f"k must share B and D with q {list(q.shape)}, got {list(k.shape)}")
    if v.shape[:3] != k.shape[:3]:
        raise ValueError(f"v must share B, H and T with k {list(k.shape)}, got {list(v.shape)}")
    if k.shape[1] == 0 or q.shape[1] % k.shape[1]:
        raise ValueError(f"k has {k.shape[1]} heads, which must divide the {q.shape[1]} heads of q")
    if q.shape[3] == 0:
        raise ValueError(f"q must have at least one lane, got shape {list(q.shape)}")
    for name, x in (("k", k), ("v", v)):
        if x.dtype != q.dtype or x.device != q.device:
            raise ValueError(f"{name} is {x.dtype} on {x.device}, it must be as q: {q.dtype} on {q.device}")


def check_encoding(encoding):
    if not isinstance(encoding, Encoding):
        got = f"got {type(encoding).__name__}; posenc.make(name, ...) makes one"
        raise TypeError(f"encoding={shown(encoding)} must be an Encoding or None, {got}")


def check_sizes(encoding, **sizes):
    """Raise ValueError where an encoding is made for other sizes than these."""
    for name, size in sizes.items():
        own = getattr(encoding, name)
        if own is not None and own != size:
            partly = "; rotary_dim turns a part of a head" if name == "head_dim" and encoding.rotate else ""
            raise ValueError(f"{name}={own} of the encoding must be {size} here: make it for {name}={size}{partly}")


def batched_mask(mask, batch, queries, keys, device):
    """Bring a mask to a bool tensor that broadcasts to [B, 1, Tq, Tk]."""
    words = f"[{queries}, {keys}], or broadcast to [{batch}, 1, {queries}, {keys}]"
    if not isinstance(mask, Tensor):
        raise TypeError(f"mask must be a bool tensor of shape {words}, got {type(mask).__name__}: {shown(mask)}")
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be bool, True where a query may look, got {mask.dtype}")
    check_device("mask", mask, device)
    if mask.ndim == 2 and tuple(mask.shape) == (queries, keys):
        return mask[None, None]
    sizes = ((1, batch), (1,), (1, queries), (1, keys))
    if mask.ndim != 4 or any(size not in allowed for size, allowed in zip(mask.shape, sizes)):
        raise ValueError(f"mask must have shape {words}, got {list(mask.shape)}")
    return mask


def check_turned(turned, q, k):
    """Return what an encoding's `rotate` gave, once it is a query and a key for each of those it was given."""
    shapes = [list(getattr(x, "shape", [])) for x in turned] if isinstance(turned, tuple | list) else None
    if shapes != [list(q.shape), list(k.shape)]:
        got = type(turned).__name__ if shapes is None else f"shapes {shapes}"
        raise TypeError(f"the encoding's rotate must return q {list(q.shape)} and k {list(k.shape)}, it returned {got}")
    return turned


def check_weights(weights, scores):
    """Return what an encoding's `weigh` gave, once it has the shape of the scores."""
    if not isinstance(weights, Tensor) or weights.shape != scores.shape:
        got = list(weights.shape) if isinstance(weights, Tensor) else type(weights).__name__
        raise TypeError(f"the encoding's weigh must return weights {list(scores.shape)}, it returned {got}")
    return weights


def check_out(out, weights, v):
    """Return what an encoding's `gather` gave, once it is a value for each query."""
    shape = [*weights.shape[:3], v.shape[3]]
    if not isinstance(out, Tensor) or list(out.shape) != shape:
        got = list(out.shape) if isinstance(out, Tensor) else type(out).__name__
        raise TypeError(f"the encoding's gather must return {shape}, it returned {got}")
    return out


def check_bias(bias, q, keys):
    """Return what an encoding's `bias` gave, once it broadcasts to the scores, as a tensor of four dimensions."""
    shape = (*q.shape[:3], keys)
    if isinstance(bias, int | float) and not isinstance(bias, bool):
        bias = torch.full((1, 1, 1, 1), float(bias), dtype=accumulation_dtype(q), device=q.device)
    if not isinstance(bias, Tensor):
        raise TypeError(f"the encoding's bias must return a tensor, it returned {type(bias).__name__}: {shown(bias)}")
    if bias.ndim > 4 or any(own != 1 and own != size for own, size in zip(reversed(bias.shape), reversed(shape))):
        raise ValueError(f"the encoding's bias must broadcast to {list(shape)}, it has {list(bias.shape)}")
    return bias[(None,) * (4 - bias.ndim)]


def check_visible(scores, visible, name="scores"):
    """Return `visible` in the shape of scores [..., Tq, Tk], called `name` in errors, both checked."""
    check_tensor(name, scores, "[..., Tq, Tk]", floating=True)
    if scores.ndim < 2:
        raise ValueError(f"{name} must have shape [..., Tq, Tk], got {list(scores.shape)}")
    if not isinstance(visible, Tensor) or visible.dtype != torch.bool:
        raise TypeError(f"visible must be a bool tensor, got {getattr(visible, 'dtype', type(visible).__name__)}")
    try:
        return visible.expand(scores.shape)
    except RuntimeError:
        shapes = f"{list(visible.shape)}, {name} {list(scores.shape)}"
        raise ValueError(f"visible must broadcast to {name}, got visible {shapes}") from None
