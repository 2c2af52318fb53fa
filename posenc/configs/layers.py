r"""One row a layer: what a model does with position there, the `Encoding` that computes it, and a page of words."""

import math
from typing import NamedTuple

import torch
from torch import nn

from ..bias.alibi import alibi, slopes
from ..bias.t5 import t5
from ..embed.learned import learned
from ..encoding import Encoding, compose
from ..errors import UnsupportedError
from ..rotate import scaling
from ..rotate.mrope import mrope
from ..rotate.rope import ladder, rope
from ..rotate.rope2d import Rotary2d
from ..weigh.sink import sink


class Query(NamedTuple):
    """A factor on the query at position m: 1 + beta ln(1 + floor((m + shift) / length))."""

    beta: float
    length: float
    shift: int = 0

    def at(self, positions):
        return 1 + self.beta * torch.log1p(torch.floor((positions + self.shift) / self.length))


class Rope(NamedTuple):
    """How fast lanes turn: a scheme by its rope_type, for dim lanes, with what `posenc.scaling` takes for it."""

    kind: str
    dim: int
    base: float
    trained: int
    settings: dict
    lanes: int  #: how many of them turn

    @property
    def dynamic(self):  # frequencies follow the length of the text
        return self.kind in ("dynamic", "longrope")

    def __str__(self):
        told = [f"{key}={value:g}" for key, value in self.settings.items() if not isinstance(value, list)]
        return f"base {self.base:g}, {self.kind}" + f" ({', '.join(told)})" * bool(told)

    def at(self, length):
        """(inv_freq [dim/2] float64, attention factor) for a text of so many tokens."""
        if self.kind in ("default", "proportional"):
            frequencies = ladder(self.dim, self.base) / self.settings.get("factor", 1.0)
            frequencies[self.lanes // 2 :] = 0.0
            return frequencies, 1.0
        told = self.settings | ({"length": length} if self.dynamic else {})
        told |= {} if self.kind in ("linear", "ntk") else {"trained": self.trained}
        return getattr(scaling, {"dynamic": "dynamic_ntk"}.get(self.kind, self.kind))(self.dim, base=self.base, **told)


class Layer(NamedTuple):
    """What one layer does with position. A field that says nothing is as here."""

    index: int  #: counted from 0
    kind: str = "full_attention"  #: by the library's name, sliding_attention, chunked_attention, linear_attention too
    method: str = "nope"  #: as in `posenc.METHODS`; "linear" for a layer without softmax, which order enters otherwise
    place: str | None = None  #: where it acts
    stack: str = ""  #: "encoder" or "decoder" where a model has both
    num_heads: int | None = None  #: H of q
    head_dim: int | None = None  #: D of q and k
    embed: tuple | None = None  #: (rows, width) of a learned table, at the model's input
    offset: int = 0  #: how many of the model's rows stand before that of position 0
    lanes: str | None = None  #: all, first, last (latent attention) or spread (the first of either half) turn
    rotary_dim: int = 0  #: how many turn
    layout: str | None = None  #: which make a pair in the weights, see `posenc.rope.rotate`
    reordered: bool = False  #: whether the library brings them into halves before its attention, which then has "half"
    direction: int = 1  #: -1 for a model that turns the other way round
    rope: Rope | None = None  #: how fast
    inv_freq: torch.Tensor | None = None  #: [p/2] float64 for a text no longer than trained; [2, p/2] on two axes
    attention_factor: float = 1.0  #: on cosines and sines
    scale: float | None = None  #: what q.k is multiplied by
    query: Query | None = None
    window: int | None = None  #: how many keys a query sees, its own among them
    chunk: int | None = None  #: size of blocks of keys; a query sees its own block alone
    sink: bool = False  #: a learned one a head
    causal: bool = True  #: whether keys after the query are hidden
    sections: tuple | None = None  #: how M-RoPE deals frequencies to time, row and column, see `posenc.mrope.dealt`
    interleaved: bool = False  #: whether in turn
    bias: dict | None = None  #: settings of ALiBi or of T5's table
    trained: int | None = None  #: the length that the model was trained with, in tokens

    @property
    def reach(self):
        """The largest distance at which a query may see a key, or None."""
        return self.window and (self.window - 1 if self.causal else self.window // 2)

    def visible(self, length):
        """[T, T] bool, True where a query may see a key of a text of so many tokens: a `mask` for `attention`."""
        at = torch.arange(length)
        offset = at[:, None] - at
        seen = offset >= (0 if self.causal else -length)
        seen = seen if self.window is None else seen & (offset.abs() <= self.reach)
        return seen if self.chunk is None else seen & (at[:, None] // self.chunk == at // self.chunk)

    def encoding(self):
        """The `Encoding` of this layer, see `Reading.encoding`."""
        if self.method == "linear":
            raise UnsupportedError(f"layer {self.index} is {self.kind}: without a softmax it has no encoding of ours")
        head, told = self.head_dim, dict(layout=self.layout, attention_factor=self.attention_factor)
        if self.method == "rope":
            size = self.rotary_dim if self.lanes == "last" else head
            if self.rope.dynamic:
                made = scaling.dynamic(size, self.rope.at, layout=self.layout)
            else:
                made = rope(size, inv_freq=self.direction * self.inv_freq, **told)
            if size < head:
                made = Encoding(rotate=Turned(made.rotate, first=head - size), head_dim=head)
        elif self.method == "mrope":
            made = mrope(head, self.sections, interleaved=self.interleaved, inv_freq=self.inv_freq, **told)
        elif self.method == "rope2d":
            made = Encoding(rotate=Rotary2d(self.inv_freq, self.layout), axes=2, head_dim=head)
        elif self.method == "alibi":
            made = alibi(self.num_heads)
            made.bias.fix(slopes=slopes(self.num_heads) * self.bias["factor"])
        elif self.method == "t5":
            made = t5(self.num_heads, **self.bias)
        else:
            made = Encoding() if self.method == "nope" else learned(*self.embed)
        if self.query is not None:
            made = Encoding(rotate=Turned(made.rotate, query=self.query), head_dim=head)
        return compose(made, sink(self.num_heads)) if self.sink else made


class Turned(nn.Module):
    """The `rotate` callable of lanes from `first` on, whose queries are also multiplied by a factor, or of it alone."""

    def __init__(self, inner, first=0, query=None):
        super().__init__()
        self.inner, self.first, self.query = inner, first, query

    def forward(self, q, k, at):
        if self.inner is not None:
            turned = self.inner(q[..., self.first :], k[..., self.first :], at)
            q, k = (torch.cat((x[..., : self.first], end), dim=-1) for x, end in zip((q, k), turned))
        return (q if self.query is None else q * self.query.at(at.pos_q)[:, None, :, None].to(q.dtype)), k


class Extent(NamedTuple):
    """What layers that do the same meet in a text of `length` tokens."""

    layers: list  #: their indices
    length: int  #: in tokens
    distance: int  #: the largest at which a query sees a key
    pairs: int  #: of lanes that turn
    slow: int  #: of those, how many never came full circle in training
    unseen: int  #: of those, how many reach an angle, at the frequencies of this length, that training had not
    words: str  #: what follows


def groups(layers):
    """Lists of layers that do the same."""
    alike = {}
    for layer in layers:
        alike.setdefault(repr(layer._replace(index=0, inv_freq=None)), []).append(layer)
    return list(alike.values())


def extent(group, length, words):
    """The `Extent` of layers that do the same, in `words`."""
    layer, far, trained, counts = group[0], length - 1, group[0].trained, [0, 0, 0]
    most = layer.reach if layer.window else layer.chunk - 1 if layer.chunk else math.inf
    distance, beyond = int(min(far, most)), trained is not None and length > trained
    said = [layer.method] if {"learned": beyond, "alibi": beyond, "t5": True}.get(layer.method) else []
    if layer.rope is not None and trained:
        now, plain = layer.rope.at(length)[0], layer.rope._replace(kind="default", settings={}).at(1)[0]
        seen = plain * min(trained, most + 1)  # as `posenc.scaling` counts turns: in the length
        slow = (plain > 0) & (seen < 2 * math.pi)
        unseen = slow & (now * (distance + 1) > seen * (1 + 1e-9))
        said, counts = ["rope"], [int(x.sum()) for x in (plain > 0, slow, unseen)]
    said += ["query"] * (layer.query is not None) + ["linear" if layer.method == "linear" else "distance"]
    last = layer.query.at(torch.tensor(float(far))).item() if layer.query else 1.0
    told = f"{'long' if beyond else 'short'}_factor is in force; " * bool(layer.rope and layer.rope.kind == "longrope")
    told += "; ".join(words[f"at {name}"].format(layer, *counts, last, distance) for name in said)
    return Extent([one.index for one in group], length, distance, *counts, told)


def numbers(indices):
    """[0, 1, 2, 5] as "0-2, 5"."""
    starts, ends = ([i for i in indices if i + step not in indices] for step in (-1, 1))
    return ", ".join(f"{a}" if a == b else f"{a}-{b}" for a, b in zip(starts, ends))


def line(layer, words):
    """What a layer does with position, in `words` for each field that says something."""
    parts = ["sliding attention" if layer.window else layer.kind.replace("_", " ")]
    for field, value in layer._replace(inv_freq=None)._asdict().items():
        if field == "method" or value != Layer._field_defaults.get(field, value):
            parts.append(words.get(f"{field}={value}", words.get(field, "")).format(layer))
    return "; ".join(filter(None, parts))


def text(reading, length=None):
    """All that a reading says, as a page."""
    known, lines = reading.table, [f"{reading.model_type}, {len(reading)} layers"]
    for group in groups(reading):
        lines += [f"  {numbers([one.index for one in group])}: {line(group[0], known['words'])}"]
    lines += ["Keys"]
    for told, meanings in ((reading.keys, "keys"), *((told, "parameters") for told in reading.parameters.values())):
        for key, value in told.used.items():
            default = " (default)" * (key not in told.given)
            if key in known[meanings] and not isinstance(value, dict) and (meanings == "keys" or not default):
                lines += [f"  {told.pattern.format(key)} = {str(value)[:60]}{default}: {known[meanings][key]}"]
    if length is not None:
        lines += [f"At {length:,} tokens"] + [f"  {numbers(one.layers)}: {one.words}" for one in reading.at(length)]
    return "\n".join(lines + ["Faults"] * bool(reading.faults) + [f"  {words}" for words in reading.faults])
