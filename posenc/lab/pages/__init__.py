r"""Code that a page of the book runs and its reader need not see: one module a page, and here what they share.

A page calls it from a hidden cell of a few lines. Only the book's build needs this package, and myst-nb with it.
"""

import tomllib
from pathlib import Path

from posenc.lab.write import typeset

#: The copy of the repository that the book is built in.
ROOT = Path(__file__).resolve().parents[3]


def say(name, value, spec=""):
    r"""Give the prose a number or words under a name, as `{glue:text}`, with a minus sign before negative numbers.

    Arguments:
        name: as the page writes it, unique in the page.
        value: a text, or a number that `spec` formats.
        spec: a format such as ".2f".
    """
    from myst_nb import glue

    glue(name, typeset(value if isinstance(value, str) else format(value, spec)), display=False)


def rate_tried(method: str, lr: float, own: float) -> float:
    """A method's loss on validation text at a learning rate, and a factor on that of its own parameters."""
    from posenc.lab.experiments import load_results

    trials = load_results("rates_train_short_test_long")["arms"][method]["trials"]
    (found,) = (trial["mean"] for trial in trials if (trial["lr"], trial["own"]) == (lr, own))
    return found


def say_all(page, values):
    r"""Give the prose of a page its numbers and words, {name: value}, each under the name of the page: "page_name"."""
    for name, value in values.items():
        say(f"{page}_{name}", value)


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
