r"""What the chapter *RoPE* computes and draws beside its text."""

import math
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import torch

import posenc
from posenc import rope
from posenc.chapters.rope.exercises import (
    masks_lanes,
    pairs_of_one_angles_of_other,
    permutation,
    reads_pairs_writes_halves,
    turns_backwards,
)
from posenc.lab.experiments import ONE_A_PLACE, load_results, verdict
from posenc.lab.write import finish, interval, say_all, vector

HEADS = load_results("rope_closely")
#: The head that the chapter draws, of layer 1.
DRAWN = next(head for head in HEADS["heads"] if (head["layer"], head["head"]) == (1, 0))
L = HEADS["settings"]["length"]
SPEEDS = torch.tensor(HEADS["inv_freq"], dtype=torch.float64)
#: Which of the study model's pairs did not finish a turn in training: [pairs].
SLOW = 2 * math.pi / SPEEDS > L
#: Up to which distance each pair turns, [pairs]: all without end; the slow ones to the last trained; the fast ones.
LASTS = [torch.where(stop, L - 1.0, math.inf) for stop in (SLOW & ~SLOW, SLOW, ~SLOW)]
#: The four codes of *Break it*, which a reader judges, in the order of their letters.
CODES = {"A": reads_pairs_writes_halves, "B": pairs_of_one_angles_of_other, "C": turns_backwards, "D": masks_lanes}
LANES, STUDY = load_results("rope_surgery"), load_results("train_short_test_long", ONE_A_PLACE)
#: The rows of the table of losses, and which pairs are stopped in each.
LOSS_ROWS = {"all move": "none", "slow stopped": "slow", "fast stopped": "fast", "all stopped": "all", "cut": "cut"}


def numbers():
    r"""Give the prose its numbers."""
    *_, total = score_terms()
    values = {"low": f"{total.min():+.2f}", "high": f"{total.max():+.2f}", "verdict": verdict(STUDY, "rope").words}
    values |= {"error": f"{max(check_errors().values()):.0e}"}
    for part in (wave_numbers, unseen_numbers, lane_numbers):
        values |= part()
    say_all("rope", values)
    say_all("hand", hand_numbers())


@cache
def score_terms(places=256, dim=64, distance=3):
    r"""The score of two random tokens with sinusoids added, at every place of the key: four terms and their sum."""
    generator = torch.Generator().manual_seed(0)
    x_m, x_n = torch.randn(2, dim, dtype=torch.float64, generator=generator)
    w_q, w_k = torch.randn(2, dim, dim, dtype=torch.float64, generator=generator) / math.sqrt(dim)
    w = w_q.T @ w_k / math.sqrt(dim)
    n = torch.arange(places)
    p_m, p_n = (posenc.sinusoidal.table((n + d).double(), dim) for d in (distance, 0))
    content = (x_m @ w @ x_n).expand(places)
    terms = [content, p_n @ (x_m @ w), p_m @ (w @ x_n), ((p_m @ w) * p_n).sum(1)]
    total = torch.stack(terms).sum(0)
    assert torch.allclose(total, ((x_m + p_m) @ w * (x_n + p_n)).sum(1))  # the four terms are the whole score
    assert total.max() - total.min() > content[0].abs() / 2  # and it does depend on the place
    return *terms, total


def term_table():
    r"""The four terms and the score at three places, printed."""
    rows = (f"{place:3d}" + "".join(f"{t[place].item():+6.2f}" for t in score_terms()) for place in (0, 50, 200))
    return "\n".join(["  n    xx    xp    px    pp  score", *rows])


def absolute_figure():
    r"""The score of two tokens at one distance, at every place, and its content term."""
    content, *_, total = score_terms()
    figure, axes = plt.subplots(figsize=(4.4, 2.6), layout="constrained")
    axes.plot(torch.arange(len(total)), total, color="C1", label="score, sinusoids added")
    axes.axhline(content[0], color="black", linestyle="--", label="its content term")
    axes.set(xlabel="position n of the key (query at n + 3)", ylabel="score")
    figure.legend(loc="outside lower center", ncols=2)
    return figure


def wave_numbers():
    r"""The first and the last wavelength, how many pairs do not finish a turn in 4,096 tokens, and what half precisions
    make of frequencies: by how many radians the worst pair is then off at position 4,096."""
    w = {base: rope.inv_freq(128, base, dtype=torch.float64) for base in (100.0, 10_000.0, 500_000.0)}
    unseen = [int((2 * math.pi / speeds > 4096).sum()) for speeds in w.values()]
    assert unseen[0] == 0
    exact = w[10_000.0]
    values = {"unseen": unseen[1], "unseen_500000": unseen[2], "wave_first": f"{2 * math.pi / exact[0]:.1f}"}
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        values[f"buffer_{name}"] = f"{4096 * (exact.to(dtype).double() - exact).abs().max():.1f}"
    return values | {"wave_last": f"{2 * math.pi / exact[-1]:,.0f}"}


def hand_numbers():
    r"""The example by hand: a query at 2 and keys at 0, 1, 2, turned; ten tokens later; in halves, and wrongly so."""
    q = torch.tensor([1.0, 0, 1, 0], dtype=torch.float64)
    keys = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]], dtype=torch.float64)
    w, values, as_is = rope.inv_freq(4, dtype=torch.float64), {}, torch.arange(4)
    cases = {"": (0, as_is, "interleaved"), "_later": (10, as_is, "interleaved")}
    cases |= {"_half": (0, permutation(4), "half"), "_wrong": (0, as_is, "half")}
    for name, (start, lanes, layout) in cases.items():
        turned_q = rope.rotate(q[None, lanes], torch.tensor([start + 2]), w, layout)[0]
        turned = rope.rotate(keys[:, lanes], start + torch.arange(3), w, layout)
        values |= {f"q{name}": vector(turned_q)} | {f"s{j}{name}": f"{turned_q @ k:.3f}" for j, k in enumerate(turned)}
        if not name:
            values |= {f"k{j}": vector(k) for j, k in enumerate(turned)}
    for j, k in enumerate(keys):
        angles = (j - 2) * w
        a, b = k[0::2] * angles.cos() - k[1::2] * angles.sin()
        values[f"p{j}"] = f"{a:.3f} + {b:.3f}".replace("+ -", "− ")
    return values


def check_short(turn, dim=8, tokens=20):
    r"""Assert that the page's own lines, turn(x [T, D], positions [T], layout), turn as posenc does in both layouts."""
    x = torch.randn(tokens, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    at, w = torch.arange(tokens), rope.inv_freq(dim, dtype=torch.float64)
    for layout in rope.LAYOUTS:
        torch.testing.assert_close(turn(x, at, layout), rope.rotate(x, at, w, layout))


def card_figure(m=5, n=3, dim=8, base=100.0):
    r"""The card's picture: the hands of a query and of a key in each pair, fast to slow, and the arc between them."""
    figure, panels = plt.subplots(1, dim // 2, figsize=(4.4, 1.5), layout="constrained")
    for i, (axes, w) in enumerate(zip(panels, rope.inv_freq(dim, base).tolist())):
        axes.add_patch(plt.Circle((0, 0), 1, fill=False, color="0.8"))
        for place, length, color, style in ((m, 1.0, "C0", "-"), (n, 0.8, "C1", "--")):
            axes.plot(
                [0, length * math.cos(place * w)], [0, length * math.sin(place * w)], style, color=color, linewidth=2.5
            )
        arc = w * torch.linspace(n, m, 40)
        axes.plot(0.5 * arc.cos(), 0.5 * arc.sin(), color="C2", linewidth=3)
        axes.set(xlim=(-1.1, 1.1), ylim=(-1.1, 1.1), aspect="equal", xticks=[], yticks=[], title=f"pair {i}")
        axes.axis("off")
    return finish(figure)


def rotation_matrix(m, w):
    r"""R(m), the block matrix that turns interleaved pairs by m w: [D, D]."""
    blocks = [torch.stack((c, -s, s, c)).view(2, 2) for c, s in zip((m * w).cos(), (m * w).sin())]
    return torch.block_diag(*blocks)


@cache
def check_errors(dim=16, m=1234, n=567, s=4321):
    r"""The largest error of each claim that the chapter proves, for tokens at m and n, moved by s: {claim: error}."""
    q, k, grad = torch.randn(3, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    w = rope.inv_freq(dim, dtype=torch.float64)

    def R(m):
        return rotation_matrix(m, w)

    def turn(x, m, layout="interleaved"):
        return rope.rotate(x[None], torch.tensor([m]), w, layout)[0]

    leaf = q.clone().requires_grad_()
    turn(leaf, m).backward(grad)
    lanes = permutation(dim)
    errors = {
        "the code is the matrix": turn(q, m) - R(m) @ q,
        "R(m)ᵀ R(n) = R(n - m)": R(m).T @ R(n) - R(n - m),
        "score = qᵀ R(n - m) k": turn(q, m) @ turn(k, n) - q @ R(n - m) @ k,
        "norm is kept": turn(q, m).norm() - q.norm(),
        "shift changes no score": turn(q, m + s) @ turn(k, n + s) - turn(q, m) @ turn(k, n),
        "turning back undoes it": turn(turn(q, m), -m) - q,
        "gradient turns back": leaf.grad - R(-m) @ grad,
        "half-split = permuted": turn(q[lanes], m, "half") - turn(q, m)[lanes],
    }
    return {claim: error.abs().max().item() for claim, error in errors.items()}


def wrong_order(dim=16, m=1234, n=567):
    r"""How far R(m)^T R(n) is from R(m - n), which is no identity."""
    w = rope.inv_freq(dim, dtype=torch.float64)
    product = rotation_matrix(m, w).T @ rotation_matrix(n, w)
    return (product - rotation_matrix(m - n, w)).abs().max().item()


def check_table():
    r"""The errors as a printed table, and what is no identity under it."""
    lines = [f"{claim:24s} {error:.0e}" for claim, error in check_errors().items()]
    return "\n".join([*lines, "", f"R(m)ᵀ R(n) = R(m - n)?   {wrong_order():.1f}"])


def judgments(dim=16, tokens=32):
    r"""What each code of `CODES` does to random queries and keys.

    Returns: {letter: (keeps the norm, scores depend on the distance alone, scores are RoPE's)}.
    """
    q, k = torch.randn(2, tokens, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    w, at = rope.inv_freq(dim, dtype=torch.float64), torch.arange(tokens)
    right = rope.rotate(q, at, w) @ rope.rotate(k, at, w).T
    answers = {}
    for letter, code in CODES.items():
        scores, later = (code(q, at + s, w) @ code(k, at + s, w).T for s in (0, 100))
        gaps = (code(q, at, w).norm(dim=-1) - q.norm(dim=-1), scores - later, scores - right)
        answers[letter] = tuple(bool(gap.abs().max() < 1e-9) for gap in gaps)
    return answers


def judgment_table(answers):
    r"""`judgments` as a printed table."""
    rows = (
        f"{letter:5s} " + " ".join(f"{'yes' if yes else 'no':7s}" for yes in row) for letter, row in answers.items()
    )
    return "\n".join(["code  norm  relative  same scores", *rows])


def scores_of(head, last, times=8):
    r"""A head's score, its content held, at every distance, where each pair turns up to its `last` one, [pairs]."""
    angles = torch.arange(times * L, dtype=torch.float64)[:, None].minimum(last) * SPEEDS
    cos, sin = (torch.tensor(head[part], dtype=torch.float64) for part in ("cos", "sin"))
    return angles.cos() @ cos + angles.sin() @ sin


def unseen_numbers():
    r"""Where trained heads' scores peak, how high far tokens score beside that, the mean over heads, by what is
    stopped, and what a crowd of keys leaves to one that scores 5 where the others score 0.5."""
    peaks = sorted({max(range(L), key=head["mean"].__getitem__) for head in HEADS["heads"]})
    assert 0 not in peaks
    shares = []
    for last in LASTS:
        curves = [scores_of(head, last) for head in HEADS["heads"]]
        shares.append(sum((c[L:].max() / c[:L].max()).item() for c in curves) / len(curves))
    assert shares[0] > 0.9 and shares[1] < 0.5 < shares[2]
    for head in HEADS["heads"]:  # the slow pairs' part falls in training, and then rises above all
        part = scores_of({key: (torch.tensor(head[key]) * SLOW).tolist() for key in ("cos", "sin")}, LASTS[0])
        assert part[L - 1] < part[0] and part[L:].max() > part[:L].max()
    crowds = (math.exp(5) / (math.exp(5) + (keys - 1) * math.exp(0.5)) for keys in (64, 512))
    names = ("share_all", "share_slow", "share_fast", "few", "many")
    values = {name: f"{value:.0%}" for name, value in zip(names, (*shares, *crowds))}
    return values | {"peaks": " or ".join(map(str, peaks))}


def losses(kind):
    r"""Losses with the pairs of this kind stopped: [seeds, lengths]."""
    return torch.tensor(LANES["targets"][kind])


def loss_table():
    r"""The losses at the training length and at the longest, and the rise with its interval, printed."""
    first, last = LANES["lengths"][0], LANES["lengths"][-1]
    lines = [f"loss, context {first:5d} {last:6d}  rise, with its 95% interval"]
    for words, kind in LOSS_ROWS.items():
        start, *_, end = losses(kind).T
        in_blocks = np.subtract(*np.reshape(LANES["in_blocks"][kind], (2, -1))[::-1])
        rise = interval(np.append(end - start, in_blocks), 3, len(start))
        lines.append(f"{words:13s} {start.mean():5.3f}  {end.mean():5.3f}  {rise}")
    return "\n".join(lines)


def rises():
    r"""By how much the mean loss rises with the context: {which pairs are stopped: nats}."""
    return {kind: (losses(kind)[:, -1] - losses(kind)[:, 0]).mean().item() for kind in LOSS_ROWS.values()}


def lane_numbers():
    r"""What stopping pairs does to the loss. Errors: AssertionError where the slow ones do not cure most."""
    rise = rises()
    assert rise["slow"] < rise["none"] / 2 < rise["fast"]
    return {"rise_all": f"{rise['all']:.3f}", "fast_less": f"{rise['none'] - rise['fast']:.3f}"}
