r"""What the chapter *RoPE, looked at closely* computes and draws beside its text."""

import math
from functools import cache, partial
from itertools import pairwise

import matplotlib.pyplot as plt
import torch

import posenc
from posenc.chapters.rope_closely.figures import turn_rounded
from posenc.lab.experiments import judge, load_results
from posenc.lab.experiments.plots import name_lines
from posenc.lab.write import pm, say_all, table
from posenc.rotate.rope import inv_freq, rope, rotate, xpos

R = load_results("rope_closely")
HALVES = {"bf16": torch.bfloat16, "fp16": torch.float16}
#: Losses by what turns: {arm: [seeds, lengths]}.
ARMS = {name: torch.tensor(rows) for name, rows in R["losses"].items()}
#: Head size and number of random queries of the tables of scores.
D, DRAWS = 128, 4000
#: The distances at which those are taken, and the one at which keys are aimed.
DISTANCES = (0, 1, 10, 40, 100, 1000, 10_000)
AIM = 40
#: Where the queries stand that look for the token before them.
QUERY_STARTS = (0, 256, 1024, 2048, 4096, 32_768)
#: What the three claims of the frozen predictions are called in the table.
CLAIMS = {"holds": "no rise", "falls": "falls", "stays": "no fall"}


def numbers():
    r"""Give the prose its numbers, and the table of verdicts."""
    from myst_nb import glue

    parts = (score_numbers, use_numbers, partial_numbers, arm_numbers, xpos_numbers, position_numbers)
    for part in (*parts, precision_numbers):
        say_all("closely", part())
    check_damage()
    glue("closely_verdicts", verdict_table(), display=False)


def turn(x, m):
    r"""x [N, D], all turned as a token at m."""
    return rotate(x, torch.full((len(x),), float(m), dtype=torch.float64), inv_freq(D, dtype=torch.float64))


@cache
def queries():
    r"""Random queries, and keys of three kinds: (q [DRAWS, D], {kind: k})."""
    q, k = torch.randn(2, DRAWS, D, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    return q, {"random q, k": k, "k = q": q, f"k = R({AIM}) q": turn(q, AIM)}


@cache
def scores():
    r"""Scores at each of DISTANCES, divided by sqrt(D): {kind of key: [[DRAWS], ...]}."""
    q, keys = queries()
    return {name: [(turn(q, d) * k).sum(-1) / math.sqrt(D) for d in DISTANCES] for name, k in keys.items()}


def score_table():
    r"""`scores`, printed: mean and spread by distance and kind of key."""
    lines = ["distance" + "".join(f"{name:>16s}" for name in scores())]
    for row, d in enumerate(DISTANCES):
        cells = "".join(f"{rows[row].mean():9.2f} ±{rows[row].std():5.2f}" for rows in scores().values())
        lines.append(f"{d:8,d}" + cells.replace("-0.00", " 0.00"))
    return "\n".join(lines)


@cache
def bounds():
    r"""Means for aimed keys at three distances: {distance: (|score|, content's factor, distance's factor)}."""
    q, keys = queries()
    k, w = keys[f"k = R({AIM}) q"], inv_freq(D, dtype=torch.float64)
    h = torch.complex(q[:, 0::2], -q[:, 1::2]) * torch.complex(k[:, 0::2], k[:, 1::2])
    steps = torch.diff(h, append=torch.zeros(len(h), 1, dtype=h.dtype)).abs().amax(1)
    found = {}
    for d in (0, AIM, 400):
        score, sums = (turn(q, d) * k).sum(-1).abs(), torch.polar(torch.ones_like(w), d * w).cumsum(0).abs().sum()
        assert (score <= steps * sums * (1 + 1e-12)).all()
        found[d] = score.mean().item(), steps.mean().item(), sums.item()
    return found


def bound_table():
    r"""`bounds`, printed."""
    lines = ["distance   score  content's factor  distance's  bound / score"]
    for d, (score, steps, sums) in bounds().items():
        lines.append(f"{d:8d}  {score:6.2f}  {steps:16.2f}  {sums:10.2f}  {steps * sums / score:13.0f}")
    return "\n".join(lines)


def score_numbers():
    r"""What falls with distance and what does not."""
    random, same, aimed = scores().values()
    for values in random:
        assert abs(values.mean()) < 4 / math.sqrt(DRAWS) and abs(values.std() - 1) < 4 / math.sqrt(2 * DRAWS)
    same, aimed = ([values.mean().item() for values in rows] for rows in (same, aimed))
    assert same[0] > 2 * same[4] > 2 * same[6] and max(same) == same[0]
    assert max(aimed) == aimed[DISTANCES.index(AIM)] and abs(max(aimed) - same[0]) < 1e-9
    (_, _, at_zero), (score, steps, sums) = bounds()[0], bounds()[AIM]
    assert steps * sums / score > 10
    near, far = (f"{v.mean() + 0.0:.2f} ± {v.std():.2f}".replace("-0.00", "0.00") for v in (random[1], random[-1]))
    return {
        "random_near": near,
        "random_far": far,
        "same_0": f"{same[0]:.1f}",
        "same_far": f"{same[-1]:.1f}",
        "bound_40": f"{steps * sums / score:.0f}",
        "bound_fall": f"{sums / at_zero:.0%}",
    }


def turns():
    r"""How often each pair of the study model turns within its window: [pairs]."""
    pairs = len(R["heads"][0]["energy"])
    return (R["settings"]["length"] - 1) * inv_freq(2 * pairs, dtype=torch.float64) / (2 * math.pi)


def use_numbers():
    r"""How much of what fast and slow pairs give to scores depends on position."""
    energy, position = (torch.tensor([head[key] for head in R["heads"]]) for key in ("energy", "position"))
    fast = turns() >= 1 / 4
    shares = {
        "share_fast": position[:, fast].sum() / energy[:, fast].sum(),
        "share_slow": position[:, ~fast].sum() / energy[:, ~fast].sum(),
        "energy_slow": energy[:, ~fast].sum() / energy.sum(),
        "head_least": (position.sum(1) / energy.sum(1)).min(),
        "head_most": (position.sum(1) / energy.sum(1)).max(),
    }
    assert shares["share_slow"] < 0.2 and shares["energy_slow"] < 0.2
    counts = {"fast": int(fast.sum()), "slow": int((~fast).sum()), "last_turn": f"{360 * turns()[-1]:.1f}"}
    return counts | {name: f"{share:.0%}" for name, share in shares.items()}


def use_figure(layer=1, head=0):
    r"""By how much each pair moves the scores of one head, parted into position and content."""
    (one,) = (one for one in R["heads"] if (one["layer"], one["head"]) == (layer, head))
    energy, position = torch.tensor(one["energy"]), torch.tensor(one["position"])
    figure, axes = plt.subplots(figsize=(4.4, 2.4), layout="constrained")
    axes.bar(range(len(energy)), position, color="C0")
    axes.bar(range(len(energy)), energy - position, bottom=position, color="none", edgecolor="C1", hatch="///")
    beside = int(energy.argmax())  # the tallest, with room to its right
    axes.text(beside + 0.6, position[beside] / 2, "from position", color="C0", va="center")
    axes.text(beside + 0.6, (energy + position)[beside] / 2, "from content", color="C1", va="center")
    axes.set(xlabel="pair of lanes, fastest first", ylabel="energy, logits²", xticks=range(len(energy)))
    return figure


def damage(kind):
    r"""By how much the loss rises when a pair is "unturned" or "removed": [seeds, pairs]."""
    lanes = {name: torch.tensor(R["lanes"][name]) for name in (kind, "trained")}
    return lanes[kind] - lanes["trained"][:, None]


def damage_figure():
    r"""`damage` by pair, with bars over seeds."""
    pairs = len(turns())
    figure, axes = plt.subplots(figsize=(4.4, 2.4), layout="constrained")
    for kind, marker, shift in (("unturned", "o", -0.08), ("removed", "s", 0.08)):
        mean, spread = damage(kind).mean(0), damage(kind).std(0)
        dots = axes.errorbar(torch.arange(pairs) + shift, mean, spread, fmt=marker, label=kind, capsize=2)
        look = dict(color=dots[0].get_color(), va="center")
        axes.annotate(kind, (shift, mean[0]), (10, 0), textcoords="offset points", **look)
    axes.axhline(0, color="gray", linewidth=0.8)
    axes.set(xlabel="pair of lanes, fastest first", ylabel="rise of the loss, nats", xticks=range(pairs))
    return figure


def check_damage():
    r"""Assert that the slow pairs are used a little, as plain dot products."""
    unturned, removed = damage("unturned"), damage("removed")
    assert unturned[:, -3:].max() < 0.02 < unturned.mean(0).max()
    assert removed[:, -3:].mean() > unturned[:, -3:].mean()


def partial_numbers():
    r"""The slowest wavelength of 128 lanes that turn all, in the first quarter squeezed, and in p-RoPE."""
    options = {"full": {}, "squeezed": {"rotary_dim": 32}, "prope": {"rotary_dim": 32, "proportional": True}}
    ladders = {name: rope(128, **more).rotate.inv_freq for name, more in options.items()}
    assert abs(ladders["squeezed"] - ladders["full"][::4]).max() < 1e-12
    return {f"slowest_{name}": f"{2 * math.pi / w[w > 0].min():,.0f}" for name, w in ladders.items()}


def arms_figure():
    r"""Losses against the length of the context, a line for each way to turn."""
    lengths = R["lengths"]
    figure, axes = plt.subplots(figsize=(4.4, 2.7), layout="constrained")
    for (name, rows), style in zip(ARMS.items(), ("o-", "s--", "^-.", "D:", "v-")):
        axes.errorbar(lengths, rows.mean(0), rows.std(0), fmt=style, label=R["arms"][name], capsize=2)
    axes.set(xscale="log", xticks=lengths, xticklabels=lengths)
    axes.set(xlabel="context, characters", ylabel="loss, nats per character")
    axes.minorticks_off()
    name_lines(axes)
    return figure


def change(row):
    r"""The change from RoPE that a row of the predictions is about: one number a seed, then one a block of windows."""
    at = 0 if row["at"] == "short" else -1
    ours, plain = (torch.tensor(R["in_blocks"][arm]).reshape(2, -1)[at] for arm in (row["arm"], "rope"))
    return [*(ARMS[row["arm"]] - ARMS["rope"])[:, at].tolist(), *(ours - plain).tolist()]


def verdict_table():
    r"""The predictions, what was measured and the verdicts, as a table."""
    places = {"short": R["lengths"][0], "long": R["lengths"][-1]}
    rows = []
    for row in R["predictions"]:
        outcome = judge(change(row), R["tolerance"], row["claim"], len(R["seeds"]))
        name, claim = R["arms"][row["arm"]], CLAIMS[row["claim"]]
        rows.append([name, places[row["at"]], claim, row["why"], pm(change(row)[: len(R["seeds"])]), outcome])
    return table(["what turns", "context", "predicted", "why", "change from RoPE", "verdict"], rows)


def arm_numbers():
    r"""What the small model's pairs and xPos's decay reach. Errors: AssertionError where its losses rank otherwise."""
    long, settings = R["lengths"][-1], R["arm_settings"]
    assert (ARMS["rope"][:, -1] - ARMS["rope"][:, 0]).min() > R["tolerance"]  # there is a rise to mend
    assert (ARMS["p67"] - ARMS["rope"]).abs().max() < R["tolerance"]
    for better, worse in (("xpos", "squeezed33"), ("squeezed33", "p33"), ("p33", "rope")):
        assert (ARMS[worse] - ARMS[better])[:, -1].min() > 0
    assert (ARMS["squeezed33"] - ARMS["p33"])[:, 0].min() > R["tolerance"]
    assert (ARMS["rope"] - ARMS["xpos"])[:, 0].min() > 0
    size = settings["dim"] // settings["num_heads"]
    slow_pair = inv_freq(4, dtype=torch.float64)[1]
    assert slow_pair * long < math.pi  # still in its first half turn
    small = xpos(size, scale_base=settings["length"] / 2).rotate
    return {
        "wave_4": f"{2 * math.pi / inv_freq(size, dtype=torch.float64)[4]:,.0f}",
        "wave_squeezed": f"{2 * math.pi / slow_pair:,.0f}",
        "xpos_left": f"{small.zeta[-1] ** ((long - 1) / small.scale_base):.0%}",
        "xpos_mild": f"{small.zeta[-1] ** ((long - 1) / 512):.0%}",
    }


def xpos_scores(m, n, draws=500):
    r"""xPos's scores of random queries at m and random keys at n, divided by sqrt(D): [draws]."""
    q, keys = queries()
    q, k = q[:draws], keys["random q, k"][:draws]
    at = posenc.At(torch.full((1, draws), m), torch.full((1, draws), n), None)
    turned_q, turned_k = xpos(D).rotate(q[None, None], k[None, None], at)
    return (turned_q * turned_k).sum(-1)[0, 0] / math.sqrt(D)


@cache
def overflows_at(center, dtype):
    r"""The first length, in steps of 256, at which xPos makes a key of ones infinite somewhere."""
    for length in range(256, 50_000, 256):
        ends = torch.tensor([[0, length - 1]])
        _, k = xpos(D, center=center).rotate(*torch.ones(2, 1, 1, 2, D, dtype=dtype), posenc.At(ends, ends, None))
        if not k.isfinite().all():
            return length


def xpos_numbers():
    r"""How fast xPos decays, by measure and by its formula, and where it overflows."""
    zeta = xpos(D).rotate.zeta
    spreads = {d: xpos_scores(d, 0).std() for d in (512, 8192)}
    assert all(abs(spread / (zeta ** (2 * d / 512)).mean().sqrt() - 1) < 0.1 for d, spread in spreads.items())
    half = 512 * math.log(0.5) / zeta.log()
    from_start, centered = (overflows_at(center, torch.float16) for center in (False, True))
    assert 1.9 < centered / from_start < 2.1  # "doubles the reach"
    return {
        "xpos_512": f"{spreads[512]:.2f}",
        "xpos_8192": f"{spreads[8192]:.2f}",
        "half_fast": f"{half[0]:,.0f}",
        "half_slow": f"{half[-1]:,.0f}",
        "overflow_from0": f"{from_start:,}",
        "overflow_center": f"{centered:,}",
        "overflow_bf16": f"{overflows_at(False, torch.bfloat16):,}",
    }


def previous_token(start, turning, queries=128):
    r"""Share of the queries at start, start + 1, ... whose best key, by turning(x, positions), is the token before."""
    q = torch.randn(1, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    k = rotate(q, torch.tensor([1]), inv_freq(64, dtype=torch.float64))
    at = torch.arange(start, start + queries)
    logits = turning(q.expand(queries, -1), at) @ turning(k.expand(queries, -1), at).T
    best = logits.masked_fill(~torch.ones(queries, queries).tril().bool(), -math.inf).argmax(-1)
    return (best[1:] == torch.arange(queries - 1)).double().mean().item()


def under_autocast(x, at):
    r"""x turned by posenc, in bf16 and under autocast."""
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return rotate(x.bfloat16(), at, inv_freq(64, dtype=torch.float64)).double()


@cache
def previous_shares():
    r"""`previous_token` at QUERY_STARTS, for each way to round: {way: shares}."""
    w = inv_freq(64, dtype=torch.float64)
    rounded = ("positions in bf16", "positions in fp16", "frequencies in bf16")
    ways = {where: partial(turn_rounded, inv_freq=w, where=where) for where in rounded}
    ways["posenc, autocast bf16"] = under_autocast
    return {name: [previous_token(start, way) for start in QUERY_STARTS] for name, way in ways.items()}


def previous_table():
    r"""`previous_shares`, printed."""
    lines = ["finds the token before, from " + "".join(f"{start:>8,d}" for start in QUERY_STARTS)]
    for name, shares in previous_shares().items():
        lines.append(f"{name:28s} " + "".join(f"{share:8.0%}" for share in shares))
    return "\n".join(lines)


def position_numbers():
    r"""What half precisions do to a head that looks for the token before."""
    shares = previous_shares()
    in_bf16, in_fp16 = shares["positions in bf16"], shares["positions in fp16"]
    assert in_bf16[0] == 1 and max(in_bf16[1:]) < 0.9 and in_fp16[:3] == [1, 1, 1] and max(in_fp16[3:]) < 0.9
    assert shares["posenc, autocast bf16"] == [1] * len(QUERY_STARTS)  # the mend: exact angles
    return {"found_256": f"{in_bf16[1]:.0%}", "found_1024": f"{in_bf16[2]:.0%}"}


def shift_rises():
    r"""The rise of the trained model's loss as all positions move, for each rounding: {rounding: [seeds, shifts]}."""
    base = torch.tensor(R["shifted"]["float32 angles"])[:, :1]
    return {where: torch.tensor(rows) - base for where, rows in R["shifted"].items()}


def shift_figure():
    r"""`shift_rises` against the shift."""
    ticks = range(len(R["shifts"]))
    figure, axes = plt.subplots(figsize=(4.4, 3.3), layout="constrained")
    for (where, rows), style in zip(shift_rises().items(), ("k-", "C1s--", "C3o-", "C0D:", "C2^-.", "C4x:", "C5v:")):
        axes.errorbar(ticks, rows.mean(0), rows.std(0), fmt=style, label=where, capsize=2, markersize=5)
    axes.set(xticks=ticks, xlabel="all positions moved by", ylabel="rise of the loss, nats")
    axes.set_xticklabels([f"{s:,}" for s in R["shifts"]], rotation=45, ha="right")
    name_lines(axes)
    return figure


def float32_errors():
    r"""The largest error of a cosine from float32 angles, of the eight fastest pairs, up to 4k, 131k and 1M tokens."""
    w, worst = inv_freq(D, dtype=torch.float64)[:8], [0.0]
    for begin, end in pairwise((0, 4_096, 131_072, 1_048_576)):
        for place in torch.arange(begin, end)[:, None].split(131_072):  # a million at once would take much memory
            fp32, fp64 = ((place.to(dtype) * w.to(dtype)).cos() for dtype in (torch.float32, torch.float64))
            worst[-1] = max(worst[-1], (fp32 - fp64).abs().max().item())
        worst.append(worst[-1])
    return worst[:3]


def precision_numbers():
    r"""The errors of float32 angles and of tables in half precision, and where losses begin to rise."""
    rises, at = shift_rises(), {shift: i for i, shift in enumerate(R["shifts"])}
    bf16, fp16 = rises["positions in bf16"], rises["positions in fp16"]
    assert rises["float32 angles"].abs().max() < 0.005
    assert bf16[:, at[128]].abs().max() < 0.005 < bf16[:, at[256]].min()
    assert fp16[:, at[512]].abs().max() < 0.005 < fp16[:, at[2048]].min()
    cosines = (torch.arange(4096)[:, None] * inv_freq(D, dtype=torch.float64)).cos()
    values = dict(zip(("fp32_4k", "fp32_131k", "fp32_1m"), float32_errors()))
    values |= {f"table_{name}": (cosines.to(d).double() - cosines).abs().max() for name, d in HALVES.items()}
    most = math.ceil(rises["float32 angles"].abs().max() * 1e5)
    return {"shift_float32": f"{most}e-05"} | {name: f"{value:.1e}" for name, value in values.items()}


def conversion_errors(to_half):
    r"""How far a layer is off whose weights were moved to half-split in the right way, and in wrong ones.

    to_half: (rows, head_dim, rotary_dim) -> rows, as the page defines it. Returns: {way: error in standard deviations
    of the output}, the right way first.
    """
    options = {"num_kv_heads": 2, "bias": True}
    torch.manual_seed(0)
    source = posenc.SelfAttention(64, 4, rope(16, rotary_dim=12), **options).double()
    x = torch.randn(1, 20, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    wanted = source(x)
    inverse = [0, 6, 1, 7, 2, 8, 3, 9, 4, 10, 5, 11, 12, 13, 14, 15]

    def error(permute, biases=True):
        layer = posenc.SelfAttention(64, 4, rope(16, rotary_dim=12, layout="half"), **options).double()
        state = dict(source.state_dict())
        for name in ("to_q", "to_k"):
            state[f"{name}.weight"] = permute(state[f"{name}.weight"])
            if biases:
                state[f"{name}.bias"] = permute(state[f"{name}.bias"])
        layer.load_state_dict(state)
        return (layer(x) - wanted).abs().max().item() / wanted.std().item()

    return {
        "rows and biases, within each head": error(lambda rows: to_half(rows, 16, 12)),
        "nothing": error(lambda rows: rows),
        "rows, biases forgotten": error(lambda rows: to_half(rows, 16, 12), biases=False),
        "all 16 lanes, though 12 turn": error(lambda rows: to_half(rows, 16)),
        "always cut into 4 heads": error(lambda rows: to_half(rows, len(rows) // 4, 12 * len(rows) // 64)),
        "the inverse permutation": error(lambda rows: rows.unflatten(0, (-1, 16))[:, inverse].flatten(0, 1)),
    }


def conversion_table(errors):
    r"""`conversion_errors`, printed."""
    lines = [f"{'permuted':36s} output off by, in standard deviations"]
    return "\n".join([*lines, *(f"{name:36s} {error:.0e}" for name, error in errors.items())])
