r"""Explorables: figures that a reader moves with sliders, without a kernel and without a network.

An explorable is one pure function of slider values that returns a plotly figure, and the values of each slider:

    from posenc.lab.explore import COLORS, explorable, slider

    def _invariance(m, n, shift, base, pair):
        angle_q, angle_k = ...                                     # any torch or numpy code
        data = [
            dict(type="scatter", name="query", x=[0, qx], y=[0, qy], mode="lines+markers",
                 line=dict(color=COLORS["blue"])),
            dict(type="scatter", name="key", x=[0, kx], y=[0, ky], mode="lines+markers",
                 line=dict(color=COLORS["orange"], dash="dash")),
        ]
        layout = dict(xaxis=dict(range=[-1.1, 1.1], title=dict(text="dimension 2i")), yaxis=..., height=380)
        return dict(data=data, layout=layout), {"score": score}     # the second part is optional

    rotation_invariance = explorable(
        _invariance,
        title="RoPE: two vectors turn, their score stays",
        alt="Two arrows of equal length. Moving the shift slider turns both by the same angle.",
        readout="score q·k = {score:.4f}",
        depends={
            "query": [("m", "shift"), "base", "pair"],
            "key": [("n", "shift"), "base", "pair"],
            "readout": [("m", "-n"), "base", "pair"],
        },
        m=slider(range(0, 31), label="query position m", default=5),
        n=slider(range(0, 31), label="key position n", default=2),
        shift=slider(range(0, 21), label="shift of both"),
        base=slider([1e2, 1e4, 1e6], label="base b", format=lambda v: f"{v:g}"),
        pair=range(0, 8),
    )

`rotation_invariance` lives in `posenc/lab/figures/rope.py` and is called `rope.rotation_invariance`. The chapter
shows it by the directive ``{explorable} rope.rotation_invariance``, which evaluates the function for every state when
the book is built; a notebook shows it by `display(rotation_invariance)`, which evaluates it when the cell runs.

The function
    takes every slider by name and returns `figure` or `(figure, readouts)`.
    `figure` is a `plotly.graph_objects.Figure` or, much faster to build, a dict `{"data": [...], "layout": {...}}`
    with plotly's own attribute names (nested dicts: `marker=dict(color=...)`, not `marker_color`). Arrays may be lists,
    numpy arrays or torch tensors. `readouts` is a dict of numbers or strings.
    It has no state and no unseeded randomness: the same values give the same figure.
    Traces: `scatter`, `bar`, `heatmap` (what plotly's "cartesian" build draws). Every trace has a unique `name`, and
    the same names appear in every state; a trace that has nothing to show has empty arrays or `visible=False`. `name`
    labels the legend; if two traces must read alike there, give them `uid="..."`, which then stands for the name.
    Arrays may change their length between states. NaN is a gap. Infinities are refused.
    It may have further keyword-only parameters with defaults, such as `*, rotate=posenc.rope.rotate`, which
    `explorable.with_function(rotate=mine)` replaces: that is how a lab shows a student's own function.

Sliders
    `slider(values, label=, default=, format=)`, or just the values (label = name, default = first). Values are numbers,
    or strings for a choice. `format` gives the words shown and read aloud for a value, and takes the value.

`depends`
    maps the name of a trace to the sliders its data depends on; a trace not named depends on all of them. It also takes
    `"layout"` (ranges, shapes, annotations, titles; not named = the layout never changes), `"readout"` (all readouts;
    not named = all sliders) and `"readout.<key>"` (one readout). A trace is stored for the combinations of its sliders
    alone, at most 2,000 of them.
    A tuple of sliders inside the list says "depends on their sum only" (a name after the first may carry a minus sign:
    `("m", "-n")` is the difference). The trace is then stored over the distinct sums, and the function is called with
    the *first* slider set to the sum and the others to 0, even where these are not among the slider's values.
    The declaration is checked on seeded random states: a trace that moves with an undeclared slider is an error.

Size
    Numbers are stored in two bytes (one for small whole numbers), so that a state is off by less than 5e-4; wide ranges
    and log axes in four. Equal arrays are stored once. A page holds at most 300 kB of states: a heat map of 64 x 64 is
    11 kB a state, so declare few states for heat maps, or draw fewer cells.

Color
    `COLORS` (blue, orange, green, purple, sky, red, yellow, gray, ink) and `SEQUENTIAL`, `DIVERGING` for heat maps are
    readable on light and dark ground; the player swaps them with the theme. Leave fonts, background, template and grid
    alone. Do not tell things apart by color alone: use dashes (`line.dash`), marker symbols, text.
    Fix axis ranges (`xaxis.range`), or the drawing jumps while a slider moves. `layout.height` (default 360) is its
    height in pixels. The legend stands above the plot. Text takes plain Unicode (θ, ², ·), no `$...$`.

Commands
    python -m posenc.lab.explore pictures [rope.rotation_invariance ...]   draw the static pictures (needs Chromium)
    python -m posenc.lab.explore check                                     fail if a picture shows another state
    python -m posenc.lab.explore sizes                                     states and bytes of every explorable
"""

from __future__ import annotations

import base64
import hashlib
import html
import importlib
import inspect
import itertools
import json
import math
import os
import pkgutil
import random
import re
import string
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote

import numpy as np

__all__ = [
    "COLORS",
    "DIVERGING",
    "SEQUENTIAL",
    "Explorable",
    "Slider",
    "all_explorables",
    "explorable",
    "interact",
    "load",
    "slider",
]

#: Okabe and Ito's palette, darkened where needed for 3:1 on white; `static/player.js` holds each color's dark twin.
COLORS = {
    "blue": "#0072b2",
    "orange": "#c45500",
    "green": "#00805a",
    "purple": "#a8468a",
    "sky": "#2a8fc9",
    "red": "#c0392b",
    "yellow": "#a07800",
    "gray": "#6b7280",
    "ink": "#1f2933",
}
SEQUENTIAL = "Cividis"
#: From blue over a middle gray to orange; zero must be the middle (`zmid=0`).
DIVERGING = [[0.0, "#2166ac"], [0.25, "#7fb0d5"], [0.5, "#f2f2f2"], [0.75, "#e3a36b"], [1.0, "#b35806"]]

MAX_STATES = 2_000
MAX_PAGE_BYTES = 300_000
STATIC = Path(__file__).parent / "static"

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SPEC = re.compile(r"[+]?(\.\d+)?[feg%]?|[+]?d|s?")
_RESERVED = {"title", "alt", "readout", "depends", "fn"}
_STEP = 9e-4  # the coarsest step that keeps a state within 5e-4
_GAP = {"u1": 255, "u2": 65535}


# --- sliders ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slider:
    r"""One slider: its values in order, the words for each, and where it starts. Made by `slider`."""

    name: str
    label: str
    values: tuple
    words: tuple[str, ...]
    start: int

    @property
    def default(self):
        return self.values[self.start]

    @property
    def numeric(self) -> bool:
        return not isinstance(self.values[0], str)

    def index(self, value) -> int:
        r"""The place of `value` among the slider's values; raises ValueError if it is not one of them."""
        for i, known in enumerate(self.values):
            if known == value or (self.numeric and not isinstance(value, str) and math.isclose(known, value)):
                return i
        raise ValueError(f"slider {self.name!r} has no value {value!r}; it takes {_some(self.values)}")

    def nearest(self, text: str) -> int:
        r"""The place of the value nearest to what a link says: clamped; the default where it says nothing usable."""
        if not self.numeric:
            return self.values.index(text) if text in self.values else self.start
        # The same plain numbers as the player accepts: no "inf", no "1_000", no blanks, no "٣".
        if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text, re.ASCII):
            return self.start
        # Clamped first: far out, all values are equally near.
        number = min(max(float(text), min(self.values)), max(self.values))
        return min(range(len(self.values)), key=lambda i: abs(self.values[i] - number))


@dataclass(frozen=True)
class _SliderSpec:
    values: Any
    label: str | None
    default: Any
    format: Callable | None

    def named(self, name: str) -> Slider:
        if isinstance(self.values, (str, bytes)) or not isinstance(self.values, Iterable):
            raise TypeError(
                f"slider {name!r}: values must be a range or a list of numbers or strings, got {self.values!r}"
            )
        values = tuple(v.item() if hasattr(v, "item") else v for v in self.values)
        if len(values) < 2:
            raise ValueError(f"slider {name!r}: values has {len(values)} entries; a slider needs at least 2")
        strings = sum(isinstance(v, str) for v in values)
        for v in values:
            if (
                isinstance(v, bool)
                or not isinstance(v, (int, float, str))
                or (isinstance(v, float) and not math.isfinite(v))
            ):
                raise TypeError(f"slider {name!r}: values holds {v!r}; use finite numbers, or strings")
        if strings not in (0, len(values)):
            raise TypeError(f"slider {name!r}: values mixes numbers and strings: {_some(values)}; use one kind")
        if len(set(values)) < len(values):
            raise ValueError(f"slider {name!r}: values holds an entry twice: {_some(values)}")
        if self.format is not None and not callable(self.format):
            raise TypeError(f"slider {name!r}: format must be a function of the value, got {self.format!r}")
        words = tuple(str(self.format(v)) if self.format else v if isinstance(v, str) else f"{v:g}" for v in values)
        made = Slider(name, name if self.label is None else self.label, values, words, 0)
        if self.default is None:
            return made
        try:
            start = made.index(self.default)
        except ValueError:
            raise ValueError(
                f"slider {name!r}: default is {self.default!r}, not one of its values {_some(values)}"
            ) from None
        return Slider(name, made.label, values, words, start)


def slider(values: Iterable, *, label: str | None = None, default: Any = None, format: Callable | None = None):
    r"""Describe a slider of an explorable.

    `values`: numbers in the order of the slider, or strings for a choice. `label`: the words beside it (default: its
    name). `default`: the value it starts from (default: the first). `format`: value -> the words shown for it.

    Errors name the slider and are raised by `explorable`, which knows its name.
    """
    return _SliderSpec(values, label, default, format)


def _some(values, limit: int = 6) -> str:
    shown = ", ".join(repr(v) for v in values[:limit])
    return f"[{shown}{', ...' if len(values) > limit else ''}]"


# --- from a figure to plain leaves -----------------------------------------------------------------------------------


def _array(value):
    r"""A numeric array for anything that is one (list, numpy, torch, plotly's base64), else None."""
    if isinstance(value, Mapping) and set(value) >= {"dtype", "bdata"}:
        flat = np.frombuffer(base64.b64decode(value["bdata"]), dtype=np.dtype(value["dtype"]).newbyteorder("<"))
        shape = value.get("shape")
        if isinstance(shape, str):
            shape = [int(n) for n in shape.split(",")]
        value = flat if shape is None else flat.reshape(shape)
    elif hasattr(value, "detach"):
        value = value.detach().cpu().double().numpy()
    if isinstance(value, (list, tuple)):
        if any(isinstance(v, (str, Mapping, bool, np.bool_)) for v in value):
            return None
        rows = (
            [_array(v) for v in value]
            if any(isinstance(v, (list, tuple, np.ndarray)) or hasattr(v, "detach") for v in value)
            else None
        )
        if rows is not None:
            if any(r is None for r in rows) or len({r.shape for r in rows}) != 1:
                return None
            return np.stack(rows)
        try:
            value = np.array([math.nan if v is None else v for v in value], dtype=np.float64)
        except (TypeError, ValueError):
            return None
    if isinstance(value, (int, float, np.number)) and not isinstance(value, (bool, np.bool_)):
        value = np.asarray(value)
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiu":
        return value.astype(np.float64)
    return None


def _plain(value):
    r"""A JSON value: floats to 7 digits, arrays as lists."""
    if isinstance(value, Mapping):
        return {str(k): _plain(v) for k, v in value.items()}
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(v) for v in value]
    if hasattr(value, "detach"):
        return _plain(value.detach().cpu().tolist())
    if hasattr(value, "item"):
        return _plain(value.item())
    if isinstance(value, float):
        if math.isinf(value):
            raise ValueError("a figure holds an infinity; use NaN for a gap")
        return (
            None
            if math.isnan(value)
            else int(value)
            if value == int(value) and abs(value) < 1e15
            else float(f"{value:.7g}")
        )
    if value is None or isinstance(value, (str, int, bool)):
        return value
    raise TypeError(
        f"a figure cannot hold {value!r} of type {type(value).__name__}; use numbers, strings, lists, dicts"
    )


def _leaves(tree: Mapping, where: str, path: str = "") -> dict:
    r"""Flatten nested dicts to {"marker.color": array or JSON value}."""
    out = {}
    for key, value in tree.items():
        name = f"{path}{key}"
        if "_" in key:
            raise ValueError(
                f"{where}: attribute {name!r}: write nested dicts, {key.split('_')[0]}=dict({key.split('_', 1)[1]}=...)"
            )
        array = _array(value)
        if array is not None:
            if np.isinf(array).any():
                raise ValueError(f"{where}: {name!r} holds an infinity; use NaN for a gap")
            out[name] = array
        elif isinstance(value, Mapping):
            out.update(_leaves(value, where, f"{name}."))
        elif value is not None:
            out[name] = _plain(value)
    return out


def _unflatten(leaves: Mapping) -> dict:
    tree: dict = {}
    for path, value in leaves.items():
        *parents, last = path.split(".")
        at = tree
        for key in parents:
            at = at.setdefault(key, {})
        at[last] = _plain(value)
    return tree


def figure_leaves(figure, readouts: Mapping | None = None) -> dict[str, dict]:
    r"""Take a figure apart: {"<trace name>": {"x": array, ...}, "layout": {...}, "readout": {...}}.

    Numbers and numeric lists become float64 arrays, everything else JSON values. Raises where a trace has no name of
    its own, or holds what a page cannot store.
    """
    if hasattr(figure, "to_plotly_json"):
        figure = figure.to_plotly_json()
    if not isinstance(figure, Mapping) or not isinstance(figure.get("data", ()), (list, tuple)) or "data" not in figure:
        raise TypeError(
            f"the function must return a plotly figure or a dict with 'data' and 'layout', got {type(figure).__name__}"
        )
    unknown = set(figure) - {"data", "layout", "frames"}
    if unknown:
        raise ValueError(f"the figure has {sorted(unknown)}; only 'data' and 'layout' are used")
    items: dict[str, dict] = {}
    for i, trace in enumerate(figure["data"]):
        trace = trace.to_plotly_json() if hasattr(trace, "to_plotly_json") else trace
        name = trace.get("uid") or trace.get("name")
        if not isinstance(name, str) or not name:
            raise ValueError(f"trace {i} ({trace.get('type', 'scatter')}) has no name; give each trace its own")
        if name in items or name in ("layout", "readout"):
            raise ValueError(f"trace name {name!r} is taken; give each trace its own (or a uid)")
        items[name] = _leaves({"type": "scatter", **trace}, f"trace {name!r}")
    layout = {k: v for k, v in dict(figure.get("layout") or {}).items() if k != "template"}
    items["layout"] = _leaves(layout, "layout")
    items["readout"] = (
        _leaves(readouts or {}, "readout")
        if not any("_" in k for k in readouts or {})
        else {k: a if (a := _array(v)) is not None else _plain(v) for k, v in readouts.items()}
    )
    return items


def _same(a, b) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        if a.size == b.size == 0:  # JSON knows no shape of an empty heat map
            return True
        return a.shape == b.shape and np.allclose(a, b, rtol=1e-5, atol=6e-4, equal_nan=True)
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        return False
    return a == b


# --- storing arrays --------------------------------------------------------------------------------------------------


def _b64(array: np.ndarray) -> str:
    return base64.b64encode(np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<")).tobytes()).decode()


def encode_arrays(values: list, precise: bool = False) -> dict:
    r"""Store one array for each state: `values[s]` is a float64 array, or a JSON value, of state `s`.

    Equal entries are stored once, with an index where needed. Numbers take one byte (whole numbers, span up to 254),
    two bytes (`min + step * code`, step at most 9e-4, so the error is below 5e-4; whole numbers exact up to a span of
    65,534) or four (float32: wider spans, and `precise=True` for log axes). The highest code stands for NaN.
    The record is plain JSON; `decode_arrays` and the player read it.
    """
    if not all(isinstance(v, np.ndarray) for v in values):
        texts = [json.dumps(_plain(v), ensure_ascii=False, separators=(",", ":")) for v in values]
        unique = list(dict.fromkeys(texts))
        place = {t: i for i, t in enumerate(unique)}
        return {
            "type": "json",
            "rows": [json.loads(t) for t in unique],
            **_index([place[t] for t in texts], len(unique)),
        }
    flat = np.concatenate([v.ravel() for v in values]) if values else np.zeros(0)
    real = flat[~np.isnan(flat)]
    if real.size and np.abs(real).max() > np.finfo(np.float32).max:
        raise ValueError(f"{real[np.abs(real).argmax()]:g} is too large for a page, which holds float32")
    low, high = (float(real.min()), float(real.max())) if real.size else (0.0, 0.0)
    whole = bool(np.all(real == np.round(real)))
    span = high - low
    if whole and span <= 254:
        kind, step = "u1", 1.0
    elif whole and span <= 65534:
        kind, step = "u2", 1.0
    elif not precise and span <= 65534 * _STEP:
        kind, step = "u2", max(span / 65534, 1e-300)  # of a smaller span the steps would overflow
    else:
        kind, low, step = "f4", 0.0, 1.0

    def coded(v):
        if kind == "f4":
            return v.astype(np.float32).ravel()
        codes = np.where(np.isnan(v), _GAP[kind], np.round((np.nan_to_num(v) - low) / step))
        return codes.astype(np.uint8 if kind == "u1" else np.uint16).ravel()

    rows, shapes, place, index = [], [], {}, []
    for v in values:
        row = coded(v)
        key = (v.shape, row.tobytes())
        if key not in place:
            place[key] = len(rows)
            rows.append(row)
            shapes.append(list(v.shape))
        index.append(place[key])
    record = {"type": kind, "min": low, "step": step, "data": _b64(np.concatenate(rows))}
    record |= {"shape": shapes[0]} if all(s == shapes[0] for s in shapes) else {"shapes": shapes}
    return record | _index(index, len(rows))


def _index(index: list[int], unique: int) -> dict:
    if unique == 1:
        return {"index": 0}
    if index == list(range(len(index))):
        return {}
    return {"index": _b64(np.array(index, dtype=np.uint16))}


def decode_arrays(record: Mapping, state: int):
    r"""The array (or JSON value) of state number `state` in a record of `encode_arrays`."""
    index = record.get("index")
    if index is None:
        row = state
    elif isinstance(index, int):
        row = index
    else:
        row = int(np.frombuffer(base64.b64decode(index), dtype="<u2")[state])
    if record["type"] == "json":
        return record["rows"][row]
    raw = np.frombuffer(base64.b64decode(record["data"]), dtype={"u1": "<u1", "u2": "<u2", "f4": "<f4"}[record["type"]])
    if "shape" in record:
        shape = record["shape"]
        start = row * math.prod(shape)
    else:
        shape = record["shapes"][row]
        start = sum(math.prod(s) for s in record["shapes"][:row])
    codes = raw[start : start + math.prod(shape)].reshape(shape)
    if record["type"] == "f4":
        return codes.astype(np.float64)
    return np.where(codes == _GAP[record["type"]], np.nan, record["min"] + record["step"] * codes.astype(np.float64))


# --- the explorable --------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Group:
    r"""Sliders of which only the signed sum matters; mostly a single one."""

    members: tuple[tuple[str, int], ...]
    sums: tuple | None  # None for a single slider: its own values

    def key(self):
        return self.members


class Explorable:
    r"""A figure with sliders. Made by `explorable`; shown by the `{explorable}` directive or by a notebook."""

    def __init__(self, fn, title, alt, readout, depends, sliders: dict[str, Slider], id: str | None = None):
        self.fn, self.title, self.alt, self.readout, self.depends, self.sliders = (
            fn,
            title,
            alt,
            readout,
            depends,
            sliders,
        )
        self._id = id
        self._record: dict | None = None

    def __repr__(self):
        return f"<explorable {self.id}: {', '.join(self.sliders)}>"

    @property
    def id(self) -> str:
        r"""`rope.rotation_invariance` for that name in `posenc/lab/figures/rope.py`, else the function's name."""
        if self._id is None:
            module = inspect.getmodule(_innermost(self.fn))
            name = next((k for k, v in vars(module).items() if v is self), None) if module else None
            name = name or re.sub(r"\W+", "", getattr(_innermost(self.fn), "__name__", "")).strip("_") or "figure"
            where = (
                getattr(module, "__name__", "notebook")
                .removeprefix("posenc.lab.figures.")
                .replace("__main__", "notebook")
            )
            self._id = f"{where}.{name}"
        return self._id

    @property
    def module(self) -> str:
        return getattr(_innermost(self.fn), "__module__", "")

    def default_state(self) -> dict:
        return {name: s.default for name, s in self.sliders.items()}

    def with_function(self, fn: Callable | None = None, **parts) -> Explorable:
        r"""The same sliders over another function.

        `with_function(rotate=mine)` replaces keyword-only parameters of the figure's function that are not sliders;
        `with_function(my_figure)` replaces the function itself.

        Raises TypeError for a part that the function does not take.
        """
        base = self.fn if fn is None else fn
        free = [
            p.name
            for p in inspect.signature(base).parameters.values()
            if p.kind is p.KEYWORD_ONLY and p.name not in self.sliders
        ]
        for name in parts:
            if name not in free:
                raise TypeError(f"with_function: {self.id} has no part {name!r}; it takes {free or 'none'}")
        sliders = {s.name: s for s in self.sliders.values()}
        _check_signature(base, sliders, self.id)
        import functools

        made = functools.partial(base, **parts) if parts else base
        return Explorable(made, self.title, self.alt, self.readout, self.depends, sliders, id=self.id + ".own")

    # Evaluation

    def call(self, state: Mapping) -> tuple[Any, dict]:
        r"""The function at one state: (figure, readouts). Sliders that `state` does not name are at their default."""
        state = {**self.default_state(), **state}
        try:
            result = self.fn(**state)
        except Exception as error:
            shown = ", ".join(f"{k}={v!r}" for k, v in state.items())
            raise RuntimeError(f"{self.id}({shown}) raised {type(error).__name__}: {error}") from error
        figure, readouts = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
        if not isinstance(readouts, Mapping):
            raise TypeError(
                f"{self.id}: the second part of the result must be a dict of readouts, got {type(readouts).__name__}"
            )
        return figure, dict(readouts)

    def evaluate(self, state: Mapping = {}) -> dict[str, dict]:
        r"""The function at one state, taken apart by `figure_leaves`."""
        result = self.call(state)
        try:
            return figure_leaves(*result)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.id}: {error}") from error

    def readout_text(self, readouts: Mapping) -> str:
        r"""The line under the figure for these readouts (numbers, 0-d arrays or strings)."""
        if not self.readout:
            return ""
        out = []
        for text, field, spec, _ in string.Formatter().parse(self.readout):
            out.append(text)
            if field is not None:
                value = readouts[field]
                value = value.item() if hasattr(value, "item") else value
                if isinstance(value, str):
                    out.append(value)
                elif math.isnan(value):
                    out.append("–")
                else:
                    out.append(format(round(value) if spec.endswith("d") else value, spec or "g"))
        return "".join(out)

    def _groups(self, item: str, among: tuple[str, ...]) -> list[_Group]:
        entry = self.depends.get(item)
        if entry is None and item.startswith("readout."):
            entry = self.depends.get("readout")
        if entry is None:
            entry = () if item == "layout" else tuple(self.sliders)
        groups = []
        for part in entry:
            if isinstance(part, str):
                groups.append(_Group(((part, 1),), None))
                continue
            members = tuple((p.lstrip("-"), -1 if p.startswith("-") else 1) for p in part)
            values = itertools.product(*([sign * v for v in self.sliders[name].values] for name, sign in members))
            sums = sorted({sum(v) if all(isinstance(x, int) for x in v) else round(sum(v), 9) for v in values})
            groups.append(_Group(members, tuple(sums)))
        return groups

    def _states(self, groups: list[_Group]):
        r"""Every combination of the groups' values, as the function is called with it."""
        axes = []
        for g in groups:
            first = g.members[0][0]
            rest = {name: 0 for name, _ in g.members[1:]}
            axes.append([{first: v, **rest} for v in (self.sliders[first].values if g.sums is None else g.sums)])
        for combination in itertools.product(*axes):
            yield {k: v for part in combination for k, v in part.items()}

    def _place(self, table: Mapping, state: Mapping) -> int:
        r"""The number of the state in a table."""
        names = list(self.sliders)
        at = 0
        for group in table["groups"]:
            members = group["of"]
            if group.get("sums") is None:
                s = self.sliders[names[members[0][0]]]
                i, n = s.index(state[s.name]), len(s.values)
            else:
                total = sum(sign * state[names[k]] for k, sign in members)
                n = len(group["sums"])
                i = min(range(n), key=lambda j: abs(group["sums"][j] - total))
            at = at * n + i
        return at

    def record(self) -> dict:
        r"""Every state, encoded: what a page's data file holds. Computed once.

        Raises ValueError where a trace has more than 2,000 states, moves with a slider it does not declare, or where
        `depends` names what the figure has not.
        """
        if self._record is None:
            self._record = self._encode()
        return self._record

    def _encode(self) -> dict:
        start = self.evaluate()
        names = list(self.sliders)
        items = [k for k in start if k != "readout"] + [f"readout.{k}" for k in start["readout"]]
        traces = [k for k in start if k not in ("layout", "readout")]
        for name in self.depends:
            if name not in items and name != "readout":
                raise ValueError(f"{self.id}: depends names {name!r}, but the figure has {items}")
        if self.readout:
            for field in _fields(self.readout):
                if field not in start["readout"]:
                    raise ValueError(
                        f"{self.id}: readout uses {{{field}}}, but the function returns {sorted(start['readout'])}"
                    )

        def part(leaves, item):
            return {item[8:]: leaves["readout"][item[8:]]} if item.startswith("readout.") else leaves[item]

        grouped = {item: self._groups(item, tuple(names)) for item in items}
        for item, groups in grouped.items():
            count = math.prod(
                len(self.sliders[g.members[0][0]].values) if g.sums is None else len(g.sums) for g in groups
            )
            if count > MAX_STATES:
                raise ValueError(
                    f"{self.id}: {'trace ' if item in traces else ''}{item!r} has {count:,} states, "
                    f"more than {MAX_STATES:,}; declare its sliders in depends, or give the sliders fewer values"
                )
        # Items over the same sliders share the calls.
        series: dict[str, list[dict]] = {}
        for groups in {tuple(g.key() for g in v): v for v in grouped.values()}.values():
            sharing = [k for k in items if tuple(g.key() for g in grouped[k]) == tuple(g.key() for g in groups)]
            for item in sharing:
                series[item] = []
            for state in self._states(groups):
                leaves = self.evaluate(state)
                for item in sharing:
                    try:
                        series[item].append(part(leaves, item))
                    except KeyError:
                        raise ValueError(
                            f"{self.id}: {item!r} is missing at {state}; every state has the same traces"
                        ) from None
                if set(leaves) != set(start):
                    extra = sorted(set(leaves) - set(start))
                    raise ValueError(
                        f"{self.id}: trace {extra} appears only at {state}; every state has the same traces"
                    )

        tables, figure = [], {"data": [{} for _ in traces], "layout": {}}
        for item in items:
            arrays, constants = {}, {}
            for path in dict.fromkeys(p for leaves in series[item] for p in leaves):
                values = [leaves.get(path) for leaves in series[item]]
                numbers = all(isinstance(v, np.ndarray) for v in values)
                if (
                    all(_exactly(v, values[0]) for v in values)
                    and not (numbers and values[0].size > 16)
                    and not item.startswith("readout.")
                ):
                    constants[path] = values[0]
                else:
                    precise = item.startswith("readout.") or _on_log(path, series[item][0], start["layout"])
                    try:
                        arrays[path] = encode_arrays(values, precise)
                    except ValueError as error:
                        raise ValueError(f"{self.id}: {item}{path and ', '}{path}: {error}") from error
            tree = _unflatten(constants)
            if item == "layout":
                figure["layout"] = tree
            elif item in traces:
                figure["data"][traces.index(item)] = tree
            if arrays:
                target = (
                    ["layout"]
                    if item == "layout"
                    else ["readout"]
                    if item not in traces
                    else ["data", traces.index(item)]
                )
                groups = [
                    {
                        "of": [[names.index(n), sign] for n, sign in g.members],
                        **({} if g.sums is None else {"sums": list(g.sums)}),
                    }
                    for g in grouped[item]
                ]
                tables.append({"item": item, "target": target, "groups": groups, "arrays": arrays})
        record = {
            "id": self.id,
            "sliders": [
                {"name": s.name, "values": list(s.values), "words": list(s.words), "start": s.start}
                for s in self.sliders.values()
            ],
            "readout": self.readout,
            "traces": traces,
            "figure": figure,
            "tables": tables,
        }
        self._verify(record)
        return record

    def decode(self, state: Mapping, record: Mapping | None = None) -> dict[str, dict]:
        r"""What the player draws at `state`, read back from the encoded states, in the form of `figure_leaves`."""
        record = self.record() if record is None else record
        state = {**self.default_state(), **state}
        items = {name: _leaves(t, name) for name, t in zip(record["traces"], record["figure"]["data"])}
        items |= {"layout": _leaves(record["figure"]["layout"], "layout"), "readout": {}}
        for table in record["tables"]:
            at = self._place(table, state)
            target = items["readout" if table["target"] == ["readout"] else table["item"]]
            for path, record_ in table["arrays"].items():
                value = decode_arrays(record_, at)
                array = _array(value)
                if value is not None:
                    target[path] = value if array is None else array
        return items

    def random_states(self, count: int, seed: int = 0) -> list[dict]:
        r"""`count` seeded random states; the first is the default state."""
        draw = random.Random(f"{self.id}:{seed}")
        states = [{n: draw.choice(s.values) for n, s in self.sliders.items()} for _ in range(count - 1)]
        return [self.default_state(), *states]

    def _differs(self, one: Mapping, two: Mapping) -> tuple[str, str] | None:
        r"""The first (item, path) in which two taken-apart figures differ."""
        for item in one:
            for path in {**one[item], **two[item]}:
                if not _same(one[item].get(path), two[item].get(path)):
                    return item, path
        return None

    def _verify(self, record: Mapping, count: int = 24) -> None:
        for state in self.random_states(count):
            fresh = self.evaluate(state)
            found = self._differs(fresh, self.decode(state, record))
            if found is None:
                continue
            item, path = found
            item = f"readout.{path}" if item == "readout" else item
            declared = self._groups(item, tuple(self.sliders))
            alone = {g.members[0][0] for g in declared if g.sums is None}
            summed = [[("-" if sign < 0 else "") + n for n, sign in g.members] for g in declared if g.sums is not None]
            guilty = []
            for name in set(self.sliders) - alone - {n.lstrip("-") for group in summed for n in group}:
                for value in self.sliders[name].values:
                    other = self.evaluate({**state, name: value})
                    key = "readout" if item.startswith("readout.") else item
                    if not _same(fresh[key].get(path), other[key].get(path)):
                        guilty.append(name)
                        break
            if guilty:
                why = f"it moves with {', '.join(repr(g) for g in sorted(guilty))}, which depends does not name for it"
            elif summed:
                why = (
                    f"it is not a function of the sum of {summed}; "
                    "the function is called with the first at the sum, the others at 0"
                )
            else:
                why = "the function does not return the same for the same values"
            raise ValueError(f"{self.id}: {item!r} ({path}) at {state}: {why}")

    def moving(self, name: str) -> tuple[dict, dict] | None:
        r"""Two states that differ in slider `name` alone and draw differently, or None if the slider never matters."""
        for state in self.random_states(40, seed=1):
            before = self.decode(state)
            others = [v for v in self.sliders[name].values if v != state[name]]
            random.Random(name).shuffle(others)
            for value in others[:20]:
                if self._differs(before, self.decode({**state, name: value})):
                    return state, {**state, name: value}
        return None

    # Links

    def fragment(self, **state) -> str:
        r"""The URL fragment that opens the page with these values, as the player writes it: `#rope.a=m:7,base:100`."""
        parts = []
        for name, value in state.items():
            if name not in self.sliders:
                raise ValueError(f"{self.id} has no slider {name!r}; it has {list(self.sliders)}")
            s = self.sliders[name]
            value = s.values[s.index(value)]
            parts.append(f"{name}:{quote(value, safe='') if isinstance(value, str) else _number(value)}")
        return f"#{self.id}={','.join(parts)}"

    def parse(self, fragment: str) -> dict:
        r"""The state that a fragment asks for. Unknown names are ignored, numbers clamped; never raises."""
        state = self.default_state()
        for entry in fragment.removeprefix("#").split("&"):
            key, _, body = entry.partition("=")
            if unquote(key) != self.id:
                continue
            for pair in body.split(","):
                name, found, text = pair.partition(":")
                if found and name in self.sliders:
                    s = self.sliders[name]
                    state[name] = s.values[s.nearest(unquote(text, errors="replace"))]
        return state

    # Pictures

    def fingerprint(self) -> str:
        r"""What the static picture must show: a hash of everything but the floats, then two sums of each float array.

        Sums are compared with a tolerance (`same_fingerprint`), so another machine's rounding does not matter.
        """
        sums, rest = [], []
        for item, leaves in self.evaluate().items():
            if item == "readout":
                continue
            for path, value in sorted(leaves.items()):
                if isinstance(value, np.ndarray) and not np.all(value == np.round(value)):
                    gaps = np.isnan(value)
                    v = np.nan_to_num(value).ravel()
                    rest.append([item, path, list(value.shape), int(gaps.sum())])
                    waves = np.cos(1 + 0.7 * np.arange(v.size))
                    sums.append(f"{v.sum():.6g}:{(v * waves).sum():.6g}:{np.abs(v).sum():.6g}")
                else:
                    rest.append([item, path, _plain(value)])
        digest = hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()[:16]
        return ";".join([digest, *sums])

    def picture(self) -> Path:
        r"""Where the static picture of the default state is kept."""
        return Path(__file__).parents[3] / "book" / "_static" / "figures" / f"{self.id}.svg"

    @property
    def height(self) -> int:
        return int(self.evaluate()["layout"].get("height", 360))

    # HTML

    def controls_html(self, prefix: str) -> str:
        r"""Readout, sliders and reset button, ids beginning with `prefix`."""
        leaves = self.evaluate()
        rows = []
        for s in self.sliders.values():
            field = f"{prefix}-{s.name}"
            rows.append(
                f'<div class="explorable-slider"><label for="{field}">{_text(s.label)}</label>'
                f'<span class="explorable-value" aria-hidden="true">{_text(s.words[s.start])}</span>'
                f'<input type="range" id="{field}" name="{_text(s.name)}" min="0" max="{len(s.values) - 1}" step="1" '
                f'value="{s.start}" aria-valuetext="{_text(s.words[s.start])}" autocomplete="off"></div>'
            )
        readout = ""
        if self.readout:
            readout = f'<p class="explorable-readout">{_text(self.readout_text(leaves["readout"]))}</p>'
        return (
            f'{readout}<div class="explorable-controls" role="group" aria-label="{_text("Sliders: " + self.title)}">'
            f"{''.join(rows)}"
            '<div class="explorable-tools"><button type="button" class="explorable-reset">Reset</button></div></div>'
        )

    def body_html(self, prefix: str, picture: str | None, inline: bool = False) -> str:
        r"""The inside of `figure.explorable`: the plot's place and picture (a URL or None), readout, sliders."""
        # On a phone the width shrinks; the height must not shrink with it, or stacked panels become unreadable.
        size = f'width="{PICTURE_WIDTH}" height="{self.height}" style="min-height: min({self.height}px, 28rem)"'
        if picture is None:
            view = f"0 0 {PICTURE_WIDTH} {self.height}"
            stand_in = f'<svg class="explorable-picture" {size} viewBox="{view}" aria-hidden="true"></svg>'
        else:
            stand_in = (
                f'<img class="explorable-picture dark-light" src="{_text(picture)}" alt="{_text(self.alt)}" '
                f'{size} loading="lazy">'
            )
        data = ""
        if inline:
            data = f'<script type="application/json" class="explorable-data">{_script_json(self.record())}</script>'
        return (
            f'<div class="explorable-body" data-explorable="{_text(self.id)}" data-alt="{_text(self.alt)}">'
            f'<div class="explorable-plot">{stand_in}</div>{self.controls_html(prefix)}{data}</div>'
        )

    def data_js(self) -> str:
        r"""The classic script that hands the states to the player; works from `file://`."""
        return f"posencExplorable({json.dumps(self.id)}, {_script_json(self.record())});\n"

    def _repr_html_(self) -> str:
        prefix = f"explorable-{os.urandom(4).hex()}"
        caption = (
            f'<figcaption><p><span class="caption-text">{_text(self.title)}</span></p>'
            f'<div class="legend"><details><summary>What to see</summary><p>{_text(self.alt)}</p></details></div>'
            "</figcaption>"
        )
        if os.environ.get("POSENC_BOOK"):
            # The site's page brings the player; the extension puts the site's path in place of `posenc-static`.
            own = self.id.endswith(".own") or not self.picture().exists()
            picture = None if own else f"posenc-static/figures/{self.id}.svg"
            return f'<figure class="explorable">{self.body_html(prefix, picture, inline=True)}{caption}</figure>'
        from posenc.lab.explore import still

        # GitHub, nbviewer and a notebook that is not trusted run no script: they show this picture.
        picture = base64.b64encode(still.png(self.evaluate(), PICTURE_WIDTH, self.height)).decode()
        style = f"<style>{(STATIC / 'player.css').read_text('utf-8')}</style>"
        body = self.body_html(prefix, f"data:image/png;base64,{picture}", inline=True)
        figure = f'<figure class="explorable explorable-notebook" id="{prefix}">{body}{caption}</figure>'
        return figure + style + _loader(prefix)


def interact(function, **sliders):
    r"""`ipywidgets.interact` that leaves a picture, at the sliders' first values, where no kernel answers.

    A saved notebook carries the picture beside the sliders, so GitHub shows it; the built book shows nothing else.

    Arguments:
        function: draws with matplotlib; called with the sliders' values by name.
        sliders: widgets, or whatever `ipywidgets.interact` takes.
    """
    import ipywidgets
    from IPython.display import display

    if os.environ.get("POSENC_BOOK"):
        function(**_start(ipywidgets, function, sliders))
        print("One position of the sliders. Open the lab in Colab or JupyterLab to move them.")
        return
    still = _shown(function, _start(ipywidgets, function, sliders))
    widget = ipywidgets.interactive(function, **sliders)
    view = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    display({**still, "application/vnd.jupyter.widget-view+json": view}, raw=True)
    if int(ipywidgets.__version__.split(".")[0]) < 8:  # Colab's draws only when it displays itself
        widget.update()


def _start(ipywidgets, function, sliders):
    """The values that the sliders start from."""
    widgets = ipywidgets.interactive(function, {"manual": True}, **sliders).kwargs_widgets
    return {widget._kwarg: widget.get_interact_value() for widget in widgets}


def _shown(function, values) -> dict:
    r"""What the function draws and prints, by mime type: shown in place of the sliders where no kernel answers."""
    from IPython.utils.capture import capture_output

    try:
        with capture_output() as got:
            function(**values)
    except Exception as error:  # a student's function may raise anything; the sliders show it in full
        return {"text/plain": f"{type(error).__name__}: {error}"}
    pictures = [output.data["image/png"] for output in got.outputs if "image/png" in output.data]
    return {"text/plain": got.stdout or f"{_name_of(function)}, with sliders"} | (
        {"image/png": pictures[0]} if pictures else {}
    )


PICTURE_WIDTH = 680


def _exactly(a, b) -> bool:
    if isinstance(a, np.ndarray) and isinstance(b, np.ndarray):
        return a.shape == b.shape and np.array_equal(a, b, equal_nan=True)
    return type(a) is type(b) and not isinstance(a, np.ndarray) and a == b


def _on_log(path: str, trace: Mapping, layout: Mapping) -> bool:
    if path not in ("x", "y"):
        return False
    axis = trace.get(f"{path}axis", path)
    return layout.get(f"{path}axis{axis[1:]}.type") == "log"


def _number(value) -> str:
    return (
        repr(value)
        if isinstance(value, int)
        else repr(int(value))
        if value == int(value) and abs(value) < 1e15
        else repr(value)
    )


def _text(value: str) -> str:
    return html.escape(str(value), quote=True)


def _script_json(value) -> str:
    r"""JSON that cannot end a script element or a line of JavaScript."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for bad in "<>&\u2028\u2029":
        text = text.replace(bad, f"\\u{ord(bad):04x}")
    return text


def _loader(prefix: str) -> str:
    r"""The player and plotly inside the notebook's output: Colab shows each output in a frame of its own."""
    import gzip

    plotly = base64.b64encode(gzip.compress((STATIC / "plotly-cartesian.min.js").read_bytes(), 9, mtime=0)).decode()
    player = (STATIC / "player.js").read_text("utf-8").replace("</script", "<\\/script")
    # Both run with `define` and `module` hidden, so that a require.js on the page (VS Code, old Jupyter) is left alone.
    return (
        "<script>(function(define, module, exports){\n"
        f"{player}\n}})();\n"
        f'posencExplorables.notebook({json.dumps(prefix)}, "{plotly}");</script>'
    )


def _innermost(fn):
    while hasattr(fn, "func"):
        fn = fn.func
    return inspect.unwrap(fn)


def _name_of(fn) -> str:
    return getattr(_innermost(fn), "__name__", type(fn).__name__)


def _fields(template: str) -> list[str]:
    return [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]


def _check_signature(fn, sliders, where: str) -> None:
    parameters = inspect.signature(fn).parameters.values()
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    known = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    for name in sliders:
        if name not in known and not takes_any:
            raise TypeError(f"{where}: slider {name!r} is no parameter of {_name_of(fn)}, which takes {sorted(known)}")
    for p in parameters:
        if (
            p.default is p.empty
            and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)
            and p.name not in sliders
        ):
            raise TypeError(f"{where}: parameter {p.name!r} of {_name_of(fn)} has neither a slider nor a default")


def explorable(
    fn: Callable, *, title: str, alt: str, readout: str | None = None, depends: Mapping | None = None, **sliders
) -> Explorable:
    r"""Declare an explorable. The module's docstring says what each argument means.

    Raises TypeError or ValueError that names the argument, its value and what would be right. States are computed when
    the explorable is shown, not here.
    """
    if not callable(fn):
        raise TypeError(f"fn must be a function of slider values, got {fn!r}")
    where = getattr(_innermost(fn), "__name__", "explorable")
    for name, value in (("title", title), ("alt", alt)):
        if not isinstance(value, str) or not value.strip():
            raise TypeError(f"{where}: {name} must be a sentence, got {value!r}")
    if not sliders:
        raise ValueError(f"{where}: no sliders; pass at least one, such as m=range(0, 51)")
    made = {}
    for name, spec in sliders.items():
        spec = spec if isinstance(spec, _SliderSpec) else _SliderSpec(spec, None, None, None)
        made[name] = spec.named(name)
    _check_signature(fn, made, where)
    if readout is not None:
        if not isinstance(readout, str):
            raise TypeError(f"{where}: readout must be a text such as 'score {{score:.3f}}', got {readout!r}")
        try:
            fields = list(string.Formatter().parse(readout))
        except ValueError as error:
            raise ValueError(f"{where}: readout={readout!r}: {error}") from error
        for _, field, spec, conversion in fields:
            if field is None:
                continue
            if not _NAME.fullmatch(field) or conversion:
                raise ValueError(f"{where}: readout field {{{field}}} must be a plain name of a readout")
            if not _SPEC.fullmatch(spec):
                raise ValueError(
                    f"{where}: readout format {spec!r} of {{{field}}}: use .3f, .2e, .4g, .0%, d, with or without +"
                )
    checked = {}
    if not isinstance(depends, Mapping | None):
        raise TypeError(f"{where}: depends={depends!r} must be a dict of lists of slider names")
    for item, parts in (depends or {}).items():
        if isinstance(parts, str) or not isinstance(parts, (list, tuple, set, frozenset)):
            raise TypeError(f"{where}: depends[{item!r}] must be a list of slider names, got {parts!r}")
        seen = []
        for part in sorted(parts, key=str) if isinstance(parts, (set, frozenset)) else parts:
            members = (part,) if isinstance(part, str) else tuple(part) if isinstance(part, (tuple, list)) else (part,)
            if not members:
                raise ValueError(f"{where}: depends[{item!r}] holds a sum of no sliders: {parts!r}")
            for k, member in enumerate(members):
                name = member[1:] if isinstance(member, str) and member.startswith("-") and k else member
                if not isinstance(name, str) or name not in made:
                    raise ValueError(f"{where}: depends[{item!r}] names {member!r}; the sliders are {list(made)}")
                if name in seen:
                    raise ValueError(f"{where}: depends[{item!r}] names {name!r} twice")
                if len(members) > 1 and not made[name].numeric:
                    raise ValueError(f"{where}: depends[{item!r}] sums {name!r}, whose values are words")
                seen.append(name)
        order = list(made)
        checked[item] = tuple(
            sorted(
                (part if isinstance(part, str) else tuple(part) for part in parts),
                key=lambda part: order.index(part if isinstance(part, str) else part[0]),
            )
        )
        checked[item] = tuple(part[0] if isinstance(part, tuple) and len(part) == 1 else part for part in checked[item])
    return Explorable(fn, title, alt, readout, checked, made)


# --- all of them -----------------------------------------------------------------------------------------------------


def all_explorables() -> dict[str, Explorable]:
    r"""Every explorable of `posenc/figures`, by id (`rope.rotation_invariance`), sorted."""
    import posenc.lab.figures

    found = {}
    for info in pkgutil.iter_modules(posenc.lab.figures.__path__):
        module = importlib.import_module(f"posenc.lab.figures.{info.name}")
        for name, value in vars(module).items():
            if isinstance(value, Explorable) and not name.startswith("_") and value.module == module.__name__:
                value._id = f"{info.name}.{name}"
                found[value.id] = value
    return dict(sorted(found.items()))


def load(id: str) -> Explorable:
    r"""The explorable called `id`, such as `rope.rotation_invariance`.

    Raises ValueError for an id that is not there, with those that are.
    """
    module, _, name = id.partition(".")
    if not _NAME.fullmatch(module) or not _NAME.fullmatch(name):
        raise ValueError(f"explorable {id!r}: write <module>.<name>, such as rope.rotation_invariance")
    try:
        loaded = importlib.import_module(f"posenc.lab.figures.{module}")
    except ModuleNotFoundError as error:
        if error.name != f"posenc.lab.figures.{module}":
            raise
        raise ValueError(f"explorable {id!r}: there is no posenc/lab/figures/{module}.py") from None
    value = getattr(loaded, name, None)
    if not isinstance(value, Explorable):
        known = [k for k, v in vars(loaded).items() if isinstance(v, Explorable)]
        raise ValueError(f"explorable {id!r}: posenc/lab/figures/{module}.py has {known}")
    value._id = id
    return value


# --- static pictures -------------------------------------------------------------------------------------------------

_STATE = re.compile(r'data-posenc-state="([^"]*)"')


def same_fingerprint(one: str, two: str) -> bool:
    r"""Whether two `Explorable.fingerprint`s show the same state, up to rounding."""
    a, b = one.split(";"), two.split(";")
    if a[0] != b[0] or len(a) != len(b):
        return False
    for left, right in zip(a[1:], b[1:]):
        try:
            (sum_a, wave_a, size_a), (sum_b, wave_b, _) = ([float(v) for v in s.split(":")] for s in (left, right))
        except ValueError:  # a damaged picture
            return False
        slack = 1e-3 + 1e-5 * size_a
        if abs(sum_a - sum_b) > slack or abs(wave_a - wave_b) > slack:
            return False
    return True


def stale_pictures() -> list[str]:
    r"""One line for each explorable whose committed picture is missing or shows another state, and for each orphan."""
    out = []
    shown = all_explorables()
    for id, e in shown.items():
        path = e.picture()
        found = _STATE.search(path.read_text("utf-8")) if path.exists() else None
        if found is None:
            out.append(f"{id} has no picture; run: python -m posenc.lab.explore pictures {id}")
        elif not same_fingerprint(found.group(1), e.fingerprint()):
            out.append(f"{id}: the picture shows another state; run: python -m posenc.lab.explore pictures {id}")
    folder = Path(__file__).parents[3] / "book" / "_static" / "figures"
    out += [
        f"{path.name} belongs to no explorable; delete it"
        for path in sorted(folder.glob("*.svg"))
        if path.stem not in shown
    ]
    return out


def find_chromium() -> str | None:
    r"""A Chromium for Playwright: the system's, or None for the one that `playwright install chromium` brings."""
    import shutil

    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if path := shutil.which(name):
            return path
    mac = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"
    return mac if os.path.exists(mac) else None


BROWSER_ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]


def draw_pictures(ids: Iterable[str] = ()) -> list[Path]:
    r"""Draw the static pictures of these explorables (default: those that are missing or stale) with Chromium."""
    from playwright.sync_api import sync_playwright

    shown = [load(id) for id in ids]
    if not shown:
        stale = {line.split(":")[0].split(" ")[0] for line in stale_pictures()}
        shown = [e for id, e in all_explorables().items() if id in stale]
    if not shown:
        return []
    written = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=BROWSER_ARGS)
        for e in shown:
            page = browser.new_page(viewport={"width": 1000, "height": 900})
            css = (STATIC / "player.css").read_text("utf-8")
            css += f".explorable-picture{{min-height:0 !important}} .explorable-plot{{width:{PICTURE_WIDTH}px}}"
            page.set_content(
                f'<!doctype html><html data-theme="light"><style>{css}</style><body><figure class="explorable">'
                f"{e.body_html('picture', None, inline=True)}</figure></body></html>"
            )
            page.add_script_tag(path=str(STATIC / "plotly-cartesian.min.js"))
            page.add_script_tag(content=(STATIC / "player.js").read_text("utf-8"))
            svg = page.evaluate("""async () => {
                await posencExplorables.list[0].start();
                const url = await Plotly.toImage(document.querySelector('.explorable-drawing'), {format: 'svg'});
                return decodeURIComponent(url.slice(url.indexOf(',') + 1));
            }""")
            path = e.picture()
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_tidy_svg(svg, e.fingerprint()), "utf-8")
            written.append(path)
            page.close()
        browser.close()
    return written


def _tidy_svg(svg: str, fingerprint: str) -> str:
    r"""Plotly's SVG without its random ids and its weight, with the fingerprint on the root element."""
    for found in sorted(set(re.findall(r'id="(?:clip|topdefs-|defs-|legend|g)?([0-9a-f]{6})', svg))):
        svg = svg.replace(found, "posenc")
    svg = re.sub(r"\d+\.\d{3,}", lambda m: f"{float(m.group()):.2f}".rstrip("0").rstrip("."), svg)
    svg = svg.replace("<svg ", f'<svg data-posenc-state="{_text(fingerprint)}" ', 1)
    return svg.strip() + "\n"


def main(arguments: list[str]) -> int:
    r"""The module's commands; see its docstring."""
    match arguments:
        case ["pictures", *ids]:
            for path in draw_pictures(ids):
                print(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)
            return 0
        case ["check"]:
            stale = stale_pictures()
            print("\n".join(stale) or f"{len(all_explorables())} pictures show the state they should")
            return 1 if stale else 0
        case ["sizes", *ids]:
            for e in [load(id) for id in ids] or all_explorables().values():
                record = e.record()
                counts = {
                    t["item"]: math.prod(
                        len(g.get("sums") or record["sliders"][g["of"][0][0]]["values"]) for g in t["groups"]
                    )
                    for t in record["tables"]
                }
                print(f"{e.id}: {len(e.data_js().encode()):,} bytes; states: {counts}")
                for t in record["tables"]:
                    for path, r in t["arrays"].items():
                        print(f"    {t['item']}.{path}: {r['type']}, {len(json.dumps(r)):,} bytes")
            return 0
    print("usage: python -m posenc.lab.explore pictures [id ...] | check | sizes [id ...]", file=sys.stderr)
    return 2
