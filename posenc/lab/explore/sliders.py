r"""Sliders: their values in order, and the words for each."""

import math
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Slider:
    r"""One control: its values in order, the words for each, and where it starts. Made by `slider`."""

    name: str
    label: str
    values: tuple
    words: tuple[str, ...]
    start: int
    play: bool = False
    at_most: str | None = None

    @property
    def default(self) -> Any:
        return self.values[self.start]

    @property
    def numeric(self) -> bool:
        return not isinstance(self.values[0], str)

    @property
    def buttons(self) -> bool:
        r"""Whether it is a row of buttons: words, or at most four values that no play runs through."""
        return not self.play and (not self.numeric or len(self.values) <= 4)

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
    play: bool = False
    at_most: str | None = None

    def named(self, name: str) -> Slider:
        if isinstance(self.values, (str, bytes)) or not isinstance(self.values, Iterable):
            raise TypeError(f"slider {name!r}: values must be a range or list of numbers or words, got {self.values!r}")
        values = tuple(v.item() if hasattr(v, "item") else v for v in self.values)
        _check_values(values, f"slider {name!r}: values")
        if self.format is not None and not callable(self.format):
            raise TypeError(f"slider {name!r}: format must be a function of the value, got {self.format!r}")
        words = tuple(str(self.format(v)) if self.format else v if isinstance(v, str) else f"{v:g}" for v in values)
        if not isinstance(self.play, bool):
            raise TypeError(f"slider {name!r}: play must be True or False, got {self.play!r}")
        label = name if self.label is None else self.label
        slider = Slider(name, label, values, words, 0, self.play, self.at_most)
        if self.default is None:
            return slider
        try:
            return replace(slider, start=slider.index(self.default))
        except ValueError:
            raise ValueError(f"slider {name!r}: default={self.default!r} is none of its {_some(values)}") from None


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
    values: Iterable,
    *,
    label: str | None = None,
    default: Any = None,
    format: Callable | None = None,
    play: bool = False,
    at_most: str | None = None,
) -> SliderSpec:
    r"""Describe a control of an explorable: words, or at most four numbers, are a row of buttons; the rest is a slider.

    `values`: numbers in the order of the slider, or strings for a choice. `label`: the words beside it (default: its
    name). `default`: the value it starts from (default: the first). `format`: value -> the words shown for it. `play`:
    the values are a sequence, such as training steps, which a button plays. `at_most`: the name of another slider,
    whose value is the largest that this one takes.

    Errors name the slider and are raised by `explorable`, which knows its name.
    """
    return SliderSpec(values, label, default, format, play, at_most)


def check_limits(sliders: Mapping[str, Slider], where: str) -> None:
    r"""Raise where `at_most` names no slider of numbers, or where a slider starts above its limit."""
    for slider in sliders.values():
        limit = slider.at_most
        if limit is None:
            continue
        if limit not in sliders or not (slider.numeric and sliders[limit].numeric) or limit == slider.name:
            raise ValueError(f"{where}: slider {slider.name!r}: at_most={limit!r} must name another slider of numbers")
        if slider.default > sliders[limit].default or slider.values[0] > min(sliders[limit].values):
            raise ValueError(f"{where}: slider {slider.name!r} starts, or its least value lies, above {limit!r}")


def within(sliders: Mapping[str, Slider], state: Mapping) -> dict:
    r"""The state with each slider that has a limit at the largest value that it may take, if it stood above."""
    out = dict(state)
    for slider in sliders.values():
        if slider.at_most is not None and out[slider.name] > out[slider.at_most]:
            out[slider.name] = max(value for value in slider.values if value <= out[slider.at_most])
    return out


def _some(values: tuple, limit: int = 6) -> str:
    return f"[{', '.join(map(repr, values[:limit]))}{', ...' if len(values) > limit else ''}]"


def random_states(sliders: Mapping[str, Slider], count: int, seed: str) -> Iterator[dict]:
    r"""`count` seeded random states; the first is where the sliders start."""
    yield {name: s.default for name, s in sliders.items()}
    draw = random.Random(seed)
    for _ in range(count - 1):
        yield within(sliders, {name: draw.choice(s.values) for name, s in sliders.items()})
