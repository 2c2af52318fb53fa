r"""Attention with position where an encoding puts it. Start reading here."""

import math

import torch

from .encoding import At, Encoding, softmax, weighted_sum
from .impls import by_kernels, choose_impl, fused_softmax
from .inputs import accumulation_dtype, check_bias, check_inputs, check_out, check_turned, check_weights, visible_keys
from .positions import place_tokens

NOPE = Encoding()


def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    encoding: Encoding | None = None,
    *,
    pos_q: torch.Tensor | None = None,
    pos_k: torch.Tensor | None = None,
    causal: bool = True,
    mask: torch.Tensor | None = None,
    scale: float | None = None,
    gates: torch.Tensor | None = None,
    impl: str = "auto",
    return_weights: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    r"""Attend from q to k and v, with position entering where the encoding says.

    weights = weigh(scale * rotate(q) . rotate(k) + bias),  output = gather(weights, v)

    Where an encoding leaves a place empty, weigh is the softmax, gather the product, and the others do nothing.

    Arguments:
        q: [B, H, Tq, D] queries.
        k, v: [B, Hkv, Tk, D] and [B, Hkv, Tk, Dv] keys and values; Hkv divides H (grouped queries).
        encoding: an `Encoding`; None is NoPE. Its `embed` is not applied here, it belongs to the model.
        pos_q, pos_k: positions, [T] or [B, T] ([T, n] or [B, T, n] for an encoding with n axes): integers, float32 or
            float64, finite (which is asked of tensors on a CPU, outside of graphs; with axes NaN says "no place").
            Default: keys at 0 .. Tk-1 and queries at the last Tq of them. With Tq = Tk one of them serves both.
        causal: True lets query i see keys up to i + Tk - Tq, by index: positions carry geometry only.
        mask: bool, True where a query may look; [Tq, Tk], or broadcastable to [B, 1, Tq, Tk]. Padding:
            `mask=valid[:, None, None, :]`. Packing: `mask=segment[:, None, :, None] == segment[:, None, None, :]`.
        scale: factor on q.k, any finite number, 0 and below too; default 1/sqrt(D).
        gates: [B, H, Tk], for encodings that read them: log f of each key for FoX, at most 0.
        impl: "torch" (the lines below, which define the result), "sdpa" (PyTorch's own fused attention in the place of
            their last five), "triton" (`posenc.kernels`, in memory linear in T) or "auto"; see `explain_impl`. Second
            derivatives come from "torch" alone.
        return_weights: True returns (output, weights [B, H, Tq, Tk]).
    Returns: [B, H, Tq, Dv] in the dtype of v. A query that sees nothing gets exact zeros. One that holds NaN gets NaN
        with impl="torch"; with "sdpa" it may get zeros: PyTorch's function hides it from some sizes (pytorch#141128).
    Errors: TypeError or ValueError naming the argument; UnsupportedError where the encoding does not define what is
        asked for, or the implementation does not serve it.
    Chapter: Four places.
    """
    encoding = NOPE if encoding is None else encoding
    check_inputs(q, k, v, encoding, causal, scale, gates, return_weights)
    if encoding.attend is not None:  # a method that fits no place brings an attention of its own
        told = dict(pos_q=pos_q, pos_k=pos_k, causal=causal, mask=mask, scale=scale, gates=gates, impl=impl)
        return encoding.attend(q, k, v, encoding, return_weights=return_weights, **told)
    pos_q, pos_k, mask = place_tokens(q, k, encoding, pos_q, pos_k, mask)
    widest = max(q.shape[3], v.shape[3])
    lengths = q.shape[2], k.shape[2]
    chosen, _ = choose_impl(impl, encoding, return_weights, q.device, q.dtype, widest, (pos_q, pos_k), lengths)
    scale = 1 / math.sqrt(q.shape[-1]) if scale is None else float(scale)
    if chosen == "triton":
        return by_kernels(q, k, v, encoding, pos_q, pos_k, causal, mask, scale, gates)

    at = At(pos_q, pos_k, visible_keys(q, k, causal, mask), gates)
    if (groups := q.shape[1] // k.shape[1]) > 1:
        k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)  # [B, H, Tk, D]
    if encoding.rotate is not None:
        q, k = check_turned(encoding.rotate(q, k, at), q, k)
    if chosen == "sdpa":
        return fused_softmax(q, k, v, encoding.bias, at, scale, causal, mask)
    scores = (q @ k.transpose(-2, -1)).to(accumulation_dtype(q)) * scale  # [B, H, Tq, Tk]
    if encoding.bias is not None:
        scores = scores + check_bias(encoding.bias(q, k, at._replace(scores=scores)), q, k.shape[2])
    weights = check_weights((encoding.weigh or softmax)(scores, at), scores)
    output = check_out((encoding.gather or weighted_sum)(weights, v, at), weights, v)  # [B, H, Tq, Dv]
    return (output, weights) if return_weights else output
