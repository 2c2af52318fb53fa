r"""Tables of the frozen ablations, for the chapters on methods that have several parts."""

import numpy

from posenc.lab.experiments import Interval, interval, load_results, mean_and_spread, verdict
from posenc.lab.explore.parts import signed
from posenc.lab.write import table, unbroken

TEXT = load_results("ablation_text")
NEEDLE = load_results("ablation_needle")


def ends() -> tuple[str, str]:
    r"""Names of the shortest test on text, as long as training, and of the longest."""
    lengths = TEXT["lengths"]
    return str(lengths[0]), str(lengths[-1])


def beside(arm: str, column: str, other: str = "rope", results: dict = TEXT) -> Interval:
    r"""An arm's score less another's with the same seed: its mean and 95% interval, on text windows drawn anew too."""
    return interval(results | {"contrast": [None, column], "against": other}, arm)


def in_words(arm: str, column: str, other: str = "rope", results: dict = TEXT) -> str:
    r"""`beside` as "−0.012 (−0.020 to −0.004)", of a puzzle in percentage points."""
    scale, digits = (1, 3) if results is TEXT else (100, 0)
    middle, low, high = (signed(scale * value, digits) for value in beside(arm, column, other, results)[:3])
    return f"{middle} ({low} to {high})"


def learned(arm: str, name: str, results: dict = TEXT) -> numpy.ndarray:
    r"""What an arm's own numbers have become, of each seed and layer: [seeds, layers, numbers]."""
    return numpy.array([own[name] for own in results["methods"][arm]["own"]])


def predicted(results: dict, arm: str) -> str:
    r"""What was predicted of an arm, and what became of it."""
    return f"{results['claims'][arm]}: {verdict(results, arm).outcome}"


def text_table(arms: dict[str, str]):
    r"""A row for each {arm: words}: loss beside RoPE's, as trained and at the longest test, and what was predicted."""
    first, last = ends()
    rows = [[words, in_words(arm, first), predicted(TEXT, arm), in_words(arm, last)] for arm, words in arms.items()]
    return table(["arm", f"beside RoPE, {first} characters", "predicted", f"beside RoPE, {last}"], rows)


def needle_table(arms: dict[str, str]):
    r"""A row for each {arm: words} and RoPE: shares of missed needles, the far beside RoPE's, what was predicted."""
    rows = []
    for arm, words in ({"rope": "RoPE"} | arms).items():
        scores = NEEDLE["methods"][arm]["scores"]
        shares = (mean_and_spread(scores[test]) for test in ("in", "near", "far"))
        cells = [unbroken(f"{100 * mean:.0f} ± {100 * spread:.0f}%") for mean, spread in shares]
        cells.append("" if arm == "rope" else in_words(arm, "far", results=NEEDLE))
        rows.append([words, *cells, predicted(NEEDLE, arm)])
    return table(["arm", "as trained", "long, near", "long, far", "far, points beside RoPE", "predicted"], rows)
