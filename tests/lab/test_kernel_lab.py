"""The lab From formula to kernel: real Triton kernels that go wrong, each named; and what surrounds them.

`posenc.lab.exercises.kernels` knows the mistakes in PyTorch. Here the lab's own solutions are broken, a line each, and
run through Triton's interpreter, which must be chosen before Triton is imported: so in a process of its own.
"""

import json
import os
import subprocess
import sys

import pytest
from lab_runs import ROOT, errors, labs, printed, run_here

from posenc.lab.exercises import kernels, submission

LAB = labs.read(ROOT / "course" / "kernels.py", labs.address())
SOURCE = {cell.id: cell.source for cell in LAB.cells if cell.cell_type == "code"}
UNDONE = labs.strip(labs.read(ROOT / "course" / "kernels.py", labs.address()))
STUB = {cell.id: cell.source for cell in UNDONE.cells}
KERNELS = [name for name in kernels.EXERCISES if name != "tile_kind"]

UNHIDDEN = '        s = tl.where(rows[:, None] >= cols[None, :], s, float("-inf"))\n -> '
HIDDEN_AFTER = "tl.dot(p.to -> tl.dot(tl.where(rows[:, None] >= cols[None, :], p, 0.0).to"
SEEN, POSITIONS = "rows[:, None] >= cols[None, :]", "tl.load(positions_ptr + rows, mask=rows < T, other=0).to"
TO_THE_END = "tl.minimum(T, first + BLOCK_Q) -> T"

# exercise -> (what the check says, what its solution has -> what stands there instead, ...)
WRONG = {
    "unit_rows": [
        ("length)` writes outside of out, in 3 places. Is there a mask", "x / length, mask=cols < D) -> x / length)"),
        ("cols * x_col)` reads outside of x, in 3 places. Is there a mask", ", mask=cols < D, other=0.0) -> )"),
        ("out[1, 0] is never written; 10 of 15 numbers are missing", "tl.program_id(0) -> 0"),
        ("the square root is missing", "tl.sqrt(tl.sum(x * x)) -> tl.sum(x * x)"),
        ("you divide by the sum of the row", "tl.sqrt(tl.sum(x * x)) -> tl.sum(x)"),
        ("the root of the mean of the squares", "tl.sum(x * x) -> tl.sum(x * x) / D"),
        ("you divide by BLOCK", "tl.sum(x * x) -> tl.sum(x * x) / BLOCK"),
        ("the column stride is left out", "cols * x_col -> cols", "cols * out_col -> cols"),
        ("the row stride is left out", "row * x_row -> row * D", "row * out_row -> row * D"),
        ("reads far outside of all tensors", "row * x_row -> row * x_row * 100000"),
        ("into its input x", "out_ptr + row * out_row -> x_ptr + row * x_row", "cols * out_col -> cols * x_col"),
        ("raises NameError: name 'lenght' is not defined", "x / length, -> x / lenght,"),
    ],
    "turn_halves": [
        ("sign of the sine", "a * cos - b * sin -> a * cos + b * sin", "a * sin + b * cos -> b * cos - a * sin"),
        (
            "pairs of the other layout",
            "lanes[None, :] * x_col -> 2 * lanes[None, :] * x_col",
            "D // 2 * x_col -> x_col",
            "lanes[None, :] * out_col -> 2 * lanes[None, :] * out_col",
            "D // 2 * out_col -> out_col",
        ),
        ("rows turn by their index; load their", f"{POSITIONS} -> rows.to"),
        ("inside of the block", f"{POSITIONS} -> tl.arange(0, BLOCK).to"),
        ("turn by one position", "positions_ptr + rows, -> positions_ptr + rows * 0 + tl.program_id(0),"),
        (
            "the angles are in half precision",
            "position[:, None] * -> position[:, None].to(x_ptr.dtype.element_ty) *",
            "frequency[None, :] -> frequency[None, :].to(x_ptr.dtype.element_ty)",
            "(angle) -> (angle.to(tl.float32))",
        ),
        ("positions are in half", ".to(tl.float32)\n    frequency -> .to(x_ptr.dtype.element_ty)\n    frequency"),
        (
            "the second half is turned with the first after its turn",
            "    at_out = ->     a = a * cos - b * sin\n    at_out =",
            "tl.store(at_out, a * cos - b * sin -> tl.store(at_out, a",
        ),
        ("sine and cosine are swapped", "    cos = tl.cos ->     sin = tl.cos", "    sin = tl.sin ->     cos = tl.sin"),
        ("reads outside of x, in", "(rows[:, None] < T) & (lanes[None, :] < D // 2) -> rows[:, None] < T"),
        ("is never written", "tl.program_id(0) * BLOCK +  -> "),
    ],
    "online_softmax": [
        ("the normalizer is rescaled, the accumulator is not", "acc * old -> acc"),
        ("the accumulator is rescaled, the normalizer is not", "l * old -> l"),
        ("nothing is rescaled", "acc * old -> acc", "l * old -> l"),
        (None, "tl.maximum(m, tl.max(s)) -> 0.0 * tl.max(s)"),
        ("no maximum is", "m = -float -> m = 0.0  #", "tl.maximum(m, tl.max(s)) -> m", "m + tl.log(l) -> tl.log(l)"),
        ("the running maximum starts at 0", 'm = -float("inf") -> m = 0.0'),
        ("load them with other=-inf", 'other=-float("inf") -> other=0.0'),
        ("load them with other=-inf", ', other=-float("inf") -> '),
        ("only the last block counts", "l * old +  -> ", "acc * old +  -> ", "tl.maximum(m, tl.max(s)) -> tl.max(s)"),
        ("lse is the maximum alone", "m + tl.log(l) -> m"),
        ("lse is log l alone", "m + tl.log(l) -> tl.log(l)"),
        ("lse is the normalizer", "m + tl.log(l) -> l"),
        ("not divided by the normalizer", "acc / l -> acc"),
        ("reads outside of values", ", mask=cols < T, other=0.0 -> "),
    ],
    "attend": [
        ("not divided by sqrt(D)", 'ee") * scale -> ee")'),
        ("a query sees its own key too", ">= cols -> > cols"),
        ("causal off by one", "rows[:, None] >= cols -> rows[:, None] + 1 >= cols"),
        ("does not see the key after", f"{SEEN} -> (rows[:, None] + 1 >= cols[None, :]) & (cols[None, :] < T)"),
        ("i >= j is miss", UNHIDDEN),
        ("queries see the future, and the padding", UNHIDDEN, TO_THE_END),
        ("queries see the future: the mask", f"{SEEN} -> cols[None, :] < T", TO_THE_END),
        ("the mask comes after the exponential", UNHIDDEN, HIDDEN_AFTER),
        ("the mask comes after the exponential", UNHIDDEN, HIDDEN_AFTER, TO_THE_END),
        ("from the start of their", f"{SEEN} -> (rows - first)[:, None] >= (cols - start)[None, :]"),
        ("the normalizer is rescaled, the accumulator is not", "acc * old[:, None] -> acc"),
        ("the accumulator is rescaled, the normalizer is not", "l * old -> l"),
        ("nothing is rescaled", "acc * old[:, None] -> acc", "l * old -> l"),
        ("not divided by the normalizer", "acc / l[:, None] -> acc"),
        ("writes outside of out", ", mask=rows[:, None] < T)\n -> )\n"),
        ("reads outside of k", "tl.load(k_ptr + at_k, mask=cols[:, None] < T, other=0.0) -> tl.load(k_ptr + at_k)"),
        ("reads outside of v", "tl.load(v_ptr + at_k, mask=cols[:, None] < T, other=0.0) -> tl.load(v_ptr + at_k)"),
        ("is never written", "tl.program_id(1) * head_stride -> 0"),
    ],
    "break_stick": [
        ("all keys of a block take from one rest", " + before +  ->  + "),
        ("each block starts with a whole stick", "        log_rest += tl.sum(kept, axis=1)\n -> "),
        ("handed what the last block left alone", "log_rest += -> log_rest ="),
        ("the walk goes from the oldest block", "(last - n) * BLOCK_K -> n * BLOCK_K"),
        ("inside of a block the oldest key comes first", ", reverse=True -> "),
        ("the walk goes from key 0", "(last - n) * BLOCK_K -> n * BLOCK_K", ", reverse=True -> "),
        ("a key's own share is taken off", "reverse=True) - kept -> reverse=True)"),
        ("a query asks its own key", "rows[:, None] > cols -> rows[:, None] >= cols"),
        ("still break the stick", "tl.where(past, -softplus, 0.0) -> -softplus"),
        ("future get a share", "tl.where(past, tl.exp(log_a), 0.0) -> tl.exp(log_a)"),
        ("the log of the rest", "tl.exp(log_rest), mask -> log_rest, mask"),
        ("what was taken, not", "tl.exp(log_rest), mask -> 1 - tl.exp(log_rest), mask"),
        ("not divided by sqrt(D)", 'ee") * scale -> ee")'),
        ("writes outside of rest", "tl.exp(log_rest), mask=rows < T) -> tl.exp(log_rest))"),
        ("rest[1, 0] is never written", "rest_ptr + tl.program_id(1) -> rest_ptr + 0"),
    ],
}


# What is said where addresses are not looked at, as on a GPU.
UNWATCHED = {
    "unit_rows": [
        ("it writes outside of out, in 9 places", "x / length, mask=cols < D) -> x / length)"),
        ("out[0, 0] is NaN. What lies outside of the inputs is NaN here", ", mask=cols < D, other=0.0) -> )"),
    ],
    "break_stick": [
        ("it writes outside of rest", "tl.exp(log_rest), mask=rows < T) -> tl.exp(log_rest))"),
        ("all keys of a block take from one rest", " + before +  ->  + "),
    ],
}

WORK = """
import os, sys, json, linecache
os.environ["TRITON_INTERPRET"] = "1"
import torch, triton, triton.language as tl
from posenc.lab.exercises import find, judge, kernels
torch.set_num_threads(1)
for key, (exercise, source, watched) in json.load(sys.stdin).items():
    linecache.cache[key] = (len(source), None, source.splitlines(True), key)
    space = {"__name__": "__main__", "torch": torch, "triton": triton, "tl": tl}
    exec(compile(source, key, "exec"), space)
    if not watched:
        kernels._Watch.look = lambda *arguments: None
    verdict = judge(find("kernels." + exercise), space[exercise])
    print(json.dumps([key, verdict.right, verdict.undone, verdict.message]), flush=True)
"""

# Ahead of time, for GPUs that are not here: the solutions compile, the compiler's error on a stub is read as undone.
COMPILE = """
import os, sys, json, linecache
os.environ.pop("TRITON_INTERPRET", None)
import torch, triton, triton.language as tl
from triton.backends.compiler import GPUTarget
from posenc.lab.exercises import kernels
for key, (exercise, source, capability) in json.load(sys.stdin).items():
    linecache.cache[key] = (len(source), None, source.splitlines(True), key)
    space = {"__name__": "__main__", "torch": torch, "triton": triton, "tl": tl}
    exec(compile(source, key, "exec"), space)
    kernel = space[exercise + "_kernel"]
    sizes = {"BLOCK": 32, "HALF": 32, "D": 64, "BLOCK_Q": 64, "BLOCK_K": 32}
    fixed = {n: v for n, v in sizes.items() if n in kernel.arg_names and not (n == "D" and "BLOCK" in kernel.arg_names)}
    types = {n: "constexpr" if n in fixed else "*fp32" if n.endswith("_ptr") else "i32" for n in kernel.arg_names}
    types |= {n: t for n, t in {"scale": "fp32", "positions_ptr": "*i64"}.items() if n in types}
    types |= {n: "*fp16" for n in ("q_ptr", "k_ptr", "v_ptr", "out_ptr") if n in types and "q_ptr" in types}
    code = triton.compiler.ASTSource(kernel, types, constexprs=fixed)
    try:
        triton.compile(code, target=GPUTarget("cuda", capability, 32))
        outcome = "compiled"
    except Exception as error:
        try:
            kernels._explain(error)
        except NotImplementedError:
            outcome = "undone"
        except kernels.Problem as problem:
            outcome = problem.words
    print(json.dumps([key, outcome]), flush=True)
"""


def broken(exercise, edits):
    """The solution of an exercise with parts replaced, each of which it must have."""
    source = SOURCE[exercise]
    for edit in edits:
        old, _, new = edit.partition(" -> ")
        assert old in source, f"the solution of {exercise} has no {old!r}"
        source = source.replace(old, new)
    return source


def work(code, sources, **environment):
    """Run code on {key: (exercise, source, ...)} in a process of its own: {key: what it says}."""
    pytest.importorskip("triton", reason="Triton comes for Linux only")
    environment = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    result = subprocess.run(
        [sys.executable, "-c", code], input=json.dumps(sources), capture_output=True, text=True, env=environment
    )
    assert result.returncode == 0, result.stderr
    return {key: rest for key, *rest in map(json.loads, result.stdout.splitlines())}


def test_solutions_are_right_and_stubs_undone():
    sources = {f"right {name}": (name, SOURCE[name], True) for name in kernels.EXERCISES}
    sources |= {f"stub {name}": (name, STUB[name], True) for name in kernels.EXERCISES}
    for key, (right, undone, _) in work(WORK, sources).items():
        assert (right, undone) == (key.startswith("right"), key.startswith("stub")), key


@pytest.mark.weekly
def test_each_wrong_kernel_is_named_and_each_mistake_that_the_check_knows_was_seen():
    """But for the mask left out where the walk ends with the last block that a query reaches."""
    asked, wanted = {}, {}
    for watched, table in ((True, WRONG), (False, UNWATCHED)):
        for exercise, rows in table.items():
            for words, *edits in rows:
                wanted[str(len(asked))] = words
                asked[str(len(asked))] = exercise, broken(exercise, edits), watched
    said = work(WORK, asked)
    for key, (right, undone, message) in said.items():
        assert not right and not undone and message.startswith("not right yet: ") and "\n" not in message
        assert wanted[key] is None or wanted[key] in message, (asked[key], message)
    everything = " ".join(message for *_, message in said.values())
    known = [words for name in KERNELS for words in kernels.EXERCISES[name].mistakes]
    (unseen,) = [words for words in known if words not in everything]
    assert "i >= j" in unseen


@pytest.mark.weekly
@pytest.mark.parametrize("capability", [75, 90])
def test_solutions_compile_for_gpus_and_stubs_are_told_from_errors(capability, tmp_path):
    sources = {f"right {name}": (name, SOURCE[name], capability) for name in KERNELS}
    sources |= {f"stub {name}": (name, STUB[name], capability) for name in KERNELS}
    wrong = SOURCE["attend"].replace("tl.trans(k)", "tl.transposed(k)")
    said = work(COMPILE, sources | {"wrong": ("attend", wrong, capability)}, TRITON_CACHE_DIR=str(tmp_path))
    for name in KERNELS:
        assert said[f"right {name}"] == ["compiled"]
        assert said[f"stub {name}"] == ["undone"]
    assert "tl.transposed(k)" in said["wrong"][0] and "does not compile: " in said["wrong"][0]


def test_lab_runs_through_where_there_is_no_triton(monkeypatch):
    """As on macOS and Windows: one line says so, no cell raises, the checks say why nothing runs."""
    monkeypatch.setitem(sys.modules, "triton", None)
    monkeypatch.setitem(sys.modules, "triton.language", None)
    monkeypatch.setattr(submission, "_submissions", {})
    ran = run_here(LAB)
    assert not [name for name in errors(ran) if not name.endswith("_test")]
    assert printed(ran).count("There is no Triton on this system") == 1
    assert printed(ran).count(kernels.NO_TRITON[:-1]) == len(KERNELS)
    assert not errors(run_here(UNDONE))


@pytest.mark.weekly
def test_checks_import_no_triton():
    code = "import torch, sys; torch_brings = 'triton' in sys.modules; "
    code += (
        "import posenc.lab.exercises.kernels as k; k.EXERCISES; sys.exit('triton' in sys.modules and not torch_brings)"
    )
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
