r"""Mistakes in circulation, from scaled RoPE on: a check for each row, as `errata` describes them."""

import functools
import math

import torch

from posenc import alibi, rope, scaling, stickbreaking
from posenc.chapters.errata.facts import check, lane_rises, rises, tiny
from posenc.chapters.shipped.facts import MODELS, readings
from posenc.lab.experiments import load_results
from posenc.lab.write import normal
from posenc.several.exposb import band, fade, gain

TRAINED, LONGEST = 4096, 32768  # positions


def recent_models() -> list:
    """What the layers of each model from 2024 on do, of the rows of *Models that ship* that are read."""
    since = {row["name"] for row in MODELS["rows"] if row["since"] >= "2024"}
    return [reading for name, reading in readings().items() if name in since]


def one_guard(x):
    """Softplus as the notes have it."""
    return torch.where(x > 15, x, (1 + x.exp()).log())


def farthest(frequency, trained, unseen):
    """The largest gap, on the circle, between an angle of a new position and the nearest trained one."""
    seen = (trained * frequency).remainder(2 * math.pi).sort().values
    seen = torch.cat((seen[-1:] - 2 * math.pi, seen, seen[:1] + 2 * math.pi))
    new = (unseen * frequency).remainder(2 * math.pi)
    after = torch.searchsorted(seen, new).clamp(1, len(seen) - 1)
    return torch.minimum((new - seen[after - 1]).abs(), (seen[after] - new).abs()).max()


@check
def fast():
    """At long range it is the slow pairs that meet new angles."""
    w, lanes = rope.inv_freq(128, dtype=torch.float64), lane_rises()
    trained, new = torch.arange(float(TRAINED)), torch.arange(float(TRAINED), float(LONGEST))
    gaps = torch.stack([farthest(frequency, trained, new) for frequency in w])
    full = (TRAINED - 1) * w >= 2 * math.pi  # a whole turn within training
    assert gaps[full].max() < 0.05 and gaps[~full].min() > 0.2
    assert lanes["slow"] < lanes["none"] / 2 < lanes["fast"]
    counts = {"fast_full": f"{int(full.sum())}", "fast_open": f"{int((~full).sum())}"}
    return counts | {"fast_gap": f"{gaps[full].max():.2f}", "slow_gap": f"{gaps[~full].min():.2f}"}


@check
def yarn():
    """Raising the base is static NTK; YaRN turns pairs by other frequencies and scales the logits."""
    raised = rope.inv_freq(128, base=10000.0 * 8 ** (128 / 126), dtype=torch.float64)
    real, heat = scaling.yarn(128, 8.0, trained=TRAINED)
    static = scaling.ntk(128, 8.0)[0]
    assert (raised / static - 1).abs().max() < 1e-6
    differ, most = int(((raised / real - 1).abs() > 0.01).sum()), torch.maximum(raised / real, real / raised).max()
    assert differ > 32 and most > 1.5 and heat**2 > 1.4
    return {"yarn_differ": f"{differ}", "yarn_most": f"{most:.1f}", "yarn_heat": f"{heat**2:.2f}"}


@check
def plus():
    """ALiBi subtracts: added, the farthest key would take all."""
    i, j = torch.arange(63, 64), torch.arange(64)
    minus, added = alibi.bias(i, j, torch.tensor([0.5]))[0, 0].softmax(-1), (0.5 * (i - j)).softmax(-1)
    assert minus.argmax() == 63 and added.argmax() == 0 and ((0.5 * j).softmax(-1) - minus).abs().max() < 1e-12
    assert added[63] < 1e-10 and abs(added[0] - minus[63]) < 1e-12
    return {"minus": f"{minus[63]:.0%}", "plus": tiny(added[63])}


@check
def slopes():
    """For 12 heads the released slopes are those of 8 and every other one of 16."""

    def by_formula(n):
        return torch.tensor([2 ** (-8 * h / n) for h in range(1, n + 1)])

    agree, twelve = (alibi.slopes(16) - by_formula(16)).abs().max(), alibi.slopes(12).double()
    released = torch.cat((by_formula(8), by_formula(16)[0::2][:4]))
    shared = int(torch.isclose(twelve[:, None], by_formula(12)).sum())
    assert agree < 1e-6 and (twelve - released).abs().max() < 1e-6 and shared < 12
    last = ", ".join(f"{slope:.4f}" for slope in twelve[-4:])
    return {"slopes_16": tiny(agree), "slopes_shared": f"{shared}", "slopes_last": last}


@check
def mild():
    """The first head's slope is the steepest."""
    eight = alibi.slopes(8)
    assert eight.argmax() == 0 and (eight.diff() < 0).all() and eight[-1] == 2**-8
    return {"steep": f"{100 * eight[0]:.0f}", "mild": f"{100 * eight[-1]:.1f}"}


@check
def free():
    """Operations of one head: an addition for each visible score against six for each pair of lanes in q and in k."""

    def share(length, dim=64):
        at = torch.arange(length)
        additions = int((alibi.bias(at, at, torch.ones(1)) * torch.ones(length, length).tril() < 0).sum()) + length
        pairs = 2 * length * len(rope.inv_freq(dim))  # of q and of k: four products and two sums each
        return additions / (6 * pairs)

    short, long = share(256), share(2048)
    assert short < 0.5 and long > 2
    return {"free_less": f"{short:.0%}", "free_more": f"{long:.0%}"}


@check
def today():
    """No recent model of the book's table has ALiBi, its encoders rotate, and so did the better ones of our own."""
    rows = recent_models()
    with_alibi = sum(any(layer.method == "alibi" for layer in row) for row in rows)
    encoders = [row for row in rows if not any(layer.causal for layer in row)]
    masked = load_results("masked")["methods"]
    loss = {name: torch.tensor(masked[name]["scores"]["64"]) for name in ("learned", "rope")}
    assert with_alibi == 0 and encoders and all(layer.place == "rotate" for row in encoders for layer in row)
    assert loss["rope"].max() < loss["learned"].min() - 0.5
    counts = {"models": len(rows), "alibi": with_alibi, "encoders": len(encoders)}
    return {f"today_{name}": f"{count}" for name, count in counts.items()}


@check
def relative():
    """The gain by position and the band of lanes break it; a factor a pair does not."""
    w, near = rope.inv_freq(64, dtype=torch.float64), torch.arange(2000)
    q, k = (row.expand(2000, 64) for row in normal(2, 64, seed=7) / math.sqrt(8))

    def span(of_position=torch.ones_like, of_lane=1.0):
        """The range of one score at distance 5 as both positions move."""
        scores = 1.0
        for x, positions in ((q, near + 5), (k, near)):
            scores = scores * rope.rotate(x, positions, w) * of_position(positions[:, None].double()) * of_lane
        return scores.sum(-1).max() - scores.sum(-1).min()

    plain, by_gain, by_band, by_pair = span(), span(gain), span(of_lane=band(64)), span(of_lane=band(64, per_pair=True))
    assert max(plain, by_pair) < 1e-10 and min(by_gain, by_band) > 0.05
    spans = {"rope": tiny(plain), "gain": f"{by_gain:.2f}", "band": f"{by_band:.2f}", "pair": tiny(by_pair)}
    return {f"expo_{name}": words for name, words in spans.items()} | {"expo_text": f"{len(near):,}"}


@check
def multiply():
    """A logit below zero rises when it is multiplied by a falling factor; a logarithm added falls always."""
    factor = fade(torch.tensor([0.0, 1000.0]))

    def far_over_near(logits):
        near, far = logits.softmax(-1)
        return far / near

    positive, negative = (far_over_near(score * factor) for score in (4.0, -4.0))
    logs = [far_over_near(score + factor.log()) for score in (4.0, -4.0)]
    assert positive < 1 < negative and abs(logs[0] - logs[1]) < 1e-12 and logs[0] < 1
    said = {"multiply_positive": f"{positive:.0%}", "multiply_negative": f"{negative:.1f}"}
    return said | {"multiply_log": f"{logs[0]:.0%}"}


@check
def rest():
    """One remainder a block, less the sum of its pieces, hands out more than there is."""

    def as_claimed(beta, block):
        left, total = 1.0, 0.0
        for start in range(0, len(beta), block):
            pieces = (beta[start : start + block] * left).sum().item()  # one rest for the block
            total, left = total + pieces, max(left * (1 - pieces), 1e-6)
        return total

    beta, sizes = torch.full((256,), 0.3), (16, 32, 64)
    blocks, single = [as_claimed(beta, block) for block in sizes], as_claimed(beta, 1)
    true = stickbreaking.weigh(beta.logit()[None], torch.ones(1, 256, dtype=torch.bool), order="first").sum()
    assert all(abs(total - 0.3 * block) < 0.01 for total, block in zip(blocks, sizes))
    assert single > 2 and abs(true - 1) < 1e-6
    summed = ", ".join(f"{total:.1f}" for total in blocks)
    return {"rest_blocks": summed, "rest_single": f"{single:.1f}", "rest_true": f"{true:.1f}"}


@check
def softmax():
    """A softmax forgets a constant and moves along with an order; a stick does neither."""
    z, visible = normal(1, 12, seed=8), torch.ones(1, 12, dtype=torch.bool)

    def stick(scores):
        return stickbreaking.weigh(scores, visible, order="first")

    soft = functools.partial(torch.softmax, dim=-1)
    soft_shift, stick_shift = ((f(z + 3) - f(z)).abs().max() for f in (soft, stick))
    soft_order, stick_order = ((f(z.flip(-1)).flip(-1) - f(z)).abs().max() for f in (soft, stick))
    assert max(soft_shift, soft_order) < 1e-12 and min(stick_shift, stick_order) > 0.1
    shift = {"soft_shift": tiny(soft_shift), "stick_shift": f"{stick_shift:.2f}"}
    return shift | {"soft_order": tiny(soft_order), "stick_order": f"{stick_order:.2f}"}


@check
def lengths():
    """On text ExpoSB rises; RSE and the stick do not, but of a far needle RSE knows nothing."""
    assert rises("exposb").min() > 0.5
    assert max(rises(name).abs().max() for name in ("rse", "stickbreaking")) < 0.05
    needle = load_results("needle")["methods"]
    missed = {name: torch.tensor(needle[name]["scores"]["far"]) for name in ("rse", "stickbreaking")}
    assert missed["rse"].min() > 0.8 and missed["stickbreaking"].max() < 0.1


@check
def softplus():
    """In float32 log(1 + e^x) is exactly 0 at -17, and so the row of a firm no is off; log1p is right."""
    x = torch.tensor(-17.0, dtype=torch.float32)
    notes, right = one_guard(x).item(), torch.log1p(x.exp()).item()
    true = math.log1p(math.exp(-17.0))
    assert notes == 0 and abs(right / true - 1) < 1e-6
    lost = 1 - math.exp(-1_000_000 * true)
    return {"softplus_notes": f"{notes:.0f}", "softplus_true": tiny(true), "softplus_million": f"{lost:.0%}"}
