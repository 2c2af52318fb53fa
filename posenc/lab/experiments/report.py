r"""The comparison of the report that this book began with: five encodings, two objectives, one model.

    python -m posenc.lab.experiments report --preset small      # writes results/report_small.json, and a figure

No page shows it, and no file of it is frozen.
"""

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from posenc.errors import UnsupportedError, check_choice
from posenc.lab.experiments.plots import plot_report
from posenc.lab.experiments.rates import run_rates
from posenc.lab.experiments.results import check_results, read_results, write_json
from posenc.lab.experiments.runner import run_sweep
from posenc.lab.experiments.sweeps import Sweep, measure_masked, measure_volume
from posenc.lab.train import settings_for
from posenc.lab.train.command import change

# The report's five, then NoPE and what the other places usually do.
ARMS = {
    "absolute": ("sinusoidal", {"embed_at": "layer_qk"}),
    "standard": ("learned", {"embed_at": "layer_qkv"}),
    "rope": ("rope", {}),
    "exposb": ("exposb", {}),
    "rse": ("rse", {}),
    "nope": ("nope", {}),
    "sinusoidal": ("sinusoidal", {}),
    "alibi": ("alibi", {}),
    "stickbreaking": ("stickbreaking", {}),
}
REPORTED = tuple(ARMS)[:5]
# "original" has the report's sizes; "small" a third of each, heads of 64 lanes as there, and a rate for that size.
SMALL = {"dim": 128, "num_layers": 2, "num_heads": 2, "length": 85, "steps": 1500, "warmup": 50, "lr": 1e-3}
MULTIPLES = (1, 2, 4)
TESTED = {"multiples": MULTIPLES, "windows": 960}
PRESETS = {"small": SMALL | TESTED, "original": TESTED}
OBJECTIVES = ("causal", "masked")


def table_rows(model) -> list[float]:
    """The root mean square of each row of the table in the first layer; [] for a model that has none."""
    table = getattr(model.blocks[0].attention.encoding.embed, "table", None)
    return [] if table is None else table.detach().square().mean(-1).sqrt().tolist()


def measure_causal(model, settings):
    return measure_volume(model, settings) | {"rows": table_rows(model)}


def measure_masked_rows(model, settings):
    return measure_masked(model, settings) | {"rows": table_rows(model)}


NEW_PLACES = "Every token beyond the training length stands at a position whose vector the projections never read."
NEW_ROWS = "The rows beyond the training length never get a gradient."
NEW_ANGLES = "Distances beyond the training length turn the slow pairs by angles never seen."
CAUSAL = {  # from the training length to four times that, written before the runs
    "absolute": ("rises", NEW_PLACES),
    "standard": ("rises", NEW_ROWS),
    "rope": ("rises", NEW_ANGLES),
    "exposb": ("rises", f"{NEW_ANGLES} Its factors stay near 1."),
    "rse": ("rises", f"{NEW_ANGLES} Early keys claim first, and there are more of them."),
    "nope": ("rises", "More keys share the softmax, and nothing tells near from far."),
    "sinusoidal": ("rises", NEW_PLACES),
    "alibi": ("holds", "What is far is penalized more than anything in training was."),
    "stickbreaking": ("holds", "Near keys take their share first, however many stand behind them."),
}
PREDICTIONS = {
    "causal": CAUSAL,
    "masked": CAUSAL
    | {
        "nope": ("holds", "A larger bag of characters is still a bag: the shares of letters in it change little."),
        "stickbreaking": ("rises", "From the first key on, keys before the trained window now claim first."),
    },
}
FACTS = ("command", "commit", "versions", "machine", "settings", "corpus", "device")


def sweep_of(objective: str, length: int) -> Sweep:
    """The sweep of one objective, for a model trained at this length."""
    causal = objective == "causal"
    return Sweep(
        task="text" if causal else "masked",
        question="What do five encodings make of one model, at its training length and beyond?",
        measure=measure_causal if causal else measure_masked_rows,
        unit="nats per character" if causal else "nats per masked character",
        contrast=(str(length), str(length * MULTIPLES[-1])),
        tolerance=0.05,
        predictions=PREDICTIONS[objective],
        headline="The report prints curves without numbers, seeds or held-out text, and concludes that RoPE, ExpoSB "
        "and RSE extrapolate where a learned table fails.",
        shows_not="What the report's own sizes, steps and text would give.",
        arms=ARMS,
        facts=lambda settings: {
            "lengths": settings.lengths,
            "tests": {str(n): f"context {n}" for n in settings.lengths},
        },
    )


def run_report(
    preset: str,
    out: Path | None = None,
    *,
    seeds: int = 5,
    arms: Sequence[str] | None = None,
    device: str = "cpu",
    command: str = "",
    changes: dict | None = None,
) -> dict:
    r"""Choose each arm's rates, train all of them both ways, and write one JSON and one figure beside it.

    The same command goes on where it was stopped: what is finished lies in the folder `out`.parts.

    Arguments:
        preset: "small" or "original".
        out: the JSON, default results/report_PRESET.json; the figure has the same name, ending in .svg.
        seeds, arms, device: as for `run_sweep`; arms are names in `ARMS`.
        command: how a reader runs this again.
        changes: fields of `Settings` other than the preset's.
    Returns: what the JSON holds: where it comes from, and for each of ["objectives"] a sweep's ["results"] and the
        ["rates"] that they were trained with.
    Errors: as `run_sweep`; UnsupportedError under torchrun.
    """
    check_choice("preset", preset, PRESETS)
    if int(os.environ.get("WORLD_SIZE", 1)) > 1:
        raise UnsupportedError("report runs in one process: start it without torchrun")
    out = Path("results") / f"report_{preset}.json" if out is None else out
    changes = PRESETS[preset] | (changes or {})
    length = settings_for("original", **changes).length
    parts, found = out.with_name(out.name + ".parts"), {}
    for objective in OBJECTIVES:
        files = {kind: parts / f"{kind}_{objective}.json" for kind in ("rates", "results")}
        given = {"device": device, "changes": changes, "sweep": sweep_of(objective, length)}
        name = f"report_{objective}"
        if not files["rates"].exists():
            run_rates(name, "original", arms, files["rates"], command, **given)
        if not files["results"].exists():
            run_sweep(name, "original", seeds, arms, files["results"], command, rates=files["rates"], **given)
        found[objective] = {kind: read_results(file) for kind, file in files.items()}
    first = found[OBJECTIVES[0]]["results"]
    facts = {key: first[key] for key in FACTS if key in first}
    report = facts | {"name": f"report_{preset}", "preset": preset, "seeds": first["seeds"], "objectives": found}
    write_json(out, check_results(report))
    plot_report(report).savefig(out.with_suffix(".svg"), metadata={"Date": None})
    shutil.rmtree(parts)
    return report


def add_command(commands) -> None:
    """Add `report` to the commands of `python -m posenc.lab.experiments`."""
    report = commands.add_parser("report", help="five encodings, two objectives, one model: one JSON and its figure")
    report.add_argument("--preset", default="small", choices=PRESETS)
    report.add_argument("--seeds", type=int, default=5, help="how many seeds, from 0")
    report.add_argument("--arms", nargs="+", choices=ARMS, help="default all")
    report.add_argument("--set", nargs="+", default=[], type=change, metavar="NAME=NUMBER", help="other settings")
    report.add_argument("--out", type=Path, help="default results/report_PRESET.json")
    report.add_argument("--device", default="cpu", help="cpu or cuda")


def from_command(options, arguments: Sequence[str]) -> None:
    words = f"python -m posenc.lab.experiments {' '.join(arguments)}"
    kept = {"seeds": options.seeds, "arms": options.arms, "device": options.device, "changes": dict(options.set)}
    run_report(options.preset, options.out, command=words, **kept)
