r"""What the chapter *RoPE* computes and draws beside its text."""

import math
from functools import cache

import matplotlib.pyplot as plt
import torch

import posenc
from posenc import rope
from posenc.lab.exercises.rope import (
    masks_lanes,
    pairs_of_one_angles_of_other,
    permutation,
    reads_pairs_writes_halves,
    turns_backwards,
)
from posenc.lab.experiments import ONE_A_PLACE, load_results, verdict
from posenc.lab.explore import COLORS
from posenc.lab.pages import finish, say, say_all
from posenc.lab.write import pm

#: The head that the chapter draws: layer and number.
DRAWN_HEAD = (1, 0)
#: What a trained head's score is computed with: no pair, the slow or the fast ones stopped at the last trained angle.
STOPS = {"all pairs move": None, "slow pairs stopped": True, "fast pairs stopped": False}
#: The four codes of *Break it*, which a reader judges, in the order of their letters.
CODES = {"A": reads_pairs_writes_halves, "B": pairs_of_one_angles_of_other, "C": turns_backwards, "D": masks_lanes}
#: The rows of the table of losses, and which pairs are stopped in each.
LOSS_ROWS = {"all move": "none", "slow stopped": "slow", "fast stopped": "fast", "all stopped": "all", "cut": "cut"}
#: Positions are multiplied in pieces of this length, or a million of them would not fit beside a page's other work.
PIECE = 131_072


def numbers():
    r"""Give the prose all its numbers."""
    for part in (derivation_numbers, head_numbers, bits_numbers, unseen_numbers, lane_numbers, study_numbers):
        say_all("rope", part())
    for name, value in hand_numbers().items():
        say(f"hand_{name}", value)
    *_, total = score_terms()
    say_all("rope", {"low": f"{total.min():+.2f}", "high": f"{total.max():+.2f}"})
    say_all("rope", {"error": f"{max(check_errors().values()):.0e}", "backward": f"{backward_error():.1f}"})


# A failure that asks for it


@cache
def score_terms(places=256, dim=64, distance=3):
    r"""The score of two random tokens with sinusoids added, at every place of the key.

    Returns: content with content, content with position, position with content, position with position, and their
    sum: five tensors [places].
    """
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


# Derivation, the explorables, by hand


def wavelengths(dim=128, base=10_000.0):
    r"""How many tokens each pair needs for a turn, in float64: [dim/2]."""
    return 2 * math.pi / rope.inv_freq(dim, base, dtype=torch.float64)


def derivation_numbers():
    r"""The first and the last wavelength, and how many pairs did not finish a turn in 4,096 tokens, by base."""
    waves = wavelengths()
    assert waves.sort().values.equal(waves)  # the slow pairs are the last ones
    unseen = {base: int((wavelengths(base=base) > 4096).sum()) for base in (100, 10_000, 500_000)}
    return {
        "wave_first": f"{waves[0]:.1f}",
        "wave_last": f"{waves[-1]:,.0f}",
        "unseen": unseen[10_000],
        "unseen_100": unseen[100] or "none",
        "unseen_500000": unseen[500_000] or "none",
    }


@cache
def heads():
    r"""The study model's heads. Errors: ValueError where the model has not the study's size, steps or batches."""
    results, other = load_results("rope_heads"), load_results("train_short_test_long")["settings"]
    if any(value != other[key] for key, value in results["settings"].items() if key != "windows"):
        raise ValueError("rope_heads must be measured on the model of train_short_test_long; measure it anew")
    return results


def aimed_peak(target=40, places=1000):
    r"""Where the query turns to score its key highest, when the key is the query turned on by `target` tokens."""
    w = rope.inv_freq(128, dtype=torch.float64)
    q = torch.randn(128, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    k = rope.rotate(q[None], torch.tensor([target]), w)
    return int((rope.rotate(q.expand(places, -1), torch.arange(places), w) @ k[0]).argmax())


def random_scores(distances=(0, 10, 10_000), draws=20_000):
    r"""Scores of random queries and keys at these distances, divided by sqrt(D): a list of [draws]."""
    q, k = torch.randn(2, draws, 128, generator=torch.Generator().manual_seed(2))
    w = rope.inv_freq(128, dtype=torch.float64)
    scores = [(rope.rotate(q[:, None], torch.tensor([d]), w)[:, 0] * k).sum(-1) / math.sqrt(128) for d in distances]
    assert all(s.mean().abs() < 0.03 and abs(s.std() - 1) < 0.03 for s in scores)
    return scores


def head_numbers():
    r"""Where scores peak: of an aimed key, of the trained heads, of random vectors nowhere."""
    length, measured = heads()["settings"]["length"], heads()["heads"]
    peaks = sorted({max(range(length), key=head["mean"].__getitem__) for head in measured})
    assert 0 not in peaks and aimed_peak() == 40
    spreads = (f"{round(s.mean().item(), 2) + 0.0:.2f} ± {s.std():.2f}" for s in random_scores())
    return {
        "peak": aimed_peak(),
        "peaks": " or ".join(str(peak) for peak in peaks),
        "heads_length": length,
        "measured": len(measured[0]["mean"]) - 1,
        "heads": len(measured),
        "random": ", ".join(spreads),
    }


def hand_numbers():
    r"""The example by hand: a query at 2 and keys at 0, 1, 2, turned, and the same ten tokens later."""

    def words(x):
        return "(" + ", ".join(f"{v:.3f}" for v in x.tolist()) + ")"

    q = torch.tensor([1.0, 0, 1, 0], dtype=torch.float64)
    keys = torch.tensor([[1.0, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]], dtype=torch.float64)
    w, values = rope.inv_freq(4, dtype=torch.float64), {}
    for name, start in (("", 0), ("_later", 10)):
        turned_q = rope.rotate(q[None], torch.tensor([start + 2]), w)[0]
        turned_k = rope.rotate(keys, start + torch.arange(3), w)
        values[f"q{name}"] = words(turned_q)
        values |= {f"s{j}{name}": f"{turned_q @ k:.3f}" for j, k in enumerate(turned_k)}
        if start == 0:
            values |= {f"k{j}": words(k) for j, k in enumerate(turned_k)}
    order = permutation(4)
    for name, lanes in (("_half", order), ("_wrong", torch.arange(4))):
        turned_q = rope.rotate(q[None, lanes], torch.tensor([2]), w, "half")[0]
        turned_k = rope.rotate(keys[:, lanes], torch.arange(3), w, "half")
        values[f"q{name}"] = words(turned_q)
        values |= {f"s{j}{name}": f"{turned_q @ k:.3f}" for j, k in enumerate(turned_k)}
    for j, k in enumerate(keys):
        angles = (j - 2) * w
        a, b = k[0::2] * angles.cos() - k[1::2] * angles.sin()
        values[f"p{j}"] = f"{a:.3f} + {b:.3f}".replace("+ -", "− ")
    return values


# The code, the card, the checks


def check_short(turn, dim=8, tokens=20):
    r"""Assert that the page's own lines turn as posenc does, in both layouts.

    turn: the function that the page shows, of x [T, D], positions [T] and a layout.
    """
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


# Break it


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


def first_miss(dtype, numbers=4096):
    r"""The first whole number that the dtype does not hold, and what it becomes."""
    whole = torch.arange(numbers)
    first = int((whole.to(dtype).long() != whole).nonzero()[0])
    return first, int(torch.tensor(first).to(dtype))


def buffer_error(dtype, position=4096):
    r"""By how many radians the worst pair is off at a position, with frequencies rounded to the dtype."""
    exact = rope.inv_freq(128, dtype=torch.float64)
    return (position * (exact.to(dtype).double() - exact)).abs().max().item()


@cache
def float32_errors(ends=(4_096, 131_072, 1_048_576)):
    r"""The largest error of a cosine from float32 angles, over the eight fastest pairs, up to each length: [ends]."""
    w, worst, errors, start = rope.inv_freq(128, dtype=torch.float64)[:8], 0.0, [], 0
    for end in ends:
        for begin in range(start, end, PIECE):
            place = torch.arange(begin, min(begin + PIECE, end))[:, None]
            fp32, fp64 = ((place.to(dtype) * w.to(dtype)).cos() for dtype in (torch.float32, torch.float64))
            worst = max(worst, (fp32 - fp64).abs().max().item())
        errors.append(worst)
        start = end
    return errors


def check_autocast():
    r"""Assert what the page says of autocast and half(): a matrix product rounds angles, elementwise does not."""
    whole, w = torch.arange(4096)[:, None].float(), rope.inv_freq(128)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert (whole @ w[None]).dtype == torch.bfloat16  # rounds both before it multiplies
        assert (whole * w).dtype == torch.float32
    encoding = posenc.make("rope", head_dim=128).half()
    assert not list(encoding.buffers()) and encoding.rotate.inv_freq.dtype == torch.float64  # ours is out of reach


def bits_table():
    r"""Where positions, frequencies and float32 angles lose bits, printed."""
    lines = []
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        lines.append("{} positions: {} becomes {}".format(name, *first_miss(dtype)))
    lines.append("")
    for name, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        lines.append(f"{name} frequencies: {buffer_error(dtype):.2f} rad off at 4096")
    lines.append("")
    for end, error in zip((4_096, 131_072, 1_048_576), float32_errors()):
        lines.append(f"fp32 cosines to {end:9,d}: {error:.1e} off")
    return "\n".join(lines)


def bits_numbers():
    r"""The same for the prose."""
    check_autocast()
    assert (first_miss(torch.bfloat16)[0], first_miss(torch.float16)[0]) == (257, 2049)
    values = dict(zip(("fp32_4k", "fp32_131k", "fp32_1m"), (f"{error:.2g}" for error in float32_errors())))
    for name, dtype in (("bf16", torch.bfloat16), ("fp16", torch.float16)):
        values |= {f"first_{name}": first_miss(dtype)[0], f"buffer_{name}": f"{buffer_error(dtype):.1f}"}
    return values


# Longer than training


def slow_pairs():
    r"""Which of the study model's pairs did not finish a turn in training: a mask [pairs]."""
    w = torch.tensor(heads()["inv_freq"], dtype=torch.float64)
    return 2 * math.pi / w > heads()["settings"]["length"]


def scores_of(head, stop=None, times=8):
    r"""A head's score, its content held, at every distance up to `times` its training length: [distances].

    stop: a mask of pairs that turn no farther than the last trained distance turns them.
    """
    length, w = heads()["settings"]["length"], torch.tensor(heads()["inv_freq"], dtype=torch.float64)
    angles = torch.arange(times * length, dtype=torch.float64)[:, None] * w
    if stop is not None:
        angles = torch.where(stop, angles.minimum((length - 1) * w), angles)
    cos, sin = (torch.tensor(head[part], dtype=torch.float64) for part in ("cos", "sin"))
    return angles.cos() @ cos + angles.sin() @ sin


def stop_mask(name):
    r"""The mask of the pairs that one of `STOPS` stops, None for none."""
    slow = STOPS[name]
    return slow if slow is None else slow_pairs() == slow


@cache
def shares_beyond():
    r"""The highest score beyond training over the highest within, the mean over heads: {what is stopped: share}."""
    length, shares = heads()["settings"]["length"], {}
    for name in STOPS:
        curves = [scores_of(head, stop_mask(name)) for head in heads()["heads"]]
        shares[name] = sum((c[length:].max() / c[:length].max()).item() for c in curves) / len(curves)
    assert shares["all pairs move"] > 0.9 and shares["slow pairs stopped"] < 0.5 < shares["fast pairs stopped"]
    return shares


def unseen_table():
    r"""`shares_beyond`, printed."""
    return "\n".join(
        ["highest beyond L / highest within", *(f"{name:18s} {share:5.2f}" for name, share in shares_beyond().items())]
    )


def unseen_figure():
    r"""The score of one trained head against distance, with all pairs moving, the slow and the fast ones stopped."""
    figure, panels = plt.subplots(len(STOPS), 1, figsize=(4.4, 4.6), layout="constrained", sharex=True, sharey=True)
    drawn = next(head for head in heads()["heads"] if (head["layer"], head["head"]) == DRAWN_HEAD)
    length = heads()["settings"]["length"]
    for axes, name in zip(panels, STOPS):
        scores = scores_of(drawn, stop_mask(name))
        distance = torch.arange(len(scores), dtype=torch.float64)
        axes.plot(distance[:length], scores[:length], color=COLORS["ink"], linewidth=1)
        axes.plot(distance[length - 1 :], scores[length - 1 :], color=COLORS["blue"], linewidth=1)
        axes.axvline(length, color=COLORS["gray"], linestyle="dotted", linewidth=1)
        axes.axhline(scores[:length].max(), color=COLORS["gray"], linestyle="dashed", linewidth=1)
        top = length + int(scores[length:].argmax())
        axes.plot(top, scores[top], "o", color=COLORS["orange"])
        axes.set_title(name)
        axes.set(ylabel="score", xticks=range(0, len(scores) + 1, 2 * length))
        if axes is panels[1]:  # whose curve leaves room for words
            highest = scores[:length].max()
            axes.text(length, highest, " training ends", va="bottom")
            axes.text(len(scores), highest, "highest in training", ha="right", va="bottom")
    panels[-1].set_xlabel("distance")
    return figure


def check_slow_part():
    r"""Assert that in each head the slow pairs' part falls within training's distances, then rises higher than ever."""
    length, slow = heads()["settings"]["length"], slow_pairs().tolist()
    for head in heads()["heads"]:
        part = scores_of({key: [v * s for v, s in zip(head[key], slow)] for key in ("cos", "sin")})
        assert part[length - 1] < part[0] and part[length:].max() > part[:length].max()


def unseen_numbers():
    r"""How high far tokens score, and what a crowd of keys leaves to one that scores 5 where the others score 0.5."""
    check_slow_part()
    few, many = (math.exp(5) / (math.exp(5) + (keys - 1) * math.exp(0.5)) for keys in (64, 512))
    shares = dict(zip(("share_all", "share_slow", "share_fast"), shares_beyond().values()))
    return {name: f"{value:.0%}" for name, value in (shares | {"few": few, "many": many}).items()}


@cache
def lanes():
    r"""The losses of small models with some pairs stopped. Errors: ValueError where their shape is not the heads'."""
    results, other = load_results("rope_lanes"), heads()["settings"]
    differing = {key for key, value in results["settings"].items() if value != other.get(key)}
    if differing != {"steps", "warmup", "windows"}:
        raise ValueError(f"rope_lanes and rope_heads must differ in length of training alone, not in {differing}")
    return results


def losses(kind):
    r"""Losses with the pairs of this kind stopped: [seeds, lengths]."""
    return torch.tensor(lanes()["stopped"][kind])


def rises():
    r"""By how much the mean loss, in three digits, rises with the context: {which pairs are stopped: nats}."""
    return {
        kind: round(losses(kind)[:, -1].mean().item(), 3) - round(losses(kind)[:, 0].mean().item(), 3)
        for kind in LOSS_ROWS.values()
    }


def keys_study():
    r"""What more keys cost RoPE in the study model, at distances that it knows, in nats."""
    grid = torch.tensor(load_results("train_short_test_long")["methods"]["rope"]["distance_and_keys"])
    return (grid[:, -1, 0] - grid[:, 0, 0]).mean().item()


def loss_table():
    r"""The losses at the training length and at the longest, printed."""
    first, last = lanes()["lengths"][0], lanes()["lengths"][-1]
    lines = [f"loss, context {first:5d} {last:6d}            rise"]
    for words, kind in LOSS_ROWS.items():
        start, end = losses(kind)[:, 0], losses(kind)[:, -1]
        lines.append(f"{words:13s} {start.mean():5.3f}  {end.mean():5.3f} ± {end.std():.3f}  {rises()[kind]:5.3f}")
    return "\n".join(lines)


def lane_numbers():
    r"""What stopping pairs does to the loss, and the models it was measured on."""
    rise, shape = rises(), lanes()["settings"]
    assert rise["slow"] < rise["none"] / 2 < rise["fast"]  # the slow pairs cure most, the fast ones less than half
    return {
        "rise": f"{rise['none']:.3f}",
        "rise_slow": f"{rise['slow']:.3f}",
        "rise_fast": f"{rise['fast']:.3f}",
        "rise_all": f"{rise['all']:.3f}",
        "keys_study": f"{keys_study():.2f}",
        "fast_less": f"{rise['none'] - rise['fast']:.3f}",
        "lane_seeds": len(lanes()["seeds"]),
        "lane_steps": shape["steps"],
        "study_steps": heads()["settings"]["steps"],
        "heads_rate": f"{heads()['settings']['lr']:g}",
        "study_rate": f"{load_results('train_short_test_long')['choice']['rope']['lr']:g}",
        "lane_layers": shape["num_layers"],
        "lane_heads": shape["num_heads"],
        "lane_dim": shape["dim"] // shape["num_heads"],
    }


# One verdict


@cache
def study():
    r"""The study of all methods, those alone that stand for the four places."""
    return load_results("train_short_test_long", ONE_A_PLACE)


def study_numbers():
    r"""What was predicted of RoPE, and what was measured."""
    runs = study()["methods"]["rope"]
    return {
        "prediction": study()["predictions"]["rope"],
        "verdict": verdict(study(), "rope").words,
        "tolerance": study()["tolerance"],
        "seeds": len(study()["seeds"]),
        "short": study()["lengths"][0],
        "long": study()["lengths"][-1],
        "at_short": pm([run[0] for run in runs["whole"]]),
        "at_long": pm([run[-1] for run in runs["whole"]]),
        "at_cut": pm([run[-1] for run in runs["cut"]]),
    }


# Mistakes in circulation


def backward_error():
    r"""How far a tutorial's backward pass is off, which reads pairs where its forward writes halves."""
    x, grad = torch.randn(2, 5, 8, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    at, w = torch.arange(5), rope.inv_freq(8, dtype=torch.float64)
    cos, sin = (at[:, None] * w).cos(), (at[:, None] * w).sin()
    leaf = x.clone().requires_grad_()
    reads_pairs_writes_halves(leaf, at, w).backward(grad)
    a, b = grad[:, 0::2], grad[:, 1::2]
    claimed = torch.cat((a * cos + b * sin, b * cos - a * sin), dim=-1)
    a, b = grad.chunk(2, dim=-1)
    mended = torch.stack((a * cos + b * sin, b * cos - a * sin), dim=-1).flatten(-2)
    error = (claimed - leaf.grad).abs().max().item()
    assert error > 0.5 and (mended - leaf.grad).abs().max() < 1e-12
    return error
