r"""The words above a figure: a template such as "score {score:.4f} · distance {distance}", at most three chips."""

import math
import re
import string
from collections.abc import Mapping
from typing import Any

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
        raise ValueError(
            f"{where}: readout={template!r} has more than three parts between its dots: leave the least out"
        )
    for _, field, form, conversion in parts:
        if field is None:
            continue
        if not NAME.fullmatch(field) or conversion:
            raise ValueError(f"{where}: readout field {{{field}}} must be a plain name of a readout")
        if not FORMAT.fullmatch(form):
            raise ValueError(
                f"{where}: readout format {form!r} of {{{field}}}: use .3f, .2e, .4g, .0%, d, with or without +"
            )


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
