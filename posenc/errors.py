"""Errors that name the argument, its value and what would be right."""

import difflib
import numbers
import operator
import sys

import numpy as np
import torch

MAX_FLOAT = sys.float_info.max


class UnsupportedError(ValueError):
    """A method, an implementation or a device does not define what was asked for; the message says why."""


def shown(value, most=100):
    """repr(value), cut after `most` characters: an error names what was given, it does not print all of it."""
    try:
        text = repr(value)
    except ValueError:  # an int of more digits than Python prints
        return f"{type(value).__name__} of {value.bit_length()} bits"
    return text if len(text) <= most else f"{text[:most]}... ({len(text):,} characters)"


def nearest(name, known):
    """Return " Did you mean 'x'?" for the known name closest to `name`, or "" when none is close."""
    name = name if isinstance(name, str) else shown(name)
    close = difflib.get_close_matches(name[:100], [str(k) for k in known], n=1, cutoff=0.5)
    return f" Did you mean {close[0]!r}?" if close else ""


def check_choice(argument, value, choices):
    """Raise ValueError unless `value` is one of `choices`."""
    if not isinstance(value, str) or value not in choices:
        options = ", ".join(repr(c) for c in choices)
        raise ValueError(f"{argument}={shown(value)} is not known; choose one of {options}.{nearest(value, choices)}")


def check_int(argument, value, minimum=1, even=False):
    r"""`value` as an int (NumPy's too; no bool, no tensor). even: True for lanes in pairs, or why it must be even."""
    try:
        if isinstance(value, bool | np.bool_ | torch.Tensor):
            raise TypeError
        if not isinstance(value, int | torch.SymInt):  # a size that a compiled graph leaves open stays one
            value = operator.index(value)
    except TypeError:
        raise TypeError(f"{argument}={shown(value)} must be an int, got {type(value).__name__}") from None
    if value < minimum:
        raise ValueError(f"{argument}={shown(value)} must be at least {minimum}")
    if even and value % 2:
        reason = even if isinstance(even, str) else "its lanes are used in pairs"
        raise ValueError(f"{argument}={shown(value)} must be even: {reason}")
    return value


def check_number(argument, value, above=None, minimum=None):
    """`value` as an int or a float (NumPy's too; no bool, no tensor), finite, above `above`, at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, int | float | numbers.Real):
        raise TypeError(f"{argument}={shown(value)} must be a number, got {type(value).__name__}")
    if type(value) not in (int, float):
        value = operator.index(value) if isinstance(value, numbers.Integral) else float(value)
    if not abs(value) <= MAX_FLOAT:  # NaN and ints that no float reaches too; plain comparisons, for compiled graphs
        raise ValueError(f"{argument}={shown(value)} must be finite: floats end near {MAX_FLOAT:.1e}")
    if above is not None and not value > above:
        raise ValueError(f"{argument}={value} must be greater than {above}")
    if minimum is not None and value < minimum:
        raise ValueError(f"{argument}={value} must be at least {minimum}")
    return value


def check_bool(argument, value):
    """Raise TypeError unless `value` is True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{argument}={shown(value)} must be True or False, got {type(value).__name__}")


def check_tensor(argument, value, shape=None, ndim=None, floating=False):
    r"""Raise unless `value` is a tensor of real numbers, of `ndim` dimensions, floating where integers make no sense.

    shape: in words for the message, such as "[B, H, T, D]".
    """
    expected = f" of shape {shape}" if shape else ""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{argument} must be a tensor{expected}, got {type(value).__name__}: {shown(value)}")
    if ndim is not None and value.ndim != ndim:
        raise ValueError(f"{argument} must be a tensor{expected}, got shape {list(value.shape)}")
    if floating and not value.is_floating_point():
        raise TypeError(f"{argument} must hold floating-point numbers, got {value.dtype}")
    if value.is_complex() or (not floating and value.dtype == torch.bool):
        raise TypeError(f"{argument} must hold real numbers, got {value.dtype}")


def check_values(good, must, words):
    r"""Raise ValueError unless all of `good` hold, but neither wait for a device nor break a graph for it.

    What is `readable` is looked at now. On a GPU, and within `torch.compile` and `torch.export`, an assertion becomes
    part of the computation, which says `must`: RuntimeError, or the error of a CUDA kernel, when its turn comes. In a
    transform of `torch.func`, and on other devices, nothing is looked at. words: called for what the ValueError says.
    """
    transformed = not torch.compiler.is_compiling() and torch._C._functorch.maybe_current_level() is not None
    if torch.compiler.is_compiling() or (good.device.type == "cuda" and not transformed):
        torch._assert_async(good.all(), must)
    elif readable(good) and not good.all():
        raise ValueError(words())


def check_device(argument, tensor, device):
    """Raise ValueError unless a tensor lies on this device, where the others are."""
    if tensor.device != device:
        raise ValueError(f"{argument} is on {tensor.device}, it must be on {device}, where the rest is")


def readable(tensor):
    """Whether values of a tensor may be asked for: not in a graph or a transform, and no wait for another device."""
    return (
        not torch.compiler.is_compiling()
        and tensor.device.type == "cpu"
        and type(tensor) in (torch.Tensor, torch.nn.Parameter)
        and torch._C._functorch.maybe_current_level() is None
    )
