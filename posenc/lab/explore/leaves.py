r"""A figure taken apart: each trace and the layout as {"marker.color": value}, numbers as float64 arrays."""

import functools
import math
from collections.abc import Mapping
from typing import Any

import numpy as np


def as_array(value: Any) -> np.ndarray | None:
    r"""A float64 array for whatever holds numbers (a number, list, numpy, torch), else None."""
    if isinstance(value, (list, tuple)):
        kinds = set(map(type, value))
        if kinds and kinds <= {int, float, type(None)}:  # most lists, without a call for each number
            return np.array(value, dtype=np.float64)  # None becomes NaN
        if kinds & {str, dict, bool}:
            return None
        rows = [np.array(math.nan) if entry is None else as_array(entry) for entry in value]
        if any(row is None for row in rows) or len({row.shape for row in rows}) > 1:
            return None
        return np.stack(rows) if rows else np.zeros(0)
    if hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        value = np.float64(value)
    if isinstance(value, (np.ndarray, np.number)) and value.dtype.kind in "fiu":
        return np.asarray(value, dtype=np.float64)
    return None


def plain(value: Any) -> Any:
    r"""A JSON value: floats to 7 digits, arrays as lists."""
    if value is None or isinstance(value, (str, int)):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    if hasattr(value, "tolist"):  # numpy and torch
        return plain(value.tolist())
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError("a figure holds an infinity; use NaN for a gap")
        if math.isnan(value):
            return None
        return int(value) if value == int(value) and abs(value) < 1e15 else float(f"{value:.7g}")
    if isinstance(value, Mapping):
        return {str(key): plain(entry) for key, entry in value.items()}
    raise TypeError(f"a figure cannot hold {value!r} ({type(value).__name__}); use numbers, strings, lists, dicts")


def flatten(tree: Mapping, where: str, path: str = "") -> dict[str, Any]:
    r"""Nested dicts as {"marker.color": array or JSON value}; None is left out."""
    leaves = {}
    for key, value in tree.items():
        name = f"{path}{key}"
        if "_" in key:
            outer, inner = key.split("_", 1)
            raise ValueError(f"{where}: attribute {name!r}: write nested dicts, {outer}=dict({inner}=...)")
        if type(value) is str:
            leaves[name] = value
        elif type(value) is dict or isinstance(value, Mapping):
            leaves |= flatten(value, where, f"{name}.")
        elif value is not None:
            leaves[name] = _leaf(value, where, name)
    return leaves


@functools.lru_cache(maxsize=1024)  # widths, sizes and limits come again in every state
def _scalar(value: float) -> np.ndarray:
    return np.array(value, dtype=np.float64)


def _leaf(value: Any, where: str, name: str) -> Any:
    if type(value) in (int, float) and math.isfinite(value):
        return _scalar(value)
    array = as_array(value)
    if array is None:
        return plain(value)
    if np.isinf(array).any():
        raise ValueError(f"{where}: {name!r} holds an infinity; use NaN for a gap")
    return array


def unflatten(leaves: Mapping[str, Any]) -> dict:
    r"""The nested dicts of JSON values that `flatten` took apart."""
    tree: dict = {}
    for path, value in leaves.items():
        *parents, last = path.split(".")
        branch = tree
        for key in parents:
            branch = branch.setdefault(key, {})
        branch[last] = plain(value)
    return tree


def figure_leaves(figure: Mapping, readouts: Mapping | None = None) -> dict[str, dict]:
    r"""Take a figure apart: {"<trace name>": {"x": array, ...}, "layout": {...}, "readout": {...}}.

    Numbers and numeric lists become float64 arrays, everything else JSON values. Raises where a trace has no name of
    its own, or holds what a page cannot store.
    """
    if not isinstance(figure, Mapping) or not isinstance(figure.get("data"), (list, tuple)):
        raise TypeError(f"the function must return a dict with 'data' and 'layout', got {type(figure).__name__}")
    if unknown := set(figure) - {"data", "layout"}:
        raise ValueError(f"the figure has {sorted(unknown)}; only 'data' and 'layout' are used")
    items: dict[str, dict] = {}
    for number, trace in enumerate(figure["data"]):
        name = trace.get("uid") or trace.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"trace {number} ({trace.get('type', 'scatter')}) has no name; give each trace its own")
        if name in items or name in ("layout", "readout") or name.startswith("readout."):
            raise ValueError(f"trace name {name!r} is taken; give each trace its own (or a uid)")
        items[name] = flatten({"type": "scatter", **trace}, f"trace {name!r}")
    items["layout"] = flatten(figure.get("layout") or {}, "layout")
    items["readout"] = {key: _leaf(value, "readout", key) for key, value in (readouts or {}).items()}
    return items


def draws_the_same(one: Any, other: Any, rtol: float = 1e-5, atol: float = 6e-4) -> bool:
    r"""Whether two leaves look alike on a page, which rounds."""
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray):
        if one.size == other.size == 0:  # JSON knows no shape of an empty heat map
            return True
        return one.shape == other.shape and np.allclose(one, other, rtol, atol, equal_nan=True)
    return not isinstance(one, np.ndarray) and not isinstance(other, np.ndarray) and one == other


def first_difference(one: Mapping[str, dict], other: Mapping[str, dict]) -> tuple[str, str] | None:
    r"""The first (item, path) at which two figures taken apart draw differently."""
    for item in one:
        for path in {**one[item], **other[item]}:
            if not draws_the_same(one[item].get(path), other[item].get(path)):
                return item, path
    return None
