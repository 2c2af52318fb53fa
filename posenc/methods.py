r"""The table of methods: everything that lists, compares or tests "all methods" reads it."""

import inspect
from collections.abc import Callable
from typing import NamedTuple

from .bias.alibi import alibi
from .bias.fire import fire
from .bias.kerple import kerple
from .bias.shaw import shaw
from .bias.t5 import t5
from .bias.transformer_xl import transformer_xl
from .embed.learned import learned
from .embed.sinusoidal import sinusoidal
from .encoding import Encoding
from .errors import nearest
from .rotate.rope import rope
from .several.exposb import exposb
from .several.rse import rse
from .weigh.stickbreaking import stickbreaking


class Method(NamedTuple):
    r"""One row of `METHODS`.

    factory: makes the `Encoding`; title: as the book prints it; places: where position enters; axes: coordinates of a
    position, None for plain numbers; causal_only: whether the default needs a causal mask; page and lab: file names
    in book/ and notebooks/, without their endings, None where there is none; both_ways: the options that define it
    without a causal mask; shared: whether all layers of a model share one encoding.
    """

    factory: Callable
    title: str
    places: tuple
    axes: int | None = None
    causal_only: bool = False
    page: str | None = None
    lab: str | None = None
    both_ways: dict = {}
    shared: bool = False


def nope():
    """No positional encoding: the empty `Encoding`. Chapter: Why attention needs position."""
    return Encoding()


METHODS = {
    "nope": Method(nope, "NoPE", (), page="why_position"),
    "sinusoidal": Method(sinusoidal, "Sinusoidal", ("embed",), page="sinusoidal", lab="sinusoidal"),
    "learned": Method(learned, "Learned", ("embed",), page="learned", lab="learned"),
    "shaw": Method(shaw, "Shaw", ("bias",), page="relative", lab="relative"),
    "transformer_xl": Method(transformer_xl, "Transformer-XL", ("bias",), page="relative", lab="relative"),
    "t5": Method(
        t5,
        "T5",
        ("bias",),
        causal_only=True,
        page="relative",
        lab="relative",
        both_ways={"bidirectional": True},
        shared=True,
    ),
    "kerple": Method(kerple, "KERPLE", ("bias",), page="relative", lab="relative"),
    "fire": Method(fire, "FIRE", ("bias",), causal_only=True, page="relative", lab="relative"),
    "rope": Method(rope, "RoPE", ("rotate",), page="rope", lab="rope"),
    "alibi": Method(
        alibi, "ALiBi", ("bias",), causal_only=True, page="alibi", lab="alibi", both_ways={"symmetric": True}
    ),
    "stickbreaking": Method(
        stickbreaking,
        "Stick-breaking",
        ("weigh",),
        causal_only=True,
        page="stickbreaking",
        lab="stickbreaking",
        both_ways={"order": "first"},
    ),
    "exposb": Method(exposb, "ExpoSB", ("rotate", "weigh"), page="exposb", lab="exposb"),
    "rse": Method(rse, "RSE", ("rotate", "bias", "weigh"), page="rse", lab="rse"),
}


def make(name, **options):
    r"""Make the encoding called `name`, with the options of its factory: make("rope", head_dim=64).

    Errors: ValueError for an unknown name or option, naming the nearest known one; TypeError where an option that
    has no default is missing.
    """
    if not isinstance(name, str) or name not in METHODS:
        known = ", ".join(METHODS)
        raise ValueError(f"name={name!r} is no method; known: {known}.{nearest(name, METHODS)}")
    factory = METHODS[name].factory
    parameters = inspect.signature(factory).parameters
    for option in options:
        if option not in parameters:
            known = ", ".join(parameters) or "none"
            raise ValueError(
                f"{option}={options[option]!r} is no option of {name}; known: {known}.{nearest(option, parameters)}"
            )
    missing = [p for p, spec in parameters.items() if spec.default is spec.empty and p not in options]
    if missing:
        raise TypeError(f"make({name!r}) needs {', '.join(f'{p}=...' for p in missing)}")
    return factory(**options)
