r"""What the chapter *Relative position* computes and draws beside its text, in the order of the page."""

import math
from functools import cache
from statistics import fmean as mean

import matplotlib.pyplot as plt
import torch

import posenc
from posenc import METHODS
from posenc.bias.fire import fire
from posenc.bias.kerple import kerple
from posenc.bias.shaw import shaw
from posenc.bias.t5 import bucket, t5
from posenc.bias.transformer_xl import shift, transformer_xl
from posenc.lab.experiments import half_width, load_results, on_windows, verdict
from posenc.lab.experiments.plots import name_lines
from posenc.lab.titles import TITLES
from posenc.lab.write import finish, interval, rate_tried, say_all, seeded, table

#: The chapter's methods, as the book's table has them.
ARMS = [name for name, row in TITLES.items() if row.page == "relative"]
#: The phrase of the failure: its tokens and their width. And how far it is moved.
PHRASE, WIDTH = 12, 64
STARTS = range(0, 49, 2)
#: Heads, tokens and head size of *Check it* and *Break it*.
H, T, D = 4, 48, 16
#: Frozen experiments beside the study of text, in the order of the table.
TASKS = ("masked", "needle", "flipflop", "selective_copy", "counting", "recall")
STUDY = load_results("train_short_test_long")
#: The training length and the longest of the tests.
LENGTHS = STUDY["lengths"][0], STUDY["lengths"][-1]
SEEDS = len(STUDY["seeds"])


def numbers():
    r"""Give the prose all its numbers."""
    sinusoid = moved_weight()["sinusoidal"][1:]
    rows, pairs = 1024 * 33 * 4, 1024 * 1024 * 64 * 4  # bytes of logits for 33 rows, and of a vector for each pair
    last = int((bucket(-torch.arange(129), bidirectional=False) < 31).sum())  # the first distance in T5's last bucket
    rates = {f"t5_{name}": f"{rate_tried('t5', 0.006, own):.2f}" for name, own in (("common", 1), ("chosen", 10))}
    say_all("relative", rates | {"moved": f"{mean(sinusoid):.0%}", "unseen_t5": unseen_buckets(), "t5_last": last})
    say_all("relative", {"xl_saves": interval(far_keys("transformer_xl"), 4, SEEDS)})
    say_all("relative", {"shaw_small": f"{rows / 1e3:.0f} kB", "shaw_large": f"{pairs / 1e6:.0f} MB"})


@torch.no_grad()
def weights(q, k, encoding, start=0, **options):
    """Attention weights of keys and queries that stand at start, start + 1, ..."""
    at = torch.arange(q.shape[2]) + start
    return posenc.attention(q, k, k, encoding, pos_q=at, pos_k=at, return_weights=True, **options)[1]


@torch.no_grad()
def phrase_at(start, encoding):
    """The weights of one random layer over one random phrase that begins at `start`: [PHRASE, PHRASE]."""
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, PHRASE, WIDTH, generator=generator)
    w_q, w_k = torch.randn(2, WIDTH, WIDTH, generator=generator) / math.sqrt(WIDTH)
    at = torch.arange(PHRASE)[None] + start
    x = posenc.embed_input(encoding, x, at)
    return weights((x @ w_q)[:, None], (x @ w_k)[:, None], encoding, start)[0, 0]


@cache
def codes():
    r"""Two absolute codes and a relative one, with random weights of one seed: {name: encoding}."""
    torch.manual_seed(0)
    return {
        "sinusoidal": posenc.make("sinusoidal"),
        "learned": posenc.make("learned", max_positions=64, dim=WIDTH, std=math.sqrt(0.5)),
        "Shaw": shaw(WIDTH, clip=8),
    }


@cache
def moved_weight():
    r"""The share of a row's weight that ends on other keys as the phrase moves: {name: one share for each start}."""
    moved = {}
    for name, code in codes().items():
        first = phrase_at(0, code)
        moved[name] = [(phrase_at(s, code) - first).abs().sum(-1).mean().item() / 2 for s in STARTS]
    assert max(moved["Shaw"]) < 1e-6
    assert min(moved["sinusoidal"][1:]) > 0.1 and min(moved["learned"][1:]) > 0.1
    return moved


def failure_figure():
    r"""`moved_weight` against the shift."""
    figure, axis = plt.subplots(figsize=(4.4, 2.4), layout="constrained")
    for (name, values), look in zip(moved_weight().items(), ("s-", "o-", "D-")):
        axis.plot(STARTS, values, look, markersize=4, label=name)
    axis.set(xlabel="positions by which the phrase is moved", ylabel="share of weight that moves")
    name_lines(axis)
    return figure


def check_short(own_shaw, own_xl, own_t5):
    r"""Assert that the page's own lines give posenc's weights, for random content of one head."""
    generator = torch.Generator().manual_seed(0)
    q, k = torch.randn(2, T, D, generator=generator, dtype=torch.float64)
    offset = torch.arange(T) - torch.arange(T)[:, None]
    makers = lambda: shaw(D, 5), lambda: transformer_xl(1, D), lambda: t5(1, bidirectional=False)
    by_shaw, by_xl, by_t5 = (seeded(make).double() for make in makers)
    r = posenc.sinusoidal.table(torch.arange(T).double(), D) @ by_xl.bias.w_r.T
    rows = bucket(offset, bidirectional=False)
    logits = {
        by_shaw: own_shaw(q, k, by_shaw.bias.keys, offset),
        by_xl: own_xl(q, k, r, by_xl.bias.u[0], by_xl.bias.v[0], (-offset).clamp(min=0)),
        by_t5: own_t5(q / math.sqrt(D), k, by_t5.bias.table[0], rows),
    }
    for encoding, own in logits.items():
        torch.testing.assert_close(softmax_of_past(own), weights(q[None, None], k[None, None], encoding)[0, 0])


@torch.no_grad()
def hand_table(own_shaw, own_xl, own_t5):
    r"""The example by hand, three weights a method by the page's own lines, printed and held against the page's."""
    check_short(own_shaw, own_xl, own_t5)
    q = torch.tensor([[2.0, 0, 0, 2]])
    k = torch.tensor([[1.0, 0, 0, 1], [1, 1, 0, 0], [0, 0, 1, 1]])
    offset = torch.tensor([[-2, -1, 0]])
    a = torch.tensor([[0.0, 1, 0, 1], [0, 0, 1, 0], [0, 0, 0, 0]])  # rows -1, 0, 1
    r = torch.tensor([[0.0, 0, 1, 0], [0, 1, 0, 1], [1, 0, 0, 0]])  # r_0, r_1, r_2
    u, v = torch.tensor([0.0, 2, 0, 0]), torch.tensor([0.0, 0, 2, 0])
    logits = {
        "Shaw": own_shaw(q, k, a, offset),
        "Transformer-XL": own_xl(q, k, r, u, v, -offset),
        "T5": own_t5(q / 2, k, torch.tensor([1, 0.5, -1]), -offset),
    }
    found = {name: " ".join(f"{w:.3f}" for w in s.softmax(-1)[0].tolist()) for name, s in logits.items()}
    assert [*found.values()] == ["0.665 0.245 0.090", "0.422 0.422 0.155", "0.186 0.307 0.506"], found
    return "\n".join(f"{name:15} {words}" for name, words in found.items())


@torch.no_grad()
def curves(reach=200, threshold=64):
    r"""What each method adds at distances 0 .. reach - 1, with weights that torch draws: {title: a curve a query}."""
    q, key = torch.randn(2, 1, 1, D), torch.zeros(2, 1, reach, D)  # two queries, one head
    back = torch.arange(reach)
    encodings = {"shaw": shaw(D), "transformer_xl": transformer_xl(1, D, 64)}
    encodings |= {"t5": t5(1, bidirectional=False), "kerple": kerple(1)}
    at = posenc.At(torch.tensor([[reach - 1]]), reach - 1 - back[None], None)
    found = {METHODS[name].title: one.bias(q, key, at)[:, 0, 0] for name, one in encodings.items()}
    adaptive, places = fire(1, threshold=threshold), (reach - 1, 8 * reach)
    ats = [posenc.At(torch.tensor([[place]]), place - back[None], None) for place in places]
    found["FIRE"] = torch.stack([adaptive.bias(q[:1], key[:1], at)[0, 0, 0] for at in ats])
    return found


def card_figure():
    r"""The card's picture: `curves`, a panel for each method."""
    figure, axes = plt.subplots(2, 3, figsize=(4.4, 2.9), layout="constrained", sharex=True)
    for axis, (title, lines) in zip(axes.flat, seeded(curves, seed=3).items()):
        for line, look in zip(lines, ("-", "--")):
            axis.plot(line, look, color="C0" if look == "-" else "C1", lw=1.5)
        axis.axvline(64, color="0.6", lw=1, ls=":")
        axis.set(title=title, yticks=[])
    for axis in (*axes[1, :2], axes[0, 2]):
        axis.set_xlabel("distance")
    for axis in axes[:, 0]:
        axis.set_ylabel("what is added")
    axes[0, 2].tick_params(labelbottom=True)
    axes[1, 2].axis("off")
    return finish(figure)


def bucket_table():
    r"""T5's buckets of some offsets, for an encoder and a decoder, printed."""
    offsets = torch.tensor([0, -1, -7, -8, -15, -16, -32, -64, -127, -128, -5000, 1, 5, 128])
    lines = ["key minus query" + "".join(f"{o:6}" for o in offsets.tolist())]
    for words, both in (("encoder", True), ("decoder", False)):
        lines.append(f"{words:15}" + "".join(f"{b:6}" for b in bucket(offsets, bidirectional=both).tolist()))
    return "\n".join(lines)


def samples():
    r"""Random queries, keys and values [2, H, T, D] and the chapter's encodings of one seed: (q, k, v, encodings)."""
    torch.manual_seed(0)  # of torch's own generator, from which encodings draw their weights
    q, k, v = torch.randn(3, 2, H, T, D, dtype=torch.float64)
    encodings = {"shaw": shaw(D, clip=5), "transformer_xl": transformer_xl(H, D), "t5": t5(H), "kerple": kerple(H)}
    return q, k, v, {name: encoding.double() for name, encoding in encodings.items()}


def softmax_of_past(logits):
    r"""The weights of a causal row, written out: [..., T, T]."""
    index = torch.arange(logits.shape[-1])
    return logits.masked_fill(index[:, None] < index, -math.inf).softmax(-1)


@torch.no_grad()
def shaw_as_written(q, k, v, encoding):
    r"""Shaw's attention with a vector for each pair of tokens, on keys and values."""
    index, clip = torch.arange(T), (len(encoding.bias.keys) - 1) // 2
    rows = (index[None, :] - index[:, None]).clamp(-clip, clip) + clip
    a_k, a_v = encoding.bias.keys[rows], encoding.gather.values[rows]  # [T, T, D]
    logits = torch.einsum("bhid,bhijd->bhij", q, k[:, :, None] + a_k) / math.sqrt(D)
    return torch.einsum("bhij,bhijd->bhid", softmax_of_past(logits), v[:, :, None] + a_v)


@torch.no_grad()
def transformer_xl_by_shift(q, k, bias):
    r"""Transformer-XL's weights by the trick: one product, one shift."""
    falling = torch.arange(T).double().flip(0)
    r = posenc.sinusoidal.table(falling, H * D) @ bias.w_r.T  # [T, H D], distances falling
    r = r.view(T, H, D).transpose(0, 1)
    u, v = bias.u[:, None], bias.v[:, None]
    return softmax_of_past(((q + u) @ k.transpose(-2, -1) + shift((q + v) @ r.transpose(-2, -1))) / math.sqrt(D))


@torch.no_grad()
def check_errors():
    r"""The largest error of each claim that the chapter makes: {claim: error}."""
    q, k, v, encodings = samples()
    gaps = {}
    # Relative: move everything far away. In double precision the sinusoid sees the same distance.
    for name, encoding in encodings.items():
        moved = weights(q, k, encoding, start=1_000_003) - weights(q, k, encoding)
        gaps[f"{METHODS[name].title}: a shift of all positions changes nothing"] = moved

    full = shaw(D, clip=5, values=True).double()
    written = shaw_as_written(q, k, v, full)
    gaps["Shaw: gather and scatter equal a vector for each pair"] = posenc.attention(q, k, v, full) - written
    # The shift trick on the causal region, queries being the last of the keys.
    x = torch.randn(7, 19)
    distance = torch.arange(12, 19)[:, None] - torch.arange(19)
    gathered = x.gather(1, (18 - distance).clamp(max=18))
    gaps["the shift trick equals the explicit gather"] = (shift(x) - gathered)[distance >= 0]
    assert gaps["the shift trick equals the explicit gather"].eq(0).all()

    xl = encodings["transformer_xl"]
    by_shift = transformer_xl_by_shift(q, k, xl.bias)
    gaps["Transformer-XL by the trick equals the reference"] = by_shift - weights(q, k, xl)

    return {claim: gap.abs().max().item() for claim, gap in gaps.items()}


def loss(method, kind, place):
    r"""Mean over seeds of the loss at one of the lengths."""
    return mean([losses[place] for losses in STUDY["methods"][method][kind]])


def alone(arm, keys, gap):
    r"""What is added to the loss by more keys, by an unseen gap, or by both: mean over seeds."""
    return mean([grid[keys][gap] - grid[0][0] for grid in STUDY["methods"][arm]["distance_and_keys"]])


def unseen_buckets():
    r"""How many of T5's buckets the longest test asks for and training never filled."""
    seen, asked = (bucket(torch.arange(1 - length, 1), bidirectional=False).unique().numel() for length in LENGTHS)
    return asked - seen


def far_keys(arm):
    r"""What far keys add to an arm's loss, whole less cut: a number a seed, then one a block of windows."""
    return on_windows(STUDY, arm) - on_windows(STUDY, arm, kind="cut")


def change_table():
    r"""Each method's change in the long context, its prediction, and what far keys, keys and the gap do, printed."""
    lines = [f"{'':16}{'change':>17}  {'predicted':18}{'far keys':>16}{'keys':>8}{'gap':>8}"]
    for arm in ARMS:
        outcome = verdict(STUDY, arm)
        gaps = far_keys(arm)
        far = f"{gaps[:SEEDS].mean():+.3f} ± {half_width(gaps, SEEDS):.3f}"
        claim = f"{STUDY['claims'][arm]}: {outcome.outcome}"
        lines.append(
            f"{METHODS[arm].title:16}{outcome.change:+9.3f} ± {outcome.spread:.3f}  {claim:18}"
            f"{far:>16}{alone(arm, -1, 0):+8.3f}{alone(arm, 0, -1):+8.3f}"
        )
    return "\n".join(lines)


def verdict_table():
    r"""Each method's loss at the training length and in the longest context, whole and cut, and its verdict."""
    first, last = LENGTHS
    words, rows = {"rises": "a rise", "holds": "no rise"}, []
    for arm in ARMS:
        losses = [f"{loss(arm, kind, place):.3f}" for kind, place in (("whole", 0), ("whole", -1), ("cut", -1))]
        outcome = f"{words[STUDY['claims'][arm]]}: {verdict(STUDY, arm).outcome}"
        rows.append([METHODS[arm].title, *losses, outcome])
    assert [verdict(STUDY, arm).outcome for arm in ARMS].count("failed") == 3  # as the text says
    assert unseen_buckets() == 5
    return table(["", f"at {first}", f"at {last}", f"at {last}, cut", "predicted"], rows)


def task_table():
    r"""The chapter's methods in the other experiments, each against its prediction, printed."""
    lines = [f"{'':32}{'as in':>8}{'at the':>8}", f"{'':32}{'training':>8}{'test':>8}  predicted"]
    for task in TASKS:
        results = load_results(task)
        start, end = results["contrast"]
        for arm in [arm for arm in results["methods"] if arm in ARMS]:
            scores, outcome = results["methods"][arm]["scores"], verdict(results, arm)
            before = f"{mean(scores[start]):.3f}" if start else ""
            lines.append(
                f"{task.replace('_', ' '):16}{METHODS[arm].title:16}{before:>8}{mean(scores[end]):8.3f}  "
                f"{results['claims'][arm]}: {outcome.outcome}"
            )
    return "\n".join(lines)
