r"""Encodings in models of transformers, which is imported when it is needed: posenc does not depend on it."""

import functools
import inspect

import torch
from torch import nn

from ..encoding import Encoding
from ..errors import UnsupportedError, check_bool, check_choice, shown
from ..rotate.rope import LAYOUTS, Rotary
from .functions import only
from .hearing import (
    TRIED_AT,
    attend,
    check_model,
    hear,
    positions_of,
    rotation_of,
    rotations_of,
    turn_of,
    unfit,
    unturned,
)


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
        raise ValueError(
            f"encoding holds {len(encodings)} encodings for {len(heard)} layers; give one for each, or one"
        )
    for one in encodings:
        only(one, "attach", "rotate", "weigh", "attend")
    if not isinstance(encoding, list | tuple) and (encodings[0].places or encodings[0].attend):
        _refuse_differing(model, heard)
    each = encodings * (len(heard) // len(encodings))
    at = torch.arange(len(TRIED_AT))[None]
    for one, own in zip(heard, each):  # whatever it does not take is refused before the model has changed
        if own.rotate is not None:  # where ours acts, theirs must be a turn and no more
            turn_of(model, rotation_of(model, each=True), one, LAYOUTS)
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
    kinds = []
    for one in heard:
        alike = next((numbers for first, numbers in kinds if one.turns_as(first)), None)
        if alike is None:
            kinds.append((one, alike := []))
        alike.append(one.layer.layer_idx)
    if len(kinds) > 1:
        said = "; ".join(f"{shown(n)} {'do not turn' if one.first is None else 'turn alike'}" for one, n in kinds)
        raise UnsupportedError(
            f"model={type(model).__name__}: its layers differ, {said}. Give a list with an encoding for each, or a "
            f"callable layer -> encoding; read_rope(model, each=True) is the list of its own, and "
            f"[encoding] * {len(heard)} says that one is meant for all"
        )


def _tell_layer(encoding, first, layer, args, kwargs):
    """Add to what a layer passes on to its attention function: the encoding, and where all its keys stand, [B, Tk]."""
    chosen = layer.config._attn_implementation
    if chosen != "posenc":
        raise UnsupportedError(
            f"attn_implementation={chosen!r} knows nothing of the encoding that attach put in the place of the model's "
            f"rotation: model.set_attn_implementation('posenc'), or take a model without attach"
        )
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
        They stay in float32 when the model is cast, and where they are when it is moved: move it first, or each call
        brings them along.
    Chapter: In your own model.
    """
    check_model(model)
    if not isinstance(encoding, Encoding):
        raise TypeError(
            f"encoding={shown(encoding)} must be an Encoding made by posenc.rope.rope, got {type(encoding).__name__}"
        )
    if encoding.places != ("rotate",) or type(encoding.rotate) is not Rotary:
        raise UnsupportedError(
            f"encoding with {encoding.places}: write_rope serves posenc.rope.rope alone, whose frequencies are fixed; "
            f"attach puts others into a model"
        )
    heard, rotation, new = hear(model), rotation_of(model), encoding.rotate.inv_freq
    if new.shape != rotation.inv_freq.shape:
        raise ValueError(f"encoding turns {2 * new.shape[0]} lanes, and the model {2 * rotation.inv_freq.shape[0]}")
    sign, _ = turn_of(model, rotation, next(one for one in heard if one.first is not None), LAYOUTS)
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
    check_model(model)
    check_choice("layout", layout, LAYOUTS)
    check_bool("each", each)
    heard, rotation = hear(model), rotation_of(model, each)
    if not each:
        heard = [one for one in heard if one.first is not None][:1]
    encodings = [turn_of(model, rotation, one, (layout,))[1] for one in heard]
    for one in encodings:
        if one.rotate is not None and (dtype := one.rotate.inv_freq.dtype) not in (torch.float32, torch.float64):
            raise ValueError(
                f"model={type(model).__name__} holds its frequencies in {dtype}: a cast has rounded them. Load it with "
                f"from_pretrained(..., dtype={dtype}), which keeps them in float32, or write_rope what they should be"
            )
    return encodings if each else encodings[0]
