r"""Encodings in models of transformers, which is imported when it is needed: posenc does not depend on it.

What a model's configuration says of its layers is what `posenc.configs` reads; what they do with position is heard by
comparing, before anything is changed.
"""

import functools
import inspect
import itertools
from typing import NamedTuple

import torch
from torch import nn

from ..attention import attention
from ..configs import Layer, read
from ..encoding import Encoding
from ..errors import UnsupportedError, check_bool, check_choice, shown
from ..inputs import check_encoding
from ..rotate.rope import LAYOUTS, Rotary, rope, rotate
from .functions import only, turn

FITTING = "the chapter In your own model has a table of those that fit"
TRIED_AT = (1, 2, 3, 5, 50, 500, 4000, 4001)  # of the tokens that a model is tried with: slow lanes turn, too


class Heard(NamedTuple):
    """What a layer gives its attention for tokens at TRIED_AT: (q, k, v) turned by its own rotation, and without it."""

    layer: nn.Module
    own: tuple
    plain: tuple
    first: int | None  # the first lane that turns; None where none does
    told: dict  # what the layer is called with, and what it calls attention with
    mask: torch.Tensor | None
    options: dict
    said: Layer | None  # what its configuration says; None where `posenc.configs` does not know the type


def unfit(model, words):
    """The error for a model that `attach` does not serve."""
    return UnsupportedError(f"model={type(model).__name__}{words}; {FITTING}")


def hear(model):
    """How each layer of a model turns, found by comparing; whatever `attach` does not serve is refused in words."""
    try:
        import transformers
        from transformers.masking_utils import sdpa_mask
    except ImportError as error:
        raise ImportError("attach needs transformers, 5 or newer: pip install 'transformers>=5'") from error
    if not isinstance(model, nn.Module) or not hasattr(model, "set_attn_implementation"):
        kind = type(model).__name__
        raise TypeError(f"model must be a PreTrainedModel of transformers, not its name, class or config; got {kind}")
    if hasattr(model, "posenc"):
        raise ValueError("model.posenc is there: attach silenced its rotation before, take a fresh model")
    layers = [module for module in model.modules() if hasattr(module, "layer_idx") and hasattr(module, "scaling")]
    if not isinstance(model, transformers.PreTrainedModel) or not layers or not rotations_of(model):
        raise unfit(model, " has no rotary_emb that attach could replace in its layers")
    transformers.AttentionInterface.register("posenc", attend)
    transformers.AttentionMaskInterface.register("posenc", sdpa_mask)
    try:
        own, plain = _listen(model, layers, silent=False), _listen(model, layers, silent=True)
    except Exception as error:  # whatever a strange model raises: it wants something else
        said = f"{error}" if isinstance(error, UnsupportedError) else f"{type(error).__name__}: {error}"
        raise unfit(model, f", tried with {len(TRIED_AT)} tokens: {said}") from error
    heard, said = [], layers_of(model)
    for layer in layers:
        if layer not in plain:
            raise unfit(model, f": its {type(layer).__name__} asks no ALL_ATTENTION_FUNCTIONS")
        (turned, told, mask, options), (still, *_) = own[layer], plain[layer]
        if not torch.equal(turned[2], still[2]):
            raise unfit(model, f": its {type(layer).__name__} turns its values, too")
        lanes = (turned[0] != still[0]).flatten(0, 2).any(0).nonzero()
        first = int(lanes[0]) if len(lanes) else None
        heard.append(Heard(layer, turned, still, first, told, mask, options, said.get(layer.layer_idx)))
    return heard


def _listen(model, layers, silent):
    """{layer: ((q, k, v), ...)} as in Heard, for tokens at TRIED_AT. Attention gives zeros: no layer hears another."""
    heard = {}

    def tell(layer, args, kwargs):
        if layer in heard:
            raise UnsupportedError(f"it calls {type(layer).__name__} again in one forward, where attach counts one")

        def note(given, mask, options):
            heard[layer], (q, _, v) = (given, kwargs, mask, options), given
            return q.new_zeros(q.shape[0], q.shape[2], q.shape[1], v.shape[-1]), None

        return args, kwargs | {"note": note}

    rotations, chosen = rotations_of(model), model.config._attn_implementation
    modes = [(module, module.training) for module in model.modules()]
    types = [(rotation, rotation.rope_type) for rotation in rotations if hasattr(rotation, "rope_type")]
    hooks = [layer.register_forward_pre_hook(tell, with_kwargs=True) for layer in layers]
    hooks += [rotation.register_forward_hook(unturned) for rotation in rotations if silent]
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


def rotations_of(model):
    return [module for name, module in model.named_modules() if name.endswith("rotary_emb")]


def layers_of(model):
    """{index: what `posenc.configs` reads of that layer}, empty where it does not know the model's type."""
    try:
        return dict(enumerate(read(model.config)))
    except (TypeError, ValueError):
        return {}


def rotation_of(model, each=False):
    """The one module `rotary_emb` of a model."""
    rotations, name = rotations_of(model), type(model).__name__
    if len(rotations) != 1:
        raise UnsupportedError(f"model={name} has {len(rotations)} modules rotary_emb, it must have one")
    if not each and not hasattr(rotations[0], "inv_freq"):
        remedy = "read_rope(model, each=True) is a list of one for each layer, which attach takes"
        remedy += ", posenc.configs.read(model.config) says what each is"
        raise UnsupportedError(f"model={name} turns layers of each type by frequencies of their own: {remedy}")
    return rotations[0]


def turning(model, heard):
    """Those of its layers that turn."""
    if not (found := [one for one in heard if one.first is not None]):
        raise unfit(model, ": no layer turns its queries. Are its frequencies 0, as `to_empty` may leave them?")
    return found


def turn_of(model, rotation, one, layout=None):
    """1 or -1 for the way round, and the `Encoding`, by which a layer turns, in this layout or the configuration's."""
    if one.first is None:
        return 1, Encoding()
    if layout is None and one.said is not None and one.said.layout:
        layout = "half" if one.said.reordered else one.said.layout
    kind = ""
    if not hasattr(rotation, "inv_freq"):  # one for each type of layer
        kind = f"{one.said.kind if one.said else model.config.layer_types[one.layer.layer_idx]}_"
    inv_freq, factor = (getattr(rotation, f"{kind}{name}") for name in ("inv_freq", "attention_scaling"))
    turned, still = (x[0][..., one.first :] for x in (one.own, one.plain))
    at, off = torch.tensor(TRIED_AT, device=still.device), {}
    for way in itertools.product((1, -1), LAYOUTS):
        off[way] = (rotate(still, at, way[0] * inv_freq, way[1], float(factor)) - turned).abs().max().item()
    limit = (1e-3 if still.dtype == torch.float32 else 0.05) * turned.abs().max().item()
    fits = [way for way in off if off[way] <= limit]
    sign, pairs = next((way for way in fits if layout in (None, way[1])), (0, layout or "half"))
    if not sign:
        right = "neither layout is right, and neither way round: is it all that acts there?"
        raise UnsupportedError(
            f"layout={pairs!r}: layer {one.layer.layer_idx} of {type(model).__name__} turns its queries otherwise "
            f"than the frequencies of its rotary_emb say, by up to {min(off[1, pairs], off[-1, pairs]):.2g}; "
            f"{f'layout={fits[0][1]!r} is right' if fits else right}"
        )
    own = sign * inv_freq.detach()
    return sign, rope(still.shape[-1], inv_freq=own, layout=pairs, attention_factor=float(factor))


def unturned(rotation, inputs, output):
    """Cosines of one and sines of zero, in place of the model's own."""
    if not isinstance(output, tuple) or len(output) != 2:
        raise UnsupportedError("its rotary_emb does not give (cosines, sines), which attach replaces")
    cos, sin = output
    return torch.ones_like(cos), torch.zeros_like(sin)


def positions_of(layer, kwargs):
    """Where the tokens stand that a layer is called with, [B, T]."""
    given = kwargs.get("position_ids")
    if given is None or given.ndim != 2:
        raise UnsupportedError(f"{type(layer).__name__} is given no position_ids [B, T]: attach serves no such model")
    return given


def attend(module, query, key, value, attention_mask, *, note=None, encoding=None, first=None, **options):
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
    causal = getattr(module, "is_causal", True) if causal is None else causal
    told = dict(pos_q=pos_q, pos_k=pos_k, causal=causal, mask=attention_mask, scale=options.get("scaling"))
    return attention(query, key, value, encoding, **told).transpose(1, 2).contiguous(), None


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
            is refused, as where some have none (SmolLM3, Cohere 2, EXAONE 4: those get None):
            `read_rope(model, each=True)` is the list of what they do. Where the last lanes of a head turn (latent
            attention, DeepSeek-V3), `rotate` is given those alone: make it for so many lanes.
    Returns: the model; parameters of the encoding are its own, as `model.posenc`.
    Errors: ImportError without transformers; UnsupportedError for an encoding or a model that does not fit.
    Convention: keys go into the model's cache as they are before rotation, their positions stay beside them. A cache
        filled before `attach` holds turned keys and is refused. `from_pretrained` knows no `model.posenc`: to load what
        was trained with an encoding, `attach` it to a new model and `load_state_dict` after. Another attention than
        "posenc", set later, is refused in the next call: the model's own rotation stays silent.
    Chapter: In your own model.
    """
    heard = hear(model)
    for one in heard:
        positions_of(one.layer, one.told)
        kind = type(one.layer).__name__
        if any(part.endswith("indexer") for part, _ in one.layer.named_modules()):
            raise unfit(model, f": its {kind} chooses keys by an indexer, which turns by the same rotary_emb")
        if "past_key_values" not in inspect.signature(one.layer.forward).parameters:
            raise unfit(model, f": its {kind} takes no past_key_values, where attach looks for the cache")
    if callable(encoding) and not isinstance(encoding, nn.Module):
        encoding = [encoding(one.layer.layer_idx) for one in heard]
    encodings = list(encoding) if isinstance(encoding, list | tuple) else [encoding]
    encodings = [Encoding() if one is None else one for one in encodings]
    if len(encodings) not in (1, len(heard)):
        count = f"{len(encodings)} encodings for {len(heard)} layers"
        raise ValueError(f"encoding holds {count}; give one for each, or one")
    for one in encodings:
        only(one, "attach", "rotate", "weigh", "gather", "attend")
    if not isinstance(encoding, list | tuple) and (encodings[0].places or encodings[0].attend):
        _refuse_differing(model, heard)
    each = encodings * (len(heard) // len(encodings))
    at = torch.arange(len(TRIED_AT))[None]
    for one, own in zip(heard, each):  # whatever it does not take is refused before the model has changed
        if own.rotate is not None:  # where ours acts, theirs must be a turn and no more
            turn_of(model, rotation_of(model, each=True), one)
        device = next((parameter.device for parameter in own.parameters()), one.plain[0].device)
        q, k, v, mask = (None if x is None else x.to(device) for x in (*one.plain, one.mask))
        with torch.no_grad():
            place = {"encoding": own, "first": one.first, "pos_q": at.to(device), "pos_k": at.to(device)}
            attend(one.layer, q, k, v, mask, **one.options | place)
    model.set_attn_implementation("posenc")
    model.posenc = nn.ModuleList(encodings)
    for rotation in rotations_of(model):
        rotation.register_forward_hook(unturned)
    for one, own in zip(heard, each):
        tell = functools.partial(_tell_layer, own, one.first)
        one.layer.register_forward_pre_hook(tell, with_kwargs=True)
    return model


def _refuse_differing(model, heard):
    """Raise UnsupportedError where layers turn differently, and one encoding was given for all."""
    kinds = {}  # {the first lane that turns, by which cosines and sines: the layers}
    for one in heard:
        by = None if one.first is None else one.told.get("position_embeddings")
        kinds.setdefault((one.first, by and str([x.tolist() for x in by])), []).append(one.layer.layer_idx)
    if len(kinds) > 1:
        names = {one.layer.layer_idx: one.said.kind.replace("_", " ") for one in heard if one.said}
        said = "; ".join(
            f"{shown(indices)}{''.join(f' ({name})' for name in dict.fromkeys(map(names.get, indices)) if name)} "
            f"{'do not turn' if first is None else 'turn alike'}"
            for (first, _), indices in kinds.items()
        )
        raise UnsupportedError(
            f"model={type(model).__name__}: its layers differ, {said}. Give a list with an encoding for each, or a "
            f"callable layer -> encoding; read_rope(model, each=True) is the list of its own, and "
            f"[encoding] * {len(heard)} says that one is meant for all"
        )


def _tell_layer(encoding, first, layer, args, kwargs):
    """Add to what a layer passes on to its attention function: the encoding, and where all its keys stand, [B, Tk]."""
    chosen = layer.config._attn_implementation
    if chosen != "posenc":
        remedy = "model.set_attn_implementation('posenc'), or take a model without attach"
        raise UnsupportedError(f"attn_implementation={chosen!r} knows nothing of the encoding of attach: {remedy}")
    cache, pos_q = kwargs.get("past_key_values"), positions_of(layer, kwargs)
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
        They stay in float32 when the model is cast, and where they are when it is moved. So load in the dtype that you
        want, move, and write last: else each call brings them along.
    Chapter: In your own model.
    """
    check_encoding(encoding)
    if encoding.places != ("rotate",) or type(encoding.rotate) is not Rotary:
        remedy = "attach puts others into a model"
        raise UnsupportedError(f"encoding with {encoding.places}: write_rope serves posenc.rope.rope alone; {remedy}")
    heard, rotation, new = hear(model), rotation_of(model), encoding.rotate.inv_freq
    if new.shape != rotation.inv_freq.shape:
        raise ValueError(f"encoding turns {2 * new.shape[0]} lanes, and the model {2 * rotation.inv_freq.shape[0]}")
    sign, _ = turn_of(model, rotation, turning(model, heard)[0])
    new = sign * new.detach().to(rotation.inv_freq.device, torch.float32)
    for name in ("inv_freq", "original_inv_freq"):
        rotation._buffers.pop(name, None)  # a cast of the model would round a buffer
        setattr(rotation, name, new.clone())
    rotation.attention_scaling = encoding.rotate.attention_factor
    rotation.rope_type = "default"  # dynamic types make their frequencies anew in each call
    return model


def read_rope(model, layout=None, each=False):
    r"""The rotation of a model of transformers as an `Encoding`, with its frequencies and its attention factor.

    It is compared with what the layers do to their queries at positions up to 4001. What the configuration says of a
    model, before anything was written into it, is `posenc.configs.read(model.config)`. A model that turns the other way
    round (NanoChat) gives frequencies below 0.

    Arguments:
        model: a model with one `rotary_emb`; of a dynamic type, the frequencies are those of its last call.
        layout: how it pairs lanes, see `posenc.rope.rotate`. None is what its configuration says ("interleaved" for
            Cohere and GLM), and where `posenc.configs` does not know the type, what the comparison finds.
        each: True returns a list with an `Encoding` for each layer, as `attach` takes it, empty where a layer does not
            turn; False the one that all layers share that turn.
    Errors: TypeError, ValueError naming the argument; ValueError for frequencies that a cast of the model has rounded;
        UnsupportedError for a model without, or whose own rotation differs from what was read, by how much.
    Chapter: In your own model.
    """
    if layout is not None:
        check_choice("layout", layout, LAYOUTS)
    check_bool("each", each)
    heard, rotation = hear(model), rotation_of(model, each)
    if not each:
        heard = turning(model, heard)[:1]
    encodings = [turn_of(model, rotation, one, layout)[1] for one in heard]
    for one in encodings:
        if one.rotate is not None and (dtype := one.rotate.inv_freq.dtype) not in (torch.float32, torch.float64):
            raise ValueError(
                f"model={type(model).__name__} holds its frequencies in {dtype}: a cast has rounded them. Load it with "
                f"from_pretrained(..., dtype={dtype}), which keeps them in float32, or write_rope what they should be"
            )
    return encodings if each else encodings[0]
