r"""What became of a prediction: it came true, failed or not decided, with the numbers in a sentence."""

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy

from posenc.errors import check_choice
from posenc.lab.titles import title


class Verdict(NamedTuple):
    r"""What became of a prediction.

    outcome: "came true", "failed" or "not decided"; change and spread: mean and standard deviation over seeds of what
    the prediction is about, for text the loss at the longest context less that at the training length; low and high:
    the 95% interval of the change, infinite for one seed; gap (text only): mean over seeds of (whole - cut) at the
    longest context, and gap_spread its standard deviation; words: a sentence with these numbers.
    """

    outcome: str
    change: float
    spread: float
    low: float
    high: float
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


def judge(values: Sequence[float], tolerance: float, claim: str, seeds: int | None = None) -> str:
    r"""Whether a claim on a change "came true" or "failed" by its 95% interval, or is "not decided".

    Arguments: values: the change, one number a seed, a single one decides nothing; then, where `seeds` says how many
    these are, one a block, as `half_width` takes them. tolerance: what still counts as no change, in the values' unit.
    claim: "rises", "holds", "falls" or "stays", as in `verdict`.
    """
    check_choice("claim", claim, CLAIMS)
    if len(values[:seeds]) < 2:
        return "not decided"
    mean, half = mean_and_spread(values[:seeds])[0], half_width(values, seeds)
    return outcome(mean - half, mean + half, tolerance, claim)


def outcome(low: float, high: float, tolerance: float, claim: str) -> str:
    """ "came true" or "failed" where all from low to high is beyond the tolerance or within it, else "not decided"."""
    if claim in ("falls", "stays"):
        low, high = -high, -low
    if low > tolerance:
        return "came true" if claim in ("rises", "falls") else "failed"
    if high <= tolerance:
        return "failed" if claim in ("rises", "falls") else "came true"
    return "not decided"


def verdict(results: dict, method: str, claim: str | None = None) -> Verdict:
    r"""Whether the prediction for `method` came true, by the 95% `interval` of its change.

    "rises" came true where all of the interval exceeds the tolerance and failed where none of it does; "holds" is the
    other way around; "falls" and "stays" are the same for the change's negative. In between, and with a single seed, it
    is "not decided". One interval in twenty misses what it is for: say how many were read.

    Arguments: claim: "rises", "holds", "falls" or "stays", default the prediction that was frozen with the results.
    Returns: a `Verdict`. Errors: ValueError for a method that the results lack or an unknown claim.
    """
    check_choice("method", method, list(results["methods"]))
    claim = results["claims"][method] if claim is None else claim
    check_choice("claim", claim, CLAIMS)
    values, tolerance = results["methods"][method], results["tolerance"]
    change, spread = mean_and_spread(changes(results, method))
    low, high = interval(results, method)[1:3] if len(changes(results, method)) > 1 else (-math.inf, math.inf)
    result = outcome(low, high, tolerance, claim)
    digits = 3 if max(abs(change), spread) >= 5e-4 else 4
    way = "changes" if abs(change) < 5e-5 else "rises" if change > 0 else "falls"
    moved = f"{way} by {abs(change):.{digits}f} ± {spread:.{digits}f}"
    between = f"95% interval {low:.{digits}f} to {high:.{digits}f}" if math.isfinite(low) else "one seed: no interval"
    between = "alike for all seeds: no interval" if low == high else between
    ends = f"Predicted was {CLAIMS[claim]} {tolerance:g}"
    if "contrast" in results:
        start, end = results["contrast"]
        where = f"beside {title(results['against'])}" if results["against"] else f"from {start!r} to {end!r}"
        words = f"{title(method)}: {where} the {results['unit']} {moved} ({between}). {ends}: {result}."
        return Verdict(result, change, spread, low, high, 0.0, 0.0, words)
    whole, cut = numpy.array(values["whole"]), numpy.array(values["cut"])  # [seeds, lengths]
    gap, gap_spread = mean_and_spread(whole[:, -1] - cut[:, -1])
    shortest, longest = results["lengths"][0], results["lengths"][-1]
    side = f"{abs(gap):.3f} ± {gap_spread:.3f} nats {'above' if gap > 0 else 'below'}"
    words = (
        f"{title(method)}: from {shortest} to {longest} characters of context the loss {moved} nats per character "
        f"({between}), and ends {'level with' if abs(gap) < 5e-4 else side} the same model with its attention cut to "
        f"{shortest} keys. {ends} nats: {result}."
    )
    return Verdict(result, change, spread, low, high, gap, gap_spread, words)


# Student's t for two-sided 95%, by degrees of freedom
T95 = (12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131)
T95 += (2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042, 2.040)


EQUAL = 0.1  # of the tolerance: an interval within so much of zero is no difference


def half_width(values: Sequence[float], seeds: int | None = None) -> float:
    r"""Half of the 95% interval of a mean over seeds, by Student's t. values: one number a seed, at least two.

    Where so many `seeds` are followed by the means over them of blocks of windows, windows are drawn anew too: the root
    of the sum of the squares of both halves. A little too wide: what one seed alone does in one block is in both.
    """

    def half(numbers):
        t = T95[min(len(numbers) - 1, len(T95)) - 1]
        return t * mean_and_spread(numbers)[1] / math.sqrt(len(numbers))

    return math.hypot(half(values[:seeds]), half(values[seeds:])) if seeds else half(values)


DRAWS = 2000


class Interval(NamedTuple):
    r"""A 95% interval of a change, over so many seeds and blocks of windows (0: the windows are fixed)."""

    mean: float
    low: float
    high: float
    seeds: int
    blocks: int


def interval(results: dict, arm: str) -> Interval:
    r"""The 95% interval of what the prediction for `arm` is about, in the results' unit; seeds are paired.

    By Student's t over seeds, for this test's windows. Where the losses of blocks of windows are stored, for windows
    drawn anew too: 2,000 times the blocks are drawn with replacement, and for each draw the mean over seeds with
    Student's t around it, since drawing five seeds with replacement would give an interval a third too narrow.

    Errors: ValueError for an arm that the results lack, or with fewer than two seeds.
    """
    check_choice("arm", arm, list(results["methods"]))
    if arm == results.get("against"):
        raise ValueError(f"arm={arm!r} is what the others are compared with: it has no change of its own")
    values, blocks = changes(results, arm), block_changes(results, arm)
    if len(values) < 2:
        raise ValueError(f"arm={arm!r} has {len(values)} seed; an interval takes at least two, see --seeds")
    mean, half = mean_and_spread(values)[0], half_width(values)
    if blocks is None:
        return Interval(mean, mean - half, mean + half, len(values), 0)
    seeds, count = blocks.shape
    random = numpy.random.default_rng(0)
    drawn = blocks[:, random.integers(count, size=(DRAWS, count))].mean(-1)  # [seeds, DRAWS]
    drawn = drawn.mean(0) + drawn.std(0, ddof=1) / math.sqrt(seeds) * random.standard_t(seeds - 1, DRAWS)
    low, high = numpy.quantile(drawn, (0.025, 0.975))
    return Interval(mean, float(low), float(high), seeds, count)


def block_changes(results: dict, arm: str) -> numpy.ndarray | None:
    """`changes` of each block of windows, [seeds, blocks]; None where the results do not hold them."""
    other = results.get("against") or arm
    if any("blocks" not in results["methods"][name] for name in (arm, other)):
        return None
    start, end = results.get("contrast") or (None, None)
    lengths = list(results["tests"]) if "tests" in results else [str(length) for length in results["lengths"]]
    last = lengths.index(end) if end is not None else -1
    first = last if other != arm else lengths.index(start) if start is not None else 0

    def rows(name, at):
        return numpy.array([cell["whole"][at] for cell in results["methods"][name]["blocks"]])

    after, before = rows(arm, last), rows(other, first)
    return after[: len(before)] - before[: len(after)]


def in_longer(
    short: Sequence[float], whole: Sequence[float], cut: Sequence[float], tolerance: float, seeds: int | None = None
) -> str:
    r"""The word for a model in a longer context: "breaks", "not decided", or how it holds.

    It breaks if all of the 95% interval of whole - short is above the tolerance, by `judge`, and holds if none is.
    How, says the 95% interval of whole - cut: "ignores" within `EQUAL` times the tolerance of zero, "extrapolates"
    below zero, "suffers" above; else it "holds", and these data don't tell how.

    Arguments: short, whole, cut: losses or shares of errors, one a seed, in the training window, in the longer context,
    and there with attention cut to the training window; at least two. tolerance: how much more still holds. seeds: as
    `half_width`, where losses in blocks of windows follow.
    """
    rises = [b - a for a, b in zip(short, whole, strict=True)]
    judged = judge(rises, tolerance, "rises", seeds)
    if judged != "failed":
        return "breaks" if judged == "came true" else judged
    gaps = [a - b for a, b in zip(whole, cut, strict=True)]
    mean, half = numpy.mean(gaps[:seeds]), half_width(gaps, seeds)
    if abs(mean) + half <= EQUAL * tolerance:
        return "ignores"
    return "holds" if abs(mean) <= half else "extrapolates" if mean < 0 else "suffers"
