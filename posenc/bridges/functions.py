r"""An encoding as the arguments of attention that is not ours: PyTorch's FlexAttention and fused attention."""

import torch

from ..bias.alibi import LinearBias
from ..bias.fox import Forgetting, at_queries, sums
from ..bias.kerple import DistanceKernel
from ..bias.t5 import TableBias
from ..encoding import At, Encoding
from ..errors import UnsupportedError
from ..inputs import accumulation_dtype, check_bias, check_encoding, check_inputs, check_qkv, check_sizes, visible_keys
from ..positions import place_tokens, whole
from ..several.rse import Penalty

ELSEWHERE = {  # what to do with a place that a bridge does not serve
    "embed": "it belongs to the model: posenc.embed_input adds it to the embeddings; give encoding.in_layers() here",
    "rotate": "turn q and k first: q, k, rest = posenc.bridges.turn(encoding, q, k), and give the rest here",
    "weigh": "it stands in for the softmax, which this function makes itself; posenc.attention and attach serve it",
    "gather": "it stands in for the sum of values, which this function makes; posenc.attention and attach serve it",
    "attend": "it is an attention of its own; posenc.attention calls it",
    "gates": "the layers of the model make none; posenc.SelfAttention does",
    "axes": "its positions have several coordinates, those of the model have one",
}


def only(encoding, bridge, *served):
    """Raise UnsupportedError where an encoding holds anything of ELSEWHERE that is not among `served`."""
    check_encoding(encoding)
    for what, remedy in ELSEWHERE.items():
        if getattr(encoding, what) is not None and what not in served:
            raise UnsupportedError(f"{bridge} does not serve an encoding with {what!r}: {remedy}")


def turn(encoding, q, k, *, pos_q=None, pos_k=None):
    r"""Do what an encoding does at `rotate`, and return what is left of it: q, k and an `Encoding` without rotation.

    Serves every encoding without an attention of its own; q and k come back as they are where it does not rotate.

    Arguments: as in `posenc.attention`.
    Returns: q [B, H, Tq, D], k [B, Hkv, Tk, D], and the `Encoding` that `flex` and `sdpa_bias` take for them. From a
        rotation that may turn each head otherwise (rope2d's form "mixed"; LieRE and xPos too) k is [B, H, Tk, D]:
        repeat v as well, `v.repeat_interleave(H // Hkv, dim=1)`, where k and v must have as many heads.
    Errors: TypeError, ValueError naming the argument; UnsupportedError for a method that brings its own attention.
    Convention: whoever caches keys that are turned must not turn them again, and needs frequencies that stay.
    Chapter: In your own model.
    """
    encoding = Encoding() if encoding is None else encoding
    check_qkv(q, k, k)
    only(encoding, "turn", "rotate", "weigh", "gather", "gates", "axes")
    check_sizes(encoding, num_heads=q.shape[1], head_dim=q.shape[3])
    pos_q, pos_k, _ = place_tokens(q, k, encoding, pos_q, pos_k, None)
    kept = ("bias", "weigh", "gather", "gates", "causal_only", "num_heads", "head_dim")
    rest = Encoding(**{name: getattr(encoding, name) for name in kept})
    if encoding.rotate is not None:
        if not getattr(encoding.rotate, "turns_alone", False):  # it is promised the heads of q, as in `attention`
            k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
        q, k = encoding.rotate(q, k, At(pos_q, pos_k, None))
    return q, k, rest


def sdpa_bias(encoding, q, k, *, pos_q=None, pos_k=None, causal=True, mask=None, scale=None, gates=None):
    r"""The bias of an encoding with causality and mask in it, as `attn_mask` of `scaled_dot_product_attention`.

    bias_ij where query i may see key j, else -inf

    Serves every encoding whose only place is `bias`, and none at all (NoPE). For one that rotates too, `turn` first:

        q, k, rest = turn(encoding, q, k)
        out = scaled_dot_product_attention(q, k, v, attn_mask=sdpa_bias(rest, q, k), enable_gqa=True)

    Arguments: as in `posenc.attention`; give the fused function the same scale, and no `is_causal`.
    Returns: [B or 1, H, Tq, Tk] in the dtype of q, with its gradient; as large as the scores are.
    Errors: TypeError, ValueError naming the argument; UnsupportedError where the encoding acts elsewhere.
    Convention: 16 bits round large biases. A query that sees nothing is up to the fused function.
    Chapter: In your own model.
    """
    encoding = Encoding() if encoding is None else encoding
    check_inputs(q, k, k, encoding, causal, scale, gates, False)
    only(encoding, "sdpa_bias", "gates")
    pos_q, pos_k, mask = place_tokens(q, k, encoding, pos_q, pos_k, mask)
    visible = visible_keys(q, k, causal, mask)
    bias = torch.zeros((), dtype=accumulation_dtype(q), device=q.device)
    if encoding.bias is not None:
        k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
        scores = (q @ k.transpose(-2, -1)).to(bias.dtype) * (q.shape[-1] ** -0.5 if scale is None else scale)
        bias = check_bias(encoding.bias(q, k, At(pos_q, pos_k, visible, gates, scores)), q, k.shape[2])
    shape = torch.broadcast_shapes(bias.shape, visible.shape)
    return bias.to(q.dtype).expand(shape[0], q.shape[1], *shape[2:]).masked_fill(~visible, float("-inf"))


def flex(encoding, q, k, *, pos_q=None, pos_k=None, causal=True, mask=None, gates=None):
    r"""An encoding as (score_mod, mask_mod) of FlexAttention, which compiled holds nothing of the size of the scores.

    score_mod(score, b, h, i, j) = score + bias_hij,  mask_mod(b, h, i, j) = whether query i may see key j

    Serves these biases, functions of head and positions or gates: ALiBi, T5, KERPLE, RSE's penalty, FoX; and no
    bias at all (NoPE), where score_mod is None. For one that rotates too, `turn` first, as for `sdpa_bias`.

    Arguments: as in `posenc.attention`. Of q and k only shapes, dtype and device are read.
    Returns: (score_mod, mask_mod) for `flex_attention(q, k, v, score_mod, block_mask=create_block_mask(mask_mod, B,
        None, Tq, Tk))`. Positions and parameters are read now: make them anew in each step of training. A mask is
        held in the shape it is given, as a copy: [Tq, Tk] is held whole, padding [B, 1, 1, Tk] is not spread out.
    Errors: TypeError, ValueError naming the argument; UnsupportedError for another encoding.
    Chapter: In your own model.
    """
    encoding = Encoding() if encoding is None else encoding
    check_inputs(q, k, k, encoding, causal, None, gates, False)
    only(encoding, "flex", "gates")
    if encoding.bias is not None and type(encoding.bias) not in SCORE_MODS:
        served = "it serves ALiBi, T5, KERPLE, RSE's penalty and FoX; sdpa_bias makes the whole bias of any other"
        raise UnsupportedError(f"flex knows no {type(encoding.bias).__name__} as a function of positions: {served}")
    pos_q, pos_k, mask = place_tokens(q, k, encoding, pos_q, pos_k, mask)
    queries, keys = q.shape[2], k.shape[2]
    # Copies: compiled for a CPU, FlexAttention reads no buffer of stride 0.
    at = At(*(x.clone(memory_format=torch.contiguous_format) for x in (pos_q, pos_k)), None, gates)
    mask = None if mask is None else mask.clone(memory_format=torch.contiguous_format)

    def mask_mod(b, h, i, j):
        seen = j <= i + (keys - queries) if causal else j >= 0
        return seen if mask is None else seen & _read(mask, b, 0, i, j)

    return None if encoding.bias is None else SCORE_MODS[type(encoding.bias)](encoding.bias, q, at), mask_mod


def _read(x, *index):
    """The entry of x that broadcasts: index 0 on axes of size 1."""
    return x[tuple(0 if size == 1 else n for size, n in zip(x.shape, index))]


def _linear(bias, q, at):
    symmetric = isinstance(bias, Penalty) or bias.symmetric
    slopes = bias.rate.to(q.device).repeat(q.shape[1]) if isinstance(bias, Penalty) else bias.here("slopes", q)

    def score_mod(score, b, h, i, j):
        distance = _read(at.pos_q, b, i) - _read(at.pos_k, b, j)
        return score - slopes[h] * (distance.abs() if symmetric else distance)

    return score_mod


def _table(bias, q, at):
    pos_q, pos_k, far = whole("pos_q", at.pos_q), whole("pos_k", at.pos_k), bias.max_distance
    table = bias.by_offset(q, torch.arange(-far, far + 1, device=q.device))  # [H, 2 far + 1], constant beyond its ends

    def score_mod(score, b, h, i, j):
        offset = _read(pos_k, b, j) - _read(pos_q, b, i)
        return score + table[h, offset.clamp(-far, far) + far]

    return score_mod


def _kerple(bias, q, at):
    r1, r2 = (log.to(accumulation_dtype(q)).exp() for log in (bias.log_r1, bias.log_r2))

    def score_mod(score, b, h, i, j):
        distance = (_read(at.pos_q, b, i) - _read(at.pos_k, b, j)).abs().to(r1.dtype)
        if bias.form == "log":
            return score - r1[h] * torch.log1p(r2[h] * distance)
        apart = distance > 0
        return score - r1[h] * torch.where(apart, torch.where(apart, distance, 1.0) ** r2[h].clamp(max=2), 0.0)

    return score_mod


def _decay(bias, q, at):
    exact = sums(at.gates)
    c = exact.to(accumulation_dtype(q))  # and what it lost, without which a small difference would lose it too
    rest = (exact - c).detach().to(c.dtype)
    c_q, rest_q = (at_queries(x, q.shape[2]).clone() for x in (c, rest))
    return lambda score, b, h, i, j: score + ((c_q[b, h, i] - c[b, h, j]) + (rest_q[b, h, i] - rest[b, h, j]))


SCORE_MODS = {LinearBias: _linear, Penalty: _linear, TableBias: _table, DistanceKernel: _kerple, Forgetting: _decay}
