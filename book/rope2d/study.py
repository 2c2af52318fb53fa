r"""What *Two axes and more* and *Rotations that commute* tell of the study on pictures, results/pictures.json."""

import itertools

import numpy as np

from posenc.lab.experiments import judge, load_results, mean_and_spread
from posenc.lab.write import cell, signed_pm, table, typeset, unbroken

STUDY = load_results("pictures")
PERTURBED = "glyphs, perturbed"
TITLES = {
    "none": "no encoding",
    "learned": "learned table",
    "sinusoidal": "sinusoids of row and column",
    "axial": "axial 2D-RoPE",
    "mixed": "mixed 2D-RoPE",
    "axial, class token": "axial with a class token",
    "liere 2": "LieRE with blocks of 2",
    "liere 4": "LieRE with blocks of 4",
    "liere 8": "LieRE with blocks of 8",
    "comrope ap": "ComRoPE-AP with blocks of 8",
    "comrope ld": "ComRoPE-LD with blocks of 8",
}
ROTARY = ("axial", "mixed", "liere 2", "liere 4", "liere 8", "comrope ap", "comrope ld", "axial, class token")


def scores(arm: str, test: str, task: str = "glyphs") -> np.ndarray:
    """The share of right answers, in percent, one number a seed."""
    return 100 * np.array(STUDY["tasks"][task]["methods"][arm]["scores"][test])


def mean(arm: str, test: str, task: str = "glyphs") -> float:
    """The mean over seeds of the right answers, in percent."""
    return scores(arm, test, task).mean()


def moved(arm: str) -> np.ndarray:
    """What moving all patches adds to the right answers, in points, one number a seed."""
    start, end = STUDY["contrast"]
    return scores(arm, end) - scores(arm, start)


def tests_table(arms, tests, task="glyphs"):
    """A row an arm, a column a test: right answers in percent, mean and spread over seeds.

    tests: {the column's head: the test's name}.
    """
    rows = [[TITLES[arm], *(cell(scores(arm, test, task), 1) for test in tests.values())] for arm in arms]
    return table(["right answers, %", *tests], rows)


def moved_table(arms):
    """What moving all patches did to each arm, and what had been predicted."""
    start, end = STUDY["contrast"]
    rows = []
    for arm in arms:
        claim = STUDY["predictions"][arm]["claim"]
        outcome = judge(moved(arm), 100 * STUDY["tolerance"], claim)
        difference = unbroken(signed_pm(*mean_and_spread(moved(arm)), 1))
        cells = [cell(scores(arm, test), 1) for test in (start, end)]
        rows.append([TITLES[arm], *cells, difference, f"{claim}: {outcome}"])
    return table(["right answers, %", "as trained", "all patches moved", "difference", "predicted, and so"], rows)


def noise_gains() -> list:
    """What noise in training adds to each rotary arm at four times as many patches, in points: means over seeds."""
    return [mean(arm, "48, normalized", PERTURBED) - mean(arm, "48, normalized") for arm in ROTARY]


def finer_gains(arms) -> dict:
    """{arm: what normalized coordinates add to indices at four times as many patches, in points}: means over seeds."""
    return {arm: mean(arm, "48, normalized") - mean(arm, "48, by index") for arm in arms}


def also_outcomes() -> dict:
    """{prediction: (verdict, numbers)} of those on sizes, noise and forms, judged seed by seed; numbers are means."""
    tolerance, gains, large = 100 * STUDY["tolerance"], finer_gains(ROTARY), "48, normalized"
    least, form = min(gains, key=gains.get), max(("comrope ap", "comrope ld"), key=lambda arm: mean(arm, large))
    finer, method = scores(least, large) - scores(least, "48, by index"), scores(form, large) - scores("axial", large)
    noise = np.mean([scores(arm, large, PERTURBED) - scores(arm, large) for arm in ROTARY], axis=0)
    level = [scores(arm, "24") for arm in ("comrope ap", "comrope ld", "liere 8")]
    apart = [judge((a - b).tolist(), tolerance, "holds") for a, b in itertools.permutations(level, 2)]
    return {
        "resolution": (judge(finer.tolist(), tolerance, "rises"), f"least gain {gains[least]:+.1f} ({TITLES[least]})"),
        "method or augmentation": (
            judge((noise - method).tolist(), 0.0, "rises"),
            f"noise {noise.mean():+.1f}, method {method.mean():+.1f}",
        ),
        "LieRE or ComRoPE": (
            next((v for v in ("failed", "not decided") if v in apart), "came true"),
            "AP {:.1f}, LD {:.1f}, LieRE {:.1f}".format(*(each.mean() for each in level)),
        ),
    }


def also_table(names):
    """Predictions beside the contrast, and what became of them."""
    outcomes, rows = also_outcomes(), []
    for name in names:
        outcome, numbers = outcomes[name]
        rows.append([STUDY["also"][name], outcome, typeset(numbers)])
    return table(["predicted", "outcome", "percent"], rows)
