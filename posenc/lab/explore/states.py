r"""Every state of an explorable, evaluated, checked and encoded: what a page's data file holds.

The record is plain JSON. `figure` holds what never changes; each of `tables` holds the arrays of one trace, of the
layout or of one readout over the sliders that it depends on (`groups`: [number of the slider, sign] and, where only a
sum matters, the distinct sums).
"""

import itertools
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc.lab.explore.arrays import decode_arrays, encode_arrays
from posenc.lab.explore.leaves import as_array, draws_the_same, first_difference, flatten, unflatten
from posenc.lab.explore.sliders import Slider, random_states

MAX_STATES = 2_000
#: An array that never changes is written out as JSON up to this size, and packed above it.
MAX_PLAIN = 16


@dataclass(frozen=True)
class Axis:
    r"""One axis of a table of states: a slider's values, or the distinct signed sums of several sliders."""

    members: tuple[tuple[str, int], ...]  # slider, sign
    values: tuple

    @property
    def summed(self) -> bool:
        return len(self.members) > 1

    def states(self) -> list[dict]:
        r"""How the function is called along the axis: the first slider at the sum, the others at 0."""
        (first, _), *others = self.members
        return [{first: value, **{name: 0 for name, _ in others}} for value in self.values]


def combinations(axes: Iterable[Axis]) -> Iterator[dict]:
    r"""Every combination of the axes' values, in the order of the table."""
    for parts in itertools.product(*(axis.states() for axis in axes)):
        yield {name: value for part in parts for name, value in part.items()}


def slider_axis(slider: Slider) -> Axis:
    return Axis(((slider.name, 1),), slider.values)


def read_depends(depends: Any, sliders: Mapping[str, Slider], where: str) -> dict[str, tuple[Axis, ...]]:
    r"""The axes of each entry of `depends`, in the order of the sliders."""
    if not isinstance(depends, Mapping):
        raise TypeError(f"{where}: depends={depends!r} must be a dict of lists of slider names")
    return {item: _read_axes(parts, sliders, f"{where}: depends[{item!r}]") for item, parts in depends.items()}


def _read_axes(parts: Any, sliders: Mapping[str, Slider], where: str) -> tuple[Axis, ...]:
    if not isinstance(parts, (list, tuple)):
        raise TypeError(f"{where} must be a list of slider names, got {parts!r}")
    axes = [_read_axis(part, sliders, where) for part in parts]
    names = [name for axis in axes for name, _ in axis.members]
    for name in (axis.members[0][0] for axis in axes):  # a later member of a sum, which is set to 0, may come again
        if names.count(name) > 1:
            raise ValueError(f"{where} names {name!r} twice")
    order = list(sliders)
    return tuple(sorted(axes, key=lambda axis: order.index(axis.members[0][0])))


def _read_axis(part: Any, sliders: Mapping[str, Slider], where: str) -> Axis:
    words = part if isinstance(part, (list, tuple)) else [part]
    if not words:
        raise ValueError(f"{where} holds a sum of no sliders: {part!r}")
    members = []
    for place, word in enumerate(words):
        minus = place > 0 and isinstance(word, str) and word.startswith("-")
        name = word[1:] if minus else word
        if not isinstance(name, str) or name not in sliders:
            raise ValueError(f"{where} names {word!r}; the sliders are {list(sliders)}")
        if len(words) > 1 and not sliders[name].numeric:
            raise ValueError(f"{where} sums {name!r}, whose values are words")
        members.append((name, -1 if minus else 1))
    if len(members) == 1:
        return slider_axis(sliders[words[0]])
    terms = itertools.product(*([sign * value for value in sliders[name].values] for name, sign in members))
    return Axis(tuple(members), tuple(sorted({_sum(term) for term in terms})))


def _sum(term: tuple) -> int | float:
    return sum(term) if all(isinstance(value, int) for value in term) else round(sum(term), 9)


class Recorder:
    r"""Calls an explorable's function at every state that its traces, layout and readouts depend on.

    `evaluate`: state -> the figure taken apart, as `figure_leaves` does. Errors begin with `id`.
    """

    def __init__(
        self,
        id: str,
        evaluate: Callable[[Mapping], dict],
        sliders: Mapping[str, Slider],
        depends: Mapping[str, tuple[Axis, ...]],
    ):
        self.id, self.evaluate, self.sliders, self.depends = id, evaluate, sliders, depends
        self.start = evaluate({})
        self.traces = [name for name in self.start if name not in ("layout", "readout")]
        self.items = _items(self.start)

    def axes(self, item: str) -> tuple[Axis, ...]:
        r"""The axes over which a trace, the layout or a readout is computed; `narrowed` keeps those that move it."""
        if item in self.depends:
            return self.depends[item]
        if item.startswith("readout.") and "readout" in self.depends:
            return self.depends["readout"]
        return () if self.depends else tuple(slider_axis(s) for s in self.sliders.values())

    def trace(self, name: str) -> int:
        r"""The number of the trace of this name, which a handle may take hold of: one of `scatter`."""
        if name not in self.traces or self.start[name].get("type", "scatter") != "scatter":
            raise ValueError(f"{self.id}: handles names {name!r}, which is no scatter trace; traces: {self.traces}")
        return self.traces.index(name)

    def record(self) -> dict:
        r"""The traces' names, the figure that never changes, and the tables of what does."""
        self._check()
        data: list[dict] = [{} for _ in self.traces]
        figure, tables = {"data": data, "layout": {}}, []
        for item, series in self._series().items():
            axes, series = narrowed(self.axes(item), series)
            constants, arrays = self._encode(item, series)
            target: list = ["readout"]
            if item == "layout":
                target = ["layout"]
                figure["layout"] = unflatten(constants)
            elif item in self.traces:
                number = self.traces.index(item)
                target = ["data", number]
                data[number] = unflatten(constants)
            if arrays:
                tables.append({"item": item, "target": target, "groups": self._groups(axes), "arrays": arrays})
        record = {"traces": self.traces, "figure": figure, "tables": tables}
        self._verify(record)
        return record

    def _check(self) -> None:
        for name in self.depends:
            if name not in self.items and name != "readout":
                raise ValueError(f"{self.id}: depends names {name!r}, but the figure has {self.items}")
        for item in self.items:
            count = math.prod(len(axis.values) for axis in self.axes(item))
            if count > MAX_STATES:
                raise ValueError(
                    f"{self.id}: {item!r} has {count:,} states, more than {MAX_STATES:,}; "
                    "give the sliders fewer values, or say in depends what moves with which"
                )

    def _series(self) -> dict[str, list[dict]]:
        r"""The leaves of each item in the order of its table, equal ones the same object. Items over the same sliders
        share the calls."""
        sharing: dict[tuple[Axis, ...], list[str]] = {}
        for item in self.items:
            sharing.setdefault(self.axes(item), []).append(item)
        series: dict[str, list[dict]] = {item: [] for item in self.items}
        known: dict[str, dict[tuple, dict]] = {item: {} for item in self.items}
        for axes, items in sharing.items():
            for state in combinations(axes):
                leaves = self.evaluate(state)
                changes = set(_items(leaves)) ^ set(self.items)
                if changes:
                    raise ValueError(
                        f"{self.id}: {sorted(changes)} in some states only, such as {state}; "
                        "every state has the same traces and readouts"
                    )
                for item in items:
                    key = item.removeprefix("readout.")
                    own = leaves[item] if item in leaves else {key: leaves["readout"][key]}
                    series[item].append(known[item].setdefault(_key(own), own))
        return series

    def _encode(self, item: str, series: list[dict]) -> tuple[dict, dict]:
        r"""What is the same in all states, and the encoded arrays of the rest."""
        readout = item not in self.start
        constants, arrays = {}, {}
        for path in dict.fromkeys(path for leaves in series for path in leaves):
            values = [leaves.get(path) for leaves in series]
            if not readout and _constant(values):
                constants[path] = values[0]
                continue
            try:
                arrays[path] = encode_arrays(values, readout or _on_log(path, series[0], self.start["layout"]))
            except ValueError as error:
                raise ValueError(f"{self.id}: {item}, {path}: {error}") from error
        return constants, arrays

    def _groups(self, axes: tuple[Axis, ...]) -> list[dict]:
        names = list(self.sliders)
        return [
            {
                "of": [[names.index(name), sign] for name, sign in axis.members],
                **({"sums": list(axis.values)} if axis.summed else {}),
            }
            for axis in axes
        ]

    def _verify(self, record: Mapping) -> None:
        r"""Seeded random states come back as the function returns them; else `depends` says too little."""
        for state in random_states(self.sliders, 24 if self.depends else 4, f"{self.id}:0"):
            fresh = self.evaluate(state)
            difference = first_difference(fresh, decode_state(record, self.sliders, state))
            if difference:
                item, path = difference
                item = f"readout.{path}" if item == "readout" else item
                raise ValueError(f"{self.id}: {item!r} ({path}) at {state}: {self._blame(difference, state, fresh)}")

    def _blame(self, difference: tuple[str, str], state: dict, fresh: dict) -> str:
        r"""Why the table of an item does not give what the function returns at a state."""
        item, path = difference
        axes = self.axes(f"readout.{path}" if item == "readout" else item)
        others = set(self.sliders) - {name for axis in axes for name, _ in axis.members}

        def moves(name: str) -> bool:
            leaves = (self.evaluate({**state, name: value})[item] for value in self.sliders[name].values)
            return any(not draws_the_same(fresh[item].get(path), other.get(path)) for other in leaves)

        guilty = [repr(name) for name in sorted(others) if moves(name)]
        if guilty:
            return f"it moves with {', '.join(guilty)}, which depends does not name for it"
        sums = [[("-" if sign < 0 else "") + name for name, sign in axis.members] for axis in axes if axis.summed]
        if sums:
            return (
                f"it is not a function of the sum of {sums}; "
                "the function is called with the first at the sum, the others at 0"
            )
        return "the function does not return the same for the same values"


def narrowed(axes: tuple[Axis, ...], series: list[dict]) -> tuple[tuple[Axis, ...], list[dict]]:
    r"""The axes along which an item moves, and its leaves over these alone. Rounding, as of a sum in another order, is
    no movement."""
    numbers: dict[int, int] = {}
    grid = np.array([numbers.setdefault(id(leaves), len(numbers)) for leaves in series])
    grid = grid.reshape([len(axis.values) for axis in axes])
    distinct = [series[place] for place in np.unique(grid, return_index=True)[1]]
    moving = []
    for axis in axes:
        first = grid.take([0], len(moving))
        pairs = set(zip(np.broadcast_to(first, grid.shape).ravel().tolist(), grid.ravel().tolist()))
        if all(one == other or _close(distinct[one], distinct[other]) for one, other in pairs):
            grid = grid.take(0, len(moving))
        else:
            moving.append(axis)
    return tuple(moving), [distinct[number] for number in grid.ravel()]


def _key(leaves: dict) -> tuple:
    values = [(v.shape, v.tobytes()) if isinstance(v, np.ndarray) else repr(v) for v in leaves.values()]
    return (*leaves, *values)


def _close(one: dict, other: dict) -> bool:
    alike = (draws_the_same(value, other.get(path), rtol=1e-6, atol=1e-9) for path, value in one.items())
    return one.keys() == other.keys() and all(alike)


def decode_state(record: Mapping, sliders: Mapping[str, Slider], state: Mapping) -> dict[str, dict]:
    r"""What the player draws at a state: the record read back, in the form of `figure_leaves`."""
    items = {name: flatten(tree, name) for name, tree in zip(record["traces"], record["figure"]["data"])}
    items |= {"layout": flatten(record["figure"]["layout"], "layout"), "readout": {}}
    for table in record["tables"]:
        place = place_in(table["groups"], sliders, state)
        leaves = items["readout" if table["target"] == ["readout"] else table["item"]]
        for path, arrays in table["arrays"].items():
            value = decode_arrays(arrays, place)
            if value is not None:
                array = as_array(value)
                leaves[path] = value if array is None else array
    return items


def place_in(axes: list[Mapping], sliders: Mapping[str, Slider], state: Mapping) -> int:
    r"""The number of a state in a table, from the axes as its record has them."""
    names = list(sliders)
    place = 0
    for axis in axes:
        if "sums" in axis:
            total = sum(sign * state[names[number]] for number, sign in axis["of"])
            size, index = len(axis["sums"]), int(np.abs(np.array(axis["sums"]) - total).argmin())
        else:
            own = sliders[names[axis["of"][0][0]]]
            size, index = len(own.values), own.index(state[own.name])
        place = place * size + index
    return place


def _items(leaves: Mapping[str, dict]) -> list[str]:
    r"""The names of all that has a table of its own: traces, layout, each readout."""
    return [name for name in leaves if name != "readout"] + [f"readout.{key}" for key in leaves["readout"]]


def _constant(values: list) -> bool:
    first = values[0]
    if len(set(map(type, values))) > 1:
        return False
    if not isinstance(first, np.ndarray):
        return all(value == first for value in values)
    alike = (value is first or np.array_equal(value, first, equal_nan=True) for value in values)
    return first.size <= MAX_PLAIN and all(alike)


def _on_log(path: str, trace: Mapping[str, Any], layout: Mapping[str, Any]) -> bool:
    if path not in ("x", "y"):
        return False
    axis = trace.get(f"{path}axis", path)
    return layout.get(f"{path}axis{axis[1:]}.type") == "log"
