"""Errors that name the argument, its value and what would be right."""

import difflib

import torch


class UnsupportedError(ValueError):
    """A method, an implementation or a device does not define what was asked for; the message says why."""


def nearest(name, known):
    """Return " Did you mean 'x'?" for the known name closest to `name`, or "" when none is close."""
    close = difflib.get_close_matches(str(name), [str(k) for k in known], n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def check_choice(argument, value, choices):
    """Raise ValueError unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        options = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{argument}={value!r} is not known; choose one of {options}.{nearest(value, choices)}")


def check_int(argument, value, minimum=1, even=False):
    """Raise unless `value` is an int of at least `minimum` (and even, where asked)."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{argument}={value!r} must be an int, got {type(value).__name__}")
    if value < minimum:
        raise ValueError(f"{argument}={value} must be at least {minimum}")
    if even and value % 2:
        raise ValueError(f"{argument}={value} must be even: its lanes are used in pairs")


def check_number(argument, value, above=None, minimum=None):
    """Raise unless `value` is a finite real number, greater than `above` or at least `minimum` where given."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{argument}={value!r} must be a number, got {type(value).__name__}")
    if value != value or value in (float("inf"), float("-inf")):
        raise ValueError(f"{argument}={value} must be finite")
    if above is not None and not value > above:
        raise ValueError(f"{argument}={value} must be greater than {above}")
    if minimum is not None and value < minimum:
        raise ValueError(f"{argument}={value} must be at least {minimum}")


def check_bool(argument, value):
    """Raise TypeError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{argument}={value!r} must be True or False, got {type(value).__name__}")


def check_tensor(argument, value, shape=None, ndim=None, floating=False):
    r"""Raise unless `value` is a tensor of the described shape.

    Arguments:
        shape: the shape in words, used in the message, such as "[B, H, T, D]".
        ndim: the allowed number of dimensions, an int or a tuple of ints.
        floating: True where integers make no sense.
    """
    expected = f" of shape {shape}" if shape else ""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{argument} must be a tensor{expected}, got {type(value).__name__}: {value!r}")
    ndims = (ndim,) if isinstance(ndim, int) else ndim
    if ndims is not None and value.ndim not in ndims:
        raise ValueError(f"{argument} must be a tensor{expected}, got shape {list(value.shape)}")
    if floating and not value.is_floating_point():
        raise TypeError(f"{argument} must hold floating-point numbers, got {value.dtype}")
    if value.is_complex() or (not floating and value.dtype == torch.bool):
        raise TypeError(f"{argument} must hold real numbers, got {value.dtype}")


def check_positions(argument, positions):
    """Raise unless `positions` is a tensor of integers or floats with at least one dimension."""
    check_tensor(argument, positions, "[T] or [B, T]")
    if positions.ndim == 0:
        raise ValueError(f"{argument} must have shape [T] or [B, T], got a single number: {positions.item()!r}")


def whole(argument, positions):
    r"""Return `positions` as int64, for methods that look a position or a distance up in a table.

    Errors: ValueError where one of them is no whole number.
    """
    check_positions(argument, positions)
    if positions.is_floating_point() and not torch.equal(positions, positions.round()):
        odd = positions[positions != positions.round()].flatten()[0].item()
        raise ValueError(f"{argument} holds {odd:g}, it must hold whole numbers: this method looks them up in a table")
    return positions.long()


def distances(at):
    r"""pos_q - pos_k of every pair, [B or 1, Tq, Tk]. Errors: ValueError where positions have several axes."""
    if at.pos_q.ndim != 2:
        raise ValueError(
            f"pos_q {list(at.pos_q.shape)} has {at.pos_q.shape[-1]} axes, this method reads positions that are numbers"
        )
    return at.pos_q[:, :, None] - at.pos_k[:, None, :]


def offsets(at):
    r"""pos_k - pos_q of every pair, [B or 1, Tq, Tk] int64, for methods that look offsets up in a table."""
    distances(at)
    return whole("pos_k", at.pos_k)[:, None, :] - whole("pos_q", at.pos_q)[:, :, None]
