r"""What a person has at hand, a function of one place, as an `Encoding`."""

import torch
from torch import nn

from ..encoding import PLACES, Encoding
from ..errors import check_choice, shown


class SubjectError(Exception):
    """The subject raised; `__cause__` is what it raised."""


class NotAsked(Exception):
    """The question makes no sense for this subject; the message says why."""


def error_words(error):
    """An error of the subject in words."""
    cause = error.__cause__ or error
    return f"{type(cause).__name__}: {' '.join(str(cause).split())[:120]}"


def checked(out, shape, words):
    """What a subject returned, once it has this shape. Errors: ValueError with the words, and what it has instead."""
    got = list(out.shape) if isinstance(out, torch.Tensor) else type(out).__name__
    if got != list(shape):
        raise ValueError(f"{words} {got}")
    return out


class ByHand(nn.Module):
    """A callable as a person has it, in the form that the package calls. A module in it moves and casts along.

    It knows one row of positions: where the rows of a batch have positions of their own, it is called for each.
    """

    def __init__(self, function):
        super().__init__()
        self.function = function

    def same_shape(self, x, positions):
        words = f"given x {list(x.shape)} and positions {list(positions.shape)} it returned"
        return checked(self.function(x, positions), x.shape, words)


def by_rows(function, positions, *batches):
    """function(batches, positions [T]) for positions [1, T], or joined from a call for each row of positions [B, T]."""
    if len(positions) == 1:
        return function(*batches, positions[0])
    return torch.cat([function(*(batch[i : i + 1] for batch in batches), own) for i, own in enumerate(positions)])


class HandEmbed(ByHand):
    def forward(self, x, positions):
        return by_rows(self.same_shape, positions, x)


class HandRotate(ByHand):
    def forward(self, q, k, at):
        return by_rows(self.same_shape, at.pos_q, q), by_rows(self.same_shape, at.pos_k, k)


class HandBias(ByHand):
    def forward(self, q, k, at):
        rows, shape = max(len(at.pos_q), len(at.pos_k)), (1, q.shape[1], q.shape[2], k.shape[2])
        pairs = zip(at.pos_q.expand(rows, -1), at.pos_k.expand(rows, -1))
        return torch.cat([torch.broadcast_to(self.function(*pair), shape) for pair in pairs])


class HandWeigh(ByHand):
    def forward(self, scores, at):
        words = f"it must return weights of shape {list(scores.shape)}, got"
        return checked(self.function(scores, at), scores.shape, words)


class HandGather(ByHand):
    def forward(self, weights, v, at):
        shape = [*weights.shape[:3], v.shape[3]]
        return checked(self.function(weights, v, at), shape, f"it must return [B, H, Tq, Dv] = {shape}, got")


class HandAttention(ByHand):
    def forward(self, q, k, v, encoding, *, pos_k=None, causal=True, return_weights=False, **others):
        positions = torch.arange(k.shape[2]) if pos_k is None else pos_k

        def outputs(q, k, v, positions):
            shape = [*q.shape[:3], v.shape[3]]
            words = f"it must return [B, H, Tq, Dv] = {shape}, got"
            return checked(self.function(q, k, v, positions, causal), shape, words)

        out = by_rows(outputs, positions.reshape(-1, k.shape[2]), q, k, v)
        return (out, None) if return_weights else out


HANDS = HandEmbed, HandRotate, HandBias, HandWeigh, HandGather, HandAttention
BY_HAND = dict(zip((*PLACES, "attention"), HANDS))


def as_encoding(subject, place, name="subject"):
    """An `Encoding` that holds the subject, or what it is compared with; name: that of the argument, for errors."""
    if isinstance(subject, Encoding):
        if place is not None:
            raise ValueError(f"place={place!r} must be None for an Encoding, which names its places itself")
        return subject
    if not callable(subject):
        raise TypeError(f"{name}={shown(subject)} must be an Encoding or a callable, got {type(subject).__name__}")
    if place is None:
        raise ValueError(f"place=None: where does {name} act? At one of {', '.join(BY_HAND)}; or make it an Encoding")
    check_choice("place", place, BY_HAND)
    part = BY_HAND[place](subject)
    return Encoding(attend=part) if place == "attention" else Encoding(**{place: part})
