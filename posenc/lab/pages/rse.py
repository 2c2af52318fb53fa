r"""What the RSE chapter computes behind its prose: a picture of the stick, and the tables of its experiment."""

import functools
import math

import torch

import posenc
from posenc import stickbreaking
from posenc.lab.experiments import SWEEPS, load_results, mean_and_spread, verdict
from posenc.lab.experiments.plots import plot_parts
from posenc.lab.pages import ablation, finish, rate_tried
from posenc.lab.write import pm, signed_pm, table

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
TRAINED_RATES = {"rse": "key 0 first", "rse_recent": "last key first", "rse_softmax": "softmax"}
THIN_KEYS, THIN_NEAR = 512, 8  # of keys alike, whose nearest hold less as there are more: how many, how many near
FIRST_RATE = 0.01  # where every rate starts


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


def near_share(keys: int, rate: float) -> float:
    r"""What the THIN_NEAR nearest of so many keys alike hold, with content 0 and key 0 asked first."""
    z = -rate * torch.arange(keys - 1, -1, -1, dtype=torch.float64)
    bite = z.sigmoid()
    left = torch.cumprod(1 - bite, 0)
    return (bite * torch.cat((torch.ones_like(left[:1]), left[:-1])))[-THIN_NEAR:].sum().item()


def thinned(rate: float) -> str:
    r"""That share, the same for THIN_KEYS keys and for eight times as many. Errors: AssertionError if it is not."""
    few, many = (f"{near_share(keys, rate):.3f}" for keys in (THIN_KEYS, 8 * THIN_KEYS))
    assert few == many, (few, many)
    return few


def first_numbers() -> dict[str, str]:
    r"""What the first reading cites: how little distance counts, where the hill is, and the frozen study."""
    study = load_results("train_short_test_long")
    runs, lengths = study["methods"], study["lengths"]
    plain = [found(back) for back in (3, 30, 300)]
    first, last = ablation.ends()
    return {
        "no_distance": f"{max(plain) - min(plain):.4f}",
        "hill_tenth": f"{-math.log(math.expm1(0.1)) / 0.1:.0f}",
        "local_0": f"{math.log(2):.2f}",
        "thin_keys": f"{THIN_KEYS}",
        "thin_near": f"{THIN_NEAR}",
        "thin_high": thinned(0.7),
        "thin_low": thinned(0.1),
        "alibi_steepest": f"{posenc.alibi.slopes(8)[0].item():g}",
        "verdict": verdict(study, "rse").words,
        "prediction": study["predictions"]["rse"],
        "study_short": f"{lengths[0]}",
        "study_long": f"{lengths[-1]}",
        "study_seeds": f"{len(runs['rse']['whole'])}",
        "far_missed": f"{mean_and_spread(load_results('needle')['methods']['rse']['scores']['far'])[0]:.0%}",
        "common": f"{rate_tried('rse', 0.006, 1):.2f}",
        "chosen": f"{rate_tried('rse', 0.006, 10):.2f}",
        "rope_rise": pm([row[-1] - row[0] for row in runs["rope"]["whole"]]),
        "recent_short": f"{ablation.loss('rse_recent', first):.2f}",
        "recent_long": f"{ablation.loss('rse_recent', last):.2f}",
        "first_short": f"{ablation.loss('rse', first):.2f}",
        "first_long": f"{ablation.loss('rse', last):.2f}",
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


def predictions():
    r"""What was predicted of each part, and why."""
    claims = SWEEPS["ablation_text"].predictions
    return table(["arm", "loss", "why"], [[words, *claims[arm][:2]] for arm, words in ARMS.items()])


def parts_figure():
    r"""Loss of each part, at the training length and at the longest."""
    return plot_parts(ablation.text(), {"rope": "rotation alone"} | ARMS)


def parts_numbers() -> dict[str, str]:
    r"""What the reading of the parts cites."""
    first, last = ablation.ends()
    results = ablation.text()
    order, softmax = ablation.beside("rse", first, "rse_recent"), ablation.beside("rse_softmax", last)
    assert order[0] > 5 * order[1] and softmax[0] < -5 * softmax[1]  # the order decides; the penalty helps far out
    assert ablation.beside("rse_stick", first)[0] > ablation.beside("nope", first)[0] > 0.5
    for column in (first, last):
        assert min(("rope", *ARMS), key=lambda arm: ablation.loss(arm, column)) == "stickbreaking"
    needle = ablation.needle()["methods"]
    far = {arm: sum(needle[arm]["scores"]["far"]) / len(needle[arm]["scores"]["far"]) for arm in ("rope", *ARMS)}
    assert max(far[arm] for arm in ("nope", "rse_stick", "stickbreaking")) < 0.1 < far["rse_penalty"] < far["rope"]
    assert min(far[arm] for arm in ("rope", "rse", "rse_softmax", "rse_recent")) > 0.5
    return {
        "order": signed_pm(*ablation.beside("rse", first, "rse_recent")),
        "stick_gain": signed_pm(*ablation.beside("stickbreaking", first, "rse_recent")),
        "softmax_long": signed_pm(*ablation.beside("rse_softmax", last)),
        "seeds": f"{len(results['seeds'])}",
        "tolerance": f"{results['tolerance']:g}",
        "softmax_rise": f"{ablation.loss('rse_softmax', last) - ablation.loss('rse_softmax', first):.2f}",
    }


@functools.cache
def rates():
    r"""Frozen results of `rse_rates`: rates and contents, before and after training."""
    return load_results("rse_rates")


def trained(arm: str, when: str, quantity: str) -> list[list[float]]:
    r"""[seeds][layers] of a quantity, "before" or "after" training."""
    return [seed[quantity] for seed in rates()["arms"][arm][when]]


def flat(grid) -> list[float]:
    r"""All numbers of [seeds][layers]."""
    return [value for line in grid for value in line]


def mean_distance() -> float:
    r"""Mean distance of all visible pairs, in tokens."""
    return (rates()["settings"]["length"] - 1) / 3


def rates_table():
    r"""A row for each arm: its rates by layer, its contents before and after, what distance costs on average."""
    rows = []
    for arm, words in TRAINED_RATES.items():
        by_layer = [mean_and_spread(layer) for layer in zip(*trained(arm, "after", "rate"))]
        before, after = (mean_and_spread(flat(trained(arm, when, "content"))) for when in ("before", "after"))
        cost = mean_and_spread(flat(trained(arm, "after", "rate")))[0] * mean_distance()
        cells = ", ".join(f"{mean:.3f} ± {spread:.3f}" for mean, spread in by_layer)
        rows.append([words, cells, signed_pm(*before), signed_pm(*after), f"{cost:.2f}"])
    head = ["arm", r"$\lambda$ by layer", "mean content before", "after", r"$\lambda$ times the mean distance"]
    return table(head, rows)


def falls() -> list[list[float]]:
    r"""[seeds][layers]: by how much mean contents fell in training, key 0 first."""
    before, after = (trained("rse", when, "content") for when in ("before", "after"))
    return [[b - a for b, a in zip(*pair)] for pair in zip(before, after)]


def penalty_rise() -> float:
    r"""By how much the penalty rose at most, key 0 first, at the mean distance."""
    return (max(flat(trained("rse", "after", "rate"))) - FIRST_RATE) * mean_distance()


def rates_numbers() -> dict[str, str]:
    r"""What the reading of the rates cites."""
    top, deep = [seed[0] for seed in falls()], flat(seed[1:] for seed in falls())
    rate = {arm: flat(trained(arm, "after", "rate")) for arm in TRAINED_RATES}
    assert max(rate["rse_recent"]) < 0.01 < min(rate["rse"]) < max(rate["rse"]) < min(rate["rse_softmax"])
    assert min(flat(falls())) > 5 * penalty_rise()  # contents fell by more than the penalty rose
    for content, lam in zip(trained("rse", "after", "content"), trained("rse", "after", "rate")):
        assert [r >= math.log1p(math.exp(c)) for c, r in zip(content, lam)] == [False, True, True]  # local?
        assert (content[0] - math.log(math.expm1(lam[0]))) / lam[0] > rates()["settings"]["length"]  # its hill
    return {
        "fell_top": f"{min(top):.0f} to {max(top):.0f}",
        "fell_deep": f"{min(deep):.0f} to {max(deep):.0f}",
        "raised": f"{penalty_rise():.2f}",
    }
