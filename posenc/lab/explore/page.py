r"""The markup of an explorable, and its states as a script. `static/player.js` brings it to life."""

import html
import json
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


def slider_html(slider: Slider, prefix: str) -> str:
    field, words = f"{prefix}-{slider.name}", escape(slider.words[slider.start])
    return (
        f'<div class="explorable-slider"><label for="{field}">{escape(slider.label)}</label>'
        f'<span class="explorable-value" aria-hidden="true">{words}</span>'
        f'<input type="range" id="{field}" name="{escape(slider.name)}" min="0" max="{len(slider.values) - 1}" '
        f'step="1" value="{slider.start}" aria-valuetext="{words}" autocomplete="off"></div>'
    )


def controls_html(title: str, sliders: Iterable[Slider], prefix: str) -> str:
    r"""Sliders and reset button, ids beginning with `prefix`."""
    return (
        f'<div class="explorable-controls" role="group" aria-label="{escape("Sliders: " + title)}">'
        f"{''.join(slider_html(slider, prefix) for slider in sliders)}"
        '<div class="explorable-tools"><button type="button" class="explorable-reset">Reset</button></div></div>'
    )


def picture_html(picture: str | None, alt: str, height: int) -> str:
    r"""What stands where the plot will be: a picture (its URL), or empty space."""
    # On a phone the width shrinks; the height must not shrink with it, or stacked panels become unreadable.
    size = f'width="{PICTURE_WIDTH}" height="{height}" style="min-height: min({height}px, 28rem)"'
    if picture is None:
        view = f"0 0 {PICTURE_WIDTH} {height}"
        return f'<svg class="explorable-picture" {size} viewBox="{view}" aria-hidden="true"></svg>'
    return (
        f'<img class="explorable-picture dark-light" src="{escape(picture)}" alt="{escape(alt)}" {size} loading="lazy">'
    )


def body_html(id: str, alt: str, picture: str, readout: str | None, controls: str, record: dict | None) -> str:
    r"""The inside of `figure.explorable`, from its parts' markup; with `record`, the states stand inside it."""
    line = "" if readout is None else f'<p class="explorable-readout">{escape(readout)}</p>'
    data = f'<script type="application/json" class="explorable-data">{script_json(record)}</script>' if record else ""
    return (
        f'<div class="explorable-body" data-explorable="{escape(id)}" data-alt="{escape(alt)}">'
        f'<div class="explorable-plot">{picture}</div>{line}{controls}{data}</div>'
    )


def caption_html(title: str, alt: str) -> str:
    return (
        f'<figcaption><p><span class="caption-text">{escape(title)}</span></p>'
        f'<div class="legend"><details><summary>What to see</summary><p>{escape(alt)}</p></details></div>'
        "</figcaption>"
    )
