r"""What tests ask of an explorable: links to its states, read as the player reads them; whether a slider matters."""

import random
import re
from urllib.parse import quote, unquote

from posenc.lab.explore.leaves import first_difference
from posenc.lab.explore.sliders import within


def fragment(e, **state) -> str:
    r"""The URL fragment that opens a page with these values, as the player writes it: `#rope.a=m:7,base:100`."""
    parts = []
    for name, value in state.items():
        value = e.sliders[name].values[e.sliders[name].index(value)]
        if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
            value = int(value)
        parts.append(f"{name}:{quote(value, safe='') if isinstance(value, str) else repr(value)}")
    return f"#{e.id}={','.join(parts)}"


def parse(e, fragment: str) -> dict:
    r"""The state that a fragment asks for. Unknown names are ignored, numbers kept within limits; never raises."""
    state = e.default_state()
    for entry in fragment.removeprefix("#").split("&"):
        key, _, body = entry.partition("=")
        for pair in body.split(",") if unquote(key) == e.id else ():
            name, colon, text = pair.partition(":")
            if colon and name in e.sliders:
                state[name] = nearest(e.sliders[name], unquote(text, errors="replace"))
    return within(e.sliders, state)


def nearest(slider, text: str):
    r"""The value nearest to what a link says: clamped; the default where it says nothing usable."""
    if not slider.numeric:
        return text if text in slider.values else slider.default
    # The same plain numbers as the player accepts: no "inf", no "1_000", no blanks, no "٣".
    if not re.fullmatch(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?", text, re.ASCII):
        return slider.default
    # Clamped first: far out, all values are equally near.
    number = min(max(float(text), min(slider.values)), max(slider.values))
    return min(slider.values, key=lambda value: abs(value - number))


def moving(e, name: str) -> tuple[dict, dict] | None:
    r"""Two states that differ in slider `name` alone and draw differently, or None if the slider never matters."""
    for state in e.random_states(40, seed=1):
        before = e.evaluate(state)
        others = [value for value in e.sliders[name].values if value != state[name]]
        random.Random(name).shuffle(others)
        for value in others[:20]:
            if first_difference(before, e.evaluate({**state, name: value})):
                return state, {**state, name: value}
    return None
