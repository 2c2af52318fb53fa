r"""What an explorable is on a page: its colors, the words of its readout, its markup, its states as a script.

`static/player.js` brings it to life; a browser draws its picture.
"""

import html
import json
import math
import os
import re
import shutil
import string
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from posenc.lab.explore.sliders import Slider

STATIC = Path(__file__).parent / "static"
PICTURE_WIDTH = 680
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

BROWSER_ARGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
CHROME_OF_A_MAC = "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome"


def find_chromium() -> str | None:
    r"""A Chromium for Playwright: the system's, or None for the one that `playwright install chromium` brings."""
    for name in ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable"):
        if path := shutil.which(name):
            return path
    return CHROME_OF_A_MAC if os.path.exists(CHROME_OF_A_MAC) else None


# The readout: a template such as "score {score:.4f} · distance {distance}", at most three chips

NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
FORMAT = re.compile(r"[+]?(\.\d+)?[feg%]?|[+]?d|s?")
RAISED = str.maketrans("-0123456789", "⁻⁰¹²³⁴⁵⁶⁷⁸⁹")


def check_template(template: Any, where: str) -> None:
    r"""Raise TypeError or ValueError for a template that the player could not fill in."""
    if not isinstance(template, str):
        raise TypeError(f"{where}: readout must be a text such as 'score {{score:.3f}}', got {template!r}")
    try:
        parts = list(string.Formatter().parse(template))
    except ValueError as error:
        raise ValueError(f"{where}: readout={template!r}: {error}") from error
    if template.count(" · ") > 2:
        raise ValueError(f"{where}: readout={template!r} has more than three parts between its dots: leave some out")
    for _, field, form, conversion in parts:
        if field is None:
            continue
        if not NAME.fullmatch(field) or conversion:
            raise ValueError(f"{where}: readout field {{{field}}} must be a plain name of a readout")
        if not FORMAT.fullmatch(form):
            raise ValueError(f"{where}: readout format {form!r} of {{{field}}}: use .3f, .2e, .4g, .0%, d, +d or such")


def fields(template: str) -> list[str]:
    return [field for _, field, _, _ in string.Formatter().parse(template) if field is not None]


def fill(template: str, readouts: Mapping) -> str:
    r"""The template with these readouts (numbers, 0-d arrays or strings); NaN is a dash."""
    words = []
    for text, field, form, _ in string.Formatter().parse(template):
        words.append(text)
        if field is not None:
            value = readouts[field]
            words.append(_word(value.item() if hasattr(value, "item") else value, form))
    return "".join(words)


def _word(value: float | str, form: str) -> str:
    if isinstance(value, str):
        return value
    if math.isnan(value):
        return "–"
    return printed(format(round(value) if form.endswith("d") else value, form or "g"))


def printed(text: str) -> str:
    r"""A number as print has it, not as Python does: a true minus sign, none before a zero, 10⁻⁶ for 1e-06."""
    head, e, power = re.sub(r"^-(?=[0.]+%?$)", "", text).partition("e")
    if e:
        head = re.sub(r"^([+-]?)1×", r"\1", f"{head}×10") + str(int(power)).translate(RAISED)
    return head.replace("-", "−")


# Markup


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
    words_class = " explorable-words" * (longest > 7)
    return (
        f'<div class="explorable-control{words_class}" data-name="{name}">'
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
    sizes = f"--plot: {height}px; --rows: {wide}; --rows-phone: {phone}"
    sizes += f"; --chips: {min(chips, 1)}; --chips-phone: {chips}"
    data = ""
    if inline:
        data = f'<script type="application/json" class="explorable-data">{script_json(shown.record())}</script>'
    plot = picture_html(picture, shown.alt, height)
    return (
        f'<div class="explorable-body" data-explorable="{escape(shown.id)}" data-alt="{escape(shown.alt)}" '
        f'style="{sizes}"><div class="explorable-view">{line}<div class="explorable-plot">{plot}</div></div>'
        f"{controls_html(shown.title, sliders, prefix)}{data}</div>"
    )


def legend_html(see: str, alt: str) -> str:
    r"""The line under the title, and the description at length for paper; a screen reader has that with the drawing."""
    line = f'<p class="explorable-see">{escape(see)}</p>' if see else ""
    return f'{line}<p class="explorable-described">{escape(alt)}</p>'


def caption_html(title: str, see: str, alt: str) -> str:
    return (
        f'<figcaption><p><span class="caption-text">{escape(title)}</span></p>'
        f'<div class="legend">{legend_html(see, alt)}</div></figcaption>'
    )
