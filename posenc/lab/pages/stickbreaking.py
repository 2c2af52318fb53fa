r"""What the chapter on stick-breaking computes behind its prose: a picture, and the reading of its experiment."""

import functools

import torch

from posenc.lab.experiments import ONE_A_PLACE, load_results, mean_and_spread, verdict
from posenc.lab.pages import finish

PIECES = (
    ("key 2\nhalf of 1", 0.5, "#0072b2"),
    ("key 1", 0.1, "#1f7db0"),
    ("key 0\n¾ of 0.4", 0.3, "#005a8f"),
    ("left", 0.1, "#6b7280"),
)
SLOPES = tuple(2 ** (k / 8) for k in range(-96, 33))  # of a softmax with a penalty, from mild to steep
RANKS = ("lowest", "second lowest", "third lowest", "fourth lowest", "highest")
NONE = 0.005  # nats: smaller differences count as none


def best_slope_weight(logits, key: int) -> float:
    r"""The largest weight that a softmax with a linear penalty can give a key [n], over all slopes."""
    distance = torch.arange(len(logits), 0, -1)
    return max(torch.softmax(logits - slope * distance, dim=0)[key].item() for slope in SLOPES)


def stick_figure():
    r"""A stick of length one and its pieces, the most recent key first."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6, 2), facecolor="white")
    start = 0.0
    for words, piece, shade in PIECES:
        axes.barh(0, piece, left=start, color=shade, edgecolor="white", height=0.6)
        axes.text(start + piece / 2, 0, f"{words}\n{piece:g}", color="white", ha="center", va="center")
        start += piece
    axes.annotate("asked first", (0.0, 0.4))
    axes.annotate("asked last", (0.9, 0.4), ha="right")
    axes.set(xlim=(0, 1), ylim=(-0.35, 0.6), yticks=[], xticks=[0, 0.5, 0.6, 0.9, 1], xlabel="share of the stick")
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    return finish(figure)


@functools.cache
def frozen():
    r"""Frozen results of `train_short_test_long`, a method for each place."""
    return load_results("train_short_test_long", ONE_A_PLACE)


def loss(method: str, place: int) -> float:
    r"""Mean over seeds of a method's loss at one of the lengths."""
    return mean_and_spread([losses[place] for losses in frozen()["methods"][method]["whole"]])[0]


def signed(change: float) -> str:
    r"""A change with its sign, or zero without."""
    return f"{change:+.4f}" if abs(change) >= 5e-5 else "0.0000"


def verdict_words(judged) -> str:
    r"""A verdict, as the chapter tells it."""
    lengths, tolerance = frozen()["lengths"], frozen()["tolerance"]
    return (
        f"from {lengths[0]} to {lengths[-1]} characters the loss changes by {signed(judged.change)} ± "
        f"{judged.spread:.4f} nats per character, and the whole context differs from the cut one by "
        f"{signed(judged.gap)} ± {judged.gap_spread:.4f}. That it holds, with no rise beyond {tolerance}: "
        f"{judged.outcome}."
    )


def improvement_words(judged) -> str:
    r"""Does the loss improve with the length?"""
    improves = judged.change + judged.spread < 0 and judged.change < -NONE
    return "it also improves" if improves else "it does not improve"


def use_words(judged) -> str:
    r"""Is the far context used?"""
    if judged.gap < -judged.gap_spread and judged.gap < -NONE:
        return "It is better with the whole context than with the cut one: something far away is used."
    if abs(judged.gap) <= max(judged.gap_spread, NONE):
        return (
            "With its attention cut to the training window it does the same. So it holds because what is far makes no "
            "difference, not because what is far helps. Whether this text would reward a look that far, the run "
            "doesn't tell."
        )
    return "It is worse with the whole context than with the cut one: what is far away disturbs it."


def rank() -> str:
    r"""The place of its loss at the training length among the methods tested."""
    ranked = sorted(frozen()["methods"], key=lambda method: loss(method, 0))
    return RANKS[ranked.index("stickbreaking")]


def results_numbers() -> dict[str, str]:
    r"""What the reading of the results cites."""
    results, judged = frozen(), verdict(frozen(), "stickbreaking")
    return {
        "prediction": results["predictions"]["stickbreaking"],
        "verdict": verdict_words(judged),
        "rank": rank(),
        "improves": improvement_words(judged),
        "uses": use_words(judged),
        "nope_short": f"{loss('nope', 0):.3f}",
        "stick_short": f"{loss('stickbreaking', 0):.3f}",
        "nope_long": f"{loss('nope', -1):.3f}",
        "stick_long": f"{loss('stickbreaking', -1):.3f}",
        "window": f"{results['lengths'][0]}",
        "longest": f"{results['lengths'][-1]}",
        "seeds": f"{len(results['seeds'])}",
    }
