r"""Results: frozen in results/, read by name, and refused where they are not whole.

results = load_results("flipflop")            # frozen, from results/flipflop.json
verdict(results, "rope").words                # came true, failed or not decided, with the numbers
"""

import dataclasses
import importlib.metadata
import importlib.resources
import json
import math
import os
import platform
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import numpy
import torch

from posenc.errors import check_choice, nearest
from posenc.lab.train import Settings
from posenc.lab.train.files import replacing
from posenc.lab.train.measures import BLOCKS, KINDS
from posenc.lab.train.tasks import load_corpus

# None, and then a method for each of the four places: what pages show that need no more than that.
ONE_A_PLACE = ("nope", "sinusoidal", "rope", "alibi", "stickbreaking")
ORIGIN = ("name", "command", "commit", "versions", "machine", "settings")  # what every result says of itself
WIDTH = 210  # characters of a line of JSON: the losses of five seeds at four lengths


# -------------------------------------------------------------------------------------------------------- what is read


def load_results(name: str, methods: Iterable[str] | None = None) -> dict:
    r"""Read frozen results by name, the file name in results/ without its ending; `methods` keeps these arms alone.

    Every one holds ["command"], ["commit"], ["versions"], ["machine"], ["settings"]. A sweep also holds ["seeds"],
    ["question"], ["unit"], ["predictions"][arm], ["claims"][arm], ["headline"], ["shows_not"], and for each of
    ["methods"] lists over seeds: ["scores"][test] for a puzzle or "masked", with ["tests"][test] in words; for
    "train_short_test_long" and "sinusoidal_volume" [kind] with kind in `KINDS`, each a list over ["lengths"], in nats
    per character. An arm that was added later, see ["added"], names ["seeds"] of its own.

    Errors: FileNotFoundError for an unknown name; ValueError where a file is not what it should be, or lacks a method.
    """
    folder = importlib.resources.files("posenc.results")
    known = sorted(item.name.removesuffix(".json") for item in folder.iterdir() if item.name.endswith(".json"))
    if name not in known:
        raise FileNotFoundError(f"name={name!r} is no frozen result; there are {known}.{nearest(name, known)}")
    results = read_results(folder / f"{name}.json", name)
    if methods is None:
        return results
    for arm in methods:
        check_choice("methods", arm, list(results.get("methods", {})))
    parts = [key for key in ("methods", "claims", "predictions") if key in results]
    return results | {key: {arm: value for arm, value in results[key].items() if arm in methods} for key in parts}


def read_results(path: Path, name: str | None = None) -> dict:
    r"""The results in a file. Errors: ValueError naming one that is damaged, or holds others than those of a `name`."""
    results = read_json(path)
    try:
        check_results(results)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from error
    if name is not None and results["name"] != name:
        raise ValueError(f"{path} holds the results {results['name']!r}, not {name!r}")
    return results


def read_json(path: Path) -> dict:
    r"""A JSON file of ours: a dict. Errors: ValueError naming a damaged file; OSError for one that can't be read."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); move it away and run again") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path} is damaged (it holds a {type(value).__name__}); move it away and run again")
    return value


def check_results(results: dict) -> dict:
    """Return `results` if it is whole: where it comes from, a number for each seed and length, every number finite."""
    name = results.get("name")
    for key in ORIGIN:
        if not results.get(key):
            raise ValueError(f"results {name!r} lack {key!r}")
    check_finite(results, f"results {name!r}:")
    if "seeds" not in results:  # no arms over seeds
        return results
    for arm, values in results.get("methods", {}).items():
        seeds, scores = len(values.get("seeds", results["seeds"])), values.get("scores", {})
        rows = {kind: values[kind] for kind in KINDS if kind in values} | scores
        if not rows:
            raise ValueError(f"results {name!r}: {arm} has no scores")
        for kind, row in rows.items():
            if len(row) != seeds:
                raise ValueError(f"results {name!r}: {arm} {kind} has {len(row)} seeds, not {seeds}")
            if kind in KINDS and any(len(each) != len(results["lengths"]) for each in row):
                raise ValueError(f"results {name!r}: {arm} {kind} has a row that isn't {results['lengths']}: {row}")
        if "tests" in results and set(scores) != set(results["tests"]):
            raise ValueError(f"results {name!r}: {arm} has scores for {list(scores)}")
    return results


def check_finite(value, where: str) -> None:
    """Raise ValueError, naming where, for a number in nested dicts and lists that is infinite or NaN."""
    if isinstance(value, dict):
        for key, item in value.items():
            check_finite(item, f"{where} {key}")
    elif isinstance(value, list):
        for item in value:
            check_finite(item, where)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{where} holds {value!r}")


def on_windows(results: dict, arm: str, at: int = -1, kind: str = "whole") -> numpy.ndarray:
    r"""An arm's losses at a length, lengths[at]: one a seed, then one a block of windows, as `half_width` takes them.

    kind: "whole"; or "cut", of the text study at its longest context, whose blocks have a file of their own.
    """
    values = results["methods"][arm]
    seeds = [row[at] for row in values[kind]] if kind in values else [*values["scores"].values()][at]
    if kind == "cut":
        return numpy.append(seeds, load_results("text_blocks")["in_blocks"][arm][:BLOCKS])
    return numpy.append(seeds, numpy.mean([cell["whole"][at] for cell in values["blocks"]], 0))


# ----------------------------------------------------------------------------------------------------- what is written


def write_json(path: Path, value: dict) -> None:
    """Write a file in one move: a reader or an interruption finds the old one or the new one, never a half."""
    with replacing(path) as file:
        file.write((rows(json.loads(json.dumps(value))) + "\n").encode("utf-8"))


def rows(value, start: str = "\n") -> str:
    """JSON, a row a line: what fits into `WIDTH`, any list of numbers, and brackets with what is alone in them."""
    text, deeper = json.dumps(value, ensure_ascii=False), start + " "
    if len(text) <= WIDTH or not isinstance(value, (dict, list)):
        return text
    if isinstance(value, dict):
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {rows(item, deeper)}" for key, item in value.items()]
    elif any(isinstance(item, (dict, list, str)) for item in value):
        parts = [rows(item, deeper) for item in value]
    else:
        return text
    if len(parts) == 1:
        return text[0] + parts[0] + text[-1]
    return text[0] + deeper + f",{deeper}".join(parts) + start + text[-1]


def six_digits(value):
    """Numbers to six digits, in lists and dicts too."""
    if isinstance(value, dict):
        return {key: six_digits(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [six_digits(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value


# ------------------------------------------------------------------------------------------------- where it comes from


def provenance(name: str, preset: str, settings: Settings, command: str) -> dict:
    """What a reader needs to know about how a result was made: command, commit, versions, machine, settings, text."""
    corpus = load_corpus()
    modules = [module.__file__ for name, module in sys.modules.items() if name.startswith("posenc.")]
    versions = f"Python {platform.python_version()}, torch {torch.__version__}, numpy {numpy.__version__}"
    return {
        "name": name,
        "command": command,
        "commit": commit_of(*filter(None, modules)),
        "versions": f"{versions}, posenc {importlib.metadata.version('posenc')}",
        "machine": f"{cpu_model()}, {os.cpu_count()} cores, one thread a run",
        "preset": preset,
        "settings": settings.as_dict() if isinstance(settings, Settings) else dataclasses.asdict(settings),
        "corpus": {
            "name": corpus.name,
            "sha256": corpus.sha256,
            "characters": len(corpus.train) + len(corpus.held_out),
            "train_characters": len(corpus.train),
            "held_out_characters": len(corpus.held_out),
            "vocabulary": len(corpus.vocabulary),
        },
    }


def commit_of(*paths: str | Path) -> str:
    """The commit that these files of ours stand at, and which of them have changed since."""

    def git(*arguments):
        return subprocess.run(["git", *arguments], capture_output=True, text=True, cwd=Path(__file__).parent).stdout

    commit = git("rev-parse", "HEAD").strip() or "unknown"
    changes = git("status", "--porcelain", "--", *map(str, paths)).splitlines()
    return commit + (f", with changes in {', '.join(line[3:] for line in changes)}" if changes else "")


def cpu_model() -> str:
    """The processor's name, as far as the system tells."""
    try:
        return re.search(r"model name\s*:\s*(.+)", Path("/proc/cpuinfo").read_text()).group(1).strip()
    except (OSError, AttributeError):
        return platform.processor() or platform.machine()
