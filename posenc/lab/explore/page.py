r"""The markup of an explorable, and its states as a script. `static/player.js` brings it to life."""

import html
import json
import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from posenc.lab.explore.sliders import Slider

STATIC = Path(__file__).parent / "static"
MAX_PAGE_BYTES = 300_000
PICTURE_WIDTH = 680


def escape(text: str) -> str:
    return html.escape(str(text), quote=True)


def script_json(value: Any) -> str:
    r"""JSON that cannot end a script element or a line of JavaScript."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def data_js(id: str, record: dict) -> str:
    r"""The classic script that hands the states to the player; works from `file://`."""
    return f"posencExplorable({json.dumps(id)}, {script_json(record)});\n"


def control_html(slider: Slider, prefix: str) -> str:
    r"""One line: label, then a slider and its value in words, or a row of buttons."""
    field, label = f"{prefix}-{slider.name}", escape(slider.label)
    words, name = [escape(word) for word in slider.words], escape(slider.name)
    if slider.buttons:
        buttons = "".join(
            f'<label><input type="radio" name="{field}" value="{i}" autocomplete="off"'
            f"{' checked' * (i == slider.start)}><span>{word}</span></label>"
            for i, word in enumerate(words)
        )
        wide = " explorable-wide" * (line_width(slider) > LINE)
        return (
            f'<div class="explorable-control explorable-choice{wide}" data-name="{name}" role="radiogroup" '
            f'aria-labelledby="{field}"><span class="explorable-label" id="{field}">{label}</span>{buttons}</div>'
        )
    play = f'<button type="button" class="explorable-play" data-label="{label}"></button>' if slider.play else ""
    longest = max(map(len, slider.words))
    return (
        f'<div class="explorable-control" data-name="{name}">'
        f'<label class="explorable-label" for="{field}">{label}</label>'
        f'<input type="range" id="{field}" name="{name}" min="0" max="{len(words) - 1}" step="1" '
        f'value="{slider.start}" '
        f'aria-valuetext="{words[slider.start]}" autocomplete="off"><span class="explorable-value" aria-hidden="true" '
        f'style="min-width: {min(longest, 14)}ch">{words[slider.start]}</span>{play}</div>'
    )


# About how wide a line of controls is, in letters, on a phone, and half of one elsewhere: the page can leave room for
# them before any script has run.
LINE = 46


def line_width(slider: Slider) -> int:
    r"""How many letters a control takes in its line: a button has some room around its word."""
    if slider.buttons:
        return len(slider.label) + sum(len(word) + 4 for word in slider.words) + 2
    return len(slider.label) + 14 + max(map(len, slider.words))


def rows(sliders: Iterable[Slider]) -> tuple[int, int]:
    r"""How many lines the controls take, two in a line where they fit, and one in a line on a phone."""
    wide, phone = 0.0, 0
    for slider in sliders:
        phone += math.ceil(line_width(slider) / LINE) if slider.buttons else 1
        broad = slider.buttons and line_width(slider) > LINE
        wide += math.ceil(line_width(slider) / (2 * LINE)) if broad else 0.5
    return math.ceil(wide), phone


def controls_html(title: str, sliders: Iterable[Slider], prefix: str) -> str:
    r"""The controls and the reset button, ids beginning with `prefix`."""
    return (
        f'<div class="explorable-controls" role="group" aria-label="{escape("Controls: " + title)}">'
        f"{''.join(control_html(slider, prefix) for slider in sliders)}"
        '<div class="explorable-tools"><button type="button" class="explorable-reset">Reset</button></div></div>'
    )


def chips_html(text: str) -> str:
    r"""The readout's parts, each of which stays whole."""
    return '<span class="explorable-dot"> · </span>'.join(
        f'<span class="explorable-chip">{escape(part)}</span>' for part in text.split(" · ")
    )


def picture_html(picture: str | None, alt: str, height: int) -> str:
    r"""What stands where the plot will be: a picture (its URL) or empty space."""
    size = f'width="{PICTURE_WIDTH}" height="{height}"'
    if picture is None:
        view = f"0 0 {PICTURE_WIDTH} {height}"
        return f'<svg class="explorable-picture" {size} viewBox="{view}" aria-hidden="true"></svg>'
    return (
        f'<img class="explorable-picture dark-light" src="{escape(picture)}" alt="{escape(alt)}" {size} loading="lazy">'
    )


def body_html(shown: Any, prefix: str, picture: str | None, height: int, readout: str | None, inline: bool) -> str:
    r"""The inside of `figure.explorable` for an Explorable; `inline`, its states too. Ids begin with `prefix`."""
    line, chips = "", 0
    if readout is not None:
        line, chips = f'<p class="explorable-readout">{chips_html(readout)}</p>', math.ceil(len(readout) / 42)
    sliders = shown.sliders.values()
    wide, phone = rows(sliders)
    sizes = (
        f"--plot: {height}px; --rows: {wide}; --rows-phone: {phone}; --chips: {min(chips, 1)}; --chips-phone: {chips}"
    )
    data = ""
    if inline:
        data = f'<script type="application/json" class="explorable-data">{script_json(shown.record())}</script>'
    plot = picture_html(picture, shown.alt, height)
    return (
        f'<div class="explorable-body" data-explorable="{escape(shown.id)}" data-alt="{escape(shown.alt)}" '
        f'style="{sizes}"><div class="explorable-view">{line}<div class="explorable-plot">{plot}</div></div>'
        f"{controls_html(shown.title, sliders, prefix)}{data}</div>"
    )


def caption_html(title: str, alt: str) -> str:
    return (
        f'<figcaption><p><span class="caption-text">{escape(title)}</span></p>'
        f'<div class="legend"><details><summary>What to see</summary><p>{escape(alt)}</p></details></div>'
        "</figcaption>"
    )
