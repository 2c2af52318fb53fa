r"""Sliders: their values in order, and the words for each."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Slider:
    r"""One slider: its values in order, the words for each, and where it starts. Made by `slider`."""

    name: str
    label: str
    values: tuple
    words: tuple[str, ...]
    start: int

    @property
    def default(self) -> Any:
        return self.values[self.start]

    @property
    def numeric(self) -> bool:
        return not isinstance(self.values[0], str)

    def index(self, value: Any) -> int:
        r"""The place of `value` among the slider's values; raises ValueError if it is not one of them."""
        for place, own in enumerate(self.values):
            if own == value or (self.numeric and not isinstance(value, str) and math.isclose(own, value)):
                return place
        raise ValueError(f"slider {self.name!r} has no value {value!r}; it takes {_some(self.values)}")


@dataclass(frozen=True)
class SliderSpec:
    r"""What `slider` was given; `explorable` knows the name, by which the errors call it."""

    values: Any
    label: str | None = None
    default: Any = None
    format: Callable | None = None

    def named(self, name: str) -> Slider:
        if isinstance(self.values, (str, bytes)) or not isinstance(self.values, Iterable):
            raise TypeError(
                f"slider {name!r}: values must be a range or a list of numbers or strings, got {self.values!r}"
            )
        values = tuple(v.item() if hasattr(v, "item") else v for v in self.values)
        _check_values(values, f"slider {name!r}: values")
        if self.format is not None and not callable(self.format):
            raise TypeError(f"slider {name!r}: format must be a function of the value, got {self.format!r}")
        words = tuple(str(self.format(v)) if self.format else v if isinstance(v, str) else f"{v:g}" for v in values)
        slider = Slider(name, name if self.label is None else self.label, values, words, 0)
        if self.default is None:
            return slider
        try:
            return Slider(name, slider.label, values, words, slider.index(self.default))
        except ValueError:
            raise ValueError(
                f"slider {name!r}: default is {self.default!r}, not one of its values {_some(values)}"
            ) from None


def _check_values(values: tuple, where: str) -> None:
    if len(values) < 2:
        raise ValueError(f"{where} has {len(values)} entries; a slider needs at least 2")
    for value in values:
        usable = isinstance(value, (int, float, str)) and not isinstance(value, bool)
        if not usable or (isinstance(value, float) and not math.isfinite(value)):
            raise TypeError(f"{where} holds {value!r}; use finite numbers, or strings")
    if len({isinstance(value, str) for value in values}) > 1:
        raise TypeError(f"{where} mixes numbers and strings: {_some(values)}; use one kind")
    if len(set(values)) < len(values):
        raise ValueError(f"{where} holds an entry twice: {_some(values)}")


def slider(
    values: Iterable, *, label: str | None = None, default: Any = None, format: Callable | None = None
) -> SliderSpec:
    r"""Describe a slider of an explorable.

    `values`: numbers in the order of the slider, or strings for a choice. `label`: the words beside it (default: its
    name). `default`: the value it starts from (default: the first). `format`: value -> the words shown for it.

    Errors name the slider and are raised by `explorable`, which knows its name.
    """
    return SliderSpec(values, label, default, format)


def _some(values: tuple, limit: int = 6) -> str:
    return f"[{', '.join(map(repr, values[:limit]))}{', ...' if len(values) > limit else ''}]"


def random_states(sliders: Mapping[str, Slider], count: int, seed: str) -> Iterator[dict]:
    r"""`count` seeded random states; the first is where the sliders start."""
    yield {name: s.default for name, s in sliders.items()}
    draw = random.Random(seed)
    for _ in range(count - 1):
        yield {name: draw.choice(s.values) for name, s in sliders.items()}
