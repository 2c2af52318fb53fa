r"""What the page *CoPE: counting what matters* runs, and its reader need not see."""

import math

import matplotlib.pyplot as plt
import numpy as np
import torch

import posenc
from posenc.bias.cope import lookup, positions
from posenc.chapters.cope.figures import TRAINED_GATES, WORDIEST, name_of
from posenc.chapters.cope.gates import TABLE, WORDS, presets, read
from posenc.lab.experiments import half_width, judge, load_results, mean_and_spread
from posenc.lab.explore.parts import signed
from posenc.lab.write import finish, seeded, table
from posenc.methods import sizes

TEXTS = {
    "first": "The bird sang in a tree . The cat slept . The dog".split(),
    "second": "The bird sang in a tree . The cat saw a small dog".split(),
}
STARTS = (7, 0)  # where a "The" stands in both texts
BLIND = ("sinusoidal", "rope", "alibi", "t5", "nope")  # methods that know where a key stands, and nothing between


def with_random_numbers(encoding):
    r"""The encoding with what it learns drawn at random: a fresh one is often zero, and then it says nothing."""
    encoding = encoding.double()
    for parameter in encoding.parameters():
        parameter.data = seeded(lambda parameter=parameter: torch.randn_like(parameter))
    return encoding


def preference(method, text, dim=16):
    r"""ln of the last word's weight on the "The" at 7 over that on the "The" at 0, in one layer of the method."""
    encoding = with_random_numbers(posenc.make(method, **sizes(method, num_heads=1, head_dim=dim, length=16)))
    words = sorted({word for words in TEXTS.values() for word in words})  # a vector each, wherever it stands
    rows = torch.randn(len(words), dim, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    x = rows[[words.index(word) for word in TEXTS[text]]][None]
    x = posenc.embed_input(encoding, x, torch.arange(x.shape[1]))[:, None]  # [B, H, T, D]
    weights = posenc.attention(x, x, x, encoding, return_weights=True)[1][0, 0, -1]
    return (weights[STARTS[0]] / weights[STARTS[1]]).log().item()


def print_preferences():
    r"""What each method prefers in both texts. Errors: AssertionError where it can tell the texts apart."""
    print("ln(weight of key 7 / weight of key 0)   first text   second text")
    for method in BLIND:
        first, second = (preference(method, text) for text in TEXTS)
        print(f"{posenc.METHODS[method].title:38} {first:11.4f} {second:13.4f}")
        assert abs(first - second) < 1e-9, method


def count_sentences(text):
    r"""The last query on a text, (positions [T], weights [T]), of a head that counts "The" and wants the second."""
    encoding = posenc.cope.cope(4, 6).double()
    encoding.bias.table.data[2] = torch.tensor([0.0, 4.0, 0.0, 0.0])
    q, the, other = torch.tensor([[2.0, 2, 0, 0], [6, 0, 0, 0], [-6, 0, 0, 0]], dtype=torch.float64)
    k = torch.stack([the if word == "The" else other for word in TEXTS[text]])[None, None]
    p = positions((q @ k[0, 0].T / 2)[None], torch.ones(1, len(TEXTS[text]), dtype=torch.bool))[0]
    weights = posenc.attention(q.view(1, 1, 1, 4), k, k, encoding, return_weights=True)[1]
    return p, weights[0, 0, 0]


def idea_figure():
    r"""Both texts: where each key stands when "The" is counted, and the key that the head picks."""
    figure, axes = plt.subplots(2, 1, figsize=(4.4, 3.3), layout="constrained", sharey=True)
    for axis, (name, words) in zip(axes, TEXTS.items()):
        p, weights = count_sentences(name)
        keys, best = range(len(words)), int(weights.argmax())
        axis.step(keys, p, where="post", color="#0072b2", lw=2)
        axis.plot(keys, p, "o", color="#0072b2", ms=5, label="position of a key")
        axis.plot(best, p[best], "*", color="#c45500", ms=17, label="start of the sentence before")
        axis.set_xticks(list(keys), words, rotation=35)
        axis.set_yticks([0, 1, 2, 3])
        axis.set_ylim(-0.3, 3.5)
        axis.set_ylabel("position p")
        axis.set_title(f"{name} text: {len(words) - 1 - best} words back")
        axis.grid(axis="y", alpha=0.4)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=2)
    return finish(figure)


def loops(q, k, e, scale):
    r"""CoPE's logits in plain loops, with e interpolated (the raw form): q, k [T, D], e [P, D]. Returns [T, T]."""
    logits = torch.full((len(q), len(k)), -math.inf, dtype=q.dtype)
    for i in range(len(q)):
        gates = [torch.sigmoid(scale * q[i] @ k[n]) for n in range(i + 1)]
        for j in range(i + 1):
            p = min(float(sum(gates[j:])), len(e) - 1.0)
            low = math.floor(p)
            row = (1 - (p - low)) * e[low] + (p - low) * e[min(low + 1, len(e) - 1)]
            logits[i, j] = scale * q[i] @ k[j] + q[i] @ row
    return logits


def hats(q, e, p):
    r"""The lookup as the kernel does it: a sum over the positions c of z[c] max(0, 1 - |p - c|)."""
    p = p.clamp(max=len(e) - 1)
    return sum((q @ row)[..., None] * (1 - (p - c).abs()).clamp(min=0) for c, row in enumerate(e))


def check_errors(q, k, e):
    r"""How far each claim of the chapter is off, for these q, k [T, D] and e [P, D] in float64."""
    length, scale = len(q), 1 / math.sqrt(q.shape[-1])
    i, j = torch.arange(length)[:, None], torch.arange(length)[None]
    past, s = j <= i, scale * q @ k.T
    p = positions(s, past)
    z = lookup(q, e, p)
    raw = loops(q, k, e, scale)
    tokens = positions(torch.full_like(s, 40.0), past)
    relative = (q @ e.T).gather(1, (i - j + 1).clamp(0, len(e) - 1))
    encoding = posenc.cope.cope(q.shape[-1], len(e)).double()
    four = [x.view(1, 1, *x.shape) for x in (q, k, k)]
    nope = posenc.attention(*four, impl="torch")
    return {
        "interpolated rows = interpolated products": (s + z - raw)[past].abs().max(),
        "all gates 1: a learned table over tokens": (lookup(q, e, tokens) - relative)[past].abs().max(),
        "a table of zeros is NoPE": (posenc.attention(*four, encoding) - nope).abs().max(),
        "a sum of hats is the lookup": (hats(q, e, p) - z)[past].abs().max(),
    }


def card_figure():
    r"""The card's picture: gates as steps of a staircase, and the table read between its rows."""
    words, gates = WORDS["cope"].split(), presets("cope")["words"]
    gates[words.index("dog")] = 0.5
    p, biases = read("cope", gates, len(words) - 1)
    figure, (left, right) = plt.subplots(1, 2, figsize=(4.4, 2.4), layout="constrained")
    left.step(range(len(words)), p, where="post", color="#0072b2", lw=2)
    left.axhline(len(TABLE) - 1, color="#6b7280", ls="--", lw=1)
    left.annotate(
        "last row\nof the table", (1, len(TABLE) - 1), (0, 3), ("axes fraction", "data"), "offset points", ha="right"
    )
    figure.get_layout_engine().set(wspace=0.12)
    left.set_xticks(range(len(words)), words, rotation=60)
    left.set_ylabel("position p")
    right.plot(range(len(TABLE)), TABLE, "s-", color="#6b7280", ms=5, label="row of the table")
    right.plot(p.clamp(max=len(TABLE) - 1), biases, "o", mfc="none", color="#c45500", ms=8, label="key")
    right.set_xlabel("position p")
    right.set_ylabel("bias q·e[p]")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=2, frameon=False)
    return finish(figure)


FIRST = {"flipflop": ("in", "sparser", "longer 4x"), "counting": ("in", "longer 4x")}
FIRST["selective_copy"] = ("in", "sparser")
NAMES = {"flipflop": "flip-flop", "counting": "counting", "selective_copy": "selective copy"}
SOLVED = 0.01
ARMS = ("nope", "alibi", "t5", "rope", "shaw", "cope", "fox", "stickbreaking")
PUZZLES = {task: load_results(task, ARMS) for task in FIRST}


def scores(task, arm, test):
    r"""The share of wrong answers, a number for each seed."""
    return np.array(PUZZLES[task]["methods"][arm]["scores"][test])


def verdict_table(columns=FIRST):
    r"""Each arm's errors in percent, and in parentheses how many seeds stay below one percent."""
    tests = [(task, test) for task, tests in columns.items() for test in tests]
    rows = []
    for arm in ARMS:
        found = [scores(task, arm, test) for task, test in tests]
        cells = (f"{100 * wrong.mean():.1f} ({(wrong < SOLVED).sum()})" for wrong in found)
        rows.append([posenc.METHODS[arm].title, *cells])
    return table(["", *(f"{NAMES[task]}, {test}" for task, test in tests)], rows)


def predictions_table():
    r"""What was predicted of CoPE, its control and RoPE, why, and what became of it, a row each."""
    rows = []
    for task, results in PUZZLES.items():
        start, end = results["contrast"]
        for arm in ("cope", "shaw", "rope"):
            moved = scores(task, arm, end) - scores(task, arm, start)
            change, spread = mean_and_spread(moved)
            became = judge(moved, results["tolerance"], results["claims"][arm])
            claim = {"rises": "rise", "holds": "no rise"}[results["claims"][arm]]
            points = f"{signed(100 * change, 1)} ± {100 * spread:.1f}"
            case = f"{NAMES[task]}, *{end}*: {posenc.METHODS[arm].title}"
            rows.append([case, claim, results["predictions"][arm], points, became])
    return table(["", "predicted", "because", "points", "verdict"], rows)


def check_use():
    r"""Assert what the text says of the two controls: does CoPE count, or look up an answer and go on?"""
    pairs = {f"rare_{arm}": ("counting", arm, "rarely asked", "in") for arm in ("cope", "shaw", "rope")}
    pairs |= {f"far_{task}": (task, "cope", "longer 4x", "longer 4x, cut") for task in ("counting", "flipflop")}
    apart = {name: scores(task, arm, a) - scores(task, arm, b) for name, (task, arm, a, b) in pairs.items()}
    told = [name for name, gaps in apart.items() if gaps.mean() > half_width(gaps)]
    assert told == ["rare_shaw", "far_counting"]
    assert scores("counting", "cope", "rarely asked").mean() < SOLVED
    assert min(ARMS, key=lambda arm: scores("selective_copy", arm, "longer 4x").mean()) == "shaw"
    assert "not decided" in predictions_table().data.splitlines()[9]  # Shaw's letters


def gate_numbers():
    r"""What the trained gates of the text model do, in numbers."""
    heads = TRAINED_GATES["heads"]
    assert all(0.1 < gate < 0.9 for head in heads for gate in head["by_kind"].values())
    return {
        "mean_low": f"{min(head['mean'] for head in heads):.2f}",
        "mean_high": f"{max(head['mean'] for head in heads):.2f}",
        "most_head": name_of(WORDIEST),
        "most_space": f"{WORDIEST['by_kind']['space']:.2f}",
        "most_letter": f"{WORDIEST['by_kind']['letter']:.2f}",
        "key_share": f"{max(head['by_key'] for head in heads):.0%}",
        "beyond": f"{max(head['beyond'] for head in heads):.1%}",
    }


PUZZLE_KINDS = {"counting": {"+": "+", "reset": "0 that resets", ".": ".", "after ?": "an answer", "?": "?"}}
PUZZLE_KINDS["flipflop"] = {"after w": "bit written", "after i": "bit ignored", "after r": "bit read"}
PUZZLE_KINDS["flipflop"] |= {letter: letter for letter in "wir"}


def puzzle_gates(task):
    r"""The mean gate of each head on each kind of key, for queries that are asked for an answer."""
    heads, kinds = TRAINED_GATES["puzzles"][task]["heads"], PUZZLE_KINDS[task]
    for head in heads:  # as the text says
        gate, first = head["by_kind"], head["layer"] == 0
        if task == "flipflop":  # the second layer opens after w alone
            gap = gate["after w"] - gate["after i"]
            assert gap < 0.05 if first else gap > 0.95
        elif first:
            assert min(gate["+"], gate["reset"]) > 0.95 and gate["."] < 0.05
    rows = [[name_of(head), *(f"{head['by_kind'][kind]:.2f}" for kind in kinds)] for head in heads]
    return table(["", *kinds.values()], rows)
