r"""What the ExpoSB chapter computes behind its prose: numbers, checks of formulas, and the report claim by claim."""

import base64
import functools
import math

import torch

import posenc
from posenc.lab.experiments import SWEEPS, half_width, load_results, verdict
from posenc.lab.experiments.plots import plot_parts
from posenc.lab.figures import exposb as figures
from posenc.lab.figures import four_places
from posenc.lab.figures.exposb import content_logits, row
from posenc.lab.pages import ablation, finish
from posenc.lab.write import interval, pm, signed_pm, table
from posenc.rotate.rope import inv_freq
from posenc.several.exposb import FadedBias, FadedLogits, FadedWeights, band, exposb, fade, gain, hazard

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


def noise_share(encoding: posenc.Encoding, keys: int = 1024, dim: int = 64) -> float:
    r"""Weight on the NEAR nearest of so many keys, for a last query and keys that are noise: a mean over 64 draws."""
    q, k = torch.randn(2, 64, 1, keys, dim, generator=seeded())
    return posenc.attention(q[:, :, -1:], k, k, encoding, return_weights=True)[1][..., -NEAR:].sum(-1).mean().item()


@functools.cache
def noise_shares() -> dict[str, float]:
    r"""That weight under RoPE, and under RoPE with a slope of 1/64 for each token of distance."""
    rope = posenc.make("rope", head_dim=64)

    def slope(q, k, at):
        return posenc.alibi.bias(at.pos_q, at.pos_k, torch.tensor([1 / 64]))

    sloped = posenc.compose(rope, posenc.Encoding(bias=slope))
    return {"RoPE": noise_share(rope), "RoPE, slope 1/64": noise_share(sloped)}


def print_noise_shares() -> None:
    r"""What the nearest keys hold of noise."""
    for name, share in noise_shares().items():
        print(f"{name:18} the nearest {NEAR} of 1024 keys hold {share:.1%}")


def first_numbers() -> dict[str, str]:
    r"""What the first reading cites: shares of noise, the gain, the floor, the frozen study and its prediction."""
    study = load_results("train_short_test_long")
    runs, first, last = study["methods"], study["lengths"][0], study["lengths"][-1]
    rises = [row[-1] - row[0] for row in runs["rope"]["whole"]]
    at_start, far = (gain(torch.tensor([0.0, 1000.0], dtype=torch.float64)) ** 2).tolist()
    return {
        "near": f"{NEAR}",
        "rope_share": f"{noise_shares()['RoPE']:.0%}",
        "slope_share": f"{noise_shares()['RoPE, slope 1/64']:.0%}",
        "gain_start": f"{at_start:.2f}",
        "gain_far": f"{far:.2f}",
        "most": f"{-math.log(FLOOR):.2f}",
        "alibi_reach": f"{alibi_reach()}",
        "prediction": study["predictions"]["exposb"],
        "verdict": verdict(study, "exposb").words,
        "study_short": f"{first}",
        "study_long": f"{last}",
        "study_seeds": f"{len(runs['exposb']['whole'])}",
        "rope_rise": pm(rises),
    }


def alibi_reach() -> int:
    r"""After how many tokens ALiBi's mildest slope has taken as much as the fade, as a penalty, ever does."""
    return math.ceil(-math.log(FLOOR) * 256)


def hand_weights() -> dict[str, list[float]]:
    r"""{form: weights} of three keys of logit -2, floor 1/2 and a rest that halves with each token: By hand."""
    q = torch.tensor([2.0, 0, 0, 2], dtype=torch.float64).view(1, 1, 1, 4)
    k = torch.tensor([-1.0, 0, 0, -1], dtype=torch.float64).expand(1, 1, 3, 4)
    forms = {"logits": ("weigh", FadedLogits), "weights": ("weigh", FadedWeights), "log": ("bias", FadedBias)}
    return {
        name: posenc.attention(
            q, k, k, posenc.Encoding(**{place: form(1, math.log(2), 0.5, False)}), return_weights=True
        )[1]
        .flatten()
        .tolist()
        for name, (place, form) in forms.items()
    }


def hand_numbers() -> dict[str, str]:
    r"""The weights of *By hand*, and what the row on weights sums to: {"hand_logits_0": "0.444", ...}."""
    numbers = {f"hand_{form}_{j}": f"{w:.3f}" for form, row in hand_weights().items() for j, w in enumerate(row)}
    return numbers | {"hand_sum": f"{sum(hand_weights()['weights']):.3f}"}


def check_short(weigh, dim: int = 8, tokens: int = 40) -> None:
    r"""Hold the page's own lines, weigh(q, k) for one head, against posenc. Errors: AssertionError."""
    q, k = torch.randn(2, tokens, dim, generator=seeded())
    expected = posenc.attention(q[None, None], k[None, None], k[None, None], exposb(dim, 1), return_weights=True)[1]
    torch.testing.assert_close(weigh(q, k), expected[0, 0].detach())


def card_figure():
    r"""The card's picture: the three factors, each over what it reads."""
    import matplotlib.pyplot as plt

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
    return {"peak": f"{peak:.0f}", "middle": f"{middle:.0f}", "band_rest": f"{rest:.0%}"} | xpos_words()


def xpos_words() -> dict[str, str]:
    r"""What xPos does to the lengths of queries and of keys as the position grows."""
    places, ones = torch.tensor([[0, 100]]), torch.ones(1, 1, 2, HEAD_DIM, dtype=torch.float64)
    turned = posenc.rope.xpos(HEAD_DIM).rotate(ones, ones, posenc.encoding.At(places, places, None))
    words = ["grow" if (length[1] > length[0]) else "shrink" for length in (x.norm(dim=-1)[0, 0] for x in turned)]
    return {"xpos_queries": f"queries {words[0]}", "xpos_keys": f"keys {words[1]}"}


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
    reach = alibi_reach()
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
            f"log at most {-math.log(FLOOR):.2f} logits, which ALiBi's mildest slope takes in {reach} tokens",
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
    arms, study = ablation.text()["methods"], load_results("train_short_test_long")["methods"]
    for arm in ARMS:  # "these seeds tell no arm from RoPE"
        gap = [a - b for a, b in zip(arms[arm]["scores"][first], arms["rope"]["scores"][first])]
        assert abs(sum(gap) / len(gap)) < half_width(gap), arm
    change = {arm: ablation.beside(arm, last)[0] for arm in ARMS}  # what the text says of the longest
    assert change["exposb_logits"] < min(-0.3, change["exposb_weights"]) and change["exposb"] < -0.2
    assert change["exposb_weights"] < change["exposb_log"] and -0.1 < change["exposb_log"] < 0
    assert abs(change["exposb_band"]) < 0.1 and abs(change["exposb_pairs"]) < 0.1
    needle = ablation.needle()["methods"]
    missed = {arm: sum(needle[arm]["scores"]["far"]) / len(needle[arm]["scores"]["far"]) for arm in needle}
    assert all(missed[arm] > max(0.4, missed["rope"] - 0.05) for arm in ARMS)
    return {
        "tuned": interval([a[0] - b[0] for a, b in zip(study["exposb"]["whole"], study["rope"]["whole"])]),
        "rope_long": f"{ablation.loss('rope', last):.2f}",
        "logits_long": signed_pm(*ablation.beside("exposb_logits", last), digits=3),
        "log_long": signed_pm(*ablation.beside("exposb_log", last), digits=3),
        "all_long": f"{ablation.loss('exposb', last):.2f}",
        "trained": f"{ablation.loss('exposb', first):.2f}",
        "seeds": f"{len(ablation.text()['seeds'])}",
    }
