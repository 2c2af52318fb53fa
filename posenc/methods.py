r"""The table of methods: everything that lists, compares or tests "all methods" reads it."""

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple

from .bias import alibi, cope, fire, fox, inkling, kerple, shaw, t5, transformer_xl
from .embed import learned, sinusoidal
from .encoding import Encoding
from .errors import nearest, shown
from .rotate import comrope, liere, mrope, rope, rope2d
from .several import exposb, path, rse
from .weigh import sink, stickbreaking


class Method(NamedTuple):
    r"""One row of `METHODS`.

    factory: makes the `Encoding`; title: as the book prints it; places: where position enters; axes: coordinates of a
    position, None for plain numbers; causal_only: whether the default needs a causal mask; both_ways: the options that
    define it without a causal mask; shared: whether all layers of a model share one encoding; per_length: options that
    a model sets to this share of its training length; variants: other options that all tests try too, by name; fails:
    the properties that `posenc.audit` finds missing in it, with its defaults.
    """

    factory: Callable
    title: str
    places: tuple
    axes: int | None = None
    causal_only: bool = False
    both_ways: dict = {}
    shared: bool = False
    per_length: dict = {}
    variants: dict = {}
    fails: tuple = ()


def nope() -> Encoding:
    """No positional encoding: the empty `Encoding`. Chapter: Why attention needs position."""
    return Encoding()


# A row is read in a line or a few.
# fmt: off
METHODS = {
    "nope": Method(nope, "NoPE", ()),
    "sinusoidal": Method(sinusoidal.sinusoidal, "Sinusoidal", ("embed",), fails=("relative", "unseen"), variants={
        "layer_qk": {"embed_at": "layer_qk"}, "layer_qkv": {"embed_at": "layer_qkv", "volume": 0.5},
        "concatenated": {"layout": "concatenated"}}),
    "learned": Method(learned.learned, "Learned", ("embed",), fails=("relative",), variants={  # its table ends, too
        "layer_qk": {"embed_at": "layer_qk", "std": 0.5}, "layer_qkv": {"embed_at": "layer_qkv", "std": 0.5}}),
    "shaw": Method(shaw.shaw, "Shaw", ("bias",), variants={
        "clipped": {"clip": 2}, "values": {"clip": 3, "values": True}}),
    "transformer_xl": Method(transformer_xl.transformer_xl, "Transformer-XL", ("bias",), fails=("unseen",)),
    "t5": Method(t5.t5, "T5", ("bias",), causal_only=True, both_ways={"bidirectional": True}, shared=True,
        fails=("unseen",),  # its last buckets begin at 64
        variants={"bidirectional": {"bidirectional": True, "num_buckets": 8, "max_distance": 6}}),
    "kerple": Method(kerple.kerple, "KERPLE", ("bias",), fails=("unseen",), variants={"power": {"form": "power"}}),
    "fire": Method(fire.fire, "FIRE", ("bias",), causal_only=True, per_length={"threshold": 1 / 4},
        fails=("relative", "unseen"),  # beyond its threshold it divides by the query's position
        variants={"near": {"threshold": 3.0}}),
    "rope": Method(rope.rope, "RoPE", ("rotate",), fails=("unseen",), variants={
        "half": {"layout": "half"}, "partial": {"rotary_dim": 4}, "values": {"values": True},
        "proportional": {"rotary_dim": 4, "proportional": True, "layout": "half"}}),
    "rope2d": Method(rope2d.rope2d, "2D-RoPE", ("rotate",), axes=2, variants={
        "mixed": {"form": "mixed", "num_heads": 4}, "half": {"layout": "half"}}),
    "mrope": Method(mrope.mrope, "M-RoPE", ("rotate",), axes=3, variants={
        "interleaved": {"sections": (2, 1, 1), "interleaved": True}}),
    "liere": Method(liere.liere, "LieRE", ("rotate",), axes=2, variants={"planes": {"block": 2}},
        fails=("relative", "precision")),  # its planes don't commute; learned turns are rounded when cast
    "comrope": Method(comrope.comrope, "ComRoPE", ("rotate",), axes=2, variants={"linear": {"form": "ld"}},
        fails=("precision",)),  # its learned turns are rounded when cast
    "alibi": Method(alibi.alibi, "ALiBi", ("bias",), causal_only=True, both_ways={"symmetric": True}, fails=("unseen",),
        variants={"symmetric": {"symmetric": True}, "learned": {"learned": True}}),
    "stickbreaking": Method(stickbreaking.stickbreaking, "Stick-breaking", ("weigh",), causal_only=True,
        both_ways={"order": "first"}, variants={
            "current": {"attend_current": True}, "remainder": {"remainder": "current"}, "first": {"order": "first"},
            "first-both": {"order": "first", "attend_current": True, "remainder": "current"}}),
    "exposb": Method(exposb.exposb, "ExpoSB", ("rotate", "weigh"), fails=("relative", "norm", "layout", "unseen"),
        variants={"log": {"on": "log", "per_pair": True, "learn_rate": True},
                  "weights": {"on": "weights", "gain": False}}),
    "rse": Method(rse.rse, "RSE", ("rotate", "bias", "weigh"), fails=("unseen",), variants={
        "recent": {"order": "recent", "rate": 0.2}, "softmax": {"stick": False}}),
    "cope": Method(cope.cope, "CoPE", ("bias",), causal_only=True, variants={
        "few": {"num_positions": 3}, "a-table-a-head": {"num_positions": 6, "num_heads": 4}}),
    "fox": Method(fox.fox, "FoX", ("bias",), causal_only=True),
    "inkling": Method(inkling.inkling, "Inkling", ("bias",), variants={"near": {"extent": 3, "num_curves": 2}}),
    "path": Method(path.path, "PaTH", (), causal_only=True),
    "sink": Method(sink.sink, "Softmax with a sink", ("weigh",)),
}
# fmt: on


def on_text() -> tuple[str, ...]:
    """The names in `METHODS` whose positions are plain numbers, so that they are defined on text."""
    return tuple(name for name, row in METHODS.items() if row.axes is None)


def sizes(name: str, *, num_heads: int, head_dim: int, length: int) -> dict[str, int]:
    r"""The sizes that the factory of a method has no default for, as options for `make`, for a model of these sizes.

    Arguments:
        num_heads, head_dim: H and D of its attention; its width is their product.
        length: the longest sequence that it will see: a learned table gets so many rows.
    Returns: a dict such as {"head_dim": 64}; empty where the method depends on no size.
    Errors: ValueError for an unknown name.
    """
    known = {"num_heads": num_heads, "head_dim": head_dim, "dim": num_heads * head_dim, "max_positions": length}
    needed = [p.name for p in inspect.signature(row(name).factory).parameters.values() if p.default is p.empty]
    return {option: size for option, size in known.items() if option in needed}


def row(name: str) -> Method:
    r"""The row of `METHODS` with this name. Errors: ValueError for an unknown one, naming the nearest."""
    if not isinstance(name, str) or name not in METHODS:
        known = ", ".join(METHODS)
        raise ValueError(f"name={shown(name)} is no method; known: {known}.{nearest(name, METHODS)}")
    return METHODS[name]


def make(name: str, **options: Any) -> Encoding:
    r"""Make the encoding called `name`, with the options of its factory: make("rope", head_dim=64).

    Errors: ValueError for an unknown name or option, naming the nearest known one; TypeError where an option that
    has no default is missing.
    """
    factory = row(name).factory
    parameters = inspect.signature(factory).parameters
    for option in options:
        if option not in parameters:
            known = f"known: {', '.join(parameters) or 'none'}.{nearest(option, parameters)}"
            raise ValueError(f"{option}={shown(options[option])} is no option of {name}; {known}")
    missing = [p for p, spec in parameters.items() if spec.default is spec.empty and p not in options]
    if missing:
        raise TypeError(f"make({name!r}) needs {', '.join(f'{p}=...' for p in missing)}")
    return factory(**options)
