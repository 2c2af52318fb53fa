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
    r"""Return `value` as an int, NumPy's and others that stand for one too.

    even: True for a number of lanes that are used in pairs; else False, or in words why it must be even.
    Errors: TypeError where it is no int (a bool or a tensor is none), ValueError below `minimum` or where it is odd.
    """
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
    r"""Return `value` as an int or a float, NumPy's and others that stand for one too.

    Errors: TypeError where it is no real number (a bool or a tensor is none), ValueError where it is not finite or
    has no float, is not greater than `above` or less than `minimum`.
    """
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
    r"""Raise unless `value` is a tensor of the described shape.

    Arguments:
        shape: the shape in words, used in the message, such as "[B, H, T, D]".
        ndim: the allowed number of dimensions, an int or a tuple of ints.
        floating: True where integers make no sense.
    """
    expected = f" of shape {shape}" if shape else ""
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{argument} must be a tensor{expected}, got {type(value).__name__}: {shown(value)}")
    ndims = (ndim,) if isinstance(ndim, int) else ndim
    if ndims is not None and value.ndim not in ndims:
        raise ValueError(f"{argument} must be a tensor{expected}, got shape {list(value.shape)}")
    if floating and not value.is_floating_point():
        raise TypeError(f"{argument} must hold floating-point numbers, got {value.dtype}")
    if value.is_complex() or (not floating and value.dtype == torch.bool):
        raise TypeError(f"{argument} must hold real numbers, got {value.dtype}")


def check_values(good, must, words):
    r"""Raise ValueError unless all of `good` hold, but neither wait for a device nor break a graph for it.

    What is `readable` is looked at now. On a GPU, and within `torch.compile` and `torch.export`, an assertion becomes
    part of the computation: RuntimeError, or the error of a CUDA kernel, when its turn comes. In a transform of
    `torch.func`, and on other devices, nothing is looked at.

    Arguments:
        good: bool tensor.
        must: what the assertion says.
        words: called for what the ValueError says.
    """
    transformed = not torch.compiler.is_compiling() and torch._C._functorch.maybe_current_level() is not None
    if torch.compiler.is_compiling() or (good.device.type == "cuda" and not transformed):
        torch._assert_async(good.all(), must)
    elif readable(good) and not good.all():
        raise ValueError(words())


def check_positions(argument, positions, axes=False):
    r"""Return `positions` as int64, float32 or float64, the dtypes that hold them.

    Narrower integers become int64, since a difference of theirs would wrap around. Half precision is refused: it
    counts whole numbers to 256 (bfloat16) or 2048 (float16) only. NaN and infinity are refused where reading the
    values costs nothing: in plain tensors on a CPU, outside of `torch.compile`, `torch.export` and `torch.func`.

    axes: True for positions with coordinates, whose methods read NaN as "without a place".
    Errors: TypeError or ValueError naming the argument.
    """
    check_tensor(argument, positions, "[T] or [B, T]")
    if positions.ndim == 0:
        raise ValueError(f"{argument} must have shape [T] or [B, T], got a single number")
    if not positions.is_floating_point():
        return positions.long()
    if positions.dtype not in (torch.float32, torch.float64):
        raise TypeError(f"{argument} is {positions.dtype}, which rounds positions: pass integers, float32 or float64")
    if readable(positions):
        odd = positions.isinf() if axes else ~positions.isfinite()
        if odd.any():
            raise ValueError(f"{argument} holds {positions[odd][0].item()}, positions must be finite")
    return positions


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


def whole(argument, positions):
    r"""Return `positions` as int64, for methods that look a position or a distance up in a table.

    Errors: ValueError where one of them is no whole number.
    """
    positions = check_positions(argument, positions)
    if positions.is_floating_point():
        good = positions == positions.round()
        must = "it must hold whole numbers: this method looks them up in a table"

        def words():
            return f"{argument} holds {positions[~good].flatten()[0].item():g}, {must}"

        check_values(good, f"{argument}: {must}", words)
    return positions.long()


def check_one_axis(at):
    """Raise ValueError where positions have several axes, for methods that read numbers."""
    if at.pos_q.ndim != 2:
        raise ValueError(
            f"pos_q {list(at.pos_q.shape)} has {at.pos_q.shape[-1]} axes, this method reads positions that are numbers"
        )


def distances(at):
    r"""pos_q - pos_k of every pair, [B or 1, Tq, Tk]. Errors: ValueError where positions have several axes."""
    check_one_axis(at)
    return check_positions("pos_q", at.pos_q)[:, :, None] - check_positions("pos_k", at.pos_k)[:, None, :]


def offsets(at):
    r"""pos_k - pos_q of every pair, [B or 1, Tq, Tk] int64, for methods that look offsets up in a table."""
    check_one_axis(at)
    pos_q, pos_k = whole("pos_q", at.pos_q), whole("pos_k", at.pos_k)
    return pos_k[:, None, :] - pos_q[:, :, None]
