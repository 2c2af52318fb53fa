r"""Attention with position at four places. Start reading here."""

import math

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from . import kernels
from .encoding import At, Encoding, softmax
from .errors import UnsupportedError, check_bool, check_choice, check_int, check_number, check_tensor

IMPLS = ("auto", "torch", "sdpa", "triton")


def attention(
    q,
    k,
    v,
    encoding=None,
    *,
    pos_q=None,
    pos_k=None,
    causal=True,
    mask=None,
    scale=None,
    gates=None,
    impl="auto",
    return_weights=False,
):
    r"""Attend from q to k and v, with position entering where the encoding says.

    weights = weigh(scale * rotate(q) . rotate(k) + bias),  output = weights v

    Arguments:
        q: [B, H, Tq, D] queries.
        k, v: [B, Hkv, Tk, D] and [B, Hkv, Tk, Dv] keys and values; Hkv divides H (grouped queries).
        encoding: an `Encoding`; None is NoPE. Its `embed` is not applied here, it belongs to the model.
        pos_q, pos_k: positions, [T] or [B, T] ([T, n] or [B, T, n] for an encoding with n axes), integers or floats.
            Default: keys at 0 .. Tk-1 and queries at the last Tq of them. With Tq = Tk one of them serves both.
        causal: True lets query i see keys up to i + Tk - Tq, by index: positions carry geometry only.
        mask: bool, True where a query may look; [Tq, Tk], or broadcastable to [B, 1, Tq, Tk]. Padding:
            `mask=valid[:, None, None, :]`. Packing: `mask=segment[:, None, :, None] == segment[:, None, None, :]`.
        scale: factor on q.k, default 1/sqrt(D).
        gates: [B, H, Tk], for encodings that read gates.
        impl: "torch" (the lines below, which define the result), "sdpa" (PyTorch's own fused attention in the place of
            their last five), "triton" (`posenc.kernels`, in memory linear in T, no second derivatives) or "auto"; see
            `explain_impl`.
        return_weights: True returns (output, weights [B, H, Tq, Tk]).
    Returns: [B, H, Tq, Dv] in the dtype of v. A query that sees nothing gets exact zeros.
    Errors: TypeError or ValueError naming the argument; UnsupportedError where the encoding does not define what is
        asked for, or the implementation does not serve it.
    Chapter: Four places.
    """
    encoding = Encoding() if encoding is None else encoding
    _check_inputs(q, k, v, encoding, causal, scale, gates, return_weights)
    if encoding.attend is not None:  # a method that fits no place brings an attention of its own
        return encoding.attend(
            q, k, v, encoding, pos_q=pos_q, pos_k=pos_k, causal=causal, mask=mask, scale=scale, gates=gates, impl=impl,
            return_weights=return_weights,
        )  # fmt: skip
    pos_q, pos_k, mask = _place(q, k, encoding, pos_q, pos_k, mask)
    widest = max(q.shape[3], v.shape[3])
    chosen, _ = choose_impl(impl, encoding, return_weights, q.device, q.dtype, widest, (pos_q, pos_k))
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else scale
    if chosen == "triton":
        return kernels.attend(q, k, v, encoding, pos_q, pos_k, causal, mask, scale)

    at = At(pos_q, pos_k, _visible(q, k, causal, mask), gates)
    groups = q.shape[1] // k.shape[1]
    k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)  # [B, H, Tk, D]
    if encoding.rotate is not None:
        q, k = encoding.rotate(q, k, at)
    if chosen == "sdpa":
        return _sdpa(q, k, v, at, scale, plain=causal and mask is None)
    scores = (q @ k.transpose(-2, -1)).to(accumulation_dtype(q)) * scale  # [B, H, Tq, Tk]
    if encoding.bias is not None:
        scores = scores + encoding.bias(q, k, at)
    weights = (encoding.weigh or softmax)(scores, at)
    output = weights.to(v.dtype) @ v  # [B, H, Tq, Dv]
    return (output, weights) if return_weights else output


def accumulation_dtype(x):
    """The dtype for angles, logits and weights: float32, or float64 where x is float64."""
    return torch.promote_types(x.dtype, torch.float32)


def _place(q, k, encoding, pos_q, pos_k, mask):
    """Positions [B or 1, T] (or with n axes last) of queries and keys, and the mask [B or 1, 1, Tq or 1, Tk or 1]."""
    batch, queries, keys = q.shape[0], q.shape[2], k.shape[2]
    if (pos_q is None) != (pos_k is None):
        if queries != keys:
            given, missing = ("pos_k", "pos_q") if pos_q is None else ("pos_q", "pos_k")
            raise ValueError(
                f"{missing}=None: give it too, since {queries} queries and {keys} keys can't share {given}"
            )
        pos_q = pos_k = pos_q if pos_k is None else pos_k
    if pos_q is None:
        if encoding.axes is not None:
            raise ValueError(f"pos_q=None: this encoding needs positions of shape [T, {encoding.axes}]")
        pos_k = torch.arange(keys, device=q.device)
        pos_q = torch.arange(keys - queries, keys, device=q.device)
    pos_q = _batched_positions("pos_q", pos_q, batch, queries, encoding.axes)
    pos_k = _batched_positions("pos_k", pos_k, batch, keys, encoding.axes)
    return pos_q, pos_k, None if mask is None else _batched_mask(mask, batch, queries, keys)


def _visible(q, k, causal, mask):
    """What each query may see, [B or 1, 1, Tq, Tk]: causality by index, and the mask."""
    queries, keys = q.shape[2], k.shape[2]
    visible = torch.ones(1, 1, queries, keys, dtype=torch.bool, device=q.device)
    if causal:
        visible = visible.tril(keys - queries)
    return visible if mask is None else visible & mask


def _sdpa(q, k, v, at, scale, plain):
    """The softmax of q.k by PyTorch's fused function, which never holds the weights [B, H, Tq, Tk]."""
    if plain and q.shape[2] == k.shape[2]:
        return scaled_dot_product_attention(q, k, v, is_causal=True, scale=scale)
    output = scaled_dot_product_attention(q, k, v, attn_mask=at.visible, scale=scale)
    return output.masked_fill(~at.visible.any(-1, keepdim=True), 0.0)  # a query that sees nothing


def choose_impl(impl, encoding, return_weights=False, device=None, dtype=torch.float32, head_dim=64, positions=()):
    r"""Return (implementation, reason) for `impl` in `IMPLS`, from what each declares to serve; nothing is tried."""
    check_choice("impl", impl, IMPLS)
    device = torch.device("cpu") if device is None else device
    no_triton = kernels.why_not(encoding, return_weights, device, dtype, head_dim, positions)
    if impl == "triton":
        if no_triton is not None:
            raise UnsupportedError(f"impl='triton': {no_triton}; impl='torch' (or 'auto') computes it")
        return "triton", "asked for"
    if impl == "torch":
        return "torch", "asked for"
    if encoding.weigh is not None or encoding.bias is not None:
        place = "bias" if encoding.weigh is None else "weigh"
        no_sdpa = f"the encoding acts at {place!r}, which PyTorch's fused attention does not serve in every dtype"
    elif return_weights:
        no_sdpa = "return_weights=True asks for weights that fused attention never holds"
    else:
        return "sdpa", "asked for" if impl == "sdpa" else "PyTorch's fused attention serves a softmax without bias"
    if impl == "sdpa":
        raise UnsupportedError(f"impl='sdpa': {no_sdpa}; impl='torch' (or 'auto') computes it")
    no_triton = no_triton or kernels.why_slower(device)
    if no_triton is None:
        return "triton", f"{no_sdpa}; the Triton kernels do, in memory linear in the length"
    return "torch", f"{no_sdpa}, and for Triton {no_triton}"


def explain_impl(encoding=None, impl="auto", *, device=None, dtype=torch.float32, head_dim=64):
    r"""Print and return which implementation `attention` would take for this encoding, and why.

    Arguments:
        encoding, impl: as in `attention`.
        device: a torch.device or its name; default "cuda" where there is one, else "cpu".
        dtype, head_dim: of q, k and v.
    Errors: TypeError or ValueError naming the argument; UnsupportedError where `attention` would raise it.
    """
    encoding = Encoding() if encoding is None else encoding
    _check_encoding(encoding)
    if not isinstance(device, torch.device | str | None):
        raise TypeError(f"device={device!r} must be a torch.device, its name or None, got {type(device).__name__}")
    if not isinstance(dtype, torch.dtype):
        raise TypeError(f"dtype={dtype!r} must be a torch.dtype such as torch.float32")
    check_int("head_dim", head_dim)
    device = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    choice, reason = choose_impl(impl, encoding, device=device, dtype=dtype, head_dim=head_dim)
    line = f"impl={choice!r}: {reason}"
    print(line)
    return line


class KVCache:
    r"""Keys, values, positions and padding of the tokens seen so far, for decoding step by step.

    Keys are kept as they are before `rotate`: a scheme whose angles depend on the length can then turn them anew.
    """

    def __init__(self):
        self.k = self.v = self.positions = self.valid = None

    def __len__(self):
        return 0 if self.k is None else self.k.shape[2]

    def append(self, k, v, positions, valid):
        r"""Add k, v [B, Hkv, T, D], positions [B, T] or [B, T, n] and valid [B, T]; return all that is held now."""
        new = (k, v, positions, valid)
        if self.k is not None:
            old = (self.k, self.v, self.positions, self.valid)
            new = [torch.cat((a, b), dim=dim) for a, b, dim in zip(old, new, (2, 2, 1, 1))]
        self.k, self.v, self.positions, self.valid = new
        return new


class SelfAttention(nn.Module):
    r"""Multi-head self-attention with an encoding, grouped queries and a cache: the block for your own model.

    Arguments:
        dim: C, the width of the model.
        num_heads: H; `head_dim` defaults to C / H.
        encoding: an `Encoding` of its own or shared with other layers; None is NoPE.
        num_kv_heads: heads of k and v, a divisor of H; default H.
        causal, scale, impl: see `attention`.
    An encoding with `embed_at="input"` embeds in the model, before the first layer, not here.
    Errors: TypeError or ValueError naming the argument.
    Chapter: Four places.
    """

    def __init__(
        self, dim, num_heads, encoding=None, *, num_kv_heads=None, head_dim=None, causal=True, scale=None,
        bias=False, impl="auto",
    ):  # fmt: skip
        super().__init__()
        check_int("dim", dim)
        check_int("num_heads", num_heads)
        if head_dim is None and dim % num_heads:
            raise ValueError(f"num_heads={num_heads} must divide dim={dim}, or give head_dim")
        head_dim = dim // num_heads if head_dim is None else head_dim
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        check_int("head_dim", head_dim)
        check_int("num_kv_heads", num_kv_heads)
        if num_heads % num_kv_heads:
            raise ValueError(f"num_kv_heads={num_kv_heads} must divide num_heads={num_heads}")
        if encoding is not None:
            _check_encoding(encoding)
        check_bool("causal", causal)
        check_bool("bias", bias)
        if scale is not None:
            check_number("scale", scale)
        check_choice("impl", impl, IMPLS)
        self.dim, self.num_heads, self.num_kv_heads, self.head_dim = dim, num_heads, num_kv_heads, head_dim
        self.causal, self.scale, self.impl = causal, scale, impl
        self.encoding = Encoding() if encoding is None else encoding
        self.to_q = nn.Linear(dim, num_heads * head_dim, bias=bias)
        self.to_k = nn.Linear(dim, num_kv_heads * head_dim, bias=bias)
        self.to_v = nn.Linear(dim, num_kv_heads * head_dim, bias=bias)
        self.to_out = nn.Linear(num_heads * head_dim, dim, bias=bias)

    def forward(self, x, *, positions=None, mask=None, valid=None, cache=None, return_weights=False):
        r"""Mix the tokens of x [B, T, C].

        Arguments:
            positions: [T] or [B, T] (or with n axes last); default counts on from the cache's length.
            mask: as in `attention`, over all keys including cached ones.
            valid: [B, T] bool, False at padding; kept with the cache.
            cache: a `KVCache`, extended in place.
        Returns: [B, T, C], or (that, weights [B, H, T, Tk]) with `return_weights`.
        """
        check_tensor("x", x, f"[B, T, {self.dim}]", ndim=3, floating=True)
        if x.shape[-1] != self.dim:
            raise ValueError(f"x must have shape [B, T, {self.dim}], got {list(x.shape)}")
        if cache is not None and not isinstance(cache, KVCache):
            raise TypeError(f"cache={cache!r} must be a KVCache or None, got {type(cache).__name__}")
        batch, length, _ = x.shape
        start = 0 if cache is None else len(cache)
        if positions is None and self.encoding.axes is None:
            positions = torch.arange(start, start + length, device=x.device)
        elif positions is None:
            raise ValueError(f"positions=None: this encoding needs positions of shape [T, {self.encoding.axes}]")
        positions = _batched_positions("positions", positions, batch, length, self.encoding.axes)

        xqk = xv = x
        if self.encoding.embed is not None and self.encoding.embed_at != "input":
            xqk = self.encoding.embed(x, positions)
            xv = xqk if self.encoding.embed_at == "layer_qkv" else x
        q = self.to_q(xqk).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)  # [B, H, T, D]
        k = self.to_k(xqk).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)  # [B, Hkv, T, D]
        v = self.to_v(xv).unflatten(-1, (self.num_kv_heads, -1)).transpose(1, 2)

        pos_k = positions
        if cache is not None or valid is not None:
            valid = torch.ones(batch, length, dtype=torch.bool, device=x.device) if valid is None else valid
            if not isinstance(valid, Tensor):
                raise TypeError(f"valid={valid!r} must be a bool tensor of shape {[batch, length]}")
            if valid.shape != (batch, length) or valid.dtype != torch.bool:
                raise ValueError(
                    f"valid must be bool of shape {[batch, length]}, got {valid.dtype} {list(valid.shape)}"
                )
        if cache is not None:
            pos_all = positions.expand(batch, *positions.shape[1:])
            k, v, pos_k, valid = cache.append(k, v, pos_all, valid)
        if valid is not None:
            padding = valid[:, None, None, :]  # [B, 1, 1, Tk]
            mask = padding if mask is None else padding & _batched_mask(mask, batch, length, k.shape[2])
        result = attention(
            q, k, v, self.encoding, pos_q=positions, pos_k=pos_k, causal=self.causal, mask=mask, scale=self.scale,
            impl=self.impl, return_weights=return_weights,
        )  # fmt: skip
        out, weights = result if return_weights else (result, None)
        out = self.to_out(out.transpose(1, 2).flatten(2))  # [B, T, C]
        return (out, weights) if return_weights else out


def _check_qkv(q, k, v):
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


def _check_inputs(q, k, v, encoding, causal, scale, gates, return_weights):
    _check_qkv(q, k, v)
    _check_encoding(encoding)
    check_bool("causal", causal)
    check_bool("return_weights", return_weights)
    if not causal and encoding.causal_only:
        raise UnsupportedError(f"causal=False: {encoding.causal_only}")
    if scale is not None:
        check_number("scale", scale)
    if gates is not None:
        check_tensor("gates", gates, "[B, H, Tk]", ndim=3, floating=True)
        if gates.shape != (q.shape[0], q.shape[1], k.shape[2]):
            expected = [q.shape[0], q.shape[1], k.shape[2]]
            raise ValueError(f"gates must have shape [B, H, Tk] = {expected}, got {list(gates.shape)}")


def _check_encoding(encoding):
    if not isinstance(encoding, Encoding):
        raise TypeError(
            f"encoding={encoding!r} must be an Encoding or None, got {type(encoding).__name__}; "
            f"posenc.make(name, ...) makes one"
        )


def _batched_positions(name, positions, batch, length, axes):
    """Bring positions [T], [B, T], [T, n] or [B, T, n] to [B or 1, T] or [B or 1, T, n]."""
    tail = () if axes is None else (axes,)
    shapes = f"{[length, *tail]} or {[batch, length, *tail]}"
    check_tensor(name, positions, shapes)
    if tuple(positions.shape) == (length, *tail):
        return positions[None]
    if (
        positions.ndim != 2 + len(tail)
        or positions.shape[0] not in (1, batch)
        or positions.shape[1:] != (length, *tail)
    ):
        raise ValueError(f"{name} must have shape {shapes}, got {list(positions.shape)}")
    return positions


def _batched_mask(mask, batch, queries, keys):
    """Bring a mask to a bool tensor that broadcasts to [B, 1, Tq, Tk]."""
    words = f"[{queries}, {keys}], or broadcast to [{batch}, 1, {queries}, {keys}]"
    if not isinstance(mask, Tensor):
        raise TypeError(f"mask must be a bool tensor of shape {words}, got {type(mask).__name__}: {mask!r}")
    if mask.dtype != torch.bool:
        raise TypeError(f"mask must be bool, True where a query may look, got {mask.dtype}")
    if mask.ndim == 2 and tuple(mask.shape) == (queries, keys):
        return mask[None, None]
    sizes = ((1, batch), (1,), (1, queries), (1, keys))
    if mask.ndim != 4 or any(size not in allowed for size, allowed in zip(mask.shape, sizes)):
        raise ValueError(f"mask must have shape {words}, got {list(mask.shape)}")
    return mask
