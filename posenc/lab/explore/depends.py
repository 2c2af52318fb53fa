r"""Which sliders a trace depends on: the axes of its table of states."""

import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from posenc.lab.explore.sliders import Slider


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
