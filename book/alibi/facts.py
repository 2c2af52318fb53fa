r"""What the ALiBi chapter computes behind its prose: numbers, figures and the checks of its claims."""

import math

import matplotlib.pyplot as plt
import numpy as np
import torch

import posenc
from posenc.bias.alibi import bias, slopes
from posenc.chapters.alibi.figures import KEYS, MATCH, content_logits
from posenc.chapters.rope import facts as rope
from posenc.lab.experiments import ONE_A_PLACE, in_longer, load_results, on_windows, verdict
from posenc.lab.experiments.plots import AMOUNT, HIDDEN
from posenc.lab.experiments.verdicts import EQUAL
from posenc.lab.write import finish, print_errors, say_all, seeded

HEADS = 8
NEEDLE_LOGIT = 10.0  # the far key that stands out, above equal others
STUDY = load_results("train_short_test_long", ONE_A_PLACE)


def numbers():
    r"""Give the prose its numbers, but for those that its own cells compute."""
    say_all("alibi", head_numbers() | hand_numbers() | verdict_numbers())


def bias_figure():
    r"""By what factor the bias of each of four heads makes a key quieter, a map of queries and keys."""
    positions = torch.arange(128)
    maps = bias(positions, positions, slopes(4)).exp().masked_fill(positions[:, None] < positions, float("nan"))
    figure, axes = plt.subplots(2, 2, figsize=(4.4, 4.2), layout="constrained", sharex=True, sharey=True)
    for axis, picture, slope in zip(axes.flat, maps, slopes(4).tolist()):
        image = axis.imshow(picture, cmap=AMOUNT, vmin=0, vmax=1)
        axis.set_facecolor(HIDDEN)
        axis.set(xticks=range(0, 128, 50), yticks=range(0, 128, 50))
        axis.set_title(f"slope 1/{1 / slope:.0f}")
    for axis in axes[-1]:
        axis.set_xlabel("key j")
    for axis in axes[:, 0]:
        axis.set_ylabel("query i")
    figure.colorbar(image, ax=axes, label="what is left, a factor", shrink=0.8)
    return finish(figure)


def windows(num_heads: int = HEADS) -> list[tuple[float, ...]]:
    r"""For each head its slope, and in how many tokens it halves and holds 63%, 95%, 99.99% of a row of equal keys."""
    logs = math.log(2), 1, math.log(20), math.log(10_000)
    return [(m, *(log / m for log in logs)) for m in slopes(num_heads).double().tolist()]


def print_windows() -> None:
    r"""The windows of eight heads, a line each."""
    print("head   slope   halves every   63% on   95% on   99.99% on")
    for head, (m, half, most, nearly, all_but) in enumerate(windows(), start=1):
        print(f"{head:4}  {m:.4f} {half:14.1f} {most:8.0f} {nearly:8.0f} {all_but:11.0f}")


def head_numbers() -> dict[str, str]:
    r"""How many keys hold 95% of the mildest head's row; what it gives the key that fits the last query."""
    at_last = bias(torch.tensor([KEYS - 1]), torch.arange(KEYS), slopes(HEADS).double())[:, 0]  # [H, KEYS]
    star = (content_logits() + at_last).softmax(-1)[-1, MATCH]
    return {"mildest_95": f"{windows()[-1][3]:.0f}", "star_eight": f"{star:.0%}"}


def weights(q, k, encoding, **options):
    r"""What attention gives each pair."""
    return posenc.attention(q, k, k, encoding, return_weights=True, **options)[1]


def key_bias(m, scale: float = 1.0) -> posenc.Encoding:
    r"""+m_h j: the second form of the bias, as an encoding."""
    return posenc.Encoding(bias=lambda q, k, at: scale * m[:, None, None] * at.pos_k[:, None, None, :])


def window_error(q, k, encoding, m):
    r"""Equal contents: the weights are geometric, with ratio e^-m a step."""
    length = q.shape[2]
    flat = weights(torch.zeros_like(q), k, encoding)[0, :, -1]  # [H, T]
    distance = length - 1 - torch.arange(length)
    geometric = (-m[:, None] * distance).exp() * (1 - (-m[:, None]).exp()) / (1 - (-m[:, None] * length).exp())
    return (flat - geometric).abs().max()


def step_error(q, k, encoding, m):
    r"""A step back costs e^-m whatever the content: compare with NoPE's ratios."""
    ratio = weights(q, k, encoding)[..., 1:, :-1] / weights(q, k, posenc.Encoding())[..., 1:, :-1]
    step = (ratio[..., -1, 1:] / ratio[..., -1, :-1]).log() - m[None, :, None]
    return step.abs().max()


def price_error(m, far: int = 50, keys: int = 40_000):
    r"""The price of a far key: one that pays exactly this holds half."""
    worst = torch.tensor(0.0)
    for slope in m.tolist():
        price = slope * far + math.log(1 / (1 - math.exp(-slope)) - math.exp(-slope * far))
        logits = -slope * torch.arange(keys, dtype=torch.float64)
        logits[far] += price
        worst = max(worst, (logits.softmax(-1)[far] - 0.5).abs())
    return worst


def check_errors(q, k, v) -> dict[str, torch.Tensor]:
    r"""How far each claim of the chapter is off, for these q, k, v [B, H, T, D]."""
    num_heads, index = q.shape[1], torch.arange(q.shape[2])
    encoding, m = posenc.make("alibi", num_heads=num_heads), slopes(num_heads).double()
    plain, far = weights(q, k, encoding), index + 1_000_003
    mask = bias(index, index, m).masked_fill(index[:, None] < index, -math.inf)
    by_torch = torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    return {
        "equal contents give the geometric window": window_error(q, k, encoding, m),
        "each step back costs m, whatever the content": step_error(q, k, encoding, m),
        "a far key that pays the price holds half": price_error(m),
        "a shift of all positions changes nothing": (weights(q, k, encoding, pos_q=far, pos_k=far) - plain).abs().max(),
        "+m j gives the same weights as -m (i - j)": (weights(q, k, key_bias(m)) - plain).abs().max(),
        "PyTorch's scaled_dot_product_attention agrees": (by_torch - posenc.attention(q, k, v, encoding)).abs().max(),
    }


def print_checks() -> dict[str, torch.Tensor]:
    r"""Print and return `check_errors` for the q, k, v of twelve heads that the cells which break it draw."""
    errors = check_errors(*seeded(lambda: torch.randn(3, 2, 12, 96, 64, dtype=torch.float64)))
    print_errors(errors, limit=1e-10)
    return errors


def hand_numbers() -> dict[str, str]:
    r"""The example by hand: the first weight without the bias; those with it are asserted to be the table's."""
    q = torch.tensor([2.0, 0, 0, 2]).view(1, 1, 1, 4)
    k = torch.tensor([[1.0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]]).view(1, 1, 3, 4)
    half = posenc.Encoding(bias=lambda q, k, at: bias(at.pos_q, at.pos_k, torch.tensor([0.5])))
    by_hand, without = (weights(q, k, encoding).flatten() for encoding in (half, posenc.Encoding()))
    assert [f"{w:.3f}" for w in by_hand] == ["0.384", "0.233", "0.384"]
    return {"hand_nope": f"{without[0]:.3f}"}


def check_short(own_slopes, own_weights) -> None:
    r"""Assert that the page's slopes(H) and alibi(q, k, m, pos_q, pos_k) do what posenc does, decoding too."""
    for heads in range(1, 40):
        torch.testing.assert_close(own_slopes(heads), slopes(heads))
    q, k = seeded(lambda: torch.randn(2, 6, 58, 8))
    at, m, encoding = torch.arange(58), slopes(6), posenc.make("alibi", num_heads=6)
    for now in (at, at[-1:]):
        ours = own_weights(q[:, now], k, m, now, at)
        theirs = weights(q[None, :, now], k[None], encoding, pos_q=now, pos_k=at)[0]
        torch.testing.assert_close(ours, theirs)


def bfloat16_numbers(forms, slope: float, i: int) -> dict[str, str]:
    r"""How many keys bfloat16 puts level with query i under +m j, and how far it moves the farthest one otherwise."""
    level, distances = (biases.bfloat16() for biases in forms.values())
    return {
        "bf16_ties": f"{int((level == level[-1]).sum())}",
        "bf16_far": f"{abs(distances[0].item() / slope + i):.0f}",
    }


def needle_reach(slope: float) -> tuple[int, float]:
    r"""Up to which distance a key that stands out by NEEDLE_LOGIT holds half, and its weight at distance 1,000."""
    d = torch.arange(0, 20_000, dtype=torch.float64)
    others = 1 / (1 - math.exp(-slope)) - (-slope * d).exp()
    needle = (NEEDLE_LOGIT - slope * d).exp()
    return int((needle >= others).nonzero().max()), (needle / (needle + others))[1_000].item()


def print_needle() -> dict[str, str]:
    r"""Print the reach of each head of eight; return that of the first and the last, and the odds of the needle."""
    print("slope     holds half up to   weight at distance 1,000")
    reaches = []
    for slope in slopes(HEADS).double().tolist():
        reach, weight = needle_reach(slope)
        print(f"1/{1 / slope:<6.0f} {reach:9} tokens {weight:26.1e}")
        reaches.append(f"{reach:,}")
    return {"needle_odds": f"{math.exp(NEEDLE_LOGIT):,.0f}", "needle_steep": reaches[0], "needle_mild": reaches[-1]}


def far_share(slope: float) -> float:
    r"""What a last row of equal keys leaves beyond the training length, in the longest context."""
    short, long = STUDY["lengths"][0], STUDY["lengths"][-1]
    return (math.exp(-slope * short) - math.exp(-slope * long)) / (1 - math.exp(-slope * long))


def verdict_numbers() -> dict[str, str]:
    r"""The verdict, the least gap that parts its words, what a neutral row leaves to far keys.

    Errors: AssertionError where ALiBi does not suffer by less than the tolerance, where more keys or an unseen gap do
    not cost it more than both together, or another than stick-breaking has the lowest loss at the training length.
    """
    found, runs = verdict(STUDY, "alibi"), {name: np.array(runs["whole"]) for name, runs in STUDY["methods"].items()}
    three = (on_windows(STUDY, "alibi", at, kind) for at, kind in ((0, "whole"), (-1, "whole"), (-1, "cut")))
    assert in_longer(*three, STUDY["tolerance"], len(STUDY["seeds"])) == "suffers"
    assert found.outcome == "came true" and found.gap < STUDY["tolerance"] / 2
    assert min(runs, key=lambda name: runs[name][:, 0].mean()) == "stickbreaking"
    grid = np.mean(STUDY["methods"]["alibi"]["distance_and_keys"], axis=0)  # [keys, gap]
    assert min(grid[-1, 0], grid[0, -1]) - grid[0, 0] > found.change
    steepest, *_, mildest = slopes(STUDY["settings"]["num_heads"]).double().tolist()
    assert far_share(steepest) < 0.001 and mildest == 1 / 256
    words = {
        "verdict": found.words,
        "least": f"{EQUAL * STUDY['tolerance']:g}",
        "far_mildest": f"{far_share(mildest):.0%}",
    }
    return words | {"rope_keys": f"{rope.rises()['all']:.3f}"}  # as that chapter's table has it
