r"""Results: frozen in results/, read by name, and refused where they are not whole.

results = load_results("flipflop")            # frozen, from results/flipflop.json
verdict(results, "rope").words                # came true, failed or not decided, with the numbers
"""

import dataclasses
import importlib.resources
import json
from collections.abc import Iterable
from pathlib import Path

from posenc.errors import check_choice, nearest
from posenc.lab.experiments.verdicts import CLAIMS
from posenc.lab.train import Settings
from posenc.lab.train.files import replacing
from posenc.lab.train.measure import KINDS

# None, and then a method for each of the four places: what pages show that need no more than that.
ONE_A_PLACE = ("nope", "sinusoidal", "rope", "alibi", "stickbreaking")
WIDTH = 210  # characters of a line of JSON: the losses of five seeds at four lengths


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


def check_results(results: dict) -> dict:
    """Return `results` if it is whole: provenance there, every list of the right length, every number finite."""
    if not isinstance(results, dict):
        raise ValueError(f"results must be a dict, not {type(results).__name__}")
    name = results.get("name")
    for key in ("name", "command", "commit", "versions", "machine", "settings"):
        if not results.get(key):
            raise ValueError(f"results {name!r} lack {key!r}")
    check_finite(results, f"results {name!r}:")
    if "methods" not in results and "claims" not in results:
        return results

    seeds, lengths = part(results, "seeds", list, []), part(results, "lengths", list, [])
    for method, values in part(results, "methods", dict).items():
        if not isinstance(values, dict):
            raise ValueError(f"results {name!r}: {method} must hold a dict, not {values!r:.60}")
        scores = part(values, "scores", dict, {}, f"results {name!r}: {method} ")
        rows = {kind: values[kind] for kind in KINDS if kind in values} | scores
        if not rows:
            raise ValueError(f"results {name!r}: {method} has no scores")
        own = part(values, "seeds", list, seeds, f"results {name!r}: {method} ")
        for kind, row in rows.items():
            flat = isinstance(row, list) and (kind in KINDS or not any(isinstance(each, list) for each in row))
            if not flat or not is_numbers(row):
                raise ValueError(f"results {name!r}: {method} {kind} must be a list of numbers, not {row!r:.60}")
            if len(row) != len(own):
                raise ValueError(f"results {name!r}: {method} {kind} has {len(row)} seeds, not {len(own)}")
            if kind in KINDS and any(not isinstance(each, list) or len(each) != len(lengths) for each in row):
                raise ValueError(f"results {name!r}: {method} {kind} has a row that isn't {lengths}: {row}")
        if "tests" in results and set(scores) != set(part(results, "tests", dict)):
            raise ValueError(f"results {name!r}: {method} has scores for {list(scores)}")
    if "claims" in results:
        check_claims(results)
    return results


def read_rates(path: Path, name: str, settings: Settings, arms: Iterable[str]) -> tuple[Settings, dict]:
    r"""What a file of `run_rates` chose, for the sweep `name`: the settings with its text held back, {arm: its rates}.

    The file may be another sweep's, as one choice for all puzzles. Errors: FileNotFoundError; ValueError for a file of
    something else, that lacks an arm, or that was made with other settings than these: the test's windows may differ,
    and between two sweeps the number of steps.
    """
    if not path.exists():
        raise FileNotFoundError(
            f"rates={str(path)!r}: no such file; python -m posenc.lab.experiments rates {name} --out {path} makes it"
        )
    chosen = read_results(path)
    if not chosen["name"].startswith("rates_"):
        raise ValueError(f"rates={str(path)!r} holds the results {chosen['name']!r}, no rates")
    settings = dataclasses.replace(settings, held_back=chosen["settings"].get("held_back", 0))
    ours = json.loads(json.dumps(settings.as_dict()))
    differ = [key for key in ours | chosen["settings"] if ours.get(key) != chosen["settings"].get(key)]
    free = {"windows"} if chosen["name"] == f"rates_{name}" else {"windows", "steps"}
    if set(differ) - free:
        raise ValueError(
            f"rates={str(path)!r} was made with other settings: {', '.join(sorted(differ))}. Choose rates with the same"
        )
    choice = part(chosen, "choice", dict)
    for arm in arms:
        if not {"lr", "own"} == set(part(choice, arm, dict, {}, f"rates={str(path)!r}: ")):
            raise ValueError(
                f"rates={str(path)!r} chose none for {arm!r}; add it with `rates {name}`, or leave the arm out"
            )
    return settings, choice


def check_claims(results: dict) -> None:
    """Raise ValueError unless a sweep's results hold what `verdict` reads."""
    name, methods = results["name"], results["methods"]
    part(results, "unit", str)
    part(results, "predictions", dict)
    if not is_numbers(results.get("tolerance")):
        raise ValueError(f"results {name!r}: tolerance={results.get('tolerance')!r:.60} must be a number")
    contrast, against = results.get("contrast"), results.get("against")
    if against is not None and against not in list(methods):
        raise ValueError(f"results {name!r} lack {against!r:.60}, which the others are compared with")
    if contrast is not None:
        start, end = contrast if isinstance(contrast, list) and len(contrast) == 2 else (None, None)
        whole = isinstance(end, str) and (isinstance(start, str) or against is not None)
        if not whole or "against" not in results:
            raise ValueError(f"results {name!r}: contrast={contrast!r:.60} must name two tests, or one and `against`")
    for method, claim in part(results, "claims", dict).items():
        if method not in methods or claim not in list(CLAIMS):
            raise ValueError(f"results {name!r}: {method} can't have the claim {claim!r:.60}")
        for arm in filter(None, (method, against)):
            tests = methods[arm] if contrast is None else methods[arm].get("scores", {})
            for test in ("whole", "cut") if contrast is None else filter(None, contrast):
                if test not in tests:
                    raise ValueError(f"results {name!r}: {arm} lacks {test!r:.60}")


def part(results, key, kind, default=None, where=None):
    """results[key]; ValueError naming it unless it is a `kind`."""
    value = results.get(key, default)
    if not isinstance(value, kind):
        where = f"results {results.get('name')!r}: " if where is None else where
        raise ValueError(f"{where}{key!r} must be a {kind.__name__}, not {value!r:.60}")
    return value


def check_finite(value, where):
    """Raise ValueError, naming where, for a number in nested dicts and lists that is infinite, NaN or beyond floats."""
    todo = [(value, where)]
    while todo:
        value, where = todo.pop()
        if isinstance(value, dict):
            todo += [(item, f"{where} {key}") for key, item in value.items()]
        elif isinstance(value, list):
            todo += [(item, where) for item in value]
        elif type(value) in (int, float) and not is_numbers(value):
            raise ValueError(f"{where} holds {value!r:.60}")


def is_numbers(value):
    """Whether nested lists hold nothing but finite numbers."""
    todo = [value]
    while todo:
        value = todo.pop()
        if isinstance(value, list):
            todo += value
        elif type(value) not in (int, float) or not -1e300 < value < 1e300:
            return False
    return True


def read_cell(path: Path) -> dict:
    r"""A finished cell of a sweep. Errors: as `read_json`."""
    cell = read_json(path, {"final_train_loss": float, "curve": list, "parameters": int, "seconds": float})
    try:
        check_finite(cell, "it:")
        part(cell, "scores", dict, {}, "")
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); move it away and run again") from error
    return cell


def read_json(path: Path, parts: dict | None = None) -> dict:
    r"""A JSON file of ours: a dict, with `parts` {key: type}.

    Errors: ValueError naming a file that is damaged or another; OSError for one that can't be read.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(value, dict):
            raise ValueError(f"it holds a {type(value).__name__}, not a dict")
        for key, kind in (parts or {}).items():
            part(value, key, kind, where="")
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}); move it away and run again") from error
    return value


def write_json(path: Path, value: dict) -> None:
    """Write a file in one move: a reader or an interruption finds the old one or the new one, never a half."""
    with replacing(path) as file:
        file.write((rows(json.loads(json.dumps(value))) + "\n").encode("utf-8"))


def rows(value, start: str = "\n") -> str:
    """JSON, a row a line: a list or dict that fits into `WIDTH`, and any list of numbers, stands on one."""
    text, deeper = json.dumps(value, ensure_ascii=False), start + " "
    if len(text) <= WIDTH or not isinstance(value, (dict, list)):
        return text
    if isinstance(value, dict):
        parts = [f"{json.dumps(key, ensure_ascii=False)}: {rows(item, deeper)}" for key, item in value.items()]
    elif any(isinstance(item, (dict, list, str)) for item in value):
        parts = [rows(item, deeper) for item in value]
    else:
        return text
    return text[0] + deeper + f",{deeper}".join(parts) + start + text[-1]


def six_digits(value):
    """Numbers to six digits, in lists and dicts too."""
    if isinstance(value, dict):
        return {key: six_digits(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [six_digits(item) for item in value]
    return round(value, 6) if isinstance(value, float) else value
