r"""An explorable: a function of slider values that returns a figure, and how it is shown."""

import base64
import functools
import inspect
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import posenc.lab.explore.page as page
from posenc.lab.explore.arrays import fingerprint
from posenc.lab.explore.leaves import figure_leaves
from posenc.lab.explore.notebook import figure_html
from posenc.lab.explore.sliders import Slider, SliderSpec, check_limits, random_states
from posenc.lab.explore.states import Axis, Recorder, decode_state, read_depends

PICTURES = Path(__file__).parents[3] / "book" / "_static" / "figures"


@dataclass(eq=False, repr=False)
class Explorable:
    r"""A figure with sliders. Made by `explorable`; shown by the `{explorable}` directive or by a notebook."""

    id: str
    fn: Callable
    title: str
    alt: str
    readout: str | None
    depends: dict[str, tuple[Axis, ...]]
    sliders: dict[str, Slider]
    handles: dict[str, tuple[str, ...]] = field(default_factory=dict)
    see: str = ""
    _record: dict | None = field(default=None, init=False)

    def __repr__(self):
        return f"<explorable {self.id}: {', '.join(self.sliders)}>"

    def with_function(self, **parts: Any) -> "Explorable":
        r"""The same sliders over another function: `with_function(rotate=mine)` replaces keyword-only parameters of
        the figure's function that are not sliders.

        Raises TypeError for a part that the function does not take.
        """
        parameters = inspect.signature(self.fn).parameters.values()
        free = [p.name for p in parameters if p.kind is p.KEYWORD_ONLY and p.name not in self.sliders]
        for name in parts:
            if name not in free:
                raise TypeError(f"with_function: {self.id} has no part {name!r}; it takes {free or 'none'}")
        return replace(self, id=f"{self.id}.own", fn=functools.partial(self.fn, **parts))

    # States

    def default_state(self) -> dict:
        return {name: s.default for name, s in self.sliders.items()}

    def random_states(self, count: int, seed: int = 0) -> list[dict]:
        r"""`count` seeded random states; the first is the default state."""
        return list(random_states(self.sliders, count, f"{self.id}:{seed}"))

    def evaluate(self, state: Mapping = {}) -> dict[str, dict]:
        r"""The function's figure at one state, taken apart by `figure_leaves`.

        Sliders that `state` does not name are at their default.
        """
        state = {**self.default_state(), **state}
        try:
            result = self.fn(**state)
        except Exception as error:
            values = ", ".join(f"{name}={value!r}" for name, value in state.items())
            raise RuntimeError(f"{self.id}({values}) raised {type(error).__name__}: {error}") from error
        figure, readouts = result if isinstance(result, tuple) and len(result) == 2 else (result, {})
        if not isinstance(readouts, Mapping):
            kind = type(readouts).__name__
            raise TypeError(f"{self.id}: the second part of the result must be a dict of readouts, got {kind}")
        try:
            return figure_leaves(figure, readouts)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{self.id}: {error}") from error

    def record(self) -> dict:
        r"""Every state, encoded: what a page's data file holds. Computed once.

        Raises ValueError where the figure, or a trace by its `depends`, has more than 2,000 states, where a trace moves
        with a slider that `depends` does not name for it, or where `depends` or `readout` names what the figure lacks.
        """
        if self._record is None:
            recorder = Recorder(self.id, self.evaluate, self.sliders, self.depends)
            for name in page.fields(self.readout or ""):
                if name not in recorder.start["readout"]:
                    names = sorted(recorder.start["readout"])
                    raise ValueError(f"{self.id}: readout uses {{{name}}}, but the function returns {names}")
            names = list(self.sliders)
            sliders = [
                {"name": s.name, "label": s.label, "values": list(s.values), "words": list(s.words), "start": s.start}
                | ({} if s.at_most is None else {"atMost": names.index(s.at_most)})
                for s in self.sliders.values()
            ]
            handles = [
                [recorder.trace(name), [names.index(slider) for slider in bound]]
                for name, bound in self.handles.items()
            ]
            fixed = {"id": self.id, "sliders": sliders, "readout": self.readout, "handles": handles}
            self._record = fixed | recorder.record()
        return self._record

    def decode(self, state: Mapping) -> dict[str, dict]:
        r"""What the player draws at `state`, read back from the encoded states, in the form of `figure_leaves`."""
        return decode_state(self.record(), self.sliders, {**self.default_state(), **state})

    # Pictures and pages

    def fingerprint(self) -> str:
        r"""What the static picture must show; see `same_fingerprint`."""
        return fingerprint(self.evaluate())

    def picture(self) -> Path:
        r"""Where the static picture of the default state is kept."""
        return PICTURES / f"{self.id}.svg"

    def readout_text(self, readouts: Mapping) -> str:
        r"""The line under the figure for these readouts (numbers, 0-d arrays or strings)."""
        return page.fill(self.readout or "", readouts)

    def body_html(self, prefix: str, picture: str | None, inline: bool = False) -> str:
        r"""The inside of `figure.explorable`: readout, the plot's place and picture (a URL or None), controls.

        Ids begin with `prefix`. With `inline`, the states stand inside it too.
        """
        items = self.evaluate()
        readout = self.readout_text(items["readout"]) if self.readout else None
        return page.body_html(self, prefix, picture, int(items["layout"].get("height", 360)), readout, inline)

    def data_js(self) -> str:
        r"""The classic script that hands the states to the player; works from `file://`."""
        return page.data_js(self.id, self.record())

    def _repr_html_(self) -> str:
        prefix, caption = f"explorable-{os.urandom(4).hex()}", page.caption_html(self.title, self.see, self.alt)
        in_book, picture = os.environ.get("POSENC_BOOK"), None
        if in_book and self.picture().exists():  # the extension puts the site's path in place of `posenc-static`
            picture = f"posenc-static/figures/{self.id}.svg"
        elif self.picture().exists():
            picture = f"data:image/svg+xml;base64,{base64.b64encode(self.picture().read_bytes()).decode()}"
        inside = self.body_html(prefix, picture, inline=True) + caption
        return f'<figure class="explorable">{inside}</figure>' if in_book else figure_html(prefix, inside)


def explorable(
    fn: Callable,
    *,
    title: str,
    alt: str,
    see: str = "",
    id: str | None = None,
    readout: str | None = None,
    depends: Mapping | None = None,
    handles: Mapping | None = None,
    **sliders: Any,
) -> Explorable:
    r"""Declare an explorable. The docstring of `posenc.lab.explore` says what each argument means.

    Raises TypeError or ValueError that names the argument, its value and what would be right. States are computed when
    the explorable is shown, not here.
    """
    if not callable(fn):
        raise TypeError(f"fn must be a function of slider values, got {fn!r}")
    id = _default_id(fn) if id is None else id
    if not re.fullmatch(r"\w+\.\w+", str(id)):
        raise ValueError(f"id must be '<module>.<name>', such as 'rope.rotation_invariance', got {id!r}")
    for name, value in (("title", title), ("alt", alt)):
        if not isinstance(value, str) or not value.strip():
            raise TypeError(f"{id}: {name} must be a sentence, got {value!r}")
    if not sliders:
        raise ValueError(f"{id}: no sliders; pass at least one, such as m=range(0, 51)")
    specs = {name: spec if isinstance(spec, SliderSpec) else SliderSpec(spec) for name, spec in sliders.items()}
    named = {name: spec.named(name) for name, spec in specs.items()}
    _check_signature(fn, named, id)
    check_limits(named, id)
    if readout is not None:
        page.check_template(readout, id)
    axes = read_depends({} if depends is None else depends, named, id)
    return Explorable(id, fn, title, alt, readout, axes, named, _read_handles(handles or {}, named, id), see)


def _read_handles(handles: Mapping, sliders: Mapping[str, Slider], where: str) -> dict[str, tuple[str, ...]]:
    out = {}
    for trace, bound in handles.items():
        bound = (bound,) if isinstance(bound, str) else tuple(bound)
        if not 1 <= len(bound) <= 2 or any(name not in sliders for name in bound):
            raise ValueError(f"{where}: handles[{trace!r}]={bound!r} must be one or two of the sliders {list(sliders)}")
        out[trace] = bound
    return out


def _default_id(fn: Callable) -> str:
    r"""`notebook.turned` for a function `turned` of a notebook, `rope.turned` for one of book/rope/figures.py."""
    while isinstance(fn, functools.partial):
        fn = fn.func
    fn = inspect.unwrap(fn)
    module = getattr(fn, "__module__", "__main__").removesuffix(".figures").rpartition(".")[2]
    name = re.sub(r"\W+", "", getattr(fn, "__name__", type(fn).__name__)).strip("_")
    return f"{'notebook' if module == '__main__' else module}.{name or 'figure'}"


def _check_signature(fn: Callable, sliders: Mapping[str, Slider], where: str) -> None:
    parameters = inspect.signature(fn).parameters.values()
    names = {p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)}
    if not any(p.kind is p.VAR_KEYWORD for p in parameters):
        for name in sliders:
            if name not in names:
                raise TypeError(f"{where}: slider {name!r} is no parameter of the function; it takes {sorted(names)}")
    for p in parameters:
        free = p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
        if free and p.name not in sliders:
            raise TypeError(f"{where}: parameter {p.name!r} of the function has neither a slider nor a default")
