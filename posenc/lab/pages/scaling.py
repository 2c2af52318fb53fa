r"""What the chapter *Longer than trained* computes and draws beside its text."""

import math
from functools import cache, partial

import matplotlib.pyplot as plt
import numpy as np
import torch

import posenc
from posenc import rope, scaling
from posenc.lab.experiments import judge, load_results
from posenc.lab.experiments.plots import name_lines
from posenc.lab.pages import finish, say_all, sheet
from posenc.lab.write import pm, table

#: The schemes of the study, as the tables and legends name them.
NAMES = {
    "plain": "plain RoPE",
    "linear": "linear",
    "ntk": "NTK",
    "dynamic_ntk": "dynamic NTK",
    "yarn": "YaRN (code)",
    "yarn_rotations": "YaRN (paper)",
    "llama3": "Llama 3.1",
    "longrope": "searched ramp",
    "base": "new base",
}
#: Color, marker and line of each. Dynamic NTK has none: at each length it is NTK.
LOOKS = {
    "plain": ("0.2", "o", "-"),
    "linear": ("C0", "s", "-"),
    "ntk": ("C1", "^", "-"),
    "yarn": ("C2", "D", "-"),
    "yarn_rotations": ("C6", "D", ":"),
    "llama3": ("C3", "v", "-"),
    "longrope": ("C4", "P", "--"),
    "base": ("C9", "X", "--"),
}
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
#: The two halves of the study: the trained weights as they are, and after a short fine-tuning.
WHEN = ("before", "after")
#: The example by hand: D = 4, base 100, trained on 16 tokens, wanted at 64.
HAND = {
    "plain": partial(scaling.linear, 4, 1.0, base=100.0),
    "linear": partial(scaling.linear, 4, 4.0, base=100.0),
    "ntk": partial(scaling.ntk, 4, 4.0, base=100.0),
    "parts": partial(scaling.llama3, 4, 4.0, trained=16, base=100.0),
}


def numbers():
    r"""Give the prose all its numbers."""
    for part in (failure_numbers, surgery_numbers, scheme_numbers, hand_numbers, table_numbers):
        say_all("scaling", part())
    say_all("scaling", needle_numbers() | {"error": f"{max(check_errors().values()):.0e}", "v_words": claim_words()})


# The frozen results


@cache
def study():
    r"""The comparison of schemes. Errors: ValueError where its lengths are not those of the other two experiments."""
    results, others = load_results("scaling"), (surgery(), short_long())
    if any(other["lengths"] != results["lengths"] for other in others) or surgery()["until"] != results["until"]:
        raise ValueError("scaling, rope_surgery and train_short_test_long must share their lengths; measure them anew")
    if set(results["schemes"]) != set(NAMES):
        raise ValueError(f"scaling holds the schemes {sorted(results['schemes'])}, the page names {sorted(NAMES)}")
    return results


@cache
def surgery():
    r"""The operation on single pairs of a trained model."""
    return load_results("rope_surgery")


@cache
def short_long():
    r"""The study of all methods, trained short and tested long."""
    return load_results("train_short_test_long")


def trained_length():
    r"""L, the length of the study's training windows."""
    return study()["lengths"][0]


def longest():
    r"""The longest context of the tests."""
    return study()["lengths"][-1]


def places():
    r"""Where each bin of a long window ends: [bins]."""
    return np.array(study()["until"])


def late():
    r"""The bins in the second half of the training length: a mask [bins]."""
    return (places() < trained_length()) & (places() >= trained_length() // 2)


def text(scheme, when="before", key="whole"):
    r"""A scheme's losses on text: [seed, length], [seed, bin] for "by_position", [seed] for "price"."""
    return np.array(study()["schemes"][scheme]["text"][when][key])


def at_longest(when="before", key="whole"):
    r"""Each scheme's losses in the longest context: {scheme: [seed]}."""
    return {scheme: text(scheme, when, key)[:, -1] for scheme in study()["schemes"]}


def trained_loss():
    r"""The loss of the trained model at its own length: [seed]."""
    return text("plain")[:, 0]


def rise(scheme, when="before"):
    r"""The loss in the longest context less that at L, under the same scheme: [seed]."""
    return text(scheme, when)[:, -1] - text(scheme, when)[:, 0]


# A failure that asks for it


def surgery_losses(kind):
    r"""Losses with pairs stopped from the "slow" or the "fast" end: [seed, number of pairs, bin]."""
    return np.array(surgery()["stopped"][kind])


def cut_losses():
    r"""Losses of the same weights with attention cut to the training length: [seed, bin]."""
    return np.array(surgery()["cut"])


def mean_beyond(losses):
    r"""The mean over the bins, the last axis, beyond the training length."""
    return losses[..., places() >= trained_length()].mean(-1)


def failure_figure():
    r"""Loss by place in long windows, with the whole context and with attention cut."""
    figure, axes = plt.subplots(figsize=(4.4, 2.6), layout="constrained")
    curves = {"whole context": surgery_losses("slow")[:, 0], "attention cut to L keys": cut_losses()}
    for (name, values), style, color in zip(curves.items(), ("-", "--"), ("C1", "0.3")):
        mean, spread = values.mean(0), values.std(0, ddof=1)
        axes.plot(places(), mean, style, color=color, label=name)
        axes.fill_between(places(), mean - spread, mean + spread, color=color, alpha=0.2)
    axes.axvline(trained_length(), color="0.6", linestyle=":")
    axes.set(xlabel="place in the window, characters", ylabel="loss, nats per character")
    name_lines(axes)
    return figure


def factorial():
    r"""What distance alone, keys alone and both add to RoPE's loss: {name: [seed]}."""
    grid = np.array(short_long()["methods"]["rope"]["distance_and_keys"])  # [seed, keys, gaps]
    corners = {"distance": grid[:, 0, -1], "keys": grid[:, -1, 0], "both": grid[:, -1, -1]}
    return {name: values - grid[:, 0, 0] for name, values in corners.items()}


def failure_numbers():
    r"""How much the model loses beyond its training length, and to what."""
    plain, added = surgery_losses("slow")[:, 0], factorial()
    assert (mean_beyond(plain) - mean_beyond(cut_losses()) > 0.2).all()
    assert (added["distance"] > 5 * added["keys"]).all() and (added["both"] > added["distance"]).all()
    return {
        "inside": f"{plain[:, late()].mean():.2f}",
        "plain_far": f"{mean_beyond(plain).mean():.2f}",
        "cut_far": f"{mean_beyond(cut_losses()).mean():.2f}",
        **{name: pm(values) for name, values in added.items()},
    }


# Which pairs?


def frequencies_of_study():
    r"""The study model's frequencies, in float64: [pairs]."""
    return rope.inv_freq(2 * (len(surgery()["cutoffs"]) - 1), dtype=torch.float64)


def open_pairs():
    r"""How many pairs did not finish a turn in training."""
    return int((2 * math.pi / frequencies_of_study() > trained_length()).sum())


def mended_share(kind):
    r"""The share of the damage that stopping pairs from one end mends, the mean over seeds: [number of pairs]."""
    losses = mean_beyond(surgery_losses(kind))
    plain = mean_beyond(surgery_losses("slow"))[:, :1]
    return ((plain - losses) / (plain - mean_beyond(cut_losses())[:, None])).mean(0)


def harmful_pairs():
    r"""The two pairs whose stopping mends most beside that of all slower ones."""
    gains = np.diff(mended_share("slow"))[::-1]
    pairs = sorted(int(i) for i in np.argsort(gains)[-2:])
    assert gains[pairs].sum() > 0.8
    return pairs


def surgery_numbers():
    r"""Which pairs do the damage, and how far they had turned in training."""
    pairs, slow_pairs, (a, b) = len(frequencies_of_study()), open_pairs(), harmful_pairs()
    idle = pairs - 1 - b  # how many pairs are slower than the two
    slow, fast = mended_share("slow"), mended_share("fast")
    turned = trained_length() * frequencies_of_study() / (2 * math.pi)
    assert [a, b] == [pairs - slow_pairs, pairs - slow_pairs + 1]  # the fastest two open pairs
    assert abs(slow[idle]) < 0.05 and slow[slow_pairs] > 0.9
    assert fast[a] < 0.5 < 0.8 < fast[a + 1]
    shares = {
        "idle_mended": slow[idle],
        "b_mended": slow[idle + 1],
        "a_mended": slow[idle + 2],
        "fast_mended": fast[a],
        "fast_a": fast[a + 1],
        "fast_b": fast[a + 2],
        "all_mended": slow[-1],
        "turned_a": turned[a],
        "turned_b": turned[b],
        "turned_idle": turned[b + 1],
    }
    counts = {"pairs": pairs, "slow_pairs": slow_pairs, "fast_pairs": pairs - slow_pairs, "idle": idle}
    counts |= {"idle_1": idle + 1, "idle_2": idle + 2}
    return counts | {"worst_a": a, "worst_b": b} | {name: f"{value:.0%}" for name, value in shares.items()}


# Derivation, by hand


def remaining_share(dim, trained, ramp, times=8.0):
    r"""The share of its own frequency that YaRN leaves to each pair: 1 is untouched, 1 / times divided by `times`."""
    return scaling.yarn(dim, times, trained=trained, ramp=ramp)[0] / rope.inv_freq(dim, dtype=torch.float64)


def scheme_numbers():
    r"""What NTK and the two ramps of YaRN do to single pairs."""
    times = longest() // trained_length()
    divisors = (frequencies_of_study() / scaling.ntk(2 * len(frequencies_of_study()), float(times))[0])[harmful_pairs()]
    assert (divisors < times / 2).all()
    ramps = {ramp: remaining_share(128, 4096, ramp) for ramp in scaling.RAMPS}
    gap = int((ramps["lanes"] - ramps["rotations"]).abs().argmax())
    first, last = scaling.correction_lanes(128, trained=4096)
    assert (first, last) == (20, 46)
    small = {ramp: remaining_share(24, 64, ramp)[0].item() for ramp in scaling.RAMPS}
    most_turns = 64 * rope.inv_freq(24, dtype=torch.float64)[0].item() / (2 * math.pi)
    ends = scaling.correction_lanes(24, trained=64)
    assert trained_length() == 64 and most_turns < 32 and ends == (0, 4) and abs(small["lanes"] - 1) < 1e-12
    ours = frequencies_of_study()
    made = {
        "yarn": scaling.yarn(24, float(times), trained=64),
        "llama3": scaling.llama3(24, float(times), trained=64, base=10000.0),
    }
    divided = {name: (ours / frequencies)[2:4].tolist() for name, (frequencies, _) in made.items()}  # pairs 2 and 3
    assert all(a < b for a, b in zip(divided["yarn"], divided["llama3"])) and harmful_pairs()[0] > 3
    static, real = scaling.ntk(128, 8.0)[0], scaling.yarn(128, 8.0, trained=4096)
    misnamed = int(((static / real[0] - 1).abs() > 0.01).sum())
    assert misnamed > 32 and real[1] > 1.2
    return {
        "ntk_a": f"{divisors[0]:.1f}",
        "ntk_b": f"{divisors[1]:.1f}",
        "first": first,
        "last": last,
        "ramp_gap_at": gap,
        "ramp_code": f"{ramps['lanes'][gap]:.2f}",
        "ramp_paper": f"{ramps['rotations'][gap]:.2f}",
        "most_turns": f"{most_turns:.0f}",
        "small_first": ends[0],
        "small_last": ends[1],
        "keeps_rotations": f"{small['rotations']:.0%}",
        **{f"{name}_{pair}": f"{c:.1f}" for name, both in divided.items() for pair, c in zip((2, 3), both)},
        "misnamed": misnamed,
        "misnamed_factor": f"{real[1] ** 2:.2f}",
    }


def hand_numbers():
    r"""The table *By hand*: frequencies, the slow pair's largest angle and its cosine, what one token tells."""
    values, far_cosine = {}, {}
    for name, scheme in HAND.items():
        fast, slow = scheme()[0].tolist()
        far_cosine[name] = math.cos(63 * slow)
        values |= {
            f"hand_{name}_0": f"{fast:.3f}",
            f"hand_{name}_1": f"{slow:.3f}",
            f"hand_{name}_far": f"{63 * slow:.3f}",
            f"hand_{name}_cos": f"{far_cosine[name]:.3f}",
            f"hand_{name}_next": f"{2 - math.cos(fast) - math.cos(slow):.3f}",
        }
    assert abs(HAND["ntk"]()[0][1] - 0.025) < 1e-12 and abs(HAND["parts"]()[0][0] - 2 / math.pi) < 1e-12
    assert far_cosine["plain"] > 0.999 > 0.01 > abs(far_cosine["linear"])
    return values


def check_short(linear, ntk, by_parts):
    r"""Hold the page's own lines against posenc. Errors: AssertionError."""
    for dim, s, base, trained in ((4, 4.0, 100.0, 16), (128, 8.0, 500_000.0, 8192)):
        torch.testing.assert_close(linear(dim, s, base), scaling.linear(dim, s, base=base)[0])
        torch.testing.assert_close(ntk(dim, s, base), scaling.ntk(dim, s, base=base)[0])
        theirs = scaling.llama3(dim, s, trained=trained, base=base)[0]
        torch.testing.assert_close(by_parts(dim, s, base, trained), theirs)


def card():
    r"""The chapter's card, as those of the methods look."""
    from IPython.display import Markdown

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


# Check it


def score(d, frequencies):
    r"""The score of one random query and one key, d tokens back; d need not be whole."""
    dim = 2 * len(frequencies)
    q, k = torch.randn(2, 1, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return (q * rope.rotate(k, torch.tensor([-d], dtype=torch.float64), frequencies)).sum()


def entropy(logits):
    r"""The entropy of the softmax over the last axis, in nats, the mean over the others."""
    return (logits.logsumexp(-1) - (logits.softmax(-1) * logits).sum(-1)).mean()


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


def added_entropy():
    r"""By how much the entropy grows as random logits become eight times as many."""
    draws = torch.randn(8, 2**20, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    added = (entropy(draws) - entropy(draws[:, : 2**17])).item()
    assert abs(added - math.log(8)) < 0.01
    return added


def check_table():
    r"""The errors as a printed table, and the entropy under it."""
    lines = [f"{claim:35s} {error:.0e}" for claim, error in check_errors().items()]
    entropies = f"{added_entropy():.3f}, ln 8 = {math.log(8):.3f}"
    return "\n".join([*lines, "", f"entropy added by 8 times the keys   {entropies}"])


# Break it


def cache_errors(trained=32, dim=16):
    r"""Decode token by token under dynamic NTK: the largest error of an output at each length.

    Returns: {"turned keys": [...], "unturned keys": [...]}, for a cache of keys as they were turned when they came in,
    and for one that holds them unturned.
    """
    scheme = partial(scaling.dynamic_ntk, dim, trained=trained)
    encoding = scaling.dynamic(dim, scheme)
    q, k, v = torch.randn(3, 1, 1, 3 * trained, dim, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    turned, errors = [], {"turned keys": [], "unturned keys": []}
    for t in range(3 * trained):
        here, past = torch.tensor([t]), slice(0, t + 1)
        w, _ = scheme(length=t + 1)
        turned.append(rope.rotate(k[:, :, t : t + 1], here, w))
        query = q[:, :, t : t + 1]
        stale = posenc.attention(rope.rotate(query, here, w), torch.cat(turned, 2), v[:, :, past])
        fresh = posenc.attention(query, k[:, :, past], v[:, :, past], encoding, pos_q=here, pos_k=torch.arange(t + 1))
        right = posenc.attention(*(x[:, :, past] for x in (q, k, v)), rope.rope(dim, inv_freq=w))[:, :, -1:]
        errors["turned keys"].append((stale - right).abs().max().item())
        errors["unturned keys"].append((fresh - right).abs().max().item())
    return errors


def cache_table(errors, trained=32):
    r"""`cache_errors` as a printed table: the largest up to the training length and beyond."""
    lines = [
        f"a cache of {name:22s} {max(values[:trained]):8.0e} {max(values[trained:]):8.0e}"
        for name, values in errors.items()
    ]
    return "\n".join(["largest error of an output         up to L   beyond", *lines])


def unseen_angles(trained=4096, s=8):
    r"""For plain frequencies, divided by s and times s: how many pairs meet new angles, and how new the last one's are.

    Returns: {name: (pairs, the largest angle in s L tokens over the largest in L tokens)}.
    """
    w = rope.inv_freq(128, dtype=torch.float64)
    angles = {}
    for name, frequencies in (("plain", w), (f"divided by {s}", w / s), (f"times {s}", w * s)):
        largest = (s * trained - 1) * frequencies
        unseen = (largest > trained * w) & (trained * w < 2 * math.pi)
        angles[name] = int(unseen.sum()), (largest / ((trained - 1) * w))[-1].item()
    return angles


def check_unseen(angles):
    r"""Assert that only frequencies divided by s meet no new angles. Errors: AssertionError."""
    meets = [pairs > 0 for pairs, _ in angles.values()]
    assert meets == [True, False, True], f"angles={angles} say that {meets} meet new angles, not [True, False, True]"


def refusal(factor):
    r"""What linear scaling says to a factor that it refuses. Errors: AssertionError where it takes the factor."""
    try:
        scaling.linear(128, factor)
    except ValueError as error:
        return str(error)
    raise AssertionError(f"factor={factor} went through: one below 1 must be refused")


def unseen_table(angles):
    r"""`unseen_angles` in printed words."""
    return "\n".join(
        f"{name:13s} {pairs:2d} of 64 pairs meet new angles, up to {times:4.1f} times the largest seen"
        for name, (pairs, times) in angles.items()
    )


def effective_keys():
    r"""To how many keys a query really attends, e^entropy, with YaRN's factor put in the right place and in wrong ones.

    Returns: {"before": among 4,096 keys, name of the place: among 32,768 keys}.
    """
    logits = 5**0.5 * torch.randn(32, 32768, generator=torch.Generator().manual_seed(2))  # the spread that fits 0.1
    t = scaling.yarn(128, 8.0, trained=4096)[1]
    factors = {"none": 1, "t on one of q, k": t, "t on both": t**2, "t² on both": t**4}
    counts = {"before": math.exp(entropy(logits[:, :4096].double()))}
    return counts | {name: math.exp(entropy((factor * logits).double())) for name, factor in factors.items()}


def ratios_off(counts):
    r"""How far each of `effective_keys` is from that before, as |ln ratio|: {name: off}."""
    return {name: abs(math.log(count / counts["before"])) for name, count in counts.items() if name != "before"}


def check_effective(counts):
    r"""Assert that the factor on both of q and k comes nearest, at less than half the error of none."""
    off = ratios_off(counts)
    assert min(off, key=off.get) == "t on both" and off["t on both"] < off["none"] / 2, off


def effective_table(counts):
    r"""`effective_keys` as a printed table."""
    lines = [f"{name:22s} among 32,768: {count:5.0f}" for name, count in counts.items() if name != "before"]
    return "\n".join([f"effective number of keys, among  4,096: {counts['before']:5.0f}", *lines])


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


def partial_words():
    r"""`partial_divisors` and `partial_gap`, printed."""
    right, wrong = partial_divisors()
    return (
        f"the slowest pair is divided by {right:.2f} with the lanes that turn, by {wrong:.2f} with D\n"
        f"log weights off by up to {partial_gap():.2f} with the factor on cos and sin, by 0 with it on all logits"
    )


# One verdict


def verdict_table():
    r"""The first reading's table: a row a scheme, made for the longest context and not trained on."""
    cells = {
        f"at {trained_length()}": lambda a: pm(text(a, key="price")),
        f"at {longest()}": lambda a: pm(text(a)[:, -1]),
        f"at {longest()}, cut": lambda a: pm(text(a, key="cut")[:, -1]),
        "far needles missed": lambda a: f"{wrong_share(a, 'before', 'far').mean():.1%}",
    }
    return table(["scheme", *cells], [[NAMES[a], *(cell(a) for cell in cells.values())] for a in VERDICT])


def claim_words():
    r"""How many of the predictions' claims came true, failed, or neither."""
    outcomes = [outcome for claims in verdicts().values() for _, outcome in claims]
    counts = {word: outcomes.count(word) for word in ("came true", "failed", "not decided")}
    said = ", ".join(f"{count} {word}" for word, count in counts.items() if count)
    return f"of {len(outcomes)} claims {said}"


# What was predicted, and measured?


def two_panels(height=5):
    r"""A figure of two panels, one above the other, for before and after fine-tuning: (figure, [(axes, when)])."""
    figure, panels = plt.subplots(2, 1, figsize=(4.4, height), layout="constrained", sharex=True)
    for axes, when in zip(panels, WHEN):
        axes.set_title(f"{when} fine-tuning", loc="left")
    return figure, list(zip(panels, WHEN))


def lengths_axis(axes, ticks):
    r"""A logarithmic axis of lengths with these ticks."""
    axes.set_xscale("log", base=2)
    axes.set_xticks(ticks, [str(n) for n in ticks])
    axes.set_xlim(ticks[0] / 1.15, ticks[-1] * 1.15)  # the margin of what was drawn before is a linear axis's


def draw_schemes(axes, x, values, schemes=tuple(LOOKS)):
    r"""One line a scheme with bars over seeds; `values(scheme)` is [seed, x]."""
    for name in schemes:
        (color, marker, line), losses = LOOKS[name], values(name)
        axes.errorbar(
            x,
            losses.mean(0),
            losses.std(0, ddof=1),
            color=color,
            marker=marker,
            linestyle=line,
            capsize=2,
            markersize=5,
            label=NAMES[name],
        )


def draw_together(axes, x, lines, words):
    r"""Thin gray lines [line, x] of schemes that do not part, and one name for them, at the middle of their ends."""
    order = np.argsort(lines[:, -1])
    for place, line in enumerate(order):
        label = words if place == len(order) // 2 else None
        axes.plot(x, lines[line], color="C7", linewidth=1, label=label)


def draw_cut(axes, x, values):
    r"""The gray line of plain RoPE with attention cut: values [seed, x]."""
    axes.plot(x, values.mean(0), color="0.45", linestyle="--", label="plain, attention cut")


def loss_figure():
    r"""Loss against the length of the context, before and after fine-tuning."""
    figure, panels = two_panels(height=5.4)
    lengths = study()["lengths"]
    for axes, when in panels:
        draw_schemes(axes, lengths, partial(text, when=when))
        draw_cut(axes, lengths, text("plain", "before", "cut"))
        lengths_axis(axes, lengths)
        axes.set(ylabel="loss, nats per character")
    axes.set_xlabel("context, characters")
    name_lines(*(axes for axes, _ in panels))
    return figure


def more_verdict(values, than=0.0, by=0.0):
    r"""Verdict on "values exceed `than` by more than `by`", seed by seed."""
    return judge((np.asarray(values) - than).tolist(), by, "rises")


def near_verdict(one, other):
    r"""Verdict on "the two are within the tolerance of each other", seed by seed."""
    apart, tolerance = (np.asarray(one) - other).tolist(), short_long()["tolerance"]
    return worst_verdict(judge(apart, tolerance, claim) for claim in ("holds", "stays"))


def worst_verdict(verdicts):
    r"""Verdict on several claims at once: the worst of theirs."""
    verdicts = list(verdicts)
    return next((v for v in ("failed", "not decided") if v in verdicts), "came true")


def verdicts():
    r"""Of each scheme's frozen prediction, its claims and what became of them: {scheme: [(claim, verdict)]}."""
    up = {scheme: rise(scheme) for scheme in NAMES}
    tolerance = short_long()["tolerance"]
    best = min((a for a in NAMES if a != "longrope"), key=lambda a: up[a].mean())
    after = text("plain", "after")[:, -1] - trained_loss()
    ntks, yarns = ("ntk", "dynamic_ntk"), ("yarn", "yarn_rotations")
    return {
        "plain": [
            ("rises most", worst_verdict(more_verdict(up["plain"], up[a]) for a in NAMES if a != "plain")),
            ("after, most of the rise goes", more_verdict(up["plain"] / 2, after)),
        ],
        "linear": [
            ("rises", more_verdict(up["linear"], by=tolerance)),
            ("less than plain", more_verdict(up["plain"], up["linear"])),
            ("after, near the trained loss", near_verdict(text("linear", "after")[:, -1], trained_loss())),
        ],
        "ntk": [
            (
                "smallest rise but for YaRN's",
                worst_verdict(more_verdict(up[a], up["ntk"]) for a in NAMES if a not in (*ntks, *yarns)),
            )
        ],
        "dynamic_ntk": [("the same as NTK", "came true" if dynamic_is_static() else "failed")],
        "yarn": [
            (
                "smallest rise of those without a search",
                worst_verdict(more_verdict(up[a], up["yarn"]) for a in NAMES if a not in ("longrope", "yarn")),
            )
        ],
        "yarn_rotations": [("close to the other ramp", near_verdict(up["yarn_rotations"], up["yarn"]))],
        "llama3": [("a rise like NTK's", near_verdict(up["llama3"], up["ntk"]))],
        "longrope": [("at least as good as the best other", judge((up["longrope"] - up[best]).tolist(), 0.0, "holds"))],
        "base": [
            ("rises at L already", more_verdict(text("base")[:, 0], trained_loss(), tolerance)),
            ("after, repaired", near_verdict(text("base", "after")[:, 0], text("plain", "after")[:, 0])),
        ],
    }


def dynamic_is_static():
    r"""Whether dynamic NTK, at each length, is the same model as NTK made for that length."""
    return np.abs(text("dynamic_ntk") - text("ntk")).max() < 1e-5


def predictions():
    r"""The predictions, a line of Markdown for each scheme, with what was measured and the verdicts."""
    from IPython.display import Markdown

    lines = []
    for name, claims in verdicts().items():
        words = "; ".join(f"{claim}: **{outcome}**" for claim, outcome in claims)
        measured = f"rise {pm(rise(name))}, after fine-tuning {pm(rise(name, 'after'))}"
        lines.append(f"- **{NAMES[name]}.** *{study()['predictions'][name]}* Measured: {measured}. Verdict: {words}.")
    return Markdown("\n".join(lines))


def loss_rows():
    r"""The rows of the table of losses: {scheme: [whole, cut and price before, the same after]}, means over seeds."""
    rows = {}
    for name in NAMES:
        cells = [text(name, when, key) for when in WHEN for key in ("whole", "cut", "price")]
        rows[name] = [(cell if cell.ndim == 1 else cell[:, -1]).mean() for cell in cells]
    return rows


def loss_table():
    r"""`loss_rows`, printed."""
    lines = [
        f"{'':20s} before                 after",
        f"{'':20s} {longest():5d}    cut  price {longest():7d}    cut  price",
    ]
    for name, row in loss_rows().items():
        lines.append(f"{NAMES[name]:20s}" + "{:6.2f} {:6.2f} {:6.2f}  {:6.2f} {:6.2f} {:6.2f}".format(*row))
    trained = f"which is {trained_loss().mean():.2f} as trained"
    return "\n".join([*lines, "", f"price: the loss at {trained_length()}, {trained}"])


def table_numbers():
    r"""What the table of losses shows: which schemes lose near keys, which far ones, which are worth their training."""
    whole, near_keys, tuned = at_longest(), at_longest(key="cut"), at_longest("after")
    price, trained = text("linear", key="price"), trained_loss()
    assert dynamic_is_static()
    # linear: near keys carry all the damage; NTK: far ones do
    assert (np.abs(whole["linear"] - near_keys["linear"]) < 0.1).all() and (price > trained + 1).all()
    assert (near_keys["ntk"] < trained + 0.1).all() and (whole["ntk"] > trained + 1).all()
    rivals = ("plain", "linear", "ntk", "yarn_rotations")
    assert all((whole[a] < whole[b]).all() for a in BY_PARTS for b in rivals)
    better = [a for a in tuned if (tuned[a] < tuned["plain"]).all() and a != "dynamic_ntk"]
    worse = [a for a in tuned if (tuned[a] > tuned["plain"]).all()]
    champion = min(tuned, key=lambda a: tuned[a].mean())
    assert set(better) >= set(BY_PARTS) and "linear" in worse
    assert (near_keys["plain"] < min(values.mean() for values in tuned.values())).all()  # nobody beats the cut
    check_places()
    lost = {a: (near_keys[a] - near_keys["plain"]).mean() for a in VERDICT}  # among near keys
    shares = sorted(lost[a] / lost["linear"] for a in VERDICT[-3:])  # "the last three"
    assert set(VERDICT[-3:]) == set(BY_PARTS) and shares[-1] < 0.4
    return {
        "t_best": pm(tuned[champion]),
        "champion": NAMES[champion],
        "better": ", ".join(NAMES[a] for a in better),
        "worse": " and ".join(NAMES[a] for a in worse),
        "parts_least": f"{shares[0]:.0%}",
        "parts_most": f"{shares[-1]:.0%}",
        "t_worse": " and ".join(f"{tuned[a].mean():.2f}" for a in worse),
    }


def check_places():
    r"""Assert what the page says of losses by place: where neighbors are broken, they are high before L already."""
    double = (places() >= 2 * trained_length()) & (places() < 3 * trained_length())
    inside = {a: text(a, key="by_position")[:, late()].mean(1) for a in ("plain", "linear", "ntk")}
    beyond = {a: text(a, key="by_position")[:, double].mean(1) for a in ("plain", "ntk")}
    assert (inside["linear"] > inside["plain"] + 0.5).all() and (inside["ntk"] < inside["plain"] + 0.1).all()
    assert (beyond["ntk"] < beyond["plain"]).all()  # NTK breaks later than plain RoPE


def position_figure():
    r"""Loss by place in the longest windows, before and after fine-tuning; schemes that end alike share a name."""
    figure, panels = two_panels()
    for axes, when in panels:
        losses = {name: text(name, when, "by_position").mean(0) for name in LOOKS}
        alike = [name for name in LOOKS if when == "after" and losses[name].mean() < losses["plain"].mean()]
        if alike:
            draw_together(axes, places(), np.array([losses[name] for name in alike]), f"the {len(alike)} others")
        for name in [name for name in LOOKS if name not in alike]:
            color, marker, line = LOOKS[name]
            look = {"color": color, "marker": marker, "linestyle": line, "markersize": 4, "markevery": 4}
            axes.plot(places(), losses[name], label=NAMES[name], **look)
        axes.axvline(trained_length(), color="0.6", linestyle=":")
        axes.set(ylabel="loss, nats per character")
    axes.set_xlabel("place in the window, characters")
    name_lines(*(axes for axes, _ in panels))
    return figure


def needle(scheme, when="before"):
    r"""A scheme's shares of wrong answers: [seed, distance]."""
    return np.array(study()["schemes"][scheme]["needle"][when])


def unseen_distances():
    r"""Which of the needle's distances training did not show: a mask [distance]."""
    return np.array(study()["distances"]) > trained_length()


def wrong_share(scheme, when, which):
    r"""Share of wrong answers [seed] over needles "near" (within training's distances) or "far"."""
    return needle(scheme, when)[:, unseen_distances() if which == "far" else ~unseen_distances()].mean(1)


def clean():
    r"""The schemes that miss hardly any far needle before fine-tuning."""
    return [name for name in LOOKS if wrong_share(name, "before", "far").mean() < 0.015]


def needle_figure():
    r"""Shares of wrong answers by the needle's distance, before and after fine-tuning: a name for each that rises."""
    figure, panels = two_panels()
    distances, finders = study()["distances"], clean()
    for axes, when in panels:
        low = np.array([needle(name, when).mean(0) for name in finders])
        words = f"\nat most {low.max():.2f}" if low.any() else " 0"
        draw_together(axes, distances, low, f"the {len(finders)} others:{words}")
        draw_schemes(axes, distances, partial(needle, when=when), [name for name in LOOKS if name not in finders])
        draw_cut(axes, distances, np.array(study()["needle_cut"]))
        axes.axvline(trained_length(), color="0.6", linestyle=":")
        lengths_axis(axes, distances)
        axes.set(ylabel="share wrong", ylim=(-0.03, 1.03))
    axes.set_xlabel("distance of the needle, tokens")
    name_lines(*(axes for axes, _ in panels))
    return figure


def needle_table():
    r"""Shares of wrong answers to near and far needles, printed."""
    lines = [f"{'share wrong':14s}  before       after", f"{'':14s}  near   far   near   far"]
    for name in LOOKS:
        cells = [f"{wrong_share(name, w, d).mean():6.2f}" + " " * (d == "far") for w in WHEN for d in ("near", "far")]
        lines.append(f"{NAMES[name]:14s}" + "".join(cells))
    return "\n".join(lines)


def needle_numbers():
    r"""Who misses far needles."""
    miss = {(a, w): wrong_share(a, w, "far") for a in LOOKS for w in WHEN}
    assert {"linear", "yarn", "yarn_rotations", "llama3", "longrope"} <= set(clean())
    assert 0.05 < miss["ntk", "before"].mean() < 0.3 and (miss["plain", "before"] > 0.3).all()
    assert miss["plain", "after"].mean() > 0.3
    return {
        "n_plain": f"{miss['plain', 'before'].mean():.0%}",
        "n_plain_after": f"{miss['plain', 'after'].mean():.0%}",
        "n_ntk": f"{miss['ntk', 'before'].mean():.0%}",
        "n_base": f"{miss['base', 'before'].mean():.0%}",
        "n_clean": f"{max(miss[a, 'before'].mean() for a in clean()):.1%}",
        "n_cut": f"{np.array(study()['needle_cut'])[:, unseen_distances()].mean():.0%}",
    }
