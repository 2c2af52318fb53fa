r"""What the page *When content moves the ruler* runs, and its reader need not see."""

import collections
import functools
import math

import matplotlib.pyplot as plt
import torch

from posenc import METHODS, cope, fox, path
from posenc.lab.experiments import load_results, mean_and_spread
from posenc.lab.experiments.plots import name_lines
from posenc.lab.titles import TITLES
from posenc.lab.write import finish, normal, pm, table

PAIRS = ((0, 1), (0, 2), (1, 2))  # of cups that a swap may take
RIGHT = 0.05  # a method whose share of wrong answers stays below this has the answer
FROZEN = load_results("cups")


def exchanged_changes(length=7, dim=8, first=3):
    r"""What a logit does when two tokens between change places, with keys, gates and reflections: {title: change}."""
    order = torch.arange(length)
    order[first], order[first + 1] = first + 1, first
    q, k, raw = normal(length, dim, seed=0), normal(length, dim, seed=1), normal(length, dim + 1, seed=2)
    log_f = torch.nn.functional.logsigmoid(normal(length, seed=3))
    visible = torch.ones(length, length, dtype=torch.bool).tril()

    def counted(order):
        return cope.positions(q @ k[order].T / math.sqrt(dim), visible)

    def reflected(order):
        moved = path.reflections(raw[order])
        return path.scores_along(q, k[order], moved[..., :-1], moved[..., -1])

    methods = {"FoX": lambda order: fox.decay(log_f[order]), "CoPE": counted, "PaTH": reflected}
    pairs = {title: (logit(order), logit(torch.arange(length))) for title, logit in methods.items()}
    return {title: abs(moved[-1, 1] - before[-1, 1]).item() for title, (moved, before) in pairs.items()}


def swap(a, b, dim=4):
    r"""The direction w [dim] of the reflection that exchanges two lanes."""
    w = torch.zeros(dim, dtype=torch.float64)
    w[a], w[b] = 1.0, -1.0
    return w / math.sqrt(2)


def cups_by_hand(swaps, seed=0):
    r"""(answers of PaTH with weights set by hand, right answers) to random swaps of three cups, [swaps] each."""
    drawn = torch.randint(3, (swaps,), generator=torch.Generator().manual_seed(seed)).tolist()
    keys = torch.cat((torch.eye(3, 4, dtype=torch.float64), torch.zeros(swaps, 4, dtype=torch.float64)))
    w = torch.stack([torch.zeros(4, dtype=torch.float64)] * 3 + [swap(*PAIRS[n]) for n in drawn])
    beta = torch.tensor([0.0] * 3 + [2.0] * swaps, dtype=torch.float64)
    queries = torch.eye(1, 4, dtype=torch.float64).expand(swaps, 4)
    scores = path.scores_along(queries, keys, w, beta)[:, :3]
    cups, right = [0, 1, 2], []
    for n in drawn:
        a, b = PAIRS[n]
        cups[a], cups[b] = cups[b], cups[a]
        right.append(cups[0])
    return scores.argmax(-1), torch.tensor(right)


def errors(method, length):
    r"""The share of wrong answers of each seed after so many swaps."""
    return FROZEN["methods"][method]["scores"][str(length)]


def outcome(method):
    r"""What became of the prediction for a method: "came true" or "failed"."""
    at, claim, _ = FROZEN["predicted"][method]
    length = FROZEN["lengths"][0 if at == "in" else -1]
    right = mean_and_spread(errors(method, length))[0] < RIGHT
    return "came true" if right == (claim == "right") else "failed"


@functools.cache
def bag_error(swaps):
    r"""The least share of wrong answers of a rule that knows the last swap and how many of each came before.

    swaps: the mean is over the answers after so many swaps, for every n in this range. All rows of swaps count alike.
    """
    rows, found = collections.Counter({((0, 0, 0), (0, 1, 2)): 1}), {}
    for n in range(1, max(swaps) + 1):
        answers, following = collections.defaultdict(collections.Counter), collections.Counter()
        for (counts, cups), times in rows.items():
            for last, (a, b) in enumerate(PAIRS):
                moved = list(cups)
                moved[a], moved[b] = moved[b], moved[a]
                answers[counts, last][moved[0]] += times
                more = tuple(count + (pair == last) for pair, count in enumerate(counts))
                following[more, tuple(moved)] += times
        rows = following
        found[n] = 1 - sum(max(each.values()) for each in answers.values()) / 3**n
    return sum(found[n] for n in swaps) / len(swaps)


def sink_share(keys, slot=3.0):
    r"""What a sink of logit `slot` takes beside so many keys of logit 0."""
    return 1 / (1 + math.exp(math.log(keys) - slot))


def numbers():
    r"""What the prose says of the study and of sinks, by name."""
    first, following, _ = FROZEN["lengths"]
    held = [name for name in FROZEN["methods"] if outcome(name) == "came true"]
    return {
        "bag_short": f"{bag_error(range(1, first + 1)):.2f}",
        "bag_next": f"{bag_error(range(following - first + 1, following + 1)):.2f}",
        "sink_many": f"{sink_share(256):.2f}",
        "sink_few": f"{sink_share(16):.2f}",
        "held": f"{len(held)} of {len(FROZEN['methods'])}",
    }


def verdict_table():
    r"""Each method: the learning rate that validation chose, the error at each length, and its prediction."""
    lengths, rows = FROZEN["lengths"], []
    for name, values in FROZEN["methods"].items():
        predicted = f"{FROZEN['predicted'][name][1]}: {outcome(name)}"
        shares = [pm(errors(name, length)) for length in lengths]
        rows.append([METHODS[name].title, f"{values['rate']:g}", *shares, predicted])
    return table(["method", "learning rate", *(f"{length} swaps" for length in lengths), "predicted"], rows)


def verdict_figure():
    r"""The share of wrong answers against the number of swaps, every seed a point."""
    figure, axes = plt.subplots(figsize=(4.4, 2.9), layout="constrained")
    lengths = FROZEN["lengths"]
    for name in FROZEN["methods"]:
        means = [mean_and_spread(errors(name, length))[0] for length in lengths]
        row = TITLES[name]
        axes.plot(lengths, means, color=row.color, marker=row.marker, label=METHODS[name].title)
        for length in lengths:
            axes.plot([length] * len(errors(name, length)), errors(name, length), ".", color=row.color, alpha=0.4)
    axes.axhline(FROZEN["chance"], color="0.5", linestyle=":", label="guessing")
    axes.set(xlabel="swaps", ylabel="share of wrong answers", xscale="log", ylim=(-0.03, 0.75))
    axes.set_xticks(lengths, [str(length) for length in lengths])
    axes.minorticks_off()
    name_lines(axes)
    return finish(figure)


def padded_change(padding, n_floor, alpha, length):
    r"""How far weights move when hidden tokens stand before, where logits grow with a query's index n from 1 on."""
    logits = normal(length, length, seed=6)  # scaled q.k plus a bias that reads distance alone
    visible = torch.ones(length, length, dtype=torch.bool).tril()

    def weights(start):
        n = torch.arange(length) + start + 1
        tau = 1 + alpha * torch.log((n / n_floor).clamp(min=1))
        return torch.softmax((logits * tau[:, None]).masked_fill(~visible, float("-inf")), dim=-1)

    return (weights(padding) - weights(0)).abs().max().item()
