r"""What the chapter on stick-breaking computes behind its prose: pictures, and the numbers of its failure."""

import torch

from posenc import stickbreaking
from posenc.bias.alibi import slopes
from posenc.lab.write import finish

PIECES = (
    ("key 2\nhalf of 1", 0.5, "#0072b2"),
    ("key 1", 0.1, "#1f7db0"),
    ("key 0\n¾ of 0.4", 0.3, "#005a8f"),
    ("left", 0.1, "#6b7280"),
)
SLOPES = tuple(2 ** (k / 8) for k in range(-96, 33))  # of a softmax with a penalty, from mild to steep


def two_matches(distance: int, gap: int = 3, keys: int = 128) -> torch.Tensor:
    r"""Logits of `keys` keys, oldest first: a match `distance` back, an outdated one `gap` before it, nothing else."""
    z = torch.full((keys,), -7.0, dtype=torch.float64)
    z[-distance] = z[-distance - gap] = 7.0
    return z


def with_slope(logits, slope: float) -> torch.Tensor:
    r"""A row of softmax weights with ALiBi's penalty, for logits with the oldest key first."""
    distance = torch.arange(len(logits), 0, -1)
    return torch.softmax(logits - slope * distance, dim=0)


def best_slope_weight(logits, key: int) -> float:
    r"""The largest weight that a softmax with a linear penalty can give a key [n], over all slopes."""
    return max(with_slope(logits, slope)[key].item() for slope in SLOPES)


def failure_numbers() -> dict[str, str]:
    r"""What softmax and the best slope give the later of two matches, and at the distance of 40 the stick."""
    z = two_matches(40)
    stick = stickbreaking.weigh(z[None], torch.ones(1, len(z), dtype=torch.bool))[0]
    split, best = with_slope(z, 0.0)[-40].item(), best_slope_weight(z, key=-40)
    assert abs(split - 0.5) < 1e-3 and best < 0.7 and stick[-40] > 0.9
    miss, match = torch.sigmoid(z[-1]).item(), torch.sigmoid(z[-40]).item()
    return {
        "split": f"{split:.2f}",
        "best_slope": f"{best:.2f}",
        "match_bite": f"{match:.1%}",
        "miss_bite": f"{miss:.1%}",
        "stick_match": f"{stick[-40].item():.2f}",
        "stick_old": f"{stick[-43].item():.4f}",
    }


def failure_figure():
    r"""The weight of the later of two matches, one and 40 tokens back, under every slope."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(4.4, 2.3), layout="constrained")
    eight = slopes(8).tolist()
    for distance, color, style, marker in ((1, "#0072b2", "-", "o"), (40, "#c45500", "--", "s")):
        z = two_matches(distance)
        weights = [with_slope(z, slope)[-distance].item() for slope in SLOPES]
        words = "1 token back" if distance == 1 else f"{distance} tokens back"
        axes.plot(SLOPES, weights, style, color=color, label=words)
        axes.plot(eight, [with_slope(z, slope)[-distance].item() for slope in eight], marker, color=color, markersize=5)
    axes.set_xscale("log", base=2)
    axes.set(xlabel="slope, logits per token", ylabel="weight of the later match", ylim=(0, 1))
    axes.set_xticks([2.0**k for k in range(-12, 5, 4)], ["1/4096", "1/256", "1/16", "1", "16"])
    axes.legend(frameon=False, loc="upper left")
    return finish(figure)


def stick_figure():
    r"""A stick of length one and its pieces, the most recent key first."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(4.4, 1.8), layout="constrained")
    start = 0.0
    for words, piece, shade in PIECES:
        axes.barh(0, piece, left=start, color=shade, edgecolor="white", height=0.6)
        look = dict(color="white", ha="center", va="center", rotation=90 * (piece < 0.15))
        axes.text(start + piece / 2, 0, f"{words}\n{piece:g}", **look)
        start += piece
    axes.annotate("asked first", (0.0, 0.4))
    axes.annotate("asked last", (0.9, 0.4), ha="right")
    axes.set(xlim=(0, 1), ylim=(-0.35, 0.6), yticks=[], xticks=[0, 0.5, 0.6, 0.9, 1], xlabel="share of the stick")
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    return finish(figure)


def check_short(stick_weights):
    r"""Hold the page's own lines against posenc and against the numbers by hand. Errors: AssertionError."""
    z = 3 * torch.randn(2, 9, 9, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    past = torch.ones(9, 9, dtype=torch.bool).tril(-1)
    for ours, theirs in zip(stick_weights(z, past), stickbreaking.weigh(z, past, return_remainder=True)):
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-14)
    z = torch.tensor([[3.0, 0.25, 1.0]], dtype=torch.float64).log()
    for order, by_hand in (("recent", [0.3, 0.1, 0.5]), ("first", [0.75, 0.05, 0.1])):
        pieces, rest = stickbreaking.weigh(z, torch.ones(1, 3, dtype=torch.bool), order, return_remainder=True)
        torch.testing.assert_close(pieces, torch.tensor([by_hand], dtype=torch.float64))
        torch.testing.assert_close(rest, torch.tensor([0.1], dtype=torch.float64))
