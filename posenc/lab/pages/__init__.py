r"""Code that a page of the book runs and its reader need not see: one module a page, and here what they share.

A page calls it from a hidden cell of a few lines. Only the book's build needs this package, and myst-nb with it.
"""

import contextlib
import re
import statistics
import tomllib
from pathlib import Path

#: The copy of the repository that the book is built in.
ROOT = Path(__file__).resolve().parents[3]
_collections = []  # the dicts of `collected`, the innermost last


@contextlib.contextmanager
def collected():
    r"""While it is open, `say` fills the dict that it gives, {name: text}, in place of a page: for slides."""
    _collections.append({})
    try:
        yield _collections[-1]
    finally:
        _collections.pop()


def say(name, value, spec=""):
    r"""Give the prose a number or words under a name, as `{glue:text}`, with a minus sign before negative numbers.

    Arguments:
        name: as the page writes it, unique in the page.
        value: a text, or a number that `spec` formats.
        spec: a format such as ".2f".
    """
    text = typeset(value if isinstance(value, str) else format(value, spec))
    if _collections:
        _collections[-1][name] = text
        return
    try:
        from myst_nb import glue
    except ImportError:  # where nothing could read it, as in a MyST project
        return
    glue(name, text, display=False)


def typeset(text):
    r"""The text with a minus sign in place of each hyphen that stands before a number."""
    return re.sub(r"(?<![\w.])-(?=[\d.])", "−", text)


def pm(values, digits=2):
    r"""Mean and spread (the standard deviation of a sample) of some values, as "1.47 ± 0.02"."""
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    mean = round(statistics.fmean(values), digits) + 0.0  # no minus before a zero
    return f"{typeset(f'{mean:.{digits}f}')} ± {spread:.{digits}f}"


def interval(values, digits=3):
    r"""Mean and 95% interval of one number a seed, by Student's t, as "0.015 (0.007 to 0.023)"."""
    from posenc.lab.experiments import half_width

    mean, half = statistics.fmean(values), half_width(values)
    middle, low, high = (round(x, digits) + 0.0 for x in (mean, mean - half, mean + half))  # no minus before a zero
    return typeset(f"{middle:.{digits}f} ({low:.{digits}f} to {high:.{digits}f})")


def table(head, rows):
    r"""A table, as Markdown that a notebook renders; cells are texts, the first of each row names it."""
    from IPython.display import Markdown

    lines = [head, ["---"] * len(head), *rows]
    return Markdown("\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines))


def rate_tried(method: str, lr: float, own: float) -> float:
    """A method's loss on validation text at a learning rate, and a factor on that of its own parameters."""
    from posenc.lab.experiments import load_results

    trials = load_results("rates_train_short_test_long")["arms"][method]["trials"]
    (found,) = (trial["mean"] for trial in trials if (trial["lr"], trial["own"]) == (lr, own))
    return found


def plainly(results, arm, subject):
    r"""One sentence for what a longer context does to a method, to stand before the numbers of its verdict.

    Arguments:
        results: of the study on text, losses "whole" and "cut" of each method.
        subject: what the sentence calls the method, as its first word or words.
    Errors: ValueError where a model breaks by far keys in part only, which no sentence here says.
    """
    from posenc.lab.experiments import in_longer, verdict

    runs, lengths = results["methods"][arm], results["lengths"]
    short, far, cut = ([row[at] for row in runs[kind]] for kind, at in (("whole", 0), ("whole", -1), ("cut", -1)))
    word = in_longer(short, far, cut, results["tolerance"])
    cut_rise, rise = (statistics.fmean(end) - statistics.fmean(short) for end in (cut, far))
    if word == "breaks" and not 0.1 < cut_rise / rise < 0.5:
        by_far = cut_rise < 0.1 * rise
        tail = "what stands beyond the training window does nearly all the harm" if by_far else "cut, it breaks as well"
    elif word == "breaks":
        raise ValueError(f"arm={arm!r}: the cut takes away {1 - cut_rise / rise:.0%} of the rise; write a sentence")
    else:
        tail = {
            "ignores": "what is far makes no difference",
            "suffers": "what is far does it a little harm",
            "extrapolates": "it uses what the cut hides",
        }[word]
    beginning = {"came true": "As predicted, ", "failed": "Against the prediction, "}.get(
        verdict(results, arm).outcome, ""
    )
    verb = "breaks" if word == "breaks" else "holds"
    joint = ", but " if word == "suffers" else ": " if word == "breaks" else ", and "
    words = f"{beginning}{subject} {verb} at {lengths[-1] // lengths[0]} times the training length{joint}{tail}."
    return words[0].upper() + words[1:]


def say_all(page, values):
    r"""Give the prose of a page its numbers and words, {name: value}, each under the name of the page: "page_name"."""
    for name, value in values.items():
        say(f"{page}_{name}", value)


def commit_words(commit, digits=8):
    r"""The commit that made frozen results, shortened, with what the file says besides, such as further changes."""
    number, comma, rest = commit.partition(",")
    return number[:digits] + comma + re.sub(r"\b[0-9a-f]{40}\b", lambda other: other[0][:digits], rest)


def repository():
    r"""The repository's owner and name on GitHub, "owner/name"."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]["posenc"]["repository"]


def seeded(make, seed=0):
    r"""What make() returns when torch draws after this seed; other random numbers go on as before."""
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make()


def stirred(model, seed=0):
    r"""The model, once what its encodings learn from zero on is drawn at random: CoPE's table at zero would be NoPE.

    Arguments: model: a Decoder or Encoder, changed in place.
    """
    import torch

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
    import torch

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
