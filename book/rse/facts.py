r"""What the RSE chapter computes behind its prose: a picture of the stick, and the tables of its experiment."""

import functools
import math

import numpy
import torch

import posenc
from posenc import stickbreaking
from posenc.chapters.exposb import ablation
from posenc.lab.experiments import SWEEPS, load_results, verdict
from posenc.lab.experiments.plots import plot_parts
from posenc.lab.write import finish, rate_tried, table

BITES = (0.30, 0.25, 0.40, 0.35, 0.50)  # the report's worked example
SHADES = ("#0072b2", "#005a8f", "#1f7db0", "#00486f", "#3d8fc0")
GRAY = "#6b7280"
ARMS = {
    "nope": "no position",
    "rse_penalty": "penalty alone",
    "rse_stick": "stick alone, key 0 first",
    "rse_softmax": "rotation and penalty, softmax: the fallback",
    "rse": "RSE, key 0 first",
    "rse_recent": "RSE, last key first",
    "stickbreaking": "stick-breaking, as in its chapter",
}


def pieces(order: str) -> tuple[list[float], float]:
    r"""What each key of the worked example takes in this order, and what is left."""
    logits = torch.logit(torch.tensor(BITES, dtype=torch.float64))
    visible = torch.ones(1, len(BITES), dtype=torch.bool)
    weights, left = stickbreaking.weigh(logits[None], visible, order, return_remainder=True)
    return weights[0].tolist(), left.item()


def stick_figure():
    r"""The same bites, taken in two orders: a bar of length one each."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(4.4, 2.1), layout="constrained")
    for y, order in ((1, "first"), (0, "recent")):
        weights, left = pieces(order)
        keys, start = range(len(BITES)), 0.0
        for j in keys if order == "first" else reversed(keys):
            axes.barh(y, weights[j], left=start, color=SHADES[j], edgecolor="white", height=0.7)
            if weights[j] > 0.08:
                words = dict(color="white", ha="center", va="center", rotation=90 * (weights[j] < 0.15))
                axes.text(start + weights[j] / 2, y, f"key {j}\n{weights[j]:.3f}", **words)
            start += weights[j]
        axes.barh(y, left, left=start, color=GRAY, edgecolor="white", height=0.7)
    axes.set(xlim=(0, 1), yticks=[1, 0], xlabel="share of the stick")
    axes.set_yticklabels(["key 0 first\n(the report)", "last key first"])
    for side in ("top", "left", "right"):
        axes.spines[side].set_visible(False)
    return finish(figure)


def weights_of(z, order: str = "first") -> torch.Tensor:
    r"""Weights of one query that sees all keys with these logits [n]."""
    return stickbreaking.weigh(z[None], torch.ones(1, len(z), dtype=torch.bool), order)[0]


@functools.cache
def found(back: int, rate: float = 0.0, keys: int = 512) -> float:
    r"""What a match so far back gets, last key first, where all others say no and a token of distance costs `rate`."""
    z = torch.full((keys,), -12.0, dtype=torch.float64)
    z[-1 - back] = 3.0
    return weights_of(z - rate * torch.arange(keys - 1, -1, -1), "recent")[-1 - back].item()


def print_found(rate: float = 0.05) -> None:
    r"""The weight of one match at three distances, by a stick and by a stick with a penalty."""
    print(f"match at     stick   stick, {rate} a token")
    for back in (3, 30, 300):
        print(f"{back:4} back {found(back):10.3f} {found(back, rate):15.3f}")


def near_share(rate: float) -> str:
    r"""What the 8 nearest of 512 keys alike hold, key 0 first: the same for 4096. Errors: AssertionError if not."""
    shares = []
    for keys in (512, 4096):
        shares.append(f"{weights_of(-rate * torch.arange(keys - 1, -1, -1, dtype=torch.float64))[-8:].sum():.3f}")
    assert shares[0] == shares[1], shares
    return shares[0]


def first_numbers() -> dict[str, str]:
    r"""What the first reading cites: how little distance counts, where the hill is, how fast the rate learns."""
    plain = [found(back) for back in (3, 30, 300)]
    return {
        "no_distance": f"{max(plain) - min(plain):.4f}",
        "hill_tenth": f"{-math.log(math.expm1(0.1)) / 0.1:.0f}",
        "thin_high": near_share(0.7),
        "thin_low": near_share(0.1),
        "verdict": verdict(load_results("train_short_test_long"), "rse").words,
        "common": f"{rate_tried('rse', 0.006, 1):.2f}",
        "chosen": f"{rate_tried('rse', 0.006, 10):.2f}",
    }


def check_hand() -> None:
    r"""Hold the pieces of *By hand* against posenc, in both orders. Errors: AssertionError."""
    k = torch.zeros(1, 1, 3, 4, dtype=torch.float64)  # [B, H, T, D]
    k[..., 0, 0], k[..., 1, 1], k[..., 2, 1] = -math.log(12), -math.log(2), 1.0
    q = torch.zeros_like(k)
    q[..., 0] = 2.0
    places = torch.arange(3) * math.pi / 2
    for order, by_hand in (("first", [0.75, 0.05, 0.1]), ("recent", [0.3, 0.1, 0.5])):
        encoding = posenc.make("rse", head_dim=4, rate=2 / math.pi * math.log(2), order=order).double()
        weights = posenc.attention(q, k, k, encoding, pos_q=places, return_weights=True)[1][0, 0, 2].detach()
        torch.testing.assert_close(weights, torch.tensor(by_hand, dtype=torch.float64), atol=1e-6, rtol=0)


def check_short(weigh, dim: int = 8, tokens: int = 20, rate: float = 0.1) -> None:
    r"""Hold the page's own lines, weigh(q, k, rate) for one head, against posenc. Errors: AssertionError."""
    q, k = torch.randn(2, tokens, dim, generator=torch.Generator().manual_seed(0))
    encoding = posenc.make("rse", head_dim=dim, rate=rate)
    expected = posenc.attention(q[None, None], k[None, None], k[None, None], encoding, return_weights=True)[1]
    weights, rest = weigh(q, k, rate)
    torch.testing.assert_close(weights, expected[0, 0].detach())
    torch.testing.assert_close(weights.sum(-1) + rest, torch.ones(tokens))


def card_figure(keys: int = 128):
    r"""The card's picture: the weights of one query over keys alike, key 0 first, for three rates."""
    import matplotlib.pyplot as plt

    back = torch.arange(keys - 1, -1, -1, dtype=torch.float64)
    figure, panels = plt.subplots(1, 3, figsize=(4.4, 1.6), layout="constrained")
    for axes, rate in zip(panels, (0.0, 0.05, 0.7)):
        axes.fill_between(range(keys), weights_of(-rate * back), color="#0072b2", step="mid")
        axes.set(title=rf"$\lambda$ = {rate:g}", xlabel="key", xlim=(-2, keys), ylim=(0, None))
    panels[0].set_ylabel("weight")
    return finish(figure)


def parts_numbers() -> dict[str, str]:
    r"""What the text says of the parts: an arm beside another, as trained and at the longest; trials of its rate."""
    first, last = ablation.ends()
    pairs = [("rse_penalty", "rope"), ("rse_softmax", "rope"), ("rse_softmax", "rse_penalty"), ("rse", "rope")]
    pairs += [("rse_recent", "rse"), ("rse", "rse_softmax"), ("stickbreaking", "rse_recent"), ("rse_stick", "nope")]
    words = {}
    for arm, other in pairs:
        for end, at in (("near", first), ("far", last)):
            words[f"{arm}_{other}_{end}"] = ablation.in_words(arm, at, other)
    best = load_results("rates_ablation_text")["choice"]["rse_penalty"]["lr"]
    slow, fast = (rate_tried("rse_penalty", best, own, "ablation_text") for own in (1, 10))
    assert ablation.beside("rse", "far", results=ablation.NEEDLE).low > 0
    assert max(rates(arm, ablation.NEEDLE).max() for arm in ("rse_softmax", "rse_penalty")) < 0.02
    paid = math.floor(100 * rates("rse", ablation.NEEDLE).min())
    words |= {"needle_rate": f"{paid / 100:.2f}", "needle_paid": f"{paid}"}
    return words | {"slow": f"{slow:.2f}", "fast": f"{fast:.2f}"}


def rates(arm: str, results: dict = ablation.TEXT) -> numpy.ndarray:
    r"""What lambda has become: [seeds, layers]."""
    return numpy.log1p(numpy.exp(ablation.learned(arm, "bias.raw", results)[..., 0]))


def learned_table():
    r"""What lambda becomes in each layer: of each arm that has one, the mean over seeds and the least and greatest."""
    rows = []
    for arm in ("rse_penalty", "rse_softmax", "rse", "rse_recent"):
        cells = [f"{own.mean():.2g} ({own.min():.2g} to {own.max():.2g})" for own in rates(arm).T]
        rows.append([ARMS[arm], *cells])
    return table(["arm", *(f"layer {n + 1}" for n in range(len(rows[0]) - 1))], rows)


def predictions():
    r"""What was predicted of each part, and why."""
    claims = SWEEPS["ablation_text"].predictions
    return table(["arm", "loss", "why"], [[words, *claims[arm][:2]] for arm, words in ARMS.items()])


def parts_figure():
    r"""Loss of each part, at the training length and at the longest."""
    return plot_parts(ablation.TEXT, {"rope": "rotation alone"} | ARMS)
