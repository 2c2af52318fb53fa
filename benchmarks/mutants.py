r"""Which changes of the reference code would no test notice?

    python benchmarks/mutants.py                   # every module
    python benchmarks/mutants.py alibi rope        # these only
    python benchmarks/mutants.py --workers 4       # four mutants at a time (default: 2)
    python benchmarks/mutants.py --again alibi     # only those of alibi that survived the last time
    python benchmarks/mutants.py --judge alibi     # try none, judge what the last run found with the list of now

mutmut changes one thing at a time in a function (an operator, a number, a word, an argument left out or None) and runs
the tests that reach this function, until one fails: the mutant is killed. It changes code in functions and methods;
lines of a module outside them, properties and other decorated functions it leaves alone. Only the tests named in
MODULES run, without those marked slow or browser: a mutant that only another test would notice counts as survived.
    killed     a test failed, or the tests did not end in time
    timeout    of those, how many did not end: 15 times as long as without the change and 15 seconds more
    survived   no test failed, or no test reaches the function
    wording    of those, how many differ only in a text within a `raise`: tests ask a message for the argument and its
               value, not for each word
    accepted   of those, how many others stand in tests/mutants_accepted.txt with the reason
Fails where fewer than 95% of all mutants are killed, those of wording included, or a survivor is neither wording nor
on the list. Writes results/site/mutants.json, where each module stands as its last run left it. Works in
_build/mutants; needs an operating system with fork (Linux, macOS).
"""

import argparse
import ast
import copy
import difflib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from functools import partial
from importlib.metadata import version
from pathlib import Path

from mutmut.stats import status_by_exit_code
from tqdm import tqdm

from posenc.lab.experiments import cpu_model, read_json, write_json

ROOT = Path(__file__).parents[1]
WORK = ROOT / "_build" / "mutants"
RESULTS = ROOT / "results" / "site" / "mutants.json"
ACCEPTED = ROOT / "tests" / "mutants_accepted.txt"
LEAST = 0.95
KILLED = ("killed", "timeout", "segfault")  # the last: the process died, or was ended, while it ran the tests
PLUGINS = ["-p", "no:cacheprovider", "-p", "no:unraisableexception"]  # the second's collection took 80% of the time
FIGURES = ("mutants", "killed", "timeout", "survived", "wording", "accepted")
CONTEXT = 24  # characters kept on both sides of a change in a long line

# module -> what judges it besides tests/test_<module>.py and those of COMMON
MODULES = {
    "sinusoidal": [],
    "learned": [],
    "alibi": [],
    "rope": [],
    "shaw": [],
    "t5": [],
    "transformer_xl": [],
    "kerple": [],
    "fire": [],
    "scaling": [],
    "stickbreaking": [],
    "exposb": [],
    "rse": [],
    "encoding": ["attention", "alibi", "rope", "sinusoidal"],
    "attention": ["alibi", "learned", "shaw"],
    "explore": ["explore_closely", "explore_pages"],
}
COMMON = ["bad_input", "mutants"]
OUTSIDE = {"explore.draw_pictures": "draws in a browser; the tests marked browser judge it"}  # not counted at all
# tests that draw or evaluate every explorable, start a Python, or are about files beside the package: too slow here
LEFT_OUT = (
    "each_slider_moves or still_picture or pictures_show or importing_explore or vendored or cache_follows or "
    "cache_depends or colab_links or make_mutants or functions_on_the_list"
)


def run_mutmut(module, workers, bar, again):
    r"""Make the mutants of posenc/<module>.py in _build/mutants/<module> and try each, or those that survived."""
    work = WORK / module
    survivors = [f"posenc.{module}.{name}" for name in alive(module)] if again else []
    if again and not survivors:
        return
    if not again:
        shutil.rmtree(work, ignore_errors=True)
        (work / "mutants").mkdir(parents=True)
        for name in ("posenc", "tests", "pyproject.toml"):  # mutmut copies them
            (work / name).symlink_to(ROOT / name)
        for name in ("book", "results"):  # tests only read them
            (work / "mutants" / name).symlink_to(ROOT / name)
    run = {"commit": commit(), "minutes": 0}
    begun = time.monotonic()
    files = [f"tests/test_{name}.py" for name in [module, *MODULES[module], *COMMON]]
    settings = {
        "source_paths": ["posenc/"],
        "only_mutate": [f"posenc/{module}.py"],
        "pytest_add_cli_args_test_selection": [file for file in files if (ROOT / file).exists()],
        "pytest_add_cli_args": ["-m", "not slow and not browser", "-k", f"not ({LEFT_OUT})", *PLUGINS],
    }
    lines = [f"{key} =\n    " + "\n    ".join(values) for key, values in settings.items()]
    (work / "setup.cfg").write_text("[mutmut]\n" + "\n".join(lines) + "\n")
    command = [Path(sys.executable).parent / "mutmut", "run", "--max-children", str(workers), *survivors]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "PYTHONUTF8": "1", "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    with (work / "log.txt").open("wb") as log:
        process = subprocess.Popen(command, cwd=work, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        done = 0
        while chunk := os.read(process.stdout.fileno(), 65536):
            log.write(chunk)
            if found := re.findall(rb"(\d+)/\d+ ", chunk):
                bar.update(int(found[-1]) - done)
                done = int(found[-1])
    if process.wait():
        tail = (work / "log.txt").read_text("utf-8", "replace").replace("\r", "\n")[-4000:]
        raise SystemExit(f"mutmut stopped at {module}:\n{tail}")
    write_json(work / "run.json", run | {"minutes": round((time.monotonic() - begun) / 60, 1)})


def functions(module):
    r"""The functions that mutmut wrote, originals and mutants: {its name for it: syntax tree}."""
    tree = ast.parse((WORK / module / "mutants" / "posenc" / f"{module}.py").read_text("utf-8"))
    bodies = [tree.body, *(node.body for node in tree.body if isinstance(node, ast.ClassDef))]
    return {node.name: node for body in bodies for node in body if isinstance(node, ast.FunctionDef)}


def label(module, name):
    r"""mutmut's xǁLinearBiasǁforward__mutmut_3 as "alibi.LinearBias.forward"."""
    return f"{module}." + name.split("__mutmut_")[0].removeprefix("x_").removeprefix("xǁ").replace("ǁ", ".")


def describe(module, name, trees):
    r"""(key, wording): the mutant as "module.function: old ==> new", and whether it changes only a text in a raise."""
    original, mutant = (copy.deepcopy(trees[key]) for key in (f"{name.split('__mutmut_')[0]}__mutmut_orig", name))
    original.name = mutant.name = "function"
    lines = list(difflib.ndiff(*(ast.unparse(tree).split("\n") for tree in (original, mutant))))
    old, new = (" ".join(line[2:].strip() for line in lines if line.startswith(sign)) for sign in "-+")
    for tree in (original, mutant):
        for node in (part for found in ast.walk(tree) if isinstance(found, ast.Raise) for part in ast.walk(found)):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                node.value = ""
    old, new = shortened(old, new)
    return f"{label(module, name)}: {old} ==> {new}", ast.dump(original) == ast.dump(mutant)


def shortened(old, new):
    r"""Two versions of a line without what both begin and end with, but for some characters beside the change."""
    start = len(os.path.commonprefix([old, new]))
    end = len(os.path.commonprefix([old[start:][::-1], new[start:][::-1]]))
    cut = max(0, start - CONTEXT)
    rest = max(0, end - CONTEXT)
    return tuple("…" * (cut > 0) + line[cut : len(line) - rest] + "…" * (rest > 0) for line in (old, new))


def read_accepted():
    r"""{key: reason} of tests/mutants_accepted.txt, a line "key  # reason" each; raises where a reason is missing."""
    accepted = {}
    for number, line in enumerate(ACCEPTED.read_text("utf-8").splitlines(), 1):
        if not line or line.startswith("#"):
            continue
        key, mark, reason = line.rpartition("  # ")
        if not mark or not reason.strip():
            raise SystemExit(f"{ACCEPTED.name}, line {number}: no reason; write <mutant>  # <reason>")
        accepted[key] = reason
    return accepted


def verdicts(module):
    r"""{mutant: what the tests' run ended with}, as mutmut wrote it down."""
    meta = json.loads((WORK / module / "mutants" / "posenc" / f"{module}.py.meta").read_text("utf-8"))
    codes = {name.split(".")[-1]: code for name, code in meta["exit_code_by_key"].items()}
    return {name: status_by_exit_code[code] for name, code in codes.items() if label(module, name) not in OUTSIDE}


def alive(module):
    return [name for name, verdict in verdicts(module).items() if verdict not in KILLED]


def judge(module, accepted):
    r"""(figures, keys of survivors that are neither wording nor accepted, keys of the accepted ones)."""
    trees = functions(module)
    survivors = [describe(module, name, trees) for name in alive(module)]
    keys = [key for key, wording in survivors if not wording]
    of = list(verdicts(module).values())
    figures = {
        "mutants": len(of),
        "killed": len(of) - len(survivors),
        "timeout": of.count("timeout"),
        "survived": len(survivors),
        "wording": len(survivors) - len(keys),
        "accepted": sum(key in accepted for key in keys),
    }
    return figures, [key for key in keys if key not in accepted], {key for key in keys if key in accepted}


def row(name, figures):
    share = figures["killed"] / figures["mutants"]
    return f"{name:15}" + "".join(f"{value:10,}" for value in figures.values()) + f"{share:10.1%}"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("modules", nargs="*", metavar="module", help=f"default: all of {' '.join(MODULES)}")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--again", action="store_true", help="try only those that survived the last time")
    parser.add_argument("--judge", action="store_true", help="only judge anew what lies in _build/mutants")
    options = parser.parse_args(arguments)
    if unknown := set(options.modules) - set(MODULES):
        parser.error(f"{sorted(unknown)}: write some of {' '.join(MODULES)}")
    modules = options.modules or list(MODULES)
    accepted = read_accepted()
    before = read_json(RESULTS)["modules"] if RESULTS.exists() else {}
    figures, unknown, met = {}, [], set()
    expected = sum(before.get(module, {}).get("mutants", 0) for module in modules)
    with tqdm(total=expected, unit="mutant", smoothing=0.05, disable=options.judge) as bar:
        for module in modules:
            bar.set_description(module)
            if not options.judge:
                run_mutmut(module, options.workers, bar, options.again)
            figures[module], more, found = judge(module, accepted)
            unknown += more
            met |= found
            write_json(RESULTS, together(before | {module: figures[module] | read_json(WORK / module / "run.json")}))
            before = read_json(RESULTS)["modules"]
            tqdm.write(row(module, figures[module]))
    total = {key: sum(one[key] for one in figures.values()) for key in FIGURES}
    print(f"{row('all', total)}\n{'':15}" + "".join(f"{key:>10}" for key in total))
    for key in sorted(key for key in set(accepted) - met if key.split(".")[0] in modules):
        print(f"no longer a survivor, take it off {ACCEPTED.name}: {key}")
    for key in unknown:
        print(f"survived, kill it by a test or give the reason in {ACCEPTED.name}: {key}")
    share = total["killed"] / total["mutants"]
    if share < LEAST:
        print(f"{share:.1%} killed, below {LEAST:.0%}")
    return 1 if unknown or share < LEAST else 0


def commit():
    r"""What the mutants were made of and judged by."""
    git = partial(subprocess.run, capture_output=True, text=True, cwd=ROOT, check=True)
    changed = git(["git", "status", "--porcelain", "--", "posenc", "tests"]).stdout.splitlines()
    words = f", with changes in {', '.join(line[3:] for line in changed)}" if changed else ""
    return git(["git", "rev-parse", "HEAD"]).stdout.strip() + words


def together(modules):
    r"""The content of results/site/mutants.json: each module as its last run left it."""
    question, _, rest = __doc__.partition("\n\n")
    modules = {module: modules[module] for module in MODULES if module in modules}
    total = {key: sum(one[key] for one in modules.values()) for key in FIGURES}
    return {
        "name": "mutants",
        "command": "python benchmarks/mutants.py",
        "versions": f"Python {platform.python_version()}, mutmut {version('mutmut')}, torch {version('torch')}",
        "machine": f"{cpu_model()}, {os.cpu_count()} cores",
        "question": question,
        "definition": rest.split("\n\n", 1)[1].strip(),
        "outside": OUTSIDE,
        "least": LEAST,
        "share": round(total["killed"] / total["mutants"], 4),
        "not_run": [module for module in MODULES if module not in modules],
        "total": total,
        "modules": modules,
    }


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
