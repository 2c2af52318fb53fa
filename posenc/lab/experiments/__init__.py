r"""The frozen experiments: the sweeps as data, their runner, results, verdicts and plots."""

from posenc.lab.experiments.comparison import Comparison, compare
from posenc.lab.experiments.results import (
    ONE_A_PLACE,
    check_results,
    commit_of,
    cpu_model,
    load_results,
    on_windows,
    provenance,
    read_json,
    six_digits,
    write_json,
)
from posenc.lab.experiments.sweeps import SWEEPS
from posenc.lab.experiments.verdicts import (
    Interval,
    Verdict,
    half_width,
    in_longer,
    interval,
    judge,
    mean_and_spread,
    verdict,
)

__all__ = ["ONE_A_PLACE", "SWEEPS", "Comparison", "Interval", "Verdict", "check_results", "commit_of", "compare"]
__all__ += ["cpu_model", "half_width", "in_longer", "interval", "judge", "load_results"]
__all__ += ["mean_and_spread", "on_windows", "provenance", "read_json", "six_digits", "verdict", "write_json"]
