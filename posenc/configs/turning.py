r"""Which lanes of a head turn, and how fast: from a configuration's numbers to RoPE's frequencies."""

import math

from ..errors import check_bool, check_choice, check_number, shown
from ..rotate import scaling
from ..rotate.mrope import dealt
from ..rotate.rope import ladder
from .keys import MOST
from .models import FULL, SLIDING

ORIGINAL = "original_max_position_embeddings"
OPTIONAL = ("attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate")
READS = {  # what each rope_type reads; what else stands in the dict is said to be unread
    "default": (),
    "proportional": ("factor",),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "yarn": ("factor", ORIGINAL, *OPTIONAL),
    "longrope": ("factor", ORIGINAL, "short_factor", "long_factor", "attention_factor"),
    "llama3": ("factor", ORIGINAL, "low_freq_factor", "high_freq_factor"),
}


def settings_of(keys, spec, kind):
    """The dict of RoPE's numbers that holds for layers of this type, from wherever the file has it."""
    old, own = keys.mapping("rope_scaling"), keys.mapping("rope_parameters")
    name = "rope_scaling" if old else "rope_parameters"
    own = old or own or spec.rope
    label = ("main" if kind == SLIDING else "compress") if "main" in (spec.base if by_layer(spec) else ()) else kind
    if any(isinstance(value, dict) for value in own.values()):
        if not by_layer(spec):
            raise ValueError(
                f"{name}={shown(own)} has numbers by layer type, this model type has one set for all layers"
            )
        own = own.get(label) or {}
        if not isinstance(own, dict):
            raise TypeError(f"{name}[{label!r}]={shown(own)} must be a dictionary")
    elif by_layer(spec) and own:
        compress = "compress" in spec.base
        if spec.rope:
            raise ValueError(f"{name}={shown(own)} must have numbers for each layer type, under its name")
        if name == "rope_parameters" and not compress:
            keys.fault(f"rope_parameters={shown(own)} has no numbers by layer type, so the code reads none of them")
            own = {}
        elif label not in (FULL, "compress") and spec.window_key != "local_attention":
            own = {}
        elif compress and own.get("rope_type", own.get("type")) == "yarn":
            own = {"attention_factor": 1.0} | own
    return dict(own), label, name


def by_layer(spec):
    return isinstance(spec.base, dict)


def scheme(kind, p, head_dim, base, settings, length):
    """(inv_freq float64, attention factor) of a rope_type at a length, by posenc.scaling."""
    factor, original = settings.get("factor"), settings.get(ORIGINAL)
    factors = settings.get("attention_factor")
    if kind == "proportional":
        frequencies = ladder(head_dim, base) / settings.get("factor", 1.0)
        frequencies[p // 2 :] = 0.0
        return frequencies, 1.0
    if kind == "linear":
        return scaling.linear(p, factor, base=base)
    if kind == "dynamic":
        return scaling.dynamic_ntk(p, factor, length=length, trained=settings["max_position_embeddings"], base=base)
    if kind == "yarn":
        turns = {"alpha": settings.get("beta_slow") or 1, "beta": settings.get("beta_fast") or 32}
        options = dict(trained=original, truncate=settings.get("truncate", True), attention_factor=factors)
        return scaling.yarn(p, factor, base=base, **turns, **options)
    if kind == "longrope":
        short, long = settings["short_factor"], settings["long_factor"]
        options = dict(length=length, trained=original, attention_factor=factors)
        return scaling.longrope(p, factor, short=short, long=long, base=base, **options)
    if kind == "llama3":
        low, high = settings["low_freq_factor"], settings["high_freq_factor"]
        return scaling.llama3(p, factor, trained=original, low=low, high=high, base=base)
    return ladder(p, base), 1.0


def rotary(keys, spec, kind, head_dim, part, theta=None):
    """Fields of a `Layer` that rotates. part: (first lane, how many) where a key says it; theta: a base of its own."""
    own, label, name = settings_of(keys, spec, kind)
    base = base_of(keys, spec, own, label, name, theta)
    scaled = own.get("rope_type", own.get("type", "default"))
    if keys.values["model_type"] == "phi3" and scaled in ("su", "yarn"):
        scaled = "longrope"  # as the first files of Phi-3 call it
    elif spec.sections is not None and scaled == "mrope":
        scaled = "default"
    check_choice("rope_type", scaled, tuple(READS))
    first, p = part or lanes_of(keys, spec, own, scaled, head_dim)
    read = ("rope_type", "type", "rope_theta", "partial_rotary_factor", "mrope_section", "mrope_interleaved")
    for odd in own.keys() - {*read, spec.temperature, *READS[scaled]}:
        keys.fault(f"{odd}={shown(own[odd])} in {name}: the type {scaled!r} doesn't read it")
    settings = settings_for(keys, spec, scaled, own)
    spread = scaled == "proportional"
    plain, _ = scheme(scaled if spread else "default", p, head_dim, base, {}, None)
    try:
        inv_freq, factor = scheme(scaled, p, head_dim, base, settings, settings["trained"] or 1)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}={shown(own)}: {error}") from None
    partial = f"the {'last' if first else 'first'} {p} of {head_dim} lanes among themselves, exponent over {p}"
    if spread:
        pairs = f"the {p // 2} fastest of {head_dim // 2} pairs over the whole head"
        partial = f"{pairs}, exponent over {head_dim}, the others stand still"
    return dict(
        place="rotate",
        lanes=(0, head_dim) if spread else (first, first + p),
        partial=partial if p < head_dim else "",
        layout=spec.layout,
        base=base,
        scaling=scaled,
        settings=settings,
        inv_freq=tuple((spec.sign * inv_freq).tolist()),
        plain=tuple((spec.sign * plain).tolist()),
        attention_factor=factor,
        sections=None if spec.sections is None else sections_of(spec, own, name, p, base),
        interleaved=spec.interleaved,
        trained=settings["trained"],
    )


def base_of(keys, spec, own, label, name, theta):
    """The base, from the first that says it: a layer's own, the dict, the key beside it, the type's default."""
    default, key = spec.base[label] if by_layer(spec) else (spec.base, "rope_theta")
    inside, beside = own.get("rope_theta"), keys.get(key) if key else None
    if theta is None and inside is not None and beside is not None and inside != beside:
        keys.fault(f"{keys.names[key]}={shown(beside)}, but {name} says rope_theta={shown(inside)}, and that is read")
    given = [value for value in (theta, inside, beside, default) if value is not None]
    return check_number("rope_theta", given[0], above=0)


def lanes_of(keys, spec, own, scaled, head_dim):
    """(first lane, how many) of those that turn, by partial_rotary_factor."""
    if spec.last and keys.get("qk_rope_head_dim"):  # DeepSeek-V4's older name
        own.setdefault("partial_rotary_factor", keys.whole("qk_rope_head_dim") / head_dim)
    fraction = own.get("partial_rotary_factor")
    fraction = keys.get("partial_rotary_factor", spec.fraction or 1.0) if fraction is None else fraction
    fraction = check_number("partial_rotary_factor", fraction, above=0)
    words = f"partial_rotary_factor={fraction}"
    if fraction > 1:
        raise ValueError(f"{words} must be at most 1: it is a share of the {head_dim} lanes of a head")
    if fraction != 1 and spec.fraction is None and scaled == "default":
        keys.fault(f"{words} is not read: unscaled RoPE of this type turns the whole head")
        fraction = 1.0
    elif fraction != 1 and spec.fraction is None and scaled != "proportional":
        keys.fault(f"{words} beside {scaled!r}: the code makes frequencies for a part, turns the whole head, and fails")
    p = 2 * int(fraction * head_dim // 2) if scaled == "proportional" else int(head_dim * fraction)
    if p % 2 or p < 2:
        raise ValueError(f"{words} of head_dim={head_dim} turns {p} lanes, it must be pairs of them")
    if p != head_dim * fraction:
        keys.fault(
            f"{words} of head_dim={head_dim} is {head_dim * fraction:g} lanes, {p} turn: a fraction of another head?"
        )
    return (head_dim - p if spec.last else 0), p


def sections_of(spec, own, name, p, base):
    """How many pairs each axis of M-RoPE gets."""
    sections = own.get("mrope_section", spec.sections or None)
    if not isinstance(sections, list | tuple):
        raise ValueError(f"mrope_section={shown(sections)} in {name} must be three numbers that add up to {p // 2}")
    dealt(p, sections, base, spec.interleaved)  # checks them
    return tuple(sections)


def settings_for(keys, spec, scaled, own):
    """The numbers that a rope_type computes with: given ones checked, missing ones as transformers fills them."""
    settings = {name: own[name] for name in READS[scaled] if own.get(name) is not None}
    for name, value in settings.items():
        if name == "truncate":
            check_bool(name, value)
        elif name not in ("short_factor", "long_factor"):
            check_number(name, value, above=0)
        elif not isinstance(value, list | tuple):
            raise TypeError(f"{name}={shown(value)} must be a list of numbers, one for each pair of lanes")
        else:
            settings[name] = [check_number(name, one, above=0) for one in value]
    length = keys.length()
    if ORIGINAL in READS[scaled]:
        if keys.get(ORIGINAL) is not None and not by_layer(spec):
            settings[ORIGINAL] = keys.whole(ORIGINAL, most=MOST["length"])
        elif ORIGINAL not in settings:
            settings[ORIGINAL] = keys.whole("max_position_embeddings", most=MOST["length"])
            keys.fault(
                f"{ORIGINAL} is missing beside {scaled!r}: the code takes max_position_embeddings={length}, and a "
                f"factor without its original length scales from the wrong one"
            )
    if scaled in ("yarn", "longrope") and "factor" not in settings:
        settings["factor"] = keys.whole("max_position_embeddings", most=MOST["length"]) / settings[ORIGINAL]
        if settings["factor"] == 1:
            keys.fault(f"factor is missing beside {scaled!r}, and no longer length is given: it comes out as 1")
    for name in READS[scaled]:
        if name not in settings and name not in OPTIONAL and scaled != "proportional":
            raise ValueError(f"{name} is missing beside rope_type={scaled!r}: add it")
    if scaled == "yarn":
        temperature(keys, spec, settings, length)
    elif scaled == "dynamic":
        settings["max_position_embeddings"] = keys.whole("max_position_embeddings", most=MOST["length"])
        given = own.get(ORIGINAL) or keys.get(ORIGINAL)
        if given and given != length:
            keys.fault(
                f"'dynamic' is static up to max_position_embeddings={length}: {ORIGINAL}={shown(given)} is not read, "
                f"so nothing changes between the two"
            )
    return settings | {"trained": settings.get(ORIGINAL) or length}


def temperature(keys, spec, settings, length):
    """YaRN's attention factor and what else is odd about its numbers."""
    scales = [settings.pop(name, None) for name in ("mscale", "mscale_all_dim")]
    factor, original = settings["factor"], settings[ORIGINAL]
    if (scales[0] is None) != (scales[1] is None):
        keys.fault("mscale and mscale_all_dim are read together or not at all: one of them is missing")
    if "attention_factor" not in settings:
        above, below = (0.1 * scale * math.log(max(factor, 1)) + 1 for scale in (scales if all(scales) else (1, 0)))
        settings["attention_factor"] = above / below
        if not any(scales):
            keys.fault(
                f"attention_factor is missing beside 'yarn': the code takes 0.1 ln {factor:g} + 1 = {above:.4g}, "
                f"which is wrong for a model trained with 1"
            )
    if by_layer(spec) and settings.pop("truncate", True) is False:
        keys.fault("truncate=False is not read where numbers stand by layer type: the code rounds the ramp's ends")
    if length and length > original and abs(length / original / factor - 1) > 0.01:
        keys.fault(f"factor={factor:g}, but {length} is {length / original:g} times {ORIGINAL}={original}")
