r"""What chapters share: how a page writes what was measured, gives it to its prose, and sets itself up."""

import re
import statistics
import tomllib
from pathlib import Path

import torch

from posenc.lab import experiments
from posenc.lab.experiments import half_width, load_results

#: The copy of the repository that the book is built in.
ROOT = Path(__file__).resolve().parents[2]


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


def interval(values, digits=3, seeds=None):
    r"""Mean and 95% interval of one number a seed, as "0.015 (0.007 to 0.023)"; seeds: as `half_width`."""
    mean, half = statistics.fmean(values[:seeds]), half_width(values, seeds)
    return between(mean, mean - half, mean + half, digits)


def beside(results, arm, other, column, digits=3):
    r"""What an arm's score in a column exceeds another's by, as `interval` writes it; of text, windows drawn anew."""
    found = experiments.interval(results | {"contrast": [None, column], "against": other}, arm)
    return between(*found[:3], digits)


def between(mean, low, high, digits):
    r"""A mean and the ends of its interval, as "0.015 (0.007 to 0.023)"."""
    middle, low, high = (round(x, digits) + 0.0 for x in (mean, low, high))  # no minus before a zero
    return typeset(f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})")


def listed(names):
    r"""Names as a sentence lists them."""
    *others, last = list(names) or ["none"]
    return f"{', '.join(others)} and {last}" if others else last


def vector(x):
    r"""A tensor [n] as "(0.500, 1.000)"."""
    return "(" + ", ".join(f"{number:.3f}" for number in x.tolist()) + ")"


def table(head, rows):
    r"""A table, as Markdown that a notebook renders; cells are texts, the first of each row names it."""
    from IPython.display import Markdown

    lines = [head, ["---"] * len(head), *rows]
    return Markdown("\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines))


def say(name, value, spec=""):
    r"""Give the prose a number or words under a name, as `{glue:text}`, with a minus sign before negative numbers.

    Arguments:
        name: as the page writes it, unique in the page.
        value: a text, or a number that `spec` formats.
        spec: a format such as ".2f".
    """
    from myst_nb import glue

    glue(name, typeset(value if isinstance(value, str) else format(value, spec)), display=False)


def rate_tried(method: str, lr: float, own: float, sweep: str = "train_short_test_long") -> float:
    """A method's loss on validation text at a learning rate, and a factor on that of its own parameters."""
    trials = load_results(f"rates_{sweep}")["trials"][method]
    (found,) = (trial["mean"] for trial in trials if (trial["lr"], trial["own"]) == (lr, own))
    return found


def say_all(page, values):
    r"""Give the prose of a page its numbers and words, {name: value}, each under the name of the page: "page_name"."""
    for name, value in values.items():
        say(f"{page}_{name}", value)


def project():
    r"""Where the book is on GitHub: {"repository": "owner/name", "ref": "main"}, from pyproject.toml."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["posenc"]


def seeded(make, seed=0):
    r"""What make() returns when torch draws after this seed; other random numbers go on as before."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def normal(*shape, seed=0):
    r"""Normal numbers in float64, the same for the same seed."""
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def stirred(model, seed=0):
    r"""The model, once what its encodings learn from zero on is drawn at random: CoPE's table at zero would be NoPE.

    Arguments: model: a Decoder or Encoder, changed in place.
    """
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for block in model.blocks:
            for parameter in block.attention.encoding.parameters():
                if not parameter.any():
                    parameter.copy_(torch.randn(parameter.shape, generator=generator))
    return model


def set_up(**style):
    r"""Make a page's numbers the same on every machine: one thread. The build itself gives plots the book's style.

    style: more of matplotlib's settings, as `matplotlib.rcParams` names them.
    """
    import matplotlib.pyplot as plt

    torch.set_num_threads(1)
    plt.rcParams.update(style)


def print_errors(errors, limit, *, width=46, spec=".1e"):
    r"""Print each {claim: error}, a line each. Errors: AssertionError for a claim that is off by the limit or more."""
    for claim, error in errors.items():
        print(f"{claim:{width}} largest error {error:{spec}}")
        if not error < limit:  # NaN too
            raise AssertionError(f"{claim}: error {error} where the limit is {limit}")


def finish(figure):
    r"""A pyplot figure, laid out and closed, so that a notebook shows it once: where a cell returns it."""
    import matplotlib.pyplot as plt

    figure.draw_without_rendering()  # color bars find their place in two passes
    plt.close(figure)
    return figure
