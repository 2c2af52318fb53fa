r"""What the ExpoSB chapter computes behind its prose: numbers, and the report claim by claim."""

import math

import matplotlib.pyplot as plt
import numpy
import torch

import posenc
from posenc.chapters.exposb import ablation, figures
from posenc.lab.experiments import SWEEPS, load_results, verdict
from posenc.lab.write import finish, table
from posenc.rotate.rope import inv_freq
from posenc.several.exposb import band, exposb, fade, gain

NEAR = 64  # keys that count as near
FLOOR = 0.7  # of the fade, as the report has it
LENGTH, HEADS, HEAD_DIM = 48, 2, 16  # of the checks
FAR = 4000  # a shift of all positions
HOLDS, PARTLY, FAILS = "holds", "in part", "does not"
ARMS = {
    "exposb_gain": "gain alone",
    "exposb_band": "band by lane alone",
    "exposb_pairs": "band by pair alone",
    "exposb_logits": "fade on logits alone",
    "exposb_weights": "fade on weights alone",
    "exposb_log": "fade on log alone",
    "exposb": "all three, as in the report",
}


def noise_share(encoding: posenc.Encoding, keys: int = 1024, dim: int = 64) -> float:
    r"""Weight on the NEAR nearest of so many keys, for a last query and keys that are noise: a mean over 64 draws."""
    q, k = torch.randn(2, 64, 1, keys, dim, generator=seeded())
    return posenc.attention(q[:, :, -1:], k, k, encoding, return_weights=True)[1][..., -NEAR:].sum(-1).mean().item()


def print_noise_shares() -> dict[str, str]:
    r"""Print that weight under RoPE, and under RoPE with a slope of 1/64 for each token; return the first."""
    rope, slope = posenc.make("rope", head_dim=64), torch.tensor([1 / 64])
    sloped = posenc.Encoding(bias=lambda q, k, at: posenc.alibi.bias(at.pos_q, at.pos_k, slope))
    shares = noise_share(rope), noise_share(posenc.compose(rope, sloped))
    for name, share in zip(("RoPE", "RoPE, slope 1/64"), shares):
        print(f"{name:18} the nearest {NEAR} of 1024 keys hold {share:.1%}")
    return {"rope_share": f"{shares[0]:.0%}"}


#: Tokens after which ALiBi's mildest slope has taken as much as the fade, as a penalty, ever does.
REACH = math.ceil(-math.log(FLOOR) * 256)


def first_numbers() -> dict[str, str]:
    r"""What the first reading cites: the gain, the floor, the verdict."""
    at_start, far = (gain(torch.tensor([0.0, 1000.0], dtype=torch.float64)) ** 2).tolist()
    return {
        "gain_start": f"{at_start:.2f}",
        "gain_far": f"{far:.2f}",
        "most": f"{-math.log(FLOOR):.2f}",
        "alibi_reach": f"{REACH}",
        "verdict": verdict(load_results("train_short_test_long"), "exposb").words,
    }


def hand_numbers() -> dict[str, str]:
    r"""The weights of three keys of logit -2, floor 1/2 and a rest that halves with each token: By hand."""
    z, f = torch.full((3,), -2.0), 0.5 + 0.5 ** torch.tensor([3.0, 2.0, 1.0])
    rows = {"logits": (z * f).softmax(0), "weights": z.softmax(0) * f, "log": (z + f.log()).softmax(0)}
    numbers = {f"hand_{form}_{j}": f"{w:.3f}" for form, row in rows.items() for j, w in enumerate(row)}
    return numbers | {"hand_sum": f"{rows['weights'].sum():.3f}"}


def check_short(weigh, dim: int = 8, tokens: int = 40) -> None:
    r"""Hold the page's own lines, weigh(q, k) for one head, against posenc. Errors: AssertionError."""
    q, k = torch.randn(2, tokens, dim, generator=seeded())
    expected = posenc.attention(q[None, None], k[None, None], k[None, None], exposb(dim, 1), return_weights=True)[1]
    torch.testing.assert_close(weigh(q, k), expected[0, 0].detach())


def card_figure():
    r"""The card's picture: the three factors, each over what it reads."""
    far = torch.linspace(0, 4000, 200, dtype=torch.float64)
    panels = {
        "gain": (far, gain(far), "position", (1.0, 1.2)),
        "band": (torch.arange(64), band(64), "lane", (0.8, 1.2)),
        "fade": (far / 4, fade(far / 4), "distance", (0.7, 1.0)),
    }
    figure, axes = plt.subplots(1, 3, figsize=(4.4, 1.6), layout="constrained")
    for panel, (name, (x, y, words, marks)) in zip(axes, panels.items()):
        panel.plot(x, y, color="#0072b2", lw=2)
        panel.axhline(1, color="#6b7280", ls="--", lw=1)
        panel.set(title=name, xlabel=words, ylim=(0.6, 1.3), yticks=marks)
    axes[0].set_ylabel("factor")
    return finish(figure)


def near_share(z, form: str | None) -> float:
    r"""Share that the NEAR nearest of the keys with logits z hold, faded as drawn on "logits" or "log" (None: not)."""
    weights = z.softmax(-1) if form is None else figures.row(z, form, figures.RATE, figures.FLOOR)
    return (weights[:NEAR].sum() / weights.sum()).item()


def level_numbers() -> dict[str, str]:
    r"""What the nearest keys hold with all logits low, as they are, and high."""
    z = figures.content_logits()
    return {
        "level_low": f"{near_share(z - 3, 'logits'):.1%}",
        "level_high": f"{near_share(z + 2, 'logits'):.0%}",
        "level_zero": f"{near_share(z, 'logits'):.1%}",
        "level_none": f"{near_share(z, None):.1%}",
        "keys": f"{len(z):,}",
        "level_log": f"{near_share(z, 'log'):.1%}",
    }


def wavelengths() -> tuple[float, float]:
    r"""Of the band's loudest pair and of the ladder's middle, in tokens, at D = 64."""
    waves = 2 * math.pi / inv_freq(64, dtype=torch.float64)
    return waves[int(band(64).argmax()) // 2].item(), waves[16].item()


def band_numbers() -> dict[str, str]:
    r"""Where the band is loudest, and what the last lane keeps of a score."""
    peak, middle = wavelengths()
    rest = (band(64)[-1] / band(64).max()).item() ** 2
    return {"peak": f"{peak:.0f}", "middle": f"{middle:.0f}", "band_rest": f"{rest:.0%}"}


def seeded() -> torch.Generator:
    r"""A generator of its own."""
    return torch.Generator().manual_seed(0)


def scores(encoding: posenc.Encoding, start: int = 0) -> torch.Tensor:
    r"""Seeded q.k after `rotate`, positions counted from `start`."""
    q, k = torch.randn(3, 1, HEADS, LENGTH, HEAD_DIM, dtype=torch.float64, generator=seeded())[:2]
    at = torch.arange(LENGTH)[None] + start
    a, b = encoding.double().rotate(q, k, posenc.At(at, at, None))
    return (a @ b.transpose(-2, -1)).detach()


def shift_change(mechanism: str) -> float:
    r"""By how much a shift of all positions changes scores, as a share of RoPE's largest, with this mechanism alone."""
    alone = exposb(HEAD_DIM, HEADS, **dict(gain=False, band=False, decay=False) | {mechanism: True})
    moved = scores(alone, FAR) - scores(alone)
    return (moved.abs().max() / scores(posenc.make("rope", head_dim=HEAD_DIM)).abs().max()).item()


def equal_share(level: float, keys: int) -> float:
    r"""Share of the NEAR nearest of so many keys with equal logits, faded on logits."""
    return (level * fade(torch.arange(keys).double())).softmax(-1)[:NEAR].sum().item()


def claims_table():
    r"""The report's claims: in words, whether each holds, and what its own formulas give."""
    tokens = torch.tensor([0, 1, 100, 1000], dtype=torch.float64)
    g, f = gain(tokens), fade(tokens)
    gone = math.log(0.2 / 0.01) / 0.001  # where the gain is within 1% of 1
    low, high, long = (equal_share(*asked) for asked in ((-4.0, 1024), (4.0, 1024), (4.0, 16_384)))
    peak, middle = wavelengths()
    numbers = sum(p.numel() for p in exposb(64, 6).parameters())  # learned, in one layer
    by_gain, by_lane = (f"{shift_change(mechanism):.0%}" for mechanism in ("gain", "band"))
    near = f"{NEAR} of 1,024 equal keys hold {low:.1%} at logit −4, {high:.1%} at +4, {NEAR / 1024:.1%} without; on log"
    claims = {
        "The extra is a fifth at the start": (HOLDS, f"gain {g[0]:.1f} at position 0; on a score, {g[0] ** 2:.2f}"),
        "... and gone by about position 1000": (FAILS, f"still {g[3] - 1:+.1%} there; below 1% from {gone:,.0f} on"),
        "Adjacent tokens keep 100%": (HOLDS, f"the factor at distance 1 is {f[1]:.4f}, rounded"),
        "88% at distance 100, 70% at 1000": (HOLDS, f"{f[2]:.3f} and {f[3]:.3f}"),
        "The method is relative": (
            PARTLY,
            f"fade: yes. Gain: a shift changes scores by {by_gain}; band by lane: {by_lane} (D = {HEAD_DIM}). Band per "
            "pair: yes",
        ),
        "A strong, explicit locality bias": (
            FAILS,
            f"{near} at most {-math.log(FLOOR):.2f} logits, which ALiBi's mildest slope takes in {REACH} tokens",
        ),
        "No dilution over long texts": (
            FAILS,
            f"on logits, {NEAR} equal keys at +4 hold {high:.1%} of 1,024 keys and {long:.1%} of 16,384",
        ),
        "Early positions are told apart better": (
            PARTLY,
            f"angles are RoPE's; differences between scores are up to {g[0] ** 2:.2f} times as large, which is a "
            "temperature",
        ),
        "Middle frequencies are amplified": (
            PARTLY,
            f"the peak has a wavelength of {peak:.0f} tokens, the ladder's middle {middle:.0f}; per pair, projections "
            "can undo it",
        ),
        "Twelve learned numbers": (
            PARTLY,
            f"{numbers} a layer for 6 heads, so {6 * numbers} in its six layers; half of them it does not wire in",
        ),
        "Exponential stick-breaking": (FAILS, "a softmax; the hazard form above is what the name says"),
    }
    rows = [[claim, f"**{holds}**", facts] for claim, (holds, facts) in claims.items()]
    return table(["claim", "holds?", "computed"], rows)


def predictions():
    r"""What was predicted of each arm before the run."""
    from IPython.display import Markdown

    sweep = SWEEPS["ablation_text"]
    head = "**The predictions**, written before the run, for the change of the loss against RoPE "
    head += f"(a change of {sweep.tolerance} nats per character or less counts as none):\n\n"
    return Markdown(head + "\n".join(f"- **{words}**: *{sweep.predictions[arm][1]}*" for arm, words in ARMS.items()))


def parts_numbers() -> dict[str, str]:
    r"""What the text says of the parts, as trained and at the longest, and of what their numbers become."""
    first, last = ablation.ends()
    rates = abs(ablation.learned("exposb", "rotate.decay_rates"))
    weights = ablation.learned("exposb", "rotate.band_weights")
    gone = -math.log(0.1) / rates  # the position at which a tenth of the extra is left
    missed = {arm: ablation.beside(arm, "far", results=ablation.NEEDLE) for arm in ARMS}
    assert all(found.high > 0 for found in missed.values())  # "no part helps so that these seeds would tell"
    assert [arm for arm in missed if missed[arm].low > 0] == ["exposb"]
    words = {f"{arm}_{end}": ablation.in_words(arm, at) for arm in ARMS for end, at in (("near", first), ("far", last))}
    return words | {
        "reach": f"{max(abs(end) for arm in ARMS for end in ablation.beside(arm, first)[1:3]):.3f}",
        "rate_low": f"{rates.min():.2f}",
        "rate_high": f"{rates.max():.2f}",
        "rate_middle": f"{numpy.median(rates):.2f}",
        "gain_gone": f"{numpy.median(gone):.0f}",
        "weight_low": f"{weights.min():.2f}",
        "weight_high": f"{weights.max():.2f}",
    }
