r"""The loss of a run as a curve, in a notebook drawn again while it trains."""

import os
import sys
import time

import numpy


def blank_figure(width, height):
    """A figure and its axes, closed for pyplot, so that a notebook shows it once: where it is asked to."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(width, height), layout="constrained", facecolor="white")
    plt.close(figure)
    return figure, axes


def plot_loss(losses, steps=None, title=""):
    r"""A matplotlib figure of the training loss: each step, and an average over the last twentieth of all steps."""
    figure, axes = blank_figure(6, 3)
    width = max(1, len(losses) // 20)
    means = numpy.convolve(losses, numpy.ones(width) / width, mode="valid")
    axes.plot(range(1, len(losses) + 1), losses, color="0.75", linewidth=0.8, label="each step")
    axes.plot(range(width, len(losses) + 1), means, color="C0", label=f"mean of {width}")
    axes.set(xlabel="step", ylabel="loss, nats per character", title=title, xlim=(0, steps or len(losses)))
    axes.legend(frameon=False)
    return figure


class LiveCurve:
    """A loss curve that is drawn again, at most twice a second, in one output of a notebook; nothing elsewhere.

    While the book is built nobody looks on: it is drawn once, at the end.
    """

    def __init__(self, steps, title):
        self.steps, self.title, self.handle, self.drawn = steps, title, None, 0.0
        ipython = sys.modules.get("IPython")
        shell = ipython.get_ipython() if ipython else None
        self.notebook = shell is not None and hasattr(shell, "kernel")

    def draw(self, losses):
        last = len(losses) == self.steps
        soon = time.monotonic() - self.drawn < 0.5 or "POSENC_BOOK" in os.environ
        if not self.notebook or (soon and not last):
            return
        from IPython.display import display

        figure = plot_loss(losses, self.steps, self.title)
        if self.handle is None:
            self.handle = display(figure, display_id=True)
        else:
            self.handle.update(figure)
        self.drawn = time.monotonic()
