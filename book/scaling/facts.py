r"""What the chapter *Longer than trained* computes and draws beside its text."""

import math
from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import torch
from IPython.display import Markdown

import posenc
from posenc import rope, scaling
from posenc.chapters.sheet import facts as sheet
from posenc.lab.experiments import judge, load_results
from posenc.lab.experiments.plots import name_lines
from posenc.lab.write import finish, pm, say_all, table, typeset

STUDY, SURGERY = load_results("scaling"), load_results("rope_surgery")
TEXT = load_results("train_short_test_long")
#: The training length, and the longest context; where each bin of a window of that length ends, [bins].
L, LONGEST = STUDY["lengths"][0], STUDY["lengths"][-1]
PLACES = np.array(SURGERY["until"])
#: The study model's frequencies: [pairs].
OURS = rope.inv_freq(2 * (len(SURGERY["cutoffs"]) - 1), dtype=torch.float64)
#: Of each scheme its name in tables and legends; and color, marker and line. At each length dynamic NTK is NTK.
SCHEMES = {
    "plain": ("plain RoPE", "0.2", "o", "-"),
    "linear": ("linear", "C0", "s", "-"),
    "ntk": ("NTK", "C1", "^", "-"),
    "dynamic_ntk": ("dynamic NTK",),
    "yarn": ("YaRN (code)", "C2", "D", "-"),
    "yarn_rotations": ("YaRN (paper)", "C6", "D", ":"),
    "llama3": ("Llama 3.1", "C3", "v", "-"),
    "longrope": ("searched ramp", "C4", "P", "--"),
    "base": ("new base", "C9", "X", "--"),
}
NAMES = {scheme: name for scheme, (name, *_) in SCHEMES.items()}
LOOKS = {scheme: look for scheme, (_, *look) in SCHEMES.items() if look}
TOLERANCE, SEEDS = TEXT["tolerance"], len(STUDY["seeds"])
#: Schemes that decide pair by pair and keep the neighbors.
BY_PARTS = ("yarn", "llama3", "longrope")
#: The rows of the verdict of the first reading.
VERDICT = ("plain", "linear", "ntk", "yarn", "llama3", "longrope")
#: The chapter's card. Its schemes are no methods of their own: each is RoPE with other frequencies.
CARD = sheet.Card(
    r"pair $i$ turns by $m\,\omega_i / c_i$; linear: $c_i = s$; NTK: $c_i = s^{2i/(D-2)}$; by parts: $c_i$ from $1$ to "
    "$s$ as turns in training get fewer",
    "yes, by $n - m$",
    "linear: fractions of a token, at every length; NTK: some angles of open pairs; by parts: combinations of angles",
    "nothing learned, nothing at run time; neighbors are told apart less well",
    "YaRN: gpt-oss {cite}`openai2025gptoss`, DeepSeek-V3 {cite}`deepseek2024v3`; its own ramp: Llama 3.1 "
    "{cite}`meta2024models`",
    "rotate",
)
WHEN = ("before", "after")  # fine-tuning: the trained weights as they are, and after it


def numbers():
    r"""Give the prose its numbers. Errors: AssertionError where one is not as the prose says."""
    check_failure()
    say_all("scaling", surgery_numbers() | scheme_numbers() | loss_numbers())
    say_all("scaling", {"error": f"{max(check_errors().values()):.0e}", "v_words": claim_words()})


def text(scheme, when="before", key="whole"):
    r"""A scheme's losses on text: [seed, length], [seed] for "price"."""
    return np.array(STUDY["schemes"][scheme]["text"][when][key])


def ends(scheme, when="before"):
    r"""Losses at L and at the longest, [seed and block, 2]: of the seeds, then over these of each block of windows."""
    blocks = np.reshape(STUDY["schemes"][scheme]["in_blocks"], (2, 2, -1))[WHEN.index(when)]
    return np.concatenate((text(scheme, when)[:, [0, -1]], blocks.T))


def rise(scheme, when="before"):
    r"""The loss in the longest context less that at L, under the same scheme: [seed]."""
    return risen(text(scheme, when))


def risen(losses):
    r"""The loss in the longest context less that at L: [seed]."""
    return losses[:, -1] - losses[:, 0]


def surgery_losses(kind):
    r"""Losses with pairs stopped from the "slow" or the "fast" end: [seed, number of pairs, bin]."""
    return np.array(SURGERY["stopped"][kind])


CUT = np.array(SURGERY["cut"])  # the same weights, attention cut to the training length: [seed, bin]


def beyond(losses):
    r"""The mean over the bins, the last axis, beyond the training length."""
    return losses[..., PLACES >= L].mean(-1)


def failure_figure():
    r"""Loss by place in long windows, with the whole context and with attention cut."""
    figure, axes = plt.subplots(figsize=(4.4, 2.6), layout="constrained")
    curves = {"whole context": surgery_losses("slow")[:, 0], "attention cut to L keys": CUT}
    for (name, values), style, color in zip(curves.items(), ("-", "--"), ("C1", "0.3")):
        mean, spread = values.mean(0), values.std(0, ddof=1)
        axes.plot(PLACES, mean, style, color=color, label=name)
        axes.fill_between(PLACES, mean - spread, mean + spread, color=color, alpha=0.2)
    axes.axvline(L, color="0.6", linestyle=":")
    axes.set(xlabel="place in the window, characters", ylabel="loss, nats per character")
    name_lines(axes)
    return figure


def check_failure():
    r"""Assert that the far keys do the harm, by their distance before their number."""
    grid = np.array(TEXT["methods"]["rope"]["distance_and_keys"])  # [seed, keys, gaps]
    distance, keys, both = (grid[:, i, j] - grid[:, 0, 0] for i, j in ((0, -1), (-1, 0), (-1, -1)))
    assert (beyond(surgery_losses("slow")[:, 0]) - beyond(CUT) > 0.2).all()
    assert (distance > 5 * keys).all() and (both > distance).all()


def mended_share(kind):
    r"""The share of the damage that stopping pairs from one end mends, the mean over seeds: [number of pairs]."""
    plain = beyond(surgery_losses("slow"))[:, :1]
    return ((plain - beyond(surgery_losses(kind))) / (plain - beyond(CUT)[:, None])).mean(0)


def harmful_pairs():
    r"""The two pairs whose stopping mends most beside that of all slower ones."""
    gains = np.diff(mended_share("slow"))[::-1]
    pairs = sorted(int(i) for i in np.argsort(gains)[-2:])
    assert gains[pairs].sum() > 0.8
    return pairs


def surgery_numbers():
    r"""Which pairs do the damage, and how far they had turned in training."""
    turned, (a, b) = L * OURS / (2 * math.pi), harmful_pairs()
    pairs, slow_pairs = len(OURS), int((turned < 1).sum())
    idle = pairs - 1 - b  # how many pairs are slower than the two
    slow, fast = mended_share("slow"), mended_share("fast")
    assert [a, b] == [pairs - slow_pairs, pairs - slow_pairs + 1]  # the fastest two open pairs
    assert abs(slow[idle]) < 0.05 and slow[slow_pairs] > 0.9
    assert fast[a] < 0.5 < 0.8 < fast[a + 1]
    ends = [np.diff(-beyond(surgery_losses(kind)), axis=1) for kind in ("slow", "fast")]  # [seed, pair]
    assert (ends[0][:, ::-1].argmax(1) == a).all() and (ends[1].argmax(1) == a).all()  # with every seed
    shares = dict(zip(("idle_mended", "b_mended", "a_mended"), slow[idle:]))
    shares |= dict(zip(("fast_mended", "fast_a", "fast_b"), fast[a:])) | {"all_mended": slow[-1]}
    shares |= dict(zip(("turned_a", "turned_b", "turned_idle"), turned[a:]))
    counts = {"slow_pairs": slow_pairs, "fast_pairs": pairs - slow_pairs, "worst_a": a, "worst_b": b}
    counts |= {"idle": idle, "idle_1": idle + 1, "idle_2": idle + 2}
    return counts | {name: f"{value:.0%}" for name, value in shares.items()}


def remaining_share(dim, trained, ramp, times=8.0):
    r"""The share of its own frequency that YaRN leaves to each pair: 1 is untouched, 1 / times divided by `times`."""
    return scaling.yarn(dim, times, trained=trained, ramp=ramp)[0] / rope.inv_freq(dim, dtype=torch.float64)


def scheme_numbers():
    r"""What the schemes do to single pairs, of the study model and of a head of 128."""
    times, dim = float(LONGEST // L), 2 * len(OURS)
    ntk = (OURS / scaling.ntk(dim, times)[0])[harmful_pairs()]
    assert (ntk < times / 2).all()
    yarn = (OURS / scaling.yarn(dim, times, trained=L)[0])[2:4]
    llama3 = (OURS / scaling.llama3(dim, times, trained=L, base=10000.0)[0])[2:4]
    assert (yarn < llama3).all() and harmful_pairs()[0] > 3
    most_turns, ends = L * OURS[0].item() / (2 * math.pi), scaling.correction_lanes(dim, trained=L)
    assert most_turns < 32 and ends == (0, 4) and abs(remaining_share(dim, L, "lanes")[0] - 1) < 1e-12
    code, paper = (remaining_share(128, 4096, ramp) for ramp in ("lanes", "rotations"))
    gap = int((code - paper).abs().argmax())
    static, (real, t) = scaling.ntk(128, 8.0)[0], scaling.yarn(128, 8.0, trained=4096)
    misnamed = int(((static / real - 1).abs() > 0.01).sum())
    assert misnamed > 32 and t > 1.2
    first, last = scaling.correction_lanes(128, trained=4096)
    divisors = dict(zip(("ntk_a", "ntk_b", "yarn_2", "yarn_3", "llama3_2", "llama3_3"), (*ntk, *yarn, *llama3)))
    return {name: f"{divisor:.1f}" for name, divisor in divisors.items()} | {
        "first": first,
        "last": last,
        "ramp_gap_at": gap,
        "ramp_code": f"{code[gap]:.2f}",
        "ramp_paper": f"{paper[gap]:.2f}",
        "most_turns": f"{most_turns:.0f}",
        "small_first": ends[0],
        "small_last": ends[1],
        "keeps_rotations": f"{remaining_share(dim, L, 'rotations')[0]:.0%}",
        "misnamed": misnamed,
        "misnamed_factor": f"{t**2:.2f}",
    }


def hand_table():
    r"""The table of *By hand*: D = 4, base 100, trained on 16 tokens, wanted at 64."""
    schemes = {
        "plain": scaling.linear(4, 1.0, base=100.0),
        "linear": scaling.linear(4, 4.0, base=100.0),
        "NTK": scaling.ntk(4, 4.0, base=100.0),
        "by parts": scaling.llama3(4, 4.0, trained=16, base=100.0),
    }
    rows = []
    for name, (frequencies, _) in schemes.items():
        fast, slow = frequencies.tolist()
        cells = (fast, slow, 63 * slow, math.cos(63 * slow), 2 - math.cos(fast) - math.cos(slow))
        rows.append([name, *(typeset(f"{cell:.3f}") for cell in cells)])
    return table(["scheme", r"$\omega'_0$", r"$\omega'_1$", r"$63\,\omega'_1$", "its cosine", "one token"], rows)


def check_short(linear, ntk, by_parts):
    r"""Hold the page's own lines against posenc. Errors: AssertionError."""
    for dim, s, base, trained in ((4, 4.0, 100.0, 16), (128, 8.0, 500_000.0, 8192)):
        torch.testing.assert_close(linear(dim, s, base), scaling.linear(dim, s, base=base)[0])
        torch.testing.assert_close(ntk(dim, s, base), scaling.ntk(dim, s, base=base)[0])
        theirs = scaling.llama3(dim, s, trained=trained, base=base)[0]
        torch.testing.assert_close(by_parts(dim, s, base, trained), theirs)


def card():
    r"""The chapter's card, as those of the methods look."""
    line = 'posenc.make("rope", head_dim=64, inv_freq=posenc.scaling.llama3(64)[0])'
    return Markdown(sheet.written("Scaling RoPE", CARD, CARD.place, line))


def card_figure(dim=128, s=8.0, trained=4096):
    r"""The card's picture: by what three schemes divide each pair."""
    figure, axes = plt.subplots(figsize=(4.4, 2.1), layout="constrained")
    w = rope.inv_freq(dim, dtype=torch.float64)
    schemes = {
        "linear": (scaling.linear(dim, s)[0], "C0", "-"),
        "NTK": (scaling.ntk(dim, s)[0], "C1", "--"),
        "by parts": (scaling.llama3(dim, s, trained=trained, base=10_000.0)[0], "C3", "-"),
    }
    for name, (scaled, color, line) in schemes.items():
        axes.plot(w / scaled, line, color=color, label=name)
    axes.axvline((trained * w >= 2 * math.pi).sum() - 0.5, color="0.6", linestyle=":")
    axes.set_yscale("log", base=2)
    axes.set_yticks([1, 2, 4, 8], ["1", "2", "4", "8"])
    axes.set(xlabel="pair of lanes, fast to slow", ylabel="frequency divided by")
    name_lines(axes)
    return finish(figure)


def score(d, frequencies):
    r"""The score of one random query and one key, d tokens back; d need not be whole."""
    dim = 2 * len(frequencies)
    q, k = torch.randn(2, 1, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return (q * rope.rotate(k, torch.tensor([-d], dtype=torch.float64), frequencies)).sum()


@cache
def check_errors():
    r"""The largest error of each claim that the chapter proves: {claim: error}."""
    dim, s, trained = 128, 8.0, 4096
    w = rope.inv_freq(dim, dtype=torch.float64)
    turns = trained * w / (2 * math.pi)
    linear, ntk = scaling.linear(dim, s)[0], scaling.ntk(dim, s)[0]
    by_parts = scaling.yarn(dim, s, trained=trained, ramp="rotations")[0]
    same, factor = scaling.yarn(
        dim, s, trained=8192, base=500_000.0, ramp="rotations", alpha=1.0, beta=4.0, attention_factor=1.0
    )
    assert factor == 1.0
    steps = s ** (2 * torch.arange(dim / 2, dtype=torch.float64) / (dim - 2))
    errors = {
        "linear: score at d = plain at d/s": max(abs(score(d, linear) - score(d / s, w)) for d in (1, 4097, 32767)),
        "NTK: first stays": abs(ntk[0] - w[0]),
        "NTK: last is divided by s": abs(s * ntk[-1] / w[-1] - 1),
        "NTK: pair i by s^(2i/(D-2))": (w / ntk / steps - 1).abs().max(),
        "by parts: over 32 turns, kept": (by_parts / w - 1)[turns > 32].abs().max(),
        "by parts: under 1 turn, by s": (s * by_parts / w - 1)[turns < 1].abs().max(),
        "Llama 3.1 = YaRN, 1 to 4 turns": (same - scaling.llama3(dim)[0]).abs().max(),
    }
    return {claim: float(error) for claim, error in errors.items()}


def partial_divisors(rotary=64, head_dim=256):
    r"""By what NTK divides the slowest pair that turns, given the lanes that turn and given all: (right, wrong)."""
    last = rotary // 2 - 1
    return tuple(
        (rope.inv_freq(dim, dtype=torch.float64)[last] / scaling.ntk(dim, 8.0)[0][last]).item()
        for dim in (rotary, head_dim)
    )


def partial_gap(rotary=64, head_dim=256):
    r"""How far log weights are off where the temperature reaches only the lanes that turn."""
    generator = torch.Generator().manual_seed(3)
    q, k = torch.randn(2, 1, 1, 40, head_dim, dtype=torch.float64, generator=generator)
    frequencies, t = scaling.yarn(rotary, 8.0, trained=4096)

    def log_weights(t, scale=1.0):
        encoding = rope.rope(head_dim, inv_freq=frequencies, attention_factor=t)
        options = {"scale": scale / head_dim**0.5, "causal": False, "return_weights": True}
        return posenc.attention(q, k, k, encoding, **options)[1].log()

    return (log_weights(t) - log_weights(1.0, scale=t**2)).abs().max().item()


def verdict_table():
    r"""The first reading's table: a row a scheme, made for the longest context and not trained on."""
    cells = {
        f"at {L}": lambda a: pm(text(a, key="price")),
        f"at {LONGEST}": lambda a: pm(text(a)[:, -1]),
        f"at {LONGEST}, cut": lambda a: pm(text(a, key="cut")[:, -1]),
        "far needles missed": lambda a: f"{wrong_share(a, 'before', 'far').mean():.1%}",
    }
    return table(["scheme", *cells], [[NAMES[a], *(cell(a) for cell in cells.values())] for a in VERDICT])


def claim_words():
    r"""How many of the predictions' claims came true, failed, or neither."""
    outcomes = [outcome for claims in verdicts().values() for _, outcome in claims]
    counts = {word: outcomes.count(word) for word in ("came true", "failed", "not decided")}
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"of {len(outcomes)} claims {said}"


def loss_figure():
    r"""Loss against the length of the context, before and after fine-tuning: one line a scheme, bars over seeds."""
    figure, panels = plt.subplots(2, 1, figsize=(4.4, 5.4), layout="constrained", sharex=True)
    lengths, cut = STUDY["lengths"], text("plain", "before", "cut").mean(0)
    for axes, when in zip(panels, WHEN):
        for name, (color, marker, line) in LOOKS.items():
            losses = text(name, when)
            look = dict(color=color, marker=marker, linestyle=line, capsize=2, markersize=5, label=NAMES[name])
            axes.errorbar(lengths, losses.mean(0), losses.std(0, ddof=1), **look)
        axes.plot(lengths, cut, color="0.45", linestyle="--", label="plain, attention cut")
        axes.set_xscale("log", base=2)
        axes.set_xticks(lengths, [str(n) for n in lengths])
        axes.set_xlim(lengths[0] / 1.15, lengths[-1] * 1.15)  # the margin of what was drawn before is a linear axis's
        axes.set_title(f"{when} fine-tuning", loc="left")
        axes.set(ylabel="loss, nats per character")
    panels[-1].set_xlabel("context, characters")
    name_lines(*panels)
    return figure


def exceeds(values, than=0.0, by=0.0, seeds=SEEDS):
    r"""Verdict on "values exceed `than` by more than `by`", each a number a seed, so many of them, and one a block."""
    return judge((np.asarray(values) - than).tolist(), by, "rises", seeds)


def near(one, other, seeds=SEEDS):
    r"""Verdict on "the two are within the tolerance of each other", as in `exceeds`."""
    return worst_verdict(judge((one - other).tolist(), TOLERANCE, claim, seeds) for claim in ("holds", "stays"))


def worst_verdict(verdicts):
    r"""Verdict on several claims at once: the worst of theirs."""
    verdicts = list(verdicts)
    return next((v for v in ("failed", "not decided") if v in verdicts), "came true")


def verdicts():
    r"""Of each scheme's frozen prediction, its claims and what became of them: {scheme: [(claim, verdict)]}."""
    up = {scheme: risen(ends(scheme)) for scheme in NAMES}
    first, after = ends("base"), {scheme: ends(scheme, "after") for scheme in NAMES}
    trained = ends("plain")[:, 0]
    static = np.abs(text("dynamic_ntk") - text("ntk")).max() < 1e-5  # at each length it is NTK made for that length
    best = min((a for a in NAMES if a != "longrope"), key=lambda a: up[a][:SEEDS].mean())

    def smallest(scheme, *but):  # of all others
        return worst_verdict(exceeds(up[a], up[scheme]) for a in NAMES if a not in but)

    return {
        "plain": [
            ("rises most", worst_verdict(exceeds(up["plain"], up[a]) for a in NAMES if a != "plain")),
            ("after, most of the rise goes", exceeds(up["plain"] / 2, after["plain"][:, 1] - trained)),
        ],
        "linear": [
            ("rises", exceeds(up["linear"], by=TOLERANCE)),
            ("less than plain", exceeds(up["plain"], up["linear"])),
            ("after, near the trained loss", near(after["linear"][:, 1], trained)),
        ],
        "ntk": [("smallest rise but for YaRN's", smallest("ntk", "ntk", "dynamic_ntk", "yarn", "yarn_rotations"))],
        "dynamic_ntk": [("the same as NTK", "came true" if static else "failed")],
        "yarn": [("smallest rise of those without a search", smallest("yarn", "longrope", "yarn"))],
        "yarn_rotations": [("close to the other ramp", near(up["yarn_rotations"], up["yarn"]))],
        "llama3": [("a rise like NTK's", near(up["llama3"], up["ntk"]))],
        "longrope": [("no worse than the best other", judge(list(up["longrope"] - up[best]), 0.0, "holds", SEEDS))],
        "base": [
            ("rises at L already", exceeds(first[:, 0], trained, TOLERANCE)),
            ("after, repaired", near(after["base"][:, 0], after["plain"][:, 0])),
        ],
    }


def outcomes_of(claims):
    r"""Claims with what became of them, in a line."""
    return "; ".join(f"{claim}: **{outcome}**" for claim, outcome in claims)


def predictions():
    r"""The predictions, a line of Markdown for each scheme, with what was measured and the verdicts."""
    lines = []
    for name, claims in verdicts().items():
        words = outcomes_of(claims)
        measured = f"rise {pm(rise(name))}, after fine-tuning {pm(rise(name, 'after'))}"
        lines.append(f"- **{NAMES[name]}.** *{STUDY['predictions'][name]}* Measured: {measured}. Verdict: {words}.")
    return Markdown("\n".join(lines))


def loss_table():
    r"""In the longest context the loss, cut, and the price, before fine-tuning and after it, printed: means."""
    heads = [
        f"{'':20s} before                 after",
        f"{'':20s} {LONGEST:5d}    cut  price {LONGEST:7d}    cut  price",
    ]
    rows = []
    for name in NAMES:
        cells = [text(name, when, key) for when in WHEN for key in ("whole", "cut", "price")]
        means = [(cell if cell.ndim == 1 else cell[:, -1]).mean() for cell in cells]
        rows.append(f"{NAMES[name]:20s}" + "{:6.2f} {:6.2f} {:6.2f}  {:6.2f} {:6.2f} {:6.2f}".format(*means))
    price = f"price: the loss at {L}, which is {text('plain')[:, 0].mean():.2f} as trained"
    return "\n".join([*heads, *rows, "", price])


def loss_numbers():
    r"""How much of what linear scaling loses among near keys the schemes by parts lose, least and most."""
    whole, cut, tuned = ({a: text(a, *which)[:, -1] for a in NAMES} for which in ((), ("before", "cut"), ("after",)))
    price, trained = text("linear", key="price"), text("plain")[:, 0]
    # linear: near keys carry all the damage; NTK: far ones do
    assert (np.abs(whole["linear"] - cut["linear"]) < 0.1).all() and (price > trained + 1).all()
    assert (cut["ntk"] < trained + 0.1).all() and (whole["ntk"] > trained + 1).all()
    rivals = ("plain", "linear", "ntk", "yarn_rotations")
    assert all((whole[a] < whole[b]).all() for a in BY_PARTS for b in rivals)
    better = [a for a in LOOKS if (tuned[a] < tuned["plain"]).all()]
    worse = [a for a in LOOKS if (tuned[a] > tuned["plain"]).all()]
    assert better == ["ntk", "yarn", "yarn_rotations", "llama3", "longrope", "base"] and worse == ["linear"]
    assert all((tuned["yarn"] < tuned[a]).all() for a in LOOKS if a != "yarn")
    assert (cut["plain"] < min(values.mean() for values in tuned.values())).all()  # nobody beats the cut
    miss = {a: wrong_share(a, "before", "far") for a in LOOKS}
    assert {a for a in LOOKS if miss[a].max() == 0} == {"yarn", "yarn_rotations", "longrope"}
    few, many = ("linear", "llama3"), ("ntk", "base")
    assert all((miss[a] < miss[b]).all() and miss[a].max() < 0.1 for a in few for b in many)
    lost = {a: (cut[a] - cut["plain"]).mean() for a in VERDICT}
    shares = sorted(lost[a] / lost["linear"] for a in BY_PARTS)
    assert shares[-1] < 0.4
    return {"parts_least": f"{shares[0]:.0%}", "parts_most": f"{shares[-1]:.0%}"}


def wrong_share(scheme, when, which):
    r"""Share of wrong answers [seed] over needles "near" (within training's distances) or "far"."""
    far = np.array(STUDY["distances"]) > L
    return np.array(STUDY["schemes"][scheme]["needle"][when])[:, far if which == "far" else ~far].mean(1)


def needle_table():
    r"""Shares of wrong answers to near and far needles, printed."""
    lines = [f"{'share wrong':14s}  before       after", f"{'':14s}  near   far   near   far"]
    for name in LOOKS:
        cells = [f"{wrong_share(name, w, d).mean():6.2f}" + " " * (d == "far") for w in WHEN for d in ("near", "far")]
        lines.append(f"{NAMES[name]:14s}" + "".join(cells))
    return "\n".join(lines)
