r"""What the chapter *Inside a pretrained model* computes and draws beside its text, from one frozen file."""

import math
import statistics
from functools import cache

import matplotlib.pyplot as plt
import numpy
import torch

from posenc import configs
from posenc.lab.experiments import half_width, load_results
from posenc.lab.figures import pretrained as figure
from posenc.lab.pages import commit_words, interval, table
from posenc.rotate.rope import inv_freq

#: What SmolLM2-135M's config.json says about position and size.
CONFIG = {
    "model_type": "llama",
    "num_hidden_layers": 30,
    "hidden_size": 576,
    "num_attention_heads": 9,
    "max_position_embeddings": 8192,
    "rope_theta": 100000.0,
}
BLUE, GRAY = "#0072b2", "#6b7280"
#: What is done to the pairs, or to the first tokens, at four times the length -> the condition.
STOPPED = {
    "nothing": "4 distance",
    "20 fast pairs": "4 distance, fast 20",
    "6 slowest pairs": "4 distance, slow 6",
    "12 slow pairs": "4 distance, slow 12",
    "all 32 pairs": "4 distance, all 32",
    "first tokens near": "4 distance, sink near",
}


@cache
def results():
    r"""The frozen results. Errors: ValueError where the model is another, or a condition lacks a window."""
    frozen = load_results("pretrained")
    reading, windows = configs.read(CONFIG), frozen["settings"]["windows"]
    w = reading.layers[0].plain
    if max(abs(a - b) for a, b in zip(w, frozen["inv_freq"], strict=True)) > 1e-6:
        raise ValueError("pretrained must hold the frequencies of CONFIG; measure it anew")
    short = [name for name, values in frozen["losses"].items() if len(values) != windows]
    if short:
        raise ValueError(f"pretrained must hold {windows} windows of each condition, not of {short}")
    return frozen


def numbers():
    r"""All numbers of the prose."""
    return model_numbers() | head_numbers() | pair_numbers() | study_numbers() | loss_numbers() | table_numbers()


def model_numbers():
    r"""What the model is, and what is new to it at four times its length."""
    frozen, reading = results(), configs.read(CONFIG)
    long = reading.at(4 * figure.TRAINED).unseen(0)
    w = figure.frequencies()
    assert long.unturned == long.beyond == figure.PAIRS - figure.first_slow()
    return {
        "layers": figure.LAYERS,
        "heads": figure.HEADS,
        "all_heads": figure.LAYERS * figure.HEADS,
        "pairs": figure.PAIRS,
        "trained": f"{figure.TRAINED:,}",
        "long": f"{4 * figure.TRAINED:,}",
        "slow": long.unturned,
        "first_slow": figure.first_slow(),
        "slowest_degrees": f"{math.degrees(w[-1].item() * (figure.TRAINED - 1)):.0f}",
        "slowest_wave": f"{2 * math.pi / w[-1].item():,.0f}",
        "unseen_double": f"{reading.at(2 * figure.TRAINED).unseen(0).scores:.0%}",
        "unseen_long": f"{long.scores:.0%}",
        "tokens": f"{frozen['tokens']:,}",
        "windows": frozen["settings"]["windows"],
        "targets": frozen["settings"]["targets"],
        "sink": frozen["settings"]["sink"],
        "looked": len(frozen["looked"]),
        "hash": frozen["weights"]["sha256"][:12],
        "commit": commit_words(frozen["commit"]),
        "versions": f"{frozen['versions']}, {frozen['libraries']}",
    }


# Where heads look


@cache
def curves():
    r"""Each head's mean score with content kept fixed, at seen and unseen distances: [LAYERS * HEADS, n] for both.

    Seen are every 8th of the distances 1 .. 8,191, unseen every 32nd from there to four times the trained length.
    """
    seen = torch.arange(1, figure.TRAINED, 8)
    unseen = torch.arange(figure.TRAINED, 4 * figure.TRAINED, 32)
    heads = [(layer, head) for layer in range(figure.LAYERS) for head in range(figure.HEADS)]
    return tuple(torch.stack([figure.held_curve(*which, d) for which in heads]) for d in (seen, unseen))


def head_numbers():
    r"""Where the weight is, and what distance does to the scores, over all heads."""
    share, before = figure.shares(), figure.heads()["weight"][..., 1]
    kind, far = share.argmax(-1), share[..., 3]
    (layer, head), (far_layer, far_head) = (divmod(int(x.argmax()), figure.HEADS) for x in (before, far))
    seen, unseen = curves()
    fall, back = seen[:, 0] - seen[:, -1], unseen.max(1).values - seen.max(1).values
    return {
        "first_kind": int((kind == 0).sum()),
        "first_mean": f"{share[..., 0].mean():.0%}",
        "first_half": int((share[..., 0] > 0.5).sum()),
        "first_early": f"{share[:10, :, 0].mean():.0%}",
        "first_late": f"{share[10:, :, 0].mean():.0%}",
        "far_early": f"{far[:10].mean():.0%}",
        "far_late": f"{far[10:].mean():.0%}",
        "before_share": f"{before.max():.0%}",
        "before_layer": layer,
        "before_head": head,
        "far_share": f"{far.max():.0%}",
        "far_layer": far_layer,
        "far_head": far_head,
        "falls": int((fall > 1).sum()),
        "fall_mean": f"{fall.mean():.0f}",
        "returns": int((back > 1).sum()),  # by a logit or more
        "higher": int((back > 0).sum()),
        "back_mean": f"{(unseen.mean(1) - seen[:, len(seen[0]) // 2 :].mean(1)).mean():.0f}",
        "before_end": f"{seen[figure.HEADS * layer + head, -1]:.0f}",
        "before_beyond": f"{unseen[figure.HEADS * layer + head].max():.0f}",
        "before_near": f"{seen[figure.HEADS * layer + head].max():.0f}",
    }


# Which pairs carry the scores


def pair_numbers():
    r"""How much of the heads' energy is on which pairs, and how much of it distance alone makes."""
    energy, slow, position = figure.heads()["energy"], figure.slow_shares(), figure.position_energy()
    share = (energy / energy.sum(-1, keepdim=True)).mean((0, 1))
    first, w = figure.first_slow(), figure.frequencies()
    degrees = torch.rad2deg(w * (figure.TRAINED - 1))

    assert share.topk(3).indices.sort().values.tolist() == [22, 23, 24]

    def alone(pairs):
        return f"{position[..., pairs].sum() / energy[..., pairs].sum():.0%}"

    return {
        "slow_mean": f"{slow.mean():.0%}",
        "slow_even": f"{(figure.PAIRS - first) / figure.PAIRS:.0%}",
        "slow_most": int((slow > 0.5).sum()),
        "fast_mean": f"{share[:10].sum():.0%}",
        "broad_first": 22,
        "broad_last": 24,
        "broad_share": f"{share[22:25].sum():.0%}",
        "broad_alone": alone(slice(22, 25)),
        "broad_waves": f"{2 * math.pi / w[22]:,.0f} to {2 * math.pi / w[24]:,.0f}",
        "broad_degrees": f"{degrees[24]:.0f} to {degrees[22]:.0f}",
        "still_share": f"{share[26:].sum():.0%}",
        "still_alone": alone(slice(26, None)),
        "still_degrees": f"{degrees[26]:.0f}",
        "fast_alone": alone(slice(0, 10)),
        "all_alone": alone(slice(None)),
        "unturned_slow": interval(figure.rises("1 unturned 12"), 2),
        "unturned_fast": interval(figure.rises("1 unturned, fast 20"), 2),
    }


def study_numbers():
    r"""What the slow pairs of the book's own small model have, by the same definition: less than a turn in training."""
    frozen = load_results("rope_closely")
    energy = torch.tensor([head["energy"] for head in frozen["heads"]])
    turns = (frozen["settings"]["length"] - 1) * inv_freq(2 * energy.shape[1], dtype=torch.float64) / (2 * math.pi)
    slow = turns < 1
    share = (energy / energy.sum(-1, keepdim=True)).mean(0)
    first = int(slow.nonzero()[0])
    assert share[slow].sum() < slow.double().mean()  # "less than their number"
    return {
        "study_slow": int(slow.sum()),
        "study_others": int(slow.sum()) - 1,
        "study_even": f"{slow.double().mean():.0%}",
        "study_share": f"{share[slow].sum():.0%}",
        "study_first": f"{share[first]:.0%}",
        "study_turn": f"{turns[first]:.0%}",
        "study_rest": f"{share[first + 1 :].sum():.0%}",
    }


# Longer than trained


def loss_numbers():
    r"""The losses and rises that the prose names, each rise with its 95% interval over windows."""
    losses, places = results()["losses"], torch.tensor(results()["by_place"]).mean(0)
    mean = {name: statistics.fmean(figure.rises(name)) for name in losses}
    assert abs(mean["4 keys"]) < 0.2 and mean["4 yarn"] < 0.6 and 3 < mean["4 distance"] < mean["4 whole"]
    assert all(abs(mean[f"4 {way}"] - mean[f"1 {way}"]) < 0.1 for way in ("yarn", "linear"))
    assert max(abs(mean[f"1 {way}"]) for way in ("near", "jump")) < 0.05 < mean["2 cut"]
    assert abs(mean["2 cut, start kept"]) < 0.05 and abs(mean["4 distance, slow 12"]) < 0.05
    assert min(mean[f"4 distance, {what}"] for what in ("fast 20", "slow 6", "sink near")) > 2
    assert mean["1 unturned 12"] > 3 and mean["4 distance, slow 6"] > 0.5 * mean["4 distance"]  # "most of it remains"
    assert mean["4 yarn"] < mean["4 ntk"] and mean["4 yarn"] < mean["4 linear"]
    values = {f"rise_{name.replace(',', '').replace(' ', '_')}": interval(figure.rises(name), 2) for name in losses}
    return values | {
        "loss": f"{statistics.fmean(losses['1 plain']):.2f}",
        "loss_whole": f"{statistics.fmean(losses['4 whole']):.2f}",
        "guess": f"{math.log(results()['vocabulary']):.2f}",
        "place_first": f"{places[0]:.2f}",
        "place_rest": f"{places[1:].mean():.2f}",
        "place_first_end": f"{figure.TRAINED // len(places):,}",
    }


def stopped_figure():
    r"""The rise by distance alone, with pairs stopped at the last angle seen, or the first tokens kept near."""
    plot, axes = plt.subplots(figsize=(6.4, 2.8), layout="constrained")
    values = [figure.rises(name) for name in STOPPED.values()]
    means, halves = [statistics.fmean(v) for v in values], [half_width(v) for v in values]
    axes.errorbar(means, range(len(STOPPED)), xerr=halves, fmt="o", color=BLUE, capsize=2)
    axes.axvline(0, color=GRAY, linewidth=1)
    axes.set(yticks=range(len(STOPPED)), xlabel="rise of the loss, nats per token")
    axes.set_yticklabels(STOPPED)
    axes.invert_yaxis()
    return plot


# A table that was learned


def table_numbers():
    r"""What the rows of the second model look like."""
    rows = results()["table"]
    norms, variance = rows["norms"], rows["variance"]
    likeness = torch.tensor(list(rows["likeness"].values()))
    low, high = numpy.percentile(norms[1:127] + norms[128:-1], (5, 95))  # but for the three that stand alone
    inside = statistics.fmean(low <= norm <= high for norm in norms)
    assert 0.85 < inside < 0.95
    return {
        "rows": len(norms),
        "row_0": f"{norms[0]:.2f}",
        "row_low": f"{statistics.fmean(norms[1:120]):.2f}",
        "row_high": f"{statistics.fmean(norms[128:500]):.2f}",
        "row_most": f"{inside:.0%}",
        "row_from": f"{low:.2f}",
        "row_to": f"{high:.2f}",
        "row_127": f"{norms[127]:.2f}",
        "row_last": f"{norms[-1]:.2f}",
        "word": f"{rows['words']:.2f}",
        "variance_10": f"{variance[9]:.0%}",
        "like_1": f"{likeness[:, 1].mean():.2f}",
        "like_3": f"{likeness[:, 3].mean():.2f}",
        "like_6": f"{likeness[:, 6].mean():.2f}",
        "table_hash": rows["sha256"][:12],
    }


def table_figure():
    r"""The lengths of the rows, and how alike rows are that stand some positions apart."""
    rows = results()["table"]
    plot, (left, right) = plt.subplots(1, 2, figsize=(7.2, 3.2), layout="constrained")
    left.plot(range(1, len(rows["norms"])), rows["norms"][1:], color=BLUE)
    left.set(xlabel="position of the row", ylabel="length of the row", ylim=(0, None))
    for (band, values), style in zip(rows["likeness"].items(), ("-", "--", "-.", ":")):
        right.plot(values, style, label=band)
    right.axhline(0, color=GRAY, linewidth=1)
    right.set(xlabel="rows apart", ylabel="cosine, without the mean row")
    right.legend(fontsize="x-small", title="rows", title_fontsize="x-small")
    return plot


def heads_table():
    r"""The mean share of a head's weight by place, for groups of layers, as a table."""
    share, rows = figure.shares(), []
    for start, end in ((0, 2), (2, 10), (10, 20), (20, figure.LAYERS)):
        rows.append([f"{start} to {end - 1}", *(f"{x:.0%}" for x in share[start:end].mean((0, 1)))])
    return table(["layers", *figure.KINDS], rows)
