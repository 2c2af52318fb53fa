r"""What became of a prediction: held, failed or within the spread, with the numbers in a sentence."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy

from posenc.errors import check_choice
from posenc.methods import METHODS


class Verdict(NamedTuple):
    r"""What became of a prediction.

    outcome: "held", "failed" or "within the spread"; change and spread: mean and standard deviation over seeds of what
    the prediction is about, for text the loss at the longest context less that at the training length; gap (text
    only): mean over seeds of (whole - cut) at the longest context, and gap_spread its standard deviation; words: a
    sentence with these numbers.
    """

    outcome: str
    change: float
    spread: float
    gap: float
    gap_spread: float
    words: str


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and sample standard deviation of one number a seed (0.0 for a single seed)."""
    values = numpy.asarray(values, dtype=float)
    return float(values.mean()), float(values.std(ddof=1)) if len(values) > 1 else 0.0


def changes(results: dict, arm: str) -> list[float]:
    """For each seed, the change that the prediction for this arm is about."""
    values = results["methods"][arm]
    if "contrast" not in results:
        return [row[-1] - row[0] for row in values["whole"]]
    start, end = results["contrast"]
    before = results["methods"][results["against"]]["scores"][end] if results["against"] else values["scores"][start]
    return [b - a for a, b in zip(before, values["scores"][end])]


CLAIMS = {
    "rises": "a rise of more than",
    "holds": "no rise of more than",
    "falls": "a fall of more than",
    "stays": "no fall of more than",
}


def judge(change: float, spread: float, tolerance: float, claim: str) -> str:
    """ "held", "failed" or "within the spread"."""
    moved = -change if claim in ("falls", "stays") else change
    if moved - spread > tolerance:
        return "held" if claim in ("rises", "falls") else "failed"
    if moved + spread <= tolerance:
        return "failed" if claim in ("rises", "falls") else "held"
    return "within the spread"


def verdict(results: dict, method: str, claim: str | None = None) -> Verdict:
    r"""Whether the prediction for `method` held, from the numbers in `results`.

    "rises" holds where the change minus the spread exceeds the tolerance and fails where the change plus the spread
    doesn't reach it; "holds" is the other way around; "falls" and "stays" are the same for the change's negative. In
    between the seeds don't tell: "within the spread".

    Arguments: claim: "rises", "holds", "falls" or "stays", default the prediction that was frozen with the results.
    Returns: a `Verdict`. Errors: ValueError for a method that the results lack or an unknown claim.
    """
    check_choice("method", method, list(results["methods"]))
    claim = results["claims"][method] if claim is None else claim
    check_choice("claim", claim, CLAIMS)
    values, tolerance = results["methods"][method], results["tolerance"]
    change, spread = mean_and_spread(changes(results, method))
    outcome = judge(change, spread, tolerance, claim)
    digits = 3 if max(abs(change), spread) >= 5e-4 else 4
    way = "changes" if abs(change) < 5e-5 else "rises" if change > 0 else "falls"
    moved = f"{way} by {abs(change):.{digits}f} ± {spread:.{digits}f}"
    ends = f"Predicted was {CLAIMS[claim]} {tolerance:g}"
    lies = f"{'that lies ' if outcome == 'within the spread' else ''}{outcome}."
    title = METHODS[method].title if method in METHODS else method
    if "contrast" in results:
        start, end = results["contrast"]
        if results["against"]:
            other = METHODS[results["against"]].title if results["against"] in METHODS else results["against"]
            words = f"{title}: beside {other} the {results['unit']} {moved}. {ends}: {lies}"
        else:
            words = f"{title}: from {start!r} to {end!r} the {results['unit']} {moved}. {ends}: {lies}"
        return Verdict(outcome, change, spread, 0.0, 0.0, words)
    whole, cut = numpy.array(values["whole"]), numpy.array(values["cut"])  # [seeds, lengths]
    gap, gap_spread = mean_and_spread(whole[:, -1] - cut[:, -1])
    shortest, longest = results["lengths"][0], results["lengths"][-1]
    beside = (
        "level with" if abs(gap) < 5e-4 else f"{abs(gap):.3f} ± {gap_spread:.3f} nats {'above' if gap > 0 else 'below'}"
    )
    words = (
        f"{title}: from {shortest} to {longest} characters of context the loss {moved} nats per character, and ends "
        f"{beside} the same model with its attention cut to {shortest} keys. {ends} nats: {lies}"
    )
    return Verdict(outcome, change, spread, gap, gap_spread, words)


def far_context(whole: Sequence[float], cut: Sequence[float]) -> str:
    r"""What the paired difference whole - cut of some seeds says about the far context, in words.

    A difference counts where it is at least 0.001 nats and beyond 2.8 standard errors (95% for five seeds).
    """
    mean, spread = mean_and_spread([a - b for a, b in zip(whole, cut)])
    if abs(mean) < 0.001 or abs(mean) < 2.8 * spread / math.sqrt(len(whole)):
        return "no difference: what is far is ignored"
    return f"what is far {'costs' if mean > 0 else 'saves'} {abs(mean):.3f}"
