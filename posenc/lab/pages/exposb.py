r"""What the ExpoSB chapter computes behind its prose: numbers, checks of formulas, and the report claim by claim."""

import base64
import functools
import math

import torch

import posenc
from posenc.lab.experiments import SWEEPS
from posenc.lab.experiments.plots import plot_parts
from posenc.lab.figures import exposb as figures
from posenc.lab.figures import four_places
from posenc.lab.figures.exposb import content_logits, row
from posenc.lab.pages import ablation, table
from posenc.rotate.rope import inv_freq
from posenc.several.exposb import band, exposb, fade, gain, hazard

NEAR = 64  # keys that count as near
FLOOR = 0.7  # of the fade, as the report has it
LENGTH, HEADS, HEAD_DIM = 48, 2, 16  # of the checks
BARE = dict(gain=False, band=False, decay=False)
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


def places_picture():
    r"""The path of attention, with the two places lit that ExpoSB takes."""
    from IPython.display import HTML

    lit = ("rotate", "weigh")
    picture = base64.b64encode(four_places.diagram(lit).encode()).decode()
    alt = f"{four_places.title(lit)}. The other two pass on what they get."
    return HTML(f'<img alt="{alt}" src="data:image/svg+xml;base64,{picture}" style="max-width: 100%">')


def near_share(z, form: str | None) -> float:
    r"""Share that the NEAR nearest of the keys with logits z hold, faded as drawn on "logits" or "log" (None: not)."""
    weights = z.softmax(-1) if form is None else row(z, form, figures.RATE, figures.FLOOR)
    return (weights[:NEAR].sum() / weights.sum()).item()


def level_numbers() -> dict[str, str]:
    r"""What the nearest keys hold with all logits low, as they are, and high."""
    z = content_logits()
    return {
        "level_low": f"{near_share(z - 3, 'logits'):.1%}",
        "level_high": f"{near_share(z + 3, 'logits'):.0%}",
        "level_zero": f"{near_share(z, 'logits'):.1%}",
        "level_none": f"{near_share(z, None):.1%}",
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


@functools.cache
def problem() -> tuple[torch.Tensor, ...]:
    r"""Seeded q, k, v [1, H, T, D], for the checks."""
    return tuple(torch.randn(3, 1, HEADS, LENGTH, HEAD_DIM, dtype=torch.float64, generator=seeded()))


def seeded() -> torch.Generator:
    r"""A generator of its own."""
    return torch.Generator().manual_seed(0)


def variant(**options) -> posenc.Encoding:
    r"""ExpoSB with nothing but these mechanisms."""
    return exposb(HEAD_DIM, HEADS, **BARE | options)


def weights(encoding: posenc.Encoding, start: int = 0) -> torch.Tensor:
    r"""What attention gives each pair, positions counted from `start`."""
    q, k, v = problem()
    at = torch.arange(LENGTH) + start
    return posenc.attention(q, k, v, encoding.double(), pos_q=at, return_weights=True)[1].detach()


def scores(encoding: posenc.Encoding, start: int = 0) -> torch.Tensor:
    r"""q.k after `rotate`, positions counted from `start`."""
    q, k, _ = problem()
    at = torch.arange(LENGTH)[None] + start
    a, b = encoding.double().rotate(q, k, posenc.At(at, at, None))
    return (a @ b.transpose(-2, -1)).detach()


def closed_form() -> torch.Tensor:
    r"""The scores of gain and band together [T, T], by the chapter's formula, for the first head."""
    q, k, _ = problem()
    rates = exposb(HEAD_DIM, HEADS).double().rotate.decay_rates.detach()[0].item()
    c, w = band(HEAD_DIM), inv_freq(HEAD_DIM, dtype=torch.float64)
    u, e = (c[0::2] ** 2 + c[1::2] ** 2) / 2, (c[0::2] ** 2 - c[1::2] ** 2) / 2
    at = torch.arange(LENGTH).double()
    m, n = at[:, None, None], at[None, :, None]
    qa, qb, ka, kb = q[0, 0, :, None, 0::2], q[0, 0, :, None, 1::2], k[0, 0, None, :, 0::2], k[0, 0, None, :, 1::2]
    minus, plus = (n - m) * w, (n + m) * w
    own = qa * (ka * minus.cos() - kb * minus.sin()) + qb * (ka * minus.sin() + kb * minus.cos())
    mirror = qa * (ka * plus.cos() - kb * plus.sin()) - qb * (ka * plus.sin() + kb * plus.cos())
    g = gain(at, rates)
    return g[:, None] * g * (u * own + e * mirror).sum(-1)


def relative_errors() -> dict[str, torch.Tensor]:
    r"""How far a shift of all positions moves the weights of the variants that are relative."""
    variants = {
        "fade": dict(decay=True),
        "band per pair": dict(band=True, per_pair=True),
        "fade on log": dict(decay=True, on="log"),
    }
    return {
        f"relative: {name}": (weights(variant(**options)) - weights(variant(**options), 10_000)).abs().max()
        for name, options in variants.items()
    }


def edge_errors() -> dict[str, torch.Tensor]:
    r"""How far each form is off from what it becomes at its edges, RoPE's weights and their products with the fade."""
    q, k, v = problem()
    rope, pairs = posenc.make("rope", head_dim=HEAD_DIM), band(HEAD_DIM, per_pair=True)
    rescaled = posenc.attention(q * pairs, k * pairs, v, rope, return_weights=True)[1]
    at = torch.arange(LENGTH)
    product = weights(rope) * fade((at[:, None] - at).double())
    normalized = product / product.sum(-1, keepdim=True)
    return {
        "all off is RoPE, exactly": (weights(variant()) - weights(rope)).abs().max(),
        "the band per pair is a rescaling of q and k": (
            (weights(variant(band=True, per_pair=True)) - rescaled).abs().max()
        ),
        "on log: RoPE's weights times f, normalized": (
            (weights(variant(decay=True, on="log")) - normalized).abs().max()
        ),
        "on weights: RoPE's weights times f": (weights(variant(decay=True, on="weights")) - product).abs().max(),
    }


def hazard_errors() -> dict[str, torch.Tensor]:
    r"""How far the hazard form is off from stick-breaking, and from ALiBi's window."""
    z = 3 * torch.randn(4, LENGTH, LENGTH, dtype=torch.float64, generator=seeded())
    past = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril(-1)
    distance = torch.arange(LENGTH - 1, -1, -1.0, dtype=torch.float64)
    window = (1 - math.exp(-0.1)) * torch.exp(-0.1 * distance)
    empty = torch.full((1, LENGTH), -60.0, dtype=torch.float64)
    alone = hazard(empty, torch.ones(1, LENGTH, dtype=torch.bool), 0.1)[0]
    return {
        "hazard at rate 0 is stick-breaking": (hazard(z, past) - posenc.stickbreaking.weigh(z, past)).abs().max(),
        "hazard without matches is ALiBi's window": (alone - window).abs().max(),
    }


def check_errors() -> dict[str, torch.Tensor]:
    r"""How far each claim about the formulas is off."""
    both = scores(exposb(HEAD_DIM, HEADS, decay=False))[0, 0]
    closed = {"the score in closed form": (closed_form() - both).abs().max()}
    return closed | relative_errors() | edge_errors() | hazard_errors()


def shift_change(mechanism: str) -> float:
    r"""By how much a shift of all positions changes scores, as a share of RoPE's largest, with this mechanism alone."""
    moved = scores(variant(**{mechanism: True}), FAR) - scores(variant(**{mechanism: True}))
    return (moved.abs().max() / scores(posenc.make("rope", head_dim=HEAD_DIM)).abs().max()).item()


def print_shifts() -> None:
    r"""How much gain and band are off from relative."""
    for name in ("gain", "band"):
        change = shift_change(name)
        print(f"{'not relative: ' + name:45} a shift by {FAR} changes scores by up to {change:.0%} of the largest")


def equal_share(level: float, keys: int) -> float:
    r"""Share of the NEAR nearest of so many keys with equal logits, faded on logits."""
    return (level * fade(torch.arange(keys).double())).softmax(-1)[:NEAR].sum().item()


def claims() -> list[tuple[str, str, str]]:
    r"""The report's claims: in words, whether each holds, and what its own formulas give."""
    tokens = torch.tensor([0, 1, 100, 1000], dtype=torch.float64)
    g, f = gain(tokens), fade(tokens)
    gone = math.log(0.2 / 0.01) / 0.001  # where the gain is within 1% of 1
    alibi_reach = -math.log(FLOOR) * 256  # where ALiBi's mildest slope takes as much as the fade ever does
    low, high, long = equal_share(-4.0, 1024), equal_share(4.0, 1024), equal_share(4.0, 16_384)
    peak, middle = wavelengths()
    numbers = sum(p.numel() for p in exposb(64, 6).parameters())  # learned, in one layer
    return [
        ("The extra is a fifth at the start", HOLDS, f"gain {g[0]:.1f} at position 0; on a score, {g[0] ** 2:.2f}"),
        ("... and gone by about position 1000", FAILS, f"still {g[3] - 1:+.1%} there; below 1% from {gone:,.0f} on"),
        ("Adjacent tokens keep 100%", HOLDS, f"the factor at distance 1 is {f[1]:.4f}, rounded"),
        ("88% at distance 100, 70% at 1000", HOLDS, f"{f[2]:.3f} and {f[3]:.3f}"),
        (
            "The method is relative",
            PARTLY,
            f"fade: yes. Gain: a shift changes scores by {shift_change('gain'):.0%}; band by lane: "
            f"{shift_change('band'):.0%} (D = {HEAD_DIM}). Band per pair: yes",
        ),
        (
            "A strong, explicit locality bias",
            FAILS,
            f"{NEAR} of 1,024 equal keys hold {low:.1%} at logit −4, {high:.1%} at +4, {NEAR / 1024:.1%} without; on "
            f"log at most {-math.log(FLOOR):.2f} logits, which ALiBi's mildest slope takes in {alibi_reach:.0f} tokens",
        ),
        (
            "No dilution over long texts",
            FAILS,
            f"on logits, {NEAR} equal keys at +4 hold {high:.1%} of 1,024 keys and {long:.1%} of 16,384",
        ),
        (
            "Early positions are told apart better",
            PARTLY,
            f"angles are RoPE's; differences between scores are up to {g[0] ** 2:.2f} times as large, which is a "
            "temperature",
        ),
        (
            "Middle frequencies are amplified",
            PARTLY,
            f"the peak has a wavelength of {peak:.0f} tokens, the ladder's middle {middle:.0f}; per pair, projections "
            "can undo it",
        ),
        (
            "Twelve learned numbers",
            PARTLY,
            f"{numbers} a layer for 6 heads, so {6 * numbers} in its six layers; half of them it does not wire in",
        ),
        ("Exponential stick-breaking", FAILS, "a softmax; the hazard form above is what the name says"),
    ]


def claims_table():
    r"""The report claim by claim."""
    return table(["claim", "holds?", "computed"], [[claim, f"**{holds}**", facts] for claim, holds, facts in claims()])


def predictions():
    r"""What was predicted of each arm before the run."""
    from IPython.display import Markdown

    sweep = SWEEPS["ablation_text"]
    lines = [f"- **{words}**: *{sweep.predictions[arm][1]}*" for arm, words in ARMS.items()]
    return Markdown(
        f"**The predictions**, written before the run, for the change of the loss against RoPE (a change of "
        f"{sweep.tolerance} nats per character or less counts as none):\n\n" + "\n".join(lines)
    )


def parts_figure():
    r"""Loss of each part, at the training length and at the longest."""
    return plot_parts(ablation.text(), {"rope": "RoPE"} | ARMS)


def parts_numbers() -> dict[str, str]:
    r"""What the reading of the parts cites."""
    first, last = ablation.ends()
    return {
        "rope_long": f"{ablation.loss('rope', last):.2f}",
        "logits_long": ablation.amount(*ablation.beside("exposb_logits", last), digits=3),
        "log_long": ablation.amount(*ablation.beside("exposb_log", last), digits=3),
        "all_long": f"{ablation.loss('exposb', last):.2f}",
        "trained": f"{ablation.loss('exposb', first):.2f}",
        "seeds": f"{len(ablation.text()['seeds'])}",
    }
