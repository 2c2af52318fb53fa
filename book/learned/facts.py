r"""What the chapter *Learned positions* computes and draws beside its text, in the order of the page."""

from functools import cache

import matplotlib.pyplot as plt
import numpy as np
import torch

import posenc
from posenc.embed.learned import learned, resize
from posenc.lab.experiments import judge, load_results, mean_and_spread, verdict
from posenc.lab.experiments.plots import signed
from posenc.lab.train.measures import BLOCKS
from posenc.lab.train.settings import Settings
from posenc.lab.train.trainer import learning_rate
from posenc.lab.write import interval, rate_tried, say_all

BLUE, ORANGE, GRAY, INK = "#0072b2", "#c45500", "#6b7280", "#1f2933"
#: The places of the failure, among how many, and the lanes of the sinusoid that is to point at them.
BOXES, PLACES, LANES = [2, 9, 10, 17, 30, 31, 47, 58], 64, 16
RESULTS = load_results("learned_table")
SEEDS = len(RESULTS["seeds"])


def numbers():
    r"""Give the prose the numbers that are no plain reading of a frozen file."""
    for part in (unread_number, decay_numbers, shift_numbers, hand_numbers, study_numbers, injected_numbers):
        say_all("learned", part())


def volumes():
    r"""The loss at the training length with the sinusoid at three volumes: {volume: (mean, spread)}."""
    results = load_results("sinusoidal_volume")
    chosen = {"none": 0.0, "a tenth": results["drowned"], "full": 1.0}
    runs = {name: results["methods"][f"{volume:.4f}"]["whole"] for name, volume in chosen.items()}
    losses = {name: mean_and_spread([row[0] for row in whole]) for name, whole in runs.items()}
    assert abs(losses["a tenth"][0] - losses["none"][0]) < 0.1 < losses["none"][0] - losses["full"][0]
    return losses


@cache
def boxes():
    r"""Eight places among 64, and the best that a matrix reads of them from the sinusoid: two tensors [64]."""
    wanted = torch.zeros(PLACES, 1, dtype=torch.float64)
    wanted[BOXES] = 1
    code = posenc.sinusoidal.table(torch.arange(PLACES, dtype=torch.float64), LANES)
    code = torch.cat((code, torch.ones(PLACES, 1, dtype=torch.float64)), dim=1)  # and a constant
    reading = code @ torch.linalg.lstsq(code, wanted, driver="gelsd").solution  # by the best matrix there is
    return wanted[:, 0], reading[:, 0]


def unread_number():
    r"""The share of the variance of `boxes` that no matrix reads from the sinusoid."""
    wanted, reading = boxes()
    unread = ((reading - wanted).square().sum() / (wanted - wanted.mean()).square().sum()).item()
    assert unread > 0.5
    return {"unread": f"{unread:.0%}"}


def failure_figure():
    r"""What a quiet sinusoid gives, and what no sinusoid can say."""
    losses, (wanted, reading) = volumes(), boxes()
    figure, (left, right) = plt.subplots(1, 2, figsize=(4.4, 2), layout="constrained")
    means, spreads = zip(*losses.values())
    left.bar(list(losses), means, yerr=spreads, color=GRAY)
    for place, mean in enumerate(means):
        left.annotate(f"{mean:.2f}", (place, mean), (0, 5), textcoords="offset points", ha="center")
    left.set(ylabel="loss (nats)", xlabel="volume of the sinusoid", ylim=(0, 1.15 * max(means)))
    right.bar(range(PLACES), wanted, color=GRAY, label="boxes")
    right.plot(reading, color=ORANGE, lw=2, label="read from sines")
    right.set(xlabel="position", ylabel="value", ylim=(-0.3, 1.1))
    figure.legend(loc="outside lower right", ncols=2)
    return figure


def trained_length():
    r"""L, the length of the training windows and the number of the table's trained rows."""
    return RESULTS["length"]


def trained_rows():
    r"""The table that a small model has written, of the first seed: [L, C]."""
    return torch.tensor(RESULTS["rows"][0])


def table_figure():
    r"""The sinusoid's table beside the learned one."""
    rows = trained_rows()
    sines = posenc.sinusoidal.table(torch.arange(trained_length()), RESULTS["settings"]["dim"])
    figure, panels = plt.subplots(1, 2, figsize=(4.4, 2.4), layout="constrained", sharey=True)
    for axes, table, title in zip(panels, (sines, rows), ("sinusoid", "learned")):
        top = table.abs().quantile(0.99).item()
        axes.imshow(table, aspect="auto", cmap=signed(), vmin=-top, vmax=top)
        axes.set(title=title, xlabel="lane")
    panels[0].set_ylabel("position i")
    return figure


def row_lengths():
    r"""How long the rows of the table are, at the start and after training: two arrays [seeds, rows]."""
    return np.array(RESULTS["norms_start"]), np.array(RESULTS["norms"])


def kept_length():
    r"""What training leaves of the length of the rows that it never saw: [seeds, rows]."""
    start, end = row_lengths()
    return end[:, trained_length() :] / start[:, trained_length() :]


def decay_numbers():
    r"""What the theorem's product makes of a silent row, with the learning rates of this run."""
    chosen = RESULTS["rates"]["add"]
    settings = Settings(**RESULTS["settings"] | {"lr": chosen["lr"] * chosen["own"]})
    rates = [learning_rate(step, settings) for step in range(settings.steps)]
    product = np.prod([1 - rate * settings.weight_decay for rate in rates])
    assert abs(kept_length() - product).max() < 1e-4
    return {"rate": f"{np.mean(rates):.4f}", "product": f"{product:.3f}"}


def shift_losses(name):
    r"""The loss with all positions moved, for "learned" or "sinusoidal": [seeds, shifts]."""
    return np.array([seed[name] for seed in RESULTS["moved"]])


def shift_rise(name):
    r"""By how much the loss rises as all positions move by L: [seeds]."""
    return shift_losses(name)[:, RESULTS["shifts"].index(trained_length())] - shift_losses(name)[:, 0]


def shift_numbers():
    r"""What a shift within the table costs, and one beyond it."""
    shifts, window = RESULTS["shifts"], trained_length() // 2
    table, sinusoid = (shift_losses(name).mean(0) for name in ("learned", "sinusoidal"))
    for losses in (table, sinusoid):  # as the text says: the worst shift leaves some rows within, the last ones none
        assert window < shifts[losses.argmax()] < trained_length()
    assert abs(table[-1] - sinusoid[-1]) < 0.1
    return {
        "moved_learned_in": f"{np.ptp(table[: shifts.index(window) + 1]):.2f}",
        "moved_learned_out": f"{shift_rise('learned').mean():.2f}",
        "moved_sinusoidal_out": f"{shift_rise('sinusoidal').mean():.2f}",
    }


def hand_numbers():
    r"""The example by hand: one word three times, three rows, the weights of the last query."""
    x, rows = torch.tensor([1.0, 0, 0, 0]), torch.eye(4)[1:]
    y = (x + rows)[None, None]  # [B, H, T, D]
    _, weights = posenc.attention(y, y, y, return_weights=True)
    return {f"hand_{j}": f"{weight:.3f}" for j, weight in enumerate(weights[0, 0, -1].tolist())}


def check_short(make):
    r"""Assert that the page's own class, of N and C, adds the rows that posenc adds, and refuses both ends."""
    ours, theirs = make(8, 4), learned(8, 4).embed
    theirs.table.data.copy_(ours.table)
    x, place = torch.randn(2, 3, 4), torch.tensor([0, 5, 7])
    assert torch.equal(ours(x, place), theirs(x, place))
    for wrong in (-1, 8):
        try:
            ours(x[:, :1], torch.tensor([wrong]))
        except ValueError:
            continue
        raise AssertionError(f"position {wrong} went through")


def card_figure():
    r"""The card's picture: how long each row is after training, and how long the rows were at the start."""
    start, end = (norms.mean(0) for norms in row_lengths())
    shown, length = 3 * trained_length(), trained_length()
    figure, axes = plt.subplots(figsize=(4.4, 1.9), layout="constrained")
    axes.bar(range(shown), end[:shown], color=[BLUE] * length + [ORANGE] * (shown - length))
    axes.plot(start[:shown], color=INK, ls=":")
    axes.axvline(length - 0.5, color=GRAY, ls="--")
    axes.annotate("L", (length, end.max()), (4, 0), textcoords="offset points", va="top", color=INK)
    axes.set(xlabel="row", ylabel="length")
    return figure


def decayed_error(encoding, x, place, steps=20):
    r"""How far unused rows, after some steps of AdamW, are from rows that only decayed."""
    table = encoding.embed.table
    unused = torch.ones(len(table), dtype=torch.bool)
    unused[place.flatten()] = False
    before = table.detach().clone()
    optimizer = torch.optim.AdamW(encoding.parameters(), lr=0.01, weight_decay=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        encoding.embed(x, place).square().sum().backward()
        optimizer.step()
    return table[unused] - before[unused] * (1 - 0.01 * 0.1) ** steps


def check_errors(places=40, dim=16, narrow_dim=5):
    r"""The largest error of each claim that the chapter makes: {claim: error}. Seeds torch's own generator."""
    torch.manual_seed(0)
    table, x = torch.randn(places, dim, dtype=torch.float64), torch.randn(2, 9, dim, dtype=torch.float64)
    encoding = learned(places, dim).double()
    encoding.embed.table.data.copy_(table)
    place = torch.tensor([[0, 1, 2, 3, 4, 5, 6, 7, 8], [3, 3, 4, 9, 12, 30, 31, 38, 39]])
    one_hot = torch.nn.functional.one_hot(place, places).double()
    gaps = {"a lookup is a product with one-hot rows": encoding.embed(x, place) - (x + one_hot @ table)}

    sines = posenc.sinusoidal.table(torch.arange(places, dtype=torch.float64), dim)
    encoding.embed.table.data.copy_(sines)
    sinusoid = posenc.make("sinusoidal").embed(x, place.double())
    gaps["with the sinusoid in its rows it is the sinusoid"] = encoding.embed(x, place) - sinusoid

    narrow = torch.randn(places, narrow_dim, dtype=torch.float64)
    w = torch.randn(dim + narrow_dim, dim, dtype=torch.float64)
    concatenated = torch.cat((x, narrow[place]), dim=-1) @ w
    gaps["concatenating is adding"] = concatenated - (x @ w[:dim] + (narrow @ w[dim:])[place])

    grad = torch.randn_like(x)
    encoding.embed(x, place).backward(grad)
    summed = torch.zeros_like(table).index_add(0, place.flatten(), grad.flatten(0, 1))
    gaps["a row's gradient is the sum over its tokens"] = encoding.embed.table.grad - summed
    gaps["unused rows only decay"] = decayed_error(encoding, x, place)

    theirs = torch.nn.functional.interpolate(table.T[None], size=97, mode="linear", align_corners=True)[0].T
    gaps["PyTorch's interpolation, corners aligned, agrees"] = resize(table, 97) - theirs
    gaps["same size, same rows"] = resize(table, places) - table
    gaps["the class row stays"] = resize(table, 97, prefix=1)[0] - table[0]
    return {claim: gap.abs().max().item() for claim, gap in gaps.items()}


def study_numbers():
    r"""What became of the prediction, and the losses on validation text by the rate of the table."""
    words = verdict(load_results("train_short_test_long"), "learned").words
    tried = {f"rate_{name}": f"{rate_tried('learned', 0.006, own):.2f}" for name, own in (("common", 1), ("own", 10))}
    return tried | {"verdict": words}


def in_blocks(name):
    r"""Two losses, or one, of each block of windows, means over the seeds: [2, blocks]."""
    return np.reshape(RESULTS["in_blocks"][name], (-1, BLOCKS))


def injection_losses(arm):
    r"""Losses at the training length with position brought in by this arm: [seeds and blocks], as `judge` has them."""
    return np.append([seed[arm]["loss"] for seed in RESULTS["injected"]], in_blocks(arm))


def stretch(arm, multiple, kind, end=-1):
    r"""Losses of a model whose table was made to reach `multiple` L, "whole" or "tuned", there: [seeds and blocks]."""
    name = f"{arm} {multiple}"
    return np.append([seed[name][kind][end] for seed in RESULTS["stretched"]], in_blocks(f"{name} {kind}")[end])


def gain_share():
    r"""The share of the sinusoid's gain that the table reaches, with enough steps: [seeds and blocks]."""
    nope, add, sinusoidal = (injection_losses(arm) for arm in ("nope", "add", "sinusoidal"))
    return (nope - add) / (nope - sinusoidal)


def claims():
    r"""What the frozen predictions claim: (prediction, what is measured, [seeds and blocks], tolerance, claim)."""
    by_place = np.diff([seed["learned"] for seed in RESULTS["by_place"]])[:, 1]  # from the last bin of L/2 within L
    moved, bins = (
        np.diff(in_blocks(name), axis=0)[0] for name in ("moved by 0, by L", "last bin within L, first beyond")
    )
    alike, start, end = (np.array(RESULTS[name]) for name in ("centered", "norms_start", "norms"))
    trained = slice(trained_length())
    growth = end[:, trained].mean(1) / start[:, trained].mean(1)
    here, add = stretch("beyond", 2, "whole", 0), injection_losses("add")  # of the table as it was trained, at L
    tuned = {arm: stretch(arm, 2, "tuned") for arm in ("resized", "beyond")}
    return [
        ("volume", "table below NoPE", add - injection_losses("nope"), 0.2, "falls"),
        ("volume", "growth of a row", growth, 5, "rises"),
        ("smooth", "likeness, offset 1 to 10", alike[:, -1, 10] - alike[:, -1, 1], 0, "falls"),
        ("cliff", "ids moved by L", np.append(shift_rise("learned"), moved), 0.3, "rises"),
        ("cliff", "first bin beyond L", np.append(by_place, bins), 0.3, "rises"),
        ("cliff", "loss of length beyond L", 1 - kept_length().mean(1), 0.01, "holds"),
        ("stretched", "resized to 2 L, at 2 L", stretch("resized", 2, "whole") - here, 0.2, "rises"),
        ("stretched", "resized to 8 L, at 8 L", stretch("resized", 8, "whole") - here, 0.2, "rises"),
        ("stretched", "resized to 2 L, at L", stretch("resized", 2, "whole", 0) - here, 0.2, "rises"),
        ("tuned", "resized to 2 L, tuned", tuned["resized"] - here, 0.1, "holds"),
        ("tuned", "beside untrained, tuned", tuned["resized"] - tuned["beyond"], 0, "falls"),
        ("concat", "worse than adding", injection_losses("concat") - add, 0.05, "holds"),
        ("concat", "better than adding", add - injection_losses("concat"), 0.05, "holds"),
        ("layers", "worse than the input", injection_losses("layer_qkv") - add, 0, "holds"),
        ("layers", "better than the input", add - injection_losses("layer_qkv"), 0.1, "holds"),
        ("patience", "share of the sine's gain", gain_share(), 0.5, "rises"),
    ]


def verdict_table():
    r"""Claims and what became of each, printed."""
    lines = [f"{'prediction':10} {'measured':26} {'change':>7}  spread"]
    for name, what, values, tolerance, claim in claims():
        change, spread = mean_and_spread(values[:SEEDS].tolist())
        words = {"rises": f"> {tolerance:g}", "falls": f"< {-tolerance:g}", "holds": f"≤ {tolerance:g}"}[claim]
        became = judge(values.tolist(), tolerance, claim, SEEDS if len(values) > SEEDS else None)
        lines.append(f"{name:10} {what:26} {change:+7.3f}  {spread:.3f}  {words:6} {became}")
    return "\n".join(lines)


def injected_numbers():
    r"""What the tables cost in parameters, by how much others differ from adding, and the share of the gain."""
    seed, add = RESULTS["injected"][0], injection_losses("add")
    gained, beside = gain_share()[:SEEDS].mean(), interval((add - injection_losses("sinusoidal")).tolist(), 3, SEEDS)
    assert abs(gained - 1) < 0.1 and kept_length().mean() < 0.99  # as the text says
    values = {"gained": f"{gained:.0%}", "beside_sine": beside}
    for arm in ("add", "concat", "concat_narrow"):
        values[f"count_{arm}"] = f"{seed[arm]['parameters'] - seed['nope']['parameters']:,}"
    told = {"concat": "rises", "concat_narrow": "rises", "layer_qk": "falls"}
    less = {arm: (injection_losses(arm) - add).tolist() for arm in (*told, "layer_qkv")}
    assert all(judge(less[arm], 0.0, claim, SEEDS) == "came true" for arm, claim in told.items())
    return values | {f"diff_{arm}": interval(each, 3, SEEDS) for arm, each in less.items()}
