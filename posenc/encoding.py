r"""The places where position can enter attention, and the object that holds a choice for each."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor, nn

from .errors import UnsupportedError, check_choice, check_int, shown

PLACES = ("embed", "rotate", "bias", "weigh", "gather")
SIZES = ("dim", "num_heads", "head_dim")


class At(NamedTuple):
    r"""Where the queries and keys stand: what `rotate`, `bias`, `weigh` and `gather` are told besides the numbers.

    pos_q: [B or 1, Tq] (or [B or 1, Tq, n] with n axes), positions of the queries, integers or floats.
    pos_k: [B or 1, Tk] (or [B or 1, Tk, n]), positions of the keys.
    visible: [B or 1, 1, Tq, Tk] bool, True where query i may see key j (causality and mask together).
    gates: None, or what a method that reads gates was given: [B, H, Tk], or [B, H, Tk, n].
    scores: told to `bias` alone: the scaled products scale q.k, [B, H, Tq, Tk], float32 or float64, before any mask.
    """

    pos_q: Tensor
    pos_k: Tensor
    visible: Tensor
    gates: Tensor | None = None
    scores: Tensor | None = None


class Gates(NamedTuple):
    r"""What an encoding reads of each token besides q, k and v.

    size: () for one number a head, `gates` [B, H, Tk]; (n,) for n of them, [B, H, Tk, n].
    activation: what `SelfAttention` applies to x W + b, float32, of which it makes them; padding gets 0 after that.
    """

    size: tuple = ()
    activation: Callable = nn.Identity()


class Encoding(nn.Module):
    r"""A positional encoding: at most one callable for each of the five places.

    embed:  (x [B, T, C], pos [B or 1, T]) -> x            added to embeddings
    rotate: (q [B, H, Tq, D], k [B, H, Tk, D], at) -> q, k  applied before the dot product
    bias:   (q, k, at) -> broadcastable to [B, H, Tq, Tk]   added to the scaled logits
    weigh:  (scores [B, H, Tq, Tk], at) -> weights          in place of the softmax
    gather: (weights [B, H, Tq, Tk], v [B, H, Tk, Dv], at) -> [B, H, Tq, Dv]  in place of the weighted sum of values

    `Encoding()` holds none of them: it is NoPE, attention without position.

    Arguments:
        embed_at: where `embed` acts: "input" (once, on the embeddings, see `posenc.embed_input`), "layer_qk" (in each
            layer, on what queries and keys are made from) or "layer_qkv" (values too).
        axes: None for positions that are numbers, n for positions with n coordinates.
        gates: None, or the `Gates` that a place reads: `attention` then asks for them, and `SelfAttention` makes them.
        causal_only: None, or the reason why the method is not defined without a causal mask.
        attend: None, or the attention function of a method that fits no place, called in place of
            `posenc.attention` as attend(q, k, v, encoding, **options) with the options that were given to it.
        dim, num_heads, head_dim: C of what is embedded, H and D of q, where the places are made for one size alone:
            `attention` and `SelfAttention` then refuse others. None: any.
    Errors: TypeError where a place is not callable, TypeError or ValueError naming another argument.
    Chapter: Four places.
    """

    def __init__(
        self,
        embed: Callable | None = None,
        rotate: Callable | None = None,
        bias: Callable | None = None,
        weigh: Callable | None = None,
        gather: Callable | None = None,
        *,
        embed_at: str = "input",
        axes: int | None = None,
        gates: Gates | None = None,
        causal_only: str | None = None,
        attend: Callable | None = None,
        dim: int | None = None,
        num_heads: int | None = None,
        head_dim: int | None = None,
    ) -> None:
        super().__init__()
        for place, function in zip((*PLACES, "attend"), (embed, rotate, bias, weigh, gather, attend)):
            if function is not None and not callable(function):
                raise TypeError(f"{place}={shown(function)} must be a callable or None, got {type(function).__name__}")
            setattr(self, place, function)
        check_choice("embed_at", embed_at, ("input", "layer_qk", "layer_qkv"))
        if axes is not None:
            axes = check_int("axes", axes)
        if not isinstance(gates, Gates | None):
            raise TypeError(f"gates={shown(gates)} must be a posenc.encoding.Gates or None, got {type(gates).__name__}")
        if not isinstance(causal_only, str | None):
            raise TypeError(f"causal_only={shown(causal_only)} must be None or the reason, in words")
        self.embed_at, self.axes, self.causal_only = embed_at, axes, causal_only
        self.gates = gates
        for name, size in zip(SIZES, (dim, num_heads, head_dim)):
            setattr(self, name, None if size is None else check_int(name, size))

    @property
    def places(self):
        """The names of the places that this encoding fills, in the order of the computation."""
        return tuple(place for place in PLACES if getattr(self, place) is not None)

    def without(self, place):
        """This encoding with nothing at `place`; the other parts are shared, and sizes and gates stay as they are."""
        check_choice("place", place, self.places)
        kept = {name: getattr(self, name) for name in (*self.places, "attend") if name != place}
        settings = dict(embed_at=self.embed_at, axes=self.axes, gates=self.gates, causal_only=self.causal_only)
        sizes = {name: getattr(self, name) for name in SIZES if (name, place) != ("dim", "embed")}
        return Encoding(**kept, **settings, **sizes)

    def at_input(self):
        r"""What acts before the first layer, for `posenc.embed_input`: `embed` with embed_at="input", or nothing."""
        embed = self.embed if self.embed_at == "input" else None
        return Encoding(embed=embed, axes=self.axes, dim=None if embed is None else self.dim)

    def in_layers(self):
        r"""What acts in the layers, for `SelfAttention`: all but an `embed` with embed_at="input". Parts are shared."""
        return self if self.embed is None or self.embed_at != "input" else self.without("embed")

    def extra_repr(self):
        return f"places={self.places}"


def compose(*encodings: Encoding) -> Encoding:
    r"""Join encodings that act at different places into one.

    compose(rope(head_dim=64), alibi(num_heads=8)) rotates and biases. The parts are shared, not copied.

    Errors: TypeError where an argument is no Encoding; UnsupportedError where two claim the same place, count
    different axes or are made for different sizes, or read gates both.
    """
    chosen, sizes, axes, gates, causal_only, embed_at = {}, {}, None, None, None, "input"
    for index, encoding in enumerate(encodings):
        if not isinstance(encoding, Encoding):
            raise TypeError(f"encodings[{index}]={shown(encoding)} must be an Encoding, got {type(encoding).__name__}")
        own = ("attend",) if encoding.attend is not None else ()
        for place in (*encoding.places, *own):
            if place in chosen:
                raise UnsupportedError(
                    f"encodings[{index}] claims the place {place!r}, which an earlier one already holds; "
                    f"compose takes at most one encoding for each place"
                )
            chosen[place] = getattr(encoding, place)
            embed_at = encoding.embed_at if place == "embed" else embed_at
        for name in SIZES:
            own, other = getattr(encoding, name), sizes.get(name)
            if own is not None and other is not None and own != other:
                raise UnsupportedError(f"encodings[{index}] is made for {name}={own}, an earlier one for {other}")
            sizes[name] = other if own is None else own
        if encoding.axes is not None and axes is not None and encoding.axes != axes:
            raise UnsupportedError(f"encodings[{index}] counts {encoding.axes} axes, an earlier one {axes}")
        axes = axes if encoding.axes is None else encoding.axes
        if encoding.gates is not None and gates is not None:
            raise UnsupportedError(f"encodings[{index}] reads gates, and so does an earlier one; one of them may")
        gates = gates if encoding.gates is None else encoding.gates
        causal_only = causal_only or encoding.causal_only
    return Encoding(**chosen, embed_at=embed_at, axes=axes, gates=gates, causal_only=causal_only, **sizes)


def softmax(scores: torch.Tensor, at: At) -> torch.Tensor:
    r"""Weigh visible keys by the softmax of their logits; a query that sees no key gets weights of exactly 0.

    A key whose logit is -inf, such as one that FoX has forgotten, is as one that is not visible.

    scores: [B, H, Tq, Tk]. Returns weights of the same shape, rows summing to 1 (or 0).
    """
    hidden = ~at.visible | scores.isneginf()
    return torch.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1).masked_fill(hidden, 0.0)


def weighted_sum(weights: torch.Tensor, v: torch.Tensor, at: At) -> torch.Tensor:
    r"""The sum over keys of weights [B, H, Tq, Tk] times values v [B, H, Tk, Dv]: [B, H, Tq, Dv]."""
    return weights.to(v.dtype) @ v
