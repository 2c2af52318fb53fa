r"""An encoding of your own beside the frozen arms of a sweep.

    yours = compare(lambda layer: MyEncoding(), sweep="needle", seeds=5)
    print(yours.verdict.words)
    yours.figure()

Chapter: Auditing a proposal.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy

from posenc.errors import check_choice, check_int
from posenc.lab.experiments.results import load_results
from posenc.lab.experiments.run import over_seeds, run_cell
from posenc.lab.experiments.sweeps import SWEEPS
from posenc.lab.experiments.verdicts import CLAIMS, Verdict, verdict
from posenc.lab.train import Settings
from posenc.lab.train.tasks import load_corpus

SWEPT = [name for name, sweep in SWEEPS.items() if sweep.arms is None]  # those over methods


class Comparison(NamedTuple):
    r"""What became of your encoding in a sweep.

    name: what it is called; results: the frozen results with your arm under that name in ["methods"], its numbers lists
    over seeds, in results["unit"]; verdict: its `Verdict`, with the 95% interval of its change.
    """

    name: str
    results: dict
    verdict: Verdict

    def figure(self):
        """The sweep's plot, a matplotlib figure, with your encoding in it."""
        from posenc.lab.experiments import plots

        if "tests" in self.results:
            return plots.plot_scores(self.results)
        mine = self.results["methods"][self.name]
        own = {kind: numpy.mean(mine[kind], axis=0) for kind in ("whole", "cut")}
        frozen = [arm for arm in self.results["methods"] if arm != self.name]
        return plots.plot_short_long(self.results, frozen, own={self.name: own | {"lengths": self.results["lengths"]}})


def compare(
    my_encoding: Callable,
    sweep: str = "needle",
    seeds: int = 5,
    *,
    name: str = "yours",
    claim: str | None = None,
    lr: float | None = None,
    own: float = 1.0,
    device: str = "cpu",
) -> Comparison:
    r"""Train an encoding of your own under the settings of a frozen sweep, and place it beside the frozen arms.

    Arguments:
        my_encoding: make_encoding(layer) -> `Encoding`, as `Model` takes it, for heads [B, H, T, D] of the sweep's
            sizes: load_results(sweep)["settings"] holds dim, num_heads (D = dim / num_heads), length and multiples.
        sweep: one over methods, such as "needle" or "train_short_test_long".
        seeds: how many, from 0; each starts from the frozen arms' weights but for your own, and reads their batches. A
            seed takes as long as the frozen "seconds" say, a minute or so.
        name: what to call it.
        claim: what to predict of it: "rises", "holds", "falls" or "stays"; default "holds", and "falls" where the
            sweep compares with another arm.
        lr: the learning rate, default the sweep's first; own: a factor on it for your encoding's own parameters. Each
            frozen arm has the best of three to seven such pairs, load_results(sweep)["choice"].
        device: as `train` takes it; the frozen arms were trained on the CPU.
    Returns: a `Comparison`. Its numbers have the sweep's unit: a share of wrong answers, or nats per character.
    Errors: TypeError or ValueError naming the argument; ValueError where this Python's text is not that of the results.
    """
    check_choice("sweep", sweep, SWEPT)
    frozen = load_results(sweep)
    if not callable(my_encoding):
        raise TypeError(f"my_encoding={my_encoding!r} must be callable: my_encoding(layer) -> Encoding")
    check_int("seeds", seeds)
    if seeds > len(frozen["seeds"]):
        raise ValueError(f"seeds={seeds} must be at most {len(frozen['seeds'])}, those of the frozen arms")
    if name in frozen["methods"]:
        raise ValueError(f"name={name!r} is a frozen arm of {sweep!r}; choose another")
    if SWEEPS[sweep].task in ("text", "masked") and load_corpus().sha256 != frozen["corpus"]["sha256"]:
        raise ValueError(
            f"sweep={sweep!r} was trained on another text than this Python's; use {frozen['versions'].split(',')[0]}, "
            f"or a puzzle, such as sweep='needle'"
        )
    claim = ("falls" if frozen.get("against") else "holds") if claim is None else claim
    check_choice("claim", claim, CLAIMS)
    mine = SWEEPS[sweep]._replace(arms={name: (my_encoding, {})})
    settings = Settings(**frozen["settings"] | {"own": own} | ({} if lr is None else {"lr": lr}))
    cells = [run_cell(mine, name, seed, settings, device) for seed in range(seeds)]
    values = over_seeds(cells) | {"seeds": list(range(seeds))}
    results = frozen | {"methods": frozen["methods"] | {name: values}, "claims": frozen["claims"] | {name: claim}}
    return Comparison(name, results, verdict(results, name))
