r"""An encoding in code that is not ours: PyTorch's FlexAttention and fused attention, models of transformers.

Nothing here imports transformers before it is needed, and posenc never depends on it.
"""

import functools
import inspect
import itertools
from typing import NamedTuple

import torch
from torch import nn

from .attention import attention
from .bias.alibi import LinearBias
from .bias.fox import Forgetting, at_queries, sums
from .bias.kerple import DistanceKernel
from .bias.t5 import TableBias
from .encoding import At, Encoding
from .errors import UnsupportedError, check_bool, check_choice, shown, whole
from .inputs import (
    accumulation_dtype,
    check_bias,
    check_encoding,
    check_inputs,
    check_qkv,
    check_sizes,
    place_tokens,
    visible_keys,
)
from .rotate.rope import LAYOUTS, Rotary, rope, rotate
from .several.rse import Penalty

ELSEWHERE = {  # what to do with a place that a bridge does not serve
    "embed": "it belongs to the model: posenc.embed_input adds it to the embeddings; give encoding.in_layers() here",
    "rotate": "turn q and k first: q, k, rest = posenc.bridges.turn(encoding, q, k), and give the rest here",
    "weigh": "it stands in for the softmax, which this function makes itself; posenc.attention and attach serve it",
    "attend": "it is an attention of its own; posenc.attention calls it",
    "gates": "the layers of the model make none; posenc.SelfAttention does",
    "axes": "its positions have several coordinates, those of the model have one",
}
FITTING = "the chapter In your own model has a table of those that fit"
TRIED_AT = (1, 2, 3, 5, 50, 500, 4000, 4001)  # of the tokens that a model is tried with: slow lanes turn, too


def _only(encoding, bridge, *served):
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
    _only(encoding, "turn", "rotate", "weigh", "gates", "axes")
    check_sizes(encoding, num_heads=q.shape[1], head_dim=q.shape[3])
    pos_q, pos_k, _ = place_tokens(q, k, encoding, pos_q, pos_k, None)
    kept = ("bias", "weigh", "gates", "causal_only", "num_heads", "head_dim")
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
    _only(encoding, "sdpa_bias", "gates")
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

    Serves the biases that are a function of head and positions or gates: ALiBi, T5, KERPLE, RSE's penalty, FoX; and no
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
    _only(encoding, "flex", "gates")
    if encoding.bias is not None and type(encoding.bias) not in SCORE_MODS:
        raise UnsupportedError(
            f"flex does not know {type(encoding.bias).__name__} as a function of head and positions or gates; "
            f"it serves ALiBi, T5, KERPLE, RSE's penalty and FoX, and sdpa_bias makes the whole bias of any other"
        )
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
    slopes = bias.rate.to(q.device).repeat(q.shape[1]) if isinstance(bias, Penalty) else bias.slopes_for(q)

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


def attach(model, encoding):
    r"""Put an encoding into a model of transformers in place of its rotation, in training and in generation.

    Registers "posenc" as attention function and mask function of transformers, sets it, and makes the model's own
    rotation a turn by zero. Serves `rotate`, `bias` and `weigh` without gates, in decoders whose layers ask
    `ALL_ATTENTION_FUNCTIONS`, take `past_key_values`, and whose module `rotary_emb` gives (cosines, sines). The chapter
    has a table of all types. Before anything is changed the model reads eight tokens twice, with its rotation and
    without, and the encoding is tried on its queries and keys: what does not fit is refused now.

    Arguments:
        model: a PreTrainedModel with its weights, changed in place. Its cache may not be a static one.
        encoding: an `Encoding` that all layers share (as T5's table); a list with one for each layer that attends; or a
            function of `layer_idx` that gives it. None is NoPE. Where layers differ in their own rotation, one for all
            is refused: `read_rope(model, each=True)` is the list of what they do. Where the last lanes of a head turn
            (latent attention, DeepSeek-V3), `rotate` is given those alone: make it for so many lanes.
    Returns: the model; parameters of the encoding are its own, as `model.posenc`.
    Errors: TypeError, ValueError naming the argument; ImportError without transformers; UnsupportedError for an
        encoding or a model that does not fit.
    Convention: keys go into the model's cache as they are before rotation, their positions stay beside them. A cache
        filled before `attach` holds turned keys and is refused. `from_pretrained` knows no `model.posenc`: to load what
        was trained with an encoding, `attach` it to a new model and `load_state_dict` after. Another attention than
        "posenc", set later, is refused in the next call: the model's own rotation stays silent.
    Chapter: In your own model.
    """
    heard = _hear(model)
    for one in heard:
        _positions(one.layer, one.told)
        if any(part.endswith("indexer") for part, _ in one.layer.named_modules()):
            raise UnsupportedError(
                f"model={type(model).__name__}: its {type(one.layer).__name__} chooses keys by an indexer, which turns "
                f"by the same rotary_emb; {FITTING}"
            )
        if "past_key_values" not in inspect.signature(one.layer.forward).parameters:
            raise UnsupportedError(
                f"model={type(model).__name__}: its {type(one.layer).__name__} takes no past_key_values, where attach "
                f"looks for the cache; {FITTING}"
            )
    if callable(encoding) and not isinstance(encoding, nn.Module):
        encoding = [encoding(one.layer.layer_idx) for one in heard]
    encodings = list(encoding) if isinstance(encoding, list | tuple) else [encoding]
    encodings = [Encoding() if one is None else one for one in encodings]
    if len(encodings) not in (1, len(heard)):
        raise ValueError(
            f"encoding holds {len(encodings)} encodings for {len(heard)} layers; give one for each, or one"
        )
    for one in encodings:
        _only(one, "attach", "rotate", "weigh", "attend")
    if not isinstance(encoding, list | tuple) and (encodings[0].places or encodings[0].attend):
        _refuse_differing(model, heard)
    each = encodings * (len(heard) // len(encodings))
    at = torch.arange(len(TRIED_AT))[None]
    for one, own in zip(heard, each):  # whatever it does not take is refused before the model has changed
        if own.rotate is not None:  # where ours acts, theirs must be a turn and no more
            _turn_of(model, _rotation(model, each=True), one, LAYOUTS)
        device = next((parameter.device for parameter in own.parameters()), one.plain[0].device)
        q, k, v, mask = (None if x is None else x.to(device) for x in (*one.plain, one.mask))
        with torch.no_grad():
            place = {"encoding": own, "first": one.first, "pos_q": at.to(device), "pos_k": at.to(device)}
            _attend(one.layer, q, k, v, mask, **one.options | place)
    model.set_attn_implementation("posenc")
    model.posenc = nn.ModuleList(encodings)
    for rotation in _rotations(model):
        rotation.register_forward_hook(_unturned)
    for one, own in zip(heard, each):
        tell = functools.partial(_tell_layer, own, one.first)
        one.layer.register_forward_pre_hook(tell, with_kwargs=True)
    return model


def _refuse_differing(model, heard):
    """Raise UnsupportedError where layers turn differently, and one encoding was given for all."""
    kinds = []
    for one in heard:
        for first, numbers in kinds:
            if one.turns_as(first):
                numbers.append(one.layer.layer_idx)
                break
        else:
            kinds.append((one, [one.layer.layer_idx]))
    if len(kinds) > 1:
        said = "; ".join(f"{shown(n)} {'do not turn' if one.first is None else 'turn alike'}" for one, n in kinds)
        raise UnsupportedError(
            f"model={type(model).__name__}: its layers differ, {said}. Give a list with an encoding for each, or a "
            f"callable layer -> encoding; read_rope(model, each=True) is the list of its own, and "
            f"[encoding] * {len(heard)} says that one is meant for all"
        )


class _Heard(NamedTuple):
    """What a layer gives its attention for tokens at TRIED_AT: (q, k, v) turned by its own rotation, and without it."""

    layer: nn.Module
    own: tuple
    plain: tuple
    first: int | None  # the first lane that turns; None where none does
    told: dict  # what the layer is called with, and what it calls attention with
    mask: torch.Tensor | None
    options: dict

    def turns_as(self, other):
        """Whether both turn the same lanes by the same angles, or none."""
        given = [one.told.get("position_embeddings") for one in (self, other)]
        if self.first is None or any(one is None for one in given):
            return self.first == other.first
        return self.first == other.first and all(map(torch.equal, *given))


def _hear(model):
    """How each layer of a model turns, found by comparing; whatever `attach` does not serve is refused in words."""
    try:
        import transformers
        from transformers.masking_utils import sdpa_mask
    except ImportError as error:
        raise ImportError("attach needs transformers, 5 or newer: pip install 'transformers>=5'") from error
    _check_model(model)
    name = f"model={type(model).__name__}"
    if hasattr(model, "posenc"):
        raise ValueError(
            "model.posenc is there: attach was called before and silenced its rotation, take a fresh model"
        )
    layers = [module for module in model.modules() if hasattr(module, "layer_idx") and hasattr(module, "scaling")]
    if not isinstance(model, transformers.PreTrainedModel) or not layers or not _rotations(model):
        raise UnsupportedError(f"{name} has no rotary_emb that attach could replace in its layers; {FITTING}")
    if any(parameter.is_meta for parameter in model.parameters()):
        raise UnsupportedError(f"{name} is on the device 'meta' and has no weights to be tried with: load them first")
    transformers.AttentionInterface.register("posenc", _attend)
    transformers.AttentionMaskInterface.register("posenc", sdpa_mask)
    try:
        own, plain = _listen(model, layers, silent=False), _listen(model, layers, silent=True)
    except Exception as error:  # whatever a strange model raises: it wants something else
        said = f"{error}" if isinstance(error, UnsupportedError) else f"{type(error).__name__}: {error}"
        raise UnsupportedError(f"{name}, tried with {len(TRIED_AT)} tokens: {said}; {FITTING}") from error
    heard = []
    for layer in layers:
        if layer not in plain:
            raise UnsupportedError(f"{name}: its {type(layer).__name__} asks no ALL_ATTENTION_FUNCTIONS; {FITTING}")
        (turned, told, mask, options), (still, *_) = own[layer], plain[layer]
        if not torch.equal(turned[2], still[2]):
            raise UnsupportedError(f"{name}: its {type(layer).__name__} turns its values, too; {FITTING}")
        lanes = (turned[0] != still[0]).flatten(0, 2).any(0).nonzero()
        heard.append(_Heard(layer, turned, still, int(lanes[0]) if len(lanes) else None, told, mask, options))
    return heard


def _listen(model, layers, silent):
    """{layer: ((q, k, v), ...)} as in _Heard, for tokens at TRIED_AT. Attention gives zeros: no layer hears another."""
    heard = {}

    def tell(layer, args, kwargs):
        if layer in heard:
            raise UnsupportedError(f"it calls {type(layer).__name__} again in one forward, where attach counts one")

        def note(given, mask, options):
            heard[layer], (q, _, v) = (given, kwargs, mask, options), given
            return q.new_zeros(q.shape[0], q.shape[2], q.shape[1], v.shape[-1]), None

        return args, kwargs | {"note": note}

    rotations, chosen = _rotations(model), model.config._attn_implementation
    modes = [(module, module.training) for module in model.modules()]
    types = [(rotation, rotation.rope_type) for rotation in rotations if hasattr(rotation, "rope_type")]
    hooks = [layer.register_forward_pre_hook(tell, with_kwargs=True) for layer in layers]
    hooks += [rotation.register_forward_hook(_unturned) for rotation in rotations if silent]
    ids = torch.arange(len(TRIED_AT), device=model.device)[None] % model.get_input_embeddings().num_embeddings
    try:
        model.set_attn_implementation("posenc")
        model.eval()
        for rotation, kind in types:  # so that dynamic ones keep the frequencies that they have
            rotation.rope_type = dict.fromkeys(kind, "default") if isinstance(kind, dict) else "default"
        with torch.no_grad():
            model(input_ids=ids, position_ids=torch.tensor([TRIED_AT], device=model.device), use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
        for rotation, kind in types:
            rotation.rope_type = kind
        for module, mode in modes:
            module.training = mode
        model.set_attn_implementation(chosen)
    return heard


def _rotations(model):
    return [module for name, module in model.named_modules() if name.endswith("rotary_emb")]


def _check_model(model):
    if not isinstance(model, nn.Module) or not hasattr(model, "set_attn_implementation"):
        raise TypeError(
            f"model must be a PreTrainedModel of transformers, not its name, class or configuration; "
            f"got {type(model).__name__}"
        )


def _unturned(rotation, inputs, output):
    """Cosines of one and sines of zero, in place of the model's own."""
    if not isinstance(output, tuple) or len(output) != 2:
        raise UnsupportedError("its rotary_emb does not give (cosines, sines), which attach replaces")
    cos, sin = output
    return torch.ones_like(cos), torch.zeros_like(sin)


def _tell_layer(encoding, first, layer, args, kwargs):
    """Add to what a layer passes on to its attention function: the encoding, and where all its keys stand, [B, Tk]."""
    chosen = layer.config._attn_implementation
    if chosen != "posenc":
        raise UnsupportedError(
            f"attn_implementation={chosen!r} knows nothing of the encoding that attach put in the place of the model's "
            f"rotation: model.set_attn_implementation('posenc'), or take a model without attach"
        )
    cache, pos_q = kwargs.get("past_key_values"), _positions(layer, kwargs)
    pos_k = pos_q
    if cache is not None:
        held = cache.__dict__.setdefault("posenc_positions", {})
        past, before = cache.get_seq_length(layer.layer_idx), held.get(layer.layer_idx)
        if past > (0 if before is None else before.shape[1]):
            raise ValueError(f"past_key_values holds {past} keys that attach did not see: begin with a new cache")
        if past:  # fewer than held where the cache was cropped
            rows = max(before.shape[0], pos_k.shape[0])
            pos_k = torch.cat((before[:, :past].expand(rows, -1), pos_k.expand(rows, -1)), dim=1)
        held[layer.layer_idx] = pos_k
    return args, kwargs | {"encoding": encoding, "first": first, "pos_q": pos_q, "pos_k": pos_k}


def _positions(layer, kwargs):
    """Where the tokens stand that a layer is called with, [B, T]."""
    given = kwargs.get("position_ids")
    if given is None or given.ndim != 2:
        raise UnsupportedError(f"{type(layer).__name__} is given no position_ids [B, T]: attach serves no such model")
    return given


def _attend(module, query, key, value, attention_mask, *, note=None, encoding=None, first=None, **options):
    """`posenc.attention` as transformers calls it; returns [B, T, H, D] and no weights."""
    if note is not None:
        return note((query, key, value), attention_mask, options)
    if "pos_q" not in options:
        raise UnsupportedError(f"{type(module).__name__} tells its attention no positions: attach serves no such model")
    pos_q, pos_k = options["pos_q"], options["pos_k"]
    asked = [name for name in ("softcap", "s_aux", "position_bias") if options.get(name) is not None]
    if attention_mask is not None and attention_mask.dtype != torch.bool:
        asked.append("mask that is a bias")
    if asked or options.get("dropout"):
        raise UnsupportedError(f"attach serves no {(asked or ['dropout'])[0]} in attention, which this model asks for")
    if key.shape[2] > pos_k.shape[1]:
        raise UnsupportedError(f"past_key_values gives {key.shape[2]} keys of {pos_k.shape[1]}: it may not be static")
    pos_k = pos_k[:, -key.shape[2] :]  # a sliding window has dropped the first
    if first and encoding.rotate is not None:  # latent attention, where the last lanes turn
        q, k, encoding = turn(encoding, query[..., first:], key[..., first:], pos_q=pos_q, pos_k=pos_k)
        query, key = torch.cat((query[..., :first], q), dim=-1), torch.cat((key[..., :first], k), dim=-1)
        encoding.head_dim = None
    causal = options.get("is_causal")
    out = attention(
        query,
        key,
        value,
        encoding,
        pos_q=pos_q,
        pos_k=pos_k,
        causal=getattr(module, "is_causal", True) if causal is None else causal,
        mask=attention_mask,
        scale=options.get("scaling"),
    )
    return out.transpose(1, 2).contiguous(), None


def write_rope(model, encoding):
    r"""Turn a model of transformers by the frequencies and the attention factor of an encoding, `rope(...)`.

    write_rope(model, rope(head_dim, inv_freq=frequencies, attention_factor=factor))

    Serves RoPE with fixed frequencies, by any scheme of `posenc.scaling`. The `layout` of the encoding is not written:
    the model pairs lanes as it always does. So `posenc.attention` with an "interleaved" encoding is not what a Llama
    computes with the frequencies of it; "half" is.

    Arguments:
        model: a PreTrainedModel with one `rotary_emb`, changed in place.
        encoding: made by `posenc.rope.rope`.
    Returns: the model.
    Errors: TypeError, ValueError naming the argument; UnsupportedError for another encoding or model.
    Convention: its configuration stays what it was and its frequencies are not saved: write them again after loading.
        They stay in float32 when the model is cast, and where they are when it is moved: move it first, or each call
        brings them along.
    Chapter: In your own model.
    """
    _check_model(model)
    if not isinstance(encoding, Encoding):
        raise TypeError(
            f"encoding={shown(encoding)} must be an Encoding made by posenc.rope.rope, got {type(encoding).__name__}"
        )
    if encoding.places != ("rotate",) or type(encoding.rotate) is not Rotary:
        raise UnsupportedError(
            f"encoding with {encoding.places}: write_rope serves posenc.rope.rope alone, whose frequencies are fixed; "
            f"attach puts others into a model"
        )
    heard, rotation, new = _hear(model), _rotation(model), encoding.rotate.inv_freq
    if new.shape != rotation.inv_freq.shape:
        raise ValueError(f"encoding turns {2 * new.shape[0]} lanes, and the model {2 * rotation.inv_freq.shape[0]}")
    sign, _ = _turn_of(model, rotation, next(one for one in heard if one.first is not None), LAYOUTS)
    new = sign * new.detach().to(rotation.inv_freq.device, torch.float32)
    for name in ("inv_freq", "original_inv_freq"):
        rotation._buffers.pop(name, None)  # a cast of the model would round a buffer
        setattr(rotation, name, new.clone())
    rotation.attention_scaling = encoding.rotate.attention_factor
    rotation.rope_type = "default"  # dynamic types make their frequencies anew in each call
    return model


def read_rope(model, layout="half", each=False):
    r"""The rotation of a model of transformers as an `Encoding`, with its frequencies and its attention factor.

    It is compared with what the layers do to their queries at positions up to 4001. A model that turns the other way
    round (NanoChat) gives frequencies below 0.

    Arguments:
        model: a model with one `rotary_emb`; of a dynamic type, the frequencies are those of its last call.
        layout: how it pairs lanes, see `posenc.rope.rotate`; "interleaved" for Cohere and GLM.
        each: True returns a list with an `Encoding` for each layer, as `attach` takes it, empty where a layer does not
            turn; False the one that all layers share that turn.
    Errors: TypeError, ValueError naming the argument; ValueError for frequencies that a cast of the model has rounded;
        UnsupportedError for a model without, or whose own rotation differs from what was read, by how much.
    Chapter: In your own model.
    """
    _check_model(model)
    check_choice("layout", layout, LAYOUTS)
    check_bool("each", each)
    heard, rotation = _hear(model), _rotation(model, each)
    if not each:
        heard = [one for one in heard if one.first is not None][:1]
    encodings = [_turn_of(model, rotation, one, (layout,))[1] for one in heard]
    for one in encodings:
        if one.rotate is not None and (dtype := one.rotate.inv_freq.dtype) not in (torch.float32, torch.float64):
            raise ValueError(
                f"model={type(model).__name__} holds its frequencies in {dtype}: a cast has rounded them. Load it with "
                f"from_pretrained(..., dtype={dtype}), which keeps them in float32, or write_rope what they should be"
            )
    return encodings if each else encodings[0]


def _turn_of(model, rotation, one, layouts):
    """1 or -1 for the way round, and the `Encoding`, by which a layer turns; empty where it does not."""
    if one.first is None:
        return 1, Encoding()
    kind = "" if hasattr(rotation, "inv_freq") else f"{model.config.layer_types[one.layer.layer_idx]}_"
    inv_freq, factor = (getattr(rotation, f"{kind}{name}") for name in ("inv_freq", "attention_scaling"))
    turned, still = (x[0][..., one.first :] for x in (one.own, one.plain))
    at, off = torch.tensor(TRIED_AT, device=still.device), {}
    for sign, layout in itertools.product((1, -1), LAYOUTS):
        off[sign, layout] = (rotate(still, at, sign * inv_freq, layout, float(factor)) - turned).abs().max().item()
    limit = (1e-3 if still.dtype == torch.float32 else 0.05) * turned.abs().max().item()
    fits = [way for way in off if off[way] <= limit]
    sign, layout = next((way for way in fits if way[1] in layouts), (0, layouts[0]))
    if not sign:
        raise UnsupportedError(
            f"layout={layout!r}: layer {one.layer.layer_idx} of {type(model).__name__} turns its queries otherwise "
            f"than the frequencies of its rotary_emb say, by up to {min(off[1, layout], off[-1, layout]):.2g}; "
            + (
                f"layout={fits[0][1]!r} is right"
                if fits
                else "neither layout is right, and neither way round: is it all that acts there?"
            )
        )
    own = sign * inv_freq.detach()
    return sign, rope(still.shape[-1], inv_freq=own, layout=layout, attention_factor=float(factor))


def _rotation(model, each=False):
    """The one module `rotary_emb` of a model."""
    rotations = _rotations(model)
    if len(rotations) != 1:
        raise UnsupportedError(
            f"model={type(model).__name__} has {len(rotations)} modules rotary_emb, it must have one"
        )
    if not each and not hasattr(rotations[0], "inv_freq"):
        raise UnsupportedError(
            f"model={type(model).__name__} has a rotary_emb without inv_freq (Gemma 3 holds one for each type of "
            f"layer): read_rope(model, each=True) reads all, attach takes them"
        )
    return rotations[0]
