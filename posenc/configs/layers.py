r"""The rows of a `Reading`: what each layer of a model does about position."""

from typing import NamedTuple

from ..errors import UnsupportedError, check_choice, check_int, check_number, shown
from .keys import MOST
from .models import CHUNKED, FULL, LINEAR, SLIDING, always_sliding
from .turning import rotary, settings_of

OLD_KINDS = {"conv": LINEAR, "mamba": LINEAR, "attention": FULL}


class Layer(NamedTuple):
    r"""What one layer does about position.

    index, stack: where it stands; "encoder" or "decoder" where a model has both.
    method, place: of `ModelType`, or "linear" (no softmax, so no place); of posenc's four places.
    kind: the layer type in the words of transformers. heads, head_dim: H and D.
    lanes: (first, last + 1) of those that turn. partial: which dialect of "a part of the head" that is.
    layout, base, inv_freq: see `posenc.rope.rotate`; inv_freq at the trained length, negative where it turns clockwise.
    plain: the frequencies before scaling. scaling, settings, attention_factor: the rope_type, its numbers, its factor.
    window, chunk: in tokens, of what is seen (|i - j| < window where not causal). sink: whether the softmax has one.
    sections, interleaved: of M-RoPE. temperature: (a, n, s) where queries grow by 1 + a log(1 + floor((i + s) / n)).
    trained: the length that the file gives, in tokens. rows, offset, dim: of a table. note: what else the code does.
    """

    index: int
    kind: str
    method: str
    place: str | None = None
    heads: int | None = None
    head_dim: int | None = None
    lanes: tuple[int, int] | None = None
    partial: str = ""
    layout: str = ""
    base: float | None = None
    scaling: str = ""
    settings: dict = {}
    inv_freq: tuple[float, ...] = ()
    plain: tuple[float, ...] = ()
    attention_factor: float = 1.0
    window: int | None = None
    chunk: int | None = None
    causal: bool = True
    sink: bool = False
    sections: tuple[int, ...] | None = None
    interleaved: bool = False
    temperature: tuple[float, float, int] | None = None
    trained: int | None = None
    rows: int | None = None
    offset: int = 0
    dim: int | None = None
    buckets: tuple[int, int] | None = None
    slope_scale: float = 1.0
    stack: str = ""
    note: str = ""


def layers_of(keys, spec, stack, start):
    """The rows of one stack."""
    count = "num_decoder_layers" if stack == "decoder" and keys.get("num_decoder_layers") else "num_hidden_layers"
    n = keys.whole(count, most=MOST["layers"])
    listed = keys.list_for("layer_types", n) if spec.layers and spec.layers is not always_sliding else None
    kinds = listed or (spec.layers(keys, n) if spec.layers else [FULL] * n)
    kinds = [OLD_KINDS.get(kind, kind) if isinstance(kind, str) else kind for kind in kinds]
    for kind in kinds:
        check_choice(
            "layer_types", kind, (FULL, LINEAR, *spec.windowed, *(["hybrid"] if spec.method == "inkling" else []))
        )
    if keys.values["model_type"] == "gemma4_text":
        kinds[-1] = FULL
    return [layer_of(keys, spec, stack, index, kind, n, start) for index, kind in enumerate(kinds)]


def layer_of(keys, spec, stack, index, kind, n, start):
    """One row: the method by the model type, then what this layer's type changes."""
    model_type = keys.values["model_type"]
    row = Layer(start + index, kind, spec.method, causal=spec.causal, sink=spec.sink, stack=stack, note=spec.note)
    if kind == LINEAR:
        return row._replace(method="linear", causal=True, sink=False, note="")
    heads, head_dim = heads_of(keys, spec, stack, kind, index)
    if head_dim > MOST["head"]:
        raise ValueError(f"head_dim={head_dim} must be at most {MOST['head']}")
    row = row._replace(heads=heads, head_dim=head_dim)
    window = None
    if kind in spec.windowed and (not spec.switch or keys.flag(spec.switch)):
        window = keys.window(spec.window_key, spec.window)
    if window and kind == CHUNKED:
        row = row._replace(chunk=window)
    elif window:
        row = row._replace(window=window // 2 + 1 if spec.window_key == "local_attention" else window)
    if spec.method == "rope" and model_type == "falcon" and keys.flag("alibi"):
        note = "slopes and the products with positions are rounded to bfloat16"
        spec, row = spec._replace(method="alibi"), row._replace(method="alibi", slope_scale=head_dim**-0.5, note=note)
    if spec.method == "rope":
        return rotating(keys, spec, row, kind, index, n)
    return row._replace(**OTHER_FIELDS[spec.method](keys, spec, row))


def heads_of(keys, spec, stack, kind, index):
    """H and D of a layer."""
    swa = "swa_" if kind == "hybrid_sliding" else ""
    named = "decoder_attention_heads" if stack == "decoder" and keys.get("decoder_attention_heads") else None
    heads = keys.whole(named or f"{swa}num_attention_heads", 64 if swa else None)
    if spec.last and spec.fraction is None:
        keys.get("head_dim")
        return heads, keys.whole("qk_nope_head_dim", minimum=0) + keys.whole("qk_rope_head_dim")
    if keys.values["model_type"] == "gemma4_text" and kind == FULL:
        layers = keys.mapping("per_layer_config")
        own = layers.get(index) or layers.get(f"{index:02d}") or layers.get(str(index)) or {}
        return heads, check_int("head_dim", own.get("head_dim") or keys.whole("global_head_dim", 512))
    given = keys.get(f"{swa}head_dim", spec.head_dim)
    if given is not None and not spec.fixed_head:
        return heads, keys.whole(f"{swa}head_dim", spec.head_dim)
    width = keys.whole("hidden_size")
    if width % heads:
        raise ValueError(
            f"hidden_size={width} must be a multiple of num_attention_heads={heads}: a head has equal lanes"
        )
    if given is not None and given != width // heads:
        keys.fault(
            f"head_dim={shown(given)}: this type's heads have hidden_size / heads = {width // heads} lanes instead"
        )
    return heads, width // heads


def rotating(keys, spec, row, kind, index, n):
    """A row of a model that rotates, in this layer or not."""
    turns = ROTATES[spec.nope](keys, spec, kind, index, n)
    temperature = None
    if spec.temperature == "attn_temperature_tuning" and not turns and keys.flag(spec.temperature, True):
        temperature = keys.number("attn_scale", 0.1), keys.number("floor_scale", 8192), 1
    elif spec.temperature == "llama_4_scaling_beta":
        own = settings_of(keys, spec, kind)[0]
        names = spec.temperature, "original_max_position_embeddings"
        if any(own.get(name) is None for name in names):
            raise ValueError(f"{' or '.join(names)} is missing from rope_parameters: queries grow by them, add both")
        temperature = *(check_number(name, own[name], above=0) for name in names), 0
    trained = keys.length()
    row = row._replace(temperature=temperature, trained=trained)
    if not turns:
        return row._replace(method="nope", place="rotate" if temperature else None)
    part = None
    if spec.last and spec.fraction is None:
        part = row.head_dim - keys.whole("qk_rope_head_dim"), keys.whole("qk_rope_head_dim")
    elif spec.rotary_dim:
        part = 0, keys.whole("rotary_dim", spec.rotary_dim)
        if part[1] > row.head_dim:
            raise ValueError(f"rotary_dim={part[1]} must be at most the {row.head_dim} lanes of a head")
    fields = rotary(
        keys, spec, kind, row.head_dim, part, theta_of(keys, index, n) if spec.nope == "layer_rope_theta" else None
    )
    return row._replace(**fields, method="mrope" if fields["sections"] else "rope")


ROTATES = {  # by `nope`, whether a layer rotates
    "": lambda keys, spec, kind, index, n: True,
    "full": lambda keys, spec, kind, index, n: kind != FULL,
    "beside windows": lambda keys, spec, kind, index, n: (
        kind == SLIDING or not keys.window(spec.window_key, spec.window)
    ),
    "no_rope_layers": lambda keys, spec, kind, index, n: keys.turning(n)[index],
    "layer_rope_theta": lambda keys, spec, kind, index, n: theta_of(keys, index, n) != 0,
    "position_embedding_type": lambda keys, spec, kind, index, n: keys.get("position_embedding_type") == "rope",
}


def theta_of(keys, index, n):
    """What layer_rope_theta says of a layer: 0 for no rotation; None without the key."""
    listed = keys.list_for("layer_rope_theta", n)
    if listed:
        return listed[index]
    return 0 if keys.values["model_type"] == "muse_glimmer_text" and (n - 1 - index) % 4 == 0 else None


def table(keys, spec, row):
    key = "max_target_positions" if row.stack == "decoder" else "max_position_embeddings"
    offset = keys.whole("pad_token_id", 1, minimum=0) + 1 if spec.offset and not spec.causal else spec.offset
    rows = keys.whole(key, most=2**24) - (0 if spec.causal else offset)
    width = keys.whole("embedding_size" if keys.get("embedding_size") else "hidden_size")
    if keys.get("position_embedding_type", "absolute") != "absolute":
        keys.fault(
            f"position_embedding_type={keys.get('position_embedding_type')!r}: the code adds the table all the same"
        )
    return dict(place="embed", rows=rows, offset=offset, dim=width, trained=rows)


def sinusoids(keys, spec, row):
    rows = keys.whole("max_source_positions", most=MOST["length"])
    return dict(place="embed", rows=rows, dim=keys.whole("hidden_size"), trained=rows)


def buckets(keys, spec, row):
    numbers = keys.whole("relative_attention_num_buckets", 32), keys.whole("relative_attention_max_distance", 128)
    return dict(place="bias", buckets=numbers)


def slopes(keys, spec, row):
    own = keys.mapping("attn_config")
    if own.get("alibi") is False or own.get("alibi_bias_max", 8) != 8:
        keys.fault("attn_config: the code has ALiBi with slopes down to 2^-8, whatever alibi and alibi_bias_max say")
    trained = keys.length()
    return dict(place="bias", trained=trained)


def four_terms(keys, spec, row):
    if keys.get("clamp_len", -1) != -1:
        raise UnsupportedError(
            f"clamp_len={keys.get('clamp_len')} is not read: posenc's Transformer-XL clamps no distance"
        )
    check_choice("attn_type", keys.get("attn_type", "bi"), ("bi", "uni"))
    return dict(place="bias", dim=keys.whole("hidden_size"), causal=keys.get("attn_type", "bi") == "uni")


def curves(keys, spec, row):
    if row.window is None and keys.get("log_scaling_n_floor") is not None:
        raise UnsupportedError(
            f"log_scaling_n_floor={shown(keys.get('log_scaling_n_floor'))} is not read: it multiplies bias too"
        )
    extent = row.window or keys.whole("rel_extent", 1024)
    trained = keys.length()
    return dict(place="bias", buckets=(keys.whole("d_rel", 16), extent), trained=trained)


def nothing(keys, spec, row):
    trained = keys.length()
    return dict(trained=trained)


OTHER_FIELDS = {
    "learned": table,
    "sinusoidal": sinusoids,
    "t5": buckets,
    "alibi": slopes,
    "transformer_xl": four_terms,
    "inkling": curves,
    "nope": nothing,
}
