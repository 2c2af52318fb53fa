r"""What the layers of a model of transformers do with position: heard by comparing, before anything is changed."""

import itertools
from typing import NamedTuple

import torch
from torch import nn

from ..attention import attention
from ..encoding import Encoding
from ..errors import UnsupportedError
from ..rotate.rope import LAYOUTS, rope, rotate
from .functions import turn

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

    def turns_as(self, other):
        """Whether both turn the same lanes by the same angles, or none."""
        given = [one.told.get("position_embeddings") for one in (self, other)]
        if self.first is None or any(one is None for one in given):
            return self.first == other.first
        return self.first == other.first and all(map(torch.equal, *given))


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
    check_model(model)
    if hasattr(model, "posenc"):
        raise ValueError(
            "model.posenc is there: attach was called before and silenced its rotation, take a fresh model"
        )
    layers = [module for module in model.modules() if hasattr(module, "layer_idx") and hasattr(module, "scaling")]
    if not isinstance(model, transformers.PreTrainedModel) or not layers or not rotations_of(model):
        raise unfit(model, " has no rotary_emb that attach could replace in its layers")
    if any(parameter.is_meta for parameter in model.parameters()):
        name = f"model={type(model).__name__}"
        raise UnsupportedError(f"{name} is on the device 'meta' and has no weights to be tried with: load them first")
    transformers.AttentionInterface.register("posenc", attend)
    transformers.AttentionMaskInterface.register("posenc", sdpa_mask)
    try:
        own, plain = _listen(model, layers, silent=False), _listen(model, layers, silent=True)
    except Exception as error:  # whatever a strange model raises: it wants something else
        said = f"{error}" if isinstance(error, UnsupportedError) else f"{type(error).__name__}: {error}"
        raise unfit(model, f", tried with {len(TRIED_AT)} tokens: {said}") from error
    heard = []
    for layer in layers:
        if layer not in plain:
            raise unfit(model, f": its {type(layer).__name__} asks no ALL_ATTENTION_FUNCTIONS")
        (turned, told, mask, options), (still, *_) = own[layer], plain[layer]
        if not torch.equal(turned[2], still[2]):
            raise unfit(model, f": its {type(layer).__name__} turns its values, too")
        lanes = (turned[0] != still[0]).flatten(0, 2).any(0).nonzero()
        heard.append(Heard(layer, turned, still, int(lanes[0]) if len(lanes) else None, told, mask, options))
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


def rotation_of(model, each=False):
    """The one module `rotary_emb` of a model."""
    rotations, name = rotations_of(model), type(model).__name__
    if len(rotations) != 1:
        raise UnsupportedError(f"model={name} has {len(rotations)} modules rotary_emb, it must have one")
    if not each and not hasattr(rotations[0], "inv_freq"):
        raise UnsupportedError(
            f"model={name} has a rotary_emb without inv_freq (Gemma 3 holds one for each type of "
            f"layer): read_rope(model, each=True) reads all, attach takes them"
        )
    return rotations[0]


def turn_of(model, rotation, one, layouts):
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
        right = "neither layout is right, and neither way round: is it all that acts there?"
        raise UnsupportedError(
            f"layout={layout!r}: layer {one.layer.layer_idx} of {type(model).__name__} turns its queries otherwise "
            f"than the frequencies of its rotary_emb say, by up to {min(off[1, layout], off[-1, layout]):.2g}; "
            f"{f'layout={fits[0][1]!r} is right' if fits else right}"
        )
    own = sign * inv_freq.detach()
    return sign, rope(still.shape[-1], inv_freq=own, layout=layout, attention_factor=float(factor))


def check_model(model):
    if not isinstance(model, nn.Module) or not hasattr(model, "set_attn_implementation"):
        raise TypeError(
            f"model must be a PreTrainedModel of transformers, not its name, class or configuration; "
            f"got {type(model).__name__}"
        )


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
