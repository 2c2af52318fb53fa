r"""What the page *CoPE: counting what matters* runs, and its reader need not see."""

import functools
import math

import torch

import posenc
from posenc.bias.cope import lookup, positions
from posenc.lab.experiments import half_width, judge, load_results, mean_and_spread
from posenc.lab.figures.cope import TABLE, counted, looked_up, name_of, trained_gates
from posenc.lab.figures.parts import signed
from posenc.lab.pages import finish, seeded
from posenc.lab.write import table
from posenc.methods import sizes

# ------------------------------------------------------------------------------------------------------ the failure

TEXTS = {
    "first": "The bird sang in a tree . The cat slept . The dog".split(),
    "second": "The bird sang in a tree . The cat saw a small dog".split(),
}
STARTS = (7, 0)  # where a "The" stands in both texts
BLIND = ("sinusoidal", "rope", "alibi", "t5", "nope")  # methods that know where a key stands, and nothing between


def vectors(text, dim=16):
    r"""A vector for each word, the same wherever the word stands: [1, T, dim] float64."""
    words = sorted({word for words in TEXTS.values() for word in words})
    table = torch.randn(len(words), dim, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    return table[[words.index(word) for word in text]][None]


def with_random_numbers(encoding):
    r"""The encoding with what it learns drawn at random: a fresh one is often zero, and then it says nothing."""
    encoding = encoding.double()
    for parameter in encoding.parameters():
        parameter.data = seeded(lambda parameter=parameter: torch.randn_like(parameter))
    return encoding


def preference(method, text, dim=16):
    r"""ln of the last word's weight on the "The" at 7 over that on the "The" at 0, in one layer of the method."""
    encoding = with_random_numbers(posenc.make(method, **sizes(method, num_heads=1, head_dim=dim, length=16)))
    x = vectors(TEXTS[text], dim)
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


def counting_head():
    r"""(q, key of "The", key of any other word, CoPE): a head made by hand that counts "The" and wants the second."""
    encoding = posenc.cope.cope(4, 6).double()
    encoding.bias.table.data[2] = torch.tensor([0.0, 4.0, 0.0, 0.0])
    q, the, other = torch.tensor([[2.0, 2, 0, 0], [6, 0, 0, 0], [-6, 0, 0, 0]], dtype=torch.float64)
    return q, the, other, encoding


def count_sentences(text):
    r"""The hand-made head's last query on a text: (positions [T], weights [T])."""
    q, the, other, encoding = counting_head()
    k = torch.stack([the if word == "The" else other for word in TEXTS[text]])[None, None]
    p = positions((q @ k[0, 0].T / 2)[None], torch.ones(1, len(TEXTS[text]), dtype=torch.bool))[0]
    weights = posenc.attention(q.view(1, 1, 1, 4), k, k, encoding, return_weights=True)[1]
    return p, weights[0, 0, 0]


def idea_figure():
    r"""Both texts: where each key stands when "The" is counted, and the key that the head picks."""
    import matplotlib.pyplot as plt

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


def failure_numbers():
    r"""How far back the right key stands in each text, and what the hand-made head gives it."""
    values = {}
    for name, words in TEXTS.items():
        weights = count_sentences(name)[1]
        values[f"{name}_back"] = f"{len(words) - 1 - int(weights.argmax())}"
        values[f"{name}_weight"] = f"{weights.max():.3f}"
    return values


# -------------------------------------------------------------------------------------------------------- the checks


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
    import matplotlib.pyplot as plt

    words = posenc.lab.figures.cope.TOKENS
    p = counted("words", len(words) - 1, 8, 0.5)
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
    right.plot(p.clamp(max=len(TABLE) - 1), looked_up(p), "o", mfc="none", color="#c45500", ms=8, label="key")
    right.set_xlabel("position p")
    right.set_ylabel("bias q·e[p]")
    figure.legend(*right.get_legend_handles_labels(), loc="outside lower right", ncols=2, frameon=False)
    return finish(figure)


# ----------------------------------------------------------------------------------------------------------- costs


def operations(head_dim, rows):
    r"""Operations a pair of query and key: (plain attention forward, the hats), counted from the formulas.

    Plain: a product and a sum a lane, for q.k and for the values. Hats: for each row a difference, an absolute value,
    1 minus it, the larger of it and 0, a product and a sum.
    """
    return 4 * head_dim, 6 * rows


def print_operations():
    r"""What the hats cost beside plain attention, for some heads and tables, a line each."""
    print("  D     P    plain   hats   hats / plain")
    for head_dim, rows in ((64, 16), (64, 64), (128, 64), (64, 512)):
        plain, more = operations(head_dim, rows)
        print(f"{head_dim:3} {rows:5} {plain:8} {more:6} {more / plain:10.2f}")


def memory_numbers(length=4096, rows=64):
    r"""Megabytes that one head's float32 arrays take: [T, T], and z [T, P]."""
    return {
        "square": f"{4 * length * length / 2**20:.0f}",
        "z": f"{4 * length * rows / 2**20:.0f}",
        "length": f"{length:,}",
        "rows": f"{rows}",
    }


# ------------------------------------------------------------------------------------------------------ the verdict

TITLES = {"open": "CoPE, all gates 1"}
FIRST = {
    "flipflop": ("in", "sparser", "longer 4x"),
    "counting": ("in", "longer 4x"),
    "selective_copy": ("in", "sparser"),
}
NAMES = {"flipflop": "flip-flop", "counting": "counting", "selective_copy": "selective copy"}
SOLVED = 0.01


@functools.cache
def puzzles():
    r"""The frozen puzzles, `results/contextual.json`."""
    return load_results("contextual")


def title_of(arm):
    return TITLES.get(arm) or posenc.METHODS[arm].title


def scores(task, arm, test, results=None):
    r"""The share of wrong answers, a number for each seed."""
    results = puzzles() if results is None else results
    return results["tasks"][task]["methods"][arm]["scores"][test]


def cell(values):
    r"""A cell of a table: the mean in percent, and how many seeds solved it."""
    return f"{100 * mean_and_spread(values)[0]:.1f} ({sum(value < SOLVED for value in values)})"


def verdict_table(columns=FIRST, results=None):
    r"""Each arm's errors in percent, and in parentheses how many seeds stay below one percent."""
    results = puzzles() if results is None else results
    head = ["", *(f"{NAMES[task]}, {test}" for task, tests in columns.items() for test in tests)]
    arms = results["tasks"]["flipflop"]["methods"]
    rows = [
        [title_of(arm), *(cell(scores(task, arm, test, results)) for task, tests in columns.items() for test in tests)]
        for arm in arms
    ]
    return table(head, rows)


def rates_table(results=None):
    r"""The learning rate that validation chose for each arm and puzzle."""
    results = puzzles() if results is None else results
    rows = [
        [title_of(arm), *(f"{results['tasks'][task]['methods'][arm]['rate']:g}" for task in NAMES)]
        for arm in results["tasks"]["flipflop"]["methods"]
    ]
    return table(["", *NAMES.values()], rows)


def outcome(task, arm, results=None):
    r"""What became of the prediction for an arm: (claim, outcome, mean change, its spread)."""
    results = puzzles() if results is None else results
    start, end = results["tasks"][task]["contrast"]
    pairs = zip(scores(task, arm, start, results), scores(task, arm, end, results))
    moved = [after - before for before, after in pairs]
    change, spread = mean_and_spread(moved)
    claim = results["tasks"][task]["predictions"][arm]["claim"]
    return claim, judge(moved, results["tolerance"], claim), change, spread


def paired(ours, theirs):
    r"""(mean, half of the 95% interval) of ours - theirs, seed by seed."""
    apart = [a - b for a, b in zip(ours, theirs)]
    return mean_and_spread(apart)[0], half_width(apart)


def compared(ours, theirs):
    r"""Words for "ours is ... than theirs", from the paired interval, in points of a percent."""
    mean, half = paired(ours, theirs)
    if abs(mean) <= half or mean == 0:
        return f"not told apart ({signed(100 * mean, 1)} ± {100 * half:.1f} points, 95%)"
    return f"{'fewer' if mean < 0 else 'more'} errors ({signed(100 * mean, 1)} ± {100 * half:.1f} points, 95%)"


def predictions_table(results=None):
    r"""What was predicted of CoPE, its control and RoPE, why, and what became of it, a row each."""
    results = puzzles() if results is None else results
    rows = []
    for task, parts in results["tasks"].items():
        for arm in ("cope", "open", "rope"):
            claim, became, change, spread = outcome(task, arm, results)
            test = f"{NAMES[task]}, *{parts['contrast'][1]}*: {title_of(arm)}"
            why = parts["predictions"][arm]["why"]
            said = {"rises": "rise", "holds": "no rise"}[claim]
            rows.append([test, said, why, f"{signed(100 * change, 1)} ± {100 * spread:.1f}", became])
    return table(["", "predicted", "because", "points", "verdict"], rows)


def verdict_numbers(results=None):
    r"""What the prose on the puzzles cites."""
    results = puzzles() if results is None else results

    def percent(task, arm, test):
        return f"{100 * mean_and_spread(scores(task, arm, test, results))[0]:.1f}%"

    far = {arm: percent("counting", arm, "longer 4x") for arm in ("cope", "open", "rope", "stickbreaking", "fox")}
    copied = {
        arm: f"from {percent('selective_copy', arm, 'in')} to {percent('selective_copy', arm, 'sparser')}"
        for arm in ("cope", "open", "rope")
    }
    arms = results["tasks"]["selective_copy"]["methods"]
    least = min(mean_and_spread(scores("selective_copy", arm, "longer 4x", results))[0] for arm in arms)
    return {
        "seeds": f"{len(results['seeds'])}",
        "rates": ", ".join(f"{rate:g}" for rate in results["rates"]),
        "steps": ", ".join(f"{NAMES[task]}: {results['steps'][task]} steps" for task in FIRST),
        "copy_steps": f"{results['steps']['selective_copy']}",
        "solved": f"{100 * SOLVED:.0f}%",
        "tolerance": f"{100 * results['tolerance']:.0f}",
        "near_words": f"with sparser letters to copy the control's errors go {copied['open']}, RoPE's "
        f"{copied['rope']}, and CoPE's {copied['cope']}.",
        "far_words": f"at four times the length CoPE errs in {far['cope']} of the counts, its control in "
        f"{far['open']}, RoPE in {far['rope']}, stick-breaking in {far['stickbreaking']} and FoX in {far['fox']}.",
        "copy_words": "That sparser letters do CoPE no harm would be so if its gates closed at blanks; they were not "
        f"read here. At four times the length every arm errs in {100 * least:.0f}% or more.",
    }


def text_numbers():
    r"""A sentence on CoPE's losses on text."""
    results = load_results("train_short_test_long")
    start, end, runs = results["lengths"][0], results["lengths"][-1], results["methods"]["cope"]
    ends = (("whole", 0), ("whole", -1), ("cut", -1))
    first, whole, cut = (mean_and_spread([row[place] for row in runs[kind]])[0] for kind, place in ends)
    words = (
        f"From {start} to {end} characters CoPE's loss goes from {first:.2f} to {whole:.2f}, and to {cut:.2f} with its "
        f"attention cut: {'more keys harm it' if whole - cut > 0.05 else 'more keys do it no harm'}."
    )
    return {"words": words}


def use_words(results=None):
    r"""Does CoPE count, or look up an answer and go on from there? From the two controls of the counting puzzle."""
    from IPython.display import Markdown

    results = puzzles() if results is None else results
    lines = []
    for arm in ("cope", "open", "rope"):
        usual, rare = (scores("counting", arm, test, results) for test in ("in", "rarely asked"))
        lines.append(f"- {title_of(arm)}, rarely asked beside asked as in training: {compared(rare, usual)}.")
    for task in ("counting", "flipflop"):
        long, cut = (scores(task, "cope", test, results) for test in ("longer 4x", "longer 4x, cut"))
        lines.append(
            f"- CoPE on {NAMES[task]} four times as long, all keys visible beside cut to the nearest of the training "
            f"length: {compared(long, cut)}."
        )
    rare = scores("counting", "cope", "rarely asked", results)
    mean = mean_and_spread(rare)[0]
    beside = compared(rare, scores("counting", "cope", "in", results))
    if mean < SOLVED:

        def errs(arm, test):
            return f"{100 * mean_and_spread(scores('counting', arm, test, results))[0]:.1f}%"

        far = {arm: f"{errs(arm, 'longer 4x')} to {errs(arm, 'longer 4x, cut')}" for arm in ("cope", "rope", "open")}
        end = (
            "With hardly an answer to go on from it answers right: it does not need them. That is no merit of gates: "
            f"RoPE ({errs('rope', 'rarely asked')} wrong) and the control ({errs('open', 'rarely asked')}) answer "
            "nearly as well. Cutting shows that far keys do harm: at four times the length it takes CoPE's errors from "
            f"{far['cope']}. Gates that are nearly closed and add up may be one reason; but RoPE's go from "
            f"{far['rope']} and the control's from {far['open']}, so it cannot be the only one."
        )
    elif beside.startswith("more"):
        end = "So would a model that looks up the last answer and counts on from there."
    elif beside.startswith("fewer"):
        end = "Fewer answers to go on from do not hurt it."
    else:
        end = "These seeds do not tell whether it leans on earlier answers."
    lines.append(f"\nRarely asked, CoPE errs in {100 * mean:.1f}% of the answers. {end}")
    return Markdown("\n".join(lines))


# -------------------------------------------------------------------------------------------------- the trained gates


def gate_numbers():
    r"""What the trained gates of the text model do, in numbers."""
    heads, losses = trained_gates()["heads"], trained_gates()["losses"]
    trained = losses["as trained"]
    contrast = {name_of(head): head["by_kind"]["space"] - head["by_kind"]["letter"] for head in heads}
    widest = max(contrast, key=lambda name: abs(contrast[name]))
    chosen = next(head for head in heads if name_of(head) == widest)
    assert all(0.1 < gate < 0.9 for head in heads for gate in head["by_kind"].values())
    return {
        "heads": f"{len(heads)}",
        "mean_low": f"{min(head['mean'] for head in heads):.2f}",
        "mean_high": f"{max(head['mean'] for head in heads):.2f}",
        "most_head": widest,
        "most_space": f"{chosen['by_kind']['space']:.2f}",
        "most_letter": f"{chosen['by_kind']['letter']:.2f}",
        "key_share": f"{max(head['by_key'] for head in heads):.0%}",
        "beyond": f"{max(head['beyond'] for head in heads):.1%}",
        "loss": f"{trained:.2f}",
        **{
            f"loss_{name}": f"{losses[key] - trained:+.2f}"
            for name, key in (
                ("mean", "each head's mean gate"),
                ("open", "all gates 1"),
                ("other", "gates of the next head"),
                ("zero", "table of zeros"),
            )
        },
    }


PUZZLE_KINDS = {
    "flipflop": {
        "after w": "bit written",
        "after i": "bit ignored",
        "after r": "bit read",
        "w": "w",
        "i": "i",
        "r": "r",
    },
    "counting": {"+": "+", "reset": "0 that resets", ".": ".", "after ?": "an answer", "?": "?"},
}


def puzzle_gates(task):
    r"""The mean gate of each head on each kind of key, for queries that are asked for an answer."""
    kinds = PUZZLE_KINDS[task]
    rows = [
        [name_of(head), *(f"{head['by_kind'][kind]:.2f}" for kind in kinds)]
        for head in trained_gates()["puzzles"][task]["heads"]
    ]
    return table(["", *kinds.values()], rows)


def puzzle_numbers():
    r"""Settings and errors of the two models whose gates are shown."""
    models = trained_gates()["puzzles"]
    for head in models["flipflop"]["heads"]:  # the second layer opens after w alone
        gap = head["by_kind"]["after w"] - head["by_kind"]["after i"]
        assert gap > 0.95 if head["layer"] else gap < 0.05
    for kinds in (head["by_kind"] for head in models["counting"]["heads"] if head["layer"] == 0):
        assert min(kinds["+"], kinds["reset"]) > 0.95 and kinds["."] < 0.05
    return {
        "puzzle_rate": f"{models['flipflop']['rate']:g}",
        **{f"{task}_in": f"{models[task]['wrong']['in']:.1%}" for task in models},
        **{f"{task}_far": f"{models[task]['wrong']['longer 4x']:.1%}" for task in models},
    }
