r"""Fifty planted one-line faults, and whether the part of the tests that is to name each does: a measurement by hand.

    python tests/faults.py [--all] [--only WORD] [--limit SECONDS]

Each fault is planted in a copy of the tracked files, and its part run there: a file of tests, or for "site:PAGE" the
book built with the fault and the tests of that page (build it first, with `make html`: the copy goes on from there).
Each part also runs once without a fault: one that fails then is told as RED BEFORE, and names nothing. --all runs the
tests marked weekly too.
"""

import argparse
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parents[1]
BOOK = [sys.executable, "-c", "from jupyter_book.cli.main import main; main()", "build", "."]
SETTINGS = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0", "PYTHONUTF8": "1"}
BUILD_LIMIT = 3600  # seconds


class Fault(NamedTuple):
    """`old`, which stands in `file` once, becomes `new`; `part` is to name it."""

    file: str
    old: str
    new: str
    part: str


PLAYER, PLAYED = "posenc/lab/explore/static/player.js", "tests/site/test_player.py"
LABS = "tests/notebooks/test_labs.py"

# A fault is read in two or three lines: where, what, and the part.
# fmt: off
FAULTS = [
    # Methods
    Fault("posenc/embed/sinusoidal.py", "exponent = 2 * steps / dim", "exponent = steps / dim",  # half the range
          "tests/embed/test_sinusoidal.py"),
    Fault("posenc/rotate/rope.py", "[..., None].to(angle_dtype(x)) *", "[..., None].to(x.dtype) *",
          "tests/rotate/test_rope.py"),  # angles in the dtype of q
    Fault("posenc/rotate/scaling.py", "0.1 * mscale * math.log(factor)", "0.0",  # YaRN without its temperature
          "tests/rotate/test_scaling.py"),
    Fault("posenc/rotate/mrope.py", "int(parts[-1].max()) + 1", "int(parts[-1].max())",  # text begins in the picture
          "tests/rotate/test_mrope.py"),
    Fault("posenc/rotate/comrope.py", "own = blocks % self.axes", "own = blocks // self.axes",  # some have no axis
          "tests/rotate/test_liere.py"),  # whose tests are of both
    Fault("posenc/bias/alibi.py", "2 * power + 1)][0::2]", "2 * power + 1)][1::2]",  # slopes that are there already
          "tests/bias/test_alibi.py"),
    Fault("posenc/bias/t5.py", "(steps + 1e-9).long()", "steps.round().long()",  # the edges of the buckets move
          "tests/bias/test_t5.py"),
    Fault("posenc/bias/shaw.py", ".clamp(-clip, clip)", ".clamp(-clip, clip - 1)",
          "tests/bias/test_shaw.py"),
    Fault("posenc/bias/cope.py", "float32))).masked_fill(~visible, 0.0)", "float32)))",  # gates of the future count
          "tests/bias/test_cope.py"),
    Fault("posenc/weigh/stickbreaking.py", "row = torch.arange(keys - queries, keys,", "row = torch.arange(queries,",
          "tests/weigh/test_stickbreaking.py"),  # in decoding another key is taken for the query's own
    Fault("posenc/several/exposb.py", "self.decay_rates.to(dtype).abs()[:", "self.decay_rates.to(dtype)[:",
          "tests/several/test_exposb.py"),  # a negative rate grows without bound
    Fault("posenc/several/path.py", "2 * torch.sigmoid(raw", "torch.sigmoid(raw",  # no reflection beyond a projection
          "tests/several/test_path.py"),

    # What all methods stand on
    Fault("posenc/inputs.py", "visible.tril(keys - queries)", "visible.tril()",  # aligned at the top left
          "tests/test_attention.py"),
    Fault("posenc/encoding.py", "dim=-1).masked_fill(hidden, 0.0)", "dim=-1)",  # NaN in empty rows
          "tests/test_methods.py"),
    Fault("posenc/attention.py", "k, v = k.repeat_interleave(groups, dim=1), v.repeat_interleave(groups, dim=1)",
          "k, v = k.repeat(1, groups, 1, 1), v.repeat(1, groups, 1, 1)", "tests/test_properties.py"),
    Fault("posenc/layer.py", "return self.dropped + len(self)", "return len(self)",  # a cut cache counts anew
          "tests/test_attention.py"),
    Fault("posenc/fixed.py", "if held is not exact or version != version_of(exact):", "if held is not exact:",
          "tests/test_fixed.py"),  # numbers that were written to are read as they were
    Fault("posenc/positions.py", "if axes else ~positions.isfinite()", "if axes else positions.isinf()",  # NaN is taken
          "tests/test_positions.py"),

    # Kernels
    Fault("posenc/kernels/common.py", "last_own + 1 - strict + BLOCK_K - 1, 0)", "last_own + 1 - strict, 0)",
          "tests/kernels/test_kernels.py"),  # the block of the newest keys is skipped
    Fault("posenc/kernels/variants.py", "return d, d, d, -d", "return d, d, d, d",  # the sign of FoX's gradient
          "tests/kernels/test_contextual.py"),
    Fault("posenc/kernels/rotary.py", "long(b) * pos_stride[0] + long(t) * pos_stride[1]", "long(t) * pos_stride[1]",
          "tests/kernels/test_rotary.py"),  # all rows of a batch stand where the first does
    Fault("posenc/kernels/common.py", "return tl.cast(index, tl.int64)", "return tl.cast(index, tl.int32)",
          "tests/kernels/test_long_strides.py"),
    Fault("posenc/kernels/stickbreaking.py", "tl.cumsum(x, 1, reverse=LATER) - x", "tl.cumsum(x, 1, reverse=LATER)",
          "tests/kernels/test_stick_sums.py"),  # a key's own share counts among those before it

    # Audit, bridges, the table of methods
    Fault("posenc/audit/lanes.py", 'zip(("query", "key"), bench.rotate', 'zip(("query",), bench.rotate',
          "tests/test_audit.py"),
    Fault("posenc/bridges/functions.py", "seen = j <= i + (keys - queries)", "seen = j <= i", "tests/test_bridges.py"),
    Fault("posenc/methods.py", 'fails=("relative", "unseen"),  # beyond', 'fails=("unseen",),  # beyond',
          "tests/test_audit.py"),  # FIRE is called relative

    # Explorables: states and markup, then the player
    Fault("posenc/lab/explore/arrays.py", "if span <= 254 else", "if span <= 255 else",  # a number becomes a gap
          "tests/lab/test_explore.py"),
    Fault("posenc/lab/explore/page.py", 'max="{len(words) - 1}"', 'max="{len(words)}"',  # a place without a value
          "tests/lab/test_explore.py"),
    Fault(PLAYER, "findLastIndex((v) => v <= limit)", "findLastIndex((v) => v < limit)", PLAYED),
    Fault(PLAYER, "const least = Math.min(...found", "const least = Math.max(...found", PLAYED),  # takes the farthest
    Fault(PLAYER, "list.forEach((e) => e.redraw());", "list.forEach((e) => e.ready());", PLAYED),  # stays light

    # Figures
    Fault("book/rope/figures.py", "at_q, at_k = m + shift, n + shift", "at_q, at_k = m, n",
          "book/rope/test_rope.py"),  # a slider that moves nothing
    Fault("book/alibi/figures.py", "torch.softmax(content + row, -1)", "torch.softmax(content + row[:1], -1)",
          "book/alibi/test_alibi.py"),  # the bars of one head

    # Exercises and their graders
    Fault("posenc/lab/check/judging.py", "~((error <= tolerance) | (a == b) | (a.isnan() & b.isnan()))",
          "error > tolerance", "tests/lab/test_check.py"),  # NaN is right
    Fault("book/alibi/exercises.py", "[0::2] -> [1::2]", "[0::2] -> [0::2]",
          "tests/lab/test_check.py"),  # a named mistake is the right answer, and goes unnamed
    Fault("posenc/lab/check/cells.py", "points, words = 0, f", "points, words = exercise.points, f",
          "tests/lab/test_grader.py"),  # a stub earns

    # The labs
    Fault("book/_tools/labs.py", "ClearOutput, ClearHiddenTests, ClearMarkScheme)", "ClearOutput, ClearMarkScheme)",
          LABS),
    Fault("book/stickbreaking/lab.py", "z = torch.tensor([2.0, -3.0, -3.0, 2.0, -3.0])",
          "z = torch.tensor([2.0, -3.0, 2.0, 2.0, -3.0])", LABS),  # out of step with its notebook

    # Training and experiments
    Fault("posenc/lab/train/trainer.py", "(0.1 + 0.9 * (1 + math.cos", "(0.9 * (1 + math.cos",
          "tests/lab/test_train.py"),  # down to nothing
    Fault("posenc/lab/train/trainer.py", "torch.Generator().manual_seed(seed)\n", "torch.Generator().manual_seed(0)\n",
          "tests/lab/test_train.py"),  # each seed reads the same batches
    Fault("posenc/lab/train/tasks.py", "torch.full_like(original, IGNORE).scatter(1, places, answers)",
          "original.clone()", "tests/lab/test_tasks.py"),  # what is read as it is counts as an answer
    Fault("posenc/lab/experiments/verdicts.py", "T95[min(len(values) - 1,", "T95[min(len(values),",  # too narrow
          "tests/lab/test_experiments.py"),

    # Numbers of pages, and frozen results
    Fault("book/rope/facts.py", "rise['none'] - rise['fast']", "rise['none'] - rise['slow']",
          "book/rope/test_rope.py"),
    Fault("book/alibi/facts.py", "windows()[-1][3]", "windows()[-1][2]", "book/alibi/test_alibi.py"),
    Fault("posenc/lab/experiments/results.py", "not math.isfinite(value)", "math.isinf(value)",
          "tests/lab/test_experiments.py"),  # NaN is a number

    # The site
    Fault("book/rope/index.md", "**You need**: {doc}`../four_places/index`",
          "**You need**: {doc}`../four_place/index`", "site:book/rope/index.html"),
    Fault("book/in_your_own_model/index.md",
          ":alt: The four places of self-attention in order: embed, rotate, bias, weigh.\n:name: fig-own-places",
          ":name: fig-own-places", "site:book/in_your_own_model/index.html"),
    Fault("book/_ext/templates/book-footer.html", "By the posenc authors.",  # a page that needs the network
          '<img src="https://example.org/count.gif" alt="visits"> By the posenc authors.',
          "site:book/intro/index.html"),
    Fault("book/_static/posenc.css", "  overflow-x: auto;\n  max-width: 100%;", "  max-width: none;",
          "site:book/fox/index.html"),  # a wide formula moves the page sideways on a phone
    Fault("book/alibi/index.md", "{glue:text}`alibi_far_mildest`", "{glue:text}`alibi_far_mild`",
          "site:book/alibi/index.html"),
]
# fmt: on


def copied(build=False):
    """A folder with the tracked files as they are here, and what was built where that is asked for."""
    folder = Path(tempfile.mkdtemp(prefix="posenc-faults-")) / ROOT.name
    for command in (["clone", "-q", "--shared", "--no-checkout", ROOT, folder], ["-C", folder, "reset", "-q"]):
        subprocess.run(["git", *command], check=True)  # results name commits
    names = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(lambda name: (ROOT / name).is_file(), names.splitlines()):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(ROOT / name, folder / name)
    for name, place in (("results", "../results"), ("chapters", "../book")):  # as the installed package has them
        (folder / "posenc" / name).symlink_to(place)
    if build:
        shutil.copytree(ROOT / "_build", folder / "_build", symlinks=True)
    return folder


def run(command, folder, limit, **settings):
    """(exit code, what it printed); the code is None where it ran longer than the limit."""
    env = os.environ | SETTINGS | {"PYTHONPATH": str(folder)} | settings
    told = dict(stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True)
    process = subprocess.Popen(command, cwd=folder, env=env, **told)
    try:
        out = process.communicate(timeout=limit)[0]
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        return None, process.communicate()[0]
    return process.returncode, out


def answer(part, folder, marks, limit):
    """(word, first failing test) of a part of the tests in this folder: "fails", "passes", or why neither is said."""
    pytest = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", marks]
    if part.startswith("site:"):
        built = [*BOOK, "--warningiserror", "--keep-going"]
        code, out = run(built, folder, BUILD_LIMIT, POSENC_PRESET="nano", POSENC_BOOK="1")
        if code:
            warning = re.search(r".*(?:WARNING|ERROR|rror:).*", out)
            return "fails", f"the build: {warning[0].strip()[:150] if warning else code}"
        page = f"{part.removeprefix('site:')} or not .html"  # tests of this page, and those of none
        pytest += ["tests/site/test_site.py", "tests/site/test_smoke.py", "-k", page]
    else:
        pytest.append(part)
    code, out = run(pytest, folder, limit, POSENC_SITE=str(folder / "_build" / "html"))
    if code == 0:
        return ("passes" if re.search(r"\d+ passed", out) else "SKIPPED"), ""
    failed = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", out, re.MULTILINE)
    word = {None: "TIMEOUT", 4: "NO TEST", 5: "NO TEST"}.get(code, "fails")
    return word, failed[1] if failed and word == "fails" else ""


class Measurement:
    """What each part says, without faults and with each; the book is built again and again in one copy."""

    def __init__(self, marks, limit):
        self.marks, self.limit, self.before, self.site = marks, limit, {}, None

    def ask(self, part, fault=None):
        """The answer of a part in a copy in which a fault is planted, or none."""
        if part.startswith("site:"):
            folder = self.site = self.site or copied(build=True)
        else:
            folder = copied()
        if fault is not None:
            path = folder / fault.file
            before = path.read_text(encoding="utf-8")
            path.write_text(before.replace(fault.old, fault.new), encoding="utf-8", newline="\n")
        try:
            return answer(part, folder, self.marks, self.limit)
        finally:
            if folder != self.site:
                shutil.rmtree(folder.parent, ignore_errors=True)
            elif fault is not None:
                path.write_text(before, encoding="utf-8", newline="\n")

    def verdict(self, fault):
        """(word, first failing test) for a fault."""
        path = ROOT / fault.file
        if not path.exists() or path.read_text(encoding="utf-8").count(fault.old) != 1:
            return "BROKEN", f"{fault.old!r} does not stand there once"
        if fault.part.startswith("site:") and not (ROOT / "_build" / "html" / "index.html").exists():
            return "NO BOOK", "run `make html` first"
        if fault.part not in self.before:
            self.before[fault.part] = self.ask(fault.part)
        word, test = self.before[fault.part]
        if word != "passes":
            return ("RED BEFORE" if word == "fails" else word), test
        word, test = self.ask(fault.part, fault)
        return {"fails": "named", "passes": "MISSED"}.get(word, word), test


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--all", action="store_true", help="the weekly tests too")
    parser.add_argument("--only", default="", metavar="WORD", help="faults whose file or part holds this word")
    parser.add_argument("--limit", type=float, default=300, metavar="SECONDS", help="for a part; default 300")
    options = parser.parse_args()
    measurement, words = Measurement("" if options.all else "not weekly", options.limit), []
    for number, fault in enumerate(FAULTS, start=1):
        if options.only in fault.file or options.only in fault.part:
            word, test = measurement.verdict(fault)
            words.append(word)
            print(f"{number:2} {fault.file:40} {word:10}  {test}", flush=True)
    if measurement.site:
        shutil.rmtree(measurement.site.parent, ignore_errors=True)
    print(f"named {words.count('named')} of {len(words)}")


if __name__ == "__main__":
    main()
