r"""Whether a student's function is right: held against an exercise's reference, with what is wrong said in words."""

import inspect
import traceback
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from posenc.lab.check.exercise import Problem


class Verdict(NamedTuple):
    """What `judge` found: whether it is right, or undone, the mistake it is (or None), all in words, and the points."""

    right: bool
    undone: bool
    mistake: str | None
    message: str
    points: int = 0


def judge(exercise, function):
    r"""Hold a function against an `Exercise`, as the student's seed has it, without printing. Returns a `Verdict`."""
    exercise = exercise.seeded()
    if function is None or function is ...:
        return UNDONE
    if not callable(function):
        return _wrong(f"a function is expected, this is of type {type(function).__name__}.")
    cases = exercise.arguments()
    runs = [_run(exercise, function, case) for case in cases]
    if runs[0].undone:
        return UNDONE
    expected = [_leaves(exercise.call(exercise.reference, *_copy(case))) for case in cases]

    mistake = _recognize(exercise, cases, runs, expected)
    if mistake is not None:
        return _wrong(f"{mistake}.", mistake, int(exercise.points * exercise.shares.get(mistake, 0.5)))
    for number, (case, run, right) in enumerate(zip(cases, runs, expected), start=1):
        problem = run.problem or _difference(run.values, right, exercise.tolerance)
        if problem:
            return _wrong(f"with {describe(exercise.reference, case)} (case {number} of {len(cases)}) {problem}")
    return Verdict(True, False, None, f"right, in {len(cases)} case{'s' if len(cases) > 1 else ''}.", exercise.points)


UNDONE = Verdict(False, True, None, "not done yet.")


def _wrong(message, mistake=None, points=0):
    return Verdict(False, False, mistake, f"not right yet: {message}", points)


class _Run(NamedTuple):
    values: list | None = None
    undone: bool = False
    problem: str | None = None


def _run(exercise, function, case):
    """Call the function on copies; what goes wrong becomes words."""
    arguments = _copy(case)
    try:
        returned = exercise.call(function, *arguments)
    except Problem as problem:
        values = None if problem.values is None else _leaves(problem.values)
        return _Run(values, problem=problem.words)
    except NotImplementedError:
        return _Run(undone=True, problem="it raises NotImplementedError.")
    except Exception as error:  # a student's code may raise anything, the lab goes on
        return _Run(problem=_explain(function, error))
    if returned is None or returned is ...:
        return _Run(undone=True, problem="it returns nothing.")
    changed = [i for i, (old, new) in enumerate(zip(case, arguments)) if not _same(old, new)]
    if changed:
        name = argument_names(function, len(case))[changed[0]]
        return _Run(_leaves(returned), problem=f"it changes its argument {name} in place; work on a copy.")
    return _Run(_leaves(returned))


def _explain(function, error):
    code = getattr(inspect.unwrap(function), "__code__", None)
    lines = [f.lineno for f in traceback.extract_tb(error.__traceback__) if code and f.filename == code.co_filename]
    where = f" in its line {lines[-1] - code.co_firstlineno + 1}" if lines else ""
    words = str(error).strip().splitlines()
    return f"it raises {type(error).__name__}{where}" + (f": {words[0][:160]}" if words else ".")


def _recognize(exercise, cases, runs, expected):
    """The first mistake that gives what the student's function gives, in every case, or None."""
    if any(run.values is None for run in runs):
        return None
    for words, wrong in exercise.mistakes.items():
        values = [_run(exercise, wrong, case).values for case in cases]
        if any(v is None for v in values) or _all_close(values, expected, exercise.tolerance):
            continue
        if _all_close([run.values for run in runs], values, exercise.tolerance):
            return words
    return None


def _all_close(got, want, tolerance):
    return len(got) == len(want) and all(_difference(a, b, tolerance) is None for a, b in zip(got, want))


def _difference(got, want, tolerance):
    """None where the values agree, else the first difference in words."""
    if len(got) != len(want):
        return f"it returns {len(got)} value{'s' * (len(got) != 1)}, not {len(want)}."
    for number, (a, b) in enumerate(zip(got, want), start=1):
        it = "it returns" if len(want) == 1 else f"value {number} that it returns is"
        if not isinstance(b, Tensor) or not isinstance(a, Tensor):
            if isinstance(a, Tensor) or isinstance(b, Tensor):
                return f"{it} {_kind(a)}, not {_kind(b)}."
            if a != b:
                return f"{it} {a!r}, not {b!r}."
            continue
        if a.shape != b.shape:
            return f"{it} shape {list(a.shape)}, not {list(b.shape)}."
        if a.dtype != b.dtype and b.ndim:
            return f"{it} {_dtype(a)}, not {_dtype(b)}."
        a, b = _wide(a), _wide(b)
        error = (a - b).abs() / b.abs().clamp(min=1)
        off = ~((error <= tolerance) | (a == b) | (a.isnan() & b.isnan()))
        if off.any():
            index = tuple(off.nonzero()[0].tolist())
            at = f" at {list(index)}" if index else ""
            gap = f"off by {(a[index] - b[index]).abs().item():.2g}"
            many = f"; {int(off.sum())} of {off.numel()} numbers differ" if off.numel() > 1 else ""
            return f"{it} {a[index].item():.6g}{at}, not {b[index].item():.6g} ({gap}{many})."
    return None


def _wide(x):
    return x.to(torch.complex128 if x.is_complex() else torch.float64)


def _dtype(x):
    return str(x.dtype).removeprefix("torch.")


def _kind(x):
    return f"a tensor of shape {list(x.shape)}" if isinstance(x, Tensor) else f"{x!r}"


def _leaves(returned):
    """What a function returned as a flat list; numbers and arrays become tensors."""
    if isinstance(returned, (tuple, list)):
        if returned and all(isinstance(x, (bool, int, float)) for x in returned):
            return [torch.tensor(returned)]
        return [leaf for item in returned for leaf in _leaves(item)]
    if isinstance(returned, Tensor):
        return [returned.detach()]
    if isinstance(returned, float):
        return [torch.tensor(returned, dtype=torch.float64)]
    if isinstance(returned, (bool, int, complex, np.number, np.ndarray)):
        return [torch.as_tensor(returned)]
    return [returned]


def _copy(value):
    """Arguments that a student's function may spoil."""
    if isinstance(value, Tensor):
        return value.detach().clone().requires_grad_(value.requires_grad)
    if type(value) in (tuple, list):
        return type(value)(_copy(item) for item in value)
    return value


def _same(old, new):
    if isinstance(old, Tensor):
        return old.shape == new.shape and bool(((old == new) | ((old != old) & (new != new))).all())
    if type(old) in (tuple, list):
        return len(old) == len(new) and all(_same(a, b) for a, b in zip(old, new))
    return True


def argument_names(function, count):
    """The names of the first `count` arguments of a function."""
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        names = []
    return (names + [f"number {i + 1}" for i in range(len(names), count)])[:count]


def describe(reference, case):
    """The arguments in words: tensors by shape, numbers by value."""
    words = []
    for name, value in zip(argument_names(reference, len(case)), case):
        if isinstance(value, Tensor):
            words.append(f"{name} of shape {list(value.shape)}")
        elif value is None or isinstance(value, (bool, int, float, str)):
            words.append(f"{name}={value!r}")
    return ", ".join(words) or "no arguments"
