r"""Code that a page of the book runs and its reader need not see: one module a page, and here what they share.

A page calls it from a hidden cell of a few lines. Only the book's build needs this package, and myst-nb with it.
"""

import re
import statistics


def say(name, value, spec=""):
    r"""Give the prose a number or words under a name, as `{glue:text}`, with a minus sign before negative numbers.

    Arguments:
        name: as the page writes it, unique in the page.
        value: a text, or a number that `spec` formats.
        spec: a format such as ".2f".
    """
    from myst_nb import glue

    glue(name, typeset(value if isinstance(value, str) else format(value, spec)), display=False)


def typeset(text):
    r"""The text with a minus sign in place of each hyphen that stands before a number."""
    return re.sub(r"(?<![\w.])-(?=[\d.])", "−", text)


def pm(values, digits=2):
    r"""Mean and spread (the standard deviation of a sample) of some values, as "1.47 ± 0.02"."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return f"{typeset(f'{statistics.fmean(values):.{digits}f}')} ± {spread:.{digits}f}"


def table(head, rows):
    r"""A table, as Markdown that a notebook renders; cells are texts, the first of each row names it."""
    from IPython.display import Markdown

    lines = [head, ["---"] * len(head), *rows]
    return Markdown("\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines))
