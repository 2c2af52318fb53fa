r"""What the page *FoX: a door that closes* runs, and its reader need not see."""

import itertools
import math
from statistics import fmean as mean

import matplotlib.pyplot as plt
import torch
from torch.nn.functional import logsigmoid

import posenc
from posenc.bias.fox import decay
from posenc.chapters.cope.facts import PUZZLES, SOLVED
from posenc.chapters.cope.gates import SHUT, WORDS, presets, read
from posenc.lab.experiments import in_longer, judge, load_results, mean_and_spread, on_windows, verdict
from posenc.lab.experiments.plots import AMOUNT, HIDDEN, plot_by_position
from posenc.lab.write import finish, pm, signed_pm, table

CHAPTER, AFTER = 50, 10  # tokens of a chapter, and of the next one so far
TITLE_LOGIT = 4.0  # by how much the chapter's title, its first token, fits the query better than the rest
DOOR = 0.002  # the gate of the first token of the next chapter
SLOPES = (1 / 4, 1 / 16, 1 / 64, 1 / 256)
BESIDE = ("nope", "rope", "alibi", "stickbreaking")  # the methods that FoX stands beside
KEYS_TOLERANCE = 0.01  # nats: what hiding far keys may cost before they count as needed
LENGTHS = load_results("train_short_test_long", (*BESIDE, "fox"))
GATES = load_results("fox_gates")

# ------------------------------------------------------------------------------------------------- the two chapters


def chapter_gates() -> torch.Tensor:
    r"""log f [60] of the two chapters: every door open but that of the first token of the second chapter."""
    gates = torch.zeros(CHAPTER + AFTER, dtype=torch.float64)
    gates[CHAPTER] = math.log(DOOR)
    return gates


def shares(left: torch.Tensor) -> tuple[float, float]:
    r"""What the chapter's title gets at its last token, and what that chapter keeps when the next has ten tokens.

    left: [60, 60], what is added to the logits.
    """
    content = torch.zeros(CHAPTER + AFTER, dtype=left.dtype)
    content[0] = TITLE_LOGIT
    weights = [(content + left[i])[: i + 1].softmax(-1) for i in (CHAPTER - 1, CHAPTER + AFTER - 1)]
    return weights[0][0].item(), weights[1][:CHAPTER].sum().item()


def penalty(slope: float) -> torch.Tensor:
    r"""ALiBi's bias [60, 60]."""
    index = torch.arange(CHAPTER + AFTER, dtype=torch.float64)
    return -slope * (index[:, None] - index[None, :])


def print_shares(head: str, left: torch.Tensor) -> None:
    r"""Both shares, a line."""
    title, old = shares(left)
    print(f"{head:8}{title:21.3f}{old:33.3f}")


def print_clock() -> None:
    r"""Both shares for some slopes, a line each."""
    print("slope    the title, at the chapter's end    the old chapter, ten tokens later")
    for slope in SLOPES:
        print_shares(f"1/{1 / slope:.0f}", penalty(slope))


def print_door() -> None:
    r"""Both shares with one door, a line."""
    print_shares("one door", decay(chapter_gates()))


def clock_numbers() -> dict[str, str]:
    r"""What the prose beside the table cites."""
    title, old = shares(decay(chapter_gates()))
    return {
        "chapter": f"{CHAPTER}",
        "after": f"{AFTER}",
        "title_odds": f"{math.exp(TITLE_LOGIT):.0f}",
        "mild_old": f"{shares(penalty(SLOPES[-1]))[1]:.0%}",
        "door_gate": f"{DOOR:g}",
        "door_title": f"{title:.0%}",
        "door_old": f"{old:.0%}",
    }


def hand_numbers() -> dict[str, str]:
    r"""What closing the door of token 5 does to the line of the figure, all other doors open."""
    after, opened = WORDS["fox"].split().index(".") + 1, presets("fox")["open"]
    gates = [*opened[:after], SHUT, *opened[after + 1 :]]
    closed, opened = (read("fox", line, len(line) - 1)[1][:after] for line in (gates, opened))
    return {
        "hand_gate": f"{SHUT:g}",
        "hand_first": f"{closed[:-1].sum().item():.3f}",
        "hand_period": f"{closed[-1].item():.3f}",
        "hand_open": f"{opened.sum().item():.2f}",
    }


def doors_figure():
    r"""What is left of each key for each query: ALiBi's clock, and one door."""
    index = torch.arange(CHAPTER + AFTER)
    maps = {"ALiBi,\nslope 1/16": penalty(1 / 16), "FoX,\none door closes": decay(chapter_gates())}
    figure, axes = plt.subplots(1, 2, figsize=(4.4, 3), layout="constrained", sharey=True)
    for axis, (name, picture) in zip(axes, maps.items()):
        picture = picture.exp().masked_fill(index[:, None] < index, math.nan)
        image = axis.imshow(picture, cmap=AMOUNT, vmin=0, vmax=1)
        axis.set_facecolor(HIDDEN)
        axis.set(xlabel="key j", xticks=range(0, 60, 20), yticks=range(0, 60, 20))
        axis.set_title(name)
    axes[0].set_ylabel("query i")
    figure.colorbar(image, ax=axes, label="what is left, a factor", location="bottom", shrink=0.6, aspect=30)
    return finish(figure)


def card_figure():
    r"""The staircase of the card: what four gates leave of the keys before a query."""
    gates = torch.tensor([1.0, 0.9, 0.9, 0.2, 0.9, 0.9, 0.4, 0.9], dtype=torch.float64)
    left = decay(gates.log())[-1].exp()
    figure, axis = plt.subplots(figsize=(4.4, 2), layout="constrained")
    axis.step(range(len(left)), left, where="mid", color="#8c2d04", linewidth=2)
    axis.bar(range(len(left)), gates, color="0.85", width=0.6, zorder=0)
    axis.set(xlabel="key j (bars: its own gate)", ylabel="left at the last token", ylim=(0, 1.05))
    return finish(figure)


# --------------------------------------------------------------------------------------------------------- the checks


def weights(q, k, encoding, **options):
    r"""What attention gives each pair."""
    return posenc.attention(q, k, q, encoding, return_weights=True, **options)[1]


def gradient_by_hand(dleft: torch.Tensor) -> torch.Tensor:
    r"""Gradient of log f [..., T] from that of the decay, dD [..., T, T]: rows less columns, summed backward."""
    dc = dleft.sum(-1) - dleft.sum(-2)
    return dc.flip(-1).cumsum(-1).flip(-1)


def gradient_error(q, k, v, gates):
    r"""The gradient of log f by a reverse sum against autograd's, and the largest row sum of dD."""
    gates = gates.clone().requires_grad_()
    left = decay(gates)
    left.retain_grad()
    scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    ((scores + left).softmax(-1) @ v).square().sum().backward()
    dleft = left.grad.nan_to_num()
    return (gradient_by_hand(dleft) - gates.grad).abs().max(), dleft.sum(-1).abs().max()


def check_errors(q, k, v, gates) -> dict[str, torch.Tensor]:
    r"""How far each claim of the chapter is off, for q, k, v [B, H, T, D] and log f [B, H, T]."""
    fox, alibi = posenc.make("fox"), posenc.make("alibi", num_heads=q.shape[1])
    constant = -alibi.bias.slopes.to(q)[:, None].expand_as(gates)
    plain = weights(q, k, fox, gates=gates)
    other_first = torch.cat((gates[..., :1] - 5, gates[..., 1:]), dim=-1)
    by_key = posenc.Encoding(bias=lambda q, k, at: -gates.cumsum(-1)[..., None, :])
    segment = (torch.arange(q.shape[2]) >= q.shape[2] // 3).long()
    packed = weights(q, k, fox, gates=gates, mask=segment[:, None] == segment[None, :])
    second = segment.bool()
    alone = weights(q[:, :, second], k[:, :, second], fox, gates=gates[..., second])
    by_hand, rows = gradient_error(q, k, v, gates)
    return {
        "a constant gate is ALiBi": (weights(q, k, fox, gates=constant) - weights(q, k, alibi)).abs().max(),
        "open gates are NoPE": (weights(q, k, fox, gates=0 * gates) - weights(q, k, posenc.Encoding())).abs().max(),
        "another first gate changes nothing": (weights(q, k, fox, gates=other_first) - plain).abs().max(),
        "-c on the keys gives the same weights": (weights(q, k, by_key) - plain).abs().max(),
        "packed sequences equal separate ones": (packed[:, :, second][..., second] - alone).abs().max(),
        "log f's gradient is a reverse sum": by_hand,
        "rows of the decay's gradient sum to zero": rows,
    }


# ------------------------------------------------------------------------------------------------- frozen experiments


def losses(method, kind, place):
    r"""A method's losses at one of the lengths, a seed each."""
    return [run[place] for run in LENGTHS["methods"][method][kind]]


def lengths_table():
    r"""Each method's loss at the training length and at the longest, whole and cut; mean and spread over seeds."""
    first, *_, last = LENGTHS["lengths"]
    head = ["", f"{first} characters", f"{last}, whole", f"{last}, cut to {first} keys"]
    order = sorted(LENGTHS["methods"], key=lambda method: -mean(losses(method, "whole", -1)))
    return table(head, [[posenc.METHODS[method].title, *ends(LENGTHS["methods"][method])] for method in order])


def ends(runs):
    r"""Cells of a row: losses at the training length, at the longest, and there with attention cut."""
    return [pm([run[place] for run in runs[kind]], 3) for kind, place in (("whole", 0), ("whole", -1), ("cut", -1))]


def lengths_numbers() -> dict[str, str]:
    r"""What the reading of the verdict cites: how few nearest keys FoX may see and lose less than the tolerance."""
    results, whole = LENGTHS, {method: mean(losses(method, "whole", -1)) for method in LENGTHS["methods"]}
    by_cut = [mean(runs) for runs in zip(*results["methods"]["fox"]["context_cut"])]
    keys = next(cut for cut, loss in zip(results["cuts"], by_cut) if loss <= by_cut[-1] + KEYS_TOLERANCE)
    layers = results["settings"]["num_layers"]
    three = (on_windows(results, "fox", at, kind) for at, kind in ((0, "whole"), (-1, "whole"), (-1, "cut")))
    assert in_longer(*three, results["tolerance"], len(results["seeds"])) == "ignores"
    return {
        "verdict": verdict(results, "fox").words,
        "rank": f"{sorted(whole, key=whole.get).index('fox') + 1} of these {len(whole)}",
        "keys": f"{keys}",
        "reach": f"{layers} · {keys - 1} = {layers * (keys - 1)}",
        "keys_tolerance": f"{KEYS_TOLERANCE:g}",
    }


def position_figure():
    r"""Loss by place in the longest windows."""
    return plot_by_position(LENGTHS, ["rope", "alibi", "stickbreaking", "fox"])


# ------------------------------------------------------------------------------------------------------- trained gates


def means(name, arm="fox"):
    r"""Mean log f of a class of characters over all layers and heads, a number a seed."""
    return [seed[name] for seed in GATES["arms"][arm]["mean"]]


def gates_table():
    r"""For each class of characters how many there are, mean log f and the gate that this is."""
    rows = []
    for name in sorted(GATES["classes"], key=lambda name: mean(means(name))):
        characters = f"{GATES['classes'][name]:,}"
        rows.append([name, characters, pm(means(name)), f"{math.exp(mean(means(name))):.3f}"])
    return table(["class", "held-out characters", "mean log f", "as a gate"], rows)


def half_lives(arm):
    r"""In how many characters each head of each seed's model halves what is left, by its mean log f over characters."""
    return [math.log(2) / -number for number in torch.tensor(GATES["arms"][arm]["all"]).flatten().tolist()]


def gates_numbers() -> dict[str, str]:
    r"""What the prose about trained gates cites, and what became of both predictions."""
    results = GATES
    start, end = results["contrast_of_classes"]
    changes = [b - a for a, b in zip(means(start), means(end))]
    assert judge(changes, results["tolerance"], results["claim"]) == "came true"
    assert all(min(results["classes"], key=seed.get) == "space" for seed in results["arms"]["fox"]["mean"])
    pairs = zip(*(results["arms"][arm]["short_long"] for arm in ("fox", "started open")))  # of the seeds that both have
    changed = [b["whole"][0] - a["whole"][0] for a, b in pairs]
    became = [judge(changed, results["start_tolerance"], claim) for claim in ("holds", "stays")]
    assert "not decided" in became and "failed" not in became
    lives = {arm: f"{min(half_lives(arm)):.2f} and {max(half_lives(arm)):.2f}" for arm in results["arms"]}
    return {
        "space": f"{math.exp(mean(means('space'))):.4f}",
        "letter": f"{math.exp(mean(means('letter'))):.2f}",
        "longest": f"{max(half_lives('fox')):.2f}",
        "start_open": f"{torch.tensor(results['starts']['started open']).sigmoid():.3f}",
        "start_change": signed_pm(*mean_and_spread(changed), 3),
        "start_zero_lives": lives["fox"],
        "start_open_lives": lives["started open"],
    }


# ----------------------------------------------------------------------------------------------- puzzles and Pro block


def check_puzzles() -> None:
    r"""Assert that FoX solves flip-flop and counting, as predicted, and that selective copy is not decided."""
    became = {}
    for task, found in PUZZLES.items():
        inside, outside = (found["methods"]["fox"]["scores"][test] for test in found["contrast"])
        changes = [b - a for a, b in zip(inside, outside)]
        became[task] = judge(changes, found["tolerance"], found["claims"]["fox"])
        assert task == "selective_copy" or max(mean(inside), mean(outside)) < SOLVED
    assert became == {"flipflop": "came true", "counting": "came true", "selective_copy": "not decided"}


# ----------------------------------------------------------------------------------------------------------- precision


def precision_numbers(length: int = 4096, seed: int = 0) -> dict[str, str]:
    r"""How far c, summed token by token, is off in a text of random gates, and log f of its end as c_i - c_{i-1}."""
    log_gates = logsigmoid(torch.randn(length, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
    off = {}
    for dtype in (torch.float32, torch.bfloat16):
        sums = itertools.accumulate(log_gates.to(dtype))  # each step in this type, as decoding would keep it
        c = torch.stack(list(sums)).double()
        off[dtype] = [(c - log_gates.cumsum(0)).abs().max(), (c.diff() - log_gates[1:])[-64:].abs().max()]
    (c, step), (half_c, half_step) = off.values()
    half = {"bf16_c": f"{half_c:,.0f}", "bf16_step": f"{half_step:.1f}"}
    return half | {"float32_c": f"{c:.3f}", "float32_step": f"{step:.4f}"}
