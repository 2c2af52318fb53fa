r"""How pages write what was measured: a true minus, a spread over seeds, an interval, names in a row, a table."""

import re
import statistics

from posenc.lab.experiments import half_width


def typeset(text):
    r"""The text with a minus sign in place of each hyphen that stands before a number."""
    return re.sub(r"(?<![\w.])-(?=[\d.])", "−", text)


def pm(values, digits=2):
    r"""Mean and spread (the standard deviation of a sample) of some values, as "1.47 ± 0.02"."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    mean = round(statistics.fmean(values), digits) + 0.0  # no minus before a zero
    return f"{typeset(f'{mean:.{digits}f}')} ± {spread:.{digits}f}"


def unbroken(text):
    r"""The text for a narrow cell: no line breaks in it."""
    return text.replace(" ", "\u00a0")


def cell(values, digits=2):
    r"""`pm` for a narrow cell."""
    return unbroken(pm(values, digits))


def signed_pm(mean, spread, digits=2):
    r"""A difference and its spread, signed, as "+0.02 ± 0.01"."""
    return f"{typeset(f'{mean:+.{digits}f}')} ± {spread:.{digits}f}"


def interval(values, digits=3):
    r"""Mean and 95% interval of one number a seed, by Student's t, as "0.015 (0.007 to 0.023)"."""
    mean, half = statistics.fmean(values), half_width(values)
    middle, low, high = (round(x, digits) + 0.0 for x in (mean, mean - half, mean + half))  # no minus before a zero
    return typeset(f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})")


def listed(names):
    r"""Names as a sentence lists them."""
    *others, last = list(names) or ["none"]
    return f"{', '.join(others)} and {last}" if others else last


def table(head, rows):
    r"""A table, as Markdown that a notebook renders; cells are texts, the first of each row names it."""
    from IPython.display import Markdown

    lines = [head, ["---"] * len(head), *rows]
    return Markdown("\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines))
