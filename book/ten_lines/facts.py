r"""What the chapter on attention computes behind its prose: the example by hand, and its picture."""

import matplotlib.pyplot as plt
import torch

from posenc.lab.write import finish

WORDS = ("the", "dog", "bit")
QUERY = (2.0, 0, 1, 0)
KEYS = ((0.0, 1, 0, 1), (1, 0, 0, 1), (1, 1, 2, 0))


def weights_by_hand() -> list[float]:
    r"""The weights of the last word in the example by hand."""
    return (torch.tensor(KEYS) @ torch.tensor(QUERY) / len(QUERY) ** 0.5).softmax(0).tolist()


def numbers_by_hand() -> dict[str, str]:
    r"""What the example by hand cites."""
    weights = weights_by_hand()
    output = ", ".join([*(f"{w:.3f}" for w in weights), "0"])
    return {"output": f"({output})", "most": f"{weights[2]:.0%}", "least": f"{weights[0]:.0%}"}


def idea_figure():
    r"""The last word's query, a line to each word as wide as its weight, and the sum of values."""
    figure, axes = plt.subplots(figsize=(4.4, 2.4), layout="constrained")
    box = dict(boxstyle="round,pad=0.45", facecolor="#eef1f4", edgecolor="#52606d")
    for place, (word, weight) in enumerate(zip(WORDS, weights_by_hand())):
        at = 2.2 * place
        axes.plot([2.2, at], [0.35, 1.6], color="#0072b2", lw=12 * weight, solid_capstyle="butt", zorder=0)
        axes.text(at, 2, f"{word}\nkey, value", ha="center", va="center", bbox=box, linespacing=1.3)
        side, align = (-0.2, "right") if place == 0 else (0.12 + 0.2 * weight, "left")
        axes.text(0.6 * at + 0.4 * 2.2 + side, 1.05, f"{weight:.0%}", va="center", ha=align)
    axes.text(2.2, 0, "bit\nquery", ha="center", va="center", bbox=box, linespacing=1.3)
    axes.annotate("", (4.05, 0), (2.75, 0), arrowprops=dict(arrowstyle="->", color="#52606d", lw=1.8))
    axes.text(4.15, 0, "output: the values,\nsummed by weight", va="center")
    axes.set(xlim=(-0.9, 6.2), ylim=(-0.55, 2.55))
    axes.axis("off")
    return finish(figure)
